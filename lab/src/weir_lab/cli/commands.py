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
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from weir_lab import __version__
from weir_lab.errors import LabError, StoppedError

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["COMMANDS", "Commands", "app", "main", "options", "version"]

# Name -> module of this package, and function in it; `--help` shows them in this order.
COMMANDS = {
    "run": ("sweeps", "run"),
    "extend": ("sweeps", "extend"),
    "report": ("sweeps", "report"),
    "version": ("commands", "version"),
    "new": ("studies", "new"),
    "check": ("studies", "check"),
    "plan": ("studies", "plan"),
    "gather": ("studies", "gather"),
    "tables": ("studies", "tables"),
    "changes": ("cells", "changes"),
    "precision": ("cells", "precision"),
    "import": ("studies", "import_results"),
    "ab": ("ab", "ab"),
    "selfcheck": ("checks", "selfcheck"),
    "audit": ("checks", "audit"),
    "predict": ("models.predictions", "predict"),
    "capacity": ("models.predictions", "capacity"),
    "hold-out": ("models.hold_outs", "hold_out"),
    "merge": ("checks", "merge"),
    "hash": ("models.placements", "hash_keys"),
    "testbeds": ("testbeds", "testbeds"),
    "reserve": ("testbeds", "reserve"),
    "links": ("testbeds", "links"),
    "speed": ("speeds", "speed"),
    "clean": ("testbeds", "clean"),
    "study": ("whole_studies", "study"),
    "keep": ("whole_studies", "keep_records"),
    "verify": ("whole_studies", "verify_report"),
    "compare": ("whole_studies", "compare_reports"),
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
        module, function = COMMANDS[cmd_name]
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name)(getattr(importlib.import_module(f"weir_lab.cli.{module}"), function))
        return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Designed experiments on memcached proxies.",
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
