"""Keeps processes on given cores."""

from __future__ import annotations

import os

from weir_lab.bench.network import find_program
from weir_lab.errors import StudyError, TestbedError

__all__ = ["pinned", "require_cores"]


def pinned(cores: tuple[int, ...]) -> list[str]:
    """Words before a command line that keep it on these cores; none for none."""
    if not cores:
        return []
    taskset = find_program("taskset")
    if taskset is None:
        raise TestbedError("taskset is not installed. Install the package util-linux, or leave topology.cores out.")
    return [taskset, "--cpu-list", ",".join(map(str, cores))]


def require_cores(cores: tuple[int, ...], machine: str) -> None:
    """Refuse cores that are not here."""
    absent = sorted(set(cores) - os.sched_getaffinity(0))
    if absent:
        here = sorted(os.sched_getaffinity(0))
        raise StudyError(f"topology.cores: {machine} is pinned to cores {absent}, and this process may use {here}.")
