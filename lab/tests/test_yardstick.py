"""The yardstick: fixed work on each core, timed while a run is made."""

from __future__ import annotations

import os
import threading
import time

import pytest

from weir_lab.bench.testbeds import Pieces, Yardstick, mean_piece_ns, piece_now_ns
from weir_lab.records import CpuRecord


def test_every_core_is_measured_and_no_thread_stays() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with Yardstick(cores) as yardstick:
        deadline = time.monotonic() + 20.0
        while min(done.count for done in yardstick.read().values()) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        found = mean_piece_ns({}, yardstick.read())
    assert set(found) == {str(core) for core in cores}
    assert all(mean > 0.0 for mean in found.values())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("yardstick")]


def test_the_thread_that_measures_is_pinned_and_no_other() -> None:
    cores = os.sched_getaffinity(0)
    with Yardstick([min(cores)]):
        time.sleep(0.05)
        assert os.sched_getaffinity(0) == cores


def test_a_core_that_is_not_there_is_left_out() -> None:
    with Yardstick([4096]) as yardstick:
        time.sleep(0.05)
        assert mean_piece_ns({}, yardstick.read()) == {}


def test_means_are_of_what_lies_between_two_readings() -> None:
    first, second = {0: Pieces(10, 1000), 1: Pieces(5, 5)}, {0: Pieces(14, 1800), 1: Pieces(5, 5), 2: Pieces(2, 6)}
    assert mean_piece_ns(first, second) == {"0": 200.0, "2": 3.0}


def test_slowness_is_the_mean_over_cores_and_unknown_in_older_records() -> None:
    plain = {"start_unix_ns": 1, "interval_ns": 5, "roles": {}, "cores": 2, "busy_ns": 3}
    assert CpuRecord.model_validate({**plain, "yardstick_ns": {"0": 100.0, "1": 300.0}}).slowness_ns() == 200.0
    assert CpuRecord.model_validate({**plain, "yardstick_ns": {"0": 100.0, "1": 300.0}}).slowness_ns([1]) == 300.0
    assert CpuRecord.model_validate(plain).slowness_ns() is None


def test_a_piece_now_visits_each_core_and_comes_back() -> None:
    home = os.sched_getaffinity(0)
    found = piece_now_ns(sorted(home))
    assert sorted(found) == sorted(map(str, home))
    assert all(spent > 0 for spent in found.values())
    with pytest.raises(OSError):  # noqa: PT011 - a core that is not there
        piece_now_ns([4095])
    assert os.sched_getaffinity(0) == home
    assert piece_now_ns([]) == {}
