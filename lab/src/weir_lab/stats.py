"""Intervals on run means and paired comparisons. Pure functions on sequences of numbers.

The unit of replication is the run, never the window inside a run: windows of one run are correlated, and their interval is too short
(docs/method.md has the numbers). Start with `mean_interval` and `paired_change`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes a second to load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Change", "Interval", "coefficient_of_variation", "holm", "mean_interval", "paired_change"]


@dataclass(frozen=True)
class Interval:
    """A mean over runs with its two-sided confidence interval, in the unit of the data."""

    mean: float
    low: float
    high: float
    n: int
    level: float

    @property
    def half_width(self) -> float:
        """Half of the interval's length."""
        return (self.high - self.low) / 2.0

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit (positive factor)."""
        return Interval(self.mean * factor, self.low * factor, self.high * factor, self.n, self.level)


@dataclass(frozen=True)
class Change:
    """Change from a baseline to a treatment, in percent of the baseline: -50 is half as much, +100 twice as much.

    ``detectable_percent`` is the smallest rise that this comparison finds in 4 of 5 repetitions of the experiment at its level.
    """

    percent: float
    low: float
    high: float
    n: int
    level: float
    p: float
    detectable_percent: float


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's t interval on the mean of run means: mean +- t(n-1) s / sqrt(n), s with n-1.

    Assumes independent runs whose means are roughly normal. Reference: Jain, The Art of Computer Systems Performance Analysis, ch. 13.

    >>> mean_interval([1.0, 2.0, 3.0]).half_width.__round__(3)
    2.484
    """
    data = _runs(values)
    mean = float(data.mean())
    half = _t(level, data.size - 1) * _standard_error(data)
    return Interval(mean, mean - half, mean + half, int(data.size), level)


def paired_change(baseline: Sequence[float], treatment: Sequence[float], level: float = 0.95) -> Change:
    """Paired t interval on log(treatment / baseline), block by block, back-transformed to a change in percent.

    The log makes a change and its inverse symmetric and keeps the interval above -100 %. ``p`` is two-sided, for no change.

    >>> round(paired_change([100.0, 200.0], [50.0, 100.0]).percent, 6)
    -50.0
    """
    before, after = _runs(baseline), _runs(treatment)
    if before.size != after.size:
        raise ValueError(f"A paired comparison needs pairs, not {before.size} against {after.size} values.")
    if (before <= 0).any() or (after <= 0).any():
        raise ValueError("A ratio needs positive values.")
    ratios = np.log(after / before)
    mean, error, freedom = float(ratios.mean()), _standard_error(ratios), ratios.size - 1
    half = _t(level, freedom) * error
    # Identical pairs have no spread: the change is exact, and "no change" is either certain or impossible.
    p = 2.0 * float(stdtr(freedom, -abs(mean) / error)) if error > 0 else float(mean == 0.0)
    detectable = (_t(level, freedom) + float(stdtrit(freedom, 0.8))) * error
    return Change(
        _percent(mean),
        _percent(mean - half),
        _percent(mean + half),
        int(ratios.size),
        level,
        p,
        _percent(detectable),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for the number of comparisons made side by side (Holm 1979).

    >>> holm([0.01, 0.04])
    [0.02, 0.04]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Sample standard deviation (n-1) over mean."""
    data = _runs(values)
    return float(data.std(ddof=1) / data.mean())


def _runs(values: Sequence[float]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size < 2:
        raise ValueError(f"An interval needs at least 2 runs, not {data.size}.")
    if not np.isfinite(data).all():
        raise ValueError("An interval needs finite numbers.")
    return data


def _standard_error(data: NDArray[np.float64]) -> float:
    return float(data.std(ddof=1) / np.sqrt(data.size))


def _t(level: float, freedom: int) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"A confidence level lies between 0 and 1, not {level}.")
    return float(stdtrit(freedom, 0.5 + level / 2.0))


def _percent(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))
