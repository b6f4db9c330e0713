"""What a proxy appends to the files of ``weir proxy --windows`` and ``--trace``.

Windows are lines of JSON, one per second; a trace is CSV, one row per sampled request. ``docs/reference/formats.md`` describes both; they
need no code of ours to be read; this reads them with checks. Start with `read_windows` and `read_trace`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from weir_lab.errors import RecordError
from weir_lab.records.formats.weir import STAGES, Count, Distribution, Record

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ProxyWindow",
    "TraceRow",
    "WindowOperation",
    "WindowQueue",
    "WindowServer",
    "WindowThread",
    "read_trace",
    "read_windows",
]


class WindowQueue(Record):
    """A queue in one window: its length at the end, and what was added in it."""

    length: Count
    arrivals: Count
    length_met_sum: Count
    length_time_integral_ns: Count


class WindowOperation(Record):
    """The requests of one operation that were answered in one window."""

    requests: Count
    errors: Count
    keys: Count
    hits: Count
    misses: Count
    stages: dict[str, Distribution]
    total: Distribution


class WindowServer(Record):
    """One server in one window."""

    server: str
    state: str
    requests: Count
    errors: Count
    timeouts: Count
    queued: WindowQueue
    in_flight: WindowQueue
    server_time: Distribution


class WindowThread(Record):
    """How long one thread worked in one window."""

    thread: str
    turns: Count
    busy_ns: Count


class ProxyWindow(Record):
    """``weir.window/1``: one second of a proxy."""

    schema_: Annotated[Literal["weir.window/1"], Field(alias="schema")]
    index: Count
    start_ns: Count
    length_ns: Annotated[int, Field(gt=0)]
    collected_unix_ns: int
    requests: Count
    errors: Count
    sessions: Count
    in_service: Count
    cpu_ns: Count
    operations: dict[str, WindowOperation]
    total: Distribution
    servers: list[WindowServer]
    queues: dict[str, WindowQueue]
    crew: dict[str, Count] = Field(default_factory=dict)
    """How many workers of each queue might serve at once at its end; empty from a proxy that does not tell."""
    turn_time: Distribution
    threads: list[WindowThread]
    counters: dict[str, Count]
    records_dropped: Count

    @property
    def stage_sum_ns(self) -> dict[str, int]:
        """Nanoseconds in each stage, over all operations."""
        return {name: sum(it.stages[name].sum_ns for it in self.operations.values()) for name in STAGES}


@dataclass(frozen=True)
class TraceRow:
    """One sampled request. Stamps are nanoseconds since the proxy's start; `arrived_ns` is ``None`` where the kernel gave none."""

    time_unix_ns: int
    client: str
    operation: str
    outcome: str
    keys: int
    hits: int
    request_bytes: int
    reply_bytes: int
    servers: tuple[str, ...]
    queue_length: int
    arrived_ns: int | None
    first_byte_ns: int
    created_ns: int
    enqueued_ns: int
    dequeued_ns: int
    first_sent_ns: int
    forwarded_ns: int
    received_ns: int
    answered_ns: int

    @property
    def stage_ns(self) -> dict[str, int]:
        """The length of each stage in nanoseconds; they add up to the total."""
        ends = (
            self.created_ns,
            self.enqueued_ns,
            self.dequeued_ns,
            self.forwarded_ns,
            self.received_ns,
            self.answered_ns,
        )
        starts = (self.first_byte_ns, *ends[:-1])
        return {name: end - start for name, start, end in zip(STAGES, starts, ends, strict=True)}

    @property
    def total_ns(self) -> int:
        """From the first byte of the request to the last byte of its reply, in nanoseconds."""
        return self.answered_ns - self.first_byte_ns


_VERSION = "1"
_TEXTS = frozenset({"client", "operation", "outcome"})


def read_windows(path: Path) -> list[ProxyWindow]:
    """All records of a file of ``--windows``, in its order. A proxy that was started anew begins again at index 0."""
    found = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            found.append(ProxyWindow.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "the whole line"
            raise RecordError(
                f"{path}, line {number}: {key}: {first['msg']}. "
                "The file is damaged or from another version: use one version of weir and weir-lab."
            ) from error
    return found


def read_trace(path: Path) -> list[TraceRow]:
    """All rows of a file of ``--trace``, in its order."""
    rows = csv.DictReader(_text(path).splitlines())
    return [_row(row, f"{path}, line {number}") for number, row in enumerate(rows, start=2)]


def _row(row: dict[str, str], where: str) -> TraceRow:
    if row.get("version") != _VERSION:
        raise RecordError(
            f"{where}: version {row.get('version')!r} of a trace; this weir-lab reads version {_VERSION}."
        )
    try:
        numbers = {
            name: int(text) for name, text in row.items() if name not in _TEXTS | {"version", "servers", "arrived_ns"}
        }
        return TraceRow(
            client=row["client"],
            operation=row["operation"],
            outcome=row["outcome"],
            servers=tuple(row["servers"].split()),
            arrived_ns=int(row["arrived_ns"]) if row["arrived_ns"] else None,
            **numbers,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{where}: no row of a trace ({error}). The file is damaged.") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error}). Give a file that weir proxy wrote.") from error
