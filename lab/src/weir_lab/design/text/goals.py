"""What `find` asks for: ``max rate with p99 < 1ms``. Start with `Goal.parse`."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Goal", "GoalError", "Limit"]

_GOAL = re.compile(r"\s*max\s+rate\s+with\s+(.+?)\s*")
_LIMIT = re.compile(r"(mean|p50|p90|p95|p99|p99\.9)\s*(?:<=?|≤)\s*([0-9]+(?:\.[0-9]+)?)\s*(us|µs|ms|s)")
_UNITS_NS = {"us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


class GoalError(ValueError):
    """A goal that cannot be read."""


@dataclass(frozen=True)
class Limit:
    """What one response time may be at most."""

    metric: str
    """``mean``, or ``p`` and a percentage."""
    limit_ns: float

    @property
    def percent(self) -> float | None:
        """Of a percentile; ``None`` of the mean."""
        return None if self.metric == "mean" else float(self.metric.removeprefix("p"))


@dataclass(frozen=True)
class Goal:
    """Limits that all must be kept."""

    text: str
    limits: tuple[Limit, ...]

    @staticmethod
    def parse(text: str) -> Goal:
        """Read a goal.

        >>> Goal.parse("max rate with p99 < 1ms and mean < 200us").limits[0]
        Limit(metric='p99', limit_ns=1000000.0)
        """
        whole = _GOAL.fullmatch(text)
        parts = re.split(r"\s+and\s+", whole[1]) if whole else []
        found = [_LIMIT.fullmatch(part.strip()) for part in parts]
        if not found or not all(found):
            raise GoalError(
                'the form is "max rate with p99 < 1ms", with mean, p50, p90, p95, p99 or p99.9, times in us, ms or s, '
                f'and perhaps more limits behind "and"; not {text!r}'
            )
        limits = tuple(Limit(one[1], float(one[2]) * _UNITS_NS[one[3]]) for one in found if one)
        if any(limit.limit_ns <= 0.0 for limit in limits):
            raise GoalError("a time of 0 is never kept: give a longer one")
        return Goal(text, limits)
