"""The ratio of two means that were measured apart, with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.theory.stats.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ratio_of"]


def ratio_of(above: Interval, below: Interval) -> Interval:
    """``above.mean / below.mean`` with an interval from those of both, on logarithms.

    Assumes that the two are independent and of the same level. Each end takes the distances that move the ratio to its side::

        ln low  = ln r - sqrt((ln above.mean - ln above.low)^2 + (ln below.high - ln below.mean)^2)
        ln high = ln r + sqrt((ln above.high - ln above.mean)^2 + (ln below.mean - ln below.low)^2)

    ``n`` is the smaller of both. Method: Zou and Donner, Construction of confidence limits about effect measures, Statistics in Medicine
    27, 2008 (recovery of variances from the limits), here for the difference of two logarithms.

    >>> one, other = Interval(200.0, 190.0, 210.0, 5, 0.95), Interval(100.0, 95.0, 105.0, 5, 0.95)
    >>> found = ratio_of(one, other)
    >>> found.mean, round(found.low, 2), round(found.high, 2)
    (2.0, 1.86, 2.15)
    """
    parts = [math.log(part) for one in (above, below) for part in _positive((one.low, one.mean, one.high))]
    if above.level != below.level:
        raise ValueError(f"The intervals hold at {above.level:g} and {below.level:g}: give two of the same level.")
    above_low, above_mean, above_high, below_low, below_mean, below_high = parts
    down = math.hypot(above_mean - above_low, below_high - below_mean)
    up = math.hypot(above_high - above_mean, below_mean - below_low)
    ratio = above.mean / below.mean
    return Interval(ratio, ratio * math.exp(-down), ratio * math.exp(up), min(above.n, below.n), above.level)


def _positive(values: Sequence[float]) -> Sequence[float]:
    if not all(value > 0.0 and math.isfinite(value) for value in values):
        raise ValueError(f"A ratio on logarithms takes positive means and ends, not {values}.")
    return values
