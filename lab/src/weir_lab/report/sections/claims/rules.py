"""What each rule asks of the data: `RULES`.

====================  =================================================================================================
rule                  the claim holds if
====================  =================================================================================================
``limited_by``        the maximum is at least ``share`` of what the tightest link carries, and that link is ``station``
``reaches``           the maximum, at the study's speed, is within ``percent`` of ``value``
``not_reaches``       the maximum is below ``share`` of what the tightest link carries
``grows_with``        throughput is larger at the high level of ``factor`` than at the low one, by more than ``percent`` (0)
``falls_with``        it is smaller
``slower_with``       the mean response time of ``operation`` is larger at the high level of ``factor``
``same_with``         throughput, or the response time of ``operation``, is within ``percent`` at any two levels of ``factor``
``change_above``      throughput changes by more than ``percent`` from the level ``from`` of ``factor`` to the level ``to``, at equal
                      speed of the machine where a yardstick was read
``most_variation``    the effect of ``term`` on ``response`` is larger than that of every other term
``effect_sign``       the effect of ``term`` on ``response`` has this ``sign``
``longest_stage``     at the maximum a request (of ``operation``, if given) is longer in ``stage`` than in every other
``stage_share``       at the maximum ``stage`` takes more than ``share`` (0.5) of the time that a request (of ``operation``) is in the proxy
``sharding_pays``     split multi-gets are answered sooner than whole ones at every size from ``keys`` keys on, by more than ``percent`` (0)
``stable``            every trace (or that of ``file``) changes by less than ``percent`` from its beginning to its end
``has_spikes``        the trace of ``file`` has spikes (`find_spikes`), at least ``per_hour``; those in one burst count once
``law``               the interactive law holds within ``percent`` on every cell
====================  =================================================================================================

What a link carries goes by the bytes that the cell of the maximum was counted to put on the wire (`bounds_of`), as everywhere on the page,
and by payload where none were counted. Studies and expectations reckon by payload, so that stands beside it (`Bound.both_text`).

Where ``slower_with``, ``same_with`` and rules of shapes ask for a response time, ``response`` names another one (`RESPONSES`).

``at`` keeps the cells with these settings. A factor is changed alone: cells are compared in pairs that have every other factor at the same
level, and the contrast is the mean over these pairs. ``low`` and ``high`` name levels of the factor, its ends without them. The maximum is
that of `maximum_of`, and takes at least two levels; a section of one cell has that cell.
Where a rule has one limit, one level above it decides, too; of two limits one above the upper, where no plateau is shown (`AtMaximum`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.comparing import equal_speed, level_of, throughput_of
from weir_lab.report.numbers.maxima import Maximum, listed, maximum_of
from weir_lab.report.numbers.stations import Bound, tightest_of
from weir_lab.report.page.blocks import Value
from weir_lab.report.sections import multigets, traces
from weir_lab.report.sections.claims.asked import (
    CANNOT_TELL,
    NO_DATA,
    NOT,
    TOO_FEW,
    Asked,
    Compared,
    Known,
    all_cells,
    cell_words,
    change_text,
    compared,
    fewest,
    levels_of,
    one_sided,
    pairs_text,
    response_name,
    response_of,
)
from weir_lab.report.sections.claims.contrasts import (
    OF_LEVELS,
    AtMaximum,
    Pair,
    by_own_runs,
    drift_of,
    law_of_trace,
    level_against_one,
    mean_contrast,
    pairs_over,
    ratio_over,
    within_percent,
)
from weir_lab.report.sections.claims.stopping import beside_maximum
from weir_lab.report.sections.comparisons.corners import pair_changes_text
from weir_lab.report.sections.effects import designs_of, estimates_of
from weir_lab.theory.linear import Counted, Estimate, LayoutError, Question, Unmeasured, Within
from weir_lab.theory.units import count_text, number, rate, significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weir_lab.design.whole.sets import Ruled
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.numbers.sweeps import TwoLevelDesign
    from weir_lab.theory.factorial import FactorialAnalysis

__all__ = ["RULES", "against_number"]

# Nobody measures a trace of days, in which other things change.
_TIMES_MAX = 10.0
# An interval that is this many times as wide as that of a mean alone is explained, on logarithms.
_WIDE = 5.0
# Where a window has to be so far off its median to be a spike, no longer trace shows a usual one.
_UNSTEADY = 0.5


# The maximum against what links carry, and against a printed number.


def _against_link(task: Task, cells: Sequence[CellReadings], low: float, high: float) -> tuple[Asked, Bound] | Known:
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    if not task.first.links_built:
        return Known(CANNOT_TELL, "these runs were made without limited links; make them on netns")
    maximum = maximum_of(cells, task.margins.maximum)
    bound = tightest_of(maximum.cell, task.first.study.topology.built_links)
    by = bound.both_text(task.first.speed)
    asked = _asked_of_maximum(task, cells, maximum, bound.requests_per_s, low, high, f"what the {bound.tier} carry", by)
    others = beside_maximum(task, cells, maximum, bound)
    return replace(asked, evidence=lambda alpha: asked.evidence(alpha) + others), bound


def _levels_against(task: Task, cells: Sequence[CellReadings], against: float) -> dict[CellReadings, Estimate]:
    """Each level's throughput over a number, on logarithms; those with one run are left out."""
    found = {}
    for cell in cells:
        one = level_against_one([cell], all_cells(task), throughput_of)
        if one is not None:
            found[cell] = Estimate(one.value - math.log(against), one.standard_error, one.freedom)
    return found


def _asked_of_maximum(
    task: Task,
    cells: Sequence[CellReadings],
    maximum: Maximum,
    against: float,
    low: float,
    high: float,
    what: str,
    by: str = "",
) -> Asked:
    """Whether the maximum over a number lies between two limits, on logarithms; ``what`` names the number, ``by`` says what it goes by."""
    logs = _log_mean(task, maximum)
    ratio = None if logs is None else Estimate(logs.value - math.log(against), logs.standard_error, logs.freedom)
    # Of a limit on each side a level tells something above the upper one: the maximum, which is no less, lies above it, too. Where a
    # plateau is shown its mean is the maximum, and single levels of it may lie above.
    one_limit = math.isinf(low) or math.isinf(high)
    levels = _levels_against(task, cells, against) if one_limit or not maximum.shown else {}
    floor = low if math.isinf(high) else -math.inf
    question = AtMaximum(
        maximum,
        None if ratio is None else Within(ratio, low, high),
        at_least=math.isinf(high),
        levels=tuple(Within(one, floor, high) for one in levels.values()),
    )
    # What the number goes by is long, and stands behind the verdict's limit.
    of_what, goes_by = (
        (what, f"; that is {rate(against)} requests/s, {by}") if by else (f"{what} ({rate(against)})", "")
    )

    def evidence(alpha: float) -> str:
        place = question.level_that_decides(alpha)
        if place is not None:
            level, wide = _level_texts(list(levels)[place], question, place, alpha)
            return (
                f"{level} of {of_what}, and the maximum is no less; it holds {_limits_text(low, high)}"
                f"{'' if one_limit else ', and this one level above the upper limit decides'}{goes_by}{wide}"
            )
        if ratio is None or not (maximum.shown or question.may_be_more):
            near = _may_decide(question, alpha)
            if near is None:
                return f"the maximum cannot be decided: {maximum.text}"
            level, wide = _level_texts(list(levels)[near], question, near, alpha)
            limit = 100.0 * math.exp(low if question.at_least else high)
            return (
                f"the maximum cannot be decided: {maximum.text}; {level} of {of_what}, and is not shown to lie above {limit:.3g} %"
                f"{goes_by}{wide}"
            )
        ends = [100.0 * math.exp(min(one, 700.0)) for one in (ratio.value, *question.interval(alpha))]
        shares = [number(one, 1) for one in ends]
        clients, found = (
            count_text(maximum.cell.settings.clients, "client"),
            rate(math.exp(logs.value) if logs else 0.0),
        )
        whose = (
            f"the maximum, {found} requests/s from {clients} on (mean of {count_text(len(maximum.cells), 'level')}),"
        )
        if not maximum.shown:
            whose = f"throughput at {clients}, {found} requests/s, which more clients may exceed,"
        return (
            f"{whose} is {shares[0]} % ({shares[1]} to {shares[2]}) of {of_what}; it holds "
            f"{_limits_text(low, high)}{goes_by}{question.doubt(alpha)}"
        )

    return Asked((question,), evidence, fewest(maximum.cells or (maximum.cell,)), says_missing=not maximum.shown)


def _may_decide(question: AtMaximum, alpha: float) -> int | None:
    """The place of the level that is found above the limit, but not surely enough, where nothing is decided; None where none is."""
    if not question.levels or min(question.p_holds, question.p_fails) <= alpha:
        return None
    above = [one.p_holds if question.at_least else one.p_fails for one in question.levels]
    place = above.index(min(above))
    level = question.levels[place]
    return place if level.estimate.value > (level.low if question.at_least else level.high) else None


def _level_texts(cell: CellReadings, question: AtMaximum, place: int, alpha: float) -> tuple[str, str]:
    """What one level reaches, by the interval that judges it; and why that is so wide, where it is far wider than that of its mean alone.

    A level is one of several that could have decided, so that its interval is for the choice of them. With few runs a long interval costs
    much: where spreads of cells differ, its degrees of freedom are those of its own runs.
    """
    level = question.levels[place]
    error = alpha * OF_LEVELS / len(question.levels)
    middle, *ends = (100.0 * math.exp(min(one, 700.0)) for one in (level.estimate.value, *level.interval(error)))
    found = (
        f"throughput at {cell_words(cell)}, {rate(cell.mean_throughput)} requests/s, is {number(middle, 1)} % ({number(ends[0], 1)} to "
        f"{number(ends[1], 1)})"
    )
    alone = level_of(cell, throughput_of)
    if (
        alone is None
        or len(question.levels) < 2
        or math.log(ends[1] / middle) < _WIDE * math.log(alone.high / alone.mean)
    ):
        return found, ""
    freedom = count_text(round(level.estimate.freedom), "degree")
    return found, (
        f"; as one of {len(question.levels)} levels that could decide it has an interval of {100.0 * (1.0 - error):.6g} %, with "
        f"{freedom} of freedom; its mean alone has {rate(alone.low)} to {rate(alone.high)} requests/s at 95 %"
    )


def _limits_text(low: float, high: float) -> str:
    """Limits on logarithms in words.

    >>> _limits_text(math.log(0.9), math.inf), _limits_text(-math.inf, math.log(0.975)), _limits_text(math.log(0.94), math.log(1.06))
    ('from 90 % on', 'below 97.5 %', 'within 94 to 106 %')
    """
    ends = [f"{100.0 * math.exp(one):.3g}" if math.isfinite(one) else "" for one in (low, high)]
    if all(ends):
        return f"within {ends[0]} to {ends[1]} %"
    return f"from {ends[0]} % on" if ends[0] else f"below {ends[1]} %"


def _log_mean(task: Task, maximum: Maximum) -> Estimate | None:
    if maximum.plateau is not None:
        return maximum.plateau.log_mean
    return level_against_one(maximum.cells, all_cells(task), throughput_of)


def _limited_by(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    found = _against_link(task, cells, math.log(float(claim.args.get("share", 0.9))), math.inf)
    if isinstance(found, Known):
        return found
    asked, bound = found
    if bound.tier != claim.args["station"]:
        return Known(NOT, f"the tightest links are the {bound.tier} ({bound.by_text}), whatever is reached")
    return asked


def _not_reaches(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    found = _against_link(task, cells, -math.inf, math.log(float(claim.args["share"])))
    return found if isinstance(found, Known) else found[0]


def _reaches(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    return against_number(claim, task, cells, *within_percent(float(claim.args.get("percent", 6.0))))


def against_number(claim: Ruled, task: Task, cells: Sequence[CellReadings], low: float, high: float) -> Asked | Known:
    """The maximum over the claim's ``value``, brought to the speed of the machines, between two limits on logarithms."""
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    if claim.args.get("links", True) and not task.first.links_built:
        return Known(CANNOT_TELL, "these runs were made without limited links; make them on netns")
    wanted = float(claim.args["value"]) * task.first.speed
    what = "the printed one" if task.first.speed == 1.0 else f"the printed one at {task.first.speed:g} of its speed"
    return _asked_of_maximum(task, cells, maximum_of(cells, task.margins.maximum), wanted, low, high, what)


# One factor changed alone.


def _same_with(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    levels = levels_of(claim, cells) if cells else []
    name = response_name(claim)
    percent = float(claim.args.get("percent", 5.0))
    by_ends = {
        ends: found
        for ends in itertools.combinations(levels, 2)
        if (found := compared(claim, task, cells, ends, response_of(claim))) is not None
    }
    if not by_ends:
        return Known(NO_DATA, TOO_FEW)
    worst = max(by_ends, key=lambda ends: abs(by_ends[ends].estimate.value))
    estimate = by_ends[worst].estimate
    left = [level for level in levels if not any(level in ends for ends in by_ends)]

    def evidence(alpha: float) -> str:
        most = "" if len(by_ends) == 1 else f", the most of {len(by_ends)} pairs of levels"
        pairs = pairs_text(claim, by_ends[worst])
        shown = f"{name} changes by {change_text(estimate, alpha)} ({pairs}{most}); the same is within {percent:g} %"
        return shown + _not_known([f"{level:g}" for level in left])

    low, high = within_percent(percent)
    questions = tuple(Within(found.estimate, low, high) for found in by_ends.values())
    return Asked(
        (*questions, *([Unmeasured()] if left else [])),
        evidence,
        fewest([cell for found in by_ends.values() for one in found.pairs for cell in (one.base, one.other)]),
        says_missing=bool(left),
    )


def _not_known(levels: Sequence[str]) -> str:
    """What a claim also speaks of, without two runs there: ``; nothing is known at 9, where two runs are needed``."""
    return f"; nothing is known at {listed(levels)}, where two runs are needed" if levels else ""


def _change_above(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    """Between two named levels, which need no order. All cells of the section tell how throughput follows the speed of the machine."""
    pairs = pairs_over(cells, str(claim.args["factor"]), claim.args["from"], claim.args["to"])
    if not pairs:
        return Known(NO_DATA, "no two cells differ in this factor alone")
    plain = ratio_over(pairs, all_cells(task), throughput_of)
    if plain is None:
        return Known(NO_DATA, "two runs of each are needed")
    fit = equal_speed(all_cells(task))
    try:
        estimate = fit.contrast(mean_contrast(pairs)) if fit else plain
    except LayoutError:
        fit, estimate = None, plain
    shown = Compared(plain, pairs, 0)

    def evidence(alpha: float) -> str:
        if fit is None:
            return f"throughput changes by {change_text(plain, alpha)} ({pairs_text(claim, shown)})"
        return (
            f"throughput at equal speed of the machine changes by {change_text(estimate, alpha)}, without the yardstick by "
            f"{change_text(plain, alpha)} ({pairs_text(claim, shown)})"
        )

    limit = math.log1p(float(claim.args["percent"]) / 100.0)
    return Asked(
        (Within(estimate, limit),), evidence, fewest([cell for pair in pairs for cell in (pair.base, pair.other)])
    )


# Effects of 2^k r designs.


def _design(claim: Ruled, task: Task) -> TwoLevelDesign | None:
    for workload, designs, _ in designs_of(task.first):
        for design in designs:
            if workload == claim.args.get("workload", workload) and design.response == claim.args.get(
                "response", "throughput"
            ):
                return design
    return None


def _term(claim: Ruled, design: TwoLevelDesign) -> str:
    """``servers x proxies`` in the letters of the design."""
    letters = {factor.name: factor.letter for factor in design.factors}
    return "".join(sorted(letters[name] for name in str(claim.args["term"]).split(" x ") if name in letters))


def _most_variation(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    """Shares of the variation are squares of effects: the largest share is the largest effect, whatever its sign."""
    design = _design(claim, task)
    effects = estimates_of(design.read) if design is not None else {}
    term = _term(claim, design) if design is not None else ""
    own = effects.get(term)
    if design is None or own is None:
        return Known(NO_DATA, "no 2^k r table could be made")
    questions = [
        Within(_larger_by(design.read, own.value, term, name, one.value), 0.0)
        for name, one in effects.items()
        if name != term
    ]
    terms = sorted(
        (one for one in design.read.effects if one.percent_of_variation is not None),
        key=lambda one: -(one.percent_of_variation or 0),
    )
    reported = ", ".join(
        f"{design.name_of(one.term)} {number(one.percent_of_variation or 0, 1)} %" for one in terms[:3]
    )
    scale = " on logarithms" if design.on_logarithms else ""
    return Asked(tuple(questions), lambda _: f"shares of the variation{scale}: {reported}", design.read.repetitions)


def _larger_by(read: FactorialAnalysis, own: float, term: str, other: str, value: float) -> Estimate:
    """How much larger an effect is than another, whatever their signs: both may have their noise from the same cell."""
    sign = math.copysign(1.0, own)
    found = read.difference(term, other, sign * math.copysign(1.0, value))
    return Estimate(sign * found.value, found.standard_error, found.freedom)


def _effect_sign(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    design = _design(claim, task)
    term = _term(claim, design) if design is not None else ""
    effect = estimates_of(design.choice.additive).get(term) if design is not None else None
    if design is None or effect is None:
        return Known(NO_DATA, "no 2^k r table with two runs per cell could be made")
    question = Within(effect, 0.0, math.inf) if claim.args["sign"] == "+" else Within(effect, -math.inf, 0.0)

    def evidence(alpha: float) -> str:
        low, high = (number(one, 1) for one in question.interval(alpha))
        found = f"effect of {design.name_of(term)}: {number(effect.value, 1)} {design.unit} ({low} to {high})"
        factor = next((one for one in design.factors if one.letter == term), None)
        if factor is None:
            return found
        pairs = pair_changes_text(design, factor.name, task.margins.maximum)
        return f"{found}, half of the change from {factor.low} to {factor.high}; {pairs}"

    return Asked((question,), evidence, design.choice.additive.repetitions)


# Inside of runs.


def _longest_stage(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    maximum = maximum_of(cells, task.margins.maximum)
    on, stage = list(maximum.cells or (maximum.cell,)), str(claim.args["stage"])
    operation = str(claim.args["operation"]) if claim.args.get("operation") else None
    ratios = {
        other: found
        for other in STAGES
        if other != stage
        and (found := level_against_one(on, all_cells(task), _stage_ratio(stage, other, operation))) is not None
    }
    if not ratios:
        return Known(NO_DATA, "the runs have no stages, or one run per cell")
    questions = tuple(AtMaximum(maximum, Within(found, 0.0)) for found in ratios.values())
    nearest = min(ratios, key=lambda other: ratios[other].value)

    def evidence(alpha: float) -> str:
        if not maximum.cells:
            return f"the maximum cannot be decided: {maximum.text}"
        # Of stages that are longer the surest decides, and that need not be the longest.
        surest = min(ratios, key=lambda other: Within(ratios[other], 0.0).p_fails)
        decides = Within(ratios[surest], 0.0).p_fails <= alpha
        other = surest if decides else nearest
        own = by_own_runs(on, all_cells(task), _stage_ratio(stage, other, operation))
        ends = [
            significant(math.exp(min(one, 700.0)))
            for one in (ratios[other].value, *Within(ratios[other]).interval(alpha))
        ]
        return (
            f"{_where(claim, on)} a request is {ends[0]} times ({ends[1]} to "
            f"{ends[2]}) as long in stage {stage} as in stage {other}{'' if decides else ', the next'}{_own_text(own, on, alpha)}"
        )

    return Asked(questions, evidence, fewest(on), says_missing=not maximum.shown)


def _stage_share(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    """The time in the stage over that in all others together, on logarithms: so the share is one of the whole time in the proxy."""
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    maximum = maximum_of(cells, task.margins.maximum)
    on, stage = list(maximum.cells or (maximum.cell,)), str(claim.args["stage"])
    operation = str(claim.args["operation"]) if claim.args.get("operation") else None
    odds = _stage_odds(stage, operation)
    found = level_against_one(on, all_cells(task), odds)
    if found is None:
        return Known(NO_DATA, "the runs have no stages, or one run per cell")
    share = float(claim.args.get("share", 0.5))

    def evidence(alpha: float) -> str:
        if not maximum.cells:
            return f"the maximum cannot be decided: {maximum.text}"
        middle, low, high = (_share_text(one) for one in (found.value, *Within(found).interval(alpha)))
        own = _own_text(by_own_runs(on, all_cells(task), odds), on, alpha, _share_text, " %")
        return (
            f"{_where(claim, on)} stage {stage} takes {middle} % ({low} to {high}) of the time in the proxy; it holds from "
            f"{100.0 * share:g} % on{own}"
        )

    question = AtMaximum(maximum, Within(found, math.log(share / (1.0 - share))))
    return Asked((question,), evidence, fewest(on), says_missing=not maximum.shown)


def _where(claim: Ruled, on: Sequence[CellReadings]) -> str:
    """At the maximum; a claim may name its own cell, which is where the study had its maximum."""
    if "clients" in claim.at and len(on) == 1:
        return f"with {cell_words(on[0])}"
    return f"at the maximum ({cell_words(on[0])}, mean of {count_text(len(on), 'level')})"


def _share_text(odds: float) -> str:
    """A part over the rest, on logarithms, as a share in percent.

    >>> _share_text(0.0), _share_text(math.log(3.0)), _share_text(-800.0), _share_text(800.0)
    ('50.0', '75.0', '0.0', '100.0')
    """
    return number(100.0 / (1.0 + math.exp(min(-odds, 700.0))), 1)


def _times_text(ratio: float) -> str:
    return significant(math.exp(min(ratio, 700.0)))


def _own_text(
    own: Estimate | None,
    cells: Sequence[CellReadings],
    alpha: float,
    shown: Callable[[float], str] = _times_text,
    unit: str = "",
) -> str:
    """How long the interval would be by the runs of these cells alone; the ratio is that of each run in itself in any case."""
    if own is None:
        return ""
    low, high = (shown(end) for end in Within(own).interval(alpha))
    runs = count_text(sum(len(cell.runs) for cell in cells), "run")
    return (
        f"; that interval goes by the spread of all cells of the section, which is larger than the one there; by the {runs} there alone it "
        f"would be {low} to {high}{unit}"
    )


def _stage_odds(stage: str, operation: str | None) -> Callable[[Reading], float | None]:
    def of(run: Reading) -> float | None:
        stages = run.stages_s(operation)
        if stages is None:
            return None
        others = sum(stages.values()) - stages[stage]
        return stages[stage] / others if others > 0.0 else None

    return of


def _stage_ratio(stage: str, other: str, operation: str | None) -> Callable[[Reading], float | None]:
    def of(run: Reading) -> float | None:
        stages = run.stages_s(operation)
        return stages[stage] / stages[other] if stages is not None and stages[other] > 0.0 else None

    return of


def _sharding_pays(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    keys, percent = int(claim.args["keys"]), float(claim.args.get("percent", 0.0))
    sizes = {size: Pair(whole, split) for size, whole, split in multigets.both_modes(task) if size >= keys}
    cells = all_cells(task)
    found = {
        size: estimate
        for size, pair in sizes.items()
        if (estimate := ratio_over([pair], cells, multigets.reading_s)) is not None
    }
    if not found:
        return Known(NO_DATA, "both modes are needed, with two runs each")
    questions = tuple(Within(one, -math.inf, math.log1p(-percent / 100.0)) for one in found.values())
    left = sorted(size for size in sizes if size not in found)

    def evidence(alpha: float) -> str:
        parts = [f"{change_text(one, alpha)} with {count_text(size, 'key')}" for size, one in sorted(found.items())]
        changes = f"by splitting the mean response time of gets changes by {', '.join(parts)}"
        return changes + _not_known([count_text(size, "key") for size in left])

    both = [cell for size in found for cell in (sizes[size].base, sizes[size].other)]
    return Asked((*questions, *([Unmeasured()] if left else [])), evidence, fewest(both), says_missing=bool(left))


# Traces.


def _traces(claim: Ruled, task: Task) -> dict[str, tuple[Reading, traces.Steadiness]]:
    """The traces that a claim is about, by the name of their study."""
    return {
        sweep.study.name: (cell.runs[0], one)
        for sweep in task.sweeps
        for cell in sweep.cells
        if sweep.study.name == claim.args.get("file", sweep.study.name)
        and (one := traces.steadiness(cell.runs[0], sweep.study.plan.window_s)) is not None
    }


def _stable(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    found = {name: drift_of(one) for name, (_, one) in _traces(claim, task).items()}
    if not found:
        return Known(NO_DATA, "no run is long enough")
    margin = float(claim.args.get("percent", traces.STABLE_PERCENT))
    if any(math.isinf(one.standard_error) for one in found.values()):
        return Known(CANNOT_TELL, "a trace has too few windows for an interval, or its parts are too much alike")
    questions = {name: Within(one, -margin, margin) for name, one in found.items()}

    def evidence(alpha: float) -> str:
        parts = []
        for name, one in questions.items():
            ends = (one.estimate.value, *one.interval(alpha))
            change, low, high = (Value(end, digits=2, signed=True).text for end in ends)
            parts.append(f"{name} changes by {change} % ({low} to {high}) from its beginning to its end")
        return f"{'; '.join(parts)}; stable is what stays within {margin:g} %{_longer_text(questions.values(), alpha)}"

    return Asked(tuple(questions.values()), evidence, 1, says_missing=True)


def _longer_text(questions: Iterable[Question], alpha: float) -> str:
    """How much longer traces would have to be where they tell nothing; of a single run no number of others would tell."""
    times = max((one.times_more(alpha) for one in questions if min(one.p_holds, one.p_fails) > alpha), default=0.0)
    if not times:
        return ""
    if math.isinf(times):
        return "; no longer trace would tell, if what was found is the true value"
    if times > _TIMES_MAX:
        return f"; it would take a trace more than {_TIMES_MAX:g} times as long"
    return f"; a trace some {max(2, math.ceil(times))} times as long would tell in 4 of 5 such studies"


def _has_spikes(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    for name, (run, one) in _traces(claim, task).items():
        spikes = traces.spikes_of(run, one)
        if spikes is None:
            return Known(NO_DATA, f"{name} is too short for spikes")
        hours = sum(window.length_s for window in one.windows) / 3600.0
        return _counted(name, spikes, Counted(spikes.bursts, hours, float(claim.args["per_hour"])))
    return Known(NO_DATA, "no run is long enough")


def _counted(name: str, spikes: traces.Spikes, question: Counted) -> Asked:
    def evidence(alpha: float) -> str:
        low, high = (number(one, 1) for one in question.interval(alpha))
        per_hour = number(question.count / question.units, 1)
        counted = f"{count_text(len(spikes.sizes), 'spike')} in {count_text(question.count, 'burst')}"
        if not spikes.sizes:
            counted += f" (a window {number(100.0 * spikes.reach, 0)} % off its median would be one)"
        kinds = f"; spikes: {spikes.kinds_text}" if spikes.sizes else ""
        longer = _longer_text([question], alpha)
        if longer and not spikes.sizes and spikes.reach > _UNSTEADY:
            longer = "; its windows differ too much to show smaller ones, however long it were"
        return f"{name} has {counted}, {per_hour} bursts an hour ({low} to {high}){kinds}{longer}"

    return Asked((question,), evidence, 1, says_missing=True)


def _law(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    found: dict[CellReadings, Estimate] = {}
    for cell in cells:
        one = (
            level_against_one([cell], all_cells(task), lambda run: 1.0 + run.law_deviation)
            if len(cell.runs) > 1
            else law_of_trace(cell.runs[0], _window_s(task, cell))
        )
        if one is not None:
            found[cell] = one
    if not found:
        return Known(NO_DATA, "cells with two runs, or one that is long enough for parts, are needed")
    margin = float(claim.args.get("percent", 1.0))
    low, high = within_percent(margin)
    worst = max(found, key=lambda one: abs(found[one].value))

    def evidence(alpha: float) -> str:
        left = len(cells) - len(found)
        rest = f"; {count_text(left, 'cell')} with one run left out" if left else ""
        return (
            f"largest deviation of {count_text(len(found), 'cell')} from N / X: {change_text(found[worst], alpha)} "
            f"({cell_words(worst)}){rest}"
        )

    return Asked(tuple(Within(one, low, high) for one in found.values()), evidence, fewest(cells))


def _window_s(task: Task, cell: CellReadings) -> int:
    return next(sweep.study.plan.window_s for sweep in task.sweeps if cell in sweep.cells)


RULES: dict[str, Callable[[Ruled, Task, Sequence[CellReadings]], Asked | Known]] = {
    "limited_by": _limited_by,
    "reaches": _reaches,
    "not_reaches": _not_reaches,
    "grows_with": one_sided(lambda _: "throughput", lambda _: throughput_of, 1),
    "falls_with": one_sided(lambda _: "throughput", lambda _: throughput_of, -1),
    "slower_with": one_sided(response_name, response_of, 1),
    "same_with": _same_with,
    "change_above": _change_above,
    "most_variation": _most_variation,
    "effect_sign": _effect_sign,
    "longest_stage": _longest_stage,
    "stage_share": _stage_share,
    "sharding_pays": _sharding_pays,
    "stable": _stable,
    "has_spikes": _has_spikes,
    "law": _law,
}
