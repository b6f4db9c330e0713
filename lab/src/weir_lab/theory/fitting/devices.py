"""A closed system as the devices that a request meets, fitted to some of its cells, and what it says of the others.

::

    clients ─▶ delay, devices outside ─▶ │ queue │ ─▶ workers, each held: [ delay, devices inside ] ─▶ clients

What a request takes of each device is counted: CPU time over its quota, bytes over a link's rate. Three numbers cannot be counted and are
fitted: the delays outside and inside beyond those that were built, and how far the fullest device is from its count (a quota is kept in
pieces). A device whose time is ``known`` (all bytes on the wire over the rate that was built) keeps it. The fit sees
the cells that it is given: throughputs and response times, and how long a request holds its worker at the fewest
clients. What a request waits for a worker while others are free (threads that wake up) is delay outside. CPU time per request changes with
the load, so a cell that was not seen has what its neighbours in population had.

Start with `fit_devices`; `twice_of` says what a device of twice the capacity would do. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.fitting.meeting import RESPONSE_PERCENT, THROUGHPUT_PERCENT
from weir_lab.theory.queueing import Crew, Kind, Station, solve_closed, solve_with_crew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "INSIDE",
    "OUTSIDE",
    "WORKERS",
    "Device",
    "Fitted",
    "SeenCell",
    "Solved",
    "System",
    "Twice",
    "fit_devices",
    "half_of",
    "twice_of",
    "with_capacity",
]

WORKERS = "workers"
"""The crew, where there is one."""
OUTSIDE, INSIDE = "delay outside", "delay inside"
"""Of a request that holds no worker, and of one that holds one: networks, kernels, turns of threads."""

# From this share of its time on a device is called full.
_FULL = 0.9
# A factor of the fullest device that is off by this much costs the fit as much as a prediction at its margin.
_FACTOR_DOUBT = 0.2
# Of logarithms of what is fitted: a nanosecond to a thousand seconds, and a factor of ten to either side.
_TIMES, _FACTORS = (-20.7, 6.9), (-2.3, 2.3)
_SHORTEST_S = 1e-9


@dataclass(frozen=True)
class Device:
    """Equal devices of one kind: ``count`` of them, each with ``servers`` and a queue of its own. Times in seconds.

    ``service_s`` is one visit's; a request makes ``visits`` to all of them together, one after the other to devices that take turns. Where
    it is at all of them at once (``together``: a write to each replica) the time of one counts, and ``visits`` is their number. ``inside``
    devices are visited while a worker is held. The time of a device that is ``known`` is not fitted.
    ``burst_s`` is how much time's worth a link that is a token bucket lets through at once after a pause: product form knows no such thing,
    a simulation with constant times does. Of devices that are its ``own`` a client always uses the same one, as that of its machine; of
    others any.
    ``quota`` is how many processors a machine may use that has a quota. Its time is kept in pieces: a lone request takes what it costs a
    whole processor, ``quota`` times ``service_s``. Only those that wait for each other are held back.
    """

    name: str
    service_s: float
    visits: float = 1.0
    count: int = 1
    servers: int = 1
    inside: bool = False
    together: bool = False
    known: bool = False
    own: bool = False
    burst_s: float = 0.0
    quota: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.service_s < math.inf or self.count < 1 or self.servers < 1 or not self.visits >= 0.0:
            raise ValueError(f"{self.name}: a device has a finite time, visits, and at least one server.")

    @property
    def visit_ratio(self) -> float:
        """Visits of a request to one of them."""
        return self.visits / self.count

    @property
    def demand_s(self) -> float:
        """What a request needs of one of them, D = V S."""
        return self.visit_ratio * self.service_s

    @property
    def capacity_per_s(self) -> float:
        """Requests per second at which all are full; infinite without a demand."""
        return self.servers / self.demand_s if self.demand_s > 0.0 else math.inf

    def stations(self) -> list[Station]:
        """As a network has them."""
        if self.together or self.count == 1:
            return [self._station(self.name)]
        return [self._station(f"{self.name} {number}") for number in range(1, self.count + 1)]

    @property
    def alone_s(self) -> float:
        """What a request takes of one of them where nobody else is there."""
        return self.demand_s * self.quota

    def _station(self, name: str) -> Station:
        if self.quota == 1.0 or self.servers > 1:
            return Station(name, self.service_s, self.visit_ratio, self.servers)
        # One request has one processor; more have what the quota is, and no more processors than they are.
        rates = (1.0, *(min(float(jobs), self.quota) for jobs in range(2, math.ceil(self.quota) + 2)))
        return Station(name, self.service_s * self.quota, self.visit_ratio, speedup=rates)


@dataclass(frozen=True)
class SeenCell:
    """What was measured of a cell: means over runs, per second and in seconds.

    ``held_s`` is how long a request holds one of ``workers``; both ``None`` where requests hold no worker. ``away_s`` is how long a client
    was away between a reply and its next request.
    """

    population: int
    throughput_per_s: float
    response_s: float
    devices: tuple[Device, ...]
    workers: int | None = None
    held_s: float | None = None

    @property
    def away_s(self) -> float:
        """N/X - R."""
        return self.population / self.throughput_per_s - self.response_s


@dataclass(frozen=True)
class Solved:
    """What a system does with N clients: rates per second, times in seconds; ``utilization`` and ``jobs`` by device and by `WORKERS`.

    ``jobs`` of several devices count all of them. ``crew_s`` is queue and service at the workers, ``queue_s`` the former.
    """

    population: int
    throughput_per_s: float
    response_s: float
    utilization: dict[str, float]
    jobs: dict[str, float]
    crew_s: float | None = None
    queue_s: float | None = None

    @property
    def held_s(self) -> float | None:
        """How long a request holds its worker."""
        return None if self.crew_s is None or self.queue_s is None else self.crew_s - self.queue_s

    @property
    def fullest(self) -> str:
        """The station that limits, or would first: workers are held by what is full behind them, so a full device comes before them.

        Empty where nothing has a queue.
        """
        devices = {name: share for name, share in self.utilization.items() if name != WORKERS}
        first = max(devices, key=lambda name: devices[name], default="")
        if first and devices[first] >= _FULL:
            return first
        return max(self.utilization, key=lambda name: self.utilization[name], default="")


@dataclass(frozen=True)
class System:
    """Devices, delays and workers with their numbers: everything that a prediction needs but the number of clients.

    Of both delays ``built_s`` are always the same (a delay device's); the rest differs from request to request.
    """

    devices: tuple[Device, ...]
    outside_s: float
    inside_s: float = 0.0
    away_s: float = 0.0
    workers: int | None = None
    built_s: tuple[float, float] = (0.0, 0.0)

    def device(self, name: str) -> Device:
        """One of them."""
        found = next((one for one in self.devices if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.devices)
            raise ValueError(f"{name} is no device of this system; there are {known}.")
        return found

    def solve(self, population: int, *, whole: bool = True) -> Solved:
        """Throughput, response time and stations with N clients; without ``whole`` jobs outside are left out, which is quicker."""
        held = [one for one in self.devices if one.inside and self.workers is not None]
        outside = [
            station for one in self.devices if one not in held and one.demand_s > 0.0 for station in one.stations()
        ]
        delay = self.outside_s + self.away_s + (self.inside_s if self.workers is None else 0.0)
        outside.append(Station(OUTSIDE, max(_SHORTEST_S, delay), kind=Kind.DELAY))
        use = {one.name: one.capacity_per_s for one in self.devices if one.demand_s > 0.0}
        if self.workers is None:
            solved = solve_closed(outside, population)
            x = float(solved.throughput_per_s[-1])
            jobs = {station.name: float(solved.jobs[place][-1]) for place, station in enumerate(outside)}
            return self._solved(population, x, jobs, {name: x / most for name, most in use.items()})
        inner = [station for one in held if one.demand_s > 0.0 for station in one.stations()]
        inner.append(Station(INSIDE, max(_SHORTEST_S, self.inside_s), kind=Kind.DELAY))
        crew = solve_with_crew(outside, Crew(self.workers, tuple(inner)), population, jobs_outside=whole)
        x = crew.throughput_per_s
        utilization = {name: x / most for name, most in use.items()} | {WORKERS: crew.busy_workers / self.workers}
        found = self._solved(population, x, crew.jobs, utilization)
        return replace(
            found,
            jobs=found.jobs | {WORKERS: crew.queued + crew.busy_workers},
            crew_s=crew.queue_time_s + crew.held_time_s,
            queue_s=crew.queue_time_s,
        )

    def _solved(self, population: int, x: float, jobs: dict[str, float], utilization: dict[str, float]) -> Solved:
        together = {one.name: sum(jobs.get(station.name, 0.0) for station in one.stations()) for one in self.devices}
        delays = {name: jobs[name] for name in (OUTSIDE, INSIDE) if name in jobs}
        # A lone request is not held back by a quota, so around the knee some per cent more than the quota would be served. No more than it
        # allows is, and who would be elsewhere waits there.
        fullest = min(self.devices, key=lambda one: one.capacity_per_s, default=None)
        if fullest is not None and x > fullest.capacity_per_s:
            share, x = fullest.capacity_per_s / x, fullest.capacity_per_s
            together[fullest.name] += (1.0 - share) * sum(delays.values())
            delays = {name: share * there for name, there in delays.items()}
            utilization = {name: share * used for name, used in utilization.items()}
        return Solved(population, x, population / x - self.away_s, utilization, together | delays)


@dataclass(frozen=True)
class Fitted:
    """A fit: delays in seconds, and ``factor``, the ``fitted`` device's time over what was counted.

    ``worst_seen`` is the largest error of a throughput or response time that the fit saw, in units of what a prediction may be off.
    """

    outside_s: float
    inside_s: float
    away_s: float
    fitted: str
    factor: float
    worst_seen: float
    cells: tuple[SeenCell, ...]
    built_s: tuple[float, float] = (0.0, 0.0)

    @property
    def shows_what_it_saw(self) -> bool:
        """Whether all that it was fitted to lies within the errors that a prediction may have."""
        return self.worst_seen <= 1.0

    def system(self, population: int, workers: int | None) -> System:
        """The system with this many clients and workers, by what was counted at the nearest populations that were seen."""
        return self._system(_between(self.cells, population), workers)

    def with_counts(self, cell: SeenCell) -> System:
        """The system with what was counted in this very cell: a prediction that has seen it, to find the reason of a miss."""
        return self._system(cell.devices, cell.workers)

    def _system(self, counted: Sequence[Device], workers: int | None) -> System:
        devices = tuple(
            replace(one, service_s=one.service_s * (self.factor if one.name == self.fitted else 1.0)) for one in counted
        )
        return System(devices, self.outside_s, self.inside_s, self.away_s, workers, self.built_s)

    def solve(self, population: int, workers: int | None) -> Solved:
        """What it says of a cell."""
        return self.system(population, workers).solve(population)


def fit_devices(cells: Sequence[SeenCell], built_s: tuple[float, float] = (0.0, 0.0)) -> Fitted:
    """Fit the delays and the fullest device's time to cells; they may differ in clients and in workers, not in their kinds of devices.

    Least squares of log errors of throughput and response time, in units of what a prediction may be off (5 % and 10 %). Where workers are
    held, the time at the fewest clients is fitted, too: it parts the delay inside from that outside. Needs two populations. ``built_s`` are
    the delays outside and inside that packets certainly have: what is fitted comes on top. Where no worker is held both are outside.
    """
    from scipy.optimize import least_squares  # slow to load, and most commands do not need it

    kinds = {(tuple(one.name for one in cell.devices), cell.workers is None) for cell in cells}
    if len({cell.population for cell in cells}) < 2 or len(kinds) != 1:
        raise ValueError("A fit needs cells of at least two populations that have the same devices.")
    ordered = sorted(cells, key=lambda cell: cell.population)
    light = ordered[0]
    heavy = max(ordered, key=lambda cell: cell.throughput_per_s)
    busiest = max(
        heavy.devices, key=lambda one: heavy.throughput_per_s / one.capacity_per_s, default=Device("", 0.0)
    )  # fmt: skip
    away = max(0.0, sum(cell.away_s for cell in ordered) / len(ordered))
    crew = light.held_s if light.workers is not None else None
    counted = sum(one.alone_s * (1 if one.together else one.count) for one in light.devices if not one.inside)
    held = sum(one.alone_s * (1 if one.together else one.count) for one in light.devices if one.inside)
    rest = light.response_s - counted - (crew if crew is not None else held)
    least = built_s if light.workers is not None else (sum(built_s), 0.0)
    starts = [max(0.05 * light.response_s, rest - least[0])]
    if light.workers is not None:
        within = (crew if crew is not None else 0.5 * light.response_s) - held
        starts.append(max(0.05 * light.response_s, within - least[1]))

    def made(parameters: NDArray[np.float64]) -> Fitted:
        times = np.exp(np.clip(parameters[:-1], *_TIMES))
        factor = 1.0 if busiest.known else math.exp(float(np.clip(parameters[-1], *_FACTORS)))
        inside = least[1] + float(times[1]) if times.size > 1 else 0.0
        return Fitted(least[0] + float(times[0]), inside, away, busiest.name, factor, 0.0, tuple(ordered), least)

    def errors(parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate((_errors(made(parameters)), [float(parameters[-1]) / _FACTOR_DOUBT]))

    begin = np.array([*np.log(starts), 0.0])
    found = least_squares(errors, begin, diff_step=np.full(begin.size, 1e-3), xtol=1e-5, ftol=1e-5, max_nfev=25)
    best = made(found.x)
    return replace(best, worst_seen=float(np.abs(_errors(best)).max()))


def _errors(fitted: Fitted) -> NDArray[np.float64]:
    """Of all that was seen, in units of what a prediction may be off."""
    found: list[float] = []
    for cell in fitted.cells:
        solved = fitted.system(cell.population, cell.workers).solve(cell.population, whole=False)
        found.append(math.log(solved.throughput_per_s / cell.throughput_per_s) * 100.0 / THROUGHPUT_PERCENT)
        found.append(
            math.log(max(_SHORTEST_S, solved.response_s) / cell.response_s) * 100.0 / RESPONSE_PERCENT
        )  # fmt: skip
        light = cell.population == fitted.cells[0].population
        if light and cell.held_s is not None and solved.held_s is not None:
            found.append(math.log(solved.held_s / cell.held_s) * 100.0 / RESPONSE_PERCENT)
    return np.array(found)


def _between(cells: Sequence[SeenCell], population: int) -> tuple[Device, ...]:
    """Devices with the times that were counted at this population, or on a straight line in logarithms between the nearest.

    The number of each is that of the next larger population: a few clients do not fill all machines.
    """
    sizes = sorted({cell.population for cell in cells})
    larger = next((size for size in sizes if size >= population), sizes[-1])
    alike = next(cell for cell in cells if cell.population == larger)
    found = []
    for place, device in enumerate(alike.devices):
        means = []
        for size in sizes:
            known = [cell.devices[place].service_s for cell in cells if cell.population == size]
            means.append(max(_SHORTEST_S, sum(known) / len(known)))
        service = math.exp(float(np.interp(math.log(population), np.log(sizes), np.log(means))))
        found.append(replace(device, service_s=service if max(means) > _SHORTEST_S else 0.0))
    return tuple(found)


@dataclass(frozen=True)
class Twice:
    """What a system does, and what it would do with another capacity of one station; rates per second, times in seconds."""

    station: str
    population: int
    throughput_per_s: float
    response_s: float
    throughput_then_per_s: float
    response_then_s: float
    fullest_then: str
    simulated: bool = False
    """By simulation with constant times; else by product form."""

    @property
    def throughput_percent(self) -> float:
        """Change of the throughput."""
        return 100.0 * (self.throughput_then_per_s / self.throughput_per_s - 1.0)

    @property
    def response_percent(self) -> float:
        """Change of the response time."""
        return 100.0 * (self.response_then_s / self.response_s - 1.0)


def twice_of(system: System, population: int, station: str) -> Twice:
    """With twice the capacity of a station: a device that takes half the time, or twice the workers.

    >>> link = System((Device("link", 0.001),), outside_s=0.002)
    >>> there = twice_of(link, 50, "link")
    >>> round(there.throughput_percent), round(there.response_percent), there.fullest_then
    (100, -50, 'link')
    """
    return _changed(system, population, station, 2.0)


def half_of(system: System, population: int, station: str) -> Twice:
    """With half the capacity of a station, rounded up to a whole worker."""
    return _changed(system, population, station, 0.5)


def with_capacity(system: System, station: str, times: float) -> System:
    """The system with another capacity of a station, rounded up to a whole worker."""
    if station == WORKERS:
        if system.workers is None:
            raise ValueError("This system has no workers, so there cannot be more of them.")
        return replace(system, workers=max(1, math.ceil(system.workers * times)))
    asked = system.device(station)
    # What a request costs stays; of a quota there is more.
    faster = replace(asked, service_s=asked.service_s / times, quota=asked.quota * times if asked.quota != 1.0 else 1.0)
    return replace(system, devices=tuple(faster if one is asked else one for one in system.devices))


def _changed(system: System, population: int, station: str, times: float) -> Twice:
    now, then = system.solve(population), with_capacity(system, station, times).solve(population)
    return Twice(
        station,
        population,
        now.throughput_per_s,
        now.response_s,
        then.throughput_per_s,
        then.response_s,
        then.fullest,
    )
