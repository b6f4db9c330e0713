"""Where roles run. `run_local` makes one run of one cell with processes of this machine.

Writes the measurements into the run's folder and says what went wrong; it judges nothing. The order of a run::

    memcached servers -> proxy -> prefill -> load generator: prefill, warm-up | measured | drain -> all stop
                                                               first edge ____|          |____ second edge

At an edge the CPU time of every role is read, and the proxy's counters.
"""

from __future__ import annotations

import http.client
import os
import queue
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath, Role
from weir_lab.errors import RecordError, TestbedError
from weir_lab.formats import LoadRecord
from weir_lab.processes import Process, Processes, cpu_ns, free_ports, machine_busy_ns, wait_until
from weir_lab.records import Command, CpuRecord, RoleCpu, read_json, write_json
from weir_lab.subjects import ProxyPlace, load_command, proxy_command

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design import Plan, Settings

__all__ = ["Executables", "LocalOutcome", "run_local"]

_READY_S = 10.0
_SNAPSHOT_S = 10.0
_GRACE_S = 30.0
_PREFILL_S = 120.0
_SNAPSHOT_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Executables:
    """Programs that a run starts."""

    weir: Path
    memcached: str


@dataclass(frozen=True)
class LocalOutcome:
    """What was started, and what went wrong."""

    commands: list[Command]
    problems: list[str]


@dataclass(frozen=True)
class _Edge:
    """State of all roles at one instant."""

    unix_ns: int
    monotonic_ns: int
    busy_ns: int
    role_ns: dict[Role, int]


def run_local(folder: Path, executables: Executables, settings: Settings, plan: Plan, seed: int) -> LocalOutcome:
    """Make one run with fresh processes. Problems with a role end the run and are returned, not raised."""
    problems: list[str] = []
    with Processes(folder) as processes:
        try:
            _measure(folder, processes, executables, settings, plan, seed, problems)
        except (TestbedError, RecordError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"the operating system refused: {error}")
    commands = [
        Command(role=process.role, name=process.name, argv=list(process.argv), exit_status=process.popen.returncode)
        for process in processes.started
    ]
    return LocalOutcome(commands, problems)


def _measure(
    folder: Path,
    processes: Processes,
    executables: Executables,
    settings: Settings,
    plan: Plan,
    seed: int,
    problems: list[str],
) -> None:
    ports = free_ports(settings.servers + 2)
    servers = [f"127.0.0.1:{port}" for port in ports[: settings.servers]]
    listen, admin = (f"127.0.0.1:{port}" for port in ports[settings.servers :])
    roles: dict[Role, list[Process]] = {Role.SERVERS: _start_servers(processes, executables, settings, servers)}
    if settings.path is RequestPath.PROXY:
        roles[Role.PROXY] = [_start_proxy(processes, executables, settings, listen, admin, servers)]
        targets = [listen]
    else:
        # Every server must hold every key, since any connection may ask for it.
        for index, server in enumerate(servers):
            _prefill(folder, processes, executables, settings, server, index, seed)
        targets = servers
    argv = _load_argv(executables, settings, plan, targets, seed, folder / "load.json")
    load = processes.start(Role.CLIENT, "load", argv, pipe_stderr=True)
    edges = _watch(folder, load, roles, admin if Role.PROXY in roles else None, plan)
    for process in processes.started:
        if process.role != Role.CLIENT:
            process.require_alive()
    if load.popen.returncode != 0:
        problems.append(f"load generator ended with status {load.popen.returncode}: {load.last_words()}")
    if Role.PROXY in roles:
        _save_snapshot(admin, folder / "snapshot-end.json")
    if len(edges) == 2:
        client = read_json(folder / "load.json", LoadRecord).cpu
        write_json(folder / "cpu.json", _cpu_between(edges[0], edges[1], client.user_ns + client.system_ns))


def _start_servers(
    processes: Processes, executables: Executables, settings: Settings, servers: list[str]
) -> list[Process]:
    started = []
    for index, server in enumerate(servers):
        host, port = server.split(":")
        argv = [executables.memcached, "-l", host, "-p", port, "-U", "0", "-t", str(settings.server_threads)]
        argv += ["-m", str(settings.server_memory_mib), "-c", str(settings.clients + 64)]
        if os.geteuid() == 0:
            # memcached asks root to name a user. One that it is already: another would cost it the signal that ends it with the lab.
            argv += ["-u", "root"]
        started.append(processes.start(Role.SERVERS, f"server-{index}", argv))
    for process, server in zip(started, servers, strict=True):
        wait_until(lambda server=server: _speaks_memcached(server), process, _READY_S, f"VERSION from {server}")  # type: ignore[misc]
    return started


def _start_proxy(
    processes: Processes, executables: Executables, settings: Settings, listen: str, admin: str, servers: list[str]
) -> Process:
    place = ProxyPlace(listen, admin, tuple(servers))
    argv = proxy_command(executables.weir, settings, None, place, "")
    process = processes.start(Role.PROXY, "proxy", argv)
    # A connection, not a request: the proxy's count of requests is compared with the client's.
    wait_until(lambda: _accepts(listen) and _accepts(admin), process, _READY_S, f"connections at {listen} and {admin}")
    return process


def _prefill(
    folder: Path,
    processes: Processes,
    executables: Executables,
    settings: Settings,
    server: str,
    index: int,
    seed: int,
) -> None:
    name = f"prefill-{index}"
    argv = _load_base(executables, settings, [server], seed + 1 + index)
    argv += ["--connections", "1", "--depth", "16", "--threads", "1"]
    argv += [
        "--warmup",
        "0s",
        "--duration",
        "1ms",
        "--writes",
        "0",
        "--json",
        str(folder / f"{name}.json"),
    ]
    process = processes.start(Role.CLIENT, name, argv)
    try:
        process.popen.wait(_PREFILL_S)
    except subprocess.TimeoutExpired:
        raise TestbedError(f"prefill of {server} took more than {_PREFILL_S:g} s") from None
    if process.popen.returncode != 0:
        raise TestbedError(f"prefill of {server} ended with status {process.popen.returncode}: {process.last_words()}")


def _load_argv(
    executables: Executables, settings: Settings, plan: Plan, targets: list[str], seed: int, record: Path
) -> list[str]:
    argv = _load_base(executables, settings, targets, seed)
    argv += ["--connections", str(settings.clients), "--depth", str(settings.depth)]
    argv += ["--threads", str(min(settings.client_threads, settings.clients))]
    argv += ["--warmup", f"{plan.warmup_s:g}s", "--duration", f"{plan.measured_s:g}s"]
    argv += ["--writes", f"{settings.write_ratio:g}"]
    if settings.path is RequestPath.DIRECT:
        argv.append("--no-prefill")  # each server was filled on its own
    return [*argv, "--hdr", str(record.with_suffix(".hdr")), "--json", str(record)]


def _load_base(executables: Executables, settings: Settings, targets: list[str], seed: int) -> list[str]:
    return load_command(executables.weir, settings, targets, seed)


def _watch(folder: Path, load: Process, roles: dict[Role, list[Process]], admin: str | None, plan: Plan) -> list[_Edge]:
    """Read all counters at the edges of the generator's measured phase, and wait for its end.

    The generator prints a line when the phase begins, and ends it exactly `Plan.measured_s` later. CPU time is read inside the interval
    between the two snapshots, so that the cost of a snapshot is in neither.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_copy_lines, args=(load, lines), daemon=True)
    reader.start()
    limit = time.monotonic() + plan.warmup_s + plan.measured_s + _PREFILL_S + _GRACE_S
    edges: list[_Edge] = []
    closes_at: float | None = None
    while True:
        line = _next_line(lines, limit if closes_at is None else closes_at)
        now = time.monotonic()
        if closes_at is None and isinstance(line, str) and line.startswith("measured:"):
            closes_at = now + plan.measured_s
            if admin:
                _save_snapshot(admin, folder / "snapshot-before.json")
            edges.append(_edge(roles))
        elif len(edges) == 1 and closes_at is not None and (now >= closes_at or line is None):
            edges.append(_edge(roles))
            if admin:
                _save_snapshot(admin, folder / "snapshot-after.json")
            closes_at = limit
        elif line is _NOTHING and now >= limit:
            raise TestbedError("the load generator did not end in time; it was stopped")
        if line is None:
            break
    reader.join()
    load.popen.wait()
    return edges


def _next_line(lines: queue.Queue[str | None], until: float) -> str | _Nothing | None:
    """The next line, ``None`` at the end of the stream, `_NOTHING` if neither came in time."""
    try:
        return lines.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
        return _NOTHING


class _Nothing:
    """Type of `_NOTHING`."""


_NOTHING = _Nothing()


def _copy_lines(load: Process, lines: queue.Queue[str | None]) -> None:
    assert load.popen.stderr is not None
    with load.stderr_log.open("w", encoding="utf-8") as log:
        for line in load.popen.stderr:
            log.write(line)
            log.flush()
            lines.put(line)
    lines.put(None)


def _edge(roles: dict[Role, list[Process]]) -> _Edge:
    return _Edge(
        unix_ns=time.time_ns(),
        monotonic_ns=time.monotonic_ns(),
        busy_ns=machine_busy_ns(),
        role_ns={role: sum(cpu_ns(process.popen.pid) for process in members) for role, members in roles.items()},
    )


def _cpu_between(first: _Edge, second: _Edge, client_ns: int) -> CpuRecord:
    roles = {role: second.role_ns[role] - first.role_ns[role] for role in first.role_ns}
    # The generator reads its own clock at the exact edges; its threads may be gone when we look.
    roles[Role.CLIENT] = client_ns
    return CpuRecord(
        start_unix_ns=first.unix_ns,
        interval_ns=second.monotonic_ns - first.monotonic_ns,
        roles={role: RoleCpu(cpu_ns=spent) for role, spent in roles.items()},
        cores=len(os.sched_getaffinity(0)),
        busy_ns=second.busy_ns - first.busy_ns,
    )


def _save_snapshot(admin: str, path: Path) -> None:
    connection = http.client.HTTPConnection(admin, timeout=_SNAPSHOT_S)
    try:
        connection.request("GET", "/snapshot")
        response = connection.getresponse()
        body = response.read(_SNAPSHOT_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise TestbedError(f"the proxy's admin port {admin} did not give a snapshot: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise TestbedError(f"the proxy's admin port {admin} answered GET /snapshot with status {response.status}")
    path.write_bytes(body)


def _accepts(address: str) -> bool:
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False


def _speaks_memcached(address: str) -> bool:
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0) as connection:
            connection.sendall(b"version\r\n")
            return connection.recv(64).startswith(b"VERSION")
    except OSError:
        return False
