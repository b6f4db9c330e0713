"""Runs of one study that were made in several places, as one sweep.

Runs keep their content hash wherever they were made, so that the same run made twice is taken once. Nothing is overwritten: a folder
whose name is taken gets ``-from2`` and so on. Start with `gather_runs`.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from weir_lab.design import load_study
from weir_lab.errors import RecordError
from weir_lab.records.runs import read_run_metas, read_sweep, runs_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["gather_runs"]

_NAMES_MAX = 1000
# What a copy is called until it is whole. Folders without run.json count as interrupted, wherever they come from.
_PART = ".part"


def gather_runs(sweep: Path, others: list[Path]) -> list[Path]:
    """Copy valid runs of `others` that `sweep` has none of; the folders that were made.

    Raises
    ------
    RecordError
        If another folder holds another study, or was made by other programs: such runs would never be used together.
    """
    study, here = load_study(sweep / "study.toml"), read_sweep(sweep)
    there = {meta.content_sha256 for _, meta in read_run_metas(sweep) if meta.verdict.valid}
    for other in others:
        name, programs = load_study(other / "study.toml").name, read_sweep(other).executables
        if name != study.name:
            raise RecordError(f"{other} holds the study {name}, not {study.name}. Give sweeps of one study.")
        if programs != here.executables:
            raise RecordError(
                f"{other} was made by other programs ({programs}, not {here.executables}). Run both with the same weir and memcached."
            )
    made: list[Path] = []
    for other in others:
        for folder, meta in read_run_metas(other):
            if meta.verdict.valid and meta.content_sha256 not in there:
                there.add(meta.content_sha256)
                made.append(_copied(folder, runs_folder(sweep)))
    return made


def _copied(folder: Path, parent: Path) -> Path:
    """A copy that is there whole or not at all."""
    part = parent / f".{folder.name}{_PART}"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(folder, part)
    for number in range(1, _NAMES_MAX):
        target = parent / (folder.name if number == 1 else f"{folder.name}-from{number}")
        if not target.exists():
            os.rename(part, target)  # noqa: PTH104 - the atomic rename is the point
            return target
    raise RecordError(f"{parent}: {folder.name} has {_NAMES_MAX} folders already. Gather into a new folder.")
