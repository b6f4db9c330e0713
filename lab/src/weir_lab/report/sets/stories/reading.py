"""Twins of whole studies, as far as pages about several studies need them: `read_whole`, `find_wholes`.

A twin lies beside its page in the folder of runs, or in kept records, whose page is elsewhere.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir_lab.errors import RecordError, ReportError
from weir_lab.report.page.blocks import Expectation, Finding
from weir_lab.report.sets.kept import holds_records, kept_twin
from weir_lab.report.sets.system import SYSTEM
from weir_lab.report.sets.terms import TERMS
from weir_lab.report.sets.twin import SCHEMA, read_twin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "NO_STATION",
    "RUNS_MADE",
    "TESTBEDS",
    "VERDICTS",
    "Part",
    "Whole",
    "find_wholes",
    "in_order",
    "label_of",
    "read_whole",
]

VERDICTS = ("holds", "does not hold", "cannot tell", "no data")
RUNS_MADE = "runs made"
TESTBEDS = "testbeds"
"""What the facts of a report call the times of its first and its last run."""
_NUMBERED = re.compile(r"s\d+")
_KEPT = ".json.zst"
_BOTTLENECK = "bottleneck of "
_NONE = "none is full"
NO_STATION = "no station"
"""In place of the name of one, where none is full."""


@dataclass(frozen=True)
class Part:
    """A section: what it asked, what it concluded, and its tables and figures by name, as the twin has them."""

    name: str
    title: str
    question: str
    missing: str
    findings: tuple[Finding, ...]
    expectations: tuple[Expectation, ...]
    conclusions: Mapping[str, str]
    blocks: Mapping[str, Mapping[str, Any]]

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The named columns of a table of this section; none where there is no such table."""
        found = self.blocks.get(f"{self.name}-{table}")
        if found is None:
            return []
        places = {column: place for place, column in enumerate(found["columns"])}
        return [tuple(row[places[one]] if one in places else None for one in columns) for row in found["rows"]]

    def station_of(self, workload: str, series: str) -> str:
        """What is full where a series has its maximum; empty where nothing is, or nothing here says so."""
        found = self.conclusions.get(f"{_BOTTLENECK}{workload}, {series}", "")
        return "" if found == _NONE else found

    def figure(self, name: str) -> Mapping[str, Any] | None:
        """A figure of this section."""
        return self.blocks.get(f"{self.name}-{name}")


@dataclass(frozen=True)
class Whole:
    """A whole study, as its report tells it. ``path`` is that of its twin, ``page`` its report, which may not be there."""

    path: Path
    page: Path
    name: str
    title: str
    pace: str
    testbed: str
    summary: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    proxy_cpus: float | None = None
    """How many CPUs a proxy of the study has at most, by its study files; `None` where they limit none."""
    one_proxy: bool = False
    """Whether no sweep has more proxies than one, so that the quota of one is that of all."""

    @property
    def label(self) -> str:
        """How pages call it."""
        return label_of(self.name)

    @property
    def counted(self) -> Counter[str]:
        """How many of the study's conclusions have each verdict on our data."""
        return Counter(one.verdict for part in self.parts for one in part.findings)

    @property
    def expected(self) -> Counter[str]:
        """The same of what was expected, by the study and by us."""
        return Counter(one.verdict for part in self.parts for one in part.expectations)

    @property
    def full(self) -> Counter[str]:
        """Which station is full at the maximum, and in how many curves over clients; `NO_STATION` where none is."""
        return Counter(
            NO_STATION if station == _NONE else station
            for part in self.parts
            for name, station in part.conclusions.items()
            if name.startswith(_BOTTLENECK)
        )

    @property
    def absent(self) -> tuple[str, ...]:
        """Titles of sections that are not there, or only in part."""
        return tuple(part.title for part in self.parts if part.missing)


def label_of(name: str) -> str:
    """``S1`` for the set ``s1``; other names as they are."""
    return name.upper() if _NUMBERED.fullmatch(name) else name


def in_order(names: Iterable[str]) -> list[str]:
    """Numbered studies first."""
    return sorted(names, key=lambda name: (not _NUMBERED.fullmatch(name), name))


def read_whole(path: Path, pages: Path | None = None) -> Whole:
    """Read the report of a whole study by its twin, its page, the folder in which it is, or its kept records.

    ``pages`` is the folder of the pages; without it each lies beside its twin.
    """
    if path.is_dir():
        twins = _twins_in(path)
        if len(twins) != 1:
            found = ", ".join(one.name for one in twins) or "none"
            raise RecordError(
                f"{path}: one report of a whole study is needed here, and there is: {found}. Name its twin (NAME.json)."
            )
        path = twins[0]
    if path.name.endswith(_KEPT):
        path, twin = kept_twin(path.parent)
    else:
        path, twin = path.with_suffix(".json"), read_twin(path)
    try:
        return _whole(path, pages or path.parent, twin)
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(
            f"{path}: a damaged twin, or of another version ({type(error).__name__}: {error}). Build it again with `weir-lab study "
            "NAME --report-only`."
        ) from error


def find_wholes(paths: Iterable[Path], pages: Path | None = None) -> list[Whole]:
    """Every whole study of these reports, folders and kept records, and of the folders in them, in the order of their names."""
    files: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise RecordError(f"{path}: not there. Give reports of whole studies, or folders that have them.")
        inside = [path, *sorted(one for one in path.iterdir() if one.is_dir())] if path.is_dir() else []
        given = path if path.name.endswith(_KEPT) else path.with_suffix(".json")
        twins = [twin for folder in inside for twin in _twins_in(folder)] if inside else [given]
        files.update(dict.fromkeys(twins))
    found: dict[str, Whole] = {}
    for file in files:
        whole = read_whole(file, pages)
        if whole.name in found:
            raise ReportError(
                f"There are two reports of {whole.name}: {found[whole.name].path} and {file}. Give one of them."
            )
        found[whole.name] = whole
    return [found[name] for name in in_order(found)]


def _twins_in(folder: Path) -> list[Path]:
    if holds_records(folder):
        return [kept_twin(folder)[0]]
    return [file for file in sorted(folder.glob("*.json")) if _is_twin(file)]


def _is_twin(file: Path) -> bool:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("schema") == SCHEMA


def _whole(path: Path, pages: Path, twin: Mapping[str, Any]) -> Whole:
    system = next((_part(section) for section in twin["sections"] if section["name"] == SYSTEM), None)
    return Whole(
        path,
        pages / f"{twin['name']}.html",
        str(twin["name"]),
        str(twin["title"]),
        str(twin["pace"]),
        str(twin["testbed"]),
        tuple(twin["summary"]),
        tuple((str(name), str(value)) for name, value in twin["facts"]),
        tuple(_part(section) for section in twin["sections"] if section["name"] not in (SYSTEM, TERMS)),
        _proxy_cpus(system),
        _one_proxy(system),
    )


def _proxy_cpus(system: Part | None) -> float | None:
    """The most that a row of the table of machines gives a proxy."""
    heads = ("Tier", "Study: CPUs", "Study (assumed): CPUs")
    rows = system.rows("machines", heads) if system is not None else []
    found = [
        float(cpus["value"]) for tier, *both in rows for cpus in both if tier == "proxy" and isinstance(cpus, dict)
    ]
    return max(found, default=None)


def _one_proxy(system: Part | None) -> bool:
    """By the column of the table of sweeps, which has a dash where requests go directly."""
    found = {str(proxies) for (proxies,) in system.rows("layouts", ("Proxies",))} if system is not None else set()
    return "1" in found and found <= {"1", "–"}


def _part(section: Mapping[str, Any]) -> Part:
    return Part(
        section["name"],
        section["title"],
        section["question"],
        section["missing"],
        tuple(Finding(*_asked(one)) for one in section["findings"]),
        tuple(Expectation(*_asked(one), one["whose"], one["study_found"]) for one in section.get("expectations", ())),
        dict(section["conclusions"]),
        {block["name"]: block for block in section["blocks"] if "name" in block},
    )


def _asked(one: Mapping[str, Any]) -> tuple[str, str, str, str, float | None]:
    return one["name"], one["claim"], one["verdict"], one["evidence"], one.get("p")
