"""The earlier study's sentences, held against our runs: each rule says whether it holds, does not, or cannot be decided, and why.

A claim holds where the interval lies on its side, does not where it lies on the other, and is undecided between. Start with `judge`.

====================  =================================================================================================
rule                  the claim holds if
====================  =================================================================================================
``limited_by``        at the largest throughput the tightest link is ``station``, and at least ``share`` of it is used
``reaches``           the largest throughput is within ``percent`` of ``value``
``not_reaches``       the largest throughput stays below ``share`` of the tightest link
``grows_with``        the largest throughput is larger at the high level of ``factor`` than at the low one
``falls_with``        it is smaller
``slower_with``       the mean response time of ``operation`` rises from the low to the high level of ``factor``
``same_with``         no change beyond ``percent`` (the interval lies within it)
``change_above``      the throughput changes by more than ``percent`` from the level ``from`` of ``factor`` to the level ``to``, at equal
                      speed of the machine where a yardstick was read
``most_variation``    ``term`` has the largest share of the variation of ``response``
``effect_sign``       the effect of ``term`` on ``response`` has this ``sign``
``longest_stage``     ``stage`` is the longest at the best cell (of ``operation``, if given)
``sharding_pays``     splitting pays from ``keys`` keys on, or from fewer
``stable``            every trace (or that of ``file``) changes by less than ``percent`` from its beginning to its end
``has_spikes``        the trace of ``file`` has spikes (`find_spikes`), at least ``per_hour``
``law``               the interactive law holds within ``percent`` on every cell
====================  =================================================================================================

``at`` keeps the cells with these settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.common import stage_bar
from weir_lab.report.numbers.comparing import cell_key, change_between, equal_speed
from weir_lab.report.numbers.readings import OPERATION_NAMES
from weir_lab.report.numbers.stations import tightest
from weir_lab.report.page.blocks import Finding
from weir_lab.report.sections import multigets, traces
from weir_lab.report.sections.effects import designs_of
from weir_lab.theory.units import change_text, number, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.design.whole.sets import Claim
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.numbers.sweeps import TwoLevelDesign
    from weir_lab.theory.linear import Change

__all__ = ["HOLDS", "NOT", "NO_DATA", "RULES", "UNDECIDED", "judge"]

HOLDS, NOT, UNDECIDED, NO_DATA = "holds", "does not hold", "undecided", "no data"
_Verdict = tuple[str, str]


def judge(claim: Claim, task: Task | None, why_not: str = "") -> Finding:
    """The claim on the data of its section; ``task`` is None where the section has none."""
    if task is None:
        return Finding(claim.name, claim.claim, NO_DATA, why_not or "the section has no runs")
    verdict, evidence = RULES[claim.rule](claim, task, _chosen(claim, task))
    return Finding(claim.name, claim.claim, verdict, evidence)


def _chosen(claim: Claim, task: Task) -> list[CellReadings]:
    return [
        cell
        for cell in _all_cells(task)
        if all(getattr(cell.settings, name) == level for name, level in claim.at.items())
    ]


def _best(cells: Sequence[CellReadings]) -> CellReadings:
    return max(cells, key=lambda cell: cell.mean_throughput)


def _limited_by(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    held = _share_of_bound(task, cells)
    if not isinstance(held, _ShareOfBound):
        return held
    holds = held.tier == claim.args["station"] and held.share >= float(claim.args.get("share", 0.9))
    return (HOLDS if holds else NOT), held.evidence


def _not_reaches(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    held = _share_of_bound(task, cells)
    if not isinstance(held, _ShareOfBound):
        return held
    return (HOLDS if held.share < float(claim.args["share"]) else NOT), held.evidence


class _ShareOfBound(NamedTuple):
    """The highest throughput as a share of what the tightest links carry."""

    tier: str
    share: float
    evidence: str


def _share_of_bound(task: Task, cells: Sequence[CellReadings]) -> _ShareOfBound | _Verdict:
    if not cells:
        return NO_DATA, "no cell has these settings"
    if not task.first.links_built:
        return UNDECIDED, "these runs were made without limited links; make them on netns"
    cell = _best(cells)
    bound = tightest(cell.settings, task.first.study.topology.built_links)
    share = cell.mean_throughput / bound.requests_per_s
    evidence = (
        f"{rate(cell.mean_throughput)} requests/s at {cell.settings.clients} clients "
        f"are {100 * share:.1f} % of what the {bound.tier} carry "
        f"({rate(bound.requests_per_s)})"
    )
    return _ShareOfBound(bound.tier, share, evidence)


def _reaches(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    if not cells:
        return NO_DATA, "no cell has these settings"
    cell, wanted, margin = _best(cells), float(claim.args["value"]), float(claim.args.get("percent", 6.0))
    off = 100.0 * (cell.mean_throughput / wanted - 1.0)
    evidence = (
        f"{rate(cell.mean_throughput)} requests/s at {cell.settings.clients} "
        f"clients, {off:+.1f} % of the printed {rate(wanted)}"
    ).replace("-", "−")
    if claim.args.get("links", True) and not task.first.links_built:
        return UNDECIDED, f"{evidence}; these runs were made without limited links"
    return (HOLDS if abs(off) <= margin else NOT), evidence


def _ends(claim: Claim, cells: Sequence[CellReadings], *, best: bool) -> tuple[CellReadings, CellReadings] | None:
    """The cells at the lowest and the highest level of the factor: the best of each, or those that differ in it alone."""
    factor = str(claim.args["factor"])
    levels = sorted(
        {float(getattr(cell.settings, factor)) for cell in cells if getattr(cell.settings, factor) is not None}
    )
    low, high = (
        float(claim.args.get("low", levels[0] if levels else 0)),
        float(claim.args.get("high", levels[-1] if levels else 0)),
    )
    ends = [
        [cell for cell in cells if getattr(cell.settings, factor) == level and len(cell.runs) >= 2]
        for level in (low, high)
    ]
    if low == high or not all(ends):
        return None
    if best:
        return _best(ends[0]), _best(ends[1])
    return ends[0][0], ends[1][0]


def _compared(
    claim: Claim, task: Task, cells: Sequence[CellReadings], value: Callable[[Reading], float | None], *, best: bool
) -> tuple[Change, str] | None:
    ends = _ends(claim, cells, best=best)
    if ends is None:
        return None
    change = change_between(_all_cells(task), *ends, value)
    if change is None:
        return None
    return change, f"{change_text(change)} ({ends[0].cell.name} to {ends[1].cell.name})"


def _all_cells(task: Task) -> list[CellReadings]:
    """Every cell of the section tells how much runs differ."""
    return [cell for sweep in task.sweeps for cell in sweep.cells]


def _sided(change: Change, sign: int) -> str:
    if sign * change.low > 0 and sign * change.high > 0:
        return HOLDS
    if sign * change.low < 0 and sign * change.high < 0:
        return NOT
    return UNDECIDED


def _throughput_with(sign: int) -> Callable[[Claim, Task, Sequence[CellReadings]], _Verdict]:
    def rule(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
        found = _compared(claim, task, cells, lambda run: run.throughput, best=True)
        if found is None:
            return NO_DATA, "two levels with two runs each are needed"
        return _sided(found[0], sign), f"throughput changes by {found[1]}"

    return rule


def _slower_with(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    found = _compared(claim, task, cells, _response_of(claim), best=False)
    if found is None:
        return NO_DATA, "two levels with two runs each are needed"
    return _sided(found[0], 1), f"{_response_name(claim)} changes by {found[1]}"


def _same_with(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    throughput = claim.args.get("response") == "throughput"
    value = (lambda run: run.throughput) if throughput else _response_of(claim)
    found = _compared(claim, task, cells, value, best=throughput)
    if found is None:
        return NO_DATA, "two levels with two runs each are needed"
    change, margin = found[0], float(claim.args.get("percent", 5.0))
    name = "throughput" if throughput else _response_name(claim)
    evidence = f"{name} changes by {found[1]}; called the same within {margin:g} %"
    if -margin <= change.low and change.high <= margin:
        return HOLDS, evidence
    return (NOT if change.low > margin or change.high < -margin else UNDECIDED), evidence


def _change_above(claim: Claim, task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    """Between two named levels, which need no order. All cells of the section tell how throughput follows the speed of the machine."""
    factor, margin = str(claim.args["factor"]), float(claim.args["percent"])
    ends = [[cell for cell in cells if getattr(cell.settings, factor) == claim.args[end]] for end in ("from", "to")]
    if not all(ends):
        return NO_DATA, "no cell has these settings"
    base, cell = (_best(found) for found in ends)
    if min(len(base.runs), len(cell.runs)) < 2:
        return NO_DATA, "two runs of each are needed"
    fit = equal_speed(_all_cells(task))
    change = (
        fit.change(cell_key(base), cell_key(cell))
        if fit
        else change_between(_all_cells(task), base, cell, lambda run: run.throughput)
    )
    if change is None:
        return NO_DATA, "two runs in the same blocks are needed"
    how = " at equal speed of the machine" if fit else ""
    evidence = f"throughput{how} changes by {change_text(change)} ({base.cell.name} to {cell.cell.name})"
    if change.low > margin:
        return HOLDS, evidence
    return (NOT if change.high < margin else UNDECIDED), evidence


def _response_of(claim: Claim) -> Callable[[Reading], float | None]:
    operation = claim.args.get("operation")
    return (lambda run: run.operation_s(str(operation))) if operation else (lambda run: run.response_s)


def _response_name(claim: Claim) -> str:
    operation = claim.args.get("operation")
    return f"the response time of {OPERATION_NAMES[str(operation)]}s" if operation else "the response time"


def _design(claim: Claim, task: Task) -> TwoLevelDesign | None:
    for workload, designs, _ in designs_of(task.first):
        for design in designs:
            if workload == claim.args.get("workload", workload) and design.response == claim.args.get(
                "response", "throughput"
            ):
                return design
    return None


def _term(claim: Claim, design: TwoLevelDesign) -> str:
    """``servers x proxies`` in the letters of the design."""
    letters = {factor.name: factor.letter for factor in design.factors}
    return "".join(sorted(letters[name] for name in str(claim.args["term"]).split(" x ") if name in letters))


def _most_variation(claim: Claim, task: Task, _cells: Sequence[CellReadings]) -> _Verdict:
    design = _design(claim, task)
    if design is None:
        return NO_DATA, "no 2^k r table could be made"
    terms = sorted(
        (one for one in design.read.effects if one.percent_of_variation is not None),
        key=lambda one: -(one.percent_of_variation or 0),
    )
    reported = ", ".join(
        f"{design.name_of(one.term)} {number(one.percent_of_variation or 0, 1)} %" for one in terms[:3]
    )
    if terms[0].term != _term(claim, design):
        return NOT, reported
    return (HOLDS if terms[0].significant else UNDECIDED), reported


def _effect_sign(claim: Claim, task: Task, _cells: Sequence[CellReadings]) -> _Verdict:
    design = _design(claim, task)
    term = _term(claim, design) if design is not None else ""
    if design is None or not term:
        return NO_DATA, "no 2^k r table could be made"
    effect, sign = design.choice.additive[term], 1 if claim.args["sign"] == "+" else -1
    if effect.interval is None:
        return UNDECIDED, f"effect {number(effect.effect, 1)} {design.unit}, one run per cell"
    interval = effect.interval
    evidence = (
        f"effect of {design.name_of(term)}: {number(effect.effect, 1)} {design.unit} "
        f"({number(interval.low, 1)} to {number(interval.high, 1)})"
    )
    if sign * interval.low > 0 and sign * interval.high > 0:
        return HOLDS, evidence
    return (NOT if sign * interval.low < 0 and sign * interval.high < 0 else UNDECIDED), evidence


def _longest_stage(claim: Claim, _task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    if not cells:
        return NO_DATA, "no cell has these settings"
    cell = _best(cells)
    operation = claim.args.get("operation")
    bar = stage_bar("", cell, str(operation) if operation else None)
    if bar is None:
        return NO_DATA, "the runs have no stages"
    ordered = sorted(bar.parts, key=lambda part: -part[1])
    reported = ", ".join(f"{name} {number(value, 3)} ms" for name, value in ordered[:3])
    return (HOLDS if ordered[0][0] == claim.args["stage"] else NOT), f"{cell.cell.name}: {reported}"


def _sharding_pays(claim: Claim, task: Task, _cells: Sequence[CellReadings]) -> _Verdict:
    pays, known = multigets.pays_from(task)
    if not known:
        return NO_DATA, "both modes are needed"
    if pays is None:
        return NOT, "splitting shows no gain at the largest size"
    return (HOLDS if pays <= int(claim.args["keys"]) else NOT), f"splitting pays from {pays} keys on"


def _traces(claim: Claim, task: Task) -> dict[str, tuple[Reading, traces.Steadiness]]:
    """The traces that a claim is about, by the name of their study."""
    return {
        sweep.study.name: (cell.runs[0], one)
        for sweep in task.sweeps
        for cell in sweep.cells
        if sweep.study.name == claim.args.get("file", sweep.study.name)
        and (one := traces.steadiness(cell.runs[0], sweep.study.plan.window_s)) is not None
    }


def _stable(claim: Claim, task: Task, _cells: Sequence[CellReadings]) -> _Verdict:
    found = _traces(claim, task)
    if not found:
        return NO_DATA, "no run is long enough"
    margin = float(claim.args.get("percent", traces.STABLE_PERCENT))
    reported = "; ".join(
        f"{name} changes by {number(one.drift_percent, 2)} % ({number(one.low_percent, 2)} to "
        f"{number(one.high_percent, 2)}) from the first tenth to the last"
        for name, (_, one) in found.items()
    )
    verdicts = {one.verdict(margin) for _, one in found.values()}
    evidence = f"{reported}; stable is what stays within {margin:g} %".replace("-", "−")
    if traces.DRIFTS in verdicts:
        return NOT, evidence
    return (UNDECIDED if traces.CANNOT_TELL in verdicts else HOLDS), evidence


def _has_spikes(claim: Claim, task: Task, _cells: Sequence[CellReadings]) -> _Verdict:
    for name, (run, one) in _traces(claim, task).items():
        spikes = traces.spikes_of(run, one)
        if spikes is None:
            return NO_DATA, f"{name} is too short for spikes"
        evidence = f"{name} has {len(spikes.sizes)} spikes, {number(spikes.per_hour, 1)} an hour"
        return (HOLDS if spikes.per_hour >= float(claim.args["per_hour"]) else NOT), evidence
    return NO_DATA, "no run is long enough"


def _law(claim: Claim, _task: Task, cells: Sequence[CellReadings]) -> _Verdict:
    if not cells:
        return NO_DATA, "no cell has these settings"
    margin = float(claim.args.get("percent", 1.0))
    found = {cell.cell.name: 100 * sum(cell.of(lambda run: run.law_deviation)) / len(cell.runs) for cell in cells}
    name, worst = max(found.items(), key=lambda item: abs(item[1]))
    return (HOLDS if abs(worst) <= margin else NOT), f"largest deviation {number(worst, 2)} % ({name})"


RULES: dict[str, Callable[[Claim, Task, Sequence[CellReadings]], _Verdict]] = {
    "limited_by": _limited_by,
    "reaches": _reaches,
    "not_reaches": _not_reaches,
    "grows_with": _throughput_with(1),
    "falls_with": _throughput_with(-1),
    "slower_with": _slower_with,
    "same_with": _same_with,
    "change_above": _change_above,
    "most_variation": _most_variation,
    "effect_sign": _effect_sign,
    "longest_stage": _longest_stage,
    "sharding_pays": _sharding_pays,
    "stable": _stable,
    "has_spikes": _has_spikes,
    "law": _law,
}
