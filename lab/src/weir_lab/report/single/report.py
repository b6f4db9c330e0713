"""Numbers and figures become one HTML file that opens offline and prints, and ``report.json`` with every number in it.

`build_report` either writes both files whole or raises: an undefined value, a number that is not finite, an empty figure, a placeholder
or a page above the size limit stops it.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from pydantic import BaseModel

from weir_lab import __version__
from weir_lab.bench.machine.facts import describe
from weir_lab.bench.programs.subjects import WEIR
from weir_lab.design import RequestPath, Response, Role, Settings, cells_of, load_study
from weir_lab.errors import ReportError
from weir_lab.records import Run, read_runs, read_sweep, runs_folder, write_json
from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.analysis import PERCENTILES, Analysis, analyse
from weir_lab.report.numbers.findings import RESPONSE_NAMES, answer, judge_predictions
from weir_lab.report.single.drawing import Figure
from weir_lab.report.single.plots import all_figures
from weir_lab.report.single.plots_sweeps import SERIES_SHOWN, model_figure, residual_figure, sweep_figures
from weir_lab.theory import units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weir_lab.records.places import TestbedRecord
    from weir_lab.report.numbers.sweeps import TwoLevelDesign

__all__ = ["BYTES_MAX", "ReportFiles", "build_report", "load_analysis", "require_complete"]

BYTES_MAX = 2_000_000

# What an unfinished page betrays itself by: words people leave, and what Python prints for a value that is not there.
_PLACEHOLDERS = re.compile(
    r"\b(TODO|TBD|FIXME|XXX|PLACEHOLDER|[Ll]orem ipsum|None|nan|NaN|inf|Undefined)\b|\{\{|\}\}|\{%|%\}|\?\?\?"
)


@dataclasses.dataclass(frozen=True)
class ReportFiles:
    """Where the report was written, and the numbers in it."""

    html: Path
    json: Path
    analysis: Analysis


def build_report(sweep: Path) -> ReportFiles:
    """Build the report of a sweep's folder into that folder."""
    analysis, runs, interrupted = load_analysis(sweep)
    page = _render(sweep, analysis, runs, interrupted, _figures(analysis))
    require_complete(page)
    html, twin = sweep / "report.html", sweep / "report.json"
    part = html.with_name("report.html.part")
    part.write_text(page, encoding="utf-8")
    write_json(twin, _twin(analysis, runs, sweep))
    os.replace(part, html)  # noqa: PTH105 - the atomic rename is the point
    return ReportFiles(html, twin, analysis)


def _figures(analysis: Analysis) -> list[Figure]:
    figures = all_figures(analysis) if analysis.comparisons else sweep_figures(analysis)
    figures += [residual_figure(design, number) for number, design in enumerate(analysis.designs)]
    shown = [series for series in analysis.series if series.knee is not None][:SERIES_SHOWN]
    return figures + [model_figure(series, number) for number, series in enumerate(shown)]


def load_analysis(sweep: Path) -> tuple[Analysis, list[Run], list[Path]]:
    """All numbers of a sweep's folder, its finished runs and the folders of interrupted ones."""
    if not (sweep / "sweep.json").exists():
        raise ReportError(f"{sweep}: no sweep here. Make one with `weir-lab run STUDY --out {sweep}`.")
    study = load_study(sweep / "study.toml")
    runs, interrupted = read_runs(sweep)
    return analyse(study, read_sweep(sweep), runs), runs, interrupted


def require_complete(page: str) -> None:
    """Raise if the page holds a placeholder, loads anything from outside, or is too large."""
    text = re.sub(r"<svg.*?</svg>|<style.*?</style>", "", page, flags=re.DOTALL)
    text = re.sub(r"\s*<[^>]*>\s*", " ", text)
    found = _PLACEHOLDERS.search(text)
    if found:
        around = text[max(0, found.start() - 40) : found.end() + 40].replace("\n", " ")
        raise ReportError(f"The report holds a placeholder, {found.group()!r}, near: {around!r}. Nothing was written.")
    outside = re.search(r"<(script|link|img|iframe)\b|@import|\bsrc=|url\((?!#)", page)
    if outside:
        raise ReportError(f"The report would load something from outside: {outside.group()!r}. Nothing was written.")
    size = len(page.encode())
    if size > BYTES_MAX:
        raise ReportError(f"The report has {size:,} bytes, more than {BYTES_MAX:,}. Nothing was written.")


def _render(sweep: Path, analysis: Analysis, runs: list[Run], interrupted: list[Path], figures: list[Figure]) -> str:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        us=units.microseconds,
        rate=units.rate,
        number=units.number,
        interval=units.interval_text,
        signed=units.signed_percent,
        change=units.change_text,
        count=units.count_text,
        digits=_digits,
        exp=math.exp,
    )
    template = (
        resources.files("weir_lab.report.single").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    )
    newest = max(runs, key=lambda run: run.meta.started_unix_ns)
    return environment.from_string(template).render(
        study=analysis.study,
        titles={name: field.title for name, field in Settings.model_fields.items()},
        analysis=analysis,
        answer=answer(analysis),
        predictions=judge_predictions(analysis),
        figures=_Named({figure.name: figure for figure in figures}),
        columns=_columns(analysis),
        direct=analysis.points_of(RequestPath.DIRECT),
        proxy=analysis.points_of(RequestPath.PROXY),
        told=[point for point in analysis.points_of(RequestPath.PROXY) if point.proxy is not None],
        silent=_silent(analysis),
        known=[series for series in analysis.series if series.knee is not None],
        series_shown=SERIES_SHOWN,
        stages=STAGES,
        roles=list(Role),
        responses={response: RESPONSE_NAMES[response] for response in Response},
        percentiles=list(PERCENTILES),
        runs=runs,
        used={number.folder.name for number in analysis.used},
        interrupted=[folder.name for folder in interrupted],
        newest=newest.meta,
        machine=describe(newest.meta.machine),
        testbed=_testbed(analysis, runs),
        runs_folder=runs_folder(sweep).name,
        span=_span(run for run in runs),
        version=__version__,
    )


class _Named(dict[str, Figure]):
    """Figures by name; one that this report does not have is empty, not an error."""

    def __missing__(self, name: str) -> None:
        return None


def _silent(analysis: Analysis) -> list[str]:
    """Subjects that tell nothing of themselves, by name."""
    proxied = [cell.settings for cell in cells_of(analysis.study) if cell.settings.path is RequestPath.PROXY]
    return list(dict.fromkeys(settings.subject for settings in proxied if settings.subject != WEIR))


def _digits(value: float) -> str:
    """Three significant digits below 1,000."""
    return units.number(value, 0 if abs(value) >= 100.0 else 1 if abs(value) >= 10.0 else 2)


def _columns(analysis: Analysis) -> dict[str, str]:
    """Factors that name a row, with their headings; clients before path where these are compared."""
    names = ["clients", "path"] if analysis.comparisons else list(analysis.factors)
    return {name: name.replace("_", " ").capitalize() for name in names}


def _span(runs: Iterable[Run]) -> tuple[str, str]:
    """Wall-clock time of the first start and the last end, UTC."""
    spans = [(run.meta.started_unix_ns, run.meta.ended_unix_ns) for run in runs]
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    return _utc(first), _utc(last)


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _twin(analysis: Analysis, runs: list[Run], sweep: Path) -> dict[str, Any]:
    """Every number of the report, in the units that the names end in."""
    return {
        "schema": "weir.report/1",
        "weir_lab_version": __version__,
        "study": analysis.study.model_dump(mode="json", by_alias=True),
        "answer": answer(analysis),
        "testbed": _plain(_testbed(analysis, runs), sweep),
        "points": [_plain(point, sweep) for point in analysis.points],
        "comparisons": [_plain(comparison, sweep) for comparison in analysis.comparisons],
        "designs": [_plain_design(design) for design in analysis.designs],
        "no_design": analysis.no_design,
        "interval_doubts": analysis.doubts,
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
