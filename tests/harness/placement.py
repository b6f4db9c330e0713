"""Finds out where the proxy placed keys, by asking the servers themselves."""

from __future__ import annotations

from collections.abc import Sequence

from .processes import Address
from .wire import Wire


def keys_by_server(proxy: Address, servers: Sequence[Address], count: int = 200) -> list[list[bytes]]:
    """Stores `count` keys through the proxy; for each server, the keys that it holds. A value is its key, twice."""
    keys = [b"placed:%04d" % number for number in range(count)]
    with Wire(proxy) as wire:
        for key in keys:
            answer = wire.store(key, key * 2)
            assert answer == b"STORED", (key, answer)
    held = []
    for server in servers:
        with Wire(server) as wire:
            held.append([key for key, value in wire.get(*keys) if value == key * 2])
    assert all(held), "with this many keys every server has some"
    return held
