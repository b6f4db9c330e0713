"""At which of our levels a study had the maximum that it printed, and with how many workers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import PublishedSource
from weir_lab.report.common import Task
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Value
from weir_lab.report.sections.comparisons.summaries import its_cell, studied_clients, study_tables

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import CellReadings

DATA = Path(__file__).parent / "data" / "whole"
LEVELS = [6, 24, 48, 96, 144, 192, 384]
PRINTED = [
    pytest.param({"throughput_ops_s": "12700", "response_time_ms": "16.38"}, 192, id="X R = 208"),
    pytest.param({"throughput_ops_s": "2970", "response_time_ms": "16.22"}, 48, id="X R = 48"),
    pytest.param({"throughput_ops_s": "2970", "response_time_ms": "400.0"}, None, id="X R = 1188 is of none"),
    pytest.param({"clients_per_thread_at_max": "16"}, 96, id="printed"),
    pytest.param({"clients_per_thread_at_max": "20"}, None, id="printed, and not of ours"),
    pytest.param(
        {"throughput_middleware": "8300", "time_in_queue": "12.35", "time_waiting_for_memcached": "1.77"},
        144,
        id="117 inside",
    ),
    pytest.param({}, None, id="nothing printed"),
]


@pytest.mark.parametrize(("printed", "wanted"), PRINTED)
def test_the_clients_of_a_printed_maximum_follow_from_what_was_printed(
    printed: dict[str, str], wanted: int | None
) -> None:
    cells = [
        cast("CellReadings", SimpleNamespace(settings=SimpleNamespace(clients=level, clients_per_thread=level // 6)))
        for level in LEVELS
    ]
    assert studied_clients(cells, printed) == wanted


ROWS = [
    # X times the time behind the queue: 8.2 workers are busy.
    pytest.param({"throughput_ops_s": "2989", "response_time_ms": "7.04", "time_in_queue_ms": "4.28"}, 8, id="all busy"),
    pytest.param({"throughput_ops_s": "2978", "response_time_ms": "14.88", "time_in_queue_ms": "0.588"}, 64, id="no queue"),
    pytest.param(
        {"throughput_ops_s": "2989", "response_time_ms": "7.04", "time_in_queue_ms": "4.28", "note": "of another run"}, 64, id="in doubt",
    ),
    pytest.param({}, 64, id="nothing printed"),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "wanted"), ROWS)
def test_the_workers_of_a_printed_maximum_are_those_that_were_busy(printed: dict[str, str], wanted: int) -> None:
    cells = [
        cast("CellReadings", SimpleNamespace(settings=SimpleNamespace(clients=24, workers=workers, proxies=1)))
        for workers in (8, 16, 32, 64)
    ]
    found = its_cell(cells, 24, printed)
    assert found is not None
    assert found.settings.workers == wanted


def test_a_law_on_requests_inside_gives_the_clients_that_a_study_did_print() -> None:
    """S5 printed both: the rule that stands in for S3's clients gives S5's own."""
    rows: dict[str, dict[str, str]] = {}
    for row in read_table("max_throughput_full_system"):
        if row["study"] == "S5":
            rows.setdefault(row["worker_threads"], {})[row["quantity"]] = row["value"]
            rows[row["worker_threads"]]["clients"] = str(6 * int(row["clients_per_thread_at_max"]))
    cells = [cast("CellReadings", SimpleNamespace(settings=SimpleNamespace(clients=level))) for level in LEVELS]
    assert rows
    for printed in rows.values():
        assert studied_clients(cells, printed) == int(printed["clients"])


def test_the_miss_rate_of_proxies_is_that_which_the_clients_counted(tmp_path: Path) -> None:
    """“Proxies count no misses” stood below two studies' tables of misses, and a proxy does count them."""
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    file = tmp_path / "studies" / "t-full.toml"
    file.write_text(file.read_text().replace("write_ratio = 1.0", "write_ratio = 0.0"))
    write_whole(tmp_path, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-full.toml"}))
    spec = next(one for one in study_set.sections if one.name == "full")
    printed = PublishedSource(table="max_throughput_middleware", where={"middlewares": "2"})
    task = Task(
        spec.model_copy(update={"published": [printed]}), (read_cells("t-full.toml", tmp_path / "t-full"),), (), "S5"
    )
    table = study_tables(task)[0]
    place = table.columns.index("Miss rate")
    rates = {(str(row[0]), str(row[1])): row[place] for row in table.rows}
    assert rates["Reads, in the proxies", "ours"] == "as at the clients"
    at_clients = rates["Reads, at the clients", "ours"]
    assert isinstance(at_clients, Value)
    assert at_clients.value == 0.0
    assert rates["Writes, in the proxies", "ours"] == "–"
    assert "its misses are those which the clients counted" in table.caption
