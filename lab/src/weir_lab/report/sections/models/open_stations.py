"""M/M/1 and M/M/m of the proxies' queue and workers, with all that they say, beside what was observed.

::

    requests λ ──▶ │ queue │ ──▶ m workers; each holds a request from its dequeuing to its answer

λ is the throughput that was measured at the level itself, as the studies S3 and S5 took it. μ stands twice. As they took
it, it comes from the largest throughput of the same workers at any number of clients. As we fit it, it comes from how
long a request holds a worker at the fewest clients. M/M/1 takes all workers as one server, m times as fast. Where λ
reaches m μ there is no steady state, and a sentence says why. Start with `open_models`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import Engine
from weir_lab.report.common import level_value
from weir_lab.report.numbers.comparing import level_of, response_of, throughput_of
from weir_lab.report.numbers.readings import stage_s
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.models.words import no_miss, off, shown
from weir_lab.theory.fitting.meeting import Meeting, Verdict, meeting_of
from weir_lab.theory.queueing import UnstableError, mm1, mmm
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry
    from weir_lab.theory.queueing import OpenStation

__all__ = [
    "HEAVY_CLIENTS",
    "LARGEST",
    "LIGHTEST",
    "LIGHT_CLIENTS",
    "OpenModel",
    "held_s",
    "inside_s",
    "loads_of",
    "open_models",
    "open_table",
    "workers_of",
]

LIGHT_CLIENTS, HEAVY_CLIENTS = 24, 384
"""The numbers of clients for which S3 printed its tables; without them the ends of the series are taken."""
LARGEST = "largest throughput"
"""Where μ comes from, as the studies took it."""
LIGHTEST = "fewest clients"
"""Where μ comes from, as we fit it."""

_HELD = ("send", "backend", "reply")
# A request that holds its worker for so much longer than at the fewest clients waits for something behind the workers.
_SLOWER_PERCENT = 20.0
_FULL = 0.8


@dataclass(frozen=True)
class OpenModel:
    """What one model says of one level. Rates per second; ``service_rate_per_s`` is one server's.

    ``station`` is ``None`` where there is no steady state; ``meeting`` holds its mean response time against queue and
    service as the proxies' stamps have them.
    """

    model: str
    origin: str
    clients: int
    arrival_rate_per_s: float
    service_rate_per_s: float
    servers: int
    station: OpenStation | None
    meeting: Meeting
    reason: str

    @property
    def utilization(self) -> float:
        """ρ = λ / (m μ); 1 and more where there is no steady state."""
        return self.arrival_rate_per_s / (self.servers * self.service_rate_per_s)


def workers_of(cell: CellReadings) -> int | None:
    """Workers of all proxies together, or readers; ``None`` of the event engine, which holds no request while it waits."""
    settings = cell.settings
    if settings.engine is Engine.POOL and settings.workers:
        return settings.workers * settings.proxies
    if settings.engine is Engine.SPLIT and settings.readers:
        return settings.readers * settings.servers * settings.proxies
    return None


def held_s(run: Reading) -> float | None:
    """Time in seconds for which a request holds a worker in a run: from its dequeuing to its answer; ``None`` without stamps."""
    stages = run.stages_s()
    return None if stages is None else sum(stages[name] for name in _HELD)


def inside_s(run: Reading) -> float | None:
    """Queue and service together in seconds: what these models call the response time."""
    stages = run.stages_s()
    return None if stages is None else stages["queue"] + sum(stages[name] for name in _HELD)


def loads_of(series: Series) -> list[CellReadings]:
    """The light and the heavy level of a series: 24 and 384 clients where both are there, else the fewest and the most."""
    by_clients = {cell.settings.clients: cell for cell in series.cells}
    both = LIGHT_CLIENTS in by_clients and HEAVY_CLIENTS in by_clients
    found = [by_clients[LIGHT_CLIENTS], by_clients[HEAVY_CLIENTS]] if both else [series.cells[0], series.cells[-1]]
    return found if found[0] is not found[1] else found[:1]


def open_models(series: Series, margins: Margins) -> list[OpenModel]:
    """M/M/1 and M/M/m at the light and the heavy level, each with both service rates; none where nobody holds requests."""
    workers, light = workers_of(series.cells[0]), _mean(series.cells[0].of(held_s))
    if workers is None or light is None:
        return []
    largest = max(series.cells, key=lambda cell: cell.mean_throughput)
    found = []
    for cell in loads_of(series):
        for servers in (1, workers):
            for origin, rate in ((LARGEST, largest.mean_throughput), (LIGHTEST, workers / light)):
                made = _model(cell, servers, rate / servers, origin, margins, largest)
                found += [made] if made is not None else []
    return found


def _model(
    cell: CellReadings, servers: int, service: float, origin: str, margins: Margins, largest: CellReadings
) -> OpenModel | None:
    seen = _mean(cell.of(inside_s))
    if seen is None:
        return None
    rate, name = cell.mean_throughput, "M/M/1" if servers == 1 else "M/M/m"
    clients = cell.settings.clients
    try:
        station = mm1(rate, service) if servers == 1 else mmm(rate, service, servers)
    except UnstableError:
        # It says that the time grows without bound, and it does not.
        missed = Meeting(Verdict.MISSED, -100.0, times_more=1.0)
        why = _unstable(rate, servers * service, origin, largest is cell)
        return OpenModel(name, origin, clients, rate, service, servers, None, missed, why)
    r = station.mean_response_time_s
    met = meeting_of(level_of(cell, inside_s), r, margins.prediction_response, seen)
    why = _reason(met, r > seen, station, cell, servers)
    return OpenModel(name, origin, clients, rate, service, servers, station, met, why)


def _unstable(rate: float, capacity: float, origin: str, largest: bool) -> str:
    if origin == LARGEST and largest:
        return (
            "no steady state: this level has the largest throughput itself, so requests arrive exactly as fast as they can be served; "
            "an open queue then grows without end, a closed one ends with its clients"
        )
    return (
        f"no steady state: {number(rate, 0)} requests/s arrive and {number(capacity, 0)} could be served; an open model knows no clients "
        "that wait"
    )


def _reason(met: Meeting, too_slow: bool, station: OpenStation, cell: CellReadings, servers: int) -> str:
    if met.verdict is not Verdict.MISSED:
        return no_miss(met)
    held = _mean(cell.of(held_s)) or 0.0
    if servers == 1 and not too_slow and station.utilization < _FULL:
        return "one fast server in place of m slow ones: a request alone takes a worker's whole time, not the m-th part of it"
    slower = 100.0 * (held * station.service_rate_per_s - 1.0)
    if servers > 1 and not too_slow and slower > _SLOWER_PERCENT:
        return (
            f"a request holds its worker {number(slower, 0)} % longer than the model says: it waits for something behind the workers "
            "(links, memcached, CPU), which the model does not have"
        )
    faster = -slower
    if servers > 1 and too_slow and station.utilization <= _FULL and faster > _SLOWER_PERCENT:
        return (
            f"a request holds its worker {number(faster, 0)} % shorter here than the model says: μ is of another level, where it is held "
            "longer or not all workers are busy"
        )
    if station.utilization > _FULL:
        return (
            "a closed system cannot queue more than its clients; an open one at this utilization can"
            if too_slow
            else "in a closed system all clients that are nowhere else wait here; an open queue so near to its capacity hangs on the last "
            "percent of its utilization"
        )
    return "arrivals of a closed system are not Poisson, and service is not exponential"


def open_table(task: Task, lines: Sequence[Series]) -> Table | None:
    """All outputs beside what was observed; ``None`` where no series has workers whose times are known."""
    rows: list[tuple[Entry, ...]] = []
    for series in lines:
        models = open_models(series, task.margins)
        for cell in loads_of(series):
            here = [one for one in models if one.clients == cell.settings.clients]
            if here:
                rows.append(_observed(series, cell))
                rows += [_predicted(series, one) for one in here]
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-open",
        "M/M/1 and M/M/m of queue and workers beside what was observed, at light and heavy load: "
        f"{LIGHT_CLIENTS} and {HEAVY_CLIENTS} clients as in S3, or the fewest and the most. λ is the throughput of the level. μ is one "
        "server's rate; it comes from the largest throughput of the series, as the studies took it, or from how long a request held a "
        "worker (a reader of the split engine) at the fewest clients. Observed: utilization is λ times the time held over the workers; "
        "E[n] and E[nq] are λ times the times by the proxies' stamps; the probability of queueing is not observed. Near μ a response time "
        "goes by 1/(μ − λ), the inverse of a difference that is smaller than what runs can tell. It is met within "
        f"±{task.margins.prediction_response:g} %.{_as_built(task.first.speed)}",
        (
            "Series", "Clients", "", "μ from", "λ (1/s)", "μ (1/s)", "ρ", "E[n]", "E[nq]", "E[r] (ms)", "E[w] (ms)", "P(queue)",
            "E[r] observed over predicted (%)", "E[r]", "Reason",
        ),
        tuple(rows),
    )  # fmt: skip


def _as_built(speed: float) -> str:
    """That rates and times are those of the slowed machines, and no number of the study stands here."""
    return "" if speed == 1.0 else f" All rates and times are those measured here, at {speed:g} of the study's speed."


def _observed(series: Series, cell: CellReadings) -> tuple[Entry, ...]:
    workers, queue = workers_of(cell) or 1, stage_s("queue")

    def jobs(time: float | None, run: Reading) -> float | None:
        return None if time is None else run.throughput * time

    def clients(run: Reading) -> float:
        return float(run.settings.population)

    return (
        f"{series.workload}, {series.name}", Value(cell.settings.clients), "observed", "–", level_value(cell, throughput_of, digits=0), "–",
        level_value(cell, lambda run: jobs(held_s(run), run), 1.0 / workers, 3, most=lambda _: float(workers)),
        level_value(cell, lambda run: jobs(inside_s(run), run), most=clients),
        level_value(cell, lambda run: jobs(queue(run), run), most=clients), level_value(cell, inside_s, 1e3, most=response_of),
        level_value(cell, queue, 1e3, most=response_of), "–", "–", "–", "",
    )  # fmt: skip


def _predicted(series: Series, one: OpenModel) -> tuple[Entry, ...]:
    given = (
        f"{series.workload}, {series.name}", Value(one.clients), one.model, one.origin, Value(one.arrival_rate_per_s, digits=0),
        Value(one.service_rate_per_s), Value(one.utilization, digits=3),
    )  # fmt: skip
    station = one.station
    if station is None:
        return (*given, "–", "–", "–", "–", "–", "–", str(one.meeting.verdict), one.reason)
    return (
        *given, shown(station.mean_jobs_in_system), shown(station.mean_jobs_in_queue), shown(1e3 * station.mean_response_time_s),
        shown(1e3 * station.mean_waiting_time_s), shown(station.prob_queueing), off(one.meeting), str(one.meeting.verdict), one.reason,
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
