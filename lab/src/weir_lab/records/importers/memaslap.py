"""memaslap of libmemcached 1.1.4: its head, its periodic and final statistics (with ``-S``), and its counters (always)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from weir_lab.errors import RecordError
from weir_lab.records.importers.imported import ImportedOperation, ImportedRun, ImportedWindow, log2_percentile

__all__ = ["parse_memaslap"]

# Cursor home and clear screen, which stand before every periodic block.
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEAD = re.compile(
    r"(threads count|concurrency|run time|windows size|execute number|set proportion|get proportion):\s*(.+)"
)
_PERIODIC = re.compile(r"(Get|Set|Total) Statistics$")
_FINAL = re.compile(r"(Get|Set|Total) Statistics \((\d{1,18}) events\)$")
_ROW = re.compile(
    r"(Period|Global)\s+(-?\d{1,18})\s+(-?\d{1,18})\s+(-?\d+)\s+(-?[\d.]+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d{1,18})\s"
)
_VALUE = re.compile(r"(Min|Max|Avg|Geo|Std):\s*(-?\d+(?:\.\d+)?)$")
# Numbers of more digits are none, and break what is computed from them.
_LOG2 = re.compile(r"(\d{1,2}):((?:\s+\d{1,18}){1,4})$")
_COUNTER = re.compile(
    r"(cmd_get|cmd_set|get_misses|verify_misses|verify_failed|expired_get|unexpired_unget): (\d{1,18})$"
)
_LAST = re.compile(r"Run time: (\d+(?:\.\d+)?)s Ops: (\d{1,18}) TPS: (\d{1,18}) Net_rate: ([\d.]+)M/s$")
_PERCENTILES = (25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
_INTERPOLATED = "percentiles are interpolated inside steps that double in width: true within a factor of two"
_TRUNCATED = "the mean is truncated to whole µs, and the standard deviation computed around the truncated mean"


@dataclass
class _Block:
    """What the final statistics say of one operation."""

    events: int
    values: dict[str, float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


@dataclass
class _Found:
    """What has been read so far."""

    head: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, _Block] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    windows: dict[str, dict[int, ImportedWindow]] = field(default_factory=dict)
    last: tuple[float, int, int] | None = None


def parse_memaslap(text: str, name: str = "memaslap") -> ImportedRun:
    """Read its standard output.

    Raises
    ------
    RecordError
        If its last line is missing (it was stopped), or a distribution does not add up to its events.
    """
    found = _read(text, name)
    if found.last is None:
        raise RecordError(
            f"{name}: the line with run time and TPS is missing. memaslap was stopped early: repeat the run."
        )
    seconds, ops, _rounded = found.last
    for operation, block in found.blocks.items():
        counted = sum(block.counts.values())
        if counted != block.events:
            raise RecordError(
                f"{name}: the Log2 Dist of {operation} adds up to {counted}, not to its {block.events} events. The output is damaged."
            )
    return ImportedRun(
        generator="memaslap",
        name=name,
        connections=_leading_number(found.head.get("concurrency")),
        seconds=seconds,
        operations=_operations(found, seconds, ops),
        windows=_windows(found),
        faults=_faults(found, ops),
        doubts=_doubts(found),
    )


def _read(text: str, name: str) -> _Found:
    found = _Found()
    periodic = ""
    block: _Block | None = None
    for line in (line.rstrip() for line in _ESCAPES.sub("", text).splitlines()):
        if head := _HEAD.match(line):
            found.head[head[1]] = head[2]
        elif final := _FINAL.match(line):
            block = found.blocks.setdefault(_operation(final[1]), _Block(int(final[2])))
        elif title := _PERIODIC.match(line):
            periodic, block = _operation(title[1]), None
        elif (row := _ROW.match(line + " ")) and row[1] == "Period":
            _add_window(found, periodic, row)
        elif block is not None and (value := _VALUE.match(line.strip())):
            block.values[value[1]] = float(value[2])
        elif block is not None and (counts := _LOG2.match(line.strip())):
            first = int(counts[1])
            if first % 4:
                raise RecordError(
                    f"{name}: a row of Log2 Dist begins at index {first}, which is no multiple of 4. The output is damaged."
                )
            block.counts |= {first + place: int(count) for place, count in enumerate(counts[2].split())}
        elif counter := _COUNTER.match(line):
            found.counters[counter[1]] = int(counter[2])
        elif last := _LAST.match(line):
            found.last = (float(last[1]), int(last[2]), int(last[3]))
    return found


def _operation(title: str) -> str:
    return {"Get": "get", "Set": "set", "Total": "all"}[title]


def _add_window(found: _Found, operation: str, row: re.Match[str]) -> None:
    """A period without events prints a minimum of -1; its times mean nothing."""
    period, count, average = int(row[2]), int(row[3]), float(row[9])
    windows = found.windows.setdefault(operation, {})
    start = sum(window.length_s for window in windows.values())
    windows[len(windows)] = ImportedWindow(start, float(period), count, average if count else None)


def _windows(found: _Found) -> tuple[ImportedWindow, ...]:
    """Of all operations; a generator that only reads or only writes has no Total of its own."""
    for operation in ("all", "get", "set"):
        if operation in found.windows:
            return tuple(found.windows[operation].values())
    return ()


def _operations(found: _Found, seconds: float, ops: int) -> dict[str, ImportedOperation]:
    counts = {"get": found.counters.get("cmd_get"), "set": found.counters.get("cmd_set"), "all": ops}
    misses = {"get": found.counters.get("get_misses"), "all": found.counters.get("get_misses")}
    operations: dict[str, ImportedOperation] = {}
    for operation, count in counts.items():
        block = found.blocks.get(operation)
        if block is None and not count:
            continue
        values = block.values if block is not None and block.events else {}
        missed = misses.get(operation)
        operations[operation] = ImportedOperation(
            count=count,
            throughput_rps=count / seconds if count is not None and seconds > 0 else None,
            misses=missed,
            misses_per_s=missed / seconds if missed is not None and seconds > 0 else None,
            mean_us=values.get("Avg"),
            sd_us=values.get("Std"),
            min_us=values.get("Min"),
            max_us=values.get("Max"),
            percentiles_us=_percentiles(block),
            cumulative=_cumulative(block),
        )
    return operations


def _percentiles(block: _Block | None) -> dict[float, float]:
    if block is None:
        return {}
    found = {percent: log2_percentile(block.counts, percent) for percent in _PERCENTILES}
    return {percent: value.linear_us for percent, value in found.items() if value is not None}


def _cumulative(block: _Block | None) -> tuple[tuple[float, float], ...]:
    if block is None or block.events == 0:
        return ()
    rows, total = [], 0
    for index in sorted(block.counts):
        total += block.counts[index]
        rows.append((float(2**index), 100.0 * total / block.events))
    return tuple(rows)


def _faults(found: _Found, ops: int) -> tuple[str, ...]:
    faults = ["no request was answered"] if ops == 0 else []
    for counter, what in (
        ("get_misses", "misses"),
        ("verify_failed", "values failed verification"),
        ("verify_misses", "keys to be verified were not there"),
    ):
        if found.counters.get(counter, 0):
            faults.append(f"{found.counters[counter]} {what}")
    return tuple(faults)


def _doubts(found: _Found) -> tuple[str, ...]:
    if not found.blocks:
        return ("no response times: memaslap ran without -S",)
    events = sum(block.events for operation, block in found.blocks.items() if operation != "all")
    doubts = [_INTERPOLATED, _TRUNCATED]
    if found.last is not None and events and found.last[1] > events:
        doubts.append(
            f"{found.last[1] - events} operations were in flight when its statistics ended, and have no response time"
        )
    return tuple(doubts)


def _leading_number(text: str | None) -> int | None:
    match = re.match(r"\d{1,9}", text or "")
    return int(match[0]) if match else None
