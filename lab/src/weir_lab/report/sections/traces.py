"""Stability over time: throughput, response time and its spread per window, with drift, spread and the interactive law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from weir_lab.records.windows import Window, windows_of_run
from weir_lab.report.common import Task, figure, with_tables
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.stats import batch_means
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["Steadiness", "build", "conclusions", "steadiness", "summary"]

# More windows than this are merged for the drawing; the numbers are those of all.
_DRAWN = 240
_BATCHES = 10


@dataclass(frozen=True)
class Steadiness:
    """A run over time: its windows, their coefficient of variation, its drift, and the law.

    ``drift_percent`` is the change along a straight line through ten batch means, from the first batch to the last.
    ``chance_percent`` is what such a line shows by chance in 1 of 100 steady runs (t of the slope, batches taken as
    independent: see ``lag1``).
    """

    windows: tuple[Window, ...]
    cv_percent: float
    drift_percent: float
    chance_percent: float
    lag1: float
    law_percent: float

    @property
    def stable(self) -> bool:
        """No drift beyond chance, or one of less than a percent."""
        return abs(self.drift_percent) <= max(self.chance_percent, 1.0)


def build(task: Task) -> list[Block]:
    """One figure per file: throughput, mean and standard deviation over time."""
    figures: list[Block | None] = []
    rows: list[tuple[Entry, ...]] = []
    points = []
    for sweep in (*task.sweeps, *task.beside):
        for cell in sweep.cells:
            run = cell.runs[0]
            found = steadiness(run, sweep.study.plan.window_s)
            if found is None:
                continue
            figures.append(_figure(task, sweep, cell, found))
            rows.append(
                (
                    sweep.study.name, Value(len(found.windows)), Value(run.throughput, digits=0), Value(1e3 * run.response_s),
                    Value(found.cv_percent, digits=1), Value(found.drift_percent, digits=2, signed=True),
                    Value(found.chance_percent, digits=2), Value(found.lag1, digits=2),
                    Value(found.law_percent, digits=2, signed=True),
                    "stable" if found.stable else "drifts",
                )
            )  # fmt: skip
            points.append(_point(sweep, found))
    if not rows:
        return [Text("No run is long enough for windows.")]
    table = Table(
        f"{task.spec.name}-steadiness",
        "Spread (coefficient of variation) of throughput between windows; change along a straight line through ten batch means, from the "
        "first to the last, beside what chance alone shows in 1 of 100 steady runs; correlation of neighbouring batches; deviation from "
        "the interactive law.",
        (
            "Trace",
            "Windows",
            "X (requests/s)",
            "R (ms)",
            "Spread (%)",
            "Drift (%)",
            "By chance (%)",
            "Lag 1",
            "Law (%)",
            "Verdict",
        ),
        tuple(rows),
    )
    return [Text("What the data say:", tuple(points)), *with_tables([table, *figures])]


def summary(task: Task) -> str:
    """Which traces are stable."""
    verdicts = []
    for sweep in task.sweeps:
        for cell in sweep.cells:
            found = steadiness(cell.runs[0], sweep.study.plan.window_s)
            if found is not None:
                verdicts.append(
                    f"{sweep.study.name} {'is stable' if found.stable else 'drifts'} (spread {number(found.cv_percent, 1)} %)"
                )
    return f"{task.spec.title}: {'; '.join(verdicts) or 'no run is long enough'}."


def steadiness(run: Reading, width_s: int) -> Steadiness | None:
    """How a run went over time; ``None`` with fewer than six windows."""
    windows = windows_of_run(run.run.folder, run.load, width_s)
    if len(windows) < 6:
        return None
    rates = np.array([window.throughput_rps for window in windows])
    count = min(_BATCHES, len(rates) // 2)
    length = len(rates) // count
    means = rates[: count * length].reshape(count, length).mean(axis=1) / rates.mean()
    drift, chance = _drift(means)
    lag1 = batch_means(rates, count).lag1
    spread = 100.0 * float(rates.std(ddof=1) / rates.mean())
    return Steadiness(tuple(windows), spread, 100.0 * drift, 100.0 * chance, lag1, 100.0 * run.law_deviation)


def _drift(means: NDArray[np.float64]) -> tuple[float, float]:
    """Change along the least-squares line from the first value to the last, and its 99 % reach under no change; infinite for two."""
    place = np.arange(means.size) - (means.size - 1) / 2.0
    slope = float((place @ means) / (place @ place))
    span = float(means.size - 1)
    freedom = means.size - 2
    if freedom < 1:
        return slope * span, math.inf
    left = means - means.mean() - slope * place
    error = math.sqrt(float(left @ left) / freedom / float(place @ place))
    return slope * span, float(stdtrit(freedom, 0.995)) * error * span


def _point(sweep: SweepReadings, found: Steadiness) -> str:
    verdict = "stable" if found.stable else "not stable"
    return (
        f"{sweep.study.name} is {verdict}: from its first tenth to its last throughput changes by "
        f"{Value(found.drift_percent, digits=2, signed=True).text} %, where chance "
        f"alone explains {number(found.chance_percent, 2)} %; "
        f"windows spread by {number(found.cv_percent, 1)} %, and the response time "
        f"is {Value(found.law_percent, digits=2, signed=True).text} % "
        "off N / X."
    )


def _figure(task: Task, sweep: SweepReadings, cell: CellReadings, found: Steadiness) -> Figure | None:
    windows = found.windows
    step = -(-len(windows) // _DRAWN)
    chosen = [windows[index] for index in range(0, len(windows), step)]
    rate = tuple(Mark(one.start_s, one.throughput_rps) for one in chosen)
    mean = tuple(Mark(one.start_s, one.mean_ns / 1e6) for one in chosen if one.mean_ns is not None)
    lines = [Line("mean response time", mean, LOOKS[1], "plain")]
    spread = tuple(
        Mark(one.start_s, one.mean_ns / 1e6, max(0.0, one.mean_ns - one.sd_ns) / 1e6, (one.mean_ns + one.sd_ns) / 1e6)
        for one in chosen
        if one.mean_ns is not None and one.sd_ns is not None
    )
    if spread:
        lines.insert(0, Line("mean ± one standard deviation inside the window", spread, LOOKS[1], "band"))
    panels = [
        Panel(
            "throughput",
            Axis("Time (s)"),
            Axis("Throughput (requests/s)"),
            (Line("throughput", rate, LOOKS[0], "plain"),),
        ),
        Panel("response time", Axis("Time (s)"), Axis("Response time (ms)"), tuple(lines)),
    ]
    text = (
        f"One run ({cell.runs[0].name}), windows of {sweep.study.plan.window_s} s"
        + (f", every {step}th drawn" if step > 1 else "")
        + "; windows of one run are correlated, so they have no intervals."
    )
    name = sweep.study.name.removeprefix(f"{task.label.lower()}-")
    return figure(task, name, f"{sweep.study.title} ({sweep.study.name})", panels, text, [sweep])


def conclusions(task: Task) -> dict[str, str]:
    """Stable or not, per trace."""
    return {
        f"trace {sweep.study.name}": "stable" if found.stable else "drifts"
        for sweep in task.sweeps
        for cell in sweep.cells
        if (found := steadiness(cell.runs[0], sweep.study.plan.window_s)) is not None
    }
