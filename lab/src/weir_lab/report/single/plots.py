"""Numbers become figures: inline SVG that prints, in colours that survive colour blindness and grey paper.

Each function takes an `Analysis` and gives a `Figure` whose caption states n, interval and method. A figure without data is an error.
Series differ in colour, marker and line, stacked bars in lightness and hatching.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import NullFormatter

from weir_lab.design import RequestPath, Role, levels_of_clients
from weir_lab.records.formats import STAGES
from weir_lab.report.single.drawing import Figure, canvas_of, errorbar, finish, legend, log_axis, stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from weir_lab.report.numbers.analysis import Analysis, Point
    from weir_lab.theory.stats import Interval

__all__ = [
    "all_figures",
    "cpu_figure",
    "percentiles_figure",
    "response_time_figure",
    "stages_figure",
    "throughput_figure",
]

# Okabe and Ito's palette, told apart with every common colour blindness; lightness falls from left to right in STACK.
_SERIES = {
    RequestPath.DIRECT: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    RequestPath.PROXY: {"color": "#D55E00", "marker": "s", "linestyle": "--"},
}
_STACK = ("#0072B2", "#56B4E9", "#F0E442", "#E69F00", "#D55E00", "#CC79A7", "#BBBBBB")
_HATCHES = ("", "///", "", "...", "", "\\\\\\", "xx")
_PERCENTILES = {
    "p50": ("o", "-", "#0072B2"),
    "p90": ("s", "--", "#009E73"),
    "p99": ("^", "-.", "#D55E00"),
    "p99.9": ("D", ":", "#333333"),
}
# Factors that set the series a little apart on the logarithmic axis of clients, so that bars do not cover each other.
_DODGE = (0.94, 0.98, 1.02, 1.06)
_ROLE_COLOURS = {Role.CLIENT: "#56B4E9", Role.PROXY: "#D55E00", Role.SERVERS: "#F0E442"}
_ROLE_HATCHES = {Role.CLIENT: "", Role.PROXY: "///", Role.SERVERS: "..."}


def all_figures(analysis: Analysis) -> list[Figure]:
    """Every figure of the report that there are numbers for, in its order."""
    makers = [throughput_figure, response_time_figure]
    if any(point.percentiles_ns["p50"] for point in analysis.points):
        makers.append(percentiles_figure)
    if any(point.proxy for point in analysis.points_of(RequestPath.PROXY)):
        makers.append(stages_figure)
    return [make(analysis) for make in [*makers, cpu_figure]]


def throughput_figure(analysis: Analysis) -> Figure:
    """Throughput over clients."""
    canvas, (axes,) = canvas_of(1)
    for path in RequestPath:
        _line(axes, analysis.points_of(path), lambda point: point.throughput_rps.scaled(1e-3), path)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("Throughput (1,000 requests/s)")
    legend(canvas, axes, "Path")
    _clients_axis(axes, analysis)
    return finish("throughput", "Throughput over clients", _method(analysis, "run means"), canvas)


def response_time_figure(analysis: Analysis) -> Figure:
    """Mean response time over clients."""
    canvas, (axes,) = canvas_of(1)
    for path in RequestPath:
        _line(axes, analysis.points_of(path), lambda point: point.response_time_mean_ns.scaled(1e-3), path)
    log_axis(axes, [point.response_time_mean_ns.mean / 1e3 for point in analysis.points])
    axes.set_ylabel("Mean response time (µs)")
    legend(canvas, axes, "Path")
    _clients_axis(axes, analysis)
    caption = _method(analysis, "run means") + " Both axes are logarithmic; bars that reach lower are cut at the edge."
    return finish("response_time", "Mean response time over clients", caption, canvas)


def percentiles_figure(analysis: Analysis) -> Figure:
    """Percentiles of the response time over clients, one panel per path."""
    canvas, panels = canvas_of(2)
    for axes, path in zip(panels, RequestPath, strict=True):
        for (name, (marker, style, colour)), beside in zip(_PERCENTILES.items(), _DODGE, strict=True):
            known = [(point, point.percentiles_ns[name]) for point in analysis.points_of(path)]
            points = [(point.clients, interval.scaled(1e-3)) for point, interval in known if interval is not None]
            if points:
                look = {"marker": marker, "linestyle": style, "color": colour}
                errorbar(axes, [x * beside for x, _ in points], [y for _, y in points], name, look)
        axes.set_title(f"Path: {path}", fontsize=10.5, loc="left")
        log_axis(
            axes, [point.percentiles_ns["p50"].mean / 1e3 for point in analysis.points if point.percentiles_ns["p50"]]
        )
        _clients_axis(axes, analysis)
    panels[0].set_ylabel("Response time (µs)")
    legend(canvas, panels[0], "Percentile")
    fewest = min(point.samples_per_run_min for point in analysis.points)
    caption = (
        _method(analysis, "one percentile per run, from the run's merged histograms")
        + f" At least {fewest:,} requests per run; percentiles with too few are left out. Axes are logarithmic; longer bars are cut."
    )
    return finish("percentiles", "Percentiles of the response time over clients", caption, canvas)


def stages_figure(analysis: Analysis) -> Figure:
    """Where the time of a request goes: stages inside the proxy beside the client's whole."""
    points = [point for point in analysis.points_of(RequestPath.PROXY) if point.proxy]
    canvas, (left, right) = canvas_of(2, sharey=False)
    parts: list[tuple[str, list[float]]] = [
        (stage, [point.proxy.stage_mean_ns[stage].mean / 1e3 for point in points if point.proxy]) for stage in STAGES
    ]
    outside = ("outside the proxy", [max(0.0, point.proxy.outside_ns.mean) / 1e3 for point in points if point.proxy])
    labels = [str(point.clients) for point in points]
    stack(left, labels, [*parts, outside], _STACK, _HATCHES)
    left.set_ylabel("Mean time per request (µs)")
    left.set_title("Time", fontsize=10.5, loc="left")
    totals = [sum(values[index] for _, values in [*parts, outside]) for index in range(len(points))]
    shares = [
        (name, [100.0 * value / total for value, total in zip(values, totals, strict=True)])
        for name, values in [*parts, outside]
    ]
    stack(right, labels, shares, _STACK, _HATCHES)
    right.set_ylabel("Share of the client's response time (%)")
    right.set_title("Share", fontsize=10.5, loc="left")
    right.set_ylim(0, 100)
    for axes in (left, right):
        axes.set_xlabel("Clients (connections)")
    legend(canvas, left, "Stage")
    caption = (
        "Means over all operations of the measured phase, then over "
        f"{_n_text(points)} runs per bar; intervals are in the table. Stages are differences of the proxy's stamps; outside the proxy = "
        "the client's mean response time less the proxy's total: network, kernel buffers and the load generator."
    )
    return finish("stages", "Stages of a request through the proxy", caption, canvas)


def cpu_figure(analysis: Analysis) -> Figure:
    """CPU time per request by role."""
    canvas, panels = canvas_of(2)
    for axes, path in zip(panels, RequestPath, strict=True):
        points = analysis.points_of(path)
        roles = [role for role in Role if role in points[0].cpu_per_request_ns]
        parts = [(str(role), [point.cpu_per_request_ns[role].mean / 1e3 for point in points]) for role in roles]
        colours, hatches = [_ROLE_COLOURS[role] for role in roles], [_ROLE_HATCHES[role] for role in roles]
        stack(axes, [str(point.clients) for point in points], parts, colours, hatches)
        axes.set_title(f"Path: {path}", fontsize=10.5, loc="left")
        axes.set_xlabel("Clients (connections)")
    panels[0].set_ylabel("CPU time per request (µs)")
    legend(canvas, panels[1], "Role")
    caption = (
        f"CPU time of each role's processes in the measured phase over requests completed; means over {_n_text(analysis.points)} runs per "
        "bar, intervals are in the table. User and system time; kernel work that is charged to no process is not in it."
    )
    return finish("cpu", "CPU time per request by role", caption, canvas)


def _line(axes: Axes, points: list[Point], value: Callable[[Point], Interval], path: RequestPath) -> None:
    beside = _DODGE[0] if path is RequestPath.DIRECT else _DODGE[-1]
    x = [point.clients * beside for point in points]
    errorbar(axes, x, [value(point) for point in points], path, _SERIES[path])


def _method(analysis: Analysis, what: str) -> str:
    return f"n = {_n_text(analysis.points)} runs per point; bars are 95 % Student t intervals over {what}."


def _n_text(points: list[Point]) -> str:
    counts = sorted({point.n for point in points})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _clients_axis(axes: Axes, analysis: Analysis) -> None:
    levels = levels_of_clients(analysis.study)
    axes.set_xscale("log", base=2)
    axes.set_xticks(levels, [str(level) for level in levels])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set_xlabel("Clients (connections)")
