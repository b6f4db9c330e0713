"""Several generators as one: sums of counts, histograms of all samples, and phases that must cover the same time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from synthetic import SECOND, World, histogram_of, load_record
from weir_lab.cli import app
from weir_lab.errors import RecordError
from weir_lab.records.formats import LoadRecord
from weir_lab.records.formats.merging import merge_loads

if TYPE_CHECKING:
    from pathlib import Path


def record(times: list[int], *, clients: int = 4, late_ns: int = 0, errors: dict[str, int] | None = None) -> LoadRecord:
    made = load_record(clients, np.array(times, dtype=np.int64), World())
    made["phases"]["measured"]["start_unix_ns"] = 1_700_000_000 * SECOND + late_ns
    made["errors"] = errors or {}
    made["windows"] = []  # those of `synthetic` need more requests than a few
    return LoadRecord.model_validate(made)


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=2, max_size=50), min_size=1, max_size=4))
def test_the_merged_record_is_that_of_all_samples(samples: list[list[int]]) -> None:
    merged = merge_loads([record(times) for times in samples])
    together = np.array([time for times in samples for time in times], dtype=np.int64)
    assert merged.all.requests == merged.all.response_time_count == together.size
    assert merged.all.mean_ns == pytest.approx(together.mean())
    assert merged.all.response_times is not None
    np.testing.assert_array_equal(merged.all.response_times.counts, histogram_of(together).counts)
    assert merged.throughput_rps == pytest.approx(together.size / 2)
    assert (merged.generators, merged.connections) == (len(samples), 4 * len(samples))


def test_errors_are_summed_by_their_text() -> None:
    merged = merge_loads([record([5, 6], errors={"A": 1, "B": 2}), record([7, 8], errors={"B": 3})])
    assert merged.errors == {"A": 1, "B": 5}


def test_percentiles_are_withheld_below_their_count() -> None:
    percentiles = merge_loads([record([1000] * 15), record([3000] * 15)]).all.percentiles_ns()
    assert percentiles[50.0] == 1000
    assert percentiles[90.0] == 3001  # the highest value of its step
    assert percentiles[95.0] is None


def test_generators_that_did_not_run_together_are_refused() -> None:
    together = merge_loads([record([1, 2]), record([1, 2], late_ns=SECOND // 50)])
    assert together.overlap == pytest.approx(0.99)
    with pytest.raises(RecordError, match=r"95.0% of the time: they began 0.100 s apart.*--start-at"):
        merge_loads([record([1, 2]), record([1, 2], late_ns=SECOND // 10)])
    with pytest.raises(RecordError, match="nothing to merge"):
        merge_loads([])


def test_the_command_prints_one_table(tmp_path: Path) -> None:
    files = []
    for number in range(2):
        files.append(tmp_path / f"{number}.json")
        made = load_record(4, np.full(1000, 250_000, dtype=np.int64), World())
        files[-1].write_text(json.dumps(made))
    result = CliRunner().invoke(app, ["merge", *map(str, files)])
    assert result.exit_code == 0, result.output
    assert "2 generators, 8 connections, together for 100.0 % of the time" in result.output
    row = next(line for line in result.output.splitlines() if line.startswith("all"))
    assert row.split() == ["all", "2,000", "1,000", "250", "250", "250", "250", "-", "0", "0"]
