"""The report of one sweep: ``report.html``, and ``report.json`` with every number in it.

`build_report` either writes both files whole or raises: a number that is not finite, an empty figure, a placeholder or a page above the
size limit stops it. What stands on the page, `assembling` says.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from weir_lab import __version__
from weir_lab.design import Kind, load_study
from weir_lab.errors import ReportError
from weir_lab.records import Run, read_runs, read_sweep, write_json, write_text
from weir_lab.report.numbers.analysis import Analysis, analyse
from weir_lab.report.numbers.findings import judge_predictions
from weir_lab.report.page.html import html_page
from weir_lab.report.sets.twin import compared, plain, read_twin
from weir_lab.report.single.assembling import assemble_sweep, offers_rates

if TYPE_CHECKING:
    from weir_lab.design import Study
    from weir_lab.records.places import TestbedRecord
    from weir_lab.report.numbers.sweeps import TwoLevelDesign
    from weir_lab.report.page.blocks import Report
    from weir_lab.report.sets.twin import Verified

__all__ = ["SCHEMA", "ReportFiles", "build_report", "load_analysis", "of_a_sweep", "verify_sweep"]

SCHEMA = "weir.report/1"


@dataclasses.dataclass(frozen=True)
class ReportFiles:
    """Where the report was written, and the numbers in it."""

    html: Path
    json: Path
    answer: str
    limits: tuple[str, ...]
    analysis: Analysis | None
    """Not of studies without load, of single traces, and of open loops."""

    @property
    def numbers(self) -> Analysis:
        """The analysis, where there is one."""
        if self.analysis is None:
            raise ReportError(
                f"{self.html}: a study without load, of single traces, or of open loops has no numbers of closed loops."
            )
        return self.analysis


def build_report(sweep: Path) -> ReportFiles:
    """Build the report of a sweep's folder into that folder."""
    made = _make(sweep)
    html, twin = sweep / "report.html", sweep / "report.json"
    write_json(twin, made.twin)
    write_text(html, made.page)
    return ReportFiles(html, twin, made.twin["answer"], tuple(made.twin["limits"]), made.analysis)


def of_a_sweep(path: Path) -> bool:
    """Whether a page or twin shows one sweep; what cannot be read is not."""
    try:
        found = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("schema") == SCHEMA


def verify_sweep(path: Path) -> Verified:
    """Compute every number of a sweep's report, given by its page or its twin, again from the run folders beside it."""
    printed = read_twin(path, SCHEMA)
    again = _make(path.parent)
    return compared(path, printed, again.twin, {f"{path.stem}.html": again.page})


@dataclasses.dataclass(frozen=True)
class _Made:
    page: str
    twin: dict[str, Any]
    analysis: Analysis | None


def _make(sweep: Path) -> _Made:
    analysis, runs, interrupted = _load(sweep)
    report = assemble_sweep(sweep, analysis, runs, interrupted)
    return _Made(html_page(report), _twin(report, analysis, runs, sweep), analysis)


def load_analysis(sweep: Path) -> tuple[Analysis, list[Run], list[Path]]:
    """All numbers of a sweep's folder, its finished runs and the folders of interrupted ones."""
    study = _study(sweep)
    runs, interrupted = read_runs(sweep)
    return analyse(study, read_sweep(sweep), runs), runs, interrupted


def _load(sweep: Path) -> tuple[Analysis | None, list[Run], list[Path]]:
    """The same, without numbers of closed loops where a study has no load, runs each of its traces once, or offers a rate."""
    study = _study(sweep)
    if not study.kind.runs_load or (study.kind is Kind.TRACE and study.plan.repetitions == 1) or offers_rates(study):
        return None, *read_runs(sweep)
    return load_analysis(sweep)


def _study(sweep: Path) -> Study:
    if not (sweep / "sweep.json").exists():
        raise ReportError(f"{sweep}: no sweep here. Make one with `weir-lab run STUDY --out {sweep}`.")
    return load_study(sweep / "study.toml")


def _twin(report: Report, analysis: Analysis | None, runs: list[Run], sweep: Path) -> dict[str, Any]:
    """Every number of the report, in the units that the names end in."""
    whole = {
        "schema": SCHEMA,
        "weir_lab_version": __version__,
        "study": _study(sweep).model_dump(mode="json", by_alias=True),
        "answer": report.answer,
        "limits": list(report.limits),
        "details": list(report.details),
        "sections": plain(report.sections),
    }
    if analysis is None:
        return whole
    return {
        **whole,
        "testbed": _plain(_testbed(analysis, runs), sweep),
        "points": [_plain(point, sweep) for point in analysis.points],
        "comparisons": [_plain(comparison, sweep) for comparison in analysis.comparisons],
        "designs": [_plain_design(design) for design in analysis.designs],
        "no_design": analysis.no_design,
        "interval_doubts": analysis.doubts,
        "interval_basis": analysis.basis,
        "series": [_plain(series, sweep) for series in analysis.series],
        "predictions": [_plain(judged, sweep) for judged in judge_predictions(analysis)],
        "runs": [_plain(run, sweep) for run in analysis.used],
        "invalid": [{"folder": run.folder.name, "reasons": run.meta.verdict.reasons} for run in analysis.invalid],
        "flagged": [{"folder": run.folder.name, "flags": run.meta.verdict.flags} for run in analysis.flagged],
        "stale_runs": analysis.stale,
    }


def _plain_design(design: TwoLevelDesign) -> dict[str, Any]:
    """A 2^k r design: its terms on both scales, and the checks of the one to read."""
    scales = {"additive": design.choice.additive, "logarithmic": design.choice.logarithmic}
    return {
        "response": design.response,
        "unit": design.unit,
        "factors": [dataclasses.asdict(factor) for factor in design.factors],
        "scale": str(design.choice.scale),
        "reasons": list(design.choice.reasons),
        "checks": dataclasses.asdict(design.checks),
        "repetitions": design.read.repetitions,
        **{
            name: {
                "effects": [dataclasses.asdict(effect) for effect in fit.effects],
                "sse": fit.sse,
                "sst": fit.sst,
                "percent_error": fit.percent_error,
                "percent_blocks": fit.percent_blocks,
                "sd_error": fit.sd_error,
                "residuals": fit.residuals.tolist(),
            }
            for name, fit in scales.items()
            if fit is not None
        },
    }


def _testbed(analysis: Analysis, runs: list[Run]) -> TestbedRecord | None:
    """Where the newest of the used runs was made; ``None`` in records that are older than testbeds."""
    used = {number.folder for number in analysis.used}
    newest = max((run for run in runs if run.folder in used), key=lambda run: run.meta.started_unix_ns)
    return newest.meta.testbed


def _plain(value: Any, sweep: Path) -> Any:
    """Dataclasses, enums and paths as what JSON knows."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), sweep) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item, sweep) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, sweep) for item in value]
    if isinstance(value, Path):
        return value.relative_to(sweep).as_posix()
    return value
