"""A memcached server that answers every request after a delay: gets with misses or one value, sets with STORED."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.harness.processes import Address


class SlowServer:
    """A thread per connection; the requests of a connection are served one after the other."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.value: bytes | None = None
        self._ended = threading.Event()
        self._connections: list[socket.socket] = []
        self.address = Address.free()
        self._listener = socket.create_server(self.address.pair)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for opened in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as lines:
            for line in lines:
                words = line.split()
                if words[:2] == [b"stats", b"settings"]:
                    # The proxy asks once for item_size_max; that is no request of a client.
                    connection.sendall(b"STAT item_size_max 1048576\r\nEND\r\n")
                    continue
                if words[0] == b"set":
                    lines.read(int(words[4]) + 2)
                if self._ended.wait(self.delay_s):
                    return
                connection.sendall(b"STORED\r\n" if words[0] == b"set" else self._found(words[1:]))

    def _found(self, keys: list[bytes]) -> bytes:
        if self.value is None:
            return b"END\r\n"
        blocks = (b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(self.value), self.value) for key in keys)
        return b"".join(blocks) + b"END\r\n"
