"""A run over time: its windows, their spread, and where its steady state begins.

The load generator counts requests and sums response times in windows of one second, and its HdrHistogram log has the distribution of
each. Start with `windows_of` and `find_cut`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.records.formats import load_name
from weir_lab.theory.histogram import Histogram, merge_histograms
from weir_lab.theory.stats import warmup_cut

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.records.formats import LoadRecord

__all__ = [
    "NO_CUT",
    "WIDTHS_S",
    "Cut",
    "Window",
    "find_cut",
    "read_hdr_log",
    "read_hdr_logs",
    "spreads_of",
    "windows_of",
    "windows_of_run",
]

_LINE = re.compile(r"(?:Tag=([^,]+),)?([0-9]+(?:\.[0-9]+)?),([0-9]+(?:\.[0-9]+)?),[0-9.]+,(\S+)")
WIDTHS_S = (1, 10)
"""Windows whose spread is kept of a trace, in seconds, beside the study's own."""
# MSER-5 wants 10 batches of 5 (stats.warmup); with fewer windows the fixed warm-up has to do.
_MSER_WINDOWS_MIN = 50


@dataclass(frozen=True)
class Window:
    """Some seconds of the measured phase, over all operations; ``sd_ns`` is the spread of the response times inside it."""

    start_s: float
    length_s: float
    requests: int
    response_time_sum_ns: int
    sd_ns: int | None

    @property
    def throughput_rps(self) -> float:
        """Requests completed per second."""
        return self.requests / self.length_s

    @property
    def mean_ns(self) -> float | None:
        """Mean response time, or ``None`` for a window without requests."""
        return self.response_time_sum_ns / self.requests if self.requests else None


@dataclass(frozen=True)
class Cut:
    """Windows of one second that are left out at the start, and whether what follows is steady."""

    windows: int
    stationary: bool


NO_CUT = Cut(0, stationary=True)


def read_hdr_log(path: Path) -> dict[str, list[Histogram]]:
    """Histograms per second by operation; ``""`` holds all operations together."""
    found: dict[str, list[Histogram]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error}). Repeat the run.") from error
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith(("#", '"')):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise RecordError(
                f"{path}, line {number}: no line of an HdrHistogram log. The record is damaged: repeat the run."
            )
        found.setdefault(match[1] or "", []).append(Histogram.decode(match[4], f"{path}, line {number}"))
    return found


def read_hdr_logs(folder: Path, generators: int) -> list[Histogram] | None:
    """Histograms per second over all operations and generators of a run; ``None`` where a generator wrote no log."""
    logs = [folder / f"{load_name(number)}.hdr" for number in range(generators)]
    if not logs or not all(log.exists() for log in logs):
        return None
    parts = [read_hdr_log(log).get("", []) for log in logs]
    merged = [merge_histograms(same) for same in zip(*parts, strict=False)]
    return [histogram for histogram in merged if histogram is not None]


def windows_of(load: LoadRecord, per_second: list[Histogram] | None, width_s: int) -> list[Window]:
    """Windows of `width_s` seconds; a last, shorter one is left out, since its rate says less than the others'."""
    seconds = [window for window in load.windows if window.length_ns == load.windows[0].length_ns]
    windows = []
    for first in range(0, len(seconds) - width_s + 1, width_s):
        part = seconds[first : first + width_s]
        merged = merge_histograms(per_second[first : first + width_s]) if per_second else None
        windows.append(
            Window(
                part[0].start_ns / 1e9,
                sum(window.length_ns for window in part) / 1e9,
                sum(window.requests for window in part),
                sum(window.response_time_sum_ns for window in part),
                _whole(merged.standard_deviation()) if merged else None,
            )
        )
    return windows


def windows_of_run(folder: Path, load: LoadRecord, width_s: int) -> list[Window]:
    """Windows of a run with the spread inside them: by the logs of its first generator, or as it was kept; none where neither is there."""
    log = folder / f"{load_name(0)}.hdr"
    if log.exists():
        return windows_of(load, read_hdr_log(log).get(""), width_s)
    windows, kept = windows_of(load, None, width_s), folder / "spreads.json"
    if not kept.exists():
        return windows
    try:
        known = json.loads(kept.read_text(encoding="utf-8")).get(str(width_s))
    except (OSError, ValueError) as error:
        raise RecordError(f"{kept}: cannot be read ({error}). Unpack the kept record again.") from error
    if known is None or len(known) != len(windows):
        return windows
    return [replace(window, sd_ns=sd_ns) for window, sd_ns in zip(windows, known, strict=True)]


def spreads_of(folder: Path, load: LoadRecord, width_s: int) -> list[int | None] | None:
    """The spread inside each window; ``None`` where nobody knows it."""
    found = [window.sd_ns for window in windows_of_run(folder, load, width_s)]
    return found if any(one is not None for one in found) else None


def _whole(sd_ns: float | None) -> int | None:
    """To the nanosecond: times have three significant digits, and a whole number is kept exactly."""
    return None if sd_ns is None else round(sd_ns)


def find_cut(load: LoadRecord) -> Cut:
    """MSER-5 on throughput and on mean response time per second, the longer of the two; none for short runs.

    A second without replies counts as throughput 0, and as the mean of the second before: nothing was answered, so nothing is known.
    """
    windows = windows_of(load, None, 1)
    if len(windows) < _MSER_WINDOWS_MIN:
        return NO_CUT
    throughput = [window.throughput_rps for window in windows]
    means: list[float] = []
    for window in windows:
        means.append(window.mean_ns if window.mean_ns is not None else (means[-1] if means else 0.0))
    found = warmup_cut(throughput, means)
    return Cut(found.delete, found.stationary)
