"""On which machines a report's runs were made, how fast they were, and when: `machine_facts`, `speed_facts`, `machine_details`.

`awake_limits` says what the testbed took of them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.report.numbers.comparing import throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings

__all__ = ["YARDSTICK", "awake_limits", "machine_details", "machine_facts", "period_ns", "speed_facts", "within_text"]

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
