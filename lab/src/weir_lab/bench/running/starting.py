"""Processes on machines: `Starter`; and the memcached servers of a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.machine.processes import Process, wait_until
from weir_lab.design import Engine, RequestPath, Role
from weir_lab.errors import TestbedError
from weir_lab.records import ServerSettings, ServersRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.bench.machine.processes import Processes
    from weir_lab.bench.programs.generators import OwnKeys
    from weir_lab.bench.testbeds import Machine, Testbed
    from weir_lab.design import Settings

__all__ = [
    "Executables",
    "Running",
    "Starter",
    "accepts",
    "keep_awake",
    "memcached_argv",
    "read_settings",
    "start_servers",
    "wait_for_memcached",
]

READY_S = 10.0
_CONNECT_S = 1.0
# SCHED_IDLE gives way to others of the same group only, so that the testbed puts it into a group that gives way; where it cannot, the
# group of its session at least has the least weight. It yields all the time because a role whose quota begins anew is no reason for the
# kernel to look who should run: without that it waited for the next tick, up to 4 ms. Waiting instructions would make a host take the
# core away.
_AWAKE = (
    "import os\n"
    "os.sched_setaffinity(0, {{{core}}})\n"
    "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
    "try:\n"
    "    open('/proc/self/autogroup', 'w').write('19')\n"
    "except OSError:\n"
    "    pass\n"
    "give_way = os.sched_yield\n"
    "while True:\n"
    "    give_way()\n"
)
# Connections that memcached must allow beside those of its clients: the lab's own, and pipelined ones of event loops.
_SPARE_CONNECTIONS = 64


@dataclass(frozen=True)
class Executables:
    """Programs that a run starts."""

    weir: Path
    memcached: str


@dataclass(frozen=True)
class Running:
    """A started process and the machine that it runs on."""

    process: Process
    machine: Machine


@dataclass(frozen=True)
class Starter:
    """Starts processes on machines; one place, so that each is stopped."""

    processes: Processes
    testbed: Testbed
    executables: Executables
    folder: Path
    own_keys: OwnKeys | None = None
    """What the keys of the run are like, where they lie among those of others."""

    def machine(self, name: str) -> Machine:
        """A machine of the testbed."""
        return self.testbed.machine(name)

    def start(self, machine: Machine, role: Role, name: str, argv: list[str], *, piped: str | None = None) -> Running:
        """Start a process; of ``piped``, ``stdout`` or ``stderr``, the caller reads the lines and keeps the log."""
        started_as = machine.command(name, argv)
        # On a host what can be killed is SSH, not what it started: that ends by being asked.
        abrupt = role is Role.SERVERS and self.testbed.record.kind != "hosts"
        process = self.processes.start(role, name, argv, started_as=started_as, piped=piped, abrupt=abrupt)
        return Running(process, machine)

    def free_ports(self, machines: Sequence[Machine]) -> list[int]:
        """A free port for each entry; all differ, because machines may share an address, and one may be in the list twice."""
        ports: list[int] = []
        for machine in machines:
            ports.append(next(port for port in machine.free_ports(len(machines)) if port not in ports))
        return ports


def keep_awake(starter: Starter) -> list[Process]:
    """Start what keeps cores from sleeping until the end of the run, where the testbed asks for it: a process for each core."""
    enter = starter.testbed.enter_awake()
    return [
        starter.processes.start(
            "awake", f"awake-{core}", [*enter, sys.executable, "-I", "-S", "-c", _AWAKE.format(core=core)], abrupt=True
        )
        for core in starter.testbed.cores_awake()
    ]


def start_servers(starter: Starter, settings: Settings) -> tuple[list[Running], list[str]]:
    """Start all memcached servers of a cell and wait until they answer; their addresses are the second."""
    machines = [starter.machine(f"server-{number}") for number in range(settings.servers)]
    ports, started = starter.free_ports(machines), []
    for machine, port in zip(machines, ports, strict=True):
        argv = memcached_argv(
            starter.executables.memcached,
            machine,
            port,
            threads=settings.server_threads,
            memory_mib=settings.server_memory_mib,
            connections=_connections(settings),
        )
        started.append(starter.start(machine, Role.SERVERS, machine.name, argv))
    for running, port in zip(started, ports, strict=True):
        wait_for_memcached(running.machine, port, running.process)
    return started, [f"{machine.address}:{port}" for machine, port in zip(machines, ports, strict=True)]


def read_settings(servers: Sequence[Running], addresses: Sequence[str]) -> ServersRecord:
    """What each memcached server says it was run with; `TestbedError` if one does not answer."""
    found = []
    for running, address in zip(servers, addresses, strict=True):
        reported = _stats_settings(running.machine, int(address.rpartition(":")[2]))
        try:
            found.append(
                ServerSettings(
                    address=address, threads=int(reported["num_threads"]), memory_bytes=int(reported["maxbytes"])
                )
            )
        except (KeyError, ValueError) as error:
            raise TestbedError(f"memcached at {address} did not tell its settings ({error})") from error
    return ServersRecord(servers=found)


def _stats_settings(machine: Machine, port: int) -> dict[str, str]:
    text = b""
    try:
        with machine.connect(port, _CONNECT_S) as connection:
            connection.sendall(b"stats settings\r\n")
            while not text.endswith(b"END\r\n") and (part := connection.recv(65_536)):
                text += part
    except OSError as error:
        raise TestbedError(f"memcached at {machine.address}:{port} did not tell its settings: {error}") from error
    rows = [line.split(" ", 2) for line in text.decode("ascii", errors="replace").splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "STAT"}


def _connections(settings: Settings) -> int:
    """How many connections one server may get: from all clients, or from all that serve in all proxies."""
    if settings.path is RequestPath.DIRECT:
        return settings.clients + _SPARE_CONNECTIONS
    per_proxy = settings.proxy_threads
    if settings.engine is Engine.POOL:
        per_proxy = settings.workers or 1
    elif settings.engine is Engine.SPLIT:
        # Its readers, one connection each, and those of every other server's for keys of multi-gets; its writers.
        per_proxy = settings.servers * ((settings.readers or 1) + 1)
    return settings.clients + settings.proxies * per_proxy * 2 + _SPARE_CONNECTIONS


def memcached_argv(
    program: str, machine: Machine, port: int, *, threads: int, memory_mib: int, connections: int
) -> list[str]:
    """Command line of a memcached server."""
    argv = [program, "-l", machine.address, "-p", str(port), "-U", "0"]
    argv += ["-t", str(threads), "-m", str(memory_mib), "-c", str(connections)]
    if machine.is_root:
        # memcached asks root to name a user. One that it is already: another would cost it the signal that ends it with the lab.
        argv += ["-u", "root"]
    return argv


def wait_for_memcached(machine: Machine, port: int, process: Process) -> None:
    """Wait until a memcached server answers."""
    what = f"VERSION from {machine.address}:{port}"
    wait_until(lambda: _speaks_memcached(machine, port), process, READY_S, what)


def accepts(machine: Machine, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        with machine.connect(port, _CONNECT_S):
            return True
    except OSError:
        return False


def _speaks_memcached(machine: Machine, port: int) -> bool:
    try:
        with machine.connect(port, _CONNECT_S) as connection:
            connection.sendall(b"version\r\n")
            return connection.recv(64).startswith(b"VERSION")
    except OSError:
        return False
