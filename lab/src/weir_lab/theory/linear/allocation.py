"""Where the next runs tell most: `reaches` says how far each cell is, `next_block` which cells are measured beside each other next. Pure.

Every cell has an *aim*: how wide the interval of its mean may be, and how many runs it needs at least. Its *lack* is the half-width over
that of its aim. Cells with a single run come first: they have no interval of their own, and verdicts on them cannot tell. Then a cell with
the largest lack gets the next block, together with cells that it is compared with, those that lack most behind it, and two *anchors*. The
anchors stand in nearly all blocks, so that blocks are connected and their effects known well: incomplete blocks.

All cells lend each other their spread (one error, pooled), and intervals are those at one speed of the machine (`Fit.level_here`). So the
choice depends on the counts of runs and on the pooled error, not on the values of single cells: intervals cover nearly as if the numbers
of runs had been fixed. Where spreads of cells may differ, verdicts judge a cell by its own runs, too. So there the wider of two
half-widths counts: that of the pooled error, and that of the cell's own (docs/measure/method.md has the shares of intervals that hold).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from scipy.special import stdtrit

from weir_lab.theory.linear.checks import spread_of
from weir_lab.theory.linear.fit import fit
from weir_lab.theory.linear.layout import LayoutError, lay_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from weir_lab.theory.linear.fit import Fit
    from weir_lab.theory.linear.logs import MeasuredRun

__all__ = ["Aim", "Reach", "next_block", "reaches", "runs_to_come"]

C = TypeVar("C", bound=Hashable)
# A block has this many cells and its anchors. In small blocks most runs were those of anchors; large ones take long, and machines change.
BLOCK_CELLS = 10
# With fewer runs a cell has no interval of its own.
_RUNS_WITH_INTERVAL = 2
# Below this many degrees of freedom the pooled error may be far too small by chance, and whoever stops there stops too early.
_FREEDOM_MIN = 8
# Whoever stops as soon as a cell's own interval is narrow enough stops at lucky runs: with less freedom it has to be half as wide.
_OWN_FREEDOM_MIN = 6.0
_SURE = 0.5
# Nobody makes more runs than this: cells that are known within a factor of thousands would take long to count.
_RUNS_COUNTED_MAX = 1_000_000
# From this p value of the check of equal spread on, the pooled error stands for all cells.
_ALIKE_P = 0.5


@dataclass(frozen=True)
class Aim:
    """How narrow a cell's interval is to be, relative to its mean, and its least number of runs."""

    half_width: float = 0.05
    runs_min: int = 3


@dataclass(frozen=True)
class Reach:
    """How far a cell is. ``half_width`` is relative to the mean, infinite where nothing is known yet; ``n`` counts its runs.

    ``own`` says that the half-width is that of its own runs alone; ``freedom`` is that of the error it rests on.
    """

    n: int
    half_width: float
    aim: Aim
    freedom: float = 0.0
    own: bool = False

    @property
    def lack(self) -> float:
        """Half-width over the one that is wanted; above 1 where more runs are needed for it."""
        return self.half_width / self.aim.half_width

    @property
    def known(self) -> bool:
        """Whether its half-width says anything: with less freedom the error may be far off, either way."""
        if self.own:
            return self.freedom >= _OWN_FREEDOM_MIN or self.lack <= _SURE
        return self.freedom >= _FREEDOM_MIN and not math.isinf(self.half_width)

    @property
    def done(self) -> bool:
        """Whether it needs no more runs."""
        return self.n >= self.aim.runs_min and self.lack <= 1.0 and self.known


def reaches(responses: Sequence[Sequence[MeasuredRun]], aims: Mapping[C, Aim], level: float = 0.95) -> dict[C, Reach]:
    """How far each cell of ``aims`` is, by its widest response; ``responses`` holds the same runs with one response each.

    >>> from weir_lab.theory.linear.logs import MeasuredRun
    >>> runs = [MeasuredRun(cell, value, block) for block, pair in enumerate([(10, 20), (11, 22.2), (9, 17.9)])
    ...         for cell, value in zip("ab", pair)]
    >>> found = reaches([runs], {"a": Aim(0.05), "b": Aim(0.05), "c": Aim(0.05)})
    >>> found["c"].lack, found["a"].n, found["a"].own
    (inf, 3, True)
    """
    found = {cell: Reach(0, math.inf, aim) for cell, aim in aims.items()}
    for runs in responses:
        made = _fitted(runs)
        if made is None:
            for cell in {cast(C, run.cell) for run in runs} & found.keys():
                found[cell] = Reach(sum(one.cell == cell for one in runs), math.inf, aims[cell])
            continue
        quantile = float(stdtrit(made.freedom, 0.5 + level / 2.0))
        own = _own_spreads(made)
        for name, count in zip(made.layout.cells, made.layout.counts.astype(int).tolist(), strict=True):
            cell = cast(C, name)
            if cell not in found:
                continue
            width = _half_width(made, cell, quantile)
            reach = Reach(count, width, aims[cell], made.freedom)
            if cell in own:
                ratio, freedom = own[cell]
                alone = _half_width(made, cell, ratio * float(stdtrit(freedom, 0.5 + level / 2.0)))
                if alone > width:
                    reach = Reach(count, alone, aims[cell], freedom, own=True)
            if math.isinf(found[cell].half_width) or reach.half_width > found[cell].half_width:
                found[cell] = reach
    return found


def next_block(
    found: Mapping[C, Reach],
    partners: Mapping[C, Sequence[Sequence[C]]],
    anchors: Sequence[C],
    rng: np.random.Generator,
    room: int = BLOCK_CELLS,
) -> list[C]:
    """Cells of the next block in their order; none where all are done.

    ``partners`` has, for each cell, groups of cells that it is compared with: from each the one with the largest lack comes along. What is
    left of ``room`` (cells beside the anchors) goes to those that lack most. Cells without a second run go before all others.
    """
    waiting = [cell for cell, reach in found.items() if not reach.done]
    if not waiting:
        return []
    # Cells that are as far behind as each other take turns by chance, not by their place in the file.
    place = {cell: number for number, cell in enumerate(found)}
    luck = rng.permutation(len(place))

    def urgency(cell: C) -> tuple[bool, bool, float, int, int]:
        reach = found[cell]
        return (not reach.done, reach.n < _RUNS_WITH_INTERVAL, reach.lack, -reach.n, int(luck[place[cell]]))

    chosen: dict[C, None] = {max(waiting, key=urgency): None}
    for group in partners.get(next(iter(chosen)), ()):
        if group:
            chosen[max(group, key=urgency)] = None
    others = sorted((cell for cell in waiting if cell not in chosen), key=urgency, reverse=True)
    chosen.update(dict.fromkeys(others[: max(0, room - len(chosen))]))
    chosen.update(dict.fromkeys(anchors))
    cells = list(chosen)
    return [cells[number] for number in rng.permutation(len(cells)).tolist()]


def runs_to_come(found: Mapping[C, Reach]) -> dict[C, int]:
    """Runs that each cell still needs by what is known now: half-widths shrink as 1/√n. Where nothing is known yet, its least number.

    >>> runs_to_come({"a": Reach(4, 0.1, Aim(0.05, 3), 20), "b": Reach(1, math.inf, Aim(0.05, 3)), "c": Reach(2, 9.0, Aim(0.05, 5), 1)})
    {'a': 12, 'b': 2, 'c': 3}
    """
    left = {}
    for cell, reach in found.items():
        least = max(0, reach.aim.runs_min - reach.n)
        if reach.own and not math.isinf(reach.half_width):
            left[cell] = max(least, _own_runs(reach) - reach.n)
        elif reach.known:
            left[cell] = max(least, math.ceil(reach.n * max(1.0, reach.lack) ** 2 - 1e-9) - reach.n)
        else:
            left[cell] = max(1, least)
    return left


def _own_runs(reach: Reach, level: float = 0.95) -> int:
    """The fewest runs that are enough if they spread as they do; the quantile of an own interval shrinks with them, too."""

    def of(n: int) -> Reach:
        freedom = reach.freedom + n - reach.n
        shrinks = float(stdtrit(freedom, 0.5 + level / 2.0)) / quantile * math.sqrt(reach.n / n)
        return replace(reach, n=n, freedom=freedom, half_width=reach.half_width * shrinks)

    quantile, most = float(stdtrit(reach.freedom, 0.5 + level / 2.0)), reach.n
    while not of(most).done and most < _RUNS_COUNTED_MAX:
        most *= 2
    return bisect_left(range(most), True, lo=reach.n, key=lambda n: of(n).done)


def _own_spreads(made: Fit) -> dict[Hashable, tuple[float, float]]:
    """Of each cell that says something of it: its own spread over the pooled one, and the degrees of freedom of that.

    Empty where spreads of cells are as like as chance has them in every second study. The limit of verdicts (`UNEQUAL_P`) is lower, but
    with few runs that check often sees nothing.
    """
    found = spread_of(made)
    if found.p is None or found.p >= _ALIKE_P:
        return {}
    own, squares = made.layout.own_freedom, made.layout.cell_sums(made.residuals**2)
    if made.error_sd == 0.0:
        return {}
    return {
        name: (math.sqrt(square / freedom) / made.error_sd, freedom)
        for name, square, freedom in zip(made.layout.cells, squares.tolist(), own.tolist(), strict=True)
        if freedom >= 1.0
    }


def _half_width(made: Fit, cell: Hashable, quantile: float) -> float:
    """Of the factor's interval, upwards; infinite where blocks do not connect the cell."""
    try:
        return math.expm1(min(700.0, quantile * made.level_here(cell).standard_error))
    except LayoutError:
        return math.inf


def _fitted(runs: Sequence[MeasuredRun]) -> Fit | None:
    """By cell, block and yardstick; without the yardstick where it was not read or costs what little freedom there is."""
    cells, blocks = [run.cell for run in runs], [run.block for run in runs]
    values = [math.log(run.value) for run in runs]
    known = [math.log(run.covariate) for run in runs if run.covariate is not None and run.covariate > 0.0]
    for covariate in (known, None) if len(known) == len(runs) and runs else (None,):
        try:
            made = fit(lay_out(cells, blocks, covariate), values)
        except LayoutError:
            continue
        if covariate is None or made.freedom >= _FREEDOM_MIN:
            return made
    return None
