"""Networks, bounds, scalability law and fork-join against published vectors, exact enumeration and simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_lab.theory.queueing import (
    Kind,
    Station,
    UnstableError,
    approximate_closed,
    asymptotic_bounds,
    balanced_job_bounds,
    finite_source,
    fit_scalability,
    fork_join,
    geometric_bounds,
    mmm,
    replicated_write_response_time,
    solve_closed,
    solve_open,
)


def delay(seconds: float) -> Station:
    return Station("think", seconds, kind=Kind.DELAY)


def single(*demands: float, think: float = 0.0) -> list[Station]:
    queues = [Station(f"station {index}", demand) for index, demand in enumerate(demands)]
    return [*queues, delay(think)] if think else queues


CASE_8 = [Station("cpu", 0.125, 16), Station("disk a", 0.3, 10), Station("disk b", 0.2, 5), delay(4.0)]


def test_demands_and_bounds_of_vector_6() -> None:
    stations = [Station("cpu", 0.04, 25), Station("a", 0.03, 20), Station("b", 0.025, 4), delay(5.0)]
    assert [s.demand_s for s in stations[:3]] == pytest.approx([1.0, 0.6, 0.1])
    bounds = asymptotic_bounds(stations, 1)
    assert bounds.response_time_low_s == pytest.approx(1.7)
    assert asymptotic_bounds(stations, 100).throughput_high_per_s == pytest.approx(1.0)
    assert solve_closed(stations, 5).bottleneck.name == "cpu"
    # At N=25 a response time of 10 s needs X = 25/15, so D_cpu <= 0.6.
    assert pytest.approx(25 * 0.6) == 10.0 + 5.0


def test_open_networks_of_vector_7() -> None:
    first = solve_open([Station("a", 0.01, 16), Station("b", 0.02, 7), Station("c", 0.03, 8)], 3.0)
    assert first.response_time_per_visit_s == pytest.approx((0.0192308, 0.0344828, 0.1071429), abs=5e-8)
    assert first.response_time_s == pytest.approx(1.4062145, abs=5e-8)
    second = solve_open(single(0.605, 2.1, 1.35), 0.3)
    assert second.utilization == pytest.approx((0.1815, 0.63, 0.405))
    assert second.residence_time_s == pytest.approx((0.739157, 5.675676, 2.268908), abs=5e-7)
    assert second.bottleneck.demand_s == 2.1


@pytest.mark.parametrize(
    ("n", "response", "throughput"),
    [
        (2, 7.4, 0.1754386),
        (3, 9.087719, 0.2292225),
        (5, 13.256145, 0.2897518),
        (10, 26.469854, None),
        (17, 47.044926, None),
        (20, 56.015632, 0.3332465),
    ],
)
def test_jains_closed_network(n: int, response: float, throughput: float | None) -> None:
    solution = solve_closed(CASE_8, 20)
    assert solution.response_time_s[n - 1] == pytest.approx(response, abs=5e-7)
    if throughput:
        assert solution.throughput_per_s[n - 1] == pytest.approx(throughput, abs=5e-8)
    assert solution.jobs[:3, 1] == pytest.approx([0.421053, 0.684211, 0.192982], abs=5e-7)
    assert solution.jobs[:3, 19] == pytest.approx([1.990623, 16.176651, 0.499740], abs=5e-7)
    visits = np.array([16, 10, 5])
    assert solution.residence_time_s[:3, 19] / visits == pytest.approx([0.373339, 4.854260, 0.299922], abs=5e-7)


def test_jains_convolution_example() -> None:
    solution = solve_closed(single(0.78, 2.34, 1.56, think=4.68), 3)
    scaled = 1.0 / (solution.throughput_per_s * 0.78)
    assert scaled == pytest.approx([12.0, 79 / 12, 384 / 79])  # G = 1, 12, 79, 384
    assert solution.throughput_per_s[2] == pytest.approx(0.2637553, abs=5e-8)
    assert solution.utilization[:3, 2] == pytest.approx([0.205729, 0.617188, 0.411458], abs=5e-7)
    assert solution.response_time_s[2] == pytest.approx(6.694177, abs=5e-7)
    assert solution.jobs[1, 2] == pytest.approx(0.968750)


def test_bolchs_mixed_network() -> None:
    stations = [Station("two", 0.5, servers=2), Station("b", 0.6, 0.5), Station("c", 0.8, 0.5), delay(1.0)]
    solution = solve_closed(stations, 3)
    assert solution.throughput_per_s[2] == pytest.approx(1.217461, abs=5e-7)
    assert solution.jobs[:, 2] == pytest.approx([0.623679, 0.472872, 0.685988, 1.217461], abs=5e-7)
    per_visit = solution.residence_time_s[:, 2] / np.array([1, 0.5, 0.5, 1])
    assert per_visit == pytest.approx([0.512279, 0.776817, 1.126916, 1.0], abs=5e-7)


def test_the_numerical_trap_of_vector_17() -> None:
    stations = [delay(0.2), Station("front", 0.02), Station("eight", 0.25, servers=8)]
    solution = solve_closed(stations, 128)
    for n, x in ((1, 2.127660), (8, 16.745613), (16, 29.505896), (32, 31.997301)):
        assert solution.throughput_per_s[n - 1] == pytest.approx(x, abs=5e-7)
    assert solution.throughput_per_s[63] == pytest.approx(31.999999998, abs=1e-9)
    assert solution.throughput_per_s[127] == pytest.approx(32.0, abs=1e-10)
    assert solution.response_time_s[127] == pytest.approx(3.8)


def test_against_exact_rationals() -> None:
    stations = [
        delay(0.5),
        Station("a", 0.25, servers=3),
        Station("b", 0.125),
        Station("c", 0.5, speedup=(1.0, 1.5, 4.0)),
    ]
    size = 40
    whole = [Fraction(1, 2) ** k / math.factorial(k) for k in range(size + 1)]
    others: dict[str, list[Fraction]] = {}
    capacity = {}
    for s in stations[1:]:
        f = [Fraction(1)]
        for k in range(1, size + 1):
            speed = Fraction(s.speedups()[min(k, s.speedups().size) - 1])
            f.append(f[-1] * Fraction(s.demand_s) / speed)
        capacity[s.name] = f
    for skipped in (None, "a", "b", "c"):
        g = whole
        for name, f in capacity.items():
            if name != skipped:
                g = [sum((f[k] * g[n - k] for k in range(n + 1)), Fraction(0)) for n in range(size + 1)]
        others[str(skipped)] = g
    total = others["None"]
    solution = solve_closed(stations, size)
    exact = [float(total[n - 1] / total[n]) for n in range(1, size + 1)]
    assert solution.throughput_per_s == pytest.approx(exact, rel=1e-12)
    for row, name in enumerate("abc", start=1):
        jobs = sum(k * capacity[name][k] * others[name][size - k] for k in range(size + 1)) / total[size]
        assert solution.jobs[row, -1] == pytest.approx(float(jobs), rel=1e-11)


def test_ten_thousand_clients_and_a_hundred_servers() -> None:
    stations = [delay(0.01), Station("loop", 1e-5), Station("workers", 0.002, servers=100), Station("links", 1.9e-5)]
    solution = solve_closed(stations, 10_000)
    assert np.isfinite(solution.throughput_per_s).all()
    assert solution.throughput_per_s[-1] == pytest.approx(50_000, rel=1e-6)
    assert (np.diff(solution.throughput_per_s) >= -1e-6).all()
    assert solution.jobs.sum(axis=0) == pytest.approx(solution.population, rel=1e-9)


stations_strategy = st.lists(st.tuples(st.floats(1e-4, 10.0), st.integers(1, 12)), min_size=1, max_size=4)


@settings(max_examples=50)
@given(stations_strategy, st.floats(0.0, 10.0), st.integers(1, 120))
def test_closed_networks_keep_their_jobs_and_their_bounds(
    queues: list[tuple[float, int]], think: float, population: int
) -> None:
    stations = [Station(f"s{i}", demand, servers=m) for i, (demand, m) in enumerate(queues)] + [delay(think)]
    solution = solve_closed(stations, population)
    assert solution.jobs.sum(axis=0) == pytest.approx(solution.population, rel=1e-9)
    bounds = asymptotic_bounds(stations, population)
    x = solution.throughput_per_s[-1]
    assert bounds.throughput_low_per_s * (1 - 1e-9) <= x <= bounds.throughput_high_per_s * (1 + 1e-9)
    assert (solution.utilization <= 1 + 1e-9).all()
    assert (np.diff(solution.throughput_per_s) >= -1e-9 * x).all()


@given(st.floats(1e-3, 10.0), st.integers(1, 20), st.floats(0.01, 10.0), st.integers(1, 100))
def test_one_multi_server_station_is_the_finite_source_model(mu: float, m: int, think: float, clients: int) -> None:
    closed = solve_closed([Station("s", 1 / mu, servers=m), delay(think)], clients)
    direct = finite_source(clients, think, mu, m)
    assert closed.throughput_per_s[-1] == pytest.approx(direct.throughput_per_s, rel=1e-9)
    assert closed.jobs[0, -1] == pytest.approx(direct.mean_jobs_in_system, rel=1e-9)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.floats(0.0, 5.0), st.integers(1, 80))
def test_the_tighter_bounds_hold_too(demands: list[float], think: float, population: int) -> None:
    stations = single(*demands, think=think)
    x = solve_closed(stations, population).throughput_per_s[-1]
    for bounds in (balanced_job_bounds(stations, population), geometric_bounds(stations, population)):
        assert bounds.throughput_low_per_s * (1 - 1e-9) <= x <= bounds.throughput_high_per_s * (1 + 1e-9)


def test_published_bounds() -> None:
    aba = asymptotic_bounds(single(9.2, 8.0, think=120.0), 20)
    assert aba.throughput_high_per_s == pytest.approx(0.108696, abs=5e-7)
    assert aba.response_time_low_s == pytest.approx(64.0)
    assert asymptotic_bounds(CASE_8, 20).knee == pytest.approx(10 / 3)
    assert asymptotic_bounds(CASE_8, 20).response_time_low_s == pytest.approx(56.0)
    five, twenty = balanced_job_bounds(CASE_8, 5), balanced_job_bounds(CASE_8, 20)
    assert (five.response_time_low_s, five.response_time_high_s) == pytest.approx((11.0, 16.588235), abs=5e-7)
    assert (five.throughput_low_per_s, five.throughput_high_per_s) == pytest.approx((0.242857, 0.333333), abs=5e-7)
    assert (twenty.response_time_low_s, twenty.response_time_high_s) == pytest.approx((56.0, 61.161290), abs=5e-7)
    batch = single(10.0, 7.0, 5.0, 4.0)
    for n, low, high in ((10, 0.086207, 0.1), (2, 0.055556, 0.061538)):
        bounds = balanced_job_bounds(batch, n)
        assert (bounds.throughput_low_per_s, bounds.throughput_high_per_s) == pytest.approx((low, high), abs=5e-7)
    assert solve_closed(batch, 10).throughput_per_s[[1, 9]] == pytest.approx([0.060046, 0.097931], abs=5e-7)


@pytest.mark.parametrize(
    ("n", "think", "low", "high"),
    [(10, 0, 8.1521, 8.2690), (10, 1, 5.7569, 6.1410), (80, 0, 9.8233, 9.8765), (80, 1, 9.7147, 9.8594)],
)
def test_published_geometric_bounds(n: int, think: float, low: float, high: float) -> None:
    bounds = geometric_bounds(single(0.1, 0.1, 0.09, 0.08, think=think), n)
    assert (bounds.throughput_low_per_s, bounds.throughput_high_per_s) == pytest.approx((low, high), abs=6e-5)


def test_the_approximation_is_near_and_says_so() -> None:
    solution = approximate_closed(CASE_8, 20)
    assert not solution.exact
    assert "approximate" in solution.method
    assert solution.throughput_per_s[0] == pytest.approx(0.3332465, rel=0.02)
    million = approximate_closed([Station("workers", 0.002, servers=100), delay(1.0)], 1_000_00)
    assert million.throughput_per_s[0] == pytest.approx(50_000, rel=1e-3)


def test_an_open_network_without_a_steady_state_names_the_station() -> None:
    with pytest.raises(UnstableError, match=r"disk \(1\.2"):
        solve_open([Station("cpu", 0.001), Station("disk", 0.012)], 100.0)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999])
def test_percentiles_of_a_chain(q: float) -> None:
    # One station: the formula. Two equal ones: an Erlang time, P(T > t) = e^-x (1 + x).
    one = solve_open([Station("s", 0.01, servers=4)], 300.0)
    assert one.response_time_quantile_s(q) == pytest.approx(mmm(300.0, 100.0, 4).response_time_quantile_s(q), rel=1e-4)
    two = solve_open([Station("a", 0.01), Station("b", 0.01), delay(0.5)], 50.0)
    x = (two.response_time_quantile_s(q) - 0.5) * 50.0
    assert math.exp(-x) * (1 + x) == pytest.approx(1 - q, rel=1e-4)


def test_the_scalability_law_on_published_data() -> None:
    n = [1, 18, 36, 72, 108, 144, 216]
    fit = fit_scalability(n, [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])
    assert (fit.gamma.value, fit.alpha.value) == pytest.approx((89.995, 0.0277284), rel=1e-5)
    assert fit.beta.value == pytest.approx(1.043658e-4, rel=1e-5)
    errors = [fit.gamma.standard_error, fit.alpha.standard_error, fit.beta.standard_error]
    assert errors == pytest.approx([14.213, 0.0091217, 1.98753e-5], rel=1e-4)
    assert fit.residual_sd == pytest.approx(82.846, abs=5e-4)
    assert fit.freedom == 4
    assert (fit.alpha.low, fit.alpha.high) == pytest.approx((0.002402, 0.053054), abs=1e-6)
    assert (fit.peak, fit.peak_throughput) == pytest.approx((96.519, 1883.90), rel=1e-5)
    assert fit.limit == pytest.approx(3245.6, rel=1e-4)
    assert 1 / fit.alpha.value == pytest.approx(36.064, rel=1e-4)


RAYTRACER = ([1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64], [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310])


def test_the_scalability_law_has_two_sided_intervals() -> None:
    fit = fit_scalability(RAYTRACER[0][:6], RAYTRACER[1][:6])
    assert (fit.gamma.value, fit.alpha.value) == pytest.approx((20.8560, 0.0244440), rel=1e-4)
    assert fit.beta.value == pytest.approx(0.00162681, rel=1e-4)
    assert (fit.alpha.low, fit.alpha.high) == pytest.approx((-0.00226, 0.05115), abs=1e-5)


def test_a_boundary_solution_has_no_peak() -> None:
    fit = fit_scalability(*RAYTRACER)
    assert fit.beta.at_bound
    assert fit.beta.value == 0.0
    assert fit.beta.high > 0.0
    assert (fit.alpha.value, fit.gamma.value) == pytest.approx((0.0577708, 21.8488), rel=1e-5)
    assert fit.peak is None


def test_intervals_of_the_scalability_law_cover() -> None:
    rng = np.random.default_rng(20_161_118)
    n = np.array([1.0, 4, 8, 16, 32, 64, 96, 128])
    x = 100 * n / (1 + 0.03 * (n - 1) + 2e-4 * n * (n - 1))
    trials = 100
    fits = [fit_scalability(n, x + rng.normal(0, 10.0, n.size)) for _ in range(trials)]
    held = sum(fit.alpha.low <= 0.03 <= fit.alpha.high for fit in fits)
    assert abs(held - 0.95 * trials) < 4 * math.sqrt(trials * 0.95 * 0.05)


def fork_join_simulated(load: float, servers: int, jobs: int) -> float:
    """Lindley's recursion on servers that get a job at the same instants."""
    rng = np.random.default_rng(servers)
    gaps, work = rng.exponential(1 / load, jobs), rng.exponential(1.0, (jobs, servers))
    waits = np.zeros(servers)
    total = 0.0
    for gap, services in zip(gaps.tolist(), work, strict=True):
        waits = np.maximum(waits - gap, 0.0) + services
        total += float(waits.max())
    return total / jobs


@pytest.mark.parametrize(("load", "servers"), [(0.5, 2), (0.5, 5), (0.7, 3)])
def test_fork_join_against_simulation(load: float, servers: int) -> None:
    answer = fork_join(load, 1.0, servers)
    simulated = fork_join_simulated(load, servers, 60_000)
    # Within the stated error, and the simulation's own.
    assert simulated == pytest.approx(answer.mean_s, rel=(answer.error_percent or 0.0) / 100 + 0.05)
    assert answer.low_s * 0.95 < simulated < answer.high_s * 1.05
    assert replicated_write_response_time(load, 1.0, servers) == answer


def test_waiting_for_fewer_replicas_takes_less() -> None:
    times = [replicated_write_response_time(0.5, 1.0, 5, k).mean_s for k in range(1, 6)]
    assert times == sorted(times)
    assert all(
        a.low_s <= a.mean_s <= a.high_s for a in (replicated_write_response_time(0.5, 1.0, 5, k) for k in (1, 3, 5))
    )
