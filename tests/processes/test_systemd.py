"""As a service of systemd: what the service manager hears of the proxy. The test is the manager.

Ports that it holds open are in test_inherited_ports.py.
"""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect, StartService
from tests.harness import log
from tests.harness.processes import LIVENESS_S, Address, Memcached
from tests.harness.service import FrozenThread, Service, ServiceManager


@pytest.fixture
def manager(stack: ExitStack, tmp_path: Path) -> ServiceManager:
    return stack.enter_context(ServiceManager(str(tmp_path / "notify")))


def watched(manager: ServiceManager, seconds: float, pid: str = "own") -> dict[str, str]:
    """The variables of a service of which a sign of life is wanted within this time."""
    return {**manager.variables, "WATCHDOG_USEC": str(round(seconds * 1e6)), "WATCHDOG_PID": pid}


# ── what the service manager hears ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.every_engine
@pytest.mark.parametrize("where", ["path", "name"])
def test_it_is_ready_when_its_ports_answer(
    stack: ExitStack, start_service: StartService, tmp_path: Path, connect: Connect, where: str
) -> None:
    admin = Address.free()
    address = str(tmp_path / "notify") if where == "path" else f"@weir-test-{admin.port}"
    manager = stack.enter_context(ServiceManager(address))
    proxy = start_service("--admin", str(admin), variables=manager.variables)
    ready = manager.wait("READY")
    # Neither is waited for.
    assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")
    with urllib.request.urlopen(f"http://{admin}/healthz", timeout=LIVENESS_S) as answer:
        assert answer.read() == b"ok\n"
    status = f"listening on {proxy.address}; 3 servers, none down; generation 1"
    assert (manager.heard()[0], ready) == (ready, {"READY": "1", "STATUS": status})


@pytest.mark.every_engine
def test_the_status_names_servers_that_are_down(
    stack: ExitStack, start_service: StartService, servers: list[Memcached], manager: ServiceManager
) -> None:
    start_service(variables=manager.variables)
    manager.wait("READY")
    address = servers[1].address
    servers[1].kill()
    manager.wait_status(f"; 1 of 3 servers down: {address}; ")
    stack.enter_context(Memcached(address=address))
    manager.wait_status("; 3 servers, none down; ")


@pytest.mark.every_engine
@pytest.mark.parametrize("delay", ["0s", "100ms"])
def test_a_stop_is_announced_before_it_drains(start_service: StartService, manager: ServiceManager, delay: str) -> None:
    proxy = start_service("--drain-delay", delay, variables=manager.variables)
    manager.wait("READY")
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()
    said = "stopping" if delay == "0s" else "not ready any more, and still serving for 100ms"
    stopping, draining = manager.heard()[-2:]
    assert stopping == {"STOPPING": "1", "STATUS": f"SIGTERM: {said}"}
    assert draining == {"STATUS": "draining: what was taken is answered, within 10s"}


@pytest.fixture
def configured(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> Callable[..., tuple[Service, Path]]:
    """Starts a proxy from a file that can be read again."""

    def begin(**keywords: Any) -> tuple[Service, Path]:
        file = tmp_path / "weir.toml"
        file.write_text(f'[pools.main]\nservers = ["{servers[0].address}"]\n')
        return stack.enter_context(Service("--config", str(file), *log.OPTIONS, **keywords)), file

    return begin


def test_a_reload_begins_and_ends(
    configured: Callable[..., tuple[Service, Path]], servers: list[Memcached], manager: ServiceManager
) -> None:
    proxy, file = configured(variables=manager.variables)
    manager.wait("READY")
    file.write_text(f'[pools.main]\nservers = ["{servers[0].address}", "{servers[1].address}"]\n')
    before = time.monotonic_ns() // 1000
    proxy.signal(signal.SIGHUP)
    manager.wait("READY", times=2)
    after = time.monotonic_ns() // 1000
    manager.wait_status("; 2 servers, none down; generation 2")
    reloading = manager.wait("RELOADING")
    assert reloading.keys() == {"RELOADING", "MONOTONIC_USEC"}
    assert before <= int(reloading["MONOTONIC_USEC"]) <= after
    states = [next(iter(datagram)) for datagram in manager.heard()]
    assert states == ["READY", "RELOADING", "READY", "STATUS"]


def test_a_wrong_file_ends_a_reload_with_the_old_configuration(
    configured: Callable[..., tuple[Service, Path]], manager: ServiceManager, connect: Connect
) -> None:
    proxy, file = configured(variables=manager.variables)
    manager.wait("READY")
    right = file.read_text()
    file.write_text("[pools.main]\nservers = 1\n")
    proxy.signal(signal.SIGHUP)
    manager.wait("READY", times=2)
    manager.wait_status("; 1 server, none down; generation 1; the last reload was refused")
    assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")
    file.write_text(right)
    proxy.signal(signal.SIGHUP)
    manager.wait("READY", times=3)
    manager.wait_status("; 1 server, none down; generation 2")
    assert "refused" not in manager.heard()[-1]["STATUS"]
    assert manager.count("RELOADING") == 2


def test_a_service_manager_that_is_away_costs_a_line(
    start_service: StartService, tmp_path: Path, connect: Connect
) -> None:
    for address in (str(tmp_path / "missing"), "vsock:2:1234"):
        proxy = start_service(variables={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000", "WATCHDOG_PID": "own"})
        log.wait_reported(proxy, "service_manager_away")
        proxy.wait_ready(proxy.address)
        assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")
        proxy.signal(signal.SIGTERM)
        assert proxy.wait() == 0, proxy.output()
        assert len(log.reported(proxy, "service_manager_away")) == 1


def test_a_service_manager_that_comes_back_hears_that_it_is_ready(
    stack: ExitStack, start_service: StartService, tmp_path: Path
) -> None:
    """It was said once, and lost: the service would never have come up."""
    address = str(tmp_path / "notify")
    proxy = start_service(variables={"NOTIFY_SOCKET": address})
    log.wait_reported(proxy, "service_manager_away")
    manager = stack.enter_context(ServiceManager(address))
    assert manager.wait("READY")["STATUS"].startswith(f"listening on {proxy.address}; ")


def test_a_service_manager_that_hears_nothing_holds_nothing_up(
    start_service: StartService, manager: ServiceManager, connect: Connect
) -> None:
    """Its queue is full after some signs of life, and each further one waits for a second."""
    proxy = start_service(variables=watched(manager, 0.2))
    log.wait_reported(proxy, "service_manager_away")
    assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()


# ── the watchdog ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.every_engine
def test_signs_of_life_come_while_all_threads_answer(
    start_service: StartService, manager: ServiceManager, connect: Connect
) -> None:
    proxy = start_service("--threads", "2", variables=watched(manager, 0.4))
    manager.wait("WATCHDOG", times=10)
    wire = connect(proxy.address)
    for number in range(500):
        assert wire.store(b"key%d" % number, b"value") == b"STORED"
    manager.wait("WATCHDOG", times=manager.count("WATCHDOG") + 5)
    assert manager.heard()[0].keys() == {"READY", "STATUS"}


# A thread of each kind that serves.
SERVING = [
    ("event", "weir-loop-0"),
    ("event", "weir-loop-1"),
    ("pool", "weir-network"),
    ("pool", "weir-worker-1"),
    ("split", "weir-network"),
    ("split", "weir-read-"),
    ("split", "weir-write-"),
]


@pytest.mark.parametrize(("engine", "thread"), SERVING)
def test_a_thread_that_hangs_ends_the_signs_of_life(
    stack: ExitStack, start_service: StartService, manager: ServiceManager, thread: str
) -> None:
    proxy = start_service("--threads", "2", variables=watched(manager, 0.8))
    manager.wait("WATCHDOG", times=2)
    try:
        frozen = FrozenThread(proxy, thread)
    except PermissionError as refused:
        pytest.skip(f"the kernel lets nobody hold a thread here: {refused}")
    with frozen:
        before = manager.count("WATCHDOG")
        # A machine that is busy may have made such a line before.
        line = log.wait_reported(proxy, "threads_silent", times=len(log.reported(proxy, "threads_silent")) + 1)
        assert line["silent"] >= 1
        assert line["level"] == "error"
        # One more at most: all had answered before this one was held. The line comes after several looks.
        assert manager.count("WATCHDOG") <= before + 1
        held = manager.count("WATCHDOG")
    log.wait_reported(proxy, "threads_answer", times=len(log.reported(proxy, "threads_silent")))
    manager.wait("WATCHDOG", times=held + 3)


def test_a_watchdog_of_another_process_is_not_reset(
    start_service: StartService, servers: list[Memcached], manager: ServiceManager
) -> None:
    start_service(variables=watched(manager, 0.2, pid="1"))
    manager.wait("READY")
    # Something is sent later than signs of life would be.
    servers[0].kill()
    manager.wait_status("1 of 3 servers down")
    assert manager.count("WATCHDOG") == 0


@pytest.mark.every_engine
def test_signs_of_life_go_on_while_it_drains(
    start_service: StartService, servers: list[Memcached], manager: ServiceManager, connect: Connect, engine: str
) -> None:
    """Threads end one after the other then, and do not answer any more."""
    proxy = start_service("--threads", "2", "--drain-timeout", "60s", variables=watched(manager, 0.2))
    manager.wait("WATCHDOG", times=3)
    wire = connect(proxy.address)
    for server in servers:
        server.freeze()
    wire.send(b"get key\r\n")
    proxy.signal(signal.SIGTERM)
    manager.wait_status("draining")
    manager.wait("WATCHDOG", times=manager.count("WATCHDOG") + 5)
    for server in servers:
        server.thaw()
    assert proxy.wait() == 0, proxy.output()
