"""Keys with several replicas, written through several event loops, over real memcached."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Address, Memcached, Proxy, eventually
from tests.harness.wire import Wire

# Two loops at least: an order that one thread keeps by itself proves nothing.
TWO_LOOPS = ("--threads", "2")
CONNECTIONS = 4
KEYS = [b"raced:%d" % number for number in range(5)]


def in_parallel(work: Sequence[threading.Thread]) -> None:
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()


def race(proxy: Address, writer: int, rounds: int, failures: list[str]) -> None:
    """Writes every key in one go, again and again, as others do at the same time."""
    try:
        with Wire(proxy) as wire:
            for turn in range(rounds):
                value = b"%d.%d" % (writer, turn)
                wire.send(b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value) for key in KEYS))
                assert [wire.line() for _ in KEYS] == [b"STORED"] * len(KEYS)
            wire.in_step()
    except Exception as error:  # whatever it is, it must reach the test
        failures.append(f"writer {writer}: {error!r}")


def requests(proxy: Proxy) -> int:
    return int(proxy.snapshot()["counters"]["requests"])


def held(servers: Sequence[Memcached], key: bytes) -> list[bytes]:
    """What the servers that have a key say that it is, each asked directly."""
    found = []
    for server in servers:
        with Wire(server.address) as wire:
            found += [value for _, value in wire.get(key)]
    return found


@pytest.mark.parametrize("replicas", [2, 3])
def test_racing_writers_leave_equal_replicas(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, replicas: int
) -> None:
    proxy = start_proxy(*TWO_LOOPS, "--replicas", str(replicas))
    failures: list[str] = []
    in_parallel(
        [
            threading.Thread(target=race, args=(proxy.address, writer, 100, failures), daemon=True)
            for writer in range(CONNECTIONS)
        ]
    )
    assert failures == []
    for key in KEYS:
        values = held(servers, key)
        assert len(values) == replicas, key
        assert len(set(values)) == 1, f"{key!r} is {values} on its replicas"
        assert connect(proxy.address).get(key) == [(key, values[0])]
    assert proxy.snapshot()["counters"]["requests_mailed"] > 0, "the loops wrote each other's keys"


def test_a_client_reads_what_it_has_just_written_whoever_owns_the_key(
    start_proxy: StartProxy, connect: Connect
) -> None:
    """In one go: the read must not overtake the write that goes by another loop, nor the next write the read."""
    proxy = start_proxy(*TWO_LOOPS, "--replicas", "2")
    for wire in (connect(proxy.address), connect(proxy.address)):
        for number in range(200):
            key, value = b"own:%d" % number, b"%d" % number
            ask, asked = b"get " + key + b"\r\n", b"VALUE %b 0 %d" % (key, len(value))
            wire.send(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value) + ask + b"delete " + key + b"\r\n" + ask)
            assert [wire.line() for _ in range(6)] == [b"STORED", asked, value, b"END", b"DELETED", b"END"]
        wire.in_step()


def test_a_stop_answers_writes_that_another_loop_carries_out(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*TWO_LOOPS, "--replicas", "3")
    wires = [connect(proxy.address) for _ in range(CONNECTIONS)]
    for wire in wires:
        wire.in_step()
    before = requests(proxy)
    servers[0].freeze()
    for number, wire in enumerate(wires):
        wire.send(b"".join(b"set stop:%d:%d 0 0 1\r\nx\r\n" % (number, key) for key in range(20)))
    # Of a client that has just come some are taken at once, and the others when these are answered.
    eventually(lambda: requests(proxy) >= before + CONNECTIONS * 8, "requests of every client are taken")
    proxy.signal(signal.SIGTERM)
    servers[0].thaw()
    for wire in wires:
        assert [wire.line() for _ in range(20)] == [b"STORED"] * 20
        assert wire.ended()
    assert proxy.wait() == 0
