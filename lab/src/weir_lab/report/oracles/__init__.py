"""Numbers whose right value is known, and the check that this installation reproduces them: ``weir-lab selfcheck``.

``vectors``  published examples of textbooks and tools
``tables``   tables of five middleware studies (2016 and 2018), recomputed with 15 digits; the files are in ``data/``

Start with `selfcheck`.
"""

from weir_lab.report.oracles.compared import Compared, Comparison
from weir_lab.report.oracles.tables import TABLES, read_table
from weir_lab.report.oracles.vectors import VECTORS

__all__ = ["TABLES", "VECTORS", "Compared", "Comparison", "read_table", "selfcheck"]


def selfcheck() -> list[Comparison]:
    """Compare every vector and every table; one result each."""
    return [Comparison.of(name, check) for name, check in (*VECTORS.items(), *TABLES.items())]
