"""scripts/release sees what is missing for a release, and writes the notes of one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.harness.processes import ROOT

CHANGELOG = """# Changelog

## Unreleased

## 1.3.0 - 2027-01-02

### Added

- A thing.

## 1.2.0 - 2026-12-01

- Another.
"""


@pytest.fixture(scope="module")
def release() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "scripts" / "release"))
    spec = importlib.util.spec_from_loader("release", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "Cargo.toml": '[workspace.package]\nversion = "1.3.0"\n',
        "lab/src/weir_lab/__init__.py": '__version__ = "1.3.0"\n',
        "deploy/helm/weir/Chart.yaml": 'version: 0.1.0\nappVersion: "1.3.0"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_equal_versions_and_a_section_are_a_release(release: ModuleType, tree: Path) -> None:
    assert release.problems(tree, CHANGELOG) == []


def test_this_tree_has_one_version(release: ModuleType) -> None:
    assert len({release.version_in(name, ROOT) for name in release.VERSIONS}) == 1


def test_all_that_is_missing_is_named_at_once(release: ModuleType, tree: Path) -> None:
    (tree / "lab/src/weir_lab/__init__.py").write_text('__version__ = "1.2.0"\n')
    changelog = CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- Not yet moved.\n").replace("1.3.0", "1.4.0")
    assert release.problems(tree, changelog) == [
        "lab/src/weir_lab/__init__.py has version 1.2.0, Cargo.toml 1.3.0",
        "CHANGELOG.md has no section '## 1.3.0 - YEAR-MONTH-DAY'",
        "CHANGELOG.md still has something under Unreleased: move it to 1.3.0",
    ]


def test_notes_are_the_section_and_the_packages(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "weir-1.3.0-linux-amd64").write_bytes(b"x" * 5_700_000)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  weir-1.3.0-linux-amd64\n")
    notes = release.notes_of(CHANGELOG, "1.3.0", tmp_path)
    assert notes.startswith("# Weir 1.3.0\n\n### Added\n\n- A thing.\n\n## Packages\n")
    assert f"| weir-1.3.0-linux-amd64 | 5.70 MB | `{'0' * 64}` |" in notes
    assert "Another" not in notes
