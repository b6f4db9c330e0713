"""The check of links accepts the repository and names each link that leads nowhere. No link of the book leaves it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import ROOT

from .conftest import RunScript

Check = Callable[[dict[str, str]], tuple[int, list[str]]]

RIGHT = {
    "README.md": "# Title\n\n[book](docs/index.md), [folder](docs/operate), ![picture](docs/figures/a.svg)\n",
    "docs/SUMMARY.md": "# Summary\n\n[About](index.md)\n\n- [Run](operate/run.md)\n",
    "docs/index.md": "# About\n\n[Run it](operate/run.md#the-log).\n",
    "docs/operate/run.md": "# Run\n\n## The log\n\n[back](../index.md#about), [home](../../README.md#title)\n",
    "docs/figures/a.svg": "<svg/>\n",
    "docs/gallery/README.md": "# Gallery\n",
}


@pytest.fixture
def check(run_script: RunScript, tmp_path: Path) -> Check:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def run(files: dict[str, str]) -> tuple[int, list[str]]:
        for name, text in (RIGHT | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        done = run_script("check-links", tmp_path)
        return done.returncode, done.stderr.splitlines()

    return run


def test_repository_passes(run_script: RunScript) -> None:
    done = run_script("check-links")
    assert (done.returncode, done.stderr) == (0, "")


def index(text: str) -> dict[str, str]:
    return {"docs/index.md": f"# About\n\n{text}\n"}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        # Files, by every way to write a link.
        (index("[a](b.md)"), "docs/index.md:3: b.md: there is no such file"),
        (index("one\ntwo [a\nb](operate/b.md 'title')"), "docs/index.md:5: operate/b.md: there is no such file"),
        (index("[a](<b c.md>)"), "docs/index.md:3: b c.md: there is no such file"),
        (index("[a][b]\n\n[b]: c.md"), "docs/index.md:5: c.md: there is no such file"),
        (index("[a][b]"), "docs/index.md:3: [b] is defined nowhere in this file"),
        (index('<a href="b.md">a</a>'), "docs/index.md:3: b.md: there is no such file"),
        (index("![a](figures/b.svg)"), "docs/index.md:3: figures/b.svg: there is no such file"),
        (index("[![a](figures/b.svg)](operate/run.md)"), "docs/index.md:3: figures/b.svg: there is no such file"),
        (index("[a](/docs/operate/run.md)"), "docs/index.md:3: /docs/operate/run.md: begins with a slash"),
        (index("[a]()"), "docs/index.md:3: : a link without a target"),
        ({"README.md": "[a](docs/figures/../b.md)\n"}, "README.md:1: docs/figures/../b.md: there is no such file"),
        # Anchors: of the page itself, of another, in the wrong case, and where GitHub and the book differ.
        (index("[a](#b)"), "docs/index.md:3: #b: docs/index.md has no heading with this anchor"),
        (index("[a](operate/run.md#logs)"), "docs/index.md:3: operate/run.md#logs: docs/operate/run.md has no heading"),
        (index("[a](operate/run.md#The-log)"), "docs/index.md:3: operate/run.md#The-log: docs/operate/run.md has no"),
        (index("[a](#the-log-1)\n\n## The log"), "docs/index.md:3: #the-log-1: docs/index.md has no heading"),
        (
            index("[a](#n²)\n\n## N²"),
            "docs/index.md:3: #n²: docs/index.md has another anchor for this heading on GitHub",
        ),
        (
            index("[a](#n)\n\n## N²"),
            "docs/index.md:3: #n: docs/index.md has another anchor for this heading in the book",
        ),
        # The book.
        ({"docs/operate/b.md": "# B\n"}, "docs/SUMMARY.md: lacks docs/operate/b.md"),
        ({"docs/decisions/0001-b.md": "# 1. B\n"}, "docs/SUMMARY.md: lacks docs/decisions/0001-b.md"),
        ({"docs/decisions/0001-b.md": "# 1. B\n"}, "docs/decisions/README.md: lacks docs/decisions/0001-b.md"),
        ({"docs/SUMMARY.md": RIGHT["docs/SUMMARY.md"] * 2}, "docs/SUMMARY.md: names docs/operate/run.md twice"),
        ({"docs/SUMMARY.md": "[A](b.md)\n"}, "docs/SUMMARY.md:1: b.md: there is no such file"),
        (index("[a](operate/)"), "docs/index.md:3: operate/: name a page: the book has no folders"),
        (index("[a](SUMMARY.md)"), "docs/index.md:3: SUMMARY.md: the book has no page of its contents"),
        (index("![a](../picture.svg)") | {"picture.svg": ""}, "docs/index.md:3: ../picture.svg: the book has pictures"),
        # Names of pages in code, help and errors.
        ({"crates/a/src/b.rs": '// x\n"see docs/b.md"\n'}, "crates/a/src/b.rs:2: names docs/b.md, which is not there"),
        ({"lab/a.py": "# docs/operate/run.md#x\n"}, "lab/a.py:1: names docs/operate/run.md#x: docs/operate/run.md has"),
        ({"scripts/a": "echo docs/operate/ran.md\n"}, "scripts/a:1: names docs/operate/ran.md, which is not there"),
        ({"ARCHITECTURE.md": "`docs/operate/ran.md`\n"}, "ARCHITECTURE.md:1: names docs/operate/ran.md, which is not"),
    ],
)
def test_slip_fails(check: Check, files: dict[str, str], problem: str) -> None:
    status, problems = check(files)
    assert status == 1
    assert [line for line in problems if line.startswith(f"links: {problem}")], problems


def test_a_tree_without_a_table_of_contents_fails(check: Check, tmp_path: Path, run_script: RunScript) -> None:
    check({})
    (tmp_path / "docs/SUMMARY.md").unlink()
    done = run_script("check-links", tmp_path)
    assert done.returncode == 1
    assert "links: docs/SUMMARY.md: is missing" in done.stderr


@pytest.mark.parametrize(
    "files",
    [
        {},
        # Code shows links, and is none.
        index("`[a](b.md)` and ``[a` ](b.md)``\n\n```\n[a](b.md)\n```\n\n- item\n\n  ```\n  [a](b.md)\n  ```"),
        index("<!-- [a](b.md) -->"),
        index("[a](https://example.org/b.md), <https://example.org/#c>, [b](mailto:a@example.org)"),
        # Anchors of headings with code, links and signs; of the second one of a name; of an element; of lines of code.
        index(
            "[a](#weir-load---rate) [b](#is-b-faster-than-a)\n\n## `weir load --rate`\n\n"
            "## Is *B* faster than [A](#b)?\n\n## B"
        ),
        index("[a](#the-log-1)\n\n## The log\n\n## The log"),
        index('[a](#under) [b](#here)\n\nUnder\n-----\n\n<a id="here"></a>\n'),
        index("[a](../lab/a.py#L3)") | {"lab/a.py": ""},
        index("[a](#two-words-and-a-third)\n\n## Two words, and a third\n\n```\n# no heading\n```"),
        # A name with blanks, and one with brackets.
        index("[a](<operate/a b.csv>) [b](operate/a%20b.csv) [c](operate/a(b).csv)")
        | {"docs/operate/a b.csv": "", "docs/operate/a(b).csv": ""},
        # A place holder, a name in another tree, and records.
        {"scripts/a": "docs/figures/FILE.svg and other/docs/b.md\n", "bench/runs/a/README.md": "[a](b.md) docs/b.md\n"},
    ],
)
def test_what_leads_somewhere_passes(check: Check, files: dict[str, str]) -> None:
    assert check(files) == (0, [])


def book_of(content: str) -> dict[str, Any]:
    below = {"Chapter": {"path": "operate/run.md", "content": content, "sub_items": []}}
    return {"items": [{"PartTitle": "Operate"}, {"Chapter": {"path": None, "content": "", "sub_items": [below]}}]}


@pytest.mark.parametrize(
    ("page", "in_book"),
    [
        ("[its run](../../bench/runs/a/README.md) ends", "its run (`bench/runs/a/README.md`) ends"),
        ("[a\nb](../../README.md#use-it)", "a\nb (`README.md`)"),
        ("[`bench/a`](../../bench/a)", "`bench/a`"),
        ("[limits](limits.md) [start](../index.md#a) [here](#b)", None),
        ("[there](https://example.org/README.md) ![picture](../figures/a.svg)", None),
        ("`[a](../../b.md)`\n\n```\n[a](../../b.md)\n```", None),
    ],
)
def test_links_that_leave_the_book_become_names(page: str, in_book: str | None) -> None:
    command = [sys.executable, str(ROOT / "scripts/book-links")]
    asked = json.dumps([{"root": "/"}, book_of(page)])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == book_of(page if in_book is None else in_book)


def test_the_book_is_supported_for_every_renderer() -> None:
    command = [sys.executable, str(ROOT / "scripts/book-links"), "supports", "html"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
