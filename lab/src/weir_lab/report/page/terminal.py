"""How a command that measured something ends: the answer, what limits it, and where the page is. `show_end`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.page.blocks import LIMITS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

__all__ = ["show_answer", "show_end"]


def show_answer(console: Console, answer: Sequence[str], limits: Sequence[str]) -> None:
    """The answer, a line for each part of it, and what limits it in one paragraph."""
    for line in [*answer, *([f"{LIMITS}: {' '.join(limits)}"] if limits else [])]:
        # On a terminal lines end between words; what a program reads has no line ends of ours.
        console.print(line, markup=False, soft_wrap=not console.is_terminal)


def show_end(console: Console, answer: Sequence[str], limits: Sequence[str], page: Path) -> None:
    """The same, and the page as the last line."""
    show_answer(console, answer, limits)
    console.print(str(page), markup=False, soft_wrap=True)
