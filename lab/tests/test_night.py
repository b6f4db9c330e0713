"""The pace night: a first block, then runs where they tell most; busy runs tried again; killed and taken up again. Runs are made up."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic import EXECUTABLES, SECOND, STUDY_TEXT, World, write_measurements
from test_sweep import PROGRAMS
from test_unloaded import Silent
from weir_lab.bench.machine.processes import others_ns
from weir_lab.bench.network import Facility, Kernel
from weir_lab.bench.running import Job, RunOutcome
from weir_lab.bench.running import attempts as attempts_module
from weir_lab.bench.sweep import run as run_module
from weir_lab.bench.sweep import whole_night as whole_module
from weir_lab.bench.sweep.night import Clock, Speeds, aims_of
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.sweep.sets import plan_parts, take_files
from weir_lab.bench.sweep.whole_night import Standing, whole_night
from weir_lab.cli import app
from weir_lab.cli import whole_studies as whole_studies_module
from weir_lab.design import cells_of, load_study
from weir_lab.errors import StudyError
from weir_lab.records import RunMeta, read_run_metas
from weir_lab.records.progress import CellProgress, RunValues
from weir_lab.records.sharing.gathering import gather_runs
from weir_lab.report.numbers.readings import read_cells

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.bench.running import Executables
    from weir_lab.bench.testbeds import Testbed
    from weir_lab.design import Study
    from weir_lab.records.formats import LoadRecord

GRID = (
    STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")]
    .replace("[1, 4, 16]", "[1, 2, 4, 8]")
    .replace("measured_s = 2.0", "measured_s = 60.0")
)
SET = """
schema = "weir.set/1"
name = "pair"
title = "Two sweeps"
about = "Two sweeps"
engine = "event"
[[sections]]
name = "curve"
title = "Curve"
kind = "clients"
files = ["tiny.toml"]
[[sections]]
name = "copies"
title = "Copies"
kind = "replication"
files = ["copies.toml"]
"""


@dataclass
class Machine:
    """Stands in for the testbed. ``spread`` is that of runs; ``others`` and ``yardstick`` are what the next runs see of the machine."""

    spread: float = 0.015
    asked: list[tuple[str, float]] = field(default_factory=list)
    others: Callable[[int], float] = lambda _number: 0.02
    yardstick: Callable[[int], float] = lambda _number: 250_000.0
    slow: Callable[[int], float] = lambda _number: 1.0
    dies_at: int | None = None

    def make_run(self, _testbed: Testbed, folder: Path, _programs: Executables, job: Job) -> RunOutcome:
        number = len(self.asked)
        if number == self.dies_at:
            raise KeyboardInterrupt
        self.asked.append((folder.name, job.plan.measured_s))
        base = {path: 20.0 * ns for path, ns in World().service_ns.items()}
        world = replace(
            World(run_spread=self.spread), service_ns={path: ns * self.slow(number) for path, ns in base.items()}
        )
        write_measurements(folder, job.settings, np.random.default_rng([number, job.seed]), world)
        cpu = json.loads((folder / "cpu.json").read_text())
        cpu |= {"others_ns": int(self.others(number) * 2 * SECOND * 8), "yardstick_ns": {"0": self.yardstick(number)}}
        (folder / "cpu.json").write_text(json.dumps(cpu))
        return RunOutcome([], [])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(attempts_module, "make_run", made.make_run)
    monkeypatch.setattr(run_module, "abilities_of", lambda _weir: None)
    monkeypatch.setattr(run_module, "identify_programs", lambda *_programs: EXECUTABLES)
    monkeypatch.setattr(attempts_module, "executable_version", lambda _argv: "weir 0.1.0")
    return made


def one_study(folder: Path, text: str = GRID) -> Path:
    file = folder / "given.toml"
    file.write_text(text)
    return file


def night_of(study: Path) -> Path:
    sweep = study.parent / "sweep"
    run_study(study, sweep, PROGRAMS, ["test"], Silent(), Wanted(pace="night"))
    return sweep


def metas(sweep: Path) -> list[RunMeta]:
    return sorted((meta for _, meta in read_run_metas(sweep)), key=lambda meta: meta.position)


def counts(sweep: Path) -> Counter[str]:
    return Counter(meta.cell for meta in metas(sweep) if meta.verdict.valid)


def test_all_cells_are_in_the_first_block_and_headline_cells_get_more_and_longer_runs(
    tmp_path: Path, machine: Machine
) -> None:
    sweep = night_of(one_study(tmp_path))
    study = load_study(sweep / "study.toml")
    names = [meta.cell for meta in metas(sweep)]
    assert len(set(names[:8])) == 8
    assert {meta.repetition for meta in metas(sweep)[:8]} == {1}
    found = counts(sweep)
    # Throughput saturates at 4 clients: the maximum is at 4 or 8, and 1 client is never beside it.
    assert min(found.values()) >= 3
    assert study.plan.night is not None
    assert (study.plan.measured_s, study.plan.night.headline_s) == (5.0, 10.0)
    long = Counter(meta.cell for meta in metas(sweep) if meta.measured_s == 10.0)
    for path in ("direct", "proxy"):
        assert long[f"tiny-C1-{path}"] == 0
        assert max(long[f"tiny-C{clients}-{path}"] for clients in (4, 8)) >= 5
    assert {seconds for _, seconds in machine.asked} == {5.0, 10.0}


def progress_of(study: Study, throughput: dict[int, float]) -> list[CellProgress]:
    """Two runs of each cell; both paths the same."""
    load = cast("LoadRecord", None)
    found = []
    for cell in cells_of(study):
        rate = throughput[cell.settings.clients]
        values = {number: RunValues(rate * (1.0 + 0.001 * number), 1e9 / rate, load) for number in (1, 2)}
        found.append(CellProgress(cell, dict(values)))
    return found


@pytest.mark.parametrize(
    ("throughput", "named"),
    [
        # The largest mean is far above in clients, by chance: what decides is where the plateau begins.
        ({1: 40.0, 2: 97.0, 4: 100.0, 8: 101.0}, {1, 2, 4, 8}),
        ({1: 97.0, 2: 98.0, 4: 99.0, 8: 101.0}, {1, 2, 8}),
        ({1: 50.0, 2: 60.0, 4: 70.0, 8: 101.0}, {4, 8}),
        ({1: 97.0, 2: 101.0, 4: 96.0, 8: 95.9}, {1, 2}),
    ],
)
def test_headline_cells_of_a_curve_are_those_that_decide_where_its_maximum_begins(
    tmp_path: Path, throughput: dict[int, float], named: set[int]
) -> None:
    study = load_study(one_study(tmp_path), "night")
    assert study.plan.night is not None
    cells = progress_of(study, throughput)
    aims = aims_of(study, cells, headline=False)
    of_name = {cell.cell.name: cell.cell.settings.clients for cell in cells}
    assert {of_name[name] for name, aim in aims.items() if aim.half_width == study.plan.night.half_width} == named


def test_no_cell_lacks_anything_at_the_end_and_the_report_sees_all_runs(tmp_path: Path, machine: Machine) -> None:
    sweep = night_of(one_study(tmp_path))
    made = len(machine.asked)
    assert night_of(one_study(tmp_path)) == sweep
    assert len(machine.asked) == made, "a finished night makes no further run"
    assert len(read_cells("given.toml", sweep).run_names) == made == sum(counts(sweep).values())


def test_a_wider_spread_costs_more_runs(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "narrow").mkdir()
    (tmp_path / "wide").mkdir()
    night_of(one_study(tmp_path / "narrow"))
    few = len(machine.asked)
    machine.spread = 0.08
    night_of(one_study(tmp_path / "wide", GRID.replace("attempts = 2", "attempts = 2\nbudget_s = 100000")))
    assert len(machine.asked) - few > 1.3 * few


def test_a_killed_night_goes_on_and_loses_the_run_under_way_alone(tmp_path: Path, machine: Machine) -> None:
    machine.dies_at = 6
    with pytest.raises(KeyboardInterrupt):
        night_of(one_study(tmp_path))
    kept = {folder.name for folder, meta in read_run_metas(tmp_path / "sweep") if meta.verdict.valid}
    assert len(kept) == 6
    machine.dies_at = None
    sweep = night_of(one_study(tmp_path))
    there = {folder.name for folder, meta in read_run_metas(sweep) if meta.verdict.valid}
    assert kept < there
    # What was missing of the first block stands in a new one, beside two cells that have runs: blocks hours apart are connected.
    second = [meta.cell for meta in metas(sweep) if meta.repetition == 2]
    assert len(second) == 4
    assert sum(any(name.startswith(f"{cell}-r1") for name in kept) for cell in second) == 2
    assert min(counts(sweep).values()) >= 3


def test_a_run_beside_a_busy_machine_is_invalid_and_tried_again(tmp_path: Path, machine: Machine) -> None:
    machine.others = lambda number: 0.11 if number in (3, 4, 12) else 0.09
    sweep = night_of(one_study(tmp_path))
    busy = [meta for meta in metas(sweep) if meta.verdict.busy]
    assert len(busy) == 3
    assert all("% of the machine's CPU time went elsewhere" in meta.verdict.reasons[0] for meta in busy)
    assert all(not meta.verdict.valid for meta in busy)
    assert read_cells("given.toml", sweep).dropped == 3
    assert min(counts(sweep).values()) >= 3


def test_what_is_busy_is_said_by_the_yardstick_and_never_by_throughput(tmp_path: Path, machine: Machine) -> None:
    machine.slow = lambda number: 1.1 if number == 12 else 1.0
    machine.yardstick = lambda number: (
        250_000.0 * (1.16 if number == 14 else 0.84 if number == 16 else 1.14 if number == 18 else 1.0)
    )
    sweep = night_of(one_study(tmp_path))
    by_name = {folder.name: meta for folder, meta in read_run_metas(sweep)}
    verdicts = {number: by_name[name].verdict for number, (name, _) in enumerate(machine.asked)}
    assert verdicts[12].valid, "a slow system is no busy machine"
    assert [number for number, verdict in verdicts.items() if not verdict.valid] == [14, 16]
    assert all(verdicts[number].busy for number in (14, 16))
    assert re.fullmatch(r"the yardstick took \+16 % of .*", verdicts[14].reasons[0])


def test_the_time_ends_the_night_before_a_run_that_would_end_behind_it(tmp_path: Path, machine: Machine) -> None:
    sweep = night_of(one_study(tmp_path, GRID.replace("attempts = 2", "attempts = 2\nbudget_s = 1.0")))
    assert machine.asked == []
    assert not list((sweep / "runs").iterdir())
    assert Clock(None).has(1e9)


def a_set(folder: Path) -> Path:
    (folder / "pair.set.toml").write_text(SET)
    (folder / "tiny.toml").write_text(GRID)
    copies = (
        GRID.replace('name = "tiny"', 'name = "copies"')
        .replace("clients = [1, 2, 4, 8]", "replicas = [1, 3]")
        .replace("depth = 1", "depth = 1\nclients = 2")
    )
    (folder / "copies.toml").write_text(copies.replace('["direct", "proxy"]', '["proxy"]'))
    return folder / "pair.set.toml"


def test_a_whole_night_begins_everything_and_then_goes_where_the_need_is(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_module, "_TURN_S", 0.0)
    root, said = tmp_path / "root", list[str]()
    study_set = take_files(a_set(tmp_path), root)
    parts = plan_parts(study_set, root, "night")
    machine.others = lambda number: 0.2 if number == 2 else 0.0
    progress = whole_night(
        parts, root, PROGRAMS, Wanted(pace="night"), Silent(), headline=["copies.toml"], say=said.append
    )
    assert (progress.made, progress.left, progress.refused) == (("tiny", "copies"), (), {})
    firsts = [name for name, _ in machine.asked[:11] if not name.endswith("-try2")]
    assert len({name.rsplit("-r", 1)[0] for name in firsts}) == 10, "every cell has a run before any has two"
    assert min(counts(root / "copies").values()) >= 5
    assert said[-1] == "1 attempts of this night were dropped for a busy machine, 1 in all"
    assert any(
        re.search(r"in all \d+ of 10 cells within their aim, about .+ to come; no end given", line) for line in said
    )


def test_sweeps_of_which_nothing_is_known_share_the_night() -> None:
    def standing(within: int, lack: float, *, known: bool, filled: int = 10) -> Standing:
        return Standing(f"{within} of 10", 10, 10, filled, within, "cell", lack, 5, 60.0, known=known)

    little, much = standing(2, 3.0, known=False), standing(8, 9.0, known=False)
    done, wide = standing(10, 0.0, known=True), standing(1, 4.0, known=True)
    # Cells that lack their least number of runs come before any that are known to be far off.
    bare, begun = standing(0, 2.0, known=True, filled=1), standing(0, 9.0, known=False, filled=6)
    turns = sorted([done, much, begun, wide, little, bare], key=lambda one: one.urgency, reverse=True)
    assert turns == [bare, begun, little, much, wide, done]
    # One residual says nothing of a spread: 12,000 runs to come were once printed for such a sweep.
    assert "times the half-width" not in little.line()
    assert little.line().endswith("or more")
    assert "4.0 times" in wide.line()


@pytest.mark.usefixtures("machine")
def test_the_forecast_tells_what_is_to_come_and_writes_nothing(tmp_path: Path) -> None:
    a_set(tmp_path)
    root = tmp_path / "root"
    asked = ["study", "pair", "--pace", "night", "--list", "--studies", str(tmp_path), "--out", str(root)]
    before = CliRunner().invoke(app, asked)
    assert before.exit_code == 0, before.output
    assert not root.exists()
    lines = before.output.splitlines()
    # 8 cells of 3 runs, of which 2 x 3 are to be a maximum or beside it with 5 long runs; 2 headline cells of 5.
    assert re.fullmatch(r"tiny +0 of 8 cells begun, 0 within their aim; about 42 runs, \d+ min or more", lines[0])
    assert re.fullmatch(r"copies +0 of 2 cells begun, 0 within their aim; about 10 runs, \d+ (s|min) or more", lines[1])
    assert re.fullmatch(
        r"0 of 10 cells within their aim; about .+ or more to come, anchors and retries apart", lines[2]
    )
    parts = plan_parts(take_files(tmp_path / "pair.set.toml", root), root, "night")
    whole_night(parts, root, PROGRAMS, Wanted(pace="night"), Silent(), headline=["copies.toml"], minutes=3.0)
    kept = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    after = CliRunner().invoke(app, asked).output.splitlines()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == kept
    assert re.fullmatch(r"tiny +8 of 8 cells begun, \d+ within their aim.*", after[0]), after
    assert after[-1].startswith("10 of 10 cells within their aim"), after


@pytest.mark.usefixtures("machine")
def test_lanes_of_one_machine_make_blocks_of_their_own_that_lie_in_one_folder_later(tmp_path: Path) -> None:
    machine_of_lanes(tmp_path, [1, 2, 3])
    sweep = tmp_path / "lane-1" / "tiny"
    made = [tmp_path / f"lane-{lane}" / "tiny" for lane in (2, 3)]
    before = counts(sweep)
    assert set(before) == set(counts(made[0])), "each lane began with every cell"
    orders = [[one.cell for one in metas(folder)][:8] for folder in (sweep, *made)]
    assert len(set(map(tuple, orders))) == 3, "each in an order of its own"
    gather_runs(sweep, made)
    assert {meta.repetition // 1000 for meta in metas(sweep)} == {1, 2, 3}
    assert len({meta.position for meta in metas(sweep)}) == len(metas(sweep))
    folders = {folder.name for folder, _ in read_run_metas(sweep)}
    assert len(folders) == len(metas(sweep)), "no name was taken twice"
    assert not any("-from" in name for name in folders)
    parts = plan_parts(take_files(tmp_path / "pair.set.toml", tmp_path / "lane-1"), tmp_path / "lane-1", "night")
    whole_night(parts[:1], tmp_path / "lane-1", PROGRAMS, Wanted(pace="night"), Silent())
    assert counts(sweep) == before + counts(made[0]) + counts(made[1]), "all are taken up, and none is made again"


def machine_of_lanes(folder: Path, lanes: list[int]) -> None:
    """Twelve minutes of each lane, in folders of their own."""
    for lane in lanes:
        root = folder / f"lane-{lane}"
        parts = plan_parts(take_files(a_set(folder), root), root, "night")
        whole_night(parts[:1], root, PROGRAMS, Wanted(pace="night", lane=lane), Silent(), minutes=12.0)


@pytest.mark.usefixtures("machine")
def test_at_night_cells_can_be_chosen(tmp_path: Path) -> None:
    root = tmp_path / "root"
    parts = plan_parts(take_files(a_set(tmp_path), root), root, "night")
    whole_night(parts[:1], root, PROGRAMS, Wanted(pace="night", only="path == 'proxy'"), Silent())
    assert len(counts(root / "tiny")) == 4
    assert all("proxy" in cell.lower() or "P" in cell for cell in counts(root / "tiny"))


def test_on_another_machine_another_speed_is_usual(tmp_path: Path, machine: Machine) -> None:
    """A study that went on on a machine 20 % faster had every run dropped as unusual."""
    sweep = night_of(one_study(tmp_path))
    known = Speeds()
    known.read(sweep)
    assert known.usual_ns == pytest.approx(250_000.0)
    elsewhere = Speeds(_machine={**known._machine, "memory_mib": 1})
    elsewhere.read(sweep)
    assert elsewhere.usual_ns is None
    assert machine.asked


def test_a_night_without_delays_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_set(tmp_path)
    monkeypatch.setattr(whole_studies_module, "find_delay_device", lambda: None)
    late = Facility("real time", needed=False, there=False, words="no real-time priority (refused)")
    monkeypatch.setattr(whole_studies_module, "probe", lambda: Kernel([late]))
    root = tmp_path / "root"
    asked = ["study", "pair", "--pace", "night", "--testbed", "netns", "--studies", str(tmp_path), "--out", str(root)]
    refused = CliRunner().invoke(app, asked)
    assert isinstance(refused.exception, StudyError)
    assert "Links would have no latency" in str(refused.exception)
    assert "Careful: no real-time priority" in refused.output
    assert not root.exists()
    assert CliRunner().invoke(app, [*asked, "--list"]).exit_code == 0


def test_others_are_seen_but_not_the_roles_the_kernel_or_this_process_children() -> None:
    """Read twice, what others used only grows; a process that is ours is not in it."""
    everyone, without = others_ns(set()), others_ns({os.getpid()})
    assert 0 < without <= everyone
    assert others_ns(set()) >= without
