"""What is packed: the version, the commit and the time of a tree, and the machines that there are packages for."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path


class PackingError(Exception):
    """Why a package was not made, and what to do."""


@dataclass(frozen=True)
class Machine:
    """A kind of machine by its names: Debian's and the image's, that of the compiler, that of a wheel; its linker."""

    name: str
    triple: str
    wheel: str
    linker: str


MACHINES = {
    "amd64": Machine("amd64", "x86_64-unknown-linux-gnu", "x86_64", "x86_64-linux-gnu-gcc"),
    "arm64": Machine("arm64", "aarch64-unknown-linux-gnu", "aarch64", "aarch64-linux-gnu-gcc"),
}


@dataclass(frozen=True)
class Tree:
    """A clone, or a copy of one without its history."""

    root: Path
    version: str
    commit: str
    epoch: int
    """Seconds since 1970: that of the commit, unless SOURCE_DATE_EPOCH says another."""


def read_tree(root: Path) -> Tree:
    """Outside of a repository WEIR_COMMIT and SOURCE_DATE_EPOCH have to be given."""
    commit, epoch = os.environ.get("WEIR_COMMIT") or _commit(root), os.environ.get("SOURCE_DATE_EPOCH") or _time(root)
    if not commit or not epoch:
        raise PackingError("this is no git repository: set WEIR_COMMIT and SOURCE_DATE_EPOCH")
    return Tree(root, version_of(root), commit, int(epoch))


def version_of(root: Path) -> str:
    """The version of the programs, which has to be that of the laboratory."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    version: str = manifest["workspace"]["package"]["version"]
    of_lab = re.search(r'^__version__ = "(.+)"$', (root / "lab/src/weir_lab/__init__.py").read_text(), re.MULTILINE)
    if of_lab is None or of_lab[1] != version:
        raise PackingError(f"Cargo.toml has version {version}, lab/src/weir_lab/__init__.py another: make them equal")
    return version


def _commit(root: Path) -> str:
    """As crates/weir/build.rs finds it."""
    commit = git(root, "rev-parse", "--short=12", "HEAD")
    changed = git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if commit and changed else commit


def _time(root: Path) -> str:
    return git(root, "log", "-1", "--format=%ct")


def git(root: Path, *words: str) -> str:
    """What git says; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def call(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Runs a program to its end. What it says on standard error is shown as it comes."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise PackingError(f"{words[0]} cannot be started ({error.strerror}): scripts/setup packages") from error
    if done.returncode != 0:
        raise PackingError(f"status {done.returncode} from: {' '.join(words)}\n{done.stdout}".rstrip())
    return done.stdout
