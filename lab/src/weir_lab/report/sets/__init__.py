"""The report of a whole study: `assembling` makes it of sections, `twin` writes it, verifies it and compares two of them.

Start with `assemble`.
"""

from weir_lab.report.sets.assembling import Sources, assemble
from weir_lab.report.sets.twin import changes, verify, write_report

__all__ = ["Sources", "assemble", "changes", "verify", "write_report"]
