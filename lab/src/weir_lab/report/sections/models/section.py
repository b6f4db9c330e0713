"""What stands on the page: what the models say, the network of queues over clients, tables of predictions and stations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weir_lab.report.common import Series, Task, figure, level_text, line_over, series_of, with_tables
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.report.sections.models.calibrated import calibrated, calibrated_blocks
from weir_lab.report.sections.models.predicted import Guess, network_of, network_predictions, open_predictions
from weir_lab.report.sections.models.words import off, rule_text
from weir_lab.theory.fitting.meeting import tally_text
from weir_lab.theory.queueing import Kind, solve_closed
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["build", "summary"]


def build(task: Task) -> list[Block]:
    """Tables and figures for each series over clients that goes through a proxy."""
    every = [one for one in series_of(task) if not one.event and len(one.cells) >= 2]
    fits = [(one, found) for one in every if (found := calibrated(one)) is not None]
    fitted = calibrated_blocks(task, fits) if fits else []
    lines = [one for one in every if one.cells[0].runs[0].proxy is not None]
    if not lines:
        return [
            Text("No series over clients goes through a proxy that tells its stages, so no model has them."),
            *fitted,
        ]
    figures = [_figure(task, one, place) for place, one in enumerate(lines)]
    return [
        Text("What the models say:", tuple(_points(task, lines))),
        *with_tables(figures),
        _open_table(task, lines),
        _stations_table(task, lines),
        *fitted,
    ]


def summary(task: Task) -> str:
    """How far the models are off at the largest load."""
    lines = [
        one
        for one in series_of(task)
        if not one.event and len(one.cells) >= 2 and one.cells[0].runs[0].proxy is not None
    ]
    return (
        f"{task.spec.title}: {' '.join(_points(task, lines)[:1])}" if lines else f"{task.spec.title}: nothing to model."
    )


def _open_table(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        for guess in _guesses(task, one):
            rows.append(
                (
                    f"{one.workload}, {one.name}",
                    guess.model,
                    Value(guess.clients),
                    Value(100 * guess.utilization, digits=1) if guess.utilization is not None else "–",
                    Value(1e3 * guess.r) if guess.r is not None else "–",
                    Value(1e3 * guess.r_seen),
                    off(guess.r_meeting) if guess.r is not None else "–",
                    str(guess.r_meeting.verdict),
                    off(guess.x_meeting) if guess.x_meeting else "–",
                    str(guess.x_meeting.verdict) if guess.x_meeting else "given",
                    guess.reason,
                )
            )
    return Table(
        f"{task.spec.name}-predicted",
        "Predicted against observed. M/M/1: all workers as one server of their joint rate; M/M/m: m workers; both are held against queue "
        "and service time in the proxy, at the most clients. Network of queues: held against the clients' throughput and response time, at "
        f"every level but the fewest clients, whose service times all models take. {rule_text(task)}",
        (
            "Series", "Model", "Clients", "Utilization (%)", "R predicted (ms)", "R observed (ms)", "R observed over predicted (%)", "R",
            "X observed over predicted (%)", "X", "Reason",
        ),
        tuple(rows),
    )  # fmt: skip


def _guesses(task: Task, series: Series) -> list[Guess]:
    return [*open_predictions(series, task.margins), *network_predictions(series, task.margins)]


def _stations_table(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        heavy = one.cells[-1]
        stations = network_of(one.cells[0], heavy, one)
        solved = solve_closed(stations, heavy.settings.population)
        for place, station in enumerate(stations):
            rows.append(
                (
                    f"{one.workload}, {one.name}",
                    station.name,
                    Value(station.servers) if station.kind is not Kind.DELAY else "delay",
                    Value(1e3 * station.service_time_s),
                    Value(float(solved.throughput_per_s[-1]), digits=0),
                    Value(100 * float(solved.utilization[place][-1]), digits=1)
                    if station.kind is not Kind.DELAY
                    else "–",
                    Value(float(solved.jobs[place][-1]), digits=1),
                )
            )
    return Table(
        f"{task.spec.name}-stations",
        "The network of queues at the most clients, solved exactly: visit ratio 1 everywhere, so the demand is the service time.",
        ("Series", "Station", "Servers", "Service time (ms)", "X (requests/s)", "Utilization (%)", "Requests there"),
        tuple(rows),
        folded=True,
    )


def _figure(task: Task, series: Series, place: int) -> Figure | None:
    light = series.cells[0]
    most = max(cell.settings.population for cell in series.cells)
    stations = network_of(light, series.cells[-1], series)
    solved = solve_closed(stations, most)
    sizes = sorted(set(np.geomspace(1, most, 50).round().astype(int).tolist()))
    x = tuple(Mark(float(n), float(solved.throughput_per_s[n - 1])) for n in sizes)
    r = tuple(Mark(float(n), 1e3 * n / float(solved.throughput_per_s[n - 1])) for n in sizes)
    ticks = tuple(float(cell.settings.clients) for cell in series.cells)
    axis = Axis("Clients (connections)", log=len(ticks) > 2, ticks=ticks)
    keep = [mark for mark in x if mark.x >= ticks[0]], [mark for mark in r if mark.x >= ticks[0]]
    observed = (
        line_over(series, throughput_of, name="observed"),
        line_over(series, response_of, 1e3, name="observed"),
    )
    panels = [
        Panel(
            "throughput",
            axis,
            Axis("Throughput (requests/s)"),
            (observed[0], Line("network of queues", tuple(keep[0]), LOOKS[7], "plain")),
        ),
        Panel(
            "response time",
            axis,
            Axis("Response time (ms)"),
            (observed[1], Line("network of queues", tuple(keep[1]), LOOKS[7], "plain")),
        ),
    ]
    text = "Bars: 95 % intervals over run means. Line: closed network with the demands of the fewest clients; it saw nothing else."
    return figure(
        task, f"network-{place}", f"Network of queues against observed: {series.workload}, {series.name}", panels, text
    )


def _points(task: Task, lines: Sequence[Series]) -> list[str]:
    points = []
    for one in lines:
        heavy = one.cells[-1]
        parts = []
        network = network_predictions(one, task.margins)
        for guess in [*open_predictions(one, task.margins), *network[-1:]]:
            if guess.r is None:
                parts.append(f"{guess.model} has no steady state (missed)")
            else:
                error = Value(guess.r_error_percent or 0.0, digits=0, signed=True).text
                parts.append(f"{guess.model} {number(1e3 * guess.r, 1)} ms ({error} %, {guess.r_meeting.verdict})")
        seen = level_text(heavy, response_of, 1e3)
        tallies = (
            tally_text([guess.x_meeting for guess in network if guess.x_meeting]),
            tally_text([guess.r_meeting for guess in network]),
        )
        points.append(
            f"{one.workload}, {one.name}, {heavy.settings.clients} clients, observed {seen} ms at the clients: {'; '.join(parts)}; the "
            f"network of queues over all levels: throughput {tallies[0]}, response time {tallies[1]}."
        )
    return points
