"""One-second windows of the proxy: at the admin port, and in the file of --windows."""

from __future__ import annotations

import json
import signal
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, Memcached, Proxy, eventually
from tests.harness.wire import Wire

SETS, GETS, KEYS_OF_MULTIGET = 20, 30, 12
REQUESTS = SETS + GETS + 1
SECOND_NS = 1_000_000_000


def traffic(wire: Wire) -> None:
    for number in range(SETS):
        assert wire.store(b"key:%d" % number, b"value") == b"STORED"
    for number in range(GETS):
        wire.get(b"key:%d" % number)  # those from SETS on are misses
    assert len(wire.get(*[b"key:%d" % number for number in range(KEYS_OF_MULTIGET)])) == KEYS_OF_MULTIGET


def windows(proxy: Proxy, since: int = 0) -> list[dict[str, Any]]:
    page = json.loads(proxy.http(f"/windows?since={since}"))
    assert page["schema"] == "weir.windows/1"
    found: list[dict[str, Any]] = page["windows"]
    if found:
        assert page["next"] == found[-1]["index"] + 1
    return found


def until_reported(proxy: Proxy, requests: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def is_reported() -> bool:
        found[:] = windows(proxy)
        return bool(sum(window["requests"] for window in found) >= requests)

    eventually(is_reported, f"{requests} requests are in windows")
    return found


def summed(records: list[dict[str, Any]], *path: str) -> int:
    total = 0
    for record in records:
        value: Any = record
        for name in path:
            value = value.get(name, 0) if isinstance(value, dict) else 0
        total += value
    return total


def check_records(records: list[dict[str, Any]]) -> None:
    first = records[0]["index"]
    assert [record["index"] for record in records] == list(range(first, first + len(records)))
    for record in records:
        assert record["schema"] == "weir.window/1"
        assert record["requests"] == sum(it["requests"] for it in record["operations"].values())
        assert record["requests"] == record["total"]["count"]
        for operation in record["operations"].values():
            stages = operation["stages"].values()
            assert sum(stage["sum_ns"] for stage in stages) == operation["total"]["sum_ns"]
            assert {stage["count"] for stage in stages} == {operation["requests"]}
        assert record["turn_time"]["count"] == sum(thread["turns"] for thread in record["threads"])
        assert record["counters"].get("stamps_clamped", 0) == 0


@pytest.mark.every_engine
def test_windows_hold_what_the_client_sent(start_proxy: StartProxy, connect: Connect, engine: str) -> None:
    proxy = start_proxy("--threads", "2")
    traffic(connect(proxy.address))
    found = until_reported(proxy, REQUESTS)
    check_records(found)
    assert summed(found, "requests") == summed(found, "counters", "requests") == REQUESTS
    assert summed(found, "operations", "set", "requests") == SETS
    assert summed(found, "operations", "get", "misses") == GETS - SETS
    assert summed(found, "operations", "multiget", "hits") == KEYS_OF_MULTIGET
    assert summed(found, "counters", "client_bytes_read") > 0
    assert found[-1]["sessions"] == 1
    messages = sum(server["requests"] for record in found for server in record["servers"])
    assert messages == sum(server["requests"] for server in proxy.snapshot()["servers"])
    replies = sum(server["server_time"]["count"] for record in found for server in record["servers"])
    assert messages == replies
    for queue in ("queued", "in_flight"):
        assert sum(server[queue]["arrivals"] for record in found for server in record["servers"]) == messages
    if engine == "pool":
        # The integral of the queue's length is the sum of the queueing times, cut at the ends of the windows.
        length = summed(found, "queues", "workers", "length_time_integral_ns")
        waited = sum(it["stages"]["queue"]["sum_ns"] for record in found for it in record["operations"].values())
        assert length == waited
    later = windows(proxy, since=found[-1]["index"])
    assert later[0]["index"] == found[-1]["index"]


@pytest.mark.every_engine
def test_a_request_in_flight_is_in_every_second(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    """A thread that waits for a frozen server does nothing, and its queue has a length all the same."""
    # On a busy machine a worker may meet the server only when it is frozen: then the request waits for its connection.
    proxy = start_proxy("--connect-timeout", f"{LIVENESS_S}s", in_front_of=[servers[0].address])
    wire = connect(proxy.address)
    assert wire.store(b"key", b"value") == b"STORED"
    servers[0].freeze()
    wire.send(b"get key\r\n")
    found: list[dict[str, Any]] = []

    def is_full_for_two_seconds() -> bool:
        found[:] = windows(proxy)
        queues = [[record["servers"][0][name] for name in ("queued", "in_flight")] for record in found]
        # A worker that asks for the first time waits for its connection, and the request waits with it.
        lengths = [sum(queue["length_time_integral_ns"] for queue in both) for both in queues]
        return lengths.count(SECOND_NS) >= 2

    eventually(is_full_for_two_seconds, "the request is in flight for two whole windows")
    servers[0].thaw()
    assert wire.values() == [(b"key", b"value")]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("since=x", "whole number"),
        ("since=-1", "whole number"),
        ("until=5", "there is no parameter"),
        ("since=1&since=2", "given twice"),
        ("since=%f", "hexadecimal"),
    ],
)
def test_a_bad_question_is_answered_with_the_reason(start_proxy: StartProxy, query: str, reason: str) -> None:
    proxy = start_proxy()
    with pytest.raises(urllib.error.HTTPError) as refused:
        proxy.http(f"/windows?{query}")
    with refused.value as answer:
        assert answer.code == 400
        assert reason in answer.read().decode()


@pytest.mark.every_engine
def test_the_file_has_every_second_to_the_last(start_proxy: StartProxy, connect: Connect, tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    proxy = start_proxy("--windows", str(file))
    wire = connect(proxy.address)
    traffic(wire)
    until_reported(proxy, REQUESTS)
    traffic(wire)
    wire.close()
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0
    records = [json.loads(line) for line in file.read_text().splitlines()]
    check_records(records)
    assert records[0]["index"] == 0
    assert summed(records, "requests") == 2 * REQUESTS
    assert records[-1]["sessions"] == 0
    assert {record["length_ns"] for record in records[:-1]} <= {SECOND_NS}
    assert {record["records_dropped"] for record in records} == {0}


def test_a_file_that_cannot_be_opened_is_said_at_the_start(start_proxy: StartProxy, tmp_path: Path) -> None:
    file = tmp_path / "no-such-folder" / "windows.jsonl"
    with pytest.raises(AssertionError, match=r"cannot append records to .*no-such-folder"):
        start_proxy("--windows", str(file))


def test_a_full_disk_costs_records_and_nothing_else(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--windows", "/dev/full")
    wire = connect(proxy.address)
    eventually(lambda: "weir_windows_dropped_total 0" not in proxy.http("/metrics"), "a record is dropped")
    traffic(wire)
    assert proxy.running
