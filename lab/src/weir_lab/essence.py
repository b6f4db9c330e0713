"""The essence of a study for the terminal: one compact table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from weir_lab.design import RequestPath, Response, Role
from weir_lab.units import count_text, microseconds, rate, signed_percent

if TYPE_CHECKING:
    from weir_lab.analysis import Analysis, Comparison, Point

__all__ = ["essence_table"]

_ROLE_LETTERS = {Role.CLIENT: "client", Role.PROXY: "proxy", Role.SERVERS: "servers"}


def essence_table(analysis: Analysis) -> Table:
    """Clients against throughput, response times, overhead and CPU time; run means, overhead with its 95 % interval."""
    table = Table(title=analysis.study.title, title_justify="left", header_style="bold", padding=(0, 1))
    table.add_column("clients", justify="right")
    table.add_column("path")
    for heading in ("requests/s", "mean µs", "p99 µs"):
        table.add_column(heading, justify="right")
    table.add_column("throughput change %", justify="right")
    table.add_column("mean time change %", justify="right")
    table.add_column("CPU µs/request: " + " + ".join(_ROLE_LETTERS[role] for role in Role), justify="right")
    for comparison in analysis.comparisons:
        for path in RequestPath:
            point = analysis.point(path, comparison.clients)
            table.add_row(*_row(point, comparison), end_section=path is RequestPath.PROXY)
    table.caption = _caption(analysis)
    table.caption_justify = "left"
    return table


def _row(point: Point, comparison: Comparison) -> list[str]:
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
        _change(comparison, Response.THROUGHPUT) if through_proxy else "",
        _change(comparison, Response.MEAN_RESPONSE_TIME) if through_proxy else "",
        " + ".join(cpu),
    ]


def _change(comparison: Comparison, response: Response) -> str:
    change = comparison.effects[response].change
    return f"{signed_percent(change.percent)} ({signed_percent(change.low)} to {signed_percent(change.high)})"


def _caption(analysis: Analysis) -> str:
    counts = sorted({point.n for point in analysis.points})
    runs = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    off = sum(not point.law_holds for point in analysis.points)
    law = "interactive law holds on every row" if off == 0 else f"interactive law off on {count_text(off, 'row')}"
    flags = f", {count_text(len(analysis.flagged), 'flagged run')}" if analysis.flagged else ""
    return f"{runs} runs per row; changes with 95 % intervals; {law}{flags}"
