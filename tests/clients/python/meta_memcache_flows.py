"""Flows of meta-memcache, a client of the meta protocol, against one address: meta_memcache_flows.py HOST PORT.

One line per flow: passed, failed or skipped. FLOWS_LOGIN is what the first request of each connection says to a server
that wants a login: a name, a space, a password.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from meta_memcache import CacheClient, Key, ServerAddress, SetMode, connection_pool_factory_builder
from meta_memcache.configuration import LeasePolicy, StalePolicy, socket_factory_builder
from meta_memcache.connection.pool import ConnectionPool
from meta_memcache.errors import MemcacheError, MemcacheServerError

TTL_S = 1000
TIMEOUT_S = 20

LOGIN = os.environ.get("FLOWS_LOGIN", "").encode()
STORED = b"STORED\r\n"

LONG_AGO = 60 * 60 * 24 * 30 + 1
"""Above 30 days an expiry time is a date; this one is in January 1970."""


class Cannot(Exception):  # noqa: N818 (not an error of anybody)
    """The client has no such call, or it does not work against any server."""


def main(host: str, port: str) -> None:
    for name, flow in flows(connect(host, int(port))).items():
        try:
            flow()
        except Cannot as reason:
            print(f"skipped {name}: {reason}")
        except Exception as error:
            print(f"failed {name}: {type(error).__name__} {' '.join(str(error).split())}")
        else:
            print(f"passed {name}")


def connect(host: str, port: int) -> Any:
    pools = connection_pool_factory_builder(connection_timeout=TIMEOUT_S, recv_timeout=TIMEOUT_S, max_pool_size=8)
    return CacheClient.cache_client_from_servers(
        servers=[ServerAddress(host=host, port=port)],
        connection_pool_factory_fn=logging_in if LOGIN else pools,
    )


def logging_in(server: ServerAddress) -> ConnectionPool:
    return ConnectionPool(
        server=str(server), socket_factory_fn=lambda: logged_in(server), initial_pool_size=1, max_pool_size=8
    )


def logged_in(server: ServerAddress) -> socket.socket:
    connection: socket.socket = socket_factory_builder(
        host=server.host, port=server.port, connection_timeout=TIMEOUT_S, recv_timeout=TIMEOUT_S, no_delay=True
    )()
    connection.sendall(b"set login 0 0 %d\r\n%b\r\n" % (len(LOGIN), LOGIN))
    answer = connection.recv(len(STORED))
    if answer != STORED:
        raise MemcacheServerError(str(server), f"the login was answered {answer!r}")
    return connection


def flows(client: Any) -> dict[str, Callable[[], None]]:
    def put(key: str | Key, value: object, **options: Any) -> bool:
        stored: bool = client.set(key=key, value=value, ttl=TTL_S, **options)
        return stored

    def many(keys: list[str]) -> dict[str, Any]:
        return {key.key: value for key, value in client.multi_get([Key(key) for key in keys]).items()}

    def set_and_get() -> None:
        for value in (b"value", b"other"):
            equal(put("set:key", value), True)
            equal(client.get("set:key"), value)

    def absent_key() -> None:
        equal(client.get("absent:key"), None)

    def flags() -> None:
        # The client keeps the type in the flags.
        for value in ("text", b"bytes", 17, {"a": [1, 2]}):
            put("flags:key", value)
            equal(client.get("flags:key"), value)

    def multi_get() -> None:
        wanted = {f"multi:{number}": f"value {number}" for number in range(300)}
        for key, value in wanted.items():
            put(key, value)
        equal(many([*wanted, "multi:absent"]), wanted | {"multi:absent": None})

    def add() -> None:
        equal(put("add:key", b"first", set_mode=SetMode.ADD), True)
        equal(put("add:key", b"second", set_mode=SetMode.ADD), False)
        equal(client.get("add:key"), b"first")

    def replace() -> None:
        equal(put("replace:key", b"new", set_mode=SetMode.REPLACE), False)
        put("replace:key", b"old")
        equal(put("replace:key", b"new", set_mode=SetMode.REPLACE), True)
        equal(client.get("replace:key"), b"new")

    def append_and_prepend() -> None:
        equal(put("append:key", b"-end", set_mode=SetMode.APPEND), False)
        equal(put("append:key", b"start-", set_mode=SetMode.PREPEND), False)
        put("append:key", b"middle")
        equal(put("append:key", b"-end", set_mode=SetMode.APPEND), True)
        equal(put("append:key", b"start-", set_mode=SetMode.PREPEND), True)
        equal(client.get("append:key"), b"start-middle-end")

    def cas() -> None:
        put("cas:key", b"first")
        value, token = client.get_cas("cas:key")
        equal(value, b"first")
        equal(put("cas:key", b"second", cas_token=token), True)
        equal(put("cas:key", b"third", cas_token=token), False)
        equal(client.delete("cas:key", cas_token=token), False)
        equal(client.get("cas:key"), b"second")
        equal(client.delete("cas:key"), True)
        equal(put("cas:key", b"third", cas_token=token), False)

    def incr_and_decr() -> None:
        equal(client.delta_and_get("number:key", 1), None)
        equal(client.delta_initialize_and_get("number:key", 1, initial_value=10, initial_ttl=TTL_S), 10)
        found = [client.delta_and_get("number:key", delta) for delta in (5, -3, -100)]
        equal(found, [15, 12, 0])
        equal(client.delta("number:key", 7), True)
        equal(client.delta_and_get("number:key", 1), 8)

    def incr_of_text() -> None:
        put("text:key", "text")
        raises(lambda: client.delta_and_get("text:key", 1))
        equal(client.get("text:key"), "text")

    def touch() -> None:
        equal(client.touch("touch:key", TTL_S), False)
        put("touch:key", b"value")
        equal(client.touch("touch:key", TTL_S), True)
        equal(client.get("touch:key"), b"value")
        equal(client.touch("touch:key", LONG_AGO), True)
        equal(client.get("touch:key"), None)

    def get_and_touch() -> None:
        put("gat:key", b"value")
        equal(client.get("gat:key", touch_ttl=TTL_S), b"value")
        equal(client.get("gat:key", touch_ttl=LONG_AGO), b"value")
        equal(client.get("gat:key"), None)

    def expired_at_once() -> None:
        client.set(key="expired:key", value=b"value", ttl=LONG_AGO)
        equal(client.get("expired:key"), None)

    def delete() -> None:
        equal(client.delete("delete:key"), False)
        equal(client.invalidate("delete:key"), True)
        put("delete:key", b"value")
        equal(client.delete("delete:key"), True)
        equal(client.get("delete:key"), None)

    def noreply() -> None:
        # The client closes a connection whose next answer is not the next command's, and says so.
        put("noreply:key", b"1", no_reply=True)
        equal(client.get("noreply:key"), b"1")
        put("noreply:key", b"0", no_reply=True, set_mode=SetMode.APPEND)
        equal(client.get("noreply:key"), b"10")
        put("noreply:key", b"ignored", no_reply=True, set_mode=SetMode.ADD)
        equal(client.get("noreply:key"), b"10")
        client.touch("noreply:key", TTL_S, no_reply=True)
        client.delete("noreply:key", no_reply=True)
        client.delete("noreply:key", no_reply=True)
        equal(client.get("noreply:key"), None)

    def empty_value() -> None:
        put("empty:key", b"")
        equal(client.get("empty:key"), b"")

    def values_like_the_protocol() -> None:
        for value in (b"EN\r\n", b"\r\n", b"HD\r\nMN\r\n", b"VA 3\r\nabc\r\n", bytes(range(256))):
            put("binary:key", value)
            equal(client.get("binary:key"), value)

    def large_value() -> None:
        value = os.urandom(1_000_000)
        put("large:key", value)
        equal(client.get("large:key"), value)

    def value_too_large() -> None:
        raises(lambda: put("too-large:key", os.urandom(2 << 20)))
        put("too-large:key", b"value")
        equal(client.get("too-large:key"), b"value")

    def longest_key() -> None:
        key = "longest:" + "k" * 242
        put(key, b"value")
        equal(client.get(key), b"value")

    def key_too_long() -> None:
        # The client sends the base64 of a shorter key in its place.
        for name in ("k" * 251, "k" * 1000):
            put(name, b"value")
            equal(client.get(name), b"value")

    def binary_keys() -> None:
        for name in ("with a space", "Bücher", "本 📚", "line\r\nending"):
            put(name, name)
            equal(client.get(name), name)
        put("plain", "plain")
        found = many(["Bücher", "plain", "本 📚", "Ägypten"])
        equal(found, {"Bücher": "Bücher", "plain": "plain", "本 📚": "本 📚", "Ägypten": None})
        put("with a space", 1)
        equal(client.delta_and_get("with a space", 1), 2)
        equal(client.delete("Bücher"), True)
        equal(client.get("Bücher"), None)

    def stale_items() -> None:
        """One reader is asked to fetch anew, the others get the stale value until it has."""
        policy = StalePolicy(mark_stale_on_deletion_ttl=TTL_S)
        put("stale:key", b"old")
        equal(client.delete("stale:key", stale_policy=policy), True)
        equal([client.get("stale:key") for _ in range(3)], [None, b"old", b"old"])
        put("stale:key", b"new")
        equal(client.get("stale:key"), b"new")

    def leases() -> None:
        """One of those who miss learns it at once; the others wait for its value."""
        policy = LeasePolicy(ttl=TTL_S, miss_retries=1000)
        for key in ("lease:key", "lease:Bücher"):
            equal(client.get_or_lease(key, policy), None)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(client.get_or_lease, key, policy)
                put(key, b"value")
                equal(waiting.result(), b"value")

    def version() -> None:
        raise Cannot("the client has no version")

    def stats() -> None:
        raise Cannot("the client has no stats of a server")

    def concurrency() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def work(worker: int) -> None:
        for turn in range(250):
            key, value = f"concurrency:{worker}:{turn % 10}", f"{worker} of {turn}"
            put(key, value)
            equal(client.get(key), value)

    def flush() -> None:
        raise Cannot("the client has no flush")

    return {
        "set and get": set_and_get,
        "absent key": absent_key,
        "flags": flags,
        "multi-get": multi_get,
        "add": add,
        "replace": replace,
        "append and prepend": append_and_prepend,
        "cas": cas,
        "incr and decr": incr_and_decr,
        "incr of text": incr_of_text,
        "touch": touch,
        "get and touch": get_and_touch,
        "expired at once": expired_at_once,
        "delete": delete,
        "noreply": noreply,
        "empty value": empty_value,
        "values like the protocol": values_like_the_protocol,
        "large value": large_value,
        "value too large": value_too_large,
        "longest key": longest_key,
        "key too long": key_too_long,
        "binary keys": binary_keys,
        "stale items": stale_items,
        "leases": leases,
        "version": version,
        "stats": stats,
        "concurrency": concurrency,
        "flush": flush,
    }


def equal(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r:.80} instead of {wanted!r:.80}")


def raises(call: Callable[[], object]) -> None:
    try:
        answer = call()
    except MemcacheError:
        return
    raise AssertionError(f"answered {answer!r:.80}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: meta_memcache_flows.py HOST PORT")
    main(*sys.argv[1:])
