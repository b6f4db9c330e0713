"""Several generators that loaded the same targets at the same time, as one.

Rates are summed, histograms are merged step by step, and mean times are never averaged. Generators begin together with
``weir load --start-at``; where their measured phases do not cover the same time, what they sum up to never happened, and is refused.
Moments are those of each machine's own clock, unless `shifted` has brought them together: how far clocks are apart no record says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.records.formats.weir import (
    Distribution,
    LoadConfig,
    LoadCpu,
    LoadFailures,
    LoadOperation,
    LoadRecord,
    LoadSchedule,
    LoadWindow,
    Phase,
)
from weir_lab.theory.histogram import PERCENTILE_MIN_COUNTS, Histogram, merge_histograms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "OVERLAP_MIN",
    "MergedLoad",
    "MergedOperation",
    "doubts_of",
    "merge_loads",
    "merge_records",
    "shifted",
    "with_prefill",
]

_FIRST_FAILURES = 10

OVERLAP_MIN = 0.99
"""The least share of the longest measured phase that all must have in common. At 0.99 generators pass that say that they
began 0.1 s apart, in runs of 10 s. Those with one ``--start-at`` say that they began together, whatever their clocks."""


@dataclass(frozen=True)
class MergedOperation:
    """One operation over all generators, in their measured phases."""

    requests: int
    misses: int
    errors: int
    response_time_count: int
    response_time_sum_ns: int
    response_times: Histogram | None

    @property
    def mean_ns(self) -> float | None:
        """Mean response time in nanoseconds: sum over count, both exact."""
        return self.response_time_sum_ns / self.response_time_count if self.response_time_count else None

    def percentiles_ns(self) -> dict[float, int | None]:
        """Percentiles of the merged histogram in nanoseconds; ``None`` where there are too few samples."""
        times = self.response_times
        return {percent: times.percentile(percent) if times else None for percent in PERCENTILE_MIN_COUNTS}


@dataclass(frozen=True)
class MergedLoad:
    """What several generators measured together."""

    generators: int
    connections: int
    throughput_rps: float
    overlap: float
    """Share of the longest measured phase that all had in common."""
    operations: dict[str, MergedOperation]
    failures: int
    errors: dict[str, int]
    scheduled: LoadSchedule | None = None
    """What open loops, and clients that think, offered together."""
    warnings: tuple[str, ...] = ()
    """Why the generators are no independent clients, one sentence each."""

    @property
    def all(self) -> MergedOperation:
        """All operations as one."""
        return _sum(list(self.operations.values()))


def merge_loads(records: Sequence[LoadRecord]) -> MergedLoad:
    """Sum `records`, one per generator.

    Raises
    ------
    RecordError
        If there are none, if their measured phases have less than `OVERLAP_MIN` in common, or if a record is not whole.
    """
    if not records:
        raise RecordError("There is nothing to merge. Give one record of weir load --json per generator.")
    names = dict.fromkeys(name for record in records for name in record.operations)
    return MergedLoad(
        generators=len(records),
        connections=sum(record.config.connections for record in records),
        throughput_rps=sum(record.throughput_rps for record in records),
        overlap=_overlap(records),
        operations={name: _operation(name, records) for name in names},
        failures=sum(record.failures.count for record in records),
        errors=_sum_by_text(records),
        scheduled=_scheduled([record.scheduled for record in records if record.scheduled is not None]),
        warnings=tuple(_shared_seeds(records)),
    )


def doubts_of(record: LoadRecord) -> list[str]:
    """What speaks against one generator's times and rates, a few words each. Failures and error replies are summed and no part of it."""
    doubts = []
    if (pace := record.bottleneck) is not None:
        if pace.who == "generator":
            doubts.append("the generator was the bottleneck")
        elif pace.who == "target" and pace.kept_up is not None:
            doubts.append("the target fell behind, so times grow with the run's length")
    if (offered := record.scheduled) is not None:
        if offered.unsent:
            doubts.append(f"{offered.unsent} of {offered.arrivals} requests were never sent")
        if offered.late:
            doubts.append(f"{offered.late} of {offered.arrivals} requests were late by the generator's own fault")
    if record.foreign_values:
        doubts.append(f"{record.foreign_values} values were written by another run")
    return doubts


def _shared_seeds(records: Sequence[LoadRecord]) -> Iterator[str]:
    """A sentence for each seed that several open loops have."""
    seeds = Counter(
        record.config.seed
        for record in records
        if record.config.seed is not None and record.config.pacing is not None and record.config.pacing.loop == "open"
    )
    for seed, generators in seeds.items():
        if generators > 1:
            yield (
                f"{generators} generators have the seed {seed}: they sent the same arrivals at the same moments, for the same keys, "
                "and were no independent clients. Give each its own --seed."
            )


def merge_records(records: Sequence[LoadRecord]) -> LoadRecord:
    """Several generators as one record of the same form: counts, sums and CPU time added, histograms merged, windows second by second.

    Times of the first generator stand for all: that they measured together has been required.
    """
    if len(records) == 1:
        return records[0]
    merged = merge_loads(records)
    first = records[0]
    names = dict.fromkeys(name for record in records for name in record.phases)
    return first.model_copy(
        update={
            "config": LoadConfig(
                targets=list(dict.fromkeys(target for record in records for target in record.config.targets)),
                connections=merged.connections,
                depth=first.config.depth,
                threads=sum(record.config.threads for record in records),
            ),
            "phases": {
                name: _phase([record.phases[name] for record in records if name in record.phases]) for name in names
            },
            "operations": {name: _plain(operation) for name, operation in merged.operations.items()},
            "throughput_rps": merged.throughput_rps,
            "windows": _windows(records),
            "cpu": LoadCpu(
                user_ns=sum(record.cpu.user_ns for record in records),
                system_ns=sum(record.cpu.system_ns for record in records),
            ),
            "failures": LoadFailures(
                count=merged.failures,
                first=[text for record in records for text in record.failures.first][:_FIRST_FAILURES],
            ),
            "errors": merged.errors,
            "scheduled": merged.scheduled,
            "bottleneck": None,
            "foreign_values": sum(record.foreign_values for record in records),
        }
    )


def _scheduled(parts: Sequence[LoadSchedule]) -> LoadSchedule | None:
    if not parts:
        return None
    completed = [part.completed for part in parts if part.completed is not None]
    return LoadSchedule(
        arrivals=sum(part.arrivals for part in parts),
        offered_rate_rps=sum(part.offered_rate_rps for part in parts),
        unsent=sum(part.unsent for part in parts),
        late=sum(part.late for part in parts),
        completed=sum(completed) if len(completed) == len(parts) else None,
    )


def shifted(record: LoadRecord, clock_offset_ns: int) -> LoadRecord:
    """The record in the time of a clock from which its machine's was `clock_offset_ns` away."""
    if clock_offset_ns == 0:
        return record
    phases = {
        name: phase.model_copy(update={"start_unix_ns": phase.start_unix_ns - clock_offset_ns})
        for name, phase in record.phases.items()
    }
    return record.model_copy(update={"phases": phases})


def with_prefill(record: LoadRecord, prefill: LoadRecord) -> LoadRecord:
    """The record with all requests of a generator that set the keys before: the proxy has counted them, too."""
    before = _phase(list(prefill.phases.values()))
    there = record.phases.get("prefill")
    return record.model_copy(
        update={"phases": {"prefill": _phase([before, there]) if there else before, **_without_prefill(record)}}
    )


def _without_prefill(record: LoadRecord) -> dict[str, Phase]:
    return {name: phase for name, phase in record.phases.items() if name != "prefill"}


def _phase(parts: Sequence[Phase]) -> Phase:
    return Phase(
        start_unix_ns=min(part.start_unix_ns for part in parts),
        duration_ns=max(part.duration_ns for part in parts),
        requests=sum(part.requests for part in parts),
        errors=sum(part.errors for part in parts),
        misses=sum(part.misses for part in parts),
        failures=sum(part.failures for part in parts),
    )


def _plain(operation: MergedOperation) -> LoadOperation:
    times = operation.response_times
    return LoadOperation(
        requests=operation.requests,
        misses=operation.misses,
        errors=operation.errors,
        response_time=Distribution(
            count=operation.response_time_count,
            sum_ns=operation.response_time_sum_ns,
            histogram=times.encode() if times is not None else None,
            without_histogram=times is None and operation.response_time_count > 0,
        ),
    )


def _windows(records: Sequence[LoadRecord]) -> list[LoadWindow]:
    """Second by second; a second that not all generators have would show their end, not the load's."""
    return [
        LoadWindow(
            start_ns=same[0].start_ns,
            length_ns=same[0].length_ns,
            requests=sum(window.requests for window in same),
            response_time_sum_ns=sum(window.response_time_sum_ns for window in same),
        )
        for same in zip(*(record.windows for record in records), strict=False)
    ]


def _overlap(records: Sequence[LoadRecord]) -> float:
    phases = [record.measured for record in records]
    begins = [phase.start_unix_ns for phase in phases]
    ends = [phase.start_unix_ns + phase.duration_ns for phase in phases]
    longest = max(phase.duration_ns for phase in phases)
    if longest == 0:
        raise RecordError("A generator measured nothing. Repeat the run.")
    overlap = max(0, min(ends) - max(begins)) / longest
    if overlap < OVERLAP_MIN:
        apart_s = (max(begins) - min(begins)) / 1e9
        raise RecordError(
            f"The generators measured together for only {overlap:.1%} of the time: they began {apart_s:.3f} s apart, or "
            "ran for different times. Start them with the same --start-at, --warmup and --duration."
        )
    return overlap


def _operation(name: str, records: Sequence[LoadRecord]) -> MergedOperation:
    parts = []
    for number, record in enumerate(records, start=1):
        operation = record.operations.get(name)
        if operation is None:
            continue
        times = operation.response_time
        where = f"record {number}, operations.{name}.response_time"
        parts.append(
            MergedOperation(
                operation.requests,
                operation.misses,
                operation.errors,
                times.count,
                times.sum_ns,
                times.decoded(where),
            )
        )
    return _sum(parts)


def _sum(parts: Sequence[MergedOperation]) -> MergedOperation:
    return MergedOperation(
        requests=sum(part.requests for part in parts),
        misses=sum(part.misses for part in parts),
        errors=sum(part.errors for part in parts),
        response_time_count=sum(part.response_time_count for part in parts),
        response_time_sum_ns=sum(part.response_time_sum_ns for part in parts),
        response_times=merge_histograms(part.response_times for part in parts if part.response_times is not None),
    )


def _sum_by_text(records: Sequence[LoadRecord]) -> dict[str, int]:
    texts = dict.fromkeys(text for record in records for text in record.errors)
    return {text: sum(record.errors.get(text, 0) for record in records) for text in texts}
