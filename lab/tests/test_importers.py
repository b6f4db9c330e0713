"""Outputs of other generators: recorded ones of memaslap, and memtier's forms with each of their known traps."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.errors import RecordError
from weir_lab.records.importers import (
    log2_percentile,
    parse_memaslap,
    parse_memtier_json,
    parse_memtier_text,
    read_results,
    rows_of,
)
from weir_lab.theory.histogram import Bounds, Histogram

DATA = Path(__file__).parent / "data"
WITH = (DATA / "memaslap-with-statistics.txt").read_text()
WITHOUT = (DATA / "memaslap-without-statistics.txt").read_text()


def test_memaslap_with_statistics_is_read_whole() -> None:
    run = parse_memaslap(WITH)
    assert (run.connections, run.seconds, run.faults) == (4, 3.0, ())
    get, both = run.operations["get"], run.operations["all"]
    assert (get.count, get.misses, get.mean_us, get.sd_us, get.min_us, get.max_us) == (185597, 0, 57, 260.93, 11, 52059)
    assert (both.count, both.throughput_rps) == (206220, 68740.0)
    assert get.cumulative[0] == (16.0, 100 * 19422 / 185593)
    assert get.cumulative[-1] == (65536.0, 100.0)
    assert [(window.start_s, window.count, window.mean_us) for window in run.windows] == [
        (0.0, 67841, 57.0),
        (1.0, 79980, 49.0),
        (2.0, 58391, 68.0),
    ]
    assert any("factor of two" in doubt for doubt in run.doubts)
    assert any("4 operations were in flight" in doubt for doubt in run.doubts)


def test_memaslap_without_statistics_has_counts_and_no_times() -> None:
    run = parse_memaslap(WITHOUT)
    assert (run.operations["get"].count, run.operations["set"].count, run.operations["all"].count) == (
        73373,
        8154,
        81527,
    )
    assert all(operation.mean_us is None for operation in run.operations.values())
    assert run.doubts == ("no response times: memaslap ran without -S",)


def test_the_log2_percentile_is_that_of_the_documentation() -> None:
    counts = dict(zip(range(5, 13), [10, 84490, 215345, 484890, 459823, 12543, 824, 31], strict=True))
    assert sum(counts.values()) == 1257956
    found = log2_percentile(counts, 50.0)
    assert found is not None
    assert (found.low_us, found.high_us) == (128.0, 256.0)
    assert found.linear_us == pytest.approx(214.9, abs=0.05)
    assert found.geometric_us == pytest.approx(204.9, abs=0.05)
    assert log2_percentile({0: 5}, 50.0) is not None
    assert log2_percentile({}, 50.0) is None


def test_damaged_memaslap_outputs_are_refused() -> None:
    with pytest.raises(RecordError, match="stopped early"):
        parse_memaslap(WITH[: WITH.rindex("Run time")])
    with pytest.raises(RecordError, match="adds up to"):
        parse_memaslap(WITH.replace("    19422", "    19423"))
    with pytest.raises(RecordError, match="no multiple of 4"):
        parse_memaslap(WITH.replace("       4:    19422", "       5:    19422"))


def test_what_memaslap_did_wrong_is_a_fault() -> None:
    run = parse_memaslap(WITHOUT.replace("get_misses: 0", "get_misses: 7\nverify_failed: 2"))
    assert run.faults == ("7 misses", "2 values failed verification")
    silent = WITHOUT.replace("Ops: 81527 TPS: 81521", "Ops: 0 TPS: 0")
    assert "no request was answered" in parse_memaslap(silent).faults


def test_a_period_without_events_counts_as_an_empty_window() -> None:
    row = "Period   1        67841        67841        9.3        0          14       52059      57         201.37     53.93"
    assert row in WITH
    empty = "Period   1        0            0            0.0        0          -1       0          0          0.00       0.00"
    assert parse_memaslap(WITH.replace(row, empty)).windows[0].mean_us is None
    assert parse_memaslap(WITH.replace(row, empty)).windows[0].count == 0


HEAD = "4         Threads\n2         Connections per thread\n10        Seconds\n"
NEW = (
    "\n\nALL STATS\n" + "=" * 100 + "\n"
    "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency  p99.990 Latency       KB/sec \n"
    + "-" * 100 + "\n"
    "Sets         2000.00          ---          ---         0.40000         0.30000         0.90000          1.10000       100.00 \n"
    "Gets        18000.00     17966.50        33.50         0.05036         0.03100         0.23900          0.75100      2115.74 \n"
    "Waits           0.00          ---          ---             ---             ---             ---              ---          --- \n"
    "Totals      20000.00     17966.50        33.50         0.00000         0.03100         0.23900          0.75100      2215.74 \n"
    "\n\nRequest Latency Distribution\nType     <= msec         Percent\n" + "-" * 72 + "\n"
    "SET       0.071        50.000\nSET       1.100       100.000\n---\nGET       0.031        50.000\nGET       0.751       100.000\n"
)  # fmt: skip


def test_memtier_text_is_read_and_its_cut_mean_replaced() -> None:
    (run,) = parse_memtier_text(HEAD + NEW)
    assert (run.connections, run.seconds, run.faults) == (8, 10.0, ("33.5 misses per second",))
    assert run.operations.keys() == {"set", "get", "all"}
    get, both = run.operations["get"], run.operations["all"]
    assert (get.throughput_rps, get.misses_per_s) == (18000.0, 33.5)
    assert get.mean_us == pytest.approx(50.36)
    assert get.percentiles_us == {50.0: pytest.approx(31.0), 99.0: pytest.approx(239.0), 99.99: pytest.approx(751.0)}
    assert [percent for _, percent in get.cumulative] == [50.0, 100.0]
    assert [bound for bound, _ in get.cumulative] == pytest.approx([31.0, 751.0])
    assert both.mean_us == pytest.approx(0.1 * 400 + 0.9 * 50.36)
    assert any("whole milliseconds" in doubt for doubt in run.doubts)
    assert rows_of(run)[0]["p99_us"] == pytest.approx(900.0)


def test_progress_that_is_mixed_in_does_no_harm() -> None:
    progress = "[RUN #1 10%,   1 secs]  4 threads:  20000 ops,  20000 (avg:  20000) ops/sec\r[RUN #1 100%]\n"
    assert parse_memtier_text(progress + HEAD + NEW) == parse_memtier_text(HEAD + NEW)


def test_the_text_of_early_versions_has_no_percentiles() -> None:
    old = (
        HEAD + "\n\nALL STATS\n" + "=" * 60 + "\n"
        "Type         Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec \n" + "-" * 60 + "\n"
        "Sets         1000.00          ---          ---      1.25000        50.00 \n"
        "Gets         1000.00      1000.00         0.00      0.75000        50.00 \n"
        "Totals       2000.00      1000.00         0.00      1.00000       100.00 \n"
    )  # fmt: skip
    (run,) = parse_memtier_text(old)
    assert run.operations["set"].mean_us == 1250.0
    assert run.operations["all"].mean_us == pytest.approx(1000.0)
    assert all(operation.percentiles_us == {} for operation in run.operations.values())


def test_best_worst_and_average_are_never_imported() -> None:
    sections = [NEW.replace("ALL STATS", title) for title in ("RUN #1 RESULTS", "RUN #2 RESULTS", "BEST RUN RESULTS")]
    runs = parse_memtier_text(HEAD + "".join(sections))
    assert [run.name for run in runs] == ["memtier.txt RUN #1 RESULTS", "memtier.txt RUN #2 RESULTS"]
    assert all(any("BEST RUN RESULTS" in doubt for doubt in run.doubts) for run in runs)
    with pytest.raises(RecordError, match="print-all-runs"):
        parse_memtier_text(HEAD + sections[2] + NEW.replace("ALL STATS", "AGGREGATED AVERAGE RESULTS (2 runs)"))


def test_a_run_without_answers_is_a_fault_and_not_a_fast_run() -> None:
    nothing = HEAD + "\n\nALL STATS\n" + "=" * 60 + "\n" + (
        "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency       KB/sec \n" + "-" * 60 + "\n"
        "Sets            0.00          ---          ---             ---             ---         0.00 \n"
        "Totals          0.00         0.00         0.00            -nan         0.00700         0.00 \n"
    )  # fmt: skip
    (run,) = parse_memtier_text(nothing)
    assert run.faults == ("no request was answered",)
    assert run.operations["all"].mean_us is None
    assert run.operations["all"].percentiles_us == {}


def test_a_row_that_does_not_fit_its_headings_is_refused() -> None:
    with pytest.raises(RecordError, match="'Gets' has 8 cells under 9 headings"):
        parse_memtier_text(HEAD + NEW.replace("      0.75100      2115.74", "      2115.74"))


def packed(values_us: list[int]) -> str:
    counts = np.zeros(4000, dtype=np.int64)
    for value in values_us:
        counts[value] += 1
    return Histogram(Bounds(1, 600_000_000, 4), counts).encode()


def section(**more: Any) -> dict[str, Any]:
    """One section: 1,000 gets with 100 to 1,099 µs, 500 sets, three seconds of which the second had no reply."""
    row: dict[str, Any] = {
        "Count": 1000, "Ops/sec": 500.0, "Hits/sec": 490.0, "Misses/sec": 10.0, "Connection Errors": 0,
        "Average Latency": 0.599, "Accumulated Latency": 600, "Min Latency": 0.1, "Max Latency": 1.1, "KB/sec": 1.0,
        "Time-Serie": {"0": {"Count": 900, "Accumulated Latency": 540}, "2": {"Count": 100, "Accumulated Latency": 60}},
        "Percentile Latencies": {
            "p50.00": 0.591, "p99.00": 1.087,
            "Histogram log format": {"Compressed Histogram": packed(list(range(100, 1100)))},
        },
    }  # fmt: skip
    totals = {**row, "Count": 1500, "Ops/sec": 750.0, "Average Latency": 0.0, "Accumulated Latency": 900}
    totals["Percentile Latencies"] = {"p50.00": 0.007}
    sets = {"Count": 500, "Ops/sec": 250.0, "Average Latency": 0.6, "Accumulated Latency": 300, "Time-Serie": {}}
    runtime = {"Total duration": 2000, "Interrupted": "false"}
    return {
        "Runtime": runtime,
        "Sets": sets,
        "Gets": row,
        "Waits": {"Count": 0, "Ops/sec": 0.0},
        "Totals": totals,
        **more,
    }


def document(**sections: Any) -> str:
    information = {"Threads": 4, "Connections per thread": 2, "Format version": 2}
    named = {re.sub("^RUN ", "RUN #", name.replace("_", " ")): value for name, value in sections.items()}
    return json.dumps({"configuration": {}, "run information": information, **named})


def test_memtier_json_is_read_with_means_from_sums_and_percentiles_from_the_histogram() -> None:
    (run,) = parse_memtier_json(document(ALL_STATS=section()))
    assert (run.connections, run.seconds, run.faults) == (8, 2.0, ("10 misses per second",))
    assert run.operations.keys() == {"set", "get", "all"}
    get = run.operations["get"]
    assert (get.count, get.throughput_rps, get.misses_per_s) == (1000, 500.0, 10.0)
    assert get.mean_us == pytest.approx(600.0)
    assert get.percentiles_us[50.0] == pytest.approx(599.0)
    assert get.percentiles_us[99.0] == pytest.approx(1089.0)
    assert 99.9 not in get.percentiles_us or get.percentiles_us[99.9] > 1000.0
    assert run.operations["all"].mean_us == pytest.approx(600.0)


def test_a_second_without_replies_is_an_empty_window_and_the_last_one_is_left_out() -> None:
    (run,) = parse_memtier_json(document(ALL_STATS=section()))
    assert [(window.start_s, window.count, window.mean_us) for window in run.windows] == [
        (0.0, 900, 600.0),
        (1.0, 0, None),
    ]


def test_percentiles_whose_names_were_cut_are_left_out() -> None:
    text = document(ALL_STATS=section()).replace('"p99.00": 1.087', '"p99.99": 1.09, "p99.99": 1.099')
    (run,) = parse_memtier_json(text)
    assert 99.99 not in run.operations["get"].percentiles_us
    assert any("p99.99 stands there more than once" in doubt for doubt in run.doubts)


def test_json_of_several_runs_gives_the_runs_and_not_their_summary() -> None:
    runs = parse_memtier_json(document(RUN_1_RESULTS=section(), RUN_2_RESULTS=section(), BEST_RUN_RESULTS=section()))
    assert [run.name for run in runs] == ["memtier.json RUN #1 RESULTS", "memtier.json RUN #2 RESULTS"]
    with pytest.raises(RecordError, match="computes wrongly"):
        parse_memtier_json(document(BEST_RUN_RESULTS=section()))
    with pytest.raises(RecordError, match="not valid JSON"):
        parse_memtier_json('{"ALL STATS": -nan}')


def test_connection_errors_interrupts_and_silence_are_said() -> None:
    broken = section()
    broken["Totals"]["Connection Errors"] = 3
    broken["Gets"]["Misses/sec"] = broken["Totals"]["Misses/sec"] = 0.0
    broken["Runtime"]["Interrupted"] = "true"
    (run,) = parse_memtier_json(document(ALL_STATS=broken))
    assert run.faults == ("3 connection errors",)
    assert any("interrupted" in doubt for doubt in run.doubts)
    silent = {
        "Totals": {"Count": 0, "Ops/sec": 0.0, "Average Latency": None, "Percentile Latencies": {"p50.00": 0.007}}
    }
    (run,) = parse_memtier_json(document(ALL_STATS=silent))
    assert run.faults == ("no request was answered",)
    assert run.operations["all"].percentiles_us == {}


def test_files_are_recognised_by_their_content(tmp_path: Path) -> None:
    for name, text in (("a", WITH), ("b", HEAD + NEW), ("c", document(ALL_STATS=section()))):
        (tmp_path / name).write_text(text)
    found = [read_results(tmp_path / name)[0].generator for name in ("a", "b", "c")]
    assert found == ["memaslap", "memtier_benchmark", "memtier_benchmark"]
    (tmp_path / "d").write_text("nothing of the kind")
    with pytest.raises(RecordError, match="neither"):
        read_results(tmp_path / "d")
    with pytest.raises(RecordError, match="cannot be read"):
        read_results(tmp_path / "absent")


def test_a_run_whose_gets_find_nothing_is_unusable() -> None:
    """Before, memtier on an empty server was a good run: its misses were copied, and never judged."""
    full = section()
    full["Gets"]["Misses/sec"] = full["Totals"]["Misses/sec"] = 0.0
    (run,) = parse_memtier_json(document(ALL_STATS=full))
    assert run.faults == ()
    full["Gets"]["Misses/sec"] = 1000.0
    (run,) = parse_memtier_json(document(ALL_STATS=full))
    assert run.faults == ("1000 misses per second",)
    (clean,) = parse_memtier_text(HEAD + NEW.replace("33.50", " 0.00"))
    assert clean.faults == ()


def test_lost_connections_in_the_text_make_a_run_unusable() -> None:
    clean = HEAD + NEW.replace("33.50", " 0.00")
    noise = "connection dropped.\n[RUN #1 10%]  100 ops\rConnection error: Connection refused\n"
    (run,) = parse_memtier_text(noise + clean)
    assert run.faults == ("connections were lost or refused: 2 lines say so",)


@pytest.mark.parametrize(
    "text",
    [
        '{"ALL STATS": []}',
        '{"ALL STATS": 5, "run information": "x"}',
        '{"ALL STATS": {"Totals": []}}',
        '{"ALL STATS": {"Gets": {"Count": 5}}}',
        '{"ALL STATS": ' + "[" * 20000,
        '{"ALL STATS": {"Totals": {"Count": ' + "9" * 5000 + "}}}",
        "{}",
        "[1]",
    ],
)
def test_json_of_another_form_is_refused_by_the_name_of_its_file(text: str) -> None:
    """Before, AttributeError, ValueError or RecursionError."""
    with pytest.raises(RecordError, match=r"^memtier\.json: "):
        parse_memtier_json(text)


def test_parts_of_another_form_are_left_out() -> None:
    odd = section(Runtime=5)
    odd["Gets"]["Percentile Latencies"] |= {"p9.9.9": 1.0, "p250": 1.0, "Histogram log format": [1]}
    odd["Sets"]["Count"] = float("nan")
    odd["Totals"]["Accumulated Latency"] = int("9" * 400)
    text = document(ALL_STATS=odd).replace('{"Threads": 4', '{"Threads": 1e400')
    (run,) = parse_memtier_json(text)
    assert (run.connections, run.seconds) == (None, None)
    assert run.operations["get"].percentiles_us.keys() == {50.0, 99.0}
    assert run.operations["set"].count is None


@pytest.mark.parametrize("key", ["999999999999", "-1", "x", "9" * 5000])
def test_a_time_series_without_end_is_left_out(key: str) -> None:
    """Before, a window for each second up to the largest key: memory without end."""
    odd = section()
    odd["Totals"]["Time-Serie"][key] = {"Count": 1, "Accumulated Latency": 1}
    (run,) = parse_memtier_json(document(ALL_STATS=odd))
    assert run.windows == ()
    assert any("time series has another form" in doubt for doubt in run.doubts)
    for series in ([1], "x", {"1": 5}):
        odd["Totals"]["Time-Serie"] = series
        assert parse_memtier_json(document(ALL_STATS=odd))[0].windows == ()


def test_numbers_that_are_none_in_texts_end_in_no_traceback() -> None:
    many = "9" * 5000
    assert parse_memtier_text(HEAD.replace("4   ", many) + NEW)[0].connections is None
    (run,) = parse_memtier_text(HEAD + NEW.replace("p99 Latency", "p9.9.9 Latency"))
    assert run.operations["get"].percentiles_us.keys() == {50.0, 99.99}
    with pytest.raises(RecordError, match="damaged"):
        parse_memtier_text(HEAD + NEW.replace("SET       0.071", "SET       0.0.71"))
    for old, new in (
        ("       4:    19422", "  4000:    19422"),
        ("Ops: 206220", f"Ops: {many}"),
        ("Std:    260.93", "Std: 2.6.0"),
    ):
        with contextlib.suppress(RecordError):
            parse_memaslap(WITH.replace(old, new))


KEYS = st.sampled_from(
    [
        "ALL STATS", "RUN #1 RESULTS", "BEST RUN RESULTS", "run information", "Threads", "Connections per thread", "Totals", "Gets",
        "Runtime", "Total duration", "Interrupted", "Count", "Ops/sec", "Misses/sec", "Connection Errors", "Accumulated Latency",
        "Average Latency", "Percentile Latencies", "Histogram log format", "Compressed Histogram", "p50.00", "p9.9.9", "Time-Serie", "0",
        "7", "999999999999",
    ]
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "true"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=4), JSON)
def test_no_json_ends_in_a_traceback(whole: dict[str, Any], part: Any) -> None:
    inside = {
        "ALL STATS": {
            "Totals": {"Count": 5, "Ops/sec": 2.0, "Time-Serie": part, "Percentile Latencies": part},
            "Gets": part,
        }
    }
    for text in (
        json.dumps(whole),
        json.dumps(whole | inside),
        json.dumps({"ALL STATS": {"Totals": part, "Runtime": part}}),
    ):
        with contextlib.suppress(RecordError):
            for run in parse_memtier_json(text):
                rows_of(run)
