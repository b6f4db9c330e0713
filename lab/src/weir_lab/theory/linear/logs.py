"""Positive responses on logarithms: changes between cells in percent, levels in their own unit. Start with `LogModel`.

Times and rates multiply: a slow machine makes all of a block slower by the same factor, and runs of a fast cell and of a slow one differ
by the same share. So the model adds on logarithms, and every interval is its estimate times and divided by a factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from weir_lab.theory.linear.checks import Dependence, Spread, dependence_of, spread_of
from weir_lab.theory.linear.contrasts import Contrast, ErrorFrom, compare, own_or_pooled
from weir_lab.theory.linear.fit import Estimate, Fit, Slope, fit
from weir_lab.theory.linear.layout import LayoutError, lay_out
from weir_lab.theory.stats import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

__all__ = [
    "Change",
    "Equivalence",
    "LogModel",
    "MeasuredRun",
    "interval_of",
    "positive_interval",
]


class MeasuredRun(NamedTuple):
    """One run: its cell, a positive value, and what else is known of it.

    Runs of a block were made close in time; ``position`` is the place in time; ``covariate`` (positive) tells of the machine.
    """

    cell: Hashable
    value: float
    block: Hashable | None = None
    position: float | None = None
    covariate: float | None = None


@dataclass(frozen=True)
class Change:
    """Change from a baseline to a treatment, in percent of the baseline: -50 is half as much, +100 twice as much.

    Interval and ``p`` hold for all ``family`` changes that were asked for together. ``n`` is the smaller number of runs of the two cells.
    ``detectable_percent`` is the smallest rise that this comparison finds in 4 of 5 repetitions of the study.
    """

    percent: float
    low: float
    high: float
    n: int
    level: float
    p: float
    detectable_percent: float
    family: int = 1
    error_from: ErrorFrom = ErrorFrom.ALL

    @property
    def shown(self) -> bool:
        """Whether a difference is shown: the interval is without 0."""
        return self.low > 0.0 or self.high < 0.0


# Responses of the same runs share a layout, and with it the draws of its checks.
_layout_of = lru_cache(maxsize=32)(lay_out)


@dataclass(frozen=True)
class Equivalence:
    """Whether a change lies inside 1/(1+m) to 1+m, m the margin (two one-sided tests). ``p`` is the larger of the two.

    ``change`` has its 1 - 2 alpha interval: equivalence is shown exactly when that lies inside the margins.
    """

    change: Change
    margin_percent: float
    p: float
    alpha: float

    @property
    def shown(self) -> bool:
        """Whether equivalence within the margin is shown at the error rate ``alpha``."""
        return self.p < self.alpha


class LogModel:
    """log value = mean of the cell + effect of the block (+ slope · log covariate) + error, over all runs given.

    Blocks are used where every run has one and they leave an error to judge by; changes between cells that no blocks connect (two sweeps,
    say) are taken without blocks. ``LayoutError`` where there are too few runs for any error.

    >>> runs = [MeasuredRun(cell, value, block) for block, (a, b) in enumerate([(10, 21), (20, 39), (12, 25)])
    ...         for cell, value in (("a", a), ("b", b))]
    >>> change = LogModel(runs).change("a", "b")
    >>> round(change.percent), change.shown
    (104, True)
    """

    def __init__(self, runs: Sequence[MeasuredRun], *, with_covariate: bool = False) -> None:
        if any(not (math.isfinite(run.value) and run.value > 0.0) for run in runs):
            raise LayoutError("A model on logarithms needs positive, finite values.")
        self._runs = tuple(runs)
        self._with_covariate = with_covariate
        blocked = self._fitted(blocked=True) if all(run.block is not None for run in runs) else None
        self.blocked = blocked is not None
        self.fit = blocked or self._unblocked

    def _fitted(self, *, blocked: bool) -> Fit | None:
        """The fit; None where blocks take all freedom."""
        runs = self._runs
        covariate = [run.covariate for run in runs] if self._with_covariate else None
        if covariate is not None and any(one is None or one <= 0.0 for one in covariate):
            raise LayoutError("A covariate on logarithms needs a positive number for each run.")
        known = all(run.position is not None for run in runs)
        try:
            layout = _layout_of(
                tuple(run.cell for run in runs),
                tuple(run.block for run in runs) if blocked else None,
                None if covariate is None else tuple(math.log(one or 1.0) for one in covariate),
                tuple(run.position or 0.0 for run in runs) if known else None,
            )
        except LayoutError:
            if blocked:
                return None
            raise
        # Blocks that take part in no comparison (one run each) only cost freedom.
        if blocked and layout.basis[1].size == (0 if covariate is None else 1):
            return None
        return fit(layout, np.log([run.value for run in runs]))

    @cached_property
    def _unblocked(self) -> Fit:
        found = self._fitted(blocked=False)
        assert found is not None  # without blocks `_fitted` raises
        return found

    @property
    def values(self) -> dict[Hashable, list[float]]:
        """The values of each cell's runs."""
        found: dict[Hashable, list[float]] = {}
        for run in self._runs:
            found.setdefault(run.cell, []).append(run.value)
        return found

    @cached_property
    def spread(self) -> Spread:
        """Outcome of the check of equal spread."""
        return spread_of(self.fit)

    @cached_property
    def dependence(self) -> Dependence | None:
        """Outcome of the check of likeness in time; None where not all runs have a position."""
        return dependence_of(self.fit)

    def slope(self, level: float = 0.95) -> Slope:
        """By how many percent the response grows where the covariate grows by 1 %."""
        return self.fit.slope(level)

    def change(self, baseline: Hashable, treatment: Hashable, level: float = 0.95) -> Change:
        """One change, judged alone."""
        return self.changes([(baseline, treatment)], level)[0]

    def changes(self, pairs: Sequence[tuple[Hashable, Hashable]], level: float = 0.95) -> list[Change]:
        """Changes from baselines to treatments, with intervals that hold for all of them together."""
        contrasts = [{treatment: 1.0, baseline: -1.0} for baseline, treatment in pairs]
        if any(baseline == treatment for baseline, treatment in pairs):
            raise LayoutError("A cell was to be compared with itself.")
        chosen = self.fit_for(contrasts)
        spread = self.spread if chosen is self.fit else spread_of(chosen)
        counts = dict(zip(chosen.layout.cells, chosen.layout.counts.astype(int).tolist(), strict=True))
        return [
            _change(found, min(counts[baseline], counts[treatment]))
            for found, (baseline, treatment) in zip(compare(chosen, contrasts, level, spread), pairs, strict=True)
        ]

    def equivalence(
        self, baseline: Hashable, treatment: Hashable, margin_percent: float, alpha: float = 0.05
    ) -> Equivalence:
        """Two one-sided t tests on the log ratio (TOST; Schuirmann 1987), the margin chosen before the data were seen."""
        if margin_percent <= 0.0 or not 0.0 < alpha < 0.5:
            raise LayoutError("Equivalence needs a positive margin and an error rate between 0 and 0.5.")
        found, margin = self.difference(baseline, treatment), math.log1p(margin_percent / 100.0)
        p = max(_above(found.value - margin, found), _above(-found.value - margin, found))
        return Equivalence(self.change(baseline, treatment, 1.0 - 2.0 * alpha), margin_percent, p, alpha)

    def difference(self, baseline: Hashable, treatment: Hashable) -> Estimate:
        """Log of treatment over baseline with its standard error, for whoever needs another interval than that of `changes`."""
        return self.contrast({treatment: 1.0, baseline: -1.0})

    def contrast(self, weights: Mapping[Hashable, float]) -> Estimate:
        """A sum of weights × logarithms of cells, weights adding up to 0, with the error that the check of equal spread allows.

        Where no blocks connect the cells, blocks count as a random sample: the larger error of that and of runs taken alone.
        """
        chosen = self.fit_for([weights])
        spread = self.spread if chosen is self.fit else spread_of(chosen)
        found = own_or_pooled(chosen, weights, spread)[0]
        if chosen is self.fit or not self.blocked or self.fit.layout.covariate_scale is not None:
            return found
        apart = self.fit.contrast_apart(weights)
        error = max(found.standard_error, apart.standard_error)
        return Estimate(found.value, error, min(found.freedom, apart.freedom))

    def pooled(self, cells: Sequence[Hashable]) -> Estimate:
        """Mean logarithm of several cells together, each with one weight; blocks count as a random sample, as in `level`.

        With unequal spreads the larger error of two: that of the model, and that of the cells' own runs.
        """
        found = self.fit.level(*cells)
        if self.spread.equal or any(len(self.values[cell]) < 2 for cell in cells):
            return found
        own = self.fit.level_by_cell(*cells)
        return Estimate(found.value, max(found.standard_error, own.standard_error), min(found.freedom, own.freedom))

    def fit_for(self, contrasts: Sequence[Mapping[Hashable, float]]) -> Fit:
        """The fit with blocks where these connect the cells of all contrasts, that without otherwise."""
        layout = self.fit.layout
        connected = all(layout.estimable(layout.weights_of(one)) for one in contrasts)
        return self.fit if connected else self._unblocked

    def level(self, cell: Hashable, level: float = 0.95) -> Interval:
        """Mean of a cell's runs, with an interval for this cell alone: the mean times and divided by one factor.

        Blocks count as a random sample, because another study meets others. With unequal spreads the larger error of two, as nights go by:
        that of all cells, and that of the cell's own runs, which may lie close by chance.
        """
        estimate = self.fit.level(cell)
        if not self.spread.equal:
            estimate = max(estimate, self.fit.level_by_cell(cell), key=lambda one: _reach(one, level))
        return _interval(self.values[cell], estimate, level)

    def mean_here(self, cell: Hashable) -> float:
        """Mean of a cell's runs, each brought to the mean block and covariate of all runs; as they are where no block connects the cell."""
        try:
            return _mean(np.exp(self.fit.runs_here(cell)).tolist())
        except LayoutError:
            return _mean(self.values[cell])

    def level_here(self, cell: Hashable, level: float = 0.95) -> Interval:
        """`mean_here` with an interval for this cell alone, for who compares these very runs: what their hours have in common is no error.

        Of another night it says nothing, where `level` does. With unequal spreads the larger error of two, as nights go by: that of all
        cells, and that with each cell's own spread. ``LayoutError`` where blocks do not connect the cell with others.
        """
        estimate = self.fit.level_here(cell)
        if not self.spread.equal:
            own = self.fit.level_here_by_spread(cell)
            estimate = max(estimate, own, key=lambda one: _reach(one, level))
        return _interval(np.exp(self.fit.runs_here(cell)).tolist(), estimate, level)

    def levels(self, level: float = 0.95) -> dict[Hashable, Interval]:
        """All cells' levels, each with an interval of its own."""
        return {cell: self.level(cell, level) for cell in self.fit.layout.cells}


def positive_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of runs of one cell alone, times and divided by exp(t(n-1) s / √n), s of the logarithms.

    For a positive quantity with no other cells to judge by. To first order in the spread the mean and the geometric mean have the same
    relative error; the printed value is the mean, so that parts add up to their sum.

    >>> found = positive_interval([1.0, 2.0, 4.0])
    >>> round(found.high / found.mean, 6) == round(found.mean / found.low, 6)
    True
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size < 2:
        raise LayoutError(f"An interval needs at least 2 runs, not {data.size}.")
    if not (np.isfinite(data).all() and (data > 0.0).all()):
        raise LayoutError("A factor around a mean needs positive, finite values.")
    logs = np.log(data)
    error = float(logs.std(ddof=1)) / math.sqrt(data.size)
    return _interval(data.tolist(), Estimate(float(logs.mean()), error, data.size - 1.0), level)


def interval_of(values: ArrayLike, level: float = 0.95) -> Interval:
    """`positive_interval`; where a value is 0 (a stage that takes no time), mean ± t s / √n. Not for what may have either sign."""
    data = np.asarray(values, dtype=np.float64)
    return positive_interval(data, level) if (data > 0.0).all() else mean_interval(data, level)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _reach(estimate: Estimate, level: float) -> float:
    """Half of an estimate's interval."""
    return float(stdtrit(estimate.freedom, 0.5 + level / 2.0)) * estimate.standard_error


def _interval(values: Sequence[float], estimate: Estimate, level: float) -> Interval:
    mean = _mean(values)
    factor = math.exp(_reach(estimate, level))
    return Interval(mean, mean / factor, mean * factor, len(values), level)


def _above(excess: float, found: Estimate) -> float:
    """P value of a mean at or above 0 that was found at ``excess``; data without spread are exact."""
    if found.standard_error == 0.0:
        return float(excess >= 0.0)
    return float(stdtr(found.freedom, excess / found.standard_error))


def _change(found: Contrast, n: int) -> Change:
    return Change(
        _percent(found.value),
        _percent(found.low),
        _percent(found.high),
        n,
        found.level,
        found.p,
        _percent(found.detectable),
        found.family,
        found.error_from,
    )


def _percent(log_ratio: float) -> float:
    # Beyond this a factor is infinite in double precision.
    return 100.0 * math.expm1(min(log_ratio, 700.0))
