"""The gallery: pages of whole studies built again from kept records, the page that tells all of them, and pairs. `build_gallery`.

::

    s3.html        below 1 MB, with a link to the data of each figure
    s3-data/       that data, a CSV file for each figure, and a list of all attempts
    s3.md          the same without drawings
    index.html     all studies, those of which there is only an earlier page among them
    s3-s5.html     two studies of one design

The twins with every number stay where they are, in the records.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError
from weir_lab.records import write_json, write_text
from weir_lab.records.tables.attempts import LISTING, attempts_csv
from weir_lab.report.page.data import data_files
from weir_lab.report.page.html import html_page, markdown_page
from weir_lab.report.sets.kept import kept_twin, rebuild
from weir_lab.report.sets.stories import earlier_pages, index_report, linked, pair_report, read_whole
from weir_lab.report.sets.twin import twin_of
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from weir_lab.report.page.blocks import Report
    from weir_lab.report.sets.kept import VerifiedKept
    from weir_lab.report.sets.stories import Earlier
    from weir_lab.report.sets.stories.reading import Whole

__all__ = ["INDEX", "PAGE_BYTES_MAX", "PAIRS", "Shown", "build_gallery"]

PAGE_BYTES_MAX = 1_000_000
"""Of a page, without the data beside it."""
PAIRS = (("s1", "s4"), ("s3", "s5"))
"""Studies of one design."""
INDEX = "index.html"


@dataclass(frozen=True)
class Shown:
    """A page of the gallery: what it says first, and what it rests on."""

    page: Path
    title: str
    summary: tuple[str, ...]
    numbers: int
    made: str


def build_gallery(
    records: Sequence[Path], out: Path, known: Sequence[str], *, partial: bool = False, earlier: Path | None = None
) -> list[Shown]:
    """Write the gallery of these kept records into ``out``, which must not be there yet; its pages, pairs last.

    Parameters
    ----------
    records
        Folders that `weir-lab keep` wrote, one for each study.
    known
        Names of all studies: the index names those without records.
    partial
        Whether a study may lack sections. Its page says which.
    earlier
        A folder with pages of studies that have no records. They go into ``out`` as they are, and the index names them.

    Raises
    ------
    ReportError
        If a number or a verdict is not that of the report that was kept, if a study lacks a section, or if a page is 1 MB or larger.
    """
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="weir-gallery-") as scratch:
        roots = [(folder, Path(scratch) / kept_twin(folder)[1]["name"]) for folder in records]
        shown = [_study(folder, root, out, partial=partial) for folder, root in roots]
        wholes = {root.name: read_whole(root, out) for _, root in roots}
        others = _earlier(earlier, set(known) - set(wholes), out) if earlier is not None else []
        titles = {}
        for one, other in PAIRS:
            if one in wholes and other in wholes:
                pair = [wholes[one], wholes[other]]
                report = pair_report(*pair)
                _write(report, pair, out / f"{report.name}.html")
                shown.append(Shown(out / f"{report.name}.html", report.title, report.summary, 0, ""))
                titles[report.title] = f"{report.name}.html"
        index = index_report(list(wholes.values()), known, others, tuple(titles))
        _write(index, [*wholes.values(), *others], out / INDEX, titles)
    return shown


def _earlier(folder: Path, names: Collection[str], out: Path) -> list[Earlier]:
    """Copy the pages of these studies, and tell how each was made: its twin beside it, if it has one, stays where it is."""
    found = earlier_pages(folder, names)
    return [replace(one, page=Path(shutil.copy(one.page, out / one.page.name))) for one in found]


def _study(folder: Path, root: Path, out: Path, *, partial: bool) -> Shown:
    """Write page, data and Markdown of one study; its twin goes beside the runs in ``root``, for the pages about several."""
    found = rebuild(folder, root)
    _require_sound(folder, found, partial=partial)
    report = _for_readers(found.report, folder)
    data = f"{report.name}-data"
    report = replace(report, listing=f"{data}/{LISTING}")
    page = html_page(report, data)
    size = len(page.encode())
    if size >= PAGE_BYTES_MAX:
        raise ReportError(
            f"{folder}: its page has {size:,} bytes, not less than {PAGE_BYTES_MAX:,}. Fold or drop a part."
        )
    file = out / f"{report.name}.html"
    write_text(file, page)
    write_text(file.with_suffix(".md"), markdown_page(report))
    (out / data).mkdir()
    for name, text in data_files(report).items():
        write_text(out / data / name, text)
    write_text(
        out / data / LISTING, attempts_csv([root / name for name in dict.fromkeys(found.report.sweeps.values())])
    )
    write_json(root / f"{report.name}.json", twin_of(found.report))
    made = f"pace {report.pace}, testbed {report.testbed}, {count_text(found.runs, 'run')} of commit {', '.join(found.commits)}"
    return Shown(file, report.title, report.summary, found.verified.numbers, made)


def _require_sound(folder: Path, found: VerifiedKept, *, partial: bool) -> None:
    differences = found.verified.differences
    if differences:
        raise ReportError(
            f"{folder}: {count_text(len(differences), 'number')} and verdicts are not those of the report that was kept, first "
            f"{differences[0]}. See weir-lab verify {folder}."
        )
    missing = [section.title for section in found.report.sections if section.missing]
    if missing and not partial:
        raise ReportError(f"{folder}: runs are missing for {', '.join(missing)}. Make them, and keep the study again.")


def _for_readers(report: Report, folder: Path) -> Report:
    """With the commands and places of the gallery in the place of those of a folder of runs."""
    steps = (
        (
            "Every number of this page is computed again, in any clone, from the records of its runs that are kept in the repository, by",
            f"weir-lab verify docs/gallery/{report.name}.html",
        ),
        ("The runs themselves are brought back by", f"weir-lab unpack records/{folder.name}"),
        (
            "New runs are made, and their page, by",
            f"weir-lab study {report.name} --pace {report.pace} --testbed {report.testbed} --minutes 480",
        ),
    )
    sweeps = {file: f"records/{folder.name}/{name}.kept.zst" for file, name in report.sweeps.items()}
    return replace(report, steps=steps, sweeps=sweeps)


def _write(
    report: Report, wholes: Sequence[Whole | Earlier], file: Path, titles: Mapping[str, str] | None = None
) -> None:
    write_text(file, linked(html_page(report), wholes, file, titles))
