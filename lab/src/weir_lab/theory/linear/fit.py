"""Least squares on a layout: `fit` gives means of cells, contrasts with standard errors, levels, residuals.

Errors are taken for independent and of one spread in all cells (`checks` looks at both). Blocks are fixed where cells are compared, for
then each block is its own control; they are random where a level is asked for, because another study would meet other blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from weir_lab.theory.linear.layout import LayoutError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from weir_lab.theory.linear.layout import Layout

__all__ = ["Estimate", "Fit", "Slope", "fit"]


# Far above rounding, far below what a block that is not connected leaves.
_CONNECTED = 1e-6
# A cell whose residuals carry less than this many degrees of freedom says nothing about its own spread.
_OWN_FREEDOM_MIN = 1.0


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and the degrees of freedom of that, in the unit of the response."""

    value: float
    standard_error: float
    freedom: float


@dataclass(frozen=True)
class Slope:
    """What the covariate does: ``value`` in units of the response per unit of the covariate, with a two-sided t interval.

    ``explained`` is the share of the variance beside cells and blocks that goes with it.
    """

    value: float
    low: float
    high: float
    explained: float


@dataclass(frozen=True, eq=False)
class Fit:
    """One response on a layout. ``sse`` is the sum of squared ``residuals``, ``freedom`` its degrees of freedom."""

    layout: Layout
    y: NDArray[np.float64]
    residuals: NDArray[np.float64]
    sse: float

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the pooled error."""
        return self.layout.freedom

    @property
    def error_sd(self) -> float:
        """Pooled standard deviation of a run, beside what the model explains."""
        return math.sqrt(self.sse / self.freedom)

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        """Of the layout's columns; of many solutions the shortest."""
        u, s, v = self.layout.basis
        return np.asarray(v @ ((u.T @ self.layout.inside(self.y)) / s))

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """Means of cells, adjusted to equal blocks and an equal covariate; only their contrasts mean something."""
        return np.asarray(self.layout.cell_means(self.y) - self.layout.column_means @ self.coefficients)

    def contrast(self, contrast: Mapping[Any, float]) -> Estimate:
        """A sum of weights × means of cells, with the pooled error. Weights add up to 0. `LayoutError` where blocks do not allow it."""
        weights = self._estimable(contrast)
        return Estimate(
            float(weights @ self.means), self.error_sd * float(np.linalg.norm(self.spread_of(weights))), self.freedom
        )

    def spread_of(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The estimate's linear form in the runs: the covariance of two contrasts is σ² times the product of theirs."""
        return _forms(self.layout, weights)

    def _estimable(self, contrast: Mapping[Any, float]) -> NDArray[np.float64]:
        weights = self.layout.weights_of(contrast)
        if not self.layout.estimable(weights):
            names = ", ".join(str(name) for name, weight in contrast.items() if weight)
            raise LayoutError(
                f"Blocks do not connect {names}: no chain of blocks with common cells has them all. Compare them without blocks."
            )
        return weights

    def contrasts(self, contrasts: Sequence[Mapping[Any, float]]) -> tuple[list[Estimate], NDArray[np.float64]]:
        """`contrast` of each, and the correlation of their estimates, which follows from the layout alone."""
        weights = np.array([self._estimable(one) for one in contrasts])
        lengths, correlation = _spreads(self.layout, weights.tobytes())
        values, errors = (weights @ self.means).tolist(), (self.error_sd * lengths).tolist()
        return [Estimate(value, error, self.freedom) for value, error in zip(values, errors, strict=True)], correlation

    def contrast_by_block(self, contrast: Mapping[Any, float]) -> Estimate:
        """The same from whole blocks alone: one value per block that has all cells of the contrast, t over those.

        Holds whatever the spread of each cell, for it only takes the blocks' values to be alike. With two cells it is the paired t.
        """
        weights = self.layout.weights_of(contrast)
        needed = np.flatnonzero(weights)
        counts, adjusted, covariate = self._by_block
        here = np.flatnonzero((counts[:, needed] > 0).all(axis=1))
        if here.size < 2:
            raise LayoutError(f"{here.size} blocks have all cells of this contrast; 2 are needed.")
        data, slopes = (
            (sums[np.ix_(here, needed)] / counts[np.ix_(here, needed)]) @ weights[needed]
            for sums in (adjusted, covariate)
        )
        error = float(data.std(ddof=1)) / math.sqrt(data.size)
        return Estimate(
            float(data.mean()), math.hypot(error, float(slopes.mean()) * self._last_error()), float(data.size - 1)
        )

    @cached_property
    def _by_block(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Blocks × cells: number of runs, and the sums of `_without_covariate` over them."""
        layout = self.layout
        if layout.block is None:
            raise LayoutError("These runs have no blocks.")
        shape = len(layout.blocks), len(layout.cells)
        places = layout.block * shape[1] + layout.cell
        counts, adjusted, covariate = (
            np.bincount(places, weights=values, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for values in (np.ones(layout.runs), *self._without_covariate())
        )
        return counts, adjusted, covariate

    def contrast_by_cell(self, contrast: Mapping[Any, float]) -> Estimate:
        """The same with each cell's own spread and no blocks: Welch's, with Satterthwaite's degrees of freedom."""
        weights, layout = self.layout.weights_of(contrast), self.layout
        adjusted, covariate = self._without_covariate()
        parts, freedoms, value, apart = [], [], 0.0, 0.0
        for cell in np.flatnonzero(weights):
            here = layout.cell == cell
            runs = adjusted[here]
            if runs.size < 2:
                raise LayoutError(f"The cell {layout.cells[cell]} has one run; its own spread needs 2.")
            value += float(weights[cell] * runs.mean())
            apart += float(weights[cell] * covariate[here].mean())
            parts.append(float(weights[cell] ** 2 * runs.var(ddof=1) / runs.size))
            freedoms.append(runs.size - 1.0)
        return _satterthwaite(value, parts, freedoms, apart * self._last_error())

    def contrast_by_spread(self, contrast: Mapping[Any, float]) -> Estimate:
        """The same estimate as `contrast`, with each cell's own spread: sum over cells of its squared weights times its own variance.

        For blocks that do not have all cells of the contrast, so that it has no values block by block. A cell that says nothing of its own
        spread takes the pooled one. Degrees of freedom after Satterthwaite.
        """
        weights = self._estimable(contrast)
        return self._by_spread(float(weights @ self.means), self.spread_of(weights), self.residuals**2)

    def _by_spread(self, value: float, form: NDArray[np.float64], squared: NDArray[np.float64]) -> Estimate:
        """A linear form in the runs with each cell's own spread; a cell that says nothing of its own takes the pooled one."""
        layout = self.layout
        squares = layout.cell_sums(squared)
        shares = layout.cell_sums(form**2)
        parts, freedoms, pooled = [], [], 0.0
        for share, square, freedom in zip(shares.tolist(), squares.tolist(), layout.own_freedom.tolist(), strict=True):
            if freedom < _OWN_FREEDOM_MIN:
                pooled += share
            elif share > 0.0:
                parts.append(share * square / freedom)
                freedoms.append(freedom)
        parts.append(pooled * self.sse / self.freedom)
        freedoms.append(float(self.freedom))
        return _satterthwaite(value, parts, freedoms)

    @property
    def complete(self) -> bool:
        """Whether every block has every cell."""
        return self.layout.block is not None and bool((self._by_block[0] > 0).all())

    def _without_covariate(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Runs at an equal covariate, and the covariate; without one, the runs and zeros."""
        if self.layout.covariate_scale is None:
            return self.y, np.zeros(self.layout.runs)
        column = self.layout.columns[:, -1]
        return self.y - self.coefficients[-1] * column, column

    def _last_error(self) -> float:
        """Standard error of the covariate's coefficient."""
        if self.layout.covariate_scale is None:
            return 0.0
        _, s, v = self.layout.basis
        return self.error_sd * float(np.linalg.norm(v[-1] / s))

    def slope(self, level: float = 0.95) -> Slope:
        """Of the covariate."""
        scale = self.layout.covariate_scale
        if scale is None:
            raise LayoutError("These runs have no covariate.")
        _, s, v = self.layout.basis
        value, error = float(self.coefficients[-1]) / scale, self._last_error() / scale
        reach = float(stdtrit(self.freedom, 0.5 + level / 2.0)) * error
        # One direction of the columns' space goes with the covariate alone.
        alone = (float(self.coefficients[-1]) / float(np.linalg.norm(v[-1] / s))) ** 2
        return Slope(value, value - reach, value + reach, alone / (alone + self.sse) if alone + self.sse > 0.0 else 0.0)

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        """Blocks and covariate of the mean run: the machine that levels are given for."""
        return np.asarray(self.layout.columns.mean(axis=0))

    def level_here(self, cell: Hashable) -> Estimate:
        """Mean of a cell at the mean block and the mean covariate of *these* runs: what all cells would show at one speed of the machine.

        Blocks are fixed, so that this says nothing of another night's machine, where `level` does. Cells whose runs fell into slow blocks
        are brought to the same blocks as the others.

        >>> from weir_lab.theory.linear.layout import lay_out
        >>> made = fit(lay_out(["a", "b", "a", "b", "a"], [1, 1, 2, 2, 3]), [1.0, 3.0, 5.0, 8.0, 4.0])
        >>> round(made.level_here("b").value - made.level_here("a").value, 6)
        2.5
        """
        form = self._form_here(cell)
        return Estimate(float(form @ self.y), self.error_sd * float(np.linalg.norm(form)), float(self.freedom))

    def level_here_by_spread(self, cell: Hashable) -> Estimate:
        """The same estimate as `level_here`, with each cell's own spread.

        A run pulls the estimate of its block towards itself. Where the other runs of the block spread less, its residual is smaller by that
        once more than its degrees of freedom say, so squares are brought back by it. Where they spread as much, that is too much.
        """
        form, layout = self._form_here(cell), self.layout
        own = 1.0 / layout.counts[layout.cell]
        # A cell of one run has no residual, and no freedom.
        kept = np.divide(1.0 - layout.leverage, 1.0 - own, out=np.ones_like(own), where=own < 1.0)
        squared = np.divide(self.residuals**2, kept, out=np.zeros_like(kept), where=kept > _CONNECTED)
        return self._by_spread(float(form @ self.y), form, squared)

    def runs_here(self, cell: Hashable) -> NDArray[np.float64]:
        """The runs of a cell, each brought to the mean block and covariate; their mean is that of `level_here`."""
        self._form_here(cell)
        here = self.layout.cell == self.layout.places[cell]
        return np.asarray(self.y[here] - (self.layout.columns[here] - self._reference) @ self.coefficients)

    def _form_here(self, cell: Hashable) -> NDArray[np.float64]:
        """Of `level_here`, the weight of each run."""
        layout = self.layout
        if cell not in layout.places:
            raise LayoutError(f"No run of the cell {cell}; there are {', '.join(map(str, layout.cells))}.")
        place = layout.places[cell]
        apart = layout.column_means[place] - self._reference
        u, s, v = layout.basis
        if apart.size and float(np.linalg.norm(apart - v @ (v.T @ apart))) > _CONNECTED:
            raise LayoutError(
                f"Blocks do not connect the cell {cell} with the others: measure it in a block with cells that have runs."
            )
        own = np.where(layout.cell == place, 1.0 / layout.counts[place], 0.0)
        return np.asarray(own - u @ ((apart @ v) / s))

    def level(self, *cells: Hashable) -> Estimate:
        """Mean of a cell's runs, or of several cells' means, with blocks as a random sample: σ² Σ w² + σ_block² Σ(weight of each block)².

        Both variances come from mean squares of all cells (error; blocks adjusted for cells), degrees of freedom after Satterthwaite.
        Reference: Searle, Casella and McCulloch, Variance Components, ch. 4 and 5.

        >>> from weir_lab.theory.linear.layout import lay_out
        >>> round(fit(lay_out(["a", "a", "a"]), [1.0, 2.0, 3.0]).level("a").standard_error, 6)
        0.57735
        """
        layout = self.layout
        if layout.covariate_scale is not None:
            raise LayoutError("A level describes the runs as they were: fit it without the covariate.")
        return self._random(self._level_weights(cells))

    def contrast_apart(self, contrast: Mapping[Any, float]) -> Estimate:
        """A sum of weights × means of cells that no blocks connect, as of two sweeps. Blocks count as a random sample, as in `level`.

        Cells of one sweep share its blocks. To take all runs for independent would make the mean of several such changes too sure.
        """
        layout = self.layout
        if layout.covariate_scale is not None:
            raise LayoutError("Cells that no blocks connect are compared as they were: fit them without the covariate.")
        return self._random(layout.weights_of(contrast)[layout.cell] / layout.counts[layout.cell])

    def _random(self, weights: NDArray[np.float64]) -> Estimate:
        """A weighted sum of runs with the error of runs and of blocks."""
        layout = self.layout
        value, square, own = float(weights @ self.y), self.sse / self.freedom, float(weights @ weights)
        if layout.block is None or layout.basis[1].size == 0:
            return Estimate(value, math.sqrt(square * own), float(self.freedom))
        rank = layout.basis[1].size
        explained = float(((layout.basis[0].T @ layout.inside(self.y)) ** 2).sum()) / rank
        cells_per_block = float((layout.inside(layout.columns) ** 2).sum()) / rank
        share = float((np.bincount(layout.block, weights=weights) ** 2).sum()) / cells_per_block
        parts = [explained * share, square * max(0.0, own - share)]
        return _satterthwaite(value, parts, [float(rank), float(self.freedom)])

    def _level_weights(self, cells: Sequence[Hashable]) -> NDArray[np.float64]:
        """Of each run in the mean of these cells' means."""
        layout = self.layout
        weights = np.zeros(layout.runs)
        for cell in cells:
            if cell not in layout.places:
                raise LayoutError(f"No run of the cell {cell}; there are {', '.join(map(str, layout.cells))}.")
            here = layout.cell == layout.places[cell]
            weights[here] += 1.0 / (len(cells) * float(here.sum()))
        return weights

    def level_by_cell(self, *cells: Hashable) -> Estimate:
        """The same with each cell's own spread alone."""
        parts, freedoms, value = [], [], 0.0
        for cell in cells:
            runs = self.y[self.layout.cell == self.layout.places[cell]]
            if runs.size < 2:
                raise LayoutError(f"The cell {cell} has one run; its own spread needs 2.")
            value += float(runs.mean()) / len(cells)
            parts.append(float(runs.var(ddof=1)) / runs.size / len(cells) ** 2)
            freedoms.append(runs.size - 1.0)
        return _satterthwaite(value, parts, freedoms)


def fit(layout: Layout, y: ArrayLike) -> Fit:
    """Least squares of one response, a finite number per run.

    >>> from weir_lab.theory.linear.layout import lay_out
    >>> made = fit(lay_out(["a", "b", "a", "b"], [1, 1, 2, 2]), [1.0, 3.0, 5.0, 8.0])
    >>> made.contrast({"b": 1, "a": -1})
    Estimate(value=2.5, standard_error=0.5, freedom=1)
    """
    data = np.asarray(y, dtype=np.float64)
    if data.shape != (layout.runs,):
        raise LayoutError(f"A response has one number for each of {layout.runs} runs, not the shape {data.shape}.")
    if not np.isfinite(data).all():
        raise LayoutError("A response needs finite numbers.")
    residuals = layout.left_over(data)
    sse = float(residuals @ residuals)
    # Rounding of equal numbers is no spread.
    floor = layout.runs * (4.0 * np.finfo(np.float64).eps * float(np.abs(data).max())) ** 2
    if sse <= floor:
        residuals, sse = np.zeros_like(residuals), 0.0
    return Fit(layout, data, residuals, sse)


def _forms(layout: Layout, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear form in the runs of a contrast, or of several, one in each row."""
    u, s, v = layout.basis
    apart = weights @ layout.column_means
    own = (weights / layout.counts)[..., layout.cell]
    return np.asarray(own - ((apart @ v) / s) @ u.T)


# Responses of the same runs share a layout, and ask for the same contrasts of it.
@lru_cache(maxsize=1024)
def _spreads(layout: Layout, weights: bytes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of contrasts, one in each row: the standard error of each in units of σ, and their correlation."""
    forms = _forms(layout, np.frombuffer(weights).reshape(-1, len(layout.cells)))
    lengths = np.linalg.norm(forms, axis=1)
    if (lengths == 0.0).any():
        raise LayoutError("A contrast without weights compares nothing.")
    # Rounding in the last digits would make equal designs different keys.
    correlation = np.round((forms @ forms.T) / np.outer(lengths, lengths), 12)
    np.fill_diagonal(correlation, 1.0)
    return lengths, correlation


def _satterthwaite(value: float, parts: list[float], freedoms: list[float], more: float = 0.0) -> Estimate:
    """Independent variances added; ``more`` is a standard error that is known well."""
    total = math.fsum(parts)
    if total == 0.0:
        return Estimate(value, more, math.fsum(freedoms))
    # Shares of the squared error, so that nothing underflows for tiny spreads.
    freedom = 1.0 / math.fsum((part / total) ** 2 / own for part, own in zip(parts, freedoms, strict=True))
    return Estimate(value, math.hypot(math.sqrt(total), more), freedom)
