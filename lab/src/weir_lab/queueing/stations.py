"""One station with exponential times, first come first served.

::

    arrivals λ ──▶ │ queue │──▶ m servers, each μ ──▶          M/M/1, M/M/m;   M/M/m/K: at most K inside, the rest is lost

    N clients, each away for Z ──▶ │ queue │──▶ m servers ──┐   finite source: arrivals slow down as clients wait
             ▲─────────────────────────────────────────────┘

Open models take λ as given: in a closed loop λ is the measured throughput and never reaches saturation, so near it they predict times that
no closed system shows. Reference for all formulas: Jain, The Art of Computer Systems Performance Analysis, ch. 31.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc, gammaln, logsumexp

from weir_lab.queueing.errors import UnstableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "FiniteStation",
    "OpenStation",
    "erlang_b",
    "erlang_c",
    "finite_source",
    "mm1",
    "mmm",
    "mmmk",
]

# Servers, places and clients that a model may ask for: 80 MB per array of probabilities.
SIZE_MAX = 10_000_000


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
        _share(q)
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

    def response_time_quantile_s(self, q: float) -> float:
        """The time that a share q of the requests stays below; -ln(1-q) times the mean for M/M/1."""
        _share(q)
        if self.servers == 1:
            return -math.log1p(-q) * self.mean_response_time_s
        return _solve_tail(self.response_time_tail, 1.0 - q, self.mean_response_time_s)

    @property
    def _drain_rate(self) -> float:
        """Rate at which a queue behind busy servers shrinks: m μ - λ."""
        return self.servers * self.service_rate_per_s * (1.0 - self.utilization)


@dataclass(frozen=True, eq=False)
class FiniteStation:
    """A station with at most K jobs: a finite buffer or a finite number of clients. Rates per second, times in seconds.

    ``probabilities[n]`` is the share of time with n jobs inside, ``seen[n]`` the share of admitted arrivals that find n jobs there.
    ``prob_loss`` is the share of arrivals that is refused.
    """

    servers: int
    service_rate_per_s: float
    throughput_per_s: float
    prob_loss: float
    probabilities: NDArray[np.float64]
    seen: NDArray[np.float64]

    @property
    def prob_empty(self) -> float:
        """P(no job)."""
        return float(self.probabilities[0])

    @property
    def prob_queueing(self) -> float:
        """Share of admitted arrivals that wait."""
        return float(self.seen[self.servers :].sum())

    @property
    def utilization(self) -> float:
        """Share of time that a server is busy: X / (m μ)."""
        return self.throughput_per_s / (self.servers * self.service_rate_per_s)

    @property
    def mean_jobs_in_system(self) -> float:
        """Sum of n p(n)."""
        return float(self._counts @ self.probabilities)

    @property
    def var_jobs_in_system(self) -> float:
        """Sum of (n - mean)^2 p(n)."""
        return float((self._counts - self.mean_jobs_in_system) ** 2 @ self.probabilities)

    @property
    def mean_jobs_in_queue(self) -> float:
        """Sum of max(0, n - m) p(n)."""
        return float(self._waiting @ self.probabilities)

    @property
    def var_jobs_in_queue(self) -> float:
        """Variance of max(0, n - m)."""
        return float((self._waiting - self.mean_jobs_in_queue) ** 2 @ self.probabilities)

    @property
    def mean_response_time_s(self) -> float:
        """Little's law: n / X, over admitted requests."""
        return self.mean_jobs_in_system / self.throughput_per_s

    @property
    def mean_waiting_time_s(self) -> float:
        """Little's law: n_q / X."""
        return self.mean_jobs_in_queue / self.throughput_per_s

    @property
    def var_waiting_time_s2(self) -> float:
        """An arrival that finds n >= m jobs waits for n-m+1 departures at rate m μ: an Erlang time."""
        behind = np.maximum(np.arange(self.seen.size) - self.servers + 1.0, 0.0)
        rate = self.servers * self.service_rate_per_s
        second = float((behind * (behind + 1.0)) @ self.seen) / rate**2
        return max(0.0, second - self.mean_waiting_time_s**2)

    @property
    def var_response_time_s2(self) -> float:
        """Wait and service are independent."""
        return self.var_waiting_time_s2 + 1.0 / self.service_rate_per_s**2

    def waiting_time_quantile_s(self, q: float) -> float:
        """The wait that a share q of the admitted requests stays below."""
        _share(q)
        if self.prob_queueing <= 1.0 - q:
            return 0.0
        behind = np.arange(1.0, self.seen.size - self.servers + 1.0)
        weights, rate = self.seen[self.servers :], self.servers * self.service_rate_per_s

        def tail(t: float) -> float:
            return float(np.asarray(gammaincc(behind, rate * t)) @ weights)

        return _solve_tail(tail, 1.0 - q, max(self.mean_waiting_time_s, 1.0 / rate))

    @property
    def _counts(self) -> NDArray[np.float64]:
        return np.arange(self.probabilities.size, dtype=np.float64)

    @property
    def _waiting(self) -> NDArray[np.float64]:
        return np.maximum(self._counts - self.servers, 0.0)


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
    _rates(arrival_rate_per_s, service_rate_per_s, servers)
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


def mmmk(arrival_rate_per_s: float, service_rate_per_s: float, servers: int, places: int) -> FiniteStation:
    """M/M/m/K: at most K = ``places`` >= m jobs inside; who finds it full is refused. Stable at any load.

    >>> station = mmmk(3.0, 2.0, 2, 5)
    >>> round(station.prob_empty, 5), round(station.prob_loss, 5)
    (0.17933, 0.08511)
    """
    _rates(arrival_rate_per_s, service_rate_per_s, servers)
    if not servers <= places <= SIZE_MAX:
        raise ValueError(f"M/M/m/K needs m <= K <= {SIZE_MAX} places, not {places}.")
    births = np.full(places, math.log(arrival_rate_per_s))
    probabilities = _birth_death(births, _log_service(service_rate_per_s, servers, places))
    loss = float(probabilities[-1])
    admitted = probabilities[:-1] / (1.0 - loss)
    return FiniteStation(
        servers, service_rate_per_s, arrival_rate_per_s * float(probabilities[:-1].sum()), loss, probabilities, admitted
    )


def finite_source(clients: int, think_time_s: float, service_rate_per_s: float, servers: int = 1) -> FiniteStation:
    """N clients that think for Z, then wait for one of m servers (machine repairman, M/M/m//N). Stable at any load.

    Z may have any distribution with this mean. ``throughput_per_s`` X and ``mean_response_time_s`` R obey N = X (R + Z).

    >>> station = finite_source(10, 1.0, 4.0, 2)
    >>> round(station.throughput_per_s * (station.mean_response_time_s + 1.0), 9)
    10.0
    """
    _rates(1.0, service_rate_per_s, servers)
    if not 1 <= clients <= SIZE_MAX or not 0.0 <= think_time_s < math.inf:
        raise ValueError(f"A closed model needs 1 to {SIZE_MAX} clients and a think time of at least 0.")
    death = _log_service(service_rate_per_s, servers, clients)
    if think_time_s == 0.0:
        probabilities, seen = np.zeros(clients + 1), np.zeros(clients)
        probabilities[-1] = seen[-1] = 1.0
    else:
        # Birth rates (N-n)/Z; an arriving client sees the system without itself (arrival theorem).
        births = np.log(np.arange(clients, 0, -1.0)) - math.log(think_time_s)
        probabilities = _birth_death(births, death)
        seen = _birth_death(births[1:], death[:-1]) if clients > 1 else np.ones(1)
    busy = np.minimum(np.arange(clients + 1.0), servers)
    throughput = service_rate_per_s * float(busy @ probabilities)
    return FiniteStation(min(servers, clients), service_rate_per_s, throughput, 0.0, probabilities, seen)


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


def _birth_death(log_births: NDArray[np.float64], log_deaths: NDArray[np.float64]) -> NDArray[np.float64]:
    """p(n) proportional to the product of birth(k-1)/death(k), in logarithms so that nothing overflows."""
    logs = np.concatenate(([0.0], np.cumsum(log_births - log_deaths)))
    weights = np.exp(logs - logs.max())
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def _log_service(rate: float, servers: int, places: int) -> NDArray[np.float64]:
    return np.log(np.minimum(np.arange(1, places + 1), servers) * rate)


def _solve_tail(tail: Callable[[float], float], target: float, scale: float) -> float:
    """The t with tail(t) = target, for a falling tail: doubling, then bisection to the last bits."""
    low, high = 0.0, scale
    while tail(high) > target:
        low, high = high, 2.0 * high
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        low, high = (middle, high) if tail(middle) > target else (low, middle)


def _rates(arrival: float, service: float, servers: int) -> None:
    if not (0.0 < arrival < math.inf and 0.0 < service < math.inf):
        raise ValueError(f"Rates are positive and finite, not λ = {arrival} and μ = {service}.")
    if not 1 <= servers <= SIZE_MAX:
        raise ValueError(f"A station has 1 to {SIZE_MAX} servers, not {servers}.")


def _share(q: float) -> None:
    if not 0.0 < q < 1.0:
        raise ValueError(f"A quantile lies between 0 and 1, not {q}.")
