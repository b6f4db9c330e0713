"""Reads that bring much: no more is fetched than is read, and nobody else waits for it."""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer
from tests.harness.processes import Memcached, eventually
from tests.harness.standing import counters, is_quiet
from tests.processes.test_bounds import MEBIBYTE, deaf_client, peak_resident_bytes, resident_bytes
from tests.processes.test_large_replies import KEYS, large

__all__ = ["large"]

CLIENTS = 10


def asked(keys_of_each: int) -> bytes:
    """A pipeline of gets for all keys, each for this many."""
    gets = [KEYS[first : first + keys_of_each] for first in range(0, len(KEYS), keys_of_each)]
    return b"".join(b"get %b\r\n" % b" ".join(keys) for keys in gets)


@pytest.mark.parametrize("keys_of_each", [100, 10, 1])
def test_who_does_not_read_is_sent_no_more(
    start_proxy: StartProxy, connect: Connect, large: Memcached, keys_of_each: int
) -> None:
    """All of it was fetched, and thrown away."""
    proxy = start_proxy("--threads", "1", in_front_of=[large.address])
    direct, served = connect(large.address), connect(proxy.address)
    value = random.Random(1).randbytes(MEBIBYTE)
    for key in KEYS:
        assert direct.store(key, value) == b"STORED"
    assert served.store(b"small", b"s") == b"STORED"
    before = resident_bytes(proxy)
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(deaf_client(proxy)).sendall(asked(keys_of_each))
        for _ in range(300):
            assert served.get(b"small") == [(b"small", b"s")]
        eventually(lambda: is_quiet(proxy), "nothing more is fetched")
        found = counters(proxy)
        assert peak_resident_bytes(proxy) - before <= 256 * MEBIBYTE
    assert found["server_bytes_read"] <= CLIENTS * 40 * MEBIBYTE
    assert found["requests_failed"] == 0
    assert found["bulk_reads"] > 0 or keys_of_each == 1
    assert served.get(b"small") == [(b"small", b"s")]


@pytest.mark.parametrize("engine", ["pool", "split"])
def test_reads_that_bring_much_leave_workers_to_others(
    start_proxy: StartProxy, connect: Connect, stack: ExitStack, servers: list[Memcached]
) -> None:
    """Every worker waited for one of them."""
    server = stack.enter_context(FaultyServer(servers[0].address, withheld=(b"get wide:",)))
    proxy = start_proxy("--timeout", "60s", in_front_of=[server.address])
    served = connect(proxy.address)
    assert served.store(b"small", b"s") == b"STORED"
    wide = b"get " + b" ".join(b"wide:%d" % number for number in range(100)) + b"\r\n"
    for _ in range(2 * CLIENTS):
        connect(proxy.address).send(wide)
    # One in four of the eight workers.
    eventually(lambda: server.misdeeds >= 2, "some are asked for")
    eventually(lambda: proxy.snapshot()["queue"]["length"] == 2 * CLIENTS - 2, "the others wait")
    assert served.get(b"small") == [(b"small", b"s")]
    assert server.misdeeds == 2


def test_who_reads_gets_more_than_may_wait_for_a_client(
    start_proxy: StartProxy, connect: Connect, large: Memcached
) -> None:
    proxy = start_proxy("--threads", "1", "--client-buffer", "8m", in_front_of=[large.address])
    direct, served = connect(large.address), connect(proxy.address)
    source = random.Random(2)
    values = {key: source.randbytes(MEBIBYTE - number) for number, key in enumerate(KEYS)}
    for key, value in values.items():
        assert direct.store(key, value) == b"STORED"
    # Twice: the first slices of a client are larger, because nothing is known of it.
    served.store(b"small", b"s")
    assert served.get(KEYS[0]) == [(KEYS[0], values[KEYS[0]])]
    for _ in range(2):
        assert served.get(*KEYS, b"small", b"missing") == [*values.items(), (b"small", b"s")]
    served.in_step()
    assert counters(proxy)["session_refusals_full"] == 0


def test_a_client_that_goes_in_the_middle_harms_nobody(
    start_proxy: StartProxy, connect: Connect, large: Memcached
) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[large.address])
    direct, served = connect(large.address), connect(proxy.address)
    for key in KEYS:
        assert direct.store(key, b"v" * 100_000) == b"STORED"
    with ExitStack() as stack:
        deaf = [stack.enter_context(deaf_client(proxy)) for _ in range(CLIENTS)]
        for client in deaf:
            client.sendall(asked(100))
        eventually(lambda: counters(proxy)["bulk_read_slices"] > 0, "slices are asked for")
    eventually(lambda: counters(proxy)["sessions_closed"] >= CLIENTS, "they are gone")
    assert served.get(*KEYS) == [(key, b"v" * 100_000) for key in KEYS]
    served.in_step()
