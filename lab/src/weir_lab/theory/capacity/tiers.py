"""What if: throughput and response times of a system that is not built yet, and how many units of each tier a load needs.

::

    requests λ ──▶ tier "proxy": 3 units, 4 servers each ──▶ tier "memcached": 8 units, 1 server each ──▶ network delay

A *unit* has a queue of its own (a proxy process, a memcached server, a link) and gets its share of the requests; its *servers* share that
queue (event loops, worker threads). Placement by hash does not balance queues, so units are queues side by side, not one large queue. The
busiest unit has the hottest key, which gets the share ``hottest`` of the requests whatever the number of units, and of the other requests
``imbalance`` times the mean share. All requests are taken to meet busiest units: the answer is on the safe side for placement. A share
``writes`` of the requests goes to R replicas at once and waits for ``needed`` of them (`TierResponse`).

`predict_open` answers for a rate, `predict_closed` for clients, `plan_capacity` for a limit on a percentile. Times known with an error
(``service_error_s``) give answers with intervals. Where a service varies more than an exponential one, percentiles hang on how it does:
they come with what several shapes give (`queueing.shapes`). The module `assumptions` says what an
answer rests on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.queueing import (
    GeneralStation,
    HyperexponentialStation,
    Kind,
    OpenStation,
    Station,
    UnstableError,
    approximate_closed,
    chain_quantile_s,
    mg1,
    mmm,
    replicated_write_response_time,
    shapes,
    solve_closed,
)
from weir_lab.theory.units import duration_text, percent_text, rate_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Answer",
    "ClosedPlan",
    "Plan",
    "Tier",
    "TierResponse",
    "plan_capacity",
    "predict_closed",
    "predict_open",
]

UNITS_MAX = 100_000
SERVERS_MAX = 10_000
# Closed networks of more units are approximated: an exact one convolves all of them.
EXACT_UNITS_MAX = 256


@dataclass(frozen=True)
class Answer:
    """A number with the interval that the errors of the tiers' times imply; ``low`` and ``high`` equal it where no error is known.

    ``high`` is infinite where the upper ends of the times leave no steady state.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Tier:
    """Equal units that requests visit ``visits`` times. ``service_time_s`` is one server's time per visit, ``service_cv2`` its variability.

    ``service_error_s`` is the half-width of a 95 % interval of the time. A share ``writes`` of the visits goes to ``replicas`` units in
    parallel and is answered when ``needed`` of them have (all by default). ``service_cv2`` other than 1 (exponential) is for one server.
    ``hottest`` is the share of the requests that one key gets; 0 where keys do not decide about units, or none is hot.
    """

    name: str
    service_time_s: float
    servers: int = 1
    visits: float = 1.0
    units: int = 1
    imbalance: float = 1.0
    service_error_s: float = 0.0
    service_cv2: float = 1.0
    replicas: int = 1
    needed: int | None = None
    writes: float = 0.0
    hottest: float = 0.0

    def __post_init__(self) -> None:
        times = 0.0 < self.service_time_s < math.inf and 0.0 < self.visits < math.inf
        if (
            not times
            or not 1 <= self.servers <= SERVERS_MAX
            or not 1 <= self.units <= UNITS_MAX
            or not 1.0 <= self.imbalance < math.inf
        ):
            raise ValueError(
                f"Tier {self.name}: service time and visits are positive, servers 1 to {SERVERS_MAX}, "
                f"units 1 to {UNITS_MAX}, imbalance at least 1."
            )
        if not 0.0 <= self.service_error_s < self.service_time_s:
            raise ValueError(f"Tier {self.name}: the error of a time is at least 0 and less than the time.")
        if self.service_cv2 != 1.0 and self.servers > 1:
            raise ValueError(f"Tier {self.name}: a variability other than 1 is for units of one server.")
        if not 1 <= self.replicas_needed <= self.replicas or not 0.0 <= self.writes <= 1.0:
            raise ValueError(f"Tier {self.name}: 1 <= needed <= replicas, and writes is a share.")
        if not 0.0 <= self.hottest <= 1.0:
            raise ValueError(f"Tier {self.name}: the hottest key gets a share of the requests, 0 to 1.")

    @property
    def replicas_needed(self) -> int:
        """Replies that a write waits for."""
        return self.replicas if self.needed is None else self.needed

    @property
    def visits_with_copies(self) -> float:
        """Visits per request with every copy of a write counted."""
        return self.visits * (1.0 - self.writes + self.writes * self.replicas)

    def utilization(self, rate_per_s: float) -> float:
        """Share of time that a server of the busiest unit is busy."""
        return rate_per_s * self._visits_of_busiest * self.service_time_s / self.servers

    def utilization_by_hottest(self, rate_per_s: float) -> float:
        """What of it the hottest key alone brings, which no further unit takes away."""
        return rate_per_s * self.visits * self.hottest * self.service_time_s / self.servers

    def busiest(self, rate_per_s: float) -> OpenStation | GeneralStation:
        """The busiest unit at a rate of requests."""
        arrivals = rate_per_s * self._visits_of_busiest
        if self.service_cv2 != 1.0:
            return mg1(arrivals, self.service_time_s, self.service_cv2)
        return mmm(arrivals, 1.0 / self.service_time_s, self.servers)

    def shapes(self, rate_per_s: float) -> list[TierResponse]:
        """Time of one visit for each shape of service of this mean and variability; one where percentiles do not hang on it."""
        usual = self.response(rate_per_s)
        if self.service_cv2 <= 1.0:
            return [usual]
        found = shapes(rate_per_s * self._visits_of_busiest, self.service_time_s, self.service_cv2)
        return [replace(usual, station=station) for station in found]

    def response(self, rate_per_s: float) -> TierResponse:
        """Time of one visit at a rate of requests, reads and writes together."""
        if self.replicas > self.units:
            raise ValueError(
                f"Tier {self.name}: {self.replicas} replicas need as many units, and there are {self.units}."
            )
        station = self.busiest(rate_per_s)
        return TierResponse(station, self.writes if self.replicas > 1 else 0.0, self.replicas, self.replicas_needed)

    @property
    def _visits_of_busiest(self) -> float:
        """Visits per request that the busiest unit gets: those of the hottest key, of which it has one copy, and its part of the others."""
        others = self.visits_with_copies * min(1.0, self.imbalance / self.units)
        return self.visits * self.hottest + (1.0 - self.hottest) * others


@dataclass(frozen=True)
class TierResponse:
    """Time of one visit: a read's at one unit, or a write's at ``replicas`` units until ``needed`` have answered.

    The mean of a write is fork-join's where that is known (one exponential server), else that of independent parts.
    Its distribution is that of the k-th of R independent exponential times. Where all must answer, these have their
    own mean, and high percentiles are right within a few percent. Where fewer must, they are scaled to the mean of
    the write. docs/measure/queueing.md has the errors against simulation.
    """

    station: OpenStation | GeneralStation | HyperexponentialStation
    writes: float
    replicas: int
    needed: int

    @property
    def slowest_mean_s(self) -> float:
        """Mean time until enough replicas have answered."""
        one = self.station
        if isinstance(one, OpenStation) and one.servers == 1:
            rates = one.arrival_rate_per_s, one.service_rate_per_s
            return replicated_write_response_time(*rates, self.replicas, self.needed).mean_s
        return one.mean_response_time_s * self._spread

    @property
    def mean_response_time_s(self) -> float:
        """Over reads and writes."""
        if self.writes == 0.0:
            return self.station.mean_response_time_s
        return (1.0 - self.writes) * self.station.mean_response_time_s + self.writes * self.slowest_mean_s

    def response_transform(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Laplace transform of its density."""
        read = self.station.response_transform(s)
        if self.writes == 0.0:
            return read
        everyone = self.needed == self.replicas
        rate = 1.0 / self.station.mean_response_time_s if everyone else self._spread / self.slowest_mean_s
        write = np.ones_like(s)
        for j in range(self.replicas - self.needed + 1, self.replicas + 1):
            write = write * (j * rate) / (j * rate + s)
        return (1.0 - self.writes) * read + self.writes * write

    @property
    def _spread(self) -> float:
        """1/(R-k+1) + ... + 1/R: mean of the k-th of R independent exponential times of mean 1."""
        return math.fsum(1.0 / j for j in range(self.replicas - self.needed + 1, self.replicas + 1))


@dataclass(frozen=True)
class Plan:
    """A system under an open load. Times in seconds; ``utilization`` is that of each tier's busiest unit.

    ``mean`` and ``percentiles`` are the same answers with their intervals. ``shapes`` are the smallest and the largest percentile that
    any shape of the tiers' service times gives; empty where they do not hang on it (no tier varies more than exponentially).
    """

    tiers: tuple[Tier, ...]
    rate_per_s: float
    delay_s: float
    utilization: tuple[float, ...]
    mean_response_time_s: float
    percentiles_s: dict[float, float]
    mean: Answer
    percentiles: dict[float, Answer]
    shapes: dict[float, tuple[float, float]]

    @property
    def bottleneck(self) -> Tier:
        """The tier with the highest utilization."""
        return self.tiers[max(range(len(self.tiers)), key=self.utilization.__getitem__)]


@dataclass(frozen=True)
class ClosedPlan:
    """A system under N clients that wait for each reply; ``response_time`` is the time in the tiers. Per second and seconds."""

    clients: int
    throughput: Answer
    response_time: Answer
    utilization: tuple[float, ...]
    method: str


def predict_open(
    tiers: Sequence[Tier], rate_per_s: float, delay_s: float = 0.0, percentiles: Sequence[float] = (50.0, 99.0, 99.9)
) -> Plan:
    """Response times at a rate of requests; `UnstableError` names the tiers that cannot keep up.

    >>> plan = predict_open([Tier("proxy", 10e-6, servers=2), Tier("memcached", 20e-6, units=4)], 100_000.0)
    >>> plan.bottleneck.name, [round(load, 3) for load in plan.utilization]
    ('proxy', [0.5, 0.5])
    """
    if not tiers or not 0.0 < rate_per_s < math.inf or not 0.0 <= delay_s < math.inf:
        raise ValueError("A prediction needs tiers, a positive rate and a delay of at least 0.")
    busy = [tier.utilization(rate_per_s) for tier in tiers]
    late = [
        f"{tier.name} would be {percent_text(load)} busy" for tier, load in zip(tiers, busy, strict=True) if load >= 1.0
    ]
    if late:
        raise UnstableError(
            f"At {rate_text(rate_per_s)} no steady state: {', '.join(late)}. Add units, or shorten the service."
            + "".join(_hopeless(tier, rate_per_s) for tier in tiers)
        )

    def times(system: Sequence[Tier]) -> list[float]:
        stations = [(tier.visits, tier.response(rate_per_s)) for tier in system]
        mean = math.fsum(visits * station.mean_response_time_s for visits, station in stations)
        return [delay_s + mean, *(delay_s + chain_quantile_s(stations, percent / 100.0) for percent in percentiles)]

    mean, *quantiles = _with_intervals(tiers, times)
    known = dict(zip(percentiles, quantiles, strict=True))
    values = {percent: answer.value for percent, answer in known.items()}
    spread = {percent: _over_shapes(tiers, rate_per_s, percent, delay_s) for percent in percentiles}
    known_shapes = {percent: ends for percent, ends in spread.items() if ends is not None}
    return Plan(tuple(tiers), rate_per_s, delay_s, tuple(busy), mean.value, values, mean, known, known_shapes)


def predict_closed(tiers: Sequence[Tier], clients: int, delay_s: float = 0.0) -> ClosedPlan:
    """Throughput and response time with N clients that spend `delay_s` between a reply and the next request.

    Without replicated writes exact for exponential service (product form; beyond 256 units Bard and Schweitzer's
    approximation), also where one unit has the hottest key. A write to R replicas is R jobs at once. So the network
    is solved for a number of jobs N' >= N. At that number the requests are N, each counted once for the time until
    enough replicas have answered. ``imbalance`` and ``service_cv2`` are for open loads.

    >>> plan = predict_closed([Tier("proxy", 10e-6, servers=2), Tier("memcached", 20e-6, units=4)], 64, 100e-6)
    >>> round(plan.throughput.value), round(plan.utilization[0], 3)
    (183601, 0.918)
    """
    if not tiers or clients < 1 or not 0.0 <= delay_s < math.inf:
        raise ValueError("A prediction needs tiers, at least 1 client and a delay of at least 0.")
    if any(tier.imbalance != 1.0 or tier.service_cv2 != 1.0 for tier in tiers):
        raise ValueError("A closed load knows neither imbalance nor variability of tiers; give a rate instead.")
    if any(tier.hottest > 0.0 and tier.writes > 0.0 and tier.replicas > 1 for tier in tiers):
        raise ValueError("A closed load knows the hottest key only where writes go to one unit; give a rate instead.")
    if any(tier.replicas > tier.units for tier in tiers):
        raise ValueError("Replicas need as many units.")
    throughput, response = _with_intervals(tiers, lambda system: list(_closed(system, clients, delay_s)[:2]))
    method = _closed(tiers, clients, delay_s)[2]
    busy = tuple(tier.utilization(throughput.value) for tier in tiers)
    return ClosedPlan(clients, throughput, response, busy, method)


def plan_capacity(
    tiers: Sequence[Tier],
    rate_per_s: float,
    percentile: float,
    limit_s: float,
    delay_s: float = 0.0,
    load_max: float = 0.8,
    *,
    worst_shape: bool = False,
) -> Plan:
    """Units of each tier so that the percentile stays within a limit, and no unit is busier than `load_max`.

    With ``worst_shape`` it does so whatever the shape of the service times, as far as `queueing.shapes` has them.

    Starts from the fewest units that `load_max` allows, then adds to the tier whose next tenth of units (at least one) lowers the
    percentile most. The result cannot spare a unit in any tier. The limit must exceed what an idle system takes.

    >>> plan = plan_capacity([Tier("proxy", 10e-6), Tier("memcached", 20e-6)], 1e6, 99.0, 200e-6)
    >>> [tier.units for tier in plan.tiers], plan.percentiles_s[99.0] <= 200e-6
    ([16, 51], True)
    """
    if not 0.0 < load_max < 1.0 or not 0.0 < percentile < 100.0:
        raise ValueError("The largest utilization lies between 0 and 1, and a percentile between 0 and 100.")

    def reached(candidate: Sequence[Tier]) -> float:
        ends = _over_shapes(candidate, rate_per_s, percentile, delay_s) if worst_shape else None
        if ends is not None:
            return ends[1]
        stations = [(tier.visits, tier.response(rate_per_s)) for tier in candidate]
        return delay_s + chain_quantile_s(stations, percentile / 100.0)

    for tier in tiers:
        if tier.utilization_by_hottest(rate_per_s) > load_max:
            raise ValueError(f"No number of units will do.{_hopeless(tier, rate_per_s, load_max)}")
    idle = [replace(tier, units=UNITS_MAX, imbalance=1.0) for tier in tiers]
    busy = [tier.name for tier in idle if tier.utilization(rate_per_s) >= 1.0]
    best = math.inf if busy else reached(idle)
    if best > limit_s:
        raise ValueError(
            f"Even with {UNITS_MAX:,} units of each tier the {percentile:g}th percentile is {duration_text(best)}, above the limit of "
            f"{duration_text(limit_s)}: shorten service times or the delay"
            + (", or spread the hottest key." if any(tier.hottest for tier in tiers) else ".")
        )
    least = [_with_units(tier, _least_units(tier, rate_per_s, load_max)) for tier in tiers]
    chosen = list(least)
    while reached(chosen) > limit_s:
        options = []
        for index, tier in enumerate(chosen):
            more = [*chosen]
            more[index] = _with_units(tier, tier.units + max(1, tier.units // 10))
            options.append((reached(more), index, more))
        chosen = min(options)[2]
    for index, tier in enumerate(chosen):
        chosen[index] = _fewest(chosen, index, least[index].units, tier.units, lambda c: reached(c) <= limit_s)
    return predict_open(chosen, rate_per_s, delay_s, tuple(sorted({50.0, percentile})))


def _over_shapes(
    tiers: Sequence[Tier], rate_per_s: float, percentile: float, delay_s: float
) -> tuple[float, float] | None:
    """The smallest and the largest percentile over shapes of service; tiers that vary take the same shape at once."""
    each = [tier.shapes(rate_per_s) for tier in tiers]
    count = max(len(found) for found in each)
    if count == 1:
        return None
    values = []
    for index in range(count):
        parts = [(tier.visits, found[index % len(found)]) for tier, found in zip(tiers, each, strict=True)]
        values.append(delay_s + chain_quantile_s(parts, percentile / 100.0))
    return min(values), max(values)


def _with_intervals(tiers: Sequence[Tier], compute: Callable[[Sequence[Tier]], list[float]]) -> list[Answer]:
    """Answers at the tiers' times, and how far they move when each time moves to its ends; independent errors add in squares."""
    values = compute(tiers)
    down, up = np.zeros(len(values)), np.zeros(len(values))
    for index, tier in enumerate(tiers):
        if tier.service_error_s == 0.0:
            continue
        for sign in (-1.0, 1.0):
            moved = [*tiers]
            moved[index] = replace(
                tier, service_time_s=tier.service_time_s + sign * tier.service_error_s, service_error_s=0.0
            )
            try:
                gaps = np.array(compute(moved)) - values
            except UnstableError:
                gaps = np.full(len(values), math.inf)
            down += np.minimum(gaps, 0.0) ** 2
            up += np.maximum(gaps, 0.0) ** 2
    return [
        Answer(value, max(0.0, value - math.sqrt(low)), value + math.sqrt(high))
        for value, low, high in zip(values, down.tolist(), up.tolist(), strict=True)
    ]


def _closed(tiers: Sequence[Tier], clients: int, delay_s: float) -> tuple[float, float, str]:
    """Throughput, time in the tiers, and how they were found."""
    stations = [
        Station(f"{tier.name} {unit}", tier.service_time_s, _visits_of(tier, unit), tier.servers)
        for tier in tiers
        for unit in range(tier.units)
    ]
    stations.append(Station("delay", delay_s, kind=Kind.DELAY))
    copied = [tier for tier in tiers if tier.writes > 0.0 and tier.replicas > 1]
    exact = sum(tier.units for tier in tiers) <= EXACT_UNITS_MAX
    if not copied:
        solution = solve_closed(stations, clients) if exact else approximate_closed(stations, clients)
        return float(solution.throughput_per_s[-1]), float(solution.response_time_s[-1]), solution.method
    most = clients * max(tier.replicas for tier in copied)
    curve = solve_closed(stations, most) if exact else None
    first = np.cumsum([0, *(tier.units for tier in tiers)])[:-1].tolist()

    def requests(jobs: int) -> tuple[float, float, float]:
        """How many requests `jobs` jobs are, their rate and their time."""
        solution, column = (curve, jobs - 1) if curve is not None else (approximate_closed(stations, jobs), 0)
        x, total = float(solution.throughput_per_s[column]), 0.0
        for tier, row in zip(tiers, first, strict=True):
            visit = float(solution.residence_time_s[row, column]) * tier.units / tier.visits_with_copies
            total += tier.visits * visit * (1.0 - tier.writes + tier.writes * _parallel(tier, x))
        return x * (delay_s + total), x, total

    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if requests(middle)[0] >= clients else (middle + 1, high)
    after, before = requests(low), requests(max(1, low - 1))
    part = 1.0 if after[0] == before[0] else min(1.0, max(0.0, (clients - before[0]) / (after[0] - before[0])))
    x = before[1] + part * (after[1] - before[1])
    return x, clients / x - delay_s, "product form with parallel writes, approximate"


def _visits_of(tier: Tier, unit: int) -> float:
    """Visits per request of one unit; the first has the hottest key."""
    even = (1.0 - tier.hottest) * tier.visits_with_copies / tier.units
    return even + (tier.hottest * tier.visits if unit == 0 else 0.0)


def _parallel(tier: Tier, rate_per_s: float) -> float:
    """Time until enough replicas have answered, over the time of one: fork-join's at this utilization."""
    if tier.replicas == 1:
        return 1.0
    spread = math.fsum(1.0 / j for j in range(tier.replicas - tier.replicas_needed + 1, tier.replicas + 1))
    if tier.servers > 1:
        return spread
    load = min(0.999, tier.utilization(rate_per_s))
    one = mmm(load, 1.0, 1).mean_response_time_s
    return replicated_write_response_time(load, 1.0, tier.replicas, tier.replicas_needed).mean_s / one


def _fewest(chosen: list[Tier], index: int, low: int, high: int, good: Callable[[list[Tier]], bool]) -> Tier:
    """Bisect the units of one tier between a lower bound and a number that is enough."""
    while low < high:
        middle = (low + high) // 2
        trial = [*chosen]
        trial[index] = _with_units(chosen[index], middle)
        low, high = (low, middle) if good(trial) else (middle + 1, high)
    return _with_units(chosen[index], high)


def _least_units(tier: Tier, rate_per_s: float, load_max: float) -> int:
    alone = replace(tier, units=max(1, tier.replicas))
    # A single unit gets everything, whatever the imbalance.
    if alone.utilization(rate_per_s) <= load_max * (1.0 + 1e-9):
        return alone.units
    others = rate_per_s * tier.visits_with_copies * (1.0 - tier.hottest) * tier.service_time_s / tier.servers
    left = load_max - tier.utilization_by_hottest(rate_per_s)
    if left <= 0.0 or others * tier.imbalance / left > UNITS_MAX:
        raise ValueError(
            f"Tier {tier.name} needs more than {UNITS_MAX:,} units.{_hopeless(tier, rate_per_s, load_max)}"
        )
    return max(math.ceil(others * tier.imbalance / left - 1e-9), tier.replicas)


def _hopeless(tier: Tier, rate_per_s: float, load_max: float = 1.0) -> str:
    """A sentence where one key is more than a unit can bear."""
    alone = tier.utilization_by_hottest(rate_per_s)
    if alone < load_max:
        return ""
    return (
        f" One key of {tier.name} gets {percent_text(tier.hottest)} of the requests and alone keeps a unit {percent_text(alone)} busy "
        f"(at most {percent_text(load_max)} is wanted): keep that key in several places or nearer to who asks, or shorten the service."
    )


def _with_units(tier: Tier, units: int) -> Tier:
    if units > UNITS_MAX:
        raise ValueError(
            f"Tier {tier.name} needs more than {UNITS_MAX} units: the limit or the service time is out of reach."
        )
    return replace(tier, units=units)
