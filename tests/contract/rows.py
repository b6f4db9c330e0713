"""One row of the contract: what a key holds, and what a client sends."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KEY = b"key"
OTHER = b"other"
BINARY = b"\x00\xff key"
"""A key that only the meta commands can name: it travels in base64."""

WATCHED = (KEY, OTHER, BINARY)

TTL_S = 1000
"""Every expiry time that a row sets, so that what is left of it can be distinguished from none and from another."""


def on_the_wire(key: bytes) -> bytes:
    return base64.b64encode(key) if key == BINARY else key


@dataclass(frozen=True)
class Item:
    """What a server holds under a key, as far as every client can see it."""

    value: bytes
    flags: int = 0
    ttl: str = "never"
    marks: str = ""
    """memcached's own letters: `X` is stale; `W` the next reader may recache; `Z` somebody else may."""

    def __str__(self) -> str:
        parts = [f"`{self.value.decode()}`" if self.value else "(empty)"]
        if self.flags:
            parts.append(f"flags {self.flags}")
        if self.ttl != "never":
            parts.append(f"TTL {self.ttl}")
        return ", ".join(parts + ([f"marks {self.marks}"] if self.marks else []))


Holdings = Mapping[bytes, Item]

VALUE: Holdings = {KEY: Item(b"value", flags=7)}
NUMBER: Holdings = {KEY: Item(b"10", flags=7)}
MORTAL: Holdings = {KEY: Item(b"value", flags=7, ttl="1000")}
STALE: Holdings = {KEY: Item(b"value", flags=7, marks="XW")}
BOTH: Holdings = {KEY: Item(b"value", flags=7), OTHER: Item(b"second")}
BINARY_VALUE: Holdings = {BINARY: Item(b"value", flags=7)}
BINARY_NUMBER: Holdings = {BINARY: Item(b"10", flags=7)}
NOTHING: Holdings = {}


@dataclass(frozen=True)
class Row:
    """What a client sends, and what the servers hold before. `<cas>` stands for the cas of `key`, `<lower>` and
    `<higher>` for numbers below and above it."""

    what: str
    sent: bytes
    before: Holdings = field(default_factory=dict)
    shown: str | None = None
    """How the table shows what is sent, where the bytes would be too many."""
    why: str | None = None
    """The reason for which Weir answers otherwise (a key of `reasons.REASONS`)."""
    statistics: bool = False
    """The reply's values differ from moment to moment; only its shape is compared."""
    takes_over: bool = False
    """memcached hands the connection to another of its threads: what follows the first line of the answer is not of
    this row, and a command behind it may not be answered."""

    options: tuple[str, ...] = ()
    """What the proxy is started with."""

    @property
    def sent_shown(self) -> str:
        if self.shown is not None:
            return self.shown
        text = self.sent.replace(b"\r\n", b"\n").decode("ascii").removesuffix("\n")
        return code(text) if text else "an empty line"


@dataclass(frozen=True)
class Family:
    title: str
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, title: str, rows: Iterable[Row]) -> Family:
        return cls(title, tuple(rows))


def code(text: str) -> str:
    """Lines as the table shows them."""
    return "`" + " ⏎ ".join(text.split("\n")).rstrip() + "`"


def line(text: str) -> bytes:
    """What is sent for `text`; a slash between spaces begins a new line."""
    return text.replace(" / ", "\r\n").encode("ascii") + b"\r\n"
