"""Several generators as one: sums of counts, histograms of all samples, and phases that must cover the same time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from synthetic import SECOND, World, histogram_of, load_record
from weir_lab.cli import app
from weir_lab.errors import RecordError
from weir_lab.records.formats import LoadRecord
from weir_lab.records.formats.merging import doubts_of, merge_loads, merge_records
from weir_lab.records.tables.found import kept_up

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


def open_record(*, seed: int, loop: str = "open", unsent: int = 0, late: int = 0, **fields: object) -> dict[str, Any]:
    made = load_record(4, np.full(1000, 250_000, dtype=np.int64), World())
    made["config"] |= {"seed": seed, "pacing": {"loop": loop}}
    made["scheduled"] = {"arrivals": 1000, "offered_rate_rps": 500.0, "unsent": unsent, "late": late}
    return made | fields


def test_generators_with_one_seed_are_no_independent_clients() -> None:
    records = [LoadRecord.model_validate(open_record(seed=seed)) for seed in (7, 7, 8)]
    assert merge_loads(records[1:]).warnings == ()
    (warning,) = merge_loads(records).warnings
    assert warning.startswith("2 generators have the seed 7: they sent the same arrivals at the same moments")
    closed = LoadRecord.model_validate(open_record(seed=7, loop="closed"))
    assert merge_loads([closed, closed]).warnings == ()


def test_what_each_record_doubts_is_said() -> None:
    sound = open_record(seed=1, bottleneck={"who": "neither"})
    assert doubts_of(LoadRecord.model_validate(sound)) == []
    waited = open_record(seed=1, bottleneck={"who": "target", "waited": 0.9, "kept_up": None})
    assert doubts_of(LoadRecord.model_validate(waited)) == []
    behind = {"who": "target", "waited": 0.5, "kept_up": 0.7}
    doubted = LoadRecord.model_validate(open_record(seed=1, unsent=5, late=3, bottleneck=behind, foreign_values=2))
    assert doubts_of(doubted) == [
        "the target fell behind, so times grow with the run's length",
        "5 of 1000 requests were never sent",
        "3 of 1000 requests were late by the generator's own fault",
        "2 values were written by another run",
    ]
    busy = open_record(seed=1, bottleneck={"who": "generator", "busy": 0.99, "late": 0.0})
    assert doubts_of(LoadRecord.model_validate(busy)) == ["the generator was the bottleneck"]
    together = merge_records([doubted, doubted])
    assert together.foreign_values == 4
    assert together.scheduled is not None
    assert (together.scheduled.arrivals, together.scheduled.unsent, together.scheduled.late) == (2000, 10, 6)


def test_what_answers_asked_for_is_no_answer_to_what_was_offered() -> None:
    """Each `cas` needs a token and asks for it first: above its capacity a target still completed as many requests as were offered."""
    made = open_record(seed=1, throughput_rps=500.0)
    seconds = LoadRecord.model_validate(made).measured.duration_ns / 1e9
    for completed, wanted in ((round(500.0 * seconds), True), (round(250.0 * seconds), False), (None, True)):
        made["scheduled"] |= {"completed": completed}
        one = LoadRecord.model_validate(made)
        assert kept_up(one) is wanted, completed
        together = merge_records([one, one])
        assert together.scheduled is not None
        assert together.scheduled.completed == (None if completed is None else 2 * completed)


def test_the_command_prints_doubts_and_the_schedule(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    files[0].write_text(json.dumps(open_record(seed=3)))
    files[1].write_text(json.dumps(open_record(seed=3, unsent=5)))
    result = CliRunner().invoke(app, ["merge", *map(str, files)])
    assert result.exit_code == 0, result.output
    assert "scheduled 2,000 requests, 1,000/s; 0 late; 5 never sent" in result.output
    doubts = [line for line in result.output.splitlines() if line.startswith("Look before you trust this: ")]
    assert len(doubts) == 2
    assert "2 generators have the seed 3" in doubts[0]
    assert doubts[1] == "Look before you trust this: b.json: 5 of 1000 requests were never sent."


def test_the_command_prints_one_table(tmp_path: Path) -> None:
    files = []
    for number in range(2):
        files.append(tmp_path / f"{number}.json")
        made = load_record(4, np.full(1000, 250_000, dtype=np.int64), World())
        files[-1].write_text(json.dumps(made))
    result = CliRunner().invoke(app, ["merge", *map(str, files)])
    assert result.exit_code == 0, result.output
    assert "2 generators, 8 connections, together for 100.0 % of the time by their own clocks" in result.output
    assert "Look before" not in result.output
    row = next(line for line in result.output.splitlines() if line.startswith("all"))
    assert row.split() == ["all", "2,000", "1,000", "250", "250", "250", "250", "-", "0", "0"]
