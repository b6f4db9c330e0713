"""Kept records give the numbers and verdicts of their reports and of the gallery: the smallest study here, all in tests marked long."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir_lab.report.sets.kept import holds_records, kept_twin, verify_kept, verify_page

ROOT = Path(__file__).parents[2]
RECORDS, GALLERY = ROOT / "records", ROOT / "docs" / "gallery"
# Studies that are not over: kept, so that they go on on another machine, and in no gallery.
UNFINISHED = RECORDS / "unfinished"
FOLDERS = sorted(path for path in RECORDS.glob("*") if path.is_dir() and path != UNFINISHED)
WAITING = sorted(path for path in UNFINISHED.glob("*") if path.is_dir())
NONE_YET = "no records are kept yet: records/ has no folder; `weir-lab keep runs/NAME` makes one"


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def some(folders: list[Path], *, marks: tuple[pytest.MarkDecorator, ...] = ()) -> list[object]:
    """Parameters for these folders; a skipped one with its reason where there is none."""
    if not folders:
        return [pytest.param(RECORDS, marks=(*marks, pytest.mark.skip(reason=NONE_YET)), id="none yet")]
    return [pytest.param(folder, marks=marks, id=folder.name) for folder in folders]


@pytest.mark.parametrize("folder", some(sorted(FOLDERS, key=size_of)[:1]))
def test_the_smallest_study_is_verified(folder: Path) -> None:
    require_verified(folder)


@pytest.mark.parametrize("folder", some(FOLDERS + WAITING, marks=(pytest.mark.long,)))
def test_every_study_is_verified(folder: Path) -> None:
    require_verified(folder)


@pytest.mark.parametrize("folder", some(FOLDERS + WAITING))
def test_every_folder_holds_the_records_of_a_study(folder: Path) -> None:
    assert holds_records(folder), f"{folder} is not what `weir-lab keep` writes: keep it again, or remove it"


def require_verified(folder: Path) -> None:
    """Rebuilt from the records alone; the first differences say where. A page of the gallery of this pace must be that of its records.

    Pages of the pace quick show runs that nobody kept. They stay until a study's nights are over; so does a page while its study goes on.
    """
    twin = kept_twin(folder)[1]
    page = GALLERY / f"{twin['name']}.html"
    made = f"Pace {twin['pace']}, testbed {twin['testbed']}"
    is_of_these = folder not in WAITING and page.exists() and made in page.read_text(encoding="utf-8")
    found = verify_page(page, folder) if is_of_these else verify_kept(folder)
    differences = "\n".join(found.verified.differences[:20])
    assert found.verified.differences == (), f"{differences}\nscripts/gallery makes the pages again"
    assert found.runs > 0
    assert found.verified.numbers > 0
