"""Gets that wait for another client to fill what they miss, in front of real servers (`--fill-wait`)."""

from __future__ import annotations

import selectors
import subprocess
import time

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, eventually, weir_binary
from tests.harness.standing import counters
from tests.harness.wire import Wire

CLIENTS = 200
WAIT = ("--fill-wait", "10s", "--threads", "2")
"""Longer than a busy machine takes: what is late would be a miss."""


def misses(wire: Wire) -> None:
    wire.send(b"get hot\r\n")
    assert wire.line() == b"END"


@pytest.mark.parametrize("ask_once", ["off", "on"])
def test_of_a_herd_one_client_fills(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, ask_once: str
) -> None:
    proxy = start_proxy(*WAIT, "--ask-once", ask_once, in_front_of=[servers[0].address])
    wires = [connect(proxy.address) for _ in range(CLIENTS)]
    for wire in wires:
        wire.send(b"get hot\r\n")
    filler = first_answered(wires)
    assert filler.line() == b"END"
    eventually(lambda: counters(proxy)["fill_waits"] == CLIENTS - 1, "all others wait")
    assert filler.store(b"hot", b"value") == b"STORED"
    for wire in wires:
        if wire is not filler:
            assert wire.values() == [(b"hot", b"value")]
    found = counters(proxy)
    assert (found["fill_leases"], found["fill_waits_late"], found["fill_waits_full"]) == (1, 0, 0)


def first_answered(wires: list[Wire]) -> Wire:
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire, selectors.EVENT_READ, wire)
        ((key, _), *others) = selector.select()
    assert others == [], "one has an answer"
    first: Wire = key.data
    return first


def test_clients_that_know_nothing_of_it_ask_their_origin_once(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Each does what it does at every miss: 50 ms later it stores what the origin has given, and asks again."""
    proxy = start_proxy(*WAIT, in_front_of=[servers[0].address])
    fills, hits, due = 0, 0, list[tuple[float, Wire]]()
    with selectors.DefaultSelector() as selector:
        for _ in range(CLIENTS):
            wire = connect(proxy.address)
            selector.register(wire, selectors.EVENT_READ, wire)
            wire.send(b"get hot\r\n")
        while hits < CLIENTS:
            for key, _ in selector.select(0.01):
                wire = key.data
                if (line := wire.line()) == b"END":
                    fills += 1
                    due.append((time.monotonic() + 0.05, wire))
                elif line == b"STORED":
                    wire.send(b"get hot\r\n")
                else:
                    assert line == b"VALUE hot 0 5"
                    assert wire.exactly(12) == b"value\r\nEND\r\n"
                    hits += 1
            while due and due[0][0] <= time.monotonic():
                due.pop(0)[1].send(b"set hot 0 0 5\r\nvalue\r\n")
    assert fills <= 3


def test_a_client_that_dies_leaves_its_lease_to_the_next(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*WAIT, in_front_of=[servers[0].address])
    first, second, third = (connect(proxy.address) for _ in range(3))
    misses(first)
    second.send(b"get hot\r\n")
    eventually(lambda: counters(proxy)["fill_waits"] == 1, "the second one waits")
    third.send(b"get hot\r\n")
    eventually(lambda: counters(proxy)["fill_waits"] == 2, "so does the third")
    first.reset()
    # Each thread looks at those that wait in its own order: either may be the next.
    filler = first_answered([second, third])
    other = third if filler is second else second
    assert filler.line() == b"END"
    assert filler.store(b"hot", b"value") == b"STORED"
    assert other.values() == [(b"hot", b"value")]


def test_late_is_a_miss(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy("--fill-wait", "200ms", in_front_of=[servers[0].address])
    first, second = connect(proxy.address), connect(proxy.address)
    misses(first)
    before = time.monotonic()
    misses(second)
    # No more is promised than that it waits at all, and that it is over.
    assert time.monotonic() - before > 0.05
    found = counters(proxy)
    assert found["fill_waits_late"] + found["fill_leases"] == 2


@pytest.mark.parametrize("engine", ["pool", "split"])
def test_engines_with_one_request_at_a_time_refuse_it(engine: str) -> None:
    command = [str(weir_binary()), "proxy", "--server", "127.0.0.1:11211", "--engine", engine, "--fill-wait", "100ms"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert f"--fill-wait belongs to --engine event, and the engine is {engine}" in done.stderr
