"""What if: response times of a system that is not built yet, and how many units of each tier a load needs.

::

    requests λ ──▶ tier "proxy": 3 units, 4 servers each ──▶ tier "memcached": 8 units, 1 server each ──▶ network delay

A *unit* has a queue of its own (a proxy process, a memcached server) and gets its share of the requests; its *servers* share that queue
(event loops, worker threads). Placement by hash does not balance queues, so units are M/M/m queues side by side, not one large queue. The
busiest unit gets ``imbalance`` times the mean share, and all requests are taken to meet busiest units: the answer is on the safe side for
placement. It is on the optimistic side for service times that vary more than exponential ones, and for pauses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.queueing import OpenStation, UnstableError, chain_quantile_s, mmm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Plan", "Tier", "plan_capacity", "predict_open"]

UNITS_MAX = 100_000


@dataclass(frozen=True)
class Tier:
    """Equal units that requests visit ``visits`` times. ``service_time_s`` is one server's time per visit."""

    name: str
    service_time_s: float
    servers: int = 1
    visits: float = 1.0
    units: int = 1
    imbalance: float = 1.0

    def __post_init__(self) -> None:
        times = 0.0 < self.service_time_s < math.inf and 0.0 < self.visits < math.inf
        if not times or self.servers < 1 or not 1 <= self.units <= UNITS_MAX or not 1.0 <= self.imbalance < math.inf:
            raise ValueError(
                f"Tier {self.name}: service time and visits are positive, servers at least 1, units 1 to {UNITS_MAX}, imbalance at least 1."
            )

    def busiest(self, rate_per_s: float) -> OpenStation:
        """The busiest unit at a rate of requests."""
        share = min(1.0, self.imbalance / self.units)
        return mmm(rate_per_s * self.visits * share, 1.0 / self.service_time_s, self.servers)


@dataclass(frozen=True)
class Plan:
    """A system under an open load. Times in seconds; ``utilization`` is that of each tier's busiest unit."""

    tiers: tuple[Tier, ...]
    rate_per_s: float
    delay_s: float
    utilization: tuple[float, ...]
    mean_response_time_s: float
    percentiles_s: dict[float, float]

    @property
    def bottleneck(self) -> Tier:
        """The tier with the highest utilization."""
        return self.tiers[max(range(len(self.tiers)), key=self.utilization.__getitem__)]


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
    busy = [_load(tier, rate_per_s) for tier in tiers]
    late = [f"{tier.name} ({load:.3g})" for tier, load in zip(tiers, busy, strict=True) if load >= 1.0]
    if late:
        raise UnstableError(f"At {rate_per_s:g} requests/s the utilization reaches 1 at {', '.join(late)}: add units.")
    stations = [(tier.visits, tier.busiest(rate_per_s)) for tier in tiers]
    mean = math.fsum(visits * station.mean_response_time_s for visits, station in stations)
    quantiles = {percent: delay_s + chain_quantile_s(stations, percent / 100.0) for percent in percentiles}
    return Plan(tuple(tiers), rate_per_s, delay_s, tuple(busy), delay_s + mean, quantiles)


def plan_capacity(
    tiers: Sequence[Tier],
    rate_per_s: float,
    percentile: float,
    limit_s: float,
    delay_s: float = 0.0,
    load_max: float = 0.8,
) -> Plan:
    """Units of each tier so that the percentile stays within a limit, and no unit is busier than `load_max`.

    Starts from the fewest units that `load_max` allows, then adds to the tier whose next tenth of units (at least one) lowers the
    percentile most. The result cannot spare a unit in any tier. The limit must exceed what an idle system takes.

    >>> plan = plan_capacity([Tier("proxy", 10e-6), Tier("memcached", 20e-6)], 1e6, 99.0, 200e-6)
    >>> [tier.units for tier in plan.tiers], plan.percentiles_s[99.0] <= 200e-6
    ([16, 51], True)
    """
    if not 0.0 < load_max < 1.0 or not 0.0 < percentile < 100.0:
        raise ValueError("The largest utilization lies between 0 and 1, and a percentile between 0 and 100.")
    idle = [replace(tier, units=UNITS_MAX, imbalance=1.0) for tier in tiers]
    best = predict_open(idle, rate_per_s, delay_s, (percentile,)).percentiles_s[percentile]
    if best > limit_s:
        raise ValueError(
            f"Even without any waiting the {percentile:g}th percentile is {best:.3g} s, above the limit of {limit_s:.3g} s: "
            "shorten service times or the delay."
        )
    least = [_with_units(tier, _least_units(tier, rate_per_s, load_max)) for tier in tiers]
    chosen = list(least)

    def reached(candidate: Sequence[Tier]) -> float:
        return predict_open(candidate, rate_per_s, delay_s, (percentile,)).percentiles_s[percentile]

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


def _fewest(chosen: list[Tier], index: int, low: int, high: int, good: Callable[[list[Tier]], bool]) -> Tier:
    """Bisect the units of one tier between a lower bound and a number that is enough."""
    while low < high:
        middle = (low + high) // 2
        trial = [*chosen]
        trial[index] = _with_units(chosen[index], middle)
        low, high = (low, middle) if good(trial) else (middle + 1, high)
    return _with_units(chosen[index], high)


def _load(tier: Tier, rate_per_s: float) -> float:
    return rate_per_s * tier.visits * min(1.0, tier.imbalance / tier.units) * tier.service_time_s / tier.servers


def _least_units(tier: Tier, rate_per_s: float, load_max: float) -> int:
    demand = rate_per_s * tier.visits * tier.imbalance * tier.service_time_s / (tier.servers * load_max)
    # A single unit gets everything, whatever the imbalance.
    alone = rate_per_s * tier.visits * tier.service_time_s / tier.servers <= load_max
    return 1 if alone else max(1, math.ceil(demand - 1e-9))


def _with_units(tier: Tier, units: int) -> Tier:
    if units > UNITS_MAX:
        raise ValueError(
            f"Tier {tier.name} needs more than {UNITS_MAX} units: the limit or the service time is out of reach."
        )
    return replace(tier, units=units)
