"""What proxies cost, from the cells of two sections: sentences, table and figure have the same values."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from weir_lab.design import Engine, RequestPath
from weir_lab.report.common import Series, by_workload
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Limit
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS
from weir_lab.report.sections.comparisons import overhead, price

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


# A request and its reply are each 1.75 ms on their way into a proxy.
TESTBED = SimpleNamespace(machines=[SimpleNamespace(name="proxy-0", delay_ms=1.75)], awake_took_time=False)


def series(name: str, path: RequestPath, rates: Mapping[int, float], **others: Any) -> Series:
    """Three runs of each level, which differ as little as links leave them."""
    cells = []
    for clients, rate in rates.items():
        settings = SimpleNamespace(
            **{
                "clients": clients, "population": clients, "path": path, "servers": 1, "client_machines": 3, "value_size_bytes": 4096,
                "think_time_s": 0.0, "multiget_keys": 1, "engine": Engine.POOL, "workers": 8, "readers": None,
                "replicas": 1, "proxies": 1, **others,
            }
        )  # fmt: skip
        cell = cast("Any", SimpleNamespace(name=f"{name}-{clients}", settings=settings, levels=(("clients", clients),)))
        cell.clients = clients
        runs = tuple(a_run(name, clients, rate * (1.0 + 0.0002 * block), block) for block in range(3))
        found = CellReadings(cell, runs)
        cells.append(found)
    sweep: Any = type("Sweep", (), {"speed": 1.0, "folder": Path(name), "run_names": ("a",), "testbed": TESTBED})()
    return Series("writes", name, LOOKS[0], tuple(cells), sweep)


def a_run(name: str, clients: int, throughput: float, block: int) -> Any:
    meta = SimpleNamespace(repetition=block, started_unix_ns=block)
    run = SimpleNamespace(meta=meta, folder=Path(name) / "runs" / "one")
    return SimpleNamespace(
        run=run, throughput=throughput, response_s=clients / throughput, slowness_ns=lambda: None,
        stages_s=lambda: {"read": 0.00001, "backend": 0.003, "reply": 0.00003},
    )  # fmt: skip


DIRECT = {6: 1600.0, 48: 3480.0, 96: 3481.0}
PROXIED = {6: 800.0, 48: 3470.0, 96: 3480.0}


# With 8 workers one proxy has too few.
FEW = {6: 811.0, 24: 2116.0, 48: 2118.0}
ENOUGH = {6: 811.0, 24: 3477.0, 48: 3476.0}
TWO = {6: 824.0, 24: 3466.0, 48: 3467.0}


def blocks(
    monkeypatch: pytest.MonkeyPatch,
    own: Series | tuple[Series, ...],
    *earlier: Series | tuple[Series, ...],
    full: str = "",
) -> list[Any]:
    """Of a section, given by its series, after earlier ones."""
    sections = [(one,) if isinstance(one, Series) else one for one in (*earlier, own)]
    tasks: list[Any] = [
        SimpleNamespace(
            spec=SimpleNamespace(name=f"part-{lines[0].name}", kind="clients", redraws={}),
            margins=SimpleNamespace(maximum=5.0), sweeps=tuple(one.sweep for one in lines), beside=(), lines=lines,
        )
        for lines in sections
    ]  # fmt: skip
    monkeypatch.setattr(price, "_lines", lambda task: by_workload(task.lines))
    monkeypatch.setattr(price, "_full_on_both", lambda *_: full)
    monkeypatch.setattr(Series, "x", lambda _self, cell: float(cell.settings.clients))
    return price.price_blocks(tasks[-1], tasks[:-1])


def through(proxies: int, few: Mapping[int, float], enough: Mapping[int, float]) -> tuple[Series, ...]:
    """A section with 8 and with 16 workers in each proxy."""
    return tuple(
        series(f"{proxies}-proxies-{workers}", RequestPath.PROXY, rates, workers=workers, proxies=proxies)
        for workers, rates in ((8, few), (16, enough))
    )


def texts_of(table: Table) -> list[str]:
    """Every entry as a page has it, without intervals."""
    return [
        entry.text.partition(" ")[0] if isinstance(entry, Value) else str(entry) for row in table.rows for entry in row
    ]


def test_what_a_proxy_costs_is_said_at_the_fewest_clients_and_at_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    text, maxima, table, parts, figure = blocks(
        monkeypatch, series("proxied", RequestPath.PROXY, PROXIED), series("direct", RequestPath.DIRECT, DIRECT)
    )
    assert isinstance(text, Text)
    assert text.text == "What the proxies cost:"
    assert text.leads[0].startswith("Writes, 6 clients: a request takes 3.75 ")
    assert "directly, 7.50 " in text.leads[0]
    # A reader took what the testbed delays for what a proxy costs.
    assert text.leads[0].endswith(
        "through one proxy (+100.0 %); of the 3.75 ms more, 3.50 ms are the delays of one more hop, which were built, and 0.04 ms stages "
        "of the proxy itself."
    )
    light, full = (point.removeprefix(lead).strip() for point, lead in zip(text.points, text.leads, strict=True))
    # 7.50 - 3.75 ms, of which twice 1.75 ms is built in.
    assert light == (
        "So these clients get 1,600 and 800 requests/s. Stages are all but backend. The rest, 0.21 ms, was not measured by itself: sending "
        "over one more link is in it."
    )
    assert texts_of(parts) == ["writes", "6", "3.75", "3.50", "0.04", "0.21"]
    assert text.leads[1] == "At the maximum through one proxy, against direct access: writes with 8 workers within 5 %."
    assert full == "Writes stop at 3,481 requests/s directly, through one proxy with 8 workers at 3,476 (−0.2 %)."
    assert texts_of(maxima) == ["writes", "8", "3,481", "3,476", "−0.2", "shown"]
    assert isinstance(table, Table)
    changes = [row[-1].value for row in table.rows if isinstance(row[-1], Value)]
    assert round(changes[0], 6) == 100.0
    assert isinstance(figure, Figure)
    assert [panel.title for panel in figure.panels] == ["writes: throughput", "writes: response time"]


def test_the_price_at_the_maximum_is_that_of_each_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list had the series with the most workers alone, which lost nothing."""
    text, *_ = blocks(monkeypatch, through(1, FEW, ENOUGH), series("direct", RequestPath.DIRECT, DIRECT))
    assert text.points[-1] == (
        "At the maximum through one proxy, against direct access: writes with 8 workers −39.2 %; the others within 5 %. "
        "Writes stop at 3,481 requests/s directly; through one proxy at 2,117 with 8 workers (−39.2 %) and within 5 % of direct access "
        "with 16 workers."
    )
    assert text.points[-1].startswith(f"{text.leads[-1]} Writes stop")


def test_a_second_proxy_that_brings_back_what_the_first_costs_is_named_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """“Does a second proxy bring back what the first costs?” had no answer: with 8 workers it lifted writes by 63.7 %."""
    direct = series("direct", RequestPath.DIRECT, DIRECT)
    text, maxima, levels, _ = blocks(monkeypatch, through(2, TWO, TWO), direct, through(1, FEW, ENOUGH))
    assert text.text == "What a second proxy changes:"
    answer, light = text.points
    assert answer == (
        "At the maximum a second proxy brings back what the first costs: writes with 8 workers each go from 2,117 to 3,467 requests/s "
        "(+63.7 %; directly 3,481). Through one proxy with as many workers in all (16) they stop at 3,477. The other maxima change by less "
        "than 5 %."
    )
    assert {"8", "2,117", "3,467", "+63.7", "3,481", "16", "3,477"} <= set(texts_of(maxima))
    # With few clients nothing waits for a worker: what the hop takes stays.
    assert light.startswith(
        "Writes, 6 clients: a second proxy does not bring back what the first costs in response time. A request takes 3.75 "
    )
    assert light.endswith("through 2 proxies (+94.2 %).")
    assert [one.rpartition(" ")[2] for one in text.leads] == ["3,481).", "time."]
    assert {"+97.3", "+94.2"} <= set(texts_of(levels))
    assert all(len(one.split()) <= 50 for one in text.points)


def test_a_second_proxy_that_brings_nothing_or_a_part_back_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = series("direct", RequestPath.DIRECT, DIRECT)
    start = "writes with 8 workers each go from 2,117 to"
    for few, said in (
        (
            {6: 824.0, 24: 2120.0, 48: 2122.0},
            f"does not bring back what the first costs: {start} 2,121 requests/s (+0.2 %; directly 3,481). The other maxima change by less "
            "than 5 %.",
        ),
        (
            {6: 824.0, 24: 2800.0, 48: 2802.0},
            f"brings back a part of what the first costs: {start} 2,802 requests/s (+32.3 %; directly 3,481). Through one proxy with as "
            "many workers in all (16) they stop at 3,477. The other maxima change by less than 5 %.",
        ),
    ):
        text, *_ = blocks(monkeypatch, through(2, few, TWO), direct, through(1, FEW, ENOUGH))
        assert text.points[0] == f"At the maximum a second proxy {said}"
    text, *_ = blocks(monkeypatch, through(2, TWO, TWO), direct, through(1, ENOUGH, ENOUGH))
    assert text.points[0] == (
        "At the maximum the first costs less than 5 %, so that a second proxy has nothing to bring back. All maxima change by less than "
        "5 %."
    )


def test_without_direct_access_nothing_is_said_to_be_brought_back(monkeypatch: pytest.MonkeyPatch) -> None:
    text, maxima, *_ = blocks(monkeypatch, through(2, TWO, TWO), through(1, FEW, ENOUGH))
    # With few clients a second proxy changes less than the margin.
    assert text.points == (
        "At the maximum a second proxy changes this: writes with 8 workers each go from 2,117 to 3,467 requests/s (+63.7 %). Through one "
        "proxy with as many workers in all (16) they stop at 3,477. The other maxima change by less than 5 %.",
    )
    assert not any("directly" in column for column in maxima.columns)
    text, *_ = blocks(monkeypatch, through(4, TWO, TWO), through(2, FEW, ENOUGH))
    assert text.text == "What going from 2 proxies to 4 changes:"


def test_what_an_earlier_section_has_said_is_not_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """“Two proxies” repeated each bullet of “One proxy”."""
    direct, one, two = series("direct", RequestPath.DIRECT, DIRECT), through(1, FEW, ENOUGH), through(2, TWO, TWO)
    took = SimpleNamespace(machines=TESTBED.machines, awake_took_time=True)
    monkeypatch.setattr(direct.sweep, "testbed", took)
    first, *_ = blocks(monkeypatch, one, direct)
    again, *_ = blocks(monkeypatch, two, direct, one)
    assert any("awake" in point for point in first.points)
    assert not set(first.points) & set(again.points)
    assert not any("awake" in point for point in again.points)


def test_a_way_that_falls_off_where_a_proxy_does_not_is_named_with_its_reason() -> None:
    """Reads of S3 with 384 clients changed by +5.9 % through a proxy, because direct runs were slow at first."""
    maximum = SimpleNamespace(
        fall_text="at 384 clients the mean is 5.5 % lower", fall_why="the runs there were slow at first"
    )
    way: Any = SimpleNamespace(name="directly", maximum=maximum)
    assert price._falls_text("reads", way) == (
        "Reads directly: at 384 clients the mean is 5.5 % lower; the runs there were slow at first."
    )
    maximum.fall_text = ""
    assert price._falls_text("reads", way) == ""


def test_a_hop_behind_a_full_station_is_said_of_its_workload_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """“Where nothing is full was not measured” stood above a price of writes where nothing was full."""
    direct, proxied = series("direct", RequestPath.DIRECT, DIRECT), series("proxied", RequestPath.PROXY, PROXIED)
    text, *_ = blocks(monkeypatch, proxied, direct, full="server uplinks")
    stops, hidden = text.points
    assert text.leads[1] == "Writes, 6 clients: the server uplinks are full on both ways and hide what the hop adds."
    assert hidden.startswith(f"{text.leads[1]} A request takes 3.75 ")
    assert hidden.endswith(" Behind a hop a request waits less for what is full, even with these fewest clients.")
    assert " Writes stop at " in stops


def test_sections_whose_loops_took_cpu_time_from_one_alone_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of S3 two proxies stood beside one and direct access, whose machines lost time to the loop that keeps cores awake."""
    direct, proxied = series("direct", RequestPath.DIRECT, DIRECT), series("proxied", RequestPath.PROXY, PROXIED)
    monkeypatch.setattr(direct.sweep, "testbed", SimpleNamespace(machines=[], awake_took_time=True))
    text, *_ = blocks(monkeypatch, proxied, direct)
    assert text.points[-1] == (
        "In the runs of direct alone the loop that keeps cores awake took CPU time from the machines: where no link is full, a part of "
        "what they differ by from the others is that."
    )
    monkeypatch.setattr(proxied.sweep, "testbed", SimpleNamespace(machines=[], awake_took_time=True))
    text, *_ = blocks(monkeypatch, proxied, direct)
    assert not any("awake" in point for point in text.points)


def test_sections_that_differ_in_more_than_proxies_are_not_held_against_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = series("proxied", RequestPath.PROXY, PROXIED)
    for other in (
        series("two-servers", RequestPath.DIRECT, DIRECT, servers=2),
        series("one-machine", RequestPath.DIRECT, DIRECT, client_machines=1),
        series("more-workers", RequestPath.PROXY, DIRECT, workers=16, proxies=1),
        series("as-many", RequestPath.PROXY, DIRECT),
    ):
        assert blocks(monkeypatch, own, other) == []


def test_a_quota_that_limits_one_way_is_said_to_decide_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2's summary had “−79.9 %: nothing else differs”, of a proxy whose CPU quota was chosen, and was full."""
    pair = cast("Any", SimpleNamespace(text="192 clients: nothing else differs."))
    line = SimpleNamespace(pair=pair, name="throughput", percent=SimpleNamespace(text="−79.9"))
    monkeypatch.setattr(overhead, "_lines", lambda _task: [line])
    task: Any = SimpleNamespace(spec=SimpleNamespace(title="The price"))
    for limits, said in (
        (("server uplinks", "proxy CPU quotas"), " The proxy CPU quotas limit through the proxy, and were chosen:"),
        (
            ("memcached CPU quotas", "proxy CPU quotas"),
            " The memcached CPU quotas limit directly, the proxy CPU quotas limit through the proxy, and were both chosen:",
        ),
    ):
        monkeypatch.setattr(overhead, "_limits", lambda *_, limits=limits: tuple(Limit(one, "") for one in limits))
        assert f"nothing else differs.{said} with others the change has another size." in overhead.summary(task)
    full = Limit("memcached CPU quotas", "", alike="server uplinks")
    monkeypatch.setattr(overhead, "_limits", lambda *_: (full, Limit("", "")))
    assert " The memcached CPU quotas and the server uplinks limit directly, and were chosen:" in overhead.summary(task)
    monkeypatch.setattr(overhead, "_limits", lambda *_: (Limit("server uplinks", ""), Limit("proxy threads", "")))
    assert overhead.summary(task).endswith("nothing else differs.")
