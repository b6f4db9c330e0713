"""Placements called libmemcached/… equal the installed library's on 100,000 keys each."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, weir_binary
from tests.placement import libmemcached
from tests.placement.libmemcached import HASHES, Client, UnsupportedError
from tests.placement.where import keys, places, where

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


def convert(folder: Path, string: str) -> subprocess.CompletedProcess[str]:
    file = folder / "client.conf"
    file.write_text(string)
    command = [str(weir_binary()), "convert", "libmemcached", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)


STRINGS = {
    "default": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --SERVER=cache-3:11213",
    "modula": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --DISTRIBUTION=modula --HASH=MD5",
    "sorted": "--SERVER=10.0.1.9:7 --SERVER=10.0.1.2:11212 --SERVER=10.0.1.10:1 --SERVER=10.0.1.9:6 --SORT-HOSTS",
    "sorted_first": "--SORT-HOSTS --SERVER=10.0.1.9:7 --SERVER=10.0.1.2:11212 --SERVER=10.0.1.10:1",
    "consistent": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --SERVER=10.0.1.3 --DISTRIBUTION=consistent",
    "consistent_md5": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --HASH=md5 --DISTRIBUTION=Consistent",
    "weights_before": "--SERVER=10.0.1.9/?2 --SERVER=10.0.1.2:11212/?5 --SERVER=10.0.1.3 --DISTRIBUTION=consistent",
    "weights_behind": "--DISTRIBUTION=consistent --SERVER=10.0.1.9/?2 --SERVER=10.0.1.2:11212/?5 --SERVER=10.0.1.3",
    "one_weight_behind": "--SERVER=10.0.1.9/?2 --SERVER=10.0.1.3 --DISTRIBUTION=consistent --SERVER=10.0.1.2:7/?5",
    "weights_modula": "--SERVER=10.0.1.9/?2 --SERVER=10.0.1.3:1/?7",
    "weighted_hash": "--DISTRIBUTION=consistent --SERVER=10.0.1.9/?2 --SERVER=10.0.1.2:11212/?5 --HASH=MD5",
    "two_names": "--DISTRIBUTION=consistent,MD5 --SERVER=10.0.1.9 --SERVER=10.0.1.2:11212",
    "socket": '--SOCKET="/run/m.sock" --SERVER=10.0.1.2:11212 --HASH=JENKINS --DISTRIBUTION=consistent --TCP-NODELAY',
    "sockets": '--DISTRIBUTION=consistent --SOCKET="/run/m.sock"/?2 --SOCKET="/run/n.sock" --SERVER=10.0.1.2',
    "crc": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --HASH=CRC --POLL-TIMEOUT=300 --REMOVE-FAILED-SERVERS=2",
    "fnv": "--SERVER=10.0.1.9 --SERVER=10.0.1.2:11212 --SERVER=10.0.1.3:9 --HASH=FNV1A_32 --CONNECT-TIMEOUT=9",
}


@pytest.mark.parametrize("name", STRINGS)
def test_a_string_becomes_the_placement_that_the_library_makes_of_it(
    library: ctypes.CDLL, tmp_path: Path, name: str
) -> None:
    """`weir convert libmemcached`: each key goes to the server that the library chooses, as many keys to each."""
    asked = keys(count=10_000)
    with Client.of_string(library, STRINGS[name]) as client:
        expected = client.places(asked)
    done = convert(tmp_path, STRINGS[name])
    assert (done.returncode, done.stderr) == (0, "")
    config = tmp_path / "weir.toml"
    config.write_text(done.stdout)
    reported = where(asked, "--config", str(config))
    # The library tells places in its own order, which may be sorted: one of its places is one server of ours.
    pairs = set(zip(expected, reported, strict=True))
    assert (
        len(pairs)
        == len(set(expected))
        == len(set(reported))
        == STRINGS[name].count("--S") - ("--SORT" in STRINGS[name])
    )


def test_a_string_without_equal_is_refused(tmp_path: Path) -> None:
    done = convert(tmp_path, "--SERVER=a --DISTRIBUTION=random")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--DISTRIBUTION=random: has no equal: keys would have no place. Nearest: modula or consistent" in done.stderr
