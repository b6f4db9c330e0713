"""What one run must satisfy, exactly or within the tolerance of its study.

Pure functions: numbers in, a `Check` out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Check", "InteractiveLaw", "counts_agree", "cycle_law", "interactive_law", "stages_add_up"]


@dataclass(frozen=True)
class InteractiveLaw:
    """The interactive response time law on one run; ``deviation`` is a share of the law's response time."""

    law_response_time_ns: float
    measured_response_time_ns: float
    deviation: float


@dataclass(frozen=True)
class Check:
    """Two counts or sums that should be equal."""

    expected: int
    observed: int

    @property
    def difference(self) -> int:
        """Observed minus expected."""
        return self.observed - self.expected

    @property
    def holds(self) -> bool:
        """Whether both are equal."""
        return self.observed == self.expected


def interactive_law(
    throughput_rps: float, population: int, response_time_mean_ns: float, think_time_ns: float = 0.0
) -> InteractiveLaw:
    """R = N / X - Z (Denning and Buzen 1978), for a closed system of N requests that always circulate.

    A deviation means clients that were not busy all the time, a throughput and a mean taken over different
    intervals, or time that the generator itself spends between a reply and the next request. Such time acts as
    think time that Z does not name.
    """
    if throughput_rps <= 0 or population < 1 or response_time_mean_ns <= 0:
        raise ValueError("The law needs a positive throughput, population and response time.")
    law = population / throughput_rps * 1e9 - think_time_ns
    if law <= 0:
        raise ValueError("The think time is longer than a whole cycle N/X: one of the three inputs is wrong.")
    return InteractiveLaw(law, response_time_mean_ns, (response_time_mean_ns - law) / law)


def cycle_law(
    throughput_rps: float, population: int, response_time_mean_ns: float, think_time_s: float
) -> InteractiveLaw:
    """The same law on the whole cycle, R + Z = N / X: ``deviation`` is a share of the cycle, and the times are response times.

    A think time that is drawn at random has a mean only to within its own error, which may exceed a short response time; held against
    the cycle it is what it is. Without think time both laws are one.
    """
    think_ns = think_time_s * 1e9
    cycle = interactive_law(throughput_rps, population, response_time_mean_ns + think_ns)
    return InteractiveLaw(cycle.law_response_time_ns - think_ns, response_time_mean_ns, cycle.deviation)


def counts_agree(client_requests: int, proxy_requests: int) -> Check:
    """Every answered request of the client passed the proxy once: counts over the life of both processes are equal."""
    return Check(expected=client_requests, observed=proxy_requests)


def stages_add_up(stage_sums_ns: Iterable[int], total_sum_ns: int) -> Check:
    """The stages of a request are the differences of its stamps, so their sums add up to the total's, to the nanosecond."""
    return Check(expected=total_sum_ns, observed=sum(stage_sums_ns))
