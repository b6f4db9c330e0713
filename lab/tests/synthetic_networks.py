"""Sweeps of a system of devices whose numbers are known: what it does is simulated event by event, with workers that are held.

`SYSTEM` is the truth, `measured` what it does with this many workers and clients, `write_networks` its runs as a testbed leaves them:
through the pool engine, through the split engine with as many readers, or without a proxy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from synthetic import EXECUTABLES, SECOND, distribution, phase, run_meta
from weir_lab.design import RequestPath, Role, load_study, schedule
from weir_lab.records import CpuRecord, RoleCpu, SweepMeta, Verdict, runs_folder, write_json
from weir_lab.records.formats import STAGES
from weir_lab.records.formats.seen import ThreadsUse
from weir_lab.records.places import MachineRecord, MachineUse, TestbedRecord
from weir_lab.theory.fitting.devices import Device, System
from weir_lab.theory.fitting.simulated import SimulatedSystem, simulate_system

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.design import ScheduledRun, Study

WORKERS = (2, 8)
CLIENTS = (2, 4, 8, 16, 32, 64)
LINKS_MBIT_S = {"client": 100.0, "proxy": 1000.0, "server": 100.0}
# A whole processor: the simulation knows no quota that holds back those who wait for each other alone.
QUOTA = 1.0
# Two workers serve at most some 1,000 requests/s, because each is held for 1.9 ms; eight serve as many as the server's link, 2,500/s.
SYSTEM = System(
    (
        Device("client CPU quotas", 0.0001),
        Device("proxy CPU quotas", 0.0002),
        Device("memcached CPU quotas", 0.0003, inside=True),
        Device("network thread", 0.00005),
        Device("client uplinks", 0.000008),
        Device("proxy uplinks", 0.00004),
        Device("server uplinks", 0.0004, inside=True),
    ),
    outside_s=0.004,
    inside_s=0.0012,
)
REQUESTS = 6_000
SHAPE = np.array([0.4, 0.7, 0.9, 1.0, 1.1, 1.3, 1.6])
SHAPE = SHAPE / SHAPE.mean()
SPREAD = 0.003

STUDY = """
schema = "weir.study/1"
name = "net"
title = "A system of known devices"
question = "What does it do?"
hypothesis = "It does what its devices allow."
[fixed]
{path}
value_size_bytes = 4096
write_ratio = 0.0
servers = 1
keys = 100
[factors]
{crew}
clients = [2, 4, 8, 16, 32, 64]
[plan]
repetitions = 5
order = "randomised-blocks"
seed = 3
warmup_s = 0.0
measured_s = 10.0
"""


# What a study says of its proxies, and what holds a request.
KINDS = {
    "pool": ('path = "proxy"\nengine = "pool"', "workers = [2, 8]"),
    "split": ('path = "proxy"\nengine = "split"', "readers = [2, 8]"),
    "direct": ('path = "direct"', ""),
}


@lru_cache(maxsize=64)
def measured(workers: int, clients: int, link: float = 1.0) -> SimulatedSystem:
    """What the truth does, where the link takes ``link`` times as long; without workers there is no proxy."""
    devices = tuple(
        replace(one, service_s=one.service_s * (link if one.name == "server uplinks" else 1.0))
        for one in SYSTEM.devices
        if workers or not one.name.startswith(("proxy", "network"))
    )
    system = replace(SYSTEM, devices=devices, workers=workers or None)
    return simulate_system(system, clients, REQUESTS, np.random.default_rng([workers, clients]))


def write_networks(
    folder: Path,
    *,
    kind: str = "pool",
    odd: tuple[int, int] | None = None,
    wire: bool = True,
    stamps: bool = True,
    quotas: bool = True,
    slowness: Callable[[tuple[int, int], int], float | None] = lambda _key, _repetition: 1.0,
) -> Study:
    """Every run of the study, of one of `KINDS`. In the ``odd`` cell (workers, clients) a reply has twice as many bytes.

    ``slowness`` is how many times as long all takes in a repetition of a cell (workers, clients); None where that run was not made.
    Without ``wire``, ``stamps`` or ``quotas`` the records do not tell of them.
    """
    folder.mkdir(parents=True)
    path, crew = KINDS[kind]
    (folder / "study.toml").write_text(STUDY.format(path=path, crew=crew))
    made = load_study(folder / "study.toml")
    write_json(folder / "sweep.json", SweepMeta(executables=EXECUTABLES, command=["weir-lab", "run"]))
    for run in schedule(made):
        key = (_crew(run), run.cell.settings.clients)
        seen = (wire, stamps and kind != "direct", quotas)
        slow = slowness(key, run.repetition)
        if slow is not None:
            _write_run(runs_folder(folder) / run.name, made, run, 2.0 if key == odd else 1.0, seen, slow)
    return made


def _crew(run: ScheduledRun) -> int:
    return run.cell.settings.workers or run.cell.settings.readers or 0


def _write_run(
    folder: Path, made: Study, run: ScheduledRun, link: float, reported: tuple[bool, bool, bool], slow: float
) -> None:
    folder.mkdir(parents=True)
    settings, (wire, stamps, quotas) = run.cell.settings, reported
    truth = measured(_crew(run), settings.clients, link)
    direct = settings.path is RequestPath.DIRECT
    noise = float(np.exp(np.random.default_rng([run.position, run.repetition]).normal(0.0, SPREAD))) / slow
    rate = truth.throughput_per_s.mean * noise
    count = 700
    duration_ns = int(count / rate * SECOND)
    whole_ns = settings.clients / rate * 1e9
    write_json(folder / "load.json", _load(settings.clients, _times(whole_ns, count), rate, duration_ns, slow))
    roles = {
        role.value: RoleCpu(cpu_ns=int(device.service_s * slow * QUOTA * count * 1e9))
        for role, device in zip((Role.CLIENT, Role.PROXY, Role.SERVERS), SYSTEM.devices, strict=False)
        if not (direct and role is Role.PROXY)
    }
    sent = {
        tier: SYSTEM.device(f"{tier} uplinks").service_s * slow * rate * 1e6 / 8 for tier, rate in LINKS_MBIT_S.items()
    }
    sent["server"] *= link
    if direct:
        del sent["proxy"]
    thread_ns = int(SYSTEM.device("network thread").service_s * slow * count * 1e9)
    cpu = CpuRecord(
        start_unix_ns=1, interval_ns=duration_ns, roles=roles, cores=8, busy_ns=sum(one.cpu_ns for one in roles.values()),
        machines={f"{tier}-0": MachineUse(sent_bytes=int(one * count)) for tier, one in sent.items()} if wire else {},
        threads={} if direct else {
            "proxy": {"weir-network": ThreadsUse(threads=1, cpu_ns=thread_ns, waited_ns=0, busiest_ns=thread_ns)}
        },
    )  # fmt: skip
    write_json(folder / "cpu.json", cpu)
    if stamps:
        queue, held = truth.queue_s / noise * 1e9, truth.held_s / noise * 1e9
        for name, uptime_ns, part in (
            ("before", SECOND, 0),
            ("after", SECOND + duration_ns, 1),
            ("end", 2 * SECOND + duration_ns, 1),
        ):
            write_json(folder / f"snapshot-{name}.json", _snapshot(uptime_ns, count * part, queue, held))
    machines = [
        MachineRecord(name=f"{tier}-0", address="10.0.0.1", link_mbit_s=rate, cpus=QUOTA if quotas else None)
        for tier, rate in LINKS_MBIT_S.items()
        if tier in sent
    ]
    meta = run_meta(made, run)
    update = {
        "verdict": Verdict(valid=True, reasons=[], flags=[]),
        "testbed": TestbedRecord(kind="netns", machines=machines),
    }
    write_json(folder / "run.json", meta.model_copy(update=update))


def _times(mean_ns: float, count: int) -> Any:
    return np.maximum(1, np.repeat(SHAPE, count // SHAPE.size) * mean_ns).astype(np.int64)


def _load(clients: int, times: Any, rate: float, duration_ns: int, slow: float) -> dict[str, Any]:
    windows = [{"start_ns": 0, "length_ns": SECOND, "requests": round(rate), "response_time_sum_ns": 1}]
    return {
        "schema": "weir.load/1", "weir_version": "0.1.0",
        "config": {"targets": ["127.0.0.1:1"], "connections": clients, "depth": 1, "threads": 1},
        "phases": {
            "prefill": phase(0), "warmup": phase(0), "measured": {**phase(times.size), "duration_ns": duration_ns}, "drain": phase(0),
        },
        "operations": {"get": {"requests": times.size, "misses": 0, "errors": 0, "response_time": distribution(times)}},
        "throughput_rps": rate, "windows": windows, "errors": {},
        # A generator reports its own CPU time.
        "cpu": {"user_ns": int(SYSTEM.devices[0].service_s * slow * QUOTA * times.size * 1e9), "system_ns": 0},
        "failures": {"count": 0, "first": []},
    }  # fmt: skip


def _snapshot(uptime_ns: int, count: int, queue_ns: float, held_ns: float) -> dict[str, Any]:
    means = dict.fromkeys(STAGES, 1_000.0) | {"queue": queue_ns, "backend": max(0.0, held_ns - 2_000.0)}
    parts = {stage: _times(mean, count) for stage, mean in means.items()}
    operation = {
        "requests": count, "errors": 0, "total": distribution(sum(parts.values())),
        "stages": {stage: distribution(part) for stage, part in parts.items()},
    }  # fmt: skip
    return {
        "schema": "weir.proxy/1", "weir_version": "0.1.0", "taken_unix_ns": 1, "uptime_ns": uptime_ns,
        "process": {"cpu_user_ns": 1, "cpu_system_ns": 1}, "operations": {"get": operation},
    }  # fmt: skip
