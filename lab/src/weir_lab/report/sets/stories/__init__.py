"""What stands above the reports of whole studies: a page that tells all of them, and a page about two of one design.

Both are made of the twins of reports (`report.sets.twin`), and say nothing that does not stand there. Of pages without a twin or kept
records the first says only that they are there, and how they were made.

``reading``  twins become `Whole`
``earlier``  pages that no records stand behind
``telling``  a study in one or two lines
``index``    the page of all studies
``pairing``  which questions two studies share
``maxima``   the maxima of two studies side by side, and their curves on one axis
``pair``     the page of two studies
``linking``  names on a page lead to the reports
"""

from weir_lab.report.sets.stories.earlier import Earlier, earlier_pages
from weir_lab.report.sets.stories.index import index_report
from weir_lab.report.sets.stories.linking import linked
from weir_lab.report.sets.stories.pair import pair_report
from weir_lab.report.sets.stories.reading import find_wholes, read_whole

__all__ = ["Earlier", "earlier_pages", "find_wholes", "index_report", "linked", "pair_report", "read_whole"]
