"""Conclusions and maxima on simulated studies whose truth is known: how often they are wrong, and how often they tell anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from weir_lab.theory.linear import (
    Answer,
    Counted,
    Estimate,
    LayoutError,
    LogModel,
    MeasuredRun,
    Within,
    judge_all,
    plateau_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FEW, MANY = 500, 10_000
DRAWS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)]
ALPHA = 0.05


def at_most(share: float, wanted: float, draws: int) -> None:
    """But for what chance adds (three standard errors)."""
    assert share <= wanted + 3.0 * math.sqrt(wanted * (1.0 - wanted) / draws), share


def curve_runs(
    truth: Sequence[float] | NDArray[np.float64],
    rng: np.random.Generator,
    spread: float,
    blocks: int,
    *,
    night: bool = False,
) -> list[MeasuredRun]:
    """Blocks that differ by 5 %; at ``night`` a block has the last three levels, and one or two of the others: one of eight layouts."""
    runs, seed = [], int(rng.integers(8))
    layout = np.random.default_rng(seed) if night else None
    for block in range(blocks):
        common = rng.normal(0.0, 0.05)
        there = list(range(len(truth)))
        if layout is not None and block > 0:
            there = sorted({*range(len(truth) - 3, len(truth)), *layout.integers(0, len(truth), 2).tolist()})
        noise = rng.normal(0.0, spread, len(there)).tolist()
        runs += [
            MeasuredRun(level, truth[level] * math.exp(common + own), block)
            for level, own in zip(there, noise, strict=True)
        ]
    return runs


# Shares of the maximum. The third level is on the plateau; it and another are just below; one level is the largest, and the third near it.
# In the last the third is just below, and only one comparison keeps it from being called the maximum.
CURVES = {
    "saturates": (0.10, 0.60, 0.97, 1.0, 1.0, 1.0),
    "at the limit": (0.10, 0.60, 0.9499, 1.0, 0.9499, 1.0),
    "collapses": (0.10, 0.60, 0.97, 1.0, 0.80, 0.50),
    "one peak": (0.10, 0.60, 0.9499, 1.0, 0.80, 0.50),
}


def over_maxima(name: str, spread: float, blocks: int, draws: int, *, night: bool = False) -> dict[str, float]:
    """Shares of studies: a level wrongly on the plateau; decided at all; the first right; the value's interval without its truth."""
    truth = np.array(CURVES[name])
    rng = np.random.default_rng([draws, blocks, len(name)])
    wrong, decided, right, missed, off = 0, 0, 0, 0, []
    for _ in range(draws):
        found = plateau_of(LogModel(curve_runs(truth, rng, spread, blocks, night=night)), range(truth.size))
        on = [int(str(level)) for level in found.levels]
        wrong += any(truth[level] < 0.95 for level in on)
        decided += bool(on)
        right += bool(on) and on[0] == int(np.argmax(truth >= 0.95))
        if found.value is not None:
            meant = float(np.exp(np.mean(np.log(truth[on]))))
            missed += not found.value.low <= meant <= found.value.high
            off.append(found.value.mean - meant)
        else:
            assert found.times_more > 1.0
    return {
        "wrong": wrong / draws,
        "decided": decided / draws,
        "first right": right / draws,
        "value missed": missed / max(1, decided),
        "bias": float(np.mean(off)) if off else 0.0,
    }


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", CURVES)
def test_no_level_is_called_the_maximum_that_does_not_reach_it(name: str, draws: int) -> None:
    for spread, blocks, night in ((0.005, 5, False), (0.02, 5, False), (0.02, 10, True)):
        found = over_maxima(name, spread, blocks, draws, night=night)
        print(name, spread, blocks, night, found)
        at_most(found["wrong"], ALPHA, draws)
        assert abs(found["bias"]) < 0.01, found


def test_a_maximum_is_found_where_runs_are_alike_and_not_decided_where_they_are_not() -> None:
    quiet = over_maxima("saturates", 0.005, 5, 200)
    loud = over_maxima("saturates", 0.08, 3, 200)
    assert quiet["decided"] == 1.0
    assert quiet["first right"] > 0.5
    assert loud["decided"] < 0.1
    at_most(quiet["value missed"], 0.08, 200)


def test_how_much_more_data_a_maximum_takes_is_what_it_takes() -> None:
    """The plateau is decided in some 4 of 5 studies that have that many more runs."""
    truth = (0.2, 0.7, 1.0, 1.0, 1.0)
    rng = np.random.default_rng(5)
    asked = [plateau_of(LogModel(curve_runs(truth, rng, 0.03, 4)), range(len(truth))).times_more for _ in range(60)]
    times = float(np.median([one for one in asked if one > 1.0]))
    assert 1.5 < times < 20.0
    blocks = math.ceil(4 * times)
    decided = [plateau_of(LogModel(curve_runs(truth, rng, 0.03, blocks)), range(len(truth))).shown for _ in range(60)]
    assert np.mean(decided) > 0.6


def test_exact_data_have_an_exact_maximum() -> None:
    runs = [MeasuredRun(level, value, block) for block in range(3) for level, value in enumerate((5.0, 9.6, 10.0))]
    found = plateau_of(LogModel(runs), [0, 1, 2])
    assert (found.first, found.levels, found.p) == (1, (1, 2), 0.0)
    assert found.value is not None
    assert found.value.mean == pytest.approx(9.8)
    with pytest.raises(LayoutError, match="two levels"):
        plateau_of(LogModel(runs), [1])
    with pytest.raises(LayoutError, match="between 0 and 1"):
        plateau_of(LogModel(runs), [0, 1], 1.0)


def test_a_loud_level_takes_nothing_from_the_others_truth() -> None:
    """Spreads that differ tenfold, in blocks that are not complete: the error is each cell's own."""
    truth, rng, wrong, draws = np.array(CURVES["at the limit"]), np.random.default_rng(6), 0, 300
    for _ in range(draws):
        runs = [
            one._replace(value=one.value * math.exp(rng.normal(0.0, 0.08 if one.cell == 4 else 0.0)))
            for one in curve_runs(truth, rng, 0.008, 9, night=True)
        ]
        wrong += any(truth[int(str(level))] < 0.95 for level in plateau_of(LogModel(runs), range(truth.size)).levels)
    # With some runs of each cell its own spread is little known: a bit above what is said.
    at_most(wrong / draws, 0.08, draws)


# A study's conclusions: changes in units of the standard error of each, on both sides of their limits and on them.
def conclusions(rng: np.random.Generator, truths: Sequence[tuple[float, float, float]]) -> list[list[Within]]:
    return [
        [Within(Estimate(truth + float(rng.standard_normal()), 1.0, 1e6), low, high)] for truth, low, high in truths
    ]


def over_families(truths: Sequence[tuple[float, float, float]], draws: int) -> tuple[float, float]:
    """Share of studies with any wrong conclusion, and of conclusions that are decided."""
    rng = np.random.default_rng([draws, len(truths)])
    wrong, decided = 0, 0
    for _ in range(draws):
        found = judge_all(conclusions(rng, truths))
        false = [
            one.answer is (Answer.DOES_NOT_HOLD if low < truth < high else Answer.HOLDS)
            for one, (truth, low, high) in zip(found, truths, strict=True)
        ]
        wrong += any(false)
        decided += sum(one.answer is not Answer.CANNOT_TELL for one in found)
    return wrong / draws, decided / draws / len(truths)


INF = math.inf
FAMILIES = {
    "all at their limits": [(0.0, 0.0, INF)] * 6 + [(0.0, -INF, 0.0)] * 6,
    "equivalences at a limit": [(3.0, -3.0, 3.0)] * 8,
    "half of them clear": [(0.0, 0.0, INF)] * 6 + [(6.0, 0.0, INF)] * 6,
}


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_chance_of_any_wrong_conclusion_is_held(name: str, draws: int) -> None:
    wrong, decided = over_families(FAMILIES[name], draws)
    print(name, wrong, decided)
    at_most(wrong, ALPHA, draws)


def test_clear_conclusions_are_decided() -> None:
    assert over_families([(6.0, 0.0, INF)] * 12, 200)[1] > 0.95
    assert over_families([(0.0, -6.0, 6.0)] * 12, 200)[1] > 0.95


def test_an_interval_says_what_its_p_value_says() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        low, high = sorted(rng.normal(0.0, 1.0, 2).tolist())
        one = Within(
            Estimate(float(rng.normal(0.0, 2.0)), float(rng.uniform(0.05, 1.0)), float(rng.integers(2, 30))), low, high
        )
        for alpha in (0.05, 0.01):
            ends = one.interval(alpha)
            assert (one.p_holds <= alpha) == (low <= ends[0] and ends[1] <= high)
            assert (one.p_fails <= alpha) == (ends[0] >= high or ends[1] <= low)


def test_several_questions_hold_together_and_fail_by_one() -> None:
    inside = Within(Estimate(0.0, 0.1, 30.0), -1.0, 1.0)
    outside = Within(Estimate(2.0, 0.1, 30.0), -1.0, 1.0)
    open_ = Within(Estimate(0.9, 0.1, 30.0), -1.0, 1.0)
    answers = [judge_all([part])[0].answer for part in ([inside] * 3, [inside, outside], [inside, open_])]
    assert answers == [Answer.HOLDS, Answer.DOES_NOT_HOLD, Answer.CANNOT_TELL]
    (left,) = judge_all([[inside, open_]])
    assert 1.0 < left.times_more < 20.0
    (never,) = judge_all([[Within(Estimate(1.0, 0.1, 30.0), -1.0, 1.0)]])
    assert math.isinf(never.times_more)


@pytest.mark.parametrize("truth", [0.9, 1.3])
def test_with_so_many_more_runs_it_is_decided_in_four_of_five(truth: float) -> None:
    rng = np.random.default_rng(8)

    def one(runs: int) -> Within:
        values = rng.normal(truth, 0.5, runs)
        return Within(Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(runs), runs - 1.0), 1.0)

    error = 0.5 / math.sqrt(6)
    times = Within(Estimate(truth, error, 5.0), 1.0).times_more(ALPHA)
    decided = [judge_all([[one(math.ceil(6 * times))]])[0].answer is not Answer.CANNOT_TELL for _ in range(400)]
    assert 0.75 < np.mean(decided) <= 1.0


def test_counts_are_judged_by_poissons_interval() -> None:
    rng = np.random.default_rng(9)
    wrong = [judge_all([[Counted(int(rng.poisson(1.0)), 1.0, 1.0)]])[0].answer for _ in range(2000)]
    at_most(sum(one is not Answer.CANNOT_TELL for one in wrong) / 2000, ALPHA, 2000)
    assert judge_all([[Counted(12, 1.0, 1.0)]])[0].answer is Answer.HOLDS
    assert judge_all([[Counted(0, 6.0, 1.0)]])[0].answer is Answer.DOES_NOT_HOLD
    (open_,) = judge_all([[Counted(0, 1.0, 1.0)]])
    assert (open_.answer, open_.times_more) == (Answer.CANNOT_TELL, 4.0)
    low, high = Counted(3, 1.0, 1.0).interval(0.05)
    assert (low, high) == pytest.approx((0.6187, 8.7673), abs=1e-4)


def decided_by_five_blocks(spread: float, draws: int) -> dict[str, float]:
    """How often a night's five blocks tell what is true, at the first of Holm's levels of eight conclusions.

    Two curves of nine levels, one 10 % above the other, saturated from the fifth level on; blocks 3 % apart.
    """
    truth, rng = np.array([0.1, 0.3, 0.6, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0]), np.random.default_rng([draws, 11])
    decided = dict.fromkeys(
        ("maximum", "same within 5 %", "same within 10 %", "10 % more", "within 5 % of a number"), 0
    )
    for _ in range(draws):
        runs = []
        for block in range(5):
            common = rng.normal(0.0, 0.03)
            noise = rng.normal(0.0, spread, 2 * truth.size).tolist()
            for place, (rate, own) in enumerate(zip([*truth, *(1.1 * truth)], noise, strict=True)):
                runs.append(MeasuredRun(place, rate * math.exp(common + own), block))
        model = LogModel(runs)
        same, more = model.contrast({6: 1.0, 5: -1.0}), model.contrast({15: 1.0, 6: -1.0})
        decided["maximum"] += plateau_of(model, range(9)).shown
        decided["same within 5 %"] += Within(same, math.log(0.95), math.log(1.05)).p_holds <= ALPHA / 8
        decided["same within 10 %"] += Within(same, math.log(0.9), math.log(1.1)).p_holds <= ALPHA / 8
        decided["10 % more"] += Within(more, 0.0).p_holds <= ALPHA / 8
        decided["within 5 % of a number"] += Within(model.pooled([6]), math.log(0.95), math.log(1.05)).p_holds <= ALPHA
    return {name: count / draws for name, count in decided.items()}


@pytest.mark.parametrize("draws", [pytest.param(60, id="few"), pytest.param(2000, id="many", marks=pytest.mark.long)])
def test_five_blocks_tell_much_where_runs_are_alike_and_little_where_they_are_not(draws: int) -> None:
    found = {spread: decided_by_five_blocks(spread, draws) for spread in (0.01, 0.02, 0.03, 0.05)}
    for spread, decided in found.items():
        print(spread, decided)
    assert min(found[0.01][name] for name in ("maximum", "same within 5 %", "same within 10 %", "10 % more")) > 0.9
    assert found[0.05]["same within 5 %"] < 0.05
    assert found[0.05]["within 5 % of a number"] < 0.3
    assert all(found[0.01][name] >= found[0.05][name] for name in found[0.01])


def test_what_asks_nothing_or_lies_at_the_limit_without_spread_is_not_judged() -> None:
    assert judge_all([[]])[0].answer is Answer.CANNOT_TELL
    equal = Within(Estimate(0.0, 0.0, 5.0), 0.0)
    assert (equal.p_holds, equal.p_fails) == (1.0, 1.0)
