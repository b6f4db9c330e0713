"""What the machines of a study are like: how fast each sends, how far away the others are, how much CPU each has.

Every study has a topology, because every value has a default. A testbed that cannot build a part of it runs without, and the report says
so. Read `Topology` and `Shape` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from weir_lab.errors import StudyError

__all__ = ["CPU_SHARE_MAX", "SPEED_MIN", "Cores", "Cpus", "Links", "Shape", "Topology", "quota_period_s", "tier_of"]

CPU_SHARE_MAX = 0.9
"""The largest share of this machine's CPUs that quotas may add up to: the kernel and the lab need the rest."""
SPEED_MIN = 0.001
"""The slowest that a study may run."""

# The kernel takes no quota and no period below a millisecond.
_QUOTA_S = 1e-3

_Rate = Annotated[float, Field(ge=1.0, le=100_000.0)]
_Delay = Annotated[float, Field(ge=0.0, le=1_000.0)]
_Speed = Annotated[float, Field(ge=SPEED_MIN, le=1.0)]
_Quota = Annotated[float | None, Field(ge=0.01, le=1_024.0)]
_CoreList = Annotated[tuple[Annotated[int, Field(ge=0, le=4_095)], ...], Field(max_length=1_024)]


def quota_period_s(cpus: float) -> float:
    """In how many seconds a machine with a quota of this many CPUs gets its CPU time anew: the shortest period that the kernel takes.

    >>> quota_period_s(0.2), quota_period_s(2.0)
    (0.005, 0.001)
    """
    return max(_QUOTA_S, _QUOTA_S / cpus)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Links(_Strict):
    """What one machine of each tier can send, and how long what it receives is on its way.

    The defaults are those that study S5 measured on its machines (reference data, ``network.csv``): 201, 804 and
    101 Mbit/s. Minimum round trips are 0.67 ms between client and proxy, 0.70 ms between client and server and 0.73
    ms between proxy and server, each the mean of both directions. A round trip is the sum of two machines' delays;
    these three delays are the ones that give the three sums.
    """

    client_mbit_s: _Rate = 201.0
    proxy_mbit_s: _Rate = 804.0
    server_mbit_s: _Rate = 101.0
    client_delay_ms: _Delay = 0.32
    proxy_delay_ms: _Delay = 0.35
    server_delay_ms: _Delay = 0.38


class Cpus(_Strict):
    """CPUs that each machine of a tier may use; without a value, as many as there are, shared with all others."""

    client: _Quota = None
    proxy: _Quota = None
    server: _Quota = None


class Cores(_Strict):
    """Cores that each machine of a tier is pinned to, and the delay device (`network`); an empty list pins nothing.

    The device has real-time priority: where it stands on a full core, it takes its time from the machines there.
    """

    client: _CoreList = ()
    proxy: _CoreList = ()
    server: _CoreList = ()
    network: _CoreList = ()


class Topology(_Strict):
    """``[topology]`` of a study.

    `links` and `cpu` are the study's machines. What is built is those at `speed`: rates and quotas times it, delays divided by it. All
    that happens then happens as in the study, only slower: a throughput divided by `speed` and a time multiplied by it are the
    study's. So machines that are together too large for this one fit, and none takes CPU time from another.
    """

    speed: _Speed = 1.0
    links: Links = Links()
    cpu: Cpus = Cpus()
    cores: Cores = Cores()
    awake: bool = False
    """Whether a loop of the lowest priority keeps each core from sleeping while a run is made. A virtual machine's sleeping core is
    woken by its host, which takes milliseconds where others use the host; links are then slower than they are built to be."""

    @property
    def built_links(self) -> Links:
        """The links as they are built, at `speed`: what throughputs that were measured are held against."""
        # A link that is built may be slower, and its delay longer, than a study's may be.
        return Links.model_construct(
            client_mbit_s=self.mbit_s("client-0"),
            proxy_mbit_s=self.mbit_s("proxy-0"),
            server_mbit_s=self.mbit_s("server-0"),
            client_delay_ms=self.delay_ms("client-0"),
            proxy_delay_ms=self.delay_ms("proxy-0"),
            server_delay_ms=self.delay_ms("server-0"),
        )

    def mbit_s(self, machine: str) -> float:
        """What a machine can send as it is built, by its name."""
        value: float = getattr(self.links, f"{tier_of(machine)}_mbit_s")
        return value * self.speed

    def delay_ms(self, machine: str) -> float:
        """How long what a machine receives is on its way as it is built."""
        value: float = getattr(self.links, f"{tier_of(machine)}_delay_ms")
        return value / self.speed

    def cpus(self, machine: str) -> float | None:
        """Quota of a machine as it is built."""
        value: float | None = getattr(self.cpu, tier_of(machine))
        return None if value is None else value * self.speed

    def cores_of(self, machine: str) -> tuple[int, ...]:
        """Cores of a machine."""
        value: tuple[int, ...] = getattr(self.cores, tier_of(machine))
        return value

    def require_room(self, shape: Shape, cpus: int) -> None:
        """Refuse quotas that add up to more than `CPU_SHARE_MAX` of `cpus`: nobody could keep them."""
        asked = sum(self.cpus(machine) or 0.0 for machine in shape.machines)
        room = CPU_SHARE_MAX * cpus
        if asked > room + 1e-9:
            raise StudyError(
                f"topology.cpu: {shape} ask for {asked:g} CPUs together, and {CPU_SHARE_MAX:.0%} of the {cpus} here are {room:g}. "
                "Give smaller quotas, fewer machines, a smaller topology.speed, or no quotas."
            )

    def as_built(self) -> dict[str, object]:
        """What decides the outcome of a run, for its content hash."""
        reported = self.model_dump(mode="json")
        if self.speed == 1.0:
            del reported["speed"]  # sweeps that were made before there was one stay what they are
        if not self.awake:
            del reported["awake"]  # the same
        if not self.cores.network:
            del reported["cores"]["network"]  # the same
        return reported


@dataclass(frozen=True)
class Shape:
    """How many machines of each tier."""

    clients: int
    proxies: int
    servers: int

    @property
    def machines(self) -> list[str]:
        """Their names, such as ``client-0``, ``proxy-0``, ``server-0``, ``server-1``."""
        tiers = (("client", self.clients), ("proxy", self.proxies), ("server", self.servers))
        return [f"{tier}-{number}" for tier, count in tiers for number in range(count)]

    def __str__(self) -> str:
        return f"{self.clients} client, {self.proxies} proxy and {self.servers} server machines"

    def or_larger(self, other: Shape) -> Shape:
        """The shape that holds both."""
        return Shape(
            max(self.clients, other.clients), max(self.proxies, other.proxies), max(self.servers, other.servers)
        )


def tier_of(machine: str) -> str:
    """``client``, ``proxy`` or ``server``, by the name of a machine."""
    tier, _, number = machine.partition("-")
    if tier not in {"client", "proxy", "server"} or not number.isdecimal():
        raise ValueError(f"{machine!r} is not the name of a machine, such as client-0")
    return tier
