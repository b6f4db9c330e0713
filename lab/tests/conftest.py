from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from synthetic import write_sweep

if TYPE_CHECKING:
    from pathlib import Path


# A check of a submission tries the same examples each time; at a desk they are new each time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Started in the background of a script, this process may have been told to ignore interrupts, and its children would be too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole synthetic sweep without faults; tests must not change it."""
    folder = tmp_path_factory.mktemp("sweep") / "tiny"
    write_sweep(folder)
    return folder
