"""Studies with `find`: what they ask for, how they go on, and what they say."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

import weir_lab
from synthetic import EXECUTABLES, SECOND, World, load_record
from test_run import WEIR, needs_programs
from test_unloaded import Silent
from weir_lab.bench.planning import estimate, plan_lines
from weir_lab.bench.running import Executables, RunOutcome
from weir_lab.bench.running import attempts as attempts_module
from weir_lab.bench.sweep import run as run_module
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.design import FaultsError, Role, load_study, parse_study
from weir_lab.design.text.goals import Goal, GoalError
from weir_lab.errors import StudyError, TestbedError
from weir_lab.records import CpuRecord, RoleCpu, Verdict, write_json
from weir_lab.records.tables.summary import write_tables
from weir_lab.report.single.report import build_report, verify_sweep

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.bench.running import Job
    from weir_lab.bench.sweep.run import SweepOutcome
    from weir_lab.bench.testbeds import Testbed

STUDY = """
schema = "weir.study/1"
name = "found"
find = "max rate with p99 < 1ms"
[search]
rate_min = 1000
rate_max = 100_000
[fixed]
keys = 100
[factors]
path = ["direct", "proxy"]
[plan]
warmup_s = 0.1
measured_s = 2.0
attempts = 2
"""
CAPACITY = {"direct": 20_000.0, "proxy": 8_000.0}


@dataclass
class Bench:
    """Stands in for the testbed: p99 grows with the rate to the fourth power, with a spread of 10 % between runs."""

    made: list[str] = field(default_factory=list)
    stop_after: int | None = None
    broken_above: float = math.inf
    broken_paths: set[str] = field(default_factory=set)
    gone_after: int | None = None
    late: bool = False
    others: float = 0.0

    def make_run(self, _testbed: Testbed, folder: Path, _programs: Executables, job: Job) -> RunOutcome:
        if self.stop_after is not None and len(self.made) >= self.stop_after:
            raise KeyboardInterrupt
        self.made.append(folder.name)
        rate = float(job.settings.rate or 0.0)
        gone = self.gone_after is not None and len(self.made) > self.gone_after
        if gone or rate > self.broken_above or job.settings.path in self.broken_paths:
            return RunOutcome([], ["failed on purpose"])
        rng = np.random.default_rng([round(rate), job.seed % 1000])
        p99_ns = 1e6 * (rate / CAPACITY[job.settings.path]) ** 4 * float(np.exp(rng.normal(0.0, 0.1)))
        times = np.full(400, max(1, round(p99_ns)), dtype=np.int64)
        record = load_record(job.settings.clients, times, World())
        # What this stand-in counts is a sample: rates are reported as they were offered.
        record |= {"throughput_rps": rate}
        record["scheduled"] = {"arrivals": 400, "offered_rate_rps": rate, "unsent": 0, "late": 40 if self.late else 0}
        write_json(folder / "load.json", record)
        cpu = CpuRecord(
            start_unix_ns=1, interval_ns=2 * SECOND, roles={Role.CLIENT: RoleCpu(cpu_ns=1)}, cores=8,
            busy_ns=2 + round(self.others * 16 * SECOND), others_ns=round(self.others * 16 * SECOND),
        )  # fmt: skip
        write_json(folder / "cpu.json", cpu)
        return RunOutcome([], [])


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(attempts_module, "make_run", made.make_run)
    monkeypatch.setattr(run_module, "abilities_of", lambda _weir: None)
    monkeypatch.setattr(run_module, "identify_programs", lambda *_programs: EXECUTABLES)
    monkeypatch.setattr(attempts_module, "executable_version", lambda _argv: "weir 0.1.0")
    return made


def swept(folder: Path, text: str = STUDY, wanted: Wanted | None = None) -> SweepOutcome:
    file = folder / "found.toml"
    # The subject tells nothing of itself, so that the stand-in need not either.
    file.write_text(text.replace("[fixed]", '[subjects.mine]\nargv = ["true"]\n[fixed]\nsubject = "mine"'))
    return run_study(file, folder / "sweep", Executables(WEIR, "memcached"), ["test"], Silent(), wanted)


def rows(folder: Path) -> dict[str, dict[str, str]]:
    text = (folder / "sweep" / "find.csv").read_text()
    return {row["path"]: row for row in csv.DictReader(text.splitlines())}


def test_a_search_finds_the_capacity_of_each_cell_in_turn(tmp_path: Path, bench: Bench) -> None:
    outcome = swept(tmp_path)
    assert outcome.made == len(bench.made)
    assert outcome.not_converged == []
    for path, row in rows(tmp_path).items():
        assert row["decision"] == "found"
        assert float(row["capacity_low_rps"]) < CAPACITY[path] < float(row["capacity_high_rps"])
        assert float(row["capacity_high_rps"]) / float(row["capacity_low_rps"]) <= 1.1**2 + 1e-9
    # In turn, as long as both search: drift falls on both alike.
    paths = ["direct" if "direct" in name else "proxy" for name in bench.made]
    assert all({one, other} == {"direct", "proxy"} for one, other in zip(paths[:16:2], paths[1:16:2], strict=True))
    for answer, path in zip(outcome.answers, CAPACITY, strict=True):
        assert answer.startswith(f"path {path}: max rate with p99 < 1ms: ")
        assert re.search(r"requests/s, 95 % interval [0-9,]+ to [0-9,]+, \d+ runs$", answer)
    frame = weir_lab.load_sweep(tmp_path / "sweep")
    assert frame["current"].all()
    assert set(frame.columns) >= {"path", "rate", "p99_us", "offered_rate_rps"}


def test_a_search_that_was_interrupted_goes_on_where_it_was(tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "whole").mkdir()
    text = STUDY.replace('["direct", "proxy"]', '["direct"]')
    swept(tmp_path / "whole", text)
    whole = list(bench.made)
    bench.made.clear()
    bench.stop_after = 7
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, text)
    assert {row["decision"] for row in rows(tmp_path).values()} == {"incomplete"}
    bench.stop_after = None
    outcome = swept(tmp_path, text)
    assert outcome.reused == 7
    # The folder of the run that was interrupted is there already.
    assert sorted(name.removesuffix("-try2") for name in bench.made) == sorted(whole)
    assert rows(tmp_path) == rows(tmp_path / "whole")
    before = len(bench.made)
    assert swept(tmp_path, text).made == 0
    assert len(bench.made) == before
    find = tmp_path / "sweep" / "find.csv"
    kept = find.read_text()
    find.unlink()
    write_tables(tmp_path / "sweep", load_study(tmp_path / "sweep" / "study.toml"), EXECUTABLES)
    assert find.read_text() == kept


def test_a_rate_at_which_nothing_works_does_not_meet_the_goal(tmp_path: Path, bench: Bench) -> None:
    bench.broken_above = 15_000.0
    only = Wanted(only="path == 'direct'")
    swept(tmp_path, wanted=only)
    row = rows(tmp_path)["direct"]
    assert row["decision"] == "found"
    assert float(row["capacity_low_rps"]) < 15_000.0 < float(row["capacity_high_rps"])
    assert rows(tmp_path)["proxy"]["decision"] == "incomplete"
    assert any(name.endswith("-try2") for name in bench.made)
    made = len(bench.made)
    assert swept(tmp_path, wanted=only).made == 0  # what was given up is not tried again and again
    assert len(bench.made) == made
    # With more attempts it is, and the search goes on from there.
    bench.broken_above = math.inf
    assert swept(tmp_path, STUDY.replace("attempts = 2", "attempts = 3"), only).made > 0
    row = rows(tmp_path)["direct"]
    assert float(row["capacity_low_rps"]) < CAPACITY["direct"] < float(row["capacity_high_rps"])


@pytest.mark.usefixtures("bench")
def test_a_search_that_ran_out_of_runs_goes_on_with_more(tmp_path: Path) -> None:
    short = STUDY.replace('["direct", "proxy"]', '["direct"]').replace("[search]", "[search]\nruns_max = 9")
    assert swept(tmp_path, short).not_converged == ["found-direct"]
    more = swept(tmp_path, short.replace("runs_max = 9", "runs_max = 40"))
    assert (more.reused, more.not_converged) == (9, [])
    # Repetitions are no part of a search; they were accepted, and added nothing.
    with pytest.raises(StudyError, match="a search has no repetitions"):
        swept(tmp_path, short.replace("runs_max = 9", "runs_max = 40"), Wanted(extend=5))


def test_a_system_that_never_works_ends_the_search(tmp_path: Path, bench: Bench) -> None:
    bench.broken_above = 0.0
    with pytest.raises(TestbedError, match="3 runs at different rates have no valid attempt"):
        swept(tmp_path)
    assert len(bench.made) == 6


def test_a_system_that_is_gone_ends_the_search_and_what_it_missed_since_counts_for_nothing(
    tmp_path: Path, bench: Bench
) -> None:
    """After one valid run nothing stopped it: all later rates were missed, and a narrow, wrong capacity was found with status 0."""
    text = STUDY.replace('["direct", "proxy"]', '["direct"]')
    (tmp_path / "whole").mkdir()
    swept(tmp_path / "whole", text)
    bench.made.clear()
    bench.gone_after = 5
    with pytest.raises(
        TestbedError, match=r"of the last runs ha(s|ve) no valid attempt, and neither has one at .* worked before"
    ):
        swept(tmp_path, text)
    sweep = tmp_path / "sweep"
    assert sorted(folder.name for folder in (sweep / "runs").iterdir()) == sorted(bench.made[:5])
    assert sorted(folder.name for folder in (sweep / "aside").iterdir()) == sorted(bench.made[5:])
    assert rows(tmp_path)["direct"]["decision"] == "incomplete"
    # Mended, it goes on as if nothing had been.
    bench.gone_after = None
    assert swept(tmp_path, text).reused == 5
    assert rows(tmp_path) == rows(tmp_path / "whole")


def test_a_cell_whose_system_never_works_ends_the_search_although_others_do(tmp_path: Path, bench: Bench) -> None:
    bench.broken_paths = {"proxy"}
    with pytest.raises(
        TestbedError, match=r"found-proxy: .* at 1,000 requests/s, the smallest rate \(search\.rate_min\)"
    ):
        swept(tmp_path)
    assert all("direct" in folder.name for folder in (tmp_path / "sweep" / "runs").iterdir())


def test_rates_that_break_the_system_are_no_sign_that_it_is_gone(tmp_path: Path, bench: Bench) -> None:
    """One run at a rate that worked shows which it is, and the answer says how many rates were not measured."""
    bench.broken_above = 1_500.0
    (answer,) = swept(tmp_path, STUDY.replace('["direct", "proxy"]', '["direct"]')).answers
    row = rows(tmp_path)["direct"]
    assert row["decision"] == "found"
    assert float(row["capacity_low_rps"]) < 1_500.0 < float(row["capacity_high_rps"])
    assert re.search(r"; \d+ runs without a valid attempt count as missed$", answer)
    assert not (tmp_path / "sweep" / "aside").exists()


def test_an_attempt_beside_a_busy_machine_waits_before_the_next(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("weir_lab.bench.sweep.at_work.sleep", pauses.append)
    busy = Verdict(valid=False, reasons=["75 % of the machine's CPU time went elsewhere"], flags=[], busy=True)
    monkeypatch.setattr(attempts_module, "judge", lambda *_: busy)
    with pytest.raises(TestbedError, match="Wait until the machine is quiet"):
        swept(tmp_path)
    assert pauses == [2.0] * 3
    assert len(bench.made) == 6


def test_the_limit_of_the_generator_is_reported_and_so_are_the_ends(tmp_path: Path, bench: Bench) -> None:
    bench.late = True
    assert all("the load generator was late" in answer for answer in swept(tmp_path).answers)
    low = STUDY.replace("rate_max = 100_000", "rate_max = 2000")
    (tmp_path / "low").mkdir()
    outcome = swept(tmp_path / "low", low)
    assert all("more than 2,000 requests/s (search.rate_max)" in answer for answer in outcome.answers)
    assert {row["capacity_rps"] for row in rows(tmp_path / "low").values()} == {""}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max rate with p99 < 0ms", "never kept"),
        ("max rate with p98 < 1ms", "the form is"),
        ("max rate with p99 > 1ms", "the form is"),
        ("min rate with p99 < 1ms", "the form is"),
        ("max rate with p99 < 1", "the form is"),
    ],
)
def test_a_goal_that_cannot_be_read_is_reported_with_the_form(text: str, says: str) -> None:
    with pytest.raises(GoalError, match=says):
        Goal.parse(text)
    with pytest.raises(FaultsError, match=says):
        parse_study(STUDY.replace("max rate with p99 < 1ms", text))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("keys = 100", "rate = 5", "find varies the rate: leave it out"),
        ("rate_min = 1000", "rate_min = 100", "has 200 requests, and the goal needs 299: make rate_min 150"),
        ("rate_min = 1000", "rate_min = 1e6", "give rate_min < rate_max"),
        ('find = "max rate with p99 < 1ms"', "", "search says where find looks"),
        ('name = "found"', 'name = "found"\nkind = "trace"', "has no rate to be found"),
        ("attempts = 2", "attempts = 2\n[plan.stop]\nlevel = 0.9", "leave stop out"),
    ],
)
def test_what_cannot_be_searched_is_refused(old: str, new: str, says: str) -> None:
    assert old in STUDY
    with pytest.raises(FaultsError, match=re.escape(says)):
        parse_study(STUDY.replace(old, new))


def test_a_search_needs_no_factor_and_its_plan_says_how_many_runs() -> None:
    alone = parse_study(STUDY.replace('[factors]\npath = ["direct", "proxy"]\n', ""))
    effort = estimate(alone)
    assert (effort.cells, effort.runs_min, effort.runs_max) == (1, 8, 40)
    assert any(
        "until the 95 % interval of the capacity (max rate with p99 < 1ms) is within 10 %" in line
        for line in plan_lines(alone, [])
    )
    goal = Goal.parse("max rate with p99.9 <= 2s and mean < 150 µs")
    assert [(limit.percent, limit.limit_ns) for limit in goal.limits] == [(99.9, 2e9), (None, 150e3)]


@needs_programs
def test_the_capacity_of_a_memcached_is_found_on_loopback(tmp_path: Path) -> None:
    """A real search. How much this machine serves just now is not what is tested: that the answer is one, and rests on the runs."""
    text = STUDY
    for old, new in (
        ('[factors]\npath = ["direct", "proxy"]\n', ""),
        ("keys = 100", 'keys = 100\npath = "direct"'),
        ("p99 < 1ms", "p50 < 20ms"),
        ("measured_s = 2.0", "measured_s = 0.2"),
        ("[search]", "[search]\nhalf_width = 0.9\nruns_max = 8"),
        ("rate_max = 100_000", "rate_max = 40_000"),
    ):
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "real.toml"
    file.write_text(text)
    outcome = run_study(file, tmp_path / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    (row,) = csv.DictReader((tmp_path / "sweep" / "find.csv").read_text().splitlines())
    assert int(row["runs"]) == outcome.made == 8 or row["decision"].startswith(("above", "below"))
    frame = weir_lab.load_sweep(tmp_path / "sweep")
    # A machine that serves every rate that may be asked is asked few: the search goes up at once, and says so.
    assert frame["rate"].nunique() >= 2
    assert len(outcome.answers) == 1
    assert build_report(tmp_path / "sweep").answer.startswith("With p50 below 20 ms, the capacity is ")
    assert not verify_sweep(tmp_path / "sweep" / "report.html").differences
