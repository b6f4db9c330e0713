"""What the fitted networks say of twice the fullest station: how much faster, how much sooner, and what would be full then.

It comes from what predicts the cells of the layout: product form, or the simulation where product form does not show what it saw. Sentence
and table say which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.numbers.stations import CPU_QUOTAS
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.models.layouts import fits_of
from weir_lab.report.sections.models.networks import crew_title, crew_value, heavy_of
from weir_lab.theory.fitting.devices import WORKERS, Twice
from weir_lab.theory.units import number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Entry
    from weir_lab.report.sections.models.layouts import LayoutFit

__all__ = ["misses", "sentence", "twice_at", "twice_of_fullest", "twice_table"]

# What other sections call the processors of a tier where it has no quota.
_ALSO = {"memcached threads": "server", "proxy threads": "proxy", "load generators": "client"}


def twice_at(
    sweeps: tuple[SweepReadings, ...], cell: CellReadings, margins: Margins, station: str = ""
) -> Twice | None:
    """What twice of a station would do in a cell by the network fitted to its layout; of the fullest, where none is named.

    Stations have the names of the networks, or those of `numbers.stations.usages`. ``None`` where the cell is in no layout that has a
    network, or the network has no such station.
    """
    for fit in fits_of(sweeps, margins):
        found = next((one for one in fit.predictions if one.cell is cell), None)
        if found is not None:
            return fit.twice(found, _named(station, found.solved.utilization) or found.solved.fullest)
    return None


def _named(station: str, known: Collection[str]) -> str:
    """A station by the name that the network has for it."""
    if station == "readers":
        return WORKERS
    tier = _ALSO.get(station, "")
    return next((name for name in (f"{tier} CPUs", CPU_QUOTAS.get(tier, "")) if tier and name in known), station)


def twice_of_fullest(fit: LayoutFit) -> Twice | None:
    """Of the fullest station of a layout at its heavy load; ``None`` without a network."""
    heavy = heavy_of(fit)
    return fit.twice(heavy, heavy.solved.fullest) if heavy is not None else None


def misses(found: Twice, measured: float, margins: Margins) -> str:
    """``; it misses this cell by −5.7 % itself``: how far it is off in throughput before anything changes, if by more than the margin."""
    off = 100.0 * (found.throughput_per_s / measured - 1.0)
    return (
        f"; it misses this cell by {signed_percent(off)} % itself" if abs(off) > margins.prediction_throughput else ""
    )


def sentence(found: Twice, missed: str = "") -> str:
    """The same in words; ``missed`` is what `misses` says of the cell.

    >>> sentence(Twice("server uplinks", 384, 3000.0, 0.128, 5000.0, 0.0768, "workers")).partition(", response")[0]
    'With twice the server uplinks the model (product form, N = 384) says 5,000 requests/s (+66.7 % over its own 3,000)'
    """
    then = "they would be the fullest still" if found.fullest_then == found.station else (
        f"then the {found.fullest_then} would be the fullest"
    )  # fmt: skip
    return (
        f"With twice the {found.station} the model ({_by(found)}, N = {found.population}) says {rate(found.throughput_then_per_s)} "
        f"requests/s ({signed_percent(found.throughput_percent)} % over its own {rate(found.throughput_per_s)}), response time "
        f"{signed_percent(found.response_percent)} %; {then}{missed}."
    )


def _by(found: Twice) -> str:
    return "simulation" if found.simulated else "product form"


def _doubt(fit: LayoutFit) -> str:
    """That the network does not even show what it was fitted to, and no simulation is much better; empty where one of them does well."""
    if fit.fitted is None or fit.fitted.shows_what_it_saw or fit.simulated:
        return ""
    return ", which misses cells it saw"


def twice_table(task: Task, fits: Sequence[LayoutFit]) -> Table | None:
    """For each layout its fullest station at the heavy load, and what twice of it would do; ``None`` without a network."""
    rows: list[tuple[Entry, ...]] = []
    for fit in fits:
        found, heavy = twice_of_fullest(fit), heavy_of(fit)
        if found is None or heavy is None:
            continue
        rows.append(
            (
                fit.layout.name, crew_value(fit.layout, heavy.workers), Value(found.population),
                f"{found.station}, {number(100.0 * heavy.solved.utilization[heavy.solved.fullest], 0)} %",
                Value(found.throughput_per_s, digits=0), Value(found.throughput_then_per_s, digits=0),
                Value(found.throughput_percent, digits=1, signed=True),
                Value(1e3 * found.response_s), Value(1e3 * found.response_then_s), Value(found.response_percent, digits=1, signed=True),
                found.fullest_then,
                f"{_by(found)}{_doubt(fit)}{misses(found, heavy.cell.mean_throughput, task.margins)}",
            )
        )  # fmt: skip
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-twice",
        "What the fitted networks say of twice the fullest station at the heavy load: devices that take half the time, or twice the "
        "workers or readers. N and workers differ from those of the paragraphs “Why”, so gains differ. Where product form does not show "
        "what it was fitted to, the simulation with constant times says it, to about 1 %. Nothing here is measured.",
        (
            "Layout", crew_title(fits), "N", "Fullest station", "X (requests/s)", "X with twice of it", "Change (%)", "R (ms)",
            "R with twice of it", "Change (%)", "Fullest then", "By",
        ),
        tuple(rows),
    )  # fmt: skip
