"""Open stations at the most clients, and a network of queues at all levels but the fewest, from what the fewest tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import Engine
from weir_lab.report.numbers.comparing import level_of, response_of, throughput_of
from weir_lab.report.numbers.stations import link_bounds
from weir_lab.report.sections.models.words import no_miss
from weir_lab.theory.fitting.meeting import Meeting, Verdict, meeting_of
from weir_lab.theory.queueing import Kind, Station, UnstableError, mm1, mmm, solve_closed
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Series
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = ["Guess", "network_of", "network_predictions", "open_predictions"]


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
        return no_miss(met)
    slower = 100.0 * (heavy_s / light_s - 1.0)
    if slower > 20.0:
        return (
            f"a request holds its worker {number(slower, 0)} % longer under load than at the lightest: it waits for something behind the "
            "workers (links, memcached, CPU), which the model does not have"
        )
    if too_slow and utilization > 0.8:
        return "a closed system cannot queue more than its clients; an open one at this utilization can"
    return "arrivals of a closed system are not Poisson, and service is not exponential"


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
        doubts = "; ".join(text for text in map(no_miss, meetings) if text)
        return f"the model's busiest station: {busiest}" + (f"; {doubts}" if doubts else "")
    slower = 100.0 * (heavy_s / light_s - 1.0)
    if too_fast:
        return (
            f"too fast: a request holds its worker {number(slower, 0)} "
            "% longer than at the lightest load; CPU that the "
            "roles share, or memcached, is no station here"
        )
    return "too slow: batches make requests cheaper under load than at the lightest"
