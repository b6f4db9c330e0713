"""The data of a figure as a file that the page itself holds, or that lies beside it: `data_link`, `data_files`, `data_of`.

One row per drawn point, with the run of each block in a column of its own. Numbers have seven digits.
"""

from __future__ import annotations

import csv
import io
import re
from html import escape, unescape
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from weir_lab.errors import RecordError
from weir_lab.report.page.blocks import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from weir_lab.report.page.blocks import Report
    from weir_lab.report.page.charts import Panel

__all__ = ["data_files", "data_link", "data_of", "figure_csv"]

_HEAD = "data:text/csv;charset=utf-8,"
_LINK = re.compile(r'<a class="data" (?:download="([^"]+)\.csv" )?href="([^"]+)">')


def data_link(figure: Figure, folder: str = "") -> str:
    """A link that saves the figure's data as CSV: to the page itself, or to a file in a folder beside the page."""
    if folder:
        return f'<a class="data" href="{escape(quote(f"{folder}/{figure.name}.csv"), quote=True)}">Data (CSV)</a>'
    # What need not be escaped in an address is left as it is: a third of the bytes.
    text = quote(figure_csv(figure), safe="/,:;()=+*!'-._~")
    name = escape(figure.name, quote=True)
    return f'<a class="data" download="{name}.csv" href="{_HEAD}{escape(text, quote=True)}">Data (CSV)</a>'


def data_files(report: Report) -> dict[str, str]:
    """What lies beside a page that links its data: the text of each figure's file by its name."""
    figures = [block for section in report.sections for block in section.blocks if isinstance(block, Figure)]
    return {f"{figure.name}.csv": figure_csv(figure) for figure in figures}


def data_of(figure: str, folder: Path) -> str:
    """The data that a figure of a page links; what lies beside the page is read from its ``folder``. Empty where nothing is linked."""
    found = _LINK.search(figure)
    if found is None:
        return ""
    address = unescape(found[2])
    if address.startswith(_HEAD):
        return unquote(address.removeprefix(_HEAD))
    file = folder / unquote(address)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{file}: cannot be read ({error.strerror}). Bring it back: the page links it.") from error


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
