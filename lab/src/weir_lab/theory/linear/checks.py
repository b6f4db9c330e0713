"""Whether the errors are what the model takes them for: equal spread in all cells, and no likeness of neighbours in time.

Residuals are not errors: they share what was estimated, so that tables for independent numbers are wrong for them,
most with few runs. Both statistics are free of scale. Their distribution under the model is therefore found by
drawing normal errors, from a fixed seed, and sending them through the same layout: exact for any layout, but for
the error of a finite number of draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from weir_lab.theory.linear.fit import Fit
    from weir_lab.theory.linear.layout import Layout

__all__ = ["DEPENDENT_P", "UNEQUAL_P", "Dependence", "Spread", "dependence_of", "spread_of"]

# Below this chance of so unequal spreads under equal ones, contrasts take the spread of their own cells or blocks.
# A check that decides how to go on errs worse when it misses. With 5 runs and two of eight cells twice as wide,
# intervals of those hold .85 after a check at 1 %, .91 at 20 %. Each false alarm only makes intervals longer.
UNEQUAL_P = 0.10
# Below this chance of such likeness of neighbours among independent runs, the page says that there is some.
DEPENDENT_P = 0.02

_SEED = 20_261_122
_DRAWS = 3999
# Draws are kept for the next multiple of this number of runs, so that a night, whose runs grow, makes them once.
_RUNS_STEP = 64
# A cell whose residuals carry less than this many degrees of freedom says nothing about its own spread.
_OWN_FREEDOM_MIN = 0.5


@dataclass(frozen=True)
class Spread:
    """Spread of cells held against each other; ``sds`` are their own standard deviations, ``p`` None where no two cells have one."""

    p: float | None
    sds: dict[Hashable, float]

    @property
    def equal(self) -> bool:
        """Whether one error for all cells stands: nothing says otherwise."""
        return self.p is None or self.p >= UNEQUAL_P

    @property
    def widest(self) -> Hashable:
        """The cell with the largest spread."""
        return max(self.sds, key=self.sds.__getitem__)

    @property
    def narrowest(self) -> Hashable:
        """The cell with the smallest spread."""
        return min(self.sds, key=self.sds.__getitem__)


@dataclass(frozen=True)
class Dependence:
    """Likeness of each run to the next in time: ``lag1`` is the correlation of residuals less what independent errors give there.

    ``p`` is the chance of at least so much among independent errors; one-sided, for what shortens intervals is likeness.
    """

    lag1: float
    p: float

    @property
    def shown(self) -> bool:
        """Whether neighbours are alike beyond chance."""
        return self.p < DEPENDENT_P


def spread_of(fit: Fit) -> Spread:
    """Bartlett's statistic on the residuals of cells, each by its own share of the degrees of freedom.

    Reference: Bartlett, Proc. R. Soc. A 160 (1937); for residuals of block designs O'Neill and Mathews, Biometrics 58 (2002).
    """
    own = fit.layout.own_freedom
    squares = fit.layout.cell_sums(fit.residuals**2)
    known = own >= _OWN_FREEDOM_MIN
    sds = {name: math.sqrt(squares[place] / own[place]) for place, name in enumerate(fit.layout.cells) if known[place]}
    if known.sum() < 2:
        return Spread(None, sds)
    if fit.sse == 0.0:
        return Spread(1.0, sds)
    observed = float(_bartlett(squares[known][:, None], own[known])[0])
    return Spread(_share_above(observed, _draws(fit.layout).bartlett), sds)


def dependence_of(fit: Fit) -> Dependence | None:
    """Lag-1 correlation of residuals in the order of runs (of the family of Durbin and Watson's test); None without an order."""
    if fit.layout.order is None or fit.layout.runs < 3:
        return None
    if fit.sse == 0.0:
        return Dependence(0.0, 1.0)
    drawn = _draws(fit.layout).lag1
    observed = float(_lag1(fit.residuals[:, None], fit.layout.order)[0])
    return Dependence(observed - float(drawn.mean()), _share_above(observed, drawn))


@dataclass(frozen=True)
class _Draws:
    """Values of both statistics in ascending order."""

    bartlett: NDArray[np.float64]
    lag1: NDArray[np.float64]


_drawn: WeakKeyDictionary[Layout, _Draws] = WeakKeyDictionary()


def _draws(layout: Layout) -> _Draws:
    """Both statistics of normal errors on this layout, made once for all its responses."""
    if layout not in _drawn:
        errors = layout.left_over(_normals(-(-layout.runs // _RUNS_STEP) * _RUNS_STEP)[: layout.runs])
        squares = layout.cell_sums(errors**2)
        own = layout.own_freedom
        known = own >= _OWN_FREEDOM_MIN
        _drawn[layout] = _Draws(
            np.sort(_bartlett(squares[known], own[known])) if known.sum() >= 2 else np.zeros(0),
            np.sort(_lag1(errors, layout.order)) if layout.order is not None else np.zeros(0),
        )
    return _drawn[layout]


@lru_cache(maxsize=8)
def _normals(runs: int) -> NDArray[np.float64]:
    """Draws for this number of runs. Those for fewer are the first of these."""
    return np.random.default_rng(_SEED).standard_normal((runs, _DRAWS))


def _bartlett(squares: NDArray[np.float64], freedoms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of cells × draws of sums of squares."""
    pooled = squares.sum(axis=0) / freedoms.sum()
    # A cell without any spread would have the logarithm of 0; so much below the others is as far as it need go.
    own = np.maximum(squares / freedoms[:, None], 1e-15 * pooled)
    return np.asarray(freedoms.sum() * np.log(pooled) - freedoms @ np.log(own))


def _lag1(residuals: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    ordered = residuals[order]
    return np.asarray((ordered[1:] * ordered[:-1]).sum(axis=0) / (ordered**2).sum(axis=0))


def _share_above(observed: float, drawn: NDArray[np.float64]) -> float:
    """P value of a Monte Carlo test by draws in ascending order: the observed one counts as one (Barnard 1963), and a tie as above."""
    reach = observed - 1e-9 * abs(observed)
    return float((1 + drawn.size - int(np.searchsorted(drawn, reach))) / (1 + drawn.size))
