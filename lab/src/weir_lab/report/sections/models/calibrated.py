"""The calibrated model that predicted best what it had not seen: each level but the ends from a fit to all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.numbers.sweeps import ClientSeries, client_series, explain_misses
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.models.words import off, rule_text
from weir_lab.theory.fitting.meeting import Meeting, meeting_of, tally_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.page.blocks import Entry

__all__ = ["Calibrated", "calibrated", "calibrated_said"]


def calibrated(series: Series) -> ClientSeries | None:
    """The models of a series over clients; ``None`` with fewer than four levels of two runs."""
    cells = [cell for cell in series.cells if len(cell.runs) >= 2]
    if len({cell.settings.population for cell in cells}) < 4:
        return None
    names = {cell.cell.name for cell in cells}
    observations = series.sweep.observations(lambda cell: cell.cell.name in names)
    found = client_series(observations, _over(series))
    return found[0] if found and found[0].best is not None else None


def _over(series: Series) -> str:
    """The factor that carries the clients: `clients` itself, or clients per thread."""
    return "clients" if "clients" in series.sweep.study.factors else "clients_per_thread"


class Calibrated(NamedTuple):
    """What is said of them: the table of all levels, how many were met, in short and in whole, and where to look for the misses."""

    table: Table
    lead: str
    point: str
    misses: tuple[str, ...]


def calibrated_said(task: Task, every: Sequence[tuple[Series, ClientSeries]]) -> Calibrated:
    """A table with each level that was predicted, how many were met, and where to look for the misses."""
    rows: list[tuple[Entry, ...]] = []
    points: list[str] = []
    rates: list[Meeting] = []
    times: list[Meeting] = []
    for series, found in every:
        best = found.best
        if best is None:
            continue
        measured = dict(
            zip(found.populations, zip(found.throughput_per_s, found.response_time_s, strict=True), strict=True)
        )
        for made in best.predictions:
            x, r = measured[made.population]
            # What is judged is what stands in the row, not N / X.
            met = (
                meeting_of(x, made.predicted_per_s, task.margins.prediction_throughput),
                meeting_of(r, made.predicted_response_s, task.margins.prediction_response),
            )
            if not made.fitted:
                rates.append(met[0])
                times.append(met[1])
            rows.append(
                (
                    f"{series.workload}, {series.name}", best.name, Value(made.population), "seen" if made.fitted else "predicted",
                    Value(made.observed_per_s, digits=0), Value(made.predicted_per_s, digits=0), off(met[0]),
                    "–" if made.fitted else str(met[0].verdict),
                    Value(1e3 * r.mean), Value(1e3 * made.predicted_response_s), off(met[1]),
                    "–" if made.fitted else str(met[1].verdict),
                )
            )  # fmt: skip
        misses = explain_misses(
            best,
            {population: x for population, (x, _) in measured.items()},
            found.calibrated.model if found.calibrated else None,
            task.margins.prediction_throughput,
        )
        points += [f"{series.workload}, {series.name}: {miss}" for miss in misses]
    table = Table(
        f"{task.spec.name}-calibrated",
        "Each level of clients but the ends is predicted from a fit to all others. Of several models the one is shown that is least off "
        f"here. R is predicted by N / X − Z. {rule_text(task)}",
        (
            "Series", "Model", "N", "", "X observed (requests/s)", "X predicted", "X observed over predicted (%)", "X",
            "R observed (ms)", "R predicted (ms)", "R observed over predicted (%)", "R",
        ),
        tuple(rows),
    )  # fmt: skip
    lead = (
        "Calibrated models, the best of several on these very levels, so that the counts are too good: throughput "
        f"{tally_text(rates)}; response time {tally_text(times)}."
    )
    behind = (
        "Each level but the ends is left out alone and predicted from all others of its series (leave-one-out), so it lies between two "
        "that the model saw; a network of queues sees only every second level. The counts say nothing of other workers or machines."
    )
    return Calibrated(table, lead, f"{lead} {behind}", tuple(points))
