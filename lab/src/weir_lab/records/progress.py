"""How far each cell of a study has come: the means of its runs, and whether it needs more.

Pure. Read `CellProgress` first; `values_of` reduces a run to what a stop rule looks at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_lab.design import Response
from weir_lab.errors import RecordError
from weir_lab.records.windows import NO_CUT, windows_of
from weir_lab.theory.stats import Decision, StopRule, running_half_widths

if TYPE_CHECKING:
    from weir_lab.design import Cell, Level, Refinement, Study
    from weir_lab.records.formats import LoadRecord
    from weir_lab.records.windows import Cut

__all__ = ["CellProgress", "RunValues", "refined_cells", "repetitions_least", "values_of"]

_BEST = {"throughput": max, "mean_response_time": min}


@dataclass(frozen=True)
class RunValues:
    """One valid run as the stop rule sees it, after its cut. The percentile is read when asked for."""

    throughput_rps: float
    mean_ns: float
    load: LoadRecord = field(repr=False, compare=False)
    position: int = 0
    slowness_ns: float | None = None
    """What the yardstick took; ``None`` where it was not read."""
    measured_s: float | None = None
    """Its own measured phase, where it is not the plan's."""

    @property
    def p99_ns(self) -> float | None:
        """99th percentile of the whole measured phase; ``None`` where there are too few requests for it."""
        histogram = self.load.response_times()
        return histogram.percentile(99.0) if histogram is not None else None

    def of(self, response: Response) -> float:
        """The value of a response; a percentile that the run has too few samples for is an error."""
        if response is Response.THROUGHPUT:
            return self.throughput_rps
        if response is Response.MEAN_RESPONSE_TIME:
            return self.mean_ns
        p99 = self.p99_ns
        if p99 is None:
            raise RecordError("A run has too few requests for its 99th percentile: make plan.measured_s longer.")
        return p99


@dataclass
class CellProgress:
    """Valid runs of one cell by repetition, and the repetitions that have none and get no more tries now."""

    cell: Cell
    values: dict[int, RunValues | None] = field(default_factory=dict)
    """``None`` for a run without load, which has no response."""
    given_up: set[int] = field(default_factory=set)

    def series(self, response: Response) -> list[float]:
        """One response over the valid runs, in the order of the blocks."""
        known = [self.values[repetition] for repetition in sorted(self.values)]
        return [value.of(response) for value in known if value is not None]

    def half_width(self, response: Response = Response.THROUGHPUT, level: float = 0.95) -> float | None:
        """Half-width of the interval on run means relative to the mean; ``None`` below two runs."""
        values = self.series(response)
        return float(running_half_widths(values, level)[-1]) if len(values) > 1 else None

    def decision(self, study: Study) -> Decision:
        """Whether the cell needs another run."""
        least = repetitions_least(study)
        stop = study.plan.stop
        if stop is None or not study.kind.runs_load:
            return Decision.CONVERGED if len(self.values) >= least else Decision.CONTINUE
        most = study.plan.repetitions_max + study.extended
        rule = StopRule(stop.relative_half_width, stop.level, max(2, least), max(2, least, most))
        return rule.decide(*(self.series(response) for response in stop.responses))

    def mean(self, response: Response) -> float | None:
        """Mean over the valid runs."""
        values = self.series(response)
        return sum(values) / len(values) if values else None


def repetitions_least(study: Study) -> int:
    """Runs that every cell gets."""
    return study.plan.repetitions + study.extended


def values_of(load: LoadRecord, cut: Cut = NO_CUT) -> RunValues:
    """Reduce a record of the load generator.

    With a cut, throughput and mean come from the windows behind it, which hold exact counts and sums.
    """
    if cut.windows == 0:
        return RunValues(load.throughput_rps, load.response_time_sum_ns / max(1, load.response_time_count), load)
    kept = windows_of(load, None, 1)[cut.windows :]
    requests, seconds = sum(window.requests for window in kept), sum(window.length_s for window in kept)
    if requests == 0:
        raise RecordError("No request was answered behind the cut of the warm-up. Repeat the run.")
    return RunValues(requests / seconds, sum(window.response_time_sum_ns for window in kept) / requests, load)


def refined_cells(stage: Refinement, cells: list[CellProgress]) -> list[dict[str, Level]]:
    """Levels of the cells that a refinement adds around the best of `cells`; none where no cell has a valid run.

    Offsets that lead to a level of 0 or below are left out: no setting that is counted or sized may be that.
    """
    response = Response(stage.response)
    known = [(mean, cell) for cell in cells if (mean := cell.mean(response)) is not None]
    if not known:
        return []
    best = _BEST[stage.response](known, key=lambda pair: pair[0])[1].cell
    at = dict(best.levels)
    centre = at[stage.factor]
    if isinstance(centre, str):
        return []
    return [{**at, stage.factor: centre + offset} for offset in stage.offsets if centre + offset > 0]
