"""What a run leaves on disk, and how it is read.

A run folder holds ``run.json`` (written last: a folder without it is an interrupted run), ``load.json``, ``cpu.json``, and for runs
through a proxy ``snapshot-before.json``, ``snapshot-after.json`` (the edges of the measured phase) and ``snapshot-end.json`` (after the
load generator has left). The formats of load and snapshot are docs/formats.md; unknown fields are ignored, since fields may be added.
Start with `read_run`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir_lab.design import Settings
from weir_lab.errors import RecordError
from weir_lab.histogram import Histogram, merge_histograms

__all__ = [
    "STAGES",
    "Command",
    "CpuRecord",
    "Distribution",
    "LoadConfig",
    "LoadCpu",
    "LoadFailures",
    "LoadOperation",
    "LoadRecord",
    "LoadWindow",
    "Phase",
    "RoleCpu",
    "Run",
    "RunMeta",
    "Snapshot",
    "SnapshotDifference",
    "SnapshotOperation",
    "SnapshotProcess",
    "SweepMeta",
    "Verdict",
    "read_json",
    "read_measurements",
    "read_run",
    "read_runs",
    "read_sweep",
    "runs_folder",
    "subtract_snapshots",
    "write_json",
]

STAGES = ("read", "dispatch", "queue", "send", "backend", "reply")

_Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Distribution(_Record):
    """Recorded times. ``count`` and ``sum_ns`` are exact; the histogram has three significant digits."""

    count: _Count
    sum_ns: _Count
    histogram: str | None

    def decoded(self, where: str) -> Histogram | None:
        """The histogram, or ``None`` where nothing was recorded; the count must agree with it."""
        if self.histogram is None:
            if self.count:
                raise RecordError(f"{where}: {self.count} times without a histogram. Repeat the run.")
            return None
        histogram = Histogram.decode(self.histogram, where)
        if histogram.total != self.count:
            raise RecordError(
                f"{where}: count is {self.count}, but the histogram holds {histogram.total}. Repeat the run."
            )
        return histogram


class Phase(_Record):
    """One phase of the load generator."""

    start_unix_ns: int
    duration_ns: _Count
    requests: _Count
    errors: _Count
    misses: _Count
    failures: _Count


class LoadOperation(_Record):
    """One operation in the measured phase, as the client saw it."""

    requests: _Count
    misses: _Count
    errors: _Count
    response_time: Distribution


class LoadConfig(_Record):
    """The part of the generator's configuration that the lab checks against the cell."""

    targets: list[str]
    connections: int
    depth: int
    threads: int


class LoadWindow(_Record):
    """One window of the measured phase; the last may be shorter."""

    start_ns: _Count
    length_ns: _Count
    requests: _Count


class LoadCpu(_Record):
    """The generator's own CPU time in the measured phase."""

    user_ns: _Count
    system_ns: _Count


class LoadFailures(_Record):
    """Replies that failed verification, and connections that broke."""

    count: _Count
    first: list[str]


class LoadRecord(_Record):
    """``weir.load/1``."""

    schema_: Annotated[Literal["weir.load/1"], Field(alias="schema")]
    weir_version: str
    config: LoadConfig
    phases: dict[str, Phase]
    operations: dict[str, LoadOperation]
    throughput_rps: Annotated[float, Field(ge=0)]
    windows: list[LoadWindow]
    cpu: LoadCpu
    failures: LoadFailures
    errors: dict[str, int]

    @property
    def measured(self) -> Phase:
        """The measured phase."""
        if "measured" not in self.phases:
            raise RecordError("load.json has no measured phase. The generator was stopped early: repeat the run.")
        return self.phases["measured"]

    @property
    def requests(self) -> int:
        """Requests completed in the measured phase."""
        return sum(operation.requests for operation in self.operations.values())

    @property
    def requests_of_all_phases(self) -> int:
        """Every request that was sent and answered."""
        return sum(phase.requests for phase in self.phases.values())

    @property
    def response_time_sum_ns(self) -> int:
        """Sum of the response times of the measured phase."""
        return sum(operation.response_time.sum_ns for operation in self.operations.values())

    @property
    def response_time_count(self) -> int:
        """Number of response times behind the sum."""
        return sum(operation.response_time.count for operation in self.operations.values())

    def response_times(self) -> Histogram | None:
        """Response times of all operations of the measured phase, merged."""
        parts = [
            operation.response_time.decoded(f"load.json, operations.{name}.response_time")
            for name, operation in self.operations.items()
        ]
        return merge_histograms(part for part in parts if part is not None)


class SnapshotOperation(_Record):
    """One operation at the proxy since its start."""

    requests: _Count
    errors: _Count
    stages: dict[str, Distribution]
    total: Distribution


class SnapshotProcess(_Record):
    """The proxy's process."""

    cpu_user_ns: _Count
    cpu_system_ns: _Count


class Snapshot(_Record):
    """``weir.proxy/1``."""

    schema_: Annotated[Literal["weir.proxy/1"], Field(alias="schema")]
    weir_version: str
    taken_unix_ns: int
    uptime_ns: _Count
    process: SnapshotProcess
    operations: dict[str, SnapshotOperation]

    @property
    def requests(self) -> int:
        """Requests of all operations since the start of the process."""
        return sum(operation.requests for operation in self.operations.values())


@dataclass(frozen=True)
class SnapshotDifference:
    """What the proxy did between two snapshots, over all operations."""

    interval_ns: int
    requests: int
    errors: int
    stage_sum_ns: dict[str, int]
    total_sum_ns: int
    total_count: int
    total: Histogram | None


def subtract_snapshots(later: Snapshot, earlier: Snapshot) -> SnapshotDifference:
    """Exact difference: counts and sums by subtraction, histograms step by step."""
    interval_ns = later.uptime_ns - earlier.uptime_ns
    if interval_ns <= 0:
        raise RecordError(
            "The later snapshot is not later than the earlier one: swapped, or the proxy was restarted. Repeat the run."
        )
    stage_sums = dict.fromkeys(STAGES, 0)
    requests = errors = total_sum = total_count = 0
    histograms: list[Histogram] = []
    for name, now in later.operations.items():
        before = earlier.operations.get(name)
        unknown = now.stages.keys() - stage_sums.keys()
        if unknown:
            raise RecordError(
                f"Snapshot, operations.{name}: unknown stages {sorted(unknown)}. Use a matching weir-lab."
            )
        requests += now.requests - (before.requests if before else 0)
        errors += now.errors - (before.errors if before else 0)
        for stage, times in now.stages.items():
            stage_sums[stage] += times.sum_ns - (before.stages[stage].sum_ns if before else 0)
        total_sum += now.total.sum_ns - (before.total.sum_ns if before else 0)
        total_count += now.total.count - (before.total.count if before else 0)
        histogram = _histogram_difference(now.total, before.total if before else None, f"operations.{name}.total")
        if histogram is not None:
            histograms.append(histogram)
    if min(requests, errors, total_sum, total_count, *stage_sums.values()) < 0:
        raise RecordError("A sum of the proxy went down between two snapshots: they are from different processes.")
    return SnapshotDifference(
        interval_ns, requests, errors, stage_sums, total_sum, total_count, merge_histograms(histograms)
    )


class RoleCpu(_Record):
    """CPU time of one role between the two readings."""

    cpu_ns: _Count


class CpuRecord(_Record):
    """``weir.cpu/1``: CPU time per role between two readings at the edges of the measured phase.

    ``busy_ns`` is the whole machine's, from the kernel's tick counters; what the roles did not use of it went to other processes and to
    interrupt work that the kernel charges to nobody.
    """

    schema_: Annotated[Literal["weir.cpu/1"], Field(alias="schema")] = "weir.cpu/1"
    start_unix_ns: int
    interval_ns: Annotated[int, Field(gt=0)]
    roles: dict[str, RoleCpu]
    cores: Annotated[int, Field(ge=1)]
    busy_ns: _Count

    @property
    def other_share(self) -> float:
        """Share of the machine's CPU time that went elsewhere than to the roles, 0 to 1."""
        used = sum(role.cpu_ns for role in self.roles.values())
        return max(0.0, (self.busy_ns - used) / (self.interval_ns * self.cores))


class Verdict(_Record):
    """Whether a run counts. Reasons make it invalid; flags warn."""

    valid: bool
    reasons: list[str]
    flags: list[str]


class Command(_Record):
    """One started process."""

    role: str
    name: str
    argv: list[str]
    exit_status: int | None


class RunMeta(_Record):
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
    started_unix_ns: int
    ended_unix_ns: int
    verdict: Verdict


class SweepMeta(_Record):
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


def _histogram_difference(now: Distribution, before: Distribution | None, where: str) -> Histogram | None:
    later = now.decoded(f"snapshot, {where}")
    earlier = before.decoded(f"earlier snapshot, {where}") if before else None
    return later - earlier if later is not None and earlier is not None else later
