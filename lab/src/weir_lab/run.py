"""A study becomes records: every scheduled run once, in order, in a folder of its own.

Read `run_study` first. Nothing is ever overwritten: a run that is already there, valid and of the same content is reused; anything else
stays, and a new folder is made beside it.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weir_lab.design import ScheduledRun, Study, cells_of, content_sha256, load_seed, load_study, schedule
from weir_lab.errors import RecordError, TestbedError
from weir_lab.machine import executable_version, file_sha256, load_average, machine_facts, package_versions
from weir_lab.records import RunMeta, SweepMeta, Verdict, read_measurements, read_runs, runs_folder, write_json
from weir_lab.testbed import Executables, make_run, shape_of
from weir_lab.testbeds import Testbed, TestbedKind, open_testbed
from weir_lab.verdict import judge

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.topology import Shape

__all__ = ["Observer", "SweepOutcome", "expected_seconds", "run_study"]

_FOLDERS_MAX = 1000
# Runs that fail one after the other fail for one reason, and the next ones would, too.
_GIVEN_UP_IN_A_ROW_MAX = 3


class Observer(Protocol):
    """Hears how a sweep goes on."""

    def planned(self, study: Study, total: int, reused: int) -> None:
        """Called once, before the first run."""

    def started(self, run: ScheduledRun, attempt: int) -> None:
        """An attempt begins."""

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        """An attempt has ended."""


@dataclass(frozen=True)
class SweepOutcome:
    """What came of a study's runs; ``given_up`` are the runs that have no valid attempt."""

    sweep: Path
    made: int
    reused: int
    given_up: list[str]


def run_study(
    study_path: Path,
    sweep: Path,
    executables: Executables,
    command: list[str],
    observer: Observer,
    kind: TestbedKind = TestbedKind.LOCAL,
    hosts: Path | None = None,
) -> SweepOutcome:
    """Make all runs of a study that are not there yet."""
    study = load_study(study_path)
    programs = _identify(executables)
    runs_folder(sweep).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        _lock(stack.enter_context((sweep / ".lock").open("w")).fileno(), sweep)
        testbed = stack.enter_context(open_testbed(kind, study.topology, _shape(study), hosts))
        hashes = {**programs, **testbed.identity()}
        there = {run.meta.content_sha256 for run in read_runs(sweep)[0] if run.meta.verdict.valid}
        _keep_study(study_path, sweep / "study.toml")
        write_json(sweep / "sweep.json", SweepMeta(executables=hashes, command=command))
        planned = schedule(study)
        missing = [run for run in planned if content_sha256(study, run, hashes) not in there]
        observer.planned(study, len(planned), len(planned) - len(missing))
        given_up: list[str] = []
        in_a_row = 0
        for run in missing:
            valid = _attempt(study, run, sweep, testbed, executables, hashes, observer)
            given_up += [] if valid else [run.name]
            in_a_row = 0 if valid else in_a_row + 1
            if in_a_row == _GIVEN_UP_IN_A_ROW_MAX:
                raise TestbedError(
                    f"{in_a_row} runs in a row have no valid attempt; the sweep stops here. Mend what the last verdicts say, "
                    "then run the same command again."
                )
    return SweepOutcome(sweep, len(missing), len(planned) - len(missing), given_up)


def expected_seconds(study: Study) -> float:
    """Rough time of one run: phases, and about a second to start, fill and stop."""
    return study.plan.warmup_s + study.plan.measured_s + 1.0


def _shape(study: Study) -> Shape:
    """Machines that every cell finds its own among."""
    return functools.reduce(
        lambda one, other: one.or_larger(other), (shape_of(cell.settings) for cell in cells_of(study))
    )


def _identify(executables: Executables) -> dict[str, str]:
    return {
        "weir": file_sha256(executables.weir),
        "memcached": executable_version([executables.memcached, "-V"]),
    }


def _keep_study(study_path: Path, copy: Path) -> None:
    if not (copy.exists() and copy.samefile(study_path)):
        shutil.copyfile(study_path, copy)


def _lock(descriptor: int, sweep: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise TestbedError(
            f"{sweep}: another weir-lab runs in this folder. Wait for it, or give another --out."
        ) from error


def _attempt(
    study: Study,
    run: ScheduledRun,
    sweep: Path,
    testbed: Testbed,
    executables: Executables,
    hashes: dict[str, str],
    observer: Observer,
) -> bool:
    """Try a run until one attempt is valid or the plan's attempts are used up."""
    for attempt in range(1, study.plan.attempts + 1):
        observer.started(run, attempt)
        folder = _new_folder(runs_folder(sweep), run.name)
        verdict = _make(study, run, attempt, folder, testbed, executables, hashes)
        observer.finished(run, verdict, folder)
        if verdict.valid:
            return True
    return False


def _make(
    study: Study,
    run: ScheduledRun,
    attempt: int,
    folder: Path,
    testbed: Testbed,
    executables: Executables,
    hashes: dict[str, str],
) -> Verdict:
    seed = load_seed(study, run)
    load_before, started = load_average(), time.time_ns()
    outcome = make_run(testbed, folder, executables, run.cell.settings, study.plan, seed)
    meta = RunMeta(
        study=study.name,
        cell=run.cell.name,
        levels=dict(run.cell.levels),
        settings=run.cell.settings,
        repetition=run.repetition,
        position=run.position,
        attempt=attempt,
        content_sha256=content_sha256(study, run, hashes),
        study_seed=study.plan.seed,
        load_seed=seed,
        commands=outcome.commands,
        executables=hashes,
        versions={
            **package_versions(),
            "weir": executable_version([str(executables.weir), "--version"]),
            "memcached": hashes["memcached"],
        },
        machine=machine_facts(),
        load_average=load_before,
        testbed=testbed.record,
        started_unix_ns=started,
        ended_unix_ns=time.time_ns(),
        verdict=Verdict(valid=False, reasons=["not judged"], flags=[]),
    )
    verdict = _judge(folder, meta, study, outcome.problems)
    write_json(folder / "run.json", meta.model_copy(update={"verdict": verdict}))
    return verdict


def _judge(folder: Path, meta: RunMeta, study: Study, problems: list[str]) -> Verdict:
    try:
        return judge(read_measurements(folder, meta), study.gates, problems)
    except RecordError as error:
        return Verdict(valid=False, reasons=[*problems, str(error)], flags=[])


def _new_folder(parent: Path, name: str) -> Path:
    """A folder that was not there: NAME, or NAME_try2 and so on."""
    for number in range(1, _FOLDERS_MAX):
        folder = parent / (name if number == 1 else f"{name}_try{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise TestbedError(f"{parent}: {name} has {_FOLDERS_MAX} folders already. Give another --out.")
