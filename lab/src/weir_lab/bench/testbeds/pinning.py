"""Keeps processes on given cores.

A study counts the cores that the lab may use: 0 is the first of them. On a machine that is all the lab's these are the kernel's numbers;
under ``taskset --cpu-list 4,5`` core 1 is 5, so that several labs share a large machine, each with cores of its own.
"""

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
    here = sorted(os.sched_getaffinity(0))
    return [taskset, "--cpu-list", ",".join(str(here[core]) for core in cores)]


def require_cores(cores: tuple[int, ...], machine: str) -> None:
    """Refuse cores that are not here."""
    count = len(os.sched_getaffinity(0))
    absent = sorted(core for core in set(cores) if core >= count)
    if absent:
        raise StudyError(
            f"topology.cores: {machine} is pinned to cores {absent}, and this process may use {count}, which count from 0."
        )
