"""The page of two studies of one design: their conclusions side by side, their maxima, and throughput on one axis. `pair_report`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError
from weir_lab.records.places import AWAKE_TOOK_TIME
from weir_lab.report.numbers.stations import CPU_QUOTAS
from weir_lab.report.page.blocks import TRUST, Figure, Report, Section, Table, Text, Value
from weir_lab.report.sets.machines import YARDSTICK
from weir_lab.report.sets.stories.maxima import (
    ABOVE,
    BELOW,
    NO_RATIO,
    SAME,
    SERIES_MAX,
    pair_curves,
    pair_maxima,
    speed_of,
)
from weir_lab.report.sets.stories.pairing import (
    ALIKE,
    IN_ONE,
    OTHER_CLAIM,
    OTHER_LEVELS,
    OTHER_QUESTION,
    OTHERWISE,
    UNDECIDED,
    pair_questions,
    set_of,
    unpaired,
)
from weir_lab.report.sets.stories.telling import listed, subject_of
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.report.sets.stories.maxima import Maximum, MaximumPair
    from weir_lab.report.sets.stories.pairing import Question
    from weir_lab.report.sets.stories.reading import Whole
    from weir_lab.theory.stats import Interval

__all__ = ["pair_report"]

# Machines whose yardsticks differ by less are taken as equally fast.
_SPEEDS_ALIKE = 1.1
# How the names of links end, among stations.
_LINKS = "uplinks"
_PROXY_QUOTAS = CPU_QUOTAS["proxy"]
_ALIKE = "Levels and margins are each study's own: where the sentence has none, its report has them."
# What stands in the last column, and what it means.
_APART = {
    OTHERWISE: "“otherwise”: the same claim, decided on data of both, with another verdict",
    OTHER_CLAIM: "“other claims”: the studies contradict each other, whatever our data say",
    OTHER_LEVELS: "“other levels”: the same claim about other levels or settings, so that both verdicts may be right",
    OTHER_QUESTION: "“other questions”: different claims about the same, which need not contradict each other",
}


@dataclass(frozen=True)
class _PerCpu:
    """Two maxima that the CPU quota of a proxy limits, each over the CPUs that it may use in its study."""

    pair: MaximumPair
    one: Interval
    other: Interval

    @property
    def times(self) -> float:
        """The other's over the first's, of means: what may be a largest mean has no interval of a ratio."""
        return self.other.mean / self.one.mean

    @property
    def times_whole(self) -> float:
        """The same of throughput as it is."""
        return self.pair.other.throughput.mean / self.pair.one.throughput.mean


def pair_report(one: Whole, other: Whole) -> Report:
    """The page's content: the answer counts what its tables hold."""
    if one.name == other.name:
        raise ReportError(
            f"Both are reports of {one.name}. Two reports of one study are compared by `weir-lab compare`; give two studies."
        )
    questions = pair_questions(one, set_of(one), other, set_of(other))
    maxima = pair_maxima(one, other)
    return Report(
        f"{one.name}-{other.name}",
        f"{one.label} and {other.label} side by side",
        f"{_subjects(one, other)} Numbers and verdicts are those of the two reports.",
        "",
        "",
        tuple(_answer(one, other, questions, maxima)),
        (
            Section("questions", "Conclusions side by side", "", "", blocks=tuple(_asked(one, other, questions))),
            Section("maxima", "Maxima side by side", "", "", blocks=tuple(_compared(one, other, maxima))),
        ),
        tuple((whole.label, _made(whole)) for whole in (one, other)),
        {},
        limits=tuple(_limits(one, other, maxima)),
        limits_title=TRUST,
        intervals="Intervals are 95 % intervals; those of ratios are alone, not together.",
    )


def _subjects(one: Whole, other: Whole) -> str:
    """What the two are about, once where it is the same."""
    if subject_of(one) == subject_of(other):
        return f"Two studies of one design, each of a system of its own: {subject_of(one)}.{_one_program(one, other)}"
    return f"{one.label}: {subject_of(one)}. {other.label}: {subject_of(other)}."


def _one_program(one: Whole, other: Whole) -> str:
    """That our runs of both had one system, where they had: the studies had one each."""
    engines = {set_of(whole).engine for whole in (one, other)}
    if len(engines) > 1 or (one.pace, one.testbed) != (other.pace, other.testbed):
        return ""
    return (
        f" Our runs of both used one program, with its {engines.pop()} engine. Levels and numbers of runs are each study's own; the "
        f"system is not. So {other.label} over {one.label} says how well runs repeat, and nothing of the two systems of the studies."
    )


def _answer(one: Whole, other: Whole, questions: Sequence[Question], maxima: Sequence[MaximumPair]) -> list[str]:
    found = []
    for concluded, noun in ((True, "conclusion"), (False, "expectation")):
        counted = Counter(item.answered for item in questions if item.concluded == concluded)
        differing, asked = counted.pop(OTHER_CLAIM, 0), counted.pop(OTHER_QUESTION, 0)
        if counted:
            names = {
                ALIKE: ALIKE,
                OTHERWISE: OTHERWISE,
                OTHER_LEVELS: f"decided otherwise at {OTHER_LEVELS}",
                UNDECIDED: UNDECIDED,
            }
            answered = _counts_text(counted, names | {IN_ONE: _in_one(one, other, questions, concluded=concluded)})
            found.append(
                f"{one.label} and {other.label} share {count_text(counted.total(), noun)}; on our data: {answered}."
            )
        if differing or asked:
            found.append(_not_the_same(differing, asked, noun, further=bool(counted)))
    if not found:
        found.append(f"{one.label} and {other.label} share no question that was held against our data.")
    own = [pair for pair in maxima if not pair.beside] or maxima
    if own:
        counted = Counter(pair.verdict for pair in own)
        named = {
            ABOVE: f"above {one.label}",
            BELOW: f"below {one.label}",
            SAME: "no difference shown",
            NO_RATIO: _why_not_compared([pair for pair in own if pair.verdict == NO_RATIO]),
        }
        whose = " with the studies' own engine" if len(own) < len(maxima) else ""
        noun = "maximum" if len(own) == 1 else "maxima"
        found.append(f"{len(own)} {noun} of {other.label}{whose}: {_counts_text(counted, named)}.")
        apart = [pair for pair in own if pair.verdict in (ABOVE, BELOW)]
        if apart:
            largest = max(apart, key=_distance)
            found[-1] += f" The largest difference: {_ratio_text(one, other, largest)}{_why_text(one, other, largest)}."
        found += _per_cpu_text(one, other, _per_cpu(one, other, maxima))
    return found


def _why_text(one: Whole, other: Whole, pair: MaximumPair) -> str:
    """What slowed the lower one of two maxima, or made the higher one faster; empty where nothing goes this way.

    Nor where a link is full in both: then CPU time decides nothing.
    """
    if all(at.station.endswith(_LINKS) for at in (pair.one, pair.other)):
        return ""
    lower, higher = (one, other) if pair.verdict == ABOVE else (other, one)
    reasons = []
    if _slowed(one, other) == lower.label:
        reasons.append(f"the runs of {lower.label} lost CPU time to the testbed, as “{TRUST}” says")
    faster = _faster(one, other)
    if faster is not None and faster[0] == higher.label:
        reasons.append(f"the machine of {higher.label} was {number(faster[2], 2)} times as fast")
    return f": {', and '.join(reasons)}" if reasons else ""


def _per_cpu(one: Whole, other: Whole, maxima: Sequence[MaximumPair]) -> list[_PerCpu]:
    """Of the studies' own engine, where their quotas differ: such a quota decides throughput, and was chosen."""
    mine, its = one.proxy_cpus, other.proxy_cpus
    if mine is None or its is None or mine == its or not (one.one_proxy and other.one_proxy):
        return []
    return [
        _PerCpu(pair, pair.one.throughput.scaled(1.0 / mine), pair.other.throughput.scaled(1.0 / its))
        for pair in maxima
        if not pair.beside and pair.one.station == pair.other.station == _PROXY_QUOTAS
    ]


def _per_cpu_text(one: Whole, other: Whole, found: Sequence[_PerCpu]) -> list[str]:
    """What is left of the difference where it is brought to one quota, of the series with the most; none where nothing is there."""
    if not found:
        return []
    most = max(found, key=lambda at: max(at.pair.one.throughput.mean, at.pair.other.throughput.mean))
    series = _series_text(most.pair)
    return [
        f"For each CPU that its proxy may use {other.label} has {number(most.times, 2)} times the throughput of {one.label}, by means, and "
        f"{number(most.times_whole, 2)} times in all ({most.pair.section}, {most.pair.one.workload}, {series}): the quotas limit both, and "
        "were chosen."
    ]


def _per_cpu_table(one: Whole, other: Whole, found: Sequence[_PerCpu]) -> Table:
    rows: list[tuple[Entry, ...]] = [
        (
            f"{at.pair.section}: {at.pair.one.workload}",
            _series_text(at.pair),
            Value.of(at.one, 0),
            Value.of(at.other, 0),
            Value(at.times, digits=2),
            Value(at.times_whole, digits=2),
        )
        for at in found
    ]
    return Table(
        "pair-per-cpu",
        "The same maxima for each CPU that a proxy may use at the study's speed, where its CPU quota limits both: throughput over "
        f"{one.proxy_cpus:g} CPUs of {one.label} and over {other.proxy_cpus:g} of {other.label}. Ratios are those of means, in which the "
        "speed of the machines of both studies still is.",
        (
            *("Where", "Series", f"{one.label}: X per CPU (requests/s)", f"{other.label}: X per CPU (requests/s)"),
            *(f"{other.label} over {one.label}, per CPU", f"{other.label} over {one.label}, in all"),
        ),
        tuple(rows),
    )


def _series_text(pair: MaximumPair) -> str:
    """The name of the series, or both names where each study has its own."""
    return pair.one.series if pair.matched else f"{pair.one.series}; {pair.other.series}"


def _not_the_same(differing: int, asked: int, noun: str, *, further: bool) -> str:
    """``On one further conclusion the two studies contradict each other.``; and what is asked otherwise."""
    parts = []
    if differing:
        parts.append(f"on {_how_many(differing, noun, further=further)} the two studies contradict each other")
    if asked:
        whose = "they" if differing else "the two studies"
        others = _how_many(asked, noun, further=further and not differing)
        parts.append(f"on {others} {whose} claim different things about the same, which need not contradict each other")
    found = ", and ".join(parts)
    return f"{found[:1].upper()}{found[1:]}."


def _how_many(count: int, noun: str, *, further: bool) -> str:
    """``one further conclusion``, ``2 conclusions``."""
    counted = "one" if count == 1 else f"{count}"
    return f"{counted} {'further ' if further else ''}{noun}{'' if count == 1 else 's'}"


def _why_not_compared(pairs: Sequence[MaximumPair]) -> str:
    """``not compared, because both are largest means, and no maximum is shown``; each reason with its count where there are several."""
    reasons = Counter(pair.why_no_ratio for pair in pairs)
    if len(reasons) < 2:
        return f"not compared, because {''.join(reasons)}"
    return f"not compared ({'; '.join(f'{count} because {reason}' for reason, count in reasons.items())})"


def _in_one(one: Whole, other: Whole, questions: Sequence[Question], *, concluded: bool) -> str:
    """``decided on data of S5 only``."""
    whose = {
        (one if item.one.verdict in ("holds", "does not hold") else other).label
        for item in questions
        if item.concluded == concluded and item.answered == IN_ONE
    }
    return f"decided on data of {whose.pop()} only" if len(whose) == 1 else IN_ONE


def _slowed(one: Whole, other: Whole) -> str:
    """The one of the two whose runs the testbed took CPU time from; empty where that is none or both."""
    found = [whole.label for whole in (one, other) if any(AWAKE_TOOK_TIME in value for _, value in whole.facts)]
    return found[0] if len(found) == 1 else ""


def _faster(one: Whole, other: Whole) -> tuple[str, str, float] | None:
    """Which of the two had the faster machine by the yardstick, the other one, and how many times; ``None`` where they were about alike."""
    found = [re.match(r"[\d.,]+", dict(whole.facts).get(YARDSTICK, "")) for whole in (one, other)]
    took = [float(match[0].replace(",", "")) for match in found if match is not None]
    if len(took) < len(found):
        return None
    times = took[0] / took[1]
    if max(times, 1.0 / times) < _SPEEDS_ALIKE:
        return None
    return (other.label, one.label, times) if times > 1.0 else (one.label, other.label, 1.0 / times)


def _counts_text(counted: Counter[str], names: Mapping[str, str]) -> str:
    return ", ".join(f"{counted[verdict]} {name}" for verdict, name in names.items() if counted[verdict])


def _distance(pair: MaximumPair) -> float:
    ratio = pair.ratio
    return 0.0 if ratio is None else max(ratio.mean, 1.0 / ratio.mean)


def _ratio_text(one: Whole, other: Whole, pair: MaximumPair) -> str:
    ratio = pair.ratio
    if ratio is None:
        raise ReportError(f"{pair.section}: a ratio was asked for where there is none.")
    where = f"{pair.section}, {pair.one.workload}, {pair.one.series}"
    times = (
        f"{number(ratio.mean, 3)} times the maximum of {one.label} ({number(ratio.low, 3)} to {number(ratio.high, 3)})"
    )
    return f"{where}: {other.label} has {times}"


def _asked(one: Whole, other: Whole, questions: Sequence[Question]) -> list[Block]:
    if not questions:
        return [
            Text("No sentence of one study has a partner in the other: by name, or by rule, contrast and settings.")
        ]
    blocks: list[Block] = []
    for name, concluded, noun in (("concluded", True, "Conclusions"), ("expected", False, "Expectations")):
        own = [item for item in questions if item.concluded == concluded]
        apart = [item for item in own if item.answered in _APART]
        rest = [item for item in own if item not in apart]
        if apart:
            words = "; ".join(text for word, text in _APART.items() if any(item.answered == word for item in apart))
            blocks.append(_question_table(f"{name}-apart", f"{noun} that differ; {words}.", one, other, apart))
        if rest:
            blocks.append(
                _question_table(
                    f"{name}-rest",
                    f"{noun} that both studies have, with the verdicts on our data. {_ALIKE}",
                    one,
                    other,
                    rest,
                )
            )
    alone = [
        (whole.label, "conclusion" if concluded else "expectation", finding.claim, finding.verdict)
        for whole in (one, other)
        for concluded, finding in unpaired(whole, questions)
    ]
    if alone:
        caption = "What only one of the two studies concluded or expected."
        blocks.append(Table("unpaired", caption, ("Study", "What", "Claim", "On our data"), tuple(alone), folded=True))
    return blocks


def _question_table(name: str, caption: str, one: Whole, other: Whole, questions: Sequence[Question]) -> Table:
    return Table(
        name,
        caption,
        (one.label, f"On data of {one.label}", other.label, f"On data of {other.label}", "Answered"),
        tuple(
            (item.one.claim, item.one.verdict, item.other.claim, item.other.verdict, item.answered)
            for item in questions
        ),
    )


def _compared(one: Whole, other: Whole, maxima: Sequence[MaximumPair]) -> list[Block]:
    if not maxima:
        return [Text("No section of the same name has curves over clients of the same workload in both reports.")]
    ordered = sorted(
        maxima, key=lambda pair: (not pair.beside, max(pair.one.throughput.mean, pair.other.throughput.mean))
    )
    first = {(pair.section, pair.one.workload): pair for pair in ordered}
    shown = [pair for pair in maxima if pair in first.values()]
    others = [pair for pair in maxima if pair not in shown]
    text = (
        f"{_speeds(one, other)} The runs of the two are independent, and the interval of a ratio follows from both intervals on "
        "logarithms. A maximum is the mean over its plateau, and clients are the fewest that reach that; where none is shown they are "
        "those of the largest mean, and there is no ratio."
    )
    caption = f"Maxima of both, and {other.label} over {one.label}: of each workload the series in which either study has most. {text}"
    blocks: list[Block] = [_maxima_table("pair-maxima", caption, one, other, shown)]
    if per_cpu := _per_cpu(one, other, maxima):
        blocks.append(_per_cpu_table(one, other, per_cpu))
    if others:
        caption = f"Maxima of the other series that both have. {text}"
        blocks.append(replace(_maxima_table("pair-maxima-others", caption, one, other, others), folded=True))
    blocks += [
        Figure(
            f"pair-throughput-{name}",
            f"{title}: throughput over clients, {one.label} and {other.label}",
            "Means of single levels with their own 95 % intervals, at the studies' speed. Series that both have, or else the largest of "
            f"each: at most {SERIES_MAX} of each study.",
            tuple(panels),
        )
        for name, (title, panels) in pair_curves(one, other).items()
    ]
    return blocks


def _speeds(one: Whole, other: Whole) -> str:
    """How rates were brought to the studies' speed."""
    speeds = {whole.label: {speed_of(part) for part in whole.parts} - {1.0} for whole in (one, other)}
    named = [f"{number(speed, 3)} in {label}" for label, found in speeds.items() for speed in sorted(found)]
    if not named:
        return "Rates are as measured, on machines of the studies' speed."
    return (
        f"Rates are those at the studies' speed: what was measured over the speed of the machines, {listed(named)}."
        f"{_quotas(one, other)}"
    )


def _quotas(one: Whole, other: Whole) -> str:
    """That the proxies of the two have different CPU quotas, which decide where they limit; empty where they have not."""
    first, second = one.proxy_cpus, other.proxy_cpus
    if first is None or second is None or first == second:
        return ""
    return (
        f" A proxy may use other CPUs at that speed, {first:g} in {one.label} and {second:g} in {other.label}: where its quota limits, "
        "that is a part of what the two differ by."
    )


def _maxima_table(name: str, caption: str, one: Whole, other: Whole, maxima: Sequence[MaximumPair]) -> Table:
    columns = (
        "Where",
        "Series",
        f"{one.label}: clients",
        f"{one.label}: X (requests/s)",
        f"{other.label}: clients",
        f"{other.label}: X (requests/s)",
        f"{other.label} over {one.label}",
        f"{other.label} is",
    )
    return Table(name, caption, columns, tuple(_maximum_row(pair) for pair in maxima))


def _maximum_row(pair: MaximumPair) -> tuple[Entry, ...]:
    ratio = pair.ratio
    return (
        f"{pair.section}: {pair.one.workload}",
        _series_text(pair),
        pair.one.clients,
        _throughput(pair.one),
        pair.other.clients,
        _throughput(pair.other),
        Value.of(ratio, 3) if ratio is not None else "–",
        pair.verdict,
    )


def _throughput(maximum: Maximum) -> Value:
    interval = maximum.throughput
    if interval.low == interval.high:
        return Value(interval.mean, digits=0)
    return Value.of(interval, 0)


def _limits(one: Whole, other: Whole, maxima: Sequence[MaximumPair]) -> list[str]:
    found = [
        f"Of {whole.label} {count_text(len(whole.absent), 'section')} of {len(whole.parts)} {'is' if len(whole.absent) == 1 else 'are'} "
        f"not there, or not whole."
        for whole in (one, other)
        if whole.absent
    ]
    slow = _slowed(one, other)
    if slow:
        found.append(
            f"In the runs of {slow} alone the loop that kept cores awake took CPU time from the machines: where no link is full (few "
            f"clients, or workers or CPU quotas that limit), throughputs of {slow} are lower and its response times longer by that."
        )
    faster = _faster(one, other)
    if faster is not None:
        fast, behind, times = faster
        found.append(
            f"The machine of {fast} was {number(times, 2)} times as fast as that of {behind}, by the yardstick, a computation that is "
            f"always the same: where CPU quotas or workers limit, throughputs of {fast} are higher and its response times shorter by that."
        )
    if (one.pace, one.testbed) != (other.pace, other.testbed):
        found.append(f"{one.label} has {_made(one)}; {other.label} has {_made(other)}.")
    if not all(pair.matched for pair in maxima):
        found.append(
            "Where series differ, the largest of each study stands for it: it says nothing of one factor alone."
        )
    return found


def _made(whole: Whole) -> str:
    return f"pace {whole.pace}, testbed {whole.testbed}"
