"""One station with exponential times and an unlimited queue, first come first served: M/M/1 and M/M/m.

::

    arrivals λ ──▶ │ queue │──▶ m servers, each μ ──▶

Open models take λ as given: in a closed loop λ is the measured throughput and never reaches saturation, so near it they predict times that
no closed system shows. Reference for all formulas: Jain, The Art of Computer Systems Performance Analysis, ch. 31.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

from weir_lab.theory.queueing._inputs import SIZE_MAX, check_rates, check_share, solve_tail
from weir_lab.theory.queueing.errors import UnstableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OpenStation", "erlang_b", "erlang_c", "mm1", "mmm"]


@dataclass(frozen=True)
class OpenStation:
    """M/M/m in steady state. Rates per second, times in seconds, variances in squared units.

    ``utilization`` is per server, ``prob_queueing`` the probability that an arrival waits (Erlang C); ``log_prob_empty`` is there because
    the probability itself underflows for hundreds of busy servers.
    """

    arrival_rate_per_s: float
    service_rate_per_s: float
    servers: int
    utilization: float
    log_prob_empty: float
    prob_queueing: float

    @property
    def prob_empty(self) -> float:
        """P(no job)."""
        return math.exp(self.log_prob_empty)

    @property
    def busy_servers(self) -> float:
        """Mean number of busy servers, λ/μ."""
        return self.arrival_rate_per_s / self.service_rate_per_s

    @property
    def mean_jobs_in_queue(self) -> float:
        """ρ C / (1-ρ)."""
        return self.utilization * self.prob_queueing / (1.0 - self.utilization)

    @property
    def var_jobs_in_queue(self) -> float:
        """ρ C (1 + ρ - ρ C) / (1-ρ)^2."""
        load, wait = self.utilization, self.prob_queueing
        return load * wait * (1.0 + load - load * wait) / (1.0 - load) ** 2

    @property
    def mean_jobs_in_system(self) -> float:
        """Busy servers plus queue."""
        return self.busy_servers + self.mean_jobs_in_queue

    @property
    def var_jobs_in_system(self) -> float:
        """Busy servers: m ρ + ρ C ((1 + ρ - ρ C) / (1-ρ)^2 + m)."""
        return self.busy_servers + self.var_jobs_in_queue + self.utilization * self.prob_queueing * self.servers

    @property
    def mean_waiting_time_s(self) -> float:
        """C / (m μ (1-ρ))."""
        return self.prob_queueing / self._drain_rate

    @property
    def var_waiting_time_s2(self) -> float:
        """C (2 - C) / (m μ (1-ρ))^2: a wait is 0 with probability 1-C, else exponential."""
        return self.prob_queueing * (2.0 - self.prob_queueing) / self._drain_rate**2

    @property
    def mean_response_time_s(self) -> float:
        """Wait plus service."""
        return 1.0 / self.service_rate_per_s + self.mean_waiting_time_s

    @property
    def var_response_time_s2(self) -> float:
        """Wait and service are independent."""
        return 1.0 / self.service_rate_per_s**2 + self.var_waiting_time_s2

    def prob_jobs_at_least(self, n: int) -> float:
        """P(at least n jobs). For M/M/1 ρ^n.

        >>> round(mm1(125.0, 500.0).prob_jobs_at_least(13) * 1e8, 4)
        1.4901
        """
        if n <= 0:
            return 1.0
        if n >= self.servers:
            return self.prob_queueing * self.utilization ** (n - self.servers)
        counts = np.arange(n, dtype=np.float64)
        logs = counts * math.log(self.busy_servers) - gammaln(counts + 1.0)
        return max(0.0, 1.0 - math.exp(float(logsumexp(logs)) + self.log_prob_empty))

    def waiting_time_quantile_s(self, q: float) -> float:
        """max(0, ln(C / (1-q)) / (m μ (1-ρ))): 0 where fewer than 1-q of the arrivals wait."""
        check_share(q)
        return max(0.0, math.log(self.prob_queueing / (1.0 - q)) / self._drain_rate) if self.prob_queueing > 0 else 0.0

    def response_time_tail(self, t: float) -> float:
        """P(response time > t): an exponential service, after an exponential wait with probability C."""
        if t <= 0.0:
            return 1.0
        mu, drain, wait = self.service_rate_per_s, self._drain_rate, self.prob_queueing
        # Density of the sum of two exponentials; (1 - e^-x)/x stays exact where both rates are equal.
        gap = (drain - mu) * t
        factor = 1.0 if gap == 0.0 else -math.expm1(-gap) / gap if abs(gap) < 700.0 else 0.0
        if abs(gap) >= 700.0:
            slow, fast = min(mu, drain), max(mu, drain)
            both = fast / (fast - slow) * math.exp(-slow * t)
        else:
            both = math.exp(-mu * t) * drain * t * factor + math.exp(-drain * t)
        return (1.0 - wait) * math.exp(-mu * t) + wait * both

    def response_transform(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Laplace transform of the response time's density: ((1-C) + C d/(d+s)) μ/(μ+s) with d = m μ - λ."""
        mu, wait, drain = self.service_rate_per_s, self.prob_queueing, self._drain_rate
        return np.asarray(((1.0 - wait) + wait * drain / (drain + s)) * mu / (mu + s))

    def response_time_quantile_s(self, q: float) -> float:
        """The time that a share q of the requests stays below; -ln(1-q) times the mean for M/M/1."""
        check_share(q)
        if self.servers == 1:
            return -math.log1p(-q) * self.mean_response_time_s
        return solve_tail(self.response_time_tail, 1.0 - q, self.mean_response_time_s)

    @property
    def _drain_rate(self) -> float:
        """Rate at which a queue behind busy servers shrinks: m μ - λ."""
        return self.servers * self.service_rate_per_s * (1.0 - self.utilization)


def mm1(arrival_rate_per_s: float, service_rate_per_s: float) -> OpenStation:
    """M/M/1: one server, unlimited queue.

    >>> round(mm1(125.0, 500.0).mean_response_time_s * 1e3, 6)
    2.666667
    """
    return mmm(arrival_rate_per_s, service_rate_per_s, 1)


def mmm(arrival_rate_per_s: float, service_rate_per_s: float, servers: int) -> OpenStation:
    """M/M/m: m servers, one unlimited queue; ``service_rate_per_s`` is one server's.

    >>> station = mmm(1 / 6, 1 / 20, 5)
    >>> round(station.prob_queueing, 7), round(station.mean_response_time_s, 4)
    (0.3266693, 23.92)
    """
    check_rates(arrival_rate_per_s, service_rate_per_s, servers)
    load = arrival_rate_per_s / service_rate_per_s
    utilization = load / servers
    if utilization >= 1.0:
        raise UnstableError(
            f"{arrival_rate_per_s:g} requests/s arrive and {servers} x {service_rate_per_s:g}/s can be served "
            f"(utilization {utilization:.6g}): no steady state. Offer less, or add servers."
        )
    wait = erlang_c(servers, load)
    counts = np.arange(servers, dtype=np.float64)
    below = counts * math.log(load) - gammaln(counts + 1.0)
    queued = servers * math.log(load) - float(gammaln(servers + 1.0)) - math.log1p(-utilization)
    log_empty = -float(np.logaddexp(logsumexp(below), queued))
    return OpenStation(arrival_rate_per_s, service_rate_per_s, servers, utilization, log_empty, wait)


def erlang_b(servers: int, load: float) -> float:
    """Share of arrivals that find all m servers busy and are lost; ``load`` a = λ/μ in erlang.

    B(k) = a B(k-1) / (k + a B(k-1)) from B(0) = 1, which neither overflows nor cancels (a^m/m! does).

    >>> round(erlang_b(520, 500.0), 7)
    0.0143618
    """
    if not 1 <= servers <= SIZE_MAX or not 0.0 < load < math.inf:
        raise ValueError("Erlang's formulas need at least 1 server and a positive load.")
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = load * blocking / (k + load * blocking)
    return blocking


def erlang_c(servers: int, load: float) -> float:
    """Share of arrivals that wait in M/M/m: B / (1 - ρ (1 - B)).

    >>> round(erlang_c(520, 500.0), 7)
    0.2747563
    """
    if load >= servers:
        raise UnstableError(f"A load of {load:g} erlang needs more than {servers} servers: no steady state.")
    blocking = erlang_b(servers, load)
    return blocking / (1.0 - load / servers * (1.0 - blocking))
