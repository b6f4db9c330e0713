"""Analysis of covariance: a known slope and a known change come back, and intervals cover what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import change_between_runs
from weir_lab.theory.linear import LayoutError, LogModel, MeasuredRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def model(cells: Mapping[str, tuple[Iterable[float], Iterable[float]]]) -> LogModel:
    """Cells given as the values and covariates of their runs, without blocks."""
    return LogModel(
        [
            MeasuredRun(name, float(value), covariate=float(z))
            for name, (y, zs) in cells.items()
            for value, z in zip(y, zs, strict=True)
        ],
        with_covariate=True,
    )


def test_a_known_change_comes_back_from_cells_that_met_different_speeds() -> None:
    slow = {"a": [1.0, 1.5, 1.2], "b": [2.0, 1.0, 1.6]}
    cells = {name: ([factor / z**0.9 for z in slow[name]], slow[name]) for name, factor in (("a", 100.0), ("b", 130.0))}
    fit = model(cells)
    assert fit.slope().value == pytest.approx(-0.9)
    assert fit.slope().explained == pytest.approx(1.0)
    assert fit.change("a", "b").percent == pytest.approx(30.0)
    assert fit.change("b", "a").percent == pytest.approx(100 * (100 / 130 - 1))
    # Taken as they are, the runs say something else: b met a slower machine.
    assert change_between_runs(cells["a"][0], cells["b"][0]).percent < 20.0


def test_a_covariate_that_says_nothing_leaves_the_difference_of_means() -> None:
    rng = np.random.default_rng(4)
    cells = {name: (100.0 * np.exp(rng.normal(0, 0.1, 200)), np.exp(rng.normal(0, 0.2, 200))) for name in "ab"}
    fit = model(cells)
    assert fit.slope().low < 0.0 < fit.slope().high
    assert fit.slope().explained < 0.05
    plain = change_between_runs(cells["a"][0], cells["b"][0])
    assert fit.change("a", "b").percent == pytest.approx(plain.percent, abs=1.0)


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_intervals_cover_the_true_change_and_slope(runs: int) -> None:
    rng = np.random.default_rng([20_261_122, runs])
    truth = {"a": 0.0, "b": 0.2, "c": -0.5, "d": 1.0}
    held, slopes, rounds = 0, 0, 500
    for _ in range(rounds):
        cells = {}
        for name, mean in truth.items():
            z = rng.normal(0.0, 0.2, runs)
            cells[name] = (np.exp(mean - 0.9 * z + rng.normal(0.0, 0.08, runs)), np.exp(z))
        fit = model(cells)
        change = fit.change("a", "b")
        held += change.low <= 100 * np.expm1(0.2) <= change.high
        slopes += fit.slope().low <= -0.9 <= fit.slope().high
    # Three standard errors of a proportion of 0.95 in 500 rounds.
    assert held / rounds == pytest.approx(0.95, abs=0.03)
    assert slopes / rounds == pytest.approx(0.95, abs=0.03)


@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0))
@settings(max_examples=25)
def test_units_of_both_do_not_matter(y_unit: float, z_unit: float) -> None:
    cells = {"a": ([10.0, 12.0, 9.0], [3.0, 2.5, 3.5]), "b": ([20.0, 15.0, 17.0], [2.0, 3.0, 2.5])}
    scaled = {name: ([y_unit * one for one in y], [z_unit * one for one in z]) for name, (y, z) in cells.items()}
    first, second = model(cells), model(scaled)
    assert second.slope().value == pytest.approx(first.slope().value)
    assert second.change("a", "b").high == pytest.approx(first.change("a", "b").high)


def test_what_cannot_be_fitted_says_why() -> None:
    with pytest.raises(LayoutError, match="nothing to adjust for"):
        model({"a": ([1.0, 2.0], [3.0, 3.0]), "b": ([1.0, 2.0], [4.0, 4.0])})
    with pytest.raises(LayoutError, match="positive number for each run"):
        LogModel([MeasuredRun("a", 1.0), MeasuredRun("a", 2.0)], with_covariate=True)


def test_blocks_and_covariate_are_fitted_together() -> None:
    """Blocks of half and double speed of which the yardstick tells nothing, and a slope of -0.9 beside them."""
    z = {"a": [1.0, 1.5, 1.2], "b": [2.0, 1.0, 1.6], "c": [1.1, 1.3, 1.0]}
    runs = [
        MeasuredRun(name, factor * speed / z[name][block] ** 0.9, block, covariate=z[name][block])
        for block, speed in enumerate((1.0, 0.5, 2.0))
        for name, factor in (("a", 100.0), ("b", 130.0), ("c", 90.0))
    ]
    fit = LogModel(runs, with_covariate=True)
    assert fit.blocked
    assert fit.slope().value == pytest.approx(-0.9)
    assert fit.change("a", "b").percent == pytest.approx(30.0)
