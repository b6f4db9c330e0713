"""Many sessions over one and two event loops: every reply is its own request's, and R replicas hold the same."""

from __future__ import annotations

import random
import threading

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Address, Memcached
from tests.harness.wire import Wire


def converse(address: Address, session: int, requests: int, failures: list[str]) -> None:
    """One client that knows what every reply must be: it alone writes its keys."""
    rng = random.Random(session)
    known: dict[bytes, bytes] = {}
    keys = [b"session:%d:key:%d" % (session, number) for number in range(20)]
    try:
        with Wire(address) as wire:
            for step in range(requests):
                if rng.random() < 0.5:
                    key = rng.choice(keys)
                    known[key] = b"%b@%d" % (key, step) * rng.randrange(1, 50)
                    assert wire.store(key, known[key]) == b"STORED"
                else:
                    asked = rng.sample(keys, rng.randrange(1, len(keys)))
                    assert wire.get(*asked) == [(key, known[key]) for key in asked if key in known]
            wire.in_step()
    except Exception as error:  # whatever it is, it must reach the test
        failures.append(f"session {session}: {error!r}")


@pytest.mark.every_engine
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize(("sessions", "requests"), [(32, 100), pytest.param(64, 5000, marks=pytest.mark.long)])
def test_every_session_reads_what_it_wrote(
    start_proxy: StartProxy, threads: int, replicas: int, sessions: int, requests: int
) -> None:
    proxy = start_proxy("--threads", str(threads), "--replicas", str(replicas))
    failures: list[str] = []
    running = [
        threading.Thread(target=converse, args=(proxy.address, session, requests, failures), daemon=True)
        for session in range(sessions)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == []


def test_two_loops_share_the_sessions(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--threads", "2")
    wires = [connect(proxy.address) for _ in range(200)]
    for number, wire in enumerate(wires):
        assert wire.store(b"key:%d" % number, b"value:%d" % number) == b"STORED"
    for number, wire in enumerate(reversed(wires)):
        assert wire.get(b"key:%d" % number) == [(b"key:%d" % number, b"value:%d" % number)]
    turns = [loop["turns"] for loop in proxy.snapshot()["loops"]]
    assert len(turns) == 2
    assert min(turns) > 0


@pytest.mark.every_engine
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_writes_reach_every_replica(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, replicas: int
) -> None:
    proxy = start_proxy("--replicas", str(replicas))
    wire = connect(proxy.address)
    keys = [b"key:%d" % number for number in range(100)]
    for key in keys:
        assert wire.store(key, b"older") == b"STORED"
        assert wire.store(key, key * 3) == b"STORED"
    assert copies(servers, keys, connect) == {key: [key * 3] * replicas for key in keys}
    for key in keys[::2]:
        assert wire.ask(b"delete " + key) == b"DELETED"
    assert copies(servers, keys, connect) == {key: [key * 3] * replicas for key in keys[1::2]}


@pytest.mark.every_engine
@pytest.mark.parametrize("replicas", [2, 3])
def test_a_conditional_write_leaves_no_older_value(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, replicas: int
) -> None:
    """The primary decides; the other replicas may lose the value, but never keep one from before."""
    proxy = start_proxy("--replicas", str(replicas))
    wire = connect(proxy.address)
    keys = [b"key:%d" % number for number in range(60)]
    for key in keys:
        assert wire.store(key, b"10") == b"STORED"
        assert wire.ask(b"incr " + key + b" 5") == b"15"
        assert wire.ask(b"append " + key + b" 0 0 1\r\n0") == b"STORED"
        assert wire.ask(b"add " + key + b" 0 0 1\r\nx") == b"NOT_STORED"
    found = copies(servers, keys, connect)
    assert found.keys() == set(keys)
    assert {value for values in found.values() for value in values} == {b"150"}
    assert wire.get(*keys) == [(key, b"150") for key in keys]


def copies(servers: list[Memcached], keys: list[bytes], connect: Connect) -> dict[bytes, list[bytes]]:
    """For every key that any server has: the values the servers have."""
    found: dict[bytes, list[bytes]] = {}
    for server in servers:
        for key, value in connect(server.address).get(*keys):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.every_engine
def test_concurrent_writers_leave_equal_replicas(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Writers race on few keys through two loops; when they are done, every server holds the same values."""
    proxy = start_proxy("--threads", "2", "--replicas", "3")
    keys = [b"shared:%d" % number for number in range(4)]
    wires = [connect(proxy.address) for _ in range(16)]
    for step in range(50):
        for number, wire in enumerate(wires):
            key = keys[(step + number) % len(keys)]
            wire.send(b"set %b 0 0 6\r\n%02d-%03d\r\n" % (key, number, step))
        for wire in wires:
            assert wire.line() == b"STORED"
    held = [connect(server.address).get(*keys) for server in servers]
    assert held[0] == held[1] == held[2]
    assert [key for key, _ in held[0]] == keys
