"""One server whose service times vary more than exponential ones: what percentiles depend on beside mean and variability.

::

    share 1 - q: short, exponential       |
                                           >  mean S, squared coefficient of variation c² > 1, for every q up to 2 / (1 + c²)
    share q:     long, exponential        |

Mean and c² fix the mean response time and nothing else. A server whose time is 1 ms once in a thousand requests and one whose times
are spread evenly may have the same c², and percentiles that differ tenfold. `shapes` gives stations from one end of this family to the
other; the smallest and the largest of their percentiles bracket what is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.queueing.single.general import GeneralStation, mg1

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HyperexponentialStation", "shapes"]

# Once in ten thousand requests is as rare as anybody measures.
_RAREST = 1e-4
_GRID = 7


@dataclass(frozen=True)
class HyperexponentialStation:
    """M/H2/1 in steady state. A share ``long_share`` of the services has the mean ``long_s``, the others ``short_s``; both exponential."""

    arrival_rate_per_s: float
    long_share: float
    long_s: float
    short_s: float

    @property
    def service_time_s(self) -> float:
        """Mean of both."""
        return self.long_share * self.long_s + (1.0 - self.long_share) * self.short_s

    @property
    def utilization(self) -> float:
        """ρ = λ S."""
        return self.arrival_rate_per_s * self.service_time_s

    @property
    def mean_response_time_s(self) -> float:
        """S + λ E[S²] / (2 (1-ρ)) (Pollaczek and Khinchine)."""
        second = 2.0 * (self.long_share * self.long_s**2 + (1.0 - self.long_share) * self.short_s**2)
        return self.service_time_s + self.arrival_rate_per_s * second / (2.0 * (1.0 - self.utilization))

    def response_transform(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Laplace transform of the response time's density: (1-ρ) B / (1 - ρF), F the residual service time's."""
        service = self.long_share / (1.0 + s * self.long_s) + (1.0 - self.long_share) / (1.0 + s * self.short_s)
        # The residual time of an exponential one is exponential; it is found in proportion to share times mean.
        long_part = self.long_share * self.long_s / self.service_time_s
        residual = long_part / (1.0 + s * self.long_s) + (1.0 - long_part) / (1.0 + s * self.short_s)
        return np.asarray((1.0 - self.utilization) * service / (1.0 - self.utilization * residual))


def shapes(
    arrival_rate_per_s: float, service_time_s: float, service_cv2: float
) -> list[GeneralStation | HyperexponentialStation]:
    """Stations of equal mean and variability: gamma distributed service, then long services from as many as there can be to rare ones.

    >>> found = shapes(0.5, 1.0, 4.0)
    >>> {round(station.mean_response_time_s, 6) for station in found}
    {3.5}
    """
    gamma = mg1(arrival_rate_per_s, service_time_s, service_cv2)
    if service_cv2 <= 1.0:
        return [gamma]
    most = 2.0 / (1.0 + service_cv2)
    # A little less than the most: there the short services take no time at all.
    shares = np.geomspace(most * (1.0 - 1e-9), min(_RAREST, most / 10.0), _GRID).tolist()
    # Shares where both kinds bring the same load ("balanced means") are the usual choice of textbooks.
    balanced = 0.5 * (1.0 - math.sqrt((service_cv2 - 1.0) / (service_cv2 + 1.0)))
    return [gamma, *(_two_kinds(arrival_rate_per_s, service_time_s, service_cv2, q) for q in [*shares, balanced])]


def _two_kinds(rate: float, mean: float, cv2: float, q: float) -> HyperexponentialStation:
    """Times x (short) and y (long) with q y + (1-q) x = 1 and 2 (q y² + (1-q) x²) = 1 + c²."""
    apart = math.sqrt((cv2 - 1.0) / (2.0 * q * (1.0 - q)))  # y - x
    short = max(0.0, 1.0 - q * apart)
    return HyperexponentialStation(rate, q, mean * (1.0 - (1.0 - q) * short) / q, mean * short)
