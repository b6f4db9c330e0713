"""Peaks of distributions whose peaks are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from synthetic import histogram_of
from weir_lab.theory.histogram import MODE_BINS

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
