"""Sweeps and a set become a `Report`: every section from its own sweeps, with what is missing said in its place. Start with `assemble`."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weir_lab.design import Study, load_study
from weir_lab.design.whole.sets import sweep_folder
from weir_lab.errors import ReportError
from weir_lab.report.common import Task, cell_name, cell_words, design_rows, marked_as_in, own_levels, with_tables
from weir_lab.report.numbers.comparing import basis_of
from weir_lab.report.numbers.readings import SweepReadings, read_cells
from weir_lab.report.numbers.stations import links_off, note_words
from weir_lab.report.page.arranging import behind_figures, differs_text, with_first
from weir_lab.report.page.blocks import RUNS, TRUST, Expectation, Report, Section, Text
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
from weir_lab.report.sections.claims import (
    FAMILY_TEXT,
    Held,
    Weighed,
    confirm_set,
    explained_of,
    judge_set,
    verdicts_of,
    what_limits,
    with_expected,
)
from weir_lab.report.sections.comparisons import beside, overhead, price
from weir_lab.report.sets.machines import (
    awake_limits,
    machine_details,
    machine_facts,
    period_ns,
    scale_texts,
    shared_text,
    speed_facts,
    within_text,
)
from weir_lab.report.sets.quotas import cores_limits, quota_check, quota_details, quota_limits
from weir_lab.report.sets.results import (
    CHANGED,
    again_blocks,
    drift_limits,
    in_part_text,
    is_in_limits,
    limits_table,
    results_of,
    single_text,
    stopped,
)
from weir_lab.report.sets.system import system_section
from weir_lab.report.sets.terms import INTERVALS, TWO_RUNS, terms_section
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from weir_lab.design.whole.sets import SectionSpec, StudySet
    from weir_lab.records.places import TestbedRecord
    from weir_lab.report.page.blocks import Block, Finding, Table
    from weir_lab.report.sections.claims import Explained

__all__ = ["Sources", "assemble", "facts_of"]

# Results of each workload, what else was found, and how many conclusions hold.
_SUMMARY_MAX = 6
_RESULTS_MAX = 3
# Whose design a file of ours has.
_OURS = "Weir"
_NOT = "does not hold"
_BEHIND = ("clients", "micro")
_VERDICTS = ("holds", _NOT, "cannot tell", "no data")
# What these sections find stands in no other place of a page's head: not in its answer, and not in the table of what limits.
_HEAD_KINDS = ("models", "hash")
# Of conclusions that do not hold this number is named in the summary.
_NAMED_MAX = 6


@dataclass(frozen=True)
class _Kind:
    """How a kind of section is built, summed up in a line, and what it concludes."""

    build: Callable[[Task], list[Block]]
    summary: Callable[[Task], str] | None = None
    conclusions: Callable[[Task], dict[str, str]] | None = None


_BUILDERS = {
    "clients": _Kind(clients.build, clients.summary, clients.conclusions),
    "replication": _Kind(replication.build_replication, replication.replication_summary, replication.conclusions),
    "writes": _Kind(replication.build_writes, replication.writes_summary, replication.conclusions),
    "multigets": _Kind(multigets.build, multigets.summary, multigets.conclusions),
    "trace": _Kind(traces.build, traces.summary, traces.conclusions),
    "effects": _Kind(effects.build, effects.summary, effects.conclusions),
    "models": _Kind(models.build, models.summary),
    "overhead": _Kind(overhead.build, overhead.summary),
    "micro": _Kind(smaller.build_micro, smaller.micro_summary),
    "beside": _Kind(beside.build, beside.summary, clients.conclusions),
    "hash": _Kind(placement.build, placement.summary, placement.conclusions),
}
# The answer takes these first, one of each kind before a second of any.
_WEIGHT = (
    "clients",
    "beside",
    "effects",
    "multigets",
    "replication",
    "writes",
    "overhead",
    "trace",
    "models",
    "hash",
    "micro",
)


@dataclass(frozen=True)
class Sources:
    """Where sweeps are, and, to verify, which of their runs were used; ``studies`` has the study files of sections without runs."""

    root: Path
    studies: Path
    only: Mapping[str, tuple[str, ...]] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


def assemble(study_set: StudySet, sources: Sources, pace: str, testbed: str, *, strict: bool = False) -> Report:
    """The report of what is there. Strict: a section without runs, or with a part of them, is an error."""
    readings = {
        (file, event): found
        for file in study_set.files
        for event in (False, True)
        if (found := _read(sources, file, event=event)) is not None
    }
    known = [one.testbed for one in readings.values() if one.testbed is not None and one.links_built]
    parts = [
        _section(study_set, spec, readings, sources, known[0] if known else None, pace) for spec in study_set.sections
    ]
    checks = [check for *_, task in parts if task is not None and (check := quota_check(study_set, task)) is not None]
    sections, limiting = _judged(study_set, parts, readings, sources)
    if strict:
        absent = [f"{section.title}: {section.missing}" for section, *_ in sections if section.missing]
        if absent:
            raise ReportError("Not everything is there: " + "; ".join(absent))
    own = [one for (_, event), one in readings.items() if not event]
    with_event = [one for (_, event), one in readings.items() if event]
    system = system_section(own, study_set.lacks, study_set.added, with_event, study_set.built)
    whole = (*([system] if system is not None else []), *(section for section, *_ in sections))
    in_limits = {section.name for section, _, task in parts if task is not None and is_in_limits(task)}
    lines = {section.name: line for section, line in sections if line and section.name not in in_limits}
    if not any(section.runs for section in whole):
        raise ReportError(
            f"{sources.root}: no runs of {study_set.name} here. Make them with `weir-lab study {study_set.name}`."
        )
    tasks = [task for section, _, task in parts if task is not None and section.blocks]
    summary, others = _summary(study_set, whole, lines, results_of(tasks))
    report = Report(
        study_set.name,
        study_set.title,
        " ".join([study_set.about, *scale_texts(own)]),
        pace,
        testbed,
        summary,
        whole,
        tuple(facts_of(list(readings.values()))),
        {
            file + (" (event engine)" if event else ""): sweep_folder(sources.root, file, event=event).name
            for file, event in readings
        },
        limiting=limiting,
        under=f"Pace {pace}, testbed {testbed},",
        limits_title=TRUST,
        intervals=INTERVALS,
        limits=(
            _made(whole, list(readings.values()), single_text(tasks)),
            *quota_limits(checks, study_set.limiting.get("all", ())),
            *cores_limits(list(readings.values())),
            *drift_limits(tasks),
            *awake_limits(list(readings.values())),
        ),
        details=(
            *others,
            *quota_details(checks),
            TWO_RUNS,
            *_gates_lines(list(readings.values())),
            *machine_details(list(readings.values())),
            *_link_notes(list(readings.values())),
        ),
        of_earlier=bool(study_set.published),
        findings_text=FAMILY_TEXT if any(section.findings or section.expectations for section in whole) else "",
        changed=study_set.changed,
        steps=(
            ("The runs are made by", f"weir-lab study {study_set.name} --pace {pace} --testbed {testbed}"),
            (
                "The twin of this page (the same name, .json) has every number with the run folders that it comes from. Its numbers are "
                "computed again from the raw records by",
                f"weir-lab verify {study_set.name}.html",
            ),
            (
                "and the conclusions of two versions of the report are held against each other by",
                "weir-lab compare OLD.json NEW.json",
            ),
        ),
    )
    return replace(report, sections=(*whole, terms_section(report)))


def _read(sources: Sources, file: str, *, event: bool) -> SweepReadings | None:
    folder = sweep_folder(sources.root, file, event=event)
    if not (folder / "sweep.json").exists():
        return None
    only = None
    if sources.only is not None:
        only = sources.only.get(folder.name)
        if only is None:
            return None
    found = read_cells(file, folder, only)
    return found if found.cells or found.unloaded else None


def _section(
    study_set: StudySet,
    spec: SectionSpec,
    readings: Mapping[tuple[str, bool], SweepReadings],
    sources: Sources,
    testbed: TestbedRecord | None,
    pace: str,
) -> tuple[Section, str, Task | None]:
    sweeps = tuple(readings[file, False] for file in spec.files if (file, False) in readings)
    shown = spec.beside or pace not in ("quick", "night")
    events = tuple(readings[file, True] for file in spec.files if (file, True) in readings and shown)
    study = sweeps[0].study if sweeps else load_study(sources.studies / spec.files[0], None)
    missing = _missing(spec, sweeps, sources)
    blocks: list[Block] = []
    line, concluded = "", {}
    fewer = tuple(readings[file, False] for file in spec.fewer if (file, False) in readings)
    task = Task(spec, sweeps, events, study_set.published, study_set.margins, fewer) if sweeps else None
    if spec.kind == "links":
        stand_in = Task(spec, sweeps or tuple(list(readings.values())[:1]), (), study_set.published)
        if testbed is not None:
            blocks, missing = smaller.build_links(stand_in, testbed), ""
        elif not missing:
            missing = "the testbed has no limited links"
    elif task is not None:
        try:
            kind = _BUILDERS[spec.kind]
            blocks = with_expected(behind_figures(kind.build(task), spec.kind), task)
            line = kind.summary(task) if kind.summary is not None else ""
            concluded = kind.conclusions(task) if kind.conclusions is not None else {}
        except (ValueError, ReportError) as error:
            blocks, missing = [], f"what is there is too thin: {error}"
    errors = smaller.error_table(Task(spec, sweeps, (), study_set.published))
    if errors is not None:
        blocks.append(errors)
    if spec.differs and blocks:
        blocks.append(differs_text(study_set.published, spec.differs))
    check = quota_check(study_set, task) if task is not None and blocks else None
    if check is not None:
        blocks.append(check.table)
    basis = basis_of([cell for sweep in sweeps for cell in sweep.cells], cell_name) if blocks else ""
    if basis:
        blocks.append(Text("What the intervals rest on", _basis_points(basis), note=True, folded=True))
    blocks = with_first(blocks, stopped(task)) if task is not None and blocks else blocks
    note = _note(sweeps + events)
    if note:
        blocks.insert(0, Text(note, note=True))
    question, hypothesis, designed, planned = study.question, study.hypothesis, study, sweeps
    if spec.kind == "models":
        # Its files are those of other sections, and ask what those do.
        question = "How well do models of queues, fitted to some of the runs, predict the others?"
        hypothesis = (
            f"Throughput is predicted within {study_set.margins.prediction_throughput:g} %, and the response time within "
            f"{study_set.margins.prediction_response:g} %."
        )
    elif spec.kind == "overhead":
        # Its first file may be that of another section, without a proxy.
        question = "What does the way through the proxy cost in throughput and response time?"
        planned = tuple(one for one in reversed(sweeps) if "path" in one.varied)[:1] or sweeps
        designed = planned[0].study if planned else study
    return (
        Section(
            spec.name,
            spec.title,
            question,
            hypothesis,
            _design(designed, sources.studies / f"{designed.name}.toml", planned),
            tuple(blocks),
            (),
            missing,
            {_key(sources, one): one.run_names for one in sweeps + events + fewer},
            concluded,
            {_key(sources, one): one.invalid_names for one in sweeps + events + fewer if one.invalid},
            lacks=tuple(one.text for one in spec.lacks),
        ),
        line,
        task,
    )


def _basis_points(basis: str) -> tuple[str, ...]:
    """A point for each sentence; responses of which the same is said share one.

    >>> _basis_points("8 runs of 2 cells. throughput: error 1 %. mean response time: error 1 %")
    ('8 runs of 2 cells.', 'Throughput and mean response time: error 1 %.')
    """
    found: dict[str, list[str]] = {}
    for one in basis.split(". "):
        response, colon, said = one.partition(": ")
        found.setdefault(said if colon else one, []).append(response if colon else "")
    points = (
        f"{' and '.join(responses)}: {said}." if any(responses) else f"{said}." for said, responses in found.items()
    )
    return tuple(f"{one[0].upper()}{one[1:]}" for one in points)


def _judged(
    study_set: StudySet,
    parts: Sequence[tuple[Section, str, Task | None]],
    readings: Mapping[tuple[str, bool], SweepReadings],
    sources: Sources,
) -> tuple[list[tuple[Section, str]], Table | None]:
    """With conclusions and expectations, which are judged together, and with what was changed to confirm them; and all limits."""
    places = list(zip(study_set.sections, parts, strict=True))
    held = [
        Held(one, task, section.missing)
        for spec, (section, _, task) in places
        for one in (*spec.claims, *spec.hypotheses)
    ]
    found = iter(judge_set(held))
    changes = [
        Weighed(more, task, readings.get((more.file, False))) for spec, (_, _, task) in places for more in spec.more
    ]
    confirmed = iter(confirm_set(changes))
    judged = []
    earlier: list[Task] = []
    limiting: list[tuple[str, list[Explained]]] = []
    for spec, (section, line, task) in places:
        findings = tuple(next(found) for _ in spec.claims)
        expectations = tuple(
            Expectation(one.name, one.claim, one.verdict, one.evidence, one.p, hypothesis.from_, hypothesis.study_found)
            for hypothesis, one in zip(spec.hypotheses, itertools.islice(found, len(spec.hypotheses)), strict=True)
        )
        own = [next(confirmed) for _ in spec.more]
        shown: list[Block] = []
        if task is not None and section.blocks:
            limiting.append((section.title, explained_of(task, own)))
            shown = what_limits(task, own, limiting[-1][1])
        more = [readings[one.file, False] for one in spec.more if (one.file, False) in readings]
        cost = []
        if task is not None and section.blocks:
            cost = [*price.price_blocks(task, earlier), *again_blocks(task, earlier)]
            cost = behind_figures(with_tables(cost), spec.kind)
        if task is not None:
            earlier.append(task)
        judged.append(
            (
                replace(
                    section,
                    findings=findings,
                    expectations=expectations,
                    blocks=(*section.blocks, *cost, *shown),
                    conclusions=section.conclusions
                    | {CHANGED + name: verdict for name, verdict in verdicts_of(own).items()},
                    runs=section.runs | {_key(sources, one): one.run_names for one in more},
                    left_out=section.left_out | {_key(sources, one): one.invalid_names for one in more if one.invalid},
                ),
                line,
            )
        )
    return judged, limits_table(limiting)


def _key(sources: Sources, sweep: SweepReadings) -> str:
    return sweep.folder.relative_to(sources.root).as_posix()


def _design(study: Study, file: Path, sweeps: Sequence[SweepReadings]) -> tuple[tuple[str, str], ...]:
    """As planned and as its own ``file`` has it, with the levels that are ours, and how many runs of a cell there are."""
    study = marked_as_in(study, file)
    theirs = study.source if study.source and study.source != _OURS else ""
    planned = design_rows(study, load_study(file, "full").plan if theirs and file.is_file() else None)
    if theirs:
        planned = (("design of the study", theirs), *planned, *own_levels(study, file))
    counts = [len(cell.runs) for sweep in sweeps for cell in sweep.cells]
    if not counts:
        return planned
    ends = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    single = f"; {counts.count(1)} of {count_text(len(counts), 'cell')} with one" if 1 in counts else ""
    # A night makes runs of headline cells longer than planned.
    lengths = _lengths_text(list(sweeps))
    longer = () if lengths in ("", f"{study.plan.measured_s:g} s") else (("measured in a valid run", lengths),)
    return (*planned, *longer, ("valid runs of a cell", f"{ends}{single}"))


def _missing(spec: SectionSpec, sweeps: tuple[SweepReadings, ...], sources: Sources) -> str:
    there = {sweep.file for sweep in sweeps}
    parts = []
    for file in spec.files:
        if file not in there:
            reason = sources.reasons.get(file)
            parts.append(f"{file} has no valid runs here" + (f" ({reason})" if reason else ""))
    for sweep in sweeps:
        if sweep.absent:
            shown = ", ".join(sweep.absent[:3]) + (" and others" if len(sweep.absent) > 3 else "")
            cells = f"{len(sweep.absent)} of {len(sweep.absent) + len(sweep.cells)} cells"
            parts.append(f"{sweep.file}: {cells} {'has' if len(sweep.absent) == 1 else 'have'} no valid run ({shown})")
    return "; ".join(parts)


def _note(sweeps: tuple[SweepReadings, ...]) -> str:
    parts = []
    for sweep in sweeps:
        runs = len(sweep.run_names)
        reported = f"{sweep.folder.name}: {count_text(runs, 'run')}"
        if sweep.flagged:
            reported += f", {sweep.flagged} flagged ({_flag(sweep)})"
        if sweep.invalid:
            reported += f", {count_text(sweep.invalid, 'invalid attempt')} left out"
        if sweep.dropped:
            reported += f" ({sweep.dropped} for a busy machine)"
        if sweep.testbed is not None:
            reported += f", testbed {sweep.testbed.kind}" + ("" if sweep.links_built else " without limited links")
        parts.append(reported)
    return f"{RUNS}{'; '.join(parts)}." if parts else ""


def _flag(sweep: SweepReadings) -> str:
    """The commonest kind of flag, without its number."""
    kinds = Counter(
        re.sub(r"[-+]?[\d.]+ % (of )?", "", flag.split(":", maxsplit=1)[0]).strip(" .")
        for cell in sweep.cells
        for run in cell.runs
        for flag in run.run.meta.verdict.flags
    )
    if not kinds:
        return ""
    # What a run says of itself is not what is made of it here: a trace's warm-up is cut before it is judged.
    first = kinds.most_common(1)[0][0].removesuffix(", and nothing is left out")
    return first if len(kinds) == 1 else f"most often: {first}"


def _summary(
    study_set: StudySet, sections: tuple[Section, ...], lines: dict[str, str], results: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The answer, and what else the page as a whole has found: what a section found beside it, the section says."""
    kinds = {spec.name: spec.kind for spec in study_set.sections}
    earlier: Counter[str] = Counter()
    rank: dict[str, tuple[int, int]] = {}
    # Sections over clients have their results in sentences of all of them together; the cost of a key stands behind these.
    for name in (one for one in kinds if one in lines and not (results and kinds[one] in _BEHIND)):
        rank[name] = (earlier[kinds[name]], _WEIGHT.index(kinds[name]))
        earlier[kinds[name]] += 1
    findings = [finding for section in sections for finding in section.findings]
    built = sum(finding.built for finding in findings if finding.verdict == "holds")
    last = []
    if findings:
        counted = Counter(finding.verdict for finding in findings)
        verbs = {
            "holds": ("holds", "hold"),
            "does not hold": ("does not hold", "do not hold"),
            "cannot tell": ("cannot be decided", "cannot be decided"),
            "no data": ("has no data", "have no data"),
        }
        reported = ", ".join(
            f"{counted[word]} {one if counted[word] == 1 else more}"
            + (f" ({built} by the links that were built)" if built and word == "holds" else "")
            for word, (one, more) in verbs.items()
            if counted[word]
        )
        those = (
            f"{count_text(len(findings), 'conclusion')} of the study, on our data"
            if study_set.published
            else f"{count_text(len(findings), 'claim')} that were fixed before the data,"
        )
        last.append(f"Of {those} {reported}{_not_so(findings)}.{in_part_text(findings)}")
    first = results[:_RESULTS_MAX]
    kept = sorted(rank, key=lambda name: rank[name])[: max(0, _SUMMARY_MAX - len(first) - len(last))]
    others: tuple[str, ...] = (
        *results[_RESULTS_MAX:],
        *(line for name, line in lines.items() if name not in kept and kinds[name] in _HEAD_KINDS),
        *_expected_lines(sections),
    )
    return (*first, *(lines[name] for name in lines if name in kept), *last), others


def _not_so(findings: Sequence[Finding]) -> str:
    """Which conclusions do not hold; a study with many has them in its table."""
    found = [one.claim.rstrip(".") for one in findings if one.verdict == _NOT]
    if not found:
        return ""
    more = f"; and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return f"; these do not hold: {'; '.join(f'“{one}”' for one in found[:_NAMED_MAX])}{more}"


def _expected_lines(sections: tuple[Section, ...]) -> tuple[str, ...]:
    """How many expectations held, those of the study and ours."""
    found = []
    for whose, of in (("study", "of the study"), ("ours", "of ours")):
        own = [one for section in sections for one in section.expected_by(whose)]
        counted = Counter(one.verdict for one in own)
        reported = ", ".join(f"{verdict} {counted[verdict]}" for verdict in _VERDICTS if counted[verdict])
        if own:
            asked = {one.evidence for section in sections for one in section.findings}
            twice = sum(one.evidence in asked for one in own)
            also = f"; {twice} of them {'is a conclusion' if twice == 1 else 'are conclusions'}, too" if twice else ""
            found.append(f"Expectations {of} on our data, {len(own)} in all{also}: {reported}.")
    return tuple(found)


def _made(sections: tuple[Section, ...], sweeps: list[SweepReadings], single: str) -> str:
    """What was run, what was left out, and what is not there, in one sentence."""
    runs = sum(len(one.run_names) for one in sweeps)
    flagged, invalid = sum(one.flagged for one in sweeps), sum(one.invalid for one in sweeps)
    testbeds = sorted({one.testbed.kind for one in sweeps if one.testbed is not None})
    reported = (
        f"All this comes from {count_text(runs, 'valid run')} in {count_text(len(sweeps), 'sweep')}{_lengths(sweeps)} "
        f"{f'made within {within_text(*period_ns(sweeps))}, ' if runs else ''}on "
        f"the testbed{'s' if len(testbeds) > 1 else ''} {' and '.join(testbeds) or 'of this machine'}{shared_text(sweeps)}"
    )
    if single:
        reported += f"; {single}"
    if flagged:
        reported += f"; {flagged} {'carries' if flagged == 1 else 'carry'} a flag"
    if invalid:
        share = number(100.0 * invalid / (runs + invalid), 0)
        reported += f"; {invalid} of {runs + invalid} attempts ({share} %) failed a gate and {'is' if invalid == 1 else 'are'} left out"
    missing = [section.title for section in sections if section.missing]
    return f"{reported}; not there, or only in part: {', '.join(missing)}." if missing else f"{reported}."


def _lengths(sweeps: list[SweepReadings]) -> str:
    """``, measured for 5 to 10 s each,``: without warm-up and cool-down; empty where nothing was loaded."""
    found = _lengths_text(sweeps)
    return f", measured for {found} each," if found else ""


def _lengths_text(sweeps: list[SweepReadings]) -> str:
    """``5 to 10 s``."""
    found = {
        length
        for one in sweeps
        for cell in one.cells
        for run in cell.runs
        if (length := run.run.meta.measured_s or one.study.plan.measured_s)
    }
    ends = [f"{one:g}" for one in (min(found), max(found))] if found else []
    return "" if not ends else f"{ends[0]} s" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} s"


def _gates_lines(sweeps: list[SweepReadings]) -> tuple[str, ...]:
    """Which attempts are left out, and that it is not for what they measured."""
    left_out, busy = sum(one.invalid for one in sweeps), sum(one.dropped for one in sweeps)
    if not left_out:
        return ()
    limits = sorted({100.0 * one.study.gates.other_cpu_share_max for one in sweeps})
    shown = " or ".join(f"{limit:g}" for limit in limits)
    off = sorted({100.0 * one.study.gates.yardstick_off_max for one in sweeps if one.study.gates.yardstick_off_max})
    yardstick = (
        f", or the yardstick, a computation that is always the same, was more than {' or '.join(f'{one:g}' for one in off)} % off its "
        "usual time, which is that of the last attempts and of the same cell, so that machines of different speed both count"
        if off
        else ""
    )
    count = left_out - busy
    others = f"; the other{'s' if count > 1 else ''} failed another gate" if count else ""
    first = (
        f"{_met_busy(left_out, busy)} met a busy machine: more than {shown} % of its CPU time went elsewhere"
        f"{yardstick}{others}; none was left out for its throughput or response time."
    )
    full = [(_cell_name(sweep, name), tries) for sweep in sweeps for name, tries in sweep.too_full.items()]
    if not full:
        return (first,)
    tries = sum(tries for _, tries in full)
    return (
        first,
        f"But {count_text(tries, 'attempt')} used so much of the machine that roles took CPU time from each other, which falls on faster "
        f"runs: what counts of these cells may be slower than the cell is ({'; '.join(f'{name}: {tries}' for name, tries in full)}).",
    )


def _met_busy(left_out: int, busy: int) -> str:
    """``All 82 attempts left out``, ``Of 96 attempts left out 95``."""
    if busy < left_out:
        return f"Of {count_text(left_out, 'attempt')} left out {busy}"
    return f"All {left_out} attempts left out" if left_out > 1 else "The one attempt left out"


def _cell_name(sweep: SweepReadings, name: str) -> str:
    """A cell in words where it has valid runs, with its sweep; its name where it has none."""
    words = next((cell_words(cell) for cell in sweep.cells if cell.cell.name == name), name)
    return f"{words} ({sweep.folder.name})"


def _link_notes(sweeps: list[SweepReadings]) -> tuple[str, ...]:
    """Machines whose link was measured to be off its rate, which the testbed notes."""
    found = dict.fromkeys((one.folder.name, note) for one in sweeps for note in links_off(one))
    notes = tuple(f"In {name} {note}, in a test of the links before the runs." for name, note in found)
    count = (
        "These runs count all the same: the test is half a second of one machine's sending and may lack processors. In the runs themselves "
        "bytes on the wire tell how full a link is, by the rate that it was built with.",
    )
    return (*notes, *(count if notes else ()))


def facts_of(sweeps: Sequence[SweepReadings]) -> list[tuple[str, str]]:
    """Machine, programs, when the runs were made, and what the testbed notes."""
    found: dict[str, dict[str, None]] = {}
    for sweep in sweeps:
        for name, value in sweep.facts.items():
            found.setdefault(name, {})[value] = None
    facts = [(name, "; ".join(values)) for name, values in found.items()] + machine_facts(sweeps) + speed_facts(sweeps)
    first, last = period_ns(sweeps)
    facts += _testbeds(sweeps)
    return [*facts, ("runs made", f"{_utc(first)} to {_utc(last)} UTC"), *_testbed_notes(sweeps)]


def _testbeds(sweeps: Sequence[SweepReadings]) -> list[tuple[str, str]]:
    """``netns, and local for s2-local``: a row where runs were made on several, that of most sweeps first."""
    kinds: dict[str, list[str]] = {}
    for sweep in sweeps:
        if sweep.testbed is not None:
            kinds.setdefault(sweep.testbed.kind, []).append(sweep.folder.name)
    first, *others = sorted(kinds, key=lambda kind: -len(kinds[kind])) or [""]
    if not others:
        return []
    named = [first, *(f"{kind} for {', '.join(kinds[kind])}" for kind in others)]
    return [("testbeds", ", and ".join(named))]


def _testbed_notes(sweeps: Sequence[SweepReadings]) -> list[tuple[str, str]]:
    """Each once; one that is not of all sweeps says of which it is."""
    notes: dict[str, list[str]] = {}
    known = [sweep for sweep in sweeps if sweep.testbed is not None]
    for sweep in known:
        for note in dict.fromkeys(_notes_of(sweep)):
            notes.setdefault(note, []).append(sweep.folder.name)
    return [
        (f"note {place}", note if len(names) == len(known) else f"{note} ({', '.join(names)})")
        for place, (note, names) in enumerate(notes.items(), start=1)
    ]


def _notes_of(sweep: SweepReadings) -> Iterator[str]:
    testbed = sweep.testbed
    if testbed is None:
        return
    yield from (note_words(note) for note in testbed.notes)
    if testbed.delayed_by:
        yield f"packets are delayed by {testbed.delayed_by}"
    if testbed.kept_awake:
        yield testbed.kept_awake
    if sweep.speed != 1.0:
        yield (
            f"machines ran at {sweep.speed:g} of the study's speed: link rates and CPU quotas times that, delays divided by it; a rate "
            "divided by it, and a time times it, are the study's"
        )
    if testbed.shares_cpu:
        yield "roles share this machine's CPUs: a busy role takes time from the others"


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M")
