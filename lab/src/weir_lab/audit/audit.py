"""All rules on all tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.audit.across import audit_across
from weir_lab.audit.factors import audit_factorial, void_designs
from weir_lab.audit.rules import GROUP_RULES, Finding, Severity, interactive_law
from weir_lab.audit.tables import Table, read_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AuditReport", "audit_tables"]


@dataclass(frozen=True)
class AuditReport:
    """What was found. ``groups`` configurations with ``numbers`` printed numbers were looked at."""

    findings: tuple[Finding, ...]
    groups: int
    numbers: int

    @property
    def broken(self) -> int:
        """How many findings are certain."""
        return sum(finding.severity is Severity.BROKEN for finding in self.findings)


def audit_tables(tables: Sequence[Table], populations: Sequence[int] = ()) -> AuditReport:
    """Audit tables together; some rules need several.

    ``populations`` are the numbers of clients that the study used, for tables that do not print them: the interactive law is then held
    against the nearest.
    """
    groups = read_groups(tables)
    findings: list[Finding] = []
    for group in groups:
        for rule in GROUP_RULES:
            findings += rule(group)
        findings += interactive_law(group, tuple(populations))
    findings += audit_factorial(tables)
    findings += audit_across(groups, tables, void_designs(tables))
    return AuditReport(tuple(findings), len(groups), sum(len(group.numbers) for group in groups))
