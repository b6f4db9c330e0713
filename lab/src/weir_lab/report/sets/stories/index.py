"""The page of all whole studies: a story of each, what its conclusions came to, what limits, and what is missing. `index_report`.

Studies whose pages no records stand behind are named with how those were made, and are in no count.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError
from weir_lab.records.places import AWAKE_TOOK_TIME
from weir_lab.report.page.blocks import TRUST, Report, Section, Table, Text, Value
from weir_lab.report.sets.stories.reading import RUNS_MADE, TESTBEDS, VERDICTS, in_order, label_of
from weir_lab.report.sets.stories.telling import answer_of, asked_of, listed, subject_of, tell
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Entry
    from weir_lab.report.sets.stories.earlier import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = ["index_report"]

NO_RUNS = "its runs are not here, so that nothing verifies it"
"""Of a study whose page is there all the same."""
_MACHINE = re.compile(r"machine \d+")
# What pages about several studies say without a word on it.
_WORDS = (
    (
        "pace",
        "how long runs are and how often they are repeated: night (5 to 10 s, as many runs as there was time for) or quick (2 s, three "
        "times)",
    ),
    (
        "testbed",
        "netns: every machine is a network namespace with its own links, delays and CPU quota, on one computer; local: all of them are "
        "processes of one machine, without links of their own",
    ),
    ("station", "what requests wait for: a link, the CPUs of a tier, the workers of a proxy"),
)
_HEADS = ("Hold", "Do not hold", "Cannot tell", "No data")


def index_report(
    wholes: Sequence[Whole], known: Sequence[str], earlier: Sequence[Earlier] = (), pairs: Sequence[str] = ()
) -> Report:
    """The page's content; ``pairs`` are the titles of pages of two studies that it names.

    ``known`` are the names of all studies that there could be. Of those without a report, the ones with an ``earlier`` page are named with
    it, and the others are said to be missing.
    """
    if not wholes:
        raise ReportError(
            "No report of a whole study is here. Make one with `weir-lab study s5`, then give its folder."
        )
    missing = in_order(set(known) - {whole.name for whole in wholes} - {one.name for one in earlier})
    beside = [Text(f"On a page of their own: {'; '.join(pairs)}.")] if pairs else []
    sections = [
        Section("verdicts", "Conclusions", "", "", blocks=(*beside, _counts(wholes))),
        Section("studies", "What was found first", "", "", blocks=(_answers(wholes, earlier, missing),)),
        Section("limits", "What limits", "", "", blocks=(_full(wholes) or _no_curve(),)),
    ]
    return Report(
        "index",
        "What the studies found on our data",
        "Earlier studies of memcached proxies, run again, and one of our own. Each report holds the study's conclusions against our runs "
        "by rule; this page counts and quotes what the reports say.",
        "",
        "",
        tuple(tell(wholes)),
        tuple(sections),
        (
            *((one.label, _made_of(one)) for one in wholes),
            *((one.label, f"{_made(one.pace, one.testbed, one.runs_made)}; {NO_RUNS}") for one in earlier),
            *_WORDS,
        ),
        {},
        limits=tuple(_limits(wholes, earlier, missing)),
        limits_title=TRUST,
        intervals="Numbers and verdicts are those of the reports, where their intervals stand, too. Rates are as measured: machines are "
        "built at a part of a study's speed, which stands below, and a rate divided by it is the study's.",
    )


def _answers(wholes: Sequence[Whole], earlier: Sequence[Earlier], missing: Sequence[str]) -> Table:
    rows: list[tuple[Entry, ...]] = [
        (whole.label, subject_of(whole), asked_of(whole) or "–", answer_of(whole) or "–") for whole in wholes
    ]
    rows += [(one.label, subject_of(one), "–", f"{one.made_text}; {NO_RUNS}") for one in earlier]
    rows += [(label_of(name), "no report was given", "–", "–") for name in missing]
    return Table(
        "answers",
        "The first answer of each report, and the question to it. The name leads to the report.",
        ("Study", "About", "Asked", "Answer"),
        tuple(rows),
    )


def _counts(wholes: Sequence[Whole]) -> Table:
    rows = [_count_row(whole) for whole in wholes]
    return Table(
        "counts",
        "Conclusions of each study on our data, by verdict, and which share of them is decided (holds or does not hold). Expectations are "
        "those from before the measurement, the study's and ours. A section is whole where each of its sweeps has runs.",
        ("Study", "Conclusions", *_HEADS, "Decided (%)", "Expectations", "Of these held", "Whole sections"),
        tuple(rows),
    )


def _count_row(whole: Whole) -> tuple[Entry, ...]:
    counted, expected = whole.counted, whole.expected
    total = sum(counted.values())
    decided = counted["holds"] + counted["does not hold"]
    return (
        whole.label,
        total,
        *(counted[verdict] for verdict in VERDICTS),
        Value(100.0 * decided / total, digits=0) if total else "–",
        sum(expected.values()),
        expected["holds"],
        f"{len(whole.parts) - len(whole.absent)} of {len(whole.parts)}",
    )


def _full(wholes: Sequence[Whole]) -> Table | None:
    """Which station is full at the maximum of how many curves."""
    stations: Counter[str] = sum((whole.full for whole in wholes), Counter())
    if not stations:
        return None
    shown = [whole for whole in wholes if whole.full]
    return Table(
        "full",
        "What limits: in how many curves over clients each station is full at the maximum.",
        ("Station", *(whole.label for whole in shown)),
        tuple((station, *(whole.full[station] for whole in shown)) for station, _ in stations.most_common()),
    )


def _no_curve() -> Text:
    return Text("No study here measured a curve over clients, so nothing is said of what limits.", note=True)


def _limits(wholes: Sequence[Whole], earlier: Sequence[Earlier], missing: Sequence[str]) -> list[str]:
    found = []
    if earlier:
        names = listed([one.label for one in earlier])
        pages, what = (
            ("earlier pages are", "these conclude") if len(earlier) > 1 else ("an earlier page is", "it concludes")
        )
        found.append(
            f"The runs of {names} are not here, but {pages}: what {what} cannot be verified, and is in no count."
        )
    slowed = [whole.label for whole in wholes if any(AWAKE_TOOK_TIME in value for _, value in whole.facts)]
    if slowed:
        found.append(
            f"In the runs of {listed(slowed)} the loop that keeps cores awake took CPU time from the machines: where no link limits, "
            "throughputs are lower and response times longer by that."
        )
    found += [
        f"Of the conclusions of {whole.label} {decided} of {total} are decided: the page says what more runs would tell."
        for whole in wholes
        if (total := sum(whole.counted.values()))
        and (decided := whole.counted["holds"] + whole.counted["does not hold"]) < total / 2
    ]
    if missing:
        names = ", ".join(label_of(name) for name in missing)
        found.append(f"Missing: {names}. No report of it was given; weir-lab study {missing[0]} makes one.")
    found += [
        f"{whole.label} is there in part: {count_text(len(whole.absent), 'section')} of {len(whole.parts)} not, or not whole."
        for whole in wholes
        if whole.absent
    ]
    return found


def _made_of(whole: Whole) -> str:
    facts = dict(whole.facts)
    machines = sum(bool(_MACHINE.fullmatch(name)) for name in facts) or 1
    parts = [_made(whole.pace, facts.get(TESTBEDS, whole.testbed), facts.get(RUNS_MADE, ""))]
    parts += [f"on {facts['cores']} cores of {facts['cpu model']}"] if {"cores", "cpu model"} <= facts.keys() else []
    parts += [f"{machines} machines"] if machines > 1 else []
    parts += [f"commit {facts['commit']}"] if "commit" in facts else []
    notes = [value for name, value in whole.facts if name.startswith("note") and "of the study's speed" in value]
    parts += [note.partition(":")[0] for note in notes[:1]]
    return "; ".join(parts)


def _made(pace: str, testbed: str, runs_made: str) -> str:
    return f"pace {pace}, testbed {testbed}{f', {RUNS_MADE} {runs_made}' if runs_made else ''}"
