"""The machine-readable twin of a report, and the two things that it is for: verifying the report, and comparing two of them.

`verify` computes every number again from the raw records of the runs that the twin names, and tells each that differs, in the twin and on
the page. `changes` names conclusions that differ between two twins.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir_lab import __version__
from weir_lab.design.whole.sets import load_set
from weir_lab.errors import RecordError, ReportError
from weir_lab.records import write_json, write_text
from weir_lab.report.page.data import data_files
from weir_lab.report.page.html import html_page, markdown_page
from weir_lab.report.sets.assembling import Sources, assemble

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from weir_lab.report.page.blocks import Report

__all__ = [
    "SCHEMA",
    "Verified",
    "WrittenReport",
    "built_again",
    "changes",
    "compared",
    "plain",
    "read_twin",
    "twin_of",
    "values_compared",
    "verify",
    "write_report",
]

SCHEMA = "weir.whole/1"
_TOLERANCE = 1e-9
# Texts that are values: what was concluded, and which runs it rests on. The others are words about values.
_VERDICTS = frozenset({"verdict", "conclusions", "runs", "left_out", "sweeps"})


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """The files of a report; the page links those in the folder of its figures' ``data``."""

    html: Path
    markdown: Path
    json: Path
    data: Path


@dataclasses.dataclass(frozen=True)
class Verified:
    """How many numbers were computed again, and every difference that was found."""

    numbers: int
    differences: tuple[str, ...]


def write_report(report: Report, folder: Path) -> WrittenReport:
    """Write page, data of its figures, Markdown and twin; raises before anything is written where the page would not be complete."""
    texts = _texts_of(report)
    html, markdown, twin = (folder / f"{report.name}.{ending}" for ending in ("html", "md", "json"))
    files = WrittenReport(html, markdown, twin, folder / _data_folder(report))
    # Figures that an earlier report had are not left beside this one.
    shutil.rmtree(files.data, ignore_errors=True)
    files.data.mkdir(parents=True)
    for name, text in texts.items():
        write_text(folder / name, text)
    write_json(files.json, twin_of(report))
    return files


def _texts_of(report: Report) -> dict[str, str]:
    """Page, Markdown and data, by their place beside the twin."""
    folder = _data_folder(report)
    return {
        f"{report.name}.html": html_page(report, folder),
        f"{report.name}.md": markdown_page(report),
        **{f"{folder}/{name}": text for name, text in data_files(report).items()},
    }


def _data_folder(report: Report) -> str:
    return f"{report.name}-data"


def twin_of(report: Report) -> dict[str, Any]:
    """Every number of the report as plain JSON."""
    return {"schema": SCHEMA, "weir_lab_version": __version__, **plain(report)}


def read_twin(path: Path, schema: str = SCHEMA) -> dict[str, Any]:
    """Read a twin by its own name or by that of its page."""
    made_by = "weir-lab study` or `weir-lab report" if schema == SCHEMA else "weir-lab report"
    path = path.with_suffix(".json")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}). Give a report made by `{made_by}`.") from error
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}). Build the report again with `{made_by}`.") from error
    if not isinstance(found, dict) or found.get("schema") != schema:
        raise RecordError(f"{path}: no twin of a report ({schema}). Give one made by `{made_by}`.")
    return found


def verify(path: Path) -> Verified:
    """Compute every number of a report again from the raw records beside it."""
    twin = read_twin(path)
    again = built_again(twin, path.parent)
    return compared(path, twin, twin_of(again), _texts_of(again))


def values_compared(twin: dict[str, Any], again: Report) -> Verified:
    """Numbers and verdicts alone: how they are worded, ordered in sentences and drawn is not compared.

    Whatever the twin says must come out the same. Sections, blocks and columns that a later weir-lab says beside it are no difference.
    """
    fresh = json.loads(json.dumps(twin_of(again)))
    differences = tuple(_different(twin, fresh, "", texts=_VERDICTS))
    return Verified(sum(1 for _ in _numbers(fresh)), differences)


def built_again(twin: dict[str, Any], root: Path) -> Report:
    """The report of the runs that a twin names, from their records in ``root``."""
    used: dict[str, tuple[str, ...]] = {}
    for section in _parts(twin, "sections"):
        for name in ("runs", "left_out"):
            for folder, runs in section.get(name, {}).items():
                used[folder] = tuple(dict.fromkeys([*used.get(folder, ()), *runs]))
    studies = root / "studies"
    study_set = load_set(studies / f"{twin['name']}.set.toml")
    reasons = (
        json.loads((root / "reasons.json").read_text(encoding="utf-8")) if (root / "reasons.json").exists() else {}
    )
    return assemble(study_set, Sources(root, studies, used, reasons), str(twin["pace"]), str(twin["testbed"]))


def compared(path: Path, printed: dict[str, Any], again: dict[str, Any], texts: Mapping[str, str]) -> Verified:
    """What was printed against what the records give: the twin at ``path``, and the files beside it by their names."""
    fresh = json.loads(json.dumps(again))
    differences = list(_different(printed, fresh, ""))
    for name, text in texts.items():
        file = path.parent / name
        if not file.exists():
            differences.append(f"{name}: not there")
            continue
        differences += [f"{name}: {one}" for one in _lines_that_differ(file.read_text(encoding="utf-8"), text)]
    return Verified(sum(1 for _ in _numbers(fresh)), tuple(differences))


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Conclusions that changed, appeared or went away from one twin to another."""
    if old.get("name") != new.get("name"):
        raise ReportError(f"These are reports of different studies: {old.get('name')} and {new.get('name')}.")
    before, after = _conclusions(old), _conclusions(new)
    found = []
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            found.append(f"gone: {name} (was: {before[name]})")
        elif name not in before:
            found.append(f"new: {name}: {after[name]}")
        elif before[name] != after[name]:
            found.append(f"changed: {name}: {before[name]} -> {after[name]}")
    return found


def _conclusions(twin: dict[str, Any]) -> dict[str, str]:
    found = {}
    for section in _parts(twin, "sections"):
        title = section.get("title", "")
        for finding in section.get("findings", []):
            found[f"{title}: “{finding['claim']}”"] = str(finding["verdict"])
        for one in section.get("expectations", []):
            found[f"{title}: expected: “{one['claim']}”"] = str(one["verdict"])
        for name, value in section.get("conclusions", {}).items():
            found[f"{title}: {name}"] = str(value)
    return found


def _parts(twin: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = twin.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RecordError(f"The twin has no list of {name}: it is damaged. Build the report again.")
    return found


def plain(value: Any) -> Any:
    """Dataclasses of a report as JSON; blocks say what they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        kind = type(value).__name__.lower()
        return (
            {"block": kind, **fields}
            if kind in ("text", "table", "figure")
            else {k: v for k, v in fields.items() if v is not None}
        )
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _different(printed: Any, fresh: Any, where: str, texts: Collection[str] | None = None) -> Iterator[str]:
    """Every place where a printed number or text is not what the records give; of texts, those under ``texts`` if that is given."""
    if texts is not None and _is_table(printed) and _is_table(fresh):
        printed, fresh = _by_column(printed), _by_column(fresh)
        fresh["cells"] = {name: cells for name, cells in fresh["cells"].items() if name in printed["cells"]}
    if isinstance(printed, dict) and isinstance(fresh, dict):
        for key in dict.fromkeys([*printed, *fresh]):
            if key in ("weir_lab_version",):
                continue
            if key not in printed or key not in fresh:
                if texts is not None and key not in texts and _is_wording(printed.get(key, fresh.get(key))):
                    continue  # sentences that an earlier weir-lab did not say, or a later one does not
                if texts is not None and key not in printed and _is_table(fresh[key]):
                    continue  # a table that a later one has beside the sections
                yield f"{where}/{key}: {'not in the records' if key in printed else 'missing in the report'}"
            else:
                inside = None if texts is not None and key in texts else texts
                yield from _different(printed[key], fresh[key], f"{where}/{key}", inside)
    elif texts is not None and _only_texts(printed) and _only_texts(fresh):
        return
    elif texts is not None and _are_parts(printed) and _are_parts(fresh):
        yield from _parts_different(printed, fresh, where, texts)
    elif isinstance(printed, list) and isinstance(fresh, list):
        if len(printed) != len(fresh):
            yield f"{where}: {len(printed)} entries, the records give {len(fresh)}"
        for place, (one, other) in enumerate(zip(printed, fresh, strict=False)):
            name = _name_of(one) or str(place)
            yield from _different(one, other, f"{where}/{name}", texts)
    elif not _same(printed, fresh):
        yield f"{where}: the report says {_short(printed)}, the records give {_short(fresh)}"


def _parts_different(printed: Any, fresh: Any, where: str, texts: Collection[str]) -> Iterator[str]:
    """Sections and blocks by their names: each that was printed must be there."""
    there = {_name_of(one): one for one in fresh if _name_of(one)}
    for one in printed:
        name = _name_of(one)
        if not name:
            continue  # a paragraph: sentences are words about values
        if name not in there:
            yield f"{where}/{name}: not in the records"
        else:
            yield from _different(one, there[name], f"{where}/{name}", texts)


def _are_parts(value: Any) -> bool:
    """Whether this is a list of sections or of blocks, each with a name of its own; paragraphs among blocks have none.

    Conclusions are no such parts: every one must be there, and no other.
    """
    if not isinstance(value, list) or not value:
        return False
    if not all(isinstance(one, dict) and ("block" in one or "blocks" in one) for one in value):
        return False
    names = [one["name"] for one in value if "name" in one]
    return len(names) == len(set(names))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and value.get("block") == "table"


def _by_column(table: dict[str, Any]) -> dict[str, Any]:
    """A table whose cells stand under their headings, so that a later one may have more columns."""
    columns: dict[str, list[Any]] = {}
    for place, name in enumerate(table["columns"]):
        again = sum(1 for one in table["columns"][:place] if one == name)
        columns[f"{name} {again}" if again else name] = [row[place] for row in table["rows"]]
    return {key: value for key, value in table.items() if key not in ("columns", "rows")} | {"cells": columns}


def _only_texts(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(_only_texts(one) for one in value)
    )


def _is_wording(value: Any) -> bool:
    return value in ("", []) or _only_texts(value)


def _name_of(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or "")
    return ""


def _same(printed: Any, fresh: Any) -> bool:
    if isinstance(printed, int | float) and isinstance(fresh, int | float) and not isinstance(printed, bool):
        return math.isclose(printed, fresh, rel_tol=_TOLERANCE, abs_tol=1e-12)
    return bool(printed == fresh)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _lines_that_differ(printed: str, fresh: str) -> list[str]:
    """Lines of the page that are not what the records give, each with the table or figure that it stands in."""
    old, new = printed.splitlines(), fresh.splitlines()
    if old == new:
        return []
    found = []
    for kind, first, last, other, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        place = next(
            (name for line in reversed(old[: last or 1]) for name in re.findall(r'id="([^"]+)"', line)), "head"
        )
        shown = " ".join(_visible(line) for line in old[first:last])[:120]
        meant = " ".join(_visible(line) for line in new[other:end])[:120]
        found.append(f"in {place}: {shown!r} should be {meant!r}")
    return found


def _visible(line: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", line)).strip()
