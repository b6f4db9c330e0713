"""Where the rows are tried: a memcached alone, and three behind a proxy that keeps R copies.

Of the three, a key's primary is the one that a proxy with R = 1 uses, its followers are the others that a proxy with R
copies uses, and the rest are bystanders. Which is which depends on the ports of the day and is found out, so that the
table does not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy
from tests.harness.wire import Wire

from .observation import Reply, ask, held
from .rows import BINARY, WATCHED, Holdings, Item, Row, on_the_wire

SERVERS = 3

OPTIONS: tuple[tuple[str, ...], ...] = ((), ("--allow-flush",), ("--allow-server-commands",))
"""What a proxy may be started with; a row says which."""

BUSY_S = 0.05
"""Before a server that crawls its items for an earlier row is asked anew."""

START_STATES = 5
"""Items that each server has stored before the next one's: their cas numbers never agree."""


@dataclass(frozen=True)
class Copies:
    """What the servers hold under one key."""

    primary: Item | None
    followers: tuple[Item | None, ...]
    bystanders: tuple[Item | None, ...]


@dataclass(frozen=True)
class Observed:
    reply: Reply
    copies: dict[bytes, Copies]


@dataclass(frozen=True)
class Roles:
    primary: Address
    followers: tuple[Address, ...]
    bystanders: tuple[Address, ...]


class World:
    """One subject and the servers behind it."""

    def __init__(self, subject: Address, roles: dict[bytes, Roles], settle: Callable[[Wire], None]) -> None:
        self._subject = subject
        self._roles = roles
        self._settle = settle

    def try_row(self, row: Row) -> Observed:
        """Empties the servers, lays out what the row wants, sends it, and looks; again while one is busy."""
        deadline = time.monotonic() + LIVENESS_S
        while (observed := self._try_once(row)).reply.data.startswith(b"BUSY ") and time.monotonic() < deadline:
            time.sleep(BUSY_S)
        return observed

    def _try_once(self, row: Row) -> Observed:
        self._clear()
        self._lay_out(row.before)
        with Wire(self._subject) as wire:
            sent = with_cas(row.sent, wire)
            reply = ask(wire, sent, takes_over=row.takes_over, statistics=row.statistics)
        with Wire(self._subject) as wire:
            self._settle(wire)
        return Observed(reply, {key: self._copies(key) for key in WATCHED})

    def _clear(self) -> None:
        for server in self._servers():
            with Wire(server) as wire:
                assert wire.ask(b"flush_all") == b"OK"
        for key in WATCHED:
            for server in self._servers():
                assert held(server, key) is None, f"{server} still holds {key!r}"

    def _lay_out(self, before: Holdings) -> None:
        for key, item in before.items():
            roles = self._roles[key]
            for server in (roles.primary, *roles.followers):
                put(server, key, item)

    def _copies(self, key: bytes) -> Copies:
        roles = self._roles[key]
        return Copies(
            held(roles.primary, key),
            tuple(held(server, key) for server in roles.followers),
            tuple(held(server, key) for server in roles.bystanders),
        )

    def _servers(self) -> set[Address]:
        roles = next(iter(self._roles.values()))
        return {roles.primary, *roles.followers, *roles.bystanders}


def memcached_alone(stack: ExitStack) -> World:
    server = start_server(stack)
    roles = Roles(server, (), ())
    return World(server, dict.fromkeys(WATCHED, roles), settle=lambda wire: None)


class Proxied:
    """Three memcached, and proxies with R = 1, 2 and 3 in front of the same three."""

    def __init__(self, stack: ExitStack) -> None:
        self._servers = [start_server(stack, number) for number in range(1, SERVERS + 1)]
        self._proxies = {
            (replicas, options): start_proxy(stack, self._servers, "--replicas", str(replicas), *options)
            for replicas in range(1, SERVERS + 1)
            for options in OPTIONS
        }
        self._probes = self._one_key_per_server()

    def world(self, replicas: int, options: tuple[str, ...]) -> World:
        roles = {key: self._roles(key, replicas) for key in WATCHED}
        return World(self._proxies[replicas, options], roles, self._settle)

    def _settle(self, wire: Wire) -> None:
        """Returns when the servers have done what the proxy sent them for replies that nobody waits for.

        A connection between proxy and server keeps the order of what is sent, so a reply from every server tells that
        all before it is done. What a proxy sends because of such a reply is done by the next round, and what it sends
        because of that by the third.
        """
        for _ in range(3):
            assert wire.get(*self._probes) == []

    def _roles(self, key: bytes, replicas: int) -> Roles:
        primary, copies = self._holders(key, 1), self._holders(key, replicas)
        assert len(primary) == 1
        assert primary[0] in copies
        assert len(copies) == replicas
        followers = tuple(server for server in copies if server not in primary)
        return Roles(primary[0], followers, tuple(server for server in self._servers if server not in copies))

    def _holders(self, key: bytes, replicas: int) -> list[Address]:
        """The servers that a set through a proxy with R copies reaches."""
        for server in self._servers:
            with Wire(server) as wire:
                assert wire.ask(b"flush_all") == b"OK"
        put(self._proxies[replicas, OPTIONS[0]], key, Item(b"where"))
        return [server for server in self._servers if held(server, key) is not None]

    def _one_key_per_server(self) -> list[bytes]:
        found: dict[Address, bytes] = {}
        for number in range(1000):
            key = b"probe:%d" % number
            found.setdefault(self._holders(key, 1)[0], key)
            if len(found) == SERVERS:
                return list(found.values())
        raise AssertionError(f"1000 keys on fewer than {SERVERS} servers: {found}")


def start_server(stack: ExitStack, number: int = 1) -> Address:
    server = stack.enter_context(Memcached())
    server.wait_ready(server.address)
    with Wire(server.address) as wire:
        for _ in range(START_STATES * number):
            assert wire.store(b"before", b"all") == b"STORED"
    return server.address


def start_proxy(stack: ExitStack, servers: list[Address], *options: str) -> Address:
    proxy = stack.enter_context(Proxy(servers, *options, "--timeout", f"{LIVENESS_S}s"))
    proxy.wait_ready(proxy.address)
    return proxy.address


def put(where: Address, key: bytes, item: Item) -> None:
    flag = b" b" if key == BINARY else b""
    name = on_the_wire(key)
    ttl = 0 if item.ttl == "never" else int(item.ttl)
    with Wire(where) as wire:
        command = b"ms %b %d F%d T%d%b\r\n%b" % (name, len(item.value), item.flags, ttl, flag, item.value)
        assert wire.ask(command) == b"HD"
        if "X" in item.marks:
            assert wire.ask(b"md %b I%b" % (name, flag)) == b"HD"


def with_cas(sent: bytes, wire: Wire) -> bytes:
    if b"<" not in sent:
        return sent
    reply = wire.ask(b"mg key c")
    assert reply.startswith(b"HD c"), f"{reply!r}: a row with <cas> needs a key"
    cas = int(reply.split(b" ")[1].removeprefix(b"c"))
    for name, number in ((b"<cas>", cas), (b"<lower>", cas - 1), (b"<higher>", cas + 1000)):
        sent = sent.replace(name, b"%d" % number)
    return sent
