"""`/metrics` as Prometheus' own linter sees it."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, program


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
