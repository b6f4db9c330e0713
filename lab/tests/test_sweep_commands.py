"""`weir-lab changes` and `precision` on a sweep whose truth is known: commands reach the methods of docs/measure/method.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from synthetic import write_sweep
from weir_lab.cli import app
from weir_lab.errors import ReportError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("sweeps") / "tiny"
    write_sweep(folder)
    return folder


def said(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_changes_and_equality_are_reported_together(sweep: Path) -> None:
    reported = json.loads(said("changes", sweep, "--same-within", 5, "--json"))
    assert reported["from"] == "tiny-C1-direct"
    by_cell = {row["to"]: row for row in reported["changes"]}
    proxy = by_cell["tiny-C1-proxy"]
    # The proxy takes twice the time of the direct path.
    assert proxy["shown"]
    assert proxy["high"] < -30.0
    assert proxy["family"] == len(by_cell)
    for row in by_cell.values():
        assert row["shown"] == (row["p"] < 0.05)
        assert row["same"]["shown"] == (row["same"]["p"] < row["same"]["alpha"])
        assert not (row["same"]["shown"] and abs(row["percent"]) > 5.3)
    assert not proxy["same"]["shown"]
    assert "cells on logarithms" in reported["basis"]
    text = said("changes", sweep, "--to", "tiny-C1-proxy", "--same-within", 300)
    assert "a difference is shown; the same within 300 %" in text


def test_precision_tells_where_the_spread_comes_from_and_how_many_runs_are_needed(sweep: Path) -> None:
    rough, fine = (json.loads(said("precision", sweep, "--within", within, "--json")) for within in (20, 0.5))
    for few, many in zip(rough["cells"], fine["cells"], strict=True):
        assert few["runs"] <= few["runs_needed"] <= many["runs_needed"]
        assert few["advice"] in ("more runs help", "longer runs help", None)
    assert any(row["runs_needed"] > row["runs"] for row in fine["cells"])
    assert "make exactly that number" in said("precision", sweep)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--from", "nowhere"], "there is no cell nowhere"),
        (["--from", "tiny-C1-proxy", "--to", "tiny-C1-proxy"], "two different cells"),
    ],
)
def test_what_cannot_be_compared_says_which_cells_there_are(sweep: Path, words: list[str], reason: str) -> None:
    with pytest.raises(ReportError, match=f"{reason}.*its cells are tiny-C1-direct"):
        CliRunner().invoke(app, ["changes", str(sweep), *words], catch_exceptions=False)


def test_a_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    for command in ("changes", "precision"):
        with pytest.raises(ReportError, match="no sweep here"):
            CliRunner().invoke(app, [command, str(tmp_path)], catch_exceptions=False)
