"""The check of words accepts the repository, and names a word, a long sentence and a long line where they stand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import RunScript

RULES = """
[limits]
comments = { sentence = 10, average = 6 }
markdown = { sentence = 12, average = 8, columns = 40 }

[left_out]
paths = ["recorded/"]

[public]
names = ["requests_apart"]

[[word]]
not = "apart"
say = "separate"
except = { "crates/a/src/right.rs" = "here it is right" }

[[word]]
not = "so many"
say = "this many"

[allowed]
"""

Check = Callable[..., tuple[int, list[str]]]

NUMPYDOC = '''def f(a, b):
    """Does it.

    Parameters
    ----------
    a : float
        One two three four.
    b
        One two three four five six.

    >>> f(1, 2) + f(2, 3) + f(3, 4) + f(4, 5) + f(5, 6) + f(6, 7)
    """
'''

SHORT = "/// Has one word.\n"
LONG = "One two three four five six seven eight nine ten eleven."


@pytest.fixture
def check(run_script: RunScript, tmp_path: Path) -> Check:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)

    def run(files: dict[str, str], allowed: str = "", *options: str) -> tuple[int, list[str]]:
        right = {"crates/a/src/right.rs": "// It stands apart.\n"}
        for name, text in ({"scripts/words.toml": RULES + allowed} | right | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        done = run_script("check-words", tmp_path, *options)
        return done.returncode, done.stderr.splitlines()

    return run


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        # A word: in prose, in names of every form, in a string.
        ("crates/a/src/b.rs", "// They are apart.\n", "crates/a/src/b.rs:1: 'apart': say separate"),
        ("crates/a/src/b.rs", "fn a() {}\nfn set_apart() {}\n", "crates/a/src/b.rs:2: 'apart': say separate"),
        ("crates/a/src/b.rs", "struct SetApart;\n", "crates/a/src/b.rs:1: 'apart': say separate"),
        ("lab/b.py", 'TEXT = "they are apart"\n', "lab/b.py:1: 'apart': say separate"),
        ("docs/b.md", "They are apart.\n", "docs/b.md:1: 'apart': say separate"),
        # A turn of several words: in prose, also where the line ends in its middle.
        ("crates/a/src/b.rs", "/// There are so\n/// many bytes.\n", "crates/a/src/b.rs:1: 'so many': say this many"),
        # A sentence: in comments before and behind code, docstrings and Markdown.
        (
            "crates/a/src/b.rs",
            f"{SHORT}/// {LONG}\n",
            "crates/a/src/b.rs:1: a sentence of 11 words (at most 10): One two",
        ),
        ("crates/a/src/b.rs", f"//! {LONG}\n", "crates/a/src/b.rs:1: a sentence of 11 words"),
        ("crates/a/src/b.rs", f"let a = 1; // {LONG}\n", "crates/a/src/b.rs:1: a sentence of 11 words"),
        ("lab/b.py", f'def f():\n    """Does it.\n\n    {LONG}\n    """\n', "lab/b.py:4: a sentence of 11 words"),
        ("lab/b.py", f"# {LONG}\n", "lab/b.py:1: a sentence of 11 words"),
        ("docs/b.md", "- " + "word " * 13 + "\n", "docs/b.md:1: a sentence of 13 words (at most 12)"),
        ("docs/b.md", "Six words are in this sentence. " * 2 + "\n", "docs/b.md:1: a line of 64 columns"),
        (
            "crates/a/src/b.rs",
            "/// One two three four five six seven eight.\n\n" * 8,
            "crates/a/src/b.rs:1: sentences of 8.0",
        ),
    ],
)
def test_slip_fails(check: Check, name: str, text: str, problem: str) -> None:
    status, problems = check({name: text})
    assert status == 1
    assert [line for line in problems if line.startswith(f"words: {problem}")], problems


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recorded/b.md", "apart " * 50),
        ("crates/a/src/b.rs", "counters.requests_apart += 1;\nstruct Apartment;\n"),
        # Code, tables and drawings are no sentences, and their lines cannot be broken.
        ("docs/b.md", "```\n" + "word " * 50 + "\n```\n"),
        ("docs/b.md", "| " + "word " * 50 + "|\n"),
        ("docs/b.md", "[two words](" + "a" * 50 + ")\n"),
        ("crates/a/src/b.rs", "//! ```text\n//! " + "word " * 20 + "\n//! ```\n"),
        ("crates/a/src/b.rs", "//!   one two three ──▶ four five six seven eight nine ten eleven\n"),
        # Code counts as one word, whatever is in it; items of a list are sentences of their own.
        ("crates/a/src/b.rs", "/// One `two three four five six seven eight nine ten eleven`.\n"),
        ("crates/a/src/b.rs", "/// - one two three four five six\n/// - seven eight nine ten eleven\n"),
        # Names in numpydoc's sections are not part of the text below them, and examples are none.
        (
            "lab/b.py",
            NUMPYDOC,
        ),
    ],
)
def test_what_is_no_slip_passes(check: Check, name: str, text: str) -> None:
    assert check({name: text}) == (0, [])


def test_an_allowance_bounds_and_is_lowered(check: Check, tmp_path: Path) -> None:
    twice = {"docs/b.md": "They are apart.\n\nWe are apart.\n"}
    assert check(twice, '"docs/b.md" = { "apart" = 2 }\n') == (0, [])
    status, problems = check(twice, '"docs/b.md" = { "apart" = 1 }\n')
    assert (status, len(problems)) == (1, 2)
    assert "(2 here, 1 allowed)" in problems[0]
    better = {"docs/b.md": "They are apart.\n"}
    assert check(better, '"docs/b.md" = { "apart" = 2 }\n', "--lower") == (0, [])
    assert (tmp_path / "scripts/words.toml").read_text().endswith('[allowed]\n"docs/b.md" = { "apart" = 1 }\n')
    assert check(better, '"docs/b.md" = { "columns" = 1 }\n', "--lower")[0] == 1, "it does not allow more"
    assert (tmp_path / "scripts/words.toml").read_text().endswith("[allowed]\n")


def test_an_exception_that_excepts_nothing_fails(check: Check) -> None:
    status, problems = check({"crates/a/src/right.rs": "// It stands alone.\n"})
    assert (status, len(problems)) == (1, 1)
    assert "the exception of 'apart' for crates/a/src/right.rs excepts nothing" in problems[0]


def test_a_word_of_ours_without_a_row_in_the_glossary_fails(check: Check) -> None:
    rules = RULES.replace('say = "separate"\n', 'say = "separate"\nterms = ["bulk connection", "way"]\n')
    glossary = "| word | meaning |\n|---|---|\n| link, way | between |\n"
    status, problems = check({"scripts/words.toml": rules, "docs/reference/glossary.md": glossary})
    assert (status, len(problems)) == (1, 1)
    assert "docs/reference/glossary.md: has no row for 'bulk connection'" in problems[0]


def test_wrapped_pages_keep_their_words_tables_and_code(run_script: RunScript, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "```\n" + "code " * 40 + "\n```\n"
    table = "| " + "cell " * 40 + "|\n"
    item = "- " + "word `two words` " * 15 + "\n  and the rest\n"
    # Wherever the line is broken, a number with a stop may not begin a line: it would become an item.
    numbers = "about 12. " * 30 + "\n"
    text = f"# {'Title ' * 30}\n\n{code}\n{table}\n{item}\n{numbers}\nA short\nparagraph.\n"
    page.write_text(text)
    assert run_script("wrap-markdown", page).returncode == 0
    wrapped = page.read_text()
    assert wrapped.split() == text.split()
    for kept in (code, table, "A short\nparagraph.\n", f"# {'Title ' * 30}\n"):
        assert kept in wrapped
    lines = wrapped.split(table)[1].split("\n")
    assert max(map(len, lines)) <= 120
    assert not [line for line in lines if line.lstrip().startswith(("12.", "words`"))]
    assert sum(line.startswith("- ") for line in lines) == 1
    assert run_script("wrap-markdown", page).returncode == 0
    assert page.read_text() == wrapped
