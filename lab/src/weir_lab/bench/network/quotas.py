"""How much CPU a machine has: a control group with a quota, of version 1 or 2.

A quota of 0.2 is a millisecond of CPU time in every five. The period is as short as the kernel takes it, because a group that has used
its quota stands still until the next: with the kernel's usual 100 ms a request could wait for 80. What a group leaves of one period it
may use in the next, where the kernel knows bursts: requests come in groups, and such a group takes longer than a period.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from weir_lab.design.topology import quota_period_s
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from weir_lab.bench.network.owners import Owner

__all__ = ["CpuGroups", "CpuQuota", "IdleGroup", "Throttling", "find_cpu_groups", "in_outermost_group", "remove_group"]

# The kernel takes no quota below a millisecond, and no period above a second.
_QUOTA_US_MIN = 1_000
_PERIOD_US_MAX = 1_000_000
_GONE_S = 10.0


@dataclass(frozen=True)
class CpuGroups:
    """Where control groups with CPU quotas can be made."""

    version: int
    folder: Path


@dataclass(frozen=True)
class Throttling:
    """How often a group met its quota since it was made."""

    periods: int
    """Periods in which the group had something to run."""
    throttled_periods: int
    throttled_ns: int
    """Time for which it stood still although it had something to run, summed over CPUs."""

    def since(self, earlier: Throttling) -> Throttling:
        """The difference."""
        return Throttling(
            self.periods - earlier.periods,
            self.throttled_periods - earlier.throttled_periods,
            self.throttled_ns - earlier.throttled_ns,
        )


def find_cpu_groups(mounts: str | None = None) -> CpuGroups | str:
    """Where quotas can be set, or why they cannot. `mounts` is the text of ``/proc/self/mounts``."""
    text = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    reasons = []
    for line in text.splitlines():
        _device, folder, kind, options, *_rest = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            if os.access(folder, os.W_OK):
                return CpuGroups(1, Path(folder))
            reasons.append(f"{folder} is not ours to write")
        elif kind == "cgroup2":
            reason = _second_version_lacks(Path(folder))
            if reason is None:
                return CpuGroups(2, Path(folder))
            reasons.append(reason)
    return "; ".join(reasons) or "no control groups are mounted"


def _second_version_lacks(folder: Path) -> str | None:
    try:
        if "cpu" not in (folder / "cgroup.controllers").read_text(encoding="ascii").split():
            return f"{folder} does not have the controller cpu"
        if "cpu" not in (folder / "cgroup.subtree_control").read_text(encoding="ascii").split():
            (folder / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
    except OSError as error:
        return f"{folder} does not give the controller cpu to groups in it ({error.strerror})"
    return None


def in_outermost_group(groups: CpuGroups | str | None = None) -> list[str]:
    """Words before a command line that start it in the outermost control group, where we may; the process stays the same one.

    A kernel built with RT_GROUP_SCHED gives real-time priority to that group alone, unless somebody parts it (cgroups(7)), and on many
    machines whoever logs in is in a group below it.
    """
    found = find_cpu_groups() if groups is None else groups
    if isinstance(found, str):
        return []
    return ["/bin/sh", "-c", '{ echo $$ >"$0"; } 2>/dev/null; exec "$@"', str(found.folder / "cgroup.procs")]


class _Group:
    """A control group of an owner, from its making until it is closed."""

    def __init__(self, groups: CpuGroups, owner: Owner, name: str) -> None:
        self._version = groups.version
        self._folder = groups.folder / owner.name(name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what runs in the group and remove it."""
        remove_group(self._folder)

    @property
    def enter(self) -> list[str]:
        """Words before a command line that make it run in the group; the process stays the same one."""
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._folder / "cgroup.procs")]


class CpuQuota(_Group):
    """Context manager: a group whose processes may together use `cpus` CPUs."""

    def __init__(self, groups: CpuGroups, owner: Owner, name: str, cpus: float) -> None:
        super().__init__(groups, owner, name)
        self.cpus = cpus
        self.has_burst = False
        """Whether what is left of a period may be used in the next."""

    def __enter__(self) -> Self:
        period_us = round(1e6 * quota_period_s(self.cpus))
        if period_us > _PERIOD_US_MAX:
            raise TestbedError(f"{self.cpus:g} CPUs are less than a quota can be: give {1e-3:g} or more.")
        quota_us = max(_QUOTA_US_MIN, round(period_us * self.cpus))
        try:
            self._folder.mkdir()
            if self._version == 1:
                (self._folder / "cpu.cfs_period_us").write_text(str(period_us), encoding="ascii")
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
            else:
                (self._folder / "cpu.max").write_text(f"{quota_us} {period_us}", encoding="ascii")
            self.has_burst = self._let_burst(quota_us)
        except OSError as error:
            self.close()
            raise TestbedError(
                f"{self._folder}: a quota of {self.cpus:g} CPUs was refused ({error.strerror}). Run the study without quotas."
            ) from error
        return self

    def _let_burst(self, burst_us: int) -> bool:
        """A burst is a quota at most. Kernels before 5.14 know none, and quotas hold without."""
        file = self._folder / ("cpu.cfs_burst_us" if self._version == 1 else "cpu.max.burst")
        with contextlib.suppress(OSError), file.open("r+", encoding="ascii") as burst:
            burst.write(str(burst_us))
            return True
        return False

    def let_out(self, threads: Iterable[int]) -> None:
        """Threads that work for who measures: they run beside the quota from now on, where the kernel takes single threads (version 1)."""
        if self._version != 1:
            return
        for thread in threads:
            with contextlib.suppress(OSError):  # it may have ended
                (self._folder.parent / "tasks").write_text(str(thread), encoding="ascii")

    def throttling(self) -> Throttling:
        """How often the quota was met so far."""
        try:
            text = (self._folder / "cpu.stat").read_text(encoding="ascii")
            numbers = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
            stood_ns = numbers["throttled_time"] if self._version == 1 else numbers["throttled_usec"] * 1000
            return Throttling(numbers["nr_periods"], numbers["nr_throttled"], stood_ns)
        except (OSError, ValueError, KeyError) as error:
            raise TestbedError(f"{self._folder}/cpu.stat cannot be read ({error}).") from error


class IdleGroup(_Group):
    """Context manager: a group whose processes run only where nobody else wants the core.

    The policy SCHED_IDLE alone does not do that: it says how a task shares with those of its own group. A task of a session of its own is
    in a group of its own (sched(7), autogroup), and that group had as much of a core as the whole group of a role.
    """

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir()
            self._give_way()
        except OSError as error:
            self.close()
            raise TestbedError(
                f"{self._folder}: a group that gives way was refused ({error.strerror}). Leave topology.awake out."
            ) from error
        return self

    def _give_way(self) -> None:
        """Linux 5.15 and later have idle groups; before, a group can have a weight of 2 or 1 beside the 1,024 or 100 of others."""
        if (self._folder / "cpu.idle").exists():
            (self._folder / "cpu.idle").write_text("1", encoding="ascii")
        elif self._version == 1:
            (self._folder / "cpu.shares").write_text("2", encoding="ascii")
        else:
            (self._folder / "cpu.weight").write_text("1", encoding="ascii")


def remove_group(folder: Path) -> None:
    """End what runs in a group and remove it; nothing happens if it is not there."""
    deadline = time.monotonic() + _GONE_S
    while folder.exists():
        inside: list[int] = []
        with contextlib.suppress(OSError):
            inside = [int(pid) for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split()]
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # A group stays until its last process is reaped, which may be somebody else's task.
        with contextlib.suppress(OSError):
            folder.rmdir()
        if time.monotonic() > deadline:
            raise TestbedError(f"{folder} could not be removed within {_GONE_S:g} s; processes in it: {inside}.")
        time.sleep(0.005)
