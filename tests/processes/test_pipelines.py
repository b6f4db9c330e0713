"""Deep pipelines: what waits behind its own client's requests does not run out of time because of them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer, Misbehaviour
from tests.harness.processes import Memcached
from tests.harness.standing import counters

pytestmark = pytest.mark.every_engine

# One request takes a hundredth of it, a whole pipeline several times as long.
TIMEOUT = ("--timeout", "500ms")


@pytest.fixture
def slow(stack: ExitStack, servers: list[Memcached]) -> FaultyServer:
    """A server that answers everything, each time some milliseconds later."""
    server = stack.enter_context(FaultyServer(servers[0].address))
    server.turn_bad(Misbehaviour.ANSWERS_LATER)
    return server


def test_silent_writes_behind_their_own_pipeline_are_carried_out(
    start_proxy: StartProxy, connect: Connect, slow: FaultyServer
) -> None:
    """They were given up when the pipeline took longer than a timeout, and nobody learned of it."""
    proxy = start_proxy(*TIMEOUT, in_front_of=[slow.address])
    wire = connect(proxy.address)
    keys = [b"key:%d" % number for number in range(500)]
    wire.send(b"".join(b"set %b 0 0 1 noreply\r\nx\r\n" % key for key in keys) + b"mn\r\n")
    assert wire.line() == b"MN"
    assert wire.get(*keys) == [(key, b"x") for key in keys]
    assert counters(proxy)["requests_failed"] == 0


def test_deep_pipelines_of_many_clients_see_no_timeouts_of_the_queue_alone(
    start_proxy: StartProxy, connect: Connect, slow: FaultyServer
) -> None:
    proxy = start_proxy(*TIMEOUT, "--threads", "1", in_front_of=[slow.address])
    wires = [connect(proxy.address) for _ in range(16)]
    for wire in wires:
        wire.send(b"get a\r\n" * 100)
    for wire in wires:
        assert [wire.line() for _ in range(100)] == [b"END"] * 100
    assert counters(proxy)["queue_timeouts"] == 0


def test_a_pipeline_to_a_frozen_server_does_not_wait_once_for_each_request(
    start_proxy: StartProxy, connect: Connect, servers: list[Memcached]
) -> None:
    proxy = start_proxy("--timeout", "200ms", "--threads", "1", in_front_of=[servers[0].address])
    wire = connect(proxy.address)
    assert wire.store(b"key", b"value") == b"STORED"
    servers[0].freeze()
    # At a timeout each this would take longer than anything may.
    wire.send(b"get key\r\n" * 500)
    # What comes behind the first timeouts is down.
    assert {wire.line().split(b" ")[1] for _ in range(500)} <= {b"timeout", b"down"}
    servers[0].thaw()
    assert counters(proxy)["requests_failed"] == 500
