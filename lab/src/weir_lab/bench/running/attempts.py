"""One attempt at a run: its measurements, its verdict, and its record. Start with `make_attempt`.

What is measured depends on the study's kind: load on the machines of a testbed, keys per server, or links.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.machine.facts import commit_of, executable_version, load_average, machine_facts, package_versions
from weir_lab.bench.planning import shape_of
from weir_lab.bench.programs.generators import MEMCASLAP
from weir_lab.bench.programs.subjects import NUTCRACKER
from weir_lab.bench.running.one_run import Job, RunOutcome, make_run
from weir_lab.bench.running.starting import Executables
from weir_lab.bench.running.unloaded import count_keys, judge_unloaded, measure_links
from weir_lab.bench.running.verdict import judge
from weir_lab.bench.testbeds import Testbed
from weir_lab.design import Kind, ScheduledRun, Study, content_sha256, load_seed
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import RunMeta, Verdict, read_measurements, write_json
from weir_lab.records.windows import NO_CUT, Cut, find_cut

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.bench.programs.subjects import Abilities

__all__ = ["Bench", "make_attempt", "new_folder"]

_FOLDERS_MAX = 1000


@dataclass(frozen=True)
class Bench:
    """What runs are made with; ``identity`` is what of it decides their outcome."""

    testbed: Testbed
    executables: Executables
    identity: dict[str, str]
    abilities: Abilities | None
    profile: bool
    usual_ns: float | None = None
    """The yardstick's median over the last attempts of this study; ``None`` while too few are there to say."""


def make_attempt(
    study: Study,
    run: ScheduledRun,
    attempt: int,
    folder: Path,
    bench: Bench,
) -> RunMeta:
    """Make one attempt at a run in a folder that is there, judge it, and write its record."""
    hashes, executables = bench.identity, bench.executables
    seed = load_seed(study, run)
    load_before, started = load_average(), time.time_ns()
    outcome = _outcome(study, run, seed, folder, bench)
    version = executable_version([str(executables.weir), "--version"])
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
        measured_s=run.measured_s,
        targets=study.targets,
        commands=outcome.commands,
        executables=hashes,
        versions={
            **package_versions(),
            "commit": commit_of(executables.weir, version),
            "weir": version,
            "memcached": hashes["memcached"],
            **{name: hashes[name] for name in (NUTCRACKER, MEMCASLAP) if name in hashes},
        },
        machine=machine_facts(),
        load_average=load_before,
        testbed=bench.testbed.record,
        started_unix_ns=started,
        ended_unix_ns=time.time_ns(),
        verdict=Verdict(valid=False, reasons=["not judged"], flags=[]),
    )
    verdict, cut = _judge(folder, meta, study, outcome.problems, bench.usual_ns)
    judged = meta.model_copy(update={"verdict": verdict, "cut_windows": cut.windows})
    write_json(folder / "run.json", judged)
    return judged


def _outcome(study: Study, run: ScheduledRun, seed: int, folder: Path, bench: Bench) -> RunOutcome:
    """Do what a run of the study's kind is."""
    settings = run.cell.settings
    if study.kind is Kind.HASH:
        return RunOutcome([], count_keys(folder, bench.executables.weir, settings, seed))
    if study.kind is Kind.LINKS:
        return RunOutcome([], measure_links(folder, bench.testbed, shape_of([run.cell]), study.plan))
    plan = study.plan
    job = Job(
        settings,
        plan if run.measured_s is None else plan.model_copy(update={"measured_s": run.measured_s}),
        seed,
        targets=tuple(study.targets),
        subject=study.subjects.get(settings.subject),
        abilities=bench.abilities,
        profile=bench.profile,
    )
    return make_run(bench.testbed, folder, bench.executables, job)


def _judge(
    folder: Path, meta: RunMeta, study: Study, problems: list[str], usual_ns: float | None
) -> tuple[Verdict, Cut]:
    """The verdict of the gates, and of the search for a steady state where the study asks for it."""
    if not study.kind.runs_load:
        return judge_unloaded(folder, study.kind, problems), NO_CUT
    try:
        measured = read_measurements(folder, meta)
        verdict = judge(measured, study.gates, problems, usual_ns)
        found = find_cut(measured.load) if measured.load is not None else NO_CUT
    except RecordError as error:
        return Verdict(valid=False, reasons=[*problems, str(error)], flags=[]), NO_CUT
    if study.plan.cut != "mser-5":
        # A trace is looked at whole, and whoever looks should know what a rule would say.
        doubts = _steadiness(found) if study.kind is Kind.TRACE and verdict.valid else []
        return verdict.model_copy(update={"flags": [*verdict.flags, *doubts]}), NO_CUT
    if not found.stationary:
        reason = "no steady state: MSER-5 cuts as much as it may; make plan.measured_s or plan.warmup_s longer"
        return Verdict(valid=False, reasons=[*verdict.reasons, reason], flags=verdict.flags), found
    cut = [f"the first {found.windows} s are left out (MSER-5)"] if found.windows else []
    return verdict.model_copy(update={"flags": [*verdict.flags, *cut]}), found


def _steadiness(found: Cut) -> list[str]:
    if not found.stationary:
        return ["not steady: MSER-5 would leave out half of it, which is as much as it may"]
    return [f"MSER-5 would leave out the first {found.windows} s, and nothing is left out"] if found.windows else []


def new_folder(parent: Path, name: str) -> Path:
    """A folder that was not there: NAME, or NAME-try2 and so on."""
    for number in range(1, _FOLDERS_MAX):
        folder = parent / (name if number == 1 else f"{name}-try{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise TestbedError(f"{parent}: {name} has {_FOLDERS_MAX} folders already. Give another --out.")
