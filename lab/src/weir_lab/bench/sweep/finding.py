"""A study with ``find`` becomes runs: `find_capacities` makes the run that each search wants next, cell by cell in turn.

In turn, so that what drifts with time falls on all cells alike. What is wanted next, and what was found, `records.tables.found` says.

A rate without a valid attempt counts as missed: a system above its capacity answers with errors. So does one that is not there any more.
Where several rates in a row have none, a run at a rate that must work shows which it is; its result is used when the search asks for it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, Protocol

from weir_lab.bench.planning import expected_seconds
from weir_lab.bench.running.attempts import Bench, make_attempt, new_folder
from weir_lab.bench.sweep.at_work import pause_while_busy
from weir_lab.design import Cell, cells_of, content_sha256
from weir_lab.errors import TestbedError
from weir_lab.records import read_run_metas, runs_folder
from weir_lab.records.tables.found import Attempts, Finding, attempts_by_content

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from weir_lab.design import ScheduledRun, Study
    from weir_lab.records import Verdict
    from weir_lab.records.tables.found import Probe

__all__ = ["Found", "find_capacities"]

# If this many runs have no valid attempt one after the other, the reason may be one that no rate mends.
_HOPELESS_RUNS = 3
# Where runs lie that say nothing of a rate: beside the folder of runs, so that nothing counts them.
_ASIDE = "aside"


class _Heard(Protocol):
    """Hears of attempts."""

    def started(self, run: ScheduledRun, attempt: int) -> None:
        """An attempt begins."""

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        """An attempt has ended."""


@dataclass(frozen=True)
class Found:
    """What came of all searches."""

    made: int
    reused: int
    findings: list[Finding]
    out_of_budget: bool


def find_capacities(
    study: Study,
    sweep: Path,
    bench: Bench,
    observer: _Heard,
    selected: Callable[[Cell], bool],
    planned: Callable[[int, int], None],
) -> Found:
    """Search in every selected cell until its interval is narrow enough, or all runs are made.

    ``planned`` gets the most runs that there may be, and how many are there.
    """
    known, began = attempts_by_content(read_run_metas(sweep)), time.monotonic()
    findings = [Finding(study, cell, bench.identity) for cell in cells_of(study) if selected(cell)]
    for finding in findings:
        finding.take_up(known)
    reused = sum(len(finding.probes) for finding in findings)
    planned(len(findings) * study.search.runs_max, reused)
    tries = _Tries(study, sweep, bench, observer, known)
    guard = _Guard(tries, findings)
    while waiting := [finding for finding in findings if not finding.done]:
        # The cell with the fewest runs is next: all go forward together.
        finding = min(waiting, key=lambda one: len(one.probes))
        if study.plan.budget_s is not None and time.monotonic() - began + expected_seconds(study) > study.plan.budget_s:
            return Found(tries.made, reused, findings, out_of_budget=True)
        run = finding.next_run()
        finding.add(run, tries.attempted(run))
        guard.look(finding)
    return Found(tries.made, reused, findings, out_of_budget=False)


@dataclass
class _Tries:
    """Makes runs, and knows what was made."""

    study: Study
    sweep: Path
    bench: Bench
    observer: _Heard
    known: dict[str, Attempts]
    made: int = 0
    busy: bool = False
    """Whether the last attempt was invalid for a busy machine alone."""

    def content(self, run: ScheduledRun) -> str:
        """What names a run whose outcome must be the same."""
        return content_sha256(self.study, run, self.bench.identity)

    def attempted(self, run: ScheduledRun) -> Attempts:
        """Try a run until one attempt is valid or the plan's attempts are used up; one that is there is not made again."""
        before = self.known.get(self.content(run), Attempts(None, 0))
        if before.valid is not None:
            return before
        self.made += 1
        done = Attempts(None, max(before.invalid, self.study.plan.attempts))
        for attempt in range(before.invalid + 1, self.study.plan.attempts + 1):
            self.observer.started(run, attempt)
            folder = new_folder(runs_folder(self.sweep), run.name)
            verdict = make_attempt(self.study, run, attempt, folder, self.bench).verdict
            self.observer.finished(run, verdict, folder)
            self.busy = verdict.busy
            if verdict.valid:
                done = Attempts(folder, attempt - 1)
                break
            if verdict.busy and attempt < self.study.plan.attempts:
                pause_while_busy(attempt)
        self.known[self.content(run)] = done
        return done

    def put_aside(self, runs: Collection[ScheduledRun]) -> Path:
        """Move the failed attempts at these runs to where nothing counts them; the folder."""
        aside, contents = self.sweep / _ASIDE, {self.content(run) for run in runs}
        aside.mkdir(exist_ok=True)
        for folder, meta in read_run_metas(self.sweep):
            if meta.content_sha256 in contents and not meta.verdict.valid:
                folder.rename(new_folder(aside, folder.name))
        return aside


class _Guard:
    """Ends a search whose system is gone, before what it does not answer is taken for its capacity."""

    def __init__(self, tries: _Tries, findings: Sequence[Finding]) -> None:
        self._tries = tries
        self._findings = findings
        self._works = any(one.valid for one in tries.known.values())
        # By cell, the runs after which it was last shown to work.
        self._seen = {finding.cell.name: 0 for finding in findings}

    def look(self, finding: Finding) -> None:
        """After each run of a search."""
        self._works = self._works or finding.probes[-1].folder is not None
        if not self._works:
            tried = sum(len(one.probes) for one in self._findings)
            if tried >= _HOPELESS_RUNS:
                self._stop(f"{_HOPELESS_RUNS} runs at different rates have no valid attempt")
            return
        lost = self._lost(finding)
        if not lost or (lost < _HOPELESS_RUNS and not finding.done):
            return
        control = self._control(finding)
        if self._tries.attempted(control).valid is None:
            rate = float(control.cell.settings.rate or 0.0)
            self._stop(
                f"{finding.cell.name}: {lost} of the last runs {'has' if lost == 1 else 'have'} no valid attempt, and neither has one at "
                f"{rate:,.10g} requests/s, {self._why(finding)}",
                control,
            )
        self._seen[finding.cell.name] = len(finding.probes)

    def _silent(self, finding: Finding) -> list[Probe]:
        """The last runs of a cell, back to the last valid one, or to where it was shown to work."""
        last = finding.probes[self._seen[finding.cell.name] :]
        valid = max((place for place, probe in enumerate(last) if probe.folder is not None), default=-1)
        return last[valid + 1 :]

    def _lost(self, finding: Finding) -> int:
        """How many of them say nothing: a valid run has not shown that their rates are too high."""
        missed = min((one.rate for one in finding.probes if one.folder is not None and not one.met), default=math.inf)
        return sum(probe.rate < missed for probe in self._silent(finding))

    def _control(self, finding: Finding) -> ScheduledRun:
        """A run at the smallest rate that had a valid attempt, or at the smallest of all: another repetition of it."""
        valid = [probe.run for probe in finding.probes if probe.folder is not None]
        run = min(valid, key=lambda one: float(one.cell.settings.rate or 0.0), default=None)
        if run is None:
            run = finding.next_run()
            rate = finding.study.search.rate_min
            rate = int(rate) if float(rate).is_integer() else rate
            # Validated anew: a copy would not be checked.
            settings = type(run.cell.settings).model_validate({**run.cell.settings.model_dump(), "rate": rate})
            run = replace(run, cell=Cell((*finding.cell.levels, ("rate", rate)), settings, run.cell.label))
        run = replace(run, repetition=1, position=len(finding.probes) + 1)
        while self._tries.content(run) in self._tries.known:
            run = replace(run, repetition=run.repetition + 1)
        return run

    def _why(self, finding: Finding) -> str:
        works = any(probe.folder is not None for probe in finding.probes)
        return "at which it worked before" if works else "the smallest rate (search.rate_min)"

    def _stop(self, reason: str, control: ScheduledRun | None = None) -> NoReturn:
        """End it. Left where they are, these attempts would count as missed when the search goes on, and they say nothing of a rate."""
        runs = [probe.run for finding in self._findings for probe in self._silent(finding)]
        aside = self._tries.put_aside(runs if control is None else [*runs, control])
        mend = "Wait until the machine is quiet" if self._tries.busy else "Mend what the last verdicts say"
        raise TestbedError(
            f"{reason}; the search stops here. {mend}, then run the same command again: it goes on before them. Their folders are in "
            f"{aside} now, and count for nothing."
        )
