"""Cells of sweeps in the linear model: changes between them, and levels at equal speed of the machine.

All cells that are given make one model, so that each comparison knows what all runs say about the spread. Blocks are those of their own
sweep; cells of two sweeps share none, and are compared without.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from weir_lab.report.numbers.interval_doubts import basis_texts
from weir_lab.report.numbers.readings import Reading
from weir_lab.theory.linear import Change, LayoutError, LogModel, MeasuredRun, interval_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.theory.stats import Interval

__all__ = [
    "AS_MEASURED",
    "AT_ONE_SPEED",
    "Levels",
    "at_equal_blocks",
    "basis_of",
    "cell_key",
    "change_between",
    "changes_between",
    "equal_speed",
    "level_of",
    "loops_text",
    "model_of",
    "outside_of",
    "response_of",
    "stands_alone",
    "throughput_of",
]

Key = tuple[str, str]


def cell_key(cell: CellReadings) -> Key:
    """Names a cell among those of several sweeps."""
    return str(cell.runs[0].run.folder.parent), cell.cell.name


def model_of(
    cells: Sequence[CellReadings], value: Callable[[Reading], float | None], *, with_yardstick: bool = False
) -> LogModel | None:
    """All runs that have a positive number; None where they are too few for any error, or a yardstick is asked for that tells nothing."""
    runs = []
    for cell in cells:
        for run in cell.runs:
            found, slowness = value(run), run.slowness_ns() if with_yardstick else None
            if found is not None and found > 0.0:
                meta = run.run.meta
                block = (cell_key(cell)[0], meta.repetition)
                runs.append(MeasuredRun(cell_key(cell), found, block, float(meta.started_unix_ns), slowness))
    try:
        return LogModel(runs, with_covariate=with_yardstick) if runs else None
    except LayoutError:
        return None


def throughput_of(run: Reading) -> float:
    """Requests per second."""
    return run.throughput


def response_of(run: Reading) -> float:
    """Mean response time in seconds."""
    return run.response_s


def outside_of(run: Reading) -> float | None:
    """Of the mean response time what is not in the proxy, in seconds; ``None`` where no proxy tells."""
    return run.response_s - run.residence_s if run.residence_s is not None else None


# A line or a column asks for the same response of one cell after the other.
_model_of = lru_cache(maxsize=32)(model_of)
# With less the yardstick's slope costs more than it explains; nights go by the same number.
_FREEDOM_MIN = 8


def level_of(
    cell: CellReadings,
    value: Callable[[Reading], float | None],
    most: Callable[[Reading], float | None] | None = None,
) -> Interval | None:
    """Mean over the cell's runs with an interval for it alone, from the model of the cells among which it is; None below two runs.

    What is not positive in every run has mean ± t s / √n of its own runs. ``most`` is what the value cannot exceed in a run, such as
    the response time of a part of it: no interval of a positive quantity reaches below 0 or above that.
    """
    found = cell.of(value)
    if len(found) < 2:
        return None
    model = _model(cell, value)
    interval = interval_of(found) if model is None else model.level(cell_key(cell))
    if most is None:
        return interval
    ceiling = max([*cell.of(most), interval.mean])
    return replace(interval, low=max(0.0, interval.low), high=min(ceiling, interval.high))


def stands_alone(cell: CellReadings, value: Callable[[Reading], float | None]) -> bool:
    """Whether a cell of two runs has no error but that of these two: no other cell is there, or the spreads of cells differ."""
    if len(cell.of(value)) != 2:
        return False
    model = _model(cell, value)
    return model is None or not model.spread.equal


def _model(cell: CellReadings, value: Callable[[Reading], float | None]) -> LogModel | None:
    return _model_of(cell.among, value) if cell.among and min(cell.of(value)) > 0.0 else None


def _mean_here_of(cell: CellReadings, value: Callable[[Reading], float | None]) -> float | None:
    """Mean over the cell's runs, brought to the mean block and yardstick of the cells among which it is; None where no run has it.

    What is not positive in every run, and what no block connects with other cells, stays as it is.
    """
    found = cell.of(value)
    if not found:
        return None
    model = _model_here(cell, value)
    return sum(found) / len(found) if model is None else model.mean_here(cell_key(cell))


def _level_here_of(cell: CellReadings, value: Callable[[Reading], float | None]) -> Interval | None:
    """`_mean_here_of` with an interval for who compares runs of one sweep; None below two runs.

    Where no block connects the cell with others it is that of `level_of`.
    """
    model = _model_here(cell, value)
    if model is None or len(cell.of(value)) < 2:
        return level_of(cell, value)
    try:
        return model.level_here(cell_key(cell))
    except LayoutError:
        return level_of(cell, value)


def _mean_of(cell: CellReadings, value: Callable[[Reading], float | None]) -> float | None:
    """Mean over the cell's runs; None where no run has it."""
    found = cell.of(value)
    return sum(found) / len(found) if found else None


class Levels(NamedTuple):
    """How means of cells are taken, and their intervals: None below two runs, the mean only where no run has the value."""

    mean: Callable[[CellReadings, Callable[[Reading], float | None]], float | None]
    level: Callable[[CellReadings, Callable[[Reading], float | None]], Interval | None]


AS_MEASURED = Levels(_mean_of, level_of)
"""As runs were: what differs between hours is in the interval."""
AT_ONE_SPEED = Levels(_mean_here_of, _level_here_of)
"""At the mean block and the mean yardstick of the runs of a sweep, for who compares those."""


def _model_here(cell: CellReadings, value: Callable[[Reading], float | None]) -> LogModel | None:
    """The model by cell, block and yardstick; without the yardstick where it was not read in all runs, or few runs are there."""
    plain = _model(cell, value)
    if plain is None or any(run.slowness_ns() is None for one in cell.among for run in one.runs):
        return plain
    found = _model_of(cell.among, value, with_yardstick=True)
    return found if found is not None and found.fit.freedom >= _FREEDOM_MIN else plain


def basis_of(
    cells: Sequence[CellReadings], name_of: Callable[[CellReadings], str] = lambda cell: cell.cell.name
) -> str:
    """What intervals of throughput and mean response time of these cells rest on; empty where there is no error to judge by."""
    models = {"throughput": model_of(cells, throughput_of), "mean response time": model_of(cells, response_of)}
    names = {cell_key(cell): name_of(cell) for cell in cells}
    return ". ".join(basis_texts({name: model for name, model in models.items() if model is not None}, names))


def changes_between(
    cells: Sequence[CellReadings],
    pairs: Sequence[tuple[CellReadings, CellReadings]],
    value: Callable[[Reading], float | None],
) -> list[Change | None]:
    """Changes from the first cell of each pair to its second, with intervals that hold together; None with fewer than two runs of either.

    ``cells`` are all that tell about the spread, those of the pairs among them.
    """
    model = model_of(cells, value)
    known = {} if model is None else {key: len(values) for key, values in model.values.items()}
    reported = [all(known.get(cell_key(cell), 0) >= 2 for cell in pair) for pair in pairs]
    asked = [(cell_key(base), cell_key(cell)) for (base, cell), enough in zip(pairs, reported, strict=True) if enough]
    found = iter(model.changes(asked) if model is not None and asked else [])
    return [next(found) if enough else None for enough in reported]


def change_between(
    cells: Sequence[CellReadings], base: CellReadings, cell: CellReadings, value: Callable[[Reading], float | None]
) -> Change | None:
    """One change, with an interval for it alone."""
    return changes_between(cells, [(base, cell)], value)[0]


def at_equal_blocks(cells: Sequence[CellReadings], value: Callable[[Reading], float | None]) -> dict[Key, float]:
    """The mean over all blocks of what the linear model has for a cell in each, in the unit of the value: quotients are its changes.

    Empty without blocks in the model, and where every block has every cell: then plain means say it. A cell that no block connects with
    the others is left out.
    """
    model = model_of(cells, value)
    if model is None or not model.blocked or model.fit.complete:
        return {}
    fit, layout = model.fit, model.fit.layout
    # A block's columns are those of all of its runs.
    blocks = np.unique(layout.columns, axis=0) @ fit.coefficients
    found = {}
    for key, mean in zip(layout.cells, fit.means.tolist(), strict=True):
        try:
            fit.level_here(key)
        except LayoutError:
            continue
        found[cast("Key", key)] = float(np.exp(mean + blocks).mean())
    return found


def equal_speed(cells: Sequence[CellReadings]) -> LogModel | None:
    """Throughputs of these cells over what the yardstick took; ``None`` where it was not read in all runs, or tells nothing."""
    read = [cell for cell in cells if len(cell.runs) >= 2]
    if len(read) < 2 or any(run.slowness_ns() is None for cell in read for run in cell.runs):
        return None
    return model_of(read, throughput_of, with_yardstick=True)


def loops_text(sweeps: Iterable[SweepReadings]) -> str:
    """Of sweeps that are held against each other, those whose loop that keeps cores awake took CPU time; empty where all are alike."""
    took = {one.folder.name: one.testbed is not None and one.testbed.awake_took_time for one in sweeps}
    if len(set(took.values())) < 2:
        return ""
    *others, last = (name for name, slow in took.items() if slow)
    slowed = f"{', '.join(others)} and {last}" if others else last
    return (
        f" In the runs of {slowed} alone the loop that keeps cores awake took CPU time from the machines: where no link is full, a part of "
        "what they differ by from the others is that."
    )
