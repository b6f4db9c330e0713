"""Each stage is provoked alone: the delay is found in that stage, and nearly nowhere else.

No time has an upper bound here, because a busy machine adds to all of them; where it adds too much, a longer delay
shows the same. How near the stages come to the delays is measured by bench/stages.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.slow_server import SlowServer
from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Proxy, eventually

STAGES = ("read", "dispatch", "queue", "send", "backend", "reply")
DELAYS_S = (0.2, 1.0, 4.0)


def pause(seconds: float) -> None:
    """The delay that is to be found again."""
    threading.Event().wait(seconds)


def measured(proxy: Proxy) -> tuple[int, dict[str, int]]:
    """Requests, and nanoseconds in each stage, over all operations."""
    snapshot = proxy.snapshot()
    assert snapshot["counters"]["stamps_clamped"] == 0
    operations = snapshot["operations"].values()
    stages = {name: sum(it["stages"][name]["sum_ns"] for it in operations) for name in STAGES}
    assert sum(stages.values()) == sum(it["total"]["sum_ns"] for it in operations)
    return sum(it["requests"] for it in operations), stages


def is_in(stage: str, proxy: Proxy, requests: int, provoke: Callable[[float], float]) -> None:
    """`provoke` makes this many requests with a delay and returns the seconds that must be in the stage."""
    tried = []
    for delay_s in DELAYS_S:
        before = measured(proxy)
        least_s = provoke(delay_s)
        after: list[Any] = []

        def is_recorded(wanted: int = before[0] + requests, after: list[Any] = after) -> bool:
            after[:] = measured(proxy)
            return bool(after[0] == wanted)

        eventually(is_recorded, f"{requests} requests are recorded")
        stages = {name: after[1][name] - before[1][name] for name in STAGES}
        assert stages[stage] >= least_s * 1e9, (delay_s, stages)
        if stages[stage] >= 0.8 * sum(stages.values()):
            return
        tried.append((delay_s, stages))
    raise AssertionError(f"stage {stage} has less than 80 % of the time: {tried}")


@pytest.fixture
def slow_server() -> Iterator[SlowServer]:
    with SlowServer() as server:
        yield server


@pytest.mark.every_engine
def test_a_request_that_comes_in_pieces_is_in_read(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    pieces = (b"set", b" key 0", b" 0 5\r", b"\nval", b"ue\r\n")

    def provoke(delay_s: float) -> float:
        read = proxy.snapshot()["counters"]["client_bytes_read"]
        wire.send(pieces[0])
        # The first piece must have been read before the delay begins.
        eventually(lambda: proxy.snapshot()["counters"]["client_bytes_read"] > read, "the first piece is read")
        for piece in pieces[1:]:
            pause(delay_s / 4)
            wire.send(piece)
        assert wire.line() == b"STORED"
        return delay_s

    is_in("read", proxy, 1, provoke)


@pytest.mark.every_engine
def test_a_slow_server_is_in_backend(start_proxy: StartProxy, connect: Connect, slow_server: SlowServer) -> None:
    proxy = start_proxy(in_front_of=[slow_server.address])
    wire = connect(proxy.address)

    def provoke(delay_s: float) -> float:
        slow_server.delay_s = delay_s
        wire.send(b"get key\r\n")
        assert wire.values() == []
        # The server waits after it has read, which may be before the proxy's write has returned.
        return 0.9 * delay_s

    is_in("backend", proxy, 1, provoke)


def test_one_worker_with_a_slow_server_is_in_queue(
    start_proxy: StartProxy, connect: Connect, slow_server: SlowServer
) -> None:
    clients = 24
    proxy = start_proxy("--engine", "pool", "--workers", "1", in_front_of=[slow_server.address])
    wires = [connect(proxy.address) for _ in range(clients)]

    def provoke(delay_s: float) -> float:
        slow_server.delay_s = delay_s / 10
        for wire in wires:
            wire.send(b"get key\r\n")
        for wire in wires:
            assert wire.values() == []
        # The k-th waits for those before it; a slow client machine may have sent some late.
        return delay_s / 10

    is_in("queue", proxy, clients, provoke)


@pytest.mark.every_engine
def test_a_client_that_does_not_read_is_in_reply(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy()
    # More than the kernel takes for a client without a reader (tcp_wmem, 4 MiB by default).
    size, count = 1_000_000, 12
    assert connect(proxy.address).store(b"key", b"x" * size) == b"STORED"
    length = count * len(b"VALUE key 0 1000000\r\n\r\n") + count * size + len(b"END\r\n")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(proxy.address.pair)

    def provoke(delay_s: float) -> float:
        before, began = proxy.snapshot()["counters"]["server_bytes_read"], time.monotonic()
        slow.sendall(b"get" + b" key" * count + b"\r\n")
        read = count * size + before
        eventually(lambda: proxy.snapshot()["counters"]["server_bytes_read"] > read, "the whole reply is there")
        # Ten times as long as it took until then.
        delay_s = max(delay_s, 10 * (time.monotonic() - began))
        pause(delay_s)
        left = length
        while left:
            left -= len(slow.recv(min(left, 1 << 20)))
        return 0.9 * delay_s

    with slow:
        is_in("reply", proxy, 1, provoke)
