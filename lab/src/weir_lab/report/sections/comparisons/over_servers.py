"""What the proxies' CPU quotas are spent on where there are more servers, more threads or more clients.

Where the proxies' quotas are full at both ends of a change, throughput is the quota over the CPU time of a request (utilization law). A
change of the one is then a change of the other. Over servers: `servers_points`, `servers_table`. Over threads and clients, where throughput
falls with them: `crowd_points`, `crowd_table`. Readers of the split engine are those of a server: more servers have more of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import Engine, RequestPath, Role
from weir_lab.records.tables.quotas import quota_shares
from weir_lab.report.numbers.comparing import change_between, throughput_of
from weir_lab.report.numbers.stations import FULL
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.comparisons.maxima import maximum_over
from weir_lab.theory.units import change_text, count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry
    from weir_lab.theory.linear import Change

__all__ = ["crowd_points", "crowd_table", "readers_text", "servers_points", "servers_shown", "servers_table"]


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


def servers_points(cells: Sequence[CellReadings]) -> list[str]:
    """One sentence: from the fewest servers to the most, without copies, throughput and the proxies' CPU time of a request."""
    found = _found(cells)
    if found is None:
        return []
    return [f"Without copies (R = 1), from {_servers_text(found)}: {_found_text(found)}{_quotas_text(found.shares)}."]


def servers_shown(cells: Sequence[CellReadings]) -> list[str]:
    """The change of throughput with the servers alone, where its interval is without 0."""
    found = _found(cells)
    if found is None or not found.rate.shown:
        return []
    return [f"without copies, from {_servers_text(found)}, by its interval alone: throughput {change_text(found.rate)}"]


def _servers_text(found: _Found) -> str:
    few, many = found.few, found.many
    return f"{few.settings.servers} to {count_text(many.settings.servers, 'server')}{readers_text(few, many)}"


def _found_text(found: _Found) -> str:
    spent = " to ".join(number(one, 1) for one in found.spent_us)
    return f"throughput {change_text(found.rate)}; the proxies' CPU time of a request {change_text(found.cpu)}, from {spent} µs"


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
    return _between(cells, few, many)


def _between(cells: Sequence[CellReadings], few: CellReadings, many: CellReadings) -> _Found | None:
    """``None`` where either has too few runs, or CPU times were not taken."""
    rate, cpu = change_between(cells, few, many, throughput_of), change_between(cells, few, many, _cpu_s)
    spent = [found for cell in (few, many) if (found := cell.of(_cpu_s))]
    if rate is None or cpu is None or len(spent) < 2:
        return None
    ends = (1e6 * sum(spent[0]) / len(spent[0]), 1e6 * sum(spent[1]) / len(spent[1]))
    return _Found(few, many, rate, cpu, ends, _shares(few, many))


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


def crowd_table(task: Task, lines: Sequence[Series]) -> Table | None:
    """The numbers of those sentences."""
    rows: list[tuple[Entry, ...]] = []
    for one in _crowds(task, lines):
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
        "Exploratory: what more threads and more clients cost where the proxies' CPU quotas are full, with 95 % intervals of each change "
        "alone. The first cell is the maximum of its series, or its largest mean, too large by chance, as part of the fall may be. "
        "CPU: the proxies' CPU time of a request.",
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
            clients = count_text(at.settings.clients, "client")
            steps.append((workload, f"{size} to {largest} {_CREWS[_kind(crowded)]} at {clients}", at, same[0]))
        first, last = maximum_over(task, [crowded]).cell, _judged(crowded)[-1]
        if first.settings.clients < last.settings.clients:
            step = f"{first.settings.clients:,} to {count_text(last.settings.clients, 'client')}"
            steps.append((workload, f"{step} with {largest} {_CREWS[_kind(crowded)]}", first, last))
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


# What a crew is called, by the setting that has its size.
_CREWS = {"readers": "readers per server", "workers": "workers"}


def _kind(series: Series) -> str:
    return "readers" if series.cells[0].settings.engine is Engine.SPLIT else "workers"


def _crew(series: Series) -> int | None:
    """How many threads of a proxy serve requests; ``None`` for the event engine and without a proxy."""
    settings = series.cells[0].settings
    if settings.path is not RequestPath.PROXY:
        return None
    return settings.readers if settings.engine is Engine.SPLIT else settings.workers


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
    if min(shares) < FULL:
        return f"; their CPU quotas are used {used}"
    return (
        f"; their CPU quotas are full at both ends ({used} used), so throughput is the CPU time that these allow in a second, divided by "
        "that of a request"
    )
