"""The cells of a 2^k design one by one: where a factor matters, and what goes with it, from the same values as the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from weir_lab.report.common import level_words
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.sweeps import TwoLevelFactor
from weir_lab.report.page.blocks import Table, Text
from weir_lab.report.sections.comparisons import corners
from weir_lab.report.sections.comparisons.corners import corner_blocks, pair_changes_text

LEVELS = {"servers": (1, 3), "workers": (8, 32)}
RATES = {(1, 8): 500.0, (1, 32): 501.0, (3, 8): 900.0, (3, 32): 1500.0}


def cell_at(servers: int, workers: int, runs: int) -> CellReadings:
    settings = SimpleNamespace(servers=servers, workers=workers, replicas=servers)
    levels = (("servers", servers), ("workers", workers))
    cell = cast("Any", SimpleNamespace(name=f"S{servers}-W{workers}", settings=settings, levels=levels))
    return CellReadings(cell, tuple(a_run(RATES[servers, workers], block) for block in range(runs)))


def a_run(throughput: float, block: int) -> Any:
    meta = SimpleNamespace(repetition=block, started_unix_ns=block)
    run = SimpleNamespace(meta=meta, folder=Path("sweep") / "runs" / "one")
    return SimpleNamespace(run=run, throughput=throughput, response_s=1.0 / throughput, slowness_ns=lambda: None)


def found(monkeypatch: pytest.MonkeyPatch, limits: dict[tuple[int, int], str]) -> tuple[Text, Table]:
    cells = [cell_at(*levels, runs=2 + (levels == (3, 8))) for levels in RATES]
    sweep = SimpleNamespace(cells=cells, study=SimpleNamespace(apart=[]), links_built=False)
    task: Any = SimpleNamespace(first=sweep, margins=SimpleNamespace(maximum=5.0), spec=SimpleNamespace(name="effects"))
    factors = tuple(TwoLevelFactor("A", name, low, high, ()) for name, (low, high) in LEVELS.items())
    design: Any = SimpleNamespace(
        factors=factors, choice=SimpleNamespace(additive=SimpleNamespace(repetitions=2)), whole=True
    )

    def station(_task: object, cell: CellReadings) -> tuple[str, float]:
        return limits[cell.settings.servers, int(cell.settings.workers or 0)], 99.0

    monkeypatch.setattr(corners, "_station", station)
    text, table = corner_blocks(task, "writes", cells, design)
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    return text, table


def test_a_factor_that_matters_in_some_pairs_alone_is_said_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text, table = found(monkeypatch, {(1, 8): "links", (1, 32): "links", (3, 8): "workers", (3, 32): "links"})
    least, servers, workers, tied, rest = text.points
    assert "the least of several limits" in least
    assert "the links limit in 3 and the workers limit in 1" in least
    assert servers == "Servers from 1 to 3 change it by more than 5 % in 2 of 2 pairs."
    assert (
        workers
        == "Workers from 8 to 32 change it by more than 5 % in 1 of 2 pairs: 3 servers (900 to 1,500 requests/s)."
    )
    assert (
        tied == "With servers goes the number of servers of a key, 1 to 3: what servers change is the change of both."
    )
    assert "of the section's 9 runs" in rest
    assert [row[-3] for row in table.rows] == ["links", "links", "workers", "links"]


def test_factors_and_their_levels_are_named_in_words() -> None:
    """“Proxy threads from 1 to 2”, “proxy threads 1, value size bytes 4096” stood on the page of our own system."""
    words = {
        name: TwoLevelFactor("A", name, 1, 2, ()).words for name in ("proxy_threads", "value_size_bytes", "servers")
    }
    assert words == {"proxy_threads": "event loops", "value_size_bytes": "value size", "servers": "servers"}
    assert [level_words("proxy_threads", level) for level in (1, 2)] == ["1 event loop", "2 event loops"]
    assert level_words("value_size_bytes", 4096) == "values of 4,096 bytes"
    task: Any = SimpleNamespace(
        margins=SimpleNamespace(maximum=5.0), first=SimpleNamespace(study=SimpleNamespace(apart=[]))
    )
    said = corners._factor_text(task, TwoLevelFactor("A", "value_size_bytes", 128, 4096, ()), [])
    assert said == "Value size from 128 to 4096 changes it by more than 5 % in 0 of 0 pairs."


def test_one_limit_everywhere_is_no_least_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = found(monkeypatch, dict.fromkeys(RATES, "links"))
    assert text.points[0] == "Writes: in all of 4 cells the links limit."


def test_changes_in_pairs_are_those_of_the_designs_cells() -> None:
    rates = np.array([[one, one] for one in RATES.values()])
    design: Any = SimpleNamespace(
        factors=tuple(SimpleNamespace(name=name) for name in LEVELS),
        choice=SimpleNamespace(additive=SimpleNamespace(observations=rates)),
    )
    assert pair_changes_text(design, "workers", 5.0).endswith(
        "changes by +0.20 to +66.7 %, by more than 5 % in 1 of them"
    )
    assert pair_changes_text(design, "servers", 5.0).endswith(
        "changes by +80.0 to +199 %, by more than 5 % in 2 of them"
    )
