"""The speed of a study here: what limits in the study limits here, and all of it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from synthetic import write_sweep
from weir_lab.cli import app
from weir_lab.design.speed import FULL_MAX, USED_MAX, choose_speed
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

CPU_S = {"client": 20e-6, "proxy": 40e-6, "server": 15e-6}
MACHINES = {"client": 3, "proxy": 1, "server": 5}
NETWORK_S = 50e-6


@pytest.mark.parametrize("limit", [None, "proxy", "server"])
@pytest.mark.parametrize("throughput", [500.0, 22_000.0, 200_000.0])
def test_the_tier_that_limits_is_full_and_all_others_are_not(throughput: float, limit: str | None) -> None:
    choice = choose_speed(throughput, CPU_S, MACHINES, NETWORK_S, 2, limit)
    here = throughput * choice.speed
    built = {tier: cpus * MACHINES[tier] * choice.speed for tier, cpus in choice.cpus.items()}
    used = {tier: here * CPU_S[tier] / built[tier] for tier in built}
    for tier, share in used.items():
        assert share == pytest.approx(1.0 if tier == limit else USED_MAX)
    together = sum(built.values()) + here * NETWORK_S
    assert together <= FULL_MAX * 2 + 1e-9
    # No slower than it must be.
    assert choice.speed == 1.0 or together == pytest.approx(FULL_MAX * 2)
    assert choice.network_cpus == pytest.approx(here * NETWORK_S)


def test_what_is_said_is_what_a_study_file_takes() -> None:
    lines = choose_speed(22_000.0, CPU_S, MACHINES, NETWORK_S, 2, "proxy").lines()
    assert lines[0] == "[topology]"
    assert lines[1].startswith("speed = 0.")
    assert [line.partition(" ")[0] for line in lines[3:]] == ["client", "proxy", "server"]


def test_what_cannot_be_chosen_is_said() -> None:
    with pytest.raises(StudyError, match="link is no tier that was measured"):
        choose_speed(1.0, CPU_S, MACHINES, NETWORK_S, 2, "link")
    with pytest.raises(StudyError, match="every role worked"):
        choose_speed(1.0, {"client": 0.0}, MACHINES, NETWORK_S, 2)
    with pytest.raises(StudyError, match="use larger machines"):
        choose_speed(1e9, CPU_S, MACHINES, NETWORK_S, 2)


def test_a_sweep_gives_the_lines_for_its_study(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep")
    printed = CliRunner().invoke(
        app, ["speed", str(tmp_path / "sweep"), "--throughput", "1000000", "--limit", "server"]
    )
    assert printed.exit_code == 0, printed.output
    lines = printed.output.splitlines()
    assert any(line.startswith("# server: ") for line in lines)
    assert "[topology.cpu]" in lines
    assert lines[lines.index("[topology.cpu]") + 1].startswith("client = ")
