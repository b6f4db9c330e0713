"""Run folders become numbers per run and per cell, for every kind of section. Start with `read_cells`.

A `Reading` is one valid run, a `CellReadings` all of one cell. A cell without runs is left out, and `SweepReadings.absent` names it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from weir_lab.design import Kind, Role, cells_of, content_sha256, load_study, scheduled_like
from weir_lab.errors import ReportError
from weir_lab.records import Run, read_runs, read_sweep
from weir_lab.records.formats import STAGE_DIGITS, STAGES, subtract_snapshots
from weir_lab.records.tables.found import attempts_by_content, findings_of
from weir_lab.records.windows import windows_of
from weir_lab.report.numbers.sweeps import Observation
from weir_lab.theory.histogram import Histogram, merge_histograms
from weir_lab.theory.laws import cycle_law

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from weir_lab.design import Cell, Level, ScheduledRun, Settings, Study
    from weir_lab.records.formats import Distribution, LoadRecord, SnapshotDifference
    from weir_lab.records.places import TestbedRecord

__all__ = [
    "OPERATION_NAMES",
    "CellReadings",
    "Reading",
    "SweepReadings",
    "operation_s",
    "operation_times",
    "read_cells",
    "stage_s",
    "stage_times",
]

_NETWORK_THREAD = "weir-network"
# Of the generators' CPU time their threads that were seen at both edges must have this share: the others had gone.
_SEEN = 0.8
OPERATION_NAMES = {"get": "GET", "set": "SET", "multiget": "multi-GET"}


@dataclass(frozen=True, eq=False)
class Reading:
    """One valid run. Times in seconds; rates per second of the measured phase."""

    run: Run
    load: LoadRecord

    @property
    def name(self) -> str:
        """Its folder."""
        return self.run.folder.name

    @property
    def settings(self) -> Settings:
        """What it was run with."""
        return self.run.meta.settings

    @property
    def throughput(self) -> float:
        """Requests completed per second, counted at the clients."""
        return self.load.throughput_rps

    @property
    def response_s(self) -> float:
        """Mean response time at the clients."""
        return self.load.response_time_sum_ns / self.load.response_time_count / 1e9

    @property
    def law_deviation(self) -> float:
        """(R + Z - N/X) / (N/X)."""
        settings = self.settings
        return cycle_law(self.throughput, settings.population, self.response_s * 1e9, settings.think_time_s).deviation

    @cached_property
    def seconds(self) -> tuple[float, ...]:
        """Throughput in each whole second of the measured phase."""
        return tuple(one.throughput_rps for one in windows_of(self.load, None, 1))

    @property
    def first_second(self) -> float | None:
        """Throughput in the first second that counts over that of all others: 1 where the warm-up was long enough; ``None`` of few."""
        rest = sum(self.seconds[1:])
        return self.seconds[0] * (len(self.seconds) - 1) / rest if len(self.seconds) > 2 and rest > 0.0 else None

    @property
    def late_throughput(self) -> float | None:
        """Throughput in the second half of the measured phase, by whole seconds; ``None`` of fewer than four."""
        late = self.seconds[(len(self.seconds) + 1) // 2 :]
        return sum(late) / len(late) if len(self.seconds) > 3 else None

    @property
    def keys_per_s(self) -> float:
        """Keys asked for per second in gets and multi-gets."""
        gets = self.load.operations
        keys = sum(
            part.requests * (self.settings.multiget_keys if name == "multiget" else 1)
            for name, part in gets.items()
            if name != "set"
        )
        return self.throughput * keys / self.load.requests

    def operation_s(self, name: str) -> float | None:
        """Mean response time of an operation; ``None`` where there was none of it."""
        part = self.load.operations.get(name)
        if part is None or part.response_time.count == 0:
            return None
        return part.response_time.sum_ns / part.response_time.count / 1e9

    def operation_rate(self, name: str) -> float:
        """Requests of an operation per second."""
        part = self.load.operations.get(name)
        return self.throughput * part.requests / self.load.requests if part is not None else 0.0

    @cached_property
    def times(self) -> Histogram | None:
        """Response times of all operations; ``None`` from a generator that keeps no histogram."""
        return self.load.response_times()

    def percentile_s(self, percent: float) -> float | None:
        """A percentile of the response times; ``None`` with too few samples, or from a generator that keeps no histogram."""
        found = self.times.percentile(percent) if self.times is not None else None
        return None if found is None else found / 1e9

    def operation_times(self, name: str) -> Histogram | None:
        """Response times of one operation."""
        part = self.load.operations.get(name)
        return part.response_time.decoded(f"{self.name}, {name}") if part is not None else None

    @cached_property
    def proxy(self) -> SnapshotDifference | None:
        """What the proxies did between their snapshots; ``None`` without a proxy that tells."""
        if self.run.before is None or self.run.after is None:
            return None
        return subtract_snapshots(self.run.after, self.run.before)

    @property
    def proxy_throughput(self) -> float | None:
        """Requests per second as the proxies counted them."""
        return self.proxy.requests / self.proxy.interval_ns * 1e9 if self.proxy else None

    @property
    def residence_s(self) -> float | None:
        """Mean time in the proxy, from the first stamp to the last."""
        return self.proxy.total_sum_ns / self.proxy.total_count / 1e9 if self.proxy and self.proxy.total_count else None

    def stages_s(self, operation: str | None = None) -> dict[str, float] | None:
        """Mean time per request in each stage of the proxy, of all operations or of one."""
        if self.proxy is None:
            return None
        if operation is None:
            count = self.proxy.total_count
            return {stage: total / count / 1e9 for stage, total in self.proxy.stage_sum_ns.items()} if count else None
        found = {}
        for stage in STAGES:
            now, before = self._stage(operation, stage)
            count = now.count - before.count if now is not None and before is not None else (now.count if now else 0)
            if now is None or count <= 0:
                return None
            found[stage] = (now.sum_ns - (before.sum_ns if before is not None else 0)) / count / 1e9
        return found

    def stage_times(self, operation: str, stage: str) -> Histogram | None:
        """Times in one stage of one operation."""
        return self._between(*self._stage(operation, stage), f"{operation}.{stage}")

    def proxy_times_of(self, operation: str) -> Histogram | None:
        """Whole times in the proxy of one operation."""
        before, after = (
            found.total if one is not None and (found := one.operations.get(operation)) is not None else None
            for one in (self.run.before, self.run.after)
        )
        return self._between(after, before, f"{operation}.total")

    @cached_property
    def proxy_times(self) -> Histogram | None:
        """Whole times in the proxy, from the first stamp to the last, of all operations."""
        return merge_histograms(times for name in OPERATION_NAMES if (times := self.proxy_times_of(name)) is not None)

    def cores(self, role: Role) -> float | None:
        """Cores that a role kept busy."""
        cpu = self.run.cpu
        if cpu is None:
            return None
        if role is Role.CLIENT:
            return (self.load.cpu.user_ns + self.load.cpu.system_ns) / self.load.measured.duration_ns
        spent = cpu.roles.get(role.value)
        return spent.cpu_ns / cpu.interval_ns if spent else None

    def cpu_s(self, role: Role) -> float | None:
        """CPU time that a role spent per request of the clients."""
        cores = self.cores(role)
        return None if cores is None else cores / self.throughput

    @property
    def machine_cpu_s(self) -> float | None:
        """CPU time that the whole machine spent per request of the clients, without other programs where these are known."""
        cpu = self.run.cpu
        if cpu is None or self.throughput <= 0.0:
            return None
        busy = cpu.busy_ns - (cpu.others_ns or 0)
        return max(0.0, busy / cpu.interval_ns / self.throughput)

    def wire_bytes(self, tier: str) -> float | None:
        """Bytes that the machines of a tier sent per request, headers included; ``None`` where one did not count them."""
        cpu = self.run.cpu
        if cpu is None:
            return None
        sent = [use.sent_bytes for name, use in cpu.machines.items() if name.startswith(f"{tier}-")]
        known = [count for count in sent if count is not None]
        if not known or len(known) != len(sent):
            return None
        return sum(known) / cpu.interval_ns * 1e9 / self.throughput

    @property
    def network_thread(self) -> float | None:
        """Cores that the network threads of all proxies kept busy; ``None`` where they are not known, or there are none."""
        thread = self._network_threads
        return None if thread is None else thread[0]

    @property
    def network_thread_waits(self) -> float | None:
        """Share of the time in which a proxy's network thread was ready and waited to be let run, by the kernel's count."""
        thread = self._network_threads
        return None if thread is None else thread[1]

    @property
    def _network_threads(self) -> tuple[float, float] | None:
        cpu = self.run.cpu
        thread = cpu.threads.get(Role.PROXY.value, {}).get(_NETWORK_THREAD) if cpu is not None else None
        if cpu is None or thread is None:
            return None
        return thread.cpu_ns / cpu.interval_ns, thread.waited_ns / cpu.interval_ns / max(1, thread.threads)

    @property
    def generators_wait(self) -> float | None:
        """Share of the time in which a generator's thread was ready and waited to be let run, by the kernel's count.

        ``None`` where it is not known: a generator may have gone before its threads were looked at.
        """
        cpu = self.run.cpu
        threads = cpu.threads.get(Role.CLIENT.value, {}).values() if cpu is not None else ()
        spent = cpu.roles.get(Role.CLIENT.value) if cpu is not None else None
        if cpu is None or spent is None or not threads or sum(one.cpu_ns for one in threads) < _SEEN * spent.cpu_ns:
            return None
        count = self.settings.client_threads * self.settings.generators
        return min(1.0, sum(one.waited_ns for one in threads) / cpu.interval_ns / count)

    @property
    def clients_held(self) -> float | None:
        """Share of the time for which its CPU quota held a client machine; ``None`` without quotas."""
        cpu = self.run.cpu
        held = [use.throttled_ns for name, use in cpu.machines.items() if name.startswith("client-")] if cpu else []
        known = [one for one in held if one is not None]
        return sum(known) / len(known) / cpu.interval_ns if cpu is not None and known else None

    @property
    def socket_wait_s(self) -> float | None:
        """Mean time that a request's bytes lay in a proxy's socket before they were read, by sampled requests; ``None`` without such."""
        wait = self.run.cpu.kernel_wait if self.run.cpu is not None else None
        return wait.sum_ns / wait.count / 1e9 if wait is not None and wait.count else None

    def slowness_ns(self) -> float | None:
        """What the yardstick took on the machine's cores; ``None`` where it was not read."""
        return self.run.cpu.slowness_ns() if self.run.cpu else None

    @property
    def machine_busy(self) -> float | None:
        """Share of this machine's CPU time that was busy, whoever used it."""
        cpu = self.run.cpu
        return min(1.0, cpu.busy_ns / (cpu.interval_ns * cpu.cores)) if cpu else None

    @property
    def others_busy(self) -> float | None:
        """Share of this machine's CPU time that programs used which are no part of the run; ``None`` where nobody looked at them."""
        cpu = self.run.cpu
        return cpu.other_share if cpu and cpu.others_ns is not None else None

    def _between(self, now: Distribution | None, before: Distribution | None, where: str) -> Histogram | None:
        """What was recorded since the earlier snapshot."""
        if now is None:
            return None
        later = now.decoded(f"{self.name}, {where}")
        earlier = before.decoded(f"{self.name}, {where}, before") if before is not None else None
        times = later - earlier if later is not None and earlier is not None else later
        return times.coarser(STAGE_DIGITS) if times is not None else None

    def _stage(self, operation: str, stage: str) -> tuple[Distribution | None, Distribution | None]:
        def of(snapshot_operations: dict[str, object] | None) -> Distribution | None:
            found = (snapshot_operations or {}).get(operation)
            return found.stages.get(stage) if found is not None else None  # type: ignore[attr-defined]

        after = dict(self.run.after.operations) if self.run.after else None
        before = dict(self.run.before.operations) if self.run.before else None
        return of(after), of(before)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class CellReadings:
    """One cell with its valid runs, in the order of the blocks.

    ``among`` are the cells of its sweep that tell about its spread: those of reads, of writes, or of both mixed.
    """

    cell: Cell
    runs: tuple[Reading, ...]
    among: tuple[CellReadings, ...] = field(default=(), repr=False)

    @property
    def settings(self) -> Settings:
        """All of them."""
        return self.cell.settings

    def level(self, name: str) -> Level:
        """A setting, by name."""
        value: Level = getattr(self.cell.settings, name)
        return value

    def of(self, value: Callable[[Reading], float | None]) -> list[float]:
        """One number per run; runs without it are left out."""
        return [found for run in self.runs if (found := value(run)) is not None]

    @property
    def throughputs(self) -> list[float]:
        """Throughput of each run."""
        return self.of(lambda run: run.throughput)

    @property
    def mean_throughput(self) -> float:
        """Mean over runs."""
        return sum(self.throughputs) / len(self.throughputs)

    @property
    def mean_response_s(self) -> float:
        """Mean over runs."""
        found = self.of(lambda run: run.response_s)
        return sum(found) / len(found)

    def percentile_s(self, percent: float) -> list[float]:
        """A percentile per run; empty where a run has too few samples for it."""
        found = [run.percentile_s(percent) for run in self.runs]
        known = [value for value in found if value is not None]
        return known if len(known) == len(found) else []

    def merged(self, times: Callable[[Reading], Histogram | None]) -> Histogram | None:
        """Histograms of all runs as one."""
        return merge_histograms(found for run in self.runs if (found := times(run)) is not None)


@dataclass(frozen=True, eq=False)
class SweepReadings:
    """One sweep: its study, the cells that have runs, and what is not there."""

    file: str
    folder: Path
    study: Study
    cells: tuple[CellReadings, ...]
    absent: tuple[str, ...]
    invalid_names: tuple[str, ...]
    flagged: int
    testbed: TestbedRecord | None
    facts: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    """How many of the invalid attempts were so for a busy machine alone."""
    unloaded: tuple[Run, ...] = ()
    """Valid runs of a study without load; what they counted stands in their folders."""
    too_full: dict[str, int] = field(default_factory=dict)
    """How many of the invalid attempts used too much of the machine, by the name of their cell."""

    def __post_init__(self) -> None:
        groups: dict[bool | None, list[CellReadings]] = {}
        for cell in self.cells:
            groups.setdefault(_operations(cell), []).append(cell)
        for cell in self.cells:
            object.__setattr__(cell, "among", tuple(groups[_operations(cell)]))

    @property
    def varied(self) -> list[str]:
        """Factors with more than one level among the cells that are there."""
        return [name for name in self.study.factors if len({dict(cell.cell.levels)[name] for cell in self.cells}) > 1]

    @property
    def invalid(self) -> int:
        """Attempts that failed a gate, and are left out."""
        return len(self.invalid_names)

    @property
    def links_built(self) -> bool:
        """Whether the testbed limited what each machine sends."""
        return self.testbed is not None and any(machine.link_mbit_s is not None for machine in self.testbed.machines)

    @property
    def speed(self) -> float:
        """The speed factor that the testbed was built with: a rate divided by it, and a time times it, are the study's."""
        return self.testbed.speed if self.testbed is not None else 1.0

    @property
    def run_names(self) -> tuple[str, ...]:
        """All run folders that numbers come from."""
        loaded = tuple(run.name for cell in self.cells for run in cell.runs)
        return loaded + tuple(run.folder.name for run in self.unloaded)

    def observations(self, keep: Callable[[CellReadings], bool] = lambda _: True) -> list[Observation]:
        """One per run, as `sweeps` takes them."""
        return [
            Observation(
                tuple(run.run.meta.levels.items()),
                run.run.meta.repetition,
                run.run.meta.started_unix_ns,
                run.settings.population,
                run.throughput,
                run.response_s,
                run.percentile_s(99.0),
                run.settings.workers,
                run.settings.think_time_s,
                run.residence_s,
            )
            for cell in self.cells
            if keep(cell)
            for run in cell.runs
        ]


def _operations(cell: CellReadings) -> bool | None:
    """False of reads alone, True of writes alone, None of both: each has an error of its own."""
    return {0.0: False, 1.0: True}.get(cell.settings.write_ratio)


def operation_s(name: str) -> Callable[[Reading], float | None]:
    """Mean response time of an operation, as a question to a run."""
    return lambda run: run.operation_s(name)


def operation_times(name: str) -> Callable[[Reading], Histogram | None]:
    """Response times of an operation, as a question to a run."""
    return lambda run: run.operation_times(name)


def stage_s(stage: str) -> Callable[[Reading], float | None]:
    """Mean time in a stage, as a question to a run."""
    return lambda run: (run.stages_s() or {}).get(stage)


def stage_times(operation: str, stage: str) -> Callable[[Reading], Histogram | None]:
    """Times of an operation in a stage, as a question to a run."""
    return lambda run: run.stage_times(operation, stage)


def read_cells(file: str, folder: Path, only: Collection[str] | None = None) -> SweepReadings:
    """All valid runs of a sweep's current study; with ``only``, those of these run folders."""
    study = load_study(folder / "study.toml")
    executables = read_sweep(folder).executables
    runs, _ = read_runs(folder)
    if only is not None:
        missing = set(only) - {run.folder.name for run in runs}
        if missing:
            raise ReportError(
                f"{folder}: runs of the report are gone: {', '.join(sorted(missing)[:5])}. Bring them back."
            )
        runs = [run for run in runs if run.folder.name in set(only)]
    searched = study.find is not None
    planned = _searched(study, executables, runs) if searched else scheduled_like(study, [run.meta for run in runs])
    wanted = {content_sha256(study, run, executables): run for run in planned}
    chosen: dict[str, dict[int, Reading]] = {}
    invalid: list[str] = []
    dropped, too_full = 0, Counter[str]()
    newest: Run | None = None
    unloaded: list[Run] = []
    for run in runs:
        scheduled = wanted.get(run.meta.content_sha256)
        if scheduled is None:
            continue
        if study.kind not in _LOADS and run.meta.verdict.valid:
            unloaded.append(run)
            newest = run
            continue
        if not run.meta.verdict.valid or run.load is None or run.load.response_time_count == 0:
            invalid.append(run.folder.name)
            dropped += run.meta.verdict.busy
            too_full[scheduled.cell.name] += run.meta.verdict.too_full
            continue
        chosen.setdefault(scheduled.cell.name, {}).setdefault(scheduled.repetition, Reading(run, run.load))
        newest = run
    cells = cells_of(study) if study.find is None else list({run.cell.name: run.cell for run in planned}.values())
    there = tuple(
        CellReadings(cell, tuple(found[repetition] for repetition in sorted(found)))
        for cell in cells
        if (found := chosen.get(cell.name))
    )
    used = [run for cell in there for run in cell.runs]
    return SweepReadings(
        file,
        folder,
        study,
        there,
        tuple(cell.name for cell in cells if cell.name not in chosen) if study.kind in _LOADS else (),
        tuple(invalid),
        sum(bool(run.run.meta.verdict.flags) for run in used),
        newest.meta.testbed if newest else None,
        _facts(newest) if newest else {},
        dropped,
        tuple(unloaded),
        {name: count for name, count in too_full.items() if count},
    )


def _searched(study: Study, executables: dict[str, str], runs: Sequence[Run]) -> list[ScheduledRun]:
    """The runs that the searches asked for, which nobody knows before: each is a function of what those before it said."""
    known = attempts_by_content([(run.folder, run.meta) for run in runs])
    return [probe.run for finding in findings_of(study, executables, known) for probe in finding.probes]


_LOADS = (Kind.LOAD, Kind.TRACE, Kind.MICRO)


def _facts(run: Run) -> dict[str, str]:
    machine = {name.replace("_", " "): str(value) for name, value in run.meta.machine.items()}
    return {**machine, **run.meta.versions, "weir, SHA-256": run.meta.executables.get("weir", "")}
