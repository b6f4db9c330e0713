"""Kinds of networks that a hold-out tries: `forms` gives them, `fit` finds the parameters of one.

::

    N clients, each thinks for Z ──▶ delay D0 ──▶ one station, of one of these kinds ──┐
              ▲────────────────────────────────────────────────────────────────────────┘

D0 and the station's parameters are fitted to throughputs *and* response times, each in units of the error that it may have.

Two things that are no parameters may be known of a population. What processors spent per request (`Measured.cpu_s`)
gives the demands at that number of clients by the utilization law. For the proxies, or the servers where there are no
proxies, that is the service time of a station that is a processor. For each role it is the time of a request on its
way, with the queue there that its utilization makes. Demands fall with the number of clients, because threads that
find more work when they look sleep less often, and waking up is most of what a lone request costs. Where the
yardstick was read (`Measured.slowness`), times that processors decide are longer on a machine that was slower: by
slowness to a power that `exponent` reads off the repetitions of each population. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.fitting.meeting import RESPONSE_PERCENT, THROUGHPUT_PERCENT
from weir_lab.theory.queueing import Kind, Station, solve_closed, token_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "PROXY",
    "R_ERROR_MAX_PERCENT",
    "SERVERS",
    "X_ERROR_MAX_PERCENT",
    "Demands",
    "Form",
    "Known",
    "Measured",
    "Times",
    "exponent",
    "fit",
    "forms",
    "residuals",
]

PROXY, SERVERS = "proxy", "servers"
"""The roles whose processors may be the station: the proxies', or the servers' where there is no proxy."""
X_ERROR_MAX_PERCENT = THROUGHPUT_PERCENT
"""What a prediction of a throughput may be off."""
R_ERROR_MAX_PERCENT = RESPONSE_PERCENT
"""What a prediction of a mean response time may be off."""

# Phases of a token that comes evenly: c² = 1/4, so waits are 0.625 of exponential times', where constant ones have 0.5.
_EVEN = 4
# A longer burst than this is no queue that closed loops of some hundred clients could tell from none.
_BURST_MAX = 256.0
# Of parameters: a nanosecond, a thousand seconds or tokens.
_LOGS = (-20.7, 6.9)
# Repetitions that differ by less than this in slowness say nothing about what slowness does.
_SLOWNESS_SPREAD_MIN = 0.02
# Work that waits for memory slows down less than the yardstick; nothing slows down much more.
_EXPONENT_MAX = 1.5
# Of a processor outside the station: more would make it the bottleneck, which the station is.
_BUSY_MAX = 0.9
_ROUNDS = 3


@dataclass(frozen=True)
class Measured:
    """A population with throughput per second and mean response time in seconds of each of its runs.

    ``cpu_s`` is the CPU time that each role spent per request, ``slowness`` what the yardstick showed, in any unit, of each run; empty
    where they are not known.
    """

    population: int
    throughput_per_s: tuple[float, ...]
    response_s: tuple[float, ...]
    cpu_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    slowness: tuple[float, ...] = ()

    @property
    def x(self) -> float:
        """Mean throughput over runs."""
        return _mean(self.throughput_per_s)

    @property
    def r(self) -> float:
        """Mean response time over runs."""
        return _mean(self.response_s)

    @property
    def think_s(self) -> float:
        """N/X - R: how long a client was away between a reply and its next request.

        The mean over runs: of means over runs that differ in speed it would be too short.
        """
        return _mean([self.population / x - r for x, r in zip(self.throughput_per_s, self.response_s, strict=True)])


@dataclass(frozen=True)
class Known:
    """What is known of the populations that a form is fitted to, beside what it has to predict.

    ``exponent`` says what slowness does to times of processors, ``slowness`` is the mean of the fitted populations: 1 in what follows.
    """

    think_s: float
    exponent: float
    slowness: float
    demands: Mapping[str, Demands]
    """Of each role's processors; empty unless they are known at every population."""

    @staticmethod
    def of(kept: Sequence[Measured], think_s: float) -> Known:
        """From the populations that are kept."""
        power = exponent(kept)
        every = [value for one in kept for value in one.slowness]
        mean = _mean(every) if every else 1.0
        sizes = tuple(one.population for one in kept)
        roles = [role for role in kept[0].cpu_s if all(one.cpu_s.get(role) for one in kept)]
        demands = {
            role: Demands(sizes, tuple(_mean(one.cpu_s[role]) / _slowed(one, mean, power) for one in kept))
            for role in roles
        }
        return Known(think_s, power, mean, demands)

    @property
    def at_station(self) -> Demands | None:
        """Demands of the role whose processors may be the station; ``None`` where they are not known."""
        return self.demands.get(PROXY, self.demands.get(SERVERS))

    def slowed(self, one: Measured) -> float:
        """How many times longer processors took in the runs of a population than in the mean of those that were kept."""
        return _slowed(one, self.slowness, self.exponent)


@dataclass(frozen=True)
class Demands:
    """CPU time per request at some populations, on a machine of mean slowness."""

    populations: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, populations: Sequence[int]) -> NDArray[np.float64]:
        """Between those that are known on straight lines on logarithms, beyond them as at the last."""
        return np.exp(np.interp(np.log(populations), np.log(self.populations), np.log(self.seconds)))


if TYPE_CHECKING:
    _Array = NDArray[np.float64]
    # Populations, seconds away and service times of each, parameters of the station: throughputs and residence times.
    Solve = Callable[[Sequence[int], _Array, _Array, _Array], tuple[_Array, _Array]]


class Times(StrEnum):
    """Which times of a form come from the utilization law, and which are fitted, one for all populations."""

    FITTED = ""
    """All are fitted."""
    OUTSIDE = "outside it as much as processors worked"
    """The station's is fitted; outside it requests spend a multiple of what they cost processors."""
    PARTLY = "outside it partly as much as processors worked"
    """The same and a time of their own beside: links, timers, processors that wake up."""
    BOTH = "all by what processors worked"
    """The station, too: what the proxies (without any, the servers) spent per request, over a number of processors."""


@dataclass(frozen=True)
class Form:
    """A kind of network: its station, with names of its own parameters and where their search begins, and origin of service times."""

    station: str
    solve: Solve
    own: tuple[str, ...] = ()
    starts: tuple[tuple[float, ...], ...] = ((),)
    times: Times = Times.FITTED

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.station}; {self.times}" if self.times else self.station

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all that is fitted."""
        outside = "outside_s" if self.times is Times.FITTED else "outside_per_cpu"
        beside = ("outside_s",) if self.times is Times.PARTLY else ()
        return (outside, "processors" if self.times is Times.BOTH else "service_s", *self.own, *beside)

    def used(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """The parameters as the station takes them: no burst is longer than closed loops could tell from none."""
        at_most = np.array([_BURST_MAX if name == "burst" else math.inf for name in self.parameters])
        return np.asarray(np.minimum(parameters, at_most))

    def answers(
        self, points: Sequence[Measured], known: Known, parameters: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Throughputs and response times of some populations."""
        sizes = [one.population for one in points]
        slowed = np.array([known.slowed(one) for one in points])
        first, second, own = float(parameters[0]), float(parameters[1]), parameters[2 : 2 + len(self.own)]
        beside = float(parameters[-1]) if self.times is Times.PARTLY else 0.0
        service = np.full(len(sizes), second)
        if self.times is Times.BOTH and known.at_station is not None:
            service = slowed * known.at_station.at(sizes) / second
        if self.times is Times.FITTED:
            return self._solved(sizes, known, service, own, slowed * first)
        demands = [slowed * demand.at(sizes) for demand in known.demands.values()]
        # Queues outside depend on the throughput and it on them; they are short, so few rounds do.
        x = np.zeros(len(sizes))
        for _ in range(_ROUNDS):
            x, r = self._solved(sizes, known, service, own, beside + first * _path(demands, sizes, x))
        return x, r

    def _solved(
        self, sizes: Sequence[int], known: Known, service: _Array, own: _Array, outside: _Array
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        x, residence = self.solve(sizes, known.think_s + outside, service, own)
        return x, outside + residence

    def beginnings(self, kept: Sequence[Measured], known: Known) -> list[tuple[float, ...]]:
        """Where searches for the parameters begin."""
        light, service = kept[0].r, 1.0 / max(one.x for one in kept)
        outside = max(0.1 * light, light - service)
        if self.times is not Times.FITTED:
            outside /= sum(float(demand.at([kept[0].population])[0]) for demand in known.demands.values())
        if self.times is Times.BOTH and known.at_station is not None:
            # As many processors as were kept busy where the load was heaviest.
            busy = np.array([one.x * known.slowed(one) for one in kept])
            service = float((busy * known.at_station.at([one.population for one in kept])).max())
        if self.times is not Times.PARTLY:
            return [(outside, service, *own) for own in self.starts]
        # Half of the time outside is its own, at the lightest load.
        return [(outside / 2.0, service, *own, light / 2.0) for own in self.starts]


def forms(workers: int | None, known: Known) -> list[Form]:
    """All that can be tried with what is known; `workers` is how many a pool has, where there is one."""
    even = Form("one server, even times", partial(_bucket, phases=_EVEN))
    exponential = Form("one server, exponential times", partial(_bucket, phases=1))
    bucket = Form(
        "token bucket: nobody waits until its burst is used up", partial(_bucket, phases=_EVEN), ("burst",), ((0.5,), (3.0,), (30.0,))
    )  # fmt: skip
    batches = Form(
        "batches: n requests take n service times and a fixed number more", _batches, ("more",), ((0.1,), (1.0,))
    )
    several = [
        Form(f"{servers} servers, exponential times", partial(_servers, servers=servers))
        for servers in sorted({2, workers or 2} - {1})
    ]
    found = [exponential, even, batches, bucket, *several]
    if known.demands:
        found += [replace(form, times=times) for times in (Times.OUTSIDE, Times.PARTLY) for form in tuple(found)]
    if known.at_station is not None:
        found += [replace(form, times=Times.BOTH) for form in (exponential, even, bucket)]
    return found


def fit(
    form: Form, kept: Sequence[Measured], known: Known, near: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Parameters with the least squares of errors in units of what is allowed; the search begins at `near`, if that is known."""
    from scipy.optimize import least_squares  # slow to load, and most commands do not need it

    starts = [np.log(start) for start in form.beginnings(kept, known)]
    best: tuple[float, NDArray[np.float64]] | None = None

    def errors(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return residuals(form, kept, known, np.exp(np.clip(logs, *_LOGS)))

    for start in starts if near is None else [np.log(near)]:
        found = least_squares(
            errors, start, diff_step=np.full(start.size, 1e-3), xtol=1e-5, ftol=1e-5, max_nfev=20
        )  # fmt: skip
        if best is None or found.cost < best[0]:
            best = float(found.cost), form.used(np.exp(np.clip(found.x, *_LOGS)))
    assert best is not None, "every form has a start"
    return best[1]


def residuals(
    form: Form, points: Sequence[Measured], known: Known, parameters: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Errors of throughputs and response times, in units of what is allowed."""
    x, r = form.answers(points, known, parameters)
    off_x = np.log(x / np.array([one.x for one in points])) * 100.0 / X_ERROR_MAX_PERCENT
    off_r = np.log(r / np.array([one.r for one in points])) * 100.0 / R_ERROR_MAX_PERCENT
    return np.concatenate([off_x, off_r])


def exponent(kept: Sequence[Measured]) -> float:
    """What a machine's slowness does to CPU time per request: the slope on logarithms within populations, from 0 to 1.5.

    Populations differ in what a request costs, so only runs of the same population are compared. 0 where nothing is known of the
    machine, or it was always equally slow.
    """
    slow: list[float] = []
    cost: list[float] = []
    for one in kept:
        spent = [sum(roles) for roles in zip(*one.cpu_s.values(), strict=True)]
        if len(one.slowness) == len(spent) > 1:
            slow += (np.log(one.slowness) - np.mean(np.log(one.slowness))).tolist()
            cost += (np.log(spent) - np.mean(np.log(spent))).tolist()
    spread = sum(value * value for value in slow)
    if not slow or spread / len(slow) < _SLOWNESS_SPREAD_MIN**2:
        return 0.0
    slope: float = sum(a * b for a, b in zip(slow, cost, strict=True)) / spread
    return min(_EXPONENT_MAX, max(0.0, slope))


def _slowed(one: Measured, mean: float, power: float) -> float:
    return (_mean(one.slowness) / mean) ** power if one.slowness else 1.0


def _path(demands: Sequence[_Array], sizes: Sequence[int], x: _Array) -> _Array:
    """Time of a request at all processors, each with the queue that the other clients make there (Bard's approximation)."""
    others = 1.0 - 1.0 / np.asarray(sizes)
    times = np.zeros(len(sizes))
    for demand in demands:
        times += demand / (1.0 - np.minimum(_BUSY_MAX, x * demand * others))
    return times


def _bucket(sizes: Sequence[int], away: _Array, service: _Array, own: _Array, phases: int) -> tuple[_Array, _Array]:
    """Without a parameter of its own it has no burst, and is one server."""
    burst = min(float(own[0]), _BURST_MAX) if own.size else 0.0
    solved = token_bucket(sizes, away, service, burst, phases)
    return solved.throughput_per_s, solved.residence_time_s


def _servers(sizes: Sequence[int], away: _Array, service: _Array, own: _Array, servers: int) -> tuple[_Array, _Array]:
    # The service time is what a request costs at full load, so that all forms have the same beginning.
    assert own.size == 0
    return _each(sizes, away, [Station("servers", float(time) * servers, servers=servers) for time in service])


def _batches(sizes: Sequence[int], away: _Array, service: _Array, own: _Array) -> tuple[_Array, _Array]:
    stations, jobs = [], np.arange(1.0, max(sizes) + 1.0)
    for time in service.tolist():
        fixed = float(own[0]) * time
        rates = jobs / (fixed + time * jobs)
        stations.append(Station("batches", fixed + time, speedup=tuple((rates / rates[0]).tolist())))
    return _each(sizes, away, stations)


def _each(sizes: Sequence[int], away: _Array, stations: Sequence[Station]) -> tuple[_Array, _Array]:
    """Each population with its own delay and station."""
    delays = away.tolist()
    if len(set(delays)) == 1 and len({station.demand_s for station in stations}) == 1:
        # Solving for the largest gives all the others.
        solved = solve_closed([stations[0], Station("away", delays[0], kind=Kind.DELAY)], max(sizes))
        x = solved.throughput_per_s[np.asarray(sizes) - 1]
    else:
        x = np.array(
            [
                solve_closed([station, Station("away", delay, kind=Kind.DELAY)], size).throughput_per_s[-1]
                for size, delay, station in zip(sizes, delays, stations, strict=True)
            ]
        )
    return x, np.asarray(sizes) / x - away


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
