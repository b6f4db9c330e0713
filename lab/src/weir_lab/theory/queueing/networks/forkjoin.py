"""The slowest of several: a replicated write waits for all its replicas, a split multi-get for all its parts.

::

              ┌─▶ server 1 ─┐
    request ──┼─▶ server 2 ─┼──▶ reply when k of n have answered
              └─▶ server n ─┘

No product form exists, because all queues get a job at the same instant. Two brackets hold for M/M/1 servers: independence of the parts
over-estimates the wait for the slowest (their times are positively associated; Nelson and Tantawi 1988), and waiting is at least the
slowest of bare services. Every answer carries the bracket or the published error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from weir_lab.theory.queueing.single.stations import mm1

__all__ = [
    "ForkJoin",
    "fork_join",
    "replicated_write_response_time",
]

# Nelson and Tantawi compared their formula with simulation up to 32 servers and found it within 5 %.
_FITTED_TO = 32
# Binomial weights up to 15 leave the error of the maxima, 1 to 2 %, at a few percent of the mean.
_REPLICAS_BY_MAXIMA = 5
SERVERS_MAX = 10_000


@dataclass(frozen=True)
class ForkJoin:
    """Mean time until enough parts have answered, in seconds, between ``low_s`` and ``high_s``.

    ``error_percent`` is the published or proven error of ``mean_s``: 0 where it is exact, None where only the bracket holds.
    """

    mean_s: float
    low_s: float
    high_s: float
    error_percent: float | None
    method: str


def fork_join(arrival_rate_per_s: float, service_rate_per_s: float, servers: int) -> ForkJoin:
    """Mean time of the slowest of n parts, each at an M/M/1 server that all requests of this rate visit.

    n = 2 is exact: (12 - ρ)/8 times the mean of one. Beyond, Nelson and Tantawi: multiplied by H_n/H_2 + 4ρ/11 (1 - H_n/H_2), with
    H_n = 1 + 1/2 + ... + 1/n. Reference: Nelson and Tantawi, IEEE Trans. Computers 37 (1988).

    >>> round(fork_join(0.5, 1.0, 2).mean_s, 6)
    2.875
    """
    if not 1 <= servers <= SERVERS_MAX:
        raise ValueError(f"A request has 1 to {SERVERS_MAX} parts, not {servers}.")
    one = mm1(arrival_rate_per_s, service_rate_per_s)
    mean = one.mean_response_time_s
    high = _harmonic(servers) * mean
    low = max(mean, _harmonic(servers) / service_rate_per_s)
    if servers == 1:
        return ForkJoin(mean, mean, mean, 0.0, "M/M/1")
    growth = _harmonic(servers) / 1.5
    pair = (12.0 - one.utilization) / 8.0 * mean
    if servers == 2:
        return ForkJoin(pair, pair, pair, 0.0, "exact for two")
    estimate = pair * (growth + 4.0 * one.utilization / 11.0 * (1.0 - growth))
    error = 5.0 if servers <= _FITTED_TO else None
    return ForkJoin(min(high, max(low, estimate)), low, high, error, "Nelson and Tantawi")


def replicated_write_response_time(
    arrival_rate_per_s: float, service_rate_per_s: float, replicas: int, needed: int | None = None
) -> ForkJoin:
    """Mean time until ``needed`` of ``replicas`` have answered; all of them by default (policies first, quorum, all).

    ``arrival_rate_per_s`` is the rate at each replica. For all, `fork_join`. For fewer, the mean of the k-th of R
    equal parts follows from the maxima M_j of j of them, which are fork-joins of j servers with the same arrivals.
    It is the sum over j = k..R of (-1)^(j-k) C(j-1, k-1) C(R, j) M_j. The alternating sum magnifies the errors of
    M_j, so beyond 5 replicas the parts are taken for independent exponentials instead: R (H_n - H_(n-k)). Both lie
    between bare services of an idle system and the slowest of all.

    >>> round(replicated_write_response_time(0.5, 1.0, 2, 1).mean_s, 6)  # exact: twice the mean of one, less the slower of two
    1.125
    """
    k = replicas if needed is None else needed
    if not 1 <= k <= replicas <= SERVERS_MAX:
        raise ValueError(f"A write needs 1 to {replicas} replies, not {k}.")
    everyone = fork_join(arrival_rate_per_s, service_rate_per_s, replicas)
    if k == replicas:
        return everyone
    share = _harmonic(replicas) - _harmonic(replicas - k)
    low, independent = (
        share / service_rate_per_s,
        mm1(arrival_rate_per_s, service_rate_per_s).mean_response_time_s * share,
    )
    if replicas > _REPLICAS_BY_MAXIMA:
        return ForkJoin(independent, low, everyone.high_s, None, "independent parts")
    mean = math.fsum(
        (-1) ** (j - k)
        * math.comb(j - 1, k - 1)
        * math.comb(replicas, j)
        * fork_join(arrival_rate_per_s, service_rate_per_s, j).mean_s
        for j in range(k, replicas + 1)
    )
    if k == 1:
        mean = max(mean, independent)  # times that rise and fall together have a later first one
    exact = 0.0 if replicas == 2 else None
    return ForkJoin(min(everyone.high_s, max(low, mean)), low, everyone.high_s, exact, "order statistics of fork-joins")


@lru_cache(maxsize=256)
def _harmonic(n: int) -> float:
    return math.fsum(1.0 / k for k in range(1, n + 1))
