"""Knee estimates on curves whose knee is known, and silence where the data cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from weir_lab.theory.fitting.knee import Curve, find_knee
from weir_lab.theory.queueing import Kind, Station, solve_closed

# method.md: 8 workers, N* = 15.0, 95 % of the plateau at 18
EIGHT = [Station("delay", 0.2, kind=Kind.DELAY), Station("eight", 0.229, servers=8)]
GRID = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128)


def curve_of(stations: list[Station], grid: tuple[int, ...], noise: float, runs: int = 5) -> Curve:
    rng = np.random.default_rng(7)
    solution = solve_closed(stations, max(grid))
    think = sum(s.demand_s for s in stations if s.kind is Kind.DELAY)
    x = [solution.throughput_per_s[n - 1] * np.exp(rng.normal(0, noise, runs)) for n in grid]
    r = [n / values - think for n, values in zip(grid, x, strict=True)]
    return Curve(grid, tuple(map(tuple, x)), tuple(map(tuple, r)), tuple(tuple(3 * v) for v in r), think)


def test_eight_workers_bend_where_theory_says() -> None:
    stations = [Station("delay", 0.2, kind=Kind.DELAY), Station("eight", 0.25, servers=8)]
    exact = solve_closed(stations, 128).throughput_per_s
    plateau = int(np.argmax(exact >= 0.95 * exact.max())) + 1
    knee = find_knee(curve_of(stations, GRID, 0.01), demands=(0.25, 0.25 / 8))
    assert knee["asymptotes"].population == pytest.approx(14.4)
    first = knee["plateau"]
    assert first.low is not None
    assert first.high is not None
    assert first.low <= min(n for n in GRID if n >= plateau) <= first.high
    assert knee.saturated
    assert knee.certainly_below is not None
    assert knee.certainly_at is not None
    assert knee.certainly_below < plateau <= knee.certainly_at
    assert "between" in knee.verdict
    bend = knee["two_segments"].population
    assert bend is not None
    assert 10 < bend < 24
    assert 8 <= (knee["power"].population or 0) <= 24


def test_the_older_rules_answer_too() -> None:
    knee = find_knee(curve_of(EIGHT, GRID, 0.002))
    for name in ("percentile_rise", "step_size", "response_slope"):
        answer = knee[name].population
        assert answer is not None
        assert 8 <= answer <= 32, name


def test_a_curve_that_begins_on_its_plateau_has_no_crossing_of_asymptotes() -> None:
    """6 clients filled the link of a server already, and N* was called 6.0; by its delays it is 3.0."""
    grid = (6, 24, 48, 96)
    rates = tuple((582.0 - 0.1 * place, 582.2, 582.1) for place in range(4))
    times = tuple(tuple(n / one for one in group) for n, group in zip(grid, rates, strict=True))
    knee = find_knee(Curve(grid, rates, times))
    assert knee["asymptotes"].population is None
    assert knee["plateau"].population == 6.0


def test_an_unsaturated_curve_is_not_given_a_knee() -> None:
    knee = find_knee(curve_of(EIGHT, (1, 2, 3, 4, 6), 0.01))
    assert not knee.saturated
    assert knee.verdict == "cannot tell: throughput may still grow at N = 6; measure more clients"


def test_a_flat_end_with_loud_runs_asks_for_more_runs() -> None:
    rates = ((500.0, 510.0), (900.0, 910.0), (1000.0, 1010.0), (600.0, 1700.0))
    grid = (2, 4, 8, 16)
    times = tuple(tuple(n / x for x in runs) for n, runs in zip(grid, rates, strict=True))
    knee = find_knee(Curve(grid, rates, times))
    assert not knee.saturated
    assert "runs differ too much to say so: make more runs, or measure more clients" in knee.verdict


def test_noise_widens_the_bracket_and_can_end_it() -> None:
    quiet = find_knee(curve_of(EIGHT, GRID, 0.005))
    loud = find_knee(curve_of(EIGHT, GRID, 0.10, runs=3))
    assert quiet.certainly_at is not None
    assert loud.certainly_at is None or loud.certainly_at >= (quiet.certainly_below or 0)
    assert (loud.certainly_below or 0) <= (quiet.certainly_below or 0)


def test_a_curve_that_falls_has_a_peak() -> None:
    grid = (1, 4, 8, 16, 32, 64, 96, 128)
    rng = np.random.default_rng(3)
    x = [1000 * n / (1 + 0.02 * (n - 1) + 3e-4 * n * (n - 1)) * np.exp(rng.normal(0, 0.01, 5)) for n in grid]
    curve = Curve(grid, tuple(map(tuple, x)), tuple(tuple(n / v) for n, v in zip(grid, x, strict=True)))
    peak = find_knee(curve)["usl_peak"]
    assert peak.population == pytest.approx(np.sqrt(0.98 / 3e-4), rel=0.1)
    # A parameter of a model that the curve need not follow: no interval of it holds what it says.
    assert (peak.low, peak.high) == (None, None)


def test_thin_curves_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        Curve((1, 2, 3), ((1.0, 1.0),) * 3, ((1.0, 1.0),) * 3)
    with pytest.raises(ValueError, match="ascending"):
        Curve((1, 3, 2, 4), ((1.0, 1.0),) * 4, ((1.0, 1.0),) * 4)
    with pytest.raises(ValueError, match="2 runs"):
        Curve((1, 2, 3, 4), ((1.0,),) * 4, ((1.0,),) * 4)
