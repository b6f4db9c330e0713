"""The command line: ``weir-lab run``, ``report``, and the commands of `commands`.

Exit status: 0; 1 if something failed (the message says what); 2 for a wrong command line; 3 if the sweep ended but some runs have no valid
attempt, or an audit found broken laws; 130 when interrupted.
"""

from __future__ import annotations

import signal
import sys
import webbrowser
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from weir_lab import __version__
from weir_lab.analysis import require_reportable
from weir_lab.commands import audit, capacity, merge, predict, selfcheck
from weir_lab.commands_hash import hash_keys
from weir_lab.design import load_study
from weir_lab.errors import LabError
from weir_lab.essence import essence_table
from weir_lab.report import build_report
from weir_lab.run import expected_seconds, run_study
from weir_lab.testbed import Executables
from weir_lab.testbed_commands import clean, links, testbeds
from weir_lab.testbeds import TestbedKind

if TYPE_CHECKING:
    from types import FrameType

    from weir_lab.design import ScheduledRun, Study
    from weir_lab.records import Verdict

__all__ = ["app", "main", "report", "run", "version"]

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
    testbed: Annotated[
        TestbedKind, typer.Option(help="Where the roles run; docs/testbeds.md tells what each needs")
    ] = TestbedKind.LOCAL,
    hosts: Annotated[Path | None, typer.Option(help="File that names the machines of the testbed hosts")] = None,
) -> None:
    """Make all runs of a study that are not there yet."""
    study = load_study(study_path)
    require_reportable(study)
    sweep = out or RUNS / (study.name if testbed is TestbedKind.LOCAL else f"{study.name}-{testbed}")
    console = Console(highlight=False)
    try:
        with _progress(console) as progress:
            observer = _Shown(console, progress)
            programs = Executables(binary.absolute(), memcached)
            outcome = run_study(study_path, sweep, programs, sys.argv, observer, testbed, hosts)
    except KeyboardInterrupt:
        raise _InterruptedError from None
    if outcome.given_up:
        names = ", ".join(outcome.given_up)
        console.print(
            f"No valid attempt of {names}. Look at the verdicts in {sweep}/runs/*/run.json; run again to retry."
        )
        raise typer.Exit(3)
    console.print(f"{outcome.made} runs made, {outcome.reused} reused. Next: weir-lab report {sweep}")


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


app.command()(selfcheck)
app.command()(audit)
app.command()(predict)
app.command()(capacity)
app.command()(merge)
app.command("hash")(hash_keys)
app.command()(testbeds)
app.command()(links)
app.command()(clean)


def _latest() -> Path:
    sweeps = sorted(RUNS.glob("*/sweep.json"), key=lambda path: path.stat().st_mtime)
    if not sweeps:
        raise LabError(f"{RUNS}/: no sweep here. Make one with `weir-lab run studies/demo.toml`, or name its folder.")
    return sweeps[-1].parent


def _progress(console: Console) -> Progress | AbstractContextManager[None]:
    """A bar on a terminal, nothing elsewhere."""
    if not console.is_terminal:
        return nullcontext()
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    return Progress(*columns, console=console)


class _Shown:
    """Shows a sweep: a bar with the time left on a terminal, one plain line per attempt everywhere."""

    def __init__(self, console: Console, progress: Progress | None) -> None:
        self._console = console
        self._progress = progress
        self._task: TaskID | None = None
        self._left = self._total = self._done = 0
        self._seconds = 0.0

    def planned(self, study: Study, total: int, reused: int) -> None:
        self._total, self._done, self._seconds = total, reused, expected_seconds(study)
        self._console.print(
            f"{study.name}: {total} runs planned, {reused} already there, about {self._remaining_text()} to go"
        )
        if self._progress is not None:
            self._task = self._progress.add_task(
                "", total=total, completed=reused, left=self._remaining_text() + " left"
            )

    def started(self, run: ScheduledRun, attempt: int) -> None:
        if self._progress is not None and self._task is not None:
            again = f", attempt {attempt}" if attempt > 1 else ""
            self._progress.update(self._task, left=f"{self._remaining_text()} left  {run.name}{again}")

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        self._done += verdict.valid
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self._done, left=f"{self._remaining_text()} left")
        if not verdict.valid:
            self._say(run, f"invalid: {'; '.join(verdict.reasons)} ({folder})")
        elif self._progress is None or verdict.flags:
            self._say(run, "valid" + (f"; flagged: {'; '.join(verdict.flags)}" if verdict.flags else ""))

    def _say(self, run: ScheduledRun, text: str) -> None:
        self._console.print(f"{run.position:>4}/{self._total} {run.name}: {text}", markup=False, soft_wrap=True)

    def _remaining_text(self) -> str:
        seconds = round((self._total - self._done) * self._seconds)
        return f"{seconds // 60}:{seconds % 60:02d} min"


class _InterruptedError(Exception):
    """A signal asked to stop. Not `KeyboardInterrupt`, which typer would answer itself."""


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
