"""Ports that the service manager holds open (socket activation): the test hands sockets over, from descriptor 3 on."""

from __future__ import annotations

import re
import signal
import socket
import threading
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartService
from tests.harness import log
from tests.harness.processes import LIVENESS_S, Address, SocketPath, eventually
from tests.harness.wire import Wire


def port(stack: ExitStack) -> tuple[socket.socket, Address]:
    """A port that the service manager listens at."""
    address = Address.free()
    return stack.enter_context(socket.create_server(address.pair, backlog=100)), address


@pytest.mark.every_engine
def test_a_port_that_is_handed_over_is_served_and_stays(stack: ExitStack, start_service: StartService) -> None:
    listening, address = port(stack)
    waiting = stack.enter_context(Wire(address))
    for _ in range(2):
        waiting.send(b"version\r\n")
        proxy = start_service(listen=address, handed=[listening])
        # Who came before the proxy is served by it.
        assert waiting.line().startswith(b"VERSION ")
        assert log.wait_reported(proxy, "inherited")["ports"] == str(address)
        proxy.signal(signal.SIGTERM)
        assert waiting.ended()
        assert proxy.wait() == 0, proxy.output()
        waiting = stack.enter_context(Wire(address))


def test_a_socket_in_the_file_system_is_left_where_it_is(
    stack: ExitStack, start_service: StartService, tmp_path: Path
) -> None:
    path = tmp_path / "weir.sock"
    listening = stack.enter_context(socket.socket(socket.AF_UNIX))
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen(100)
    for _ in range(2):
        waiting = stack.enter_context(Wire(SocketPath(path)))
        waiting.send(b"version\r\n")
        proxy = start_service("--listen-mode", "666", listen=SocketPath(path), handed=[listening])
        assert waiting.line().startswith(b"VERSION ")
        assert log.wait_reported(proxy, "inherited")["ports"] == f"unix:{path}"
        proxy.signal(signal.SIGTERM)
        assert proxy.wait() == 0, proxy.output()
        assert path.is_socket()
        assert path.stat().st_mode & 0o777 == 0o600, "its mode is the service manager's"


@pytest.mark.parametrize("order", [1, -1])
def test_the_admin_port_can_be_handed_over_too(stack: ExitStack, start_service: StartService, order: int) -> None:
    (clients, address), (admin, admin_address) = port(stack), port(stack)
    proxy = start_service("--admin", str(admin_address), listen=address, handed=[clients, admin][::order])
    with urllib.request.urlopen(f"http://{admin_address}/healthz", timeout=LIVENESS_S) as answer:
        assert answer.read() == b"ok\n"
    with Wire(address) as wire:
        assert wire.ask(b"version").startswith(b"VERSION ")
    assert log.wait_reported(proxy, "inherited")["ports"] == f"{address} and {admin_address}"


def test_the_admin_port_alone_can_be_handed_over(
    stack: ExitStack, start_service: StartService, connect: Connect
) -> None:
    admin, address = port(stack)
    proxy = start_service("--admin", str(address), handed=[admin])
    proxy.wait_ready(proxy.address)
    assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")
    assert log.wait_reported(proxy, "inherited")["ports"] == str(address)


def test_a_port_that_was_not_asked_for_is_named(stack: ExitStack, start_service: StartService) -> None:
    (asked, listen), (stray, address) = port(stack), port(stack)
    for handed, said in [([stray], str(address)), ([asked, stray], f"{listen} and {address}")]:
        proxy = start_service(listen=listen, handed=handed)
        assert proxy.wait() == 1
        expected = f"handed over {said}, and {address} is neither --listen ({listen}) nor --admin (not given): "
        assert expected in proxy.output()


def test_a_socket_that_is_no_port_is_named(stack: ExitStack, start_service: StartService) -> None:
    datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    connected, other = (stack.enter_context(end) for end in socket.socketpair())
    for handed in (datagrams, connected, other):
        proxy = start_service(handed=[handed])
        assert proxy.wait() == 1
        assert re.search(r"handed over what is no port \(.*\): only stream sockets that listen are", proxy.output())
        assert "panicked" not in proxy.output()


@pytest.mark.parametrize(
    "variables",
    [
        {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1"},
        {"LISTEN_PID": "own", "LISTEN_FDS": "0"},
        {"LISTEN_PID": "own", "LISTEN_FDS": "-5"},
        {"LISTEN_PID": "own", "LISTEN_FDS": "many"},
        {"LISTEN_PID": "me", "LISTEN_FDS": "1"},
    ],
)
def test_what_is_handed_to_somebody_else_is_left(
    start_service: StartService, connect: Connect, variables: dict[str, str]
) -> None:
    proxy = start_service(variables=variables)
    proxy.wait_ready(proxy.address)
    assert connect(proxy.address).ask(b"version").startswith(b"VERSION ")


@pytest.mark.parametrize(
    "variables",
    [
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "17"},
        {"LISTEN_FDS": "2147483647"},
        {"LISTEN_FDS": "99999999999999999999"},
        {"LISTEN_FDS": "2", "LISTEN_FDS_FIRST_FD": "2147483647"},
        {"LISTEN_FDS": "1", "LISTEN_FDS_FIRST_FD": "-1"},
    ],
)
def test_numbers_without_sockets_are_refused(start_service: StartService, variables: dict[str, str]) -> None:
    """The first counts a descriptor that is not there; the others are more than there can be."""
    proxy = start_service(variables={"LISTEN_PID": "own", **variables})
    assert proxy.wait() == 1
    assert "the service manager handed over " in proxy.output()
    assert "panicked" not in proxy.output()


class Load:
    """Clients that connect, ask a few times, and connect again; whatever they meet is counted."""

    def __init__(self, address: Address, clients: int) -> None:
        self._address = address
        self._is_over = threading.Event()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _note(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _go_on(self) -> None:
        while not self._is_over.is_set():
            try:
                client = self._address.connect(LIVENESS_S)
            except OSError as error:
                self._note(type(error).__name__)
                continue
            self._note("connected")
            with client:
                self._ask(client)

    def _ask(self, client: socket.socket) -> None:
        for _ in range(10):
            try:
                client.sendall(b"get key\r\n")
                answer = client.recv(100)
            except (ConnectionResetError, BrokenPipeError):
                return self._note("closed")
            except OSError as error:
                return self._note(type(error).__name__)
            if not answer:
                return self._note("closed")
            self._note("answered" if answer == b"END\r\n" else repr(answer))
        return None

    def count(self, what: str) -> int:
        with self._lock:
            return self._counts[what]

    def end(self) -> Counter[str]:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        return self._counts


@pytest.mark.every_engine
def test_a_restart_under_load_refuses_no_connection(stack: ExitStack, start_service: StartService, engine: str) -> None:
    """Without the socket unit clients that connect between the two processes are refused."""
    listening, address = port(stack)
    load = Load(address, clients=8)
    restarts = 5
    try:
        for _ in range(restarts):
            proxy = start_service("--threads", "2", listen=address, handed=[listening])
            answered = load.count("answered")
            eventually(lambda least=answered + 200: load.count("answered") >= least, "clients are served")  # type: ignore[misc]
            proxy.signal(signal.SIGTERM)
            assert proxy.wait() == 0, proxy.output()
            # Nobody listens but the service manager: these wait.
            with Wire(address):
                pass
        last = start_service("--threads", "2", listen=address, handed=[listening])
        answered = load.count("answered")
        eventually(lambda: load.count("answered") >= answered + 200, "clients are served")
    finally:
        counts = load.end()
    assert last.running
    assert counts.keys() <= {"connected", "answered", "closed"}, counts
    # Each of them lost the connection that it had, or none.
    assert counts["closed"] <= 8 * restarts
    assert counts["connected"] > 8 + counts["closed"]
