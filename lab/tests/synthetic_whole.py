"""Whole studies made of numbers that are known: limits, costs per operation, drift. `Truth` is the system, `write_whole` its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthetic import EXECUTABLES, SECOND, distribution, phase, run_meta
from weir_lab.design import Kind, RequestPath, Role, Settings, Study, load_study, schedule
from weir_lab.design.whole.sets import sweep_folder
from weir_lab.design.whole.variants import with_event_engine
from weir_lab.records import CpuRecord, RoleCpu, SweepMeta, Verdict, runs_folder, write_json
from weir_lab.records.formats import STAGES
from weir_lab.records.places import MachineRecord, RateRecord, RoundTripRecord, TestbedRecord
from weir_lab.report.numbers.stations import link_bounds

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design import ScheduledRun
    from weir_lab.design.topology import Links
    from weir_lab.design.whole.sets import StudySet

REQUESTS = 1200
# Few different times make small histograms, which are quick to write and to read.
SHAPE = np.array([0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.2])
SHAPE = SHAPE / SHAPE.mean()
HEADERS = 0.96
"""Of a link's rate, what is left for payload."""


@dataclass(frozen=True)
class Truth:
    """A closed system: light requests take `alone_ms`, a link or the workers limit, each replica makes a SET dearer."""

    alone_ms: float = 2.0
    links: bool = True
    worker_ms: float = 2.0
    replica_share: float = 0.5  # a SET takes this much longer per further replica
    whole_key_ms: float = 1.0  # per key of a multi-get that is not split
    sharded_key_ms: float = 0.4
    sharded_start_ms: float = 0.5
    drift: float = 0.0  # change of throughput from the start of a trace to its end
    spread: float = 0.004
    event_gain: float = 1.2
    proxy_gain: float = 1.0  # throughput through a proxy over that of direct access
    peer_gain: float = 0.8  # of another proxy, in place of event_gain
    slow_block: float = 1.0  # the machine's speed in the second block
    yardstick: bool = False  # whether one was read

    def parts(self, settings: Settings, links: Links) -> tuple[float, dict[str, float]]:
        """Requests per second, and the response time of each operation in ms."""
        ratio = settings.write_ratio
        costs = {"get": 1.0, "set": 1.0 + self.replica_share * (settings.replicas - 1)}
        if settings.multiget_keys > 1:
            keys = settings.multiget_keys
            split = settings.multiget == "sharded"
            alone = self.sharded_start_ms + self.sharded_key_ms * keys if split else self.whole_key_ms * keys
            costs["multiget"] = (self.alone_ms + alone) / self.alone_ms
            del costs["get"]
        shares = {name: ratio if name == "set" else 1.0 - ratio for name in costs}
        alone_ms = self.alone_ms * sum(costs[name] * share for name, share in shares.items())
        event = settings.engine.value == "event" and settings.path is RequestPath.PROXY
        gain = self.event_gain if settings.subject == "weir" else self.peer_gain
        proxied = self.proxy_gain if settings.path is RequestPath.PROXY else 1.0
        rate = 1e3 * settings.population / alone_ms * proxied * (gain if event else 1.0)
        if self.links:
            rate = min(rate, *(HEADERS * bound.requests_per_s for bound in link_bounds(settings, links)))
        if settings.path is RequestPath.PROXY and settings.workers:
            rate = min(rate, 1e3 * settings.workers * settings.proxies / self.worker_ms)
        mean_ms = 1e3 * settings.population / rate
        return rate, {
            name: mean_ms * costs[name] * self.alone_ms / alone_ms for name, share in shares.items() if share > 0
        }


def write_whole(root: Path, study_set: StudySet, truth: Truth, *, leave_out: tuple[str, ...] = ()) -> None:
    """Every run of a set's studies as they are written, below `root`; the files lie in ``root/studies``."""
    for file in study_set.files:
        if file in leave_out:
            continue
        path = root / "studies" / file
        _write_sweep(sweep_folder(root, file), path.read_text(), truth)
        sibling = with_event_engine(path.read_text()) if study_set.engines_beside(file, "quick") else None
        if sibling is not None:
            _write_sweep(sweep_folder(root, file, event=True), sibling, truth)


def _write_sweep(folder: Path, text: str, truth: Truth) -> None:
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(text)
    made = load_study(folder / "study.toml")
    write_json(folder / "sweep.json", SweepMeta(executables=EXECUTABLES, command=["weir-lab", "study"]))
    for run in schedule(made):
        _write_run(runs_folder(folder) / run.name, made, run, truth)
    # A first attempt that failed a gate: counted, and left out.
    failed = next(iter(schedule(made)))
    meta = run_meta(made, failed)
    verdict = Verdict(valid=False, reasons=["3 misses in phase measured"], flags=[])
    (runs_folder(folder) / f"{failed.name}-failed").mkdir()
    write_json(runs_folder(folder) / f"{failed.name}-failed" / "run.json", meta.model_copy(update={"verdict": verdict}))


def _write_run(folder: Path, made: Study, run: ScheduledRun, truth: Truth) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng([made.plan.seed, run.position])
    settings = run.cell.settings
    if made.kind is Kind.HASH:
        counts = rng.multinomial(settings.keys, [1 / settings.servers] * settings.servers).tolist()
        write_json(folder / "keys.json", {"schema": "weir.keys/1", "placement": "modulo", "keys": counts})
    elif made.kind is Kind.LINKS:
        ends = (("client-0", "server-0", 201.0), ("server-0", "client-0", 101.0))
        pairs = [
            {
                "sender": one, "receiver": other, "asked_mbit_s": rate, "payload_mbit_s": HEADERS * rate, "wire_mbit_s": rate,
                "round_trips": 100, "min_ms": 0.7, "median_ms": 0.8,
            }
            for one, other, rate in ends
        ]  # fmt: skip
        write_json(folder / "pairs.json", {"schema": "weir.pairs/1", "seconds": made.plan.measured_s, "pairs": pairs})
    elif made.kind.runs_load:
        _write_load(folder, made, settings, rng, truth, truth.slow_block if run.repetition == 2 else 1.0)
    meta = run_meta(made, run)
    verdict = Verdict(valid=True, reasons=[], flags=[])
    write_json(
        folder / "run.json",
        meta.model_copy(update={"verdict": verdict, "testbed": testbed(settings) if truth.links else None}),
    )


def _write_load(
    folder: Path, made: Study, settings: Settings, rng: np.random.Generator, truth: Truth, machine: float
) -> None:
    rate, times_ms = truth.parts(settings, made.topology.links)
    speed = machine * float(np.exp(rng.normal(0.0, truth.spread)))
    rate *= speed
    shares = {name: (settings.write_ratio if name == "set" else 1.0 - settings.write_ratio) for name in times_ms}
    times = {}
    for name, mean_ms in times_ms.items():
        count = max(300, round(REQUESTS * shares[name]))
        times[name] = np.maximum(1, np.repeat(SHAPE, -(-count // SHAPE.size)) * 1e6 * mean_ms / speed).astype(np.int64)
    # Few writes are drawn more often than their share, so that they have percentiles; the whole mean must obey the law all the same.
    merged = np.concatenate(list(times.values()))
    factor = settings.population / rate * 1e9 / merged.mean()
    times = {name: np.maximum(1, part * factor).astype(np.int64) for name, part in times.items()}
    total = sum(part.size for part in times.values())
    duration_ns = int(total / rate * 1e9)
    write_json(folder / "load.json", _load(settings, times, rate, duration_ns, rng, truth, made.kind))
    roles = {role.value: RoleCpu(cpu_ns=int(share * duration_ns)) for role, share in _cores(settings).items()}
    busy = sum(role.cpu_ns for role in roles.values())
    yardstick = {str(core): 200_000.0 / machine for core in range(8)} if truth.yardstick else {}
    cpu = CpuRecord(
        start_unix_ns=1, interval_ns=duration_ns, roles=roles, cores=8, busy_ns=busy, yardstick_ns=yardstick
    )
    write_json(folder / "cpu.json", cpu)
    if settings.path is RequestPath.PROXY and settings.subject == "weir":
        for name, uptime_ns, part in (
            ("before", SECOND, 0),
            ("after", SECOND + duration_ns, 1),
            ("end", 2 * SECOND + duration_ns, 1),
        ):
            snapshot = _snapshot(uptime_ns, times if part else {}, truth)
            for place in range(settings.proxies):
                file = f"snapshot-{name}.json" if place == 0 else f"snapshot-{name}-{place}.json"
                write_json(folder / file, snapshot if place == 0 else _snapshot(uptime_ns, {}, truth))


def _cores(settings: Settings) -> dict[Role, float]:
    found = {Role.CLIENT: 0.2, Role.SERVERS: 0.3}
    return {**found, Role.PROXY: 0.4} if settings.path is RequestPath.PROXY else found


def _load(
    settings: Settings,
    times: dict[str, Any],
    rate: float,
    duration_ns: int,
    rng: np.random.Generator,
    truth: Truth,
    kind: Kind,
) -> dict[str, Any]:
    total = sum(part.size for part in times.values())
    measured = {**phase(total), "duration_ns": duration_ns}
    operations = {
        name: {"requests": part.size, "misses": 0, "errors": 0, "response_time": distribution(part)}
        for name, part in times.items()
    }
    count = 60 if kind is Kind.TRACE else 2
    mean_ns = settings.population / rate * 1e9
    windows = []
    for index in range(count):
        here = rate * (1.0 + truth.drift * index / count) * float(np.exp(rng.normal(0.0, 0.005)))
        windows.append(
            {
                "start_ns": index * SECOND,
                "length_ns": SECOND,
                "requests": round(here),
                "response_time_sum_ns": round(here * mean_ns),
            }
        )
    return {
        "schema": "weir.load/1", "weir_version": "0.1.0",
        "config": {"targets": ["127.0.0.1:1"], "connections": settings.clients, "depth": 1, "threads": 1},
        "phases": {"prefill": phase(0), "warmup": phase(0), "measured": measured, "drain": phase(0)},
        "operations": operations, "throughput_rps": rate, "windows": windows,
        "cpu": {"user_ns": duration_ns // 10, "system_ns": duration_ns // 10}, "failures": {"count": 0, "first": []}, "errors": {},
    }  # fmt: skip


def _snapshot(uptime_ns: int, times: dict[str, Any], truth: Truth) -> dict[str, Any]:
    """The proxy sees all but 0.2 ms of each request; a request holds its worker for `worker_ms`, the rest is queued."""
    operations = {}
    for name, part in times.items():
        inside = np.maximum(1000, part - 200_000)
        backend = np.minimum(inside * 0.9, 1e6 * truth.worker_ms * 0.9).astype(np.int64)
        small = (inside * 0.01).astype(np.int64)
        stages = {"read": small, "dispatch": small, "send": small, "reply": small, "backend": backend}
        stages["queue"] = inside - backend - 4 * small
        operations[name] = {
            "requests": part.size, "errors": 0, "total": distribution(inside),
            "stages": {stage: distribution(stages[stage]) for stage in STAGES},
        }  # fmt: skip
    return {
        "schema": "weir.proxy/1", "weir_version": "0.1.0", "taken_unix_ns": 1, "uptime_ns": uptime_ns,
        "process": {"cpu_user_ns": 1, "cpu_system_ns": 1}, "operations": operations,
    }  # fmt: skip


def testbed(settings: Settings) -> TestbedRecord:
    """A network with the links of study S5."""
    names = [("client-0", 201.0), ("proxy-0", 804.0), ("server-0", 101.0)]
    machines = [
        MachineRecord(
            name=name, address="10.0.0.1", link_mbit_s=rate, sends=RateRecord(to="server-0", payload_mbit_s=0.94 * rate)
        )
        for name, rate in names
        if name != "proxy-0" or settings.path is RequestPath.PROXY
    ]
    trip = RoundTripRecord(between=("client-0", "server-0"), count=100, min_ms=0.7, median_ms=0.72)
    return TestbedRecord(kind="netns", machines=machines, round_trips=[trip])


testbed.__test__ = False  # type: ignore[attr-defined]
