"""In which line of a TOML text a key stands, so that a fault can be shown where its author wrote it.

tomllib reads the values and keeps no places; this reads the places and no values. Start with `key_lines`.
"""

from __future__ import annotations

import re

__all__ = ["KeyPath", "key_lines", "line_of"]

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Line of each table and key, counted from 1; elements of ``[[tables]]`` by their index.

    >>> key_lines("a = 1\n[t]\nb = 2\n[[u]]\nc = 3")[("u", 0, "c")]
    5
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    value = _OpenValue()
    for number, line in enumerate(text.splitlines(), start=1):
        if value.open:
            value.read(line)
        elif header := _HEADER.match(line):
            names: KeyPath = tuple(_names(header[2]))
            if header[1] == "[[":
                counts[names] = counts.get(names, 0) + 1
            table = _with_indices(names, counts)
            lines.setdefault(names, number)
            lines[table] = number
        elif key := _KEY.match(line):
            lines[(*table, *_names(key[1]))] = number
            value.read(line[key.end() :])
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """The line of a key, or of the nearest thing around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _names(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _with_indices(names: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    path: KeyPath = ()
    for length, name in enumerate(names, start=1):
        path = (*path, name)
        if names[:length] in counts:
            path = (*path, counts[names[:length]] - 1)
    return path


class _OpenValue:
    """Whether a value goes on in the next line: inside brackets, or inside a text of several lines."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""

    @property
    def open(self) -> bool:
        return self._depth > 0 or len(self._quote) == 3

    def read(self, line: str) -> None:
        if len(self._quote) != 3:
            self._quote = ""
        place = 0
        while place < len(line):
            place += self._step(line, place)

    def _step(self, line: str, place: int) -> int:
        if self._quote:
            if line[place] == "\\" and self._quote[0] == '"':
                return 2
            if line.startswith(self._quote, place):
                length = len(self._quote)
                self._quote = ""
                return length
            return 1
        for quote in ('"""', "'''", '"', "'"):
            if line.startswith(quote, place):
                self._quote = quote
                return len(quote)
        if line[place] == "#":
            return len(line)
        self._depth = max(0, self._depth + {"[": 1, "{": 1, "]": -1, "}": -1}.get(line[place], 0))
        return 1
