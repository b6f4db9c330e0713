"""What stands on the page: what the models say, open stations, the networks of queues with their drawing, the calibrated model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import Series, Task, series_of, with_tables
from weir_lab.report.numbers.comparing import AS_MEASURED, AT_ONE_SPEED
from weir_lab.report.page.blocks import Text
from weir_lab.report.sections.models.calibrated import calibrated, calibrated_said
from weir_lab.report.sections.models.drawn import drawing, other_drawings
from weir_lab.report.sections.models.layouts import fits_of
from weir_lab.report.sections.models.networks import (
    errors_figure,
    hypothesis_text,
    layouts_table,
    mark_text,
    notes,
    outcome,
    simulation_text,
    stations_table,
    table_of_cells,
    throughput_figure,
    total,
    unfitted_text,
    what_cannot_tell,
)
from weir_lab.report.sections.models.open_stations import open_models, open_table
from weir_lab.report.sections.models.printed import printed_networks, printed_open
from weir_lab.report.sections.models.twice import twice_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.blocks import Block
    from weir_lab.report.sections.models.calibrated import Calibrated
    from weir_lab.report.sections.models.layouts import LayoutFit

__all__ = ["build", "summary"]


def build(task: Task) -> list[Block]:
    """Tables and figures of each layout that goes through a proxy. Open stations and calibrated models describe the first file alone."""
    every = [one for one in series_of(task) if not one.event and len(one.cells) >= 2]
    first = [one for one in every if one.sweep is task.first]
    calibrations = [(one, found) for one in first if (found := calibrated(one)) is not None]
    last = calibrated_said(task, calibrations) if calibrations else None
    fits = fits_of(task.sweeps, task.margins)
    if not fits:
        return [
            Text(
                "No series over clients goes to the servers, or through a proxy that tells its stages, so no model has them."
            ),
            *_others([], last),
        ]
    opened = [one for one in first if one.cells[0].runs[0].proxy is not None]
    raw = fits_of(task.sweeps, task.margins, AS_MEASURED)
    drawn = [
        drawing(task, fits),
        errors_figure(task, fits),
        throughput_figure(task, fits),
        other_drawings(task, fits),
    ]
    after = [
        table_of_cells(task, fits),
        twice_table(task, fits),
        stations_table(task, fits),
        printed_networks(task, fits),
        open_table(task, opened),
        printed_open(task),
    ]
    # Of the tables the one of layouts is the answer, and comes first.
    layouts = layouts_table(task, fits, raw)
    return [
        *_networks(task, fits, raw),
        *notes(fits),
        *([layouts] if layouts is not None else []),
        *with_tables(drawn),
        *[one for one in after if one is not None],
        *_others(_open_points(task, opened), last),
    ]


def _networks(task: Task, fits: Sequence[LayoutFit], raw: Sequence[LayoutFit]) -> list[Text]:
    """Whether the networks predict, and what predicts; counts of each limit and of each layout stand in the table of layouts."""
    said: list[tuple[str, str]] = []
    verdict = hypothesis_text(fits, task.margins, raw)
    if verdict:
        behind = (mark_text(), what_cannot_tell(fits, task.margins), total(fits, raw, task.margins))
        said.append((verdict, " ".join(filter(None, behind))))
    said.append(simulation_text(fits))
    said += [(unfitted_text(fit), "") for fit in fits]
    shown = [(lead, f"{lead} {behind}".rstrip()) for lead, behind in said if lead]
    if not shown:
        return []
    return [Text("What the models say:", tuple(point for _, point in shown), leads=tuple(lead for lead, _ in shown))]


def _others(open_points: Sequence[str], last: Calibrated | None) -> list[Block]:
    """What open stations and calibrated models say, with what opens on demand."""
    points = [*((one, one) for one in open_points), *([(last.lead, last.point)] if last is not None else [])]
    blocks: list[Block] = [last.table] if last is not None else []
    if points:
        leads, whole = zip(*points, strict=True)
        blocks.append(Text("What other models say:", tuple(whole), leads=tuple(leads)))
    if last is not None and last.misses:
        blocks.append(Text("Where calibrated models miss, and what to look for", last.misses, folded=True))
    return blocks


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
