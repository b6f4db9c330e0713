"""Where runs go, and whether intervals still cover what they say when the runs went where the widths were largest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from weir_lab.theory.linear import Aim, LogModel, MeasuredRun, Reach, next_block, reaches, runs_to_come
from weir_lab.theory.linear.fit import fit
from weir_lab.theory.linear.layout import lay_out

WIDE, NARROW = Aim(0.10, 3), Aim(0.05, 5)


def test_the_cell_with_the_largest_lack_comes_next_with_its_partners_and_the_anchors() -> None:
    found = {
        "a": Reach(3, 0.12, WIDE, 20), "b": Reach(3, 0.09, NARROW, 20), "c": Reach(3, 0.04, WIDE, 20),
        "d": Reach(3, 0.06, WIDE, 20), "e": Reach(3, 0.06, WIDE, 20),
    }  # fmt: skip
    partners = {"b": [["a", "c"], ["d"]]}
    block = next_block(found, partners, ["e"], np.random.default_rng(1))
    # b lacks 1.8, a 1.2: of the group of a and c the one that needs runs comes along.
    assert sorted(map(str, block)) == ["a", "b", "d", "e"]


def test_a_block_is_filled_with_those_that_lack_most_up_to_ten() -> None:
    """In blocks of five cells two were anchors that needed nothing, and a night took half as long again."""
    found = {name: Reach(1, 0.05 + 0.001 * number, NARROW, 20) for number, name in enumerate("abcdefghijklmn")}
    block = next_block({**found, "y": Reach(9, 0.01, NARROW, 20)}, {"n": [["a"]]}, ["y"], np.random.default_rng(1))
    assert sorted(map(str, block)) == ["a", "f", "g", "h", "i", "j", "k", "l", "m", "n", "y"]


def test_cells_with_a_single_run_come_before_those_that_lack_more() -> None:
    """After 198 runs of 56 cells 13 had one, and no verdict on them could tell: the pooled error said that they were known well enough."""
    found = {"a": Reach(5, 0.30, WIDE, 20), "b": Reach(1, 0.06, WIDE, 20), "c": Reach(2, 0.25, WIDE, 20)}
    partners = {"a": [["c"]]}
    for seed in range(20):
        assert "b" in next_block(found, partners, [], np.random.default_rng(seed), 1)
    assert sorted(next_block(found, partners, [], np.random.default_rng(1), 2)) == ["a", "b"]


def test_no_block_comes_when_every_cell_is_within_its_aim_and_has_its_runs() -> None:
    found = {"a": Reach(5, 0.05, NARROW, 8), "b": Reach(3, 0.10, WIDE, 8)}
    assert next_block(found, {}, [], np.random.default_rng(1)) == []
    for lacking in (Reach(4, 0.01, NARROW, 8), Reach(5, 0.051, NARROW, 8), Reach(5, 0.01, NARROW, 7)):
        assert "a" in next_block({**found, "a": lacking}, {}, [], np.random.default_rng(1))


def test_a_level_is_brought_to_the_blocks_and_the_speed_of_the_others() -> None:
    """Block 3 is twice as slow and has cell b alone; exact data leave exact levels."""
    slow = {1: 1.0, 2: 1.5, 3: 2.0}
    cells, blocks = ["a", "b", "c", "a", "b", "c", "b", "c"], [1, 1, 1, 2, 2, 2, 3, 3]
    true = {"a": 100.0, "b": 200.0, "c": 300.0}
    made = fit(lay_out(cells, blocks), [math.log(true[c] / slow[b]) for c, b in zip(cells, blocks, strict=True)])
    at = {cell: math.exp(made.level_here(cell).value) for cell in true}
    assert at["b"] / at["a"] == pytest.approx(2.0)
    assert at["c"] / at["a"] == pytest.approx(3.0)
    reference = math.exp(sum(math.log(slow[block]) for block in blocks) / len(blocks))
    assert at["a"] == pytest.approx(100.0 / reference)


def test_the_spread_of_a_level_is_the_one_that_draws_show() -> None:
    cells, blocks = ["a", "b", "c", "a", "b", "a", "c"], [1, 1, 1, 2, 2, 3, 3]
    layout, rng = lay_out(cells, blocks), np.random.default_rng(5)
    drawn = [fit(layout, rng.normal(size=len(cells))) for _ in range(4000)]
    for cell in "abc":
        values = [made.level_here(cell).value for made in drawn]
        reported = drawn[0].level_here(cell).standard_error / drawn[0].error_sd
        assert np.std(values) == pytest.approx(reported, rel=0.05)


@dataclass(frozen=True)
class World:
    """What the machine does: spread between blocks and inside them, of short runs more; how much the yardstick tells."""

    error: float = 0.05
    short: float = 1.2
    blocks: float = 0.08
    speed: float = 0.10
    slope: float = -0.9


def nights(
    draws: int, world: World, seed: int, *, side: int = 3, room: int = 3, runs_max: int = 150
) -> tuple[float, float, float, float]:
    """Share of intervals that hold the truth: of levels, of changes between partners; runs per study; share of studies that converged.

    Cells stand in a square; two are headline cells. A first block has all; then blocks as they are allocated, with ``room`` cells beside
    the anchors, until all is within its aim, or the runs are used up.
    """
    rng = np.random.default_rng(seed)
    cells = [(row, column) for row in range(side) for column in range(side)]
    mu = {cell: math.log(1000.0) + 0.3 * cell[0] + 0.2 * cell[1] for cell in cells}
    aims = {cell: NARROW if cell[0] == cell[1] == 1 or cell == (2, 1) else WIDE for cell in cells}
    partners = {
        (r, c): [[(r + d, c) for d in (-1, 1) if 0 <= r + d < side], [(r, c + d) for d in (-1, 1) if 0 <= c + d < side]]
        for r, c in cells
    }
    levels = changes = asked = compared = made_runs = converged = 0
    for _ in range(draws):
        runs: list[MeasuredRun] = []
        truth: list[float] = []
        block, order = 0, list(cells)
        found: dict[tuple[int, int], Reach] = {}
        while order and len(runs) < runs_max:
            block += 1
            here = rng.normal(0.0, world.blocks)
            for cell in order:
                z = rng.normal(0.0, world.speed)
                shift = here + world.slope * z
                sd = world.error * (1.0 if aims[cell] is NARROW else world.short)
                runs.append(
                    MeasuredRun(cell, math.exp(mu[cell] + shift + rng.normal(0.0, sd)), block, None, math.exp(z))
                )
                truth.append(shift)
            found = reaches([runs], aims)
            order = next_block(found, partners, [(0, 0), (2, 2)], rng, room)
        converged += not order
        made_runs += len(runs)
        layout = lay_out([r.cell for r in runs], [r.block for r in runs], [math.log(r.covariate or 1) for r in runs])
        done, reference = fit(layout, [math.log(r.value) for r in runs]), float(np.mean(truth))
        model = LogModel(runs, with_covariate=True)
        quantile = math.log1p(found[cells[0]].half_width) / done.level_here(cells[0]).standard_error
        for cell in cells:
            level = done.level_here(cell)
            levels += abs(level.value - mu[cell] - reference) <= quantile * level.standard_error
            asked += 1
        for one, other in (((1, 1), (2, 1)), ((0, 1), (0, 2))):
            contrast = model.fit.contrast({one: 1.0, other: -1.0})
            changes += abs(contrast.value - mu[one] + mu[other]) <= quantile * contrast.standard_error
            compared += 1
    return levels / asked, changes / compared, made_runs / draws, converged / draws


def test_intervals_cover_although_runs_went_where_widths_were_largest() -> None:
    levels, changes, runs, converged = nights(500, World(), 26)
    assert levels >= 0.92
    assert changes >= 0.92
    assert 30 < runs < 100
    assert converged > 0.95


def test_intervals_cover_where_cells_are_many_and_blocks_are_filled() -> None:
    levels, changes, runs, converged = nights(150, World(), 27, side=5, room=10, runs_max=400)
    assert levels >= 0.92
    assert changes >= 0.92
    assert 75 < runs < 250
    assert converged > 0.95


@pytest.mark.long
@pytest.mark.parametrize(
    "world", [World(), World(error=0.03), World(error=0.10), World(short=1.5), World(blocks=0.2), World(speed=0.0001)]
)
@pytest.mark.parametrize(("side", "room"), [(3, 3), (5, 10)])
def test_intervals_cover_in_ten_thousand_nights(world: World, side: int, room: int) -> None:
    levels, changes, _, _ = nights(
        10_000 if side == 3 else 2_000, world, 2026, side=side, room=room, runs_max=150 if side == 3 else 400
    )
    assert levels >= 0.92
    assert changes >= 0.92


LIGHT, FULL = 0.01, 0.05


class Held(NamedTuple):
    """Shares of intervals of light cells and of full ones that hold the truth: as verdicts have them, and at one speed; runs per study."""

    light: float
    full: float
    light_here: float
    full_here: float
    runs: float


def nights_of_two_spreads(draws: int, seed: int, *, blocks: float, full: float = FULL, least: int = 3) -> Held:
    """Twelve cells, of which four are full; every cell is to be known within 3 %, from the ``least`` number of runs on.

    At one speed the truth is that of the blocks that there were, where a level's is that of all that there might be.
    """
    rng = np.random.default_rng(seed)
    spreads = {number: full if number >= 8 else LIGHT for number in range(12)}
    aims = dict.fromkeys(spreads, Aim(0.03, least))
    held: dict[tuple[bool, bool], list[bool]] = {(one, here): [] for one in (False, True) for here in (False, True)}
    made_runs = 0
    for _ in range(draws):
        runs: list[MeasuredRun] = []
        hours: list[float] = []
        block, order = 0, list(spreads)
        while order and len(runs) < 400:
            block += 1
            here = rng.normal(0.0, blocks)
            runs += [
                MeasuredRun(
                    cell, math.exp(7.0 + here + rng.normal(0.0, spreads[cell])), block, float(len(runs) + place)
                )
                for place, cell in enumerate(order)
            ]
            hours += [here] * len(order)
            order = next_block(reaches([runs], aims), {}, [0, 8], rng)
        made_runs += len(runs)
        model, there = LogModel(runs), math.exp(7.0 + float(np.mean(hours)))
        for cell, interval in model.levels().items():
            full_one = spreads[int(str(cell))] > LIGHT
            held[full_one, False].append(interval.low <= math.exp(7.0) <= interval.high)
            at_one_speed = model.level_here(cell)
            held[full_one, True].append(at_one_speed.low <= there <= at_one_speed.high)
    light, heavy, light_here, heavy_here = (
        float(np.mean(held[full_one, here])) if held[full_one, here] else 1.0
        for here in (False, True)
        for full_one in (False, True)
    )
    return Held(light, heavy, light_here, heavy_here, made_runs / draws)


def test_intervals_of_verdicts_cover_where_full_cells_spread_more_than_light_ones() -> None:
    found = nights_of_two_spreads(60, 28, blocks=0.01)
    assert min(found[:4]) >= 0.92
    assert found.runs > 12 * 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("full", "blocks", "least"),
    [(full, blocks, least) for least in (5, 3) for full in (LIGHT, 0.03, 0.05) for blocks in (0.003, 0.01, 0.02)],
)
def test_intervals_of_levels_cover_in_a_thousand_nights_of_two_spreads(full: float, blocks: float, least: int) -> None:
    """Headline cells have five runs at least, and others three."""
    found = nights_of_two_spreads(1000, 2029, blocks=blocks, full=full, least=least)
    assert min(found[:4]) >= 0.92


def test_a_cell_that_spreads_more_than_the_others_is_known_by_its_own_runs() -> None:
    """A night called cells nearly done by the error of all; verdicts, by their own three runs, had them within 13 %."""
    rng = np.random.default_rng(4)
    runs = [
        MeasuredRun(cell, 100.0 * math.exp(rng.normal(0.0, FULL if cell == 9 else 0.003)), block, 10.0 * block + cell)
        for block in range(3)
        for cell in range(10)
    ]
    found, verdicts = reaches([runs], dict.fromkeys(range(10), Aim(0.05, 3))), LogModel(runs).levels()
    assert found[9].own
    assert not found[9].known
    assert found[9].half_width == pytest.approx(verdicts[9].high / verdicts[9].mean - 1.0, rel=0.1)
    assert not found[0].own


def test_own_runs_to_come_count_that_the_quantile_shrinks_too() -> None:
    spread, three = 0.02, 4.303
    found = Reach(3, three * spread / math.sqrt(3.0), Aim(0.02, 3), 2.0, own=True)
    # t(6) / sqrt(7) is 0.925 of the 1 that is wanted, and 6 degrees of freedom are enough. By the square of the lack it would be 19 runs.
    assert runs_to_come({"a": found}) == {"a": 4}
    # Narrow enough already, but by two degrees of freedom, and not by half: lucky runs may be so.
    assert runs_to_come({"a": Reach(3, 0.015, Aim(0.02, 3), 2.0, own=True)}) == {"a": 1}
    assert runs_to_come({"a": Reach(3, 0.009, Aim(0.02, 3), 2.0, own=True)}) == {"a": 0}
    # Two runs that differ by a factor of thousands: counted one by one it took for ever.
    assert runs_to_come({"a": Reach(2, 1e12, Aim(0.02, 3), 1.0, own=True)})["a"] > 100_000


def test_what_is_still_to_come_is_estimated_by_the_square_of_the_lack() -> None:
    assert runs_to_come({"a": Reach(5, 0.10, NARROW, 9), "b": Reach(5, 0.02, NARROW, 9)}) == {"a": 15, "b": 0}
