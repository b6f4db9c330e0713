"""What a row did: the bytes that came back, and what each server holds afterwards, both made comparable."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.harness.processes import Address
from tests.harness.wire import Wire

from .rows import BINARY, TTL_S, Item, code, on_the_wire

SLACK_S = 90
"""How much of a TTL may have passed when it is read; a row takes milliseconds, a busy machine longer."""

MARKER = b"mg no-such-key Oend-of-row\r\n"
MARKED = b"EN Oend-of-row\r\n"
"""No other reply ends like this one, so that no part of a reply is taken for the whole."""


@dataclass(frozen=True)
class Reply:
    data: bytes
    closed: bool
    """The peer closed the connection instead of answering what follows."""

    def __str__(self) -> str:
        text = self.data.replace(b"\r\n", b"\n").decode("ascii", errors="backslashreplace").removesuffix("\n")
        parts = [code(text)] if self.data else []
        parts += ["closes the connection"] if self.closed else []
        return ", then ".join(parts) if parts else "nothing"


def ask(wire: Wire, sent: bytes, *, takes_over: bool, statistics: bool) -> Reply:
    """The reply to what is sent: everything before the answer to a command behind it whose reply is known."""
    wire.send(sent)
    if takes_over:
        return Reply(normalise(wire.line() + b"\r\n"), closed=False)
    wire.try_send(MARKER)
    data, closed = wire.until(MARKED)
    return Reply(shape(data) if statistics else normalise(data), closed)


def normalise(reply: bytes) -> bytes:
    """Without what differs from moment to moment: cas tokens, times, and seconds that have passed."""
    lines = reply.split(b"\r\n")
    return b"\r\n".join(_normalise_line(line) for line in lines)


def _normalise_line(line: bytes) -> bytes:
    if line.startswith(b"VALUE ") and line.count(b" ") == 4:
        return line.rpartition(b" ")[0] + b" <cas>"
    if line.startswith(b"ME "):
        line = re.sub(rb"\bcas=\d+", b"cas=<cas>", line)
        return re.sub(rb"\bla=\d+", b"la=<time>", line)
    if re.match(rb"(HD|VA|EN|NS|EX|NF) ", line):
        line = re.sub(rb" c\d+\b", b" c<cas>", line)
        line = re.sub(rb" l\d+\b", b" l<time>", line)
        return re.sub(rb" t(\d+)\b", lambda found: b" t" + _whole_ttl(found[1]), line)
    return line


def _whole_ttl(seconds: bytes) -> bytes:
    """The expiry time that was set, from what is left of it."""
    left = int(seconds)
    for asked in (TTL_S, 2 * TTL_S, 30):
        if asked - SLACK_S <= left <= asked:
            return b"%d" % asked
    return seconds


def shape(reply: bytes) -> bytes:
    """Of statistics, only that they are some."""
    lines = reply.removesuffix(b"\r\n").split(b"\r\n")
    if len(lines) > 1 and lines[-1] == b"END":
        first = lines[0].split(b" ")[0]
        return first + b" ...\r\nEND\r\n"
    return reply


def held(server: Address, key: bytes) -> Item | None:
    """What a server holds under a key, asked for directly."""
    flag = b" b" if key == BINARY else b""
    with Wire(server) as wire:
        head, *words = wire.ask(b"mg %b v f t u%b" % (on_the_wire(key), flag)).decode("ascii").split(" ")
        if head == "EN":
            return None
        assert head == "VA", head
        value = wire.exactly(int(words[0]))
    tokens = {word[0]: word[1:] for word in words[1:]}
    ttl = "never" if tokens["t"] == "-1" else _whole_ttl(tokens["t"].encode()).decode()
    marks = "".join(mark for mark in "XWZ" if mark in tokens)
    return Item(value, int(tokens["f"]), ttl, marks)
