"""Servers that misbehave: every request is answered, keys of other servers are unharmed, memory is bounded."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer, Misbehaviour
from tests.harness.placement import keys_by_server
from tests.harness.processes import LIVENESS_S, Address, Memcached, eventually
from tests.harness.standing import counters, is_quiet
from tests.harness.wire import Wire
from tests.processes.test_bounds import MEBIBYTE, peak_resident_bytes

pytestmark = pytest.mark.every_engine


GREETING = b"version\r\n"
"""What the proxy says first on every connection. Who answers nonsense to that is never sent anything of a client."""


class BadServer:
    """A server that accepts, and lets `behave` do as it likes with each connection."""

    def __init__(self, address: Address, behave: Callable[[BadServer, socket.socket], None]) -> None:
        self.asked = threading.Event()
        self.ended = threading.Event()
        self._behave = behave
        self._listener = socket.create_server(address.pair)
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        # A thread that waits in accept or recv is woken by this alone. After the first has ended there are no more.
        accepting, *_ = self._threads
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        accepting.join(LIVENESS_S)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIVENESS_S)
        self._listener.close()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._behave(self, connection)

    def request(self, connection: socket.socket) -> bytes:
        """The next bytes that somebody sends, behind a greeting; an error once the proxy has closed."""
        data = connection.recv(1 << 16)
        if data == GREETING:
            connection.sendall(b"VERSION 1.6.18\r\n")
            data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self.asked.set()
        return data


def answers_garbage(server: BadServer, connection: socket.socket) -> None:
    while server.request(connection):
        connection.sendall(b"\x00\xff not a reply \r\n\r\nVALUE\r\n" * 3)


def answers_for_another_key(server: BadServer, connection: socket.socket) -> None:
    while server.request(connection):
        connection.sendall(b"VALUE another 0 1\r\nx\r\nEND\r\n")


def answers_half_and_closes(server: BadServer, connection: socket.socket) -> None:
    key = server.request(connection).split()[1]
    connection.sendall(b"VALUE %b 0 100\r\n0123" % key)


def accepts_and_closes(server: BadServer, _connection: socket.socket) -> None:
    server.asked.set()


def drips(server: BadServer, connection: socket.socket) -> None:
    key = server.request(connection).split()[1]
    connection.sendall(b"VALUE %b 0 1000000\r\n" % key)
    while not server.ended.wait(0.05):
        connection.sendall(b"x")


def never_reads(server: BadServer, _connection: socket.socket) -> None:
    server.asked.set()
    server.ended.wait()


def never_ends(server: BadServer, connection: socket.socket) -> None:
    key = server.request(connection).split()[1]
    connection.sendall(b"VALUE %b 0 2000000000\r\n" % key)
    while not server.ended.is_set():
        connection.sendall(b"x" * MEBIBYTE)


BEHAVIOURS = [
    answers_garbage,
    answers_for_another_key,
    answers_half_and_closes,
    accepts_and_closes,
    drips,
    never_reads,
    never_ends,
]


@pytest.mark.parametrize("behave", BEHAVIOURS, ids=lambda behave: behave.__name__)
def test_a_bad_server_harms_nobody_but_its_own_keys(
    start_proxy: StartProxy,
    servers: list[Memcached],
    connect: Connect,
    behave: Callable[[BadServer, socket.socket], None],
) -> None:
    # Long enough that a good server on a busy machine keeps it.
    proxy = start_proxy("--timeout", "4s", "--server-buffer", "2m")
    spoiled, *unharmed = keys_by_server(proxy.address, [server.address for server in servers])
    good = [key for keys in unharmed for key in keys]
    servers[0].kill()
    with BadServer(servers[0].address, behave) as bad:
        # The proxy finds out that the server has gone, and then that somebody else is there.
        eventually(lambda: bool(ask_bad(connect(proxy.address), spoiled[0])) and bad.asked.is_set(), "it was asked")
        # Fewer than the engine pool has workers, each of which waits for the one server that it asks.
        wires, others = [connect(proxy.address) for _ in range(4)], connect(proxy.address)
        for command in (b"get %b\r\n", b"set %b 0 0 1\r\nx\r\n"):
            for wire in wires:
                wire.send(command % spoiled[0])
            assert others.get(*good) == [(name, 2 * name) for name in good]
            for wire in wires:
                line = wire.line()
                assert line.startswith(b"SERVER_ERROR "), line
        for wire in wires:
            wire.in_step()
        assert peak_resident_bytes(proxy) <= 128 * MEBIBYTE
    # The same place is taken by a good server again, and nothing of the bad one is left.
    with Memcached(address=servers[0].address) as restarted:
        restarted.wait_ready(restarted.address)
        eventually(lambda: wires[0].store(spoiled[0], b"new") == b"STORED", "the server is used again")
        # Reads may go over another connection than writes, which finds out for itself.
        eventually(lambda: reads(wires[0], spoiled[0], b"new"), "the server is read again")
        eventually(lambda: is_quiet(proxy), "nothing waits")
        assert counters(proxy)["requests_failed"] > 0


def ask_bad(wire: Wire, key: bytes) -> bytes:
    line = wire.ask(b"get " + key)
    assert line.startswith(b"SERVER_ERROR "), line
    return line


def reads(wire: Wire, key: bytes, value: bytes) -> bool:
    line = wire.ask(b"get " + key)
    if line.startswith(b"SERVER_ERROR "):
        return False
    assert (line, wire.line(), wire.line()) == (b"VALUE %b 0 %d" % (key, len(value)), value, b"END")
    return True


def test_a_proxy_whose_server_is_gone_uses_no_processor(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Between two attempts to connect there is nothing to do."""
    proxy = start_proxy("--timeout", "1s")
    wire = connect(proxy.address)
    servers[0].kill()
    eventually(lambda: proxy.snapshot()["servers"][0]["state"] == "down", "the server is found dead")

    def cpu_ns() -> int:
        process = proxy.snapshot()["process"]
        return int(process["cpu_user_ns"] + process["cpu_system_ns"])

    before, connects = cpu_ns(), counters(proxy)["server_connects_failed"]
    # Some time passes: as long as a few attempts to connect, with their pauses.
    threading.Event().wait(2)
    assert cpu_ns() - before < 500_000_000
    assert counters(proxy)["server_connects_failed"] - connects < 200
    assert wire.ask(b"version").startswith(b"VERSION ")


def test_a_server_that_swallowed_requests_serves_again(
    start_proxy: StartProxy, stack: ExitStack, servers: list[Memcached], connect: Connect
) -> None:
    """`STORED` fits every write, so each was taken for an earlier one's, and all of them were late for ever."""
    bad = stack.enter_context(FaultyServer(servers[0].address))
    proxy = start_proxy("--timeout", "300ms", in_front_of=[bad.address])
    wires = [connect(proxy.address) for _ in range(4)]
    assert [wire.store(b"key", b"value") for wire in wires] == [b"STORED"] * 4
    bad.turn_bad(Misbehaviour.SWALLOWS)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        for number, wire in enumerate(wires):
            wire.send(b"set key:%d 0 0 1\r\nx\r\n" % number)
        for wire in wires:
            assert wire.line().startswith((b"SERVER_ERROR timeout ", b"SERVER_ERROR down "))
    assert bad.misdeeds > 0
    bad.turn_good()

    def serves() -> bool:
        return all(wire.store(b"key:%d" % number, b"y") == b"STORED" for number, wire in enumerate(wires * 10))

    eventually(serves, "it serves again")
    # Either is enough to find it out: a question on the connection, or one beside it.
    found = counters(proxy)
    assert found["server_step_checks"] + found["server_connections_dead"] > 0
