"""CSV tables into groups: one configuration with its quantities, in SI units.

Two forms are read. *Long*: columns ``quantity``, ``unit``, ``value`` and optionally ``kind`` (input, predicted, observed); all other
columns but ``note`` name the configuration. *Wide*: one configuration per row, numbers in columns whose names end in a unit
(``throughput_ops_s``, ``response_time_ms``); all other columns name the configuration. What a heading means, whatever its words, says
`names`; such numbers are the group's ``cells``.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.report.audit.names import Named, read_name
from weir_lab.report.audit.printed import Printed, printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Cell", "Group", "Table", "read_groups", "read_tables"]

_BYTES_MAX = 64 << 20
_SCALES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "ns": 1e-9}
_WIDE = (
    ("_mbit_s", 1e6),
    ("_ops_s", 1.0),
    ("_rps", 1.0),
    ("_percent", 1.0),
    ("_bytes", 1.0),
    ("_ms", 1e-3),
    ("_us", 1e-6),
    ("_s", 1.0),
)
# Parts of one whole, in percent.
_SHARE = re.compile(r"(^|_)share(_|$)")
# Columns that number things, and measure nothing.
_NAMING = {
    "row",
    "run",
    "id",
    "line",
    "seed",
    "repetition",
    "rep",
    "replication",
    "attempt",
    "position",
    "year",
    "note",
    "index",
    "#",
}
_UNITS_OF_LONG = {"1/s": "rps", "ops/s": "rps", "requests/s": "rps", "jobs": "", "%": "percent"}
_PLAIN = {"baseline", "with_middleware", "published_max_ops_s"}
_COUNTS = {
    "total_clients",
    "clients",
    "worker_threads",
    "worker_threads_per_middleware",
    "middlewares",
    "servers_m",
    "population",
}


@dataclass(frozen=True)
class Table:
    """A file as it was read: its name, its columns, and its rows with their line numbers."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]


@dataclass(frozen=True)
class Cell:
    """A number under a heading that was understood, in SI units; shares are fractions where their unit is percent."""

    column: str
    name: Named
    number: Printed


@dataclass(frozen=True)
class Group:
    """One configuration. ``key`` names it; ``numbers`` are by "kind quantity" (or quantity alone); ``line`` is its first in the file.

    ``cells`` are the numbers whose headings were understood, ``shares_by_column`` those that are parts of one whole, in percent;
    ``columns`` are all headings with a number in this configuration.
    """

    table: str
    line: int
    key: dict[str, str]
    numbers: dict[str, Printed]
    cells: tuple[Cell, ...] = ()
    shares_by_column: tuple[tuple[str, Printed], ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def shares(self) -> tuple[Printed, ...]:
        """Parts of one whole."""
        return tuple(value for _, value in self.shares_by_column)

    @property
    def where(self) -> str:
        """The configuration in one line."""
        return f"{self.table}:{self.line} " + " ".join(f"{name}={value}" for name, value in self.key.items() if value)

    def count(self, *names: str) -> int | None:
        """A whole number from the key."""
        for name in names:
            text = self.key.get(name, "")
            if text.isdigit():
                return int(text)
        return None


def read_tables(paths: Sequence[Path]) -> list[Table]:
    """Read CSV files; a file that is no table is an error that names it."""
    tables = []
    for path in paths:
        try:
            if path.stat().st_size > _BYTES_MAX:
                raise RecordError(f"{path}: larger than {_BYTES_MAX >> 20} MiB; a published table is not.")
            with path.open(encoding="utf-8-sig", newline="") as text:
                reader = csv.DictReader(text, strict=True)
                columns = tuple(reader.fieldnames or ())
                rows = [(reader.line_num, _cells(row)) for row in reader]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RecordError(f"{path}: not a readable CSV table ({error}).") from error
        if not columns or not rows:
            raise RecordError(f"{path}: needs a header and at least one row.")
        tables.append(Table(path.name, columns, tuple(rows)))
    return tables


def read_groups(tables: Iterable[Table]) -> list[Group]:
    """Groups of all tables that are in long or wide form."""
    groups: list[Group] = []
    for table in tables:
        groups += _long(table) if {"quantity", "value"} <= set(table.columns) else _wide(table)
    return groups


def _cells(row: dict[str | None, str | list[str] | None]) -> dict[str, str]:
    return {name: value for name, value in row.items() if isinstance(name, str) and isinstance(value, str)}


def _long(table: Table) -> list[Group]:
    found: dict[tuple[tuple[str, str], ...], Group] = {}
    cells: dict[tuple[tuple[str, str], ...], dict[str, Cell]] = {}
    for line, row in table.rows:
        key = {
            name: row.get(name, "")
            for name in table.columns
            if name not in ("kind", "quantity", "unit", "value", "note")
        }
        # Visit ratios are set by the design, not measured.
        counted = row.get("quantity", "") in _COUNTS or row.get("quantity", "").startswith("visit_ratio")
        number = printed(row.get("value", ""), count=counted)
        group = found.setdefault(tuple(key.items()), Group(table.name, line, key, {}))
        if number is not None:
            name = f"{row.get('kind', '')} {row['quantity']}".strip()
            group.numbers[name] = number.scaled(_SCALES.get(row.get("unit", ""), 1.0))
            cell = _cell_of_long(name, row)
            if cell is not None:
                cells.setdefault(tuple(key.items()), {})[name] = cell
    return [
        replace(group, cells=tuple(cells.get(key, {}).values()), columns=tuple(group.numbers))
        for key, group in found.items()
    ]


def _cell_of_long(name: str, row: dict[str, str]) -> Cell | None:
    """A number of the long form, where its quantity is known; predicted and input are one model's."""
    kind, unit = row.get("kind", ""), row.get("unit", "")
    named = read_name(f"{row['quantity']}_{_UNITS_OF_LONG.get(unit, unit)}") or read_name(row["quantity"])
    number = printed(row["value"], count=named.counted if named is not None else False)
    if named is None or number is None or kind == "observed":
        return None
    return Cell(
        name, replace(named, about="" if kind in ("", "input", "predicted") else kind), number.scaled(named.scale)
    )


def _wide(table: Table) -> list[Group]:
    named = {name: read_name(name) for name in table.columns}
    groups = []
    for line, row in table.rows:
        key, numbers = {}, {}
        cells, shares, columns = [], [], []
        for name, text in row.items():
            meaning = named.get(name)
            own = printed(text, count=meaning.counted if meaning is not None else False)
            if own is not None and name.lower() not in _NAMING:
                columns.append(name)
            if own is not None and meaning is not None:
                cells.append(Cell(name, meaning, own.scaled(meaning.scale)))
            if own is not None and _SHARE.search(name.lower()):
                shares.append((name, own))
            scale = next((scale for suffix, scale in _WIDE if name.endswith(suffix)), None)
            if scale is None and name not in _PLAIN | _COUNTS:
                if name != "note" and (own is None or meaning is None):
                    key[name] = text
                continue
            number = printed(text, count=name in _COUNTS)
            if number is not None:
                numbers[name] = number.scaled(scale if scale and name not in _PLAIN else 1.0)
            if name in _COUNTS:
                key[name] = text
        groups.append(Group(table.name, line, key, numbers, tuple(cells), tuple(shares), tuple(columns)))
    return groups
