"""Charts as inline SVG, drawn by ourselves: text stays text, colours come from the page (light, dark, print), each mark tells its value.

A chart takes 3 kB and under a millisecond; a report of a whole study has a hundred of them. Start with `Panel` and `draw`. Legends are for
the page to set, where text never overlaps; `legend_of` says what stands in them, and what an entry stands for has its number as its class,
so that the page can hide it without a script. What marks and texts have in common stands at their group; dashes, sizes and the dots of
single runs come from the page's style and from `definitions`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from weir_lab.report.page.shapes import box, dot, marked, short, strokes, through, whisker
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "COLOURS",
    "DASHES",
    "LOOKS",
    "Axis",
    "Bar",
    "Entry",
    "Line",
    "Look",
    "Mark",
    "Panel",
    "axes_text",
    "definitions",
    "draw",
    "legend_of",
    "shared_reaches",
    "swatch",
]

_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 14.0, 26.0, 46.0
# Width of a digit of a tick's name, and of what stands beside the name: the axis' label and gaps.
_DIGIT, _BESIDE = 6.6, 30.0
# Advance of a digit at 11 px in common sans-serif faces, with some room.
_CHARACTER = 6.4
_SLANTED_MAX = 16
# Between the names of two ticks, and which of the edges of bins are named where not all of them fit.
_NAMES_APART = 4.0
_STEPS = (2, 5, 10, 20, 50, 100)
# Dots of the runs behind a mean stand in the order of their blocks, this far apart, and never wider than this in all.
_DOTS_APART, _DOTS_WIDTH = 6.0, 30.0
# Half of a dot, and half of the line beside it.
_DOTS_REACH = 3.0
# More bars than this are not named one by one.
_BARS_NAMED_MAX = 16
# A part of a bar that is lower than this share of the axis is hidden by its own rim, which has the colour of the paper.
_PART_SEEN_MIN = 0.008
# More runs than this have an interval, dots and rows in the data of the figure, and the caption says how many there are.
_RUNS_LISTED_MAX = 2


COLOURS = (*(f"c{n}" for n in range(8)), "cx", "cp")
"""Of series; the page's style has the colour of each, and `definitions` its dot."""
_DOTTED = "1.5 3"
DASHES = ("", "6 3", "2 2", "8 3 2 3", "2 4", "7 4", "9 5", "3 5", _DOTTED)
"""Of lines; the page's style has each but the first as a class, ``d1`` to ``d8``."""


@dataclass(frozen=True)
class Look:
    """A colour by its number on the page, a marker and one of `DASHES`."""

    colour: str
    marker: str = "o"
    dash: str = ""

    def __post_init__(self) -> None:
        if self.dash not in DASHES:
            raise ValueError(f"{self.dash!r} is no dash of the page's style. Add it to DASHES.")


_MARKERS = "osD^vPX*"
# Of what belongs to several series.
_ANY = Look("cp")
# Series in order: colour, marker and dash change together, so that none is needed alone.
LOOKS = tuple(Look(f"c{n}", _MARKERS[n % 8], DASHES[n % 4]) for n in range(8))


@dataclass(frozen=True)
class Mark:
    """A point with its interval; ``note`` is said beside its value, ``runs`` are the block and value of each run behind it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    runs: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Line:
    """A series, by kind: ``line`` has marks and bars, ``plain`` and ``dotted`` no marks, ``points`` (hollow) and ``dots`` no line.

    What is ``dotted`` belongs to the line of its look, and is hidden with it. A ``level`` crosses the panel, and a ``band`` fills what lies
    between the ends of its marks.
    """

    name: str
    marks: tuple[Mark, ...]
    look: Look
    kind: str = "line"


@dataclass(frozen=True)
class Bar:
    """One stacked bar: parts from the bottom up, each with its look by its name in ``Panel.parts``."""

    label: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Axis:
    """Label with its unit; scale; for categories their names at 0, 1, 2..."""

    label: str
    log: bool = False
    ticks: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    top: float | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes with lines, or with bars."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    parts: dict[str, Look] = field(default_factory=dict)

    @property
    def has_data(self) -> bool:
        """Whether anything would be drawn."""
        return any(line.marks for line in self.lines) or any(bar.parts for bar in self.bars)


Entry = tuple[str, str]
"""What a legend tells apart: a name and a kind of line, or ``part`` of bars."""


def legend_of(panels: Sequence[Panel]) -> dict[Entry, Look]:
    """Every entry of a legend over all panels, in its order: what can be seen. A dotted line or band of several colours is grey."""
    found: dict[Entry, Look] = {}
    for panel in panels:
        for line in panel.lines:
            entry = (line.name, line.kind)
            several = line.kind in ("dotted", "band") and found.get(entry, line.look) != line.look
            found[entry] = _ANY if several else found.get(entry, line.look)
    seen = {name for panel in panels for name in _seen_parts(panel)}
    for panel in panels:
        for name, look in panel.parts.items():
            if name in seen:
                found.setdefault((name, "part"), look)
    return found


def _seen_parts(panel: Panel) -> set[str]:
    """Names of the parts that some bar of the panel shows; stages of a proxy differ by a factor of a thousand."""
    if not any(bar.parts for bar in panel.bars):
        return set()
    least = _PART_SEEN_MIN * _reach_y(panel)[1]
    return {name for bar in panel.bars for name, value in bar.parts if value >= least}


def shared_reaches(panels: Sequence[Panel]) -> list[tuple[float, float] | None]:
    """The common y axis of panels of lines that show the same quantity, so that slopes can be compared; None for a panel's own.

    Panels share where none is squashed by it: below two fifths of its height, on logarithms below two thirds. If all cannot, those do whose
    titles begin alike (``SET, 3 servers`` and ``SET, 7 servers``).
    """
    found: list[tuple[float, float] | None] = [None] * len(panels)
    groups: dict[tuple[str, bool], list[int]] = {}
    for place, panel in enumerate(panels):
        if panel.lines and not panel.bars and panel.y.top is None and panel.has_data:
            groups.setdefault((panel.y.label, panel.y.log), []).append(place)
    for places in groups.values():
        alike: dict[str, list[int]] = {}
        for place in places:
            alike.setdefault(panels[place].title.partition(",")[0], []).append(place)
        whole = _common_reach([panels[place] for place in places])
        for own in [places] if whole is not None else alike.values():
            reach = _common_reach([panels[place] for place in own])
            for place in own:
                found[place] = reach
    return found


def axes_text(panels: Sequence[Panel], reaches: Sequence[tuple[float, float] | None]) -> str:
    """A sentence where panels show the same quantity and yet have y axes of their own: they cannot be compared by eye."""
    kinds: dict[tuple[str, bool], set[tuple[float, float]]] = {}
    for panel, reach in zip(panels, reaches, strict=True):
        if panel.has_data:
            kinds.setdefault((panel.y.label, panel.y.log), set()).add(reach or _reach_y(panel)[:2])
    return " The panels' y axes differ." if any(len(ends) > 1 for ends in kinds.values()) else ""


def _common_reach(panels: Sequence[Panel]) -> tuple[float, float] | None:
    """One y axis for all; None for a panel alone, and where one would be squashed."""
    log, own = panels[0].y.log, [_reach_y(panel)[:2] for panel in panels]
    low, high = min(one[0] for one in own), max(one[1] for one in own)
    spans = [math.log(one[1] / one[0]) if log else one[1] - one[0] for one in own]
    whole = math.log(high / low) if log else high - low
    return (low, high) if len(panels) > 1 and whole <= (1.5 if log else 2.5) * min(spans) else None


def draw(
    panel: Panel,
    label: str,
    width: float = 360.0,
    height: float = 250.0,
    legend: Mapping[Entry, Look] | None = None,
    reach: tuple[float, float] | None = None,
) -> str:
    """The panel as an SVG element; ``label`` is what a screen reader says, ``legend`` that of the whole figure, ``reach`` the y axis."""
    if not panel.has_data:
        raise ValueError(f"{label}: nothing to draw.")
    inside = _Inside(panel, width, height, legend if legend is not None else legend_of([panel]), reach)
    body = inside.bars() if panel.bars else inside.lines()
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label, quote=True)}" viewBox="0 0 {width:g} {height:g}">'
        f"{inside.frame()}{body}</svg>"
    )


def definitions() -> str:
    """What stands once for a page: the dot of a single run in each colour, which the style refers to, and what legends show of lines."""
    dots = "".join(
        f'<marker id="dot-{colour}" viewBox="-2 -2 4 4" markerWidth="4" markerHeight="4" markerUnits="userSpaceOnUse">'
        f'<circle r="2" fill="var(--{colour})"/></marker>'
        for colour in COLOURS
    )
    lines = "".join(f'<g id="line-{look.colour}">{_sample(look, "line")}</g>' for look in LOOKS)
    return f'<svg class="shared" aria-hidden="true"><defs>{dots}{lines}</defs></svg>'


def swatch(look: Look, kind: str) -> str:
    """A short piece of the line for the legend."""
    if kind == "part":
        return f'<svg class="sw"><rect class="f {look.colour}" x="2" y="1" width="22" height="10"/></svg>'
    inside = f'<use href="#line-{look.colour}"/>' if kind == "line" and look in LOOKS else _sample(look, kind)
    return f'<svg class="sw">{inside}</svg>'


def _sample(look: Look, kind: str) -> str:
    """What a series looks like."""
    line = "" if kind in ("points", "dots") else f'<path class="{_stroke(look, kind)}" d="M1 6H25"/>'
    if kind == "band":
        line = f'<rect class="b {look.colour}" x="1" y="1" width="24" height="10"/>'
    mark = ""
    if kind in ("line", "points", "dots"):
        mark = f'<path class="{_solid(look, kind)}" d="{marked(look.marker, (13.0, 6.0))}"/>'
    return line + mark


class _Inside:
    """Where data coordinates lie in the picture."""

    def __init__(
        self,
        panel: Panel,
        width: float,
        height: float,
        legend: Mapping[Entry, Look],
        reach: tuple[float, float] | None,
    ) -> None:
        self.panel, self.width, self.height = panel, width, height
        self.places = {entry: place for place, entry in enumerate(legend)}
        solid = [(look, place) for place, ((_, kind), look) in enumerate(legend.items()) if kind != "dotted"]
        self.by_look = dict(reversed(solid))
        self.blocks = sorted({block for line in panel.lines for mark in line.marks for block, _ in mark.runs})
        self.x_low, self.x_high = self._reach_x()
        self.y_low, self.y_high, self.y_ticks = _reach_y(panel) if reach is None else _ticked(panel.y, *reach)
        self.y_names = _tick_names(self.y_ticks)
        # Beside the axis' own label, which is turned and stands at the edge.
        self.left = max(_LEFT, _BESIDE + _DIGIT * max(map(len, self.y_names), default=0))

    def at_x(self, value: float) -> float:
        return self.left + _share(value, self.x_low, self.x_high, log=self.panel.x.log) * (
            self.width - self.left - _RIGHT
        )

    def at_y(self, value: float) -> float:
        share = _share(value, self.y_low, self.y_high, log=self.panel.y.log)
        return self.height - _BOTTOM - min(1.02, max(0.0, share)) * (self.height - _TOP - _BOTTOM)

    def frame(self) -> str:
        panel, right, bottom = self.panel, self.width - _RIGHT, self.height - _BOTTOM
        across = short(right - self.left)
        grid = "".join(f"M{short(self.left)} {short(self.at_y(tick))}h{across}" for tick in self.y_ticks)
        y_names = "".join(
            f'<text y="{short(self.at_y(tick))}">{name}</text>'
            for tick, name in zip(self.y_ticks, self.y_names, strict=True)
        )
        x_ticks, x_names = self._x_ticks(bottom)
        axes = f"M{short(self.left)} {short(_TOP)}V{short(bottom)}h{across}"
        titles = (
            (panel.x, f'x="{short((self.left + right) / 2)}" y="{short(self.height - 8)}"'),
            (panel.y, f'transform="translate(13 {short((_TOP + bottom) / 2)}) rotate(-90)"'),
        )
        named = "".join(
            f'<text class="x nx" {place}>{escape(_axis_title(axis))}</text>' for axis, place in titles if axis.label
        )
        return (
            f'<text class="t" x="{short(self.left)}" y="15">{escape(panel.title)}</text><path class="g" d="{grid}"/>'
            f'<g class="ny" transform="translate({short(self.left - 6)} 3.8)">{y_names}</g><path class="a" d="{axes}{x_ticks}"/>'
            f"{x_names}{named}"
        )

    def lines(self) -> str:
        below = sorted(self.panel.lines, key=lambda line: line.kind != "band")
        return "".join(f'<g class="{self._places(line)}">{self._runs(line)}{self._line(line)}</g>' for line in below)

    def _places(self, line: Line) -> str:
        """Classes by the entries of the legend that hide it: its own, and of what is dotted that of the line it belongs to."""
        own = self.places.get((line.name, line.kind))
        line_of = self.by_look.get(line.look) if own is None or line.kind == "dotted" else None
        known = [place for place in (line_of, own) if place is not None]
        return " ".join(f"y{place}" for place in known or [len(self.places)])

    def _runs(self, line: Line) -> str:
        """Every run behind its mean, blocks from left to right.

        Runs of a block are one line. The page shows its places alone, and its strokes when asked. Heights are whole units, which are less
        than the dots: a page of a whole study has some five thousand of them.
        """
        if line.kind not in ("line", "points"):
            return ""
        apart = self._apart()
        places: dict[int, list[tuple[float, float]]] = {}
        for mark in sorted(line.marks, key=lambda mark: mark.x):
            for block, value in mark.runs:
                beside = apart * (self.blocks.index(block) - (len(self.blocks) - 1) / 2)
                places.setdefault(block, []).append((self.at_x(mark.x) + beside, float(round(self.at_y(value)))))
        joined = "".join(through(own) for own in places.values() if len(own) > 1)
        alone = "".join(dot(own[0]) for own in places.values() if len(own) == 1)
        return "".join(
            f'<path class="{kind} {line.look.colour}" d="{path}"/>'
            for kind, path in (("r", joined), ("o", alone))
            if path
        )

    def _apart(self) -> float:
        """How far the dots of two blocks stand from each other."""
        return min(_DOTS_APART, _DOTS_WIDTH / max(1, len(self.blocks)))

    def bars(self) -> str:
        slot = (self.width - self.left - _RIGHT) / len(self.panel.bars)
        if len(self.panel.bars) > _BARS_NAMED_MAX and all(len(bar.parts) == 1 for bar in self.panel.bars):
            return self._histogram(slot)
        drawn: dict[str, list[str]] = {}
        for index, stack in enumerate(self.panel.bars):
            base = 0.0
            left = self.left + slot * (index + 0.19)
            for name, value in stack.parts:
                path = box(left, self.at_y(base + value), 0.62 * slot, self.at_y(base))
                reported = f"{stack.label}, {name}: {_reported(value)} {_unit(self.panel.y.label)}"
                if path:
                    drawn.setdefault(name, []).append(_with_text(path, escape(reported)))
                base += value
        return "".join(f'<g class="{self._filled(name)}">{"".join(parts)}</g>' for name, parts in drawn.items())

    def _filled(self, part: str) -> str:
        """The classes of a part of bars."""
        return f"f {self.panel.parts[part].colour} y{self.places.get((part, 'part'), len(self.places))}"

    def _histogram(self, slot: float) -> str:
        """Many bars of one part: looked at as a whole; what each of them is stands in the data."""
        paths: dict[str, list[str]] = {}
        for index, stack in enumerate(self.panel.bars):
            ((name, value),) = stack.parts
            left = self.left + slot * (index + 0.19)
            paths.setdefault(name, []).append(box(left, self.at_y(value), 0.62 * slot, self.at_y(0.0)))
        return "".join(
            f'<path class="{self._filled(name)}" d="{"".join(drawn)}"/>' for name, drawn in paths.items() if any(drawn)
        )

    def _line(self, line: Line) -> str:
        marks = sorted(line.marks, key=lambda mark: mark.x) if line.kind != "points" else line.marks
        places = [(self.at_x(mark.x), self.at_y(mark.y)) for mark in marks]
        stroke = _stroke(line.look, line.kind)
        if line.kind == "level":
            across = f"M{short(self.left)} {short(places[0][1])}H{short(self.width - _RIGHT)}"
            return f'<path class="{stroke}" d="{across}"/><g class="h">{_with_text(across, self._reported(line, marks[0]))}</g>'
        if line.kind == "band":
            upper = [(self.at_x(m.x), self.at_y(m.high if m.high is not None else m.y)) for m in marks]
            lower = [(self.at_x(m.x), self.at_y(m.low if m.low is not None else m.y)) for m in reversed(marks)]
            return f'<path class="b {line.look.colour}" d="{through([*upper, *lower])}z"/>'
        joined = ""
        if line.kind in ("line", "plain", "dotted") and len(places) > 1:
            joined = f'<path class="{stroke}" d="{through(places)}"/>'
        if line.kind in ("plain", "dotted"):
            return joined
        solid = _solid(line.look, line.kind)
        if line.kind == "points" and all(mark.low is None and not mark.note for mark in marks):
            # A cloud is looked at as a whole; what each of its points is stands in the data.
            cloud = "".join(marked(line.look.marker, place) for place in places)
            return f'<path class="{solid}" d="{cloud}"/>'
        drawn = []
        for mark, (x, y) in zip(marks, places, strict=True):
            interval = ""
            if mark.low is not None and mark.high is not None:
                # A stroke at the axis would say that the interval ends there.
                low, cut = max(mark.low, self.y_low), self.panel.y.log and mark.low < self.y_low
                interval = whisker(x, self.at_y(mark.high), self.at_y(low), ends_below=not cut)
            drawn.append(_with_text(interval + marked(line.look.marker, (x, y)), self._reported(line, mark)))
        return f'{joined}<g class="{solid}">{"".join(drawn)}</g>'

    def _reported(self, line: Line, mark: Mark) -> str:
        names = self.panel.x.names
        where = names[round(mark.x)] if names else f"{_word(self.panel.x.label)} {_reported(mark.x)}"
        spread = ""
        if mark.low is not None and mark.high is not None:
            spread = f" ({_reported(mark.low)} to {_reported(mark.high)})"
        note = f", {mark.note}" if mark.note and len(mark.runs) <= _RUNS_LISTED_MAX else ""
        if len(mark.runs) == _RUNS_LISTED_MAX:
            # Their blocks stand in the data of the figure.
            note += f": {', '.join(_reported(value) for _, value in mark.runs)}"
        where = "" if line.kind == "level" else f", {where}"
        # The unit stands at the axis: a page has thousands of marks.
        return escape(f"{line.name}{where}: {_reported(mark.y)}{spread}{note}")

    def _x_ticks(self, bottom: float) -> tuple[str, str]:
        """Strokes below the axis, and the names below them."""
        axis, out = self.panel.x, list[str]()
        if self.panel.bars:
            slot = (self.width - self.left - _RIGHT) / len(self.panel.bars)
            names = [(self.left + slot * (index + 0.5), one.label) for index, one in enumerate(self.panel.bars)]
        elif axis.names:
            names = [(self.at_x(index), name) for index, name in enumerate(axis.names)]
        else:
            ticks = axis.ticks or tuple(_nice(self.x_low, self.x_high, 6))
            names = [(self.at_x(tick), _tick(tick)) for tick in ticks if self.x_low <= tick <= self.x_high]
        room = min((b[0] - a[0] for a, b in itertools.pairwise(names)), default=math.inf)
        widest = max(len(name) for _, name in names) * _CHARACTER
        crowded = room < widest
        # Names of categories are slanted where they would touch; of edges of bins every second, fifth or tenth is named.
        edges = bool(self.panel.bars) and all(_is_number(name) for _, name in names)
        if edges and room < widest + _NAMES_APART:
            step = next((one for one in _STEPS if one * room >= widest + _NAMES_APART), len(names))
            names, crowded = names[step - 1 :: step], False
        slanted = crowded and bool(axis.names or self.panel.bars) and len(names) <= _SLANTED_MAX
        last, ticks_drawn = -math.inf, list[float]()
        for x, name in names:
            half = len(name) * _CHARACTER / 2
            if slanted:
                if x - last < 13.0:
                    continue
                out.append(f'<text transform="translate({short(x + 3)}) rotate(-28)">{escape(name)}</text>')
                last = x
                continue
            if x - half < last + _NAMES_APART:
                continue
            last = x + half
            ticks_drawn.append(x)
            out.append(f'<text x="{short(x)}">{escape(name)}</text>')
        kind, below = ("ny", 11.0) if slanted else ("nx", 15.0)
        named = f'<g class="{kind}" transform="translate(0 {short(bottom + below)})">{"".join(out)}</g>'
        return strokes(ticks_drawn, bottom, 4), named

    def _reach_x(self) -> tuple[float, float]:
        axis = self.panel.x
        if self.panel.bars:
            return 0.0, 1.0
        if axis.names:
            return -0.5, len(axis.names) - 0.5
        values = [mark.x for line in self.panel.lines if line.kind != "level" for mark in line.marks] + list(axis.ticks)
        low, high = min(values), max(values)
        # Dots of single runs beside the first and the last mean stay inside of the axes.
        beside = (_DOTS_REACH + self._apart() * max(0, len(self.blocks) - 1) / 2) / (self.width - _LEFT - _RIGHT)
        room = beside / (1.0 - 2.0 * beside) if self.blocks else 0.0
        if axis.log:
            span = (high / low) ** max(0.04, room) if high > low else 1.5
            return low / span, high * span
        pad = max(0.03, room) * (high - low) or 1.0
        return low - pad, high + pad


def _reach_y(panel: Panel) -> tuple[float, float, list[float]]:
    """Both ends of the y axis, and its ticks."""
    axis = panel.y
    if panel.bars:
        high = max(sum(value for _, value in bar.parts) for bar in panel.bars)
        ticks = _nice(0.0, axis.top or high or 1.0, 5)
        return 0.0, max(ticks[-1], high), ticks
    drawn = [line for line in panel.lines if line.marks]
    values = [mark.y for line in drawn for mark in line.marks]
    tops = [min(mark.high, 4.0 * max(values)) for line in drawn for mark in line.marks if mark.high is not None]
    tops += [value for line in drawn for mark in line.marks for _, value in mark.runs]
    bottoms = [mark.low for line in drawn for mark in line.marks if mark.low is not None]
    if axis.log:
        values += [value for line in drawn for mark in line.marks for _, value in mark.runs]
        positive = [value for value in values if value > 0.0]
        # As far down as above: an interval that is wider than that is cut.
        reached = [0.9 * max(bottom, min(positive) / 4.0) for bottom in bottoms if bottom > 0.0]
        low, high = min([0.7 * min(positive), *reached]), 1.3 * max(*positive, *tops, min(positive))
        return _ticked(axis, low, high)
    high = axis.top if axis.top is not None else max([*values, *tops, 0.0])
    low = min([*values, *(max(bottom, -abs(high)) for bottom in bottoms), 0.0])
    if min(values) >= 0.0:
        low = 0.0  # an interval may reach below what cannot be negative; it is cut there
    if high == low:
        high = low + 1.0
    return _ticked(axis, low, high)


def _ticked(axis: Axis, low: float, high: float) -> tuple[float, float, list[float]]:
    """An axis that ends at ticks where it may."""
    if axis.log:
        return low, high, _log_ticks(low, high)
    ticks = _nice(low, high, 5)
    return min(low, ticks[0]), max(high, ticks[-1]) if axis.top is None else high, ticks


def _share(value: float, low: float, high: float, *, log: bool) -> float:
    if log:
        return math.log(max(value, 1e-300) / low) / math.log(high / low)
    return (value - low) / (high - low)


def _nice(low: float, high: float, count: int) -> list[float]:
    """Round steps (1, 2, 5 times a power of ten) that cover the range."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


# Of fewer ticks a logarithmic axis is divided evenly.
_LOG_TICKS_MIN = 3


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside: list[float] = []
    # Two and a half decades can have two powers of ten alone.
    for factors in ((1.0,),) * (decades >= 2.5) + ((1.0, 2.0, 5.0),):
        if len(inside) < _LOG_TICKS_MIN:
            ticks = [factor * 10.0**power for power in powers for factor in factors]
            inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) < _LOG_TICKS_MIN:
        # Of less than a decade these are too few to read a value by.
        inside = [tick for tick in _nice(low, high, 4) if low <= tick <= high]
    return inside or [low]


def _tick_names(ticks: list[float]) -> list[str]:
    """With as many digits as tell each one's true place: slopes can be far below 1."""
    step = min((abs(one - other) for one, other in itertools.pairwise(ticks)), default=0.0)
    finest = next(
        (digits for digits in range(4, 13) if all(abs(round(tick, digits) - tick) <= 0.01 * step for tick in ticks)), 4
    )
    return [_tick(tick, finest) for tick in ticks]


def _tick(value: float, finest: int = 4) -> str:
    digits = 0 if abs(value) >= 100 or value == round(value) else 1 if abs(value) >= 10 else finest
    return number(value, digits).rstrip("0").rstrip(".") if digits else number(value, 0)


def _is_number(name: str) -> bool:
    return name.replace(",", "").replace(".", "", 1).isdigit()


def _reported(value: float) -> str:
    size = abs(value)
    return number(value, 0 if size >= 1000 or value == round(value) else 1 if size >= 100 else 3)


def _axis_title(axis: Axis) -> str:
    return f"{axis.label}, logarithmic" if axis.log and axis.label else axis.label


def _word(label: str) -> str:
    return label.split(" (", maxsplit=1)[0].lower()


def _unit(label: str) -> str:
    return label.rsplit("(", maxsplit=1)[1].rstrip(")") if "(" in label else ""


def _stroke(look: Look, kind: str) -> str:
    """The classes of a line: its colour, its width, its dash."""
    dash = DASHES.index(_DOTTED if kind == "dotted" else look.dash)
    return f"l{'' if kind == 'line' else ' thin'} {look.colour}" + (f" d{dash}" if dash else "")


def _solid(look: Look, kind: str) -> str:
    """The classes of a marker."""
    return f"m{' hollow' if kind == 'points' or look.marker in 'X*' else ''} {look.colour}"


def _with_text(path: str, text: str) -> str:
    """A path that shows its text, which is escaped already, where a pointer rests on it."""
    return f'<path d="{path}"><title>{text}</title></path>'
