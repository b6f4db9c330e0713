"""Effects of a 2^k r design from its raw observations, by the sign table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from weir_lab.theory.linear import Fit, Layout, fit, lay_out, spread_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Effect", "ErrorOf", "Estimate", "FactorialAnalysis", "analyse_factorial"]

FACTORS_MAX = 12
# With fewer repetitions one loud cell looks like noise of all: blocks share what its two runs differ by, and no check of spreads sees it.
_CHECKED_MIN = 3


class ErrorOf(StrEnum):
    """What an effect's interval rests on: one error of all cells, its own values block by block, or the spread of each cell."""

    POOLED = "pooled"
    BLOCKS = "blocks"
    CELLS = "cells"


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error, the degrees of freedom of that, and its two-sided interval, in the unit of the response."""

    value: float
    standard_error: float
    low: float
    high: float
    level: float
    freedom: float


@dataclass(frozen=True)
class Effect:
    """A term of the model. ``effect`` q is half of the change from the low to the high level, in the unit of the response.

    ``term`` names the factors ("AB" for the interaction of A and B, "I" for the mean). ``sum_of_squares`` is 2^k r q^2;
    ``percent_of_variation`` its share of SST, None for the mean. ``interval`` and ``significant`` are None with one run per cell.
    Important (a large share) and significant (an interval without 0) are different things.
    """

    term: str
    effect: float
    sum_of_squares: float
    percent_of_variation: float | None
    interval: Estimate | None
    significant: bool | None


@dataclass(frozen=True, eq=False)
class FactorialAnalysis:
    """A fitted 2^k r design. SSY = SS0 + SST, SST = sum of the terms' squares + SSB + SSE.

    ``residuals`` has one row per cell, ``predicted`` is the cell mean; ``freedom`` of the error is 2^k (r-1). ``sd_error`` and
    ``sd_effect`` = sd_error / sqrt(2^k r) are None when r = 1. Where repetitions are blocks, ``ss_blocks`` (SSB) is what they have in
    common, taken out of error and residuals, and (2^k - 1)(r-1) degrees of freedom are left; it is None otherwise.

    Where cells differ in spread, effects have one standard error all the same, but fewer degrees of freedom, and are no longer independent.
    So an effect's interval comes then from its own values block by block; where there are no blocks, or only two runs of a cell, from the
    spread of each cell. ``error_of`` says which.
    """

    factors: tuple[str, ...]
    repetitions: int
    effects: tuple[Effect, ...]
    sse: float
    sst: float
    ssy: float
    ss0: float
    freedom: int
    sd_error: float | None
    sd_effect: float | None
    level: float
    levels: NDArray[np.float64]
    observations: NDArray[np.float64]
    predicted: NDArray[np.float64]
    residuals: NDArray[np.float64]
    fit: Fit | None = None
    """Cells, and blocks if there are any, by least squares; None with one run per cell."""
    ss_blocks: float | None = None
    error_of: ErrorOf = ErrorOf.POOLED

    @property
    def percent_blocks(self) -> float | None:
        """Share of the variation that blocks have in common; None without blocks."""
        return None if self.ss_blocks is None else 100.0 * self.ss_blocks / self.sst if self.sst > 0.0 else 0.0

    @property
    def percent_error(self) -> float:
        """Share of the variation that no factor explains."""
        return 100.0 * self.sse / self.sst if self.sst > 0.0 else 0.0

    def __getitem__(self, term: str) -> Effect:
        """The effect of a term, by its name."""
        for effect in self.effects:
            if effect.term == term:
                return effect
        raise KeyError(f"No term {term}; there are {', '.join(effect.term for effect in self.effects)}.")

    def difference(self, term: str, other: str, sign: float = 1.0) -> Estimate:
        """A term's q less ``sign`` times another's, with the error that effects have here: their noise may come from the same cells."""
        if self.fit is None:
            raise ValueError("One run per cell leaves no error to judge by: repeat the cells.")
        cells = len(self.levels)
        columns = (self._signs(term) - sign * self._signs(other)) / cells
        return _contrast(self.fit, columns, self.error_of, self.level)

    def _signs(self, term: str) -> NDArray[np.float64]:
        """The column of the sign table."""
        places = [self.factors.index(name) for name in _letters(term, self.factors)] if term != "I" else []
        return np.asarray(self.levels[:, places].prod(axis=1))

    def contrast(self, weights: Mapping[str, float], level: float | None = None) -> Estimate:
        """Sum of h q over terms: standard error s_e sqrt(sum h^2 / (2^k r))."""
        value = math.fsum(weight * self[term].effect for term, weight in weights.items())
        return self._estimate(value, math.fsum(weight**2 for weight in weights.values()) / self._n, level)

    def predicted_response(
        self, settings: Mapping[str, int], runs: int | None = None, level: float | None = None
    ) -> Estimate:
        """Predicted response at -1/+1 levels of all factors, for the mean of future `runs` there; None for the true mean.

        Least squares on the full model: variance s_e^2 (1/runs + 2^k / (2^k r)). Jain's n_eff has 2^k + 1 in place of 2^k; his intervals
        are slightly wider.
        """
        if set(settings) != set(self.factors) or any(value not in (-1, 1) for value in settings.values()):
            raise ValueError(f"A prediction needs -1 or +1 for each of {', '.join(self.factors)}.")
        value = 0.0
        for effect in self.effects:
            names = [] if effect.term == "I" else _letters(effect.term, self.factors)
            value += effect.effect * math.prod(settings[name] for name in names)
        own = 0.0 if runs is None else 1.0 / runs
        return self._estimate(value, own + len(self.effects) / self._n, level)

    @property
    def _n(self) -> int:
        return len(self.effects) * self.repetitions

    def _estimate(self, value: float, variance_share: float, level: float | None) -> Estimate:
        if self.sd_error is None:
            raise ValueError("One run per cell leaves no error to judge by: repeat the cells.")
        chosen = self.level if level is None else level
        error = self.sd_error * math.sqrt(variance_share)
        reach = _quantile(chosen, self.freedom) * error
        return Estimate(value, error, value - reach, value + reach, chosen, float(self.freedom))


def analyse_factorial(
    levels: ArrayLike,
    observations: ArrayLike,
    factors: Sequence[str] = (),
    level: float = 0.95,
    *,
    blocked: bool = False,
    checked: bool = False,
) -> FactorialAnalysis:
    """Full model of a 2^k r design.

    Parameters
    ----------
    levels
        One row per cell, one column per factor, -1 or +1; every combination once, in any order.
    observations
        One row per cell, one column per repetition, in the unit of the response.
    factors
        One-letter names; A, B, C, ... by default.
    level
        Confidence level of the intervals.
    blocked
        Whether each column is a block, whose runs were made close in time: what its cells have in common is then no error.
    checked
        Whether spreads of cells are compared without blocks, too. Textbooks take them for equal there.

    Notes
    -----
    q_j = (1/2^k) sum_i x_ij ybar_i with the sign table x; SS_j = 2^k r q_j^2; s_e^2 = SSE / (2^k (r-1)); one standard error for all
    effects, s_e / sqrt(2^k r). Least squares of cells and blocks is `theory.linear`'s. Errors are taken for independent and normal
    (`check_residuals`). Where cells differ in spread, degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946), over cells.

    >>> result = analyse_factorial([[-1, -1], [1, -1], [-1, 1], [1, 1]], [[15], [45], [25], [75]])
    >>> [effect.effect for effect in result.effects]
    [40.0, 20.0, 10.0, 5.0]
    """
    x, y = np.asarray(levels, dtype=np.float64), np.asarray(observations, dtype=np.float64)
    _check(x, y)
    cells, k = x.shape
    repetitions = y.shape[1]
    names = tuple(factors) or tuple(chr(ord("A") + index) for index in range(k))
    if len(set(names)) != k or any(len(name) != 1 or name == "I" for name in names):
        raise ValueError(f"{k} factors need {k} different letters, I excepted.")
    subsets = [subset for size in range(k + 1) for subset in combinations(range(k), size)]
    signs = np.column_stack([x[:, list(subset)].prod(axis=1) for subset in subsets])
    means = y.mean(axis=1)
    q = signs.T @ means / cells
    made = _fitted(y, blocked=blocked) if repetitions > 1 else None
    residuals = np.zeros_like(y) if made is None else made.residuals.reshape(y.shape)
    sse, freedom = (0.0, 0) if made is None else (made.sse, made.freedom)
    ssy, squares = float((y**2).sum()), cells * repetitions * q**2
    ss_blocks = None
    if blocked and made is not None:
        ss_blocks = float(cells * ((y.mean(axis=0) - y.mean()) ** 2).sum())
    # From deviations, not SSY - SS0: the difference of large sums loses digits.
    sst = float(squares[1:].sum()) + (ss_blocks or 0.0) + sse
    sd_error = math.sqrt(sse / freedom) if freedom else None
    sd_effect = sd_error / math.sqrt(cells * repetitions) if sd_error is not None else None
    error_of = _error_of(made, repetitions, blocked=blocked) if blocked or checked else ErrorOf.POOLED
    effects = []
    for index, subset in enumerate(subsets):
        value, interval = float(q[index]), None
        if subset and made is not None:
            interval = _contrast(made, signs[:, index] / cells, error_of, level)
        elif sd_effect is not None and not blocked:
            # Of the mean; with blocks it has the blocks' error, too, and none is given.
            reach = _quantile(level, freedom) * sd_effect
            interval = Estimate(value, sd_effect, value - reach, value + reach, level, float(freedom))
        share = None if not subset else 100.0 * float(squares[index]) / sst if sst > 0.0 else 0.0
        significant = None if interval is None else not interval.low <= 0.0 <= interval.high
        term = "".join(names[i] for i in subset) or "I"
        effects.append(Effect(term, value, float(squares[index]), share, interval, significant))
    return FactorialAnalysis(
        names,
        repetitions,
        tuple(effects),
        sse,
        sst,
        ssy,
        float(squares[0]),
        freedom,
        sd_error,
        sd_effect,
        level,
        x,
        y,
        means,
        residuals,
        made,
        ss_blocks,
        error_of,
    )


def _error_of(made: Fit | None, repetitions: int, *, blocked: bool) -> ErrorOf:
    if made is None or made.sse == 0.0:
        return ErrorOf.POOLED
    if blocked and repetitions < _CHECKED_MIN:
        return ErrorOf.CELLS
    if spread_of(made).equal:
        return ErrorOf.POOLED
    # Without one spread for all cells, the blocks' own values of an effect are alike all the same.
    return ErrorOf.BLOCKS if blocked else ErrorOf.CELLS


def _contrast(made: Fit, weights: NDArray[np.float64], error_of: ErrorOf, level: float) -> Estimate:
    """A sum of weights × means of cells; weights add up to 0, and every cell has the same number of runs."""
    named = dict(enumerate(weights.tolist()))
    if error_of is ErrorOf.BLOCKS:
        found = made.contrast_by_block(named)
        value, error, freedom = found.value, found.standard_error, found.freedom
    elif error_of is ErrorOf.POOLED:
        found = made.contrast(named)
        value, error, freedom = found.value, found.standard_error, float(found.freedom)
    else:
        layout = made.layout
        own, squares = layout.own_freedom, layout.cell_sums(made.residuals**2)
        parts = weights**2 / layout.counts * squares / own
        total = float(parts.sum())
        value, error = float(weights @ layout.cell_means(made.y)), math.sqrt(total)
        freedom = min(float(made.freedom), total**2 / float((parts**2 / own).sum())) if total > 0.0 else made.freedom
    reach = _quantile(level, freedom) * error
    return Estimate(value, error, value - reach, value + reach, level, freedom)


@lru_cache(maxsize=16)
def _layout(cells: int, repetitions: int, *, blocked: bool) -> Layout:
    """Kept, because all responses and both scales of a design share it, and with it the draws of its checks."""
    labels = np.repeat(np.arange(cells), repetitions).tolist()
    blocks = np.tile(np.arange(repetitions), cells).tolist() if blocked else None
    return lay_out(labels, blocks)


def _fitted(y: NDArray[np.float64], *, blocked: bool) -> Fit:
    return fit(_layout(*y.shape, blocked=blocked), y.ravel())


def _check(x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    if x.ndim != 2 or y.ndim != 2 or x.shape[0] != y.shape[0] or y.shape[1] < 1:
        raise ValueError("A design has a row of levels and a row of observations for each cell.")
    if not 1 <= x.shape[1] <= FACTORS_MAX or not np.isin(x, (-1.0, 1.0)).all():
        raise ValueError(f"A 2^k design has 1 to {FACTORS_MAX} factors with the levels -1 and +1.")
    if x.shape[0] != 2 ** x.shape[1] or np.unique(x, axis=0).shape[0] != x.shape[0]:
        raise ValueError(f"{x.shape[1]} factors need each of the {2 ** x.shape[1]} combinations of levels once.")
    if not np.isfinite(y).all():
        raise ValueError("An observation is missing or not finite; every cell needs all its repetitions.")


def _letters(term: str, factors: Sequence[str]) -> list[str]:
    return [name for name in factors if name in term]


def _quantile(level: float, freedom: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"A confidence level lies between 0 and 1, not {level}.")
    return float(stdtrit(freedom, 0.5 + level / 2.0))
