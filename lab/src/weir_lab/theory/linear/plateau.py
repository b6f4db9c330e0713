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
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from scipy.special import stdtrit

from weir_lab.theory.linear.checks import spread_of
from weir_lab.theory.linear.contrasts import beyond, p_beyond, tail_above
from weir_lab.theory.linear.layout import LayoutError
from weir_lab.theory.stats import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

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
    against: tuple[_Against, ...] = field(default=(), repr=False, compare=False)

    def times_at(self, alpha: float) -> float:
        """How many times the runs would show the surest level at another level than 5 %; 1 where it is shown at that."""
        return 1.0 if self.p <= alpha else _times_more(self.against, math.log(self.share), alpha)

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
    means, limit = _means(fit, levels), math.log(share)
    known = _known(fit, spread, levels, limit)
    shown = tuple(level for level in levels if known[level].is_at_most(alpha))
    surest, least = _surest(known, means)
    largest = max(levels, key=lambda level: means[level])
    if not shown:
        more = _times_more(known[surest].against, limit, alpha)
        return Plateau(share, (), largest, least, None, None, more, known[surest].against)
    pooled = model.pooled(shown)
    values = [value for level in shown for value in model.values[level]]
    mean = math.fsum(math.fsum(model.values[level]) / len(model.values[level]) for level in shown) / len(shown)
    factor = math.exp(float(stdtrit(pooled.freedom, 1.0 - alpha / 2.0)) * pooled.standard_error)
    value = Interval(mean, mean / factor, mean * factor, len(values), 1.0 - alpha)
    return Plateau(share, shown, largest, least, pooled, value, 1.0, known[surest].against)


def _fit_for(model: LogModel, levels: Sequence[Hashable]) -> tuple[Fit, Spread]:
    """With blocks where these connect all levels."""
    contrasts = [{level: 1.0, levels[0]: -1.0} for level in levels[1:]]
    fit = model.fit_for(contrasts)
    return fit, model.spread if fit is model.fit else spread_of(fit)


def _means(fit: Fit, levels: Sequence[Hashable]) -> dict[Hashable, float]:
    known = dict(zip(fit.layout.cells, fit.means.tolist(), strict=True))
    return {level: known[level] for level in levels}


@dataclass(frozen=True)
class _Against:
    """A level against one that may be the largest: between which numbers its p value lies, and what it takes to know it."""

    estimate: Estimate
    family: int
    low: float
    high: float
    limit: float = 0.0
    correlation: NDArray[np.float64] | None = None

    @property
    def p(self) -> float:
        """The value itself."""
        if self.correlation is None:
            return self.high
        return p_beyond(self.estimate, self.limit, self.correlation)


@dataclass(frozen=True)
class _Known:
    """What is known of a level by its contrasts against all others: the least sure of them decides.

    A p value of several contrasts together takes an integral. It lies between that of one alone and Bonferroni's, which cost nothing, and
    is taken only where these leave open what is asked.
    """

    against: tuple[_Against, ...]

    @cached_property
    def low(self) -> float:
        """The p value is no smaller."""
        return max(one.low for one in self.against)

    @cached_property
    def p(self) -> float:
        """The largest of all."""
        worst = 0.0
        for one in sorted(self.against, key=lambda one: -one.high):
            if one.high <= worst:
                break
            worst = max(worst, one.p)
        return worst

    def is_at_most(self, alpha: float) -> bool:
        """Whether the p value is."""
        if self.low > alpha:
            return False
        return all(one.high <= alpha for one in self.against) or self.p <= alpha


def _known(fit: Fit, spread: Spread, levels: Sequence[Hashable], limit: float) -> dict[Hashable, _Known]:
    """Of each level, against whatever may be the largest."""
    against: dict[Hashable, list[_Against]] = {level: [] for level in levels}
    family = len(levels) - 1
    for base in levels:
        others = [level for level in levels if level != base]
        contrasts = [{level: 1.0, base: -1.0} for level in others]
        if spread.equal:
            estimates, correlation = fit.contrasts(contrasts)
            for level, one in zip(others, estimates, strict=True):
                single = tail_above(one, limit)
                if single >= 0.5 or single == 0.0:
                    against[level].append(_Against(one, family, float(single >= 0.5), float(single >= 0.5)))
                else:
                    high = min(1.0, 2.0 * family * single)
                    against[level].append(_Against(one, family, 2.0 * single, high, limit, correlation))
        else:
            for level, (one, p) in zip(others, beyond(fit, contrasts, limit, spread), strict=True):
                against[level].append(_Against(one, family, p, p))
    return {level: _Known(tuple(found)) for level, found in against.items()}


def _surest(known: Mapping[Hashable, _Known], means: Mapping[Hashable, float]) -> tuple[Hashable, float]:
    """The level with the smallest p value, and that; of several the one with the largest mean."""
    first, *others = sorted(known, key=lambda level: (known[level].low, -means[level]))
    best, least = first, known[first].p
    for level in others:
        if known[level].low > least:
            break
        if (known[level].p, -means[level]) < (least, -means[best]):
            best, least = level, known[level].p
    return best, least


def _times_more(contrasts: Sequence[_Against], limit: float, alpha: float) -> float:
    """Until the last of them lies above the limit, by Bonferroni's quantile."""
    times = 1.0
    for one in contrasts:
        away = one.estimate.value - limit
        if away <= 0.0:
            return math.inf
        freedom = one.estimate.freedom
        quantile = float(stdtrit(freedom, 1.0 - alpha / (2.0 * one.family)) + stdtrit(freedom, _POWER))
        times = max(times, (quantile * one.estimate.standard_error / away) ** 2)
    return times
