"""A study becomes records: every run that its cells still need, in order, in a folder of its own.

Read `run_study` first. Nothing is ever overwritten: a run that is already there, valid and of the same content is reused; anything else
stays, and a new folder is made beside it. What a run is, and when it is the same, `design` says; when a cell has enough, `progress`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.bench.planning import chosen_testbed, machines_of, missing_here
from weir_lab.bench.programs.identity import identify_programs
from weir_lab.bench.programs.subjects import WEIR, abilities_of, asks_for_more
from weir_lab.bench.running import Executables, missing_profiler, target_versions
from weir_lab.bench.running.attempts import Bench
from weir_lab.bench.sweep.at_work import (
    Observer,
    SweepAtWork,
    SweepOutcome,
    cells_asked,
    parsed,
    require_selected,
    selects,
)
from weir_lab.bench.sweep.finding import find_capacities
from weir_lab.bench.sweep.locks import locked
from weir_lab.bench.sweep.night import Clock, run_one_night
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design import (
    RequestPath,
    Study,
    amended,
    cells_of,
    load_study,
)
from weir_lab.errors import StudyError, TestbedError
from weir_lab.records import (
    SweepMeta,
    runs_folder,
    write_json,
    write_text,
)
from weir_lab.records.tables.summary import write_tables
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from weir_lab.bench.programs.subjects import Abilities
    from weir_lab.records.tables.found import Finding

__all__ = ["Observer", "SweepOutcome", "Wanted", "opened", "run_study", "selects"]


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for beside the study: a pace, a part of the cells, more repetitions, another testbed, its machines."""

    pace: str | None = None
    only: str | None = None
    extend: int = 0
    testbed: TestbedKind | None = None
    hosts: Path | None = None
    profile: bool = False
    lane: int = 0
    """Which of several labs on one large machine this is, from 1: it has blocks of its own (`SweepAtWork`); 0 for the only one."""
    any_processor: bool = False
    """Whether a night goes on where runs of another kind of processor are there."""


def run_study(
    study_path: Path,
    sweep: Path,
    executables: Executables,
    command: list[str],
    observer: Observer,
    wanted: Wanted | None = None,
) -> SweepOutcome:
    """Make all runs of a study that are not there yet."""
    wanted, held_back = wanted or Wanted(), 0
    given = load_study(study_path, wanted.pace)
    if wanted.extend:
        _require_repetitions(given)
    if wanted.only is not None:
        require_selected(wanted.only, cells_asked(given, sweep))
    with opened(study_path, sweep, executables, command, wanted) as (study, bench):
        if study.find is not None:
            return _found(study, sweep, bench, observer, wanted)
        made = SweepAtWork(study, sweep, bench.identity, observer, wanted.only)
        if wanted.extend:
            held_back = made.untried()
            if not held_back:
                study = _extended(study, sweep, wanted.extend)
                made = SweepAtWork(study, sweep, bench.identity, observer, wanted.only)
        made.bench = bench
        try:
            if study.plan.night is not None:
                budget_s = study.plan.budget_s
                run_one_night(made, Clock(None if budget_s is None else time.monotonic() + budget_s))
            else:
                made.run_all()
        finally:
            write_tables(sweep, made.study, bench.identity)
    return replace(made.outcome(), held_back=held_back)


@contextmanager
def opened(
    study_path: Path, sweep: Path, executables: Executables, command: list[str], wanted: Wanted
) -> Iterator[tuple[Study, Bench]]:
    """A sweep's folder locked, its study kept in it, and its testbed open."""
    given = load_study(study_path, wanted.pace)
    kind = chosen_testbed(given, wanted.testbed)
    abilities = _abilities(given, executables, wanted, kind)
    programs = identify_programs(given, executables.weir, executables.memcached)
    programs |= {"profile": "perf"} if wanted.profile else {}
    # Hosts may reach what this machine does not.
    programs |= target_versions(given.targets) if kind is not TestbedKind.HOSTS else {}
    runs_folder(sweep).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(locked(sweep))
        for left in sweep.glob("*.part"):
            left.unlink()  # a write that was cut short
        study = _adopt(study_path, sweep / "study.toml", wanted, kind)
        testbed = stack.enter_context(open_testbed(kind, study.topology, machines_of(study), wanted.hosts))
        hashes = {**programs, **testbed.identity()}
        if kind is TestbedKind.HOSTS:
            hashes |= target_versions(study.targets, testbed.version_of)
        write_json(sweep / "sweep.json", SweepMeta(executables=hashes, command=command))
        yield study, Bench(testbed, executables, hashes, abilities, wanted.profile)


def _require_repetitions(study: Study) -> None:
    """Refuse to add repetitions where none are counted: nothing would be made, and the study beside the runs would say otherwise."""
    if study.find is not None:
        raise StudyError(
            f"{study.name} looks for a rate, and a search has no repetitions. For a narrower interval raise search.runs_max in its study "
            "file and give `weir-lab run` again (docs/measure/find.md)."
        )
    if study.plan.night is not None:
        raise StudyError(
            f"{study.name} was made at the pace night, where each cell gets the runs that its aim takes. Make the aims in [plan.night] "
            "narrower and give the command of the night again (docs/measure/nights.md), or run another pace."
        )


def _extended(study: Study, sweep: Path, repetitions: int) -> Study:
    """The study with repetitions more, kept beside its runs before any of them is made."""
    copy = sweep / "study.toml"
    text = amended(copy.read_text(encoding="utf-8"), extended=study.extended + repetitions)
    added = parsed(text, copy)
    write_text(copy, text)
    return added


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
        tuple(one.sentence() + _unmeasured(one) for one in found.findings),
    )


def _unmeasured(finding: Finding) -> str:
    """A rate counts as missed, too, where nothing was measured: whoever reads the answer should know."""
    count = sum(probe.folder is None for probe in finding.probes)
    counts = "counts" if count == 1 else "count"
    return f"; {count_text(count, 'run')} without a valid attempt {counts} as missed" if count else ""


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
    """Keep the study beside its runs as it is run now: at its pace, with what was added to it before."""
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
        extended=max(before, given.extended),
        refined=refined,
    )
    study = parsed(text, copy)
    write_text(copy, text)
    return study
