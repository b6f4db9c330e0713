"""What is said of multi-gets, how they grow and what splitting changes, follows from the same numbers as its tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weir_lab.report.numbers.readings import CellReadings, Reading
from weir_lab.report.page.blocks import Value
from weir_lab.report.sections import multigets
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


# Keys, mean response time in ms with its interval, keys per second, as S3's gets have them.
SPLIT = (
    (1, 7.64, 7.54, 7.74, 780),
    (3, 11.5, 11.3, 11.6, 1683),
    (6, 23.5, 23.1, 24.0, 1720),
    (9, 39.4, 35.8, 43.5, 1729),
)
WHOLE = (
    (1, 7.60, 7.41, 7.78, 786),
    (3, 13.8, 13.6, 14.1, 1316),
    (6, 35.0, 34.2, 35.9, 1363),
    (9, 56.4, 55.4, 57.4, 1410),
)


def _grown(monkeypatch: pytest.MonkeyPatch, **modes: tuple[tuple[int, float, float, float, int], ...]) -> list[str]:
    """What is said of cells with these levels."""
    cells: Any = {
        mode: [
            SimpleNamespace(settings=SimpleNamespace(multiget_keys=keys), time=Value(time, low, high), rate=Value(rate))
            for keys, time, low, high, rate in sizes
        ]
        for mode, sizes in modes.items()
    }
    monkeypatch.setattr(
        multigets,
        "level_value",
        lambda cell, value, *_, **__: cell.time if value is multigets.reading_s else cell.rate,
    )
    return multigets._growth_points(cells, 5.0)


def test_how_gets_grow_with_their_keys_is_said_of_both_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The section asks how split gets grow, and its text had only what splitting changes."""
    points = _grown(monkeypatch, sharded=SPLIT, whole=WHOLE)
    assert points == [
        "From 1 to 9 keys the mean response time of gets grows from 7.64 to 39.4 ms when split (5.16 times) and from 7.60 to 56.4 ms when "
        "whole (7.42 times).",
        "This time grows faster from 3 keys on: from there to 6 keys each further key adds 4.00 ms when split (1.93 before) and 7.07 ms "
        "when whole (3.10 before).",
        "Keys per second go from 780 to 1,729 when split, with 3 keys already 1,683; from 786 to 1,410 when whole, with 6 keys already "
        "1,363. Larger gets change this by less than 5 %.",
    ]
    assert all(len(one.split()) <= 50 for one in points)


def test_gets_are_not_said_to_grow_faster_where_intervals_do_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = ((1, 7.0, 6.5, 7.5, 100), (3, 9.0, 8.5, 9.5, 300), (9, 16.0, 15.0, 17.0, 900))
    assert _grown(monkeypatch, sharded=steady) == [
        "From 1 to 9 keys the mean response time of gets grows from 7.00 to 16.0 ms when split (2.29 times).",
        "Keys per second go from 100 to 900 when split.",
    ]
    # Cells with the same keys differ in something else.
    assert _grown(monkeypatch, sharded=(*steady, steady[-1])) == []
