"""What an audit did not look at: `numbers_looked_at`.

A number was held against a law if another number in its place would have changed what the audit says. So each column is multiplied and
divided by a thousand, one after the other, in a few rows of each kind (rows that print the same columns), and the rules run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.report.audit.names import read_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.audit.printed import Printed
    from weir_lab.report.audit.rules import Finding
    from weir_lab.report.audit.tables import Group

__all__ = ["Looked", "numbers_looked_at"]

_ROWS_TRIED = 3
_FACTORS = (1e3, 1e-3)


@dataclass(frozen=True)
class Looked:
    """How many numbers are printed, how many of them were held against a law, and the columns that never were, by table."""

    printed: int
    held: int
    never: dict[str, tuple[str, ...]]


def numbers_looked_at(
    groups: Sequence[Group],
    audit: Callable[[Sequence[Group]], list[Finding]],
    held_otherwise: dict[str, set[str]] | None = None,
) -> Looked:
    """Try every column; ``held_otherwise`` are columns by table that other rules hold."""
    kinds: dict[tuple[str, tuple[str, ...]], list[Group]] = {}
    for group in groups:
        kinds.setdefault((group.table, group.columns), []).append(group)
    total = held = 0
    seen: dict[str, dict[str, bool]] = {}
    for (table, columns), members in kinds.items():
        sample = members[:_ROWS_TRIED]
        before = _said(audit(sample))
        for column in columns:
            used = column in (held_otherwise or {}).get(table, set()) or any(
                _said(audit([_moved(group, column, factor) for group in sample])) != before for factor in _FACTORS
            )
            total += len(members)
            held += len(members) * used
            known = seen.setdefault(table, {})
            known[column] = known.get(column, False) or used
    never = {table: tuple(name for name, used in found.items() if not used) for table, found in seen.items()}
    return Looked(total, held, {table: names for table, names in never.items() if names})


def _said(findings: list[Finding]) -> list[tuple[str, str, str, float, float, float]]:
    return [
        (found.quantity, found.law, found.severity.value, found.printed, found.expected_low, found.expected_high)
        for found in findings
    ]


def _moved(group: Group, column: str, factor: float) -> Group:
    """The same row with one number a thousand times as large or small; a zero becomes the factor."""

    def moved(number: Printed) -> Printed:
        if number.value == 0.0:
            return replace(number, value=factor, low=factor, high=factor)
        return number.scaled(factor)

    numbers = {name: moved(value) if name == column else value for name, value in group.numbers.items()}
    cells = tuple(replace(cell, number=moved(cell.number)) if cell.column == column else cell for cell in group.cells)
    shares = tuple((name, moved(value) if name == column else value) for name, value in group.shares_by_column)
    key = dict(group.key)
    named = read_name(column)
    if column in key and named is not None and named.counted and key[column].isdigit():
        key[column] = str(max(1, round(int(key[column]) * factor)))
    return replace(group, numbers=numbers, cells=cells, shares_by_column=shares, key=key)
