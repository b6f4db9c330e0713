"""Operational laws and bounds as checks with verdict and reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.theory.laws import (
    LawVerdict,
    forced_flow_law,
    link_bound_rps,
    littles_law,
    response_time_law,
    utilization_law,
)


def test_the_textbook_system_of_vector_6() -> None:
    # U_A = .6 -> X = 1, U_cpu = 1, U_B = .1; N = 20 and U_B = .1 -> R = 15
    x = 0.6 / 0.6
    assert utilization_law(20 * x, 0.03, 0.6).verdict is LawVerdict.HOLDS
    assert response_time_law(20, x, 15.0, think_time_s=5.0).deviation == pytest.approx(0.0)


def test_a_broken_law_says_by_how_much_and_where_to_look() -> None:
    check = response_time_law(192, 12_700.0, 16.38e-3)
    assert check.verdict is LawVerdict.BROKEN
    assert check.deviation == pytest.approx(0.08346875)
    assert "+8.35 %" in check.reason
    lost = response_time_law(192, 12_700.0, 12e-3)
    assert "stand still" in lost.reason


def test_intervals_over_runs_decide() -> None:
    x, r = [1000.0, 1010.0, 990.0, 1000.0], [16.0e-3, 15.9e-3, 16.2e-3, 16.1e-3]
    assert response_time_law(16, x, r).verdict is LawVerdict.HOLDS
    assert response_time_law(16, x, [1.2 * value for value in r]).verdict is LawVerdict.BROKEN
    noisy = response_time_law(16, [1000.0, 1200.0, 800.0], [16e-3, 16e-3, 16e-3])
    assert noisy.verdict is LawVerdict.UNDECIDED
    assert "more" in noisy.reason


def test_flow_is_forced() -> None:
    assert forced_flow_law(11_912.9, 1.0, 12_260.1, 0.02).verdict is LawVerdict.BROKEN
    assert forced_flow_law(2930.21, 1.0, 2930.54, 0.02).verdict is LawVerdict.HOLDS


@given(st.floats(1.0, 1e6), st.floats(1e-6, 10.0), st.integers(1, 1000))
def test_laws_hold_for_numbers_made_by_them(x: float, s: float, m: int) -> None:
    assert utilization_law(x, s, x * s / m, m, tolerance=0.0).verdict is LawVerdict.HOLDS
    assert littles_law(x * s, x, s, tolerance=0.0).verdict is LawVerdict.HOLDS
    assert littles_law(x * s * 1.1, x, s).verdict is LawVerdict.BROKEN


def test_bounds_of_links() -> None:
    # S3 and S5: two proxies on 804 Mbit/s, each value sent to three servers
    assert link_bound_rps(804e6, 4096, links=2, copies=3) == pytest.approx(16_357.421875)


def test_impossible_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="think time"):
        response_time_law(10, 10.0, 1.0, think_time_s=2.0)
    with pytest.raises(ValueError, match="finite"):
        littles_law(np.nan, 1.0, 1.0)
    with pytest.raises(ValueError, match="one number per run"):
        littles_law([1.0, 2.0], [1.0, 2.0, 3.0], 1.0)
