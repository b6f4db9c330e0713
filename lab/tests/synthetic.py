"""Sweeps made of numbers that are known, in the shapes of docs/reference/formats.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weir_lab.bench.programs.generators import MEMCASLAP
from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR
from weir_lab.bench.running.verdict import judge
from weir_lab.design import RequestPath, Role, ScheduledRun, Study, content_sha256, load_seed, parse_study, schedule
from weir_lab.records import (
    Command,
    CpuRecord,
    RoleCpu,
    RunMeta,
    SweepMeta,
    Verdict,
    read_measurements,
    runs_folder,
    write_json,
)
from weir_lab.records.formats import STAGES
from weir_lab.theory.histogram import Bounds, Histogram
from weir_lab.theory.linear import LogModel, MeasuredRun

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from weir_lab.design import Settings
    from weir_lab.theory.linear import Change

BOUNDS = Bounds(1, 3_600_000_000_000, 3)
EXECUTABLES = {"weir": "0" * 64, "memcached": "memcached 1.6.18"}
SECOND = 1_000_000_000

STUDY_TEXT = """
schema = "weir.study/1"
name = "tiny"
title = "A tiny study"
question = "What does the proxy cost here?"
hypothesis = "It costs about half of the throughput."
[fixed]
depth = 1
keys = 100
value_size_bytes = 128
write_ratio = 0.1
client_threads = 1
proxy_threads = 1
servers = 3
server_threads = 1
server_memory_mib = 64
[factors]
clients = [1, 4, 16]
path = ["direct", "proxy"]
[plan]
repetitions = 3
order = "randomised-blocks"
seed = 7
warmup_s = 0.5
measured_s = 2.0
attempts = 2
[[predictions]]
response = "throughput"
clients = 1
change_percent_min = -60
change_percent_max = -40
"""


@dataclass(frozen=True)
class World:
    """What the synthetic system does; faults can be injected."""

    service_ns: dict[RequestPath, float] = field(
        default_factory=lambda: {RequestPath.DIRECT: 250_000.0, RequestPath.PROXY: 500_000.0}
    )
    run_spread: float = 0.02
    # Injected faults
    lost_clients: int = 0  # connections that stand still: N is really smaller
    partial_share: float = 1.0  # share of the measured phase that the throughput was counted in
    proxy_miscount: int = 0
    stage_leak_ns: int = 0
    inside_share: float = 0.6  # of the client's response time that the proxy sees
    misses: int = 0


def study() -> Study:
    return parse_study(STUDY_TEXT)


def write_sweep(sweep: Path, world: World | None = None, text: str = STUDY_TEXT) -> Study:
    """Write all run folders of the tiny study."""
    made = parse_study(text)
    sweep.mkdir(parents=True, exist_ok=True)
    (sweep / "study.toml").write_text(text)
    write_json(sweep / "sweep.json", SweepMeta(executables=EXECUTABLES, command=["weir-lab", "run"]))
    for run in schedule(made):
        write_run(runs_folder(sweep) / run.name, made, run, world or World())
    return made


def write_run(folder: Path, made: Study, run: ScheduledRun, world: World) -> None:
    """Write one run's folder and judge it."""
    folder.mkdir(parents=True)
    write_measurements(folder, run.cell.settings, np.random.default_rng([run.position]), world)
    meta = run_meta(made, run)
    verdict = judge(read_measurements(folder, meta), made.gates, [])
    write_json(folder / "run.json", meta.model_copy(update={"verdict": verdict}))


def write_measurements(folder: Path, settings: Settings, rng: np.random.Generator, world: World) -> None:
    """Write what a testbed leaves in a run's folder."""
    # Saturates at 4 requests at once: response time grows with the population behind that.
    speed = world.service_ns[settings.path] * float(np.exp(rng.normal(0.0, world.run_spread)))
    population = settings.population - world.lost_clients
    response_ns = speed * max(1.0, population / 4.0)
    requests = int(population / response_ns * 2 * SECOND)
    times = np.maximum(1, rng.gamma(4.0, response_ns / 4.0, requests)).astype(np.int64)
    times = np.maximum(1, times + int(response_ns - times.mean()))
    write_json(folder / "load.json", _generator_record(settings, times, world))
    spent = {Role.CLIENT: 8_000, Role.SERVERS: 9_000, Role.PROXY: 12_000}
    roles = {role: RoleCpu(cpu_ns=ns * requests) for role, ns in spent.items() if _takes_part(role, settings.path)}
    write_json(
        folder / "cpu.json",
        CpuRecord(
            start_unix_ns=1, interval_ns=2 * SECOND, roles=roles, cores=8,
            busy_ns=sum(role.cpu_ns for role in roles.values()) + SECOND // 50,
        ),
    )  # fmt: skip
    if settings.path is RequestPath.PROXY and settings.subject == NUTCRACKER:
        server = {"requests": requests + 100, "responses": requests + 100, "server_err": 0, "server_timedout": 0}
        pool = {"fragments": 0, "client_err": 0, "forward_error": 0, "server_ejects": 0, "server-0": server}
        write_json(folder / "stats-end.json", {"service": "nutcracker", "studied": pool})
    if settings.path is RequestPath.PROXY and settings.subject == WEIR:
        inside = (times * world.inside_share).astype(np.int64)
        prefill = np.full(100, 50_000, dtype=np.int64)
        for name, uptime_ns, seen in (
            ("before", SECOND, prefill),
            ("after", 3 * SECOND, np.concatenate([prefill, inside])),
            ("end", 4 * SECOND, np.concatenate([prefill, inside])),
        ):
            write_json(folder / f"snapshot-{name}.json", snapshot(uptime_ns, seen, world))


def _generator_record(settings: Settings, times: NDArray[np.int64], world: World) -> dict[str, Any]:
    made = load_record(settings.clients, times, world)
    if settings.generator == MEMCASLAP:  # it knows sums alone, and no percentiles
        made["generator"] = MEMCASLAP
        for operation in made["operations"].values():
            operation["response_time"] |= {"histogram": None, "without_histogram": True}
    return made


def load_record(clients: int, times: NDArray[np.int64], world: World) -> dict[str, Any]:
    prefill = 100
    half = times.size // 2
    return {
        "schema": "weir.load/1",
        "weir_version": "0.1.0",
        "a_field_added_later": True,
        "config": {"targets": ["127.0.0.1:1"], "connections": clients, "depth": 1, "threads": 1},
        "phases": {
            "prefill": phase(prefill),
            "warmup": phase(0),
            "measured": {**phase(times.size), "misses": world.misses},
            "drain": phase(0),
        },
        "operations": {
            "get": {"requests": half, "misses": 0, "errors": 0, "response_time": distribution(times[:half])},
            "set": {
                "requests": times.size - half, "misses": 0, "errors": 0, "response_time": distribution(times[half:]),
            },
        },
        "throughput_rps": times.size / 2 / world.partial_share,
        "windows": [
            {
                "start_ns": 0, "length_ns": SECOND, "requests": times.size // 2 + step,
                "response_time_sum_ns": int(times.mean() * (times.size // 2 + step)),
            }
            for step in (-5, 5)
        ],
        "cpu": {"user_ns": 3_000 * times.size, "system_ns": 5_000 * times.size},
        "failures": {"count": 0, "first": []},
        "errors": {},
    }  # fmt: skip


def phase(requests: int) -> dict[str, int]:
    return {
        "start_unix_ns": 1, "duration_ns": 2 * SECOND, "requests": requests, "errors": 0, "misses": 0, "failures": 0,
    }  # fmt: skip


def snapshot(uptime_ns: int, times: NDArray[np.int64], world: World) -> dict[str, Any]:
    shares = np.array([0.05, 0.02, 0.03, 0.1, 0.7])
    parts = [(times * share).astype(np.int64) for share in shares]
    parts.append(times - sum(parts) - world.stage_leak_ns)  # the last stage takes what rounding left
    return {
        "schema": "weir.proxy/1",
        "weir_version": "0.1.0",
        "taken_unix_ns": 1,
        "uptime_ns": uptime_ns,
        "process": {"cpu_user_ns": 1, "cpu_system_ns": 1},
        "operations": {
            "get": {
                "requests": times.size + world.proxy_miscount,
                "errors": 0,
                "stages": {stage: distribution(part) for stage, part in zip(STAGES, parts, strict=True)},
                "total": distribution(times),
            },
            "delete": {
                "requests": 0,
                "errors": 0,
                "stages": {stage: distribution(times[:0]) for stage in STAGES},
                "total": distribution(times[:0]),
            },
        },
    }


def distribution(times: NDArray[np.int64]) -> dict[str, Any]:
    if times.size == 0:
        return {"count": 0, "sum_ns": 0, "histogram": None}
    return {"count": times.size, "sum_ns": int(times.sum()), "histogram": histogram_of(times).encode()}


def histogram_of(times: NDArray[np.int64]) -> Histogram:
    """Record values the way HdrHistogram does; an implementation of its own, for tests."""
    half_magnitude = BOUNDS.sub_bucket_half_magnitude
    half = 1 << half_magnitude
    bits = np.frexp(times.astype(np.float64))[1]  # exact below 2**53
    bucket = np.maximum(0, bits - (half_magnitude + 1))
    index = (bucket + 1) * half + (times >> bucket) - half
    counts = np.bincount(index).astype(np.int64)
    return Histogram(BOUNDS, counts)


def run_meta(made: Study, run: ScheduledRun) -> RunMeta:
    return RunMeta(
        study=made.name,
        cell=run.cell.name,
        levels=dict(run.cell.levels),
        settings=run.cell.settings,
        repetition=run.repetition,
        position=run.position,
        attempt=1,
        content_sha256=content_sha256(made, run, EXECUTABLES),
        study_seed=made.plan.seed,
        load_seed=load_seed(made, run),
        commands=[Command(role="client", name="load", argv=["weir", "load"], exit_status=0)],
        executables=EXECUTABLES,
        versions={"python": "3.11", "weir": "weir 0.1.0"},
        machine={"cpu_model": "Synthetic", "cores": 8, "memory_mib": 1024, "kernel": "Linux 0"},
        load_average=[0.1, 0.1, 0.1],
        started_unix_ns=run.position * 10 * SECOND,
        ended_unix_ns=run.position * 10 * SECOND + 1,
        verdict=Verdict(valid=False, reasons=["not judged"], flags=[]),
    )


def _takes_part(role: Role, path: RequestPath) -> bool:
    return role is not Role.PROXY or path is RequestPath.PROXY


def change_between_runs(baseline: ArrayLike, treatment: ArrayLike) -> Change:
    """Between two cells whose runs share no block, where these runs are all there is."""
    cells = {"baseline": np.asarray(baseline, dtype=np.float64), "treatment": np.asarray(treatment, dtype=np.float64)}
    runs = [MeasuredRun(cell, value) for cell, values in cells.items() for value in values.tolist()]
    return LogModel(runs).change("baseline", "treatment")
