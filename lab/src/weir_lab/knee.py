"""Where throughput stops growing: several labelled estimates with intervals, and the bracket that the data support.

No single rule is safe: Kneedle's answer moves with the range and the grid even on exact curves, and every rule has a threshold in it. So
`find_knee` gives all of them side by side, and the bracket between the last population that is *certainly* below the plateau and the
first that is *certainly* on it. Bisect the grid inside the bracket to know more. Intervals are percentile bootstraps over runs, drawn
separately in each population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.queueing import scalability_peak
from weir_lab.stats import unpaired_change

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Curve", "Knee", "KneeEstimate", "find_knee"]

PLATEAU_SHARE = 0.95
# S1 excluded populations whose percentiles had begun to rise; S2 looked for steps below about half of the earlier ones; S3 for a
# derivative of the response time that no longer changes.
RISE = 0.5
STEP_SHARE = 0.5
SLOPE_SHARE = 0.1
# The law is fitted anew for each resample, which takes milliseconds: fewer of them.
_RESAMPLES_LAW = 60


@dataclass(frozen=True)
class Curve:
    """Run means per population, ascending. ``percentile_s`` is one high percentile per run, where known."""

    population: tuple[int, ...]
    throughput_per_s: tuple[tuple[float, ...], ...]
    response_time_s: tuple[tuple[float, ...], ...]
    percentile_s: tuple[tuple[float, ...], ...] | None = None
    think_time_s: float = 0.0

    def __post_init__(self) -> None:
        groups = [self.throughput_per_s, self.response_time_s, *([self.percentile_s] if self.percentile_s else [])]
        if len(self.population) < 4 or any(len(group) != len(self.population) for group in groups):
            raise ValueError("A knee needs at least 4 populations, with runs of each.")
        if list(self.population) != sorted(set(self.population)) or self.population[0] < 1:
            raise ValueError("Populations are positive, different and ascending.")
        for group in groups:
            if any(len(runs) < 2 or not np.isfinite(runs).all() or min(runs) <= 0.0 for runs in group):
                raise ValueError("Each population needs at least 2 runs with positive, finite values.")


@dataclass(frozen=True)
class KneeEstimate:
    """One rule's answer; ``population`` and its interval are None where the rule has none. ``rule`` states it with its threshold."""

    name: str
    rule: str
    population: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Knee:
    """All estimates, the bracket, and what the data can tell.

    ``certainly_below`` and ``certainly_at`` bound the knee; either is None where no population qualifies. ``saturated`` is False if the
    largest population still gains over the one before.
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


def find_knee(
    curve: Curve,
    rng: np.random.Generator,
    *,
    demands: tuple[float, float] | None = None,
    level: float = 0.95,
    resamples: int = 500,
) -> Knee:
    """Estimate the knee of a closed-loop throughput curve by eight rules.

    Parameters
    ----------
    curve
        Run means.
    rng
        Source of the bootstrap.
    demands
        (total demand D, largest demand per server D_max) in seconds, if they were measured: gives N* = (D + Z) / D_max. Otherwise the
        crossing of the two asymptotes is read off the curve itself: plateau over the slope of the first point.
    level, resamples
        Of the bootstrap intervals.
    """
    means = _means(curve, demands, None)
    estimates = []
    for name, (rule, estimator, needs_percentile) in _RULES.items():
        if needs_percentile and curve.percentile_s is None:
            continue
        count = min(resamples, _RESAMPLES_LAW) if name == "usl_peak" else resamples
        drawn = np.array([estimator(_means(curve, demands, rng)) for _ in range(count)])
        estimates.append(_estimate(name, rule, estimator(means), drawn, level))
    below, at = _bracket(curve, level)
    saturated = _saturated(curve, level)
    return Knee(tuple(estimates), below, at, saturated, _verdict(curve, below, at, saturated=saturated))


def _crossing(means: _Means) -> float:
    if means.demands is not None:
        total, largest = means.demands
        return (total + means.think) / largest
    return float(means.x.max() / (means.x[0] / means.n[0]))


def _plateau(means: _Means) -> float:
    return float(means.n[int(np.argmax(means.x >= PLATEAU_SHARE * means.x.max()))])


def _power(means: _Means) -> float:
    return float(means.n[int(np.argmax(means.x / means.r))])


def _two_segments(means: _Means) -> float:
    """Least squares of a line through the origin that bends to a second line at b; b by search between the second and last point."""
    n, x = means.n, means.x
    places = np.linspace(n[1], n[-2], 60) if n.size > 4 else np.linspace(n[0], n[-1], 60)
    best, at = math.inf, float("nan")
    for b in places.tolist():
        design = np.column_stack([np.minimum(n, b), np.maximum(n - b, 0.0)])
        solution = np.linalg.lstsq(design, x, rcond=None)[0]
        error = float(((design @ solution - x) ** 2).sum())
        if error < best:
            best, at = error, b
    return at


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


def _means(curve: Curve, demands: tuple[float, float] | None, rng: np.random.Generator | None) -> _Means:
    """Means over runs, or over runs drawn with replacement: throughput and times of a run stay together."""

    def pick(group: Sequence[Sequence[float]], choice: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        return np.array([np.asarray(runs)[chosen].mean() for runs, chosen in zip(group, choice, strict=True)])

    sizes = [len(runs) for runs in curve.throughput_per_s]
    choice = [np.arange(size) if rng is None else rng.integers(0, size, size) for size in sizes]
    percentile = None if curve.percentile_s is None else pick(curve.percentile_s, choice)
    return _Means(
        np.array(curve.population, dtype=np.float64),
        pick(curve.throughput_per_s, choice),
        pick(curve.response_time_s, choice),
        percentile,
        curve.think_time_s,
        demands,
    )


def _estimate(name: str, rule: str, value: float, drawn: ArrayLike, level: float) -> KneeEstimate:
    """An interval only where the rule answers in nearly all resamples."""
    finite = np.asarray(drawn)[np.isfinite(drawn)]
    if not math.isfinite(value):
        return KneeEstimate(name, rule, None, None, None)
    if finite.size < 0.9 * np.asarray(drawn).size:
        return KneeEstimate(name, rule, value, None, None)
    low, high = np.quantile(finite, [0.5 - level / 2.0, 0.5 + level / 2.0]).tolist()
    return KneeEstimate(name, rule, value, min(low, value), max(high, value))


def _bracket(curve: Curve, level: float) -> tuple[int | None, int | None]:
    """Compare every population with the best one: certainly below 95 % of it, or certainly above."""
    best = max(curve.throughput_per_s, key=lambda runs: sum(runs) / len(runs))
    margin = 100.0 * (PLATEAU_SHARE - 1.0)
    below, at = None, None
    for n, runs in zip(curve.population, curve.throughput_per_s, strict=True):
        change = unpaired_change(best, runs, level)
        if change.high < margin and at is None:
            below = n
        if change.low > margin and at is None:
            at = n
    return below, at


def _saturated(curve: Curve, level: float) -> bool:
    """The last step gains less than half of what proportional growth would give, with certainty."""
    change = unpaired_change(curve.throughput_per_s[-2], curve.throughput_per_s[-1], level)
    proportional = 100.0 * (curve.population[-1] / curve.population[-2] - 1.0)
    return change.high < STEP_SHARE * proportional


def _verdict(curve: Curve, below: int | None, at: int | None, *, saturated: bool) -> str:
    last = curve.population[-1]
    if not saturated:
        return f"cannot tell: throughput may still grow at N = {last}; measure larger populations"
    if below is None and at is None:
        return "cannot tell: runs differ too much to place any population below or at the plateau; make more runs"
    if below is None:
        return f"at or below N = {at}: measure smaller populations"
    if at is None or at == last:
        return f"above N = {below}: no population before the last is certainly at the plateau; measure larger ones or make more runs"
    return f"between N = {below} and N = {at}"
