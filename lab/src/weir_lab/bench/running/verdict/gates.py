"""Gates: whether a run counts, and what a reader should know about it.

Wrong replies, errors, misses, lost requests and missing records make a run invalid. A busy load generator, a busy machine or a law that is
off by more than the study allows is flagged: the numbers are true, but they may describe something else than the proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR
from weir_lab.bench.running.verdict.obeyed import disobeyed
from weir_lab.design import RequestPath
from weir_lab.records import Run, Verdict
from weir_lab.records.formats import LoadRecord, subtract_snapshots
from weir_lab.records.runs import TOO_FULL
from weir_lab.records.tables.found import kept_up, sent_late
from weir_lab.theory.laws import counts_agree, cycle_law, stages_add_up

if TYPE_CHECKING:
    from weir_lab.design import Gates, Settings
    from weir_lab.records import CpuRecord
    from weir_lab.records.formats import Phase

__all__ = ["judge"]

# A network that delays by more or less than was asked for is another network; as far as the median of its times goes.
_DELAY_OFF_MAX = 0.05
# Machines with quotas count as machines of their own as long as all of them together leave some of the real one.
_FULL_MAX = 0.85

# A load generator that its own CPU quota holds for longer measures its quota.
_CLIENT_THROTTLED_SHARE_MAX = 0.02
# Readings that cover less than half of the measured phase, or twice as much, are about something else. In runs of seconds they are
# some milliseconds off; in runs of half a second on a machine that others use, a fifth.
_EDGES_APART_MIN, _EDGES_APART_MAX = 0.5, 2.0


def judge(run: Run, gates: Gates, problems: list[str], usual_ns: float | None = None) -> Verdict:
    """Verdict on a run; `problems` are what went wrong while it ran (a role that died, a snapshot that failed).

    ``usual_ns`` is what the yardstick takes in runs of this cell, none where too few are there. Whether the machine was busy or out of
    its usual speed is said by it and by the CPU time of others alone, never by what was measured: to drop slow runs makes systems fast.
    """
    settings = run.meta.settings
    reasons, busy = list(problems), list[str]()
    flags: list[str] = []
    # A record that is missing because something went wrong is no reason of its own.
    if run.load is None and not problems:
        reasons.append("no load.json: the load generator did not finish")
    elif run.load is not None:
        reasons += _client_faults(run.load, settings, gates)
        if not reasons:
            reasons += disobeyed(run)
        if not reasons:
            flags += _client_flags(run, run.load, gates)
    if run.cpu is None and not problems:
        reasons.append("no cpu.json: the edges of the measured phase were not seen")
    elif run.cpu is not None:
        reasons += _client_throttled(run.cpu)
        reasons += _network_faults(run.cpu)
        reasons += _too_full(run)
        reasons += _edges_apart(run.cpu, run.load) if run.load is not None else []
        # A target on this machine is neither one of our roles nor somebody else's.
        if run.cpu.other_share > gates.other_cpu_share_max and not any(map(_is_here, run.meta.targets)):
            elsewhere = f"{100 * run.cpu.other_share:.0f} % of the machine's CPU time went elsewhere"
            (busy if gates.busy_machine == "invalid" else flags).append(elsewhere)
        busy += _unusual_speed(run.cpu, gates, usual_ns)
    if settings.path is RequestPath.PROXY and settings.subject == WEIR:
        reasons += _proxy_faults(run)
        if not reasons:
            flags += _proxy_flags(run, gates)
    elif settings.path is RequestPath.PROXY and settings.subject == NUTCRACKER:
        reasons += _nutcracker_faults(run)
    return Verdict(valid=not reasons + busy, reasons=reasons + busy, flags=flags, busy=bool(busy) and not reasons)


def _unusual_speed(cpu: CpuRecord, gates: Gates, usual_ns: float | None) -> list[str]:
    """Against a neighbour on the same cores, whom no counter of this machine shows."""
    slowness_ns = cpu.slowness_ns()
    if gates.yardstick_off_max is None or usual_ns is None or slowness_ns is None:
        return []
    off = slowness_ns / usual_ns - 1.0
    if abs(off) <= gates.yardstick_off_max:
        return []
    return [f"the yardstick took {100 * off:+.0f} % of its usual time in such a run: the machine was not as usual"]


def _is_here(target: str) -> bool:
    return target.startswith(("127.", "localhost:", "[::1]:"))


def _client_faults(load: LoadRecord, settings: Settings, gates: Gates) -> list[str]:
    faults = []
    if load.requests == 0 or load.response_time_count == 0:
        faults.append("no request was answered in the measured phase")
    for name, phase in load.phases.items():
        for what, count in (
            ("error replies", phase.errors),
            ("misses", _too_many_misses(phase, gates)),
            ("failed verifications or broken connections", phase.failures),
        ):
            if count:
                faults.append(f"{count} {what} in phase {name}")
    if load.failures.count and not any("failed verifications" in fault for fault in faults):
        faults.append(f"{load.failures.count} failed verifications or broken connections")
    if load.failures.first:
        faults.append(f"first failure: {load.failures.first[0][:200]}")
    if load.measured.requests != load.requests:
        faults.append(f"measured phase counts {load.measured.requests} requests, its operations {load.requests}")
    if (load.config.connections, load.config.depth) != (settings.clients, settings.depth):
        faults.append(f"ran {load.config.connections} connections x depth {load.config.depth}, not the cell's")
    return faults


def _too_many_misses(phase: Phase, gates: Gates) -> int:
    return phase.misses if phase.misses > gates.miss_share_max * phase.requests else 0


def _client_throttled(cpu: CpuRecord) -> list[str]:
    faults = []
    for name, use in cpu.machines.items():
        share = (use.throttled_ns or 0) / cpu.interval_ns
        if name.startswith("client-") and share > _CLIENT_THROTTLED_SHARE_MAX:
            faults.append(
                f"{name} stood still for {100 * share:.1f} % of the measured phase because of its CPU quota: give clients more"
            )
    return faults


def _network_faults(cpu: CpuRecord) -> list[str]:
    """A delay device that loses packets, or is too late at the median, made another network than the study's."""
    network = cpu.network
    if network is None:
        return []
    faults = []
    if network.dropped_packets:
        faults.append(f"the delay device dropped {network.dropped_packets} of {network.packets} packets")
    late = (network.late_median_us or 0.0) / network.shortest_delay_us if network.shortest_delay_us else 0.0
    if abs(late) > _DELAY_OFF_MAX:
        faults.append(
            f"packets left the delay device {network.late_median_us:+.0f} µs off at the median, {100 * late:+.0f} % of the shortest "
            "delay: the machine was too busy"
        )
    return faults


def _too_full(run: Run) -> list[str]:
    """With a quota for each machine, whether all of them, the network and the kernel leave some of the real machine.

    What others used is not in it: they have a rule of their own, and are gone when the run is tried again. This rule is about what the run
    did, and a faster one uses more: of a cell near the border the slower runs pass. So reports say how many attempts of which cells fell.
    """
    cpu, testbed = run.cpu, run.meta.testbed
    if cpu is None or testbed is None or testbed.shares_cpu or testbed.kind == "hosts":
        return []
    used = (cpu.busy_ns - (cpu.others_ns or 0)) / cpu.interval_ns
    if used <= _FULL_MAX * cpu.cores:
        return []
    return [
        f"{used:.2f} of {cpu.cores} CPUs were busy, and {_FULL_MAX * cpu.cores:g} may be: {TOO_FULL}. "
        "Run it on a quieter machine, or make topology.speed smaller"
    ]


def _client_flags(run: Run, load: LoadRecord, gates: Gates) -> list[str]:
    """The busiest of several generators limits the throughput as well as a single one."""
    flags, settings = [], run.meta.settings
    share = max(_busy_share(one) for one in run.generators or [load])
    if share > gates.client_cpu_share_max:
        flags.append(f"load generator used {100 * share:.0f} % of its threads' time: it limits the throughput")
    if settings.is_open:
        return flags + _schedule_flags(load)
    mean_ns = load.response_time_sum_ns / load.response_time_count
    law = cycle_law(load.throughput_rps, settings.population, mean_ns, settings.think_time_s)
    if abs(law.deviation) > gates.law_deviation_max:
        flags.append(f"mean response time is {100 * law.deviation:+.1f} % off the interactive law")
    return flags


def _schedule_flags(load: LoadRecord) -> list[str]:
    """Whether the system kept up with what was offered, and the generator with its schedule."""
    offered = load.scheduled
    if offered is None or offered.arrivals == 0:
        return ["the generator tells no schedule: whether it kept to the rate is not known"]
    flags = []
    if sent_late(load):
        share = 100 * offered.late / offered.arrivals
        flags.append(f"{share:.1f} % of the requests were sent late by the load generator itself")
    if not kept_up(load):
        share = 100 * load.throughput_rps / offered.offered_rate_rps
        flags.append(
            f"only {share:.0f} % of the offered rate was answered in the measured phase: it is above the capacity"
        )
    return flags


def _edges_apart(cpu: CpuRecord, load: LoadRecord) -> list[str]:
    measured_ns = load.measured.duration_ns
    if not measured_ns or _EDGES_APART_MIN <= cpu.interval_ns / measured_ns <= _EDGES_APART_MAX:
        return []
    return [
        f"the edges of the measured phase were read {cpu.interval_ns / 1e9:.2f} s apart, and it took {measured_ns / 1e9:.2f} s: "
        "the machine was too busy to be watched"
    ]


def _busy_share(load: LoadRecord) -> float:
    return (load.cpu.user_ns + load.cpu.system_ns) / (load.measured.duration_ns * load.config.threads)


def _nutcracker_faults(run: Run) -> list[str]:
    if run.peer is None:
        return ["nutcracker's counters are missing"]
    faults = [f"nutcracker counts {count} {name}" for name, count in run.peer.troubles.items()]
    # A multi-get is counted once per server that got a part of it.
    if run.load is not None and run.load.generator == WEIR and run.meta.settings.multiget_keys == 1:
        counts = counts_agree(run.load.requests_of_all_phases, run.peer.responses)
        if not counts.holds:
            faults.append(f"nutcracker counted {counts.observed} answers, the client {counts.expected}")
    return faults


def _proxy_faults(run: Run) -> list[str]:
    if run.before is None or run.after is None or run.end is None:
        return ["a snapshot of the proxy is missing"]
    faults = []
    measured = subtract_snapshots(run.after, run.before)
    if measured.requests == 0:
        faults.append("the proxy saw no request in the measured phase")
    if measured.errors:
        faults.append(f"{measured.errors} error replies by the proxy")
    stages = stages_add_up(measured.stage_sum_ns.values(), measured.total_sum_ns)
    if not stages.holds:
        faults.append(f"stages of the proxy differ from its total by {stages.difference} ns")
    if run.load is not None:
        counts = counts_agree(run.load.requests_of_all_phases, run.end.requests)
        # Another generator leaves without waiting for what is in flight, and does not count it.
        in_flight = 0 if run.load.generator == WEIR else run.meta.settings.population
        if abs(counts.observed - counts.expected) > in_flight:
            faults.append(f"proxy counted {counts.observed} requests, the client {counts.expected}")
    return faults


def _proxy_flags(run: Run, gates: Gates) -> list[str]:
    """Doubts about what was measured where: the proxy lies inside the client's time, and both saw the same phase."""
    if run.load is None or run.before is None or run.after is None:
        return []
    flags = []
    measured = subtract_snapshots(run.after, run.before)
    residence_ns = measured.total_sum_ns / measured.total_count
    response_ns = run.load.response_time_sum_ns / run.load.response_time_count
    if residence_ns > response_ns:
        flags.append(
            f"the proxy's mean time ({residence_ns / 1e3:.1f} µs) is longer than the client's ({response_ns / 1e3:.1f} µs)"
        )
    rate_rps = measured.requests / measured.interval_ns * 1e9
    deviation = rate_rps / run.load.throughput_rps - 1.0
    if abs(deviation) > gates.law_deviation_max:
        flags.append(
            f"the proxy's arrival rate between the snapshots is {100 * deviation:+.1f} % off the client's throughput"
        )
    return flags
