"""What the links do, measured through them: how fast a machine sends, and how long a byte takes there and back.

Both ends run in this process, so nothing needs to be installed. The rate is measured as bytes on the wire, counted by the token bucket,
and as the payload that arrived; they differ by the packets' headers.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.network.namespaces import run_in
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weir_lab.bench.network.counters import Traffic
    from weir_lab.bench.network.namespaces import Node

__all__ = ["RoundTrips", "SendingRate", "measure_round_trips", "measure_sending_rate"]

_CHUNK_BYTES = 128 << 10
_LIMIT_S = 30.0


@dataclass(frozen=True)
class SendingRate:
    """How fast one machine sends to another."""

    wire_mbit_s: float
    payload_mbit_s: float
    seconds: float
    wire_bytes: int


@dataclass(frozen=True)
class RoundTrips:
    """One byte there and back over an open connection, many times, one after the other."""

    count: int
    min_ms: float
    median_ms: float


def measure_sending_rate(sender: Node, receiver: Node, seconds: float) -> SendingRate:
    """Let one machine send as fast as it can.

    The first quarter is left out: it holds the bucket's first burst and TCP's slow start.
    """
    with _connection(sender, receiver) as (sending, receiving):
        stop = threading.Event()
        source = threading.Thread(target=_send_until, args=(sending, stop), daemon=True)
        source.start()
        try:
            _receive_for(receiving, seconds / 4)
            first, began = _read_traffic(sender)
            payload_bytes, payload_s = _receive_for(receiving, seconds)
            second, ended = _read_traffic(sender)
        finally:
            stop.set()
            receiving.close()  # what still waits to be sent does not matter
            source.join()
    wire_bytes = second.since(first).sent_bytes
    return SendingRate(
        wire_bytes * 8 / (ended - began) / 1e6, payload_bytes * 8 / payload_s / 1e6, payload_s, wire_bytes
    )


def measure_round_trips(one: Node, other: Node, count: int) -> RoundTrips:
    """Send one byte there and back `count` times."""
    if count < 1:
        raise ValueError(f"count is {count}: give 1 or more")
    with _connection(one, other) as (near, far):
        echo = threading.Thread(target=_echo, args=(far,), daemon=True)
        echo.start()
        times_ms = []
        for _ in range(count):
            began = time.perf_counter_ns()
            near.sendall(b".")
            if not near.recv(1):
                raise TestbedError(f"the connection from {one.name} to {other.name} broke.")
            times_ms.append((time.perf_counter_ns() - began) / 1e6)
        near.close()
        echo.join()
    return RoundTrips(count, min(times_ms), statistics.median(times_ms))


@contextlib.contextmanager
def _connection(one: Node, other: Node) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection from one machine to another."""
    with run_in(other.namespace, lambda: socket.create_server((other.address, 0))) as listener:
        listener.settimeout(_LIMIT_S)
        port = listener.getsockname()[1]
        near = run_in(one.namespace, lambda: socket.create_connection((other.address, port), timeout=_LIMIT_S))
        with near, listener.accept()[0] as far:
            for end in (near, far):
                end.settimeout(_LIMIT_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield near, far


def _read_traffic(node: Node) -> tuple[Traffic, float]:
    """A link's counters, and the middle of the time that it took to read them."""
    before = time.monotonic()
    traffic = node.traffic()
    return traffic, (before + time.monotonic()) / 2


def _send_until(sending: socket.socket, stop: threading.Event) -> None:
    chunk = bytes(_CHUNK_BYTES)
    with contextlib.suppress(OSError):  # the receiver closes when it has seen enough
        while not stop.is_set():
            sending.sendall(chunk)


def _receive_for(receiving: socket.socket, seconds: float) -> tuple[int, float]:
    """Payload bytes that arrived, and in how many seconds."""
    buffer = bytearray(4 * _CHUNK_BYTES)
    received, began = 0, time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        count = receiving.recv_into(buffer)
        if count == 0:
            raise TestbedError("the connection over which a link is measured broke.")
        received += count
    return received, now - began


def _echo(far: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while byte := far.recv(1):
            far.sendall(byte)
