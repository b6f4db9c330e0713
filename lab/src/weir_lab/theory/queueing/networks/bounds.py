"""What can be said about a closed network without solving it: bounds on throughput and response time.

From loose to tight: asymptotic (any network), balanced-job, geometric (product form, single servers). All hold the exact solution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.queueing.networks.closed import Kind, Station

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Bounds", "asymptotic_bounds", "balanced_job_bounds", "geometric_bounds"]


@dataclass(frozen=True)
class Bounds:
    """Bounds for one population; requests per second and seconds. ``knee`` is N* = (D + Z) / largest D/m, where the asymptotes cross."""

    population: int
    throughput_low_per_s: float
    throughput_high_per_s: float
    response_time_low_s: float
    response_time_high_s: float
    knee: float


def asymptotic_bounds(stations: Sequence[Station], population: int) -> Bounds:
    """X <= min(1/D_max, N/(D+Z)) and X >= N/(N D + Z), D_max the largest demand per peak rate. Reference: Jain, section 33.6.

    The lower bound lets every request wait for all others everywhere. No assumption on distributions.

    >>> case = [Station("a", 9.2), Station("b", 8.0), Station("z", 120.0, kind=Kind.DELAY)]
    >>> round(asymptotic_bounds(case, 20).throughput_high_per_s, 6)
    0.108696
    """
    demand, think = _demands(stations)
    total = math.fsum(demand)
    largest = max(s.demand_s / s.peak_speedup for s in stations if s.kind is Kind.QUEUE)
    _population(population)
    high = min(1.0 / largest, population / (total + think))
    low = population / (population * total + think)
    return _bounds(population, low, high, think, (total + think) / largest)


def balanced_job_bounds(stations: Sequence[Station], population: int) -> Bounds:
    """Bounds from two balanced systems. Reference: Zahorjan et al. (1982), in the form of Lazowska et al., section 5.4.

    N/(Z + D + (N-1) D_max/(1 + Z/(N D))) <= X <= min(1/D_max, N/(Z + D + (N-1) D_mean/(1 + Z/D))).

    >>> case = [Station("a", 2.0), Station("b", 3.0), Station("c", 1.0), Station("z", 4.0, kind=Kind.DELAY)]
    >>> round(balanced_job_bounds(case, 5).response_time_high_s, 6)
    16.588235
    """
    demand, think = _demands(stations, single="Balanced-job bounds")
    total, largest, n = math.fsum(demand), max(demand), population
    _population(population)
    low = n / (think + total + (n - 1) * largest / (1.0 + think / (n * total)))
    balanced = n / (think + total + (n - 1) * (total / len(demand)) / (1.0 + think / total))
    return _bounds(n, low, min(1.0 / largest, balanced), think, (total + think) / largest)


def geometric_bounds(stations: Sequence[Station], population: int) -> Bounds:
    """Bounds from geometric estimates of the queues that are not the bottleneck; within a few percent for all N.

    Let Q_i be the queues at N-1, and b = Z + D + D_max (N-1) - sum (D_max - D_i) Q_i. The exact recursion gives X =
    2N / (b + sqrt(b^2 - 4 Z D_max n)): n = N and upper Q_i bound it above, n = N-1 and lower Q_i below. Queues are
    bounded by (y - y^(N+1)) / (1 - y) with y_i = D_i N / (Z + D + D_max N) from below and D_i times the
    proportional bound of X from above. Reference: Casale, Muntz and Serazzi, IEEE Trans. Computers 57 (2008).

    >>> case = [Station(str(i), d) for i, d in enumerate((0.1, 0.1, 0.09, 0.08))]
    >>> round(geometric_bounds(case, 10).throughput_high_per_s, 4)
    8.269
    """
    listed, think = _demands(stations, single="Geometric bounds")
    demand = np.asarray(listed)
    total, largest, n = math.fsum(listed), max(listed), population
    _population(population)
    others = demand[demand < largest]
    seen = n - 1
    lower = _geometric(others * seen / (think + total + largest * seen), seen)
    # Proportional bound on the throughput with N-1 (Hsieh and Lam 1987): queues at least in proportion to demands.
    spread = float((demand**2).sum()) / total
    ahead = seen / (think + total + (seen - 1) * spread / (1.0 + think / total)) if seen > 0 else 0.0
    upper = _geometric(others * min(1.0 / largest, ahead), seen)

    def root(queues: NDArray[np.float64], jobs: int) -> float:
        b = think + total + largest * seen - float((largest - others) @ queues)
        return 2.0 * n / (b + math.sqrt(max(0.0, b * b - 4.0 * think * largest * jobs)))

    return _bounds(n, root(lower, seen), min(1.0 / largest, root(upper, n)), think, (total + think) / largest)


def _geometric(y: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    queues: NDArray[np.float64] = (y - y ** (n + 1)) / (1.0 - y)
    return queues


def _demands(stations: Sequence[Station], single: str = "") -> tuple[list[float], float]:
    queues = [s for s in stations if s.kind is Kind.QUEUE and s.demand_s > 0.0]
    if not queues:
        raise ValueError("Bounds need a queue with a positive demand.")
    if single and any(s.peak_speedup != 1.0 or s.speedups().size != 1 for s in queues):
        raise ValueError(f"{single} are for single servers; use asymptotic bounds for multi-server stations.")
    return [s.demand_s for s in queues], math.fsum(s.demand_s for s in stations if s.kind is Kind.DELAY)


def _population(population: int) -> None:
    if population < 1:
        raise ValueError(f"A population is at least 1, not {population}.")


def _bounds(n: int, low: float, high: float, think: float, knee: float) -> Bounds:
    return Bounds(n, low, high, n / high - think, n / low - think, knee)
