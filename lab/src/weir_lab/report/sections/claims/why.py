"""What limits a section, by rule: the full station, two signs of it, what twice of it would do, and a run in which it was changed. `why`.

The two signs are independent: how much of the time the station is used (its counters), and which part of a request's time grows when more
clients come (the clients' clocks and the proxy's stamps). What waits for a full link to a client grows outside of the proxy. What
waits for workers grows in the queue; what waits for servers or their links, in the stage backend, and in the queue once all workers wait
there.

*Twice of it* is a bound by operational analysis: with twice the capacity C_i, throughput is at most min(2 C_i, C_j) over the other
stations j, each with C_j = X / U_j (Denning and Buzen, Computing Surveys 10, 1978). Where the cell is in a layout that has a
fitted network, what that predicts stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.records.tables.quotas import quota_shares
from weir_lab.report.common import by_workload, level_text, series_of, workload_name
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.numbers.stations import FULL, Usage, bottleneck, usages
from weir_lab.report.page.arranging import WHY
from weir_lab.report.page.blocks import Text
from weir_lab.report.sections.claims.asked import NO_DATA
from weir_lab.report.sections.models.twice import sentence, twice_at
from weir_lab.theory.units import count_text, number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.sections.claims.confirming import Confirmed

__all__ = ["KINDS", "why"]

KINDS = ("clients", "beside", "replication", "writes", "multigets", "overhead")
"""Kinds of sections in which a station is said to limit."""
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
}
_CPU = {"client": "client CPU quotas", "proxy": "proxy CPU quotas", "server": "memcached CPU quotas"}


@dataclass(frozen=True, eq=False)
class _Place:
    """A cell at which it is asked what limits; ``line`` is its curve over clients, where there is one."""

    name: str
    cell: CellReadings
    sweep: SweepReadings
    line: Series | None


def why(task: Task, confirmed: Sequence[Confirmed]) -> Text | None:
    """The paragraph, a point for each workload; None for kinds of sections in which nothing is said to limit."""
    if task.spec.kind not in KINDS:
        return None
    places = [(place, _own(place, confirmed)) for place in _places(task, confirmed)]
    # What has no pair, for want of runs, is said once.
    without = [one for one in confirmed if not any(one in own for _, own in places)]
    points = [_point(place, own, task.margins, without) for place, own in places]
    points += [_said(one) for one in without]
    return Text(WHY, tuple(points)) if points else None


def _own(place: _Place, confirmed: Sequence[Confirmed]) -> list[Confirmed]:
    """Those that changed something at the mix of requests of this place."""
    ratio = place.cell.settings.write_ratio
    return [one for one in confirmed if any(pair.base.settings.write_ratio == ratio for pair in one.pairs)]


def _places(task: Task, confirmed: Sequence[Confirmed]) -> list[_Place]:
    groups = by_workload([one for one in series_of(task) if not one.event])
    if task.spec.kind not in ("clients", "beside"):
        # Shares of writes are levels there and no workloads of their own: those that were changed, or the last.
        changed = {workload_name(pair.base.settings) for one in confirmed for pair in one.pairs}
        groups = {name: group for name, group in groups.items() if name in (changed or {list(groups)[-1]})}
    found = []
    for workload, group in groups.items():
        cells = [cell for one in group for cell in one.cells]
        pairs = [pair.base for one in confirmed for pair in one.pairs if workload_name(pair.base.settings) == workload]
        cell = maximum_of(cells, task.margins.maximum).cell
        if task.spec.kind not in ("clients", "beside") and pairs:
            cell = pairs[0]
        line = next((one for one in group if cell in one.cells), None)
        if line is not None:
            curve = line if len({one.settings.clients for one in line.cells}) > 1 else None
            found.append(_Place(workload, cell, line.sweep, curve))
    return found


def _point(place: _Place, confirmed: Sequence[Confirmed], margins: Margins, without: Sequence[Confirmed]) -> str:
    cell = place.cell
    links = place.sweep.study.topology.built_links if place.sweep.links_built else None
    stations = _stations(cell, usages(cell, links))
    limit = bottleneck(stations, queue_grows=None)
    level = f"{level_text(cell, throughput_of, digits=0)} requests/s, {level_text(cell, response_of, 1e3)} ms"
    where = f"{place.name.capitalize()}, {count_text(cell.settings.clients, 'client')} ({level})"
    said = [f"{where}: {limit.sentence}", _second_sign(place, limit.station), _outside(cell)]
    if limit.station:
        said.append(_twice(stations, limit.station, cell.mean_throughput))
        modelled = twice_at((place.sweep,), cell, margins, limit.station)
        said.append(sentence(modelled) if modelled is not None else "")
    if confirmed:
        said += [_said(one, limit.station) for one in confirmed]
    elif all(one.more.changes != limit.station for one in without):
        said.append("Not confirmed by a run of its own.")
    return " ".join(one for one in said if one)


def _stations(cell: CellReadings, known: list[Usage]) -> list[Usage]:
    """With the CPU quota of each tier as a station of its own, where it has one: threads share it, however many they are."""
    found: dict[str, list[float]] = {}
    for run in cell.runs:
        for tier, share in quota_shares(run.run).items():
            found.setdefault(tier, []).append(share)
    named = {one.station for one in known}
    own = [
        Usage(_CPU[tier], sum(shares) / len(shares), "CPU time of what they may have")
        for tier, shares in found.items()
        if _CPU[tier] not in named
    ]
    return sorted([*known, *own], key=lambda usage: -usage.share)


def _second_sign(place: _Place, station: str) -> str:
    """Which part of a request's time grows from the fewest clients to the most."""
    if place.line is None:
        return "All cells have the same clients, so there is no second sign of it: no time that grows with them."
    first, last = place.line.cells[0], place.line.cells[-1]
    clients = last.settings.clients / first.settings.clients
    times = last.mean_response_s / first.mean_response_s
    grown = (
        f"From {first.settings.clients} to {count_text(last.settings.clients, 'client')} ({number(clients, 1)} times) the response time "
        f"grows {number(times, 1)} times"
    )
    parts = _growth(first, last)
    if not parts:
        return (
            f"{grown}; no proxy tells in which part."
            if last.cell.settings.path.value == "proxy"
            else f"{grown}, on the way to the server and in it."
        )
    most = max(parts, key=lambda name: parts[name])
    total = last.mean_response_s - first.mean_response_s
    if total <= 0.0 or parts[most] <= 0.0:
        return f"{grown}: nothing waits longer with more clients."
    share = f"{100.0 * parts[most] / total:.0f} % of it {'outside of the proxy' if most == 'outside' else f'in stage {most}'}"
    expected = _GROWS.get(station)
    if expected is None:
        return f"{grown}, {share}."
    held = next((one.station for one in usages(last, None) if one.holds and one.share >= FULL), "")
    if held and most == "queue" and "backend" in expected:
        return f"{grown}, {share}, which agrees: the {held} wait for the {station}, and requests for the {held}."
    agrees = "which agrees" if most in expected else "which does not agree: another place may limit"
    return f"{grown}, {share}, {agrees}."


def _outside(cell: CellReadings) -> str:
    """How much of the time outside of the proxy is that of bytes in its sockets, where that was sampled."""
    waits = cell.of(lambda run: run.socket_wait_s)
    outside = cell.of(lambda run: run.response_s - run.residence_s if run.residence_s is not None else None)
    if not waits or not outside:
        return ""
    wait, whole = 1e3 * sum(waits) / len(waits), 1e3 * sum(outside) / len(outside)
    return (
        f"Of the {number(whole, 2)} ms outside of the proxy, {number(wait, 2)} ms are those in which bytes lie in its sockets until the "
        "network thread reads them."
    )


def _growth(first: CellReadings, last: CellReadings) -> dict[str, float]:
    """Seconds that each part of a request's time grows by; empty without stamps of a proxy."""
    ends = []
    for cell in (first, last):
        known = [stages for run in cell.runs if (stages := run.stages_s()) is not None]
        if not known:
            return {}
        parts = {stage: sum(one[stage] for one in known) / len(known) for stage in STAGES}
        ends.append({**parts, "outside": cell.mean_response_s - sum(parts.values())})
    return {name: ends[1][name] - ends[0][name] for name in ends[0]}


def _twice(stations: Sequence[Usage], station: str, throughput: float) -> str:
    """The bound of throughput with twice this station, and who limits then.

    What waits inside for others (workers, readers) is held by the station that limits, and is let go with it: it bounds nothing here.
    """
    own = next(one for one in stations if one.station == station)
    others = [one for one in stations if one.station != station and one.share > 0.0 and not one.holds]
    bounds = {one.station: throughput / min(one.share, 1.0) for one in others}
    doubled = 2.0 * throughput / max(0.5, min(own.share, 1.0))
    nearest = min(bounds, key=lambda name: bounds[name], default="")
    limited = nearest != "" and bounds[nearest] < doubled
    bound = bounds[nearest] if limited else doubled
    gain = signed_percent(100.0 * (bound / throughput - 1.0))
    reported = f"With twice the {station} throughput is at most {rate(bound)} requests/s ({gain} %)"
    return f"{reported}, where the {nearest} are full." if limited else f"{reported}."


def _said(one: Confirmed, station: str = "") -> str:
    """What a confirming run measured, against the station that was found full."""
    other = f" (this is another station than the {station})" if station and station != one.more.changes else ""
    if one.verdict == NO_DATA:
        return f"Not confirmed by a run of its own with {one.changed_text}: {one.evidence}."
    return f"Runs with {one.changed_text}{other}: {one.verdict}; {one.evidence}."
