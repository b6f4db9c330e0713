"""A whole study at the pace `night`: first blocks of all sweeps, hours of traces, then blocks by need. Start with `whole_night`.

A testbed takes seconds to open, so that a sweep keeps it for some minutes before the next one may have a turn. What was made is in the
run folders; a killed night loses the run under way, and the next one goes on from there, days later if need be.
"""

from __future__ import annotations

import math
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.bench.planning import duration_text, estimate, expected_seconds
from weir_lab.bench.sweep.at_work import SweepAtWork
from weir_lab.bench.sweep.night import Clock, Speeds, block_of_need, first_block, reach_of, seconds_to_come
from weir_lab.bench.sweep.run import opened, run_study
from weir_lab.bench.sweep.sets import (
    Progress,
    plan_parts,
    read_reasons,
    reason_key,
    reason_of,
    take_files,
    valid_runs,
    write_reasons,
)
from weir_lab.design import load_study
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import read_sweep
from weir_lab.records.tables.summary import write_tables
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from weir_lab.bench.running import Executables
    from weir_lab.bench.sweep.at_work import Observer
    from weir_lab.bench.sweep.run import Wanted
    from weir_lab.bench.sweep.sets import Part
    from weir_lab.design import Study
    from weir_lab.records.progress import CellProgress

__all__ = ["Standing", "forecast", "forecast_lines", "standing_of", "whole_night"]

# A sweep has its testbed for so long before another one's need is looked at.
_TURN_S = 600.0
# Nor for more blocks than it has cells, and a few at least: one cell alone shall not take so long.
_TURN_BLOCKS = 3
# A study without needs (links, hash) that is so short comes first; longer ones (traces) behind the first blocks.
_SHORT_S = 300.0


@dataclass(frozen=True)
class Standing:
    """How far a sweep is: cells with a first run, with their least number of runs, and within their aim; what lacks most, and is left."""

    name: str
    cells: int
    begun: int
    filled: int
    within: int
    neediest: str
    lack: float
    runs: int
    seconds: float
    known: bool = True
    """Whether the spread of each cell that lacks something is known."""

    @property
    def done(self) -> bool:
        """Whether nothing is to come."""
        return self.within == self.cells

    @property
    def at_least(self) -> bool:
        """Whether runs and time to come are the least: nothing is known yet of the spread, or of where maxima lie."""
        return self.begun < self.cells or not self.known

    @property
    def urgency(self) -> tuple[bool, bool, float, float]:
        """Whose turn is next: before all others, the one with the least share of cells that have their least number of runs.

        Then who lacks most; where nothing is known, the one with the least share of its cells within their aims.
        """
        lacks_runs = self.filled < self.cells
        lack = -self.filled / self.cells if lacks_runs else self.lack if self.known else math.inf
        return (not self.done, lacks_runs, lack, -self.within / max(1, self.cells))

    def line(self) -> str:
        """One line of a listing."""
        or_more = " or more" if self.at_least else ""
        reported = (
            f"{self.name:16} {self.begun} of {count_text(self.cells, 'cell')} begun, {self.within} within their aim"
        )
        if self.done:
            return reported
        lack = (
            ""
            if not self.known or math.isinf(self.lack)
            else f"; {self.neediest} has {self.lack:.1f} times the half-width it is to have"
        )
        return f"{reported}{lack}; about {count_text(self.runs, 'run')}, {duration_text(self.seconds)}{or_more}"


@dataclass
class _Night:
    """What all sweeps of one call share."""

    executables: Executables
    wanted: Wanted
    observer: Observer
    clock: Clock
    speeds: Speeds
    say: Callable[[str], None]


class _Place:
    """One sweep of the night, with the runs that it has."""

    def __init__(self, part: Part, night: _Night, headline: bool) -> None:
        self.part, self.night, self.headline = part, night, headline
        self.work: SweepAtWork | None = None

    @contextmanager
    def at_work(self) -> Iterator[SweepAtWork]:
        """With its testbed open; tables are written anew when it closes."""
        asked = self.part.wanted(self.night.wanted)
        command = ["weir-lab", "study"]
        with opened(self.part.path, self.part.folder, self.night.executables, command, asked) as (study, bench):
            if self.work is None:
                self.work = SweepAtWork(
                    study, self.part.folder, bench.identity, self.night.observer, asked.only, lane=asked.lane
                )
            self.work.bench = bench
            try:
                yield self.work
            finally:
                self.work.bench = None
                write_tables(self.part.folder, self.work.study, bench.identity)

    def standing(self) -> Standing:
        """How far it is; before its first opening nothing is known."""
        if self.work is None:
            return Standing(self.part.name, 1, 0, 0, 0, "", math.inf, 0, 0.0, known=False)
        return _standing(self.part.name, self.work.study, self.work.cells, headline=self.headline)


def whole_night(
    parts: Sequence[Part],
    root: Path,
    executables: Executables,
    wanted: Wanted,
    observer: Observer,
    *,
    headline: Collection[str] = (),
    minutes: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Progress:
    """Make runs for some minutes, or until every cell is within its aim. ``headline``: files whose cells are all quoted."""
    clock = Clock(None if minutes is None else time.monotonic() + 60.0 * minutes)
    speeds = Speeds()
    night = _Night(executables, wanted, observer, clock, speeds, say)
    for part in parts:
        speeds.read(part.folder)
    reasons = read_reasons(root)
    left: list[str] = []
    made: list[str] = []
    needy = [part for part in parts if load_study(part.path, wanted.pace).plan.night is not None]
    alone = [part for part in parts if part not in needy]
    places = [_Place(part, night, part.file in headline) for part in needy]
    runs_before = speeds.dropped
    try:
        for part in [one for one in alone if one.seconds <= _SHORT_S]:
            _whole(part, night, reasons, made, left)
        there: list[_Place] = []
        for place in places:
            begun = _first(place, reasons)
            made += [place.part.name] if begun is not None else []
            left += [place.part.name] if begun is False else []
            there += [place] if begun is not None else []
        for part in [one for one in alone if one.seconds > _SHORT_S]:
            _whole(part, night, reasons, made, left)
        left += _by_need(there, night)
    finally:
        write_reasons(root, reasons)
        say(
            f"{speeds.dropped - runs_before} attempts of this night were dropped for a busy machine, {speeds.dropped} in all"
        )
    return Progress(tuple(made), tuple(dict.fromkeys(left)), reasons)


def standing_of(part: Part, folder: Path, *, headline: bool) -> Standing | None:
    """How far a sweep is by the runs in ``folder``, made with any programs; ``None`` for a study without needs. Nothing is written."""
    study = load_study(part.path, "night")
    if study.plan.night is None:
        return None
    try:
        identity = read_sweep(folder).executables
        kept = load_study(folder / "study.toml")
    except (RecordError, StudyError):
        kept, identity = study, {}
    work = SweepAtWork(kept if kept.pace == "night" else study, folder, identity, _Deaf(), None)
    return _standing(part.name, work.study, work.cells, headline=headline)


def forecast(set_path: Path, root: Path, names: Collection[str] | None = None) -> list[str]:
    """What is there and what is to come, a line per sweep (only those of ``names``) and one for all. Nothing is written."""
    # Files of variants are made from those of the set: somewhere else, so that the folder of the study stays as it is.
    with tempfile.TemporaryDirectory(prefix="weir-list-") as folder:
        scratch = Path(folder)
        study_set = take_files(set_path, scratch)
        parts = [one for one in plan_parts(study_set, scratch, "night") if names is None or one.name in names]
        folders = [root / part.folder.relative_to(scratch) for part in parts]
        standings = [
            standing_of(part, there, headline=study_set.headline(part.file))
            for part, there in zip(parts, folders, strict=True)
        ]
    return forecast_lines(standings, parts, [valid_runs(there) for there in folders])


def forecast_lines(standings: Sequence[Standing | None], parts: Sequence[Part], there: Sequence[int]) -> list[str]:
    """The same from what is known."""
    lines, seconds = [], 0.0
    for standing, part, made in zip(standings, parts, there, strict=True):
        if standing is None:
            lines.append(
                f"{part.name:16} {duration_text(part.seconds)} without a break, {count_text(made, 'run')} there"
            )
            seconds += 0.0 if made else part.seconds
        else:
            lines.append(standing.line())
            seconds += standing.seconds
    known = [one for one in standings if one is not None]
    or_more = " or more" if any(one.at_least for one in known) else ""
    return [
        *lines,
        f"{sum(one.within for one in known)} of {count_text(sum(one.cells for one in known), 'cell')} within their aim; about "
        f"{duration_text(seconds)}{or_more} to come, anchors and retries apart",
    ]


def _first(place: _Place, reasons: dict[str, str]) -> bool | None:
    """The first block of a sweep: whether it is whole, ``None`` where it cannot run here."""
    night = place.night
    if not night.clock.has(expected_seconds(load_study(place.part.path, night.wanted.pace))):
        return False
    try:
        with place.at_work() as work:
            whole = first_block(work, night.clock, night.speeds, headline=place.headline)
    except (TestbedError, StudyError) as error:
        reasons[reason_key(place.part)] = reason_of(error)
        night.say(f"{place.part.name}: passed over: {error}")
        return None
    reasons.pop(reason_key(place.part), None)
    night.say(f"{place.standing().line()}; {_left(night.clock)}")
    return whole


def _by_need(places: list[_Place], night: _Night) -> list[str]:
    """Turns of sweeps by their neediest cell; names of those that still have needs at the end."""
    waiting = [place for place in places if place.work is not None]
    while waiting:
        place = max(waiting, key=lambda one: one.standing().urgency)
        if place.standing().done:
            return []
        try:
            made = _turn(place, night)
        except (TestbedError, StudyError) as error:
            night.say(f"{place.part.name}: stops for this night: {error}")
            waiting.remove(place)
            continue
        if made is False:
            break
        if made is None and not place.standing().done:
            waiting.remove(place)  # what it lacks has no valid attempt
        _tell(place, waiting, night)
    return [place.part.name for place in places if not place.standing().done]


def _turn(place: _Place, night: _Night) -> bool | None:
    """Blocks of one sweep for some minutes: true, false if the night ends, ``None`` if no cell of it needs one."""
    ends = time.monotonic() + _TURN_S
    with place.at_work() as work:
        standing = place.standing()
        work.announce(sum(len(cell.values) for cell in work.cells) + standing.runs)
        made: bool | None = None
        for _ in range(max(_TURN_BLOCKS, standing.cells)):
            made = block_of_need(work, night.clock, night.speeds, headline=place.headline)
            if not made or time.monotonic() >= ends:
                break
        return made


def _tell(place: _Place, places: Sequence[_Place], night: _Night) -> None:
    standings = [one.standing() for one in places]
    cells, within = sum(one.cells for one in standings), sum(one.within for one in standings)
    to_come = duration_text(sum(one.seconds for one in standings))
    night.say(f"{place.standing().line()}")
    night.say(f"in all {within} of {cells} cells within their aim, about {to_come} to come; {_left(night.clock)}")


def _left(clock: Clock) -> str:
    return "no end given" if math.isinf(clock.left_s) else f"{duration_text(clock.left_s)} left of this night"


def _whole(part: Part, night: _Night, reasons: dict[str, str], made: list[str], left: list[str]) -> None:
    """A study whose runs are made as they are written: links, keys, hours of traces."""
    asked = part.wanted(night.wanted)
    study = load_study(part.path, asked.pace)
    wanted = estimate(study).runs_min
    if _valid_now(part, study) >= wanted:
        return
    if not night.clock.has(part.seconds):
        left.append(part.name)
        night.say(f"{part.name}: takes {duration_text(part.seconds)}, and {_left(night.clock)}: another night")
        return
    night.say(f"{part.name}: {duration_text(part.seconds)}; {_left(night.clock)}")
    try:
        run_study(part.path, part.folder, night.executables, ["weir-lab", "study"], night.observer, asked)
    except (TestbedError, StudyError) as error:
        reasons[reason_key(part)] = reason_of(error)
        night.say(f"{part.name}: passed over: {error}")
        return
    reasons.pop(reason_key(part), None)
    made.append(part.name)


def _valid_now(part: Part, study: Study) -> int:
    try:
        identity = read_sweep(part.folder).executables
    except RecordError:
        return 0
    if not study.kind.runs_load:
        return 0  # takes seconds; `run_study` finds what is there
    return sum(len(cell.values) for cell in SweepAtWork(study, part.folder, identity, _Deaf(), None).cells)


def _standing(name: str, study: Study, cells: Sequence[CellProgress], *, headline: bool) -> Standing:
    found = reach_of(study, cells, headline=headline)
    runs, seconds = seconds_to_come(study, cells, headline=headline)
    waiting = {cell: reach for cell, reach in found.items() if not reach.done}
    neediest = max(waiting, key=lambda cell: waiting[cell].lack, default="")
    return Standing(
        name,
        len(found),
        sum(reach.n > 0 for reach in found.values()),
        sum(reach.n >= reach.aim.runs_min for reach in found.values()),
        len(found) - len(waiting),
        neediest,
        waiting[neediest].lack if neediest else 0.0,
        runs,
        seconds,
        known=all(reach.known for reach in waiting.values()),
    )


class _Deaf:
    """Hears nothing of a sweep that only is read."""

    def planned(self, *_: object) -> None: ...
    def started(self, *_: object) -> None: ...
    def finished(self, *_: object) -> None: ...
    def progressed(self, *_: object) -> None: ...
