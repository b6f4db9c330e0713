from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from weir_lab.theory.stats import coefficient_of_variation, holm, mean_interval


def test_t_interval_against_a_hand_computed_example() -> None:
    # mean 10, s = sqrt(2.5), t(.975, 4) = 2.776445
    interval = mean_interval([8.0, 9.0, 10.0, 11.0, 12.0])
    assert interval.mean == 10.0
    assert interval.half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)
    assert (interval.n, interval.level) == (5, 0.95)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_t_interval_covers_the_mean_as_often_as_it_says(n: int) -> None:
    trials = 4000
    rng = np.random.default_rng(20161118)
    data = rng.normal(100.0, 5.0, (trials, n))
    covered = sum((i := mean_interval(row.tolist())).low <= 100.0 <= i.high for row in data)
    # Four standard deviations of a binomial count with p = 0.95: fails for a right implementation once in 16,000 seeds.
    assert abs(covered - 0.95 * trials) < 4 * math.sqrt(trials * 0.95 * 0.05)


@given(st.lists(st.floats(1, 1e3), min_size=2, max_size=12, unique=True), st.sampled_from([0.9, 0.95, 0.99]))
def test_intervals_and_p_values_are_scipys(values: list[float], level: float) -> None:
    # The oracle warns of values that differ in their last digits alone.
    assume(max(values) - min(values) > 1e-9 * max(map(abs, values)))
    theirs = scipy.stats.ttest_1samp(values, 100.0)
    interval = theirs.confidence_interval(level)
    ours = mean_interval(values, level)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-6)


def test_the_normal_quantile_would_not_pass_the_coverage_test() -> None:
    trials, n = 4000, 3
    data = np.random.default_rng(20161118).normal(100.0, 5.0, (trials, n))
    half = 1.96 * data.std(axis=1, ddof=1) / math.sqrt(n)
    covered = int((abs(data.mean(axis=1) - 100.0) <= half).sum())
    assert covered < 0.95 * trials - 4 * math.sqrt(trials * 0.95 * 0.05)


def test_holm_against_the_published_rule() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_coefficient_of_variation() -> None:
    assert coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [1.0, math.inf]])
def test_too_few_or_unreal_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="interval needs"):
        mean_interval(values)


def test_windows_of_a_run_are_no_replicates() -> None:
    """Row four of the table in docs/measure/method.md: pooled windows promise 95 % and hold about half of the time."""
    rng = np.random.default_rng(1)
    trials, runs, windows, correlation = 1000, 5, 60, 0.5
    noise = rng.normal(0.0, 3.0, (trials, runs, windows))
    for index in range(1, windows):
        fresh = noise[:, :, index] * math.sqrt(1 - correlation**2)
        noise[:, :, index] = correlation * noise[:, :, index - 1] + fresh
    data = 100.0 + noise + rng.normal(0.0, 1.0, (trials, runs, 1))

    def coverage(replicates: list[list[float]]) -> float:
        intervals = [mean_interval(row) for row in replicates]
        return sum(interval.low <= 100.0 <= interval.high for interval in intervals) / trials

    assert coverage(data.mean(axis=2).tolist()) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / trials))
    assert coverage(data.reshape(trials, -1).tolist()) == pytest.approx(0.49, abs=4 * math.sqrt(0.5 * 0.5 / trials))
