"""A run of another load generator in the form of ours, as far as it goes: `load_of_memcaslap`. Pure.

What the other does not say stays away: no histogram, so no percentiles; no verification. Its numbers come from its windows of one second,
because it has no warm-up of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from weir_lab.errors import RecordError
from weir_lab.records.formats.weir import (
    Count,
    Distribution,
    LoadConfig,
    LoadCpu,
    LoadFailures,
    LoadOperation,
    LoadRecord,
    LoadWindow,
    Phase,
    Record,
)
from weir_lab.records.importers import parse_memaslap

if TYPE_CHECKING:
    from weir_lab.records.importers import ImportedWindow

__all__ = ["GeneratorEntry", "GeneratorsRecord", "load_of_memcaslap"]

_SECOND_NS = 1_000_000_000


class GeneratorEntry(Record):
    """One load generator of a run."""

    name: str
    generator: str
    machine: str
    connections: Annotated[int, Field(ge=1)]
    threads: Annotated[int, Field(ge=1)]
    targets: list[str]
    begun_unix_ns: int
    """When the laboratory saw its measured phase begin, by the laboratory's clock."""
    clock_offset_ns: int = 0
    """The clock of its machine minus the laboratory's."""
    cpu_ns: Count | None = None
    """CPU time between the edges, where the generator does not tell it itself."""


class GeneratorsRecord(Record):
    """``weir.generators/1``: who loaded the system in a run."""

    schema_: Annotated[Literal["weir.generators/1"], Field(alias="schema")] = "weir.generators/1"
    warmup_s: float
    measured_s: float
    generators: list[GeneratorEntry]


def load_of_memcaslap(text: str, entry: GeneratorEntry, warmup_s: float, measured_s: float, where: str) -> LoadRecord:
    """What ``memcaslap`` printed, with its first `warmup_s` windows of one second left out.

    Means are made of each window's count and its mean, which memcaslap truncates to whole microseconds: up to 1 µs too low.
    """
    run = parse_memaslap(text, where)
    first, count = round(warmup_s), round(measured_s)
    windows = run.windows[first : first + count]
    if len(windows) < count or count == 0:
        raise RecordError(
            f"{where}: memcaslap printed {len(run.windows)} windows of 1 s, and {first} of warm-up and {count} measured ones "
            "are needed. It was stopped early, or could not open its connections: repeat the run."
        )
    sums_ns = [_sum_ns(window) for window in windows]
    requests, length_ns = sum(window.count for window in windows), count * _SECOND_NS
    total = run.operations.get("all")
    misses = (total.misses or 0) if total is not None else 0
    before = sum(window.count for window in run.windows[:first])
    behind = (total.count or 0) - before - requests if total is not None else 0
    return LoadRecord(
        schema_="weir.load/1",
        generator="memcaslap",
        weir_version="",
        config=LoadConfig(targets=entry.targets, connections=entry.connections, depth=1, threads=entry.threads),
        phases={
            "warmup": _phase(entry.begun_unix_ns - first * _SECOND_NS, first * _SECOND_NS, before, 0),
            "measured": _phase(entry.begun_unix_ns, length_ns, requests, misses),
            "drain": _phase(entry.begun_unix_ns + length_ns, 0, max(0, behind), 0),
        },
        operations={
            "all": LoadOperation(
                requests=requests,
                misses=misses,
                errors=0,
                response_time=Distribution(count=requests, sum_ns=sum(sums_ns), histogram=None, without_histogram=True),
            )
        },
        throughput_rps=requests / count,
        windows=[
            LoadWindow(
                start_ns=index * _SECOND_NS, length_ns=_SECOND_NS, requests=window.count, response_time_sum_ns=sum_ns
            )
            for index, (window, sum_ns) in enumerate(zip(windows, sums_ns, strict=True))
        ],
        cpu=LoadCpu(user_ns=entry.cpu_ns or 0, system_ns=0),
        failures=LoadFailures(count=0, first=list(run.faults)),
        errors={},
    )


def _sum_ns(window: ImportedWindow) -> int:
    if window.length_s != 1.0:
        raise RecordError(f"memcaslap printed a window of {window.length_s:g} s; start it with --stat_freq 1s.")
    return round(window.count * (window.mean_us or 0.0) * 1e3)


def _phase(start_unix_ns: int, duration_ns: int, requests: int, misses: int) -> Phase:
    return Phase(
        start_unix_ns=start_unix_ns, duration_ns=duration_ns, requests=requests, errors=0, misses=misses, failures=0
    )
