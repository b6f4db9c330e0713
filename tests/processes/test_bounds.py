"""Clients that do not read, do not finish, or do nothing: memory stays bounded and others are served."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, Memcached, Process, Proxy, SocketPath, eventually, weir_binary
from tests.harness.standing import counters
from tests.harness.wire import Wire

pytestmark = pytest.mark.every_engine

MEBIBYTE = 1 << 20
DEAF = 200


def resident_bytes(process: Process) -> int:
    """What the kernel says that the process has in memory."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def peak_resident_bytes(process: Process) -> int:
    """The most that it ever had."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


@pytest.fixture
def large(stack: ExitStack) -> Memcached:
    server = stack.enter_context(Memcached("-I", "2m", "-m", "256", "-c", "4096"))
    server.wait_ready(server.address)
    return server


@pytest.mark.parametrize("pipelined", [1, 5])
def test_clients_that_do_not_read_cost_bounded_memory_and_nobody_waits_for_them(
    start_proxy: StartProxy, connect: Connect, large: Memcached, pipelined: int
) -> None:
    proxy = start_proxy("--buffer-limit", "256m", in_front_of=[large.address])
    value = random.Random(1).randbytes(MEBIBYTE)
    direct = connect(large.address)
    for number in range(4):
        assert direct.store(b"large:%d" % number, value) == b"STORED"
    assert direct.store(b"small", b"s") == b"STORED"
    served = connect(proxy.address)
    with ExitStack() as stack:
        for number in range(DEAF):
            deaf = stack.enter_context(deaf_client(proxy))
            deaf.sendall(b"get large:%d\r\n" % (number % 4) * pipelined)
            assert served.get(b"small") == [(b"small", b"s")]
        settled(proxy)
        assert served.get(b"small") == [(b"small", b"s")]
        # While memory is scarce a long reply may be refused; that lasts until those who take nothing have been closed.
        eventually(lambda: served_whole(served, b"large:0", value), "a client that reads gets a long value")
        assert peak_resident_bytes(proxy) <= 320 * MEBIBYTE
        assert proxy.snapshot()["buffered_bytes"] <= 256 * MEBIBYTE
    eventually(lambda: proxy.snapshot()["buffered_bytes"] == 0, "nothing is held any more")


def deaf_client(proxy: Proxy) -> socket.socket:
    """A connection whose kernel takes little for a client that does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(proxy.address.pair)
    return connection


def served_whole(wire: Wire, key: bytes, value: bytes) -> bool:
    wire.send(b"get %b\r\n" % key)
    if (line := wire.line()) == b"SERVER_ERROR buffer-full proxy":
        return False
    assert line == b"VALUE %b 0 %d" % (key, len(value))
    assert wire.exactly(len(value) + len(b"\r\nEND\r\n")) == value + b"\r\nEND\r\n"
    return True


def test_clients_that_take_too_long_are_closed_and_counted(
    start_proxy: StartProxy, connect: Connect, large: Memcached
) -> None:
    limits = ("--idle-timeout", "2s", "--request-timeout", "1s", "--client-timeout", "1s")
    proxy = start_proxy(*limits, in_front_of=[large.address])
    assert connect(large.address).store(b"large", bytes(MEBIBYTE)) == b"STORED"
    idle, half, deaf = connect(proxy.address), connect(proxy.address), deaf_client(proxy)
    with deaf:
        assert idle.ask(b"version").startswith(b"VERSION ")
        half.send(b"set a 0 0 10\r\n01234")
        # More than the kernels between us take.
        deaf.sendall(b"get large\r\n" * 20)
        assert idle.ended()
        assert half.ended()
        eventually(lambda: counters(proxy)["sessions_closed_unread"] == 1, "who does not read is closed")
    found = counters(proxy)
    assert (found["sessions_closed_idle"], found["sessions_closed_slow"]) == (1, 1)
    assert connect(proxy.address).store(b"a", b"x") == b"STORED"


def test_many_uploads_at_once_are_bounded_and_the_refused_ones_delete_the_old_value(
    start_proxy: StartProxy, connect: Connect, large: Memcached
) -> None:
    proxy = start_proxy("--buffer-limit", "32m", in_front_of=[large.address])
    wires = [connect(proxy.address) for _ in range(40)]
    value = bytes(MEBIBYTE - 1)
    for number, wire in enumerate(wires):
        wire.send(b"set key:%d 0 0 1\r\nx\r\n" % number)
        assert wire.line() == b"STORED"
        wire.send(b"set key:%d 0 0 %d\r\n" % (number, MEBIBYTE) + value)
    refused = eventually_refused(proxy)
    assert 0 < refused < len(wires)
    for wire in wires:
        wire.send(b"x\r\n")
    answers = [wire.line() for wire in wires]
    assert answers.count(b"SERVER_ERROR out of memory storing object") == refused
    assert answers.count(b"STORED") == len(wires) - refused
    for number, (wire, answer) in enumerate(zip(wires, answers, strict=True)):
        key = b"key:%d" % number
        if answer == b"STORED":
            # What was needed for the uploads is given back within a second or so.
            eventually(lambda w=wire, k=key: served_whole(w, k, value + b"x"), "it can be read")  # type: ignore[misc]
        else:
            assert wire.get(key) == []


def eventually_refused(proxy: Proxy) -> int:
    """How many long values were refused, once all bytes that were sent have been read."""
    sent = 40 * (MEBIBYTE - 1)
    eventually(lambda: counters(proxy)["client_bytes_read"] > sent, "all was read")
    return counters(proxy)["requests_refused_memory"]


def test_idle_connections_cost_little_memory(start_proxy: StartProxy, large: Memcached) -> None:
    count = 1000
    proxy = start_proxy("--threads", "1", in_front_of=[large.address])
    before = 0
    with ExitStack() as stack:
        for number in range(200 + count):
            if number == 200:
                # What loops and workers need for themselves is no connection's cost, nor is what a busy second leaves.
                eventually(lambda: has_busy_window(proxy), "a busy second is over")
                before = resident_bytes(proxy)
            wire = stack.enter_context(Wire(proxy.address))
            # Each has been busy once.
            wire.send(b"get a b c d\r\n" * 20)
            for _ in range(20):
                assert wire.values() == []
        eventually(lambda: resident_bytes(proxy) - before <= count * 4096, "an idle connection costs 4 KiB at most")


def has_busy_window(proxy: Proxy) -> bool:
    windows = json.loads(proxy.http("/windows"))["windows"]
    return any(operation["requests"] for window in windows for operation in window["operations"].values())


def settled(proxy: Proxy) -> None:
    """Returns when no reply of a server is under way any more."""

    def is_settled() -> bool:
        snapshot = proxy.snapshot()
        return all(server["queued"]["length"] + server["in_flight"]["length"] == 0 for server in snapshot["servers"])

    eventually(is_settled, "the servers have answered all")


def test_a_client_that_sends_before_it_reads_goes_on_when_others_have_given_memory_back(
    stack: ExitStack, large: Memcached, tmp_path: Path, engine: str
) -> None:
    limit = 32 * MEBIBYTE
    address = SocketPath(tmp_path / "weir.sock")
    command = [str(weir_binary()), "proxy", "--listen", str(address), "--server", str(large.address)]
    # Nobody is closed for being slow: this is about room alone.
    command += ["--engine", engine, "--buffer-limit", f"{limit}b", "--client-timeout", "0s", "--request-timeout", "0s"]
    proxy = stack.enter_context(Process(command))
    proxy.wait_ready(address)
    served = stack.enter_context(Wire(address))
    assert served.store(b"large", bytes(MEBIBYTE)) == b"STORED"
    slow = stack.enter_context(Wire(address))
    with ExitStack() as others:
        # What the kernel does not take of it is kept.
        slow.send(b"get large\r\n")
        for _ in range(limit // MEBIBYTE):
            others.enter_context(Wire(address)).send(b"get large\r\n")
            time.sleep(0.02)
            if reported(served, b"buffered_bytes") > limit // 2:
                break
        # More than the kernel takes, and no more requests than a loop serves one client while it reads nothing.
        count = 3 if engine == "event" else 20
        values = [b"set after:%d 0 0 200000\r\n%b\r\n" % (number, bytes(200_000)) for number in range(count)]
        sent = threading.Event()
        sending = threading.Thread(target=send_all, args=(slow, b"".join(values), sent), daemon=True)
        sending.start()
        # While it is not read it cannot end, and it does not read before it has ended.
        sending.join(0.3)
        assert limit // 2 < reported(served, b"buffered_bytes") < limit // 4 * 3
        assert not sent.is_set()
    assert sent.wait(LIVENESS_S), "it is not read, although there is room"
    assert slow.values() == [(b"large", bytes(MEBIBYTE))]
    assert [slow.line() for _ in values] == [b"STORED"] * count


def send_all(client: Wire, data: bytes, sent: threading.Event) -> None:
    # A test that fails closes it.
    with suppress(OSError):
        client.send(data)
        sent.set()


def reported(client: Wire, name: bytes) -> int:
    """A number of `stats proxy`."""
    client.send(b"stats proxy\r\n")
    return int(dict(line.split()[1:3] for line in iter(client.line, b"END"))[name])
