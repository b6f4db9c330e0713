"""A server that is killed and started anew is empty. What it lacks, another copy has."""

from __future__ import annotations

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Address, Memcached, Proxy, eventually
from tests.harness.standing import counters
from tests.harness.wire import Wire

KEYS = [b"kept:%d" % number for number in range(100)]


def restarted(proxy: Proxy, server: Memcached, address: Address) -> Memcached:
    """Another process in the place of a killed one, when all loops and workers are connected to it."""
    server.kill()
    anew = Memcached(address=address)
    anew.wait_ready(address)
    eventually(lambda: is_used(proxy, address), "the server is connected to")
    return anew


def is_used(proxy: Proxy, address: Address) -> bool:
    [server] = [it for it in proxy.snapshot()["servers"] if it["server"] == str(address)]
    return bool(server["state"] == "up")


def found(client: Wire, how: str) -> dict[bytes, bytes]:
    if how == "mg":
        return {key: value for key in KEYS if (value := meta_get(client, key)) is not None}
    groups = [[key] for key in KEYS] if how == "get" else [KEYS[at : at + 10] for at in range(0, 100, 10)]
    return dict(pair for group in groups for pair in client.get(*group))


def meta_get(client: Wire, key: bytes) -> bytes | None:
    if (line := client.ask(b"mg %b v" % key)) == b"EN":
        return None
    assert line.startswith(b"VA "), line
    return client.line()


@pytest.mark.every_engine
@pytest.mark.parametrize("how", ["get", "multi-get", "mg"])
def test_no_key_is_missed_that_another_server_has(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, how: str, engine: str
) -> None:
    addresses = [server.address for server in servers[:2]]
    proxy = start_proxy("--replicas", "2", "--threads", "2", in_front_of=addresses)
    client = connect(proxy.address)
    for key in KEYS:
        assert client.store(key, b"value of " + key) == b"STORED"
    assert client.ask(b"delete " + KEYS[7]) == b"DELETED"
    with restarted(proxy, servers[0], addresses[0]):
        # Every worker of `pool` and `split` finds out by itself that its connection has ended.
        eventually(lambda: is_whole(client, how), "every key is found") if engine != "event" else None
        values = found(client, how)
        missed = [key for key in KEYS if key not in values]
        assert missed == [KEYS[7]], f"{len(missed)} of 100 keys were missed"
        assert all(value == b"value of " + key for key, value in values.items())
        if engine == "event":
            with Wire(addresses[0]) as direct:
                eventually(lambda: len(put_back(client, direct, how)) > 10, "copies are put back")
                assert direct.get(KEYS[7]) == []
            assert counters(proxy)["reads_repaired"] > 0
        client.in_step()


def is_whole(client: Wire, how: str) -> bool:
    return len(found(client, how)) == len(KEYS) - 1


def put_back(client: Wire, direct: Wire, how: str) -> list[tuple[bytes, bytes]]:
    assert is_whole(client, how)
    return direct.get(*KEYS)


def test_what_was_deleted_while_a_server_was_away_stays_deleted(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    addresses = [server.address for server in servers[:2]]
    proxy = start_proxy("--replicas", "2", "--threads", "2", in_front_of=addresses)
    client = connect(proxy.address)
    for key in KEYS:
        assert client.store(key, b"value of " + key) == b"STORED"
    servers[0].kill()
    eventually(lambda: not is_used(proxy, addresses[0]), "the server is missed")
    gone = KEYS[::4]
    for key in gone:
        assert client.ask(b"delete " + key) == b"DELETED"
    with restarted(proxy, servers[0], addresses[0]):
        for _ in range(3):
            assert sorted(found(client, "get")) == sorted(set(KEYS) - set(gone))
        for key in KEYS[1::4]:
            assert client.ask(b"delete " + key) in (b"DELETED", b"NOT_FOUND")
        for _ in range(3):
            assert sorted(found(client, "multi-get")) == sorted(set(KEYS) - set(gone) - set(KEYS[1::4]))
        with Wire(addresses[0]) as direct:
            assert {key for key, _ in direct.get(*KEYS)}.isdisjoint([*gone, *KEYS[1::4]])
