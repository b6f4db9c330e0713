"""The proxy under test: `start_proxies` starts what the cell asks for and waits until it serves; `save_ends` keeps its counters.

===========  ==================================================================
subject      counters
===========  ==================================================================
weir         ``/snapshot`` of its admin port, in ``snapshot-MOMENT.json``
nutcracker   what its stats port says, in ``stats-MOMENT.json``
any other    none: of it a run knows what the client saw
===========  ==================================================================
"""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.machine.processes import wait_until
from weir_lab.bench.programs.subjects import (
    NUTCRACKER,
    WEIR,
    ProxyPlace,
    file_names,
    proxy_command,
    proxy_files,
    proxy_records,
)
from weir_lab.bench.running.starting import READY_S, Running, Starter, accepts
from weir_lab.design import Role
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import placed_name, snapshot_name
from weir_lab.records.formats.peers import read_nutcracker
from weir_lab.records.formats.proxy_records import ProxyWindow, TraceRow, read_trace, read_windows
from weir_lab.records.formats.seen import kernel_wait_of, with_turns

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.bench.programs.subjects import Abilities
    from weir_lab.bench.testbeds import Machine
    from weir_lab.design import Settings, Subject
    from weir_lab.records import CpuRecord

__all__ = ["RunningProxy", "save_all", "save_ends", "seen_inside", "start_proxies"]

_ADMIN_THREAD = "weir-admin"
_ANSWER_S = 10.0
_ANSWER_BYTES_MAX = 64 << 20
# Nutcracker sums its counters up every 0.1 s. Far longer than that, so that it holds on a busy machine.
_SETTLED_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True)
class RunningProxy:
    """One proxy at work, the ``place``-th of those side by side."""

    running: Running
    subject: str
    place: int
    listen: str
    admin_port: int
    folder: Path
    records: tuple[str, ...] = ()
    """Files of the run that it writes itself."""

    def save(self, moment: str) -> None:
        """Keep its counters as they are now."""
        if self.subject == WEIR:
            name = snapshot_name(moment, self.place)
            (self.folder / name).write_bytes(_snapshot(self.running.machine, self.admin_port))
        elif self.subject == NUTCRACKER:
            self.keep(moment, _statistics(self.running.machine, self.admin_port))

    def keep(self, moment: str, statistics: str) -> None:
        """Write nutcracker's statistics down."""
        (self.folder / placed_name(f"stats-{moment}", self.place, "json")).write_text(statistics, encoding="utf-8")

    def collect(self) -> None:
        """Bring the files that it wrote into the run's folder."""
        for name in self.records:
            self.running.machine.collect(self.folder / name)


def start_proxies(
    starter: Starter, settings: Settings, subject: Subject | None, abilities: Abilities | None, servers: list[str]
) -> list[RunningProxy]:
    """Start all proxies of a cell side by side; each is in front of all servers."""
    machines = [starter.machine(f"proxy-{number}") for number in range(settings.proxies)]
    ports = starter.free_ports([*machines, *machines])
    return [
        _start(
            starter, settings, subject, abilities, place, machine, ports[place], ports[place + len(machines)], servers
        )
        for place, machine in enumerate(machines)
    ]


def seen_inside(used: CpuRecord, first_unix_ns: int, last_unix_ns: int, proxies: list[RunningProxy]) -> CpuRecord:
    """With what the proxies' own files tell of the time between two moments: turns of their threads, and waiting in the kernel."""
    windows, rows = list[ProxyWindow](), list[TraceRow]()
    for proxy in proxies:
        for name in proxy.records:
            with suppress(RecordError):  # cut short by a proxy that died: the verdict says so
                if name.endswith(".jsonl"):
                    windows += read_windows(proxy.folder / name)
                elif name.endswith(".csv"):
                    rows += read_trace(proxy.folder / name)
    inside = with_turns(used.threads.get(Role.PROXY, {}), windows, first_unix_ns, last_unix_ns)
    threads = {**used.threads, **({Role.PROXY.value: inside} if inside else {})}
    wait = kernel_wait_of(rows, first_unix_ns, last_unix_ns)
    return used.model_copy(update={"threads": threads, "kernel_wait": wait})


def save_all(proxies: list[RunningProxy], moment: str) -> None:
    """Keep the counters of all proxies as they are now, each while the others put theirs together."""
    if len(proxies) == 1:
        proxies[0].save(moment)
    elif proxies:
        with ThreadPoolExecutor(len(proxies)) as asking:
            list(asking.map(lambda proxy: proxy.save(moment), proxies))


def save_ends(proxies: list[RunningProxy], answered: int) -> None:
    """Keep the counters of all proxies after the load has gone.

    Nutcracker's appear with a delay: they are asked for until they hold all ``answered`` requests, or for so long that they never will.
    """
    late = [proxy for proxy in proxies if proxy.subject == NUTCRACKER]
    for proxy in proxies:
        if proxy not in late:
            proxy.save("end")
    deadline = time.monotonic() + _SETTLED_S
    while late:
        texts = [_statistics(proxy.running.machine, proxy.admin_port) for proxy in late]
        if sum(map(_responses, texts)) >= answered or time.monotonic() >= deadline:
            for proxy, text in zip(late, texts, strict=True):
                proxy.keep("end", text)
            return
        time.sleep(_POLL_S)


def _start(
    starter: Starter,
    settings: Settings,
    subject: Subject | None,
    abilities: Abilities | None,
    place: int,
    machine: Machine,
    port: int,
    admin_port: int,
    servers: list[str],
) -> RunningProxy:
    where = ProxyPlace(f"{machine.address}:{port}", f"{machine.address}:{admin_port}", tuple(servers))
    paths = {name: starter.folder / placed_name("proxy", place, name) for name in file_names(settings, subject)}
    there = {name: machine.file(path) for name, path in paths.items()}
    for name, text in proxy_files(settings, subject, where, there).items():
        paths[name].write_text(text, encoding="utf-8")
        machine.deliver(paths[name])
    argv = proxy_command(starter.executables.weir, settings, subject, where, there)
    records: tuple[str, ...] = ()
    if settings.subject == WEIR and abilities is not None:
        windows, trace = placed_name("windows", place, "jsonl"), placed_name("trace", place, "csv")
        files = {name: machine.file(starter.folder / name) for name in (windows, trace)}
        argv += proxy_records(abilities, files[windows], files[trace])
        records = tuple(name for name, file in files.items() if file in argv)
    name = machine.name if settings.proxies > 1 else "proxy"
    running = starter.start(machine, Role.PROXY, name, argv)
    # A connection, not a request: the proxy's count of requests is compared with the client's. A command line of the study need not
    # answer questions about itself.
    ports = [port, admin_port] if settings.subject in (WEIR, NUTCRACKER) else [port]
    wait_until(
        lambda: all(accepts(machine, one) for one in ports),
        running.process,
        READY_S,
        _awaited(settings, machine, ports),
    )
    if settings.subject == WEIR:
        # A snapshot is put together by a thread that shares the cores with all of the proxy's, and is to be there when it is asked for.
        machine.prefer(running.process, _ADMIN_THREAD)
    return RunningProxy(running, settings.subject, place, where.listen, admin_port, starter.folder, records)


def _awaited(settings: Settings, machine: Machine, ports: list[int]) -> str:
    """What a proxy must do to be ready; a command line of the study may let it listen elsewhere."""
    if settings.subject in (WEIR, NUTCRACKER):
        return f"connections at {machine.address}, ports {', '.join(map(str, ports))}"
    return f"connections at {machine.address}:{ports[0]}, which is {{listen}}: look whether its command line or files say so"


def _snapshot(machine: Machine, port: int) -> bytes:
    admin = f"{machine.address}:{port}"
    connection = http.client.HTTPConnection(machine.address, port, timeout=_ANSWER_S)
    try:
        connection.sock = machine.connect(port, _ANSWER_S)
        # The port knows few names of its machine.
        connection.request("GET", "/snapshot", headers={"Host": "localhost"})
        response = connection.getresponse()
        body = response.read(_ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise TestbedError(f"the proxy's admin port {admin} did not give a snapshot: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise TestbedError(f"the proxy's admin port {admin} answered GET /snapshot with status {response.status}")
    return body


def _statistics(machine: Machine, port: int) -> str:
    """Nutcracker writes one JSON object to whoever connects, and closes."""
    found = bytearray()
    try:
        with closing(machine.connect(port, _ANSWER_S)) as connection:
            while (part := connection.recv(65_536)) and len(found) < _ANSWER_BYTES_MAX:
                found += part
    except OSError as error:
        raise TestbedError(f"nutcracker's stats port {machine.address}:{port} did not answer: {error}") from error
    return found.decode("utf-8", errors="replace")


def _responses(text: str) -> int:
    try:
        return read_nutcracker(text, "nutcracker's stats port").responses
    except RecordError as error:
        raise TestbedError(str(error)) from error
