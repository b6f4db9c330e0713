"""A closed network in which a crew of workers is held: a request keeps its worker while it is at the stations behind.

::

    clients ─▶ delay, stations outside ─▶ │ queue │ ─▶ m workers, each held: [ delay, stations inside ] ──┐
       ▲                                                                                                 │
       └─────────────────────────────────────────────────────────────────────────────────────────────────┘

A request that holds two things at once has no product form. Norton's theorem gives one: the stations inside, solved alone with
n = 1, 2, ... m requests, answer at rates X(n), and a single station with these rates stands for crew and stations together; beyond m
its rate stays. That is exact where the crew never fills, or where what is inside is a delay alone (then it is M/M/m's station), and near
it elsewhere: the tests hold it against a simulation that holds workers. Reference: Chandy, Herzog and Woo, IBM J. R&D 19 (1975);
Jacobson and Lazowska, CACM 25 (1982), on simultaneous resource possession.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.queueing.networks.closed import Kind, Station, jobs_in_closed, solve_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Crew", "CrewSolution", "solve_with_crew"]

_NAME = "crew"


@dataclass(frozen=True)
class Crew:
    """``workers`` m that share one queue; ``inside`` are the stations, delays among them, at which a request holds its worker."""

    workers: int
    inside: tuple[Station, ...]

    def __post_init__(self) -> None:
        if self.workers < 1 or not any(station.demand_s > 0.0 for station in self.inside):
            raise ValueError("A crew has at least one worker, and a request holds it for some time.")


@dataclass(frozen=True)
class CrewSolution:
    """One population. ``response_time_s`` is the time outside delays that are no stations of the crew, N/X less these delays.

    ``jobs`` and ``utilization`` are by station, the latter of each one's servers (delays have none). ``busy_workers`` is the mean number
    that is held, ``queued`` of requests that wait for a worker; a request waits ``queue_time_s`` and then holds one for ``held_time_s``.
    """

    population: int
    throughput_per_s: float
    response_time_s: float
    busy_workers: float
    queued: float
    jobs: dict[str, float]
    utilization: dict[str, float]

    @property
    def queue_time_s(self) -> float:
        """Little's law in the queue."""
        return self.queued / self.throughput_per_s

    @property
    def held_time_s(self) -> float:
        """Little's law among the workers."""
        return self.busy_workers / self.throughput_per_s


def solve_with_crew(
    outside: Sequence[Station], crew: Crew, population: int, *, jobs_outside: bool = True
) -> CrewSolution:
    """Throughput, times and jobs of N requests; names of stations must differ. Without ``jobs_outside`` it takes half the time.

    >>> alone = solve_with_crew([Station("z", 1.0, kind=Kind.DELAY)], Crew(2, (Station("held", 0.5, kind=Kind.DELAY),)), 6)
    >>> exact = solve_closed([Station("z", 1.0, kind=Kind.DELAY), Station("held", 0.5, servers=2)], 6)
    >>> round(alone.throughput_per_s / float(exact.throughput_per_s[-1]), 9)
    1.0
    """
    inner = solve_closed(crew.inside, min(crew.workers, population))
    rates = inner.throughput_per_s
    # Rates of a product form never fall with n; rounding must not make them.
    speedup = np.maximum.accumulate(rates / rates[0])
    station = Station(_NAME, 1.0 / float(rates[0]), speedup=tuple(speedup.tolist()))
    network = [*outside, station]
    share = jobs_in_closed(network, population, _NAME)
    n = np.arange(population + 1)
    held = np.minimum(n, rates.size)
    x = float(share @ np.concatenate(([0.0], rates))[held])
    jobs = {}
    if jobs_outside:
        whole = solve_closed(network, population)
        jobs = {one.name: float(whole.jobs[place][-1]) for place, one in enumerate(outside)}
    inner_jobs = np.concatenate((np.zeros((len(crew.inside), 1)), inner.jobs), axis=1)
    jobs |= {one.name: float(share @ inner_jobs[place][held]) for place, one in enumerate(crew.inside)}
    return CrewSolution(
        population,
        x,
        population / x - sum(one.demand_s for one in outside if one.kind is Kind.DELAY),
        float(share @ held),
        float(share @ (n - held)),
        jobs,
        {
            one.name: x * one.demand_s / one.peak_speedup
            for one in (*outside, *crew.inside)
            if one.kind is not Kind.DELAY
        },
    )
