"""What a run's record says about where it ran: ``testbed.json`` of a sweep, and what each machine did in a run."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from weir_lab.records.formats import Count, Record

__all__ = [
    "AWAKE_TOOK_TIME",
    "MachineRecord",
    "MachineUse",
    "NetworkUse",
    "PairRecord",
    "RateRecord",
    "RoundTripRecord",
    "TestbedRecord",
]


class RateRecord(Record):
    """How fast a machine was measured to send."""

    to: str
    payload_mbit_s: float
    wire_mbit_s: float | None = None
    """Bits on the wire, packets' headers included; ``None`` where only the payload can be counted."""


class RoundTripRecord(Record):
    """A byte there and back between two machines."""

    between: tuple[str, str]
    count: Annotated[int, Field(ge=1)]
    min_ms: float
    median_ms: float


class PairRecord(Record):
    """What one machine can send to another, and how long a byte takes there and back."""

    sender: str
    receiver: str
    asked_mbit_s: float | None = None
    """What the sender's link was given; ``None`` where nothing limits it."""
    payload_mbit_s: float
    wire_mbit_s: float | None = None
    wire_bytes: Count | None = None
    """Bytes that were counted on the wire for this rate."""
    round_trips: Annotated[int, Field(ge=1)]
    min_ms: float
    median_ms: float
    asked_delay_ms: float | None = None
    """What the way to the receiver was to take; ``None`` where nothing delays it."""
    one_way_median_ms: float | None = None
    """One way, by the kernel's stamps at both ends; ``None`` where machines share no clock."""
    one_way_p99_ms: float | None = None
    one_way_lost: Count | None = None

    def values_per_s(self, value_bytes: int) -> float:
        """Values of this size in bytes a second that the direction was measured to carry, by its payload.

        >>> pair = PairRecord(sender="server-0", receiver="client-0", payload_mbit_s=101.0, round_trips=1, min_ms=0.7, median_ms=0.8)
        >>> round(pair.values_per_s(4096))
        3082
        """
        return self.payload_mbit_s * 1e6 / 8 / value_bytes


class MachineRecord(Record):
    """One machine of a testbed."""

    name: str
    address: str
    link_mbit_s: float | None = None
    """What it was to send at most; ``None`` where nothing limits it."""
    delay_ms: float | None = None
    """How long what it receives is delayed; ``None`` where nothing delays it."""
    cpus: float | None = None
    """Its CPU quota; ``None`` where it shares all CPUs with the others."""
    cores: list[int] = Field(default_factory=list)
    """Cores it is pinned to; empty where it is not."""
    sends: RateRecord | None = None
    clock_offset_ms: float | None = None
    """Its clock minus the lab's, where they are not the same."""


_ON_CORES = re.compile(r"on core (\d+(?:, \d+)*) of those given")
_AWAKE = "a loop of the lowest priority kept each core from sleeping in runs, because a host takes its time to wake it"
AWAKE_TOOK_TIME = (
    "it did not give way to machines in control groups: where they wanted the core it had a share like one of them, and a machine that had "
    "used its CPU quota waited for up to 4 ms more"
)


class TestbedRecord(Record):
    """``weir.testbed/1``: machines and links, asked for and measured before the first run."""

    __test__ = False  # pytest must not take the name for a test class

    schema_: Annotated[Literal["weir.testbed/1"], Field(alias="schema")] = "weir.testbed/1"
    kind: str
    machines: list[MachineRecord]
    speed: float = 1.0
    """The study's speed factor: rates and quotas of `machines` are the study's times this, delays are divided by it."""
    awake: bool = False
    """Whether a loop of the lowest priority kept each core from sleeping in runs."""
    awake_gives_way: bool = False
    """Whether that loop took nothing from machines in control groups of their own. Until 2026-11-27 it did."""
    delayed_by: str | None = None
    """What delays packets, and with which priority; ``None`` where nothing does."""
    round_trips: list[RoundTripRecord] = Field(default_factory=list)
    measured_unix_ns: int | None = None
    notes: list[str] = Field(default_factory=list)
    """What the study asked for and the testbed could not build, and what else a reader must know."""

    @property
    def awake_took_time(self) -> bool:
        """Whether the loop that kept cores awake took CPU time from machines with quotas."""
        return self.awake and not self.awake_gives_way and any(one.cpus is not None for one in self.machines)

    @property
    def kept_awake(self) -> str | None:
        """What kept cores awake, and what that cost the machines; ``None`` where nothing did."""
        if not self.awake:
            return None
        return f"{_AWAKE}; {AWAKE_TOOK_TIME}" if self.awake_took_time else _AWAKE

    @property
    def delay_cores(self) -> tuple[int, ...]:
        """Cores that the delay device is pinned to; empty where it is not, or there is none."""
        found = _ON_CORES.search(self.delayed_by or "")
        return tuple(int(one) for one in found[1].split(", ")) if found else ()

    @property
    def shares_cpu(self) -> bool:
        """Whether machines compete for the same CPUs, so that nothing can be concluded about how the system scales."""
        return self.kind != "hosts" and any(machine.cpus is None for machine in self.machines)


class NetworkUse(Record):
    """What the delay device did between the two edges; its CPU time is that of the role ``network``."""

    packets: Count
    wire_bytes: Count
    dropped_packets: Count
    waiting_bytes_max: Count
    """The most that waited at one port since the device started."""
    shortest_delay_us: float
    late_median_us: float | None = None
    """How much later than due packets left; negative is early, ``None`` where none left."""
    late_p99_us: float | None = None
    late_max_us: float | None = None


class MachineUse(Record):
    """What a machine did between the two edges of the measured phase."""

    sent_bytes: Count | None = None
    received_bytes: Count | None = None
    dropped_packets: Count | None = None
    throttled_ns: Count | None = None
    """Time for which its CPU quota held it, summed over CPUs; ``None`` without a quota."""
    resident_bytes: Count | None = None
    """Memory of its processes at the second edge."""
