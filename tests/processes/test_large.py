"""Values up to 64 MB, and servers that store more or less than memcached does by default."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.wire import Wire

pytestmark = pytest.mark.every_engine

MEBIBYTE = 1 << 20
# 64 MB as people say it; with its header it fits a client buffer of 64 MiB, the default.
LARGE = 64_000_000


def noise(length: int) -> bytes:
    """Bytes without a pattern, so that a piece that is lost or doubled shows."""
    return hashlib.shake_128(b"weir").digest(length)


@pytest.fixture
def roomy(stack: ExitStack) -> Memcached:
    server = stack.enter_context(Memcached("-I", "128m", "-m", "1024"))
    server.wait_ready(server.address)
    return server


def value_limit(wire: Wire) -> int:
    wire.send(b"stats settings\r\n")
    settings = dict(line.split(b" ")[1:] for line in iter(wire.line, b"END"))
    return int(settings[b"item_size_max"])


def start_and_learn(start_proxy: StartProxy, connect: Connect, server: Memcached, limit: int, *options: str) -> Proxy:
    """A proxy that has learned what its server stores."""
    proxy = start_proxy(*options, in_front_of=[server.address])
    wire = connect(proxy.address)
    eventually(lambda: value_limit(wire) == limit, f"item_size_max is {limit}")
    return proxy


def test_the_largest_value_is_what_the_server_stores(
    start_proxy: StartProxy, connect: Connect, roomy: Memcached
) -> None:
    proxy = start_and_learn(start_proxy, connect, roomy, 64 * MEBIBYTE)
    wire, value = connect(proxy.address), noise(LARGE)
    assert wire.store(b"large", value) == b"STORED"
    # What other threads hold of the request is given back within a second or two. So large a reply may be refused
    # until then.
    eventually(lambda: proxy.snapshot()["buffered_bytes"] < LARGE, "the request is forgotten")
    wire.send(b"get large\r\n")
    assert wire.line() == b"VALUE large 0 %d" % LARGE
    # Not compared by pytest, which would print them.
    assert hashlib.sha256(wire.exactly(LARGE)).digest() == hashlib.sha256(value).digest()
    assert wire.exactly(7) == b"\r\nEND\r\n"
    wire.in_step()


def test_values_larger_than_the_client_buffer_are_refused_both_ways(
    start_proxy: StartProxy, connect: Connect, roomy: Memcached
) -> None:
    """The refusal is for that client and that value; the connection to the server, which others share, lives on."""
    proxy = start_and_learn(start_proxy, connect, roomy, 8 * MEBIBYTE, "--client-buffer", "8m")
    direct, wire, neighbour = connect(roomy.address), connect(proxy.address), connect(proxy.address)
    assert direct.store(b"stored-otherwise", noise(9 * MEBIBYTE)) == b"STORED"
    assert wire.ask(b"get stored-otherwise") == b"SERVER_ERROR buffer-full client"
    assert wire.store(b"large", noise(9 * MEBIBYTE)) == b"SERVER_ERROR object too large for cache"
    assert neighbour.store(b"small", b"s") == b"STORED"
    assert wire.get(b"small", b"large") == [(b"small", b"s")]
    wire.in_step()
    assert proxy.snapshot()["counters"]["server_disconnects"] == 0


def test_replies_larger_than_the_server_buffer_are_refused(
    start_proxy: StartProxy, connect: Connect, roomy: Memcached
) -> None:
    proxy = start_and_learn(start_proxy, connect, roomy, 64 * MEBIBYTE, "--server-buffer", "4m")
    direct, wire = connect(roomy.address), connect(proxy.address)
    keys = [b"key-%d" % number for number in range(10)]
    for key in keys:
        assert direct.store(key, noise(MEBIBYTE)) == b"STORED"
    wire.send(b"get %b\r\nget key-1\r\nmg key-2 v\r\n" % b" ".join(keys))
    assert wire.line() == b"SERVER_ERROR buffer-full %b" % str(roomy.address).encode()
    assert [(key, len(value)) for key, value in wire.values()] == [(b"key-1", MEBIBYTE)]
    assert wire.line() == b"VA %d" % MEBIBYTE
    wire.exactly(MEBIBYTE + 2)
    wire.in_step()
    counters = proxy.snapshot()["counters"]
    assert (counters["server_replies_too_large"], counters["server_disconnects"]) == (1, 0)


def test_a_server_that_comes_back_with_another_limit_is_believed(
    start_proxy: StartProxy, connect: Connect, stack: ExitStack
) -> None:
    first = stack.enter_context(Memcached("-I", "2m"))
    first.wait_ready(first.address)
    proxy = start_and_learn(start_proxy, connect, first, 2 * MEBIBYTE)
    wire = connect(proxy.address)
    assert wire.store(b"key", noise(MEBIBYTE + MEBIBYTE // 2)) == b"STORED"
    first.kill()
    second = stack.enter_context(Memcached("-I", "512k", address=first.address))
    second.wait_ready(second.address)
    eventually(lambda: value_limit(wire) == MEBIBYTE // 2, "the limit is the second server's")
    assert wire.store(b"key", noise(MEBIBYTE)) == b"SERVER_ERROR object too large for cache"


def test_a_limit_that_is_given_is_kept(start_proxy: StartProxy, connect: Connect, roomy: Memcached) -> None:
    proxy = start_proxy("--max-value", "1k", in_front_of=[roomy.address])
    wire = connect(proxy.address)
    assert wire.store(b"key", b"v" * 1024) == b"STORED"
    assert wire.store(b"key", b"v" * 1025) == b"SERVER_ERROR object too large for cache"
    assert wire.get(b"key") == []
    assert value_limit(wire) == 1024
