"""Every load of a comparison at a glance: how much faster and cheaper weir is than nutcracker, round by round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Any

from .cells import Cell
from .table import MEASURES, cells_of, paired, ratio

Record = dict[str, Any]

PANELS = (
    ("throughput", "throughput", "further right carries more", 1),
    ("proxy_cpu", "proxy CPU per request", "further left needs less", -1),
    ("p99", "99th percentile", "further left is faster", -1),
)
TICKS = (0.5, 0.7, 1.0, 1.4, 2.0)
# Colour-blind safe, and apart in grey, too: where weir is better, and where it is not. Light or dark as the reader's
# system is.
STYLE = """
svg { --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --rule: #d5d9de; --better: #0072b2; --worse: #d55e00; }
@media (prefers-color-scheme: dark) {
svg { --paper: #14171b; --ink: #e6e9ed; --soft: #a2abb5; --rule: #3a4149; --better: #56b4e9; --worse: #ff8f4a; } }
text { fill: var(--ink); font: 12px system-ui, "DejaVu Sans", sans-serif; }
.s { fill: var(--soft); font-size: 11px; } .t { font-weight: 600; }
.g { stroke: var(--rule); stroke-width: .7; } .a { stroke: var(--soft); stroke-width: 1.2; }
.better { --look: var(--better); } .worse { --look: var(--worse); }
.r { stroke: var(--look); stroke-width: 1.4; opacity: .55; } .m { fill: var(--look); }
"""
TOP, ROW, WIDE, GAP, BOTTOM = 46.0, 24.0, 240.0, 24.0, 44.0
# Advance of a character of 12 px in common sans-serif faces, with room.
CHARACTER = 6.9


def draw(counted: Sequence[Record]) -> str:
    """An SVG document: a row per load, a panel per measure; each small stroke a round, the large mark their median."""
    cells = [cell for cell in cells_of(counted) if paired(counted, cell, "weir", "nutcracker")]
    found = {(cell, name): ratios(counted, cell, name) for cell in cells for name, *_ in PANELS}
    margin = 24.0 + CHARACTER * max(len(cell.describe()) for cell in cells)
    width = margin + len(PANELS) * (WIDE + GAP)
    height = TOP + len(cells) * ROW + BOTTOM
    body = [_name(margin, row, cell.describe()) for row, cell in enumerate(cells)]
    for place, (name, title, meaning, sign) in enumerate(PANELS):
        left = margin + place * (WIDE + GAP)
        every = [*TICKS, *(value for cell in cells for value in found[cell, name])]
        reach = math.log(min(every) * 0.95), math.log(max(every) * 1.05)
        body.append(_frame(left, len(cells), title, meaning, reach))
        body += [_row(left, row, found[cell, name], sign, reach) for row, cell in enumerate(cells) if found[cell, name]]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">\n'
        f"<title>Weir beside nutcracker</title>\n<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="var(--paper)"/>\n' + "\n".join(body) + "\n</svg>"
    )


def _name(margin: float, row: int, load: str) -> str:
    return f'<text x="{margin - 12:g}" y="{TOP + (row + 0.5) * ROW + 4:g}" text-anchor="end">{escape(load)}</text>'


def _at(value: float, left: float, reach: tuple[float, float]) -> float:
    """On a logarithmic axis: twice as much and half as much are as far from 1."""
    return left + WIDE * (math.log(value) - reach[0]) / (reach[1] - reach[0])


def _frame(left: float, rows: int, title: str, meaning: str, reach: tuple[float, float]) -> str:
    bottom = TOP + rows * ROW
    parts = [
        f'<text class="t" x="{left:g}" y="18">{title}</text>',
        f'<text class="s" x="{left:g}" y="34">{meaning}</text>',
        f'<text class="s" x="{left + WIDE / 2:g}" y="{bottom + 36:g}" text-anchor="middle">weir / nutcracker</text>',
    ]
    for tick in TICKS:
        x = _at(tick, left, reach)
        parts.append(f'<path class="{"a" if tick == 1.0 else "g"}" d="M{x:.1f} {TOP:g}V{bottom:g}"/>')
        parts.append(f'<text class="s" x="{x:.1f}" y="{bottom + 18:g}" text-anchor="middle">{tick:g}</text>')
    return "".join(parts)


def _row(left: float, row: int, values: Sequence[float], sign: int, reach: tuple[float, float]) -> str:
    middle, y = median(values), TOP + (row + 0.5) * ROW
    better = sign * (middle - 1.0) >= 0.0
    strokes = "".join(f"M{_at(value, left, reach):.1f} {y - 6:g}v12" for value in values)
    x = _at(middle, left, reach)
    mark = f"M{x - 5:.1f} {y:g}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z" if better else f"M{x:.1f} {y - 6:g}l6 6l-6 6l-6 -6Z"
    hint = f"<title>median {middle:.3f}, rounds {', '.join(f'{value:.3f}' for value in values)}</title>"
    look = "better" if better else "worse"
    return f'<g class="{look}">{hint}<path class="r" d="{strokes}"/><path class="m" d="{mark}"/></g>'


def ratios(counted: Sequence[Record], cell: Cell, measure: str, peer: str = "nutcracker") -> list[float]:
    """One of each round: weir's, divided by its peer's."""
    pairs = paired(counted, cell, "weir", peer)
    found = [ratio(one, other, cell, MEASURES[measure]) for one, other in pairs]
    return [value for value in found if value is not None]
