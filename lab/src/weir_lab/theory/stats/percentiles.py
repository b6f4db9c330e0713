"""How many samples a percentile needs.

Samples must be independent; response times inside one run are not (they queue behind each other). So the count is a least one: for a
percentile of a system take one percentile per run and `mean_interval` over runs.
"""

from __future__ import annotations

import math

from weir_lab.theory.stats._inputs import checked_level

__all__ = ["percentile_min_count"]


def percentile_min_count(percent: float, level: float = 0.95) -> int:
    """Fewest samples whose range holds the percentile with confidence `level`: 1 - q^n - (1-q)^n >= level.

    >>> [percentile_min_count(percent) for percent in (90.0, 95.0, 99.0, 99.9)]
    [29, 59, 299, 2995]
    """
    q = _share(percent)
    outer = max(q, 1.0 - q)
    # q^n alone gives a lower bound of n that is at most a few too small.
    n = max(2, math.ceil(math.log(1.0 - checked_level(level)) / math.log(outer)))
    while 1.0 - q**n - (1.0 - q) ** n < level:
        n += 1
    return n


def _share(percent: float) -> float:
    if not 0.0 < percent < 100.0:
        raise ValueError(f"A percentile lies between 0 and 100, not {percent}.")
    return percent / 100.0
