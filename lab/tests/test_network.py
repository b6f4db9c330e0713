"""Networks of real namespaces: made, used, taken away, and cleaned up after a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from namespaces import GROUPS, KERNEL, NAMESPACES, eventually, left_by, needs_network, needs_quota, runs, started
from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.network import (
    Link,
    Network,
    Node,
    Owner,
    clean,
    connect_in,
    find_cpu_groups,
    measure_round_trips,
    measure_sending_rate,
    owner_of,
    probe,
    run_in,
    this_process,
)
from weir_lab.bench.network import namespaces as module
from weir_lab.bench.network.quotas import CpuGroups, CpuQuota, in_outermost_group
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator

LINKS = {"client-0": Link(201.0), "server-0": Link(101.0)}


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(this_process(), LINKS) as made:
        yield made


@needs_network
def test_a_network_is_made_and_taken_away_whole() -> None:
    owner = this_process()
    names = {owner.name(part) for part in ("client-0", "server-0", "switch")}
    with Network(owner, LINKS) as network:
        assert names <= namespaces_here()
        assert [node.address for node in network.nodes.values()] == ["10.18.0.1", "10.18.0.2"]
    assert not names & namespaces_here()


@needs_network
def test_machines_reach_each_other_and_only_what_is_in_their_network(network: Network) -> None:
    client, server = network.nodes.values()
    with Network(this_process(), LINKS) as other:
        listener = run_in(server.namespace, lambda: socket.create_server((server.address, 0)))
        with (
            listener,
            connect_in(client.namespace, listener.getsockname()[:2], 10.0) as near,
            listener.accept()[0] as far,
        ):
            near.sendall(b"over the switch")
            assert far.recv(64) == b"over the switch"
            # The other network has the same addresses, and nobody listens there.
            with pytest.raises(ConnectionRefusedError):
                connect_in(other.nodes["client-0"].namespace, listener.getsockname()[:2], 10.0)


@needs_network
def test_the_caller_stays_where_it_is(network: Network) -> None:
    here = str(Path("/proc/self/ns/net").readlink())
    inside = run_in(network.nodes["client-0"].namespace, lambda: str(Path("/proc/thread-self/ns/net").readlink()))
    assert inside != here
    with pytest.raises(ZeroDivisionError):
        run_in(network.nodes["client-0"].namespace, lambda: 1 // 0)
    assert str(Path("/proc/thread-self/ns/net").readlink()) == here
    with pytest.raises(TestbedError, match="weir-nowhere is not there"):
        run_in("weir-nowhere", lambda: None)


@needs_network
def test_a_link_has_the_rate_and_burst_that_were_asked_for(network: Network) -> None:
    for node in network.nodes.values():
        shown = subprocess.check_output(
            ["ip", "netns", "exec", node.namespace, "tc", "-j", "qdisc", "show", "dev", "eth0"]
        )
        bucket = json.loads(shown)[0]
        assert bucket["kind"] == "tbf"
        assert bucket["options"]["rate"] * 8 == node.link.mbit_s * 1e6
        assert bucket["options"]["burst"] == pytest.approx(
            node.link.burst_bytes, rel=0.01
        )  # the kernel rounds to its ticks


@needs_network
def test_no_machine_sends_faster_than_its_link(network: Network) -> None:
    client, server = network.nodes.values()
    size = 4_000_000
    listener = run_in(server.namespace, lambda: socket.create_server((server.address, 0)))
    with listener, connect_in(client.namespace, listener.getsockname()[:2], 30.0) as near, listener.accept()[0] as far:
        near.settimeout(None)
        far.settimeout(30.0)
        before, began = client.traffic(), time.monotonic()
        sender = subprocess.Popen(  # a process, so that neither end waits for the other
            [
                sys.executable,
                "-c",
                f"import socket; s = socket.socket(fileno={near.fileno()}); s.sendall(bytes({size}))",
            ],
            pass_fds=[near.fileno()],
        )
        received = 0
        while received < size:
            part = far.recv(1 << 20)
            assert part, "the connection broke"
            received += len(part)
        took_s = time.monotonic() - began
        assert sender.wait(30.0) == 0
    sent = client.traffic().since(before)
    assert sent.sent_bytes > size  # headers are counted
    assert sent.dropped_packets == 0
    # Holds on any machine, however slow: a link can only be slower than its rate.
    assert took_s > (size - client.link.burst_bytes) * 8 / (client.link.mbit_s * 1e6)


@needs_network
def test_rates_and_round_trips_are_measured_through_the_links(network: Network) -> None:
    client, server = network.nodes.values()
    rate = measure_sending_rate(client, server, 0.2)
    assert rate.wire_mbit_s > 0
    assert rate.payload_mbit_s > 0
    assert rate.seconds >= 0.2
    trips = measure_round_trips(client, server, 20)
    assert trips.count == 20
    assert 0 < trips.min_ms <= trips.median_ms
    assert server.traffic().received_bytes > 0
    with pytest.raises(ValueError, match="give 1 or more"):
        measure_round_trips(client, server, 0)


@needs_network
def test_a_process_runs_on_its_machine_and_ends_with_it(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        with Network(this_process(), LINKS) as network:
            node = network.nodes["server-0"]
            process = processes.start("servers", "sleeper", ["sleep", "60"], started_as=[*node.enter, "sleep", "60"])
            eventually(lambda: name_of(process.popen.pid) == "sleep", "nsenter has become sleep")
            assert str(Path(f"/proc/{process.popen.pid}/ns/net").readlink()) == inside_of(node)
        assert process.popen.wait(30.0) == -signal.SIGKILL


@needs_network
def test_a_network_that_fails_in_the_middle_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = this_process()

    def refuses(*_arguments: str) -> str:
        raise TestbedError("tc was refused on purpose")

    monkeypatch.setattr(module, "tc", refuses)
    with pytest.raises(TestbedError, match="on purpose"), Network(owner, LINKS):
        pytest.fail("it was made")
    assert not [name for name in namespaces_here() if owner_of(name) == owner]


@needs_network
def test_what_the_kernel_refuses_is_reported_with_its_words() -> None:
    with (
        pytest.raises(TestbedError, match=r"tc .*rate.*was refused.*`weir-lab testbeds`"),
        Network(this_process(), {"client-0": Link(201.0), "proxy-0": Link(0.0)}),
    ):
        pytest.fail("it was made")
    assert left_by(os.getpid()) == []


def test_a_network_without_machines_is_refused() -> None:
    with pytest.raises(TestbedError, match="1 to 250 machines, not 0"):
        Network(this_process(), {})


# A killed owner -------------------------------------------------------------------------------------------------------------

OWNER = """
import subprocess, sys, time
from pathlib import Path
from weir_lab.bench.network import CpuQuota, Link, Network, find_cpu_groups, this_process
from weir_lab.bench.machine.processes import Processes

groups = find_cpu_groups()
with Network(this_process(), {"client-0": Link(201.0), "server-0": Link(101.0)}) as network, Processes(Path(sys.argv[1])) as processes:
    node = network.nodes["server-0"]
    enter = node.enter
    if not isinstance(groups, str):
        enter = [*CpuQuota(groups, this_process(), "server-0", 0.5).__enter__().enter, *enter]
    bound = processes.start("servers", "bound", ["sleep", "600"], started_as=[*enter, "sleep", "600"])
    # One that does not end with its parent, as a program that forks would leave.
    loose = subprocess.Popen([*enter, "sleep", "600"], start_new_session=True)
    print(bound.popen.pid, loose.pid, flush=True)
    time.sleep(600)
"""


@needs_network
def test_what_a_killed_owner_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    strange = f"strange-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", strange], check=True)
    try:
        with (
            Network(this_process(), LINKS) as ours,
            started([sys.executable, "-c", OWNER, str(tmp_path)]) as owner,
        ):
            assert owner.stdout is not None
            bound, loose = (int(word) for word in owner.stdout.readline().split())
            eventually(lambda: {name_of(bound), name_of(loose)} == {"sleep"}, "both processes are in their namespace")
            clean()
            assert runs(bound)
            assert runs(loose)
            assert len(left_by(owner.pid)) >= 3, "the owner lives, so all of it stays"

            owner.kill()
            owner.wait(30.0)
            eventually(lambda: not runs(bound), "a role ends with the lab")
            assert left_by(owner.pid)
            clean()
            assert left_by(owner.pid) == []
            eventually(lambda: not runs(loose), "what was left in the namespace is ended")
            assert strange in namespaces_here()
            assert {node.namespace for node in ours.nodes.values()} <= namespaces_here()
    finally:
        subprocess.run(["ip", "netns", "del", strange], check=True)


def test_names_tell_their_owner() -> None:
    owner = this_process()
    assert owner.alive
    assert owner_of(owner.name("server-11")) == owner
    assert this_process() != owner
    for name in (
        "weir",
        "weir-1-2-client-0",
        "weird-1-2-3-client-0",
        "weir-1-2-3-",
        "weir-1-2-3-Client",
        "x-weir-1-2-3-a",
    ):
        assert owner_of(name) is None, name
    with pytest.raises(ValueError, match="lower-case letters"):
        owner.name("../client")


def test_a_process_number_that_was_used_again_is_another_owner() -> None:
    owner = this_process()
    assert not Owner(owner.pid, owner.started + 1, 0).alive
    with subprocess.Popen(["sleep", "60"]) as child:
        started = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        known = Owner(child.pid, started, 0)
        assert known.alive
        child.kill()
        eventually(lambda: not known.alive, "a process that is dead is gone, reaped or not")


# Quotas ---------------------------------------------------------------------------------------------------------------------


@needs_network
@needs_quota
def test_a_quota_holds_who_would_use_more(tmp_path: Path) -> None:
    assert isinstance(GROUPS, CpuGroups)
    owner = this_process()
    with CpuQuota(GROUPS, owner, "server-0", 0.05) as quota, Processes(tmp_path) as processes:
        assert quota.throttling().throttled_ns == 0
        argv = [sys.executable, "-c", "while True: pass"]
        processes.start("servers", "busy", argv, started_as=[*quota.enter, *argv])
        eventually(lambda: quota.throttling().throttled_ns > 100_000_000, "the quota is met")
        assert quota.throttling().since(quota.throttling()).periods >= 0
    assert left_by(os.getpid()) == []


@needs_network
@needs_quota
def test_a_thread_that_is_let_out_runs_beside_the_quota(tmp_path: Path) -> None:
    if isinstance(GROUPS, str) or GROUPS.version != 1:
        pytest.skip("single threads leave groups of version 1 alone")
    with CpuQuota(GROUPS, this_process(), "server-0", 0.05) as quota, Processes(tmp_path) as processes:
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        inside = processes.start("servers", "idle", argv, started_as=[*quota.enter, *argv])
        pid = inside.popen.pid

        def groups() -> str:
            return Path(f"/proc/{pid}/task/{pid}/cgroup").read_text(encoding="ascii")

        eventually(lambda: "server-0" in groups(), "it is in the group")
        quota.let_out([pid, 2**22])
        assert "server-0" not in groups()
    assert left_by(os.getpid()) == []


def test_a_quota_below_what_the_kernel_takes_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(TestbedError, match="less than a quota can be"),
        CpuQuota(CpuGroups(1, tmp_path), this_process(), "client-0", 0.0001),
    ):
        pytest.fail("it was set")


def test_quotas_of_version_2_are_written_and_read(tmp_path: Path) -> None:
    owner = this_process()
    quota = CpuQuota(CpuGroups(2, tmp_path), owner, "client-0", 0.2).__enter__()
    group = tmp_path / owner.name("client-0")
    assert (group / "cpu.max").read_text() == "1000 5000"
    assert not quota.has_burst, "a folder has no file for it"
    assert quota.enter[-1] == str(group / "cgroup.procs")
    (group / "cpu.stat").write_text("usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7\n")
    assert quota.throttling().throttled_ns == 7_000
    (group / "cpu.stat").write_text("usage_usec 5\n")
    with pytest.raises(TestbedError, match=r"cpu\.stat cannot be read"):
        quota.throttling()


@pytest.mark.parametrize(
    ("cpus", "quota_us", "period_us"),
    [(0.05, 1_000, 20_000), (0.3, 1_000, 3_333), (1.0, 1_000, 1_000), (2.5, 2_500, 1_000)],
)
def test_periods_are_as_short_as_the_kernel_takes_them(
    tmp_path: Path, cpus: float, quota_us: int, period_us: int
) -> None:
    owner = this_process()
    CpuQuota(CpuGroups(1, tmp_path), owner, "client-0", cpus).__enter__()
    group = tmp_path / owner.name("client-0")
    assert (group / "cpu.cfs_quota_us").read_text() == str(quota_us)
    assert (group / "cpu.cfs_period_us").read_text() == str(period_us)


@needs_quota
def test_what_a_group_leaves_of_a_period_it_may_use_in_the_next() -> None:
    assert not isinstance(GROUPS, str)
    with CpuQuota(GROUPS, this_process(), "client-0", 0.2) as quota:
        names = ("cpu.cfs_burst_us", "cpu.max.burst")
        found = [file.read_text().strip() for name in names for file in GROUPS.folder.glob(f"weir-*-client-0/{name}")]
        assert found == (["1000"] if quota.has_burst else [])


def test_control_groups_of_both_versions_are_found(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "cgroup.controllers").write_text("cpu memory\n")
    (second / "cgroup.subtree_control").write_text("\n")
    assert find_cpu_groups(f"cgroup {first} cgroup rw,cpu,cpuacct 0 0\n") == CpuGroups(1, first)
    assert find_cpu_groups(f"cgroup2 {second} cgroup2 rw 0 0\n") == CpuGroups(2, second)
    assert (second / "cgroup.subtree_control").read_text() == "+cpu"
    (second / "cgroup.controllers").write_text("memory\n")
    assert find_cpu_groups(f"cgroup2 {second} cgroup2 rw 0 0\n") == f"{second} does not have the controller cpu"
    assert find_cpu_groups("proc /proc proc rw 0 0\n") == "no control groups are mounted"


# What is missing ------------------------------------------------------------------------------------------------------------


def test_who_is_not_root_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert probe().missing == ["not root: only root makes namespaces; run the same command with sudo"]


def test_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir_lab.bench.network.kernel.find_program", lambda name: None if name == "tc" else name)
    assert "tc is not installed: install the package iproute2, or run scripts/setup" in probe().missing


@needs_network
def test_what_is_tried_is_taken_away() -> None:
    kernel = probe()
    assert kernel.missing == []
    assert kernel.words("nothing of that name") == "not tried"
    assert {facility.name for facility in KERNEL.facilities} >= {
        "namespaces",
        "veth",
        "bridge",
        "token bucket",
        "netem",
    }
    assert left_by(os.getpid()) == []


def namespaces_here() -> set[str]:
    """Names of all namespaces of this machine."""
    return {file.name for file in NAMESPACES.iterdir()}


def name_of(pid: int) -> str:
    """Name of the program that a process runs now."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def inside_of(node: Node) -> str:
    """The namespace of a node as /proc names it."""
    return run_in(node.namespace, lambda: str(Path("/proc/thread-self/ns/net").readlink()))


@needs_quota
def test_a_command_leaves_the_control_group_that_it_is_started_in() -> None:
    """Kernels with RT_GROUP_SCHED refused the delay device its real-time priority in a group: it was late, and no run was valid."""
    assert isinstance(GROUPS, CpuGroups)
    with CpuQuota(GROUPS, this_process(), "below", 0.5) as quota:
        inside = groups_of([*quota.enter])
        outside = groups_of([*quota.enter, *in_outermost_group(GROUPS)])
    assert any(line.endswith("-below") for line in inside)
    assert not any(line.endswith("-below") for line in outside)


def groups_of(enter: list[str]) -> list[str]:
    """Control groups of a process that is started with these words."""
    return subprocess.run(
        [*enter, "cat", "/proc/self/cgroup"], capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_group_that_may_not_be_entered_is_no_reason_to_fail(tmp_path: Path) -> None:
    words = in_outermost_group(CpuGroups(2, tmp_path / "not-there"))
    done = subprocess.run([*words, "echo", "here"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("here\n", "")
    assert in_outermost_group("no control groups are mounted") == []


def test_a_delay_device_without_real_time_priority_is_started_once_more_in_the_outermost_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[list[str]] = []
    closed: list[int] = []

    class Device:
        def __init__(self, _program: Path, enter: list[str], _ports: object, *_words: str) -> None:
            made.append(list(enter))
            self.number = len(made)
            self.first = type("First", (), {"is_real_time": self.number > 1})()

        def close(self) -> None:
            closed.append(self.number)

    monkeypatch.setattr(module, "DelayDevice", Device)
    monkeypatch.setattr(module, "in_outermost_group", lambda: ["outside"])
    network = Network(this_process(), LINKS)
    device = network._delay_device(Path("weir-delay"), [])
    assert (closed, made[1][0], made[1][1:]) == ([1], "outside", made[0])
    assert device.first.is_real_time
