"""What limits a section, by rule: the full station, two signs of it, what twice of it would do, and a run in which it was changed. `why`.

The two signs are independent: how much of the time the station is used (its counters), and which part of a request's time grows when more
clients come (the clients' clocks and the proxy's stamps). What waits for a full link to a client grows outside of the proxy. What
waits for workers grows in the queue; what waits for servers or their links, in the stage backend, and in the queue once all workers wait
there.

*Twice of it* is a bound by operational analysis. With twice the capacity C_i, throughput is at most min(2 C_i, C_j) over the other
stations j, each with C_j = X / U_j (Denning and Buzen, Computing Surveys 10, 1978). And it is at most N / R, with R the least response
time of the curve as it would be then. Where the cell is in a layout that has a fitted network, what that predicts stands beside it. A
station of which half was tried was used 1 / (2 x) of the time before, if x of the throughput was left: a third sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.design.whole.sets import DEFAULT_MARGINS
from weir_lab.records.formats import STAGES
from weir_lab.report.common import by_workload, cell_words, level_text, series_of, workload_name
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.numbers.stations import BEFORE_PROXY, CPU_QUOTAS, FULL, Usage, bottleneck, usages
from weir_lab.report.page.arranging import WHY
from weir_lab.report.page.blocks import Text, Value
from weir_lab.report.sections.claims.asked import NO_DATA
from weir_lab.report.sections.claims.confirming import (
    CONFIRMED,
    NOT_CONFIRMED,
    confirming_table,
    lost_more,
    over_pairs,
    single_text,
    used_before,
)
from weir_lab.report.sections.claims.signs import (
    Explained,
    Sign,
    agreement,
    in_trace,
    open_text,
    outside_of_cell,
    outside_table,
    part_name,
)
from weir_lab.report.sections.comparisons.plateaus import stops_of
from weir_lab.report.sections.models.twice import misses, sentence, twice_at
from weir_lab.theory.units import count_text, number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.numbers.stations import Limit
    from weir_lab.report.page.blocks import Block
    from weir_lab.report.sections.claims.confirming import Confirmed
    from weir_lab.report.sections.claims.contrasts import Pair
    from weir_lab.report.sections.comparisons.plateaus import Stop
    from weir_lab.theory.fitting.devices import Twice

__all__ = ["KINDS", "explained_of", "what_limits", "why"]

KINDS = ("clients", "beside", "replication", "writes", "multigets", "overhead", "trace")
"""Kinds of sections in which a station is said to limit."""
# Of what is inside of a proxy, the setting has the name of the station.
_INSIDE = ("workers", "readers")
# With fewer cells a place has no range.
_SEVERAL = 3
# A time outside of the proxy within this share of that in stage backend is the same wait, in the other direction.
_ALIKE = 0.25
# Less of a change than this, and nothing waits longer.
_STAYS = 0.1
# With fewer times the clients a curve is too short for what grows with them.
_APART = 1.5
# A model may lie above the bound by what both are uncertain by; up to here they say the same.
_OVER, _SAME = 1.1, 1.005
# One that is off by more than this in what was measured tells nothing of what was not.
_OFF = 0.1
# Twice of a full station that brings less than this stands beside another limit that is as near.
_LITTLE = 1.1
# Where no time grows with the clients, in a table.
_NO_SIGN = "none"
_ON_THE_WAY = "What grows is on the way or in the server."
# From less than this of the plateau on, a change from there is not that from the plateau.
_FALLEN = 0.95
# What stands before the name of a station that bounds.
_WHERE_FULL = ", where the "
# A request takes less of a CPU quota where there is more of it (S1 with half of the proxy's): a bound by its use rests on that it does not.
_AS_NOW = ", if a request takes as much CPU time then"


@dataclass(frozen=True, eq=False)
class _Place:
    """A cell at which it is asked what limits, and the ``cells`` that it stands for; ``stop`` where those are series over clients."""

    name: str
    cell: CellReadings
    cells: tuple[CellReadings, ...]
    sweep: SweepReadings
    line: Series | None
    stop: Stop | None = None
    twice: str = ""
    """What the section's own series with twice of what is inside (workers, readers) says; empty where there is none."""
    twice_short: str = ""
    """Its change against this one, for a table."""
    twice_more: str = ""
    """What that series reaches, where ``twice`` has its change alone."""
    trace: bool = False

    @property
    def plateau(self) -> float | None:
        """Throughput of the plateau; None where none is shown."""
        return self.stop.maximum.throughput if self.stop is not None and self.stop.shown else None


def explained_of(task: Task, confirmed: Sequence[Confirmed]) -> list[Explained]:
    """A place for each distinct plateau, or for what was changed; none for kinds of sections in which nothing is said to limit."""
    if task.spec.kind not in KINDS:
        return []
    places = [(place, _own(place, confirmed)) for place in _places(task, confirmed)]
    without = [one for one in confirmed if not any(one in own for _, own in places)]
    return [_explained(place, own, task.margins, without) for place, own in places]


def why(task: Task, confirmed: Sequence[Confirmed], explained: Sequence[Explained] | None = None) -> Text | None:
    """The paragraph, a point for each distinct plateau; None for kinds of sections in which nothing is said to limit."""
    found = explained_of(task, confirmed) if explained is None else explained
    points = [(one.lead, one.text) for one in found]
    if task.spec.kind in KINDS:
        # What has no pair, for want of runs, is said once.
        alone = [one for one in confirmed if not any(one in other.tried for other in found)]
        points += [(said, _joined(said, rest, _based(one))) for one in alone for said, rest in (_said(one),)]
    sweeps = {id(one.sweep): one.sweep for one in found if one.outside is not None and one.sweep is not None}
    # What would tell is said behind the first sentence.
    open_ = [open_text(sweep.cells, sweep) for sweep in sweeps.values()]
    points += [(f"{said.partition('. ')[0]}.", said) for said in open_]
    if not points:
        return None
    leads, texts = zip(*points, strict=True)
    return Text(WHY, texts, leads=leads)


def what_limits(task: Task, confirmed: Sequence[Confirmed], explained: Sequence[Explained]) -> list[Block]:
    """The paragraph, and the tables of runs in which a station was changed and of what is outside of the proxy, where there are such."""
    found = (
        why(task, confirmed, explained),
        confirming_table(task.spec.name, confirmed, _limits_there(task, confirmed)),
        outside_table(task.spec.name, {one.name: one.outside for one in explained if one.outside is not None}),
    )
    return [one for one in found if one is not None]


def _limits_there(task: Task, confirmed: Sequence[Confirmed]) -> dict[Pair, str]:
    """The station that limits each unchanged cell that a changed one is held against, by the rule of the text; empty where none does."""
    sweeps = {cell: sweep for sweep in task.sweeps for cell in sweep.cells}
    found = {}
    for pair in (pair for one in confirmed for pair in one.pairs if pair.base in sweeps):
        sweep = sweeps[pair.base]
        links = sweep.study.topology.built_links if sweep.links_built else None
        stations = usages(pair.base, links)
        busiest = _shown_by_runs(stations, [one for one in confirmed if any(at.base is pair.base for at in one.pairs)])
        found[pair] = bottleneck(stations, queue_grows=None).station or (busiest.station if busiest is not None else "")
    return found


def _shown_by_runs(stations: Sequence[Usage], confirmed: Sequence[Confirmed]) -> Usage | None:
    """The busiest of the stations that runs in which they alone were changed show to limit."""
    shown = [one.more.changes for one in confirmed if one.verdict == CONFIRMED]
    return next((one for one in stations if one.station in shown), None)


def _own(place: _Place, confirmed: Sequence[Confirmed]) -> list[Confirmed]:
    """Those that changed something at a cell that this place stands for."""
    return [one for one in confirmed if any(pair.base in place.cells for pair in one.pairs)]


def _places(task: Task, confirmed: Sequence[Confirmed]) -> list[_Place]:
    if task.spec.kind in ("clients", "beside"):
        return _stops(task)
    if task.spec.kind == "trace":
        return [
            _Place(sweep.study.name, cell, (cell,), sweep, None, trace=True)
            for sweep in task.sweeps
            for cell in sweep.cells
        ]
    groups = by_workload([one for one in series_of(task) if not one.event])
    # Shares of writes are levels there and no workloads of their own: those that were changed, or the last.
    changed = {workload_name(pair.base.settings) for one in confirmed for pair in one.pairs}
    groups = {name: group for name, group in groups.items() if name in (changed or {list(groups)[-1]})}
    found = []
    for workload, group in groups.items():
        cells = [cell for one in group for cell in one.cells]
        pairs = [pair.base for one in confirmed for pair in one.pairs if workload_name(pair.base.settings) == workload]
        cell = pairs[0] if pairs else maximum_of(cells, task.margins.maximum).cell
        line = next((one for one in group if cell in one.cells), None)
        if line is not None:
            curve = line if len({one.settings.clients for one in line.cells}) > 1 else None
            others = _words_of(cell)
            found.append(_Place(f"{workload}{f', {others}' if others else ''}", cell, tuple(cells), line.sweep, curve))
    return found


def _words_of(cell: CellReadings) -> str:
    """The levels of a cell, and whether its multi-gets are split."""
    split = [str(cell.settings.multiget)] if cell.settings.multiget_keys > 1 and cell.settings.multiget else []
    return ", ".join([*split, *filter(None, [cell_words(cell, without="write_ratio")])])


def _stops(task: Task) -> list[_Place]:
    """A place for each distinct plateau."""
    stops = stops_of(task)
    found = []
    for stop in stops:
        lead = stop.lead
        curve = lead if len({one.settings.clients for one in lead.cells}) > 1 else None
        name = stop.workload if len([one for one in stops if one.workload == stop.workload]) == 1 else ""
        name = name or f"{stop.workload}, {stop.names}"
        cells = tuple(cell for one in stop.series for cell in one.cells)
        found.append(_Place(name, stop.maximum.cell, cells, lead.sweep, curve, stop, *_twice_inside(stop, stops)))
    return found


def _twice_inside(stop: Stop, stops: Sequence[Stop]) -> tuple[str, str, str]:
    """``The section's own 16 workers, twice as many, bring …``: another series of the section, and no run of ours; its change; the rest."""
    setting, own = stop.limit.station, stop.maximum.cell.settings
    if setting not in _INSIDE or getattr(own, setting) is None:
        return "", "", ""
    wanted = 2 * getattr(own, setting)
    left_out = {setting, "clients", "clients_per_thread"}
    alike = own.model_dump(exclude=left_out)
    for other in stops:
        for one, maximum in zip(other.series, other.maxima, strict=True):
            settings = maximum.cell.settings
            if getattr(settings, setting) == wanted and settings.model_dump(exclude=left_out) == alike:
                said, rest = _reached(stop, one, maximum)
                same = _gain_alike(stop, one)
                short = f"{same} % with the same clients" if same else f"{_gain(stop, maximum)} %"
                named = f"The section's own {one.name}, twice as many, {said}."
                return named, f"twice: {short}, in the section itself", rest
    return "", "", ""


def _gain(stop: Stop, maximum: Maximum) -> str:
    """How far another maximum lies above that of a stop, in percent."""
    return signed_percent(100.0 * (maximum.throughput / stop.maximum.throughput - 1.0))


def _gain_alike(stop: Stop, other: Series) -> str:
    """How far another series lies above the lead of a stop with the same clients, in percent; empty where it has no such level."""
    own = stop.maximum.cell
    alike = next((cell for cell in other.cells if cell.settings.clients == own.settings.clients), None)
    return "" if alike is None else signed_percent(100.0 * (alike.mean_throughput / own.mean_throughput - 1.0))


def _reached(stop: Stop, other: Series, maximum: Maximum) -> tuple[str, str]:
    """``bring +53.0 % with the same clients``, and in a sentence what they have then, and reach with more."""
    gain = _gain(stop, maximum)
    clients = stop.maximum.cell.settings.clients
    alike = next((cell for cell in other.cells if cell.settings.clients == clients), None)
    if alike is None or alike is maximum.cell:
        return f"reach {rate(maximum.throughput)} requests/s ({gain} %)", ""
    return (
        f"bring {_gain_alike(stop, other)} % with the same clients",
        f"The {other.name} have {rate(alike.mean_throughput)} requests/s with the same clients, and reach {rate(maximum.throughput)} with "
        f"{maximum.cell.settings.clients} ({gain} %).",
    )


def _explained(
    place: _Place, confirmed: Sequence[Confirmed], margins: Margins, without: Sequence[Confirmed]
) -> Explained:
    cell = place.cell
    links = place.sweep.study.topology.built_links if place.sweep.links_built else None
    stations = usages(cell, links)
    limit = bottleneck(stations, queue_grows=None)
    usage = _usage_of(limit, stations, confirmed)
    plateau = place.stop.maximum.value if place.stop is not None and place.plateau else None
    level = (
        f"There throughput is {_two_runs(level_text(cell, throughput_of, digits=0))} requests/s, and the response time "
    )
    level += f"{level_text(cell, response_of, 1e3)} ms."
    if plateau:
        level = f"The plateau is {Value.of(plateau, 0).text} requests/s. {level}"
    clients = count_text(cell.settings.clients, "client")
    spoken = f" ({place.stop.lead.name}, {clients})" if place.stop is not None and len(place.stop.series) > 1 else ""
    at = "" if clients in place.name else spoken or f", {clients}"
    sign = in_trace(cell, limit.station, _held_inside(cell)) if place.trace else _sign(place, limit.station)
    outside, full = outside_of_cell(cell, place.sweep), usage.station if usage is not None else ""
    named = place.name if place.trace else f"{place.name[:1].upper()}{place.name[1:]}"
    limited, evidence = _limited(place, limit, stations, confirmed)
    lead = [f"{named}{at}: {limited}", sign.text, place.twice]
    runs = [_said(one, limit.station, place) for one in confirmed]
    lead += [shown for shown, _ in runs]
    known = [one.more.changes for one in (*confirmed, *without)]
    if not known and not place.twice:
        lead.append("Not confirmed by a run of its own.")
    elif limit.station and limit.station not in known and not place.twice:
        lead.append(f"There is no run of its own with more or less of the {limit.station}.")
    said = [level, evidence, sign.more, place.twice_more]
    said += [_joined(rest, _based(one, place)) for one, (_, rest) in zip(confirmed, runs, strict=True)]
    said.append(outside.text(full) if outside is not None else "")
    then = ""
    if limit.station:
        own = next(one for one in stations if one.station == limit.station)
        sent = _sent_by_clients(place, own)
        dearer = any(one.more.changes == limit.station and lost_more(one) for one in confirmed)
        bounded, bound = _twice(stations, limit.station, cell.mean_throughput, place.plateau, sent, dearer=dearer)
        said.append(bounded)
        near = place.trace or (place.line is not None and _range_of(place.line) < _APART)
        modelled = None if near else twice_at((place.sweep,), cell, margins, limit.station)
        said.append(_modelled(modelled, bound, cell.mean_throughput, margins, by_station=_WHERE_FULL in bounded))
        if modelled is not None and _agrees(modelled, bound, cell.mean_throughput):
            then = "the same" if modelled.fullest_then == modelled.station else modelled.fullest_then
    return Explained(
        place.name,
        cell,
        usage if usage is not None else next(iter(stations), None),
        usage is not None,
        sign,
        tuple(confirmed),
        place.twice_short,
        then,
        place.stop is None or place.stop.shown,
        _joined(*lead),
        _joined(*lead, *said),
        outside if outside is not None and outside.leaves(full) else None,
        place.sweep,
        limit.alike,
        tuple(_over_plateau(one, place) for one in confirmed),
        place.stop if place.plateau else None,
    )


def _joined(*sentences: str) -> str:
    """Those that say something, one behind the other."""
    return " ".join(one for one in sentences if one)


def _usage_of(limit: Limit, stations: Sequence[Usage], confirmed: Sequence[Confirmed]) -> Usage | None:
    """The station that limits: one that is full, or that the runs in which it alone was changed show to limit; None where none does."""
    if limit.station:
        return next(one for one in stations if one.station == limit.station)
    return _shown_by_runs(stations, confirmed)


def _two_runs(level: str) -> str:
    """``576 (two runs: 582 and 569)`` of ``576 (582 and 569)``: said at the first number of a point."""
    return level.replace("(", "(two runs: ", 1) if " and " in level else level


def _modelled(
    found: Twice | None, bound: float, measured: float, margins: Margins = DEFAULT_MARGINS, *, by_station: bool = True
) -> str:
    """What the model says of twice the station; nothing where it is far above what can be had, and how that is where it is a little.

    ``by_station``: the bound is that of another station, which would be full then.

    Where the model is far off what was measured, that alone is said: a change of what it says tells nothing of this system.
    """
    if found is None:
        return ""
    off = found.throughput_per_s / measured - 1.0
    if abs(off) > _OFF:
        return (
            f"The model tells nothing of twice the {found.station}: it has {rate(found.throughput_per_s)} requests/s here, "
            f"{signed_percent(100.0 * off)} % against what was measured."
        )
    if found.throughput_then_per_s > _OVER * bound:
        return ""
    if not _agrees(found, bound, measured):
        above = signed_percent(100.0 * (found.throughput_then_per_s / bound - 1.0)).removeprefix("+")
        unknown = "; which station would be full then is not known" if by_station else ""
        return (
            f"The model says {rate(found.throughput_then_per_s)} requests/s then, {above} % more than this bound allows, so one of the two "
            f"is wrong by that much{unknown}{misses(found, measured, margins)}."
        )
    return sentence(found, misses(found, measured, margins))


def _agrees(found: Twice, bound: float, measured: float) -> bool:
    """Whether a model has what was measured, and no more than the bound allows, so that it is said what would be full then."""
    near = abs(found.throughput_per_s / measured - 1.0) <= _OFF
    return near and found.throughput_then_per_s <= _SAME * bound


def _limited(place: _Place, limit: Limit, stations: Sequence[Usage], confirmed: Sequence[Confirmed]) -> tuple[str, str]:
    """What limits, and the evidence; one that is not full all of the time limits, too, where the run that changed it alone says so."""
    busiest = _usage_of(limit, stations, confirmed)
    if limit.station or busiest is None:
        return limit.lead, limit.rest
    used = f"{100.0 * busiest.share:.0f} %"
    return (
        f"the {busiest.station} limit, {used} used: not all of the time, but requests wait for them, as the runs in which they alone were "
        "changed show.",
        f"The {busiest.station} are used {used} ({busiest.evidence}).{_in_all(place, busiest.station)}",
    )


def _in_all(place: _Place, station: str) -> str:
    """How much of the station all cells used for which this one stands."""
    links = place.sweep.study.topology.built_links if place.sweep.links_built else None
    shares = {
        cell: next((one.share for one in usages(cell, links) if one.station == station), None) for cell in place.cells
    }
    known = {cell: share for cell, share in shares.items() if share is not None}
    if len(known) < _SEVERAL:
        return ""
    full = [cell for cell, share in known.items() if share >= FULL]
    ends = f"{100.0 * min(known.values()):.0f} to {100.0 * max(known.values()):.0f} %"
    at = f", from {100.0 * FULL:.0f} % on at {'; '.join(_words_of(one) for one in full)}" if full else ""
    whole = "all " if len(known) == len(place.cells) else ""
    whose = f"of this section with {workload_name(place.cell.settings)}" if place.stop is None else "of these series"
    return f" Over {whole}{len(known)} cells {whose} they are used {ends}{at}."


def _range_of(line: Series) -> float:
    """How many times as many clients its last cell has as its first."""
    return line.cells[-1].settings.clients / line.cells[0].settings.clients


def _held_inside(cell: CellReadings) -> str:
    """Workers or readers that are full; empty where none are."""
    return next((one.station for one in usages(cell, None) if one.holds and one.share >= FULL), "")


def _sign(place: _Place, station: str) -> Sign:
    """Which part of a request's time grows from the fewest clients to the most."""
    if place.line is None:
        if not station:
            return Sign(
                "All cells have the same clients: no time which grows with them tells where requests wait.", _NO_SIGN
            )
        same = "There is no second sign: all cells have the same clients."
        return Sign(same, _NO_SIGN, "No time grows with them then.")
    first, last = place.line.cells[0], place.line.cells[-1]
    clients = _range_of(place.line)
    if clients < _APART:
        ends = f"{first.settings.clients} to {last.settings.clients}"
        return Sign(f"Clients differ too little, {ends}, to see which time grows with them.", _NO_SIGN)
    times = last.mean_response_s / first.mean_response_s
    ends = f"{first.settings.clients} to {count_text(last.settings.clients, 'client')}"
    several = place.stop is not None and len(place.stop.series) > 1
    whose = f"; the response times are those with {place.stop.lead.name}" if place.stop and several else ""
    as_many = f"{number(clients, 0 if clients >= 10.0 else 1)} times as many as {first.settings.clients}"
    over = f"{count_text(last.settings.clients, 'client')} are {as_many}{whose}."
    grown = f"From {ends} the response time "
    if not station and abs(times - 1.0) < _STAYS:
        hardly = f"{grown}changes by {signed_percent(100.0 * (times - 1.0))} % only: hardly anything waits."
        return Sign(hardly, "hardly anything waits", over)
    grown += f"grows {number(times, 1)} times"
    parts = _growth(first, last)
    if not parts:
        proxied = last.cell.settings.path.value == "proxy"
        where = "no proxy tells in which part." if proxied else "no stamp tells where."
        return Sign(f"{grown}; {where}", "no stamps", over if proxied else f"{over} {_ON_THE_WAY}")
    most = max(parts, key=lambda name: parts[name])
    total = last.mean_response_s - first.mean_response_s
    if total <= 0.0 or parts[most] <= 0.0:
        return Sign(f"{grown}: nothing waits longer with more clients.", "nothing waits longer", over)
    share = f"{100.0 * parts[most] / total:.0f} %"
    agrees, short, reason = agreement(station, most, _held_inside(last))
    others = _joined(_last_series(place, most), _both_ways(place, station)) if short else ""
    said = f"{grown}, {share} of the growth {part_name(most)}{agrees}."
    return Sign(said, f"{share} {part_name(most)}{short}", _joined(over, reason, others))


def _last_series(place: _Place, most: str) -> str:
    """Where the time grows with the last of the series that stop there, if not where it does with the first: with 64 workers none queue."""
    if place.stop is None or len(place.stop.series) < 2 or place.stop.series[-1] is place.stop.lead:
        return ""
    last = place.stop.series[-1]
    parts = _growth(last.cells[0], last.cells[-1])
    total = last.cells[-1].mean_response_s - last.cells[0].mean_response_s
    order = sorted(parts, key=lambda name: -parts[name])[:2]
    if not parts or total <= 0.0 or order[0] == most:
        return ""
    shares = [f"{100.0 * parts[name] / total:.0f} %" for name in order]
    second = f", and {shares[1]} {part_name(order[1])}" if parts[order[1]] > 0.0 else ""
    return f"With {last.name} {shares[0]} of what it grows by is {part_name(order[0])}{second}."


def _both_ways(place: _Place, station: str) -> str:
    """Where the proxies' links limit, replies to clients wait in the same queue as what goes to servers; said at the most clients."""
    last = place.line.cells[-1] if place.line is not None else place.cell
    stages = [known for run in last.runs if (known := run.stages_s()) is not None]
    if station != "proxy uplinks" or not stages:
        return ""
    backend = sum(one["backend"] for one in stages) / len(stages)
    outside = last.mean_response_s - sum(sum(one.values()) for one in stages) / len(stages)
    if backend <= 0.0 or abs(outside / backend - 1.0) > _ALIKE:
        return ""
    return (
        f"With {count_text(last.settings.clients, 'client')} stage backend takes {number(1e3 * backend, 1)} ms and the way outside "
        f"{number(1e3 * outside, 1)} ms: replies to clients leave by the same links as what goes to servers, and wait about as long."
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


@dataclass(frozen=True)
class _Sent:
    """What the clients of a cell send at most, because no request is answered sooner than in ``least_s``; per second.

    ``built``: by what was built alone, without the time that other links, CPUs and workers take of a request.
    """

    clients: int
    least_s: float
    per_s: float
    built: bool = False


def _sent_by_clients(place: _Place, usage: Usage) -> _Sent | None:
    """By the shortest mean response time of the curve, less half of what a request takes of a station that gets twice as fast.

    Where the cell has that time itself, or the station is as full where it is shortest, so that requests wait there, too, it is that of the
    delays that were built in, and half of what the station takes. Sending over other links is not in it, since a burst passes them at once
    after a pause. None without a curve; and, where the delays are to tell, without delays.
    """
    if place.line is None:
        return None
    settings, fastest = place.cell.settings, min(place.line.cells, key=lambda cell: cell.mean_response_s)
    tier = usage.station.split()[0]
    devices = {"client": settings.client_machines, "proxy": settings.proxies, "server": settings.servers}.get(tier, 1)
    waiting = fastest is place.cell or fastest.mean_throughput >= FULL * place.cell.mean_throughput
    taken_s = 0.0 if usage.holds else devices * min(usage.share, 1.0) / place.cell.mean_throughput
    if waiting:
        delays_s = _delays_s(place)
        least_s = delays_s + taken_s / 2.0 if delays_s else 0.0
    else:
        least_s = fastest.mean_response_s - taken_s / 2.0
    if least_s <= 0.0:
        return None
    per_s = settings.population / (least_s + settings.think_time_s)
    return _Sent(settings.clients, least_s, per_s, built=waiting)


def _delays_s(place: _Place) -> float:
    """How long a request and its reply are on their way at least: what each machine receives was delayed by so much; 0 if not at all."""
    machines = place.sweep.testbed.machines if place.sweep.testbed is not None else []
    delays: dict[str, float] = {}
    for one in machines:
        tier, delay_s = one.name.partition("-")[0], (one.delay_ms or 0.0) / 1e3
        delays[tier] = min(delays.get(tier, delay_s), delay_s)
    way = {"client": 1, "server": 1, "proxy": 2 * (place.cell.settings.path is RequestPath.PROXY)}
    return sum(count * delays.get(tier, 0.0) for tier, count in way.items())


def _twice(
    stations: Sequence[Usage],
    station: str,
    throughput: float,
    plateau: float | None,
    sent: _Sent | None = None,
    *,
    dearer: bool = False,
) -> tuple[str, float]:
    """The bound of throughput with twice this station, and who limits then; the gain is against the plateau where one is shown.

    Clients that wait for replies send no more than one request each in the least time that one takes then.

    Where half of the station was shown to lose more than half, a request takes less of it where there is more: then this is no bound.

    A model that leaves out what limits then may say more than this bound, which is not to be had.

    What waits inside for others (workers, readers) is held by a station behind it, and is let go with it: it bounds nothing then. A station
    before the proxy holds none of them, so that they bound like any other.
    """
    own = next(one for one in stations if one.station == station)
    others = [
        one
        for one in stations
        if one.station != station and one.share > 0.0 and (not one.holds or station in BEFORE_PROXY)
    ]
    bounds = {one.station: throughput / min(one.share, 1.0) for one in others}
    doubled = 2.0 * throughput / max(0.5, min(own.share, 1.0))
    nearest = min(bounds, key=lambda name: bounds[name], default="")
    limited = nearest != "" and bounds[nearest] < doubled
    # More of a station takes nothing away: what the plateau shows can be had.
    bound = max(bounds[nearest] if limited else doubled, plateau or 0.0)
    few = sent if sent is not None and max(throughput, plateau or 0.0) <= sent.per_s < bound else None
    bound = few.per_s if few is not None else bound
    gain = f"{signed_percent(100.0 * (bound / (plateau or throughput) - 1.0))} %"
    base = f" over the maximum, {rate(plateau)}" if plateau and rate(plateau) != rate(throughput) else ""
    if dearer and not limited and few is None:
        quota = station in CPU_QUOTAS.values()
        half, more = ("half the quotas", "CPU time") if quota else ("half of them", "of them")
        return (
            f"With twice the {station} throughput is about {rate(bound)} requests/s ({gain}{base}) if a request takes as much of them as "
            f"now. With {half} a request took more {more}; with twice it may take less.",
            math.inf,
        )
    reported = f"With twice the {station} throughput is at most about {rate(bound)} requests/s ({gain}{base})"
    near = own.share >= FULL and bound < _LITTLE * (plateau or throughput)
    if few is not None:
        both = (
            f" They are near that already, as the {station} are near full: twice of one alone brings little."
            if near
            else ""
        )
        return (
            f"{reported}: {count_text(few.clients, 'client')} send no more, as a request takes about {number(1e3 * few.least_s, 2)} ms "
            f"then.{_left_out(own) if few.built else ''}{both}",
            bound,
        )
    full = f"{_WHERE_FULL}{nearest} are full" if limited else ""
    as_now = _AS_NOW if (nearest if limited else station) in CPU_QUOTAS.values() else ""
    both = (
        f" The {station} and the {nearest} are both near full: twice of one alone brings little."
        if near and limited
        else ""
    )
    return f"{reported}{full}{as_now}.{both}", bound


def _left_out(own: Usage) -> str:
    """What a least time is made of that was not measured, and what is not in it."""
    half = "" if own.holds else f" and half of its time at the {own.station} now"
    return f" That is the delays that were built{half}; sending over other links is left out."


def _said(one: Confirmed, station: str = "", place: _Place | None = None) -> tuple[str, str]:
    """What a confirming run measured, against the station that was found full; and what of it opens on demand.

    All of it does where another station was changed, and nothing came of that, as expected.
    """
    another = bool(station) and station != one.more.changes
    levels = {pair.base.settings.clients for pair in one.pairs}
    at = (
        f" at {count_text(min(levels), 'client')}"
        if len(levels) == 1 and place is not None and place.line is not None
        else ""
    )
    if one.verdict == NO_DATA:
        single = single_text(one)
        if single:
            return f"Runs with {one.changed_text} exist, but {single}, so they decide nothing.", ""
        return f"Not confirmed by a run of its own with {one.changed_text}: {one.evidence}.", ""
    tried = f"{one.changed_text}{one.levels_text}"
    if another and one.verdict == NOT_CONFIRMED:
        expected = f"As expected where the {station} limit, {tried} change less{at} than they would if they limited"
        return "", f"{expected}: {one.evidence} and changes by {one.change}."
    other = f" (this is another station than the {station})" if another else ""
    if not one.change:
        return f"Runs with {tried}{at}{other}: {one.verdict}; {one.evidence}.", ""
    over = f" {over_pairs(len(one.pairs))}".rstrip()
    lost = "; more than half is lost" if lost_more(one) else ""
    return (
        f"With {tried}{other}, throughput{at}{over} changes by {one.change}: {one.verdict}{lost}.",
        _joined(f"With {one.changed_text} {one.evidence}.", used_before(one) if lost else ""),
    )


def _based(one: Confirmed, place: _Place | None = None) -> str:
    """What the verdict on a confirming run rests on, and what else its change says: how full the station was, and of the plateau."""
    basis = f"Of the runs with {one.changed_text}{one.levels_text}: {one.basis}." if one.basis else ""
    return _joined(basis, "" if lost_more(one) else used_before(one), _against_plateau(one, place))


def _over_plateau(one: Confirmed, place: _Place | None) -> float | None:
    """The change against the plateau in percent, where the unchanged level lies so far below it that the two differ; else None."""
    if place is None or place.stop is None or place.plateau is None or len(one.pairs) != 1:
        return None
    (pair,) = one.pairs
    fallen = [cell for at in place.stop.maxima for cell in at.beyond]
    if pair.base not in fallen or pair.base.mean_throughput >= _FALLEN * place.plateau:
        return None
    return 100.0 * (pair.other.mean_throughput / place.plateau - 1.0)


def _against_plateau(one: Confirmed, place: _Place | None) -> str:
    """Where the unchanged level has fallen below the plateau, the change against the plateau."""
    gain = _over_plateau(one, place)
    if gain is None or place is None or place.plateau is None:
        return ""
    base = one.pairs[0].base
    below = number(100.0 * (1.0 - base.mean_throughput / place.plateau), 1)
    return (
        f"The unchanged level at {count_text(base.settings.clients, 'client')} lies {below} % below the plateau of {rate(place.plateau)}; "
        f"against that the change is {signed_percent(gain)} %."
    )
