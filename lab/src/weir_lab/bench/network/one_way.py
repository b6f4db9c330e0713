"""How long a packet takes from one machine to another, one way: `measure_one_way`.

Machines of one kernel share its clock. The kernel stamps each packet when it leaves the sender's link and when it
reaches the receiver's interface. So nothing that programs do is in it: neither the sender's way into the kernel,
nor waiting for a reader, nor the way back. Stamps and their options: Linux,
``Documentation/networking/timestamping.rst``.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.network.namespaces import run_in
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weir_lab.bench.network.namespaces import Node

__all__ = ["OneWay", "measure_one_way", "summarize"]

# socket(7) and asm-generic/socket.h: Python has no names for them.
_SO_TIMESTAMPNS = 35
_SO_TIMESTAMPING = 37
_SO_RCVBUFFORCE = 33
_IP_RECVERR = 11
# Stamp what is sent, with software's clock; number the stamps, and give them without the packets.
_STAMPS_OF_SENT = 1 << 1 | 1 << 4 | 1 << 7 | 1 << 11
_STAMP = struct.Struct("=qq")
_STAMPS_BYTES = 3 * _STAMP.size
_ERROR = struct.Struct("=IBBBxII")  # struct sock_extended_err: the last is the packet's number
_ERROR_BYTES = 64
_PAYLOAD = struct.Struct("=Q")
_PADDING = bytes(56)
# All packets and stamps wait for a reader who comes at the end; each takes about a kilobyte of the kernel's memory.
_PACKETS_MAX = 200_000
_BYTES_PER_PACKET = 2_048
# What is still on its way when the last was sent.
_LAST_S = 0.3
_GREETINGS = 3


@dataclass(frozen=True)
class OneWay:
    """Times of packets that arrived, and how many did not."""

    packets_per_s: float
    """As they were sent."""
    sent: int
    received: int
    min_ms: float
    median_ms: float
    p99_ms: float
    max_ms: float

    @property
    def lost(self) -> int:
        """Packets that did not arrive."""
        return self.sent - self.received


def measure_one_way(sender: Node, receiver: Node, packets_per_s: float, count: int) -> OneWay:
    """Send `count` packets of 64 bytes at a steady rate. Where the sender is late, it catches up, so a high rate comes in small groups."""
    if not 2 <= count <= _PACKETS_MAX:
        raise ValueError(f"count is {count}: give 2 to {_PACKETS_MAX}")
    with _ends(sender, receiver, count + _GREETINGS) as (near, far):
        for number in range(
            _GREETINGS
        ):  # who is where, and the neighbour's address, are learned before anything counts
            near.send(_PAYLOAD.pack(number) + _PADDING)
            time.sleep(0.02)
        began = time.perf_counter()
        for number in range(count):
            due = began + number / packets_per_s
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            near.send(_PAYLOAD.pack(number + _GREETINGS) + _PADDING)
        took_s = time.perf_counter() - began
        time.sleep(_LAST_S)
        left_ns, came_ns = dict(_sent(near)), dict(_arrived(far))
    times = [came_ns[number] - left_ns[number] for number in left_ns.keys() & came_ns.keys() if number >= _GREETINGS]
    if not times:
        raise TestbedError(f"of {count} packets from {sender.name} to {receiver.name} none arrived.")
    return summarize(times, count, count / took_s)


def summarize(times_ns: Sequence[int], sent: int, packets_per_s: float) -> OneWay:
    """What times say; a quantile is the smallest of them that this share does not exceed."""
    ordered = sorted(times_ns)

    def quantile_ms(share: float) -> float:
        return ordered[max(0, -int(-share * len(ordered) // 1) - 1)] / 1e6

    return OneWay(
        packets_per_s=packets_per_s,
        sent=sent,
        received=len(ordered),
        min_ms=ordered[0] / 1e6,
        median_ms=quantile_ms(0.5),
        p99_ms=quantile_ms(0.99),
        max_ms=ordered[-1] / 1e6,
    )


@contextlib.contextmanager
def _ends(sender: Node, receiver: Node, count: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Datagram sockets on both machines."""

    def listening() -> socket.socket:
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        far.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, max(1 << 20, count * _BYTES_PER_PACKET))
        far.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        far.bind((receiver.address, 0))
        far.setblocking(False)
        return far

    with run_in(receiver.namespace, listening) as far:
        address = far.getsockname()
        with run_in(sender.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as near:
            near.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, max(1 << 20, count * _BYTES_PER_PACKET))
            near.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _STAMPS_OF_SENT)
            near.connect(address)
            yield near, far


def _sent(near: socket.socket) -> Iterator[tuple[int, int]]:
    """Number of each packet, and when it left the link, in ns."""
    room = socket.CMSG_SPACE(_STAMPS_BYTES) + socket.CMSG_SPACE(_ERROR_BYTES)
    while True:
        try:
            _data, controls, _flags, _address = near.recvmsg(1, room, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        known = {(level, kind): content for level, kind, content in controls}
        number = _ERROR.unpack_from(known[socket.IPPROTO_IP, _IP_RECVERR])[-1]
        yield number, _nanoseconds(known[socket.SOL_SOCKET, _SO_TIMESTAMPING])


def _arrived(far: socket.socket) -> Iterator[tuple[int, int]]:
    """Number of each packet that waits to be read, and when it came, in ns."""
    while True:
        try:
            data, controls, _flags, _address = far.recvmsg(256, socket.CMSG_SPACE(_STAMP.size))
        except BlockingIOError:
            return
        for level, kind, content in controls:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                yield _PAYLOAD.unpack_from(data)[0], _nanoseconds(content)


def _nanoseconds(stamp: bytes) -> int:
    seconds, nanoseconds = _STAMP.unpack_from(stamp)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
