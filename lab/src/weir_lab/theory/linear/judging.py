"""Conclusions judged together: each by the interval of its own contrast, and the chance of any wrong one is held over all: `judge_all`.

::

    does not hold      cannot tell       holds        cannot tell    does not hold
    ──────[───]──────────[──┊──]─────────[──]───────────[──┊──]───────────[────]────▶
                           low                            high

A conclusion *holds* where the interval lies between its limits, and does not where the interval lies beyond one of them. One limit may be
infinite (more, less); with both it is an equivalence test (the same within a margin; Schuirmann, J. Pharmacokin. Biopharm. 15, 1987).
Intervals grow with their level and never jump, so that "the interval at level 1 − p just decides" is a p value of either statement. Over
those of a study goes Holm's procedure (Scand. J. Statist. 6, 1979): with a chance of 95 % no conclusion is judged wrongly.

What consists of several questions holds where each of them does (an intersection needs no adjustment; Berger, Technometrics 24, 1982), and
does not where any of them is shown not to, at Bonferroni's level. Limits stand in a file before the data are seen. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from scipy.special import gammaincinv, pdtr, pdtrc, stdtr, stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.theory.linear.fit import Estimate

__all__ = ["Answer", "Conclusion", "Counted", "Question", "Unmeasured", "Within", "judge_all"]

ALPHA = 0.05
_POWER = 0.8


class Answer(StrEnum):
    """What may be said of a conclusion."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_TELL = "cannot tell"


class Question(Protocol):
    """Something that an interval answers."""

    @property
    def p_holds(self) -> float:
        """The smallest alpha whose interval lies on the conclusion's side."""

    @property
    def p_fails(self) -> float:
        """The smallest alpha whose interval lies on the other side."""

    def interval(self, alpha: float) -> tuple[float, float]:
        """Ends of the interval of level 1 - alpha."""

    def times_more(self, alpha: float) -> float:
        """How many times as many runs would decide it in 4 of 5 studies, if the truth were what was found; infinite at the limit."""


@dataclass(frozen=True)
class Within:
    """Whether a number lies between two limits, on the scale on which its error is normal (logarithms of rates, times and ratios).

    >>> from weir_lab.theory.linear.fit import Estimate
    >>> same = Within(Estimate(0.01, 0.01, 20.0), -0.05, 0.05)
    >>> round(same.p_holds, 4), round(same.p_fails, 4)
    (0.0007, 1.0)
    """

    estimate: Estimate
    low: float = -math.inf
    high: float = math.inf

    @property
    def p_holds(self) -> float:
        """Twice the larger tail beyond the limits."""
        return min(1.0, 2.0 * max(self._tail(self._value - self.low), self._tail(self.high - self._value)))

    @property
    def p_fails(self) -> float:
        """Twice the smaller tail inside of a limit."""
        return min(1.0, 2.0 * min(self._tail(self.low - self._value), self._tail(self._value - self.high)))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Student's."""
        reach = self._quantile(alpha) * self.estimate.standard_error
        return self._value - reach, self._value + reach

    def times_more(self, alpha: float) -> float:
        """By the distance to the nearer limit: the standard error shrinks as 1/√n."""
        away = min(abs(self._value - limit) for limit in (self.low, self.high) if math.isfinite(limit))
        if self.estimate.standard_error == 0.0:
            return 1.0
        if away == 0.0:
            return math.inf
        wanted = (self._quantile(alpha) + float(stdtrit(self.estimate.freedom, _POWER))) * self.estimate.standard_error
        return (wanted / away) ** 2

    @property
    def _value(self) -> float:
        return self.estimate.value

    def _quantile(self, alpha: float) -> float:
        return float(stdtrit(self.estimate.freedom, 1.0 - alpha / 2.0))

    def _tail(self, away: float) -> float:
        """Chance of an estimate so far on this side of a limit where the truth is the limit; data without spread are exact."""
        if math.isinf(away):
            return 0.0 if away > 0.0 else 1.0
        if self.estimate.standard_error == 0.0:
            return float(away <= 0.0)
        return float(stdtr(self.estimate.freedom, -away / self.estimate.standard_error))


@dataclass(frozen=True)
class Counted:
    """Whether something happens at least ``rate`` times per unit, by how often it was counted in some units: Poisson's exact interval.

    >>> round(Counted(0, 1.0, 1.0).p_holds, 3), round(Counted(9, 1.0, 1.0).p_holds, 6)
    (1.0, 2e-06)
    """

    count: int
    units: float
    rate: float

    @property
    def p_holds(self) -> float:
        """Of this number or more at that rate."""
        return min(1.0, 2.0 * float(pdtrc(self.count - 1, self.rate * self.units))) if self.count else 1.0

    @property
    def p_fails(self) -> float:
        """Of this number or fewer at that rate."""
        return min(1.0, 2.0 * float(pdtr(self.count, self.rate * self.units)))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Of the rate (Garwood, Biometrika 28, 1936)."""
        low = float(gammaincinv(self.count, alpha / 2.0)) if self.count else 0.0
        return low / self.units, float(gammaincinv(self.count + 1, 1.0 - alpha / 2.0)) / self.units

    def times_more(self, alpha: float) -> float:
        """Without the power: the multiple of what was seen that would decide."""
        for times in range(2, 101):
            more = Counted(times * self.count, times * self.units, self.rate)
            if min(more.p_holds, more.p_fails) <= alpha:
                return float(times)
        return math.inf


@dataclass(frozen=True)
class Unmeasured:
    """What a conclusion also says and no run can answer: it cannot hold then, and may still be shown not to by its other questions.

    >>> from weir_lab.theory.linear.fit import Estimate
    >>> sure = Within(Estimate(0.05, 0.001, 20.0), 0.0)
    >>> [judge_all([questions])[0].answer.value for questions in ([sure], [sure, Unmeasured()])]
    ['holds', 'cannot tell']
    """

    p_holds: float = 1.0
    p_fails: float = 1.0

    def interval(self, alpha: float) -> tuple[float, float]:
        """Any number, at any level."""
        del alpha
        return -math.inf, math.inf

    def times_more(self, alpha: float) -> float:
        """Nothing times as many runs is still none."""
        del alpha
        return math.inf


@dataclass(frozen=True)
class Conclusion:
    """What was said of one conclusion. ``p`` is adjusted for all of them; ``alpha`` is what its intervals were read off at.

    ``times_more`` is how many times the runs would decide it; 1 where it is decided.
    """

    answer: Answer
    p: float
    alpha: float
    times_more: float


def judge_all(conclusions: Sequence[Sequence[Question]], alpha: float = ALPHA) -> list[Conclusion]:
    """All conclusions of a study, each with the questions that it consists of.

    >>> from weir_lab.theory.linear.fit import Estimate
    >>> more = [Within(Estimate(value, 0.01, 20.0), 0.0) for value in (0.05, -0.05, 0.022)]
    >>> [one.answer.value for one in judge_all([[one] for one in more])]
    ['holds', 'does not hold', 'holds']
    >>> [one.answer.value for one in judge_all([[more[2]]] * 3)]
    ['cannot tell', 'cannot tell', 'cannot tell']
    """
    ways = [(_holds(questions), _fails(questions)) for questions in conclusions]
    order = sorted(range(len(ways)), key=lambda place: min(ways[place]))
    found: dict[int, Conclusion] = {}
    largest, open_ = 0.0, False
    own = alpha
    for rank, place in enumerate(order):
        p = min(ways[place])
        if not open_:
            own = alpha / (len(order) - rank)
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        open_ = open_ or p > own
        if open_:
            more = _times_more(conclusions[place], own)
            found[place] = Conclusion(Answer.CANNOT_TELL, largest, own, more)
        else:
            answer = Answer.HOLDS if ways[place][0] <= ways[place][1] else Answer.DOES_NOT_HOLD
            found[place] = Conclusion(answer, largest, own, 1.0)
    return [found[place] for place in range(len(ways))]


def _holds(questions: Sequence[Question]) -> float:
    return max((one.p_holds for one in questions), default=1.0)


def _fails(questions: Sequence[Question]) -> float:
    return min(1.0, max(1, len(questions)) * min((one.p_fails for one in questions), default=1.0))


def _times_more(questions: Sequence[Question], alpha: float) -> float:
    """What is decided first: one that fails, or the last of those that hold."""
    failing = [one.times_more(alpha / len(questions)) for one in questions if one.p_holds >= 1.0]
    return min(failing) if failing else max((one.times_more(alpha) for one in questions), default=math.inf)
