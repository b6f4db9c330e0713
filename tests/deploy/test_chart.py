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

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
SETTINGS: dict[str, Any] = SCHEMA["definitions"]["settings"]["properties"]
OF_POOLS: dict[str, Any] = SCHEMA["definitions"]["pool"]["properties"]

# What the chart itself says to the proxy, so that probes and Services find it.
OF_THE_CHART = {"listen", "listen_mode", "admin", "drain_delay", "drain_timeout"}
OF_THE_CHART_IN_POOLS = {"listen", "listen_mode"}

# What `weir check` expects of a setting, and what the schema calls that.
FORMS = {
    "text in quotes": {"type": "string"},
    "a whole number": {"$ref": "#/definitions/count"},
    "a number": {"type": "number"},
    "true or false": {"type": "boolean"},
    "a time": {"$ref": "#/definitions/time"},
    "a size": {"$ref": "#/definitions/size"},
}

POOL = '[pools.main]\nservers = ["127.0.0.1:11211"]\n'

PRODUCTS = [*(golden(case) for case in CASES), SIDECAR]


def check(folder: Path, text: str) -> tuple[int, str]:
    """What `weir check` says about a file."""
    file = folder / "weir.toml"
    file.write_text(text)
    done = subprocess.run(
        [str(weir_binary()), "check", str(file)], capture_output=True, text=True, timeout=LIVENESS_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def known(folder: Path, text: str) -> set[str]:
    """The names that may stand where the file has one that may not."""
    status, said = check(folder, text)
    assert status == 2, said
    assert "unknown field `unknown`" in said, said
    return set(re.findall(r"`(\w+)`", said.partition("expected one of")[2]))


def test_the_chart_knows_every_setting_and_no_other(tmp_path: Path) -> None:
    of_proxy = known(tmp_path, f"[proxy]\nunknown = 1\n{POOL}")
    assert set(SETTINGS) | OF_THE_CHART == of_proxy
    assert not set(SETTINGS) & OF_THE_CHART
    assert set(OF_POOLS) | OF_THE_CHART_IN_POOLS == known(tmp_path, f"{POOL}unknown = 1\n")


@pytest.mark.parametrize("name", SETTINGS)
def test_the_chart_knows_the_form_of_each_setting(tmp_path: Path, name: str) -> None:
    status, said = check(tmp_path, f"[proxy]\n{name} = true\n{POOL}")
    if status == 0:
        form = "true or false"
    else:
        found = re.search(rf"expected ({'|'.join(FORMS)})", said)
        assert found, said
        form = found[1]
    assert SETTINGS[name] == FORMS[form]


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
