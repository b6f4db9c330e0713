"""Where a request's time and CPU time go: stages inside the proxy, and CPU time by role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import Role
from weir_lab.records.formats import STAGES
from weir_lab.report.common import STAGE_LOOKS
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Bar, Panel
from weir_lab.report.single.levels import factor_cells, factor_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.numbers.analysis import Analysis, Point
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["build_cpu", "build_stages", "silence"]

# More bars than this have no room for their names.
_BARS_MAX = 24
_ROLE_LOOKS = {Role.CLIENT: LOOKS[5], Role.PROXY: LOOKS[1], Role.SERVERS: LOOKS[4], Role.NETWORK: LOOKS[2]}


def silence(silent: Sequence[str]) -> list[Text]:
    """What cannot be said of proxies that tell nothing of themselves."""
    if not silent:
        return []
    names = silent[0] if len(silent) == 1 else f"{', '.join(silent[:-1])} and {silent[-1]}"
    verb = "tells" if len(silent) == 1 else "tell"
    text = f"{names} {verb} nothing of the stages of a request: of such a proxy this page knows what its clients saw, and its CPU time."
    return [Text(text, note=True)]


def build_stages(analysis: Analysis) -> list[Block]:
    """Bars and table of the stages at every cell whose proxy tells them; nothing where none does."""
    reported = [point for point in analysis.points if point.proxy is not None]
    if not reported:
        return []
    bars = [
        Bar(
            _label(analysis, point),
            (
                *((stage, point.proxy.stage_mean_ns[stage].mean / 1e3) for stage in STAGES),
                ("outside", max(0.0, point.proxy.outside_ns.mean) / 1e3),
            ),
        )
        for point in reported
        if point.proxy is not None
    ]
    blocks: list[Block] = []
    if len(bars) <= _BARS_MAX:
        blocks.append(
            Figure(
                "stages",
                "Stages of a request through the proxy",
                "Means over all operations of the measured phase, then over runs; intervals are in the table. Outside: the client's mean "
                "response time less the proxy's total, that is network, kernel buffers and the load generator.",
                (
                    Panel(
                        "mean time",
                        _across(analysis),
                        Axis("Time per request (µs)"),
                        bars=tuple(bars),
                        parts=STAGE_LOOKS,
                    ),
                    _shares(bars, _across(analysis)),
                ),
            )
        )
    return [*blocks, _stages_table(analysis, reported), Text(_STAGES_REPORTED, note=True)]


_STAGES_REPORTED = (
    "read: first byte to whole request parsed; dispatch: to entry in the queue of its memcached server; queue: until taken from it; send: "
    "until its last byte was handed to the kernel; backend: until the last reply was complete; reply: until the answer's last byte was "
    "handed to the kernel. What waits in a socket buffer before the first read is outside. In every valid run the sums of the six stages "
    "equal the sum of the totals to the nanosecond, and client and proxy counted the same requests; a run where they differ is invalid."
)


def _shares(bars: Sequence[Bar], across: Axis) -> Panel:
    totals = [sum(value for _, value in bar.parts) for bar in bars]
    shares = tuple(
        Bar(bar.label, tuple((name, 100.0 * value / total) for name, value in bar.parts))
        for bar, total in zip(bars, totals, strict=True)
    )
    return Panel("share", across, Axis("Share of the response time (%)", top=100.0), bars=shares, parts=STAGE_LOOKS)


def _stages_table(analysis: Analysis, reported: Sequence[Point]) -> Table:
    rows: list[tuple[Entry, ...]] = [
        (
            *factor_cells(analysis, point),
            *(Value.of(point.proxy.stage_mean_ns[stage].scaled(1e-3)) for stage in STAGES),
            Value.of(point.proxy.residence_time_mean_ns.scaled(1e-3)),
            Value.of(point.proxy.outside_ns.scaled(1e-3)),
            Value.of(point.response_time_mean_ns.scaled(1e-3)),
        )
        for point in reported
        if point.proxy is not None
    ]
    return Table(
        "stage-times",
        "Mean time per request (µs) with 95 % intervals over runs. Total = first to last stamp in the proxy; outside = client's response "
        "time − total.",
        (*factor_heads(analysis), *STAGES, "Total", "Outside", "Client's response time"),
        tuple(rows),
        folded=True,
    )


def build_cpu(analysis: Analysis, cores: int) -> list[Block]:
    """CPU time per request and cores used by role; ``cores`` is how many the machine has."""
    bars = tuple(
        Bar(
            _label(analysis, point),
            tuple((str(role), spent.mean / 1e3) for role, spent in point.cpu_per_request_ns.items()),
        )
        for point in analysis.points
    )
    blocks: list[Block] = []
    if len(bars) <= _BARS_MAX:
        looks = {str(role): _ROLE_LOOKS[role] for role in analysis.roles}
        blocks.append(
            Figure(
                "cpu-time",
                "CPU time per request by role",
                "CPU time of each role's processes in the measured phase over requests completed; means over runs, intervals are in the "
                "table. User and system time; kernel work that is charged to no process is not in it.",
                (Panel("all cells", _across(analysis), Axis("CPU time per request (µs)"), bars=bars, parts=looks),),
            )
        )
    return [*blocks, _cpu_table(analysis, cores)]


def _cpu_table(analysis: Analysis, cores: int) -> Table:
    rows: list[tuple[Entry, ...]] = [
        (
            *factor_cells(analysis, point),
            *(
                Value.of(spent.scaled(1e-3)) if (spent := point.cpu_per_request_ns.get(role)) is not None else "–"
                for role in analysis.roles
            ),
            Value(point.cpu_per_request_total_ns / 1e3),
            *(
                Value(used.mean, digits=2) if (used := point.cores_used.get(role)) is not None else "–"
                for role in analysis.roles
            ),
            Value(100 * point.other_cpu_share.mean, digits=1),
            Value(100 * point.client_cpu_share.mean, digits=0),
        )
        for point in analysis.points
    ]
    return Table(
        "cpu-times",
        "CPU time per request (µs) with 95 % intervals over runs, and cores used (CPU seconds per second), by role. The machine has "
        f"{cores} cores. Rest: share of its CPU time that went to other processes and to interrupts charged to nobody. Generator: share of "
        "the time of the load generator's threads.",
        (
            *factor_heads(analysis),
            *(f"{role} (µs)" for role in analysis.roles),
            "Sum (µs)",
            *(f"{role} (cores)" for role in analysis.roles),
            "Rest (%)",
            "Generator (%)",
        ),
        tuple(rows),
        folded=True,
    )


def _across(analysis: Analysis) -> Axis:
    """What the names of bars are levels of."""
    return Axis(
        "Path, clients" if analysis.comparisons else ", ".join(name.replace("_", " ") for name in analysis.factors)
    )


def _label(analysis: Analysis, point: Point) -> str:
    """``direct 4``; the axis names the factors."""
    if analysis.comparisons:
        return f"{point.path} {point.clients}"
    return ", ".join(str(point.level(name)) for name in analysis.factors) or "all"
