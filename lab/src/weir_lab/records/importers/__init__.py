"""Results of other load generators, so that data of earlier years can stand beside ours.

``imported``  what is taken from a result: runs, operations, windows, and what to distrust about them
``memtier``   memtier_benchmark: text and JSON, of the versions before and after 1.4
``memaslap``  memaslap (memcaslap in some distributions), with and without ``-S``

Start with `read_results`, which knows each by its content. Importers leave out what a generator is known to report wrongly, and say so.
"""

from weir_lab.records.importers.imported import (
    ImportedOperation,
    ImportedRun,
    ImportedWindow,
    Log2Percentile,
    log2_percentile,
    rows_of,
)
from weir_lab.records.importers.memaslap import parse_memaslap
from weir_lab.records.importers.memtier import parse_memtier_json, parse_memtier_text
from weir_lab.records.importers.reading import read_results

__all__ = [
    "ImportedOperation",
    "ImportedRun",
    "ImportedWindow",
    "Log2Percentile",
    "log2_percentile",
    "parse_memaslap",
    "parse_memtier_json",
    "parse_memtier_text",
    "read_results",
    "rows_of",
]
