"""Open product-form networks: requests arrive at a given rate, visit stations, and leave.

Means are exact for Poisson arrivals and exponential service. The distribution of the whole response time is exact for a chain of stations
visited once, of which all but the first and the last have one server; elsewhere it takes the visits for independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from weir_lab.theory.queueing.errors import UnstableError
from weir_lab.theory.queueing.networks.closed import Kind, Station
from weir_lab.theory.queueing.single.inversion import tail_from_transform
from weir_lab.theory.queueing.single.stations import OpenStation, mmm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["OpenSolution", "ResponseTime", "chain_quantile_s", "solve_open"]


@dataclass(frozen=True)
class OpenSolution:
    """An open network in steady state; sequences run over ``stations``. Times in seconds, rates per second."""

    arrival_rate_per_s: float
    stations: tuple[Station, ...]
    utilization: tuple[float, ...]
    jobs: tuple[float, ...]
    response_time_per_visit_s: tuple[float, ...]
    residence_time_s: tuple[float, ...]

    @property
    def response_time_s(self) -> float:
        """Sum of the residence times."""
        return math.fsum(self.residence_time_s)

    @property
    def var_response_time_s2(self) -> float:
        """Sum over stations of V times the variance of a visit, for independent visits; delays are constant."""
        queues = (s for s in self.stations if s.kind is Kind.QUEUE and s.demand_s > 0.0)
        return math.fsum(s.visit_ratio * _at(s, self.arrival_rate_per_s).var_response_time_s2 for s in queues)

    def station(self, name: str) -> OpenStation:
        """One station alone, an M/M/m queue: its probabilities, variances and quantiles."""
        for one in self.stations:
            if one.name == name and one.kind is Kind.QUEUE and one.demand_s > 0.0:
                return _at(one, self.arrival_rate_per_s)
        raise ValueError(f"{name} is no station with a queue and a demand.")

    @property
    def bottleneck(self) -> Station:
        """The station with the highest utilization."""
        return self.stations[max(range(len(self.stations)), key=self.utilization.__getitem__)]

    def response_time_quantile_s(self, q: float) -> float:
        """The time that a share q of the requests stays below, by numerical inversion of the Laplace transform.

        A station's time per visit has the transform ((1-C) + C d/(d+s)) μ/(μ+s) with d = m μ - λ; visits multiply (powers for V). A delay
        is constant. Accurate to about 1e-7 in probability. Reference: Abate and Whitt, ORSA J. Computing 7 (1995), algorithm Euler.
        """
        if not 0.0 < q < 1.0:
            raise ValueError(f"A quantile lies between 0 and 1, not {q}.")
        constant = math.fsum(s.demand_s for s in self.stations if s.kind is Kind.DELAY)
        parts = [(s, _at(s, self.arrival_rate_per_s)) for s in self.stations if s.kind is Kind.QUEUE and s.demand_s > 0]
        if not parts:
            return constant
        return constant + chain_quantile_s([(s.visit_ratio, station) for s, station in parts], q)


class ResponseTime(Protocol):
    """A station's time per visit, as `chain_quantile_s` needs it."""

    @property
    def mean_response_time_s(self) -> float:
        """Mean."""

    def response_transform(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Laplace transform of the density."""


def chain_quantile_s(parts: Sequence[tuple[float, ResponseTime]], q: float) -> float:
    """Quantile of the sum of independent response times; each part is how often a station is visited, and the station.

    >>> round(chain_quantile_s([(1.0, mmm(300.0, 100.0, 4))], 0.99) / mmm(300.0, 100.0, 4).response_time_quantile_s(0.99), 6)
    1.0
    """
    if not parts or not 0.0 < q < 1.0:
        raise ValueError("A quantile of a chain needs a station and a share between 0 and 1.")
    low, high = 0.0, sum(visits * station.mean_response_time_s for visits, station in parts)
    while _tail(parts, high) > 1.0 - q:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _tail(parts, middle) > 1.0 - q else (low, middle)
    return high


def solve_open(stations: Sequence[Station], arrival_rate_per_s: float) -> OpenSolution:
    """Each station is M/M/m with the arrival rate V λ (Jackson). Raises `UnstableError` naming the stations that cannot keep up.

    >>> solution = solve_open([Station("a", 0.01, 16), Station("b", 0.02, 7), Station("c", 0.03, 8)], 3.0)
    >>> round(solution.response_time_s, 7)
    1.4062145
    """
    if not 0.0 < arrival_rate_per_s < math.inf:
        raise ValueError(f"An arrival rate is positive and finite, not {arrival_rate_per_s}.")
    if any(station.speedup is not None for station in stations):
        raise ValueError("Open networks know single and multi-server stations and delays, no speedups.")
    busy = [_utilization(station, arrival_rate_per_s) for station in stations]
    late = [f"{station.name} ({load:.4g})" for station, load in zip(stations, busy, strict=True) if load >= 1.0]
    if late:
        raise UnstableError(
            f"At {arrival_rate_per_s:g} requests/s the utilization reaches 1 at {', '.join(late)}: no steady state."
        )
    per_visit = tuple(
        _at(station, arrival_rate_per_s).mean_response_time_s
        if station.kind is Kind.QUEUE and station.demand_s > 0.0
        else station.service_time_s
        for station in stations
    )
    residence = tuple(station.visit_ratio * time for station, time in zip(stations, per_visit, strict=True))
    jobs = tuple(arrival_rate_per_s * time for time in residence)
    return OpenSolution(arrival_rate_per_s, tuple(stations), tuple(busy), jobs, per_visit, residence)


def _utilization(station: Station, rate: float) -> float:
    return rate * station.demand_s / station.servers if station.kind is Kind.QUEUE else 0.0


def _at(station: Station, rate: float) -> OpenStation:
    return mmm(rate * station.visit_ratio, 1.0 / station.service_time_s, station.servers)


def _tail(parts: Sequence[tuple[float, ResponseTime]], t: float) -> float:
    """P(response time > t) of a chain."""

    def transform(s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        product = np.ones_like(s)
        for visits, station in parts:
            product = product * station.response_transform(s) ** visits
        return product

    return tail_from_transform(transform, t)
