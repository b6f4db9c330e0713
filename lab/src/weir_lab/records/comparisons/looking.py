"""When a comparison looks at its lives, what it sees, and when it has seen enough: `Looking`. Pure.

Looks come after 5, 7, 9, 12, ... lives, and one when the budget is used up. How much of the error a look may spend goes by the share of the
budget (of time, or of lives) that is gone, which does not depend on what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.records.comparisons.lives import LookRecord, Metric, pairs_of
from weir_lab.theory.stats.stopping import Judgement, Look, Pair, SequentialPlan, Verdict, judge, life_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weir_lab.records.comparisons.lives import LifeRecord

__all__ = ["Budget", "Looking", "Outcome", "Outcomes", "Rule", "replay", "worst"]


@dataclass(frozen=True)
class Rule:
    """What is asked, fixed before the first life."""

    metric: Metric = Metric.THROUGHPUT
    same_within: float = 0.02
    precision: float | None = None
    """Go on until the interval is this narrow (half of its length, as a share of A's value), whatever the verdict."""
    plan: SequentialPlan = field(default_factory=SequentialPlan)

    def content(self, judgement: Judgement) -> bool:
        """Whether no more lives are needed."""
        if self.precision is None:
            return judgement.verdict is not Verdict.CANNOT_TELL
        _, low, high = judgement.change
        return (high - low) / 200.0 <= self.precision


@dataclass(frozen=True)
class Budget:
    """When to give up: after a number of seconds, after a number of lives, or at what comes first."""

    seconds: float | None = None
    lives: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.lives is None:
            raise ValueError("A comparison needs a budget of time or of lives.")

    def used(self, seconds: float, lives: int) -> float:
        """Share that is gone, 0 to 1."""
        shares = [seconds / self.seconds] if self.seconds is not None else []
        shares += [lives / self.lives] if self.lives is not None else []
        return min(1.0, max(shares))

    def allows(self, seconds: float, lives: int) -> bool:
        """Whether so much is not more than the budget."""
        return (self.seconds is None or seconds <= self.seconds) and (self.lives is None or lives <= self.lives)


@dataclass(frozen=True)
class Outcome:
    """How a comparison ended at one level; without a judgement there were too few lives for a look."""

    lives: list[LifeRecord]
    looks: tuple[Look, ...]
    judgements: tuple[Judgement, ...]

    @property
    def judgement(self) -> Judgement | None:
        """At the last look."""
        return self.judgements[-1] if self.judgements else None

    @property
    def verdict(self) -> Verdict:
        """At the last look."""
        return self.judgements[-1].verdict if self.judgements else Verdict.CANNOT_TELL

    @property
    def look_records(self) -> list[LookRecord]:
        """For the file."""
        found = []
        for look, judgement in zip(self.looks, self.judgements, strict=True):
            change, low, high = judgement.change
            found.append(
                LookRecord(lives=look.n, used=look.used, change_percent=change, low_percent=low, high_percent=high)
            )
        return found


Outcomes = dict[int, Outcome]
"""By number of clients."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of all levels: one that is slower says more than one that cannot tell, and that more than those that are fine."""
    order = [Verdict.SLOWER, Verdict.CANNOT_TELL, Verdict.SAME, Verdict.FASTER]
    return min(verdicts, key=order.index)


def replay(lives: Sequence[LifeRecord], rule: Rule, budget: Budget, clients: int) -> Outcome:
    """What a comparison at one level would have said that had made these lives one after the other; those behind its end are left out."""
    looking, seconds = Looking(rule), 0.0
    for number, life in enumerate(lives, start=1):
        seconds += life.took_s
        used = 1.0 if number == len(lives) else budget.used(seconds, number)
        if looking.after(pairs_of(life, rule.metric, clients), used):
            return looking.outcome(list(lives[:number]))
    raise RecordError("There are no lives to be compared. Give the folder of a comparison that made some.")


class Looking:
    """When looks are due, and what they showed. It takes one life after the other."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._due = rule.plan.next_n(0)
        self._lives: list[list[Pair]] = []
        self._looks: list[Look] = []
        self._judgements: list[Judgement] = []

    def after(self, life: list[Pair], used: float) -> bool:
        """Look, if a look is due, when so much of the budget is gone; whether the comparison has ended."""
        self._lives.append(life)
        rule, n = self._rule, len(self._lives)
        if n < rule.plan.first or (n < self._due and used < 1.0):
            return used >= 1.0
        self._looks.append(Look(n, used))
        judgement = judge(
            life_values(self._lives), tuple(self._looks), rule.plan, rule.same_within, rule.metric.direction
        )
        self._judgements.append(judgement)
        self._due = rule.plan.next_n(n)
        return used >= 1.0 or rule.content(judgement)

    def outcome(self, lives: Sequence[LifeRecord] = ()) -> Outcome:
        """So far."""
        return Outcome(list(lives), tuple(self._looks), tuple(self._judgements))
