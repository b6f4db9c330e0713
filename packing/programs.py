"""The static program: cargo builds it with glibc in it, for any Linux of its machine, without a path of the builder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from packing.tree import Machine, PackingError, Tree, call

# Variables by which a builder's own settings would come into the program.
LEFT_OUT = {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"}


def can_build_for(machine: Machine, root: Path) -> bool:
    """Whether there are the standard library, a linker and a C library to link statically for that machine."""
    folder = call(["rustc", "--print", "target-libdir", "--target", machine.triple], root).strip()
    if not any(Path(folder).glob("libstd-*.rlib")) or shutil.which(machine.linker) is None:
        return False
    # A name without a folder means that the linker does not know it.
    return call([machine.linker, "-print-file-name=libc.a"], root).strip() != "libc.a"


def build(tree: Tree, machine: Machine, target: Path, name: str = "weir") -> Path:
    """Builds one program into a folder of cargo's. Each is built by itself: what another needs would change it."""
    flags = ["-C", "target-feature=+crt-static"]
    flags += [word for old, new in _paths(tree, target) for word in ("--remap-path-prefix", f"{old}={new}")]
    linker = f"CARGO_TARGET_{machine.triple.upper().replace('-', '_')}_LINKER"
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT} | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "SOURCE_DATE_EPOCH": str(tree.epoch),
        "WEIR_COMMIT": tree.commit,
        linker: machine.linker,
    }
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--package", name]
    call([*command, "--target", machine.triple, "--target-dir", target], tree.root, environment)
    program = target / machine.triple / "release" / name
    look_for_paths(program, tree)
    return program


def _paths(tree: Tree, target: Path) -> list[tuple[str, str]]:
    """Folders of this machine and what stands for them. Of those that fit, the compiler takes the last."""
    sysroot = call(["rustc", "--print", "sysroot"], tree.root).strip()
    said = call(["rustc", "-vV"], tree.root).splitlines()
    commit = next(line.removeprefix("commit-hash: ") for line in said if line.startswith("commit-hash: "))
    return [
        (str(_cargo_home()), "/cargo"),
        # As if the component rust-src were not installed.
        (f"{sysroot}/lib/rustlib/src/rust", f"/rustc/{commit}"),
        (str(tree.root), "/weir"),
        (str(target), "/weir/target"),
    ]


def _cargo_home() -> Path:
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def look_for_paths(program: Path, tree: Tree) -> None:
    """Fails where a folder of the builder has got into a program."""
    content = program.read_bytes()
    for folder in (tree.root, _cargo_home()):
        if f"{folder}/".encode() in content:
            raise PackingError(f"{program} has the path {folder} in it: packing/programs.py should take it out")
