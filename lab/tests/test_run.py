"""Sweeps with real processes: memcached, weir proxy, weir load."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synthetic import STUDY_TEXT
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.run import run_study
from weir_lab.cli import commands
from weir_lab.design import ScheduledRun, Study, load_study
from weir_lab.errors import TestbedError
from weir_lab.records import Verdict, read_json, read_runs
from weir_lab.records.formats import Snapshot
from weir_lab.records.progress import CellProgress
from weir_lab.report.single.report import build_report
from weir_lab.theory.stats import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIR = Path(os.environ.get("WEIR_BIN", Path(__file__).parents[2] / "target" / "release" / "weir"))
LAB = [sys.executable, "-c", "from weir_lab.cli import main; main()"]

needs_programs = pytest.mark.skipif(
    not WEIR.exists() or shutil.which("memcached") is None,
    reason=f"needs memcached and {WEIR} (build it: cargo build --release, or name another in WEIR_BIN)",
)


@dataclass
class Heard:
    """An observer that remembers."""

    reused: int = -1
    verdicts: list[Verdict] = field(default_factory=list)
    decisions: list[tuple[str, int, Decision]] = field(default_factory=list)

    def planned(self, study: Study, total: int, reused: int, cells: Sequence[CellProgress], left_out: str = "") -> None:
        assert not left_out
        assert study.name == "tiny"
        assert cells
        assert total == 8
        self.reused = reused

    def started(self, run: ScheduledRun, attempt: int) -> None:
        assert 1 <= attempt <= 10
        assert run.position >= 1

    def progressed(self, cell: CellProgress, decision: Decision) -> None:
        self.decisions.append((cell.cell.name, len(cell.values), decision))

    def finished(self, run: ScheduledRun, verdict: Verdict, folder: Path) -> None:
        assert folder.name.startswith(run.name)
        self.verdicts.append(verdict)


def small_study(folder: Path, attempts: int = 10) -> Path:
    text = STUDY_TEXT.replace("clients = [1, 4, 16]", "clients = [1, 4]").replace("repetitions = 3", "repetitions = 2")
    text = text.replace("warmup_s = 0.5", "warmup_s = 0.1").replace("measured_s = 2.0", "measured_s = 0.5")
    text = text.replace("attempts = 2", f"attempts = {attempts}")
    file = folder / "small.toml"
    file.write_text(text)
    return file


@needs_programs
def test_a_sweep_runs_resumes_and_reports(tmp_path: Path) -> None:
    study, sweep, programs = small_study(tmp_path), tmp_path / "sweep", Executables(WEIR, "memcached")
    heard = Heard()
    outcome = run_study(study, sweep, programs, ["test"], heard)
    # On a machine that is busy enough a request may take longer than the proxy waits; such an attempt is invalid, and made again.
    again = [verdict.reasons for verdict in heard.verdicts if not verdict.valid]
    assert (outcome.made, outcome.reused, outcome.given_up) == (8, 0, []), again
    failed = len(again)

    # All is there: nothing is made. One run spoiled: that one is made again, in a new folder.
    later = Heard()
    assert run_study(study, sweep, programs, ["test"], later).made == 0
    assert later.reused == 8
    cell = [run for run in read_runs(sweep)[0] if run.meta.cell == "tiny-C4-proxy" and run.meta.verdict.valid]
    spoiled = cell[0].folder / "run.json"
    kept = spoiled.read_text().replace('"valid": true', '"valid": false')
    spoiled.write_text(kept)
    once_more = Heard()
    assert run_study(study, sweep, programs, ["test"], once_more).made == 1
    assert spoiled.read_text() == kept
    failed += len(once_more.verdicts)

    runs, interrupted = read_runs(sweep)
    assert len(runs) == 8 + failed
    assert interrupted == []
    valid = [run for run in runs if run.meta.verdict.valid]
    assert len(valid) == 8
    for run in valid:
        assert run.load is not None
        assert run.cpu is not None
        assert all(spent.cpu_ns > 0 for spent in run.cpu.roles.values())
        assert run.load.config.connections == run.meta.settings.clients
    # A percentile of the report needs 299 requests in every run. How fast this machine is just now is not what is
    # tested.
    if all(run.load.response_time_count >= 299 for run in valid if run.load is not None):
        analysis = build_report(sweep).numbers
        assert len(analysis.used) == 8
        assert all(point.throughput_rps.mean > 0 for point in analysis.points)
    check_tables(sweep)
    assert load_study(sweep / "study.toml").name == "tiny"
    assert processes_writing_into(sweep) == []


def table(sweep: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((sweep / name).read_text().splitlines()))


def check_tables(sweep: Path) -> None:
    """Every number of the tables against the records that it comes from."""
    runs = {row["run"]: row for row in table(sweep, "runs.csv")}
    summary = {row["cell"]: row for row in table(sweep, "summary.csv")}
    windows, log2 = table(sweep, "windows.csv"), table(sweep, "log2.csv")
    assert [row["valid"] for row in runs.values()].count("true") == 8
    assert summary.keys() == {"tiny-C1-direct", "tiny-C1-proxy", "tiny-C4-direct", "tiny-C4-proxy"}
    for cell, row in summary.items():
        rates = [
            float(run["throughput_rps"]) for run in runs.values() if run["cell"] == cell and run["valid"] == "true"
        ]
        assert (row["runs"], len(rates), row["decision"]) == ("2", 2, "complete")
        assert float(row["throughput_rps"]) == pytest.approx(sum(rates) / 2, rel=1e-8)
        assert float(row["throughput_half_width_rps"]) == pytest.approx(
            12.706205 * abs(rates[0] - rates[1]) / 2, rel=1e-4
        )
        assert bool(row["stage_backend_us"]) == ("proxy" in cell)
        shares = [float(line["cumulative_percent"]) for line in log2 if line["cell"] == cell]
        assert shares == sorted(shares)
        assert shares[-1] == 100.0
    assert len(windows) == 8
    for window in windows:
        assert float(window["throughput_rps"]) == pytest.approx(float(runs[window["run"]]["throughput_rps"]), rel=1e-6)
        assert float(window["sd_response_time_us"]) > 0.0


@needs_programs
def test_two_proxies_side_by_side_count_as_one(tmp_path: Path) -> None:
    study, sweep = small_study(tmp_path), tmp_path / "sweep"
    text = study.read_text().replace('path = ["direct", "proxy"]', "proxies = [1, 2]")
    text = text.replace("[fixed]", '[fixed]\npath = "proxy"\nreplicas = 2')
    study.write_text(text[: text.index("[[predictions]]")])
    assert run_study(study, sweep, Executables(WEIR, "memcached"), ["test"], Heard()).given_up == []
    runs = [run for run in read_runs(sweep)[0] if run.meta.verdict.valid]
    assert sorted(run.meta.settings.proxies for run in runs) == [1] * 4 + [2] * 4
    for run in runs:
        proxies = [command for command in run.meta.commands if command.role == "proxy"]
        assert len(proxies) == run.meta.settings.proxies
        assert all("--replicas" in command.argv for command in proxies)
        assert run.load is not None
        assert run.end is not None
        assert run.end.requests == run.load.requests_of_all_phases
        parts = [read_json(file, Snapshot) for file in sorted(run.folder.glob("snapshot-end*.json"))]
        assert len(parts) == len(proxies)
        if run.meta.settings.clients >= len(parts):
            assert all(part.requests > 0 for part in parts)
    assert processes_writing_into(sweep) == []


@needs_programs
def test_an_interrupt_stops_all_processes_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    study, sweep = small_study(tmp_path), tmp_path / "sweep"
    command = [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        for line in lab.stdout:
            if "1/8" in line:  # the first run is done, the second begins
                lab.send_signal(signal.SIGINT)
                break
        _, stderr = lab.communicate(timeout=60)
    assert lab.returncode == 130, stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert processes_writing_into(sweep) == []
    finished, _ = read_runs(sweep)
    assert 1 <= len(finished) < 8


@needs_programs
def test_two_sweeps_in_one_folder_are_refused(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    with (sweep / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TestbedError, match="another weir-lab runs in this folder"):
            run_study(small_study(tmp_path), sweep, Executables(WEIR, "memcached"), ["test"], Heard())


def broken_weir(folder: Path) -> Path:
    """A program that answers --version and fails at everything else."""
    program = folder / "weir"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo weir 0; exit 0; }\necho broken on purpose >&2\nexit 1\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.skipif(shutil.which("memcached") is None, reason="needs memcached")
def test_a_program_that_always_fails_stops_the_sweep_early(tmp_path: Path) -> None:
    sweep, heard = tmp_path / "sweep", Heard()
    with pytest.raises(TestbedError, match="3 runs in a row have no valid attempt"):
        run_study(small_study(tmp_path, 2), sweep, Executables(broken_weir(tmp_path), "memcached"), ["test"], heard)
    assert len(heard.verdicts) == 6  # two attempts each
    assert all("broken on purpose" in verdict.reasons[0] for verdict in heard.verdicts)
    folders = sorted(path.name for path in (sweep / "runs").iterdir())
    assert len(folders) == 6
    record = json.loads((sweep / "runs" / folders[0] / "run.json").read_text())
    assert record["verdict"]["valid"] is False
    assert record["commands"][0]["argv"][0] == "memcached"
    assert processes_writing_into(sweep) == []


def test_a_binary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="make build"):
        run_study(small_study(tmp_path), tmp_path / "sweep", Executables(tmp_path / "weir", "memcached"), [], Heard())


def test_the_command_line_shows_errors_without_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run([*LAB, "run", str(tmp_path / "absent.toml")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "absent.toml: the study file cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_vanishes_under_a_sweep_is_named_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "app", lambda: (tmp_path / "gone" / "run.json").write_text("{}"))
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 1
    assert f"weir-lab: {tmp_path}/gone/run.json: No such file or directory. Look whether" in capsys.readouterr().err


def test_the_command_line_ends_with_the_path_of_the_report(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sweep, tmp_path / "tiny")
    done = subprocess.run([*LAB, "report", str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(folder / "report.html")
    assert "requests/s" in done.stdout


def processes_writing_into(folder: Path) -> list[str]:
    """Command lines of processes whose standard output lies in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "fd" / "1").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue  # ended meanwhile
    return found
