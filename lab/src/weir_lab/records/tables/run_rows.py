"""One row per run: its factors, and every response, in units that the names of the columns tell. Start with `run_rows`.

================================================  =====================================================================
columns                                           meaning
================================================  =====================================================================
``run``, ``study``, ``cell``, ``repetition``      which run it is; runs of one repetition form a block
factors, such as ``clients`` and ``path``         the levels of its cell
``attempt``, ``valid``, ``current``               whether it counts, and whether it is what the study asks for now
``throughput_rps``, ``mean_response_time_us``     requests completed per second of the measured phase; their mean time
``p1_us`` to ``p99.9_us``                         percentiles of the times of all operations; empty below enough samples
``get_mean_us``, ``get_p50_us``, ``get_p99_us``   the same of each operation
``offered_rate_rps``, ``unsent``, ``late``        of an open loop: what was offered; what was never sent; what was sent late
``ROLE_cpus``, ``ROLE_cpu_us_per_request``        CPUs that a role used on average; CPU time per request
``stage_STAGE_us``                                mean time per request in each stage of Weir
``yardstick_CORE_us``, ``MACHINE_…``              speed of the cores; links, memory and throttling of machines
================================================  =====================================================================

Of invalid runs the responses are empty, and ``reasons`` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import ScheduledRun, cells_of, content_sha256
from weir_lab.design.cells import Cell
from weir_lab.records.formats import STAGES, subtract_snapshots
from weir_lab.records.progress import values_of
from weir_lab.records.runs import read_run
from weir_lab.records.windows import Cut
from weir_lab.theory.laws import cycle_law

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.records.progress import RunValues
    from weir_lab.records.runs import CpuRecord, Run, RunMeta
    from weir_lab.theory.histogram import Histogram

__all__ = ["OPERATIONS", "PERCENTILES", "run_rows"]

PERCENTILES = (1, 5, 25, 50, 75, 90, 95, 99, 99.9)
OPERATIONS = ("get", "set", "multiget")
_OPERATION_PERCENTILES = (50, 99)
_Value = str | int | float | bool | None


def run_rows(
    study: Study, executables: dict[str, str], metas: Sequence[tuple[Path, RunMeta]]
) -> list[dict[str, _Value]]:
    """Rows of all runs, in the order in which they were made."""
    cells = {cell.name: cell for cell in cells_of(study)}
    ordered = sorted(metas, key=lambda pair: pair[1].started_unix_ns)
    return [_row(folder, meta, current=_is_current(study, executables, cells, meta)) for folder, meta in ordered]


def _is_current(study: Study, executables: dict[str, str], cells: dict[str, Cell], meta: RunMeta) -> bool:
    """Whether the study asks for this run now: its cell is one of the study's, and its content is what the run's was."""
    cell = cells.get(meta.cell)
    if study.find is not None:  # the rates of a search are not known beforehand
        cell = Cell(tuple(meta.levels.items()), meta.settings, study.label or study.name)
    if cell is None:
        return False
    run = ScheduledRun(cell, meta.repetition, meta.position, meta.measured_s)
    return content_sha256(study, run, executables) == meta.content_sha256


def _row(folder: Path, meta: RunMeta, *, current: bool) -> dict[str, _Value]:
    run = read_run(folder)
    row: dict[str, _Value] = {"run": folder.name, "study": meta.study, "cell": meta.cell, **meta.levels}
    row |= {"repetition": meta.repetition, "attempt": meta.attempt, "valid": meta.verdict.valid, "current": current}
    row |= {"cut_windows": meta.cut_windows, "started_unix_ns": meta.started_unix_ns}
    if run.load is not None and meta.verdict.valid:
        values = values_of(run.load, Cut(meta.cut_windows, stationary=True))
        row |= _responses(run, values)
        row |= _cpu_per_request(run.cpu, values.throughput_rps) if run.cpu is not None else {}
        row |= _stages(run)
    if run.cpu is not None:
        row |= _use(run.cpu)
    row |= {"reasons": "; ".join(meta.verdict.reasons), "flags": "; ".join(meta.verdict.flags)}
    return {**row, "content_sha256": meta.content_sha256}


def _responses(run: Run, values: RunValues) -> dict[str, _Value]:
    load, settings = values.load, run.meta.settings
    row: dict[str, _Value] = {
        "generators": len(run.generators),
        "requests": load.requests,
        "throughput_rps": values.throughput_rps,
        "mean_response_time_us": values.mean_ns / 1e3,
        **_percentiles("", load.response_times(), PERCENTILES),
    }
    for name in OPERATIONS:
        part = load.operations.get(name)
        if part is not None and part.response_time.count:
            times = part.response_time
            row[f"{name}_mean_us"] = times.sum_ns / times.count / 1e3
            row |= _percentiles(f"{name}_", times.decoded(name), _OPERATION_PERCENTILES)
    if load.scheduled is not None:
        offered = load.scheduled
        row |= {"offered_rate_rps": offered.offered_rate_rps, "unsent": offered.unsent, "late": offered.late}
    if settings.is_open:
        return row  # the law of a closed loop says nothing here
    law = cycle_law(values.throughput_rps, settings.population, values.mean_ns, settings.think_time_s)
    return row | {"law_deviation_percent": 100 * law.deviation}


def _percentiles(prefix: str, times: Histogram | None, percents: Sequence[float]) -> dict[str, _Value]:
    found = {percent: times.percentile(percent) if times is not None else None for percent in percents}
    return {f"{prefix}p{percent:g}_us": None if value is None else value / 1e3 for percent, value in found.items()}


def _cpu_per_request(cpu: CpuRecord, throughput_rps: float) -> dict[str, _Value]:
    """CPU time per second over requests per second, each over its own interval."""
    return {
        f"{role}_cpu_us_per_request": spent.cpu_ns / cpu.interval_ns / throughput_rps * 1e6
        for role, spent in cpu.roles.items()
    }


def _stages(run: Run) -> dict[str, _Value]:
    if run.before is None or run.after is None:
        return {}
    measured = subtract_snapshots(run.after, run.before)
    count = max(1, measured.total_count)
    return {f"stage_{stage}_us": measured.stage_sum_ns[stage] / count / 1e3 for stage in STAGES}


def _use(cpu: CpuRecord) -> dict[str, _Value]:
    """What the roles used: CPUs each, and per machine what its link carried, its memory, and time held by its quota."""
    row: dict[str, _Value] = {f"{role}_cpus": spent.cpu_ns / cpu.interval_ns for role, spent in cpu.roles.items()}
    row["other_cpu_share_percent"] = 100 * cpu.other_share
    row["kernel_cpu_share_percent"] = None if cpu.kernel_share is None else 100 * cpu.kernel_share
    row["kernel_wait_us"] = (
        cpu.kernel_wait.sum_ns / cpu.kernel_wait.count / 1e3 if cpu.kernel_wait is not None else None
    )
    for role, kinds in cpu.threads.items():
        for kind, threads in kinds.items():
            row[f"{role}_{kind}_cpus"] = threads.cpu_ns / cpu.interval_ns
            row[f"{role}_{kind}_waited_cpus"] = threads.waited_ns / cpu.interval_ns
            if threads.turns is not None and threads.windows_ns:
                row[f"{role}_{kind}_turns_per_s"] = threads.turns / threads.windows_ns * 1e9
    row |= {f"yardstick_{core}_us": mean_ns / 1e3 for core, mean_ns in cpu.yardstick_ns.items()}
    for name, use in cpu.machines.items():
        if use.sent_bytes is not None and use.received_bytes is not None:
            row[f"{name}_sent_mbit_s"] = use.sent_bytes * 8e3 / cpu.interval_ns
            row[f"{name}_received_mbit_s"] = use.received_bytes * 8e3 / cpu.interval_ns
        if use.resident_bytes is not None:
            row[f"{name}_resident_mib"] = use.resident_bytes / (1 << 20)
        if use.throttled_ns is not None:
            row[f"{name}_throttled_percent"] = 100 * use.throttled_ns / cpu.interval_ns
    return row
