"""Commands that need no runs: ``weir-lab selfcheck`` and ``weir-lab audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir_lab.audit import Severity, audit_tables, read_tables
from weir_lab.errors import StudyError
from weir_lab.oracles import selfcheck as compare_with_oracles

__all__ = ["audit", "selfcheck"]


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


def _populations(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise StudyError(f"--clients takes whole numbers from 1 up with commas between them, not {text!r}.")
    return numbers
