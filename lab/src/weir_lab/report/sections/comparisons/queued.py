"""Where requests wait: how many in the proxies' queues (`queued`, `queue_grows`, `moved_points`), and which part of their time changes.

Queues go by Little's law: X times the time in the stage queue. The parts of a request's time are stages of the proxy, and what is outside
of it (`parts_of`). Where more writes, copies or servers make requests slower, `parts_points` and `parts_table` say in which of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.common import Point, by_workload
from weir_lab.report.numbers.comparing import at_equal_blocks, cell_key, model_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.readings import OPERATION_NAMES, stage_s
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.stats import FALSE_DISCOVERIES, benjamini_hochberg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry
    from weir_lab.theory.linear import Change

__all__ = [
    "Part",
    "Step",
    "moved_points",
    "parts_of",
    "parts_points",
    "parts_table",
    "queue_grows",
    "queued",
    "steps_over_copies",
    "steps_over_writes",
]

# Less than this share of the requests under way are few to wait in a queue.
_FEW_SHARE = 0.1
# Two waits that differ by less than this share are about as long.
_ALIKE = 0.05
# The table in which a study has its queue and its wait for memcached by workers.
_BY_WORKERS = "max_throughput_full_system"
_OUTSIDE = "outside of the proxy"
# The smallest change that is named, of the whole time of a request at first.
_LEAST = 0.01
# From this number of changes on nobody reads them in passing.
_MANY = 3
# Stages that hold the time of a request; the others are those in which a proxy works on it.
_PARTS = {
    "in stage queue": ("queue",),
    "in stage backend": ("backend",),
    "in the other stages": ("read", "dispatch", "send", "reply"),
    _OUTSIDE: (),
}


def queued(run: Reading) -> float | None:
    """Mean number of requests in the queues of all proxies; ``None`` without stamps of a proxy."""
    stages = run.stages_s()
    return run.throughput * stages["queue"] if stages else None


def queue_grows(series: Series) -> bool | None:
    """Whether the proxy's queue grows more than twofold from the fewest clients to the most; False where few wait there even then.

    Few are less than a tenth of the requests under way. ``None`` where many wait at all levels, or nothing is known.
    """
    lengths = [_mean(cell) for cell in (series.cells[0], series.cells[-1])]
    known = [length for length in lengths if length is not None]
    if len(known) != 2:
        return None
    if known[1] < _FEW_SHARE * series.cells[-1].settings.population:
        return False
    return True if known[1] > 2.0 * known[0] else None


def moved_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """At which clients the most workers wait longer for memcached than the next fewer, whose requests wait in the queue there.

    Of sections that have what a study printed of both waits by workers. The numbers are those of the table of mean stages.
    """
    if not any(source.table == _BY_WORKERS for source in task.spec.published):
        return []
    points = []
    for group in by_workload(lines).values():
        by_workers = {one.cells[0].settings.workers or 0: one for one in group}
        if len(by_workers) < 2 or 0 in by_workers:
            continue
        few, most = sorted(by_workers)[-2:]
        known = {cell.settings.clients: cell for cell in by_workers[few].cells}
        waits = {}
        for cell in by_workers[most].cells:
            base = known.get(cell.settings.clients)
            found = _waits(cell, base) if base is not None else None
            if found is not None:
                waits[cell.settings.clients] = found
        if waits:
            points.append(_moved_text(few, most, waits))
    return points


def _waits(cell: CellReadings, base: CellReadings) -> tuple[float, float, float, float] | None:
    """For memcached in both, and in the queue in both, in ms; ``None`` without stamps of a proxy."""
    found = [_stage_ms(one, stage) for stage in ("backend", "queue") for one in (cell, base)]
    known = [one for one in found if one is not None]
    return (known[0], known[1], known[2], known[3]) if len(known) == len(found) else None


def _moved_text(few: int, most: int, waits: dict[int, tuple[float, float, float, float]]) -> str:
    """``waits``: by clients those for memcached with the most workers and with fewer, and those in the queue."""
    longer = {clients: found for clients, found in waits.items() if found[0] > (1.0 + _ALIKE) * found[1]}
    what = f"With {most} workers in each proxy a request waits for memcached"
    if not longer:
        return f"{what} no longer than with {few}, but for {100.0 * _ALIKE:g} %, at any number of clients."
    clients, (wait, wait_few, queue, queue_few) = max(longer.items())
    at = listed([str(one) for one in longer])
    shown = f"{Value(wait).text} against {Value(wait_few).text} ms{f' with {clients}' if len(longer) > 1 else ''}"
    text = f"{what} longer than with {few} at {at} clients ({shown})"
    if all(found[2] < found[3] for found in longer.values()):
        text += (
            f", and less in the queue ({Value(queue).text} against {Value(queue_few).text} ms): what waits for one of {few} workers waits "
            f"for memcached with {most}"
        )
    rest = len(waits) - len(longer)
    others = "level" if rest == 1 else f"{rest} levels"
    return text + (f". At the other {others} it waits no longer, but for {100.0 * _ALIKE:g} %." if rest else ".")


def _stage_ms(cell: CellReadings, stage: str) -> float | None:
    found = cell.of(stage_s(stage))
    return 1e3 * sum(found) / len(found) if found else None


def _mean(cell: CellReadings) -> float | None:
    found = [length for run in cell.runs if (length := queued(run)) is not None]
    return sum(found) / len(found) if found else None


class Step(NamedTuple):
    """From one cell to another: ``words`` say what differs, such as ``7 servers, R = 1 to 7``."""

    words: str
    first: CellReadings
    last: CellReadings


def steps_over_copies(groups: Mapping[int, Sequence[CellReadings]]) -> list[Step]:
    """From no copies to full replication for each number of servers, and without copies from the fewest servers to the most.

    ``groups`` are the cells of each number of servers, ascending by replicas.
    """
    steps = [
        Step(f"{servers} servers, R = {ends[0].settings.replicas} to {ends[-1].settings.replicas}", ends[0], ends[-1])
        for servers, ends in groups.items()
        if len(ends) > 1
    ]
    alone = [cells[0] for _, cells in sorted(groups.items()) if cells[0].settings.replicas == 1]
    if len(alone) > 1:
        servers = " to ".join(str(cell.settings.servers) for cell in (alone[0], alone[-1]))
        steps.append(Step(f"R = 1, {servers} servers", alone[0], alone[-1]))
    return steps


def steps_over_writes(groups: Mapping[str, Sequence[CellReadings]]) -> list[Step]:
    """From the smallest share of writes to the largest, for each number of servers and copies; groups are ascending by writes."""
    steps = []
    for label, ends in groups.items():
        few, many = (f"{100 * cell.settings.write_ratio:g}" for cell in (ends[0], ends[-1]))
        if len(ends) > 1:
            steps.append(Step(f"{label}, {few} to {many} % writes", ends[0], ends[-1]))
    return steps


class Part(NamedTuple):
    """How a part of an operation's time changes over a step; ``q`` is adjusted for all parts that are asked for together."""

    step: Step
    operation: str
    name: str
    first_ms: float
    change: Change
    q: float

    @property
    def added_ms(self) -> float:
        """The change in ms, from the time at first."""
        return self.first_ms * self.change.percent / 100.0

    @property
    def shown(self) -> bool:
        """Whether it is one of those of which at most 5 % are wrong on average."""
        return self.q <= FALSE_DISCOVERIES


def parts_of(cells: Sequence[CellReadings], steps: Sequence[Step], operations: Sequence[str]) -> list[Part]:
    """Every part of every operation over every step whose cells have two runs; none without a proxy that tells."""
    found: list[tuple[Step, str, str, float, Change]] = []
    judged = [step for step in steps if min(len(step.first.runs), len(step.last.runs)) >= 2]
    for operation in operations:
        for name, stages in _PARTS.items():
            value = _part_s(operation, stages)
            model, equal = model_of(cells, value), at_equal_blocks(cells, value)
            for step in judged:
                keys = cell_key(step.first), cell_key(step.last)
                if model is None or min(len(model.values.get(key, ())) for key in keys) < 2:
                    continue
                plain = step.first.of(value)
                first = equal.get(keys[0], sum(plain) / len(plain))
                found.append((step, operation, name, 1e3 * first, model.changes([keys])[0]))
    adjusted = benjamini_hochberg([change.p for *_, change in found])
    return [Part(*one, q) for one, q in zip(found, adjusted, strict=True)]


def _part_s(operation: str, stages: Sequence[str]) -> Callable[[Reading], float | None]:
    """The time in some stages; without any, what is outside of all of them."""

    def of(run: Reading) -> float | None:
        times, whole = run.stages_s(operation), run.operation_s(operation)
        if times is None or whole is None:
            return None
        return sum(times[stage] for stage in stages) if stages else whole - sum(times.values())

    return of


def parts_points(parts: Sequence[Part]) -> list[Point]:
    """One point: which parts are shown to change, the largest change first; or that none is.

    What is next to nothing of a request's time is left to the table, however surely it is there. Of many changes the point opens with the
    largest of each operation.
    """
    if not parts:
        return []
    by_step: dict[tuple[str, str], list[Part]] = {}
    for one in parts:
        by_step.setdefault((OPERATION_NAMES[one.operation], one.step.words), []).append(one)
    named = {at: sorted(_named(own), key=lambda one: -abs(one.added_ms)) for at, own in by_step.items()}
    said = [
        f"a {operation}, {words}: " + ", ".join(f"{one.name} {Value(one.added_ms, signed=True).text} ms" for one in own)
        for (operation, words), own in named.items()
        if own
    ]
    if not said:
        return [
            Point(
                "No part of a request's time, in the proxy or outside of it, is shown to change by "
                f"{100.0 * _LEAST:g} % of that time or more."
            )
        ]
    all_ = f"Of the parts of a request's time these are shown to change: {'; '.join(said)}."
    if len(said) < _MANY:
        return [Point(all_)]
    largest: dict[str, tuple[str, Part]] = {}
    for (operation, words), own in named.items():
        known = largest.get(operation)
        if own and (known is None or abs(own[0].added_ms) > abs(known[1].added_ms)):
            largest[operation] = words, own[0]
    most = [
        f"a {operation}, {words}, {one.name} {Value(one.added_ms, signed=True).text} ms"
        for operation, (words, one) in largest.items()
    ]
    return [Point(f"Largest changes shown in a part of a request's time: {'; '.join(most)}.", all_)]


def _named(parts: Sequence[Part]) -> list[Part]:
    """Of the parts of one operation and step those that are shown to change by enough to be named."""
    whole_ms = sum(one.first_ms for one in parts)
    return [one for one in parts if one.shown and abs(one.added_ms) >= _LEAST * whole_ms]


def parts_table(task: Task, parts: Sequence[Part]) -> Table | None:
    """The numbers of that sentence."""
    rows: list[tuple[Entry, ...]] = [
        (
            one.step.words,
            OPERATION_NAMES[one.operation],
            one.name,
            Value(one.first_ms),
            Value(one.change.percent, one.change.low, one.change.high, 1, signed=True),
            Value(one.added_ms, signed=True),
            Value(one.q, digits=3),
            "yes" if one.shown else "no difference shown",
        )
        for one in parts
    ]
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-parts",
        "Exploratory: which part of a request's time changes, with a 95 % interval for each change alone, from the linear model of all "
        "cells (cell + block on logarithms). At first: the mean of the first cell, at equal blocks where not every block has every cell. "
        f"Shown: q below {FALSE_DISCOVERIES:g}, so that at most {100 * FALSE_DISCOVERIES:g} % of what is shown here is wrong on average "
        "(false discovery rate).",
        ("From and to", "Operation", "Part", "At first (ms)", "Change (%)", "That is (ms)", "q", "Shown"),
        tuple(rows),
        folded=True,
    )
