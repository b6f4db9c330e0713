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
from weir_lab.report.sections.comparisons.corners import Corners, corner_blocks, pair_changes_text

LEVELS = {"servers": (1, 3), "workers": (8, 32)}
RATES = {(1, 8): 500.0, (1, 32): 501.0, (3, 8): 900.0, (3, 32): 1500.0}


def cell_at(servers: int, workers: int, runs: int, workload: str) -> CellReadings:
    settings = SimpleNamespace(servers=servers, workers=workers, replicas=servers, workload=workload)
    levels = (("servers", servers), ("workers", workers))
    cell = cast("Any", SimpleNamespace(name=f"S{servers}-W{workers}-{workload}", settings=settings, levels=levels))
    return CellReadings(cell, tuple(a_run(RATES[servers, workers], block) for block in range(runs)))


def a_run(throughput: float, block: int) -> Any:
    meta = SimpleNamespace(repetition=block, started_unix_ns=block)
    run = SimpleNamespace(meta=meta, folder=Path("sweep") / "runs" / "one")
    return SimpleNamespace(run=run, throughput=throughput, response_s=1.0 / throughput, slowness_ns=lambda: None)


def found(monkeypatch: pytest.MonkeyPatch, **limits: dict[tuple[int, int], str]) -> tuple[Text, Table, tuple[str, ...]]:
    """What is said of workloads with these stations at their cells."""
    cells = {
        name: [cell_at(*levels, runs=2 + (levels == (3, 8)), workload=name) for levels in RATES] for name in limits
    }
    every = [cell for own in cells.values() for cell in own]
    sweep = SimpleNamespace(cells=every, study=SimpleNamespace(apart=[]), links_built=False)
    task: Any = SimpleNamespace(first=sweep, margins=SimpleNamespace(maximum=5.0), spec=SimpleNamespace(name="effects"))
    factors = tuple(TwoLevelFactor("A", name, low, high, ()) for name, (low, high) in LEVELS.items())
    design: Any = SimpleNamespace(
        factors=factors, choice=SimpleNamespace(additive=SimpleNamespace(repetitions=2)), whole=True
    )

    def station(_task: object, cell: CellReadings) -> tuple[str, float]:
        settings: Any = cell.settings
        return limits[settings.workload][settings.servers, settings.workers], 99.0

    monkeypatch.setattr(corners, "_station", station)
    text, table, *notes = corner_blocks(task, [Corners(name, own, design) for name, own in cells.items()])
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    (note,) = notes
    assert isinstance(note, Text)
    assert note.note
    return text, table, note.points


SEVERAL = {(1, 8): "links", (1, 32): "links", (3, 8): "workers", (3, 32): "links"}
LEAST = "Throughput is the least of several limits, and effects, which add up, do not show which."
CHANGES = "Throughput changes by more than 5 % with servers in 2 of 2 pairs of cells, with workers in 1 of 2."
PAIRS = "The cells of a pair differ in one factor alone: servers from 1 to 3, workers from 8 to 32."
PAIR = "Workers from 8 to 32: 3 servers (900 to 1,500 requests/s)."
TIED = "With servers goes the number of servers of a key, 1 to 3: what servers change is the change of both."


def test_a_factor_that_matters_in_some_pairs_alone_is_said_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text, table, (least, tied, rest) = found(monkeypatch, writes=SEVERAL)
    (writes,) = text.points
    lead = f"Writes: the links limit in 3 of 4 cells and the workers in 1. {CHANGES}"
    assert writes == f"{lead} {PAIRS} {PAIR}"
    # The pairs themselves open on demand.
    assert text.leads == (lead,)
    assert len(lead.split()) <= 40
    assert (least, tied) == (LEAST, TIED)
    assert "of the section's 9 runs" in rest
    assert [row[-3] for row in table.rows] == ["links", "links", "workers", "links"]


def test_of_all_workloads_there_is_one_list_and_what_they_share_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """“Cell by cell” was a heading twice, with the last two of its points the same."""
    text, table, notes = found(monkeypatch, reads=SEVERAL, writes=SEVERAL)
    assert text.text == "Cell by cell:"
    assert [point.split(":")[0] for point in text.points] == ["Reads", "Writes"]
    assert notes[:2] == (LEAST, TIED)
    assert notes[2].startswith("Tables of effects have 2 runs of each cell")
    assert len(notes) == 3
    assert table.name == "effects-by-cell"
    assert [row[0] for row in table.rows] == ["reads"] * 4 + ["writes"] * 4
    assert table.columns[:3] == ("Requests", "servers", "workers")
    assert not table.opens_on_demand
    # What goes for one of them alone has its name.
    _, _, notes = found(monkeypatch, reads=dict.fromkeys(RATES, "links"), writes=SEVERAL)
    assert f"Writes: t{LEAST[1:]}" in notes


def test_factors_and_their_levels_are_named_in_words() -> None:
    """“Proxy threads from 1 to 2”, “proxy threads 1, value size bytes 4096” stood on the page of our own system."""
    words = {
        name: TwoLevelFactor("A", name, 1, 2, ()).words for name in ("proxy_threads", "value_size_bytes", "servers")
    }
    assert words == {"proxy_threads": "event loops", "value_size_bytes": "value size", "servers": "servers"}
    assert [level_words("proxy_threads", level) for level in (1, 2)] == ["1 event loop", "2 event loops"]
    assert level_words("value_size_bytes", 4096) == "values of 4,096 bytes"
    task: Any = SimpleNamespace(margins=SimpleNamespace(maximum=5.0))
    said = corners._moved(task, TwoLevelFactor("A", "value_size_bytes", 128, 4096, ()), [])
    assert said.change == "value size from 128 to 4096"
    assert (said.pairs, said.moved) == (0, [])


def test_one_limit_everywhere_is_no_least_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _, notes = found(monkeypatch, writes=dict.fromkeys(RATES, "links"))
    assert text.points[0].startswith("Writes: the links limit in all of 4 cells. Throughput changes ")
    assert LEAST not in notes


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
