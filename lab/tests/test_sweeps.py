"""What finished sweeps say: effects, knees and models come back from runs whose truth is known, and the report shows them."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from synthetic import EXECUTABLES, STUDY_TEXT, World, write_run
from weir_lab.design import parse_study, schedule
from weir_lab.records import SweepMeta, runs_folder, write_json
from weir_lab.report.numbers.essence import essence_table
from weir_lab.report.numbers.findings import answer
from weir_lab.report.numbers.sweeps import (
    PROXY_TIME,
    RESPONSE_TIME,
    Observation,
    client_series,
    explain_misses,
    two_level_designs,
)
from weir_lab.report.single.report import build_report
from weir_lab.theory.factorial import Scale
from weir_lab.theory.fitting.calibration import ClosedModel, Point, Score, leave_one_out, standard_candidates
from weir_lab.theory.linear import positive_interval

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.theory.stats import Interval

TRUTH = ClosedModel(delay_s=0.004, service_time_s=0.001, servers=4)
GRID = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128)


def observed(
    factors: dict[str, list[int] | list[str]],
    throughput: Callable[[dict[str, int | str]], float],
    noise: float,
    repetitions: int = 4,
) -> list[Observation]:
    rng = np.random.default_rng(20_161_118)
    made: list[Observation] = []
    for repetition in range(1, repetitions + 1):
        combinations: list[tuple[int | str, ...]] = list(itertools.product(*factors.values()))
        for levels in combinations:
            cell = dict(zip(factors, levels, strict=True))
            population = int(cell.get("clients", 16))
            x = throughput(cell) * float(np.exp(rng.normal(0.0, noise)))
            made.append(
                Observation(
                    tuple(cell.items()), repetition, len(made) + 1, population, x, population / x, 3 * population / x
                )
            )
    return [made[place] for place in rng.permutation(len(made)).tolist()]


def test_effects_of_factors_that_multiply_come_back() -> None:
    def throughput(cell: dict[str, int | str]) -> float:
        return 1000.0 * math.sqrt(float(cell["clients"])) * (1.5 if cell["path"] == "direct" else 1.0)

    runs = observed({"clients": [4, 16, 400], "path": ["proxy", "direct"], "keys": [1, 9]}, throughput, 0.01)
    designs, reason = two_level_designs(runs)
    assert reason == ""
    assert [design.response for design in designs] == ["throughput", "mean response time"]
    for design, clients, path in zip(designs, (10.0, 10.0), (1 / 1.5, 1.5), strict=True):
        assert [(f.letter, f.name, f.low, f.high) for f in design.factors] == [
            ("A", "clients", 4, 400),
            ("B", "path", "direct", "proxy"),
            ("C", "keys", 1, 9),
        ]
        assert design.factors[0].between == (16,)
        assert design.choice.scale is Scale.LOGARITHMIC
        assert design.on_logarithms
        assert np.exp(2 * design.read["A"].effect) == pytest.approx(clients, rel=0.02)
        assert np.exp(2 * design.read["B"].effect) == pytest.approx(path, rel=0.02)
        assert not design.read["C"].significant
        assert design.name_of("AB") == "clients × path"
        assert design.checks.warnings == ()


def test_times_in_the_proxies_are_a_response_where_every_run_has_one() -> None:
    runs = [
        replace(one, proxy_time_s=one.response_time_s / 4.0 if one.levels[0][1] == 1 else one.response_time_s / 8.0)
        for one in observed({"clients": [1, 2], "keys": [1, 9]}, lambda _: 100.0, 0.01)
    ]
    designs, _ = two_level_designs(runs)
    assert [one.response for one in designs] == ["throughput", RESPONSE_TIME, PROXY_TIME]
    # Clients double from 1 to 2 and with them the response time; its part in the proxies halves.
    for design, change in zip(designs[1:], (2.0, 1.0), strict=True):
        logarithmic = design.choice.logarithmic
        assert logarithmic is not None
        assert np.exp(2 * logarithmic["A"].effect) == pytest.approx(change, rel=0.02)
    direct = [replace(one, proxy_time_s=None) if one.levels[1][1] == 9 else one for one in runs]
    assert [one.response for one in two_level_designs(direct)[0]] == ["throughput", RESPONSE_TIME]


def test_only_repetitions_that_all_cells_have_are_taken() -> None:
    runs = observed({"clients": [1, 2], "keys": [1, 9]}, lambda _: 100.0, 0.1)
    thin = [run for run in runs if (run.repetition, run.levels[0][1]) not in ((3, 1), (4, 2))]
    (throughput, _), _ = two_level_designs(thin)
    assert throughput.read.repetitions == 2
    assert sorted(itertools.chain(*throughput.run_order)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert throughput.whole
    assert set(throughput.blocks) == {(1, 2)}
    designs, reason = two_level_designs([run for run in runs if run.repetition == 1])
    assert designs == []
    assert "two runs of each" in reason


def test_runs_of_blocks_that_are_not_whole_make_a_table_with_the_blocks_in_its_error() -> None:
    """Of labs side by side no block was whole, and five conclusions had no data."""
    runs = observed({"clients": [1, 2], "keys": [1, 9]}, lambda cell: 100.0 * float(cell["clients"]), 0.01, 6)
    lanes = [run for run in runs if run.repetition % 2 == (int(run.levels[0][1]) + int(run.levels[1][1]) // 9) % 2]
    (throughput, response), reason = two_level_designs(lanes)
    assert reason == ""
    assert not throughput.whole
    assert throughput.blocks == response.blocks
    assert sorted(set(throughput.blocks)) == [(1, 3, 5), (2, 4, 6)]
    assert throughput.read.repetitions == 3
    assert throughput.read.percent_blocks is None
    logarithmic = throughput.choice.logarithmic
    assert logarithmic is not None
    assert np.exp(2 * logarithmic["A"].effect) == pytest.approx(2.0, rel=0.03)


def test_intervals_of_blocks_that_are_not_whole_cover() -> None:
    """Blocks differ by twice the error of a run; which blocks a cell has is drawn."""
    rng, held, draws = np.random.default_rng(7), 0, 400
    for _ in range(draws):
        shifts = rng.normal(0.0, 0.02, 9)
        made = []
        for place, (clients, keys) in enumerate(itertools.product((1, 2), (1, 9))):
            for block in rng.choice(9, 3, replace=False).tolist():
                x = 100.0 * clients * float(np.exp(shifts[block] + rng.normal(0.0, 0.01)))
                levels = (("clients", clients), ("keys", keys))
                made.append(Observation(levels, block, 9 * place + block, clients, x, clients / x))
        (throughput, _), _ = two_level_designs(made)
        logarithmic = throughput.choice.logarithmic
        assert logarithmic is not None
        interval = logarithmic["A"].interval
        assert interval is not None
        held += interval.low <= math.log(2.0) / 2 <= interval.high
    assert held / draws > 0.92


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ({"clients": [1, 2, 3]}, "2 to 5 factors that vary; here are 1"),
        ({"clients": [1, 2], "placement": ["ring", "jump", "modulo"]}, "placement has 3 levels without an order"),
        ({name: [1, 2] for name in "abcdef"}, "here are 6"),
    ],
)
def test_designs_that_are_none_say_why(factors: dict[str, list[int] | list[str]], reason: str) -> None:
    designs, why = two_level_designs(observed(factors, lambda _: 1.0, 0.1, 2))
    assert designs == []
    assert reason in why


def test_a_model_is_calibrated_and_the_knee_bracketed() -> None:
    def throughput(cell: dict[str, int | str]) -> float:
        return float(TRUTH.throughput([int(cell["clients"])])[0]) * (0.5 if cell["path"] == "proxy" else 1.0)

    runs = observed({"clients": list(GRID), "path": ["direct", "proxy"]}, throughput, 0.01)
    series = client_series(runs)
    assert [one.name for one in series] == ["path direct", "path proxy"]
    direct = series[0]
    assert direct.populations == GRID
    assert direct.best is not None
    assert direct.best.name == "closed, delay and 4 servers"
    assert direct.best.mape_throughput is not None
    assert direct.best.mape_throughput < 2.0
    assert [one.population for one in direct.best.predictions if one.fitted] == [1, 128]
    assert direct.misses == ()
    model = direct.calibrated
    assert model is not None
    assert model.delay_s is not None
    assert model.service_time_s is not None
    assert model.delay_s.low < 0.004 < model.delay_s.high
    assert model.service_time_s.low * 0.99 < 0.001 < model.service_time_s.high * 1.01
    # N* = (Z + S) m / S = 20.
    assert direct.knee is not None
    assert direct.knee.certainly_below is not None
    assert direct.knee.certainly_at is not None
    assert 12 <= direct.knee.certainly_below < direct.knee.certainly_at <= 64
    known = {score.name for score in direct.scores}
    assert known >= {"asymptotes", "universal scalability law"}


def test_what_clients_think_is_no_response_time() -> None:
    think_s = 0.003  # of the 4 ms outside the servers
    runs = observed({"clients": list(GRID)}, lambda cell: float(TRUTH.throughput([int(cell["clients"])])[0]), 0.001)
    runs = [
        replace(run, think_time_s=think_s, response_time_s=run.population / run.throughput_per_s - think_s)
        for run in runs
    ]
    (series,) = client_series(runs)
    assert series.best is not None
    for made, response in zip(series.best.predictions, series.response_time_s, strict=True):
        assert made.observed_response_s == pytest.approx(response.mean, rel=0.01)
        assert made.predicted_response_s == pytest.approx(response.mean, rel=0.05)


def test_series_of_few_populations_say_what_they_lack() -> None:
    (short,) = client_series(observed({"clients": [1, 2, 4]}, lambda _: 10.0, 0.1))
    assert short.name == "all runs"
    assert short.knee is None
    assert "at least 4" in short.problem
    assert client_series(observed({"keys": [1, 2]}, lambda _: 10.0, 0.1)) == []


def points(throughput: Callable[[int], float], grid: tuple[int, ...] = GRID) -> list[Point]:
    return [Point(n, tuple(throughput(n) * factor for factor in (0.999, 1.0, 1.001))) for n in grid]


def measured(made: list[Point]) -> dict[int, Interval]:
    return {point.population: positive_interval(point.throughput_per_s) for point in made}


def best_closed(made: list[Point]) -> Score:
    candidates = {name: fit for name, fit in standard_candidates(4).items() if name.startswith("closed")}
    return leave_one_out(made, candidates)[0]


def test_exact_data_leave_nothing_to_explain() -> None:
    made = points(lambda n: float(TRUTH.throughput([n])[0]))
    score = best_closed(made)
    assert score.mape_throughput == pytest.approx(0.0, abs=1e-3)
    assert explain_misses(score, measured(made), TRUTH) == ()


def test_each_miss_has_a_sentence_with_its_side_and_its_place() -> None:
    def contended(n: int) -> float:
        return float(TRUTH.throughput([n])[0]) / (1.0 + 0.01 * n)

    made = points(contended)
    sentences = explain_misses(best_closed(made), measured(made), TRUTH)
    assert sentences
    high = [sentence for sentence in sentences if sentence.startswith("N = 64")]
    assert len(high) == 1
    assert "too high" in high[0]
    assert "in saturation (N* = 20)" in high[0]
    assert "contention" in high[0]
    around = explain_misses(best_closed(made), measured(made), None)
    assert all("more populations" in sentence for sentence in around)


GENERAL = STUDY_TEXT.split("[[predictions]]")[0].replace('path = ["direct", "proxy"]', "servers = [1, 3]")
GENERAL = GENERAL.replace("servers = 3\n", 'path = "proxy"\n').replace("[1, 4, 16]", "[1, 2, 4, 8, 16]")


def test_a_sweep_over_any_factors_has_a_report(tmp_path: Path) -> None:
    made = parse_study(GENERAL)
    (tmp_path / "study.toml").write_text(GENERAL)
    write_json(tmp_path / "sweep.json", SweepMeta(executables=EXECUTABLES, command=["weir-lab", "run"]))
    for run in schedule(made):
        write_run(runs_folder(tmp_path) / run.name, made, run, World())
    files = build_report(tmp_path)
    page, twin = files.html.read_text(), json.loads(files.json.read_text())
    names = (
        "models",
        "effects",
        "load",
        "fig-models-diagram",
        "fig-models-networks-throughput",
        "load-knees",
        "models-calibrated",
        "fig-load-throughput",
    )
    for name in (*names, "fig-effects-residuals-all-requests-mean-response-time"):
        assert f'id="{name}"' in page, name
    assert 'id="overhead"' not in page
    assert len(files.numbers.points) == 10
    assert files.numbers.comparisons == []
    throughput = files.numbers.designs[0]
    # The world saturates at four requests, and servers change nothing.
    assert throughput.read["A"].significant
    assert throughput.read["A"].percent_of_variation == pytest.approx(99.0, abs=2.0)
    assert [one["populations"] for one in twin["series"]] == [[1, 2, 4, 8, 16]] * 2
    assert twin["designs"][0]["factors"][1]["name"] == "servers"
    essence = essence_table(files.numbers)
    assert essence.row_count == 10
    assert "intervals" not in str(essence.caption)  # none of its columns has one
    assert [column.header for column in essence.columns][:3] == ["clients", "servers", "requests/s"]
    text = answer(files.numbers)
    assert "The largest mean throughput is" in text
    assert "comes from clients (significant at 95 %)" in text
    for one in files.numbers.series:
        assert one.best is not None
        assert one.best.name == "closed, delay and 4 servers"
