"""What was linked into a program: as CycloneDX, for those who look up vulnerabilities, and with all licences.

Cargo says which crates and versions these are for one machine, with the features that are on. What only the compiler
runs (build scripts, macros) is not in the program, and not here.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packing.archives import sha256
from packing.tree import Machine, PackingError, Tree, call

# Names of files with a licence or a notice, in capitals.
LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


@dataclass(frozen=True)
class Crate:
    """One crate of the program. What is not from crates.io has no checksum: it is Weir's own."""

    name: str
    version: str
    licence: str
    checksum: str | None
    uses: tuple[str, ...]
    folder: Path

    @property
    def reference(self) -> str:
        """Its package URL."""
        return f"pkg:cargo/{self.name}@{self.version}"


def linked_crates(tree: Tree, machine: Machine) -> list[Crate]:
    """The crates of `weir`, by name."""
    shape = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", "--no-dedupe"]
    said = call(
        ["cargo", "tree", "--locked", "--offline", "--package", "weir", "--target", machine.triple, *shape], tree.root
    )
    # NAME vVERSION, and for a crate of the workspace its folder in brackets.
    linked = {(words[0], words[1].removeprefix("v")) for line in said.splitlines() if (words := line.split())}
    known = {(one["name"], one["version"]): one for one in _metadata(tree, machine)["packages"]}
    lock = {(one["name"], one["version"]): one for one in _locked(tree)}
    crates = []
    for name, version in sorted(linked):
        # The lock names a version only where there are several.
        used = {word.split()[0] for word in lock[name, version].get("dependencies", [])}
        crates.append(
            Crate(
                name,
                version,
                # Cargo once wrote it with a slash.
                (known[name, version]["license"] or "NOASSERTION").replace("/", " OR "),
                lock[name, version].get("checksum"),
                tuple(f"pkg:cargo/{other}@{its}" for other, its in sorted(linked) if other in used),
                Path(known[name, version]["manifest_path"]).parent,
            )
        )
    return crates


def cyclonedx(tree: Tree, machine: Machine, crates: Iterable[Crate], program: bytes) -> bytes:
    """A bill of materials, version 1.5 of CycloneDX in JSON."""
    digest = sha256(program)
    crates = list(crates)
    weir = next(crate for crate in crates if crate.name == "weir")
    compiler = call(["rustc", "--version"], tree.root).split()[1]
    libc = re.search(rb"GNU C Library \((.*?)\) stable release version (\d+\.\d+)", program)
    std: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"rust-std@{compiler}",
        "name": "rust-std",
        "version": compiler,
        "description": f"Rust's standard library for {machine.triple}",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }
    glibc: dict[str, Any] = {
        "type": "library",
        "bom-ref": "glibc",
        "name": "glibc",
        "version": libc[2].decode() if libc else "unknown",
        "description": libc[1].decode() if libc else "the C library of the machine that built it",
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'weir:{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(tree.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": weir.reference,
                "name": "weir",
                "version": tree.version,
                "licenses": [{"expression": weir.licence}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [
                    {"name": "weir:commit", "value": tree.commit},
                    {"name": "weir:machine", "value": machine.name},
                ],
            },
        },
        "components": [*(_component(crate) for crate in crates if crate.name != "weir"), std, glibc],
        "dependencies": [{"ref": crate.reference, "dependsOn": list(crate.uses)} for crate in crates],
    }
    return (json.dumps(bill, indent=1, sort_keys=True) + "\n").encode()


def licences(crates: Iterable[Crate]) -> bytes:
    """The texts that crates of others want to be passed on with the program. Equal ones stand once."""
    of_text: dict[str, list[str]] = {}
    without: list[str] = []
    for crate in crates:
        if crate.checksum is None:
            continue
        files = sorted(
            path for path in crate.folder.iterdir() if path.is_file() and path.name.upper().startswith(LICENCE_FILES)
        )
        title = f"{crate.name} {crate.version} ({crate.licence})"
        if not files:
            without.append(title)
        for path in files:
            of_text.setdefault(path.read_text(encoding="utf-8", errors="replace").strip(), []).append(title)
    parts = [
        "What is linked into weir beside its own code, and the licences of it.\n\n"
        "Beside these crates: Rust's standard library (MIT OR Apache-2.0), and the GNU C Library (LGPL-2.1-or-later).\n"
        "Weir's sources and `make packages` link it anew with another version of that library.\n"
    ]
    for text, titles in of_text.items():
        parts.append("\n".join(dict.fromkeys(titles)) + f"\n\n{text}\n")
    if without:
        parts.append("These crates bring no text of their licence:\n\n" + "\n".join(without) + "\n")
    return f"\n{'=' * 80}\n\n".join(parts).encode()


def _component(crate: Crate) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": crate.checksum}] if crate.checksum else []
    return {
        "type": "library",
        "bom-ref": crate.reference,
        "name": crate.name,
        "version": crate.version,
        "purl": crate.reference,
        "licenses": [{"expression": crate.licence}],
        **({"hashes": hashes} if hashes else {}),
    }


def _metadata(tree: Tree, machine: Machine) -> dict[str, Any]:
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    said: dict[str, Any] = json.loads(call([*command, "--filter-platform", machine.triple], tree.root))
    return said


def _locked(tree: Tree) -> list[dict[str, Any]]:
    locked: list[dict[str, Any]] = tomllib.loads((tree.root / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    if not locked:
        raise PackingError("Cargo.lock has no packages")
    return locked
