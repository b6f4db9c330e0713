"""memtier_benchmark: text (before and after 1.4, where percentiles came) and JSON.

Only ``ALL STATS`` and ``RUN #i RESULTS`` are taken. BEST and WORST name the first run whatever the others did, and AGGREGATED AVERAGE
RESULTS has zeros for times and percentiles.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from weir_lab.errors import RecordError
from weir_lab.records.importers.imported import ImportedOperation, ImportedRun, ImportedWindow
from weir_lab.theory.histogram import Histogram

__all__ = ["parse_memtier_json", "parse_memtier_text"]

_GENERATOR = "memtier_benchmark"
_USED = re.compile(r"ALL STATS|RUN #\d+ RESULTS")
_LEFT_OUT = re.compile(r"BEST RUN RESULTS|WORST RUN RESULTS|AGGREGATED AVERAGE RESULTS.*")
_NAMES = {"Sets": "set", "Gets": "get", "Waits": "wait", "Totals": "all"}
_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_NOT_A_ROW = {"Runtime", "Active Clients", "SET", "GET", "WAIT"}
_COLUMN = re.compile(
    r"Type|Ops/sec|Hits/sec|Misses/sec|MOVED/sec|ASK/sec|Avg\. Latency|p[0-9.]+ Latency|Latency|KB/sec(?: RX)?|KB/sec TX"
)
_HEAD = re.compile(r"^\s*([0-9]{1,9})\s+(Threads|Connections per thread|Requests per client|Seconds)\s*$")
_HISTOGRAM_ROW = re.compile(r"^(SET|GET|WAIT)\s+([0-9]+(?:\.[0-9]+)?)\s+([0-9]+(?:\.[0-9]+)?)\s*$")
_PERCENTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]+)?)")
# What memtier writes to standard error of each connection that it lost or did not get.
_LOST = re.compile(r"(?:^|[\r\s])(?:(?:TLS )?connection error: |connection dropped\.)", re.IGNORECASE)
_STEPS = "its histogram has steps of 8 µs: medians below 100 µs say little"
_SPLIT_TOTALS = "the mean over all operations is that of its rows, weighted by their rates: memtier cuts its own to whole milliseconds"
_ONLY_AGGREGATES = (
    "it holds only BEST, WORST or AVERAGE results, which memtier computes wrongly. "
    "Run it with --print-all-runs, or import the JSON of single runs."
)
_NOTHING_ANSWERED = "no request was answered"
_OTHER_SERIES = "its time series has another form than that of known versions, and is left out"
# A week, and more requests than are made in it: no run has more.
_SECONDS_MAX = 7 * 24 * 3600
_COUNT_MAX = 1e15


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which keys came more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.twice = {name for name, count in counts.items() if count > 1}


def parse_memtier_json(text: str, name: str = "memtier.json") -> list[ImportedRun]:
    """Read ``--json-out-file``.

    Raises
    ------
    RecordError
        If it is no JSON, or has no section with results in the form of memtier.
    """
    try:
        whole = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{name}: not valid JSON ({error}). memtier was stopped early, or an old version wrote nan: import its text."
        ) from error
    if not isinstance(whole, _Pairs):
        raise RecordError(f"{name}: no JSON object. Give the file that memtier wrote with --json-out-file.")
    information = _object(whole.get("run information"))
    connections = _product(information.get("Threads"), information.get("Connections per thread"))
    sections = {title: section for title, section in whole.items() if _USED.fullmatch(title)}
    left_out = [title for title in whole if _LEFT_OUT.fullmatch(title)]
    if not sections:
        raise RecordError(f"{name}: {_ONLY_AGGREGATES if left_out else 'no section with results.'}")
    for title, section in sections.items():
        if not isinstance(section, _Pairs) or not isinstance(section.get("Totals"), _Pairs):
            raise RecordError(
                f"{name}: {title!r} has no object Totals, so it is not of a known version of memtier, or damaged. Import its text."
            )
    return [
        _json_run(name, title, section, connections, len(sections), left_out) for title, section in sections.items()
    ]


def parse_memtier_text(text: str, name: str = "memtier.txt") -> list[ImportedRun]:
    """Read its standard output, whether or not the progress of standard error is mixed into it."""
    sections = _text_sections(text, name)
    used = {title: section for title, section in sections.items() if _USED.fullmatch(title)}
    left_out = [title for title in sections if _LEFT_OUT.fullmatch(title)]
    if not used:
        raise RecordError(f"{name}: {_ONLY_AGGREGATES if left_out else 'no section with results.'}")
    head = {label: int(value) for value, label in _head_lines(text)}
    connections = _product(head.get("Threads"), head.get("Connections per thread"))
    # Of which run a lost connection was, the text does not say.
    lost = sum(_LOST.search(line) is not None for line in text.splitlines())
    return [
        _text_run(name, title, section, connections, head.get("Seconds"), len(used), left_out, lost)
        for title, section in used.items()
    ]


def _json_run(
    name: str, title: str, section: _Pairs, connections: int | None, count: int, left_out: list[str]
) -> ImportedRun:
    doubts: dict[str, None] = dict.fromkeys(_left_out_text(left_out))
    faults: list[str] = []
    operations: dict[str, ImportedOperation] = {}
    runtime = _object(section.get("Runtime"))
    milliseconds = _number(runtime.get("Total duration"))
    for row_name, row in section.items():
        if row_name in _NOT_A_ROW or not isinstance(row, _Pairs):
            continue
        operation = _json_operation(row, doubts)
        errors = _number(row.get("Connection Errors"))
        if errors and row_name == "Totals":
            faults.append(f"{errors:g} connection errors")
        if operation.count != 0 or row_name == "Totals":
            operations[_NAMES.get(row_name, row_name.lower())] = operation
    if runtime.get("Interrupted") == "true":
        doubts["it was interrupted: the run is shorter than was asked for"] = None
    return ImportedRun(
        _GENERATOR,
        name if count == 1 else f"{name} {title}",
        connections,
        milliseconds / 1000.0 if milliseconds else None,
        operations,
        _json_windows(section, doubts),
        (*faults, *_faults(operations)),
        tuple(doubts),
    )


def _json_operation(row: _Pairs, doubts: dict[str, None]) -> ImportedOperation:
    count = _number(row.get("Count"))
    accumulated_ms = _number(row.get("Accumulated Latency"))
    average_ms = _number(row.get("Average Latency", row.get("Latency")))
    # Accumulated over count, because the averages are cut: to whole milliseconds in Totals, to whole µs elsewhere.
    mean_us = accumulated_ms / count * 1000.0 if accumulated_ms and count else None
    if mean_us is None and average_ms is not None and count != 0:
        mean_us = average_ms * 1000.0
    percentiles = row.get("Percentile Latencies")
    printed: dict[float, float] = {}
    histogram: Histogram | None = None
    if isinstance(percentiles, _Pairs):
        printed = _printed_percentiles(percentiles, doubts)
        packed = _object(percentiles.get("Histogram log format")).get("Compressed Histogram")
        if isinstance(packed, str) and packed and count:
            histogram = Histogram.decode(packed, "Compressed Histogram")
    if histogram is not None:
        exact = {percent: histogram.percentile(percent) for percent in _PERCENTILES}
        printed |= {percent: float(value) for percent, value in exact.items() if value is not None}
        if printed.get(50.0, 100.0) < 100.0:
            doubts[_STEPS] = None
    return ImportedOperation(
        count=int(count) if count is not None else None,
        throughput_rps=_number(row.get("Ops/sec")),
        misses=None,
        misses_per_s=_number(row.get("Misses/sec")),
        mean_us=mean_us,
        min_us=_scaled(row.get("Min Latency")) if count else None,
        max_us=_scaled(row.get("Max Latency")) if count else None,
        percentiles_us=printed if count != 0 else {},
    )


def _printed_percentiles(percentiles: _Pairs, doubts: dict[str, None]) -> dict[float, float]:
    found: dict[float, float] = {}
    for key, value in percentiles.items():
        percent = _PERCENTILE.fullmatch(key)
        number = _number(value)
        known = percent is not None and float(percent[1]) <= 100.0 and key not in percentiles.twice
        if percent is not None and known and number is not None:
            found[float(percent[1])] = number * 1000.0
    for key in sorted(percentiles.twice):
        doubts[f"{key} stands there more than once: its name was cut, and nobody knows which percentile each is"] = None
    return found


def _json_windows(section: _Pairs, doubts: dict[str, None]) -> tuple[ImportedWindow, ...]:
    """Seconds of all operations. A second without replies has no key, and counts as one with none; the last is cut short, and left out."""
    series = _object(section.get("Totals")).get("Time-Serie")
    seconds: dict[int, tuple[int, float]] = {}
    for row in [series] if series else [row.get("Time-Serie") for row in section.values() if isinstance(row, _Pairs)]:
        if not isinstance(row or _Pairs([]), _Pairs):
            doubts[_OTHER_SERIES] = None
            return ()
        for key, value in (row or {}).items():
            count = _number(value.get("Count")) if isinstance(value, dict) else None
            second = int(key) if re.fullmatch(r"[0-9]{1,9}", key) else _SECONDS_MAX
            if second >= _SECONDS_MAX or count is None or not 0.0 <= count < _COUNT_MAX:
                doubts[_OTHER_SERIES] = None
                return ()
            accumulated = _number(value.get("Accumulated Latency")) or 0.0
            before = seconds.get(second, (0, 0.0))
            seconds[second] = (before[0] + int(count), before[1] + accumulated)
    if not seconds:
        return ()
    last = max(seconds)
    windows = []
    for second in range(last):
        requests, accumulated = seconds.get(second, (0, 0.0))
        mean = accumulated / requests * 1000.0 if requests else None
        windows.append(ImportedWindow(float(second), 1.0, requests, mean))
    return tuple(windows)


@dataclass
class _Section:
    """A titled part of the text: rows by type, columns by title, and the distribution behind it."""

    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    cumulative: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)


def _head_lines(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for line in text.splitlines() if (match := _HEAD.match(line))]


def _text_sections(text: str, name: str) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    section: _Section | None = None
    columns: list[str] = []
    # Progress ends in carriage returns; what stands behind the last of them is the line.
    for line in (line.rstrip().rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")):
        title = line.strip()
        if _USED.fullmatch(title) or _LEFT_OUT.fullmatch(title):
            section, columns = sections.setdefault(title, _Section()), []
        elif section is None:
            continue
        elif line.startswith("Type") and "Ops/sec" in line:
            columns = _COLUMN.findall(line)
            section.twice |= {column for column in columns if columns.count(column) > 1}
        elif histogram := _HISTOGRAM_ROW.match(line):
            points = section.cumulative.setdefault(histogram[1].lower(), [])
            points.append((float(histogram[2]) * 1000.0, float(histogram[3])))
        elif columns and re.match(r"[A-Z]\w*\s+[-0-9]", line):
            words = line.split()
            if len(words) != len(columns):
                raise RecordError(
                    f"{name}: the row {words[0]!r} has {len(words)} cells under {len(columns)} headings. The output is damaged."
                )
            section.rows[words[0]] = dict(zip(columns, words, strict=True))
    return sections


def _text_run(
    name: str,
    title: str,
    section: _Section,
    connections: int | None,
    seconds: int | None,
    count: int,
    left_out: list[str],
    lost: int,
) -> ImportedRun:
    doubts: dict[str, None] = dict.fromkeys(_left_out_text(left_out))
    operations = {
        _NAMES.get(row_name, row_name.lower()): _text_operation(row_name, section) for row_name in section.rows
    }
    total, parts = operations.get("all"), [part for key, part in operations.items() if key != "all"]
    mean = _weighted_mean(parts)
    if total is not None and _cut_mean(total) and mean:
        operations["all"] = replace(total, mean_us=mean)
        doubts[_SPLIT_TOTALS] = None
    for column in sorted(section.twice):
        doubts[f"{column} stands there more than once: nobody knows which percentile each is"] = None
    lines = [f"connections were lost or refused: {lost} lines say so"] if lost else []
    used = {key: part for key, part in operations.items() if part.throughput_rps or key == "all"}
    return ImportedRun(
        _GENERATOR,
        name if count == 1 else f"{name} {title}",
        connections,
        float(seconds) if seconds is not None else None,
        used,
        (),
        (*lines, *_faults(operations)),
        tuple(doubts),
    )


def _text_operation(row_name: str, section: _Section) -> ImportedOperation:
    row = section.rows[row_name]
    rate = _cell(row.get("Ops/sec"))
    average = _cell(row.get("Avg. Latency", row.get("Latency")))
    percentiles = {}
    for column, cell in row.items():
        match = _PERCENTILE.fullmatch(column.removesuffix(" Latency"))
        value = _cell(cell)
        if match and value is not None and column not in section.twice and rate:
            percentiles[float(match[1])] = value * 1000.0
    kind = {"Sets": "set", "Gets": "get", "Waits": "wait"}.get(row_name, "")
    return ImportedOperation(
        count=None,
        throughput_rps=rate,
        misses=None,
        misses_per_s=_cell(row.get("Misses/sec")),
        mean_us=average * 1000.0 if average is not None and rate else None,
        percentiles_us=percentiles,
        cumulative=tuple(section.cumulative.get(kind, [])),
    )


def _cut_mean(operation: ImportedOperation) -> bool:
    return operation.mean_us is not None and operation.mean_us % 1000.0 == 0.0


def _weighted_mean(parts: list[ImportedOperation]) -> float | None:
    """The mean over all of them, each weighted by its rate; None without rates."""
    known = [
        (part.throughput_rps, part.mean_us)
        for part in parts
        if part.throughput_rps and part.throughput_rps > 0.0 and part.mean_us is not None
    ]
    return sum(rate * mean for rate, mean in known) / sum(rate for rate, _ in known) if known else None


def _faults(operations: dict[str, ImportedOperation]) -> list[str]:
    """What makes a run unusable: no answers, or gets that found nothing."""
    total = operations.get("all")
    nothing = total is None or total.count == 0 or not total.throughput_rps
    faults = [_NOTHING_ANSWERED] if nothing else []
    missed = max((part.misses_per_s or 0.0 for part in operations.values()), default=0.0)
    if missed > 0.0:
        faults.append(f"{missed:g} misses per second")
    return faults


def _left_out_text(titles: list[str]) -> list[str]:
    return [f"{', '.join(titles)}: left out, because memtier computes them wrongly"] if titles else []


def _object(value: object) -> _Pairs:
    """An object of the JSON; anything else says nothing."""
    return value if isinstance(value, _Pairs) else _Pairs([])


def _product(threads: object, clients: object) -> int | None:
    one, other = _number(threads), _number(clients)
    return round(one * other) if one is not None and other is not None and one * other < _COUNT_MAX else None


def _scaled(value: object) -> float | None:
    number = _number(value)
    return number * 1000.0 if number is not None else None


def _number(value: object) -> float | None:
    """A finite number; JSON of memtier has null for what is not one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _cell(text: str | None) -> float | None:
    """A cell of the text: ``---`` is not applicable, ``-nan`` a mean of nothing."""
    if text is None or not re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", text):
        return None
    return float(text)
