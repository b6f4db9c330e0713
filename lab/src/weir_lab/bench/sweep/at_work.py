"""A sweep at work: which of its runs are there, which are wanted next, and one more of them. Start with `SweepAtWork`.

`run` gives every cell its repetitions; `night` gives them to the cells where they tell most. Both make runs and take up old ones here.
"""

from __future__ import annotations

import fnmatch
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from time import sleep
from typing import TYPE_CHECKING, Protocol

from weir_lab.bench.planning import expected_seconds
from weir_lab.bench.running.attempts import Bench, make_attempt, new_folder
from weir_lab.design import (
    Expression,
    ExpressionError,
    FaultsError,
    ScheduledRun,
    Settings,
    Study,
    amended,
    block,
    cells_of,
    content_sha256,
    load_study,
    parse_study,
    scheduled_like,
)
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import Run, Verdict, read_run, read_run_metas, runs_folder, write_text
from weir_lab.records.progress import CellProgress, refined_cells, repetitions_least, values_of
from weir_lab.records.tables.found import attempts_by_content
from weir_lab.records.windows import Cut
from weir_lab.theory.stats import Decision
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from weir_lab.design import Cell, Level

__all__ = [
    "Observer",
    "SweepAtWork",
    "SweepOutcome",
    "cells_asked",
    "parsed",
    "pause_while_busy",
    "require_selected",
    "selects",
]

# Runs that fail one after the other fail for one reason, and the next ones would, too.
_GIVEN_UP_IN_A_ROW_MAX = 3

# Blocks of lane n are numbered from 1000 n + 1 on, and places in time from 1,000,000 n + 1 on.
_LANE = 1000

# The longest pause after an attempt that a busy machine spoiled; the first is 2 s, and each is twice as long as the one before.
_BUSY_PAUSE_MAX_S = 15.0

# A message names no more cells than this: a study may have hundreds.
_NAMED_MAX = 12


class Observer(Protocol):
    """Hears how a sweep goes on."""

    def planned(self, study: Study, total: int, reused: int, cells: Sequence[CellProgress], left_out: str = "") -> None:
        """Called before the first run, and again when refinement has added cells; `cells` change while the sweep goes on.

        ``left_out`` says which valid runs that are there do not count; empty where all do.
        """

    def started(self, run: ScheduledRun, attempt: int) -> None:
        """An attempt begins."""

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        """An attempt has ended."""

    def progressed(self, cell: CellProgress, decision: Decision) -> None:
        """A cell has a valid run more."""


@dataclass(frozen=True)
class SweepOutcome:
    """What came of a study's runs; ``given_up`` are the runs that have no valid attempt, ``not_converged`` cells with all they may have."""

    sweep: Path
    made: int
    reused: int
    given_up: list[str]
    not_converged: list[str]
    out_of_budget: bool
    answers: tuple[str, ...] = ()
    """What a study with ``find`` has found, a sentence per cell."""
    held_back: int = 0
    """Where ``extend`` added nothing: runs that were asked for before and were not there yet."""


class SweepAtWork:
    """One sweep: which runs are there, and which are wanted next. Runs can be made while it has a bench.

    ``identity`` is what of the bench decides the outcome of a run: runs of another one are not taken up. A ``lane`` numbers its blocks
    apart from those of others, so that the run folders of all can lie in one folder: a block is made in one lane.
    """

    def __init__(
        self,
        study: Study,
        sweep: Path,
        identity: dict[str, str],
        observer: Observer,
        only: str | None,
        *,
        lane: int = 0,
    ) -> None:
        self.study = study
        self.lane = lane
        self.sweep = sweep
        self.bench: Bench | None = None
        self._identity = identity
        self._observer = observer
        self._only = only
        self._began = time.monotonic()
        self._made = 0
        self._in_a_row = 0
        self._out_of_budget = False
        self._cells: dict[str, CellProgress] = {}
        self._last_block = self._last_position = 0
        self._left_out = ""
        self._reused = self._take_up(cells_of(study))

    def run_all(self) -> None:
        """The cells of the design; then, stage by stage, those that refinement adds."""
        self._announce()
        for _ in self.stages():
            self._run_cells()
            if self._out_of_budget:
                break

    def outcome(self) -> SweepOutcome:
        """What came of it."""
        cells = self._cells.values()
        return SweepOutcome(
            self.sweep,
            self._made,
            self._reused,
            [f"{cell.cell.name}-r{repetition}" for cell in cells for repetition in sorted(cell.given_up)],
            [cell.cell.name for cell in cells if cell.decision(self.study) is Decision.NOT_CONVERGED],
            self._out_of_budget,
        )

    def _run_cells(self) -> None:
        for repetition in range(1, self.study.plan.repetitions_max + self.study.extended + 1):
            for run in block(self.study, [cell.cell for cell in self._cells.values()], repetition):
                if not self._needs(run):
                    continue
                if self._budget_ends():
                    self._out_of_budget = True
                    return
                self._attempt(run)

    def _needs(self, run: ScheduledRun) -> bool:
        cell = self._cells[run.cell.name]
        if run.repetition in cell.values or run.repetition in cell.given_up:
            return False
        if not self._selected(run.cell):
            return False
        # Blocks stay whole: up to the least number every cell has its run in every block.
        return run.repetition <= repetitions_least(self.study) or cell.decision(self.study) is Decision.CONTINUE

    def _selected(self, cell: Cell) -> bool:
        return self._only is None or selects(self._only, cell)

    def _budget_ends(self) -> bool:
        budget = self.study.plan.budget_s
        return budget is not None and time.monotonic() - self._began + expected_seconds(self.study) > budget

    def _attempt(self, run: ScheduledRun) -> None:
        """Try a run until one attempt is valid or the plan's attempts are used up."""
        cell = self._cells[run.cell.name]
        self._made += 1
        for attempt in range(1, self.study.plan.attempts + 1):
            verdict = self.try_once(run, attempt)[0]
            if verdict.valid:
                self._in_a_row = 0
                return
            if verdict.busy and attempt < self.study.plan.attempts:
                pause_while_busy(attempt)
        cell.given_up.add(run.repetition)
        self._in_a_row += 1
        if self._in_a_row == _GIVEN_UP_IN_A_ROW_MAX:
            mend = (
                "Wait until the machine is quiet, or raise other_cpu_share_max"
                if verdict.busy
                else "Mend what the last verdicts say"
            )
            raise TestbedError(
                f"{self._in_a_row} runs in a row have no valid attempt; the sweep stops here. {mend}, then run the same command again."
            )

    def try_once(self, run: ScheduledRun, attempt: int, usual_ns: float | None = None) -> tuple[Verdict, Path]:
        """One attempt at a run, with its verdict and its folder; a valid one counts at once."""
        if self.bench is None:
            raise AssertionError("a sweep without a bench cannot make runs")
        self._observer.started(run, attempt)
        folder = new_folder(runs_folder(self.sweep), run.name)
        meta = make_attempt(self.study, run, attempt, folder, replace(self.bench, usual_ns=usual_ns))
        self._observer.finished(run, meta.verdict, folder)
        if meta.verdict.valid:
            cell = self._cells[run.cell.name]
            self._add(cell, read_run(folder))
            self._observer.progressed(cell, cell.decision(self.study))
        return meta.verdict, folder

    @property
    def cells(self) -> list[CellProgress]:
        """All that are asked for, with the runs that they have."""
        return [cell for cell in self._cells.values() if self._selected(cell.cell)]

    def new_block(self, cells: Sequence[tuple[Cell, float | None]]) -> list[ScheduledRun]:
        """Runs of a block that was not there before, with the measured phase of each where it is not the plan's."""
        self._last_block += 1
        if self._last_block // _LANE != self.lane:
            raise StudyError(
                f"{self.sweep}: all {_LANE - 1} blocks of lane {self.lane} are made. Go on with a --lane that has none there, or in "
                "another --out."
            )
        runs = []
        for cell, measured_s in cells:
            self._last_position += 1
            runs.append(ScheduledRun(cell, self._last_block, self._last_position, measured_s))
        return runs

    def untried(self) -> int:
        """Runs of the cells that are there, asked for by now, with neither a valid attempt nor all of their failed ones."""
        known = attempts_by_content(read_run_metas(self.sweep))
        count, cells = 0, [cell.cell for cell in self._cells.values()]
        for repetition in range(1, self.study.plan.repetitions_max + self.study.extended + 1):
            for run in block(self.study, cells, repetition):
                if self._needs(run):
                    made = known.get(content_sha256(self.study, run, self._identity))
                    count += made is None or made.invalid < self.study.plan.attempts
        return count

    def is_of(self, study: Study, identity: dict[str, str]) -> bool:
        """Whether this is the work at a study with these programs, so that its runs count for it."""
        return self.study == study and self._identity == identity

    def look_again(self) -> None:
        """Take up what others have made meanwhile: their blocks are used up, and their runs need not be made."""
        self._reused += self._take_up([cell.cell for cell in self._cells.values()])

    def stages(self) -> Iterator[None]:
        """The design; then, each time when it is asked for the next one, a refinement around the best of what the stages before it knew.

        Not around all that is there: so a sweep that goes on finds the same cells again.
        """
        yield
        known = {cell.name for cell in cells_of(self.study.model_copy(update={"refined": []}))}
        for stage in self.study.refine:
            known |= self._refine(refined_cells(stage, [cell for name, cell in self._cells.items() if name in known]))
            yield

    def count(self, *, made: int = 0, out_of_budget: bool = False) -> None:
        """Note what came of runs that were made by `try_once`."""
        self._made += made
        self._out_of_budget |= out_of_budget

    def announce(self, total: int) -> None:
        """Tell the observer what is planned."""
        reused = sum(len(cell.values) for cell in self.cells)
        self._observer.planned(self.study, total, reused, self.cells, self._left_out)

    def _add(self, cell: CellProgress, run: Run) -> None:
        if not self.study.kind.runs_load:
            cell.values[run.meta.repetition] = None
            return
        if run.load is None:
            raise RecordError(
                f"{run.folder}: the run is called valid, but has no load.json. Delete the folder, run again."
            )
        values = values_of(run.load, Cut(run.meta.cut_windows, stationary=True))
        slowness_ns = run.cpu.slowness_ns() if run.cpu is not None else None
        cell.values[run.meta.repetition] = replace(
            values, position=run.meta.position, slowness_ns=slowness_ns, measured_s=run.meta.measured_s
        )

    def _take_up(self, cells: list[Cell]) -> int:
        """Learn of the cells, and of their valid runs that are there already; how many those are."""
        self._cells |= {cell.name: CellProgress(cell) for cell in cells if cell.name not in self._cells}
        metas = read_run_metas(self.sweep)
        there: dict[str, Path] = {}
        # Of two runs of one content the first counts, as in tables and reports.
        for made_in, meta in sorted(metas, key=lambda pair: pair[1].started_unix_ns):
            if meta.verdict.valid:
                there.setdefault(meta.content_sha256, made_in)
        # Blocks of attempts that failed are used up, too: a block is a time. Those of other lanes may be made elsewhere just now.
        ours = [meta for _, meta in metas if meta.repetition // _LANE == self.lane]
        self._last_block = max((meta.repetition for meta in ours), default=self.lane * _LANE)
        self._last_position = max((meta.position for meta in ours), default=self.lane * _LANE * _LANE)
        names, found, used = {cell.name for cell in cells}, 0, set()
        for run in scheduled_like(self.study, [meta for _, meta in metas]):
            content = content_sha256(self.study, run, self._identity)
            folder = there.get(content)
            used.add(content)
            cell = self._cells[run.cell.name]
            if folder is not None and run.cell.name in names and run.repetition not in cell.values:
                self._add(cell, read_run(folder))
                found += 1
        by_folder = dict(metas)
        others = [by_folder[made_in].executables for content, made_in in there.items() if content not in used]
        self._left_out = _left_out_text(others, self._identity)
        return found

    def _refine(self, found: list[dict[str, Level]]) -> set[str]:
        """Add the cells that are new, and write them into the study beside the runs before any of them runs; the names of all."""
        known = {_key(dict(cell.cell.levels)) for cell in self._cells.values()}
        fresh = [levels for levels in found if _key(levels) not in known]
        if fresh:
            copy = self.sweep / "study.toml"
            text = amended(copy.read_text(encoding="utf-8"), refined=fresh)
            self.study = parsed(text, copy)
            write_text(copy, text)
            self._reused += self._take_up(cells_of(self.study))
            self._announce()
        meant = {_key(levels) for levels in found}
        return {name for name, cell in self._cells.items() if _key(dict(cell.cell.levels)) in meant}

    def _announce(self) -> None:
        selected = [cell for cell in self._cells.values() if self._selected(cell.cell)]
        total = sum(max(len(cell.values), repetitions_least(self.study)) for cell in selected)
        reused = sum(len(cell.values) for cell in selected)
        self._observer.planned(self.study, total, reused, selected, self._left_out)


def _left_out_text(made_with: Sequence[Mapping[str, str]], identity: Mapping[str, str]) -> str:
    """``118 valid runs were made with another awake and do not count``: by what their programs and testbeds differ in from these."""
    counted: Counter[str] = Counter()
    for one in made_with:
        differ = sorted(name for name in one.keys() | identity.keys() if one.get(name) != identity.get(name))
        if differ:
            counted[", ".join(differ)] += 1
    return "; ".join(
        f"{count_text(count, 'valid run')} {'was' if count == 1 else 'were'} made with another {names} and "
        f"{'does' if count == 1 else 'do'} not count"
        for names, count in counted.items()
    )


def selects(only: str, cell: Cell) -> bool:
    """Whether ``--only`` means this cell: a pattern of its name (``*-S5-*``), or a condition on settings (``servers == 5``)."""
    if not re.search(r"[=<>]", only):
        return fnmatch.fnmatchcase(cell.name, only)
    try:
        expression = Expression.parse(only)
        unknown = expression.names - set(Settings.model_fields)
        if unknown:
            raise ExpressionError(f"{only!r} names {', '.join(sorted(unknown))}, which is no setting")
        return bool(expression.evaluate(lambda name: _value(cell.settings, name)))
    except ExpressionError as error:
        raise StudyError(f"--only: {error}") from error


def cells_asked(study: Study, sweep: Path) -> list[Cell]:
    """The cells of a study, with those that refinement has added in its sweep."""
    cells = {cell.name: cell for cell in cells_of(study)}
    try:
        kept = load_study(sweep / "study.toml")
    except StudyError:  # not made yet, or not sound: whoever opens the sweep says so
        return list(cells.values())
    if kept.pace == study.pace:
        cells |= {cell.name: cell for cell in cells_of(kept)}
    return list(cells.values())


def require_selected(only: str, cells: Sequence[Cell]) -> None:
    """An ``--only`` that means no cell is a slip: hours would pass, and nothing be made."""
    if any(selects(only, cell) for cell in cells):
        return
    names = [cell.name for cell in cells]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    raise StudyError(
        f"--only: {only!r} means none of the cells. There are: {', '.join(names[:_NAMED_MAX])}{more}. Give a pattern of names, or a "
        "condition such as 'servers == 5'."
    )


def pause_while_busy(attempt: int) -> None:
    """Wait before the next attempt: what keeps a machine busy takes seconds, and attempts at once would all meet it."""
    sleep(min(2.0**attempt, _BUSY_PAUSE_MAX_S))


def _key(levels: dict[str, Level]) -> frozenset[tuple[str, Level]]:
    return frozenset(levels.items())


def _value(settings: Settings, name: str) -> int | float | str:
    value: int | float | str | None = getattr(settings, name)
    return "" if value is None else value


def parsed(text: str, copy: Path) -> Study:
    """A study with what was added to it beside its runs."""
    try:
        return parse_study(text)
    except FaultsError as error:
        raise StudyError(f"{copy}: what was added to the study cannot be run: {error}") from error
