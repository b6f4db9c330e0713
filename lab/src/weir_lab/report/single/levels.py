"""What every sweep has: all cells with throughput and response times, and both over the factor that varies most.

Start with `headline`; `build` is the section of sweeps that have no kind of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import BARS_IN_FULL, Task, figure, level_name, mark, method
from weir_lab.report.numbers.analysis import PERCENTILES
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.design import Level
    from weir_lab.report.numbers.analysis import Analysis, Point
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["build", "factor_cells", "factor_heads", "headline", "laws", "percentiles"]

# More lines than this cannot be distinguished in one figure; the tables have them all.
_LINES_MAX = len(LOOKS)


def factor_heads(analysis: Analysis) -> tuple[str, ...]:
    """Headings of the factors that name a row; clients before path where these are compared."""
    return tuple(name.replace("_", " ").capitalize() for name in _names(analysis))


def factor_cells(analysis: Analysis, point: Point) -> tuple[Entry, ...]:
    """Levels of these factors at a point."""
    return tuple(_entry(point.level(name)) for name in _names(analysis))


def _names(analysis: Analysis) -> list[str]:
    return ["clients", "path"] if analysis.comparisons else list(analysis.factors)


def _entry(level: Level) -> Entry:
    return level if isinstance(level, str) else Value(level)


def headline(analysis: Analysis) -> Table:
    """Every cell: runs, throughput, mean and 99th percentile of the response time."""
    rows = []
    for point in analysis.points:
        tail = point.percentiles_ns["p99"]
        rows.append(
            (
                *factor_cells(analysis, point), Value(point.n), Value.of(point.throughput_rps, 0),
                Value.of(point.response_time_mean_ns.scaled(1e-6)),
                Value.of(tail.scaled(1e-6)) if tail is not None else "too few",
            )
        )  # fmt: skip
    return Table(
        "cells",
        "Run means with 95 % intervals over n runs. p99: the 99th percentile of each run, averaged over runs.",
        (*factor_heads(analysis), "n", "Throughput (requests/s)", "Mean response time (ms)", "p99 (ms)"),
        tuple(rows),
    )


def percentiles(analysis: Analysis) -> Table | None:
    """Percentiles of every cell; nothing where no run has any."""
    rows = []
    for point in analysis.points:
        found = [point.percentiles_ns[name] for name in PERCENTILES]
        reported = [Value.of(one.scaled(1e-6)) if one is not None else "too few" for one in found]
        rows.append((*factor_cells(analysis, point), Value(point.samples_per_run_min), *reported))
    if not any(isinstance(one, Value) for row in rows for one in row[-len(PERCENTILES) :]):
        return None
    return Table(
        "percentiles",
        "Percentiles of the response time (ms): one of each run from all operations' histograms together, then mean with 95 % interval "
        "over runs. Too few: a run has too few requests for the percentile.",
        (*factor_heads(analysis), "Fewest requests in a run", *PERCENTILES),
        tuple(rows),
        folded=True,
    )


def laws(analysis: Analysis) -> Table:
    """The interactive law on every cell."""
    rows = [
        (
            *factor_cells(analysis, point), Value(point.population), Value(point.throughput_rps.mean, digits=0),
            Value(point.response_time_mean_ns.mean / 1e6), Value(point.law_response_time_ns.mean / 1e6),
            _percent(point), "holds" if point.law_holds else "off",
        )
        for point in analysis.points
    ]  # fmt: skip
    return Table(
        "interactive-law",
        "Interactive law: in a closed system R = N / X − Z, where Z is what clients think between requests (0 unless the study says so). "
        f"The study allows ±{100 * analysis.study.gates.law_deviation_max:g} %. A measured R below the law is time that the load generator "
        "spends between a reply and the next request.",
        (*factor_heads(analysis), "N", "X (requests/s)", "R measured (ms)", "N / X − Z (ms)", "Deviation (%)", "Law"),
        tuple(rows),
        folded=True,
    )


def _percent(point: Point) -> Value:
    found = point.law_deviation.scaled(100.0)
    return Value(found.mean, found.low, found.high, 2, signed=True)


def build(task: Task) -> list[Block]:
    """Throughput and mean response time of all cells over the factor with the most numeric levels; lines are the other factors."""
    sweep = task.first
    factor = _axis_factor(sweep.cells, sweep.varied or list(sweep.study.factors))
    lines: dict[str, list[CellReadings]] = {}
    for cell in sweep.cells:
        others = [level_name(name, cell.level(name)) for name in sweep.varied if name != factor]
        lines.setdefault(", ".join(others) or "all", []).append(cell)
    drawn = dict(list(lines.items())[:_LINES_MAX])
    left_out = len(lines) - len(drawn)
    text = method(sweep.cells, BARS_IN_FULL) + (
        f" {left_out} of {len(lines)} lines are left out here; the table has them." if left_out else ""
    )
    levels = list(dict.fromkeys(cell.level(factor) for cell in sweep.cells))
    figures = [
        figure(
            task, name, f"{title} over {factor.replace('_', ' ')}",
            [Panel(title.lower(), _axis(factor, levels), Axis(unit), _lines(drawn, factor, levels, value, scale))], text,
        )
        for name, title, unit, value, scale in (
            ("throughput", "Throughput", "Throughput (requests/s)", _throughput, 1.0),
            ("response", "Mean response time", "Response time (ms)", _response, 1e3),
        )
    ]  # fmt: skip
    return [one for one in figures if one is not None] or [Text("No cell has runs.")]


def _throughput(run: Reading) -> float:
    return run.throughput


def _response(run: Reading) -> float:
    return run.response_s


def _axis_factor(cells: Sequence[CellReadings], factors: Sequence[str]) -> str:
    """``clients`` if it varies, else the numeric factor with the most levels, else the first factor."""
    if "clients" in factors:
        return "clients"
    levels = {name: {cell.level(name) for cell in cells} for name in factors}
    numeric = {name: found for name, found in levels.items() if not any(isinstance(level, str) for level in found)}
    pool = numeric or levels
    return max(pool, key=lambda name: len(pool[name]))


def _axis(factor: str, levels: Sequence[Level]) -> Axis:
    label = "Clients (connections)" if factor == "clients" else factor.replace("_", " ").capitalize()
    numbers = [float(level) for level in levels if not isinstance(level, str)]
    if len(numbers) < len(levels):
        return Axis(label, names=tuple(map(str, levels)))
    wide = min(numbers) > 0.0 and len(numbers) > 2 and max(numbers) >= 8.0 * min(numbers)
    return Axis(label, log=wide, ticks=tuple(sorted(numbers)))


def _lines(
    series: dict[str, list[CellReadings]],
    factor: str,
    levels: Sequence[Level],
    value: Callable[[Reading], float | None],
    scale: float,
) -> tuple[Line, ...]:
    named = any(isinstance(level, str) for level in levels)
    found = []
    for (name, cells), look in zip(series.items(), LOOKS, strict=False):
        marks = [
            mark(cell, float(levels.index(level) if named else level), value, scale)
            for cell in cells
            for level in (cell.level(factor),)
        ]
        found.append(Line(name, tuple(one for one in marks if one is not None), look))
    return tuple(found)
