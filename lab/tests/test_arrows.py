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
    {"histogram", "design", "stats", "laws", "processes", "machine"},
    {"formats", "units"},
    {"records"},
    {"verdict", "analysis", "testbed"},
    {"findings", "plots", "essence", "run"},
    {"report"},
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
    return imports_of(source) - allowed


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
    tree = ast.parse(source_of(module))
    loaded = importlib.import_module(f"weir_lab.{module}")
    public = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert public <= set(loaded.__all__)
    assert all(hasattr(loaded, name) for name in loaded.__all__)
    assert ast.get_docstring(tree)


def source_of(module: str) -> str:
    return (Path(weir_lab.__path__[0]) / f"{module}.py").read_text()
