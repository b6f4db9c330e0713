"""What stands on the page: what the models say, open stations, the networks of queues with their drawing, the calibrated model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import Series, Task, series_of, with_tables
from weir_lab.report.numbers.comparing import AS_MEASURED, AT_ONE_SPEED
from weir_lab.report.page.blocks import Text
from weir_lab.report.sections.models.calibrated import calibrated, calibrated_blocks
from weir_lab.report.sections.models.drawn import drawing
from weir_lab.report.sections.models.layouts import fits_of
from weir_lab.report.sections.models.networks import (
    errors_figure,
    hypothesis_text,
    notes,
    outcome,
    point,
    simulation_text,
    stations_table,
    table_of_cells,
    throughput_figure,
    total,
    what_cannot_tell,
)
from weir_lab.report.sections.models.open_stations import open_models, open_table
from weir_lab.report.sections.models.printed import printed_networks, printed_open
from weir_lab.report.sections.models.twice import twice_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block

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
            Text(
                "No series over clients goes to the servers, or through a proxy that tells its stages, so no model has them."
            ),
            *last,
        ]
    opened = [one for one in first if one.cells[0].runs[0].proxy is not None]
    raw = fits_of(task.sweeps, task.margins, AS_MEASURED)
    whole = total(fits, raw, task.margins)
    first_said = (
        hypothesis_text(fits, task.margins, raw),
        whole,
        what_cannot_tell(fits, task.margins),
        simulation_text(fits),
    )
    said = [*filter(None, first_said), *map(point, fits), *_open_points(task, opened)]
    tables = [open_table(task, opened), printed_open(task)]
    drawn = [drawing(task, fits), errors_figure(task, fits), throughput_figure(task, fits)]
    after = [
        table_of_cells(task, fits),
        twice_table(task, fits),
        stations_table(task, fits),
        printed_networks(task, fits),
    ]
    return [
        # The verdict above has the counts, so these open on demand.
        Text(
            "What the models say:",
            tuple(said),
            leads=tuple(one.partition(": of ")[0] if one == whole else one for one in said),
        ),
        *notes(fits),
        *with_tables(drawn),
        *[one for one in (*after, *tables) if one is not None],
        *last,
    ]


def summary(task: Task) -> str:
    """How the networks met what they had not seen, in a sentence."""
    fits, raw = (fits_of(task.sweeps, task.margins, levels) for levels in (AT_ONE_SPEED, AS_MEASURED))
    return f"{task.spec.title}: {outcome(fits, raw, task.margins) or 'nothing to model.'}"


def _open_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """How the open stations met what was observed; each stands in their table, with the reason of its miss."""
    models = [model for one in lines for model in open_models(one, task.margins)]
    if not models:
        return []
    met = sum(model.meeting.met for model in models)
    unstable = sum(model.station is None for model in models)
    none = f"; {unstable} have no steady state" if unstable else ""
    return [f"M/M/1 and M/M/m of the proxies' queue and workers meet {met} of {len(models)} response times{none}."]
