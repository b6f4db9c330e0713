"""The chart and the proxy agree on settings and their forms, on flags, on the version. No helm is needed for it."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import LIVENESS_S, ROOT, weir_binary

from .chart import CASES, CHART, SIDECAR, golden
from .settings import POOL, check, known, settings_of_proxy

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
SETTINGS: dict[str, Any] = SCHEMA["definitions"]["settings"]["properties"]
OF_POOLS: dict[str, Any] = SCHEMA["definitions"]["pool"]["properties"]

OF_THE_CHART_IN_POOLS = {"listen", "listen_mode"}

PRODUCTS = [*(golden(case) for case in CASES), SIDECAR]


def test_the_chart_knows_every_setting_and_no_other(tmp_path: Path) -> None:
    assert settings_of_proxy(tmp_path) == SETTINGS, "write them anew: .venv/bin/python -m tests.deploy settings"
    assert set(OF_POOLS) | OF_THE_CHART_IN_POOLS == set(known(tmp_path, f"{POOL}unknown = 1\n"))


@pytest.mark.parametrize(
    ("kind", "text", "is_one"),
    [
        ("time", "250us", True),
        ("time", "1.5s", True),
        ("time", "10 s", True),
        ("time", "0", True),
        ("time", "10", False),
        ("time", "10 parsecs", False),
        ("size", "64k", True),
        ("size", "256MiB", True),
        ("size", "0", True),
        ("size", "64", False),
        ("size", "1t", False),
    ],
)
def test_times_and_sizes_are_those_of_the_proxy(tmp_path: Path, kind: str, text: str, is_one: bool) -> None:
    name = {"time": "idle_timeout", "size": "progress"}[kind]
    status, said = check(tmp_path, f'[proxy]\n{name} = "{text}"\n{POOL}')
    assert (status == 0) == is_one, said
    assert bool(re.search(SCHEMA["definitions"][kind]["pattern"], text)) == is_one


def test_the_chart_is_for_this_version() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    of_chart = re.search(r'^appVersion: "(.*)"$', (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert version
    assert of_chart
    assert of_chart[1] == version[1], "deploy/helm/weir/Chart.yaml: write the version of Cargo.toml as appVersion"


def test_the_rules_are_those_of_prometheus() -> None:
    ours, theirs = CHART / "files" / "weir.rules.yml", ROOT / "deploy" / "prometheus" / "weir.rules.yml"
    copy = f"cp {theirs.relative_to(ROOT)} {ours.relative_to(ROOT)}"
    assert ours.read_bytes() == theirs.read_bytes(), f"the rules of the chart are others; to go on: {copy}"


def leaves(node: dict[str, Any], above: str = "") -> set[str]:
    """Paths of the values that the schema has. What refers to a definition is one value."""
    found: set[str] = set()
    for name, value in node["properties"].items():
        found |= leaves(value, f"{above}{name}.") if "properties" in value else {f"{above}{name}"}
    return found


def test_the_table_of_values_has_each_and_no_other() -> None:
    documented = re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == leaves(SCHEMA) - {"global"}


def blocks(text: str, name: str) -> list[str]:
    """The text of each `name: |` of a YAML file."""
    found = re.findall(rf"^( *){re.escape(name)}: \|\n((?:\1 +.*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def arguments(text: str) -> list[str]:
    """The entries of `args:`."""
    (found,) = re.findall(r"^( *)args:\n((?:\1  - .*\n)+)", text, re.MULTILINE)
    return [line.strip().removeprefix("- ") for line in found[1].splitlines()]


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda file: file.stem)
def test_the_proxy_takes_the_file_that_it_gets(tmp_path: Path, product: Path) -> None:
    (file,) = blocks(product.read_text(), "weir.toml")
    # Names of servers are known in the cluster alone.
    status, said = check(tmp_path, re.sub(r"memcached-(\d)\.memcached", r"127.0.0.1\1", file))
    assert status == 0, said


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda file: file.stem)
def test_the_proxy_knows_each_flag_that_it_gets(product: Path) -> None:
    given = arguments(product.read_text())
    assert given[0] == "proxy"
    shown = subprocess.run(
        [str(weir_binary()), "proxy", "--help"], capture_output=True, text=True, timeout=LIVENESS_S, check=True
    ).stdout
    flags = set(re.findall(r"--[\w-]+", shown))
    assert {argument.partition("=")[0] for argument in given[1:]} <= flags
