"""A relay in front of a server that lets replies through at a limited rate."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

from tests.harness.processes import Address

# What may come at once: a slow link's queue of some ten packets.
BURST_BYTES = 16 << 10


class SlowLink:
    """A token bucket for all connections together, as one link is; requests pass freely."""

    def __init__(self, to: Address, mbit_s: float) -> None:
        self._to = to
        self._bytes_s = mbit_s * 1e6 / 8
        self._free_at = 0.0
        self._lock = threading.Lock()
        self._opened: list[socket.socket] = []
        self.address = Address.free()
        self._listener = socket.create_server(self.address.pair)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in (self._listener, *self._opened):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = self._to.connect(5)
                far.settimeout(None)
                self._opened += [near, far]
                for source, sink, is_slow in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._carry, args=(source, sink, is_slow), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(BURST_BYTES):
                if is_slow:
                    self._wait_for_room(len(data))
                sink.sendall(data)

    def _wait_for_room(self, count: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self._bytes_s
            wait = self._free_at - now
        time.sleep(wait)
