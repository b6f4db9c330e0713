"""What proxies cost, from the cells of two sections: sentences, table and figure have the same values."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from weir_lab.design import Engine, RequestPath
from weir_lab.report.common import Series
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
    """Two runs of each level, as much apart as links leave them."""
    cells = []
    for clients, rate in rates.items():
        settings = SimpleNamespace(
            **{
                "clients": clients, "population": clients, "path": path, "servers": 1, "client_machines": 3, "value_size_bytes": 4096,
                "think_time_s": 0.0, "multiget_keys": 1, "engine": Engine.POOL, "workers": 8, "replicas": 1, "proxies": 1, **others,
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


def blocks(monkeypatch: pytest.MonkeyPatch, own: Series, *earlier: Series, full: str = "") -> list[Any]:
    tasks: list[Any] = [
        SimpleNamespace(
            spec=SimpleNamespace(name=f"part-{one.name}", kind="clients", redraws={}),
            margins=SimpleNamespace(maximum=5.0), sweeps=(one.sweep,), beside=(), line=one,
        )
        for one in (*earlier, own)
    ]  # fmt: skip
    monkeypatch.setattr(price, "_last", lambda task: {"writes": task.line})
    monkeypatch.setattr(price, "_full_on_both", lambda *_: full)
    for one in (*earlier, own):
        monkeypatch.setattr(type(one), "x", lambda _self, cell: float(cell.settings.clients))
    return price.price_blocks(tasks[-1], tasks[:-1])


def test_what_a_proxy_costs_is_said_at_the_fewest_clients_and_at_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    text, table, figure = blocks(
        monkeypatch, series("proxied", RequestPath.PROXY, PROXIED), series("direct", RequestPath.DIRECT, DIRECT)
    )
    assert isinstance(text, Text)
    light, full = text.points
    assert light.startswith("Writes, 6 clients: a request takes 3.75 ")
    assert "directly, 7.50 " in light
    assert "through one proxy (+100.0 %), so that these clients get 1,600 and 800 requests/s." in light
    # 7.50 - 3.75 ms, of which twice 1.75 ms is built in.
    assert light.endswith(
        "Of the 3.75 ms that are added, 3.50 ms are the delays of one more hop, 0.04 ms stages of the proxy itself (all but backend), and "
        "the rest, 0.21 ms, sending over one more link and what else there is."
    )
    assert (
        full
        == "Writes stop at 3,481 requests/s directly and 3,476 through one proxy (−0.2 %), with 8 workers in each proxy."
    )
    assert isinstance(table, Table)
    changes = [row[-1].value for row in table.rows if isinstance(row[-1], Value)]
    assert round(changes[0], 6) == 100.0
    assert isinstance(figure, Figure)
    assert [panel.title for panel in figure.panels] == ["writes: throughput", "writes: response time"]


def test_a_way_that_falls_off_where_a_proxy_does_not_is_named_with_its_reason() -> None:
    """Reads of S3 with 384 clients changed by +5.9 % through a proxy, because direct runs were slow at first."""
    maximum = SimpleNamespace(
        fall_text="at 384 clients the mean is 5.5 % lower", fall_why="the runs there were slow at first"
    )
    way: Any = SimpleNamespace(name="directly", maximum=maximum)
    assert price._falls_text(way) == (
        " Directly at 384 clients the mean is 5.5 % lower; the runs there were slow at first."
    )
    maximum.fall_text = ""
    assert price._falls_text(way) == ""


def test_a_hop_behind_a_full_station_is_said_of_its_workload_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """“Where nothing is full was not measured” stood above a price of writes where nothing was full."""
    direct, proxied = series("direct", RequestPath.DIRECT, DIRECT), series("proxied", RequestPath.PROXY, PROXIED)
    text, *_ = blocks(monkeypatch, proxied, direct, full="server uplinks")
    assert text.points[0].endswith(
        "does not show. For writes no level was measured on both ways at which the server uplinks are not full."
    )


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
