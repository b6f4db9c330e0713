"""The runs of a whole study: every study file of its set in order, with the event engine beside where the set asks for it.

A part that cannot run here is passed over with its reason, which the report then says. Start with `plan_parts` and `run_parts`.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.bench.planning import duration_text, estimate
from weir_lab.bench.sweep.at_work import cells_asked, require_selected, selects
from weir_lab.bench.sweep.locks import LockedError
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.design import cells_of, load_study, parse_study
from weir_lab.design.whole.sets import EVENT_SUFFIX, StudySet, load_set, sweep_folder
from weir_lab.design.whole.variants import with_event_engine
from weir_lab.errors import LabError, RecordError, StudyError, TestbedError
from weir_lab.records import read_run_metas, read_sweep, write_text
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.bench.running import Executables
    from weir_lab.bench.sweep.run import Observer

__all__ = [
    "PART_ERRORS",
    "Part",
    "Progress",
    "is_reason",
    "listed",
    "part_of",
    "parts_elsewhere",
    "parts_named",
    "parts_with",
    "plan_parts",
    "read_reasons",
    "reason_key",
    "reason_of",
    "run_parts",
    "take_files",
    "unread_line",
    "valid_runs",
    "write_reasons",
]

_REASONS = "reasons.json"

PART_ERRORS = (TestbedError, StudyError, RecordError)
"""What keeps one sweep of a study from being made, and no other."""


@dataclass(frozen=True)
class Part:
    """One sweep of a whole study; ``seconds`` is what it takes at least, from nothing, ``testbed`` the only one that suits it."""

    file: str
    event: bool
    path: Path
    folder: Path
    seconds: float
    testbed: TestbedKind | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def wanted(self, asked: Wanted) -> Wanted:
        """What is asked of the whole study, for this sweep."""
        return asked if self.testbed is None else replace(asked, testbed=self.testbed, hosts=None)


@dataclass(frozen=True)
class Progress:
    """What came of the parts: those made, those left for the next time, and by file why some cannot run here (now or in a call before)."""

    made: tuple[str, ...]
    left: tuple[str, ...]
    refused: dict[str, str]
    lacking: tuple[str, ...] = ()
    """Those that were tried, and lack runs all the same: passed over, without a valid attempt, or at the end of their own budget."""


def take_files(set_path: Path, root: Path) -> StudySet:
    """Copy the set and its study files beside the runs, so that the report can be rebuilt from its folder alone."""
    study_set = load_set(set_path)
    own = root / "studies"
    own.mkdir(parents=True, exist_ok=True)
    for file in [set_path.name, *study_set.files]:
        write_text(own / file, (set_path.parent / file).read_text(encoding="utf-8"))
    return study_set


def plan_parts(study_set: StudySet, root: Path, pace: str) -> list[Part]:
    """Every sweep in the order of the sections; that of the event engine right behind its original."""
    parts = []
    for file in study_set.planned(pace):
        path = root / "studies" / file
        testbed = TestbedKind.LOCAL if file in study_set.without_network else None
        seconds = _seconds(path, pace)
        parts.append(
            Part(file, event=False, path=path, folder=sweep_folder(root, file), seconds=seconds, testbed=testbed)
        )
        text = with_event_engine(path.read_text(encoding="utf-8")) if study_set.engines_beside(file, pace) else None
        if text is not None:
            sibling = path.with_name(path.name.replace(".toml", f"{EVENT_SUFFIX}.toml"))
            parse_study(text, pace)
            write_text(sibling, text)
            folder, seconds = sweep_folder(root, file, event=True), _seconds(sibling, pace)
            parts.append(Part(file, event=True, path=sibling, folder=folder, seconds=seconds, testbed=testbed))
    return parts


def listed(
    set_path: Path, root: Path, pace: str, choose: Callable[[list[Part]], list[Part]] = lambda parts: parts
) -> list[str]:
    """Every sweep that is chosen, with what it takes from nothing and how many of its runs are in `root` by now. Nothing is written."""
    # Files of variants are made from those of the set: somewhere else, so that the folder of the study stays as it is.
    with tempfile.TemporaryDirectory(prefix="weir-list-") as folder:
        scratch = Path(folder)
        parts = choose(parts_elsewhere(plan_parts(take_files(set_path, scratch), scratch, pace), scratch, root))
        lines, left_s = [], 0.0
        for part in parts:
            runs = estimate(load_study(part.path, pace)).runs_min
            try:
                there = min(runs, valid_runs(part.folder))
            except RecordError as error:
                lines.append(unread_line(part, error))
                continue
            left_s += part.seconds * (1.0 - there / runs)
            lines.append(f"{part.name:16} {duration_text(part.seconds):>8}  {there} of {count_text(runs, 'run')} made")
    whole = duration_text(sum(part.seconds for part in parts))
    return [*lines, f"in all {whole} or more, of which about {duration_text(left_s)} are left"]


def parts_elsewhere(parts: Sequence[Part], planned: Path, root: Path) -> list[Part]:
    """Parts that were planned in one folder, with their runs below another."""
    return [replace(part, folder=root / part.folder.relative_to(planned)) for part in parts]


def unread_line(part: Part, error: RecordError) -> str:
    """A line of a list, for a sweep of which nothing can be said."""
    return f"{part.name:16} cannot be read: {error}"


def part_of(parts: Sequence[Part], number: int, seconds: float) -> list[Part]:
    """The parts of one share of the work, counted from 1: shares hold whole sweeps and at most `seconds` each, if a sweep fits."""
    shares: list[list[Part]] = [[]]
    for part in parts:
        if shares[-1] and sum(one.seconds for one in shares[-1]) + part.seconds > seconds:
            shares.append([])
        shares[-1].append(part)
    if not 1 <= number <= len(shares):
        raise StudyError(f"--part {number}: this study has parts 1 to {len(shares)}.")
    return shares[number - 1]


def parts_named(parts: Sequence[Part], names: str) -> list[Part]:
    """Those of these names, which stand with commas between them; names that no part has are an error."""
    wanted = {name.strip() for name in names.split(",")}
    absent = sorted(wanted - {part.name for part in parts})
    if absent:
        raise StudyError(
            f"--sweeps: there is no {', '.join(absent)} here. There are: {', '.join(part.name for part in parts)}."
        )
    return [part for part in parts if part.name in wanted]


def parts_with(parts: Sequence[Part], only: str, pace: str) -> list[Part]:
    """Those that have cells which ``--only`` means; none at all is an error."""
    cells = {part.name: cells_asked(load_study(part.path, pace), part.folder) for part in parts}
    require_selected(only, [cell for found in cells.values() for cell in found])
    return [part for part in parts if any(selects(only, cell) for cell in cells[part.name])]


def run_parts(
    parts: Sequence[Part],
    root: Path,
    executables: Executables,
    wanted: Wanted,
    observer: Observer,
    *,
    minutes: float | None = None,
    say: Callable[[str], None] = lambda _: None,
    now: Callable[[], float] = time.monotonic,
) -> Progress:
    """Make what is missing, sweep by sweep. With `minutes`, no sweep begins that would end behind them, unless nothing was made yet."""
    began = now()
    reasons = read_reasons(root)
    made: list[str] = []
    left: list[str] = []
    lacking: list[str] = []
    waiting = [part for part in parts if not _complete(part, part.wanted(wanted))]
    for done in set(map(reason_key, parts)) - set(map(reason_key, waiting)):
        reasons.pop(done, None)
    for place, part in enumerate(waiting):
        asked = part.wanted(wanted)
        if minutes is not None and made and now() - began + part.seconds > 60.0 * minutes:
            left.append(part.name)
            continue
        rest = duration_text(sum(one.seconds for one in waiting[place:]))
        say(
            f"{part.name}: sweep {place + 1} of {len(waiting)}, {duration_text(part.seconds)} if none of it is there; {rest} left at most "
            "in all, retries apart"
        )
        try:
            outcome = run_study(part.path, part.folder, executables, ["weir-lab", "study"], observer, asked)
        except PART_ERRORS as error:
            if is_reason(error):
                reasons[reason_key(part)] = reason_of(error)
            lacking.append(part.name)
            say(f"{part.name}: passed over: {error}")
            continue
        reasons.pop(reason_key(part), None)
        made.append(part.name)
        if outcome.given_up:
            say(f"{part.name}: {len(outcome.given_up)} runs have no valid attempt; the report says which cells")
        if outcome.out_of_budget:
            say(f"{part.name}: its budget (plan.budget_s) is used up")
        if outcome.given_up or outcome.out_of_budget:
            lacking.append(part.name)
    write_reasons(root, reasons)
    return Progress(tuple(made), tuple(left), reasons, tuple(lacking))


def is_reason(error: LabError) -> bool:
    """Whether an error says why a sweep cannot run on this machine, as the report then has it.

    A folder that another weir-lab has just now is none, and neither is a damaged record: both are over when somebody has seen to them.
    """
    return not isinstance(error, (LockedError, RecordError))


def read_reasons(root: Path) -> dict[str, str]:
    """Why parts could not run here, by study file (and that of its event sibling)."""
    file = root / _REASONS
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"{file}: not JSON ({error}). Delete it, and run the study again.") from error
    return {str(name): str(reason) for name, reason in found.items()}


def write_reasons(root: Path, reasons: dict[str, str]) -> None:
    """Keep them beside the runs."""
    write_text(root / _REASONS, json.dumps(reasons, indent=1, ensure_ascii=False) + "\n")


def valid_runs(folder: Path) -> int:
    """Runs of a sweep that count, each repetition of a cell once."""
    return len({(meta.cell, meta.repetition) for _, meta in read_run_metas(folder) if meta.verdict.valid})


def reason_key(part: Part) -> str:
    """What names it in the file of reasons."""
    return part.file + (EVENT_SUFFIX if part.event else "")


def _seconds(path: Path, pace: str) -> float:
    return estimate(load_study(path, pace)).seconds_min


def _complete(part: Part, wanted: Wanted) -> bool:
    """Whether every cell has the runs that the pace asks for at least, made with any programs: `run_study` decides about the rest."""
    study = load_study(part.path, wanted.pace)
    if study.plan.stop is not None:
        return False  # the stop rule decides, run by run
    try:
        read_sweep(part.folder)
        metas = read_run_metas(part.folder)
    except RecordError:  # none there yet; or damaged, which `run_study` says
        return False
    kept = load_study(part.folder / "study.toml")
    if (kept.pace, kept.testbed) != (wanted.pace, _kind(wanted.testbed) or kept.testbed):
        return False
    valid = {(meta.cell, meta.repetition) for _, meta in metas if meta.verdict.valid}
    return all((cell.name, one) in valid for cell in cells_of(study) for one in range(1, study.plan.repetitions + 1))


def _kind(testbed: TestbedKind | None) -> str | None:
    return None if testbed is None else str(testbed)


def reason_of(error: LabError) -> str:
    """An error as the reason in a section: its first sentence."""
    return str(error).split(". ", maxsplit=1)[0]
