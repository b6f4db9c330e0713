"""What a reader needs to judge a sweep: its design, the spread between runs, its machines, and every run with its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.common import design_rows
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.single.levels import factor_cells, factor_heads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.records import Run
    from weir_lab.records.places import MachineRecord, TestbedRecord
    from weir_lab.report.numbers.analysis import Analysis
    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["build_design", "build_machines", "build_runs"]


def build_design(study: Study, analysis: Analysis | None) -> list[Block]:
    """Factors, settings and plan; and how far runs of a cell lie apart."""
    gates = study.gates
    rates = "rate" in (*study.factors, *study.fixed) or study.find is not None
    law = (
        "late requests, rate not kept up with" if rates else f"law off by more than {100 * gates.law_deviation_max:g} %"
    )
    flags = (
        f"load generator above {100 * gates.client_cpu_share_max:g} % of its threads, rest of the machine above "
        f"{100 * gates.other_cpu_share_max:g} %, {law}"
    )
    order = (
        "The search asks for one run of each cell in turn, at the rate that tells most"
        if study.find is not None
        else f"Each block runs every cell once; the order is fixed by the seed {study.plan.seed}, and all cells of a block send the same "
        "requests"
    )
    rows = (*design_rows(study), ("attempts per run", str(study.plan.attempts)))
    if study.kind.runs_load:
        rows = (*rows, ("flags", flags))
    design = Table(
        "settings",
        f"Factors vary, settings are fixed. {order}. The unit of replication is the run, with fresh processes and connections "
        "(docs/measure/method.md).",
        ("Setting", "Value or levels"),
        rows,
    )
    if analysis is None:
        return [design]
    spread: list[tuple[Entry, ...]] = [
        (
            *factor_cells(analysis, point),
            Value(100 * point.throughput_cv_between_runs, digits=1),
            Value(100 * point.throughput_cv_within_runs, digits=1)
            if point.throughput_cv_within_runs is not None
            else "fewer than two windows",
        )
        for point in analysis.points
    ]
    return [
        design,
        Table(
            "spread",
            "Spread of throughput: coefficient of variation between runs (what the intervals rest on) and between one-second windows "
            "inside a run.",
            (*factor_heads(analysis), "Between runs (%)", "Inside runs (%)"),
            tuple(spread),
            folded=True,
        ),
    ]


def build_machines(testbed: TestbedRecord | None, targets: Sequence[str] = ()) -> list[Block]:
    """The machines of the testbed, and what the lab measured of them before the first run; of targets nothing is known."""
    if targets:
        where = ", ".join(targets)
        reported = "of its machines, its CPU time and its configuration nothing is known"
        hosts = testbed is not None and testbed.kind == "hosts"
        alone = (
            "Load generators alone were started, on the hosts below" if hosts else "Only the load generator ran here"
        )
        said = Text(f"{alone}. What was measured ran already, at {where}: {reported}.", note=True)
        return [said, *build_machines(testbed)] if hosts else [said]
    if testbed is None or testbed.kind == "local":
        pinned = [place for place in testbed.machines if place.cores] if testbed is not None else []
        text = (
            f"Everything ran on this one machine: all roles share its loopback interface and {_cores_shared(pinned)}."
        )
        return [Text(text, note=True), *_shared(testbed)]
    blocks: list[Block] = [
        Table(
            "testbed",
            f"Testbed {testbed.kind}: its machines, and what the lab measured of them before the first run. Link: what the machine may "
            "send. Wire: what it was measured to send, packets with their headers; payload: what arrived of it over TCP. CPU: its quota.",
            ("Machine", "Link (Mbit/s)", "Wire (Mbit/s)", "Payload (Mbit/s)", "Measured to", "CPU", "Cores"),
            tuple(_machine(place, testbed.kind) for place in testbed.machines),
        )
    ]
    if testbed.speed != 1.0:
        speed = (
            f"The machines run at {testbed.speed:g} of the study's speed: rates and quotas are the study's times that, delays divided "
            "by it. A rate on this page divided by it, and a time times it, are the study's."
        )
        blocks.append(Text(speed, note=True))
    if testbed.delayed_by:
        blocks.append(Text(f"Packets between the machines are delayed by {testbed.delayed_by}.", note=True))
    if testbed.kept_awake:
        blocks.append(Text(f"{testbed.kept_awake[0].upper()}{testbed.kept_awake[1:]}.", note=True))
    if testbed.round_trips:
        trips = tuple(
            (
                " and ".join(trip.between),
                Value(trip.count),
                Value(1e3 * trip.min_ms, digits=0),
                Value(1e3 * trip.median_ms, digits=0),
            )
            for trip in testbed.round_trips
        )
        blocks.append(
            Table(
                "round-trips",
                "Round trips of one byte over an open TCP connection, one after the other.",
                ("Between", "Round trips", "Least (µs)", "Median (µs)"),
                trips,
            )
        )
    return [*blocks, *_shared(testbed)]


def _cores_shared(pinned: Sequence[MachineRecord]) -> str:
    """What roles on one machine share of its cores, where some are pinned."""
    if not pinned:
        return "its cores"
    places = ", ".join(f"{place.name} on {_core_list(place.cores)}" for place in pinned)
    return f"those of its cores that they were not pinned to ({places})"


def _core_list(cores: Sequence[int]) -> str:
    return f"core{'' if len(cores) == 1 else 's'} {', '.join(map(str, cores))}"


def _machine(place: MachineRecord, kind: str) -> tuple[Entry, ...]:
    sends = place.sends
    shared = "its own" if kind == "hosts" else "shared"
    return (
        place.name,
        Value(place.link_mbit_s, digits=0) if place.link_mbit_s is not None else "not limited",
        Value(sends.wire_mbit_s, digits=1) if sends and sends.wire_mbit_s is not None else "not counted",
        Value(sends.payload_mbit_s, digits=1) if sends else "not measured",
        sends.to if sends else "–",
        Value(place.cpus, digits=2) if place.cpus is not None else shared,
        ", ".join(map(str, place.cores)) or "any",
    )


def _shared(testbed: TestbedRecord | None) -> list[Block]:
    if testbed is None or not testbed.shares_cpu:
        return []
    text = (
        "CPU-shared: no quota keeps the roles apart, so a busy role takes CPU time from the others. From these numbers nothing can be "
        "concluded about how the system scales to machines of their own."
    )
    return [Text(text, note=True)]


def build_runs(used: set[str], runs: Sequence[Run], interrupted: Sequence[Path], folder: str) -> list[Block]:
    """All runs in the order they were made, with their verdicts; ``used`` names those that numbers come from."""
    rows: list[tuple[Entry, ...]] = [
        (
            Value(run.meta.position),
            run.folder.name,
            Value(run.meta.attempt),
            Value(run.meta.load_average[0], digits=1),
            _verdict(run, used),
        )
        for run in runs
    ]
    rows += [("–", one.name, "–", "–", "interrupted") for one in interrupted]
    return [
        Table(
            "all-runs",
            f"All runs in the order they were made; their folders are under {folder}/. Load: mean number of runnable processes in "
            "the minute before.",
            ("Place", "Folder", "Attempt", "Load", "Verdict"),
            tuple(rows),
            folded=True,
        )
    ]


def _verdict(run: Run, used: set[str]) -> str:
    verdict = run.meta.verdict
    if not verdict.valid:
        return f"invalid: {'; '.join(verdict.reasons)}"
    if run.folder.name not in used:
        return "not used: made with other settings or programs"
    return f"valid, flagged: {'; '.join(verdict.flags)}" if verdict.flags else "valid"
