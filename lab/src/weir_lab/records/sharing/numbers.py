"""Whole numbers as text, and histograms by them: short, readable by a few lines of any language, and easy to compress.

A number is written five bits at a time, the lowest first, in the 64 signs of base64; values below 32 end it, from 32 on more
follows. A histogram has two texts: steps without values before each step that has some, and how many it has, less one.

>>> text_of([0, 31, 32, 1000]), numbers_of("AfgBofA")
('AfgBof', [0, 31, 32, 1000, 0])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weir_lab.errors import RecordError
from weir_lab.theory.histogram import Bounds, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["histogram_of", "numbers_of", "plain_histogram", "text_of"]

_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {sign: value for value, sign in enumerate(_SIGNS)}
_MORE = 32
# Far above any histogram of ours; a damaged text must not ask for all memory.
_STEPS_MAX = 1 << 20


def text_of(numbers: Iterable[int]) -> str:
    """Numbers of at least 0 as text."""
    signs: list[str] = []
    for number in numbers:
        left = int(number)
        while left >= _MORE:
            signs.append(_SIGNS[left % _MORE + _MORE])
            left //= _MORE
        signs.append(_SIGNS[left])
    return "".join(signs)


def numbers_of(text: str) -> list[int]:
    """What `text_of` wrote."""
    found, value, shift = [], 0, 0
    for sign in text:
        part = _VALUES.get(sign)
        if part is None:
            raise RecordError(f"A kept record has the sign {sign!r} in a number. It is damaged: bring the file back.")
        value += (part % _MORE) << shift
        shift += 5
        if part < _MORE:
            found.append(value)
            value, shift = 0, 0
    if shift:
        raise RecordError("A kept record ends inside a number. It is damaged: bring the file back.")
    return found


def plain_histogram(histogram: Histogram) -> dict[str, Any]:
    """A histogram as two texts, with its bounds."""
    used = np.flatnonzero(histogram.counts)
    gaps = np.diff(used, prepend=-1) - 1
    bounds = histogram.bounds
    return {
        "bounds": [bounds.lowest, bounds.highest, bounds.digits],
        "gaps": text_of(gaps.tolist()),
        "counts": text_of((histogram.counts[used] - 1).tolist()),
    }


def histogram_of(plain: dict[str, Any]) -> Histogram:
    """The histogram that `plain_histogram` wrote."""
    gaps, counts = numbers_of(plain["gaps"]), numbers_of(plain["counts"])
    places = np.cumsum(np.array(gaps, dtype=np.int64) + 1) - 1
    if len(gaps) != len(counts) or (places.size and int(places[-1]) >= _STEPS_MAX):
        raise RecordError("A kept histogram has steps without counts, or too many. It is damaged: bring the file back.")
    filled = np.zeros(int(places[-1]) + 1 if places.size else 0, dtype=np.int64)
    filled[places] = np.array(counts, dtype=np.int64) + 1
    return Histogram(Bounds(*plain["bounds"]), filled)
