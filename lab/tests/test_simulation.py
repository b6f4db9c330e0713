"""What if, checked by simulation: predictions and plans lie within the simulations' 99 % intervals. Seeded: each passes or fails for good.

WEIR_SIMULATIONS=10 simulates ten times as many requests (`scripts/check --long`): then every model is held to a narrower interval.
"""

from __future__ import annotations

import os
from dataclasses import replace

import ciw
import numpy as np
import pytest

from weir_lab.theory.capacity import Tier, plan_capacity, predict_closed, predict_open
from weir_lab.theory.capacity.simulation import simulate_closed, simulate_fork_join, simulate_network, simulate_open
from weir_lab.theory.queueing import (
    Kind,
    Station,
    finite_source,
    fork_join,
    mmm,
    replicated_write_response_time,
    solve_closed,
    station_in_closed,
)
from weir_lab.theory.stats import Interval, mean_interval

SEED = 20_161_118
SCALE = int(os.environ.get("WEIR_SIMULATIONS", "1"))
BATCHES = 20


def holds(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def batched(values: list[float]) -> Interval:
    """99 % interval of the mean, from batches in the order of time."""
    data = np.asarray(values)
    return mean_interval(data[: data.size // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1), 0.99)


OPEN = {
    "proxies with workers, servers": ([Tier("proxy", 1.0, servers=4, units=2), Tier("memcached", 0.5, units=3)], 4.0),
    "a link of constant messages": ([Tier("loop", 1.0), Tier("link", 0.5, service_cv2=0.0)], 0.7),
    "service that varies much": ([Tier("loop", 1.0, service_cv2=3.0)], 0.5),
    "one busy station": ([Tier("workers", 1.0, servers=16)], 14.0),
    "two replicas of two units": ([Tier("memcached", 1.0, units=2, replicas=2, writes=1.0)], 0.6),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_predictions(name: str) -> None:
    tiers, rate = OPEN[name]
    simulated = simulate_open(tiers, rate, 60_000 * SCALE, np.random.default_rng(SEED), delay_s=0.25)
    plan = predict_open(tiers, rate, 0.25)
    assert holds(simulated.throughput_per_s, rate)
    assert holds(simulated.mean_response_time_s, plan.mean_response_time_s)
    if name != "two replicas of two units":  # its mean is exact, its percentiles are not
        assert holds(simulated.percentiles_s[50.0], plan.percentiles_s[50.0])
        assert holds(simulated.percentiles_s[99.0], plan.percentiles_s[99.0])


CLOSED = {
    "light": ([Tier("proxy", 1.0, servers=4), Tier("memcached", 0.5, units=3)], 3, 2.0),
    "at the knee": ([Tier("proxy", 1.0, servers=4, units=2), Tier("memcached", 0.5, units=3)], 20, 2.0),
    "saturated": ([Tier("proxy", 1.0, servers=4), Tier("memcached", 0.5, units=2)], 40, 2.0),
    "nobody thinks": ([Tier("loop", 0.3), Tier("memcached", 1.0, units=3)], 8, 0.0),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_predictions(name: str) -> None:
    tiers, clients, delay = CLOSED[name]
    simulated = simulate_closed(tiers, clients, delay, 30_000 * SCALE, np.random.default_rng(SEED))
    plan = predict_closed(tiers, clients, delay)
    assert holds(simulated.throughput_per_s, plan.throughput.value)
    assert holds(simulated.mean_response_time_s, plan.response_time.value)


@pytest.mark.parametrize(("replicas", "needed", "writes"), [(2, 2, 0.5), (3, 3, 1.0), (3, 2, 0.3), (3, 1, 1.0)])
def test_parallel_writes_are_within_the_error_that_is_stated(replicas: int, needed: int, writes: float) -> None:
    """The table of docs/measure/queueing.md: a few percent where all must answer, more where the first ones do."""
    tier = Tier("memcached", 1.0, units=3, replicas=replicas, needed=needed, writes=writes)
    rate = 1.8 / (1 - writes + writes * replicas)
    rng = np.random.default_rng(SEED)
    opened, plan = simulate_open([tier], rate, 60_000 * SCALE, rng), predict_open([tier], rate)
    assert plan.mean_response_time_s == pytest.approx(opened.mean_response_time_s.mean, rel=0.06)
    error = 0.07 if needed == replicas else 0.25
    assert plan.percentiles_s[99.0] == pytest.approx(opened.percentiles_s[99.0].mean, rel=error)
    if needed == replicas:
        closed = simulate_closed([tier], 8, 4.0, 30_000 * SCALE, rng)
        assert predict_closed([tier], 8, 4.0).throughput.value == pytest.approx(closed.throughput_per_s.mean, rel=0.06)


def test_a_plan_keeps_its_limit_and_one_unit_less_does_not() -> None:
    tiers = [Tier("proxy", 10e-6, servers=2), Tier("memcached", 20e-6)]
    plan = plan_capacity(tiers, 200_000.0, 99.0, 200e-6, delay_s=50e-6)
    rng = np.random.default_rng(SEED)
    kept = simulate_open(plan.tiers, 200_000.0, 80_000 * SCALE, rng, 50e-6)
    assert kept.percentiles_s[99.0].low <= 200e-6
    assert holds(kept.percentiles_s[99.0], plan.percentiles_s[99.0])
    fewer = [plan.tiers[0], replace(plan.tiers[1], units=plan.tiers[1].units - 1)]
    less = predict_open(fewer, 200_000.0, 50e-6).percentiles_s[99.0]
    assert less > 200e-6
    assert holds(simulate_open(fewer, 200_000.0, 80_000 * SCALE, rng, 50e-6).percentiles_s[99.0], less)


@pytest.mark.parametrize(("load", "servers"), [(0.5, 2), (0.8, 2), (0.5, 8)])
def test_fork_join_means(load: float, servers: int) -> None:
    parts = simulate_fork_join(load, 1.0, servers, 200_000 * SCALE, np.random.default_rng(SEED))
    answer = fork_join(load, 1.0, servers)
    slowest = batched(parts[:, -1].tolist())
    if servers == 2:
        assert holds(slowest, answer.mean_s)
    assert answer.mean_s == pytest.approx(slowest.mean, rel=0.03)
    assert answer.low_s < slowest.high
    assert slowest.low < answer.high_s
    first = replicated_write_response_time(load, 1.0, servers, 1)
    if servers == 2:
        assert holds(batched(parts[:, 0].tolist()), first.mean_s)
    assert first.low_s < parts[:, 0].mean() < first.high_s
    # The parts of a request and one alone: each column is a station of its own when sorted back.
    assert holds(batched(parts.mean(axis=1).tolist()), 1.0 / (1.0 - load))


def test_speeds_that_depend_on_the_load() -> None:
    stations = [
        Station("think", 2.0, kind=Kind.DELAY),
        Station("two", 0.5, servers=2),
        Station("faster when busy", 0.3, speedup=(1.0, 1.5, 4.0)),
    ]
    throughput, jobs = simulate_network(stations, 12, 100_000 * SCALE, np.random.default_rng(SEED))
    solution = solve_closed(stations, 12)
    assert holds(throughput, float(solution.throughput_per_s[-1]))
    for interval, exact in zip(jobs, solution.jobs[:, -1].tolist(), strict=True):
        assert holds(interval, exact)


def simulated_by_ciw(network: ciw.network.Network, until: float) -> list[ciw.data_record.DataRecord]:
    ciw.seed(SEED)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(until)
    records = [record for record in simulation.get_all_records() if record.arrival_date > 0.1 * until]
    return sorted(records, key=lambda record: record.exit_date)


def test_ciw_agrees_on_an_open_station() -> None:
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(3.0)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[4],
    )
    records = simulated_by_ciw(network, 2500.0 * SCALE)
    station = mmm(3.0, 1.0, 4)
    times = [record.exit_date - record.arrival_date for record in records]
    assert holds(batched([record.waiting_time for record in records]), station.mean_waiting_time_s)
    assert holds(batched(times), station.mean_response_time_s)
    late = [float(time > station.response_time_quantile_s(0.95)) for time in times]
    assert holds(batched(late), 0.05)


def test_ciw_agrees_on_a_closed_network_and_its_quantiles() -> None:
    """Twelve requests circulate between a delay, three workers and one link: all there at the start, none leaves."""
    stations = [Station("think", 1.0, kind=Kind.DELAY), Station("workers", 0.5, servers=3), Station("link", 0.15)]
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.001] * 12 + [float("inf")]), None, None],
        service_distributions=[ciw.dists.Exponential(rate) for rate in (1.0, 2.0, 1 / 0.15)],
        number_of_servers=[float("inf"), 3, 1],
        routing=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    )
    until = 400.0 * SCALE
    records = simulated_by_ciw(network, until)
    solution = solve_closed(stations, 12)
    edges = np.linspace(0.1 * until, 0.999 * until, BATCHES + 1)
    done = [record.exit_date for record in records if record.node == 3]
    rates = np.histogram(done, edges)[0] / np.diff(edges)
    assert holds(mean_interval(rates, 0.99), float(solution.throughput_per_s[-1]))
    for node, name in ((2, "workers"), (3, "link")):
        times = [record.exit_date - record.arrival_date for record in records if record.node == node]
        known = station_in_closed(stations, 12, name)
        assert holds(batched(times), known.mean_response_time_s)
        late = [float(time > known.response_time_quantile_s(0.9)) for time in times]
        assert holds(batched(late), 0.1)


def test_ciw_agrees_on_a_finite_source() -> None:
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.001] * 10 + [float("inf")]), None],
        service_distributions=[ciw.dists.Exponential(0.5), ciw.dists.Exponential(1.0)],
        number_of_servers=[float("inf"), 2],
        routing=[[0.0, 1.0], [1.0, 0.0]],
    )
    records = [record for record in simulated_by_ciw(network, 1200.0 * SCALE) if record.node == 2]
    station = finite_source(10, 2.0, 1.0, 2)
    times = [record.exit_date - record.arrival_date for record in records]
    assert holds(batched(times), station.mean_response_time_s)
    assert holds(batched([float(record.waiting_time > 0.0) for record in records]), station.prob_queueing)
    late = [float(time > station.response_time_quantile_s(0.9)) for time in times]
    assert holds(batched(late), 0.1)
