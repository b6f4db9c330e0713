"""The mean of a series, and its change along a straight line, where neighbours may be alike: `mean_along` and `change_along`.

And whether two series of one run go together: `together`.

Parts of one run follow each other, and a machine that is slow in one of them is often slow in the next. Least squares for independent
values are then too sure. If neighbours correlate by r, n values tell as much as n (1 - r) / (1 + r) independent ones, and that many are
counted here (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8, 1946). r is that of the residuals, with what the fit takes from it given
back (Marriott and Pope, Biometrika 41, 1954), and never below 0: values that alternate are taken as independent. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.stats._inputs import finite, t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["AlongSeries", "Together", "change_along", "mean_along", "together"]

# What a fit of one parameter takes from a correlation of neighbours r over n values is (1 + 4 r) / n; of two, (2 + 5 r) / n.
_LOST_OF_R = 3.0
# Of few values the expansion in 1 / n says nothing.
_KEPT_OF_R_MIN = 0.5


@dataclass(frozen=True)
class AlongSeries:
    """A number of a series with its standard error, both in the unit of the series; ``lag1`` is the correlation of neighbours, from 0 on.

    ``standard_error`` is infinite where values are so much alike that they tell less than the fit takes.
    """

    value: float
    standard_error: float
    freedom: float
    lag1: float

    def half_width(self, level: float = 0.95) -> float:
        """Half of its interval, Student's t."""
        return self.standard_error * t_quantile(level, self.freedom) if math.isfinite(self.standard_error) else math.inf


@dataclass(frozen=True)
class Together:
    """How two series of one run go together: their ``correlation``, and the one furthest from 0 that they have when one is ``shifted``."""

    correlation: float
    shifted: float

    @property
    def explained(self) -> float:
        """The share of the variance of one that goes with the other."""
        return self.correlation**2


def together(series: ArrayLike, others: ArrayLike, apart: int) -> Together | None:
    """The correlation of two series of equal length, and what it is by chance where both are slow to change.

    By chance is what they have when the second is shifted around by ``apart`` values or more, its end put before its beginning: what moves
    one cannot be seen in the other then, and each is as slow as before. So of a cause that is slow itself this tells nothing. ``None``
    where one of them never changes, or where fewer than four times ``apart`` values are there.

    >>> found = together([1.0, 2.0, 1.0, 4.0, 1.0, 1.0, 2.0, 1.0], [-1.0, -2.0, -1.0, -4.0, -1.0, -1.0, -2.0, -1.0], 2)
    >>> round(found.correlation, 6), found.shifted < 0.7
    (-1.0, True)
    """
    one, two = finite(series, "A correlation", at_least=2), finite(others, "A correlation", at_least=2)
    if one.size != two.size:
        raise ValueError(f"A correlation needs series of equal length, not {one.size} and {two.size} values.")
    if one.size < 4 * apart or np.ptp(one) == 0.0 or np.ptp(two) == 0.0:
        return None
    first, second = ((data - data.mean()) / (data.std() * math.sqrt(data.size)) for data in (one, two))
    # All shifts at once: the circular cross-correlation.
    found = np.fft.irfft(np.fft.rfft(first) * np.conj(np.fft.rfft(second)), one.size)
    far = found[apart : one.size - apart + 1]
    return Together(float(found[0]), float(far[np.argmax(np.abs(far))]))


def mean_along(series: ArrayLike) -> AlongSeries:
    """The mean of at least two values.

    >>> found = mean_along([1.0, 3.0, 1.0, 3.0, 1.0, 3.0])
    >>> found.value, found.lag1, found.freedom
    (2.0, 0.0, 5.0)
    """
    data = finite(series, "A mean of a series", at_least=2)
    mean = float(data.mean())
    return _with_error(mean, data - mean, 1, 1.0 / data.size)


def change_along(series: ArrayLike) -> AlongSeries:
    """The change from the first value to the last along the straight line of least squares, of at least three values.

    >>> round(change_along([1.0, 2.0, 3.0, 4.0]).value, 9)
    3.0
    """
    data = finite(series, "A change along a series", at_least=3)
    place = np.arange(data.size) - (data.size - 1) / 2.0
    about = float(place @ place)
    slope, span = float((place @ data) / about), data.size - 1.0
    return _with_error(slope * span, data - data.mean() - slope * place, 2, span * span / about)


def _with_error(value: float, left: NDArray[np.float64], fitted: int, share: float) -> AlongSeries:
    """``share``: the variance of the value over that of one of the series, if these were independent."""
    size, spread = left.size, float(left @ left)
    seen = float(left[1:] @ left[:-1]) / spread if spread > 0.0 else 0.0
    kept = max(_KEPT_OF_R_MIN, 1.0 - (_LOST_OF_R + fitted) / size)
    lag1 = min(0.99, max(0.0, (seen + fitted / size) / kept))
    # That many independent values; the sum of squares lacks what the fit takes of them.
    freedom = size * (1.0 - lag1) / (1.0 + lag1) - fitted
    if freedom < 1.0:
        return AlongSeries(value, math.inf, 1.0, lag1)
    return AlongSeries(value, math.sqrt(spread / freedom * share), freedom, lag1)
