"""Which rows of a published table break which law, and by how much: ``weir-lab audit FILE.csv ...``.

``printed``  a number as it was printed: the range of values that round or cut to it
``names``    what a heading means, whatever its words and unit, and what the unit of a long table is
``tables``   CSV files -> tables in long or wide form -> groups of quantities in SI units, and the cells that are no number
``rules``    the laws, each on one group; a rule is silent where a quantity is missing
``rows``     laws on rows whose headings were understood: loops, percentiles, intervals, shares
``joint``    all numbers of a queue together: is there one station that prints like this?
``factors``  2^k r tables: printed means, effects and shares against the raw observations
``looked``   what was never held against a law
``across``   rules that need more than one table: repeated inputs, service rates below a measured throughput

A printed number stands for a range, so a row is called broken only if *no* values that print like this obey the law (or, for measured
quantities, if the law is missed by more than a stated tolerance). What the printed digits cannot decide is said as a doubt.
"""

from weir_lab.report.audit.audit import AuditReport, audit_tables
from weir_lab.report.audit.joint import laws_hold, station_exists
from weir_lab.report.audit.looked import Looked
from weir_lab.report.audit.names import Named, read_name
from weir_lab.report.audit.printed import Printed, printed
from weir_lab.report.audit.rules import Finding, Severity
from weir_lab.report.audit.tables import Group, Table, read_groups, read_tables

__all__ = [
    "AuditReport",
    "Finding",
    "Group",
    "Looked",
    "Named",
    "Printed",
    "Severity",
    "Table",
    "audit_tables",
    "laws_hold",
    "printed",
    "read_groups",
    "read_name",
    "read_tables",
    "station_exists",
]
