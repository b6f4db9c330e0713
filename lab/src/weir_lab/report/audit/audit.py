"""All rules on all tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir_lab.errors import StudyError
from weir_lab.report.audit.across import audit_across
from weir_lab.report.audit.factors import audit_factorial, void_designs
from weir_lab.report.audit.looked import Looked, numbers_looked_at
from weir_lab.report.audit.printed import leading_number
from weir_lab.report.audit.rows import ROW_RULES, loops
from weir_lab.report.audit.rules import GROUP_RULES, Finding, Severity
from weir_lab.report.audit.tables import Table, read_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weir_lab.report.audit.tables import Group

__all__ = ["AuditReport", "audit_tables"]

# Columns of 2^k r tables, which are held against each other over all tables.
_FACTORIAL = {"value", "mean", "effect", "sum_of_squares", "percent_of_sst"}
# Nobody has more clients, and floats end far behind it.
_CLIENTS_MAX = 10**9


@dataclass(frozen=True)
class AuditReport:
    """What was found, and what of the ``numbers`` printed in ``groups`` configurations was looked at."""

    findings: tuple[Finding, ...]
    groups: int
    looked: Looked

    @property
    def numbers(self) -> int:
        """How many numbers are printed."""
        return self.looked.printed

    @property
    def broken(self) -> int:
        """How many findings are certain."""
        return sum(finding.severity is Severity.BROKEN for finding in self.findings)

    @property
    def unread(self) -> int:
        """How many of the printed numbers could not be read, so that no law was held against them."""
        return sum(finding.severity is Severity.UNREAD for finding in self.findings)


def audit_tables(tables: Sequence[Table], populations: Sequence[int] = ()) -> AuditReport:
    """Audit tables together; some rules need several.

    ``populations`` are the numbers of clients that the study used, for tables that do not print them: the interactive law is then held
    against the nearest.

    Raises
    ------
    StudyError
        If a number of clients is none.
    RecordError
        If the unit of a number in a long table is none that measures it.
    """
    if any(not 1 <= population <= _CLIENTS_MAX for population in populations):
        raise StudyError(f"--clients takes whole numbers from 1 to {_CLIENTS_MAX:,} with commas between them.")
    groups = read_groups(tables)
    factorial = list(audit_factorial(tables))
    void = void_designs(tables)

    def on_rows(chosen: Sequence[Group]) -> list[Finding]:
        found: list[Finding] = []
        for group in chosen:
            own = [finding for rule in GROUP_RULES for finding in rule(group)]
            own += loops(group, tuple(populations))
            certain = any(finding.severity is Severity.BROKEN for finding in own)
            for rule in ROW_RULES:
                # One broken number of a station is reported once.
                if not (certain and rule.__name__ == "queue"):
                    own += [new for new in rule(group) if not any(_same(new, old) for old in own)]
            found += own
        return found

    def on_some(chosen: Sequence[Group]) -> list[Finding]:
        return [*on_rows(chosen), *audit_across(chosen, (), void)]

    unread = list(_unread(groups))
    findings = [*on_rows(groups), *factorial, *audit_across(groups, tables, void), *unread]
    designs = {
        table.name: _FACTORIAL & set(table.columns)
        for table in tables
        if "row" in table.columns or "term" in table.columns
    }
    looked = numbers_looked_at(groups, on_some, designs)
    # A number that could not be read is printed all the same.
    looked = replace(looked, printed=looked.printed + len(unread))
    return AuditReport(tuple(findings), len(groups), looked)


def _unread(groups: Sequence[Group]) -> Iterator[Finding]:
    """Cells that were passed over, each with what to do about it."""
    for group in groups:
        for cell in group.unread:
            number = leading_number(cell.text)
            message = f"{cell.text!r}: {cell.why}"
            where = group.at(cell.line)
            yield Finding(where, group.key, cell.column, "", Severity.UNREAD, number, number, number, message)


def _same(one: Finding, other: Finding) -> bool:
    return one.law == other.law and one.printed == other.printed
