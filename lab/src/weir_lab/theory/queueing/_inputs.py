"""Input checks and a root finder that the stations share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SIZE_MAX", "check_rates", "check_share", "solve_tail"]

# Servers, places and clients that a model may ask for: 80 MB per array of probabilities.
SIZE_MAX = 10_000_000


def solve_tail(tail: Callable[[float], float], target: float, scale: float) -> float:
    """The t with tail(t) = target, for a falling tail: doubling, then bisection to the last bits."""
    low, high = 0.0, scale
    while tail(high) > target:
        low, high = high, 2.0 * high
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        low, high = (middle, high) if tail(middle) > target else (low, middle)


def check_rates(arrival: float, service: float, servers: int) -> None:
    """Refuse rates and servers that no station has."""
    if not (0.0 < arrival < math.inf and 0.0 < service < math.inf):
        raise ValueError(f"Rates are positive and finite, not λ = {arrival} and μ = {service}.")
    if not 1 <= servers <= SIZE_MAX:
        raise ValueError(f"A station has 1 to {SIZE_MAX} servers, not {servers}.")


def check_share(q: float) -> None:
    """Refuse a quantile that is none."""
    if not 0.0 < q < 1.0:
        raise ValueError(f"A quantile lies between 0 and 1, not {q}.")
