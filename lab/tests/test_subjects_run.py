"""Runs with real processes: several generators, proxies that are not ours, and a generator that is not ours."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from synthetic import STUDY_TEXT
from test_run import WEIR, needs_programs, processes_writing_into
from test_unloaded import Silent
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.run import run_study
from weir_lab.errors import TestbedError
from weir_lab.records import read_json, read_runs
from weir_lab.records.formats.foreign import GeneratorsRecord
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.records import Run

SUBJECT = f"""
[subjects.line]
argv = ["{WEIR}", "proxy", "--listen", "{{listen}}", "--admin", "{{admin}}", "--server", "{{servers}}"]
"""


def runs_of(folder: Path, fixed: str, clients: int, more: str = "", seconds: float = 0.5) -> list[Run]:
    """Two valid runs of one cell; a machine that is too busy may need several attempts."""
    text = STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")]
    for old, new in (
        ('path = ["direct", "proxy"]\n', ""),
        ("clients = [1, 4, 16]", f"clients = [{clients}]"),
        ("[fixed]", f"[fixed]\n{fixed}"),
        ("repetitions = 3", "repetitions = 2"),
        ("warmup_s = 0.5", f"warmup_s = {1.0 if seconds >= 1 else 0.1}"),
        ("measured_s = 2.0", f"measured_s = {seconds}"),
        ("attempts = 2", "attempts = 10"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    study, sweep = folder / "study.toml", folder / "sweep"
    study.write_text(text + more)
    outcome = run_study(study, sweep, Executables(WEIR, "memcached"), ["test"], Silent())
    found, _ = read_runs(sweep)
    assert outcome.given_up == [], [run.meta.verdict.reasons for run in found]
    assert processes_writing_into(sweep) == []
    valid = [run for run in found if run.meta.verdict.valid]
    assert len(valid) == 2
    return valid


@needs_programs
@pytest.mark.parametrize("path", ["proxy", "direct"])
def test_several_generators_are_one_load(tmp_path: Path, path: str) -> None:
    for run in runs_of(tmp_path, f'path = "{path}"\nproxies = 2\nclient_machines = 3\ninstances = 1', 7):
        who = read_json(run.folder / "generators.json", GeneratorsRecord).generators
        assert [(one.name, one.machine, one.connections) for one in who] == [
            ("load", "client-0", 3),
            ("load-1", "client-1", 2),
            ("load-2", "client-2", 2),
        ]
        assert run.load is not None
        assert run.cpu is not None
        assert len(run.generators) == 3
        assert run.load.config.connections == 7
        assert run.load.throughput_rps == pytest.approx(sum(one.throughput_rps for one in run.generators))
        assert run.load.response_time_count == sum(one.response_time_count for one in run.generators)
        times = run.load.response_times()
        assert times is not None
        assert times.total == run.load.response_time_count
        if path == "proxy":
            # The verdict has compared the counts: keys were set at the servers, and the proxies know nothing of it.
            assert run.end is not None
            assert run.end.requests == run.load.requests_of_all_phases
            assert run.load.phases["prefill"].requests == 0
            servers = run.meta.settings.servers
            assert {file.name for file in run.folder.glob("prefill*.json")} == {
                f"prefill-{number}.json" for number in range(servers)
            }


@needs_programs
@pytest.mark.skipif(shutil.which("nutcracker") is None, reason="needs nutcracker")
def test_nutcracker_is_run_and_counted(tmp_path: Path) -> None:
    fixed = 'path = "proxy"\nsubject = "nutcracker"\nplacement = "twemproxy/ketama"\nproxies = 2'
    for run in runs_of(tmp_path, fixed, 4):
        assert run.peer is not None
        assert run.load is not None
        assert run.peer.responses == run.load.requests_of_all_phases
        assert run.before is None
        assert {command.argv[0] for command in run.meta.commands if command.role == "proxy"} == {"nutcracker"}
    assert "nutcracker tells nothing" in build_report(tmp_path / "sweep").html.read_text()


@needs_programs
def test_a_command_line_is_a_proxy_like_any(tmp_path: Path) -> None:
    for run in runs_of(tmp_path, 'path = "proxy"\nsubject = "line"', 2, SUBJECT):
        assert run.load is not None
        assert run.load.requests > 0
        assert (run.peer, run.before) == (None, None)
    assert "line tells nothing" in build_report(tmp_path / "sweep").html.read_text()


@needs_programs
@pytest.mark.skipif(shutil.which("memcaslap") is None, reason="needs memcaslap")
def test_memcaslap_loads_the_proxy(tmp_path: Path) -> None:
    text = 'path = "proxy"\ngenerator = "memcaslap"\nkey_size_bytes = 16'
    for run in runs_of(tmp_path, text, 2, seconds=1.0):
        assert run.load is not None
        assert run.end is not None
        assert run.load.generator == "memcaslap"
        assert run.load.response_times() is None
        assert abs(run.end.requests - run.load.requests_of_all_phases) <= run.meta.settings.population


@needs_programs
def test_a_subject_that_listens_elsewhere_is_reported_with_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_lab.bench.running.proxies.READY_S", 0.3)
    text = STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")].replace('["direct", "proxy"]', '["proxy"]')
    text = text.replace("[fixed]", '[fixed]\nsubject = "deaf"').replace("attempts = 2", "attempts = 1")
    (tmp_path / "study.toml").write_text(text + '[subjects.deaf]\nargv = ["sleep", "60"]\n')
    with pytest.raises(TestbedError, match="3 runs in a row"):
        run_study(tmp_path / "study.toml", tmp_path / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    found, _ = read_runs(tmp_path / "sweep")
    (reason,) = found[0].meta.verdict.reasons
    assert re.search(r"connections at 127\.0\.0\.1:\d+, which is \{listen\}", reason)
