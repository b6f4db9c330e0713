"""The essence of a study for the terminal: one compact table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from weir_lab.design import RequestPath, Response, Role
from weir_lab.units import count_text, microseconds, number, rate

if TYPE_CHECKING:
    from weir_lab.analysis import Analysis, Comparison, Point

__all__ = ["essence_table"]


def essence_table(analysis: Analysis) -> Table:
    """Clients against throughput, response times, overhead and CPU time by role; means over runs."""
    table = Table(title=analysis.study.title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("clients", justify="right")
    table.add_column("path")
    for heading in ("requests/s", "mean\nµs", "p99\nµs", "throughput\nchange %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for role in Role:
        table.add_column(f"CPU µs\n{role}", justify="right", no_wrap=True)
    for comparison in analysis.comparisons:
        for path in RequestPath:
            point = analysis.point(path, comparison.clients)
            table.add_row(*_row(point, comparison), end_section=path is RequestPath.PROXY)
    table.caption = Text(_caption(analysis))
    table.caption_justify = "left"
    return table


def _row(point: Point, comparison: Comparison) -> list[str | Text]:
    p99 = point.percentiles_ns["p99"]
    through_proxy = point.path is RequestPath.PROXY
    cpu = [
        microseconds(point.cpu_per_request_ns[role].mean) if role in point.cpu_per_request_ns else "–" for role in Role
    ]
    return [
        "" if through_proxy else str(point.clients),
        point.path,
        rate(point.throughput_rps.mean),
        microseconds(point.response_time_mean_ns.mean),
        microseconds(p99.mean) if p99 else "too few",
        Text(_change(comparison)) if through_proxy else "",
        *cpu,
    ]


def _change(comparison: Comparison) -> str:
    change = comparison.effects[Response.THROUGHPUT].change
    return f"{number(change.percent, 0)} [{number(change.low, 0)}, {number(change.high, 0)}]"


def _caption(analysis: Analysis) -> str:
    counts = sorted({point.n for point in analysis.points})
    runs = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    off = sum(not point.law_holds for point in analysis.points)
    law = "interactive law holds on every row" if off == 0 else f"interactive law off on {count_text(off, 'row')}"
    flags = f", {count_text(len(analysis.flagged), 'flagged run')}" if analysis.flagged else ""
    return f"{runs} runs per row; CPU time per request; [95 % intervals]; {law}{flags}"
