"""What the proxies' CPU quotas are spent on where there are more servers, more threads or more clients.

Where the proxies' quotas are full at both ends of a change, throughput is the quota over the CPU time of a request (utilization law). A
change of the one is then a change of the other. Over servers: `servers_points`, `servers_table`. Over threads and clients, where throughput
falls with them: `cost_points`, `crowd_table`. Readers of the split engine are those of a server: more servers have more of them.

Where the quotas limit the best series of a workload, and its series differ in their threads, a figure has the CPU time of a request in
every cell. A table has what the quotas allow at that cost: `spent_blocks`, `spent_points`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import Engine, RequestPath, Role
from weir_lab.records.tables.quotas import quota_shares
from weir_lab.report.common import Point, brief, by_workload, figure, level_value, line_over, method
from weir_lab.report.numbers.comparing import change_between, throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.stations import CPU_QUOTAS, FULL, bottleneck, usages
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.page.charts import Axis, Panel
from weir_lab.report.sections.comparisons.maxima import maximum_over
from weir_lab.theory.units import change_text, count_text, number, signed_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.linear import Change

__all__ = [
    "cost_points",
    "crowd_points",
    "crowd_table",
    "readers_text",
    "servers_points",
    "servers_shown",
    "servers_table",
    "spent_blocks",
    "spent_points",
]


def readers_text(base: CellReadings, other: CellReadings) -> str:
    """`` (and so 96 to 224 readers)`` where more servers have more readers; empty where they have not."""
    one, two = base.settings, other.settings
    if one.engine is not Engine.SPLIT or one.path is not RequestPath.PROXY or not one.readers:
        return ""
    crews = [settings.servers * (settings.readers or 0) * settings.proxies for settings in (one, two)]
    return f" (and so {crews[0]} to {crews[1]} readers)"


class _Found(NamedTuple):
    """From one cell to another with more of something; ``spent_us`` and ``shares`` (of the proxies' quotas) at both ends."""

    few: CellReadings
    many: CellReadings
    rate: Change
    cpu: Change
    spent_us: tuple[float, float]
    shares: tuple[float, float] | None
    sets: Change | None = None
    """Of the response time of SETs, where there are any."""

    @property
    def sets_text(self) -> str:
        """What its interval shows of SETs, behind what it shows of the throughput."""
        return f"; SET response time {brief(self.sets)}" if self.sets is not None and self.sets.shown else ""


def servers_points(cells: Sequence[CellReadings]) -> list[Point]:
    """From the fewest servers to the most, without copies, throughput and the proxies' CPU time of a request."""
    found = _found(cells)
    if found is None:
        return []
    spent = " to ".join(number(one, 1) for one in found.spent_us)
    return [
        Point(
            f"Without copies (R = 1), from {_servers_text(found)}: throughput {brief(found.rate)}{found.sets_text}.",
            f"The proxies' CPU time of a request {brief(found.cpu)}, from {spent} µs{_quotas_text(found.shares)}.",
        )
    ]


def servers_shown(cells: Sequence[CellReadings]) -> list[str]:
    """The changes of throughput and of the time of SETs with the servers alone, whose intervals are without 0."""
    found = _found(cells)
    if found is None or not (found.rate.shown or found.sets_text):
        return []
    rate = [f"throughput {brief(found.rate)}"] if found.rate.shown else []
    said = "; ".join([*rate, *filter(None, [found.sets_text.removeprefix("; ")])])
    whose = "their intervals" if "; " in said else "its interval"
    return [f"without copies, from {_servers_text(found)}, by {whose} alone: {said}"]


def _servers_text(found: _Found) -> str:
    few, many = found.few, found.many
    return f"{few.settings.servers} to {count_text(many.settings.servers, 'server')}{readers_text(few, many)}"


def _found_text(found: _Found) -> str:
    spent = " to ".join(number(one, 1) for one in found.spent_us)
    return f"throughput {brief(found.rate)}; the proxies' CPU time of a request {brief(found.cpu)}, from {spent} µs"


def servers_table(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """The numbers of that sentence."""
    found = _found(cells)
    if found is None:
        return None
    rates = [sum(cell.throughputs) / len(cell.runs) for cell in (found.few, found.many)]
    rows: list[tuple[Entry, ...]] = [
        ("throughput (requests/s)", *(Value(one, digits=0) for one in rates), _percent(found.rate)),
        (
            "the proxies' CPU time of a request (µs)",
            *(Value(one, digits=1) for one in found.spent_us),
            _percent(found.cpu),
        ),
    ]
    if found.sets is not None:
        times = [1e3 * sum(known) / len(known) for cell in (found.few, found.many) if (known := cell.of(_set_s))]
        rows.append(("response time of SETs (ms)", *(Value(one) for one in times), _percent(found.sets)))
    if found.shares is not None:
        rows.append(("the proxies' CPU quotas, used (%)", *(Value(100.0 * one, digits=0) for one in found.shares), "–"))
    ends = [count_text(cell.settings.servers, "server") for cell in (found.few, found.many)]
    return Table(
        f"{task.spec.name}-over-servers",
        "Exploratory: what more servers change without copies (R = 1), with 95 % intervals of each change alone. At full quotas throughput "
        "is the CPU time that they allow in a second, divided by that of a request.",
        ("", *ends, "Change (%)"),
        tuple(rows),
    )


def _found(cells: Sequence[CellReadings]) -> _Found | None:
    alone = sorted((cell for cell in cells if cell.settings.replicas == 1), key=lambda cell: cell.settings.servers)
    if len(alone) < 2 or alone[0].settings.servers == alone[-1].settings.servers:
        return None
    few, many = alone[0], alone[-1]
    if any(few.level(name) != level for name, level in many.cell.levels if name not in ("servers", "replicas")):
        return None
    found = _between(cells, few, many)
    return found._replace(sets=change_between(cells, few, many, _set_s)) if found is not None else None


def _between(cells: Sequence[CellReadings], few: CellReadings, many: CellReadings) -> _Found | None:
    """``None`` where either has too few runs, or CPU times were not taken."""
    rate, cpu = change_between(cells, few, many, throughput_of), change_between(cells, few, many, _cpu_s)
    spent = [found for cell in (few, many) if (found := cell.of(_cpu_s))]
    if rate is None or cpu is None or len(spent) < 2:
        return None
    ends = (1e6 * sum(spent[0]) / len(spent[0]), 1e6 * sum(spent[1]) / len(spent[1]))
    return _Found(few, many, rate, cpu, ends, _shares(few, many))


def _set_s(run: Reading) -> float | None:
    """The mean response time of SETs at the clients."""
    return run.operation_s("set")


def crowd_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """A sentence for each step to more threads, or more clients, with which throughput falls although the proxies' quotas stay full."""
    found = _crowds(task, lines)
    points = [f"{one.workload.capitalize()}, from {one.ends}: {_found_text(one.found)}." for one in found]
    if found:
        points.append(
            f"The proxies' CPU quotas are full at both ends of {'this' if len(found) == 1 else 'each'}, so throughput is the CPU time that "
            "these allow in a second, divided by that of a request: what a request costs more in the proxy is what is lost."
        )
    return points


def cost_points(task: Task, lines: Sequence[Series]) -> list[Point]:
    """What `crowd_points` and `spent_points` say, as one point: it opens with what more threads and clients cost, if they cost anything."""
    spent, found = spent_points(task, lines), _crowds(task, lines)
    if not found:
        parts = [one.partition(" From ") for one in spent]
        return [Point(lead, f"From {rest}" if rest else "") for lead, _, rest in parts]
    leads = []
    for workload in dict.fromkeys(one.workload for one in found):
        own = [
            f"by {signed_percent(one.found.rate.percent)} % from {one.ends}"
            for one in found
            if one.workload == workload
        ]
        leads.append(f"{workload} changes {listed(own)}")
    said = f"Throughput of {'; of '.join(leads)}: the proxies' CPU quotas are full, and a request costs more of them."
    return [Point(said, " ".join([*crowd_points(task, lines), *spent]))]


def crowd_table(task: Task, lines: Sequence[Series]) -> Table | None:
    """The numbers of those sentences, and of `spent_points`."""
    rows: list[tuple[Entry, ...]] = []
    for one in [*(step for found in _limited(task, lines) for step in found.steps), *_crowds(task, lines)]:
        rates = [sum(cell.throughputs) / len(cell.runs) for cell in (one.found.few, one.found.many)]
        rows.append(
            (
                one.workload, one.ends, *(Value(rate, digits=0) for rate in rates), _percent(one.found.rate),
                *(Value(spent, digits=1) for spent in one.found.spent_us), _percent(one.found.cpu),
            )
        )  # fmt: skip
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-crowds",
        "Exploratory: what more threads and more clients cost where the proxies' CPU quotas limit, with 95 % intervals of each change "
        "alone, by cells that have two runs. A row that begins at the maximum of a series, or at its largest mean, begins too high by "
        "chance: part of a fall may be that. Changes are taken inside blocks of runs made one after another; means at both ends have in "
        "them what differs between hours. CPU: the proxies' CPU time of a request.",
        (
            "Workload",
            "From",
            "X there (requests/s)",
            "X then",
            "Change (%)",
            "CPU there (µs)",
            "CPU then",
            "Change of CPU (%)",
        ),
        tuple(rows),
    )


class _Crowd(NamedTuple):
    """A step to more threads or clients: ``ends`` says which, ``16 to 64 readers per server at 216 clients``."""

    workload: str
    ends: str
    found: _Found


def _crowds(task: Task, lines: Sequence[Series]) -> list[_Crowd]:
    """By workload: from the best crew to the largest at the best crew's clients, and of the largest from its best clients to the most."""
    steps: list[tuple[str, str, CellReadings, CellReadings]] = []
    for workload in dict.fromkeys(one.workload for one in lines):
        series = [one for one in lines if one.workload == workload and one.over == "clients" and not one.event]
        known = [(size, one) for one in series if (size := _crew(one)) is not None and len(_judged(one)) > 1]
        if not known:
            continue
        largest, crowded = max(known, key=lambda pair: pair[0])
        size, best = max(known, key=lambda pair: maximum_over(task, [pair[1]]).cell.mean_throughput)
        at = maximum_over(task, [best]).cell
        same = [cell for cell in _judged(crowded) if cell.settings.clients == at.settings.clients]
        if size < largest and same and _but_for_crew(at) == _but_for_crew(same[0]) and best.sweep is crowded.sweep:
            steps.append((workload, _crew_ends(at, same[0]), at, same[0]))
        first, last = maximum_over(task, [crowded]).cell, _judged(crowded)[-1]
        if first.settings.clients < last.settings.clients:
            steps.append((workload, _client_ends(first, last), first, last))
    crowds = []
    for workload, ends, few, many in steps:
        # Of these two cells alone: at full quotas the one change follows from the other, if both come from the same runs in the same way.
        found = _between([few, many], few, many)
        if found is not None and found.rate.high < 0.0 and found.shares is not None and min(found.shares) >= FULL:
            crowds.append(_Crowd(workload, ends, found))
    return crowds


def _judged(series: Series) -> list[CellReadings]:
    """Levels with two runs or more."""
    return [cell for cell in series.cells if len(cell.runs) >= 2]


def _but_for_crew(cell: CellReadings) -> dict[str, object]:
    """All levels of a cell but those of its crew and clients: cells that are compared differ in one of these alone."""
    crowd = ("readers", "workers", "clients", "clients_per_thread")
    return {name: level for name, level in cell.cell.levels if name not in crowd}


# From the clients of a maximum a step to the most tells something where these are many more.
_MANY_TIMES = 2.0
# From here on quotas are as full as each other, so that what throughput loses is what a request costs more.
_FULL_ALIKE = 0.97
# What a crew is called, by the setting that has its size.
_CREWS = {"readers": "readers per server", "workers": "workers"}


def _crew_ends(few: CellReadings, many: CellReadings) -> str:
    """``16 to 64 readers per server at 216 clients``."""
    return f"{_crew_of(few)} to {_crew_of(many)} {_crews_name(many)} at {count_text(few.settings.clients, 'client')}"


def _client_ends(few: CellReadings, many: CellReadings) -> str:
    """``72 to 648 clients with 64 readers per server``."""
    clients = f"{few.settings.clients:,} to {count_text(many.settings.clients, 'client')}"
    return f"{clients} with {_crew_of(many)} {_crews_name(many)}"


def _crews_name(cell: CellReadings) -> str:
    return _CREWS["readers" if cell.settings.engine is Engine.SPLIT else "workers"]


def _crew(series: Series) -> int | None:
    """Of all cells of a series."""
    return _crew_of(series.cells[0])


def _crew_of(cell: CellReadings) -> int | None:
    """How many threads of a proxy serve requests; ``None`` for the event engine and without a proxy."""
    settings = cell.settings
    if settings.path is not RequestPath.PROXY:
        return None
    return settings.readers if settings.engine is Engine.SPLIT else settings.workers


class _Limited(NamedTuple):
    """A workload whose best series stops where the proxies' CPU quotas are full: all its series of that sweep, which differ in their crews.

    ``steps`` go from the smallest crew to the largest near the clients of the maximum, and with its crew from the fewest clients to the
    most, and from those of the maximum to the most, where these are many more.
    """

    workload: str
    lines: tuple[Series, ...]
    best: Series
    maximum: Maximum
    steps: tuple[_Crowd, ...]


def _limited(task: Task, lines: Sequence[Series]) -> list[_Limited]:
    found = []
    for workload, group in by_workload(lines).items():
        crews = [one for one in group if one.over == "clients" and not one.event and _crew(one) is not None]
        if not crews:
            continue
        best = max(crews, key=lambda one: maximum_over(task, [one]).cell.mean_throughput)
        crews = [one for one in crews if one.sweep is best.sweep]
        maximum = maximum_over(task, [best])
        if len({_crew(one) for one in crews}) < 2 or not maximum.cell.of(_cpu_s):
            continue
        links = best.sweep.study.topology.built_links if best.sweep.links_built else None
        if bottleneck(usages(maximum.cell, links), queue_grows=None).station != CPU_QUOTAS["proxy"]:
            continue
        found.append(_Limited(workload, tuple(crews), best, maximum, _steps(task, crews, best, maximum.cell)))
    return found


def _steps(task: Task, crews: Sequence[Series], best: Series, at: CellReadings) -> tuple[_Crowd, ...]:
    """What `_crowds` has already is left out; all cells of the series tell about the spread."""
    known = [(one.found.few, one.found.many) for one in _crowds(task, crews)]
    cells, levels = [cell for one in crews for cell in one.cells], _judged(best)
    pairs = [(_crew_pair(crews, at), _crew_ends)]
    if levels:
        pairs.append(((levels[0], levels[-1]), _client_ends))
        if levels[-1].settings.clients >= _MANY_TIMES * at.settings.clients:
            pairs.append(((at, levels[-1]), _client_ends))
    steps: dict[str, _Crowd] = {}
    for pair, words in pairs:
        if pair is None or pair in known or pair[0] is pair[1]:
            continue
        found = _between(cells, *pair)
        if found is not None:
            steps.setdefault(words(*pair), _Crowd(best.workload, words(*pair), found))
    return tuple(steps.values())


def _crew_pair(crews: Sequence[Series], at: CellReadings) -> tuple[CellReadings, CellReadings] | None:
    """The smallest and the largest crew at the clients of a cell; at the nearest clients where both are known, if not there."""
    rows: dict[int, list[CellReadings]] = {}
    for one in crews:
        for cell in _judged(one):
            if _but_for_crew(cell) == _but_for_crew(at):
                rows.setdefault(cell.settings.clients, []).append(cell)
    pairs = [(min(row, key=_crew_size), max(row, key=_crew_size)) for row in rows.values()]

    def reach(pair: tuple[CellReadings, CellReadings]) -> tuple[float, float]:
        away = math.log(pair[0].settings.clients / at.settings.clients)
        return _crew_size(pair[1]) / _crew_size(pair[0]), -abs(away)

    widest = max(pairs, key=reach, default=None)
    return widest if widest is not None and widest[0] is not widest[1] else None


def _crew_size(cell: CellReadings) -> int:
    return _crew_of(cell) or 1


def spent_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """A sentence for each workload that the proxies' CPU quotas limit: what a request costs there, and with fewer threads or clients."""
    points = []
    for one in _limited(task, lines):
        cell = one.maximum.cell
        spent, used = cell.of(_cpu_s), cell.of(_used)
        what = "the maximum" if one.maximum.shown else "the largest mean"
        where = f"{what} ({one.best.name}, {count_text(cell.settings.clients, 'client')})"
        parts = [
            f"{one.workload.capitalize()}: at {where} a request takes {number(1e6 * sum(spent) / len(spent), 1)} µs of CPU time in the "
            f"proxies, and {number(100.0 * sum(used) / len(used), 0)} % of their CPU quotas are used",
            *(f"From {step.ends} that time changes by {_spent_text(step.found)}" for step in one.steps),
        ]
        points.append(". ".join(parts) + ".")
    return points


def _spent_text(found: _Found) -> str:
    return f"{change_text(found.cpu)}, from {' to '.join(number(one, 1) for one in found.spent_us)} µs"


def spent_blocks(
    task: Task, lines: Sequence[Series], drawn: Sequence[Series], axis_of: Callable[[Sequence[Series]], Axis]
) -> list[Block]:
    """A figure of the lines that are ``drawn``, CPU time of a request in the proxies, and a table of what their quotas allow at that cost.

    Nothing where something else limits. `page.arranging` puts both below what says why, by their names.
    """
    limited = {one.workload: one for one in _limited(task, lines)}
    shown = [one for one in drawn if one.workload in limited and not one.event and _crew(one) is not None]
    panels = []
    for workload, group in by_workload(shown).items():
        x = axis_of(group)
        # Of one client alone a request costs several times as much as of many.
        y = Axis("CPU time of a request (µs)", log=x.log)
        panels.append(Panel(workload, x, y, tuple(line_over(one, _cpu_s, 1e6) for one in group)))
    quotas = [one.maximum.cell.of(_quota_cpus) for one in limited.values()]
    rows: list[tuple[Entry, ...]] = [
        (
            workload,
            one.name,
            Value(cell.settings.clients),
            level_value(cell, _cpu_s, 1e6, digits=1),
            level_value(cell, _allowed, digits=0),
            level_value(cell, throughput_of, digits=0),
            Value(100.0 * sum(used) / len(used), digits=0) if (used := cell.of(_used)) else "–",
            Value(len(cell.runs)),
        )
        for workload, found in limited.items()
        for one in found.lines
        for cell in one.cells
    ]
    if not rows:
        return []
    made = figure(
        task,
        "proxy-cpu",
        "What a request costs the proxies in CPU time",
        panels,
        f"{method([cell for one in shown for cell in one.cells])} CPU time that the proxies used, over the requests that the clients got "
        f"answered. Their CPU quotas are {' and '.join(dict.fromkeys(number(sum(one) / len(one), 2) for one in quotas))} CPUs in all.",
    )
    table = Table(
        f"{task.spec.name}-proxy-cpu-cells",
        "What the proxies' CPU quotas allow at the cost of a request: the quota over that cost, run by run, beside the throughput that was "
        "measured. Where the quotas are full, both are the same, and a request that costs more is what lowers throughput. 95 % intervals "
        "of each mean alone.",
        (
            "Workload",
            "Series",
            "Clients",
            "CPU of a request (µs)",
            "Quotas allow (requests/s)",
            "Measured X (requests/s)",
            "Quotas used (%)",
            "Runs",
        ),
        tuple(rows),
    )
    return [table] if made is None else [made, table]


def _used(run: Reading) -> float | None:
    """Share of the proxies' CPU quotas; None where they have none, or nothing was used."""
    return quota_shares(run.run).get("proxy") or None


def _allowed(run: Reading) -> float | None:
    """Requests per second that the quotas have CPU time for, at what a request costs in this run."""
    used = _used(run)
    return None if used is None else run.throughput / used


def _quota_cpus(run: Reading) -> float | None:
    """Of all proxies together."""
    allowed, spent = _allowed(run), _cpu_s(run)
    return None if allowed is None or spent is None else allowed * spent


def _percent(change: Change) -> Value:
    return Value(change.percent, change.low, change.high, 1, signed=True)


def _cpu_s(run: Reading) -> float | None:
    return run.cpu_s(Role.PROXY)


def _shares(few: CellReadings, many: CellReadings) -> tuple[float, float] | None:
    """How much of the proxies' CPU quotas was used at both ends; None where there are none."""
    known = [
        [share for run in cell.runs if (share := quota_shares(run.run).get("proxy")) is not None]
        for cell in (few, many)
    ]
    return (sum(known[0]) / len(known[0]), sum(known[1]) / len(known[1])) if all(known) else None


def _quotas_text(shares: tuple[float, float] | None) -> str:
    if shares is None:
        return ""
    used = " and ".join(f"{100.0 * share:.0f} %" for share in shares)
    if min(shares) < _FULL_ALIKE:
        return f"; their CPU quotas are used {used}"
    return (
        f"; their CPU quotas are full at both ends ({used} used), so throughput is the CPU time that these allow in a second, divided by "
        "that of a request"
    )
