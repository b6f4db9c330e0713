"""What a client is run against, each time from nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy


@dataclass(frozen=True)
class Subject:
    name: str
    servers: int
    replicas: int
    """Copies of each key; none: the client connects to memcached itself."""


MEMCACHED = Subject("memcached", servers=1, replicas=0)
WEIR = (
    Subject("weir, 1 server", servers=1, replicas=1),
    Subject("weir, 3 servers", servers=3, replicas=1),
    Subject("weir, 3 servers, R = 2", servers=3, replicas=2),
)


@contextmanager
def started(subject: Subject) -> Iterator[Address]:
    with ExitStack() as stack:
        servers = [stack.enter_context(Memcached()) for _ in range(subject.servers)]
        for server in servers:
            server.wait_ready(server.address)
        addresses = [server.address for server in servers]
        if subject.replicas == 0:
            yield addresses[0]
            return
        options = ("--replicas", str(subject.replicas), "--allow-flush", "--timeout", f"{LIVENESS_S}s")
        proxy = stack.enter_context(Proxy(addresses, *options))
        proxy.wait_ready(proxy.address)
        yield proxy.address
