"""What figures show beside the lines that were measured, and figures that are drawn where a study drew them.

Beside the lines: what the study printed (`printed_lines`), and in words which series hide each other (`alike_text`). Where a set names them
among its `redraws`: response times in the proxy (`proxy_percentiles`, `responses_over`), and the standard deviation of single
requests (`deviations`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.common import (
    OPERATION_LOOKS,
    PRINTED,
    by_workload,
    figure,
    level_name,
    line_over,
    mark,
    mark_of,
    method,
)
from weir_lab.report.numbers.comparing import response_of
from weir_lab.report.numbers.published import Printed, printed_maxima
from weir_lab.report.numbers.readings import OPERATION_NAMES, operation_s, operation_times
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.report.sections.comparisons.summaries import reckoned_clients
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Figure
    from weir_lab.theory.histogram import Histogram

__all__ = [
    "REPLICAS",
    "SERVERS",
    "WRITES",
    "Over",
    "alike_text",
    "deviations",
    "inside_s",
    "printed_lines",
    "printed_of",
    "proxy_percentiles",
    "responses_over",
]

# Series whose means are nowhere further apart than this hide each other in a figure.
_ALIKE = 0.03


def printed_of(task: Task) -> list[Printed]:
    """Maxima that the study printed: those at the clients, as ours are, where it printed several. The study's own summary has all."""
    found = [one for source in task.spec.published for one in printed_maxima(task.label, source)]
    return [one for one in found if one.where.endswith("client")] or found


def printed_lines(task: Task, group: Sequence[Series]) -> list[Line]:
    """What the study printed for these series, at our speed: a point at its clients where it printed them.

    Else one level for all, or a point for each: at the clients that follow from what else it printed (`reckoned_clients`), as in the table
    of its summary, or where our largest mean stands. Over workers or readers each point stands at its own number of them.
    """
    found: list[tuple[Series, CellReadings, Printed]] = []
    for one in group:
        if one.over != "clients" and not one.event:
            found += [
                (one, cell, printed) for cell in one.cells for printed in printed_of(task) if _is_of(printed, cell)
            ]
            continue
        largest = max(one.cells, key=lambda cell: cell.mean_throughput)
        fitting = [] if one.event else [printed for printed in printed_of(task) if printed.fits(largest)]
        found += [(one, largest, fitting[0])] if fitting else []
    if not found:
        return []
    speed = task.first.speed
    name = "printed by the study" if speed == 1.0 else f"printed by the study, times {speed:g}"
    if len({printed for *_, printed in found}) == 1 and found[0][2].clients_of(found[0][0].cells) is None:
        level = Mark(group[0].x(group[0].cells[0]), found[0][2].throughput * speed)
        return [Line(name, (level,), PRINTED, "level")]
    marks: dict[Mark, None] = {}
    for one, cell, printed in found:
        clients = printed.clients_of(one.cells) if one.over == "clients" else None
        reckoned = reckoned_clients(task, one.cells) if one.over == "clients" and clients is None else None
        place, where = one.x(cell), "where our mean is largest"
        if one.over != "clients":
            where = f"at its {level_name(one.over, cell.level(one.over))}"
        elif clients is not None:
            place, where = float(clients), f"at its {clients} clients"
        elif reckoned is not None:
            place, where = float(reckoned), f"at its {reckoned} clients, by Little's law from what it printed"
        marks[Mark(place, printed.throughput * speed, note=f"{one.name}, {where}")] = None
    return [Line(name, tuple(marks), PRINTED, "points")]


def _is_of(printed: Printed, cell: CellReadings) -> bool:
    """Whether a printed value belongs to the settings of a cell, its clients among them where they were printed."""
    return printed.fits(cell) and printed.clients in (None, cell.settings.clients)


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


def proxy_percentiles(
    task: Task, lines: Sequence[Series], percents: Sequence[float], axis: Callable[[Sequence[Series]], Axis]
) -> Figure | None:
    """Percentiles of the time in the proxy over clients; ``None`` where the study did not draw those."""
    if "percentiles-proxy" not in task.spec.redraws:
        return None
    panels = []
    for one in lines:
        times = [
            (cell, [(run.run.meta.repetition, found) for run in cell.runs if (found := run.proxy_times) is not None])
            for cell in one.cells
        ]
        drawn = []
        for place, percent in enumerate(percents):
            marks = []
            for cell, of_runs in times:
                known = [(block, found.percentile(percent)) for block, found in of_runs]
                placed = [(block, value / 1e6) for block, value in known if value is not None]
                # A percentile that some runs have too few requests for is not one of the cell.
                point = mark_of(one.x(cell), placed) if len(placed) == len(cell.runs) else None
                marks += [point] if point is not None else []
            if marks:
                drawn.append(Line(f"{percent:g} %", tuple(marks), LOOKS[place]))
        panels.append(
            Panel(f"{one.workload}, {one.name}", axis([one]), Axis("Time in the proxy (ms)", log=True), tuple(drawn))
        )
    cells = [cell for one in lines for cell in one.cells]
    text = method(
        cells, "percentiles of each run's times from the first stamp to the last, mean and 95 % interval over runs"
    )
    return figure(task, "percentiles-proxy", "Percentiles of the time in the proxy over clients", panels, text)


def deviations(task: Task, lines: Sequence[Series], axis: Callable[[Sequence[Series]], Axis]) -> Figure | None:
    """Mean and standard deviation of the response times of single requests over clients; ``None`` where the study did not draw them."""
    if "deviation" not in task.spec.redraws:
        return None
    panels = []
    for workload, group in by_workload(lines).items():
        bands = [
            Line("mean ± one standard deviation of the requests", tuple(_with_deviation(one)), one.look, "band")
            for one in group
        ]
        means = [line_over(one, response_of, 1e3) for one in group]
        panels.append(Panel(f"{workload}: mean", axis(group), Axis("Response time (ms)"), (*bands, *means)))
        spreads = tuple(line_over(one, _deviation_s, 1e3) for one in group)
        panels.append(Panel(f"{workload}: standard deviation", axis(group), Axis("Response time (ms)"), spreads))
    cells = [cell for one in lines for cell in one.cells]
    text = (
        method(cells)
        + " Band: one standard deviation of the requests of all runs of a cell on either side of the mean."
    )
    return figure(task, "deviation", "Standard deviation of single requests over clients", panels, text)


def _with_deviation(series: Series) -> list[Mark]:
    marks = []
    for cell in series.cells:
        times = cell.merged(lambda run: run.times)
        spread = times.standard_deviation() if times is not None else None
        if spread is not None:
            mean, off = 1e3 * cell.mean_response_s, spread / 1e6
            marks.append(Mark(series.x(cell), mean, max(0.0, mean - off), mean + off, note="all runs"))
    return marks


def _deviation_s(run: Reading) -> float | None:
    found = run.times.standard_deviation() if run.times is not None else None
    return None if found is None else found / 1e9


class Over(NamedTuple):
    """What a figure has on its axis: the axis' label, in words, and where a cell stands on it."""

    label: str
    words: str
    place: Callable[[CellReadings], float]


REPLICAS = Over("Replicas R", "replicas", lambda cell: float(cell.settings.replicas))
SERVERS = Over("Servers S", "servers", lambda cell: float(cell.settings.servers))
WRITES = Over("Writes (%)", "the share of writes", lambda cell: 100.0 * cell.settings.write_ratio)


def responses_over(
    task: Task,
    name: str,
    over: Over,
    groups: Mapping[str, Sequence[CellReadings]],
    operations: Sequence[str],
    *,
    inside: bool = False,
) -> Figure | None:
    """Response time of each operation, a panel for each group: at the clients, or ``inside`` the proxy. Mean, quartiles and median.

    Times in the proxy are drawn where the study drew those, as `redraws` of the section says.
    """
    if inside and name not in task.spec.redraws:
        return None
    panels = []
    for operation in operations:
        mean_of = inside_s(operation) if inside else operation_s(operation)
        times_of = _inside_times(operation) if inside else operation_times(operation)
        for label, group in groups.items():
            look = OPERATION_LOOKS[operation]
            mean = [mark(cell, over.place(cell), mean_of, 1e3) for cell in group]
            band, median = [], []
            for cell in group:
                times = cell.merged(times_of)
                found = [times.percentile(percent) for percent in (25.0, 50.0, 75.0)] if times is not None else [None]
                known = [value / 1e6 for value in found if value is not None]
                if len(known) == 3:
                    band.append(Mark(over.place(cell), known[1], known[0], known[2]))
                    median.append(Mark(over.place(cell), known[1], note="median of all runs"))
            lines = [
                Line("25 to 75 % of the requests", tuple(band), look, "band"),
                Line(f"{OPERATION_NAMES[operation]}, mean", tuple(one for one in mean if one), look),
                Line("median", tuple(median), LOOKS[7], "points"),
            ]
            panels.append(
                Panel(
                    f"{OPERATION_NAMES[operation]}, {label}",
                    Axis(over.label, ticks=tuple(sorted({over.place(cell) for cell in group}))),
                    Axis("Time in the proxy (ms)" if inside else "Response time (ms)"),
                    tuple(line for line in lines if line.marks),
                )
            )
    cells = [cell for group in groups.values() for cell in group]
    text = method(cells) + " Band: 25 to 75 % of the requests of all runs; stars: their median."
    title = "Time in the proxy" if inside else "Response time"
    return figure(task, name, f"{title} per operation over {over.words}", panels, text)


def inside_s(operation: str) -> Callable[[Reading], float | None]:
    """Mean time in the proxy of an operation, as a question to a run."""

    def of(run: Reading) -> float | None:
        stages = run.stages_s(operation)
        return sum(stages.values()) if stages is not None else None

    return of


def _inside_times(operation: str) -> Callable[[Reading], Histogram | None]:
    return lambda run: run.proxy_times_of(operation)
