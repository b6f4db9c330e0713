"""Files with passwords, and sessions that log in."""

from __future__ import annotations

from pathlib import Path

from .wire import Connectable, Wire


def write_passwords(file: Path, *lines: str) -> Path:
    """memcached's format: `user:password`, a line for each."""
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def login(name: bytes, password: bytes, key: bytes = b"login") -> bytes:
    """The first request of a session."""
    words = name + b" " + password
    return b"set %b 0 0 %d\r\n%b\r\n" % (key, len(words), words)


def logged_in(address: Connectable, name: bytes = b"user", password: bytes = b"password") -> Wire:
    """A session of this user."""
    wire = Wire(address)
    wire.send(login(name, password))
    assert (said := wire.line()) == b"STORED", said
    return wire
