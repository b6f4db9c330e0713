"""What is compared: a side, from what was written on the command line. Start with `parse_side`.

=====================================  ====================================================================================
written                                meaning
=====================================  ====================================================================================
``direct``                             no proxy: the load goes to the memcached servers
``nutcracker``                         nutcracker, with the lab's own configuration
``weir --threads 2``                   the weir of ``--bin``, with these flags of ``weir proxy``
``old/weir``, ``old/weir --threads 2`` another build
``prog -l {port} -s {servers}``        any proxy: ``{listen}``, ``{host}``, ``{port}``, ``{admin}``, ``{servers}`` are filled in
=====================================  ====================================================================================
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from weir_lab.bench.machine.facts import file_sha256
from weir_lab.bench.programs.identity import files_named
from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR
from weir_lab.design import Subject
from weir_lab.errors import StudyError

__all__ = ["DIRECT", "Side", "parse_side"]

DIRECT = "direct"
_PLACE = re.compile(r"\{(listen|port)\}")


@dataclass(frozen=True)
class Side:
    """A or B: what was asked for, and the command line that it means; none for ``direct`` and for ``nutcracker``."""

    name: str
    asked: str
    argv: tuple[str, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether there is no proxy."""
        return self.asked == DIRECT

    @property
    def subject_name(self) -> str:
        """As settings of a cell name it."""
        return NUTCRACKER if self.asked == NUTCRACKER else f"side-{self.name.lower()}"

    @property
    def subject(self) -> Subject | None:
        """As a study would define it."""
        return Subject(argv=list(self.argv)) if self.argv else None

    def programs(self) -> dict[str, str]:
        """SHA-256 of its program and of every file that its command line names."""
        words = self.argv or ((NUTCRACKER,) if self.asked == NUTCRACKER else ())
        found = {}
        for place, word in enumerate(words):
            for name in files_named(word):
                path = shutil.which(name) if place == 0 else name
                if path and "\0" not in path and Path(path).is_file():
                    found[name] = file_sha256(Path(path))
        return found


def parse_side(name: str, text: str, weir: Path) -> Side:
    """Read one side; `weir` is the binary that the word ``weir`` stands for."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise StudyError(f"{name}: {text!r} cannot be cut into words ({error}). Close its quotes.") from error
    if not words:
        raise StudyError(f"{name} is empty. {_HOW}")
    if words == [DIRECT]:
        return Side(name, DIRECT)
    if words == [NUTCRACKER]:
        _require_program(name, NUTCRACKER)
        return Side(name, NUTCRACKER)
    if any(_PLACE.search(word) for word in words):
        _require_program(name, words[0])
        return Side(name, text, tuple(words))
    program = str(weir) if words[0] == WEIR else words[0]
    _require_program(name, program)
    if words[0] != WEIR and "/" not in program:
        raise StudyError(f"{name}: {text!r} does not say where it shall listen. {_HOW}")
    flags = words[2:] if words[1:2] == ["proxy"] else words[1:]
    places = ["--listen", "{listen}", "--admin", "{admin}", "--server", "{servers}"]
    program = str(Path(program).absolute())
    return Side(name, text, (program, "proxy", *places, *flags))


_HOW = (
    "Write `direct`, `nutcracker`, `weir` or the path of a weir binary, each with flags of `weir proxy` behind it, "
    "or the command line of a proxy with {listen} or {port}, and {servers}."
)


def _require_program(name: str, program: str) -> None:
    if shutil.which(program) is None:
        raise StudyError(f"{name}: {program} is not there, or is not a program. {_HOW}")
