from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from weir_lab.bench.machine import processes
from weir_lab.bench.machine.processes import (
    Processes,
    cpu_ns,
    free_ports,
    machine_busy_ns,
    others_ns,
    prefer_thread,
    wait_until,
)
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from typing import Any


def test_everything_started_is_stopped_and_reaped_whatever_happens(tmp_path: Path) -> None:
    pids: list[int] = []
    started = Processes(tmp_path)

    def fail_in_the_middle() -> None:
        with started:
            pids.extend(started.start("servers", f"sleeper-{n}", ["sleep", "60"]).popen.pid for n in range(3))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in_the_middle()
    assert len(pids) == 3
    assert [process.popen.returncode for process in started.started] == [-15] * 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_process_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STOP_S", 0.2)
    with Processes(tmp_path) as started:
        stubborn = started.start(
            "servers", "stubborn", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]
        )
        said = tmp_path / "stubborn.stdout"
        wait_until(lambda: said.read_text() == "ready\n", stubborn, 10.0, "trap set")
    assert stubborn.popen.returncode == -9


def test_what_has_nothing_to_lose_is_killed_when_all_others_have_gone(tmp_path: Path) -> None:
    # It would end by being asked, and say so; the other one says whether it was still there then.
    with Processes(tmp_path) as started:
        lasting = started.start("servers", "lasting", ["sleep", "60"], abrupt=True)
        says = (
            f"trap 'kill -0 {lasting.popen.pid} && echo there; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
        )
        asked = started.start("proxy", "asked", ["sh", "-c", says])
        said = tmp_path / "asked.stdout"
        wait_until(lambda: said.read_text() == "ready\n", asked, 10.0, "trap set")
    assert (asked.popen.returncode, lasting.popen.returncode) == (0, -9)
    assert said.read_text() == "ready\nthere\n"


def test_an_interrupt_while_a_process_starts_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        popen: subprocess.Popen[str] = real(*arguments, **options)
        pids.append(popen.pid)
        signal.raise_signal(signal.SIGINT)
        return popen

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), Processes(tmp_path) as started:
        started.start("servers", "sleeper", ["sleep", "60"])
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_process_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as started:
        process = started.start("proxy", "proxy", ["sh", "-c", "echo address in use >&2; exit 3"])
        with pytest.raises(TestbedError, match=r"proxy ended early with status 3\. Its last words: address in use"):
            wait_until(lambda: False, process, 10.0, "connections")


def test_a_process_that_never_gets_ready_is_reported(tmp_path: Path) -> None:
    with Processes(tmp_path) as started:
        process = started.start("proxy", "proxy", ["sleep", "60"])
        with pytest.raises(TestbedError, match=r"proxy was not ready within 0 s \(VERSION\)"):
            wait_until(lambda: False, process, 0.0, "VERSION")


def test_a_program_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with Processes(tmp_path) as started, pytest.raises(TestbedError, match="no-such-program cannot be started"):
        started.start("servers", "server", ["no-such-program"])


def test_output_goes_to_files(tmp_path: Path) -> None:
    with Processes(tmp_path) as started:
        process = started.start("client", "load", ["sh", "-c", "echo out; echo err >&2"])
        process.popen.wait()
    assert (tmp_path / "load.stdout").read_text() == "out\n"
    assert process.last_words() == "err"


def test_free_ports_differ_and_lie_below_the_range_of_outgoing_connections() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(1024 < port < 32_768 for port in ports)


def test_cpu_time_is_what_the_process_spent() -> None:
    before, began = cpu_ns(os.getpid()), time.process_time_ns()
    while time.process_time_ns() - began < 100_000_000:
        pass
    spent = cpu_ns(os.getpid()) - before
    # Two clocks of the kernel for the same thing; the scheduler's is brought up to date at its ticks.
    assert 80_000_000 < spent < 1_000_000_000
    assert machine_busy_ns() > 0


def test_cores_that_this_process_may_not_use_are_another_machine() -> None:
    """What runs there is nobody's disturbance here: runs on other cores of a large machine do not make those of this one invalid."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    with subprocess.Popen(["taskset", "--cpu-list", str(cores[1]), "sh", "-c", "while :; do :; done"]) as neighbour:
        all_but_it = {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()} - {
            neighbour.pid
        }

        def seen_on(some: list[int]) -> tuple[int, int]:
            os.sched_setaffinity(0, some)
            return machine_busy_ns(), others_ns(all_but_it)

        try:
            one, both = seen_on(cores[:1]), seen_on(cores[:2])
            began = cpu_ns(neighbour.pid)
            while cpu_ns(neighbour.pid) - began < 500_000_000:
                time.sleep(0.01)
            one_later, both_later = seen_on(cores[:1]), seen_on(cores[:2])
        finally:
            os.sched_setaffinity(0, cores)
            neighbour.kill()
    for place in range(2):  # busy, others
        assert both_later[place] - both[place] >= one_later[place] - one[place] + 300_000_000


def test_cpu_time_of_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(TestbedError, match="cannot be read"):
        cpu_ns(2**22 + 1)


def test_a_thread_is_preferred_by_its_name_and_no_other(tmp_path: Path) -> None:
    with Processes(tmp_path) as started:
        sleeper = started.start("servers", "sleeper", ["sleep", "60"]).popen.pid
        wait_until_named(sleeper, "sleep")
        prefer_thread(sleeper, "another")
        inherited = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, sleeper) == inherited
        prefer_thread(sleeper, "sleep")
        # Without the right to, nothing happens, and nothing fails.
        assert os.getpriority(os.PRIO_PROCESS, sleeper) == (-10 if os.geteuid() == 0 else inherited)
    prefer_thread(sleeper, "sleep")


def wait_until_named(pid: int, name: str) -> None:
    deadline = time.monotonic() + 10.0
    while Path(f"/proc/{pid}/comm").read_text().strip() != name and time.monotonic() < deadline:
        time.sleep(0.001)
