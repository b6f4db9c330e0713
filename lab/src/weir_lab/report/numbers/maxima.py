"""The maximum of some cells: the fewest clients that are shown to reach the plateau, and the plateau's throughput. Start with `maximum_of`.

The rule is `theory.linear.plateau_of`, over the linear model of all runs of the sweeps; its margin stands in the set file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from weir_lab.report.numbers.comparing import cell_key, level_of, model_of, throughput_of
from weir_lab.theory.linear import LayoutError, plateau_of
from weir_lab.theory.units import count_text, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.theory.linear import Plateau
    from weir_lab.theory.stats import Interval

__all__ = ["Maximum", "maximum_of", "more_text"]

# More than this nobody measures.
_TIMES_MAX = 1000.0


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where some cells have their maximum, and what it is.

    ``cell`` is the one with the fewest clients that is shown to reach the plateau, and ``value`` the mean of the cells on it, ``cells``.
    Where none is shown, ``cell`` is the one with the largest mean, ``value`` is None, and ``plateau`` (None with too few runs) says why.
    """

    cell: CellReadings
    cells: tuple[CellReadings, ...]
    value: Interval | None
    plateau: Plateau | None

    @property
    def shown(self) -> bool:
        """Whether the data tell it."""
        return self.value is not None

    @property
    def throughput(self) -> float:
        """Of the plateau; the largest mean where none is shown."""
        return self.value.mean if self.value is not None else self.cell.mean_throughput

    @property
    def text(self) -> str:
        """``2,912 requests/s (2,905 to 2,919) from 96 clients on``, or the largest mean and why that is no maximum."""
        clients = count_text(self.cell.settings.clients, "client")
        if self.value is not None:
            ends = f"{rate(self.value.low)} to {rate(self.value.high)}"
            return f"{rate(self.value.mean)} requests/s ({ends}) from {clients} on"
        return f"{self.largest_text}, no maximum yet: {self.why_not}"

    @property
    def largest_text(self) -> str:
        """The largest mean, which is not the maximum."""
        clients = count_text(self.cell.settings.clients, "client")
        return f"largest mean {rate(self.cell.mean_throughput)} requests/s at {clients}"

    @property
    def why_not(self) -> str:
        """What it would take."""
        if self.plateau is None:
            return "it takes two levels, and two runs of each"
        return more_text(self.plateau.times_more, len(self.cell.runs))


def more_text(times: float, runs: int) -> str:
    """How much more data would tell, in runs of each level where it is known how many there are."""
    if times > _TIMES_MAX:
        return "no number of runs would tell: what was found lies at the limit itself"
    wanted = max(runs + 1, math.ceil(runs * times))
    return f"some {wanted} runs of each level in place of {runs} would tell in 4 of 5 studies"


def maximum_of(cells: Sequence[CellReadings], margin_percent: float) -> Maximum:
    """Of these cells together, those of one series or of several; all runs of their sweeps tell about the spread."""
    return _maximum_of(tuple(cells), margin_percent)


@lru_cache(maxsize=256)
def _maximum_of(cells: tuple[CellReadings, ...], margin_percent: float) -> Maximum:
    ordered = sorted(cells, key=lambda cell: (cell.settings.clients, cell.cell.name))
    largest = max(ordered, key=lambda cell: cell.mean_throughput)
    if len(ordered) == 1:
        return Maximum(largest, (largest,), level_of(largest, throughput_of), None)
    among = list({id(one): one for cell in ordered for one in (cell, *cell.among)}.values())
    model = model_of(among, throughput_of)
    if model is None or any(len(cell.runs) < 2 for cell in ordered):
        return Maximum(largest, (), None, None)
    by_key = {cell_key(cell): cell for cell in ordered}
    try:
        found = plateau_of(model, list(by_key), 1.0 - margin_percent / 100.0)
    except LayoutError:
        return Maximum(largest, (), None, None)
    if not found.shown:
        return Maximum(largest, (), None, found)
    on = tuple(cell for key, cell in by_key.items() if key in found.levels)
    return Maximum(on[0], on, found.value, found)
