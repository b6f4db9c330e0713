"""A sweep becomes a `Report` of the builders that whole studies use, each where the sweep has what it looks at: `assemble_sweep`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from weir_lab.design import Kind, RequestPath, cells_of
from weir_lab.design.whole.sets import SectionSpec
from weir_lab.errors import ReportError
from weir_lab.records import runs_folder
from weir_lab.report.common import Task
from weir_lab.report.numbers.findings import answer, cpu_sentence
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.page.blocks import Figure, Report, Section, Table, Text
from weir_lab.report.sections import beside, clients, effects, models, multigets, traces
from weir_lab.report.sets.assembling import facts_of
from weir_lab.report.single import levels, listing, overhead, roles
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weir_lab.records import Run
    from weir_lab.report.numbers.analysis import Analysis
    from weir_lab.report.numbers.readings import SweepReadings
    from weir_lab.report.page.blocks import Block

__all__ = ["assemble_sweep"]

_STUDY = "study.toml"
_ELSEWHERE = {"maxima", "slope", "proxy", "queue-service", "queue-length", "stages"}
# The one subject whose counters tell stages.
_TELLS = "weir"
_EMPTY = ("–", "", "no links here")
_Kind = Literal["clients", "beside", "multigets", "trace", "effects", "models"]
_BUILDERS: dict[str, Callable[[Task], list[Block]]] = {
    "clients": clients.build,
    "beside": beside.build,
    "multigets": multigets.build,
    "trace": traces.build,
    "effects": effects.build,
    "models": models.build,
}


def assemble_sweep(sweep: Path, analysis: Analysis, runs: Sequence[Run], interrupted: Sequence[Path]) -> Report:
    """The report of a sweep's folder, from its numbers (`Analysis`) and the readings of the same runs."""
    readings = read_cells(_STUDY, sweep, [run.folder.name for run in analysis.used])
    study = analysis.study
    newest = max((run for run in runs), key=lambda run: run.meta.started_unix_ns)
    used = [run for run in runs if run.folder in {number.folder for number in analysis.used}]
    testbed = max(used, key=lambda run: run.meta.started_unix_ns).meta.testbed
    silent = _silent(analysis)
    cores = int(newest.meta.machine.get("cores", 0))
    told = [*roles.build_stages(analysis), *(roles.silence(silent) if _tells(analysis) else [])]
    sections = [
        _section("overhead", "What the proxy costs", overhead.build(analysis, newest.meta.settings.servers))
        if analysis.comparisons
        else None,
        _section("load", "Throughput and response time", _load(analysis, readings)),
        _section("beside", "Side by side", _built("beside", readings)) if "subject" in readings.varied else None,
        _section("multigets", "Multi-gets", _built("multigets", readings))
        if "multiget_keys" in readings.varied
        else None,
        _section("trace", "Over time", _built("trace", readings)) if study.kind is Kind.TRACE else None,
        _section("stages", "Stages inside the proxy", told) if _tells(analysis) else None,
        _section(
            "cpu",
            "CPU time",
            [
                *_sentence(cpu_sentence(analysis)),
                *roles.build_cpu(analysis, cores),
                *([] if _tells(analysis) else roles.silence(silent)),
            ],
        ),
        _section("models", "Knee and models", _built("models", readings)) if _over_clients(readings) else None,
        _section("effects", "Effects of the factors", _effects(readings)) if analysis.designs else None,
        _section("design", "Design", listing.build_design(analysis)),
        _section("machines", "Where it ran", listing.build_machines(testbed)),
        _section("runs", "Runs", listing.build_runs(analysis, runs, interrupted, runs_folder(sweep).name)),
    ]
    return Report(
        study.name,
        study.title,
        "",
        study.pace or "",
        testbed.kind if testbed else "local",
        (),
        tuple(section for section in sections if section is not None and section.blocks),
        tuple(_facts(readings, newest)),
        {_STUDY: runs_folder(sweep).name},
        under=_under(analysis, runs),
        answer=answer(analysis),
        doubts=tuple(analysis.doubts),
        question=study.question,
        hypothesis=study.hypothesis,
        steps=(
            (
                "This page and its twin with every number (report.json) are made from the run folders alone, by",
                "weir-lab report FOLDER",
            ),
            (
                f"where FOLDER holds {_STUDY}, sweep.json and {runs_folder(sweep).name}/. Missing runs are made, and only those, by",
                f"weir-lab run FOLDER/{_STUDY} --out FOLDER",
            ),
        ),
    )


def _section(name: str, title: str, blocks: Sequence[Block]) -> Section:
    return Section(name, title, "", "", blocks=tuple(_lean(blocks)))


def _lean(blocks: Sequence[Block]) -> list[Block]:
    """Without columns that say nothing here, and without tables of what a figure draws: its data are behind its link."""
    figures = {block.name for block in blocks if isinstance(block, Figure)}
    found: list[Block] = []
    for block in blocks:
        if not isinstance(block, Table):
            found.append(block)
            continue
        if block.name.removesuffix("-data") in figures:
            continue
        kept = [place for place in range(len(block.columns)) if any(row[place] not in _EMPTY for row in block.rows)]
        found.append(
            replace(
                block,
                columns=tuple(block.columns[place] for place in kept),
                rows=tuple(tuple(row[place] for place in kept) for row in block.rows),
            )
        )
    return found


def _built(kind: _Kind, readings: SweepReadings) -> list[Block]:
    """What a builder of whole studies makes of this one sweep; its reason where the sweep is too thin for it."""
    name = "load" if kind == "clients" else kind
    spec = SectionSpec(name=name, title=name, kind=kind, files=[_STUDY])
    try:
        return _BUILDERS[kind](Task(spec, (readings,)))
    except (ValueError, ReportError) as error:
        return [Text(f"What is there is too thin for this section: {error}", note=True)]


def _load(analysis: Analysis, readings: SweepReadings) -> list[Block]:
    tail = levels.percentiles(analysis)
    first: list[Block] = [levels.headline(analysis), *([tail] if tail else [])]
    if _over_clients(readings) or readings.varied in (["readers"], ["workers"]):
        built = [one for one in _built("clients", readings) if not _elsewhere(one)]
        return [*built[:1], *first, *built[1:]]
    spec = SectionSpec(name="load", title="load", kind="clients", files=[_STUDY])
    return [*first, *levels.build(Task(spec, (readings,))), levels.laws(analysis)]


def _effects(readings: SweepReadings) -> list[Block]:
    """Without the raw values of the corners: all runs stand in the figures above, and in their data."""
    return [one for one in _built("effects", readings) if not (isinstance(one, Table) and one.name.endswith("-runs"))]


def _elsewhere(block: Block) -> bool:
    """What the section of stages shows at every level, or what only a report of many sweeps has room for."""
    name = "" if isinstance(block, Text) else block.name.removesuffix("-data")
    return name.removeprefix("load-") in _ELSEWHERE


def _over_clients(readings: SweepReadings) -> bool:
    return len({cell.settings.clients for cell in readings.cells}) > 1


def _tells(analysis: Analysis) -> bool:
    return any(point.proxy is not None for point in analysis.points)


def _silent(analysis: Analysis) -> list[str]:
    """Subjects that tell nothing of themselves, by name."""
    proxied = [cell.settings for cell in cells_of(analysis.study) if cell.settings.path is RequestPath.PROXY]
    return list(dict.fromkeys(settings.subject for settings in proxied if settings.subject != _TELLS))


def _sentence(text: str) -> list[Block]:
    return [Text(text)] if text else []


def _facts(readings: SweepReadings, newest: Run) -> list[tuple[str, str]]:
    hashes = [
        (f"{name}, SHA-256", state) for name, state in newest.meta.executables.items() if name.startswith("[subjects.")
    ]
    return [*facts_of([readings]), *hashes]


def _under(analysis: Analysis, runs: Sequence[Run]) -> str:
    first, last = min(run.meta.started_unix_ns for run in runs), max(run.meta.ended_unix_ns for run in runs)
    return f"Study {analysis.study.name}: {count_text(len(analysis.used), 'valid run')}, made {_utc(first)} to {_utc(last)} UTC,"


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
