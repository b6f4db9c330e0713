"""The command line: ``weir-lab run``, ``report``, and the commands of `commands`.

Exit status: 0; 1 if something failed (the message says what); 2 for a wrong command line; 3 if the sweep ended but some runs have no valid
attempt, the budget of the study ended before it, or
an audit found broken laws; 130 when interrupted.
"""

from __future__ import annotations

import signal
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from weir_lab import __version__
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.live import Shown
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.cli.checks import audit, merge, selfcheck
from weir_lab.cli.hold_outs import hold_out
from weir_lab.cli.placements import hash_keys
from weir_lab.cli.predictions import capacity, predict
from weir_lab.cli.studies import (
    ONLY_HELP,
    PACE_HELP,
    check,
    gather,
    import_results,
    next_step,
    plan,
    sweep_name,
    tables,
)
from weir_lab.cli.testbeds import clean, links, reserve, testbeds
from weir_lab.cli.whole_studies import compare_reports, study, verify_report
from weir_lab.design import load_study
from weir_lab.errors import LabError, ReportError
from weir_lab.report.numbers.analysis import require_reportable
from weir_lab.report.numbers.essence import essence_table
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from types import FrameType

    from weir_lab.design import Study

__all__ = ["app", "extend", "main", "report", "run", "version"]

RUNS = Path("runs")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Designed experiments on memcached proxies.",
)


def main() -> NoReturn:
    """Entry point: errors that the lab knows become one message, not a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except LabError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"weir-lab: {error}", markup=False)
        sys.exit(1)
    except OSError as error:
        # A full disk, a folder without rights, or one that somebody removed under a sweep.
        told = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        remedy = "Look whether it is there, its rights and the free space; the same command goes on from here."
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"weir-lab: {told}. {remedy}", markup=False)
        sys.exit(1)
    except _InterruptedError:
        Console(stderr=True).print(
            "weir-lab: interrupted; all processes are stopped. The same command goes on from here."
        )
        sys.exit(130)
    sys.exit(0)


@app.command()
def run(
    study_path: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML); docs/lab.md lists its keys")],
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep; runs/NAME of the study by default")] = None,
    binary: Annotated[Path, typer.Option("--bin", help="The weir binary")] = Path("target/release/weir"),
    memcached: Annotated[str, typer.Option(help="The memcached program")] = "memcached",
    pace: Annotated[str | None, typer.Option(help=PACE_HELP)] = None,
    only: Annotated[str | None, typer.Option(help=ONLY_HELP)] = None,
    testbed: Annotated[
        TestbedKind | None,
        typer.Option(help="Where the roles run, whatever the study says; docs/testbeds.md tells what each needs"),
    ] = None,
    hosts: Annotated[Path | None, typer.Option(help="File that names the machines of the testbed hosts")] = None,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Record where the proxies spend their CPU time (perf); such runs stand apart"),
    ] = False,
) -> None:
    """Make all runs of a study that are not there yet."""
    study = load_study(study_path, pace)
    sweep = out or RUNS / sweep_name(study, testbed)
    wanted = Wanted(pace, only, testbed=testbed, hosts=hosts, profile=profile)
    _run(study_path, study, sweep, Executables(binary.absolute(), memcached), wanted)


@app.command()
def extend(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep")],
    repetitions: Annotated[int, typer.Argument(min=1, max=1000, metavar="N", help="Repetitions to add to every cell")],
    binary: Annotated[Path, typer.Option("--bin", help="The weir binary")] = Path("target/release/weir"),
    memcached: Annotated[str, typer.Option(help="The memcached program")] = "memcached",
    only: Annotated[str | None, typer.Option(help=ONLY_HELP)] = None,
    hosts: Annotated[Path | None, typer.Option(help="File that names the machines of the testbed hosts")] = None,
) -> None:
    """Add repetitions to a sweep, and make them."""
    study_path = folder / "study.toml"
    _run(
        study_path,
        load_study(study_path),
        folder,
        Executables(binary.absolute(), memcached),
        Wanted(None, only, repetitions, hosts=hosts),
    )


@app.command()
def report(
    folder: Annotated[str, typer.Argument(metavar="[FOLDER|latest]", help="Folder of the sweep")] = "latest",
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser")] = False,
) -> None:
    """Build the report of a sweep, and show its essence."""
    sweep = _latest() if folder == "latest" else Path(folder)
    files = build_report(sweep)
    Console(highlight=False).print(essence_table(files.analysis))
    if show:
        webbrowser.open(files.html.absolute().as_uri())
    typer.echo(files.html)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"weir-lab {__version__}")


app.command()(check)
app.command()(plan)
app.command()(gather)
app.command()(tables)
app.command("import")(import_results)
app.command()(selfcheck)
app.command()(audit)
app.command()(predict)
app.command()(capacity)
app.command()(hold_out)
app.command()(merge)
app.command("hash")(hash_keys)
app.command()(testbeds)
app.command()(reserve)
app.command()(links)
app.command()(clean)
app.command()(study)
app.command("verify")(verify_report)
app.command("compare")(compare_reports)


def _run(study_path: Path, study: Study, sweep: Path, executables: Executables, wanted: Wanted) -> None:
    console = Console(highlight=False)
    _say_if_not_reportable(study, console)
    shown = Shown(console)
    try:
        with shown.watching():
            outcome = run_study(study_path, sweep, executables, sys.argv, shown, wanted)
    except KeyboardInterrupt:
        raise _InterruptedError from None
    for cell in outcome.not_converged:
        console.print(f"NOT CONVERGED: {cell} has all its runs, and its interval is wider than the stop rule asks for.")
    if outcome.given_up:
        names = ", ".join(outcome.given_up)
        console.print(
            f"No valid attempt of {names}. Look at the verdicts in {sweep}/runs/*/run.json; run again to retry."
        )
        raise typer.Exit(3)
    if outcome.out_of_budget:
        console.print("The budget of the study (plan.budget_s) is used up; the same command goes on from here.")
        raise typer.Exit(3)
    console.print(f"{outcome.made} runs made, {outcome.reused} reused. {next_step(study, sweep)}", soft_wrap=True)


def _say_if_not_reportable(study: Study, console: Console) -> None:
    try:
        require_reportable(study)
    except ReportError as error:
        console.print(f"note: {error} The tables of the sweep (*.csv) show any study.", markup=False, soft_wrap=True)


def _latest() -> Path:
    sweeps = sorted(RUNS.glob("*/sweep.json"), key=lambda path: path.stat().st_mtime)
    if not sweeps:
        raise LabError(f"{RUNS}/: no sweep here. Make one with `weir-lab run studies/demo.toml`, or name its folder.")
    return sweeps[-1].parent


class _InterruptedError(Exception):
    """A signal asked to stop. Not `KeyboardInterrupt`, which typer would answer itself."""


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
