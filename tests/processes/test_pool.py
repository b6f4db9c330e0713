"""What only the engine pool promises: its queue, its order of writes, and workers that nobody can hold."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Sequence

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.placement import keys_by_server
from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy, eventually
from tests.harness.standing import counters
from tests.harness.wire import Wire

POOL = ("--engine", "pool")


def until_queued(proxy: Proxy, count: int) -> None:
    eventually(lambda: proxy.snapshot()["queue"]["length"] == count, f"{count} requests wait for a worker")


def until_more_than(before: int, now: Callable[[], int], what: str) -> None:
    eventually(lambda: now() > before, what)


def held_by_first(proxy: Proxy, servers: list[Memcached]) -> tuple[list[bytes], list[bytes]]:
    """Keys of which the first server has a copy, and keys of which it has none."""
    held = keys_by_server(proxy.address, [server.address for server in servers])
    return held[0], sorted({*held[1], *held[2]} - {*held[0]})


def test_a_silent_write_is_not_overtaken(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy(*POOL, "--workers", "8")
    wires = [connect(proxy.address) for _ in range(8)]
    for step in range(40):
        for number, wire in enumerate(wires):
            key, value = b"key:%d" % number, b"%04d" % step
            write, forget = b"set %b 0 0 4 noreply\r\n%b\r\n" % (key, value), b"delete %b noreply\r\n" % key
            wire.send(write + b"get %b\r\n" % key + forget + b"get %b\r\n" % key)
        for number, wire in enumerate(wires):
            assert wire.values() == [(b"key:%d" % number, b"%04d" % step)]
            assert wire.values() == []
    for wire in wires:
        wire.in_step()


@pytest.mark.parametrize("workers", [1, 8])
def test_the_queue_obeys_littles_law(start_proxy: StartProxy, connect: Connect, workers: int) -> None:
    """Its length over time and the sum of the queueing times are one number, counted twice."""
    proxy = start_proxy(*POOL, "--workers", str(workers), "--replicas", "2")
    wires = [connect(proxy.address) for _ in range(24)]
    for step in range(30):
        for number, wire in enumerate(wires):
            # Few keys, so that writes wait for each other; two requests at once, so that one waits in its session.
            wire.send(b"set key:%d 0 0 3\r\n%03d\r\nget key:%d\r\n" % (number % 3, step, step % 5))
        for wire in wires:
            assert wire.line() == b"STORED"
            wire.values()
    snapshot = proxy.snapshot()
    queue, operations = snapshot["queue"], snapshot["operations"]
    assert queue["length"] == 0
    assert queue["arrivals"] == sum(it["requests"] for it in operations.values())
    assert queue["length_time_integral_ns"] == sum(it["stages"]["queue"]["sum_ns"] for it in operations.values())
    assert sum(it["stages"]["dispatch"]["sum_ns"] for it in operations.values()) > 0


def test_a_write_waits_for_another_to_its_key_without_a_worker(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*POOL, "--workers", "2", "--replicas", "2", "--timeout", "60s")
    frozen, others = held_by_first(proxy, servers)
    before = counters(proxy)["queue_key_waits"]
    servers[0].freeze()
    writers = [connect(proxy.address) for _ in range(5)]
    for number, wire in enumerate(writers):
        wire.send(b"set %b 0 0 1\r\n%d\r\n" % (frozen[0], number))
        until_queued(proxy, number)
    assert counters(proxy)["queue_key_waits"] == before + 4
    free = connect(proxy.address)
    assert free.get(*others[:9]) == [(key, 2 * key) for key in others[:9]]
    servers[0].thaw()
    assert [wire.line() for wire in writers] == [b"STORED"] * 5
    assert free.get(frozen[0]) == [(frozen[0], b"4")]
    copies = [connect(server.address).get(frozen[0]) for server in servers]
    assert [copy for copy in copies if copy] == [[(frozen[0], b"4")]] * 2


def test_a_full_queue_is_answered_and_counted(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*POOL, "--workers", "1", "--queue", "2", "--timeout", "60s")
    (key, *_), others = held_by_first(proxy, servers)
    servers[0].freeze()
    waiting = [connect(proxy.address) for _ in range(3)]
    for count, wire in enumerate(waiting):
        wire.send(b"get " + key + b"\r\n")
        # One is served by the worker, the others wait.
        until_queued(proxy, count)
    refused = connect(proxy.address)
    assert refused.ask(b"get " + others[0]) == b"SERVER_ERROR queue-full proxy"
    refused.send(b"set %b 0 0 1 noreply\r\nx\r\n" % others[0])
    assert refused.ask(b"delete " + others[0]) == b"SERVER_ERROR queue-full proxy"
    assert refused.ask(b"version").startswith(b"VERSION ")
    servers[0].thaw()
    for wire in waiting:
        assert wire.values() == [(key, key * 2)]
    assert refused.get(others[0]) == [(others[0], others[0] * 2)]
    assert counters(proxy)["queue_refusals_full"] == 4
    refused.in_step()


def test_who_waits_for_a_worker_is_answered_in_time(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """One worker, held by a frozen server: everybody gets an answer, though nobody can be served."""
    proxy = start_proxy(*POOL, "--workers", "1", "--timeout", "1s")
    frozen, others = held_by_first(proxy, servers)
    servers[0].freeze()
    wires = [connect(proxy.address) for _ in range(10)]
    for number, wire in enumerate(wires):
        wire.send(b"get %b\r\n" % (frozen[0] if number == 0 else others[number]))
    for wire in wires:
        assert wire.line().startswith((b"SERVER_ERROR timeout ", b"VALUE "))
    servers[0].thaw()
    assert counters(proxy)["requests_failed"] >= 1


def test_a_write_that_was_given_up_does_not_undo_a_later_one(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Workers have connections of their own, and a server that was frozen may read the younger one first."""
    proxy = start_proxy(*POOL, "--workers", "4", "--timeout", "1s")
    key = held_by_first(proxy, servers)[0][0]
    first, second = connect(proxy.address), connect(proxy.address)

    def waited() -> int:
        """Writes that waited for another to their key, or whose time was up before a worker could tell."""
        return sum(counters(proxy)[name] for name in ("queue_key_waits", "queue_timeouts"))

    for step in range(3):
        servers[0].freeze()
        before = waited()
        assert first.store(key, b"older").startswith(b"SERVER_ERROR timeout ")
        second.send(b"set %b 0 0 2\r\n%02d\r\n" % (key, step))
        until_more_than(before, waited, "the younger waits, though there are workers")
        servers[0].thaw()
        reply = second.line()

        def stored(reply: bytes = reply, step: int = step) -> bool:
            return reply == b"STORED" or second.store(key, b"%02d" % step) == b"STORED"

        eventually(stored, "the frozen server is back")
        for wire in (first, second):
            assert wire.get(key) == [(key, b"%02d" % step)]


def test_a_client_that_does_not_read_holds_no_worker(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy(*POOL, "--workers", "1")
    wire = connect(proxy.address)
    assert wire.store(b"large", b"x" * 1_000_000) == b"STORED"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(proxy.address.pair)
        slow.settimeout(LIVENESS_S)
        slow.sendall(b"get large\r\n" * 20)
        for number in range(200):
            assert wire.store(b"key", b"%d" % number) == b"STORED"
        expected = (b"VALUE large 0 1000000\r\n" + b"x" * 1_000_000 + b"\r\nEND\r\n") * 20
        received = bytearray()
        while len(received) < len(expected):
            received += slow.recv(1 << 20)
        assert received == expected
    wire.in_step()


def test_clients_that_leave_in_mid_request(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy(*POOL, "--workers", "2", "--timeout", "60s")
    key = held_by_first(proxy, servers)[0][0]
    wire = connect(proxy.address)
    before = counters(proxy)["requests_orphaned"]
    servers[0].freeze()
    leaving = [Wire(proxy.address) for _ in range(6)]
    for number, client in enumerate(leaving):
        client.send(b"get %b\r\nset gone:%d 0 0 1\r\nx\r\nget %b\r\nset half 0 0 100\r\nx" % (key, number, key))
    until_queued(proxy, 4)  # and two are served
    for client in leaving:
        client.reset()
    eventually(lambda: proxy.snapshot()["sessions"] == 1, "the proxy knows that they are gone")
    servers[0].thaw()
    eventually(lambda: counters(proxy)["requests_orphaned"] >= before + 6, "their requests are done")
    # What they had asked for is carried out all the same.
    eventually(lambda: len(wire.get(*(b"gone:%d" % number for number in range(6)))) == 6, "their values are stored")
    wire.in_step()


class Liar:
    """A server that answers a greeting, and every read behind it with something that is no reply."""

    def __init__(self) -> None:
        self._socket = socket.create_server(Address.free().pair, backlog=64)
        self.address = Address(*self._socket.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    @staticmethod
    def _answer(peer: socket.socket) -> None:
        with peer:
            try:
                while request := peer.recv(1 << 16):
                    is_greeting = request == b"version\r\n"
                    peer.sendall(b"VERSION 1.6.18\r\n" if is_greeting else b"VALUE surprise 0 5\r\nhello\r\nEND\r\n")
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()


def test_a_server_that_talks_nonsense(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    liar = Liar()
    try:
        proxy = start_proxy(*POOL, "--workers", "4", in_front_of=[liar.address, servers[0].address])
        wires = [connect(proxy.address) for _ in range(8)]
        for wire, number in itertools.product(wires, range(20)):
            reply = wire.store(b"key:%d" % number, b"value")
            assert reply == b"STORED" or reply.startswith(b"SERVER_ERROR "), reply
            wire.send(b"get key:%d\r\n" % number)
            line = wire.line()
            if line.startswith(b"VALUE "):
                assert line == b"VALUE key:%d 0 5" % number
                assert wire.exactly(12) == b"value\r\nEND\r\n"
            else:
                assert line.startswith(b"SERVER_ERROR ") or line == b"END", line
        for wire in wires:
            wire.in_step()
    finally:
        liar.close()


WRITES = (
    b"set %b 0 0 4\r\n%04d\r\n",
    b"set %b 0 0 4 noreply\r\n%04d\r\n",
    b"ms %b 4\r\n%04d\r\n",
    b"append %b 0 0 4\r\n%04d\r\n",
    b"set %b 0 0 4\r\n%04d\r\n",
)


def race(session: int) -> tuple[bytes, int]:
    """Writes of one session to few keys, and how many replies they have."""
    pipeline, replies = b"", 0
    for step in range(100):
        key = b"shared:%d" % ((session + step) % 3)
        command = WRITES[step % len(WRITES)] % (key, session * 100 + step)
        if step % 17 == 3:
            command = b"delete %b\r\n" % key
        if step % 61 == 17 + session:
            command = b"flush_all\r\n"
        pipeline += command
        replies += b"noreply" not in command
    return pipeline, replies


def test_racing_writers_leave_equal_replicas(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Nobody waits for anybody, so that all workers are busy with the same few keys."""
    proxy = start_proxy(*POOL, "--workers", "8", "--replicas", "3", "--allow-flush")
    writers_leave_equal_replicas([connect(proxy.address) for _ in range(16)], [connect(it.address) for it in servers])


def writers_leave_equal_replicas(wires: Sequence[Wire], copies_of: Sequence[Wire]) -> None:
    """All write at once; then whoever still holds a key, of the servers asked directly, holds what the proxy says."""
    races = [race(session) for session in range(len(wires))]
    for wire, (pipeline, _) in zip(wires, races, strict=True):
        wire.send(pipeline)
    for wire, (_, replies) in zip(wires, races, strict=True):
        for _ in range(replies):
            reply = wire.line()
            assert not reply.startswith(b"SERVER_ERROR"), reply
        wire.in_step()
    keys = [b"shared:%d" % number for number in range(3)]
    held = dict(wires[0].get(*keys))
    copies = [dict(direct.get(*keys)) for direct in copies_of]
    for key in keys:
        # A server that did not follow was made to forget.
        values = {copy[key] for copy in copies if key in copy}
        assert values == ({held[key]} if key in held else set()), (key, copies)
