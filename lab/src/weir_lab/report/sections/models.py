"""Queueing models, predicted against observed, with the reason of each miss.

Each model takes what it needs from some levels of clients and predicts others. M/M/1 and M/M/m take the arrival
rate of the level itself and the service rate of the lightest load. The network of queues takes its demands at the
lightest load and the links' capacity. The calibrated closed model takes all levels but the one that it predicts
(`sweeps.client_series`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.design import Engine
from weir_lab.report.common import Series, Task, figure, level_text, line_over, series_of, with_tables
from weir_lab.report.numbers.comparing import level_of, response_of, throughput_of
from weir_lab.report.numbers.stations import link_bounds
from weir_lab.report.numbers.sweeps import ClientSeries, client_series, explain_misses
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.fitting.meeting import Meeting, Verdict, meeting_of, tally_text
from weir_lab.theory.queueing import Kind, Station, UnstableError, mm1, mmm, solve_closed
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["Guess", "build", "network_of", "network_predictions", "open_predictions", "summary"]

# More than this nobody measures.
_TIMES_MAX = 1000.0


@dataclass(frozen=True)
class Guess:
    """A model's prediction for one cell; ``x`` per second, ``r`` in seconds; ``None`` where the model has no steady state."""

    model: str
    clients: int
    x: float | None
    r: float | None
    x_seen: float
    r_seen: float
    utilization: float | None
    reason: str
    x_meeting: Meeting | None
    """Of the throughput; ``None`` where the model takes it as given."""
    r_meeting: Meeting

    @property
    def r_error_percent(self) -> float | None:
        """(predicted - observed) / observed."""
        return None if self.r is None else 100.0 * (self.r / self.r_seen - 1.0)


def build(task: Task) -> list[Block]:
    """Tables and figures for each series over clients that goes through a proxy."""
    every = [one for one in series_of(task) if not one.event and len(one.cells) >= 2]
    calibrated = [(one, found) for one in every if (found := _calibrated(one)) is not None]
    fitted = _calibrated_blocks(task, calibrated) if calibrated else []
    lines = [one for one in every if one.cells[0].runs[0].proxy is not None]
    if not lines:
        return [
            Text("No series over clients goes through a proxy that tells its stages, so no model has them."),
            *fitted,
        ]
    figures = [_figure(task, one, place) for place, one in enumerate(lines)]
    return [
        Text("What the models say:", tuple(_points(task, lines))),
        *with_tables(figures),
        _open_table(task, lines),
        _stations_table(task, lines),
        *fitted,
    ]


def summary(task: Task) -> str:
    """How far the models are off at the largest load."""
    lines = [
        one
        for one in series_of(task)
        if not one.event and len(one.cells) >= 2 and one.cells[0].runs[0].proxy is not None
    ]
    return (
        f"{task.spec.title}: {' '.join(_points(task, lines)[:1])}" if lines else f"{task.spec.title}: nothing to model."
    )


def _workers(cell: CellReadings) -> int:
    settings = cell.settings
    if settings.engine is Engine.POOL and settings.workers:
        return settings.workers * settings.proxies
    if settings.engine is Engine.SPLIT and settings.readers:
        return settings.readers * settings.servers * settings.proxies
    return settings.proxy_threads * settings.proxies


def _held_s(cell: CellReadings) -> float:
    """Time for which a request holds a worker: from its dequeuing to its answer."""
    found = [
        sum(stages[name] for name in ("send", "backend", "reply"))
        for run in cell.runs
        if (stages := run.stages_s()) is not None
    ]
    return sum(found) / len(found)


def _outside_s(cell: CellReadings) -> float:
    """Everything else but the queue: network, load generator, reading and dispatch."""
    found = [
        run.response_s - sum(stages[name] for name in ("queue", "send", "backend", "reply"))
        for run in cell.runs
        if (stages := run.stages_s()) is not None
    ]
    return max(1e-9, sum(found) / len(found))


def _inside(run: Reading) -> float | None:
    """Queue and service together: what M/M/1 and M/M/m call the response time."""
    stages = run.stages_s()
    return None if stages is None else sum(stages[name] for name in ("queue", "send", "backend", "reply"))


def _inside_s(cell: CellReadings) -> float:
    """Its mean over runs."""
    found = cell.of(_inside)
    return sum(found) / len(found)


def open_predictions(series: Series, margins: Margins) -> list[Guess]:
    """M/M/1 and M/M/m at the most clients; the service rates are those of the lightest load, never of the predicted run."""
    light, heavy = series.cells[0], series.cells[-1]
    workers, held = _workers(heavy), _held_s(light)
    rate, seen, measured = heavy.mean_throughput, _inside_s(heavy), level_of(heavy, _inside)
    found = []
    for name, servers, service in (("M/M/1", 1, workers / held), ("M/M/m", workers, 1.0 / held)):
        try:
            model = mm1(rate, service) if servers == 1 else mmm(rate, service, servers)
        except UnstableError:
            reason = (
                f"no steady state: {number(rate, 0)} requests/s arrive and "
                f"{number(servers * service, 0)} could be served at the lightest load's "
                "pace; an open model knows no clients that wait"
            )
            used = rate / (servers * service)
            # It says that the time grows without bound, and it does not.
            missed = Meeting(Verdict.MISSED, -100.0, times_more=1.0)
            found.append(Guess(name, heavy.settings.clients, None, None, rate, seen, used, reason, None, missed))
            continue
        r = model.mean_response_time_s
        met = meeting_of(measured, r, margins.prediction_response, seen)
        reason = _open_reason(met, r > seen, model.utilization, held, _held_s(heavy))
        found.append(Guess(name, heavy.settings.clients, rate, r, rate, seen, model.utilization, reason, None, met))
    return found


def _open_reason(met: Meeting, too_slow: bool, utilization: float, light_s: float, heavy_s: float) -> str:
    if met.verdict is not Verdict.MISSED:
        return _no_miss(met)
    slower = 100.0 * (heavy_s / light_s - 1.0)
    if slower > 20.0:
        return (
            f"a request holds its worker {number(slower, 0)} % longer under load than at the lightest: it waits for something behind the "
            "workers (links, memcached, CPU), which the model does not have"
        )
    if too_slow and utilization > 0.8:
        return "a closed system cannot queue more than its clients; an open one at this utilization can"
    return "arrivals of a closed system are not Poisson, and service is not exponential"


def _no_miss(met: Meeting) -> str:
    if met.met or met.times_more > _TIMES_MAX:
        return "" if met.met else "what was found lies at the margin itself"
    return f"some {math.ceil(met.times_more)} times the runs would tell"


def network_of(light: CellReadings, heavy: CellReadings, series: Series) -> list[Station]:
    """Delay outside, workers with what the lightest load tells of them, and the tightest link, if links are built.

    What the link takes is taken off the workers' time: at the lightest load a request waits for its transmission inside.
    """
    held, outside = _held_s(light), _outside_s(light)
    stations = []
    link = 0.0
    if series.sweep.links_built:
        bound = min(
            link_bounds(heavy.settings, series.sweep.study.topology.built_links), key=lambda one: one.requests_per_s
        )
        link = 1.0 / bound.requests_per_s
        stations.append(Station(bound.tier, link))
        if bound.tier == "client uplinks":
            outside = max(1e-9, outside - link)
        else:
            held = max(1e-9, held - link)
    stations.append(Station("workers", held, servers=_workers(heavy)))
    stations.append(Station("outside", outside + light.settings.think_time_s, kind=Kind.DELAY))
    return stations


def network_predictions(series: Series, margins: Margins) -> list[Guess]:
    """The network of queues for every level but the lightest, from which its demands are."""
    light = series.cells[0]
    found = []
    for cell in series.cells[1:]:
        stations = network_of(light, cell, series)
        solved = solve_closed(stations, cell.settings.population)
        x = float(solved.throughput_per_s[-1])
        r = cell.settings.population / x - cell.settings.think_time_s
        queues = [place for place, station in enumerate(stations) if station.kind is not Kind.DELAY]
        busiest = max(queues, key=lambda place: float(solved.utilization[place][-1]))
        utilization = float(solved.utilization[busiest][-1])
        meetings = (
            meeting_of(level_of(cell, throughput_of), x, margins.prediction_throughput, cell.mean_throughput),
            meeting_of(level_of(cell, response_of), r, margins.prediction_response, cell.mean_response_s),
        )
        reason = _network_reason(
            meetings, x > cell.mean_throughput, stations[busiest].name, _held_s(light), _held_s(cell)
        )
        found.append(
            Guess(
                "network of queues", cell.settings.clients, x, r, cell.mean_throughput, cell.mean_response_s, utilization, reason,
                *meetings,
            )
        )  # fmt: skip
    return found


def _network_reason(
    meetings: tuple[Meeting, Meeting], too_fast: bool, busiest: str, light_s: float, heavy_s: float
) -> str:
    missed = [one for one in meetings if one.verdict is Verdict.MISSED]
    if not missed:
        doubts = "; ".join(text for text in map(_no_miss, meetings) if text)
        return f"the model's busiest station: {busiest}" + (f"; {doubts}" if doubts else "")
    slower = 100.0 * (heavy_s / light_s - 1.0)
    if too_fast:
        return (
            f"too fast: a request holds its worker {number(slower, 0)} "
            "% longer than at the lightest load; CPU that the "
            "roles share, or memcached, is no station here"
        )
    return "too slow: batches make requests cheaper under load than at the lightest"


def _open_table(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        for guess in _guesses(task, one):
            rows.append(
                (
                    f"{one.workload}, {one.name}",
                    guess.model,
                    Value(guess.clients),
                    Value(100 * guess.utilization, digits=1) if guess.utilization is not None else "–",
                    Value(1e3 * guess.r) if guess.r is not None else "–",
                    Value(1e3 * guess.r_seen),
                    _off(guess.r_meeting) if guess.r is not None else "–",
                    str(guess.r_meeting.verdict),
                    _off(guess.x_meeting) if guess.x_meeting else "–",
                    str(guess.x_meeting.verdict) if guess.x_meeting else "given",
                    guess.reason,
                )
            )
    return Table(
        f"{task.spec.name}-predicted",
        "Predicted against observed. M/M/1: all workers as one server of their joint rate; M/M/m: m workers; both are held against queue "
        "and service time in the proxy, at the most clients. Network of queues: held against the clients' throughput and response time, at "
        f"every level but the fewest clients, whose service times all models take. {_rule_text(task)}",
        (
            "Series", "Model", "Clients", "Utilization (%)", "R predicted (ms)", "R observed (ms)", "R observed over predicted (%)", "R",
            "X observed over predicted (%)", "X", "Reason",
        ),
        tuple(rows),
    )  # fmt: skip


def _guesses(task: Task, series: Series) -> list[Guess]:
    return [*open_predictions(series, task.margins), *network_predictions(series, task.margins)]


def _rule_text(task: Task) -> str:
    margins = task.margins
    return (
        f"A prediction is met where the 95 % interval of observed over predicted lies within ±{margins.prediction_throughput:g} % "
        f"(throughput, X) or ±{margins.prediction_response:g} % (response time, R), missed where it lies outside. Where the data cannot "
        "tell, it does not count as met."
    )


def _off(met: Meeting) -> Value:
    return Value(met.percent, met.low, met.high, 1, signed=True)


def _stations_table(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        heavy = one.cells[-1]
        stations = network_of(one.cells[0], heavy, one)
        solved = solve_closed(stations, heavy.settings.population)
        for place, station in enumerate(stations):
            rows.append(
                (
                    f"{one.workload}, {one.name}",
                    station.name,
                    Value(station.servers) if station.kind is not Kind.DELAY else "delay",
                    Value(1e3 * station.service_time_s),
                    Value(float(solved.throughput_per_s[-1]), digits=0),
                    Value(100 * float(solved.utilization[place][-1]), digits=1)
                    if station.kind is not Kind.DELAY
                    else "–",
                    Value(float(solved.jobs[place][-1]), digits=1),
                )
            )
    return Table(
        f"{task.spec.name}-stations",
        "The network of queues at the most clients, solved exactly: visit ratio 1 everywhere, so the demand is the service time.",
        ("Series", "Station", "Servers", "Service time (ms)", "X (requests/s)", "Utilization (%)", "Requests there"),
        tuple(rows),
        folded=True,
    )


def _figure(task: Task, series: Series, place: int) -> Figure | None:
    light = series.cells[0]
    most = max(cell.settings.population for cell in series.cells)
    stations = network_of(light, series.cells[-1], series)
    solved = solve_closed(stations, most)
    sizes = sorted(set(np.geomspace(1, most, 50).round().astype(int).tolist()))
    x = tuple(Mark(float(n), float(solved.throughput_per_s[n - 1])) for n in sizes)
    r = tuple(Mark(float(n), 1e3 * n / float(solved.throughput_per_s[n - 1])) for n in sizes)
    ticks = tuple(float(cell.settings.clients) for cell in series.cells)
    axis = Axis("Clients (connections)", log=len(ticks) > 2, ticks=ticks)
    keep = [mark for mark in x if mark.x >= ticks[0]], [mark for mark in r if mark.x >= ticks[0]]
    observed = (
        line_over(series, throughput_of, name="observed"),
        line_over(series, response_of, 1e3, name="observed"),
    )
    panels = [
        Panel(
            "throughput",
            axis,
            Axis("Throughput (requests/s)"),
            (observed[0], Line("network of queues", tuple(keep[0]), LOOKS[7], "plain")),
        ),
        Panel(
            "response time",
            axis,
            Axis("Response time (ms)"),
            (observed[1], Line("network of queues", tuple(keep[1]), LOOKS[7], "plain")),
        ),
    ]
    text = "Bars: 95 % intervals over run means. Line: closed network with the demands of the fewest clients; it saw nothing else."
    return figure(
        task, f"network-{place}", f"Network of queues against observed: {series.workload}, {series.name}", panels, text
    )


def _calibrated(series: Series) -> ClientSeries | None:
    cells = [cell for cell in series.cells if len(cell.runs) >= 2]
    if len({cell.settings.population for cell in cells}) < 4:
        return None
    names = {cell.cell.name for cell in cells}
    observations = series.sweep.observations(lambda cell: cell.cell.name in names)
    found = client_series(observations, _over(series))
    return found[0] if found and found[0].best is not None else None


def _over(series: Series) -> str:
    """The factor that carries the clients: `clients` itself, or clients per thread."""
    return "clients" if "clients" in series.sweep.study.factors else "clients_per_thread"


def _calibrated_blocks(task: Task, calibrated: Sequence[tuple[Series, ClientSeries]]) -> list[Block]:
    rows: list[tuple[Entry, ...]] = []
    points: list[str] = []
    rates: list[Meeting] = []
    times: list[Meeting] = []
    for series, found in calibrated:
        best = found.best
        if best is None:
            continue
        measured = dict(
            zip(found.populations, zip(found.throughput_per_s, found.response_time_s, strict=True), strict=True)
        )
        for made in best.predictions:
            x, r = measured[made.population]
            met = (
                meeting_of(x, made.predicted_per_s, task.margins.prediction_throughput),
                meeting_of(r, made.predicted_response_s, task.margins.prediction_response),
            )
            if not made.fitted:
                rates.append(met[0])
                times.append(met[1])
            rows.append(
                (
                    f"{series.workload}, {series.name}", best.name, Value(made.population), "seen" if made.fitted else "predicted",
                    Value(made.observed_per_s, digits=0), Value(made.predicted_per_s, digits=0), _off(met[0]),
                    "–" if made.fitted else str(met[0].verdict),
                    Value(1e3 * made.observed_response_s), Value(1e3 * made.predicted_response_s), _off(met[1]),
                    "–" if made.fitted else str(met[1].verdict),
                )
            )  # fmt: skip
        misses = explain_misses(
            best,
            {population: x for population, (x, _) in measured.items()},
            found.calibrated.model if found.calibrated else None,
            task.margins.prediction_throughput,
        )
        points += [f"{series.workload}, {series.name}: {miss}" for miss in misses]
    table = Table(
        f"{task.spec.name}-calibrated",
        "The model that predicted best what it had not seen: each level of clients but the ends is predicted from a fit to all others. R "
        f"by N / X − Z. {_rule_text(task)}",
        (
            "Series", "Model", "N", "", "X observed (requests/s)", "X predicted", "X observed over predicted (%)", "X",
            "R observed (ms)", "R predicted (ms)", "R observed over predicted (%)", "R",
        ),
        tuple(rows),
    )  # fmt: skip
    reported = (
        f"Predictions of the calibrated models: throughput {tally_text(rates)}; response time {tally_text(times)}."
    )
    return [table, Text(f"{reported} Misses of the throughput:" if points else reported, tuple(points))]


def _points(task: Task, lines: Sequence[Series]) -> list[str]:
    points = []
    for one in lines:
        heavy = one.cells[-1]
        parts = []
        network = network_predictions(one, task.margins)
        for guess in [*open_predictions(one, task.margins), *network[-1:]]:
            if guess.r is None:
                parts.append(f"{guess.model} has no steady state (missed)")
            else:
                error = Value(guess.r_error_percent or 0.0, digits=0, signed=True).text
                parts.append(f"{guess.model} {number(1e3 * guess.r, 1)} ms ({error} %, {guess.r_meeting.verdict})")
        seen = level_text(heavy, response_of, 1e3)
        tallies = (
            tally_text([guess.x_meeting for guess in network if guess.x_meeting]),
            tally_text([guess.r_meeting for guess in network]),
        )
        points.append(
            f"{one.workload}, {one.name}, {heavy.settings.clients} clients, observed {seen} ms at the clients: {'; '.join(parts)}; the "
            f"network of queues over all levels: throughput {tallies[0]}, response time {tallies[1]}."
        )
    return points
