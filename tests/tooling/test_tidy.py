"""The tidy check accepts a clean tree and names each kind of slip."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import RunScript

CLEAN = {
    "README.md": "# Name\n",
    "ARCHITECTURE.md": "# Name\n",
    "CONTRIBUTING.md": "# Name\n",
    "CHANGELOG.md": "# Name\n",
    "LICENSE": "text\n",
    "Makefile": "all:\n\ttrue\n",
    "crates/a/src/lib.rs": "//! What it does.\n",
}


def tree(folder: Path, changes: dict[str, str | None]) -> Path:
    for name, text in (CLEAN | changes).items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def test_clean_tree_passes(run_script: RunScript, tmp_path: Path) -> None:
    done = run_script("tidy", tree(tmp_path, {}))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("CHANGELOG.md", None, "CHANGELOG.md: missing"),
        ("crates/a/src/lib.rs", "fn a() {}\n", "crates/a/src/lib.rs:1: opens without"),
        ("crates/a/src/b.rs", "fn b() {} \n", "crates/a/src/b.rs:1: white space"),
        ("crates/a/src/b.rs", "fn b() {\n\t}\n", "crates/a/src/b.rs:2: a tab"),
        ("crates/a/src/b.rs", "fn b() {}", "crates/a/src/b.rs: the last line does not end"),
        ("crates/a/src/b.rs", "//\n" * 701, "crates/a/src/b.rs: 701 lines"),
        ("lab/a.py", "#\n" * 701, "lab/a.py: 701 lines"),
        ("docs/a.md", "see /" + "home/someone/notes\n", "docs/a.md:1: a path in somebody's home folder"),
        (
            "crates/proxy/src/a.rs",
            "fn a() {\n    thread::spawn(b);\n}\n",
            "crates/proxy/src/a.rs:2: a thread whose end",
        ),
    ],
)
def test_slip_fails(run_script: RunScript, tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    done = run_script("tidy", tree(tmp_path, {name: text}))
    assert done.returncode == 1
    assert f"tidy: {problem}" in done.stderr


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("crates/proxy/src/a.rs", "#[cfg(test)]\nmod tests {\n"),
        ("crates/proxy/src/process/threads.rs", "mod tests {\n"),
        ("crates/load/src/a.rs", "mod tests {\n"),
    ],
)
def test_a_thread_may_begin_where_it_need_not_be_watched(
    run_script: RunScript, tmp_path: Path, name: str, before: str
) -> None:
    done = run_script("tidy", tree(tmp_path, {name: before + "    thread::spawn(b);\n}\n"}))
    assert (done.returncode, done.stderr) == (0, "")


def test_long_file_is_watched_first(run_script: RunScript, tmp_path: Path) -> None:
    done = run_script("tidy", tree(tmp_path, {"lab/a.py": "#\n" * 401}))
    assert done.returncode == 0
    assert "tidy: warning: lab/a.py: 401 lines" in done.stdout


def test_ignored_files_are_not_read(run_script: RunScript, tmp_path: Path) -> None:
    done = run_script("tidy", tree(tmp_path, {".gitignore": "/target/\n", "target/b.rs": "\t\n"}))
    assert done.returncode == 0
