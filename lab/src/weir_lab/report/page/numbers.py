"""The numbers of a page by the table or figure that they stand in, and two pages held against each other: `pages_compared`.

Words and drawings are not looked at, so that a page stays verified where a later weir-lab says the same in other words.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

from weir_lab.report.page.data import data_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["numbers_by_place", "pages_compared"]

_TABLE = re.compile(r'<table id="([^"]+)">(.*?)</table>', re.DOTALL)
_FIGURE = re.compile(r'<figure id="([^"]+)">(.*?)</figure>', re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)(?=</td>|<td|\n)", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_COMMA = re.compile(r"(?<=\d),(?=\d{3}\b)")
# Verdicts stand beside numbers in tables of sentences, and are values, too.
_SAID = re.compile(r"\b(?:holds|does not hold|cannot tell|no data)\b")


def numbers_by_place(page: str, folder: Path) -> dict[str, list[str]]:
    """Numbers and verdicts in the cells of each table, and numbers of each figure's data, by the name of the place."""
    found = {}
    for name, inside in _TABLE.findall(page):
        cells = [unescape(_TAG.sub(" ", cell)) for cell in _CELL.findall(inside)]
        found[name] = [one for cell in cells for one in (*_SAID.findall(cell), *_NUMBER.findall(_COMMA.sub("", cell)))]
    for name, inside in _FIGURE.findall(page):
        rows = data_of(inside, folder).splitlines()[1:]
        found[name] = [one for row in rows for one in _NUMBER.findall(row.replace(",", " "))]
    return found


def pages_compared(printed: str, again: str, folder: Path) -> Iterator[str]:
    """Every place of a printed page whose numbers are not those of the page that was made again; ``folder`` is that of the printed one."""
    old, new = numbers_by_place(printed, folder), numbers_by_place(again, folder)
    for name, numbers in old.items():
        if name not in new:
            yield f"{name} is not in the report of the records. Build the page again."
        elif numbers != new[name]:
            place = next(
                (at for at, pair in enumerate(zip(numbers, new[name], strict=False)) if pair[0] != pair[1]), -1
            )
            if place < 0:
                yield f"in {name}: {len(numbers)} numbers, the records give {len(new[name])}"
            else:
                yield f"in {name}: {numbers[place]} should be {new[name][place]}"
