"""The keys that are asked for most, at every place that names them, and who may read keys there."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import Any

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, Address, Proxy, eventually, weir_binary
from tests.harness.wire import Wire

KEYS, REQUESTS = 1_000, 40_000

# What `weir load` makes hottest: the first of its keys.
HOTTEST = f"{0:016}"


def hash_of(key: bytes) -> str:
    return hashlib.md5(key, usedforsecurity=False).hexdigest()[:16]


def load(target: Address, popularity: str = "zipf:1.1") -> None:
    command = [str(weir_binary()), "load", "--target", str(target), "--connections", "8", "--warmup", "0s"]
    command += ["--requests", str(REQUESTS), "--keys", str(KEYS), "--popularity", popularity, "--writes", "0.1"]
    command += ["--value-size", "100", "--key-size", "16", "--seed", "1"]
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=3 * LIVENESS_S)


def hot(proxy: Proxy) -> dict[str, Any]:
    page = proxy.reported("/hot")
    assert page["schema"] == "weir.hot/1"
    return page


def stats_hot(wire: Wire) -> list[list[bytes]]:
    wire.send(b"stats hot\r\n")
    lines = [line.split(b" ") for line in iter(wire.line, b"END")]
    assert all(line[0] == b"STAT" and len(line) == 3 for line in lines), lines
    return [line[1:] for line in lines]


def wait_second(proxy: Proxy) -> None:
    eventually(lambda: bool(json.loads(proxy.http("/windows"))["windows"]), "a second is over")


def printed(*arguments: str) -> str:
    done = subprocess.run(
        [str(weir_binary()), *arguments], capture_output=True, text=True, check=True, timeout=3 * LIVENESS_S
    )
    return done.stdout


@pytest.mark.every_engine
def test_the_hottest_key_is_the_one_that_the_load_makes_hottest(
    start_proxy: StartProxy, connect: Connect, engine: str
) -> None:
    proxy = start_proxy("--threads", "2")
    load(proxy.address)
    page = hot(proxy)
    first = page["keys"][0]
    assert (first["hash"], first["key"]) == (hash_of(HOTTEST.encode()), None)
    assert first["hash"] == printed("where", "--key-hash", HOTTEST).strip()
    place = json.loads(proxy.http(f"/where?key={HOTTEST}"))
    assert (place["hash"], place["servers"], place["pool"]) == (first["hash"], first["servers"], first["pool"])
    # Its share by Zipf's law, and the tolerance of six standard deviations of what was looked at.
    share = 1 / sum(rank**-1.1 for rank in range(1, KEYS + 1))
    looked_at = page["keys_looked_at"]
    assert page["one_in"] == 64
    assert page["keys_asked"] == 64 * looked_at
    # The prefill stores each key once, beside what the load asks for.
    assert abs(looked_at - (REQUESTS + KEYS) / 64) < 6 * ((REQUESTS + KEYS) / 64) ** 0.5
    assert abs(first["share"] - share) < 6 * (share / looked_at) ** 0.5 + first["error"] / page["keys_asked"] + 0.01
    assert 0 < first["writes"] < first["reads"]
    assert first["bytes"] > 0
    assert first["count"] == first["reads"] + first["writes"] + first["error"]
    for key in page["keys"]:
        assert key["error"] <= page["floor"] <= page["keys_asked"] / 256
    # The same in band, and as one number for Prometheus.
    wire = connect(proxy.address)
    assert [b"1:hash", first["hash"].encode()] in stats_hot(wire)
    wire.in_step()
    shares = [line.split() for line in proxy.http("/metrics").splitlines() if line.startswith("weir_hottest_key_share")]
    assert [float(share) for _, share in shares] == [pytest.approx(first["share"], abs=0.02)]
    if engine == "event":
        wait_second(proxy)
        top = printed("top", "--once", str(proxy.admin))
        assert f"hash {first['hash']}" in top, top


@pytest.mark.every_engine
def test_keys_are_shown_only_where_the_operator_wants_it(
    start_proxy: StartProxy, connect: Connect, engine: str
) -> None:
    secret = b"session:5e0a7c0f"
    for options in ((), ("--show-keys",)):
        proxy = start_proxy(*options)
        wire = connect(proxy.address)
        wire.store(secret, b"value")
        ask_until_looked_at(proxy, wire, secret)
        wait_second(proxy)
        wire.send(b"stats hot\r\n")
        in_band = b"\n".join(iter(wire.line, b"END")).decode()
        shows = [proxy.http("/hot"), in_band, printed("top", "--once", str(proxy.admin))]
        for page in shows:
            assert (secret.decode() in page) == bool(options), page
        assert hash_of(secret) in shows[0]
        assert hash_of(secret) in in_band
        for page in (proxy.http("/snapshot"), proxy.http("/metrics"), proxy.http("/config"), proxy.output()):
            assert secret.decode() not in page


def ask_until_looked_at(proxy: Proxy, wire: Wire, key: bytes) -> None:
    def is_looked_at() -> bool:
        for _ in range(100):
            wire.get(key)
        return hash_of(key) in [it["hash"] for it in hot(proxy)["keys"]]

    eventually(is_looked_at, f"{key!r} is one of those that are looked at")


def test_any_bytes_of_a_key_are_shown_as_text(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--show-keys")
    wire = connect(proxy.address)
    # In base64 a key may be anything, and classic commands take what is no space and no line ending.
    encoded = {b'\x01\xff%"\\': '%01%FF%25"\\', "ä".encode(): "%C3%A4"}
    for key in encoded:
        ask_until_looked_at(proxy, wire, key)
    shown = {it["key"] for it in hot(proxy)["keys"]}
    assert set(encoded.values()) <= shown
    said = {value.decode() for name, value in stats_hot(wire) if name.endswith(b":key")}
    assert set(encoded.values()) <= said
    wire.in_step()


def test_it_can_be_off(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--hot-keys", "0")
    wire = connect(proxy.address)
    for _ in range(500):
        wire.get(b"key")
    page = hot(proxy)
    assert (page["keys"], page["hot_keys"], page["one_in"], page["keys_looked_at"]) == ([], 0, 0, 0)
    assert b"1:hash" not in [name for name, _ in stats_hot(wire)]
    assert "\nweir_hottest_key_share 0\n" in proxy.http("/metrics")


def test_a_client_with_many_keys_pushes_no_hot_one_out(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--threads", "1", "--hot-keys", "16")
    wire = connect(proxy.address)
    # One of eight keys is the hot one, and no other comes twice.
    for number in range(2_000):
        names = [b"one:%d:%d" % (number, place) for place in range(7)]
        wire.send(b"get %s hot\r\n" % b" ".join(names))
        wire.values()
    page = hot(proxy)
    first = page["keys"][0]
    assert first["hash"] == hash_of(b"hot")
    assert first["error"] <= page["floor"] <= page["keys_asked"] / 16
    assert first["count"] - first["error"] - first["noise"] <= 2_000 <= first["count"] + first["noise"]
