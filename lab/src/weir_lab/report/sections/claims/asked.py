"""What a rule gives: the questions that the data are to answer, with the words for them; and what rules have in common."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.errors import ReportError
from weir_lab.report.common import cell_words, level_words, spread_text
from weir_lab.report.numbers.comparing import outside_of, throughput_of
from weir_lab.report.numbers.readings import OPERATION_NAMES
from weir_lab.report.sections.claims.contrasts import Pair, pairs_over, ratio_over
from weir_lab.report.sections.claims.stopping import beside_change
from weir_lab.report.sections.comparisons.over_servers import readers_text
from weir_lab.theory.linear import Estimate, Question, Within
from weir_lab.theory.units import count_text, signed_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.design import Level
    from weir_lab.design.whole.sets import Ruled
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = [
    "CANNOT_TELL",
    "HOLDS",
    "NOT",
    "NO_DATA",
    "RESPONSES",
    "THE_OTHER_WAY",
    "TOO_FEW",
    "Asked",
    "Compared",
    "Known",
    "all_cells",
    "cell_words",
    "change_text",
    "compared",
    "fewest",
    "levels_of",
    "one_sided",
    "pairs_text",
    "response_name",
    "response_of",
]

# Percent. Up to the last of them sets call throughput the same.
_LITTLE = (0.5, 1.0, 2.0, 5.0)
HOLDS, NOT, CANNOT_TELL, NO_DATA = "holds", "does not hold", "cannot tell", "no data"
TOO_FEW = "two levels with two runs each are needed"
THE_OTHER_WAY = "; within it, the other way: "
"""Before the steps of a range that go against the change from end to end, up to the next semicolon."""
# Levels of which each step is named.
_STEPS_MAX = 6


@dataclass(frozen=True)
class Asked:
    """Questions that the data are to answer, all of them for the claim to hold.

    ``evidence`` writes what was found, with intervals of the level 1 - alpha that it is given, and where it ``says_missing`` what it takes
    to know. ``runs`` is the least number per cell.
    """

    questions: tuple[Question, ...]
    evidence: Callable[[float], str]
    runs: int
    says_missing: bool = False


@dataclass(frozen=True)
class Known:
    """A verdict that needs no test: nothing to look at, or what follows from the design."""

    verdict: str
    evidence: str


def all_cells(task: Task) -> list[CellReadings]:
    """Every cell of the section tells how much runs differ."""
    return [cell for sweep in task.sweeps for cell in sweep.cells]


def fewest(cells: Sequence[CellReadings]) -> int:
    """The least number of runs of any of these cells."""
    return min((len(cell.runs) for cell in cells), default=1)


def change_text(found: Estimate, alpha: float) -> str:
    """An estimate on logarithms with its interval of level 1 - alpha, as a change in percent."""
    low, high = Within(found).interval(alpha)
    middle, first, last = (signed_percent(100.0 * math.expm1(min(one, 700.0))) for one in (found.value, low, high))
    return f"{middle} % ({first} to {last})"


def _either_way_text(found: Estimate, alpha: float) -> str:
    """That a change whose direction is open is little in either; empty where the direction is known, or it may be much.

    >>> _either_way_text(Estimate(-0.0015, 0.0013, 40.0), 0.05), _either_way_text(Estimate(0.01, 0.03, 40.0), 0.05)
    (', less than 0.5 % either way', '')
    """
    low, high = (100.0 * math.expm1(min(one, 700.0)) for one in Within(found).interval(alpha))
    bound = next((one for one in _LITTLE if max(-low, high) < one), None)
    return "" if bound is None or low > 0.0 or high < 0.0 else f", less than {bound:g} % either way"


def levels_of(claim: Ruled, cells: Sequence[CellReadings]) -> list[float]:
    """Levels of the claim's factor among these cells, from ``low`` to ``high`` where the claim names them."""
    factor = str(claim.args["factor"])
    found = sorted(
        {float(getattr(cell.settings, factor)) for cell in cells if getattr(cell.settings, factor) is not None}
    )
    low, high = (float(claim.args.get(end, level)) for end, level in (("low", found[0]), ("high", found[-1])))
    return [level for level in found if low <= level <= high]


class Compared(NamedTuple):
    """A change over pairs that differ in one factor alone; ``left_out`` pairs have one run of a cell, and take no part."""

    estimate: Estimate
    pairs: list[Pair]
    left_out: int


def compared(
    claim: Ruled,
    task: Task,
    cells: Sequence[CellReadings],
    ends: tuple[Level, Level],
    value: Callable[[Reading], float | None],
) -> Compared | None:
    """The change from one level of the claim's factor to another, all else equal; None where no pair has two runs of both cells."""
    pairs = pairs_over(cells, str(claim.args["factor"]), *ends)
    repeated = [one for one in pairs if fewest([one.base, one.other]) > 1]
    found = ratio_over(repeated, all_cells(task), value)
    return None if found is None else Compared(found, repeated, len(pairs) - len(repeated))


def pairs_text(claim: Ruled, found: Compared) -> str:
    """What was held against what."""
    factor, pairs = str(claim.args["factor"]), found.pairs
    first = pairs[0]
    one_run = f"; {count_text(found.left_out, 'pair')} left out, with one run of a cell" if found.left_out else ""
    ends = [level_words(factor, cell.level(factor)) for cell in (first.base, first.other)]
    others = cell_words(first.base, without=factor)
    shown = f"{ends[0]} to {ends[1]}{_with_them(factor, first)}{f', {others}' if others else ''}"
    if len(pairs) == 1:
        return f"{shown}{one_run}"
    return f"mean of {len(pairs)} pairs that differ in {factor.replace('_', ' ')} alone, such as {shown}{one_run}"


def _with_them(factor: str, pair: Pair) -> str:
    """What a factor changes beside itself: readers of the split engine are those of a server, so more servers have more."""
    return readers_text(pair.base, pair.other) if factor == "servers" else ""


def _spread_text(found: Compared, value: Callable[[Reading], float | None], percent: float) -> str:
    """``; over these pairs plain means change by −1.9 to +63 %, by more than 5 % in 1 of them``: a mean says little where they differ.

    Plain means have in them what the runs of a block have in common; the change before has it taken out.
    """
    if len(found.pairs) < 2:
        return ""
    changes = []
    for pair in found.pairs:
        base, other = (cell.of(value) for cell in (pair.base, pair.other))
        changes.append(100.0 * ((sum(other) / len(other)) / (sum(base) / len(base)) - 1.0))
    return f"; over these pairs plain means change by {spread_text(changes, percent)}"


def _steps_text(
    claim: Ruled,
    task: Task,
    cells: Sequence[CellReadings],
    levels: Sequence[float],
    value: Callable[[Reading], float | None],
    whole: Compared,
    alpha: float,
) -> str:
    """``; step by step 8 to 16 +54 %, 16 to 32 +0.1 %, 32 to 64 −0.1 %``: from end to end a change does not tell where it is.

    Not over clients, where the curve tells, nor of two levels. ``whole`` is the change from end to end. A step that is shown to go against
    it, by its interval of level 1 - alpha, is named behind the others.
    """
    if str(claim.args["factor"]).startswith("clients") or not 2 < len(levels) <= _STEPS_MAX:
        return ""
    parts, pairs, against = [], set[int](), []
    scale, unit = (100.0, " % writes") if claim.args["factor"] == "write_ratio" else (1.0, "")
    for low, high in itertools.pairwise(levels):
        found = compared(claim, task, cells, (low, high), value)
        if found is None:
            return ""
        pairs.add(len(found.pairs))
        change = signed_percent(100.0 * math.expm1(found.estimate.value))
        step = f"{scale * low:g} to {scale * high:g}{unit}"
        parts.append(f"{step} {change} %")
        ends = Within(found.estimate).interval(alpha)
        if ends[1] < 0.0 < whole.estimate.value or ends[0] > 0.0 > whole.estimate.value:
            against.append(f"{step} {change_text(found.estimate, alpha)}")
    own = ", each over the pairs that it has" if pairs != {len(whole.pairs)} else ""
    shown = f"{THE_OTHER_WAY}{', '.join(against)}" if against else ""
    return f"; step by step {', '.join(parts)}{own}{shown}"


def one_sided(
    name: Callable[[Ruled], str], value: Callable[[Ruled], Callable[[Reading], float | None]], sign: int
) -> Callable[[Ruled, Task, Sequence[CellReadings]], Asked | Known]:
    """A rule: what is named is larger (sign 1) or smaller (-1) at the last level of a factor than at the first, by ``percent`` (0)."""

    def rule(claim: Ruled, task: Task, cells: Sequence[CellReadings]) -> Asked | Known:
        levels = levels_of(claim, cells) if cells else []
        found = compared(claim, task, cells, (levels[0], levels[-1]), value(claim)) if len(levels) > 1 else None
        if found is None:
            return Known(NO_DATA, TOO_FEW)
        estimate, pairs = found.estimate, found.pairs
        percent = float(claim.args.get("percent", 0.0))
        limit = math.log1p(sign * percent / 100.0)
        question = Within(estimate, limit, math.inf) if sign > 0 else Within(estimate, -math.inf, limit)
        limits = beside_change(task, cells, str(claim.args["factor"])) if value(claim) is throughput_of else ""
        return Asked(
            (question,),
            lambda alpha: (
                f"{name(claim)} changes by {change_text(estimate, alpha)}{'' if percent else _either_way_text(estimate, alpha)} "
                f"({pairs_text(claim, found)}){_spread_text(found, value(claim), task.margins.maximum)}"
                f"{_steps_text(claim, task, cells, levels, value(claim), found, alpha)}{limits}"
            ),
            fewest([cell for pair in pairs for cell in (pair.base, pair.other)]),
        )

    return rule


def response_of(claim: Ruled) -> Callable[[Reading], float | None]:
    """What the claim's ``response`` names, of each run; without one the mean response time, of its ``operation`` if it names one.

    ``throughput``; ``outside``, the clients' mean response time less the time in the proxy; ``p50``, ``p95``, ``p99``, percentiles of the
    response time at the clients.
    """
    response, operation = claim.args.get("response"), claim.args.get("operation")
    if response is None:
        return (lambda run: run.operation_s(str(operation))) if operation else (lambda run: run.response_s)
    if response not in RESPONSES:
        raise ReportError(f"{claim.name}: no response is called {response!r}; there are {', '.join(RESPONSES)}.")
    if operation:
        raise ReportError(
            f"{claim.name}: the response {response!r} is that of all operations; leave out operation or it."
        )
    return RESPONSES[str(response)][1]


def response_name(claim: Ruled) -> str:
    """The same in words."""
    response, operation = claim.args.get("response"), claim.args.get("operation")
    if response in RESPONSES:
        return RESPONSES[str(response)][0]
    return f"the response time of {OPERATION_NAMES[str(operation)]}s" if operation else "the response time"


RESPONSES: dict[str, tuple[str, Callable[[Reading], float | None]]] = {
    "throughput": ("throughput", throughput_of),
    "outside": ("the time outside of the proxy", outside_of),
    "p50": ("the median response time", lambda run: run.percentile_s(50.0)),
    "p95": ("the 95th percentile of the response time", lambda run: run.percentile_s(95.0)),
    "p99": ("the 99th percentile of the response time", lambda run: run.percentile_s(99.0)),
}
"""What a claim may name as its response: its words, and its value in a run."""
