"""What a finished sweep says beyond its cells: effects of two-level factors, knees of client sweeps, models and their predictions.

Works on `Observation`, one per run: levels of the factors, place in the order, and what was measured. Pure; randomness is an argument.

``two_level_designs``   2^k r analysis, if the factors allow it, on both scales with residual checks
``client_series``       one series per combination of the other factors, with knee, calibrated models and predictions
``explain_misses``      a sentence for each prediction that missed, with where to look
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.theory.factorial import (
    FactorialAnalysis,
    ModelChoice,
    ResidualChecks,
    Scale,
    check_residuals,
    compare_models,
)
from weir_lab.theory.fitting.calibration import (
    ClosedModel,
    Point,
    Prediction,
    Score,
    closed_model_intervals,
    fit_closed_model,
    leave_one_out,
    standard_candidates,
)
from weir_lab.theory.fitting.knee import Curve, Knee, find_knee
from weir_lab.theory.fitting.meeting import THROUGHPUT_PERCENT, Verdict, meeting_of
from weir_lab.theory.linear import LogModel, MeasuredRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weir_lab.theory.stats import Interval

__all__ = [
    "PROXY_TIME",
    "RESPONSE_TIME",
    "CalibratedModel",
    "ClientSeries",
    "Observation",
    "TwoLevelDesign",
    "TwoLevelFactor",
    "client_series",
    "explain_misses",
    "two_level_designs",
]

Level = int | float | str

RESPONSE_TIME = "mean response time"
"""The response of a design that clients measure."""
PROXY_TIME = "mean time in the proxies"
"""The response that proxies measure by their stamps."""

# More would give tables that nobody reads: 2^5 has 31 effects.
FACTORS_MAX = 5
# Servers that a bottleneck may have, where nothing says how many: the hold-out ranks them.
_SERVERS_TRIED = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Observation:
    """One valid run. ``levels`` are those of the study's factors, in its order; ``position`` sorts runs by time."""

    levels: tuple[tuple[str, Level], ...]
    repetition: int
    position: int
    population: int
    throughput_per_s: float
    response_time_s: float
    percentile_s: float | None = None
    workers: int | None = None
    think_time_s: float = 0.0
    proxy_time_s: float | None = None
    """Mean time of a request in the proxy, by its stamps; None where there is none, or it is not asked for."""


@dataclass(frozen=True)
class TwoLevelFactor:
    """A factor of a 2^k design: its letter, and the levels that stand for -1 and +1. ``between`` are levels left out."""

    letter: str
    name: str
    low: Level
    high: Level
    between: tuple[Level, ...]

    @property
    def words(self) -> str:
        """As a page names it: of a proxy's threads those that serve are its event loops."""
        return {"proxy_threads": "event loops"}.get(self.name, self.name.removesuffix("_bytes").replace("_", " "))


@dataclass(frozen=True, eq=False)
class TwoLevelDesign:
    """A response of a 2^k r design, additive and logarithmic, with the residual checks of the scale to read (additive if undecided).

    ``run_order`` and ``blocks`` have a row for each cell: places in the order of runs, and the block of each run. Where the blocks are
    not ``whole``, their differences are in the error.
    """

    response: str
    unit: str
    factors: tuple[TwoLevelFactor, ...]
    choice: ModelChoice
    checks: ResidualChecks
    on_logarithms: bool
    run_order: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[int, ...], ...]
    whole: bool

    @property
    def read(self) -> FactorialAnalysis:
        """The analysis on the scale to read."""
        return self.choice.logarithmic if self.on_logarithms and self.choice.logarithmic else self.choice.additive

    def name_of(self, term: str) -> str:
        """``A`` and ``AB`` in words: names of the factors."""
        names = {factor.letter: factor.words for factor in self.factors}
        return "mean" if term == "I" else " × ".join(names[letter] for letter in term)


@dataclass(frozen=True)
class CalibratedModel:
    """The closed model of the best number of servers, fitted to all populations, with intervals over runs where they exist."""

    model: ClosedModel
    delay_s: Interval | None
    service_time_s: Interval | None


@dataclass(frozen=True)
class ClientSeries:
    """One sweep over clients at fixed levels of all else.

    ``scores`` rank the models by what they did not see: each population but the ends predicted from all others. ``misses`` are sentences
    about the best one. What could not be computed is None or empty, and ``problem`` says why.
    """

    levels: tuple[tuple[str, Level], ...]
    populations: tuple[int, ...]
    throughput_per_s: tuple[Interval, ...]
    response_time_s: tuple[Interval, ...]
    knee: Knee | None
    scores: tuple[Score, ...]
    calibrated: CalibratedModel | None
    misses: tuple[str, ...]
    problem: str

    @property
    def name(self) -> str:
        """``path proxy, workers 8``; "all runs" where only clients vary."""
        return ", ".join(f"{name.replace('_', ' ')} {level}" for name, level in self.levels) or "all runs"

    @property
    def best(self) -> Score | None:
        """The model that predicted best what it had not seen."""
        return next((score for score in self.scores if score.mape_throughput is not None), None)


def two_level_designs(observations: Sequence[Observation]) -> tuple[list[TwoLevelDesign], str]:
    """Throughput and mean response time as a 2^k r design, and the time in the proxies where every run has one.

    No design and the reason where the factors do not allow one.

    Factors with two levels enter with both; numeric ones with more enter with their lowest and highest (the others say whether the way
    between is straight, and are left out here). Every cell needs two runs. Blocks that all cells have are taken, at least two of them.
    Gates, and labs side by side, leave few blocks whole. Where there are fewer than two, or not half as many as the cell with the
    fewest runs has, the first runs of each cell are taken, from whichever blocks.
    """
    factors, reason = _two_level_factors(observations)
    if not factors:
        return [], reason
    ends = {factor.name: (factor.low, factor.high) for factor in factors}
    corners = list(itertools.product(*ends.values()))
    by_corner: dict[tuple[Level, ...], dict[int, Observation]] = {corner: {} for corner in corners}
    for one in observations:
        levels = dict(one.levels)
        corner = tuple(levels[name] for name in ends)
        if corner in by_corner:
            by_corner[corner].setdefault(one.repetition, one)
    common = sorted(set.intersection(*(set(runs) for runs in by_corner.values())))
    fewest = min(len(runs) for runs in by_corner.values())
    if fewest < 2:
        return [], "a 2^k r design needs two runs of each of its cells"
    whole = 2 * len(common) >= fewest and len(common) >= 2
    taken = {corner: common if whole else sorted(by_corner[corner])[:fewest] for corner in corners}
    signs = [
        [-1 if level == ends[name][0] else 1 for name, level in zip(ends, corner, strict=True)] for corner in corners
    ]
    letters = [factor.letter for factor in factors]

    def table(value: Callable[[Observation], float]) -> list[list[float]]:
        return [[value(by_corner[corner][block]) for block in taken[corner]] for corner in corners]

    def choice_of(value: Callable[[Observation], float]) -> ModelChoice:
        return compare_models(signs, table(value), letters, blocked=whole, checked=True)

    order = tuple(tuple(by_corner[corner][block].position for block in taken[corner]) for corner in corners)
    blocks = tuple(tuple(taken[corner]) for corner in corners)
    responses: list[tuple[str, str, Callable[[Observation], float]]] = [
        ("throughput", "requests/s", lambda one: one.throughput_per_s),
        (RESPONSE_TIME, "µs", lambda one: one.response_time_s * 1e6),
    ]
    if all(by_corner[corner][block].proxy_time_s for corner in corners for block in taken[corner]):
        responses.append((PROXY_TIME, "µs", lambda one: (one.proxy_time_s or 0.0) * 1e6))
    return [
        _design(name, unit, factors, choice_of(value), order, blocks, whole=whole) for name, unit, value in responses
    ], ""


def _two_level_factors(observations: Sequence[Observation]) -> tuple[tuple[TwoLevelFactor, ...], str]:
    levels: dict[str, list[Level]] = {}
    for one in observations:
        for name, level in one.levels:
            if level not in levels.setdefault(name, []):
                levels[name].append(level)
    varied = {name: found for name, found in levels.items() if len(found) > 1}
    if not 2 <= len(varied) <= FACTORS_MAX:
        return (), f"a 2^k r table is shown for 2 to {FACTORS_MAX} factors that vary; here are {len(varied)}"
    factors = []
    for letter, (name, found) in zip("ABCDE", varied.items(), strict=False):
        numeric = all(not isinstance(level, str) for level in found)
        if len(found) > 2 and not numeric:
            return (), f"{name} has {len(found)} levels without an order, so none of them are its two ends"
        ordered = sorted(found, key=float) if numeric else sorted(found, key=str)
        factors.append(TwoLevelFactor(letter, name, ordered[0], ordered[-1], tuple(ordered[1:-1])))
    return tuple(factors), ""


def _design(
    response: str,
    unit: str,
    factors: tuple[TwoLevelFactor, ...],
    choice: ModelChoice,
    order: tuple[tuple[int, ...], ...],
    blocks: tuple[tuple[int, ...], ...],
    *,
    whole: bool,
) -> TwoLevelDesign:
    on_logarithms = choice.scale is Scale.LOGARITHMIC and choice.logarithmic is not None
    read = choice.logarithmic if on_logarithms and choice.logarithmic is not None else choice.additive
    checks = check_residuals(read, order)
    return TwoLevelDesign(response, unit, factors, choice, checks, on_logarithms, order, blocks, whole)


def client_series(observations: Sequence[Observation], population_factor: str = "clients") -> list[ClientSeries]:
    """Series over clients, one for each combination of the other factors, by their levels."""
    groups: dict[tuple[tuple[str, Level], ...], list[Observation]] = {}
    for one in observations:
        rest = tuple((name, level) for name, level in one.levels if name != population_factor)
        groups.setdefault(rest, []).append(one)
    groups = {key: groups[key] for key in sorted(groups, key=_place)}
    varied = {name for name, _ in itertools.chain(*groups) if len({dict(key)[name] for key in groups}) > 1}
    if min(Counter(one.levels for one in observations).values(), default=2) < 2:
        raise ValueError("Each population of a series needs at least 2 runs.")
    models = (_model(observations, _throughput), _model(observations, _response))
    return [
        _series(tuple(pair for pair in rest if pair[0] in varied), runs, models)
        for rest, runs in groups.items()
        if len({run.population for run in runs}) > 1
    ]


def _throughput(one: Observation) -> float:
    return one.throughput_per_s


def _response(one: Observation) -> float:
    return one.response_time_s


def _model(observations: Sequence[Observation], value: Callable[[Observation], float]) -> LogModel:
    return LogModel([MeasuredRun(one.levels, value(one), one.repetition, one.position) for one in observations])


def _place(levels: tuple[tuple[str, Level], ...]) -> list[tuple[bool, float, str]]:
    """Numbers by size, then texts by alphabet."""
    return [
        (isinstance(level, str), 0.0 if isinstance(level, str) else float(level), str(level)) for _, level in levels
    ]


def _series(
    levels: tuple[tuple[str, Level], ...], runs: Sequence[Observation], models: tuple[LogModel, LogModel]
) -> ClientSeries:
    populations = sorted({run.population for run in runs})
    groups = [sorted((run for run in runs if run.population == n), key=lambda run: run.repetition) for n in populations]
    throughput, response = (tuple(model.level(group[0].levels) for group in groups) for model in models)
    if len(populations) < 4:
        problem = f"{len(populations)} populations are too few for a knee or a model; measure at least 4"
        return ClientSeries(levels, tuple(populations), throughput, response, None, (), None, (), problem)
    points = [
        Point(n, tuple(run.throughput_per_s for run in group)) for n, group in zip(populations, groups, strict=True)
    ]
    tried = dict.fromkeys([*(run.workers for run in runs if run.workers), *_SERVERS_TRIED])
    candidates = {**standard_candidates(1)}
    for servers in tried:
        candidates.update(
            {name: fit for name, fit in standard_candidates(servers).items() if name.startswith("closed")}
        )
    scores = tuple(leave_one_out(points, candidates, runs[0].think_time_s))
    closed = next(
        (score for score in scores if score.name.startswith("closed") and score.mape_throughput is not None), None
    )
    best = next((m for m in tried if closed is not None and _closed_name(m) == closed.name), None)
    calibrated = None if best is None else _calibrated(points, best)
    knee = find_knee(_curve(populations, groups))
    measured = dict(zip(populations, throughput, strict=True))
    misses = explain_misses(scores[0], measured, calibrated.model if calibrated else None)
    return ClientSeries(levels, tuple(populations), throughput, response, knee, scores, calibrated, misses, "")


def _closed_name(servers: int) -> str:
    return next(name for name in standard_candidates(servers) if name.startswith("closed"))


def _calibrated(points: Sequence[Point], servers: int) -> CalibratedModel:
    model = fit_closed_model(points, servers)
    if min(len(point.throughput_per_s) for point in points) < 3:
        return CalibratedModel(model, None, None)
    delay, service = closed_model_intervals(points, servers)
    return CalibratedModel(model, delay, service)


def _curve(populations: Sequence[int], groups: Sequence[Sequence[Observation]]) -> Curve:
    known = all(run.percentile_s is not None for group in groups for run in group)
    return Curve(
        tuple(populations),
        tuple(tuple(run.throughput_per_s for run in group) for group in groups),
        tuple(tuple(run.response_time_s for run in group) for group in groups),
        tuple(tuple(run.percentile_s or math.nan for run in group) for group in groups) if known else None,
        groups[0][0].think_time_s,
        tuple(tuple(run.repetition for run in group) for group in groups),
    )


def explain_misses(
    score: Score,
    measured: Mapping[int, Interval],
    model: ClosedModel | None,
    margin_percent: float = THROUGHPUT_PERCENT,
) -> tuple[str, ...]:
    """A sentence for each population that the model did not see and missed: by how much, where on the curve, and where to look.

    A miss lies outside the margin with the whole interval of what was ``measured`` (`meeting_of`). Where it lies is shown by the
    asymptotes of ``model``: light load, around their crossing N*, or saturation.
    """
    return tuple(
        _sentence(one, model)
        for one in score.predictions
        if not one.fitted
        and meeting_of(measured[one.population], one.predicted_per_s, margin_percent).verdict is Verdict.MISSED
    )


def _sentence(miss: Prediction, model: ClosedModel | None) -> str:
    optimistic = miss.error_percent > 0.0
    place, reason = "", "more populations would tell where the model bends otherwise"
    if model is not None:
        crossing = (model.delay_s + model.service_time_s) * model.servers / model.service_time_s
        if miss.population < 0.5 * crossing:
            place = f"at light load (N* = {crossing:.3g})"
            reason = (
                "a request alone takes longer than the fit says: sleeping processors, timers, connections that start"
                if optimistic
                else "requests that share a system call or a packet cost less each than one alone"
            )
        elif miss.population <= 2.0 * crossing:
            place = f"around the knee (N* = {crossing:.3g})"
            reason = (
                "service varies more than exponential, arrivals come in bursts, or roles share cores"
                if optimistic
                else "service varies less than exponential, or batching makes it cheaper as queues grow"
            )
        else:
            place = f"in saturation (N* = {crossing:.3g})"
            reason = (
                "each request costs more as more circulate: contention, cache misses, context switches"
                if optimistic
                else "each request costs less as more circulate: batches grow with the queue"
            )
    size, side = abs(miss.error_percent), "too high" if optimistic else "too low"
    return f"N = {miss.population}: predicted throughput {size:.1f} % {side} {place or 'there'}; look for: {reason}."
