"""Peaks and periods of distributions whose peaks and periods are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from synthetic import histogram_of
from weir_lab.theory.histogram import MODE_BINS, PERIOD_ERROR

DRAWS = 40_000


def times(*parts: tuple[float, float, float], seed: int = 1, draws: int = DRAWS) -> NDArray[np.int64]:
    """Times in ns from lognormal parts: share, median in ms, spread of the logarithm."""
    generator = np.random.default_rng(seed)
    drawn = [
        np.exp(generator.normal(np.log(median * 1e6), spread, round(share * draws))) for share, median, spread in parts
    ]
    return np.concatenate(drawn).astype(np.int64)


@pytest.mark.parametrize("seed", range(20))
def test_one_peak_is_found_where_there_is_one(seed: int) -> None:
    found = histogram_of(times((1.0, 2.8, 0.5), seed=seed)).modes()
    assert found is not None
    assert len(found) == 1
    # The mode of a lognormal lies below its median by its variance, on a logarithmic axis at the median itself.
    assert found[0] == pytest.approx(2.8e6, rel=2 * (MODE_BINS - 1))


@pytest.mark.parametrize("seed", range(20))
def test_a_second_peak_of_a_tenth_of_the_requests_is_found(seed: int) -> None:
    found = histogram_of(times((0.9, 1.0, 0.3), (0.1, 8.0, 0.2), seed=seed)).modes()
    assert found == pytest.approx([1e6, 8e6], rel=2 * (MODE_BINS - 1))


def test_a_shoulder_is_no_peak() -> None:
    found = histogram_of(times((0.7, 1.0, 0.5), (0.3, 2.5, 0.5))).modes()
    assert found is not None
    assert len(found) == 1


def test_a_peak_of_fewer_than_one_in_a_hundred_is_none() -> None:
    found = histogram_of(times((0.995, 1.0, 0.3), (0.005, 50.0, 0.05))).modes()
    assert found is not None
    assert len(found) == 1


def test_times_of_a_few_nanoseconds_make_no_peaks_of_their_steps() -> None:
    for most in (8, 16, 64, 200):
        found = histogram_of(np.random.default_rng(1).integers(1, most, DRAWS)).modes()
        assert found is not None
        assert len(found) == (most == 200), (most, found)


def test_of_few_requests_nothing_is_said() -> None:
    assert histogram_of(times((1.0, 1.0, 0.3), draws=9_999)).modes() is None


def repeating(period: float, seed: int, spread: float = 0.12) -> NDArray[np.int64]:
    """Times in ns of requests that wait for 0 to 3 whole periods, and are 1 ms on their way before."""
    generator = np.random.default_rng(seed)
    waited = generator.choice(4, DRAWS, p=[0.4, 0.3, 0.2, 0.1]) * period
    return np.asarray(1e6 + waited + generator.gamma(2.0, spread * period, DRAWS), dtype=np.int64)


@pytest.mark.parametrize("seed", range(10))
def test_the_period_of_times_is_found_and_no_other_one(seed: int) -> None:
    times_ns = histogram_of(repeating(2.8e6, seed))
    assert times_ns.period_near(2.8e6) == pytest.approx(2.8e6, rel=PERIOD_ERROR)
    assert [times_ns.period_near(factor * 2.8e6) for factor in (0.85, 0.93, 1.07, 1.2)] == [None] * 4


@pytest.mark.parametrize(
    "drawn",
    [
        times((1.0, 2.8, 0.5)),
        times((1.0, 2.8, 0.05)),
        times((0.6, 0.4, 0.3), (0.4, 8.0, 0.5)),
        np.random.default_rng(1).exponential(4e6, DRAWS).astype(np.int64),
        np.random.default_rng(1).uniform(0.0, 2.8e6, DRAWS).astype(np.int64),
    ],
    ids=["wide", "narrow", "two peaks", "exponential", "uniform"],
)
def test_what_does_not_repeat_has_no_period(drawn: NDArray[np.int64]) -> None:
    times_ns = histogram_of(drawn)
    assert {times_ns.period_near(period) for period in np.geomspace(0.5e6, 20e6, 60)} == {None}


def test_of_few_requests_no_period_is_said() -> None:
    assert histogram_of(repeating(2.8e6, 1)[:9_999]).period_near(2.8e6) is None
