"""The command line: which module has which command, and what becomes of errors.

A module is imported when one of its commands is asked for, or all of them for `--help`: numpy, scipy and what stands on them take more than
a second, and `weir-lab version` needs none of it.

Exit status: 0; 1 if something failed (the message says what); 2 for a wrong command line. It is 3 if the sweep
ended but some runs have no valid attempt, or the budget of the study ended before it. It is 3 also if an audit
found broken laws, or B is slower than A. It is 4 if `ab` cannot tell; 130 when interrupted.
"""

from __future__ import annotations

import importlib
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from weir_lab import __version__
from weir_lab.errors import LabError, StoppedError

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["COMMANDS", "Commands", "Listed", "app", "main", "options", "version"]


@dataclass(frozen=True)
class Listed:
    """A command: where it is, and how the help shows it."""

    module: str
    function: str
    heading: str
    example: str


_STUDIES = "Studies"
_MEASUREMENTS = "Other measurements"
_MODELS = "Models"
_WHOLE = "Whole studies and their reports"
_TESTBEDS = "Testbeds"
_PROGRAM = "This program"

# Each command with its module in this package, its function there, the heading under which `--help` lists it, and an example.
# `--help` shows them in this order.
COMMANDS = {
    "new": Listed("studies", "new", _STUDIES, "new mine.toml --target 127.0.0.1:11211"),
    "check": Listed("studies", "check", _STUDIES, "check mine.toml"),
    "plan": Listed("studies", "plan", _STUDIES, "plan mine.toml --pace quick"),
    "run": Listed("sweeps", "run", _STUDIES, "run mine.toml --pace quick"),
    "extend": Listed("sweeps", "extend", _STUDIES, "extend runs/mine 3"),
    "report": Listed("sweeps", "report", _STUDIES, "report runs/mine --open"),
    "changes": Listed("cells", "changes", _STUDIES, "changes runs/mine --same-within 5"),
    "precision": Listed("cells", "precision", _STUDIES, "precision runs/mine --within 5"),
    "tables": Listed("studies", "tables", _STUDIES, "tables runs/mine"),
    "gather": Listed("studies", "gather", _STUDIES, "gather runs/mine elsewhere/mine"),
    "ab": Listed("ab", "ab", _MEASUREMENTS, "ab direct weir"),
    "merge": Listed("checks", "merge", _MEASUREMENTS, "merge one.json two.json"),
    "import": Listed("studies", "import_results", _MEASUREMENTS, "import memtier.json --out rows.csv"),
    "audit": Listed("checks", "audit", _MEASUREMENTS, "audit runs/mine/summary.csv"),
    "predict": Listed("models.predictions", "predict", _MODELS, "predict --tier memcached:5us --clients 1,16,64"),
    "capacity": Listed("models.predictions", "capacity", _MODELS, "capacity --tier memcached:5us --rate 1e6 --p99 2ms"),
    "hold-out": Listed("models.hold_outs", "hold_out", _MODELS, "hold-out runs/mine"),
    "hash": Listed("models.placements", "hash_keys", _MODELS, "hash --placement ring --servers 2-10"),
    "study": Listed("whole_studies", "study", _WHOLE, "study s5 --pace quick --list"),
    "keep": Listed("whole_studies", "keep_records", _WHOLE, "keep runs/s5-quick-local"),
    "unpack": Listed("whole_studies", "unpack_records", _WHOLE, "unpack records/s5-night-netns"),
    "verify": Listed("whole_studies", "verify_report", _WHOLE, "verify runs/s5-quick-local/s5.html"),
    "compare": Listed("whole_studies", "compare_reports", _WHOLE, "compare old/s5.json new/s5.json"),
    "index": Listed("whole_studies", "index_reports", _WHOLE, "index runs/s1-night-netns runs/s4-night-netns"),
    "pair": Listed("whole_studies", "pair_reports", _WHOLE, "pair runs/s1-night-netns runs/s4-night-netns"),
    "selfcheck": Listed("checks", "selfcheck", _WHOLE, "selfcheck"),
    "testbeds": Listed("testbeds", "testbeds", _TESTBEDS, "testbeds"),
    "links": Listed("testbeds", "links", _TESTBEDS, "links runs/links"),
    "speed": Listed("speeds", "speed", _TESTBEDS, "speed runs/mine --throughput 22000"),
    "reserve": Listed("testbeds", "reserve", _TESTBEDS, "reserve lab.toml --out hosts.toml"),
    "clean": Listed("testbeds", "clean", _TESTBEDS, "clean"),
    "version": Listed("commands", "version", _PROGRAM, "version"),
}


class Commands(TyperGroup):
    """The group of all commands; each is made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the library's signature
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the library's signature
        """The command of a name, made of the function in its module; nothing if there is no such name."""
        if cmd_name not in COMMANDS:
            return None
        listed = COMMANDS[cmd_name]
        function = getattr(importlib.import_module(f"weir_lab.cli.{listed.module}"), listed.function)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        example = f"Example: weir-lab {listed.example}"
        alone.command(cmd_name, rich_help_panel=listed.heading, epilog=example)(function)
        return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Designed experiments on memcached proxies.",
    epilog="\n".join(
        [
            "Examples, one for each command:",
            *(f"weir-lab {it.example}" for it in COMMANDS.values()),
            "",
            "weir-lab COMMAND --help explains the options of a command.",
        ]
    ),
)


@app.callback()
def options() -> None:
    """Designed experiments on memcached proxies."""


def version() -> None:
    """Print the version."""
    typer.echo(f"weir-lab {__version__}")


def main() -> NoReturn:
    """Entry point: errors that the lab knows become one message, not a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except LabError as error:
        _say(f"weir-lab: {error}")
        sys.exit(1)
    except OSError as error:
        # A full disk, a folder without rights, or one that somebody removed under a sweep.
        reported = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        remedy = "Look whether it is there, its rights and the free space; the same command goes on from here."
        _say(f"weir-lab: {reported}. {remedy}")
        sys.exit(1)
    except StoppedError:
        _say("weir-lab: interrupted; all processes are stopped. The same command goes on from here.")
        sys.exit(130)
    sys.exit(0)


def _say(message: str) -> None:
    """On standard error, without the marks and line breaks of a terminal's width."""
    typer.echo(message, err=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
