"""Comparisons of two systems: Jain's examples, scipy as oracle, equivalence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from weir_lab.theory.stats import (
    Alternative,
    equivalence,
    paired_change,
    paired_difference,
    unpaired_change,
    welch_difference,
)

# Jain, examples 13.5 and 13.6 (A, B)
PAIRS = [(5.4, 19.1), (16.6, 3.5), (0.6, 3.4), (1.4, 2.5), (0.6, 3.6), (7.3, 1.7)]
A, B = [5.36, 16.57, 0.62, 1.41, 0.64, 7.26], [19.12, 3.52, 3.38, 2.50, 3.60, 1.74]


def test_two_systems_paired_as_in_the_textbook() -> None:
    change = paired_difference([b for _, b in PAIRS], [a for a, _ in PAIRS], 0.90)
    assert change.mean == pytest.approx(-0.316667, abs=5e-7)
    assert change.standard_error * math.sqrt(6) == pytest.approx(9.034471, abs=5e-7)
    assert (change.low, change.high) == pytest.approx((-7.748784, 7.115451), abs=5e-7)


def test_two_systems_unpaired_by_welch() -> None:
    change = welch_difference(B, A, 0.90)
    assert change.freedom == pytest.approx(9.943431, abs=5e-7)
    assert (change.low, change.high) == pytest.approx((-7.038828, 6.372161), abs=5e-7)


values = st.lists(st.floats(0.1, 1e3), min_size=3, max_size=9)


@given(values, values, st.sampled_from(list(Alternative)))
def test_welch_is_scipys(left: list[float], right: list[float], alternative: Alternative) -> None:
    assume(np.std(left) > 1e-6 * max(left))
    assume(np.std(right) > 1e-6 * max(right))
    ours = welch_difference(left, right, alternative=alternative)
    theirs = scipy.stats.ttest_ind(right, left, equal_var=False, alternative=alternative.value)
    interval = theirs.confidence_interval(0.95)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-6)


def test_unpaired_change_is_the_ratio_of_geometric_means() -> None:
    change = unpaired_change([100.0, 400.0], [100.0, 100.0, 100.0])
    assert change.percent == pytest.approx(-50.0)
    assert change.low < change.percent < change.high


def test_equivalence_needs_the_whole_interval_inside_the_margin() -> None:
    rng = np.random.default_rng(4)
    base = rng.normal(100.0, 0.5, 10)
    near = base * np.exp(rng.normal(0.0, 0.005, 10))
    result = equivalence(base, near, margin_percent=2.0)
    assert result.shown
    assert result.change.low > 100 * (1 / 1.02 - 1)
    assert result.change.high < 2.0
    assert not equivalence(base, near * 1.03, margin_percent=2.0).shown
    # An interval that merely holds 0 shows nothing.
    wild = base * np.exp(rng.normal(0.0, 0.2, 10))
    assert paired_change(base, wild).low < 0 < paired_change(base, wild).high
    assert not equivalence(base, wild, margin_percent=2.0).shown
    assert not equivalence(base, wild, margin_percent=2.0, paired=False).shown


@given(st.integers(0, 2**32 - 1), st.floats(0.5, 10.0), st.booleans())
def test_equivalence_is_shown_exactly_when_the_interval_lies_inside(seed: int, margin: float, paired: bool) -> None:
    rng = np.random.default_rng(seed)
    base, other = np.exp(rng.normal(0.0, 0.02, (2, 6)))
    result = equivalence(base, other, margin, paired=paired)
    inside = result.change.low > 100 * (1 / (1 + margin / 100) - 1) and result.change.high < margin
    assert result.shown == inside
    assert result.change.level == pytest.approx(0.9)


def test_equivalence_errs_as_seldom_as_it_says() -> None:
    # True change exactly at the margin: showing equivalence is an error, allowed in 5 of 100.
    rng = np.random.default_rng(8)
    trials = 3000
    wrong = sum(equivalence(np.ones(6), 1.02 * np.exp(row), 2.0).shown for row in rng.normal(0.0, 0.004, (trials, 6)))
    assert wrong < 0.05 * trials + 4 * math.sqrt(trials * 0.05 * 0.95)


def test_one_sided_intervals_are_open_on_the_other_side() -> None:
    more = paired_difference([1.0, 2.0, 3.0], [2.0, 3.5, 4.2], alternative=Alternative.GREATER)
    less = paired_difference([1.0, 2.0, 3.0], [2.0, 3.5, 4.2], alternative=Alternative.LESS)
    assert more.high == math.inf
    assert less.low == -math.inf
    assert more.p + less.p == pytest.approx(1.0)
    same = [paired_difference([1.0, 2.0], [1.0, 2.0], alternative=which).p for which in Alternative]
    assert same == [1.0, 1.0, 1.0]
