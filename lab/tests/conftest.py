from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from synthetic import write_sweep

if TYPE_CHECKING:
    from pathlib import Path


# A check of a submission tries the same examples each time; at a desk they are new each time. No test may fail because a machine is
# busy, so examples have no deadline.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Side by side with others (pytest -n), tests that start processes run one after the other: they measure, and they look for free ports.
STARTS_PROCESSES = {
    *(
        "test_finding",
        "test_kill",
        "test_live",
        "test_network",
        "test_open_loops",
        "test_processes",
        "test_run",
        "test_subjects_run",
        "test_sweep",
    ),
    *("test_ab_run", "test_obeyed", "test_skeletons", "test_targets", "test_testbeds", "test_unloaded"),
}

# Tests of these share studies, reports or simulations that take seconds to make: in one process they are made once, not once in each.
SHARES_WHAT_IT_MADE = {
    *("test_devices", "test_expectations", "test_kept", "test_model_pages", "test_open_loop_pages", "test_report"),
    *("test_stories", "test_sweep_commands", "test_whole", "test_whole_beside"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in STARTS_PROCESSES:
            item.add_marker(pytest.mark.xdist_group("processes"))
        elif item.path.stem in SHARES_WHAT_IT_MADE:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


# Started in the background of a script, this process may have been set to ignore interrupts, and its children would be too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole synthetic sweep without faults; tests must not change it."""
    folder = tmp_path_factory.mktemp("sweep") / "tiny"
    write_sweep(folder)
    return folder
