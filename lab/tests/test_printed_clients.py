"""At which of our levels a study had the maximum that it printed, and with how many workers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import PublishedSource
from weir_lab.report.common import Task, series_of
from weir_lab.report.numbers.published import TIMES_OVER_CLIENTS, printed_maxima
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.printed_times import times_beside
from weir_lab.report.sections import clients
from weir_lab.report.sections.comparisons.drawn import printed_lines
from weir_lab.report.sections.comparisons.queued import _moved_text, moved_points
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


@pytest.fixture(name="direct", scope="module")
def direct_task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Direct access with what S3 printed of it."""
    folder = tmp_path_factory.mktemp("direct")
    study_set = take_files(DATA / "small.set.toml", folder)
    write_whole(folder, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-direct.toml"}))
    spec = next(one for one in study_set.sections if one.name == "baseline")
    published = [*spec.published, PublishedSource(table=TIMES_OVER_CLIENTS)]
    sweep = read_cells("t-direct.toml", folder / "t-direct")
    return Task(spec.model_copy(update={"published": published}), (sweep,), (), "S3")


def test_response_times_that_s3_printed_over_its_clients_stand_beside_ours(direct: Task) -> None:
    """They lay in no table of ours, and S3 saw in them where its server was full."""
    cells = direct.first.cells
    table = times_beside(direct, cells)
    assert table is not None
    numbers = [[one.value for one in row if isinstance(one, Value)] for row in table.rows]
    # Of its six levels ours has two.
    assert [row[0] for row in numbers] == [24.0, 96.0]
    assert [row[1] for row in numbers] == [2.5, 6.0]
    assert [row[5] for row in numbers] == [9600.0, 16000.0]
    for row in numbers:
        (cell,) = [one for one in cells if one.settings.clients == row[0] and one.settings.write_ratio == 1.0]
        assert row[2] == pytest.approx(1e3 * cell.mean_response_s, rel=1e-3)
        assert row[4] == pytest.approx(row[2] / row[0], rel=1e-3)
    without = Task(direct.spec.model_copy(update={"published": direct.spec.published[:1]}), direct.sweeps, (), "S3")
    assert times_beside(without, cells) is None


def test_a_maximum_of_a_baseline_stands_at_the_clients_that_were_printed_with_it(direct: Task) -> None:
    """S3 printed 240 clients beside its maximum, and the page neither that nor where it lies."""
    found = [one for source in direct.spec.published for one in printed_maxima("S3", source)]
    assert {one.where for one in found} == {"one memcached server, 240 clients"}
    s5 = [one for source in direct.spec.published for one in printed_maxima("S5", source)]
    assert {one.where for one in s5} == {"one memcached server, 96 clients if VC is per thread"}
    (line,) = printed_lines(direct, [one for one in series_of(direct) if one.workload == "writes"])
    assert [(one.x, one.note) for one in line.marks] == [(240.0, "direct, at its 240 clients")]


def test_cells_without_a_proxy_have_times_over_clients_in_place_of_what_a_proxy_tells(direct: Task) -> None:
    """Two columns of dashes stood there, and the rate by which S3 saw its server full nowhere."""
    table = next(one for one in clients.build(direct) if isinstance(one, Table) and one.name == "baseline-laws")
    assert "Outside the proxy (ms)" not in table.columns
    places = [table.columns.index(name) for name in ("Clients", "R (ms)", "R / N (ms)")]
    for row in table.rows:
        number, time, rate = (one.value for place in places if isinstance(one := row[place], Value))
        assert rate == pytest.approx(time / number, rel=1e-3)
        assert len(row) == len(table.columns)


def test_the_law_is_a_point_of_its_own_only_where_it_fails(direct: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """“The interactive law holds within 5 % on 18 of 18 cells” stood open in five sections of a page."""

    def found() -> tuple[Text, dict[str, Table]]:
        blocks = clients.build(direct)
        text = next(one for one in blocks if isinstance(one, Text))
        return text, {one.name: one for one in blocks if isinstance(one, Table)}

    text, tables = found()
    cells = len(tables["baseline-laws"].rows)
    said = f"The interactive law holds within 5 % on {cells} of {cells} cells; the largest deviation is "
    assert said in tables["baseline-laws"].caption
    assert not any("interactive law" in point for point in text.points)
    monkeypatch.setattr(clients, "_law", lambda cell: 0.2 if cell.settings.clients > 6 else 0.0)
    text, tables = found()
    assert text.leads[-1].startswith("The interactive law holds within 5 % on ")
    assert not text.leads[-1].startswith(said)
    assert text.leads[-1] in tables["baseline-laws"].caption


def test_a_point_on_a_maximum_opens_with_it_and_with_what_limits(direct: Task) -> None:
    """Five sentences on a maximum stood open, and what limits was the last of them."""
    blocks = clients.build(direct)
    text = next(one for one in blocks if isinstance(one, Text))
    for lead, point in zip(text.leads, text.points, strict=True):
        assert re.match(r"(Reads|Writes): (maximum|largest mean) [\d,]+ requests/s ", lead)
        assert lead.endswith(" limit.")
        assert "Throughput stops growing" not in lead
        assert len(lead.split()) <= 25
        assert point.startswith(lead)
    reached = next(one for one in blocks if isinstance(one, Table) and one.name == "baseline-reached")
    assert len(reached.caption.split()) <= 35


def test_where_more_workers_wait_longer_for_memcached_is_said_beside_the_queue_that_they_empty(tmp_path: Path) -> None:
    """S5 measured a point again where its 64 workers waited longer than 32, and a box said that ours has several runs everywhere."""
    light, heavy = (3.9, 3.8, 0.04, 0.05), (30.9, 20.8, 0.528, 21.9)
    assert _moved_text(32, 64, {96: light, 192: heavy}) == (
        "With 64 workers in each proxy a request waits for memcached longer than with 32 at 192 clients (30.9 against 20.8 ms), and less "
        "in the queue (0.528 against 21.9 ms): what waits for one of 32 workers waits for memcached with 64. At the other level it waits "
        "no longer, but for 5 %."
    )
    both = _moved_text(32, 64, {192: (29.2, 20.5, 1.36, 21.6), 384: (41.2, 20.5, 42.7, 41.0)})
    assert both == (
        "With 64 workers in each proxy a request waits for memcached longer than with 32 at 192 and 384 clients (41.2 against 20.5 ms with "
        "384)."
    )
    assert _moved_text(32, 64, {96: light}).endswith("no longer than with 32, but for 5 %, at any number of clients.")
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    write_whole(tmp_path, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-full.toml"}))
    spec = next(one for one in study_set.sections if one.name == "full")
    sweep = read_cells("t-full.toml", tmp_path / "t-full")
    printed = PublishedSource(table="max_throughput_full_system", where={"unit": "ops/s"})
    task = Task(spec.model_copy(update={"published": [printed]}), (sweep,), (), "S5")
    (said,) = moved_points(task, series_of(task))
    assert said.startswith("With 64 workers in each proxy a request waits for memcached ")
    assert moved_points(Task(spec, (sweep,), (), "S5"), series_of(task)) == []


def test_the_figure_of_stages_has_every_level_where_the_study_drew_them_all(tmp_path: Path) -> None:
    """S5 drew six levels of clients; ours had two, and a table for those between."""
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    write_whole(tmp_path, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-full.toml"}))
    spec = next(one for one in study_set.sections if one.name == "full")
    sweep = read_cells("t-full.toml", tmp_path / "t-full")
    titles = {}
    for every in (False, True):
        task = Task(spec.model_copy(update={"every_level": every}), (sweep,), (), "S5")
        figure = clients._stages(task, series_of(task))
        assert figure is not None
        titles[every] = [panel.title for panel in figure.panels]
        assert all([bar.label for bar in panel.bars] == ["8 workers", "64 workers"] for panel in figure.panels)
    first, last = "writes, fewest clients (6)", "writes, most clients (192)"
    assert titles == {
        False: [first, last],
        True: [first, "writes, 24 clients", "writes, 96 clients", last],
    }


def test_rules_of_the_knee_stand_once_in_the_caption_and_not_in_every_row(direct: Task) -> None:
    """They were a tenth of a section's bytes, and S3's page has none to spare."""
    table = next(one for one in clients.build(direct) if isinstance(one, Table) and one.name == "baseline-knees")
    assert table.columns == ("Workload", "Series", "Estimator", "N")
    named = {str(row[2]) for row in table.rows} - {"bracket by the data"}
    assert len(named) > 5
    for name in named:
        assert table.caption.count(f"{name}, ") == 1, name
    assert "power, N with the largest X / R" in table.caption
