"""Gets of several requests share messages to real servers, and every client is answered as if it had asked alone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Address, Memcached
from tests.harness.standing import counters
from tests.processes.test_bad_servers import BadServer

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
    found, wanted = cmd_gets(servers, connect) - before, len(wires) * (sum(map(len, asked)) + 1)
    # A key that several gets of a message want is asked for once.
    assert len(KEYS) < found < wanted if setting == "on" else found == wanted
    joined = proxy.snapshot()["counters"]["gets_joined"]
    assert joined > len(wires) * len(KEYS) // 2 if setting == "on" else joined == 0


def test_equal_reads_by_mg_are_asked_once_and_misses_of_quiet_ones_stay_here(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy("--threads", "1")
    wires = [connect(proxy.address) for _ in range(20)]
    keys = KEYS[:20]
    stored = [key for number, key in enumerate(keys) if number % 3]
    wires[0].send(b"".join(b"set %b 5 0 %d\r\n%b\r\n" % (key, len(key), key) for key in stored))
    assert [wires[0].line() for _ in stored] == [b"STORED"] * len(stored)
    before = cmd_gets(servers, connect)
    # What comes while it is stopped is read in one turn.
    proxy.freeze()
    for number, wire in enumerate(wires):
        reads = (b"mg %b k v q O%d.%d\r\n" % (key, number, at) for at, key in enumerate(keys))
        wire.send(b"".join(reads) + b"mn\r\n")
    proxy.thaw()
    for number, wire in enumerate(wires):
        for at, key in enumerate(keys):
            if key in stored:
                assert wire.line() == b"VA %d k%b O%d.%d" % (len(key), key, number, at)
                assert wire.line() == key
        assert wire.line() == b"MN"
        wire.in_step()
    found, wanted = cmd_gets(servers, connect) - before, len(wires) * len(keys)
    assert len(keys) <= found < wanted // 2
    assert counters(proxy)["mgs_joined"] == wanted - found


CLIENTS, BAD = 40, b"joined:017"
ERROR = b"SERVER_ERROR out of memory writing get response\r\n"
Reply = Callable[[list[bytes]], bytes]


def value(key: bytes) -> bytes:
    return b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(key), key)


def in_another_order(keys: list[bytes]) -> bytes:
    return b"".join(value(key) for key in keys[::-1]) + b"END\r\n"


def with_an_error_for_one(keys: list[bytes]) -> bytes:
    good = keys[: keys.index(BAD)] if BAD in keys else keys
    return b"".join(map(value, good)) + (ERROR if BAD in keys else b"END\r\n")


def with_a_value_of_another_key_for_one(keys: list[bytes]) -> bytes:
    return b"".join(value(b"foreign" if key == BAD else key) for key in keys) + b"END\r\n"


def answering(reply: Reply) -> Callable[[BadServer, socket.socket], None]:
    def behave(server: BadServer, connection: socket.socket) -> None:
        unread = b""
        while data := server.request(connection):
            *lines, unread = (unread + data).split(b"\r\n")
            words = [line.split() for line in lines]
            asked = [reply(keys) if verb == b"get" else b"ERROR\r\n" for verb, *keys in words]
            connection.sendall(b"".join(asked))

    return behave


@pytest.mark.parametrize("reply", [in_another_order, with_an_error_for_one, with_a_value_of_another_key_for_one])
def test_one_keys_trouble_is_no_other_clients(
    start_proxy: StartProxy, connect: Connect, stack: ExitStack, reply: Reply
) -> None:
    address = Address.free()
    stack.enter_context(BadServer(address, answering(reply)))
    proxy = start_proxy("--threads", "1", in_front_of=[address])
    wires = [connect(proxy.address) for _ in range(CLIENTS)]
    # Who has not come in yet is read a turn later. What a server says behind a value that nobody asked for is not
    # believed, whoever asked.
    for wire in wires:
        wire.in_step()
    # A server that goes on to send what nobody asked for is left alone, whoever asks it.
    rounds = 1 if reply is with_a_value_of_another_key_for_one else 10
    for _ in range(rounds):
        # What comes while it is stopped is read in one turn.
        proxy.freeze()
        for wire, key in zip(wires, KEYS, strict=False):
            wire.send(b"get %b\r\n" % key)
        proxy.thaw()
        for wire, key in zip(wires, KEYS, strict=False):
            line = wire.line()
            if key == BAD and reply is not in_another_order:
                assert line.startswith(b"SERVER_ERROR "), line
            else:
                assert (line, wire.line(), wire.line()) == (value(key).split(b"\r\n")[0], key, b"END")
    reported = counters(proxy)
    assert reported["gets_joined"] > rounds * CLIENTS // 2
    assert reported["requests_failed"] == (0 if reply is in_another_order else rounds)
