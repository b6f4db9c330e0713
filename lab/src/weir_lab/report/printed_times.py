"""Times that studies S1, S3 and S4 printed, beside ours: over clients, stages, parts of the time, distributions, and what lasts by them.

S1 has our stages from the second stamp on. S4's three times are sums of them:

=========  =====================================================================
T_queue    queue
T_server   send and backend: S4 counts from the first send to the last reply
T_left     read, dispatch and reply: everything else between first and last stamp
T_total    all of them
offset     what the clients see and the proxy does not
=========  =====================================================================

The machines differ, so shares and their order can be compared, not values.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from operator import truediv
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import Engine
from weir_lab.report.common import cell_words, level_value, speed_note, workload_name
from weir_lab.report.numbers.comparing import outside_of, response_of, throughput_of
from weir_lab.report.numbers.published import TIMES_OVER_CLIENTS
from weir_lab.report.numbers.readings import OPERATION_NAMES
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Value, over
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry

__all__ = [
    "by_powers_of_two",
    "distribution_at",
    "distributions_beside",
    "means_beside",
    "quartiles_beside",
    "stages_beside",
    "sustained_beside",
    "sustained_points",
    "times_beside",
]

# Stages of S1 in its words, by ours.
_S1_STAGES = {
    "tLoadBalancer": "dispatch",
    "tQueue": "queue",
    "tWorker": "send",
    "tMemcached": "backend",
    "tReturn": "reply",
}

_PARTS = {
    "t_total_us": ("read", "dispatch", "queue", "send", "backend", "reply"),
    "t_queue_us": ("queue",),
    "t_server_us": ("send", "backend"),
    "t_left_us": ("read", "dispatch", "reply"),
}
# Quantities that percentiles were printed of, with the stage that has ours: sending takes microseconds.
_PERCENTILES = {"t_queue": "queue", "t_server": "backend"}
_PERCENTS = (25, 50, 75, 95)
# Client machines of S4; its tables count clients per machine.
_MACHINES = 3
# S1 took more clients as lasting until percentiles of the time in the proxy rose much, by eye: here by half from the fewest clients on.
_RISE = 1.5
# And of equals the fewest clients and threads: here throughputs that differ by less, by means.
_ALIKE_PERCENT = 5.0
_SUSTAINED = (50.0, 95.0)


def times_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Response times over clients, as S3 printed those of one section; ``None`` in every other."""
    rows: list[tuple[Entry, ...]] = []
    speed = task.first.speed
    asked = any(source.table == TIMES_OVER_CLIENTS for source in task.spec.published)
    for row in read_table(TIMES_OVER_CLIENTS) if asked else ():
        clients, time_ms = int(row["total_clients"]), float(row["response_time_ms"])
        cell = next(
            (
                one
                for one in cells
                if (workload_name(one.settings), one.settings.clients) == (f"{row['workload']}s", clients)
            ),
            None,
        )
        if row["study"] != task.label or cell is None:
            continue
        rows.append(
            (
                f"{row['workload']}s",
                Value(clients),
                Value(time_ms),
                level_value(cell, response_of, 1e3 * speed),
                Value(float(row["ratio_printed"])),
                Value(1e3 * speed * cell.mean_response_s / clients),
                Value(1e3 * clients / time_ms, digits=0),
                level_value(cell, throughput_of, 1.0 / speed, digits=0),
            )
        )
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-times",
        f"Response times that {task.label} printed over its clients, with ours beside them. Its throughput at these levels follows from "
        f"them (N / R: Little's law without think time).{speed_note(speed)}",
        (
            *("Workload", "Clients", f"{task.label}: R (ms)", "R (ms)", f"{task.label}: R / N (ms)", "R / N (ms)"),
            *(f"{task.label}: N / R (requests/s)", "X (requests/s)"),
        ),
        tuple(rows),
        folded=True,
    )


def means_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Means of the three times for the read threads and clients that both have; ``None`` without such."""
    rows: list[tuple[Entry, ...]] = []
    for row in read_table("s4_mean_timestamps"):
        clients, readers, operation = (
            _MACHINES * int(row["clients_per_machine"]),
            int(row["threads_per_pool"]),
            row["op"],
        )
        fitting = [one for one in cells if (one.settings.clients, one.settings.readers) == (clients, readers)]
        if row["study"] != task.label or not fitting:
            continue
        ours = [fitting[0].of(partial(_sum_s, operation=operation, stages=stages)) for stages in _PARTS.values()]
        if not all(ours):
            continue  # an operation that this cell has none of
        pairs = [
            (Value(float(row[name]) / 1e3), over(found, 1e3 * task.first.speed))
            for name, found in zip(_PARTS, ours, strict=True)
        ]
        outside = fitting[0].of(outside_of)
        offset: tuple[Entry, Entry] = ("–", "–")
        if row["offset_to_client_us"] and outside:
            offset = (
                Value(float(row["offset_to_client_us"]) / 1e3),
                over(outside, 1e3 * task.first.speed, signed=True),
            )
        name = OPERATION_NAMES.get(operation, operation)
        rows.append(
            (
                row["sweep"],
                Value(readers),
                Value(clients),
                name,
                *(entry for pair in (*pairs, offset) for entry in pair),
            )
        )
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-means",
        "Mean ms inside the middleware, the study's beside ours (95 % t intervals over runs): T_queue is our queue, T_server send and "
        "backend, T_left read, dispatch and reply, T_total all of them. Of the study: in which of its sweeps. Offset: what the clients "
        "measured beyond it, of all operations. "
        f"Other machines: compare the shares.{speed_note(task.first.speed)}",
        (
            *(
                "Of the study",
                "Threads",
                "Clients",
                "",
                "T_total",
                "ours",
                "T_queue",
                "ours",
                "T_server",
                "ours",
                "T_left",
                "ours",
            ),
            *("Offset to the clients", "ours"),
        ),
        tuple(rows),
    )


def quartiles_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Quartiles and the 95th percentile of queue and server time for the settings that both have; ``None`` without such."""
    rows: list[tuple[Entry, ...]] = []
    known = {_setting(cell): cell for cell in cells}
    for row in read_table("s4_percentiles"):
        cell = known.get(_printed_at(row)) if row["study"] == task.label else None
        if cell is None:
            continue
        stage, operation = _PERCENTILES[row["quantity"]], row["op"]
        ours = [
            cell.of(partial(_stage_s, operation=operation, stage=stage, percent=float(percent)))
            for percent in _PERCENTS
        ]
        if not all(ours):
            continue
        servers, replicas, writes, readers, clients = _printed_at(row)
        pairs = [
            (Value(float(row[f"p{percent}_us"]) / 1e3), over(one, 1e3 * task.first.speed))
            for percent, one in zip(_PERCENTS, ours, strict=True)
        ]
        rows.append(
            (
                row["experiment"].replace("_", " "), Value(servers), Value(replicas), Value(writes, digits=0), Value(readers),
                Value(clients), row["quantity"].replace("t_", "T_"), OPERATION_NAMES.get(operation, operation),
                *(entry for pair in pairs for entry in pair),
            )
        )  # fmt: skip
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-quartiles",
        "Percentiles in ms of the time in the queue and for the servers, the study's beside ours (of each run, with 95 % t intervals over "
        "runs). Of the study: in which of its experiments. Ours of T_server are those of stage backend: sending takes microseconds. Other "
        "machines: compare patterns."
        f"{speed_note(task.first.speed)}",
        (
            *("Of the study", "S", "R", "Writes (%)", "Threads", "Clients", "Time", "Operation"),
            *(name for percent in _PERCENTS for name in (f"{percent} %", "ours")),
        ),
        tuple(rows),
        folded=True,
    )


def stages_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Mean time in each stage at the study's optimum, with its share; ``None`` where the study printed none or the cell is not there."""
    rows: list[tuple[Entry, ...]] = []
    printed = [row for row in read_table("s1_breakdown") if row["study"] == task.label]
    whole = sum(float(row["mean_ms"]) for row in printed)
    where = ""
    for row in printed:
        at = (int(row["servers"]), int(row["replication"]), int(row["read_threads"]), int(row["total_clients"]))
        cell = next((one for one in cells if _at_optimum(one) == at), None)
        stage = _S1_STAGES[row["stage"]]
        ours = cell.of(partial(_sum_s, operation=row["op"], stages=(stage,))) if cell is not None else []
        shares = cell.of(partial(_share_of, operation=row["op"], stage=stage)) if cell is not None else []
        if not ours:
            continue
        where = f"{at[3]} clients, {at[2]} read threads, {at[0]} servers"
        value = float(row["mean_ms"])
        rows.append(
            (
                stage,
                f"{row['begin']} to {row['end']}",
                Value(value),
                Value(100.0 * value / whole, digits=1),
                over(ours, 1e3 * task.first.speed),
                over(shares, 100.0, digits=1),
            )
        )
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-stages",
        f"Where a GET spends its time in the middleware at the study's optimum ({where}), the study's beside ours. Shares are of these "
        f"five stages. Other machines: compare the shares.{speed_note(task.first.speed)}",
        ("Stage", "In the study", "Study (ms)", "Share (%)", "Ours (ms)", "Share (%) of ours"),
        tuple(rows),
    )


def distribution_at(task: Task, maximum: Maximum) -> tuple[CellReadings, str]:
    """The cell of which distributions are shown, and where it lies: where no plateau is shown, that which the study itself chose.

    The largest of noisy means is a cell that chance chose.
    """
    if maximum.shown:
        return maximum.cell, "the maximum"
    at = _chosen_by(task)
    chosen = [cell for sweep in task.sweeps for cell in sweep.cells if at and _at_optimum(cell) == at]
    own = next((cell for cell in chosen if cell.settings.engine is not Engine.EVENT), None)
    return (maximum.cell, "the largest mean") if own is None else (own, f"{task.label}'s choice")


def _chosen_by(task: Task) -> tuple[int, ...]:
    """Servers, copies, read threads and clients that the study chose; empty for one that did not."""
    printed = [row for row in read_table("s1_breakdown") if row["study"] == task.label]
    if not printed:
        return ()
    return tuple(int(printed[0][name]) for name in ("servers", "replication", "read_threads", "total_clients"))


class _Sustained(NamedTuple):
    """The most clients of a series with which times in the proxy are still near those of the fewest, or the study's own choice."""

    name: str
    cell: CellReadings
    times_ms: tuple[float, ...]
    rises: tuple[float, ...]
    chosen: bool = False


def _sustained(task: Task, lines: Sequence[Series]) -> list[_Sustained]:
    """Of each series by the rule, and then of the cell that S1 chose; nothing for a study that did not choose so."""
    at = _chosen_by(task)
    if not at:
        return []
    found: list[_Sustained] = []
    chosen: list[_Sustained] = []
    for one in (one for one in lines if one.over == "clients" and not one.event):
        known = [(cell, times) for cell in one.cells if (times := _in_proxy_ms(cell)) is not None]
        if not known:
            continue
        of = [
            _Sustained(one.name, cell, times, tuple(map(truediv, times, known[0][1])), _at_optimum(cell) == at)
            for cell, times in known
        ]
        near = list(takewhile(lambda level: max(level.rises) <= _RISE, of))
        found.append(near[-1]._replace(chosen=False))
        chosen += [level for level in of if level.chosen]
    return [*found, *chosen]


def _in_proxy_ms(cell: CellReadings) -> tuple[float, ...] | None:
    """Percentiles of the time in the proxy: means over runs, as the figure of them has them; ``None`` where a run has too few requests."""
    times = [run.proxy_times for run in cell.runs]
    found = [[one.percentile(percent) if one is not None else None for one in times] for percent in _SUSTAINED]
    means = []
    for of_runs in found:
        known = [value for value in of_runs if value is not None]
        if len(known) != len(cell.runs):
            return None
        means.append(sum(known) / len(known) / 1e6)
    return tuple(means)


def sustained_points(task: Task, lines: Sequence[Series]) -> list[str]:
    """How much throughput lasts by S1's rule, and what the setting that it chose has here."""
    levels = _sustained(task, lines)
    ruled = [one for one in levels if not one.chosen]
    if not ruled:
        return []
    said = [f"{one.name} up to {count_text(one.cell.settings.clients, 'client')}, {_rate_text(one)}" for one in ruled]
    most, choice = max(ruled, key=_rate), _choice(ruled)
    text = (
        f"The most that lasts by {task.label}'s rule is {_rate_text(most)} ({most.name}); our choice is "
        f"{count_text(choice.cell.settings.clients, 'client')} with {choice.name}, {_rate_text(choice)}. The rule: the median and the 95th "
        "percentile of the time in the proxy do not rise much, here by no more than half from the fewest clients on. So much lasts: "
        f"{'; '.join(said)}. Our choice has the fewest clients, and then the fewest readers, with which no more than {_ALIKE_PERCENT:g} % "
        "of the most is lost, by means."
    )
    own = next((one for one in levels if one.chosen), None)
    if own is not None:
        text += (
            f" {task.label} chose {count_text(own.cell.settings.clients, 'client')} with {own.name}, by eye: there ours has "
            f"{_rate_text(own)}, and a 95th percentile {_rise(own, -1).text} times that of the fewest clients."
        )
    return [text]


def _rate(one: _Sustained) -> float:
    return one.cell.mean_throughput


def _choice(ruled: Sequence[_Sustained]) -> _Sustained:
    """Of those with about as much throughput as any, that with the fewest clients, and then the fewest readers."""
    least = (1.0 - _ALIKE_PERCENT / 100.0) * max(map(_rate, ruled))
    alike = [(one.cell.settings, one) for one in ruled if _rate(one) >= least]
    return min(alike, key=lambda it: (it[0].clients, it[0].readers or 0))[1]


def _rate_text(one: _Sustained) -> str:
    return f"{number(one.cell.mean_throughput, 0)} requests/s"


def _rise(one: _Sustained, place: int) -> Value:
    return Value(one.rises[place], digits=1)


def sustained_beside(task: Task, lines: Sequence[Series]) -> Table | None:
    """The numbers of that sentence."""
    levels = _sustained(task, lines)
    ruled = [one for one in levels if not one.chosen]
    choice = _choice(ruled) if ruled else None
    rows: list[tuple[Entry, ...]] = [
        (
            f"{task.label}'s choice" if one.chosen else "by the rule, our choice" if one is choice else "by the rule",
            one.name,
            Value(one.cell.settings.clients),
            Value(one.cell.mean_throughput, digits=0),
            *(entry for place, time in enumerate(one.times_ms) for entry in (Value(time), _rise(one, place))),
        )
        for one in levels
    ]
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-sustained",
        "How many clients last: the most with which neither the median nor the 95th percentile of the time in the proxy is more than "
        f"{_RISE:g} times that of the fewest clients of the series, of means over runs. Our choice: of those within {_ALIKE_PERCENT:g} % "
        "of the most throughput the one with the fewest clients, and then readers. And the setting that "
        f"{task.label} chose by eye.",
        (
            *("Chosen", "Series", "Clients", "X (requests/s)"),
            *(
                "Median in the proxy (ms)",
                "times that of the fewest",
                "95 % in the proxy (ms)",
                "times that of the fewest",
            ),
        ),
        tuple(rows),
    )


def distributions_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Cumulative distributions that the study printed of a setting, ours beside; ``None`` without a setting that both have."""
    rows: list[tuple[Entry, ...]] = []
    known = {_setting(cell): cell for cell in cells}
    for row in read_table("s4_logdist"):
        at = _printed_at(row)
        cell = known.get(at) if row["study"] == task.label else None
        times = cell.merged(lambda run: run.times) if cell is not None else None
        if times is None or not times.total:
            continue
        bound_us = float(row["upper_bound_us"])
        ours = 100.0 * times.count_up_to(round(1e3 * bound_us / task.first.speed)) / times.total
        rows.append(
            (
                Value(at[0]),
                Value(at[1]),
                Value(at[2], digits=0),
                Value(at[3]),
                Value(at[4]),
                Value(bound_us / 1e3),
                Value(float(row["cumulative_percent"]), digits=2),
                Value(ours, digits=2),
            )
        )
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-distributions",
        "Cumulative distribution of the response time, the study's beside ours, of every setting that both have; all our runs together. "
        f"The bounds are the study's; our times are brought to its speed.{speed_note(task.first.speed)}",
        ("S", "R", "Writes (%)", "Threads", "Clients", "Up to (ms)", "Study (%)", "Ours (%)"),
        tuple(rows),
        folded=True,
    )


def by_powers_of_two(task: Task, maximum: Maximum) -> Table | None:
    """The distribution as the generators of the studies printed it: cumulative, by powers of two."""
    cell, where = distribution_at(task, maximum)
    merged = cell.merged(lambda run: run.times)
    if merged is None:
        return None
    rows: list[tuple[Entry, ...]] = []
    for power in range(27):
        share = 100.0 * merged.count_up_to(1000 << power) / merged.total
        if share > 0.0:
            rows.append((Value(float(1 << power), digits=0), Value(share, digits=3)))
        if share == 100.0:
            break
    return Table(
        f"{task.spec.name}-log2",
        f"Cumulative distribution of the response time at {where} ({cell_words(cell)}), all runs together.",
        ("Up to (µs)", "Requests (%)"),
        tuple(rows),
        folded=True,
    )


def _at_optimum(cell: CellReadings) -> tuple[int, int, int | None, int]:
    settings = cell.settings
    return settings.servers, settings.replicas, settings.readers, settings.clients


def _setting(cell: CellReadings) -> tuple[int, int, float, int | None, int]:
    settings = cell.settings
    return settings.servers, settings.replicas, round(100 * settings.write_ratio, 6), settings.readers, settings.clients


def _printed_at(row: Mapping[str, str]) -> tuple[int, int, float, int, int]:
    """The setting of a printed row, as `_setting` has ours."""
    return (
        int(row["servers"]),
        int(row["replication"]),
        round(float(row["write_percent"]), 6),
        int(row["threads_per_pool"]),
        _MACHINES * int(row["clients_per_machine"]),
    )


def _share_of(run: Reading, operation: str, stage: str) -> float | None:
    """Of the stages that the study printed."""
    found = run.stages_s(operation)
    whole = sum(found[one] for one in _S1_STAGES.values()) if found is not None else 0.0
    return found[stage] / whole if found is not None and whole > 0.0 else None


def _sum_s(run: Reading, operation: str, stages: Sequence[str]) -> float | None:
    found = run.stages_s(operation)
    return sum(found[stage] for stage in stages) if found is not None else None


def _stage_s(run: Reading, operation: str, stage: str, percent: float) -> float | None:
    times = run.stage_times(operation, stage)
    value = times.percentile(percent) if times is not None else None
    return None if value is None else value / 1e9
