"""What is filled into the command line and the files of a study's subject. Pure. Read `Filling` first.

=============================================  ===========================================================================
``{listen}``, ``{host}``, ``{port}``           where the proxy is to listen: ``127.0.0.1:20001``, and its parts
``{admin}``, ``{admin_host}``, ``{admin_port}``  a second free port, for its statistics
``{servers}``, ``{servers:SEP}``               all memcached servers, with a comma or another text between them
``{server_count}``                             how many there are
``{server}``, ``{server_host}``,               one server: a line of a file, a word of the command line, or a list inside of
``{server_port}``, ``{server_number}``         it that names one of these stands once per server; numbers count from 1
``{file:NAME}``, ``{config}``                  the path of a file of this run
``{threads}``, ``{clients}``, …                a setting of the cell (``{threads}`` is ``proxy_threads``)
=============================================  ===========================================================================

Braces around anything else are left as they are, since configuration files are full of them; `unknown_names` lists those that look like
one of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from weir_lab.design import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weir_lab.design import Subject

__all__ = ["Filling", "unknown_names"]

_NAME = re.compile(r"\{([a-z_]+)(?::([^{}\n]*))?\}")
_PER_SERVER = ("server", "server_host", "server_port", "server_number")
_PLACES = ("listen", "host", "port", "admin", "admin_host", "admin_port", "servers", "server_count", "threads")
# The number of servers is {server_count}, because {servers} are their addresses.
_SETTINGS = tuple(name for name in Settings.model_fields if name != "servers")


@dataclass(frozen=True)
class Filling:
    """Where one proxy listens, what is behind it, the settings of its cell, and where its files lie."""

    listen: str
    admin: str
    servers: tuple[str, ...]
    settings: Settings
    files: Mapping[str, str]
    """Path of each file by its name; ``conf`` is the text of ``config``."""

    def text(self, text: str) -> str:
        """A file: lines that name one server stand once for each."""
        lines = [self._each(line) for line in text.split("\n")]
        return "\n".join(line for several in lines for line in several)

    def argv(self, subject: Subject) -> list[str]:
        """The command line: words and lists of words that name one server stand once for each."""
        found: list[str] = []
        for part in subject.argv:
            if isinstance(part, str):
                found += self._each(part)
            elif any(_names_a_server(word) for word in part):
                found += [self._filled(word, place) for place in range(len(self.servers)) for word in part]
            else:
                found += [self._filled(word, None) for word in part]
        return found

    def _each(self, text: str) -> list[str]:
        if not _names_a_server(text):
            return [self._filled(text, None)]
        return [self._filled(text, place) for place in range(len(self.servers))]

    def _filled(self, text: str, place: int | None) -> str:
        def value(match: re.Match[str]) -> str:
            found = self._value(match[1], match[2], place)
            return match[0] if found is None else found

        return _NAME.sub(value, text)

    def _value(self, name: str, more: str | None, place: int | None) -> str | None:
        if name == "servers":
            return ("," if more is None else more).join(self.servers)
        if name == "file":
            return None if more is None else self.files.get(more)
        if more is not None:
            return None
        host, port = _parts(self.listen)
        admin_host, admin_port = _parts(self.admin)
        known = {
            "listen": self.listen,
            "host": host,
            "port": port,
            "admin": self.admin,
            "admin_host": admin_host,
            "admin_port": admin_port,
            "server_count": str(len(self.servers)),
            "threads": str(self.settings.proxy_threads),
            "config": self.files.get("conf", ""),
        }
        if name in known:
            return known[name]
        if name in _PER_SERVER and place is not None:
            server_host, server_port = _parts(self.servers[place])
            return dict(zip(_PER_SERVER, (self.servers[place], server_host, server_port, str(place + 1)), strict=True))[
                name
            ]
        if name in _SETTINGS:
            setting = getattr(self.settings, name)
            return "" if setting is None else str(setting)
        return None


def unknown_names(subject: Subject) -> dict[str, str | None]:
    """What stands in braces and is nothing that is filled in: a slip, or the program's own business; each with what may be meant."""
    known = {*_PLACES, *_PER_SERVER, *_SETTINGS, "config"}
    files = [f"file:{name}" for name in subject.files]
    found: dict[str, str | None] = {}
    for text in [*subject.words, subject.config or "", *subject.files.values()]:
        for match in _NAME.finditer(text):
            name, more = match[1], match[2]
            file_known = name == "file" and more in subject.files
            if not (file_known or (name == "servers" and more is not None) or (name in known and more is None)):
                near = get_close_matches(match[0].strip("{}"), [*known, *files], n=1)
                found[match[0]] = f"{{{near[0]}}}" if near else None
    return found


def _names_a_server(text: str) -> bool:
    return any(match[1] in _PER_SERVER and match[2] is None for match in _NAME.finditer(text))


def _parts(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host, port
