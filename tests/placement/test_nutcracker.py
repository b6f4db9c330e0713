"""A fleet moves from nutcracker to Weir and keeps its keys: each finds what the other stored, on 100,000 keys.

Weir's configuration is what `weir convert` makes of nutcracker's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Connect
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    Memcached,
    Process,
    Proxy,
    SocketMemcached,
    program,
    weir_binary,
)
from tests.harness.wire import Wire
from tests.placement.where import keys, where

SERVERS = 4
BATCH = 100


@dataclass(frozen=True)
class Fleet:
    """What distinguishes a configuration."""

    settings: Sequence[str]
    # What follows host:port in the list of servers.
    servers: Sequence[str]


FLEETS = {
    # As most fleets are: names, and the defaults.
    "named": Fleet(["distribution: ketama", "hash: fnv1a_64"], [":1 s1", ":1 s2", ":1 s3", ":1 s4"]),
    "weighted": Fleet(["distribution: ketama", "hash: md5"], [":1", ":2", ":3", ":4"]),
    # Names of different lengths: nutcracker sorts the shorter ones first.
    "modula": Fleet(["distribution: modula", "hash: crc32a"], [":2 zz", ":1 b", ":3 aaa", ":1 c"]),
    # A server so light that nutcracker gives it no point on the ring, and so no keys.
    "lopsided": Fleet(["distribution: ketama", "hash: jenkins"], [":1000 a", ":500 b", ":1 c", ":900 d"]),
    "tagged": Fleet(["distribution: ketama", "hash: murmur", 'hash_tag: "{}"'], [":1 a", ":1 b", ":2 c", ":1 d"]),
}


class Nutcracker(Process):
    """nutcracker with one or more pools in front of the same servers."""

    def __init__(
        self, folder: Path, fleets: Mapping[str, Fleet], servers: Sequence[Memcached | SocketMemcached]
    ) -> None:
        self.addresses = {name: Address.free() for name in fleets}
        self.file = folder / "nutcracker.yml"
        lines = []
        for name, fleet in fleets.items():
            settings = [f"listen: {self.addresses[name]}", *fleet.settings, "timeout: 20000", "servers:"]
            listed = [f"- {server.address}{rest}" for server, rest in zip(servers, fleet.servers, strict=True)]
            lines += [f"{name}:", *(f"  {setting}" for setting in settings), *(f"   {server}" for server in listed)]
        self.file.write_text("\n".join(lines) + "\n")
        stats = Address.free()
        super().__init__(
            [program("nutcracker"), "-c", str(self.file), "-a", stats.host, "-s", str(stats.port), "-v", "2"]
        )

    def wait_for_all(self) -> None:
        for address in self.addresses.values():
            self.wait_ready(address)


@pytest.fixture
def start_nutcracker(stack: ExitStack, tmp_path: Path) -> Callable[..., Nutcracker]:
    try:
        program("nutcracker")
    except FileNotFoundError:
        pytest.skip("nutcracker is not installed: `make bench` installs it")

    def start(fleets: Mapping[str, Fleet], servers: Sequence[Memcached | SocketMemcached]) -> Nutcracker:
        nutcracker = stack.enter_context(Nutcracker(tmp_path, fleets, servers))
        nutcracker.wait_for_all()
        return nutcracker

    return start


@pytest.fixture
def four_servers(stack: ExitStack) -> list[Memcached]:
    servers = [stack.enter_context(Memcached()) for _ in range(SERVERS)]
    for server in servers:
        server.wait_ready(server.address)
    return servers


@pytest.mark.parametrize("name", FLEETS)
def test_each_finds_what_the_other_stored(
    start_nutcracker: Callable[..., Nutcracker],
    four_servers: list[Memcached],
    stack: ExitStack,
    connect: Connect,
    tmp_path: Path,
    name: str,
) -> None:
    nutcracker = start_nutcracker({name: FLEETS[name]}, four_servers)
    asked = tagged(keys(every_byte=False))
    weir = start_converted(nutcracker, stack, tmp_path)
    exchange(connect(nutcracker.addresses[name]), connect(weir.address), asked)
    assert_spread(four_servers, len(asked))


@pytest.mark.parametrize("distribution", ["ketama", "modula"])
def test_servers_behind_sockets_keep_their_keys(
    start_nutcracker: Callable[..., Nutcracker], stack: ExitStack, connect: Connect, tmp_path: Path, distribution: str
) -> None:
    """Without a name, nutcracker hashes the path of a socket and the colon behind it."""
    servers = [stack.enter_context(SocketMemcached(tmp_path / f"m{number}.sock")) for number in range(SERVERS)]
    for server in servers:
        server.wait_ready(server.address)
    fleet = Fleet([f"distribution: {distribution}", "hash: md5"], [":1", ":2", ":1 c", ":1"])
    nutcracker = start_nutcracker({"sockets": fleet}, servers)
    asked = keys(count=20_000, every_byte=False)
    weir = start_converted(nutcracker, stack, tmp_path)
    exchange(connect(nutcracker.addresses["sockets"]), connect(weir.address), asked)
    assert_spread(servers, len(asked))


def start_converted(nutcracker: Nutcracker, stack: ExitStack, folder: Path) -> Proxy:
    config = folder / "weir.toml"
    config.write_text(convert(nutcracker.file))
    weir = stack.enter_context(Proxy([], "--config", str(config)))
    weir.wait_ready(weir.address)
    return weir


def exchange(through_nutcracker: Wire, through_weir: Wire, asked: list[bytes]) -> None:
    """Each finds what the other stored."""
    store(through_nutcracker, asked, b"by nutcracker")
    check(through_weir, asked, b"by nutcracker")
    store(through_weir, asked, b"by weir")
    check(through_nutcracker, asked, b"by weir")


def assert_spread(servers: Sequence[Memcached | SocketMemcached], count: int) -> None:
    stored = sorted(int(statistics(server)[b"curr_items"]) for server in servers)
    assert stored[1] > count / SERVERS / 10, "most servers have keys, or this says little"
    assert sum(stored) == count, "each key is on one server, and none was evicted"


HASHES = [
    "one_at_a_time", "md5", "crc16", "crc32", "crc32a", "fnv1_64",
    "fnv1a_64", "fnv1_32", "fnv1a_32", "hsieh", "murmur", "jenkins",
]  # fmt: skip


@pytest.mark.parametrize("distribution", ["ketama", "modula"])
def test_every_hash(
    start_nutcracker: Callable[..., Nutcracker],
    four_servers: list[Memcached],
    connect: Connect,
    tmp_path: Path,
    distribution: str,
) -> None:
    """Where nutcracker put each key is where `weir where` says it is, whatever bytes it has."""
    pools = {
        name: Fleet([f"distribution: {distribution}", f"hash: {name}"], [":3 a", ":1 bb", ":2 cc", ":1 d"])
        for name in HASHES
    }
    nutcracker = start_nutcracker(pools, four_servers)
    config = tmp_path / "weir.toml"
    config.write_text(convert(nutcracker.file))
    asked = keys(count=6000, every_byte=False)
    servers = [connect(server.address) for server in four_servers]
    for name in HASHES:
        for server in servers:
            assert server.ask(b"flush_all") == b"OK"
        store(connect(nutcracker.addresses[name]), asked, b"v")
        held: dict[bytes, str] = {}
        for server, label in zip(servers, ["a", "bb", "cc", "d"], strict=True):
            for batch in batches(asked):
                held |= {key: label for key, _ in server.get(*batch)}
        reported = where(asked, "--config", str(config), "--pool", name)
        assert reported == [f"{name}/{held[key]}" for key in asked], name


def convert(file: Path) -> str:
    command = [str(weir_binary()), "convert", "nutcracker", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tagged(keys: list[bytes]) -> list[bytes]:
    """Every third key with a tag in it, all of them within memcached's 250 bytes."""
    return [b"{%d}" % (number % 1000) + key[:240] if number % 3 == 0 else key for number, key in enumerate(keys)]


def store(wire: Wire, keys: list[bytes], value: bytes) -> None:
    for batch in batches(keys):
        wire.send(b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value) for key in batch))
        assert wire.exactly(len(b"STORED\r\n") * len(batch)) == b"STORED\r\n" * len(batch)


def check(wire: Wire, keys: list[bytes], value: bytes) -> None:
    """One get per key: nutcracker gives the values of a get with several in any order."""
    for batch in batches(keys):
        wire.send(b"".join(b"get %b\r\n" % key for key in batch))
        for key in batch:
            assert wire.values() == [(key, value)]


def statistics(server: Memcached | SocketMemcached) -> dict[bytes, bytes]:
    with Wire(server.address) as wire:
        wire.send(b"stats\r\n")
        lines = iter(wire.line, b"END")
        return {name: value for _, name, value in (line.split(b" ", 2) for line in lines)}


def batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    return (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))
