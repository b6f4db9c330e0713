"""Placements called libmemcached/… equal the installed library's on 100,000 keys each."""

from __future__ import annotations

import ctypes

import pytest

from tests.placement import libmemcached
from tests.placement.libmemcached import HASHES, Client, UnsupportedError
from tests.placement.where import keys, places

EVEN = [(f"10.0.1.{number}", 11211 + number % 3, 1) for number in range(1, 8)]
WEIGHTED = [(host, port, weight) for (host, port, _), weight in zip(EVEN, (6, 3, 2, 4, 10, 8, 1), strict=True)]

KETAMA = [(libmemcached.BEHAVIOR_KETAMA, 1)]
KETAMA_WEIGHTED = [(libmemcached.BEHAVIOR_KETAMA_WEIGHTED, 1)]
CONSISTENT = [(libmemcached.BEHAVIOR_DISTRIBUTION, libmemcached.DISTRIBUTION_CONSISTENT)]
SPY = [
    *KETAMA_WEIGHTED,
    (libmemcached.BEHAVIOR_DISTRIBUTION, libmemcached.DISTRIBUTION_CONSISTENT_KETAMA_SPY),
]


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    loaded = libmemcached.load()
    if loaded is None:
        pytest.skip("libmemcached is not installed (it comes with libmemcached-tools): run `make setup`")
    return loaded


def compare(
    library: ctypes.CDLL,
    behaviors: list[tuple[int, int]],
    servers: list[tuple[str, int, int]],
    asked: list[bytes],
    *options: str,
) -> None:
    with Client(library, behaviors, servers) as client:
        expected = client.places(asked)
    addresses = [f"unix:{host}" if host.startswith("/") else f"{host}:{port}" for host, port, _ in servers]
    weights = [weight for *_, weight in servers]
    named = [f"{address}:{weight}" for address, weight in zip(addresses, weights, strict=True)]
    found = places(asked, named, *options)
    moved = [(key, theirs, ours) for key, theirs, ours in zip(asked, expected, found, strict=True) if theirs != ours]
    assert not moved, f"{len(moved)} of {len(asked)} keys are elsewhere, such as {moved[:3]}"
    assert len(set(expected)) == len(servers), "every server has keys, or the comparison says little"


@pytest.mark.parametrize(
    ("placement", "behaviors", "servers"),
    [
        ("libmemcached/default", [], EVEN),
        ("libmemcached/consistent", CONSISTENT, EVEN),
        ("libmemcached/consistent", CONSISTENT, WEIGHTED),
        ("libmemcached/ketama", KETAMA, EVEN),
        ("libmemcached/ketama", KETAMA, WEIGHTED),
        ("libmemcached/ketama-weighted", KETAMA_WEIGHTED, EVEN),
        ("libmemcached/ketama-weighted", KETAMA_WEIGHTED, WEIGHTED),
        ("spymemcached", SPY, EVEN),
        ("spymemcached", SPY, WEIGHTED),
    ],
    ids=lambda value: value if isinstance(value, str) else "weighted" if value is WEIGHTED else "",
)
def test_every_key_is_where_the_library_puts_it(
    library: ctypes.CDLL, placement: str, behaviors: list[tuple[int, int]], servers: list[tuple[str, int, int]]
) -> None:
    compare(library, behaviors, servers, keys(), "--placement", placement)


@pytest.mark.parametrize("hash_name", HASHES)
@pytest.mark.parametrize("placement", ["libmemcached/default", "libmemcached/consistent"])
def test_with_every_hash(library: ctypes.CDLL, placement: str, hash_name: str) -> None:
    behaviors = [(libmemcached.BEHAVIOR_HASH, HASHES[hash_name])]
    if placement == "libmemcached/consistent":
        behaviors = [*CONSISTENT, *behaviors]
    try:
        compare(library, behaviors, EVEN, keys(count=5000), "--placement", placement, "--hash", hash_name)
    except UnsupportedError as reason:
        pytest.skip(f"the installed libmemcached knows no hash {hash_name}: {reason}")


def test_the_weighted_ring_with_another_hash(library: ctypes.CDLL) -> None:
    behaviors = [*KETAMA_WEIGHTED, (libmemcached.BEHAVIOR_HASH, HASHES["jenkins"])]
    compare(
        library, behaviors, WEIGHTED, keys(count=5000),
        "--placement", "libmemcached/ketama-weighted", "--hash", "jenkins",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("placement", "behaviors"),
    [("libmemcached/consistent", CONSISTENT), ("libmemcached/ketama-weighted", KETAMA_WEIGHTED), ("spymemcached", SPY)],
    ids=["consistent", "ketama-weighted", "spymemcached"],
)
def test_servers_behind_sockets(library: ctypes.CDLL, placement: str, behaviors: list[tuple[int, int]]) -> None:
    """To the library, a host that begins with a slash is a socket; on its rings that has memcached's own port."""
    servers = [(f"/run/m{number}.sock", 0, 1) for number in range(4)] + [("10.0.1.1", 11211, 1)]
    compare(library, behaviors, servers, keys(count=20_000), "--placement", placement)


def test_the_empty_key(library: ctypes.CDLL) -> None:
    for placement, behaviors in (("libmemcached/default", []), ("libmemcached/ketama-weighted", KETAMA_WEIGHTED)):
        with Client(library, behaviors, EVEN) as client:
            expected = client.places([b""])
        servers = [f"{host}:{port}" for host, port, _ in EVEN]
        assert places([b""], servers, "--placement", placement) == expected
