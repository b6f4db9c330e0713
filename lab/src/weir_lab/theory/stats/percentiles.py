"""What a number of samples can say about a percentile.

Order statistics give an interval without any assumption on the distribution, but samples must be independent: response times inside one
run are not (they queue behind each other), so such an interval is too short there. Use it for independent samples and for minimum counts;
for a percentile of a system take one percentile per run and `mean_interval` over runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr

from weir_lab.theory.stats._inputs import checked_level, finite

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["PercentileInterval", "percentile_interval", "percentile_min_count", "percentile_ranks"]


@dataclass(frozen=True)
class PercentileInterval:
    """A sample percentile between two order statistics, in the unit of the data; ``coverage`` is exact for continuous data."""

    percent: float
    value: float
    low: float
    high: float
    n: int
    coverage: float


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


def percentile_ranks(n: int, percent: float, level: float = 0.95) -> tuple[int, int, float]:
    """The closest 1-based ranks l < u with P(x_(l) <= percentile < x_(u)) >= level, and that probability.

    The number of samples below the percentile is binomial(n, q), so the probability is F(u-1) - F(l-1). Reference: David and Nagaraja,
    Order Statistics, section 7.1.

    >>> percentile_ranks(100, 50.0)
    (40, 60, 0.9539...)
    """
    if n < percentile_min_count(percent, level):
        least = percentile_min_count(percent, level)
        raise ValueError(f"The {percent:g}th percentile needs at least {least} samples for an interval, not {n}.")
    q = _share(percent)
    reach = 12.0 * math.sqrt(n * q * (1.0 - q)) + 12.0
    first, last = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    counts = np.arange(first, last + 1)
    below = np.asarray(bdtr(counts.astype(np.float64), n, q))  # F(k) for k = first..last
    lower = np.arange(max(1, first + 1), last + 1)
    start = below[lower - 1 - first]
    # Smallest u with F(u-1) >= F(l-1) + level; beyond the last one looked at there is none.
    found = np.searchsorted(below, start + level * (1.0 - 1e-12))
    upper = first + found + 1
    possible = (found < below.size) & (upper <= n)
    # Among the closest pairs the one that holds most probability.
    covers = np.where(possible, below[np.minimum(found, below.size - 1)] - start, 0.0)
    width = np.where(possible, upper - lower, n + 1)
    best = int(np.lexsort((-covers, width))[0])
    return int(lower[best]), int(upper[best]), float(covers[best])


def percentile_interval(samples: ArrayLike, percent: float, level: float = 0.95) -> PercentileInterval:
    """Distribution-free interval of a percentile from independent samples; the value is the sample of rank ceil(q n).

    >>> percentile_interval(range(1, 101), 50.0).low
    40.0
    """
    data = np.sort(finite(samples, "A percentile"))
    low, high, coverage = percentile_ranks(int(data.size), percent, level)
    rank = max(1, math.ceil(_share(percent) * data.size))
    return PercentileInterval(
        percent, float(data[rank - 1]), float(data[low - 1]), float(data[high - 1]), int(data.size), coverage
    )


def _share(percent: float) -> float:
    if not 0.0 < percent < 100.0:
        raise ValueError(f"A percentile lies between 0 and 100, not {percent}.")
    return percent / 100.0
