"""How many runs: the stop rule of a sweep, the two-stage plan, and textbook sample sizes.

A rule that looks after every run and stops at the first narrow interval stops too early now and then. So its
intervals hold the truth a little less often than they say: about 94 % for CV 5 % and 92 % for CV 10 % with five
runs at least (docs/measure/method.md). Reports that claim exact coverage use the two-stage plan: a pilot, then a number of
runs that is fixed before they are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri, stdtrit

from weir_lab.theory.stats._inputs import checked_level, finite, runs_of, t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Decision", "StopRule", "running_half_widths", "runs_for_precision", "sample_size"]


class Decision(StrEnum):
    """What to do after a run."""

    CONTINUE = "continue"
    CONVERGED = "converged"
    NOT_CONVERGED = "not converged"


@dataclass(frozen=True)
class StopRule:
    """Stop when the interval on run means is within +- ``relative_half_width`` of the mean; look after each run from ``runs_min``.

    Apply it to throughput and mean response time together, never to a percentile alone.
    """

    relative_half_width: float = 0.05
    level: float = 0.95
    runs_min: int = 5
    runs_max: int = 30

    def __post_init__(self) -> None:
        checked_level(self.level)
        if self.relative_half_width <= 0.0 or not 2 <= self.runs_min <= self.runs_max:
            raise ValueError("A stop rule needs a positive half-width and 2 <= runs_min <= runs_max.")

    def decide(self, *responses: ArrayLike) -> Decision:
        """Decision after the runs made so far; each response is one series of run means, all of the same length."""
        series = [np.asarray(response, dtype=np.float64) for response in responses]
        if not series or len({data.shape for data in series}) != 1:
            raise ValueError("The stop rule needs one or more responses of the same runs.")
        n = series[0].size
        if n < self.runs_min:
            return Decision.CONTINUE
        widths = [float(running_half_widths(runs_of(data), self.level)[-1]) for data in series]
        if all(width <= self.relative_half_width for width in widths):
            return Decision.CONVERGED
        return Decision.NOT_CONVERGED if n >= self.runs_max else Decision.CONTINUE


def running_half_widths(values: ArrayLike, level: float = 0.95) -> NDArray[np.float64]:
    """Half-width over mean of the t interval after run 1, 2, ..., along the last axis; infinite after the first run.

    The running sums are taken about the first run, so that a small spread on a large mean does not cancel.

    >>> running_half_widths([1.0, 2.0, 3.0])[-1].round(3)
    np.float64(1.242)
    """
    data = np.asarray(values, dtype=np.float64)
    counts = np.arange(1, data.shape[-1] + 1, dtype=np.float64)
    moved = data - data[..., :1]
    mean = np.cumsum(moved, axis=-1) / counts
    squares = np.maximum(np.cumsum(moved**2, axis=-1) - counts * mean**2, 0.0)
    half = np.full(data.shape, np.inf)
    freedom = counts[1:] - 1.0
    half[..., 1:] = stdtrit(freedom, 0.5 + checked_level(level) / 2.0) * np.sqrt(
        squares[..., 1:] / freedom / counts[1:]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = half / np.abs(mean + data[..., :1])
    return np.where(np.isnan(relative), np.inf, relative)


def runs_for_precision(pilot: ArrayLike, relative_half_width: float = 0.05, level: float = 0.95) -> int:
    """Stein's two-stage plan: max(n0, ceil((t(n0-1) s / (r mean))^2)) runs in all, from a pilot of n0.

    The number is fixed by the pilot alone, so the final interval covers as it says. Reference: Stein, Ann. Math. Statist. 16 (1945).

    >>> runs_for_precision([90.0, 100.0, 110.0, 95.0, 105.0])
    20
    """
    data = runs_of(pilot)
    mean = abs(float(data.mean()))
    if mean == 0.0 or relative_half_width <= 0.0:
        raise ValueError("A relative precision needs a mean other than 0 and a positive half-width.")
    wanted = t_quantile(level, data.size - 1) * float(data.std(ddof=1)) / (relative_half_width * mean)
    return max(int(data.size), math.ceil(wanted**2))


def sample_size(mean: float, sd: float, relative_half_width: float, level: float = 0.95) -> int:
    """Observations for a given precision when the spread is known: ceil((z s / (r mean))^2). Reference: Jain, section 13.9.1.

    >>> sample_size(20.0, 5.0, 0.05)
    97
    """
    finite([mean, sd, relative_half_width], "A sample size")
    if mean == 0.0 or sd < 0.0 or relative_half_width <= 0.0:
        raise ValueError("A sample size needs a mean other than 0, a spread of at least 0 and a positive half-width.")
    quantile = float(ndtri(0.5 + checked_level(level) / 2.0))
    return max(1, math.ceil((quantile * sd / (relative_half_width * abs(mean))) ** 2))
