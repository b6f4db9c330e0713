"""What tests with real namespaces share. They need root and a kernel with the parts that `probe` tries."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from weir_lab.bench.network import find_cpu_groups, probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KERNEL = probe()
GROUPS = find_cpu_groups()
NAMESPACES = Path("/run/netns")

needs_network = pytest.mark.skipif(bool(KERNEL.missing), reason="needs namespaces: " + "; ".join(KERNEL.missing))
needs_quota = pytest.mark.skipif(not KERNEL.has("CPU quota"), reason=f"needs CPU quotas: {KERNEL.words('CPU quota')}")


LAB_STARTS_S = 120.0
"""A whole lab that starts, makes a testbed, measures it and begins a run is many processes one after the other."""


def eventually(condition: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end, however the end comes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def left_by(pid: int) -> list[str]:
    """Names of namespaces and control groups that belong to a process number."""
    places = [NAMESPACES] if NAMESPACES.is_dir() else []
    if not isinstance(GROUPS, str):
        places.append(GROUPS.folder)
    return sorted(found.name for place in places for found in place.glob(f"weir-{pid}-*"))


def runs(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
