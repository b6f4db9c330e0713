"""Facts about this machine and the programs on it, for the record of a run."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "commit_of",
    "describe",
    "executable_output",
    "executable_version",
    "file_sha256",
    "load_average",
    "machine_facts",
    "package_versions",
]

_PACKAGES = ("weir-lab", "numpy", "scipy", "pydantic", "jinja2")


def machine_facts() -> dict[str, str | int | float]:
    """CPU model, cores, memory and kernel: what a reader needs to judge absolute numbers."""
    return {
        "cpu_model": _first_value(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual_machine": "yes" if "hypervisor" in (_first_value(Path("/proc/cpuinfo"), "flags") or "") else "no",
    }


def load_average() -> list[float]:
    """Mean number of runnable processes over the last 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute the numbers."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}


@lru_cache(maxsize=16)
def commit_of(program: Path, version: str = "") -> str:
    """Commit that a program was built from: as its version line says, or that of the checkout that it lies in.

    ``+changes`` stands behind it where tracked files differed; ``unknown`` is a program outside of a checkout.
    """
    said = re.search(r"\((\w+(?:\+changes)?)\)$", version)
    if said and said[1] != "unknown":
        return said[1]
    found = _git(program.parent, "rev-parse", "HEAD")
    if not found:
        return "unknown"
    return f"{found}+changes" if _git(program.parent, "status", "--porcelain", "--untracked-files=no") else found


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10.0, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def executable_version(argv: list[str]) -> str:
    """What a program says about its version, one line; some say it on standard error."""
    printed, aside = _asked(argv)
    said = printed.strip() or aside.strip()
    return said.splitlines()[0] if said else "unknown"


def executable_output(argv: list[str]) -> str:
    """What a program prints when it is asked for its version or its help."""
    return _asked(argv)[0]


def _asked(argv: list[str]) -> tuple[str, str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10.0, check=True)
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]} is not there. Build or install it, or name another.") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise TestbedError(f"{' '.join(argv)} failed: {error}. Run it by hand to see why.") from error
    return done.stdout, done.stderr


def file_sha256(path: Path) -> str:
    """Hash of a file's bytes, hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TestbedError(
            f"{path}: cannot be read ({error.strerror}). Look whether it is there, and its rights."
        ) from error


def describe(facts: Mapping[str, str | int | float]) -> str:
    """One line for headings."""
    return f"{facts['cpu_model']}, {facts['cores']} cores, {facts['memory_mib']} MiB, {facts['kernel']}"


def _first_value(path: Path, key: str) -> str | None:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
