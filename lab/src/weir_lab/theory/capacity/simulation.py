"""Discrete-event simulation of what `capacity` and `queueing` compute: the check that formulas and approximations are put to.

``simulate_open``      tiers of units under Poisson arrivals, with replicated writes (any k of R), by Lindley's recursion unit by unit
``simulate_fork_join`` one tier whose units all get every request: the parts of a replicated write, much faster
``simulate_closed``    the same tiers under N clients that wait for each reply
``simulate_network``   a closed network of load-dependent stations, as a Markov chain of the numbers of jobs

Seeded by the caller. Results carry 99 % intervals over batch means: a formula that is exact lies inside in 99 of
100 runs. ciw, a general simulator, checks the same formulas in the tests where it fits. It knows neither forks nor
speeds that depend on the load.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.queueing import Kind
from weir_lab.theory.stats import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from weir_lab.theory.capacity.tiers import Tier
    from weir_lab.theory.queueing import Station

__all__ = ["Simulated", "simulate_closed", "simulate_fork_join", "simulate_network", "simulate_open"]

LEVEL = 0.99
# Batches of a run after the first tenth, which is left out: enough for a t interval, few enough to be nearly independent.
_BATCHES = 20
_WARMUP = 0.1


@dataclass(frozen=True)
class Simulated:
    """Throughput per second, mean response time and its percentiles in seconds, each with a 99 % interval over batches."""

    throughput_per_s: Interval
    mean_response_time_s: Interval
    percentiles_s: dict[float, Interval]


def simulate_open(
    tiers: Sequence[Tier],
    rate_per_s: float,
    requests: int,
    rng: np.random.Generator,
    delay_s: float = 0.0,
    percentiles: Sequence[float] = (50.0, 99.0),
) -> Simulated:
    """Poisson arrivals pass the tiers one after the other; every visit goes to a unit at random, a write to R neighbours of it."""
    _check(tiers, requests)
    arrivals = np.cumsum(rng.exponential(1.0 / rate_per_s, requests))
    now = arrivals.copy()
    for tier in tiers:
        for _ in range(int(tier.visits)):
            now = _through(tier, now, rng)
    times = now - arrivals + delay_s
    first = int(_WARMUP * requests)
    size = (requests - first) // _BATCHES
    batches = times[first : first + size * _BATCHES].reshape(_BATCHES, size)
    spans = arrivals[first + size - 1 :: size][:_BATCHES] - arrivals[first::size][:_BATCHES]
    return Simulated(
        mean_interval((size - 1) / spans, LEVEL),
        mean_interval(batches.mean(axis=1), LEVEL),
        {percent: _quantile(list(batches), percent / 100.0) for percent in percentiles},
    )


def _through(tier: Tier, arrivals: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Instants at which requests leave a tier, in the order of the requests."""
    free = [[0.0] * tier.servers for _ in range(tier.units)]
    size = arrivals.size
    firsts = rng.integers(0, tier.units, size).tolist()
    copies = np.where(rng.random(size) < tier.writes, tier.replicas, 1)
    work = iter(_services(tier, int(copies.sum()), rng).tolist())
    order = np.argsort(arrivals, kind="stable")
    left = np.empty(size)
    for index, at, first, parts in zip(
        order.tolist(), arrivals[order].tolist(), firsts, copies[order].tolist(), strict=True
    ):
        ends = []
        for part in range(parts):
            servers = free[(first + part) % tier.units]
            end = max(at, servers[0]) + next(work)
            heapq.heapreplace(servers, end)
            ends.append(end)
        left[index] = ends[0] if parts == 1 else sorted(ends)[tier.replicas_needed - 1]
    return left


def simulate_fork_join(
    rate_per_s: float, service_rate_per_s: float, servers: int, requests: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Response times of the parts, ascending in each row: column k-1 is when k of the servers have answered; the first tenth is left out.

    Lindley's recursion for each server at once: the wait is the sum of (service - gap) so far, less its lowest point.
    """
    if servers < 1 or requests < 100 * _BATCHES:
        raise ValueError(f"A fork-join simulation needs servers and at least {100 * _BATCHES} requests.")
    gaps = rng.exponential(1.0 / rate_per_s, requests)
    parts = np.empty((requests, servers))
    for server in range(servers):
        work = rng.exponential(1.0 / service_rate_per_s, requests)
        steps = np.concatenate(([0.0], np.cumsum(work[:-1] - gaps[1:])))
        parts[:, server] = steps - np.minimum.accumulate(np.minimum(steps, 0.0)) + work
    return np.sort(parts[int(_WARMUP * requests) :], axis=1)


def simulate_closed(
    tiers: Sequence[Tier], clients: int, delay_s: float, requests: int, rng: np.random.Generator
) -> Simulated:
    """N clients: an exponential delay, then the tiers in turn, then the next request; until `requests` are answered."""
    _check(tiers, requests)
    path = [tier for tier in tiers for _ in range(int(tier.visits))]
    places = [tiers.index(tier) for tier in path]
    world = _Closed(tiers, rng)
    stage, pending, started = [-1] * clients, [0] * clients, [0.0] * clients
    epoch = [0] * clients
    events: list[tuple[float, int, int, int, int, int]] = []
    delays: Iterator[float] = iter(())
    done_at, times = np.empty(requests), np.empty(requests)
    answered = serial = 0

    def think() -> float:
        nonlocal delays
        value = next(delays, None)
        if value is None:
            delays = iter(rng.exponential(delay_s, 4096).tolist())
            value = next(delays)
        return value

    def start(at: float, client: int) -> None:
        """Enter the next tier: one part, or R."""
        nonlocal serial
        tier, place = path[stage[client]], places[stage[client]]
        parts = tier.replicas if tier.replicas > 1 and rng.random() < tier.writes else 1
        pending[client] = tier.replicas_needed if parts > 1 else 1
        epoch[client] += 1
        first = int(rng.integers(tier.units)) if tier.units > 1 else 0
        for part in range(parts):
            unit = (first + part) % tier.units
            begun = world.enter(place, unit, (client, epoch[client]))
            if begun:
                serial += 1
                heapq.heappush(events, (at + world.service(place), serial, place, unit, client, epoch[client]))

    for client in range(clients):
        serial += 1
        heapq.heappush(events, (think() if delay_s > 0.0 else 0.0, serial, -1, 0, client, 0))
    while answered < requests:
        now, _, place, unit, client, visit = heapq.heappop(events)
        if place >= 0:
            waiting = world.leave(place, unit)
            if waiting is not None:
                serial += 1
                heapq.heappush(events, (now + world.service(place), serial, place, unit, *waiting))
            if visit != epoch[client] or pending[client] == 0:
                continue  # a part that nobody waits for any more
            pending[client] -= 1
            if pending[client]:
                continue
        else:
            started[client] = now
        stage[client] += 1
        if stage[client] < len(path):
            start(now, client)
            continue
        done_at[answered], times[answered] = now, now - started[client]
        answered += 1
        stage[client] = -1
        serial += 1
        heapq.heappush(events, (now + (think() if delay_s > 0.0 else 0.0), serial, -1, 0, client, 0))
    return _over_time(done_at, times)


class _Closed:
    """Queues and servers of all units."""

    def __init__(self, tiers: Sequence[Tier], rng: np.random.Generator) -> None:
        self._tiers, self._rng = tiers, rng
        self._busy = [[0] * tier.units for tier in tiers]
        self._queues: list[list[deque[tuple[int, int]]]] = [[deque() for _ in range(tier.units)] for tier in tiers]
        self._work = [iter(np.empty(0)) for _ in tiers]

    def service(self, place: int) -> float:
        """One service time of a tier."""
        value = next(self._work[place], None)
        if value is None:
            self._work[place] = iter(_services(self._tiers[place], 4096, self._rng))
            value = next(self._work[place])
        return float(value)

    def enter(self, place: int, unit: int, job: tuple[int, int]) -> bool:
        """Whether a server takes the job at once; else it waits."""
        if self._busy[place][unit] < self._tiers[place].servers:
            self._busy[place][unit] += 1
            return True
        self._queues[place][unit].append(job)
        return False

    def leave(self, place: int, unit: int) -> tuple[int, int] | None:
        """A server is free: the next job in its queue, or none."""
        if self._queues[place][unit]:
            return self._queues[place][unit].popleft()
        self._busy[place][unit] -= 1
        return None


def simulate_network(
    stations: Sequence[Station], population: int, steps: int, rng: np.random.Generator
) -> tuple[Interval, tuple[Interval, ...]]:
    """Throughput of a ring of exponential stations visited once each, and mean jobs at each: 99 % intervals over batches of steps.

    Jobs move one at a time at rate speedup(n) / S, or n / Z for delays: a Markov chain of their numbers, for any speedups.
    """
    tables = [_rates_of(station, population) for station in stations]
    counts = [population, *([0] * (len(stations) - 1))]
    first = int(_WARMUP * steps)
    size = (steps - first) // _BATCHES
    gaps, choices = rng.exponential(1.0, steps).tolist(), rng.random(steps).tolist()
    spent, cycles, jobs = np.zeros(_BATCHES), np.zeros(_BATCHES), np.zeros((_BATCHES, len(stations)))
    for step in range(first + size * _BATCHES):
        rates = [table[count] for table, count in zip(tables, counts, strict=True)]
        total = math.fsum(rates)
        gap = gaps[step] / total
        pick, mover = choices[step] * total, 0
        while mover < len(rates) - 1 and pick >= rates[mover]:
            pick -= rates[mover]
            mover += 1
        if step >= first:
            batch = (step - first) // size
            spent[batch] += gap
            jobs[batch] += np.multiply(counts, gap)
            cycles[batch] += mover == 0
        counts[mover] -= 1
        counts[(mover + 1) % len(counts)] += 1
    means = jobs / spent[:, None]
    return mean_interval(cycles / spent, LEVEL), tuple(mean_interval(means[:, i], LEVEL) for i in range(len(stations)))


def _rates_of(station: Station, population: int) -> list[float]:
    """Rate at which n = 0..N jobs leave."""
    n = np.arange(population + 1)
    if station.kind is Kind.DELAY:
        return [float(rate) for rate in n / station.service_time_s]
    speedups = np.concatenate(([0.0], station.speedups()))
    return [float(rate) for rate in speedups[np.minimum(n, speedups.size - 1)] / station.service_time_s]


def _over_time(done_at: NDArray[np.float64], times: NDArray[np.float64]) -> Simulated:
    """Batches of equal time after the first tenth."""
    edges = np.linspace(_WARMUP * done_at[-1], done_at[-1], _BATCHES + 1)
    where = np.searchsorted(done_at, edges)
    counted = np.diff(where) / np.diff(edges)
    parts = [times[low:high] for low, high in zip(where[:-1].tolist(), where[1:].tolist(), strict=True)]
    return Simulated(
        mean_interval(counted, LEVEL),
        mean_interval([float(part.mean()) for part in parts], LEVEL),
        {percent: _quantile(parts, percent / 100.0) for percent in (50.0, 99.0)},
    )


def _quantile(parts: Sequence[NDArray[np.float64]], q: float) -> Interval:
    """Of all times together, as wide as the spread of the batches says: a batch alone is short for a high percentile, and biased."""
    batches = mean_interval([float(np.quantile(part, q)) for part in parts], LEVEL)
    whole = float(np.quantile(np.concatenate(parts), q))
    return Interval(whole, whole - batches.half_width, whole + batches.half_width, batches.n, LEVEL)


def _services(tier: Tier, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if tier.service_cv2 == 0.0:
        return np.full(size, tier.service_time_s)
    return rng.gamma(1.0 / tier.service_cv2, tier.service_time_s * tier.service_cv2, size)


def _check(tiers: Sequence[Tier], requests: int) -> None:
    if not tiers or any(tier.visits != int(tier.visits) for tier in tiers):
        raise ValueError("A simulation needs tiers with whole numbers of visits.")
    if any(tier.replicas > tier.units for tier in tiers):
        raise ValueError("Replicas need as many units.")
    if requests < 100 * _BATCHES:
        raise ValueError(f"A simulation needs at least {100 * _BATCHES} requests.")
