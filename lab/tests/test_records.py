from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from synthetic import SECOND, World, histogram_of, snapshot, study, write_run
from weir_lab.design import RequestPath, schedule
from weir_lab.errors import RecordError
from weir_lab.records import read_json, read_run, read_runs, write_json
from weir_lab.records.formats import STAGES, Snapshot, merge_snapshots, subtract_snapshots

if TYPE_CHECKING:
    from pathlib import Path


def taken(uptime_ns: int, times: list[int]) -> Snapshot:
    return Snapshot.model_validate(snapshot(uptime_ns, np.array(times, dtype=np.int64), World()))


def test_the_difference_of_snapshots_is_what_happened_between() -> None:
    first, second = [50_000, 60_000], [70_001, 90_003, 10_000_007]
    difference = subtract_snapshots(taken(3 * SECOND, first + second), taken(SECOND, first))
    assert difference.requests == 3
    assert difference.interval_ns == 2 * SECOND
    assert difference.total_sum_ns == sum(second)
    assert sum(difference.stage_sum_ns[stage] for stage in STAGES) == sum(second)
    assert difference.total is not None
    assert difference.total.counts.tolist() == histogram_of(np.array(second)).counts.tolist()


def test_an_operation_that_appears_between_snapshots_counts_whole() -> None:
    earlier = taken(SECOND, []).model_copy(update={"operations": {}})
    assert subtract_snapshots(taken(2 * SECOND, [50_000]), earlier).requests == 1


def test_swapped_snapshots_are_refused() -> None:
    with pytest.raises(RecordError, match="swapped"):
        subtract_snapshots(taken(SECOND, []), taken(2 * SECOND, [1000]))
    with pytest.raises(RecordError, match=r"swapped|went down"):
        subtract_snapshots(taken(2 * SECOND, []), taken(SECOND, [1000]))


def test_a_count_that_differs_from_its_histogram_is_refused(tmp_path: Path) -> None:
    made = study()
    write_run(tmp_path / "run", made, schedule(made)[0], World())
    file = tmp_path / "run" / "load.json"
    record = json.loads(file.read_text())
    record["operations"]["get"]["response_time"]["count"] += 1
    file.write_text(json.dumps(record))
    load = read_run(tmp_path / "run").load
    assert load is not None
    with pytest.raises(RecordError, match="count is"):
        load.response_times()


def test_a_damaged_record_of_a_valid_run_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    made = study()
    write_run(tmp_path / "run", made, schedule(made)[0], World())
    file = tmp_path / "run" / "load.json"
    file.write_text(file.read_text()[:100])
    with pytest.raises(RecordError, match=r"load\.json.*repeat the run"):
        read_run(tmp_path / "run")


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    made = study()
    write_run(tmp_path / "run", made, schedule(made)[0], World())
    file = tmp_path / "run" / "load.json"
    file.write_text(file.read_text().replace("weir.load/1", "weir.load/2"))
    with pytest.raises(RecordError, match="schema"):
        read_run(tmp_path / "run")


def test_a_damaged_record_of_a_failed_run_does_not_stop_the_report(tmp_path: Path) -> None:
    made = study()
    run = next(run for run in schedule(made) if run.cell.settings.path is RequestPath.PROXY)
    write_run(tmp_path / "run", made, run, World(misses=1))
    (tmp_path / "run" / "snapshot-end.json").write_text("{")
    assert read_run(tmp_path / "run").load is None


def test_a_folder_without_its_last_record_is_an_interrupted_run(tmp_path: Path) -> None:
    made = study()
    first, second = schedule(made)[:2]
    write_run(tmp_path / "runs" / first.name, made, first, World())
    write_run(tmp_path / "runs" / second.name, made, second, World())
    (tmp_path / "runs" / second.name / "run.json").unlink()
    finished, interrupted = read_runs(tmp_path)
    assert [run.folder.name for run in finished] == [first.name]
    assert [folder.name for folder in interrupted] == [second.name]


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    write_json(file, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(file, {"a": float("nan")})
    assert json.loads(file.read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_snapshots_of_several_proxies_add_up(sweep: Path) -> None:
    folder = next(path for path in sorted((sweep / "runs").iterdir()) if "proxy" in path.name)
    parts = [read_json(folder / f"snapshot-{moment}.json", Snapshot) for moment in ("before", "after")]
    merged = merge_snapshots(parts)
    assert merge_snapshots(parts[:1]) == parts[0]
    for name, operation in merged.operations.items():
        both = [part.operations[name] for part in parts]
        assert operation.requests == sum(part.requests for part in both)
        assert operation.total.sum_ns == sum(part.total.sum_ns for part in both)
        assert operation.total.count == sum(part.total.count for part in both)
        decoded = operation.total.decoded("merged")
        assert (decoded.total if decoded else 0) == operation.total.count
        for stage, times in operation.stages.items():
            assert times.sum_ns == sum(part.stages[stage].sum_ns for part in both)
