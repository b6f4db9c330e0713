"""The maxima of two studies side by side, and their curves on one axis, at the studies' speed. `pair_maxima`, `pair_curves`.

A report measures on machines at a speed of its own: a rate divided by that speed is comparable. Twins give it by a maximum as measured
and at the study's speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir_lab.errors import RecordError
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.stats import Interval, ratio_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.sets.stories.reading import Part, Whole

__all__ = [
    "ABOVE",
    "BELOW",
    "NO_RATIO",
    "SAME",
    "SERIES_MAX",
    "Maximum",
    "MaximumPair",
    "pair_curves",
    "pair_maxima",
    "speed_of",
]

ABOVE, BELOW, SAME, NO_RATIO = "above", "below", "no difference shown", "not compared"
SERIES_MAX = 5
"""Of each study in a figure."""

_COLUMNS = ("Workload", "Series", "Clients", "X (requests/s)", "Maximum", "X at the study's speed (requests/s)")
_LEVEL = 0.95
# How reports name runs with an engine that is not the study's own.
_BESIDE = "event engine"


@dataclass(frozen=True)
class Maximum:
    """Of one series: throughput in requests/s at the study's speed; ``shown`` where the data tell that it is the maximum.

    ``station`` is full there; empty where none is.
    """

    workload: str
    series: str
    clients: int
    throughput: Interval
    shown: bool
    station: str = ""


@dataclass(frozen=True)
class MaximumPair:
    """The same workload in the same section of two studies.

    ``matched`` where the series have the same name, else each has its largest; ``beside`` where it is not the studies' own engine.
    """

    section: str
    one: Maximum
    other: Maximum
    matched: bool
    beside: bool

    @property
    def ratio(self) -> Interval | None:
        """The other's over the first's; None where one of them is not shown or has no interval."""
        pair = (self.one, self.other)
        if not all(at.shown and at.throughput.low < at.throughput.high for at in pair):
            return None
        return ratio_of(self.other.throughput, self.one.throughput)

    @property
    def why_no_ratio(self) -> str:
        """Empty where there is one."""
        pair = (self.one, self.other)
        shown = sum(at.shown for at in pair)
        if shown < len(pair):
            whose = "one of the two is a largest mean" if shown else "both are largest means"
            return f"{whose}, and no maximum is shown"
        return "" if self.ratio is not None else "one of the two has no interval"

    @property
    def verdict(self) -> str:
        """By the interval of the ratio alone."""
        ratio = self.ratio
        if ratio is None:
            return NO_RATIO
        return ABOVE if ratio.low > 1.0 else BELOW if ratio.high < 1.0 else SAME


@dataclass(frozen=True)
class _Side:
    """One of the two studies in a figure."""

    label: str
    speed: float

    def line(self, drawn: Mapping[str, Any], look: int) -> Line:
        """A series of its figure, at the study's speed."""

        def at_speed(value: float | None) -> float | None:
            return None if value is None else value / self.speed

        marks = tuple(
            Mark(
                float(mark["x"]),
                float(mark["y"]) / self.speed,
                at_speed(mark.get("low")),
                at_speed(mark.get("high")),
                mark["note"],
            )
            for mark in drawn["marks"]
        )
        return Line(f"{self.label}, {drawn['name']}", marks, LOOKS[look % len(LOOKS)])


def pair_maxima(one: Whole, other: Whole) -> list[MaximumPair]:
    """Of every section that both have by the same name: each series that both have, or else the largest of each study's own engine."""
    found = []
    for part, beside in _both(one, other):
        at_one, at_other = _maxima(one, part), _maxima(other, beside)
        for workload in dict.fromkeys(at.workload for at in at_one):
            left = {at.series: at for at in at_one if at.workload == workload}
            right = {at.series: at for at in at_other if at.workload == workload}
            if not right:
                continue
            names = [(name, name) for name in _shared(left, right)]
            own = [[at for name, at in side.items() if not _is_beside(name)] for side in (left, right)]
            if all(own) and all(_is_beside(name) for name, _ in names):
                names.insert(0, (_largest(own[0]).series, _largest(own[1]).series))
            found += [
                MaximumPair(part.title, left[mine], right[its], matched=mine == its, beside=_is_beside(mine))
                for mine, its in names
            ]
    return found


def pair_curves(one: Whole, other: Whole) -> dict[str, tuple[str, list[Panel]]]:
    """Throughput over clients of both on one axis, a panel per workload: by the name of the section, with its title.

    Series that both have, at most `SERIES_MAX` of each; of the study's own engine, where there is none, the one with the largest
    throughput of each.
    """
    found: dict[str, tuple[str, list[Panel]]] = {}
    for part, beside in _both(one, other):
        mine, its = _drawn(part), _drawn(beside)
        sides = [_Side(one.label, speed_of(part)), _Side(other.label, speed_of(beside))]
        panels = [
            panel
            for title in mine
            if title in its and (panel := _panel(title, (mine[title], its[title]), sides)) is not None
        ]
        if panels:
            found[part.name] = part.title, panels
    return found


def speed_of(part: Part) -> float:
    """The speed of the machines of a section, by its table of maxima; 1 where it gives none."""
    for row in part.rows("maxima", _COLUMNS):
        if row[3] is not None and isinstance(row[5], dict):
            return float(row[3]["value"]) / float(row[5]["value"])
    return 1.0


def _both(one: Whole, other: Whole) -> list[tuple[Part, Part]]:
    """Sections of the same name that have maxima in both."""
    beside = {part.name: part for part in other.parts if part.rows("maxima", _COLUMNS)}
    return [(part, beside[part.name]) for part in one.parts if part.rows("maxima", _COLUMNS) and part.name in beside]


def _shared(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return [name for name in one if name in other]


def _is_beside(series: str) -> bool:
    return series.startswith(_BESIDE)


def _maxima(whole: Whole, part: Part) -> list[Maximum]:
    """Each series once: a row stands for each number that the study printed of it."""
    speed = speed_of(part)
    found: dict[tuple[str, str], Maximum] = {}
    for workload, series, clients, value, how, _ in part.rows("maxima", _COLUMNS):
        if (workload, series) in found:
            continue
        if not all(isinstance(one, dict) for one in (clients, value)) or not isinstance(how, str):
            raise RecordError(
                f"{whole.path}: the maxima of {part.name} are not those of this version. Build the report again with `weir-lab study "
                f"{whole.name} --report-only`."
            )
        mean = float(value["value"])
        interval = Interval(mean, float(value.get("low", mean)), float(value.get("high", mean)), 1, _LEVEL)
        found[workload, series] = Maximum(
            workload,
            series,
            int(clients["value"]),
            interval.scaled(1.0 / speed),
            how.startswith("shown"),
            part.station_of(workload, series),
        )
    return list(found.values())


def _largest(maxima: Sequence[Maximum]) -> Maximum:
    """Of those that are shown, or of all where none is."""
    return max([at for at in maxima if at.shown] or maxima, key=lambda at: at.throughput.mean)


def _drawn(part: Part) -> dict[str, Mapping[str, Any]]:
    """Panels of throughput over clients by their titles."""
    figure = part.figure("throughput")
    return {panel["title"]: panel for panel in figure["panels"]} if figure is not None else {}


def _panel(title: str, drawn: Sequence[Mapping[str, Any]], sides: Sequence[_Side]) -> Panel | None:
    series = [{line["name"]: line for line in panel["lines"] if line["kind"] == "line"} for panel in drawn]
    if not all(series):
        return None
    shared = _shared(*series)[-SERIES_MAX:]
    lines = []
    for place, (side, own) in enumerate(zip(sides, series, strict=True)):
        chosen = list(shared)
        alone = [name for name in own if not _is_beside(name)]
        if alone and all(_is_beside(name) for name in shared):
            chosen.insert(0, max(alone, key=lambda name, own=own: _top(own[name])))  # type: ignore[misc]
        lines += [side.line(own[name], len(sides) * number + place) for number, name in enumerate(chosen)]
    axis = drawn[0]["x"]
    ticks = sorted({float(tick) for panel in drawn for tick in panel["x"]["ticks"]})
    return Panel(
        title,
        Axis(axis["label"], log=bool(axis["log"]), ticks=tuple(ticks)),
        Axis("Throughput (requests/s)"),
        tuple(lines),
    )


def _top(line: Mapping[str, Any]) -> float:
    return max((float(mark["y"]) for mark in line["marks"]), default=0.0)
