"""Reports of whole studies from synthetic sweeps: each section says the truth, verify finds what was tampered with."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synthetic_whole import HEADERS, Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design import parse_study
from weir_lab.design.whole.sets import OwnStop, load_set
from weir_lab.errors import ReportError
from weir_lab.records.runs import TOO_FULL
from weir_lab.report.common import BOUND, PRINTED, Task, design_rows
from weir_lab.report.numbers.comparing import level_of, throughput_of
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.oracles import read_table
from weir_lab.report.page.arranging import arrange
from weir_lab.report.page.blocks import KNOWN_ERRORS, Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS
from weir_lab.report.page.html import html_page, markdown_page
from weir_lab.report.sections import traces
from weir_lab.report.sections.smaller import build_links
from weir_lab.report.sets import Sources, assemble, changes, verify, write_report
from weir_lab.report.sets.results import stopped
from weir_lab.report.sets.twin import read_twin
from weir_lab.report.single.report import build_report

if TYPE_CHECKING:
    from weir_lab.report.page.blocks import Entry, Report, Section

DATA = Path(__file__).parent / "data" / "whole"


def made(root: Path, truth: Truth | None = None, *, leave_out: tuple[str, ...] = ()) -> Report:
    study_set = take_files(DATA / "small.set.toml", root)
    write_whole(root, study_set, truth or Truth(), leave_out=leave_out)
    return assemble(study_set, Sources(root, root / "studies"), "quick", "netns")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    """One report of a set with every kind of section; tests must not change it."""
    found = made(folder)
    write_report(found, folder)
    return found


def section(report: Report, name: str) -> Section:
    return next(one for one in report.sections if one.name == name)


def table(report: Report, name: str) -> Table:
    return next(one for part in report.sections for one in part.blocks if isinstance(one, Table) and one.name == name)


def sentences(part: Section) -> str:
    return " ".join(" ".join((one.text, *one.points)) for one in part.blocks if isinstance(one, Text))


def test_every_section_is_built_and_its_claims_are_judged_by_the_truth(report: Report) -> None:
    assert {part.name: part.missing for part in report.sections if part.missing} == {}
    verdicts = {finding.name: finding.verdict for finding in report.findings}
    # Two runs of two cells do not tell which has the maximum.
    wrong = {"write-bound-wrong": "does not hold", "below-links": "does not hold", "longest": "cannot tell"}
    assert verdicts == dict.fromkeys(verdicts, "holds") | wrong


def test_a_verdict_names_the_series_that_it_is_about_where_they_stop_at_different_stations(report: Report) -> None:
    """“The workers limit them: does not hold” stood on a page whose summary has “where the workers limit”."""
    evidence = {finding.name: finding.evidence for finding in report.findings}
    share = r"8 workers stop at 4\d % of what these links carry, where the workers limit"
    assert re.search(
        rf"; this is about the most that is reached, by [^;]*64 workers, where the proxy uplinks limit; {share}, and the verdict is not",
        evidence["below-links"],
    ), evidence["below-links"]
    change = "; this is about how throughput changes, and not about what limits the most of it: 8 workers stop where the workers limit; "
    assert change in evidence["workers"], evidence["workers"]
    assert "64 workers stop where the proxy uplinks limit" in evidence["workers"]
    # Where all series stop at the same station, or none is shown to stop, there is nothing to tell apart.
    assert not any("this is about" in evidence[name] for name in ("read-bound", "read-max", "fewer"))


def test_the_summary_begins_with_where_each_workload_stops_and_the_others_open_on_demand(
    report: Report, folder: Path
) -> None:
    assert len(report.summary) == 6
    everything = [*report.summary, *report.limits, *report.details]
    assert all(len(re.findall(r"[.!?](?=\s+[A-Z]|$)", one)) == 1 for one in everything), everything
    print(report.summary, report.limits, report.details)
    assert [re.split(" stop at | reach ", one)[0] for one in report.summary[:2]] == ["Writes", "Reads"]
    # Two proxies with 8 workers stop at those, with 64 at the proxies' links; the baseline at the clients' links.
    assert "requests/s where the workers limit" in report.summary[0]
    assert "requests/s where the client uplinks limit" in report.summary[0]
    first, named = report.summary[-1].split("; these do not hold: ")
    said = "11 hold (2 by the links that were built), 2 do not hold, 1 cannot be decided"
    assert first == f"Of 14 conclusions of the study, on our data {said}"
    assert [f"{one}." for one in re.findall("“([^”]*)”", named)] == [
        one.claim for one in report.findings if one.verdict == "does not hold"
    ]
    assert report.limits[0].startswith("All this comes from 121 valid runs in 11 sweeps, measured for ")
    # “A night has hours for some 350 runs” stood over runs that two hours had sufficed for.
    assert re.search(r" each, made within \S+ (minutes|hours|days), on the testbed", report.limits[0])
    assert re.search(r"; \d+ of \d+ attempts \(\d+ %\) failed a gate and (is|are) left out", report.limits[0])
    titles = [one.partition(":")[0] for one in report.details]
    # What a section has found stands in the section, and in the table of limits.
    assert not {"Baseline", "Full system", "Effects", "Trace", "Dispatch"} & set(titles)
    assert report.limiting is not None
    assert "Full system" in [row[0] for row in report.limiting.rows]
    page = unescape((folder / "small.html").read_text())
    opened = re.search(r'<details class="kept"><summary>What else was found</summary>(.*?)</details>', page, re.DOTALL)
    assert opened is not None
    assert all(one in opened[1] for one in report.details)
    text = (folder / "small.md").read_text()
    assert all(text.index(one) < text.index(report.limits[0]) for one in report.summary)


def test_a_cell_that_filled_the_machine_is_named(tmp_path: Path) -> None:
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    write_whole(tmp_path, study_set, Truth())
    run = min(place.parent for place in tmp_path.glob("*/runs/*/run.json"))
    for number, reason in enumerate((f"1.71 of 2 CPUs were busy: {TOO_FULL}", "3 misses in phase measured")):
        attempt = run.with_name(f"{run.name}-a{number}")
        shutil.copytree(run, attempt)
        meta = json.loads((attempt / "run.json").read_text())
        meta["verdict"] |= {"valid": False, "reasons": [reason]}
        (attempt / "run.json").write_text(json.dumps(meta))
    found = assemble(study_set, Sources(tmp_path, tmp_path / "studies"), "quick", "netns")
    said = next(one for one in (*found.limits, *found.details) if "used so much of the machine" in one)
    assert said.startswith("But 1 attempt ")
    assert said.endswith(f"({run.parent.parent.name}): 1).")
    assert any(re.match(r"Of \d+ attempts left out ", one) for one in (*found.limits, *found.details)), found.details


def test_bottlenecks_and_knees_are_those_of_the_system(report: Report) -> None:
    baseline = section(report, "baseline")
    assert baseline.conclusions["bottleneck of reads, direct"] == "server uplinks"
    assert baseline.conclusions["bottleneck of writes, direct"] == "client uplinks"
    # 3,082 requests/s of payload, less headers, at 2 ms a request: the link is full from 5.9 clients on.
    assert baseline.conclusions["knee of reads, direct"] == "between N = 3 and N = 6"
    assert "2,9" in sentences(baseline)
    full = section(report, "full")
    # Two proxies with 8 workers of 2 ms each serve 8,000 requests/s, where the proxies' links carry 16,357.
    assert full.conclusions["bottleneck of writes, 8 workers"] == "workers"
    assert full.conclusions["bottleneck of writes, 64 workers"] == "proxy uplinks"
    assert "queue in the proxy grows" in sentences(full)


def test_a_name_has_one_look_in_all_panels_of_a_figure_and_shares_it_with_no_other(report: Report) -> None:
    figures = [block for part in report.sections for block in part.blocks if isinstance(block, Figure)]
    several = 0
    for figure in figures:
        lines = {(line.name, line.look) for panel in figure.panels for line in panel.lines if line.kind == "line"}
        assert len({name for name, _ in lines}) == len(lines) == len({look for _, look in lines}), figure.name
        several += len(lines) > 1 and len(figure.panels) > 1
    assert several > 0


def test_the_printed_value_stands_beside_ours_where_links_are_built(report: Report) -> None:
    maxima = table(report, "baseline-maxima")
    reads = next(row for row in maxima.rows if row[0] == "reads")
    ours, share, printed = reads[3], reads[6], reads[7]
    assert isinstance(ours, Value)
    assert isinstance(share, Value)
    assert isinstance(printed, Value)
    assert ours.value == pytest.approx(HEADERS * 3082.275, rel=0.01)
    assert share.value == pytest.approx(100 * HEADERS, rel=0.01)
    assert printed.value == 2940.0
    assert "where a link is full" in maxima.caption
    assert isinstance(reads[8], Value)
    assert "study's speed" not in maxima.caption


def test_times_over_clients_that_are_multiples_are_drawn_as_multiples(report: Report) -> None:
    found = [block for part in report.sections for block in part.blocks if isinstance(block, Figure)]
    times = [one for one in found if one.name in ("direct-response", "full-response")]
    assert times
    assert all(panel.y.log is panel.x.log for one in times for panel in one.panels)


def test_a_number_of_the_study_has_its_look_in_every_throughput_figure_and_one_name(report: Report) -> None:
    found = [block for part in report.sections for block in part.blocks if isinstance(block, Figure)]
    lines = [line for one in found if one.name.endswith("-throughput") for panel in one.panels for line in panel.lines]
    printed = [line for line in lines if line.name == "printed by the study"]
    bounds = [line for line in lines if line.name == "what the tightest links carry"]
    assert printed
    assert bounds
    assert all(line.look == PRINTED and line.kind in ("level", "points") for line in printed)
    assert {line.look for line in bounds} == {BOUND}
    assert PRINTED.colour != LOOKS[1].colour
    assert not any(line.name.startswith("bound of") for line in lines)


def test_what_explains_the_page_is_printed_with_it_and_a_number_stays_with_its_half_width(report: Report) -> None:
    page = html_page(report)
    folds = re.findall(r"<details([^>]*)><summary>([^<]*)", page)
    kept = {name for kind, name in folds if "kept" in kind}
    assert {"What else was found", "What ran, and on which machine", "Words and letters of this page"} <= kept
    assert "What the intervals rest on" in {name for kind, name in folds if not kind}
    assert "details:not([open], .more, .kept, .held) { display: none; }" in page
    cells = re.findall(r"<td>([^<]*±[^<]*)", page)
    assert cells
    assert not any(" ± " in one for one in cells if re.fullmatch(r"[\d.,+−]+ ± [\d.,]+\s*", one))


def test_reads_and_writes_have_an_error_of_their_own(report: Report, folder: Path) -> None:
    assert report.sweeps
    cells = [cell for one in report.sweeps.values() for cell in read_cells(one, folder / one).cells]
    kinds = {(cell.settings.write_ratio, other.settings.write_ratio) for cell in cells for other in cell.among}
    assert {(0.0, 0.0), (1.0, 1.0)} <= kinds
    assert not any(0.0 in pair and max(pair) > 0.0 for pair in kinds)
    assert all(cell in cell.among for cell in cells)


def test_at_another_speed_ours_is_turned_into_the_studys_before_it_is_compared(
    report: Report, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "slow")
    for file in (tmp_path / "slow").rglob("run.json"):
        record = json.loads(file.read_text())
        if record.get("testbed"):
            record["testbed"]["speed"] = 0.5
            file.write_text(json.dumps(record))
    study_set = take_files(DATA / "small.set.toml", tmp_path / "slow")
    made_slow = assemble(study_set, Sources(tmp_path / "slow", tmp_path / "slow" / "studies"), "quick", "netns")
    slow = table(made_slow, "baseline-maxima")
    whole = table(report, "baseline-maxima")
    assert "At the study's speed: our rates divided by 0.5, our times multiplied by it" in slow.caption
    assert slow.columns[-2:] == ("X at the study's speed (requests/s)", "R at the study's speed (ms)")
    for ours, before in zip(slow.rows, whole.rows, strict=True):
        assert number_in(ours[-2]) == pytest.approx(2.0 * number_in(ours[3]))
        assert number_in(ours[-1]) == pytest.approx(number_in(ours[4]) / 2.0)
        if isinstance(before[8], Value):
            assert ours[8] == "its link was not full"  # at half the speed it had twice the rate


def number_in(entry: Entry) -> float:
    assert isinstance(entry, Value)
    assert entry.value is not None
    return entry.value


def test_the_event_engine_stands_beside_the_original_in_its_figure(report: Report) -> None:
    figures = {one.name: one for one in section(report, "full").blocks if isinstance(one, Figure)}
    names = [line.name for line in figures["full-throughput"].panels[0].lines if line.kind == "line"]
    assert names == ["8 workers", "64 workers", "event engine"]
    redrawn = next(one for one in section(report, "baseline").blocks if isinstance(one, Figure))
    assert redrawn.redraws == "Figure 2"


def test_models_tell_why_they_miss(report: Report) -> None:
    rows = [
        row for row in table(report, "models-open").rows if "8 workers" in str(row[0]) and number_in(row[1]) == 192.0
    ]
    predicted = [row for row in rows if row[2] in ("M/M/1", "M/M/m")]
    assert [row[2] for row in rows] == ["observed", "M/M/1", "M/M/1", "M/M/m", "M/M/m"]
    # Workers at 8,000 of 8,000 requests/s: an open model has no steady state, or is full to the brim.
    assert min(number_in(row[6]) for row in predicted) > 0.8
    assert all(row[-1] for row in predicted)


def test_a_section_without_runs_says_so_and_strict_refuses(tmp_path: Path) -> None:
    others = [file.name for file in DATA.glob("t-*.toml") if file.name not in ("t-trace.toml", "t-micro.toml")]
    found = made(tmp_path, leave_out=tuple(others))
    assert "t-full.toml has no valid runs here" in section(found, "full").missing
    assert {finding.verdict for finding in section(found, "full").findings} == {"no data"}
    page = html_page(found)
    assert "Not there:" in page
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    with pytest.raises(ReportError, match=r"Not everything is there: .*Full system"):
        assemble(study_set, Sources(tmp_path, tmp_path / "studies"), "quick", "netns", strict=True)


def test_a_trace_that_drifts_is_called_so(tmp_path: Path) -> None:
    others = tuple(file.name for file in DATA.glob("t-*.toml") if file.name != "t-trace.toml")
    found = made(tmp_path, Truth(drift=0.2), leave_out=others)
    assert section(found, "trace").conclusions == {"trace t-trace": "drifts"}
    assert {one.name: one.verdict for one in section(found, "trace").findings}["stable"] == "does not hold"


def test_the_page_is_whole_small_and_has_a_value_on_each_mark(report: Report, folder: Path) -> None:
    page = (folder / "small.html").read_text()
    assert len(page) < 2_000_000
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<figure ") == sum(isinstance(one, Figure) for part in report.sections for one in part.blocks)
    # Every figure has its numbers behind a link, and no table says them again.
    linked = re.findall(r'<a class="data" href="(small-data/[^"]+)"', page)
    assert len(linked) == page.count("<figure ")
    assert all((folder / one).read_text().count("\n") > 1 for one in linked)
    for part in report.sections:
        for one in part.blocks:
            if isinstance(one, Table):
                left_out = one.name.endswith(("-data", KNOWN_ERRORS)) or one.name == "system-words"
                assert (f'<table id="{one.name}">' in page) is not left_out, one.name
    assert re.search(r"<title>direct, clients 24: 2,9\d\d \(2,[89]\d\d to [23],\d\d\d\)</title>", page)


def test_a_section_shows_answer_verdicts_why_and_three_figures_and_the_rest_on_demand(
    report: Report, folder: Path
) -> None:
    page = (folder / "small.html").read_text()
    parts = {one.name: re.search(rf'<h2 id="{one.name}">(.*?)</section>', page, re.DOTALL) for one in report.sections}
    for name, found in parts.items():
        assert found is not None, name
        open_, _, more = found[1].partition('<details class="more">')
        assert open_.count("<figure ") <= 3, name
        assert open_.count("<figure ") > 0 or "<figure " not in more or name == "effects", name
        # Of the tables, the verdicts and the main one are open, and the cells of a 2^k design.
        shown = re.findall(r'<table id="([^"]+)', re.sub(r"<details>.*?</details>", "", open_, flags=re.DOTALL))
        assert len([one for one in shown if not one.endswith("-by-cell")]) <= 2, name
    baseline = parts["baseline"]
    assert baseline is not None
    said, verdicts, first = "<h3>What the data say", 'id="baseline-verdicts"', 'id="baseline-reached"'
    marks = (said, verdicts, "<h3>Evidence", first, "<figure ", 'class="more"')
    places = [baseline[1].index(one) for one in marks]
    assert places == sorted(places)
    numbers = [int(one) for one in re.findall(r"<figcaption><b>Figure (\d+)\.", page)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_neither_captions_nor_sentences_nor_designs_have_names_of_cells_or_formulas(
    report: Report, folder: Path
) -> None:
    cells = {re.sub(r"-r\d+$", "", run.name) for run in folder.glob("*/runs/*") if re.search(r"-[A-Z]", run.name)}
    assert len(cells) > 30
    for part in report.sections:
        captions = [f"{one.title} {one.method}" for one in part.blocks if isinstance(one, Figure)]
        captions += [one.caption for one in part.blocks if isinstance(one, Table)]
        said = [
            line for one in part.blocks if isinstance(one, Text) and not one.note for line in (one.text, *one.points)
        ]
        words = re.findall(r"[\w.-]+", " ".join([*captions, *said]))
        assert cells & set(words) == set(), part.name
        assert [value for _, value in part.design if value.startswith("=") or ", =" in value] == []


def test_a_sentence_and_its_table_agree_and_could_not_differ_unnoticed(report: Report) -> None:
    """Every number of three digits or more in an answer is in a table, and with tables that are 3 % off it is not."""
    everywhere = [one for part in report.sections for one in tables_in(part)]
    checked = 0
    for part in report.sections:
        said = numbers_said(part)
        # What stands side by side comes from earlier sections, with their maxima.
        own = everywhere if part.name == "side" else tables_in(part)
        assert [text for text in said if not is_in(text, own, 1.0)] == [], part.name
        if said:
            checked += len(said)
            off = [text for text in said if not is_in(text, own, 1.03)]
            assert len(off) >= 0.5 * len(said), part.name
    assert checked > 60


def tables_in(part: Section) -> list[Table]:
    return [one for one in part.blocks if isinstance(one, Table)]


def numbers_said(part: Section) -> list[str]:
    lines = [line for one in arrange(part).answer if isinstance(one, Text) for line in (one.text, *one.points)]
    found = [text for line in lines for text in re.findall(r"(?<![\w.])[−+]?\d[\d,]*(?:\.\d+)?", line)]
    return [text.strip(",") for text in found if len(re.sub(r"\D", "", text).lstrip("0")) >= 3]


def is_in(text: str, tables: list[Table], times: float) -> bool:
    """Whether a table has the number, all values of tables multiplied by `times`, but for the digits that are not shown."""
    wanted = float(text.replace(",", "").replace("−", "-"))
    half = 0.5001 * 10.0 ** -len(text.partition(".")[2])
    return any(
        abs(times * value - wanted) <= half
        for one in tables
        for row in one.rows
        for entry in row
        for value in values_of(entry)
    )


def values_of(entry: Entry) -> list[float]:
    if isinstance(entry, Value):
        return [one for one in (entry.value, entry.low, entry.high) if one is not None]
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", str(entry)) if one.strip(",")]


def test_verify_recomputes_everything_and_finds_what_was_tampered_with(report: Report, folder: Path) -> None:
    assert report.name == "small"
    found = verify(folder / "small.html")
    assert found.differences == ()
    assert found.numbers > 1000
    twin, page = folder / "small.json", folder / "small.html"
    kept = twin.read_text(), page.read_text()
    try:
        data = json.loads(kept[0])
        maxima = next(
            one for part in data["sections"] for one in part["blocks"] if one.get("name") == "baseline-maxima"
        )
        maxima["rows"][0][3]["value"] *= 1.01
        twin.write_text(json.dumps(data))
        head, mark, rest = kept[1].partition('<table id="baseline-maxima">')
        page.write_text(head + mark + re.sub(r"<td>2,9\d\d \(", "<td>3,333 (", rest, count=1))
        in_twin, on_page = verify(page).differences
    finally:
        twin.write_text(kept[0])
        page.write_text(kept[1])
    assert "baseline-maxima" in in_twin
    assert "the records give" in in_twin
    assert "table-baseline-maxima" in on_page or "baseline-maxima" in on_page
    assert "3,333" in on_page


def test_verify_finds_a_raw_record_that_changed(tmp_path: Path) -> None:
    others = tuple(file.name for file in DATA.glob("t-*.toml") if file.name != "t-trace.toml")
    write_report(made(tmp_path, leave_out=others), tmp_path)
    assert verify(tmp_path / "small.html").differences == ()
    (record,) = (tmp_path / "t-trace" / "runs").glob("*/load.json")
    load = json.loads(record.read_text())
    load["throughput_rps"] *= 1.2
    record.write_text(json.dumps(load))
    assert any("trace-steadiness" in difference for difference in verify(tmp_path / "small.json").differences)


def test_compare_names_a_flipped_conclusion(report: Report, folder: Path) -> None:
    assert report.findings
    old = read_twin(folder / "small.html")
    assert changes(old, old) == []
    new = json.loads(json.dumps(old))
    part = next(one for one in new["sections"] if one["name"] == "multigets")
    part["findings"][0]["verdict"] = "does not hold"
    part["conclusions"]["splitting pays from"] = "no size"
    found = changes(old, new)
    assert found == [
        "changed: Multi-gets: “Splitting pays from three keys on.”: holds -> does not hold",
        "changed: Multi-gets: splitting pays from: 3 keys -> no size",
    ]


S4_SET = """
schema = "weir.set/1"
name = "small"
title = "What S4 printed beside ours"
about = "Two sections of study S4, and links."
engine = "split"
published = "S4"
[[sections]]
name = "links"
title = "Links"
kind = "links"
files = ["s5-iperf.toml"]
[[sections]]
name = "threads"
title = "Read threads"
kind = "clients"
files = ["s4-max2.toml"]
[[sections]]
name = "replication"
title = "Replication"
kind = "replication"
files = ["s4-repl.toml"]
"""


def test_times_that_s4_printed_and_pairs_of_links_stand_beside_ours(tmp_path: Path) -> None:
    files = tmp_path / "given"
    files.mkdir()
    (files / "small.set.toml").write_text(S4_SET)
    for name in ("s5-iperf.toml", "s4-max2.toml", "s4-repl.toml"):
        (files / name).write_text((Path(__file__).parents[2] / "studies" / name).read_text())
    study_set = take_files(files / "small.set.toml", tmp_path / "root")
    write_whole(tmp_path / "root", study_set, Truth())
    found = assemble(study_set, Sources(tmp_path / "root", tmp_path / "root" / "studies"), "quick", "netns")
    pairs = {(row[0], row[1]): row for row in table(found, "links-pairs").rows}
    assert number_of(pairs["server-0", "client-0"][3]) == pytest.approx(0.96 * 101.0)
    assert number_of(pairs["client-0", "server-0"][5]) == pytest.approx(0.7)
    means = {(number_of(row[1]), row[3]): row for row in table(found, "threads-printed-means").rows}
    # Sixteen read threads at 3 x 128 clients: 24 threads were printed, too, and are no level of ours.
    assert {readers for readers, _ in means} == {12.0, 16.0, 20.0}
    printed = next(
        row for row in read_table("s4_mean_timestamps") if (row["threads_per_pool"], row["op"]) == ("12", "get")
    )
    assert number_of(means[12.0, "GET"][4]) == pytest.approx(float(printed["t_total_us"]) / 1e3)
    assert number_of(means[12.0, "GET"][6]) == pytest.approx(float(printed["t_queue_us"]) / 1e3)
    # Of ours the three times are the whole time in the proxy: all but 0.2 ms of what the clients see.
    threads = section(found, "threads")
    cell = next(row for row in table(found, "threads-printed-means").rows if number_of(row[1]) == 12.0)
    ours = sum(number_of(cell[place]) for place in (7, 9, 11))
    assert ours == pytest.approx(number_of(cell[5]), rel=0.001)
    assert number_of(cell[12]) == pytest.approx(14.08575)
    assert number_of(cell[13]) == pytest.approx(0.2, abs=0.02)
    reading = read_cells("s4-max2.toml", tmp_path / "root" / "s4-max2")
    response = next(one.mean_response_s for one in reading.cells if one.settings.readers == 12)
    assert threads.blocks
    assert ours == pytest.approx(1e3 * response - 0.2, rel=0.02)
    quartiles = table(found, "replication-printed-quartiles").rows
    assert {number_of(row[1]) for row in quartiles} == {3.0, 5.0, 7.0}
    assert {row[6] for row in quartiles} == {"T_queue", "T_server"}
    assert all(number_of(entry) > 0.0 for row in quartiles for entry in row[8:])
    # The study printed those of the queue over its threads, too.
    over_threads = table(found, "threads-printed-quartiles").rows
    assert sorted((str(row[0]), number_of(row[4]), str(row[6])) for row in over_threads if row[7] == "GET") == [
        ("max throughput clients", 16.0, "T_queue"),
        *(("max throughput threads", one, "T_queue") for one in (12.0, 16.0, 20.0)),
    ]


def test_links_have_the_values_a_second_that_they_carry_beside_what_s5_printed(tmp_path: Path) -> None:
    files = tmp_path / "given"
    files.mkdir()
    (files / "small.set.toml").write_text(S4_SET.partition('[[sections]]\nname = "threads"')[0])
    (files / "s5-iperf.toml").write_text((Path(__file__).parents[2] / "studies" / "s5-iperf.toml").read_text())
    study_set = take_files(files / "small.set.toml", tmp_path / "root")
    write_whole(tmp_path / "root", study_set, Truth())
    sweep = read_cells("s5-iperf.toml", tmp_path / "root" / "s5-iperf")
    assert sweep.testbed is not None
    blocks = build_links(Task(study_set.sections[0], (sweep,), (), "S5"), sweep.testbed)
    found = next(one for one in blocks if isinstance(one, Table) and one.name == "links-operations")
    rows = {(row[0], row[1]): row for row in found.rows}
    assert found.columns[2:] == (
        "Values/s",
        "Study, printed (operations/s)",
        "By the study's rate (values/s)",
        "Wire over payload",
    )
    # 1 Mbit/s is 30.5 values of 4,096 bytes a second.
    numbers = [number_of(one) for one in rows["server-0", "client-0"][2:]]
    assert numbers == pytest.approx([0.96 * 101e6 / 8 / 4096, 3125.0, 101e6 / 8 / 4096, 1 / 0.96])
    said = next(one for one in blocks if isinstance(one, Text))
    assert "carry 96.0 % of the values a second" in said.leads[0]


S2_SET = """
schema = "weir.set/1"
name = "small"
title = "The price of a proxy"
about = "One section"
engine = "split"
published = "S2"
[[sections]]
name = "overhead"
title = "Overhead"
kind = "overhead"
files = ["s2-base.toml", "s2-trace1.toml", "s2-price.toml"]
"""


@pytest.mark.parametrize(("gain", "shown"), [(0.6, "yes"), (1.0, "no")])
def test_the_price_of_a_proxy_is_that_of_the_proxy_alone(tmp_path: Path, gain: float, shown: str) -> None:
    files = tmp_path / "given"
    files.mkdir()
    (files / "small.set.toml").write_text(S2_SET)
    studies = Path(__file__).parents[2] / "studies"
    for name in ("s2-base.toml", "s2-trace1.toml", "s2-price.toml"):
        text = (studies / name).read_text()
        (files / name).write_text(re.sub(r"clients = \[\n.*?\]", "clients = [60, 64]", text, flags=re.DOTALL))
    study_set = take_files(files / "small.set.toml", tmp_path / "root")
    write_whole(tmp_path / "root", study_set, Truth(links=False, proxy_gain=gain))
    found = assemble(study_set, Sources(tmp_path / "root", tmp_path / "root" / "studies"), "quick", "local")
    rows = table(found, "overhead-overhead").rows
    assert [row[0] for row in rows] == ["the proxy alone"] * 2 + ["as the study"] * 2
    for row, truth in zip(rows[:2], (gain, 1.0 / gain), strict=True):
        change = row[4]
        assert isinstance(change, Value)
        assert change.low is not None
        assert change.high is not None
        assert change.value == pytest.approx(100.0 * (truth - 1.0), abs=2.5)
        assert row[5] == shown
        assert (change.low <= 0.0 <= change.high) == (shown == "no")
        assert row[6:] == ("–", "–")
    # An hour is one run: what it says beside a level of another sweep has no interval.
    assert {row[5] for row in rows[2:]} == {"cannot tell: one run"}
    assert number_of(rows[2][6]) == pytest.approx(-49.4, abs=0.1)
    assert "nothing else differs" in sentences(section(found, "overhead"))


def test_a_trace_has_the_deviation_of_single_requests_and_says_which_rows_are_one_run(
    report: Report, folder: Path
) -> None:
    found = table(report, "trace-steadiness")
    row = found.rows[0]
    run = read_cells("t-trace.toml", folder / "t-trace").cells[0].runs[0]
    deviation = run.times.standard_deviation() if run.times is not None else None
    assert deviation is not None
    assert number_of(row[found.columns.index("SD of requests (ms)")]) == pytest.approx(deviation / 1e6, rel=1e-3)
    # S2 expected it to be “somewhat larger than the mean”, and no row said which of both is.
    ratio = row[found.columns.index("SD over R")]
    assert number_of(ratio) == pytest.approx(deviation / 1e9 / run.response_s, rel=1e-3)
    assert isinstance(ratio, Value)
    assert f"The standard deviation of its requests is {ratio.text} times their mean." in sentences(
        section(report, "trace")
    )
    assert "windows of 1 s" not in found.caption
    spec = next(one for one in load_set(DATA / "small.set.toml").sections if one.name == "trace")
    sweep = read_cells("t-trace.toml", folder / "t-trace")
    both = traces.build(Task(spec.model_copy(update={"windows_s": [1, 10]}), (sweep,)))
    (again,) = (one for one in both if isinstance(one, Table) and one.name == "trace-steadiness")
    assert again.caption.endswith(" t-trace-10s is the run of t-trace in windows of 10 s.")


def test_a_section_says_first_if_not_all_cells_are_known_as_well_as_its_study_wanted(
    report: Report, folder: Path
) -> None:
    """S1 repeated a setting until its mean was known within 5 %, and no line said how many of ours are."""
    sweep = read_cells("t-direct.toml", folder / "t-direct")
    spec = next(one for one in load_set(DATA / "small.set.toml").sections if one.name == "baseline")
    levels = [level_of(cell, throughput_of) for cell in sweep.cells]
    wide = sorted(100.0 * (one.high / one.mean - 1.0) for one in levels if one is not None)
    percent = (wide[0] + wide[-1]) / 2.0
    known = sum(one <= percent for one in wide)
    assert 1 < known < len(levels)
    some = spec.model_copy(update={"stop_rule": OwnStop(percent=percent)})
    said, all_ = (text for one in (some, spec) if (text := stopped(Task(one, (sweep,), (), "S5"))) is not None)
    assert said.text.startswith(f"{known} of {len(levels)} cells are known as well as S5 wanted, ")
    assert (said.note, all_.note) == (False, True)
    assert all_.text.endswith("whose rule was that the 95 % interval of throughput lies within ±5 % of the mean.")
    assert all_ in arrange(section(report, "baseline")).more
    assert stopped(Task(spec.model_copy(update={"stop_rule": None}), (sweep,))) is None


def test_tables_with_the_law_say_of_which_means_it_is(report: Report) -> None:
    """S1 had 12,779 requests/s and 17.8 ms with 180 clients, which is 26 % more, beside a law that is 0.03 % off."""
    rates = (9_000.0, 18_000.0)
    times = [180.0 / rate for rate in rates]
    assert sum(rates) / 2.0 * sum(times) / 2.0 == pytest.approx(1.125 * 180.0)
    for name in ("baseline-laws", "replication-cells"):
        assert "the product of two such means lies above N" in table(report, name).caption


def test_writes_have_stages_and_percentiles_of_both_operations(report: Report) -> None:
    figures = {one.name: one for one in section(report, "writes").blocks if isinstance(one, Figure)}
    assert {panel.title.split(",")[0] for panel in figures["writes-stages"].panels} == {"GET", "SET"}
    shown = figures["writes-stage-percentiles"].panels
    assert {panel.title for panel in shown} == {
        f"{name}: stage {stage}" for name in ("GET", "SET") for stage in ("queue", "backend")
    }
    assert all(" %" in name for panel in shown for name in panel.x.names)


def test_the_markdown_has_the_design_of_each_section(report: Report) -> None:
    text = markdown_page(report)
    for part in report.sections:
        for name, value in part.design:
            assert f"- {name}: {value}\n" in text.partition(f"\n## {part.title}\n")[2].partition("\n## ")[0]


def test_a_night_says_that_it_repeats_where_that_tells_most() -> None:
    study = parse_study((DATA / "t-full.toml").read_text(), "night")
    rows = dict(design_rows(study))
    assert rows["repetitions"].startswith("as many as the night had time for, where they tell most")
    assert "5 or 10 s measured" in rows["phases"]
    assert dict(design_rows(parse_study((DATA / "t-full.toml").read_text(), "quick")))["repetitions"].startswith("3,")


def number_of(entry: object) -> float:
    """The number in a table's entry."""
    assert isinstance(entry, Value), entry
    return entry.value


def test_a_number_that_is_not_finite_and_a_figure_without_data_stop_the_report() -> None:
    with pytest.raises(ReportError, match="not finite"):
        Value(float("nan"))
    with pytest.raises(ReportError, match="no panel"):
        Figure("f", "A figure", "n = 3", ())
    with pytest.raises(ReportError, match="no rows"):
        Table("t", "A table", ("A",), ())


def test_every_sweep_of_a_whole_study_has_a_page_of_its_own(report: Report, folder: Path) -> None:
    assert report.name == "small"  # it has written the runs
    sections = {
        "t-2k": "effects",
        "t-direct": "load",
        "t-full": "models",
        "t-hash": "hash",
        "t-micro": "micro",
        "t-repl": "replication",
        "t-sharded": "multigets",
        "t-trace": "trace",
        "t-writes": "writes",
    }
    assert sections.keys() <= {path.parent.name for path in folder.glob("*/sweep.json")}
    for name, section in sections.items():
        files = build_report(folder / name)
        page, twin = files.html.read_text(), json.loads(files.json.read_text())
        assert f'<h2 id="{section}">' in page, name
        assert "too thin" not in page, name
        assert page.count("<figure ") == page.count('href="data:text/csv;'), name
        # Its blocks have drawings or numbers of their own, not words alone.
        reported = next(one for one in twin["sections"] if one["name"] == section)
        assert {block["block"] for block in reported["blocks"]} & {"figure", "table"}, name
        assert (files.analysis is None) is (name in ("t-hash", "t-trace"))
        assert page.count("Answer.</b> </p>") == 0, name
