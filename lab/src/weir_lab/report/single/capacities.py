"""Sections of a study with ``find``: the capacity of each cell, what limits it, the search that found it. Start with `sections`.

``answer`` and ``limits`` are the paragraphs at the head of the page. What a capacity is: `theory.capacity.searching`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.design import Settings
from weir_lab.records import read_run_metas, read_sweep
from weir_lab.records.formats import STAGES
from weir_lab.records.tables.found import KEPT_UP_SHARE_MIN, Finding, attempts_by_content, findings_of, limited_ns
from weir_lab.report.common import BOUND, STAGE_LOOKS, Task, figure, level_name, stage_bar
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import MACHINE, bottleneck, usages
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.charts import Axis, Line, Look, Mark, Panel
from weir_lab.report.single.offered import answered_percent, busy_shares, links_of, longest_growth
from weir_lab.theory.capacity.searching import SearchVerdict, capacity_ratio
from weir_lab.theory.units import count_text, signed_percent, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Study
    from weir_lab.design.text.goals import Limit
    from weir_lab.records.tables.found import Probe
    from weir_lab.report.numbers.readings import Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.capacity.searching import CapacityRatio

__all__ = ["answer", "limits", "sections"]

# Runs nearest to the capacity tell what limits there; those below half of it, what a request takes while nothing waits.
_NEAR_RUNS = 5
_FAR_SHARE = 0.5
# More cells than this are not listed one by one in a sentence, and not drawn one by one.
_LISTED_MAX = 4
_DRAWN_MAX = 6
# With more cells each is compared with the first alone.
_ALL_PAIRS_MAX = 4
_UNITS_NS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))
_MET, _MISSED, _FOUND = Look("c2", "o", ""), Look("c1", "s", ""), Look("c0", "D", "")
# Nobody needs to read that these have their usual value.
_ALWAYS_REPORTED = ("clients", "servers", "value_size_bytes", "write_ratio")


@dataclass(frozen=True)
class _Search:
    """One cell's search, with the readings of its valid runs by folder."""

    finding: Finding
    name: str
    runs: dict[str, Reading]
    readings: SweepReadings

    @property
    def bracketed(self) -> bool:
        """Whether the capacity lies among the rates that may be tried."""
        outside = (SearchVerdict.ABOVE, SearchVerdict.BELOW)
        return bool(self.finding.probes) and self.finding.estimate.verdict not in outside

    def reading(self, probe: Probe) -> Reading | None:
        return self.runs.get(probe.folder.name) if probe.folder is not None else None

    def near(self) -> CellReadings | None:
        """The runs that were nearest to the capacity, as one cell; ``None`` if none of them is valid."""
        capacity = self.finding.estimate.capacity
        probes = sorted(self.finding.probes, key=lambda probe: abs(np.log(probe.rate / capacity)))
        return self._cell(probes[:_NEAR_RUNS])

    def far(self) -> CellReadings | None:
        """The runs far below the capacity that met the goal."""
        most = _FAR_SHARE * self.finding.estimate.capacity
        return self._cell([probe for probe in self.finding.probes if probe.met and probe.rate <= most])

    def _cell(self, probes: Sequence[Probe]) -> CellReadings | None:
        found = tuple(run for probe in probes if (run := self.reading(probe)) is not None)
        return CellReadings(self.finding.cell, found) if found else None


def answer(readings: SweepReadings) -> str:
    """At most three sentences: the capacity, how cells differ or what was held, and who else used the machine."""
    searches = _searches(readings)
    found = [_capacity_sentence(readings.study, searches)]
    found.append(_difference_sentence(readings.study, searches) if len(searches) > 1 else _held_sentence(searches[0]))
    return " ".join(one for one in [*found, _busy_sentence(readings)] if one)


def limits(readings: SweepReadings) -> tuple[str, ...]:
    """What limits near the smallest capacity, whether runs drifted, and how many misses are rates of which nothing is known."""
    searches = _searches(readings)
    return tuple(
        one for one in (_why_sentence(searches), _unmeasured_sentence(searches), _drift_sentence(searches)) if one
    )


def sections(task: Task) -> list[tuple[str, str, list[Block]]]:
    """Name, title and blocks of each section, in the order of the page."""
    searches = _searches(task.first)
    return [
        ("limits", "What limits, and why", _limits(task, searches)),
        ("capacity", "Capacity", _capacities(task, searches)),
        ("search", "The search", _search_blocks(task, searches)),
    ]


def _searches(readings: SweepReadings) -> list[_Search]:
    study, runs = readings.study, {run.name: run for cell in readings.cells for run in cell.runs}
    known = attempts_by_content(read_run_metas(readings.folder))
    findings = findings_of(study, read_sweep(readings.folder).executables, known)
    varied = [name for name in study.factors if len({dict(one.cell.levels)[name] for one in findings}) > 1]
    return [
        _Search(
            one,
            ", ".join(_level_text(name, level) for name, level in one.cell.levels if name in varied) or "the system",
            runs,
            readings,
        )
        for one in findings
        if one.probes
    ]


def _level_text(name: str, level: object) -> str:
    return str(level) if name in ("engine", "subject") else level_name(name, level)


def _goal(study: Study) -> str:
    """``p99 below 1 ms``."""
    limits = study.goal.limits if study.goal is not None else ()
    return " and ".join(f"{one.metric} below {_limit_text(one)}" for one in limits)


def _limit_text(limit: Limit) -> str:
    """``1.5 ms``, with the digits that were asked for."""
    return next(
        f"{limit.limit_ns / scale:g} {unit}" for unit, scale in _UNITS_NS if limit.limit_ns >= scale or unit == "µs"
    )


def _rate(value: float) -> str:
    return significant(value)


def _reported(study: Study, search: _Search) -> str:
    """``35,900 requests/s (95 % interval 30,900 to 40,800)``."""
    found, asked = search.finding.estimate, study.search
    if found.verdict is SearchVerdict.ABOVE:
        return f"more than {_rate(asked.rate_max)} requests/s, the highest rate of the search"
    if found.verdict is SearchVerdict.BELOW:
        return f"less than {_rate(asked.rate_min)} requests/s, the lowest rate of the search"
    wide = "" if found.verdict is SearchVerdict.FOUND else f", {search.finding.verdict_text()}"
    return f"{_rate(found.capacity)} requests/s ({100 * found.level:g} % interval {_rate(found.low)} to {_rate(found.high)}{wide})"


def _capacity_sentence(study: Study, searches: Sequence[_Search]) -> str:
    goal = _goal(study)
    if len(searches) == 1:
        return f"With {goal}, the capacity is {_reported(study, searches[0])}."
    shown = list(searches)
    more = ""
    if len(searches) > _LISTED_MAX:
        ordered = sorted(searches, key=lambda one: one.finding.estimate.capacity)
        shown, more = [ordered[-1], ordered[0]], f", the largest and the smallest of {len(searches)}"
    return f"With {goal}, the capacity is: {'; '.join(f'{one.name} {_reported(study, one)}' for one in shown)}{more}."


def _difference_sentence(study: Study, searches: Sequence[_Search]) -> str:
    pairs = _ratios(study, searches)
    if not pairs:
        return "Fewer than two of these capacities lie among the rates of the search, so that none can be compared."
    largest = max(pairs, key=lambda pair: abs(np.log(pair[2].ratio)))
    base, other, ratio = largest
    shown = "" if ratio.shown else ", which shows no difference"
    which = "" if len(pairs) == 1 else "Largest difference: "
    head = f"{which}{other.name} against {base.name} {_percent_text(ratio)}{shown}."
    return head[0].upper() + head[1:]


def _percent_text(ratio: CapacityRatio) -> str:
    low, high = signed_percent(100 * (ratio.low - 1)), signed_percent(100 * (ratio.high - 1))
    return f"{signed_percent(100 * (ratio.ratio - 1))} % ({low} to {high} %)"


def _held_sentence(search: _Search) -> str:
    return f"Held were {_held(search.finding.cell.settings)}."


def _held(settings: Settings, but: Sequence[str] = ()) -> str:
    """The settings that say what was served, and all that are not as usual."""
    parts = []
    for name, field in Settings.model_fields.items():
        level = getattr(settings, name)
        if name in ("rate", *but) or level is None:
            continue
        if name in _ALWAYS_REPORTED or (level != field.default and name not in ("keys",)):
            parts.append(_held_text(name, level))
    return ", ".join(parts)


def _held_text(name: str, level: object) -> str:
    if name == "write_ratio":
        return f"{100 * float(str(level)):g} % writes"
    if name == "value_size_bytes":
        return f"values of {level} bytes"
    if name == "clients":
        return count_text(int(str(level)), "connection")
    return level_name(name, level)


def _why_sentence(searches: Sequence[_Search]) -> str:
    """Of the cell with the smallest capacity, because it is the one to mend: the station that limits, or the busiest."""
    bracketed = [one for one in searches if one.bracketed]
    search = min(bracketed, key=lambda one: one.finding.estimate.capacity) if bracketed else searches[0]
    where = "" if len(searches) == 1 else f" ({search.name})"
    near, late = search.near(), _late(search)
    own = f"; the load generator was late in {late} of the runs that missed it: {_remedy(search)}" if late else ""
    if near is None:
        return f"No run near it was valid{where}."
    limit = bottleneck(usages(near, links_of(search.readings)), queue_grows=None)
    said = limit.sentence.split(". ")[0].rstrip(".")
    return f"{'Near it' if search.bracketed else 'Nearest to it'}{where}, {said[0].lower()}{said[1:]}{own}."


def _busy_sentence(readings: SweepReadings) -> str:
    """A busy machine changes its speed during and between searches, and the interval takes runs as independent."""
    shares, above = busy_shares(readings)
    if not above:
        return ""
    low, high = (f"{100 * share:.0f}" for share in (min(above), max(above)))
    return (
        f"Beside {len(above)} of {count_text(len(shares), 'run')} {low if low == high else f'{low} to {high}'} % of the machine's CPU time "
        "went elsewhere; the interval has nothing of what drifts, so another search may answer outside of it."
    )


def _drift_sentence(searches: Sequence[_Search]) -> str:
    drifting = [one.name for one in searches if one.bracketed and one.finding.search.drifts]
    if not drifting:
        return ""
    where = "" if len(searches) == 1 else f" of {'; '.join(drifting)}"
    return f"The runs{where} drifted: they met or missed the goal in a row where a mix was expected, so the interval is too narrow."


def _unmeasured_sentence(searches: Sequence[_Search]) -> str:
    probes = [probe for one in searches for probe in one.finding.probes]
    unmeasured = sum(probe.folder is None for probe in probes)
    if not unmeasured:
        return ""
    return (
        f"{unmeasured} of the {count_text(len(probes), 'run')} count as missed because no attempt was valid; if that was the machine and "
        "not the system, the capacity is too low."
    )


def _remedy(search: _Search) -> str:
    """What a late generator may mean, and what helps; more threads do not where others have the processors."""
    near = search.near()
    machine = next((one for one in usages(near, None) if one.station == MACHINE), None) if near is not None else None
    if machine is not None and machine.foreign:
        return "other programs took most of the CPU time, so measure again on a quieter machine"
    return "this may be its own limit, so give it more client_threads, or another machine"


def _late(search: _Search) -> int:
    return sum(probe.late and not probe.met for probe in search.finding.probes)


def _limits(task: Task, searches: Sequence[_Search]) -> list[Block]:
    points = [point for one in searches for point in _points(one)]
    blocks: list[Block | None] = [
        Text(f"What the {_NEAR_RUNS} runs nearest to each capacity say:", tuple(points)),
        _stages_figure(task, searches),
        _stations(searches),
    ]
    return [one for one in blocks if one is not None]


def _points(search: _Search) -> list[str]:
    near, far, name = search.near(), search.far(), search.name[:1].upper() + search.name[1:]
    missed = Counter(_kind(probe) for probe in search.finding.probes if not probe.met)
    why = "; ".join(f"{reason} in {count_text(count, 'run')}" for reason, count in missed.most_common())
    points = [f"{name}: the goal was missed because {why}." if why else f"{name}: the goal was met in every run."]
    if near is not None:
        points.append(f"{name}: {bottleneck(usages(near, links_of(search.readings)), queue_grows=None).sentence}")
    if near is not None and far is not None and (growth := longest_growth(far, near)) is not None:
        points.append(f"{name}: from below half of the capacity to the capacity, {growth.text}.")
    if late := _late(search):
        points.append(
            f"{name}: in {late} of the runs that missed the goal the load generator itself was late: {_remedy(search)}."
        )
    return points


def _kind(probe: Probe) -> str:
    """Why a run missed its goal, without the number."""
    if " was " in probe.why_not and probe.why_not.endswith("µs"):
        return f"{probe.why_not.split(' was ')[0]} was above its limit"
    return probe.why_not


def _stations(searches: Sequence[_Search]) -> Table | None:
    rows: list[tuple[Entry, ...]] = [
        (one.name, usage.station, Value(100 * usage.share, digits=0), usage.evidence)
        for one in searches
        if (near := one.near()) is not None
        for usage in usages(near, links_of(one.readings))
    ]
    if not rows:
        return None
    caption = f"How busy each station was, means over the {_NEAR_RUNS} runs nearest to each capacity, busiest first."
    return Table("stations-near", caption, ("Cell", "Station", "Busy (%)", "Evidence"), tuple(rows))


def _stages_figure(task: Task, searches: Sequence[_Search]) -> Block | None:
    panels = []
    for one in searches[:_DRAWN_MAX]:
        bars = [
            bar
            for label, cell in (("below half of it", one.far()), ("near it", one.near()))
            if cell is not None and (bar := stage_bar(label, cell, outside=True)) is not None
        ]
        if bars:
            panels.append(
                Panel(
                    one.name,
                    Axis("Rate, against the capacity"),
                    Axis("Mean time (ms)"),
                    bars=tuple(bars),
                    parts=STAGE_LOOKS,
                )
            )
    text = (
        f"Mean time of a request in each stage of the proxy ({', '.join(STAGES)}), and outside of it: network, kernel, load generator. "
        "Below half of it: all runs at such rates that met the goal."
    )
    return figure(task, "stages", "Where the time of a request goes", panels, text)


def _capacities(task: Task, searches: Sequence[_Search]) -> list[Block]:
    study = task.first.study
    factors = [name for name, _ in searches[0].finding.cell.levels]
    goal = study.goal
    asked = study.search
    points = (
        f"Criterion: {_goal(study)}, and {100 * KEPT_UP_SHARE_MIN:g} % of the offered rate answered, in the measured phase of a run of "
        f"{study.plan.measured_s:g} s. The capacity is the rate at which half of such runs meet it.",
        f"Looked at: {_rate(asked.rate_min)} to {_rate(asked.rate_max)} requests/s, until the {100 * asked.level:g} % interval is within "
        f"{100 * asked.half_width:g} % or {count_text(asked.runs_max, 'run')} are made.",
        f"Held: {_held(searches[0].finding.cell.settings, factors)}.",
    )
    blocks: list[Block] = [Text(goal.text if goal is not None else "", points), _table(study, searches)]
    bracketed = [one for one in searches if one.bracketed]
    if len(bracketed) > 1:
        axis = Axis(", ".join(name.replace("_", " ") for name in factors), names=tuple(one.name for one in bracketed))
        marks = tuple(
            Mark(place, found.capacity, found.low, found.high, count_text(len(one.finding.probes), "run"))
            for place, one in enumerate(bracketed)
            for found in (one.finding.estimate,)
        )
        line = Line("capacity", marks, _FOUND, "points")
        panel = Panel(study.find or "", axis, Axis("Capacity (requests/s)"), (line,))
        drawn = figure(
            task, "capacities", "Capacity", [panel],
            f"Median of the capacity, and its {100 * asked.level:g} % interval from the runs of the search.",
        )  # fmt: skip
        blocks += [drawn] if drawn is not None else []
    return [*blocks, *_ratio_table(study, searches)]


def _table(study: Study, searches: Sequence[_Search]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in searches:
        found, probes = one.finding.estimate, one.finding.probes
        inside = one.bracketed
        rows.append(
            (
                one.name,
                Value(found.capacity, found.low, found.high, 0) if inside else _reported(study, one).split(", the ")[0],
                Value(100 * found.half_width, digits=1) if inside else "–",
                one.finding.verdict_text(), len(probes), sum(probe.met for probe in probes), _late(one),
            )
        )  # fmt: skip
    return Table(
        "capacities",
        f"The largest rate at which half of the runs meet the goal, with its {100 * study.search.level:g} % interval. Late: runs that "
        "missed the goal and in which the load generator itself was late.",
        ("Cell", "Capacity (requests/s)", "Half-width (%)", "Search", "Runs", "Met", "Late"),
        tuple(rows),
    )


def _ratios(study: Study, searches: Sequence[_Search]) -> list[tuple[_Search, _Search, CapacityRatio]]:
    """All pairs of few cells, of many each against the first; intervals that hold together (Bonferroni)."""
    known = [one for one in searches if one.bracketed]
    pairs = [
        (base, other)
        for place, other in enumerate(known)
        for base in (known[:place] if len(known) <= _ALL_PAIRS_MAX else known[: min(place, 1)])
    ]
    level = 1.0 - (1.0 - study.search.level) / max(1, len(pairs))
    return [(base, other, capacity_ratio(base.finding.search, other.finding.search, level)) for base, other in pairs]


def _ratio_table(study: Study, searches: Sequence[_Search]) -> list[Block]:
    pairs = _ratios(study, searches)
    if not pairs:
        return []
    rows: list[tuple[Entry, ...]] = [
        (
            other.name, base.name,
            Value(100 * (ratio.ratio - 1), 100 * (ratio.low - 1), 100 * (ratio.high - 1), 1, signed=True),
            "yes" if ratio.shown else "no",
        )
        for base, other, ratio in pairs
    ]  # fmt: skip
    return [
        Table(
            "capacities-compared",
            f"How much larger one capacity is than another, in percent, with intervals that hold together at "
            f"{100 * study.search.level:g} % for the {len(rows)} of them; searches share no run.",
            ("Cell", "Against", "Capacity (%)", "Difference shown"),
            tuple(rows),
        )
    ]


def _search_blocks(task: Task, searches: Sequence[_Search]) -> list[Block]:
    study = task.first.study
    drawn = [_search_figure(task, study, one, place) for place, one in enumerate(searches[:_DRAWN_MAX])]
    left = len(searches) - len(drawn)
    note = (
        [Text(f"{left} of {count_text(len(searches), 'cell')} are not drawn; the table has them.", note=True)]
        if left
        else []
    )
    return [*(one for one in drawn if one is not None), *note, _trials(study, searches)]


def _search_figure(task: Task, study: Study, search: _Search, place: int) -> Block | None:
    limits = study.goal.limits if study.goal is not None else ()
    panels = [panel for limit in limits if (panel := _criterion_panel(search, limit)) is not None]
    panels.append(_order_panel(study, search))
    unread = sum(search.reading(probe) is None for probe in search.finding.probes)
    text = (
        f"Each mark is a run. Filled: it met the goal; hollow: it did not. Shaded: the {100 * study.search.level:g} % interval of the "
        "capacity, on the right after each run. Logarithmic axes of rates; a time over a wide range has one, too."
        + (f" {count_text(unread, 'rate')} without a valid attempt stand on the right alone." if unread else "")
    )
    return figure(task, f"search-{place + 1}", f"The search: {search.name}", panels, text)


def _criterion_panel(search: _Search, limit: Limit) -> Panel | None:
    found = [
        (probe, value / 1e6)
        for probe in search.finding.probes
        if (run := search.reading(probe)) is not None and (value := limited_ns(limit, run.load)) is not None
    ]
    if not found:
        return None
    values, allowed = [value for _, value in found], limit.limit_ns / 1e6
    low, high = 0.8 * min(*values, allowed), 1.2 * max(*values, allowed)
    lines = [
        Line(
            name,
            tuple(Mark(probe.rate, value, note=probe.why_not) for probe, value in found if probe.met is met),
            look,
            kind,
        )
        for met, name, look, kind in ((True, "goal met", _MET, "dots"), (False, "goal missed", _MISSED, "points"))
    ]
    estimate = search.finding.estimate
    if search.bracketed:
        marks = (Mark(estimate.low, allowed, low, high), Mark(estimate.high, allowed, low, high))
        lines.append(Line("interval of the capacity", marks, _FOUND, "band"))
    lines.append(Line(f"limit: {_limit_text(limit)}", (Mark(estimate.capacity, allowed),), BOUND, "level"))
    return Panel(
        f"{limit.metric} over the rate",
        Axis("Offered rate (requests/s)", log=True),
        Axis("Response time (ms)", log=high > 8.0 * low),
        tuple(line for line in lines if line.marks),
    )


def _order_panel(study: Study, search: _Search) -> Panel:
    probes = list(enumerate(search.finding.probes, start=1))
    lines = [
        Line(
            name,
            tuple(Mark(place, probe.rate, note=probe.why_not) for place, probe in probes if probe.met is met),
            look,
            kind,
        )
        for met, name, look, kind in ((True, "goal met", _MET, "dots"), (False, "goal missed", _MISSED, "points"))
    ]
    # Beyond the rates that may be tried the interval follows from the search's verdict.
    low, high = study.search.rate_min, study.search.rate_max
    band = tuple(
        Mark(
            place,
            float(np.clip(probe.after.capacity, low, high)),
            float(np.clip(probe.after.low, low, high)),
            float(np.clip(probe.after.high, low, high)),
        )
        for place, probe in probes
    )
    lines.append(Line("interval of the capacity", band, _FOUND, "band"))
    return Panel(
        "rates in the order of the runs",
        Axis("Run"),
        Axis("Offered rate (requests/s)", log=True),
        tuple(line for line in lines if line.marks),
    )


def _trials(study: Study, searches: Sequence[_Search]) -> Table:
    limits = study.goal.limits if study.goal is not None else ()
    rows: list[tuple[Entry, ...]] = []
    for search in searches:
        for place, probe in enumerate(search.finding.probes, start=1):
            run = search.reading(probe)
            reported = [limited_ns(limit, run.load) if run is not None else None for limit in limits]
            share = answered_percent(run) if run is not None else None
            rows.append(
                (
                    search.name, place, Value(probe.rate), *(Value(value / 1e6) if value is not None else "–" for value in reported),
                    Value(share, digits=1) if share is not None else "–", "yes" if probe.met else probe.why_not,
                    Value(probe.after.capacity, probe.after.low, probe.after.high, 0),
                )
            )  # fmt: skip
    return Table(
        "trials",
        "Every run of the searches, in its order, and what was known of the capacity after it.",
        (
            "Cell", "Run", "Offered (requests/s)", *(f"{limit.metric} (ms)" for limit in limits), "Answered (%)", "Goal met",
            "Capacity after it (requests/s)",
        ),
        tuple(rows),
        folded=True,
    )  # fmt: skip
