"""Sections of a sweep whose requests come at a rate of their own: what is kept up with, what limits, and what a response takes.

Start with `sections`; the paragraph at the head of the page is in `open_answers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import RequestPath, Role
from weir_lab.records.formats import STAGES
from weir_lab.records.tables.found import KEPT_UP_SHARE_MIN, LATE_SHARE_MAX
from weir_lab.report.common import (
    BARS_IN_FULL,
    BOUND,
    STAGE_LOOKS,
    Task,
    figure,
    level_value,
    mark,
    mark_of,
    method,
    stage_bar,
)
from weir_lab.report.numbers.comparing import changes_between, response_of, throughput_of
from weir_lab.report.numbers.stations import FULL
from weir_lab.report.page.blocks import Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.report.single.offered import (
    answered_percent,
    axis_of,
    curves_of,
    label_of,
    late_percent,
    late_runs,
    levels_along,
    limit_of,
    longest_growth,
    mean,
    nominal_rate,
    offered_rate,
    percentile_of,
    rate_words,
    station_shares,
    stations_of,
    unsent_percent,
    with_all,
)
from weir_lab.theory.units import change_text, count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.report.single.offered import Curve
    from weir_lab.theory.linear import Change

__all__ = ["sections"]

# More curves than this are not listed one by one in a sentence.
_LISTED_MAX = 4
# More panels than this have no room in a figure.
_PANELS_MAX = 6
_STATIONS_MAX = 6
_PERCENTS = (50.0, 99.0, 99.9)
_OFFERED = "Offered rate (requests/s)"


def sections(task: Task) -> list[tuple[str, str, list[Block]]]:
    """Name, title and blocks of each section, in the order of the page."""
    readings, curves = task.first, curves_of(task.first)
    return [
        ("limits", "What limits, and why", _limits(task, curves)),
        ("response", "Response time", _responses(task, curves)),
        ("kept", "What was offered, and what was answered", _kept_up(task, curves)),
        ("compared", "The other factors compared", _compared(readings, curves)),
    ]


def _limits(task: Task, curves: Sequence[Curve]) -> list[Block]:
    readings = task.first
    points = [point for one in curves[:_PANELS_MAX] for point in _curve_points(readings, one)]
    blocks: list[Block | None] = [
        Text("At the lowest rate that was not kept up with, else at the highest:", tuple(points))
    ]
    blocks += [_stations_figure(task, curves), _stages_figure(task, curves)]
    return [one for one in blocks if one is not None]


def _curve_points(readings: SweepReadings, curve: Curve) -> list[str]:
    cell = curve.first_above or curve.cells[-1]
    head = f"{curve.name[:1].upper()}{curve.name[1:]}, {label_of(cell, axis_of(readings))}"
    points = [f"{head}: {limit_of(readings, cell).sentence}"]
    late = late_runs(cell)
    if late:
        points[0] += (
            f" In {late} of {count_text(len(cell.runs), 'run')} the load generator itself sent more than {100 * LATE_SHARE_MAX:g} % late: "
            "its own limit may be what is seen. Give it more client_threads, or another machine."
        )
    kept = curve.kept
    if len(kept) >= 2 and axis_of(readings) == "rate":
        growth = longest_growth(kept[0], kept[-1])
        if growth is not None:
            ends = " to ".join(rate_words(nominal_rate(one)) for one in (kept[0], kept[-1]))
            points.append(f"{curve.name[:1].upper()}{curve.name[1:]}, from {ends}: {growth.text}.")
    return points


def _axis(readings: SweepReadings, curves: Sequence[Curve]) -> Axis:
    name = axis_of(readings)
    levels = levels_along(name, curves)
    label = _OFFERED if name == "rate" else name.replace("_", " ").capitalize()
    if any(isinstance(level, str) for level in levels):
        return Axis(label, names=tuple(map(str, levels)))
    ticks = tuple(float(str(level)) for level in levels)
    wide = len(ticks) > 2 and ticks[0] > 0.0 and ticks[-1] >= 8.0 * ticks[0]
    return Axis(label, log=wide, ticks=ticks)


def _place(readings: SweepReadings, curves: Sequence[Curve]) -> Callable[[CellReadings], float]:
    name = axis_of(readings)
    levels = levels_along(name, curves)
    if any(isinstance(level, str) for level in levels):
        return lambda cell: float(levels.index(cell.level(name)))
    return lambda cell: float(str(cell.level(name)))


def _drawn(
    task: Task,
    curves: Sequence[Curve],
    value: Callable[[Reading], float | None],
    scale: float = 1.0,
    *,
    whole: bool = False,
) -> tuple[Line, ...]:
    """A line of the cells that kept up per curve, and hollow points of those that did not; with ``whole`` one line of all."""
    at = _place(task.first, curves)
    found: list[Line] = []
    for one, look in zip(curves, LOOKS, strict=False):
        for name, cells, kind in (
            [(one.name, one.cells, "line")]
            if whole
            else [(one.name, one.kept, "line"), (f"{one.name}: fell behind", one.above, "points")]
        ):
            marks = [mark(cell, at(cell), value, scale) for cell in cells if with_all(cell, value)]
            known = tuple(made for made in marks if made is not None)
            if known:
                found.append(Line(name, known, look, kind))
    return tuple(found)


def _cells(curves: Sequence[Curve]) -> list[CellReadings]:
    return [cell for one in curves for cell in one.cells]


def _responses(task: Task, curves: Sequence[Curve]) -> list[Block]:
    readings, across = task.first, _axis(task.first, curves)
    shown = curves[: len(LOOKS)]
    asked: list[tuple[str, Callable[[Reading], float | None]]] = [("mean", response_of)]
    asked += [(f"p{percent:g}", percentile_of(percent)) for percent in _PERCENTS]
    panels = []
    for title, value in asked:
        lines = _drawn(task, shown, value, 1e3)
        values = [one.y for line in lines for one in line.marks]
        log = bool(values) and min(values) > 0.0 and max(values) > 8.0 * min(values)
        panels.append(Panel(title, across, Axis("Response time (ms)", log=log), lines))
    text = (
        "A response time begins at the moment at which the request was due, so that time behind a stalled request counts. "
        + method(_cells(curves), BARS_IN_FULL)
        + f" Hollow: at least one run answered less than {100 * KEPT_UP_SHARE_MIN:g} % of what was offered; its times grow with the "
        "length of the run."
        + ("" if not across.log else " The axis of the rate is logarithmic.")
        + (" Axes of times over a wide range are logarithmic." if any(panel.y.log for panel in panels) else "")
        + _left_out(curves, shown)
    )
    drawn = figure(task, "response", f"Response time over {across.label.split(' (')[0].lower()}", panels, text)
    return [*([drawn] if drawn else []), _numbers(readings, curves)]


def _left_out(curves: Sequence[Curve], shown: Sequence[Curve]) -> str:
    left = len(curves) - len(shown)
    return f" {left} of {len(curves)} lines are left out here; the table has them." if left else ""


def _numbers(readings: SweepReadings, curves: Sequence[Curve]) -> Table:
    axis = axis_of(readings)
    rows: list[tuple[Entry, ...]] = [
        (
            one.name,
            _level_entry(cell.level(axis)),
            Value(len(cell.runs)),
            level_value(cell, response_of, 1e3),
            *(
                level_value(cell, value, 1e3) if with_all(cell, value) else "too few"
                for value in map(percentile_of, _PERCENTS)
            ),
            "yes" if cell in one.kept else "no",
        )
        for one in curves
        for cell in one.cells
    ]
    return Table(
        "offered-times",
        "Response times (ms) of all levels with 95 % intervals over n runs. Too few: a run has too few requests for the percentile.",
        (
            "Curve",
            axis.replace("_", " ").capitalize(),
            "n",
            "Mean",
            *(f"p{percent:g}" for percent in _PERCENTS),
            "Kept up",
        ),
        tuple(rows),
    )


def _answered(readings: SweepReadings, curves: Sequence[Curve]) -> Table:
    axis = axis_of(readings)
    rows: list[tuple[Entry, ...]] = []
    for one in curves:
        for cell in one.cells:
            spent = cell.of(lambda run: run.cores(Role.PROXY)) if cell.settings.path is RequestPath.PROXY else []
            shares = [_percent(cell, value) for value in (answered_percent, late_percent, unsent_percent)]
            cpus = over(spent, digits=2) if spent and min(spent) > 0.0 else "–"
            level = _level_entry(cell.level(axis))
            rows.append(
                (
                    one.name,
                    level,
                    level_value(cell, offered_rate, digits=0),
                    level_value(cell, throughput_of, digits=0),
                    *shares,
                    cpus,
                )
            )
    return Table(
        "offered-rates",
        "All levels: intervals are 95 % intervals over runs, shares are means. Offered: what fell due in the measured phase. Late: sent "
        "late by the load generator's own fault. Unsent: no room was left in its backlog. Proxy: CPUs that the proxies kept busy.",
        (
            "Curve", axis.replace("_", " ").capitalize(), "Offered (requests/s)", "Answered (requests/s)", "Answered (%)", "Late (%)",
            "Unsent (%)", "Proxy (CPUs)",
        ),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def _level_entry(level: object) -> Entry:
    return level if isinstance(level, str) else Value(float(str(level)))


def _percent(cell: CellReadings, value: Callable[[Reading], float | None]) -> Entry:
    """A mean of shares: near its ends the logarithm of a share says nothing, so that no interval is given."""
    found = cell.of(value)
    return Value(mean(found), digits=1) if found else "not reported"


def _kept_up(task: Task, curves: Sequence[Curve]) -> list[Block]:
    readings, across, shown = task.first, _axis(task.first, curves), curves[: len(LOOKS)]
    panels = []
    if axis_of(readings) == "rate":
        ends = [float(str(cell.level("rate"))) for cell in _cells(curves)]
        equal = Line("answered = offered", tuple(Mark(one, one) for one in sorted(set(ends))), BOUND, "plain")
        panels.append(
            Panel(
                "answered over offered", across, Axis("Answered (requests/s)", log=across.log),
                (*_drawn(task, shown, throughput_of, whole=True), equal),
            )
        )  # fmt: skip
    least = Line(
        "98 %: keeps up", (Mark(across.ticks[0] if across.ticks else 0.0, 100 * KEPT_UP_SHARE_MIN),), BOUND, "level"
    )
    most = Line("1 %: late", (Mark(across.ticks[0] if across.ticks else 0.0, 100 * LATE_SHARE_MAX),), BOUND, "level")
    panels.append(
        Panel(
            "share answered",
            across,
            Axis("Answered (% of offered)", top=100.0),
            (*_shares(task, shown, answered_percent), least),
        )
    )
    panels.append(
        Panel(
            "sent late by the generator",
            across,
            Axis("Late (% of arrivals)"),
            (*_shares(task, shown, late_percent), most),
        )
    )
    unsent = _shares(task, shown, unsent_percent)
    if any(one.y > 0.0 for line in unsent for one in line.marks):
        panels.append(Panel("never sent", across, Axis("Unsent (% of arrivals)"), unsent))
    text = (
        f"What counts is the measured phase. A system keeps up if it answers {100 * KEPT_UP_SHARE_MIN:g} % of what is offered; the "
        f"load generator, if it sends at most {100 * LATE_SHARE_MAX:g} % late by its own fault. Shares are means over runs, without "
        "intervals." + _left_out(curves, shown)
    )
    drawn = figure(task, "kept-up", "What was offered, and what was answered", panels, text)
    return [*([drawn] if drawn else []), _answered(readings, curves)]


def _shares(task: Task, curves: Sequence[Curve], value: Callable[[Reading], float | None]) -> tuple[Line, ...]:
    at = _place(task.first, curves)
    return tuple(
        Line(one.name, marks, look)
        for one, look in zip(curves, LOOKS, strict=False)
        if (marks := tuple(_plain_mark(at(cell), cell, value) for cell in one.cells if with_all(cell, value)))
    )


def _plain_mark(x: float, cell: CellReadings, value: Callable[[Reading], float | None]) -> Mark:
    runs = tuple((run.run.meta.repetition, found) for run in cell.runs if (found := value(run)) is not None)
    return Mark(x, mean([one for _, one in runs]), note=count_text(len(runs), "run"), runs=runs)


def _stations_figure(task: Task, curves: Sequence[Curve]) -> Block | None:
    readings, across, shown = task.first, _axis(task.first, curves), curves[:_PANELS_MAX]
    at, names = _place(readings, curves), stations_of(readings, _cells(shown))[:_STATIONS_MAX]
    panels = []
    for one in shown:
        lines = []
        for station, look in zip(names, LOOKS, strict=False):
            marks = []
            for cell in one.cells:
                runs = [(block, 100.0 * share) for block, share in station_shares(readings, cell, station)]
                made = mark_of(at(cell), runs) if min((share for _, share in runs), default=0.0) > 0.0 else None
                marks += [made] if made is not None else []
            if marks:
                lines.append(Line(station, tuple(marks), look))
        full = Line(f"{100 * FULL:g} %: full", (Mark(at(one.cells[0]), 100.0 * FULL),), BOUND, "level")
        panels.append(Panel(one.name, across, Axis("Busy (%)", top=100.0), (*lines, full)))
    text = (
        f"How busy each station was in the measured phase; from {100 * FULL:g} % on it is called full. "
        f"{method(_cells(shown), BARS_IN_FULL)}"
        + (" The axis of the rate is logarithmic." if across.log else "")
        + _left_out(curves, shown)
    )
    return figure(
        task, "stations", f"How busy each station is, over {across.label.split(' (')[0].lower()}", panels, text
    )


def _stages_figure(task: Task, curves: Sequence[Curve]) -> Block | None:
    """Where the time goes at the rates that were kept up with."""
    panels = []
    for one in curves[:_PANELS_MAX]:
        bars = [stage_bar(_short(task.first, cell), cell, outside=True) for cell in one.kept]
        reported = tuple(bar for bar in bars if bar is not None)
        if reported:
            panels.append(
                Panel(
                    one.name,
                    Axis(_axis(task.first, curves).label),
                    Axis("Mean time (ms)"),
                    bars=reported,
                    parts=STAGE_LOOKS,
                )
            )
    text = (
        f"Mean time of a request in each stage of the proxy ({', '.join(STAGES)}), and outside of it: network, kernel, load generator. "
        "Rates that were kept up with; means over runs."
    )
    return figure(task, "stages", "Where the time of a request goes", panels, text)


def _compared(readings: SweepReadings, curves: Sequence[Curve]) -> list[Block]:
    """Each curve against those before it, where both kept up; one family of intervals for each column."""
    if len(curves) < 2:
        return []
    name = axis_of(readings)
    pairs = [
        (one, base, cell, other)
        for place, one in enumerate(curves)
        for base in (curves[:place] if len(curves) <= _LISTED_MAX else curves[: min(place, 1)])
        for cell in one.kept
        for other in base.kept
        if cell.level(name) == other.level(name) and min(len(cell.runs), len(other.runs)) >= 2
    ]
    if not pairs:
        return [
            Text("At no level two of the curves kept up with what was offered: there is nothing to compare.", note=True)
        ]
    cells = [cell for one in curves for cell in one.kept]
    asked: list[tuple[str, Callable[[Reading], float | None]]] = [("Mean (%)", response_of)]
    tails = [(f"p{percent:g} (%)", percentile_of(percent)) for percent in _PERCENTS]
    asked += [(head, value) for head, value in tails if any(with_all(cell, value) for cell in cells)]
    columns = [
        (
            head,
            changes_between(
                [cell for cell in cells if with_all(cell, value)], [(other, cell) for _, _, cell, other in pairs], value
            ),
        )
        for head, value in asked
    ]
    rows: list[tuple[Entry, ...]] = [
        (one.name, base.name, _level_entry(cell.level(name)), *(_change(changes[place]) for _, changes in columns))
        for place, (one, base, cell, _) in enumerate(pairs)
    ]
    table = Table(
        "curves-compared",
        "Response times of one curve against another at the same level, where both kept up: changes in percent from the linear model of "
        f"all cells that kept up (cell + block on logarithms), with 95 % intervals that hold together for the {len(rows)} changes "
        "of a column.",
        ("Curve", "Against", name.replace("_", " ").capitalize(), *(head for head, _ in columns)),
        tuple(rows),
    )
    return [*_differences(name, pairs, columns[0][1]), table]


def _differences(
    name: str, pairs: Sequence[tuple[Curve, Curve, CellReadings, CellReadings]], means: Sequence[Change | None]
) -> list[Block]:
    reported = []
    for (one, base, cell, _), change in zip(pairs, means, strict=True):
        if change is not None and change.shown:
            reported.append(f"{label_of(cell, name)}: {one.name} against {base.name}, {change_text(change)}.")
    if not reported:
        return [Text("No difference in the mean response time is shown where both kept up.")]
    return [Text("Differences in the mean response time that are shown:", tuple(reported))]


def _change(change: Change | None) -> Entry:
    return "too few" if change is None else Value(change.percent, change.low, change.high, 1, signed=True)


def _short(readings: SweepReadings, cell: CellReadings) -> str:
    level = cell.level(axis_of(readings))
    return level if isinstance(level, str) else f"{float(level):,.6g}"
