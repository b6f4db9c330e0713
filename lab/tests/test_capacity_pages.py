"""Pages of studies with `find`: the capacity first, why, and the search. Before, `weir-lab report` refused each of them."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from test_finding import CAPACITY, STUDY, Bench, bench, rows, swept
from test_open_loop_pages import sentences
from weir_lab.report.single.report import build_report, verify_sweep

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bench"]  # the fixture


def blocks_of(sweep: Path) -> dict[str, dict[str, Any]]:
    twin = json.loads((sweep / "report.json").read_text())
    return {block["name"]: block for part in twin["sections"] for block in part["blocks"] if "name" in block}


@pytest.mark.usefixtures("bench")
def test_the_capacity_stands_first_with_its_interval_and_the_difference(tmp_path: Path) -> None:
    swept(tmp_path)
    files = build_report(tmp_path / "sweep")
    reported = sentences(files.answer)
    assert len(reported) == 2
    assert reported[0].startswith("With p99 below 1 ms, the capacity is: direct ")
    for path, row in rows(tmp_path).items():
        low, high = float(row["capacity_low_rps"]), float(row["capacity_high_rps"])
        assert low < CAPACITY[path] < high
        assert f"interval {float(f'{low:.3g}'):,.0f} to {float(f'{high:.3g}'):,.0f}" in reported[0]
    # 8,000 against 20,000 requests/s.
    (compared,) = blocks_of(tmp_path / "sweep")["capacities-compared"]["rows"]
    assert compared[2]["low"] < -60.0 < compared[2]["high"] < 0.0
    assert reported[1].startswith("Through the proxy against direct ")
    assert files.limits[0].startswith("Near it (through the proxy), ")


def test_every_trial_is_drawn_as_met_or_missed_beside_the_limit(tmp_path: Path, bench: Bench) -> None:
    bench.broken_above = 30_000.0
    swept(tmp_path)
    build_report(tmp_path / "sweep")
    blocks = blocks_of(tmp_path / "sweep")
    made = [row for row in blocks["trials"]["rows"] if row[0] == "direct"]
    with (tmp_path / "sweep" / "find.csv").open() as file:
        asked = {row["path"]: int(row["runs"]) for row in csv.DictReader(file)}
    assert len(made) == asked["direct"]
    criterion, order = blocks["load-search-1"]["panels"]
    drawn = {line["name"]: line["marks"] for panel in (criterion, order) for line in panel["lines"]}
    assert len(drawn["goal met"]) + len(drawn["goal missed"]) == asked["direct"]
    # What had no valid attempt has no response time: it stands among the rates alone.
    lines = {line["name"]: line for line in criterion["lines"]}
    broken = [row for row in made if row[5] == "no attempt was valid"]
    assert broken
    assert len(lines["goal met"]["marks"]) + len(lines["goal missed"]["marks"]) == asked["direct"] - len(broken)
    assert all(mark["y"] <= 1.0 for mark in lines["goal met"]["marks"])
    assert all(mark["y"] > 1.0 for mark in lines["goal missed"]["marks"])
    assert lines["limit: 1 ms"]["marks"][0]["y"] == 1.0
    ends = [mark["x"] for mark in lines["interval of the capacity"]["marks"]]
    found = next(row for row in blocks["capacities"]["rows"] if row[0] == "direct")
    assert ends == [found[1]["low"], found[1]["high"]]
    page = unescape((tmp_path / "sweep" / "report.html").read_text())
    assert re.search(rf"{len(broken)} rates? without a valid attempt stand on the right alone", page)


def test_one_cell_says_what_was_held_and_whose_limit_it_may_be(tmp_path: Path, bench: Bench) -> None:
    bench.late = True
    swept(
        tmp_path,
        STUDY.replace('[factors]\npath = ["direct", "proxy"]\n', "").replace(
            "keys = 100", 'keys = 100\npath = "direct"'
        ),
    )
    files = build_report(tmp_path / "sweep")
    reported = sentences(files.answer)
    assert re.match(
        r"With p99 below 1 ms, the capacity is [0-9,]+ requests/s \(95 % interval [0-9,]+ to [0-9,]+\)\.", reported[0]
    )
    assert reported[1] == "Held were direct, 16 connections, values of 128 bytes, 10 % writes, 1 server, mine."
    assert "the load generator was late in" in files.limits[0]
    assert "this may be its own limit, so give it more client_threads, or another machine" in files.limits[0]
    assert not verify_sweep(files.html).differences
    twin = json.loads(files.json.read_text())
    table = next(block for part in twin["sections"] for block in part["blocks"] if block.get("name") == "capacities")
    table["rows"][0][1]["high"] += 1.0
    files.json.write_text(json.dumps(twin))
    assert verify_sweep(files.html).differences


def test_a_busy_machine_is_in_the_answer_and_is_not_called_the_limit_of_the_system(
    tmp_path: Path, bench: Bench
) -> None:
    """Issue: two searches with intervals a factor of ten from each other, beside programs with 46 to 97 % of the CPU time."""
    bench.others, bench.late = 0.92, True
    swept(tmp_path)
    files = build_report(tmp_path / "sweep")
    assert re.match(
        r"Beside (\d+) of \1 runs 92 % of the machine's CPU time went elsewhere; the interval has nothing of what drifts, so another "
        r"search may answer outside of it\.",
        sentences(files.answer)[2],
    )
    assert (
        "the CPUs of this machine limit: 92 % used, 92 % by other programs: this is not the limit of the system itself"
        in files.limits[0]
    )
    assert "measure again on a quieter machine" in files.limits[0]
    assert "client_threads" not in files.limits[0]


def test_rates_without_a_valid_attempt_are_counted_beside_the_limit(tmp_path: Path, bench: Bench) -> None:
    bench.broken_above = 15_000.0
    swept(tmp_path)
    files = build_report(tmp_path / "sweep")
    assert re.match(r"\d+ of the \d+ runs count as missed because no attempt was valid; if that was", files.limits[1])


@pytest.mark.usefixtures("bench")
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (("rate_max = 100_000", "rate_max = 2000"), "more than 2,000 requests/s, the highest rate of the search"),
        (("rate_min = 1000", "rate_min = 50_000"), "less than 50,000 requests/s, the lowest rate of the search"),
    ],
)
def test_a_capacity_outside_of_the_search_is_no_number(tmp_path: Path, ends: tuple[str, str], says: str) -> None:
    swept(tmp_path, STUDY.replace(*ends))
    files = build_report(tmp_path / "sweep")
    assert files.answer.count(says) == 2
    assert "Fewer than two of these capacities lie among the rates of the search" in files.answer
    assert {row[1] for row in blocks_of(tmp_path / "sweep")["capacities"]["rows"]} == {says.split(", the ")[0]}


def test_a_search_that_is_not_done_says_so(tmp_path: Path, bench: Bench) -> None:
    bench.stop_after = 6
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path)
    assert "incomplete" in build_report(tmp_path / "sweep").answer


@pytest.mark.usefixtures("bench")
def test_many_cells_are_reported_by_their_ends_and_compared_with_the_first(tmp_path: Path) -> None:
    text = STUDY.replace('path = ["direct", "proxy"]', 'path = ["direct"]\nkeys = [1, 2, 3, 4, 5, 6, 7]').replace(
        "keys = 100", "depth = 1"
    )
    swept(tmp_path, text.replace("[search]", "[search]\nhalf_width = 0.3"))
    files = build_report(tmp_path / "sweep")
    assert ", the largest and the smallest of 7." in files.answer
    blocks = blocks_of(tmp_path / "sweep")
    assert [row[1] for row in blocks["capacities-compared"]["rows"]] == ["1 key"] * 6
    assert "load-search-6" in blocks
    assert "load-search-7" not in blocks
    assert "1 of 7 cells are not drawn" in unescape(files.html.read_text())
