"""A system of devices event by event: workers are held, queues are first come first served, times are exponential or constant.

The check that `devices` is put to, and what is asked where product form fails: of links that send replies of one size
waits are shorter than exponential times give. Devices that are asked all at once are one station here, too. Seeded by
the caller. Pure.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.fitting.devices import WORKERS, Twice, with_capacity
from weir_lab.theory.fitting.meeting import RESPONSE_PERCENT, THROUGHPUT_PERCENT
from weir_lab.theory.stats import mean_interval

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from weir_lab.theory.fitting.devices import Device, Fitted, Solved, System
    from weir_lab.theory.stats import Interval

__all__ = ["SimulatedSystem", "simulate_fitted", "simulate_system", "simulate_twice", "solved_by", "worst_simulated"]

_BATCHES = 20
_WARMUP = 0.1
_LEVEL = 0.99


@dataclass(frozen=True)
class SimulatedSystem:
    """Throughput per second with a 99 % interval over batches of equal time; times in seconds are means behind the warm-up.

    ``response_s`` is N/X less the clients' time away. ``queue_s`` and ``held_s`` are 0 without workers.
    """

    throughput_per_s: Interval
    response_s: float
    queue_s: float
    held_s: float


def simulate_system(
    system: System, population: int, requests: int, rng: np.random.Generator, constant: Collection[str] = ()
) -> SimulatedSystem:
    """Let N clients ask until this many requests are answered. Service of devices named in ``constant`` always takes its mean."""
    if requests < 100 * _BATCHES:
        raise ValueError(f"A simulation needs at least {100 * _BATCHES} requests.")
    return _World(system, population, rng, frozenset(constant)).run(requests)


def simulate_fitted(fitted: Fitted, population: int, workers: int | None, requests: int) -> SimulatedSystem:
    """A fitted system with this many clients and workers, where every visit to a device takes its mean, and a delay that was built its own.

    The seed follows from the cell.
    """
    return _with_constant_times(fitted.system(population, workers), population, requests)


# A report asks for the same cells several times: when it fits, when it predicts, and when it says why.
@lru_cache(maxsize=4096)
def _with_constant_times(system: System, population: int, requests: int) -> SimulatedSystem:
    rng = np.random.default_rng([population, system.workers or 0])
    return simulate_system(system, population, requests, rng, [device.name for device in system.devices])


def solved_by(found: SimulatedSystem, solved: Solved, workers: int | None) -> Solved:
    """What product form says of a system, with the rates and times that its simulation has; jobs at devices stay those of product form."""
    x = found.throughput_per_s.mean
    utilization = {name: share * x / solved.throughput_per_s for name, share in solved.utilization.items()}
    if workers is None:
        return replace(solved, throughput_per_s=x, response_s=found.response_s, utilization=utilization)
    crew = found.queue_s + found.held_s
    return replace(
        solved,
        throughput_per_s=x,
        response_s=found.response_s,
        utilization=utilization | {WORKERS: x * found.held_s / workers},
        jobs=solved.jobs | {WORKERS: x * crew},
        crew_s=crew,
        queue_s=found.queue_s,
    )


def simulate_twice(system: System, population: int, station: str, requests: int) -> Twice:
    """`twice_of` where product form fails: both systems event by event, where every visit to a device takes its mean."""
    now, then = (
        solved_by(_with_constant_times(one, population, requests), one.solve(population), one.workers)
        for one in (system, with_capacity(system, station, 2.0))
    )
    return Twice(
        station,
        population,
        now.throughput_per_s,
        now.response_s,
        then.throughput_per_s,
        then.response_s,
        then.fullest,
        simulated=True,
    )


def worst_simulated(fitted: Fitted, requests: int) -> float:
    """The largest error of `simulate_fitted` where the fit saw throughput and response time, in units of what a prediction may be off."""
    errors = [0.0]
    for cell in fitted.cells:
        found = simulate_fitted(fitted, cell.population, cell.workers, requests)
        errors.append(abs(math.log(found.throughput_per_s.mean / cell.throughput_per_s)) * 100.0 / THROUGHPUT_PERCENT)
        if found.response_s > 0.0:
            errors.append(abs(math.log(found.response_s / cell.response_s)) * 100.0 / RESPONSE_PERCENT)
    return max(errors)


class _Draws:
    """Exponential numbers of mean 1 and whole numbers below others, as the generator draws them one by one, in a tenth of the time.

    Exponential numbers are drawn many at once. Whole numbers are taken from raw words of PCG64 as `Generator.integers` takes them (Lemire,
    ACM TOMACS 29, 2019, on halves of words, the lower first); words that were drawn too early are given back before anything else is drawn.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        if not isinstance(rng.bit_generator, np.random.PCG64):
            raise ValueError("A simulation needs numpy's default generator: give it numpy.random.default_rng(SEED).")
        self._rng, self._bits = rng, rng.bit_generator
        self._exponential: list[float] = []
        self._halves: list[int] = []

    def exponential(self) -> float:
        """The next number of mean 1."""
        if not self._exponential:
            # Half a word that is left over stays; whole ones go back.
            ahead, begun = divmod(len(self._halves), 2)
            if ahead:
                self._bits.advance(-ahead)
                self._halves = self._halves[-1:] if begun else []
            self._exponential = self._rng.exponential(1.0, 4096).tolist()
            self._exponential.reverse()
        return self._exponential.pop()

    def below(self, count: int) -> int:
        """The next whole number below ``count``, each as likely as the others."""
        while True:
            if not self._halves:
                words = self._bits.random_raw(256)
                self._halves = np.stack([words & 0xFFFF_FFFF, words >> 32], axis=1).ravel()[::-1].tolist()
            scaled = self._halves.pop() * count
            rest = scaled & 0xFFFF_FFFF
            if rest >= count or rest >= (0x1_0000_0000 - count) % count:
                return scaled >> 32


# What a client does at a step of its path.
_AWAY, _DEVICE, _TAKE, _GIVE, _BUCKET = range(5)


@dataclass(frozen=True)
class _Step:
    """One step of the path: its mean time, whether that is constant, and the places of a device with their servers.

    ``least_s`` is always a part of a delay; what is beyond it has exponential times. A bucket lets ``burst_s`` of its time through at once.
    """

    kind: int
    mean_s: float = 0.0
    constant: bool = False
    places: tuple[int, ...] = ()
    own: bool = False
    burst_s: float = 0.0
    least_s: float = 0.0


class _World:
    """Clients on their way: each has a step of the path, and the place that it is at."""

    def __init__(self, system: System, population: int, rng: np.random.Generator, constant: frozenset[str]) -> None:
        self._system, self._population, self._draws = system, population, _Draws(rng)
        self._free: list[int] = []
        used = [one for one in system.devices if one.demand_s > 0.0]
        crewed = system.workers is not None
        before = [self._device(one, constant) for one in used if not (one.inside and crewed)]
        behind = [self._device(one, constant) for one in used if one.inside and crewed]
        delay = system.outside_s + system.away_s + (0.0 if crewed else system.inside_s)
        # A delay, devices, and with a crew: its queue, devices, a delay, and the end of the crew's work.
        outside, inside = system.built_s if crewed else (sum(system.built_s), 0.0)
        self._steps = [_Step(_AWAY, max(0.0, delay - outside), least_s=outside), *before]
        if crewed:
            kept = _Step(_AWAY, max(0.0, system.inside_s - inside), least_s=inside)
            self._steps += [_Step(_TAKE), *behind, kept, _Step(_GIVE)]

    def _device(self, device: Device, constant: frozenset[str]) -> _Step:
        machines = 1 if device.together else device.count
        places = tuple(range(len(self._free), len(self._free) + machines))
        self._free += [device.servers] * machines
        mean_s = device.service_s * (1.0 if device.together else device.visits)
        bucket = device.burst_s > 0.0 and device.name in constant
        return _Step(
            _BUCKET if bucket else _DEVICE, mean_s, device.name in constant, places, device.own, device.burst_s
        )

    def run(self, requests: int) -> SimulatedSystem:
        """All requests, and the means behind the warm-up."""
        done, queued, held = self._events(requests)
        first = int(_WARMUP * requests)
        edges = np.linspace(done[first], done[-1], _BATCHES + 1)
        x = mean_interval(np.diff(np.searchsorted(done, edges)) / np.diff(edges), _LEVEL)
        whole = (done.size - 1 - first) / float(done[-1] - done[first])
        queue_s, held_s = (float(np.mean(one[first:])) if len(one) > first else 0.0 for one in (queued, held))
        return SimulatedSystem(x, self._population / whole - self._system.away_s, queue_s, held_s)

    def _events(self, requests: int) -> tuple[NDArray[np.float64], list[float], list[float]]:
        """When each request was done, how long it waited for a worker, and how long it held one.

        One loop over local names, because a report asks for some millions of events.
        """
        steps, exponential, below = self._steps, self._draws.exponential, self._draws.below
        kinds, means = [one.kind for one in steps], [one.mean_s for one in steps]
        constant, places = [one.constant for one in steps], [one.places for one in steps]
        least, own = [one.least_s for one in steps], [one.own for one in steps]
        earned, bursts = [0.0] * len(self._free), [one.burst_s for one in steps]
        free, crew_free = list(self._free), self._system.workers or 0
        waiting: list[deque[int]] = [deque() for _ in free]
        crew_waiting: deque[int] = deque()
        step, at = [0] * self._population, [0] * self._population
        asked, taken = [0.0] * self._population, [0.0] * self._population
        done, queued, held = list[float](), list[float](), list[float]()
        # Of events at one instant, that comes first which was known first.
        events = [((least[0] + means[0]) * exponential(), serial, serial) for serial in range(self._population)]
        heapq.heapify(events)
        serial, last = self._population, len(steps)
        while len(done) < requests:
            now, _, client = heapq.heappop(events)
            here = step[client]
            if kinds[here] == _DEVICE:
                # The device is free for the next that waits.
                place = at[client]
                if waiting[place]:
                    later = now + (means[here] if constant[here] else means[here] * exponential())
                    heapq.heappush(events, (later, serial, waiting[place].popleft()))
                    serial += 1
                else:
                    free[place] += 1
            going = [client]
            while going:
                client = going.pop()
                here = step[client] + 1
                if here == last:
                    done.append(now)
                    here = 0
                step[client] = here
                kind = kinds[here]
                if kind in (_DEVICE, _BUCKET):
                    machines = places[here]
                    stays = own[here] or len(machines) == 1
                    place = machines[client % len(machines) if stays else below(len(machines))]
                    at[client] = place
                    if kind == _BUCKET:
                        # When all that was sent so far and this has its tokens, less those that a pause leaves.
                        earned[place] = max(earned[place], now) + means[here]
                        heapq.heappush(events, (max(now, earned[place] - bursts[here]), serial, client))
                        serial += 1
                    elif free[place]:
                        free[place] -= 1
                        later = now + (means[here] if constant[here] else means[here] * exponential())
                        heapq.heappush(events, (later, serial, client))
                        serial += 1
                    else:
                        waiting[place].append(client)
                elif kind == _AWAY:
                    heapq.heappush(events, (now + least[here] + means[here] * exponential(), serial, client))
                    serial += 1
                elif kind == _TAKE:
                    asked[client] = now
                    if crew_free:
                        crew_free -= 1
                        queued.append(0.0)
                        taken[client] = now
                        going.append(client)
                    else:
                        crew_waiting.append(client)
                else:
                    held.append(now - taken[client])
                    going.append(client)
                    if crew_waiting:
                        # Who waited for the worker goes on before who gave it back.
                        client = crew_waiting.popleft()
                        queued.append(now - asked[client])
                        taken[client] = now
                        going.append(client)
                    else:
                        crew_free += 1
        return np.array(done), queued, held
