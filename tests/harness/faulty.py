"""A real memcached behind a relay that misbehaves when a test says so, and passes everything on otherwise."""

from __future__ import annotations

import enum
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from .processes import LIVENESS_S, Address

# While one byte after the other comes.
DRIP_S = 0.01
LATER_S = 0.003
GARBAGE = b"\x00\xff not a reply \r\n\r\nVALUE\r\n"
# Less than the shortest reply, so what is cut off ends in the middle of one.
CUT_BYTES = 3
READ_BYTES = 1 << 16


class Misbehaviour(enum.Enum):
    """What becomes of replies; but for requests that are swallowed, memcached has carried out what they answer."""

    ANSWERS_GARBAGE = "something else instead, and nothing more"
    ANSWERS_HALF = "all but the end, then the connection is closed"
    ACCEPTS_AND_CLOSES = "there are none: connections are closed, new ones at once"
    DRIPS = "one byte at a time"
    ANSWERS_LATER = "all of them, each piece a few milliseconds later"
    SWALLOWS = "there are none, because requests do not reach memcached"


class FaultyServer:
    """Where a proxy is to connect instead of to the memcached itself.

    Whatever it does, it is one server to the proxy, with what proxies may rely on: when a connection ends, or something
    wrong was said on it, all of its requests that will ever be carried out have been.
    """

    def __init__(self, memcached: Address, unknown: tuple[bytes, ...] = (), withheld: tuple[bytes, ...] = ()) -> None:
        self.memcached = memcached
        # Requests that never reach it.
        self.withheld = withheld
        # Commands at which it closes the connection, whoever serves it: another proxy does.
        self.unknown = unknown
        self.address = Address.free()
        self.misbehaviour: Misbehaviour | None = None
        # While it is unset, bytes drip.
        self.is_good = threading.Event()
        self.is_good.set()
        # How often it has misbehaved.
        self.misdeeds = 0
        self._listener = socket.create_server(self.address.pair)
        self._relays: list[_Relay] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def turn_bad(self, misbehaviour: Misbehaviour) -> None:
        self.misbehaviour = misbehaviour
        self.is_good.clear()
        if misbehaviour is Misbehaviour.ACCEPTS_AND_CLOSES:
            for relay in list(self._relays):
                relay.finish()

    def turn_good(self) -> None:
        self.misbehaviour = None
        self.is_good.set()

    def said(self, reply: bytes) -> bytes:
        """What is passed on of a piece of replies while it does not misbehave."""
        return reply

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.turn_good()
        # A thread that waits in accept or recv is woken by this alone. After the first has ended there are no more.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(LIVENESS_S)
        self._listener.close()
        for relay in self._relays:
            relay.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.misbehaviour is Misbehaviour.ACCEPTS_AND_CLOSES:
                self.misdeeds += 1
                client.close()
                continue
            try:
                self._relays.append(_Relay(self, client))
            except OSError:
                # memcached has gone: the test is ending, and the proxy tries once more.
                client.close()


class _Relay:
    """One connection of the proxy, and the one to memcached that stands behind it."""

    def __init__(self, server: FaultyServer, client: socket.socket) -> None:
        self._server = server
        self._client = client
        self._memcached = server.memcached.connect(LIVENESS_S)
        self._memcached.settimeout(None)
        for connection in (self._client, self._memcached):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._requests, self._replies)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """No more requests reach memcached; when it has answered those that did, the connection is closed."""
        with suppress(OSError):
            self._memcached.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        for connection in (self._client, self._memcached):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIVENESS_S)

    def _requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(READ_BYTES):
                if any(command in data for command in self._server.unknown):
                    self._server.misdeeds += 1
                    break
                is_withheld = any(request in data for request in self._server.withheld)
                if is_withheld or self._server.misbehaviour is Misbehaviour.SWALLOWS:
                    self._server.misdeeds += 1
                    continue
                # After `finish` they are thrown away.
                with suppress(OSError):
                    self._memcached.sendall(data)
        self.finish()

    def _replies(self) -> None:
        with self._memcached, self._client:
            with suppress(OSError):
                while data := self._memcached.recv(READ_BYTES):
                    self._pass_on(data)
            # The other thread may still wait for requests.
            with suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)
            self._threads[0].join(LIVENESS_S)

    def _pass_on(self, data: bytes) -> None:
        match self._server.misbehaviour:
            case Misbehaviour.ANSWERS_GARBAGE:
                self._rest_of_replies()
                self._server.misdeeds += 1
                self._client.sendall(GARBAGE)
                # Who reads that closes.
                self._threads[0].join(LIVENESS_S)
            case Misbehaviour.ANSWERS_HALF:
                data += self._rest_of_replies()
                self._server.misdeeds += 1
                self._client.sendall(data[:-CUT_BYTES])
            case Misbehaviour.DRIPS:
                self._drip(data)
            case Misbehaviour.ANSWERS_LATER:
                time.sleep(LATER_S)
                self._client.sendall(data)
            case _:
                self._client.sendall(self._server.said(data))

    def _rest_of_replies(self) -> bytes:
        """What memcached answers to what it has been sent; it is sent no more."""
        self.finish()
        pieces = []
        while data := self._memcached.recv(READ_BYTES):
            pieces.append(data)
        return b"".join(pieces)

    def _drip(self, data: bytes) -> None:
        self._server.misdeeds += 1
        for at in range(len(data)):
            if self._server.is_good.wait(DRIP_S):
                return self._client.sendall(data[at:])
            self._client.sendall(data[at : at + 1])
        return None
