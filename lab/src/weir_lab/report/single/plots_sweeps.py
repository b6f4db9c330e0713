"""Figures of any sweep: cells over a factor, knees with the calibrated model beside what was observed, residuals of 2^k r designs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import NullFormatter
from scipy.special import ndtri

from weir_lab.report.single.drawing import THOUSANDS, Figure, canvas_of, errorbar, finish, legend, log_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from weir_lab.report.numbers.analysis import Analysis, Point
    from weir_lab.report.numbers.sweeps import ClientSeries, TwoLevelDesign
    from weir_lab.theory.stats import Interval

__all__ = ["SERIES_SHOWN", "model_figure", "residual_figure", "sweep_figures"]

# More series than this cannot be told apart in one figure; the tables have them all.
_SERIES_DRAWN = 8
# Series with a figure of their own.
SERIES_SHOWN = 6
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333", "#999999")
_MARKERS = "osD^vPX*"
_STYLES = ("-", "--", "-.", ":")


def sweep_figures(analysis: Analysis) -> list[Figure]:
    """Throughput and mean response time of all cells, over the factor with the most numeric levels; lines are the other factors."""
    factor = _axis_factor(analysis)
    series: dict[str, list[Point]] = {}
    for point in analysis.points:
        others = [
            f"{name.replace('_', ' ')} {level}"
            for name, level in point.levels
            if name in analysis.factors and name != factor
        ]
        series.setdefault(", ".join(others) or "all", []).append(point)
    left_out = max(0, len(series) - _SERIES_DRAWN)
    counts = sorted({point.n for point in analysis.points})
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    caption = f"n = {n} runs per point; bars are 95 % Student t intervals over run means."
    if left_out:
        caption += f" {left_out} of {len(series)} lines are left out here; the table has them."
    drawn = dict(list(series.items())[:_SERIES_DRAWN])
    return [
        _over_factor(
            ("throughput", "Throughput", "Throughput (1,000 requests/s)", caption),
            factor, drawn, lambda point: point.throughput_rps.scaled(1e-3), log=False,
        ),
        _over_factor(
            ("response_time", "Mean response time", "Mean response time (µs)", caption),
            factor, drawn, lambda point: point.response_time_mean_ns.scaled(1e-3), log=True,
        ),
    ]  # fmt: skip


def _axis_factor(analysis: Analysis) -> str:
    """``clients`` if it varies, else the numeric factor with the most levels, else the first factor."""
    levels = {name: {point.level(name) for point in analysis.points} for name in analysis.factors}
    if not levels:
        return next(iter(analysis.study.factors))
    if "clients" in levels:
        return "clients"
    numeric = {name: found for name, found in levels.items() if not any(isinstance(level, str) for level in found)}
    pool = numeric or levels
    return max(pool, key=lambda name: len(pool[name]))


def _over_factor(
    texts: tuple[str, str, str, str],
    factor: str,
    series: dict[str, list[Point]],
    value: Callable[[Point], Interval],
    *,
    log: bool,
) -> Figure:
    name, title, axis, caption = texts
    canvas, (axes,) = canvas_of(1)
    levels = list(dict.fromkeys(point.level(factor) for points in series.values() for point in points))
    numeric = [float(level) for level in levels if not isinstance(level, str)]
    spread = len(numeric) == len(levels) and min(numeric) > 0.0
    ordered = sorted(levels, key=float) if len(numeric) == len(levels) else levels
    for index, (label, points) in enumerate(series.items()):
        look = {
            "color": _COLOURS[index],
            "marker": _MARKERS[index],
            "linestyle": _STYLES[index % len(_STYLES)] if len(levels) > 1 else "",
        }
        at = sorted(points, key=lambda point: ordered.index(point.level(factor)))
        x = [float(point.level(factor)) if spread else float(ordered.index(point.level(factor))) for point in at]
        # Lines a little apart, so that bars do not cover each other.
        beside = (index - (len(series) - 1) / 2) * 0.012
        errorbar(
            axes,
            [place * (1 + beside) if spread else place + beside for place in x],
            [value(p) for p in at],
            label,
            look,
        )
    _levels_axis(axes, factor, ordered, spread=spread)
    if log:
        log_axis(axes, [value(point).mean for points in series.values() for point in points])
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_ylabel(axis)
    if len(series) > 1:
        legend(canvas, axes, "")
    words = factor.replace("_", " ")
    return finish(name, f"{title} over {words}", caption, canvas)


def _levels_axis(axes: Axes, factor: str, levels: Sequence[int | float | str], *, spread: bool) -> None:
    names = [str(level) for level in levels]
    if spread:
        axes.set_xscale("log", base=2)
        axes.set_xticks([float(level) for level in levels], names)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    else:
        axes.set_xticks(range(len(levels)), names)
    axes.set_xlabel("Clients (connections)" if factor == "clients" else factor.replace("_", " ").capitalize())


def model_figure(series: ClientSeries, number: int) -> Figure:
    """Observed throughput and response time beside the model that predicted best, and the bracket of the knee."""
    canvas, (left, right) = canvas_of(2, sharey=False)
    look = {"color": "#0072B2", "marker": "o", "linestyle": ""}
    x = [float(n) for n in series.populations]
    errorbar(left, x, [interval.scaled(1e-3) for interval in series.throughput_per_s], "observed", look)
    errorbar(right, x, [interval.scaled(1e6) for interval in series.response_time_s], "observed", look)
    if series.calibrated is not None:
        dense = np.unique(np.geomspace(x[0], x[-1], 60).round().astype(int))
        curve = series.calibrated.model.throughput(dense.tolist())
        for axes, line in ((left, curve / 1e3), (right, dense / curve * 1e6)):
            axes.plot(dense, line, color="#555555", linewidth=1.2, label="closed model, all points")
    if series.best is not None:
        for fitted, marker, label in ((True, "s", "seen"), (False, "D", "predicted")):
            chosen = [one for one in series.best.predictions if one.fitted is fitted]
            for axes, y in (
                (left, [one.predicted_per_s / 1e3 for one in chosen]),
                (right, [one.predicted_response_s * 1e6 for one in chosen]),
            ):
                axes.plot(
                    [one.population for one in chosen], y, marker, markersize=9, markerfacecolor="none",
                    markeredgecolor="#D55E00", markeredgewidth=1.4, label=label,
                )  # fmt: skip
    knee = series.knee
    if knee is not None and knee.certainly_below is not None and knee.certainly_at is not None:
        for axes in (left, right):
            axes.axvspan(
                knee.certainly_below, knee.certainly_at, color="#F0E442", alpha=0.35, linewidth=0, label="knee"
            )
    for axes in (left, right):
        _levels_axis(axes, "clients", series.populations, spread=True)
        axes.set_xlabel("Population N")
    left.set_ylim(bottom=0)
    left.yaxis.set_major_formatter(THOUSANDS)
    left.set_ylabel("Throughput (1,000 requests/s)")
    right.set_ylabel("Response time (µs)")
    log_axis(right, [interval.mean * 1e6 for interval in series.response_time_s])
    legend(canvas, left, "")
    best = "" if series.best is None else f" Best model: {series.best.name}."
    caption = (
        f"Bars are 95 % t intervals over run means. Diamonds: each predicted from a fit to all other populations; squares: seen.{best} "
        "The line is the closed model fitted to all points. Yellow: from the last population certainly below 95 % of the best throughput "
        "to the first certainly above."
    )
    return finish(f"model{number}", f"Model and knee: {series.name}", caption, canvas)


def residual_figure(design: TwoLevelDesign, number: int) -> Figure:
    """Residuals over predicted responses, over normal quantiles, and over the order of runs."""
    canvas, panels = canvas_of(3)
    fit = design.read
    residuals = fit.residuals.ravel()
    predicted = np.repeat(fit.predicted, fit.repetitions)
    places = ndtri((np.arange(1, residuals.size + 1) - 0.375) / (residuals.size + 0.25))
    order = np.array(design.run_order).ravel()
    for axes, x, y, label in (
        (panels[0], predicted, residuals, "Predicted"),
        (panels[1], places, np.sort(residuals), "Normal quantile"),
        (panels[2], order, residuals, "Place in the order of runs"),
    ):
        axes.axhline(0.0, color="#888888", linewidth=0.8)
        axes.plot(x, y, "o", markersize=4.5, color="#0072B2", alpha=0.8)
        axes.set_xlabel(label)
    spread = float(residuals.std())
    panels[1].plot(places, spread * places, color="#D55E00", linewidth=1.1)
    panels[0].set_ylabel("Residual (logarithm)" if design.on_logarithms else f"Residual ({design.unit})")
    for axes in panels[:1] if design.on_logarithms else panels[:2]:
        axes.yaxis.set_major_formatter(THOUSANDS)
    if not design.on_logarithms:
        panels[0].xaxis.set_major_formatter(THOUSANDS)
        panels[0].tick_params(axis="x", labelrotation=30)
    scale = ", on natural logarithms" if design.on_logarithms else ""
    caption = (
        f"Residuals of {design.response}: observed less the mean of the cell, {fit.repetitions} runs in each of "
        f"{len(fit.predicted)} cells{scale}. "
        "Left: equal spread at all levels is assumed. Middle: normal errors lie on the line. "
        "Right: a trend would be a machine that changed."
    )
    return finish(f"residuals{number}", f"Residuals of {design.response}", caption, canvas)
