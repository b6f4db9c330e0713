"""Counters of one machine's link, asked from the kernel over a socket that stays open: some ten microseconds a reading, and no process.

A run reads them at the edges of its measured phase, where a call of ``tc`` per machine would cost the roles milliseconds of CPU.
Messages and attributes: rtnetlink(7), ``linux/rtnetlink.h``, ``linux/gen_stats.h``.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LinkCounters", "Traffic"]

_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_NEWLINK, _GETLINK = 16, 18
_NEWQDISC, _GETQDISC = 36, 38
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_QDISC = struct.Struct("=BxxxiIII")
_ROOT = 0xFFFFFFFF
_IFLA_STATS64 = 23
_TCA_STATS2, _STATS_BASIC, _STATS_QUEUE = 7, 1, 3
_NESTED = 0x8000
_ANSWER_BYTES_MAX = 1 << 16
_LIMIT_S = 10.0


@dataclass(frozen=True)
class Traffic:
    """Bytes of one machine's link since it was made.

    What was sent is counted as the token bucket counts it, each packet with its headers. What was received is the interface's count, in
    which packets that were joined on the way have one header: a few percent less.
    """

    sent_bytes: int
    sent_packets: int
    dropped_packets: int
    received_bytes: int

    def since(self, earlier: Traffic) -> Traffic:
        """The difference."""
        return Traffic(
            self.sent_bytes - earlier.sent_bytes,
            self.sent_packets - earlier.sent_packets,
            self.dropped_packets - earlier.dropped_packets,
            self.received_bytes - earlier.received_bytes,
        )


class LinkCounters:
    """Reads the counters of one interface of the namespace that this object is made in. Close it, or the namespace stays."""

    def __init__(self, interface: str) -> None:
        self._index = socket.if_nametoindex(interface)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(_LIMIT_S)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Let go of the namespace."""
        self._socket.close()

    def read(self) -> Traffic:
        """The counters now."""
        try:
            sent = self._root_queue()
            received_bytes = self._received_bytes()
        except (OSError, struct.error, KeyError) as error:
            raise TestbedError(
                f"the counters of a link cannot be read: {error!r}. Is its namespace still there?"
            ) from error
        return Traffic(*sent, received_bytes)

    def _root_queue(self) -> tuple[int, int, int]:
        """Bytes, packets and drops of the queueing discipline at the interface's root."""
        request = _QDISC.pack(socket.AF_UNSPEC, self._index, 0, 0, 0)
        for body in self._answers(_GETQDISC, _DUMP, request, _NEWQDISC):
            _family, index, _handle, parent, _info = _QDISC.unpack_from(body)
            if index == self._index and parent == _ROOT:
                statistics = dict(_attributes(dict(_attributes(body[_QDISC.size :]))[_TCA_STATS2]))
                size, packets = struct.unpack_from("=QI", statistics[_STATS_BASIC])
                (drops,) = struct.unpack_from("=8xI", statistics[_STATS_QUEUE])
                return size, packets, drops
        raise TestbedError("a link has no queueing discipline: somebody took its token bucket away.")

    def _received_bytes(self) -> int:
        request = _LINK.pack(socket.AF_UNSPEC, 0, self._index, 0, 0)
        body = next(iter(self._answers(_GETLINK, 0, request, _NEWLINK)))
        (received_bytes,) = struct.unpack_from("=16xQ", dict(_attributes(body[_LINK.size :]))[_IFLA_STATS64])
        return int(received_bytes)

    def _answers(self, kind: int, flags: int, request: bytes, expected: int) -> list[bytes]:
        """Bodies of all messages that answer a request."""
        self._sequence += 1
        length = _HEADER.size + len(request)
        self._socket.send(_HEADER.pack(length, kind, _REQUEST | flags, self._sequence, 0) + request)
        bodies: list[bytes] = []
        while True:
            for got, sequence, body in _messages(self._socket.recv(_ANSWER_BYTES_MAX)):
                if sequence != self._sequence:
                    continue  # an answer to a request that was given up
                if got == _ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    raise OSError(-number, "netlink")
                if got == expected:
                    bodies.append(body)
                if got == _DONE or not flags:
                    return bodies


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, sequence number and body of each message."""
    while len(data) >= _HEADER.size:
        length, kind, _flags, sequence, _port = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            return
        yield kind, sequence, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of each attribute."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & ~_NESTED, data[4:length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
