"""In which order a page shows a section: the answer, then why, then evidence, and more evidence on demand. `arrange`.

Pages are arranged, and Markdown has the same order with every table. The report and its twin keep that in which a section was built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.report.page.blocks import Figure, Table, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block, Section

__all__ = ["FIGURES_OPEN_MAX", "WHY", "Arranged", "arrange", "ordered"]

WHY = "Why:"
"""How the paragraph begins that says what limits."""
FIGURES_OPEN_MAX = 3
_DATA = "-data"
# Figures that answer most questions of such a section, by the last part of their name; then those that come first.
_FIRST = ("throughput", "response", "stages")
# By the last part of its name, what stands below the paragraph that says what limits: runs that confirm it, and the CPU time of a request.
_BELOW_WHY = ("-confirming", "-proxy-cpu", "-proxy-cpu-cells")


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
    # Notes that stand before anything else say what the evidence is.
    first = next((place for place, one in enumerate(rest) if not isinstance(one, Text)), len(rest))
    evidence = tuple(one for place, one in enumerate(rest) if place < first or one in open_)
    more = tuple(one for one in rest if one not in evidence)
    return Arranged(answer, why, evidence, more)


def ordered(section: Section) -> tuple[Block, ...]:
    """All blocks of a section, none left out: sentences, then why, then the rest in its own order."""
    found = arrange(section)
    first = (*found.answer, *found.why)
    # Two blocks that say the same are two blocks.
    placed = {id(one) for one in first}
    return (*first, *(one for one in section.blocks if id(one) not in placed))


def _is_why(block: Block) -> bool:
    if isinstance(block, Text):
        return block.text == WHY
    return block.name.endswith(_BELOW_WHY)


def _is_repeated(block: Block) -> bool:
    """Whether this is a table that `with_tables` has put behind a figure."""
    return isinstance(block, Table) and block.name.endswith(_DATA)


def _main_table(blocks: Sequence[Block]) -> list[Block]:
    """The first table that is short enough to be read in passing."""
    found = next((one for one in blocks if isinstance(one, Table) and not one.opens_on_demand), None)
    return [] if found is None else [found]


def _chosen(section: str, figures: Sequence[Figure]) -> list[Block]:
    """The figures that stay open."""
    rank = {f"{section}-{ending}": place for place, ending in enumerate(_FIRST)}
    ordered = sorted(figures, key=lambda one: rank.get(one.name, len(rank)))
    return [*ordered[:FIGURES_OPEN_MAX]]
