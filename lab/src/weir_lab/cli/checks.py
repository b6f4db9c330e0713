"""Commands that need no runs: ``weir-lab selfcheck``, ``audit`` and ``merge``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from weir_lab.errors import StudyError
from weir_lab.records import read_json
from weir_lab.records.formats import LoadRecord
from weir_lab.records.formats.merging import MergedOperation, doubts_of, merge_loads
from weir_lab.report.audit import AuditReport, Severity, audit_tables, read_tables
from weir_lab.report.oracles import selfcheck as compare_with_oracles
from weir_lab.theory.units import microseconds, number

__all__ = ["audit", "merge", "read_populations", "selfcheck"]


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
        list[Path],
        typer.Argument(metavar="FILE.csv...", help="Published tables; docs/measure/audit.md tells their form"),
    ],
    clients: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of clients in use, for tables that do not print them")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and what was not looked at as JSON")] = False,
) -> None:
    """Say which printed numbers break which law, and which were held against none. Status 3 if some do or cannot be read."""
    report = audit_tables(read_tables(files), read_populations(clients))
    doubts = sum(finding.severity is Severity.DOUBT for finding in report.findings)
    if as_json:
        typer.echo(json.dumps(_plain_audit(report), indent=1, allow_nan=False))
    else:
        for finding in report.findings:
            typer.echo(finding.line())
        typer.echo(f"{report.numbers} numbers in {report.groups} rows: {report.broken} broken laws, {doubts} doubts")
        typer.echo(f"{report.looked.held} of {report.numbers} numbers were held against a law")
        if report.unread:
            typer.echo(f"{report.unread} numbers could not be read")
        for table, columns in report.looked.never.items():
            typer.echo(f"never used: {table}: {', '.join(columns)}")
    if report.looked.held == 0:
        typer.echo("Nothing was audited: docs/measure/audit.md tells which headings are understood.", err=True)
    if report.broken or report.unread or report.looked.held == 0:
        raise typer.Exit(3)


def _plain_audit(report: AuditReport) -> dict[str, Any]:
    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "schema": "weir.audit/1",
        "rows": report.groups,
        "numbers": report.numbers,
        "held_against_a_law": report.looked.held,
        "never_used": {table: list(columns) for table, columns in report.looked.never.items()},
        "findings": [
            {
                "severity": finding.severity.value,
                "where": finding.where,
                "key": finding.key,
                "quantity": finding.quantity,
                "law": finding.law,
                "printed": finding.printed,
                "expected_low": finite(finding.expected_low),
                "expected_high": finite(finding.expected_high),
                "deviation_percent": finding.deviation_percent,
                "message": finding.message,
            }
            for finding in report.findings
        ],
    }


def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.json...", help="Records of weir load --json, one per generator")
    ],
) -> None:
    """Show what several generators with one --start-at measured together: rates summed, histograms merged, and what each of them doubts.

    That they ran together is by the clock of each machine: how far clocks are apart no record says.
    """
    records = [read_json(file, LoadRecord) for file in files]
    merged = merge_loads(records)
    typer.echo(
        f"{merged.generators} generators, {merged.connections} connections, "
        f"together for {merged.overlap * 100:.1f} % of the time by their own clocks; times in µs"
    )
    headings = ["", "requests", "rate/s", "mean", "p50", "p90", "p99", "p99.9", "misses", "errors"]
    rows = [
        _merged_row(name, operation, merged.throughput_rps * operation.requests / max(1, merged.all.requests))
        for name, operation in [*merged.operations.items(), ("all", merged.all)]
    ]
    for row in [headings, *rows]:
        typer.echo(f"{row[0]:9}" + "".join(f"{cell:>12}" for cell in row[1:]))
    if (offered := merged.scheduled) is not None:
        typer.echo(
            f"scheduled {number(offered.arrivals, 0)} requests, {number(offered.offered_rate_rps, 0)}/s; "
            f"{number(offered.late, 0)} late; {number(offered.unsent, 0)} never sent"
        )
    for text, count in merged.errors.items():
        typer.echo(f"{number(count, 0)} x {text}")
    for warning in merged.warnings:
        typer.echo(f"Look before you trust this: {warning}")
    for file, record in zip(files, records, strict=True):
        if doubts := doubts_of(record):
            typer.echo(f"Look before you trust this: {file.name}: {'; '.join(doubts)}.")
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


def read_populations(text: str) -> list[int]:
    """Numbers of clients with commas between them; `StudyError` says what is wrong."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise StudyError(f"--clients takes whole numbers from 1 up with commas between them, not {text!r}.")
    return numbers
