"""A study in one or two lines, by rule: its subject, how its conclusions fared, its first answer, what is full. `tell`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.sets.stories.earlier import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = [
    "LINES_MAX",
    "LINE_CHARACTERS",
    "answer_of",
    "asked_of",
    "full_text",
    "listed",
    "subject_of",
    "tell",
    "verdicts_text",
]

LINES_MAX = 10
"""Of the stories of all studies together."""
LINE_CHARACTERS = 122
"""What fits on a line of the page, on a wide screen."""
_COUNTS = "Of "
# What a summary's sentence about all sections says (`results_of`), and the question that it answers.
_STOPS = re.compile(r"^[^:]* (stop at|reach) .* requests/s.*? where ")
_SECTIONS = re.compile(r" \(“[^()]*\)")
# The upper end of each throughput that such a sentence has.
_RATES = re.compile(r"([\d,]+) requests/s")
STOPS_ASKED = "Where does throughput stop growing with the clients, and what limits it there?"
# What a verb of it becomes where others reach more.
_OFTEN = {"stop at": "stop most often at", "reach": "most often reach"}
_VERBS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "cannot tell": ("cannot be decided", "cannot be decided"),
    "no data": ("has no data", "have no data"),
}


def tell(wholes: Sequence[Whole]) -> list[str]:
    """A story of each study. Together they have at most `LINES_MAX` lines: the longest lose their last clauses first."""
    clauses = [_clauses(whole) for whole in wholes]
    while sum(_lines(one) for one in clauses) > max(LINES_MAX, len(wholes)):
        longest = max((one for one in clauses if len(one) > 1), key=lambda one: len(" ".join(one)), default=None)
        if longest is None:
            break
        longest.pop()
    return [" ".join(one) for one in clauses]


def subject_of(whole: Whole | Earlier) -> str:
    """What the study is about: its title without its name."""
    return re.sub(rf"^{re.escape(whole.label)} again: ", "", whole.title)


def answer_of(whole: Whole) -> str:
    """The first sentence of its summary that is no count of conclusions; empty where there is none."""
    return next((line for line in whole.summary if not line.startswith(_COUNTS)), "")


def asked_of(whole: Whole) -> str:
    """What the answer answers: the question of the section that it is from, or that of all sections; else the first question there is."""
    answer = answer_of(whole)
    if _STOPS.search(answer):
        return STOPS_ASKED
    own = [part.question for part in whole.parts if answer.startswith(f"{part.title}: ")]
    return next((one for one in [*own, *(part.question for part in whole.parts)] if one), "")


def verdicts_text(whole: Whole) -> str:
    """``of 22 conclusions of the study 17 hold and 5 do not hold``."""
    counted = whole.counted
    total = sum(counted.values())
    if not total:
        return "the study has no conclusion that was held against our data"
    reported = [
        f"{counted[word]} {one if counted[word] == 1 else more}"
        for word, (one, more) in _VERBS.items()
        if counted[word]
    ]
    return f"of {count_text(total, 'conclusion')} {listed(reported)}"


def full_text(whole: Whole) -> str:
    """``Full at the maximum: server uplinks (12 of 20 curves), client uplinks (6).``; empty where no curve over clients was measured."""
    curves = sum(whole.full.values())
    if not curves:
        return ""
    (first, times), *others = whole.full.most_common()
    reported = [f"{first} ({times} of {count_text(curves, 'curve')})", *(f"{name} ({count})" for name, count in others)]
    return f"Full at the maximum: {', '.join(reported)}."


def _clauses(whole: Whole) -> list[str]:
    """What always stands there, and what follows while there is room."""
    found = [f"{whole.label}, {subject_of(whole)}: {verdicts_text(whole)}."]
    if answer_of(whole):
        found.append(_first_clause(answer_of(whole)))
    if full_text(whole):
        found.append(full_text(whole))
    while len(found) > 1 and _lines(found) > 2:
        found.pop()
    return found


def _first_clause(sentence: str) -> str:
    """Up to the first semicolon or full stop, without the sections that it is from.

    What most sections show stands first in a sentence about all of them. Where others reach more, the clause alone would be read as the
    most that is answered, so it says that it is what is found most often.
    """
    whole = _SECTIONS.sub("", sentence)
    first = re.split(r"; |(?<=[^.]\.) ", whole, maxsplit=1)[0].rstrip(".") + "."
    rates = [float(one.replace(",", "")) for one in _RATES.findall(whole)]
    if not _STOPS.search(first) or not rates or max(rates) == rates[0]:
        return first
    return re.sub(r" (stop at|reach) ", lambda verb: f" {_OFTEN[verb[1]]} ", first, count=1)


def _lines(clauses: Sequence[str]) -> int:
    return -(-len(" ".join(clauses)) // LINE_CHARACTERS)


def listed(parts: Sequence[str]) -> str:
    """``S1, S2 and S4``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
