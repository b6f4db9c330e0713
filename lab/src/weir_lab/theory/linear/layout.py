"""To which cell and block each run belongs, and what least squares needs of that: `lay_out`.

::

    y of a run  =  mean of its cell  +  effect of its block  +  slope · covariate  +  error
                   └── absorbed ──┘     └────────── columns ─────────┘

Cells are absorbed: what varies inside cells is all that blocks and the covariate can be judged by, so that only their few columns are ever
written down (Frisch, Waugh, Lovell). Runs may be missing, and cells may have different numbers of runs; what then cannot be estimated is
refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Layout", "LayoutError", "lay_out"]

# Columns are scaled to length 1, so this is far above rounding and far below any design.
_RANK_TOLERANCE = 1e-8


class LayoutError(ValueError):
    """The runs do not allow what was asked; the message says what, and what would."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Labels of n runs in numbers.

    ``cell`` is each run's index into ``cells``; ``block`` that into ``blocks``, None without blocks. ``columns`` (n × c) are the blocks'
    indicators and, last, the covariate less its mean over its ``covariate_scale``; ``order`` lists runs in time order, None if unknown.
    """

    cells: tuple[Hashable, ...]
    cell: NDArray[np.intp]
    blocks: tuple[Hashable, ...]
    block: NDArray[np.intp] | None
    columns: NDArray[np.float64]
    covariate_scale: float | None
    order: NDArray[np.intp] | None

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.cell.size)

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Runs of each cell."""
        return np.bincount(self.cell, minlength=len(self.cells)).astype(np.float64)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Runs by cell, and where each cell begins among them."""
        by_cell = np.argsort(self.cell, kind="stable")
        return by_cell, np.searchsorted(self.cell[by_cell], np.arange(len(self.cells)))

    def cell_sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums by cell of one or more columns."""
        by_cell, begins = self._sorted
        return np.asarray(np.add.reduceat(values[by_cell], begins, axis=0))

    def cell_means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means by cell of one or more columns."""
        return np.asarray(self.cell_sums(values) / self.counts.reshape(-1, *([1] * (values.ndim - 1))))

    def inside(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values less the mean of their cell."""
        return np.asarray(values - self.cell_means(values)[self.cell])

    @cached_property
    def basis(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Singular parts U, s, V of the columns inside cells, of their rank only."""
        u, s, v = np.linalg.svd(self.inside(self.columns), full_matrices=False)
        kept = s > _RANK_TOLERANCE
        return u[:, kept], s[kept], v[kept].T

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the error: runs less what is estimated."""
        return self.runs - len(self.cells) - int(self.basis[1].size)

    @cached_property
    def leverage(self) -> NDArray[np.float64]:
        """How much each run pulls its own prediction, between 0 and 1: the diagonal of the hat matrix."""
        return np.asarray(1.0 / self.counts[self.cell] + (self.basis[0] ** 2).sum(axis=1))

    @cached_property
    def own_freedom(self) -> NDArray[np.float64]:
        """Degrees of freedom of the error that are those of each cell's own residuals."""
        return self.cell_sums(1.0 - self.leverage)

    @cached_property
    def column_means(self) -> NDArray[np.float64]:
        """Means of the columns by cell."""
        return self.cell_means(self.columns)

    def left_over(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What cells, blocks and covariate do not explain of one or more columns."""
        u = self.basis[0]
        apart = self.inside(values)
        return np.asarray(apart - u @ (u.T @ apart))

    def weights_of(self, contrast: Mapping[Any, float]) -> NDArray[np.float64]:
        """Weights of a contrast as an array over cells. They add up to 0."""
        weights = np.zeros(len(self.cells))
        for name, weight in contrast.items():
            if name not in self.places:
                raise LayoutError(f"No run of the cell {name}; there are {', '.join(map(str, self.cells))}.")
            weights[self.places[name]] += weight
        if abs(weights.sum()) > 1e-9 * np.abs(weights).max(initial=1e-300):
            raise LayoutError(f"The weights of a contrast add up to 0, not to {weights.sum():g}.")
        return weights

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Index of each cell."""
        return {name: place for place, name in enumerate(self.cells)}

    @cached_property
    def connected(self) -> bool:
        """Whether blocks leave every contrast a unique estimate: those of each cell against the first are enough to know."""
        apart, v = self.column_means - self.column_means[0], self.basis[2]
        left = np.linalg.norm(apart - (apart @ v) @ v.T, axis=1)
        return bool((left <= 1e-7 * np.maximum(1.0, np.linalg.norm(apart, axis=1))).all())

    def estimable(self, weights: NDArray[np.float64]) -> bool:
        """Whether blocks leave this contrast a unique estimate: not where they share no cell, say."""
        if self.connected:
            return True
        apart, v = weights @ self.column_means, self.basis[2]
        return bool(np.linalg.norm(apart - v @ (v.T @ apart)) <= 1e-6 * max(1.0, float(np.linalg.norm(apart))))


def lay_out(
    cells: Sequence[Hashable],
    blocks: Sequence[Hashable] | None = None,
    covariate: ArrayLike | None = None,
    position: Sequence[float] | None = None,
) -> Layout:
    """Numbers from labels: one entry per run in each. `LayoutError` where they leave no error to judge by.

    Parameters
    ----------
    cells
        The cell of each run.
    blocks
        The block of each run: runs of one block were made close in time and share what the machine was like then.
    covariate
        What was measured of each run's circumstances, on the scale on which it is taken to act (logarithms for a log-linear model).
    position
        The place of each run in time; only its order counts.

    >>> layout = lay_out(["a", "b", "a", "b", "a", "b"], [1, 1, 2, 2, 3, 3])
    >>> layout.freedom, layout.leverage.round(3).tolist()[0]
    (2, 0.667)
    """
    z = None if covariate is None else np.asarray(covariate, dtype=np.float64)
    sizes = {len(cells), *(len(one) for one in (blocks, z, position) if one is not None)}
    if len(sizes) != 1 or not cells:
        raise LayoutError(f"Each run has one cell, block, covariate and position; there are {sorted(sizes)} of them.")
    names, cell = _numbered(cells)
    parts: list[NDArray[np.float64]] = []
    block_names: tuple[Hashable, ...] = ()
    block, scale = None, None
    if blocks is not None:
        block_names, block = _numbered(blocks)
        parts.append((block[:, None] == np.arange(len(block_names))).astype(np.float64))
    if z is not None:
        if not np.isfinite(z).all():
            raise LayoutError("A covariate needs a finite number for each run.")
        scale = float(z.std()) or 1.0
        parts.append(((z - z.mean()) / scale)[:, None])
    columns = np.hstack(parts) if parts else np.zeros((len(cells), 0))
    order = None if position is None else np.argsort(np.asarray(position, dtype=np.float64), kind="stable")
    layout = Layout(names, cell, block_names, block, columns, scale, order)
    if layout.freedom < 1:
        raise LayoutError(
            f"{layout.runs} runs of {len(names)} cells"
            + (f" in {len(block_names)} blocks" if blocks is not None else "")
            + " leave no degree of freedom for the error: make more repetitions."
        )
    if scale is not None:
        last = np.zeros(columns.shape[1])
        last[-1] = 1.0
        v = layout.basis[2]
        if np.linalg.norm(last - v @ (v.T @ last)) > 1e-6:
            raise LayoutError("The covariate does not vary beside cells and blocks: there is nothing to adjust for.")
    return layout


def _numbered(labels: Sequence[Hashable]) -> tuple[tuple[Hashable, ...], NDArray[np.intp]]:
    places: dict[Hashable, int] = {}
    numbers = [places.setdefault(label, len(places)) for label in labels]
    return tuple(places), np.array(numbers, dtype=np.intp)
