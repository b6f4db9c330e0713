"""The page of all whole studies: a story of each, what its conclusions came to, what limits, and what is missing. `index_report`.

Studies whose pages no records stand behind are named with how those were made, and are in no count.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError
from weir_lab.report.page.blocks import TRUST, Report, Section, Table, Text, Value
from weir_lab.report.sets.stories.reading import RUNS_MADE, VERDICTS, in_order, label_of
from weir_lab.report.sets.stories.telling import answer_of, asked_of, listed, subject_of, tell
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.report.sets.stories.earlier import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = ["index_report"]

NO_RECORDS = "no kept records were given"
"""Of a study whose page is there all the same."""
_HEADS = ("Hold", "Do not hold", "Cannot tell", "No data")


def index_report(wholes: Sequence[Whole], known: Sequence[str], earlier: Sequence[Earlier] = ()) -> Report:
    """The page's content.

    ``known`` are the names of all studies that there could be. Of those without a report, the ones with an ``earlier`` page are named with
    it, and the others are said to be missing.
    """
    if not wholes:
        raise ReportError(
            "No report of a whole study is here. Make one with `weir-lab study s5`, then give its folder."
        )
    missing = in_order(set(known) - {whole.name for whole in wholes} - {one.name for one in earlier})
    blocks: list[Block] = [_answers(wholes, earlier, missing), _counts(wholes)]
    full = _full(wholes)
    return Report(
        "index",
        "What the studies found on our data",
        "Earlier studies of memcached proxies, run again, and one of our own. Each report holds the study's conclusions against our runs "
        "by rule; this page counts and quotes what the reports say.",
        "",
        "",
        tuple(tell(wholes)),
        (Section("studies", "The studies", "", "", blocks=tuple(blocks + ([full] if full else [_no_curve()]))),),
        (
            *((one.label, _made(one.pace, one.testbed, dict(one.facts).get(RUNS_MADE, ""))) for one in wholes),
            *((one.label, f"{_made(one.pace, one.testbed, one.runs_made)}; {NO_RECORDS}") for one in earlier),
        ),
        {},
        limits=tuple(_limits(wholes, earlier, missing)),
        limits_title=TRUST,
        intervals="Numbers, intervals and verdicts are those of the reports.",
    )


def _answers(wholes: Sequence[Whole], earlier: Sequence[Earlier], missing: Sequence[str]) -> Table:
    rows: list[tuple[Entry, ...]] = [
        (whole.label, subject_of(whole), asked_of(whole) or "–", answer_of(whole) or "–") for whole in wholes
    ]
    rows += [(one.label, subject_of(one), "–", f"{NO_RECORDS}: {one.made_text}") for one in earlier]
    rows += [(label_of(name), "no report was given", "–", "–") for name in missing]
    return Table(
        "answers",
        "What each study asked first, and the first answer of its report. The name leads to the report.",
        ("Study", "About", "Asked", "Answer"),
        tuple(rows),
    )


def _counts(wholes: Sequence[Whole]) -> Table:
    rows = [_count_row(whole.label, whole.counted, whole.expected, whole) for whole in wholes]
    if len(wholes) > 1:
        together: Counter[str] = sum((whole.counted for whole in wholes), Counter())
        expected: Counter[str] = sum((whole.expected for whole in wholes), Counter())
        rows.append(_count_row("all", together, expected, None))
    return Table(
        "counts",
        "Conclusions of each study on our data, by verdict, and which share of them is decided (holds or does not hold). Expected is what "
        "was expected before the measurement, by the study and by us.",
        ("Study", "Conclusions", *_HEADS, "Decided (%)", "Expected", "Of it held", "Sections in full"),
        tuple(rows),
    )


def _count_row(label: str, counted: Counter[str], expected: Counter[str], whole: Whole | None) -> tuple[Entry, ...]:
    total = sum(counted.values())
    decided = counted["holds"] + counted["does not hold"]
    sections = f"{len(whole.parts) - len(whole.absent)} of {len(whole.parts)}" if whole is not None else ""
    return (
        label,
        total,
        *(counted[verdict] for verdict in VERDICTS),
        Value(100.0 * decided / total, digits=0) if total else "–",
        sum(expected.values()),
        expected["holds"],
        sections,
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
        found.append(
            f"Of {listed([one.label for one in earlier])} pages are there, and {NO_RECORDS}: what these conclude cannot be verified and "
            "is in no count."
        )
    if missing:
        names = ", ".join(label_of(name) for name in missing)
        found.append(f"Missing: {names}. No report of it was given; weir-lab study {missing[0]} makes one.")
    found += [
        f"{whole.label} is there in part: {count_text(len(whole.absent), 'section')} of {len(whole.parts)} not, or not whole."
        for whole in wholes
        if whole.absent
    ]
    return found


def _made(pace: str, testbed: str, runs_made: str) -> str:
    return f"pace {pace}, testbed {testbed}{f', {RUNS_MADE} {runs_made}' if runs_made else ''}"
