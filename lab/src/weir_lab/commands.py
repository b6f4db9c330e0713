"""Commands that need no runs: ``weir-lab selfcheck``, ``audit``, ``predict``, ``capacity`` and ``merge``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from weir_lab.audit import Severity, audit_tables, read_tables
from weir_lab.capacity import Plan, Tier, plan_capacity, predict_open
from weir_lab.errors import StudyError
from weir_lab.formats import LoadRecord
from weir_lab.merging import MergedOperation, merge_loads
from weir_lab.oracles import selfcheck as compare_with_oracles
from weir_lab.queueing import Kind, Station, solve_closed
from weir_lab.records import read_json
from weir_lab.units import microseconds, number

__all__ = ["audit", "capacity", "merge", "predict", "selfcheck"]

_CLOSED_UNITS_MAX = 256
_TIER_HELP = (
    "NAME:TIME[:servers=M][:units=K][:visits=V][:imbalance=I], such as proxy:12us:servers=4; repeat for each tier"
)
_Tiers = Annotated[list[str], typer.Option("--tier", metavar="TIER", help=_TIER_HELP)]
_Delay = Annotated[str, typer.Option(help="Time outside the tiers per request (network, think time), such as 80us")]


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
) -> None:
    """Predict throughput and response times of a system, for an open or a closed load."""
    tiers, outside = [_tier(text) for text in tier], _seconds(delay)
    populations = _populations(clients)
    if (rate is None) == (not populations):
        raise StudyError("Give either --rate for an open load or --clients for a closed one.")
    if populations and sum(one.units for one in tiers) > _CLOSED_UNITS_MAX:
        raise StudyError(
            f"A closed load is solved for up to {_CLOSED_UNITS_MAX} units; give --rate for larger systems."
        )
    try:
        if rate is not None:
            _show(predict_open(tiers, rate, outside))
            return
        stations = [
            Station(f"{one.name} {unit}", one.service_time_s, one.visits / one.units, one.servers)
            for one in tiers
            for unit in range(1, one.units + 1)
        ]
        solution = solve_closed([*stations, Station("delay", outside, kind=Kind.DELAY)], max(populations))
    except ValueError as error:
        raise StudyError(str(error)) from error
    typer.echo(f"closed, {solution.method}; bottleneck {solution.bottleneck.name}")
    typer.echo(f"{'clients':>9} {'requests/s':>14} {'mean in tiers':>14} {'bottleneck busy':>16}")
    for n in populations:
        x, r = float(solution.throughput_per_s[n - 1]), float(solution.response_time_s[n - 1])
        busy = 100.0 * float(solution.utilization[:, n - 1].max())
        typer.echo(f"{n:>9} {x:>14,.0f} {_duration(r):>14} {busy:>14.1f} %")


def capacity(
    tier: _Tiers,
    rate: Annotated[float, typer.Option(help="Requests per second")],
    p99: Annotated[str, typer.Option(help="Limit of the 99th percentile of the response time, such as 2ms")],
    delay: _Delay = "0s",
    load_max: Annotated[float, typer.Option(help="No unit may be busier than this share of the time")] = 0.8,
) -> None:
    """Say how many units of each tier a load needs to keep its 99th percentile."""
    try:
        plan = plan_capacity([_tier(text) for text in tier], rate, 99.0, _seconds(p99), _seconds(delay), load_max)
    except ValueError as error:
        raise StudyError(str(error)) from error
    _show(plan)


def _show(plan: Plan) -> None:
    typer.echo(f"open, M/M/m units side by side, {plan.rate_per_s:,.0f} requests/s; bottleneck {plan.bottleneck.name}")
    for tier, busy in zip(plan.tiers, plan.utilization, strict=True):
        typer.echo(f"  {tier.name}: {tier.units} x {tier.servers}, busiest unit {100.0 * busy:.1f} % busy")
    times = [f"mean {_duration(plan.mean_response_time_s)}"]
    times += [f"p{percent:g} {_duration(value)}" for percent, value in plan.percentiles_s.items()]
    typer.echo("  " + ", ".join(times))


def _tier(text: str) -> Tier:
    name, _, rest = text.partition(":")
    time, *options = rest.split(":")
    known: dict[str, float] = {"servers": 1, "units": 1, "visits": 1.0, "imbalance": 1.0}
    for option in options:
        key, _, value = option.partition("=")
        if key not in known or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            raise StudyError(
                f"--tier {text!r}: {option!r} is not one of servers=, units=, visits=, imbalance= with a number."
            )
        known[key] = float(value)
    try:
        return Tier(
            name, _seconds(time), int(known["servers"]), known["visits"], int(known["units"]), known["imbalance"]
        )
    except ValueError as error:
        raise StudyError(str(error)) from error


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ns|us|µs|ms|s)", text.strip())
    if match is None:
        raise StudyError(f"{text!r} is not a time such as 80us, 2ms or 1.5s.")
    return float(match[1]) * {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[match[2]]


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
