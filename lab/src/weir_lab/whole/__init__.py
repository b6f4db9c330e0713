"""Whole studies: an ordered set of study files is run, and becomes one report with a machine-readable twin.

``sets``        which sections a study has, and which files they need (``studies/*.set.toml``)
``variants``    the same design with the event engine
``running``     makes what is missing, in parts
``readings``    run folders -> numbers per run and per cell
``stations``    link bounds, utilization of each station, the bottleneck
``published``   what the earlier studies printed, and its known errors
``claims``      their conclusions, held against our data by rule
``blocks``      values, tables, figures, sections: what a report is made of
``charts``      panels as small inline SVG
``common``      what the sections share
``clients``, ``replication``, ``multigets``, ``traces``, ``effects``, ``models``, ``placement``, ``smaller``: one kind of section each
``assembling``  sections, summary, report
``page``        HTML and Markdown
``twin``        JSON; verifying and comparing reports

Start with `assemble`.
"""

from weir_lab.whole.assembling import Sources, assemble
from weir_lab.whole.commands import compare_reports, study, verify_report
from weir_lab.whole.sets import StudySet, load_set
from weir_lab.whole.twin import changes, verify, write_report

__all__ = [
    "Sources",
    "StudySet",
    "assemble",
    "changes",
    "compare_reports",
    "load_set",
    "study",
    "verify",
    "verify_report",
    "write_report",
]
