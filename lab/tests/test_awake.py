"""Cores that are kept from sleeping while a run is made: by processes that give way to all others, and that count as idling."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from namespaces import eventually, left_by, needs_network, needs_quota
from weir_lab.bench.machine.processes import Processes, cpu_ns
from weir_lab.bench.machine.watching import glance
from weir_lab.bench.running.edges import take_edge
from weir_lab.bench.running.starting import Executables, Starter, keep_awake
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design.topology import Cores, Cpus, Shape, Topology
from weir_lab.records.places import MachineRecord, TestbedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.testbeds import Testbed

# CPU time by which readings must differ: much more than what happens between two of them.
_SPENT_NS = 200_000_000


@pytest.fixture
def testbed(monkeypatch: pytest.MonkeyPatch) -> Testbed:
    opened = open_testbed(TestbedKind.LOCAL, Topology(), Shape(1, 0, 1))
    monkeypatch.setattr(opened, "cores_awake", lambda: [min(os.sched_getaffinity(0))])
    return opened


@pytest.fixture
def awake(tmp_path: Path, testbed: Testbed) -> Iterator[Process]:
    with Processes(tmp_path) as processes:
        (process,) = keep_awake(Starter(processes, testbed, Executables(tmp_path / "weir", "memcached"), tmp_path))
        pid = process.popen.pid
        eventually(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE and cpu_ns(pid) > _SPENT_NS, "it loops")
        yield process
    assert process.popen.returncode is not None


def test_it_gives_way_to_all_others_on_its_core(awake: Process) -> None:
    assert os.sched_getaffinity(awake.popen.pid) == {min(os.sched_getaffinity(0))}
    assert (awake.role, awake.name) == ("awake", f"awake-{min(os.sched_getaffinity(0))}")


def test_its_time_counts_as_idling(awake: Process, testbed: Testbed) -> None:
    pid = awake.popen.pid
    with testbed.yardstick() as yardstick:
        counted = take_edge(testbed, {}, [], yardstick)
        left_out = take_edge(testbed, {}, [], yardstick, {pid})
    assert counted.others_ns is not None
    assert left_out.others_ns is not None
    assert counted.others_ns - left_out.others_ns > _SPENT_NS / 2
    assert counted.busy_ns - left_out.busy_ns > _SPENT_NS / 2
    seen, unseen = glance([], {}, (0, 0)), glance([], {}, (0, 0), {pid})
    assert seen.others_ns - unseen.others_ns > _SPENT_NS / 2
    assert seen.busy_ns - unseen.busy_ns > _SPENT_NS / 2


def test_testbeds_keep_cores_awake_where_the_topology_asks_for_it() -> None:
    shape = Shape(1, 0, 1)
    for kind, topology, cores in (
        (TestbedKind.LOCAL, Topology(awake=True), []),
        (TestbedKind.NETNS, Topology(awake=True), sorted(os.sched_getaffinity(0))),
        (TestbedKind.NETNS, Topology(), []),
    ):
        assert open_testbed(kind, topology, shape).cores_awake() == cores


@needs_network
@needs_quota
def test_it_gives_way_to_a_role_that_has_a_group_of_its_own(tmp_path: Path) -> None:
    """It had half of a core beside a role in a control group, which did not get its quota: SCHED_IDLE gives way within a group alone."""
    loop = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    topology = Topology(awake=True, cores=Cores(server=(0,)), cpu=Cpus(server=0.46))
    with open_testbed(TestbedKind.NETNS, topology, Shape(1, 0, 1)) as opened, Processes(tmp_path) as processes:
        assert opened.identity()["awake"] == "gives way"
        (beside, *_) = keep_awake(Starter(processes, opened, Executables(tmp_path / "weir", "memcached"), tmp_path))
        role = processes.start("servers", "role", opened.machine("server-0").command("role", loop)).popen.pid
        eventually(lambda: cpu_ns(role) > 0, "the role runs")
        before = cpu_ns(role), cpu_ns(beside.popen.pid)
        eventually(lambda: cpu_ns(role) - before[0] > 5 * _SPENT_NS, "it has had a second")
        mine, idle = cpu_ns(role) - before[0], cpu_ns(beside.popen.pid) - before[1]
    # It has all of its quota, and the loop at most what that leaves of the core. It was 0.38 of the two.
    assert mine / (mine + idle) > 0.43
    assert left_by(os.getpid()) == []


def test_reports_say_what_a_loop_that_did_not_give_way_took() -> None:
    """Records of S3 were made so, and its page looked as if its machines had had all of their quotas."""
    machine = {"name": "proxy-0", "address": "10.18.0.1"}
    quotas, none = [MachineRecord(**machine, cpus=0.3)], [MachineRecord(**machine)]
    old = TestbedRecord(kind="netns", machines=quotas, awake=True)
    new = TestbedRecord(kind="netns", machines=quotas, awake=True, awake_gives_way=True)
    assert "waited for up to 4 ms more" in str(old.kept_awake)
    assert old.awake_took_time
    for other in (new, TestbedRecord(kind="netns", machines=none, awake=True)):
        assert str(other.kept_awake).endswith("takes its time to wake it")
        assert not other.awake_took_time
    assert TestbedRecord(kind="netns", machines=quotas).kept_awake is None
