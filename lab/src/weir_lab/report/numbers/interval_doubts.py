"""What a page's intervals rest on (`basis_texts`), and where they may hold less than they say (`interval_doubts`). Pure.

Inside limits, simulations hold every interval to 92 % or more (`test_interval_coverage.py`). These are the limits:
spread between runs up to a CV of 20 %, normal or log-normal, block effects, correlation of neighbouring runs up to
0.3, at least three cells, a stop rule that looks from five runs on. Outside of them the page says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weir_lab.theory.linear import DEPENDENT_P, ErrorFrom
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weir_lab.theory.linear import LogModel

__all__ = ["CV_MAX", "LAG1_MAX", "basis_texts", "interval_doubts"]

CV_MAX = 0.20
LAG1_MAX = 0.3
CELLS_MIN = 3
STOP_FROM_MIN = 5


def interval_doubts(model: LogModel, names: Mapping[Any, str], stops_from: int | None = None) -> list[str]:
    """Sentences about one response; ``names`` are the cells' for readers, ``stops_from`` the first look of a stop rule."""
    cells = model.values
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
    lag = model.dependence
    if lag is not None and lag.shown and lag.lag1 > LAG1_MAX:
        found.append(
            f"neighbouring runs are alike (correlation {lag.lag1:.2f}): the machine changed more slowly than the runs"
        )
    if stops_from is not None and stops_from < STOP_FROM_MIN:
        found.append(
            f"the stop rule looked from {stops_from} runs on, and stops too early now and then: start at {STOP_FROM_MIN}"
        )
    return found


def basis_texts(models: Mapping[str, LogModel], names: Mapping[Any, str] | None = None) -> list[str]:
    """What intervals of some responses rest on: the runs, said once for responses that share them; then each with both checks."""
    reported: dict[str, None] = {}
    for response, model in models.items():
        reported[_runs_text(model)] = None
        reported[f"{response}: {_checks_text(model, names or {})}"] = None
    return list(reported)


def _runs_text(model: LogModel) -> str:
    layout = model.fit.layout
    blocks = f"{count_text(len(layout.blocks), 'block')} taken out" if model.blocked else "no blocks"
    cells = count_text(len(layout.cells), "cell")
    return f"{count_text(layout.runs, 'run')} of {cells} on logarithms, {blocks}, {count_text(model.fit.freedom, 'degree')} of freedom"


def _checks_text(model: LogModel, names: Mapping[Any, str]) -> str:
    spread, lag = model.spread, model.dependence
    parts = [f"error {number(100 * model.fit.error_sd, 1)} %"]
    if spread.p is not None and spread.equal:
        parts.append(f"spreads of the cells agree ({_p_text(spread.p)})")
    elif spread.p is not None:
        source = ErrorFrom.BLOCKS if model.blocked else ErrorFrom.CELLS
        low, high = (
            f"{number(100 * spread.sds[cell], 1)} % at {names.get(cell, cell)}"
            for cell in (spread.narrowest, spread.widest)
        )
        parts.append(
            f"spreads of the cells differ ({_p_text(spread.p)}; {low}, {high}), so each change has the error of {source}"
        )
    if lag is not None:
        like = "alike" if lag.shown else f"not shown to be alike at {100 * DEPENDENT_P:g} %"
        parts.append(f"neighbouring runs {like} (correlation {number(lag.lag1, 2)}, {_p_text(lag.p)})")
    return ", ".join(parts)


def _p_text(p: float) -> str:
    """With two digits, and never as nothing."""
    return "p < 0.01" if p < 0.01 else f"p = {number(p, 2)}"
