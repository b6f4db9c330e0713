"""Something that listens, and serves each connection in threads of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.harness.processes import Address


class Listening:
    """Accepts while the `with` block lasts, then closes whatever is in `opened`. What is served is `serve`'s."""

    def __init__(self) -> None:
        self.address = Address.free()
        self.opened: list[socket.socket] = []
        self.ended = threading.Event()
        self._listener = socket.create_server(self.address.pair)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        for opened in (self._listener, *self.opened):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def serve(self, connection: socket.socket) -> None:
        """In the thread of one connection, until that ends."""
        raise NotImplementedError

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.opened.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.serve(connection)
