"""What one client reads of the keys that it changes itself, where keys have two copies."""

from __future__ import annotations

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached
from tests.harness.wire import Wire

ROUNDS = 200

# Each makes an item, and is answered by one line that begins so.
MAKING = {
    "ma N": (b"ma %b N0 J41", b"HD"),
    "ma v": (b"ma %b N0 J41 v", b"VA"),
    "ms ME": (b"ms %b 2 ME F7\r\n41", b"HD"),
}

# Each changes an item that is there to 42.
CHANGING = {
    "ma": (b"ma %b", b"HD"),
    "ma by 11, down and up": (b"ma %b D10 MD\r\nma %b D11", b"HD"),
    "ms MR": (b"ms %b 2 MR\r\n42", b"HD"),
    "ms MA": (b"ms %b 1\r\n4\r\nms %b 1 MA\r\n2", b"HD"),
    "ms MP": (b"ms %b 1\r\n2\r\nms %b 1 MP\r\n4", b"HD"),
}


@pytest.mark.every_engine
def test_multiget_does_not_see_what_is_made_behind_it(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """`mg N` makes an item where there is none: a `get` that was sent before it must not find it."""
    proxy = start_proxy("--replicas", "2", in_front_of=[server.address for server in servers[:2]])
    client = connect(proxy.address)
    seen = 0
    for turn in range(ROUNDS):
        keys = [b"%b:%d" % (name, turn) for name in (b"a", b"b", b"c", b"d")]
        client.send(b"get %b\r\nmg %b N30 v\r\n" % (b" ".join(keys), keys[turn % 4]))
        seen += len(client.values())
        assert client.line().split()[:2] == [b"VA", b"0"]
        assert client.line() == b""
    client.in_step()
    assert seen == 0, f"{seen} of {ROUNDS} saw what was made behind them"


def answer(client: Wire, key: bytes, request: bytes, expected: bytes) -> None:
    """Sends what may be several requests, and looks at the last answer."""
    text = request.replace(b"%b", key)
    client.send(text + b"\r\nmn\r\n")
    lines = []
    while (line := client.line()) != b"MN":
        lines.append(line)
    kinds = [line[:2] for line in lines if line[:2] in (b"HD", b"VA", b"NS", b"NF", b"EX", b"CL", b"SE")]
    assert kinds[-1:] == [expected], (request, lines)


@pytest.mark.every_engine
@pytest.mark.parametrize("kind", [*MAKING, *CHANGING])
def test_acknowledged_meta_write_is_on_both_servers_and_found_by_the_next_multiget(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, kind: str
) -> None:
    proxy = start_proxy("--replicas", "2", in_front_of=[server.address for server in servers[:2]])
    client = connect(proxy.address)
    direct = [connect(server.address) for server in servers[:2]]
    missed, held = 0, []
    for turn in range(40):
        key = b"k:%d" % turn
        if kind in CHANGING:
            assert client.store(key, b"41") == b"STORED"
        answer(client, key, *(MAKING | CHANGING)[kind])
        value = b"41" if kind in MAKING else b"42"
        # The set behind it forbids to ask a second time.
        client.send(b"get x:%d %b y:%d\r\nset z 0 0 1\r\nz\r\n" % (turn, key, turn))
        missed += client.values() != [(key, value)]
        assert client.line() == b"STORED"
        held.append([wire.get(key) for wire in direct])
        assert all(copy in ([], [(key, value)]) for copy in held[-1]), held[-1]
    one = sum(copies.count([]) for copies in held)
    client.in_step()
    assert (missed, one) == (0, 0), f"of 40 keys {missed} were missed, {one} had one copy"
