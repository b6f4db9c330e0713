from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from synthetic import SECOND, World, distribution, histogram_of, load_record
from weir_lab.design import Response
from weir_lab.errors import RecordError
from weir_lab.records.formats import LoadRecord
from weir_lab.records.progress import values_of
from weir_lab.records.windows import NO_CUT, Cut, find_cut, read_hdr_log, windows_of

if TYPE_CHECKING:
    from pathlib import Path


def record(per_second: list[int], mean_ns: list[int] | None = None, last_ns: int = SECOND) -> LoadRecord:
    """A load whose windows are known: requests per second, and the mean response time in each."""
    means = mean_ns or [1_000_000] * len(per_second)
    plain = load_record(4, np.full(1000, 1_000_000, dtype=np.int64), World())
    plain["windows"] = [
        {
            "start_ns": second * SECOND,
            "length_ns": SECOND if second < len(per_second) - 1 else last_ns,
            "requests": requests,
            "response_time_sum_ns": requests * mean,
        }
        for second, (requests, mean) in enumerate(zip(per_second, means, strict=True))
    ]
    return LoadRecord.model_validate(plain)


def test_windows_add_up_seconds_and_leave_a_shorter_rest_out() -> None:
    windows = windows_of(record([10, 20, 30, 40, 50], [1, 2, 3, 4, 5], last_ns=SECOND // 2), None, 2)
    assert [(window.start_s, window.length_s, window.requests) for window in windows] == [(0, 2, 30), (2, 2, 70)]
    assert [window.throughput_rps for window in windows] == [15.0, 35.0]
    assert [window.mean_ns for window in windows] == [50 / 30, 250 / 70]
    assert windows_of(record([0, 0]), None, 1)[0].mean_ns is None


def test_a_window_has_the_spread_of_its_response_times() -> None:
    times = np.array([100, 200, 300, 400] * 50, dtype=np.int64)
    window = windows_of(record([200]), [histogram_of(times)], 1)[0]
    assert window.sd_ns == pytest.approx(times.std(ddof=1), rel=0.01)


def test_a_warm_up_inside_the_measured_phase_is_cut_and_the_rest_is_averaged() -> None:
    rng = np.random.default_rng(5)
    steady = [int(value) for value in rng.normal(1000, 10, 90)]
    load = record([200] * 10 + steady)
    cut = find_cut(load)
    assert cut.stationary
    assert cut.windows in (10, 15, 20)
    values = values_of(load, cut)
    assert values.throughput_rps == pytest.approx(np.mean(steady[cut.windows - 10 :]))
    assert values.of(Response.MEAN_RESPONSE_TIME) == pytest.approx(1_000_000)
    assert values_of(load).throughput_rps == load.throughput_rps


def test_a_run_that_never_settles_has_no_steady_state() -> None:
    assert not find_cut(record([100 + 10 * second for second in range(100)])).stationary


def test_the_longer_cut_of_throughput_and_response_time_counts() -> None:
    rng = np.random.default_rng(6)
    steady = [998, 1002, 1000, 999, 1001] * 20
    means = [9_000_000] * 15 + [int(value) for value in rng.normal(1e6, 1e4, 85)]
    assert find_cut(record(steady)).windows == 0
    assert find_cut(record(steady, means)).windows >= 15


def test_short_runs_and_seconds_without_replies_need_no_special_care() -> None:
    assert find_cut(record([100] * 49)) == NO_CUT
    assert find_cut(record([100] * 30 + [0] + [100] * 40)).windows >= 0
    with pytest.raises(RecordError, match="No request was answered behind the cut"):
        values_of(record([100] * 10 + [0] * 50), Cut(10, stationary=True))


def test_an_hdr_log_is_read_by_operation(tmp_path: Path) -> None:
    text = distribution(np.array([1000, 2000], dtype=np.int64))["histogram"]
    log = tmp_path / "load.hdr"
    log.write_text(f"#[comment]\n0.000,1.000,1.0,{text}\nTag=get,0.000,1.000,1.0,{text}\n1.000,1.000,1.0,{text}\n")
    found = read_hdr_log(log)
    assert {tag: [histogram.total for histogram in histograms] for tag, histograms in found.items()} == {
        "": [2, 2],
        "get": [2],
    }
    log.write_text("0.000,1.000,nonsense\n")
    with pytest.raises(RecordError, match="line 1"):
        read_hdr_log(log)


def test_counts_below_a_value_are_those_that_were_recorded() -> None:
    histogram = histogram_of(np.array([1, 2, 3, 1000, 1001, 5_000_000], dtype=np.int64))
    assert [histogram.count_up_to(value) for value in (0, 1, 2, 999, 1000, 1 << 40)] == [0, 1, 2, 3, 4, 6]
    assert histogram_of(np.array([7], dtype=np.int64)).standard_deviation() is None
