"""Distributions of waiting and response times: M/G/1, stations with finitely many jobs, stations inside closed networks."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_lab.theory.queueing import (
    FiniteStation,
    GeneralStation,
    Kind,
    OpenStation,
    Station,
    UnstableError,
    finite_source,
    md1,
    mg1,
    mm1,
    mmm,
    mmmk,
    solve_closed,
    solve_open,
    station_in_closed,
)

NAMES = (
    "utilization",
    "prob_empty",
    "prob_queueing",
    "mean_jobs_in_system",
    "mean_jobs_in_queue",
    "mean_response_time_s",
    "mean_waiting_time_s",
    "var_jobs_in_system",
    "var_jobs_in_queue",
    "var_response_time_s2",
    "var_waiting_time_s2",
)
LEVELS = (0.1, 0.5, 0.9, 0.99, 0.9999)


def crommelin(load: float, t: float) -> float:
    """P(wait > t) in M/D/1 with unit service: 1 - (1-ρ) sum (λ(j-t))^j / j! e^(λ(t-j)), whose terms cancel: 300 digits."""
    with localcontext() as context:
        context.prec = 300
        rate, at = Decimal(load), Decimal(t)
        total = Decimal(0)
        for j in range(int(at) + 1):
            x = rate * (j - at)
            total += (x**j if j else Decimal(1)) / math.factorial(j) * (-x).exp()
        return float(1 - (1 - rate) * total)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.98])
def test_constant_service_against_the_exact_series(load: float) -> None:
    station = md1(load, 1.0)
    for t in (0.05, 0.5, 0.9, 1.3, 1.7, 2.5, 3.3, 7.7, 20.5):
        assert station.waiting_time_tail(t) == pytest.approx(crommelin(load, t), abs=5e-4)
    assert station.waiting_time_tail(0.0) == load
    assert station.mean_waiting_time_s == pytest.approx(0.5 * mm1(load, 1.0).mean_waiting_time_s)
    for q in LEVELS:
        wait = station.waiting_time_quantile_s(q)
        assert station.response_time_quantile_s(q) == 1.0 + wait
        if 0.0 < wait < 150.0:
            assert crommelin(load, wait) == pytest.approx(1 - q, abs=1e-3, rel=1e-3)


@given(st.floats(0.01, 0.99), st.floats(1e-4, 1e4))
def test_exponential_service_is_mm1(load: float, mu: float) -> None:
    general, known = mg1(load * mu, 1 / mu, 1.0), mm1(load * mu, mu)
    for name in NAMES:
        assert getattr(general, name) == pytest.approx(getattr(known, name), rel=1e-9), name
    for q in (0.3, 0.9, 0.999):
        assert general.response_time_quantile_s(q) == pytest.approx(known.response_time_quantile_s(q), rel=1e-4)
        assert general.waiting_time_quantile_s(q) == pytest.approx(
            known.waiting_time_quantile_s(q), rel=1e-4, abs=1e-7 / mu
        )


@pytest.mark.parametrize("cv2", [0.0, 0.02, 0.3, 2.0, 9.0])
def test_general_service_against_lindleys_recursion(cv2: float) -> None:
    rng = np.random.default_rng(20_161_118)
    load, size, batches = 0.7, 400_000, 40
    station = mg1(load, 1.0, cv2)
    work = np.ones(size) if cv2 == 0.0 else rng.gamma(1 / cv2, cv2, size)
    # Lindley: the wait is the sum of steps so far, less its lowest point.
    steps = np.cumsum(work[:-1] - rng.exponential(1 / load, size - 1))
    waits = steps - np.minimum(np.minimum.accumulate(steps), 0.0)
    times = waits + work[1:]
    second = station.var_response_time_s2 + station.mean_response_time_s**2
    known = ((waits, station.mean_waiting_time_s), (times, station.mean_response_time_s), (times**2, second))
    for simulated, mean in known:
        means = simulated[: size // batches * batches - batches].reshape(batches, -1).mean(axis=1)
        # Two-sided 99.9 % point of Student's t with 39 degrees of freedom.
        assert abs(means.mean() - mean) < 3.56 * means.std(ddof=1) / math.sqrt(batches)
    for q in (0.5, 0.9, 0.99):
        assert (times <= station.response_time_quantile_s(q)).mean() == pytest.approx(q, abs=0.01)


def area(station: OpenStation | FiniteStation | GeneralStation, until: float) -> tuple[float, float]:
    """Mean and variance from the tail."""
    grid = np.linspace(0.0, until, 8001)
    tail = np.array([station.response_time_tail(t) for t in grid.tolist()])
    mean = (tail.sum() - 0.5 * (tail[0] + tail[-1])) * grid[1]
    return mean, 2 * (tail * grid).sum() * grid[1] - mean**2


@pytest.mark.parametrize(
    "station",
    [
        mmmk(3.0, 2.0, 2, 5),
        mmmk(9.0, 1.0, 1, 40),
        mmmk(20.0, 1.0, 8, 300),
        finite_source(30, 5.0, 1.0, 4),
        finite_source(5, 1.0, 1.0, 9),
        finite_source(192, 0.3, 1.0, 64),
        finite_source(50, 0.0, 1.0, 3),
    ],
)
def test_the_mean_is_the_area_under_the_tail(station: FiniteStation) -> None:
    mean, variance = area(station, station.mean_response_time_s + 25 * math.sqrt(station.var_response_time_s2))
    assert mean == pytest.approx(station.mean_response_time_s, rel=1e-4)
    assert variance == pytest.approx(station.var_response_time_s2, rel=2e-3)
    for q in LEVELS:
        time = station.response_time_quantile_s(q)
        assert station.response_time_tail(time) == pytest.approx(1 - q, rel=1e-8)
        assert station.waiting_time_quantile_s(q) <= time


@settings(max_examples=30)
@given(st.floats(0.05, 0.95), st.integers(1, 40))
def test_a_large_buffer_has_the_quantiles_of_an_infinite_one(load: float, servers: int) -> None:
    small, large = mmmk(load * servers, 1.0, servers, 2000), mmm(load * servers, 1.0, servers)
    for q in LEVELS:
        assert small.response_time_quantile_s(q) == pytest.approx(large.response_time_quantile_s(q), rel=1e-8)
    assert small.prob_jobs_at_least(servers) == pytest.approx(large.prob_jobs_at_least(servers), rel=1e-8)


def test_responses_of_a_full_closed_system_are_erlang_times() -> None:
    """Nobody thinks, one server: each request waits for all others, so its time is the sum of N services."""
    station = finite_source(40, 0.0, 2.0)
    times = np.random.default_rng(1).gamma(40, 0.5, 200_000)
    for q in (0.1, 0.5, 0.99):
        assert (times <= station.response_time_quantile_s(q)).mean() == pytest.approx(q, abs=4 * math.sqrt(0.25 / 2e5))


def test_large_closed_systems_have_quantiles_too() -> None:
    """100,000 clients on 5,000 servers: a saturated queue is nearly normal around its mean."""
    station = finite_source(100_000, 1.0, 1.0, 5000)
    middle = station.response_time_quantile_s(0.5)
    assert middle == pytest.approx(station.mean_response_time_s, rel=0.05)
    assert station.response_time_quantile_s(0.99) > middle


CASE = [
    Station("delay", 0.02, kind=Kind.DELAY),
    Station("loop", 1e-3),
    Station("workers", 0.01, visit_ratio=0.5, servers=6),
    Station("pair", 0.004, servers=2),
]


@pytest.mark.parametrize("population", [1, 7, 40, 300])
def test_a_station_inside_a_network(population: int) -> None:
    solution = solve_closed(CASE, population)
    for row, station in enumerate(CASE[1:], start=1):
        alone = station_in_closed(CASE, population, station.name)
        assert alone.probabilities.sum() == pytest.approx(1.0)
        assert alone.throughput_per_s == pytest.approx(
            float(solution.throughput_per_s[-1]) * station.visit_ratio, rel=1e-9
        )
        assert alone.mean_jobs_in_system == pytest.approx(float(solution.jobs[row, -1]), rel=1e-8)
        per_visit = float(solution.residence_time_s[row, -1]) / station.visit_ratio
        assert alone.mean_response_time_s == pytest.approx(per_visit, rel=1e-8)
        # The mean that arrivals meet agrees with Little's law on the whole.
        behind = np.maximum(np.arange(alone.seen.size) - alone.servers + 1.0, 0.0)
        wait = float(behind @ alone.seen) / (alone.servers * alone.service_rate_per_s)
        assert wait == pytest.approx(alone.mean_waiting_time_s, rel=1e-6, abs=1e-9)


@given(st.integers(1, 60), st.integers(1, 10), st.floats(0.05, 20.0))
def test_one_station_inside_a_network_is_the_finite_source_model(clients: int, servers: int, think: float) -> None:
    network = [Station("s", 0.5, servers=servers), Station("z", think, kind=Kind.DELAY)]
    inside, known = station_in_closed(network, clients, "s"), finite_source(clients, think, 2.0, servers)
    assert inside.probabilities == pytest.approx(known.probabilities, rel=1e-8, abs=1e-300)
    assert inside.response_time_quantile_s(0.95) == pytest.approx(known.response_time_quantile_s(0.95), rel=1e-8)


def test_stations_of_an_open_network_have_variances_and_quantiles() -> None:
    solution = solve_open([Station("a", 0.01, 2.0), Station("b", 0.02, servers=3), CASE[0]], 40.0)
    assert solution.station("a") == mm1(80.0, 100.0)
    expected = 2 * mm1(80.0, 100.0).var_response_time_s2 + mmm(40.0, 50.0, 3).var_response_time_s2
    assert solution.var_response_time_s2 == pytest.approx(expected)
    with pytest.raises(ValueError, match="delay is no station"):
        solution.station("delay")


def test_impossible_stations_are_refused() -> None:
    with pytest.raises(UnstableError, match="no steady state"):
        mg1(1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="coefficient"):
        mg1(0.5, 1.0, -0.1)
    with pytest.raises(ValueError, match="there are loop, workers, pair"):
        station_in_closed(CASE, 10, "delay")
