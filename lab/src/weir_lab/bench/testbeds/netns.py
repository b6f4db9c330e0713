"""``netns``: one network namespace per machine of the topology, with links of the study's rates, and CPU quotas where it asks for them."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from weir_lab.bench.machine.processes import (
    cpu_ns,
    free_ports,
    machine_busy_ns,
    prefer_thread,
    resident_bytes,
    threads_named,
)
from weir_lab.bench.network import (
    CpuQuota,
    DelayDevice,
    IdleGroup,
    Link,
    Network,
    Node,
    clean,
    connect_in,
    find_cpu_groups,
    find_delay_device,
    measure_one_way,
    measure_round_trips,
    measure_sending_rate,
    probe,
    run_in,
    this_process,
)
from weir_lab.bench.testbeds.agent import version_of
from weir_lab.bench.testbeds.base import MachineState, NetworkState
from weir_lab.bench.testbeds.pinning import pinned, require_cores
from weir_lab.bench.testbeds.yardstick import Yardstick
from weir_lab.design.topology import tier_of
from weir_lab.errors import TestbedError
from weir_lab.records.places import MachineRecord, PairRecord, RateRecord, RoundTripRecord, TestbedRecord

if TYPE_CHECKING:
    import socket
    from pathlib import Path
    from types import TracebackType

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.network import Kernel
    from weir_lab.bench.testbeds.base import Machine
    from weir_lab.design.topology import Shape, Topology

__all__ = ["NetnsTestbed"]

_RATE_S = 0.5
_ROUND_TRIPS = 100
_ONE_WAYS, _ONE_WAY_PER_S = 300, 1_000.0
_RATE_DEVIATION_MAX = 0.05


class _Delays(StrEnum):
    """What delays packets."""

    NETEM = "netem"
    DEVICE = "weir-delay"
    NONE = "none"


class NetnsTestbed:
    """Machines of this kernel that share nothing but its CPUs and memory, and with quotas not even those."""

    def __init__(self, topology: Topology, shape: Shape) -> None:
        topology.require_room(shape, len(os.sched_getaffinity(0)))
        for name in shape.machines:
            require_cores(topology.cores_of(name), name)
        require_cores(topology.cores.network, "network")
        self._topology, self._shape = topology, shape
        self._open = ExitStack()
        self._nodes: dict[str, Node] = {}
        self._quotas: dict[str, CpuQuota] = {}
        self._delays: _Delays = _Delays.NONE
        self._device: DelayDevice | None = None
        self._idle: IdleGroup | None = None
        self.record = TestbedRecord(kind="netns", machines=[])

    def __enter__(self) -> Self:
        clean()
        kernel = probe()
        if kernel.missing:
            raise TestbedError("the testbed netns cannot be made here: " + "; ".join(kernel.missing) + ".")
        # What delays nothing would only take CPU time.
        is_delayed = any(self._topology.delay_ms(name) > 0.0 for name in self._shape.machines)
        program = find_delay_device() if is_delayed else None
        notes: list[str] = []
        if is_delayed:
            self._delays = _Delays.NETEM if kernel.has("netem") else _Delays.DEVICE if program else _Delays.NONE
            notes += [_without_delay(self._topology, kernel)] if self._delays is _Delays.NONE else []
        with ExitStack() as opening:
            self._enter_quotas(opening, notes)
            groups = find_cpu_groups()
            if self._topology.awake and not isinstance(groups, str):
                self._idle = opening.enter_context(IdleGroup(groups, this_process(), "awake"))
            owner, topology = this_process(), self._topology
            links = {
                name: Link(topology.mbit_s(name), 0.0 if self._delays is _Delays.NONE else topology.delay_ms(name))
                for name in self._shape.machines
            }
            device = program if self._delays is _Delays.DEVICE else None
            network = opening.enter_context(Network(owner, links, device, keep=pinned(topology.cores.network)))
            self._nodes, self._device = network.nodes, network.delay_device
            if self._device is not None and not self._device.first.is_real_time:
                notes.append(
                    f"weir-delay has no real-time priority and is late where cores are full: {self._device.first.priority}"
                )
            self.record = self._measured(notes)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def cores(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0))

    def busy_ns(self) -> int:
        """From /proc/stat."""
        return machine_busy_ns()

    def yardstick(self) -> Yardstick:
        """On every core that this process may use."""
        return Yardstick(sorted(os.sched_getaffinity(0)))

    def machine(self, name: str) -> Machine:
        """One namespace."""
        return _NetnsMachine(self._nodes[name], self._quotas.get(name), self._topology.cores_of(name))

    def measure_pair(self, sender: str, receiver: str, seconds: float) -> PairRecord:
        """Through the sender's link, as its token bucket counts."""
        one, other = self._nodes[sender], self._nodes[receiver]
        rate, trips = measure_sending_rate(one, other, seconds), measure_round_trips(one, other, _ROUND_TRIPS)
        way = measure_one_way(one, other, _ONE_WAY_PER_S, _ONE_WAYS)
        return PairRecord(
            sender=sender,
            receiver=receiver,
            asked_mbit_s=one.link.mbit_s,
            payload_mbit_s=rate.payload_mbit_s,
            wire_mbit_s=rate.wire_mbit_s,
            wire_bytes=rate.wire_bytes,
            round_trips=trips.count,
            min_ms=trips.min_ms,
            median_ms=trips.median_ms,
            asked_delay_ms=other.link.delay_ms or None,
            one_way_median_ms=way.median_ms,
            one_way_p99_ms=way.p99_ms,
            one_way_lost=way.lost,
        )

    def network(self) -> NetworkState | None:
        """As the delay device says, where it is one of ours."""
        if self._device is None:
            return None
        report = self._device.report()
        late = report.lateness
        return NetworkState(
            cpu_ns=report.cpu_ns,
            packets=report.packets,
            wire_bytes=report.wire_bytes,
            dropped_packets=report.dropped_packets,
            waiting_bytes_max=report.waiting_bytes_max,
            shortest_delay_us=1e3
            * min(node.link.delay_ms for node in self._nodes.values() if node.link.delay_ms > 0.0),
            late_median_us=late.median_us if late else None,
            late_p99_us=late.p99_us if late else None,
            late_max_us=late.max_us if late else None,
        )

    def cores_awake(self) -> list[int]:
        """All that this process may use, where the topology asks for it."""
        return sorted(os.sched_getaffinity(0)) if self._topology.awake else []

    def enter_awake(self) -> list[str]:
        """Into a group that gives way, where there are control groups."""
        return self._idle.enter if self._idle is not None else []

    def own_processes(self) -> set[int]:
        """The delay device."""
        return {self._device.pid} if self._device is not None else set()

    def version_of(self, target: str) -> str:
        """From this machine."""
        return version_of(target)

    def identity(self) -> dict[str, str]:
        """The topology as it is built, of the tiers that are there."""
        return {
            "testbed": "netns",
            "topology": json.dumps(self._topology.as_built(), sort_keys=True),
            "link_delay": self._delays,
            "cpu_quotas": "set" if self._quotas else "none",
            # Loops that did not give way to roles in groups of their own made other runs.
            **({"awake": "gives way" if self._idle is not None else "by policy"} if self._topology.awake else {}),
        }

    def _enter_quotas(self, opening: ExitStack, notes: list[str]) -> None:
        asked = {name: cpus for name in self._shape.machines if (cpus := self._topology.cpus(name)) is not None}
        if not asked:
            return
        groups = find_cpu_groups()
        if isinstance(groups, str):
            notes.append(f"the CPU quotas of the study's topology are not set: {groups}")
            return
        owner = this_process()
        for name, cpus in asked.items():
            self._quotas[name] = opening.enter_context(CpuQuota(groups, owner, name, cpus))

    def _measured(self, notes: list[str]) -> TestbedRecord:
        """Measure every machine's link, and the round trips between the first machines of each tier."""
        machines = [self._measured_machine(node) for node in self._nodes.values()]
        for machine in machines:
            if machine.sends is None or machine.sends.wire_mbit_s is None or machine.link_mbit_s is None:
                continue
            off = machine.sends.wire_mbit_s / machine.link_mbit_s - 1.0
            if abs(off) > _RATE_DEVIATION_MAX:
                notes.append(f"{machine.name} was measured to send {100 * off:+.0f} % off its link's rate")
        firsts = [node for name, node in self._nodes.items() if name.endswith("-0")]
        round_trips = []
        for index, one in enumerate(firsts):
            for other in firsts[index + 1 :]:
                seen = measure_round_trips(one, other, _ROUND_TRIPS)
                round_trips.append(
                    RoundTripRecord(
                        between=(one.name, other.name),
                        count=seen.count,
                        min_ms=seen.min_ms,
                        median_ms=seen.median_ms,
                    )
                )
        return TestbedRecord(
            kind="netns",
            machines=machines,
            speed=self._topology.speed,
            delayed_by=self._delayed_by(),
            awake=self._topology.awake,
            awake_gives_way=self._idle is not None,
            round_trips=round_trips,
            measured_unix_ns=time.time_ns(),
            notes=notes,
        )

    def _delayed_by(self) -> str | None:
        if self._device is not None:
            # `TestbedRecord.delay_cores` reads the cores in it.
            where = self._topology.cores.network
            on = f", on core {', '.join(map(str, where))} of those given" if where else ""
            return f"weir-delay ({self._device.first.priority}{on})"
        return "netem" if self._delays is _Delays.NETEM else None

    def _measured_machine(self, node: Node) -> MachineRecord:
        quota = self._quotas.get(node.name)
        others = [other for other in self._nodes.values() if tier_of(other.name) != tier_of(node.name)]
        sends = None
        if others:
            rate = measure_sending_rate(node, others[0], _RATE_S)
            sends = RateRecord(to=others[0].name, wire_mbit_s=rate.wire_mbit_s, payload_mbit_s=rate.payload_mbit_s)
        return MachineRecord(
            name=node.name,
            address=node.address,
            link_mbit_s=node.link.mbit_s,
            delay_ms=node.link.delay_ms or None,
            cpus=quota.cpus if quota else None,
            cores=list(self._topology.cores_of(node.name)),
            sends=sends,
        )


def _without_delay(topology: Topology, kernel: Kernel) -> str:
    links = topology.links
    asked = f"{links.client_delay_ms:g} ms at clients, {links.proxy_delay_ms:g} at proxies, {links.server_delay_ms:g} at servers"
    return (
        f"links have no latency of their own, where the study asks for {asked}: {kernel.words('netem')}, and weir-delay is not built "
        "(scripts/setup binary)"
    )


class _NetnsMachine:
    """One namespace, as the run sees it."""

    def __init__(self, node: Node, quota: CpuQuota | None, cores: tuple[int, ...]) -> None:
        self.name = node.name
        self.address = node.address
        self.is_root = True
        self.clock_offset_ns = 0
        self._node = node
        self._quota = quota
        self._cores = cores

    def free_ports(self, count: int) -> list[int]:
        """Ports in the namespace."""
        return run_in(self._node.namespace, lambda: free_ports(count))

    def command(self, _name: str, argv: list[str]) -> list[str]:
        """Into the quota, into the namespace, onto the cores."""
        quota = self._quota.enter if self._quota else []
        return [*quota, *self._node.enter, *pinned(self._cores), *argv]

    def file(self, path: Path) -> str:
        """The path itself: namespaces share the files."""
        return str(path)

    def collect(self, path: Path) -> None:
        """It is there already."""

    def deliver(self, path: Path) -> None:
        """It is there already."""

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """From inside the namespace, over its own loopback: the link sees nothing of it."""
        return connect_in(self._node.namespace, (self.address, port), timeout_s)

    def cpu_ns(self, process: Process) -> int:
        """From /proc: all machines share the processes' numbers."""
        return cpu_ns(process.popen.pid)

    def resident_bytes(self, process: Process) -> int:
        """From /proc."""
        return resident_bytes(process.popen.pid)

    def prefer(self, process: Process, thread: str) -> None:
        """As root. The machine's quota is for what it does for clients: who answers the lab must not wait until some is left."""
        prefer_thread(process.popen.pid, thread)
        if self._quota is not None:
            self._quota.let_out(threads_named(process.popen.pid, thread))

    def state(self) -> MachineState:
        """Counters of the link and of the quota."""
        traffic = self._node.traffic()
        throttling = self._quota.throttling() if self._quota else None
        return MachineState(
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
            dropped_packets=traffic.dropped_packets,
            throttled_ns=throttling.throttled_ns if throttling else None,
        )
