"""Nights on machines that become faster, stay busy, or run out of time; and blocks of several labs in one folder. Runs are made up."""

from __future__ import annotations

import itertools
import json
import time
from functools import partialmethod
from typing import TYPE_CHECKING

import pytest

from synthetic import EXECUTABLES
from test_night import GRID, Machine, a_set, counts, machine, machine_of_lanes, metas, night_of, one_study
from test_sweep import PROGRAMS
from test_unloaded import Silent
from weir_lab.bench.sweep import night as night_module
from weir_lab.bench.sweep import whole_night as whole_module
from weir_lab.bench.sweep.at_work import SweepAtWork
from weir_lab.bench.sweep.night import BusyMachineError, Clock, Speeds
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.sweep.sets import plan_parts, take_files
from weir_lab.bench.sweep.whole_night import forecast, whole_night
from weir_lab.design import load_study
from weir_lab.errors import StudyError
from weir_lab.records import Verdict, read_run_metas
from weir_lab.records.sharing.gathering import gather_runs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["machine"]  # the fixture

VALID = Verdict(valid=True, reasons=[], flags=[])
BUSY = Verdict(valid=False, reasons=["the machine was not as usual"], flags=[], busy=True)


def attempt(folder: Path, yardstick_ns: float) -> Path:
    """A folder with nothing in it but what the yardstick took."""
    folder.mkdir(parents=True)
    cpu = {"start_unix_ns": 1, "interval_ns": 1, "roles": {}, "cores": 1, "busy_ns": 0, "schema": "weir.cpu/1"}
    (folder / "cpu.json").write_text(json.dumps({**cpu, "yardstick_ns": {"0": yardstick_ns}}))
    return folder


def test_a_machine_that_became_faster_for_good_is_soon_the_usual_one(tmp_path: Path) -> None:
    """The median was that of all attempts ever: after 400 of them hours of runs were dropped before it moved."""
    speeds = Speeds()
    for number in range(400):
        speeds.heard(VALID, attempt(tmp_path / f"before-{number}", 1.0))
    assert speeds.usual_ns == 1.0
    for number in range(26):
        speeds.heard(BUSY, attempt(tmp_path / f"after-{number}", 1.2))
    assert speeds.usual_ns == 1.2
    assert (speeds.dropped, speeds.busy_in_a_row) == (26, 26)


def test_a_cell_that_slows_the_yardstick_itself_is_held_against_its_own(tmp_path: Path) -> None:
    """Twelve attempts of the fullest of sixteen cells were 16 to 31 % off the median of all, and none was valid."""
    speeds, full = Speeds(), tmp_path / "full"
    for number in range(60):
        slow = number % 12 == 11
        cell = full if slow else tmp_path / f"light-{number % 12}"
        # The machine becomes faster on the way, and the full cell with it.
        took = (1.25 if slow else 1.0) * (1.0 if number < 30 else 0.5)
        if number == 40:
            # Three attempts tell nothing of the cell yet.
            assert speeds.usual_of(full) == speeds.usual_ns
        speeds.heard(BUSY if slow else VALID, attempt(tmp_path / f"a-{number}", took), cell)
    assert speeds.usual_ns == 0.5
    assert speeds.usual_of(full) == pytest.approx(0.5 * 1.25)
    assert speeds.usual_of(tmp_path / "light-3") == pytest.approx(0.5)
    assert speeds.usual_of(tmp_path / "new") == 0.5


def test_a_night_goes_on_only_on_the_processor_that_it_was_begun_on(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one yardstick the kernel took twice the CPU time for a request there, and writes at light load were 2 to 4 % fewer."""
    root = tmp_path / "root"
    parts = plan_parts(take_files(a_set(tmp_path), root), root, "night")
    whole_night(parts[:1], root, PROGRAMS, Wanted(pace="night", only="path == 'proxy'"), Silent())
    before, asked = counts(root / "tiny"), len(machine.asked)
    for module in (night_module, whole_module):
        monkeypatch.setattr(module, "machine_facts", lambda: {"cpu_model": "Another One", "cores": 2})
    monkeypatch.setattr(Speeds, "__init__", partialmethod(Speeds.__init__, _machine={"cpu_model": "Another One"}))
    with pytest.raises(StudyError, match=rf"holds {sum(before.values())} runs of .+ processor is Another One.+--any-"):
        whole_night(parts[:1], root, PROGRAMS, Wanted(pace="night"), Silent(), minutes=3.0)
    assert (counts(root / "tiny"), len(machine.asked)) == (before, asked), "nothing was made"
    listed = forecast(tmp_path / "pair.set.toml", root)
    assert listed[-1].startswith(f"The folder holds {sum(before.values())} runs of ")
    assert listed[-1].endswith(" is Another One. Where roles run on it, a night goes on with --any-processor only.")
    # A sweep without runs is begun here, and who asks for it mixes them.
    whole_night(parts[1:], root, PROGRAMS, Wanted(pace="night"), Silent(), minutes=3.0)
    assert counts(root / "copies")
    whole_night(parts[:1], root, PROGRAMS, Wanted(pace="night", any_processor=True), Silent(), minutes=3.0)
    assert sum(counts(root / "tiny").values()) > sum(before.values())


def test_what_was_usual_last_is_read_by_time_and_not_by_the_names_of_folders(tmp_path: Path, machine: Machine) -> None:
    machine.yardstick = lambda number: 250_000.0 if number < 20 else 255_000.0
    sweep = night_of(one_study(tmp_path))
    by_time = sorted(read_run_metas(sweep), key=lambda pair: pair[1].started_unix_ns)
    read = Speeds()
    read.read(sweep)
    known = [json.loads((folder / "cpu.json").read_text())["yardstick_ns"]["0"] for folder, _ in by_time]
    assert [slowness for _, slowness, _ in read._known] == known


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    made: list[float] = []
    monkeypatch.setattr("weir_lab.bench.sweep.night.sleep", made.append)
    return made


def test_a_machine_that_stays_busy_ends_a_night_without_an_end(
    tmp_path: Path, machine: Machine, pauses: list[float]
) -> None:
    """It went on for ever, with two folders a run."""
    machine.others = lambda _number: 0.9
    with pytest.raises(BusyMachineError, match="the machine was busy in 40 attempts in a row"):
        night_of(one_study(tmp_path))
    assert len(machine.asked) == 40
    assert pauses[:5] == [2.0, 4.0, 8.0, 15.0, 15.0]
    assert len(pauses) == 37


def test_a_busy_machine_ends_a_whole_night_with_what_is_left(
    tmp_path: Path, machine: Machine, pauses: list[float]
) -> None:
    root, said = tmp_path / "root", list[str]()
    parts = plan_parts(take_files(a_set(tmp_path), root), root, "night")
    machine.others = lambda number: 0.0 if number < 4 else 0.9
    progress = whole_night(parts, root, PROGRAMS, Wanted(pace="night"), Silent(), say=said.append)
    assert (progress.left, progress.refused, progress.lacking) == (("tiny", "copies"), {}, ())
    ends = [line for line in said if line.startswith("This night ends: ")]
    assert len(ends) == 1
    assert "the machine was busy in 40 attempts in a row" in ends[0]
    assert sum(counts(root / "tiny").values()) == 4
    assert pauses


def test_a_short_time_of_others_neither_ends_a_night_nor_is_waited_for(
    tmp_path: Path, machine: Machine, pauses: list[float]
) -> None:
    machine.others = lambda number: 0.9 if number in (3, 4, 12) else 0.0
    assert min(counts(night_of(one_study(tmp_path))).values()) >= 3
    assert pauses == []


def test_another_attempt_begins_only_if_its_time_is_left(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was asked once a run: the last one took all of its attempts."""
    machine.others = lambda number: 0.9 if number == 2 else 0.0
    asked = itertools.count(1)
    # Time is up when the second attempt of the third run would begin.
    monkeypatch.setattr(Clock, "has", lambda _self, _seconds: next(asked) <= 3)
    sweep = night_of(one_study(tmp_path))
    assert len(machine.asked) == 3
    assert sum(counts(sweep).values()) == 2


def test_a_change_of_what_is_usual_is_reported(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_module, "_TURN_S", 0.0)
    monkeypatch.setattr(night_module, "_USUAL_MAX", 11)
    machine.yardstick = lambda number: 250_000.0 if number < 25 else 225_000.0
    root, said = tmp_path / "root", list[str]()
    parts = plan_parts(take_files(a_set(tmp_path), root), root, "night")
    whole_night(parts, root, PROGRAMS, Wanted(pace="night"), Silent(), say=said.append)
    changed = [line for line in said if line.startswith("this machine is ")]
    assert changed == [
        "this machine is faster than it was: its yardstick takes 10 % shorter, and that is what is usual now"
    ]


@pytest.mark.usefixtures("machine")
def test_a_lab_without_a_lane_goes_on_behind_its_own_blocks(tmp_path: Path) -> None:
    """Behind those of lane 4 it made blocks of lane 4, which that lane made, too: one block at two times."""
    machine_of_lanes(tmp_path, [0, 4])
    sweep = tmp_path / "lane-0" / "tiny"
    own = max(meta.repetition for meta in metas(sweep))
    others = max(meta.repetition for meta in metas(tmp_path / "lane-4" / "tiny"))
    gather_runs(sweep, [tmp_path / "lane-4" / "tiny"])
    study = load_study(sweep / "study.toml")
    assert own < 1000 < 4000 < others
    for lane, last in ((0, own), (4, others), (7, 7000)):
        work = SweepAtWork(study, sweep, EXECUTABLES, Silent(), None, lane=lane)
        (run,) = work.new_block([(work.cells[0].cell, None)])
        assert run.repetition == last + 1
    (run,) = SweepAtWork(study, sweep, EXECUTABLES, Silent(), None).new_block([(work.cells[0].cell, None)])
    assert run.position < 1_000_000


@pytest.mark.usefixtures("machine")
def test_a_lane_that_has_all_its_blocks_does_not_go_on_in_the_next(tmp_path: Path) -> None:
    sweep = night_of(one_study(tmp_path, GRID.replace("clients = [1, 2, 4, 8]", "clients = [1, 2]")))
    for file in sweep.glob("runs/*-r2/run.json"):
        file.write_text(file.read_text().replace('"repetition": 2', '"repetition": 999'))
    work = SweepAtWork(load_study(sweep / "study.toml"), sweep, EXECUTABLES, Silent(), None)
    with pytest.raises(StudyError, match="all 999 blocks of lane 0 are made"):
        work.new_block([(work.cells[0].cell, None)])


@pytest.mark.usefixtures("machine")
def test_of_two_runs_of_one_content_the_first_counts_everywhere(tmp_path: Path) -> None:
    """A night counted the last by name, and its report the first by time."""
    sweep = night_of(one_study(tmp_path))
    first = min((sweep / "runs").iterdir(), key=lambda folder: folder.name)
    later = first.with_name(f"{first.name}-try9")
    later.mkdir()
    for file in first.iterdir():
        text = file.read_text()
        if file.name == "run.json":
            meta = json.loads(text)
            meta["started_unix_ns"] += time.time_ns()
            text = json.dumps({**meta, "position": 999})
        (later / file.name).write_text(text)
    work = SweepAtWork(load_study(sweep / "study.toml"), sweep, EXECUTABLES, Silent(), None)
    positions = [value.position for cell in work.cells for value in cell.values.values() if value is not None]
    assert 999 not in positions
    made = len(read_run_metas(sweep))
    run_study(sweep / "study.toml", sweep, PROGRAMS, ["test"], Silent())
    assert len(read_run_metas(sweep)) == made
