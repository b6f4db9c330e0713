"""What is taken from another generator's result, in our units, and what to distrust about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ImportedOperation", "ImportedRun", "ImportedWindow", "Log2Percentile", "log2_percentile", "rows_of"]


@dataclass(frozen=True)
class ImportedOperation:
    """One operation over a run. ``None`` is what the generator did not say, or says wrongly."""

    count: int | None
    throughput_rps: float | None
    misses: int | None
    misses_per_s: float | None
    mean_us: float | None
    sd_us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    percentiles_us: dict[float, float] = field(default_factory=dict)
    cumulative: tuple[tuple[float, float], ...] = ()
    """Upper bounds in µs, and the percent of requests up to them."""


@dataclass(frozen=True)
class ImportedWindow:
    """One window of a run over all operations, ``start_s`` seconds after its begin."""

    start_s: float
    length_s: float
    count: int
    mean_us: float | None


@dataclass(frozen=True)
class ImportedRun:
    """One run. ``faults`` make it unusable; ``doubts`` are what a reader must know."""

    generator: str
    name: str
    connections: int | None
    seconds: float | None
    operations: dict[str, ImportedOperation]
    windows: tuple[ImportedWindow, ...] = ()
    faults: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Log2Percentile:
    """A percentile of a log2 distribution: it lies in (low, high], and where in it is a matter of interpolation."""

    low_us: float
    high_us: float
    linear_us: float
    geometric_us: float


def log2_percentile(counts: Mapping[int, int], percent: float) -> Log2Percentile | None:
    """Percentile of counts by index, where index i holds 2^(i-1) < v <= 2^i µs and index 0 holds v <= 1; ``None`` without counts.

    The error of either interpolation is up to the width of the step, a factor of two.

    >>> log2_percentile({5: 10, 6: 10}, 100.0)
    Log2Percentile(low_us=32.0, high_us=64.0, linear_us=64.0, geometric_us=64.0)
    """
    total = sum(counts.values())
    if total == 0:
        return None
    rank, before = percent / 100.0 * total, 0
    for index in sorted(counts):
        inside = counts[index]
        if inside and before + inside >= rank:
            share = (rank - before) / inside
            high = float(2**index)
            low = high / 2.0 if index else 0.0
            geometric = low * math.pow(2.0, share) if index else high * share
            return Log2Percentile(low, high, low + (high - low) * share, geometric)
        before += inside
    return None


def rows_of(run: ImportedRun) -> list[dict[str, str | int | float | None]]:
    """Rows in the columns of ``runs.csv`` and ``summary.csv``, one per operation."""
    rows: list[dict[str, str | int | float | None]] = []
    for name, operation in run.operations.items():
        row: dict[str, str | int | float | None] = {
            "run": run.name,
            "generator": run.generator,
            "operation": name,
            "clients": run.connections,
            "measured_s": run.seconds,
            "requests": operation.count,
            "throughput_rps": operation.throughput_rps,
            "mean_response_time_us": operation.mean_us,
            "sd_response_time_us": operation.sd_us,
            "misses": operation.misses,
            "misses_per_s": operation.misses_per_s,
        }
        row |= {f"p{percent:g}_us": value for percent, value in sorted(operation.percentiles_us.items())}
        rows.append({**row, "faults": "; ".join(run.faults), "doubts": "; ".join(run.doubts)})
    return rows
