"""Comparing cells while something else varied from run to run that was measured: analysis of covariance with one slope.

On logarithms: log y of a run is the mean of its cell plus slope times log z, where z is the covariate (how slow the machine was, say). All
cells share slope and residual variance, so that few runs per cell give many degrees of freedom. Start with `fit_common_slope`.

Reference: Montgomery, Design and Analysis of Experiments, chapter on the analysis of covariance; Cochran, "Analysis of covariance: its
nature and uses", Biometrics 13 (1957). The covariate must not itself depend on the cell, or the adjustment takes away a part of the effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from weir_lab.theory.stats._inputs import checked_level, runs_of
from weir_lab.theory.stats.comparing import Change, change_of_logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

__all__ = ["CommonSlope", "fit_common_slope"]


@dataclass(frozen=True)
class _Cell:
    n: int
    y: float
    z: float


@dataclass(frozen=True)
class CommonSlope:
    """The fit: where z grows by 1 %, y grows by ``slope`` percent.

    ``explained`` is the share of the variance inside cells that goes with the covariate, ``residual_sd`` what is left, as a share of y.
    """

    slope: float
    slope_low: float
    slope_high: float
    explained: float
    residual_sd: float
    freedom: int
    spread: float
    """Sum of squares of log z inside cells."""
    cells: Mapping[str, _Cell]

    def change(self, baseline: str, treatment: str, level: float = 0.95) -> Change:
        """Change of y from one cell to another at equal z, with a t interval on the log ratio."""
        before, after = self.cells[baseline], self.cells[treatment]
        apart = after.z - before.z
        mean = after.y - before.y - self.slope * apart
        error = self.residual_sd * math.sqrt(1.0 / before.n + 1.0 / after.n + apart**2 / self.spread)
        return change_of_logs(mean, error, self.freedom, min(before.n, after.n), level)


def fit_common_slope(cells: Mapping[str, tuple[ArrayLike, ArrayLike]], level: float = 0.95) -> CommonSlope:
    """One slope for all cells, each given as the values y and z of its runs, all positive; at least two runs in each.

    >>> fit = fit_common_slope({"a": ([10.0, 20.0], [2.0, 1.0]), "b": ([30.0, 15.0], [1.0, 2.0])})
    >>> round(fit.slope, 6), round(fit.change("a", "b").percent, 6)
    (-1.0, 50.0)
    """
    logs = {name: (np.log(runs_of(y)), np.log(runs_of(z))) for name, (y, z) in cells.items()}
    if len(logs) < 2 or any(y.size != z.size for y, z in logs.values()):
        raise ValueError("A common slope needs two cells or more, with one value of the covariate per run.")
    inside_y = np.concatenate([y - y.mean() for y, _ in logs.values()])
    inside_z = np.concatenate([z - z.mean() for _, z in logs.values()])
    spread = float(inside_z @ inside_z)
    freedom = inside_y.size - len(logs) - 1
    if spread <= 0.0 or freedom < 1:
        raise ValueError("The covariate varies inside no cell, or there are too few runs: nothing to adjust for.")
    slope = float(inside_z @ inside_y) / spread
    left = inside_y - slope * inside_z
    residual_sd = math.sqrt(float(left @ left) / freedom)
    reach = float(stdtrit(freedom, 0.5 + checked_level(level) / 2.0)) * residual_sd / math.sqrt(spread)
    total = float(inside_y @ inside_y)
    explained = 1.0 - float(left @ left) / total if total > 0.0 else 0.0
    means = {name: _Cell(int(y.size), float(y.mean()), float(z.mean())) for name, (y, z) in logs.items()}
    return CommonSlope(slope, slope - reach, slope + reach, explained, residual_sd, freedom, spread, means)
