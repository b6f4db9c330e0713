"""pymemcache, a widely used Python client, first against memcached itself, then through the proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError, MemcacheUnknownCommandError

from tests.harness.processes import LIVENESS_S, Address


@pytest.fixture
def client(subject: Address) -> Iterator[Any]:
    # The client sends noreply by default; a test that wants that says so.
    connected = Client(subject.pair, default_noreply=False, timeout=LIVENESS_S, connect_timeout=LIVENESS_S)
    yield connected
    connected.close()


def test_set_and_get(client: Any) -> None:
    assert client.set("key", b"value", flags=7) is True
    assert client.get("key") == b"value"
    assert client.get("absent") is None
    assert client.get("absent", default=b"other") == b"other"
    assert client.set("key", b"") is True
    assert client.get("key") == b""


def test_values_may_look_like_the_protocol(client: Any) -> None:
    for value in (b"END\r\n", b"\r\n", b"STORED\r\nEND\r\n", b"VALUE key 0 3\r\nabc\r\n", bytes(range(256))):
        assert client.set("key", value) is True
        assert client.get("key") == value


def test_many_keys(client: Any) -> None:
    wanted = {f"key-{number}": f"value-{number}".encode() for number in range(300)}
    assert client.set_many(wanted) == []
    assert client.get_many([*wanted, "absent"]) == wanted
    assert client.delete_many(list(wanted)) is True
    assert client.get_many(list(wanted)) == {}


def test_gets_and_cas(client: Any) -> None:
    client.set("key", b"first")
    value, token = client.gets("key")
    assert value == b"first"
    assert client.cas("key", b"second", token) is True
    assert client.cas("key", b"third", token) is False
    assert client.cas("absent", b"value", token) is None
    assert client.get("key") == b"second"
    many = client.gets_many(["key", "absent"])
    assert {key: found for key, (found, _) in many.items()} == {"key": b"second"}


def test_incr_and_decr(client: Any) -> None:
    assert client.incr("absent", 1) is None
    client.set("counter", b"10")
    assert client.incr("counter", 5) == 15
    assert client.decr("counter", 3) == 12
    assert client.decr("counter", 100) == 0
    client.set("counter", str(2**64 - 1).encode())
    assert client.incr("counter", 1) == 0


def test_add_replace_append_prepend(client: Any) -> None:
    assert client.replace("key", b"value") is False
    assert client.append("key", b"value") is False
    assert client.prepend("key", b"value") is False
    assert client.add("key", b"middle") is True
    assert client.add("key", b"other") is False
    assert client.append("key", b"-end") is True
    assert client.prepend("key", b"start-") is True
    assert client.get("key") == b"start-middle-end"
    assert client.replace("key", b"new") is True
    assert client.get("key") == b"new"


def test_delete(client: Any) -> None:
    assert client.delete("key") is False
    client.set("key", b"value")
    assert client.delete("key") is True
    assert client.get("key") is None


def test_expiry_times(client: Any) -> None:
    assert client.touch("key", 100) is False
    client.set("key", b"value", expire=-1)
    assert client.get("key") is None
    client.set("key", b"value")
    assert client.touch("key", 100) is True
    assert client.touch("key", -1) is True
    assert client.get("key") is None


def test_noreply_is_silent_and_done(client: Any) -> None:
    """After each silent command, the reply to the next get must be its own, and must show the effect."""
    client.set("key", b"a", noreply=True)
    assert client.get("key") == b"a"
    client.add("key", b"ignored", noreply=True)
    assert client.get("key") == b"a"
    client.replace("key", b"b", noreply=True)
    client.append("key", b"c", noreply=True)
    client.prepend("key", b"a", noreply=True)
    assert client.get("key") == b"abc"
    _, token = client.gets("key")
    client.cas("key", b"41", token, noreply=True)
    client.cas("key", b"stale", token, noreply=True)
    client.incr("key", 2, noreply=True)
    client.decr("key", 1, noreply=True)
    assert client.get("key") == b"42"
    client.touch("key", 100, noreply=True)
    assert client.get("key") == b"42"
    client.delete("key", noreply=True)
    client.delete("key", noreply=True)
    assert client.get("key") is None


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_large_values(client: Any, size: int) -> None:
    value = os.urandom(size)
    assert client.set("large", value) is True
    client.set("small", b"s")
    assert client.get_many(["large", "small"]) == {"large": value, "small": b"s"}


def test_value_beyond_the_item_limit(client: Any) -> None:
    """memcached refuses it and reads it to its end; the connection goes on."""
    with pytest.raises(MemcacheServerError, match="object too large for cache"):
        client.set("key", bytes(2 << 20))
    client.set("after", b"value")
    assert client.get("after") == b"value"


def test_value_beyond_the_item_limit_drops_the_old_one(client: Any) -> None:
    """So that nobody reads the old value as the new one."""
    client.set("key", b"before")
    with pytest.raises(MemcacheServerError, match="object too large for cache"):
        client.set("key", bytes(2 << 20))
    assert client.get("key") is None


def test_keys_at_the_limit(client: Any) -> None:
    assert client.set("k" * 250, b"value") is True
    assert client.get("k" * 250) == b"value"


def test_errors_leave_the_connection_in_step(client: Any) -> None:
    client.set("text", b"not a number")
    with pytest.raises(MemcacheClientError, match="cannot increment or decrement non-numeric value"):
        client.incr("text", 1)
    with pytest.raises(MemcacheUnknownCommandError):
        client.raw_command(b"no_such_command")
    assert client.get("text") == b"not a number"
    assert client.version()


def test_flush_all(client: Any) -> None:
    wanted = {f"key-{number}": b"value" for number in range(50)}
    client.set_many(wanted)
    assert client.flush_all() is True
    assert client.get_many(list(wanted)) == {}


def test_stats(client: Any) -> None:
    client.set("key", b"value")
    stats = client.stats()
    assert {b"pid", b"uptime", b"version", b"curr_connections", b"cmd_get", b"cmd_set"} <= stats.keys()
