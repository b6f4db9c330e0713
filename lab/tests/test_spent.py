"""CPU time of a request by who spent it, for subjects side by side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weir_lab.design import RequestPath, Role
from weir_lab.report.common import Series
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.page.blocks import Value
from weir_lab.report.page.charts import LOOKS
from weir_lab.report.sections.comparisons.beside import _spent_points, _spent_table


def line(name: str, throughput: float, proxy: float | None, others_s: float = 0.0) -> Series:
    """256 clients on two cores that are used 1.8 s of each: 0.3 s by the clients, 0.5 s by servers, 0.4 s by the delay device."""
    cores = {Role.CLIENT: 0.3, Role.SERVERS: 0.5, Role.NETWORK: 0.4, **({Role.PROXY: proxy} if proxy else {})}
    run = SimpleNamespace(
        machine_cpu_s=(1.8 - others_s) / throughput,
        throughput=throughput,
        cpu_s=lambda role: cores[role] / throughput if role in cores else None,
    )
    path = RequestPath.PROXY if proxy else RequestPath.DIRECT
    cell = cast("Any", SimpleNamespace(name=name, settings=SimpleNamespace(clients=256, path=path)))
    return Series("10 % writes", name, LOOKS[0], (CellReadings(cell, cast("Any", (run,))),), cast("Any", None))


def test_what_a_request_costs_this_machine_is_said_by_role() -> None:
    """Weir answered 45 % more than another proxy on full processors, and no sentence said what a request cost."""
    lines = [line("direct", 60_000.0, None), line("Weir", 50_000.0, 0.35), line("twemproxy", 40_000.0, 0.5, 0.1)]
    (said,) = _spent_points(lines)
    assert said.startswith(
        "10 % writes, at 256 clients a request costs this machine, in CPU time, 30.0 µs directly, 36.0 µs through Weir (7.0 of them "
        "in the proxy) and 42.5 µs through twemproxy (12.5 of them in the proxy)."
    )
    found = _spent_table(cast("Any", SimpleNamespace(spec=SimpleNamespace(name="beside"))), lines)
    assert found is not None
    assert found.columns[3:] == (
        *("In all", "Clients (µs)", "Proxy (µs)", "Servers (µs)", "Delay device (µs)", "Rest"),
    )
    for row, whole in zip(found.rows, (30.0, 36.0, 42.5), strict=True):
        numbers = [one.value for one in row[3:] if isinstance(one, Value)]
        assert numbers[0] == pytest.approx(whole)
        assert sum(numbers[1:]) == pytest.approx(whole), "parts add up"
    assert found.rows[0][5] == "–", "no proxy there"
    assert _spent_points(lines[:1]) == [], "nothing to compare with"
