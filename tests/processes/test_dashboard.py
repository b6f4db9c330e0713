"""The dashboard of deploy/grafana and the rules of deploy/prometheus ask only for what `/metrics` tells."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, ROOT, program

DASHBOARD = ROOT / "deploy" / "grafana" / "weir.json"
RULES = ROOT / "deploy" / "prometheus" / "weir.rules.yml"
# What a rule records has colons in its name, and is no metric of the page.
NAME = re.compile(r"(?<![\w:])weir_[a-z0-9_]+\b(?!:)")
LABELS = re.compile(r"\bby \(([^)]*)\)")
RATED = re.compile(r"\b(?:rate|increase)\((weir_[a-z0-9_]+)")


def expressions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def of_dashboard() -> list[str]:
    return list(expressions(json.loads(DASHBOARD.read_text())))


def of_rules() -> list[str]:
    """Each is on the line of `expr:`, or on the lines behind it, which are indented deeper."""
    found = re.findall(r"^        expr: (?:>\n((?:          .*\n)+)|(.+)\n)", RULES.read_text(), re.MULTILINE)
    return [" ".join((folded or line).split()) for folded, line in found]


@pytest.fixture
def scraped(start_proxy: StartProxy, connect: Connect) -> list[Metric]:
    proxy = start_proxy()
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    wire.get(b"key")
    return list(text_string_to_metric_families(proxy.http("/metrics")))


@pytest.mark.parametrize(("asked", "at_least"), [(of_dashboard(), 15), (of_rules(), 15)], ids=["dashboard", "rules"])
def test_what_is_asked_for_is_reported(scraped: list[Metric], asked: list[str], at_least: int) -> None:
    labels: dict[str, set[str]] = {}
    counted: set[str] = set()
    for family in scraped:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            if family.type in ("counter", "histogram"):
                counted.add(sample.name)
    names = {name for text in asked for name in NAME.findall(text)}
    assert len(names) >= at_least
    assert names <= labels.keys(), names - labels.keys()
    rated = {name for text in asked for name in RATED.findall(text)}
    assert rated <= counted, f"these only grow and fall: {rated - counted}"
    for text in asked:
        grouped = {label.strip() for found in LABELS.findall(text) for label in found.split(",")}
        known = set().union(*(labels[name] for name in NAME.findall(text))) | {"instance", "job"} if grouped else set()
        assert grouped <= known, text


def test_every_query_of_the_dashboard_can_be_parsed(tmp_path: Path) -> None:
    queries = [text for text in of_dashboard() if text != "prometheus" and not text.startswith("label_values(")]
    assert len(queries) >= 15
    rules = "groups:\n- name: queries\n  rules:\n"
    for number, text in enumerate(queries):
        plain = (
            text.replace("$__rate_interval", "1m")
            .replace("$__interval", "1m")
            .replace("$job", "a")
            .replace("$instance", "a")
        )
        rules += f"  - record: query_{number}\n    expr: {json.dumps(plain)}\n"
    (tmp_path / "queries.yml").write_text(rules)
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(tmp_path / "queries.yml")],
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
