"""Calls of `weir-lab study`: their status, the folder that one has for itself, damaged records, and options that leave nothing."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from test_night import Machine, a_set, counts, machine
from test_sweep import PROGRAMS
from test_unloaded import Silent
from weir_lab.bench.sweep import run as run_module
from weir_lab.bench.sweep import sets as sets_module
from weir_lab.bench.sweep import whole_night as whole_module
from weir_lab.bench.sweep.locks import LockedError
from weir_lab.bench.sweep.run import SweepOutcome, Wanted, run_study
from weir_lab.bench.sweep.sets import plan_parts, read_reasons, run_parts, take_files
from weir_lab.bench.sweep.whole_night import whole_night
from weir_lab.cli import app
from weir_lab.errors import RecordError, StoppedError, StudyError, TestbedError
from weir_lab.records import read_run_metas, read_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from weir_lab.bench.sweep.sets import Part

__all__ = ["machine"]  # the fixture


def asked(folder: Path, *options: str, pace: str = "night") -> Result:
    """`weir-lab study pair` with its runs in ``root``; without a report, for which these sweeps have too little."""
    a_set(folder)
    words = ["study", "pair", "--pace", pace, "--studies", str(folder), "--out", str(folder / "root")]
    return CliRunner().invoke(app, [*words, "--bin", "weir", *options])


def parts_of(folder: Path, pace: str = "night") -> list[Part]:
    root = folder / "root"
    return plan_parts(take_files(a_set(folder), root), root, pace)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """As another weir-lab holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("pace", ["quick", "night"])
def test_a_study_with_all_of_its_runs_ends_with_status_0(tmp_path: Path, pace: str) -> None:
    done = asked(tmp_path, "--runs-only", pace=pace)
    assert done.exit_code == 0, done.output
    assert asked(tmp_path, "--runs-only", pace=pace).exit_code == 0


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("pace", ["quick", "night"])
def test_a_sweep_that_cannot_run_here_is_missing(tmp_path: Path, pace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no testbed could be used, no run was made, and the status was 0."""

    def refused(*_: object) -> None:
        raise TestbedError("no network namespaces here. Try another testbed.")

    monkeypatch.setattr(run_module, "open_testbed", refused)
    done = asked(tmp_path, "--runs-only", pace=pace)
    assert done.exit_code == 3, done.output
    assert "Without all of their runs, for the reasons above: tiny, copies." in done.output
    assert read_reasons(tmp_path / "root") == dict.fromkeys(("tiny.toml", "copies.toml"), "no network namespaces here")


@pytest.mark.parametrize(
    "came",
    [{"given_up": ["tiny-C1-direct-r1"], "out_of_budget": False}, {"given_up": [], "out_of_budget": True}],
    ids=["without a valid attempt", "budget"],
)
def test_runs_that_are_missing_for_good_are_missing(
    tmp_path: Path, came: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`weir-lab run` says so with its status; `study` did not look."""

    def made(_path: Path, folder: Path, *_: object) -> SweepOutcome:
        return SweepOutcome(folder, 1, 0, not_converged=[], **came)

    monkeypatch.setattr(sets_module, "run_study", made)
    progress = run_parts(parts_of(tmp_path, "quick"), tmp_path / "root", PROGRAMS, Wanted("quick"), Silent())
    assert (progress.made, progress.lacking) == (("tiny", "copies"), ("tiny", "copies"))
    assert asked(tmp_path, "--runs-only", pace="quick").exit_code == 3


@pytest.mark.parametrize("pace", ["quick", "night"])
def test_a_second_study_in_the_same_folder_is_refused(tmp_path: Path, machine: Machine, pace: str) -> None:
    """Both counted blocks by what they read at their beginning, and wrote the other's reasons over."""
    with held(tmp_path / "root"):
        done = asked(tmp_path, "--runs-only", pace=pace)
        assert isinstance(done.exception, LockedError)
        assert f"{tmp_path}/root: another weir-lab runs in this folder" in str(done.exception)
        assert [path.name for path in (tmp_path / "root").iterdir()] == [".lock"]
        assert asked(tmp_path, "--list", pace=pace).exit_code == 0
    assert machine.asked == []
    assert asked(tmp_path, "--runs-only", pace=pace).exit_code == 0


@pytest.mark.parametrize("pace", ["quick", "night"])
def test_a_sweep_that_another_lab_holds_is_left_and_that_is_no_reason(
    tmp_path: Path, machine: Machine, pace: str
) -> None:
    """The report gave it as the reason why the section could not run on this machine."""
    parts, root = parts_of(tmp_path, pace), tmp_path / "root"
    with held(root / "tiny"):
        if pace == "night":
            progress = whole_night(parts, root, PROGRAMS, Wanted(pace), Silent())
        else:
            progress = run_parts(parts, root, PROGRAMS, Wanted(pace), Silent())
    assert (progress.made, progress.lacking, progress.refused) == (("copies",), ("tiny",), {})
    assert read_reasons(root) == {}
    assert machine.asked


def test_what_another_lab_made_between_two_turns_is_taken_up(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of a sweep were read once: the block that somebody made meanwhile was made again, an hour later."""
    monkeypatch.setattr(whole_module, "_TURN_S", 0.0)
    opened, openings = run_module.opened, list[str]()

    @contextmanager
    def opened_later(path: Path, folder: Path, *rest: Any) -> Iterator[Any]:
        openings.append(folder.name)
        if openings.count("tiny") == 2 and folder.name == "tiny":
            run_study(path, folder, PROGRAMS, ["another"], Silent(), Wanted("night"))
        with opened(path, folder, *rest) as found:
            yield found

    monkeypatch.setattr(whole_module, "opened", opened_later)
    root = tmp_path / "root"
    progress = whole_night(parts_of(tmp_path), root, PROGRAMS, Wanted("night"), Silent())
    assert progress.left == ()
    assert openings.count("tiny") >= 2
    valid = [meta.content_sha256 for _, meta in read_run_metas(root / "tiny") if meta.verdict.valid]
    assert len(valid) == len(set(valid)), "no run was made twice"
    assert machine.asked


@pytest.mark.parametrize("pace", ["quick", "night"])
@pytest.mark.parametrize(("file", "left"), [("run.json", 0), ("load.json", 100)])
def test_a_damaged_record_stops_its_sweep_and_no_other(
    tmp_path: Path, machine: Machine, pace: str, file: str, left: int
) -> None:
    """After a power failure one empty file ended the night of twenty sweeps."""
    root = tmp_path / "root"
    sweep = root / "tiny"
    run_study(
        parts_of(tmp_path, pace)[0].path, sweep, PROGRAMS, ["before"], Silent(), Wanted(pace, only="path == 'proxy'")
    )
    damaged = sorted((sweep / "runs").iterdir())[0]
    (damaged / file).write_bytes((damaged / file).read_bytes()[:left])
    machine.asked.clear()
    done = asked(tmp_path, "--runs-only", pace=pace)
    assert done.exit_code == 3, done.output
    said = " ".join(done.output.split())
    assert "tiny: passed over: " in said
    assert f"To have it made again, move {damaged} out of {damaged.parent}, and give the same command." in said
    assert counts(root / "copies")
    assert all(name.startswith("copies") for name, _ in machine.asked)
    assert read_reasons(root) == {}
    if file == "run.json" or pace == "night":
        listed = asked(tmp_path, "--list", pace=pace)
        assert listed.exit_code == 0, listed.output
        assert f"tiny             cannot be read: {damaged}" in listed.output
    # What the message says is what helps.
    damaged.rename(tmp_path / "away")
    assert asked(tmp_path, "--runs-only", pace=pace).exit_code == 0


@pytest.mark.usefixtures("machine")
def test_reading_a_damaged_run_names_the_folder_to_move(tmp_path: Path) -> None:
    sweep = tmp_path / "root" / "tiny"
    run_study(parts_of(tmp_path)[0].path, sweep, PROGRAMS, ["test"], Silent(), Wanted("night", only="path == 'proxy'"))
    folder = sorted((sweep / "runs").iterdir())[0]
    (folder / "run.json").write_text("")
    for read in (read_run_metas, read_runs):
        with pytest.raises(
            RecordError, match=rf"run\.json: .* move {folder} out of {folder.parent}, and give the same"
        ):
            read(sweep)


def test_an_only_that_means_no_cell_of_any_sweep_is_refused(tmp_path: Path, machine: Machine) -> None:
    """A typo made a night without runs, with status 0 and 0 of 0 cells within their aim."""
    for options in (["--runs-only"], ["--list"]):
        done = asked(tmp_path, "--only", "tiny-C3-*", *options)
        assert isinstance(done.exception, StudyError), done.output
        assert "'tiny-C3-*' means none of the cells. There are: tiny-C1-direct, " in str(done.exception)
    assert machine.asked == []


def test_a_sweep_without_such_cells_is_left_out_and_has_no_reason(tmp_path: Path, machine: Machine) -> None:
    done = asked(tmp_path, "--only", "copies-*", "--runs-only")
    root = tmp_path / "root"
    assert done.exit_code == 3, done.output
    assert "Not made yet: tiny." in done.output
    assert {name.split("-")[0] for name, _ in machine.asked} == {"copies"}
    assert not (root / "tiny").exists()
    assert read_reasons(root) == {}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("pace", "options"), [("quick", ["--part", "1"]), ("night", ["--only", "copies-*"])])
def test_a_list_lists_what_the_options_leave(tmp_path: Path, pace: str, options: list[str]) -> None:
    """It looked at none of them."""
    for word in ("--runs-only", "--list"):
        refused = asked(tmp_path, "--sweeps", "typo", word, pace=pace)
        assert isinstance(refused.exception, StudyError)
        assert "--sweeps: there is no typo here. There are: tiny, copies." in str(refused.exception)
    one = asked(tmp_path, "--sweeps", "copies", "--list", pace=pace)
    assert [line.split()[0] for line in one.output.splitlines()[:-1]] == ["copies"]
    some = asked(tmp_path, *options, "--list", pace=pace)
    assert some.exit_code == 0, some.output
    names = [line.split()[0] for line in some.output.splitlines()[:-1]]
    assert names == (["tiny", "copies"] if pace == "quick" else ["copies"])
    if pace == "night":
        assert some.output.splitlines()[-1].startswith("0 of 2 cells within their aim")
    else:
        too_far = asked(tmp_path, "--part", "9", "--list", pace=pace)
        assert isinstance(too_far.exception, StudyError)
        assert "--part 9: this study has parts 1 to " in str(too_far.exception)


@pytest.mark.parametrize("minutes", ["nan", "inf", "-5", "0"])
def test_minutes_in_which_nothing_can_be_done_are_refused(tmp_path: Path, machine: Machine, minutes: str) -> None:
    done = asked(tmp_path, "--minutes", minutes, "--runs-only")
    assert isinstance(done.exception, StudyError)
    assert "is no time to work in. Give more than 0" in str(done.exception)
    assert machine.asked == []


@pytest.mark.parametrize("pace", ["quick", "night"])
def test_an_interrupted_study_ends_as_other_commands_do(tmp_path: Path, machine: Machine, pace: str) -> None:
    """The library's status came without the sentence that all processes are stopped, and what to do."""
    machine.dies_at = 3
    assert isinstance(asked(tmp_path, "--runs-only", pace=pace).exception, StoppedError)
    assert len(machine.asked) == 3
    machine.dies_at = None
    assert asked(tmp_path, "--runs-only", pace=pace).exit_code == 0
    reasons = tmp_path / "root" / "reasons.json"
    assert json.loads(reasons.read_text()) == {}
