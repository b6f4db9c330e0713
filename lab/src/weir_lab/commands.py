"""Commands that need no runs: ``weir-lab selfcheck``, ``audit``, ``predict``, ``capacity`` and ``merge``."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_lab.audit import Severity, audit_tables, read_tables
from weir_lab.capacity import Answer, Plan, plan_capacity, predict_closed, predict_open
from weir_lab.errors import StudyError
from weir_lab.formats import LoadRecord
from weir_lab.merging import MergedOperation, merge_loads
from weir_lab.oracles import selfcheck as compare_with_oracles
from weir_lab.records import read_json
from weir_lab.tier_text import TIER_HELP, read_seconds, read_tier
from weir_lab.units import microseconds, number

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["audit", "capacity", "merge", "predict", "selfcheck"]

_Tiers = Annotated[list[str], typer.Option("--tier", metavar="TIER", help=TIER_HELP)]
_Delay = Annotated[str, typer.Option(help="Time outside the tiers per request (network, think time), such as 80us")]
_Value = Annotated[int, typer.Option("--value", help="Bytes per value, for tiers with per_kib= and for links")]


def selfcheck() -> None:
    """Reproduce every published vector and recomputed table; one line each. Status 1 if one is not reproduced."""
    comparisons = compare_with_oracles()
    for comparison in comparisons:
        typer.echo(comparison.line())
    failed = sum(not comparison.passed for comparison in comparisons)
    numbers = sum(comparison.numbers for comparison in comparisons)
    typer.echo(f"{len(comparisons)} vectors and tables, {numbers} numbers, {failed} failed")
    if failed:
        raise typer.Exit(1)


def audit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.csv...", help="Published tables; docs/lab.md tells their form")
    ],
    clients: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of clients in use, for tables that do not print them")
    ] = "",
) -> None:
    """Say which printed numbers break which law, and by how much. Status 3 if some do."""
    report = audit_tables(read_tables(files), _populations(clients))
    for finding in report.findings:
        typer.echo(finding.line())
    doubts = sum(finding.severity is Severity.DOUBT for finding in report.findings)
    typer.echo(f"{report.numbers} numbers in {report.groups} rows: {report.broken} broken laws, {doubts} doubts")
    if report.broken:
        raise typer.Exit(3)


def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.json...", help="Records of weir load --json, one per generator")
    ],
) -> None:
    """Show what several generators with one --start-at measured together: rates summed, histograms merged."""
    merged = merge_loads([read_json(file, LoadRecord) for file in files])
    typer.echo(
        f"{merged.generators} generators, {merged.connections} connections, "
        f"together for {merged.overlap * 100:.1f} % of the time; times in µs"
    )
    headings = ["", "requests", "rate/s", "mean", "p50", "p90", "p99", "p99.9", "misses", "errors"]
    rows = [
        _merged_row(name, operation, merged.throughput_rps * operation.requests / max(1, merged.all.requests))
        for name, operation in [*merged.operations.items(), ("all", merged.all)]
    ]
    for row in [headings, *rows]:
        typer.echo(f"{row[0]:9}" + "".join(f"{cell:>12}" for cell in row[1:]))
    for text, count in merged.errors.items():
        typer.echo(f"{number(count, 0)} x {text}")
    if merged.failures:
        typer.echo(f"{number(merged.failures, 0)} replies failed verification, or were lost; the records name them")
        raise typer.Exit(1)


def _merged_row(name: str, operation: MergedOperation, rate: float) -> list[str]:
    percentiles = operation.percentiles_ns()
    times = [operation.mean_ns, *(percentiles[percent] for percent in (50.0, 90.0, 99.0, 99.9))]
    return [
        name,
        number(operation.requests, 0),
        number(rate, 0),
        *("-" if time is None else microseconds(time) for time in times),
        number(operation.misses, 0),
        number(operation.errors, 0),
    ]


def predict(
    tier: _Tiers,
    rate: Annotated[float | None, typer.Option(help="Open load: requests per second")] = None,
    clients: Annotated[str, typer.Option(metavar="N,N,...", help="Closed load: numbers of clients")] = "",
    delay: _Delay = "0s",
    value: _Value = 0,
) -> None:
    """Predict throughput and response times of a system, for an open or a closed load."""
    tiers, outside = [read_tier(text, value) for text in tier], read_seconds(delay)
    populations = _populations(clients)
    if (rate is None) == (not populations):
        raise StudyError("Give either --rate for an open load or --clients for a closed one.")
    try:
        if rate is not None:
            _show(predict_open(tiers, rate, outside))
            return
        plans = [predict_closed(tiers, n, outside) for n in populations]
    except ValueError as error:
        raise StudyError(str(error)) from error
    busiest = max(range(len(tiers)), key=lambda index: plans[-1].utilization[index])
    typer.echo(f"closed, {plans[-1].method}; bottleneck {tiers[busiest].name}")
    typer.echo(f"{'clients':>9} {'requests/s':>28} {'mean in tiers':>28} {'bottleneck busy':>16}")
    for plan in plans:
        x, r = _answer(plan.throughput, "{:,.0f}".format), _answer(plan.response_time, _duration)
        typer.echo(f"{plan.clients:>9} {x:>28} {r:>28} {100.0 * plan.utilization[busiest]:>14.1f} %")


def capacity(
    tier: _Tiers,
    rate: Annotated[float, typer.Option(help="Requests per second")],
    p99: Annotated[str, typer.Option(help="Limit of the 99th percentile of the response time, such as 2ms")],
    delay: _Delay = "0s",
    load_max: Annotated[float, typer.Option(help="No unit may be busier than this share of the time")] = 0.8,
    value: _Value = 0,
) -> None:
    """Say how many units of each tier a load needs to keep its 99th percentile."""
    tiers = [read_tier(text, value) for text in tier]

    def planned(sign: float) -> Plan:
        """At the times, or at one end of their intervals."""
        moved = [
            replace(one, service_time_s=one.service_time_s + sign * one.service_error_s, service_error_s=0.0)
            if sign
            else one
            for one in tiers
        ]
        return plan_capacity(moved, rate, 99.0, read_seconds(p99), read_seconds(delay), load_max)

    try:
        _show(planned(0.0))
        if any(one.service_error_s > 0.0 for one in tiers):
            ends = [", ".join(f"{one.name} {one.units}" for one in planned(sign).tiers) for sign in (-1.0, 1.0)]
            typer.echo(f"  units if all times are at their lower ends: {ends[0]}; at their upper ends: {ends[1]}")
    except ValueError as error:
        raise StudyError(str(error)) from error


def _show(plan: Plan) -> None:
    typer.echo(f"open, units side by side, {plan.rate_per_s:,.0f} requests/s; bottleneck {plan.bottleneck.name}")
    for tier, busy in zip(plan.tiers, plan.utilization, strict=True):
        typer.echo(f"  {tier.name}: {tier.units} x {tier.servers}, busiest unit {100.0 * busy:.1f} % busy")
    times = [f"mean {_answer(plan.mean, _duration)}"]
    times += [f"p{percent:g} {_answer(answer, _duration)}" for percent, answer in plan.percentiles.items()]
    typer.echo("  " + ", ".join(times))


def _answer(answer: Answer, text: Callable[[float], str]) -> str:
    """A number, and its interval where the tiers' times have errors."""
    if answer.low == answer.high:
        return text(answer.value)
    high = text(answer.high) if math.isfinite(answer.high) else "no steady state"
    return f"{text(answer.value)} ({text(answer.low)} to {high})"


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _populations(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise StudyError(f"--clients takes whole numbers from 1 up with commas between them, not {text!r}.")
    return numbers
