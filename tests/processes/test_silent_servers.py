"""Servers that are connected and say nothing for long."""

from __future__ import annotations

import threading
import time

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.placement import keys_by_server
from tests.harness.processes import Memcached, eventually
from tests.harness.standing import counters, is_read
from tests.harness.wire import Wire


@pytest.mark.every_engine
def test_frozen_server_whose_keys_have_no_other_is_answered_for_at_once(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Each request cost the whole timeout for as long as the server was frozen, and it counted as up."""
    server = servers[0]
    proxy = start_proxy("--timeout", "500ms", in_front_of=[server.address])
    wires = [connect(proxy.address) for _ in range(4)]
    for wire in wires:
        assert wire.ask(b"get key") == b"END"
    server.freeze()
    answers: list[bytes] = []
    until = time.monotonic() + 2.5

    def ask(wire: Wire) -> None:
        while time.monotonic() < until:
            answers.append(wire.ask(b"get key"))

    users = [threading.Thread(target=ask, args=(wire,)) for wire in wires]
    for user in users:
        user.start()
    for user in users:
        user.join()
    print(f"{len(answers)} answers in 2.5 s")
    # More than ten times what there is time for where each is waited for.
    assert len(answers) >= 250
    assert set(answers) == {
        b"SERVER_ERROR %s %s" % (why, str(server.address).encode()) for why in (b"timeout", b"down")
    }
    assert f'weir_server_up{{server="{server.address}"}} 0' in proxy.http("/metrics")
    server.thaw()
    began = time.monotonic()
    eventually(lambda: wires[0].ask(b"get key") == b"END", "it serves again")
    print(f"serves {time.monotonic() - began:.3f} s after it went on")
    eventually(lambda: is_read(proxy, server.address), "every thread has found that out")
    assert counters(proxy)["server_connections_dead"] == 0, "it kept its connections"


@pytest.mark.every_engine
def test_reads_of_a_server_that_freezes_are_answered_by_another_one(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """The first reads were answered `SERVER_ERROR timeout`, though another server had what they asked for."""
    proxy = start_proxy("--threads", "1", "--replicas", "2", "--timeout", "1s")
    held = keys_by_server(proxy.address, [server.address for server in servers])
    wire = connect(proxy.address)
    servers[0].freeze()
    # It has the second copy of some of them, and is asked for the others.
    for key in held[0]:
        assert wire.get(key) == [(key, key * 2)]
    assert counters(proxy)["reads_moved"] > 0
    assert counters(proxy)["requests_failed"] == 0
    servers[0].thaw()
    eventually(lambda: is_read(proxy, servers[0].address), "it is read again")
    for key in held[0] + held[1] + held[2]:
        assert wire.get(key) == [(key, key * 2)]
    wire.in_step()


def test_frozen_server_whose_connection_the_kernel_ends_shows_no_old_value(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Linux ends a connection whose window stays full, also where only the process is frozen. What lies in the
    window is carried out when it goes on, however long after."""
    options = ("--replicas", "2", "--timeout", "200ms", "--tcp-user-timeout", "300ms", "--quarantine", "200ms")
    proxy = start_proxy(*options, in_front_of=[servers[0].address, servers[1].address])
    wire = connect(proxy.address)
    keys = [b"key:%d" % number for number in range(200)]
    frozen, other = servers[0], servers[1]
    frozen.freeze()
    old = b"o" * 100_000
    # More than the kernel takes for one connection.
    wire.send(b"".join(b"set %b 0 0 %d noreply\r\n%b\r\n" % (key, len(old), old) for key in keys))
    eventually(lambda: counters(proxy)["server_quarantines"] > 0, "the kernel has ended the connection")
    for key in keys:
        wire.store(key, b"new")
    # Longer than the quarantine.
    until = time.monotonic() + 0.6
    eventually(lambda: time.monotonic() > until, "time has passed")
    frozen.thaw()
    eventually(lambda: is_read(proxy, frozen.address), "it is read again")
    with Wire(frozen.address) as direct:
        held = [value for key in keys for _, value in direct.get(key)]
    with Wire(other.address) as direct:
        newest = dict(pair for key in keys for pair in direct.get(key))
    assert all(
        value == newest.get(key, value) for key, value in zip(keys, held, strict=False) if len(held) == len(keys)
    )
    assert old not in held, f"{held.count(old)} of {len(held)} values are old"
