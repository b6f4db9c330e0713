"""What a client is run against, each time from nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.logins import write_passwords
from tests.harness.processes import LIVENESS_S, Address, ConfiguredProxy, Memcached, Proxy
from tests.harness.tls import Authority


@dataclass(frozen=True)
class Subject:
    name: str
    servers: int
    replicas: int
    """Copies of each key; none: the client connects to memcached itself."""


@dataclass(frozen=True)
class Started:
    address: Address
    environment: Mapping[str, str] = field(default_factory=dict)
    """What a program of flows needs to know beside the address.

    FLOWS_CA is a file with the authority of a server that speaks TLS. FLOWS_CERT and FLOWS_KEY are files with what the
    client shows to one that wants a certificate. FLOWS_LOGIN is what the first request of a connection says to one that
    wants a login: a name, a space, a password.
    """


MEMCACHED = Subject("memcached", servers=1, replicas=0)
WEIR = (
    Subject("weir, 1 server", servers=1, replicas=1),
    Subject("weir, 3 servers", servers=3, replicas=1),
    Subject("weir, 3 servers, R = 2", servers=3, replicas=2),
)
# Clients log in there: with a password, as it is or through TLS, or by the certificate that they show. Each for what it
# can.
PASSWORD = Subject("weir, password", servers=3, replicas=1)
TLS_PASSWORD = Subject("weir, TLS and password", servers=3, replicas=1)
CERTIFICATE = Subject("weir, TLS and certificate", servers=3, replicas=1)
SECURED = (PASSWORD, TLS_PASSWORD, CERTIFICATE)
SUBJECTS = (MEMCACHED, *WEIR, *SECURED)


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
        proxy, environment = in_front_of(addresses, subject, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.enter_context(proxy)
        proxy.wait_ready(proxy.address)
        yield Started(proxy.address, environment)


def in_front_of(servers: list[Address], subject: Subject, folder: Path) -> tuple[Proxy, Mapping[str, str]]:
    """The proxy, and what its clients need to know. What is secret lies in the folder."""
    options = ["--allow-flush", "--timeout", f"{LIVENESS_S}s"]
    if subject not in SECURED:
        return Proxy(servers, "--replicas", str(subject.replicas), *options), {}
    environment = {}
    if subject is not CERTIFICATE:
        options += ["--auth-file", str(write_passwords(folder / "passwords", "user:password"))]
        environment["FLOWS_LOGIN"] = "user password"
    if subject is PASSWORD:
        return Proxy(servers, *options), environment
    authority = Authority(folder)
    options += ["--tls-cert", str(authority.issue("proxy").both)]
    environment["FLOWS_CA"] = str(authority.file)
    if subject is TLS_PASSWORD:
        return Proxy(servers, *options), environment
    shown = authority.issue("client", "DNS:client.example")
    listed = ", ".join(f'"{server}"' for server in servers)
    file = folder / "weir.toml"
    user = '[[users]]\nname = "user"\ncertificate = "client.example"\n'
    file.write_text(f"[pools.main]\nservers = [{listed}]\n\n{user}")
    options += ["--tls-client-ca", str(authority.file)]
    environment |= {"FLOWS_CERT": str(shown.chain), "FLOWS_KEY": str(shown.key)}
    return ConfiguredProxy(file, *options), environment
