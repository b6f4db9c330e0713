"""Where clients are fetched and built, and how their programs are run: bounded in time, with their output kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.processes import ROOT

SOURCES = ROOT / "tests" / "clients"
WORKSHOP = ROOT / ".tools" / "clients"

BUILD_LIMIT_S = 900
RUN_LIMIT_S = 180


class Trouble(Exception):  # noqa: N818 (the network's, a toolchain's or a client's)
    """A client could not be fetched, built or run; the text says what to do."""


def call(
    command: Sequence[str | Path],
    *,
    folder: Path = ROOT,
    limit_s: float = RUN_LIMIT_S,
    environment: Mapping[str, str] | None = None,
    may_fail: bool = False,
) -> str:
    """The program's standard output. Its whole process group is killed when the limit is over."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise Trouble(f"{words[0]} is not on PATH; install it, or name the clients to run without it")
    child = subprocess.Popen(
        words,
        cwd=folder,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise Trouble(f"still running after {limit_s} s: {' '.join(words)}") from None
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    if child.returncode != 0 and not may_fail:
        tail = "\n".join((output + errors).splitlines()[-20:])
        raise Trouble(f"exit status {child.returncode} from: {' '.join(words)}\n{tail}")
    return output


def fresh_folder(name: str) -> Path:
    folder = WORKSHOP / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def unchanged(name: str, *inputs: Path) -> bool:
    """Whether `name` was finished from the same inputs before; `finished` says so for the next time."""
    return stamp(name).is_file() and stamp(name).read_text() == digest(inputs)


def finished(name: str, *inputs: Path) -> None:
    stamp(name).write_text(digest(inputs))


def stamp(name: str) -> Path:
    return WORKSHOP / f"{name}.stamp"


def digest(inputs: Sequence[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in inputs)).hexdigest()
