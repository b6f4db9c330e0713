"""Which rows of a published table break which law, and by how much: ``weir-lab audit FILE.csv ...``.

``printed``  a number as it was printed: the range of values that round or cut to it
``tables``   CSV in long or wide form -> groups of quantities in SI units
``rules``    the laws, each on one group; a rule is silent where a quantity is missing
``factors``  2^k r tables: printed means, effects and shares against the raw observations
``across``   rules that need more than one table: repeated inputs, service rates below a measured throughput

A printed number stands for a range, so a row is called broken only if *no* values that print like this obey the law (or, for measured
quantities, if the law is missed by more than a stated tolerance). What the printed digits cannot decide is said as a doubt.
"""

from weir_lab.audit.audit import AuditReport, audit_tables
from weir_lab.audit.printed import Printed, printed
from weir_lab.audit.rules import Finding, Severity
from weir_lab.audit.tables import Group, Table, read_groups, read_tables

__all__ = [
    "AuditReport",
    "Finding",
    "Group",
    "Printed",
    "Severity",
    "Table",
    "audit_tables",
    "printed",
    "read_groups",
    "read_tables",
]
