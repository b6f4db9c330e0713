"""Requests in the queues of the proxies, by Little's law: X times the time in the stage queue. `queued`, `queue_grows`, `moved_points`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import by_workload
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.readings import stage_s
from weir_lab.report.page.blocks import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = ["moved_points", "queue_grows", "queued"]

# Less than this share of the requests under way are few to wait in a queue.
_FEW_SHARE = 0.1
# Two waits that differ by less than this share are about as long.
_ALIKE = 0.05
# The table in which a study has its queue and its wait for memcached by workers.
_BY_WORKERS = "max_throughput_full_system"


def queued(run: Reading) -> float | None:
    """Mean number of requests in the queues of all proxies; ``None`` without stamps of a proxy."""
    stages = run.stages_s()
    return run.throughput * stages["queue"] if stages else None


def queue_grows(series: Series) -> bool | None:
    """Whether the proxy's queue grows more than twofold from the fewest clients to the most; False where few wait there even then.

    Few are less than a tenth of the requests under way. ``None`` where many wait at all levels, or nothing is known.
    """
    lengths = [_mean(cell) for cell in (series.cells[0], series.cells[-1])]
    known = [length for length in lengths if length is not None]
    if len(known) != 2:
        return None
    if known[1] < _FEW_SHARE * series.cells[-1].settings.population:
        return False
    return True if known[1] > 2.0 * known[0] else None


def moved_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """At which clients the most workers wait longer for memcached than the next fewer, whose requests wait in the queue there.

    Of sections that have what a study printed of both waits by workers. The numbers are those of the table of mean stages.
    """
    if not any(source.table == _BY_WORKERS for source in task.spec.published):
        return []
    points = []
    for group in by_workload(lines).values():
        by_workers = {one.cells[0].settings.workers or 0: one for one in group}
        if len(by_workers) < 2 or 0 in by_workers:
            continue
        few, most = sorted(by_workers)[-2:]
        known = {cell.settings.clients: cell for cell in by_workers[few].cells}
        waits = {}
        for cell in by_workers[most].cells:
            base = known.get(cell.settings.clients)
            found = _waits(cell, base) if base is not None else None
            if found is not None:
                waits[cell.settings.clients] = found
        if waits:
            points.append(_moved_text(few, most, waits))
    return points


def _waits(cell: CellReadings, base: CellReadings) -> tuple[float, float, float, float] | None:
    """For memcached in both, and in the queue in both, in ms; ``None`` without stamps of a proxy."""
    found = [_stage_ms(one, stage) for stage in ("backend", "queue") for one in (cell, base)]
    known = [one for one in found if one is not None]
    return (known[0], known[1], known[2], known[3]) if len(known) == len(found) else None


def _moved_text(few: int, most: int, waits: dict[int, tuple[float, float, float, float]]) -> str:
    """``waits``: by clients those for memcached with the most workers and with fewer, and those in the queue."""
    longer = {clients: found for clients, found in waits.items() if found[0] > (1.0 + _ALIKE) * found[1]}
    what = f"With {most} workers in each proxy a request waits for memcached"
    if not longer:
        return f"{what} no longer than with {few}, but for {100.0 * _ALIKE:g} %, at any number of clients."
    clients, (wait, wait_few, queue, queue_few) = max(longer.items())
    at = listed([str(one) for one in longer])
    shown = f"{Value(wait).text} against {Value(wait_few).text} ms{f' with {clients}' if len(longer) > 1 else ''}"
    text = f"{what} longer than with {few} at {at} clients ({shown})"
    if all(found[2] < found[3] for found in longer.values()):
        text += (
            f", and less in the queue ({Value(queue).text} against {Value(queue_few).text} ms): what waits for one of {few} workers waits "
            f"for memcached with {most}"
        )
    rest = len(waits) - len(longer)
    others = "level" if rest == 1 else f"{rest} levels"
    return text + (f". At the other {others} it waits no longer, but for {100.0 * _ALIKE:g} %." if rest else ".")


def _stage_ms(cell: CellReadings, stage: str) -> float | None:
    found = cell.of(stage_s(stage))
    return 1e3 * sum(found) / len(found) if found else None


def _mean(cell: CellReadings) -> float | None:
    found = [length for run in cell.runs if (length := queued(run)) is not None]
    return sum(found) / len(found) if found else None
