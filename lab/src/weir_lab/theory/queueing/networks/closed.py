"""Closed product-form networks: N requests circulate among stations and delays.

::

    ┌─▶ delay Z ─▶ station 1 ─▶ station 2 ─▶ ... ─┐      R = time in stations, X = N / (R + Z)
    └─────────────────────────────────────────────┘

`solve_closed` is exact. It convolves the stations' capacity functions in logarithms: only sums of positive terms, so neither overflow nor
cancellation. The textbook's load-dependent mean value analysis subtracts probabilities and returns *negative* throughputs for multi-server
stations near saturation; it is not here. `station_in_closed` looks into one station. `approximate_closed` takes a population of any size,
and says that it approximates.

References: Buzen, CACM 16 (1973); Reiser and Lavenberg, JACM 27 (1980); Casale, A note on stable flow-equivalent aggregation (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

from weir_lab.theory.queueing.networks.convolution import log_convolution
from weir_lab.theory.queueing.single.finite import FiniteStation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "ClosedSolution",
    "Kind",
    "Station",
    "approximate_closed",
    "jobs_in_closed",
    "solve_closed",
    "station_in_closed",
]

POPULATION_MAX = 100_000
SERVERS_MAX = 100_000


class Kind(StrEnum):
    """A queue in front of servers, or a delay where nobody waits (think time, network)."""

    QUEUE = "queue"
    DELAY = "delay"


@dataclass(frozen=True)
class Station:
    """A station as requests meet it. ``service_time_s`` is one server's time per visit, with one job there.

    ``speedup[n-1]`` is the rate with n jobs there relative to one, constant beyond the last; without it the station has ``servers`` equal
    servers, that is min(n, m).
    """

    name: str
    service_time_s: float
    visit_ratio: float = 1.0
    servers: int = 1
    kind: Kind = Kind.QUEUE
    speedup: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (0.0 <= self.service_time_s < math.inf and 0.0 <= self.visit_ratio < math.inf):
            raise ValueError(f"{self.name}: service time and visit ratio are finite and not negative.")
        if not 1 <= self.servers <= SERVERS_MAX:
            raise ValueError(f"{self.name}: a station has 1 to {SERVERS_MAX} servers, not {self.servers}.")
        if self.speedup is not None and (not self.speedup or min(self.speedup) <= 0.0 or self.servers != 1):
            raise ValueError(f"{self.name}: a speedup has positive entries, and stands in place of servers.")

    @property
    def demand_s(self) -> float:
        """D = V S: service that a request needs here in all its visits."""
        return self.visit_ratio * self.service_time_s

    @property
    def peak_speedup(self) -> float:
        """Rate with many jobs relative to one."""
        return float(self.servers) if self.speedup is None else self.speedup[-1]

    def speedups(self) -> NDArray[np.float64]:
        """Rate with 1, 2, ... jobs relative to one, up to where it stays constant."""
        return np.arange(1.0, self.servers + 1.0) if self.speedup is None else np.asarray(self.speedup)


@dataclass(frozen=True, eq=False)
class ClosedSolution:
    """A closed network for every population 1..N. Arrays run over ``population``; matrices have one row per station.

    ``response_time_s`` is the time outside delays, R = N/X - Z. ``jobs`` are mean numbers at each station, ``residence_time_s`` V times
    the time per visit, ``utilization`` the busy share of its peak rate (0 for delays).
    ``exact`` tells the product-form solution from an approximation.
    """

    stations: tuple[Station, ...]
    population: NDArray[np.int64]
    throughput_per_s: NDArray[np.float64]
    response_time_s: NDArray[np.float64]
    jobs: NDArray[np.float64]
    residence_time_s: NDArray[np.float64]
    utilization: NDArray[np.float64]
    exact: bool
    method: str

    @property
    def bottleneck(self) -> Station:
        """The queue with the largest demand per peak rate: it saturates first."""
        return max(_queues(self.stations), key=lambda station: station.demand_s / station.peak_speedup)


def solve_closed(stations: Sequence[Station], population: int) -> ClosedSolution:
    """Exact solution for all populations up to N by convolution in logarithms: X(n) = G(n-1) / G(n).

    A station's capacity function is f(k) = D^k / product of its speedups; behind the last speedup it is geometric, so a station with m
    servers costs a convolution with m terms, done in blocks (`convolution`), and a running sum. Delays are one: (Z1 + Z2)^k / k!.
    A population of 10,000 with three different stations of 100 servers takes 0.13 s on one core of 2.5 GHz; with one of 10,000 servers
    0.15 s (``lab/bench/models.py``).

    >>> disks = [Station("cpu", 0.125, 16), Station("disk a", 0.3, 10), Station("disk b", 0.2, 5)]
    >>> solution = solve_closed([*disks, Station("terminals", 4.0, kind=Kind.DELAY)], 20)
    >>> round(float(solution.throughput_per_s[-1]), 7), round(float(solution.response_time_s[-1]), 6)
    (0.3332465, 56.015632)
    """
    _check(stations, population)
    queues, think = _queues(stations), _delay(stations)
    unit = max((queue.demand_s / queue.peak_speedup for queue in queues), default=think)
    whole = _delay_capacity(think / unit, population)
    for queue in queues:
        whole = _convolved(whole, queue, unit, population)
    sizes = np.arange(1, population + 1)
    throughput = np.exp(whole[:-1] - whole[1:]) / unit
    jobs = np.zeros((len(stations), population))
    alike: dict[tuple[float, ...], NDArray[np.float64]] = {}
    for row, station in enumerate(stations):
        if station.kind is Kind.DELAY or station.demand_s == 0.0:
            jobs[row] = throughput * station.demand_s
        elif station.speedups().size == 1:
            jobs[row] = _single_server_jobs(throughput * station.demand_s)
        else:
            # Equal stations hold equal numbers of jobs; each different one needs the network without it.
            same = (station.demand_s, *station.speedups().tolist())
            if same not in alike:
                others = _delay_capacity(think / unit, population)
                for queue in queues:
                    if queue is not station:
                        others = _convolved(others, queue, unit, population)
                weighted = _convolved(others, station, unit, population, weighted=True)
                alike[same] = np.exp(weighted[1:] - whole[1:])
            jobs[row] = alike[same]
    return _solution(stations, sizes, throughput, jobs, exact=True, method="convolution in logarithms")


def station_in_closed(stations: Sequence[Station], population: int, name: str) -> FiniteStation:
    """Everything about one station of a closed network with N requests: probabilities, variances, waiting and response time quantiles.

    P(j jobs | N) = f(j) G_others(N-j) / G(N), and an arrival sees the network with N-1 requests (arrival theorem: Sevcik and Mitrani,
    Lavenberg and Reiser 1980/81). Times are per visit, and exact for exponential service, first come first served.

    >>> station = station_in_closed([Station("s", 0.25, servers=2), Station("z", 1.0, kind=Kind.DELAY)], 10, "s")
    >>> round(station.throughput_per_s * (station.mean_response_time_s + 1.0), 9)
    10.0
    """
    _check(stations, population)
    chosen = next((station for station in stations if station.name == name), None)
    if chosen is None or chosen.kind is Kind.DELAY or chosen.speedup is not None or chosen.demand_s == 0.0:
        known = [station.name for station in _queues(stations) if station.speedup is None]
        raise ValueError(f"{name} is no station with servers and a demand; there are {', '.join(known)}.")
    own, others, unit = _alone_and_others(stations, population, chosen)

    def marginal(size: int) -> tuple[NDArray[np.float64], float]:
        logs = own[: size + 1] + others[size::-1]
        whole = float(logsumexp(logs))
        return np.exp(logs - whole), whole

    (probabilities, now), (seen, before) = marginal(population), marginal(population - 1)
    throughput = chosen.visit_ratio * math.exp(before - now) / unit
    return FiniteStation(chosen.servers, 1.0 / chosen.service_time_s, throughput, 0.0, probabilities, seen)


def jobs_in_closed(stations: Sequence[Station], population: int, name: str) -> NDArray[np.float64]:
    """P(n jobs at one station), n = 0..N, of a closed network with N requests; the station may have a speedup.

    P(n) = f(n) G_others(N-n) / G(N), as in `station_in_closed`. The flow through the station is the mean of its rate.

    >>> pair = [Station("s", 1.0, speedup=(1.0, 1.5)), Station("z", 2.0, kind=Kind.DELAY)]
    >>> [round(float(one), 4) for one in jobs_in_closed(pair, 2, "s")]
    [0.4286, 0.4286, 0.1429]
    """
    _check(stations, population)
    chosen = next((station for station in _queues(stations) if station.name == name), None)
    if chosen is None:
        known = ", ".join(station.name for station in _queues(stations))
        raise ValueError(f"{name} is no station with a queue and a demand; there are {known}.")
    own, others, _ = _alone_and_others(stations, population, chosen)
    logs = own + others[::-1]
    return np.asarray(np.exp(logs - logsumexp(logs)))


def _alone_and_others(
    stations: Sequence[Station], population: int, chosen: Station
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Logarithms of the capacity of one station and of all others together, for 0..N jobs, and the unit of demands in them."""
    queues, think = _queues(stations), _delay(stations)
    unit = max(queue.demand_s / queue.peak_speedup for queue in queues)
    others = _delay_capacity(think / unit, population)
    for queue in queues:
        if queue is not chosen:
            others = _convolved(others, queue, unit, population)
    capacity, ratio = _capacity(chosen, unit, population)
    beyond = capacity[-1] + ratio * np.arange(1.0, population + 2.0 - capacity.size)
    return np.concatenate((capacity, beyond))[: population + 1], others, unit


def approximate_closed(stations: Sequence[Station], population: int, tolerance: float = 1e-10) -> ClosedSolution:
    """Bard and Schweitzer's fixed point for one population, with Seidmann's split of a multi-server station; not exact.

    An arrival is taken to see (n-1)/n of the mean queue. A station of m servers becomes one server of demand D/m and a delay of D(m-1)/m.
    Throughput is usually within 5 % for single servers and within 10 % for multi-servers near the knee. References: Schweitzer (1979);
    Seidmann, Schweitzer and Shalev-Oren (1987).

    >>> exact = solve_closed([Station("a", 1.0), Station("b", 0.5)], 10).throughput_per_s[-1]
    >>> abs(approximate_closed([Station("a", 1.0), Station("b", 0.5)], 10).throughput_per_s[-1] / exact - 1) < 0.05
    np.True_
    """
    _check(stations, population)
    if any(station.speedup is not None for station in stations):
        raise ValueError("The approximation knows single and multi-server stations; use solve_closed for a speedup.")
    demand = np.array([station.demand_s for station in stations])
    servers = np.array([station.servers if station.kind is Kind.QUEUE else 1 for station in stations], dtype=np.float64)
    queued = np.array([station.kind is Kind.QUEUE for station in stations])
    fast = np.where(queued, demand / servers, 0.0)
    fixed = demand - fast
    waiting = np.where(queued, population / max(1, int(queued.sum())), 0.0)
    throughput = 0.0
    # Converges linearly; the bound is far above what 1e-10 needs.
    for _ in range(100_000):
        residence = fast * (1.0 + waiting * (population - 1) / population)
        throughput = population / float((residence + fixed).sum())
        change = float(np.abs(throughput * residence - waiting).max())
        waiting = throughput * residence
        if change < tolerance * population:
            break
    jobs = (throughput * (residence + fixed))[:, None]
    sizes = np.array([population])
    method = "Bard-Schweitzer with Seidmann's multi-servers, approximate"
    return _solution(stations, sizes, np.array([throughput]), jobs, exact=False, method=method)


def _solution(
    stations: Sequence[Station],
    sizes: NDArray[np.int64],
    throughput: NDArray[np.float64],
    jobs: NDArray[np.float64],
    *,
    exact: bool,
    method: str,
) -> ClosedSolution:
    demand = np.array([station.demand_s for station in stations])[:, None]
    peak = np.array([math.inf if s.kind is Kind.DELAY else s.peak_speedup for s in stations])[:, None]
    return ClosedSolution(
        tuple(stations),
        sizes,
        throughput,
        sizes / throughput - _delay(stations),
        jobs,
        jobs / throughput,
        throughput * demand / peak,
        exact,
        method,
    )


def _single_server_jobs(utilization: NDArray[np.float64]) -> NDArray[np.float64]:
    """Q(n) = U(n) (1 + Q(n-1)), the arrival theorem for one server; all terms are positive."""
    jobs = np.empty_like(utilization)
    last = 0.0
    for index, busy in enumerate(utilization.tolist()):
        jobs[index] = last = busy * (1.0 + last)
    return jobs


def _delay_capacity(think: float, population: int) -> NDArray[np.float64]:
    """Logarithm of Z^n / n! for n = 0..N; without a delay only n = 0."""
    counts = np.arange(population + 1.0)
    if think == 0.0:
        return np.where(counts == 0.0, 0.0, -np.inf)
    return counts * math.log(think) - gammaln(counts + 1.0)


def _convolved(
    others: NDArray[np.float64], station: Station, unit: float, population: int, *, weighted: bool = False
) -> NDArray[np.float64]:
    """Logarithm of sum_k f(k) others(n-k), or of sum_k k f(k) others(n-k), for n = 0..N.

    With L speedups the terms k >= L form a geometric tail: T(n) = f(L) others(n-L) + r T(n-1), r = D / last speedup, solved as a running
    sum of T(n) / r^n.
    """
    if station.demand_s == 0.0:
        return np.full(population + 1, -np.inf) if weighted else others
    log_capacity, log_ratio = _capacity(station, unit, population)
    last = log_capacity.size - 1
    head = np.full(population + 1, -np.inf)
    head[last:] = log_capacity[last] + others[: population + 1 - last]
    tail = _geometric_sum(head, log_ratio)
    weights = log_capacity[:last]
    if weighted:
        # sum_k k f(k) others(n-k) over the tail: each step back adds one more T.
        grown = np.concatenate(([-np.inf], tail[:-1] + log_ratio))
        tail = _geometric_sum(np.logaddexp(head + math.log(last), grown), log_ratio)
        with np.errstate(divide="ignore"):
            weights = weights + np.log(np.arange(last))
    return np.asarray(np.logaddexp(log_convolution(weights, others), tail))


def _capacity(station: Station, unit: float, population: int) -> tuple[NDArray[np.float64], float]:
    """Logarithms of f(0..L) in units of `unit`, and of the ratio f(k+1) / f(k) from L on."""
    speedups = station.speedups()[:population]
    log_demand = math.log(station.demand_s / unit)
    return np.concatenate(([0.0], np.cumsum(log_demand - np.log(speedups)))), log_demand - math.log(speedups[-1])


def _geometric_sum(head: NDArray[np.float64], log_ratio: float) -> NDArray[np.float64]:
    """Logarithm of T(n) = head(n) + r T(n-1)."""
    slope = np.arange(head.size) * log_ratio
    return np.asarray(np.logaddexp.accumulate(head - slope) + slope)


def _queues(stations: Sequence[Station]) -> list[Station]:
    return [station for station in stations if station.kind is Kind.QUEUE and station.demand_s > 0.0]


def _delay(stations: Sequence[Station]) -> float:
    return sum(station.demand_s for station in stations if station.kind is Kind.DELAY)


def _check(stations: Sequence[Station], population: int) -> None:
    if not 1 <= population <= POPULATION_MAX:
        raise ValueError(f"A closed network has a population of 1 to {POPULATION_MAX}, not {population}.")
    if not any(station.demand_s > 0.0 for station in stations):
        raise ValueError("A closed network needs a station with a positive demand: otherwise nothing takes time.")
