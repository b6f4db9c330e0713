"""What a run leaves on disk, and how it is read.

A run folder holds ``run.json`` (written last: a folder without it is an interrupted run), ``load.json``, ``cpu.json``, and for runs
through a proxy ``snapshot-before.json``, ``snapshot-after.json`` (the edges of the measured phase) and ``snapshot-end.json`` (after the
load generator has left). Several generators leave ``load-1.json`` and so on, several proxies ``snapshot-end-1.json``; ``generators.json``
says who the generators were. What is read here is their sum. `formats` has what the Rust side writes. Start with `read_run`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from weir_lab.design import RequestPath, Settings
from weir_lab.errors import RecordError
from weir_lab.records.formats import Count, LoadRecord, Record, Snapshot, merge_snapshots
from weir_lab.records.formats.foreign import GeneratorsRecord, load_of_memcaslap
from weir_lab.records.formats.merging import merge_records, shifted, with_prefill
from weir_lab.records.formats.peers import PeerCounts, merge_peers, read_nutcracker
from weir_lab.records.formats.seconds import SECONDS_FILE, MachineSeconds
from weir_lab.records.formats.seen import KernelWait, ThreadsUse
from weir_lab.records.places import MachineUse, NetworkUse, TestbedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "TOO_FULL",
    "Command",
    "CpuRecord",
    "RoleCpu",
    "Run",
    "RunMeta",
    "ServerSettings",
    "ServersRecord",
    "SweepMeta",
    "Verdict",
    "placed_name",
    "read_json",
    "read_measurements",
    "read_run",
    "read_run_metas",
    "read_runs",
    "read_sweep",
    "runs_folder",
    "snapshot_name",
    "write_json",
    "write_text",
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
    network: NetworkUse | None = None
    """What the delay device did; ``None`` where there is none."""
    yardstick_ns: dict[str, Annotated[float, Field(gt=0.0)]] = Field(default_factory=dict)
    """CPU time of a fixed piece of work on each core, mean over the interval: how slow the machine was. Empty where it is not measured."""
    others_ns: Count | None = None
    """CPU time of processes beside the roles, and what a virtual machine was not given; ``None`` where nobody looked at them."""

    def slowness_ns(self, cores: Iterable[int] = ()) -> float | None:
        """The yardstick's mean over these cores, over all without any; only ratios between runs mean something."""
        asked = [str(core) for core in cores]
        found = [spent for core, spent in self.yardstick_ns.items() if not asked or core in asked]
        return sum(found) / len(found) if found else None

    threads: dict[str, dict[str, ThreadsUse]] = Field(default_factory=dict)
    """Of each role its kinds of threads by name, where the machines are this one. A generator may have gone at the second edge."""
    kernel_wait: KernelWait | None = None
    """Of requests before the proxy; ``None`` where no trace tells."""

    @property
    def other_share(self) -> float:
        """Share of the machine's CPU time that went to other processes than the roles, 0 to 1.

        Where nobody looked at them, all that the roles did not use: the kernel's work for the network is in it, too.
        """
        if self.others_ns is not None:
            return min(1.0, self.others_ns / (self.interval_ns * self.cores))
        return self._share_beside(0)

    @property
    def kernel_share(self) -> float | None:
        """Share that went to nobody: interrupts, and the kernel's threads for the network; ``None`` where the others are not known."""
        return None if self.others_ns is None else self._share_beside(self.others_ns)

    def _share_beside(self, others_ns: int) -> float:
        used = sum(role.cpu_ns for role in self.roles.values())
        return max(0.0, (self.busy_ns - used - others_ns) / (self.interval_ns * self.cores))


TOO_FULL = "machines took CPU time from each other"
"""The words by which a verdict says that roles and kernel together left too little of the machine."""


class Verdict(Record):
    """Whether a run counts. Reasons make it invalid; flags warn."""

    valid: bool
    reasons: list[str]
    flags: list[str]
    busy: bool = False
    """Invalid for nothing but what else the machine did: the same run may well be valid later."""

    @property
    def too_full(self) -> bool:
        """Whether it is invalid for what the run itself used: that falls on the faster runs of a cell."""
        return any(TOO_FULL in reason for reason in self.reasons)


class Command(Record):
    """One started process."""

    role: str
    name: str
    argv: list[str]
    exit_status: int | None


class ServerSettings(Record):
    """What a memcached server said of itself (``stats settings``) behind the load."""

    address: str
    threads: Count
    memory_bytes: Count


class ServersRecord(Record):
    """``weir.servers/1``."""

    schema_: Annotated[Literal["weir.servers/1"], Field(alias="schema")] = "weir.servers/1"
    servers: list[ServerSettings]


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
    targets: list[str] = Field(default_factory=list)
    """What ran already and was asked; empty where the run started its servers itself."""
    commands: list[Command]
    executables: dict[str, str]
    versions: dict[str, str]
    machine: dict[str, str | int | float]
    load_average: list[float]
    testbed: TestbedRecord | None = None
    started_unix_ns: int
    ended_unix_ns: int
    measured_s: float | None = None
    """The length of its measured phase that was asked for, where that is not the plan's."""
    cut_windows: Count = 0
    """Windows of one second at the start of the measured phase that MSER-5 left out."""
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
    generators: tuple[LoadRecord, ...] = ()
    """Each load generator's own record; ``load`` is their sum."""
    peer: PeerCounts | None = None
    """Counters of a proxy that is not ours, at the end."""
    servers: ServersRecord | None = None
    """What was in force in the memcached servers; ``None`` of targets, and of runs before it was asked."""
    seconds: MachineSeconds | None = None
    """What the machine did second by second; ``None`` of short runs."""


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


def read_run_metas(sweep: Path) -> list[tuple[Path, RunMeta]]:
    """What all finished runs say about themselves, without their measurements, each with its folder."""
    return [(file.parent, _read_meta(file.parent)) for file in sorted(runs_folder(sweep).glob("*/run.json"))]


def read_run(folder: Path) -> Run:
    """Read one run folder."""
    meta = _read_meta(folder)
    try:
        return read_measurements(folder, meta)
    except RecordError as error:
        if meta.verdict.valid:
            raise _in_the_way(folder, error) from error
        # A failed run may have left damaged records; it is kept and shown, but nothing is computed from it.
        return Run(folder, meta, None, None, None, None, None)


def _read_meta(folder: Path) -> RunMeta:
    try:
        return read_json(folder / "run.json", RunMeta)
    except RecordError as error:
        raise _in_the_way(folder, error) from error


def _in_the_way(folder: Path, error: RecordError) -> RecordError:
    """A finished run that cannot be read stops every command on its sweep; nothing but its owner may take it away."""
    return RecordError(
        f"{error} To have it made again, move {folder} out of {folder.parent}, and give the same command."
    )


def read_measurements(folder: Path, meta: RunMeta) -> Run:
    """Read what was measured; files that are not there become ``None``."""
    generators = _read_generators(folder, meta.settings)
    load = merge_records(generators) if generators else None
    if load is not None and meta.settings.path is RequestPath.PROXY:
        prefill = _read_optional(folder / "prefill.json", LoadRecord)
        load = with_prefill(load, prefill) if prefill is not None else load
    return Run(
        folder,
        meta,
        load=load,
        cpu=_read_optional(folder / "cpu.json", CpuRecord),
        before=_read_snapshots(folder, "before", meta.settings.proxies),
        after=_read_snapshots(folder, "after", meta.settings.proxies),
        end=_read_snapshots(folder, "end", meta.settings.proxies),
        generators=tuple(generators),
        peer=_read_peer(folder, meta.settings.proxies),
        servers=_read_optional(folder / "servers.json", ServersRecord),
        seconds=_read_optional(folder / SECONDS_FILE, MachineSeconds),
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
    write_text(path, json.dumps(plain, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)  # noqa: PTH105 - the atomic rename is the point


def snapshot_name(moment: str, place: int) -> str:
    """File of one proxy's snapshot: ``snapshot-before.json`` of the first, ``snapshot-before-1.json`` of the next."""
    return placed_name(f"snapshot-{moment}", place, "json")


def placed_name(stem: str, place: int, ending: str) -> str:
    """File of one of several that are alike: ``load.json`` of the first, ``load-1.json`` of the next."""
    return f"{stem}.{ending}" if place == 0 else f"{stem}-{place}.{ending}"


def _read_generators(folder: Path, settings: Settings) -> list[LoadRecord]:
    """The records of all load generators; none if one is missing."""
    who = _read_optional(folder / "generators.json", GeneratorsRecord)
    if who is None:  # made before there could be several
        only = _read_optional(folder / "load.json", LoadRecord)
        return [only] if only is not None else []
    found: list[LoadRecord] = []
    for entry in who.generators:
        if entry.generator == "weir":
            record = _read_optional(folder / f"{entry.name}.json", LoadRecord)
            record = shifted(record, entry.clock_offset_ns) if record is not None else None
        else:
            printed = folder / f"{entry.name}.stdout"
            record = load_of_memcaslap(_text(printed), entry, who.warmup_s, who.measured_s, str(printed))
        if record is None:
            return []
        found.append(record)
    return found if len(found) == settings.generators else []


def _read_peer(folder: Path, proxies: int) -> PeerCounts | None:
    """Counters of all proxies of another kind at the end; ``None`` if one is missing."""
    files = [folder / placed_name("stats-end", place, "json") for place in range(proxies)]
    if not all(file.exists() for file in files):
        return None
    return merge_peers([read_nutcracker(_text(file), str(file)) for file in files])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}). Repeat the run.") from error


def _read_snapshots(folder: Path, moment: str, proxies: int) -> Snapshot | None:
    """The snapshots of all proxies at one moment as one; ``None`` if one is missing."""
    found = [_read_optional(folder / snapshot_name(moment, place), Snapshot) for place in range(proxies)]
    known = [snapshot for snapshot in found if snapshot is not None]
    return merge_snapshots(known) if known and len(known) == len(found) else None


def _read_optional(path: Path, model: type[_Model]) -> _Model | None:
    return read_json(path, model) if path.exists() else None
