"""The cells of a 2^k design one by one: throughput, and the station that is full in each. `corner_blocks`.

A design's effects add up. Throughput does not: it is the least of several limits, so that a factor matters only where it moves the least.
So the cells stand before the effects, and each factor's change is given in each pair of cells that differ in it alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.report.common import level_name, level_value, spread_text
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.stations import bottleneck, usages
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.theory.units import count_text, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.numbers.sweeps import TwoLevelDesign, TwoLevelFactor
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["corner_blocks", "pair_changes_text"]

# Settings that may go with a factor, and what they are called.
_TIED = {"replicas": "the number of servers of a key"}
# More pairs than this are counted and not named.
_NAMED_MAX = 3


def corner_blocks(task: Task, workload: str, cells: Sequence[CellReadings], design: TwoLevelDesign) -> list[Block]:
    """What the cells say, and the table of them; nothing where a corner has no cell of its own."""
    factors = design.factors
    ends = {one.name: (one.low, one.high) for one in factors}
    corners = [cell for cell in cells if all(cell.level(name) in levels for name, levels in ends.items())]
    if len(corners) != 2 ** len(factors):
        return []
    limits = {cell: _station(task, cell) for cell in corners}
    return [_sentences(task, workload, corners, limits, design), _table(task, workload, corners, limits, factors)]


def pair_changes_text(design: TwoLevelDesign, name: str, margin_percent: float) -> str:
    """``over the 4 pairs that differ in workers alone it changes by −0.1 to +69 %, by more than 5 % in 1 of them``."""
    means = design.choice.additive.observations.mean(axis=1)
    place = [one.name for one in design.factors].index(name)
    step = 2 ** (len(design.factors) - 1 - place)
    changes = [
        100.0 * (float(means[at + step]) / float(means[at]) - 1.0) for at in range(means.size) if not at // step % 2
    ]
    pairs = f"over the {len(changes)} pairs that differ in {name.replace('_', ' ')} alone"
    return f"{pairs} it changes by {spread_text(changes, margin_percent)}"


def _station(task: Task, cell: CellReadings) -> tuple[str, float | None]:
    """The full station, or the busiest where none is, with its use in percent."""
    known = usages(cell, task.first.study.topology.built_links if task.first.links_built else None)
    limit = bottleneck(known, queue_grows=None).station
    share = next((one.share for one in known if one.station == limit), None)
    return limit, None if share is None else 100.0 * share


def _sentences(
    task: Task,
    workload: str,
    corners: Sequence[CellReadings],
    limits: dict[CellReadings, tuple[str, float | None]],
    design: TwoLevelDesign,
) -> Text:
    stations = Counter(station for station, _ in limits.values())
    counted = [
        f"the {name} limit in {times}" if name else f"nothing is full in {times}"
        for name, times in stations.most_common()
    ]
    only = next(iter(stations))
    least = (
        f"{workload.capitalize()}: in all of {count_text(len(corners), 'cell')} {f'the {only} limit' if only else 'nothing is full'}."
        if len(stations) == 1
        else f"{workload.capitalize()}: throughput is the least of several limits, and effects, which add up, do not show which. Of "
        f"{count_text(len(corners), 'cell')} {listed(counted)}."
    )
    points = [least, *(_factor_text(task, one, corners) for one in design.factors)]
    tied = [text for one in design.factors for text in _tied_texts(one, corners)]
    cells = task.first.cells
    total = sum(len(cell.runs) for cell in cells)
    used = design.choice.additive.repetitions
    rest = (
        f"Tables of effects have {used} runs of each cell, "
        f"{'those of the blocks that all cells have' if design.whole else 'as many as the cell with the fewest has'}; of the section's "
        f"{total} runs the others are in the table of cells alone."
        if total > used * len(cells)
        else ""
    )
    return Text("Cell by cell:", tuple(one for one in (*points, *tied, rest) if one))


def _factor_text(task: Task, factor: TwoLevelFactor, corners: Sequence[CellReadings]) -> str:
    """In how many pairs the factor alone matters, and in which."""
    margin = task.margins.maximum
    pairs = []
    for low in corners:
        if low.level(factor.name) != factor.low:
            continue
        wanted = {**dict(low.cell.levels), factor.name: factor.high}
        high = next((one for one in corners if dict(one.cell.levels) == wanted), None)
        if high is not None:
            pairs.append((low, high))
    moved = [(a, b) for a, b in pairs if abs(b.mean_throughput / a.mean_throughput - 1.0) > margin / 100.0]
    change = f"{factor.words.capitalize()} from {factor.low} to {factor.high}"
    verb = "change" if factor.words.endswith("s") else "changes"
    head = f"{change} {verb} it by more than {margin:g} % in {len(moved)} of {len(pairs)} pairs"
    apart = set(task.first.study.apart)
    named = []
    for low, high in moved[:_NAMED_MAX]:
        others = [level_name(one, level) for one, level in low.cell.levels if one != factor.name and one not in apart]
        named.append(f"{', '.join(others)} ({rate(low.mean_throughput)} to {rate(high.mean_throughput)} requests/s)")
    if not named or len(moved) == len(pairs):
        return f"{head}."
    return f"{head}: {'; '.join(named)}{', and others' if len(moved) > len(named) else ''}."


def _tied_texts(factor: TwoLevelFactor, corners: Sequence[CellReadings]) -> list[str]:
    """Settings that change with this factor and are none themselves."""
    found = []
    for setting, words in _TIED.items():
        levels = [
            {getattr(cell.settings, setting) for cell in corners if cell.level(factor.name) == level}
            for level in (factor.low, factor.high)
        ]
        if all(len(one) == 1 for one in levels) and levels[0] != levels[1]:
            low, high = (next(iter(one)) for one in levels)
            name = factor.words
            found.append(f"With {name} goes {words}, {low} to {high}: what {name} change is the change of both.")
    return found


def _table(
    task: Task,
    workload: str,
    corners: Sequence[CellReadings],
    limits: dict[CellReadings, tuple[str, float | None]],
    factors: Sequence[TwoLevelFactor],
) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for cell in corners:
        station, share = limits[cell]
        rows.append(
            (
                *(str(cell.level(one.name)) for one in factors),
                level_value(cell, throughput_of, digits=0),
                level_value(cell, response_of, 1e3),
                station or "none is full",
                Value(share, digits=1) if share is not None else "–",
                Value(len(cell.runs)),
            )
        )
    return Table(
        f"{task.spec.name}-{workload}-cells".replace(" ", "-").replace("%", "percent"),
        f"{workload.capitalize()}, cell by cell: throughput, mean response time, and the station that is full. Each has the 95 % interval "
        "of its mean alone.",
        (
            *(one.words for one in factors),
            "X (requests/s)",
            "R (ms)",
            "What limits",
            "Used (%)",
            "Runs",
        ),
        tuple(rows),
    )
