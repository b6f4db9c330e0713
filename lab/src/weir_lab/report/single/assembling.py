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
from weir_lab.report.numbers.comparing import basis_of, cell_key, model_of, response_of
from weir_lab.report.numbers.findings import answer, check_sentences, cpu_sentence, limit_sentences, spoken_of
from weir_lab.report.numbers.interval_doubts import interval_doubts
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.page.blocks import Figure, Report, Section, Table, Text
from weir_lab.report.sections import (
    clients,
    effects,
    models,
    multigets,
    placement,
    replication,
    smaller,
    traces,
)
from weir_lab.report.sections.comparisons import beside
from weir_lab.report.sets.assembling import facts_of
from weir_lab.report.single import capacities, levels, listing, open_answers, open_loops, overhead, roles
from weir_lab.report.single.offered import curves_of, limit_of
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.records import Run
    from weir_lab.report.numbers.analysis import Analysis
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Block

__all__ = ["assemble_sweep", "offers_rates"]

_STUDY = "study.toml"
_ELSEWHERE = {"maxima", "slope", "proxy", "queue-service", "queue-length", "stages"}
# The one subject whose counters tell stages.
_TELLS = "weir"
_EMPTY = ("–", "", "no links here")
_Kind = Literal[
    "clients", "beside", "replication", "writes", "multigets", "micro", "trace", "effects", "models", "hash", "links"
]


_TITLES: dict[_Kind, str] = {
    "hash": "Keys on servers",
    "links": "What the links carry",
    "micro": "What placing a key costs",
    "trace": "Over time",
    "beside": "Side by side",
    "replication": "Replicas",
    "writes": "Shares of writes",
    "multigets": "Multi-gets",
}


def assemble_sweep(sweep: Path, analysis: Analysis | None, runs: Sequence[Run], interrupted: Sequence[Path]) -> Report:
    """The report of a sweep's folder, from its numbers (`Analysis`) and the readings of the same runs.

    Studies without load, single traces and open loops have no `Analysis`: their pages have the sections of their kind, design and runs.

    Raises
    ------
    ReportError
        If no run is valid.
    """
    readings = read_cells(_STUDY, sweep, [run.folder.name for run in analysis.used] if analysis is not None else None)
    study, names = readings.study, set(readings.run_names)
    used = [run for run in runs if run.folder.name in names]
    if not used:
        raise ReportError(f"{sweep}: no valid run of this study here. Make some with `weir-lab run`.")
    newest = max(used, key=lambda run: run.meta.started_unix_ns)
    if analysis is not None:
        own = _measured(analysis, readings, newest)
    elif offers_rates(study):
        own = [_section(name, title, blocks) for name, title, blocks in _offered(readings)]
    else:
        own = [_section(kind, title, _built(kind, readings)) for kind, title in _kinds(readings)]
    sections = [
        *own,
        _section("design", "Design", listing.build_design(study, analysis)),
        _section("machines", "Where it ran", listing.build_machines(newest.meta.testbed, newest.meta.targets)),
        _section("runs", "Runs", listing.build_runs(names, runs, interrupted, runs_folder(sweep).name)),
    ]
    return Report(
        study.name,
        study.title,
        "",
        study.pace or "",
        newest.meta.testbed.kind if newest.meta.testbed else "local",
        (),
        tuple(section for section in sections if section.blocks),
        tuple(_facts(readings, newest)),
        {_STUDY: runs_folder(sweep).name},
        under=_under(study.name, used),
        answer=answer(analysis) if analysis is not None else _summary(readings),
        limits=_limits(readings, analysis),
        details=tuple(check_sentences(analysis)) if analysis is not None else (),
        doubts=tuple(analysis.doubts) if analysis is not None else _doubts(readings),
        basis=tuple(analysis.basis) if analysis is not None else _basis(readings),
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
            (
                "and every number is computed again and held against page and twin by",
                "weir-lab verify FOLDER/report.html",
            ),
        ),
    )


def offers_rates(study: Study) -> bool:
    """Whether requests come at rates of their own, given by the study or looked for."""
    return study.find is not None or (study.kind.runs_load and any(cell.settings.is_open for cell in cells_of(study)))


def _offered(readings: SweepReadings) -> list[tuple[str, str, list[Block]]]:
    """Sections of open loops, or of a search for a capacity."""
    sections = capacities.sections if readings.study.find is not None else open_loops.sections
    return sections(_task("clients", readings))


def _doubts(readings: SweepReadings) -> tuple[str, ...]:
    """About intervals of the levels that an open loop kept up with."""
    cells = _kept(readings)
    model = model_of(cells, response_of) if cells else None
    if model is None:
        return ()
    stops_from = readings.study.plan.repetitions if readings.study.plan.stop is not None else None
    return tuple(interval_doubts(model, {cell_key(cell): cell.cell.name for cell in cells}, stops_from))


def _basis(readings: SweepReadings) -> tuple[str, ...]:
    """Of the levels that an open loop kept up with; a search has an interval of its own kind."""
    cells = _kept(readings)
    found = basis_of(cells) if cells else ""
    return (found,) if found else ()


def _kept(readings: SweepReadings) -> list[CellReadings]:
    if not offers_rates(readings.study) or readings.study.find is not None:
        return []
    return [cell for one in curves_of(readings) for cell in one.kept]


def _measured(analysis: Analysis, readings: SweepReadings, newest: Run) -> list[Section]:
    """Sections of a study with load."""
    silent, tells = roles.silence(_silent(analysis)), any(point.proxy is not None for point in analysis.points)
    said = cpu_sentence(analysis)
    cpu = [*([Text(said)] if said else []), *roles.build_cpu(analysis, int(newest.meta.machine.get("cores", 0)))]
    costs = overhead.build(analysis, newest.meta.settings.servers) if analysis.comparisons else []
    return [
        _section("overhead", "What the proxy costs", costs),
        _section("load", "Throughput and response time", _load(analysis, readings)),
        *(_section(kind, title, _built(kind, readings)) for kind, title in _kinds(readings)),
        _section("stages", "Stages inside the proxy", [*roles.build_stages(analysis), *silent] if tells else []),
        _section("cpu", "CPU time", cpu if tells else [*cpu, *silent]),
        _section("models", "Knee and models", _built("models", readings) if _over_clients(readings) else []),
        _section("effects", "Effects of the factors", _effects(readings) if analysis.designs else []),
    ]


def _kinds(readings: SweepReadings) -> list[tuple[_Kind, str]]:
    """The kinds of sections that look at what this study varies, or at what it is."""
    kind, varied, shares = readings.study.kind, readings.varied, readings.study.factors.get("write_ratio", [])
    # Reads and writes alone are two workloads, which every figure tells apart; so are those that the study analyses apart.
    mixes = "write_ratio" in varied and "write_ratio" not in readings.study.apart and set(shares) - {0, 1}
    one_load = not _over_clients(readings)
    wanted: dict[_Kind, bool] = {
        "hash": kind is Kind.HASH,
        "links": kind is Kind.LINKS,
        "micro": kind is Kind.MICRO,
        "trace": kind is Kind.TRACE,
        "beside": "subject" in varied,
        "replication": one_load and "replicas" in varied and not mixes,
        "writes": one_load and bool(mixes),
        "multigets": "multiget_keys" in varied,
    }
    return [(name, _TITLES[name]) for name, asked in wanted.items() if asked]


def _summary(readings: SweepReadings) -> str:
    """The answer of an open loop or a search; one sentence on a study without load, or on a single trace."""
    if offers_rates(readings.study):
        return capacities.answer(readings) if readings.study.find is not None else open_answers.answer(readings)
    if readings.study.kind is Kind.HASH:
        return placement.summary(_task("hash", readings))
    if readings.study.kind is Kind.TRACE:
        return traces.summary(_task("trace", readings))
    return f"{count_text(len(readings.run_names), 'run')} measured what this machine's links carry, and how long round trips take."


def _limits(readings: SweepReadings, analysis: Analysis | None) -> tuple[str, ...]:
    """What limits a closed loop, an open one, or near a capacity; studies without load and single traces have nothing that does."""
    if analysis is not None:
        return (_station(readings, analysis), *limit_sentences(analysis))
    if not offers_rates(readings.study):
        return ()
    return capacities.limits(readings) if readings.study.find is not None else open_answers.limits(readings)


def _station(readings: SweepReadings, analysis: Analysis) -> str:
    """The station that limits at the cell that the answer begins with, or the busiest."""
    point, where = spoken_of(analysis)
    cell = next(one for one in readings.cells if dict(one.cell.levels) == dict(point.levels))
    said = limit_of(readings, cell).sentence
    return f"{where}, {said[0].lower()}{said[1:]}"


def _links(task: Task) -> list[Block]:
    """Of a study of links, on the testbed that it had."""
    testbed = task.first.testbed
    if testbed is None:
        raise ReportError("no record of the testbed is there")
    return smaller.build_links(task, testbed)


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


def _task(kind: _Kind, readings: SweepReadings) -> Task:
    name = "load" if kind == "clients" else kind
    return Task(SectionSpec(name=name, title=_TITLES.get(kind, name), kind=kind, files=[_STUDY]), (readings,))


def _built(kind: _Kind, readings: SweepReadings) -> list[Block]:
    """What a builder of whole studies makes of this one sweep; its reason where the sweep is too thin for it."""
    try:
        return _BUILDERS[kind](_task(kind, readings))
    except (ValueError, ReportError) as error:
        return [Text(f"What is there is too thin for this section: {error}", note=True)]


def _load(analysis: Analysis, readings: SweepReadings) -> list[Block]:
    tail = levels.percentiles(analysis)
    first: list[Block] = [levels.headline(analysis), *([tail] if tail else [])]
    if _over_clients(readings) or readings.varied in (["readers"], ["workers"]):
        built = [one for one in _built("clients", readings) if not _elsewhere(one)]
        return [*built[:1], *first, *built[1:]]
    return [*first, *levels.build(_task("clients", readings)), levels.laws(analysis)]


def _effects(readings: SweepReadings) -> list[Block]:
    """Without the raw values of the corners: all runs stand in the figures above, and in their data."""
    return [one for one in _built("effects", readings) if not (isinstance(one, Table) and one.name.endswith("-runs"))]


def _elsewhere(block: Block) -> bool:
    """What the section of stages shows at every level, or what only a report of many sweeps has room for."""
    name = "" if isinstance(block, Text) else block.name.removesuffix("-data")
    return name.removeprefix("load-") in _ELSEWHERE


def _over_clients(readings: SweepReadings) -> bool:
    return len({cell.settings.clients for cell in readings.cells}) > 1


def _silent(analysis: Analysis) -> list[str]:
    """Subjects that tell nothing of themselves, by name."""
    proxied = [cell.settings for cell in cells_of(analysis.study) if cell.settings.path is RequestPath.PROXY]
    return list(dict.fromkeys(settings.subject for settings in proxied if settings.subject != _TELLS))


def _facts(readings: SweepReadings, newest: Run) -> list[tuple[str, str]]:
    hashes = [
        (f"{name}, SHA-256", state) for name, state in newest.meta.executables.items() if name.startswith("[subjects.")
    ]
    return [*facts_of([readings]), *hashes]


def _under(name: str, used: Sequence[Run]) -> str:
    first, last = min(run.meta.started_unix_ns for run in used), max(run.meta.ended_unix_ns for run in used)
    return f"Study {name}: {count_text(len(used), 'valid run')}, made {_utc(first)} to {_utc(last)} UTC,"


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


_BUILDERS: dict[_Kind, Callable[[Task], list[Block]]] = {
    "clients": clients.build,
    "beside": beside.build,
    "replication": replication.build_replication,
    "writes": replication.build_writes,
    "multigets": multigets.build,
    "micro": smaller.build_micro,
    "trace": traces.build,
    "effects": effects.build,
    "models": models.build,
    "hash": placement.build,
    "links": _links,
}
