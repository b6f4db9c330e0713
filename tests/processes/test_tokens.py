"""cas tokens of keys with several replicas, over real memcached: each is good at the server that gave it."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.wire import Wire

# An order that one thread keeps by itself proves nothing.
TWO_LOOPS = ("--threads", "2")
TWO_COPIES = ("--replicas", "2")
KEY = b"compared"
OWN_NUMBER = (1 << 48) - 1


def replicas(proxy: Proxy, servers: list[Memcached]) -> list[Memcached]:
    """The servers of the key, its primary first."""
    by_name = {str(server.address): server for server in servers}
    where = json.loads(proxy.http(f"/where?key={KEY.decode()}"))
    return [by_name[name] for name in where["servers"]]


def token_of(wire: Wire) -> int | None:
    """The token that `gets` shows, if the key is there."""
    wire.send(b"gets " + KEY + b"\r\n")
    head = wire.line()
    if head == b"END":
        return None
    assert head.startswith(b"VALUE "), head
    wire.exactly(int(head.split(b" ")[3]) + 2)
    assert wire.line() == b"END"
    return int(head.split(b" ")[4])


def cas(wire: Wire, token: int, value: bytes) -> bytes:
    return wire.ask(b"cas %b 0 0 %d %d\r\n%b" % (KEY, len(value), token, value))


def counter(proxy: Proxy, name: str) -> int:
    return int(proxy.snapshot()["counters"][name])


def test_tokens_of_a_server_that_decides_no_more_give_exists(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*TWO_LOOPS, *TWO_COPIES)
    first, second = replicas(proxy, servers)
    wire = connect(proxy.address)
    assert wire.store(KEY, b"before") == b"STORED"
    old = token_of(wire)
    own = [token_of(connect(server.address)) for server in (first, second)]
    assert old is not None
    # Without what tells them apart the token would be good at either.
    assert own == [old & OWN_NUMBER] * 2
    assert old not in own

    first.kill()
    # A write that goes to all is done without the one that the key's owner knows to be gone.
    eventually(lambda: wire.ask(b"touch " + KEY + b" 0") == b"TOUCHED", "the server is marked down")
    assert cas(wire, old, b"lost") == b"EXISTS"
    assert wire.ask(b"ms %b 4 C%d O7\r\nlost" % (KEY, old)) == b"EX O7"
    assert wire.ask(b"md %b C%d q" % (KEY, old)) == b"EX"
    assert counter(proxy, "tokens_outdated") == 3
    assert wire.get(KEY) == [(KEY, b"before")]
    new = token_of(wire)
    assert new is not None
    assert new != old
    assert new & OWN_NUMBER == old & OWN_NUMBER
    assert cas(wire, new, b"after") == b"STORED"
    assert cas(wire, new, b"again") == b"EXISTS"

    started = Memcached(address=first.address)
    with started:
        # It decides again. It holds nothing, and the other is asked for what it misses.
        eventually(lambda: cas(wire, new, b"late") == b"EXISTS" and counter(proxy, "tokens_outdated") > 4, "it decides")
        assert wire.get(KEY) == [(KEY, b"after")]
        eventually(lambda: cas(wire, token_of(wire) or 0, b"anew") == b"STORED", "it has the key again")
    wire.in_step()


@pytest.mark.every_engine
def test_proxies_understand_each_others_tokens(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    one = start_proxy(*TWO_COPIES)
    other = start_proxy(*TWO_COPIES)
    giver, taker = connect(one.address), connect(other.address)
    assert giver.store(KEY, b"zero") == b"STORED"
    given = 0

    def is_taken() -> bool:
        """Once the giver reads of the server that decides. While it connects to that one, it reads of the other."""
        nonlocal given
        given = token_of(giver) or 0
        return cas(taker, given, b"one") == b"STORED"

    eventually(is_taken, "both proxies ask one server")
    assert cas(giver, given, b"two") == b"EXISTS"
    old = token_of(taker)
    assert old is not None

    first, _ = replicas(other, servers)
    first.kill()
    refusals = set()

    def is_refused() -> bool:
        """Once it is known that the server is gone; a failed attempt may have made the others forget the key."""
        reply = cas(taker, old, b"lost")
        refusals.add(reply)
        return not reply.startswith(b"SERVER_ERROR ")

    eventually(is_refused, "another server decides")
    assert b"EXISTS" in refusals
    assert not {b"STORED", b"NOT_FOUND"} & refusals

    def is_stored() -> bool:
        """As a client does: read anew, and try again. Workers hear of the loss one after the other."""
        taker.store(KEY, b"three")
        taker.send(b"gets " + KEY + b"\r\n")
        head = taker.line()
        if not head.startswith(b"VALUE "):
            return False
        taker.exactly(int(head.split(b" ")[3]) + 2)
        assert taker.line() == b"END"
        return cas(taker, int(head.split(b" ")[4]), b"four") == b"STORED"

    eventually(is_stored, "a token of the new decider is good")
    assert taker.get(KEY) == [(KEY, b"four")]
    taker.in_step()
