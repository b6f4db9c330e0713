"""Servers that are dead, frozen or come back: every request is answered, and no reply goes astray."""

from __future__ import annotations

import re
import signal

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.placement import keys_by_server
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.wire import Wire

pytestmark = pytest.mark.every_engine

# Where a test waits for it to pass: short, yet long enough that a live server on a busy machine keeps it.
SHORT_DEADLINE = ("--timeout", "1s")


def placed(proxy: Proxy, servers: list[Memcached]) -> list[list[bytes]]:
    return keys_by_server(proxy.address, [server.address for server in servers])


def assert_server_error(line: bytes, server: Memcached) -> None:
    """The one line that says which stage failed at which server."""
    assert re.fullmatch(rb"SERVER_ERROR [a-z].* " + re.escape(str(server.address).encode()), line), line


def test_dead_server_answers_for_its_keys_only(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy()
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[0].kill()
    for _ in range(3):
        for key in held[0][:10]:
            assert_server_error(wire.ask(b"get " + key), servers[0])
            assert_server_error(wire.store(key, b"value"), servers[0])
            assert_server_error(wire.ask(b"incr " + key + b" 1"), servers[0])
        for key in held[1][:10] + held[2][:10]:
            assert wire.get(key) == [(key, key * 2)]
    wire.in_step()


def test_server_that_was_never_there(start_proxy: StartProxy, connect: Connect, servers: list[Memcached]) -> None:
    servers[1].kill()
    proxy = start_proxy()
    wire = connect(proxy.address)
    replies = [wire.store(b"key:%d" % number, b"value") for number in range(100)]
    assert set(replies) > {b"STORED"}
    for reply in set(replies) - {b"STORED"}:
        assert_server_error(reply, servers[1])
    wire.in_step()


def test_get_over_a_dead_server_is_one_error(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """`strict`: no values before the error, none after it, never an error between values."""
    proxy = start_proxy()
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[2].kill()
    keys = [key for trio in zip(*(part[:5] for part in held), strict=True) for key in trio]
    assert_server_error(wire.ask(b"get " + b" ".join(keys)), servers[2])
    alive = held[0][:5] + held[1][:5]
    assert wire.get(*alive) == [(key, key * 2) for key in alive]
    wire.in_step()


def test_noreply_to_a_dead_server_is_silent(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy()
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[0].kill()
    for key in held[0]:
        wire.send(b"set %b 0 0 1 noreply\r\nx\r\ndelete %b noreply\r\nincr %b 1 noreply\r\n" % (key, key, key))
    assert wire.get(held[1][0]) == [(held[1][0], held[1][0] * 2)]
    wire.in_step()


def test_frozen_server_is_answered_for_and_late_replies_are_dropped(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*SHORT_DEADLINE)
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[0].freeze()
    pipelined = held[0][:8]
    wire.send(b"".join(b"get %b\r\n" % key for key in pipelined))
    for _ in pipelined:
        assert_server_error(wire.line(), servers[0])
    for key in held[1][:5] + held[2][:5]:
        assert wire.get(key) == [(key, key * 2)]
    servers[0].thaw()
    # Eight replies to requests that were given up are now on their way. From here every reply must be right or an
    # error, and the server must come back into service.
    until_served_again(proxy, servers[0], wire, held[0][-1])
    for key in held[0] + held[1] + held[2]:
        assert wire.get(key) == [(key, key * 2)]
    wire.in_step()


def test_frozen_server_while_others_wait(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    """Sessions that share a server connection with given-up requests get their own replies and nobody else's."""
    proxy = start_proxy(*SHORT_DEADLINE)
    held = placed(proxy, servers)
    wires = [connect(proxy.address) for _ in range(20)]
    for _ in range(3):
        servers[0].freeze()
        for key, wire in zip(held[0], wires, strict=False):
            wire.send(b"get " + key + b"\r\n")
        for wire in wires[: len(held[0])]:
            assert_server_error(wire.line(), servers[0])
        servers[0].thaw()
        until_served_again(proxy, servers[0], wires[0], held[0][-1])
        for wire, key in zip(wires, reversed(held[0]), strict=False):
            assert wire.get(key) == [(key, key * 2)]
    for wire in wires:
        wire.in_step()


def test_dead_server_comes_back(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy()
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[0].kill()
    key = held[0][0]
    assert_server_error(wire.ask(b"get " + key), servers[0])
    with Memcached(address=servers[0].address) as restarted:
        restarted.wait_ready(restarted.address)
        until_served_again(proxy, servers[0], wire, key)
        assert wire.get(key) == []
        assert wire.store(key, b"new") == b"STORED"
        with Wire(restarted.address) as direct:
            assert direct.get(key) == [(key, b"new")]
    wire.in_step()


def test_server_that_dies_with_requests_in_flight(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """The connection breaks under requests: each gets an error at once, in its place among the others' replies."""
    proxy = start_proxy("--timeout", "60s")
    held = placed(proxy, servers)
    wire = connect(proxy.address)
    servers[0].freeze()
    lost, served = held[0][:10], held[1][:10]
    wire.send(b"".join(b"get %b\r\nget %b\r\n" % pair for pair in zip(lost, served, strict=True)))
    servers[0].signal(signal.SIGKILL)
    for key in served:
        assert_server_error(wire.line(), servers[0])
        assert wire.values() == [(key, key * 2)]
    wire.in_step()


def until_served_again(proxy: Proxy, server: Memcached, wire: Wire, key: bytes) -> None:
    """Asks for a key until its server answers, and waits until every thread of the proxy has found that out for itself.

    An error line is not yet, a right value or a miss is done.
    """

    def served() -> bool:
        line = wire.ask(b"get " + key)
        if line.startswith(b"SERVER_ERROR "):
            return False
        if line != b"END":
            assert line == b"VALUE %b 0 %d" % (key, 2 * len(key)), line
            assert wire.exactly(2 * len(key) + 2) == key * 2 + b"\r\n"
            assert wire.line() == b"END"
        return True

    def every_thread_serves() -> bool:
        servers = proxy.snapshot()["servers"]
        return any(it["server"] == str(server.address) and it["state"] == "up" for it in servers)

    eventually(served, f"the server of {key!r} is back in service")
    eventually(every_thread_serves, f"every thread is connected to {server.address}")
