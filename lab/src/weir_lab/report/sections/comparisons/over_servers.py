"""Why throughput changes with the servers: what the proxies' CPU quotas are spent on. `servers_points`, `servers_table`.

Where the proxies' quotas are full at the fewest servers and at the most, throughput is the quota over the CPU time of a request
(utilization law). A change of the one is then a change of the other. Readers of the split engine are those of a server: more servers have
more of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import Engine, RequestPath, Role
from weir_lab.records.tables.quotas import quota_shares
from weir_lab.report.numbers.comparing import change_between, throughput_of
from weir_lab.report.numbers.stations import FULL
from weir_lab.report.page.blocks import Table, Value
from weir_lab.theory.units import change_text, count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry
    from weir_lab.theory.linear import Change

__all__ = ["readers_text", "servers_points", "servers_table"]


def readers_text(base: CellReadings, other: CellReadings) -> str:
    """`` (and so 96 to 224 readers)`` where more servers have more readers; empty where they have not."""
    one, two = base.settings, other.settings
    if one.engine is not Engine.SPLIT or one.path is not RequestPath.PROXY or not one.readers:
        return ""
    crews = [settings.servers * (settings.readers or 0) * settings.proxies for settings in (one, two)]
    return f" (and so {crews[0]} to {crews[1]} readers)"


class _Found(NamedTuple):
    """Without copies, from the fewest servers to the most; ``spent_us`` and ``shares`` (of the proxies' quotas) at both ends."""

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
    few, many = found.few, found.many
    ends = f"{few.settings.servers} to {count_text(many.settings.servers, 'server')}{readers_text(few, many)}"
    spent = " to ".join(number(one, 1) for one in found.spent_us)
    return [
        f"Without copies (R = 1), from {ends}: throughput {change_text(found.rate)}; the proxies' CPU time of a request "
        f"{change_text(found.cpu)}, from {spent} µs{_quotas_text(found.shares)}."
    ]


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
    rate, cpu = change_between(cells, few, many, throughput_of), change_between(cells, few, many, _cpu_s)
    spent = [found for cell in (few, many) if (found := cell.of(_cpu_s))]
    if rate is None or cpu is None or len(spent) < 2:
        return None
    ends = (1e6 * sum(spent[0]) / len(spent[0]), 1e6 * sum(spent[1]) / len(spent[1]))
    return _Found(few, many, rate, cpu, ends, _shares(few, many))


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
