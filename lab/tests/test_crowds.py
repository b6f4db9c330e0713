"""What more threads and clients cost where the proxies' CPU quotas are full, in sentences, figure and tables; means at equal blocks."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from weir_lab.design import Engine, RequestPath, Settings
from weir_lab.report.common import Series
from weir_lab.report.numbers.comparing import at_equal_blocks, cell_key, throughput_of
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Usage
from weir_lab.report.page.arranging import WHY, arrange
from weir_lab.report.page.blocks import Figure, Section, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis
from weir_lab.report.sections.comparisons import over_servers
from weir_lab.report.sections.comparisons.over_servers import (
    cost_points,
    crowd_points,
    crowd_table,
    spent_blocks,
    spent_points,
)
from weir_lab.theory.linear import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTA = 0.36
TASK = cast(
    "Any",
    SimpleNamespace(
        spec=SimpleNamespace(name="maximum", redraws={}),
        margins=SimpleNamespace(maximum=5.0),
        fewer=(),
        sweeps=(),
        beside=(),
    ),
)
SWEEP = cast("Any", SimpleNamespace(links_built=False))
AXIS = Axis("Clients (connections)")
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
    return Series("reads", f"{readers} readers", LOOKS[0], tuple(cells), SWEEP)


def used(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(over_servers, "quota_shares", lambda _run: {"proxy": share})
    stations = [Usage("proxy CPU quotas", share, "0.36 CPUs"), Usage("readers", 0.99, "each is held", holds=True)]
    monkeypatch.setattr(over_servers, "usages", lambda _cell, _links: stations)


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
        "72 to 648 clients with 16 readers per server",
        "216 to 648 clients with 16 readers per server",
        "16 to 64 readers per server at 216 clients",
        "72 to 648 clients with 64 readers per server",
    ]
    # A page opens with what is lost, and has all sentences behind that.
    (said,) = cost_points(TASK, lines)
    lost = crew.partition("throughput ")[2].partition(" %")[0]
    assert said.lead.startswith(
        f"Throughput of reads changes by {lost} % from 16 to 64 readers per server at 216 clients and by −"
    )
    assert said.rest.startswith(f"{crew} {clients} {why} ")
    for row in found.rows:
        change, cost = (cast("Value", row[place]).value for place in (4, 7))
        assert (1.0 + change / 100.0) * (1.0 + cost / 100.0) == pytest.approx(1.0)


def test_nothing_is_said_where_quotas_have_room_or_throughput_does_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch, 0.6)
    lines = [line(16, FEW), line(64, MANY)]
    assert crowd_points(TASK, lines) == []
    assert cost_points(TASK, lines) == []
    assert crowd_table(TASK, lines) is None
    used(monkeypatch, 1.0)
    assert crowd_points(TASK, [line(16, {72: 9_000.0, 216: 9_010.0}), line(64, {72: 9_000.0, 216: 9_020.0})]) == []
    # One that differs in more than its crew is no step of it, and a level with one run is not judged.
    other = line(64, {72: 14_000.0, 216: 13_000.0, 648: 7_000.0}, servers=3)
    assert [one.partition(":")[0] for one in crowd_points(TASK, [lines[0], other])][:1] == [
        "Reads, from 72 to 648 clients with 64 readers per server"
    ]


def test_what_a_request_costs_is_drawn_where_the_proxies_quotas_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """“What a request costs more in the proxy is what is lost” stood on two pages, and no figure had what it costs."""
    used(monkeypatch, 0.96)
    lines = [line(16, FEW), line(64, MANY)]
    made, table = spent_blocks(TASK, lines, lines, lambda _: AXIS)
    assert isinstance(made, Figure)
    assert isinstance(table, Table)
    (panel,) = made.panels
    assert [(one.name, len(one.marks)) for one in panel.lines] == [("16 readers", 3), ("64 readers", 3)]
    assert "n = 4 runs per point. Bars at points are the 95 % interval of each mean alone" in made.method
    cells = [(one, cell) for one in lines for cell in one.cells]
    marks = [mark for one in panel.lines for mark in one.marks]
    assert len(table.rows) == len(cells) == len(marks)
    for row, mark, (one, cell) in zip(table.rows, marks, cells, strict=True):
        rates = cell.throughputs
        cost, allowed, measured, share, runs = (cast("Value", entry) for entry in row[3:])
        assert (row[1], mark.x) == (one.name, cell.settings.clients)
        # The stand-ins spend the same CPU time in each second, so that a request costs that over their rate.
        assert cost.value == pytest.approx(sum(1e6 * QUOTA / rate for rate in rates) / len(rates))
        assert (mark.y, mark.low, mark.high) == pytest.approx((cost.value, cost.low, cost.high))
        assert measured.value == pytest.approx(sum(rates) / len(rates))
        assert allowed.value == pytest.approx(measured.value / 0.96)
        assert 1e-6 * cost.value * allowed.value == pytest.approx(QUOTA / 0.96, rel=1e-4)
        assert (share.text, runs.text) == ("96", "4")
    assert "Their CPU quotas are 0.38 CPUs in all." in made.method


def test_the_sentence_of_what_a_request_costs_has_the_numbers_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch, 1.0)
    lines = [line(16, {18: 4_000.0, **FEW}), line(32, {18: 4_000.0, 216: 16_000.0}), line(64, {18: 3_900.0, **MANY})]
    (said,) = spent_points(TASK, lines)
    assert said.startswith("Reads: at the ")
    assert (
        "(16 readers, 216 clients) a request takes 20.6 µs of CPU time in the proxies, and 100 % of their CPU" in said
    )
    assert "From 18 to 648 clients with 16 readers per server that time changes by −73.3 %, 95 % interval" in said
    assert ", from 89.9 to 24.0 µs." in said
    blocks = [*spent_blocks(TASK, lines, lines, lambda _: AXIS), crowd_table(TASK, lines)]
    entries = [entry for one in blocks if isinstance(one, Table) for row in one.rows for entry in row]
    values = [end for entry in entries if isinstance(entry, Value) for end in (entry.value, entry.low, entry.high)]
    texts = " ".join(entry for entry in entries if isinstance(entry, str))
    written = [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", texts)] + [
        one for one in values if one is not None
    ]
    for number in re.findall(r"−?\d[\d,]*\.?\d*", said.replace("95 % interval", "")):
        wanted = float(number.replace(",", "").replace("−", "-"))
        half = 0.5001 * 10.0 ** -len(number.partition(".")[2])
        assert any(abs(one - wanted) <= half for one in written), number
    # From the best crew to the largest is said already, where throughput falls between them.
    assert "readers per server at 216 clients" not in said
    assert crowd_points(TASK, lines)[0].startswith("Reads, from 16 to 64 readers per server at 216 clients: ")


def test_fewer_readers_than_the_best_are_where_the_step_to_the_most_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch, 1.0)
    (said,) = spent_points(TASK, [line(1, {72: 2_000.0, 216: 2_100.0}), line(16, FEW), line(64, MANY)])
    assert " From 1 to 64 readers per server at 216 clients that time changes by −83.8 %, 95 % interval" in said
    assert ", from 171.5 to 27.7 µs. From 72 to 648 clients with 16 readers per server that time changes by " in said


def test_where_the_most_readers_have_one_run_the_step_is_taken_at_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 480 clients two numbers of readers had one run each, and the sentence was about the other two."""
    used(monkeypatch, 1.0)
    two = {block: 14_000.0 + block for block in range(2)}
    cells = (cell_of(64, 72, two), cell_of(64, 216, {0: 13_000.0}), cell_of(64, 648, two))
    lines = [line(16, FEW), line(32, MANY), Series("reads", "64 readers", LOOKS[0], cells, SWEEP)]
    (said,) = spent_points(TASK, lines)
    assert "(16 readers, 216 clients)" in said
    # 648 and 72 clients are three times more and three times fewer.
    assert " From 16 to 64 readers per server at 72 clients that time changes by +7" in said
    assert " From 216 to 648 clients with 16 readers per server that time changes by +16." in said
    # Where the most clients are few more than those of the maximum, a step between them tells nothing.
    (said,) = spent_points(TASK, [line(16, {72: 15_000.0, 216: 17_500.0, 288: 17_000.0}), line(64, MANY)])
    assert "From 72 to 288 clients" in said
    assert "From 216 to" not in said


def test_where_something_else_limits_and_with_one_number_of_readers_there_is_no_such_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 and S5 have quotas with room: their links and workers limit."""
    lines = [line(16, FEW), line(64, MANY)]
    used(monkeypatch, 1.0)
    assert spent_blocks(TASK, lines[:1], lines[:1], lambda _: AXIS) == []
    assert spent_points(TASK, lines[:1]) == []
    used(monkeypatch, 0.6)
    assert spent_blocks(TASK, lines, lines, lambda _: AXIS) == []
    assert spent_points(TASK, lines) == []
    used(monkeypatch, 0.95)
    links = [Usage("server uplinks", 0.99, "by payload"), Usage("proxy CPU quotas", 0.95, "0.36 CPUs")]
    monkeypatch.setattr(over_servers, "usages", lambda _cell, _links: links)
    assert spent_blocks(TASK, lines, lines, lambda _: AXIS) == []


def test_the_figure_stands_below_the_paragraph_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was to stand where the page says what limits, and not among further evidence."""
    used(monkeypatch, 1.0)
    lines = [line(16, FEW), line(64, MANY)]
    figure, table = spent_blocks(TASK, lines, lines, lambda _: AXIS)
    answer, why = Text("What the data say:", ("Something.",)), Text(WHY, ("The proxy CPU quotas limit.",))
    section = Section("maximum", "Maximum", "What?", "This.", blocks=(answer, figure, table, why))
    found = arrange(section)
    assert found.answer == (answer,)
    assert found.why == (why, figure, table)
    assert found.evidence == found.more == ()


def test_means_of_unlike_blocks_are_brought_to_equal_ones() -> None:
    """A table had −12 % between two means where the change within blocks was +4.5 %: the third block was half as fast."""
    everywhere = cell_of(16, 72, {0: 1_000.0, 1: 1_000.0, 2: 500.0})
    elsewhere = cell_of(16, 216, {0: 2_000.0, 1: 2_000.0})
    third = cell_of(16, 648, {0: 3_000.0, 1: 3_000.0, 2: 1_500.0})
    found = at_equal_blocks([everywhere, elsewhere, third], throughput_of)
    assert found[cell_key(everywhere)] == pytest.approx(2_500.0 / 3.0)
    assert found[cell_key(elsewhere)] == pytest.approx(5_000.0 / 3.0)
    assert at_equal_blocks([everywhere, third], throughput_of) == {}, "every block has every cell"


def test_the_time_of_sets_stands_beside_throughput_over_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest effect of S4, +168 % from three servers to seven, stood in no answer."""
    few, many = (
        cast("Any", SimpleNamespace(settings=Settings(engine="split", readers=16, servers=count))) for count in (3, 7)
    )

    def change(percent: float, low: float, high: float) -> Change:
        return Change(percent, low, high, 4, 0.95, 0.01, 5.0)

    def said(rate: Change, sets: Change | None) -> list[str]:
        found = over_servers._Found(few, many, rate, change(1.0, 0.0, 2.0), (20.0, 21.0), None, sets)
        monkeypatch.setattr(over_servers, "_found", lambda _: found)
        return over_servers.servers_shown([])

    start = "without copies, from 3 to 7 servers (and so 48 to 112 readers), by "
    lost, flat = change(-3.32, -6.13, -0.43), change(-1.0, -4.0, 2.0)
    longer, alike = change(168.0, 139.0, 200.0), change(2.0, -3.0, 7.0)
    assert said(lost, longer) == [
        f"{start}their intervals alone: throughput −3.32 % (−6.13 to −0.43); SET response time +168 % (+139 to +200)"
    ]
    assert said(flat, longer) == [f"{start}its interval alone: SET response time +168 % (+139 to +200)"]
    assert said(lost, alike) == said(lost, None) == [f"{start}its interval alone: throughput −3.32 % (−6.13 to −0.43)"]
    assert said(flat, alike) == []
