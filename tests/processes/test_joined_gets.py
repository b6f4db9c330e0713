"""Gets of several requests share messages to real servers, and every client is answered as if it had asked alone."""

from __future__ import annotations

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached

KEYS = [b"joined:%03d" % number for number in range(200)]


def cmd_gets(servers: list[Memcached], connect: Connect) -> int:
    """Keys that all servers were asked for."""
    total = 0
    for server in servers:
        wire = connect(server.address)
        wire.send(b"stats\r\n")
        lines = [line.split(b" ") for line in iter(wire.line, b"END")]
        total += next(int(line[2]) for line in lines if line[1] == b"cmd_get")
    return total


@pytest.mark.parametrize("setting", ["on", "off"])
def test_answers(start_proxy: StartProxy, servers: list[Memcached], connect: Connect, setting: str) -> None:
    proxy = start_proxy("--join-gets", setting, "--threads", "1")
    wires = [connect(proxy.address) for _ in range(3)]
    stored = [key for number, key in enumerate(KEYS) if number % 3]
    wires[0].send(b"".join(b"set %b 5 0 %d\r\n%b\r\n" % (key, len(key), key) for key in stored))
    assert [wires[0].line() for _ in stored] == [b"STORED"] * len(stored)
    before = cmd_gets(servers, connect)
    # One by one, several at a time, one of them twice, and with a write in between.
    asked = [[key] for key in KEYS] + [KEYS[at : at + 3] for at in range(0, 60, 3)] + [[KEYS[1]], [KEYS[1]]]
    for wire in wires:
        wire.send(b"".join(b"get %b\r\n" % b" ".join(keys) for keys in asked))
        wire.send(b"set own:%d 0 0 1\r\nx\r\nget own:%d\r\n" % (id(wire), id(wire)))
    for wire in wires:
        for keys in asked:
            assert wire.values() == [(key, key) for key in keys if key in stored]
        assert wire.line() == b"STORED"
        assert wire.values() == [(b"own:%d" % id(wire), b"x")]
        wire.in_step()
    assert cmd_gets(servers, connect) - before == len(wires) * (sum(map(len, asked)) + 1)
    joined = proxy.snapshot()["counters"]["gets_joined"]
    assert joined > len(wires) * len(KEYS) // 2 if setting == "on" else joined == 0
