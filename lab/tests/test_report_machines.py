"""Reports on runs of several machines: how many each made, and whether the machines agree."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from synthetic import write_sweep
from weir_lab.report.numbers.comparing import loops_text
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.sets.machines import awake_limits, machine_details, machine_facts

if TYPE_CHECKING:
    from pathlib import Path


def _moved(sweep: Path, repetitions: tuple[int, ...], speed: float) -> None:
    """These repetitions as if they were made on another machine, ``speed`` times as fast."""
    for folder in sorted((sweep / "runs").iterdir()):
        meta = json.loads((folder / "run.json").read_text())
        if meta["repetition"] in repetitions:
            meta["machine"]["cpu_model"] = "another"
            (folder / "run.json").write_text(json.dumps(meta))
            load = json.loads((folder / "load.json").read_text())
            load["throughput_rps"] *= speed
            (folder / "load.json").write_text(json.dumps(load))


def test_runs_of_one_machine_need_no_word(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep")
    sweeps = [read_cells("sweep.toml", tmp_path / "sweep")]
    assert machine_facts(sweeps) == []
    assert machine_details(sweeps) == ()


def test_two_machines_are_counted_and_held_against_each_other(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep")
    _moved(tmp_path / "sweep", (2,), 0.5)
    sweeps = [read_cells("sweep.toml", tmp_path / "sweep")]
    runs = [run for cell in sweeps[0].cells for run in cell.runs]
    moved = sum(run.run.meta.repetition == 2 for run in runs)
    (first, first_text), (second, second_text) = machine_facts(sweeps)
    assert (first, second) == ("machine 1", "machine 2")
    assert first_text.endswith(f": {len(runs) - moved} valid runs")
    assert "cpu model another" in second_text
    assert second_text.endswith(f": {moved} valid runs")
    # A run that loaded nothing (links, keys) is one of that machine, too.
    unloaded = SimpleNamespace(meta=runs[0].run.meta)
    with_it = [replace(sweeps[0], unloaded=(cast("Any", unloaded),))]
    assert machine_facts(with_it)[0][1].endswith(f": {len(runs) - moved + 1} valid runs")
    (line,) = machine_details(sweeps)
    assert f"In {len(sweeps[0].cells)} cells with runs of both, throughput on machine 2 is 0." in line
    assert 0.45 < float(line.split("throughput on machine 2 is ")[1].split()[0]) < 0.55


def test_sweeps_whose_machines_lost_time_to_the_loop_are_named_where_others_lost_none() -> None:
    """Of S3's 15 sweeps four had a loop that gives way, and the page spoke of all of them, and compared both kinds without a word."""

    def sweep(name: str, *, took: bool) -> Any:
        return SimpleNamespace(folder=SimpleNamespace(name=name), testbed=SimpleNamespace(awake_took_time=took))

    slow, slower, fast = sweep("s3-2.1", took=True), sweep("s3-3.1", took=True), sweep("s3-3.2", took=False)
    (limit,) = awake_limits([slow, slower, fast])
    assert limit.startswith(
        "In the runs of s3-2.1 and s3-3.1 the loop that kept cores awake took CPU time from the machines: rates are"
    )
    (limit,) = awake_limits([slow, slower])
    assert limit.startswith("The loop that kept cores awake took CPU time")
    assert awake_limits([fast]) == ()
    assert loops_text([slow, slower, fast]).startswith(
        " In the runs of s3-2.1 and s3-3.1 alone the loop that keeps cores awake took"
    )
    assert loops_text([slow, slower]) == loops_text([fast]) == loops_text([]) == ""
    # What was made without a testbed of its own has no such loop.
    assert "In the runs of s3-2.1 alone" in loops_text(
        [slow, cast("Any", SimpleNamespace(folder=fast.folder, testbed=None))]
    )
