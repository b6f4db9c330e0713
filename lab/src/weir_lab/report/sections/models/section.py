"""What stands on the page: what the models say, open stations, the networks of queues with their drawing, the calibrated model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import Series, Task, level_text, series_of, with_tables
from weir_lab.report.page.blocks import Text, Value
from weir_lab.report.sections.models.calibrated import calibrated, calibrated_blocks
from weir_lab.report.sections.models.drawn import drawing
from weir_lab.report.sections.models.layouts import fits_of
from weir_lab.report.sections.models.networks import (
    figures,
    notes,
    point,
    stations_table,
    table_of_cells,
    total,
    whatever_intervals_say,
)
from weir_lab.report.sections.models.open_stations import inside_s, open_models, open_table
from weir_lab.report.sections.models.printed import printed_networks, printed_open
from weir_lab.report.sections.models.twice import sentence, twice_of_fullest, twice_table
from weir_lab.report.sections.models.words import over_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block
    from weir_lab.report.sections.models.layouts import LayoutFit

__all__ = ["build", "summary"]


def build(task: Task) -> list[Block]:
    """Tables and figures of each layout that goes through a proxy. Open stations and calibrated models describe the first file alone."""
    every = [one for one in series_of(task) if not one.event and len(one.cells) >= 2]
    first = [one for one in every if one.sweep is task.first]
    calibrations = [(one, found) for one in first if (found := calibrated(one)) is not None]
    last = calibrated_blocks(task, calibrations) if calibrations else []
    fits = fits_of(task.sweeps, task.margins)
    if not fits:
        return [
            Text("No series over clients goes through a proxy that tells its stages, so no model has them."),
            *last,
        ]
    opened = [one for one in first if one.cells[0].runs[0].proxy is not None]
    whole = total(fits)
    said = (
        ([whole] if whole and len(fits) > 1 else [])
        + [one for one in [whatever_intervals_say(fits)] if one]
        + [point(fit) + _twice(fit) for fit in fits]
        + _open_points(task, opened)
    )
    tables = [open_table(task, opened), printed_open(task)]
    drawn = [drawing(task, fits), *figures(task, fits)]
    after = [
        table_of_cells(task, fits),
        twice_table(task, fits),
        stations_table(task, fits),
        printed_networks(task, fits),
    ]
    return [
        Text("What the models say:", tuple(said)),
        *notes(fits),
        *with_tables(drawn),
        *[one for one in (*after, *tables) if one is not None],
        *last,
    ]


def summary(task: Task) -> str:
    """How the networks met what they had not seen."""
    return f"{task.spec.title}: {total(fits_of(task.sweeps, task.margins)) or 'nothing to model.'}"


def _twice(fit: LayoutFit) -> str:
    found = twice_of_fullest(fit)
    return f" {sentence(found)}" if found is not None else ""


def _open_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """What the open stations say at the heavy load, by either service rate, and why it is what it is."""
    points = []
    for one in lines:
        models = open_models(one, task.margins)
        heavy = max((model.clients for model in models), default=0)
        parts = []
        for model in models:
            if model.clients != heavy:
                continue
            name = f"{model.model} with μ from the {model.origin}"
            why = f": {model.reason}" if model.reason else ""
            if model.station is None:
                parts.append(f"{name} has no steady state (missed)")
            else:
                r = model.station.mean_response_time_s
                parts.append(
                    f"{name} {Value(1e3 * r).text} ms (observed {over_text(model.meeting)} predicted, {model.meeting.verdict}{why})"
                )
        if parts:
            cell = next(cell for cell in one.cells if cell.settings.clients == heavy)
            level = level_text(cell, inside_s, 1e3)
            points.append(
                f"{one.workload.capitalize()}, {one.name}, {heavy} clients, queue and service observed {level} ms: {'; '.join(parts)}."
            )
    return points
