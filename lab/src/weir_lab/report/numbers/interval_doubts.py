"""Where a page's 95 % intervals may hold less than they say, in sentences: `interval_doubts`. Pure.

Inside these limits simulations hold every interval to 92 % or more (`test_interval_coverage.py`): spread between runs up to a CV of 20 %,
normal or log-normal, block effects, correlation of neighbouring runs up to 0.3, at least three cells, a stop rule that looks from five
runs on. Outside of them the page says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CV_MAX", "LAG1_MAX", "PlacedRun", "interval_doubts", "lag1_in_order"]

CV_MAX = 0.20
LAG1_MAX = 0.3
CELLS_MIN = 3
STOP_FROM_MIN = 5
# Fewer neighbours say nothing about their correlation: its standard error is 1 / sqrt(runs).
_RUNS_MIN = 16


@dataclass(frozen=True)
class PlacedRun:
    """What one run measured: its cell, its place in the order of all runs, and the value."""

    cell: str
    position: int
    value: float


def interval_doubts(runs: Sequence[PlacedRun], names: Mapping[str, str], stops_from: int | None = None) -> list[str]:
    """Sentences about one response; ``names`` are the cells' for readers, ``stops_from`` the first look of a stop rule."""
    cells: dict[str, list[float]] = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run.value)
    found = []
    spreads = {
        cell: float(np.std(values, ddof=1) / np.mean(values)) for cell, values in cells.items() if len(values) > 1
    }
    wide = [cell for cell, spread in spreads.items() if spread > CV_MAX]
    if wide:
        worst = max(wide, key=spreads.__getitem__)
        found.append(
            f"runs of {len(wide)} of {len(cells)} cells differ by more than {100 * CV_MAX:.0f} % (CV {100 * spreads[worst]:.0f} % at "
            f"{names.get(worst, worst)})"
        )
    if len(cells) < CELLS_MIN:
        found.append(
            f"with {len(cells)} cell{'s' if len(cells) > 1 else ''} the runs of a cell follow one another closely, and what lasts longer "
            "than a run is not in the intervals"
        )
    lag = lag1_in_order(runs)
    if lag is not None and lag > LAG1_MAX and lag > 2.0 / math.sqrt(len(runs)):
        found.append(
            f"neighbouring runs are alike (correlation {lag:.2f}): the machine changed more slowly than the runs"
        )
    if stops_from is not None and stops_from < STOP_FROM_MIN:
        found.append(
            f"the stop rule looked from {stops_from} runs on, and stops too early now and then: start at {STOP_FROM_MIN}"
        )
    return found


def lag1_in_order(runs: Sequence[PlacedRun]) -> float | None:
    """Correlation of each run with the next one in the order of runs, of logarithms less their cell's mean; None for few runs."""
    if len(runs) < _RUNS_MIN:
        return None
    logs: dict[str, list[float]] = {}
    for run in runs:
        logs.setdefault(run.cell, []).append(math.log(run.value))
    means = {cell: sum(values) / len(values) for cell, values in logs.items()}
    ordered = sorted(runs, key=lambda run: run.position)
    rest = np.array([math.log(run.value) - means[run.cell] for run in ordered])
    spread = float(rest @ rest)
    return float(rest[1:] @ rest[:-1]) / spread if spread > 0.0 else 0.0
