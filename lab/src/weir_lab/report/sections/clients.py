"""Throughput and response time over clients: baselines, one and two proxies, the full system, the maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.design import RequestPath
from weir_lab.records.tables.quotas import quota_periods_s
from weir_lab.report.common import (
    BOUND,
    LAW_BY_RUNS,
    STAGE_LOOKS,
    Point,
    Series,
    Task,
    binned,
    by_workload,
    cell_words,
    figure,
    level_value,
    line_over,
    mark_of,
    method,
    points_text,
    series_of,
    stage_bar,
    unit_of,
    with_tables,
)
from weir_lab.report.numbers.comparing import outside_of, response_of, throughput_of
from weir_lab.report.numbers.maxima import NOT_SHOWN, listed
from weir_lab.report.numbers.readings import stage_s, stage_times
from weir_lab.report.numbers.stations import bottleneck, link_bounds, tightest_of, usages
from weir_lab.report.page.blocks import Figure, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Bar, Line, Mark, Panel
from weir_lab.report.printed_times import (
    by_powers_of_two,
    distribution_at,
    distributions_beside,
    means_beside,
    quartiles_beside,
    stages_beside,
    sustained_beside,
    sustained_points,
    times_beside,
)
from weir_lab.report.sections.comparisons.drawn import alike_text, deviations, printed_lines, proxy_percentiles
from weir_lab.report.sections.comparisons.maxima import fewer_table, knee_of, knees_table, maxima_table, maximum_over
from weir_lab.report.sections.comparisons.over_servers import cost_points, crowd_table, spent_blocks
from weir_lab.report.sections.comparisons.plateaus import names_text, reached_table, stops_of
from weir_lab.report.sections.comparisons.queued import moved_points, queue_grows, queued
from weir_lab.report.sections.comparisons.summaries import study_tables
from weir_lab.theory.histogram import MODE_BINS, MODE_SHARE, Histogram
from weir_lab.theory.units import count_text, number, rate, significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.report.sections.comparisons.plateaus import Stop

__all__ = ["build", "conclusions", "stage_histograms", "summary"]

# What can stand on the x axis, and how it is named there and in titles.
_AXES = {
    "clients": ("Clients (connections)", "clients"),
    "readers": ("Read threads per server", "read threads"),
    "workers": ("Workers per proxy", "workers"),
}
# A bound this many times above all that was measured would leave no room for the data.
_BOUND_SHOWN_MAX = 2.5
_RATE, _TIME = "Throughput (requests/s)", "Response time (ms)"
_PERCENTS = (1.0, 5.0, 50.0, 95.0, 99.0)
_BINS = 30
_ENDS = ((0, "fewest"), (-1, "most"))


def build(task: Task) -> list[Block]:
    """Everything that a sweep over clients tells."""
    lines = series_of(task)
    own = [one for one in lines if not one.event]
    drawn = series_of(task, _swept(task))
    drawn_own = [one for one in drawn if not one.event]
    figures: list[Block | None] = [_throughput(task, drawn), _response(task, drawn), deviations(task, drawn_own, _axis)]
    figures += [_percentiles(task, drawn_own), proxy_percentiles(task, _chosen(drawn_own), _PERCENTS, _axis)]
    figures += [_rate_of_change(task, drawn_own)]
    if any(cell.settings.path is RequestPath.PROXY for one in own for cell in one.cells):
        figures += [_proxy_side(task, drawn_own), _queue_and_service(task, drawn_own), _queue_length(task, drawn_own)]
        figures += [_stages(task, drawn_own), stage_histograms(task, maximum_over(task, own))]
    tables: list[Block | None] = [reached_table(task), maxima_table(task, lines), *study_tables(task)]
    behind: list[Block | None] = [
        crowd_table(task, own),
        knees_table(task, own),
        fewer_table(task, own),
        _laws(task, own),
        _stations(task, own),
    ]
    cells = [cell for one in own for cell in one.cells]
    behind += [stages_beside(task, cells), means_beside(task, cells), quartiles_beside(task, cells)]
    behind += [distributions_beside(task, cells), sustained_beside(task, own), times_beside(task, cells)]
    return [
        *_sentences(task, own),
        *spent_blocks(task, own, drawn_own, _axis),
        *with_tables([*tables, *figures, *behind, by_powers_of_two(task, maximum_over(task, own))]),
    ]


def _swept(task: Task) -> str:
    """The setting on the x axis: clients, or what else varies where their number is the same everywhere."""
    cells = [cell for sweep in task.sweeps for cell in sweep.cells]
    others = [name for name in _AXES if any(name in sweep.varied for sweep in task.sweeps)]
    if len({cell.settings.clients for cell in cells}) > 1 or len(others) != 1 or task.beside:
        return "clients"
    return others[0]


def summary(task: Task) -> str:
    """One line of the report's summary: where each workload stops, and what limits it there."""
    parts: list[str] = []
    missing: dict[str, None] = {}
    last = 0
    stops = stops_of(task)
    for stop in stops:
        found = stop.maximum
        by = f", limited by the {stop.limit.named}" if stop.limit.station else ""
        whose = f" ({_whose(stop)})" if len(stop.series) > 1 or not stop.alone else ""
        reported = f"{stop.rate_text} {_first(stop)}" if stop.shown else found.largest_text
        parts.append(f"{stop.workload} {reported}{whose}{found.course_text}{by}")
        if not found.shown:
            missing[found.why_not] = None
            last = len(parts)
    # Why a largest mean is no maximum is said once, where it is the same for all, or differs in numbers alone.
    more = [stop.maximum.more_runs for stop in stops if not stop.maximum.shown]
    known = [one for one in more if one is not None]
    if len(missing) > 1 and len(known) == len(more):
        wanted, there = (sorted(one[place] for one in known) for place in (0, 1))
        runs = f"{there[0]}" if there[0] == there[-1] else f"{there[0]} to {there[-1]}"
        missing = {
            f"some {wanted[0]:,} to {wanted[-1]:,} runs of each level in place of {runs} would tell in 4 of 5 such studies": None
        }
    courses = all(stop.maximum.course for stop in stops if not stop.maximum.shown)
    yet = f"{NOT_SHOWN} is not shown yet" if courses else "a largest mean is no maximum yet"
    # Behind the last series that it is about, and before those whose maximum is shown.
    parts[last:last] = [f"{yet}: {reason}" for reason in missing]
    return f"{task.spec.title}: {'; '.join(parts)}."


def _axis(lines: Sequence[Series]) -> Axis:
    levels = sorted({one.x(cell) for one in lines for cell in one.cells})
    label, _ = _AXES[lines[0].over]
    return Axis(label, log=len(levels) > 2 and levels[-1] >= 8 * levels[0], ticks=tuple(levels))


def _over_words(lines: Sequence[Series]) -> str:
    return f"over {_AXES[lines[0].over][1]}"


def _throughput(task: Task, lines: Sequence[Series]) -> Figure | None:
    panels, above, one_for_all = [], list[str](), list[str]()
    for workload, group in by_workload(lines).items():
        drawn = [line_over(one, throughput_of) for one in group]
        # The law from the measured response times: N / R.
        drawn += [
            Line(
                "N / R (interactive law)",
                tuple(
                    Mark(
                        one.x(cell),
                        cell.settings.population / (cell.mean_response_s + cell.settings.think_time_s),
                    )
                    for cell in one.cells
                ),
                one.look,
                "dotted",
            )
            for one in group
        ]
        left = group[0].x(group[0].cells[0])
        # What a request sends differs between the engines.
        asked = [one for one in group if not one.event] or group
        at = max((cell for one in asked for cell in one.cells), key=lambda cell: cell.mean_throughput)
        bound, largest = tightest_of(at, group[0].sweep.study.topology.built_links), at.mean_throughput
        if task.first.links_built and bound.requests_per_s > _BOUND_SHOWN_MAX * largest:
            above.append(f"the {bound.tier} would carry {rate(bound.requests_per_s)} requests/s ({workload})")
        elif task.first.links_built:
            drawn.append(Line("what the tightest links carry", (Mark(left, bound.requests_per_s),), BOUND, "level"))
        if task.first.links_built:
            theirs = printed_lines(task, group)
            drawn += theirs
            if any(line.kind == "level" for line in theirs) and len(group) > 1:
                one_for_all.append(workload)
        panels.append(Panel(workload, _axis(group), Axis(_RATE), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    text = method(cells) + " Where N / R leaves its line, clients or time are lost." + alike_text(lines, throughput_of)
    if one_for_all:
        text += f" The study printed one maximum for all series of {' and of '.join(one_for_all)}."
    if above:
        text += f" Not drawn: {'; '.join(above)}."
    return figure(task, "throughput", f"Throughput {_over_words(lines)}", panels, text)


def _response(task: Task, lines: Sequence[Series]) -> Figure | None:
    panels = []
    for workload, group in by_workload(lines).items():
        drawn = [line_over(one, response_of, 1e3) for one in group]
        drawn += [
            Line(
                "N / X (interactive law)",
                tuple(
                    Mark(
                        one.x(cell),
                        1e3 * (cell.settings.population / cell.mean_throughput - cell.settings.think_time_s),
                    )
                    for cell in one.cells
                ),
                one.look,
                "dotted",
            )
            for one in group
        ]
        x = _axis(group)
        # Where each level of clients is a multiple of the one before, times are multiples, too.
        panels.append(Panel(workload, x, Axis(_TIME, log=x.log), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    text = f"{method(cells)}{alike_text(lines, response_of)}"
    return figure(task, "response", f"Mean response time {_over_words(lines)}", panels, text)


def _percentiles(task: Task, lines: Sequence[Series]) -> Figure | None:
    panels = []
    for one in _chosen(lines):
        drawn = []
        for place, percent in enumerate(_PERCENTS):
            found = [mark_of(one.x(cell), _placed(cell, percent)) for cell in one.cells]
            marks = tuple(one for one in found if one is not None)
            if marks:
                drawn.append(Line(f"{percent:g} %", marks, LOOKS[place]))
        panels.append(Panel(f"{one.workload}, {one.name}", _axis([one]), Axis(_TIME, log=True), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    text = method(cells, "percentiles of each run's merged histograms, mean and 95 % interval over runs")
    return figure(task, "percentiles", f"Percentiles of the response time {_over_words(lines)}", panels, text)


def _chosen(lines: Sequence[Series], most: int = 4) -> list[Series]:
    """At most four lines: the ends and those between, as the paces choose levels."""
    if len(lines) <= most:
        return list(lines)
    return [lines[index] for index in sorted(set(np.linspace(0, len(lines) - 1, most).round().astype(int).tolist()))]


def _placed(cell: CellReadings, percent: float) -> list[tuple[int, float]]:
    """A percentile of each run in ms, with its block; nothing where a run has too few samples for it."""
    return [
        (run.run.meta.repetition, 1e3 * value)
        for run, value in zip(cell.runs, cell.percentile_s(percent), strict=False)
    ]


def _rate_of_change(task: Task, lines: Sequence[Series]) -> Figure | None:
    """dR/dN between neighbouring levels: flat from where each further client only waits (S3's rule). Where the study drew it, too."""
    if lines[0].over != "clients" or "slope" not in task.spec.redraws:
        return None
    panels = []
    for workload, group in by_workload(lines).items():
        drawn = []
        for one in group:
            marks = []
            for left, right in zip(one.cells, one.cells[1:], strict=False):
                n = (left.settings.clients, right.settings.clients)
                if n[1] > n[0]:
                    slope = 1e3 * (right.mean_response_s - left.mean_response_s) / (n[1] - n[0])
                    marks.append(Mark((n[0] + n[1]) / 2, slope, note=f"between {n[0]} and {n[1]} clients"))
            if marks:
                drawn.append(Line(one.name, tuple(marks), one.look))
        panels.append(Panel(workload, _axis(group), Axis("dR/dN (ms per client)"), tuple(drawn)))
    text = "Differences of neighbouring means, drawn between the two levels; saturated where the line is flat."
    return figure(task, "slope", "Rate of change of the response time", panels, text)


def _proxy_side(task: Task, lines: Sequence[Series]) -> Figure | None:
    """What the proxy counted and timed, beside the clients' view."""
    panels = []
    for workload, group in by_workload(lines).items():
        rates = [line_over(one, lambda run: run.proxy_throughput) for one in group]
        panels.append(Panel(f"{workload}: counted at the proxy", _axis(group), Axis(_RATE), tuple(rates)))
        times = [line_over(one, lambda run: run.residence_s, 1e3, most=response_of) for one in group]
        times += [Line("at the clients", line_over(one, response_of, 1e3).marks, one.look, "dotted") for one in group]
        panels.append(Panel(f"{workload}: time in the proxy", _axis(group), Axis(_TIME), tuple(times)))
    cells = [cell for one in lines for cell in one.cells]
    text = (
        method(cells)
        + " What a request takes longer at the clients is network, load generator and bytes that no stamp saw yet."
    )
    return figure(task, "proxy", "Throughput and response time at the proxy", panels, text)


def _queue_and_service(task: Task, lines: Sequence[Series]) -> Figure | None:
    panels = []
    for workload, group in by_workload(lines).items():
        for stage, title in (("queue", "time in the queue"), ("backend", "time waiting for memcached")):
            drawn = [line_over(one, stage_s(stage), 1e3, most=response_of) for one in group]
            panels.append(Panel(f"{workload}: {title}", _axis(group), Axis("Time (ms)"), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    return figure(task, "queue-service", "Queueing and service time in the proxy", panels, method(cells))


def _queue_length(task: Task, lines: Sequence[Series]) -> Figure | None:
    panels = []
    for workload, group in by_workload(lines).items():
        drawn = [line_over(one, queued, most=lambda run: float(run.settings.population)) for one in group]
        panels.append(Panel(workload, _axis(group), Axis("Requests queued (requests)"), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    text = method(cells) + " By Little's law from throughput and time in the queue, all proxies together."
    return figure(task, "queue-length", "Requests in the queue of the proxies", panels, text)


def _stages(task: Task, lines: Sequence[Series]) -> Figure | None:
    """With the fewest and the most clients, and at all levels between where the set asks for them."""
    panels = []
    for workload, group in by_workload(lines).items():
        over_what = _AXES[group[0].over][1]
        ends = [(f"{words} {over_what} ({{}})", [(one, one.cells[place]) for one in group]) for place, words in _ENDS]
        between = [
            (f"{{}} {over_what}", [(one, cell) for one in group for cell in one.cells if one.x(cell) == level])
            for level in map(group[0].x, group[0].cells[1:-1] if task.spec.every_level else ())
        ]
        for title, cells in (ends[0], *between, ends[1]):
            bars = [stage_bar(one.name, cell, outside=True) for one, cell in cells]
            shown = tuple(bar for bar in bars if bar is not None)
            at = title.format(number(group[0].x(cells[0][1]), 0))
            panels.append(Panel(f"{workload}, {at}", Axis(""), Axis("Mean time (ms)"), bars=shown, parts=STAGE_LOOKS))
    text = "Means over runs per request; the stages add up to the time in the proxy, and with what is outside to the clients' mean."
    return figure(task, "stages", "Where the time of a request goes", panels, text)


def stage_histograms(task: Task, maximum: Maximum) -> Figure | None:
    """Distribution of each stage at the maximum, or where the study had it, over all runs there."""
    cell, where = distribution_at(task, maximum)
    operations = [name for name in ("get", "set", "multiget") if any(run.operation_s(name) for run in cell.runs)]
    panels = []
    modes: dict[str, list[float] | None] = {}
    times: dict[str, Histogram] = {}
    for stage in ("dispatch", "queue", "backend", "reply"):
        bars: list[Bar] = []
        unit = "ms"
        for operation in operations[:1]:
            merged = cell.merged(stage_times(operation, stage))
            if merged is not None and merged.total:
                unit = unit_of(merged.percentile(99.5) or 1)
                bars = _bins(merged, stage, unit)
                modes[stage], times[stage] = merged.modes(), merged
        if bars:
            axis = Axis(f"Time up to ({unit})")
            panels.append(Panel(f"stage {stage}", axis, Axis("Share (%)"), bars=tuple(bars), parts=STAGE_LOOKS))
    text = (
        f"All {operations[0].upper() if operations else ''} requests of {count_text(len(cell.runs), 'run')} at {cell_words(cell)}; "
        f"{_BINS} bins at most, of equal and round width, up to the 99.5th percentile; what lies above is left out."
        f"{_modes_text(modes)}{_periods_text(times, quota_periods_s(cell.runs[0].run))}"
    )
    return figure(task, "stage-histograms", f"Distribution of the stages at {where} ({cell_words(cell)})", panels, text)


def _modes_text(modes: Mapping[str, Sequence[float] | None]) -> str:
    """How many peaks the time in each stage has, and where; several mean several kinds of requests, or a wait in steps.

    >>> _modes_text({"queue": [1.2e6, 8e6], "backend": [2.8e6], "reply": None})[-61:]
    'stage queue 2, at 1.2 and 8.0 ms; stage backend 1, at 2.8 ms.'
    >>> _modes_text({"queue": None}), _modes_text({"queue": []}), _modes_text({})
    (' There are fewer than 10,000 requests, too few to count peaks.', '', '')
    """
    parts = [
        f"stage {stage} {len(found)}, at {listed([significant(one / 1e6, 2) for one in found])} ms"
        for stage, found in modes.items()
        if found
    ]
    if not parts:
        few = bool(modes) and all(found is None for found in modes.values())
        return " There are fewer than 10,000 requests, too few to count peaks." if few else ""
    wider = f"{100.0 * (MODE_BINS - 1.0):.0f} %"
    return (
        f" Peaks of all these times together, in bins each {wider} wider than the one before, and so not where the bars are highest; "
        f"a peak has at least {100.0 * MODE_SHARE:g} % of the requests, and twice as many as the emptiest bin between it and any higher "
        f"one: {'; '.join(parts)}."
    )


def _periods_text(times: Mapping[str, Histogram], quotas: Mapping[str, float]) -> str:
    """Which times repeat with the period of a tier's CPU quota: requests that are there when it is used up wait for the next."""
    said = []
    for tier, period_s in quotas.items():
        found = {stage: one.period_near(1e9 * period_s) for stage, one in times.items()}
        of = {stage: period for stage, period in found.items() if period is not None}
        if of:
            said.append(
                f"The times in {listed([f'stage {stage}' for stage in of])} repeat with a period of "
                f"{listed([number(one / 1e6, 2) for one in of.values()])} ms. The CPU quota of a {tier} machine is given anew every "
                f"{number(1e3 * period_s, 2)} ms, so these steps are its: a request that is there when it is used up waits for the next."
            )
    return "".join(f" {one}" for one in said)


def _bins(times: Histogram, part: str, unit: str) -> list[Bar]:
    top = times.percentile(99.5) or times.percentile(50.0) or 1
    return binned(times, top, _BINS, part, unit)


def _laws(task: Task, lines: Sequence[Series]) -> Table:
    """Without a proxy R / N, by which S3 saw where its server was full, in place of what a proxy tells."""
    rows: list[tuple[Entry, ...]] = []
    cells = [cell for one in lines for cell in one.cells]
    sampled = any(cell.of(lambda run: run.socket_wait_s) for cell in cells)
    proxied = any(cell.settings.path is RequestPath.PROXY for cell in cells)
    for one in lines:
        for cell in one.cells:
            counted = cell.of(lambda run: run.proxy_throughput)
            outside = cell.of(outside_of)
            deviation = cell.of(lambda run: 100 * run.law_deviation)
            holds = abs(sum(deviation) / len(deviation)) <= 100 * one.sweep.study.gates.law_deviation_max
            seen: tuple[Entry, ...] = (
                _signed([100 * (there / here - 1) for there, here in zip(counted, cell.throughputs, strict=False)])
                if counted
                else "–",
                over(outside, 1e3, signed=True) if outside else "–",
            )
            rows.append(
                (
                    one.workload,
                    one.name,
                    Value(cell.settings.clients),
                    level_value(cell, throughput_of, digits=0),
                    level_value(cell, response_of, 1e3),
                    *(() if proxied else (Value(1e3 * cell.mean_response_s / cell.settings.clients),)),
                    _signed(deviation),
                    "holds" if holds else "broken",
                    *(seen if proxied else ()),
                    *((level_value(cell, lambda run: run.socket_wait_s, 1e3, most=outside_of),) if sampled else ()),
                    Value(len(cell.runs)),
                )
            )
    what = (
        "response time against N / X (interactive law), throughput at the proxy against the clients', and the part of the clients' time "
        "that lies outside the proxy"
        if proxied
        else "response time against N / X (interactive law), and over the clients: R / N stays the same where each further one only waits"
    )
    return Table(
        f"{task.spec.name}-laws",
        f"All cells, and the laws on them: {what}. {_law_text(task, cells)} {LAW_BY_RUNS}95 % intervals over runs."
        + (
            " In its sockets: of sampled requests, until the network thread had read them; a part of what is outside."
            if sampled
            else ""
        ),
        (
            *("Workload", "Series", "Clients", "X (requests/s)", "R (ms)"),
            *(() if proxied else ("R / N (ms)",)),
            *("R against N/X (%)", "Law"),
            *(("Proxy against client X (%)", "Outside the proxy (ms)") if proxied else ()),
            *(("In its sockets (ms)",) if sampled else ()),
            "Runs",
        ),
        tuple(rows),
        folded=True,
    )


def _signed(values: Sequence[float]) -> Value:
    return replace(over(values, signed=True), digits=2, signed=True)


def _stations(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        cell = maximum_over(task, [one]).cell
        links = one.sweep.study.topology.built_links if one.sweep.links_built else None
        rows += [
            (
                one.workload,
                one.name,
                Value(cell.settings.clients),
                usage.station,
                Value(100 * usage.share, digits=1),
                usage.evidence,
            )
            for usage in usages(cell, links)
        ]
    if not task.first.links_built:
        settings = lines[0].cells[-1].settings
        rows += [
            (
                one.tier,
                "on the study's links",
                "–",
                "bound, not built here",
                Value(one.requests_per_s, digits=0),
                "requests/s by payload",
            )
            for one in link_bounds(settings, lines[0].sweep.study.topology.built_links)
        ]
    return Table(
        f"{task.spec.name}-stations",
        "How busy each station was at the maximum of each series (the table of maxima says where): mean over runs. Processors go by the "
        "CPU quota of their machines where these have one, else by their threads. Workers and readers wait inside for others.",
        ("Workload", "Series", "Clients", "Station", "Used (%)", "Evidence"),
        tuple(rows),
        folded=True,
    )


def _sentences(task: Task, lines: Sequence[Series]) -> list[Text]:
    # What lasts by a study's own rule is what its section asks for.
    points = [_opened(one) for one in sustained_points(task, lines)]
    points += [_stop_point(one) for one in stops_of(task)]
    points += cost_points(task, lines)
    points += [_beside_point(task, one) for one in series_of(task) if one.event]
    points += [_opened(one) for one in moved_points(task, lines)]
    cells = [cell for one in lines for cell in one.cells]
    # Where the law holds everywhere, the table of all cells says so.
    if _broken(task, cells):
        points.append(Point(_law_text(task, cells)))
    return [points_text("What the data say:", points)]


def _opened(text: str) -> Point:
    """A point that opens with its first sentence."""
    lead, stop, rest = text.partition(". ")
    return Point(f"{lead}{stop.rstrip()}", rest)


def _broken(task: Task, cells: Sequence[CellReadings]) -> list[CellReadings]:
    """On which the interactive law does not hold."""
    return [cell for cell in cells if abs(_law(cell)) > task.first.study.gates.law_deviation_max]


def _law_text(task: Task, cells: Sequence[CellReadings]) -> str:
    worst = max(cells, key=lambda cell: abs(_law(cell)))
    return (
        f"The interactive law holds within {100 * task.first.study.gates.law_deviation_max:g} % on "
        f"{len(cells) - len(_broken(task, cells))} of {count_text(len(cells), 'cell')}; the largest deviation is "
        f"{number(100 * _law(worst), 2)} % ({cell_words(worst)})."
    )


def _stop_point(stop: Stop) -> Point:
    """Where some series stop: their maxima as the first table has them and what limits; behind it the knee, falls and the queue."""
    maximum, lead = stop.maximum, stop.lead
    links = lead.sweep.study.topology.built_links if lead.sweep.links_built else None
    grows = {queue_grows(one) for one in stop.series}
    found = usages(maximum.cell, links)
    limit = bottleneck(found, queue_grows=grows.pop() if len(grows) == 1 else None).short
    limits = bottleneck(found, queue_grows=None).short
    whose, queue = f" ({_whose(stop)})", limit.removeprefix(limits).strip()
    if not stop.shown:
        rest = [_not_yet(maximum, _single(stop)), queue]
        return Point(
            f"{stop.workload.capitalize()}: {maximum.largest_text}{whose}; no maximum is shown yet. {limits}",
            " ".join(filter(None, rest)),
        )
    reached = maximum.text if len(stop.series) == 1 else f"{stop.rate_text} {_first(stop)}"
    parts = []
    knees = {one.knee_text for one in stop.maxima if one.shown}
    if len(knees) == 1 and not maximum.lone:
        (knee,) = knees
        ours = _ours_text(stop.maxima)
        parts.append(
            f"Throughput stops growing {knee}{ours}." if knee.startswith("between") else f"Knee: {knee}{ours}."
        )
    falls = {one.name: at.fall_text for one, at in zip(stop.series, stop.maxima, strict=True) if at.fall_text}
    if falls:
        named = [text if len(stop.series) == 1 else f"{text} ({name})" for name, text in falls.items()]
        whys = {one.fall_why for one in stop.maxima if one.fall_text}
        parts.append(f"{'; '.join(named).capitalize()}; {whys.pop() if len(whys) == 1 else 'why is not known of all'}.")
    open_ = [one.name for one, at in zip(stop.series, stop.maxima, strict=True) if not at.shown]
    if open_:
        parts.append(f"With {names_text(open_)} no maximum is shown yet; the table says what it takes.")
    start = f"{stop.workload.capitalize()}: {'' if maximum.lone else 'maximum '}{reached}{whose}. {limits}"
    return Point(start, " ".join(filter(None, [*parts, queue])))


def _not_yet(maximum: Maximum, single: str = "") -> str:
    """What a largest mean is, and what would tell a maximum."""
    return f"{maximum.yet_text[:1].upper()}{maximum.yet_text[1:]}: {maximum.why_not}{single}."


def _ours_text(maxima: Sequence[Maximum]) -> str:
    """Whether a knee is one of levels of ours, and which of these reach the plateau: the maximum begins at the curve's own levels."""
    own = [one for one in maxima if one.ours]
    if not own:
        return ""
    found = {(one.first.settings.clients if one.first is not None else None, one.cell.settings.clients) for one in own}
    few, first = next(iter(found))
    more = f": {few} reach what {first} do" if len(found) == 1 and few is not None else ""
    return f" (levels of ours with fewer clients{more})"


def _beside_point(task: Task, series: Series) -> Point:
    """What another engine beside the original reaches: its row of the table of maxima."""
    maximum, start = maximum_over(task, [series]), f"Beside it, {series.name}, {series.workload}: "
    if maximum.shown:
        return Point(f"{start}maximum {maximum.text}.")
    return Point(f"{start}{maximum.largest_text}; no maximum is shown yet.", _not_yet(maximum))


def _single(stop: Stop) -> str:
    """How many of the levels have one run."""
    cells = [cell for one in stop.series for cell in one.cells]
    single = sum(len(cell.runs) < 2 for cell in cells)
    return (
        f"; {single} of {count_text(len(cells), 'level')} {'has' if single == 1 else 'have'} one run" if single else ""
    )


def _whose(stop: Stop) -> str:
    """The series of a stop; where none is shown the largest mean is that of one alone: ``24 readers; 16 readers have little less``."""
    if stop.shown or len(stop.series) == 1:
        return stop.names
    return f"{stop.lead.name}; {names_text([one.name for one in stop.series if one is not stop.lead])} have little less"


def _first(stop: Stop) -> str:
    """The fewest clients of each series that is shown, the least and the most of them; ``at`` those of all cells."""
    found = sorted({at.cell.settings.clients for at in stop.maxima if at.shown})
    first = count_text(found[0], "client")
    if len(found) > 1:
        return f"from {first} on at the earliest and from {found[-1]} at the latest"
    return f"at {first}" if stop.maximum.lone else f"from {first} on"


def _law(cell: CellReadings) -> float:
    found = cell.of(lambda run: run.law_deviation)
    return sum(found) / len(found)


def conclusions(task: Task) -> dict[str, str]:
    """Maximum, bottleneck and knee of each series."""
    found = {}
    for one in series_of(task):
        if one.event:
            continue
        maximum = maximum_over(task, [one])
        links = one.sweep.study.topology.built_links if one.sweep.links_built else None
        name = f"{one.workload}, {one.name}"
        clients = count_text(maximum.cell.settings.clients, "client")
        found[f"maximum of {name}"] = f"from {clients} on" if maximum.shown else "cannot tell"
        found[f"bottleneck of {name}"] = (
            bottleneck(usages(maximum.cell, links), queue_grows=None).station or "none is full"
        )
        if knee_of(one) is not None:
            found[f"knee of {name}"] = maximum.knee_text
    return found
