"""Cells under an offered rate: a curve per level of the other factors, whether the system kept up, what limits it. Start with `curves_of`.

A cell *kept up* if all of its runs did: nothing was left unsent and at least 98 % of the offered rate was answered.
Response times of the others grow with the length of the run: they say that the rate is above the capacity, and no
more. So they make no model with those that kept up, and their intervals come from their own runs alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.records.tables.found import kept_up, sent_late
from weir_lab.report.common import level_name
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import bottleneck, usages
from weir_lab.theory.units import count_text, duration_text, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.design import Level
    from weir_lab.design.topology import Links
    from weir_lab.report.numbers.readings import Reading, SweepReadings
    from weir_lab.report.numbers.stations import Limit

__all__ = [
    "OUTSIDE",
    "Curve",
    "Growth",
    "answered_percent",
    "axis_of",
    "busy_note",
    "busy_shares",
    "curves_of",
    "label_of",
    "late_percent",
    "late_runs",
    "levels_along",
    "limit_of",
    "links_of",
    "longest_growth",
    "mean",
    "nominal_rate",
    "offered_rate",
    "percentile_of",
    "rate_words",
    "station_shares",
    "stations_of",
    "unsent_percent",
    "with_all",
]


OUTSIDE = "outside"
"""What a client waits for beside the stages of the proxy: network, kernel, load generator."""


@dataclass(frozen=True)
class Curve:
    """Cells over the offered rate, or over what varies most where the rate does not; ``name`` has the levels of all other factors."""

    name: str
    cells: tuple[CellReadings, ...]

    @property
    def kept(self) -> tuple[CellReadings, ...]:
        """Those that kept up."""
        return tuple(cell for cell in self.cells if _kept(cell))

    @property
    def above(self) -> tuple[CellReadings, ...]:
        """Those that did not."""
        return tuple(cell for cell in self.cells if not _kept(cell))

    @property
    def highest_kept(self) -> CellReadings | None:
        """The highest rate up to which the system kept up with all; ``None`` where it fell behind at the lowest."""
        found = None
        for cell in self.cells:
            if not _kept(cell):
                return found
            found = cell
        return found

    @property
    def first_above(self) -> CellReadings | None:
        """The lowest rate that it did not keep up with; ``None`` where it kept up with all."""
        return next(iter(self.above), None)


@dataclass(frozen=True)
class Growth:
    """The stage that grew most from one cell to another, in seconds per request; ``whole_s`` is what all of the time grew by."""

    stage: str
    before_s: float
    after_s: float
    whole_s: float

    @property
    def text(self) -> str:
        """``of all stages queue grew most, from 10.0 µs to 2.30 ms``."""
        what = "the time outside of the proxy" if self.stage == OUTSIDE else f"of all stages {self.stage}"
        return f"{what} grew most, from {duration_text(self.before_s)} to {duration_text(self.after_s)} of a request's mean"


def axis_of(readings: SweepReadings) -> str:
    """What stands on the x axis: the rate if it varies, else the factor with the most numeric levels, else the first."""
    varied = readings.varied or list(readings.study.factors) or ["rate"]
    if "rate" in varied:
        return "rate"
    levels = {name: {cell.level(name) for cell in readings.cells} for name in varied}
    numeric = {name: found for name, found in levels.items() if not any(isinstance(one, str) for one in found)}
    pool = numeric or levels
    return max(pool, key=lambda name: len(pool[name]))


def curves_of(readings: SweepReadings) -> list[Curve]:
    """All cells, ascending along the axis. Cells that kept up make one model for their intervals."""
    over = axis_of(readings)
    others = [name for name in readings.varied if name != over]
    kept = tuple(cell for cell in readings.cells if _kept(cell))
    groups: dict[str, list[CellReadings]] = {}
    for cell in readings.cells:
        name = ", ".join(_name(one, cell.level(one)) for one in others)
        judged = CellReadings(cell.cell, cell.runs, kept if _kept(cell) else ())
        groups.setdefault(name or "all requests", []).append(judged)
    return [
        Curve(name, tuple(sorted(cells, key=lambda cell: _place(cell.level(over))))) for name, cells in groups.items()
    ]


def offered_rate(run: Reading) -> float | None:
    """Arrivals per second of the measured phase, as they were drawn."""
    return run.load.scheduled.offered_rate_rps if run.load.scheduled is not None else None


def answered_percent(run: Reading) -> float | None:
    """What was answered of what was offered."""
    offered = offered_rate(run)
    return 100.0 * run.throughput / offered if offered else None


def late_percent(run: Reading) -> float | None:
    """What the load generator sent late by its own fault, of all arrivals."""
    offered = run.load.scheduled
    return 100.0 * offered.late / offered.arrivals if offered is not None and offered.arrivals else None


def unsent_percent(run: Reading) -> float | None:
    """What found no room in the generator's backlog, of all arrivals: it was never sent."""
    offered = run.load.scheduled
    return 100.0 * offered.unsent / offered.arrivals if offered is not None and offered.arrivals else None


def percentile_of(percent: float) -> Callable[[Reading], float | None]:
    """A percentile of the response time in seconds, as a question to a run."""
    return lambda run: run.percentile_s(percent)


def with_all(cell: CellReadings, value: Callable[[Reading], float | None]) -> bool:
    """Whether every run of the cell has the number: a mean over those that happen to have it would be another one."""
    return len(cell.of(value)) == len(cell.runs)


def late_runs(cell: CellReadings) -> int:
    """Runs of which the load generator itself sent more late than it may."""
    return sum(sent_late(run.load) for run in cell.runs)


def stations_of(readings: SweepReadings, cells: Sequence[CellReadings]) -> list[str]:
    """Stations that the records of these cells tell of, the busiest of all cells first."""
    most: dict[str, float] = {}
    for cell in cells:
        for usage in usages(cell, links_of(readings)):
            most[usage.station] = max(most.get(usage.station, 0.0), usage.share)
    return sorted(most, key=lambda name: -most[name])


def station_shares(readings: SweepReadings, cell: CellReadings, station: str) -> list[tuple[int, float]]:
    """How busy a station was in each run, 0 to 1, with the run's block."""
    found = []
    for run in cell.runs:
        for usage in usages(CellReadings(cell.cell, (run,)), links_of(readings)):
            if usage.station == station:
                found.append((run.run.meta.repetition, usage.share))
    return found


def limit_of(readings: SweepReadings, cell: CellReadings) -> Limit:
    """The station that limits at a cell, or the busiest one."""
    return bottleneck(usages(cell, links_of(readings)), queue_grows=None)


def longest_growth(before: CellReadings, after: CellReadings) -> Growth | None:
    """The stage of the proxy, or the time outside of it, that took more at a higher rate; ``None`` where none did, or none is reported."""
    one, other = _stages(before), _stages(after)
    if one is None or other is None:
        return None
    grown = {stage: other[stage] - one[stage] for stage in one}
    stage = max(grown, key=lambda name: grown[name])
    return Growth(stage, one[stage], other[stage], sum(grown.values())) if grown[stage] > 0.0 else None


def _stages(cell: CellReadings) -> dict[str, float] | None:
    known = [found for run in cell.runs if (found := run.stages_s()) is not None]
    if not known:
        return None
    inside = {stage: sum(one[stage] for one in known) / len(known) for stage in STAGES}
    return {**inside, OUTSIDE: max(0.0, cell.mean_response_s - sum(inside.values()))}


def _kept(cell: CellReadings) -> bool:
    return all(kept_up(run.load) for run in cell.runs)


def busy_shares(readings: SweepReadings) -> tuple[list[float], list[float]]:
    """Of all valid runs the share of the machine's CPU time that went elsewhere; and of these what is above the gate."""
    shares = [run.run.cpu.other_share for cell in readings.cells for run in cell.runs if run.run.cpu is not None]
    return shares, [share for share in shares if share > readings.study.gates.other_cpu_share_max]


def busy_note(readings: SweepReadings) -> str:
    """Where others used the machine, so that what is measured is less than it can do; empty where nobody did."""
    shares, above = busy_shares(readings)
    if not above:
        return ""
    return (
        f"The machine was busy: in {len(above)} of {count_text(len(shares), 'run')} up to {100 * max(above):.0f} % of its CPU time went "
        "elsewhere. These numbers describe a busy machine."
    )


def levels_along(name: str, curves: Sequence[Curve]) -> list[object]:
    """Levels of the axis over all curves: numbers ascending, words as they come."""
    found = dict.fromkeys(cell.level(name) for one in curves for cell in one.cells)
    return (
        list(found)
        if any(isinstance(level, str) for level in found)
        else sorted(found, key=lambda one: float(str(one)))
    )


def nominal_rate(cell: CellReadings) -> float:
    """The rate that the study asked for."""
    return float(cell.settings.rate or 0.0)


def rate_words(value: float) -> str:
    """``12,000 requests/s``."""
    return f"{rate(value)} requests/s"


def label_of(cell: CellReadings, name: str) -> str:
    """``12,000 requests/s``, or ``engine pool`` where that is the axis."""
    return rate_words(nominal_rate(cell)) if name == "rate" else f"{name.replace('_', ' ')} {cell.level(name)}"


def mean(values: Sequence[float]) -> float:
    """Of at least one value."""
    return sum(values) / len(values)


def links_of(readings: SweepReadings) -> Links | None:
    """The links that the testbed built; ``None`` where it limited none."""
    return readings.study.topology.built_links if readings.links_built else None


def _name(factor: str, level: Level) -> str:
    return str(level) if factor in ("engine", "subject") else level_name(factor, level)


def _place(level: Level) -> tuple[bool, float, str]:
    return (isinstance(level, str), 0.0 if isinstance(level, str) else float(level), str(level))
