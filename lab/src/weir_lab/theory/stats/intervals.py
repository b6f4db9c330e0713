"""How well a mean is known: intervals on run means, and where the spread comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.stats._inputs import finite, runs_of, standard_error, t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = [
    "Interval",
    "VarianceComponents",
    "coefficient_of_variation",
    "mean_interval",
    "variance_components",
]


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
class VarianceComponents:
    """Where the spread comes from, in the squared unit of the data.

    ``within`` is the variance of windows around the mean of their run, ``between`` the variance of the runs' true means. ``within``
    divided by ``windows_per_run`` is what is left of it in a run mean if windows are independent.
    """

    within: float
    between: float
    runs: int
    windows_per_run: float

    @property
    def more_runs_help(self) -> bool:
        """Whether the spread between runs outweighs what is left of the spread inside them: more runs, rather than longer ones."""
        return self.between > self.within / self.windows_per_run


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval on the mean of run means: mean +- t(n-1) s / sqrt(n), s with n-1.

    Assumes independent runs whose means are roughly normal. Reference: Jain, The Art of Computer Systems Performance Analysis, ch. 13.

    >>> mean_interval([1.0, 2.0, 3.0]).half_width.__round__(3)
    2.484
    """
    data = runs_of(values)
    mean = float(data.mean())
    half = t_quantile(level, data.size - 1) * standard_error(data)
    return Interval(mean, mean - half, mean + half, int(data.size), level)


def variance_components(windows_by_run: Sequence[ArrayLike]) -> VarianceComponents:
    """One-way random-effects analysis: MS_within, and (MS_between - MS_within) / n0, at least 0.

    ``n0`` is the run length that makes this exact for runs of different length. References: Kalibera and Jones, Rigorous benchmarking in
    reasonable time (2013); Searle, Variance Components, ch. 3.

    >>> variance_components([[1.0, 3.0], [5.0, 7.0]])
    VarianceComponents(within=2.0, between=7.0, runs=2, windows_per_run=2.0)
    """
    runs = [finite(windows, "A run", at_least=2) for windows in windows_by_run]
    if len(runs) < 2:
        raise ValueError(f"Spread between runs needs at least 2 runs, not {len(runs)}.")
    sizes = np.array([run.size for run in runs], dtype=np.float64)
    means = np.array([run.mean() for run in runs])
    total = float(sizes.sum())
    grand = float((sizes * means).sum()) / total
    within = sum(float(((run - run.mean()) ** 2).sum()) for run in runs) / (total - len(runs))
    mean_square = float((sizes * (means - grand) ** 2).sum()) / (len(runs) - 1)
    typical = (total - float((sizes**2).sum()) / total) / (len(runs) - 1)
    return VarianceComponents(within, max(0.0, (mean_square - within) / typical), len(runs), typical)


def coefficient_of_variation(values: ArrayLike) -> float:
    """Sample standard deviation (n-1) over mean."""
    data = runs_of(values)
    return float(data.std(ddof=1) / data.mean())
