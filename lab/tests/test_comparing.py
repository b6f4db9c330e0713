"""Cells of sweeps in the linear model: blocks are used where sweeps have them, and not across sweeps."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import scipy.stats

from synthetic import change_between_runs
from weir_lab.report.common import level_value, mark
from weir_lab.report.numbers.comparing import (
    basis_of,
    change_between,
    changes_between,
    equal_speed,
    level_of,
    stands_alone,
)
from weir_lab.report.page.blocks import Value, over
from weir_lab.theory.linear import positive_interval

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import CellReadings, Reading


class Cell(SimpleNamespace):
    """Recognised by what it is, not by its contents."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


def cell(name: str, values: list[float], sweep: str = "sweep", slowness: list[float] | None = None) -> CellReadings:
    """A cell with one run per block; only what comparing asks for."""
    runs = [
        SimpleNamespace(
            run=SimpleNamespace(
                folder=Path(sweep) / f"{name}-r{block}",
                meta=SimpleNamespace(repetition=block, started_unix_ns=1000 * block + sum(map(ord, name)) % 997),
            ),
            throughput=value,
            response_s=1.0 / value,
            slowness_ns=lambda block=block: None if slowness is None else slowness[block],
        )
        for block, value in enumerate(values)
    ]
    made = Cell(
        cell=SimpleNamespace(name=name),
        runs=tuple(runs),
        among=(),
        of=lambda f: [v for run in runs if (v := f(run)) is not None],
    )
    return cast("CellReadings", made)


def throughput(run: Reading) -> float:
    return run.throughput


def drifting(names: str, seed: int = 3) -> dict[str, CellReadings]:
    """Cells whose blocks differ by 5 % and runs by 1 %; ``b`` is 3 % above the others."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0.0, 0.05, 5)
    return {
        name: cell(name, (1000 * np.exp(blocks + rng.normal(0.0, 0.01, 5) + 0.03 * (name == "b"))).tolist())
        for name in names
    }


def test_changes_between_cells_of_a_sweep_use_its_blocks() -> None:
    """Claims, replication and multi-gets took Welch's interval, in which blocks are error: it finds nothing here."""
    cells = drifting("abcdefgh")
    change = change_between(list(cells.values()), cells["a"], cells["b"], throughput)
    assert change is not None
    assert change.shown
    assert change.low < 3.0 < change.high
    logs = [np.log(cells[name].of(throughput)) for name in "ab"]
    assert scipy.stats.ttest_ind(*logs, equal_var=False).pvalue > 0.3


def test_cells_of_two_sweeps_are_compared_without_blocks() -> None:
    rng = np.random.default_rng(5)
    one, other = (
        cell("a", (base * np.exp(rng.normal(0.0, 0.02, 6))).tolist(), sweep) for base, sweep in ((100, "x"), (120, "y"))
    )
    found = change_between([one, other], one, other, throughput)
    plain = change_between_runs(one.of(throughput), other.of(throughput))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


def test_changes_of_a_table_hold_together_and_thin_cells_have_none() -> None:
    cells = drifting("abcd")
    thin = cell("thin", [1000.0])
    given = [*cells.values(), thin]
    pairs = [(cells["a"], cells[name]) for name in "bcd"]
    together = changes_between(given, [*pairs, (cells["a"], thin)], throughput)
    assert together[-1] is None
    for pair, change in zip(pairs, together, strict=False):
        alone = change_between(given, *pair, throughput)
        assert change is not None
        assert alone is not None
        assert change.family == 3
        assert change.low < alone.low < alone.high < change.high


def test_a_level_knows_what_all_cells_say_and_stands_alone_without_them() -> None:
    cells = drifting("abcdefgh")
    alone = positive_interval(cells["c"].of(throughput))
    own = level_of(cells["c"], throughput)
    assert own == alone
    for one in cells.values():
        cast("Any", one).among = tuple(cells.values())
    known = level_of(cells["c"], throughput)
    assert known is not None
    assert known.mean == pytest.approx(alone.mean)
    # Blocks are most of the spread, and a level has them in it whatever the other cells say.
    assert math.log(known.high / known.mean) == pytest.approx(math.log(alone.high / alone.mean), rel=0.5)
    assert level_of(cell("one", [3.0]), throughput) is None


def test_no_interval_reaches_beyond_what_a_value_can_be() -> None:
    wide = cell("wide", [1.0, 3.0, 9.0])
    free, cut = level_of(wide, throughput), level_of(wide, throughput, most=lambda _: 10.0)
    assert free is not None
    assert cut is not None
    assert free.high > 10.0
    assert (cut.mean, cut.low, cut.high) == (free.mean, free.low, 10.0)
    # Counts may leave a mean above its bound; the interval still holds the mean.
    above = level_of(wide, throughput, most=lambda _: 1.0)
    assert above is not None
    assert above.high == above.mean


@pytest.mark.parametrize(
    ("values", "alone"),
    [([2.0, 2.2], True), ([2.0], False), ([2.0, 2.1, 2.2], False)],
)
def test_two_runs_that_no_other_cell_judges_stand_as_two_runs(values: list[float], alone: bool) -> None:
    thin = cell("thin", values)
    assert stands_alone(thin, throughput) is alone
    shown = level_value(thin, throughput)
    made = mark(thin, 1.0, throughput)
    assert isinstance(shown, Value)
    assert made is not None
    assert (shown.runs is not None) is alone
    assert (made.low is None) is (alone or len(values) == 1)
    assert [value for _, value in made.runs] == (values if len(values) > 1 else [])


def test_two_runs_among_cells_that_spread_alike_have_an_interval() -> None:
    cells = [cell(name, [value, 1.01 * value]) for name, value in (("a", 3.0), ("b", 5.0), ("c", 7.0))]
    for one in cells:
        cast("Any", one).among = tuple(cells)
    assert not stands_alone(cells[0], throughput)
    shown = level_value(cells[0], throughput)
    assert isinstance(shown, Value)
    assert shown.runs is None


def test_a_mean_of_two_runs_shows_both() -> None:
    assert over([2.9, 3.3]).text == "3.10 (2.90 and 3.30)"
    assert over([2.0, 4.0], 1e3).text == "3,000 (2,000 and 4,000)"
    assert "and" not in over([2.9, 3.1, 3.3]).text


def test_the_yardstick_needs_every_run_and_tells_its_slope() -> None:
    rng = np.random.default_rng(6)
    slow = {name: np.exp(rng.normal(0.0, 0.2, 4)).tolist() for name in "ab"}
    cells = [cell(name, [100.0 / z**0.9 for z in slow[name]], slowness=slow[name]) for name in "ab"]
    fit = equal_speed(cells)
    assert fit is not None
    assert fit.slope().value == pytest.approx(-0.9)
    assert equal_speed([cells[0], cell("c", [1.0, 2.0])]) is None


def test_a_section_says_what_its_intervals_rest_on() -> None:
    said = basis_of(list(drifting("abcd").values()))
    assert said.startswith(
        "20 runs of 4 cells on logarithms, 5 blocks taken out, 12 degrees of freedom. throughput: error "
    )
    assert ". mean response time: error " in said
    assert basis_of([cell("a", [1.0])]) == ""
