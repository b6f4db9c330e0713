"""Demands and models from measurements whose truth is known; capacity plans; the simulator ciw as oracle."""

from __future__ import annotations

import ciw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from weir_lab.cli import app
from weir_lab.theory.capacity import Tier, plan_capacity, predict_open
from weir_lab.theory.fitting.calibration import (
    ClosedModel,
    Point,
    closed_model_intervals,
    demand_from_utilization,
    fit_closed_model,
    hold_out,
    standard_candidates,
)
from weir_lab.theory.queueing import Station, UnstableError, finite_source, solve_open

SEED = 20_161_118
TRUTH = ClosedModel(delay_s=0.004, service_time_s=0.001, servers=4)
GRID = (1, 2, 4, 8, 16, 24, 32, 64, 128)


def measured(noise: float) -> list[Point]:
    rng = np.random.default_rng(SEED)
    exact = TRUTH.throughput(GRID)
    return [Point(n, tuple((x * np.exp(rng.normal(0, noise, 5))).tolist())) for n, x in zip(GRID, exact, strict=True)]


def test_demands_come_back_from_utilizations() -> None:
    rng = np.random.default_rng(SEED)
    x = np.repeat([500.0, 1000.0, 2000.0, 3000.0], 5)
    busy = (0.02 + x * 1e-3 / 4) + rng.normal(0, 0.002, x.size)
    demand = demand_from_utilization(x, busy, servers=4)
    assert demand.slope_s.low < 1e-3 < demand.slope_s.high
    assert demand.background.low < 0.08 < demand.background.high
    # The ratio charges the idle load to the requests.
    assert demand.ratio_s.mean > 1.02e-3


def test_intervals_of_demands_cover() -> None:
    rng = np.random.default_rng(SEED)
    x = np.repeat([500.0, 1000.0, 2000.0], 3)
    demands = [demand_from_utilization(x, x * 1e-4 + rng.normal(0, 0.01, 9)) for _ in range(2000)]
    held = np.mean([d.slope_s.low <= 1e-4 <= d.slope_s.high for d in demands])
    assert abs(held - 0.95) < 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_a_closed_model_is_recovered_with_its_intervals() -> None:
    points = measured(0.01)
    model = fit_closed_model(points, 4)
    assert model.delay_s == pytest.approx(0.004, rel=0.03)
    assert model.service_time_s == pytest.approx(0.001, rel=0.02)
    delay, service = closed_model_intervals(points, 4)
    assert delay.low < model.delay_s < delay.high
    assert service.low < 0.001 * 1.01
    assert service.high > 0.001 * 0.99


def test_models_are_ranked_by_what_they_did_not_see() -> None:
    scores = hold_out(measured(0.005), (1, 4, 16, 32, 128), standard_candidates(4), think_time_s=0.004)
    assert scores[0].name.startswith("closed")
    assert scores[0].mape_throughput is not None
    assert scores[0].mape_throughput < 1.0
    by_name = {score.name: score for score in scores}
    asymptotes = by_name["asymptotes"]
    assert asymptotes.bias_throughput is not None
    assert asymptotes.bias_throughput > 0.0  # bounds from above
    assert all(sum(p.fitted for p in score.predictions) == 5 for score in scores)
    few = hold_out(measured(0.005), (1, 128), standard_candidates(4))
    assert any("at least 4 different populations" in score.problem for score in few)


def test_a_plan_keeps_its_limit_and_wastes_nothing() -> None:
    tiers = [Tier("proxy", 10e-6, servers=2), Tier("memcached", 20e-6, imbalance=1.2)]
    plan = plan_capacity(tiers, 1e6, 99.0, 300e-6, delay_s=50e-6)
    assert plan.percentiles_s[99.0] <= 300e-6
    assert max(plan.utilization) <= 0.8
    for index, tier in enumerate(plan.tiers):
        fewer = list(plan.tiers)
        fewer[index] = Tier(tier.name, tier.service_time_s, tier.servers, tier.visits, tier.units - 1, tier.imbalance)
        try:
            less = predict_open(fewer, 1e6, 50e-6)
        except UnstableError:
            continue
        assert less.percentiles_s[99.0] > 300e-6 or max(less.utilization) > 0.8
    with pytest.raises(ValueError, match="Even with 100,000 units of each tier"):
        plan_capacity(tiers, 1e6, 99.0, 60e-6, delay_s=50e-6)


@settings(max_examples=20)
@given(st.floats(1e2, 1e6), st.floats(1e-6, 1e-3), st.floats(1.3, 10.0))
def test_any_plan_keeps_its_limit(rate: float, service: float, slack: float) -> None:
    # -ln(0.01) times the service time is the 99th percentile without any waiting.
    plan = plan_capacity([Tier("t", service)], rate, 99.0, slack * 4.6052 * service)
    assert plan.percentiles_s[99.0] <= slack * 4.6052 * service
    assert max(plan.utilization) <= 0.8


def test_the_commands_answer() -> None:
    run = CliRunner().invoke
    plan = run(
        app, ["capacity", "--rate", "1e6", "--p99", "2ms", "--tier", "proxy:10us:servers=4", "--tier", "memcached:5us"]
    )
    assert plan.exit_code == 0
    assert "p99" in plan.output
    closed = run(
        app,
        [
            "predict",
            "--tier",
            "proxy:10us:servers=4",
            "--tier",
            "memcached:5us:units=2",
            "--clients",
            "1,64",
            "--delay",
            "80us",
        ],
    )
    assert closed.exit_code == 0
    assert len(closed.output[: closed.output.index("assumed:")].splitlines()) == 4
    opened = run(app, ["predict", "--tier", "proxy:10us", "--rate", "50000"])
    assert "mean 20.0 µs" in opened.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "--tier", "proxy:10us"],
        ["predict", "--tier", "proxy:10us", "--rate", "200000"],
        ["predict", "--tier", "proxy:ten", "--rate", "1"],
        ["predict", "--tier", "proxy:1us:colour=3", "--rate", "1"],
        ["predict", "--tier", "proxy:1us", "--clients", "0"],
        ["capacity", "--tier", "proxy:10us", "--rate", "1e6", "--p99", "1us"],
    ],
)
def test_impossible_questions_are_answered_in_words(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "StudyError"


def test_an_open_chain_against_simulation() -> None:
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(3.0), None],
        service_distributions=[ciw.dists.Exponential(1.0), ciw.dists.Exponential(4.0)],
        number_of_servers=[4, 1],
        routing=[[0.0, 1.0], [0.0, 0.0]],
    )
    ciw.seed(SEED)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(6000.0)
    spent: dict[int, float] = {}
    leaves: dict[int, float] = {}
    for record in simulation.get_all_records():
        if record.arrival_date > 200.0:
            spent.setdefault(record.id_number, record.arrival_date)
            spent[record.id_number] = min(spent[record.id_number], record.arrival_date)
            leaves[record.id_number] = max(leaves.get(record.id_number, 0.0), record.exit_date)
    times = np.array([leaves[number] - spent[number] for number in spent])
    model = solve_open([Station("a", 1.0, servers=4), Station("b", 0.25)], 3.0)
    assert times.mean() == pytest.approx(model.response_time_s, rel=0.06)
    assert np.quantile(times, 0.99) == pytest.approx(model.response_time_quantile_s(0.99), rel=0.08)


@given(st.integers(1, 300), st.floats(0.0, 50.0), st.integers(1, 40))
def test_the_fitted_model_is_the_finite_source_model(clients: int, delay: float, servers: int) -> None:
    model = ClosedModel(delay, 0.5, servers)
    known = finite_source(clients, delay, 2.0, servers).throughput_per_s
    assert model.throughput([clients])[0] == pytest.approx(known, rel=1e-9)
