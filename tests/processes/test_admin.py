"""The admin port: what it counts equals what the clients sent, and its formats are the documented ones."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.error
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, Proxy
from tests.harness.wire import Wire

STAGES = {"read", "dispatch", "queue", "send", "backend", "reply"}

GETS, SETS, MULTIGETS, MULTIGET_KEYS = 30, 20, 5, 12


def known_traffic(wire: Wire) -> None:
    keys = [b"key:%d" % number for number in range(SETS)]
    for key in keys:
        assert wire.store(key, b"value") == b"STORED"
    for number in range(GETS):
        wire.get(b"key:%d" % number)  # those from SETS on are misses
    for _ in range(MULTIGETS):
        assert len(wire.get(*keys[:MULTIGET_KEYS])) == MULTIGET_KEYS
    wire.in_step()


def requests_of(operations: dict[str, Any], field: str, *names: str) -> int:
    return sum(operations[name][field] for name in names if name in operations)


@pytest.mark.every_engine
def test_snapshot_counts_what_the_client_sent(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, engine: str
) -> None:
    proxy = start_proxy("--threads", "2")
    known_traffic(connect(proxy.address))
    snapshot = proxy.snapshot()
    assert snapshot["schema"] == "weir.proxy/1"
    assert snapshot["config"]["servers"] == [str(server.address) for server in servers]
    assert snapshot["config"]["listen"] == str(proxy.address)
    # The network thread has a loop beside the workers.
    threads, own = {"event": (2, 0), "pool": (8, 1), "split": (3 * (4 + 1), 1)}[engine]
    assert snapshot["config"]["engine"] == engine
    assert snapshot["config"]["threads"] == threads == len(snapshot["loops"]) - own
    assert snapshot["process"]["pid"] == proxy.pid
    operations = snapshot["operations"]
    reads = ("get", "multiget")
    assert requests_of(operations, "requests", "set") == SETS
    assert requests_of(operations, "requests", *reads) == GETS + MULTIGETS
    assert requests_of(operations, "keys", *reads) == GETS + MULTIGETS * MULTIGET_KEYS
    assert requests_of(operations, "hits", *reads) == SETS + MULTIGETS * MULTIGET_KEYS
    assert requests_of(operations, "misses", *reads) == GETS - SETS
    assert requests_of(operations, "errors", *operations) == 0
    # One part per key, but for a multi-get, which has one part per server that holds any of its keys.
    sent = sum(server["requests"] for server in snapshot["servers"])
    assert SETS + GETS + MULTIGETS <= sent <= SETS + GETS + MULTIGETS * len(servers)


@pytest.mark.every_engine
def test_stages_add_up_to_the_total(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    known_traffic(connect(proxy.address))
    snapshot = proxy.snapshot()
    checked = 0
    for operation in snapshot["operations"].values():
        if operation["requests"] == 0:
            continue
        assert set(operation["stages"]) == STAGES
        assert sum(stage["sum_ns"] for stage in operation["stages"].values()) == operation["total"]["sum_ns"]
        for distribution in (*operation["stages"].values(), operation["total"]):
            assert distribution["count"] == operation["requests"]
            assert base64.b64decode(distribution["histogram"])
        checked += 1
    assert checked >= 2
    for window in snapshot["windows"]:
        for operation in window["operations"].values():
            assert sum(operation["stage_sum_ns"].values()) == operation["total_sum_ns"]


def test_server_times_and_queues(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy()
    known_traffic(connect(proxy.address))
    entries = proxy.snapshot()["servers"]
    assert [entry["server"] for entry in entries] == [str(server.address) for server in servers]
    for entry in entries:
        assert entry["state"] == "up"
        assert (entry["errors"], entry["timeouts"]) == (0, 0)
        assert entry["server_time"]["count"] == entry["requests"]
        for queue in (entry["queued"], entry["in_flight"]):
            assert queue["length"] == 0
            assert queue["arrivals"] == entry["requests"]


def test_snapshots_only_grow(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    known_traffic(wire)
    before = proxy.snapshot()
    known_traffic(wire)
    after = proxy.snapshot()
    assert after["uptime_ns"] > before["uptime_ns"]
    assert after["process"]["pid"] == before["process"]["pid"]
    for name, operation in before["operations"].items():
        if name in ("get", "set", "multiget"):
            assert after["operations"][name]["requests"] == 2 * operation["requests"]
    for name, count in before["counters"].items():
        assert after["counters"][name] >= count


def test_errors_are_counted(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy()
    servers[0].kill()
    wire = connect(proxy.address)
    replies = [wire.store(b"key:%d" % number, b"value") for number in range(60)]
    refused = sum(reply.startswith(b"SERVER_ERROR") for reply in replies)
    assert refused > 0
    snapshot = proxy.snapshot()
    assert snapshot["operations"]["set"]["errors"] == refused
    assert snapshot["operations"]["set"]["requests"] == len(replies)
    assert snapshot["servers"][0]["state"] != "up"


def metrics(proxy: Proxy) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name, read by the Prometheus client's own parser."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(proxy.http("/metrics")):
        assert family.documentation, f"{family.name} has no HELP line"
        assert family.type != "unknown", f"{family.name} has no TYPE line"
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def test_metrics_parse_and_agree_with_the_snapshot(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    known_traffic(connect(proxy.address))
    samples = metrics(proxy)
    assert all(name.startswith("weir_") for name in samples)
    for name, found in samples.items():
        labels = [tuple(sorted(label.items())) for label, _ in found]
        assert len(labels) == len(set(labels)), f"{name} has two samples with the same labels"
    operations = proxy.snapshot()["operations"]
    counted = {labels["operation"]: value for labels, value in samples["weir_request_seconds_count"]}
    assert counted == {name: operation["requests"] for name, operation in operations.items()}


PAGES = ["/snapshot", "/windows?since=0", "/hot", "/where?key=a", "/config", "/readyz", "/healthz", "/metrics"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_ends_with_its_line(start_proxy: StartProxy, path: str) -> None:
    text = start_proxy().http(path)
    assert text.rstrip("\n") + "\n" == text


@pytest.mark.parametrize("path", ["/no-such-page", "/snapshot/../x", "/%00"])
def test_unknown_page_is_not_found(start_proxy: StartProxy, path: str) -> None:
    proxy = start_proxy()
    with pytest.raises(urllib.error.HTTPError) as refused:
        proxy.http(path)
    assert refused.value.code == 404
    refused.value.close()
    assert proxy.running


def test_garbage_at_the_admin_port_harms_nothing(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    for garbage in (b"\x00" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"get key\r\n" * 100, b"A" * 100_000):
        wire = connect(proxy.admin)
        with contextlib.suppress(OSError):  # it may hang up before it has read all of it
            wire.send(garbage)
        wire.close()
    assert json.loads(proxy.http("/snapshot"))["schema"] == "weir.proxy/1"
    connect(proxy.address).in_step()
