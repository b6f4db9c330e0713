"""docs/reference/commands.md is what the processes do, and it leaves nothing out."""

from __future__ import annotations

import difflib
import gzip
import re
from pathlib import Path

import pytest

from . import meta
from .__main__ import DOCUMENT
from .observation import Reply, normalise
from .reasons import REASONS
from .rows import KEY, VALUE, WATCHED, Family, Item, Row, line
from .table import FAMILIES, UNEXPLAINED, Difference, difference, generate, memcached_version
from .worlds import Copies, Observed

PROTOCOL = Path("/usr/share/doc/memcached/protocol.txt.gz")
WRITE = ".venv/bin/python -m tests.contract --write"


def test_the_document_is_what_the_processes_do() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    version = memcached_version()
    if f"from memcached {version} " not in written:
        pytest.skip(f"memcached here is {version}; {DOCUMENT.name} is about another version")
    found = generate()
    changes = "\n".join(
        difflib.unified_diff(written.split("\n"), found.split("\n"), "written", "found", n=0, lineterm="")
    )
    assert found == written, f"if this is meant, `{WRITE}`:\n{changes}"
    assert REASONS.keys() >= {row.why for row in rows() if row.why is not None}
    assert "No reason is known" not in written


def test_every_flag_of_the_protocol_text_has_a_line() -> None:
    if not PROTOCOL.exists():
        pytest.skip(f"this machine's memcached comes without {PROTOCOL}")
    text = gzip.decompress(PROTOCOL.read_bytes()).decode("ascii")
    for verb, family in (("mg", meta.get()), ("ms", meta.set_()), ("md", meta.delete()), ("ma", meta.arithmetic())):
        section = text.split(f"The flags used by the '{verb}' command are:")[1].split("The flags are now repeated")[0]
        flags = set(re.findall(r"^- (\w)(?:\(token\))?:", section, re.MULTILINE)) - {"W", "X", "Z"}
        assert len(flags) >= 7, section
        assert flags <= flags_of(family), verb


def flags_of(family: Family) -> set[str]:
    """The first letters of the words behind command and key (and the length, of a set)."""
    return {word[:1] for row in family.rows for word in row.sent.split(b"\r\n")[0].decode("ascii").split(" ")[2:]}


def rows() -> list[Row]:
    return [row for family in FAMILIES for row in family.rows]


NEW = Item(b"new")
STORED = Reply(b"STORED\r\n", closed=False)


def seen(reply: Reply, primary: Item | None, *followers: Item | None, elsewhere: Item | None = None) -> Observed:
    nothing = Copies(None, (None,) * len(followers), (None,))
    return Observed(reply, dict.fromkeys(WATCHED, nothing) | {KEY: Copies(primary, followers, (elsewhere,))})


@pytest.mark.parametrize(
    ("weir", "found"),
    [
        (seen(STORED, NEW), []),
        (seen(STORED, NEW, NEW, NEW), []),
        (seen(STORED, NEW, None, NEW), [Difference("followers hold nothing", "followers")]),
        (seen(STORED, NEW, Item(b"old")), [Difference("followers hold `old`", UNEXPLAINED)]),
        (seen(STORED, NEW, Item(b"new", flags=1)), [Difference("followers hold `new`, flags 1", UNEXPLAINED)]),
        (seen(STORED, None), [Difference("the primary holds nothing", UNEXPLAINED)]),
        (seen(STORED, NEW, elsewhere=NEW), [Difference("a server that is not the key's holds it", UNEXPLAINED)]),
        (seen(Reply(b"ERROR\r\n", closed=False), VALUE[KEY], VALUE[KEY]), [Difference("`ERROR`", UNEXPLAINED)]),
        (
            seen(Reply(b"STORED\r\n", closed=True), NEW),
            [Difference("`STORED`, then closes the connection", UNEXPLAINED)],
        ),
    ],
)
def test_differences_are_seen(weir: Observed, found: list[Difference]) -> None:
    row = Row("set", line("set key 0 0 3 / new"), VALUE)
    assert [one for one in difference(row, seen(STORED, NEW), weir) if one in found] == found
    assert bool(found) == bool(difference(row, seen(STORED, NEW), weir))


@pytest.mark.parametrize(
    ("reply", "comparable"),
    [
        (b"VALUE key 0 5 17\r\nc1234\r\nEND\r\n", b"VALUE key 0 5 <cas>\r\nc1234\r\nEND\r\n"),
        (b"VALUE key 0 5\r\nvalue\r\nEND\r\n", b"VALUE key 0 5\r\nvalue\r\nEND\r\n"),
        (b"HD c17 t998 l3 f12\r\n", b"HD c<cas> t1000 l<time> f12\r\n"),
        (b"HD t-1\r\n", b"HD t-1\r\n"),
        (b"HD t500\r\n", b"HD t500\r\n"),
        (b"ME key exp=-1 la=2 cas=9 size=71\r\n", b"ME key exp=-1 la=<time> cas=<cas> size=71\r\n"),
    ],
)
def test_replies_are_made_comparable_and_no_more(reply: bytes, comparable: bytes) -> None:
    assert normalise(reply) == comparable
