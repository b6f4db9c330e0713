"""Subjects side by side over clients: direct access and proxies of different makers, and what each costs against the others.

All subjects should be levels of one sweep: then every block has each of them within a minute, and changes are paired by block. Where a
yardstick was read, throughput is also compared at equal speed of the machine, by analysis of covariance over all cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import RequestPath, Role
from weir_lab.report.common import (
    Series,
    Task,
    by_workload,
    figure,
    level_text,
    level_value,
    mark,
    method,
    series_of,
    with_tables,
)
from weir_lab.report.numbers.comparing import cell_key, changes_between, equal_speed, response_of, throughput_of
from weir_lab.report.numbers.maxima import NOT_SHOWN, listed, maximum_of
from weir_lab.report.numbers.readings import Reading
from weir_lab.report.page.blocks import Figure, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Panel
from weir_lab.theory.stats import mean_interval
from weir_lab.theory.units import change_text, count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.linear import Change, LogModel

__all__ = ["build", "summary"]

# Up to this many times the response time of the fewest clients nothing waits.
_WAITING = 1.1


def build(task: Task) -> list[Block]:
    """Throughput and response time over clients, one line per subject; changes between them at the same clients."""
    lines = series_of(task)
    fit = equal_speed([cell for one in lines for cell in one.cells])
    return [
        Text("What the data say:", tuple(_points(task, lines, fit))),
        *with_tables([_changes(task, lines, fit), _figure(task, lines), _spent_table(task, lines)]),
        _levels(task, lines),
    ]


def summary(task: Task) -> str:
    """What each subject answers at the most clients."""
    parts = []
    for workload, group in by_workload(series_of(task)).items():
        clients = max(cell.settings.clients for one in group for cell in one.cells)
        found = [
            f"{one.name} {level_text(cell, throughput_of, digits=0)} requests/s"
            for one in group
            for cell in one.cells
            if cell.settings.clients == clients
        ]
        parts.append(f"{workload} at {count_text(clients, 'client')}: {', '.join(found)}")
    return f"{task.spec.title}: {'; '.join(parts)}."


def _figure(task: Task, lines: Sequence[Series]) -> Figure | None:
    looks = {name: LOOKS[place % len(LOOKS)] for place, name in enumerate(dict.fromkeys(one.name for one in lines))}
    panels: list[Panel] = []
    for workload, group in by_workload(lines).items():
        ticks = tuple(sorted({float(cell.settings.clients) for one in group for cell in one.cells}))
        axis = Axis("Clients (connections)", log=len(ticks) > 2, ticks=ticks)
        for title, label, value, scale in (
            ("throughput", "Throughput (requests/s)", throughput_of, 1.0),
            ("response time", "Response time (ms)", response_of, 1e3),
        ):
            drawn = []
            for one in group:
                marks = [mark(cell, cell.settings.clients, value, scale) for cell in one.cells]
                drawn.append(Line(one.name, tuple(found for found in marks if found), looks[one.name]))
            panels.append(Panel(f"{workload}: {title}", axis, Axis(label), tuple(drawn)))
    cells = [cell for one in lines for cell in one.cells]
    return figure(task, "side-by-side", "Side by side over clients", panels, method(cells))


def _pairs(group: Sequence[Series]) -> list[tuple[Series, Series]]:
    """Each subject against each that stands before it: the plainest is the base."""
    return [(base, one) for place, one in enumerate(group) for base in group[:place]]


class _Compared(NamedTuple):
    """A cell against the one of another subject at the same clients."""

    workload: str
    name: str
    against: str
    base: CellReadings
    cell: CellReadings


def _compared(lines: Sequence[Series]) -> list[_Compared]:
    return [
        _Compared(workload, one.name, base.name, other, cell)
        for workload, group in by_workload(lines).items()
        for base, one in _pairs(group)
        for cell in one.cells
        if (other := _at(base, cell.settings.clients)) is not None and min(len(other.runs), len(cell.runs)) >= 2
    ]


def _at(series: Series, clients: int) -> CellReadings | None:
    return next((cell for cell in series.cells if cell.settings.clients == clients), None)


def _changes(task: Task, lines: Sequence[Series], fit: LogModel | None) -> Table | None:
    compared = _compared(lines)
    cells, pairs = [cell for one in lines for cell in one.cells], [(row.base, row.cell) for row in compared]
    columns = [changes_between(cells, pairs, value) for value in (throughput_of, response_of, _p99_s)]
    level = fit.changes([(cell_key(base), cell_key(cell)) for base, cell in pairs]) if fit and pairs else None
    rows: list[tuple[Entry, ...]] = []
    for place, row in enumerate(compared):
        reported: list[Entry] = [_value(level[place]) if level else "–"]
        for column in columns:
            change = column[place]
            reported.append(_value(change) if change else "too few")
        clients = Value(row.cell.settings.clients)
        rows.append((row.workload, row.name, row.against, clients, *reported, Value(len(row.cell.runs))))
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-changes",
        "Exploratory: each subject against the others at the same clients, changes in percent from the linear model of all cells (cell + "
        f"block on logarithms), with 95 % intervals that hold together for the {len(rows)} changes of a column. At equal speed: of the "
        "throughput, with one slope over what the yardstick took.",
        (
            "Workload", "Subject", "Against", "Clients", "At equal speed (%)", "Throughput (%)", "Mean R (%)", "p99 (%)", "Runs",
        ),
        tuple(rows),
    )  # fmt: skip


def _value(change: Change) -> Value:
    return Value(change.percent, change.low, change.high, 1, signed=True)


def _p99_s(run: Reading) -> float | None:
    return run.percentile_s(99.0)


def _levels(task: Task, lines: Sequence[Series]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        for cell in one.cells:
            spent = cell.of(lambda run: run.cpu_s(Role.PROXY)) if cell.settings.path is RequestPath.PROXY else []
            tail = cell.percentile_s(99.0)
            rows.append(
                (
                    one.workload, one.name, Value(cell.settings.clients), level_value(cell, throughput_of, digits=0),
                    level_value(cell, response_of, 1e3), over(tail, 1e3) if tail else "too few",
                    over(spent, 1e6, digits=1) if spent else "–", _speed(cell), Value(len(cell.runs)),
                )
            )  # fmt: skip
    return Table(
        f"{task.spec.name}-table",
        "All levels with 95 % intervals over runs. Yardstick: what a fixed piece of work took on the cores during the same runs; where "
        "it differs, the machine was not equally fast for all.",
        (
            "Workload", "Subject", "Clients", "X (requests/s)", "R (ms)", "p99 (ms)", "Proxy CPU (µs per request)", "Yardstick (µs)",
            "Runs",
        ),
        tuple(rows),
    )  # fmt: skip


def _speed(cell: CellReadings) -> Entry:
    found = cell.of(Reading.slowness_ns)
    return over(found, 1e-3, digits=0) if found else "–"


def _points(task: Task, lines: Sequence[Series], fit: LogModel | None) -> list[str]:
    points = []
    equal = ", at equal speed of the machine" if fit else ""
    compared = _compared(lines)
    pairs = [(row.base, row.cell) for row in compared]
    changes: Sequence[Change | None] = (
        fit.changes([(cell_key(base), cell_key(cell)) for base, cell in pairs])
        if fit and pairs
        else changes_between([cell for one in lines for cell in one.cells], pairs, throughput_of)
    )
    for workload, group in by_workload(lines).items():
        maxima = {one.name: maximum_of(one.cells, task.margins.maximum) for one in group}
        reasons = {found.why_not for found in maxima.values() if not found.shown}
        once = len(reasons) == 1 and len(maxima) > 1
        parts = [
            f"{name} {'maximum ' if found.shown else ''}"
            f"{f'{found.largest_text}{found.course_text}' if once and not found.shown else found.text}"
            for name, found in maxima.items()
        ]
        # Why a largest mean is no maximum is said once, where it is the same for all.
        courses = all(found.course for found in maxima.values() if not found.shown)
        yet = f"{NOT_SHOWN} is not shown yet" if courses else "a largest mean is no maximum yet"
        why_not = f". {yet[:1].upper()}{yet[1:]}: {reasons.pop()}" if once else ""
        points.append(f"{workload.capitalize()}: {'; '.join(parts)}{why_not}.")
    points += _hops(lines) + _spent_points(lines)
    reported: dict[tuple[str, str, str], list[str]] = {}
    for row, change in zip(compared, changes, strict=True):
        if change is not None:
            clients = count_text(row.cell.settings.clients, "client")
            reported.setdefault((row.workload, row.name, row.against), []).append(f"{change_text(change)} at {clients}")
    points += [
        f"{workload.capitalize()}, throughput of {name} against {against}{equal} (intervals that hold together, for "
        f"{count_text(len(compared), 'change')}): {'; '.join(found)}."
        for (workload, name, against), found in reported.items()
    ]
    return points if fit is None else [*points, _slope_text(fit)]


_SPENT = {Role.CLIENT: "clients", Role.PROXY: "proxy", Role.SERVERS: "servers", Role.NETWORK: "delay device"}


class _Spent(NamedTuple):
    """CPU time per request in microseconds at the most clients: in all, and of each role that tells its own."""

    workload: str
    name: str
    way: str
    clients: int
    whole: float
    roles: dict[Role, float]


def _spent(lines: Sequence[Series]) -> list[_Spent]:
    found = []
    for workload, group in by_workload(lines).items():
        most = max(cell.settings.clients for one in group for cell in one.cells)
        for one in group:
            cell = _at(one, most)
            whole = cell.of(lambda run: run.machine_cpu_s) if cell is not None else []
            if cell is None or not whole:
                continue
            known = {role: cell.of(lambda run, role=role: run.cpu_s(role)) for role in _SPENT}  # type: ignore[misc]
            roles = {role: 1e6 * sum(values) / len(values) for role, values in known.items() if values}
            way = "directly" if cell.settings.path is RequestPath.DIRECT else f"through {one.name}"
            found.append(_Spent(workload, one.name, way, most, 1e6 * sum(whole) / len(whole), roles))
    return found


def _spent_points(lines: Sequence[Series]) -> list[str]:
    """What a request costs this machine with each subject: where processors limit, throughput is its CPU time over that."""
    found = _spent(lines)
    points = []
    for workload in dict.fromkeys(one.workload for one in found):
        own = [one for one in found if one.workload == workload]
        parts = [
            f"{number(one.whole, 1)} µs {one.way}"
            + (f" ({number(one.roles[Role.PROXY], 1)} of them in the proxy)" if Role.PROXY in one.roles else "")
            for one in own
        ]
        if len(own) > 1:
            clients = count_text(own[0].clients, "client")
            points.append(
                f"{workload.capitalize()}, at {clients} a request costs this machine, in CPU time, {listed(parts)}. Where its CPUs are "
                "full, throughput is what they have in a second, divided by that."
            )
    return points


def _spent_table(task: Task, lines: Sequence[Series]) -> Table | None:
    found = _spent(lines)
    if not found:
        return None
    rows: list[tuple[Entry, ...]] = []
    for one in found:
        roles = [Value(one.roles[role], digits=1) if role in one.roles else "–" for role in _SPENT]
        rest = max(0.0, one.whole - sum(one.roles.values()))
        rows.append(
            (one.workload, one.name, Value(one.clients), Value(one.whole, digits=1), *roles, Value(rest, digits=1))
        )
    return Table(
        f"{task.spec.name}-spent",
        "CPU time of a request by who spent it, in µs, mean over runs at the most clients. Rest: the kernel outside of these processes "
        "(interrupts, network), the yardstick, and the lab itself.",
        (
            "Workload",
            "Subject",
            "Clients",
            "In all",
            *(f"{name.capitalize()} (µs)" for name in _SPENT.values()),
            "Rest",
        ),
        tuple(rows),
    )


def _hops(lines: Sequence[Series]) -> list[str]:
    """What a request takes longer through each proxy than directly, and how much of it the testbed's delays of one more hop are.

    A request and its reply are each delayed on their way into a proxy. Where direct access waits, more is different than the hop.
    """
    found = []
    for workload, group in by_workload(lines).items():
        direct = next((one for one in group if one.cells[0].settings.path is RequestPath.DIRECT), None)
        if direct is None:
            continue
        for one in group:
            testbed = one.sweep.testbed
            machines = testbed.machines if testbed is not None else ()
            delay_ms = next((at.delay_ms for at in machines if at.name.startswith("proxy-")), None)
            alone_s = direct.cells[0].mean_response_s
            pairs = [
                (cell, base)
                for cell in one.cells
                if (base := _at(direct, cell.settings.clients)) is not None
                and base.mean_response_s < _WAITING * alone_s
            ]
            if one is direct or not delay_ms or not pairs:
                continue
            added = [_added(cell, base) for cell, base in pairs]
            shown = [f"{number(at, 2)}{ends}" for at, ends in added]
            rest = [number(at - 2.0 * delay_ms, 2) for at, _ in added]
            clients = [str(cell.settings.clients) for cell, _ in pairs]
            found.append(
                f"{workload.capitalize()}, through {one.name} a request takes {listed(shown)} ms longer than "
                f"directly with {listed(clients)} clients; {number(2.0 * delay_ms, 2)} ms of that are the delays of one more hop, as "
                f"built, and {listed(rest)} ms the rest. With other delays a proxy's share is another; with more clients direct access "
                "waits, too."
            )
    return found


def _added(cell: CellReadings, base: CellReadings) -> tuple[float, str]:
    """How many milliseconds more a request takes on average, with a 95 % interval over the blocks that have both, where two of them do."""
    directly = {run.run.meta.repetition: run.response_s for run in base.runs}
    more = [
        1e3 * (run.response_s - directly[run.run.meta.repetition])
        for run in cell.runs
        if run.run.meta.repetition in directly
    ]
    if len(more) < 2:
        return 1e3 * (cell.mean_response_s - base.mean_response_s), ""
    found = mean_interval(more)
    return found.mean, f" ({number(found.low, 2)} to {number(found.high, 2)})"


def _slope_text(fit: LogModel) -> str:
    slope = fit.slope()
    return (
        "The machine was not equally fast in all runs: where the yardstick took 1 % longer, throughput was "
        f"{number(-slope.value, 2)} % lower ({number(-slope.high, 2)} to {number(-slope.low, 2)}), which explains "
        f"{number(100 * slope.explained, 0)} % of the variance beside cells and blocks."
    )
