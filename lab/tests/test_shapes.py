"""Service that varies more than exponentially: the same mean and cv², other percentiles; the bracket holds what is simulated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from weir_lab.theory.capacity import Tier, plan_capacity, predict_open
from weir_lab.theory.queueing import HyperexponentialStation, chain_quantile_s, mg1, mm1, shapes


def simulated_quantile(services: NDArray[np.float64], load: float, q: float, rng: np.random.Generator) -> float:
    """Response times of one server, first come first served, by Lindley's recursion."""
    gaps = rng.exponential(1.0 / load, services.size)
    walk = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    waits = walk - np.minimum.accumulate(walk)
    return float(np.quantile((waits + services)[services.size // 10 :], q))


@pytest.mark.parametrize("cv2", [1.0001, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_all_shapes_have_the_mean_and_the_variability(cv2: float, load: float) -> None:
    known = mg1(load, 1.0, cv2)
    for station in shapes(load, 1.0, cv2)[1:]:
        assert isinstance(station, HyperexponentialStation)
        assert station.service_time_s == pytest.approx(1.0)
        second = 2.0 * (station.long_share * station.long_s**2 + (1.0 - station.long_share) * station.short_s**2)
        assert second - 1.0 == pytest.approx(cv2, rel=1e-6)
        assert station.mean_response_time_s == pytest.approx(known.mean_response_time_s, rel=1e-6)
        assert station.response_transform(np.zeros(1, dtype=np.complex128))[0] == pytest.approx(1.0)


def test_without_more_variability_there_is_one_shape() -> None:
    assert len(shapes(0.5, 1.0, 1.0)) == len(shapes(0.5, 1.0, 0.2)) == 1
    nearly = [chain_quantile_s([(1.0, station)], 0.99) for station in shapes(0.5, 1.0, 1.000001)]
    assert nearly == pytest.approx([mm1(0.5, 1.0).response_time_quantile_s(0.99)] * len(nearly), rel=1e-2)


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("kind", [0, 1, 2, 7])
def test_a_shape_is_what_is_simulated(kind: int, load: float) -> None:
    rng, size = np.random.default_rng([3, kind]), 2_000_000
    station = shapes(load, 1.0, 6.0)[1 + kind]
    assert isinstance(station, HyperexponentialStation)
    assert station.long_share > 0.01  # rarer ones need simulations of hours
    longs = rng.random(size) < station.long_share
    services = rng.exponential(1.0, size) * np.where(longs, station.long_s, station.short_s)
    found = simulated_quantile(services, load, 0.99, rng)
    assert chain_quantile_s([(1.0, station)], 0.99) == pytest.approx(found, rel=0.06)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("q", [0.5, 0.99, 0.999])
@pytest.mark.parametrize("family", ["log-normal", "Weibull", "pauses"])
def test_the_bracket_holds_other_distributions(family: str, load: float, q: float) -> None:
    """Distributions that are not of the family: 1,000,000 requests each, with 3 % for the simulation's own error."""
    rng, size = np.random.default_rng([17, int(100 * load)]), 1_000_000
    if family == "log-normal":
        services = rng.lognormal(0.0, np.sqrt(np.log(5.0)), size)
    elif family == "Weibull":
        services = rng.weibull(0.55, size)
    else:  # 1 in 200 takes fifty times as long
        services = np.where(rng.random(size) < 0.005, 50.0, 1.0) * rng.exponential(1.0, size)
    services /= services.mean()
    plan = predict_open([Tier("m", 1.0, service_cv2=float(services.var()))], load, percentiles=(100.0 * q,))
    low, high = plan.shapes[100.0 * q]
    found = simulated_quantile(services, load, q, rng)
    assert 0.97 * low <= found <= 1.03 * high
    assert low <= plan.percentiles_s[100.0 * q] <= high


def test_capacity_for_the_worst_shape_is_never_smaller() -> None:
    tiers = [Tier("m", 5e-6, service_cv2=8.0)]
    usual = plan_capacity(tiers, 1e6, 99.0, 300e-6)
    worst = plan_capacity(tiers, 1e6, 99.0, 300e-6, worst_shape=True)
    assert usual.shapes[99.0][0] <= usual.percentiles_s[99.0] <= usual.shapes[99.0][1]
    assert worst.tiers[0].units >= usual.tiers[0].units
    assert worst.shapes[99.0][1] <= 300e-6
    assert plan_capacity([Tier("m", 5e-6)], 1e6, 99.0, 300e-6).shapes == {}
