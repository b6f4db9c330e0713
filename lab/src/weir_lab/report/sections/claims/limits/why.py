"""What limits a section, by rule: the full station, two signs of it, what twice of it would do, and a run in which it was changed. `why`.

The two signs are independent: how much of the time the station is used (its counters), and which part of a request's time grows when more
clients come (the clients' clocks and the proxy's stamps). What waits for a full link to a client grows outside of the proxy. What
waits for workers grows in the queue; what waits for servers or their links, in the stage backend, and in the queue once all workers wait
there.

A station of which half was tried was used 1 / (2 x) of the time before, if x of the throughput was left: a third sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.common import level_text, workload_name
from weir_lab.report.numbers.comparing import response_of, throughput_of
from weir_lab.report.numbers.stations import FULL, Usage, bottleneck, usages
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
from weir_lab.report.sections.claims.limits.bound import (
    model_agrees,
    modelled_short,
    modelled_text,
    sent_by_clients,
    twice_bound,
)
from weir_lab.report.sections.claims.limits.places import own_of, places_of, words_of
from weir_lab.report.sections.claims.limits.signs import (
    Explained,
    Sign,
    agreement,
    in_trace,
    open_text,
    outside_of_cell,
    outside_table,
    part_name,
)
from weir_lab.report.sections.models.twice import twice_at
from weir_lab.theory.units import count_text, number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.numbers.stations import Limit
    from weir_lab.report.page.blocks import Block
    from weir_lab.report.sections.claims.confirming import Confirmed
    from weir_lab.report.sections.claims.contrasts import Pair
    from weir_lab.report.sections.claims.limits.places import Place

__all__ = ["KINDS", "explained_of", "what_limits", "why"]

KINDS = ("clients", "beside", "replication", "writes", "multigets", "overhead", "trace")
"""Kinds of sections in which a station is said to limit."""
# With fewer cells a place has no range.
_SEVERAL = 3
# A time outside of the proxy within this share of that in stage backend is the same wait, in the other direction.
_ALIKE = 0.25
# Less of a change than this, and nothing waits longer.
_STAYS = 0.1
# With fewer times the clients a curve is too short for what grows with them.
_APART = 1.5
# Where no time grows with the clients, in a table.
_NO_SIGN = "none"
_ON_THE_WAY = "What grows is on the way or in the server."
# From less than this of the plateau on, a change from there is not that from the plateau.
_FALLEN = 0.95


def explained_of(task: Task, confirmed: Sequence[Confirmed]) -> list[Explained]:
    """A place for each distinct plateau, or for what was changed; none for kinds of sections in which nothing is said to limit."""
    if task.spec.kind not in KINDS:
        return []
    places = [(place, own_of(place, confirmed)) for place in places_of(task, confirmed)]
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


def _explained(
    place: Place, confirmed: Sequence[Confirmed], margins: Margins, without: Sequence[Confirmed]
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
    brings = ""
    if limit.station:
        own = next(one for one in stations if one.station == limit.station)
        sent = sent_by_clients(place, own)
        dearer = any(one.more.changes == limit.station and lost_more(one) for one in confirmed)
        bound = twice_bound(stations, limit.station, cell.mean_throughput, place.plateau, sent, dearer=dearer)
        said.append(bound.text)
        near = place.trace or (place.line is not None and _range_of(place.line) < _APART)
        modelled = None if near else twice_at((place.sweep,), cell, margins, limit.station)
        measured = cell.mean_throughput
        said.append(modelled_text(modelled, bound.per_s, measured, margins, by_station=bound.by_station))
        agrees = modelled is not None and model_agrees(modelled, bound.per_s, measured)
        brings = modelled_short(modelled) if modelled is not None and agrees else bound.short
    return Explained(
        place.name,
        cell,
        usage if usage is not None else next(iter(stations), None),
        usage is not None,
        sign,
        tuple(confirmed),
        place.twice_short,
        brings,
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


def _limited(place: Place, limit: Limit, stations: Sequence[Usage], confirmed: Sequence[Confirmed]) -> tuple[str, str]:
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


def _in_all(place: Place, station: str) -> str:
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
    at = f", from {100.0 * FULL:.0f} % on at {'; '.join(words_of(one) for one in full)}" if full else ""
    whole = "all " if len(known) == len(place.cells) else ""
    whose = f"of this section with {workload_name(place.cell.settings)}" if place.stop is None else "of these series"
    return f" Over {whole}{len(known)} cells {whose} they are used {ends}{at}."


def _range_of(line: Series) -> float:
    """How many times as many clients its last cell has as its first."""
    return line.cells[-1].settings.clients / line.cells[0].settings.clients


def _held_inside(cell: CellReadings) -> str:
    """Workers or readers that are full; empty where none are."""
    return next((one.station for one in usages(cell, None) if one.holds and one.share >= FULL), "")


def _sign(place: Place, station: str) -> Sign:
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


def _last_series(place: Place, most: str) -> str:
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


def _both_ways(place: Place, station: str) -> str:
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


def _said(one: Confirmed, station: str = "", place: Place | None = None) -> tuple[str, str]:
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


def _based(one: Confirmed, place: Place | None = None) -> str:
    """What the verdict on a confirming run rests on, and what else its change says: how full the station was, and of the plateau."""
    basis = f"Of the runs with {one.changed_text}{one.levels_text}: {one.basis}." if one.basis else ""
    return _joined(basis, "" if lost_more(one) else used_before(one), _against_plateau(one, place))


def _over_plateau(one: Confirmed, place: Place | None) -> float | None:
    """The change against the plateau in percent, where the unchanged level lies so far below it that the two differ; else None."""
    if place is None or place.stop is None or place.plateau is None or len(one.pairs) != 1:
        return None
    (pair,) = one.pairs
    fallen = [cell for at in place.stop.maxima for cell in at.beyond]
    if pair.base not in fallen or pair.base.mean_throughput >= _FALLEN * place.plateau:
        return None
    return 100.0 * (pair.other.mean_throughput / place.plateau - 1.0)


def _against_plateau(one: Confirmed, place: Place | None) -> str:
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
