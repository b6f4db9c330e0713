"""What every testbed offers: machines with names and addresses, on which programs are started.

The lab itself stands outside: `Machine.connect` reaches a port of a machine without taking anything from the links that are studied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from weir_lab.records.places import MachineUse, NetworkUse

if TYPE_CHECKING:
    import socket
    from pathlib import Path
    from types import TracebackType

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.testbeds.yardstick import Yardstick
    from weir_lab.records.places import PairRecord, TestbedRecord

__all__ = ["Machine", "MachineState", "NetworkState", "Testbed", "network_between", "use_between"]


@dataclass(frozen=True)
class MachineState:
    """Counters of a machine at one instant; ``None`` where it does not have them."""

    sent_bytes: int | None = None
    received_bytes: int | None = None
    dropped_packets: int | None = None
    throttled_ns: int | None = None


@dataclass(frozen=True)
class NetworkState:
    """Counters of a delay device at one instant, and how late packets left since it was last asked."""

    cpu_ns: int
    packets: int
    wire_bytes: int
    dropped_packets: int
    waiting_bytes_max: int
    shortest_delay_us: float
    late_median_us: float | None
    late_p99_us: float | None
    late_max_us: float | None


class Machine(Protocol):
    """One machine of a testbed."""

    @property
    def name(self) -> str:
        """Such as ``client-0``, ``proxy-0``, ``server-0``."""

    @property
    def address(self) -> str:
        """Where the other machines reach it, without a port."""

    def free_ports(self, count: int) -> list[int]:
        """Ports nobody listens on. Each call gives others, where machines share an address."""

    @property
    def is_root(self) -> bool:
        """Whether programs run there as root."""

    def command(self, name: str, argv: list[str]) -> list[str]:
        """The command line that runs `argv` on this machine when the lab starts it here as the process `name`."""

    def file(self, path: Path) -> str:
        """Where a program on this machine has to write what shall become `path` of the run's folder."""

    def collect(self, path: Path) -> None:
        """Bring such a file into the run's folder."""

    def deliver(self, path: Path) -> None:
        """Bring a file of the run's folder to where `file` says that it is on this machine."""

    @property
    def clock_offset_ns(self) -> int:
        """Its clock minus the laboratory's, as it was measured when the testbed was made."""

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """A connection of the lab to a port of this machine, beside the links."""

    def cpu_ns(self, process: Process) -> int:
        """CPU time of a process that was started here, in ns."""

    def resident_bytes(self, process: Process) -> int:
        """Memory of a process that was started here."""

    def prefer(self, process: Process, thread: str) -> None:
        """Let a thread of a process go before all others on cores that machines share with the lab, where that is allowed."""

    def state(self) -> MachineState:
        """Counters of this machine so far."""


class Testbed(Protocol):
    """Context manager: a set of machines that is there while it is open."""

    record: TestbedRecord

    def __enter__(self) -> Self:
        """Make it, and measure it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away."""

    @property
    def cores(self) -> int:
        """CPU cores of all machines together."""

    def busy_ns(self) -> int:
        """CPU time that all machines spent so far on anything but idling, over all cores."""

    def yardstick(self) -> Yardstick:
        """What tells how fast the cores are while it is open; it measures nothing where the lab does not run on them."""

    def machine(self, name: str) -> Machine:
        """A machine by its name."""

    def measure_pair(self, sender: str, receiver: str, seconds: float) -> PairRecord:
        """How fast one machine sends to another for so long, and round trips between them."""

    def network(self) -> NetworkState | None:
        """What the device between the machines did so far; ``None`` where there is none."""

    def cores_awake(self) -> list[int]:
        """Cores of this machine that are to be kept from sleeping while a run is made."""

    def enter_awake(self) -> list[str]:
        """Words before the command line of a process that keeps a core awake: so it gives way to the roles in their groups, too."""

    def own_processes(self) -> set[int]:
        """Processes of this machine that the testbed itself needs: neither roles nor others."""

    def version_of(self, target: str) -> str:
        """What a server that runs already answers to ``version``, asked from the first client machine."""

    def identity(self) -> dict[str, str]:
        """What decides the outcome of a run beside its settings, for its content hash. Empty for plain processes."""


def network_between(first: NetworkState, second: NetworkState) -> NetworkUse:
    """What the network did between two instants, if nobody else asked it in between."""
    return NetworkUse(
        packets=second.packets - first.packets,
        wire_bytes=second.wire_bytes - first.wire_bytes,
        dropped_packets=second.dropped_packets - first.dropped_packets,
        waiting_bytes_max=second.waiting_bytes_max,
        shortest_delay_us=second.shortest_delay_us,
        late_median_us=second.late_median_us,
        late_p99_us=second.late_p99_us,
        late_max_us=second.late_max_us,
    )


def use_between(first: MachineState, second: MachineState, resident_bytes: int | None) -> MachineUse:
    """What a machine did between two instants."""

    def difference(name: str) -> int | None:
        before, after = getattr(first, name), getattr(second, name)
        return None if before is None or after is None else after - before

    return MachineUse(
        sent_bytes=difference("sent_bytes"),
        received_bytes=difference("received_bytes"),
        dropped_packets=difference("dropped_packets"),
        throttled_ns=difference("throttled_ns"),
        resident_bytes=resident_bytes,
    )
