"""The essence of a study for the terminal: one compact table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from weir_lab.design import RequestPath, Response
from weir_lab.theory.units import count_text, microseconds, number, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Role
    from weir_lab.report.numbers.analysis import Analysis, Comparison, Point

__all__ = ["essence_table"]


def essence_table(analysis: Analysis) -> Table:
    """Clients against throughput, response times, overhead and CPU time by role; means over runs. Other studies: a row per cell."""
    table = Table(title=analysis.study.title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in ("clients", "path") if analysis.comparisons else analysis.factors:
        table.add_column(heading.replace("_", " "), justify="right" if heading != "path" else "left")
    changes = ["throughput\nchange %"] if analysis.comparisons else []
    for heading in ("requests/s", "mean\nµs", "p99\nµs", *changes):
        table.add_column(heading, justify="right", no_wrap=True)
    roles = analysis.roles
    for role in roles:
        table.add_column(f"CPU µs\n{role}", justify="right", no_wrap=True)
    for comparison in analysis.comparisons:
        for path in RequestPath:
            point = analysis.point(path, comparison.clients)
            table.add_row(*_row(point, comparison, roles), end_section=path is RequestPath.PROXY)
    if not analysis.comparisons:
        for point in analysis.points:
            table.add_row(
                *(str(point.level(factor)) for factor in analysis.factors), *_numbers(point), *_cpu(point, roles)
            )
    table.caption = Text(_caption(analysis))
    table.caption_justify = "left"
    return table


def _row(point: Point, comparison: Comparison, roles: Sequence[Role]) -> list[str | Text]:
    through_proxy = point.path is RequestPath.PROXY
    return [
        "" if through_proxy else str(point.clients),
        point.path,
        *_numbers(point),
        Text(_change(comparison)) if through_proxy else "",
        *_cpu(point, roles),
    ]


def _numbers(point: Point) -> list[str]:
    p99 = point.percentiles_ns["p99"]
    mean = microseconds(point.response_time_mean_ns.mean)
    return [rate(point.throughput_rps.mean), mean, microseconds(p99.mean) if p99 else "too few"]


def _cpu(point: Point, roles: Sequence[Role]) -> list[str]:
    return [
        microseconds(point.cpu_per_request_ns[role].mean) if role in point.cpu_per_request_ns else "–" for role in roles
    ]


def _change(comparison: Comparison) -> str:
    change = comparison.effects[Response.THROUGHPUT]
    return f"{number(change.percent, 0)} [{number(change.low, 0)}, {number(change.high, 0)}]"


def _caption(analysis: Analysis) -> str:
    counts = sorted({point.n for point in analysis.points})
    runs = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    off = sum(not point.law_holds for point in analysis.points)
    law = "interactive law holds on every row" if off == 0 else f"interactive law off on {count_text(off, 'row')}"
    flags = f", {count_text(len(analysis.flagged), 'flagged run')}" if analysis.flagged else ""
    intervals = "; [95 % intervals]" if analysis.comparisons else ""
    return f"{runs} runs per row; CPU time per request{intervals}; {law}{flags}"
