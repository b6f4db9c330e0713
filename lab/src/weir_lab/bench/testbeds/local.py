"""``local``: every role is a process of this machine, over its loopback interface."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Self

from weir_lab.bench.machine.processes import cpu_ns, free_ports, machine_busy_ns, prefer_thread, resident_bytes
from weir_lab.bench.testbeds.agent import version_of
from weir_lab.bench.testbeds.base import MachineState
from weir_lab.bench.testbeds.pinning import pinned, require_cores
from weir_lab.bench.testbeds.yardstick import Yardstick
from weir_lab.errors import TestbedError
from weir_lab.records.places import MachineRecord, PairRecord, TestbedRecord

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.testbeds.base import Machine
    from weir_lab.design.topology import Shape, Topology

__all__ = ["LocalMachine", "LocalTestbed"]

_LOOPBACK = "127.0.0.1"


class LocalTestbed:
    """One machine under many names: the one that the lab runs on."""

    def __init__(self, topology: Topology, shape: Shape) -> None:
        self._topology = topology
        for name in shape.machines:
            require_cores(topology.cores_of(name), name)
        machines = [
            MachineRecord(name=name, address=_LOOPBACK, cores=list(topology.cores_of(name))) for name in shape.machines
        ]
        notes = ["every role is a process of one machine; the links of the study's topology are not built"]
        if any(topology.cpus(name) is not None for name in shape.machines):
            notes.append("the CPU quotas of the study's topology are not set")
        self.record = TestbedRecord(kind="local", machines=machines, notes=notes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is there to be taken away."""

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
        """The machine by one of its names."""
        return LocalMachine(name, self._topology.cores_of(name))

    def measure_pair(self, sender: str, receiver: str, seconds: float) -> PairRecord:
        """There is no link to be measured."""
        raise TestbedError(
            f"the testbed local has no link between {sender} and {receiver} that could be measured for {seconds:g} s: "
            "roles share the loopback interface. Use netns or hosts."
        )

    def network(self) -> None:
        """None of ours."""

    def cores_awake(self) -> list[int]:
        """None: nothing of a topology is built."""
        return []

    def enter_awake(self) -> list[str]:
        """None."""
        return []

    def own_processes(self) -> set[int]:
        """None."""
        return set()

    def version_of(self, target: str) -> str:
        """From this machine."""
        return version_of(target)

    def identity(self) -> dict[str, str]:
        """Nothing but where processes are pinned."""
        pins = {machine.name: machine.cores for machine in self.record.machines if machine.cores}
        return {"cores": str(pins)} if pins else {}


class LocalMachine:
    """A name for this machine."""

    def __init__(self, name: str, cores: tuple[int, ...] = ()) -> None:
        self.name = name
        self.address = _LOOPBACK
        self.is_root = os.geteuid() == 0
        self.clock_offset_ns = 0
        self._cores = cores

    def free_ports(self, count: int) -> list[int]:
        """Ports of the loopback interface; from a random start, so that two calls seldom meet."""
        return free_ports(count)

    def command(self, _name: str, argv: list[str]) -> list[str]:
        """The same, pinned where asked."""
        return [*pinned(self._cores), *argv]

    def file(self, path: Path) -> str:
        """The path itself."""
        return str(path)

    def collect(self, path: Path) -> None:
        """It is there already."""

    def deliver(self, path: Path) -> None:
        """It is there already."""

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """Over the loopback interface."""
        return socket.create_connection((_LOOPBACK, port), timeout=timeout_s)

    def cpu_ns(self, process: Process) -> int:
        """From /proc."""
        return cpu_ns(process.popen.pid)

    def resident_bytes(self, process: Process) -> int:
        """From /proc."""
        return resident_bytes(process.popen.pid)

    def prefer(self, process: Process, thread: str) -> None:
        """As root."""
        prefer_thread(process.popen.pid, thread)

    def state(self) -> MachineState:
        """Roles share the loopback interface: nothing can be distinguished."""
        return MachineState()
