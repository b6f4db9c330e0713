"""The operational laws: relations between measured averages that need no assumption on distributions.

Each check takes one number per run (or single numbers), compares left and right side run by run, and judges the
relative deviation. The law *holds* if the whole interval lies within the tolerance. It is *broken* if the whole
interval lies outside. Else the runs cannot tell. References: Denning and Buzen, The operational analysis of
queueing network models (1978); Jain, ch. 33.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.stats import mean_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LawCheck",
    "LawVerdict",
    "forced_flow_law",
    "littles_law",
    "response_time_law",
    "utilization_law",
]

# Above this the method suspects lost clients, partial windows or hidden think time (docs/measure/method.md).
TOLERANCE = 0.03


class LawVerdict(StrEnum):
    """What the runs say about a law."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class LawCheck:
    """A law on measured numbers. ``expected`` and ``observed`` are means over runs in ``unit``; deviations are shares of the expected.

    ``low`` and ``high`` bound the mean deviation at the given level; they equal it for single numbers.
    """

    law: str
    unit: str
    expected: float
    observed: float
    deviation: float
    low: float
    high: float
    tolerance: float
    verdict: LawVerdict
    reason: str


def utilization_law(
    throughput_per_s: ArrayLike,
    service_time_s: ArrayLike,
    utilization: ArrayLike,
    servers: int = 1,
    tolerance: float = TOLERANCE,
) -> LawCheck:
    """U = X S / m for m servers.

    >>> utilization_law(100.0, 0.005, 0.5).verdict.value
    'holds'
    """
    x, s, u = _runs(throughput_per_s, service_time_s, utilization)
    hints = ("work that is not the requests'", "service that is not counted, or a throughput over another interval")
    return _judge("U = X S / m", "1", x * s / servers, u, tolerance, hints)


def forced_flow_law(
    system_throughput_per_s: ArrayLike,
    visit_ratio: float,
    station_throughput_per_s: ArrayLike,
    tolerance: float = TOLERANCE,
) -> LawCheck:
    """X_station = V X_system."""
    system, station = _runs(system_throughput_per_s, station_throughput_per_s)
    hints = ("requests that are not the system's, or a wrong visit ratio", "requests lost on the way to the station")
    return _judge("X_i = V_i X", "1/s", visit_ratio * system, station, tolerance, hints)


def littles_law(
    jobs: ArrayLike, throughput_per_s: ArrayLike, time_s: ArrayLike, tolerance: float = TOLERANCE
) -> LawCheck:
    """N = X R, for any part of the system that requests enter and leave.

    >>> littles_law(10.0, 1000.0, 0.02).verdict.value
    'broken'
    """
    n, x, r = _runs(jobs, throughput_per_s, time_s)
    hints = ("jobs counted outside the part, or times that end too early", "jobs not seen, or times of another part")
    return _judge("N = X R", "jobs", x * r, n, tolerance, hints)


def response_time_law(
    population: ArrayLike,
    throughput_per_s: ArrayLike,
    response_time_s: ArrayLike,
    think_time_s: float = 0.0,
    tolerance: float = TOLERANCE,
) -> LawCheck:
    """R = N/X - Z for N clients that always think or wait (interactive response time law)."""
    n, x, r = _runs(population, throughput_per_s, response_time_s)
    law = n / x - think_time_s
    if (law <= 0.0).any():
        raise ValueError("The think time is longer than a whole cycle N/X: one of the three inputs is wrong.")
    hints = (
        "more requests circulate than stated, or mean and throughput come from different intervals",
        "clients that stand still, or think time that is not named",
    )
    return _judge("R = N/X - Z", "s", law, r, tolerance, hints)


def _runs(*values: ArrayLike) -> list[NDArray[np.float64]]:
    arrays = [np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values]
    size = max(array.size for array in arrays)
    for array in arrays:
        if array.ndim != 1 or array.size not in (1, size):
            raise ValueError("A law needs one number per run in each of its inputs, or one for all.")
        if not np.isfinite(array).all() or (array < 0.0).any():
            raise ValueError("A law needs finite numbers that are not negative.")
    return [np.broadcast_to(array, (size,)) for array in arrays]


def _judge(
    law: str,
    unit: str,
    expected: NDArray[np.float64],
    observed: NDArray[np.float64],
    tolerance: float,
    hints: tuple[str, str],
    *,
    upper_only: bool = False,
) -> LawCheck:
    if tolerance < 0.0 or (expected <= 0.0).any():
        raise ValueError(f"{law}: the expected side must be positive and the tolerance not negative.")
    deviations = observed / expected - 1.0
    mean = low = high = float(deviations.mean())
    if deviations.size > 1:
        interval = mean_interval(deviations)
        low, high = interval.low, interval.high
    floor = -np.inf if upper_only else -tolerance
    # Equal sides may differ in their last bits.
    slack = 1e-12
    if floor - slack <= low and high <= tolerance + slack:
        verdict, reason = LawVerdict.HOLDS, f"{law}: {100 * mean:+.2f} %, within {100 * tolerance:g} %"
    elif low > tolerance + slack or high < floor - slack:
        verdict = LawVerdict.BROKEN
        reason = (
            f"{law}: {100 * mean:+.2f} %, beyond {100 * tolerance:g} %: look for {hints[0] if mean > 0 else hints[1]}"
        )
    else:
        verdict = LawVerdict.UNDECIDED
        reason = f"{law}: {100 * low:+.2f} % to {100 * high:+.2f} %; the runs cannot tell at {100 * tolerance:g} %: make more"
    return LawCheck(
        law, unit, float(expected.mean()), float(observed.mean()), mean, low, high, tolerance, verdict, reason
    )
