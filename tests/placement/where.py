"""Asks `weir where`, and makes the keys that placements are compared on."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence

from tests.harness.processes import LIVENESS_S, weir_binary

KEYS = 100_000


def keys(*, count: int = KEYS, seed: int = 1, every_byte: bool = True) -> list[bytes]:
    """Distinct keys of 1 to 250 bytes: numbered ones as people make them, and random ones.

    With `every_byte` these hold any byte but a newline (`weir where` reads lines) and NUL (libraries in C end there);
    without it only bytes that memcached's text protocol takes in keys.
    """
    rng = random.Random(seed)
    forbidden = {0, ord("\n")} if every_byte else {*range(33), 127}
    alphabet = bytes(byte for byte in range(256) if byte not in forbidden)
    made: dict[bytes, None] = {b"user:%d:profile" % number: None for number in range(count // 2)}
    while len(made) < count:
        length = min(int(rng.expovariate(1 / 20)) + 4, 250)
        made[bytes(rng.choices(alphabet, k=length))] = None
    return list(made)


def places(keys: Sequence[bytes], servers: Sequence[str], *options: str) -> list[int]:
    """The place in `servers` of each key's primary, as `weir where` tells."""
    flags = [flag for server in servers for flag in ("--server", server)]
    reported = where(keys, *flags, *options)
    names = {server.partition(" ")[2] or ":".join(server.split(":")[:2]): place for place, server in enumerate(servers)}
    return [names[line] for line in reported]


def where(keys: Sequence[bytes], *options: str) -> list[str]:
    """The lines that `weir where` prints for keys on its standard input."""
    done = subprocess.run(
        [str(weir_binary()), "where", *options, "-"],
        input=b"".join(key + b"\n" for key in keys),
        capture_output=True,
        timeout=3 * LIVENESS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(keys)
    return lines
