"""What a verdict on throughput is about where series stop at different places: `beside_maximum`, `beside_change`.

A section may say in one line that the workers limit, and in another that they do not: with 8 of them they do, and with 64 the links. So
the evidence of a verdict names the series that it is about, what limits them, and the others that it says nothing of. The stops are those
of the table of maxima (`comparisons.plateaus`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.sections.comparisons.plateaus import stops_of
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.numbers.stations import Bound
    from weir_lab.report.sections.comparisons.plateaus import Stop

__all__ = ["beside_change", "beside_maximum"]

# Kinds of sections that have stops.
_KINDS = ("clients", "beside")


def beside_maximum(task: Task, cells: Sequence[CellReadings], maximum: Maximum, bound: Bound) -> str:
    """Series that stop below the maximum that a claim is about, and why; empty where none does.

    ``; this is about the most that is reached, by 16 and 64 workers, where the client uplinks limit; 8 workers stop at 61 % of what these
    links carry, …, and the verdict is not about them``.
    """
    stops = _stops(task, cells)
    # Where no maximum is shown, the level with the largest mean stands for it.
    most_at = {maximum.cell, *maximum.cells}
    below = [one for one in stops if most_at.isdisjoint(_cells(one))]
    if not below:
        return ""
    own = [f", by {one.names}{_where(one)}" for one in stops if one not in below]
    parts = [
        f"{_stops_text(one)} at {number(100.0 * one.maximum.throughput / bound.requests_per_s, 0)} % of what these links carry{_where(one)}"
        for one in below
    ]
    return (
        f"; this is about the most that is reached{''.join(own)}; {'; '.join(parts)}, and the verdict is not about them"
    )


def beside_change(task: Task, cells: Sequence[CellReadings], factor: str) -> str:
    """What limits the levels of a factor between which throughput changes; empty where the section's series differ in others, too.

    ``; this is about how throughput changes, and not about what limits the most of it: 8 workers stop where the workers limit; 16, 32 and
    64 workers where the client uplinks limit``.
    """
    if task.spec.kind not in _KINDS or factor.startswith("clients"):
        return ""
    stops = _stops(task, cells)
    levels = [{cell.level(factor) for cell in one.cells} for stop in stops for one in stop.series]
    own = {level for one in levels if len(one) == 1 for level in one}
    if len(levels) < 2 or len(own) < len(levels) or not all(one.limit.station for one in stops):
        return ""
    # Stops come with the largest throughput first, levels with the smallest.
    parts = [f"{_stops_text(one)}{_where(one).removeprefix(',')}" for one in reversed(stops)]
    return f"; this is about how throughput changes, and not about what limits the most of it: {'; '.join(parts)}"


def _stops(task: Task, cells: Sequence[CellReadings]) -> list[Stop]:
    """Those that are shown, of series that a claim speaks of as a whole."""
    return [one for one in stops_of(task) if one.shown and all(cell in cells for cell in _cells(one))]


def _cells(stop: Stop) -> list[CellReadings]:
    return [cell for one in stop.series for cell in one.cells]


def _stops_text(stop: Stop) -> str:
    """``8 workers stop``, ``1 reader stops``."""
    return f"{stop.names} {'stops' if len(stop.series) == 1 and not stop.names.endswith('s') else 'stop'}"


def _where(stop: Stop) -> str:
    return f", where the {stop.limit.named} limit" if stop.limit.station else ""
