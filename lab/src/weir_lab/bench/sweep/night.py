"""Runs where they tell most: every cell gets one in a first block, then blocks go to the cells that are known least for what they mean.

`run_one_night` does so for one sweep, `whole_night` for several. Nothing but run folders is kept: whoever goes on tomorrow reads them, and
finds the same needs again. A run is never left out for what it measured; a run beside a busy machine is invalid, and is tried again.

::

    first block   every cell without a run, in random order
    then          neediest cell + those it is compared with + those that lack most + two anchors, in random order, until all are
                  within their aims
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.bench.machine.facts import machine_facts
from weir_lab.bench.planning import expected_seconds
from weir_lab.design import Response, anchors_of, cells_of, contrast_partners, neighbours
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import CpuRecord, read_json, read_run_metas
from weir_lab.theory.linear import PLATEAU_SHARE, Aim, MeasuredRun, Reach, next_block, reaches, runs_to_come

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.bench.sweep.at_work import SweepAtWork
    from weir_lab.design import Cell, Night, Study
    from weir_lab.records import Verdict
    from weir_lab.records.progress import CellProgress

__all__ = [
    "BusyMachineError",
    "Clock",
    "Speeds",
    "aims_of",
    "block_of_need",
    "first_block",
    "reach_of",
    "run_one_night",
    "seconds_to_come",
]

_RESPONSES = (Response.THROUGHPUT, Response.MEAN_RESPONSE_TIME)
# Factors that say how many clients there are, along which a curve has its maximum.
_POPULATIONS = ("clients", "clients_per_thread", "depth")
# With fewer yardsticks a median says little of what is usual.
_USUAL_MIN = 5
# The last ones say what is usual. A machine that became faster or slower for good is the usual one after more than half of this number.
_USUAL_MAX = 50
# Runs of different cells that fail one after the other, and not for a busy machine, fail for one reason.
_FAILED_IN_A_ROW_MAX = 3
# A run beside a busy machine is tried again at once this often; later its cell asks again, if it still lacks.
_BUSY_TRIES = 2
# After this many attempts beside a busy machine, one after the other, the night ends: each costs a folder, and tells nothing. More than it
# takes until another speed of the machine is the usual one.
_BUSY_IN_A_ROW_MAX = 40
# Before, each attempt waits twice as long as the one before it, up to this.
_BUSY_PAUSE_MAX_S = 15.0
# This number of cells with runs connects a first block that was cut short with what is left of it.
_LINKS = 2


class BusyMachineError(TestbedError):
    """The machine has been busy for so long that no sweep of this night would get a run."""


@dataclass
class Clock:
    """When to stop: no run begins that would end behind ``until`` (``None`` for never)."""

    until: float | None = None

    def has(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return self.until is None or time.monotonic() + seconds <= self.until

    @property
    def left_s(self) -> float:
        """Seconds that are left; infinite without an end."""
        return math.inf if self.until is None else max(0.0, self.until - time.monotonic())


@dataclass
class Speeds:
    """Yardsticks of a study's attempts on a machine like this one: what is usual. Busy attempts count, or nobody would learn of a change.

    The last ones count alone: a machine that became faster for good is not measured against what it was. A study may go on on another
    machine, and there another speed is usual. A cell that loads the machine more slows the yardstick itself, so each is held against what
    it usually is beside the others.
    """

    dropped: int = 0
    """Attempts that were invalid for a busy machine alone."""
    busy_in_a_row: int = 0
    """Of those, the last ones without any other between them."""
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Valid runs that were made on another kind of processor, by its name."""
    _known: list[tuple[int, float, Path]] = field(default_factory=list)
    """When, what the yardstick took, and of which cell, as its sweep's folder has it."""
    _machine: dict[str, str | int | float] = field(default_factory=machine_facts)

    def read(self, sweep: Path) -> None:
        """Take up what is there."""
        for folder, meta in read_run_metas(sweep):
            self.dropped += meta.verdict.busy
            model = str(meta.machine.get("cpu_model", ""))
            if meta.verdict.valid and model not in ("", self._machine.get("cpu_model")):
                self.elsewhere[model] += 1
            if (meta.verdict.valid or meta.verdict.busy) and meta.machine == self._machine:
                self._note(folder, meta.started_unix_ns, sweep / meta.cell)
        self._known.sort()

    def heard(self, verdict: Verdict, folder: Path, cell: Path = Path()) -> None:
        """Take up an attempt that was made just now; ``cell`` is its name in its sweep's folder."""
        self.dropped += verdict.busy
        self.busy_in_a_row = self.busy_in_a_row + 1 if verdict.busy else 0
        if verdict.valid or verdict.busy:
            self._note(folder, time.time_ns(), cell)

    def _note(self, folder: Path, unix_ns: int, cell: Path) -> None:
        try:
            slowness_ns = read_json(folder / "cpu.json", CpuRecord).slowness_ns()
        except RecordError:
            return
        if slowness_ns is not None:
            self._known.append((unix_ns, slowness_ns, cell))

    @property
    def usual_ns(self) -> float | None:
        """The median of the last ones; ``None`` while there are too few."""
        return self._usual(len(self._known))

    def _usual(self, count: int) -> float | None:
        """The same when the first ``count`` of them were there."""
        last = [slowness_ns for _, slowness_ns, _ in self._known[max(0, count - _USUAL_MAX) : count]]
        return statistics.median(last) if len(last) >= _USUAL_MIN else None

    def usual_of(self, cell: Path) -> float | None:
        """The same for runs of one cell: times what they usually are beside the others, once there are enough attempts at it."""
        here = [place for place, (*_, other) in enumerate(self._known) if other == cell][-_USUAL_MAX:]
        beside = [self._known[place][1] / usual for place in here if (usual := self._usual(place)) is not None]
        usual_ns = self.usual_ns
        if usual_ns is None or len(beside) < _USUAL_MIN:
            return usual_ns
        return usual_ns * statistics.median(beside)


def aims_of(study: Study, cells: Sequence[CellProgress], *, headline: bool) -> dict[str, Aim]:
    """How much each cell is to be known. Headline cells: all, or of each curve over clients those at its maximum."""
    night = _night(study)
    named = {cell.cell.name for cell in cells} if headline else _maxima(study, cells)
    found = {}
    for cell in cells:
        if cell.cell.name in named:
            # Runs that were made before the cell was a headline are shorter; they do not count for its least number.
            short = sum(one is not None and not _long(one.measured_s, study) for one in cell.values.values())
            found[cell.cell.name] = Aim(night.half_width, night.headline_runs + short)
        else:
            found[cell.cell.name] = Aim(night.other_half_width, night.other_runs)
    return found


def reach_of(study: Study, cells: Sequence[CellProgress], *, headline: bool) -> dict[str, Reach]:
    """How far each cell is, by the linear model over all runs of the sweep."""
    responses = [
        [
            MeasuredRun(cell.cell.name, value.of(response), block, value.position, value.slowness_ns)
            for cell in cells
            for block, value in cell.values.items()
            if value is not None
        ]
        for response in _RESPONSES
    ]
    return reaches(responses, aims_of(study, cells, headline=headline))


def seconds_to_come(study: Study, cells: Sequence[CellProgress], *, headline: bool) -> tuple[int, float]:
    """Runs that are still needed by what is known now, and how long they take; anchors and partners are not in it.

    Of a curve whose maximum is not known yet, three cells are counted as if they were it and its neighbours.
    """
    found = reach_of(study, cells, headline=headline)
    each_s, night = expected_seconds(study), _night(study)
    longer_s = night.headline_s - study.plan.measured_s
    come = runs_to_come(found)
    seconds = sum(
        count * (each_s + (longer_s if found[name].aim.half_width == night.half_width else 0.0))
        for name, count in come.items()
    )
    # The short run of the first block does not count for them: their least number counts long ones.
    more = 0 if headline else sum(min(3, len(curve)) for curve in _curves(study, cells) if not _whole(curve))
    runs = more * max(0, night.headline_runs + 1 - night.other_runs)
    return sum(come.values()) + runs, seconds + runs * each_s + more * night.headline_runs * longer_s


def run_one_night(work: SweepAtWork, clock: Clock, *, headline: bool = False, speeds: Speeds | None = None) -> bool:
    """Blocks of one sweep until every cell is within its aim (true) or the time is up."""
    speeds = speeds or Speeds()
    if not first_block(work, clock, speeds, headline=headline):
        return False
    while True:
        made = block_of_need(work, clock, speeds, headline=headline)
        if made is None:
            return True
        if not made:
            return False


def first_block(work: SweepAtWork, clock: Clock, speeds: Speeds, *, headline: bool = False) -> bool:
    """A run of every cell that has none, with two cells that have some, so that blocks are connected; then what refinement adds.

    False where the time did not suffice.
    """
    for _ in work.stages():
        bare = [cell.cell for cell in work.cells if not cell.values]
        if not bare:
            continue
        known = {cell.cell.name: cell.cell for cell in work.cells if cell.values}
        anchors = [name for name in anchors_of(work.study, cells_of(work.study)) if name in known]
        linking = list(dict.fromkeys([*anchors, *known]))[:_LINKS]
        order = _shuffled(work, [*bare, *(known[name] for name in linking)])
        long = {
            name
            for name, aim in aims_of(work.study, work.cells, headline=headline).items()
            if _headline(work.study, aim)
        }
        work.announce(sum(len(cell.values) for cell in work.cells) + len(order))
        if not _made(work, order, long, clock, speeds):
            return False
    return True


def block_of_need(work: SweepAtWork, clock: Clock, speeds: Speeds, *, headline: bool = False) -> bool | None:
    """The next block by need: true if it was made, false if the time did not suffice, ``None`` if no cell needs one."""
    study = work.study
    cells = {cell.cell.name: cell for cell in work.cells if not _hopeless(cell)}
    found = reach_of(study, list(cells.values()), headline=headline)
    every = [cell.cell for cell in cells.values()]
    rng = np.random.default_rng(
        [study.plan.seed, 3, max((max(one.values, default=0) for one in cells.values()), default=0), *_lane(work)]
    )
    names = next_block(
        found, contrast_partners(study, every), [one for one in anchors_of(study, every) if one in cells], rng
    )
    if not names:
        return None
    long = {name for name in names if _headline(study, found[name].aim)}
    return _made(work, [cells[name].cell for name in names], long, clock, speeds)


def _made(work: SweepAtWork, cells: Sequence[Cell], long: set[str], clock: Clock, speeds: Speeds) -> bool:
    """Make a block; false where the time does not suffice for all of it. What is made of it counts."""
    study = work.study
    night, in_a_row = _night(study), 0
    longer_s = night.headline_s - study.plan.measured_s
    runs = work.new_block([(cell, night.headline_s if cell.name in long and longer_s > 0 else None) for cell in cells])
    for run in runs:
        seconds = expected_seconds(study) + (longer_s if run.measured_s is not None else 0.0)
        valid, failed = False, 0
        for attempt in range(1, max(study.plan.attempts, _BUSY_TRIES) + 1):
            if not clock.has(seconds):
                work.count(out_of_budget=True)
                return False
            work.count(made=attempt == 1)
            cell = work.sweep / run.cell.name
            verdict, folder = work.try_once(run, attempt, speeds.usual_of(cell))
            speeds.heard(verdict, folder, cell)
            _endure(study, speeds, clock)
            valid = verdict.valid
            failed += not valid and not verdict.busy
            if valid or (verdict.busy and attempt >= _BUSY_TRIES) or attempt >= study.plan.attempts:
                break
        if failed and not valid:
            in_a_row += 1
            next(one for one in work.cells if one.cell.name == run.cell.name).given_up.add(run.repetition)
        else:
            in_a_row = 0
        if in_a_row == _FAILED_IN_A_ROW_MAX:
            raise TestbedError(
                f"{in_a_row} runs in a row have no valid attempt; {study.name} stops here. Mend what the last verdicts say, then run the "
                "same command again."
            )
    return True


def _endure(study: Study, speeds: Speeds, clock: Clock) -> None:
    """On a machine that stays busy wait a little before the next attempt; one that is busy for too long ends the night."""
    if speeds.busy_in_a_row >= _BUSY_IN_A_ROW_MAX:
        raise BusyMachineError(
            f"{study.name}: the machine was busy in {speeds.busy_in_a_row} attempts in a row. Wait until it is quiet (the last verdicts "
            "say what was busy), then run the same command again."
        )
    if speeds.busy_in_a_row > _BUSY_TRIES:
        sleep(min(2.0 ** (speeds.busy_in_a_row - _BUSY_TRIES), _BUSY_PAUSE_MAX_S, clock.left_s))


def _shuffled(work: SweepAtWork, cells: list[Cell]) -> list[Cell]:
    rng = np.random.default_rng([work.study.plan.seed, 4, sum(len(cell.values) for cell in work.cells), *_lane(work)])
    return [cells[number] for number in rng.permutation(len(cells)).tolist()]


def _lane(work: SweepAtWork) -> list[int]:
    """What makes the order of a lane its own."""
    return [work.lane] if work.lane else []


def _maxima(study: Study, cells: Sequence[CellProgress]) -> set[str]:
    """Of each curve over clients the cells that decide where its maximum is.

    These are the fewest clients whose mean reaches 95 % of the largest mean, and the level on each side. The level with the largest mean
    is one, too: all others are held against it (`theory.linear.plateau_of`).
    """
    factor = _population(study)
    named: set[str] = set()
    for curve in _curves(study, cells):
        # A curve that is not there as a whole has no maximum yet.
        if factor is None or not _whole(curve):
            continue
        ordered = sorted(curve, key=lambda cell: float(dict(cell.cell.levels)[factor]))
        means = [cell.mean(Response.THROUGHPUT) or 0.0 for cell in ordered]
        largest = max(means)
        first = next(cell.cell for cell, mean in zip(ordered, means, strict=True) if mean >= PLATEAU_SHARE * largest)
        rival = ordered[means.index(largest)].cell
        beside = neighbours([cell.cell for cell in curve], first, factor)
        named |= {first.name, rival.name, *(one.name for one in beside)}
    return named


def _population(study: Study) -> str | None:
    return next((name for name in _POPULATIONS if len(study.factors.get(name, [])) > 1), None)


def _curves(study: Study, cells: Sequence[CellProgress]) -> list[list[CellProgress]]:
    """Cells that differ in the number of clients alone; none where that does not vary."""
    factor = _population(study)
    if factor is None:
        return []
    curves: dict[tuple[object, ...], list[CellProgress]] = {}
    for cell in cells:
        rest = tuple(pair for pair in cell.cell.levels if pair[0] != factor)
        curves.setdefault(rest, []).append(cell)
    return list(curves.values())


def _whole(curve: Sequence[CellProgress]) -> bool:
    return all(cell.mean(Response.THROUGHPUT) is not None for cell in curve)


def _night(study: Study) -> Night:
    night = study.plan.night
    if night is None:
        raise AssertionError("only a study at the pace night, whose runs load something, has needs")
    return night


def _headline(study: Study, aim: Aim) -> bool:
    return aim.half_width == _night(study).half_width


def _long(measured_s: float | None, study: Study) -> bool:
    return (study.plan.measured_s if measured_s is None else measured_s) >= _night(study).headline_s


def _hopeless(cell: CellProgress) -> bool:
    """Whether two blocks in this session brought no valid attempt: more would not either."""
    return len(cell.given_up) >= 2
