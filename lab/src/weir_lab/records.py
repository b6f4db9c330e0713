"""What a run leaves on disk, and how it is read.

A run folder holds ``run.json`` (written last: a folder without it is an interrupted run), ``load.json``, ``cpu.json``, and for runs
through a proxy ``snapshot-before.json``, ``snapshot-after.json`` (the edges of the measured phase) and ``snapshot-end.json`` (after the
load generator has left). `formats` has what the Rust side writes. Start with `read_run`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from weir_lab.design import Settings
from weir_lab.errors import RecordError
from weir_lab.formats import Count, LoadRecord, Record, Snapshot
from weir_lab.places import MachineUse, TestbedRecord

__all__ = [
    "Command",
    "CpuRecord",
    "RoleCpu",
    "Run",
    "RunMeta",
    "SweepMeta",
    "Verdict",
    "read_json",
    "read_measurements",
    "read_run",
    "read_runs",
    "read_sweep",
    "runs_folder",
    "write_json",
]


class RoleCpu(Record):
    """CPU time of one role between the two readings."""

    cpu_ns: Count


class CpuRecord(Record):
    """``weir.cpu/1``: CPU time per role between two readings at the edges of the measured phase.

    ``busy_ns`` is the whole machine's, from the kernel's tick counters; what the roles did not use of it went to other processes and to
    interrupt work that the kernel charges to nobody.
    """

    schema_: Annotated[Literal["weir.cpu/1"], Field(alias="schema")] = "weir.cpu/1"
    start_unix_ns: int
    interval_ns: Annotated[int, Field(gt=0)]
    roles: dict[str, RoleCpu]
    cores: Annotated[int, Field(ge=1)]
    busy_ns: Count
    machines: dict[str, MachineUse] = Field(default_factory=dict)

    @property
    def other_share(self) -> float:
        """Share of the machine's CPU time that went elsewhere than to the roles, 0 to 1."""
        used = sum(role.cpu_ns for role in self.roles.values())
        return max(0.0, (self.busy_ns - used) / (self.interval_ns * self.cores))


class Verdict(Record):
    """Whether a run counts. Reasons make it invalid; flags warn."""

    valid: bool
    reasons: list[str]
    flags: list[str]


class Command(Record):
    """One started process."""

    role: str
    name: str
    argv: list[str]
    exit_status: int | None


class RunMeta(Record):
    """``weir.run/1``: everything about a run that is not a measurement."""

    schema_: Annotated[Literal["weir.run/1"], Field(alias="schema")] = "weir.run/1"
    study: str
    cell: str
    levels: dict[str, int | float | str]
    settings: Settings
    repetition: Annotated[int, Field(ge=1)]
    position: Annotated[int, Field(ge=1)]
    attempt: Annotated[int, Field(ge=1)]
    content_sha256: str
    study_seed: int
    load_seed: int
    commands: list[Command]
    executables: dict[str, str]
    versions: dict[str, str]
    machine: dict[str, str | int | float]
    load_average: list[float]
    testbed: TestbedRecord | None = None
    started_unix_ns: int
    ended_unix_ns: int
    verdict: Verdict


class SweepMeta(Record):
    """``weir.sweep/1``: which study and which executables the folder's current runs belong to."""

    schema_: Annotated[Literal["weir.sweep/1"], Field(alias="schema")] = "weir.sweep/1"
    executables: dict[str, str]
    command: list[str]


@dataclass(frozen=True)
class Run:
    """One finished run. Measurements are ``None`` where the run failed before they were taken."""

    folder: Path
    meta: RunMeta
    load: LoadRecord | None
    cpu: CpuRecord | None
    before: Snapshot | None
    after: Snapshot | None
    end: Snapshot | None


def runs_folder(sweep: Path) -> Path:
    """Where a sweep keeps its run folders."""
    return sweep / "runs"


def read_sweep(sweep: Path) -> SweepMeta:
    """Read ``sweep.json``."""
    return read_json(sweep / "sweep.json", SweepMeta)


def read_runs(sweep: Path) -> tuple[list[Run], list[Path]]:
    """All finished runs of a sweep, in the order they were made, and the folders of interrupted ones."""
    folders = sorted(path for path in runs_folder(sweep).glob("*") if path.is_dir())
    finished = [read_run(folder) for folder in folders if (folder / "run.json").exists()]
    interrupted = [folder for folder in folders if not (folder / "run.json").exists()]
    return sorted(finished, key=lambda run: run.meta.started_unix_ns), interrupted


def read_run(folder: Path) -> Run:
    """Read one run folder."""
    meta = read_json(folder / "run.json", RunMeta)
    try:
        return read_measurements(folder, meta)
    except RecordError:
        if meta.verdict.valid:
            raise
        # A failed run may have left damaged records; it is kept and shown, but nothing is computed from it.
        return Run(folder, meta, None, None, None, None, None)


def read_measurements(folder: Path, meta: RunMeta) -> Run:
    """Read what was measured; files that are not there become ``None``."""
    return Run(
        folder,
        meta,
        load=_read_optional(folder / "load.json", LoadRecord),
        cpu=_read_optional(folder / "cpu.json", CpuRecord),
        before=_read_optional(folder / "snapshot-before.json", Snapshot),
        after=_read_optional(folder / "snapshot-after.json", Snapshot),
        end=_read_optional(folder / "snapshot-end.json", Snapshot),
    )


_Model = TypeVar("_Model", bound=BaseModel)


def read_json(path: Path, model: type[_Model]) -> _Model:
    """Read and check one record."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be read ({error.strerror}). Give a folder made by `weir-lab run`."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise RecordError(
            f"{path}: {key}: {first['msg']} ({error.error_count()} such problems). "
            "The record is damaged or from another version: repeat the run with one version of weir and weir-lab."
        ) from error


def write_json(path: Path, content: BaseModel | dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    plain = content.model_dump(mode="json", by_alias=True) if isinstance(content, BaseModel) else content
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(part, path)  # noqa: PTH105 - the atomic rename is the point


def _read_optional(path: Path, model: type[_Model]) -> _Model | None:
    return read_json(path, model) if path.exists() else None
