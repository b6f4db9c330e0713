"""What the way through proxies costs, and what more proxies bring back: a section beside earlier ones with fewer or none. `price_blocks`.

The price of the first proxies is said where these come first. A section with more of them says what these change, at the maximum of each
series and at the fewest clients, and leaves out what an earlier section has said.

Sections are held against each other where they have the same servers, client machines and value size. They are sweeps of one night and one
machine, but share no blocks, so that what is printed are levels and their ratios, without a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import RequestPath
from weir_lab.report.common import (
    Point,
    by_workload,
    figure,
    level_text,
    level_value,
    line_over,
    method,
    points_text,
    series_of,
)
from weir_lab.report.numbers.comparing import loops_text, response_of, throughput_of
from weir_lab.report.numbers.maxima import listed, maximum_of
from weir_lab.report.numbers.stations import bottleneck, usages
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Panel
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Settings
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry, Figure

__all__ = ["price_blocks"]

_KIND = "clients"
_ALIKE = ("servers", "client_machines", "value_size_bytes", "think_time_s", "multiget_keys")
# More series than these are not named in a sentence: the table has them.
_NAMED_MAX = 2


@dataclass(frozen=True, eq=False)
class _Way:
    """One series of a workload, and how its requests go: ``directly``, ``through one proxy``."""

    name: str
    series: Series
    maximum: Maximum

    @property
    def proxies(self) -> int:
        """How many it goes through: none directly."""
        settings = self.series.cells[0].settings
        return 0 if settings.path is RequestPath.DIRECT else settings.proxies

    @property
    def most(self) -> Value:
        """The maximum, or else the largest mean, as the table has it."""
        value = self.maximum.value
        return Value.of(value, 0) if value is not None else Value(self.maximum.throughput, digits=0)

    @property
    def most_text(self) -> str:
        """The same in a sentence."""
        return f"{_middle(self.most)}{'' if self.maximum.shown else ' (largest mean)'}"

    def at(self, clients: int) -> CellReadings | None:
        """Its cell with this number of clients."""
        return next((cell for cell in self.series.cells if cell.settings.clients == clients), None)


# Of each workload and number of workers, ascending: the ways, those through the fewest proxies first and the section's own last.
_Ways = dict[str, dict[int, list[_Way]]]


@dataclass(frozen=True, eq=False)
class _Pair:
    """A series of the section beside the same through fewer proxies, and directly where that was measured."""

    workload: str
    crew: int
    fewer: _Way
    own: _Way
    direct: _Way | None
    margin: float

    @property
    def change(self) -> float:
        """Of the maximum, in percent."""
        return _change(self.own, self.fewer)

    @property
    def lost(self) -> bool:
        """Whether fewer proxies cost throughput at the maximum."""
        return self.direct is not None and _change(self.fewer, self.direct) <= -self.margin

    @property
    def named(self) -> bool:
        """Whether a sentence has it: there is something to bring back, or the maximum changes."""
        return self.lost or abs(self.change) >= self.margin

    @property
    def back(self) -> bool:
        """Whether more proxies bring the maximum back to that of direct access."""
        return self.direct is not None and self.change > 0.0 and _change(self.own, self.direct) > -self.margin

    @property
    def step(self) -> str:
        """What more proxies are: ``a second proxy``."""
        if (self.fewer.proxies, self.own.proxies) == (1, 2):
            return "a second proxy"
        return f"going from {_proxies_text(self.fewer.proxies)} to {self.own.proxies}"

    @property
    def cost(self) -> str:
        """Subject and verb of what fewer proxies cost: ``the first costs``."""
        if (self.fewer.proxies, self.own.proxies) == (1, 2):
            return "the first costs"
        return f"{_proxies_text(self.fewer.proxies)} {'costs' if self.fewer.proxies == 1 else 'cost'}"


def price_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Sentences, tables and the figure of what the proxies of this section cost; nothing where nothing is there to hold it against."""
    ways = _ways(task, earlier)
    if not ways:
        return []
    others = [_ways(other, earlier[:place]) for place, other in enumerate(earlier)]
    loops = _loops(ways) if _loops(ways) not in map(_loops, others) else ""
    points = _points(ways, task.margins.maximum, loops)
    pairs = _pairs(ways, task.margins.maximum)
    title = f"What {pairs[0].step} changes:" if pairs else "What the proxies cost:"
    rest = (_maxima_table(task, ways), _table(task, ways), _added_table(task, ways), _figure(task, ways))
    return [*([points_text(title, points)] if points else []), *(one for one in rest if one is not None)]


def _ways(task: Task, earlier: Sequence[Task]) -> _Ways:
    """Directly, and through each number of proxies up to the section's own; nothing of series that no earlier section has so."""
    own = _lines(task) if task.spec.kind == _KIND else {}
    if any(group[-1].cells[0].settings.path is not RequestPath.PROXY for group in own.values()):
        return {}
    found: _Ways = {}
    for workload, group in own.items():
        crews: dict[int, list[_Way]] = {}
        for series in group:
            settings = series.cells[0].settings
            if settings.path is not RequestPath.PROXY or settings.proxies != group[-1].cells[0].settings.proxies:
                continue
            beside = _beside(workload, series, earlier, task.margins.maximum)
            if beside:
                crews[_crew(settings)] = [*beside, _way(series, task.margins.maximum)]
        if crews:
            found[workload] = dict(sorted(crews.items()))
    return found


def _beside(workload: str, series: Series, earlier: Sequence[Task], margin: float) -> list[_Way]:
    """The same series through fewer proxies, the fewest first: of each number that of the last section which has it."""
    found: dict[int, _Way] = {}
    for other in earlier:
        fitting = (
            [one for one in _lines(other).get(workload, []) if _fits(one, series)] if other.spec.kind == _KIND else []
        )
        if fitting:
            # Of several that fit the last is that with the most workers, where these differ.
            way = _way(fitting[-1], margin)
            found[way.proxies] = way
    return [way for _, way in sorted(found.items())]


def _lines(task: Task) -> dict[str, list[Series]]:
    """The series of each workload."""
    return by_workload([one for one in series_of(task) if not one.event])


def _crew(settings: Settings) -> int:
    """Workers or readers of each proxy; none where it has neither."""
    return settings.workers or settings.readers or 0


def _fits(other: Series, series: Series) -> bool:
    """Whether the other has fewer proxies, or none, and everything else that matters the same."""
    theirs, ours = other.cells[0].settings, series.cells[0].settings
    if any(getattr(theirs, name) != getattr(ours, name) for name in _ALIKE) or other.sweep.speed != series.sweep.speed:
        return False
    if theirs.path is RequestPath.DIRECT:
        return True
    same = theirs.engine is ours.engine and _crew(theirs) == _crew(ours) and theirs.replicas == ours.replicas
    return same and theirs.proxies < ours.proxies


def _way(series: Series, margin: float) -> _Way:
    settings = series.cells[0].settings
    direct = settings.path is RequestPath.DIRECT
    name = "directly" if direct else f"through {_proxies_text(settings.proxies)}"
    return _Way(name, series, maximum_of(series.cells, margin))


def _proxies_text(proxies: int) -> str:
    return "one proxy" if proxies == 1 else f"{proxies} proxies"


def _most(by_crew: dict[int, list[_Way]]) -> list[_Way]:
    """The ways of the series with the most workers."""
    return by_crew[max(by_crew)]


def _pairs(ways: _Ways, margin: float) -> list[_Pair]:
    """The section's series beside the same through fewer proxies, all from the same number of proxies to the same; none without any."""
    found = [
        _Pair(workload, crew, group[-2], group[-1], group[0] if group[0].proxies == 0 else None, margin)
        for workload, by_crew in ways.items()
        for crew, group in by_crew.items()
        if group[-2].proxies > 0
    ]
    steps = [(one.fewer.proxies, one.own.proxies) for one in found]
    return [one for one, step in zip(found, steps, strict=True) if step == steps[-1]]


def _levels(ways: Sequence[_Way]) -> list[int]:
    """Numbers of clients that all have."""
    return [
        cell.settings.clients for cell in ways[0].series.cells if all(one.at(cell.settings.clients) for one in ways)
    ]


def _points(ways: _Ways, margin: float, loops: str) -> list[Point]:
    """What more proxies change, or what the first cost: alone and at the maximum; then what limits the comparison."""
    pairs = _pairs(ways, margin)
    found = [_answer(pairs)] if pairs else []
    first: _Ways = {}
    for workload, by_crew in ways.items():
        group = _most(by_crew)
        if group[-2].proxies:
            found += _again_points(workload, group, margin)
        else:
            first[workload] = by_crew
    hidden = []
    for workload, by_crew in first.items():
        group = _most(by_crew)
        for clients in _levels(group)[:1]:
            if full := _hidden_by(group, clients):
                hidden.append((workload, clients, full, _light_text(workload, group, clients)))
            else:
                found.append(_light_point(workload, group, clients))
    if first:
        found.append(_stops_point(first, margin))
    return [*found, *_limits_points(hidden, loops)]


def _loops(ways: _Ways) -> str:
    return loops_text(_sweeps(ways)).strip()


def _light_point(workload: str, ways: Sequence[_Way], clients: int) -> Point:
    """What the first proxies cost at the fewest clients, and of what that is made."""
    cells = [cell for one in ways if (cell := one.at(clients)) is not None]
    rates = [_shown(level_value(cell, throughput_of, digits=0)) for cell in cells]
    gets = f"So these clients get {listed(rates)} requests/s."
    of_what, rest = _added_text(ways, clients)
    return Point(f"{_light_text(workload, ways, clients)}{of_what}.", f"{gets} {rest}".strip())


def _stops_point(first: _Ways, margin: float) -> Point:
    """What the first proxies cost at the maximum: series that lose or gain a margin; behind them where each workload stops."""
    known = [
        (_change(group[-1], group[0]), f"{workload}{_with_text([crew], group[-1])}", group)
        for workload, by_crew in first.items()
        for crew, group in by_crew.items()
    ]
    far = sorted((one for one in known if abs(one[0]) >= margin), key=lambda one: one[0])
    own = known[-1][2][-1].name
    largest = any(not way.maximum.shown for *_, group in known for way in (group[0], group[-1]))
    start = f"At the maximum{', or the largest mean,' if largest else ''} {own}, against direct access: "
    texts = [_percent(group[-1].maximum.throughput, group[0].maximum.throughput).text for *_, group in far]
    if len(far) > _NAMED_MAX:
        said = f"{texts[0]} to {texts[-1]} % in {len(far)} of {len(known)} series"
    else:
        said = listed([f"{name} {text} %" for (_, name, _), text in zip(far, texts, strict=True)] or [""])
    near = len(known) - len(far)
    if near:
        others = "; the others" if far else "all series" if near > 1 else known[0][1]
        said += f"{others} within {margin:g} %"
    rest = [_stops_text(workload, by_crew, margin) for workload, by_crew in first.items()]
    rest += [_falls_text(workload, _most(by_crew)[0]) for workload, by_crew in first.items()]
    return Point(f"{start}{said}.", " ".join(filter(None, rest)))


def _limits_points(hidden: Sequence[tuple[str, int, str, str]], loops: str) -> list[Point]:
    """What limits the comparison: stations that are full on both ways, and loops that took CPU time in some of the runs."""
    points = [
        Point(
            f"{workload.capitalize()}, {count_text(clients, 'client')}: the {full} are full on both ways and hide what the hop adds.",
            f"A{light.partition(': a')[2]}. Behind a hop a request waits less for what is full, even with these fewest clients.",
        )
        for workload, clients, full, light in hidden
    ]
    if loops and points:
        points[-1] = points[-1]._replace(rest=f"{points[-1].rest} {loops}")
    return points or ([Point(loops)] if loops else [])


def _answer(pairs: Sequence[_Pair]) -> Point:
    """Whether more proxies bring back at the maximum what fewer cost, and what they change there."""
    one, lost = pairs[0], [pair for pair in pairs if pair.lost]
    named = sorted((pair for pair in pairs if pair.named), key=lambda pair: -abs(pair.change))
    if lost:
        start = f"{one.step} {_brings(lost)} what {one.cost}"
    elif any(pair.direct is not None for pair in pairs):
        but = ", but changes this" if named else ""
        start = f"{one.cost} less than {one.margin:g} %, so that {one.step} has nothing to bring back{but}"
    else:
        start = f"{one.step} changes {'this' if named else 'little'}"
    entries = f": {_named_text(named[:_NAMED_MAX])}" if named else ""
    more = _as_many_text(named[0], pairs) if len(named) == 1 else ""
    others = ""
    if len(named) > _NAMED_MAX:
        others = " The table has the others."
    elif len(named) < len(pairs):
        others = f" {'The other' if named else 'All'} maxima change by less than {one.margin:g} %."
    return Point(f"At the maximum {start}{entries}.", f"{more}{others}".strip())


def _brings(lost: Sequence[_Pair]) -> str:
    """The verb: whether what was lost is there again, a part of it, or nothing."""
    if all(pair.back for pair in lost):
        return "brings back"
    if any(pair.back or pair.change >= pair.margin for pair in lost):
        return "brings back a part of"
    return "does not bring back"


def _named_text(named: Sequence[_Pair]) -> str:
    """Maxima through fewer and through more proxies; what direct access has stands once for each workload."""
    last = {pair.workload: pair for pair in named}
    parts = []
    for pair in named:
        direct = (
            f"; directly {pair.direct.most_text}" if pair.direct is not None and last[pair.workload] is pair else ""
        )
        parts.append(
            f"{pair.workload}{_with_text([pair.crew], pair.own)} go from {pair.fewer.most_text} to {pair.own.most_text} requests/s "
            f"({_percent(pair.own.maximum.throughput, pair.fewer.maximum.throughput).text} %{direct})"
        )
    return "; ".join(parts)


def _as_many_text(pair: _Pair, pairs: Sequence[_Pair]) -> str:
    """What fewer proxies reach that have as many workers together: where it is the same, the workers make the change."""
    workers = pair.crew * pair.own.proxies
    same = [one for one in pairs if one.workload == pair.workload and one.crew * one.fewer.proxies == workers]
    if not same or not pair.crew or pair.change < pair.margin:
        return ""
    fewer = same[0].fewer
    name = f"{fewer.name[0].upper()}{fewer.name[1:]}"
    return f" {name} with as many {_crew_noun(fewer)}s in all ({workers}) they stop at {fewer.most_text}."


def _again_points(workload: str, ways: Sequence[_Way], margin: float) -> list[Point]:
    """What more proxies change at the fewest clients; nothing where no proxy changes anything there."""
    levels = _levels(ways)
    times = [cell.mean_response_s for one in ways if levels and (cell := one.at(levels[0])) is not None]
    if not times or all(abs(_ratio(one, times[0])) < margin for one in times[1:]):
        return []
    light = f"{_light_text(workload, ways, levels[0])}."
    (pair,) = _pairs({workload: {0: list(ways)}}, margin)
    if pair.direct is None or _ratio(times[-2], times[0]) < margin:
        return [Point(light)]
    if _ratio(times[-1], times[0]) < margin:
        brought = "brings back"
    else:
        brought = "brings back a part of" if _ratio(times[-1], times[-2]) <= -margin else "does not bring back"
    start, _, times_text = light.partition(": ")
    return [
        Point(
            f"{start}: {pair.step} {brought} what {pair.cost} in response time.",
            f"{times_text[:1].upper()}{times_text[1:]}",
        )
    ]


def _light_text(workload: str, ways: Sequence[_Way], clients: int) -> str:
    """The mean response time on each way with few clients, without a full stop."""
    cells = [(one, cell) for one in ways if (cell := one.at(clients)) is not None]
    first = cells[0][1].mean_response_s
    times = [
        f"{level_text(cell, response_of, 1e3)} ms {one.name}{f' ({_percent(cell.mean_response_s, first).text} %)' if place else ''}"
        for place, (one, cell) in enumerate(cells)
    ]
    return f"{workload.capitalize()}, {count_text(clients, 'client')}: a request takes {', '.join(times)}"


def _stops_text(workload: str, by_crew: dict[int, list[_Way]], margin: float) -> str:
    """Where a workload stops directly, and through the first proxies by the number of their workers."""
    first, own = _most(by_crew)[0], _most(by_crew)[-1]
    start = f"{workload.capitalize()} stop at {first.most_text} requests/s {first.name}"
    changes = {crew: _change(ways[-1], ways[0]) for crew, ways in by_crew.items()}
    texts = {
        crew: _percent(ways[-1].maximum.throughput, ways[0].maximum.throughput).text for crew, ways in by_crew.items()
    }
    if len(by_crew) == 1:
        (crew,) = by_crew
        return f"{start}, {own.name}{_with_text([crew], own)} at {own.most_text} ({texts[crew]} %)."
    far = [crew for crew, change in changes.items() if abs(change) >= margin]
    near = [crew for crew in changes if crew not in far]
    parts = [f"at {by_crew[crew][-1].most_text}{_with_text([crew], own)} ({texts[crew]} %)" for crew in far]
    if len(far) > _NAMED_MAX:
        ends = [texts[min(far, key=changes.__getitem__)], texts[max(far, key=changes.__getitem__)]]
        parts = [f"{ends[0]} to {ends[1]} % from that{_with_text(far, own)}"]
    if near:
        parts.append(f"within {margin:g} % of direct access{_with_text(near, own)}")
    return f"{start}; {own.name} {listed(parts)}."


def _with_text(crews: Sequence[int], way: _Way) -> str:
    """`` with 8 workers``, `` with 8 and 16 workers each``; empty where a proxy has none."""
    if not all(crews):
        return ""
    last = count_text(crews[-1], _crew_noun(way))
    return f" with {listed([*map(str, crews[:-1]), last])}{' each' if way.proxies > 1 else ''}"


def _crew_noun(way: _Way) -> str:
    return "worker" if way.series.cells[0].settings.workers else "reader"


def _falls_text(workload: str, first: _Way) -> str:
    """Of the way that others are held against, the levels that fall off: there the table has changes that no proxy makes."""
    falls = first.maximum.fall_text
    return f"{workload.capitalize()} {first.name}: {falls}; {first.maximum.fall_why}." if falls else ""


class _Added(NamedTuple):
    """What a way through proxies adds to a direct one, in ms: delays that were built in, stages of the proxy, and the rest."""

    all_ms: float
    hop_ms: float
    inside_ms: float
    rest_ms: float


def _hidden_by(ways: Sequence[_Way], clients: int) -> str:
    """The station that is full directly and through proxies; empty where there is none."""
    first, own = ways[0], ways[-1]
    base, cell = first.at(clients), own.at(clients)
    if base is None or cell is None or own.series.sweep.testbed is None or first.proxies:
        return ""
    return _full_on_both(first, own, base, cell)


def _added(ways: Sequence[_Way], clients: int) -> _Added | None:
    """A request and its reply are each delayed on their way into a proxy. None where nothing is delayed, or no stamps are there."""
    first, own = ways[0], ways[-1]
    base, cell, testbed = first.at(clients), own.at(clients), own.series.sweep.testbed
    if base is None or cell is None or testbed is None or first.proxies or _hidden_by(ways, clients):
        return None
    delay_ms = next((one.delay_ms for one in testbed.machines if one.name.startswith("proxy-")), None)
    inside = [sum(stages.values()) - stages["backend"] for run in cell.runs if (stages := run.stages_s()) is not None]
    added = 1e3 * (cell.mean_response_s - base.mean_response_s)
    if not delay_ms or not inside or added <= 0.0:
        return None
    own_ms = 1e3 * sum(inside) / len(inside)
    rest = added - 2.0 * delay_ms - own_ms
    # A closed loop hides a hop behind a link that is full without it.
    return _Added(added, 2.0 * delay_ms, own_ms, rest) if rest >= 0.0 else None


def _added_text(ways: Sequence[_Way], clients: int) -> tuple[str, str]:
    """What the added time is made of, behind the first sentence; and what is left of it, in one of its own."""
    found = _added(ways, clients)
    if found is None:
        return "", ""
    whole, hop, inside, rest = (number(one, 2) for one in found)
    return (
        f"; of the {whole} ms more, {hop} ms are the delays of one more hop, which were built, and {inside} ms stages of the proxy itself",
        f"Stages are all but backend. The rest, {rest} ms, was not measured by itself: sending over one more link is in it.",
    )


def _full_on_both(first: _Way, own: _Way, base: CellReadings, cell: CellReadings) -> str:
    """The station that limits both cells; empty where there is none."""
    limits = []
    for way, one in ((first, base), (own, cell)):
        sweep = way.series.sweep
        links = sweep.study.topology.built_links if sweep.links_built else None
        limits.append(bottleneck(usages(one, links), queue_grows=None).station)
    return limits[0] if limits[0] == limits[1] else ""


def _maxima_table(task: Task, ways: _Ways) -> Table:
    """The maximum of each series on each way."""
    groups = [group for by_crew in ways.values() for group in by_crew.values()]
    names = {one.proxies: one.name for group in groups for one in group[:-1]}
    names = {proxies: names[proxies] for proxies in sorted(names)}
    own = groups[-1][-1]
    rows: list[tuple[Entry, ...]] = []
    for workload, by_crew in ways.items():
        for crew, group in by_crew.items():
            found = {one.proxies: one for one in group[:-1]}
            crew_entry: Entry = Value(crew) if crew else "–"
            levels = [_most_entry(found.get(proxies)) for proxies in names]
            changes = [_change_entry(group[-1], found.get(proxies)) for proxies in names]
            rows.append((workload, crew_entry, *levels, group[-1].most, *changes, _maxima_note(group)))
    return Table(
        f"{task.spec.name}-price-maxima",
        "What the proxies cost at the maximum: each series of this section beside the same with fewer proxies or none, by the tables of "
        f"maxima. Where no maximum is shown, the largest mean stands here. Changes are those of X {own.name}; the sweeps share no blocks, "
        "so they have no interval.",
        (
            "Workload",
            f"{_crew_noun(own).capitalize()}s of each proxy",
            *(f"X {name} (requests/s)" for name in names.values()),
            f"X {own.name} (requests/s)",
            *(f"Against X {name} (%)" for name in names.values()),
            "Maximum",
        ),
        tuple(rows),
    )


def _most_entry(way: _Way | None) -> Entry:
    return "–" if way is None else way.most


def _change_entry(own: _Way, base: _Way | None) -> Entry:
    return "–" if base is None else _percent(own.maximum.throughput, base.maximum.throughput)


def _maxima_note(group: Sequence[_Way]) -> str:
    """Whether all maxima are shown, and which levels fall off."""
    open_ = [one.name for one in group if not one.maximum.shown]
    falls = [f"{one.name} {one.maximum.fall_text}" for one in group if one.maximum.fall_text]
    return "; ".join([f"largest mean {listed(open_)}" if open_ else "shown", *falls])


def _table(task: Task, ways: _Ways) -> Table | None:
    """Every level that all ways have; none where they have no level in common."""
    rows: list[tuple[Entry, ...]] = []
    for workload, by_crew in ways.items():
        group = _most(by_crew)
        for clients in _levels(group):
            first = group[0].at(clients)
            for one in group:
                cell = one.at(clients)
                if cell is None or first is None:
                    continue
                rows.append(
                    (
                        workload,
                        Value(clients),
                        one.name,
                        level_value(cell, throughput_of, digits=0),
                        level_value(cell, response_of, 1e3),
                        _percent(cell.mean_throughput, first.mean_throughput) if one is not group[0] else "–",
                        _percent(cell.mean_response_s, first.mean_response_s) if one is not group[0] else "–",
                    )
                )
    if not rows:
        return None
    least = _most(next(iter(ways.values())))[0].name
    return Table(
        f"{task.spec.name}-price",
        "What the proxies cost at each level: this section and those with fewer proxies, of each the series with the most workers. "
        f"Changes are against those {least}; the sweeps share no blocks, so they have no interval.",
        ("Workload", "Clients", "Way", "X (requests/s)", "R (ms)", "X changes (%)", "R changes (%)"),
        tuple(rows),
        folded=True,
    )


def _added_table(task: Task, ways: _Ways) -> Table | None:
    """The parts of what the first proxies add at the fewest clients; none where they are not known, or an earlier section has them."""
    rows: list[tuple[Entry, ...]] = []
    for workload, by_crew in ways.items():
        group = _most(by_crew)
        levels = _levels(group)
        found = _added(group, levels[0]) if levels and not group[-2].proxies else None
        if found is not None:
            rows.append((workload, Value(levels[0]), *(Value(one, digits=2) for one in found)))
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-price-added",
        "What the way through the proxies adds to the mean response time, in ms. Delays were built into the testbed; stages are stamped in "
        "the proxy. The rest is what is left: sending over one more link is in it.",
        ("Workload", "Clients", "Added", "Delays of one more hop", "Stages of the proxy, all but backend", "Rest"),
        tuple(rows),
        folded=True,
    )


def _change(way: _Way, base: _Way) -> float:
    """Of the maximum, in percent."""
    return _ratio(way.maximum.throughput, base.maximum.throughput)


def _ratio(value: float, base: float) -> float:
    return 100.0 * (value / base - 1.0)


def _percent(value: float, base: float) -> Value:
    return Value(_ratio(value, base), digits=1, signed=True)


def _middle(value: Value) -> str:
    """A value as its table has it, without the interval."""
    return value.text.partition(" ")[0]


def _shown(value: Value | str) -> str:
    return _middle(value) if isinstance(value, Value) else value


def _figure(task: Task, ways: _Ways) -> Figure | None:
    panels: list[Panel] = []
    cells: list[CellReadings] = []
    for workload, by_crew in ways.items():
        group = _most(by_crew)
        lines: list[tuple[Line, Line]] = []
        for place, one in enumerate(group):
            cells += one.series.cells
            drawn = [
                Line(one.name, line_over(one.series, value, scale).marks, LOOKS[place])
                for value, scale in ((throughput_of, 1.0), (response_of, 1e3))
            ]
            lines.append((drawn[0], drawn[1]))
        levels = sorted({float(cell.settings.clients) for one in group for cell in one.series.cells})
        axis = Axis("Clients (connections)", log=len(levels) > 2 and levels[-1] >= 8 * levels[0], ticks=tuple(levels))
        for title, label, place in (
            ("throughput", "Throughput (requests/s)", 0),
            ("response time", "Response time (ms)", 1),
        ):
            panels.append(Panel(f"{workload}: {title}", axis, Axis(label), tuple(one[place] for one in lines)))
    return figure(task, "price", "Directly and through proxies", panels, method(cells), _sweeps(ways))


def _sweeps(ways: _Ways) -> tuple[SweepReadings, ...]:
    """Those that are held against each other."""
    groups = [group for by_crew in ways.values() for group in by_crew.values()]
    return tuple(dict.fromkeys(one.series.sweep for group in groups for one in group))
