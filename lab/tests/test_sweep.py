"""What a sweep decides: which runs it makes, in which order, and when a cell has enough. The runs themselves are made of known numbers."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic import EXECUTABLES, STUDY_TEXT, World, write_measurements
from weir_lab.bench.running import Executables, Job, RunOutcome
from weir_lab.bench.running import attempts as attempts_module
from weir_lab.bench.sweep import run as run_module
from weir_lab.bench.sweep.run import SweepOutcome, Wanted, run_study, selects
from weir_lab.cli import app
from weir_lab.design import RequestPath, cells_of, load_study, schedule
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import Verdict, read_run_metas
from weir_lab.records.sharing.gathering import gather_runs
from weir_lab.records.windows import Cut
from weir_lab.theory.stats import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.bench.testbeds import Testbed
    from weir_lab.design import ScheduledRun, Study
    from weir_lab.records.progress import CellProgress

PROGRAMS = Executables(Path("weir"), "memcached")
STOP = "[plan.stop]\nrepetitions_max = 8\nrelative_half_width = 0.05\n"


@dataclass
class Bench:
    """Stands in for the testbed: each run is made of numbers; counts and remembers what was asked for."""

    spread: dict[str, float] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)
    best_clients: int | None = None
    decisions: list[tuple[str, int, Decision]] = field(default_factory=list)
    plans: list[tuple[int, int]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    judged: bool = True
    dies_at: int | None = None

    def make_run(self, _testbed: Testbed, folder: Path, _programs: Executables, job: Job) -> RunOutcome:
        if len(self.made) == self.dies_at:
            raise KeyboardInterrupt
        self.made.append(folder.name)
        if folder.name in self.fails:
            return RunOutcome([], ["failed on purpose"])
        world = World(service_ns=dict.fromkeys(RequestPath, 5e6), run_spread=self.spread.get(job.settings.path, 0.0))
        if self.best_clients is not None:
            slow = 1.0 + 0.1 * abs(job.settings.clients - self.best_clients)
            world = replace(world, service_ns=dict.fromkeys(RequestPath, 250000.0 * slow))
        write_measurements(folder, job.settings, np.random.default_rng([job.seed]), world)
        return RunOutcome([], [])

    def planned(self, study: Study, total: int, reused: int, cells: Sequence[CellProgress], left_out: str = "") -> None:
        assert study.name == "tiny"
        assert cells
        self.left_out.append(left_out)
        self.plans.append((total, reused))

    def started(self, run: ScheduledRun, attempt: int) -> None:
        assert run.position >= 1
        assert attempt >= 1

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        assert folder.name.startswith(run.name)
        assert not self.judged or verdict.valid == (folder.name not in self.fails), verdict

    def progressed(self, cell: CellProgress, decision: Decision) -> None:
        self.decisions.append((cell.cell.name, len(cell.values), decision))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(attempts_module, "make_run", made.make_run)
    monkeypatch.setattr(run_module, "abilities_of", lambda _weir: None)
    monkeypatch.setattr(run_module, "identify_programs", lambda *_programs: EXECUTABLES)
    monkeypatch.setattr(attempts_module, "executable_version", lambda _argv: "weir 0.1.0")
    return made


def write(folder: Path, *changes: tuple[str, str], more: str = "") -> Path:
    text = STUDY_TEXT.replace("clients = [1, 4, 16]", "clients = [1, 4]")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = folder / "given.toml"
    file.write_text(text + more)
    return file


def sweep_of(bench: Bench, study: Path, wanted: Wanted | None = None) -> SweepOutcome:
    return run_study(study, study.parent / "sweep", PROGRAMS, ["test"], bench, wanted)


def rows(sweep: Path, name: str) -> dict[str, dict[str, str]]:
    return {
        next(iter(row.values())) + row["cell"]: row for row in csv.DictReader((sweep / name).read_text().splitlines())
    }


def test_runs_are_made_in_the_order_of_the_schedule(tmp_path: Path, bench: Bench) -> None:
    study = write(tmp_path)
    assert sweep_of(bench, study).made == 12
    assert bench.made == [run.name for run in schedule(load_study(study))]
    assert sweep_of(bench, study).made == 0
    assert bench.plans == [(12, 0), (12, 12)]


def test_runs_of_another_program_are_said_to_count_no_more(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night of 118 runs was begun anew with another loop that keeps cores awake, and “0 already there” was all that was said."""
    study = write(tmp_path)
    sweep_of(bench, study)
    monkeypatch.setattr(run_module, "identify_programs", lambda *_programs: EXECUTABLES | {"awake": "gives way"})
    sweep_of(bench, study, Wanted(only="clients == 1"))
    monkeypatch.setattr(run_module, "identify_programs", lambda *_programs: EXECUTABLES)
    sweep_of(bench, study)
    assert bench.plans == [(12, 0), (6, 0), (12, 12)]
    assert bench.left_out == [
        "",
        "12 valid runs were made with another awake and do not count",
        "6 valid runs were made with another awake and do not count",
    ]


def test_a_cell_runs_until_its_interval_is_narrow_and_the_others_do_not_wait_for_it(
    tmp_path: Path, bench: Bench
) -> None:
    bench.spread = {"proxy": 0.4}  # half-widths far above 5 %, whatever the seed
    outcome = sweep_of(bench, write(tmp_path, more=STOP))
    counts = {name: sum(made.startswith(name) for made in bench.made) for name in ("tiny-C1-direct", "tiny-C4-proxy")}
    assert counts == {"tiny-C1-direct": 3, "tiny-C4-proxy": 8}
    assert outcome.not_converged == ["tiny-C1-proxy", "tiny-C4-proxy"]
    last = {name: (count, decision) for name, count, decision in bench.decisions}
    assert last["tiny-C1-direct"] == (3, Decision.CONVERGED)
    assert last["tiny-C4-proxy"] == (8, Decision.NOT_CONVERGED)
    summary = rows(tmp_path / "sweep", "summary.csv")
    assert [row["decision"] for row in summary.values()] == ["converged", "not converged"] * 2


def test_a_stopped_cell_stays_stopped_when_the_sweep_goes_on(tmp_path: Path, bench: Bench) -> None:
    bench.spread = {"proxy": 0.4}
    study = write(tmp_path, more=STOP)
    sweep_of(bench, study)
    before = len(bench.made)
    assert sweep_of(bench, study).made == 0
    assert len(bench.made) == before


def test_an_invalid_run_is_kept_tried_again_and_not_counted(tmp_path: Path, bench: Bench) -> None:
    bench.fails = {"tiny-C4-proxy-r2", "tiny-C1-direct-r1", "tiny-C1-direct-r1-try2"}
    study = write(tmp_path)
    outcome = sweep_of(bench, study)
    assert outcome.given_up == ["tiny-C1-direct-r1"]
    assert "tiny-C4-proxy-r2-try2" in bench.made
    summary = rows(tmp_path / "sweep", "summary.csv")
    found = {row["cell"]: (row["runs"], row["invalid_runs"]) for row in summary.values()}
    assert found["tiny-C4-proxy"] == ("3", "1")
    assert found["tiny-C1-direct"] == ("2", "2")
    bench.fails = set()
    assert sweep_of(bench, study).made == 1
    assert bench.made[-1] == "tiny-C1-direct-r1-try3"
    invalid = [row for row in rows(tmp_path / "sweep", "runs.csv").values() if row["valid"] == "false"]
    assert len(invalid) == 3
    assert all(row["reasons"].startswith("failed on purpose") for row in invalid)


def test_an_attempt_that_a_busy_machine_spoiled_is_made_again_later(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Attempts at once would all meet what kept the machine busy.
    pauses: list[float] = []
    busy = Verdict(valid=False, reasons=["75 % of the machine's CPU time went elsewhere"], flags=[], busy=True)
    monkeypatch.setattr(attempts_module, "judge", lambda *_: busy)
    monkeypatch.setattr("weir_lab.bench.sweep.at_work.sleep", pauses.append)
    bench.judged = False
    study = write(tmp_path, ("attempts = 2", "attempts = 6"))
    with pytest.raises(TestbedError, match="Wait until the machine is quiet"):
        sweep_of(bench, study)
    assert pauses == 3 * [2.0, 4.0, 8.0, 15.0, 15.0]

    # What another attempt does not mend is not waited for.
    wrong = Verdict(valid=False, reasons=["wrong"], flags=[])
    monkeypatch.setattr(attempts_module, "judge", lambda *_: wrong)
    pauses.clear()
    with pytest.raises(TestbedError, match="Mend what the last verdicts say"):
        sweep_of(bench, study)
    assert pauses == []


def test_only_some_cells_can_be_made_and_the_others_later(tmp_path: Path, bench: Bench) -> None:
    study = write(tmp_path)
    assert sweep_of(bench, study, Wanted(only="*-C4-*")).made == 6
    assert sweep_of(bench, study, Wanted(only="clients == 1 and path == 'proxy'")).made == 3
    assert all("C4" in name or "C1-proxy" in name for name in bench.made)
    assert sweep_of(bench, study).made == 3
    assert bench.plans == [(6, 0), (3, 0), (12, 9)]
    assert sorted(bench.made) == sorted(run.name for run in schedule(load_study(study)))
    with pytest.raises(StudyError, match="klients, which is no setting"):
        selects("klients == 1", cells_of(load_study(study))[0])


def test_a_sweep_can_be_extended_and_stays_extended(tmp_path: Path, bench: Bench) -> None:
    study, sweep = write(tmp_path), tmp_path / "sweep"
    sweep_of(bench, study)
    assert run_study(sweep / "study.toml", sweep, PROGRAMS, [], bench, Wanted(extend=2)).made == 8
    assert load_study(sweep / "study.toml").extended == 2
    # The original file, which knows of no extension, takes nothing away.
    assert sweep_of(bench, study).made == 0
    assert len(schedule(load_study(sweep / "study.toml"))) == 20
    assert run_study(sweep / "study.toml", sweep, PROGRAMS, [], bench, Wanted(extend=1)).made == 4
    assert load_study(sweep / "study.toml").extended == 3


def extended(bench: Bench, sweep: Path, repetitions: int, only: str | None = None) -> SweepOutcome:
    return run_study(sweep / "study.toml", sweep, PROGRAMS, [], bench, Wanted(extend=repetitions, only=only))


def repetitions_of(sweep: Path) -> set[int]:
    """How many runs the cells have that count."""
    valid = [meta.cell for _, meta in read_run_metas(sweep) if meta.verdict.valid]
    return {valid.count(cell) for cell in valid}


def test_an_interrupted_extension_goes_on_and_adds_no_more(tmp_path: Path, bench: Bench) -> None:
    """The number was raised before the first run was made, and every message said to give the same command."""
    sweep = tmp_path / "sweep"
    sweep_of(bench, write(tmp_path))
    bench.dies_at = 15
    with pytest.raises(KeyboardInterrupt):
        extended(bench, sweep, 2)
    bench.dies_at = None
    again = extended(bench, sweep, 2)
    # The run under way was lost; the other three of the twelve and eight were there.
    assert (again.made, again.held_back) == (5, 5)
    assert load_study(sweep / "study.toml").extended == 2
    assert repetitions_of(sweep) == {5}
    more = extended(bench, sweep, 2)
    assert (more.made, more.held_back) == (8, 0)
    assert repetitions_of(sweep) == {7}


def test_an_extension_that_no_testbed_could_make_adds_nothing(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise TestbedError("no network namespaces")

    sweep = tmp_path / "sweep"
    sweep_of(bench, write(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "open_testbed", refused)
        with pytest.raises(TestbedError, match="no network namespaces"):
            extended(bench, sweep, 4)
    assert load_study(sweep / "study.toml").extended == 0
    assert extended(bench, sweep, 1).made == 4


def test_runs_that_were_given_up_do_not_keep_a_sweep_from_being_extended(tmp_path: Path, bench: Bench) -> None:
    sweep = tmp_path / "sweep"
    bench.fails = {f"tiny-C1-direct-r1{again}" for again in ("", *(f"-try{number}" for number in range(2, 9)))}
    assert sweep_of(bench, write(tmp_path)).given_up == ["tiny-C1-direct-r1"]
    outcome = extended(bench, sweep, 1)
    assert outcome.held_back == 0
    assert load_study(sweep / "study.toml").extended == 1
    # The command that adds nothing is named: this one would add once more.
    result = CliRunner().invoke(app, ["extend", str(sweep), "1", "--bin", "weir"])
    assert result.exit_code == 3, result.output
    said = " ".join(result.output.split())
    assert f"`weir-lab run {sweep}/study.toml --out {sweep}` tries them again" in said


def test_a_night_has_no_repetitions_to_extend(tmp_path: Path, bench: Bench) -> None:
    """It was accepted, and nothing was made."""
    text = write(tmp_path).read_text()
    study = tmp_path / "night.toml"
    study.write_text(text[: text.index("[[predictions]]")].replace('name = "tiny"', 'name = "tiny"\npace = "night"'))
    with pytest.raises(StudyError, match=r"\[plan\.night\]"):
        run_study(study, tmp_path / "sweep", PROGRAMS, [], bench, Wanted(extend=2))
    assert not (tmp_path / "sweep").exists()


def test_an_only_that_means_no_cell_is_refused_before_anything_is_made(tmp_path: Path, bench: Bench) -> None:
    """A typo made a night without runs, with status 0."""
    study = write(tmp_path)
    with pytest.raises(StudyError, match=r"--only: '\*-C5-\*' means none of the cells\. There are: tiny-C1-direct, "):
        sweep_of(bench, study, Wanted(only="*-C5-*"))
    with pytest.raises(StudyError, match="means none of the cells"):
        sweep_of(bench, study, Wanted(only="servers == 5"))
    assert bench.made == []
    assert not (tmp_path / "sweep").exists()


def test_new_levels_take_the_old_runs_along(tmp_path: Path, bench: Bench) -> None:
    sweep_of(bench, write(tmp_path))
    assert sweep_of(bench, write(tmp_path, ("clients = [1, 4]", "clients = [1, 4, 8]"))).made == 6


def test_another_pace_makes_its_own_runs_beside_the_others(tmp_path: Path, bench: Bench) -> None:
    study, sweep = write(tmp_path, ("measured_s = 2.0", "measured_s = 9.0")), tmp_path / "sweep"
    sweep_of(bench, study)
    assert sweep_of(bench, study, Wanted(pace="quick")).made == 12
    assert (load_study(sweep / "study.toml").pace, load_study(sweep / "study.toml").plan.measured_s) == ("quick", 5.0)
    assert len(read_run_metas(sweep)) == 24
    assert sweep_of(bench, study, Wanted(pace="quick")).made == 0


def test_refinement_goes_from_the_best_cell_on_and_is_found_again(tmp_path: Path, bench: Bench) -> None:
    bench.best_clients = 22
    refine = '[[refine]]\nfactor = "clients"\noffsets = [-8, 8]\n[[refine]]\nfactor = "clients"\noffsets = [-2, 2]\n'
    study = write(
        tmp_path, ("clients = [1, 4]", "clients = [8, 16, 64]"), ('["direct", "proxy"]', '["proxy"]'),
        (STUDY_TEXT[STUDY_TEXT.index("[[predictions]]") :], refine),
    )  # fmt: skip
    sweep_of(bench, study)
    kept = load_study(tmp_path / "sweep" / "study.toml")
    # 16 is best of 8, 16, 64; then 24 of 8 (there already), 16, 24; then 22 of 22, 24, 26.
    assert [cell["clients"] for cell in kept.refined] == [24, 22, 26]
    assert [cell.name for cell in cells_of(kept)][3:] == ["tiny-C24-proxy", "tiny-C22-proxy", "tiny-C26-proxy"]
    made = len(bench.made)
    assert made == 18
    assert sweep_of(bench, study).made == 0
    assert load_study(tmp_path / "sweep" / "study.toml").refined == kept.refined
    assert len(rows(tmp_path / "sweep", "summary.csv")) == 6


def test_the_budget_ends_a_sweep_and_the_next_one_goes_on(tmp_path: Path, bench: Bench) -> None:
    # A run is expected to take 4.5 s and more: the second could end behind the budget, though it ends at once here.
    outcome = sweep_of(bench, write(tmp_path, ("attempts = 2", "attempts = 2\nbudget_s = 1.0")))
    assert (outcome.made, outcome.out_of_budget) == (0, True)
    outcome = sweep_of(bench, write(tmp_path))
    assert (outcome.made, outcome.out_of_budget) == (12, False)


def test_a_folder_of_another_study_is_refused(tmp_path: Path, bench: Bench) -> None:
    sweep_of(bench, write(tmp_path))
    with pytest.raises(StudyError, match="holds the study tiny, not other"):
        sweep_of(bench, write(tmp_path, ('name = "tiny"', 'name = "other"')))


def test_what_cannot_run_is_refused_before_anything_is_made(tmp_path: Path, bench: Bench) -> None:
    study = write(tmp_path, ("[fixed]", '[fixed]\ngenerator = "memcaslap"'))
    with pytest.raises(TestbedError, match="memcaslap asks one target, and there are 3"):
        sweep_of(bench, study)
    assert not (tmp_path / "sweep").exists()


def test_runs_of_two_machines_become_one_sweep(tmp_path: Path, bench: Bench) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    one, two, other = (write(tmp_path / name) for name in ("a", "b", "c"))
    sweep_of(bench, one, Wanted(only="*-C1-*"))
    sweep_of(bench, two)
    assert len(gather_runs(tmp_path / "a" / "sweep", [tmp_path / "b" / "sweep"])) == 6
    assert gather_runs(tmp_path / "a" / "sweep", [tmp_path / "b" / "sweep"]) == []
    assert sweep_of(bench, one).made == 0
    other.write_text(other.read_text().replace('name = "tiny"', 'name = "else"'))
    (tmp_path / "c" / "sweep").mkdir()
    (tmp_path / "c" / "sweep" / "study.toml").write_text(other.read_text())
    (tmp_path / "c" / "sweep" / "sweep.json").write_text(
        json.dumps({"schema": "weir.sweep/1", "executables": EXECUTABLES, "command": []})
    )
    with pytest.raises(RecordError, match="holds the study else, not tiny"):
        gather_runs(tmp_path / "a" / "sweep", [tmp_path / "c" / "sweep"])


def test_a_write_that_was_cut_short_leaves_nothing_behind(tmp_path: Path, bench: Bench) -> None:
    study = write(tmp_path)
    sweep_of(bench, study, Wanted(only="*-C1-*"))
    (tmp_path / "sweep" / "sweep.json.part").write_text("{")
    (tmp_path / "sweep" / "runs" / "tiny-C4-proxy-r1").mkdir()  # interrupted: it has no run.json
    assert sweep_of(bench, study).made == 6
    assert list((tmp_path / "sweep").glob("*.part")) == []
    assert "tiny-C4-proxy-r1-try2" in bench.made


@pytest.mark.parametrize(
    ("change", "cut", "valid", "words"),
    [
        ("", Cut(5, stationary=True), True, ""),
        ('kind = "trace"', Cut(0, stationary=True), True, ""),
        ('kind = "trace"', Cut(5, stationary=True), True, "MSER-5 would leave out the first 5 s"),
        ('kind = "trace"', Cut(30, stationary=False), True, "not steady"),
        ('cut = "mser-5"', Cut(1, stationary=True), True, "the first 1 s are left out (MSER-5)"),
        ('cut = "mser-5"', Cut(1, stationary=False), False, "no steady state"),
    ],
)
def test_what_a_rule_says_about_the_steady_state_is_reported(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, change: str, cut: Cut, valid: bool, words: str
) -> None:
    monkeypatch.setattr(attempts_module, "find_cut", lambda _load: cut)
    at = "[plan]" if change.startswith("cut") else 'name = "tiny"'
    study = write(tmp_path, (at, f"{at}\n{change}"), ("attempts = 2", "attempts = 1"))
    bench.judged = False
    if valid:
        sweep_of(bench, study)
    else:
        with pytest.raises(TestbedError, match="3 runs in a row"):
            sweep_of(bench, study)
    metas = [meta for _, meta in read_run_metas(tmp_path / "sweep")]
    assert all(meta.verdict.valid == valid for meta in metas)
    said = [" ".join([*meta.verdict.reasons, *meta.verdict.flags]) for meta in metas]
    assert all((words in text) if words else ("MSER" not in text) for text in said), said
    assert all(meta.cut_windows == (cut.windows if change.startswith("cut") else 0) for meta in metas)
