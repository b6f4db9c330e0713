"""Several generators that loaded the same targets at the same time, as one.

Rates are summed, histograms are merged step by step, and mean times are never averaged. Generators begin together with
``weir load --start-at``; where their measured phases do not cover the same time, what they sum up to never happened, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.histogram import PERCENTILE_MIN_COUNTS, Histogram, merge_histograms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.formats import LoadRecord

__all__ = ["OVERLAP_MIN", "MergedLoad", "MergedOperation", "merge_loads"]

OVERLAP_MIN = 0.99
"""The least share of the longest measured phase that all must have in common. At 0.99 clocks that differ by 0.1 s pass in runs of 10 s."""


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
    )


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
            "ran for different times. Start them with the same --start-at, --warmup and --duration, and with clocks that agree."
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
