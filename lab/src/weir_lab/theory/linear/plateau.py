"""The maximum of a curve: the first of its levels that is shown to reach the plateau, and what the plateau is: `plateau_of`.

The largest of noisy means is too large, and where it lies is chance. So a level counts as *on the plateau* where it is shown to reach a
share of every other level, whichever of them is the largest. For each possible largest level b the contrasts of all others against b are
judged together (Dunnett's, by the distribution of the largest |t|). The least sure of these decides. If b is the true largest, all those
statements are right together with the stated chance; for other b they only say less. So with 95 % no level is called on the plateau that
does not reach the share, without a further adjustment for the choice of the largest or the number of levels. References: Hsu, "Constrained
simultaneous confidence intervals for multiple comparisons with the best", Ann. Statist. 12, 1984; Edwards and Hsu, J. Am. Stat. Assoc. 78,
1983. The *value* is the mean of all levels on the plateau, with the interval of that mean. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import stdtr, stdtrit

from weir_lab.theory.linear.checks import spread_of
from weir_lab.theory.linear.contrasts import beyond
from weir_lab.theory.linear.layout import LayoutError
from weir_lab.theory.stats import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from weir_lab.theory.linear.checks import Spread
    from weir_lab.theory.linear.fit import Estimate, Fit
    from weir_lab.theory.linear.logs import LogModel

__all__ = ["PLATEAU_SHARE", "Plateau", "plateau_of"]

PLATEAU_SHARE = 0.95
"""A level is on the plateau where it reaches so much of every other, unless another share is asked for."""
_POWER = 0.8


@dataclass(frozen=True)
class Plateau:
    """What is known of a curve's maximum. ``levels`` are those shown to reach ``share`` of it, in the order that was given; maybe none.

    ``largest`` is the level with the largest mean. ``p`` is that of the surest level, adjusted for all; ``log_mean`` the mean of the
    levels on the plateau on logarithms, None where there is none. ``times_more`` is how many times the runs would show one in 4 of 5
    studies, if the truth were what was found; 1 where one is shown.
    """

    share: float
    levels: tuple[Hashable, ...]
    largest: Hashable
    p: float
    log_mean: Estimate | None
    value: Interval | None
    times_more: float

    @property
    def first(self) -> Hashable | None:
        """The first level that is shown to reach the plateau; None where none is."""
        return self.levels[0] if self.levels else None

    @property
    def shown(self) -> bool:
        """Whether any is."""
        return bool(self.levels)


def plateau_of(
    model: LogModel, levels: Sequence[Hashable], share: float = PLATEAU_SHARE, alpha: float = 0.05
) -> Plateau:
    """The plateau of a response over some cells of a model, in the order in which the first is looked for.

    >>> import numpy as np
    >>> from weir_lab.theory.linear.logs import LogModel, MeasuredRun
    >>> rng = np.random.default_rng(1)
    >>> runs = [MeasuredRun(n, x * np.exp(rng.normal(0.0, 0.005)), block)
    ...         for block in range(5) for n, x in ((1, 50.0), (8, 90.0), (16, 100.0), (32, 100.0), (64, 100.0))]
    >>> found = plateau_of(LogModel(runs), [1, 8, 16, 32, 64])
    >>> found.first, found.levels, round(found.value.mean)
    (16, (16, 32, 64), 100)
    """
    if not 0.0 < share < 1.0:
        raise LayoutError(f"A plateau is reached at a share between 0 and 1, not {share}.")
    if len(set(levels)) < 2:
        raise LayoutError("A maximum needs at least two levels.")
    fit, spread = _fit_for(model, levels)
    means = _means(fit, levels)
    sure, nearest = _surest(fit, spread, means, math.log(share))
    shown = tuple(level for level in levels if sure[level] <= alpha)
    least = min(sure.values())
    largest = max(levels, key=lambda level: means[level])
    if not shown:
        return Plateau(share, (), largest, least, None, None, _times_more(nearest, math.log(share), alpha))
    pooled = model.pooled(shown)
    values = [value for level in shown for value in model.values[level]]
    mean = math.fsum(math.fsum(model.values[level]) / len(model.values[level]) for level in shown) / len(shown)
    factor = math.exp(float(stdtrit(pooled.freedom, 1.0 - alpha / 2.0)) * pooled.standard_error)
    value = Interval(mean, mean / factor, mean * factor, len(values), 1.0 - alpha)
    return Plateau(share, shown, largest, least, pooled, value, 1.0)


def _fit_for(model: LogModel, levels: Sequence[Hashable]) -> tuple[Fit, Spread]:
    """With blocks where these connect all levels."""
    contrasts = [{level: 1.0, levels[0]: -1.0} for level in levels[1:]]
    fit = model.fit_for(contrasts)
    return fit, model.spread if fit is model.fit else spread_of(fit)


def _means(fit: Fit, levels: Sequence[Hashable]) -> dict[Hashable, float]:
    known = dict(zip(fit.layout.cells, fit.means.tolist(), strict=True))
    return {level: known[level] for level in levels}


def _surest(
    fit: Fit, spread: Spread, means: Mapping[Hashable, float], limit: float
) -> tuple[dict[Hashable, float], list[tuple[Estimate, int]]]:
    """For each level its p value against whatever may be the largest; and the contrasts that keep the best level from being shown."""
    levels = list(means)
    worst = dict.fromkeys(levels, 0.0)
    decides: dict[Hashable, list[tuple[Estimate, int]]] = {level: [] for level in levels}
    for base in sorted(levels, key=lambda level: -means[level]):
        others = [level for level in levels if level != base]
        if all(_settled(fit, spread, level, base, limit, worst[level], len(others)) for level in others):
            continue
        found = beyond(fit, [{level: 1.0, base: -1.0} for level in others], limit, spread)
        for level, (estimate, p) in zip(others, found, strict=True):
            decides[level].append((estimate, len(others)))
            worst[level] = max(worst[level], p)
    return worst, decides[min(levels, key=lambda level: (worst[level], -means[level]))]


def _settled(
    fit: Fit, spread: Spread, level: Hashable, base: Hashable, limit: float, worst: float, family: int
) -> bool:
    """Whether this contrast cannot be less sure than what is known already: by Bonferroni's bound, which costs nothing."""
    if not spread.equal or worst == 0.0:
        return False
    if worst >= 1.0:
        return True
    one = fit.contrast({level: 1.0, base: -1.0})
    if one.standard_error == 0.0:
        return one.value > limit
    return family * 2.0 * float(stdtr(one.freedom, -(one.value - limit) / one.standard_error)) <= worst


def _times_more(contrasts: Sequence[tuple[Estimate, int]], limit: float, alpha: float) -> float:
    """Until the last of them lies above the limit, by Bonferroni's quantile."""
    times = 1.0
    for one, family in contrasts:
        away = one.value - limit
        if away <= 0.0:
            return math.inf
        quantile = float(stdtrit(one.freedom, 1.0 - alpha / (2.0 * family)) + stdtrit(one.freedom, _POWER))
        times = max(times, (quantile * one.standard_error / away) ** 2)
    return times
