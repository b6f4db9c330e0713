"""Canvas, axes and inline SVG that all figures share: prints, survives colour blindness and grey paper.

Start with `canvas_of` and `finish`. A figure without data is an error.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from weir_lab.errors import ReportError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from weir_lab.theory.stats import Interval

__all__ = ["THOUSANDS", "Figure", "canvas_of", "errorbar", "finish", "legend", "log_axis", "stack"]

# Any: the names of the settings are a type of their own in matplotlib, spelled nowhere but in its stubs.
_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.6,
    "svg.fonttype": "path",
}


THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.10g}")


@dataclass(frozen=True)
class Figure:
    """One figure: its place in the report, a title, how it was made, and the drawing."""

    name: str
    title: str
    caption: str
    svg: str


def legend(canvas: Canvas, axes: Axes, title: str) -> None:
    """Beside the panels, where no point or bar can lie under it; stacks are listed as they stand."""
    handles, names = axes.get_legend_handles_labels()
    stacked = bool(axes.patches)
    order = slice(None, None, -1 if stacked else 1)
    canvas.legend(handles[order], names[order], title=title, loc="outside right center", frameon=False)


def canvas_of(columns: int, *, sharey: bool = True) -> tuple[Canvas, list[Axes]]:
    """Panels side by side."""
    with mpl.rc_context(_RC):
        canvas = Canvas(figsize=(9.2, 3.9), layout="constrained")
        grid = canvas.subplots(1, columns, sharey=sharey, squeeze=False)
    return canvas, list(grid[0])


def errorbar(axes: Axes, x: Sequence[float], intervals: list[Interval], label: str, look: dict[str, str]) -> None:
    """Means with their intervals; ``look`` has color, marker and linestyle."""
    means = [interval.mean for interval in intervals]
    # The end of a bar must stay above zero on a logarithmic axis; the table has the number.
    below = [min(interval.half_width, 0.999 * interval.mean) for interval in intervals]
    above = [interval.half_width for interval in intervals]
    axes.errorbar(
        x,
        means,
        yerr=[below, above],
        label=label,
        capsize=3.5,
        markersize=5.5,
        linewidth=1.5,
        color=look["color"],
        marker=look["marker"],
        linestyle=look["linestyle"],
    )


def stack(
    axes: Axes,
    labels: list[str],
    parts: list[tuple[str, list[float]]],
    colours: Sequence[str],
    hatches: Sequence[str],
) -> None:
    """Stacked bars, told apart by colour and hatching."""
    base = [0.0] * len(labels)
    for (name, values), colour, hatch in zip(parts, colours, hatches, strict=True):
        axes.bar(
            labels,
            values,
            bottom=base,
            label=name,
            color=colour,
            hatch=hatch,
            width=0.62,
            edgecolor="#333333",
            linewidth=0.4,
        )
        base = [under + value for under, value in zip(base, values, strict=True)]
    axes.grid(axis="x", visible=False)
    axes.yaxis.set_major_formatter(THOUSANDS)


def log_axis(axes: Axes, means: list[float]) -> None:
    """Logarithmic times. A wide interval may reach down to zero or below, which no such axis can show: it is cut at the edge."""
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.4 * min(means))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.yaxis.set_minor_formatter(NullFormatter())


def finish(name: str, title: str, caption: str, canvas: Canvas) -> Figure:
    """The drawing as inline SVG; an empty panel is an error."""
    for axes in canvas.axes:
        if not axes.has_data():
            raise ReportError(f"Figure {name} has an empty panel. Look at the records that should fill it.")
    buffer = io.StringIO()
    # A salt per figure keeps ids apart when all figures stand in one page, and the same from build to build.
    with mpl.rc_context({**_RC, "svg.hashsalt": name}):
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(name, title, caption, _inline(buffer.getvalue(), name, title))


def _inline(svg: str, name: str, title: str) -> str:
    """The drawing without XML prologue and metadata, with ids of its own and a name for screen readers."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    return body.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
