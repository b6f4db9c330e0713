"""What no page may hold: a placeholder, anything from outside, or more bytes than anybody waits for. `require_complete`."""

from __future__ import annotations

import re

from weir_lab.errors import ReportError

__all__ = ["BYTES_MAX", "require_complete"]

BYTES_MAX = 2_000_000

# What an unfinished page betrays itself by: words people leave, and what Python prints for a value that is not there.
_PLACEHOLDERS = re.compile(
    r"\b(TODO|TBD|FIXME|XXX|PLACEHOLDER|[Ll]orem ipsum|None|nan|NaN|inf|Undefined)\b|\{\{|\}\}|\{%|%\}|\?\?\?"
)


def require_complete(page: str) -> None:
    """Raise if the page holds a placeholder, loads anything from outside, or is too large."""
    text = re.sub(r"<svg.*?</svg>|<style.*?</style>", "", page, flags=re.DOTALL)
    text = re.sub(r"\s*<[^>]*>\s*", " ", text)
    found = _PLACEHOLDERS.search(text)
    if found:
        around = text[max(0, found.start() - 40) : found.end() + 40].replace("\n", " ")
        raise ReportError(f"The report holds a placeholder, {found.group()!r}, near: {around!r}. Nothing was written.")
    outside = re.search(r"<(script|link|img|iframe)\b|@import|\bsrc=|url\((?!#)", page)
    if outside:
        raise ReportError(f"The report would load something from outside: {outside.group()!r}. Nothing was written.")
    size = len(page.encode())
    if size > BYTES_MAX:
        raise ReportError(f"The report has {size:,} bytes, more than {BYTES_MAX:,}. Nothing was written.")
