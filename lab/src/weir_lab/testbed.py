"""One run of one cell on the machines of a testbed: `make_run`.

Writes the measurements into the run's folder and says what went wrong; it judges nothing. The order of a run::

    memcached servers -> proxy -> prefill -> load generator: prefill, warm-up | measured | drain -> all stop
                                                               first edge ____|          |____ second edge

At an edge the CPU time of every role is read, and the proxy's counters.
"""

from __future__ import annotations

import http.client
import queue
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath, Role
from weir_lab.errors import RecordError, TestbedError
from weir_lab.formats import LoadRecord
from weir_lab.processes import Process, Processes, wait_until
from weir_lab.records import Command, CpuRecord, RoleCpu, read_json, write_json
from weir_lab.testbeds import use_between
from weir_lab.topology import Shape

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design import Plan, Settings
    from weir_lab.testbeds import Machine, MachineState, Testbed

__all__ = ["Executables", "RunOutcome", "make_run", "memcached_argv", "shape_of", "wait_for_memcached"]

_READY_S = 10.0
_CONNECT_S = 1.0
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
class RunOutcome:
    """What was started, and what went wrong."""

    commands: list[Command]
    problems: list[str]


@dataclass(frozen=True)
class _Edge:
    """State of all roles and machines at one instant."""

    unix_ns: int
    monotonic_ns: int
    busy_ns: int
    role_ns: dict[Role, int]
    machines: dict[str, MachineState]
    resident_bytes: dict[str, int]


@dataclass(frozen=True)
class _Running:
    """A started process and the machine that it runs on."""

    process: Process
    machine: Machine


class _Starter:
    """Starts processes on machines; one place, so that each is stopped."""

    def __init__(self, processes: Processes, executables: Executables, settings: Settings) -> None:
        self._processes = processes
        self.executables = executables
        self.settings = settings

    def start(self, machine: Machine, role: Role, name: str, argv: list[str], *, pipe_stderr: bool = False) -> _Running:
        started_as = machine.command(name, argv)
        process = self._processes.start(role, name, argv, started_as=started_as, pipe_stderr=pipe_stderr)
        return _Running(process, machine)


def shape_of(settings: Settings) -> Shape:
    """Machines that a run with these settings needs."""
    return Shape(clients=1, proxies=1 if settings.path is RequestPath.PROXY else 0, servers=settings.servers)


def make_run(
    testbed: Testbed, folder: Path, executables: Executables, settings: Settings, plan: Plan, seed: int
) -> RunOutcome:
    """Make one run with fresh processes. Problems with a role end the run and are returned, not raised."""
    problems: list[str] = []
    with Processes(folder) as processes:
        try:
            starter = _Starter(processes, executables, settings)
            _measure(folder, testbed, starter, plan, seed, problems)
        except (TestbedError, RecordError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"the operating system refused: {error}")
    commands = [
        Command(role=process.role, name=process.name, argv=list(process.argv), exit_status=process.popen.returncode)
        for process in processes.started
    ]
    return RunOutcome(commands, problems)


def _measure(folder: Path, testbed: Testbed, starter: _Starter, plan: Plan, seed: int, problems: list[str]) -> None:
    settings = starter.settings
    client, servers = testbed.machine("client-0"), [testbed.machine(f"server-{n}") for n in range(settings.servers)]
    proxies = [testbed.machine("proxy-0")] if settings.path is RequestPath.PROXY else []
    ports = _distinct_ports([*servers, *proxies, *proxies])
    server_ports, proxy_ports = ports[: len(servers)], ports[len(servers) :]
    addresses = [f"{machine.address}:{port}" for machine, port in zip(servers, server_ports, strict=True)]
    roles: dict[Role, list[_Running]] = {Role.SERVERS: _start_servers(starter, servers, server_ports)}
    admin: tuple[Machine, int] | None = None
    if proxies:
        proxy, (listen, admin_port) = proxies[0], proxy_ports
        roles[Role.PROXY] = [_start_proxy(starter, proxy, listen, admin_port, addresses)]
        targets, admin = [f"{proxy.address}:{listen}"], (proxy, admin_port)
    else:
        # Every server must hold every key, since any connection may ask for it.
        for index, address in enumerate(addresses):
            _prefill(folder, starter, client, address, index, seed)
        targets = addresses
    record = folder / "load.json"
    argv = _load_argv(starter.executables, settings, plan, targets, seed, client.file(record))
    load = starter.start(client, Role.CLIENT, "load", argv, pipe_stderr=True)
    edges = _watch(folder, testbed, load, roles, admin, plan)
    for members in roles.values():
        for one in members:
            one.process.require_alive()
    client.collect(record)
    if load.process.popen.returncode != 0:
        problems.append(
            f"load generator ended with status {load.process.popen.returncode}: {load.process.last_words()}"
        )
    if admin is not None:
        _save_snapshot(*admin, folder / "snapshot-end.json")
    if len(edges) == 2:
        spent = read_json(record, LoadRecord).cpu
        write_json(
            folder / "cpu.json", _cpu_between(edges[0], edges[1], spent.user_ns + spent.system_ns, testbed.cores)
        )


def _start_servers(starter: _Starter, machines: list[Machine], ports: list[int]) -> list[_Running]:
    settings, started = starter.settings, []
    for machine, port in zip(machines, ports, strict=True):
        argv = memcached_argv(
            starter.executables.memcached,
            machine,
            port,
            threads=settings.server_threads,
            memory_mib=settings.server_memory_mib,
            connections=settings.clients + 64,
        )
        started.append(starter.start(machine, Role.SERVERS, machine.name, argv))
    for running, port in zip(started, ports, strict=True):
        wait_for_memcached(running.machine, port, running.process)
    return started


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
    wait_until(lambda: _speaks_memcached(machine, port), process, _READY_S, what)


def _start_proxy(starter: _Starter, machine: Machine, port: int, admin_port: int, servers: list[str]) -> _Running:
    listen, admin = f"{machine.address}:{port}", f"{machine.address}:{admin_port}"
    argv = [str(starter.executables.weir), "proxy", "--listen", listen, "--admin", admin]
    argv += ["--threads", str(starter.settings.proxy_threads)]
    for server in servers:
        argv += ["--server", server]
    running = starter.start(machine, Role.PROXY, "proxy", argv)
    # A connection, not a request: the proxy's count of requests is compared with the client's.
    wait_until(
        lambda: _accepts(machine, port) and _accepts(machine, admin_port),
        running.process,
        _READY_S,
        f"connections at {listen} and {admin}",
    )
    return running


def _prefill(folder: Path, starter: _Starter, client: Machine, server: str, index: int, seed: int) -> None:
    name = f"prefill-{index}"
    record = folder / f"{name}.json"
    argv = _load_base(starter.executables, starter.settings, [server], seed + 1 + index)
    argv += ["--connections", "1", "--depth", "16", "--threads", "1"]
    argv += ["--warmup", "0s", "--duration", "1ms", "--writes", "0", "--json", client.file(record)]
    process = starter.start(client, Role.CLIENT, name, argv).process
    try:
        process.popen.wait(_PREFILL_S)
    except subprocess.TimeoutExpired:
        raise TestbedError(f"prefill of {server} took more than {_PREFILL_S:g} s") from None
    if process.popen.returncode != 0:
        raise TestbedError(f"prefill of {server} ended with status {process.popen.returncode}: {process.last_words()}")
    client.collect(record)


def _distinct_ports(machines: list[Machine]) -> list[int]:
    """A free port for each entry; all differ, because machines may share an address, and one may be in the list twice."""
    ports: list[int] = []
    for machine in machines:
        ports.append(next(port for port in machine.free_ports(len(machines)) if port not in ports))
    return ports


def _load_argv(
    executables: Executables, settings: Settings, plan: Plan, targets: list[str], seed: int, record: str
) -> list[str]:
    argv = _load_base(executables, settings, targets, seed)
    argv += ["--connections", str(settings.clients), "--depth", str(settings.depth)]
    argv += ["--threads", str(min(settings.client_threads, settings.clients))]
    argv += ["--warmup", f"{plan.warmup_s:g}s", "--duration", f"{plan.measured_s:g}s"]
    argv += ["--writes", f"{settings.write_ratio:g}"]
    if settings.path is RequestPath.DIRECT:
        argv.append("--no-prefill")  # each server was filled on its own
    return [*argv, "--json", record]


def _load_base(executables: Executables, settings: Settings, targets: list[str], seed: int) -> list[str]:
    argv = [str(executables.weir), "load"]
    for target in targets:
        argv += ["--target", target]
    return [*argv, "--keys", str(settings.keys), "--value-size", str(settings.value_size_bytes), "--seed", str(seed)]


def _watch(
    folder: Path,
    testbed: Testbed,
    load: _Running,
    roles: dict[Role, list[_Running]],
    admin: tuple[Machine, int] | None,
    plan: Plan,
) -> list[_Edge]:
    """Read all counters at the edges of the generator's measured phase, and wait for its end.

    The generator prints a line when the phase begins, and ends it exactly `Plan.measured_s` later. CPU time is read inside the interval
    between the two snapshots, so that the cost of a snapshot is in neither.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_copy_lines, args=(load.process, lines), daemon=True)
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
                _save_snapshot(*admin, folder / "snapshot-before.json")
            edges.append(_edge(testbed, roles, load.machine))
        elif len(edges) == 1 and closes_at is not None and (now >= closes_at or line is None):
            edges.append(_edge(testbed, roles, load.machine))
            if admin:
                _save_snapshot(*admin, folder / "snapshot-after.json")
            closes_at = limit
        elif line is _NOTHING and now >= limit:
            raise TestbedError("the load generator did not end in time; it was stopped")
        if line is None:
            break
    reader.join()
    load.process.popen.wait()
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


def _edge(testbed: Testbed, roles: dict[Role, list[_Running]], client: Machine) -> _Edge:
    running = [one for members in roles.values() for one in members]
    return _Edge(
        unix_ns=time.time_ns(),
        monotonic_ns=time.monotonic_ns(),
        busy_ns=testbed.busy_ns(),
        role_ns={role: sum(one.machine.cpu_ns(one.process) for one in members) for role, members in roles.items()},
        machines={machine.name: machine.state() for machine in [client, *(one.machine for one in running)]},
        resident_bytes={one.machine.name: one.machine.resident_bytes(one.process) for one in running},
    )


def _cpu_between(first: _Edge, second: _Edge, client_ns: int, cores: int) -> CpuRecord:
    roles = {role: second.role_ns[role] - first.role_ns[role] for role in first.role_ns}
    # The generator reads its own clock at the exact edges; its threads may be gone when we look.
    roles[Role.CLIENT] = client_ns
    return CpuRecord(
        start_unix_ns=first.unix_ns,
        interval_ns=second.monotonic_ns - first.monotonic_ns,
        roles={role: RoleCpu(cpu_ns=spent) for role, spent in roles.items()},
        cores=cores,
        busy_ns=second.busy_ns - first.busy_ns,
        machines={
            name: use_between(first.machines[name], state, second.resident_bytes.get(name))
            for name, state in second.machines.items()
        },
    )


def _save_snapshot(machine: Machine, port: int, path: Path) -> None:
    admin = f"{machine.address}:{port}"
    connection = http.client.HTTPConnection(machine.address, port, timeout=_SNAPSHOT_S)
    try:
        connection.sock = machine.connect(port, _SNAPSHOT_S)
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


def _accepts(machine: Machine, port: int) -> bool:
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
