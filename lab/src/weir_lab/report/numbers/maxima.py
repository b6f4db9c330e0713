"""The maximum of some cells: the fewest clients that are shown to reach the plateau, and the plateau's throughput. Start with `maximum_of`.

The rule is `theory.linear.plateau_of`, over the linear model of the cells' own runs, if they leave enough degrees of freedom: what slows
other cells of the sweeps may leave these as they are. Else it is the model of all runs of the sweeps. The margin stands in the set file.
Levels with one run are not judged. Where no level is shown to reach the plateau, one loud level may be why: a level at the far end whose
mean is not the largest. Such levels are left out, the most clients first and at most a third of them, and what is said is then said of the
others. Whatever is left out for this is named beside the maximum, and one that lies above it by more than the margin takes it back.

Where the most clients that were measured are alone on the plateau, it may be none: there is no maximum then. Where the largest mean has
levels with more clients behind it, the curve does not go on growing there: it is flat within what can be seen, or falls (`_course`).

The bracket of the knee is by the same rule: from the last level that is shown to be below the plateau to the first that is shown on it.
Where that is the curve's first level, `with_fewer` takes levels with fewer clients from runs of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from weir_lab.report.numbers.comparing import cell_key, level_of, model_of, throughput_of
from weir_lab.theory.linear import LayoutError, Within, plateau_of
from weir_lab.theory.units import count_text, number, rate

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.theory.linear import LogModel, Plateau
    from weir_lab.theory.stats import Interval

__all__ = ["NOT_SHOWN", "Maximum", "listed", "maximum_of", "more_text", "wanted_runs", "with_fewer"]

NOT_SHOWN = "from how many clients on the most is reached"
"""What no run tells yet of a curve whose largest mean has levels with more clients behind it."""
# More than this nobody measures.
_TIMES_MAX = 1000.0
# Of the levels by clients, so much may be left out at the far end.
_LEFT_OUT_SHARE_MAX = 1.0 / 3.0
_ALPHA = 0.05
# From this many degrees of freedom on cells are judged by their own runs: from here on a t quantile is little larger than a normal one.
_OWN_FREEDOM_MIN = 15
# More levels than this are counted, not named.
_NAMED_MAX = 3
# A mean this much below the plateau is said to fall.
_FALL_MIN_PERCENT = 0.5


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where some cells have their maximum, and what it is.

    ``cell`` is the one with the fewest clients that is shown to reach the plateau, and ``value`` the mean of the cells on it, ``cells``.
    Where none is shown, ``cell`` is the one with the largest mean, ``value`` is None, and ``plateau`` (None with too few runs) says why.
    ``below`` is the last level, before ``cell``, that is shown to lie below the plateau. ``beyond`` have more clients than the first on
    the plateau and are not on it; ``single`` have one run and were not judged.
    """

    cell: CellReadings
    cells: tuple[CellReadings, ...]
    value: Interval | None
    plateau: Plateau | None
    below: CellReadings | None = None
    beyond: tuple[CellReadings, ...] = ()
    single: tuple[CellReadings, ...] = ()
    above: CellReadings | None = None
    """A level that was left out and lies above what would be the plateau."""
    rising: bool = False
    """Whether the most clients alone reach what would be the plateau: a curve that ends there may go on."""
    lone: bool = False
    """Whether all cells have the same clients: then there is no curve over them, and no knee."""
    up_to: int | None = None
    """The most clients that were judged, where levels with more were left out: nothing is shown of those."""
    first: CellReadings | None = None
    """With fewer clients than ``cell``, of a sweep of its own: the fewest that are shown to reach the plateau, too (`with_fewer`)."""
    course: str = ""
    """Behind a largest mean: ``flat from 32 clients on within what can be seen``, or ``falling after that (lower at 648 clients)``."""
    ours: bool = False
    """Whether a side of the bracket is a level of such a sweep."""

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
            at = f"at {clients}" if self.lone else f"from {clients} on"
            judged = f", of the levels up to {self.up_to}" if self.up_to is not None else ""
            return f"{rate(self.value.mean)} requests/s ({ends}) {at}{judged}"
        return f"{self.largest_text}, {self.yet_text}: {self.why_not}"

    @property
    def largest_text(self) -> str:
        """The largest mean, which is not the maximum."""
        clients = count_text(self.cell.settings.clients, "client")
        return f"largest mean {rate(self.cell.mean_throughput)} requests/s at {clients}"

    @property
    def yet_text(self) -> str:
        """What a largest mean is, where no maximum is shown: only the last level of a curve says that it may go on growing.

        A curve that falls behind its largest mean has stopped growing: what is not known is which of its levels share the most.
        """
        return f"{self.course}, and {NOT_SHOWN} is not shown yet" if self.course else "no maximum yet"

    @property
    def course_text(self) -> str:
        """The course behind a comma, for where only the largest mean is named."""
        return f", {self.course}" if self.course else ""

    @property
    def why_not(self) -> str:
        """What it would take."""
        if self.above is not None:
            clients = count_text(self.above.settings.clients, "client")
            return f"{count_text(len(self.above.runs), 'run')} at {clients} lies above, and more runs there would tell"
        if self.rising:
            return "only the most clients that were measured are shown to reach it, and a level with more would tell"
        if self.plateau is None:
            return "it takes two levels, and two runs of each"
        return more_text(self.plateau.times_more, len(self.cell.runs))

    @property
    def more_runs(self) -> tuple[int, int] | None:
        """How many runs of each level would tell, and how many there are; None where that is not known, or something else is missing."""
        if (
            self.shown
            or self.rising
            or self.above is not None
            or self.plateau is None
            or self.plateau.times_more > _TIMES_MAX
        ):
            return None
        return wanted_runs(self.plateau.times_more, len(self.cell.runs)), len(self.cell.runs)

    @property
    def single_text(self) -> str:
        """``12 levels have one run``; empty where none has."""
        if not self.single:
            return ""
        return f"{count_text(len(self.single), 'level')} {'has' if len(self.single) == 1 else 'have'} one run"

    @property
    def _fallen(self) -> dict[CellReadings, float]:
        """Levels with more clients whose mean lies below the plateau by `_FALL_MIN_PERCENT` or more, and by how many percent."""
        if self.value is None:
            return {}
        lower = {cell: 100.0 * (1.0 - cell.mean_throughput / self.value.mean) for cell in self.beyond}
        return {cell: percent for cell, percent in lower.items() if percent >= _FALL_MIN_PERCENT}

    @property
    def fall_text(self) -> str:
        """``at 288 and 384 clients the mean is 0.7 % and 5.5 % lower``; empty where none is lower by `_FALL_MIN_PERCENT`."""
        fallen = self._fallen
        named = [cell.settings.clients for cell in fallen]
        if not named:
            return ""
        if len(named) > _NAMED_MAX or len(set(named)) < len(named):
            ends = f"{number(min(fallen.values()), 1)} to {number(max(fallen.values()), 1)}"
            return f"at {count_text(len(named), 'level')} with more clients the mean is {ends} % lower"
        shares = [f"{number(percent, 1)} %" for percent in fallen.values()]
        return f"at {listed([str(one) for one in named])} clients the mean is {listed(shares)} lower"

    @property
    def fall_why(self) -> str:
        """Behind ``fall_text``: that runs were slow at first, if the second half of those of each such level is on the plateau."""
        least = (1.0 - _FALL_MIN_PERCENT / 100.0) * self.throughput
        late = [cell.of(lambda run: run.late_throughput) for cell in self._fallen]
        if late and all(found and sum(found) / len(found) > least for found in late):
            return (
                "the runs there were not steady at once: in their second half throughput is that of the plateau, but for "
                f"{_FALL_MIN_PERCENT:g} %"
            )
        return "why is not known"

    @property
    def knee_text(self) -> str:
        """``between N = 6 and N = 24``, by the same levels, or what it would take."""
        if not self.shown:
            return f"cannot tell: {self.why_not}"
        at = (self.first or self.cell).settings.population
        if self.lone:
            return f"cannot tell: all cells have N = {at}"
        if self.below is None:
            return f"at or below N = {at}: no fewer clients are shown to lie below it"
        return f"between N = {self.below.settings.population} and N = {at}"


def wanted_runs(times: float, runs: int) -> int:
    """Runs times this factor, at least one more."""
    return max(runs + 1, math.ceil(runs * times))


def more_text(times: float, runs: int) -> str:
    """How much more data would tell, in runs of each level where it is known how many there are."""
    if times > _TIMES_MAX:
        return f"what was found lies so near to the limit that it would take more than {_TIMES_MAX:,.0f} times the runs to tell"
    return f"some {wanted_runs(times, runs):,} runs of each level in place of {runs} would tell in 4 of 5 such studies"


def maximum_of(cells: Sequence[CellReadings], margin_percent: float) -> Maximum:
    """Of these cells together, those of one series or of several; all runs of their sweeps tell about the spread."""
    return _maximum_of(tuple(cells), margin_percent)


def with_fewer(maximum: Maximum, first: CellReadings, fewer: Sequence[CellReadings], margin_percent: float) -> Maximum:
    """With a bracket from levels of ``fewer`` clients, where no level of the curve is shown to lie below the plateau.

    They lie in one sweep with ``first``, which has the settings of the first level on the plateau, and are held against it with blocks
    taken out: another sweep's mean may be that of a faster hour. Levels that are shown to reach it but for the margin, one after the other
    down from ``first``, move the upper side of the bracket. Its lower side is the last of the others that is shown to be less by more than
    the margin. Levels with one run are not judged.
    """
    if not maximum.shown or maximum.lone or maximum.below is not None or len(first.runs) < 2:
        return maximum
    judged = sorted((one for one in (*fewer, first) if len(one.runs) > 1), key=lambda one: one.settings.clients)
    model = _model(judged)
    if model is None:
        return maximum
    share = 1.0 - margin_percent / 100.0
    others = [one for one in judged if one.settings.clients < first.settings.clients]
    reached = first
    for cell in reversed(others):
        try:
            found = model.contrast({cell_key(cell): 1.0, cell_key(first): -1.0})
        except LayoutError:
            break
        if Within(found, math.log(share)).p_holds > _ALPHA / len(others):
            break
        reached = cell
    left = [one for one in others if one.settings.clients < reached.settings.clients]
    below = _below(model, [*left, first], [first], share, len(others))
    moved = reached if reached is not first else None
    return replace(maximum, below=below, first=moved, ours=moved is not None or below is not None)


@lru_cache(maxsize=256)
def _maximum_of(cells: tuple[CellReadings, ...], margin_percent: float) -> Maximum:
    ordered = sorted(cells, key=lambda cell: (cell.settings.clients, cell.cell.name))
    largest = max(ordered, key=lambda cell: cell.mean_throughput)
    lone = len(_clients(ordered)) == 1
    if len(ordered) == 1:
        return Maximum(largest, (largest,), level_of(largest, throughput_of), None, lone=lone)
    judged = [cell for cell in ordered if len(cell.runs) > 1]
    single = tuple(cell for cell in ordered if len(cell.runs) < 2)
    model = _model(ordered)
    if model is None or len(judged) < 2 or len(_clients(judged)) < min(2, len(_clients(ordered))):
        return Maximum(largest, (), None, None, single=single)
    share, first, course = 1.0 - margin_percent / 100.0, None, _course(model, judged, largest)
    for kept in _kept(judged):
        by_key = {cell_key(cell): cell for cell in kept}
        try:
            found = plateau_of(model, list(by_key), share)
        except LayoutError:
            continue
        first = first or found
        if found.shown and found.value is not None:
            on = tuple(cell for key, cell in by_key.items() if key in found.levels)
            # What may lie above the plateau is no reason to call it one.
            over = [one for one in ordered if one not in kept and one.mean_throughput * share > found.value.mean]
            if over:
                return Maximum(largest, (), None, first, single=single, above=over[0], course=course)
            fewest, most = ordered[0].settings.clients, ordered[-1].settings.clients
            if fewest < most == on[0].settings.clients:
                return Maximum(largest, (), None, first, single=single, rising=True)
            beyond = tuple(one for one in judged if one not in on and one.settings.clients > on[0].settings.clients)
            up_to = _clients(kept)[-1] if len(kept) < len(judged) else None
            below = _below(model, kept, on, share)
            return Maximum(on[0], on, found.value, found, below, beyond, single, lone=lone, up_to=up_to)
    return Maximum(largest, (), None, first, single=single, course=course)


def _course(model: LogModel, judged: Sequence[CellReadings], largest: CellReadings) -> str:
    """What a curve does behind its largest mean; empty where nothing is behind it that was judged.

    Two levels differ where the interval of their contrast says so, at Bonferroni's level for all pairs: which mean is the largest was seen.
    """
    ordered = sorted(judged, key=lambda cell: cell.settings.clients)
    behind = [cell for cell in ordered if cell.settings.clients > largest.settings.clients]
    if largest not in ordered or not behind or len(_clients(ordered)) < len(ordered):
        return ""
    alpha = _ALPHA / (len(ordered) * (len(ordered) - 1) / 2.0)
    lower = [cell for cell in ordered if cell is not largest and _is_lower(model, cell, largest, alpha)]
    fallen = [str(cell.settings.clients) for cell in behind if cell in lower]
    if fallen:
        many = f"{len(fallen)} of {count_text(len(behind), 'level')} with more"
        return f"falling after that (lower at {many if len(fallen) > _NAMED_MAX else listed(fallen)} clients)"
    flat = largest
    for cell in reversed([one for one in ordered if one.settings.clients < largest.settings.clients]):
        if cell in lower:
            break
        flat = cell
    return f"flat from {count_text(flat.settings.clients, 'client')} on within what can be seen"


def _is_lower(model: LogModel, cell: CellReadings, other: CellReadings, alpha: float) -> bool:
    try:
        found = model.contrast({cell_key(cell): 1.0, cell_key(other): -1.0})
    except LayoutError:
        return False
    return Within(found, -math.inf, 0.0).p_holds <= alpha


def _model(cells: Sequence[CellReadings]) -> LogModel | None:
    """Of their own runs, if these are enough; else of all runs of their sweeps, whose blocks and errors are taken to be theirs, too."""
    own = model_of(cells, throughput_of)
    if own is not None and own.fit.freedom >= _OWN_FREEDOM_MIN:
        return own
    return model_of(list({id(one): one for cell in cells for one in (cell, *cell.among)}.values()), throughput_of)


def _clients(cells: Sequence[CellReadings]) -> list[int]:
    return sorted({cell.settings.clients for cell in cells})


def _kept(judged: Sequence[CellReadings]) -> Iterator[list[CellReadings]]:
    """All levels; then without those of the most clients, as long as none of what is left out has the largest mean."""
    levels = _clients(judged)
    for left_out in range(int(len(levels) * _LEFT_OUT_SHARE_MAX) + 1):
        kept = [cell for cell in judged if cell.settings.clients <= levels[-1 - left_out]]
        best = max(cell.mean_throughput for cell in kept)
        if len(kept) < 2 or any(cell.mean_throughput > best for cell in judged if cell not in kept):
            return
        yield kept


def _below(
    model: LogModel, kept: Sequence[CellReadings], on: Sequence[CellReadings], share: float, judged: int = 0
) -> CellReadings | None:
    """The last level before the first on the plateau that is shown to lie below it, all such levels judged together (Bonferroni).

    ``judged`` is their number where others were judged beside them.
    """
    before = [cell for cell in kept if cell.settings.clients < on[0].settings.clients]
    plateau: dict[Hashable, float] = {cell_key(cell): -1.0 / len(on) for cell in on}
    for cell in reversed(before):
        try:
            found = model.contrast({**plateau, cell_key(cell): 1.0})
        except LayoutError:
            continue
        if Within(found, -math.inf, math.log(share)).p_holds <= _ALPHA / max(judged, len(before)):
            return cell
    return None


def listed(parts: Sequence[str]) -> str:
    """``8, 16 and 32``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
