"""Multi-gets in every mode, with every number of replicas, before real servers of which one may be killed."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.wire import Wire

COUNTS = (1, 9, 100, 1000)
KEYS = [b"multiget:%04d" % number for number in range(max(COUNTS))]
MODES = [("sharded", 1), ("sharded", 2), ("sharded", 3), ("whole", 3), ("auto", 1), ("auto", 2), ("auto", 3)]


def value_of(key: bytes) -> bytes:
    return key * (1 + key[-1] % 4)


def fill(wire: Wire) -> None:
    """Stores every key but each tenth, which stays a miss."""
    stored = [key for number, key in enumerate(KEYS) if number % 10]
    wire.send(b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value_of(key)), value_of(key)) for key in stored))
    assert [wire.line() for _ in stored] == [b"STORED"] * len(stored)


def held_by(server: Memcached) -> set[bytes]:
    with Wire(server.address) as wire:
        return {key for key, _ in wire.get(*KEYS)}


def found(keys: list[bytes], held: set[bytes]) -> list[tuple[bytes, bytes]]:
    return [(key, value_of(key)) for key in keys if key in held]


def is_down(proxy: Proxy, server: Memcached) -> bool:
    return any(it["server"] == str(server.address) and it["state"] == "down" for it in proxy.snapshot()["servers"])


def kill(proxy: Proxy, server: Memcached) -> None:
    server.kill()
    eventually(lambda: is_down(proxy, server), "the proxy sees that the server is down")


def gets_of_servers(proxy: Proxy) -> list[int]:
    return [server["requests"] for server in proxy.snapshot()["servers"]]


@pytest.mark.parametrize(("mode", "replicas"), MODES)
def test_values_and_order(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, mode: str, replicas: int
) -> None:
    proxy = start_proxy("--multiget", mode, "--replicas", str(replicas))
    wire = connect(proxy.address)
    fill(wire)
    held = set[bytes]().union(*(held_by(server) for server in servers))
    for count in COUNTS:
        keys = KEYS[:count][::-1] + KEYS[: count // 5]
        assert wire.get(*keys) == found(keys, held)
    wire.in_step()


@pytest.mark.parametrize(("mode", "replicas"), [case for case in MODES if case[1] > 1])
def test_with_a_live_replica_nothing_is_missed(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, mode: str, replicas: int
) -> None:
    proxy = start_proxy("--multiget", mode, "--replicas", str(replicas))
    wire = connect(proxy.address)
    fill(wire)
    held = set[bytes]().union(*(held_by(server) for server in servers))
    kill(proxy, servers[1])
    for count in COUNTS:
        assert wire.get(*KEYS[:count]) == found(KEYS[:count], held)
    # One key at a time, whoever its primary is.
    for key in KEYS[:100]:
        assert wire.get(key) == found([key], held)
    assert proxy.snapshot()["counters"]["reads_failed_over"] > 0
    wire.in_step()


@pytest.mark.parametrize("policy", ["strict", "degrade"])
def test_without_a_live_replica(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, policy: str
) -> None:
    proxy = start_proxy("--on-failure", policy)
    wire = connect(proxy.address)
    fill(wire)
    held = [held_by(server) for server in servers]
    kill(proxy, servers[2])
    lost = min(held[2])
    for count in COUNTS:
        # It comes first: a long get is asked for in slices, and values of a slice without it come before the error.
        keys = [lost, *KEYS[: count - 1]]
        if policy == "strict":
            reply = wire.ask(b"get " + b" ".join(keys))
            assert re.fullmatch(rb"SERVER_ERROR [a-z]+ " + str(servers[2].address).encode(), reply), reply
        else:
            assert wire.get(*keys) == found(keys, held[0] | held[1])
    if policy == "degrade":
        assert wire.ask(b"mg %b k v" % lost) == b"EN k" + lost
        # A quiet miss says nothing, and the barrier behind it still answers.
        wire.send(b"mg %b v q\r\n" % lost)
        assert wire.ask(b"mn") == b"MN"
        assert wire.store(lost, b"x").startswith(b"SERVER_ERROR ")
    assert (proxy.snapshot()["counters"]["keys_degraded"] > 0) == (policy == "degrade")
    wire.in_step()


def test_a_server_killed_between_requests_costs_one_reply(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Nobody waits until the proxy knows: whatever comes is right, or misses that server's part only."""
    proxy = start_proxy("--on-failure", "degrade", "--replicas", "3")
    wire = connect(proxy.address)
    fill(wire)
    held = held_by(servers[0])
    everything = found(KEYS, held)
    servers[0].kill()
    replies = [wire.get(*KEYS)]
    eventually(lambda: is_down(proxy, servers[0]), "the proxy sees that the server is down")
    replies.append(wire.get(*KEYS))
    assert set(replies[0]) <= set(everything)
    assert [value for value in everything if value in set(replies[0])] == replies[0]
    assert replies[1] == everything
    wire.in_step()


def test_sharded_asks_all_and_whole_asks_one(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    for mode, messages in (("sharded", 3), ("whole", 1)):
        proxy = start_proxy("--multiget", mode, "--replicas", "3")
        wire = connect(proxy.address)
        fill(wire)
        before = gets_of_servers(proxy)
        assert len(wire.get(*KEYS[1:10])) == 9
        after = gets_of_servers(proxy)
        assert sum(after) - sum(before) == messages


@pytest.mark.parametrize(("mode", "replicas"), [case for case in MODES if case[1] > 1])
def test_what_only_the_primary_has_is_found(
    start_proxy: StartProxy, connect: Connect, mode: str, replicas: int
) -> None:
    """A write that the primary decides leaves the others without the key."""
    proxy = start_proxy("--multiget", mode, "--replicas", str(replicas))
    wire = connect(proxy.address)
    for key in KEYS[:50]:
        assert wire.ask(b"add %b 0 0 1\r\n1" % key) == b"STORED"
        assert wire.ask(b"incr %b 9" % key) == b"10"
    for _ in range(10):
        assert wire.get(*KEYS[:60]) == [(key, b"10") for key in KEYS[:50]]
    assert proxy.snapshot()["counters"]["keys_asked_again"] > 0
    # With the write still on its way the client reads what it wrote.
    wire.send(b"".join(b"incr %b 1\r\nget %b %b\r\n" % (key, key, KEYS[50]) for key in KEYS[:50]))
    for key in KEYS[:50]:
        assert wire.line() == b"11"
        assert wire.values() == [(key, b"11")]
    wire.in_step()


def test_whole_is_refused_where_no_server_has_everything(servers: list[Memcached]) -> None:
    with Proxy([server.address for server in servers], "--multiget", "whole", "--replicas", "2") as proxy:
        assert proxy.wait() == 2
        assert "--multiget whole: multi-gets cannot be asked whole: each key is on 2 of 3 servers" in proxy.output()
