"""What sections share: lines of cells, words for workloads and levels, captions, design tables.

A section's builder takes a `Task` and gives blocks. Cells are grouped by workload (a panel each) and by what else varies (a line each);
the event engine's cells stand beside the original's as a line of their own, always in the same look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weir_lab.design import Engine, Kind, RequestPath, Settings, cells_of, load_study
from weir_lab.design.whole.sets import DEFAULT_MARGINS
from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.comparing import level_of, stands_alone
from weir_lab.report.page.blocks import Figure, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Bar, Line, Look, Mark, Panel
from weir_lab.theory.linear import interval_of
from weir_lab.theory.units import change_text, count_text, signed_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weir_lab.design import Level, Plan, Study
    from weir_lab.design.whole.sets import Margins, SectionSpec
    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.histogram import Histogram
    from weir_lab.theory.linear import Change
    from weir_lab.theory.stats import Interval

__all__ = [
    "BARS",
    "BARS_IN_FULL",
    "BARS_MEAN",
    "BOUND",
    "EVENT",
    "LAW_BY_RUNS",
    "OF_PROXIES",
    "OPERATION_LOOKS",
    "PRINTED",
    "STAGE_LOOKS",
    "Point",
    "Series",
    "Task",
    "binned",
    "brief",
    "by_workload",
    "cell_name",
    "cell_words",
    "design_rows",
    "figure",
    "level_name",
    "level_text",
    "level_value",
    "level_words",
    "line_over",
    "mark",
    "mark_of",
    "marked_as_in",
    "method",
    "own_levels",
    "points_text",
    "series_of",
    "speed_note",
    "spread_text",
    "stage_bar",
    "table_of",
    "unit_of",
    "with_tables",
    "workload_name",
]

EVENT = Look("cx", "*", "")
PRINTED = Look("c6", "D", "8 3 2 3")
BOUND = Look("cp", "", "7 4")
# Operations and stages have the same colour in every figure of every report.
OPERATION_LOOKS = {"get": Look("c0", "o", ""), "set": Look("c1", "s", "6 3"), "multiget": Look("c2", "D", "2 2")}
STAGE_LOOKS = {stage: Look(f"s{place}", "s", "") for place, stage in enumerate((*STAGES, "outside"))}
# Settings that are a proxy's own: without one they say nothing.
OF_PROXIES = {
    "subject",
    "engine",
    "proxies",
    "proxy_threads",
    "workers",
    "readers",
    "crew",
    "replicas",
    "placement",
    "multiget",
}
# Programs that people know by another name than that of their file.
_SUBJECTS = {"weir": "Weir", "nutcracker": "twemproxy"}
_OUT_OF_NAMES = {"clients", "clients_per_thread", "client_machines", "client_threads", "instances", "write_ratio"}


class Point(NamedTuple):
    """A point of a list: what a page shows of it at first, and what opens on demand behind it."""

    lead: str
    rest: str = ""

    @property
    def whole(self) -> str:
        """Both, as Markdown and twin have them."""
        return f"{self.lead} {self.rest}".rstrip()


def points_text(title: str, points: Sequence[Point]) -> Text:
    """A list of which a page shows the leads."""
    return Text(title, tuple(one.whole for one in points), leads=tuple(one.lead for one in points))


@dataclass(frozen=True)
class Task:
    """What a builder is given: its part of the set, the sweeps of its files, and those with the event engine beside them.

    ``fewer`` are the sweeps with fewer clients than the study measured.
    """

    spec: SectionSpec
    sweeps: tuple[SweepReadings, ...]
    beside: tuple[SweepReadings, ...] = ()
    label: str = ""
    margins: Margins = DEFAULT_MARGINS
    fewer: tuple[SweepReadings, ...] = ()

    @property
    def first(self) -> SweepReadings:
        """The sweep of the first file."""
        return self.sweeps[0]


@dataclass(frozen=True)
class Series:
    """Cells that form a line, ascending by the setting ``over``; ``workload`` names their panel."""

    workload: str
    name: str
    look: Look
    cells: tuple[CellReadings, ...]
    sweep: SweepReadings
    event: bool = False
    over: str = "clients"

    def x(self, cell: CellReadings) -> float:
        """Where a cell stands on the x axis."""
        return float(str(cell.level(self.over)))


def series_of(task: Task, over: str = "clients") -> list[Series]:
    """The lines of a section over one setting."""
    found: list[Series] = []
    # A name has its look in every panel, whichever series come first there.
    places: dict[str, int] = {}
    for sweep in (*task.sweeps, *task.beside):
        event = sweep in task.beside
        groups: dict[tuple[str, str], list[CellReadings]] = {}
        for cell in sweep.cells:
            name = ", ".join(_names(cell, [one for one in sweep.varied if one != over]))
            label = "event engine" + (f", {name}" if name else "") if event else name
            groups.setdefault((workload_name(cell.settings), label), []).append(cell)
        for (workload, label), cells in groups.items():
            ordered = tuple(sorted(cells, key=lambda cell: _sortable(cell.level(over))))
            own = label or (_engine(sweep) if task.beside else _path(sweep))
            look = EVENT if event else LOOKS[places.setdefault(own, len(places)) % len(LOOKS)]
            found.append(Series(workload, own, look, ordered, sweep, event, over))
    return found


def by_workload(lines: Sequence[Series]) -> dict[str, list[Series]]:
    """The lines of each panel."""
    found: dict[str, list[Series]] = {}
    for one in lines:
        found.setdefault(one.workload, []).append(one)
    return found


def _names(cell: CellReadings, varied: Sequence[str]) -> list[str]:
    """What tells a cell's line from others. Direct access has no settings of a proxy, and a subject says by itself that it is one."""
    if "path" in varied and cell.settings.path is RequestPath.DIRECT:
        varied = [name for name in varied if name not in OF_PROXIES]
    elif "subject" in varied:
        varied = [name for name in varied if name != "path"]
    return [level_name(one, cell.level(one)) for one in varied if one not in _OUT_OF_NAMES]


def _engine(sweep: SweepReadings) -> str:
    return f"{sweep.cells[0].settings.engine} engine" if sweep.cells else "measured"


def _path(sweep: SweepReadings) -> str:
    return "through the proxy" if sweep.cells and sweep.cells[0].settings.path.value == "proxy" else "direct"


def workload_name(settings: Settings) -> str:
    """``reads``, ``writes``, ``5 % writes``."""
    if settings.write_ratio == 0.0:
        return "reads" if settings.multiget_keys == 1 else "multi-gets"
    return "writes" if settings.write_ratio == 1.0 else f"{100 * settings.write_ratio:g} % writes"


def level_name(factor: str, level: object) -> str:
    """``8 workers``, ``3 servers``, ``R = 3``."""
    if factor == "replicas":
        return f"R = {level}"
    if factor == "path":
        return {"proxy": "through the proxy"}.get(str(level), str(level))
    if factor == "subject":
        return _SUBJECTS.get(str(level), str(level))
    if factor in ("workers", "readers", "servers", "proxies", "keys"):
        noun = {"proxies": "proxy"}.get(factor, factor.removesuffix("s"))
        return count_text(int(str(level)), noun).replace("proxys", "proxies")
    if factor == "proxy_threads":
        return count_text(int(str(level)), "event loop")
    if factor == "value_size_bytes":
        return f"values of {int(str(level)):,} bytes"
    return f"{factor.replace('_', ' ')} {level}"


def cell_words(cell: CellReadings, without: str = "") -> str:
    """The levels of a cell in words: ``8 workers, 24 clients``. What is a proxy's is left out where there is none."""
    none = OF_PROXIES if cell.settings.path is RequestPath.DIRECT else frozenset[str]()
    return ", ".join(
        level_words(name, level) for name, level in cell.cell.levels if name != without and name not in none
    )


def cell_name(cell: CellReadings) -> str:
    """The same, and the name of a cell that has no levels: a trace."""
    return cell_words(cell) or cell.cell.name


def level_words(name: str, level: object) -> str:
    """A level of any factor: ``100 % writes``, ``1 client per thread``, ``8 workers``."""
    if name == "write_ratio":
        return f"{100.0 * float(str(level)):g} % writes"
    if name in ("clients", "clients_per_thread", "multiget_keys"):
        noun = {"multiget_keys": "key"}.get(name, "client")
        return count_text(int(str(level)), noun) + (" per thread" if name == "clients_per_thread" else "")
    return level_name(name, level)


def mark(
    cell: CellReadings,
    x: float,
    value: Callable[[Reading], float | None],
    scale: float = 1.0,
    most: Callable[[Reading], float | None] | None = None,
) -> Mark | None:
    """A point of a line: the mean over runs with its interval, or with its two runs; ``None`` where no run has the number.

    No interval reaches above ``most``, what the value cannot exceed in a run.
    """
    runs = tuple((block, one * scale) for block, one in _by_block(cell, value).items())
    if stands_alone(cell, value):
        return _of_two(x, runs)
    interval = level_of(cell, value, most)
    return mark_of(x, runs, interval.scaled(scale) if interval is not None else None)


def level_value(
    cell: CellReadings,
    value: Callable[[Reading], float | None],
    scale: float = 1.0,
    digits: int | None = None,
    most: Callable[[Reading], float | None] | None = None,
) -> Value | str:
    """A level as figures have it, for a table; a dash where no run has the number."""
    found = cell.of(value)
    if stands_alone(cell, value):
        return over(found, scale, digits)
    interval = level_of(cell, value, most)
    if interval is not None:
        return Value.of(interval.scaled(scale), digits)
    return Value(found[0] * scale, digits=digits) if found else "–"


def level_text(
    cell: CellReadings, value: Callable[[Reading], float | None], scale: float = 1.0, digits: int | None = None
) -> str:
    """The same for a sentence."""
    found = level_value(cell, value, scale, digits)
    return found.text if isinstance(found, Value) else found


def mark_of(x: float, runs: Sequence[tuple[int, float]], interval: Interval | None = None) -> Mark | None:
    """The mean of some runs, each given with its block, with its interval (their own, if none is given); ``None`` without runs.

    Two runs have no interval of their own, and stand as they are.
    """
    if not runs:
        return None
    note = count_text(len(runs), "run")
    if len(runs) == 1:
        return Mark(x, runs[0][1], note=note)
    if len(runs) == 2 and interval is None:
        return _of_two(x, runs)
    interval = interval or interval_of([value for _, value in runs])
    return Mark(x, interval.mean, interval.low, interval.high, note, tuple(runs))


def _of_two(x: float, runs: Sequence[tuple[int, float]]) -> Mark:
    """Two runs with no error but their own: both, and no interval."""
    return Mark(x, sum(value for _, value in runs) / len(runs), note="2 runs", runs=tuple(runs))


def _by_block(cell: CellReadings, value: Callable[[Reading], float | None]) -> dict[int, float]:
    return {run.run.meta.repetition: found for run in cell.runs if (found := value(run)) is not None}


def line_over(
    series: Series,
    value: Callable[[Reading], float | None],
    scale: float = 1.0,
    name: str = "",
    most: Callable[[Reading], float | None] | None = None,
) -> Line:
    """One line with its intervals, none of which reaches above ``most``."""
    marks = [mark(cell, series.x(cell), value, scale, most) for cell in series.cells]
    return Line(name or series.name, tuple(one for one in marks if one is not None), series.look)


def brief(change: Change) -> str:
    """``−35.0 % (−38.1 to −31.7)``: intervals are 95 % intervals unless something else is said, as each page has it at its head."""
    if f"{100 * change.level:g}" != "95":
        return change_text(change)
    return f"{signed_percent(change.percent)} % ({signed_percent(change.low)} to {signed_percent(change.high)})"


def spread_text(changes: Sequence[float], percent: float) -> str:
    """Changes in percent, from the least to the largest, and how many are larger than a margin: a mean says little where they differ.

    >>> spread_text([-1.9, -1.7, 63.0], 5.0)
    '−1.90 to +63.0 %, by more than 5 % in 1 of them'
    """
    beyond = sum(abs(one) > percent for one in changes)
    return f"{signed_percent(min(changes))} to {signed_percent(max(changes))} %, by more than {percent:g} % in {beyond} of them"


def speed_note(speed: float) -> str:
    """A sentence for captions of tables that hold printed values beside measured ones."""
    if speed == 1.0:
        return ""
    return (
        f" At the study's speed: our rates divided by {speed:g}, our times multiplied by it; changes are taken there."
    )


def stage_bar(label: str, cell: CellReadings, operation: str | None = None, *, outside: bool = False) -> Bar | None:
    """Mean time in each stage in ms, and what the client waits outside the proxy."""
    stages = [run.stages_s(operation) for run in cell.runs]
    known = [one for one in stages if one is not None]
    if not known:
        return None
    parts = [(stage, 1e3 * sum(one[stage] for one in known) / len(known)) for stage in STAGES]
    if outside:
        seen = cell.mean_response_s * 1e3
        parts.append(("outside", max(0.0, seen - sum(value for _, value in parts))))
    return Bar(label, tuple(parts))


def unit_of(time_ns: float) -> str:
    """The unit in which a time is written without leading zeros: µs below a millisecond."""
    return "µs" if time_ns < 1e6 else "ms"


def binned(times: Histogram, top_ns: float, most: int, part: str, unit: str) -> list[Bar]:
    """Shares in percent of all times, in at most this number of bins up to ``top_ns``, whose width is 1, 2 or 5 times a power of ten."""
    scale = 1e3 if unit == "µs" else 1e6
    width = _round_up(top_ns / most)
    edges = [width * (index + 1) for index in range(max(1, math.ceil(top_ns / width)))]
    shares = np.diff([0, *(times.count_up_to(round(edge)) for edge in edges)]) / times.total * 100.0
    return [Bar(f"{edge / scale:.10g}", ((part, float(share)),)) for edge, share in zip(edges, shares, strict=True)]


def _round_up(width: float) -> float:
    """The next 1, 2 or 5 times a power of ten, not below a nanosecond."""
    power = 10.0 ** math.floor(math.log10(max(width, 1.0)))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= width * (1 - 1e-9))


LAW_BY_RUNS = (
    "The law is that of each run, and what is printed of it the mean over runs. X and times are plain means over runs, too: where runs "
    "differ much, the product of two such means lies above N, though in no run it does. "
)
"""Beside a column of the interactive law."""
# What bars are: on a page whose words say more of it, and on one that says it here.
BARS = "bars at points are the 95 % interval of each mean alone, where it has one"
BARS_MEAN = "times and divided by a factor; two runs have none where nothing else tells how far runs differ"
BARS_IN_FULL = f"bars at points are the 95 % interval of each mean alone, {BARS_MEAN}"


def method(cells: Sequence[CellReadings], what: str = BARS) -> str:
    """How many runs stand behind each point, and what the bars are: in sentences of their own, so that a page says the second once."""
    counts = sorted({len(cell.runs) for cell in cells})
    shown = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"n = {shown} runs per point. {what[:1].upper()}{what[1:]}."
        if counts != [1]
        else "One run per point, so no intervals."
    )


def figure(
    task: Task, name: str, title: str, panels: Sequence[Panel], text: str, sweeps: Sequence[SweepReadings] = ()
) -> Figure | None:
    """A figure of the panels that have data; ``None`` where none has."""
    shown = tuple(panel for panel in panels if panel.has_data)
    if not shown:
        return None
    runs = tuple(
        f"{sweep.folder.name}: {count_text(len(sweep.run_names), 'run')}"
        for sweep in sweeps or (*task.sweeps, *task.beside)
    )
    return Figure(f"{task.spec.name}-{name}", title, text, shown, task.spec.redraws.get(name, ""), runs)


def table_of(panel_figure: Figure, caption: str = "") -> Table:
    """The numbers behind a figure of lines: one row per mark."""
    rows: list[tuple[Entry, ...]] = []
    labels = dict.fromkeys(panel.x.label for panel in panel_figure.panels)
    for panel in panel_figure.panels:
        title = panel.title if len(labels) == 1 or not panel.x.label else f"{panel.title}: {panel.x.label}"
        measured = [line for line in panel.lines if line.kind in ("line", "points", "level")]
        for line in measured or [line for line in panel.lines if line.kind == "plain"]:
            for one in line.marks:
                where: Entry = panel.x.names[round(one.x)] if panel.x.names else Value(one.x)
                where = "all" if line.kind == "level" else where
                rows.append((title, line.name, where, Value(one.y, one.low, one.high), one.note))
        for bar in panel.bars:
            rows += [(title, name, bar.label, Value(value), "") for name, value in bar.parts]
    x, y = next(iter(labels)) if len(labels) == 1 else "", panel_figure.panels[0].y.label
    return Table(
        f"{panel_figure.name}-data",
        caption or f"The numbers behind the figure: {panel_figure.title}",
        ("Panel", "Series", x or "At", y, "Note"),
        tuple(rows),
        folded=True,
    )


def marked_as_in(study: Study, file: Path) -> Study:
    """The study with what its own file marks as assumed today, where that is there: records keep the file as it was at the run.

    What is marked decides nothing of a run (`content_sha256` has none of it), and is corrected after runs were made.
    """
    return study.model_copy(update={"assumed": load_study(file, None).assumed}) if file.is_file() else study


def own_levels(study: Study, file: Path) -> tuple[tuple[str, str], ...]:
    """A row for each factor with the levels that a pace adds to those of the earlier study, as its file has them at the pace `full`."""
    if not file.is_file():
        return ()
    titles = _titles(study)
    theirs = load_study(file, "full").factors
    added = {
        name: [one for one in levels if one not in theirs.get(name, levels)] for name, levels in study.factors.items()
    }
    return tuple(
        (f"{titles[name]}, of these ours", ", ".join(map(str, levels))) for name, levels in added.items() if levels
    )


def design_rows(study: Study, original: Plan | None = None) -> tuple[tuple[str, str], ...]:
    """Factors with their levels, fixed settings, and the plan; where that of the ``original`` study has other phases, these, too."""
    titles = _titles(study)
    plan = study.plan
    rows = [(f"{titles[name]}, factor", _levels_text(study, name, levels)) for name, levels in study.factors.items()]
    direct = study.fixed.get("path") == RequestPath.DIRECT
    rows += [
        (titles[name], _levels_text(study, name, [value]))
        for name, value in study.fixed.items()
        if not (direct and name in OF_PROXIES)
    ]
    if study.kind in (Kind.LOAD, Kind.TRACE, Kind.MICRO):
        runs = (
            "as many as the night had time for, where they tell most"
            if plan.night is not None
            else f"{plan.repetitions}"
            if plan.stop is None
            else f"{plan.repetitions} to {plan.repetitions_max}, by stop rule"
        )
        if study.find is None:
            rows.append(("repetitions", f"{runs}, {plan.order.replace('-', ' ')}"))
        else:
            asked = study.search
            rows += [
                ("goal", study.find),
                (
                    "search",
                    f"{asked.rate_min:,g} to {asked.rate_max:,g} requests/s, at most {asked.runs_max} runs per cell",
                ),
                ("wanted", f"a {100 * asked.level:g} % interval within {100 * asked.half_width:g} %"),
            ]
        measured = f"{plan.measured_s:g} s"
        if plan.night is not None and plan.night.headline_s != plan.measured_s:
            measured = f"{plan.measured_s:g} or {plan.night.headline_s:g} s"
        phases = _phases_text(plan, measured)
        rows.append(("phases", phases))
        if original is not None and (theirs := _phases_text(original, f"{original.measured_s:g} s")) != phases:
            rows.append(("phases of the study", theirs))
    rows += [("pace", study.pace or "as written")]
    if study.assumed:
        words = titles | _PLAN_WORDS
        rows.append(("assumed, not printed by the study", ", ".join(words.get(name, name) for name in study.assumed)))
    return tuple(rows)


# What a study file may mark as assumed beside settings.
_PLAN_WORDS = {
    "warmup_s": "warm-up",
    "measured_s": "measured time",
    "cooldown_s": "cool-down",
    "repetitions": "repetitions",
    "topology.links": "links",
    "topology.cpu": "CPU quotas",
}


def _titles(study: Study) -> dict[str, str]:
    """Settings as a page names them; the threads of a proxy with workers or readers serve no request, but read them."""
    titles = {name: str(field.title) for name, field in Settings.model_fields.items()}
    if study.fixed.get("engine") in (Engine.POOL, Engine.SPLIT):
        titles["proxy_threads"] = "network threads per proxy"
    return titles


def _phases_text(plan: Plan, measured: str) -> str:
    return f"{plan.warmup_s:g} s warm-up, {measured} measured, {plan.cooldown_s:g} s cool-down"


def _levels_text(study: Study, name: str, levels: Sequence[Level]) -> str:
    """Levels as given; where one is a formula, what it gives in the cells of the study."""
    if not any(isinstance(level, str) and level.startswith("=") for level in levels):
        return ", ".join(map(str, levels))
    given = [getattr(cell.settings, name) for cell in cells_of(study)]
    return ", ".join(map(str, sorted({one for one in given if one is not None}, key=_sortable)))


def with_tables(blocks: Sequence[Block | None]) -> list[Block]:
    """Every figure followed by its raw numbers."""
    out: list[Block] = []
    for block in blocks:
        if block is None:
            continue
        out.append(block)
        if isinstance(block, Figure):
            out.append(table_of(block))
    return out


def _sortable(level: object) -> tuple[bool, float, str]:
    return (isinstance(level, str), 0.0 if isinstance(level, str) else float(str(level)), str(level))
