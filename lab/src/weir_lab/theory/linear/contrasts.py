"""Contrasts judged together: each with an interval that holds for all of them at once, and a p value that says the same as the interval.

Where all cells have one spread, errors are pooled and the quantile is that of the largest |t| (`simultaneous`).
Where the check of equal spread fails, each contrast takes the spread of its own: from its values block by block where every block has
every cell, from the spread of each of its cells otherwise. Their errors are then no longer one, and Bonferroni's level holds whatever they
have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr, stdtrit

from weir_lab.theory.linear.checks import Spread, spread_of
from weir_lab.theory.linear.simultaneous import max_t_p, max_t_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from weir_lab.theory.linear.fit import Estimate, Fit

__all__ = ["Contrast", "ErrorFrom", "beyond", "compare", "own_or_pooled", "p_beyond", "tail_above"]


class ErrorFrom(StrEnum):
    """Where a contrast's standard error comes from."""

    ALL = "all cells"
    BLOCKS = "its own blocks"
    CELLS = "its own cells"


@dataclass(frozen=True)
class Contrast:
    """An estimate with a two-sided interval, in the unit of the response.

    ``family`` is the number of contrasts that interval and ``p`` hold for together; ``quantile`` the number of standard errors to each end.
    """

    value: float
    standard_error: float
    freedom: float
    quantile: float
    p: float
    level: float
    family: int
    error_from: ErrorFrom

    @property
    def low(self) -> float:
        """Lower end."""
        return self.value - self.quantile * self.standard_error

    @property
    def high(self) -> float:
        """Upper end."""
        return self.value + self.quantile * self.standard_error

    @property
    def shown(self) -> bool:
        """Whether an effect is shown: the interval is without 0."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def detectable(self) -> float:
        """The smallest effect that is found in 4 of 5 repetitions of such a study."""
        return (self.quantile + float(stdtrit(self.freedom, 0.8))) * self.standard_error


def compare(
    fit: Fit,
    contrasts: Sequence[Mapping[Any, float]],
    level: float = 0.95,
    spread: Spread | None = None,
) -> list[Contrast]:
    """All contrasts, with intervals that hold together with probability ``level``; one alone has its plain t interval.

    ``spread`` is the outcome of the check, made here if not given.

    >>> from weir_lab.theory.linear import fit, lay_out
    >>> made = fit(lay_out(["a", "b", "a", "b", "a", "b"], [1, 1, 2, 2, 3, 3]), [1.0, 3.0, 5.0, 8.0, 2.0, 3.0])
    >>> (found,) = compare(made, [{"b": 1, "a": -1}])
    >>> found.value, round(found.p, 3)
    (2.0, 0.074)
    """
    if not contrasts:
        return []
    if (spread or spread_of(fit)).equal:
        return _pooled(fit, contrasts, level)
    alpha = (1.0 - level) / len(contrasts)
    found = []
    for one in contrasts:
        estimate, source = _own_error(fit, one)
        quantile = float(stdtrit(estimate.freedom, 1.0 - alpha / 2.0))
        p = min(1.0, len(contrasts) * 2.0 * float(stdtr(estimate.freedom, -_t(estimate))))
        found.append(_contrast(estimate, quantile, p, level, len(contrasts), source))
    return found


def _pooled(fit: Fit, contrasts: Sequence[Mapping[Any, float]], level: float) -> list[Contrast]:
    estimates, correlation = fit.contrasts(contrasts)
    quantile = max_t_quantile(correlation, fit.freedom, level)
    return [
        _contrast(one, quantile, max_t_p(_t(one), correlation, fit.freedom), level, len(contrasts), ErrorFrom.ALL)
        for one in estimates
    ]


def beyond(
    fit: Fit,
    contrasts: Sequence[Mapping[Any, float]],
    limit: float,
    spread: Spread | None = None,
) -> list[tuple[Estimate, float]]:
    """Each contrast with a p value for lying at ``limit`` or below, two-sided and for all of them together; 1 where it lies there.

    It is at most 5 % exactly where the 95 % interval that `compare` gives lies above the limit.
    """
    if not contrasts:
        return []
    if not (spread or spread_of(fit)).equal:
        own = [_own_error(fit, one)[0] for one in contrasts]
        return [(one, min(1.0, len(contrasts) * 2.0 * tail_above(one, limit))) for one in own]
    estimates, correlation = fit.contrasts(contrasts)
    return [(one, p_beyond(one, limit, correlation)) for one in estimates]


def p_beyond(one: Estimate, limit: float, correlation: NDArray[np.float64]) -> float:
    """What `beyond` says of one of several contrasts with the pooled error and this correlation."""
    single = tail_above(one, limit)
    if single >= 0.5 or single == 0.0:
        return float(single >= 0.5)
    return max_t_p((one.value - limit) / one.standard_error, correlation, one.freedom)


def tail_above(estimate: Estimate, limit: float) -> float:
    """Chance of an estimate so far above the limit where the truth is the limit; data without spread are exact."""
    if estimate.standard_error == 0.0:
        return float(estimate.value <= limit)
    return float(stdtr(estimate.freedom, -(estimate.value - limit) / estimate.standard_error))


def own_or_pooled(fit: Fit, contrast: Mapping[Any, float], spread: Spread) -> tuple[Estimate, ErrorFrom]:
    """A contrast with the error that the check of equal spread allows."""
    return (fit.contrast(contrast), ErrorFrom.ALL) if spread.equal else _own_error(fit, contrast)


def _own_error(fit: Fit, contrast: Mapping[Any, float]) -> tuple[Estimate, ErrorFrom]:
    if fit.layout.block is None:
        return fit.contrast_by_cell(contrast), ErrorFrom.CELLS
    if fit.complete:
        return fit.contrast_by_block(contrast), ErrorFrom.BLOCKS
    return fit.contrast_by_spread(contrast), ErrorFrom.CELLS


def _t(estimate: Estimate) -> float:
    """Absolute t. Data without spread are exact: then an effect is certain, or there is none."""
    if estimate.standard_error > 0.0:
        return abs(estimate.value) / estimate.standard_error
    return math.inf if estimate.value else 0.0


def _contrast(estimate: Estimate, quantile: float, p: float, level: float, family: int, source: ErrorFrom) -> Contrast:
    return Contrast(estimate.value, estimate.standard_error, estimate.freedom, quantile, p, level, family, source)
