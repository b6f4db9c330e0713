"""In which order a page shows a section: the answer, then why, then evidence, and more evidence on demand. `arrange`.

Pages are arranged, and Markdown has the same order with every table. The report and its twin keep that in which a section was built, and
there the words of a page and what a study printed wrongly, which a page shows together near its end: `gathered`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.report.page.blocks import KNOWN_ERRORS, RUNS, Figure, Section, Table, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block, Entry, Report

__all__ = [
    "ERRORS",
    "FIGURES_OPEN_MAX",
    "PRINTED",
    "WHY",
    "WORDS",
    "Arranged",
    "arrange",
    "behind_figures",
    "differs_text",
    "gathered",
    "ordered",
    "with_first",
]

ERRORS = "known-errors"
"""The section of what a study printed wrongly, in all of its sections."""
WORDS = "-words"
"""How the names of tables end that say what words and letters mean."""
WHY = "Why:"
"""How the paragraph begins that says what limits."""
FIGURES_OPEN_MAX = 3
_DATA = "-data"
# Of a section that has shares of the variation the cells that they come from stand open, too, if they are few.
_CELLS = "-by-cell"
# Figures that answer most questions, by the last part of their name: over clients, of multi-gets, and of models. Over clients the response
# time is N / X, and is drawn on demand; so are residuals anywhere, and lines of models that lie on what was measured. Of other sections
# the figures that come first stay open.
_FIRST = ("throughput", "gets", "stages", "diagram", "errors")
_RESIDUALS = "-residuals-"
# By the last part of its name, what stands below the paragraph that says what limits: runs that confirm it, and the CPU time of a request.
_BELOW_WHY = ("-confirming", "-proxy-cpu", "-proxy-cpu-cells")

# Of these kinds of sections, sentences and figures show what the tables have.
_DRAWN_KINDS = ("clients", "replication", "writes", "multigets", "trace", "micro")
# Why the study found otherwise opens with its first sentence, or with two where that has fewer words.
_WORDS_MIN = 8
PRINTED = "Printed X"
"""The column of what a study printed, beside what is reached."""


@dataclass(frozen=True)
class Arranged:
    """Blocks of one section as a page shows them; ``more`` opens on demand."""

    answer: tuple[Block, ...] = ()
    why: tuple[Block, ...] = ()
    evidence: tuple[Block, ...] = ()
    more: tuple[Block, ...] = ()

    @property
    def shown(self) -> tuple[Block, ...]:
        """All blocks in the order of the page."""
        return (*self.answer, *self.why, *self.evidence, *self.more)

    @property
    def more_text(self) -> str:
        """How many figures and tables open on demand: ``6 figures, 12 tables``."""
        counted = [(sum(isinstance(one, kind) for one in self.more), noun) for kind, noun in _COUNTED]
        return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counted if count)


_COUNTED: tuple[tuple[type[Figure | Table], str], ...] = ((Figure, "figure"), (Table, "table"))


def arrange(section: Section) -> Arranged:
    """Sentences first, then why with what shows it, then the main table and at most three figures; all else is more evidence.

    Left out are tables of what a figure draws: the data link below it has the same numbers, and so have its marks.
    """
    blocks = section.blocks
    why = tuple(sorted((one for one in blocks if _is_why(one)), key=lambda one: not isinstance(one, Text)))
    answer = tuple(one for one in blocks if isinstance(one, Text) and not one.note and one not in why)
    rest = [one for one in blocks if one not in why and one not in answer and not _is_repeated(one)]
    open_ = _main_table(rest) + _chosen(section.name, [one for one in rest if isinstance(one, Figure)])
    # Notes that stand before anything else say what the evidence is; which runs it has is wanted by whoever looks closer.
    first = next((place for place, one in enumerate(rest) if not isinstance(one, Text)), len(rest))
    before = [one for one in rest[:first] if not (isinstance(one, Text) and one.text.startswith(RUNS))]
    evidence = tuple(one for one in rest if one in before or one in open_ or _is_gathered(one))
    more = tuple(one for one in rest if one not in evidence)
    return Arranged(answer, why, evidence, more)


def ordered(section: Section) -> tuple[Block, ...]:
    """All blocks of a section, none left out: sentences, then why, then the rest in its own order."""
    found = arrange(section)
    first = (*found.answer, *found.why)
    # Two blocks that say the same are two blocks.
    placed = {id(one) for one in first}
    return (*first, *(one for one in section.blocks if id(one) not in placed))


def gathered(report: Report) -> Report:
    """The report as a page shows it: words in one table, and before it a section of what the study printed wrongly in any of its sections.

    Seven tables in as many sections had the same rows twice, and nobody who knew what N is looked for it at two places.
    """
    tables = [(section, one) for section in report.sections for one in section.blocks if isinstance(one, Table)]
    errors = [(section, one) for section, one in tables if one.name.endswith(KNOWN_ERRORS)]
    words = [(section, one) for section, one in tables if one.name.endswith(WORDS)]
    if not errors and len(words) < 2:
        return report
    # Two blocks that say the same are two blocks.
    moved = {id(one) for _, one in (*errors, *words[:-1])}
    home, last = words[-1] if words else (None, None)
    shown = []
    for section in report.sections:
        if section is home and errors:
            shown.append(_errors_together(errors))
        blocks = tuple(
            replace(one, rows=tuple(row for _, table in words for row in table.rows)) if one is last else one
            for one in section.blocks
            if id(one) not in moved
        )
        shown.append(replace(section, blocks=blocks))
    return replace(report, sections=(*shown, *([_errors_together(errors)] if errors and home is None else [])))


def _errors_together(errors: Sequence[tuple[Section, Table]]) -> Section:
    """One table for all sections; a row that several have stands once and names them."""
    found: dict[tuple[Entry, ...], list[str]] = {}
    for section, table in errors:
        for row in table.rows:
            found.setdefault(row, []).append(section.title)
    first = errors[0][1]
    rows = tuple(("; ".join(dict.fromkeys(titles)), *row) for row, titles in found.items())
    table = Table(f"page{KNOWN_ERRORS}", first.caption, ("Section", *first.columns), rows, folded=True)
    return Section(ERRORS, "Printed wrongly in the study", "", "", blocks=(table,))


def _is_gathered(block: Block) -> bool:
    """Whether a section is there for this table alone."""
    return isinstance(block, Table) and block.name.endswith((KNOWN_ERRORS, WORDS))


def _is_why(block: Block) -> bool:
    if isinstance(block, Text):
        return block.text == WHY
    return block.name.endswith(_BELOW_WHY)


def _is_repeated(block: Block) -> bool:
    """Whether this is a table that `with_tables` has put behind a figure."""
    return isinstance(block, Table) and block.name.endswith(_DATA)


def _main_table(blocks: Sequence[Block]) -> list[Block]:
    """The first table that is short enough to be read in passing, and those of the cells of a 2^k design that are."""
    short = [one for one in blocks if isinstance(one, Table) and not one.opens_on_demand]
    return [one for place, one in enumerate(short) if not place or one.name.endswith(_CELLS)]


def _chosen(section: str, figures: Sequence[Figure]) -> list[Block]:
    """The figures that stay open."""
    named = {one.name: one for one in figures}
    first = [named[name] for name in (f"{section}-{ending}" for ending in _FIRST) if name in named]
    return [*(first or [one for one in figures if _RESIDUALS not in one.name])[:FIGURES_OPEN_MAX]]


def behind_figures(blocks: Sequence[Block], kind: str) -> list[Block]:
    """The same blocks, in which tables open on demand where sentences and figures show what they have.

    What is reached stands open beside what the study printed: no sentence has both.
    """
    drawn = kind in _DRAWN_KINDS
    return [
        replace(one, folded=True) if drawn and isinstance(one, Table) and PRINTED not in one.columns else one
        for one in blocks
    ]


def differs_text(study: str, said: str) -> Text:
    """Why a study found otherwise: its first sentence names what the study held to limit, and its numbers open on demand."""
    parts = said.split(". ")
    shown = 1 if len(parts[0].split()) >= _WORDS_MIN else 2
    first = ". ".join(parts[:shown]).rstrip(".") + "."
    return Text(f"Why {study} found otherwise, by its own numbers:", (said,), leads=(first,))


def with_first(blocks: Sequence[Block], said: Text | None) -> list[Block]:
    """With a text in front, or behind all others where it is a note: notes open on demand there."""
    if said is None:
        return [*blocks]
    return [*blocks, said] if said.note else [said, *blocks]
