"""The search for a capacity: what its interval holds, on responses whose capacity is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from weir_lab.theory.capacity.searching import CapacitySearch, SearchVerdict, capacity_ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    Met = Callable[[float, np.random.Generator], bool]


def growing(slope: float, spread: float) -> Met:
    """log(p99 / limit) grows by `slope` per unit of ln rate, with normal spread between runs. The rate is a share of the capacity."""
    return lambda rate, rng: bool(slope * np.log(rate) + rng.normal(0.0, spread) < 0.0)


def saturating(load: float, spread: float) -> Met:
    """A queue: the percentile grows as 1 / (1 - utilization), and the limit is met at this load."""

    def met(rate: float, rng: np.random.Generator) -> bool:
        utilization = min(rate * load, 0.999)
        return bool(np.log((1.0 - load) / (1.0 - utilization)) + rng.normal(0.0, spread) < 0.0)

    return met


def skewed(slope: float, spread: float) -> Met:
    """Runs are now and then much worse, and never much better; half of them are above their median."""
    return lambda rate, rng: bool(slope * np.log(rate) + spread * (rng.exponential() - np.log(2.0)) < 0.0)


def spoiled(met: Met, share: float) -> Met:
    """Something else makes a share of the runs miss the goal."""
    return lambda rate, rng: met(rate, rng) and rng.random() > share


def step(rate: float, _rng: np.random.Generator) -> bool:
    return rate < 1.0


RESPONSES: dict[str, Met] = {
    "steep": growing(5.0, 0.1),
    "usual": growing(4.0, 0.2),
    "flat": growing(2.0, 0.2),
    "very flat": growing(1.0, 0.3),
    "queue at 80 %": saturating(0.8, 0.15),
    "queue at 50 %": saturating(0.5, 0.15),
    "skewed": skewed(4.0, 0.3),
    "5 % spoiled": spoiled(growing(4.0, 0.2), 0.05),
    "step": step,
}


def searched(
    met: Met, capacity: float, rng: np.random.Generator, half_width: float = 0.1, runs_max: int = 40, span: float = 10.0
) -> CapacitySearch:
    search = CapacitySearch(1000.0 / span, 1000.0 * span, half_width)
    while search.runs < runs_max and search.estimate().verdict is SearchVerdict.CONTINUE:
        rate = search.next_rate()
        search.add(rate, met=met(rate / capacity, rng))
    return search


def coverage(met: Met, studies: int, half_width: float, runs_max: int, seed: int) -> float:
    """Share of the searches whose interval holds the capacity."""
    rng, held = np.random.default_rng(seed), 0
    for _ in range(studies):
        capacity = 1000.0 * float(np.exp(rng.uniform(-1.0, 1.0)))
        found = searched(met, capacity, rng, half_width, runs_max).estimate()
        held += found.low <= capacity <= found.high
    return held / studies


@pytest.mark.parametrize("name", ["queue at 50 %", "5 % spoiled"])
def test_the_interval_holds_the_capacity(name: str) -> None:
    # 120 searches whose interval holds 95 % fall below 88 % once in a thousand times; 80 % is then found as often.
    assert coverage(RESPONSES[name], 120, 0.1, 40, seed=1) >= 0.88


@pytest.mark.long
@pytest.mark.parametrize("half_width", [0.1, 0.05])
@pytest.mark.parametrize("name", RESPONSES)
def test_the_interval_holds_the_capacity_in_many_searches(name: str, half_width: float) -> None:
    assert coverage(RESPONSES[name], 10_000 // len(RESPONSES), half_width, 60, seed=2) >= 0.92


def warned(met: Met, searches: int, rng: np.random.Generator, deviation: float = 0.0, kept: float = 0.9) -> float:
    """Share of the searches that call their votes drifting; ln C wanders (first-order autoregressive) with this deviation."""
    found = 0
    for _ in range(searches):
        wandering = [deviation * float(rng.normal())]

        def drifting(rate: float, rng: np.random.Generator, wandering: list[float] = wandering) -> bool:
            wandering[0] = kept * wandering[0] + deviation * float(np.sqrt(1.0 - kept**2) * rng.normal())
            return met(rate / float(np.exp(wandering[0])), rng)

        found += searched(drifting, 1000.0, rng, span=100.0).drifts
    return found / searches


@pytest.mark.parametrize("name", ["usual", "queue at 50 %"])
def test_independent_votes_are_seldom_called_drifting(name: str) -> None:
    assert warned(RESPONSES[name], 50, np.random.default_rng(3)) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", RESPONSES)
def test_independent_votes_are_seldom_called_drifting_in_many_searches(name: str) -> None:
    assert warned(RESPONSES[name], 400, np.random.default_rng(4)) <= 0.05


def test_a_capacity_that_wanders_is_called_drifting() -> None:
    assert warned(RESPONSES["usual"], 50, np.random.default_rng(5), deviation=1.0) >= 0.6


def test_a_search_ends_narrow_and_near() -> None:
    found = searched(RESPONSES["steep"], 1500.0, np.random.default_rng(5))
    estimate = found.estimate()
    assert estimate.verdict is SearchVerdict.FOUND
    assert estimate.half_width <= 0.1
    assert estimate.low < estimate.capacity < estimate.high
    assert 8 <= found.runs <= 30
    # An abrupt response over four decades takes no more than the bisection needs, and as many to be sure that it is abrupt.
    sharp = searched(step, 1500.0, np.random.default_rng(0), span=100.0)
    assert sharp.runs <= 25
    assert abs(np.log(sharp.estimate().capacity / 1500.0)) < 0.1


def test_an_interval_that_holds_less_is_found_out() -> None:
    """The check above can fail: intervals at a level of 51 % do not pass it."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(60):
        search = CapacitySearch(100.0, 10_000.0, 0.1, level=0.51)
        for _ in range(12):
            rate = search.next_rate()
            search.add(rate, met=RESPONSES["flat"](rate / 1500.0, rng))
        found = search.estimate()
        held += found.low <= 1500.0 <= found.high
    assert held / 60 < 0.88


@pytest.mark.parametrize(("met", "verdict"), [(True, SearchVerdict.ABOVE), (False, SearchVerdict.BELOW)])
def test_a_capacity_outside_of_the_rates_is_reported(met: bool, verdict: SearchVerdict) -> None:
    search = searched(lambda _rate, _rng: met, 1.0, np.random.default_rng(0))
    assert search.estimate().verdict is verdict
    assert search.runs <= 20


def test_rates_that_are_tried_stay_between_the_ends_and_the_search_is_a_function_of_its_answers() -> None:
    one, other = (searched(RESPONSES["usual"], 1200.0, np.random.default_rng(7)) for _ in range(2))
    assert one.estimate() == other.estimate()
    search = CapacitySearch(100.0, 200.0)
    for met in (True, True, False, True, False, False, True, True):
        assert 100.0 <= search.next_rate() <= 200.0
        search.add(search.next_rate(), met=met)


@pytest.mark.parametrize(
    ("rate_min", "rate_max", "half_width", "level"),
    [(0.0, 1.0, 0.1, 0.95), (2.0, 1.0, 0.1, 0.95), (1.0, 2.0, 0.1, 0.3), (1.0, 2.0, 0.0, 0.95)],
)
def test_what_cannot_be_searched_is_refused(rate_min: float, rate_max: float, half_width: float, level: float) -> None:
    with pytest.raises(ValueError, match="Give"):
        CapacitySearch(rate_min, rate_max, half_width, level)


def ratio_coverage(met: Met, pairs: int, seed: int, *levels: float) -> list[float]:
    """Share of the pairs of searches whose ratio of capacities lies in its interval, at each level."""
    rng, held = np.random.default_rng(seed), np.zeros(len(levels))
    for _ in range(pairs):
        capacities = 1000.0 * np.exp(rng.uniform(-1.0, 1.0, 2))
        one, other = (searched(met, float(capacity), rng) for capacity in capacities)
        found = [capacity_ratio(one, other, level) for level in levels]
        held += [ratio.low <= capacities[1] / capacities[0] <= ratio.high for ratio in found]
    return list(held / pairs)


def test_the_interval_of_a_ratio_holds_it() -> None:
    # 60 ratios whose interval holds 95 % fall below 85 % once in five hundred times; the same with a level of 60 % is found out.
    right, short = ratio_coverage(RESPONSES["usual"], 60, 3, 0.95, 0.6)
    assert right >= 0.85
    assert short < 0.85


@pytest.mark.long
@pytest.mark.parametrize("name", RESPONSES)
def test_the_interval_of_a_ratio_holds_it_in_many_searches(name: str) -> None:
    (held,) = ratio_coverage(RESPONSES[name], 10_000 // len(RESPONSES), 4, 0.95)
    assert held >= 0.92


def test_a_ratio_is_that_of_two_capacities_and_needs_the_same_rates() -> None:
    rng = np.random.default_rng(8)
    one, other = (searched(RESPONSES["steep"], capacity, rng) for capacity in (800.0, 1600.0))
    found, back = capacity_ratio(one, other), capacity_ratio(other, one)
    assert found.low < 2.0 < found.high
    assert found.shown
    assert (back.low, back.high) == pytest.approx((1.0 / found.high, 1.0 / found.low))
    assert not capacity_ratio(one, one).shown
    with pytest.raises(ValueError, match="between the same rates"):
        capacity_ratio(one, CapacitySearch(1.0, 2.0))
