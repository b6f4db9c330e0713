"""The delay device: what it must do on any machine, however busy. How well it does it is measured by bench/delay."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from namespaces import eventually, needs_network, runs
from weir_lab.bench.network import (
    DelayDevice,
    DelayPort,
    Link,
    Network,
    connect_in,
    find_delay_device,
    measure_one_way,
    run_in,
    this_process,
)
from weir_lab.bench.network.one_way import summarize
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = find_delay_device()
DELAY_MS = 40.0

needs_device = pytest.mark.skipif(PROGRAM is None, reason="needs weir-delay: scripts/setup binary builds it")


@pytest.fixture
def network() -> Iterator[Network]:
    links = {"client-0": Link(201.0, DELAY_MS), "server-0": Link(101.0, DELAY_MS)}
    with Network(this_process(), links, PROGRAM) as made:
        yield made


def device_of(network: Network) -> DelayDevice:
    assert network.delay_device is not None
    return network.delay_device


@needs_network
@needs_device
def test_no_packet_is_earlier_than_the_device_may_correct_itself_and_none_is_lost(network: Network) -> None:
    client, server = network.nodes.values()
    way = measure_one_way(client, server, 2_000.0, 500)
    # On an idle machine all are within some 100 µs of the delay; on any, none is more than half of it early.
    assert way.min_ms > DELAY_MS / 2
    assert (way.sent, way.received, way.lost) == (500, 500, 0)
    report = device_of(network).report()
    assert report.dropped_packets == 0
    assert report.packets >= 500
    assert report.lateness is not None
    assert report.lateness.count <= report.packets
    assert device_of(network).report().lateness is None, "the next period begins with the report"


@needs_network
@needs_device
def test_bytes_arrive_as_they_were_sent_and_are_counted_as_the_token_buckets_count_them(network: Network) -> None:
    client, server = network.nodes.values()
    sent = os.urandom(2_000_000)
    before = [node.traffic().sent_bytes for node in (client, server)]
    began = device_of(network).report()
    listener = run_in(server.namespace, lambda: socket.create_server((server.address, 0)))
    with listener, connect_in(client.namespace, listener.getsockname()[:2], 30.0) as near, listener.accept()[0] as far:
        far.settimeout(30.0)

        def feed() -> None:
            near.sendall(sent)
            near.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=feed)
        thread.start()
        received = hashlib.sha256()
        while part := far.recv(1 << 20):
            received.update(part)
        thread.join()
    assert received.digest() == hashlib.sha256(sent).digest()

    def counted() -> tuple[int, int]:
        buckets = sum(node.traffic().sent_bytes for node in (client, server)) - sum(before)
        return device_of(network).report().wire_bytes - began.wire_bytes, buckets

    # What closes the connection may still be on its way.
    eventually(lambda: counted()[0] == counted()[1], f"device and token buckets agree: {counted()}")
    assert counted()[0] > len(sent)


@needs_network
@needs_device
def test_a_device_that_ended_is_reported_with_its_last_words(network: Network) -> None:
    device = device_of(network)
    os.kill(device.pid, signal.SIGKILL)
    eventually(lambda: not runs(device.pid), "it has ended")
    with pytest.raises(TestbedError, match="weir-delay, which is the network, has ended with status -9"):
        device.report()


@needs_network
@needs_device
def test_a_device_ends_with_its_network() -> None:
    with Network(this_process(), {"client-0": Link(201.0, 1.0), "server-0": Link(201.0, 1.0)}, PROGRAM) as network:
        pid = device_of(network).pid
        assert runs(pid)
    assert not runs(pid)


@needs_device
@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ([DelayPort("nowhere0", 1.0)], "nowhere0: cannot be opened"),
        ([DelayPort("lo", 10_001.0)], "is no delay: give 0 to 10000 milliseconds"),
    ],
)
def test_what_the_device_cannot_do_it_says_at_once(ports: list[DelayPort], words: str) -> None:
    assert PROGRAM is not None
    with pytest.raises(TestbedError, match=words):
        DelayDevice(PROGRAM, [], ports)


def test_the_device_is_looked_for_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_DELAY_BIN", str(tmp_path / "device"))
    assert find_delay_device() is None
    (tmp_path / "device").touch()
    assert find_delay_device() == tmp_path / "device"
    monkeypatch.delenv("WEIR_DELAY_BIN")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "weir-delay").touch()
    assert find_delay_device() == tmp_path / "release" / "weir-delay"


def test_quantiles_of_times_are_times_that_were_seen() -> None:
    way = summarize([number * 1_000_000 for number in range(100, 0, -1)], 101, 50.0)
    assert (way.min_ms, way.median_ms, way.p99_ms, way.max_ms) == (1.0, 50.0, 99.0, 100.0)
    assert (way.sent, way.received, way.lost) == (101, 100, 1)
    alone = summarize([7_000_000], 1, 1.0)
    assert (alone.min_ms, alone.median_ms, alone.p99_ms, alone.max_ms) == (7.0, 7.0, 7.0, 7.0)
