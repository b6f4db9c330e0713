"""Where throughput stops growing: several labelled estimates, and the bracket that the data support.

No single rule is safe: Kneedle's answer moves with the range and the grid even on exact curves, and every rule has a threshold in it. So
`find_knee` gives all of them side by side, and the bracket between the last population that is *certainly* below the plateau and the
first that is *certainly* on it. Bisect the grid inside the bracket to know more.

::

    throughput        certainly below      best population
        │                  ▼        ┌──────────▼──┐
        │              ·            certainly at   ·   behind the best nothing counts: a curve that collapses has its knee before
        └──────────────────────────────────────────────▶ N

Intervals are made of comparisons between populations in the linear model (population + block on logarithms, one error where spreads agree),
at levels that hold for all comparisons together. Three rules have them: the crossing of the asymptotes, the
plateau (the bracket itself) and the largest power (all populations that may be the best). The others jump from point to point or hang
on a model, so that no interval of theirs holds what it says; they are printed without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from weir_lab.theory.linear import PLATEAU_SHARE, LogModel, MeasuredRun, plateau_of
from weir_lab.theory.queueing import scalability_peak

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Curve", "Knee", "KneeEstimate", "find_knee"]

# S1 excluded populations whose percentiles had begun to rise; S2 looked for steps below about half of the earlier ones; S3 for a
# derivative of the response time that no longer changes.
RISE = 0.5
STEP_SHARE = 0.5
SLOPE_SHARE = 0.1


@dataclass(frozen=True)
class Curve:
    """Run means per population, ascending. ``percentile_s`` is one high percentile per run, where known; ``blocks`` each run's block."""

    population: tuple[int, ...]
    throughput_per_s: tuple[tuple[float, ...], ...]
    response_time_s: tuple[tuple[float, ...], ...]
    percentile_s: tuple[tuple[float, ...], ...] | None = None
    think_time_s: float = 0.0
    blocks: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        groups = [self.throughput_per_s, self.response_time_s, *([self.percentile_s] if self.percentile_s else [])]
        if len(self.population) < 4 or any(len(group) != len(self.population) for group in groups):
            raise ValueError("A knee needs at least 4 populations, with runs of each.")
        if list(self.population) != sorted(set(self.population)) or self.population[0] < 1:
            raise ValueError("Populations are positive, different and ascending.")
        for group in groups:
            if any(len(runs) < 2 or not np.isfinite(runs).all() or min(runs) <= 0.0 for runs in group):
                raise ValueError("Each population needs at least 2 runs with positive, finite values.")
        if self.blocks and [len(one) for one in self.blocks] != [len(one) for one in self.throughput_per_s]:
            raise ValueError("Each run has one block.")


@dataclass(frozen=True)
class KneeEstimate:
    """One rule's answer; ``population`` and its 95 % interval are None where the rule has none. ``rule`` states it with its threshold."""

    name: str
    rule: str
    population: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Knee:
    """All estimates, the bracket, and what the data can tell.

    ``certainly_below`` and ``certainly_at`` bound the knee; either is None where no population qualifies. Both lie at or before the
    population with the largest throughput. ``saturated`` is False if the largest population still gains over the one before.
    """

    estimates: tuple[KneeEstimate, ...]
    certainly_below: int | None
    certainly_at: int | None
    saturated: bool
    verdict: str

    def __getitem__(self, name: str) -> KneeEstimate:
        """The estimate of a rule, by its name."""
        return next(estimate for estimate in self.estimates if estimate.name == name)


@dataclass(frozen=True)
class _Means:
    n: NDArray[np.float64]
    x: NDArray[np.float64]
    r: NDArray[np.float64]
    p: NDArray[np.float64] | None
    think: float
    demands: tuple[float, float] | None


def find_knee(curve: Curve, *, demands: tuple[float, float] | None = None, level: float = 0.95) -> Knee:
    """Estimate the knee of a closed-loop throughput curve by eight rules.

    Parameters
    ----------
    curve
        Run means.
    demands
        (total demand D, largest demand per server D_max) in seconds, if they were measured: gives N* = (D + Z) / D_max. Otherwise the
        crossing of the two asymptotes is read off the curve itself: plateau over the slope of the first point.
    level
        Of the intervals.
    """
    means = _means(curve, demands)
    below, at = _bracket(curve, level)
    ends = {
        "asymptotes": None if demands is not None else _crossing_ends(curve, level),
        "plateau": _plateau_ends(curve, below, at),
        "power": _power_ends(curve, level),
    }
    estimates = []
    for name, (rule, estimator, needs_percentile) in _RULES.items():
        if needs_percentile and curve.percentile_s is None:
            continue
        value = estimator(means)
        known, between = (value if math.isfinite(value) else None), ends.get(name)
        low, high = (None, None) if known is None or between is None else between
        estimates.append(KneeEstimate(name, rule, known, low, high))
    saturated, likely = _saturated(curve, level)
    verdict = _verdict(below, at) if saturated else _growing(curve, flat_in_the_mean=likely)
    return Knee(tuple(estimates), below, at, saturated, verdict)


def _crossing(means: _Means) -> float:
    if means.demands is not None:
        total, largest = means.demands
        return (total + means.think) / largest
    if means.x[0] >= PLATEAU_SHARE * means.x.max():
        # The fewest clients fill a station already: their slope is not that of light load.
        return math.nan
    return float(means.x.max() / (means.x[0] / means.n[0]))


def _plateau(means: _Means) -> float:
    return float(means.n[int(np.argmax(means.x >= PLATEAU_SHARE * means.x.max()))])


def _power(means: _Means) -> float:
    return float(means.n[int(np.argmax(means.x / means.r))])


def _two_segments(means: _Means) -> float:
    """Least squares of a line through the origin that bends to a second line at b; b by search between the second and last point."""
    n, x = means.n, means.x
    places = np.linspace(n[1], n[-2], 60) if n.size > 4 else np.linspace(n[0], n[-2], 60)
    # Normal equations of all places at once: before and after are the two columns of the design.
    before = np.minimum(n, places[:, None])
    after = np.maximum(n - places[:, None], 0.0)
    aa, ab, bb = (before**2).sum(axis=1), (before * after).sum(axis=1), (after**2).sum(axis=1)
    ax, bx = before @ x, after @ x
    determinant = aa * bb - ab**2
    first, second = (bb * ax - ab * bx) / determinant, (aa * bx - ab * ax) / determinant
    errors = ((first[:, None] * before + second[:, None] * after - x) ** 2).sum(axis=1)
    return float(places[int(np.argmin(errors))])


def _usl_peak(means: _Means) -> float:
    try:
        peak = scalability_peak(means.n, means.x)
    except ValueError:
        return math.nan
    # A peak far outside what was measured is no knowledge.
    return math.nan if peak is None or peak > 10.0 * means.n[-1] else peak


def _percentile_rise(means: _Means) -> float:
    assert means.p is not None  # the rule is skipped without percentiles
    risen = means.p > (1.0 + RISE) * means.p[0]
    return float(means.n[max(0, int(np.argmax(risen)) - 1)]) if risen.any() else math.nan


def _step_size(means: _Means) -> float:
    steps = np.diff(means.x) / np.diff(means.n)
    small = steps < STEP_SHARE * means.x[0] / means.n[0]
    # First point after which all further steps stay small.
    stays = np.flip(np.logical_and.accumulate(np.flip(small)))
    return float(means.n[int(np.argmax(stays))]) if stays.any() else math.nan


def _slope_of_response_time(means: _Means) -> float:
    slopes = np.diff(means.r) / np.diff(means.n)
    final = slopes[-1]
    if final <= 0.0:
        return math.nan
    flat = np.abs(slopes - final) <= SLOPE_SHARE * final
    stays = np.flip(np.logical_and.accumulate(np.flip(flat)))
    return float(means.n[int(np.argmax(stays))])


_RULES: dict[str, tuple[str, Callable[[_Means], float], bool]] = {
    "asymptotes": ("N* = (D + Z) / D_max, where the asymptotes cross", _crossing, False),
    "plateau": (f"first N with at least {PLATEAU_SHARE:.0%} of the largest throughput", _plateau, False),
    "power": ("N with the largest X / R", _power, False),
    "two_segments": ("bend of two least-squares lines", _two_segments, False),
    "usl_peak": ("peak of the universal scalability law", _usl_peak, False),
    "percentile_rise": (
        f"last N before the percentile is {RISE:.0%} above the first point's (S1)",
        _percentile_rise,
        True,
    ),
    "step_size": (
        f"first N after which steps stay below {STEP_SHARE:.0%} of the initial slope (S2)",
        _step_size,
        False,
    ),
    "response_slope": (
        f"first N from which dR/dN stays within {SLOPE_SHARE:.0%} of its last value (S3)",
        _slope_of_response_time,
        False,
    ),
}


def _means(curve: Curve, demands: tuple[float, float] | None) -> _Means:
    """Means over runs."""

    def of(group: tuple[tuple[float, ...], ...]) -> NDArray[np.float64]:
        return np.array([sum(runs) / len(runs) for runs in group])

    return _Means(
        np.array(curve.population, dtype=np.float64),
        of(curve.throughput_per_s),
        of(curve.response_time_s),
        None if curve.percentile_s is None else of(curve.percentile_s),
        curve.think_time_s,
        demands,
    )


def _model(curve: Curve, groups: Sequence[Sequence[float]]) -> LogModel:
    """Runs of all populations, cells by their index."""
    return LogModel(
        [
            MeasuredRun(place, value, curve.blocks[place][run] if curve.blocks else None)
            for place, runs in enumerate(groups)
            for run, value in enumerate(runs)
        ]
    )


def _lower(model: LogModel, one: int, other: int, alpha: float) -> float:
    """What the logarithm of one population's rate over another's is above, but for a chance of ``alpha``."""
    found = model.difference(other, one)
    return found.value - float(stdtrit(found.freedom, 1.0 - alpha)) * found.standard_error


def _upper(model: LogModel, one: int, other: int, alpha: float) -> float:
    return -_lower(model, other, one, alpha)


def _bracket(curve: Curve, level: float) -> tuple[int | None, int | None]:
    """The last population certainly below 95 % of the best, and the first certainly above, which is the best at the latest.

    A population is called at the plateau by `plateau_of`, the rule for every maximum. It is called below if it is so against the best, at
    a level that allows for any of the others having been chosen as the best.
    """
    model = _model(curve, curve.throughput_per_s)
    best, margin, size = int(np.argmax(model.fit.means)), math.log(PLATEAU_SHARE), len(curve.population)
    reached = plateau_of(model, range(size), PLATEAU_SHARE, 1.0 - level).levels
    at = next((n for n in range(best + 1) if n in reached), None)
    below = [n for n in range(best) if _upper(model, n, best, (1.0 - level) / (size - 1)) < margin]
    return (
        curve.population[max(below)] if below else None,
        None if at is None else curve.population[at],
    )


def _plateau_ends(curve: Curve, below: int | None, at: int | None) -> tuple[float, float] | None:
    """The bracket as the rule's interval: from the first population that is not certainly below the plateau."""
    if at is None:
        return None
    first = curve.population[0] if below is None else curve.population[curve.population.index(below) + 1]
    return float(first), float(at)


def _power_ends(curve: Curve, level: float) -> tuple[float, float]:
    """All populations that may have the largest power: none is certainly better (Gupta's subset of the best)."""
    powers = tuple(
        tuple(x / r for x, r in zip(rates, times, strict=True))
        for rates, times in zip(curve.throughput_per_s, curve.response_time_s, strict=True)
    )
    model = _model(curve, powers)
    size = len(curve.population)
    left = [
        index
        for index in range(size)
        if all(
            _upper(model, index, other, (1.0 - level) / (size - 1)) >= 0.0 for other in range(size) if other != index
        )
    ]
    return float(curve.population[min(left)]), float(curve.population[max(left)])


def _crossing_ends(curve: Curve, level: float) -> tuple[float, float]:
    """N₁ X_max / X₁: the largest throughput is above the largest lower end, and below the largest upper end.

    The upper end needs no adjustment for the choice of the largest (it holds if that of the true best does); the lower one does.
    """
    model, size = _model(curve, curve.throughput_per_s), len(curve.population)
    alpha = (1.0 - level) / 2.0
    low = max([0.0, *(_lower(model, index, 0, alpha / (size - 1)) for index in range(1, size))])
    high = max([0.0, *(_upper(model, index, 0, alpha) for index in range(1, size))])
    return curve.population[0] * math.exp(low), curve.population[0] * math.exp(high)


def _saturated(curve: Curve, level: float) -> tuple[bool, bool]:
    """Whether the last step gains less than half of what proportional growth would give: with certainty, and in the mean."""
    last = len(curve.population) - 1
    change = _model(curve, curve.throughput_per_s).change(last - 1, last, level)
    proportional = 100.0 * (curve.population[-1] / curve.population[-2] - 1.0)
    return change.high < STEP_SHARE * proportional, change.percent < STEP_SHARE * proportional


def _growing(curve: Curve, *, flat_in_the_mean: bool) -> str:
    """More runs help where the mean is flat already; where it grows, only larger populations do."""
    next_step = (
        "it is flat in the mean, but runs differ too much to say so: make more runs, or measure more clients"
        if flat_in_the_mean
        else "measure more clients"
    )
    return f"cannot tell: throughput may still grow at N = {curve.population[-1]}; {next_step}"


def _verdict(below: int | None, at: int | None) -> str:
    if below is None and at is None:
        return "cannot tell: runs differ too much to place any population below or at the plateau; make more runs"
    if below is None:
        return f"at or below N = {at}: no fewer clients are shown to lie below it"
    if at is None:
        return f"above N = {below}: runs differ too much to call any population the plateau; make more runs"
    return f"between N = {below} and N = {at}"
