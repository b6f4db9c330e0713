"""Requests in the queues of the proxies, by Little's law: X times the time in the stage queue. `queued`, `queue_grows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir_lab.report.common import Series
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = ["queue_grows", "queued"]

# Less than this share of the requests under way are few to wait in a queue.
_FEW_SHARE = 0.1


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


def _mean(cell: CellReadings) -> float | None:
    found = [length for run in cell.runs if (length := queued(run)) is not None]
    return sum(found) / len(found) if found else None
