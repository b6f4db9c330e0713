"""The tables of a sweep as CSV, in the forms in which the earlier studies printed theirs.

``summary.csv``  one row per cell: levels, load, runs, means over runs with the half-width of their 95 % interval, percentiles, stages
``runs.csv``     one row per run with its factors and all responses, invalid ones with their reasons (`run_rows`)
``windows.csv``  one row per window of a run, with the standard deviation inside it
``find.csv``     in place of the others, but for runs.csv, where the study looks for a rate: the capacity of each cell
``log2.csv``     share of the requests of a cell below each power of two of microseconds

All of them are made anew from the run folders. Start with `write_tables`.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import Response, cells_of, content_sha256, scheduled_like
from weir_lab.errors import RecordError
from weir_lab.records.formats import STAGES, subtract_snapshots
from weir_lab.records.progress import CellProgress, values_of
from weir_lab.records.runs import read_run, read_run_metas, write_text
from weir_lab.records.tables.found import found_rows
from weir_lab.records.tables.run_rows import OPERATIONS, PERCENTILES, run_rows
from weir_lab.records.tables.unloaded_tables import unloaded_tables
from weir_lab.records.windows import Cut, read_hdr_logs, windows_of
from weir_lab.theory.histogram import merge_histograms
from weir_lab.theory.laws import cycle_law
from weir_lab.theory.stats import Decision, mean_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from weir_lab.design import Cell, Study
    from weir_lab.records.progress import RunValues
    from weir_lab.records.runs import Run, RunMeta
    from weir_lab.theory.histogram import Histogram

__all__ = ["CellRuns", "cells_with_runs", "csv_text", "write_tables"]

# From 1 µs to 67 s: nothing that a client waits for lies outside.
_LOG2_LAST = 26
_Value = str | int | float | bool | None


@dataclass(frozen=True)
class CellRuns:
    """One cell with its valid runs in the order of the blocks, and how many attempts were invalid."""

    cell: Cell
    runs: list[tuple[Run, RunValues]]
    invalid: int
    decision: Decision
    times: list[Histogram | None]
    """Response times of each run over all operations."""


def write_tables(sweep: Path, study: Study, executables: dict[str, str]) -> None:
    """Write all tables of a sweep from its run folders."""
    metas = read_run_metas(sweep)
    if not study.kind.runs_load:
        for name, rows in unloaded_tables(study, executables, metas).items():
            write_text(sweep / name, csv_text(rows))
        return
    if study.find is not None:
        write_text(sweep / "find.csv", csv_text(found_rows(study, executables, metas)))
        write_text(sweep / "runs.csv", csv_text(run_rows(study, executables, metas)))
        return
    cells = cells_with_runs(study, executables, metas)
    write_text(sweep / "summary.csv", csv_text([_summary_row(study, cell) for cell in cells]))
    write_text(sweep / "runs.csv", csv_text(run_rows(study, executables, metas)))
    write_text(sweep / "windows.csv", csv_text([row for cell in cells for row in _window_rows(study, cell)]))
    write_text(sweep / "log2.csv", csv_text([row for cell in cells for row in _log2_rows(cell)]))


def cells_with_runs(study: Study, executables: dict[str, str], metas: Sequence[tuple[Path, RunMeta]]) -> list[CellRuns]:
    """The cells of a study with the runs of their content; one valid run per repetition."""
    made = [meta for _, meta in metas]
    wanted = {content_sha256(study, run, executables): run for run in scheduled_like(study, made)}
    valid: dict[str, dict[int, Path]] = {}
    invalid: dict[str, int] = {}
    for folder, meta in sorted(metas, key=_when):
        run = wanted.get(meta.content_sha256)
        if run is not None and meta.verdict.valid:
            valid.setdefault(run.cell.name, {}).setdefault(run.repetition, folder)
        elif run is not None:
            invalid[run.cell.name] = invalid.get(run.cell.name, 0) + 1
    return [_cell_runs(study, cell, valid.get(cell.name, {}), invalid.get(cell.name, 0)) for cell in cells_of(study)]


def _cell_runs(study: Study, cell: Cell, folders: dict[int, Path], invalid: int) -> CellRuns:
    progress, runs = CellProgress(cell), []
    for repetition in sorted(folders):
        run = read_run(folders[repetition])
        if run.load is None:
            raise RecordError(
                f"{run.folder}: the run is called valid, but has no load.json. Delete the folder, run again."
            )
        values = values_of(run.load, Cut(run.meta.cut_windows, stationary=True))
        progress.values[repetition] = values
        runs.append((run, values))
    times = [run.load.response_times() if run.load is not None else None for run, _ in runs]
    return CellRuns(cell, runs, invalid, progress.decision(study), times)


def _when(pair: tuple[Path, RunMeta]) -> int:
    return pair[1].started_unix_ns


def _summary_row(study: Study, cell: CellRuns) -> dict[str, _Value]:
    values = [value for _, value in cell.runs]
    row: dict[str, _Value] = {"study": study.name, "cell": cell.cell.name, **dict(cell.cell.levels)}
    row |= _load_columns(cell, row)
    row |= {"runs": len(values), "invalid_runs": cell.invalid}
    row["decision"] = _decision_text(study, cell.decision)
    row |= _with_interval("throughput_rps", [value.of(Response.THROUGHPUT) for value in values])
    row |= _with_interval("mean_response_time_us", [value.mean_ns / 1e3 for value in values])
    row |= _percentile_columns("", cell.times)
    for operation in OPERATIONS:
        row |= _operation_columns(operation, cell)
    row |= _law_columns(cell)
    row |= _stage_columns(cell)
    for point in study.expected:
        if cell.cell.has(point.at):
            row["expected_throughput_rps"] = point.throughput_rps
            row["expected_mean_response_time_us"] = point.mean_response_time_us
            row["expected_by"] = point.origin
    return row


def _load_columns(cell: CellRuns, levels: Mapping[str, _Value]) -> dict[str, _Value]:
    """How the system was loaded, so that a row can be held against the law of its loop alone; no think time is an empty cell."""
    settings = cell.cell.settings
    row: dict[str, _Value] = {"clients": settings.clients, "depth": settings.depth}
    row["think_time_ms"] = levels.get("think_time_ms", settings.think_time_ms or None)
    if settings.is_open:
        offered = [run.load.scheduled for run, _ in cell.runs if run.load is not None]
        rates = [one.offered_rate_rps for one in offered if one is not None]
        row["offered_rate_rps"] = sum(rates) / len(rates) if rates else settings.rate
    return row


def _decision_text(study: Study, decision: Decision) -> str:
    """A fixed number of runs says nothing about convergence."""
    if study.plan.stop is not None:
        return str(decision)
    return "incomplete" if decision is Decision.CONTINUE else "complete"


def _with_interval(name: str, values: list[float]) -> dict[str, _Value]:
    """Mean, standard deviation (n - 1) and half-width; empty where there are too few runs for them."""
    stem, unit = name.rsplit("_", 1)
    known = mean_interval(values) if len(values) > 1 else None
    mean = known.mean if known else (values[0] if values else None)
    spread = (sum((value - known.mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5 if known else None
    return {name: mean, f"{stem}_sd_{unit}": spread, f"{stem}_half_width_{unit}": known.half_width if known else None}


def _percentile_columns(prefix: str, histograms: list[Histogram | None]) -> dict[str, _Value]:
    """Mean over runs of each run's percentile; empty where a run has too few samples for it."""
    row: dict[str, _Value] = {}
    for percent in PERCENTILES:
        found = [histogram.percentile(percent) if histogram else None for histogram in histograms]
        known = [value for value in found if value is not None]
        whole = bool(known) and len(known) == len(found)
        row[f"{prefix}p{percent:g}_us"] = sum(known) / len(known) / 1e3 if whole else None
    return row


def _operation_columns(name: str, cell: CellRuns) -> dict[str, _Value]:
    parts = [run.load.operations.get(name) for run, _ in cell.runs if run.load is not None]
    times = [part.response_time for part in parts if part is not None and part.response_time.count]
    if not times or len(times) != len(parts):
        return {f"{name}_mean_us": None, **_percentile_columns(f"{name}_", [])}
    means = _with_interval(f"{name}_mean_us", [time.sum_ns / time.count / 1e3 for time in times])
    return {**means, **_percentile_columns(f"{name}_", [time.decoded(name) for time in times])}


def _law_columns(cell: CellRuns) -> dict[str, _Value]:
    settings = cell.cell.settings
    if settings.is_open:
        return {"law_deviation_percent": None}
    laws = [
        cycle_law(value.throughput_rps, settings.population, value.mean_ns, settings.think_time_s).deviation
        for _, value in cell.runs
    ]
    return {"law_deviation_percent": 100 * sum(laws) / len(laws) if laws else None}


def _stage_columns(cell: CellRuns) -> dict[str, _Value]:
    """Mean time per request in each stage of the proxy, over the requests of the measured phase."""
    means: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for run, _ in cell.runs:
        if run.before is None or run.after is None:
            continue
        measured = subtract_snapshots(run.after, run.before)
        for stage, total in measured.stage_sum_ns.items():
            means[stage].append(total / max(1, measured.total_count) / 1e3)
    return {f"stage_{stage}_us": sum(values) / len(values) if values else None for stage, values in means.items()}


def _window_rows(study: Study, cell: CellRuns) -> list[dict[str, _Value]]:
    rows: list[dict[str, _Value]] = []
    for run, _ in cell.runs:
        seconds = read_hdr_logs(run.folder, len(run.generators))
        for window in windows_of(run.load, seconds, study.plan.window_s) if run.load is not None else []:
            rows.append(
                {
                    "run": run.folder.name,
                    "start_s": window.start_s,
                    "requests": window.requests,
                    "throughput_rps": window.throughput_rps,
                    "mean_response_time_us": window.mean_ns / 1e3 if window.mean_ns is not None else None,
                    "sd_response_time_us": window.sd_ns / 1e3 if window.sd_ns is not None else None,
                    "left_out": "yes" if window.start_s < run.meta.cut_windows else "no",
                }
            )
    return rows


def _log2_rows(cell: CellRuns) -> list[dict[str, _Value]]:
    merged = merge_histograms(times for times in cell.times if times is not None)
    if merged is None:
        return []
    rows: list[dict[str, _Value]] = []
    for power in range(_LOG2_LAST + 1):
        share = 100.0 * merged.count_up_to(1000 << power) / merged.total
        if share > 0.0:
            rows.append({"cell": cell.cell.name, "up_to_us": 1 << power, "cumulative_percent": share})
        if share == 100.0:
            break
    return rows


def csv_text(rows: Sequence[Mapping[str, _Value]]) -> str:
    """All columns of all rows, in the order in which they first come."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell_text(value) for name, value in row.items()})
    return text.getvalue()


def _cell_text(value: _Value) -> str | int:
    """Whole numbers as they are, others with nine significant digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else value
