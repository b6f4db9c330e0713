"""The ratio of two means that were measured apart: coverage on data with a known ratio, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from weir_lab.theory.linear import interval_of
from weir_lab.theory.stats import Interval, ratio_of


def test_the_interval_of_a_ratio_holds_the_true_one_as_often_as_it_says() -> None:
    rng = np.random.default_rng(27)
    runs = np.exp(rng.normal(0.0, 0.05, size=(400, 2, 5)))
    found = [ratio_of(interval_of(3.0 * above), interval_of(below)) for above, below in runs]
    held = sum(one.low < 3.0 < one.high for one in found) / len(found)
    # Two t intervals of 4 degrees of freedom each are wider together than one of their difference: 97 %, give or take 2.
    assert 0.94 < held < 0.995


def test_a_ratio_takes_positive_means_of_one_level() -> None:
    one = Interval(2.0, 1.0, 3.0, 5, 0.95)
    exact = ratio_of(one, Interval(1.0, 1.0, 1.0, 5, 0.95))
    assert (exact.mean, exact.low, exact.high) == pytest.approx((2.0, 1.0, 3.0))
    with pytest.raises(ValueError, match="positive"):
        ratio_of(one, Interval(1.0, -1.0, 3.0, 5, 0.95))
    with pytest.raises(ValueError, match="same level"):
        ratio_of(one, Interval(2.0, 1.0, 3.0, 5, 0.9))
