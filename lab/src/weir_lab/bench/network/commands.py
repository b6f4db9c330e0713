"""Calls of ``ip`` and ``tc``; what they refuse becomes a `TestbedError` with their words."""

from __future__ import annotations

import os
import shutil
import subprocess

from weir_lab.errors import TestbedError

__all__ = ["find_program", "ip", "ip_batch", "tc"]

_LIMIT_S = 30.0


def ip(*arguments: str) -> str:
    """One call of ``ip``; its output."""
    return _call(["ip", *arguments])


def ip_batch(arguments: list[str], lines: list[str]) -> None:
    """Many calls of ``ip`` in one; the first that fails ends it."""
    _call(["ip", *arguments, "-batch", "-"], "\n".join(lines) + "\n")


def tc(*arguments: str) -> str:
    """One call of ``tc``; its output."""
    return _call(["tc", *arguments])


def find_program(name: str) -> str | None:
    """Where a program is; Debian keeps some in folders that are not on every user's PATH."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(["/usr/sbin", "/sbin"]))


def _call(argv: list[str], given: str | None = None) -> str:
    program = find_program(argv[0])
    if program is None:
        raise TestbedError(f"{argv[0]} is not installed. Install the package iproute2, or run scripts/setup.")
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise TestbedError(f"{' '.join(argv)} failed: {error}.") from error
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"status {done.returncode}"
        asked = f" with {given.splitlines()}" if given else ""
        raise TestbedError(
            f"{' '.join(argv)}{asked} was refused: {words}. `weir-lab testbeds` shows what this machine can do."
        )
    return done.stdout
