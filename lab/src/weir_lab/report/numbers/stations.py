"""Where requests wait: what each link can carry, how busy each station is, and which one limits. Pure.

What a link can carry, and how busy it was, goes by the bytes that were counted on the wire (`bounds_of`). Where none were it goes by
payload (`link_bounds`), as the studies had it. A small value has more headers than bytes. A write leaves a proxy once
for each replica. How busy processors were goes by the quota of a tier where it has one, and by its threads where it has none. Cores to
which several tiers are pinned are a station, too: each tier may be below its quota, and their core full.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import Engine, RequestPath, Role
from weir_lab.records.tables.quotas import CORE_FULL, NETWORK, core_shares, quota_shares
from weir_lab.theory.laws import link_bound_rps
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Settings
    from weir_lab.design.topology import Links
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings

__all__ = [
    "CPU_QUOTAS",
    "MACHINE",
    "Bound",
    "Limit",
    "Usage",
    "bottleneck",
    "bounds_of",
    "core_station",
    "core_usages",
    "is_of_cpus",
    "link_bounds",
    "links_off",
    "note_words",
    "tightest_of",
    "usages",
]

# From this share on a station is called full. Where links are known by payload alone, headers take 5 % of 4 KiB values.
FULL = CORE_FULL
# How a testbed's note says that a machine's link is not what it was built as.
_OFF_RATE = "off its link's rate"
_OFF = re.compile(rf"([-+])(\d+) % {_OFF_RATE}")
# From this share on the next station is named beside the one that limits.
_NEAR = 0.75
# Of two whose use differs by less than this none is seen to limit alone: with a little more of one, the other is full.
_ALIKE = 0.02

BEFORE_PROXY = ("client uplinks", "client CPU quotas", "load generators")
"""What requests pass before they reach a proxy: it holds no worker."""
MACHINE = "CPUs of this machine"
"""All CPUs together, whoever uses them."""
_PINNED = {"client": "clients", "proxy": "proxies", "server": "servers", NETWORK: "delay device"}
CPU_QUOTAS = {"client": "client CPU quotas", "proxy": "proxy CPU quotas", "server": "memcached CPU quotas"}
"""What the CPU quota of a tier's machines is called as a station."""


@dataclass(frozen=True)
class Bound:
    """Requests per second that one tier's uplinks carry together.

    ``wire_bytes`` are those that a request was counted to put on them, headers included; ``None`` of a bound by payload. Beside the bound
    by counted bytes stands that by payload alone, where values cross these links.
    """

    tier: str
    requests_per_s: float
    wire_bytes: float | None = None
    payload_per_s: float | None = None

    @property
    def text(self) -> str:
        """The links, and what their bound goes by."""
        return f"{self.tier}, {self.by_text}"

    @property
    def by_text(self) -> str:
        """What it goes by: ``by payload``, or ``4,330 bytes on the wire for each request``."""
        if self.wire_bytes is None:
            return "by payload"
        return f"{number(self.wire_bytes, 0)} bytes on the wire for each request"

    def both_text(self, speed: float) -> str:
        """The same, and the other number that has been said for this limit: by payload, at ``speed`` and at the study's.

        >>> Bound("client uplinks", 3481.0, 4331.0, 3680.4).both_text(0.2)
        "4,331 bytes on the wire for each request, which decides; by payload alone 3,680, at the study's speed 18,402"
        """
        if self.wire_bytes is None or self.payload_per_s is None:
            return self.by_text
        study = "" if speed == 1.0 else f", at the study's speed {number(self.payload_per_s / speed, 0)}"
        return f"{self.by_text}, which decides; by payload alone {number(self.payload_per_s, 0)}{study}"


@dataclass(frozen=True)
class Usage:
    """How busy a station was, 0 to 1: mean over runs.

    ``holds`` marks those that wait inside for others, such as workers; ``shared`` what all roles and strangers use together, of which
    ``others`` is the share of programs that are no part of the run, where it is known.
    """

    station: str
    share: float
    evidence: str
    holds: bool = False
    shared: bool = False
    others: float = 0.0

    @property
    def foreign(self) -> bool:
        """Whether other programs made most of it busy: then it is no limit of what is measured."""
        return self.others > self.share / 2


@dataclass(frozen=True)
class Limit:
    """Which station limits, and why we say so; ``station`` is empty where none is full.

    ``short`` is the sentence without the evidence, for where that stands elsewhere. ``alike`` is another station of the system that is used
    as much: which of the two limits cannot be seen there. ``lead`` is what limits and how far it is used, to stand behind a colon, and
    ``rest`` the evidence in whole sentences. Where none is full, ``busiest`` is the nearest to it: ``workers, 80 %``.
    """

    station: str
    sentence: str
    short: str = ""
    alike: str = ""
    lead: str = ""
    rest: str = ""
    busiest: str = ""

    @property
    def named(self) -> str:
        """``memcached CPU quotas and the server uplinks``, behind an article."""
        return f"{self.station} and the {self.alike}" if self.alike else self.station


def link_bounds(settings: Settings, links: Links) -> list[Bound]:
    """What the uplinks of each tier allow for this mix of requests.

    Writes come from the clients and go on to each replica; values of reads come from the servers and go on to the clients.
    """
    writes = settings.write_ratio
    reads = (1.0 - writes) * settings.multiget_keys
    proxied = settings.path is RequestPath.PROXY
    size = float(settings.value_size_bytes)
    copies = settings.replicas if proxied else 1
    found = []
    if writes > 0:
        found.append(_bound("client uplinks", links.client_mbit_s, size * writes, settings.client_machines))
    if proxied:
        through = size * (writes * copies + reads)
        found.append(_bound("proxy uplinks", links.proxy_mbit_s, through, settings.proxies))
    if reads > 0:
        found.append(_bound("server uplinks", links.server_mbit_s, size * reads, settings.servers))
    return found


def _bound(tier: str, mbit_s: float, bytes_per_request: float, links: int) -> Bound:
    return Bound(tier, link_bound_rps(mbit_s * 1e6, bytes_per_request, links))


def bounds_of(cell: CellReadings, links: Links) -> list[Bound]:
    """What the uplinks of each tier allow for the requests of a cell, by the bytes that they took of the wire there.

    Tiers whose bytes were not counted have their bound by payload, if values cross them.
    """
    by_payload = {bound.tier: bound for bound in link_bounds(cell.settings, links)}
    found = []
    for tier, count in _machines(cell.settings).items():
        name = f"{tier} uplinks"
        wire = _mean(cell.of(lambda run, tier=tier: run.wire_bytes(tier)))  # type: ignore[misc]
        if wire:
            carried = link_bound_rps(getattr(links, f"{tier}_mbit_s") * 1e6, wire, count)
            payload = by_payload.get(name)
            found.append(Bound(name, carried, wire, payload.requests_per_s if payload is not None else None))
        elif name in by_payload:
            found.append(by_payload[name])
    return found


def tightest_of(cell: CellReadings, links: Links) -> Bound:
    """Of `bounds_of` the smallest."""
    return min(bounds_of(cell, links), key=lambda bound: bound.requests_per_s)


def _machines(settings: Settings) -> dict[str, int]:
    """How many machines of each tier a request meets."""
    found = {"client": settings.client_machines, "proxy": settings.proxies, "server": settings.servers}
    if settings.path is not RequestPath.PROXY:
        del found["proxy"]
    return found


def usages(cell: CellReadings, links: Links | None) -> list[Usage]:
    """Every station of a cell that the records tell of, busiest first."""
    settings, rate = cell.settings, cell.mean_throughput
    found = []
    if links is not None:
        found += _link_usages(cell, links)
    quotas = _quota_usages(cell)
    found += quotas.values()
    found += core_usages(cell)
    servers = _mean(cell.of(lambda run: run.cores(Role.SERVERS)))
    if servers is not None and "server" not in quotas:
        threads = settings.servers * settings.server_threads
        found.append(
            Usage("memcached threads", servers / threads, f"{servers:.2f} cores of {count_text(threads, 'thread')}")
        )
    client = _mean(cell.of(lambda run: run.cores(Role.CLIENT)))
    if client is not None and "client" not in quotas:
        threads = settings.client_threads * settings.generators
        found.append(
            Usage("load generators", client / threads, f"{client:.2f} cores of {count_text(threads, 'thread')}")
        )
    found += _inside_proxy(cell, rate, with_threads="proxy" not in quotas)
    delaying = _mean(cell.of(lambda run: run.cores(Role.NETWORK)))
    if delaying is not None:
        found.append(Usage("delay device's threads", delaying, f"{delaying:.2f} cores of 1 thread"))
    busy = _mean(cell.of(lambda run: run.machine_busy))
    if busy is not None:
        others = _mean(cell.of(lambda run: run.others_busy))
        used = "whoever used it" if others is None else f"{100 * others:.0f} % by other programs"
        found.append(Usage(MACHINE, busy, f"share of its CPU time, {used}", shared=True, others=others or 0.0))
    return sorted(found, key=lambda usage: -usage.share)


def _link_usages(cell: CellReadings, links: Links) -> list[Usage]:
    """How busy the uplinks of each tier were."""
    rate = cell.mean_throughput
    return [
        Usage(
            bound.tier,
            rate / bound.requests_per_s,
            f"{rate:,.0f} of {bound.requests_per_s:,.0f} requests/s by payload"
            if bound.wire_bytes is None
            else f"{bound.wire_bytes:,.0f} bytes on the wire for each request",
        )
        for bound in bounds_of(cell, links)
    ]


def _quota_usages(cell: CellReadings) -> dict[str, Usage]:
    """How much of its CPU quota each tier used, by tier: all of its threads share it, however many they are."""
    shares: dict[str, list[float]] = {}
    allowed: dict[str, float] = {}
    for run in cell.runs:
        for tier, share in quota_shares(run.run).items():
            shares.setdefault(tier, []).append(share)
            machines = run.run.meta.testbed.machines if run.run.meta.testbed is not None else []
            allowed[tier] = sum(one.cpus or 0.0 for one in machines if one.name.startswith(f"{tier}-"))
    return {
        tier: Usage(
            CPU_QUOTAS[tier],
            sum(known) / len(known),
            f"{number(sum(known) / len(known) * allowed[tier], 2)} of the {number(allowed[tier], 2)} CPUs that these machines may use",
        )
        for tier, known in shares.items()
    }


def core_station(tiers: Sequence[str]) -> str:
    """Cores that several tiers are pinned to, as a station.

    >>> core_station(["client", "server", "network"])
    'CPUs of clients, servers and delay device'
    """
    *first, last = (_PINNED[tier] for tier in tiers)
    return f"CPUs of {', '.join(first)} and {last}"


def is_of_cpus(station: str) -> bool:
    """Whether it is CPU time that runs out there, of which a request may take more or less."""
    return station in CPU_QUOTAS.values() or station.startswith("CPUs of ")


def core_usages(cell: CellReadings) -> list[Usage]:
    """How busy cores were that several tiers are pinned to: quotas of each leave room, and the core may be full all the same."""
    shares: dict[tuple[str, ...], list[float]] = {}
    for run in cell.runs:
        for tiers, share in core_shares(run.run).items():
            shares.setdefault(tiers, []).append(share)
    return [
        Usage(
            core_station(tiers),
            sum(known) / len(known),
            "CPU time of all that is pinned to the same cores",
            shared=True,
        )
        for tiers, known in shares.items()
    ]


def _inside_proxy(cell: CellReadings, rate: float, *, with_threads: bool) -> list[Usage]:
    settings = cell.settings
    if settings.path is not RequestPath.PROXY:
        return []
    found = []
    spent = _mean(cell.of(lambda run: run.cores(Role.PROXY)))
    if spent is not None and with_threads:
        threads = settings.proxies * (settings.proxy_threads if settings.engine is Engine.EVENT else _threads(settings))
        found.append(Usage("proxy threads", spent / threads, f"{spent:.2f} cores of {count_text(threads, 'thread')}"))
    network = _mean(cell.of(lambda run: run.network_thread))
    if network is not None:
        evidence = f"{network:.2f} cores of {count_text(settings.proxies, 'thread')}, which read all requests"
        found.append(Usage("network threads", network / settings.proxies, evidence))
    stages = [run.stages_s() for run in cell.runs]
    known = [stage for stage in stages if stage is not None]
    if known and settings.engine is Engine.POOL and settings.workers:
        held = sum(one["send"] + one["backend"] + one["reply"] for one in known) / len(known)
        workers = settings.workers * settings.proxies
        found.append(
            Usage(
                "workers",
                rate * held / workers,
                f"each request holds one of {workers} for {1e3 * held:.2f} ms",
                holds=True,
            )
        )
    gets = [one for run in cell.runs if (one := run.stages_s("get")) is not None]
    if gets and settings.engine is Engine.SPLIT and settings.readers:
        held = sum(one["send"] + one["backend"] + one["reply"] for one in gets) / len(gets)
        readers = settings.readers * settings.servers * settings.proxies
        reads = _mean(cell.of(lambda run: run.operation_rate("get"))) or 0.0
        found.append(
            Usage(
                "readers",
                reads * held / readers,
                f"each GET holds one of {readers} for {1e3 * held:.2f} ms",
                holds=True,
            )
        )
    return found


def _threads(settings: Settings) -> int:
    """Threads of one proxy with a threaded engine: the network thread, and workers or readers and writers."""
    if settings.engine is Engine.POOL:
        return 1 + (settings.workers or 1)
    return 1 + settings.servers * ((settings.readers or 1) + 1)


def bottleneck(found: list[Usage], *, queue_grows: bool | None) -> Limit:
    """The full station that nothing behind it explains: links and processors before workers, which wait for them."""
    full = [usage for usage in found if usage.share >= FULL]
    own = [usage for usage in full if not usage.holds and not usage.shared]
    common = [usage for usage in full if usage.shared]
    grown = {
        True: " The queue in the proxy grows with the clients.",
        False: " Few requests wait in the proxy's queue.",
        None: "",
    }
    if own or common:
        first = (own or common)[0]
        if first.foreign:
            return Limit(
                first.station,
                f"The {first.station} limit: {100 * first.share:.0f} % used, {100 * first.others:.0f} % by other programs: this is not the "
                f"limit of the system itself.{grown[queue_grows]}",
                f"The {first.station} limit, mostly by other programs.{grown[queue_grows]}",
                lead=f"the {first.station} limit, {100 * first.share:.0f} % used, {100 * first.others:.0f} % by other programs: this is "
                "not the limit of the system itself.",
            )
        behind = any(one.station not in BEFORE_PROXY for one in own or common)
        waiting = [usage.station for usage in full if usage.holds and behind]
        held = f"; the {waiting[0]} are held by them" if waiting else ""
        alike = next((one for one in own[1:] if one.share >= first.share - _ALIKE), None) if own else None
        named = f"{first.station} and the {alike.station}" if alike is not None else first.station
        used, too, both = f"{100 * first.share:.0f} %", "", ""
        if alike is not None:
            other = f"{100 * alike.share:.0f} %"
            too, both = f", and {other}", f", the {alike.station} {other}"
        beside = f" The {common[0].station} were {100 * common[0].share:.0f} % busy, too." if own and common else ""
        after = _next_text(found, [first, alike], behind)
        return Limit(
            first.station,
            f"The {named} limit: {used} used{too} ({first.evidence}){held}.{beside}{after}{grown[queue_grows]}",
            f"The {named} limit.{grown[queue_grows]}",
            alike.station if alike is not None else "",
            f"the {named} limit, {used}{too.replace(', and', ' and')} used.{beside}",
            f"The {first.station} are used {used} ({first.evidence}){both}{held}.{after}",
        )
    if full:
        first = full[0]
        return Limit(
            first.station,
            f"The {first.station} limit: {100 * first.share:.0f} % used ({first.evidence}), while no link and no processor is full."
            f"{grown[queue_grows]}",
            f"The {first.station} limit.{grown[queue_grows]}",
            lead=f"the {first.station} limit, {100 * first.share:.0f} % used.",
            rest=f"The {first.station} are used {100 * first.share:.0f} % ({first.evidence}), while no link and no processor is full.",
        )
    if not found:
        nothing = "Nothing in the records tells how busy any station was."
        return Limit("", nothing, nothing, lead=f"n{nothing[1:]}")
    busiest = found[0]
    none = "Where throughput does not grow, what limits is none of them."
    return Limit(
        "",
        f"No station is full: the busiest are the {busiest.station} with "
        f"{100 * busiest.share:.0f} % ({busiest.evidence}). {none}{grown[queue_grows]}",
        f"No station is full.{grown[queue_grows]}",
        lead=f"no station is full, the busiest are the {busiest.station} with {100 * busiest.share:.0f} %. {none}",
        rest=f"The {busiest.station} are used {100 * busiest.share:.0f} % ({busiest.evidence}).",
        busiest=f"{busiest.station}, {100 * busiest.share:.0f} %",
    )


def _next_text(found: list[Usage], limiting: list[Usage | None], held: bool) -> str:
    """The next station that would limit, where it is near: with a little more of the first, or less of this, it does.

    Workers that are ``held`` by a full station are let go with it, and are none.
    """
    others = [
        one
        for one in found
        if one not in limiting and not (one.holds and held) and not one.shared and one.share >= _NEAR
    ]
    if not others:
        return ""
    nearest = max(others, key=lambda one: one.share)
    return f" Next are the {nearest.station}, {100 * nearest.share:.0f} % used."


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def links_off(sweep: SweepReadings) -> tuple[str, ...]:
    """Machines whose link was measured to be off the rate that it was built with, as the testbed notes it, each once.

    ``client-2 was measured to send 6 % below its link's rate``.
    """
    notes = dict.fromkeys(sweep.testbed.notes) if sweep.testbed is not None else {}
    return tuple(note_words(note) for note in notes if _OFF_RATE in note)


def note_words(note: str) -> str:
    """A testbed's note, with ``6 % below its link's rate`` in place of ``-6 % off its link's rate``."""
    return _OFF.sub(_off_words, note)


def _off_words(found: re.Match[str]) -> str:
    """``6 % below its link's rate`` of ``-6 % off its link's rate``."""
    return f"{found[2]} % {'below' if found[1] == '-' else 'above'} its link's rate"
