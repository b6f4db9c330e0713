"""A study becomes records: every run that its cells still need, in order, in a folder of its own.

Read `run_study` first. Nothing is ever overwritten: a run that is already there, valid and of the same content is reused; anything else
stays, and a new folder is made beside it. What a run is, and when it is the same, `design` says; when a cell has enough, `progress`.
"""

from __future__ import annotations

import fcntl
import fnmatch
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weir_lab.bench.planning import chosen_testbed, expected_seconds, machines_of, missing_here
from weir_lab.bench.programs.identity import identify_programs
from weir_lab.bench.programs.subjects import WEIR, abilities_of, asks_for_more
from weir_lab.bench.running import Executables, missing_profiler, target_versions
from weir_lab.bench.running.attempts import Bench, make_attempt, new_folder
from weir_lab.bench.sweep.finding import find_capacities
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design import (
    Expression,
    ExpressionError,
    FaultsError,
    RequestPath,
    ScheduledRun,
    Settings,
    Study,
    amended,
    block,
    cells_of,
    content_sha256,
    load_study,
    parse_study,
)
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import (
    Run,
    SweepMeta,
    Verdict,
    read_run,
    read_run_metas,
    runs_folder,
    write_json,
    write_text,
)
from weir_lab.records.progress import CellProgress, refined_cells, repetitions_least, values_of
from weir_lab.records.tables.summary import write_tables
from weir_lab.records.windows import Cut
from weir_lab.theory.stats import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.bench.programs.subjects import Abilities
    from weir_lab.design import Cell, Level

__all__ = ["Observer", "SweepOutcome", "Wanted", "run_study", "selects"]

# Runs that fail one after the other fail for one reason, and the next ones would, too.
_GIVEN_UP_IN_A_ROW_MAX = 3


class Observer(Protocol):
    """Hears how a sweep goes on."""

    def planned(self, study: Study, total: int, reused: int, cells: Sequence[CellProgress]) -> None:
        """Called before the first run, and again when refinement has added cells; `cells` change while the sweep goes on."""

    def started(self, run: ScheduledRun, attempt: int) -> None:
        """An attempt begins."""

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        """An attempt has ended."""

    def progressed(self, cell: CellProgress, decision: Decision) -> None:
        """A cell has a valid run more."""


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for beside the study: a pace, a part of the cells, more repetitions, another testbed, its machines."""

    pace: str | None = None
    only: str | None = None
    extend: int = 0
    testbed: TestbedKind | None = None
    hosts: Path | None = None
    profile: bool = False


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


def run_study(
    study_path: Path,
    sweep: Path,
    executables: Executables,
    command: list[str],
    observer: Observer,
    wanted: Wanted | None = None,
) -> SweepOutcome:
    """Make all runs of a study that are not there yet."""
    wanted = wanted or Wanted()
    given = load_study(study_path, wanted.pace)
    kind = chosen_testbed(given, wanted.testbed)
    abilities = _abilities(given, executables, wanted, kind)
    programs = identify_programs(given, executables.weir, executables.memcached)
    programs |= {"profile": "perf"} if wanted.profile else {}
    # Hosts may reach what this machine does not.
    programs |= target_versions(given.targets) if kind is not TestbedKind.HOSTS else {}
    runs_folder(sweep).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        _lock(stack.enter_context((sweep / ".lock").open("w")).fileno(), sweep)
        for left in sweep.glob("*.part"):
            left.unlink()  # a write that was cut short
        study = _adopt(study_path, sweep / "study.toml", wanted, kind)
        testbed = stack.enter_context(open_testbed(kind, study.topology, machines_of(study), wanted.hosts))
        hashes = {**programs, **testbed.identity()}
        if kind is TestbedKind.HOSTS:
            hashes |= target_versions(study.targets, testbed.version_of)
        write_json(sweep / "sweep.json", SweepMeta(executables=hashes, command=command))
        bench = Bench(testbed, executables, hashes, abilities, wanted.profile)
        if study.find is not None:
            return _found(study, sweep, bench, observer, wanted)
        made = _Sweep(study, sweep, bench, observer, wanted.only)
        try:
            made.run_all()
        finally:
            write_tables(sweep, made.study, hashes)
    return made.outcome()


def _found(study: Study, sweep: Path, bench: Bench, observer: Observer, wanted: Wanted) -> SweepOutcome:
    """A study that looks for a rate."""

    def planned(total: int, reused: int) -> None:
        observer.planned(study, total, reused, [])

    try:
        found = find_capacities(
            study, sweep, bench, observer, lambda cell: wanted.only is None or selects(wanted.only, cell), planned
        )
    finally:
        write_tables(sweep, study, bench.identity)
    return SweepOutcome(
        sweep,
        found.made,
        found.reused,
        [],
        [one.cell.name for one in found.findings if one.verdict_text() == "not converged"],
        found.out_of_budget,
        tuple(one.sentence() for one in found.findings),
    )


class _Sweep:
    """One sweep at work: which runs are there, and which are wanted next."""

    def __init__(
        self,
        study: Study,
        sweep: Path,
        bench: Bench,
        observer: Observer,
        only: str | None,
    ) -> None:
        self.study = study
        self._sweep = sweep
        self._bench = bench
        self._observer = observer
        self._only = only
        self._began = time.monotonic()
        self._made = 0
        self._in_a_row = 0
        self._out_of_budget = False
        self._cells: dict[str, CellProgress] = {}
        self._reused = self._take_up(cells_of(study))

    def run_all(self) -> None:
        """The cells of the design; then, stage by stage, those that refinement adds."""
        self._announce()
        self._run_cells()
        # Each stage looks at what the stages before it knew, so that a sweep that goes on finds the same cells again.
        known = {cell.name for cell in cells_of(self.study.model_copy(update={"refined": []}))}
        for stage in self.study.refine:
            if self._out_of_budget:
                break
            found = refined_cells(stage, [cell for name, cell in self._cells.items() if name in known])
            known |= self._refine(found)
            self._run_cells()

    def outcome(self) -> SweepOutcome:
        """What came of it."""
        cells = self._cells.values()
        return SweepOutcome(
            self._sweep,
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
            self._observer.started(run, attempt)
            folder = new_folder(runs_folder(self._sweep), run.name)
            meta = make_attempt(self.study, run, attempt, folder, self._bench)
            self._observer.finished(run, meta.verdict, folder)
            if meta.verdict.valid:
                self._in_a_row = 0
                self._add(cell, read_run(folder))
                self._observer.progressed(cell, cell.decision(self.study))
                return
        cell.given_up.add(run.repetition)
        self._in_a_row += 1
        if self._in_a_row == _GIVEN_UP_IN_A_ROW_MAX:
            raise TestbedError(
                f"{self._in_a_row} runs in a row have no valid attempt; the sweep stops here. Mend what the last verdicts say, "
                "then run the same command again."
            )

    def _add(self, cell: CellProgress, run: Run) -> None:
        if not self.study.kind.runs_load:
            cell.values[run.meta.repetition] = None
            return
        if run.load is None:
            raise RecordError(
                f"{run.folder}: the run is called valid, but has no load.json. Delete the folder, run again."
            )
        cell.values[run.meta.repetition] = values_of(run.load, Cut(run.meta.cut_windows, stationary=True))

    def _take_up(self, cells: list[Cell]) -> int:
        """Learn of the cells, and of their valid runs that are there already; how many those are."""
        self._cells |= {cell.name: CellProgress(cell) for cell in cells if cell.name not in self._cells}
        there = {meta.content_sha256: folder for folder, meta in read_run_metas(self._sweep) if meta.verdict.valid}
        last = max((meta.repetition for _, meta in read_run_metas(self._sweep)), default=0)
        found = 0
        for repetition in range(1, last + 1):
            for run in block(self.study, cells, repetition):
                folder = there.get(content_sha256(self.study, run, self._bench.identity))
                cell = self._cells[run.cell.name]
                if folder is not None and repetition not in cell.values:
                    self._add(cell, read_run(folder))
                    found += 1
        return found

    def _refine(self, found: list[dict[str, Level]]) -> set[str]:
        """Add the cells that are new, and write them into the study beside the runs before any of them runs; the names of all."""
        known = {_key(dict(cell.cell.levels)) for cell in self._cells.values()}
        fresh = [levels for levels in found if _key(levels) not in known]
        if fresh:
            copy = self._sweep / "study.toml"
            text = amended(copy.read_text(encoding="utf-8"), refined=fresh)
            self.study = _parsed(text, copy)
            write_text(copy, text)
            self._reused += self._take_up(cells_of(self.study))
            self._announce()
        meant = {_key(levels) for levels in found}
        return {name for name, cell in self._cells.items() if _key(dict(cell.cell.levels)) in meant}

    def _announce(self) -> None:
        selected = [cell for cell in self._cells.values() if self._selected(cell.cell)]
        total = sum(max(len(cell.values), repetitions_least(self.study)) for cell in selected)
        self._observer.planned(self.study, total, sum(len(cell.values) for cell in selected), selected)


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


def _key(levels: dict[str, Level]) -> frozenset[tuple[str, Level]]:
    return frozenset(levels.items())


def _value(settings: Settings, name: str) -> int | float | str:
    value: int | float | str | None = getattr(settings, name)
    return "" if value is None else value


def _abilities(study: Study, executables: Executables, wanted: Wanted, kind: TestbedKind) -> Abilities | None:
    """Ask the binary what it can do, and refuse, before hours of runs, what it or this testbed cannot."""
    proxied = [cell.settings for cell in cells_of(study) if cell.settings.path is RequestPath.PROXY]
    abilities = None
    if study.kind.runs_load and any(cell.subject == WEIR for cell in proxied):
        try:
            abilities = abilities_of(executables.weir)
        except TestbedError:
            if asks_for_more(proxied):
                raise
    found = missing_here(study, abilities, kind)
    if wanted.profile:
        found += _unprofilable(study, kind)
    if found:
        raise TestbedError(f"{study.name} cannot run here: {'; '.join(found)}")
    return abilities


def _unprofilable(study: Study, kind: TestbedKind) -> list[str]:
    if study.targets:
        return ["targets run already, and only what weir-lab starts can be profiled"]
    if not study.kind.runs_load or kind is TestbedKind.HOSTS:
        return ["only proxies under load on local and netns can be profiled"]
    missing = missing_profiler()
    return [missing] if missing else []


def _adopt(study_path: Path, copy: Path, wanted: Wanted, kind: TestbedKind) -> Study:
    """Keep the study beside its runs as it is run now: at its pace, with what was added to it before and now."""
    given = load_study(study_path, wanted.pace)
    kept = load_study(copy) if copy.exists() else None
    if kept is not None and kept.name != given.name:
        raise StudyError(f"{copy.parent} holds the study {kept.name}, not {given.name}. Give another --out.")
    again = copy.exists() and copy.samefile(study_path)
    before = kept.extended if kept is not None and kept.pace == given.pace else given.extended
    # The copy has its refined cells in it; the original has none, and gets those that belong to its pace.
    refined = [] if again or kept is None or kept.pace != given.pace else [dict(cell) for cell in kept.refined]
    text = amended(
        study_path.read_text(encoding="utf-8"),
        pace=given.pace,
        testbed=kind if kind != given.testbed else None,
        extended=max(before, given.extended) + wanted.extend,
        refined=refined,
    )
    study = _parsed(text, copy)
    write_text(copy, text)
    return study


def _parsed(text: str, copy: Path) -> Study:
    try:
        return parse_study(text)
    except FaultsError as error:
        raise StudyError(f"{copy}: what was added to the study cannot be run: {error}") from error


def _lock(descriptor: int, sweep: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise TestbedError(
            f"{sweep}: another weir-lab runs in this folder. Wait for it, or give another --out."
        ) from error
