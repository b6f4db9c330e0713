"""What the rules compare: cells that differ in one factor alone, the maximum against a number, ratios in one cell, a trace in parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import stdtrit

from weir_lab.report.numbers.comparing import cell_key, model_of
from weir_lab.report.sections import traces
from weir_lab.theory.laws import cycle_law
from weir_lab.theory.linear import Estimate, LayoutError, Question, Within
from weir_lab.theory.stats import mean_along

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from weir_lab.design import Level
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.sections.traces import Steadiness

__all__ = [
    "OF_LEVELS",
    "AnyOf",
    "AtMaximum",
    "Pair",
    "by_own_runs",
    "drift_of",
    "ends_over",
    "law_of_trace",
    "level_against_one",
    "mean_contrast",
    "pairs_over",
    "ratio_over",
    "within_percent",
]


OF_LEVELS = 0.1
"""Of the error that a question to a maximum may make, the part of single levels; the plateau, which is surer, has the rest."""
# An own error less than this share of the one that is taken is named beside it.
_SMALLER = 0.8


@dataclass(frozen=True, eq=False)
class Pair:
    """Two cells of one sweep that differ in one factor alone."""

    base: CellReadings
    other: CellReadings


@dataclass(frozen=True)
class AtMaximum:
    """A question to a maximum: nothing may be said of it before a level is shown to reach the plateau.

    A curve that may go on beyond its last level has no maximum yet, but its maximum is no less than that level: where a question asks
    whether it is ``at_least`` something, that may hold.

    The same is true of every level. So one level that is shown to lie above the only limit, or above the upper one of two, decides,
    whether the plateau is shown or not. ``levels`` are questions with this limit, one for each level; Bonferroni's bound is for having had
    the choice of them, and of the plateau beside them (`OF_LEVELS`).
    """

    maximum: Maximum
    within: Question | None
    at_least: bool = False
    levels: tuple[Within, ...] = ()

    @property
    def may_be_more(self) -> bool:
        """Whether what is known is only that the maximum is no less."""
        return (
            self.at_least and not self.maximum.shown and self.maximum.plateau is not None and self.maximum.plateau.shown
        )

    @property
    def p_holds(self) -> float:
        """The larger of both; of at least, what one level shows counts, too."""
        known = self.maximum.shown or self.may_be_more
        plateau = max(self._p, self.within.p_holds) if self.within and known else 1.0
        return self._or_a_level(plateau) if self.at_least else plateau

    @property
    def p_fails(self) -> float:
        """The larger of both; of at most, what one level shows counts, too."""
        plateau = max(self._p, self.within.p_fails) if self.within and self.maximum.shown else 1.0
        return plateau if self.at_least else self._or_a_level(plateau)

    def _or_a_level(self, plateau: float) -> float:
        return min(1.0, plateau / (1.0 - OF_LEVELS), self._p_of_levels) if self.levels else plateau

    @property
    def _p_of_levels(self) -> float:
        """That none of them lies above the limit, with the part of the error that is left to them."""
        return min(1.0, len(self.levels) / OF_LEVELS * min(map(self._p_above, self.levels), default=1.0))

    def _p_above(self, level: Within) -> float:
        return level.p_holds if self.at_least else level.p_fails

    def level_that_decides(self, alpha: float) -> int | None:
        """The place of the level that lies above the limit most surely, where the plateau alone would decide nothing."""
        if not self.levels or self._p_of_levels > alpha:
            return None
        known = self.maximum.shown or (self.at_least and self.may_be_more)
        if self.within is not None and known:
            p = self.within.p_holds if self.at_least else self.within.p_fails
            if max(self._p, p) / (1.0 - OF_LEVELS) <= alpha:
                return None
        return min(range(len(self.levels)), key=lambda place: self._p_above(self.levels[place]))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Of the plateau's mean."""
        return self.within.interval(alpha) if self.within else (-math.inf, math.inf)

    def times_more(self, alpha: float) -> float:
        """Until both are decided."""
        if self.within is None or not (self.maximum.shown or self.maximum.more_runs is not None):
            return math.inf
        plateau = self.maximum.plateau.times_at(alpha) if self.maximum.plateau else 1.0
        return max(plateau, self.within.times_more(alpha))

    def doubt(self, alpha: float) -> str:
        """Where the interval lies on one side and yet nothing is said: that these levels are the maximum is less sure than is asked."""
        if self._p <= alpha or self.within is None or min(self.within.p_holds, self.within.p_fails) > alpha:
            return ""
        return f"; that these levels reach the plateau has p = {self._p:.2g} alone, and {alpha:.2g} is asked"

    @property
    def _p(self) -> float:
        """Of the place of the maximum; a single level has no other place."""
        return self.maximum.plateau.p if self.maximum.plateau else 0.0


@dataclass(frozen=True)
class AnyOf:
    """Whether at least one of some questions holds: it does not where none does. Of what holds, Bonferroni's for having had the choice."""

    questions: tuple[Within, ...]

    @property
    def p_holds(self) -> float:
        """The smallest, times how many there are."""
        return min(1.0, len(self.questions) * min(one.p_holds for one in self.questions))

    @property
    def p_fails(self) -> float:
        """The largest: all of them must fail."""
        return max(one.p_fails for one in self.questions)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Of the surest one."""
        return min(self.questions, key=lambda one: one.p_holds).interval(alpha / len(self.questions))

    def times_more(self, alpha: float) -> float:
        """Until the first of them is decided."""
        return min(one.times_more(alpha / len(self.questions)) for one in self.questions)


def within_percent(percent: float) -> tuple[float, float]:
    """The limits 1 − m and 1 + m of a ratio, on logarithms."""
    return math.log1p(-percent / 100.0), math.log1p(percent / 100.0)


def pairs_over(cells: Sequence[CellReadings], factor: str, low: Level, high: Level) -> list[Pair]:
    """All pairs that have these levels of the factor, with the levels of every other factor the same, in one sweep."""
    bases = {_others(cell, factor): cell for cell in cells if _level(cell, factor) == low}
    return [
        Pair(base, cell)
        for cell in cells
        if _level(cell, factor) == high and (base := bases.get(_others(cell, factor))) is not None
    ]


def ends_over(cells: Sequence[CellReadings], factor: str, by: str) -> list[tuple[Pair, Pair]]:
    """Pairs over the ends of one factor, at the lowest and at the highest level of another, the levels of all others the same."""
    groups: dict[tuple[object, ...], dict[float, list[CellReadings]]] = {}
    for cell in cells:
        rest = (cell_key(cell)[0], *((name, level) for name, level in cell.cell.levels if name not in (factor, by)))
        groups.setdefault(rest, {}).setdefault(float(str(cell.level(by))), []).append(cell)
    found = []
    for group in groups.values():
        low, high = (sorted(group[end(group)], key=lambda cell: float(str(cell.level(factor)))) for end in (min, max))
        if len(group) > 1 and len(low) > 1 and len(high) > 1:
            found.append((Pair(low[0], low[-1]), Pair(high[0], high[-1])))
    return found


def _level(cell: CellReadings, factor: str) -> object:
    found = getattr(cell.settings, factor)
    return float(found) if isinstance(found, int | float) else found


def _others(cell: CellReadings, factor: str) -> tuple[object, ...]:
    """What must be the same: the sweep, and the levels of all other factors.

    A factor of `path` or `subject` may bring settings of its own with it: those that are no factors need not agree.
    """
    tied = {"path", "subject"} if factor in ("path", "subject") else {factor}
    return (cell_key(cell)[0], *((name, level) for name, level in cell.cell.levels if name not in tied))


def ratio_over(
    pairs: Sequence[Pair], among: Sequence[CellReadings], value: Callable[[Reading], float | None]
) -> Estimate | None:
    """Mean over the pairs of the logarithm of the second cell's response over the first's; None with fewer than two runs of any."""
    model = model_of(among, value)
    if model is None or not pairs:
        return None
    known = model.values
    if any(len(known.get(cell_key(cell), ())) < 2 for pair in pairs for cell in (pair.base, pair.other)):
        return None
    try:
        return model.contrast(mean_contrast(pairs))
    except LayoutError:
        return None


def mean_contrast(pairs: Sequence[Pair]) -> Mapping[Hashable, float]:
    """Weights of the cells in the mean over pairs."""
    weights: dict[Hashable, float] = {}
    for pair in pairs:
        for cell, sign in ((pair.other, 1.0), (pair.base, -1.0)):
            weights[cell_key(cell)] = weights.get(cell_key(cell), 0.0) + sign / len(pairs)
    return weights


def level_against_one(
    cells: Sequence[CellReadings], among: Sequence[CellReadings], value: Callable[[Reading], float | None]
) -> Estimate | None:
    """Mean logarithm of a ratio that each run has in itself, over all runs of these cells; None if there are too few."""
    if not cells or any(len(cell.of(value)) < 2 for cell in cells):
        return None
    model = model_of(among, value)
    try:
        return None if model is None else model.pooled([cell_key(cell) for cell in cells])
    except LayoutError:
        return None


def by_own_runs(
    cells: Sequence[CellReadings], among: Sequence[CellReadings], value: Callable[[Reading], float | None]
) -> Estimate | None:
    """The same by the spread of these cells' own runs alone, where they differ less than those of the other cells, whose error is taken.

    `LogModel.pooled` takes the larger of both errors: few runs may be near each other by chance. None where the own one is no smaller by
    `_SMALLER`, or the spreads of the cells agree, so that all runs tell about the same error.
    """
    found, model = level_against_one(cells, among, value), model_of(among, value)
    if found is None or model is None or model.spread.equal:
        return None
    own = model.fit.level_by_cell(*map(cell_key, cells))
    return own if own.standard_error < _SMALLER * found.standard_error else None


def drift_of(found: Steadiness) -> Estimate:
    """The change of a trace from its beginning to its end along a straight line, in percent."""
    half = (found.high_percent - found.low_percent) / 2.0
    return Estimate(found.drift_percent, half / float(stdtrit(found.freedom, 0.975)), found.freedom)


def law_of_trace(run: Reading, window_s: int) -> Estimate | None:
    """Deviation from the interactive law in parts of one run: the mean logarithm of 1 + deviation (`mean_along`)."""
    found = traces.steadiness(run, window_s)
    if found is None:
        return None
    windows = found.windows
    count = min(traces.PARTS, len(windows))
    length = len(windows) // count
    logs = []
    for first in range(0, count * length, length):
        part = windows[first : first + length]
        requests = sum(one.requests for one in part)
        if requests == 0:
            return None
        rate = requests / sum(one.length_s for one in part)
        mean_ns = sum(one.response_time_sum_ns for one in part) / requests
        law = cycle_law(rate, run.settings.population, mean_ns, run.settings.think_time_s)
        logs.append(math.log1p(law.deviation))
    mean = mean_along(logs)
    return Estimate(mean.value, mean.standard_error, mean.freedom) if math.isfinite(mean.standard_error) else None
