"""What limits at the cell that the answer of a sweep begins with, and what to mind: `limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.numbers.findings import limit_sentences, spoken_of
from weir_lab.report.single.offered import limit_of

if TYPE_CHECKING:
    from weir_lab.report.numbers.analysis import Analysis
    from weir_lab.report.numbers.readings import SweepReadings

__all__ = ["limits"]


def limits(analysis: Analysis, readings: SweepReadings) -> tuple[str, ...]:
    """The station that limits there, or the busiest; then what the numbers cannot show, and what disturbed them."""
    return (_station(analysis, readings), *limit_sentences(analysis))


def _station(analysis: Analysis, readings: SweepReadings) -> str:
    point, where = spoken_of(analysis)
    cell = next(one for one in readings.cells if dict(one.cell.levels) == dict(point.levels))
    said = limit_of(readings, cell).sentence
    return f"{where}, {said[0].lower()}{said[1:]}"
