"""Several groups of runs compared on logarithms, with one spread for all where they agree in it: `LogGroups`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc, stdtrit

from weir_lab.theory.stats._inputs import runs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["LogGroups"]

# Below this chance of so unequal spreads under equal ones, each comparison takes the spreads of its own two groups.
_UNEQUAL_P = 0.01


class LogGroups:
    """Groups of positive run means. Their differences on logarithms have t intervals.

    With equal relative spread the variance is pooled, with (runs - groups) degrees of freedom; Bartlett's test decides. Otherwise a
    comparison is Welch's. Groups that share blocks are compared as if they did not: intervals are then longer than they need be.

    >>> groups = LogGroups([[10.0, 11.0], [20.0, 22.0]])
    >>> round(math.exp(groups.difference(1, 0)[0]), 6)
    2.0
    """

    def __init__(self, groups: Sequence[ArrayLike]) -> None:
        logs = [np.log(runs_of(runs)) for runs in groups]
        self._sizes = [data.size for data in logs]
        self._means = [float(data.mean()) for data in logs]
        self._variances = [float(data.var(ddof=1)) for data in logs]
        self._freedom = sum(self._sizes) - len(logs)
        parts = [(size - 1) * variance for size, variance in zip(self._sizes, self._variances, strict=True)]
        self._pooled = math.fsum(parts) / self._freedom
        self.equal_spread = self._bartlett() >= _UNEQUAL_P

    def largest(self) -> int:
        """Index of the group with the largest mean."""
        return max(range(len(self._means)), key=self._means.__getitem__)

    def difference(self, one: int, other: int) -> tuple[float, float, float]:
        """Mean logarithm of one group less that of another, its standard error, and degrees of freedom."""
        gap = self._means[one] - self._means[other]
        if self.equal_spread:
            error = math.sqrt(self._pooled * (1.0 / self._sizes[one] + 1.0 / self._sizes[other]))
            return gap, error, float(self._freedom)
        a, b = (self._variances[index] / self._sizes[index] for index in (one, other))
        if a + b == 0.0:
            return gap, 0.0, float(self._sizes[one] + self._sizes[other] - 2)
        freedom = (a + b) ** 2 / (a**2 / (self._sizes[one] - 1) + b**2 / (self._sizes[other] - 1))
        return gap, math.sqrt(a + b), freedom

    def lower(self, one: int, other: int, alpha: float) -> float:
        """What the difference is above, but for a chance of ``alpha``."""
        gap, error, freedom = self.difference(one, other)
        return gap - float(stdtrit(freedom, 1.0 - alpha)) * error

    def upper(self, one: int, other: int, alpha: float) -> float:
        """What the difference is below, but for a chance of ``alpha``."""
        return -self.lower(other, one, alpha)

    def _bartlett(self) -> float:
        """P value of equal variances. Reference: Bartlett, Proc. R. Soc. A 160 (1937)."""
        if self._pooled == 0.0:
            return 1.0
        if min(self._variances) == 0.0:
            return 0.0
        freedoms = [size - 1 for size in self._sizes]
        logs = math.fsum(f * math.log(v) for f, v in zip(freedoms, self._variances, strict=True))
        statistic = self._freedom * math.log(self._pooled) - logs
        inverse = math.fsum(1.0 / f for f in freedoms) - 1.0 / self._freedom
        corrected = statistic / (1.0 + inverse / (3.0 * (len(freedoms) - 1)))
        return float(chdtrc(len(freedoms) - 1, corrected))
