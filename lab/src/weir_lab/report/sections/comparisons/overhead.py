"""What a proxy costs in a whole study: direct access against the way through it, at the same clients per server. Start with `build`.

Cells of a sweep that has both ways are compared with each other alone: there nothing but the proxy differs. Where no sweep has both, cells
of two sweeps are compared, as the studies did; the page says what else differs.

Where the CPU quota of a testbed's machines limits one of the two, it decides how large the difference is. It was chosen, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.report.common import Task, level_value, with_tables
from weir_lab.report.numbers.comparing import change_between, loops_text, response_of, throughput_of
from weir_lab.report.numbers.stations import CPU_QUOTAS, Limit, bottleneck, usages
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.theory.stats import FALSE_DISCOVERIES, benjamini_hochberg
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.linear import Change

__all__ = ["build", "summary"]


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two cells with the same clients per server, one on each way."""

    direct: CellReadings
    proxied: CellReadings

    @property
    def alike(self) -> bool:
        """Whether nothing but the proxy differs: the same sweep."""
        return _folder(self.direct) == _folder(self.proxied)

    @property
    def text(self) -> str:
        """What was held against what."""
        one, other = self.direct.settings, self.proxied.settings
        clients, servers = count_text(other.clients, "client"), count_text(other.servers, "server")
        if self.alike:
            return f"{clients} on {servers}, directly and through the proxy: nothing else differs."
        return (
            f"{count_text(one.clients, 'client')} on {count_text(one.servers, 'server')} directly against {clients} on {servers} "
            f"(R = {other.replicas}) through the proxy, as the study did: the same clients per server, but another system."
        )


@dataclass(frozen=True)
class _Line:
    """One response of a pair. ``change`` is None with fewer than two runs of either cell, ``q`` is adjusted for all lines."""

    pair: _Pair
    name: str
    key: str
    scale: float
    value: Callable[[Reading], float | None]
    change: Change | None
    q: float | None

    @property
    def shown(self) -> str:
        """Whether a difference is."""
        if self.q is None:
            return "cannot tell: one run"
        return "yes" if self.q <= FALSE_DISCOVERIES else "no"

    @property
    def percent(self) -> Value:
        """From direct access to the proxy."""
        if self.change is not None:
            return Value(self.change.percent, self.change.low, self.change.high, 1, signed=True)
        means = [sum(part) / len(part) for part in (self.pair.direct.of(self.value), self.pair.proxied.of(self.value))]
        return Value(100.0 * (means[1] / means[0] - 1.0), digits=1, signed=True)


def build(task: Task) -> list[Block]:
    """Changes in percent, not ratios; the study's own beside those that were made as it made them."""
    lines = _lines(task)
    if not lines:
        return [
            Text(
                "Direct access and the proxy have no level in common (the same clients per server): nothing to compare."
            )
        ]
    printed = {row["quantity"]: row for row in read_table("recomputed_overhead") if row["study"] == task.label}
    quoted = {row["quantity"]: row for row in read_table("s2_overhead") if row["study"] == task.label}
    rows: list[tuple[Entry, ...]] = [
        (
            _way(line.pair), line.name, level_value(line.pair.direct, line.value, line.scale),
            level_value(line.pair.proxied, line.value, line.scale), line.percent, line.shown,
            *(
                ("–", "–")
                if line.pair.alike or line.key not in printed or line.key not in quoted
                else (
                    Value(float(printed[line.key]["change_percent"]), digits=1, signed=True),
                    Value(float(quoted[line.key]["published_overhead_percent"]), digits=1),
                )
            ),
        )
        for line in lines
    ]  # fmt: skip
    table = Table(
        f"{task.spec.name}-overhead",
        "From direct access to the proxy at the same clients per server, with 95 % intervals for each change alone where both cells "
        "have two runs. Exploratory: of the changes that are called shown at most 5 % is wrong (Benjamini and Hochberg). The study "
        f"printed ratios as overheads; its changes are computed from its own numbers.{loops_text(_held_against(task, lines))}",
        (
            *("Compared", "Response", "Direct", "Through the proxy", "Change (%)", "Shown"),
            *("Study, change (%)", "Study printed (%)"),
        ),
        tuple(rows),
    )
    pairs = list(dict.fromkeys(line.pair for line in lines))
    points = tuple(f"{pair.text}{_chosen_text(*_limits(task, pair))}" for pair in pairs)
    return [Text("What was held against what:", points), *with_tables([table])]


def summary(task: Task) -> str:
    """The changes of the first pair."""
    lines = _lines(task)
    if not lines:
        return f"{task.spec.title}: no level in common."
    first = lines[0].pair
    # A change in percent has no other unit.
    parts = [f"{line.name.partition(' (')[0]} {line.percent.text} %" for line in lines if line.pair is first]
    chosen = _chosen_text(*_limits(task, first))
    return f"{task.spec.title}: from direct access to the proxy {', '.join(parts)}. {first.text}{chosen}"


def _way(pair: _Pair) -> str:
    return "the proxy alone" if pair.alike else "as the study"


def _limits(task: Task, pair: _Pair) -> tuple[Limit, Limit]:
    """The station that limits on each way."""
    found = []
    for cell in (pair.direct, pair.proxied):
        sweep = next(one for one in task.sweeps if cell in one.cells)
        links = sweep.study.topology.built_links if sweep.links_built else None
        found.append(bottleneck(usages(cell, links), queue_grows=None))
    return found[0], found[1]


def _chosen_text(directly: Limit, proxied: Limit) -> str:
    """That a CPU quota decides the size of a change, where one limits; empty where none does.

    >>> _chosen_text(Limit("server uplinks", ""), Limit("proxy CPU quotas", ""))
    ' The proxy CPU quotas limit through the proxy, and were chosen: with others the change has another size.'
    """
    ways = {"directly": directly, "through the proxy": proxied}
    quotas = [f"the {limit.named} limit {way}" for way, limit in ways.items() if limit.station in CPU_QUOTAS.values()]
    if not quotas:
        return ""
    named = ", ".join(quotas)
    both = " both" if len(quotas) > 1 else ""
    return f" {named[:1].upper()}{named[1:]}, and were{both} chosen: with others the change has another size."


def _lines(task: Task) -> list[_Line]:
    """Each response of each pair; those where the proxy alone differs come first."""
    cells = [cell for sweep in task.sweeps for cell in sweep.cells]
    responses: list[tuple[str, str, float, Callable[[Reading], float | None]]] = [
        ("throughput (requests/s)", "throughput", 1.0, throughput_of),
        ("response time (ms)", "response_time", 1e3, response_of),
    ]
    asked = [
        (pair, name, key, scale, value, change_between(cells, pair.direct, pair.proxied, value))
        for pair in _pairs(cells)
        for name, key, scale, value in responses
    ]
    adjusted = iter(benjamini_hochberg([change.p for *_, change in asked if change is not None]))
    return [_Line(*one, None if one[-1] is None else next(adjusted)) for one in asked]


def _pairs(cells: Sequence[CellReadings]) -> list[_Pair]:
    """All in sweeps that have both ways; of other sweeps the first."""
    ways: dict[str, set[RequestPath]] = {}
    for cell in cells:
        ways.setdefault(_folder(cell), set()).add(cell.settings.path)
    both = {folder for folder, found in ways.items() if len(found) == 2}
    found = [
        _Pair(one, other)
        for other in cells
        for one in cells
        if (one.settings.path, other.settings.path) == (RequestPath.DIRECT, RequestPath.PROXY)
        and one.settings.clients * other.settings.servers == other.settings.clients * one.settings.servers
        and (_folder(one) == _folder(other) or not {_folder(one), _folder(other)} & both)
    ]
    return [pair for pair in found if pair.alike] + [pair for pair in found if not pair.alike][:1]


def _held_against(task: Task, lines: Sequence[_Line]) -> list[SweepReadings]:
    """Sweeps whose cells are held against those of another."""
    cells = [cell for line in lines if not line.pair.alike for cell in (line.pair.direct, line.pair.proxied)]
    return [sweep for sweep in task.sweeps if any(cell in sweep.cells for cell in cells)]


def _folder(cell: CellReadings) -> str:
    return str(cell.runs[0].run.folder.parent)
