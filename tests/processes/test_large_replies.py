"""Clients that ask for much and read nothing: what they cost in memory, and that nobody else pays for it."""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, eventually
from tests.processes.test_bounds import (
    MEBIBYTE,
    deaf_client,
    peak_resident_bytes,
    resident_bytes,
    settled,
)

pytestmark = pytest.mark.every_engine

KEYS = [b"large:%d" % number for number in range(100)]


@pytest.fixture
def large(stack: ExitStack) -> Memcached:
    server = stack.enter_context(Memcached("-I", "2m", "-m", "256"))
    server.wait_ready(server.address)
    return server


# Of a hundred keys a client may not have the reply: it is longer than what may wait for one client.
@pytest.mark.parametrize(("clients", "keys", "growth"), [(1, 60, 64), (10, 60, 256), (10, 100, 256)])
def test_unread_multigets_cost_bounded_memory(
    start_proxy: StartProxy, connect: Connect, large: Memcached, clients: int, keys: int, growth: int
) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[large.address])
    direct, served = connect(large.address), connect(proxy.address)
    value = random.Random(1).randbytes(MEBIBYTE)
    for key in KEYS[:keys]:
        assert direct.store(key, value) == b"STORED"
    assert served.store(b"small", b"s") == b"STORED"
    before = resident_bytes(proxy)
    with ExitStack() as stack:
        for _ in range(clients):
            deaf = stack.enter_context(deaf_client(proxy))
            deaf.sendall(b"get %b\r\n" % b" ".join(KEYS[:keys]))
        for _ in range(200):
            assert served.get(b"small") == [(b"small", b"s")]
        settled(proxy)
        assert served.get(b"small") == [(b"small", b"s")]
        assert peak_resident_bytes(proxy) - before <= growth * MEBIBYTE
    eventually(lambda: proxy.snapshot()["buffered_bytes"] == 0, "nothing is held any more")
    # Who reads gets all.
    assert served.get(*KEYS[:60]) == [(key, value) for key in KEYS[:60]]
