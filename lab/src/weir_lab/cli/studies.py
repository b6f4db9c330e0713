"""Commands on study files and sweeps: ``weir-lab new``, ``check``, ``plan``, ``gather`` and ``tables``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_lab.bench.planning import chosen_testbed, doubts, duration_text, estimate, missing_here, plan_lines
from weir_lab.bench.programs.identity import identify_programs
from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_study, find_weir
from weir_lab.bench.programs.subjects import abilities_of
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.design import Kind, content_sha256, load_study, scheduled_like, study_schema
from weir_lab.design.files.skeletons import SkeletonKind, skeleton, study_name
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import read_run_metas, read_sweep, write_text
from weir_lab.records.importers import read_results, rows_of
from weir_lab.records.sharing.gathering import gather_runs
from weir_lab.records.tables.frames import write_parquet
from weir_lab.records.tables.summary import csv_text, write_tables
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from weir_lab.design import Study

__all__ = [
    "ONLY_HELP",
    "PACE_HELP",
    "check",
    "gather",
    "import_results",
    "new",
    "next_step",
    "plan",
    "sweep_name",
    "tables",
]

PACE_HELP = (
    "How much is run: quick (minutes, for a first look), standard (until intervals are narrow), full (as the earlier study ran it) or "
    "night (runs where they tell most); the file's own choice by default"
)
ONLY_HELP = "Make only these cells: a pattern of their names such as '*-S5-*', or a condition such as 'servers == 5'"
_SHOWN_CELLS = 40


def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="The study file to write; it must not be there yet")
    ],
    of: Annotated[
        SkeletonKind, typer.Option("--of", help="What is studied; running is whatever --target names")
    ] = SkeletonKind.WEIR,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="HOST:PORT", help="Measure what runs there already. Repeat it for several"),
    ] = None,
) -> None:
    """Write a commented study file that runs as it is."""
    kind = SkeletonKind.RUNNING if targets else of
    text = skeleton(kind, study_name(file.stem), str(file), targets or ["127.0.0.1:11211"])
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except FileExistsError as error:
        raise StudyError(f"{file} is there already. Give another name, or remove it.") from error
    try:
        effort = estimate(load_study(file))
    except StudyError:
        file.unlink()
        raise
    runs, length = count_text(effort.runs_min, "run"), duration_text(effort.seconds_min)
    typer.echo(f"{file} written: {count_text(effort.cells, 'cell')}, {runs}, about {length}. Next: weir-lab run {file}")


def check(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[STUDY.toml...]", help="Study files")] = None,
    binary: Annotated[
        Path | None, typer.Option("--bin", help="The weir binary, asked what it can do", show_default=WEIR_DEFAULT)
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of study files instead, for an editor that completes them"
        ),
    ] = False,
) -> None:
    """Say what is wrong with study files, by line, and what may not be meant. Status 1 if one cannot be run."""
    if schema:
        typer.echo(json.dumps(study_schema(), indent=1))
        return
    if not files:
        raise StudyError("Name a study file, such as studies/demo.toml, or --schema.")
    faulty = 0
    for file in map(find_study, files):
        try:
            study = load_study(file)
        except StudyError as error:
            faulty += 1
            typer.echo(str(error))
            continue
        effort = estimate(study)
        runs = count_text(effort.runs_min, "run")
        typer.echo(
            f"{file}: sound; {count_text(effort.cells, 'cell')}, {runs} or more, {duration_text(effort.seconds_min)} or more"
        )
        for doubt in doubts(study):
            typer.echo(f"  doubt: {doubt}")
        for reason in _missing(study, find_weir(binary)):
            typer.echo(f"  cannot run here: {reason}")
    if faulty:
        raise typer.Exit(1)


def plan(
    study_path: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML)")],
    pace: Annotated[str | None, typer.Option(help=PACE_HELP)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of a sweep, to count what is there; runs/NAME by default")
    ] = None,
    binary: Annotated[
        Path | None, typer.Option("--bin", help="The weir binary, asked what it can do", show_default=WEIR_DEFAULT)
    ] = None,
    testbed: Annotated[TestbedKind | None, typer.Option(help="Where it is to run, whatever the study says")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every cell, and not only the first 40")] = False,
) -> None:
    """Show cells, time and order of a study before anything runs."""
    study, weir = load_study(find_study(study_path), pace), find_weir(binary)
    sweep = out or Path("runs") / sweep_name(study, testbed)
    shown = None if everything else _SHOWN_CELLS
    lines = plan_lines(study, _missing(study, weir, testbed), _reused(study, sweep, weir), shown, testbed)
    for line in lines:
        typer.echo(line)


def gather(
    sweep: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep")],
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="Sweeps of the same study, made elsewhere")],
) -> None:
    """Copy the runs of other sweeps of the same study into this one, where it has none of that content."""
    taken = gather_runs(sweep, others)
    tables(sweep)
    typer.echo(f"{count_text(len(taken), 'run')} copied into {sweep}")


def import_results(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Outputs of memtier_benchmark (text, JSON) or memaslap")
    ],
    out: Annotated[Path | None, typer.Option(help="Write this CSV file instead of standard output")] = None,
) -> None:
    """Read results of other load generators into rows like those of our tables. Status 3 if a run is unusable."""
    runs = [run for file in files for run in read_results(file)]
    text = csv_text([row for run in runs for row in rows_of(run)])
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
    for run in runs:
        for doubt in run.doubts:
            typer.echo(f"doubt: {run.name}: {doubt}", err=True)
        for fault in run.faults:
            typer.echo(f"unusable: {run.name}: {fault}", err=True)
    if any(run.faults for run in runs):
        raise typer.Exit(3)


def tables(
    sweep: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep")],
    parquet: Annotated[
        bool,
        typer.Option(
            "--parquet", help="Write runs.parquet, too: the columns of runs.csv with their types, for pandas and others"
        ),
    ] = False,
) -> None:
    """Write summary.csv, runs.csv, windows.csv and log2.csv of a sweep anew from its runs."""
    write_tables(sweep, load_study(sweep / "study.toml"), read_sweep(sweep).executables)
    if parquet:
        typer.echo(write_parquet(sweep))


def sweep_name(study: Study, testbed: TestbedKind | None) -> str:
    """Name of the folder of a study's runs on a testbed."""
    kind = chosen_testbed(study, testbed)
    return study.name if kind is TestbedKind.LOCAL else f"{study.name}-{kind}"


def next_step(study: Study, sweep: Path, *, paged: bool = False) -> str:
    """Where the tables of a sweep with all its runs are, and what can be done with it; ``paged``: its page is made already."""
    tables_at, then = f"Tables: {sweep}/summary.csv", "" if paged else f" Next: weir-lab report {sweep}."
    if study.find is not None:
        return f"Tables: {sweep}/find.csv has the capacity of each cell, {sweep}/runs.csv every run.{then}"
    if study.kind is Kind.HASH:
        more = f"For more keys: weir-lab extend {sweep} N."
        return f"{tables_at} has the distance to uniform and the verdict of each cell.{then} {more}"
    if study.kind is Kind.LINKS:
        more = f"To load the links: weir-lab links FOLDER --study {sweep}/study.toml."
        return f"{tables_at} has rate and round trip of each pair.{then} {more}"
    return f"{tables_at}.{then}"


def _missing(study: Study, binary: Path, testbed: TestbedKind | None = None) -> list[str]:
    kind = chosen_testbed(study, testbed)
    if not study.kind.runs_load:
        return missing_here(study, None, kind)
    try:
        abilities = abilities_of(binary)
    except TestbedError as error:
        return [str(error), *missing_here(study, None, kind)]
    return missing_here(study, abilities, kind)


def _reused(study: Study, sweep: Path, binary: Path) -> int | None:
    """Valid runs of the sweep that the study would not make again with the programs of now; None without a sweep."""
    try:
        executables = read_sweep(sweep).executables
    except RecordError:
        return None
    try:
        now = identify_programs(study, binary, "memcached")
    except TestbedError:  # not built yet, or not here
        now = {}
    executables |= {name: state for name, state in now.items() if name != "memcached"}
    made = [meta for _, meta in read_run_metas(sweep) if meta.verdict.valid]
    there = {meta.content_sha256 for meta in made}
    return sum(content_sha256(study, run, executables) in there for run in scheduled_like(study, made))
