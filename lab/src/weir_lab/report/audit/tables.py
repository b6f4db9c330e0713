"""Tables into groups: one configuration with its quantities, in SI units.

Two forms are read. *Long*: columns ``quantity``, ``unit``, ``value`` and optionally ``kind`` (input, predicted, observed); all other
columns but ``note`` name the configuration. *Wide*: one configuration per row, numbers in columns whose names end in a unit
(``throughput_ops_s``, ``response_time_ms``); all other columns name the configuration. What a heading means, whatever its words, says
`names`, and what it means beside the others of its table, `_meanings`; such numbers are the group's ``cells``.

What has not the form of a table is an error by line: a row with more or fewer cells than there are headings, a heading that comes twice,
cells between semicolons. Where nothing else can be meant, digits in groups (``15,900``, ``15 900``) are joined; all other texts stay as
they are, and are reported if they look like numbers.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.report.audit.names import SUFFIXES, Named, bare_name, holds_numbers, read_name, si_scale, suffix_of
from weir_lab.report.audit.printed import Printed, printed, whole_number, why_unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["WHOLE_NEAR", "Cell", "Group", "Table", "Unread", "read_groups", "read_tables"]

# Shares that miss 100 % by more are no shares of one whole.
WHOLE_NEAR = 10.0
# Parts of one whole, in percent.
_SHARE = re.compile(r"(^|_)share(_|$)")
# Shares of our own tables that are parts of no whole that is printed.
_NOT_PARTS = {"other_cpu_share_percent", "kernel_cpu_share_percent"}
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
# By these columns the laboratory's own tables are known.
_OWN = "law_deviation_percent"
_OWN_OPEN = {"unsent", "late"}


@dataclass(frozen=True)
class Cell:
    """A number under a heading that was understood, in SI units; shares are fractions where their unit is percent."""

    column: str
    name: Named
    number: Printed


@dataclass(frozen=True)
class Unread:
    """A cell that was passed over although numbers stand under its heading: where, what, and what to do about it."""

    line: int
    column: str
    text: str
    why: str


@dataclass(frozen=True)
class Group:
    """One configuration. ``key`` names it; ``numbers`` are by "kind quantity" (or quantity alone); ``line`` is its first in the file.

    ``cells`` are the numbers whose headings were understood, ``shares_by_column`` those that are parts of one whole, in percent;
    ``columns`` are all headings with a number in this configuration, ``unread`` the cells that should have had one. ``own`` says that the
    table is one of the laboratory's, and ``settings_printed`` that depth or think time stand in it.
    """

    table: str
    line: int
    key: dict[str, str]
    numbers: dict[str, Printed]
    cells: tuple[Cell, ...] = ()
    shares_by_column: tuple[tuple[str, Printed], ...] = ()
    columns: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    own: bool = False
    settings_printed: bool = True

    @property
    def shares(self) -> tuple[Printed, ...]:
        """Parts of one whole."""
        return tuple(value for _, value in self.shares_by_column)

    @property
    def where(self) -> str:
        """The configuration in one line."""
        return self.at(self.line)

    def at(self, line: int) -> str:
        """The configuration in one line, with a line of the file that is about it."""
        return f"{self.table}:{line} " + " ".join(f"{name}={value}" for name, value in self.key.items() if value)

    def count(self, *names: str) -> int | None:
        """A whole number from the key."""
        return next((number for name in names if (number := whole_number(self.key.get(name, ""))) is not None), None)


def read_groups(tables: Iterable[Table]) -> list[Group]:
    """Groups of all tables that are in long or wide form."""
    groups: list[Group] = []
    for table in tables:
        groups += _long(table) if {"quantity", "value"} <= set(table.columns) else _wide(table)
    return groups


def _long(table: Table) -> list[Group]:
    found: dict[tuple[tuple[str, str], ...], Group] = {}
    cells: dict[tuple[tuple[str, str], ...], dict[str, Cell]] = {}
    unread: dict[tuple[tuple[str, str], ...], list[Unread]] = {}
    first: dict[tuple[tuple[tuple[str, str], ...], str], tuple[int, str]] = {}
    for line, row in table.rows:
        key = {
            name: row.get(name, "")
            for name in table.columns
            if name not in ("kind", "quantity", "unit", "value", "note")
        }
        named, quantity, text = tuple(key.items()), row.get("quantity", ""), row.get("value", "").strip()
        name, unit = f"{row.get('kind', '')} {quantity}".strip(), row.get("unit", "").strip()
        # Visit ratios are set by the design, not measured.
        number = printed(text, count=quantity in _COUNTS or quantity.startswith("visit_ratio"))
        group = found.setdefault(named, Group(table.name, line, key, {}))
        if number is None:
            why = why_unread(text)
        else:
            shown = f"{text} {unit}".strip()
            before, known = first.setdefault((named, name), (line, shown))
            why = None if known == shown else f"line {before} prints {known}: name what differs in a column of its own"
        if why is not None:
            unread.setdefault(named, []).append(Unread(line, name, text, why))
        elif number is not None:
            group.numbers[name] = number.scaled(si_scale(quantity, unit, f"{table.name}:{line}"))
            cell = _cell_of_long(name, row)
            if cell is not None:
                cells.setdefault(named, {})[name] = cell
    return [
        replace(
            group,
            cells=tuple(cells.get(named, {}).values()),
            columns=tuple(group.numbers),
            unread=tuple(unread.get(named, ())),
        )
        for named, group in found.items()
    ]


def _cell_of_long(name: str, row: dict[str, str]) -> Cell | None:
    """A number of the long form, where its quantity is known; predicted and input are one model's."""
    kind, quantity = row.get("kind", ""), row.get("quantity", "")
    named = read_name(f"{quantity}_{suffix_of(row.get('unit', ''))}") or read_name(quantity)
    number = printed(row.get("value", ""), count=named.counted if named is not None else False)
    if named is None or number is None or kind == "observed":
        return None
    return Cell(
        name, replace(named, about="" if kind in ("", "input", "predicted") else kind), number.scaled(named.scale)
    )


def _wide(table: Table) -> list[Group]:
    named = _meanings(table)
    columns = set(table.columns)
    own = _OWN in columns or columns >= _OWN_OPEN
    settings = any(meaning is not None and meaning.quantity in ("depth", "think_time") for meaning in named.values())
    # The raw and the printed numbers of a 2^k r table; elsewhere nobody knows what a "value" is.
    factorial = bool(columns & {"row", "term"})
    expected = {
        name
        for name in table.columns
        if named[name] is not None or (holds_numbers(name) and (factorial or _suffix(name) or name in _PLAIN))
    }
    groups = [
        replace(_group(table.name, line, row, named, expected), own=own, settings_printed=settings)
        for line, row in table.rows
    ]
    return _parts_alone(groups)


def _group(table: str, line: int, row: dict[str, str], named: dict[str, Named | None], expected: set[str]) -> Group:
    """One row of the wide form."""
    key: dict[str, str] = {}
    numbers: dict[str, Printed] = {}
    cells: list[Cell] = []
    shares: list[tuple[str, Printed]] = []
    columns: list[str] = []
    unread: list[Unread] = []
    for name, text in row.items():
        meaning = named.get(name)
        own = printed(text, count=meaning.counted if meaning is not None else False)
        if own is not None and name.lower() not in _NAMING:
            columns.append(name)
        if own is not None and meaning is not None:
            cells.append(Cell(name, meaning, own.scaled(meaning.scale)))
        if own is not None and _SHARE.search(name.lower()) and name not in _NOT_PARTS:
            shares.append((name, own))
        if own is None and name in expected and (why := why_unread(text)) is not None:
            unread.append(Unread(line, name, text.strip(), why))
        scale = _suffix(name)
        if scale is None and name not in _PLAIN | _COUNTS:
            if name != "note" and (own is None or meaning is None):
                key[name] = text
            continue
        number = printed(text, count=name in _COUNTS)
        if number is not None:
            numbers[name] = number.scaled(scale if scale and name not in _PLAIN else 1.0)
        if name in _COUNTS:
            key[name] = text
    return Group(table, line, key, numbers, tuple(cells), tuple(shares), tuple(columns), tuple(unread))


def _suffix(name: str) -> float | None:
    return next((scale for suffix, scale in SUFFIXES if name.endswith(suffix)), None)


def _parts_alone(groups: list[Group]) -> list[Group]:
    """Groups with those shares alone that are parts of one whole: half of the rows that print the same ones come near 100 %."""

    def printed_by(group: Group) -> tuple[str, ...]:
        return tuple(name for name, _ in group.shares_by_column)

    rows = Counter(printed_by(group) for group in groups)
    near = Counter(
        printed_by(group) for group in groups if abs(sum(share.value for share in group.shares) - 100.0) <= WHOLE_NEAR
    )
    return [
        group if 2 * near[printed_by(group)] >= rows[printed_by(group)] else replace(group, shares_by_column=())
        for group in groups
    ]


# Files into tables.

_BYTES_MAX = 64 << 20
_SPACES = "\u0020\u00a0\u2009\u202f'\u2019"
_BY_SPACE = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:[{_SPACES}][0-9]{{3}})+(?:\.[0-9]+)?")
_BY_COMMA = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
# These can be nothing else: two groups, or a point behind one.
_BY_COMMA_ALONE = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3}){2,}(?:\.[0-9]+)?|,[0-9]{3}\.[0-9]+)")
# A mark with three digits behind it may stand between thousands; with any other number of digits it is a decimal mark.
_POINT = re.compile(r"[+-]?(?:[0-9]*\.(?:[0-9]{1,2}|[0-9]{4,})|0?\.[0-9]+)")
_COMMA = re.compile(r"[+-]?(?:[0-9]*,(?:[0-9]{1,2}|[0-9]{4,})|0?,[0-9]+)")


@dataclass(frozen=True)
class Table:
    """A file as it was read: its name, its columns, and its rows with their line numbers."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]


def read_tables(paths: Sequence[Path]) -> list[Table]:
    """Read CSV files; a file that is no table is an error that names it. A file that is given twice is read once."""
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(path.absolute(), path)
    given = list(found.values())
    names = [path.name for path in given]
    return [
        # Files of one name in two folders are distinguished by their paths.
        replace(_read(path), name=path.name if names.count(path.name) == 1 else str(path))
        for path in given
    ]


def _read(path: Path) -> Table:
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise RecordError(f"{path}: larger than {_BYTES_MAX >> 20} MiB; a published table is not.")
        with path.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, strict=True)
            lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordError(f"{path}: not a readable CSV table ({error}).") from error
    if len(lines) < 2:
        raise RecordError(f"{path}: needs a header and at least one row.")
    (first, columns), body = lines[0], lines[1:]
    _check_headings(path, first, columns)
    rows = [(line, _row(path, line, columns, cells)) for line, cells in body]
    # A column without a heading is an index at most: nobody knows what its numbers are.
    kept = tuple(name for name in columns if name.strip())
    return _joined(Table(path.name, kept, tuple((line, {name: row[name] for name in kept}) for line, row in rows)))


def _check_headings(path: Path, line: int, columns: list[str]) -> None:
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(columns) == 1 and mark in columns[0]:
            raise RecordError(f"{path}:{line}: its cells stand between {name}. Write it with commas between them.")
    named = [name.strip() for name in columns if name.strip()]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise RecordError(
            f"{path}:{line}: the heading {twice!r} comes twice, and only one of the two could be audited. "
            "Write a row for each, or two tables."
        )


def _row(path: Path, line: int, columns: list[str], cells: list[str]) -> dict[str, str]:
    """Cells by heading. Empty cells behind the last heading are what a spreadsheet leaves, and no cells."""
    while len(cells) > len(columns) and not cells[-1].strip():
        cells = cells[:-1]
    if len(cells) != len(columns):
        hint = " A number with a comma in it needs quotation marks." if len(cells) > len(columns) else ""
        raise RecordError(
            f"{path}:{line}: {len(cells)} cells under {len(columns)} headings, so nobody knows which is which.{hint} "
            "Give the row a cell for each heading."
        )
    return dict(zip(columns, cells, strict=True))


def _joined(table: Table) -> Table:
    """The table with digits in groups joined to numbers, where a comma or space between them can be nothing else."""
    columns = [name for name in table.columns if holds_numbers(name)]
    texts = [row[name].strip() for _, row in table.rows for name in columns]
    pointed = any(_POINT.fullmatch(text) or _BY_COMMA_ALONE.fullmatch(text) for text in texts)
    commas = pointed and not any(_COMMA.fullmatch(text) for text in texts)

    def joined(text: str) -> str:
        own = text.strip()
        if _BY_SPACE.fullmatch(own):
            return re.sub(f"[{_SPACES}]", "", own)
        return own.replace(",", "") if commas and _BY_COMMA.fullmatch(own) else text

    rows = tuple(
        (line, row | {name: joined(row[name]) for name in columns if len(row[name]) > 3}) for line, row in table.rows
    )
    return replace(table, rows=rows)


# What the headings of one table mean together. Some letters and words say what they are only beside others: ``N`` is the population of a
# closed system, or the number of runs; ``c`` the servers of M/M/c, or a probability; ``rate`` the throughput, or what was offered.
# Where both are possible nothing is claimed.

# A fraction of a whole is at most 1; a little more may be an error of the table, much more is percent.
_FRACTION_MAX = 1.5
_SPREADS = {"sd", "half_width", "low", "high"}


def _meanings(table: Table) -> dict[str, Named | None]:
    """The quantity under each heading; None where it is none of the known ones, or may be several."""
    alone = {heading: read_name(heading) for heading in table.columns}
    return {heading: _beside(table, heading, meaning, alone) for heading, meaning in alone.items()}


def _beside(table: Table, heading: str, meaning: Named | None, alone: dict[str, Named | None]) -> Named | None:
    if meaning is None:
        return None
    others = {
        other.quantity
        for name, other in alone.items()
        if name != heading and other is not None and other.statistic == "mean" and not other.about
    }
    letter = heading.strip()
    if letter == "N":
        return _population(meaning, others, alone)
    if letter in ("c", "C") and "servers" not in others and _counts_servers(table, heading):
        return Named("servers", 1.0)
    if bare_name(heading) == "rate" and "throughput" in others:
        return replace(meaning, quantity="offered_rate") if "offered_rate" not in others else None
    if meaning.quantity in ("utilization", "prob_queueing") and meaning.scale == 1.0:
        values = (printed(row.get(heading, "")) for _, row in table.rows)
        if any(value is not None and value.value > _FRACTION_MAX for value in values):
            return replace(meaning, scale=0.01)
    return meaning


def _population(meaning: Named, others: set[str], alone: dict[str, Named | None]) -> Named | None:
    """N is the number of runs where clients stand beside it, and that of clients elsewhere. Beside a spread it may be either."""
    if "clients" in others:
        return meaning
    if "runs" in others or not any(other is not None and other.statistic in _SPREADS for other in alone.values()):
        return Named("clients", 1.0)
    return None


def _counts_servers(table: Table, heading: str) -> bool:
    values = [printed(row.get(heading, ""), count=True) for _, row in table.rows]
    known = [value.value for value in values if value is not None]
    return bool(known) and all(value >= 1.0 and value == round(value) for value in known)
