"""A memcached server that answers every request after a delay: gets with misses or one value, sets with STORED."""

from __future__ import annotations

import socket

from bench.listening import Listening


class SlowServer(Listening):
    """A thread per connection; the requests of a connection are served one after the other."""

    def __init__(self, delay_s: float = 0.0) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.value: bytes | None = None

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                words = line.split()
                if words[:2] == [b"stats", b"settings"]:
                    # The proxy asks once for item_size_max; that is no request of a client.
                    connection.sendall(b"STAT item_size_max 1048576\r\nEND\r\n")
                    continue
                if words == [b"version"]:
                    connection.sendall(b"VERSION 1.6.18\r\n")
                    continue
                if words[0] == b"set":
                    lines.read(int(words[4]) + 2)
                if self.ended.wait(self.delay_s):
                    return
                connection.sendall(b"STORED\r\n" if words[0] == b"set" else self._found(words[1:]))

    def _found(self, keys: list[bytes]) -> bytes:
        if self.value is None:
            return b"END\r\n"
        blocks = (b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(self.value), self.value) for key in keys)
        return b"".join(blocks) + b"END\r\n"
