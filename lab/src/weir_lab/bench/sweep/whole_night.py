"""A whole study at the pace `night`: first blocks of all sweeps, hours of traces, then blocks by need. Start with `whole_night`.

A testbed takes seconds to open, so that a sweep keeps it for some minutes before the next one may have a turn. What was made is in the
run folders; a killed night loses the run under way, and the next one goes on from there, days later if need be.
"""

from __future__ import annotations

import math
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.bench.machine.facts import machine_facts
from weir_lab.bench.planning import duration_text, estimate, expected_seconds
from weir_lab.bench.sweep.at_work import SweepAtWork
from weir_lab.bench.sweep.night import (
    BusyMachineError,
    Clock,
    Speeds,
    block_of_need,
    first_block,
    reach_of,
    seconds_to_come,
)
from weir_lab.bench.sweep.run import opened, run_study
from weir_lab.bench.sweep.sets import (
    PART_ERRORS,
    Progress,
    is_reason,
    parts_elsewhere,
    plan_parts,
    read_reasons,
    reason_key,
    reason_of,
    take_files,
    unread_line,
    valid_runs,
    write_reasons,
)
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.design import load_study
from weir_lab.errors import RecordError, StudyError
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
    from weir_lab.errors import LabError
    from weir_lab.records.progress import CellProgress

__all__ = ["Standing", "forecast", "forecast_lines", "standing_of", "whole_night"]

# A sweep has its testbed for so long before another one's need is looked at.
_TURN_S = 600.0
# Nor for more blocks than it has cells, and a few at least: one cell alone shall not take so long.
_TURN_BLOCKS = 3
# A study without needs (links, hash) that is so short comes first; longer ones (traces) behind the first blocks.
_SHORT_S = 300.0
# A change of what is usual that is worth a line.
_MOVED_MIN = 0.05


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
    reasons: dict[str, str]
    made: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    usual_ns: float | None = None
    """The yardstick that was usual when it was last spoken of."""

    def passed_over(self, part: Part, error: LabError) -> None:
        """A sweep that this night goes without."""
        if is_reason(error):
            self.reasons[reason_key(part)] = reason_of(error)
        self.lacking.append(part.name)
        self.say(f"{part.name}: passed over: {error}")


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
            if self.work is not None and self.work.is_of(study, bench.identity):
                # Nobody held the folder since the last turn: blocks that others made meanwhile must not be made again.
                self.work.look_again()
            else:
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
    """Make runs for some minutes, or until every cell is within its aim. ``headline``: files whose cells are all quoted.

    `StudyError` before the first run where runs are there that another kind of processor made, unless ``wanted`` admits any.
    """
    clock = Clock(None if minutes is None else time.monotonic() + 60.0 * minutes)
    speeds = _speeds_of(parts)
    if wanted.testbed is not TestbedKind.HOSTS and not wanted.any_processor:
        _require_processor(speeds)
    dropped_before = speeds.dropped
    night = _Night(executables, wanted, observer, clock, speeds, say, read_reasons(root), usual_ns=speeds.usual_ns)
    needy = [part for part in parts if load_study(part.path, wanted.pace).plan.night is not None]
    alone = [part for part in parts if part not in needy]
    places = [_Place(part, night, part.file in headline) for part in needy]
    waiting = list(alone)
    try:
        for part in [one for one in alone if one.seconds <= _SHORT_S]:
            waiting.remove(part)
            _whole(part, night)
        for place in places:
            _first(place)
        for part in list(waiting):
            waiting.remove(part)
            _whole(part, night)
        _by_need(places, night)
    except BusyMachineError as error:
        say(f"This night ends: {error}")
        night.left += [part.name for part in waiting if _lacks_runs(part, night)]
    finally:
        write_reasons(root, night.reasons)
        say(
            f"{speeds.dropped - dropped_before} attempts of this night were dropped for a busy machine, {speeds.dropped} in all"
        )
    night.left += [one.part.name for one in places if one.part.name not in night.lacking and not one.standing().done]
    return Progress(tuple(night.made), tuple(dict.fromkeys(night.left)), night.reasons, tuple(night.lacking))


def _speeds_of(parts: Sequence[Part]) -> Speeds:
    speeds = Speeds()
    for part in parts:
        with suppress(RecordError):  # said when the sweep has its turn; the others need not wait for that
            speeds.read(part.folder)
    return speeds


def _elsewhere_text(speeds: Speeds) -> str:
    """Whose runs are there, where another kind of processor made some; empty where none did."""
    if not speeds.elsewhere:
        return ""
    made = ", ".join(f"{count_text(runs, 'run')} of {model}" for model, runs in sorted(speeds.elsewhere.items()))
    return f"The folder holds {made}, and this machine's processor is {machine_facts()['cpu_model']}."


def _require_processor(speeds: Speeds) -> None:
    """The yardstick is arithmetic: at one yardstick another kind of processor may take twice the CPU time for a request."""
    if speeds.elsewhere:
        raise StudyError(
            f"{_elsewhere_text(speeds)} Runs are brought to one speed by the yardstick, which is arithmetic: what the kernel takes for a "
            "request is another share of it on another processor. Go on there, or begin a study of this processor with another --out. To "
            "mix them all the same, give --any-processor."
        )


def standing_of(part: Part, *, headline: bool, only: str | None = None) -> Standing | None:
    """How far a sweep is by the runs in its folder, made with any programs; ``None`` for a study without needs. Nothing is written."""
    study = load_study(part.path, "night")
    if study.plan.night is None:
        return None
    try:
        identity = read_sweep(part.folder).executables
        kept = load_study(part.folder / "study.toml")
    except (RecordError, StudyError):
        kept, identity = study, {}
    work = SweepAtWork(kept if kept.pace == "night" else study, part.folder, identity, _Deaf(), only)
    return _standing(part.name, work.study, work.cells, headline=headline)


def forecast(
    set_path: Path,
    root: Path,
    choose: Callable[[list[Part]], list[Part]] = lambda parts: parts,
    only: str | None = None,
) -> list[str]:
    """What is there and what is to come, a line per sweep that is chosen and one for all. Nothing is written.

    ``only`` is a part of the cells, as the command line has it.
    """
    standings: list[Standing | None] = []
    read: list[Part] = []
    there: list[int] = []
    unread: list[str] = []
    # Files of variants are made from those of the set: somewhere else, so that the folder of the study stays as it is.
    with tempfile.TemporaryDirectory(prefix="weir-list-") as folder:
        scratch = Path(folder)
        study_set = take_files(set_path, scratch)
        for part in choose(parts_elsewhere(plan_parts(study_set, scratch, "night"), scratch, root)):
            try:
                made = valid_runs(part.folder)
                found = standing_of(part, headline=study_set.headline(part.file), only=only)
            except RecordError as error:
                unread.append(unread_line(part, error))
                continue
            standings.append(found)
            read.append(part)
            there.append(made)
    elsewhere = _elsewhere_text(_speeds_of(read))
    needs = [f"{elsewhere} Where roles run on it, a night goes on with --any-processor only."] if elsewhere else []
    return [*unread, *forecast_lines(standings, read, there), *needs]


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


def _first(place: _Place) -> None:
    """The first block of a sweep, or why it cannot have one here."""
    night = place.night
    if not night.clock.has(expected_seconds(load_study(place.part.path, night.wanted.pace))):
        return
    try:
        with place.at_work() as work:
            first_block(work, night.clock, night.speeds, headline=place.headline)
    except BusyMachineError:
        raise
    except PART_ERRORS as error:
        night.passed_over(place.part, error)
        return
    night.reasons.pop(reason_key(place.part), None)
    night.made.append(place.part.name)
    night.say(f"{place.standing().line()}; {_left(night.clock)}")


def _by_need(places: Sequence[_Place], night: _Night) -> None:
    """Turns of sweeps by their neediest cell, until no cell needs a run or the time is up."""
    waiting = [place for place in places if place.work is not None and place.part.name not in night.lacking]
    while waiting:
        place = max(waiting, key=lambda one: one.standing().urgency)
        if place.standing().done:
            return
        try:
            made = _turn(place, night)
        except BusyMachineError:
            raise
        except PART_ERRORS as error:
            night.say(f"{place.part.name}: stops for this night: {error}")
            waiting.remove(place)
            continue
        if made is False:
            return
        if made is None and not place.standing().done:
            waiting.remove(place)  # what it lacks has no valid attempt
        _tell(place, waiting, night)


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
    usual_ns = night.speeds.usual_ns
    moved = usual_ns / night.usual_ns - 1.0 if usual_ns is not None and night.usual_ns is not None else 0.0
    if abs(moved) > _MOVED_MIN:
        speed, times = ("slower", "longer") if moved > 0.0 else ("faster", "shorter")
        night.say(
            f"this machine is {speed} than it was: its yardstick takes {100.0 * abs(moved):.0f} % {times}, and that is what is usual now"
        )
    if abs(moved) > _MOVED_MIN or night.usual_ns is None:
        night.usual_ns = usual_ns


def _left(clock: Clock) -> str:
    return "no end given" if math.isinf(clock.left_s) else f"{duration_text(clock.left_s)} left of this night"


def _whole(part: Part, night: _Night) -> None:
    """A study whose runs are made as they are written: links, keys, hours of traces."""
    try:
        if not _lacks_runs(part, night):
            return
        if not night.clock.has(part.seconds):
            night.left.append(part.name)
            night.say(f"{part.name}: takes {duration_text(part.seconds)}, and {_left(night.clock)}: another night")
            return
        night.say(f"{part.name}: {duration_text(part.seconds)}; {_left(night.clock)}")
        outcome = run_study(
            part.path,
            part.folder,
            night.executables,
            ["weir-lab", "study"],
            night.observer,
            part.wanted(night.wanted),
        )
    except PART_ERRORS as error:
        night.passed_over(part, error)
        return
    night.reasons.pop(reason_key(part), None)
    night.made.append(part.name)
    if outcome.given_up or outcome.out_of_budget:
        night.lacking.append(part.name)


def _lacks_runs(part: Part, night: _Night) -> bool:
    """Whether a study that is made as it is written has fewer valid runs than it asks for."""
    study = load_study(part.path, night.wanted.pace)
    if not study.kind.runs_load:
        return True  # takes seconds; `run_study` finds what is there
    try:
        cells = SweepAtWork(study, part.folder, read_sweep(part.folder).executables, _Deaf(), None).cells
    except RecordError:  # none there yet; or damaged, which `run_study` says
        return True
    return sum(len(cell.values) for cell in cells) < estimate(study).runs_min


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
