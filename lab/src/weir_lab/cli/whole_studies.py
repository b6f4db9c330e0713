"""Commands on whole studies: ``weir-lab study``, ``verify``, ``compare``, ``index`` and ``pair``."""

from __future__ import annotations

import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir_lab.bench.network import find_delay_device, probe
from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_weir
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.live import Shown
from weir_lab.bench.sweep.locks import locked
from weir_lab.bench.sweep.run import Wanted
from weir_lab.bench.sweep.sets import (
    listed,
    part_of,
    parts_named,
    parts_with,
    plan_parts,
    read_reasons,
    run_parts,
    take_files,
)
from weir_lab.bench.sweep.whole_night import forecast, whole_night
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.cli.studies import PACE_HELP
from weir_lab.design.whole.sets import EVENT_SUFFIX, known_sets
from weir_lab.errors import ReportError, StoppedError, StudyError
from weir_lab.records import read_run, write_text
from weir_lab.records.tables.quotas import quota_text
from weir_lab.report.page.html import html_page
from weir_lab.report.sets.assembling import Sources, assemble
from weir_lab.report.sets.kept import bring_back, holds_records, keep, records_of, verify_kept, verify_page
from weir_lab.report.sets.stories import (
    earlier_pages,
    find_wholes,
    index_report,
    linked,
    pair_report,
    read_whole,
)
from weir_lab.report.sets.twin import changes, read_twin, verify, write_report
from weir_lab.report.single.report import of_a_sweep, verify_sweep
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weir_lab.bench.sweep.sets import Part, Progress
    from weir_lab.design.whole.sets import StudySet
    from weir_lab.report.page.blocks import Report
    from weir_lab.report.sets.stories import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = [
    "compare_reports",
    "index_reports",
    "keep_records",
    "pair_reports",
    "study",
    "unpack_records",
    "verify_report",
]

_PART_S = 20 * 60.0
_Pages = Annotated[
    Path | None, typer.Option(help="The folder of the reports' pages, where they do not lie beside their twins")
]
# The studies that an index looks for where there is no folder of sets.
_STUDIES = ("s1", "s2", "s3", "s4", "s5", "own")


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A set in the folder of studies: s1 to s5, own")],
    pace: Annotated[str, typer.Option(help=PACE_HELP)] = "quick",
    testbed: Annotated[
        TestbedKind,
        typer.Option(help="Where the roles run: netns where links or cores matter (docs/measure/testbeds.md)"),
    ] = TestbedKind.LOCAL,
    out: Annotated[
        Path | None, typer.Option(help="Folder of runs and report; runs/NAME-PACE-TESTBED by default")
    ] = None,
    studies: Annotated[Path, typer.Option(help="Folder of the study files and sets")] = Path("studies"),
    part: Annotated[
        int | None, typer.Option(help="Make only this part of the runs, of about 20 minutes each, counted from 1")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Begin no sweep (at the pace night: no run) that would end later than this, in minutes. Use it to go on in parts"
        ),
    ] = None,
    sweeps: Annotated[
        str | None,
        typer.Option(
            help="Make runs only of these sweeps, names as --list has them, commas between. Cores of a large machine can have some "
            "each, with another --out"
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help='At the pace night, make only these cells of each sweep: a pattern, or "servers == 5"'),
    ] = None,
    lane: Annotated[
        int,
        typer.Option(
            min=0,
            max=999,
            help="Number its blocks as those of one of several labs on a machine: docs/measure/nights.md",
        ),
    ] = 0,
    any_processor: Annotated[
        bool,
        typer.Option(
            "--any-processor",
            help="At the pace night, add runs to those that another kind of processor made: docs/measure/nights.md",
        ),
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Make no runs; build the report of what is there")
    ] = False,
    runs_only: Annotated[bool, typer.Option("--runs-only", help="Write no report; a later --report-only does")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail unless every section has all of its runs. Use it before you publish")
    ] = False,
    list_parts: Annotated[
        bool, typer.Option("--list", help="Say which sweeps there are and how long they take, and make nothing")
    ] = False,
    binary: Annotated[
        Path | None,
        typer.Option("--bin", help="The weir binary. Give another to measure another build", show_default=WEIR_DEFAULT),
    ] = None,
    memcached: Annotated[
        str, typer.Option(help="The memcached program. Give a path to measure another version")
    ] = "memcached",
    hosts: Annotated[
        Path | None, typer.Option(help="File that names the machines. Needed for the testbed hosts")
    ] = None,
) -> None:
    """Make what is missing of a whole study, and write its report: page, Markdown and twin. Status 3 while runs are missing."""
    set_path = studies / f"{name}.set.toml"
    if not set_path.exists():
        raise StudyError(f"{set_path}: no such set. There are: {', '.join(known_sets(studies)) or 'none'}.")
    root = out or Path("runs") / f"{name}-{pace}-{testbed}"
    console = Console(highlight=False, soft_wrap=True)
    at_night = pace == "night"
    if at_night and part is not None:
        raise StudyError(
            "--part parts the work of other paces: at the pace night give --minutes, and the same command goes on later."
        )
    if not at_night and (only is not None or lane):
        raise StudyError("--only and --lane part the work at the pace night: give --pace night, or --part or --sweeps.")
    if any_processor and (not at_night or report_only or list_parts):
        raise StudyError(
            "--any-processor is for runs that are made at the pace night: give --pace night, or leave it out."
        )
    if runs_only and (report_only or strict):
        raise StudyError("--runs-only writes no report: leave out --report-only and --strict, or --runs-only.")
    if minutes is not None and not 0.0 < minutes < math.inf:
        raise StudyError(f"--minutes: {minutes:g} is no time to work in. Give more than 0, or leave it out for no end.")

    def choose(parts: list[Part]) -> list[Part]:
        chosen = part_of(parts, part, _PART_S) if part is not None else parts
        chosen = chosen if sweeps is None else parts_named(chosen, sweeps)
        return chosen if only is None else parts_with(chosen, only, pace)

    if list_parts:
        for line in forecast(set_path, root, choose, only) if at_night else listed(set_path, root, pace, choose):
            console.print(line, markup=False)
        return
    if at_night and testbed is TestbedKind.NETNS and not report_only:
        _require_delays(console)
    left: list[str] = []
    lacking: tuple[str, ...] = ()
    if report_only:
        study_set = take_files(set_path, root)
        plan_parts(study_set, root, pace)  # writes the files of variants beside the others
    else:
        wanted = Wanted(pace, only=only, testbed=testbed, hosts=hosts, lane=lane, any_processor=any_processor)
        programs = Executables(find_weir(binary).absolute(), memcached)
        root.mkdir(parents=True, exist_ok=True)
        # Two at once would write each other's files and reasons over, and take each other's sweeps for such that cannot run here.
        with locked(root), _stopping():
            study_set = take_files(set_path, root)
            parts = plan_parts(study_set, root, pace)
            chosen = choose(parts)
            before = forecast(set_path, root, choose, only) if at_night else []
            progress = _made(study_set, root, chosen, programs, wanted, minutes, console, before)
        lacking = tuple(dict.fromkeys(progress.lacking))
        left = [*progress.left, *(one.name for one in parts if one not in chosen and not one.folder.exists())]
    if lacking:
        console.print(f"Without all of their runs, for the reasons above: {', '.join(lacking)}.", markup=False)
    if left:
        console.print(f"Not made yet: {', '.join(left)}. The same command goes on from here.", markup=False)
    if runs_only:
        console.print("No report was written; the same command with --report-only writes it.")
    else:
        with _stopping():
            _write_report(study_set, root, pace, testbed, strict=strict)
    if left or lacking:
        raise typer.Exit(3)


def _made(
    study_set: StudySet,
    root: Path,
    parts: list[Part],
    programs: Executables,
    wanted: Wanted,
    minutes: float | None,
    console: Console,
    before: list[str],
) -> Progress:
    """The runs that are missing, with what is said meanwhile; lines that come ``before`` them first."""
    shown = Shown(console, _quotas_of(study_set))

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    with shown.watching():
        for line in before:
            say(line)
        if wanted.pace != "night":
            return run_parts(parts, root, programs, wanted, shown, minutes=minutes, say=say)
        quoted = [file for file in study_set.files if study_set.headline(file)]
        return whole_night(parts, root, programs, wanted, shown, headline=quoted, minutes=minutes, say=say)


@contextmanager
def _stopping() -> Iterator[None]:
    """An interrupt ends it as other commands end, with the sentence that says so."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError from None


def _write_report(study_set: StudySet, root: Path, pace: str, testbed: TestbedKind, *, strict: bool) -> None:
    """The report of the runs that are there, and on the terminal what it says first."""
    report = assemble(
        study_set, Sources(root, root / "studies", None, read_reasons(root)), pace, str(testbed), strict=strict
    )
    files = write_report(report, root)
    for line in report.summary:
        typer.echo(f"- {line}")
    typer.echo(files.html)


def _quotas_of(study_set: StudySet) -> Callable[[Path], str]:
    """What each tier used of its quota in the run of a folder: nobody wants to learn after a night that another one limited."""
    files = {file.removesuffix(".toml"): file for file in study_set.files}

    def of(folder: Path) -> str:
        sweep = folder.parent.parent.name.removesuffix(EVENT_SUFFIX)
        return quota_text(read_run(folder), study_set.limiting_of(files.get(sweep, "")))

    return of


def _require_delays(console: Console) -> None:
    """Nobody wants to learn after a night that links had no latency, or too much."""
    kernel = probe()
    if kernel.missing or kernel.has("netem"):
        return
    if not kernel.has("real time"):
        console.print(f"Careful: {kernel.words('real time')}. `weir-lab testbeds` tries it again.", markup=False)
    if find_delay_device() is None:
        raise StudyError(
            "Links would have no latency: this kernel has no netem, and weir-delay is not there. Build it with `scripts/setup binary`, or "
            "name it in WEIR_DELAY_BIN."
        )


def verify_report(
    report: Annotated[
        Path,
        typer.Argument(
            metavar="REPORT",
            help="The page or the twin of a report, of a whole study or of one sweep; or a folder of kept records",
        ),
    ],
    records: Annotated[
        Path | None,
        typer.Option(
            help="The kept records of a page without runs beside it; by default those in records/ of a folder above it"
        ),
    ] = None,
) -> None:
    """Compute every number of a report again from its raw or its kept records. Status 3 if one differs."""
    if not holds_records(report):
        _require_file(report)
    if records is None and not holds_records(report) and not report.with_suffix(".json").exists():
        records = records_of(report)
    if records is not None or holds_records(report):
        kept = verify_kept(report) if records is None else verify_page(report, records)
        found = kept.verified
        typer.echo(f"{count_text(kept.runs, 'run')} of the programs of commit {', '.join(kept.commits)}")
    else:
        found = verify_sweep(report) if of_a_sweep(report) else verify(report)
    for difference in found.differences[:100]:
        typer.echo(f"differs: {difference}")
    if len(found.differences) > 100:
        typer.echo(f"... and {len(found.differences) - 100} more")
    typer.echo(f"{found.numbers:,} numbers computed again, {count_text(len(found.differences), 'difference')}")
    if found.differences:
        raise typer.Exit(3)


def _require_file(report: Path) -> None:
    """A page or a twin has a name; of a folder nobody knows which of its reports is meant."""
    if not report.is_dir():
        return
    pages = sorted(str(file) for file in report.glob("*.html") if file.with_suffix(".json").exists())
    there = f"It has {', '.join(pages)}" if pages else "None lies in it"
    raise ReportError(f"{report} is a folder. Name the page or the twin of a report: {there}.")


def keep_records(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a whole study, with its report")],
    out: Annotated[
        Path | None, typer.Option(help="Where the records go; records/NAME of the folder by default")
    ] = None,
) -> None:
    """Keep the runs of a report in small files, from which it can be verified without the run folders."""
    made = keep(folder, out or Path("records") / folder.absolute().name)
    for name, (size, runs) in made.sweeps.items():
        typer.echo(f"{name:16} {count_text(runs, 'run'):>9}, {size / max(1, runs) / 1024:6.1f} KiB a run")
    typer.echo(
        f"{made.folder}: {count_text(made.runs, 'run')}, {made.bytes / 1024:,.0f} KiB. Next: weir-lab verify {made.folder}"
    )


def unpack_records(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of kept records")],
    out: Annotated[Path | None, typer.Option(help="Where the runs go; runs/NAME of the folder by default")] = None,
) -> None:
    """Bring the runs of kept records back, so that `weir-lab study` goes on from them, here or on another machine."""
    root = out or Path("runs") / folder.absolute().name
    found = bring_back(folder, root)
    typer.echo(
        f"{root}: {count_text(found.runs, 'run')} of the programs of commit {', '.join(found.commits)}. They count for a "
        f"study that is made with the same programs. Next: weir-lab study {found.twin['name']} --out {root}"
    )


def compare_reports(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A report of a whole study, page or twin")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later report of the same study")],
) -> None:
    """Name the conclusions that changed from one report to another. Status 3 if any did."""
    for report in (old, new):
        _require_file(report)
    found = changes(read_twin(old), read_twin(new))
    for change in found:
        typer.echo(change)
    typer.echo(f"{count_text(len(found), 'conclusion')} changed")
    if found:
        raise typer.Exit(3)


def index_reports(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="Reports of whole studies, kept records, or folders that have them in it or one folder below",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write")] = Path("index.html"),
    studies: Annotated[
        Path, typer.Option(help="Folder of the sets: a study of it without a report is said to be missing")
    ] = Path("studies"),
    pages: _Pages = None,
) -> None:
    """Tell all whole studies on one page: what each asked and found in at most ten lines, its verdicts, what limits, what is missing.

    Studies of which only a page lies in --pages, or beside the index, are named with how it was made.
    """
    wholes = find_wholes(reports, pages)
    known = known_sets(studies) if studies.is_dir() else _STUDIES
    earlier = earlier_pages(pages or out.parent, set(known) - {whole.name for whole in wholes})
    _write_page(index_report(wholes, known, earlier), [*wholes, *earlier], out)


def pair_reports(
    one: Annotated[
        Path, typer.Argument(metavar="ONE", help="A report of a whole study: folder, page, twin, or kept records")
    ],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The report of another study of the same design")],
    out: Annotated[Path, typer.Option(help="The page to write")] = Path("pair.html"),
    pages: _Pages = None,
) -> None:
    """Hold two studies of one design side by side: conclusions, maxima with their ratio, and throughput over clients on one axis."""
    wholes = [read_whole(one, pages), read_whole(other, pages)]
    _write_page(pair_report(*wholes), wholes, out)


def _write_page(report: Report, wholes: Sequence[Whole | Earlier], out: Path) -> None:
    """The page with its links, and on the terminal what it says first."""
    page = linked(html_page(report), wholes, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page)
    for line in (*report.summary, *report.limits):
        typer.echo(f"- {line}")
    typer.echo(out)
