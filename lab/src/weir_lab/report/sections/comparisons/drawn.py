"""What figures over clients show beside the lines that were measured: what the study printed, and in words which series hide each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.report.common import PRINTED, by_workload
from weir_lab.report.numbers.published import Printed, printed_maxima
from weir_lab.report.page.charts import Line, Mark
from weir_lab.report.sections.comparisons.summaries import reckoned_clients
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = ["alike_text", "printed_lines", "printed_of"]

# Series whose means are nowhere further apart than this hide each other in a figure.
_ALIKE = 0.03


def printed_of(task: Task) -> list[Printed]:
    """Maxima that the study printed: those at the clients, as ours are, where it printed several. The study's own summary has all."""
    found = [one for source in task.spec.published for one in printed_maxima(task.label, source)]
    return [one for one in found if one.where.endswith("client")] or found


def printed_lines(task: Task, group: Sequence[Series]) -> list[Line]:
    """What the study printed for these series, at our speed: a point at its clients where it printed them.

    Else one level for all, or a point for each: at the clients that follow from what else it printed (`reckoned_clients`), as in the table
    of its summary, or where our largest mean stands.
    """
    found: list[tuple[Series, CellReadings, Printed]] = []
    for one in group:
        largest = max(one.cells, key=lambda cell: cell.mean_throughput)
        fitting = [] if one.event else [printed for printed in printed_of(task) if printed.fits(largest)]
        found += [(one, largest, fitting[0])] if fitting else []
    if not found:
        return []
    name, speed = "printed by the study", task.first.speed
    if len({printed for *_, printed in found}) == 1 and found[0][2].clients_of(found[0][0].cells) is None:
        level = Mark(group[0].x(group[0].cells[0]), found[0][2].throughput * speed)
        return [Line(name, (level,), PRINTED, "level")]
    marks: dict[Mark, None] = {}
    for one, cell, printed in found:
        clients = printed.clients_of(one.cells) if one.over == "clients" else None
        reckoned = reckoned_clients(task, one.cells) if one.over == "clients" and clients is None else None
        place, where = one.x(cell), "where our mean is largest"
        if clients is not None:
            place, where = float(clients), f"at its {clients} clients"
        elif reckoned is not None:
            place, where = float(reckoned), f"at its {reckoned} clients, by Little's law from what it printed"
        marks[Mark(place, printed.throughput * speed, note=f"{one.name}, {where}")] = None
    return [Line(name, tuple(marks), PRINTED, "points")]


def alike_text(lines: Sequence[Series], value: Callable[[Reading], float | None]) -> str:
    """Which panels' series lie on each other, so that one hides the others; empty where none do."""
    parts = []
    for workload, group in by_workload(lines).items():
        known: dict[float, list[float]] = {}
        for one in group:
            for cell in one.cells:
                if found := cell.of(value):
                    known.setdefault(one.x(cell), []).append(sum(found) / len(found))
        shared = [means for means in known.values() if len(means) > 1]
        apart = max((max(means) / min(means) - 1.0 for means in shared if min(means) > 0.0), default=math.inf)
        if apart <= _ALIKE:
            parts.append(
                f" {workload.capitalize()}: the {len(group)} series lie on each other, {number(100.0 * apart, 1)} % apart at most."
            )
    return "".join(parts)
