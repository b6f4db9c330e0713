"""A system of devices event by event: workers are held, queues are first come first served, times are exponential or constant.

The check that `devices` is put to, and what is asked where product form fails: of links that send replies of one size
waits are shorter than exponential times give. Devices that are asked all at once are one station here, too. Seeded by
the caller. Pure.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.fitting.meeting import RESPONSE_PERCENT, THROUGHPUT_PERCENT
from weir_lab.theory.stats import mean_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from weir_lab.theory.fitting.devices import Device, Fitted, System
    from weir_lab.theory.stats import Interval

__all__ = ["SimulatedSystem", "simulate_fitted", "simulate_system", "worst_simulated"]

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
    """A fitted system with this many clients and workers, where every visit to a device takes its mean. The seed follows from the cell."""
    system = fitted.system(population, workers)
    rng = np.random.default_rng([population, workers or 0])
    return simulate_system(system, population, requests, rng, [device.name for device in system.devices])


def worst_simulated(fitted: Fitted, requests: int) -> float:
    """The largest error of `simulate_fitted` where the fit saw throughput and response time, in units of what a prediction may be off."""
    errors = [0.0]
    for cell in fitted.cells:
        found = simulate_fitted(fitted, cell.population, cell.workers, requests)
        errors.append(abs(math.log(found.throughput_per_s.mean / cell.throughput_per_s)) * 100.0 / THROUGHPUT_PERCENT)
        if found.response_s > 0.0:
            errors.append(abs(math.log(found.response_s / cell.response_s)) * 100.0 / RESPONSE_PERCENT)
    return max(errors)


class _Place:
    """A queue with servers."""

    def __init__(self, servers: int) -> None:
        self.free = servers
        self.waiting: deque[int] = deque()


class _World:
    """Clients on their way: each has a step of the path, and the place that it is at."""

    def __init__(self, system: System, population: int, rng: np.random.Generator, constant: frozenset[str]) -> None:
        self._system, self._population, self._rng = system, population, rng
        used = [one for one in system.devices if one.demand_s > 0.0]
        crewed = system.workers is not None
        before = [one for one in used if not (one.inside and crewed)]
        behind = [one for one in used if one.inside and crewed]
        delay = system.outside_s + system.away_s + (0.0 if crewed else system.inside_s)
        # Steps: a delay, devices, and with a crew: its queue, devices, a delay, and the end of the crew's work.
        self._steps: list[Device | float | str] = [delay, *before]
        if crewed:
            self._steps += ["take", *behind, system.inside_s, "give"]
        self._places = {one.name: [_Place(one.servers) for _ in range(self._machines(one))] for one in used}
        self._crew = _Place(system.workers or 0)
        self._constant = constant
        self._draws: Iterator[float] = iter(())
        self._step, self._at = [0] * population, [0] * population
        self._asked, self._taken = [0.0] * population, [0.0] * population
        self._events: list[tuple[float, int, int]] = []
        self._serial = 0
        self._done: list[float] = []
        self._queued: list[float] = []
        self._held: list[float] = []

    def run(self, requests: int) -> SimulatedSystem:
        """All requests, and the means behind the warm-up."""
        for client in range(self._population):
            self._enter(0.0, client)
        while len(self._done) < requests:
            now, _, client = heapq.heappop(self._events)
            self._leave(now, client)
            self._next(now, client)
        first = int(_WARMUP * requests)
        done = np.array(self._done)
        edges = np.linspace(done[first], done[-1], _BATCHES + 1)
        x = mean_interval(np.diff(np.searchsorted(done, edges)) / np.diff(edges), _LEVEL)
        whole = (done.size - 1 - first) / float(done[-1] - done[first])
        queued, held = (float(np.mean(one[first:])) if len(one) > first else 0.0 for one in (self._queued, self._held))
        return SimulatedSystem(x, self._population / whole - self._system.away_s, queued, held)

    def _next(self, now: float, client: int) -> None:
        self._step[client] += 1
        if self._step[client] == len(self._steps):
            self._done.append(now)
            self._step[client] = 0
        self._enter(now, client)

    def _enter(self, now: float, client: int) -> None:
        """The client's step begins: wait in a queue, or be served."""
        step = self._steps[self._step[client]]
        if step == "take":
            self._asked[client] = now
            if self._crew.free:
                self._crew.free -= 1
                self._take(now, client)
            else:
                self._crew.waiting.append(client)
        elif step == "give":
            self._held.append(now - self._taken[client])
            if self._crew.waiting:
                self._take(now, self._crew.waiting.popleft())
            else:
                self._crew.free += 1
            self._next(now, client)
        elif isinstance(step, float):
            self._later(now + step * self._draw(), client)
        elif not isinstance(step, str):
            machines = self._places[step.name]
            self._at[client] = int(self._rng.integers(len(machines))) if len(machines) > 1 else 0
            place = machines[self._at[client]]
            if place.free:
                place.free -= 1
                self._later(now + self._service(step), client)
            else:
                place.waiting.append(client)

    def _take(self, now: float, client: int) -> None:
        """A worker takes a request from the queue."""
        self._queued.append(now - self._asked[client])
        self._taken[client] = now
        self._next(now, client)

    def _leave(self, now: float, client: int) -> None:
        """A device is free for the next that waits."""
        step = self._steps[self._step[client]]
        if isinstance(step, float | str):
            return
        place = self._places[step.name][self._at[client]]
        if place.waiting:
            self._later(now + self._service(step), place.waiting.popleft())
        else:
            place.free += 1

    def _service(self, device: Device) -> float:
        mean = device.service_s * (1.0 if device.together else device.visits)
        return mean if device.name in self._constant else mean * self._draw()

    def _later(self, at: float, client: int) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at, self._serial, client))

    def _draw(self) -> float:
        value = next(self._draws, None)
        if value is None:
            self._draws = iter(self._rng.exponential(1.0, 4096).tolist())
            value = next(self._draws)
        return float(value)

    @staticmethod
    def _machines(device: Device) -> int:
        return 1 if device.together else device.count
