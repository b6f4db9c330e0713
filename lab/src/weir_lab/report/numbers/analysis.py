"""Records of a study become every number of its report.

`analyse` selects the runs that belong to the study as it stands, and refuses what is too thin for an interval. It
computes one `Point` per cell, one `Comparison` per level of clients where the study compares paths, and what
`sweeps` finds: 2^k r designs, knees, models. Text is made in `findings`, figures in `plots` and `plots_sweeps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from weir_lab.design import (
    Cell,
    RequestPath,
    Response,
    Role,
    Study,
    cells_of,
    content_sha256,
    levels_of_clients,
    scheduled_like,
)
from weir_lab.errors import ReportError
from weir_lab.records import Run, SweepMeta
from weir_lab.records.formats import STAGES, LoadRecord, SnapshotDifference, subtract_snapshots
from weir_lab.report.numbers.interval_doubts import basis_texts, interval_doubts
from weir_lab.report.numbers.sweeps import ClientSeries, Observation, TwoLevelDesign, client_series, two_level_designs
from weir_lab.theory.laws import cycle_law
from weir_lab.theory.linear import Change, LogModel, MeasuredRun, interval_of
from weir_lab.theory.stats import Interval, coefficient_of_variation, mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = [
    "PERCENTILES",
    "RESPONSE_NAMES",
    "Analysis",
    "Comparison",
    "Point",
    "ProxyNumbers",
    "ProxyPoint",
    "RunNumbers",
    "analyse",
    "compares_paths",
    "current_runs",
    "valid_runs",
]

Level = int | float | str
Levels = tuple[tuple[str, Level], ...]

RESPONSE_NAMES = {
    Response.THROUGHPUT: "throughput",
    Response.MEAN_RESPONSE_TIME: "mean response time",
    Response.P99_RESPONSE_TIME: "99th percentile of the response time",
}

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(frozen=True)
class ProxyNumbers:
    """One run as the proxy saw it. Means per request over all operations."""

    stage_mean_ns: dict[str, float]
    residence_time_mean_ns: float
    outside_ns: float
    requests_of_all_phases: int
    arrival_rate_rps: float


@dataclass(frozen=True)
class RunNumbers:
    """One valid run, reduced to its means and percentiles."""

    folder: Path
    levels: tuple[tuple[str, Level], ...]
    path: RequestPath
    clients: int
    population: int
    repetition: int
    position: int
    throughput_rps: float
    workers: int | None
    think_time_s: float
    throughput_window_cv: float | None
    response_time_mean_ns: float
    response_time_count: int
    percentiles_ns: dict[str, int | None]
    law_response_time_ns: float
    law_deviation: float
    cpu_per_request_ns: dict[Role, float]
    cores_used: dict[Role, float]
    client_cpu_share: float
    other_cpu_share: float
    requests_of_all_phases: int
    proxy: ProxyNumbers | None


@dataclass(frozen=True)
class ProxyPoint:
    """One cell as the proxy saw it: intervals over runs, counts summed over runs."""

    stage_mean_ns: dict[str, Interval]
    residence_time_mean_ns: Interval
    outside_ns: Interval
    client_requests: int
    proxy_requests: int
    arrival_rate_deviation: Interval


@dataclass(frozen=True)
class Point:
    """One cell: intervals over its runs. ``levels`` are those of the study's factors."""

    levels: tuple[tuple[str, Level], ...]
    path: RequestPath
    clients: int
    population: int
    n: int
    throughput_rps: Interval
    throughput_cv_between_runs: float
    throughput_cv_within_runs: float | None
    response_time_mean_ns: Interval
    percentiles_ns: dict[str, Interval | None]
    samples_per_run_min: int
    law_response_time_ns: Interval
    law_deviation: Interval
    law_holds: bool
    cpu_per_request_ns: dict[Role, Interval]
    cores_used: dict[Role, Interval]
    client_cpu_share: Interval
    other_cpu_share: Interval
    proxy: ProxyPoint | None

    @property
    def label(self) -> str:
        """``clients 4, path proxy``."""
        return _label(self.levels)

    def level(self, factor: str) -> Level:
        """Its level of a factor."""
        return dict(self.levels)[factor]

    @property
    def cpu_per_request_total_ns(self) -> float:
        """Mean CPU time of all roles together per request."""
        return sum(interval.mean for interval in self.cpu_per_request_ns.values())


@dataclass(frozen=True)
class Comparison:
    """Direct against proxy at one level of clients; intervals of a response hold for all levels together.

    A response that a run has too few requests for is left out.
    """

    clients: int
    effects: dict[Response, Change]


@dataclass(frozen=True)
class Analysis:
    """Every number of a study.

    ``factors`` are those that vary. ``comparisons`` is empty unless the study compares paths over clients. ``designs`` is empty where the
    factors allow no 2^k r table; ``no_design`` says why.
    """

    study: Study
    factors: tuple[str, ...]
    points: list[Point]
    comparisons: list[Comparison]
    designs: list[TwoLevelDesign]
    no_design: str
    series: list[ClientSeries]
    used: list[RunNumbers]
    invalid: list[Run]
    flagged: list[Run]
    stale: int
    doubts: list[str]
    """Why the intervals may hold less than they say (`interval_doubts`)."""
    near_best: tuple[str, ...]
    """Labels of the cells that are not shown to have less throughput than the best one."""
    basis: list[str]
    """What the intervals rest on: the model, and per response its error and the outcome of both checks (`basis_texts`)."""

    @property
    def roles(self) -> list[Role]:
        """Clients, proxies and servers, and of the other roles those that some cell has."""
        return [
            role
            for role in Role
            if role is not Role.NETWORK or any(role in point.cpu_per_request_ns for point in self.points)
        ]

    def point(self, path: RequestPath, clients: int) -> Point:
        """The cell's point."""
        return next(point for point in self.points if (point.path, point.clients) == (path, clients))

    def points_of(self, path: RequestPath) -> list[Point]:
        """Points of one path, by clients ascending."""
        return sorted((point for point in self.points if point.path is path), key=lambda point: point.clients)


def compares_paths(study: Study) -> bool:
    """Whether direct and proxy are compared over two or more levels of clients, and nothing else varies."""
    varied = {name for name, levels in study.factors.items() if len(levels) > 1}
    paths = {cell.settings.path for cell in cells_of(study)}
    return not varied - {"clients", "path"} and len(levels_of_clients(study)) >= 2 and paths == set(RequestPath)


def current_runs(study: Study, sweep: SweepMeta, runs: Iterable[Run]) -> list[Run]:
    """Those that belong to the study and the programs as they stand."""
    runs = list(runs)
    expected = {
        content_sha256(study, run, sweep.executables) for run in scheduled_like(study, [one.meta for one in runs])
    }
    return [run for run in runs if run.meta.content_sha256 in expected]


def valid_runs(current: Iterable[Run]) -> list[Run]:
    """One valid run per scheduled run, whatever copies a folder may hold."""
    first: dict[str, Run] = {}
    for run in current:
        if run.meta.verdict.valid:
            first.setdefault(run.meta.content_sha256, run)
    return list(first.values())


def analyse(study: Study, sweep: SweepMeta, runs: list[Run]) -> Analysis:
    """Compute all numbers; `ReportError` where the data do not support them."""
    if not study.kind.runs_load:
        raise ReportError(f"{study.name}: a study of kind {study.kind} has no loads. Its report shows what it counted.")
    current = current_runs(study, sweep, runs)
    valid = valid_runs(current)
    used = [_numbers_of_run(run) for run in valid]
    cells = cells_of(study)
    for cell in cells:
        _require_runs(study, cell, used)
    models = _models(study, used)
    points = [_point(study, cell, used, models) for cell in cells]
    compared = compares_paths(study)
    observations = [_observation(run) for run in used]
    designs, no_design = two_level_designs(observations)
    return Analysis(
        study=study,
        factors=tuple(name for name in study.factors if len({dict(cell.levels)[name] for cell in cells}) > 1),
        points=sorted(points, key=lambda point: (point.clients, point.path)) if compared else points,
        comparisons=_comparisons(study, used, models) if compared else [],
        designs=designs,
        no_design=no_design,
        series=client_series(observations),
        used=used,
        invalid=[run for run in current if not run.meta.verdict.valid],
        flagged=[run for run in valid if run.meta.verdict.flags],
        stale=len(runs) - len(current),
        doubts=_doubts(study, used, models),
        near_best=_near_best(models[Response.THROUGHPUT]),
        basis=basis_texts(
            {RESPONSE_NAMES[response]: model for response, model in models.items()},
            {run.levels: _label(run.levels) for run in used},
        ),
    )


def _models(study: Study, used: list[RunNumbers]) -> dict[Response, LogModel]:
    """One linear model per response over all runs of the sweep; a percentile that not all runs have has none."""
    return {
        response: LogModel(
            [MeasuredRun(run.levels, _value(run, response), run.repetition, run.position) for run in used]
        )
        for response in Response
        if _known(study, response, used)
    }


def _near_best(model: LogModel) -> tuple[str, ...]:
    """All against the best together, so that the best of another study is among them with 95 % (Gupta's subset, two-sided)."""
    means = {cell: sum(values) / len(values) for cell, values in model.values.items()}
    best = max(means, key=means.__getitem__)
    others = [cell for cell in means if cell != best]
    changes = model.changes([(best, cell) for cell in others])
    return tuple(
        _label(cast("Levels", cell)) for cell, change in zip(others, changes, strict=True) if change.high >= 0.0
    )


def _doubts(study: Study, used: list[RunNumbers], models: dict[Response, LogModel]) -> list[str]:
    """About throughput and mean response time, each sentence once."""
    stops_from = study.plan.repetitions if study.plan.stop is not None else None
    labels = {run.levels: _label(run.levels) for run in used}
    found: dict[str, None] = {}
    for response in (Response.THROUGHPUT, Response.MEAN_RESPONSE_TIME):
        for sentence in interval_doubts(models[response], labels, stops_from):
            about = "" if sentence.startswith(("with ", "the stop rule")) else f"{RESPONSE_NAMES[response]}: "
            found[about + sentence] = None
    return list(found)


def _observation(run: RunNumbers) -> Observation:
    p99 = run.percentiles_ns["p99"]
    return Observation(
        run.levels,
        run.repetition,
        run.position,
        run.population,
        run.throughput_rps,
        run.response_time_mean_ns / 1e9,
        None if p99 is None else p99 / 1e9,
        run.workers,
        run.think_time_s,
    )


def _label(levels: Iterable[tuple[str, Level]]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels)


def _numbers_of_run(run: Run) -> RunNumbers:
    load, cpu, settings = run.load, run.cpu, run.meta.settings
    if load is None or cpu is None:
        raise ReportError(
            f"{run.folder}: the run is called valid, but a record is missing. Delete the folder, run again."
        )
    throughput, mean = load.throughput_rps, load.response_time_sum_ns / load.response_time_count
    histogram = load.response_times()
    if histogram is None and load.generator == "weir":
        raise ReportError(f"{run.folder}: the run is called valid, but has no response times. Run again.")
    law = cycle_law(throughput, settings.population, mean, settings.think_time_s)
    client_ns = load.cpu.user_ns + load.cpu.system_ns
    rates = {Role(role): spent.cpu_ns / cpu.interval_ns for role, spent in cpu.roles.items()}
    rates[Role.CLIENT] = client_ns / load.measured.duration_ns
    return RunNumbers(
        folder=run.folder,
        levels=tuple(run.meta.levels.items()),
        path=settings.path,
        clients=settings.clients,
        population=settings.population,
        repetition=run.meta.repetition,
        position=run.meta.position,
        throughput_rps=throughput,
        workers=settings.workers,
        think_time_s=settings.think_time_s,
        throughput_window_cv=_window_cv(load),
        response_time_mean_ns=mean,
        response_time_count=load.response_time_count,
        percentiles_ns={
            name: histogram.percentile(percent) if histogram is not None else None
            for name, percent in PERCENTILES.items()
        },
        law_response_time_ns=law.law_response_time_ns,
        law_deviation=law.deviation,
        # Steady state: CPU time per second over requests per second, each over its own interval.
        cpu_per_request_ns={role: rate * 1e9 / throughput for role, rate in rates.items()},
        cores_used=rates,
        client_cpu_share=rates[Role.CLIENT] / load.config.threads,
        other_cpu_share=cpu.other_share,
        requests_of_all_phases=load.requests_of_all_phases,
        # Other proxies tell no stages.
        proxy=_proxy_numbers(run, mean) if settings.path is RequestPath.PROXY and settings.subject == "weir" else None,
    )


def _window_cv(load: LoadRecord) -> float | None:
    """Spread of the whole windows of a run; a last, shorter window is left out."""
    if not load.windows:
        return None
    whole = [window for window in load.windows if window.length_ns == load.windows[0].length_ns]
    rates = [window.requests for window in whole]
    return coefficient_of_variation(rates) if len(rates) >= 2 and sum(rates) > 0 else None


def _proxy_numbers(run: Run, response_time_mean_ns: float) -> ProxyNumbers:
    if run.before is None or run.after is None or run.end is None:
        raise ReportError(f"{run.folder}: the run is called valid, but a snapshot is missing. Run again.")
    measured: SnapshotDifference = subtract_snapshots(run.after, run.before)
    residence = measured.total_sum_ns / measured.total_count
    return ProxyNumbers(
        stage_mean_ns={stage: total / measured.total_count for stage, total in measured.stage_sum_ns.items()},
        residence_time_mean_ns=residence,
        outside_ns=response_time_mean_ns - residence,
        requests_of_all_phases=run.end.requests,
        arrival_rate_rps=measured.requests / measured.interval_ns * 1e9,
    )


def _runs_of(cell: Cell, used: list[RunNumbers]) -> list[RunNumbers]:
    return [run for run in used if dict(run.levels) == dict(cell.levels)]


def _require_runs(study: Study, cell: Cell, used: list[RunNumbers]) -> None:
    runs = _runs_of(cell, used)
    if len(runs) < 2:
        raise ReportError(
            f"{study.name}: the cell {_label(cell.levels)} has {len(runs)} valid runs; an interval needs 2. "
            "Run `weir-lab run` again to make the missing ones, and look at the verdicts of the failed ones."
        )


def _point(study: Study, cell: Cell, used: list[RunNumbers], models: dict[Response, LogModel]) -> Point:
    settings, runs = cell.settings, _runs_of(cell, used)

    def over(value: Callable[[RunNumbers], float]) -> Interval:
        return interval_of([value(run) for run in runs])

    def level(response: Response) -> Interval:
        return models[response].level(runs[0].levels)

    within = [run.throughput_window_cv for run in runs if run.throughput_window_cv is not None]
    deviation = mean_interval([run.law_deviation for run in runs])
    return Point(
        levels=cell.levels,
        path=settings.path,
        clients=settings.clients,
        population=settings.population,
        n=len(runs),
        throughput_rps=level(Response.THROUGHPUT),
        throughput_cv_between_runs=coefficient_of_variation([run.throughput_rps for run in runs]),
        throughput_cv_within_runs=float(np.mean(within)) if within else None,
        response_time_mean_ns=level(Response.MEAN_RESPONSE_TIME),
        percentiles_ns={name: _percentile(name, runs) for name in PERCENTILES},
        samples_per_run_min=min(run.response_time_count for run in runs),
        law_response_time_ns=over(lambda run: run.law_response_time_ns),
        law_deviation=deviation,
        law_holds=abs(deviation.mean) <= study.gates.law_deviation_max,
        cpu_per_request_ns=_by_role(runs, lambda run: run.cpu_per_request_ns),
        cores_used=_by_role(runs, lambda run: run.cores_used),
        client_cpu_share=over(lambda run: run.client_cpu_share),
        other_cpu_share=over(lambda run: run.other_cpu_share),
        proxy=_proxy_point(runs) if runs[0].proxy is not None else None,
    )


def _percentile(name: str, runs: list[RunNumbers]) -> Interval | None:
    """``None`` where a run has too few samples for this percentile."""
    values = [run.percentiles_ns[name] for run in runs]
    known = [float(value) for value in values if value is not None]
    return interval_of(known) if len(known) == len(values) else None


def _by_role(runs: list[RunNumbers], values: Callable[[RunNumbers], dict[Role, float]]) -> dict[Role, Interval]:
    return {role: interval_of([values(run)[role] for run in runs]) for role in Role if role in values(runs[0])}


def _proxy_point(runs: list[RunNumbers]) -> ProxyPoint:
    pairs = [(run, run.proxy) for run in runs if run.proxy is not None]
    return ProxyPoint(
        stage_mean_ns={stage: interval_of([proxy.stage_mean_ns[stage] for _, proxy in pairs]) for stage in STAGES},
        residence_time_mean_ns=interval_of([proxy.residence_time_mean_ns for _, proxy in pairs]),
        outside_ns=mean_interval([proxy.outside_ns for _, proxy in pairs]),
        client_requests=sum(run.requests_of_all_phases for run, _ in pairs),
        proxy_requests=sum(proxy.requests_of_all_phases for _, proxy in pairs),
        arrival_rate_deviation=mean_interval(
            [proxy.arrival_rate_rps / run.throughput_rps - 1.0 for run, proxy in pairs]
        ),
    )


def _comparisons(study: Study, used: list[RunNumbers], models: dict[Response, LogModel]) -> list[Comparison]:
    clients = levels_of_clients(study)
    pairs = [_pair(study, level, used) for level in clients]
    changes = {response: model.changes(pairs) for response, model in models.items()}
    return [
        Comparison(level, {response: found[index] for response, found in changes.items()})
        for index, level in enumerate(clients)
    ]


def _pair(study: Study, clients: int, used: list[RunNumbers]) -> tuple[Levels, Levels]:
    """The cells of the direct path and of the proxy."""
    found = {run.path: run.levels for run in used if run.clients == clients}
    if len(found) < 2:
        raise ReportError(f"{study.name}: with {clients} clients only {len(found)} paths have valid runs.")
    return found[RequestPath.DIRECT], found[RequestPath.PROXY]


def _known(study: Study, response: Response, used: list[RunNumbers]) -> bool:
    """Whether every run has it; a percentile that nobody predicted may be missing."""
    predicted = any(prediction.response is response for prediction in study.predictions)
    return predicted or response is not Response.P99_RESPONSE_TIME or all(run.percentiles_ns["p99"] for run in used)


def _value(run: RunNumbers, response: Response) -> float:
    if response is Response.THROUGHPUT:
        return run.throughput_rps
    if response is Response.MEAN_RESPONSE_TIME:
        return run.response_time_mean_ns
    p99 = run.percentiles_ns["p99"]
    if p99 is None:
        raise ReportError(
            f"{run.folder}: the study predicts the 99th percentile, and this run has none: it takes 299 requests (there are "
            f"{run.response_time_count}) and a load generator that keeps a histogram. Make plan.measured_s longer, or leave it out."
        )
    return float(p99)
