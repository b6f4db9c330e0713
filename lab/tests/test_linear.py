"""The linear model: textbook examples of block designs, covariance and incomplete blocks; scipy where a case reduces to its tests."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_lab.theory.factorial import analyse_factorial
from weir_lab.theory.linear import (
    ErrorFrom,
    LayoutError,
    LogModel,
    MeasuredRun,
    Spread,
    Within,
    compare,
    dependence_of,
    fit,
    lay_out,
    max_t_p,
    max_t_quantile,
    positive_interval,
    spread_of,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from weir_lab.theory.linear import Change

from weir_lab.theory.stats import holm

EQUAL, UNEQUAL = Spread(1.0, {}), Spread(0.0, {})

# Montgomery, Design and Analysis of Experiments, 8th ed., example 4.1: yield of vascular grafts, four pressures in six batches of resin.
GRAFTS = {
    "8500": [90.3, 89.2, 98.2, 93.9, 87.4, 97.9],
    "8700": [92.5, 89.5, 90.6, 94.7, 87.0, 95.8],
    "8900": [85.5, 90.8, 89.6, 86.2, 88.0, 93.4],
    "9100": [82.5, 89.5, 85.6, 87.4, 78.9, 90.7],
}
# The same, section 4.4.1: time of reaction, four catalysts in four batches of which each holds three (balanced incomplete blocks).
CATALYSTS = {
    "1": {1: 73.0, 2: 74.0, 4: 71.0},
    "2": {2: 75.0, 3: 67.0, 4: 72.0},
    "3": {1: 73.0, 2: 75.0, 3: 68.0},
    "4": {1: 75.0, 3: 72.0, 4: 75.0},
}
# The same, example 15.5: strength of fibres (y) by machine, with their thickness (x).
FIBRES = {
    "1": ([36.0, 41.0, 39.0, 42.0, 49.0], [20.0, 25.0, 24.0, 25.0, 32.0]),
    "2": ([40.0, 48.0, 39.0, 45.0, 44.0], [22.0, 28.0, 22.0, 30.0, 28.0]),
    "3": ([35.0, 37.0, 42.0, 34.0, 32.0], [21.0, 23.0, 26.0, 21.0, 15.0]),
}


def in_blocks(table: dict[str, list[float]]) -> tuple[list[str], list[int], list[float]]:
    rows = [(cell, block, y) for cell, values in table.items() for block, y in enumerate(values)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def between_cells(sse_without: float, sse: float) -> float:
    """Sum of squares of cells adjusted for all else: what leaving them out costs."""
    return sse_without - sse


def test_randomised_blocks_as_in_the_textbook() -> None:
    cells, blocks, y = in_blocks(GRAFTS)
    made = fit(lay_out(cells, blocks), y)
    assert (made.freedom, round(made.sse, 2)) == (15, 109.89)
    # Without cells: one mean for all.
    without = fit(lay_out(["all"] * 24, blocks), y)
    assert between_cells(without.sse, made.sse) == pytest.approx(178.17, abs=0.005)
    unblocked = fit(lay_out(cells), y)
    assert unblocked.sse - made.sse == pytest.approx(192.25, abs=0.005)
    assert made.error_sd**2 == pytest.approx(7.33, abs=0.005)
    change = made.contrast({"8500": 1, "8900": -1})
    assert change.value == pytest.approx(92.82 - 88.92, abs=0.011)
    assert change.standard_error == pytest.approx(math.sqrt(2 * 7.33 / 6), abs=5e-3)


def test_incomplete_blocks_as_in_the_textbook() -> None:
    rows = [(cell, block, y) for cell, values in CATALYSTS.items() for block, y in values.items()]
    cells, blocks, y = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    made = fit(lay_out(cells, blocks), y)
    assert (made.freedom, round(made.sse, 2)) == (5, 3.25)
    assert between_cells(fit(lay_out(["all"] * 12, blocks), y).sse, made.sse) == pytest.approx(22.75)
    # Adjusted means: k Q / (λ a) with Q = -9/3, 7/3, -4/3, 20/3 and k = 3, λ = 2, a = 4 less one another.
    known = dict(zip("1234", (-9 / 8, -7 / 8, -4 / 8, 20 / 8), strict=True))
    for one in "1234":
        for other in "1234":
            if one != other:
                gap = made.contrast({one: 1, other: -1})
                assert gap.value == pytest.approx(known[one] - known[other])
                assert gap.standard_error == pytest.approx(math.sqrt(2 * 3 * 0.65 / (2 * 4)))


def test_covariance_as_in_the_textbook() -> None:
    cells = [cell for cell, (y, _) in FIBRES.items() for _ in y]
    y = [value for values, _ in FIBRES.values() for value in values]
    x = [value for _, values in FIBRES.values() for value in values]
    made = fit(lay_out(cells, covariate=x), y)
    assert made.slope().value == pytest.approx(0.954, abs=5e-4)
    assert (made.freedom, round(made.sse, 2)) == (11, 27.99)
    # Adjusted means 40.38, 41.42 and 38.80.
    assert made.contrast({"2": 1, "1": -1}).value == pytest.approx(41.42 - 40.38, abs=0.011)
    assert made.contrast({"3": 1, "1": -1}).value == pytest.approx(38.80 - 40.38, abs=0.011)
    # F of the slope is its squared t: 178.01 / 2.54 on 1 and 11 degrees of freedom.
    reach = made.slope().high - made.slope().value
    t = made.slope().value / (reach / scipy.stats.t.ppf(0.975, 11))
    assert t**2 == pytest.approx(178.01 / 2.544, abs=0.05)


pairs = st.lists(st.tuples(st.floats(1, 1e3), st.floats(1, 1e3)), min_size=3, max_size=8).filter(
    lambda found: np.std([b - a for a, b in found]) > 1e-3
)


@given(pairs)
def test_two_cells_in_blocks_are_scipys_paired_t(found: list[tuple[float, float]]) -> None:
    cells, blocks = ["a", "b"] * len(found), [block for block in range(len(found)) for _ in "ab"]
    made = fit(lay_out(cells, blocks), [value for pair in found for value in pair])
    theirs = scipy.stats.ttest_rel([b for _, b in found], [a for a, _ in found])
    ends = theirs.confidence_interval(0.95)
    for spread in (EQUAL, UNEQUAL):
        (ours,) = compare(made, [{"b": 1, "a": -1}], spread=spread)
        assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
        assert (ours.low, ours.high) == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-6)


values = st.lists(st.floats(1, 1e3), min_size=3, max_size=8).filter(lambda found: np.std(found) > 1e-3)


@given(values, values)
def test_two_cells_without_blocks_are_scipys_student_and_welch(left: list[float], right: list[float]) -> None:
    made = fit(lay_out(["a"] * len(left) + ["b"] * len(right)), [*left, *right])
    for spread, pooled in ((EQUAL, True), (UNEQUAL, False)):
        (ours,) = compare(made, [{"b": 1, "a": -1}], spread=spread)
        theirs = scipy.stats.ttest_ind(right, left, equal_var=pooled)
        ends = theirs.confidence_interval(0.95)
        assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
        assert (ours.low, ours.high) == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-6)


def test_cells_without_blocks_are_scipys_analysis_of_variance() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.normal(mean, 1.0, size) for mean, size in ((0.0, 4), (0.5, 7), (1.0, 5))]
    cells = [str(place) for place, group in enumerate(groups) for _ in group]
    y = np.concatenate(groups)
    made = fit(lay_out(cells), y)
    between = float(((y - y.mean()) ** 2).sum()) - made.sse
    theirs = scipy.stats.f_oneway(*groups)
    assert between / 2 / (made.sse / made.freedom) == pytest.approx(theirs.statistic)


@pytest.mark.parametrize("missing", [0, 5])
def test_contrasts_are_those_of_the_whole_design_matrix(missing: int) -> None:
    """The same from normal equations with every column written down, with unequal repeats and missing runs."""
    rng = np.random.default_rng(11)
    labels = [(cell, block) for cell in range(4) for block in range(5) for _ in range(1 + (cell == 2))]
    kept = rng.permutation(len(labels))[missing:]
    cell, block = np.array(labels)[kept].T
    z, y = rng.normal(size=kept.size), rng.normal(size=kept.size)
    columns = [cell == one for one in range(4)] + [block == one for one in range(1, 5)] + [z]
    x = np.column_stack(columns).astype(float)
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ y
    left = y - x @ beta
    made = fit(lay_out(cell.tolist(), block.tolist(), z), y)
    assert made.residuals == pytest.approx(left)
    assert made.layout.leverage == pytest.approx(np.diag(x @ inverse @ x.T))
    weights = np.array([1.0, 0.5, -1.5, 0.0, *[0.0] * 5])
    estimate = made.contrast({0: 1.0, 1: 0.5, 2: -1.5})
    error = math.sqrt(float(left @ left) / (kept.size - 9) * float(weights @ inverse @ weights))
    assert (estimate.value, estimate.standard_error) == pytest.approx((float(weights @ beta), error))
    assert made.slope().value == pytest.approx(beta[-1])


def test_a_level_takes_blocks_for_a_sample() -> None:
    """Balanced blocks: variance [MS_blocks + (k-1) MS_error] / (k n), freedom after Satterthwaite."""
    cells, blocks, y = in_blocks(GRAFTS)
    estimate = fit(lay_out(cells, blocks), y).level("8500")
    between, error, k, n = 192.2521 / 5, 109.8863 / 15, 4, 6
    variance = (between + (k - 1) * error) / (k * n)
    freedom = variance**2 / ((between / (k * n)) ** 2 / 5 + ((k - 1) * error / (k * n)) ** 2 / 15)
    assert estimate.value == pytest.approx(92.8167, abs=1e-4)
    assert estimate.standard_error == pytest.approx(math.sqrt(variance), rel=1e-5)
    assert estimate.freedom == pytest.approx(freedom, rel=1e-5)


@pytest.mark.parametrize(("groups", "freedom"), [(3, 10), (4, 15), (8, 14), (12, 60)])
def test_all_pairs_have_tukeys_quantile(groups: int, freedom: int) -> None:
    pairs = [(i, j) for i in range(groups) for j in range(i)]
    forms = np.zeros((len(pairs), groups))
    for row, (i, j) in enumerate(pairs):
        forms[row, [i, j]] = 1.0, -1.0
    correlation = forms @ forms.T / 2.0
    wanted = scipy.stats.studentized_range.ppf(0.95, groups, freedom) / math.sqrt(2.0)
    assert max_t_quantile(correlation, freedom) == pytest.approx(wanted, rel=4e-3)
    assert max_t_p(wanted, correlation, freedom) == pytest.approx(0.05, abs=1e-3)


def test_a_level_at_one_speed_takes_slow_blocks_out_and_says_nothing_where_no_block_connects() -> None:
    slow = {1: 1.0, 2: 1.5, 3: 2.0, 4: 5.0}
    runs = [MeasuredRun(cell, level * slow[block], block) for cell, level, blocks in
            (("a", 100.0, (1, 2)), ("b", 200.0, (1, 2, 3)), ("c", 300.0, (2, 3))) for block in blocks]  # fmt: skip
    model = LogModel(runs)
    assert model.mean_here("b") / model.mean_here("a") == pytest.approx(2.0)
    assert model.level_here("c").mean / model.level_here("b").mean == pytest.approx(1.5)
    apart = LogModel([*runs, MeasuredRun("alone", 7.0, 4), MeasuredRun("alone", 7.0, 4)])
    assert apart.mean_here("alone") == 7.0
    with pytest.raises(LayoutError, match="do not connect the cell alone"):
        apart.level_here("alone")


def test_the_own_spread_of_a_level_at_one_speed_is_the_one_that_draws_show_or_a_little_more() -> None:
    """A cell that spreads much pulls the estimates of its blocks, and what is left over of it looks smaller than it is."""
    rng = np.random.default_rng(8)
    cells = [cell for block in range(8) for cell in "abc"]
    layout, sds = lay_out(cells, [block for block in range(8) for _ in "abc"]), {"a": 1.0, "b": 0.1, "c": 0.1}
    spread = np.array([sds[cell] for cell in cells])
    drawn = [fit(layout, spread * rng.normal(size=len(cells))) for _ in range(3000)]
    seen = float(np.std([made.level_here_by_spread("a").value for made in drawn]))
    said = math.sqrt(float(np.mean([made.level_here_by_spread("a").standard_error ** 2 for made in drawn])))
    assert seen <= said <= 1.4 * seen


def test_all_against_one_have_dunnetts_quantile() -> None:
    # Dunnett's table, two-sided 5 %: 2.65 for 4 comparisons and 20 degrees of freedom, 2.68 for 3 and 12.
    for comparisons, freedom, printed in ((4, 20, 2.65), (3, 12, 2.68)):
        correlation = np.full((comparisons, comparisons), 0.5) + 0.5 * np.eye(comparisons)
        assert max_t_quantile(correlation, freedom) == pytest.approx(printed, abs=0.011)


@pytest.mark.parametrize(("size", "freedom"), [(2, 4), (4, 14), (10, 30)])
def test_independent_contrasts_have_the_studentized_maximum_modulus(size: int, freedom: int) -> None:
    def below(q: float) -> float:
        def at(s: float) -> float:
            density = scipy.stats.chi.pdf(s * math.sqrt(freedom), freedom) * math.sqrt(freedom)
            return float(density * (2.0 * scipy.stats.norm.cdf(q * s) - 1.0) ** size)

        return float(scipy.integrate.quad(at, 0.0, 6.0)[0])

    assert below(max_t_quantile(np.eye(size), freedom)) == pytest.approx(0.95, abs=1e-3)


def test_one_contrast_is_plain_t_and_bounds_hold() -> None:
    assert max_t_quantile(np.eye(1), 7) == pytest.approx(scipy.stats.t.ppf(0.975, 7))
    # The same twice, once turned round, is still one.
    assert max_t_quantile(np.array([[1.0, -1.0], [-1.0, 1.0]]), 7) == pytest.approx(scipy.stats.t.ppf(0.975, 7))
    tiny = max_t_p(40.0, np.eye(3), 30)
    assert 0.0 < tiny <= 3 * 2 * scipy.stats.t.sf(40.0, 30)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.5), st.integers(1, 4), st.sampled_from([EQUAL, UNEQUAL]))
@settings(max_examples=60, deadline=None)
def test_an_interval_and_its_p_value_agree(seed: int, effect: float, family: int, spread: Spread) -> None:
    """Also together: an interval is without 0 exactly where the adjusted p is below 5 %."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0.0, 0.1, (4, 8)) + rng.normal(0.0, 0.3, (4, 1))
    y[:, ::2] += effect
    made = fit(lay_out(list(range(8)) * 4, [block for block in range(4) for _ in range(8)]), y.ravel())
    for found in compare(made, [{2 * i: 1, 2 * i + 1: -1} for i in range(family)], spread=spread):
        assert found.shown == (found.low > 0 or found.high < 0)
        if abs(found.p - 0.05) > 1e-6:
            assert found.shown == (found.p < 0.05)
        assert found.low <= found.value <= found.high


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 1e6))
@settings(max_examples=30, deadline=None)
def test_units_do_not_matter_and_a_change_turned_round_is_its_inverse(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    runs = [
        MeasuredRun(cell, float(np.exp(rng.normal(0.0, 0.1))), block, position)
        for position, (block, cell) in enumerate((block, cell) for block in range(3) for cell in "abc")
    ]
    scaled = LogModel([run._replace(value=unit * run.value) for run in runs])
    there, back, plain = scaled.change("a", "b"), scaled.change("b", "a"), LogModel(runs).change("a", "b")
    assert (there.low, there.high) == pytest.approx((plain.low, plain.high))
    assert (1 + there.high / 100) * (1 + back.low / 100) == pytest.approx(1.0)
    level, of_scaled = LogModel(runs).level("a"), scaled.level("a")
    assert of_scaled.high == pytest.approx(unit * level.high)
    assert level.high / level.mean == pytest.approx(level.mean / level.low)
    assert level.low > 0.0


def test_a_positive_quantity_never_has_an_interval_below_zero() -> None:
    """Three runs of 1, 2 and 9: mean ± t s / √n reached to −6.8."""
    assert positive_interval([1.0, 2.0, 9.0]).low > 0.0


def test_equal_spread_is_bartletts_without_blocks() -> None:
    rng = np.random.default_rng(6)
    for ratio in (1.0, 1.5, 2.0):
        groups = [rng.normal(0.0, sd, 12) for sd in (1.0, 1.0, 1.0, ratio)]
        made = fit(lay_out([str(place) for place in range(4) for _ in range(12)]), np.concatenate(groups))
        assert spread_of(made).p == pytest.approx(scipy.stats.bartlett(*groups).pvalue, abs=0.03)
    assert spread_of(made).sds["3"] == pytest.approx(np.std(groups[3], ddof=1))


def test_the_checks_err_as_seldom_as_they_say() -> None:
    """Residuals of three blocks are far from independent: the plain lag-1 correlation is −.11 there on average."""
    rng = np.random.default_rng(7)
    layout = lay_out(list(range(6)) * 3, [block for block in range(3) for _ in range(6)], position=range(18))
    unequal, alike, lags = 0, 0, []
    for _ in range(800):
        made = fit(layout, rng.normal(size=18))
        found = dependence_of(made)
        assert found is not None
        unequal += (spread_of(made).p or 1.0) < 0.05
        alike += found.p < 0.05
        lags.append(found.lag1)
    for wrong in (unequal, alike):
        assert wrong == pytest.approx(40, abs=4 * math.sqrt(40))
    assert float(np.mean(lags)) == pytest.approx(0.0, abs=0.03)


def test_unequal_spread_is_noticed_and_the_intervals_change_their_source() -> None:
    rng = np.random.default_rng(8)
    y = rng.normal(0.0, 1.0, (6, 5)) * np.array([0.1, 0.1, 0.1, 0.1, 5.0])
    made = fit(lay_out(list(range(5)) * 6, [block for block in range(6) for _ in range(5)]), y.ravel())
    spread = spread_of(made)
    assert not spread.equal
    assert spread.widest == 4
    (found,) = compare(made, [{0: 1, 1: -1}])
    assert found.error_from is ErrorFrom.BLOCKS
    assert found.standard_error < 0.2 < compare(made, [{0: 1, 1: -1}], spread=EQUAL)[0].standard_error


def test_neighbours_that_are_alike_are_noticed() -> None:
    rng = np.random.default_rng(9)
    cells = [int(cell) for _ in range(10) for cell in rng.permutation(5)]
    layout = lay_out(cells, [block for block in range(10) for _ in range(5)], position=range(50))
    noticed = 0
    for _ in range(40):
        state, errors = rng.normal(), []
        for _ in range(50):
            state = 0.9 * state + math.sqrt(1 - 0.81) * rng.normal()
            errors.append(state)
        found = dependence_of(fit(layout, errors))
        assert found is not None
        noticed += found.shown
    assert noticed >= 32


@pytest.mark.parametrize(
    ("cells", "blocks", "covariate", "reason"),
    [
        (["a", "b"], None, None, "no degree of freedom"),
        (["a", "b", "a", "b"], [1, 2, 3, 4], None, "no degree of freedom"),
        (["a", "b", "a"], [1, 1], None, "one cell, block"),
        (["a", "a", "b", "b"], None, [1.0, 1.0, 2.0, 2.0], "does not vary beside cells"),
        (["a", "a", "b", "b"], None, [1.0, 1.0, 2.0, math.nan], "finite number"),
    ],
)
def test_what_cannot_be_fitted_says_why(
    cells: list[str], blocks: list[int] | None, covariate: list[float] | None, reason: str
) -> None:
    with pytest.raises(LayoutError, match=reason):
        lay_out(cells, blocks, covariate)


def test_cells_that_no_block_connects_are_refused_and_compared_without_blocks_on_request() -> None:
    cells = ["a", "b", "a", "b", "c", "d", "c", "d"]
    made = fit(lay_out(cells, [1, 1, 2, 2, 3, 3, 4, 4]), [1.0, 2.0, 1.5, 2.1, 3.0, 5.0, 3.3, 5.2])
    assert made.contrast({"b": 1, "a": -1}).value == pytest.approx(0.8)
    with pytest.raises(LayoutError, match="Blocks do not connect"):
        made.contrast({"c": 1, "a": -1})
    runs = [
        MeasuredRun(cell, value, block)
        for cell, block, value in zip(
            cells, [1, 1, 2, 2, 3, 3, 4, 4], [1.0, 2.0, 1.5, 2.1, 3.0, 5.0, 3.3, 5.2], strict=True
        )
    ]
    model = LogModel(runs)
    assert model.blocked
    unblocked = LogModel([run._replace(block=None) for run in runs])
    assert model.change("a", "c") == unblocked.change("a", "c")


def test_contrasts_that_mean_nothing_are_refused() -> None:
    made = fit(lay_out(["a", "b", "a", "b"]), [1.0, 2.0, 1.1, 2.2])
    with pytest.raises(LayoutError, match="add up to 0"):
        made.contrast({"a": 1.0})
    with pytest.raises(LayoutError, match="No run of the cell x"):
        made.contrast({"x": 1.0, "a": -1.0})
    with pytest.raises(LayoutError, match="with itself"):
        LogModel([MeasuredRun(cell, 1.0 + i) for i, cell in enumerate("aabb")]).change("a", "a")
    with pytest.raises(LayoutError, match="positive, finite"):
        LogModel([MeasuredRun("a", 0.0), MeasuredRun("a", 1.0)])


def test_data_without_spread_are_exact() -> None:
    runs = [
        MeasuredRun(cell, value, block) for block in range(3) for cell, value in (("a", 10.0), ("b", 20.0), ("c", 10.0))
    ]
    up, same = LogModel(runs).changes([("a", "b"), ("a", "c")])
    assert (up.p, same.p) == (0.0, 1.0)
    assert (up.low, up.high) == pytest.approx((100.0, 100.0))
    assert LogModel([MeasuredRun(cell, 3.0) for cell in "aabb"]).change("a", "b").p == 1.0


def paired(before: Iterable[float], after: Iterable[float], level: float = 0.95) -> Change:
    """Two cells in blocks."""
    runs = [
        MeasuredRun(cell, float(value), block)
        for block, pair in enumerate(zip(before, after, strict=True))
        for cell, value in zip("ab", pair, strict=True)
    ]
    return LogModel(runs).change("a", "b", level)


def test_paired_change_against_a_hand_computed_example() -> None:
    # log ratios: ln .5, ln .6, ln .4; mean -0.706789..., s = 0.203295, t(.975, 2) = 4.302653
    ratios = [math.log(0.5), math.log(0.6), math.log(0.4)]
    mean = sum(ratios) / 3
    s = math.sqrt(sum((r - mean) ** 2 for r in ratios) / 2)
    half = 4.302653 * s / math.sqrt(3)
    change = paired([100.0, 200.0, 50.0], [50.0, 120.0, 20.0])
    assert change.percent == pytest.approx(100 * (math.exp(mean) - 1))
    assert change.percent == pytest.approx(100 * ((0.5 * 0.6 * 0.4) ** (1 / 3) - 1))
    assert change.low == pytest.approx(100 * (math.exp(mean - half) - 1), rel=1e-6)
    assert change.high == pytest.approx(100 * (math.exp(mean + half) - 1), rel=1e-6)


def test_twice_as_much_is_a_change_of_100_percent() -> None:
    assert paired([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]).percent == pytest.approx(100.0)


def test_pairing_takes_out_what_a_block_shares() -> None:
    rng = np.random.default_rng(5)
    blocks = np.exp(rng.normal(0.0, 1.0, 8))  # blocks differ by a factor of e, treatments by 10 %
    before, after = 100 * blocks, 110 * blocks * np.exp(rng.normal(0.0, 0.01, 8))
    change = paired(before, after)
    assert 8.0 < change.low < change.percent < change.high < 12.0
    shuffled = paired(before, np.roll(after, 3))
    assert shuffled.high - shuffled.low > 20 * (change.high - change.low)


def test_under_no_change_the_p_value_is_small_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    trials = 2000
    data = np.exp(rng.normal(0.0, 0.1, (trials, 2, 5)))
    small = sum(paired(a, b).p < 0.05 for a, b in data)
    assert abs(small - 0.05 * trials) < 4 * math.sqrt(trials * 0.05 * 0.95)


def test_the_detectable_change_is_found_four_times_in_five() -> None:
    # With many runs the spread is known well, and the power at the detectable change tends to 0.8.
    rng = np.random.default_rng(11)
    trials, n, sigma = 1000, 40, 0.05
    base = rng.normal(0.0, sigma, (trials, n))
    step = math.log1p(paired(np.ones(n), np.exp(base[0])).detectable_percent / 100)
    typical = step * sigma / base[0].std(ddof=1)
    found = sum(paired(np.ones(n), np.exp(row + typical)).p < 0.05 for row in base)
    assert abs(found / trials - 0.8) < 0.06


@pytest.mark.parametrize("blocked", [True, False])
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 10.0))
@settings(max_examples=40, deadline=None)
def test_equivalence_is_shown_exactly_when_the_interval_lies_inside(blocked: bool, seed: int, margin: float) -> None:
    values = np.exp(np.random.default_rng(seed).normal(0.0, 0.02, (6, 2)))
    runs = [
        MeasuredRun(cell, float(values[block, cell]), block if blocked else None)
        for block in range(6)
        for cell in (0, 1)
    ]
    result = LogModel(runs).equivalence(0, 1, margin)
    assert result.shown == (result.change.low > 100 * (1 / (1 + margin / 100) - 1) and result.change.high < margin)
    assert result.change.level == pytest.approx(0.9)


def test_equivalence_errs_as_seldom_as_it_says() -> None:
    # True change exactly at the margin: showing equivalence is an error, allowed in 5 of 100.
    rng, trials, wrong = np.random.default_rng(8), 1500, 0
    for row in rng.normal(0.0, 0.004, (trials, 6)):
        runs = [
            MeasuredRun(cell, value, block)
            for block, one in enumerate(row)
            for cell, value in (("a", 1.0), ("b", 1.02 * math.exp(one)))
        ]
        wrong += LogModel(runs).equivalence("a", "b", 2.0).shown
    assert wrong < 0.05 * trials + 4 * math.sqrt(trials * 0.05 * 0.95)
    with pytest.raises(LayoutError, match="positive margin"):
        LogModel(runs).equivalence("a", "b", 0.0)


# Jain, examples 13.5 and 13.6 (A, B).
PAIRS = [(5.4, 19.1), (16.6, 3.5), (0.6, 3.4), (1.4, 2.5), (0.6, 3.6), (7.3, 1.7)]
A, B = [5.36, 16.57, 0.62, 1.41, 0.64, 7.26], [19.12, 3.52, 3.38, 2.50, 3.60, 1.74]


def test_two_systems_paired_as_in_the_textbook() -> None:
    made = fit(
        lay_out(["a", "b"] * 6, [block for block in range(6) for _ in "ab"]), [y for pair in PAIRS for y in pair]
    )
    (change,) = compare(made, [{"a": 1, "b": -1}], 0.90)
    assert change.value == pytest.approx(-0.316667, abs=5e-7)
    assert change.standard_error * math.sqrt(6) == pytest.approx(9.034471, abs=5e-7)
    assert (change.low, change.high) == pytest.approx((-7.748784, 7.115451), abs=5e-7)


def test_two_systems_unpaired_by_welch() -> None:
    made = fit(lay_out(["a"] * 6 + ["b"] * 6), [*A, *B])
    (change,) = compare(made, [{"a": 1, "b": -1}], 0.90, UNEQUAL)
    assert change.freedom == pytest.approx(9.943431, abs=5e-7)
    assert (change.low, change.high) == pytest.approx((-7.038828, 6.372161), abs=5e-7)


def demo_runs(response: str) -> list[MeasuredRun]:
    """The runs of one `make demo` beside busy neighbours: three blocks, four numbers of clients, direct and through the proxy."""
    with (Path(__file__).parent / "data" / "demo-runs.csv").open(newline="") as file:
        return [
            MeasuredRun(
                (int(row["clients"]), row["path"]), float(row[response]), int(row["repetition"]), int(row["position"])
            )
            for row in csv.DictReader(file)
        ]


def test_the_demo_shows_what_two_cells_at_a_time_could_not() -> None:
    """At 16 clients p of the change was .067 from three pairs alone (Holm over four levels); it is .002 from all runs."""
    runs = demo_runs("throughput_rps")
    clients = (1, 4, 16, 64)
    alone = []
    for n in clients:
        direct, proxy = (np.log([run.value for run in runs if run.cell == (n, path)]) for path in ("direct", "proxy"))
        alone.append(scipy.stats.ttest_rel(proxy, direct))
    assert alone[2].pvalue == pytest.approx(0.0336, abs=5e-4)
    assert holm([float(one.pvalue) for one in alone])[2] == pytest.approx(0.067, abs=5e-4)
    model = LogModel(runs)
    assert model.spread.p == pytest.approx(0.52, abs=0.05)
    assert model.dependence is not None
    assert not model.dependence.shown
    found = dict(zip(clients, model.changes([((n, "direct"), (n, "proxy")) for n in clients]), strict=True))
    assert [change.shown for change in found.values()] == [True, True, True, False]
    assert found[16].p == pytest.approx(0.0020, abs=2e-4)
    assert (found[16].low, found[16].high) == pytest.approx((-80.5, -30.9), abs=0.2)
    assert {change.family for change in found.values()} == {4}


def test_effects_of_the_demo_are_judged_without_what_blocks_have_in_common() -> None:
    """Clients × path had p = .053 where the spread between blocks was in the error; it is .046 beside it."""
    table = {cell: [run.value for run in demo_runs("throughput_rps") if run.cell == cell] for cell in CORNERS}
    signs = [[-1 if n == 1 else 1, -1 if path == "direct" else 1] for n, path in CORNERS]
    y = np.log([table[cell] for cell in CORNERS])
    without, beside = analyse_factorial(signs, y)["AB"], analyse_factorial(signs, y, blocked=True)["AB"]
    assert (without.significant, beside.significant) == (False, True)
    assert without.effect == pytest.approx(beside.effect)


CORNERS = [(n, path) for path in ("direct", "proxy") for n in (1, 64)]


def test_a_change_of_3_percent_is_found_where_leaving_blocks_out_finds_hardly_any() -> None:
    """Eight cells in five blocks that differ by 5 %, runs by 1 % beside that: 98 of 100 studies find it, 4 without blocks."""
    rng = np.random.default_rng(3)
    labels = [cell for _ in range(5) for cell in range(8)]
    blocks = [block for block in range(5) for _ in range(8)]
    layout, studies, found, without = lay_out(labels, blocks), 250, 0, 0
    for _ in range(studies):
        logs = rng.normal(0.0, 0.05, (5, 1)) + rng.normal(0.0, 0.01, (5, 8))
        logs[:, 1] += math.log(1.03)
        (change,) = compare(fit(layout, logs.ravel()), [{1: 1, 0: -1}])
        found += change.shown
        without += bool(scipy.stats.ttest_ind(logs[:, 0], logs[:, 1], equal_var=False).pvalue < 0.05)
    assert found >= 0.95 * studies
    assert without <= 0.10 * studies


def test_changes_between_sweeps_have_the_error_of_their_blocks() -> None:
    """Two cells of each of two sweeps, five blocks each: the mean of both changes once held in four of five studies, and not in 95 %."""
    rng = np.random.default_rng(20_261_130)
    held, trials = 0, 400
    for _ in range(trials):
        runs = [
            MeasuredRun((sweep, cell), math.exp(slow + rng.normal(0.0, 0.01)), (sweep, block))
            for sweep in ("unchanged", "changed")
            for block in range(5)
            for slow in [rng.normal(0.0, 0.08)]
            for cell in ("a", "b")
        ]
        weights: dict[Hashable, float] = {
            (sweep, cell): sign / 2 for sweep, sign in (("unchanged", -1.0), ("changed", 1.0)) for cell in ("a", "b")
        }
        low, high = Within(LogModel(runs).contrast(weights)).interval(0.05)
        held += low <= 0.0 <= high
    assert held >= 0.92 * trials
