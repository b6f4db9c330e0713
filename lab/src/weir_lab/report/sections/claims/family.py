"""All conclusions of a set judged together, so that the chance of any wrong one stays below 5 %: `judge_set`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.numbers.maxima import more_text
from weir_lab.report.page.blocks import Finding
from weir_lab.report.sections.claims.rules import NO_DATA, RULES, Asked, Known
from weir_lab.theory.linear import Answer, judge_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Claim
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.theory.linear import Conclusion

__all__ = ["FAMILY_TEXT", "Held", "judge_set"]

FAMILY_TEXT = (
    "Each is judged by the interval of its own contrast, one factor changed alone, against limits that were fixed before the data. The "
    "levels of the intervals are Holm's: with 95 % none of all verdicts of the study is wrong. p is adjusted so, too. All other "
    "comparisons of this page are exploratory."
)


class Held(NamedTuple):
    """A conclusion with the data of its section; ``task`` is None where the section has none, and ``why_not`` says why."""

    claim: Claim
    task: Task | None
    why_not: str = ""


def judge_set(claims: Sequence[Held]) -> list[Finding]:
    """A finding for each, in their order."""
    asked = [_ask(one) for one in claims]
    tested = [one for one in asked if isinstance(one, Asked)]
    answers = iter(judge_all([one.questions for one in tested]))
    return [
        _finding(held.claim, one, next(answers))
        if isinstance(one, Asked)
        else Finding(held.claim.name, held.claim.claim, one.verdict, one.evidence)
        for held, one in zip(claims, asked, strict=True)
    ]


def _ask(held: Held) -> Asked | Known:
    if held.task is None:
        return Known(NO_DATA, held.why_not or "the section has no runs")
    try:
        return RULES[held.claim.rule](held.claim, held.task, _chosen(held.claim, held.task))
    except ValueError as error:
        return Known(NO_DATA, f"what is there is too thin: {error}")


def _chosen(claim: Claim, task: Task) -> list[CellReadings]:
    return [
        cell
        for sweep in task.sweeps
        for cell in sweep.cells
        if all(getattr(cell.settings, name) == level for name, level in claim.at.items())
    ]


def _finding(claim: Claim, asked: Asked, found: Conclusion) -> Finding:
    evidence = f"{asked.evidence(found.alpha)}; intervals of {100.0 * (1.0 - found.alpha):.4g} %"
    if found.answer is Answer.CANNOT_TELL:
        evidence += f"; {more_text(found.times_more, asked.runs)}"
    return Finding(claim.name, claim.claim, found.answer.value, evidence, found.p)
