"""How the requests are spread over the keys, as ``weir load --popularity`` has it: shares of the keys, and of the hottest one. Pure.

The hottest key matters for capacity because it lives on one unit: no number of units carries it but that one. Start with
`read_popularity`, then `hottest_share` (any number of keys) or `key_shares` (each key).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KEYS_MAX", "Form", "Popularity", "hottest_share", "key_shares", "read_popularity"]

KEYS_MAX = 10**12
# More are summed up by an integral (Euler and Maclaurin), whose error is far below a float's.
_SUMMED_MAX = 100_000
_EXPONENT_MAX = 10.0
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,12})?"


class Form(StrEnum):
    """Kinds of popularity."""

    UNIFORM = "uniform"
    SEQUENTIAL = "sequential"
    ZIPF = "zipf"
    GAUSSIAN = "gaussian"
    HOT = "hot"


@dataclass(frozen=True)
class Popularity:
    """A form and its numbers: the exponent; center and deviation as shares of the keys; share of the keys that are hot and of requests."""

    form: Form
    first: float = 0.0
    second: float = 0.0


_FORMS = {Form.UNIFORM: 0, Form.SEQUENTIAL: 0, Form.ZIPF: 1, Form.GAUSSIAN: 2, Form.HOT: 2}


def read_popularity(text: str) -> Popularity:
    """``uniform``, ``sequential``, ``zipf:EXPONENT``, ``gaussian:CENTER,DEVIATION`` or ``hot:KEYS,REQUESTS``; else `ValueError`.

    >>> read_popularity("zipf:0.99")
    Popularity(form=<Form.ZIPF: 'zipf'>, first=0.99, second=0.0)
    """
    name, _, rest = text.partition(":")
    numbers = [float(part) for part in rest.split(",") if re.fullmatch(_NUMBER, part)]
    if name not in _FORMS or len(numbers) != _FORMS[Form(name)] or len(numbers) != len(rest.split(",")) - (not rest):
        raise ValueError(
            f"{text!r} is not a popularity: use uniform, sequential, zipf:EXPONENT, gaussian:CENTER,DEVIATION or hot:KEYS,REQUESTS."
        )
    found = Popularity(Form(name), *numbers)
    if found.form is Form.ZIPF and found.first > _EXPONENT_MAX:
        raise ValueError(f"{text}: the exponent lies between 0 and {_EXPONENT_MAX:g}.")
    if found.form in (Form.GAUSSIAN, Form.HOT) and max(numbers) > 1.0:
        raise ValueError(f"{text}: both numbers are shares between 0 and 1.")
    if (found.form is Form.GAUSSIAN and found.second == 0.0) or (found.form is Form.HOT and found.first == 0.0):
        raise ValueError(f"{text}: the deviation and the share of the keys are above 0.")
    return found


def hottest_share(popularity: Popularity, keys: int) -> float:
    """Share of the requests that go to the most popular of `keys` keys.

    >>> round(hottest_share(read_popularity("zipf:1"), 1_000_000), 4)
    0.0695
    """
    if not 1 <= keys <= KEYS_MAX:
        raise ValueError(f"There are 1 to {KEYS_MAX:,} keys, not {keys:,}.")
    if popularity.form is Form.ZIPF:
        return 1.0 / _zipf_sum(popularity.first, keys)
    if popularity.form is Form.HOT:
        hot = _hot_keys(popularity, keys)
        if hot == keys:
            return 1.0 / keys
        return max(popularity.second / hot, (1.0 - popularity.second) / (keys - hot))
    if popularity.form is Form.GAUSSIAN:
        middle = min(keys - 1, int(popularity.first * keys))
        edges = np.array([max(0, middle - 1), middle, middle + 1, min(keys, middle + 2)]) / keys
        mass = np.diff(ndtr((edges - popularity.first) / popularity.second))
        return float(mass.max() / _inside(popularity))
    return 1.0 / keys


def key_shares(popularity: Popularity, keys: int) -> NDArray[np.float64]:
    """Share of the requests of each key, in the order in which ``weir load`` numbers them."""
    if not 1 <= keys <= 100_000_000:
        raise ValueError(f"Shares of 1 to 100,000,000 keys fit into memory, not of {keys:,}.")
    if popularity.form is Form.ZIPF:
        weights = np.arange(1, keys + 1, dtype=np.float64) ** -popularity.first
    elif popularity.form is Form.HOT:
        hot = _hot_keys(popularity, keys)
        weights = np.full(keys, popularity.second / hot)
        weights[hot:] = (1.0 - popularity.second) / max(1, keys - hot)
    elif popularity.form is Form.GAUSSIAN:
        weights = np.diff(ndtr((np.arange(keys + 1) / keys - popularity.first) / popularity.second))
    else:
        weights = np.ones(keys)
    return np.asarray(weights / weights.sum())


def _hot_keys(popularity: Popularity, keys: int) -> int:
    # Halves go up, as in the generator.
    return min(keys, max(1, math.floor(popularity.first * keys + 0.5)))


def _inside(popularity: Popularity) -> float:
    """Mass of the normal distribution between the first and the last key; what lies outside is drawn again."""
    return float(np.diff(ndtr((np.array([0.0, 1.0]) - popularity.first) / popularity.second))[0])


def _zipf_sum(exponent: float, keys: int) -> float:
    """1 + 2^-s + ... + keys^-s."""
    first = min(keys, _SUMMED_MAX)
    total = math.fsum((np.arange(1, first + 1, dtype=np.float64) ** -exponent).tolist())
    if keys == first:
        return total
    # Sum over first+1..keys by the trapezoidal rule's correction: integral + (f(b) - f(a))/2 + (f'(b) - f'(a))/12.
    low, high = float(first), float(keys)
    log = math.log(high / low)
    power = 1.0 - exponent
    area: float = low**power * (math.expm1(power * log) / power if abs(power) > 1e-9 else log)
    ends = (high**-exponent - low**-exponent) / 2.0
    slopes = -exponent * (high ** (-exponent - 1.0) - low ** (-exponent - 1.0)) / 12.0
    return float(total + area + ends + slopes)
