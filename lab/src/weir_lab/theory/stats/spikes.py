"""Spikes of a series by a rule that is fixed before the data: `find_spikes`, and what else was unusual at the same time: `coincidences`.

A *spike* is a run of neighbouring windows that are further from their local median than `FACTOR` robust standard deviations of the series,
and than `LEAST` of that median. The local median is that of the windows up to `REACH` away on each side, so that slow changes are none. The
robust standard deviation is 1.4826 times the median distance (Rousseeuw and Croux, J. Am. Stat. Assoc. 88, 1993), so that spikes do not
hide themselves. In an hour of 3,600 independent normal windows a distance of five standard deviations comes once in 500 hours.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import median_filter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["FACTOR", "LEAST", "REACH", "Spike", "coincidences", "find_spikes", "spike_reach"]

FACTOR = 5.0
LEAST = 0.1
REACH = 30
# What is larger than in all but one of a hundred windows without a spike is unusual.
_UNUSUAL = 0.99


@dataclass(frozen=True)
class Spike:
    """Windows ``first`` to ``first + count - 1``; ``size`` is the furthest from the local median, as a share of it: -0.4 is 40 % less."""

    first: int
    count: int
    size: float


def find_spikes(values: Sequence[float], factor: float = FACTOR, least: float = LEAST) -> list[Spike]:
    """Spikes of either sign, in order; a series of fewer windows than twice `REACH` has no local median, and none.

    >>> series = [100.0, 102.0, 98.0, 101.0] * 30
    >>> series[50:52] = [55.0, 70.0]
    >>> [(spike.first, spike.count, round(spike.size, 2)) for spike in find_spikes(series)]
    [(50, 2, -0.45)]
    """
    series = np.asarray(values, dtype=float)
    if series.size < 2 * REACH:
        return []
    off = _off(series)
    reach = _reach_of(off, factor, least)
    signs = np.where(np.abs(off) > reach, np.sign(off), 0.0)
    found = []
    edges = np.flatnonzero(np.diff(signs, prepend=0.0, append=0.0)).tolist()
    for first, end in itertools.pairwise(edges):
        if signs[first]:
            part = off[first:end]
            found.append(Spike(first, end - first, float(part[np.argmax(np.abs(part))])))
    return found


def spike_reach(values: Sequence[float], factor: float = FACTOR, least: float = LEAST) -> float:
    """From how far off its local median on a window is a spike, as a share of that; infinite where the series has no local median.

    >>> spike_reach([100.0, 102.0, 98.0, 101.0] * 30)
    0.1
    """
    series = np.asarray(values, dtype=float)
    return _reach_of(_off(series), factor, least) if series.size >= 2 * REACH else math.inf


def _off(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each window is off its local median, as a share of that."""
    local = median_filter(series, size=2 * REACH + 1, mode="reflect")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(local > 0.0, series / local - 1.0, 0.0))


def _reach_of(off: NDArray[np.float64], factor: float, least: float) -> float:
    return max(least, factor * 1.4826 * float(np.median(np.abs(off))))


def coincidences(
    spikes: Sequence[Spike], causes: Mapping[str, Sequence[float]], least: Mapping[str, float]
) -> list[list[str]]:
    """For each spike the causes that were unusual in its windows or a window beside: above 99 % of the others, and above ``least``.

    By chance a cause that has nothing to do with spikes is named for 1 % of the windows that are looked at, some 3 % of short spikes.
    """
    columns = {name: np.asarray(column, dtype=float) for name, column in causes.items()}
    length = min((column.size for column in columns.values()), default=0)
    inside = np.zeros(length, dtype=bool)
    for spike in spikes:
        inside[max(0, spike.first - 1) : spike.first + spike.count + 1] = True
    limits = {name: max(least.get(name, 0.0), _usual(column[:length][~inside])) for name, column in columns.items()}
    found = []
    for spike in spikes:
        near = slice(max(0, spike.first - 1), spike.first + spike.count + 1)
        found.append([name for name, column in columns.items() if np.any(column[:length][near] > limits[name])])
    return found


def _usual(column: NDArray[np.float64]) -> float:
    return float(np.quantile(column, _UNUSUAL)) if column.size else 0.0
