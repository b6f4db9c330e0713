"""Where and with what the runs were made."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.harness.processes import ROOT, program

from .subjects import newest_memcached


def facts(weir: Path) -> dict[str, str | int]:
    return {
        "cpu": first_value(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "virtual_machine": "yes" if "hypervisor" in (first_value(Path("/proc/cpuinfo"), "flags") or "") else "no",
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "distribution": first_value(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"'),
        "weir": said([str(weir), "--version"]),
        "weir_sha256": hashlib.sha256(weir.read_bytes()).hexdigest(),
        "weir_commit": said(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]),
        "rustc": said(["rustc", "--version"]),
        "memcached": said([program("memcached"), "--version"]),
        "memcached_new": said([newest, "--version"]) if (newest := newest_memcached()) else "none",
        "nutcracker": said([program("nutcracker"), "--version"]),
        "haproxy": installed("haproxy", "-v"),
        "stunnel": installed("stunnel4", "-version"),
        "openssl": installed("openssl", "version"),
        "python": platform.python_version(),
    }


def installed(name: str, question: str) -> str:
    """What a program says that only some benchmarks need."""
    try:
        return said([program(name), question])
    except FileNotFoundError:
        return "none"


def said(command: Sequence[str]) -> str:
    """The first line with a number that a program says about itself, on whichever stream; `none` if it is not there."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return next((line for line in lines if any(map(str.isdigit, line))), "unknown")


def first_value(path: Path, key: str, separator: str = ":") -> str:
    for line in path.read_text(errors="replace").splitlines():
        name, _, value = line.partition(separator)
        if name.strip() == key:
            return value.strip()
    return ""
