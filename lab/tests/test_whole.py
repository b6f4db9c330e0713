"""Reports of whole studies from synthetic sweeps: every section says the truth, verify finds what was tampered with, compare what flipped."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synthetic_whole import HEADERS, Truth, write_whole
from weir_lab.errors import ReportError
from weir_lab.whole import Sources, assemble, changes, verify, write_report
from weir_lab.whole.running import take_files
from weir_lab.whole.twin import read_twin

if TYPE_CHECKING:
    from weir_lab.whole.blocks import Report, Section

DATA = Path(__file__).parent / "data" / "whole"


def made(root: Path, truth: Truth | None = None, *, leave_out: tuple[str, ...] = ()) -> Report:
    study_set = take_files(DATA / "small.set.toml", root)
    write_whole(root, study_set, truth or Truth(), leave_out=leave_out)
    return assemble(study_set, Sources(root, root / "studies"), "quick", "netns")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    """One report of a set with every kind of section; tests must not change it."""
    found = made(folder)
    write_report(found, folder)
    return found


def section(report: Report, name: str) -> Section:
    return next(one for one in report.sections if one.name == name)


def test_smoke(report: Report, folder: Path) -> None:
    for one in report.sections:
        print(one.name, one.missing)
    assert not any(one.missing for one in report.sections)
