from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from synthetic import write_sweep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole synthetic sweep without faults; tests must not change it."""
    folder = tmp_path_factory.mktemp("sweep") / "tiny"
    write_sweep(folder)
    return folder
