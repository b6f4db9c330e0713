"""What a client is run against, each time from nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.logins import write_passwords
from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy
from tests.harness.tls import Authority


@dataclass(frozen=True)
class Subject:
    name: str
    servers: int
    replicas: int
    """Copies of each key; none: the client connects to memcached itself."""
    secured: bool = False
    """Clients speak TLS there, and log in."""


@dataclass(frozen=True)
class Started:
    address: Address
    environment: Mapping[str, str] = field(default_factory=dict)
    """What a program of flows needs to know beside the address."""


MEMCACHED = Subject("memcached", servers=1, replicas=0)
WEIR = (
    Subject("weir, 1 server", servers=1, replicas=1),
    Subject("weir, 3 servers", servers=3, replicas=1),
    Subject("weir, 3 servers, R = 2", servers=3, replicas=2),
)
# Of clients that can.
SECURED = Subject("weir, TLS and login", servers=3, replicas=1, secured=True)


@contextmanager
def started(subject: Subject) -> Iterator[Started]:
    with ExitStack() as stack:
        servers = [stack.enter_context(Memcached()) for _ in range(subject.servers)]
        for server in servers:
            server.wait_ready(server.address)
        addresses = [server.address for server in servers]
        if subject.replicas == 0:
            yield Started(addresses[0])
            return
        options = ["--replicas", str(subject.replicas), "--allow-flush", "--timeout", f"{LIVENESS_S}s"]
        environment = {}
        if subject.secured:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            authority, passwords = Authority(folder), write_passwords(folder / "passwords", "user:password")
            options += ["--tls-cert", str(authority.issue("proxy").both), "--auth-file", str(passwords)]
            environment = {"FLOWS_CA": str(authority.file), "FLOWS_LOGIN": "user password"}
        proxy = stack.enter_context(Proxy(addresses, *options))
        proxy.wait_ready(proxy.address)
        yield Started(proxy.address, environment)
