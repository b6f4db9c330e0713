"""A relay in front of a server that lets replies through at a limited rate."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from bench.listening import Listening
from tests.harness.processes import Address

# What may come at once: a slow link's queue of some ten packets.
BURST_BYTES = 16 << 10


class SlowLink(Listening):
    """A token bucket for all connections together, as one link is; requests pass freely."""

    def __init__(self, to: Address, mbit_s: float) -> None:
        super().__init__()
        self._to = to
        self._bytes_s = mbit_s * 1e6 / 8
        self._free_at = 0.0
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        server = self._to.connect(5)
        server.settimeout(None)
        self.opened.append(server)
        threading.Thread(target=self._carry, args=(connection, server, False), daemon=True).start()
        self._carry(server, connection, is_slow=True)

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
