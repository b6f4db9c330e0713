"""What speaks for a station beside its use: where a request's time is, and what the time outside of the proxy is made of.

A request that grows older outside of the proxy lies in one of its sockets, is on its way, or waits for a generator. A generator stamps
what it reads, so a reply that lies in a client's socket has no stamp, and no run has measured how long it lies there. But where generators
were ready and not let run, replies wait for them, and that share of the time is counted by the kernel. Start with `outside_of_cell`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.comparing import outside_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.stations import core_station
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.numbers.stations import Usage
    from weir_lab.report.page.blocks import Entry
    from weir_lab.report.sections.claims.confirming import Confirmed
    from weir_lab.report.sections.comparisons.plateaus import Stop

__all__ = [
    "Explained",
    "Outside",
    "Sign",
    "agreement",
    "in_trace",
    "open_text",
    "outside_of_cell",
    "outside_table",
    "part_name",
]

# Where time grows when a station is full: stages of the proxy, or outside of it.
_GROWS = {
    "client uplinks": {"outside"},
    "proxy uplinks": {"backend", "send", "reply", "outside"},
    "server uplinks": {"backend", "outside"},
    "memcached threads": {"backend", "outside"},
    "memcached CPU quotas": {"backend", "outside"},
    "workers": {"queue"},
    "readers": {"queue"},
    "proxy threads": {"read", "dispatch", "queue", "outside"},
    "proxy CPU quotas": set(STAGES) | {"outside"},
    "network threads": {"read", "dispatch", "outside"},
    "load generators": {"outside"},
    "client CPU quotas": {"outside"},
    core_station(("client", "server")): {"backend", "outside"},
    core_station(("client", "server", "network")): {"backend", "outside"},
}
_PARTS = {*STAGES, "outside"}
_SAYS_SO, _AGREES = ", which agrees", ", agrees"
_ALWAYS = "Its clients are always the same, so that no time grows with them."
# Of a time, parts that are smaller than this share of it are not named.
_LITTLE = 0.05
# A network thread that was ready and not let run for less of the time than this reads late for another reason.
_WAITS_SHARE = 0.2
# What is outside of the proxy behind these is the wait for a link, or no more than the way: what is left says nothing of generators.
_EXPLAINED = ("uplinks", "workers", "readers")
# A correlation between runs of one cell that chance gives less often than this, in cells with this number of runs together at least.
_ALPHA, _RUNS_MIN = 0.01, 6
# Seconds times a share: runs that differ by less are alike but for the last digits of their numbers.
_NO_SPREAD = 1e-12
_OF_CORE = {"server": "the servers", "network": "the delay device", "proxy": "the proxy"}
_ROLES = {"client": "client", "server": "servers", "network": "network", "proxy": "proxy"}


@dataclass(frozen=True)
class Sign:
    """A second sign of what limits, independent of how much a station is used: as a sentence, and ``short`` for a table.

    ``more`` opens on demand: from how many clients to how many, why it agrees, and what else grows, with the last of the series or in the
    other direction.
    """

    text: str
    short: str
    more: str = ""


@dataclass(frozen=True)
class Outside:
    """Of a cell's mean response time what is not in the proxy, and its parts, in seconds.

    ``sockets_s``: bytes of a request lie in the proxy's sockets until they are read, by sampled requests. ``way_s``: by how much a packet
    to the proxy and one back were delayed, as built. ``left_s``: the rest, with sending over links in it. ``ready`` is the share of the
    time in which generators' threads were ready and not let run, as the ``known`` ones among the ``runs`` tell; ``held`` that for which a
    client's CPU quota held it. ``core_used`` is how much of the generators' cores they used together with the ``sharers``.
    """

    whole_s: float
    sockets_s: float
    way_s: float
    runs: int
    ready: float | None = None
    known: int = 0
    held: float | None = None
    core_used: float | None = None
    sharers: tuple[str, ...] = ()
    late: str = ""
    """Why the network thread reads late, in a sentence; empty where that is not known."""
    together: str = ""
    """How what is left goes with the generators' waiting between runs of one cell of its sweep: ``+0.94 (14 runs)``."""

    @property
    def left_s(self) -> float:
        """What is neither in the proxy's sockets nor on the way."""
        return self.whole_s - self.sockets_s - self.way_s

    def leaves(self, station: str) -> bool:
        """Whether what is left is more than a little, and not the wait for a station that explains it."""
        return self.way_s > 0.0 and self.left_s >= _LITTLE * self.whole_s and not station.endswith(_EXPLAINED)

    def text(self, station: str) -> str:
        """The parts in sentences, where one of them is more than a little; else empty."""
        leaves = self.leaves(station)
        if not leaves and self.sockets_s < _LITTLE * self.whole_s:
            return ""
        whole, wait, way, left = (
            number(1e3 * one, 2) for one in (self.whole_s, self.sockets_s, self.way_s, self.left_s)
        )
        first = (
            f"Of the {whole} ms outside of the proxy, {wait} ms are those in which bytes lie in its sockets until the network thread reads "
            f"them.{self.late}"
        )
        if not leaves:
            return first
        held = (
            ""
            if self.held is None
            else f" No client machine was held by its CPU quota{' for as much as 1 % of the time' if self.held > 0.0 else ''}."
            if self.held < 0.01
            else f" Client machines were held by their CPU quotas for {100.0 * self.held:.0f} % of the time."
        )
        return f"{first} The way there and back was built to take {way} ms; {left} ms are left.{held} {self._generators_text}"

    @property
    def _generators_text(self) -> str:
        if self.ready is None:
            return "How long the generators' threads were ready and not let run, none of these runs tells."
        how = "" if self.known == self.runs else f" ({self.known} of {self.runs} runs tell)"
        core = (
            f": with {listed(self.sharers)} they used {100.0 * self.core_used:.0f} % of the core that they share"
            if self.core_used is not None and self.sharers
            else ""
        )
        return (
            f"The generators' threads were ready and not let run for {100.0 * self.ready:.0f} % of the time{how}{core}."
        )


@dataclass(frozen=True, eq=False)
class Explained:
    """What is said of a place: ``text`` for the paragraph, and the values of which it is made, for the table of limits.

    ``lead`` is what a page shows of it at first: what is full, the second sign, and what runs say in which that station was changed.
    ``usage`` is that of the station that limits, or of the fullest one where none is shown to (``limits`` is false then). ``tried`` are
    runs in which one station alone was changed, ``inside`` is what a series of the section itself says, and ``brings`` what a
    fitted model, or else a bound, says of twice this station. ``outside`` is None where its parts are not in the text. ``alike`` is a
    station that is used as much as the one that limits.
    """

    name: str
    cell: CellReadings
    usage: Usage | None
    limits: bool
    sign: Sign
    tried: tuple[Confirmed, ...]
    inside: str
    brings: str
    shown: bool
    lead: str
    text: str
    outside: Outside | None = None
    sweep: SweepReadings | None = None
    alike: str = ""
    over_plateau: tuple[float | None, ...] = ()
    """Of each that was tried the change against the plateau, in percent, where the unchanged level lies below it."""
    plateau: Stop | None = None
    """Where series stop, whose throughput the section's first table has; None where no plateau is shown."""


def agreement(station: str, most: str, held: str) -> tuple[str, str, str]:
    """Whether the part in which most of the time is speaks for the station: behind a sentence, in a table, and why in a sentence.

    ``held`` are full workers or readers inside, if there are: they wait for what limits, and requests for them. Empty where no station is
    known, and in the sentence where every part may grow, so that none speaks for the station or against it.
    """
    expected = _GROWS.get(station, set())
    if held and most == "queue" and "backend" in expected:
        return _SAYS_SO, _AGREES, f"The {held} wait for the {station}, and requests for the {held}."
    if not expected:
        return "", "", ""
    if expected >= _PARTS:
        return "", ", tells nothing: any part could", ""
    if most in expected:
        return _SAYS_SO, _AGREES, ""
    return ", which does not agree: another place may limit", ", does not agree", ""


def part_name(part: str) -> str:
    """``in stage queue``, ``outside of the proxy``."""
    return "outside of the proxy" if part == "outside" else f"in stage {part}"


def in_trace(cell: CellReadings, station: str, held: str) -> Sign:
    """Of a trace, whose clients are always the same: what a request's time is made of, the longest part first."""
    known = [stages for run in cell.runs if (stages := run.stages_s()) is not None]
    if not known:
        return Sign(
            "No stamp tells where a request's time is spent.",
            "no stamps",
            f"{_ALWAYS} It is spent on the way or in the server.",
        )
    total = cell.mean_response_s
    inside = {stage: sum(one[stage] for one in known) / len(known) for stage in STAGES}
    parts = {**inside, "outside": max(0.0, total - sum(inside.values()))}
    order = sorted((one for one in parts if parts[one] >= _LITTLE * total), key=lambda one: -parts[one])
    most = order[0]
    said = [f"{number(1e3 * parts[one], 2)} ms ({100.0 * parts[one] / total:.0f} %) {part_name(one)}" for one in order]
    agrees, short, reason = agreement(station, most, held)
    share = f"{100.0 * parts[most] / total:.0f} % of its time"
    whole = f"{_ALWAYS} The {number(1e3 * total, 1)} ms of a request are {listed(said)}."
    return Sign(
        f"A request is longest {part_name(most)}, {share}{agrees}.",
        f"{share} {part_name(most)}{short}",
        f"{whole} {reason}".strip(),
    )


def outside_of_cell(cell: CellReadings, sweep: SweepReadings) -> Outside | None:
    """The parts of a cell; ``None`` without a proxy that samples requests."""
    waits, whole = cell.of(lambda run: run.socket_wait_s), cell.of(outside_of)
    if not waits or not whole:
        return None
    ready, held = cell.of(lambda run: run.generators_wait), cell.of(lambda run: run.clients_held)
    used, sharers = _core_of(cell, sweep)
    return Outside(
        sum(whole) / len(whole),
        sum(waits) / len(waits),
        _way_s(sweep),
        len(cell.runs),
        sum(ready) / len(ready) if ready else None,
        len(ready),
        sum(held) / len(held) if held else None,
        used,
        sharers,
        _late(cell),
        alike.text if (alike := _alike(sweep.cells, sweep)) is not None else "",
    )


def _late(cell: CellReadings) -> str:
    """Why a network thread reads late that has little to do: it was ready, and was not let run."""
    busy = cell.of(lambda run: None if run.network_thread is None else run.network_thread / cell.settings.proxies)
    waits = cell.of(lambda run: run.network_thread_waits)
    if not busy or not waits or sum(waits) / len(waits) < _WAITS_SHARE:
        return ""
    machines = [one for run in cell.runs if run.run.meta.testbed is not None for one in run.run.meta.testbed.machines]
    quota = any(one.cpus is not None for one in machines if one.name.startswith("proxy-"))
    shared = ": the proxy's CPU quota is for all of its threads" if quota else ""
    used, ready = (number(100.0 * sum(one) / len(one), 0) for one in (busy, waits))
    return f" That thread was busy {used} % of the time, and for {ready} % of it was ready and not let run{shared}."


def _way_s(sweep: SweepReadings) -> float:
    """How long a packet to a proxy and one back to a client are delayed, as built; 0 where they are not."""
    machines = sweep.testbed.machines if sweep.testbed is not None else []
    tiers = [
        [one.delay_ms or 0.0 for one in machines if one.name.startswith(f"{tier}-")] for tier in ("client", "proxy")
    ]
    return sum(min(found) for found in tiers) / 1e3 if all(tiers) else 0.0


def _core_of(cell: CellReadings, sweep: SweepReadings) -> tuple[float | None, tuple[str, ...]]:
    """How much of the generators' cores all that is pinned to the same ones used, and who that is beside them."""
    cores = sweep.study.topology.cores
    if not cores.client:
        return None, ()
    there = [tier for tier in ("client", "server", "network", "proxy") if getattr(cores, tier) == cores.client]
    shares = []
    for run in cell.runs:
        cpu = run.run.cpu
        if cpu is not None:
            spent = sum(role.cpu_ns for tier in there if (role := cpu.roles.get(_ROLES[tier])) is not None)
            shares.append(spent / cpu.interval_ns / len(cores.client))
    used = sum(shares) / len(shares) if shares else None
    return used, tuple(_OF_CORE[tier] for tier in there if tier != "client")


@dataclass(frozen=True)
class _Alike:
    """How what is left goes with the generators' waiting between the runs of one cell, over several cells."""

    correlation: float
    runs: int
    cells: int
    p: float

    @property
    def text(self) -> str:
        """For a table."""
        return f"{Value(self.correlation, digits=2, signed=True).text} ({count_text(self.runs, 'run')})"


def open_text(cells: Sequence[CellReadings], sweep: SweepReadings) -> str:
    """What stays open of what is left outside of the proxy, over all runs of a sweep, and what would tell."""
    found = _alike(cells, sweep)
    would = "How long a reply lies in its client's socket, no run has measured: the kernel's stamp of its arrival there would tell."
    if found is None:
        return f"What is left outside of the proxy stays open: too few runs tell how long generators were not let run. {would}"
    correlation = Value(found.correlation, digits=2, signed=True).text
    between = f"That is between runs of one cell, of {found.runs} runs in {count_text(found.cells, 'cell')}."
    if found.p <= _ALPHA and found.correlation > 0.0:
        return (
            "What is left outside of the proxy is the longer, the more of the time generators were ready and not let run (correlation "
            f"{correlation}). {between} It speaks for replies that wait for a generator to read them. {would}"
        )
    return (
        "What is left outside of the proxy stays open. It is not shown to go with the time for which generators were ready and not let run "
        f"(correlation {correlation}). {between} {would}"
    )


def _alike(cells: Sequence[CellReadings], sweep: SweepReadings) -> _Alike | None:
    """The correlation of deviations from the means of cells, with the chance that it is none; ``None`` with too few runs."""
    way_s, found, used = _way_s(sweep), [], 0
    for cell in cells:
        known = [
            (outside - wait - way_s, ready)
            for run in cell.runs
            if (outside := outside_of(run)) is not None
            and (wait := run.socket_wait_s) is not None
            and (ready := run.generators_wait) is not None
        ]
        if len(known) > 1:
            array = np.array(known)
            found.append(array - array.mean(axis=0))
            used += 1
    runs = sum(len(one) for one in found)
    freedom = runs - used - 1
    if runs < _RUNS_MIN or freedom < 1:
        return None
    left, ready_by = np.concatenate(found).T
    size = math.sqrt(float(left @ left) * float(ready_by @ ready_by))
    if size < _NO_SPREAD:
        return None
    correlation = float(left @ ready_by) / size
    rest = max(1.0 - correlation**2, 1e-12)
    p = 2.0 * float(stdtr(freedom, -abs(correlation) * math.sqrt(freedom / rest)))
    return _Alike(correlation, runs, used, p)


def outside_table(name: str, parts: Mapping[str, Outside]) -> Table | None:
    """The parts of what is outside of the proxy, a row for each place that is explained; ``None`` without any."""
    rows: list[tuple[Entry, ...]] = [
        (
            place,
            *(Value(1e3 * one, digits=2) for one in (found.whole_s, found.sockets_s, found.way_s, found.left_s)),
            _percent(found.ready),
            f"{found.known} of {found.runs}",
            _percent(found.held),
            _percent(found.core_used),
            found.together or "–",
        )
        for place, found in parts.items()
    ]
    if not rows:
        return None
    return Table(
        f"{name}-outside",
        "What the time outside of the proxy is made of; means over runs. In its sockets: of sampled requests, until they were read. The "
        "way: by how much packets there and back were delayed, as built. Left: the rest, with sending over links in it. Ready: share of "
        "the time in which generators' threads were ready and not let run, by those runs that tell. Held: by the CPU quotas of client "
        "machines. Core: how much of the generators' cores was used by all that is pinned to them. Together: the correlation of "
        "what is left with the share that is ready, of deviations of a sweep's runs from the means of their cells.",
        (
            "At",
            "Outside (ms)",
            "In its sockets (ms)",
            "The way (ms)",
            "Left (ms)",
            "Ready (%)",
            "Runs that tell",
            "Held (%)",
            "Core (%)",
            "Together",
        ),
        tuple(rows),
        folded=True,
    )


def _percent(share: float | None) -> Value | str:
    return "–" if share is None else Value(100.0 * share, digits=0)
