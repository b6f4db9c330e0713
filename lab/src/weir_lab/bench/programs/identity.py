"""Which programs take part in a study, and what tells one state of them from the next: `identify_programs`.

===========================  =========================================================================
program                      identified by
===========================  =========================================================================
``weir``                     SHA-256 of its file
``memcached``                what it says of its version; by a path, SHA-256 of that file, too
``nutcracker``               its version, and SHA-256 of its file where it is on this machine
``memcaslap``                the same
``[subjects.NAME] WORD``     SHA-256 of the program, and of each file that a word of its command names
===========================  =========================================================================

A run's content hash takes of these what its own cell starts (`design.content_sha256`). What a program loads that its command line does
not name (modules of a script, shared libraries) is not known here. Names that end like logs are left out: a run would change them.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.bench.machine.facts import executable_version, file_sha256
from weir_lab.bench.programs.generators import MEMCASLAP
from weir_lab.bench.programs.installed import is_there, not_there
from weir_lab.bench.programs.subjects import NUTCRACKER
from weir_lab.design import RequestPath, cells_of, subject_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weir_lab.design import Study, Subject

__all__ = ["files_named", "identify_programs"]

_WRITTEN = (".log", ".pid", ".sock", ".out", ".err")


def identify_programs(study: Study, weir: Path, memcached: str) -> dict[str, str]:
    """Name and state of every program that a run of the study starts."""
    if not is_there(weir):
        raise not_there(weir)
    found = {"weir": file_sha256(weir)}
    if study.targets:
        return found | {"memcached": "not started"}
    found["memcached"] = _memcached(memcached)
    for settings in (cell.settings for cell in cells_of(study)):
        subject = study.subjects.get(settings.subject)
        if settings.path is RequestPath.PROXY and subject is not None:
            found |= {subject_program(settings.subject, word): state for word, state in _files(subject)}
        elif settings.path is RequestPath.PROXY and settings.subject == NUTCRACKER:
            found[NUTCRACKER] = _installed(NUTCRACKER)
        if settings.generator == MEMCASLAP:
            found[MEMCASLAP] = _installed(MEMCASLAP)
    return found


def files_named(word: str) -> Iterator[str]:
    """What of a word of a command line may be a file: all of it, what stands behind ``=`` or ``@``, and words inside it (``sh -c``).

    >>> list(files_named("--config=/etc/p.conf"))
    ['--config=/etc/p.conf', '/etc/p.conf']
    """
    try:
        inner = shlex.split(word)
    except ValueError:
        inner = word.split()
    for part in dict.fromkeys([word, *inner]):
        yield part
        yield from re.split(r"[=@]", part)[1:]


def _files(subject: Subject) -> Iterator[tuple[str, str]]:
    """Words of a command line that name files, with the hashes of these."""
    program = shutil.which(subject.program)
    if program is not None:
        yield subject.program, file_sha256(Path(program))
    for word in subject.words[1:]:
        for name in files_named(word):
            if name and not name.endswith(_WRITTEN) and "\0" not in name and Path(name).is_file():
                yield name, file_sha256(Path(name))


def _memcached(program: str) -> str:
    """Its version alone where it is found by its name: data that were made with the same version stay what they are."""
    version = executable_version([program, "-V"])
    path = shutil.which(program)
    return version if "/" not in program or path is None else f"{version}, SHA-256 {file_sha256(Path(path))}"


def _installed(program: str) -> str:
    path = shutil.which(program)
    if path is None:  # on other machines it may be; what cannot run here is refused elsewhere
        return "not on this machine"
    return f"{executable_version([program, '-V'])}, SHA-256 {file_sha256(Path(path))}"
