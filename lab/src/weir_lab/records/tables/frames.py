"""Sweeps for tools of the field: `load_sweep` gives a pandas DataFrame, `write_parquet` a Parquet file.

pandas and pyarrow are extras (``pip install 'weir-lab[tables]'``, ``'weir-lab[parquet]'``): nothing else here needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.design import load_study
from weir_lab.errors import ReportError
from weir_lab.records.runs import read_run_metas, read_sweep
from weir_lab.records.tables.run_rows import run_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_sweep", "write_parquet"]


def load_sweep(sweep: Path | str) -> pd.DataFrame:
    """Every run of a sweep as a row: factors, responses, CPU time (`run_rows` lists the columns); read from the run folders.

    Runs that do not count are in it: ``frame.query("valid and current")`` leaves them out. Texts of factors and runs are categories in
    the order of the study. ``frame.attrs`` has name, title, question and hypothesis of the study.

    Raises `ReportError` without pandas, `RecordError` or `StudyError` where the folder holds no sweep or a damaged one.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ReportError(
            "load_sweep needs pandas, which is not installed: pip install 'weir-lab[tables]'. Or read runs.csv."
        ) from error
    folder = Path(sweep)
    study = load_study(folder / "study.toml")
    frame = pd.DataFrame(run_rows(study, read_sweep(folder).executables, read_run_metas(folder)))
    for name, levels in study.factors.items():
        if name in frame and any(isinstance(level, str) for level in levels):
            seen = [level for level in dict.fromkeys([*levels, *frame[name]]) if (frame[name] == level).any()]
            frame[name] = pd.Categorical(frame[name], categories=seen, ordered=False)
    frame.attrs = {name: getattr(study, name) for name in ("name", "title", "question", "hypothesis")}
    return frame


def write_parquet(sweep: Path) -> Path:
    """``runs.parquet`` beside ``runs.csv``: the same columns, with their types."""
    try:
        import pyarrow  # noqa: F401 - asked for by name, so that what is missing can be said
    except ImportError as error:
        raise ReportError(
            "--parquet needs pyarrow, which is not installed: pip install 'weir-lab[parquet]'."
        ) from error
    file = sweep / "runs.parquet"
    part = file.with_name(f"{file.name}.part")
    load_sweep(sweep).to_parquet(part, index=False)
    part.replace(file)
    return file
