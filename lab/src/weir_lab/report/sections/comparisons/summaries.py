"""The tables in which S3 and S5 summed up their sections, with our numbers in the rows beside theirs: `study_tables`.

Of sections with a proxy: throughput, response time, time in the queue and miss rate at the maximum, as the proxies and as the clients see
them. Of the full system: throughput three ways, the queue, and the wait for memcached, by workers. Ours are brought to the study's speed.
They stand twice: at our maximum, and at the clients at which the study had its own (`studied_clients`). On a plateau response time grows
with the clients, so times of different clients say nothing of each other.

The throughput that is *derived* is that of the interactive law from the time in the proxies, N / R, as the studies had it. It leaves out
what a request spends outside of them, so it is too large by that; the row below it has the time outside as think time Z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.common import by_workload, level_value, series_of, speed_note, workload_name
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import stage_s
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry

__all__ = ["its_cell", "reckoned_clients", "studied_clients", "study_tables"]

_BY_PROXIES, _BY_WORKERS = "max_throughput_middleware", "max_throughput_full_system"
_COUNTS = {"1": "one middleware", "2": "two middlewares"}
_OURS = "ours"
# A printed X R that differs from a level by more than this share belongs to none.
_NEAR = 0.3
_AS_CLIENTS = "as at the clients"
# From this share of the time in a proxy on requests wait for its workers; what is busy then is within this share of how many there are.
_QUEUED, _BUSY_OFF = 0.1, 0.1


def study_tables(task: Task) -> list[Table]:
    """Those that the study had of this section, and the stages at every level: none, or both."""
    found = []
    for source in task.spec.published:
        if source.table == _BY_PROXIES:
            found.append(_by_proxies(task, source.where.get("middlewares", "1")))
        elif source.table == _BY_WORKERS:
            found.append(_by_workers(task))
    means = _stage_means(task) if found else None
    return [*found, means] if means is not None else found


def _stage_means(task: Task) -> Table | None:
    """Mean time of each stage at every level: figures draw the fewest and the most clients."""
    rows: list[tuple[Entry, ...]] = []
    for one in series_of(task):
        for cell in one.cells:
            known = [stages for run in cell.runs if (stages := run.stages_s()) is not None]
            if known and not one.event:
                inside = [1e3 * sum(stages[stage] for stages in known) / len(known) for stage in STAGES]
                outside = 1e3 * cell.mean_response_s - sum(inside)
                means = (Value(value) for value in (*inside, outside, 1e3 * cell.mean_response_s))
                rows.append((one.workload, one.name, Value(cell.settings.clients), *means))
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-stage-means",
        "Mean time in each stage of the proxy, outside of it, and in all (ms), at every level. Means over runs, as they were measured.",
        ("Workload", "Series", "Clients", *STAGES, "outside", "response time"),
        tuple(rows),
        folded=True,
    )


def _by_proxies(task: Task, proxies: str) -> Table:
    printed = {
        (row["workload"], row["measured_at"]): row
        for row in read_table(_BY_PROXIES)
        if row["study"] == task.label and row["middlewares"] == proxies
    }
    maxima = _maxima(task)
    rows: list[tuple[Entry, ...]] = []
    for workload, word in (("reads", "read"), ("writes", "write")):
        cell = maxima.get(workload)
        cells = [one for sweep in task.sweeps for one in sweep.cells if workload_name(one.settings) == workload]
        clients = studied_clients(cells, printed.get((word, "client"), {}))
        its = its_cell(cells, clients, printed.get((word, "middleware"), {}))
        for place, value in (("middleware", _IN_PROXIES), ("client", _AT_CLIENTS)):
            name = f"{workload.capitalize()}, {'in the proxies' if place == 'middleware' else 'at the clients'}"
            theirs = printed.get((word, place), {})
            mark = _error(
                task, f"{workload} on {'clients' if place == 'client' else 'middleware'}, {_COUNTS.get(proxies, '')}"
            )
            asked = "" if word == "write" or place == "client" else _AS_CLIENTS
            rows.append((name, _OURS, *_four(task, cell, value, asked), _clients(cell)))
            rows.append((name, _at_its(task), *_four(task, its, value, asked), _at(its, clients)))
            rows.append((name, task.label, *(_printed(theirs, one) for one in _COLUMNS), mark or "–"))
    return Table(
        f"{task.spec.name}-summary",
        f"The summary of {task.label} with ours beside it: at the fewest clients that are shown to reach the maximum, or else the "
        f"level with the largest mean; and at the clients of {task.label}, with its workers. It printed neither: clients are the "
        "level next to X R (Little's law, no think time); workers are those that X times the time behind the queue needs where requests "
        "wait in the queue, and else the most. A proxy passes on every answer, so that its misses are those which the clients counted; of "
        "its own count the records keep nothing." + speed_note(task.first.speed),
        ("Measured", "Whose", "X (requests/s)", "R (ms)", "In the queue (ms)", "Miss rate", "At, or known error"),
        tuple(rows),
    )


def _by_workers(task: Task) -> Table:
    theirs_by_workers = _theirs_by_workers(task)
    workers = sorted(theirs_by_workers)
    measured = {number: _with_workers(task, number) for number in workers}
    cells = {number: _maximum(task, measured[number]) for number in workers}
    clients = {number: studied_clients(measured[number], theirs_by_workers[number]) for number in workers}
    its = {number: its_cell(measured[number], clients[number], {}) for number in workers}
    errors = {"queue_length": "average length of queue", "throughput_from_mw_response_time": "throughput derived"}
    rows: list[tuple[Entry, ...]] = []
    for name, quantity, value in _BY_WORKER_ROWS:
        for whose, ours in ((_OURS, cells), (_at_its(task), its)):
            rows.append((name, whose, *(_ours(task, ours[number], value) for number in workers), "–"))
        if quantity:
            mark = _error(task, errors[quantity]) if quantity in errors else ""
            theirs = (_printed(theirs_by_workers[number], quantity) for number in workers)
            rows.append((name, task.label, *theirs, mark or "–"))
    rows.append(("Clients", _OURS, *(_clients(cells[number]) for number in workers), "–"))
    rows.append(
        ("Clients", _at_its(task), *(_at(its[number], clients[number], workers=False) for number in workers), "–")
    )
    known_clients = all(one[_PER_THREAD] for one in theirs_by_workers.values())
    source = (
        "as it printed them"
        if known_clients
        else "the fewest of its levels that hold the requests which its own numbers place in the proxies: X times the time in the queue "
        "and waiting for memcached (Little's law)"
    )
    return Table(
        f"{task.spec.name}-summary",
        f"The summary of {task.label} by workers per proxy with ours beside it: at the fewest clients shown to reach the maximum, or else "
        f"the level with the largest mean; and at the clients of {task.label}, {source}. The queue is that of one proxy, by Little's law "
        "in ours. R in the proxies lacks the time outside of them, so that N / R is too large by it; the row below has it as Z."
        + speed_note(task.first.speed),
        ("Quantity", "Whose", *(f"{number} workers" for number in workers), "Known error of the study"),
        tuple(rows),
    )


def _theirs_by_workers(task: Task) -> dict[int, dict[str, str]]:
    """What the study printed of the full system, by workers per proxy."""
    found: dict[int, dict[str, str]] = {}
    for row in read_table(_BY_WORKERS):
        if row["study"] == task.label:
            known = found.setdefault(int(row["worker_threads"]), {})
            known |= {row["quantity"]: row["value"], _PER_THREAD: row[_PER_THREAD]}
    return found


def reckoned_clients(task: Task, cells: Sequence[CellReadings]) -> int | None:
    """At how many clients the study had its maximum with the workers of these cells, where it printed maxima by workers; else None."""
    workers = {cell.settings.workers for cell in cells}
    if len(workers) != 1 or not any(source.table == _BY_WORKERS for source in task.spec.published):
        return None
    printed = _theirs_by_workers(task).get(workers.pop() or 0)
    return None if printed is None else studied_clients(cells, printed)


def _maxima(task: Task) -> dict[str, CellReadings]:
    """The cell at the maximum of each workload."""
    lines = [one for one in series_of(task) if not one.event]
    return {
        workload: maximum_of([cell for one in group for cell in one.cells], task.margins.maximum).cell
        for workload, group in by_workload(lines).items()
    }


def _with_workers(task: Task, workers: int) -> list[CellReadings]:
    return [cell for sweep in task.sweeps for cell in sweep.cells if cell.settings.workers == workers]


def _maximum(task: Task, cells: Sequence[CellReadings]) -> CellReadings | None:
    return maximum_of(cells, task.margins.maximum).cell if cells else None


def studied_clients(cells: Sequence[CellReadings], printed: Mapping[str, str]) -> int | None:
    """At how many clients the study had its maximum, of the levels that these cells have; None where none of them fits what it printed.

    Where it printed clients per thread, those. Where it printed throughput and response time at the clients, the level next to X R: in a
    closed loop without think time that is the number of clients. Where it printed what requests spend inside the proxies, the fewest
    clients that are no fewer than the requests in there, X times that time.
    """
    levels = sorted({cell.settings.clients for cell in cells})
    if printed.get(_PER_THREAD):
        asked = int(printed[_PER_THREAD])
        return next((cell.settings.clients for cell in cells if cell.settings.clients_per_thread == asked), None)
    if printed.get("response_time_ms"):
        wanted = float(printed["throughput_ops_s"]) * float(printed["response_time_ms"]) / 1e3
        nearest = min(levels, key=lambda level: abs(level - wanted), default=0)
        return nearest if abs(nearest - wanted) <= _NEAR * wanted else None
    if printed.get("time_in_queue"):
        inside_ms = float(printed["time_in_queue"]) + float(printed["time_waiting_for_memcached"])
        held = float(printed["throughput_middleware"]) * inside_ms / 1e3
        return next((level for level in levels if level >= held), None)
    return None


def its_cell(cells: Sequence[CellReadings], clients: int | None, printed: Mapping[str, str]) -> CellReadings | None:
    """The cell at the study's clients, with the workers that it must have had there, by what it printed of its proxies.

    Where requests wait in the queue, all workers are busy: of all proxies they are X times the time behind the queue (Little's law).
    Where few wait, or the row is in doubt, nothing is known, and the studies took their maxima of the most workers.
    """
    there = [cell for cell in cells if cell.settings.clients == clients]
    most = max(there, key=lambda cell: cell.settings.workers or 0, default=None)
    queued, time = (float(printed.get(name) or 0.0) for name in ("time_in_queue_ms", "response_time_ms"))
    if printed.get("note") or queued < _QUEUED * time or not queued:
        return most
    busy = float(printed["throughput_ops_s"]) * (time - queued) / 1e3
    enough = [
        cell for cell in there if (cell.settings.workers or 0) * cell.settings.proxies >= (1.0 - _BUSY_OFF) * busy
    ]
    return min(enough, key=lambda cell: cell.settings.workers or 0, default=most)


Measured = tuple["Callable[[Reading], float | None]", float, int]
"""What is read of a run, what it is multiplied by, and the power of the speed that brings it to the study's: -1 of a rate, 1 of a time."""


def _ours(task: Task, cell: CellReadings | None, measured: Measured | None) -> Entry:
    if measured is None:
        return "–"
    if cell is None:
        return "no run"
    value, scale, power = measured
    return level_value(cell, value, scale * task.first.speed**power)


def _four(task: Task, cell: CellReadings | None, measured: Sequence[Measured | None], misses: str) -> list[Entry]:
    """Throughput, response time, time in the queue and miss rate, the last in words where there are some."""
    found = [_ours(task, cell, one) for one in measured]
    return [*found[:-1], misses] if misses and cell is not None else found


def _printed(row: Mapping[str, str], column: str) -> Entry:
    return Value(float(row[column])) if row.get(column) else "–"


def _at_its(task: Task) -> str:
    return f"{_OURS}, at the clients of {task.label}"


def _clients(cell: CellReadings | None) -> str:
    return count_text(cell.settings.clients, "client") if cell is not None else "no run"


def _at(cell: CellReadings | None, clients: int | None, *, workers: bool = True) -> str:
    """Where the study had its maximum, and with how many workers ours stands there."""
    if cell is None:
        return "no level of ours" if clients is None else "no run"
    most = f", {count_text(cell.settings.workers, 'worker')}" if workers and cell.settings.workers else ""
    return f"{_clients(cell)}{most}"


def _error(task: Task, words: str) -> str:
    """A known error of the study whose description holds these words."""
    for one in errors_at(task.label, task.spec.errors):
        if "table" in one.location and words in one.quantity:
            return f"{one.right}: {one.explanation}" if one.right else one.explanation
    return ""


def _misses(run: Reading) -> float | None:
    """Misses per get; None without gets."""
    gets = [part for name, part in run.load.operations.items() if name != "set"]
    asked = sum(part.requests for part in gets)
    return sum(part.misses for part in gets) / asked if asked else None


def _derived(run: Reading) -> float | None:
    """N / R by the time in the proxies."""
    return run.settings.population / run.residence_s if run.residence_s else None


def _derived_with_think(run: Reading) -> float | None:
    """N / (R + Z), where Z is what a request spends outside of the proxies."""
    if not run.residence_s:
        return None
    outside = run.response_s + run.settings.think_time_s - run.residence_s
    return run.settings.population / (run.residence_s + outside)


def _queue_of_one(run: Reading) -> float | None:
    """Mean number of requests in the queue of one proxy."""
    waiting = stage_s("queue")(run)
    return None if waiting is None else run.throughput * waiting / run.settings.proxies


_PER_THREAD = "clients_per_thread_at_max"
_COLUMNS = ("throughput_ops_s", "response_time_ms", "time_in_queue_ms", "miss_rate")
_QUEUE: Measured = (stage_s("queue"), 1e3, 1)
_IN_PROXIES: tuple[Measured | None, ...] = (
    (lambda run: run.proxy_throughput, 1.0, -1),
    (lambda run: run.residence_s, 1e3, 1),
    _QUEUE,
    None,
)
_AT_CLIENTS: tuple[Measured | None, ...] = ((throughput_of, 1.0, -1), (response_of, 1e3, 1), None, (_misses, 1.0, 0))
_BY_WORKER_ROWS: tuple[tuple[str, str, Measured], ...] = (
    ("X in the proxies (requests/s)", "throughput_middleware", (lambda run: run.proxy_throughput, 1.0, -1)),
    ("X derived from the time in the proxies, N / R", "throughput_from_mw_response_time", (_derived, 1.0, -1)),
    ("X derived with the time outside, N / (R + Z)", "", (_derived_with_think, 1.0, -1)),
    ("X at the clients (requests/s)", "throughput_client", (throughput_of, 1.0, -1)),
    ("Time in the queue (ms)", "time_in_queue", _QUEUE),
    ("Requests in the queue of one proxy", "queue_length", (_queue_of_one, 1.0, 0)),
    ("Time waiting for memcached (ms)", "time_waiting_for_memcached", (stage_s("backend"), 1e3, 1)),
)
