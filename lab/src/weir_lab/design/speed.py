"""How slowly a study must run here, and which CPU quotas its machines get, so that what limited it in the study limits it here.

The study's largest throughput `X` and the CPU time `D` that a request takes in each tier say what each tier uses at the study's speed:
`X D` CPUs. A tier that must not limit gets a quota of which it uses 70 %; one that limits gets what it uses. The kernel's network and the
delay device have no quota, and take what they take. All of it, times the speed, must fit into 85 % of this machine::

    speed = 0.85 cores / (sum of quotas + X (kernel and device))

Start with `choose_speed`. Utilization law: Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design.topology import SPEED_MIN
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FULL_MAX", "USED_MAX", "Choice", "choose_speed"]

FULL_MAX = 0.85
"""The share of this machine's CPUs that roles, kernel network and delay device may take together."""
USED_MAX = 0.7
"""The share of its quota that a tier uses which must not limit."""


@dataclass(frozen=True)
class Choice:
    """A speed, and quotas at the study's speed: what ``[topology]`` takes."""

    speed: float
    cpus: dict[str, float]
    """CPUs of one machine of each tier."""
    network_cpus: float
    """CPUs that kernel and delay device take here."""

    def lines(self) -> list[str]:
        """For a study file."""
        quotas = [f"{tier} = {cpus:.3g}" for tier, cpus in self.cpus.items()]
        return ["[topology]", f"speed = {self.speed:.3g}", "[topology.cpu]", *quotas]


def choose_speed(
    throughput_rps: float,
    cpu_s: Mapping[str, float],
    machines: Mapping[str, int],
    network_s: float,
    cores: int,
    limit: str | None = None,
) -> Choice:
    """The largest speed at which all fits.

    Parameters
    ----------
    throughput_rps
        The study's largest throughput, requests per second.
    cpu_s
        CPU time of a request, by tier: ``client``, ``proxy``, ``server``; seconds, over all machines of the tier.
    machines
        How many machines each tier has.
    network_s
        CPU time of a request that no role is charged: the kernel's network and the delay device.
    cores
        CPUs of this machine.
    limit
        The tier that limited in the study; ``None`` where a link or the workers did.

    Examples
    --------
    >>> choice = choose_speed(10_000, {"client": 14e-6, "proxy": 40e-6, "server": 7e-6}, {"client": 2}, 30e-6, 2, "proxy")
    >>> [round(choice.cpus[tier], 3) for tier in ("client", "proxy", "server")]
    [0.1, 0.4, 0.1]
    >>> round(choice.speed, 3)
    1.0
    """
    if limit is not None and limit not in cpu_s:
        raise StudyError(f"{limit} is no tier that was measured: there are {', '.join(cpu_s)}.")
    if throughput_rps <= 0 or not cpu_s or min(cpu_s.values()) <= 0:
        raise StudyError("throughput and CPU times must be more than 0: take a sweep in which every role worked.")
    quotas = {tier: throughput_rps * spent / (1.0 if tier == limit else USED_MAX) for tier, spent in cpu_s.items()}
    network_cpus = throughput_rps * network_s
    speed = min(1.0, FULL_MAX * cores / (sum(quotas.values()) + network_cpus))
    if speed < SPEED_MIN:
        raise StudyError(f"the study would run at {speed:.2g} of its speed, below {SPEED_MIN:g}: use larger machines.")
    each = {tier: quota / machines.get(tier, 1) for tier, quota in quotas.items()}
    return Choice(speed, each, network_cpus * speed)
