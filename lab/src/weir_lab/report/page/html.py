"""A report becomes one HTML file that opens offline: inline SVG, no script, nothing from outside, light and dark, A4.

Also Markdown. Both are made of the same blocks; start with `html_page` and `markdown_page`. A page with a placeholder or above 2 MB is
refused, and so is a figure that a caption names and the page does not hold.
"""

from __future__ import annotations

import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

import jinja2

from weir_lab import __version__
from weir_lab.errors import ReportError
from weir_lab.report.page.blocks import Figure, Section, Table, Text, Value
from weir_lab.report.page.charts import draw, legend_of, swatch
from weir_lab.report.page.complete import require_complete
from weir_lab.report.page.data import data_link
from weir_lab.report.page.diagrams import Diagram, draw_diagram

if TYPE_CHECKING:
    from weir_lab.report.page.blocks import Block, Entry, Report

__all__ = ["LIMITS", "figure_html", "html_page", "markdown_page"]

LIMITS = "What limits this"
# What stands in a column of numbers where there is none, or one that is too small to be written out.
_NUMBERS_TOO = ("–", "no answer", "< 0.0001")
_EXPECTED = (("study", "What the study expected"), ("ours", "What we expected"))
_VERDICTS = {"holds": "good", "does not hold": "bad", "cannot tell": "warn", "no data": "mute"}


def html_page(report: Report) -> str:
    """The whole page; raises `ReportError` where it would not be complete."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = resources.files("weir_lab.report.page").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    numbers = _Numbers(report)
    page = environment.from_string(template).render(
        report=report,
        sections=[(section, [_html(block, numbers) for block in section.blocks]) for section in report.sections],
        findings=report.findings,
        verdicts=_VERDICTS,
        expected=_EXPECTED,
        limits=LIMITS,
        version=__version__,
        rebuild="How to rebuild and verify" if report.summary else "How to rebuild",
    )
    _require_figures(report, page)
    require_complete(page)
    return page


def markdown_page(report: Report) -> str:
    """The same without drawings: tables and sentences, figures as their captions and numbers."""
    out = [f"# {report.title}", "", report.about, "", "## Summary", "", *(f"- {line}" for line in report.summary), ""]
    if report.limits:
        out += [f"**{LIMITS}:** {' '.join(report.limits)}", ""]
    if report.details:
        out += [*(f"- {line}" for line in report.details), ""]
    if report.findings:
        out += [
            "## Conclusions of the study on our data",
            "",
            report.findings_text,
            "",
            "| conclusion | verdict | p | evidence |",
            "|---|---|---|---|",
        ]
        out += [
            f"| {_md(one.claim)} | {one.verdict} | {one.p_text} | {_md(one.evidence)} |" for one in report.findings
        ] + [""]
    for section in report.sections:
        out += [f"## {section.title}", "", f"Question: {section.question}", ""]
        out += _expectations(section) or [f"Hypothesis: {section.hypothesis}", ""]
        if section.missing:
            out += [f"**{section.missing_as.capitalize()}:** {section.missing}", ""]
        for block in section.blocks:
            out += _markdown(block)
    out += [
        "## Machine and programs",
        "",
        "| | |",
        "|---|---|",
        *(f"| {_md(name)} | {_md(value)} |" for name, value in report.facts),
        "",
    ]
    return "\n".join(out)


def _expectations(section: Section) -> list[str]:
    out: list[str] = []
    for whose, caption in _EXPECTED:
        rows = [
            f"| {_md(one.claim)} | {one.verdict} | {one.p_text} | {_md(one.evidence)} | {_md(one.study_found) or '–'} |"
            for one in section.expected_by(whose)
        ]
        if rows:
            head = ["| expected | verdict | p | why | the study found |", "|---|---|---|---|---|"]
            out += [f"**{caption}**", "", *head, *rows, ""]
    return out


class _Numbers:
    """Figures are numbered through the report."""

    def __init__(self, report: Report) -> None:
        figures = [block.name for section in report.sections for block in section.blocks if isinstance(block, Figure)]
        self._places = {name: place for place, name in enumerate(figures, start=1)}

    def __call__(self, figure: Figure) -> int:
        return self._places[figure.name]


def _html(block: Block, numbers: _Numbers) -> str:
    if isinstance(block, Text):
        points = "".join(f"<li>{escape(point)}</li>" for point in block.points)
        style = ' class="note"' if block.note else ""
        return f"<p{style}>{escape(block.text)}</p>" + (f"<ul>{points}</ul>" if points else "")
    if isinstance(block, Table):
        inner = _html_table(block)
        if not block.opens_on_demand:
            return inner
        return f"<details><summary>{escape(_first_sentence(block.caption))}</summary>{inner}</details>"
    return figure_html(block, numbers(block))


def _html_table(table: Table) -> str:
    right = [
        all(isinstance(row[place], Value | int) or row[place] in _NUMBERS_TOO for row in table.rows)
        for place in range(len(table.columns))
    ]
    heads = "".join(f"<th{_right(at)}>{escape(name)}</th>" for name, at in zip(table.columns, right, strict=True))
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{_right(at)}>{escape(_entry(one))}</td>" for one, at in zip(row, right, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table id="{escape(table.name)}"><caption>{escape(table.caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _right(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def figure_html(figure: Figure, number: int) -> str:
    """A figure with panels, legend and caption, as it stands on the page."""
    wide = len(figure.panels) == 1 or any(isinstance(panel, Diagram) for panel in figure.panels)
    size = (720.0, 280.0) if wide else (360.0, 250.0)
    columns = " wide" if wide else {3: " three"}.get(len(figure.panels), "")
    legend = legend_of(figure.panels)
    drawn = "\n".join(
        draw_diagram(panel, f"{figure.title}: {panel.title}")
        if isinstance(panel, Diagram)
        else draw(panel, f"{figure.title}: {panel.title}", *size, legend)
        for panel in figure.panels
    )
    redraws = f" Redraws {figure.redraws} of the study." if figure.redraws else ""
    source = f" Runs: {'; '.join(figure.runs)}." if figure.runs else ""
    return (
        f'<figure id="fig-{escape(figure.name)}"><div class="panels{columns}">{drawn}</div>\n{_legend(figure)}'
        f"<figcaption><b>Figure {number}. {escape(figure.title)}.</b> {escape(figure.method)}"
        f"{escape(redraws)}{escape(source)} {data_link(figure)}</figcaption></figure>"
    )


def _legend(figure: Figure) -> str:
    """One entry per name and look over all panels, each with a box that hides what it stands for; boxes for the single runs."""
    seen = legend_of(figure.panels)
    boxes = []
    if len(seen) > 1 or next(iter(seen))[1] not in ("line", "part"):
        boxes = [
            f'<label><input type="checkbox" class="k{place}" checked>{swatch(look, kind)}{escape(name)}</label>'
            for place, ((name, kind), look) in enumerate(seen.items())
        ]
    marks = [line.marks for panel in figure.panels for line in panel.lines]
    if any(mark.runs for line in marks for mark in line):
        boxes.append('<label><input type="checkbox" class="kr" checked>single runs</label>')
    if any(sum(len(mark.runs) > 1 for mark in line) > 1 for line in marks):
        boxes.append('<label><input type="checkbox" class="kj">joined by block</label>')
    return f'<div class="legend">{"".join(boxes)}</div>\n' if boxes else ""


def _markdown(block: Block) -> list[str]:
    if isinstance(block, Text):
        return [block.text, "", *(f"- {point}" for point in block.points), *([""] if block.points else [])]
    if isinstance(block, Figure):
        redraws = f" (redraws {block.redraws} of the study)" if block.redraws else ""
        return [f"*Figure: {block.title}{redraws}. {block.method}* The page has the drawing; its numbers follow.", ""]
    out = [
        f"**{block.caption}**",
        "",
        "| " + " | ".join(map(_md, block.columns)) + " |",
        "|" + "---|" * len(block.columns),
    ]
    return [*out, *("| " + " | ".join(_md(_entry(one)) for one in row) + " |" for row in block.rows), ""]


def _entry(entry: Entry) -> str:
    return entry.text if isinstance(entry, Value) else str(entry)


def _md(text: str) -> str:
    return text.replace("|", "\\|")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:;]) ", text, maxsplit=1)[0].rstrip(".:;")


def _require_figures(report: Report, page: str) -> None:
    """Every figure of the report stands in the page with a drawing, and every caption has its figure."""
    for section in report.sections:
        for figure in (block for block in section.blocks if isinstance(block, Figure)):
            found = re.search(rf'<figure id="fig-{re.escape(figure.name)}">.*?</figure>', page, re.DOTALL)
            if found is None or "<svg" not in found[0]:
                raise ReportError(f"Figure {figure.name} has a caption and no drawing. Nothing was written.")
    if page.count("<figcaption>") != page.count("<figure "):
        raise ReportError("The page has a caption without its figure. Nothing was written.")
    names = re.findall(r'<(?:figure|table) id="([^"]+)"', page) + [_name(section) for section in report.sections]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ReportError(f"Two parts of the page have the same name: {', '.join(twice)}. Nothing was written.")


def _name(section: Section) -> str:
    return section.name
