"""The testbeds with real processes: the same study on each, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from namespaces import KERNEL, LAB_STARTS_S, eventually, left_by, needs_network, needs_quota, started
from sshd import folders_of_agents, hosts, needs_sshd
from synthetic import STUDY_TEXT
from test_delaying import needs_device
from test_run import LAB, WEIR, Heard, needs_programs, processes_writing_into, small_study
from weir_lab.bench.links import VALUE_BYTES, measure_bounds, read_bounds
from weir_lab.bench.network import Link, Network, run_in, this_process
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.run import Wanted, run_study
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.cli import app
from weir_lab.design.topology import Cores, Cpus, Links, Shape, Topology
from weir_lab.errors import RecordError, StudyError, TestbedError
from weir_lab.records import read_runs
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from weir_lab.bench.network import Node
    from weir_lab.records import Run

MACHINES = ("client-0", "proxy-0", "server-0", "server-1", "server-2")
PROGRAMS = Executables(WEIR, "memcached")


@needs_programs
@needs_network
def test_a_sweep_on_namespaces_says_where_it_ran(tmp_path: Path) -> None:
    study, sweep, heard = small_study(tmp_path), tmp_path / "sweep", Heard()
    study.write_text(f"{study.read_text()}\n[topology]\nawake = true\n")
    outcome = run_study(study, sweep, PROGRAMS, ["test"], heard, Wanted(testbed=TestbedKind.NETNS))
    # On a machine that is too busy to see the edges of half a second, an attempt may be invalid, and is made again.
    assert outcome.given_up == [], [verdict.reasons for verdict in heard.verdicts]
    runs = [run for run in read_runs(sweep)[0] if run.meta.verdict.valid]
    assert len(runs) == 8
    for run in runs:
        check_record(run)
    build_report(sweep)
    page = (sweep / "report.html").read_text()
    assert "Testbed netns: its machines" in page
    assert "CPU-shared" in page
    assert "loopback interface" not in page
    twin = json.loads((sweep / "report.json").read_text())["testbed"]
    assert [machine["name"] for machine in twin["machines"]] == [
        "client-0",
        "proxy-0",
        "server-0",
        "server-1",
        "server-2",
    ]
    assert all(machine["sends"]["wire_mbit_s"] > 0 for machine in twin["machines"])

    # All is there; and runs of one testbed are not runs of another.
    assert run_study(study, sweep, PROGRAMS, ["test"], Heard(), Wanted(testbed=TestbedKind.NETNS)).made == 0
    assert runs[0].meta.executables["testbed"] == "netns"
    assert left_by(os.getpid()) == []
    assert processes_writing_into(sweep) == []


def check_record(run: Run) -> None:
    """What a run in namespaces must hold beside what every run does."""
    assert run.meta.testbed is not None
    assert run.cpu is not None
    assert run.meta.testbed.kind == "netns"
    wanted = {"client-0", "server-0", "server-1", "server-2"}
    wanted |= {"proxy-0"} if run.meta.settings.path == "proxy" else set()
    assert set(run.cpu.machines) == wanted
    client = run.cpu.machines["client-0"]
    assert client.sent_bytes
    assert client.received_bytes
    assert client.throttled_ns is None
    assert run.cpu.machines["server-0"].resident_bytes
    if run.meta.testbed.delayed_by is not None and run.meta.testbed.delayed_by.startswith("weir-delay"):
        assert run.cpu.network is not None
        # Each request is a packet on each of its ways, at least.
        assert run.load is not None
        assert run.cpu.network.packets >= run.load.requests
        assert run.cpu.roles["network"].cpu_ns > 0


@needs_programs
@needs_network
@needs_quota
def test_a_client_that_its_quota_holds_makes_the_run_invalid(tmp_path: Path) -> None:
    study = small_study(tmp_path, 1)
    study.write_text(study.read_text() + "\n[topology.cpu]\nclient = 0.01\n")
    heard = Heard()
    with pytest.raises(TestbedError, match="3 runs in a row have no valid attempt"):
        run_study(study, tmp_path / "sweep", PROGRAMS, ["test"], heard, Wanted(testbed=TestbedKind.NETNS))
    # On a machine that is too busy to end the phases in time, another reason may stand beside it.
    reasons = [reason for verdict in heard.verdicts for reason in verdict.reasons]
    assert any(
        re.search(r"client-0 stood still for [0-9.]+ % .* because of its CPU quota", reason) for reason in reasons
    )
    assert left_by(os.getpid()) == []


@needs_programs
@needs_network
def test_a_killed_lab_leaves_nothing_that_the_next_does_not_remove(tmp_path: Path) -> None:
    study, sweep = small_study(tmp_path), tmp_path / "sweep"
    study.write_text(study.read_text().replace("measured_s = 0.5", "measured_s = 600.0"))
    command = [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR), "--testbed", "netns"]
    with started(command) as lab:
        eventually(
            lambda: any("measured" in file.read_text() for file in sweep.glob("runs/*/load.stderr")),
            "a run",
            LAB_STARTS_S,
        )
        assert len(left_by(lab.pid)) >= 6
        lab.send_signal(signal.SIGKILL)
        assert lab.wait(30.0) == -signal.SIGKILL
    eventually(lambda: processes_writing_into(sweep) == [], "roles end with the lab")
    assert left_by(lab.pid)
    with open_testbed(TestbedKind.NETNS, Topology(), Shape(1, 0, 1)):
        assert left_by(lab.pid) == []
        assert len(left_by(os.getpid())) == 3
    assert left_by(os.getpid()) == []


@needs_programs
@needs_network
def test_an_interrupted_lab_takes_its_network_away(tmp_path: Path) -> None:
    study, sweep = small_study(tmp_path), tmp_path / "sweep"
    study.write_text(study.read_text().replace("measured_s = 0.5", "measured_s = 600.0"))
    command = [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR), "--testbed", "netns"]
    with started(command) as lab:
        eventually(
            lambda: any("measured" in file.read_text() for file in sweep.glob("runs/*/load.stderr")),
            "a run",
            LAB_STARTS_S,
        )
        lab.send_signal(signal.SIGTERM)
        _, stderr = lab.communicate(timeout=60.0)
    assert lab.returncode == 130, stderr
    assert left_by(lab.pid) == []
    assert processes_writing_into(sweep) == []


@needs_programs
@needs_sshd
def test_the_same_study_runs_on_hosts(tmp_path: Path) -> None:
    study, sweep = small_study(tmp_path), tmp_path / "sweep"
    # Two machines of clients, so that generators on different hosts have to begin together.
    text = (
        study.read_text()
        .replace("clients = [1, 4]", "clients = [2]")
        .replace("[fixed]", "[fixed]\nclient_machines = 2")
        .replace("clients = 1\n", "clients = 2\n")
    )
    study.write_text(text)
    with hosts(tmp_path, (*MACHINES, "client-1")) as (file, control):
        command = [*LAB, "run", str(study), "--out", str(sweep), "--bin", str(WEIR), "--testbed", "hosts"]
        done = subprocess.run(
            [*control.enter, *command, "--hosts", str(file)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [run for run in read_runs(sweep)[0] if run.meta.verdict.valid]
    assert len(runs) == 4
    for run in runs:
        assert run.meta.testbed is not None
        assert run.cpu is not None
        assert all(spent.cpu_ns > 0 for spent in run.cpu.roles.values())
        assert run.cpu.machines["client-0"].sent_bytes
        assert run.cpu.machines["client-1"].sent_bytes
        assert len(run.generators) == 2
        for machine in run.meta.testbed.machines:
            assert machine.sends is not None
            assert machine.sends.payload_mbit_s > 0
            assert machine.clock_offset_ms is not None
            assert abs(machine.clock_offset_ms) < 60_000.0  # it is the same clock, asked over a busy machine
    build_report(sweep)
    assert "Testbed hosts: its machines" in (sweep / "report.html").read_text()
    assert folders_of_agents() == set()
    assert processes_writing_into(sweep) == []


ON_HOSTS = """
import sys, time
from pathlib import Path
from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design.topology import Shape, Topology

folder, hosts = map(Path, sys.argv[1:])
with open_testbed(TestbedKind.HOSTS, Topology(), Shape(1, 0, 1), hosts) as testbed, Processes(folder) as processes:
    argv = ["sleep", "600"]
    server = testbed.machine("server-0")
    process = processes.start("servers", "server-0", argv, started_as=server.command("server-0", argv))
    while True:
        try:
            server.resident_bytes(process)
            break
        except Exception:
            process.require_alive()
            time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(600)
"""


@needs_sshd
def test_a_killed_lab_leaves_nothing_on_the_hosts(tmp_path: Path) -> None:
    before = folders_of_agents()
    with hosts(tmp_path, ("client-0", "server-0")) as (file, control):
        command = [*control.enter, sys.executable, "-c", ON_HOSTS, str(tmp_path), str(file)]
        with started(command) as lab:
            assert lab.stdout is not None
            assert lab.stdout.readline() == "ready\n"
            assert len(folders_of_agents() - before) == 2
            # It is sh and setpriv before it is sleep.
            eventually(lambda: roles_on(control, "server-0") == ["python3", "sleep"], "the agent and the role run")
        eventually(lambda: folders_of_agents() <= before, "agents have removed their folders")
        eventually(lambda: not roles_on(control, "server-0"), "roles have ended")


def roles_on(control: Node, machine: str) -> list[str]:
    """Programs in a host's namespace that are not sshd's."""
    namespace = control.namespace.replace("control", machine)
    pids = subprocess.check_output(["ip", "netns", "pids", namespace], text=True).split()
    names = []
    for pid in pids:
        with contextlib.suppress(OSError):  # ended meanwhile
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return sorted(name for name in names if name != "sshd")


@needs_sshd
def test_a_host_that_does_not_answer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    with Network(this_process(), {"control": Link(1000.0)}) as network:
        node = network.nodes["control"]
        entry = f'[[host]]\nmachine = "client-0"\naddress = "{node.address}"\nlogin = "root@{node.address}"\n'
        file.write_text(entry + entry.replace("client-0", "server-0"))

        def opening() -> None:
            with open_testbed(TestbedKind.HOSTS, Topology(), Shape(1, 0, 1), file):
                pytest.fail("nobody listens there")

        with pytest.raises(TestbedError, match=r"client-0: the connection to root@.* ended: .*refused"):
            run_in(node.namespace, opening)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "host"),
        ("[[host]]\nmachine = 'client-0'\n", "address"),
        ("[[host]]\nmachine = 'router-0'\naddress = 'a'\nlogin = 'a'\n", "machine"),
        ("[[host]]\nmachine = 'client-0'\naddress = 'a'\nlogin = '-oProxyCommand=x'\n", "login"),
        ("[[host]]\nmachine = 'client-0'\naddress = 'a'\nlogin = 'a'\n", "lacks server-0"),
        ("[[host]]\nmachine = 'client-0'\naddress = 'a'\nlogin = 'a'\n" * 2, "client-0 is there twice"),
    ],
)
def test_a_wrong_file_of_hosts_is_explained(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(StudyError, match=problem):
        open_testbed(TestbedKind.HOSTS, Topology(), Shape(1, 0, 1), file)
    with pytest.raises(StudyError, match="no other testbed takes it"):
        open_testbed(TestbedKind.LOCAL, Topology(), Shape(1, 0, 1), file)
    with pytest.raises(StudyError, match="needs --hosts FILE"):
        open_testbed(TestbedKind.HOSTS, Topology(), Shape(1, 0, 1))


@needs_programs
@needs_network
def test_links_are_loaded_and_recorded(tmp_path: Path) -> None:
    record = measure_bounds(tmp_path / "links", PROGRAMS, Topology(), 1.0, 1, lambda _line: None)
    assert [len(bound.measured_rps) for bound in record.bounds] == [1, 1, 1]
    for bound in record.bounds:
        assert 0 < bound.share < 1.1  # how near to the bound is for a quiet machine to say: weir-lab links
        assert bound.dropped_packets == 0
    directions = [(pair.sender, pair.receiver) for pair in record.pairs]
    machines = ("client-0", "proxy-0", "server-0")
    assert directions == [(one, other) for one in machines for other in machines if one != other]
    for pair in record.pairs:
        assert pair.wire_bytes
        assert pair.one_way_lost == 0
        assert pair.values_per_s(VALUE_BYTES) > 0
    assert read_bounds(tmp_path / "links") == record
    shown = CliRunner().invoke(app, ["links", str(tmp_path / "links"), "--show"])
    assert "proxy-0 to server-0" in shown.output
    file = next((tmp_path / "links").glob("reads*/load-1.json"))
    file.write_text(re.sub(r'"throughput_rps": ?[0-9.]+', '"throughput_rps": 1.0', file.read_text()))
    with pytest.raises(RecordError, match=r"the generators' records give .* operations/s, links\.json says"):
        read_bounds(tmp_path / "links")
    assert left_by(os.getpid()) == []


def test_quotas_and_cores_that_are_not_there_are_refused_before_anything_is_made() -> None:
    with pytest.raises(StudyError, match="ask for 2000 CPUs together"):
        open_testbed(TestbedKind.NETNS, Topology(cpu=Cpus(client=1000.0)), Shape(2, 0, 0))
    with pytest.raises(StudyError, match=r"server-0 is pinned to cores \[4095\]"):
        open_testbed(TestbedKind.NETNS, Topology(cores=Cores(server=(4095,))), Shape(1, 0, 1))


def test_processes_are_pinned_where_the_study_asks() -> None:
    core = min(os.sched_getaffinity(0))
    with open_testbed(TestbedKind.LOCAL, Topology(cores=Cores(client=(core,))), Shape(1, 0, 1)) as testbed:
        said = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
        assert subprocess.check_output(testbed.machine("client-0").command("said", said), text=True) == f"{{{core}}}\n"
        assert testbed.machine("server-0").command("said", said) == said
        assert testbed.identity() == {"cores": f"{{'client-0': [{core}]}}"}
    with open_testbed(TestbedKind.LOCAL, Topology(), Shape(1, 0, 1)) as testbed:
        assert testbed.identity() == {}


@pytest.mark.parametrize("missing", [["not root"], ["not root", "tc is not installed"]])
def test_a_testbed_that_cannot_be_made_says_what_is_missing(
    missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        pass

    nothing = Nothing()
    nothing.missing = missing  # type: ignore[attr-defined]
    monkeypatch.setattr("weir_lab.bench.testbeds.netns.probe", lambda: nothing)
    monkeypatch.setattr("weir_lab.bench.testbeds.netns.clean", list)
    expected = re.escape("; ".join(missing))
    with pytest.raises(TestbedError, match=expected), open_testbed(TestbedKind.NETNS, Topology(), Shape(1, 0, 1)):
        pytest.fail("it was made")


def test_the_commands_about_testbeds(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["testbeds"])
    assert shown.output.startswith("local: usable")
    assert "netem" in shown.output or shown.exit_code == 1
    if os.geteuid() == 0:
        assert CliRunner().invoke(app, ["clean"]).exit_code == 0
    refused = CliRunner().invoke(app, ["links", str(tmp_path)])
    assert isinstance(refused.exception, TestbedError)
    assert "nothing is overwritten" in str(refused.exception)


def test_a_study_does_not_change_with_the_testbed() -> None:
    assert "testbed" not in STUDY_TEXT


@needs_network
def test_nothing_delays_packets_where_all_delays_are_zero() -> None:
    # A device that delays nothing takes CPU time from what is measured.
    links = Links(client_delay_ms=0.0, proxy_delay_ms=0.0, server_delay_ms=0.0)
    with open_testbed(TestbedKind.NETNS, Topology(links=links), Shape(1, 0, 1)) as testbed:
        assert testbed.network() is None
        assert testbed.record.delayed_by is None
        assert not any("delay" in note for note in testbed.record.notes)


@needs_network
@needs_quota
@needs_device
def test_machines_are_built_at_the_speed_of_the_study() -> None:
    topology = Topology(speed=0.5, cpu=Cpus(client=0.4))
    with open_testbed(TestbedKind.NETNS, topology, Shape(1, 0, 1)) as testbed:
        record = testbed.record
        before = testbed.network()
        pair = testbed.measure_pair("client-0", "server-0", 0.1)
        after = testbed.network()
    client, server = record.machines
    assert (client.link_mbit_s, client.delay_ms, client.cpus) == pytest.approx((100.5, 0.64, 0.2))
    assert (server.link_mbit_s, server.delay_ms) == pytest.approx((50.5, 0.76))
    assert server.cpus is None
    assert record.speed == 0.5
    if KERNEL.has("netem"):
        assert (record.delayed_by, before) == ("netem", None)
        return
    assert record.delayed_by is not None
    assert record.delayed_by.startswith("weir-delay (")
    assert pair.asked_delay_ms == pytest.approx(0.76)
    assert before is not None
    assert after is not None
    assert after.packets > before.packets + 300
    assert after.cpu_ns > before.cpu_ns
    assert after.shortest_delay_us == pytest.approx(640.0)


@needs_network
@needs_device
def test_the_delay_device_keeps_to_its_core() -> None:
    """Left to the kernel it had half of the proxy's core in some runs, and their throughput was half of that of others."""
    core = min(os.sched_getaffinity(0))
    with open_testbed(TestbedKind.NETNS, Topology(cores=Cores(network=(0,))), Shape(1, 0, 1)) as testbed:
        kept = [os.sched_getaffinity(pid) for pid in testbed.own_processes()]
        said = testbed.record.delayed_by or ""
    if not KERNEL.has("netem"):
        assert kept == [{core}]
        assert "on core 0" in said
    absent = Topology(cores=Cores(network=(4_095,)))
    with pytest.raises(StudyError, match="network is pinned to cores"):
        open_testbed(TestbedKind.NETNS, absent, Shape(1, 0, 1)).__enter__()
