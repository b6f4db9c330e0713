"""Imports between modules go one way; __all__ is complete; every module says what it is for."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import weir_lab

# A module may import those in earlier groups, never one in its own or a later group.
LAYERS = [
    {"errors"},
    {"topology"},
    {"histogram", "design", "stats", "processes", "machine", "popularity", "interval_doubts"},
    {"laws", "queueing", "factorial", "formats", "network", "units"},
    {"places", "merging", "importers", "peers", "proxy_records", "holdout_forms", "generators"},
    {"testbeds", "foreign"},
    {"records", "knee", "calibration", "holdout", "capacity", "hashing", "drawing", "subjects", "windows"},
    {"sweeps", "tier_text", "simulation", "placing", "unloaded_records", "programs", "assumptions"},
    {"verdict", "analysis", "testbed", "audit", "planning", "progress", "unloaded", "unloaded_tables"},
    {"findings", "plots", "essence", "summary", "gathering", "links", "oracles", "attempts"},
    {"run", "plots_sweeps"},
    {"report", "commands", "commands_hash", "study_commands", "testbed_commands", "live"},
    {"commands_predict"},
    {"whole"},
    {"holdout_commands"},
    {"cli"},
]
MODULES = sorted(module.name for module in pkgutil.iter_modules(weir_lab.__path__))


def imports_of(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "weir_lab":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("weir_lab.")}
    return found & set(MODULES)


def reversed_arrows(module: str, source: str) -> set[str]:
    layer = next(index for index, group in enumerate(LAYERS) if module in group)
    allowed: set[str] = set().union(*LAYERS[:layer])
    return imports_of(source) - allowed - {module}


def test_every_module_has_its_layer() -> None:
    assert sorted(set().union(*LAYERS)) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_arrows_go_one_way(module: str) -> None:
    assert reversed_arrows(module, source_of(module)) == set()


def test_a_reversed_arrow_is_found() -> None:
    assert reversed_arrows("stats", "from weir_lab.report import build_report") == {"report"}
    assert reversed_arrows("records", "if True:\n    import weir_lab.cli") == {"cli"}
    assert reversed_arrows("analysis", "from weir_lab import plots") == {"plots"}


@pytest.mark.parametrize("module", MODULES)
def test_all_names_are_declared_and_exist(module: str) -> None:
    loaded = importlib.import_module(f"weir_lab.{module}")
    parts = [loaded]
    inner = pkgutil.iter_modules(getattr(loaded, "__path__", []))
    parts += [importlib.import_module(f"weir_lab.{module}.{found.name}") for found in inner]
    for part in parts:
        tree = ast.parse(Path(str(part.__file__)).read_text())
        public = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        }
        assert public <= set(part.__all__), part.__name__
        assert all(hasattr(part, name) for name in part.__all__), part.__name__
        assert ast.get_docstring(tree), part.__name__


def source_of(module: str) -> str:
    """All files of a package are one module here: the arrows are between the first level of names."""
    root = Path(weir_lab.__path__[0])
    files = sorted((root / module).rglob("*.py")) if (root / module).is_dir() else [root / f"{module}.py"]
    return "\n".join(file.read_text().replace("from __future__ import annotations\n", "") for file in files)
