"""Commands that ask a finished sweep: ``weir-lab changes`` and ``weir-lab precision``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from weir_lab.design import Response, load_study
from weir_lab.errors import ReportError
from weir_lab.records import read_runs, read_sweep
from weir_lab.report.numbers.analysis import RESPONSE_NAMES, current_runs, valid_runs
from weir_lab.report.numbers.interval_doubts import basis_texts
from weir_lab.theory.linear import LayoutError, LogModel, MeasuredRun
from weir_lab.theory.stats import runs_for_precision, variance_components
from weir_lab.theory.units import change_text, count_text, number, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.records import Run
    from weir_lab.theory.linear import Change, Equivalence

__all__ = ["changes", "precision"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep")]
_FROM_HELP = "The cell that the others are compared with; the first by default"
_SAME_HELP = "Also judge whether cells are the same within this margin, which you chose before you saw the data"
_WITHIN_HELP = "Half of the interval that you want, in percent of the mean"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for scripts")]


def changes(
    folder: Folder,
    base: Annotated[str, typer.Option("--from", metavar="CELL", help=_FROM_HELP)] = "",
    to: Annotated[list[str] | None, typer.Option("--to", metavar="CELL", help="Only this cell. Repeat it for several")] = None,
    response: Annotated[Response, typer.Option(help="What is compared")] = Response.THROUGHPUT,
    same_within: Annotated[
        float | None, typer.Option(metavar="PERCENT", min=0.01, help=_SAME_HELP)
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Changes between cells by the linear model of all runs, with intervals that hold together; equality against a margin."""
    runs = _valid_runs(folder)
    model = _model(folder, runs, response)
    cells = sorted(str(cell) for cell in model.values)
    chosen = base or cells[0]
    others = list(to or [cell for cell in cells if cell != chosen])
    unknown = [cell for cell in (chosen, *others) if cell not in cells]
    if unknown or not others or chosen in others:
        what = f"there is no cell {unknown[0]}" if unknown else "a change needs two different cells"
        raise ReportError(f"{folder}: {what}; its cells are {', '.join(cells)}.")
    found = model.changes([(chosen, cell) for cell in others])
    # One-sided at 5 % over all that are asked for together (Bonferroni).
    same = [
        None if same_within is None else model.equivalence(chosen, cell, same_within, 0.05 / len(others))
        for cell in others
    ]
    basis = ". ".join(basis_texts({RESPONSE_NAMES[response]: model}))
    if as_json:
        rows = [_plain(cell, change, equal) for cell, change, equal in zip(others, found, same, strict=True)]
        typer.echo(json.dumps({"from": chosen, "response": str(response), "changes": rows, "basis": basis}, indent=1))
        return
    together = f" that hold together for {count_text(len(others), 'change')}" if len(others) > 1 else ""
    typer.echo(f"{RESPONSE_NAMES[response].capitalize()}, from {chosen}; 95 % intervals{together}")
    for cell, change, equal in zip(others, found, same, strict=True):
        typer.echo(f"  to {cell}: {change_text(change)}; {_verdict(change, equal)}")
    typer.echo(f"  {basis}")


def _verdict(change: Change, equal: Equivalence | None) -> str:
    said = "a difference is shown" if change.shown else "no difference shown"
    if equal is None:
        return said
    words = "the same" if equal.shown else "not shown to be the same"
    return f"{said}; {words} within {equal.margin_percent:g} % (p = {number(equal.p, 4)}, needs {equal.alpha:.3g})"


def _plain(cell: str, change: Change, equal: Equivalence | None) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "to": cell, "percent": change.percent, "low": change.low, "high": change.high, "p": change.p, "shown": change.shown,
        "runs": change.n, "family": change.family, "error_from": str(change.error_from),
    }  # fmt: skip
    if equal is not None:
        plain["same"] = {
            "within_percent": equal.margin_percent,
            "shown": equal.shown,
            "p": equal.p,
            "alpha": equal.alpha,
        }
    return plain


def precision(
    folder: Folder,
    within: Annotated[float, typer.Option(metavar="PERCENT", min=0.01, max=99.0, help=_WITHIN_HELP)] = 5.0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Where the spread of throughput comes from, and how many runs in all each cell needs (two-stage plan, the runs there as its pilot)."""
    by_cell: dict[str, list[Run]] = {}
    for run in _valid_runs(folder):
        by_cell.setdefault(run.meta.cell, []).append(run)
    rows = [_precision_of(cell, runs, within) for cell, runs in sorted(by_cell.items()) if len(runs) >= 2]
    if not rows:
        raise ReportError(
            f"{folder}: a pilot needs two valid runs of a cell, and no cell has them. Run `weir-lab run` again."
        )
    if as_json:
        typer.echo(json.dumps({"within_percent": within, "cells": rows}, indent=1))
        return
    typer.echo(
        f"Throughput: runs in all for ± {within:g} % at 95 % (Stein's two-stage plan); spread between runs and inside them"
    )
    for row in rows:
        inside, between = row["inside_percent"], row["between_percent"]
        reported = (
            ""
            if inside is None
            else f"; between runs {significant(between)} %, left of the windows in a run mean {significant(inside)} %: {row['advice']}"
        )
        typer.echo(f"  {row['cell']}: {count_text(row['runs_needed'], 'run')} (has {row['runs']}){reported}")
    typer.echo(
        "  The number is fixed by these runs alone: make exactly that number with `weir-lab extend`, and look at the interval once."
    )


def _precision_of(cell: str, runs: Sequence[Run], within: float) -> dict[str, Any]:
    rates = [run.load.throughput_rps for run in runs if run.load is not None]
    windows = [found for run in runs if len(found := _window_rates(run)) >= 2]
    row: dict[str, Any] = {
        "cell": cell, "runs": len(rates), "runs_needed": runs_for_precision(rates, within / 100.0),
        "between_percent": None, "inside_percent": None, "advice": None,
    }  # fmt: skip
    if len(windows) >= 2:
        parts, mean = variance_components(windows), float(np.mean(rates))
        row["between_percent"] = 100.0 * parts.between**0.5 / mean
        row["inside_percent"] = 100.0 * (parts.within / parts.windows_per_run) ** 0.5 / mean
        row["advice"] = "more runs help" if parts.more_runs_help else "longer runs help"
    return row


def _window_rates(run: Run) -> list[float]:
    """Requests per second of the whole windows of a run; a last, shorter one is left out."""
    windows = run.load.windows if run.load is not None else []
    return [one.requests / one.length_ns * 1e9 for one in windows or [] if one.length_ns == windows[0].length_ns]


def _valid_runs(folder: Path) -> list[Run]:
    if not (folder / "sweep.json").exists():
        raise ReportError(f"{folder}: no sweep here. Make one with `weir-lab run STUDY --out {folder}`.")
    runs, _ = read_runs(folder)
    current = current_runs(load_study(folder / "study.toml"), read_sweep(folder), runs)
    found = [run for run in valid_runs(current) if run.load is not None]
    if not found:
        raise ReportError(
            f"{folder}: no valid run of a load belongs to its study as it stands. Run `weir-lab run` again."
        )
    return found


def _model(folder: Path, runs: Sequence[Run], response: Response) -> LogModel:
    measured = []
    for run in runs:
        value = _value(run, response)
        if value is None:
            raise ReportError(f"{run.folder}: this run has no {RESPONSE_NAMES[response]}. Choose another --response.")
        meta = run.meta
        measured.append(MeasuredRun(run.meta.cell, value, meta.repetition, float(meta.started_unix_ns)))
    try:
        return LogModel(measured)
    except LayoutError as error:
        raise ReportError(f"{folder}: {len(measured)} valid runs allow no comparison: {error}") from error


def _value(run: Run, response: Response) -> float | None:
    load = run.load
    if load is None:
        return None
    if response is Response.THROUGHPUT:
        return load.throughput_rps
    if response is Response.MEAN_RESPONSE_TIME:
        return load.response_time_sum_ns / load.response_time_count
    histogram = load.response_times()
    return None if histogram is None else histogram.percentile(99.0)
