"""State of all roles and machines at both ends of the measured phase: `take_edge`, and their difference."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_lab.bench.machine.processes import cpu_ns, others_ns, thread_times
from weir_lab.bench.testbeds import TestbedKind, mean_piece_ns, network_between, use_between
from weir_lab.design import Role
from weir_lab.errors import TestbedError
from weir_lab.records import CpuRecord, RoleCpu
from weir_lab.records.formats.seen import threads_between

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weir_lab.bench.running.starting import Running
    from weir_lab.bench.testbeds import MachineState, NetworkState, Pieces, Testbed, Yardstick
    from weir_lab.records.formats.seen import ThreadTimes

__all__ = ["Edge", "cpu_between", "is_here", "take_edge"]


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
    network: NetworkState | None
    pieces: dict[int, Pieces]
    threads: dict[Role, ThreadTimes] = field(default_factory=dict)
    """Of each role's threads, where they are on this machine."""
    others_ns: int | None = None
    """What processes beside the roles used; ``None`` where the machines are not this one."""


def take_edge(
    testbed: Testbed,
    roles: dict[Role, list[Running]],
    clients: Sequence[Running],
    yardstick: Yardstick,
    awake: Collection[int] = (),
) -> Edge:
    """Read everything now; CPU time first, then threads. Processes that keep cores ``awake`` are as if the cores idled.

    A generator goes some milliseconds after the measured phase, and its threads with it: they are read before all that takes longer.
    """
    unix_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
    running = [one for members in roles.values() for one in members]
    role_ns = {role: sum(one.machine.cpu_ns(one.process) for one in members) for role, members in roles.items()}
    client_ns = {one.process.name: spent for one in clients if (spent := _cpu_ns(one)) is not None}
    threads = _threads({Role.CLIENT: list(clients), **roles}) if is_here(testbed) else {}
    resident: dict[str, int] = {}
    for one in [*clients, *running]:
        held = _resident_bytes(one)
        if held is not None:
            resident[one.machine.name] = resident.get(one.machine.name, 0) + held
    return Edge(
        unix_ns=unix_ns,
        monotonic_ns=monotonic_ns,
        busy_ns=testbed.busy_ns() - sum(map(cpu_ns, awake)),
        role_ns=role_ns,
        client_ns=client_ns,
        machines={one.machine.name: one.machine.state() for one in [*clients, *running]},
        resident_bytes=resident,
        network=testbed.network(),
        pieces=yardstick.read(),
        threads=threads,
        others_ns=others_ns({one.process.popen.pid for one in [*clients, *running]} | set(awake))
        if is_here(testbed)
        else None,
    )


def _threads(roles: dict[Role, list[Running]]) -> dict[Role, ThreadTimes]:
    return {
        role: {thread: times for one in members for thread, times in thread_times(one.process.popen.pid).items()}
        for role, members in roles.items()
    }


def is_here(testbed: Testbed) -> bool:
    """Whether all of its machines are this one."""
    return testbed.record.kind in (TestbedKind.LOCAL, TestbedKind.NETNS)


def cpu_between(first: Edge, second: Edge, client_ns: int, cores: int) -> CpuRecord:
    """What roles and machines did between two edges; ``client_ns`` is what the generators counted themselves."""
    roles = {role: second.role_ns[role] - first.role_ns[role] for role in first.role_ns}
    # A generator reads its own clock at the exact edges; its threads may be gone when we look.
    roles[Role.CLIENT] = client_ns
    if first.network is not None and second.network is not None:
        roles[Role.NETWORK] = second.network.cpu_ns - first.network.cpu_ns
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
        network=network_between(first.network, second.network) if first.network and second.network else None,
        yardstick_ns=mean_piece_ns(first.pieces, second.pieces),
        threads={role: threads_between(first.threads[role], second.threads.get(role, {})) for role in first.threads},
        others_ns=_others_between(first, second),
    )


def _others_between(first: Edge, second: Edge) -> int | None:
    """Without the delay device, which is a role. A process that ended without being waited for takes its time with it."""
    if first.others_ns is None or second.others_ns is None:
        return None
    device_ns = second.network.cpu_ns - first.network.cpu_ns if first.network and second.network else 0
    return max(0, second.others_ns - first.others_ns - device_ns)


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
