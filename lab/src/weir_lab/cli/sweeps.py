"""Commands on one sweep: ``weir-lab run``, ``extend`` and ``report``."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir_lab.bench.planning import subject_doubts
from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_study, find_weir
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.live import Shown
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.cli.studies import (
    ONLY_HELP,
    PACE_HELP,
    next_step,
    sweep_name,
)
from weir_lab.design import load_study
from weir_lab.errors import LabError, StoppedError, TestbedError
from weir_lab.report.numbers.essence import essence_table
from weir_lab.report.page.terminal import show_answer, show_end
from weir_lab.report.single.report import ReportFiles, build_report
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from weir_lab.design import Study

__all__ = ["extend", "report", "run"]

RUNS = Path("runs")


def run(
    study_path: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY",
            help="Study file (TOML); docs/measure/study-file.md lists its keys. demo is one that comes along",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the runs; runs/NAME of the study by default. Give another to keep two sweeps of one study"
        ),
    ] = None,
    binary: Annotated[
        Path | None,
        typer.Option("--bin", help="The weir binary. Give another to measure another build", show_default=WEIR_DEFAULT),
    ] = None,
    memcached: Annotated[
        str, typer.Option(help="The memcached program. Give a path to measure another version")
    ] = "memcached",
    pace: Annotated[str | None, typer.Option(help=PACE_HELP)] = None,
    only: Annotated[str | None, typer.Option(help=ONLY_HELP)] = None,
    testbed: Annotated[
        TestbedKind | None,
        typer.Option(
            help="Where the roles run, whatever the study says: netns where links or cores matter (docs/measure/testbeds.md)"
        ),
    ] = None,
    hosts: Annotated[
        Path | None, typer.Option(help="File that names the machines. Needed for the testbed hosts")
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Record where the proxies spend their CPU time (perf). Such runs are kept separate: perf slows what it measures",
        ),
    ] = False,
) -> None:
    """Make all runs of a study that are not there yet, and the page of the answer."""
    study_path = find_study(study_path)
    study = load_study(study_path, pace)
    sweep = out or RUNS / sweep_name(study, testbed)
    wanted = Wanted(pace, only, testbed=testbed, hosts=hosts, profile=profile)
    _run(study_path, study, sweep, Executables(find_weir(binary).absolute(), memcached), wanted)


def extend(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep")],
    repetitions: Annotated[
        int,
        typer.Argument(
            min=1, max=1000, metavar="N", help="Repetitions to add to every cell, when intervals are too wide"
        ),
    ],
    binary: Annotated[
        Path | None,
        typer.Option("--bin", help="The weir binary. Give another to measure another build", show_default=WEIR_DEFAULT),
    ] = None,
    memcached: Annotated[
        str, typer.Option(help="The memcached program. Give a path to measure another version")
    ] = "memcached",
    only: Annotated[str | None, typer.Option(help=ONLY_HELP)] = None,
    hosts: Annotated[
        Path | None, typer.Option(help="File that names the machines. Needed for the testbed hosts")
    ] = None,
) -> None:
    """Add repetitions to a sweep, make them, and make the page anew."""
    study_path = folder / "study.toml"
    _run(
        study_path,
        load_study(study_path),
        folder,
        Executables(find_weir(binary).absolute(), memcached),
        Wanted(None, only, repetitions, hosts=hosts),
    )


def report(
    folder: Annotated[str, typer.Argument(metavar="[FOLDER|latest]", help="Folder of the sweep")] = "latest",
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser")] = False,
) -> None:
    """Build the report of a sweep, and show its answer."""
    sweep = _latest() if folder == "latest" else Path(folder)
    files, console = build_report(sweep), Console(highlight=False)
    show_answer(console, [files.answer], files.limits)
    if files.analysis is not None:
        console.print(essence_table(files.analysis))
    if show:
        webbrowser.open(files.html.absolute().as_uri())
    typer.echo(files.html)


def _run(study_path: Path, study: Study, sweep: Path, executables: Executables, wanted: Wanted) -> None:
    console = Console(highlight=False)
    for doubt in subject_doubts(study):
        console.print(f"doubt: {doubt}", markup=False, soft_wrap=True)
    shown = Shown(console)
    try:
        with shown.watching():
            outcome = run_study(study_path, sweep, executables, sys.argv, shown, wanted)
        built = None if outcome.given_up or outcome.out_of_budget else _built(sweep)
    except KeyboardInterrupt:
        raise StoppedError from None
    except TestbedError as error:
        if wanted.extend:
            raise TestbedError(f"{error} `{_without_more(sweep)}` makes what is missing and adds nothing.") from error
        raise
    if not isinstance(built, ReportFiles):
        for answer in outcome.answers:
            console.print(answer, markup=False, soft_wrap=True)
    for cell in outcome.not_converged if not outcome.answers else ():
        console.print(f"NOT CONVERGED: {cell} has all its runs, and its interval is wider than the stop rule asks for.")
    if outcome.held_back:
        console.print(
            f"Nothing was added: {count_text(outcome.held_back, 'run')} that this sweep was to have before came first. Give the same "
            f"command again to add {count_text(wanted.extend, 'repetition')}.",
            markup=False,
            soft_wrap=True,
        )
    if outcome.given_up:
        names = ", ".join(outcome.given_up)
        again = f"`{_without_more(sweep)}`" if wanted.extend else "the same command"
        console.print(
            f"No valid attempt of {names}. The verdicts above say why; {again} tries them again. The page of what is there: "
            f"weir-lab report {sweep}",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(3)
    if outcome.out_of_budget:
        console.print("The budget of the study (plan.budget_s) is used up; the same command goes on from here.")
        raise typer.Exit(3)
    step = next_step(study, sweep, paged=isinstance(built, ReportFiles))
    console.print(f"{outcome.made} runs made, {outcome.reused} reused. {step}", markup=False, soft_wrap=True)
    if isinstance(built, ReportFiles):
        show_end(console, [built.answer], built.limits, built.html)
    elif built is not None:
        console.print(f"No page yet: {built}", markup=False, soft_wrap=True)


def _without_more(sweep: Path) -> str:
    """The command that makes what is missing of a sweep and adds nothing, as `extend` would again once all runs were tried."""
    return f"weir-lab run {sweep / 'study.toml'} --out {sweep}"


def _built(sweep: Path) -> ReportFiles | LabError:
    """The page, or why there cannot be one yet: some cells may not have enough runs."""
    try:
        return build_report(sweep)
    except LabError as error:
        return error


def _latest() -> Path:
    sweeps = sorted(RUNS.glob("*/sweep.json"), key=lambda path: path.stat().st_mtime)
    if not sweeps:
        raise LabError(f"{RUNS}/: no sweep here. Make one with `weir-lab run studies/demo.toml`, or name its folder.")
    return sweeps[-1].parent
