"""What a study with ``find`` has found: `Finding` replays the search from the runs that are there, and says which one is missing.

The search is a function of what the runs before said, so a sweep that was interrupted goes on where it was, and its tables can be made anew
from its folders. A run meets the goal if all limits are kept and the system kept up with the rate. A rate of which no attempt is valid does
not meet it: a system above its capacity answers with errors and timeouts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_lab.design import SEARCH_RUNS_MIN, ScheduledRun, content_sha256
from weir_lab.design.cells import Cell, cells_of
from weir_lab.records.runs import read_run
from weir_lab.theory.capacity.searching import CapacityEstimate, CapacitySearch, SearchVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.design.text.goals import Limit
    from weir_lab.records.formats import LoadRecord
    from weir_lab.records.runs import RunMeta

__all__ = [
    "KEPT_UP_SHARE_MIN",
    "LATE_SHARE_MAX",
    "Attempts",
    "Finding",
    "Probe",
    "attempts_by_content",
    "findings_of",
    "found_rows",
    "is_met",
    "kept_up",
    "limited_ns",
    "sent_late",
]

KEPT_UP_SHARE_MIN = 0.98
"""Share of the offered rate that a system answers which keeps up (docs/measure/load.md, Whether the generator is the bottleneck)."""
LATE_SHARE_MAX = 0.01
"""Requests that a generator may send late by its own fault, as a share: `weir load` judges itself by the same."""
# Rates are tried with this number of digits: closer ones are the same to every reader.
_DIGITS = 3


@dataclass(frozen=True)
class Attempts:
    """What was made of one content: a valid run, or as many invalid ones as may be tried."""

    valid: Path | None
    invalid: int


@dataclass(frozen=True)
class Probe:
    """One rate that was tried."""

    rate: float
    met: bool
    why_not: str
    late: bool
    """Whether the generator itself was too late: then its own limit may be what was met."""
    run: ScheduledRun
    folder: Path | None
    """Of the valid attempt; ``None`` where no attempt was valid."""
    after: CapacityEstimate
    """What was known of the capacity with this run."""


@dataclass
class Finding:
    """The search in one cell."""

    study: Study
    cell: Cell
    executables: dict[str, str]
    probes: list[Probe] = field(default_factory=list)

    def __post_init__(self) -> None:
        asked = self.study.search
        self._search = CapacitySearch(
            asked.rate_min, asked.rate_max, asked.half_width, asked.level, runs_min=SEARCH_RUNS_MIN
        )

    @property
    def estimate(self) -> CapacityEstimate:
        """What is known by now."""
        return self._search.estimate()

    @property
    def search(self) -> CapacitySearch:
        """What the runs say about every capacity."""
        return self._search

    @property
    def done(self) -> bool:
        """Whether no further run is wanted."""
        return len(self.probes) >= self.study.search.runs_max or self.estimate.verdict is not SearchVerdict.CONTINUE

    def next_run(self) -> ScheduledRun:
        """The run that is wanted next; ``repetition`` counts those at one rate."""
        rate = _rounded(self._search.next_rate())
        levels = (*self.cell.levels, ("rate", rate))
        # Validated anew: a copy would not be checked.
        settings = type(self.cell.settings).model_validate({**self.cell.settings.model_dump(), "rate": rate})
        before = sum(probe.rate == rate for probe in self.probes)
        return ScheduledRun(Cell(levels, settings, self.cell.label), before + 1, len(self.probes) + 1)

    def take_up(self, known: dict[str, Attempts]) -> None:
        """Go on as far as the runs that are there tell."""
        while not self.done:
            run = self.next_run()
            made = known.get(content_sha256(self.study, run, self.executables))
            if made is None or (made.valid is None and made.invalid < self.study.plan.attempts):
                return
            self.add(run, made)

    def add(self, run: ScheduledRun, made: Attempts) -> None:
        """Count a run that was wanted."""
        rate = float(run.cell.settings.rate or 0.0)
        load = read_run(made.valid).load if made.valid is not None else None
        why_not = is_met(self.study, load) if load is not None else "no attempt was valid"
        self._search.add(rate, met=not why_not)
        late = load is not None and sent_late(load)
        self.probes.append(Probe(rate, not why_not, why_not, late, run, made.valid, self.estimate))

    def verdict_text(self) -> str:
        """How the search ended, or that it has not."""
        verdict = self.estimate.verdict
        if verdict is SearchVerdict.CONTINUE:
            return "not converged" if self.done else "incomplete"
        return str(verdict)

    def sentence(self) -> str:
        """The answer."""
        found, asked = self.estimate, self.study.search
        where = ", ".join(f"{name} {level}" for name, level in self.cell.levels)
        head = f"{where}: " if where else ""
        late = sum(probe.late and not probe.met for probe in self.probes)
        note = f"; in {late} runs that failed the load generator was late, so this may be its own limit" if late else ""
        count = f"{len(self.probes)} runs{note}"
        if found.verdict is SearchVerdict.ABOVE:
            return f"{head}{self.study.find}: more than {asked.rate_max:,.0f} requests/s (search.rate_max), {count}"
        if found.verdict is SearchVerdict.BELOW:
            return f"{head}{self.study.find}: less than {asked.rate_min:,.0f} requests/s (search.rate_min), {count}"
        wide = "" if found.verdict is SearchVerdict.FOUND else f", {self.verdict_text()}"
        return (
            f"{head}{self.study.find}: {_significant(found.capacity)} requests/s, {100 * found.level:g} % interval "
            f"{_significant(found.low)} to {_significant(found.high)}{wide}, {count}"
        )


def is_met(study: Study, load: LoadRecord) -> str:
    """Why a run does not meet the goal of its study; empty if it does."""
    if not kept_up(load):
        return "the system did not keep up with the rate"
    for limit in study.goal.limits if study.goal is not None else ():
        value_ns = limited_ns(limit, load)
        if value_ns is None:
            return f"too few requests were answered for {limit.metric}"
        if value_ns > limit.limit_ns:
            return f"{limit.metric} was {value_ns / 1e3:.4g} µs"
    return ""


def limited_ns(limit: Limit, load: LoadRecord) -> float | None:
    """The response time that a limit is about; ``None`` where too few requests were answered for it."""
    if limit.percent is None:
        return load.response_time_sum_ns / max(1, load.response_time_count)
    times = load.response_times()
    return times.percentile(limit.percent) if times is not None else None


def kept_up(load: LoadRecord) -> bool:
    """Whether what was offered was answered: nothing was left unsent, and the rates agree. Closed loops always keep up.

    What answers ask for, such as the `cas` behind a `gets`, was not offered, and does not count as answered.
    """
    offered = load.scheduled
    if offered is None:
        return True
    answered = load.throughput_rps if offered.completed is None else offered.completed / load.measured.duration_ns * 1e9
    return not offered.unsent and answered >= KEPT_UP_SHARE_MIN * offered.offered_rate_rps


def sent_late(load: LoadRecord) -> bool:
    """Whether the generator itself kept more requests back than it may."""
    return load.scheduled is not None and load.scheduled.late > LATE_SHARE_MAX * load.scheduled.arrivals


def attempts_by_content(metas: Sequence[tuple[Path, RunMeta]]) -> dict[str, Attempts]:
    """Attempts by content hash: the first valid one, and how many were not valid."""
    found: dict[str, Attempts] = {}
    for folder, meta in sorted(metas, key=lambda pair: pair[1].started_unix_ns):
        before = found.get(meta.content_sha256, Attempts(None, 0))
        if meta.verdict.valid:
            found[meta.content_sha256] = Attempts(before.valid or folder, before.invalid)
        else:
            found[meta.content_sha256] = Attempts(before.valid, before.invalid + 1)
    return found


def findings_of(study: Study, executables: dict[str, str], known: dict[str, Attempts]) -> list[Finding]:
    """The search of every cell, as far as the runs that are there tell."""
    found = [Finding(study, cell, executables) for cell in cells_of(study)]
    for finding in found:
        finding.take_up(known)
    return found


def found_rows(
    study: Study, executables: dict[str, str], metas: Sequence[tuple[Path, RunMeta]]
) -> list[dict[str, str | int | float | bool | None]]:
    """One row per cell of a study with ``find``: its levels, the capacity and its interval."""
    rows = []
    for finding in findings_of(study, executables, attempts_by_content(metas)):
        found, probes, cell = finding.estimate, finding.probes, finding.cell
        reported = found.verdict not in (SearchVerdict.ABOVE, SearchVerdict.BELOW) and bool(probes)
        row: dict[str, str | int | float | bool | None] = {"study": study.name, "cell": cell.name, **dict(cell.levels)}
        row |= {"goal": study.find, "decision": finding.verdict_text(), "runs": len(probes)}
        row |= {"capacity_rps": found.capacity if reported else None}
        row |= {
            "capacity_low_rps": found.low if reported else None,
            "capacity_high_rps": found.high if reported else None,
        }
        row |= {"level_percent": 100 * found.level, "met": sum(probe.met for probe in probes)}
        row |= {"late_and_not_met": sum(probe.late and not probe.met for probe in probes)}
        rows.append(row)
    return rows


def _rounded(rate: float) -> int | float:
    rounded = float(f"{rate:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _significant(rate: float) -> str:
    return f"{float(f'{rate:.3g}'):,.10g}"
