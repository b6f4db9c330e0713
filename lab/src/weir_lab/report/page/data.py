"""The data of a figure as a file that the page itself holds: `data_link`.

One row per drawn point, with the run of each block in a column of its own. Numbers have seven digits.
"""

from __future__ import annotations

import csv
import io
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weir_lab.report.page.blocks import Figure
    from weir_lab.report.page.charts import Panel

__all__ = ["data_link", "figure_csv"]


def data_link(figure: Figure) -> str:
    """A link that saves the figure's data as CSV; the page needs no file beside it."""
    # What need not be escaped in an address is left as it is: a third of the bytes.
    text = quote(figure_csv(figure), safe="/,:;()=+*!'-._~")
    name = escape(figure.name, quote=True)
    return f'<a class="data" download="{name}.csv" href="data:text/csv;charset=utf-8,{escape(text, quote=True)}">Data (CSV)</a>'


def figure_csv(figure: Figure) -> str:
    """Panel, series, x, y, low, high, runs. The axes' labels stand in the headings, or beside the panel's name where they differ."""
    panels = figure.panels
    x, y = ({getattr(panel, axis).label for panel in panels} for axis in ("x", "y"))
    heads = [
        f"{axis}: {label}" if len(labels) == 1 and (label := next(iter(labels))) else axis
        for axis, labels in (("x", x), ("y", y))
    ]
    marks = [mark for panel in panels for line in panel.lines for mark in line.marks]
    blocks = sorted({block for mark in marks for block, _ in mark.runs})
    with io.StringIO(newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("panel", "series", *heads, "low", "high", *(f"block {block}" for block in blocks)))
        for panel in panels:
            reported = panel.title if len(y) == 1 else f"{panel.title} [{panel.y.label}]"
            writer.writerows(_rows(panel, reported, blocks))
        return out.getvalue()


def _rows(panel: Panel, title: str, blocks: Sequence[int]) -> Iterator[tuple[str, ...]]:
    for line in panel.lines:
        for mark in line.marks:
            x = panel.x.names[round(mark.x)] if panel.x.names else _text(mark.x)
            runs = dict(mark.runs)
            reported = (_text(value) for value in (mark.y, mark.low, mark.high, *(runs.get(block) for block in blocks)))
            yield title, line.name, x, *reported
    for bar in panel.bars:
        for name, value in bar.parts:
            yield title, name, bar.label, _text(value), *("" for _ in (0, 0, *blocks))


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"
