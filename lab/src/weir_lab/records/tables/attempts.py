"""The attempts of some sweeps as one short list, for readers who want to see every run: `attempts_csv`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weir_lab.design import load_study
from weir_lab.records.runs import read_run_metas, read_sweep
from weir_lab.records.tables.run_rows import run_rows
from weir_lab.records.tables.summary import csv_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["LISTING", "attempts_csv"]

LISTING = "runs.csv"
"""Its name beside the data of a page's figures."""

_Value = str | int | float | bool | None
_KEPT = ("requests", "throughput_rps", "mean_response_time_us", "p50_us", "p99_us")


def attempts_csv(sweeps: Iterable[Path]) -> str:
    """One row for each attempt, in the order in which they were made: sweep, run, start (UTC), what came out, or why it does not count.

    Columns are ``sweep``, ``run``, ``started``, ``repetition``, ``attempt``, ``requests``, ``throughput_rps``, ``mean_response_time_us``,
    ``p50_us``, ``p99_us``, ``valid`` and ``reasons``. Where a sweep has no load, or an attempt is not valid, results are empty.
    """
    rows = []
    for folder in sweeps:
        study, metas = load_study(folder / "study.toml"), read_run_metas(folder)
        for row in run_rows(study, read_sweep(folder).executables, metas):
            rows.append((int(row["started_unix_ns"] or 0), _short(folder.name, row)))
    return csv_text([row for _, row in sorted(rows, key=lambda pair: pair[0])])


def _short(sweep: str, row: Mapping[str, _Value]) -> dict[str, _Value]:
    started = datetime.fromtimestamp(int(row["started_unix_ns"] or 0) // 1_000_000_000, UTC)
    return {
        "sweep": sweep,
        "run": row["run"],
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "repetition": row["repetition"],
        "attempt": row["attempt"],
        **{name: _rounded(row.get(name)) for name in _KEPT},
        "valid": row["valid"],
        "reasons": row["reasons"],
    }


def _rounded(value: _Value) -> _Value:
    """To five significant digits, as the files of figures need no more."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
