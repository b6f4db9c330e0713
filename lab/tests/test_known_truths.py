"""Known truths are put in and must come out: a system is changed in one place, and its answer moves by as much as theory says.

The quick form asks for a few hundred requests a second, for which even a busy machine has time. The long form has longer runs, and so
shorter intervals. What does not come out is measured again, for longer: a machine that stood still explains it once, and no repetition
makes a half of a whole, which is many margins off.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from namespaces import GROUPS, eventually, needs_network, needs_quota
from test_delaying import PROGRAM, needs_device
from test_run import WEIR, needs_programs
from weir_lab.bench.machine.processes import Processes, cpu_ns
from weir_lab.bench.network import CpuQuota, Link, Network, connect_in, this_process
from weir_lab.records import read_json
from weir_lab.records.formats import LoadRecord
from weir_lab.theory.stats import mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.bench.network import Node
    from weir_lab.theory.stats import Interval

# What theory leaves out: the processors' own time beside links and delays, and requests cut off at the ends of a phase.
MARGIN = 0.03
# An interval wider than this shows nothing.
HALF_WIDTH_MAX = 0.10
PORT = 21_000


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    runs: int
    warmup_s: float
    measured_s: float

    @property
    def again(self) -> Plan:
        """More of it."""
        return Plan(self.runs + 1, self.warmup_s, 1.5 * self.measured_s)


QUICK, LONG = Plan(3, 0.3, 0.6), Plan(8, 0.5, 4.0)
ATTEMPTS = 4
PLANS = [pytest.param(QUICK, id="quick"), pytest.param(LONG, id="long", marks=pytest.mark.long)]


@dataclass(frozen=True)
class Measured:
    """One run."""

    throughput: float
    response_ms: float
    server_cpus: float
    """CPU time of the server per second."""


@dataclass(frozen=True)
class System:
    """What is loaded: a client, a server, and a proxy between them where it has words for one."""

    clients: int
    value_bytes: int = 128
    server_mbit_s: float = 200.0
    delay_ms: float = 5.0
    server_cpus: float | None = None
    proxy: tuple[str, ...] = ()

    def measured(self, folder: Path, plan: Plan) -> list[Measured]:
        """Runs of it, one after the other, on fresh connections."""
        folder.mkdir()
        rates = {"client-0": 200.0, "proxy-0": 200.0, "server-0": self.server_mbit_s}
        links = {name: Link(rate, self.delay_ms) for name, rate in rates.items()}
        with ExitStack() as stack:
            nodes = stack.enter_context(Network(this_process(), links, PROGRAM)).nodes
            quota: list[str] = []
            if self.server_cpus is not None:
                assert not isinstance(GROUPS, str)
                quota = stack.enter_context(CpuQuota(GROUPS, this_process(), "server-0", self.server_cpus)).enter
            processes = stack.enter_context(Processes(folder))
            server, proxy = nodes["server-0"], nodes["proxy-0"]
            argv = ["memcached", "-u", "root", "-l", server.address, "-p", str(PORT), "-t", "1"]
            memcached = processes.start(
                "servers", "server", argv, started_as=[*quota, *server.enter, *argv], abrupt=True
            )
            wait_for(server)
            asked = server
            if self.proxy:
                argv = [
                    str(WEIR),
                    "proxy",
                    "--listen",
                    f"{proxy.address}:{PORT}",
                    "--server",
                    f"{server.address}:{PORT}",
                ]
                processes.start("proxy", "proxy", argv, started_as=[*proxy.enter, *argv, *self.proxy])
                wait_for(proxy)
                asked = proxy
            return [
                self._run(folder, nodes["client-0"], asked, memcached.popen.pid, plan, number)
                for number in range(plan.runs)
            ]

    def _run(self, folder: Path, client: Node, asked: Node, server_pid: int, plan: Plan, number: int) -> Measured:
        record = folder / f"load-{number}.json"
        argv = [str(WEIR), "load", "--target", f"{asked.address}:{PORT}", "--connections", str(self.clients)]
        argv += ["--keys", "50", "--value-size", str(self.value_bytes), "--writes", "0", "--seed", str(number + 1)]
        argv += ["--warmup", f"{plan.warmup_s}s", "--duration", f"{plan.measured_s}s", "--json", str(record)]
        argv += ["--no-prefill"] if number else []
        with Processes(folder) as processes:
            process = processes.start("client", f"load-{number}", argv, started_as=[*client.enter, *argv])
            eventually(lambda: "measured" in process.last_words() or process.popen.poll() is not None, "it measures")
            first = (time.monotonic_ns(), cpu_ns(server_pid))
            assert process.popen.wait(60.0) == 0, process.last_words()
            second = (time.monotonic_ns(), cpu_ns(server_pid))
        load = read_json(record, LoadRecord)
        return Measured(
            load.throughput_rps,
            load.response_time_sum_ns / load.response_time_count / 1e6,
            (second[1] - first[1]) / (second[0] - first[0]),
        )


def wait_for(node: Node) -> None:
    """Wait until somebody listens there."""

    def listens() -> bool:
        try:
            connect_in(node.namespace, (node.address, PORT), 10.0).close()
        except ConnectionRefusedError:
            return False
        return True

    eventually(listens, f"{node.name} listens")


def logs(first: list[float], second: list[float]) -> Interval:
    """Logarithm of second over first, and its 95 % interval over pairs of runs."""
    return mean_interval([math.log(b / a) for a, b in zip(first, second, strict=True)])


def throughputs(runs: list[Measured]) -> list[float]:
    return [run.throughput for run in runs]


@dataclass(frozen=True)
class Claim:
    """What was measured, and what theory predicts; ``unit`` is what margins are parts of."""

    what: str
    measured: Interval
    predicted: float
    unit: float = 1.0

    @property
    def holds(self) -> bool:
        """The interval is short enough to show something, and theory with what it leaves out lies in it."""
        off = abs(self.measured.mean - self.predicted)
        short = self.measured.half_width <= HALF_WIDTH_MAX * self.unit
        return short and off <= self.measured.half_width + MARGIN * self.unit

    def __str__(self) -> str:
        return f"{self.what}: measured {self.measured.mean:.4f} ± {self.measured.half_width:.4f}, predicted {self.predicted:.4f}"


def assert_comes_out(folder: Path, plan: Plan, measure: Callable[[Path, Plan], list[Claim]]) -> None:
    """Whether all claims hold, in one of some attempts."""
    for attempt in range(1, ATTEMPTS + 1):
        part = folder / str(attempt)
        part.mkdir()
        claims = measure(part, plan)
        print(*claims, sep="\n")
        if all(claim.holds for claim in claims):
            return
        plan = plan.again
    raise AssertionError("; ".join(map(str, claims)))


def test_a_claim_holds_only_near_what_was_measured() -> None:
    measured = mean_interval([0.99, 1.0, 1.01])
    assert Claim("", measured, 1.0).holds
    assert Claim("", measured, 1.05).holds
    assert not Claim("", measured, 1.06).holds
    assert not Claim("", measured, math.log(0.5)).holds
    assert not Claim("", mean_interval([0.9, 1.0, 1.1]), 1.0).holds, "the interval shows nothing"


@needs_programs
@needs_network
@needs_device
@pytest.mark.parametrize("plan", PLANS)
def test_a_link_at_half_its_rate_carries_half(tmp_path: Path, plan: Plan) -> None:
    def measure(folder: Path, plan: Plan) -> list[Claim]:
        whole = System(8, 4_096, server_mbit_s=8.0).measured(folder / "whole", plan)
        half = System(8, 4_096, server_mbit_s=4.0).measured(folder / "half", plan)
        waited = logs([run.response_ms for run in whole], [run.response_ms for run in half])
        return [
            Claim("log ratio of throughputs", logs(throughputs(whole), throughputs(half)), math.log(0.5)),
            # A closed loop waits for what it cannot get: R = N / X.
            Claim("log ratio of response times", waited, math.log(2.0)),
        ]

    assert_comes_out(tmp_path, plan, measure)


@needs_programs
@needs_network
@needs_device
@pytest.mark.parametrize("plan", PLANS)
def test_a_delay_twice_as_long_is_waited_for_once_more(tmp_path: Path, plan: Plan) -> None:
    def measure(folder: Path, plan: Plan) -> list[Claim]:
        words = ("--threads", "1")
        once = System(1, delay_ms=10.0, proxy=words).measured(folder / "once", plan)
        twice = System(1, delay_ms=20.0, proxy=words).measured(folder / "twice", plan)
        longer = mean_interval([b.response_ms - a.response_ms for a, b in zip(once, twice, strict=True)])
        # To the proxy, to the server, to the proxy and to the client.
        return [Claim("difference of response times, ms", longer, 4 * 10.0, unit=4 * 10.0)]

    assert_comes_out(tmp_path, plan, measure)


@needs_programs
@needs_network
@needs_device
@pytest.mark.parametrize("plan", PLANS)
def test_one_worker_more_adds_what_one_worker_does(tmp_path: Path, plan: Plan) -> None:
    def measure(folder: Path, plan: Plan) -> list[Claim]:
        words = ("--engine", "pool", "--crew", "fixed", "--workers")
        four = System(24, delay_ms=30.0, proxy=(*words, "4")).measured(folder / "four", plan)
        five = System(24, delay_ms=30.0, proxy=(*words, "5")).measured(folder / "five", plan)
        # A worker holds a request for as long as the way to the server and back takes, and no machine is so fast that it takes less.
        assert all(run.throughput < 4 * (1 + MARGIN) / 0.060 for run in four)
        return [Claim("log ratio of throughputs", logs(throughputs(four), throughputs(five)), math.log(5 / 4))]

    assert_comes_out(tmp_path, plan, measure)


@needs_programs
@needs_network
@needs_quota
@needs_device
@pytest.mark.parametrize("plan", PLANS)
def test_a_server_at_half_its_quota_answers_half(tmp_path: Path, plan: Plan) -> None:
    def measure(folder: Path, plan: Plan) -> list[Claim]:
        whole = System(32, delay_ms=0.3, server_cpus=0.06).measured(folder / "whole", plan)
        half = System(32, delay_ms=0.3, server_cpus=0.03).measured(folder / "half", plan)
        # A request costs a slower server more, which reads fewer at a time, and any server on a machine that others use.
        cost = [[run.server_cpus / run.throughput for run in runs] for runs in (whole, half)]
        at_same_cost = [run.throughput * spent / cost[0][0] for run, spent in zip(half, cost[1], strict=True)]
        at_first = [run.throughput * spent / cost[0][0] for run, spent in zip(whole, cost[0], strict=True)]
        return [
            Claim("CPUs of the server", mean_interval([run.server_cpus for run in whole]), 0.06, unit=0.06),
            Claim("log ratio of throughputs at the same cost", logs(at_first, at_same_cost), math.log(0.5)),
            Claim("log ratio of costs", logs(*cost), 0.0, unit=10.0),
        ]

    assert_comes_out(tmp_path, plan, measure)
