"""What only the engine split promises: queues and threads for each server, and one writer for each key."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.placement import keys_by_server
from tests.harness.processes import LIVENESS_S, Memcached, Proxy, eventually
from tests.harness.standing import counters
from tests.harness.wire import Wire
from tests.processes.test_pool import Liar, writers_leave_equal_replicas

SPLIT = ("--engine", "split")


def stations(proxy: Proxy) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(it["station"], it["server"]): it for it in proxy.snapshot()["stations"]}
    assert len(found) == len(proxy.snapshot()["config"]["servers"]) * 4
    return found


def population(proxy: Proxy, station: str, server: Memcached) -> int:
    return int(stations(proxy)[station, str(server.address)]["population"]["length"])


def until_there(proxy: Proxy, station: str, server: Memcached, count: int) -> None:
    eventually(lambda: population(proxy, station, server) == count, f"{count} requests are at {station} of {server}")


def keys_of(proxy: Proxy, servers: list[Memcached]) -> list[list[bytes]]:
    return keys_by_server(proxy.address, [server.address for server in servers])


def test_every_station_obeys_littles_law(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    """Who is there over time, and how long those who left were there: one number, counted twice, when all have left."""
    proxy = start_proxy(*SPLIT, "--readers", "2", "--replicas", "2")
    wires = [connect(proxy.address) for _ in range(24)]
    for step in range(30):
        for number, wire in enumerate(wires):
            wire.send(b"set key:%d 0 0 3\r\n%03d\r\nget key:%d key:%d\r\nmn\r\n" % (number, step, step, number))
        for wire in wires:
            assert wire.line() == b"STORED"
            wire.values()
            assert wire.line() == b"MN"
    eventually(lambda: not any(it["population"]["length"] for it in stations(proxy).values()), "all have left")
    snapshot = proxy.snapshot()
    entries, operations = snapshot["stations"], snapshot["operations"].values()
    assert snapshot["queue"]["length"] == 0
    for entry in entries:
        population = entry["population"]
        assert population["length"] == 0
        assert population["arrivals"] == entry["departures"]
        assert population["length_time_integral_ns"] == entry["residence_ns_sum"], entry

    def total(field: str, *names: str) -> int:
        return sum(entry[field] for entry in entries if entry["station"] in names)

    requests = sum(it["requests"] for it in operations)
    for names in (("read-queue", "write-queue"), ("readers", "writer")):
        assert total("departures", *names) == requests == 24 * 30 * 3
    in_queues = total("residence_ns_sum", "read-queue", "write-queue")
    assert in_queues == sum(it["stages"]["queue"]["sum_ns"] for it in operations)
    # A thread is free a moment after the kernel has the reply.
    stages = ("send", "backend", "reply")
    served = sum(it["stages"][stage]["sum_ns"] for it in operations for stage in stages)
    assert 0 < served <= total("residence_ns_sum", "readers", "writer")
    assert total("threads", "readers") == 2 * len(servers)
    assert total("threads", "writer") == len(servers)


def test_reads_of_a_frozen_server_hold_its_readers_alone(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*SPLIT, "--readers", "2", "--timeout", "60s")
    held, others, _ = keys_of(proxy, servers)
    servers[0].freeze()
    waiting = [connect(proxy.address) for _ in range(5)]
    for wire in waiting:
        wire.send(b"get " + held[0] + b"\r\n")
    until_there(proxy, "readers", servers[0], 2)
    until_there(proxy, "read-queue", servers[0], 3)
    # Its writer is not held by them, nor is anybody else.
    writers = [connect(proxy.address) for _ in range(5)]
    for number, wire in enumerate(writers):
        wire.send(b"set %b 0 0 1\r\n%d\r\n" % (held[1], number))
        until_there(proxy, "writer", servers[0], number + 1)
    free = connect(proxy.address)
    assert free.get(*others[:9]) == [(key, 2 * key) for key in others[:9]]
    assert free.ask(b"version").startswith(b"VERSION ")
    servers[0].thaw()
    assert [wire.values() for wire in waiting] == [[(held[0], 2 * held[0])]] * 5
    assert [wire.line() for wire in writers] == [b"STORED"] * 5
    assert free.get(held[1]) == [(held[1], b"4")], "they had one order"


def test_full_queues_are_answered_and_counted(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*SPLIT, "--readers", "1", "--queue", "2", "--timeout", "60s")
    held, others, _ = keys_of(proxy, servers)
    servers[0].freeze()
    waiting = [connect(proxy.address) for _ in range(3)]
    for count, wire in enumerate(waiting):
        wire.send(b"get " + held[0] + b"\r\n")
        # One is served, the others wait.
        until_there(proxy, "readers", servers[0], 1)
        until_there(proxy, "read-queue", servers[0], count)
    refused = connect(proxy.address)
    assert refused.ask(b"get " + held[1]) == b"SERVER_ERROR queue-full proxy"
    assert refused.get(others[0]) == [(others[0], 2 * others[0])], "another server's queue has room"
    servers[0].thaw()
    for wire in waiting:
        assert wire.values() == [(held[0], 2 * held[0])]
    assert counters(proxy)["queue_refusals_full"] == 1
    refused.in_step()


def test_who_waits_for_a_reader_is_answered_in_time(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*SPLIT, "--readers", "1", "--timeout", "1s")
    held = keys_of(proxy, servers)[0]
    servers[0].freeze()
    wires = [connect(proxy.address) for _ in range(10)]
    for number, wire in enumerate(wires):
        wire.send(b"get %b\r\n" % held[number])
    for wire in wires:
        assert wire.line().startswith(b"SERVER_ERROR timeout ")
    servers[0].thaw()
    # The reader that was held, or those who waited behind it: all of them are counted.
    found = counters(proxy)
    assert found["queue_timeouts"] + found["server_timeouts"] >= 10


def test_racing_writers_leave_equal_replicas(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """Eight clients on few keys, whose primaries are different servers."""
    proxy = start_proxy(*SPLIT, "--readers", "2", "--replicas", "3", "--allow-flush")
    writers_leave_equal_replicas([connect(proxy.address) for _ in range(8)], [connect(it.address) for it in servers])


def test_a_flush_that_cannot_be_carried_out_lets_writers_go_on(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """One of it and a write waits for the other at a server that does not answer, and both are given up."""
    proxy = start_proxy(*SPLIT, "--replicas", "2", "--allow-flush", "--timeout", "1s")
    held = keys_of(proxy, servers)
    wire, flusher, other = (connect(proxy.address) for _ in range(3))
    servers[0].freeze()
    wire.send(b"set %b 0 0 1\r\nx\r\n" % held[0][0])
    flusher.send(b"flush_all\r\n")
    assert wire.line().startswith(b"SERVER_ERROR ")
    assert flusher.line().startswith(b"SERVER_ERROR ")
    servers[0].thaw()
    untouched = next(key for key in held[1] + held[2] if key not in held[0])

    def is_stored() -> bool:
        return other.store(untouched, b"y") == b"STORED" and flusher.ask(b"flush_all") == b"OK"

    eventually(is_stored, "writers and flushes go on")
    assert other.get(untouched) == []


def test_a_client_that_does_not_read_holds_no_thread(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy(*SPLIT, "--readers", "1")
    wire = connect(proxy.address)
    assert wire.store(b"large", b"x" * 1_000_000) == b"STORED"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(proxy.address.pair)
        slow.settimeout(LIVENESS_S)
        slow.sendall(b"get large\r\n" * 20)
        for number in range(100):
            assert wire.store(b"large%d" % number, b"%d" % number) == b"STORED"
            assert wire.get(b"large")[0][0] == b"large"
        expected = (b"VALUE large 0 1000000\r\n" + b"x" * 1_000_000 + b"\r\nEND\r\n") * 20
        received = bytearray()
        while len(received) < len(expected):
            received += slow.recv(1 << 20)
        assert received == expected
    wire.in_step()


def test_clients_that_leave_in_mid_request(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy(*SPLIT, "--readers", "2", "--timeout", "60s")
    key = keys_of(proxy, servers)[0][0]
    wire = connect(proxy.address)
    before = counters(proxy)["requests_orphaned"]
    servers[0].freeze()
    leaving = [Wire(proxy.address) for _ in range(6)]
    for number, client in enumerate(leaving):
        client.send(b"get %b\r\nset gone:%d 0 0 1\r\nx\r\nget %b\r\nset half 0 0 100\r\nx" % (key, number, key))
    until_there(proxy, "read-queue", servers[0], 4)  # and two are served
    for client in leaving:
        client.reset()
    eventually(lambda: proxy.snapshot()["sessions"] == 1, "the proxy knows that they are gone")
    servers[0].thaw()
    eventually(lambda: counters(proxy)["requests_orphaned"] >= before + 6, "their requests are done")
    # What they had asked for is carried out all the same.
    eventually(lambda: len(wire.get(*(b"gone:%d" % number for number in range(6)))) == 6, "their values are stored")
    wire.in_step()


def test_a_server_that_talks_nonsense(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    liar = Liar()
    try:
        proxy = start_proxy(*SPLIT, "--readers", "2", in_front_of=[liar.address, servers[0].address])
        wires = [connect(proxy.address) for _ in range(8)]
        for number in range(20):
            for wire in wires:
                reply = wire.store(b"key:%d" % number, b"value")
                assert reply == b"STORED" or reply.startswith(b"SERVER_ERROR "), reply
                wire.send(b"get key:%d\r\n" % number)
                line = wire.line()
                if line.startswith(b"VALUE "):
                    assert line == b"VALUE key:%d 0 5" % number
                    assert wire.exactly(12) == b"value\r\nEND\r\n"
                else:
                    assert line.startswith(b"SERVER_ERROR ") or line == b"END", line
        for wire in wires:
            wire.in_step()
    finally:
        liar.close()


@pytest.mark.parametrize("mode", ["sharded", "whole"])
def test_a_multiget_asks_as_many_servers_as_its_mode_says(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, mode: str
) -> None:
    """Whole: the server in whose queue it waits, and nobody else."""
    proxy = start_proxy(*SPLIT, "--readers", "1", "--replicas", "3", "--multiget", mode)
    wire = connect(proxy.address)
    keys = [b"key:%d" % number for number in range(9)]
    for key in keys:
        assert wire.store(key, key) == b"STORED"
    before = [entry["requests"] for entry in proxy.snapshot()["servers"]]
    assert wire.get(*keys) == [(key, key) for key in keys]
    after = [entry["requests"] for entry in proxy.snapshot()["servers"]]
    asked = sum(now - then for now, then in zip(after, before, strict=True))
    assert asked == {"sharded": 3, "whole": 1}[mode]
