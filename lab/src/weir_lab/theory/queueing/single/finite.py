"""One station with exponential times that never holds more than K jobs: a finite buffer, or finitely many clients.

::

    arrivals λ ──▶ │ queue │──▶ m servers, each μ ──▶           M/M/m/K: at most K inside, the rest is lost

    N clients, each away for Z ──▶ │ queue │──▶ m servers ──┐   finite source: arrivals slow down as clients wait
             ▲─────────────────────────────────────────────┘

Reference for all formulas: Jain, The Art of Computer Systems Performance Analysis, ch. 31.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc, gammaln

from weir_lab.theory.queueing._inputs import SIZE_MAX, check_rates, check_share, solve_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FiniteStation", "finite_source", "mmmk"]


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
        check_share(q)
        if self.prob_queueing <= 1.0 - q:
            return 0.0
        (behind, weights), rate = self._waits, self.servers * self.service_rate_per_s

        def tail(t: float) -> float:
            return float(np.asarray(gammaincc(behind, rate * t)) @ weights)

        return solve_tail(tail, 1.0 - q, max(self.mean_waiting_time_s, 1.0 / rate))

    def prob_jobs_at_least(self, n: int) -> float:
        """Share of time with at least n jobs inside."""
        return float(self.probabilities[max(0, n) :].sum())

    def response_time_tail(self, t: float) -> float:
        """P(response time > t) of admitted requests.

        Who finds n >= m jobs waits for a = n-m+1 departures at rate m μ (an Erlang time E), then is served: P(E >
        t) + P(E <= t < E + S). The latter is the sum over j >= a of (1 - 1/m)^(j-a) times the Poisson probability
        of j departures in t. All terms are positive, where the closed form subtracts numbers of any size.
        """
        if t <= 0.0:
            return 1.0
        mu, expected = self.service_rate_per_s, self.servers * self.service_rate_per_s * t
        direct = float(self.seen[: self.servers].sum()) * math.exp(-mu * t)
        behind, weights = self._waits
        waiting = float(np.asarray(gammaincc(behind, expected)) @ weights)
        departures, follow = self._departures
        poisson = np.exp(departures * math.log(expected) - expected - gammaln(departures + 1.0))
        return min(1.0, direct + waiting + float(poisson @ follow))

    def response_time_quantile_s(self, q: float) -> float:
        """The response time that a share q of the admitted requests stays below.

        >>> alone = finite_source(1, 1.0, 4.0)
        >>> round(alone.response_time_quantile_s(0.9) * 4.0, 6)  # nobody waits: -ln(0.1)
        2.302585
        """
        check_share(q)
        return solve_tail(self.response_time_tail, 1.0 - q, self.mean_response_time_s)

    @cached_property
    def _waits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Departures that an arrival waits for, and how often; what happens less than once in 1e25 arrivals is left out."""
        behind = np.arange(1.0, self.seen.size - self.servers + 1.0)
        weights = self.seen[self.servers :]
        some = weights > 1e-25
        return behind[some], weights[some]

    @cached_property
    def _departures(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Numbers j of departures in t, and the probability that j leave a request in service: sum over a <= j of w(a) (1 - 1/m)^(j-a)."""
        behind, weights = self._waits
        if behind.size == 0 or self.servers == 1:
            return behind, weights
        decay = math.log1p(-1.0 / self.servers)
        # Beyond the longest wait the weights fall geometrically; 40 powers of e are below the last bit.
        counts = np.arange(behind[0], behind[-1] + math.ceil(40.0 / -decay) + 1.0)
        logs = np.full(counts.size, -np.inf)
        logs[(behind - behind[0]).astype(np.int64)] = np.log(weights)
        slope = (counts - counts[0]) * decay
        return counts, np.exp(np.logaddexp.accumulate(logs - slope) + slope)

    @property
    def _counts(self) -> NDArray[np.float64]:
        return np.arange(self.probabilities.size, dtype=np.float64)

    @property
    def _waiting(self) -> NDArray[np.float64]:
        return np.maximum(self._counts - self.servers, 0.0)


def mmmk(arrival_rate_per_s: float, service_rate_per_s: float, servers: int, places: int) -> FiniteStation:
    """M/M/m/K: at most K = ``places`` >= m jobs inside; who finds it full is refused. Stable at any load.

    >>> station = mmmk(3.0, 2.0, 2, 5)
    >>> round(station.prob_empty, 5), round(station.prob_loss, 5)
    (0.17933, 0.08511)
    """
    check_rates(arrival_rate_per_s, service_rate_per_s, servers)
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
    check_rates(1.0, service_rate_per_s, servers)
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
    return FiniteStation(servers, service_rate_per_s, throughput, 0.0, probabilities, seen)


def _birth_death(log_births: NDArray[np.float64], log_deaths: NDArray[np.float64]) -> NDArray[np.float64]:
    """p(n) proportional to the product of birth(k-1)/death(k), in logarithms so that nothing overflows."""
    logs = np.concatenate(([0.0], np.cumsum(log_births - log_deaths)))
    weights = np.exp(logs - logs.max())
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def _log_service(rate: float, servers: int, places: int) -> NDArray[np.float64]:
    return np.log(np.minimum(np.arange(1, places + 1), servers) * rate)
