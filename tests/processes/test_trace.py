"""Rows of sampled requests: the file of --trace."""

from __future__ import annotations

import csv
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Process, eventually
from tests.harness.wire import Wire
from tests.processes.test_unix_sockets import SocketProxy

STAMPS = ("first_byte_ns", "created_ns", "enqueued_ns", "dequeued_ns", "first_sent_ns", "forwarded_ns", "received_ns")


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def ended(proxy: Process, file: Path) -> list[dict[str, str]]:
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()
    return rows_of(file)


def is_stamped(file: Path) -> bool:
    return any(row["arrived_ns"] for row in rows_of(file))


def arrivals_are_stamped(wire: Wire, file: Path) -> None:
    """Returns once the kernel stamps what it receives: it begins a while after it was asked to."""
    eventually(lambda: wire.store(b"key", b"value") == b"STORED" and is_stamped(file), "arrivals are stamped")


def traffic(wire: Wire) -> None:
    for number in range(10):
        assert wire.store(b"key:%d" % number, b"value") == b"STORED"
    for number in range(10):
        wire.get(b"key:%d" % (2 * number))
    wire.get(*[b"key:%d" % number for number in range(9)])
    wire.send(b"nonsense\r\n")
    assert wire.line() == b"ERROR"


@pytest.mark.every_engine
def test_every_request_has_its_row(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "trace.csv"
    proxy = start_proxy("--trace", str(file), "--trace-sample", "1")
    arrivals_are_stamped(connect(proxy.address), file)
    traffic(connect(proxy.address))
    first, *later = ended(proxy, file)
    rows = [row for row in later if row["client"] != first["client"]]
    assert len(rows) == 22
    names = {str(server.address) for server in servers}
    for row in rows:
        assert row["version"] == "1"
        stamps = [int(row[name]) for name in (*STAMPS, "answered_ns")]
        assert stamps == sorted(stamps), row
        if row["arrived_ns"]:
            assert int(row["arrived_ns"]) <= stamps[0]
        assert set(row["servers"].split()) <= names
    assert {row["client"] for row in rows} == {rows[0]["client"]}
    by_operation = {name: [row for row in rows if row["operation"] == name] for name in ("set", "get", "multiget")}
    assert [len(found) for found in by_operation.values()] == [10, 10, 1]
    assert all(row["outcome"] == "ok" and len(row["servers"].split()) == 1 for row in by_operation["set"])
    assert sum(int(row["hits"]) for row in by_operation["get"]) == 5
    request = by_operation["set"][0]
    assert int(request["request_bytes"]) == len(b"set key:0 0 0 5\r\nvalue\r\n")
    assert int(request["reply_bytes"]) == len(b"STORED\r\n")
    assert (by_operation["multiget"][0]["keys"], by_operation["multiget"][0]["hits"]) == ("9", "9")
    assert [row["outcome"] for row in rows if row["operation"] == "local"] == ["refused"]
    # A few may be missing: those at which the clocks could not be read close enough together.
    assert any(row["arrived_ns"] for row in rows)


@pytest.mark.every_engine
def test_stages_of_the_rows_are_those_of_the_snapshot(
    start_proxy: StartProxy, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "trace.csv"
    proxy = start_proxy("--trace", str(file), "--trace-sample", "1")
    traffic(connect(proxy.address))
    eventually(lambda: sum(it["requests"] for it in proxy.snapshot()["operations"].values()) == 22, "all are recorded")
    operations = proxy.snapshot()["operations"]
    rows = ended(proxy, file)
    for name, operation in operations.items():
        mine = [row for row in rows if row["operation"] == name]
        assert len(mine) == operation["requests"]
        backend = sum(int(row["received_ns"]) - int(row["forwarded_ns"]) for row in mine)
        assert backend == operation["stages"]["backend"]["sum_ns"]
        total = sum(int(row["answered_ns"]) - int(row["first_byte_ns"]) for row in mine)
        assert total == operation["total"]["sum_ns"]


@pytest.mark.every_engine
def test_what_waited_in_the_socket_is_seen(start_proxy: StartProxy, connect: Connect, tmp_path: Path) -> None:
    """The proxy is stopped while a request arrives: only the kernel knows when that was."""
    file = tmp_path / "trace.csv"
    proxy = start_proxy("--trace", str(file), "--trace-sample", "1")
    wire = connect(proxy.address)
    arrivals_are_stamped(wire, file)
    proxy.freeze()
    wire.send(b"get key\r\n")
    # The delay that is to be found again.
    threading.Event().wait(0.2)
    proxy.thaw()
    assert wire.values() == [(b"key", b"value")]
    (row,) = [row for row in ended(proxy, file) if row["operation"] == "get"]
    assert int(row["first_byte_ns"]) - int(row["arrived_ns"]) >= 150_000_000


def test_a_socket_in_the_file_system_has_no_arrival(
    servers: list[Memcached], connect: Connect, stack: ExitStack, tmp_path: Path
) -> None:
    file, path = tmp_path / "trace.csv", tmp_path / "weir.sock"
    options = ("--trace", str(file), "--trace-sample", "1")
    proxy = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)], *options))
    proxy.wait_ready(proxy.address)
    assert connect(proxy.address).store(b"key", b"value") == b"STORED"
    assert [row["arrived_ns"] for row in ended(proxy, file)] == [""]


def test_a_share_of_the_requests_is_sampled_and_the_seed_decides_which(
    start_proxy: StartProxy, connect: Connect, tmp_path: Path
) -> None:
    found = []
    for run in range(2):
        file = tmp_path / f"trace-{run}.csv"
        proxy = start_proxy("--trace", str(file), "--trace-sample", "0.1", "--trace-seed", "7")
        wire = connect(proxy.address)
        for number in range(1000):
            wire.send(b"get key:%d\r\n" % (10**9 + number))
        for _ in range(1000):
            wire.values()
        found.append(ended(proxy, file))
    # 100 are expected; six standard deviations of a binomial distribution are 57.
    assert 43 <= len(found[0]) <= 157
    assert len(found[0]) == len(found[1])


def test_a_reader_that_does_not_read_costs_rows_and_nothing_else(
    start_proxy: StartProxy, connect: Connect, tmp_path: Path
) -> None:
    pipe = tmp_path / "trace.fifo"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        proxy = start_proxy("--trace", str(pipe), "--trace-sample", "1")
        wire = connect(proxy.address)
        count = 2000

        def has_dropped() -> bool:
            # Answered by the proxy itself: the fastest way to many rows.
            wire.send(b"mn\r\n" * count)
            assert wire.exactly(4 * count) == b"MN\r\n" * count
            return "weir_trace_rows_dropped_total 0\n" not in proxy.http("/metrics")

        eventually(has_dropped, "rows are dropped, and requests are answered")
        wire.in_step()
    finally:
        os.close(reader)


def test_a_file_of_something_else_is_left_alone(start_proxy: StartProxy, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine\n")
    with pytest.raises(AssertionError, match="holds something else"):
        start_proxy("--trace", str(file))
    assert file.read_text() == "mine\n"
