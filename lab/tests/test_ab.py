"""The verdicts of `weir-lab ab`: rules, properties, and error rates of simulated comparisons."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from synthetic_ab import Machine, Recorded, ended, lives_of
from weir_lab.cli.ab.command import EXIT_STATUS
from weir_lab.errors import RecordError
from weir_lab.records.comparisons import Budget, LifeRecord, Metric, PieceRecord, Rule, pairs_of, worst
from weir_lab.theory.stats.stopping import (
    Direction,
    Look,
    Pair,
    SequentialPlan,
    Verdict,
    judge,
    life_values,
    slope_on_slowness,
)

RULE = Rule(same_within=0.02)
ONE_LOOK = (Look(6, 1.0),)


def verdicts(machine: Machine, effect: float, comparisons: int, lives: int = 24, seed: int = 1) -> Counter[Verdict]:
    random = np.random.default_rng(seed)
    return Counter(ended(lives_of(random, machine, lives, effect), RULE).verdict for _ in range(comparisons))


def at_most(nominal: float, trials: int) -> float:
    """A count that a right method passes in all but one of a thousand test runs."""
    return trials * nominal + 3.1 * math.sqrt(trials * nominal) + 1.0


@pytest.mark.parametrize(
    ("values", "margin", "expected"),
    [
        ([0.050, 0.051, 0.049, 0.050, 0.052, 0.048], 0.02, Verdict.FASTER),
        ([-0.050, -0.051, -0.049, -0.050, -0.052, -0.048], 0.02, Verdict.SLOWER),
        ([0.001, -0.001, 0.001, -0.001, 0.001, -0.001], 0.02, Verdict.SAME),
        ([0.010, 0.011, 0.009, 0.010, 0.012, 0.008], 0.02, Verdict.SAME),
        ([0.010, 0.011, 0.009, 0.010, 0.012, 0.008], 0.001, Verdict.FASTER),
        ([0.1, -0.1, 0.2, -0.2, 0.1, -0.1], 0.02, Verdict.CANNOT_TELL),
    ],
)
def test_verdicts_of_throughputs(values: list[float], margin: float, expected: Verdict) -> None:
    assert judge(values, ONE_LOOK, SequentialPlan(), margin, Direction.HIGHER_IS_FASTER).verdict is expected


@given(st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6).filter(lambda values: np.std(values) > 1e-9))
def test_to_exchange_a_and_b_or_times_and_rates_turns_the_verdict_round(values: list[float]) -> None:
    turned = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    plain = judge(values, ONE_LOOK, SequentialPlan(), 0.02, Direction.HIGHER_IS_FASTER)
    exchanged = judge([-value for value in values], ONE_LOOK, SequentialPlan(), 0.02, Direction.HIGHER_IS_FASTER)
    times = judge(values, ONE_LOOK, SequentialPlan(), 0.02, Direction.LOWER_IS_FASTER)
    for other in (exchanged, times):
        assert other.verdict is turned.get(plain.verdict, plain.verdict)
    assert exchanged.log_change.low == pytest.approx(-plain.log_change.high)


@given(st.floats(-0.5, 0.5), st.integers(0, 2**32 - 1))
def test_verdict_and_interval_agree(effect: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(effect, 0.02, 6)
    found = judge(values, ONE_LOOK, SequentialPlan(), 0.02, Direction.HIGHER_IS_FASTER)
    low, high = found.log_change.low, found.log_change.high
    inside, margin = low <= 0.0 <= high, math.log(1.02)
    if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
        assert not inside
    elif found.verdict is Verdict.SAME:
        assert -margin < low
        assert high < margin
    else:
        assert inside


def test_a_burst_in_single_pieces_does_not_move_a_life() -> None:
    quiet = [Pair(0.05 + 0.001 * number) for number in range(10)]
    burst = [Pair(-3.0), *quiet[1:9], Pair(4.0)]
    assert life_values([burst])[0] == pytest.approx(life_values([quiet])[0], abs=1e-9)


def test_pieces_without_an_answer_are_extreme_and_too_many_are_an_error() -> None:
    few = [*[Pair(0.01)] * 10, Pair(-math.inf), Pair(math.inf)]
    assert life_values([few])[0] == pytest.approx(0.01)
    with pytest.raises(RecordError, match="nothing, or too little for the metric, was answered"):
        life_values([[*[Pair(0.01)] * 8, *[Pair(-math.inf)] * 4]])


def test_what_the_yardstick_sees_is_taken_out() -> None:
    random = np.random.default_rng(4)
    machine = Machine(yardstick=1.0, burst_share=0.0, life_sd=0.0, sd=0.1)
    lives = lives_of(random, machine, 30, effect=0.05)
    assert slope_on_slowness(lives) == pytest.approx(1.0, abs=0.1)
    plain, adjusted = life_values(lives, adjusted=False), life_values(lives)
    assert adjusted.std() < 0.5 * plain.std()
    assert adjusted.mean() == pytest.approx(-0.05, abs=0.01)


def test_a_yardstick_that_sees_nothing_changes_nothing() -> None:
    lives = [[Pair(0.1 * (-1) ** number, 0.0) for number in range(8)] for _ in range(6)]
    assert slope_on_slowness(lives) == 0.0
    assert (life_values(lives) == life_values(lives, adjusted=False)).all()


DISTURBED = [
    Machine(),
    Machine(correlation=0.95, sd=0.1, drift=0.5),
    Machine(correlation=0.9, burst_share=0.5, yardstick=0.8),
    Machine(correlation=0.0, sd=0.02, burst_share=0.05, life_sd=0.03),
]


@pytest.mark.parametrize("machine", DISTURBED[:2])
def test_equal_sides_are_seldom_distinguished(machine: Machine) -> None:
    found = verdicts(machine, 0.0, 100)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= at_most(0.025, 100)


def test_a_difference_of_the_margin_is_seldom_the_same() -> None:
    found = verdicts(Machine(burst_share=0.05), math.log(1.02), 100)
    assert found[Verdict.SAME] + found[Verdict.FASTER] <= at_most(0.025, 100)


def test_equal_sides_are_the_same_on_a_quiet_machine_and_five_percent_are_found_on_a_disturbed_one() -> None:
    quiet = Machine(sd=0.01, burst_share=0.01, life_sd=0.004)
    assert verdicts(quiet, 0.0, 30)[Verdict.SAME] >= 27
    assert verdicts(Machine(), math.log(1.05), 30, lives=100)[Verdict.SLOWER] >= 27


@pytest.mark.long
@pytest.mark.parametrize("machine", DISTURBED)
def test_long_errors_of_five_thousand_comparisons(machine: Machine) -> None:
    found = verdicts(machine, 0.0, 5_000, seed=2)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= at_most(0.025, 5_000)
    found = verdicts(machine, math.log(1.02), 5_000, seed=3)
    assert found[Verdict.SAME] + found[Verdict.FASTER] <= at_most(0.025, 5_000)


RECORDED = Recorded.read(Path(__file__).parent / "data" / "ab-pairs.csv")


def recorded_verdicts(effect: float, comparisons: int, lives: int, *, dealt_anew: bool) -> Counter[Verdict]:
    random = np.random.default_rng(6)
    made = (RECORDED.lives(random, lives, effect, dealt_anew=dealt_anew) for _ in range(comparisons))
    return Counter(ended(one, RULE).verdict for one in made)


def before_after(random: np.random.Generator, lives: int) -> bool:
    """Whether Welch's test on pieces tells A in the first half from A in the second: what is done without lives and turns."""
    at = (random.integers(len(RECORDED.first)) + np.arange(lives)) % len(RECORDED.first)
    pieces = RECORDED.first[at]
    welch = stats.ttest_ind(pieces[: lives // 2].ravel(), pieces[lives // 2 :].ravel(), equal_var=False)
    return bool(welch.pvalue < 0.025)


@pytest.mark.parametrize("dealt_anew", [True, False])
def test_recorded_pieces_of_equal_sides_are_seldom_distinguished(dealt_anew: bool) -> None:
    found = recorded_verdicts(0.0, 60, 16, dealt_anew=dealt_anew)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= at_most(0.025, 60)


def test_a_before_and_after_of_the_same_recording_is_wrong_far_more_often() -> None:
    random = np.random.default_rng(8)
    assert RECORDED.correlation() > 0.1
    assert sum(before_after(random, 16) for _ in range(200)) > 3 * at_most(0.025, 200)


@pytest.mark.long
@pytest.mark.parametrize("dealt_anew", [True, False])
def test_long_five_thousand_comparisons_with_recorded_autocorrelation(dealt_anew: bool) -> None:
    found = recorded_verdicts(0.0, 5_000, 16, dealt_anew=dealt_anew)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= at_most(0.025, 5_000)


def life(values: list[tuple[str, int, int]], yardstick: list[int] | None = None) -> LifeRecord:
    """Pieces of (side, pair, requests per second)."""
    readings = yardstick or [250_000] * (len(values) + 1)
    return LifeRecord(
        number=1,
        begun_unix_ns=1,
        took_s=3.0,
        first="A",
        pieces=[
            PieceRecord(
                side=side,
                clients=16,
                pair=pair,
                begun_ns=place,
                requests=rate,
                throughput_rps=float(rate),
                mean_ns=1e9 / rate if rate else None,
            )
            for place, (side, pair, rate) in enumerate(values)
        ],
        yardstick_ns=[{"0": reading} for reading in readings],
    )


def test_pairs_are_b_over_a_and_the_first_is_left_out() -> None:
    made = life([("A", 0, 100), ("B", 0, 1), ("B", 1, 200), ("A", 1, 100)])
    assert [pair.log_ratio for pair in pairs_of(made, Metric.THROUGHPUT, 16)] == pytest.approx([math.log(2.0)])
    assert [pair.log_ratio for pair in pairs_of(made, Metric.RESPONSE_TIME, 16)] == pytest.approx([-math.log(2.0)])


def test_the_yardstick_of_a_piece_is_read_on_both_sides_of_it() -> None:
    made = life([("A", 1, 100), ("B", 1, 100)], [100, 300, 500])
    assert pairs_of(made, Metric.THROUGHPUT, 16)[0].log_slowness == pytest.approx(math.log(400 / 200))


def test_a_side_that_stands_still_is_not_overlooked() -> None:
    made = life([("A", 1, 100), ("B", 1, 0), ("A", 2, 0), ("B", 2, 0)])
    assert [pair.log_ratio for pair in pairs_of(made, Metric.THROUGHPUT, 16)] == [-math.inf]
    assert [pair.log_ratio for pair in pairs_of(made, Metric.RESPONSE_TIME, 16)] == [math.inf]


def test_a_piece_with_too_few_requests_for_a_percentile_is_the_slowest() -> None:
    """To leave its pair out would hide pieces of the slower side."""
    made = life([(side, pair, 1000) for pair in range(1, 11) for side in "AB"])
    few = [piece.model_copy(update={"p99_ns": None if place == 5 else 1000}) for place, piece in enumerate(made.pieces)]
    ratios = [pair.log_ratio for pair in pairs_of(made.model_copy(update={"pieces": few}), Metric.P99, 16)]
    assert ratios == [0.0, 0.0, math.inf, *[0.0] * 7]
    with pytest.raises(RecordError, match="too few requests"):
        pairs_of(made, Metric.P99, 16)


def test_a_metric_that_is_not_there_is_named() -> None:
    with pytest.raises(RecordError, match=r"(A|B) has no cpu"):
        pairs_of(life([("A", 1, 100), ("B", 1, 100)]), Metric.CPU, 16)


def test_a_budget_goes_by_what_is_used_first() -> None:
    budget = Budget(seconds=100.0, lives=20)
    assert budget.used(10.0, 10) == 0.5
    assert budget.used(90.0, 10) == 0.9
    assert budget.used(200.0, 10) == 1.0
    assert budget.allows(100.0, 20)
    assert not budget.allows(100.1, 20)
    assert not budget.allows(50.0, 21)
    with pytest.raises(ValueError, match="budget"):
        Budget()


def test_a_build_may_pass_if_it_is_slower_at_no_level() -> None:
    assert worst([Verdict.FASTER, Verdict.SAME]) is Verdict.SAME
    assert worst([Verdict.FASTER, Verdict.CANNOT_TELL, Verdict.SAME]) is Verdict.CANNOT_TELL
    assert worst([Verdict.CANNOT_TELL, Verdict.SLOWER]) is Verdict.SLOWER


def test_with_a_precision_it_goes_on_until_the_interval_is_narrow() -> None:
    random = np.random.default_rng(2)
    lives = [[Pair(float(random.normal(-0.5, 0.05))) for _ in range(8)] for _ in range(60)]
    plain = ended(lives, RULE)
    assert (plain.verdict, plain.looks[-1].n) == (Verdict.SLOWER, 5)
    narrow = ended(lives, Rule(precision=0.01))
    _, low, high = narrow.judgement.change if narrow.judgement else (0.0, 0.0, 0.0)
    assert 5 < narrow.looks[-1].n < 60
    assert (high - low) / 2.0 <= 1.0


def test_pairs_are_those_of_their_level() -> None:
    one, other = life([("A", 1, 100), ("B", 1, 200)]), life([("A", 1, 100), ("B", 1, 300)])
    moved = [piece.model_copy(update={"clients": 64}) for piece in other.pieces]
    both = one.model_copy(update={"pieces": [*one.pieces, *moved], "yardstick_ns": [{"0": 1}] * 5})
    assert [pair.log_ratio for pair in pairs_of(both, Metric.THROUGHPUT, 16)] == pytest.approx([math.log(2.0)])
    assert [pair.log_ratio for pair in pairs_of(both, Metric.THROUGHPUT, 64)] == pytest.approx([math.log(3.0)])


def test_the_status_says_whether_a_build_may_pass() -> None:
    assert {verdict.value: status for verdict, status in EXIT_STATUS.items()} == {
        "faster": 0,
        "same": 0,
        "slower": 3,
        "cannot tell": 4,
    }


def test_a_comparison_that_has_too_few_lives_cannot_tell() -> None:
    outcome = ended([[Pair(0.5)] * 12] * 4, RULE)
    assert outcome.verdict is Verdict.CANNOT_TELL
    assert outcome.judgement is None
