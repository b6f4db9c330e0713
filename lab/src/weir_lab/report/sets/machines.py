"""On which machines a report's runs were made, how fast they were, and when: `machine_facts`, `speed_facts`, `machine_details`.

`awake_limits` says what the testbed took of them. `speed_blocks` and `speeds_text` say how fast the machine was in sweeps that a page holds
against each other. A whole study is made in several nights, and a machine that is shared may be half as fast in one of them. Inside of a
sweep blocks take that out. A trace has one run, and the price of a proxy may be taken between sweeps: there the page says by the yardstick
what is the machine's.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath, Role
from weir_lab.report.common import level_value
from weir_lab.report.numbers.comparing import throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Text, Value, over
from weir_lab.theory.units import count_text, number, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry

    # Cells, each with its sweep.
    Shown = Sequence[tuple[SweepReadings, CellReadings]]

__all__ = [
    "YARDSTICK",
    "awake_limits",
    "machine_details",
    "machine_facts",
    "period_ns",
    "scale_texts",
    "shared_text",
    "speed_blocks",
    "speed_facts",
    "speeds_text",
    "within_text",
]

YARDSTICK = "yardstick"
"""The name of the fact about the machine's speed."""

_Machine = tuple[tuple[str, str], ...]

# Cells that both machines have: of fewer nothing is said.
_SHARED_MIN = 3


def machine_facts(sweeps: Sequence[SweepReadings]) -> list[tuple[str, str]]:
    """A row for each machine with its number of runs; none where one made all runs."""
    counts = _counts(sweeps)
    if len(counts) < 2:
        return []
    return [
        (
            f"machine {place}",
            f"{', '.join(f'{name} {value}' for name, value in machine)}: {count_text(runs, 'valid run')}",
        )
        for place, (machine, runs) in enumerate(counts.most_common(), start=1)
    ]


def speed_facts(sweeps: Sequence[SweepReadings]) -> list[tuple[str, str]]:
    """What the yardstick took in the median run: pages whose machines were not equally fast tell it by this. None where it was not read."""
    read = [
        spent
        for sweep in sweeps
        for cell in sweep.cells
        for run in cell.runs
        if (spent := run.slowness_ns()) is not None
    ]
    if not read:
        return []
    low, *_, high = statistics.quantiles(read, n=20) if len(read) > 1 else [read[0], read[0]]
    return [
        (
            YARDSTICK,
            f"{number(statistics.median(read) / 1e3, 1)} µs in the median run, {number(low / 1e3, 1)} to {number(high / 1e3, 1)} µs in "
            "nine of ten",
        )
    ]


def machine_details(sweeps: Sequence[SweepReadings]) -> tuple[str, ...]:
    """How many runs each machine made, and how far throughputs of the same cell lie apart; nothing where one made all runs."""
    counts = _counts(sweeps)
    if len(counts) < 2:
        return ()
    (first, most), *others = counts.most_common()
    lines = [f"The runs were made on {len(counts)} machines, {most} of them on the first (“Machine and programs”)."]
    for place, (other, _) in enumerate(others, start=2):
        ratios = sorted(
            ratio for sweep in sweeps for cell in sweep.cells if (ratio := _ratio(cell, first, other)) is not None
        )
        if len(ratios) < _SHARED_MIN:
            lines.append(f"Fewer than {_SHARED_MIN} cells have runs of both machine {place} and the first.")
            continue
        low, high = ratios[round(0.05 * (len(ratios) - 1))], ratios[round(0.95 * (len(ratios) - 1))]
        lines.append(
            f"In {len(ratios)} cells with runs of both, throughput on machine {place} is {number(statistics.median(ratios), 3)} of that "
            f"on the first (median; nine tenths of the cells lie between {number(low, 3)} and {number(high, 3)})."
        )
    return (" ".join(lines),)


def awake_limits(sweeps: Sequence[SweepReadings]) -> tuple[str, ...]:
    """That the testbed itself took part of what machines were to have, and in which sweeps if not in all."""
    slowed = [one.folder.name for one in sweeps if one.testbed is not None and one.testbed.awake_took_time]
    if not slowed:
        return ()
    where = "The loop" if len(slowed) == len(sweeps) else f"In the runs of {listed(slowed)} the loop"
    return (
        f"{where} that kept cores awake took CPU time from the machines: rates are lower than they could be where workers or CPU quotas "
        "limit, and waiting times longer.",
    )


def _counts(sweeps: Sequence[SweepReadings]) -> Counter[_Machine]:
    return Counter(
        _machine(run.meta.machine)
        for sweep in sweeps
        for run in [*(one.run for cell in sweep.cells for one in cell.runs), *sweep.unloaded]
    )


def _machine(facts: Mapping[str, str | int | float]) -> _Machine:
    return tuple((name.replace("_", " "), str(value)) for name, value in facts.items())


def _ratio(cell: CellReadings, first: _Machine, other: _Machine) -> float | None:
    """Geometric mean of the throughputs on one machine over that on another; ``None`` where one has none."""
    ours, theirs = (
        _level([run for run in cell.runs if _machine(run.run.meta.machine) == one]) for one in (first, other)
    )
    return None if ours is None or theirs is None else math.exp(theirs - ours)


def _level(runs: Sequence[Reading]) -> float | None:
    return statistics.fmean(math.log(throughput_of(run)) for run in runs) if runs else None


def period_ns(sweeps: Sequence[SweepReadings]) -> tuple[int, int]:
    """When the first run began and the last one ended."""
    times = [
        run.meta
        for sweep in sweeps
        for run in [*(one.run for cell in sweep.cells for one in cell.runs), *sweep.unloaded]
    ]
    return min(one.started_unix_ns for one in times), max(one.ended_unix_ns for one in times)


def within_text(first_ns: int, last_ns: int) -> str:
    """From the first run to the last.

    >>> [within_text(0, round(3.6e12 * hours)) for hours in (0.5, 1.9, 46.0)]
    ['30 minutes', '1.9 hours', '1.9 days']
    """
    minutes = (last_ns - first_ns) / 6e10
    if minutes < 100.0:
        return f"{max(minutes, 1.0):.0f} minutes"
    return f"{minutes / 60.0:.1f} hours" if minutes < 36.0 * 60.0 else f"{minutes / 1440.0:.1f} days"


# A cell that fills the machine slows the yardstick by up to a third (decision 36): what is more is another speed.
_TIMES_MIN = 1.4
# Kinds of sections that hold sweeps of different hours against each other.
_KINDS = ("overhead", "trace")
# With more writes than this more servers of a key are another load.
_FEW_WRITES = 0.05
# Sweeps on a slow machine that are named.
_NAMED_MAX = 4


def speed_blocks(task: Task, earlier: Sequence[Task]) -> list[Block]:
    """Of traces and of the price of a proxy: the runs that are held against others, with what the yardstick took in each.

    Nothing where the machine was about as fast in all of them. A trace is held against the sweeps of earlier sections, too.
    """
    if task.spec.kind not in _KINDS:
        return []
    before = earlier if task.spec.kind == "trace" else ()
    sweeps = list({sweep.folder.name: sweep for one in (task, *before) for sweep in one.sweeps}.values())
    took = _took(sweeps)
    own = [took[sweep.folder.name] for sweep in task.sweeps if sweep.folder.name in took]
    if not own or max(max(own) / min(took.values()), max(took.values()) / min(own)) < _TIMES_MIN:
        return []
    wanted = {_per_server(cell) for sweep in task.sweeps if len(sweep.cells) <= 2 for cell in sweep.cells}
    shown = [(sweep, cell) for sweep in sweeps if sweep.folder.name in took for cell in _cells(sweep, wanted)]
    said = (
        f"{_said(took)}. Where CPUs or their quotas limit, a request takes longer and rates are lower by about as much: that is in every "
        "change between these sweeps."
    )
    points = [said, *_but_copies(task, shown, took), *_by_chance(task, shown)]
    return [
        Text("How fast the machine was in what is held against each other:", tuple(points)),
        _table(task, shown, took),
    ]


def speeds_text(tasks: Sequence[Task]) -> str:
    """Of all sweeps of a page, where the machine was far from equally fast; empty where it was not, or nobody read the yardstick."""
    took = _took(sweep for task in tasks for sweep in (*task.sweeps, *task.beside))
    if len(took) < 2 or max(took.values()) < _TIMES_MIN * min(took.values()):
        return ""
    return (
        f"{_said(took)}: where CPUs or their quotas limit, rates of these are not to be held against each other, and the slow are lower "
        "by about as much."
    )


def _took(sweeps: Iterable[SweepReadings]) -> dict[str, float]:
    """What the yardstick took in the median run, in µs, by the name of each sweep that read it."""
    found = {
        sweep.folder.name: [spent for cell in sweep.cells for spent in cell.of(lambda run: run.slowness_ns())]
        for sweep in sweeps
    }
    return {name: statistics.median(spent) / 1e3 for name, spent in found.items() if spent}


def _said(took: Mapping[str, float]) -> str:
    """Slow sweeps by name, and between which ends the others lie."""
    slow = sorted((name for name in took if took[name] >= _TIMES_MIN * min(took.values())), key=lambda one: -took[one])
    rest = [took[name] for name in took if name not in slow]
    named = [f"{number(took[name], 0)} µs in {name}" for name in slow[:_NAMED_MAX]]
    if len(slow) > _NAMED_MAX:
        left = [took[name] for name in slow[_NAMED_MAX:]]
        named.append(f"{_ends_text(left)} in {len(left)} more")
    return (
        "The machine was not equally fast in all sweeps: the yardstick, a computation that is always the same, took "
        f"{listed(named)}; in the {'other' if len(rest) == 1 else 'others'} {_ends_text(rest)}"
    )


def _ends_text(took: Sequence[float]) -> str:
    low, high = number(min(took), 0), number(max(took), 0)
    return f"{low} µs" if low == high else f"{low} to {high} µs"


def _per_server(cell: CellReadings) -> float:
    return cell.settings.clients / cell.settings.servers


def _cells(sweep: SweepReadings, wanted: set[float]) -> list[CellReadings]:
    """Of a sweep with one or two cells these; of a curve what has the clients per server that are ``wanted``, or else its largest mean."""
    if len(sweep.cells) <= 2:
        return list(sweep.cells)
    alike = [cell for cell in sweep.cells if _per_server(cell) in wanted]
    return alike if 0 < len(alike) <= 2 else [max(sweep.cells, key=lambda cell: cell.mean_throughput)]


def _but_copies(task: Task, shown: Shown, took: Mapping[str, float]) -> list[str]:
    """Cells of two sweeps of the section that differ in the servers of a key alone: with few writes they are read as one setting."""
    found = []
    own = [(sweep, cell) for sweep, cell in shown if sweep in task.sweeps]
    for place, (sweep, cell) in enumerate(own):
        for base, other in own[:place]:
            alike = _but_replicas(cell) == _but_replicas(other) and cell.settings.replicas != other.settings.replicas
            if base is sweep or not alike or cell.settings.write_ratio > _FEW_WRITES:
                continue
            rates = [
                f"{rate(one.mean_throughput)} requests/s in {at.folder.name} (R = {one.settings.replicas})"
                for at, one in ((base, other), (sweep, cell))
            ]
            times = [number(took[at.folder.name], 0) for at in (base, sweep)]
            spent = [number(1e6 * sum(each) / len(each), 1) for each in map(_spent, (other, cell)) if each]
            cpu = f", and a request {listed(spent)} µs of CPU time in the proxy" if len(spent) == 2 else ""
            writes = f"{100.0 * cell.settings.write_ratio:g} % writes"
            found.append(
                f"{listed(rates)} differ in the servers of a key alone, with {writes}, and in the hour: the yardstick took "
                f"{listed(times)} µs{cpu}."
            )
    return found


def _but_replicas(cell: CellReadings) -> dict[str, object]:
    return {name: value for name, value in cell.settings.model_dump(mode="json").items() if name != "replicas"}


def _spent(cell: CellReadings) -> list[float]:
    """CPU time of a request in the proxies; none where requests go directly."""
    return cell.of(lambda run: run.cpu_s(Role.PROXY)) if cell.settings.path is RequestPath.PROXY else []


def _by_chance(task: Task, shown: Shown) -> list[str]:
    """Where a rate as measured has the digits of one that the study printed, though its machines had another speed."""
    printed = [row for row in read_table("s2_overhead") if row["study"] == task.label and row["unit"] == "ops/s"]
    digits = {rate(float(row[name])) for row in printed for name in ("baseline", "with_middleware")}
    return [
        f"That ours in {sweep.folder.name}, {rate(cell.mean_throughput)} requests/s as measured, has the digits of the printed value is "
        f"chance: at the study's speed it is {rate(cell.mean_throughput / sweep.speed)} requests/s."
        for sweep, cell in shown
        if task.spec.kind == "overhead" and sweep.speed != 1.0 and rate(cell.mean_throughput) in digits
    ]


def _table(task: Task, shown: Shown, took: Mapping[str, float]) -> Table:
    least = min(took.values())
    rows: list[tuple[Entry, ...]] = []
    for sweep, cell in shown:
        name, proxied, spent = sweep.folder.name, cell.settings.path is RequestPath.PROXY, _spent(cell)
        rows.append(
            (
                name,
                "through the proxy" if proxied else "directly",
                Value(cell.settings.clients),
                Value(cell.settings.servers),
                Value(cell.settings.replicas) if proxied else "–",
                level_value(cell, throughput_of, digits=0),
                Value(cell.mean_throughput / sweep.speed, digits=0),
                over(spent, 1e6, digits=1) if spent else "–",
                Value(took[name], digits=0),
                Value(took[name] / least, digits=2),
                Value(len(cell.runs)),
            )
        )
    return Table(
        f"{task.spec.name}-speeds",
        "What is held against each other, by how fast the machine was: what the yardstick took in the median run of the sweep, and how "
        "many times as long as in the fastest one here. Of a curve the level that has the clients per server of the others, or the one "
        "with the largest mean.",
        (
            *("Sweep", "Way", "Clients", "Servers", "Servers of a key", "X (requests/s)"),
            *("X at the study's speed (requests/s)", "Proxy CPU (µs per request)", "Yardstick (µs)"),
            *("Times the fastest", "Runs"),
        ),
        tuple(rows),
        folded=True,
    )


def scale_texts(sweeps: Sequence[SweepReadings]) -> list[str]:
    """How machines of one computer stand for those of the study; nothing where none has a link of its own, or their speeds differ."""
    built = [one for one in sweeps if one.links_built and one.testbed is not None and one.testbed.kind == "netns"]
    speeds = {one.speed for one in built} - {1.0}
    if len(speeds) != 1:
        return []
    (speed,) = speeds
    whole = ", ".join(one.folder.name for one in built if one.speed == 1.0)
    cores = {run.run.cpu.cores for one in built for cell in one.cells for run in cell.runs if run.run.cpu is not None}
    on = f", on {count_text(min(cores), 'core')}" if len(cores) == 1 else ""
    return [
        f"All machines of a run are on one computer{on}, at {speed:g} of the study's speed"
        f"{f' (those of {whole} at the whole of it)' if whole else ''}: links have {speed:g} of its rates, and delays "
        f"are {1.0 / speed:.3g} times as long. Rates and times are as measured, unless a table says “at the study's speed” "
        f"(rates divided by {speed:g}, times multiplied by {speed:g})."
    ]


def shared_text(sweeps: Sequence[SweepReadings]) -> str:
    """`` (all machines share 2 cores of one computer)``; empty where the page has said so, or each may have one of its own."""
    own = [one for one in sweeps if one.testbed is not None]
    if scale_texts(sweeps) or not own or any(one.testbed is None or one.testbed.kind == "hosts" for one in own):
        return ""
    cores = {run.run.meta.machine.get("cores") for one in own for cell in one.cells for run in cell.runs} - {None}
    return f" (all machines share {cores.pop()} cores of one computer)" if len(cores) == 1 else ""
