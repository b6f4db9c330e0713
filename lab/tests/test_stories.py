"""Pages about several whole studies: what they say agrees with the twins that they are made of, and what is missing is said."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.cli import app
from weir_lab.errors import RecordError, ReportError
from weir_lab.report.page.blocks import Table
from weir_lab.report.page.html import html_page
from weir_lab.report.sets import Sources, assemble, write_report
from weir_lab.report.sets.stories import find_wholes, index_report, linked, read_whole
from weir_lab.report.sets.stories.reading import VERDICTS
from weir_lab.report.sets.stories.telling import LINE_CHARACTERS, LINES_MAX, tell, verdicts_text

if TYPE_CHECKING:
    from weir_lab.report.page.blocks import Report
    from weir_lab.report.sets.stories.reading import Whole

DATA = Path(__file__).parent / "data" / "whole"
# Two studies of one design: the same but for what is filled in. With 8 workers the first full system writes 8,000 requests/s, the second,
# whose workers take twice as long, 4,000.
SET = """
schema = "weir.set/1"
name = "{name}"
title = "{label} again: from a baseline to the full system"
about = "Synthetic."
engine = "pool"

[[sections]]
name = "baseline"
title = "Baseline"
kind = "clients"
files = ["t-direct.toml"]
[[sections.claims]]
name = "{name}-read-bound"
claim = "Reads are limited by the server's link."
rule = "limited_by"
at = {{ write_ratio = 0.0 }}
args = {{ station = "server uplinks" }}
[[sections.claims]]
name = "{name}-write-bound"
claim = "Writes are limited by the links of the {station}."
rule = "limited_by"
at = {{ write_ratio = 1.0 }}
args = {{ station = "{station}" }}

[[sections]]
name = "full"
title = "Full system"
kind = "clients"
files = ["t-full.toml"]
beside = true
[[sections.claims]]
name = "{name}-full-max"
claim = "With 8 workers the full system writes 8,000 requests/s."
rule = "reaches"
at = {{ workers = 8 }}
args = {{ value = 8000.0, percent = 5.0 }}
[[sections.hypotheses]]
name = "{name}-h-{workers}"
hypothesis = "More workers write more."
from = "ours"
rule = "grows_with"
args = {{ factor = "workers" }}

[[sections]]
name = "replication"
title = "Replication"
kind = "replication"
files = ["t-repl.toml"]
[[sections.claims]]
name = "{name}-set-slower"
claim = "SETs get slower with copies."
rule = "slower_with"
args = {{ factor = "replicas", operation = "set" }}
"""
FILLED = {
    "s3": {"station": "server uplinks", "workers": "workers"},
    "s5": {"station": "client uplinks", "workers": "crew"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reports of two studies; tests must not change it."""
    root = tmp_path_factory.mktemp("stories")
    files = root / "files"
    shutil.copytree(DATA, files)
    for name, truth in (("s3", Truth()), ("s5", Truth(worker_ms=4.0))):
        (files / f"{name}.set.toml").write_text(SET.format(name=name, label=name.upper(), **FILLED[name]))
        folder = root / f"{name}-quick-netns"
        study_set = take_files(files / f"{name}.set.toml", folder)
        write_whole(folder, study_set, truth, leave_out=("t-repl.toml",))
        write_report(assemble(study_set, Sources(folder, folder / "studies"), "quick", "netns"), folder)
    return root


@pytest.fixture(scope="module")
def wholes(root: Path) -> list[Whole]:
    return find_wholes([root])


def table(report: Report, name: str) -> Table:
    return next(one for part in report.sections for one in part.blocks if isinstance(one, Table) and one.name == name)


def twin(root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / f"{name}-quick-netns" / f"{name}.json").read_text())
    return found


def copied(root: Path, name: str, to: Path) -> Path:
    """A report and its set, without runs."""
    shutil.copytree(root / f"{name}-quick-netns" / "studies", to / "studies")
    for ending in ("json", "html"):
        shutil.copy(root / f"{name}-quick-netns" / f"{name}.{ending}", to)
    return to / f"{name}.json"


def test_an_index_counts_what_the_twins_hold(root: Path, wholes: list[Whole]) -> None:
    report = index_report(wholes, ["s5", "s3"])
    rows = table(report, "counts").rows
    for story, row, name in zip(report.summary, rows[:2], ("s3", "s5"), strict=True):
        counted = Counter(one["verdict"] for part in twin(root, name)["sections"] for one in part["findings"])
        assert row[:6] == (name.upper(), counted.total(), *(counted[verdict] for verdict in VERDICTS))
        assert story.startswith(
            f"{name.upper()}, from a baseline to the full system: of {counted.total()} conclusions "
        )
        assert f" {counted['no data']} has no data" in story
        assert twin(root, name)["summary"][0].split("; ")[0].rstrip(".") in story
        assert row[-1] == "2 of 3"
    together = [sum(int(str(row[at])) for row in rows[:2]) for at in range(1, 6)]
    assert list(rows[2][:6]) == ["all", *together]
    assert report.limits == (
        "S3 is there in part: 1 section of 3 not, or not whole.",
        "S5 is there in part: 1 section of 3 not, or not whole.",
    )


def test_what_is_full_is_counted_by_curve(root: Path, wholes: list[Whole]) -> None:
    full = table(index_report(wholes, []), "full")
    assert full.columns == ("Station", "S3", "S5")
    for place, name in ((1, "s3"), (2, "s5")):
        named = [
            station
            for part in twin(root, name)["sections"]
            for key, station in part["conclusions"].items()
            if key.startswith("bottleneck of ")
        ]
        assert {row[0]: row[place] for row in full.rows if row[place]} == {
            station.replace("none is full", "no station"): count for station, count in Counter(named).items()
        }


def test_a_sentence_follows_its_verdicts_whatever_they_are(wholes: list[Whole]) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        drawn = rng.choice(VERDICTS, size=4)
        parts = list(wholes[0].parts)
        of_each = iter(drawn)
        changed = [
            dataclasses.replace(
                part, findings=tuple(dataclasses.replace(one, verdict=str(next(of_each))) for one in part.findings)
            )
            for part in parts
        ]
        whole = dataclasses.replace(wholes[0], parts=tuple(changed))
        counts = [int(count) for count in re.findall(r"\d+", verdicts_text(whole))]
        wanted = Counter(str(one) for one in drawn)
        assert counts == [4, *(wanted[verdict] for verdict in VERDICTS if wanted[verdict])]
        assert sum(counts[1:]) == 4
        assert [table(index_report([whole], []), "counts").rows[0][at] for at in range(2, 6)] == [
            wanted[verdict] for verdict in VERDICTS
        ]


def test_six_studies_have_ten_lines(wholes: list[Whole]) -> None:
    six = [dataclasses.replace(wholes[0], name=f"s{number}") for number in range(1, 7)]
    assert any("full at" in story.lower() or "limited by" in story for story in tell(six[:3]))
    stories = tell(six)
    assert sum(math.ceil(len(story) / LINE_CHARACTERS) for story in stories) <= LINES_MAX
    assert all("conclusions" in story for story in stories)


def test_an_index_page_leads_to_the_reports_and_says_what_is_missing(root: Path, tmp_path: Path) -> None:
    out = root / "pages" / "index.html"
    done = CliRunner().invoke(app, ["index", str(root), "--out", str(out), "--studies", str(tmp_path / "none")])
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert page.count('<a href="../s3-quick-netns/s3.html">S3</a>') >= 3
    assert "Missing: S1, S2, S4, own. No report of it was given" in page
    assert "Missing: S1, S2, S4, own." in done.output
    assert all(f"<td>{name}</td>" in page for name in ("S1", "S2", "S4", "own"))
    (out.parent / "s3.json").write_text((root / "s3-quick-netns" / "s3.json").read_text())
    alone = find_wholes([out.parent / "s3.json"])
    assert "s3.html" not in linked(html_page(index_report(alone, [])), alone, out), (
        "no link to a page that is not there"
    )
    shutil.rmtree(out.parent)


def test_faults_name_the_file_and_what_to_do(root: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none: not there\. Give reports"):
        find_wholes([tmp_path / "none"])
    with pytest.raises(RecordError, match="one report of a whole study is needed here, and there is: none"):
        read_whole(tmp_path)
    with pytest.raises(ReportError, match="No report of a whole study is here"):
        index_report(find_wholes([tmp_path]), ["s3"])
    path = copied(root, "s3", tmp_path)
    with pytest.raises(ReportError, match=r"two reports of s3: .*Give one of them"):
        find_wholes([root, path])
    path.write_text(json.dumps(twin(root, "s3") | {"sections": [{"name": "x"}]}))
    with pytest.raises(RecordError, match=r"s3\.json: a damaged twin.*Build it again"):
        read_whole(path)
