"""Imports go one way, packages stay small, theory stands alone, __all__ is complete, every module says what it is for."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir_lab

if TYPE_CHECKING:
    from collections.abc import Callable

# A package may import those that are named before it, and itself.
PACKAGES = ["errors", "theory", "design", "records", "bench", "report", "cli"]
# More in one folder than a reader keeps in mind. A package that grows beyond is parted by reason to change.
CHILDREN_MAX = 10
# Beside the standard library. Whoever wants the models alone must not have to install what draws, serves or parses.
THEORY_NEEDS = {"numpy", "scipy"}


def modules_of(root: Path) -> dict[str, str]:
    """Sources by dotted name below `weir_lab`; a package's own file has the package's name."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text(encoding="utf-8")
    return found


SOURCES = modules_of(Path(weir_lab.__path__[0]))


@functools.cache  # every rule asks for the imports of every module
def imports_of(source: str) -> frozenset[str]:
    """Dotted names of all modules that are imported, with what is imported from them: it may be a module, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they go"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def own_imports(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each module the modules of the laboratory that it imports."""
    arrows: dict[str, set[str]] = {}
    for name, source in sources.items():
        inside = {one.removeprefix("weir_lab.") for one in imports_of(source) if one.startswith("weir_lab.")}
        arrows[name] = {found for one in inside if (found := _module(one, sources))} - {name}
    return arrows


def _module(dotted: str, sources: dict[str, str]) -> str:
    """The longest beginning that is a module: the rest are names in it."""
    while dotted and dotted not in sources:
        dotted = dotted.rpartition(".")[0]
    return dotted


def upward(sources: dict[str, str]) -> list[str]:
    """Imports of a package that comes later in `PACKAGES`."""
    return [
        f"{name} imports {other}"
        for name, others in own_imports(sources).items()
        for other in sorted(others)
        if name and PACKAGES.index(other.split(".")[0]) > PACKAGES.index(name.split(".")[0])
    ]


def circles(sources: dict[str, str]) -> list[str]:
    """Packages whose modules or subpackages import each other in a circle. What a package offers outside is not for its own modules."""
    found = []
    arrows = own_imports(sources)
    for package in packages_of(sources):
        head = f"{package}." if package else ""
        between: dict[str, set[str]] = {}
        for name, others in arrows.items():
            if not name.startswith(head) or name == package:
                continue
            child = name[len(head) :].split(".")[0]
            if package and package in others:
                found.append(f"{name} imports its own package {package}")
            inner = {other[len(head) :].split(".")[0] for other in others if other.startswith(head)}
            between.setdefault(child, set()).update(inner - {child, ""})
        try:
            TopologicalSorter(between).prepare()
        except CycleError as error:
            found.append(f"{package or 'weir_lab'}: {' -> '.join(reversed(error.args[1]))}")
    return found


def packages_of(sources: dict[str, str]) -> list[str]:
    """All names that have modules below them, the whole (an empty name) first."""
    return sorted(
        {".".join(name.split(".")[:depth]) for name in sources if name for depth in range(name.count(".") + 1)}
    )


def children_of(package: str, sources: dict[str, str]) -> set[str]:
    head = f"{package}." if package else ""
    return {name[len(head) :].split(".")[0] for name in sources if name.startswith(head) and name != package}


def crowded(sources: dict[str, str]) -> list[str]:
    """Packages with more modules and subpackages than `CHILDREN_MAX`."""
    counts = {package: len(children_of(package, sources)) for package in packages_of(sources)}
    return [f"{package or 'weir_lab'} has {count}" for package, count in counts.items() if count > CHILDREN_MAX]


def foreign_to_theory(sources: dict[str, str]) -> list[str]:
    """What theory imports that others would have to install with it."""
    known = THEORY_NEEDS | set(sys.stdlib_module_names) | {"weir_lab"}
    found = [
        f"{name} imports {one}"
        for name, source in sources.items()
        if name.split(".")[0] == "theory"
        for one in sorted(imports_of(source))
        if one.split(".")[0] not in known
    ]
    return found + [
        f"{name} imports {other}"
        for name, others in own_imports(sources).items()
        if name.split(".")[0] == "theory"
        for other in sorted(others)
        if other.split(".")[0] not in {"theory", "errors"}
    ]


def made_to_read(sources: dict[str, str]) -> list[str]:
    """What reports import of the bench: reading results needs nothing that makes them."""
    return [
        f"{name} imports {other}"
        for name, others in own_imports(sources).items()
        if name.split(".")[0] == "report"
        for other in sorted(others)
        if other.split(".")[0] == "bench"
    ]


def second_stacks(sources: dict[str, str]) -> list[str]:
    """Who draws beside `report.page`: another library, or SVG or a page of its own."""
    drawers = {"matplotlib", "plotly", "bokeh", "altair", "seaborn", "pygal"}
    libraries = [
        f"{name} imports {one}"
        for name, source in sources.items()
        for one in sorted(imports_of(source))
        if one.split(".")[0] in drawers
    ]
    own = [
        f"{name} writes {mark}"
        for name, source in sources.items()
        if not name.startswith("report.page")
        for mark in ("<svg", "<html", "<figure")
        if mark in source
    ]
    return libraries + own


def test_the_packages_are_these() -> None:
    assert children_of("", SOURCES) == set(PACKAGES)


def test_packages_import_those_below_only() -> None:
    assert upward(SOURCES) == []


def test_no_package_has_a_circle_inside() -> None:
    assert circles(SOURCES) == []


def test_no_package_has_more_than_ten() -> None:
    assert crowded(SOURCES) == []


def test_theory_stands_alone() -> None:
    assert foreign_to_theory(SOURCES) == []


def test_reports_need_no_bench() -> None:
    assert made_to_read(SOURCES) == []


def test_there_is_one_way_to_draw() -> None:
    assert second_stacks(SOURCES) == []
    templates = [path.name for path in Path(weir_lab.__path__[0]).rglob("*.j2")]
    assert templates == ["report.html.j2"]


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("report.planted", "from weir_lab.bench.machine import facts", made_to_read),
        ("bench.planted", "def late():\n    import matplotlib.pyplot", second_stacks),
        ("report.single.planted", "PICTURE = '<svg>'", second_stacks),
        ("theory.planted", "from weir_lab.report.page import charts", upward),
        ("records.planted", "if True:\n    import weir_lab.cli", upward),
        ("design.planted", "from weir_lab import bench", upward),
        ("theory.planted", "from weir_lab.design import Study", foreign_to_theory),
        ("theory.planted", "def late():\n    import matplotlib.pyplot", foreign_to_theory),
        ("theory.stats.planted", "import typer", foreign_to_theory),
        ("theory.stats._inputs", "from weir_lab.theory.stats.intervals import mean_interval", circles),
        ("theory.stats.intervals", "import weir_lab.theory.fitting.knee", circles),
        ("records.planted", "from weir_lab.records import read_runs", circles),
    ],
)
def test_a_planted_arrow_is_found(module: str, source: str, rule: Callable[[dict[str, str]], list[str]]) -> None:
    found = rule(SOURCES | {module: source})
    assert len(found) == 1
    assert module in found[0] or " -> " in found[0]


def test_a_crowd_is_found() -> None:
    crowd = {f"theory.laws.planted{number}": "" for number in range(8)}
    assert crowded(SOURCES | crowd) == ["theory.laws has 11"]


@pytest.mark.parametrize("module", [name for name in SOURCES if name])
def test_all_names_are_declared_and_exist(module: str) -> None:
    loaded = importlib.import_module(f"weir_lab.{module}")
    tree = ast.parse(SOURCES[module])
    public = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert public <= set(loaded.__all__), module
    assert all(hasattr(loaded, name) for name in loaded.__all__), module
    assert ast.get_docstring(tree), module
