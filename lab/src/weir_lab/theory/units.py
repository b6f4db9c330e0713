"""Numbers as text, the same way in report, terminal and sentences: three significant digits, a space, the unit.

Units are written ``requests/s``, ``s``, ``ms``, ``µs``, ``ns`` and ``%``.

Every formatter refuses what is not a finite number, so that a missing value cannot reach a reader.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError

if TYPE_CHECKING:
    from weir_lab.theory.linear import Change
    from weir_lab.theory.stats import Interval

__all__ = [
    "change_text",
    "count_text",
    "duration_text",
    "interval_text",
    "microseconds",
    "number",
    "percent_text",
    "rate",
    "rate_text",
    "signed_percent",
    "significant",
]

MINUS = "\N{MINUS SIGN}"
# Decimals up to which a small number is written out.
_SMALLEST_PLAIN = 6


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


def significant(value: float, digits: int = 3) -> str:
    """``digits`` significant digits, whatever the size; thousands separated, powers of ten only below a millionth.

    >>> significant(1234567.0), significant(0.4), significant(0.0123456), significant(999.6), significant(1e-9)
    ('1,230,000', '0.400', '0.0123', '1,000', '1.00e-9')
    """
    if value == 0.0 or not math.isfinite(value):
        return number(value, 0)
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -_SMALLEST_PLAIN:
        return f"{number(value / 10.0**exponent, digits - 1)}e{exponent}"
    return number(round(value, digits - 1 - exponent), max(0, digits - 1 - exponent))


def rate_text(value_rps: float) -> str:
    """``184,000 requests/s``.

    >>> rate_text(183_601.0), rate_text(0.25)
    ('184,000 requests/s', '0.250 requests/s')
    """
    return f"{significant(value_rps)} requests/s"


def duration_text(seconds: float) -> str:
    """``12.3 µs``, in the largest unit that leaves a number of at least 1.

    >>> duration_text(12.345e-6), duration_text(0.9996e-3), duration_text(75.0)
    ('12.3 µs', '1.00 ms', '75.0 s')
    """
    rounded = float(f"{seconds:.2e}")
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(rounded) >= scale * (1.0 - 1e-12):
            return f"{significant(seconds / scale)} {unit}"
    return f"{significant(seconds / 1e-9)} ns"


def percent_text(share: float) -> str:
    """``19.6 %`` of a share of .196."""
    return f"{significant(100.0 * share)} %"


def rate(value_rps: float) -> str:
    """Requests per second: whole, with three significant digits below 100.

    >>> rate(12_345.6), rate(0.25)
    ('12,346', '0.250')
    """
    return number(value_rps, 0) if value_rps == 0.0 or abs(value_rps) >= 99.5 else significant(value_rps)


def signed_percent(value: float) -> str:
    """With sign and three significant digits.

    >>> signed_percent(12.34), signed_percent(123.4)
    ('+12.3', '+123')
    """
    digits = max(1, _digits(value)) if abs(value) < 100 else 0
    text = number(value, min(digits, 2))
    return text if text.startswith(MINUS) else f"+{text}"


def interval_text(interval: Interval, scale: float = 1.0) -> str:
    """``mean ± half width``, or ``mean (low to high)`` where the ends are not equally far; digits that suit the mean."""
    scaled = interval.scaled(scale)
    digits = _digits(scaled.mean)
    ends = [number(end, digits) for end in (scaled.low, scaled.high)]
    if abs(scaled.low + scaled.high - 2.0 * scaled.mean) > 1e-6 * abs(scaled.mean):
        return f"{number(scaled.mean, digits)} ({ends[0]} to {ends[1]})"
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
