from __future__ import annotations

import pytest

from weir_lab.theory.laws import counts_agree, interactive_law, stages_add_up


def test_the_law_holds_for_a_closed_system() -> None:
    # 16 requests circulate, each takes 2 ms: 8,000 requests/s
    law = interactive_law(8_000.0, 16, 2_000_000.0)
    assert law.law_response_time_ns == pytest.approx(2_000_000.0)
    assert law.deviation == pytest.approx(0.0)


def test_think_time_is_taken_off() -> None:
    assert interactive_law(1_000.0, 10, 4_000_000.0, think_time_ns=6_000_000.0).deviation == pytest.approx(0.0)


def test_lost_clients_are_seen() -> None:
    # 4 of 16 connections stand still, so only 12 requests circulate: N / X is too long
    assert interactive_law(6_000.0, 16, 2_000_000.0).deviation == pytest.approx(-0.25)


def test_a_throughput_over_a_partial_window_is_seen() -> None:
    # counted over 9 of 10 seconds but divided by 10
    assert interactive_law(8_000.0 * 0.9, 16, 2_000_000.0).deviation == pytest.approx(-0.1)


@pytest.mark.parametrize("arguments", [(0.0, 1, 1.0), (1.0, 0, 1.0), (1.0, 1, 0.0), (1.0, 1, 1.0, 2e9)])
def test_impossible_inputs_are_refused(arguments: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"law needs|think time"):
        interactive_law(*arguments)  # type: ignore[arg-type]


def test_counts_and_sums_are_compared_exactly() -> None:
    assert counts_agree(1_000_000, 1_000_000).holds
    assert counts_agree(1_000_000, 999_999).difference == -1
    assert stages_add_up([1, 2, 3], 6).holds
    assert not stages_add_up([1, 2, 3], 7).holds
