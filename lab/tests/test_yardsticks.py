"""Sweeps of hours in which the machine was not equally fast, and the event engine beside a study's own: what the page says of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weir_lab.design import Settings
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Limit
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.sets import results
from weir_lab.report.sets.machines import speed_blocks, speeds_text


def a_sweep(name: str, took_us: float | None, rate: float, **settings: Any) -> Any:
    """A sweep of one cell with two runs, during each of which the yardstick took so long."""
    runs = tuple(
        SimpleNamespace(
            throughput=rate,
            slowness_ns=lambda: None if took_us is None else 1e3 * took_us,
            cpu_s=lambda _role: 0.332 / rate,
            run=SimpleNamespace(
                meta=SimpleNamespace(repetition=place, started_unix_ns=place), folder=Path(name) / "runs" / "x"
            ),
        )
        for place in (0, 1)
    )
    of: dict[str, Any] = {
        "engine": "split",
        "readers": 32,
        "servers": 3,
        "clients": 192,
        "client_machines": 3,
    } | settings
    named: Any = SimpleNamespace(name="c", settings=Settings(**of), levels=())
    return SimpleNamespace(folder=Path(name), cells=(CellReadings(named, runs),), speed=0.35)  # type: ignore[arg-type]


def a_part(kind: str, *sweeps: Any) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(name="part", kind=kind), sweeps=sweeps, beside=(), label="S2")


TRACE = a_sweep("s2-trace1", 288.0, 7_915.0, replicas=3, write_ratio=0.01)
PRICE = a_sweep("s2-price", 151.0, 16_160.4, write_ratio=0.01)
DIRECT = a_sweep("s2-base", 153.0, 18_674.0, path="direct", servers=1, clients=64, client_machines=2)


def test_what_is_held_against_each_other_says_how_fast_the_machine_was() -> None:
    """7,915 and 16,160 requests/s of nearly one setting stood on a page without a word: the machine had been half as fast."""
    text, table = speed_blocks(a_part("overhead", DIRECT, TRACE, PRICE), [])
    assert isinstance(text, Text)
    speed, copies, chance = text.points
    assert speed.startswith(
        "The machine was not equally fast in all sweeps: the yardstick, a computation that is always the same, took 288 µs in s2-trace1; "
        "in the others 151 to 153 µs. "
    )
    assert copies == (
        "7,915 requests/s in s2-trace1 (R = 3) and 16,160 requests/s in s2-price (R = 1) differ in the servers of a key alone, with 1 % "
        "writes, and in the hour: the yardstick took 288 and 151 µs, and a request 41.9 and 20.5 µs of CPU time in the proxy."
    )
    assert chance == (
        "That ours in s2-price, 16,160 requests/s as measured, has the digits of the printed value is chance: at the study's speed it is "
        "46,173 requests/s."
    )
    assert isinstance(table, Table)
    shown = {
        (row[0], column): entry.text if isinstance(entry, Value) else entry
        for row in table.rows
        for column, entry in zip(table.columns, row, strict=True)
    }
    assert shown["s2-trace1", "Times the fastest"] == "1.91"
    assert shown["s2-price", "X at the study's speed (requests/s)"] == "46,173"
    assert shown["s2-base", "Proxy CPU (µs per request)"] == "–"
    # Every number of the sentences stands in the table.
    assert [shown[name, "Yardstick (µs)"] for name in ("s2-trace1", "s2-price", "s2-base")] == ["288", "151", "153"]
    assert [shown[name, "Servers of a key"] for name in ("s2-trace1", "s2-price", "s2-base")] == ["3", "1", "–"]


def test_a_trace_is_held_against_earlier_sections_and_machines_that_are_alike_say_nothing() -> None:
    text, _ = speed_blocks(a_part("trace", TRACE), [a_part("clients", DIRECT)])
    assert isinstance(text, Text)
    assert "took 288 µs in s2-trace1; in the other 153 µs." in text.points[0]
    assert len(text.points) == 1
    assert speed_blocks(a_part("trace", TRACE), []) == []
    assert speed_blocks(a_part("overhead", DIRECT, PRICE), [a_part("trace", TRACE)]) == []
    assert speed_blocks(a_part("clients", TRACE, PRICE), []) == []
    assert speed_blocks(a_part("trace", a_sweep("old", None, 1.0)), [a_part("clients", DIRECT)]) == []


def test_the_head_names_the_sweeps_that_were_made_on_a_slower_machine() -> None:
    said = speeds_text([a_part("trace", TRACE), a_part("overhead", DIRECT, TRACE, PRICE)])
    assert "took 288 µs in s2-trace1; in the others 151 to 153 µs: where CPUs or their quotas limit" in said
    assert speeds_text([a_part("overhead", DIRECT, PRICE)]) == speeds_text([]) == ""
    slow = [a_sweep(f"slow-{place}", 280.0 + place, 1.0) for place in range(6)]
    said = speeds_text([a_part("clients", DIRECT, *slow)])
    assert (
        "took 285 µs in slow-5, 284 µs in slow-4, 283 µs in slow-3, 282 µs in slow-2 and 280 to 281 µs in 2 more; "
        in said
    )


def test_the_event_engine_stands_beside_the_most_of_the_studys_own_in_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered twice as much on S4's page, and neither the summary nor the table of limits said so."""
    engine = SimpleNamespace(settings=SimpleNamespace(engine="split"))

    def stop(name: str, most: float, station: str, *, shown: bool) -> Any:
        series = SimpleNamespace(name=name, cells=(engine,), event=name == "event engine", workload="reads")
        return SimpleNamespace(
            workload="reads", series=(series,), maxima=(SimpleNamespace(throughput=most),), ends=(most, most), shown=shown, lead=series,
            limit=Limit(station, ""), alone=False,
        )  # fmt: skip

    event = stop("event engine", 49_320.0, "CPUs of this machine", shown=True)
    own = [
        stop("16 readers", 19_326.0, "proxy CPU quotas", shown=False),
        stop("1 reader", 2_570.0, "readers", shown=True),
    ]
    task: Any = SimpleNamespace(spec=SimpleNamespace(kind="clients", title="Maximum throughput"), beside=(1,))
    monkeypatch.setattr(results, "series_of", lambda _: [event.lead, *(one.lead for one in own)])
    monkeypatch.setattr(results, "stops_of", lambda _: own)
    monkeypatch.setattr(results, "maximum_over", lambda *_: None)
    monkeypatch.setattr(results, "Stop", lambda *_, **__: event)
    assert results._beside_text([task]) == (
        "With the event engine reads stop at 49,320 requests/s where the CPUs of this machine limit; the most with the split engine is "
        "19,326 (16 readers, largest mean) in “Maximum throughput”."
    )
    # “No station is seen to be full” alone left open how near any was.
    event.shown, event.limit = False, Limit("", "", busiest="CPUs of this machine, 86 %")
    assert results._beside_text([task]).startswith(
        "With the event engine reads reach 49,320 requests/s where no station is seen to be full (the fullest: CPUs of this machine, "
        "86 %; largest mean); the most"
    )
    task.beside = ()
    assert results._beside_text([task]) == ""
