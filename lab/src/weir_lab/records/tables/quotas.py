"""How much of its CPU quota each tier used in a run: `quota_shares`, and which tiers used more than they may: `above`.

A tier that is not to limit leaves 30 % of its quota: nearer to it requests wait for CPU time at a place where the study's did not, and what
is measured is the quota. The share is that of the tier's machines together. The generator counts its own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import Role
from weir_lab.design.topology import quota_period_s

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from weir_lab.records.runs import Run

__all__ = ["CORE_FULL", "NETWORK", "USED_MAX", "above", "core_shares", "quota_periods_s", "quota_shares", "quota_text"]

USED_MAX = 0.7
"""The largest share of its quota that a tier which is not to limit may use."""
CORE_FULL = 0.9
"""From this share on cores that several tiers share are full: what is measured may be them."""
NETWORK = "network"
"""The delay device, which stands beside the tiers."""
_TIERS = {"client": Role.CLIENT, "proxy": Role.PROXY, "server": Role.SERVERS}


def quota_shares(run: Run) -> dict[str, float]:
    """By tier, ``client``, ``proxy``, ``server``; a tier without quotas, or of which nothing is known, is left out."""
    cpu, testbed = run.cpu, run.meta.testbed
    if cpu is None or testbed is None:
        return {}
    found = {}
    for tier, role in _TIERS.items():
        quotas = [machine.cpus for machine in testbed.machines if machine.name.startswith(f"{tier}-")]
        spent = cpu.roles.get(role.value)
        if spent is not None and quotas and all(quotas):
            found[tier] = spent.cpu_ns / cpu.interval_ns / sum(quota for quota in quotas if quota)
    return found


def core_shares(run: Run) -> dict[tuple[str, ...], float]:
    """How much of the cores that several tiers are pinned to these used, by the tiers that share them, and by `NETWORK` the delay device.

    A tier whose machines have different cores, or of which nothing is known, is left out, and so are cores with one tier: what limits that
    is its quota, or its threads.
    """
    cpu, testbed = run.cpu, run.meta.testbed
    if cpu is None or testbed is None:
        return {}
    on: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for tier, role in _TIERS.items():
        places = {tuple(machine.cores) for machine in testbed.machines if machine.name.startswith(f"{tier}-")}
        if len(places) == 1:
            on.setdefault(next(iter(places)), []).append((tier, role.value))
    on.setdefault(testbed.delay_cores, []).append((NETWORK, Role.NETWORK.value))
    found = {}
    for cores, there in on.items():
        known = [(tier, cpu.roles[role].cpu_ns) for tier, role in there if role in cpu.roles]
        if cores and len(known) > 1:
            spent = sum(own for _, own in known)
            found[tuple(tier for tier, _ in known)] = spent / cpu.interval_ns / len(cores)
    return found


def quota_periods_s(run: Run) -> dict[str, float]:
    """By tier the seconds after which the quota of one of its machines begins anew; tiers without, or with several, are left out."""
    machines = run.meta.testbed.machines if run.meta.testbed is not None else ()
    quotas = {tier: {one.cpus for one in machines if one.name.startswith(f"{tier}-")} for tier in _TIERS}
    return {
        tier: quota_period_s(cpus)
        for tier, found in quotas.items()
        if len(found) == 1 and (cpus := next(iter(found))) is not None
    }


def above(shares: Mapping[str, float], limiting: Collection[str]) -> list[str]:
    """Tiers that are not to limit and used more than `USED_MAX`."""
    return [tier for tier, share in shares.items() if tier not in limiting and share > USED_MAX]


def quota_text(run: Run, limiting: Collection[str]) -> str:
    """``of their quotas: client 41 %, proxy 97 % (limits), server 78 % (ABOVE 70 %)``; empty where there are none.

    Where tiers share cores and these were full, it ends with ``; of the cores of client, server and network 96 % (FULL)``.
    """
    shares = quota_shares(run)
    high = above(shares, limiting)
    parts = [
        f"{tier} {100 * share:.0f} %"
        + (" (limits)" if tier in limiting else f" (ABOVE {100 * USED_MAX:g} %)" if tier in high else "")
        for tier, share in shares.items()
    ]
    full = [
        f"; of the cores of {', '.join(tiers[:-1])} and {tiers[-1]} {100 * share:.0f} % (FULL)"
        for tiers, share in core_shares(run).items()
        if share >= CORE_FULL
    ]
    return f"of their quotas: {', '.join(parts)}{''.join(full)}" if parts else ""
