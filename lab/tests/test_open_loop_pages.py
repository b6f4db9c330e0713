"""Pages of open loops: on systems whose capacity is known, by rates that they keep up with and rates that they do not.

Before, `weir-lab report` refused every study with a rate.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic import EXECUTABLES, SECOND, World, load_record, run_meta, snapshot
from weir_lab.bench.running.verdict import judge
from weir_lab.cli import app
from weir_lab.design import Role, parse_study, schedule
from weir_lab.records import CpuRecord, RoleCpu, SweepMeta, read_measurements, runs_folder, write_json
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.single.open_answers import answer, limits
from weir_lab.report.single.report import build_report, verify_sweep

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design import ScheduledRun, Study

STUDY = """
schema = "weir.study/1"
name = "offered"
title = "Two engines under a rate"
question = "Which rate does each engine answer in time?"
[fixed]
keys = 100
workers = 4
proxy_threads = 1
[factors]
rate = [100, 200, 400, 800]
engine = ["event", "pool"]
[plan]
repetitions = 3
warmup_s = 0.5
measured_s = 2.0
"""
CAPACITY = {"event": 2000.0, "pool": 300.0}


@dataclass(frozen=True)
class Served:
    """M/M/1 with a capacity per engine; above it arrivals wait in the generator's backlog."""

    capacity: dict[str, float]
    late_share: float = 0.0
    busy: float = 0.01
    spread: float = 0.02


def write_open_sweep(sweep: Path, served: Served, text: str = STUDY) -> Study:
    """All runs of an open loop, with counts that agree as those of a real one."""
    made = parse_study(text)
    sweep.mkdir(parents=True, exist_ok=True)
    (sweep / "study.toml").write_text(text)
    write_json(sweep / "sweep.json", SweepMeta(executables=EXECUTABLES, command=["weir-lab", "run"]))
    for run in schedule(made):
        _write_run(runs_folder(sweep) / run.name, made, run, served)
    return made


def _write_run(folder: Path, made: Study, run: ScheduledRun, served: Served) -> None:
    folder.mkdir(parents=True)
    settings, rng = run.cell.settings, np.random.default_rng([run.position, 5])
    capacity, offered = served.capacity[settings.engine], float(settings.rate or 0.0)
    answered = min(offered, capacity)
    load = min(offered / capacity, 0.95)
    mean_ns = 1e9 / capacity / (1.0 - load) * float(np.exp(rng.normal(0.0, served.spread)))
    times = np.maximum(1, rng.exponential(mean_ns, int(2 * answered))).astype(np.int64)
    record: dict[str, Any] = load_record(settings.clients, times, World())
    arrivals = int(2 * offered)
    late = int(served.late_share * arrivals)
    record["scheduled"] = {"arrivals": arrivals, "offered_rate_rps": offered, "unsent": 0, "late": late}
    write_json(folder / "load.json", record)
    roles = {Role.CLIENT: 8_000, Role.SERVERS: 9_000, Role.PROXY: int(0.97e9 / capacity)}
    spent = {role: RoleCpu(cpu_ns=ns * times.size) for role, ns in roles.items()}
    busy = sum(one.cpu_ns for one in spent.values()) + int(served.busy * 2 * SECOND * 8)
    write_json(
        folder / "cpu.json", CpuRecord(start_unix_ns=1, interval_ns=2 * SECOND, roles=spent, cores=8, busy_ns=busy)
    )
    prefill, inside = np.full(100, 50_000, dtype=np.int64), (times * 0.6).astype(np.int64)
    for name, uptime_ns, seen in (
        ("before", SECOND, prefill),
        ("after", 3 * SECOND, np.concatenate([prefill, inside])),
        ("end", 4 * SECOND, np.concatenate([prefill, inside])),
    ):
        write_json(folder / f"snapshot-{name}.json", snapshot(uptime_ns, seen, World()))
    meta = run_meta(made, run)
    write_json(
        folder / "run.json",
        meta.model_copy(update={"verdict": judge(read_measurements(folder, meta), made.gates, [])}),
    )


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=\.)\s+(?=[A-Z])", text) if part]


def answer_of(sweep: Path) -> str:
    return answer(read_cells("study.toml", sweep))


def limits_of(sweep: Path) -> str:
    return " ".join(limits(read_cells("study.toml", sweep)))


@pytest.fixture(scope="module")
def open_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("open") / "offered"
    write_open_sweep(folder, Served(CAPACITY))
    build_report(folder)
    return folder


def blocks_of(sweep: Path) -> dict[str, Any]:
    twin = json.loads((sweep / "report.json").read_text())
    return {block["name"]: block for part in twin["sections"] for block in part["blocks"] if "name" in block}


def lines_of(sweep: Path, figure: str) -> dict[str, dict[str, Any]]:
    """Lines of a figure by the titles of panels and their own names."""
    found = blocks_of(sweep)[figure]
    return {panel["title"]: {line["name"]: line for line in panel["lines"]} for panel in found["panels"]}


def test_the_answer_says_what_is_kept_up_with_and_then_comes_what_limits(open_sweep: Path) -> None:
    reported = sentences(answer_of(open_sweep))
    assert len(reported) == 2
    assert reported[0] == (
        "The highest offered rate that was kept up with: event 800 requests/s (the highest that was offered); pool 200 requests/s."
    )
    assert reported[1].startswith(
        "At 200 requests/s, the highest that all of them kept up with, 99 of 100 requests were"
    )
    # The pool's threads spend .97 s of CPU time per second at its capacity, on five threads of which one is a network thread.
    (limited,) = sentences(limits_of(open_sweep))
    assert limited.startswith("At 400 requests/s (pool), ")
    page = unescape((open_sweep / "report.html").read_text())
    assert page.index(reported[1]) < page.index(limited) < page.index("<dt>Question</dt>")


def test_the_page_has_the_runs_behind_each_response_time_and_hollow_marks_above_the_capacity(open_sweep: Path) -> None:
    panels = lines_of(open_sweep, "load-response")
    assert set(panels) == {"mean", "p50", "p99"}  # no run has requests enough for the 99.9th percentile
    assert [mark["x"] for mark in panels["mean"]["pool"]["marks"]] == [100, 200]
    assert [mark["x"] for mark in panels["mean"]["pool: fell behind"]["marks"]] == [400, 800]
    assert panels["mean"]["pool: fell behind"]["kind"] == "points"
    # 200 requests in a run are too few for the 99th percentile.
    assert [mark["x"] for mark in panels["p99"]["event"]["marks"]] == [200, 400, 800]
    readings = read_cells("study.toml", open_sweep)
    for cell in readings.cells:
        if cell.settings.engine == "event" and cell.settings.rate == 400:
            (mark,) = (one for one in panels["mean"]["event"]["marks"] if one["x"] == 400)
            measured = [1e3 * run.response_s for run in cell.runs]
            assert [value for _, value in mark["runs"]] == pytest.approx(measured)
            assert mark["low"] < min(measured) <= mark["y"] <= max(measured) < mark["high"]
            # The M/M/1 queue: 1 / (2000/s - 400/s).
            assert mark["y"] == pytest.approx(0.625, rel=0.1)


def test_what_was_answered_stands_beside_what_was_offered_and_how_busy_each_station_was(open_sweep: Path) -> None:
    panels = lines_of(open_sweep, "load-kept-up")
    answered = {mark["x"]: mark["y"] for mark in panels["answered over offered"]["pool"]["marks"]}
    assert answered == pytest.approx({100: 100, 200: 200, 400: 300, 800: 300})
    share = {mark["x"]: mark["y"] for mark in panels["share answered"]["pool"]["marks"]}
    assert share == pytest.approx({100: 100, 200: 100, 400: 75, 800: 37.5})
    busy = lines_of(open_sweep, "load-stations")["event"]["proxy threads"]["marks"]
    assert {mark["x"]: mark["y"] for mark in busy} == pytest.approx(
        {100: 4.85, 200: 9.7, 400: 19.4, 800: 38.8}, rel=0.01
    )


def test_levels_of_other_factors_are_compared_where_both_kept_up(open_sweep: Path) -> None:
    rows = blocks_of(open_sweep)["curves-compared"]["rows"]
    assert [row[2]["value"] for row in rows] == [100, 200]
    for row, rate in zip(rows, (100, 200), strict=True):
        expected = 100 * ((2000 - rate) / (300 - rate) - 1)
        assert row[3]["low"] < expected < row[3]["high"]


def test_the_page_can_be_verified_and_a_changed_number_is_found(open_sweep: Path, tmp_path: Path) -> None:
    sweep = shutil.copytree(open_sweep, tmp_path / "offered")
    checked = verify_sweep(sweep / "report.html")
    assert checked.numbers > 500
    assert not checked.differences
    twin = json.loads((sweep / "report.json").read_text())
    twin["sections"][1]["blocks"][0]["panels"][0]["lines"][0]["marks"][0]["y"] *= 1.01
    (sweep / "report.json").write_text(json.dumps(twin))
    assert len(verify_sweep(sweep / "report.html").differences) == 1
    reported = CliRunner().invoke(app, ["report", str(sweep)])
    assert "The highest offered rate that was kept up with" in reported.output


@pytest.mark.parametrize(
    ("capacity", "says"),
    [
        (1e6, "Every offered rate was kept up with, up to 800 requests/s: the capacity lies above."),
        (90.0, "Not even 100 requests/s, the lowest rate, was kept up with: 90 % of it was answered."),
        (500.0, "Up to 400 requests/s were kept up with; of 800 requests/s offered, 6"),
    ],
)
def test_one_curve_says_where_its_capacity_lies(tmp_path: Path, capacity: float, says: str) -> None:
    text = STUDY.replace('engine = ["event", "pool"]', "").replace("repetitions = 3", "repetitions = 2")
    write_open_sweep(tmp_path, Served({"event": capacity}, late_share=0.2, busy=0.5), text)
    reported = answer_of(tmp_path)
    assert reported.startswith(says)
    assert len(sentences(reported)) <= 3
    limited = limits_of(tmp_path)
    assert "the load generator itself was late in 2 of 2 runs there" in limited
    assert "The machine was busy: in 8 of 8 runs up to 50 % of its CPU time went elsewhere." in limited
    assert limited in unescape(build_report(tmp_path).html.read_text())


def test_where_the_rate_is_fixed_another_factor_is_the_axis(tmp_path: Path) -> None:
    text = STUDY.replace("rate = [100, 200, 400, 800]\n", "").replace(
        "keys = 100", 'keys = 100\nrate = 400\nmix = "get=0.9,incr=0.1"'
    )
    write_open_sweep(tmp_path, Served(CAPACITY), text)
    reported = answer_of(tmp_path)
    assert reported.startswith(
        "The offered 400 requests/s were kept up with at 1 of 2 levels; engine pool answered least, 75 % of them."
    )
    build_report(tmp_path)
    (panel,) = (one for title, one in lines_of(tmp_path, "load-response").items() if title == "mean")
    assert {name: [mark["x"] for mark in line["marks"]] for name, line in panel.items()} == {
        "all requests": [0], "all requests: fell behind": [1],
    }  # fmt: skip


def test_more_curves_than_looks_are_counted(tmp_path: Path) -> None:
    text = STUDY.replace("[100, 200, 400, 800]", "[100, 200]")
    text = text.replace('engine = ["event", "pool"]', f"value_size_bytes = {list(range(10, 110, 10))}").replace(
        "repetitions = 3", "repetitions = 2"
    )
    write_open_sweep(tmp_path, Served({"event": 500.0}), text)
    assert "the lowest of 10 such rates" in answer_of(tmp_path)
    page = unescape(build_report(tmp_path).html.read_text())
    assert "2 of 10 lines are left out here; the table has them." in page
