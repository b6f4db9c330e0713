"""Replicas and writes: what each operation pays for copies, for servers and for the share of writes, against an ideal system.

`build_replication` is over servers and replicas at one share of writes, `build_writes` over all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.report.common import (
    LAW_BY_RUNS,
    STAGE_LOOKS,
    Point,
    Task,
    figure,
    level_value,
    mark,
    method,
    points_text,
    stage_bar,
    with_tables,
)
from weir_lab.report.numbers.comparing import (
    at_equal_blocks,
    cell_key,
    changes_between,
    outside_of,
    response_of,
    throughput_of,
)
from weir_lab.report.numbers.readings import OPERATION_NAMES, operation_s, operation_times, stage_times
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Figure, Table, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.report.printed_times import distributions_beside, quartiles_beside
from weir_lab.report.sections.comparisons.drawn import REPLICAS, SERVERS, WRITES, inside_s, responses_over
from weir_lab.report.sections.comparisons.over_servers import servers_points, servers_shown, servers_table
from weir_lab.report.sections.comparisons.queued import (
    parts_of,
    parts_points,
    parts_table,
    steps_over_copies,
    steps_over_writes,
)
from weir_lab.report.sections.replication.ends import (
    changes_text,
    copies_text,
    ends_of,
    response_points,
    writes_text,
)
from weir_lab.theory.stats import FALSE_DISCOVERIES
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Block, Entry, Text
    from weir_lab.report.page.charts import Bar
    from weir_lab.report.sections.comparisons.queued import Part
    from weir_lab.theory.histogram import Histogram

__all__ = ["build_replication", "build_writes", "conclusions", "relative_rows", "replication_summary", "writes_summary"]

_QUARTILES = (25.0, 50.0, 75.0, 95.0)
_OPERATIONS = ("get", "set")
_BESIDE = ", beside what the study printed (other machines and links: only the pattern can be compared)"
# From such a difference of a cell's mean at equal blocks from its plain mean on, in percent, the page says that blocks were not alike.
_BLOCKS_DIFFER = 5.0


def build_replication(task: Task) -> list[Block]:
    """Throughput, response times per operation and stages over replicas, for each number of servers."""
    cells = list(task.first.cells)
    parts = parts_of(cells, steps_over_copies(_at_servers(cells)), _OPERATIONS)
    by_servers = {f"{servers} servers": group for servers, group in _at_servers(cells).items()}
    figures: list[Block | None] = [
        responses_over(task, "response", REPLICAS, by_servers, _OPERATIONS),
        responses_over(task, "response-proxy", REPLICAS, by_servers, _OPERATIONS, inside=True),
        _throughput_over_replicas(task, cells),
        _stages_over_replicas(task, cells),
        _scalability(task, cells),
        responses_over(task, "scalability-proxy", SERVERS, _by_copies(cells), _OPERATIONS, inside=True),
        _stage_percentiles(task, cells),
        _sides(task, cells),
    ]
    return [
        *_replication_sentences(cells, parts),
        *with_tables(
            [
                _cells_table(task, cells),
                *figures,
                _effects(task, cells, over_writes=False),
                servers_table(task, cells),
                parts_table(task, parts),
                quartiles_beside(task, cells),
                distributions_beside(task, cells),
            ]
        ),
    ]


def build_writes(task: Task) -> list[Block]:
    """Throughput and response times over the share of writes, for each number of servers and replicas."""
    cells = list(task.first.cells)
    parts = parts_of(cells, steps_over_writes(_groups(cells)), _OPERATIONS)
    figures: list[Block | None] = [
        _over_writes(task, cells, "throughput", "Throughput (requests/s)", throughput_of, 1.0),
        *(
            _over_writes(
                task,
                cells,
                f"response-{name}",
                f"{OPERATION_NAMES[name]} response time (ms)",
                operation_s(name),
                1e3,
            )
            for name in _OPERATIONS
        ),
        _stages_over_writes(task, cells),
        _stage_percentiles(task, cells),
        _relative(task, cells),
        responses_over(task, "response-proxy", WRITES, _groups(cells), _OPERATIONS, inside=True),
        _relative(task, cells, inside=True) if "relative-proxy" in task.spec.redraws else None,
        *(_percentiles(task, cells, name) for name in _OPERATIONS),
        _sides(task, cells),
    ]
    return [
        *_writes_sentences(cells, parts),
        *with_tables(
            [
                _cells_table(task, cells),
                *figures,
                _relative_table(task, cells),
                _effects(task, cells, over_writes=True),
                parts_table(task, parts),
                distributions_beside(task, cells),
            ]
        ),
    ]


def replication_summary(task: Task) -> str:
    """What full replication does to each operation, at the most servers; and what more servers do, where that is shown."""
    cells = list(task.first.cells)
    points = [*(one.rstrip(".") for one in _replication_points(cells)[-1:]), *servers_shown(cells)]
    return f"{task.spec.title}: {'; '.join(points)}."


def writes_summary(task: Task) -> str:
    """What more writes do to throughput, at the most servers with the most copies."""
    return f"{task.spec.title}: {' '.join(_writes_points(list(task.first.cells))[-1:])}"


def _servers(cells: Sequence[CellReadings]) -> list[int]:
    return sorted({cell.settings.servers for cell in cells})


def _of(cells: Sequence[CellReadings], **settings: float) -> list[CellReadings]:
    found = [cell for cell in cells if all(getattr(cell.settings, name) == value for name, value in settings.items())]
    return sorted(found, key=lambda cell: (cell.settings.replicas, cell.settings.write_ratio))


def _at_servers(cells: Sequence[CellReadings]) -> dict[int, list[CellReadings]]:
    return {servers: _of(cells, servers=servers) for servers in _servers(cells)}


def _throughput_over_replicas(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    lines = []
    for place, servers in enumerate(_servers(cells)):
        marks = [mark(cell, cell.settings.replicas, throughput_of) for cell in _of(cells, servers=servers)]
        lines.append(Line(f"{servers} servers", tuple(one for one in marks if one), LOOKS[place]))
    ticks = tuple(sorted({float(cell.settings.replicas) for cell in cells}))
    panel = Panel("all requests", Axis("Replicas R", ticks=ticks), Axis("Throughput (requests/s)"), tuple(lines))
    return figure(task, "throughput", "Throughput over replicas", [panel], method(cells))


def _stages_over_replicas(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    panels = []
    for operation in _OPERATIONS:
        bars: list[Bar | None] = []
        for servers in _servers(cells):
            bars += [
                stage_bar(f"S{servers} R{cell.settings.replicas}", cell, operation)
                for cell in _of(cells, servers=servers)
            ]
        shown = tuple(bar for bar in bars if bar is not None)
        panels.append(
            Panel(OPERATION_NAMES[operation], Axis(""), Axis("Mean time (ms)"), bars=shown, parts=STAGE_LOOKS)
        )
    text = "Mean time in each stage of the proxy per request, over all runs of a cell; S servers, R replicas."
    return figure(task, "stages", "Stages per operation over servers and replicas", panels, text)


def _by_copies(cells: Sequence[CellReadings]) -> dict[str, list[CellReadings]]:
    """Cells over servers, with no, half and full replication; kinds without cells are left out."""
    kinds: list[tuple[str, Callable[[int], int]]] = [
        ("R = 1", lambda _: 1),
        ("half, R = S/2 rounded up", lambda servers: -(-servers // 2)),
        ("full, R = S", lambda servers: servers),
    ]
    found = {
        name: [cell for count in _servers(cells) for cell in _of(cells, servers=count, replicas=replicas(count))]
        for name, replicas in kinds
    }
    return {name: chosen for name, chosen in found.items() if chosen}


def _scalability(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    """Response time over servers for no, half and full replication, beside what ideal servers would do."""
    panels = []
    servers = _servers(cells)
    if len(servers) < 2:
        return None
    for operation in _OPERATIONS:
        lines = []
        for place, (name, chosen) in enumerate(_by_copies(cells).items()):
            marks = [mark(cell, cell.settings.servers, operation_s(operation), 1e3) for cell in chosen]
            known = tuple(one for one in marks if one)
            if known:
                lines.append(Line(name, known, LOOKS[place]))
        if lines:
            first = lines[0].marks[0]
            ideal = tuple(Mark(float(count), first.y * first.x / count) for count in servers)
            lines.append(Line("ideal: time falls as 1/S", ideal, LOOKS[7], "plain"))
        panels.append(
            Panel(
                OPERATION_NAMES[operation],
                Axis("Servers S", ticks=tuple(map(float, servers))),
                Axis("Response time (ms)"),
                tuple(lines),
            )
        )
    text = (
        method(cells)
        + " Ideal: servers share the work of R = 1 at the fewest servers, so that response time falls as 1/S. Quartiles and medians of the "
        "same cells stand in the figure over replicas."
    )
    return figure(task, "scalability", "Scalability over servers against the ideal system", panels, text)


def _stage_percentiles(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    """25, 50, 75 and 95 % of queue and server time per operation; ``None`` without a proxy."""
    if not any(cell.settings.path is RequestPath.PROXY for cell in cells):
        return None
    panels = []
    mixed = len({cell.settings.write_ratio for cell in cells}) > 1
    for stage in ("queue", "backend"):
        for operation in _OPERATIONS:
            lines = []
            ordered = [cell for servers in _servers(cells) for cell in _of(cells, servers=servers)]
            found: list[Histogram | None] = [cell.merged(stage_times(operation, stage)) for cell in ordered]
            names = [
                f"S{cell.settings.servers} R{cell.settings.replicas}"
                + (f" {100 * cell.settings.write_ratio:g} %" if mixed else "")
                for cell in ordered
            ]
            for place, percent in enumerate(_QUARTILES):
                marks = tuple(
                    Mark(index, value / 1e6, note="all runs")
                    for index, times in enumerate(found)
                    if times is not None and times.total and (value := times.percentile(percent)) is not None
                )
                lines.append(Line(f"{percent:g} %", marks, LOOKS[place], "points"))
            panels.append(
                Panel(
                    f"{OPERATION_NAMES[operation]}: stage {stage}",
                    Axis("", names=tuple(names)),
                    Axis("Time (ms)", log=True),
                    tuple(line for line in lines if line.marks),
                )
            )
    text = f"Percentiles of the requests of all runs of a cell; S servers, R replicas{', share of writes' if mixed else ''}."
    return figure(task, "stage-percentiles", "Queue and server time per operation", panels, text)


def _sides(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    """The mean response time as clients see it and as the proxy does, cell by cell: whether their distance is the same everywhere."""
    ordered = [cell for servers in _servers(cells) for cell in _of(cells, servers=servers)]
    names = tuple(
        f"S{cell.settings.servers} R{cell.settings.replicas} {100 * cell.settings.write_ratio:g} %" for cell in ordered
    )
    values: list[tuple[str, Callable[[Reading], float | None]]] = [
        ("at the clients", response_of),
        ("in the proxy", lambda run: run.residence_s),
    ]
    lines = []
    for place, (name, value) in enumerate(values):
        marks = [mark(cell, float(index), value, 1e3) for index, cell in enumerate(ordered)]
        lines.append(Line(name, tuple(one for one in marks if one), LOOKS[place]))
    panel = Panel(
        "all requests", Axis("", names=names), Axis("Response time (ms)"), tuple(line for line in lines if line.marks)
    )
    text = (
        method(cells)
        + " S servers, R replicas, share of writes. Between the lines: network, clients, and bytes that no stamp saw yet."
    )
    return figure(task, "sides", "Response time at the clients and in the proxy", [panel], text)


def _cells_table(task: Task, cells: Sequence[CellReadings]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    equal = at_equal_blocks(cells, throughput_of)
    for cell in cells:
        settings = cell.settings
        outside = cell.of(outside_of)
        rows.append(
            (
                Value(settings.servers),
                Value(settings.replicas),
                Value(100 * settings.write_ratio, digits=0),
                level_value(cell, throughput_of, digits=0),
                *([_equal_entry(equal.get(cell_key(cell)))] if equal else []),
                *(level_value(cell, operation_s(name), 1e3) for name in _OPERATIONS),
                over(cell.of(lambda run: 100 * run.law_deviation), signed=True),
                over(outside, 1e3, signed=True) if outside else "–",
                Value(len(cell.runs)),
            )
        )
    return Table(
        f"{task.spec.name}-cells",
        f"All cells: means over runs with 95 % intervals. {_EQUAL if equal else ''}Law: response time against N / X. {LAW_BY_RUNS}Outside: "
        "the clients' mean less the proxy's.",
        (
            "S",
            "R",
            "Writes (%)",
            "X (requests/s)",
            *(["X at equal blocks"] if equal else []),
            "GET (ms)",
            "SET (ms)",
            "Law (%)",
            "Outside (ms)",
            "Runs",
        ),
        tuple(rows),
    )


_EQUAL = (
    "Equal blocks: the mean over all blocks of the night of what the linear model, from which changes come, has for the cell in each; "
    "blocks were not equally fast, and not every block has every cell. "
)


def _equal_entry(found: float | None) -> Entry:
    return Value(found, digits=0) if found is not None else "–"


def _with_blocks(points: Sequence[Point], cells: Sequence[CellReadings]) -> list[Point]:
    """Behind the last point, that plain means and changes within blocks may differ, where they do; the table of all cells has both."""
    equal = at_equal_blocks(cells, throughput_of)
    off = {
        cell: 100.0 * (equal[cell_key(cell)] / cell.mean_throughput - 1.0) for cell in cells if cell_key(cell) in equal
    }
    if not points or not off or max(map(abs, off.values())) < _BLOCKS_DIFFER:
        return list(points)
    worst = max(off, key=lambda cell: abs(off[cell]))
    said = (
        "Changes are within blocks, so they can differ from the quotient of two means. Blocks of the night were not equally fast, and "
        f"cells have not all the same blocks: the mean of {_setting_text(worst)} is {number(worst.mean_throughput, 0)} requests/s, and "
        f"{number(equal[cell_key(worst)], 0)} at equal blocks."
    )
    *others, last = points
    return [*others, last._replace(rest=f"{last.rest} {said}".strip())]


def _effects(task: Task, cells: Sequence[CellReadings], *, over_writes: bool) -> Table | None:
    """What changes from the first replicas, or share of writes, to the last: the numbers that the sentences say."""
    rows: list[tuple[Entry, ...]] = [
        (
            Value(one.first.settings.servers),
            *([Value(one.first.settings.replicas)] if over_writes else []),
            one.name,
            f"{100 * one.first.settings.write_ratio:g} to {100 * one.last.settings.write_ratio:g} % writes"
            if over_writes
            else f"R {one.first.settings.replicas} to {one.last.settings.replicas}",
            Value(one.change.percent, one.change.low, one.change.high, 1, signed=True),
            Value(one.q, digits=3),
            "yes" if one.shown else "no difference shown",
        )
        for one in ends_of(cells, _groups(cells) if over_writes else _by_servers(cells))
    ]
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-effects",
        f"Exploratory: what {'more writes change' if over_writes else 'full replication changes'}, in percent, with a 95 % interval for "
        "each alone, from the linear model of all cells "
        f"(cell + block on logarithms). Shown: q below {FALSE_DISCOVERIES:g}, so that at most {100 * FALSE_DISCOVERIES:g} % of what is "
        "shown here is wrong on average (false discovery rate).",
        ("S", *(["R"] if over_writes else []), "Response", "Change of", "Change (%)", "q", "Shown"),
        tuple(rows),
    )


def _by_servers(cells: Sequence[CellReadings]) -> dict[str, list[CellReadings]]:
    return {f"S = {servers}": group for servers, group in _at_servers(cells).items()}


def _replication_sentences(cells: Sequence[CellReadings], parts: Sequence[Part]) -> list[Text]:
    effects = ends_of(cells, _by_servers(cells))
    points = response_points(effects, copies_text(effects), longest=True) or [
        Point(one) for one in _replication_points(cells)
    ]
    points += [*servers_points(cells), *parts_points(parts)]
    return [points_text("What the data say:", _with_blocks(points, cells))]


def _replication_points(cells: Sequence[CellReadings]) -> list[str]:
    points, effects = [], ends_of(cells, _by_servers(cells))
    for label in dict.fromkeys(one.label for one in effects):
        own = [one for one in effects if one.label == label]
        few, many = (cell.settings.replicas for cell in (own[0].first, own[0].last))
        points.append(
            f"{count_text(own[0].first.settings.servers, 'server')}, R = {few} to {many}: {changes_text(own)}."
        )
    return points or ["No number of servers has two levels of replicas with two runs each."]


def _groups(cells: Sequence[CellReadings]) -> dict[str, list[CellReadings]]:
    found: dict[str, list[CellReadings]] = {}
    for cell in sorted(
        cells, key=lambda cell: (cell.settings.servers, cell.settings.replicas, cell.settings.write_ratio)
    ):
        found.setdefault(f"S = {cell.settings.servers}, R = {cell.settings.replicas}", []).append(cell)
    return found


def _percent_axis(cells: Sequence[CellReadings]) -> Axis:
    return Axis("Writes (%)", ticks=tuple(sorted({100 * cell.settings.write_ratio for cell in cells})))


def _over_writes(
    task: Task,
    cells: Sequence[CellReadings],
    name: str,
    axis: str,
    value: Callable[[Reading], float | None],
    scale: float,
) -> Figure | None:
    lines = []
    for place, (label, group) in enumerate(_groups(cells).items()):
        marks = [mark(cell, 100 * cell.settings.write_ratio, value, scale) for cell in group]
        lines.append(Line(label, tuple(one for one in marks if one), LOOKS[place % len(LOOKS)]))
    title = axis.split(" (", maxsplit=1)[0]
    panel = Panel(title, _percent_axis(cells), Axis(axis), tuple(line for line in lines if line.marks))
    return figure(task, name, f"{title} over the share of writes", [panel], method(cells))


def _stages_over_writes(task: Task, cells: Sequence[CellReadings]) -> Figure | None:
    if not any(cell.settings.path is RequestPath.PROXY for cell in cells):
        return None
    panels = []
    for operation in reversed(_OPERATIONS):
        for label, group in _groups(cells).items():
            bars = [stage_bar(f"{100 * cell.settings.write_ratio:g} %", cell, operation) for cell in group]
            shown = tuple(bar for bar in bars if bar)
            name = f"{OPERATION_NAMES[operation]}, {label}"
            panels.append(Panel(name, Axis(""), Axis("Mean time (ms)"), bars=shown, parts=STAGE_LOOKS))
    text = "Mean time of a request in each stage of the proxy; all runs of a cell."
    return figure(task, "stages", "Stages per operation over the share of writes", panels, text)


def _relative(task: Task, cells: Sequence[CellReadings], *, inside: bool = False) -> Figure | None:
    """SET response time, or its time ``inside`` the proxy, in units of the smallest share of writes of the same servers and replicas."""
    lines, time = [], "time in the proxy" if inside else "response time"
    value = inside_s("set") if inside else operation_s("set")
    for place, (label, group) in enumerate(_groups(cells).items()):
        base, others = group[0], group[1:]
        changes = changes_between(cells, [(base, cell) for cell in others], value)
        marks = [Mark(100 * base.settings.write_ratio, 1.0, note="the base")] if any(changes) else []
        for cell, change in zip(others, changes, strict=True):
            if change is not None:
                at = 100 * cell.settings.write_ratio
                marks.append(Mark(at, 1 + change.percent / 100, 1 + change.low / 100, 1 + change.high / 100))
        if marks:
            lines.append(Line(label, tuple(marks), LOOKS[place % len(LOOKS)]))
    panel = Panel("SET", _percent_axis(cells), Axis(f"SET {time} (times the base)"), tuple(lines))
    text = method(
        cells, "bars are 95 % intervals, within blocks, of the ratio to the smallest share of writes of the same line"
    )
    name = "relative-proxy" if inside else "relative"
    return figure(task, name, f"SET {time} relative to the fewest writes", [panel], text)


def _percentiles(task: Task, cells: Sequence[CellReadings], operation: str) -> Figure | None:
    """Of one operation over the share of writes, a panel for each number of servers and replicas."""
    panels, of = [], OPERATION_NAMES[operation]
    for label, group in _groups(cells).items():
        lines = []
        for place, percent in enumerate(_QUARTILES):
            marks = []
            for cell in group:
                times = cell.merged(operation_times(operation))
                value = times.percentile(percent) if times is not None else None
                if value is not None:
                    marks.append(Mark(100 * cell.settings.write_ratio, value / 1e6, note="all runs"))
            if marks:
                lines.append(Line(f"{percent:g} %", tuple(marks), LOOKS[place]))
        panels.append(Panel(f"{of}, {label}", _percent_axis(group), Axis("Response time (ms)"), tuple(lines)))
    text = f"Percentiles of the response time of {of}s at the clients, all runs of a cell."
    name = "percentiles" if operation == "set" else f"percentiles-{operation}"
    return figure(task, name, f"Percentiles of {of}s over the share of writes", panels, text)


def relative_rows(cells: Sequence[CellReadings]) -> list[tuple[CellReadings, Value]]:
    """Throughput of every cell in units of the base: fewest servers, one replica, fewest writes."""
    ordered = sorted(cells, key=lambda cell: (cell.settings.servers, cell.settings.replicas, cell.settings.write_ratio))
    base = ordered[0]
    rows = [(base, Value(1.0, digits=2))]
    changes = changes_between(cells, [(base, cell) for cell in ordered[1:]], throughput_of)
    for cell, change in zip(ordered[1:], changes, strict=True):
        if change is not None:
            rows.append((cell, Value(1 + change.percent / 100, 1 + change.low / 100, 1 + change.high / 100, 2)))
    return rows


def _relative_table(task: Task, cells: Sequence[CellReadings]) -> Table:
    printed = {
        (int(row["servers"]), int(row["replication"]), float(row["write_percent"])): float(row["relative_throughput"])
        for row in read_table("s4_relative_performance")
        if row["study"] == task.label
    }
    rows: list[tuple[Entry, ...]] = []
    for cell, value in relative_rows(cells):
        settings = cell.settings
        found = printed.get((settings.servers, settings.replicas, round(100 * settings.write_ratio, 6)))
        beside = (Value(found, digits=2) if found is not None else "–",) if printed else ()
        rows.append(
            (
                Value(settings.servers),
                Value(settings.replicas),
                Value(100 * settings.write_ratio, digits=0),
                value,
                *beside,
            )
        )
    return Table(
        f"{task.spec.name}-relative",
        "Throughput relative to the base case (fewest servers, no copies, fewest writes), by changes within blocks with 95 % intervals "
        "that hold together" + (_BESIDE if printed else "; the study printed no such table") + ".",
        ("S", "R", "Writes (%)", "Relative X", *(["Printed"] if printed else [])),
        tuple(rows),
    )


def _writes_sentences(cells: Sequence[CellReadings], parts: Sequence[Part]) -> list[Text]:
    effects = ends_of(cells, _groups(cells))
    points = response_points(effects, writes_text(effects)) or [Point(one) for one in _writes_points(cells)]
    points += [*parts_points(parts), *_best_and_worst(cells)]
    return [points_text("What the data say:", _with_blocks(points, cells))]


def _best_and_worst(cells: Sequence[CellReadings]) -> list[Point]:
    """The settings with the largest and the smallest throughput, relative to the base as the table has them."""
    rows = relative_rows(cells)
    if len(rows) < 3:
        return []
    (best, high), (worst, low) = max(rows, key=lambda row: row[1].value), min(rows, key=lambda row: row[1].value)
    return [
        Point(
            f"Of {len(rows)} settings {_setting_text(best)} has the largest throughput, {high.text} times the base, and "
            f"{_setting_text(worst)} the smallest, {low.text} times.",
            "These are means within blocks. By chance the ends of a range lie further from each other than two settings that were chosen "
            "beforehand.",
        )
    ]


def _setting_text(cell: CellReadings) -> str:
    settings = cell.settings
    return f"S = {settings.servers}, R = {settings.replicas}, {100 * settings.write_ratio:g} % writes"


def _writes_points(cells: Sequence[CellReadings]) -> list[str]:
    points, effects = [], ends_of(cells, _groups(cells))
    for label in dict.fromkeys(one.label for one in effects):
        own = [one for one in effects if one.label == label]
        ends = [f"{100 * cell.settings.write_ratio:g}" for cell in (own[0].first, own[0].last)]
        points.append(f"{label}, from {ends[0]} to {ends[1]} % writes: {changes_text(own)}.")
    return points or ["No line has two shares of writes with two runs each."]


def conclusions(task: Task) -> dict[str, str]:
    """Which way each response goes with replicas, or with writes."""
    cells = list(task.first.cells)
    over_replicas = len({cell.settings.write_ratio for cell in cells}) < 2
    return {
        f"{one.name}, {one.label}": ("rises" if one.change.percent > 0 else "falls")
        if one.shown
        else "no difference shown"
        for one in ends_of(cells, _by_servers(cells) if over_replicas else _groups(cells))
    }
