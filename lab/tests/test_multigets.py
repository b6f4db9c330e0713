"""What is said of splitting multi-gets follows from the same changes as its table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weir_lab.report.numbers.readings import CellReadings, Reading
from weir_lab.report.sections.multigets import _histograms, _pays_text
from weir_lab.theory.histogram import Bounds, Histogram
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


def _times(*values: int) -> Any:
    """What a record has of some times in units of 1,024 ns."""
    counts = np.bincount(values, minlength=max(values) + 1)
    found = Histogram(Bounds(1024, 1 << 40, 2), counts.astype(np.int64))
    return SimpleNamespace(count=len(values), sum_ns=1024 * sum(values), decoded=lambda _where: found)


def test_both_sides_of_the_distribution_are_of_gets_alone() -> None:
    """The proxy's panel had SETs, too, so that the shift between both was said to be the network's and was not."""
    gets, sets = [100] * 400, [10] * 400
    operations = {"multiget": SimpleNamespace(response_time=_times(*[one + 20 for one in gets]), total=_times(*gets))}
    operations["set"] = SimpleNamespace(response_time=_times(*sets), total=_times(*sets))
    earlier = SimpleNamespace(operations={"multiget": SimpleNamespace(total=_times(*[100] * 100))})
    run: Any = SimpleNamespace(
        folder=SimpleNamespace(name="one"), after=SimpleNamespace(operations=operations), before=earlier
    )
    reading = Reading(run, SimpleNamespace(operations=operations))  # type: ignore[arg-type]
    times = reading.proxy_times_of("multiget")
    assert times is not None
    assert times.total == 300
    assert reading.proxy_times_of("get") is None
    cell: Any = SimpleNamespace(settings=SimpleNamespace(multiget_keys=6), runs=(reading,))
    cell.merged = lambda value: CellReadings.merged(cell, value)
    task: Any = SimpleNamespace(spec=SimpleNamespace(name="multigets", redraws={}), sweeps=(), beside=())
    drawn = _histograms(task, {"sharded": [cell]})
    assert drawn is not None
    assert drawn.method.endswith("all runs. Gets alone, on both sides.")
    ends = {
        panel.title.rpartition(", ")[2]: [bar.label for bar in panel.bars if any(share for _, share in bar.parts)]
        for panel in drawn.panels
    }
    assert len(ends["in the proxy"]) == 1
