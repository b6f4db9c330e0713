"""The check that no tier but that which the set says limits used more than 70 % of its CPU quota in headline cells: `quota_check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design.whole.sets import HEADLINES
from weir_lab.records.tables.quotas import USED_MAX, above, quota_shares
from weir_lab.report.common import cell_name, cell_words, series_of
from weir_lab.report.numbers.maxima import listed, maximum_of
from weir_lab.report.numbers.stations import FULL, core_usages
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weir_lab.design.whole.sets import StudySet
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Entry

__all__ = ["QuotaCheck", "cores_limits", "quota_check", "quota_details", "quota_limits"]


@dataclass(frozen=True)
class QuotaCheck:
    """Of one section: its table, how many headline cells were looked at, and the tiers above, with their cells."""

    table: Table
    cells: int
    high: tuple[str, ...]
    links: bool = False
    """Whether links were built, with rates of their own."""


def quota_check(study_set: StudySet, task: Task) -> QuotaCheck | None:
    """By tier the largest share of its quota in any counted run of a headline cell; ``None`` where there are no quotas."""
    worst: dict[tuple[str, str], tuple[float, CellReadings]] = {}
    looked: set[str] = set()
    for cell in _headline(task):
        file = next(sweep.file for sweep in task.sweeps if cell in sweep.cells)
        for run in cell.runs:
            for tier, share in quota_shares(run.run).items():
                looked.add(cell.cell.name)
                if (file, tier) not in worst or share > worst[file, tier][0]:
                    worst[file, tier] = (share, cell)
    if not worst:
        return None
    rows: list[tuple[Entry, ...]] = []
    high = []
    for (file, tier), (share, cell) in worst.items():
        limiting = study_set.limiting_of(file)
        is_above = bool(above({tier: share}, limiting))
        if is_above:
            high.append(f"{tier} {number(100 * share, 1)} % at {cell_words(cell)}")
        verdict = _verdict(share) if tier in limiting else "ABOVE" if is_above else "below"
        rows.append((file, tier, Value(100 * share, digits=0), cell_name(cell), verdict))
    table = Table(
        f"{task.spec.name}-quotas",
        "Check of CPU quotas: the largest share of its quota that a tier used in any counted run of "
        f"{count_text(len(looked), 'headline cell')}. Tiers that the set does not say limit are to stay below {100 * USED_MAX:g} %; a run "
        "above counts, but what it shows may be the quota.",
        ("File", "Tier", "Used (%)", "Cell", f"Below {100 * USED_MAX:g} %"),
        tuple(rows),
        folded=not high,
    )
    return QuotaCheck(table, len(looked), tuple(high), links=task.first.links_built)


def _verdict(share: float) -> str:
    """Of a tier that may use all of its quota, as in the study."""
    return "limits, as in the study" if share >= FULL else "may limit, as in the study; did not"


def quota_limits(checks: Sequence[QuotaCheck], limiting: Collection[str] = ()) -> tuple[str, ...]:
    """Sentences for the head of the page; none where nothing had a quota. ``limiting`` are tiers that the set means to limit."""
    if not checks:
        return ()
    if not limiting:
        room = (
            "CPU quotas give every tier room, whatever limited in an earlier study. Links were built, too: that one limits, where one "
            "does, follows from what was built, and is no finding of its own."
        )
        return (*([room] if any(check.links for check in checks) else []), *_above(checks))
    tiers = listed(list(limiting))
    built_in = f"CPU quotas were chosen so that the {tiers} can limit, as in the study: where it does, that is built in, and no finding."
    return (built_in, *_above(checks))


def quota_details(checks: Sequence[QuotaCheck]) -> tuple[str, ...]:
    """That tiers that should not limit did not; where some did, the head of the page says so, and nothing is here."""
    if not checks or _high(checks):
        return ()
    cells = count_text(sum(check.cells for check in checks), "cell")
    return (
        f"In the {cells} that conclusions rest on most, every tier that should not limit used at most {100 * USED_MAX:g} % of its CPU "
        "quota.",
    )


def cores_limits(sweeps: Sequence[SweepReadings]) -> tuple[str, ...]:
    """In how many cells cores were full that several tiers share; empty where in none. Their quotas may add up to more than a core."""
    shares: dict[str, list[tuple[str, float]]] = {}
    for sweep in sweeps:
        for cell in sweep.cells:
            for usage in core_usages(cell):
                shares.setdefault(usage.station, []).append((sweep.study.name, usage.share))
    said = []
    for station, known in shares.items():
        full = [(name, share) for name, share in known if share >= FULL]
        if full:
            named = listed(sorted({name for name, _ in full}))
            most = max(share for _, share in full)
            said.append(
                f"The {station} are the same cores: in {len(full)} of {count_text(len(known), 'cell')} they were {100 * FULL:g} to "
                f"{100 * most:.0f} % busy ({named}), so that this limits, too, or alone."
            )
    return tuple(said)


def _high(checks: Sequence[QuotaCheck]) -> list[str]:
    return list(dict.fromkeys(one for check in checks for one in check.high))


def _above(checks: Sequence[QuotaCheck]) -> tuple[str, ...]:
    """Which tiers that should not limit may have done so; empty where none may."""
    high = _high(checks)
    if not high:
        return ()
    shown = ", ".join(high[:4]) + (f" and {len(high) - 4} more" if len(high) > 4 else "")
    return (f"Tiers that are not to limit used more than {100 * USED_MAX:g} % of their CPU quotas: {shown}.",)


def _headline(task: Task) -> list[CellReadings]:
    """All cells of sections that are quoted as a whole, and of traces; of curves the maximum with the level on each side."""
    if task.spec.kind in HEADLINES or task.spec.kind == "trace":
        return [cell for sweep in task.sweeps for cell in sweep.cells]
    if task.spec.kind != "clients":
        return []
    found: dict[int, CellReadings] = {}
    for one in series_of(task):
        if one.event:
            continue
        place = one.cells.index(maximum_of(one.cells, task.margins.maximum).cell)
        found |= {id(cell): cell for cell in one.cells[max(0, place - 1) : place + 2]}
    return list(found.values())
