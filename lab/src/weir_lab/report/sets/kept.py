"""A whole study kept in small files, its report built again from them, and its runs brought back: `keep`, `rebuild`, `bring_back`.

::

    records/s3-night-netns/
        s3.json.zst           the twin of the report: what it said
        studies/, reasons.json
        s3-3.1.kept.zst       the runs of one sweep (`records.sharing.packing`)

Values are compared, not pages: a later weir-lab may word and draw a report otherwise, but its numbers and verdicts must come out the same.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir_lab.errors import RecordError
from weir_lab.records.sharing.files import read_kept, write_kept
from weir_lab.records.sharing.packing import SCHEMA as KEPT
from weir_lab.records.sharing.packing import pack
from weir_lab.records.sharing.unpacking import unpack
from weir_lab.records.tables.attempts import LISTING, attempts_csv
from weir_lab.report.page.html import html_page
from weir_lab.report.page.numbers import pages_compared
from weir_lab.report.sets.twin import SCHEMA as TWIN
from weir_lab.report.sets.twin import Verified, built_again, read_twin, values_compared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weir_lab.report.page.blocks import Report

__all__ = [
    "BroughtBack",
    "Kept",
    "VerifiedKept",
    "bring_back",
    "holds_records",
    "keep",
    "kept_twin",
    "rebuild",
    "records_of",
    "verify_kept",
    "verify_page",
]

_SWEEP, _TWIN = ".kept.zst", ".json.zst"


@dataclass(frozen=True)
class Kept:
    """What was written: bytes and valid runs of each sweep."""

    folder: Path
    sweeps: dict[str, tuple[int, int]]

    @property
    def bytes(self) -> int:
        """Of all files together, studies and twin with them."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    @property
    def runs(self) -> int:
        """Valid runs."""
        return sum(runs for _, runs in self.sweeps.values())


@dataclass(frozen=True)
class VerifiedKept:
    """The report built again, what came of holding it against the one that was kept, and which programs had made the runs."""

    report: Report
    verified: Verified
    runs: int
    commits: tuple[str, ...]


@dataclass(frozen=True)
class BroughtBack:
    """What the records held: the report as it was, valid runs, and the commits of the programs that made them."""

    twin: dict[str, Any]
    runs: int
    commits: tuple[str, ...]


def keep(root: Path, out: Path) -> Kept:
    """Write the records of a whole study whose report is in ``root``: of every sweep that the report uses.

    ``out`` is written anew if `keep` wrote it before; a folder with anything else in it is left as it is, with an error.
    """
    if not (_is_free(out) or holds_records(out)):
        raise RecordError(
            f"{out}: holds other files than kept records. Give --out a folder that is empty or not there."
        )
    twins = [file for file in sorted(root.glob("*.json")) if (root / "studies" / f"{file.stem}.set.toml").exists()]
    if len(twins) != 1:
        raise RecordError(f"{root}: no report of a whole study here. Make it with `weir-lab study`, then keep it.")
    twin = read_twin(twins[0])
    made: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory(prefix="weir-keep-", dir=_parent(out)) as scratch:
        folder = Path(scratch) / "records"
        shutil.copytree(root / "studies", folder / "studies", symlinks=True)
        if (root / "reasons.json").exists():
            shutil.copy(root / "reasons.json", folder / "reasons.json")
        write_kept(folder / f"{twin['name']}{_TWIN}", twin)
        for name in dict.fromkeys(str(sweep) for sweep in twin["sweeps"].values()):
            content = pack(root / name)
            valid = sum(run["meta"]["verdict"]["valid"] for run in content["runs"])
            made[name] = (write_kept(folder / f"{name}{_SWEEP}", content), valid)
        _put_in_place(folder, out, Path(scratch) / "before")
    return Kept(out, made)


def _is_free(out: Path) -> bool:
    return not out.exists() or (out.is_dir() and not any(out.iterdir()))


def _put_in_place(made: Path, out: Path, aside: Path) -> None:
    """Move a folder to where another may be, which is there again if that fails; all three are on one file system."""
    if out.exists():
        out.rename(aside)
    try:
        made.rename(out)
    except OSError:
        if aside.exists():
            aside.rename(out)
        raise


def holds_records(path: Path) -> bool:
    """Whether this is a folder that `keep` wrote."""
    return path.is_dir() and any(path.glob(f"*{_TWIN}"))


def kept_twin(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The twin of the report that was kept, and its file."""
    files = sorted(folder.glob(f"*{_TWIN}"))
    if len(files) != 1:
        raise RecordError(
            f"{folder}: {len(files)} reports ({_TWIN}) in it, not one. Give a folder made by `weir-lab keep`."
        )
    return files[0], read_kept(files[0], TWIN)


def records_of(page: Path) -> Path | None:
    """The kept records of a page that has no runs beside it: ``records/*/NAME.json.zst`` of the nearest folder above that has one."""
    for folder in page.absolute().parents:
        found = sorted(folder.glob(f"records/*/{page.stem}{_TWIN}"))
        if len(found) > 1:
            names = ", ".join(str(one.parent) for one in found)
            raise RecordError(f"{page}: may be of {names}. Name the records with --records.")
        if found:
            return found[0].parent
    return None


def bring_back(folder: Path, root: Path) -> BroughtBack:
    """Write the folder of a whole study as `keep` found it, but for its report: ``weir-lab study`` goes on from there.

    ``root`` must not be there yet. A run counts as long as the programs are those that made it, on whatever machine.
    """
    _, twin = kept_twin(folder)
    if root.exists():
        raise RecordError(f"{root} is there already. Give another folder with --out, or move that one away.")
    runs, commits = 0, dict[str, None]()
    with tempfile.TemporaryDirectory(prefix="weir-unpack-", dir=_parent(root)) as scratch:
        made = Path(scratch) / "study"
        # What a link leads to is no part of the records.
        shutil.copytree(folder / "studies", made / "studies", symlinks=True)
        if (folder / "reasons.json").exists():
            shutil.copy(folder / "reasons.json", made / "reasons.json")
        for file in sorted(folder.glob(f"*{_SWEEP}")):
            content = read_kept(file, KEPT)
            try:
                unpack(content, made / file.name.removesuffix(_SWEEP))
            except RecordError as error:
                raise RecordError(f"{file}: {error}") from error
            runs += sum(run["meta"]["verdict"]["valid"] for run in content["runs"])
            commits.update(dict.fromkeys(_commits(content)))
        shutil.move(made, root)
    return BroughtBack(twin, runs, tuple(commits))


def rebuild(folder: Path, root: Path) -> VerifiedKept:
    """Bring the runs back into ``root``, build the report again from them, and hold every number and verdict against what it said."""
    found = bring_back(folder, root)
    report = built_again(found.twin, root)
    return VerifiedKept(report, values_compared(found.twin, report), found.runs, found.commits)


def verify_kept(folder: Path) -> VerifiedKept:
    """The same with runs that are not wanted afterwards."""
    with tempfile.TemporaryDirectory(prefix="weir-verify-") as scratch:
        return rebuild(folder, Path(scratch) / "study")


def verify_page(page: Path, records: Path) -> VerifiedKept:
    """The same, and every number in the tables, the figures' data and the list of attempts of a page that was made of the records."""
    with tempfile.TemporaryDirectory(prefix="weir-verify-") as scratch:
        root = Path(scratch) / "study"
        found = rebuild(records, root)
        differences = list(_listing_compared(page, [root / name for name in found.report.sweeps.values()]))
    printed, again = page.read_text(encoding="utf-8"), html_page(found.report)
    differences += [f"{page.name}: {one}" for one in pages_compared(printed, again, page.parent)]
    verified = Verified(found.verified.numbers, (*found.verified.differences, *differences))
    return VerifiedKept(found.report, verified, found.runs, found.commits)


def _listing_compared(page: Path, sweeps: Sequence[Path]) -> Iterator[str]:
    """Where the list of attempts beside a page, if there is one, is not that of the records."""
    file = page.parent / f"{page.stem}-data" / LISTING
    if not file.exists():
        return
    printed, again = file.read_text(encoding="utf-8").splitlines(), attempts_csv(sweeps).splitlines()
    if len(printed) != len(again):
        yield f"{page.stem}-data/{LISTING}: {len(printed) - 1} attempts, the records have {len(again) - 1}"
    elif printed != again:
        place = next(at for at, pair in enumerate(zip(printed, again, strict=True), start=1) if pair[0] != pair[1])
        yield f"{page.stem}-data/{LISTING}: line {place} is not that of the records"


def _commits(content: dict[str, Any]) -> list[str]:
    return [str(versions.get("commit", "unknown")) for versions in content["common"]["versions"]]


def _parent(out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.parent
