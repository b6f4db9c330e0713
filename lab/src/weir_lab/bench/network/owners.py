"""Whose a namespace or a control group is: its name holds the owner's process number and start.

A process number alone is used again; with the start it is not, until the machine starts anew, and then nothing of this is left. An owner
in another PID namespace looks gone from here: run one lab per PID namespace where both share `/run/netns`.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Owner", "owner_of", "this_process"]

_NAME = re.compile(r"weir-([0-9]{1,10})-([0-9a-f]{1,16})-([0-9]{1,10})-[a-z][a-z0-9-]*")
_numbers = itertools.count()


@dataclass(frozen=True)
class Owner:
    """A process, and which of its networks."""

    pid: int
    started: int
    """Clock ticks between the start of the machine and that of the process."""
    number: int

    def name(self, part: str) -> str:
        """Name of something that belongs to this owner; `owner_of` reads it back."""
        name = f"weir-{self.pid}-{self.started:x}-{self.number}-{part}"
        if owner_of(name) != self:
            raise ValueError(f"{part!r} must consist of lower-case letters, digits and dashes, and begin with a letter")
        return name

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return _started(self.pid) == self.started


def this_process() -> Owner:
    """The calling process as the owner of one more network."""
    pid = os.getpid()
    started = _started(pid)
    assert started is not None, "/proc has this process"
    return Owner(pid, started, next(_numbers))


def owner_of(name: str) -> Owner | None:
    """Owner by the name of a thing; ``None`` if it is not ours."""
    match = _NAME.fullmatch(name)
    return Owner(int(match[1]), int(match[2], 16), int(match[3])) if match else None


def _started(pid: int) -> int | None:
    """Field 22 of proc(5)'s stat; ``None`` for a process that is gone, or is dead and not yet reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may hold anything.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
