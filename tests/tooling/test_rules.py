"""The alert and recording rules of deploy/prometheus: well formed, each tested, and each explained in docs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, ROOT, program

FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "weir.rules.yml"
TESTS = FOLDER / "weir.rules.test.yml"
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())


def promtool(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [program("promtool"), *map(str, words)], capture_output=True, text=True, timeout=LIVENESS_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_rules_are_well_formed() -> None:
    status, said = promtool("check", "rules", RULES)
    assert status == 0, said


def test_prometheus_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    found = re.search(r"^## Load the rules$.*?^```yaml$(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found
    # Prometheus' own intervals are a minute: as long as some alerts wait.
    assert re.findall(r"^  (\w+)_interval: 15s$", found[1], re.MULTILINE) == ["scrape", "evaluation"]
    (tmp_path / "prometheus.yml").write_text(found[1])
    (tmp_path / RULES.name).write_text(RULES.read_text())
    status, said = promtool("check", "config", tmp_path / "prometheus.yml")
    assert status == 0, said
    assert "rules found" in said


def test_each_alert_fires_where_it_should_and_only_there() -> None:
    status, said = promtool("test", "rules", TESTS)
    assert status == 0, said
    tested = TESTS.read_text()
    for alert in ALERTS:
        # Quiet and loud in a test of its own, and quiet where a proxy is well.
        assert len(re.findall(rf"alertname: {alert}\b", tested)) == 3, alert


@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ("weir_server_down == 1", "weir_server_down == 2"),
        ("weir_pool_servers_down == weir_pool_servers and", "weir_pool_servers_down > 0 and"),
        ("p99_5m > 0.05", "p99_5m > 0.5"),
    ],
)
def test_a_rule_that_is_wrong_fails_its_test(tmp_path: Path, rule: str, without: str) -> None:
    text = RULES.read_text()
    assert rule in text
    (tmp_path / RULES.name).write_text(text.replace(rule, without))
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    status, said = promtool("test", "rules", tmp_path / TESTS.name)
    assert status != 0, said


def test_each_alert_is_explained() -> None:
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    explained = re.findall(r"^\| `(Weir\w+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(ALERTS)
