"""What the way through proxies costs: a section's cells beside those of earlier sections with fewer proxies or none. `price_blocks`.

Sections are held against each other where they have the same servers, client machines and value size. They are sweeps of one night and one
machine, but share no blocks, so that what is printed are levels and their ratios, without a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.report.common import by_workload, figure, level_text, level_value, line_over, method, series_of
from weir_lab.report.numbers.comparing import loops_text, response_of, throughput_of
from weir_lab.report.numbers.maxima import listed, maximum_of
from weir_lab.report.numbers.stations import bottleneck, usages
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Panel
from weir_lab.theory.units import count_text, number, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry, Figure

__all__ = ["price_blocks"]

_KIND = "clients"
_ALIKE = ("servers", "client_machines", "value_size_bytes", "think_time_s", "multiget_keys")


@dataclass(frozen=True, eq=False)
class _Way:
    """One series of a workload, and how its requests go: ``directly``, ``through one proxy``."""

    name: str
    series: Series
    maximum: Maximum

    def at(self, clients: int) -> CellReadings | None:
        """Its cell with this number of clients."""
        return next((cell for cell in self.series.cells if cell.settings.clients == clients), None)


def price_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Sentences, the table and the figure of what the proxies of this section cost; nothing where nothing is there to hold it against."""
    ways = {name: found for name, found in _ways(task, earlier).items() if len(found) > 1}
    if not ways:
        return []
    points = tuple(point for workload, found in ways.items() for point in _points(workload, found))
    loops = loops_text(_sweeps(ways)).strip()
    points = (*points, *([loops] if loops else []))
    drawn = _figure(task, ways)
    return [Text("What the proxies cost:", points), _table(task, ways), *([drawn] if drawn is not None else [])]


def _ways(task: Task, earlier: Sequence[Task]) -> dict[str, list[_Way]]:
    """Of each workload: directly, and through each number of proxies up to the section's own."""
    own = _last(task)
    if task.spec.kind != _KIND or any(one.cells[0].settings.path is not RequestPath.PROXY for one in own.values()):
        return {}
    found: dict[str, list[_Way]] = {}
    for workload, series in own.items():
        found[workload] = []
        for other in earlier:
            beside = _last(other).get(workload) if other.spec.kind == _KIND else None
            if beside is not None and _fits(beside, series):
                found[workload].append(_way(beside, task.margins.maximum))
        found[workload].append(_way(series, task.margins.maximum))
    return found


def _last(task: Task) -> dict[str, Series]:
    """The last series of each workload: that with the most workers, where these differ."""
    lines = [one for one in series_of(task) if not one.event]
    return {workload: group[-1] for workload, group in by_workload(lines).items()}


def _fits(other: Series, series: Series) -> bool:
    """Whether the other has fewer proxies, or none, and everything else that matters the same."""
    theirs, ours = other.cells[0].settings, series.cells[0].settings
    if any(getattr(theirs, name) != getattr(ours, name) for name in _ALIKE) or other.sweep.speed != series.sweep.speed:
        return False
    if theirs.path is RequestPath.DIRECT:
        return True
    same = theirs.engine is ours.engine and theirs.workers == ours.workers and theirs.replicas == ours.replicas
    return same and theirs.proxies < ours.proxies


def _way(series: Series, margin: float) -> _Way:
    settings = series.cells[0].settings
    if settings.path is RequestPath.DIRECT:
        return _Way("directly", series, maximum_of(series.cells, margin))
    proxies = "one proxy" if settings.proxies == 1 else f"{settings.proxies} proxies"
    return _Way(f"through {proxies}", series, maximum_of(series.cells, margin))


def _levels(ways: Sequence[_Way]) -> list[int]:
    """Numbers of clients that all have."""
    return [
        cell.settings.clients for cell in ways[0].series.cells if all(one.at(cell.settings.clients) for one in ways)
    ]


def _points(workload: str, ways: Sequence[_Way]) -> list[str]:
    """At the fewest clients, and at the maximum."""
    levels = _levels(ways)
    own, first = ways[-1], ways[0]
    found = []
    if levels:
        cells = [(one, cell) for one in ways if (cell := one.at(levels[0])) is not None]
        times = [f"{level_text(cell, response_of, 1e3)} ms {one.name}" for one, cell in cells]
        rates = [rate(cell.mean_throughput) for _, cell in cells]
        found.append(
            f"{workload.capitalize()}, {count_text(levels[0], 'client')}: a request takes {', '.join(times)} "
            f"({_percent(cells[-1][1].mean_response_s, cells[0][1].mean_response_s).text} %), so that these clients get "
            f"{listed(rates)} requests/s.{_where_it_goes(workload, first, own, levels[0])}"
        )
    stops = [
        f"{rate(one.maximum.throughput)}{'' if place else ' requests/s'} {one.name}{'' if one.maximum.shown else ' (largest mean)'}"
        for place, one in enumerate(ways)
    ]
    change = _percent(own.maximum.throughput, first.maximum.throughput).text
    found.append(f"{workload.capitalize()} stop at {listed(stops)} ({change} %){_whose(own)}.{_falls_text(first)}")
    return found


def _falls_text(first: _Way) -> str:
    """Of the way that others are held against, the levels that fall off: there the table has changes that no proxy makes."""
    falls = first.maximum.fall_text
    return f" {first.name.capitalize()} {falls}; {first.maximum.fall_why}." if falls else ""


def _where_it_goes(workload: str, first: _Way, own: _Way, clients: int) -> str:
    """Of what a way through proxies adds to a direct one: the delays that were built in, and the stages of the proxy itself.

    A request and its reply are each delayed on their way into a proxy. Nothing where the testbed delays nothing, or no stamps are there.
    """
    base, cell, testbed = first.at(clients), own.at(clients), own.series.sweep.testbed
    if base is None or cell is None or testbed is None or base.settings.path is not RequestPath.DIRECT:
        return ""
    full = _full_on_both(first, own, base, cell)
    if full:
        # These are the fewest clients that both ways have.
        return (
            f" The {full} are full on both ways already: what the hop adds is taken from the wait for them and does not show. For "
            f"{workload} no level was measured on both ways at which the {full} are not full."
        )
    delay_ms = next((one.delay_ms for one in testbed.machines if one.name.startswith("proxy-")), None)
    inside = [sum(stages.values()) - stages["backend"] for run in cell.runs if (stages := run.stages_s()) is not None]
    added = 1e3 * (cell.mean_response_s - base.mean_response_s)
    if not delay_ms or not inside or added <= 0.0:
        return ""
    own_ms = 1e3 * sum(inside) / len(inside)
    rest = added - 2.0 * delay_ms - own_ms
    if rest < 0.0:
        return ""  # a closed loop hides a hop behind a link that is full without it
    return (
        f" Of the {number(added, 2)} ms that are added, {number(2.0 * delay_ms, 2)} ms are the delays of one more hop, "
        f"{number(own_ms, 2)} ms stages of the proxy itself (all but backend), and the rest, {number(rest, 2)} ms, sending over one more "
        "link and what else there is."
    )


def _full_on_both(first: _Way, own: _Way, base: CellReadings, cell: CellReadings) -> str:
    """The station that limits both cells; empty where there is none."""
    limits = []
    for way, one in ((first, base), (own, cell)):
        sweep = way.series.sweep
        links = sweep.study.topology.built_links if sweep.links_built else None
        limits.append(bottleneck(usages(one, links), queue_grows=None).station)
    return limits[0] if limits[0] == limits[1] else ""


def _whose(way: _Way) -> str:
    workers = way.series.cells[0].settings.workers
    return f", with {count_text(workers, 'worker')} in each proxy" if workers else ""


def _table(task: Task, by_workload_: dict[str, list[_Way]]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for workload, ways in by_workload_.items():
        for clients in _levels(ways):
            first = ways[0].at(clients)
            for one in ways:
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
                        _percent(cell.mean_throughput, first.mean_throughput) if one is not ways[0] else "–",
                        _percent(cell.mean_response_s, first.mean_response_s) if one is not ways[0] else "–",
                    )
                )
        for one in ways:
            value = one.maximum.value
            rows.append(
                (
                    workload,
                    "at the maximum" if one.maximum.shown else "largest mean",
                    one.name,
                    Value.of(value, 0) if value is not None else Value(one.maximum.throughput, digits=0),
                    "–",
                    _percent(one.maximum.throughput, ways[0].maximum.throughput) if one is not ways[0] else "–",
                    "–",
                )
            )
    least = next(iter(by_workload_.values()))[0].name
    return Table(
        f"{task.spec.name}-price",
        f"What the proxies cost: levels of this section and of those with fewer proxies, the series with the most workers of each. Changes "
        f"are against those {least}; the sweeps share no blocks, so they have no interval.",
        ("Workload", "Clients", "Way", "X (requests/s)", "R (ms)", "X changes (%)", "R changes (%)"),
        tuple(rows),
        folded=True,
    )


def _percent(value: float, base: float) -> Value:
    return Value(100.0 * (value / base - 1.0), digits=1, signed=True)


def _figure(task: Task, by_workload_: dict[str, list[_Way]]) -> Figure | None:
    panels: list[Panel] = []
    cells: list[CellReadings] = []
    for workload, ways in by_workload_.items():
        lines: list[tuple[Line, Line]] = []
        for place, one in enumerate(ways):
            cells += one.series.cells
            drawn = [
                Line(one.name, line_over(one.series, value, scale).marks, LOOKS[place])
                for value, scale in ((throughput_of, 1.0), (response_of, 1e3))
            ]
            lines.append((drawn[0], drawn[1]))
        levels = sorted({float(cell.settings.clients) for one in ways for cell in one.series.cells})
        axis = Axis("Clients (connections)", log=len(levels) > 2 and levels[-1] >= 8 * levels[0], ticks=tuple(levels))
        for title, label, place in (
            ("throughput", "Throughput (requests/s)", 0),
            ("response time", "Response time (ms)", 1),
        ):
            panels.append(Panel(f"{workload}: {title}", axis, Axis(label), tuple(one[place] for one in lines)))
    return figure(task, "price", "Directly and through proxies", panels, method(cells), _sweeps(by_workload_))


def _sweeps(by_workload_: dict[str, list[_Way]]) -> tuple[SweepReadings, ...]:
    """Those that are held against each other."""
    return tuple(dict.fromkeys(one.series.sweep for ways in by_workload_.values() for one in ways))
