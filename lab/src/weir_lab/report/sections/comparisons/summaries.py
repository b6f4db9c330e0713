"""The tables in which S3 and S5 summed up their sections, with our numbers in the rows beside theirs: `study_tables`.

Of sections with a proxy: throughput, response time, time in the queue and miss rate at the maximum, as the proxies and as the clients see
them. Of the full system: throughput three ways, the queue, and the wait for memcached, by workers. Ours are brought to the study's speed.
The throughput that is *derived* is that of the interactive law from the time in the proxies, N / R, as the studies had it. It leaves out
what a request spends outside of them, so it is too large by that; the row below it has the time outside as think time Z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.common import by_workload, level_value, series_of, speed_note
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import stage_s
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry

__all__ = ["study_tables"]

_BY_PROXIES, _BY_WORKERS = "max_throughput_middleware", "max_throughput_full_system"
_COUNTS = {"1": "one middleware", "2": "two middlewares"}


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
        for place, value in (("middleware", _IN_PROXIES), ("client", _AT_CLIENTS)):
            name = f"{workload.capitalize()}, {'in the proxies' if place == 'middleware' else 'at the clients'}"
            theirs = printed.get((word, place), {})
            mark = _error(
                task, f"{workload} on {'clients' if place == 'client' else 'middleware'}, {_COUNTS.get(proxies, '')}"
            )
            rows.append((name, "ours", *(_ours(task, cell, one) for one in value), _clients(cell)))
            rows.append((name, task.label, *(_printed(theirs, one) for one in _COLUMNS), mark or "–"))
    return Table(
        f"{task.spec.name}-summary",
        f"The summary of {task.label} with ours beside it: at the fewest clients that are shown to reach the maximum, or else the "
        "level with the largest mean. Proxies count no misses." + speed_note(task.first.speed),
        ("Measured", "Whose", "X (requests/s)", "R (ms)", "In the queue (ms)", "Miss rate", "At, or known error"),
        tuple(rows),
    )


def _by_workers(task: Task) -> Table:
    printed: dict[tuple[str, int], float] = {
        (row["quantity"], int(row["worker_threads"])): float(row["value"])
        for row in read_table(_BY_WORKERS)
        if row["study"] == task.label
    }
    workers = sorted({number for _, number in printed})
    cells = {number: _maximum(task, number) for number in workers}
    errors = {"queue_length": "average length of queue", "throughput_from_mw_response_time": "throughput derived"}
    rows: list[tuple[Entry, ...]] = []
    for name, quantity, value in _BY_WORKER_ROWS:
        rows.append((name, "ours", *(_ours(task, cells[number], value) for number in workers), "–"))
        if quantity:
            theirs = [printed.get((quantity, number)) for number in workers]
            mark = _error(task, errors[quantity]) if quantity in errors else ""
            rows.append((name, task.label, *("–" if one is None else Value(one) for one in theirs), mark or "–"))
    rows.append(("Clients", "ours", *(_clients(cells[number]) for number in workers), "–"))
    return Table(
        f"{task.spec.name}-summary",
        f"The summary of {task.label} by workers per proxy with ours beside it: at the fewest clients that are shown to reach the maximum, "
        "or else the level with the largest mean. The queue is that of one proxy, by Little's law in ours."
        + speed_note(task.first.speed),
        ("Quantity", "Whose", *(f"{number} workers" for number in workers), "Known error of the study"),
        tuple(rows),
    )


def _maxima(task: Task) -> dict[str, CellReadings]:
    """The cell at the maximum of each workload."""
    lines = [one for one in series_of(task) if not one.event]
    return {
        workload: maximum_of([cell for one in group for cell in one.cells], task.margins.maximum).cell
        for workload, group in by_workload(lines).items()
    }


def _maximum(task: Task, workers: int) -> CellReadings | None:
    cells = [cell for sweep in task.sweeps for cell in sweep.cells if cell.settings.workers == workers]
    return maximum_of(cells, task.margins.maximum).cell if cells else None


Measured = tuple["Callable[[Reading], float | None]", float, int]
"""What is read of a run, what it is multiplied by, and the power of the speed that brings it to the study's: -1 of a rate, 1 of a time."""


def _ours(task: Task, cell: CellReadings | None, measured: Measured | None) -> Entry:
    if measured is None:
        return "–"
    if cell is None:
        return "no run"
    value, scale, power = measured
    return level_value(cell, value, scale * task.first.speed**power)


def _printed(row: Mapping[str, str], column: str) -> Entry:
    return Value(float(row[column])) if row.get(column) else "–"


def _clients(cell: CellReadings | None) -> str:
    return count_text(cell.settings.clients, "client") if cell is not None else "no run"


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
