"""Makes the packages: `make packages`, or `.tools/packing/bin/python -m packing [--machine amd64] [--out FOLDER]`.

Writes into target/packages: per machine the program, a Debian package, an image, a wheel, a list of what is in them,
and SHA256SUMS over all. scripts/setup packages installs what this needs.

With --programs (`make programs`) only what experiments start: weir as it is packed and weir-delay, for this machine, in
target/programs. A commit gives the same bytes in every folder, so a study that was begun on one machine goes on on
another: runs belong to the checksum of their programs.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from pathlib import Path

from packing.archives import sha256
from packing.contents import cyclonedx, licences, linked_crates
from packing.debian import debian_package
from packing.image import image
from packing.programs import build, can_build_for
from packing.tree import MACHINES, Machine, PackingError, Tree, read_tree
from packing.wheel import wheel

ROOT = Path(__file__).resolve().parent.parent
# What weir-lab starts of this repository.
MEASURED = ("weir", "weir-delay")
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")


def main() -> int:
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    parser = argparse.ArgumentParser(prog="packing", description="Make the packages of Weir.")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="only for this one; all without it")
    parser.add_argument("--programs", action="store_true", help="no packages, only what experiments start, for here")
    parser.add_argument("--out", type=Path, help=f"the folder ({target}/packages, or {target}/programs)")
    parser.add_argument("--build", type=Path, default=target / "packing", help="where cargo builds (%(default)s)")
    arguments = parser.parse_args()
    try:
        names = [HERE, *arguments.machine] if arguments.machine else list(MACHINES)
        out = (arguments.out or target / ("programs" if arguments.programs else "packages")).absolute()
        if arguments.programs:
            make_programs(read_tree(ROOT), out, arguments.build.absolute())
        else:
            make(read_tree(ROOT), names, out, arguments.build.absolute())
    except PackingError as error:
        print(f"packing: {error}", file=sys.stderr)
        return 1
    return 0


def make_programs(tree: Tree, out: Path, target: Path) -> None:
    """What experiments start, for this machine, of a tree without changes: records name the commit."""
    machine = MACHINES.get(HERE)
    if machine is None or not can_build_for(machine, tree.root):
        raise PackingError(
            f"nothing can be built for {platform.machine()} here; scripts/setup packages says what is missing"
        )
    if tree.commit.endswith("+changes"):
        raise PackingError("the work tree has changes: commit them, so that records can name what they measured")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    print(f"packing: building {' and '.join(MEASURED)} of {tree.commit}", flush=True)
    for name in MEASURED:
        shutil.copy(build(tree, machine, target, name), out / name)
        (out / name).chmod(0o755)
        print(f"{sha256((out / name).read_bytes())}  {out / name}", flush=True)


def make(tree: Tree, names: list[str], out: Path, target: Path) -> None:
    """Everything of all machines. That of this machine comes first: it prints the man pages of all."""
    machines = [MACHINES[name] for name in sorted(set(names), key=lambda name: name != HERE)]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    printed: Path | None = None
    for machine in machines:
        if not can_build_for(machine, tree.root):
            print(f"packing: NOT made for {machine.name}: {machine.triple} or {machine.linker} is not here")
            continue
        print(f"packing: {machine.name}: building weir {tree.version} ({tree.commit})", flush=True)
        weir = build(tree, machine, target)
        printed = printed or weir
        for path in pack(tree, machine, weir, printed, out):
            print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}", flush=True)
    if printed is None:
        raise PackingError("nothing was made; scripts/setup packages says what is missing")
    made = sorted(path for path in out.iterdir() if path.is_file())
    (out / "SHA256SUMS").write_text("".join(f"{sha256(path.read_bytes())}  {path.name}\n" for path in made))
    print(f"packing: {len(made)} files and SHA256SUMS in {out}")


def pack(tree: Tree, machine: Machine, weir: Path, printed: Path, out: Path) -> list[Path]:
    """All packages of a program that is built."""
    name = f"weir-{tree.version}-linux-{machine.name}"
    crates = linked_crates(tree, machine)
    passed_on = licences(crates)
    bill = cyclonedx(tree, machine, crates, weir.read_bytes())
    plain, listed, texts = out / name, out / f"{name}.cdx.json", out / f"{name}.licences.txt"
    shutil.copy(weir, plain)
    plain.chmod(0o755)
    listed.write_bytes(bill)
    texts.write_bytes(passed_on)
    return [
        plain,
        debian_package(tree, machine, weir, printed, passed_on, bill, out),
        image(tree, machine, weir, out),
        wheel(tree, machine, weir, passed_on, out),
        listed,
        texts,
    ]


if __name__ == "__main__":
    sys.exit(main())
