"""Shows a sweep while it runs: a table of cells with their intervals on a terminal, one plain line per attempt everywhere else."""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from weir_lab.bench.planning import duration_text, expected_seconds
from weir_lab.design import Response
from weir_lab.theory.stats import Decision
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.console import Console

    from weir_lab.design import ScheduledRun, Study
    from weir_lab.records import Verdict
    from weir_lab.records.progress import CellProgress

__all__ = ["Shown"]

_LOUD = re.compile(r"[A-Z]{2}")

# The cells that changed last; a study of hundreds does not fit a terminal.
_CELLS_SHOWN = 16


class Shown:
    """An observer of a sweep that writes to a console."""

    def __init__(self, console: Console, remark: Callable[[Path], str] = lambda _: "") -> None:
        """``remark`` is what else is to be said of a valid run, by its folder; on a terminal only what has capital letters in it."""
        self._console = console
        self._remark = remark
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._study: Study | None = None
        self._total = self._done = self._made = 0
        self._all: list[CellProgress] = []
        self._seconds = 0.0
        self._now = ""
        self._cells: dict[str, tuple[CellProgress, Decision]] = {}
        self._began = time.monotonic()

    def watching(self) -> AbstractContextManager[object]:
        """Keeps the table on the terminal while the sweep runs."""
        return self._live if self._live is not None else nullcontext()

    def planned(self, study: Study, total: int, reused: int, cells: Sequence[CellProgress], left_out: str = "") -> None:
        """Say what is to come, and what is there and does not count."""
        more = " or more" if study.plan.stop is not None else ""
        self._study, self._total, self._done, self._seconds = study, total, reused, expected_seconds(study)
        self._all = list(cells)
        self._say(f"{study.name}: {total} runs{more} planned, {reused} already there, about {self._left()} to go")
        if left_out:
            self._say(f"{study.name}: {left_out}: tables and reports have those of the newest start alone")

    def started(self, run: ScheduledRun, attempt: int) -> None:
        """Name the run that is made now."""
        self._now = run.name + (f", attempt {attempt}" if attempt > 1 else "")
        self._show()

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        """Count it, and say what is wrong or doubtful about it."""
        self._done += verdict.valid
        self._made += verdict.valid
        self._total = max(self._total, self._done)
        place = f"{self._done:>4}/{self._total} {run.name}"
        if not verdict.valid:
            self._say(f"{place}: invalid: {'; '.join(verdict.reasons)} ({folder})")
            self._show()
            return
        remark = self._remark(folder)
        if self._live is None or verdict.flags or _LOUD.search(remark):
            left = f", about {self._left()} left" if self._live is None and self._done < self._total else ""
            flagged = f"; flagged: {'; '.join(verdict.flags)}" if verdict.flags else ""
            self._say(f"{place}: valid{left}{flagged}" + (f"; {remark}" if remark else ""))
        self._show()

    def progressed(self, cell: CellProgress, decision: Decision) -> None:
        """Show the cell's interval; where a stop rule decides, say so once it has."""
        self._cells.pop(cell.cell.name, None)
        self._cells[cell.cell.name] = (cell, decision)
        stops = self._study is not None and self._study.plan.stop is not None
        if stops and decision is not Decision.CONTINUE:
            width = cell.half_width()
            known = f", throughput within {100 * width:.1f} %" if width is not None else ""
            self._say(f"     {cell.cell.name}: {decision} after {count_text(len(cell.values), 'run')}{known}")
        self._show()

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True, highlight=False)

    def _show(self) -> None:
        if self._live is None:
            return
        stops = self._study is not None and self._study.plan.stop is not None
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading, justify in (
            ("cell", "left"),
            ("runs", "right"),
            ("requests/s", "right"),
            ("± %", "right"),
            ("", "left"),
        ):
            table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
        for name, (cell, decision) in list(self._cells.items())[-_CELLS_SHOWN:]:
            width, mean = cell.half_width(), cell.mean(Response.THROUGHPUT)
            table.add_row(
                name,
                str(len(cell.values)),
                f"{mean:,.0f}" if mean is not None else "",
                f"{100 * width:.1f}" if width is not None else "",
                str(decision) if stops and decision is not Decision.CONTINUE else "",
            )
        line = Text(
            f"{self._cells_done()}{self._done} of {self._total} runs, {self._left()} left, {self._elapsed()} so far   {self._now}"
        )
        self._live.update(Group(table, ProgressBar(max(1, self._total), self._done, width=60), line), refresh=True)

    def _cells_done(self) -> str:
        """Cells that need no further run, of all."""
        study = self._study
        if study is None:
            return ""
        done = sum(cell.decision(study) is not Decision.CONTINUE for cell in self._all)
        return f"{done} of {len(self._all)} cells done, "

    def _left(self) -> str:
        """By what the runs of this sweep took so far, once there is one; by the plan's estimate before."""
        seconds = (time.monotonic() - self._began) / self._made if self._made else self._seconds
        return duration_text((self._total - self._done) * seconds)

    def _elapsed(self) -> str:
        return duration_text(time.monotonic() - self._began)
