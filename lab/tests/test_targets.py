"""Measuring what already runs: nothing is started, flushed or stopped, and nothing of ours is left behind."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from test_run import LAB, WEIR, needs_programs, processes_writing_into
from test_unloaded import Silent
from weir_lab.bench.machine.processes import free_ports
from weir_lab.bench.planning import missing_here, plan_lines
from weir_lab.bench.programs.generators import OwnKeys, delete_argv, target_refusals
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.design import FaultsError, Settings, load_study, parse_study
from weir_lab.errors import TestbedError
from weir_lab.records import read_runs
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = needs_programs
STUDY = """
schema = "weir.study/1"
name = "running"
targets = [{targets}]
[fixed]
keys = 300
[factors]
clients = [3]
[plan]
repetitions = 2
warmup_s = 0.1
measured_s = 0.4
attempts = 10
"""


class Memcached:
    """A memcached that the laboratory did not start, with a key of somebody else's."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.popen = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", *user])
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                self.ask("version")
            except OSError:
                time.sleep(0.01)
            else:
                break
        assert self.ask("set theirs 0 0 5\r\nvalue") == "STORED\r\n"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, line: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{line}\r\n".encode())
            text = connection.recv(65_536).decode()
            while line == "stats" and not text.endswith("END\r\n"):
                text += connection.recv(65_536).decode()
            return text

    def count(self, name: str) -> int:
        return next(int(row.split()[2]) for row in self.ask("stats").splitlines() if row.split()[1:2] == [name])


@pytest.fixture
def memcached() -> Iterator[Memcached]:
    made = Memcached()
    try:
        yield made
    finally:
        made.popen.kill()
        made.popen.wait()


def written(folder: Path, *targets: str) -> Path:
    file = folder / "running.toml"
    file.write_text(STUDY.replace("{targets}", ", ".join(f'"{target}"' for target in targets)))
    return file


def test_what_runs_already_is_measured_and_left_as_it_was(tmp_path: Path, memcached: Memcached) -> None:
    other = Memcached()
    try:
        sweep, study = tmp_path / "sweep", written(tmp_path, memcached.address, other.address)
        # No memcached of the laboratory's own is needed.
        outcome = run_study(study, sweep, Executables(WEIR, "/absent/memcached"), ["test"], Silent())
        assert outcome.given_up == []
        runs = [run for run in read_runs(sweep)[0] if run.meta.verdict.valid]
        assert len(runs) == 2
        for run in runs:
            assert run.load is not None
            assert run.load.requests > 0
            assert sorted(run.load.config.targets) == sorted([memcached.address, other.address])
            assert {command.role for command in run.meta.commands} == {"client"}
            assert run.meta.targets == [memcached.address, other.address]
            assert all("of the machine's CPU time" not in flag for flag in run.meta.verdict.flags)
        prefixes = [argv[argv.index("--key-prefix") + 1] for run in runs for argv in [run.meta.commands[0].argv]]
        assert len(set(prefixes)) == 2
        rows = list(csv.DictReader((sweep / "summary.csv").read_text().splitlines()))
        assert float(rows[0]["throughput_rps"]) > 0
        for server in (memcached, other):
            assert server.popen.poll() is None
            assert server.ask("get theirs") == "VALUE theirs 0 5\r\nvalue\r\nEND\r\n"
            assert (server.count("curr_items"), server.count("cmd_flush")) == (1, 0)
            assert server.count("cmd_set") >= 300
        assert processes_writing_into(sweep) == []
        page = build_report(sweep).html.read_text()
        assert f"ran already, at {memcached.address}, {other.address}" in page
        assert "Everything ran on this one machine" not in page
    finally:
        other.popen.kill()
        other.popen.wait()


def test_an_interrupt_leaves_none_of_our_keys_behind(tmp_path: Path, memcached: Memcached) -> None:
    study, sweep = written(tmp_path, memcached.address), tmp_path / "sweep"
    study.write_text(study.read_text().replace("measured_s = 0.4", "measured_s = 60"))
    command = [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lab:
        deadline = time.monotonic() + 30
        while memcached.count("cmd_get") < 100 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert memcached.count("curr_items") == 301
        lab.send_signal(signal.SIGINT)
        _, stderr = lab.communicate(timeout=60)
    assert lab.returncode == 130, stderr
    assert memcached.count("curr_items") == 1
    assert memcached.popen.poll() is None


def test_keys_that_nobody_deletes_expire() -> None:
    keys = OwnKeys("wabcdef-", 900)
    cell = Settings.model_validate({"keys": 300})
    assert "--key-prefix" in delete_argv(WEIR, cell, "a:1", 7, keys)
    assert target_refusals(cell) == []
    assert (
        "need key_size_bytes of 11" in target_refusals(Settings.model_validate({"keys": 300, "key_size_bytes": 10}))[0]
    )
    assert "memcaslap" in target_refusals(Settings.model_validate({"generator": "memcaslap"}))[0]


def test_a_target_that_is_not_there_is_reported_before_any_run(tmp_path: Path, memcached: Memcached) -> None:
    (port,) = free_ports(1)
    study = written(tmp_path, memcached.address, f"127.0.0.1:{port}")
    with pytest.raises(TestbedError, match=rf"no connection to 127\.0\.0\.1:{port} .*Start what"):
        run_study(study, tmp_path / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
    assert not (tmp_path / "sweep").exists()


def test_a_plan_names_the_targets_and_other_testbeds_are_refused(tmp_path: Path) -> None:
    made = load_study(written(tmp_path, "10.0.0.5:11211"))
    assert any("targets that run already: 10.0.0.5:11211" in line for line in plan_lines(made, []))
    assert missing_here(made, None, TestbedKind.LOCAL) == []
    assert missing_here(made, None, TestbedKind.HOSTS) == []
    (refused,) = missing_here(made, None, TestbedKind.NETNS)
    assert "reach nothing outside of it: use the testbed local" in refused


# In place of ssh: the host is this machine, so that no sshd is needed.
SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
shift
exec sh -c "$*"
"""


def hosts_file(folder: Path, monkeypatch: pytest.MonkeyPatch, machines: Sequence[str]) -> Path:
    shim = folder / "bin" / "ssh"
    shim.parent.mkdir()
    shim.write_text(SSH)
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    file = folder / "hosts.toml"
    file.write_text(
        "".join(f'[[host]]\nmachine = "{name}"\naddress = "127.0.0.1"\nlogin = "{name}"\n' for name in machines)
    )
    return file


def test_targets_are_asked_from_hosts(tmp_path: Path, memcached: Memcached, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any testbed but `local` was refused, so that a target could not be loaded from more than one machine."""
    study = written(tmp_path, memcached.address)
    study.write_text(study.read_text().replace("[fixed]", "[fixed]\nclient_machines = 2"))
    # No proxy and no server has to be named: nothing of them is started.
    wanted = Wanted(testbed=TestbedKind.HOSTS, hosts=hosts_file(tmp_path, monkeypatch, ["client-0", "client-1"]))
    outcome = run_study(study, tmp_path / "sweep", Executables(WEIR, "/absent/memcached"), ["test"], Silent(), wanted)
    assert outcome.given_up == [], [run.meta.verdict.reasons for run in read_runs(tmp_path / "sweep")[0]]
    runs = [run for run in read_runs(tmp_path / "sweep")[0] if run.meta.verdict.valid]
    assert len(runs) == 2
    for run in runs:
        assert run.meta.executables[f"target {memcached.address}"].startswith("VERSION ")
        assert len(run.generators) == 2
        assert run.meta.testbed is not None
        assert [machine.name for machine in run.meta.testbed.machines] == ["client-0", "client-1"]
    assert memcached.count("curr_items") == 1
    page = build_report(tmp_path / "sweep").html.read_text()
    assert "Testbed hosts: its machines" in page
    assert f"What was measured ran already, at {memcached.address}" in page


def test_a_target_that_no_host_reaches_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    wanted = Wanted(testbed=TestbedKind.HOSTS, hosts=hosts_file(tmp_path, monkeypatch, ["client-0"]))
    with pytest.raises(TestbedError, match=rf"no connection to 127\.0\.0\.1:{port} \(client-0 .*refused"):
        run_study(
            written(tmp_path, f"127.0.0.1:{port}"),
            tmp_path / "sweep",
            Executables(WEIR, "memcached"),
            ["test"],
            Silent(),
            wanted,
        )
    assert not list((tmp_path / "sweep").glob("runs/*"))


@pytest.mark.parametrize(
    ("targets", "more", "says"),
    [
        ('"10.0.0.5"', "", '"host:port" is wanted'),
        ('"10.0.0.5:99999"', "", '"host:port" is wanted'),
        ('"a:1", "a:1"', "", "stands twice"),
        ('"a:1"', "servers = 3", "targets run already: leave it out"),
        ('"a:1"', 'path = "proxy"', "targets run already: leave it out"),
    ],
)
def test_what_cannot_be_meant_of_targets_is_refused(targets: str, more: str, says: str) -> None:
    with pytest.raises(FaultsError, match=says):
        parse_study(STUDY.replace("{targets}", targets).replace("[fixed]", f"[fixed]\n{more}"))


def test_names_and_bracketed_addresses_are_targets() -> None:
    made = parse_study(STUDY.replace("{targets}", '"cache.example.org:11211", "[::1]:11211"'))
    assert made.targets == ["cache.example.org:11211", "[::1]:11211"]
