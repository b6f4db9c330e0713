"""Repeated looks with one error rate: the boundaries against published ones, and their error by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, stdtrit
from scipy.stats import multivariate_normal

from weir_lab.theory.stats import mean_interval
from weir_lab.theory.stats.stopping import Look, SequentialPlan, boundaries, repeated_interval

# The plan gives out nine tenths of its error (the rest is kept for Student's step): plans of the published tables ask for so much more.
WHOLE = 1.0 / 0.9


def looks_of(counts: list[int]) -> tuple[Look, ...]:
    return tuple(Look(n, n / counts[-1]) for n in counts)


def students(bound: float, freedom: int) -> float:
    return -float(stdtrit(freedom, ndtr(-bound)))


def error_of(plan: SequentialPlan, budget: int, studies: int, seed: int, draw: str = "normal") -> float:
    """Share of simulated comparisons of equal things in which any look's interval leaves 0 out."""
    counts, n = [], 0
    while n < budget:
        n = min(budget, plan.next_n(n))
        counts.append(n)
    looks = looks_of(counts)
    random = np.random.default_rng(seed)
    quantiles = [students(bound, look.n - 1) for bound, look in zip(boundaries(looks, plan), looks, strict=True)]
    total, squares, wrong = np.zeros(studies), np.zeros(studies), np.zeros(studies, dtype=bool)
    made = 0
    for look, quantile in zip(looks, quantiles, strict=True):
        while made < look.n:
            step = random.standard_normal(studies) if draw == "normal" else random.standard_t(3, studies)
            total, squares, made = total + step, squares + step * step, made + 1
        sd = np.sqrt((squares - total**2 / made) / (made - 1))
        wrong |= np.abs(total / made) > quantile * sd / math.sqrt(made)
    return float(wrong.mean())


def test_two_looks_against_the_bivariate_normal_distribution() -> None:
    plan = SequentialPlan(error=0.05)
    first, second = boundaries((Look(10, 0.4), Look(30, 1.0)), plan)
    correlation = math.sqrt(10 / 30)
    joint = multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]])
    inside = sum(
        sign * joint.cdf([x, y])
        for sign, x, y in ((1, first, second), (-1, -first, second), (-1, first, -second), (1, -first, -second))
    )
    assert 2.0 * ndtr(-first) == pytest.approx(0.9 * 0.05 * 0.4)
    assert 1.0 - inside == pytest.approx(0.9 * 0.05, abs=1e-4)


def test_five_equal_steps_spent_evenly_as_published() -> None:
    """Lan and DeMets (1983): alpha * t at five equal steps, .05 for two sides together."""
    bounds = boundaries(looks_of([20, 40, 60, 80, 100]), SequentialPlan(error=0.05 * WHOLE))
    assert bounds == pytest.approx((2.576, 2.491, 2.415, 2.345, 2.282), abs=0.02)


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.floats(0.005, 0.2),
    st.sampled_from([0.5, 1.0, 2.0, 3.0]),
)
def test_what_all_looks_spend_adds_up_to_the_error(steps: list[int], error: float, power: float) -> None:
    """An independent walk on a fine lattice leaves the boundaries as often as was to be spent."""
    counts = np.cumsum([5, *steps]).tolist()
    plan = SequentialPlan(error=error, power=power)
    bounds = boundaries(looks_of(counts), plan)
    left = lattice_error(counts, bounds)
    assert left == pytest.approx(0.9 * error, rel=0.03, abs=2e-5)


def lattice_error(counts: list[int], bounds: tuple[float, ...]) -> float:
    width = 0.02 * math.sqrt(counts[0])
    reach = 9.0 * math.sqrt(counts[-1])
    grid = np.arange(-reach, reach + width, width)
    mass = np.exp(-0.5 * grid**2 / counts[0])
    mass /= mass.sum()
    before = counts[0]
    for n, bound in zip(counts, bounds, strict=True):
        if n > before:
            offsets = np.arange(
                -math.ceil(8 * math.sqrt(n - before) / width), math.ceil(8 * math.sqrt(n - before) / width) + 1
            )
            kernel = np.exp(-0.5 * (offsets * width) ** 2 / (n - before))
            kernel /= kernel.sum()
            mass = np.convolve(mass, kernel, mode="same")
        edge = bound * math.sqrt(n)
        # The cell that the edge cuts keeps its part inside.
        mass = mass * np.clip((edge - np.abs(grid)) / width + 0.5, 0.0, 1.0)
        before = n
    return 1.0 - float(mass.sum())


@pytest.mark.parametrize(("budget", "draw"), [(5, "normal"), (20, "normal"), (100, "normal"), (30, "heavy")])
def test_error_of_all_looks_together_is_at_most_what_was_asked_for(budget: int, draw: str) -> None:
    studies = 40_000
    error = error_of(SequentialPlan(error=0.025), budget, studies, seed=7, draw=draw)
    assert error <= 0.025 + 3.0 * math.sqrt(0.025 / studies)
    assert error >= 0.010  # and not because nothing is ever found


def test_looking_every_time_with_students_interval_would_be_wrong_far_more_often() -> None:
    """What the boundaries are for: this is the test that the tests above can fail."""
    random = np.random.default_rng(3)
    values = random.standard_normal((600, 100))
    wrong = 0
    for row in values:
        wrong += any(
            abs(row[:n].mean()) > students(1.96, n - 1) * row[:n].std(ddof=1) / math.sqrt(n) for n in range(5, 101, 5)
        )
    assert wrong / 600 > 0.1


@pytest.mark.long
@pytest.mark.parametrize("budget", [5, 7, 12, 20, 34, 100, 400])
def test_long_error_of_all_looks_together(budget: int) -> None:
    studies = 400_000
    error = error_of(SequentialPlan(error=0.025), budget, studies, seed=11)
    assert error <= 0.025 + 3.0 * math.sqrt(0.025 / studies)


def test_the_interval_at_a_later_look_is_wider_than_that_of_a_single_look() -> None:
    values = np.random.default_rng(5).normal(1.0, 0.1, 20)
    plan = SequentialPlan(error=0.05)
    repeated = repeated_interval(values, looks_of([5, 10, 20]), plan)
    single = mean_interval(values, 0.95)
    assert repeated.mean == pytest.approx(single.mean)
    assert repeated.half_width > single.half_width
    assert (repeated.n, repeated.level) == (20, 0.95)


def test_more_of_the_budget_gone_means_a_narrower_interval() -> None:
    values = np.random.default_rng(5).normal(1.0, 0.1, 10)
    plan = SequentialPlan()
    widths = [repeated_interval(values, (Look(10, used),), plan).half_width for used in (0.05, 0.3, 1.0)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SequentialPlan(error=0.5), "error"),
        (lambda: SequentialPlan(first=3), "5 values"),
        (lambda: boundaries((Look(10, 0.5), Look(10, 1.0)), SequentialPlan()), "more values"),
        (lambda: boundaries((Look(10, 0.5), Look(20, 0.4)), SequentialPlan()), "does not come back"),
        (lambda: repeated_interval([1.0, 2.0], (Look(5, 1.0),), SequentialPlan()), "not at these 2"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]
