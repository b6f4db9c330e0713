"""What more threads and clients cost where the proxies' CPU quotas are full, and means that are brought to equal blocks."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from weir_lab.design import Engine, RequestPath
from weir_lab.report.common import Series
from weir_lab.report.numbers.comparing import at_equal_blocks, cell_key, throughput_of
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.page.charts import LOOKS
from weir_lab.report.sections.comparisons import over_servers
from weir_lab.report.sections.comparisons.over_servers import crowd_points, crowd_table

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTA = 0.36
TASK = cast(
    "Any", SimpleNamespace(spec=SimpleNamespace(name="maximum"), margins=SimpleNamespace(maximum=5.0), fewer=())
)
FEW, MANY = {72: 15_000.0, 216: 17_500.0, 648: 15_000.0}, {72: 14_000.0, 216: 13_000.0, 648: 7_000.0}


def cell_of(readers: int, clients: int, rates: Mapping[int, float], servers: int = 5) -> CellReadings:
    """A run for each block; the proxy spends all of its quota."""
    settings = SimpleNamespace(
        clients=clients, population=clients, readers=readers, workers=None, engine=Engine.SPLIT, path=RequestPath.PROXY
    )
    runs = tuple(
        SimpleNamespace(
            run=SimpleNamespace(
                meta=SimpleNamespace(repetition=block, started_unix_ns=block), folder=Path("sweep") / "runs" / "one"
            ),
            throughput=rate, slowness_ns=lambda: None, cpu_s=lambda _role, rate=rate: QUOTA / rate,
        )
        for block, rate in rates.items()
    )  # fmt: skip
    levels = (("readers", readers), ("clients", clients), ("servers", servers))
    cell = cast("Any", SimpleNamespace(name=f"C{clients}-T{readers}-S{servers}", settings=settings, levels=levels))
    return CellReadings(cell, cast("Any", runs))


def line(readers: int, rates: Mapping[int, float], servers: int = 5) -> Series:
    cells = [
        cell_of(
            readers,
            clients,
            {block: rate * (1.0 + 0.002 * math.sin(7.0 * clients + block)) for block in range(4)},
            servers,
        )
        for clients, rate in rates.items()
    ]
    return Series("reads", f"{readers} readers", LOOKS[0], tuple(cells), cast("Any", None))


def used(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(over_servers, "quota_shares", lambda _run: {"proxy": share})


def test_what_more_threads_and_clients_cost_is_said_where_quotas_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page showed that 64 readers with 504 clients get half of what 16 with 216 do, and no sentence said why."""
    used(monkeypatch, 1.0)
    lines = [line(16, FEW), line(64, MANY)]
    crew, clients, why = crowd_points(TASK, lines)
    assert crew.startswith("Reads, from 16 to 64 readers per server at 216 clients: throughput −25.")
    assert ", from 20.6 to 27.7 µs" in crew
    assert clients.startswith("Reads, from 72 to 648 clients with 64 readers per server: throughput −")
    assert "divided by that of a request" in why
    found = crowd_table(TASK, lines)
    assert isinstance(found, Table)
    assert [row[1] for row in found.rows] == [
        "16 to 64 readers per server at 216 clients",
        "72 to 648 clients with 64 readers per server",
    ]
    change, cost = (cast("Value", found.rows[0][place]).value for place in (4, 7))
    assert (1.0 + change / 100.0) * (1.0 + cost / 100.0) == pytest.approx(1.0)


def test_nothing_is_said_where_quotas_have_room_or_throughput_does_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch, 0.6)
    lines = [line(16, FEW), line(64, MANY)]
    assert crowd_points(TASK, lines) == []
    assert crowd_table(TASK, lines) is None
    used(monkeypatch, 1.0)
    assert crowd_points(TASK, [line(16, {72: 9_000.0, 216: 9_010.0}), line(64, {72: 9_000.0, 216: 9_020.0})]) == []
    # One that differs in more than its crew is no step of it, and a level with one run is not judged.
    other = line(64, {72: 14_000.0, 216: 13_000.0, 648: 7_000.0}, servers=3)
    assert [one.partition(":")[0] for one in crowd_points(TASK, [lines[0], other])][:1] == [
        "Reads, from 72 to 648 clients with 64 readers per server"
    ]


def test_means_of_unlike_blocks_are_brought_to_equal_ones() -> None:
    """A table had −12 % between two means where the change within blocks was +4.5 %: the third block was half as fast."""
    everywhere = cell_of(16, 72, {0: 1_000.0, 1: 1_000.0, 2: 500.0})
    elsewhere = cell_of(16, 216, {0: 2_000.0, 1: 2_000.0})
    third = cell_of(16, 648, {0: 3_000.0, 1: 3_000.0, 2: 1_500.0})
    found = at_equal_blocks([everywhere, elsewhere, third], throughput_of)
    assert found[cell_key(everywhere)] == pytest.approx(2_500.0 / 3.0)
    assert found[cell_key(elsewhere)] == pytest.approx(5_000.0 / 3.0)
    assert at_equal_blocks([everywhere, third], throughput_of) == {}, "every block has every cell"
