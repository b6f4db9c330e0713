"""One server whose service times are not exponential: M/G/1, with M/D/1 and M/M/1 as its ends.

::

    arrivals λ ──▶ │ queue │──▶ one server: mean S, squared coefficient of variation c² ──▶     c² = 0 constant (a link), 1 exponential

Mean waiting depends on service by S and c² alone (Pollaczek and Khinchine): half of M/M/1's for constant times. Variances and quantiles
need more than c²: they are those of gamma distributed service, which has any c² and is exponential for 1 and constant for 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc

from weir_lab.theory.queueing._inputs import check_rates, check_share, solve_tail
from weir_lab.theory.queueing.errors import UnstableError
from weir_lab.theory.queueing.single.inversion import tail_from_transform

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GeneralStation", "md1", "mg1"]

CV2_MAX = 1000.0


@dataclass(frozen=True)
class GeneralStation:
    """M/G/1 in steady state, first come first served. Rates per second, times in seconds, variances in squared units.

    ``service_cv2`` is the squared coefficient of variation of the service time. Means hold for any service time with it; variances and
    quantiles for gamma distributed ones.
    """

    arrival_rate_per_s: float
    service_time_s: float
    service_cv2: float

    @property
    def utilization(self) -> float:
        """ρ = λ S."""
        return self.arrival_rate_per_s * self.service_time_s

    @property
    def prob_empty(self) -> float:
        """1 - ρ."""
        return 1.0 - self.utilization

    @property
    def prob_queueing(self) -> float:
        """ρ: an arrival finds the server busy."""
        return self.utilization

    @property
    def mean_waiting_time_s(self) -> float:
        """ρ S (1 + c²) / (2 (1-ρ)) (Pollaczek and Khinchine)."""
        return self.utilization * self.service_time_s * (1.0 + self.service_cv2) / (2.0 * (1.0 - self.utilization))

    @property
    def var_waiting_time_s2(self) -> float:
        """W² + λ E[S³] / (3 (1-ρ)) (Takács), E[S³] = S³ (1 + c²)(1 + 2c²)."""
        third = self.service_time_s**3 * (1.0 + self.service_cv2) * (1.0 + 2.0 * self.service_cv2)
        return self.mean_waiting_time_s**2 + self.arrival_rate_per_s * third / (3.0 * (1.0 - self.utilization))

    @property
    def mean_response_time_s(self) -> float:
        """Wait plus service."""
        return self.service_time_s + self.mean_waiting_time_s

    @property
    def var_response_time_s2(self) -> float:
        """Wait and service are independent."""
        return self.var_waiting_time_s2 + self.service_cv2 * self.service_time_s**2

    @property
    def mean_jobs_in_queue(self) -> float:
        """λ W."""
        return self.arrival_rate_per_s * self.mean_waiting_time_s

    @property
    def var_jobs_in_queue(self) -> float:
        """λ W + λ² Var W: who waits behind a request came, at random, while it waited (distributional form of Little's law)."""
        return self.mean_jobs_in_queue + self.arrival_rate_per_s**2 * self.var_waiting_time_s2

    @property
    def mean_jobs_in_system(self) -> float:
        """λ R."""
        return self.arrival_rate_per_s * self.mean_response_time_s

    @property
    def var_jobs_in_system(self) -> float:
        """λ R + λ² Var R, as for the queue. Reference: Keilson and Servi, Oper. Res. Letters 7 (1988)."""
        return self.mean_jobs_in_system + self.arrival_rate_per_s**2 * self.var_response_time_s2

    def waiting_time_tail(self, t: float) -> float:
        """P(waiting time > t): the Pollaczek-Khinchine transform (1-ρ) s / (s - λ + λ B(s)) without its mass 1-ρ at 0, inverted."""
        if t <= 1e-12 * self.service_time_s:
            return self.utilization if t >= 0.0 else 1.0
        return min(self.utilization, max(0.0, tail_from_transform(self._waiting, t)))

    def response_time_tail(self, t: float) -> float:
        """P(response time > t): bare service for the share 1-ρ that finds the server idle, service after a wait for the others."""
        if t <= 0.0:
            return 1.0
        if self.service_cv2 == 0.0:
            return 1.0 if t < self.service_time_s else self.waiting_time_tail(t - self.service_time_s)
        shape = 1.0 / self.service_cv2
        alone = (1.0 - self.utilization) * float(gammaincc(shape, shape * t / self.service_time_s))
        after = tail_from_transform(lambda s: self._waiting(s) * self._service(s), t)
        return min(1.0, alone + max(0.0, after))

    def waiting_time_quantile_s(self, q: float) -> float:
        """The wait that a share q of the requests stays below: 0 up to 1 - ρ."""
        check_share(q)
        if q <= 1.0 - self.utilization + 1e-12:
            return 0.0
        return solve_tail(self.waiting_time_tail, 1.0 - q, max(self.mean_waiting_time_s, self.service_time_s))

    def response_time_quantile_s(self, q: float) -> float:
        """The response time that a share q of the requests stays below."""
        check_share(q)
        if self.service_cv2 == 0.0:
            return self.service_time_s + self.waiting_time_quantile_s(q)
        return solve_tail(self.response_time_tail, 1.0 - q, self.mean_response_time_s)

    def response_transform(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Laplace transform of the response time's density."""
        return np.asarray(((1.0 - self.utilization) + self._waiting(s)) * self._service(s))

    def _service(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        if self.service_cv2 == 0.0:
            return np.asarray(np.exp(-s * self.service_time_s))
        return np.asarray((1.0 + s * self.service_time_s * self.service_cv2) ** (-1.0 / self.service_cv2))

    def _waiting(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Transform of the waiting time of those who wait, of mass ρ: with the residual service time's F(s), (1-ρ) ρF / (1 - ρF)."""
        residual = np.ones_like(s)
        some = np.abs(s) > 0.0
        residual[some] = (1.0 - self._service(s[some])) / (s[some] * self.service_time_s)
        busy = self.utilization * residual
        return np.asarray((1.0 - self.utilization) * busy / (1.0 - busy))


def mg1(arrival_rate_per_s: float, service_time_s: float, service_cv2: float) -> GeneralStation:
    """M/G/1: one server, any service time with this mean and squared coefficient of variation. Reference: Kleinrock vol. 1, ch. 5.

    >>> round(mg1(0.5, 1.0, 1.0).mean_response_time_s, 9)  # M/M/1
    2.0
    """
    if not 0.0 < service_time_s < math.inf or not 0.0 <= service_cv2 <= CV2_MAX:
        raise ValueError(f"A service time is positive and its squared coefficient of variation from 0 to {CV2_MAX:g}.")
    check_rates(arrival_rate_per_s, 1.0 / service_time_s, 1)
    load = arrival_rate_per_s * service_time_s
    if load >= 1.0:
        raise UnstableError(
            f"{arrival_rate_per_s:g} requests/s of {service_time_s:g} s each (utilization {load:.6g}): no steady state. "
            "Offer less, or shorten the service."
        )
    return GeneralStation(arrival_rate_per_s, service_time_s, service_cv2)


def md1(arrival_rate_per_s: float, service_time_s: float) -> GeneralStation:
    """M/D/1: constant service, such as equal messages on a link.

    >>> round(md1(0.5, 1.0).mean_waiting_time_s, 9)  # half of M/M/1's
    0.5
    """
    return mg1(arrival_rate_per_s, service_time_s, 0.0)
