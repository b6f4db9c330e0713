"""State of all roles and machines at both ends of the measured phase: `take_edge`, and their difference."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.testbeds import mean_piece_ns, use_between
from weir_lab.design import Role
from weir_lab.errors import TestbedError
from weir_lab.records import CpuRecord, RoleCpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.bench.running.starting import Running
    from weir_lab.bench.testbeds import MachineState, Pieces, Testbed, Yardstick

__all__ = ["Edge", "cpu_between", "take_edge"]


@dataclass(frozen=True)
class Edge:
    """State at one instant. Generators may have gone at the second edge; their CPU time and memory are then missing."""

    unix_ns: int
    monotonic_ns: int
    busy_ns: int
    role_ns: dict[Role, int]
    client_ns: dict[str, int]
    machines: dict[str, MachineState]
    resident_bytes: dict[str, int]
    pieces: dict[int, Pieces]


def take_edge(
    testbed: Testbed, roles: dict[Role, list[Running]], clients: Sequence[Running], yardstick: Yardstick
) -> Edge:
    """Read everything now; CPU time first."""
    unix_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
    running = [one for members in roles.values() for one in members]
    role_ns = {role: sum(one.machine.cpu_ns(one.process) for one in members) for role, members in roles.items()}
    client_ns = {one.process.name: spent for one in clients if (spent := _cpu_ns(one)) is not None}
    resident: dict[str, int] = {}
    for one in [*clients, *running]:
        held = _resident_bytes(one)
        if held is not None:
            resident[one.machine.name] = resident.get(one.machine.name, 0) + held
    return Edge(
        unix_ns=unix_ns,
        monotonic_ns=monotonic_ns,
        busy_ns=testbed.busy_ns(),
        role_ns=role_ns,
        client_ns=client_ns,
        machines={one.machine.name: one.machine.state() for one in [*clients, *running]},
        resident_bytes=resident,
        pieces=yardstick.read(),
    )


def cpu_between(first: Edge, second: Edge, client_ns: int, cores: int) -> CpuRecord:
    """What roles and machines did between two edges; ``client_ns`` is what the generators counted themselves."""
    roles = {role: second.role_ns[role] - first.role_ns[role] for role in first.role_ns}
    # A generator reads its own clock at the exact edges; its threads may be gone when we look.
    roles[Role.CLIENT] = client_ns
    return CpuRecord(
        start_unix_ns=first.unix_ns,
        interval_ns=second.monotonic_ns - first.monotonic_ns,
        roles={role: RoleCpu(cpu_ns=spent) for role, spent in roles.items()},
        cores=cores,
        busy_ns=second.busy_ns - first.busy_ns,
        machines={
            # The memory of a generator that has gone by now is that of the first edge.
            name: use_between(
                first.machines[name], state, second.resident_bytes.get(name, first.resident_bytes.get(name))
            )
            for name, state in second.machines.items()
        },
        yardstick_ns=mean_piece_ns(first.pieces, second.pieces),
    )


def _cpu_ns(one: Running) -> int | None:
    try:
        return one.machine.cpu_ns(one.process)
    except TestbedError:
        return None


def _resident_bytes(one: Running) -> int | None:
    try:
        return one.machine.resident_bytes(one.process)
    except TestbedError:
        return None
