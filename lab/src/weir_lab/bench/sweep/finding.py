"""A study with ``find`` becomes runs: `find_capacities` makes the run that each search wants next, cell by cell in turn.

In turn, so that what drifts with time falls on all cells alike. What is wanted next, and what was found, `records.tables.found` says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weir_lab.bench.planning import expected_seconds
from weir_lab.bench.running.attempts import Bench, make_attempt, new_folder
from weir_lab.design import cells_of, content_sha256
from weir_lab.errors import TestbedError
from weir_lab.records import read_run_metas, runs_folder
from weir_lab.records.tables.found import Attempts, Finding, attempts_by_content

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.design import Cell, ScheduledRun, Study
    from weir_lab.records import Verdict

__all__ = ["Found", "find_capacities"]

# If this many runs have no valid attempt before the first valid one, the reason is one that no rate mends.
_HOPELESS_RUNS = 3


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
    made, hopeless = 0, 0 if any(one.valid for one in known.values()) else _HOPELESS_RUNS
    while waiting := [finding for finding in findings if not finding.done]:
        # The cell with the fewest runs is next: all go forward together.
        finding = min(waiting, key=lambda one: len(one.probes))
        if study.plan.budget_s is not None and time.monotonic() - began + expected_seconds(study) > study.plan.budget_s:
            return Found(made, reused, findings, out_of_budget=True)
        run = finding.next_run()
        content = content_sha256(study, run, bench.identity)
        done = _attempt(study, sweep, bench, observer, run, known.get(content, Attempts(None, 0)))
        known[content] = done
        finding.add(run, done)
        made += 1
        if done.valid is not None:
            hopeless = 0
        elif hopeless:
            hopeless -= 1
            if hopeless == 0:
                raise TestbedError(
                    f"{_HOPELESS_RUNS} runs at different rates have no valid attempt; the search stops here. Mend what the last verdicts "
                    "say, then run the same command again."
                )
    return Found(made, reused, findings, out_of_budget=False)


def _attempt(
    study: Study, sweep: Path, bench: Bench, observer: _Heard, run: ScheduledRun, before: Attempts
) -> Attempts:
    """Try a run until one attempt is valid or the plan's attempts are used up."""
    for attempt in range(before.invalid + 1, study.plan.attempts + 1):
        observer.started(run, attempt)
        folder = new_folder(runs_folder(sweep), run.name)
        meta = make_attempt(study, run, attempt, folder, bench)
        observer.finished(run, meta.verdict, folder)
        if meta.verdict.valid:
            return Attempts(folder, attempt - 1)
    return Attempts(None, study.plan.attempts)
