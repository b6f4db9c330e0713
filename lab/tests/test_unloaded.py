"""Runs without load: keys per server and links, their verdicts and their tables."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from test_generators import settings
from test_run import WEIR, needs_programs
from weir_lab.bench.planning import chosen_testbed, missing_here
from weir_lab.bench.running import Executables
from weir_lab.bench.running.unloaded import judge_unloaded, measure_links
from weir_lab.bench.sweep.run import run_study
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design import Kind, Plan, load_study
from weir_lab.design.topology import Shape, Topology
from weir_lab.errors import TestbedError
from weir_lab.records import read_run_metas, write_json
from weir_lab.records.places import PairRecord
from weir_lab.records.unloaded_records import KeysRecord, PairsRecord
from weir_lab.theory.stats import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import ScheduledRun, Study
    from weir_lab.records import Verdict
    from weir_lab.records.progress import CellProgress

STUDY = """
schema = "weir.study/1"
name = "spread"
title = "Do keys fall evenly?"
question = "Does the placement spread keys evenly?"
hypothesis = "It does, as well as chance allows."
kind = "hash"
[fixed]
placement = "{placement}"
keys = 2000
key_size_bytes = 16
[factors]
servers = [2, 5]
[plan]
repetitions = 3
order = "randomised-blocks"
seed = 3
warmup_s = 0.0
measured_s = 1.0
attempts = 1
"""


class Silent:
    """An observer that says nothing."""

    def planned(
        self, study: Study, total: int, reused: int, cells: Sequence[CellProgress], left_out: str = ""
    ) -> None: ...
    def started(self, run: ScheduledRun, attempt: int) -> None: ...
    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None: ...
    def progressed(self, cell: CellProgress, decision: Decision) -> None: ...


def spread(folder: Path, placement: str) -> tuple[Path, list[dict[str, str]]]:
    study, sweep = folder / "spread.toml", folder / "sweep"
    study.write_text(STUDY.format(placement=placement))
    assert run_study(study, sweep, Executables(WEIR, "memcached"), ["test"], Silent()).given_up == []
    return sweep, list(csv.DictReader((sweep / "summary.csv").read_text().splitlines()))


@needs_programs
def test_keys_are_counted_and_judged_together(tmp_path: Path) -> None:
    sweep, rows = spread(tmp_path, "jump")
    assert [(row["cell"], row["runs"], row["placement"]) for row in rows] == [
        ("spread-S2", "3", "jump"),
        ("spread-S5", "3", "jump"),
    ]
    assert all(row["verdict"] == "even" for row in rows)
    runs = list(csv.DictReader((sweep / "runs.csv").read_text().splitlines()))
    assert len(runs) == len(read_run_metas(sweep)) == 6
    for row in runs:
        counts = [int(row[f"keys_server_{number}"] or 0) for number in range(1, 6)]
        assert sum(counts) == 2000
        assert sum(count > 0 for count in counts) == (2 if row["cell"] == "spread-S2" else 5)
    # Each repetition has keys of its own; the largest distance stands in the table.
    for row in rows:
        distances = [float(run["distance"]) for run in runs if run["cell"] == row["cell"]]
        assert len(set(distances)) == 3
        assert float(row["distance_max"]) == pytest.approx(max(distances))


@needs_programs
def test_a_placement_that_is_not_known_makes_the_runs_invalid(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="3 runs in a row"):
        spread(tmp_path, "nothing")


def test_keys_that_are_lost_make_a_run_invalid(tmp_path: Path) -> None:
    record = KeysRecord(placement="jump", by_points=False, asked=10, keys=[4, 5], key_size_bytes=16, seed=1)
    write_json(tmp_path / "keys.json", record)
    assert judge_unloaded(tmp_path, Kind.HASH, []).reasons == ["9 keys have a server, and 10 were asked about"]
    assert judge_unloaded(tmp_path, Kind.LINKS, ["broken"]).reasons == ["broken"]
    assert "pairs.json" in judge_unloaded(tmp_path, Kind.LINKS, []).reasons[0]


def pair(wire: float | None) -> PairRecord:
    return PairRecord(
        sender="client-0", receiver="server-0", asked_mbit_s=100.0, payload_mbit_s=90.0, wire_mbit_s=wire,
        round_trips=1, min_ms=0.1, median_ms=0.2,
    )  # fmt: skip


@pytest.mark.parametrize(("wire", "flagged"), [(98.0, False), (94.0, True), (106.0, True), (None, False)])
def test_a_link_that_is_off_its_rate_is_flagged(tmp_path: Path, wire: float | None, flagged: bool) -> None:
    write_json(tmp_path / "pairs.json", PairsRecord(seconds=1.0, pairs=[pair(wire)]))
    verdict = judge_unloaded(tmp_path, Kind.LINKS, [])
    assert verdict.valid
    assert bool(verdict.flags) == flagged


def test_loopback_is_no_link(tmp_path: Path) -> None:
    shape = Shape(1, 1, 1)
    plan = Plan(repetitions=1, order="randomised-blocks", seed=1, warmup_s=0.0, measured_s=1.0, attempts=1)
    with open_testbed(TestbedKind.LOCAL, Topology(), shape) as testbed:
        (problem,) = measure_links(tmp_path, testbed, shape, plan)
    assert "Use netns or hosts" in problem


def test_where_studies_without_load_run(tmp_path: Path) -> None:
    study = tmp_path / "spread.toml"
    study.write_text(STUDY.format(placement="jump"))
    counted = load_study(study)
    assert chosen_testbed(counted, TestbedKind.NETNS) is TestbedKind.LOCAL
    study.write_text(STUDY.format(placement="jump").replace('"hash"', '"links"'))
    links = load_study(study)
    assert missing_here(links, None, TestbedKind.NETNS) == []
    assert len(missing_here(links, None, chosen_testbed(links))) == 1
    assert settings().generators == 1
