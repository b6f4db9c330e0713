"""The chart, its cases, and how helm renders it."""

from __future__ import annotations

import importlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.harness.processes import ROOT

CHART = ROOT / "deploy" / "helm" / "weir"
SIDECAR = ROOT / "deploy" / "kubernetes" / "sidecar.yaml"
HERE = Path(__file__).resolve().parent
TOOLS = Path(os.environ.get("WEIR_TOOLS", ROOT / ".tools")) / "bin"

# Values that are rendered, by name; what helm makes of them is kept in golden/.
CASES = sorted(file.stem for file in (HERE / "values").glob("*.yaml"))

# The oldest Kubernetes that Chart.yaml takes, and the newest whose schemas are at hand.
OLDEST, NEWEST = "1.27.0", "1.37.0"

# Rendering a chart of this size takes helm a tenth of a second; it gets all the time of a busy machine.
LIMIT_S = 120


def values(case: str) -> Path:
    return HERE / "values" / f"{case}.yaml"


def golden(case: str) -> Path:
    return HERE / "golden" / f"{case}.yaml"


def tool(name: str) -> str:
    """A program that `scripts/setup chart` has compiled: no other version of it, whatever is on PATH."""
    program = TOOLS / name
    if not program.is_file():
        raise FileNotFoundError(f"{program} is missing: run `scripts/setup chart`")
    return str(program)


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs helm, which knows of no cluster and keeps nothing."""
    with tempfile.TemporaryDirectory() as home:
        folders = {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [tool("helm"), *map(str, words)],
            env=os.environ | folders | {"KUBECONFIG": os.devnull},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def render(case: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What `helm install` would send to a cluster."""
    # Compiled by `go install`, helm does not know for which Kubernetes it was made.
    known = ("--kube-version", NEWEST, "--namespace", "cache", "--values", values(case))
    return helm("template", "weir", CHART, *known, *options)


def rendered(case: str, *options: str) -> str:
    done = render(case, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    # Only `make test-long` has it.
    yaml: Any = importlib.import_module("yaml")
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(text: str, kind: str) -> dict[str, Any]:
    """The only document of this kind."""
    (found,) = [document for document in documents(text) if document["kind"] == kind]
    return found


def flat(tree: Mapping[str, Any], leaves: set[str], above: str = "") -> dict[str, Any]:
    """Each leaf of the values by its path."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}{name}"
        if path in leaves:
            found[path] = value
        else:
            found |= flat(value, leaves, f"{path}.")
    return found
