"""Copies that reads find missing are put back (`--read-repair on`), and nothing old with them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.load import CheckedLoad, assert_right
from tests.harness.processes import Memcached, Process, Proxy, eventually, weir_binary
from tests.harness.standing import counters, goes_on, is_quiet
from tests.harness.wire import Wire

REPAIRING = ("--threads", "2", "--replicas", "2", "--read", "spread", "--read-repair", "on")


class Copy:
    """What one server holds of a key, by its own word."""

    def __init__(self, wire: Wire, key: bytes) -> None:
        word, *flags = wire.ask(b"mg %b f t s" % key).split()
        self.is_there = word == b"HD"
        self.flags, self.ttl_s, self.size = (int(flag[1:]) for flag in flags) if self.is_there else (0, 0, 0)


@pytest.mark.parametrize("ttl_s", [0, 1000])
def test_copy_that_was_deleted_comes_back_with_its_flags_and_no_longer_life(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, ttl_s: int
) -> None:
    proxy = start_proxy(*REPAIRING)
    client = connect(proxy.address)
    direct = [connect(server.address) for server in servers]
    keys = [b"repaired:%d" % number for number in range(12)]
    for number, key in enumerate(keys):
        assert client.ask(b"set %b %d 0 3\r\nabc" % (key, number)) == b"STORED"
        decider, other = (direct[place] for place in replicas(proxy, servers, key))
        assert decider.ask(b"touch %b %d" % (key, ttl_s)) == b"TOUCHED"
        assert other.ask(b"delete " + key) == b"DELETED"
        eventually(lambda key=key, other=other: comes_back(client, other, key), "it is put back")  # type: ignore[misc]
        copy = Copy(other, key)
        assert (copy.flags, copy.size) == (number, 3)
        # Less than the rest by the second that has begun.
        assert (copy.ttl_s == -1) if ttl_s == 0 else (0 < copy.ttl_s < ttl_s)
    assert counters(proxy)["reads_repaired"] == len(keys)
    client.in_step()


def replicas(proxy: Proxy, servers: list[Memcached], key: bytes) -> list[int]:
    """Where a key is, its primary first."""
    names = json.loads(proxy.http("/where?key=" + quote(key)))["servers"]
    addresses = [str(server.address) for server in servers]
    return [addresses.index(name) for name in names]


def comes_back(client: Wire, server: Wire, key: bytes) -> bool:
    assert client.get(key) == [(key, b"abc")]
    return Copy(server, key).is_there


def test_nothing_old_is_put_back_under_load(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, tmp_path: Path
) -> None:
    """One server after the other loses all that it has, as if it had evicted it, while keys are written and read."""
    proxy = start_proxy(*REPAIRING)
    with CheckedLoad(proxy.address, tmp_path / "load.json") as load:
        for turn in range(3):
            goes_on(proxy, 300)
            before = counters(proxy)["reads_repaired"]
            assert connect(servers[turn % 3].address).ask(b"flush_all") == b"OK"
            eventually(lambda before=before: counters(proxy)["reads_repaired"] > before, "copies come back")  # type: ignore[misc]
        record = load.stop()
    assert_right(record)
    assert record["errors"] == {}
    eventually(lambda: is_quiet(proxy), "nothing is under way")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--engine", "pool"), "needs --engine event"),
        (("--engine", "split"), "needs --engine event"),
        (("--allow-flush",), "cannot be used with --allow-flush"),
    ],
)
def test_what_cannot_repair_says_so_at_the_start(
    servers: list[Memcached], options: tuple[str, ...], reason: str
) -> None:
    command = [str(weir_binary()), "proxy", "--server", str(servers[0].address), "--read-repair", "on", *options]
    with Process(command) as proxy:
        assert proxy.wait() == 2, proxy.output()
        assert reason in proxy.output()
