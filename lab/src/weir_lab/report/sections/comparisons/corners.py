"""The cells of a 2^k design one by one: throughput, and the station that is full in each. `corner_blocks`.

A design's effects add up. Throughput does not: it is the least of several limits, so that a factor matters only where it moves the least.
So the cells stand before the effects, and each factor's change is given in each pair of cells that differ in it alone. All workloads have
one list of sentences and one table; what helps to read them follows as a note, and what goes for all of them is said once.
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
    """What the cells of all workloads say, their table, and how to read both; nothing of a workload where a corner has no cell."""
    found = []
    for workload, cells, design in designed:
        ends = {one.name: (one.low, one.high) for one in design.factors}
        corners = [cell for cell in cells if all(cell.level(name) in levels for name, levels in ends.items())]
        if len(corners) == 2 ** len(design.factors):
            found.append(_Limited(workload, corners, {cell: _station(task, cell) for cell in corners}, design))
    return [_sentences(task, found), _table(task, found), *_notes(task, found)] if found else []


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
    """A point for each workload: what limits, and with which factors throughput changes; in which pairs it does opens on demand."""
    own = [(_lead(task, one), _named(task, one)) for one in found]
    return Text("Cell by cell:", tuple(f"{lead} {named}" for lead, named in own), leads=tuple(lead for lead, _ in own))


def _notes(task: Task, found: Sequence[_Limited]) -> list[Text]:
    """What more than one workload has is said once."""
    said = _said_once(
        [
            (one.workload, [*([_LEAST] if len(_stations(one)) > 1 else []), *_tied(one), *_runs_texts(task, one)])
            for one in found
        ]
    )
    return [Text("What to mind with the cells:", tuple(said), note=True)] if said else []


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
    (most, times), *others = _stations(one).most_common()
    cells = count_text(len(one.corners), "cell")
    limits = f"the {most} limit in" if most else "nothing is full in"
    # The first station has the number of all cells with its own.
    counted = [f"{limits} {times} of {cells}" if others else f"{limits} all of {cells}"]
    counted += [f"the {name} in {count}" if name else f"nothing is full in {count}" for name, count in others]
    return f"{one.workload.capitalize()}: {listed(counted)}. {_changes_text(task, one)}"


def _changes_text(task: Task, one: _Limited) -> str:
    """``Throughput changes by more than 5 % with servers in 4 of 4 pairs of cells, with proxies in 3 of 4, …``."""
    parts: list[str] = []
    for factor in one.design.factors:
        found = _moved(task, factor, one.corners)
        pairs = "" if parts else " pairs of cells"
        parts.append(f"with {factor.words} in {len(found.moved)} of {found.pairs}{pairs}")
    return f"Throughput changes by more than {task.margins.maximum:g} % {', '.join(parts)}."


def _named(task: Task, one: _Limited) -> str:
    """What a pair is, and which pairs those are, of the factors that matter in some alone."""
    moved = [_moved(task, factor, one.corners) for factor in one.design.factors]
    parts = [f"The cells of a pair differ in one factor alone: {', '.join(found.change for found in moved)}."]
    for found in moved:
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


def _table(task: Task, found: Sequence[_Limited]) -> Table:
    factors = {factor.name: factor.words for one in found for factor in one.design.factors}
    rows: list[tuple[Entry, ...]] = []
    for one in found:
        for cell in one.corners:
            station, share = one.limits[cell]
            rows.append(
                (
                    one.workload,
                    *(str(cell.level(name)) for name in factors),
                    level_value(cell, throughput_of, digits=0),
                    level_value(cell, response_of, 1e3),
                    station or "none is full",
                    Value(share, digits=1) if share is not None else "–",
                    Value(len(cell.runs)),
                )
            )
    return Table(
        f"{task.spec.name}-by-cell",
        "Cell by cell: throughput, mean response time, and the station that is full. Each has the 95 % interval of its mean alone.",
        (
            "Requests",
            *factors.values(),
            "X (requests/s)",
            "R (ms)",
            "What limits",
            "Used (%)",
            "Runs",
        ),
        tuple(rows),
    )
