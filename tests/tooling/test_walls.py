"""The check of walls accepts the workspace, and refuses a circle of imports and what else a crate has too much of."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.processes import ROOT

from .conftest import RunScript

CIRCLE = "circle"


@pytest.fixture
def crates(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(ROOT / "crates", tmp_path / "crates", ignore=shutil.ignore_patterns("tests", "benches"))
    )


def found(output: str, crate: str) -> dict[str, int]:
    """What `--show` prints of a crate."""
    row = re.search(rf"^{crate}: Row\((.*)\)$", output, re.MULTILINE)
    assert row is not None, output
    return {name: int(value) for name, value in (pair.split("=") for pair in row[1].split(", "))}


def test_workspace_passes(run_script: RunScript) -> None:
    done = run_script("check-walls")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arrow",
    [
        "use crate::tokens;",
        "use crate::{\n    near::{self, find},\n    tokens::Tokens as Words,\n};",
        "pub fn f() { crate::tokens::g() }",
        "pub fn f() { super::tokens::g() }",
    ],
)
def test_a_new_circle_fails(run_script: RunScript, crates: Path, arrow: str) -> None:
    source = crates / "protocol" / "src"
    before = found(run_script("check-walls", "--show", crates).stdout, "protocol")
    for module in ("number", "near"):
        with (source / f"{module}.rs").open("a") as file:
            file.write(f"\n{arrow}\n")
    with (source / "tokens.rs").open("a") as file:
        file.write("\nuse crate::{number, near, reply, base64_key, door, binary, refusal};\n")
    for module in ("reply", "base64_key", "door", "binary", "refusal"):
        with (source / f"{module}.rs").open("a") as file:
            file.write("\nuse crate::tokens;\n")
    done = run_script("check-walls", "--show", crates)
    assert done.returncode == 1
    assert found(done.stdout, "protocol")[CIRCLE] > before[CIRCLE]
    assert "walls: protocol: circle" in done.stderr


@pytest.mark.parametrize(
    "harmless",
    [
        "// use crate::tokens;",
        '#[cfg(test)]\nmod more { use crate::tokens::{self, *}; fn f() { let _ = "}"; } }',
        'const TEXT: &str = "crate::tokens::Tokens";',
    ],
)
def test_what_is_no_arrow_passes(run_script: RunScript, crates: Path, harmless: str) -> None:
    with (crates / "protocol" / "src" / "near.rs").open("a") as file:
        file.write(f"\n{harmless}\n")
    assert run_script("check-walls", crates).returncode == 0


def test_fields_bools_modules_and_impls_are_counted(run_script: RunScript, crates: Path) -> None:
    source = crates / "dataplane" / "src"
    before = found(run_script("check-walls", "--show", crates).stdout, "dataplane")
    with (source / "fault.rs").open("a") as file:
        file.write(
            "\nstruct More { pub(crate) a: bool, b: bool,\n    /// Of c.\n    c: bool, d: bool }\n"
            "impl crate::Dataplane {}\n"
        )
    with (source / "lib.rs").open("a") as file:
        file.write("\nmod another;\n")
    done = run_script("check-walls", "--show", crates)
    after = found(done.stdout, "dataplane")
    assert {name: after[name] - before[name] for name in after if name != CIRCLE} == {
        "open_fields": 1,
        "wide_structs": 1,
        "side_by_side": 1,
    }
    for problem in ("open fields", "wide structs", "side by side", "files with an impl"):
        assert problem in done.stderr


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("connections/sockets.rs", "use crate::mailbox::Message;", "connections/sockets names mailbox"),
        ("config.rs", "use crate::engine::door::Door;", "config names engine/door"),
        ("attic.rs", "", "attic is in no room"),
    ],
)
def test_an_arrow_to_a_room_above_fails(
    run_script: RunScript, crates: Path, file: str, text: str, problem: str
) -> None:
    with (crates / "proxy" / "src" / file).open("a") as source:
        source.write(f"\n{text}\n")
    done = run_script("check-walls", crates)
    assert done.returncode == 1
    assert f"walls: proxy: {problem}" in done.stderr
