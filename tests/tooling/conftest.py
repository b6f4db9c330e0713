"""Runs the repository's own checks as commands, the way `make test` does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.processes import ROOT

RunScript = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_script() -> RunScript:
    def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / name), *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    return run
