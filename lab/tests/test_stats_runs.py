"""Stop rule, batch means, variance components, warm-up, percentiles, placement: published vectors, coverage, properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.theory.stats import (
    Decision,
    StopRule,
    expected_distance_if_uniform,
    mean_interval,
    mser5,
    percentile_min_count,
    placement_uniformity,
    running_half_widths,
    runs_for_precision,
    sample_size,
    statistical_distance,
    variance_components,
    warmup_cut,
)

SEED = 20_161_118


def test_the_interval_on_run_means_covers_as_it_says() -> None:
    data = np.random.default_rng(SEED).normal(100.0, 5.0, (20_000, 5))
    intervals = [mean_interval(row) for row in data]
    coverage = sum(interval.low <= 100.0 <= interval.high for interval in intervals) / len(intervals)
    assert 0.94 < coverage < 0.96


@pytest.mark.parametrize(
    ("cv", "runs_min", "coverage", "runs"),
    [
        (0.05, 2, 0.901, 5.8),
        (0.05, 3, 0.924, 6.0),
        (0.05, 5, 0.941, 6.7),
        (0.10, 2, 0.869, None),
        (0.10, 3, 0.908, 16.0),
        (0.10, 5, 0.918, 16.0),
        (0.10, 8, 0.936, 17.0),
    ],
)
def test_the_stop_rule_covers_as_the_method_says(cv: float, runs_min: int, coverage: float, runs: float | None) -> None:
    # Of 60,000 the share is known to 0.13 points; the published figures have an error of their own.
    trials, rule = 60_000, StopRule(runs_min=runs_min, runs_max=60)
    data = np.random.default_rng(SEED).normal(1.0, cv, (trials, rule.runs_max))
    widths = running_half_widths(data, rule.level)
    narrow = widths <= rule.relative_half_width
    narrow[:, : runs_min - 1] = False
    assert narrow.any(axis=1).mean() > 0.999
    narrow[:, -1] = True
    stop = narrow.argmax(axis=1)
    rows = np.arange(trials)
    means = np.cumsum(data, axis=1)[rows, stop] / (stop + 1)
    held = np.abs(means - 1.0) <= widths[rows, stop] * np.abs(means)
    assert held.mean() == pytest.approx(coverage, abs=0.015)
    if runs is not None:
        assert (stop + 1).mean() == pytest.approx(runs, rel=0.05)
    # The rule itself decides as its vectorised form does.
    for row in range(50):
        at = int(stop[row])
        assert rule.decide(data[row, : at + 1]) is not Decision.CONTINUE
        assert rule.decide(data[row, :at]) is Decision.CONTINUE


def test_the_stop_rule_looks_at_every_response_and_gives_up_loudly() -> None:
    rule = StopRule(runs_min=3, runs_max=4)
    steady, wild = [100.0, 101.0, 99.0, 100.0], [1.0, 9.0, 3.0, 5.0]
    assert rule.decide(steady[:3]) is Decision.CONVERGED
    assert rule.decide(steady[:3], wild[:3]) is Decision.CONTINUE
    assert rule.decide(steady, wild) is Decision.NOT_CONVERGED
    assert rule.decide([0.0, 0.0, 0.0]) is Decision.CONTINUE
    with pytest.raises(ValueError, match="same runs"):
        rule.decide(steady, wild[:2])


@given(st.lists(st.floats(1e6, 1.001e6), min_size=2, max_size=30))
def test_running_half_widths_are_those_of_the_interval(values: list[float]) -> None:
    interval = mean_interval(values)
    assert running_half_widths(values)[-1] == pytest.approx(interval.half_width / interval.mean, rel=1e-6, abs=1e-12)


def test_sample_size_of_the_textbook() -> None:
    # vector 26: 96.04 -> 97; the quantile 1.959964 gives 96.036
    assert sample_size(20.0, 5.0, 0.05) == 97
    assert runs_for_precision([100.0, 100.0, 100.0]) == 3


def test_the_two_stage_plan_covers_as_it_says() -> None:
    rng = np.random.default_rng(SEED)
    held, trials = 0, 3000
    for _ in range(trials):
        pilot = rng.normal(1.0, 0.1, 5)
        n = runs_for_precision(pilot, 0.08)
        data = np.concatenate([pilot, rng.normal(1.0, 0.1, n - 5)])
        # Stein's interval uses the spread of the pilot.
        held += abs(data.mean() - 1.0) <= 2.7764451 * pilot.std(ddof=1) / math.sqrt(n)
    assert abs(held - 0.95 * trials) < 4 * math.sqrt(trials * 0.95 * 0.05)


def test_variance_components_are_recovered() -> None:
    rng = np.random.default_rng(SEED)
    runs = 10.0 + rng.normal(0, 2.0, (3000, 1)) + rng.normal(0, 3.0, (3000, 20))
    parts = variance_components(list(runs))
    assert parts.within == pytest.approx(9.0, rel=0.05)
    assert parts.between == pytest.approx(4.0, rel=0.1)
    assert parts.more_runs_help
    assert not variance_components([[1.0, 5.0], [2.0, 4.0]]).more_runs_help


def test_variance_components_of_unequal_runs_against_one_way_anova() -> None:
    runs = [[1.0, 2.0, 3.0], [4.0, 6.0], [5.0, 5.5, 7.0, 8.0]]
    parts = variance_components(runs)
    f = scipy.stats.f_oneway(*runs).statistic
    assert (parts.between * parts.windows_per_run + parts.within) / parts.within == pytest.approx(f)


def test_mser5_deletes_the_first_ten_of_vector_25() -> None:
    series = [10.0, 20, 30, 40, 50, 60, 70, 80, 85, 90] + [100.0, 101, 99, 102, 98] * 10
    cut = mser5(series)
    assert (cut.delete, cut.n, cut.stationary) == (10, 60, True)
    assert warmup_cut(series, floor=25).delete == 25
    assert warmup_cut([100.0, 99.0] * 30, series).delete == 10


def test_mser5_says_when_there_is_no_steady_state() -> None:
    assert not mser5(np.linspace(0.0, 100.0, 200)).stationary
    assert mser5([7.0] * 60).delete == 0
    with pytest.raises(ValueError, match="at least 50"):
        mser5([1.0] * 49)


@given(st.lists(st.floats(0.0, 1e3), min_size=50, max_size=120), st.floats(-1e4, 1e4))
def test_mser5_is_the_plain_formula_and_does_not_mind_a_shift(values: list[float], shift: float) -> None:
    batches = np.asarray(values)[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    plain = [
        ((batches[d:] - batches[d:].mean()) ** 2).sum() / (batches.size - d) ** 2 for d in range(batches.size // 2 + 1)
    ]
    for data in (values, np.asarray(values) + shift):
        cut = mser5(data)
        assert cut.delete <= len(values) // 2
        assert plain[cut.delete // 5] <= min(plain) * (1 + 1e-9) + 1e-9


def test_percentile_minimum_counts_are_the_published_ones() -> None:
    assert [percentile_min_count(p) for p in (90.0, 95.0, 99.0, 99.9)] == [29, 59, 299, 2995]
    assert percentile_min_count(50.0) == 6


def test_uniformity_against_scipy() -> None:
    counts = [100, 120, 90, 95, 105]
    ours, theirs = placement_uniformity(counts), scipy.stats.chisquare(counts)
    assert (ours.chi_square, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    weighted = placement_uniformity([300, 100], [0.75, 0.25])
    assert (weighted.chi_square, weighted.distance) == (0.0, 0.0)
    with pytest.raises(ValueError, match="add up to 1"):
        statistical_distance([1, 2], [0.5, 0.6])


def test_the_expected_distance_of_a_perfect_hash_is_what_simulation_gives() -> None:
    rng = np.random.default_rng(SEED)
    draws = rng.multinomial(50, [0.5, 0.3, 0.2], 20_000)
    mean = np.mean([statistical_distance(row, [0.5, 0.3, 0.2]) for row in draws[:4000]])
    assert expected_distance_if_uniform(50, 3, [0.5, 0.3, 0.2]) == pytest.approx(mean, rel=0.03)
    assert expected_distance_if_uniform(100_000, 7) == pytest.approx(
        expected_distance_if_uniform(100_000, 7, normal=True), rel=1e-4
    )
