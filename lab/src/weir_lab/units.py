"""Numbers as text, the same way in report, terminal and sentences.

Every formatter refuses what is not a finite number, so that a missing value cannot reach a reader.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError

if TYPE_CHECKING:
    from weir_lab.stats import Change, Interval

__all__ = ["change_text", "count_text", "interval_text", "microseconds", "number", "rate", "signed_percent"]

MINUS = "\N{MINUS SIGN}"


def number(value: float, digits: int) -> str:
    """Fixed digits, thousands separated, a real minus sign."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ReportError(f"A number is missing ({value!r}). The report is not written; look for a run without data.")
    text = f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0.0:
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def microseconds(value_ns: float) -> str:
    """Nanoseconds in µs with three significant digits below 1,000.

    >>> microseconds(12_345), microseconds(1_234_567)
    ('12.3', '1,235')
    """
    value = value_ns / 1000.0
    return number(value, _digits(value))


def rate(value_rps: float) -> str:
    """Requests per second, whole."""
    return number(value_rps, 0)


def signed_percent(value: float) -> str:
    """With sign and three significant digits.

    >>> signed_percent(12.34), signed_percent(123.4)
    ('+12.3', '+123')
    """
    digits = max(1, _digits(value)) if abs(value) < 100 else 0
    text = number(value, min(digits, 2))
    return text if text.startswith(MINUS) else f"+{text}"


def interval_text(interval: Interval, scale: float = 1.0) -> str:
    """``mean ± half width``, both with the digits that suit the mean."""
    scaled = interval.scaled(scale)
    digits = _digits(scaled.mean)
    return f"{number(scaled.mean, digits)} ± {number(scaled.half_width, digits)}"


def change_text(change: Change) -> str:
    """``-35.0 %, 95 % interval -38.1 to -31.7``, with real minus signs."""
    spread = f"{signed_percent(change.low)} to {signed_percent(change.high)}"
    return f"{signed_percent(change.percent)} %, {100 * change.level:g} % interval {spread}"


def count_text(count: int, noun: str) -> str:
    """``1 client``, ``4 clients``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _digits(value: float) -> int:
    """Decimals for three significant digits, none from 1,000 up."""
    size = abs(value)
    if size == 0.0 or size >= 100.0:
        return 0
    return min(3, 2 - math.floor(math.log10(size)))
