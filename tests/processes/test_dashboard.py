"""The dashboard of deploy/grafana asks only for what `/metrics` tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Connect, StartProxy
from tests.harness.processes import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "weir.json"
NAME = re.compile(r"\bweir_[a-z0-9_]+")
LABELS = re.compile(r"\bby \(([^)]*)\)")


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


def test_every_metric_of_the_dashboard_is_told(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    wire.get(b"key")
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(proxy.http("/metrics")):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    asked = list(expressions(json.loads(DASHBOARD.read_text())))
    names = {name for text in asked for name in NAME.findall(text)}
    assert len(names) >= 15
    assert names <= labels.keys(), names - labels.keys()
    for text in asked:
        grouped = {label.strip() for found in LABELS.findall(text) for label in found.split(",")}
        known = set().union(*(labels[name] for name in NAME.findall(text))) | {"instance", "job"} if grouped else set()
        assert grouped <= known, text
