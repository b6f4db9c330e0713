"""Our numbers beside the known ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Compared", "Comparison"]


@dataclass(frozen=True)
class Compared:
    """One number: what it is, ours, the known one, and how far they may be apart (relative, or absolute for printed digits)."""

    what: str
    ours: float
    known: float
    tolerance: float
    absolute: bool = False

    @property
    def error(self) -> float:
        """Relative error, or absolute where the known number is 0 or known to printed digits only."""
        if self.ours == self.known:
            return 0.0
        if not (math.isfinite(self.ours) and math.isfinite(self.known)):
            return math.inf
        gap = abs(self.ours - self.known)
        return gap if self.absolute or self.known == 0.0 else gap / abs(self.known)

    @property
    def right(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True)
class Comparison:
    """A vector or table: how many numbers were compared, how many are right, and the worst one."""

    name: str
    numbers: int
    wrong: int
    worst: Compared | None
    failure: str | None

    @property
    def passed(self) -> bool:
        """Whether something was compared and all of it is right."""
        return self.failure is None and self.numbers > 0 and self.wrong == 0

    @classmethod
    def of(cls, name: str, check: Callable[[], Iterable[Compared]]) -> Comparison:
        """Run a check; an error of the code under test is a failed check, not a crash."""
        try:
            compared = list(check())
        except (ArithmeticError, LookupError, ValueError) as error:
            return cls(name, 0, 0, None, f"{type(error).__name__}: {error}")
        worst = max(compared, key=lambda one: one.error / one.tolerance if one.tolerance else one.error, default=None)
        return cls(name, len(compared), sum(not one.right for one in compared), worst, None)

    def line(self) -> str:
        """One line for a reader."""
        mark = "ok  " if self.passed else "FAIL"
        if self.failure is not None:
            return f"{mark} {self.name}: {self.failure}"
        if self.worst is None:
            return f"{mark} {self.name}: nothing was compared"
        kind = "absolute" if self.worst.absolute else "relative"
        text = f"{mark} {self.name}: {self.numbers} numbers, largest {kind} error {self.worst.error:.1e}"
        if self.passed:
            return text
        return f"{text}; {self.wrong} wrong, such as {self.worst.what}: {self.worst.ours!r}, known {self.worst.known!r}"
