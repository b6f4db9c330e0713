"""The largest rate at which a goal is met, from runs that meet it or do not: `CapacitySearch`.

A run at the rate x meets the goal with a probability that falls as x grows. The *capacity* C is the rate at which
it is one half: the goal is as often met as missed. The search keeps a probability for every C (stochastic or
probabilistic bisection: Horstein 1963; Waeber, Frazier and Henderson 2013). The probability of a right answer is
not known and depends on x, so the search keeps one for every width w of the fall as well::

    P(met at x | C, w) = e + (1 - 2 e) Φ((ln C - ln x) / w)

with a share e of runs that something else decides. In this form thresholds are measured in psychophysics (Watson and Pelli 1983; Kontsevich
and Tyler 1999). Rates are tried at the 10 and 90 % quantiles of C in turn: there an answer tells of the width, too. The interval is the
central one of C with all widths weighed.

What simulation says (docs/measure/find.md): 92 % or more at a nominal 95 % for smooth, skewed, saturating and abrupt responses, with
one run in twenty spoiled. It assumes runs that do not depend on each other, and a system that stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CapacityEstimate", "CapacityRatio", "CapacitySearch", "SearchVerdict", "capacity_ratio"]

# Steps of ln C: finer than any interval that is asked for.
_STEP = 0.004
# C may lie outside of the rates that may be tried, by this factor: then the search says so.
_OUTSIDE = 2.0
# Widths of the fall, in ln x. 0.005 is as good as a step; at 1 the goal is met at twice the capacity in a quarter of the runs.
_WIDTHS = np.geomspace(0.005, 1.0, 12)
# Wide falls count more beforehand: with equal weights on logarithms the search stopped too early where the fall is wide.
_WIDTH_POWER = 0.3
_SPOILED = 0.02
# The first rates halve what is left; then both sides in turn.
_HALVINGS = 4
_SIDES = (0.1, 0.9)
# Votes drift when neighbouring surprises agree this much: the 95 % quantile of a standard normal variable.
_DRIFT = 1.64


class SearchVerdict(StrEnum):
    """How far a search has come."""

    CONTINUE = "not narrow enough yet"
    FOUND = "found"
    ABOVE = "above the largest rate"
    BELOW = "below the smallest rate"


@dataclass(frozen=True)
class CapacityEstimate:
    """Median of the capacity and its central interval at a level, in the unit of the rates."""

    capacity: float
    low: float
    high: float
    level: float
    verdict: SearchVerdict

    @property
    def half_width(self) -> float:
        """Of the interval on logarithms, as a share: 0.1 is a factor of 1.1 to each side."""
        return float(np.expm1(np.log(self.high / self.low) / 2))


class CapacitySearch:
    """A search between two rates until the interval of the capacity is within a share of it.

    Parameters
    ----------
    rate_min, rate_max
        Smallest and largest rate that may be tried, in any unit.
    half_width
        The search ends when the interval's ends are this share from its middle, on logarithms.
    level
        Of the interval.
    runs_min
        No search ends with fewer runs, unless the capacity is outside of the rates.

    >>> search = CapacitySearch(100.0, 100_000.0, half_width=0.1)
    >>> while search.estimate().verdict is SearchVerdict.CONTINUE:
    ...     rate = search.next_rate()
    ...     search.add(rate, met=rate < 5_000.0)
    >>> search.estimate().low < 5_000.0 < search.estimate().high
    True
    """

    def __init__(
        self, rate_min: float, rate_max: float, half_width: float = 0.1, level: float = 0.95, runs_min: int = 8
    ) -> None:
        if not 0.0 < rate_min < rate_max:
            raise ValueError(f"Give 0 < rate_min < rate_max, not {rate_min:g} and {rate_max:g}.")
        if not (0.0 < half_width < 1.0 and 0.5 < level < 1.0):
            raise ValueError("Give a half_width between 0 and 1 and a level between 0.5 and 1.")
        self._ends = rate_min, rate_max
        self._half_width, self._level, self._runs_min = half_width, level, runs_min
        low, high = np.log(rate_min / _OUTSIDE), np.log(rate_max * _OUTSIDE)
        self._log_c = np.linspace(low, high, int(np.ceil((high - low) / _STEP)) + 1)
        self._log_p = np.zeros((self._log_c.size, _WIDTHS.size)) + _WIDTH_POWER * np.log(_WIDTHS)
        self._runs = 0
        self._surprises: list[float] = []
        self._below = self._weigh()

    @property
    def runs(self) -> int:
        """Runs so far."""
        return self._runs

    def add(self, rate: float, *, met: bool) -> None:
        """A run at a rate met the goal, or did not."""
        fall = ndtr((self._log_c[:, None] - np.log(rate)) / _WIDTHS)
        share = _SPOILED + (1.0 - 2.0 * _SPOILED) * fall
        weights = np.exp(self._log_p - self._log_p.max())
        expected = float((weights * share).sum() / weights.sum())
        self._surprises.append((met - expected) / float(np.sqrt(expected * (1.0 - expected))))
        self._log_p += np.log(share if met else 1.0 - share)
        self._runs += 1
        self._below = self._weigh()

    def next_rate(self) -> float:
        """The rate that should be tried next."""
        side = 0.5 if self._runs < _HALVINGS else _SIDES[self._runs % 2]
        return float(np.clip(self._quantiles(side)[0], *self._ends))

    def estimate(self) -> CapacityEstimate:
        """What is known by now."""
        tail = (1.0 - self._level) / 2.0
        low, middle, high = self._quantiles(tail, 0.5, 1.0 - tail)
        return CapacityEstimate(middle, low, high, self._level, self._verdict(low, high))

    @property
    def drifts(self) -> bool:
        """Whether votes go against what was expected of them several times in a row, more than independent ones do.

        What a vote is expected to be rests on the votes before it alone. So the products of neighbouring surprises (standardized
        residuals) have the mean 0 if votes are independent and as modelled. The variance of one is the square of the surprise before
        it, so their sum over the root of the summed squares is about a standard normal variable. The first four
        are left out. Simulated warnings: docs/measure/find.md.
        """
        left = np.array(self._surprises[_HALVINGS:])
        if left.size <= 2:
            return False
        return bool((left[1:] * left[:-1]).sum() > _DRIFT * np.sqrt((left[:-1] ** 2).sum()))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Probability of each step of ln C, all widths together."""
        weights: NDArray[np.float64] = np.exp(self._log_p - self._log_p.max()).sum(axis=1)
        weights /= weights.sum()
        return weights

    @property
    def log_capacities(self) -> NDArray[np.float64]:
        """The steps of ln C that have the weights, evenly spaced."""
        return self._log_c

    def _verdict(self, low: float, high: float) -> SearchVerdict:
        rate_min, rate_max = self._ends
        if low >= rate_max:
            return SearchVerdict.ABOVE
        if high <= rate_min:
            return SearchVerdict.BELOW
        narrow = np.log(high / low) / 2.0 <= np.log1p(self._half_width)
        return SearchVerdict.FOUND if narrow and self._runs >= self._runs_min else SearchVerdict.CONTINUE

    def _weigh(self) -> NDArray[np.float64]:
        """Probability of a smaller capacity than each step's, all widths together; half of a step's own lies on each side of it."""
        weights = self.weights
        below: NDArray[np.float64] = np.cumsum(weights) - weights / 2.0
        return below

    def _quantiles(self, *shares: float) -> list[float]:
        return [float(np.exp(np.interp(share, self._below, self._log_c))) for share in shares]


@dataclass(frozen=True)
class CapacityRatio:
    """How many times one capacity is another: median, and central interval at a level."""

    ratio: float
    low: float
    high: float
    level: float

    @property
    def shown(self) -> bool:
        """Whether the interval is without 1."""
        return self.low > 1.0 or self.high < 1.0


def capacity_ratio(base: CapacitySearch, other: CapacitySearch, level: float = 0.95) -> CapacityRatio:
    """The capacity of ``other`` over that of ``base``, from two searches between the same rates that share no run.

    The difference of two logarithms has the convolution of their probabilities.

    Raises
    ------
    ValueError
        If the searches were between other rates.
    """
    steps = base.log_capacities
    if steps.size != other.log_capacities.size or not np.allclose(steps, other.log_capacities):
        raise ValueError("Compare searches between the same rates: give both one rate_min and one rate_max.")
    weights = np.convolve(other.weights, base.weights[::-1])
    differences = (np.arange(weights.size) - (steps.size - 1)) * (steps[1] - steps[0])
    below = np.cumsum(weights) - weights / 2.0
    tail = (1.0 - level) / 2.0
    low, middle, high = (float(np.exp(np.interp(share, below, differences))) for share in (tail, 0.5, 1.0 - tail))
    return CapacityRatio(middle, low, high, level)
