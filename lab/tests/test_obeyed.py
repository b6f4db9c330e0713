"""A factor that was not obeyed makes a run invalid: what was in force is read back from proxy, generator and servers."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from test_run import WEIR, needs_programs
from test_unloaded import Silent
from weir_lab.bench.programs.subjects import abilities_of
from weir_lab.bench.running import Executables
from weir_lab.bench.running.verdict import judge
from weir_lab.bench.running.verdict.obeyed import disobeyed
from weir_lab.bench.sweep.run import run_study
from weir_lab.design import Settings, load_study
from weir_lab.records import read_json, read_run, read_runs
from weir_lab.records.runs import RunMeta, read_measurements

if TYPE_CHECKING:
    from pathlib import Path

STUDY = """
schema = "weir.study/1"
name = "obeyed"
[fixed]
keys = 100
clients = 4
servers = 2
placement = "modulo"
key_size_bytes = 20
value_size_bytes = 100
replicas = 2
[factors]
engine = ["event", "pool", "split"]
workers = [3]
readers = [2]
proxies = [2]
[plan]
repetitions = 2
warmup_s = 0.1
measured_s = 0.3
attempts = 10
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real runs of all engines; tests must not change it."""
    folder = tmp_path_factory.mktemp("obeyed")
    file = folder / "obeyed.toml"
    file.write_text(STUDY)
    outcome = run_study(file, folder / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    assert outcome.given_up == [], [run.meta.verdict.reasons for run in read_runs(folder / "sweep")[0]]
    return folder / "sweep"


@pytest.fixture(scope="module")
def open_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("open")
    file = folder / "open.toml"
    text = (
        STUDY.replace("proxies = [2]", "rate = [300.5]\ninstances = [2]")
        .replace('"event", ', "")
        .replace(', "split"', "")
    )
    file.write_text(text.replace('placement = "modulo"\n', ""))
    run_study(file, folder / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    return folder / "sweep"


def valid(sweep: Path, engine: str) -> Path:
    return next(
        run.folder for run in read_runs(sweep)[0] if run.meta.verdict.valid and run.meta.settings.engine == engine
    )


def reported_with(folder: Path, **changes: Any) -> list[str]:
    """What is said of a run if its cell had set something else."""
    run = read_run(folder)
    settings = Settings.model_validate({**run.meta.settings.model_dump(), **changes})
    return disobeyed(read_measurements(folder, run.meta.model_copy(update={"settings": settings})))


@needs_programs
@pytest.mark.parametrize(
    ("engine", "changes", "says"),
    [
        ("event", {"proxy_threads": 2}, "the proxy ran with threads 1, and the cell sets 2"),
        ("event", {"engine": "pool"}, "the proxy ran with engine event, and the cell sets pool"),
        ("event", {"replicas": 1}, "the proxy ran with replicas 2, and the cell sets 1"),
        ("event", {"placement": "jump"}, "the proxy ran with placement modulo, and the cell sets jump"),
        ("event", {"multiget": "whole"}, "the proxy ran with multiget sharded, and the cell sets whole"),
        ("event", {"servers": 3}, "the proxy ran with servers 2, and the cell sets 3"),
        ("pool", {"workers": 4}, "the proxy ran with workers 3, and the cell sets 4"),
        ("split", {"readers": 9}, "the proxy ran with readers 2, and the cell sets 9"),
        ("pool", {"crew": "fixed"}, "the proxy ran with crew (adaptive|not reported), and the cell sets fixed"),
        ("event", {"keys": 101}, "the load generator ran with keys 100, and the cell sets 101"),
        ("event", {"key_size_bytes": 21}, "the load generator ran with key size 20, and the cell sets 21"),
        ("event", {"value_size_bytes": 99}, "the load generator ran with value size 100, and the cell sets 99"),
        ("event", {"write_ratio": 0.2}, "the load generator ran with write ratio 0.1, and the cell sets 0.2"),
        ("event", {"multiget_keys": 2}, "the load generator ran with keys per get 1, and the cell sets 2"),
        ("event", {"depth": 2}, "the load generator ran with depth 1, and the cell sets 2"),
        ("event", {"rate": 10}, "the load generator ran with loop closed, and the cell sets open"),
        ("event", {"server_threads": 4}, "memcached at .* ran with threads 1, and the cell sets 4"),
        (
            "event",
            {"server_memory_mib": 32},
            "memcached at .* ran with bytes of memory 67108864, and the cell sets 33554432",
        ),
    ],
)
def test_each_setting_is_read_back(sweep: Path, engine: str, changes: dict[str, Any], says: str) -> None:
    folder = valid(sweep, engine)
    assert reported_with(folder) == []
    assert any(re.fullmatch(says, sentence) for sentence in reported_with(folder, **changes)), reported_with(
        folder, **changes
    )


@needs_programs
def test_a_rate_of_several_generators_is_read_back_as_one(open_sweep: Path) -> None:
    folder = valid(open_sweep, "pool")
    assert reported_with(folder) == []
    assert reported_with(folder, rate=301.0) == [
        "the load generators ran with a rate of 300.5 in all, and the cell sets 301"
    ]
    assert reported_with(folder, arrivals="fixed") == [
        "the load generator ran with arrivals poisson, and the cell sets fixed"
    ]


@needs_programs
def test_a_crew_that_is_asked_to_be_fixed_is_held_to_it(tmp_path: Path) -> None:
    """An adaptive crew undoes the number of workers where threads wait for processors; no run and no page said it."""
    if "--crew" not in abilities_of(WEIR).flags:
        pytest.skip("this weir has no --crew")
    file = tmp_path / "crew.toml"
    text = STUDY.replace('"event", ', "").replace("proxies = [2]", 'crew = ["fixed", "adaptive"]')
    file.write_text(text)
    outcome = run_study(file, tmp_path / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    assert outcome.given_up == [], [run.meta.verdict.reasons for run in read_runs(tmp_path / "sweep")[0]]
    for run in read_runs(tmp_path / "sweep")[0]:
        if run.meta.verdict.valid:
            other = {"fixed": "adaptive", "adaptive": "fixed"}[run.meta.settings.crew or ""]
            assert reported_with(run.folder) == []
            assert reported_with(run.folder, crew=other) == [
                f"the proxy ran with crew {run.meta.settings.crew}, and the cell sets {other}"
            ]


@needs_programs
def test_a_run_in_which_a_factor_was_not_obeyed_is_invalid(sweep: Path, tmp_path: Path) -> None:
    """The second of two proxies is looked at, too. Such runs were valid, and pages compared what had not been varied."""
    folder = shutil.copytree(valid(sweep, "pool"), tmp_path / "run")
    study, meta = load_study(sweep / "study.toml"), read_json(folder / "run.json", RunMeta)
    assert judge(read_measurements(folder, meta), study.gates, []).valid
    file = folder / "snapshot-end-1.json"
    snapshot = json.loads(file.read_text())
    for station in snapshot["stations"]:
        station["threads"] = 8 if station["station"] == "workers" else station["threads"]
    file.write_text(json.dumps(snapshot))
    verdict = judge(read_measurements(folder, meta), study.gates, [])
    assert not verdict.valid
    assert verdict.reasons == ["the proxy ran with workers 8, and the cell sets 3"]


@needs_programs
def test_records_that_do_not_tell_are_not_judged(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(valid(sweep, "event"), tmp_path / "run")
    (folder / "servers.json").unlink()
    for file in folder.glob("snapshot-*.json"):
        record = json.loads(file.read_text())
        file.write_text(
            json.dumps({name: value for name, value in record.items() if name not in ("config", "stations")})
        )
    for file in folder.glob("load*.json"):
        record = json.loads(file.read_text())
        kept = ("targets", "connections", "depth", "threads")
        file.write_text(json.dumps({**record, "config": {name: record["config"][name] for name in kept}}))
    assert reported_with(folder, proxy_threads=9, keys=7, server_threads=3) == []


@needs_programs
@pytest.mark.parametrize(
    ("engine", "queue", "says"),
    [
        ("pool", "queue", "the proxy ran with at times as few workers at once as 2, and the cell sets 3"),
        ("split", "read-queue", "the proxy ran with at times as few readers at once as 1, and the cell sets 2"),
    ],
)
def test_a_crew_that_shrank_makes_a_run_invalid_unless_that_was_asked_for(
    sweep: Path, tmp_path: Path, engine: str, queue: str, says: str
) -> None:
    """Adaptive crews of 64 had 8 to 13 workers at work, and such runs counted."""
    folder = tmp_path / "run"
    shutil.copytree(valid(sweep, engine), folder)
    file = folder / "snapshot-end-1.json"
    record = json.loads(file.read_text())
    for station in record["stations"]:
        threads = 3 if engine == "pool" else 2
        if station["station"] == queue:
            station["crew"] = {"now": threads, "least": threads, "time_integral_ns": 1}
    file.write_text(json.dumps(record))
    assert reported_with(folder) == []
    next(one for one in record["stations"] if one["station"] == queue)["crew"]["least"] -= 1
    file.write_text(json.dumps(record))
    assert says in reported_with(folder)
    assert says in reported_with(folder, crew=None)
    assert says not in reported_with(folder, crew="adaptive")
    verdict = judge(read_run(folder), load_study(sweep / "study.toml").gates, [])
    assert not verdict.valid
    assert not verdict.busy
    assert says in verdict.reasons


@needs_programs
def test_each_run_tells_what_the_threads_of_every_role_used(sweep: Path) -> None:
    pool, event = (read_run(valid(sweep, engine)) for engine in ("pool", "event"))
    assert pool.cpu is not None
    assert event.cpu is not None
    proxy = pool.cpu.threads["proxy"]
    # Two proxies with 3 workers and a network thread each.
    assert (proxy["weir-worker"].threads, proxy["weir-network"].threads) == (6, 2)
    assert 0 < proxy["weir-worker"].busiest_ns <= proxy["weir-worker"].cpu_ns
    assert event.cpu.threads["proxy"]["weir-loop"].threads == 2
    assert sum(use.cpu_ns for use in pool.cpu.threads["servers"].values()) > 0
    assert pool.cpu.others_ns is not None
    assert pool.cpu.kernel_share is not None
