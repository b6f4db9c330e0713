"""Where keys fall, asked of the ``weir`` binary.

::

    keys ──▶ weir where --placement P -  ──▶ keys per server ──▶ `hashing.judge_placements`

`read_keys` gives the keys of a file, `known_placements` what the binary knows, `count_placement` the keys per server.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.bench.programs.installed import not_there
from weir_lab.errors import StudyError, TestbedError
from weir_lab.theory.placements.hashing import KEYS_MAX, PlacementCounts, PlacementRule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["count_placement", "known_placements", "read_keys"]

# Enough for 10,000,000 keys on a slow machine; a binary that hangs must not hang the lab.
_TIMEOUT_S = 300.0


def read_keys(path: Path) -> list[bytes]:
    """The different keys of a file, one per line; a key that is there twice would count twice, so it is taken once."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StudyError(
            f"{path}: the keys cannot be read ({error.strerror}). Give a file with a key per line."
        ) from error
    keys = list(dict.fromkeys(line for line in lines if line))
    if not 1 <= len(keys) <= KEYS_MAX:
        raise StudyError(f"{path}: {len(keys):,} keys; a placement is judged by 1 to {KEYS_MAX:,}.")
    return keys


def known_placements(binary: Path) -> list[PlacementRule]:
    """All placements of a binary, as ``weir where --placements`` lists them."""
    lines = _weir(binary, ["--placements"], b"").decode().splitlines()
    pairs = [line.split(" ") for line in lines]
    if not pairs or any(len(pair) != 2 or pair[1] not in ("even", "points") for pair in pairs):
        raise TestbedError(f"{binary} where --placements: no list of placements. Use a weir of the same version.")
    return [PlacementRule(name, spread == "points") for name, spread in pairs]


def count_placement(
    binary: Path,
    rule: PlacementRule,
    servers: Sequence[str],
    keys: Sequence[bytes],
    reference: Sequence[bytes],
    options: Sequence[str] = (),
    popularity: Sequence[float] | None = None,
) -> PlacementCounts:
    """Ask the binary for the primary of every key. `StudyError` if it refuses the placement with these servers and options.

    ``popularity`` are the keys' shares of the requests, in their order.

    ``servers`` are HOST:PORT or HOST:PORT:WEIGHT; ``options`` further flags of ``weir where``, such as ``--hash``.
    """
    flags = [flag for server in servers for flag in ("--server", server)]
    names = [":".join(server.split(":")[:2]) for server in servers]
    asked = [*keys, *(reference if rule.by_points else [])]
    reported = _weir(binary, ["--placement", rule.name, *flags, *options, "-"], b"\n".join(asked) + b"\n")
    lines = reported.decode().splitlines()
    if len(lines) != len(asked):
        raise TestbedError(
            f"{binary} where: {len(lines)} answers to {len(asked)} keys. Use a weir of the same version."
        )

    def per_server(part: list[str]) -> tuple[int, ...]:
        found = Counter(part)
        if found.keys() - set(names):
            raise TestbedError(
                f"{binary} where: unknown servers {sorted(found.keys() - set(names))[:3]} in its answer."
            )
        return tuple(found[name] for name in names)

    rest = per_server(lines[len(keys) :]) if rule.by_points else None
    requests = None
    if popularity is not None:
        load = dict.fromkeys(names, 0.0)
        for name, share in zip(lines[: len(keys)], popularity, strict=True):
            load[name] = load.get(name, 0.0) + share
        requests = tuple(load[name] for name in names)
    return PlacementCounts(rule, per_server(lines[: len(keys)]), rest, requests)


def _weir(binary: Path, arguments: list[str], keys: bytes) -> bytes:
    try:
        done = subprocess.run(
            [binary, "where", *arguments], input=keys, capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise not_there(binary) from error
    except OSError as error:
        raise TestbedError(f"{binary}: cannot be started ({error.strerror}). Name another with --bin.") from error
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{binary} where: no answer within {_TIMEOUT_S:g} s. Ask about fewer keys.") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise StudyError(said[0] if said else f"{binary} where ended with status {done.returncode}.")
    return done.stdout
