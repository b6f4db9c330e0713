"""Whether a prediction is met: by the interval of what was measured over what was predicted, against a margin fixed beforehand.

A wide interval meets nothing and misses nothing: who measures badly cannot tell, and that does not count as met. The interval is that of
the measurement. What the prediction itself owes to the noise of the runs that it was made from is not in it. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weir_lab.theory.stats import Interval

__all__ = ["RESPONSE_PERCENT", "THROUGHPUT_PERCENT", "Meeting", "Verdict", "meeting_of", "tally_text"]

THROUGHPUT_PERCENT = 5.0
"""How far a measured throughput may be from its prediction, where nothing else is said."""
RESPONSE_PERCENT = 10.0
"""The same for a mean response time."""

# (t at 95 % + t of a power of 4 in 5) over t at 95 %, for many degrees of freedom.
_POWER_FACTOR = 1.43


class Verdict(StrEnum):
    """What may be said of a prediction; only the first counts as met."""

    MET = "met"
    MISSED = "missed"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Meeting:
    """A verdict, and measured over predicted less 1 in percent with its interval; without one where a single run was made."""

    verdict: Verdict
    percent: float
    low: float | None = None
    high: float | None = None
    times_more: float = math.inf
    """How many times the runs would tell in 4 of 5 studies, if the truth were what was found; 1 where it is decided."""

    @property
    def met(self) -> bool:
        """Whether the prediction counts as met."""
        return self.verdict is Verdict.MET


def meeting_of(
    measured: Interval | None, predicted: float, margin_percent: float, mean: float | None = None
) -> Meeting:
    """Hold a measured interval against a prediction; ``mean`` is what was measured where there is no interval.

    >>> from weir_lab.theory.stats import Interval
    >>> [meeting_of(Interval(100.0, 98.0, 102.0, 5, 0.95), guess, 5.0).verdict.value for guess in (101.0, 104.0, 110.0)]
    ['met', 'cannot tell', 'missed']
    """
    if measured is None:
        return Meeting(Verdict.CANNOT_TELL, _percent((mean or predicted) / predicted))
    low, high = measured.low / predicted, measured.high / predicted
    least, most = 1.0 - margin_percent / 100.0, 1.0 + margin_percent / 100.0
    times = 1.0
    if least <= low and high <= most:
        verdict = Verdict.MET
    elif high < least or low > most:
        verdict = Verdict.MISSED
    else:
        verdict = Verdict.CANNOT_TELL
        away = min(abs(measured.mean / predicted - limit) for limit in (least, most))
        times = (_POWER_FACTOR * (high - low) / 2.0 / away) ** 2 if away > 0.0 else math.inf
    return Meeting(verdict, _percent(measured.mean / predicted), _percent(low), _percent(high), times)


def tally_text(meetings: Iterable[Meeting]) -> str:
    """``5 of 7 met, 1 missed, 1 cannot tell``."""
    counted = Counter(one.verdict for one in meetings)
    total = sum(counted.values())
    rest = [f"{counted[one]} {one}" for one in (Verdict.MISSED, Verdict.CANNOT_TELL) if counted[one]]
    return ", ".join([f"{counted[Verdict.MET]} of {total} met", *rest])


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1.0)
