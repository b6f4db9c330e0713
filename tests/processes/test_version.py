"""`version` through Weir: what clients may expect of every server."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer
from tests.harness.processes import Address, Memcached, eventually
from tests.harness.wire import Wire


class OldServer(FaultyServer):
    """A memcached that says it was made in 2013."""

    def said(self, reply: bytes) -> bytes:
        return re.sub(rb"^VERSION .*\r$", b"VERSION 1.4.15\r", reply, flags=re.MULTILINE)


def version(wire: Wire) -> bytes:
    wire.send(b"version\r\n")
    return wire.line()


@pytest.mark.every_engine
def test_version_is_the_lowest_of_the_servers(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, stack: ExitStack
) -> None:
    real = version(connect(servers[0].address))
    old = stack.enter_context(OldServer(servers[2].address))
    proxy = start_proxy("--threads", "2", in_front_of=[servers[0].address, servers[1].address, old.address])
    wires = [connect(proxy.address) for _ in range(4)]
    # The engine that connects to servers when they are needed needs each of them.
    for number in range(50):
        wires[0].get(b"key:%d" % number)
    for wire in wires:
        eventually(lambda wire=wire: version(wire) == b"VERSION 1.4.15", "the old server's version")  # type: ignore[misc]
        wire.send(b"stats\r\n")
        lines = list(iter(wire.line, b"END"))
        assert b"STAT version 1.4.15" in lines
    assert real != b"VERSION 1.4.15"
    alone = start_proxy(in_front_of=[servers[0].address])
    wire = connect(alone.address)
    wire.get(b"key")
    assert version(wire) == real


def test_version_before_any_server_has_answered(start_proxy: StartProxy, connect: Connect) -> None:
    assert version(connect(start_proxy(in_front_of=[Address.free()]).address)) == b"VERSION 1.6.18"
