"""The table of commands: each row leads to a command, and a command loads what it needs and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from weir_lab import __version__
from weir_lab.cli import app
from weir_lab.cli.commands import COMMANDS, Commands
from weir_lab.errors import ReportError

if TYPE_CHECKING:
    from pathlib import Path

# What `version` has no use for; each takes a tenth of a second or more.
HEAVY = {"numpy", "scipy", "jinja2", "rich", "weir_lab.theory", "weir_lab.report", "weir_lab.bench"}
ASKED = """
import json, sys
sys.argv = ["weir-lab", "version"]
from weir_lab.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)))
"""


def test_the_version_is_reported_without_loading_the_laboratory() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    reported, loaded = done.stdout.splitlines()
    assert reported == f"weir-lab {__version__}"
    assert HEAVY & set(json.loads(loaded)) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.exception
    assert f" {name}" in result.output


def test_help_lists_all_commands_each_with_an_example() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert all(f" {name} " in result.output for name in COMMANDS)
    lines = [line.strip() for line in result.output.splitlines()]
    assert all(f"weir-lab {listed.example}" in lines for listed in COMMANDS.values())


@pytest.mark.parametrize(("name", "example"), [(name, listed.example) for name, listed in COMMANDS.items()])
def test_an_example_is_a_command_line(name: str, example: str) -> None:
    first, *rest = example.split()
    assert first == name
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)
    # Raises a usage error otherwise.
    group.get_command(None, name).make_context(name, rest)


def test_a_command_that_is_not_there_is_refused() -> None:
    result = CliRunner().invoke(app, ["sprint"])
    assert result.exit_code == 2
    assert "No such command 'sprint'" in result.output


@pytest.mark.parametrize("words", [["verify", "."], ["compare", ".", "."], ["verify", "/"], ["verify", "sub"]])
def test_a_folder_in_the_place_of_a_report_is_named_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The path `.` has no name whose ending could be another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("s9.html", "s9.json"):
        (tmp_path / name).write_text("{}")
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ReportError)
    assert "is a folder. Name the page or the twin of a report" in str(refused.exception)
    assert ("It has s9.html." in str(refused.exception)) == ("." in words)
