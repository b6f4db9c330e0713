"""2^k r designs: Jain's examples, the studies' recomputed tables (in test_oracles), statsmodels-free least squares as oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.report.numbers.findings import stands_out
from weir_lab.theory.factorial import ErrorOf, Scale, analyse_factorial, check_residuals, compare_models

SQUARE = [[-1, -1], [1, -1], [-1, 1], [1, 1]]
CUBE = [[a, b, c] for c in (-1, 1) for b in (-1, 1) for a in (-1, 1)]
TV27 = [[15, 18, 12], [45, 48, 51], [25, 28, 19], [75, 75, 81]]
TV28 = [[85.10, 79.50, 147.90], [0.891, 1.047, 1.072], [0.955, 0.933, 1.122], [0.0148, 0.0126, 0.0118]]


def test_designs_without_repetition() -> None:
    result = analyse_factorial(SQUARE, [[15], [45], [25], [75]])
    assert [effect.effect for effect in result.effects] == [40, 20, 10, 5]
    assert [e.percent_of_variation for e in result.effects[1:]] == pytest.approx([76.19, 19.05, 4.76], abs=0.005)
    cube = analyse_factorial(CUBE, [[y] for y in (14, 22, 10, 34, 46, 58, 50, 86)])
    assert {e.term: e.effect for e in cube.effects} == {
        "I": 40, "A": 10, "B": 5, "C": 20, "AB": 5, "AC": 2, "BC": 3, "ABC": 1,
    }  # fmt: skip
    assert cube.sst == 4512
    assert cube["C"].percent_of_variation == pytest.approx(70.92, abs=0.005)
    assert cube["A"].percent_of_variation == pytest.approx(17.73, abs=0.005)


def test_one_run_per_cell_says_nothing_about_significance() -> None:
    result = analyse_factorial(SQUARE, [[15], [45], [25], [75]])
    assert all(effect.significant is None and effect.interval is None for effect in result.effects)
    assert (result.sd_error, result.sd_effect, result.freedom) == (None, None, 0)
    with pytest.raises(ValueError, match="repeat the cells"):
        result.predicted_response({"A": 1, "B": 1})
    with pytest.raises(ValueError, match="repeat the cells"):
        result.contrast({"A": 1.0})
    checks = check_residuals(result)
    assert checks.spread_p is None
    assert any("one run per cell" in warning for warning in checks.warnings)


def test_the_repeated_design_of_the_textbook() -> None:
    result = analyse_factorial(SQUARE, TV27, level=0.90)
    assert [e.effect for e in result.effects] == pytest.approx([41, 21.5, 9.5, 5])
    assert (result.ssy, result.ss0, result.sst, result.sse) == pytest.approx((27204, 20172, 7032, 102))
    assert [e.sum_of_squares for e in result.effects[1:]] == pytest.approx([5547, 1083, 300])
    assert [e.percent_of_variation for e in result.effects[1:]] == pytest.approx([78.88, 15.40, 4.27], abs=0.005)
    assert result.percent_error == pytest.approx(1.45, abs=0.005)
    assert (result.sd_error, result.sd_effect) == pytest.approx((3.570714, 1.030776), abs=5e-7)
    intervals = [(e.interval.low, e.interval.high) for e in result.effects if e.interval]
    expected = [(39.08, 42.92), (19.58, 23.42), (7.58, 11.42), (3.08, 6.92)]
    assert intervals == [pytest.approx(pair, abs=0.005) for pair in expected]
    wider = analyse_factorial(SQUARE, TV27)
    assert wider["A"].interval is not None
    assert wider["A"].interval.high - 21.5 == pytest.approx(2.376975, abs=5e-7)
    assert all(e.significant for e in result.effects)


def test_a_contrast_of_the_textbook_with_its_sum_mended() -> None:
    # The book prints 21.5 + 9.5 - 2 * 5 = 11; it is 21.
    contrast = analyse_factorial(SQUARE, TV27, level=0.90).contrast({"A": 1, "B": 1, "AB": -2})
    assert contrast.value == pytest.approx(21.0)
    assert contrast.standard_error == pytest.approx(2.524876, abs=5e-7)
    assert (contrast.low, contrast.high) == pytest.approx((16.305, 25.695), abs=5e-4)


def test_predicted_responses_by_least_squares() -> None:
    result = analyse_factorial(SQUARE, TV27, level=0.90)
    one, mean = result.predicted_response({"A": -1, "B": -1}, 1), result.predicted_response({"A": -1, "B": -1})
    assert (one.value, one.standard_error, one.low, one.high) == pytest.approx((15, 4.1231, 7.33, 22.67), abs=5e-3)
    assert (mean.standard_error, mean.low, mean.high) == pytest.approx((2.0616, 11.17, 18.83), abs=5e-3)
    with pytest.raises(ValueError, match="for each of A, B"):
        result.predicted_response({"A": 1})


def test_the_log_transform_of_the_textbook() -> None:
    additive = analyse_factorial(SQUARE, TV28, level=0.90)
    assert [e.effect for e in additive.effects] == pytest.approx([26.55, -26.04, -26.04, 25.54], abs=0.005)
    assert additive["A"].interval is not None
    assert additive["A"].interval.high - additive["A"].effect == pytest.approx(10.193, abs=5e-4)
    assert additive.percent_error == pytest.approx(10.69, abs=0.005)
    log10 = analyse_factorial(SQUARE, np.log10(TV28), level=0.90)
    assert [e.effect for e in log10.effects] == pytest.approx([0.02856, -0.97147, -0.97149, 0.02857], abs=5e-6)
    assert log10["A"].interval is not None
    assert log10["A"].interval.high - log10["A"].effect == pytest.approx(0.04510, abs=5e-6)
    assert [e.percent_of_variation for e in log10.effects[1:]] == pytest.approx([49.85, 49.86, 0.04], abs=0.005)
    assert log10.percent_error == pytest.approx(0.25, abs=0.005)
    assert [e.significant for e in log10.effects] == [False, True, True, False]
    choice = compare_models(SQUARE, TV28)
    assert choice.scale is Scale.LOGARITHMIC
    assert check_residuals(additive).range_ratio == pytest.approx(12_534, abs=0.5)


def test_additive_data_stay_additive() -> None:
    assert (
        compare_models(SQUARE, [[100, 101, 99], [110, 109, 111], [120, 121, 119], [130, 131, 129]]).scale
        is Scale.ADDITIVE
    )
    negative = compare_models(SQUARE, [[-1, 1], [2, 3], [4, 5], [6, 7]])
    assert negative.scale is Scale.ADDITIVE
    assert negative.logarithmic is None


def test_drift_and_outliers_are_seen() -> None:
    rng = np.random.default_rng(1)
    y = np.array([[100.0], [200], [300], [400]]) + rng.normal(0, 1.0, (4, 6))
    order = np.arange(24).reshape(6, 4).T
    assert check_residuals(analyse_factorial(SQUARE, y), order).warnings == ()
    drifting = check_residuals(analyse_factorial(SQUARE, y + order), order)
    assert any("drift" in warning for warning in drifting.warnings)
    y[0, 0] += 60.0
    assert any("normal" in warning for warning in check_residuals(analyse_factorial(SQUARE, y)).warnings)


@pytest.mark.parametrize("levels", [[[-1], [2]], [[-1, -1], [1, 1], [1, 1], [-1, 1]], [[-1, 1]]])
def test_incomplete_designs_are_refused(levels: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"levels|combinations"):
        analyse_factorial(levels, [[1.0, 2.0]] * len(levels))
    with pytest.raises(ValueError, match="not finite"):
        analyse_factorial([[-1], [1]], [[1.0, math.nan], [1.0, 2.0]])


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 5))
def test_effects_are_least_squares_and_squares_add_up(seed: int, k: int, r: int) -> None:
    rng = np.random.default_rng(seed)
    levels = np.array([[1 if i >> j & 1 else -1 for j in range(k)] for i in range(2**k)])[rng.permutation(2**k)]
    y = rng.normal(1000.0, 10.0, (2**k, r))
    result = analyse_factorial(levels, y)
    assert sum(e.sum_of_squares for e in result.effects[1:]) + result.sse == pytest.approx(result.sst)
    assert result.sst == pytest.approx(float(((y - y.mean()) ** 2).sum()))
    for cell, row in enumerate(levels):
        at = dict(zip(result.factors, row.tolist(), strict=True))
        assert result.predicted_response(at).value == pytest.approx(y[cell].mean())


def test_intervals_of_effects_cover() -> None:
    rng = np.random.default_rng(20_161_118)
    trials = 2000
    truth = np.array([[100.0], [140.0], [120.0], [170.0]])
    held = 0
    for noise in rng.normal(0.0, 5.0, (trials, 4, 3)):
        interval = analyse_factorial(SQUARE, truth + noise)["AB"].interval
        assert interval is not None
        held += interval.low <= 2.5 <= interval.high
    assert abs(held - 0.95 * trials) < 4 * math.sqrt(trials * 0.95 * 0.05)


CUBE = [[1 if place >> bit & 1 else -1 for bit in range(3)] for place in range(8)]


def test_two_runs_of_each_cell_hide_no_loud_one() -> None:
    """Blocks smear what two runs of one cell differ by over all cells, so that no check of spreads sees it.

    With the degrees of freedom of eight cells an interval of 95 % held in three quarters of such designs.
    """
    rng = np.random.default_rng(20_261_127)
    spread = np.array([1.0, *[0.001] * 7])[:, None]
    held, trials = 0, 800
    for noise in rng.normal(0.0, 1.0, (trials, 8, 2)):
        result = analyse_factorial(CUBE, 1000.0 + spread * noise, blocked=True)
        interval = result["A"].interval
        assert interval is not None
        assert result.error_of is ErrorOf.CELLS
        assert interval.freedom < 3.0
        held += interval.low <= 0.0 <= interval.high
    assert held >= 0.92 * trials


def test_effects_with_their_noise_from_one_cell_are_not_compared_as_independent() -> None:
    """|A| = |B| with opposite signs: their difference has all of the loud cell's noise, and 'more than' was wrong twice too often."""
    rng = np.random.default_rng(20_261_128)
    spread = np.array([1.0, 0.001, 0.001, 0.001])[:, None]
    truth = 100.0 + np.array([[10.0 * (row[0] - row[1])] for row in SQUARE])
    wrong, trials = 0, 1500
    for noise in rng.normal(0.0, 1.0, (trials, 4, 5)):
        result = analyse_factorial(SQUARE, truth + spread * noise, blocked=True)
        own, other = result["A"].effect, result["B"].effect
        found = result.difference("A", "B", math.copysign(1.0, other) * math.copysign(1.0, own))
        wrong += found.low > 0.0
    assert wrong <= 0.025 * trials + 3 * math.sqrt(trials * 0.025 * 0.975)
    # With one spread the difference has the error of two independent effects.
    alike = analyse_factorial(SQUARE, truth + rng.normal(0.0, 1.0, (4, 8)), blocked=True)
    assert alike.error_of is ErrorOf.POOLED
    assert alike.sd_effect is not None
    assert alike.difference("A", "B").standard_error == pytest.approx(math.sqrt(2.0) * alike.sd_effect)


def test_the_largest_of_many_effects_is_large_by_chance() -> None:
    rng = np.random.default_rng(20_261_129)
    levels = [[1 if place >> bit & 1 else -1 for bit in range(4)] for place in range(16)]
    called, trials = 0, 300
    for noise in rng.normal(100.0, 1.0, (trials, 16, 3)):
        result = analyse_factorial(levels, noise)
        terms = [one for one in result.effects if one.term != "I"]
        called += stands_out(max(terms, key=lambda one: one.sum_of_squares), len(terms))
    assert called <= 0.05 * trials + 3 * math.sqrt(trials * 0.05 * 0.95)
