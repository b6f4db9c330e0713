"""Published vectors and recomputed tables come out right, and a wrong formula would be seen."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from weir_lab.cli import app
from weir_lab.report.oracles import TABLES, VECTORS, Compared, Comparison
from weir_lab.theory.queueing import mm1


@pytest.mark.parametrize("name", [*VECTORS, *TABLES])
def test_an_oracle_is_reproduced(name: str) -> None:
    check = VECTORS.get(name) or TABLES[name]
    comparison = Comparison.of(name, check)
    assert comparison.passed, comparison.line()


def test_every_recomputed_table_is_compared_in_full() -> None:
    counted = {name: len(list(check())) for name, check in TABLES.items()}
    assert counted["table recomputed_mm1"] > 600
    assert counted["table recomputed_mmm"] > 500
    assert counted["table recomputed_twok_r_effects"] > 500
    assert sum(counted.values()) > 2700


def test_a_wrong_number_fails_and_is_shown() -> None:
    wrong = Comparison.of("jobs", lambda: [Compared("n", mm1(1.0, 2.0).mean_jobs_in_queue, 1.0, 1e-9)])
    assert not wrong.passed
    assert wrong.line().startswith("FAIL jobs: 1 numbers, largest relative error 5.0e-01; 1 wrong, such as n: 0.5")
    assert not Comparison.of("unstable", lambda: [Compared("n", mm1(2.0, 1.0).utilization, 2.0, 1e-9)]).passed
    assert not Comparison.of("empty", lambda: []).passed


def test_selfcheck_prints_one_line_each_and_succeeds() -> None:
    result = CliRunner().invoke(app, ["selfcheck"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) == len(VECTORS) + len(TABLES) + 1
    assert lines[-1].endswith(" 0 failed")
