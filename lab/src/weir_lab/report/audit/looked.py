"""What an audit did not look at: `numbers_looked_at`.

A number was held against a law if another number in its place would have changed what the audit says. So each column is multiplied and
divided by a thousand, one after the other, in a few rows of each kind, and the rules run again. Rows have one kind if they print the
same columns and the same rules apply to them: those of one model, or of a client, or of a proxy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.report.audit.across import other_places
from weir_lab.report.audit.names import read_name
from weir_lab.report.audit.printed import whole_number
from weir_lab.report.audit.rows import MODEL

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
    kinds: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        kinds.setdefault((group.table, *_ruled_by(group), *group.columns), []).append(group)
    elsewhere = other_places(groups)
    total = held = 0
    seen: dict[str, dict[str, bool]] = {}
    for members in kinds.values():
        table, columns = members[0].table, members[0].columns
        # From all over the table: rows that follow each other are often alike.
        sample = members[:: max(1, len(members) // _ROWS_TRIED)][:_ROWS_TRIED]
        # A proxy's row is held against its client's, which has another kind.
        beside = [other for group in sample for other in elsewhere(group)]
        before = _said(audit([*sample, *beside]))
        for column in columns:
            used = column in (held_otherwise or {}).get(table, set()) or any(
                _said(audit([*(_moved(group, column, factor) for group in sample), *beside])) != before
                for factor in _FACTORS
            )
            total += len(members)
            held += len(members) * used
            known = seen.setdefault(table, {})
            known[column] = known.get(column, False) or used
    never = {table: tuple(name for name, used in found.items() if not used) for table, found in seen.items()}
    return Looked(total, held, {table: names for table, names in never.items() if names})


def _ruled_by(group: Group) -> tuple[str, str, str]:
    """What decides which rules apply to a row: how its model is named, which station that is, and where it was measured."""
    model = group.key.get("model")
    named = "none" if model is None else "M/M/1" if model == "M/M/1" else "another"
    stations = (match for text in group.key.values() if (match := MODEL.fullmatch(text.strip())))
    station = next((("M/M/1" if match[1] == "1" else "M/M/m") for match in stations), "")
    return named, station, "client" if group.key.get("measured_at", "client") == "client" else "elsewhere"


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
    count = whole_number(key.get(column, ""))
    if named is not None and named.counted and count is not None:
        key[column] = str(max(1, round(count * factor)))
    return replace(group, numbers=numbers, cells=cells, shares_by_column=shares, key=key)
