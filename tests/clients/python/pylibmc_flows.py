"""Flows of pylibmc (libmemcached), in its text protocol, against one address: pylibmc_flows.py HOST PORT.

One line per flow: passed, failed or skipped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pylibmc

LONG_AGO = 60 * 60 * 24 * 30 + 1
"""Above 30 days an expiry time is a date; this one is in January 1970."""


class Cannot(Exception):  # noqa: N818 (not an error of anybody)
    """The client has no such call, or it does not work against any server."""


def main(host: str, port: str) -> None:
    for name, flow in flows(f"{host}:{port}").items():
        try:
            flow()
        except Cannot as reason:
            print(f"skipped {name}: {reason}")
        except Exception as error:
            print(f"failed {name}: {type(error).__name__} {' '.join(str(error).split())}")
        else:
            print(f"passed {name}")


def flows(address: str) -> dict[str, Callable[[], None]]:
    client = connect(address)

    def set_and_get() -> None:
        for value in (b"value", b"other"):
            equal(client.set("set:key", value), True)
            equal(client.get("set:key"), value)

    def absent_key() -> None:
        equal(client.get("absent:key"), None)

    def flags() -> None:
        # The client keeps the type in the flags.
        for value in ("text", b"bytes", 17, True, {"a": [1, 2]}):
            client.set("flags:key", value)
            equal(client.get("flags:key"), value)

    def multi_get() -> None:
        wanted = {f"multi:{number}": b"value %d" % number for number in range(300)}
        equal(client.set_multi(wanted), [])
        equal(client.get_multi([*wanted, "multi:absent"]), wanted)
        equal(client.delete_multi(list(wanted)), True)
        equal(client.get_multi(list(wanted)), {})

    def add() -> None:
        equal(client.add("add:key", b"first"), True)
        equal(client.add("add:key", b"second"), False)
        equal(client.get("add:key"), b"first")

    def replace() -> None:
        equal(client.replace("replace:key", b"new"), False)
        client.set("replace:key", b"old")
        equal(client.replace("replace:key", b"new"), True)
        equal(client.get("replace:key"), b"new")

    def append_and_prepend() -> None:
        equal(client.append("append:key", b"-end"), False)
        equal(client.prepend("append:key", b"start-"), False)
        client.set("append:key", b"middle")
        equal(client.append("append:key", b"-end"), True)
        equal(client.prepend("append:key", b"start-"), True)
        equal(client.get("append:key"), b"start-middle-end")

    def cas() -> None:
        client.set("cas:key", b"first")
        value, token = client.gets("cas:key")
        equal(value, b"first")
        equal(client.cas("cas:key", b"second", token), True)
        equal(client.cas("cas:key", b"third", token), False)
        equal(client.get("cas:key"), b"second")
        client.delete("cas:key")
        raises(pylibmc.NotFound, lambda: client.cas("cas:key", b"third", token))

    def incr_and_decr() -> None:
        raises(pylibmc.NotFound, lambda: client.incr("number:absent"))
        client.set("number:key", "10")
        found = [client.incr("number:key", 5), client.decr("number:key", 3), client.decr("number:key", 100)]
        equal(found, [15, 12, 0])

    def incr_of_text() -> None:
        client.set("text:key", b"text")
        raises(pylibmc.ClientError, lambda: client.incr("text:key"))
        equal(client.get("text:key"), b"text")

    def touch() -> None:
        equal(client.touch("touch:key", 100), False)
        client.set("touch:key", b"value")
        equal(client.touch("touch:key", 100), True)
        equal(client.get("touch:key"), b"value")
        equal(client.touch("touch:key", LONG_AGO), True)
        equal(client.get("touch:key"), None)

    def get_and_touch() -> None:
        raise Cannot("the client has no get and touch")

    def expired_at_once() -> None:
        client.set("expired:key", b"value", time=LONG_AGO)
        equal(client.get("expired:key"), None)

    def delete() -> None:
        equal(client.delete("delete:key"), False)
        client.set("delete:key", b"value")
        equal(client.delete("delete:key"), True)
        equal(client.get("delete:key"), None)

    def noreply() -> None:
        silent = connect(address, _noreply=True)
        silent.set("noreply:key", "10")
        equal(silent.get("noreply:key"), "10")
        silent.add("noreply:key", "ignored")
        silent.append("noreply:key", "0")
        equal(silent.get("noreply:key"), "100")
        silent.replace("noreply:key", "other")
        equal(silent.get("noreply:key"), "other")
        silent.delete("noreply:key")
        equal(silent.get("noreply:key"), None)

    def empty_value() -> None:
        client.set("empty:key", b"")
        equal(client.get("empty:key"), b"")

    def values_like_the_protocol() -> None:
        for value in (b"END\r\n", b"\r\n", b"STORED\r\nEND\r\n", b"VALUE key 0 3\r\nabc\r\n", bytes(range(256))):
            client.set("binary:key", value)
            equal(client.get("binary:key"), value)

    def large_value() -> None:
        value = os.urandom(1_000_000)
        client.set("large:key", value)
        equal(client.get("large:key"), value)

    def value_too_large() -> None:
        raises(pylibmc.Error, lambda: client.set("too-large:key", os.urandom(2 << 20)))
        client.set("too-large:key", b"value")
        equal(client.get("too-large:key"), b"value")

    def longest_key() -> None:
        key = "longest:" + "k" * 242
        client.set(key, b"value")
        equal(client.get(key), b"value")

    def key_too_long() -> None:
        raises((pylibmc.Error, ValueError), lambda: client.set("k" * 251, b"value"))
        client.set("too-long:key", b"value")
        equal(client.get("too-long:key"), b"value")

    def version() -> None:
        raise Cannot("the client has no version")

    def stats() -> None:
        [(_, found)] = client.get_stats()
        missing = {"pid", "uptime", "curr_connections", "cmd_get", "cmd_set"} - {str(name) for name in found}
        equal(missing, set())

    def concurrency() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def work(worker: int) -> None:
        own = client.clone()
        for turn in range(250):
            key, value = f"concurrency:{worker}:{turn % 10}", f"{worker} of {turn}"
            own.set(key, value)
            equal(own.get(key), value)

    def flush() -> None:
        client.set("flush:key", b"value")
        equal(client.flush_all(), True)
        equal(client.get("flush:key"), None)

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
        "version": version,
        "stats": stats,
        "concurrency": concurrency,
        "flush": flush,
    }


def connect(address: str, **behaviors: Any) -> Any:
    timeouts = {"connect_timeout": 20_000, "receive_timeout": 20_000_000, "send_timeout": 20_000_000}
    return pylibmc.Client([address], behaviors={"cas": True, "tcp_nodelay": True, **timeouts, **behaviors})


def equal(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r:.80} instead of {wanted!r:.80}")


def raises(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> None:
    try:
        answer = call()
    except kind:
        return
    raise AssertionError(f"answered {answer!r:.80}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: pylibmc_flows.py HOST PORT")
    main(*sys.argv[1:])
