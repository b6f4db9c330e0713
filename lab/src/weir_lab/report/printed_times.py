"""Times that studies S1 and S4 printed, beside ours: stages, parts of the time in the middleware, and distributions.

S1 has our stages from the second stamp on. S4's three times are sums of them:

=========  =====================================================================
T_queue    queue
T_server   send and backend: S4 counts from the first send to the last reply
T_left     read, dispatch and reply: everything else between first and last stamp
=========  =====================================================================

The machines differ, so shares and their order can be compared, not values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weir_lab.report.common import speed_note
from weir_lab.report.numbers.readings import OPERATION_NAMES
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Value, over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry

__all__ = ["distributions_beside", "means_beside", "quartiles_beside", "stages_beside"]

# Stages of S1 in its words, by ours.
_S1_STAGES = {
    "tLoadBalancer": "dispatch",
    "tQueue": "queue",
    "tWorker": "send",
    "tMemcached": "backend",
    "tReturn": "reply",
}

_PARTS = {
    "t_queue_us": ("queue",),
    "t_server_us": ("send", "backend"),
    "t_left_us": ("read", "dispatch", "reply"),
}
# Client machines of S4; its tables count clients per machine.
_MACHINES = 3


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
        rows.append(
            (Value(readers), Value(clients), OPERATION_NAMES.get(operation, operation), *(entry for pair in pairs for entry in pair))
        )  # fmt: skip
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-means",
        "Mean ms inside the middleware, the study's beside ours (95 % t intervals over runs): T_queue is our queue, T_server send and "
        f"backend, T_left read, dispatch and reply. Other machines: compare the shares.{speed_note(task.first.speed)}",
        ("Threads", "Clients", "", "T_queue", "ours", "T_server", "ours", "T_left", "ours"),
        tuple(rows),
    )  # fmt: skip


def quartiles_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Median and 95th percentile of the queue for the servers, replicas and writes that both have; ``None`` without such."""
    rows: list[tuple[Entry, ...]] = []
    for row in read_table("s4_percentiles"):
        if row["study"] != task.label or row["quantity"] != "t_queue" or not row["replication"]:
            continue
        at = (int(row["servers"]), int(row["replication"]), float(row["write_percent"]))
        for cell in cells:
            settings = cell.settings
            if (settings.servers, settings.replicas, round(100 * settings.write_ratio, 6)) != at:
                continue
            ours = [cell.of(partial(_queue_s, operation=row["op"], percent=percent)) for percent in (50.0, 95.0)]
            if all(ours):
                rows.append(
                    (
                        Value(at[0]), Value(at[1]), Value(at[2], digits=0), OPERATION_NAMES.get(row["op"], row["op"]),
                        Value(float(row["p50_us"]) / 1e3), over(ours[0], 1e3 * task.first.speed),
                        Value(float(row["p95_us"]) / 1e3), over(ours[1], 1e3 * task.first.speed),
                    )
                )  # fmt: skip
            break
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-printed-quartiles",
        "Time in the queue, the study's beside ours (percentiles per run, 95 % t intervals over runs). Other machines: compare patterns."
        f"{speed_note(task.first.speed)}",
        ("S", "R", "Writes (%)", "Operation", "Median (ms)", "ours", "p95 (ms)", "ours"),
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


def distributions_beside(task: Task, cells: Sequence[CellReadings]) -> Table | None:
    """Cumulative distributions that the study printed of a setting, ours beside; ``None`` without a setting that both have."""
    rows: list[tuple[Entry, ...]] = []
    known = {_setting(cell): cell for cell in cells}
    for row in read_table("s4_logdist"):
        at = (
            int(row["servers"]),
            int(row["replication"]),
            round(float(row["write_percent"]), 6),
            int(row["threads_per_pool"]),
            _MACHINES * int(row["clients_per_machine"]),
        )
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


def _at_optimum(cell: CellReadings) -> tuple[int, int, int | None, int]:
    settings = cell.settings
    return settings.servers, settings.replicas, settings.readers, settings.clients


def _setting(cell: CellReadings) -> tuple[int, int, float, int | None, int]:
    settings = cell.settings
    return settings.servers, settings.replicas, round(100 * settings.write_ratio, 6), settings.readers, settings.clients


def _share_of(run: Reading, operation: str, stage: str) -> float | None:
    """Of the stages that the study printed."""
    found = run.stages_s(operation)
    whole = sum(found[one] for one in _S1_STAGES.values()) if found is not None else 0.0
    return found[stage] / whole if found is not None and whole > 0.0 else None


def _sum_s(run: Reading, operation: str, stages: Sequence[str]) -> float | None:
    found = run.stages_s(operation)
    return sum(found[stage] for stage in stages) if found is not None else None


def _queue_s(run: Reading, operation: str, percent: float) -> float | None:
    times = run.stage_times(operation, "queue")
    value = times.percentile(percent) if times is not None else None
    return None if value is None else value / 1e9
