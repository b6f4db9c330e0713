"""What a page shows at first of what was said before the data, and what opens on demand."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from test_expectations import made, report
from weir_lab.report.page.html import html_page

if TYPE_CHECKING:
    from weir_lab.report.page.blocks import Report

__all__ = ["made", "report"]  # fixtures


def test_what_holds_opens_on_demand_and_all_else_is_open(report: Report) -> None:
    """A page of eight sections read out 30 sentences that hold, each with its interval, before it said why."""
    page = html_page(report)
    for part in report.sections:
        asked = [*part.expectations, *part.findings]
        if not asked:
            continue
        _, _, rest = page.partition(f'<div id="{part.name}-verdicts">')
        open_, mark, held = rest.partition("</div>\n</div>\n")[0].partition('<details class="held">')
        own = {one.evidence for one in part.expectations}
        rows = [one for one in asked if one in part.expectations or one.evidence not in own]
        for one in rows:
            row = f"<tr><td>{escape(one.claim)}"
            assert row in (held if one.verdict == "holds" else open_), one.claim
            assert row not in (open_ if one.verdict == "holds" else held), one.claim
        count = sum(one.verdict == "holds" for one in rows)
        assert (mark != "") == (count > 0)
        assert held.startswith(f"<summary>Holds on our data: {count} expected or concluded before<") or not count
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names)), "no link leads to two places"
