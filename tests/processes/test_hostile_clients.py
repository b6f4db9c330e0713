"""One client that writes odd keys or passwords: it costs nobody else a reply, a key, a connection or freshness."""

from __future__ import annotations

import base64
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.conftest import StartProxy
from tests.harness.processes import Address, Memcached, Proxy, eventually, free_port, program
from tests.harness.standing import counters, entry

REPLICATED = ("--replicas", "2", "--threads", "2")

ODD = (b"YQ==YQ==", b"*Y-Q==", b"YR==", b"Y!Q==")
"""Each is a spelling of `a` for memcached."""


class Neighbour:
    """Another client that reads its own keys all the time, and notes everything that is no hit."""

    def __init__(self, address: Address, keys: int = 20) -> None:
        self.answered = 0
        # Keys of a server that is away and that have no other.
        self.may_be_reported = b"nothing"
        self.wrong: list[bytes] = []
        self._address, self._keys, self._stop = address, keys, threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def fill(self) -> None:
        with socket.create_connection(self._address.pair) as connection, connection.makefile("rb") as replies:
            for key in range(self._keys):
                connection.sendall(b"set mine-%d 0 0 2\r\nok\r\n" % key)
                assert replies.readline() == b"STORED\r\n"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)

    def _ask(self) -> None:
        with socket.create_connection(self._address.pair) as connection, connection.makefile("rb") as replies:
            while not self._stop.is_set():
                key = self.answered % self._keys
                connection.sendall(b"get mine-%d\r\n" % key)
                line = replies.readline()
                if line.startswith(b"VALUE"):
                    replies.readline()
                    replies.readline()
                elif not line.startswith(self.may_be_reported):
                    self.wrong.append(line)
                self.answered += 1


def ask(address: Address, request: bytes) -> bytes:
    """What is answered to a request, up to the answer to `mn` behind it."""
    with socket.create_connection(address.pair) as connection:
        connection.sendall(request + b"mn\r\n")
        answer = b""
        while not answer.endswith(b"MN\r\n"):
            part = connection.recv(1 << 16)
            assert part, answer
            answer += part
        return answer.removesuffix(b"MN\r\n")


@pytest.mark.every_engine
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_another_spelling_of_a_key_is_the_same_key(start_proxy: StartProxy, replicas: str) -> None:
    proxy = start_proxy("--replicas", replicas)
    for number in range(40):
        key = base64.b64encode(b"key-%d" % number)
        assert ask(proxy.address, b"ms %s 2 b\r\nhi\r\n" % key) == b"HD\r\n"
        assert ask(proxy.address, b"mg *%s b v k\r\n" % key) == b"VA 2 k*%s b\r\nhi\r\n" % key
        # memcached reads no further than the first padding.
        twice = b"VA 2\r\nhi\r\n" if key.endswith(b"=") else b"EN\r\n"
        assert ask(proxy.address, b"mg %s%s b v\r\n" % (key, key)) == twice
        assert ask(proxy.address, b"get key-%d\r\n" % number) == b"VALUE key-%d 0 2\r\nhi\r\nEND\r\n" % number


@pytest.mark.every_engine
def test_odd_keys_cost_no_connection_and_no_freshness(start_proxy: StartProxy) -> None:
    proxy = start_proxy(*REPLICATED)
    neighbour = Neighbour(proxy.address)
    neighbour.fill()
    with neighbour:
        for _ in range(50):
            for key in ODD:
                answers = ask(proxy.address, b"md %s b k\r\nms %s 1 b k\r\nx\r\nmg %s b k v\r\n" % (key, key, key))
                assert b"SERVER_ERROR" not in answers, answers
            refused = ask(proxy.address, b"ms !!! 2 b\r\nhi\r\nmd !!! b\r\nme eA0KSEQ= b\r\n")
            assert refused.count(b"CLIENT_ERROR") == 3, refused
            ask(proxy.address, b"ms eA0KSEQ= 1 b MA\r\nx\r\nmg eA0KSEQ= b k\r\nmd eA0KSEQ= b k\r\n")
    assert neighbour.answered > 0
    assert neighbour.wrong == []
    counts = counters(proxy)
    for name in ("server_disconnects", "server_violations", "journal_keys", "journal_flushes", "requests_failed"):
        assert counts[name] == 0, (name, counts[name])


@pytest.mark.every_engine
def test_a_write_that_no_server_reads_makes_no_flush(start_proxy: StartProxy, servers: list[Memcached]) -> None:
    """The server is flushed when its journal cannot be worked off; what a client wrote was reason enough."""
    proxy = start_proxy(*REPLICATED)
    servers[0].kill()
    is_found_dead(proxy, servers[0].address)
    for number in range(20):
        ask(proxy.address, b"ms !!!%d 2 b\r\nhi\r\nmd !!!%d b\r\n" % (number, number))
        ask(proxy.address, b"ms *Y-Q== 2 b\r\nhi\r\nset k%d 0 0 1\r\nx\r\n" % number)
    with Memcached(address=servers[0].address) as restarted:
        eventually(lambda: is_asked_and_read(proxy, servers[0].address), "it is back, and has forgotten what it missed")
        assert restarted.running
    assert counters(proxy)["journal_flushes"] == 0


def is_found_dead(proxy: Proxy, server: Address) -> None:
    """Returns when every thread knows: a thread of `split` finds out when it asks."""

    def happened() -> bool:
        for number in range(30):
            ask(proxy.address, b"get k%d\r\nmd k%d\r\n" % (number, number))
        return bool(entry(proxy, server)["state"] == "down")

    eventually(happened, "the server is found dead")


def is_asked_and_read(proxy: Proxy, server: Address) -> bool:
    for number in range(30):
        ask(proxy.address, b"get k%d\r\nmd k%d\r\n" % (number, number))
    it = entry(proxy, server)
    return it["state"] == "up" and it["unread"] is None


def hostile_meta(rng: random.Random) -> bytes:
    """A meta command with any flags and any spelling of its key."""
    verb = rng.choice([b"mg", b"ms", b"md", b"ma", b"me"])
    key = rng.choice(
        [
            b"a",
            b"b",
            b"num",
            b"YQ==",
            b"!!!",
            b"A===",
            b"YQ==YQ==",
            b"*Y-Q==",
            b"eA0KSEQ=",
            b"=AAA",
            b"Y=Q=",
            b"\x80\x01",
            b"k" * 250,
            b"k" * 251,
            base64.b64encode(rng.randbytes(rng.randrange(1, 12))),
        ]
    )
    flags = []
    for _ in range(rng.choice([0, 1, 2, 3, 5, 20])):
        flag = (
            bytes([rng.randrange(33, 127)])
            if rng.random() < 0.2
            else rng.choice(b"bbkkvtcfhlsqOCNJDTMIEFRSPLx").to_bytes()
        )
        flags.append(flag + rng.choice([b"", b"", b"", b"0", b"1", b"30", b"-1", b"A", b"P", b"E", b"x" * 40]))
    words = [verb, key]
    value = rng.randbytes(rng.randrange(6)).replace(b"\n", b"x")
    if verb == b"ms":
        words.append(rng.choice([b"%d" % len(value)] * 6 + [b"-1", b"x", b"0"]))
    end = rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\0\r\n"])
    return b" ".join(words + flags) + end + (value + b"\r\n" if verb == b"ms" else b"")


@pytest.mark.every_engine
@pytest.mark.parametrize("replicas", ["1", "2"])
@pytest.mark.parametrize("away", [False, True], ids=["all", "one-away"])
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_malformed_meta_commands_cost_others_nothing(
    start_proxy: StartProxy, servers: list[Memcached], replicas: str, away: bool, count: int
) -> None:
    proxy = start_proxy("--replicas", replicas, "--threads", "2")
    gone = servers[0].address
    neighbour = Neighbour(proxy.address)
    neighbour.fill()
    if away:
        servers[0].kill()
        is_found_dead(proxy, gone)
        neighbour.may_be_reported = b"SERVER_ERROR down" if replicas == "1" else b"nothing"
    before = counters(proxy)
    rng = random.Random(f"{replicas} {away}")
    with neighbour:
        send_hostile(proxy, rng, count)
    assert neighbour.answered > 0
    assert neighbour.wrong == []
    after = counters(proxy)
    for name in (
        "server_disconnects",
        "server_violations",
        "server_echoes_wrong",
        "journal_flushes",
        "requests_failed_stale",
    ):
        assert after[name] == before[name], (name, after[name])
    for server in servers:
        if not (away and server.address == gone):
            it = entry(proxy, server.address)
            assert (it["state"] in ("up", "idle"), it["unread"]) == (True, None), it


def send_hostile(proxy: Proxy, rng: random.Random, count: int) -> None:
    """In batches, each on a connection of its own, whose answers are read and whose last command is known."""
    for _ in range(count // 100):
        batch = b"".join(hostile_meta(rng) for _ in range(100))
        with socket.create_connection(proxy.address.pair, timeout=20) as connection:
            # A command that was cut short may have taken the next line for its value.
            connection.sendall(batch + b"\r\n\r\nmn\r\nmn\r\nquit\r\n")
            while connection.recv(1 << 16):
                pass


@contextmanager
def guarded_memcached(folder: Path) -> Iterator[Address]:
    """A memcached that wants a login: user `u`, password `p`."""
    passwords = folder / "passwords"
    passwords.write_text("u:p\n")
    passwords.chmod(0o644)
    folder.chmod(0o755)
    port = free_port()
    command = [program("memcached"), "-u", "root", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-Y", str(passwords)]
    process = subprocess.Popen(command)
    try:
        address = Address("127.0.0.1", port)
        eventually(lambda: is_listening(address), "memcached listens")
        yield address
    finally:
        process.terminate()
        process.wait(20)


def is_listening(address: Address) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address.pair) == 0


@pytest.mark.every_engine
def test_a_password_of_one_client_logs_nobody_in(start_proxy: StartProxy, tmp_path: Path) -> None:
    with guarded_memcached(tmp_path) as guarded:
        proxy = start_proxy(in_front_of=[guarded])
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            answer = ask(proxy.address, b"set auth 0 0 3\r\nu p\r\nget auth\r\n")
            assert not answer.startswith((b"STORED", b"VALUE")), answer
            assert b"VALUE" not in answer, answer
        expected = b"SERVER_ERROR unauthenticated %s\r\n" % str(guarded).encode()
        assert ask(proxy.address, b"get auth\r\n") == expected
        assert entry(proxy, guarded)["state"] == "down"
        assert counters(proxy)["server_logins_wanted"] > 0
