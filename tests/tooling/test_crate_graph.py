"""The crate graph check accepts the workspace and refuses a reversed, a new and a forbidden arrow."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import ROOT

from .conftest import RunScript

Metadata = dict[str, Any]


@pytest.fixture(scope="module")
def metadata() -> Metadata:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    loaded: Metadata = json.loads(output)
    return loaded


def with_arrow(metadata: Metadata, crate: str, used: str, kind: str | None = None) -> Metadata:
    packages = [
        package | {"dependencies": [*package["dependencies"], {"name": used, "kind": kind}]}
        if package["name"] == crate
        else package
        for package in metadata["packages"]
    ]
    return {"packages": packages}


def check(run_script: RunScript, folder: Path, metadata: Metadata) -> tuple[int, str]:
    file = folder / "metadata.json"
    file.write_text(json.dumps(metadata))
    done = run_script("check-crate-graph", "--metadata", file)
    return done.returncode, done.stderr


def test_workspace_passes(run_script: RunScript, tmp_path: Path, metadata: Metadata) -> None:
    assert check(run_script, tmp_path, metadata) == (0, "")


@pytest.mark.parametrize(
    ("crate", "used"),
    [("weir-protocol", "weir-dataplane"), ("weir-dataplane", "weir-proxy"), ("weir-load", "weir")],
)
def test_reversed_arrow_fails(run_script: RunScript, tmp_path: Path, metadata: Metadata, crate: str, used: str) -> None:
    status, message = check(run_script, tmp_path, with_arrow(metadata, crate, used))
    assert status == 1
    assert message == f"crate-graph: {crate} -> {used}: reversed, the arrow goes {used} -> {crate}\n"


@pytest.mark.parametrize("kind", [None, "dev", "build"])
def test_siblings_stay_strangers(run_script: RunScript, tmp_path: Path, metadata: Metadata, kind: str | None) -> None:
    status, message = check(run_script, tmp_path, with_arrow(metadata, "weir-protocol", "weir-timing", kind))
    assert status == 1
    assert "weir-protocol -> weir-timing: no such arrow" in message


def test_testkit_is_for_development_only(run_script: RunScript, tmp_path: Path, metadata: Metadata) -> None:
    assert check(run_script, tmp_path, with_arrow(metadata, "weir-proxy", "weir-testkit", "dev"))[0] == 0
    status, message = check(run_script, tmp_path, with_arrow(metadata, "weir-proxy", "weir-testkit"))
    assert status == 1
    assert "only under [dev-dependencies]" in message


def test_pure_crates_get_no_io(run_script: RunScript, tmp_path: Path, metadata: Metadata) -> None:
    status, message = check(run_script, tmp_path, with_arrow(metadata, "weir-dataplane", "mio"))
    assert status == 1
    assert "weir-dataplane -> mio" in message


def test_unknown_and_missing_crates_fail(run_script: RunScript, tmp_path: Path, metadata: Metadata) -> None:
    packages = [p for p in metadata["packages"] if p["name"] != "weir-timing"]
    packages.append({"name": "weir-extra", "dependencies": []})
    status, message = check(run_script, tmp_path, {"packages": packages})
    assert status == 1
    assert "weir-extra is new" in message
    assert "weir-timing is in the table but not in the workspace" in message


def test_unreadable_metadata_is_an_error(run_script: RunScript, tmp_path: Path) -> None:
    file = tmp_path / "metadata.json"
    file.write_text("{")
    assert run_script("check-crate-graph", "--metadata", file).returncode == 2
