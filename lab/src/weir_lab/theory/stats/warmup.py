"""Where the steady state begins: MSER-5, and when not to believe it.

MSER-5 deletes the first d batches of 5 so that the standard error of the rest is least. It was the best automatic
candidate of the Warwick studies (Hoad, Robinson and Davies 2008), and can fail (Wang and Glynn 2016). Its answer
depends on the variable. So take the longest cut over several of them, never less than a fixed floor, and show the
series in the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.stats._inputs import finite

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Truncation", "mser5", "warmup_cut"]

_BATCH = 5
# Below this many batches the first half offers too few places to tell a warm-up from noise.
_BATCHES_MIN = 10


@dataclass(frozen=True)
class Truncation:
    """How many leading observations to delete. Not ``stationary``: the best cut is the last one tried, so there may be no steady state."""

    delete: int
    n: int
    stationary: bool


def mser5(series: ArrayLike) -> Truncation:
    """Delete d batches of 5 that minimise sum (Y_i - mean)^2 / (k - d)^2 over the k - d batch means that are kept.

    Only the first half is searched, because the statistic falls to 0 with the last few values. Observations that do not fill a batch
    are left out at the end. Missing seconds must have been filled with zeros. Reference: White, Cobb and Spratt (2000).

    >>> mser5([10.0] * 5 + [100.0, 101.0, 99.0, 102.0, 98.0] * 20).delete
    5
    """
    data = finite(series, "MSER-5", at_least=_BATCH * _BATCHES_MIN)
    batches = data[: data.size // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    count = batches.size
    last = count // 2
    # Sums over the tail from each cut on, about the overall mean so that they do not cancel.
    centred = batches - batches.mean()
    tail = np.cumsum(centred[::-1])[::-1][: last + 1]
    squares = np.cumsum((centred**2)[::-1])[::-1][: last + 1]
    kept = count - np.arange(last + 1)
    statistic = np.maximum(squares - tail**2 / kept, 0.0) / kept.astype(np.float64) ** 2
    best = int(np.argmin(statistic))
    return Truncation(best * _BATCH, int(data.size), stationary=best < last)


def warmup_cut(*series: ArrayLike, floor: int = 0) -> Truncation:
    """The longest of a fixed floor and MSER-5 on each series (throughput and mean response time, say), in observations.

    >>> steady = [100.0, 101.0, 99.0, 102.0, 98.0] * 12
    >>> warmup_cut(steady, [500.0] * 5 + steady[5:], floor=3).delete
    5
    """
    cuts = [mser5(values) for values in series]
    if not cuts or len({cut.n for cut in cuts}) != 1 or not 0 <= floor < cuts[0].n:
        raise ValueError("The cut needs one or more series of the same length, and a floor inside it.")
    return Truncation(max(floor, *(cut.delete for cut in cuts)), cuts[0].n, all(cut.stationary for cut in cuts))
