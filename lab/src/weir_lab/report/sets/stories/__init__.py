"""What stands above the reports of whole studies: a page that tells all of them.

It is made of the twins of reports (`report.sets.twin`), and says nothing that does not stand there.

``reading``  twins become `Whole`
``telling``  a study in one or two lines
``index``    the page of all studies
``linking``  names on a page lead to the reports
"""

from weir_lab.report.sets.stories.index import index_report
from weir_lab.report.sets.stories.linking import linked
from weir_lab.report.sets.stories.reading import find_wholes, read_whole

__all__ = ["find_wholes", "index_report", "linked", "read_whole"]
