"""All sentences of a set judged, conclusions together and expectations together: `judge_set`.

Each of the two is a family: the chance that any of its verdicts is wrong stays below 5 %. Conclusions are what a study is read for. What
was expected, up to 30 sentences more in a set, would widen their intervals by up to a sixth if all were one family.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design.whole.sets import Claim, Hypothesis
from weir_lab.report.numbers.maxima import more_text
from weir_lab.report.page.blocks import Finding
from weir_lab.report.sections.claims.asked import CANNOT_TELL, NO_DATA, Asked, Known
from weir_lab.report.sections.claims.rules import RULES as _RULES
from weir_lab.report.sections.claims.shapes import SHAPE_RULES
from weir_lab.theory.linear import Answer, judge_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Ruled
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.theory.linear import Conclusion

__all__ = ["FAMILY_TEXT", "RULES", "Held", "judge_set"]

# Rules that hold throughput against what links carry.
_OF_LINKS = ("limited_by", "reaches", "not_reaches")
FAMILY_TEXT = (
    "Each is judged by the interval of its own contrast, one factor changed alone, against limits that were fixed before the data, unless "
    "the head of this page says otherwise. The chance that any verdict on a conclusion is wrong is at most 5 % (Holm). The same "
    "goes for all verdicts on what was expected, and for all runs that confirm. p values are adjusted in the same way; a verdict without "
    "one follows from the design. How many runs would tell goes by the value that was found. Changes are taken inside blocks of runs made "
    "one after another, so what differs between hours drops out. A change worked out from two means of a table still has it, and can "
    "differ. All other comparisons of this page are exploratory."
)
RULES = {**_RULES, **SHAPE_RULES}


class Held(NamedTuple):
    """A sentence with the data of its section; ``task`` is None where the section has none, and ``why_not`` says why."""

    claim: Ruled
    task: Task | None
    why_not: str = ""

    @property
    def question(self) -> str:
        """What is asked of the data: sentences with the same question are one in the family of a study. Without a rule each is its own."""
        own = self.task is None or bool(self.claim.no_rule)
        asked = [
            self.claim.rule,
            self.claim.at,
            self.claim.args,
            self.claim.name if own or self.task is None else self.task.spec.name,
        ]
        return json.dumps(asked, sort_keys=True)


def judge_set(claims: Sequence[Held]) -> list[Finding]:
    """A finding for each, in their order. The same question counts once: an expectation that a conclusion asks, too, has its verdict."""
    asked: dict[str, Asked | Known] = {}
    for one in claims:
        if one.question not in asked:
            asked[one.question] = _ask(one)
    concluded = {one.question for one in claims if not isinstance(one.claim, Hypothesis)}
    answers: dict[str, Conclusion] = {}
    for family in (concluded, asked.keys() - concluded):
        tested = {question: one for question, one in asked.items() if question in family and isinstance(one, Asked)}
        answers |= zip(tested, judge_all([one.questions for one in tested.values()]), strict=True)
    return [
        _judged(one.claim, known, answers[one.question])
        if isinstance(known := asked[one.question], Asked)
        else _known(one.claim, known)
        for one in claims
    ]


def _ask(held: Held) -> Asked | Known:
    if held.claim.no_rule:
        return Known(CANNOT_TELL, held.claim.no_rule)
    if held.task is None:
        return Known(NO_DATA, held.why_not or "the section has no runs")
    try:
        return RULES[held.claim.rule](held.claim, held.task, _chosen(held.claim, held.task))
    except ValueError as error:
        return Known(NO_DATA, f"what is there is too thin: {error}")


def _chosen(claim: Ruled, task: Task) -> list[CellReadings]:
    return [
        cell
        for sweep in task.sweeps
        for cell in sweep.cells
        if all(getattr(cell.settings, name) == level for name, level in claim.at.items())
    ]


def _known(claim: Ruled, known: Known) -> Finding:
    return Finding(claim.name, claim.text, known.verdict, known.evidence)


def _judged(claim: Ruled, asked: Asked, found: Conclusion) -> Finding:
    alpha, why = _level(asked, found.alpha)
    evidence = f"{asked.evidence(alpha)}; intervals of {100.0 * (1.0 - alpha):.4g} %{why}"
    if found.answer is Answer.CANNOT_TELL and not asked.says_missing:
        evidence += f"; {more_text(found.times_more, asked.runs)}"
    built, after = claim.rule in _OF_LINKS, isinstance(claim, Claim) and claim.after_data
    return Finding(claim.name, claim.text, found.answer.value, evidence, found.p, built=built, after_data=after)


def _level(asked: Asked, alpha: float) -> tuple[float, str]:
    """The level of the intervals that decide, and what it goes by where a sentence has several parts.

    All of them must hold at the sentence's own level; one alone decides against it at Bonferroni's (`judge_all`). So where one lies outside
    at the sentence's own level, the interval that decides is the longer one.
    """
    parts = len(asked.questions)
    if parts < 2 or min(one.p_fails for one in asked.questions) > alpha:
        return alpha, ""
    return alpha / parts, f", since any of {parts} parts may decide against it"
