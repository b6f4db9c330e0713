"""What each operation pays for copies, for servers and for the share of writes.

``section``  the sections over servers and copies, and over the share of writes: tables, figures, sentences
``ends``     what copies or writes change, from the first level to the last

Start with `build_replication` and `build_writes`.
"""

from weir_lab.report.sections.replication.section import (
    build_replication,
    build_writes,
    conclusions,
    replication_summary,
    writes_summary,
)

__all__ = ["build_replication", "build_writes", "conclusions", "replication_summary", "writes_summary"]
