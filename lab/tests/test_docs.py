from __future__ import annotations

import re
from pathlib import Path

from weir_lab.design import (
    Expected,
    Gates,
    Night,
    PacePlan,
    Plan,
    Prediction,
    Refinement,
    Search,
    Settings,
    Stop,
    Study,
    Subject,
)

_PARTS = (Expected, Gates, Night, PacePlan, Plan, Prediction, Refinement, Search, Settings, Stop, Subject)
PAGE = (Path(__file__).parents[2] / "docs" / "measure" / "study-file.md").read_text()


def test_every_key_of_a_study_is_documented_and_no_other() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| `")]
    first_cells = [re.findall(r"`([^`]+)`", row.split(" | ")[0]) for row in rows]
    documented = {word for cell in first_cells for word in cell if re.fullmatch(r"[a-z0-9_]+", word)}
    keys = {name for model in _PARTS for name in model.model_fields}
    keys |= {field.alias or name for name, field in Study.model_fields.items()}
    tables = {"fixed", "factors", "plan", "gates", "predictions", "search", "topology"}
    assert documented - tables == keys - tables
    assert all(f"[{table}]" in PAGE for table in tables)
