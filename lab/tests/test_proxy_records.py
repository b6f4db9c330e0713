from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir_lab.errors import RecordError
from weir_lab.records.formats.proxy_records import read_trace, read_windows

SAMPLES = Path(__file__).resolve().parents[2] / "docs" / "samples"


def test_the_sample_of_a_window_is_read(tmp_path: Path) -> None:
    record = json.loads((SAMPLES / "window.json").read_text())
    file = tmp_path / "windows.jsonl"
    file.write_text(json.dumps(record) + "\n" + json.dumps(record | {"index": 8}) + "\n")
    first, second = read_windows(file)
    assert (first.index, second.index) == (7, 8)
    assert first.requests == sum(it.requests for it in first.operations.values()) == first.total.count == 4
    assert sum(first.stage_sum_ns.values()) == first.total.sum_ns
    assert first.queues["workers"].arrivals == 5
    assert first.crew == {"workers": 12}
    assert [thread.thread for thread in first.threads] == ["loop-0", "loop-1"]
    for times in (first.total, first.servers[0].server_time, first.turn_time):
        histogram = times.decoded("sample")
        assert histogram is not None
        assert histogram.total == times.count


def test_the_sample_of_a_trace_is_read() -> None:
    rows = read_trace(SAMPLES / "trace.csv")
    assert [row.servers for row in rows] == [("127.0.0.1:11211", "127.0.0.1:11212"), (), ('a,"b',)]
    assert rows[0].arrived_ns == 1_000_000_900
    assert rows[1].arrived_ns is None
    for row in rows:
        assert sum(row.stage_ns.values()) == row.total_ns
    assert rows[0].stage_ns["backend"] == 850_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("\n1,", "\n2,"), "version '2'"),
        (("1000001000", "soon"), "no row of a trace"),
        (("first_byte_ns", "first_ns"), "no row of a trace"),
    ],
)
def test_another_trace_is_refused(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text((SAMPLES / "trace.csv").read_text().replace(*change))
    with pytest.raises(RecordError, match=reason):
        read_trace(file)


def test_another_window_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_text('{"schema": "weir.window/2"}\n')
    with pytest.raises(RecordError, match="line 1: schema"):
        read_windows(file)
    with pytest.raises(RecordError, match="cannot be read"):
        read_windows(tmp_path / "none")
