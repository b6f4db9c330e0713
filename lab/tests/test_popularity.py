"""Shares of keys as ``weir load`` draws them, and what the hottest key does to a tier."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_lab.theory.capacity import Tier, plan_capacity, predict_closed, predict_open
from weir_lab.theory.placements.popularity import Form, Popularity, hottest_share, key_shares, read_popularity
from weir_lab.theory.queueing import Kind, Station, UnstableError, solve_closed

FORMS = [
    "uniform",
    "sequential",
    "zipf:0",
    "zipf:0.7",
    "zipf:1",
    "zipf:2.7",
    "gaussian:0.5,0.1",
    "gaussian:0,0.02",
    "hot:0.1,0.9",
]


@pytest.mark.parametrize("text", [*FORMS, "hot:1,0.5", "hot:0.9,0.1", "gaussian:1,0.3"])
@pytest.mark.parametrize("keys", [1, 2, 17, 1000])
def test_the_hottest_key_is_the_largest_share(text: str, keys: int) -> None:
    popularity = read_popularity(text)
    shares = key_shares(popularity, keys)
    assert shares.sum() == pytest.approx(1.0)
    assert hottest_share(popularity, keys) == pytest.approx(shares.max(), rel=1e-9)


@pytest.mark.parametrize("exponent", [0.3, 0.99, 1.0, 1.01, 1.7, 2.7])
def test_the_sum_over_many_keys_is_that_over_each(exponent: float) -> None:
    popularity = Popularity(Form.ZIPF, exponent)
    assert hottest_share(popularity, 3_000_000) == pytest.approx(key_shares(popularity, 3_000_000)[0], rel=1e-12)


@pytest.mark.parametrize("text", FORMS)
def test_shares_are_what_the_generators_own_rules_draw(text: str) -> None:
    """Draws made as ``weir load`` describes them, not by the formulas of the module."""
    rng, keys, draws = np.random.default_rng(5), 50, 200_000
    name, _, rest = text.partition(":")
    numbers = [float(part) for part in rest.split(",") if part]
    if name == "zipf":
        weights = [rank ** -numbers[0] for rank in range(1, keys + 1)]
        drawn = rng.choice(keys, draws, p=np.array(weights) / sum(weights))
    elif name == "gaussian":
        points = rng.normal(numbers[0] * keys, numbers[1] * keys, 4 * draws)
        drawn = points[(points >= 0) & (points < keys)].astype(int)
    elif name == "hot":
        hot = round(numbers[0] * keys)
        drawn = np.where(rng.random(draws) < numbers[1], rng.integers(0, hot, draws), rng.integers(hot, keys, draws))
    else:
        drawn = rng.integers(0, keys, draws)
    found = np.bincount(drawn, minlength=keys) / drawn.size
    expected = key_shares(read_popularity(text), keys)
    assert np.abs(found - expected).max() < 5.0 * np.sqrt(expected.max() / drawn.size) + 1e-9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zipf",
        "zipf:",
        "zipf:a",
        "zipf:-1",
        "zipf:11",
        "zipf:1,2",
        "hot:0,1",
        "hot:1",
        "hot:2,0.5",
        "gaussian:0.5,0",
        "random",
    ],
)
def test_what_is_no_popularity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"popularity|exponent|shares|above 0"):
        read_popularity(text)


def test_a_key_that_no_unit_can_carry_is_refused() -> None:
    """Four million requests per second by zipf:1 over a million keys: one key alone needs 195 % of a unit of 7 µs."""
    hottest = hottest_share(read_popularity("zipf:1"), 1_000_000)
    tier = Tier("memcached", 7e-6, hottest=hottest)
    with pytest.raises(
        ValueError, match=r"One key of memcached gets 6\.95 % of the requests and alone keeps a unit 195 % busy"
    ):
        plan_capacity([tier], 4e6, 99.0, 2e-3)
    # Without the key it was 35 units, 80 % busy.
    blind = plan_capacity([replace(tier, hottest=0.0)], 4e6, 99.0, 2e-3)
    assert (blind.tiers[0].units, round(blind.utilization[0], 2)) == (35, 0.8)
    with pytest.raises(UnstableError, match="alone keeps a unit 195 % busy"):
        predict_open([replace(tier, units=35)], 4e6)


@settings(max_examples=30)
@given(st.floats(0.0, 0.5), st.floats(1.0, 2.0), st.floats(1e4, 1e6), st.floats(0.0, 1.0))
def test_enough_units_are_enough_and_no_unit_can_be_spared(
    hottest: float, imbalance: float, rate: float, writes: float
) -> None:
    tier = Tier("m", 1e-6, hottest=hottest, imbalance=imbalance, replicas=2, writes=writes)
    if tier.utilization_by_hottest(rate) > 0.7:
        return
    plan = plan_capacity([tier], rate, 99.0, 1.0)
    assert plan.utilization[0] <= 0.8 + 1e-9
    units = plan.tiers[0].units
    assert units == 2 or replace(tier, units=units - 1).utilization(rate) > 0.8 - 1e-9


def test_the_unit_with_the_hottest_key_has_the_load_that_hashing_gives_it() -> None:
    rng, units, keys = np.random.default_rng(11), 8, 2000
    shares = key_shares(read_popularity("zipf:0.9"), keys)
    found = []
    for _ in range(300):
        places = rng.integers(0, units, keys)
        found.append(shares[places == places[0]].sum())
    tier = Tier("m", 1.0, units=units, hottest=float(shares[0]))
    error = float(np.std(found)) / math.sqrt(len(found))
    assert tier.utilization(1.0) == pytest.approx(float(np.mean(found)), abs=4.0 * error)


def test_a_closed_load_with_a_hot_key_is_the_product_form() -> None:
    tier = Tier("m", 5e-6, units=3, hottest=0.4)
    visits = [0.4 + 0.6 / 3, 0.6 / 3, 0.6 / 3]
    stations = [Station(str(n), 5e-6, visit) for n, visit in enumerate(visits)]
    exact = solve_closed([*stations, Station("z", 1e-5, kind=Kind.DELAY)], 20)
    plan = predict_closed([tier], 20, 1e-5)
    assert plan.throughput.value == pytest.approx(float(exact.throughput_per_s[-1]), rel=1e-12)
    assert plan.utilization[0] == pytest.approx(plan.throughput.value * 5e-6 * 0.6)
    even = predict_closed([replace(tier, hottest=0.0)], 20, 1e-5)
    assert plan.throughput.value < even.throughput.value
    with pytest.raises(ValueError, match="hottest key only where writes go to one unit"):
        predict_closed([replace(tier, replicas=2, writes=0.5)], 20)
