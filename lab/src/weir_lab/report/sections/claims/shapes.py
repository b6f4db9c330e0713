"""Rules of what was expected: which way a stage goes, where a curve bends, whether one factor changes what another does. `SHAPE_RULES`.

====================  =================================================================================================
rule                  the sentence holds if
====================  =================================================================================================
``exceeds``           the maximum, at the study's speed, is larger than ``value``
``faster_with``       the mean response time of ``operation`` is smaller at the high level of ``factor``
``change_within``     throughput (``response``), or the response time of ``operation``, changes by ``low`` to ``high`` percent
                      from the level ``from`` of ``factor`` to the level ``to``
``stronger_with``     the change from the low level of ``factor`` to the high one is larger (``sign`` +) or smaller (-) at the
                      high level of ``by`` than at its low level
``stage_with``        a request of ``operation`` is longer in ``stage`` at the high level of ``factor``
``longest_stages``    at the maximum a request is longer in ``first`` and in ``second`` than in every other stage
``saturates_at``      the fewest clients that reach the plateau lie from ``low`` to ``high``
``dips_at``           throughput (``response``), or the response time of ``operation``, is smaller at the level ``at_level`` of ``factor``
                      than at its lowest and at its highest level
``even``              of keys on servers, every share is within ``percent`` of its equal part
====================  =================================================================================================

The factor of ``stronger_with`` may have other ends at each level of ``by`` (R = 1 to 3 with three servers, 1 to 7 with seven): the ends are
those of the cells that are alike in everything else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.comparing import cell_key, model_of, throughput_of
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.sections import placement
from weir_lab.report.sections.claims.asked import (
    CANNOT_TELL,
    NO_DATA,
    TOO_FEW,
    Asked,
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
    AnyOf,
    AtMaximum,
    ends_over,
    level_against_one,
    mean_contrast,
    within_percent,
)
from weir_lab.report.sections.claims.rules import against_number
from weir_lab.theory.linear import Estimate, LayoutError, Within
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from weir_lab.design.whole.sets import Ruled
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.theory.linear import Question

__all__ = ["SHAPE_RULES"]

# Of counted keys nothing is estimated: the chance of a share is known.
_EXACT = 1e9
# A change of so much or more is no limit of anything.
_ANY_PERCENT = 1000.0


def _exceeds(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    return against_number(claim, task, cells, 0.0, math.inf)


def _change_within(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    found = compared(claim, task, cells, (claim.args["from"], claim.args["to"]), response_of(claim))
    if found is None:
        return Known(NO_DATA, TOO_FEW)
    estimate, pairs = found.estimate, found.pairs
    low, high = (float(claim.args[end]) for end in ("low", "high"))
    limits = (-math.inf if low <= -100.0 else math.log1p(low / 100.0), math.log1p(high / 100.0))

    def evidence(alpha: float) -> str:
        reported = f"{response_name(claim)} changes by {change_text(estimate, alpha)} ({pairs_text(claim, found)})"
        return f"{reported}; asked was {_asked_text(low, high)}"

    return Asked(
        (Within(estimate, *limits),), evidence, fewest([cell for pair in pairs for cell in (pair.base, pair.other)])
    )


def _asked_text(low: float, high: float) -> str:
    """Limits of a change, of which one may be as good as none.

    >>> _asked_text(5.0, 20.0), _asked_text(0.0, 10000.0), _asked_text(-100.0, 0.0)
    ('5.0 to 20.0 %', 'more than 0.0 %', 'less than 0.0 %')
    """
    if high >= _ANY_PERCENT:
        return f"more than {number(low, 1)} %"
    return f"less than {number(high, 1)} %" if low <= -100.0 else f"{number(low, 1)} to {number(high, 1)} %"


def _dips_at(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    """Between the ends of a factor lies less than at both: the curve goes down and up again."""
    levels = levels_of(claim, cells) if cells else []
    middle = float(claim.args["at_level"])
    too_few = Known(NO_DATA, f"the level {middle:g} and one on each side are needed, with two runs each")
    if len(levels) < 3 or middle not in levels[1:-1]:
        return too_few
    value = response_of(claim)
    down, up = (compared(claim, task, cells, ends, value) for ends in ((levels[0], middle), (middle, levels[-1])))
    if down is None or up is None:
        return too_few

    def evidence(alpha: float) -> str:
        first, second = (change_text(one.estimate, alpha) for one in (down, up))
        return f"{response_name(claim)} changes by {first} ({pairs_text(claim, down)}), and then by {second} ({pairs_text(claim, up)})"

    return Asked(
        (Within(down.estimate, -math.inf, 0.0), Within(up.estimate, 0.0, math.inf)),
        evidence,
        fewest([cell for one in (down, up) for pair in one.pairs for cell in (pair.base, pair.other)]),
    )


def _stronger_with(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    factor, by = str(claim.args["factor"]), str(claim.args["by"])
    found = ends_over(cells, factor, by)
    value = response_of(claim)
    model = model_of(all_cells(task), value)
    if not found or model is None:
        return Known(
            NO_DATA, f"two levels of {_words(factor)} at two levels of {_words(by)} are needed, with two runs each"
        )
    weak, strong = mean_contrast([one for one, _ in found]), mean_contrast([one for _, one in found])
    used = [cell for pairs in found for pair in pairs for cell in (pair.base, pair.other)]
    if any(len(model.values.get(cell_key(cell), ())) < 2 for cell in used):
        return Known(NO_DATA, TOO_FEW)
    weights = {key: strong.get(key, 0.0) - weak.get(key, 0.0) for key in {**weak, **strong}}
    try:
        parts = [model.contrast(one) for one in (weak, strong)]
        difference = model.contrast({key: weight for key, weight in weights.items() if weight})
    except LayoutError:
        return Known(NO_DATA, TOO_FEW)
    ends = [", ".join(dict.fromkeys(str(pairs[place].base.level(by)) for pairs in found)) for place in (0, 1)]

    def evidence(alpha: float) -> str:
        changes = [change_text(one, alpha) for one in parts]
        return (
            f"over {_words(factor)} {response_name(claim)} changes by {changes[0]} at the low level of {_words(by)} ({ends[0]}) and by "
            f"{changes[1]} at the high one ({ends[1]}); the second over the first is {change_text(difference, alpha)}"
        )

    grows = claim.args["sign"] == "+"
    question = Within(difference, 0.0, math.inf) if grows else Within(difference, -math.inf, 0.0)
    return Asked((question,), evidence, fewest(used))


def _words(factor: str) -> str:
    return factor.replace("_", " ")


def _stage_of(claim: Ruled) -> Callable[[Reading], float | None]:
    operation = str(claim.args["operation"]) if claim.args.get("operation") else None
    return lambda run: (run.stages_s(operation) or {}).get(str(claim.args["stage"]))


def _stage_name(claim: Ruled) -> str:
    whose = f" of {str(claim.args['operation']).upper()}s" if claim.args.get("operation") else ""
    return f"the time{whose} in stage {claim.args['stage']}"


def _longest_stages(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    maximum = maximum_of(cells, task.margins.maximum)
    on = list(maximum.cells or (maximum.cell,))
    named = [str(claim.args[place]) for place in ("first", "second")]
    ratios = {
        (stage, other): found
        for stage in named
        for other in STAGES
        if other not in named and (found := level_against_one(on, all_cells(task), _ratio(stage, other))) is not None
    }
    if not ratios:
        return Known(NO_DATA, "the runs have no stages, or one run per cell")
    nearest = min(ratios, key=lambda pair: ratios[pair].value)

    def evidence(alpha: float) -> str:
        if not maximum.cells:
            return f"the maximum cannot be decided: {maximum.text}"
        known = [stages for run in on[0].runs if (stages := run.stages_s()) is not None]
        order = sorted(STAGES, key=lambda stage: -sum(one[stage] for one in known))
        low, high = (number(math.exp(min(end, 700.0)), 2) for end in Within(ratios[nearest]).interval(alpha))
        return (
            f"at the maximum ({cell_words(on[0])}) stages by length are {', '.join(order)}; stage {nearest[0]} is {low} to {high} times as "
            f"long as stage {nearest[1]}"
        )

    questions = tuple(AtMaximum(maximum, Within(one, 0.0)) for one in ratios.values())
    return Asked(questions, evidence, fewest(on), says_missing=not maximum.shown)


def _ratio(stage: str, other: str) -> Callable[[Reading], float | None]:
    def of(run: Reading) -> float | None:
        stages = run.stages_s()
        # A stage that took no time at all is shorter than any.
        return stages[stage] / stages[other] if stages is not None and stages[other] > 0.0 < stages[stage] else None

    return of


def _saturates_at(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
    """Some level in the range is on the plateau, and none below the range is."""
    low, high = float(claim.args["low"]), float(claim.args["high"])
    if not cells:
        return Known(NO_DATA, "no cell has these settings")
    maximum = maximum_of(cells, task.margins.maximum)
    if not maximum.shown:
        return Known(CANNOT_TELL, f"the maximum cannot be decided: {maximum.text}")
    model = model_of(all_cells(task), throughput_of)
    groups = (
        [cell for cell in cells if low <= cell.settings.clients <= high],
        [cell for cell in cells if cell.settings.clients < low],
    )
    if model is None or not all(groups):
        return Known(NO_DATA, f"a level from {low:g} to {high:g} clients and one below are needed")
    try:
        inside, below = ({cell: model.contrast(_against(cell, maximum.cells)) for cell in group} for group in groups)
    except LayoutError:
        return Known(NO_DATA, TOO_FEW)
    limit = math.log1p(-task.margins.maximum / 100.0)

    def evidence(alpha: float) -> str:
        ends = []
        for group in (inside, below):
            cell = max(group, key=lambda one: group[one].value)
            ends.append(f"{change_text(group[cell], alpha)} at {count_text(cell.settings.clients, 'client')}")
        return f"against the plateau ({maximum.text}) throughput changes by {' and by '.join(ends)}"

    questions: tuple[Question, ...] = (
        AnyOf(tuple(Within(one, limit) for one in inside.values())),
        *(Within(one, -math.inf, limit) for one in below.values()),
    )
    # A plateau of one level is held against itself; whether it is one counts in any case.
    return Asked(tuple(AtMaximum(maximum, one) for one in questions), evidence, fewest([*inside, *below]))


def _against(cell: CellReadings, plateau: Sequence[CellReadings]) -> dict[Hashable, float]:
    weights: dict[Hashable, float] = {cell_key(cell): 1.0}
    for one in plateau:
        weights[cell_key(one)] = weights.get(cell_key(one), 0.0) - 1.0 / len(plateau)
    return weights


def _even(claim: Ruled, task: Task, _cells: Sequence[CellReadings]) -> Asked | Known:
    """Each key falls on a server on its own, so the chance of a share is binomial."""
    shares = placement.shares_of(task)
    if not shares:
        return Known(NO_DATA, "no run has counted keys")
    percent = float(claim.args["percent"])
    low, high = within_percent(percent)
    found = {
        one: Estimate(math.log(max(one.keys, 0.5) / one.equal), math.sqrt((1.0 - one.part) / one.equal), _EXACT)
        for one in shares
    }
    worst = max(found, key=lambda one: abs(found[one].value))

    def evidence(alpha: float) -> str:
        return (
            f"of {count_text(len(found), 'share')} the most uneven is {change_text(found[worst], alpha)} from its equal part, on "
            f"{count_text(worst.servers, 'server')}; even is within {percent:g} %"
        )

    return Asked(tuple(Within(one, low, high) for one in found.values()), evidence, 1)


SHAPE_RULES: dict[str, Callable[[Ruled, Task, Sequence[CellReadings]], Asked | Known]] = {
    "exceeds": _exceeds,
    "faster_with": one_sided(response_name, response_of, -1),
    "change_within": _change_within,
    "stronger_with": _stronger_with,
    "dips_at": _dips_at,
    "stage_with": one_sided(_stage_name, _stage_of, 1),
    "longest_stages": _longest_stages,
    "saturates_at": _saturates_at,
    "even": _even,
}
