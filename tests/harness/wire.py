"""A socket that speaks the text protocol byte by byte, for tests that look at what is on the wire."""

from __future__ import annotations

import contextlib
import socket
import struct
from types import TracebackType
from typing import Protocol, Self

from .processes import LIVENESS_S


class Connectable(Protocol):
    """Where a client connects: a port, a path, or either with TLS."""

    def connect(self, timeout: float) -> socket.socket: ...


class Wire:
    """One client connection. Reads fail instead of hanging; nothing is retried or hidden."""

    def __init__(self, address: Connectable) -> None:
        self._socket = address.connect(LIVENESS_S)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """What a selector looks at."""
        return self._socket.fileno()

    def reset(self) -> None:
        """Leaves without a goodbye: the peer's next write fails."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def finish_sending(self) -> None:
        """Says that no more requests will come; replies can still be read."""
        self._socket.shutdown(socket.SHUT_WR)

    def line(self) -> bytes:
        """The next line, without its end."""
        while b"\r\n" not in self._unread:
            self._receive()
        line, _, self._unread = self._unread.partition(b"\r\n")
        return line

    def exactly(self, count: int) -> bytes:
        pieces, missing = [self._unread], count - len(self._unread)
        while missing > 0:
            pieces.append(self._received())
            missing -= len(pieces[-1])
        data = b"".join(pieces)
        self._unread = data[count:]
        return data[:count]

    def until(self, marker: bytes) -> tuple[bytes, bool]:
        """Everything before the marker at the end of what comes; or everything, and True, if the peer closes first."""
        while not self._unread.endswith(marker):
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            except TimeoutError:
                raise AssertionError(f"{marker!r} does not come, only {self._unread!r}") from None
            if not data:
                found, self._unread = self._unread, b""
                return found, True
            self._unread += data
        found, self._unread = self._unread.removesuffix(marker), b""
        return found, False

    def try_send(self, data: bytes) -> None:
        """Sends, unless the peer has already closed."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def ask(self, command: bytes) -> bytes:
        """Sends one command (its end is added) and gives the one line that answers it."""
        self.send(command + b"\r\n")
        return self.line()

    def store(self, key: bytes, value: bytes) -> bytes:
        return self.ask(b"set %b 0 0 %d\r\n%b" % (key, len(value), value))

    def get(self, *keys: bytes) -> list[tuple[bytes, bytes]]:
        self.send(b"get " + b" ".join(keys) + b"\r\n")
        return self.values()

    def values(self) -> list[tuple[bytes, bytes]]:
        """The (key, value) pairs of one reply to get, in the order they came; an error line fails."""
        found = []
        while (line := self.line()) != b"END":
            word, key, _flags, length = line.split(b" ")[:4]
            assert word == b"VALUE", line
            found.append((key, self.exactly(int(length))))
            assert self.exactly(2) == b"\r\n", f"the value of {key!r} does not end where its length says"
        return found

    def in_step(self) -> None:
        """Fails if a reply is left over or owed: the next reply must belong to the next command."""
        assert self._unread == b"", self._unread
        reply = self.ask(b"version")
        assert reply.startswith(b"VERSION "), reply

    def ended(self) -> bool:
        """Whether the peer closed the connection after everything that was read."""
        return self._unread == b"" and self._socket.recv(1) == b""

    def _receive(self) -> None:
        self._unread += self._received()

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 16)
        assert data, f"the connection ended in the middle of a reply, after {self._unread[:200]!r}"
        return data
