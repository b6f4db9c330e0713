"""Names on a page lead to the reports that they stand for: `linked`.

Text of blocks is escaped when a page is made, so links are set afterwards.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from weir_lab.errors import ReportError
from weir_lab.report.page.complete import require_complete

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weir_lab.report.sets.stories.earlier import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = ["linked"]


def linked(page: str, wholes: Iterable[Whole | Earlier], file: Path, titles: Mapping[str, str] | None = None) -> str:
    """The page, to be written to ``file``, with every entry of a table that is a study's label, and its story, leading to its report.

    A study whose page is not there keeps its label without a link. ``titles`` are those of other pages, each with its address.
    """
    for title, address in (titles or {}).items():
        page = page.replace(escape(title), f'<a href="{escape(address, quote=True)}">{escape(title)}</a>')
    for whole in wholes:
        label = re.escape(escape(whole.label))
        entry = rf">{label}(?=</td>|<td|\n)"
        if not re.search(entry, page):
            raise ReportError(f"No table of the page names {whole.label}. Nothing was written.")
        if not whole.page.exists():
            continue
        address = quote(os.path.relpath(whole.page, file.parent))
        anchor = f'<a href="{escape(address, quote=True)}">{escape(whole.label)}</a>'
        page = re.sub(entry, lambda _, anchor=anchor: f">{anchor}", page)  # type: ignore[misc]
        page = re.sub(rf"<li>{label}, ", lambda _, anchor=anchor: f"<li>{anchor}, ", page)  # type: ignore[misc]
    require_complete(page)
    return page
