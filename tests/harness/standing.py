"""What a proxy thinks of its servers, and whether it serves: for tests that wait until something is so."""

from __future__ import annotations

from typing import Any

from .processes import Address, Proxy, eventually


def entry(proxy: Proxy, server: Address) -> dict[str, Any]:
    """What `/snapshot` says of one server."""
    (found,) = [it for it in proxy.snapshot()["servers"] if it["server"] == str(server)]
    return dict(found)


def is_read(proxy: Proxy, server: Address) -> bool:
    """Whether every thread of the proxy is connected to the server, and nobody fears that it lacks writes."""
    it = entry(proxy, server)
    return it["state"] == "up" and it["unread"] is None


def is_asked(proxy: Proxy, server: Address) -> None:
    """Returns when the server has been sent something more."""
    before = entry(proxy, server)["requests"]
    eventually(lambda: bool(entry(proxy, server)["requests"] != before), f"{server} is asked")


def counters(proxy: Proxy) -> dict[str, int]:
    found: dict[str, int] = proxy.snapshot()["counters"]
    return found


def is_quiet(proxy: Proxy) -> bool:
    """Whether nothing waits for a server, nor for its reply."""
    entries: list[dict[str, Any]] = proxy.snapshot()["servers"]
    return all(it["queued"]["length"] + it["in_flight"]["length"] == 0 for it in entries)


def goes_on(proxy: Proxy, count: int = 1000) -> None:
    """Returns when the proxy has answered this many more requests."""
    enough = counters(proxy)["requests"] + count
    eventually(lambda: counters(proxy)["requests"] >= enough, "requests are answered")
