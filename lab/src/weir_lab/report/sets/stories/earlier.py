"""Pages of studies without kept records: how each was made, so that an index can lead to it. `earlier_pages`.

What such a page concludes is not read. It has no records that could be held against it, and rules have changed since.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any

from weir_lab.errors import RecordError, ReportError
from weir_lab.report.sets.stories.reading import RUNS_MADE, in_order, label_of
from weir_lab.report.sets.twin import read_twin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Earlier", "earlier_pages"]

_TITLE = re.compile(r"<h1>(.*?)</h1>", re.DOTALL)
_UNDER = re.compile(r'<p class="sub">Pace ([^,<]+), testbed ([^,<]+),')
_MADE = re.compile(rf"<td>{RUNS_MADE}</td>\s*<td[^>]*>([^<]*)</td>")


@dataclass(frozen=True)
class Earlier:
    """A page of a whole study that no kept records stand behind.

    ``runs_made`` is ``2026-11-22 00:12 to 2026-11-22 00:21 UTC``, or empty.
    """

    page: Path
    name: str
    title: str
    pace: str
    testbed: str
    runs_made: str

    @property
    def label(self) -> str:
        """How pages call the study."""
        return label_of(self.name)

    @property
    def made_text(self) -> str:
        """``made at the pace quick, before 2026-11-22 00:21 UTC``."""
        last = self.runs_made.rpartition(" to ")[2]
        return f"made at the pace {self.pace}{f', before {last}' if last else ''}"


def earlier_pages(folder: Path, names: Iterable[str]) -> list[Earlier]:
    """Of these studies every page in a folder, in the order of their names.

    Its twin tells how a page was made, where one lies beside it, and else the page itself.

    Raises
    ------
    ReportError
        If a page tells neither title nor pace.
    """
    return [_earlier(file, name) for name in in_order(names) if (file := folder / f"{name}.html").is_file()]


def _earlier(page: Path, name: str) -> Earlier:
    twin = _twin_beside(page)
    if twin is not None:
        made = dict(twin["facts"]).get(RUNS_MADE, "")
        return Earlier(page, name, str(twin["title"]), str(twin["pace"]), str(twin["testbed"]), str(made))
    text = page.read_text(encoding="utf-8")
    title, under, made_at = _TITLE.search(text), _UNDER.search(text), _MADE.search(text)
    if title is None or under is None:
        raise ReportError(
            f"{page}: no page of a whole study: it has no title or no pace. Move it away, or make it again with `weir-lab study {name}`."
        )
    return Earlier(
        page,
        name,
        *(unescape(one) for one in (title[1], under[1], under[2], made_at[1] if made_at is not None else "")),
    )


def _twin_beside(page: Path) -> dict[str, Any] | None:
    """None without one, and for that of another page."""
    try:
        twin = read_twin(page)
    except RecordError:
        return None
    return twin if {"title", "pace", "testbed", "facts"} <= set(twin) else None
