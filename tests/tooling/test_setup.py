"""scripts/setup says what is missing and what to do, instead of failing somewhere in the middle."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import ROOT

# They share the folder of logs.
pytestmark = pytest.mark.xdist_group("setup")


def setup_without(
    folder: Path, *missing: str, part: str = "all", fakes: dict[str, str] | None = None
) -> tuple[int, str]:
    """Runs scripts/setup with every command of this machine but the missing ones; `fakes` are commands of one line."""
    commands = folder / "bin"
    commands.mkdir()
    for name, line in (fakes or {}).items():
        (commands / name).write_text(f"#!/bin/sh\n{line}\n")
        (commands / name).chmod(0o755)
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            link = commands / program.name
            if not program.name.startswith(missing) and not link.exists() and not link.is_symlink():
                link.symlink_to(program)
    # The script looks into /usr/sbin by itself; nothing that is asked for here is there.
    done = subprocess.run(
        ["/bin/bash", str(ROOT / "scripts" / "setup"), part],
        env=os.environ | {"PATH": str(commands)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


NOT_ROOT = {"id": "echo 1000"}


@pytest.mark.parametrize(
    ("missing", "problem", "remedy"),
    [
        ("cargo", "cargo is not on PATH", "rustup"),
        ("python3", "no Python 3.11 or newer with venv", "apt-get install python3 python3-venv"),
        ("cc", "no C linker (cc)", "apt-get install gcc"),
        ("memcached", "not installed: memcached", "apt-get install memcached libmemcached-tools"),
        ("memc", "not installed: memcached memcslap memcaslap memccapable", "sudo apt-get update"),
    ],
)
def test_missing_program_is_named(tmp_path: Path, missing: str, problem: str, remedy: str) -> None:
    status, said = setup_without(tmp_path, missing, fakes=NOT_ROOT)
    assert status == 1
    assert f"setup: {problem}" in said
    assert remedy in said


@pytest.mark.parametrize(
    ("fakes", "problem"),
    [
        ({"rustc": "echo rustc 1.70.0"}, "rustc is 1.70.0; this workspace needs"),
        ({"python3": "exit 1"}, "no Python 3.11 or newer"),
    ],
)
def test_old_toolchain_is_refused(tmp_path: Path, fakes: dict[str, str], problem: str) -> None:
    status, said = setup_without(tmp_path, "python3.", fakes=fakes)
    assert status == 1
    assert f"setup: {problem}" in said


@pytest.mark.parametrize(
    ("missing", "fakes", "problem"),
    [
        (("promtool", "apt-get"), {}, "not installed: promtool"),
        (("promtool",), {"apt-get": "echo no network >&2; exit 100"}, "promtool could not be fetched"),
    ],
)
def test_promtool_is_asked_for_where_it_cannot_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...], fakes: dict[str, str], problem: str
) -> None:
    monkeypatch.setenv("WEIR_TOOLS", str(tmp_path / "tools"))
    status, said = setup_without(tmp_path, *missing, fakes=fakes)
    assert status == 1
    assert f"setup: {problem}" in said
    assert "put promtool on PATH" in said


def test_go_is_asked_for_where_the_tools_of_the_chart_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_TOOLS", str(tmp_path / "tools"))
    status, said = setup_without(tmp_path, "go", part="chart")
    assert status == 1
    assert "setup: go is not on PATH" in said
    assert "install Go 1.26 or newer" in said


def test_programs_that_are_built_beside_the_rest_are_stopped_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    begun = tmp_path / "begun"
    fakes = {
        "cargo": f"echo $$ > {begun}.new; mv {begun}.new {begun}; sleep 300",
        "id": f"until [ -e {begun} ]; do sleep 0.01; done; echo 1000",
    }
    status, said = setup_without(tmp_path, "memcached", part="tools", fakes=fakes)
    assert status == 1
    assert "setup: not installed: memcached" in said
    assert not Path("/proc", begun.read_text().strip()).exists()


def test_unknown_part_is_refused(tmp_path: Path) -> None:
    status, said = setup_without(tmp_path, "memc", part="everything")
    assert status == 1
    assert "unknown part 'everything'" in said


PROGRAM = """
#[inline(never)]
fn which_is_named() {
    panic!("as it should");
}

fn main() {
    which_is_named();
}
"""


def test_a_binary_without_debug_information_finds_it_beside_itself(tmp_path: Path) -> None:
    source, binary = tmp_path / "program.rs", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run(["rustc", "-C", "debuginfo=line-tables-only", "-o", binary, source], check=True, timeout=60)
    whole = binary.stat()

    def separate() -> None:
        command = ["/bin/bash", str(ROOT / "scripts" / "setup"), "separate", str(binary)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def backtrace() -> str:
        environment = os.environ | {"RUST_BACKTRACE": "full"}
        done = subprocess.run([binary], env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 101
        return done.stderr

    separate()
    stripped = binary.stat()
    assert stripped.st_size < whole.st_size / 2
    assert (stripped.st_mtime_ns, stripped.st_mode) == (whole.st_mtime_ns, whole.st_mode)
    debug = tmp_path / "program.debug"
    kept = debug.read_bytes()
    separate()
    assert (binary.stat().st_ino, debug.read_bytes()) == (stripped.st_ino, kept), "it is done once"
    assert "program::which_is_named" in backtrace()
    assert "program.rs:4" in backtrace()
    debug.unlink()
    assert "program::which_is_named" not in backtrace()
