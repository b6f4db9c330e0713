"""The cells of a 2^k design one by one: throughput, and the station that is full in each. `corner_blocks`.

A design's effects add up. Throughput does not: it is the least of several limits, so that a factor matters only where it moves the least.
So the cells stand before the effects, and each factor's change is given in each pair of cells that differ in it alone. All workloads have
one list of sentences, and what goes for all of them is said once; each has a table of its own, which is short enough to be read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

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

__all__ = ["Corners", "corner_blocks", "pair_changes_text"]

# Settings that may go with a factor, and what they are called.
_TIED = {"replicas": "the number of servers of a key"}
# More pairs than this are counted and not named.
_NAMED_MAX = 3
_LEAST = "Throughput is the least of several limits, and effects, which add up, do not show which."


class Corners(NamedTuple):
    """The cells of one workload, and a design of them."""

    workload: str
    cells: Sequence[CellReadings]
    design: TwoLevelDesign


class _Limited(NamedTuple):
    """The same, with the cells that are corners of the design alone, each with its station and the use of that in percent."""

    workload: str
    corners: Sequence[CellReadings]
    limits: dict[CellReadings, tuple[str, float | None]]
    design: TwoLevelDesign


class _Moved(NamedTuple):
    """A factor with the number of its pairs, and those in which it changes throughput by more than a margin."""

    factor: TwoLevelFactor
    pairs: int
    moved: Sequence[tuple[CellReadings, CellReadings]]

    @property
    def change(self) -> str:
        """``proxies from 1 to 2``."""
        return f"{self.factor.words} from {self.factor.low} to {self.factor.high}"


def corner_blocks(task: Task, designed: Sequence[Corners]) -> list[Block]:
    """What the cells of all workloads say, and a table of each; nothing of a workload where a corner has no cell of its own."""
    found = []
    for workload, cells, design in designed:
        ends = {one.name: (one.low, one.high) for one in design.factors}
        corners = [cell for cell in cells if all(cell.level(name) in levels for name, levels in ends.items())]
        if len(corners) == 2 ** len(design.factors):
            found.append(_Limited(workload, corners, {cell: _station(task, cell) for cell in corners}, design))
    return [_sentences(task, found), *(_table(task, one) for one in found)] if found else []


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


def _sentences(task: Task, found: Sequence[_Limited]) -> Text:
    """A point for each workload; before and behind them, once, what more than one has."""
    least = _said_once([(one.workload, [_LEAST] if len(_stations(one)) > 1 else []) for one in found])
    own = [(_lead(task, one), _named(task, one)) for one in found]
    behind = _said_once([(one.workload, [*_tied(one), *_runs_texts(task, one)]) for one in found])
    return Text(
        "Cell by cell:",
        (*least, *(f"{lead} {named}".rstrip() for lead, named in own), *behind),
        leads=(*least, *(lead for lead, _ in own), *behind),
    )


def _said_once(said: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Sentences that all workloads have, and with their names those that some have."""
    named: dict[str, list[str]] = {}
    for workload, texts in said:
        for text in texts:
            named.setdefault(text, []).append(workload)
    return [
        text if len(names) == len(said) else f"{listed(names).capitalize()}: {text[0].lower()}{text[1:]}"
        for text, names in named.items()
    ]


def _stations(one: _Limited) -> Counter[str]:
    """In how many cells which station limits; an empty name where none is full."""
    return Counter(station for station, _ in one.limits.values())


def _lead(task: Task, one: _Limited) -> str:
    """What limits in how many cells, and in how many pairs each factor matters."""
    stations, cells = _stations(one), count_text(len(one.corners), "cell")
    counted = [
        f"the {name} limit in {times}" if name else f"nothing is full in {times}"
        for name, times in stations.most_common()
    ]
    only = next(iter(stations))
    limits = (
        f"in all of {cells} {f'the {only} limit' if only else 'nothing is full'}"
        if len(stations) == 1
        else f"of {cells} {listed(counted)}"
    )
    return f"{one.workload.capitalize()}: {limits}. {_changes_text(task, one)}"


def _changes_text(task: Task, one: _Limited) -> str:
    """``Throughput changes by more than 5 % with servers from 1 to 3 in 4 of 4 pairs of cells that differ in nothing else, with …``."""
    parts: list[str] = []
    for factor in one.design.factors:
        found = _moved(task, factor, one.corners)
        # What a pair is, is said with the first number of them.
        pairs = "" if parts else " pairs of cells that differ in nothing else"
        parts.append(f"with {found.change} in {len(found.moved)} of {found.pairs}{pairs}")
    return f"Throughput changes by more than {task.margins.maximum:g} % {', '.join(parts)}."


def _named(task: Task, one: _Limited) -> str:
    """Which pairs those are, of the factors that matter in some alone."""
    parts = []
    for found in (_moved(task, factor, one.corners) for factor in one.design.factors):
        if 0 < len(found.moved) < found.pairs:
            change = found.change
            parts.append(f"{change[0].upper()}{change[1:]}: {_pairs_text(task, found)}.")
    return " ".join(parts)


def _moved(task: Task, factor: TwoLevelFactor, corners: Sequence[CellReadings]) -> _Moved:
    pairs = []
    for low in corners:
        if low.level(factor.name) != factor.low:
            continue
        wanted = {**dict(low.cell.levels), factor.name: factor.high}
        high = next((one for one in corners if dict(one.cell.levels) == wanted), None)
        if high is not None:
            pairs.append((low, high))
    margin = task.margins.maximum / 100.0
    return _Moved(
        factor, len(pairs), [(a, b) for a, b in pairs if abs(b.mean_throughput / a.mean_throughput - 1.0) > margin]
    )


def _pairs_text(task: Task, found: _Moved) -> str:
    """The first of the pairs, by their other factors, each with its two throughputs."""
    without = {*task.first.study.apart, found.factor.name}
    named = []
    for low, high in found.moved[:_NAMED_MAX]:
        others = ", ".join(level_name(one, level) for one, level in low.cell.levels if one not in without)
        named.append(f"{others} ({rate(low.mean_throughput)} to {rate(high.mean_throughput)} requests/s)")
    return f"{'; '.join(named)}{', and others' if len(found.moved) > len(named) else ''}"


def _tied(one: _Limited) -> list[str]:
    """What is said of settings that change with a factor."""
    return [text for factor in one.design.factors for text in _tied_texts(factor, one.corners)]


def _runs_texts(task: Task, one: _Limited) -> list[str]:
    """Which runs the tables of effects have, where that is not all."""
    cells = task.first.cells
    total = sum(len(cell.runs) for cell in cells)
    used = one.design.choice.additive.repetitions
    if total <= used * len(cells):
        return []
    taken = "those of the blocks that all cells have" if one.design.whole else "as many as the cell with the fewest has"
    return [
        f"Tables of effects have {used} runs of each cell, {taken}; of the section's {total} runs the others are in the tables of cells "
        "alone."
    ]


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


def _table(task: Task, one: _Limited) -> Table:
    factors = one.design.factors
    rows: list[tuple[Entry, ...]] = []
    for cell in one.corners:
        station, share = one.limits[cell]
        rows.append(
            (
                *(str(cell.level(factor.name)) for factor in factors),
                level_value(cell, throughput_of, digits=0),
                level_value(cell, response_of, 1e3),
                station or "none is full",
                Value(share, digits=1) if share is not None else "–",
                Value(len(cell.runs)),
            )
        )
    return Table(
        f"{task.spec.name}-{one.workload}-by-cell".replace(" ", "-").replace("%", "percent"),
        f"{one.workload.capitalize()}, cell by cell: throughput, mean response time, and the station that is full. Each has the 95 % "
        "interval of its mean alone.",
        (
            *(factor.words for factor in factors),
            "X (requests/s)",
            "R (ms)",
            "What limits",
            "Used (%)",
            "Runs",
        ),
        tuple(rows),
    )
