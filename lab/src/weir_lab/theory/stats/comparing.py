"""Is B different from A, by how much, or provably the same? Paired where runs share a block, Welch where they do not.

A ratio is the natural scale of times and rates: `paired_change` and `unpaired_change` work on logarithms. `paired_difference` and
`welch_difference` keep the unit of the data. An interval that holds "no change" shows no difference; it does not show equality, which
`equivalence` does against a margin that was chosen beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr, stdtrit

from weir_lab.theory.stats._inputs import checked_level, runs_of, standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Alternative",
    "Change",
    "Difference",
    "Equivalence",
    "change_of_logs",
    "equivalence",
    "holm",
    "paired_change",
    "paired_difference",
    "unpaired_change",
    "welch_difference",
]


class Alternative(StrEnum):
    """What would be news: any difference, or one in the direction named before the data were seen."""

    TWO_SIDED = "two-sided"
    GREATER = "greater"
    LESS = "less"


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


@dataclass(frozen=True)
class Difference:
    """Treatment minus baseline, in the unit of the data; one-sided intervals reach to infinity on the other side."""

    mean: float
    low: float
    high: float
    standard_error: float
    freedom: float
    level: float
    p: float
    alternative: Alternative


@dataclass(frozen=True)
class Equivalence:
    """Whether a change lies inside +- ``margin_percent`` (two one-sided tests). ``p`` is the larger of the two."""

    change: Change
    margin_percent: float
    p: float
    alpha: float

    @property
    def shown(self) -> bool:
        """Whether equivalence within the margin is shown at the error rate ``alpha``."""
        return self.p < self.alpha


def paired_difference(
    baseline: ArrayLike,
    treatment: ArrayLike,
    level: float = 0.95,
    alternative: Alternative = Alternative.TWO_SIDED,
) -> Difference:
    """Paired t interval on treatment - baseline, block by block. Reference: Jain, section 13.4.1.

    >>> paired_difference([1.0, 2.0, 3.0], [2.0, 4.0, 3.0]).mean
    1.0
    """
    before, after = _pairs(baseline, treatment)
    gaps = after - before
    return _difference(float(gaps.mean()), standard_error(gaps), gaps.size - 1, level, alternative)


def welch_difference(
    baseline: ArrayLike,
    treatment: ArrayLike,
    level: float = 0.95,
    alternative: Alternative = Alternative.TWO_SIDED,
) -> Difference:
    """Welch's t interval on the difference of two means whose variances may differ.

    Degrees of freedom after Satterthwaite: (a + b)^2 / (a^2/(n-1) + b^2/(m-1)), a and b the squared standard errors. (Jain's book has
    n + 1, m + 1 and takes 2 off, which is an older form and gives more freedom.) Reference: Welch, Biometrika 34 (1947).

    >>> round(welch_difference([1.0, 2.0, 3.0], [2.0, 4.0, 9.0]).freedom, 3)
    2.306
    """
    before, after = runs_of(baseline), runs_of(treatment)
    mean, error, freedom = _welch(before, after)
    return _difference(mean, error, freedom, level, alternative)


def paired_change(baseline: ArrayLike, treatment: ArrayLike, level: float = 0.95) -> Change:
    """Paired t interval on log(treatment / baseline), block by block, back-transformed to a change in percent.

    The log makes a change and its inverse symmetric and keeps the interval above -100 %. ``p`` is two-sided, for no change.

    >>> round(paired_change([100.0, 200.0], [50.0, 100.0]).percent, 6)
    -50.0
    """
    before, after = _pairs(baseline, treatment)
    ratios = np.log(_positive(after) / _positive(before))
    return change_of_logs(float(ratios.mean()), standard_error(ratios), ratios.size - 1, int(ratios.size), level)


def unpaired_change(baseline: ArrayLike, treatment: ArrayLike, level: float = 0.95) -> Change:
    """Welch's interval on the difference of mean logarithms, back-transformed to a change in percent (ratio of geometric means).

    ``n`` is the smaller number of runs. Use it only where runs share no block: pairing removes what a block has in common.

    >>> round(unpaired_change([100.0, 101.0, 99.0], [200.0, 202.0, 198.0]).percent, 6)
    100.0
    """
    before, after = np.log(_positive(runs_of(baseline))), np.log(_positive(runs_of(treatment)))
    mean, error, freedom = _welch(before, after)
    return change_of_logs(mean, error, freedom, int(min(before.size, after.size)), level)


def equivalence(
    baseline: ArrayLike, treatment: ArrayLike, margin_percent: float, alpha: float = 0.05, *, paired: bool = True
) -> Equivalence:
    """Two one-sided t tests on the log ratio against the margins 1/(1+m) and 1+m (TOST; Schuirmann 1987).

    The change is given with its 1 - 2 alpha interval: equivalence is shown exactly when that interval lies inside the margins.

    >>> equivalence([100.0, 101.0, 99.0, 100.0], [100.0, 100.5, 99.5, 100.0], 2.0).shown
    True
    """
    if margin_percent <= 0.0 or not 0.0 < alpha < 0.5:
        raise ValueError("Equivalence needs a positive margin and an error rate between 0 and 0.5.")
    if paired:
        before, after = _pairs(baseline, treatment)
        ratios = np.log(_positive(after) / _positive(before))
        mean, error, freedom, n = float(ratios.mean()), standard_error(ratios), ratios.size - 1.0, ratios.size
    else:
        left, right = np.log(_positive(runs_of(baseline))), np.log(_positive(runs_of(treatment)))
        (mean, error, freedom), n = _welch(left, right), min(left.size, right.size)
    margin = math.log1p(margin_percent / 100.0)
    above = _p(mean - margin, error, freedom, Alternative.LESS)
    below = _p(mean + margin, error, freedom, Alternative.GREATER)
    change = change_of_logs(mean, error, freedom, int(n), 1.0 - 2.0 * alpha)
    return Equivalence(change, margin_percent, max(above, below), alpha)


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


def _pairs(baseline: ArrayLike, treatment: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    before, after = runs_of(baseline), runs_of(treatment)
    if before.size != after.size:
        raise ValueError(f"A paired comparison needs pairs, not {before.size} against {after.size} values.")
    return before, after


def _positive(data: NDArray[np.float64]) -> NDArray[np.float64]:
    if (data <= 0).any():
        raise ValueError("A ratio needs positive values.")
    return data


def _welch(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float, float]:
    mean = float(after.mean() - before.mean())
    left, right = standard_error(before), standard_error(after)
    error = math.hypot(left, right)
    if error == 0.0:
        return mean, 0.0, float(before.size + after.size - 2)
    # Shares of the squared error, so that nothing underflows for tiny spreads.
    a, b = (left / error) ** 2, (right / error) ** 2
    return mean, error, 1.0 / (a**2 / (before.size - 1) + b**2 / (after.size - 1))


def _difference(mean: float, error: float, freedom: float, level: float, alternative: Alternative) -> Difference:
    checked_level(level)
    two_sided = alternative is Alternative.TWO_SIDED
    reach = float(stdtrit(freedom, 0.5 + level / 2.0 if two_sided else level)) * error
    low = -math.inf if alternative is Alternative.LESS else mean - reach
    high = math.inf if alternative is Alternative.GREATER else mean + reach
    return Difference(mean, low, high, error, float(freedom), level, _p(mean, error, freedom, alternative), alternative)


def change_of_logs(mean: float, error: float, freedom: float, n: int, level: float) -> Change:
    """Back-transform a mean log ratio with its standard error."""
    quantile = float(stdtrit(freedom, 0.5 + checked_level(level) / 2.0))
    half, detectable = quantile * error, (quantile + float(stdtrit(freedom, 0.8))) * error
    return Change(
        _percent(mean),
        _percent(mean - half),
        _percent(mean + half),
        n,
        level,
        _p(mean, error, freedom, Alternative.TWO_SIDED),
        _percent(detectable),
    )


def _p(mean: float, error: float, freedom: float, alternative: Alternative) -> float:
    """P value of "no difference". Data without spread are exact: then it is either certain or impossible."""
    if error <= 0.0:
        holds = {
            Alternative.TWO_SIDED: mean == 0.0,
            Alternative.GREATER: mean <= 0.0,
            Alternative.LESS: mean >= 0.0,
        }[alternative]
        return float(holds)
    if alternative is Alternative.TWO_SIDED:
        return 2.0 * float(stdtr(freedom, -abs(mean) / error))
    sign = -1.0 if alternative is Alternative.GREATER else 1.0
    return float(stdtr(freedom, sign * mean / error))


def _percent(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))
