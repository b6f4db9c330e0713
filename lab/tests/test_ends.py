"""How `weir-lab run` and `weir-lab report` end: the answer, what limits it, and the page; here without a single process."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from weir_lab.bench.sweep.run import SweepOutcome
from weir_lab.cli import app, sweeps
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(sweep: Path, tmp_path: Path) -> Path:
    """A sweep with all its runs."""
    return shutil.copytree(sweep, tmp_path / "tiny")


def ended(folder: Path, outcome: SweepOutcome, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> list[str]:
    monkeypatch.setattr(sweeps, "run_study", lambda *_: outcome)
    done = CliRunner().invoke(app, ["run", str(folder / "study.toml"), "--out", str(folder)])
    assert done.exit_code == status, done.output
    return done.output.splitlines()


def outcome_of(folder: Path, *, out_of_budget: bool = False, answers: tuple[str, ...] = ()) -> SweepOutcome:
    return SweepOutcome(folder, 18, 0, [], [], out_of_budget, answers)


def test_a_whole_sweep_ends_with_answer_limits_and_page(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, answer, limits, page = ended(made, outcome_of(made), monkeypatch)
    assert counts == f"18 runs made, 0 reused. Tables: {made}/summary.csv."
    assert page == str(made / "report.html")
    files = build_report(made)
    assert answer == files.answer
    assert limits == f"What limits this: {' '.join(files.limits)}"
    assert f"<b>Answer.</b> {files.answer}" in files.html.read_text()
    reported = CliRunner().invoke(app, ["report", str(made)]).output.splitlines()
    assert reported[:2] == [answer, limits]
    assert reported[-1] == page


def test_a_sweep_with_too_few_runs_says_why_there_is_no_page(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for repetition in (1, 2):
        shutil.rmtree(made / "runs" / f"tiny-C4-proxy-r{repetition}")
    found = ("path direct: max rate 7",)
    answer, counts, why = ended(made, outcome_of(made, answers=found), monkeypatch)
    assert answer == found[0]
    assert counts.endswith(f"Tables: {made}/summary.csv. Next: weir-lab report {made}.")
    assert why.startswith("No page yet: tiny: the cell clients 4, path proxy has 1 valid runs")
    assert not (made / "report.html").exists()


def test_a_sweep_that_is_not_whole_has_no_answer_yet(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ended(made, outcome_of(made, out_of_budget=True), monkeypatch, status=3)
    assert (
        " ".join(line.strip() for line in lines)
        == "The budget of the study (plan.budget_s) is used up; the same command goes on from here."
    )
    assert not (made / "report.html").exists()
