"""Static programs: cargo builds them with musl, for any Linux of their machine, without a path of the builder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from packing.tree import Machine, PackingError, Tree, call

# Variables by which a builder's own settings would come into the programs.
LEFT_OUT = {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"}


@dataclass(frozen=True)
class Programs:
    """Where the programs of a machine are."""

    weir: Path
    delay: Path


def can_build_for(machine: Machine, root: Path) -> bool:
    """Whether the compiler has the standard library of that machine."""
    folder = call(["rustc", "--print", "target-libdir", "--target", machine.triple], root).strip()
    return any(Path(folder).glob("libstd-*.rlib"))


def build(tree: Tree, machine: Machine, target: Path) -> Programs:
    """Builds into a folder of cargo's."""
    flags = [word for old, new in _paths(tree, target) for word in ("--remap-path-prefix", f"{old}={new}")]
    linker = f"CARGO_TARGET_{machine.triple.upper().replace('-', '_')}_LINKER"
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT} | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "SOURCE_DATE_EPOCH": str(tree.epoch),
        "WEIR_COMMIT": tree.commit,
        # The compiler's own, which links for every machine.
        linker: "rust-lld",
    }
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--package", "weir", "--package", "weir-delay"]
    call([*command, "--target", machine.triple, "--target-dir", target], tree.root, environment)
    made = target / machine.triple / "release"
    programs = Programs(made / "weir", made / "weir-delay")
    _look_for_paths(programs, tree)
    return programs


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


def _look_for_paths(programs: Programs, tree: Tree) -> None:
    for program in (programs.weir, programs.delay):
        content = program.read_bytes()
        for folder in (tree.root, _cargo_home()):
            if f"{folder}/".encode() in content:
                raise PackingError(f"{program} has the path {folder} in it: packing/programs.py should take it out")
