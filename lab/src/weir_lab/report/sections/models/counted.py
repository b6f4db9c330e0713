"""What a request takes of each device of a cell, counted: CPU time over quotas, bytes over links, the proxies' network threads.

Where the testbed counted bytes on the wire those are taken, else the payload, which leaves out headers. CPU time is over the quota of the
role's machines; where roles share the CPUs of one machine that is one station for all of them. Servers, and links that a proxy waits for,
are visited while a worker is held. Start with `devices_of`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from weir_lab.design import Engine, RequestPath, Role
from weir_lab.report.numbers.comparing import AT_ONE_SPEED, throughput_of
from weir_lab.report.numbers.stations import CPU_QUOTAS, MACHINE, link_bounds
from weir_lab.theory.fitting.devices import Device

if TYPE_CHECKING:
    from collections.abc import Callable

    from weir_lab.design import Settings
    from weir_lab.records.places import TestbedRecord
    from weir_lab.report.numbers.comparing import Levels
    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings

__all__ = ["SHARED", "built_delays", "burst_s", "devices_of"]

SHARED = MACHINE
"""The station of roles that have no CPUs of their own."""

_ROLES = {"client": Role.CLIENT, "proxy": Role.PROXY, "server": Role.SERVERS}
# A client's connection goes from one machine to one proxy, and stays; which server it asks is another at each request.
_OWN = {"client", "proxy"}
# As `bench.network.namespaces` fills its buckets.
_BURST_S, _BURST_BYTES_MIN = 0.004, 16_384
# From this share of writes on a proxy's uplink carries mostly what its workers wait for.
_WRITES = 0.5


def devices_of(
    cell: CellReadings, sweep: SweepReadings, levels: Levels = AT_ONE_SPEED
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Devices with seconds per visit as they were counted in a cell, mean over runs, and what could not be counted, in words."""
    found: list[Device] = []
    missing: list[str] = []
    testbed = sweep.testbed
    if testbed is None or testbed.shares_cpu:
        whole = levels.mean(cell, _machine_cpu_s)
        if whole is None:
            missing.append("no CPU time of the machine is recorded, so no station stands for it")
        else:
            cores = max(run.run.cpu.cores for run in cell.runs if run.run.cpu is not None)
            found.append(Device(SHARED, whole, servers=cores))
    else:
        for tier, role in _roles(cell.settings).items():
            spent = levels.mean(cell, _cpu_s_of(role))
            if spent is None:
                missing.append(f"no CPU time of the {tier} machines is recorded")
            else:
                found.append(_cpus(tier, spent, cell.settings, testbed))
    thread = levels.mean(cell, _network_thread_s)
    if thread is not None:
        found.append(Device("network thread", thread, count=cell.settings.proxies, own=True))
    elif cell.settings.engine is not Engine.EVENT and cell.settings.path is RequestPath.PROXY:
        missing.append("CPU time of the network thread is not recorded")
    if testbed is not None and sweep.links_built:
        links, by_payload = _links(cell, sweep, testbed, levels)
        found += links
        if by_payload:
            missing.append("bytes on the wire were not counted: links are known by payload, without headers")
    return tuple(found), tuple(missing)


def built_delays(testbed: TestbedRecord | None, path: RequestPath = RequestPath.PROXY) -> tuple[float, float]:
    """Delays in seconds that the testbed gives every request: outside (to the proxy and back to the client), inside (servers and back).

    A machine's delay is that of what it receives. Of a tier whose machines differ the shortest counts: it is certain. A sweep may have
    both paths on one testbed: what goes directly meets no proxy.
    """
    least: dict[str, float] = {}
    for machine in testbed.machines if testbed is not None else []:
        tier, delay = machine.name.partition("-")[0], (machine.delay_ms or 0.0) / 1e3
        least[tier] = min(delay, least.get(tier, delay))
    proxy = least.get("proxy", 0.0) if path is RequestPath.PROXY else 0.0
    return proxy + least.get("client", 0.0), proxy + least.get("server", 0.0)


def burst_s(mbit_s: float) -> float:
    """Seconds' worth of a link of the testbed netns that pass at once after a pause: its buckets hold 4 ms, and 16 KiB at least."""
    return max(_BURST_S, 8 * _BURST_BYTES_MIN / (mbit_s * 1e6))


def _roles(settings: Settings) -> dict[str, Role]:
    """The tiers that a request meets."""
    direct = settings.path is RequestPath.DIRECT
    return {tier: role for tier, role in _ROLES.items() if not (direct and tier == "proxy")}


def _cpus(tier: str, spent_s: float, settings: Settings, testbed: TestbedRecord) -> Device:
    """The CPUs of a tier: as fast as their quota, or one for each thread."""
    machines = _machines(tier, settings)
    quotas = [machine.cpus for machine in testbed.machines if machine.name.startswith(f"{tier}-")]
    known = [quota for quota in quotas if quota]
    share, together = _shared_out(tier, settings)
    if known and len(known) == len(quotas):
        quota = sum(known) / len(known)
        return Device(
            CPU_QUOTAS[tier],
            spent_s / share / quota,
            share,
            machines,
            1,
            tier == "server",
            together,
            own=tier in _OWN,
            quota=quota,
        )
    threads = {
        "client": settings.client_threads * settings.instances,
        "proxy": settings.proxy_threads + (settings.workers or 0),
        "server": settings.server_threads,
    }
    return Device(
        f"{tier} CPUs", spent_s / share, share, machines, threads[tier], tier == "server", together, own=tier in _OWN
    )


def _links(
    cell: CellReadings, sweep: SweepReadings, testbed: TestbedRecord, levels: Levels
) -> tuple[list[Device], bool]:
    """The uplinks of each tier, and whether one is known by payload alone."""
    settings, found, by_payload = cell.settings, [], False
    planned = sweep.study.topology.built_links
    payload = {bound.tier: bound for bound in link_bounds(settings, planned)}
    for tier in _roles(settings):
        name = f"{tier} uplinks"
        rates = [machine.link_mbit_s for machine in testbed.machines if machine.name.startswith(f"{tier}-")]
        known = [rate for rate in rates if rate is not None]
        wire = levels.mean(cell, _wire_bytes_of(tier))
        share, together = _shared_out(tier, settings)
        inside = tier == "server" or (tier == "proxy" and settings.write_ratio >= _WRITES)
        machines = _machines(tier, settings)
        if wire is not None and known:
            service = 8e-6 * wire / (sum(known) / len(known)) / share
            burst = burst_s(sum(known) / len(known)) if testbed.kind == "netns" else 0.0
            found.append(
                Device(name, service, share, machines, 1, inside, together, known=True, own=tier in _OWN, burst_s=burst)
            )
        elif name in payload:
            by_payload = True
            # What the machine could send counts, which may differ from what the study asked for.
            slower = getattr(planned, f"{tier}_mbit_s") / (sum(known) / len(known)) if known else 1.0
            found.append(Device(name, slower * machines / payload[name].requests_per_s, 1.0, machines, 1, inside))
    return found, by_payload


def _shared_out(tier: str, settings: Settings) -> tuple[float, bool]:
    """Visits of a request to all machines of a tier, and whether it is at all of them at once: a write to each replica."""
    everywhere = tier == "server" and settings.replicas == settings.servers > 1 and settings.write_ratio >= _WRITES
    return (float(settings.servers), True) if everywhere else (1.0, False)


def _machines(tier: str, settings: Settings) -> int:
    return {"client": settings.client_machines, "proxy": settings.proxies, "server": settings.servers}[tier]


def _network_thread_s(run: Reading) -> float | None:
    """CPU time of the proxies' network threads per request."""
    cores = run.network_thread
    return None if cores is None else cores / throughput_of(run)


def _machine_cpu_s(run: Reading) -> float | None:
    return run.machine_cpu_s


# One function for each role and tier, so that the model of its numbers is made once for all cells.
@cache
def _cpu_s_of(role: Role) -> Callable[[Reading], float | None]:
    return lambda run: run.cpu_s(role)


@cache
def _wire_bytes_of(tier: str) -> Callable[[Reading], float | None]:
    return lambda run: run.wire_bytes(tier)
