from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from synthetic import World, study, write_run
from weir_lab.bench.running.verdict import judge
from weir_lab.design import RequestPath, ScheduledRun, schedule
from weir_lab.records import RunMeta, Verdict, read_json, read_measurements, read_run
from weir_lab.records.places import MachineRecord, TestbedRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def scheduled(path: RequestPath, clients: int = 16) -> ScheduledRun:
    cells = (run for run in schedule(study()) if run.cell.settings.clients == clients)
    return next(run for run in cells if run.cell.settings.path is path)


def verdict_of(folder: Path, world: World, path: RequestPath = RequestPath.PROXY) -> Verdict:
    write_run(folder / "run", study(), scheduled(path), world)
    return read_run(folder / "run").meta.verdict


@pytest.mark.parametrize("path", list(RequestPath))
def test_a_sound_run_is_valid(tmp_path: Path, path: RequestPath) -> None:
    assert verdict_of(tmp_path, World(), path).valid


@pytest.mark.parametrize(
    ("world", "says"),
    [
        (World(misses=3), "3 misses in phase measured"),
        (World(proxy_miscount=-1), "proxy counted"),
        (World(stage_leak_ns=1), "stages of the proxy differ from its total"),
    ],
)
def test_an_injected_fault_makes_the_run_invalid(tmp_path: Path, world: World, says: str) -> None:
    verdict = verdict_of(tmp_path, world)
    assert not verdict.valid
    assert says in " ".join(verdict.reasons)


@pytest.mark.parametrize("world", [World(lost_clients=4), World(partial_share=0.9), World(partial_share=1.1)])
def test_a_broken_law_is_flagged(tmp_path: Path, world: World) -> None:
    verdict = verdict_of(tmp_path, world)
    assert verdict.valid
    assert any("interactive law" in flag for flag in verdict.flags)


def test_a_proxy_that_takes_longer_than_its_client_waits_is_flagged(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, World(inside_share=1.01))
    assert any("is longer than the client's" in flag for flag in verdict.flags)


def test_snapshots_of_another_interval_are_flagged(tmp_path: Path) -> None:
    verdict = spoil(tmp_path, "snapshot-after.json", lambda record: record.update(uptime_ns=3_200_000_000))
    assert any("off the client's throughput" in flag for flag in verdict.flags)


def test_a_law_within_the_limit_is_not_flagged(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, World(partial_share=0.97))
    assert not any("interactive law" in flag for flag in verdict.flags)


def spoil(folder: Path, record: str, change: Callable[[dict[str, Any]], None]) -> Verdict:
    write_run(folder / "run", study(), scheduled(RequestPath.PROXY), World())
    file = folder / "run" / record
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    run = read_run(folder / "run")
    return judge(read_measurements(run.folder, run.meta), study().gates, [])


def test_a_busy_load_generator_is_flagged(tmp_path: Path) -> None:
    verdict = spoil(tmp_path, "load.json", lambda record: record["cpu"].update(user_ns=1_950_000_000))
    assert verdict.valid
    assert any("load generator used" in flag for flag in verdict.flags)


def test_a_busy_machine_is_flagged(tmp_path: Path) -> None:
    verdict = spoil(tmp_path, "cpu.json", lambda record: record.update(busy_ns=16_000_000_000))
    assert any("went elsewhere" in flag for flag in verdict.flags)


def test_a_failed_verification_is_shown_with_its_text(tmp_path: Path) -> None:
    def fail(record: dict[str, Any]) -> None:
        record["phases"]["warmup"]["failures"] = 2
        record["failures"] = {"count": 2, "first": ["key 7: torn value"]}

    verdict = spoil(tmp_path, "load.json", fail)
    assert verdict.reasons == [
        "2 failed verifications or broken connections in phase warmup",
        "first failure: key 7: torn value",
    ]


def test_a_run_with_other_clients_than_its_cell_is_invalid(tmp_path: Path) -> None:
    verdict = spoil(tmp_path, "load.json", lambda record: record["config"].update(connections=15))
    assert "not the cell's" in verdict.reasons[0]


@pytest.mark.parametrize("missing", ["load.json", "cpu.json", "snapshot-before.json", "snapshot-end.json"])
def test_a_missing_record_makes_the_run_invalid(tmp_path: Path, missing: str) -> None:
    write_run(tmp_path / "run", study(), scheduled(RequestPath.PROXY), World())
    (tmp_path / "run" / missing).unlink()
    run = read_run(tmp_path / "run")
    assert not judge(run, study().gates, []).valid


def test_what_went_wrong_while_running_makes_the_run_invalid(tmp_path: Path) -> None:
    write_run(tmp_path / "run", study(), scheduled(RequestPath.DIRECT), World())
    run = read_run(tmp_path / "run")
    assert judge(run, study().gates, ["server-1 ended early"]).reasons == ["server-1 ended early"]


def test_what_is_missing_because_something_went_wrong_is_no_reason_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path / "run", study(), scheduled(RequestPath.DIRECT), World())
    for name in ("load.json", "cpu.json"):
        (tmp_path / "run" / name).unlink()
    meta = read_json(tmp_path / "run" / "run.json", RunMeta)
    run = read_measurements(tmp_path / "run", meta)
    assert judge(run, study().gates, ["the proxy ended early"]).reasons == ["the proxy ended early"]
    assert [reason.split(":")[0] for reason in judge(run, study().gates, []).reasons] == ["no load.json", "no cpu.json"]


NETWORK = {
    "packets": 1000,
    "wire_bytes": 100_000,
    "dropped_packets": 0,
    "waiting_bytes_max": 5_000,
    "shortest_delay_us": 320.0,
    "late_median_us": 4.0,
    "late_p99_us": 90.0,
    "late_max_us": 800.0,
}


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({}, ""),
        ({"late_median_us": -15.0}, ""),
        ({"late_median_us": None}, ""),
        ({"dropped_packets": 3}, "the delay device dropped 3 of 1000 packets"),
        (
            {"late_median_us": 17.0},
            r"packets left the delay device +17 µs off at the median, +5 % of the shortest delay",
        ),
        ({"late_median_us": -32.0}, "-32 µs off at the median, -10 %"),
    ],
)
def test_a_network_that_loses_or_delays_otherwise_makes_the_run_invalid(
    tmp_path: Path, network: dict[str, Any], says: str
) -> None:
    verdict = spoil(tmp_path, "cpu.json", lambda record: record.update(network=NETWORK | network))
    assert verdict.valid == (not says)
    assert says in " ".join(verdict.reasons)


@pytest.mark.parametrize(("quota", "busy", "valid"), [(0.2, 1.71, False), (0.2, 1.69, True), (None, 1.99, True)])
def test_machines_that_fill_the_real_one_are_not_of_their_own(
    tmp_path: Path, quota: float | None, busy: float, valid: bool
) -> None:
    write_run(tmp_path / "run", study(), scheduled(RequestPath.PROXY), World())
    meta = read_run(tmp_path / "run").meta
    place = MachineRecord(name="client-0", address="10.18.0.1", cpus=quota)
    meta = meta.model_copy(update={"testbed": TestbedRecord(kind="netns", machines=[place])})
    run = read_measurements(tmp_path / "run", meta)
    assert run.cpu is not None
    used_ns = round(busy * run.cpu.interval_ns)
    full = run.cpu.model_copy(update={"cores": 2, "busy_ns": used_ns})
    gates = study().gates.model_copy(update={"other_cpu_share_max": 1.0})
    verdict = judge(dataclasses.replace(run, cpu=full), gates, [])
    assert verdict.valid == valid, verdict.reasons
    # What others used has a rule of its own, by which a run is tried again.
    shared = full.model_copy(update={"others_ns": round(0.1 * run.cpu.interval_ns)})
    assert judge(dataclasses.replace(run, cpu=shared), gates, []).valid
    assert verdict.too_full == (not valid)
    assert valid or "1.71 of 2 CPUs were busy, and 1.7 may be" in verdict.reasons[0]
