"""What a set found, over all its sections: where each workload stops and what limits it there (`results_of`), and what was measured twice.

The sentences are made of the stops of each section (`comparisons.plateaus`), so that they say what its table of maxima has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.report.common import by_workload, cell_words, level_value, series_of
from weir_lab.report.numbers.comparing import level_of, response_of, throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.sections.claims.asked import HOLDS, THE_OTHER_WAY
from weir_lab.report.sections.comparisons.maxima import but_clients, maximum_over
from weir_lab.report.sections.comparisons.plateaus import Stop, ends_text, names_text, stops_of
from weir_lab.report.sets.machines import speed_blocks, speeds_text
from weir_lab.theory.units import count_text, number, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.numbers.stations import Limit
    from weir_lab.report.page.blocks import Block, Entry, Finding
    from weir_lab.report.sections.claims import Explained

__all__ = [
    "CHANGED",
    "again_blocks",
    "drift_limits",
    "in_part_text",
    "is_in_limits",
    "limits_table",
    "results_of",
    "single_text",
    "stopped",
]

# Sweeps that are less apart than this, in percent, are held against each other without a word.
_HOURS = 1.0
CHANGED = "runs with "
"""Before what was changed, among a section's conclusions."""
# Kinds of sections that have stops.
_RESULT_KINDS = ("clients", "beside")
# Kinds in which one run is not the plan for a cell.
_REPEATED = (*_RESULT_KINDS, "replication", "writes", "multigets", "effects")
# More different throughputs than this are reported section by section, where one station limits them all.
_GROUPS_MAX = 2
# What a series of direct access is called.
_DIRECTLY = "direct"
# Of a series that has a plateau, and of one that has none yet.
_STOPS = {True: "stop at", False: "reach"}
# What nothing is known of, in a table.
_NONE = "–"
# Sections with cells of one run that are named.
_NAMED_MAX = 4
# Throughputs of two sweeps that differ by no more than this, in percent, are no answer to a question: they are more evidence.
_FEW = 5.0
# Clients that differ by no more than this share are nearly as many.
_NEAR = 0.05


@dataclass(frozen=True)
class _Found:
    """A stop with the section that has it."""

    title: str
    stop: Stop
    share: float

    @property
    def named(self) -> str:
        """The section, with the series where it has several stops, and what is not decided."""
        whose = "" if self.stop.alone else f" with {self.stop.names}"
        return f"“{self.title}”{whose}{'' if self.stop.shown else f', largest mean{self._rising}'}"

    @property
    def _rising(self) -> str:
        """Where the curve ends before it is shown to stop rising."""
        return (
            f" at {count_text(self.clients, 'client')}, the most measured, so that more may give more"
            if self.rises
            else ""
        )

    @property
    def clients(self) -> int:
        """At which its throughput was measured."""
        return self.stop.maximum.cell.settings.clients

    @property
    def rises(self) -> bool:
        """Whether no series of it is shown to stop."""
        return not self.stop.shown and self.stop.maximum.rising

    def joins(self, other: _Found) -> bool:
        """Whether both stop at the same throughput, at the same station."""
        same = self.stop.limit.station == other.stop.limit.station
        return same and self.stop.ends[1] >= self.share * other.stop.ends[1]


def results_of(tasks: Sequence[Task]) -> list[str]:
    """A sentence for each workload, those with the most series first; then the event engine beside them, and how fast the machine was."""
    of_each: dict[str, list[_Found]] = {}
    for task in tasks:
        if task.spec.kind in _RESULT_KINDS:
            for stop in stops_of(task):
                found = _Found(task.spec.title, stop, 1.0 - task.margins.maximum / 100.0)
                of_each.setdefault(stop.workload, []).append(found)
    ordered = sorted(of_each, key=lambda name: -len(of_each[name]))
    sentences = [_sentence(workload, of_each[workload]) for workload in ordered]
    return [*sentences, *filter(None, (_beside_text(tasks), speeds_text(tasks)))]


def _beside_text(tasks: Sequence[Task]) -> str:
    """What the event engine reaches in each section where it stands beside the study's own, and what that reaches at most.

    ``With the event engine reads stop at 49,320 requests/s where the CPUs of this machine limit; the most with the split engine is 19,326
    (16 readers, largest mean) in “Maximum throughput”.``
    """
    parts = []
    for task in tasks:
        events = (
            [one for one in series_of(task) if one.event] if task.spec.kind in _RESULT_KINDS and task.beside else []
        )
        stops = stops_of(task) if events else []
        for workload, group in by_workload(events).items():
            own = [stop for stop in stops if stop.workload == workload]
            if not own:
                continue
            beside = [Stop(workload, (one,), (maximum_over(task, [one]),), alone=True) for one in group]
            event, most = (max(found, key=lambda stop: stop.ends[1]) for found in (beside, own))
            subject = _subject(workload)
            parts.append(
                f"{subject[:1].lower()}{subject[1:]} {_STOPS[event.shown]} {ends_text(*event.ends)} requests/s "
                f"{_where(event.limit, *([] if event.shown else ['largest mean']))}; the most with the "
                f"{most.lead.cells[0].settings.engine} engine is "
                f"{rate(most.ends[1])} ({_most_text(most)}) in “{task.spec.title}”"
            )
    return f"With the event engine {'; '.join(parts)}." if parts else ""


def _most_text(stop: Stop) -> str:
    """The series of a stop that has its largest throughput, and what is not decided."""
    names = [one.name for one, at in zip(stop.series, stop.maxima, strict=True) if at.throughput == stop.ends[1]]
    return f"{names_text(names)}{'' if stop.shown else ', largest mean'}"


def _sentence(workload: str, found: Sequence[_Found]) -> str:
    """``Reads stop at 582 requests/s where the server uplinks limit (…); at 1,164 requests/s where …``."""
    groups: list[list[_Found]] = []
    for one in sorted(found, key=lambda one: -one.stop.ends[1]):
        joined = next((group for group in groups if one.joins(group[0])), None)
        if joined is None:
            groups.append([one])
        else:
            joined.append(one)
    stations = {one.stop.limit.named for one in found}
    if len(groups) > _GROUPS_MAX and len(stations) == 1:
        return f"{_subject(workload)} {_by_section(found)}."
    if all(one.rises for one in found) and len({(one.title, one.clients) for one in found}) == 1:
        return f"{_subject(workload)} {_still_rising(found)}."
    # What most sections show comes first.
    parts = [_part(group, found) for group in sorted(groups, key=lambda group: -len(group))]
    # A largest mean is no place where anything stops.
    if all(one.stop.shown for one in found):
        return f"{_subject(workload)} stop at {'; at '.join(parts)}."
    return f"{_subject(workload)} reach {'; '.join(parts)}."


def _still_rising(found: Sequence[_Found]) -> str:
    """Curves of one section that all end while they rise: ``reach 73,401 requests/s with direct, where …; …``."""
    parts = []
    for place, one in enumerate(found):
        where = _where(one.stop.limit)
        whose = "" if one.stop.alone else " directly" if one.stop.names == _DIRECTLY else f" with {one.stop.names}"
        parts.append(f"{ends_text(*one.stop.ends)}{'' if place else ' requests/s'}{whose}, {where}")
    clients = count_text(found[0].clients, "client")
    means = "largest means, all" if len(found) > 1 else "largest mean"
    return f"reach {'; '.join(parts)} (“{found[0].title}”, {means} at {clients}, the most measured, so that more may give more)"


def _by_section(found: Sequence[_Found]) -> str:
    """Where one station limits everywhere: the throughputs of each section, not of those that are alike."""
    ends = [end for one in found for end in one.stop.ends]
    where = _where(found[0].stop.limit) if found[0].stop.limit.station else "where no station is seen to be full"
    parts = []
    for title in dict.fromkeys(one.title for one in found):
        own = [one for one in found if one.title == title]
        reached = [end for one in own for end in one.stop.ends]
        shown = {one.stop.shown for one in own}
        how = "" if shown == {True} else ", largest means" if shown == {False} else ", some of them largest means"
        parts.append(f"{ends_text(min(reached), max(reached))} in “{title}”{how}")
    verb = "stop at" if all(one.stop.shown for one in found) else "reach"
    return f"{verb} {ends_text(min(ends), max(ends))} requests/s, all {where} ({'; '.join(parts)})"


def _where(limit: Limit, *also: str) -> str:
    """What limits there; where nothing is seen to, what is the nearest to being full. ``also`` stands behind it in brackets."""
    notes = [*([f"the fullest: {limit.busiest}"] if limit.busiest and not limit.station else []), *also]
    where = f"where the {limit.named} limit" if limit.station else "where no station is seen to be full"
    return f"{where} ({'; '.join(notes)})" if notes else where


def _subject(workload: str) -> str:
    """Requests of a mix are not the share of it that is named."""
    return f"Requests, {workload}," if workload[:1].isdigit() else workload.capitalize()


def _part(group: Sequence[_Found], order: Sequence[_Found]) -> str:
    ends = [end for one in group for end in one.stop.ends]
    named = [one.named for one in sorted(group, key=lambda one: order.index(one))]
    return f"{ends_text(min(ends), max(ends))} requests/s {_where(group[0].stop.limit, *named)}"


def is_in_limits(task: Task) -> bool:
    """Whether the table of limits has all that a line of this section would say: where its series stop, and what limits them."""
    return task.spec.kind == "clients" and all(stop.shown for stop in stops_of(task))


def limits_table(parts: Sequence[tuple[str, Sequence[Explained]]]) -> Table | None:
    """What limits each place that a section of this title explains, of the values of its paragraph; None where nothing is explained."""
    rows = tuple(_limits_row(title, one) for title, explained in parts for one in explained)
    if not rows:
        return None
    return Table(
        "limits",
        "What limits, by section. Second sign: where a request's time grows most with the clients. Changed alone: throughput in runs with "
        "that station alone changed. Twice of it: at these clients, by a fitted model or at most by the others' use. Of several series: "
        "one's numbers.",
        (
            "Section",
            "Requests",
            "Clients",
            "X (requests/s)",
            "Limits",
            "Used (%)",
            "Second sign",
            "Changed alone",
            "Twice of it",
        ),
        rows,
    )


def _limits_row(title: str, one: Explained) -> tuple[Entry, ...]:
    station = one.usage.station if one.usage is not None else ""
    fullest = f", the fullest: {station}" if station else ""
    # One maximum is one number: the section's first table has that of the plateau, too.
    level = one.plateau.maximum.value if one.plateau is not None else None
    tried = [
        at.short_beside(one.cell.settings.population, over)
        for at, over in zip(one.tried, one.over_plateau, strict=True)
        if one.limits and at.more.changes == station
    ]
    return (
        title,
        f"{one.name}{'' if one.shown else ', largest mean'}",
        Value(one.cell.settings.clients),
        Value.of(level, 0) if level else level_value(one.cell, throughput_of, digits=0),
        (f"{station}, {one.alike} alike" if one.alike else station) if one.limits else f"cannot tell{fullest}",
        Value(100.0 * one.usage.share, digits=0) if one.usage is not None else _NONE,
        one.sign.short,
        "; ".join(tried) or one.inside or _NONE,
        one.brings or _NONE,
    )


def in_part_text(findings: Sequence[Finding]) -> str:
    """Conclusions that hold from end to end of a range, and not in a step of it."""
    steps = {
        one.claim.rstrip("."): one.evidence.partition(THE_OTHER_WAY)[2].partition(";")[0]
        for one in findings
        if one.verdict == HOLDS and THE_OTHER_WAY in one.evidence
    }
    return "".join(f" “{claim}” holds from end to end, but reverses within: {step}." for claim, step in steps.items())


def single_text(tasks: Sequence[Task]) -> str:
    """``40 of 56 cells of “One proxy” have one run``; empty where every cell that is to be repeated was."""
    counted = {}
    for task in tasks:
        cells = [cell for sweep in task.sweeps for cell in sweep.cells]
        single = [cell for cell in cells if len(cell.runs) < 2]
        if single and task.spec.kind in _REPEATED:
            counted[task.spec.title] = (len(single), len(cells))
    if not counted:
        return ""
    worst = sorted(counted, key=lambda title: -counted[title][0])
    named = [f"{counted[title][0]} of {counted[title][1]} cells of “{title}”" for title in worst[:_NAMED_MAX]]
    left = sum(counted[title][0] for title in worst[_NAMED_MAX:])
    if left:
        named.append(f"{left} of other sections")
    return f"{listed(named)} {'has' if sum(one for one, _ in counted.values()) == 1 else 'have'} one run, and so no interval"


def again_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Cells of a section whose settings other sweeps of earlier sections have, too, or nearly so: for each a sentence and a table.

    One setting is one number to a reader, and sweeps of other hours have others: none is wrong, and the page says how far they differ.
    Where the machine was far from equally fast, it says that, too (`speed_blocks`).
    """
    return [*_same_blocks(task, earlier), *_near_blocks(task, earlier), *speed_blocks(task, earlier)]


def drift_limits(tasks: Sequence[Task]) -> tuple[str, ...]:
    """How far throughput of one setting lies apart in two sweeps at most, with two runs in each; empty where none was measured twice."""
    off: dict[tuple[CellReadings, str, CellReadings], float] = {}
    for place, task in enumerate(tasks):
        pairs = _held_against(task, tasks[:place], _is_again) if task.spec.kind in _REPEATED else []
        for pair in pairs:
            if min(len(pair[0].runs), len(pair[2].runs)) > 1:
                off[pair] = abs(100.0 * (pair[0].mean_throughput / pair[2].mean_throughput - 1.0))
    if not off:
        return ()
    cell, name, other = worst = max(off, key=lambda pair: off[pair])
    settings = len({id(one) for one, _, _ in off})
    means = (
        "do not hold a smaller change from one sweep to another against a factor"
        if off[worst] >= _HOURS
        else "hours hardly matter there"
    )
    return (
        f"{count_text(settings, 'setting')} {'was' if settings == 1 else 'were'} measured in two sweeps, at other hours, and "
        f"{'differs by' if settings == 1 else 'differ by up to'} {number(off[worst], 1)} % ({rate(other.mean_throughput)} requests/s in "
        f"{name}, {rate(cell.mean_throughput)} later): {means}.",
    )


def _near_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Cells that differ from those of earlier sweeps in a few clients, or in what these are on, and in nothing else; of traces the same.

    A trace is long, and has one run: it stands beside the short runs of its settings here alone.
    """
    trace = task.spec.kind == "trace"
    found = _held_against(task, earlier, _is_near) if trace or task.spec.kind in _REPEATED else []
    pairs = [pair for pair in found if trace or not _is_again(pair[0], pair[2])]
    if not pairs:
        return []
    off = {pair: 100.0 * (pair[0].mean_throughput / pair[2].mean_throughput - 1.0) for pair in pairs}
    rows: list[tuple[Entry, ...]] = [
        (
            Value(cell.settings.clients), Value(cell.settings.client_machines), level_value(cell, throughput_of, digits=0),
            Value(len(cell.runs)), name, Value(other.settings.clients), Value(other.settings.client_machines),
            level_value(other, throughput_of, digits=0), Value(len(other.runs)), Value(percent, digits=1, signed=True),
        )
        for (cell, name, other), percent in off.items()
    ]  # fmt: skip
    cell, name, other = worst = max(off, key=lambda pair: abs(off[pair]))
    here, there = (
        f"{count_text(one.settings.clients, 'client')} on {count_text(one.settings.client_machines, 'machine')} "
        f"{rate(one.mean_throughput)} requests/s ({count_text(len(one.runs), 'run')})"
        for one in (cell, other)
    )
    lead = (
        f"Of sweeps of earlier sections that differ in their clients alone, {name} has the most different throughput: {here} "
        f"here, {there} there ({Value(off[worst], digits=1, signed=True).text} %)."
    )
    said = f"{lead} They share no blocks: what the machine did at either hour is in it."
    table = Table(
        f"{task.spec.name}-near",
        f"Settings of this section that other sweeps of earlier sections have, too, but for the clients, at most {100 * _NEAR:g} % more or "
        "fewer, or for the machines and threads that these are on. Sweeps share no blocks, so that the differences have no interval: they "
        "are those of the machine between hours, of few runs, and of the clients.",
        (
            *("Clients", "Client machines", "X (requests/s)", "Runs", "Sweep"),
            *("Clients there", "Client machines there", "X there (requests/s)", "Runs there", "Against it (%)"),
        ),
        tuple(rows),
        folded=True,
    )
    return [
        Text("Nearly the same settings in other sweeps:", (said,), note=abs(off[worst]) <= _FEW, leads=(lead,)),
        table,
    ]


def _same_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Cells with the settings of earlier sweeps, clients among them."""
    pairs = _held_against(task, earlier, _is_again) if task.spec.kind in _REPEATED else []
    if not pairs:
        return []
    off = {pair: 100.0 * (pair[0].mean_throughput / pair[2].mean_throughput - 1.0) for pair in pairs}
    rows: list[tuple[Entry, ...]] = [
        (
            cell_words(cell),
            Value(cell.settings.clients),
            level_value(cell, throughput_of, digits=0),
            Value(len(cell.runs)),
            name,
            level_value(other, throughput_of, digits=0),
            Value(len(other.runs)),
            Value(percent, digits=1, signed=True),
        )
        for (cell, name, other), percent in off.items()
    ]
    cell, name, other = worst = max(off, key=lambda pair: abs(off[pair]))
    here, there = (
        f"{rate(one.mean_throughput)} requests/s ({count_text(len(one.runs), 'run')})" for one in (cell, other)
    )
    settings = len({one for one, _, _ in pairs})
    which = "it had" if len(pairs) == 1 else f"the largest difference is that of {cell_words(cell)}:"
    said = (
        f"{count_text(settings, 'setting')} of this section {'was' if settings == 1 else 'were'} measured in another sweep of an "
        f"earlier section, too, at other hours; {which} {here} here, {there} in {name} "
        f"({Value(off[worst], digits=1, signed=True).text} %)."
    )
    table = Table(
        f"{task.spec.name}-again",
        "Settings of this section that other sweeps of earlier sections have, too, with as many clients on the same machines and links. "
        "Sweeps share no blocks, so that the differences have no interval: they are those of the machine between hours, and of few runs.",
        (
            *("Cell", "Clients", "X (requests/s)", "Runs", "Sweep"),
            *("X there (requests/s)", "Runs there", "Against it (%)"),
        ),
        tuple(rows),
        folded=True,
    )
    return [Text("The same settings in other sweeps:", (said,), note=abs(off[worst]) <= _FEW), table]


def stopped(task: Task) -> Text | None:
    """``9 of 60 cells are known as well as S1 wanted``: by the rule by which the study made no more runs; a note where all are.

    None without such a rule.
    """
    rule = task.spec.stop_rule
    cells = [cell for sweep in task.sweeps for cell in sweep.cells]
    if rule is None or not cells:
        return None
    name, value = _STOPPED_BY[rule.response]
    # Intervals are a factor around the mean: the upper side is the longer one.
    known = [
        cell
        for cell in cells
        if (found := level_of(cell, value)) is not None and found.high <= (1.0 + rule.percent / 100.0) * found.mean
    ]
    return Text(
        f"{len(known)} of {count_text(len(cells), 'cell')} {'is' if len(known) == 1 else 'are'} known as well as {task.label} wanted, "
        f"whose rule was that the 95 % interval of {name} lies within ±{rule.percent:g} % of the mean.",
        note=len(known) == len(cells),
    )


_STOPPED_BY: dict[str, tuple[str, Callable[[Reading], float | None]]] = {
    "throughput": ("throughput", throughput_of),
    "response_time": ("the response time", response_of),
    "time_in_proxy": ("the time in the proxy", lambda run: run.residence_s),
}


def _held_against(
    task: Task, earlier: Sequence[Task], alike: Callable[[CellReadings, CellReadings], bool]
) -> list[tuple[CellReadings, str, CellReadings]]:
    """Each cell with that of each earlier sweep that is ``alike``, on the same machines and links."""
    own = {sweep.folder for sweep in task.sweeps}
    others = {sweep.folder: sweep for one in earlier if one.spec.kind in _REPEATED for sweep in one.sweeps}
    found = []
    for sweep in task.sweeps:
        for cell in sweep.cells:
            for other in (one for folder, one in others.items() if folder not in own):
                if other.study.topology != sweep.study.topology or other.links_built != sweep.links_built:
                    continue
                again = next((one for one in other.cells if alike(cell, one)), None)
                if again is not None:
                    found.append((cell, other.folder.name, again))
    return found


def _is_again(cell: CellReadings, other: CellReadings) -> bool:
    one, another = cell.settings, other.settings
    clients = [(at.clients, at.client_machines) for at in (one, another)]
    return clients[0] == clients[1] and but_clients(one) == but_clients(another)


def _is_near(cell: CellReadings, other: CellReadings) -> bool:
    """With all else alike as many clients, or a few more or fewer, on whatever machines and threads."""
    one, another = cell.settings, other.settings
    return abs(one.clients / another.clients - 1.0) <= _NEAR and but_clients(one) == but_clients(another)
