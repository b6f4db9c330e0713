"""Path data of charts in few characters: tenths of a unit, steps from place to place, markers: `short`, `through`, `dot`, `marked`.

A page of a whole study has some ten thousand of them, and is to stay below 1 MB.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Place = tuple[float, float]

__all__ = ["box", "dot", "marked", "short", "strokes", "through", "whisker"]

# Tenths of a unit. A mark is seven units high, and stands before its interval.
_SEEN_MIN = 10


def short(value: float) -> str:
    """A coordinate with one digit behind the point, and none of the zeros that may be left out: ``12.3``, ``12``, ``-.5``."""
    return _text(_tenths(value))


def through(places: Iterable[Place]) -> str:
    """A line through places: the first as it is, each other by the step to it, which has fewer digits."""
    tenths = [(_tenths(x), _tenths(y)) for x, y in places]
    steps = [_pair(x - from_x, y - from_y) for (from_x, from_y), (x, y) in itertools.pairwise(tenths)]
    return f"M{_pair(*tenths[0])}" + (f"l{_listed(steps)}" if steps else "")


def dot(place: Place) -> str:
    """A stroke without length, which round caps make a dot."""
    return f"M{_pair(*map(_tenths, place))}h0"


def strokes(xs: Iterable[float], y: float, length: int) -> str:
    """Short lines down from one height, from left to right."""
    tenths = [_tenths(x) for x in xs]
    if not tenths:
        return ""
    steps = "".join(f"m{_text(x - before)}-{length}v{length}" for before, x in itertools.pairwise(tenths))
    return f"M{_text(tenths[0])} {short(y)}v{length}{steps}"


def whisker(x: float, top: float, bottom: float, *, ends_below: bool = True) -> str:
    """An interval: a line between two short ones; empty where it is so short that the mark before it hides all of it.

    One that is cut at the axis has no short line there.
    """
    high = _tenths(bottom) - _tenths(top)
    if abs(high) < _SEEN_MIN:
        return ""
    return f"M{_pair(_tenths(x - 3.0), _tenths(top))}h6m-3 0v{_text(high)}{'m-3 0h6' if ends_below else ''}"


def box(x: float, top: float, width: float, bottom: float) -> str:
    """A rectangle; empty where nothing of it would be seen."""
    high = _tenths(bottom) - _tenths(top)
    if high <= 0:
        return ""
    across = _text(_tenths(width))
    return f"M{_pair(_tenths(x), _tenths(top))}h{across}v{_text(high)}h-{across}z"


def marked(marker: str, place: Place) -> str:
    """The marker around a place."""
    across, up, rest = _MARKERS[marker]
    return f"M{_pair(_tenths(place[0] + across), _tenths(place[1] + up))}{rest}"


# From the place to where the pen is set down, and the rest of its way. A circle is an arc that all but closes.
_MARKERS = {
    "o": (0.0, -3.0, "a3 3 0 1 1-.1 0z"),
    "s": (-3.0, -3.0, "h6v6h-6z"),
    "D": (0.0, -4.0, "l4 4-4 4-4-4z"),
    "^": (0.0, -4.0, "l4 7h-8z"),
    "v": (0.0, 4.0, "l4-7h-8z"),
    "P": (-1.4, -4.0, "h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6v-2.8h2.6z"),
    "X": (-3.0, -3.0, "l6 6m0-6-6 6"),
    "*": (0.0, -4.4, "v8.8m-3.8-6.6 7.6 4.4m0-4.4-7.6 4.4"),
}


def _tenths(value: float) -> int:
    return round(10.0 * value)


def _text(tenths: int) -> str:
    sign, whole, rest = "-" if tenths < 0 else "", *divmod(abs(tenths), 10)
    return f"{sign}{whole or ''}.{rest}" if rest else f"{sign}{whole}"


def _pair(x: int, y: int) -> str:
    return _listed((_text(x), _text(y)))


def _listed(numbers: Iterable[str]) -> str:
    """With a space between two only where no sign parts them."""
    return " ".join(numbers).replace(" -", "-")
