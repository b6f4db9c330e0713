"""`/metrics` as Prometheus' own linter sees it, and what the alerts of deploy/prometheus are made of."""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Connect, StartProxy
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    ConfiguredProxy,
    Memcached,
    Proxy,
    eventually,
    program,
)


def complaints(page: str) -> str:
    """What `promtool check metrics` has to say of a page; nothing of a good one."""
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=page,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    return done.stdout + done.stderr + (f"exit status {done.returncode}" if done.returncode != 0 else "")


def test_the_linter_complains_of_a_page_that_names_a_metric_twice() -> None:
    family = "# HELP weir_a_total A.\n# TYPE weir_a_total counter\nweir_a_total 1\n"
    assert complaints(family) == ""
    assert "second HELP line" in complaints(family + family)


@pytest.mark.every_engine
def test_no_metric_stands_twice_and_each_follows_the_rules(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--replicas", "2")
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    wire.get(b"key")
    wire.get(b"key", b"other")
    assert complaints(proxy.http("/metrics")) == ""


ROOT = Path(__file__).parents[2]
# Metrics that not every engine has.
OF_THREADED_ENGINES = re.compile(r"weir_station_\w+|weir_queue_(length|arrivals)\w*")
# Those that are there only where places name pools (test_pools_of_places.py).
OF_PLACES = re.compile(r"weir_pool_(sessions|(requests|errors|hits|misses)_total)")


def documented() -> dict[str, tuple[str, str, str]]:
    """Type, labels and alerts of each metric, by its name, as docs/reference/metrics.md has them."""
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| `(weir_\w+)(?:\{([\w,]+)\})?` \| (\w+) \| [^|]+ \|([^|]*)\|$", re.MULTILINE)
    names = re.compile(r"\[(\w+)\]")
    rows = [
        (name, (kind, labels, ", ".join(names.findall(alerts)))) for name, labels, kind, alerts in row.findall(page)
    ]
    assert len(dict(rows)) == len(rows), "no metric has two rows"
    assert len(rows) == len(re.findall(r"^\| `weir_", page, re.MULTILINE)), "every row has the form of a row"
    return dict(rows)


def alerts_by_metric() -> dict[str, set[str]]:
    """The alerts in whose expressions a metric is, by itself or through a recording rule."""
    rules = (ROOT / "deploy/prometheus/weir.rules.yml").read_text(encoding="utf-8")
    bodies = re.split(r"^ +- (?=(?:record|alert): )", rules, flags=re.MULTILINE)[1:]
    recorded: dict[str, str] = {}
    found: dict[str, set[str]] = {}
    for body in bodies:
        kind, name = re.match(r"(record|alert): (\S+)", body).groups()  # type: ignore[union-attr]
        expression = body[body.index("expr:") :].split("\n        for:")[0].split("\n        labels:")[0]
        if kind == "record":
            recorded[name] = expression
            continue
        for record, its_own in recorded.items():
            expression = expression.replace(record, its_own)
        for metric in re.findall(r"\bweir_\w+", expression):
            found.setdefault(re.sub(r"_(bucket|sum|count)$", "", metric), set()).add(name)
    return found


@pytest.mark.every_engine
def test_every_metric_is_documented(start_proxy: StartProxy, connect: Connect, engine: str) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    wire.get(b"key")
    alerts = alerts_by_metric()
    found = {}
    for family in text_string_to_metric_families(proxy.http("/metrics")):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ",".join(label for label in (family.samples[0].labels if family.samples else {}) if label != "le")
        found[name] = (family.type, labels, ", ".join(sorted(alerts.get(name, ()))))
    written = {name: row for name, row in documented().items() if not OF_PLACES.fullmatch(name)}
    if engine == "event":
        written = {name: row for name, row in written.items() if not OF_THREADED_ENGINES.fullmatch(name)}
    assert found == written


def reported(proxy: Proxy, name: str, **labels: str) -> float:
    """The value of one sample of the page."""
    for family in text_string_to_metric_families(proxy.http("/metrics")):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    raise AssertionError(f"there is no {name} with {labels}")


@pytest.mark.every_engine
def test_a_dead_server_is_reported_and_a_pool_of_dead_servers(
    start_proxy: StartProxy, servers: list[Memcached]
) -> None:
    proxy = start_proxy()
    names = [str(server.address) for server in servers]

    def down() -> list[float]:
        return [reported(proxy, "weir_server_down", server=name) for name in names]

    eventually(lambda: down() == [0, 0, 0], "no server is down")
    assert reported(proxy, "weir_pool_servers", pool="main") == 3
    assert reported(proxy, "weir_pool_servers_down", pool="main") == 0
    servers[1].kill()
    eventually(lambda: down() == [0, 1, 0], "the server that was killed is down, and no other")
    assert reported(proxy, "weir_pool_servers_down", pool="main") == 1
    assert reported(proxy, "weir_server_up", server=names[1]) == 0
    servers[0].kill()
    servers[2].kill()
    eventually(lambda: reported(proxy, "weir_pool_servers_down", pool="main") == 3, "all servers of the pool are down")


def test_a_refused_configuration_is_reported_until_one_is_accepted(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "weir.toml"
    good = f'[pools.main]\nservers = ["{Address.free()}"]\n'
    file.write_text(good)
    proxy = stack.enter_context(ConfiguredProxy(file))
    proxy.wait_ready(proxy.admin)
    assert reported(proxy, "weir_config_refused") == 0
    file.write_text("[pools.main]\nservers = 3\n")
    assert proxy.reload()[0] == 422
    assert reported(proxy, "weir_config_refused") == 1
    assert reported(proxy, "weir_pool_servers", pool="main") == 1
    file.write_text(good)
    assert proxy.reload()[0] == 200
    assert reported(proxy, "weir_config_refused") == 0
    assert reported(proxy, "weir_reloads_refused_total") == 1


def test_what_is_bounded_is_reported_beside_its_bound(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--max-connections", "77", "--buffer-limit", "64m")
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    # That which found the port open may not be gone yet.
    eventually(lambda: reported(proxy, "weir_sessions") == 1, "one session is open")
    assert reported(proxy, "weir_sessions_max") == 77
    assert reported(proxy, "weir_buffer_limit_bytes") == 64 << 20
    assert reported(proxy, "weir_buffered_bytes") < 64 << 20
