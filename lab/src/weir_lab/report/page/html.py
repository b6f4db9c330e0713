"""A report becomes one HTML file that opens offline: inline SVG, no script, nothing from outside, light and dark, A4.

Also Markdown. Both are made of the same blocks; start with `html_page` and `markdown_page`. A page with a placeholder or above 2 MB is
refused, and so is a figure that a caption names and the page does not hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

import jinja2

from weir_lab import __version__
from weir_lab.errors import ReportError
from weir_lab.report.page.arranging import ERRORS, WORDS, Arranged, arrange, gathered, ordered
from weir_lab.report.page.blocks import KNOWN_ERRORS, RUNS, Expectation, Figure, Section, Table, Text, Value
from weir_lab.report.page.charts import COLOURS, DASHES, axes_text, definitions, draw, legend_of, shared_reaches, swatch
from weir_lab.report.page.complete import require_complete
from weir_lab.report.page.data import data_link
from weir_lab.report.page.drawings.machines import System, draw_system
from weir_lab.report.page.drawings.queues import Diagram, draw_diagram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block, Entry, Finding, Report

__all__ = ["figure_html", "html_page", "markdown_page"]

# What stands in a column of numbers where there is none, or one that is too small to be written out.
_NUMBERS_TOO = ("–", "no answer", "< 0.0001")
# A table of more rows is for programs: in Markdown it is named.
_ROWS_MAX = 100
_EXPECTED = (("study", "What the study expected"), ("ours", "What we expected"))
# Tables of this number of columns are set smaller; of more than the second number, intervals may break in their middle.
_COLUMNS_MANY, _COLUMNS_WHOLE_MAX = 9, 12
_HOLDS = "holds"
_VERDICTS = {_HOLDS: "good", "does not hold": "bad", "cannot tell": "warn", "no data": "mute"}


def html_page(report: Report, data_folder: str = "") -> str:
    """The whole page; raises `ReportError` where it would not be complete.

    It holds the data of its figures, or links them as files of a ``data_folder`` beside it (`data.data_files`).
    """
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = resources.files("weir_lab.report.page").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    report = gathered(report)
    # The page of a single sweep is short, and its blocks stand in the order in which they are read.
    arranged = [arrange(one) if report.summary else Arranged(evidence=one.blocks) for one in report.sections]
    numbers = _Numbers(arranged, data_folder)
    tables = [block for section in report.sections for block in section.blocks if isinstance(block, Table)]
    tables += [report.limiting] if report.limiting is not None else []
    page = environment.from_string(template).render(
        report=report,
        reasons={one.name: _reasons(one) for one in report.sections},
        lacks={one.name: [_lack(text) for text in one.lacks] for one in report.sections},
        verdict_tables={one.name: _verdict_tables(one, of_earlier=report.of_earlier) for one in report.sections},
        limiting=_html_table(report.limiting, grouped=True) if report.limiting is not None else "",
        sections=[(one, _Parts.of(parts, numbers)) for one, parts in zip(report.sections, arranged, strict=True)],
        built=any(one.built for one in report.findings),
        verdicts=_VERDICTS,
        wrong=_wrong(report),
        errors=ERRORS,
        version=__version__,
        colours=COLOURS,
        dashes=DASHES,
        definitions=definitions(),
        columns=max((len(table.columns) for table in tables), default=0),
        rebuild="How to rebuild and verify" if report.summary else "How to rebuild",
    )
    _require_figures(report, page)
    require_complete(page)
    return _said_once(page) if report.summary else page


def markdown_page(report: Report) -> str:
    """The same without drawings: tables and sentences, figures as their captions and numbers."""
    report = gathered(report)
    out = [f"# {report.title}", "", report.about, "", "## Summary", "", *(f"- {line}" for line in report.summary), ""]
    out += _markdown(report.limiting) if report.limiting is not None else []
    if report.limits:
        out += [f"**{report.limits_title}:** {' '.join(report.limits)}", ""]
    if report.details:
        out += [*(f"- {line}" for line in report.details), ""]
    if report.findings:
        out += [
            f"## {report.findings_title}",
            "",
            f"{report.findings_text} {report.changed}".strip(),
            "",
            f"| {'conclusion' if report.of_earlier else 'claim'} | verdict | p | evidence |",
            "|---|---|---|---|",
        ]
        out += [
            f"| {_md(one.claim)} | {one.verdict} | {one.p_text} | {_md(one.evidence)} |" for one in report.findings
        ] + [""]
    if (wrong := _wrong(report)) is not None:
        out += [f"{wrong.caption.removesuffix('.')}: a table near the end of this page ({len(wrong.rows)}).", ""]
    for section in report.sections:
        out += [f"## {section.title}", ""]
        if section.question:
            out += [f"Question: {section.question}", ""]
            out += _expectations(section) or [f"Hypothesis: {section.hypothesis}", ""]
        if section.missing:
            out += [f"**{section.missing_as.capitalize()}:** {section.missing}", ""]
        if section.lacks:
            out += ["**In the study and not on this page:**", "", *(f"- {one}" for one in section.lacks), ""]
        if section.design:
            out += ["**Design:**", "", *(f"- {name}: {value}" for name, value in section.design), ""]
        for block in ordered(section) if report.summary else section.blocks:
            out += _markdown(block)
    out += [
        "## Machine and programs",
        "",
        "| | |",
        "|---|---|",
        *(f"| {_md(name)} | {_md(value)} |" for name, value in report.facts),
        "",
    ]
    if report.steps:
        out += ["## How to rebuild and verify", "", *(f"- {text} `{command}`" for text, command in report.steps), ""]
    if report.listing:
        out += [
            f"All attempts as a list, valid or not, with their times and results: [{report.listing}]({report.listing})",
            "",
        ]
    return "\n".join(out)


# Captions, with the figure or table of each.
_CAPTION = re.compile(
    r'<figure id="(?P<figure>[^"]+)">.*?<figcaption>(?P<below>.*?)</figcaption>'
    r'|<table id="(?P<table>[^"]+)"><caption>(?P<above>.*?)</caption>',
    re.DOTALL,
)
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z“]|<a )")
# What is shorter is no longer than the words that point to it.
_REPEATED_WORDS_MIN = 10


def _said_once(page: str) -> str:
    """Sentences of captions that stand in an earlier caption of the page, word by word, become a link to it.

    A page of eight sections explained the same table eight times. The twin and the Markdown have every caption whole.
    """
    first: dict[str, str] = {}

    def shorter(found: re.Match[str]) -> str:
        kind = "below" if found["figure"] else "above"
        start, end = (place - found.start() for place in found.span(kind))
        own = found["figure"] or found["table"]
        # What a table is, and the name of a figure, stands there in any case.
        named, closed, rest = found[kind].rpartition("</b> ")
        title, *parts = [named + closed.rstrip(), *_SENTENCES.split(rest)] if closed else _SENTENCES.split(rest)
        long = [part for part in parts if len(part.split()) >= _REPEATED_WORDS_MIN]
        again = {part for part in long if first.setdefault(part, own) != own}
        if not again:
            return found[0]
        kept = [title, *(part for part in parts if part not in again)]
        link = f'<a href="#{first[next(part for part in parts if part in again)]}">The rest as above.</a>'
        # The link to the data of a figure stays the last.
        kept.insert(len(kept) - (kind == "below"), link)
        return found[0][:start] + " ".join(kept) + found[0][end:]

    return _CAPTION.sub(shorter, page)


def _wrong(report: Report) -> Table | None:
    """What the study printed wrongly, of a report whose tables of it are `gathered` into one."""
    tables = (block for section in report.sections for block in section.blocks if isinstance(block, Table))
    return next((one for one in tables if one.name.endswith(KNOWN_ERRORS)), None)


def _expectations(section: Section) -> list[str]:
    out: list[str] = []
    for whose, caption in _EXPECTED:
        asked = section.expected_by(whose)
        found = any(one.study_found for one in asked)
        rows = [
            f"| {_md(one.claim)} | {one.verdict} | {one.p_text} | {_md(one.evidence)} |"
            + (f" {_md(one.study_found) or '–'} |" if found else "")
            for one in asked
        ]
        if rows:
            head = ["| expected | verdict | p | why |", "|---|---|---|---|"]
            head = [f"{head[0]} the study found |", f"{head[1]}---|"] if found else head
            out += [f"**{caption}**", "", *head, *rows, ""]
    return out


class _Numbers:
    """Figures are numbered through the page, and their data lie in one place; which runs they have the section may have said."""

    def __init__(self, sections: Sequence[Arranged], data_folder: str) -> None:
        self.data_folder = data_folder
        self._notes = {
            figure.name: [one.text for one in section.shown if isinstance(one, Text) and one.note]
            for section in sections
            for figure in section.shown
            if isinstance(figure, Figure)
        }
        figures = [one for section in sections for one in section.shown if isinstance(one, Figure)]
        self._places = {one.name: place for place, one in enumerate(figures, start=1)}

    def __call__(self, figure: Figure) -> int:
        return self._places[figure.name]

    def own_runs(self, figure: Figure) -> str:
        """The runs of a figure; empty where a note of its section names the same ones, and no others."""
        noted = (note.removeprefix(RUNS).split("; ") for note in self._notes[figure.name] if note.startswith(RUNS))
        for sweeps in noted:
            if len(sweeps) == len(figure.runs) and all(map(str.startswith, sweeps, figure.runs)):
                return ""
        return "; ".join(figure.runs)


@dataclass(frozen=True)
class _Parts:
    """A section's blocks as HTML."""

    answer: list[str]
    why: list[str]
    evidence: list[str]
    more: list[str]
    more_text: str

    @classmethod
    def of(cls, parts: Arranged, numbers: _Numbers) -> _Parts:
        answer, why, evidence, more = (
            [_html(block, numbers, folded=kind != "evidence") for block in getattr(parts, kind)]
            for kind in ("answer", "why", "evidence", "more")
        )
        return cls(answer, why, evidence, more, parts.more_text)


def _reasons(section: Section) -> dict[str, str]:
    """Why each expectation and conclusion has its verdict, by name, as HTML; what an earlier row says already is not said again."""
    found, first = {}, {section.missing: ""}
    for one in (*(one for whose, _ in _EXPECTED for one in section.expected_by(whose)), *section.findings):
        earlier = first.setdefault(one.evidence, one.claim)
        again = f"The same as for “{earlier}”" if earlier else "See above."
        repeats = earlier != one.claim and len(again) < len(one.evidence)
        said = again if repeats else one.evidence
        found[one.name] = _reason(said if said.endswith((".", "”")) else f"{said}.")
    return found


@dataclass(frozen=True)
class _Group:
    """Rows of one origin, each with what of the study's conclusions shares it, and what the study found."""

    name: str
    title: str
    rows: tuple[tuple[Finding, str, str], ...]


@dataclass(frozen=True)
class _VerdictTable:
    """What was said before, with its verdicts: what does not hold or is not decided stands open, and what holds opens on demand."""

    caption: str
    groups: tuple[_Group, ...]
    folded: bool


def _verdict_tables(section: Section, *, of_earlier: bool) -> list[_VerdictTable]:
    """At most two, the open one first. A page of eight sections read out 30 sentences that hold, each with its interval."""
    shared = _concluded(section, of_earlier=of_earlier)
    own = {one.evidence for one in section.expectations}
    said: list[tuple[str, str, Sequence[Finding]]] = [
        (f"expected-{whose}", title, section.expected_by(whose)) for whose, title in _EXPECTED
    ]
    alone = [one for one in section.findings if one.evidence not in own]
    said.append(("concluded", "What the study concluded" if of_earlier else "What we claimed", alone))
    found, named = [], set[str]()
    for folded in (False, True):
        groups = []
        for name, title, asked in said:
            rows = tuple(
                (one, shared.get(one.name, ""), one.study_found if isinstance(one, Expectation) else "")
                for one in asked
                if (one.verdict == _HOLDS) == folded
            )
            if rows:
                groups.append(_Group(f"{section.name}-{name}{'-held' if name in named else ''}", title, rows))
                named.add(name)
        if groups:
            count = sum(len(group.rows) for group in groups)
            held = f"Holds on our data: {count} expected or {'concluded' if of_earlier else 'claimed'} before"
            found.append(
                _VerdictTable(
                    held if folded else "Does not hold on our data, or cannot be decided.", tuple(groups), folded
                )
            )
    return found


def _concluded(section: Section, *, of_earlier: bool) -> dict[str, str]:
    """By expectation that the study concluded what is judged by the very same, and in which words where they are others."""
    found: dict[str, str] = {}
    who = "Concluded by the study, too" if of_earlier else "Claimed, too"
    for evidence in {one.evidence: None for one in section.findings}:
        same = next((one for one in section.expectations if one.evidence == evidence), None)
        if same is not None:
            claims = [one.claim for one in section.findings if one.evidence == evidence and one.claim != same.claim]
            found[same.name] = f"{who}: {' '.join(claims)}" if claims else who
    return found


# The limit that decides has no more words, and stands behind what was found.
_LIMIT_WORDS_MAX = 10
# How a part begins that says why an interval on one side decides nothing.
_DOUBT = "that these levels reach the plateau"
# Of a reason that is no longer, nothing opens on demand.
_REASON_WORDS_MAX = 30


def _reason(text: str) -> str:
    """Why a verdict is what it is: what was found, and the limit that it is held against; the rest opens on demand."""
    parts = _parts_of(text)
    shown = 1 + (len(parts) > 1 and len(parts[1].split()) <= _LIMIT_WORDS_MAX)
    # An interval may lie inside and nothing be decided: why not is said at once.
    doubts = [part for part in parts[shown:] if part.startswith(_DOUBT)]
    rest = [part for part in parts[shown:] if part not in doubts]
    if not rest or len(text.split()) <= _REASON_WORDS_MAX:
        return escape(text)
    return _opening(f"{'; '.join([*parts[:shown], *doubts])}.", "; ".join(rest))


def _parts_of(reason: str) -> list[str]:
    """What stands between semicolons; those in parentheses part nothing."""
    parts, depth = [""], 0
    for letter in reason:
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [one.strip() for one in parts]


def _opening(lead: str, rest: str, kind: str = "rest") -> str:
    """Words that are shown, and those behind them, which open on demand; of the kind ``rest kept`` they are printed, too."""
    if not rest.strip():
        return escape(lead)
    return f'{escape(lead)} <details class="{kind}"><summary>more</summary>{escape(rest.strip())}</details>'


def _lack(text: str) -> str:
    """What the study has and the page has not; a long reason opens on demand."""
    item, colon, why = text.partition(": ")
    if len(why.split()) <= _REASON_WORDS_MAX:
        return escape(text)
    # On paper the reason is not missed: the box is there for it.
    return _opening(f"{item}{colon.rstrip()}", why, "rest kept")


def _html(block: Block, numbers: _Numbers, *, folded: bool) -> str:
    """A block; tables open on demand where they are ``folded``, and wherever they are long."""
    if isinstance(block, Text):
        leads = block.leads or block.points
        points = "".join(
            f"<li>{_opening(lead, point.removeprefix(lead))}</li>"
            for point, lead in zip(block.points, leads, strict=True)
        )
        if folded and points and block.text.endswith(":"):
            return f"<h3>{escape(block.text.removesuffix(':'))}</h3><ul>{points}</ul>"
        if block.folded:
            # On paper a note is not missed.
            kept = "" if block.note else ' class="kept"'
            return f"<details{kept}><summary>{escape(block.text)}</summary><ul>{points}</ul></details>"
        style = ' class="note"' if block.note else ""
        return f"<p{style}>{escape(block.text)}</p>" + (f"<ul>{points}</ul>" if points else "")
    if isinstance(block, Table):
        inner = _html_table(block)
        if not folded and not block.opens_on_demand:
            return inner
        # What words mean, and what a study printed wrongly, is wanted on paper, too.
        kept = ' class="kept"' if block.name.endswith((WORDS, KNOWN_ERRORS)) else ""
        return f"<details{kept}><summary>{escape(_first_sentence(block.caption))}</summary>{inner}</details>"
    return _figure(block, numbers(block), numbers.own_runs(block), numbers.data_folder)


def _html_table(table: Table, *, grouped: bool = False) -> str:
    """Where rows are ``grouped``, what stands first in several of them stands once above these, and has no column."""
    if grouped:
        titles = [str(row[0]) for row in table.rows]
        table = replace(table, columns=table.columns[1:], rows=tuple(row[1:] for row in table.rows))
    else:
        titles = []
    right = [
        all(isinstance(row[place], Value | int) or row[place] in _NUMBERS_TOO for row in table.rows)
        for place in range(len(table.columns))
    ]
    many = len(table.columns) >= _COLUMNS_MANY
    whole = many and len(table.columns) <= _COLUMNS_WHOLE_MAX
    # Which columns are set to the right stands once for all rows. A cell ends where the next begins, and a row where its line does.
    kinds = ["scroll", *(["many"] if many else []), *(f"n{place}" for place, at in enumerate(right, start=1) if at)]
    heads = "".join(f"<th>{escape(name)}" for name in table.columns)
    lines = ["<tr>" + "".join(f"<td>{_cell(one, whole=whole)}" for one in row) for row in table.rows]
    for place in reversed([at for at, title in enumerate(titles) if at == 0 or titles[at - 1] != title]):
        lines.insert(place, f'<tr><th colspan="{len(table.columns)}">{escape(titles[place])}')
    rows = "\n".join(lines)
    return (
        f'<div class="{" ".join(kinds)}"><table id="{escape(table.name)}"><caption>{escape(table.caption)}</caption>'
        f"<thead><tr>{heads}</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def figure_html(figure: Figure, number: int, data_folder: str = "") -> str:
    """A figure with panels, legend and caption, as it stands on the page; its data in it, or in a folder beside the page."""
    return _figure(figure, number, "; ".join(figure.runs), data_folder)


def _figure(figure: Figure, number: int, runs: str, data_folder: str) -> str:
    wide = len(figure.panels) == 1 or any(isinstance(panel, Diagram | System) for panel in figure.panels)
    size = (720.0, 250.0) if wide else (360.0, 215.0)
    columns = " wide" if wide else {3: " three", 6: " three"}.get(len(figure.panels), "")
    columns += " slim" if any(isinstance(panel, System) for panel in figure.panels) else ""
    legend = legend_of(figure.panels)
    charts = [panel for panel in figure.panels if not isinstance(panel, Diagram | System)]
    shared = shared_reaches(charts)
    reaches = iter(shared)
    drawn = "\n".join(
        _drawing(panel, figure)
        if isinstance(panel, Diagram | System)
        else draw(panel, f"{figure.title}: {panel.title}", *size, legend, next(reaches))
        for panel in figure.panels
    )
    redraws = f" Redraws {figure.redraws} of the study." if figure.redraws else ""
    source = f" {RUNS}{runs}." if runs else ""
    return (
        f'<figure id="fig-{escape(figure.name)}"><div class="panels{columns}">{drawn}</div>\n{_legend(figure)}'
        f"<figcaption><b>Figure {number}. {escape(figure.title)}.</b> {escape(figure.method)}"
        f"{axes_text(charts, shared)}{escape(redraws)}{escape(source)} {data_link(figure, data_folder)}</figcaption></figure>"
    )


def _drawing(panel: Diagram | System, figure: Figure) -> str:
    return draw_system(panel) if isinstance(panel, System) else draw_diagram(panel, f"{figure.title}: {panel.title}")


def _legend(figure: Figure) -> str:
    """One entry per name and look over all panels, each with a box that hides what it stands for; boxes for the single runs."""
    seen = legend_of(figure.panels)
    stacked = any(len(bar.parts) > 1 for panel in figure.panels for bar in panel.bars)
    boxes = []
    if len(seen) > 1 or stacked or any(kind not in ("line", "part") for _, kind in seen):
        boxes = [
            f'<label><input type="checkbox" class="k{place}" checked>{swatch(look, kind)}{escape(name)}</label>'
            for place, ((name, kind), look) in enumerate(seen.items())
        ]
    marks = [line.marks for panel in figure.panels for line in panel.lines]
    if any(mark.runs for line in marks for mark in line):
        boxes.append('<label><input type="checkbox" class="kr" checked>single runs, side by side at their mean</label>')
    if any(sum(len(mark.runs) > 1 for mark in line) > 1 for line in marks):
        boxes.append('<label><input type="checkbox" class="kj">joined by block</label>')
    return f'<div class="legend">{"".join(boxes)}</div>\n' if boxes else ""


def _markdown(block: Block) -> list[str]:
    if isinstance(block, Text):
        return [block.text, "", *(f"- {point}" for point in block.points), *([""] if block.points else [])]
    if isinstance(block, Figure):
        redraws = f" (redraws {block.redraws} of the study)" if block.redraws else ""
        return [f"*Figure: {block.title}{redraws}. {block.method}* The page has the drawing; its numbers follow.", ""]
    if len(block.rows) > _ROWS_MAX:
        return [f"**{block.caption}** {len(block.rows):,} rows: the page has them.", ""]
    out = [
        f"**{block.caption}**",
        "",
        "| " + " | ".join(map(_md, block.columns)) + " |",
        "|" + "---|" * len(block.columns),
    ]
    return [*out, *("| " + " | ".join(_md(_entry(one)) for one in row) + " |" for row in block.rows), ""]


def _cell(entry: Entry, *, whole: bool) -> str:
    """An entry as HTML; an interval that is to stay ``whole`` breaks from its number, and not in its middle."""
    text = escape(_entry(entry))
    if isinstance(entry, Value):
        # A number and its half width stay together; an interval after it may go to the next line.
        text = text.replace(" ± ", "\u00a0±\u00a0")
    if not whole or not isinstance(entry, Value):
        return text
    first, space, interval = text.partition(" ")
    return first + space + interval.replace(" ", "\u00a0")


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
