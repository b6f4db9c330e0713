"""Change and mean along a series whose neighbours may be alike: their intervals hold, by simulation of traces with memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from weir_lab.report.sections.traces import PARTS
from weir_lab.theory.stats import change_along, mean_along, together

SEED = 20161113
HOUR = 3_600


def hours(count: int, memory_s: float, seed: int = SEED) -> NDArray[np.float64]:
    """Means of the parts of some hours of seconds: noise of which 1/e is left after this many seconds, in the unit of its own deviation."""
    rng = np.random.default_rng(seed)
    left = math.exp(-1.0 / memory_s)
    noise = rng.standard_normal((count, HOUR))
    noise[:, 1:] *= math.sqrt(1.0 - left * left)
    seconds = lfilter([1.0], [1.0, -left], noise, axis=1)
    return np.asarray(seconds.reshape(count, PARTS, HOUR // PARTS).mean(axis=2))


@pytest.mark.parametrize("memory_s", [0.1, 10.0, 60.0, 120.0, 300.0])
def test_intervals_hold_where_the_machine_has_a_memory(memory_s: float) -> None:
    parts = hours(1_000, memory_s)
    change = np.mean([abs(found.value) <= found.half_width() for found in map(change_along, parts)])
    mean = np.mean([abs(found.value) <= found.half_width() for found in map(mean_along, parts)])
    assert change > 0.92, change
    assert mean > 0.92, mean


def test_without_memory_an_interval_is_little_longer_than_that_of_independent_parts() -> None:
    parts = hours(1_000, 0.1)
    found = [mean_along(one) for one in parts]
    plain = parts.std(axis=1, ddof=1) / math.sqrt(PARTS)
    assert np.median([one.standard_error for one in found] / plain) < 1.1
    assert np.mean([one.lag1 == 0.0 for one in found]) > 0.3


def test_independent_parts_would_be_too_sure() -> None:
    """What the correction is for: the plain interval of traces with a memory of two minutes."""
    parts = hours(1_000, 120.0)
    plain = 2.045 * parts.std(axis=1, ddof=1) / math.sqrt(PARTS)
    assert np.mean(np.abs(parts.mean(axis=1)) <= plain) < 0.85


def test_a_change_is_that_of_the_line_and_its_error_by_hand() -> None:
    """Residuals ±1 whose neighbours correlate by -1/8: 2/8 given back, over 1/2 at least, is 0.25; so 8 count as 4.8, less 2."""
    found = change_along(np.arange(8.0) + np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0]))
    assert (found.value, found.lag1, found.freedom) == pytest.approx((7.0, 0.25, 2.8))
    assert found.standard_error == pytest.approx(7.0 * math.sqrt(8.0 / 2.8 / 42.0))


def test_a_mean_and_its_error_by_hand() -> None:
    """Neighbours correlate by 1/12: 1/12 given back, over 1 - 4/12, is 0.25; so 12 count as 7.2, less 1 of the mean."""
    found = mean_along([0.0, 0.0, 2.0, 2.0] * 3)
    assert (found.value, found.lag1, found.freedom) == pytest.approx((1.0, 0.25, 6.2))
    assert found.standard_error == pytest.approx(math.sqrt(12.0 / 6.2 / 12.0))


def test_a_wave_tells_nothing_of_a_change() -> None:
    found = change_along(np.sin(np.linspace(0.0, 2.0 * math.pi, 12)))
    assert math.isinf(found.half_width())
    assert found.lag1 > 0.6


@pytest.mark.parametrize(("function", "values"), [(mean_along, [1.0]), (change_along, [1.0, 2.0])])
def test_too_few_values_are_refused(function: object, values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least"):
        function(values)  # type: ignore[operator]


def test_what_moves_a_series_correlates_and_what_is_only_as_slow_does_not_more_than_by_chance() -> None:
    rng = np.random.default_rng(SEED)
    cause = np.cumsum(rng.standard_normal(HOUR))
    found = together(10_000.0 - 50.0 * cause + 100.0 * rng.standard_normal(HOUR), cause, 60)
    assert found is not None
    assert found.correlation < -0.99
    assert found.explained == found.correlation**2
    seconds = rng.standard_normal(HOUR)
    quick = together(seconds + 0.5 * rng.standard_normal(HOUR), seconds, 60)
    assert quick is not None
    assert quick.correlation > 0.85
    assert abs(quick.shifted) < 0.1
    # Two slow series that have nothing to do with each other: what they have at no shift they have at others, too.
    apart = [
        together(np.cumsum(rng.standard_normal(HOUR)), np.cumsum(rng.standard_normal(HOUR)), 60) for _ in range(100)
    ]
    assert all(one is not None and abs(one.correlation) < 2.0 * abs(one.shifted) for one in apart)


def test_series_that_are_short_or_flat_have_no_correlation() -> None:
    assert together([1.0, 2.0, 3.0] * 50, [1.0] * 150, 10) is None
    assert together([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 60) is None
    with pytest.raises(ValueError, match="equal length"):
        together([1.0, 2.0], [1.0, 2.0, 3.0], 1)
