"""What is said of splitting multi-gets follows from the same changes as its table."""

from __future__ import annotations

import pytest

from weir_lab.report.sections.multigets import _pays_text
from weir_lab.theory.linear import Change


def _change(low: float, high: float) -> Change:
    return Change(percent=(low + high) / 2, low=low, high=high, n=2, level=0.95, p=0.5, detectable_percent=10.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({1: (-1, 1), 3: (-20, -10), 6: (-40, -30)}, "splitting a multi-get over the servers pays from 3 keys on"),
        ({1: (-1, 1), 3: (-20, 10), 6: (5, 9)}, "splitting costs time at the largest size, 6 keys"),
        (
            {1: (-9, -1), 3: (-20, 10), 6: (-5, 9)},
            "no difference in the mean response time is shown at any size up to 6 keys",
        ),
        (
            # The page said "no gain at any size" above a table that showed one at three keys.
            {1: (-1, 1), 3: (-20, -10), 6: (-80, 114), 9: (-90, 500)},
            "the mean response time is shown to be shorter with splitting at 3 keys; at 6 and 9 keys that is not shown",
        ),
    ],
)
def test_no_sentence_denies_what_its_table_shows(changes: dict[int, tuple[float, float]], said: str) -> None:
    assert _pays_text([(keys, _change(*interval)) for keys, interval in changes.items()]) == said
