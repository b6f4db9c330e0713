"""A number as it was printed, and every value that it may stand for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Printed", "exact", "leading_number", "possible_range", "printed", "whole_number", "why_unread"]

# What may stand before the digits of a number that is not printed alone.
_NUMBER_LIKE = re.compile(r"[\s~≈<>≤≥±$€(+\-−]*\.?[0-9]")
_DIGITS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")


@dataclass(frozen=True)
class Printed:
    """Value with the range of numbers that print like it, in SI units."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Printed:
        """In another unit (positive factor)."""
        return Printed(self.value * factor, self.low * factor, self.high * factor)

    def meets(self, low: float, high: float, tolerance: float = 0.0) -> bool:
        """Whether some value of the range lies in low..high, widened by a relative tolerance."""
        return self.high >= low * (1.0 - tolerance) - 1e-12 and self.low <= high * (1.0 + tolerance) + 1e-12


def printed(text: str, *, count: bool = False) -> Printed | None:
    """Read a printed number; None for an empty cell. Counts are exact.

    It may have been rounded (half a unit of the last place to either side) or cut (a whole unit towards zero). Zeros at the end of a whole
    number are not taken for significant: 5400 may be 5.4k.

    >>> printed("0.99")
    Printed(value=0.99, low=0.985, high=1.0)
    >>> printed("5400").high
    5500.0
    """
    if not text.strip():
        return None
    try:
        number = Decimal(text.strip().replace("−", "-"))
    except InvalidOperation:
        return None
    # Beyond this nothing measured lies, and floats end.
    if not number.is_finite() or not -250 < number.adjusted() < 60:
        return None
    value = float(number)
    if count:
        return exact(value)
    step = Decimal(1).scaleb(int(number.as_tuple().exponent))
    if step >= 1 and number != 0:
        step = Decimal(1).scaleb(len(str(abs(int(number)))) - len(str(abs(int(number))).rstrip("0")))
    half, whole = float(step) / 2.0, float(step)
    if value == 0.0:
        return Printed(0.0, -whole, whole)  # what was cut to 0 may have had either sign
    if value < 0:
        return Printed(value, float(number - step), value + half)
    return Printed(value, float(number - step / 2), value + whole)


def whole_number(text: str) -> int | None:
    """A count without a sign, of at most 15 digits; None for any other text.

    >>> whole_number("²") is None
    True
    """
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text.strip()) else None


def why_unread(text: str) -> str | None:
    """What to do about a cell that begins like a number and is none; None for names, dashes and empty cells.

    >>> why_unread("n/a") is None
    True
    """
    own = text.strip()
    if not _NUMBER_LIKE.match(own) or printed(own) is not None:
        return None
    if re.fullmatch(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+", own):
        joined = own.replace(",", "")
        return f"it may be {joined} or {own.replace(',', '.', 1)}: write it without the comma"
    if re.fullmatch(r"[+-]?[0-9]*,[0-9]+", own):
        return f"it has a decimal comma: write {own.replace(',', '.')}"
    return "it is no number alone: write its digits, and the unit into the heading"


def leading_number(text: str) -> float:
    """The first digits of a text, for a reader of findings; 0 where there are none."""
    digits = _DIGITS.search(text)
    return float(digits[0]) if digits else 0.0


def exact(value: float) -> Printed:
    """A number that was counted or set."""
    return Printed(value, value, value)


def possible_range(function: Callable[..., float], *inputs: Printed) -> tuple[float, float]:
    """Lowest and highest value of a function that is monotone in each input; where it has no value it counts as infinite."""
    values = []
    for corner in product(*((one.low, one.high) if one.low != one.high else (one.low,) for one in inputs)):
        try:
            values.append(function(*corner))
        except (ValueError, ZeroDivisionError):
            values.append(math.inf)
    return min(values), max(values)
