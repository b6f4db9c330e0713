"""Weir in front of other proxies: of twemproxy, of one that knows less, and of Weir itself.

twemproxy closes the connection at each command that it does not know, and takes what others have asked on it along. So
nothing of a client may be on a connection on which Weir asks a question of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer
from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy, Twemproxy, eventually
from tests.harness.wire import Wire

KEYS = [b"key%d" % number for number in range(50)]


def classic_commands_work(wire: Wire) -> None:
    """What clients did before there were meta commands, and gat."""
    assert all(wire.store(key, b"value of " + key) == b"STORED" for key in KEYS)
    assert sorted(wire.get(*KEYS, b"missing")) == sorted((key, b"value of " + key) for key in KEYS)
    wire.send(b"gets key0\r\n")
    token = wire.line().split(b" ")[4]
    assert wire.exactly(len(b"value of key0\r\nEND\r\n")) == b"value of key0\r\nEND\r\n"
    assert wire.ask(b"cas key0 0 0 1 %b\r\n5" % token) == b"STORED"
    assert wire.ask(b"cas key0 0 0 1 %b\r\n6" % token) == b"EXISTS"
    assert wire.ask(b"incr key0 2") == b"7"
    assert wire.ask(b"decr key0 1") == b"6"
    assert wire.ask(b"append key0 0 0 1\r\n1") == b"STORED"
    assert wire.ask(b"prepend key0 0 0 1\r\n1") == b"STORED"
    assert wire.get(b"key0") == [(b"key0", b"161")]
    assert wire.ask(b"add key0 0 0 1\r\n1") == b"NOT_STORED"
    assert wire.ask(b"replace key0 0 0 1\r\n1") == b"STORED"
    assert wire.ask(b"touch key0 100") == b"TOUCHED"
    wire.send(b"set key0 0 0 1 noreply\r\n2\r\n")
    assert wire.get(b"key0") == [(b"key0", b"2")]
    assert wire.ask(b"delete key0") == b"DELETED"
    assert wire.get(b"key0") == []
    wire.in_step()


def counters(proxy: Proxy) -> dict[str, int]:
    counted: dict[str, int] = proxy.snapshot()["counters"]
    return counted


@pytest.fixture
def twemproxy(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> Twemproxy:
    try:
        started = Twemproxy(tmp_path, [server.address for server in servers], "timeout: 20000")
    except FileNotFoundError:
        pytest.skip("nutcracker is not installed: run `make setup`")
    stack.enter_context(started)
    started.wait_ready(started.address)
    return started


@pytest.mark.every_engine
def test_in_front_of_twemproxy(start_proxy: StartProxy, twemproxy: Twemproxy, connect: Connect) -> None:
    """Its first requests were lost with the connections that it closed at `stats settings`."""
    proxy = start_proxy("--threads", "2", in_front_of=[twemproxy.address])
    wires = [connect(proxy.address) for _ in range(4)]
    for wire in wires:
        classic_commands_work(wire)
    asked = counters(proxy)
    assert asked["requests_failed"] == 0
    assert asked["server_questions_closed"] > 0
    assert "is used without" in proxy.output()
    # Each connection has been through it: no more questions, and no more connections.
    for wire in wires:
        classic_commands_work(wire)
    assert counters(proxy)["server_connects_failed"] == 0


def test_what_twemproxy_does_not_know_costs_one_connection(
    start_proxy: StartProxy, twemproxy: Twemproxy, connect: Connect
) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[twemproxy.address])
    wire = connect(proxy.address)
    assert wire.store(b"key", b"value") == b"STORED"
    for command in (b"gat 100 key", b"mg key v", b"ms key 1\r\n1", b"md key"):
        assert wire.ask(command) == b"SERVER_ERROR closed %b" % str(twemproxy.address).encode()
        assert wire.get(b"key") == [(b"key", b"value")]
    wire.in_step()


def test_in_front_of_twemproxy_that_is_started_anew(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack, connect: Connect, tmp_path: Path
) -> None:
    twemproxy = stack.enter_context(Twemproxy(tmp_path, [servers[0].address], "timeout: 20000"))
    twemproxy.wait_ready(twemproxy.address)
    proxy = start_proxy("--threads", "1", in_front_of=[twemproxy.address])
    wire = connect(proxy.address)
    assert wire.store(b"key", b"value") == b"STORED"
    twemproxy.kill()
    assert wire.ask(b"get key").startswith(b"SERVER_ERROR ")
    again = Twemproxy.__new__(Twemproxy)
    again.address = twemproxy.address
    super(Twemproxy, again).__init__(twemproxy.command)
    stack.enter_context(again)
    eventually(lambda: wire.store(b"key", b"new") == b"STORED", "it serves again")
    classic_commands_work(wire)


@pytest.mark.every_engine
def test_in_front_of_a_proxy_that_closes_at_version(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack, connect: Connect
) -> None:
    """twemproxy before 0.5.0 does. It was down for ever."""
    older = FaultyServer(servers[0].address, unknown=(b"version\r\n", b"stats settings\r\n"))
    stack.enter_context(older)
    proxy = start_proxy("--threads", "1", in_front_of=[older.address])
    wire = connect(proxy.address)

    def every_connection_is_used() -> bool:
        # A pool has several workers, and each has to learn it by itself.
        stored = [wire.store(key, b"value") for key in KEYS * 20]
        missed = [wire.ask(b"get missing-" + key) for key in KEYS * 20]
        return set(stored) == {b"STORED"} and set(missed) == {b"END"}

    eventually(every_connection_is_used, "it is asked something that it knows")
    classic_commands_work(wire)
    assert "is used without" in proxy.output()


def test_no_client_logs_in_behind_a_server_that_closed_at_greetings(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack, connect: Connect, tmp_path: Path
) -> None:
    """Where something closed connections a memcached that wants a login may come up: a `set` would log everybody in."""
    door = FaultyServer(servers[0].address, unknown=(b"version\r\n", b"stats settings\r\n"))
    stack.enter_context(door)
    proxy = start_proxy("--threads", "1", in_front_of=[door.address])
    wire = connect(proxy.address)
    eventually(lambda: wire.store(b"key", b"value") == b"STORED", "it is asked something that it knows")
    file = tmp_path / "users"
    file.write_text("user:secret\n")
    guarded = stack.enter_context(Memcached("-Y", str(file)))
    guarded.wait_ready(guarded.address)
    door.memcached = guarded.address
    servers[0].kill()
    refused = b"SERVER_ERROR unauthenticated"
    eventually(lambda: wire.store(b"key", b"user secret").startswith(refused), "it wants a login")
    assert wire.ask(b"set key 0 0 11\r\nuser secret").startswith(refused)
    with Wire(guarded.address) as direct:
        assert direct.ask(b"get key") == b"CLIENT_ERROR unauthenticated"
    assert counters(proxy)["server_logins_wanted"] > 0


@pytest.mark.every_engine
def test_in_front_of_weir(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack, connect: Connect, engine: str
) -> None:
    behind = start_proxy("--threads", "2")
    front = stack.enter_context(
        Proxy([behind.address], "--engine", engine, "--timeout", f"{LIVENESS_S}s", "--read", "primary")
    )
    front.wait_ready(front.address)
    front.wait_ready(front.admin)
    for _ in range(2):
        wire = connect(front.address)
        classic_commands_work(wire)
        assert wire.ask(b"ms meta 5\r\nvalue") == b"HD"
        assert wire.ask(b"mg meta v") == b"VA 5"
        assert wire.exactly(7) == b"value\r\n"
        assert wire.ask(b"mn") == b"MN"
        assert wire.ask(b"md meta") == b"HD"
        wire.send(b"gat 100 key1\r\n")
        assert wire.values() == [(b"key1", b"value of key1")]
        # As long as what the servers behind the other proxy store.
        assert wire.store(b"long", bytes(1_000_000)) == b"STORED"
        assert wire.get(b"long") == [(b"long", bytes(1_000_000))]
        assert wire.store(b"longer", bytes(1_100_000)) == b"SERVER_ERROR object too large for cache"
    counted = counters(front)
    assert (counted["server_questions_closed"], counted["requests_failed"]) == (0, 0)


def test_two_replicas_behind_two_twemproxies(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack, connect: Connect, tmp_path: Path
) -> None:
    """Both have each key. (What repairs copies needs meta commands: docs/understand/placement.md.)"""
    addresses: list[Address] = []
    for server in servers[:2]:
        twemproxy = stack.enter_context(Twemproxy(tmp_path, [server.address], "timeout: 20000"))
        twemproxy.wait_ready(twemproxy.address)
        addresses.append(twemproxy.address)
    proxy = start_proxy("--replicas", "2", "--threads", "2", in_front_of=addresses)
    wire = connect(proxy.address)
    classic_commands_work(wire)
    for server in servers[:2]:
        with Wire(server.address) as direct:
            assert {key for key, _ in direct.get(*KEYS)} == set(KEYS[1:])
