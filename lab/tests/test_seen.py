"""What is seen inside a role: threads by kind, their turns, and waiting in the kernel, from numbers that are known."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weir_lab.bench.machine.processes import thread_times
from weir_lab.bench.running import edges
from weir_lab.bench.running.edges import Edge, cpu_between, take_edge
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.bench.testbeds.base import NetworkState
from weir_lab.design import Role
from weir_lab.records.formats.proxy_records import ProxyWindow, TraceRow, WindowThread
from weir_lab.records.formats.seen import ThreadsUse, kernel_wait_of, threads_between, with_turns

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"


def test_threads_of_a_kind_are_added_and_the_busiest_is_reported() -> None:
    first = {1: ("weir-worker-0", 100, 10), 2: ("weir-worker-1", 200, 20), 3: ("weir-network", 0, 0), 4: ("gone", 5, 5)}
    second = {1: ("weir-worker-0", 150, 11), 2: ("weir-worker-1", 900, 25), 3: ("weir-network", 7, 1), 5: ("new", 9, 9)}
    found = threads_between(first, second)
    assert found == {
        "weir-network": ThreadsUse(threads=1, cpu_ns=7, waited_ns=1, busiest_ns=7),
        "weir-worker": ThreadsUse(threads=2, cpu_ns=750, waited_ns=6, busiest_ns=700),
    }


def window(collected_ns: int, turns: int) -> ProxyWindow:
    made = ProxyWindow.model_validate_json((SAMPLES / "window.json").read_text())
    threads = [
        WindowThread(thread="worker-0", turns=turns, busy_ns=10 * turns),
        WindowThread(thread="worker-1", turns=turns, busy_ns=turns),
    ]
    return made.model_copy(update={"collected_unix_ns": collected_ns, "length_ns": 1000, "threads": threads})


def test_turns_are_those_of_the_windows_between_the_edges() -> None:
    use = {
        "weir-worker": ThreadsUse(threads=2, cpu_ns=1, waited_ns=0, busiest_ns=1),
        "weir-late": ThreadsUse(threads=1, cpu_ns=1, waited_ns=0, busiest_ns=1),
    }
    windows = [window(2500, 1), window(3500, 5), window(4500, 7), window(6001, 100)]
    found = with_turns(use, windows, 2000, 6000)
    assert (found["weir-worker"].turns, found["weir-worker"].busy_ns, found["weir-worker"].windows_ns) == (
        24,
        132,
        2000,
    )
    assert found["weir-late"].turns is None


def row(time_ns: int, arrived_ns: int | None, read_ns: int) -> TraceRow:
    return TraceRow(time_ns, "0-1", "get", "hit", 1, 1, 10, 20, ("a",), 0, arrived_ns, read_ns, 0, 0, 0, 0, 0, 0, 0)


def test_waiting_in_the_kernel_is_that_of_requests_between_the_edges() -> None:
    rows = [row(50, 0, 9), row(150, 100, 130), row(160, 100, 150), row(170, None, 999), row(250, 0, 99)]
    found = kernel_wait_of(rows, 100, 200)
    assert found is not None
    assert (found.count, found.sum_ns) == (2, 80)
    assert kernel_wait_of([row(150, None, 1)], 100, 200) is None


def test_threads_of_this_process_are_seen_with_their_times() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait, name="other")
    other.start()
    try:
        found = thread_times(os.getpid())
        assert len(found) >= 2
        assert found[os.getpid()][1] > 0
    finally:
        done.set()
        other.join()
    assert thread_times(2**30) == {}


def edge(at_ns: int, others: int, network_ns: int | None) -> Edge:
    device = None if network_ns is None else NetworkState(network_ns, 0, 0, 0, 0, 1.0, None, None, None)
    return Edge(at_ns, at_ns, 2 * others, {}, {}, {}, {}, device, {}, {}, others)


def test_the_delay_device_is_a_role_and_no_other_process() -> None:
    """A process that the lab starts beside the roles: its time was counted as others', and runs with links were called busy."""
    found = cpu_between(edge(0, 1000, 500), edge(10_000, 4000, 2500), 0, 2)
    assert found.roles["network"].cpu_ns == 2000
    assert found.others_ns == 1000
    without = cpu_between(edge(0, 1000, None), edge(10_000, 4000, None), 0, 2)
    assert without.others_ns == 3000


def test_threads_of_generators_are_read_before_what_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 runs of S4 14 had them: in the others the generators had gone, as machines and delay device were read first."""
    read: list[str] = []

    def noted(name: str, value: Any) -> Any:
        read.append(name)
        return value

    def running(name: str) -> Any:
        machine = SimpleNamespace(
            name=name, cpu_ns=lambda _process: 1, resident_bytes=lambda _process: noted(f"memory of {name}", 1),
            state=lambda: noted(f"state of {name}", None),
        )  # fmt: skip
        return SimpleNamespace(machine=machine, process=SimpleNamespace(name=name, popen=SimpleNamespace(pid=name)))

    monkeypatch.setattr(edges, "thread_times", lambda pid: noted(f"threads of {pid}", {}))
    monkeypatch.setattr(edges, "others_ns", lambda _ours: noted("others", 0))
    testbed: Any = SimpleNamespace(
        record=SimpleNamespace(kind=TestbedKind.NETNS), busy_ns=lambda: 0, network=lambda: noted("network", None)
    )
    yardstick: Any = SimpleNamespace(read=lambda: noted("yardstick", {}))
    found = take_edge(testbed, {Role.PROXY: [running("proxy-0")]}, [running("client-0")], yardstick)
    assert read[:2] == ["threads of client-0", "threads of proxy-0"]
    assert set(found.threads) == {Role.CLIENT, Role.PROXY}
