"""What stands above the reports of whole studies: a page that tells all of them, and a page about two of one design.

Both are made of the twins of reports (`report.sets.twin`), and say nothing that does not stand there.

``reading``  twins become `Whole`
``telling``  a study in one or two lines
``index``    the page of all studies
``pairing``  which questions two studies share
``maxima``   the maxima of two studies side by side, and their curves on one axis
``pair``     the page of two studies
``linking``  names on a page lead to the reports
"""

from weir_lab.report.sets.stories.index import index_report
from weir_lab.report.sets.stories.linking import linked
from weir_lab.report.sets.stories.pair import pair_report
from weir_lab.report.sets.stories.reading import find_wholes, read_whole

__all__ = ["find_wholes", "index_report", "linked", "pair_report", "read_whole"]
