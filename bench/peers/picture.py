"""Every load of a comparison at a glance: how much faster and cheaper weir is than nutcracker, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from weir_lab.report.single.drawing import canvas_of, finish

from .cells import Cell
from .table import MEASURES, cells_of, paired, ratio

Record = dict[str, Any]

# Colour-blind safe, and apart in grey, too: where weir is better, and where it is not.
BETTER, WORSE = "#0072b2", "#d55e00"
PANELS = (
    ("throughput", "throughput\nfurther right carries more", 1),
    ("proxy_cpu", "proxy CPU per request\nfurther left needs less", -1),
    ("p99", "99th percentile\nfurther left is faster", -1),
)
TICKS = (0.5, 0.7, 1.0, 1.4, 2.0)


def draw(counted: Sequence[Record]) -> str:
    """An SVG document: a row per load, a panel per measure; each small point a round, the large one their median."""
    cells = [cell for cell in cells_of(counted) if paired(counted, cell, "weir", "nutcracker")]
    canvas, panels = canvas_of(len(PANELS))
    canvas.set_size_inches(11.0, 1.4 + 0.3 * len(cells))
    for axes, (name, heading, sign) in zip(panels, PANELS, strict=True):
        axes.set_xscale("log")
        axes.axvline(1.0, color="#555555", linewidth=1.0)
        for row, cell in enumerate(cells):
            found = ratios(counted, cell, name)
            if not found:
                continue
            middle = median(found)
            colour = BETTER if sign * (middle - 1.0) >= 0.0 else WORSE
            axes.plot(found, [row] * len(found), "|", color=colour, alpha=0.5, markersize=9)
            axes.plot([middle], [row], "o" if colour == BETTER else "D", color=colour, markersize=6)
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.set_xticks([], minor=True)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel("weir / nutcracker")
    panels[0].set_yticks(range(len(cells)), [cell.describe() for cell in cells])
    panels[0].invert_yaxis()
    return finish("peers", "Weir beside nutcracker", "", canvas).svg


def ratios(counted: Sequence[Record], cell: Cell, measure: str, peer: str = "nutcracker") -> list[float]:
    """One of each round: weir's, divided by its peer's."""
    pairs = paired(counted, cell, "weir", peer)
    found = [ratio(one, other, cell, MEASURES[measure]) for one, other in pairs]
    return [value for value in found if value is not None]
