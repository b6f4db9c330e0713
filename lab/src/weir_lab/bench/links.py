"""Do the links of a topology bound real load as arithmetic says? `measure_bounds` asks memcached servers with ``weir load``.

A link that carries `r` bits per second carries at most `r / 8 / v` values of `v` bytes per second (reference data,
``recomputed_bandwidth_bounds.csv``: payload only). Requests and packets have headers, which take about 6 % of values of 4096 bytes, so a
bound is *reached* when 92 % of it are, and it can never be exceeded.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from weir_lab.bench.machine.facts import executable_version, file_sha256, load_average, machine_facts
from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.running import memcached_argv, wait_for_memcached
from weir_lab.bench.testbeds import TestbedKind, open_testbed, use_between
from weir_lab.design import Role
from weir_lab.design.topology import Shape, Topology
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import read_json, write_json
from weir_lab.records.formats import Count, LoadRecord, Record
from weir_lab.records.formats.merging import MergedLoad, merge_loads
from weir_lab.records.places import MachineUse, PairRecord, TestbedRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.running import Executables
    from weir_lab.bench.testbeds import Machine, Testbed

__all__ = [
    "REACHED_MIN",
    "TRIALS",
    "VALUE_BYTES",
    "BoundRecord",
    "LinksRecord",
    "Trial",
    "measure_bounds",
    "measure_directions",
    "read_bounds",
]

REACHED_MIN = 0.92
"""The share of a payload bound that must be measured: headers take about 6 %, and 2 % are left for the ends of the phases."""

VALUE_BYTES = 4096
"""Size of the values that are asked for, as in study S5."""
_KEYS = 10_000
# As the studies' client machines had. What waits for the link then, 256 KiB, lasts for longer than a generator waits for a busy CPU.
_CONNECTIONS = 64
_CLIENTS = 3
_WARMUP_S = 1.0
# A rate of a direction is known well after that.
_RATE_S_MAX = 0.5
# Generators begin together at a moment fixed before they start. On a busy machine they may not be ready by then, and say so.
_BEGIN_S = (1.0, 5.0, 25.0)
_TOO_LATE = "choose a later one"
_GRACE_S = 60.0


@dataclass(frozen=True)
class Trial:
    """Clients that ask one memcached server, and the link that bounds them."""

    name: str
    clients: int
    writes: bool

    def bound_rps(self, topology: Topology) -> float:
        """Operations per second that the tightest link carries."""
        links = topology.built_links
        mbit_s = self.clients * links.client_mbit_s if self.writes else links.server_mbit_s
        return mbit_s * 1e6 / 8 / VALUE_BYTES


TRIALS = (
    Trial("reads from one server", _CLIENTS, writes=False),
    Trial("writes of one client machine", 1, writes=True),
    Trial("writes of three client machines to one server", _CLIENTS, writes=True),
)


class BoundRecord(Record):
    """One trial, several times."""

    trial: str
    clients: Annotated[int, Field(ge=1)]
    writes: bool
    bound_rps: float
    measured_rps: list[float]
    requests: list[Count]
    dropped_packets: Count
    machines: list[dict[str, MachineUse]]
    """What each machine did from before the first to after the last phase, per repetition."""

    @property
    def mean_rps(self) -> float:
        """Mean over repetitions."""
        return statistics.fmean(self.measured_rps)

    @property
    def share(self) -> float:
        """Mean share of the bound that was measured."""
        return self.mean_rps / self.bound_rps

    @property
    def reached(self) -> bool:
        """Whether every repetition came near the bound and none exceeded it."""
        return all(REACHED_MIN <= rate / self.bound_rps <= 1.0 for rate in self.measured_rps)


class LinksRecord(Record):
    """``weir.links/1``: a topology's bounds, what was measured, and where."""

    schema_: Annotated[Literal["weir.links/1"], Field(alias="schema")] = "weir.links/1"
    topology: Topology
    value_bytes: int
    measured_s: float
    bounds: list[BoundRecord]
    pairs: list[PairRecord] = Field(default_factory=list)
    """Every direction between the first machines of the three tiers: rate, bytes on the wire, and how long packets take."""
    testbed: TestbedRecord
    machine: dict[str, str | int | float]
    load_average: list[float]
    executables: dict[str, str]
    started_unix_ns: int

    @property
    def reached(self) -> bool:
        """Whether all bounds were reached."""
        return all(bound.reached for bound in self.bounds)


def measure_bounds(
    folder: Path,
    executables: Executables,
    topology: Topology,
    measured_s: float,
    repetitions: int,
    say: Callable[[str], None],
) -> LinksRecord:
    """Measure all trials in turn, `repetitions` times each; everything measured stays in `folder`, which must be new."""
    folder.mkdir(parents=True)
    started, load = time.time_ns(), load_average()
    programs = {
        "weir": file_sha256(executables.weir),
        "memcached": executable_version([executables.memcached, "-V"]),
    }
    shape = Shape(clients=_CLIENTS, proxies=1, servers=1)
    results: dict[str, list[tuple[float, int, dict[str, MachineUse]]]] = {trial.name: [] for trial in TRIALS}
    with open_testbed(TestbedKind.NETNS, topology, shape) as testbed:
        for repetition in range(1, repetitions + 1):
            for trial in TRIALS:
                part = _part(folder, trial.name, repetition)
                part.mkdir()
                result = _measure(part, testbed, executables, trial, measured_s, seed=repetition)
                results[trial.name].append(result)
                say(f"{trial.name}, {repetition}/{repetitions}: {result[0]:,.0f} operations/s")
        pairs = measure_directions(testbed, shape, min(measured_s, _RATE_S_MAX))
        record = testbed.record
    links = LinksRecord(
        topology=topology,
        value_bytes=VALUE_BYTES,
        measured_s=measured_s,
        bounds=[_bound(trial, topology, results[trial.name]) for trial in TRIALS],
        pairs=pairs,
        testbed=record,
        machine=machine_facts(),
        load_average=load,
        executables=programs,
        started_unix_ns=started,
    )
    write_json(folder / "links.json", links)
    return links


def measure_directions(testbed: Testbed, shape: Shape, seconds: float) -> list[PairRecord]:
    """Every ordered pair of the first machines of the tiers."""
    firsts = [name for name in shape.machines if name.endswith("-0")]
    return [testbed.measure_pair(one, other, seconds) for one in firsts for other in firsts if one != other]


def read_bounds(folder: Path) -> LinksRecord:
    """The record of an earlier measurement; its rates are computed again from what the generators wrote, and must agree."""
    record = read_json(folder / "links.json", LinksRecord)
    for bound in record.bounds:
        for repetition, rate in enumerate(bound.measured_rps, start=1):
            part = _part(folder, bound.trial, repetition)
            again = _merged(part, bound.clients).throughput_rps
            if again != rate:
                raise RecordError(f"{part}: the generators' records give {again} operations/s, links.json says {rate}.")
    return record


def _part(folder: Path, trial: str, repetition: int) -> Path:
    return folder / f"{trial.replace(' ', '-')}-r{repetition}"


def _merged(part: Path, clients: int) -> MergedLoad:
    return merge_loads([read_json(part / f"load-{number}.json", LoadRecord) for number in range(clients)])


def _bound(trial: Trial, topology: Topology, results: list[tuple[float, int, dict[str, MachineUse]]]) -> BoundRecord:
    uses = [use for _, _, machines in results for use in machines.values()]
    return BoundRecord(
        trial=trial.name,
        clients=trial.clients,
        writes=trial.writes,
        bound_rps=trial.bound_rps(topology),
        measured_rps=[rate for rate, _, _ in results],
        requests=[requests for _, requests, _ in results],
        dropped_packets=sum(use.dropped_packets or 0 for use in uses),
        machines=[machines for _, _, machines in results],
    )


def _measure(
    folder: Path, testbed: Testbed, executables: Executables, trial: Trial, measured_s: float, seed: int
) -> tuple[float, int, dict[str, MachineUse]]:
    server = testbed.machine("server-0")
    clients = [testbed.machine(f"client-{number}") for number in range(trial.clients)]
    with Processes(folder) as processes:
        (port,) = server.free_ports(1)
        argv = memcached_argv(executables.memcached, server, port, threads=2, memory_mib=256, connections=1024)
        memcached = processes.start(Role.SERVERS, server.name, argv, started_as=server.command(server.name, argv))
        wait_for_memcached(server, port, memcached)
        load = _Load(processes, executables, f"{server.address}:{port}", seed, folder)
        if not trial.writes:
            words = ["--warmup", "0s", "--duration", "1ms", "--writes", "0"]
            prefill = [load.start(clients[0], "prefill", words)]
            load.wait(prefill, 0.0)
            load.require_good(prefill)
        machines = [*clients, server]
        for begin_s in _BEGIN_S:
            before = {machine.name: machine.state() for machine in machines}
            words = ["--no-prefill", "--warmup", f"{_WARMUP_S:g}s", "--duration", f"{measured_s:g}s"]
            words += ["--writes", "1" if trial.writes else "0", "--start-at", f"{time.time() + begin_s:.3f}"]
            started = [load.start(client, f"load-{number}", words) for number, client in enumerate(clients)]
            load.wait(started, begin_s + _WARMUP_S + measured_s)
            if not any(_TOO_LATE in process.last_words() for process in started):
                break
        load.require_good(started)
        after = {machine.name: machine.state() for machine in machines}
    merged = _merged(folder, trial.clients)
    wrong = merged.failures + merged.all.errors + merged.all.misses
    if wrong:
        raise TestbedError(f"{trial.name}: {wrong} requests failed; the records in {folder} name them.")
    uses = {name: use_between(before[name], state, None) for name, state in after.items()}
    return merged.throughput_rps, merged.all.requests, uses


class _Load:
    """Starts generators that ask one server."""

    def __init__(self, processes: Processes, executables: Executables, target: str, seed: int, folder: Path) -> None:
        self._processes = processes
        self._seed = seed
        self._folder = folder
        self._base = [str(executables.weir), "load", "--target", target, "--connections", str(_CONNECTIONS)]
        self._base += ["--keys", str(_KEYS), "--value-size", str(VALUE_BYTES)]

    def start(self, client: Machine, name: str, words: list[str]) -> Process:
        """One generator, with a seed of its own: clients that ask for the same keys at the same time are no three clients."""
        self._seed += 1_000
        record = client.file(self._folder / f"{name}.json")
        argv = [*self._base, *words, "--seed", str(self._seed), "--json", record]
        return self._processes.start(Role.CLIENT, name, argv, started_as=client.command(name, argv))

    def wait(self, started: list[Process], expected_s: float) -> None:
        """Wait until all have ended."""
        limit = time.monotonic() + expected_s + _GRACE_S
        for process in started:
            try:
                process.popen.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise TestbedError(f"{process.name} did not end in time; see {process.stderr_log}.") from None

    def require_good(self, started: list[Process]) -> None:
        """Raise if one ended badly."""
        for process in started:
            if process.popen.returncode != 0:
                status = process.popen.returncode
                raise TestbedError(f"{process.name} ended with status {status}: {process.last_words()}")
