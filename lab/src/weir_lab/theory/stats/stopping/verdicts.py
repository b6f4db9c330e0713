"""Lives -> a verdict. Pure.

A life has pairs of short pieces, one of A and one of B beside each other in random order. Its value is the trimmed mean of its pairs'
logarithms of B / A, each brought to equal speed of the machine: one number per life, and lives are the independent ones. Over lives goes an
interval that holds at every look (`sequential`), and the verdict is read off it: each is a statement about the true change that is
right whenever the interval holds it. Start with `judge`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.errors import RecordError
from weir_lab.theory.stats.intervals import Interval
from weir_lab.theory.stats.stopping.sequential import Look, SequentialPlan, repeated_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Direction", "Judgement", "Pair", "Verdict", "judge", "life_values", "slope_on_slowness"]

# A burst of a neighbour hits single pieces; a fifth of the pairs at either end may be spoiled before the mean of a life moves.
_TRIMMED = 0.2
# From three pairs on at least one at either end.
_TRIMMED_FROM = 3


class Verdict(StrEnum):
    """What may be said of B."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


class Direction(StrEnum):
    """Whether a larger value of the metric is good (requests per second) or bad (times)."""

    HIGHER_IS_FASTER = "higher is faster"
    LOWER_IS_FASTER = "lower is faster"


@dataclass(frozen=True)
class Pair:
    """Two pieces side by side: log of B / A in the metric, and in the time of the yardstick's piece around them."""

    log_ratio: float
    log_slowness: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """The verdict, and the interval on the log of B / A that it was read off."""

    verdict: Verdict
    log_change: Interval

    @property
    def change(self) -> tuple[float, float, float]:
        """Change from A to B in percent, with its interval's ends."""
        low, mid, high = (
            100.0 * math.expm1(value) for value in (self.log_change.low, self.log_change.mean, self.log_change.high)
        )
        return mid, low, high


def judge(
    values: Sequence[float] | NDArray[np.float64],
    looks: tuple[Look, ...],
    plan: SequentialPlan,
    same_within: float,
    direction: Direction,
) -> Judgement:
    """The verdict at the last look; `same_within` is a share: .02 for 2 %. The margins are 1/1.02 and 1.02.

    >>> looks = (Look(5, 1.0),)
    >>> judge([0.1, 0.11, 0.09, 0.1, 0.1], looks, SequentialPlan(), 0.02, Direction.LOWER_IS_FASTER).verdict.value
    'slower'
    """
    if not same_within > 0.0:
        raise ValueError("What counts as the same needs a margin above 0.")
    interval = repeated_interval(values, looks, plan)
    margin = math.log1p(same_within)
    if -margin < interval.low and interval.high < margin:
        verdict = Verdict.SAME
    elif interval.low <= 0.0 <= interval.high:
        verdict = Verdict.CANNOT_TELL
    else:
        gains = (interval.low > 0.0) == (direction is Direction.HIGHER_IS_FASTER)
        verdict = Verdict.FASTER if gains else Verdict.SLOWER
    return Judgement(verdict, interval)


def life_values(lives: Sequence[Sequence[Pair]], *, adjusted: bool = True) -> NDArray[np.float64]:
    """One value per life: the trimmed mean of its pairs, at equal speed of the machine."""
    slope = slope_on_slowness(lives) if adjusted else 0.0
    return np.array([_trimmed_mean([pair.log_ratio - slope * pair.log_slowness for pair in life]) for life in lives])


def slope_on_slowness(lives: Sequence[Sequence[Pair]]) -> float:
    """By how many percent a pair's ratio moves where its slowness moves by 1 %: one slope inside all lives together; 0 if none shows.

    The yardstick is read between pieces, when neither side works, so it cannot depend on the side that is measured.
    The order of a pair is random, so slowness is on no side on average, and a slope that is a little off costs
    precision, not truth. It is used only where it is more than two standard errors from 0. Reference: Cochran,
    Biometrics 13 (1957), the analysis of covariance.
    """
    if not any(pair.log_slowness for life in lives for pair in life):
        return 0.0
    finite = [[pair for pair in life if math.isfinite(pair.log_ratio)] for life in lives]
    inside = [
        (np.array([pair.log_ratio for pair in life]), np.array([pair.log_slowness for pair in life]))
        for life in finite
        if len(life) > 1
    ]
    if not inside:
        return 0.0
    # By medians, and cut to what is not extreme: a burst in a single piece must not draw the slope.
    y = _winsorised(np.concatenate([ratio - np.median(ratio) for ratio, _ in inside]))
    z = _winsorised(np.concatenate([slow - np.median(slow) for _, slow in inside]))
    spread, freedom = float(z @ z), y.size - len(inside) - 1
    if spread <= 0.0 or freedom < 1:
        return 0.0
    slope = float(z @ y) / spread
    left = y - slope * z
    error = math.sqrt(float(left @ left) / freedom / spread)
    return slope if abs(slope) > 2.0 * error else 0.0


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = np.quantile(values, (0.05, 0.95))
    return np.clip(values, low, high)


def _trimmed_mean(values: Sequence[float]) -> float:
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = max(int(_TRIMMED * ordered.size), int(ordered.size >= _TRIMMED_FROM))
    kept = ordered[cut : ordered.size - cut]
    if kept.size == 0 or not np.isfinite(kept).all():
        raise RecordError(
            "A life has too many pieces in which nothing, or too little for the metric, was answered. Use a quieter machine, "
            "longer pieces, or look what stands still."
        )
    return float(kept.mean())
