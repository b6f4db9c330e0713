"""Pages about several whole studies: what they say agrees with the twins that they are made of, and what is missing is said."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections import Counter
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.cli import app
from weir_lab.errors import RecordError, ReportError
from weir_lab.records.places import AWAKE_TOOK_TIME
from weir_lab.records.sharing.files import write_kept
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.page.html import html_page
from weir_lab.report.sets import Sources, assemble, write_report
from weir_lab.report.sets.stories import (
    earlier_pages,
    find_wholes,
    index_report,
    linked,
    pair_report,
    read_whole,
)
from weir_lab.report.sets.stories.maxima import Maximum, MaximumPair, pair_curves, pair_maxima, speed_of
from weir_lab.report.sets.stories.pair import _per_cpu, _per_cpu_table, _per_cpu_text, _why_not_compared, _why_text
from weir_lab.report.sets.stories.pairing import pair_questions, set_of
from weir_lab.report.sets.stories.reading import VERDICTS
from weir_lab.report.sets.stories.telling import LINE_CHARACTERS, LINES_MAX, _first_clause, tell, verdicts_text
from weir_lab.theory.stats import Interval

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
        assert re.sub(r" \(“[^()]*\)", "", twin(root, name)["summary"][0]).split("; ")[0].rstrip(".") in story
        assert row[-1] == "2 of 3"
    # Two studies of one design share claims: a sum over all would count them twice.
    assert len(rows) == 2
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
    assert any("full at" in story.lower() or "uplinks limit" in story for story in tell(six[:3]))
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
    assert all(f"<td>{name}<td>" in page for name in ("S1", "S2", "S4", "own"))
    (out.parent / "s3.json").write_text((root / "s3-quick-netns" / "s3.json").read_text())
    alone = find_wholes([out.parent / "s3.json"])
    assert "s3.html" not in linked(html_page(index_report(alone, [])), alone, out), (
        "no link to a page that is not there"
    )
    shutil.rmtree(out.parent)


def test_an_index_names_pages_without_kept_records_and_how_they_were_made(root: Path, tmp_path: Path) -> None:
    """By the page's twin where one lies beside it, else by the page; what they conclude is in no count."""
    for name in ("s1", "s4"):
        page = (root / "s5-quick-netns" / "s5.html").read_text()
        (tmp_path / f"{name}.html").write_text(page.replace("S5 again: ", f"{name.upper()} again: "))
    made = {
        "title": "S4 again: <by its twin>",
        "pace": "standard",
        "facts": [["runs made", "2026-11-20 to 2026-11-21 UTC"]],
    }
    (tmp_path / "s4.json").write_text(json.dumps(twin(root, "s5") | made))
    kept = twin(root, "s5")
    last = dict(kept["facts"])["runs made"].rpartition(" to ")[2]
    out = tmp_path / "index.html"
    call = ["index", str(root / "s3-quick-netns"), "--out", str(out), "--studies", str(tmp_path / "none")]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    page = out.read_text()
    answers = page[page.index('id="answers"') : page.index('id="full"')]
    rows = dict(re.findall(r"<td>(?:<a[^>]*>)?(\w+)(?:</a>)?<td>(.*?)\n", answers.replace("<tr>", "\n<tr>")))
    assert rows["S1"].endswith(
        f"made at the pace quick, before {last}; its runs are not here, so that nothing verifies it"
    )
    assert rows["S1"].startswith("from a baseline to the full system<td>")
    page_made = "made at the pace standard, before 2026-11-21 UTC; its runs are not here, so that nothing verifies it"
    assert rows["S4"] == f"&lt;by its twin&gt;<td>–<td>{page_made}"
    assert "made at" not in rows["S3"]
    assert rows["S2"] == "no report was given<td>–<td>–"
    assert page.count('<a href="s1.html">S1</a>') == page.count('<a href="s4.html">S4</a>') == 2
    assert "The runs of S1 and S4 are not here, but earlier pages are" in page
    assert "Missing: S2, S5, own." in page
    wholes = find_wholes([root / "s3-quick-netns"])
    counted = [table(index_report(wholes, [], one), "counts").rows for one in ([], earlier_pages(tmp_path, ["s1"]))]
    assert counted[0] == counted[1]
    (tmp_path / "s1.html").write_text("<p>another page</p>")
    with pytest.raises(ReportError, match=r"s1\.html: no page of a whole study: .*make it again"):
        earlier_pages(tmp_path, ["s1"])


def test_questions_are_paired_by_name_and_else_by_rule(wholes: list[Whole]) -> None:
    one, other = wholes
    found = {item.one.name: item for item in pair_questions(one, set_of(one), other, set_of(other))}
    assert {name: (item.other.name, item.answered) for name, item in found.items()} == {
        "s3-read-bound": ("s5-read-bound", "alike"),
        "s3-write-bound": ("s5-write-bound", "other claims"),
        "s3-full-max": ("s5-full-max", "otherwise"),
        "s3-h-workers": ("s5-h-crew", "alike"),
        "s3-set-slower": ("s5-set-slower", "not decided"),
    }
    assert (found["s3-full-max"].one.verdict, found["s3-full-max"].other.verdict) == ("holds", "does not hold")


def test_maxima_of_two_studies_have_their_true_ratio(wholes: list[Whole]) -> None:
    found = {(pair.section, pair.one.workload, pair.one.series): pair for pair in pair_maxima(*wholes)}
    few = found["Full system", "writes", "8 workers"]
    assert few.verdict == "below"
    assert few.ratio is not None
    assert few.ratio.low < 0.5 < few.ratio.high
    reads = found["Baseline", "reads", "direct"]
    assert reads.ratio is not None
    assert reads.ratio.mean == pytest.approx(1.0, abs=0.01)
    assert reads.matched
    assert not reads.beside
    assert [pair.beside for pair in found.values() if pair.one.series == "event engine"] == [True]


def test_a_pair_page_counts_what_its_tables_hold(root: Path) -> None:
    out = root / "pair.html"
    folders = [str(root / f"{name}-quick-netns") for name in ("s3", "s5")]
    done = CliRunner().invoke(app, ["pair", *folders, "--out", str(out)])
    assert done.exit_code == 0, done.output
    report = pair_report(*(read_whole(Path(folder)) for folder in folders))
    answered = Counter(row[-1] for name in ("concluded-apart", "concluded-rest") for row in table(report, name).rows)
    assert answered == {"alike": 1, "otherwise": 1, "not decided": 1, "other claims": 1}
    assert report.summary[0] == "S3 and S5 share 3 conclusions; on our data: 1 alike, 1 otherwise, 1 not decided."
    assert report.summary[1] == "On one further conclusion the two studies contradict each other."
    maxima = [*table(report, "pair-maxima").rows, *table(report, "pair-maxima-others").rows]
    own = Counter(row[-1] for row in maxima if row[1] != "event engine")
    said = re.search(r"(\d+) maxima of S5 with the studies' own engine: (.*?)\.", report.summary[-1])
    assert said is not None
    assert int(said[1]) == own.total()
    assert f"{own['below']} below S3" in said[2]
    page = unescape(out.read_text())
    assert all(line in page for line in report.summary)
    assert page.count("<figure ") == 2
    assert '<a href="s5-quick-netns/s5.html">S5</a>' in page


def slower(path: Path, speed: float) -> None:
    """Rewrite a twin as if its machines had run at a speed: rates times that, with the table's column at the study's speed."""
    found = json.loads(path.read_text())
    for part in found["sections"]:
        for block in part["blocks"]:
            if block.get("name") == f"{part['name']}-maxima":
                at = block["columns"].index("X (requests/s)")
                block["columns"].append("X at the study's speed (requests/s)")
                for row in block["rows"]:
                    row.append({"value": row[at]["value"]})
                    row[at] = row[at] | {
                        key: row[at][key] * speed for key in ("value", "low", "high") if key in row[at]
                    }
            if block.get("name") == f"{part['name']}-throughput":
                for mark in (mark for panel in block["panels"] for line in panel["lines"] for mark in line["marks"]):
                    mark |= {key: mark[key] * speed for key in ("y", "low", "high") if mark.get(key) is not None}
    path.write_text(json.dumps(found))


def test_kept_records_stand_for_their_reports(root: Path, tmp_path: Path) -> None:
    """Nights leave records, and pages are elsewhere."""
    records, pages = tmp_path / "records", tmp_path / "pages"
    pages.mkdir()
    for name in ("s3", "s5"):
        folder = records / f"{name}-night-netns"
        shutil.copytree(root / f"{name}-quick-netns" / "studies", folder / "studies")
        write_kept(folder / f"{name}.json.zst", twin(root, name))
        (pages / f"{name}.html").write_text("")
    there, kept = find_wholes([root]), find_wholes([records])
    assert [
        dataclasses.replace(one, path=here.path, page=here.page) for one, here in zip(kept, there, strict=True)
    ] == there
    out = pages / "index.html"
    done = CliRunner().invoke(app, ["index", str(records), "--out", str(out), "--pages", str(pages)])
    assert done.exit_code == 0, done.output
    assert '<a href="s3.html">S3</a>' in out.read_text()
    folders = [str(records / f"{name}-night-netns") for name in ("s3", "s5")]
    done = CliRunner().invoke(app, ["pair", *folders, "--out", str(pages / "pair.html"), "--pages", str(pages)])
    assert done.exit_code == 0, done.output
    assert '<a href="s5.html">S5</a>' in (pages / "pair.html").read_text()
    shutil.copy(next(records.rglob("s3.json.zst")), records / "s5-night-netns" / "s3.json.zst")
    with pytest.raises(RecordError, match=r"2 reports .* in it, not one"):
        find_wholes([records])


def test_a_second_row_of_a_series_stands_for_a_printed_number_alone(
    root: Path, wholes: list[Whole], tmp_path: Path
) -> None:
    """S1 and S4 printed two maxima of each series; ours stands in the first row."""
    path = copied(root, "s5", tmp_path)
    found = json.loads(path.read_text())
    for part in found["sections"]:
        for block in part["blocks"]:
            if block.get("name") == f"{part['name']}-maxima":
                again = [[*row[:3], "as above", *[""] * (len(row) - 4)] for row in block["rows"]]
                block["rows"] = [one for pair in zip(block["rows"], again, strict=True) for one in pair]
    path.write_text(json.dumps(found))
    doubled = read_whole(path)
    for here, there in zip(pair_maxima(*wholes), pair_maxima(wholes[0], doubled), strict=True):
        assert (here.other.throughput.mean, here.verdict) == (there.other.throughput.mean, there.verdict)


def test_rates_are_compared_at_the_speed_of_the_studies(root: Path, wholes: list[Whole], tmp_path: Path) -> None:
    path = copied(root, "s5", tmp_path)
    slower(path, 0.4)
    slow = read_whole(path)
    assert speed_of(slow.parts[0]) == pytest.approx(0.4)
    for here, there in zip(pair_maxima(*wholes), pair_maxima(wholes[0], slow), strict=True):
        assert here.other.throughput.mean == pytest.approx(there.other.throughput.mean)
        assert (here.verdict, here.other.clients) == (there.verdict, there.other.clients)
    drawn, again = pair_curves(*wholes), pair_curves(wholes[0], slow)
    assert list(drawn) == list(again) == ["baseline", "full"]
    marks, others = (
        [mark.y for _, panels in one.values() for panel in panels for line in panel.lines for mark in line.marks]
        for one in (drawn, again)
    )
    assert marks == pytest.approx(others)
    names = [line.name for line in drawn["full"][1][0].lines]
    assert names[:2] == ["S3, 8 workers", "S3, 64 workers"]
    assert "S5, event engine" in names


def test_series_that_differ_stand_by_their_largest(root: Path, wholes: list[Whole], tmp_path: Path) -> None:
    path = copied(root, "s5", tmp_path)
    path.write_text(path.read_text().replace('"8 workers"', '"9 workers"').replace('"64 workers"', '"63 workers"'))
    other = read_whole(path)
    found = [pair for pair in pair_maxima(wholes[0], other) if pair.section == "Full system"]
    assert [(pair.one.series, pair.other.series, pair.matched, pair.beside) for pair in found] == [
        ("64 workers", "63 workers", False, False),
        ("event engine", "event engine", True, True),
    ]
    lines = pair_curves(wholes[0], other)["full"][1][0].lines
    assert [line.name for line in lines] == [
        "S3, 64 workers",
        "S3, event engine",
        "S5, 63 workers",
        "S5, event engine",
    ]
    report = pair_report(wholes[0], other)
    assert table(report, "pair-maxima").rows[-1][1] == "64 workers; 63 workers"
    assert any("the largest of each study" in line for line in report.limits)


def test_a_pair_says_when_the_testbed_slowed_one_of_them(wholes: list[Whole]) -> None:
    """S5 wrote 4 % more than S3 through eight workers, and the page did not say that a loop had slowed those of S3."""
    one, other = wholes[:2]
    slowed = dataclasses.replace(one, facts=(*one.facts, ("note 2", f"a loop; {AWAKE_TOOK_TIME}")))
    said = f"In the runs of {one.label} alone the loop that kept cores awake took CPU time from the machines"
    assert any(line.startswith(said) for line in pair_report(slowed, other).limits)
    for pair in ((one, other), (slowed, dataclasses.replace(other, facts=slowed.facts))):
        assert not any("took CPU time" in line for line in pair_report(*pair).limits)


def test_a_pair_says_whose_machine_was_faster(wholes: list[Whole]) -> None:
    """S4 was made anew on a machine a third faster than that of S1, and both have proxies whose quotas limit."""
    one, other = wholes[:2]

    def with_yardstick(whole: Whole, took: str) -> Whole:
        facts = [(name, value) for name, value in whole.facts if name != "yardstick"]
        return dataclasses.replace(whole, facts=(*facts, ("yardstick", f"{took} µs in the median run")))

    said = f"The machine of {other.label} was 1.33 times as fast as that of {one.label}, by the yardstick"
    lines = pair_report(with_yardstick(one, "2,176.1"), with_yardstick(other, "1,634.0")).limits
    assert any(line.startswith(said) for line in lines)
    said = f"The machine of {one.label} was 1.33 times"
    lines = pair_report(with_yardstick(one, "163.4"), with_yardstick(other, "217.6")).limits
    assert any(line.startswith(said) for line in lines)
    for pair in ((with_yardstick(one, "163.4"), with_yardstick(other, "170.0")), (with_yardstick(one, "163.4"), other)):
        assert not any("yardstick" in line for line in pair_report(*pair).limits)


def a_maximum(mean: float, station: str = "", *, shown: bool = True, series: str = "16 readers") -> Maximum:
    return Maximum("reads", series, 288, Interval(mean, 0.98 * mean, 1.02 * mean, 5, 0.95), shown, station)


def test_a_reason_for_a_difference_goes_the_way_of_the_difference(wholes: list[Whole]) -> None:
    """S5 was said to be below S3 because the runs of S3 had lost CPU time, which makes S3 the lower one; and a link was full in both."""
    one, other = wholes[:2]
    slowed = dataclasses.replace(one, facts=(*one.facts, ("note 2", f"a loop; {AWAKE_TOOK_TIME}")))

    def why(mean: float, station: str = "proxy CPU quotas", slow: Whole = slowed) -> str:
        pair = MaximumPair("s", a_maximum(1000.0, station), a_maximum(mean, station), matched=True, beside=False)
        return _why_text(slow, other, pair)

    assert why(1100.0) == ": the runs of S3 lost CPU time to the testbed, as “How far to trust this” says"
    assert why(900.0) == why(1100.0, "server uplinks") == why(1100.0, slow=one) == ""

    def with_yardstick(whole: Whole, took: str) -> Whole:
        facts = [(name, value) for name, value in whole.facts if name != "yardstick"]
        return dataclasses.replace(whole, facts=(*facts, ("yardstick", f"{took} µs in the median run")))

    other = with_yardstick(other, "150.0")
    slow = with_yardstick(one, "300.0")
    assert why(1100.0, slow=slow) == ": the machine of S5 was 2.00 times as fast"
    assert why(900.0, slow=slow) == ""


def test_maxima_that_a_quota_limits_are_held_against_each_other_for_each_cpu(wholes: list[Whole]) -> None:
    """48,316 requests/s of 0.9 CPUs and 36,047 of 0.66 are nearly the same for each CPU, which the page did not say."""
    one = dataclasses.replace(wholes[0], proxy_cpus=0.9, one_proxy=True)
    other = dataclasses.replace(wholes[1], proxy_cpus=0.66, one_proxy=True)

    def pair(station: str = "proxy CPU quotas", *, beside: bool = False) -> MaximumPair:
        left, right = (a_maximum(mean, station, shown=False) for mean in (48_316.0, 36_047.0))
        return MaximumPair("Maximum throughput", left, right, matched=True, beside=beside)

    found = _per_cpu(one, other, [pair(), pair("readers"), pair(beside=True)])
    assert len(found) == 1
    assert _per_cpu_text(one, other, found) == [
        "For each CPU that its proxy may use S5 has 1.02 times the throughput of S3, by means, and 0.75 times in all (Maximum throughput, "
        "reads, 16 readers): the quotas limit both, and were chosen."
    ]
    row = _per_cpu_table(one, other, found).rows[0]
    assert [one.text if isinstance(one, Value) else one for one in row] == [
        "Maximum throughput: reads", "16 readers", "53,684 ± 1,074", "54,617 ± 1,092", "1.02", "0.75",
    ]  # fmt: skip
    for unlike in ({"proxy_cpus": 0.9}, {"proxy_cpus": None}, {"one_proxy": False}):
        assert _per_cpu(one, dataclasses.replace(other, **unlike), [pair()]) == []
    assert _per_cpu_text(one, other, []) == []
    # The full system of both sets has two proxies.
    assert not any(whole.one_proxy for whole in wholes)


def test_a_clause_that_is_not_the_most_says_so() -> None:
    """“Reads stop at 23,566–23,851 requests/s” answered how many are answered at most; the same sentence went on with 25,233."""
    said = (
        "Reads stop at 23,566–23,851 requests/s where the proxy CPU quotas limit (“Finer”); at 24,192–25,233 requests/s where the proxy "
        "CPU quotas limit (“Coarse”)."
    )
    assert _first_clause(said) == "Reads stop most often at 23,566–23,851 requests/s where the proxy CPU quotas limit."
    assert _first_clause(said.replace("25,233", "23,233").replace("24,192", "22,192")) == (
        "Reads stop at 23,566–23,851 requests/s where the proxy CPU quotas limit."
    )
    assert _first_clause(said.replace("stop at", "reach")).startswith("Reads most often reach 23,566")
    other = "Stability: s1-trace is stable (spread 4.6 %)."
    assert _first_clause(other) == other


def test_what_is_decided_in_one_study_only_is_said_with_its_name(wholes: list[Whole]) -> None:
    """“Not decided in both” was read as “in neither”, and was S5's verdicts beside S3's single runs."""
    one, other = wholes

    def undecided(whole: Whole, name: str) -> Whole:
        parts = [
            dataclasses.replace(
                part,
                findings=tuple(
                    dataclasses.replace(finding, verdict="cannot tell") if finding.name == name else finding
                    for finding in part.findings
                ),
            )
            for part in whole.parts
        ]
        return dataclasses.replace(whole, parts=tuple(parts))

    report = pair_report(undecided(one, "s3-read-bound"), other)
    assert "1 decided on data of S5 only" in report.summary[0]
    rows = {row[0]: row[-1] for row in table(report, "concluded-rest").rows}
    assert rows["Reads are limited by the server's link."] == "decided in one only"


def test_verdicts_at_other_levels_and_claims_that_can_both_be_true_do_not_contradict(
    root: Path, wholes: list[Whole], tmp_path: Path
) -> None:
    """“Otherwise” stood beside 1 to 32 threads and 8 to 16, and “claim different things” beside sentences that can both be true."""

    def paired(before: str, after: str) -> dict[str, str]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        other = read_whole(copied(root, "s5", folder))
        file = other.path.parent / "studies" / "s5.set.toml"
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))
        questions = pair_questions(wholes[0], set_of(wholes[0]), other, set_of(other))
        return {item.one.name: item.answered for item in questions}

    workers = "at = { workers = 8 }"
    assert paired(workers, workers)["s3-full-max"] == "otherwise"
    assert paired(workers, "at = { workers = 64 }")["s3-full-max"] == "other levels"
    # What is printed, and margins, are no levels.
    assert paired("value = 8000.0, percent = 5.0", "value = 8000.0, percent = 6.0")["s3-full-max"] == "otherwise"
    slower = 'rule = "slower_with"\nargs = { factor = "replicas", operation = "set" }'
    asked = 'rule = "change_within"\nargs = { factor = "replicas", from = 1, to = 2, low = 5.0, high = 9.0 }'
    assert paired(slower, asked)["s3-set-slower"] == "other questions"
    assert paired(workers, workers)["s3-write-bound"] == "other claims"


def test_a_pair_of_one_engine_is_said_to_be_of_one_system(wholes: list[Whole]) -> None:
    """“Each of a system of its own” is true of the studies, and was said of our runs, which used one program."""
    about = pair_report(*wholes).about
    assert "Our runs of both used one program, with its pool engine." in about
    assert "S5 over S3 says how well runs repeat" in about
    other = dataclasses.replace(wholes[1], testbed="hosts")
    assert "one program" not in pair_report(wholes[0], other).about


def test_a_pair_names_what_only_one_study_has(wholes: list[Whole]) -> None:
    one, other = wholes
    parts = tuple(dataclasses.replace(part, findings=()) if part.name == "full" else part for part in other.parts)
    report = pair_report(one, dataclasses.replace(other, parts=parts))
    alone = table(report, "unpaired").rows
    claim = "With 8 workers the full system writes 8,000 requests/s."
    assert [row[:3] for row in alone if row[1] == "conclusion"] == [("S3", "conclusion", claim)]


def test_an_index_leads_to_pages_of_two_studies_and_says_what_slowed_one(root: Path, wholes: list[Whole]) -> None:
    slowed = dataclasses.replace(wholes[0], facts=(*wholes[0].facts, ("note 2", f"a loop; {AWAKE_TOOK_TIME}")))
    report = index_report([slowed, wholes[1]], [], (), ("S3 and S5 side by side",))
    assert any(line.startswith("In the runs of S3 the loop that keeps cores awake took CPU") for line in report.limits)
    page = linked(html_page(report), wholes, root / "index.html", {"S3 and S5 side by side": "s3-s5.html"})
    assert '<a href="s3-s5.html">S3 and S5 side by side</a>' in page


def test_a_maximum_that_is_not_shown_has_no_ratio(root: Path, wholes: list[Whole], tmp_path: Path) -> None:
    path = copied(root, "s5", tmp_path)
    path.write_text(re.sub(r'"shown, mean of [^"]*"', '"cannot tell: too few runs"', path.read_text()))
    report = pair_report(wholes[0], read_whole(path))
    assert {(row[6], row[7]) for row in table(report, "pair-maxima").rows} == {("–", "not compared")}
    said = (
        "4 maxima of S5 with the studies' own engine: 4 not compared (3 because one of the two is a largest mean, and no maximum is "
        "shown; 1 because both are largest means, and no maximum is shown)."
    )
    assert said in report.summary[-1]
    (first, *_) = report.sections[1].blocks
    assert isinstance(first, Table)
    assert "they are those of the largest mean, and there is no ratio." in first.caption
    shown, not_shown = (Maximum("reads", "a", 6, Interval(2.0, 1.0, 3.0, 3, 0.95), shown) for shown in (True, False))
    alone = dataclasses.replace(shown, throughput=Interval(2.0, 2.0, 2.0, 1, 0.95))
    pairs = [MaximumPair("s", one, shown, matched=True, beside=False) for one in (shown, not_shown, alone)]
    pairs.append(dataclasses.replace(pairs[1], other=not_shown))
    assert [pair.why_no_ratio for pair in pairs] == [
        "",
        "one of the two is a largest mean, and no maximum is shown",
        "one of the two has no interval",
        "both are largest means, and no maximum is shown",
    ]
    assert _why_not_compared(pairs[2:]) == (
        "not compared (1 because one of the two has no interval; 1 because both are largest means, and no maximum is shown)"
    )


def test_faults_name_the_file_and_what_to_do(root: Path, wholes: list[Whole], tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none: not there\. Give reports"):
        find_wholes([tmp_path / "none"])
    with pytest.raises(RecordError, match="one report of a whole study is needed here, and there is: none"):
        read_whole(tmp_path)
    with pytest.raises(ReportError, match="No report of a whole study is here"):
        index_report(find_wholes([tmp_path]), ["s3"])
    with pytest.raises(ReportError, match="Both are reports of s3"):
        pair_report(wholes[0], wholes[0])
    path = copied(root, "s3", tmp_path)
    with pytest.raises(ReportError, match=r"two reports of s3: .*Give one of them"):
        find_wholes([root, path])
    path.write_text(json.dumps(twin(root, "s3") | {"sections": [{"name": "x"}]}))
    with pytest.raises(RecordError, match=r"s3\.json: a damaged twin.*Build it again"):
        read_whole(path)
