"""What this machine has of what namespaces with links need. Each thing is tried, not looked up."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.network.commands import find_program, ip, tc
from weir_lab.bench.network.namespaces import remove_namespace
from weir_lab.bench.network.owners import this_process
from weir_lab.bench.network.quotas import CpuQuota, find_cpu_groups, in_outermost_group
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Facility", "Kernel", "probe"]

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux"}


@dataclass(frozen=True)
class Facility:
    """One thing that was tried."""

    name: str
    needed: bool
    """Whether there is no network without it."""
    there: bool
    words: str
    """What was seen, or what is missing and what to do."""


@dataclass(frozen=True)
class Kernel:
    """All that was tried."""

    facilities: list[Facility]

    def has(self, name: str) -> bool:
        """Whether a facility is there."""
        return any(facility.there for facility in self.facilities if facility.name == name)

    def words(self, name: str) -> str:
        """What was seen of it."""
        return next((facility.words for facility in self.facilities if facility.name == name), "not tried")

    @property
    def missing(self) -> list[str]:
        """What is needed and not there, each with a remedy."""
        return [facility.words for facility in self.facilities if facility.needed and not facility.there]


def probe() -> Kernel:
    """Try everything; leaves nothing behind."""
    found = [_root(), *(_program(name) for name in _PACKAGES)]
    if all(facility.there for facility in found):
        found += _kernel_parts()
        found += [_quota(), _real_time()]
    return Kernel(found)


def _root() -> Facility:
    there = os.geteuid() == 0
    words = "runs as root" if there else "not root: only root makes namespaces; run the same command with sudo"
    return Facility("root", needed=True, there=there, words=words)


def _program(name: str) -> Facility:
    path = find_program(name)
    words = path or f"{name} is not installed: install the package {_PACKAGES[name]}, or run scripts/setup"
    return Facility(name, needed=True, there=path is not None, words=words)


def _kernel_parts() -> list[Facility]:
    owner = this_process()
    one, two = owner.name("one"), owner.name("two")
    shaped = ["-n", one, "qdisc", "replace", "dev", "eth0", "root"]
    bucket = ["tbf", "rate", "100mbit", "burst", "50000", "limit", "1000000"]

    def namespaces() -> None:
        ip("netns", "add", one)
        ip("netns", "add", two)

    tries: list[tuple[str, bool, str, Callable[[], object]]] = [
        ("namespaces", True, "CONFIG_NET_NS", namespaces),
        ("veth", True, "CONFIG_VETH", lambda: _veth(one, two)),
        ("bridge", True, "CONFIG_BRIDGE", lambda: ip("-n", two, "link", "add", "bridge", "type", "bridge")),
        ("token bucket", True, "CONFIG_NET_SCH_TBF", lambda: tc(*shaped, *bucket)),
        ("netem", False, "CONFIG_NET_SCH_NETEM", lambda: tc(*shaped, "netem", "delay", "1ms")),
    ]
    try:
        return [_tried(name, needed, option, action) for name, needed, option, action in tries]
    finally:
        for namespace in (one, two):
            with contextlib.suppress(TestbedError):
                remove_namespace(namespace)


def _veth(one: str, two: str) -> None:
    ip("link", "add", "eth0", "netns", one, "type", "veth", "peer", "peer", "netns", two)


def _tried(name: str, needed: bool, option: str, action: Callable[[], object]) -> Facility:
    try:
        action()
    except TestbedError as error:
        said = str(error).partition(" was refused: ")[2].partition(". `weir-lab")[0] or str(error)
        words = f"the kernel has no {name} ({said}); it needs {option}"
        return Facility(name, needed, there=False, words=words)
    return Facility(name, needed, there=True, words="works")


def _real_time() -> Facility:
    """As the delay device tries it: at its start, and once more outside of the control group that we are in."""
    argv = [sys.executable, "-I", "-S", "-c", "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"]
    refused = ""
    for enter, words in (([], "works"), (in_outermost_group(), "works in the outermost control group")):
        done = subprocess.run([*enter, *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Facility("real time", needed=False, there=True, words=words)
        refused = done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}"
    remedy = (
        "the delay device is late where cores are full: run outside of a container, or as a service with CAP_SYS_NICE"
    )
    return Facility("real time", needed=False, there=False, words=f"no real-time priority ({refused}): {remedy}")


def _quota() -> Facility:
    groups = find_cpu_groups()
    if isinstance(groups, str):
        return Facility("CPU quota", needed=False, there=False, words=groups)
    try:
        with CpuQuota(groups, this_process(), "probe", 0.5) as quota:
            quota.throttling()
    except TestbedError as error:
        return Facility("CPU quota", needed=False, there=False, words=str(error))
    return Facility("CPU quota", needed=False, there=True, words=f"control groups, version {groups.version}")
