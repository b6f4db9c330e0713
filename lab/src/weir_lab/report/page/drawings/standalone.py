"""A figure of a report as an SVG file of its own, for pages that cannot hold a report: `standalone_figure`.

The panels of the page are set side by side, with their legend below. Colours stand in the file, light and dark by the reader's system.
"""

from __future__ import annotations

import re
from html import unescape
from xml.sax.saxutils import escape

from weir_lab.errors import ReportError

__all__ = ["figures_of", "standalone_figure"]

_FIGURE = re.compile(r'<figure id="fig-([^"]+)">(.*?)</figure>', re.DOTALL)
_PANEL = re.compile(
    r'<svg class="chart"[^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*?)</svg>(?=\n|</div>|<svg class="chart")',
    re.DOTALL,
)
_ENTRY = re.compile(r'<label><input[^>]*>(<svg class="sw".*?</svg>)(.*?)</label>', re.DOTALL)
_TITLE = re.compile(r"<figcaption><b>(.*?)</b>", re.DOTALL)
_SHARED = re.compile(r"<defs>.*?</defs>", re.DOTALL)
_GAP, _ROW = 14.0, 20.0
# Advance of a character of 12 px in common sans-serif faces, with room.
_CHARACTER = 6.9


def figures_of(page: str) -> list[str]:
    """Names of a report's figures, in their order."""
    return [name for name, _ in _FIGURE.findall(page)]


def standalone_figure(page: str, name: str) -> str:
    """The figure ``fig-NAME`` of a report's page as SVG text; panels that do not fit beside each other are set two in a row."""
    found = dict(_FIGURE.findall(page))
    if name not in found:
        raise ReportError(f"The report has no figure {name}. It has: {', '.join(found) or 'none'}.")
    panels = [(float(width), float(height), body) for width, height, body in _PANEL.findall(found[name])]
    entries = [(swatch, unescape(text)) for swatch, text in _ENTRY.findall(found[name])]
    title = _TITLE.search(found[name])
    shared = _SHARED.search(page)
    head = f"<style>{_style(page)}</style>\n{shared[0] if shared else ''}"
    return _composed(panels, entries, head, unescape(title[1]) if title else name)


def _composed(panels: list[tuple[float, float, str]], entries: list[tuple[str, str]], head: str, title: str) -> str:
    columns = min(2, len(panels))
    width, height = panels[0][0], max(panel[1] for panel in panels)
    across = columns * width + (columns - 1) * _GAP
    body = []
    for place, (_, _, inside) in enumerate(panels):
        x, y = (place % columns) * (width + _GAP), (place // columns) * (height + _GAP)
        body.append(f'<g transform="translate({x:g} {y:g})">{inside}</g>')
    down = ((len(panels) - 1) // columns + 1) * (height + _GAP)
    legend, rows = _legend(entries, across)
    body += [f'<g transform="translate(0 {down:g})">{legend}</g>']
    whole = down + rows * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox="0 0 {across:g} {whole:g}" '
        f'width="{across:g}" height="{whole:g}">\n<title>{escape(title)}</title>\n{head}\n'
        f'<rect width="100%" height="100%" fill="var(--paper)"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _legend(entries: list[tuple[str, str]], across: float) -> tuple[str, int]:
    """Entries from left to right, in as many rows as they need."""
    drawn, x, row = [], 40.0, 0
    for swatch, text in entries:
        length = 34.0 + _CHARACTER * len(text)
        if x + length > across and x > 40.0:
            x, row = 40.0, row + 1
        placed = swatch.replace(
            '<svg class="sw"', f'<svg class="sw" x="{x:g}" y="{_ROW * row:g}" width="26" height="12"', 1
        )
        drawn.append(f'{placed}<text x="{x + 31:g}" y="{_ROW * row + 10:g}">{escape(text)}</text>')
        x += length + 16.0
    return "".join(drawn), row + 1 if entries else 0


def _style(page: str) -> str:
    """The page's whole style: most of it finds nothing here to be for, and nothing that a chart needs is forgotten."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    if style is None:
        raise ReportError("The page has no style: it is no report of this version. Build it again.")
    return escape(style[1]) + ".chart { font-family: system-ui, sans-serif; max-width: none; }"
