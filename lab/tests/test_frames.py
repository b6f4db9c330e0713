"""Tidy data: a row per run with its factors and all responses, as CSV, as a DataFrame, and in the notebook of the docs."""

from __future__ import annotations

import builtins
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import weir_lab
from synthetic import EXECUTABLES, STUDY_TEXT, World, write_sweep
from weir_lab.design import RequestPath
from weir_lab.errors import RecordError, ReportError, StudyError
from weir_lab.records import read_runs
from weir_lab.records.tables.frames import write_parquet
from weir_lab.records.tables.summary import write_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "sweep.ipynb"


def test_a_row_has_the_factors_and_every_response_of_its_run(sweep: Path) -> None:
    frame = weir_lab.load_sweep(sweep)
    runs, _ = read_runs(sweep)
    assert list(frame["run"]) == [run.folder.name for run in runs]
    assert len(frame) == 18
    for row, run in zip(frame.to_dict("records"), runs, strict=True):
        assert run.load is not None
        assert run.cpu is not None
        assert (row["clients"], row["path"]) == (run.meta.settings.clients, run.meta.settings.path)
        assert row["throughput_rps"] == run.load.throughput_rps
        assert row["mean_response_time_us"] == pytest.approx(
            run.load.response_time_sum_ns / run.load.response_time_count / 1e3
        )
        times = run.load.response_times()
        assert times is not None
        for percent in (50, 90, 95, 99, 99.9):
            expected = times.percentile(percent)
            if expected is None:
                assert pd.isna(row[f"p{percent:g}_us"])
            else:
                assert row[f"p{percent:g}_us"] == expected / 1e3
        # Made by the synthetic world: 8, 9 and 12 µs of CPU time per request, over the two seconds of the measured phase.
        assert row["client_cpu_us_per_request"] == pytest.approx(8.0, rel=1e-3)
        assert row["servers_cpu_us_per_request"] == pytest.approx(9.0, rel=1e-3)
        proxied = row["path"] == RequestPath.PROXY
        assert (
            row["proxy_cpu_us_per_request"] == pytest.approx(12.0, rel=1e-3)
            if proxied
            else pd.isna(row["proxy_cpu_us_per_request"])
        )
        assert pd.isna(row["stage_backend_us"]) is not proxied
    assert list(frame["path"].cat.categories) == ["direct", "proxy"]
    assert frame.attrs["question"] == "What does the proxy cost here?"


def test_runs_that_do_not_count_are_marked(tmp_path: Path) -> None:
    made = write_sweep(tmp_path / "bad", World(misses=3))
    frame = weir_lab.load_sweep(tmp_path / "bad")
    assert not frame["valid"].any()
    assert frame["current"].all()
    assert "throughput_rps" not in frame
    assert frame["reasons"].str.contains("misses").all()
    outgrown = STUDY_TEXT.replace("keys = 100", "keys = 200")
    (tmp_path / "bad" / "study.toml").write_text(outgrown)
    assert not weir_lab.load_sweep(tmp_path / "bad")["current"].any()
    write_tables(tmp_path / "bad", made, EXECUTABLES)
    rows = list(csv.DictReader((tmp_path / "bad" / "runs.csv").read_text().splitlines()))
    assert {(row["valid"], row["current"]) for row in rows} == {("false", "true")}


def test_the_csv_and_the_frame_say_the_same(tmp_path: Path) -> None:
    made = write_sweep(tmp_path / "tiny")
    write_tables(tmp_path / "tiny", made, EXECUTABLES)
    read, frame = pd.read_csv(tmp_path / "tiny" / "runs.csv"), weir_lab.load_sweep(tmp_path / "tiny")
    assert list(read.columns) == list(frame.columns)
    for name in frame.select_dtypes("number"):
        pd.testing.assert_series_equal(read[name].astype(float), frame[name].astype(float), rtol=1e-8)


def test_what_is_no_sweep_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="study file cannot be read"):
        weir_lab.load_sweep(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY_TEXT)
    with pytest.raises(RecordError, match=r"sweep\.json: cannot be read"):
        weir_lab.load_sweep(tmp_path)


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def imported(
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, globals_, locals_, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", imported)


def test_what_is_not_installed_is_named_with_the_extra(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        without(patch, "pandas")
        with pytest.raises(ReportError, match=r"weir-lab\[tables\]"):
            weir_lab.load_sweep(sweep)
    with monkeypatch.context() as patch:
        without(patch, "pyarrow")
        with pytest.raises(ReportError, match=r"weir-lab\[parquet\]"):
            write_parquet(sweep)


def test_parquet_keeps_the_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_sweep(tmp_path / "tiny")
    read = pd.read_parquet(write_parquet(tmp_path / "tiny"))
    pd.testing.assert_frame_equal(read, weir_lab.load_sweep(tmp_path / "tiny"))


def test_importing_the_laboratory_imports_nothing_heavy() -> None:
    code = "import sys, weir_lab; print([name for name in ('pandas', 'numpy', 'scipy', 'pydantic') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_notebook_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sweep(tmp_path / "runs" / "demo")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells, start=1):
        exec(compile(cell, f"{NOTEBOOK.name}, code cell {number}", "exec"), names)
    # In the synthetic world requests through the proxy take twice as long.
    assert names["change"].to_list() == pytest.approx([-50.0] * 3, abs=6.0)
    assert (names["low"] < names["change"]).all()
    assert (names["change"] < names["high"]).all()
