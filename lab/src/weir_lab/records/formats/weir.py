"""What `weir load` and `weir proxy` write: ``weir.load/1`` and ``weir.proxy/1`` of docs/reference/formats.md.

Unknown fields are ignored, since fields may be added; a field that is missing or of another kind is an error. Two snapshots subtract
exactly. Read `LoadRecord` and `subtract_snapshots` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from weir_lab.errors import RecordError
from weir_lab.theory.histogram import Histogram, merge_histograms

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "STAGES",
    "STAGE_DIGITS",
    "Count",
    "CrewSize",
    "Distribution",
    "LoadBottleneck",
    "LoadConfig",
    "LoadCpu",
    "LoadFailures",
    "LoadOperation",
    "LoadPacing",
    "LoadRecord",
    "LoadSchedule",
    "LoadWindow",
    "MergedDistribution",
    "Phase",
    "ProxyConfig",
    "ProxySettings",
    "ProxyStation",
    "Record",
    "Snapshot",
    "SnapshotDifference",
    "SnapshotOperation",
    "SnapshotProcess",
    "load_name",
    "merge_snapshots",
    "subtract_snapshots",
]

STAGE_DIGITS = 2
"""Significant digits by which reports distinguish times inside the proxy (steps of 0.8 %): all that is kept of them."""
STAGES = ("read", "dispatch", "queue", "send", "backend", "reply")

Count = Annotated[int, Field(ge=0)]


def load_name(number: int) -> str:
    """Name of a generator and of its files, by its number in the run."""
    return "load" if number == 0 else f"load-{number}"


class Record(BaseModel):
    """Base of all records."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Distribution(Record):
    """Recorded times. ``count`` and ``sum_ns`` are exact; the histogram has three significant digits."""

    count: Count
    sum_ns: Count
    histogram: str | None
    without_histogram: bool = False
    """The generator that reported the times has none (`foreign`)."""

    def decoded(self, where: str) -> Histogram | None:
        """The histogram, or ``None`` where nothing was recorded or there is none; the count must agree with it."""
        if self.histogram is None:
            if self.count and not self.without_histogram:
                raise RecordError(f"{where}: {self.count} times without a histogram. Repeat the run.")
            return None
        histogram = Histogram.decode(self.histogram, where)
        if histogram.total != self.count:
            raise RecordError(
                f"{where}: count is {self.count}, but the histogram holds {histogram.total}. Repeat the run."
            )
        return histogram


class MergedDistribution(Distribution):
    """The times of several distributions together. Their histograms are added when somebody asks, which for most nobody does."""

    parts: tuple[Distribution, ...]

    @staticmethod
    def of(parts: Sequence[Distribution]) -> MergedDistribution:
        """All of them."""
        return MergedDistribution(
            count=sum(part.count for part in parts),
            sum_ns=sum(part.sum_ns for part in parts),
            histogram=None,
            parts=tuple(parts),
        )

    def decoded(self, where: str) -> Histogram | None:
        """The sum of the parts' histograms."""
        return merge_histograms(times for part in self.parts if (times := part.decoded(where)) is not None)


class Phase(Record):
    """One phase of the load generator."""

    start_unix_ns: int
    duration_ns: Count
    requests: Count
    errors: Count
    misses: Count
    failures: Count


class LoadOperation(Record):
    """One operation in the measured phase, as the client saw it."""

    requests: Count
    misses: Count
    errors: Count
    response_time: Distribution


class LoadPacing(Record):
    """Whether requests come at a rate of their own, and at which."""

    loop: str
    rate: str | None = None
    arrivals: str | None = None


class LoadConfig(Record):
    """The part of the generator's configuration that the lab checks against the cell. Other generators do not tell what may be absent."""

    targets: list[str]
    connections: int
    depth: int
    threads: int
    keys: int | None = None
    key_size_bytes: int | None = None
    value_size_bytes: int | None = None
    multiget_keys: int | None = None
    write_ratio: float | None = None
    seed: int | None = None
    pacing: LoadPacing | None = None


class LoadWindow(Record):
    """One window of the measured phase; the last may be shorter."""

    start_ns: Count
    length_ns: Count
    requests: Count
    response_time_sum_ns: Count = 0


class LoadCpu(Record):
    """The generator's own CPU time in the measured phase."""

    user_ns: Count
    system_ns: Count


class LoadFailures(Record):
    """Replies that failed verification, and connections that broke."""

    count: Count
    first: list[str]


class LoadSchedule(Record):
    """What an open loop offered in the measured phase, and how well the generator itself kept to it."""

    arrivals: Count
    offered_rate_rps: Annotated[float, Field(ge=0)]
    unsent: Count
    """Arrivals for which the backlog had no room: they were never sent."""
    late: Count
    """Sent too late by the generator's own fault."""
    completed: Count | None = None
    """Answered in the measured phase, without what answers asked for; ``None`` in records from before it was counted."""


class LoadBottleneck(Record):
    """Who set the pace of a run, in the generator's own opinion."""

    who: str
    kept_up: float | None = None
    """Share of an open loop's arrivals that the target kept up with; ``None`` where it kept up, and elsewhere."""


class LoadRecord(Record):
    """``weir.load/1``."""

    schema_: Annotated[Literal["weir.load/1"], Field(alias="schema")]
    generator: str = "weir"
    """Which load generator it was; records of others are made from what they print (`foreign`)."""
    weir_version: str
    config: LoadConfig
    phases: dict[str, Phase]
    operations: dict[str, LoadOperation]
    throughput_rps: Annotated[float, Field(ge=0)]
    windows: list[LoadWindow]
    cpu: LoadCpu
    failures: LoadFailures
    errors: dict[str, int]
    scheduled: LoadSchedule | None = None
    """``None`` in a closed loop."""
    bottleneck: LoadBottleneck | None = None
    """``None`` where nothing was measured, from other generators, and of several as one."""
    foreign_values: Count = 0

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
        """Response times of all operations of the measured phase, merged; ``None`` where the generator has no histograms."""
        parts = [
            operation.response_time.decoded(f"load.json, operations.{name}.response_time")
            for name, operation in self.operations.items()
        ]
        return merge_histograms(part for part in parts if part is not None)


class SnapshotOperation(Record):
    """One operation at the proxy since its start."""

    requests: Count
    errors: Count
    stages: dict[str, Distribution]
    total: Distribution


class SnapshotProcess(Record):
    """The proxy's process."""

    cpu_user_ns: Count
    cpu_system_ns: Count


class ProxySettings(Record):
    """Settings by the names of their flags, as far as only these tell them."""

    crew: str | None = None


class ProxyConfig(Record):
    """What was in force in a proxy, as far as studies set it."""

    engine: str | None = None
    threads: int | None = None
    replicas: int | None = None
    servers: list[str] | None = None
    placement: str | None = None
    multiget: str | None = None
    settings: ProxySettings = ProxySettings()


class CrewSize(Record):
    """How many workers of a queue might serve at once: at the last look, the fewest since the start, and summed over time."""

    now: Count
    least: Count
    time_integral_ns: Count


class ProxyStation(Record):
    """Those who serve, or wait, in a threaded engine."""

    station: str
    threads: Count
    server: str | None = None
    crew: CrewSize | None = None
    """Of a queue, how many of its workers might serve at once; ``None`` where that is not reported."""


class Snapshot(Record):
    """``weir.proxy/1``."""

    schema_: Annotated[Literal["weir.proxy/1"], Field(alias="schema")]
    weir_version: str
    taken_unix_ns: int
    uptime_ns: Count
    process: SnapshotProcess
    operations: dict[str, SnapshotOperation]
    config: ProxyConfig | None = None
    stations: list[ProxyStation] = Field(default_factory=list)
    beside: tuple[Snapshot, ...] = ()
    """Of several proxies as one, the snapshots of the others."""

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


def merge_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Several proxies side by side as one: counts and sums of times added, histograms merged, so that means are weighted by requests.

    The time that passes is that of the first: all of them run side by side, and are asked one after the other.
    """
    first = snapshots[0]
    if len(snapshots) == 1:
        return first
    names = dict.fromkeys(name for snapshot in snapshots for name in snapshot.operations)
    return first.model_copy(
        update={
            "beside": tuple(snapshots[1:]),
            "process": SnapshotProcess(
                cpu_user_ns=sum(snapshot.process.cpu_user_ns for snapshot in snapshots),
                cpu_system_ns=sum(snapshot.process.cpu_system_ns for snapshot in snapshots),
            ),
            "operations": {
                name: _merged_operation(
                    [snapshot.operations[name] for snapshot in snapshots if name in snapshot.operations]
                )
                for name in names
            },
        }
    )


def _merged_operation(parts: Sequence[SnapshotOperation]) -> SnapshotOperation:
    stages = dict.fromkeys(stage for part in parts for stage in part.stages)
    return SnapshotOperation(
        requests=sum(part.requests for part in parts),
        errors=sum(part.errors for part in parts),
        stages={
            stage: MergedDistribution.of([part.stages[stage] for part in parts if stage in part.stages])
            for stage in stages
        },
        total=MergedDistribution.of([part.total for part in parts]),
    )


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


def _histogram_difference(now: Distribution, before: Distribution | None, where: str) -> Histogram | None:
    later = now.decoded(f"snapshot, {where}")
    earlier = before.decoded(f"earlier snapshot, {where}") if before else None
    return later - earlier if later is not None and earlier is not None else later
