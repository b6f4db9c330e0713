"""Series that stop at the same throughput at the same station: one `Stop` for each distinct plateau of a workload. `stops_of`.

`reached_table` has a row for each, and is the table that a section shows first.

Sentences, the summary and the paragraph of what limits speak of stops, so that they say what the table of maxima has, series by series.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.report.common import by_workload, level_value, series_of
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.stations import bottleneck, tightest_of, usages
from weir_lab.report.page.arranging import PRINTED
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.comparisons.drawn import printed_of
from weir_lab.report.sections.comparisons.maxima import against_printed, maximum_over
from weir_lab.theory.units import rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.published import Printed
    from weir_lab.report.numbers.stations import Limit
    from weir_lab.report.page.blocks import Entry

__all__ = ["Stop", "ends_text", "names_text", "reached_table", "stops_of"]

# More names than this are counted.
_NAMED_MAX = 5
# How a series is named whose largest mean stands in the place of a plateau.
_LARGEST = ", largest mean"
# What stands where nothing was printed.
_NONE = "–"


@dataclass(frozen=True, eq=False)
class Stop:
    """Series of one workload whose maxima lie within the margin of the largest of them and have one limit, in the order of the page.

    ``alone`` where the workload has no other stop. What is said of a stop is said of its ``lead``: the series that is shown to reach its
    plateau with the fewest clients, or the one with the largest mean where none is shown.
    """

    workload: str
    series: tuple[Series, ...]
    maxima: tuple[Maximum, ...]
    alone: bool

    @property
    def place(self) -> int:
        """Of the lead."""
        shown = [place for place, one in enumerate(self.maxima) if one.shown]
        if shown:
            return min(shown, key=lambda place: (self.maxima[place].cell.settings.clients, place))
        return max(range(len(self.maxima)), key=lambda place: self.maxima[place].throughput)

    @property
    def lead(self) -> Series:
        """The series that is spoken of."""
        return self.series[self.place]

    @property
    def maximum(self) -> Maximum:
        """Of the lead."""
        return self.maxima[self.place]

    @property
    def limit(self) -> Limit:
        """What limits the lead at its maximum."""
        return _limit(self.lead, self.maximum)

    @property
    def shown(self) -> bool:
        """Whether the data tell a maximum of any of them."""
        return self.maximum.shown

    @property
    def names(self) -> str:
        """``16, 32 and 64 workers``."""
        return names_text([one.name for one in self.series])

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest throughput of those that are shown, or of all where none is."""
        found = [one.throughput for one in self.maxima if one.shown or not self.shown]
        return min(found), max(found)

    @property
    def rate_text(self) -> str:
        """``3,459–3,472 requests/s``."""
        return f"{ends_text(*self.ends)} requests/s"


def stops_of(task: Task, over: str = "clients") -> list[Stop]:
    """The stops of each workload of a section, the largest throughput first; other engines beside it are left out."""
    share, found = 1.0 - task.margins.maximum / 100.0, []
    for workload, group in by_workload([one for one in series_of(task, over) if not one.event]).items():
        known = [(one, maximum_over(task, [one])) for one in group]
        stops: list[list[tuple[Series, Maximum]]] = []
        least, level = math.inf, 0
        for one in sorted(known, key=lambda pair: -pair[1].throughput):
            if one[1].throughput < least:
                least, level = share * one[1].throughput, len(stops)
            # As much may be all that one station allows here, and all that another one allows there.
            station = _limit(*one).station
            alike = next((stop for stop in stops[level:] if _limit(*stop[0]).station == station), None)
            if alike is None:
                stops.append([one])
            else:
                alike.append(one)
        for stop in stops:
            ordered = [one for one in known if one in stop]
            found.append(
                Stop(workload, tuple(one for one, _ in ordered), tuple(one for _, one in ordered), len(stops) == 1)
            )
    return found


def reached_table(task: Task) -> Table | None:
    """What the series of a section reach, a row for each that differ; beside it what the study printed. None without series.

    Of a series with several printed values the first stands here. The table of maxima has all, each with where it was printed.
    """
    speed = task.first.speed
    stops = [(one.workload, one) for one in stops_of(task)]
    rows = [row for workload, stop in stops for row in _reached_rows(task, workload, stop)]
    beside = [one for one in series_of(task) if one.event]
    rows += [
        row
        for one in beside
        for row in _reached_rows(
            task, one.workload, Stop(one.workload, (one,), (maximum_over(task, [one]),), alone=True)
        )
    ]
    if not rows:
        return None
    printed = any(row[-2] != _NONE for row in rows)
    scaled = speed != 1.0
    largest = any(str(row[1]).endswith(_LARGEST) for row in rows)
    # Without printed values there is nothing to hold ours against.
    kept = [row if printed else row[:-2] for row in rows]
    return Table(
        f"{task.spec.name}-reached",
        "What is reached: the plateau (95 % interval), its fewest clients, and their mean response time R. Series of one limit within the "
        f"margin share a row.{' Largest means are too large by chance.' if largest else ''}",
        (
            *("Workload", "Series", "Clients", "X (requests/s)", "R there (ms)", "Limits"),
            *(("X at the study's speed (requests/s)",) if scaled else ()),
            *((PRINTED, "Ours against it (%)") if printed else ()),
        ),
        tuple(kept),
    )


def _reached_rows(task: Task, workload: str, stop: Stop) -> list[tuple[Entry, ...]]:
    """A row for the series of a stop that have the same printed value, with what the lead among these reaches."""
    groups: dict[Entry, list[int]] = {}
    for place, series in enumerate(stop.series):
        printed = _printed_of(task, series)
        groups.setdefault(_NONE if printed is None else Value(printed.throughput, digits=0), []).append(place)
    own = [
        Stop(workload, tuple(stop.series[at] for at in places), tuple(stop.maxima[at] for at in places), alone=False)
        for places in groups.values()
    ]
    return [_reached_row(task, one) for one in own]


def _reached_row(task: Task, stop: Stop) -> tuple[Entry, ...]:
    speed, maximum = task.first.speed, stop.maximum
    cell = maximum.cell
    return (
        stop.workload,
        f"{stop.names}{'' if stop.shown else _LARGEST}",
        Value(cell.settings.clients),
        Value.of(maximum.value, 0) if maximum.value else level_value(cell, throughput_of, digits=0),
        level_value(cell, response_of, 1e3),
        stop.limit.named if stop.limit.station else "none is full",
        *((Value(maximum.throughput / speed, digits=0),) if speed != 1.0 else ()),
        *_printed_beside(task, stop.lead, maximum),
    )


def _printed_of(task: Task, series: Series) -> Printed | None:
    """What the study printed first for a series."""
    if series.event:
        return None
    cell = maximum_over(task, [series]).cell
    return next((one for one in printed_of(task) if one.fits(cell)), None)


def _printed_beside(task: Task, series: Series, maximum: Maximum) -> tuple[Entry, Entry]:
    """What the study printed for a series, and how ours lies against it."""
    found = _printed_of(task, series)
    if found is None:
        return _NONE, _NONE
    bound = tightest_of(maximum.cell, series.sweep.study.topology.built_links) if series.sweep.links_built else None
    return Value(found.throughput, digits=0), against_printed(maximum, task.first.speed, found, bound)


def _limit(series: Series, maximum: Maximum) -> Limit:
    links = series.sweep.study.topology.built_links if series.sweep.links_built else None
    return bottleneck(usages(maximum.cell, links), queue_grows=None)


def ends_text(low: float, high: float) -> str:
    """A rate, or two where they are not written alike, with a dash between: ``to`` stands in intervals."""
    first, last = rate(low), rate(high)
    return first if first == last else f"{first}–{last}"


def names_text(names: Sequence[str]) -> str:
    """Names of series in one phrase: what they have in common once.

    >>> names_text(["8 workers", "16 workers", "32 workers"])
    '8, 16 and 32 workers'
    >>> names_text(["1 server", "3 servers"])
    '1 and 3 servers'
    >>> names_text(["direct", "through the proxy"])
    'direct and through the proxy'
    """
    found = [re.fullmatch(r"(\d+) ([a-z]+?)s?", name) for name in names]
    nouns = {one[2] for one in found if one is not None}
    if len(names) > 1 and len(nouns) == 1 and all(found):
        return f"{listed([one[1] for one in found if one is not None])} {nouns.pop()}s"
    return listed(list(names)) if len(names) <= _NAMED_MAX else f"{len(names)} series"
