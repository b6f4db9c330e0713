"""A sweep that is killed again and again, at moments it does not choose, ends as one that was left alone."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from synthetic import STUDY_TEXT
from test_run import LAB, WEIR, needs_programs, processes_writing_into
from weir_lab.design import load_study, schedule
from weir_lab.records import read_runs

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("WEIR_LAB_KILLS", "6"))
_WAIT_S = 30.0
# Starting Python, making a run, and writing tables lie within this time on a quiet machine.
_LATEST_KILL_S = 2.5


def command(study: Path, sweep: Path) -> list[str]:
    return [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR)]


def write_study(folder: Path) -> Path:
    """Four cells, twice; so short that kills fall into every part of a run."""
    text = STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")]
    for old, new in (
        ("clients = [1, 4, 16]", "clients = [1, 2]"),
        ("repetitions = 3", "repetitions = 2"),
        ("servers = 3", "servers = 1"),
        ("warmup_s = 0.5", "warmup_s = 0.05"),
        ("measured_s = 2.0", "measured_s = 0.2"),
        ("attempts = 2", "attempts = 10"),
    ):
        assert old in text
        text = text.replace(old, new)
    file = folder / "study.toml"
    file.write_text(text)
    return file


def kill_at_random(argv: list[str], moments: random.Random) -> None:
    """Start the laboratory and kill it: a random time after its start, or after it has said something."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as lab:
        assert lab.stdout is not None
        if moments.random() < 0.7:  # starting takes long on a busy machine: most kills shall fall into the runs
            select.select([lab.stdout], [], [], _WAIT_S)
        select.select([], [], [], moments.uniform(0.0, _LATEST_KILL_S))
        lab.send_signal(signal.SIGKILL)


def require_gone(sweep: Path) -> None:
    """Nothing that the laboratory started is left."""
    deadline = time.monotonic() + _WAIT_S
    while processes_writing_into(sweep):
        assert time.monotonic() < deadline, processes_writing_into(sweep)
        time.sleep(0.01)


@needs_programs
def test_a_sweep_that_is_killed_at_any_moment_ends_as_one_that_was_not(tmp_path: Path) -> None:
    study, sweep = write_study(tmp_path), tmp_path / "sweep"
    moments = random.Random(20161118)
    before: dict[str, bytes] = {}
    for _ in range(KILLS):
        kill_at_random(command(study, sweep), moments)
        require_gone(sweep)
        now = {str(path): path.read_bytes() for path in sweep.glob("runs/*/run.json")}
        assert before.items() <= now.items(), "a finished run was changed"
        before = now

    done = subprocess.run(command(study, sweep), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, interrupted = read_runs(sweep)
    expected = sorted(run.name for run in schedule(load_study(study)))
    assert sorted(f"{run.meta.cell}-r{run.meta.repetition}" for run in runs if run.meta.verdict.valid) == expected
    assert all(not (folder / "run.json").exists() for folder in interrupted)

    # Another run of the same command makes nothing, and its tables are the same to the byte.
    tables = {file.name: file.read_bytes() for file in sweep.glob("*.csv")}
    assert tables.keys() == {"summary.csv", "runs.csv", "windows.csv", "log2.csv"}
    assert tables["summary.csv"].count(b",2,") >= 4
    again = subprocess.run(command(study, sweep), capture_output=True, text=True, timeout=600, check=False)
    assert "0 runs made, 8 reused" in again.stdout, again.stdout + again.stderr
    assert again.stdout.splitlines()[-1] == str(sweep / "report.html")
    assert {file.name: file.read_bytes() for file in sweep.glob("*.csv")} == tables

    require_gone(sweep)
    left = {path.name for path in sweep.iterdir()}
    assert left == {".lock", "runs", "study.toml", "sweep.json", "report.html", "report.json", *tables}
