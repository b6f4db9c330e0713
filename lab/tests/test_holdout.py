"""A closed network held against populations that it did not see; the station behind a token bucket against what is known of it."""

from __future__ import annotations

import heapq
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import synthetic
from weir_lab.cli import app
from weir_lab.design import Role, parse_study, schedule
from weir_lab.records import SweepMeta, runs_folder, write_json
from weir_lab.theory.fitting.holdout import hold_out
from weir_lab.theory.fitting.holdout_forms import Known, Measured, exponent, fit, forms
from weir_lab.theory.queueing import finite_source, token_bucket

THINK_S, TOKEN_S = 5e-3, 345e-6


def measured(
    n: int, rng: np.random.Generator, *, burst: float = 12.0, outside_s: float = 2e-4, runs: int = 5
) -> Measured:
    """A population of a system with a bucket, with a spread of 0.5 % between runs."""
    solved = token_bucket([n], THINK_S + outside_s, TOKEN_S, burst, 4)
    x, r = float(solved.throughput_per_s[0]), outside_s + float(solved.residence_time_s[0])
    spread = np.exp(rng.normal(0.0, 0.005, (2, runs)))
    return Measured(n, tuple((x * spread[0]).tolist()), tuple((r * spread[1]).tolist()))


@pytest.mark.parametrize("clients", [1, 2, 7, 40, 300])
def test_without_a_burst_exponential_tokens_are_one_server_with_n_clients(clients: int) -> None:
    known = finite_source(clients, 3e-3, 1e4)
    found = token_bucket([clients], 3e-3, 1e-4)
    assert found.throughput_per_s[0] == pytest.approx(known.throughput_per_s, rel=1e-9)
    assert found.residence_time_s[0] == pytest.approx(known.mean_response_time_s, rel=1e-9)


def test_a_bucket_with_even_tokens_is_what_a_simulation_of_one_shows() -> None:
    x, waiting = simulated(20, 5e-3, 300e-6, burst=6, rng=np.random.default_rng(1), requests=150_000)
    found = token_bucket([20], 5e-3, 300e-6, burst=6.0, phases=32)
    assert found.throughput_per_s[0] == pytest.approx(x, rel=0.01)
    assert found.residence_time_s[0] == pytest.approx(waiting, rel=0.06)
    # The burst is what makes the difference: without it requests wait a fifth longer even here, at 20 clients.
    assert token_bucket([20], 5e-3, 300e-6, phases=32).residence_time_s[0] > 1.15 * waiting


def simulated(
    clients: int, away_s: float, token_s: float, burst: int, rng: np.random.Generator, requests: int
) -> tuple[float, float]:
    """Throughput and mean wait of a bucket that gains tokens evenly: a request leaves when its token is there, first come first served."""
    arrivals = sorted(rng.exponential(away_s, clients).tolist())
    tokens, last, leaves, waited = float(burst), 0.0, 0.0, 0.0
    for _ in range(requests):
        now = heapq.heappop(arrivals)
        tokens = min(float(burst), tokens + (now - last) / token_s)
        last = now
        tokens -= 1.0
        # Owed tokens come one after the other.
        leaves = now + max(0.0, -tokens * token_s)
        waited += leaves - now
        heapq.heappush(arrivals, leaves + float(rng.exponential(away_s)))
    return requests / leaves, waited / requests


def test_more_burst_never_lowers_the_throughput_and_lies_between_its_neighbours() -> None:
    rates = [
        float(token_bucket([16], THINK_S, TOKEN_S, burst, 4).throughput_per_s[0]) for burst in (0, 0.1, 0.25, 5, 50)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2]


@pytest.mark.parametrize(
    "asked",
    [
        ([], 1.0, 1.0, 0.0, 1),
        ([0], 1.0, 1.0, 0.0, 1),
        ([1], 0.0, 1.0, 0.0, 1),
        ([1], 1.0, float("nan"), 0.0, 1),
        ([1], 1.0, 1.0, -1.0, 1),
        ([1], 1.0, 1.0, 0.0, 0),
    ],
)
def test_a_bucket_that_cannot_be_is_refused(asked: tuple[list[int], float, float, float, int]) -> None:
    with pytest.raises(ValueError, match=r"Populations|positive|bucket"):
        token_bucket(*asked)


def test_what_was_held_out_on_both_sides_of_the_knee_is_predicted_and_the_bounds_are_beaten() -> None:
    rng = np.random.default_rng(2)
    points = [measured(n, rng) for n in (1, 2, 4, 8, 12, 16, 20, 24, 32, 64, 128)]
    found = hold_out(points, [4, 16, 24, 64])
    assert found.kept == (1, 2, 8, 12, 20, 32, 128)
    assert found.both_sides
    assert found.met, found.rows
    assert found.model.name.startswith("token bucket")
    assert found.model.parameters["burst"] == pytest.approx(12.0, rel=0.2)
    assert found.model.parameters["service_s"] == pytest.approx(TOKEN_S, rel=0.02)


def test_a_system_that_queues_early_makes_the_bounds_miss_more_than_twice_as_far() -> None:
    rng = np.random.default_rng(3)
    points = [measured(n, rng, burst=0.0) for n in (1, 2, 4, 8, 12, 16, 24, 32, 64)]
    found = hold_out(points, [4, 12, 24])
    assert found.met, found.rows
    assert found.beats_bound
    assert found.r_bound_mape > 10.0 > found.r_mape


def shared_machine(
    populations: tuple[int, ...], rng: np.random.Generator, *, runs: int = 5, reported: bool = True
) -> list[Measured]:
    """A processor whose requests cost less when there are more of them, on a machine that is up to twice as slow in some runs."""
    points = []
    for n in populations:
        slowness = rng.uniform(1.0, 2.0, runs)
        cost = 40e-6 * (1.0 + 3.0 * n**-0.5) * slowness**0.8
        x, r = zip(*(one_run(n, cost_s / 0.4, 0.9 * cost_s) for cost_s in cost), strict=True)
        reported_slowness = tuple((3e5 * slowness).tolist()) if reported else ()
        points.append(Measured(n, x, r, {Role.PROXY.value: tuple(cost.tolist())}, reported_slowness))
    return points


def one_run(n: int, service_s: float, outside_s: float) -> tuple[float, float]:
    solved = token_bucket([n], 3e-3 + outside_s, service_s, 4.0, 4)
    return float(solved.throughput_per_s[0]), outside_s + float(solved.residence_time_s[0])


def test_demands_by_the_utilization_law_and_a_yardstick_predict_a_shared_machine() -> None:
    points = shared_machine((1, 2, 4, 8, 16, 24, 32, 48, 64), np.random.default_rng(7))
    held = [4, 16, 32]
    found = hold_out(points, held)
    assert found.model.name.endswith("all by what processors worked")
    assert found.model.parameters["processors"] == pytest.approx(0.4, rel=0.05)
    assert max(abs(row.x_error) for row in found.rows) < 5.0
    assert found.r_mape < 10.0
    # Of a machine whose slowness is unknown, the same model can only give the mean.
    blind = hold_out(
        shared_machine(tuple(one.population for one in points), np.random.default_rng(7), reported=False), held
    )
    assert blind.x_mape > 2.0 * found.x_mape


def test_a_server_without_a_proxy_whose_requests_cost_more_with_more_clients_is_predicted_by_its_own_time() -> None:
    """S2's server answers 18,900 requests/s to 40 clients and 16,000 to 128; one service time for all missed by 7 %."""
    rng = np.random.default_rng(5)
    points = []
    for n in (4, 12, 20, 28, 36, 44, 60, 76, 92, 108, 128):
        cost = 16e-6 * (1.0 + 0.002 * n) * np.exp(rng.normal(0.0, 0.004, 5))
        x, r = zip(*(one_run(n, cost_s / 0.31, cost_s) for cost_s in cost), strict=True)
        points.append(Measured(n, x, r, {Role.SERVERS.value: tuple(cost.tolist())}))
    found = hold_out(points, [12, 28, 44, 76, 108])
    assert found.model.name.endswith("all by what processors worked")
    assert found.model.parameters["processors"] == pytest.approx(0.31, rel=0.05)
    assert found.met, found.rows
    unknown = [Measured(one.population, one.throughput_per_s, one.response_s) for one in points]
    assert not hold_out(unknown, [12, 28, 44, 76, 108]).met


def test_time_outside_that_is_partly_processors_is_distinguished_from_one_that_is_not() -> None:
    rng = np.random.default_rng(11)
    points = []
    for n in (1, 2, 4, 8, 12, 16, 24, 32, 64, 128):
        cost_s = 60e-6 * (1.0 + 4.0 * n**-0.7)
        solved = token_bucket([n], THINK_S + 90e-6 + 0.6 * cost_s, TOKEN_S, 15.0, 4)
        x, r = float(solved.throughput_per_s[0]), 90e-6 + 0.6 * cost_s + float(solved.residence_time_s[0])
        spread = np.exp(rng.normal(0.0, 0.003, (2, 4)))
        # Of four processors, so that none has a queue of its own.
        cpu = {Role.PROXY.value: (cost_s / 4.0,) * 4}
        points.append(Measured(n, tuple((x * spread[0]).tolist()), tuple((r * spread[1]).tolist()), cpu))
    found = hold_out(points, [4, 12, 24, 64])
    assert found.model.name.endswith("outside it partly as much as processors worked")
    assert found.model.parameters["outside_s"] == pytest.approx(90e-6, rel=0.35)
    assert found.met, found.rows
    # One time for all populations cannot even show those that it was fitted to, however well it did when they were left out one by one.
    constant = next(model for model in found.models if model.name.startswith("token bucket") and ";" not in model.name)
    assert not constant.shows_what_it_saw
    assert [model.shows_what_it_saw for model in found.models] == sorted(
        (model.shows_what_it_saw for model in found.models), reverse=True
    )


def test_time_away_is_that_of_each_run_where_runs_differ_in_speed() -> None:
    fast, slow = one_run(64, 100e-6, 1e-4), one_run(64, 200e-6, 2e-4)
    one = Measured(64, (fast[0], slow[0]), (fast[1], slow[1]))
    assert one.think_s == pytest.approx(3e-3, rel=1e-6)
    assert 64 / one.x - one.r < 2.5e-3


def test_the_power_of_slowness_is_read_off_repetitions_and_nothing_else() -> None:
    rng = np.random.default_rng(8)
    assert exponent(shared_machine((1, 8, 64), rng)) == pytest.approx(0.8, abs=0.01)
    assert exponent(shared_machine((1, 8, 64), rng, reported=False)) == 0.0
    # Populations differ in cost and met different machines; no repetitions, no answer.
    assert exponent(shared_machine((1, 8, 64), rng, runs=1)) == 0.0


def test_a_burst_is_reported_as_long_as_it_was_used() -> None:
    """“burst 812” stood beside predictions that were made with 256."""
    points = [Measured(n, (n / (THINK_S + 2e-4),) * 2, (2e-4,) * 2) for n in (1, 2, 4, 8, 16)]
    known = Known.of(points, THINK_S)
    bucket = next(form for form in forms(None, known) if "burst" in form.own)
    found = fit(bucket, points, known, near=np.array([2e-4, 1e-4, 900.0]))
    assert dict(zip(bucket.parameters, found.tolist(), strict=True))["burst"] <= 256.0


def test_populations_on_one_side_of_the_knee_are_no_proof() -> None:
    rng = np.random.default_rng(4)
    points = [measured(n, rng, burst=0.0) for n in (1, 2, 4, 8, 16, 32)]
    found = hold_out(points, [2, 4])
    assert not found.both_sides
    assert not found.met


def test_a_late_generator_is_named_as_the_reason_of_a_miss() -> None:
    rng = np.random.default_rng(5)
    points = [measured(n, rng, burst=0.0) for n in (1, 2, 4, 8, 16, 32)]
    slow = points[3]
    # Clients of this one were away for longer than they should have been: fewer requests, and none of them slower.
    points[3] = Measured(slow.population, tuple(0.85 * x for x in slow.throughput_per_s), slow.response_s)
    found = hold_out(points, [4, 8])
    (miss,) = [row for row in found.rows if row.reason]
    assert (miss.population, found.met) == (8, False)
    assert "load generator was late" in miss.reason


def test_what_was_not_measured_or_leaves_too_little_is_refused() -> None:
    rng = np.random.default_rng(6)
    points = [measured(n, rng) for n in (1, 2, 4, 8, 16)]
    with pytest.raises(ValueError, match="3 clients were not measured"):
        hold_out(points, [3])
    with pytest.raises(ValueError, match="at least 4"):
        hold_out(points, [2, 4])


def test_the_command_shows_records_and_judges(tmp_path: Path) -> None:
    text = synthetic.STUDY_TEXT.partition("[[predictions]]")[0].replace('path = ["direct", "proxy"]\n', "")
    text = text.replace("[fixed]", '[fixed]\npath = "proxy"').replace("[1, 4, 16]", "[1, 2, 4, 8, 16, 32]")
    study = parse_study(text)
    (tmp_path / "study.toml").write_text(text)
    write_json(tmp_path / "sweep.json", SweepMeta(executables=synthetic.EXECUTABLES, command=["weir-lab", "run"]))
    for run in schedule(study):
        synthetic.write_run(runs_folder(tmp_path) / run.name, study, run, synthetic.World(run_spread=0.001))
    done = CliRunner().invoke(app, ["hold-out", str(tmp_path), "--clients", "2,16"])
    record = json.loads((tmp_path / "hold-out.json").read_text())
    assert done.exit_code == (0 if record["met"] else 3)
    assert [row["population"] for row in record["rows"]] == [2, 16]
    assert record["kept"] == [1, 4, 8, 32]
    assert f"mean error {record['x_mape']:.1f} %" in done.stdout
    assert len(record["runs"]) == 18
