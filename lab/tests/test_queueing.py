"""One station: published vectors, the studies' recomputed tables, identities, extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from weir_lab.theory.queueing import UnstableError, erlang_b, erlang_c, finite_source, mm1, mmm, mmmk


def test_the_gateway_of_the_textbook() -> None:
    gateway = mm1(125.0, 500.0)
    assert gateway.utilization == 0.25
    assert gateway.mean_jobs_in_system == pytest.approx(1 / 3)
    assert gateway.mean_response_time_s == pytest.approx(8 / 3000)
    assert gateway.prob_jobs_at_least(13) == pytest.approx(1.4901e-8, rel=1e-4)
    assert min(n for n in range(50) if gateway.prob_jobs_at_least(n) <= 1e-6) == 10


def test_the_computer_centre_of_the_textbook() -> None:
    centre = mmm(1 / 6, 1 / 20, 5)
    assert centre.utilization == pytest.approx(2 / 3)
    assert centre.prob_empty == pytest.approx(0.0317523, abs=5e-8)
    assert centre.prob_queueing == pytest.approx(0.3266693, abs=5e-8)
    assert centre.mean_jobs_in_queue == pytest.approx(0.6533386, abs=1e-7)
    assert centre.mean_waiting_time_s == pytest.approx(3.920031, abs=5e-7)
    assert centre.mean_response_time_s == pytest.approx(23.920031, abs=5e-7)
    assert centre.mean_jobs_in_system == pytest.approx(3.986672, abs=5e-7)
    assert centre.waiting_time_quantile_s(0.9) == pytest.approx(14.2053, abs=5e-5)


@pytest.mark.parametrize(
    ("servers", "load", "b", "c"),
    [
        (3, 2.0, 4 / 19, 4 / 9),
        (10, 8.0, 0.1216611, 0.4091802),
        (110, 100.0, 0.0274634, 0.2370075),
        (520, 500.0, 0.0143618, 0.2747563),
    ],
)
def test_erlangs_formulas(servers: int, load: float, b: float, c: float) -> None:
    assert erlang_b(servers, load) == pytest.approx(b, abs=6e-8)
    assert erlang_c(servers, load) == pytest.approx(c, abs=6e-8)


def test_a_finite_buffer() -> None:
    station = mmmk(3.0, 2.0, 2, 5)
    assert station.prob_empty == pytest.approx(0.179334, abs=1e-6)
    assert station.prob_loss == pytest.approx(0.085113, abs=1e-6)
    assert station.mean_jobs_in_system == pytest.approx(2.00595, abs=1e-5)
    assert station.mean_waiting_time_s == pytest.approx(0.230857, abs=1e-6)


def test_thousands_of_servers_do_not_overflow() -> None:
    station = mmm(4990.0, 1.0, 5000)
    assert 0.0 < station.prob_queueing < 1.0
    assert station.prob_empty == 0.0
    assert station.log_prob_empty == pytest.approx(-4990.0, rel=1e-3)
    assert station.mean_response_time_s == pytest.approx(1.0 + station.prob_queueing / 10.0)
    closed = finite_source(10_000, 1.0, 1.0, 5000)
    assert closed.throughput_per_s * (1.0 + closed.mean_response_time_s) == pytest.approx(10_000, rel=1e-10)


@pytest.mark.parametrize(("rate", "servers"), [(100.0, 10), (101.0, 10), (1.0, 0)])
def test_what_has_no_steady_state_is_refused(rate: float, servers: int) -> None:
    with pytest.raises(ValueError, match=r"no steady state|servers"):
        mmm(rate, 10.0, servers)
    if servers:
        with pytest.raises(UnstableError):
            erlang_c(servers, rate / 10.0)


loads = st.floats(0.05, 0.98)
sizes = st.integers(1, 60)


@settings(max_examples=50)
@given(loads, sizes, st.floats(1e-3, 1e6))
def test_an_open_station_obeys_littles_law_and_its_own_tail(load: float, servers: int, mu: float) -> None:
    station = mmm(load * servers * mu, mu, servers)
    assert station.mean_jobs_in_system == pytest.approx(station.arrival_rate_per_s * station.mean_response_time_s)
    assert station.mean_jobs_in_queue == pytest.approx(station.arrival_rate_per_s * station.mean_waiting_time_s)
    for q in (0.5, 0.99):
        t = station.response_time_quantile_s(q)
        assert station.response_time_tail(t) == pytest.approx(1 - q, rel=1e-9)
        assert station.waiting_time_quantile_s(q) <= t


def test_the_mean_is_the_area_under_the_tail() -> None:
    for station in (mm1(0.9, 1.0), mmm(3.5, 1.0, 4), mmm(4.0, 1.0, 5), mmm(1.0, 1.0, 9)):
        grid = np.linspace(0.0, 60.0 * station.mean_response_time_s, 6001)
        tail = np.array([station.response_time_tail(t) for t in grid.tolist()])
        area = (tail.sum() - 0.5 * (tail[0] + tail[-1])) * grid[1]
        assert area == pytest.approx(station.mean_response_time_s, rel=1e-4)
        second = 2 * (tail * grid).sum() * grid[1]
        assert second - area**2 == pytest.approx(station.var_response_time_s2, rel=1e-3)


@settings(max_examples=50)
@given(loads, sizes)
def test_probabilities_by_brute_force(load: float, servers: int) -> None:
    station = mmm(load * servers, 1.0, servers)
    counts = np.arange(6000)
    logs = np.cumsum(np.log(load * servers / np.minimum(np.maximum(counts, 1), servers))) - math.log(load * servers)
    p = np.exp(logs - logsumexp(logs))
    assert station.prob_empty == pytest.approx(p[0], rel=1e-8)
    assert station.prob_queueing == pytest.approx(p[servers:].sum(), rel=1e-8)
    mean = counts @ p
    assert station.mean_jobs_in_system == pytest.approx(mean, rel=1e-8)
    assert station.var_jobs_in_system == pytest.approx((counts - mean) ** 2 @ p, rel=1e-7)
    queued = np.maximum(counts - servers, 0)
    assert station.var_jobs_in_queue == pytest.approx((queued - queued @ p) ** 2 @ p, rel=1e-7, abs=1e-12)
    assert station.prob_jobs_at_least(servers // 2) == pytest.approx(p[servers // 2 :].sum(), rel=1e-8)


@settings(max_examples=50)
@given(loads, st.integers(1, 8))
def test_a_large_buffer_is_an_infinite_one(load: float, servers: int) -> None:
    small, large = mmmk(load * servers, 1.0, servers, 3000), mmm(load * servers, 1.0, servers)
    assert small.prob_loss < 1e-9
    for name in ("mean_response_time_s", "mean_jobs_in_queue", "var_response_time_s2", "var_jobs_in_system"):
        assert getattr(small, name) == pytest.approx(getattr(large, name), rel=1e-7, abs=1e-12)
    assert small.waiting_time_quantile_s(0.95) == pytest.approx(large.waiting_time_quantile_s(0.95), rel=1e-7, abs=1e-9)


@given(st.integers(1, 200), st.floats(0.0, 100.0), st.integers(1, 40))
def test_clients_in_a_loop_are_never_lost(clients: int, think: float, servers: int) -> None:
    station = finite_source(clients, think, 1.0, servers)
    assert station.throughput_per_s * (station.mean_response_time_s + think) == pytest.approx(clients)
    assert station.utilization <= 1.0 + 1e-12
    assert station.probabilities.sum() == pytest.approx(1.0)
    assert station.seen.sum() == pytest.approx(1.0)
    behind = np.maximum(np.arange(station.seen.size) - station.servers + 1.0, 0.0) / station.servers
    assert behind @ station.seen == pytest.approx(station.mean_waiting_time_s, rel=1e-6, abs=1e-9)
    assert station.var_waiting_time_s2 >= 0.0
    # Busy servers of all m, also where there are fewer clients.
    busy = np.minimum(np.arange(clients + 1), servers) @ station.probabilities
    assert station.utilization * servers == pytest.approx(busy)
    assert station.waiting_time_quantile_s(0.9) >= 0.0
