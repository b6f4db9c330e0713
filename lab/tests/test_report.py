from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from synthetic import STUDY_TEXT, World, write_sweep
from weir_lab.cli import app
from weir_lab.design import RequestPath, Response, Role, parse_study
from weir_lab.errors import RecordError, ReportError
from weir_lab.report.numbers.analysis import Analysis
from weir_lab.report.numbers.comparing import level_of, throughput_of
from weir_lab.report.numbers.essence import essence_table
from weir_lab.report.numbers.findings import (
    answer,
    answer_sentences,
    check_sentences,
    judge_predictions,
    limit_sentences,
)
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.page.complete import BYTES_MAX, require_complete
from weir_lab.report.single.report import build_report, load_analysis, verify_sweep
from weir_lab.theory import units

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="module")
def analysis(sweep: Path) -> Analysis:
    return load_analysis(sweep)[0]


@pytest.fixture(scope="module")
def page(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = shutil.copytree(sweep, tmp_path_factory.mktemp("page") / "tiny")
    return build_report(folder).html.read_text()


def test_the_analysis_finds_what_the_world_does(analysis: Analysis) -> None:
    # The proxy takes twice the time of the direct path, at every number of clients.
    for comparison in analysis.comparisons:
        throughput = comparison.effects[Response.THROUGHPUT]
        mean = comparison.effects[Response.MEAN_RESPONSE_TIME]
        assert throughput.percent == pytest.approx(-50, abs=2.5)
        assert mean.percent == pytest.approx(100, abs=10)
        assert throughput.low < throughput.percent < throughput.high < 0
        assert comparison.effects[Response.THROUGHPUT].shown
    for point in analysis.points:
        assert point.n == 3
        assert point.law_deviation.mean == pytest.approx(0.0, abs=1e-3)
        assert point.law_holds
        p50, p99 = point.percentiles_ns["p50"], point.percentiles_ns["p99"]
        assert p50 is not None
        assert p99 is not None
        assert p50.mean < point.response_time_mean_ns.mean < p99.mean


def test_the_part_outside_the_proxy_is_what_the_world_says(analysis: Analysis) -> None:
    for point in analysis.points_of(RequestPath.PROXY):
        assert point.proxy is not None
        assert point.proxy.outside_ns.mean / point.response_time_mean_ns.mean == pytest.approx(0.4, abs=0.01)
        assert sum(stage.mean for stage in point.proxy.stage_mean_ns.values()) == pytest.approx(
            point.proxy.residence_time_mean_ns.mean
        )
        assert point.proxy.client_requests == point.proxy.proxy_requests


def test_the_page_says_what_its_intervals_rest_on(analysis: Analysis, page: str) -> None:
    """Equal spread was not checked at all, and likeness in time was reported only where it was large."""
    runs = len(analysis.used)
    assert f"What the intervals rest on: {runs} runs of {len(analysis.points)} cells on logarithms" in unescape(page)
    assert len(re.findall(r"spreads of the cells (?:agree|differ)", page)) >= 2
    assert len(re.findall(r"neighbouring runs (?:alike|not shown to be alike)", page)) >= 2


def test_table_and_figure_have_the_same_interval_of_a_level(sweep: Path, analysis: Analysis) -> None:
    """Figures took each cell's own runs, tables the model of all."""
    for cell in read_cells("tiny.toml", sweep).cells:
        point = analysis.point(cell.settings.path, cell.settings.clients)
        level = level_of(cell, throughput_of)
        assert level is not None
        assert (level.low, level.high) == pytest.approx((point.throughput_rps.low, point.throughput_rps.high), rel=1e-6)


def test_cpu_time_per_request_is_what_the_world_spends(analysis: Analysis) -> None:
    point = analysis.point(RequestPath.PROXY, 4)
    spent = {role: interval.mean for role, interval in point.cpu_per_request_ns.items()}
    assert spent == pytest.approx({"client": 8_000, "proxy": 12_000, "servers": 9_000}, rel=1e-3)


def test_the_answer_is_made_of_the_numbers(analysis: Analysis) -> None:
    served, took, inside = answer_sentences(analysis)
    most, fewest = analysis.comparisons[-1], analysis.comparisons[0]
    direct, proxied = (analysis.point(path, 16) for path in (RequestPath.DIRECT, RequestPath.PROXY))
    assert served == (
        f"With 16 clients, {units.rate(proxied.throughput_rps.mean)} requests/s were answered through the proxy and "
        f"{units.rate(direct.throughput_rps.mean)} directly ({units.change_text(most.effects[Response.THROUGHPUT])})."
    )
    assert took.startswith("With 1 client, a request took ")
    assert units.change_text(fewest.effects[Response.MEAN_RESPONSE_TIME]) in took
    # The proxy sees six tenths of the client's response time.
    assert "(60 %) pass inside it, most in stage " in inside
    (checked,) = check_sentences(analysis)
    assert "holds within 5 % on 6 of 6 rows" in checked
    assert "of 1 prediction written down before, 1 held" in checked


def test_the_answer_comes_first_then_what_limits_and_then_the_question(analysis: Analysis, page: str) -> None:
    places = [
        page.index(mark) for mark in ('id="answer"', 'id="what-limits"', "<dt>Question</dt>", "<nav ", "<figure ")
    ]
    assert places == sorted(places)
    said = re.search(r'id="what-limits"><p><b>What limits this\.</b> (.*?)</p>', page, re.DOTALL)
    assert said is not None
    # 16 clients through the proxy: 8,000 requests/s, each with 12 µs of the proxy's one thread and 9 µs of three servers.
    limits = unescape(said[1])
    assert limits.startswith(
        "With 16 clients through the proxy, no station is full: the busiest are the proxy threads with "
    )
    used = analysis.point(RequestPath.PROXY, 16).cores_used[Role.PROXY].mean
    assert f"with {100 * used:.0f} % ({used:.2f} cores of 1 thread)." in limits
    checked = re.search(
        r"<details class=.kept.><summary>How this was checked[^<]*</summary>(.*?)</details>", page, re.DOTALL
    )
    assert checked is not None
    assert all(one in unescape(checked[1]) for one in check_sentences(analysis))
    assert 'id="basis"' in checked[1]


def test_long_tables_open_on_demand_and_short_ones_stand_on_the_page(page: str) -> None:
    folded = "".join(re.findall(r"<details>.*?</details>", page, re.DOTALL))
    assert {name for name, rows in tables_of(page) if rows > 12} <= {name for name, _ in tables_of(folded)}
    assert "changes" not in {name for name, _ in tables_of(folded)}
    assert "settings" in {name for name, _ in tables_of(folded)}


def tables_of(page: str) -> list[tuple[str, int]]:
    """Names and numbers of rows."""
    found = re.findall(r'<table id="([^"]+)">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    return [(name, rows.count("<tr>")) for name, rows in found]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-60, -40, "held"), (-50, -40, "undecided"), (-20, 0, "refuted"), (-99, -90, "refuted")],
)
def test_predictions_are_judged_by_their_interval(analysis: Analysis, low: float, high: float, verdict: str) -> None:
    text = STUDY_TEXT.replace("_min = -60", f"_min = {low}").replace("_max = -40", f"_max = {high}")
    other = dataclasses.replace(analysis, study=parse_study(text))
    assert [judged.verdict for judged in judge_predictions(other)] == [verdict]


def test_the_page_stands_alone_and_is_small(page: str) -> None:
    assert len(page.encode()) < BYTES_MAX
    assert not re.search(r"<(script|link|img|iframe)", page)
    assert set(re.findall(r'https?://[^\s"<]+', page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_ids_are_unique_and_every_reference_has_its_target(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    references = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert references
    assert references <= set(ids)


def test_all_numbers_are_in_the_twin(sweep: Path, tmp_path: Path, analysis: Analysis) -> None:
    files = build_report(shutil.copytree(sweep, tmp_path / "tiny"))
    twin = json.loads(files.json.read_text())
    assert len(twin["points"]) == 6
    assert len(twin["runs"]) == 18
    assert twin["points"][0]["throughput_rps"]["mean"] == analysis.points[0].throughput_rps.mean
    assert {"throughput", "mean_response_time", "p99_response_time"} == set(twin["comparisons"][0]["effects"])
    assert twin["runs"][0]["folder"].startswith("runs/")


def test_the_report_is_the_same_from_build_to_build(sweep: Path, tmp_path: Path, page: str) -> None:
    assert build_report(shutil.copytree(sweep, tmp_path / "tiny")).html.read_text() == page


def test_invalid_stale_and_interrupted_runs_are_shown_and_left_out(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sweep, tmp_path / "tiny")
    names = sorted(path.name for path in (folder / "runs").iterdir())
    spoiled, stale = folder / "runs" / names[0] / "run.json", folder / "runs" / names[3] / "run.json"
    record = json.loads(spoiled.read_text())
    record["verdict"] = {"valid": False, "reasons": ["a server died"], "flags": []}
    spoiled.write_text(json.dumps(record))
    record = json.loads(stale.read_text())
    record["content_sha256"] = "f" * 64
    stale.write_text(json.dumps(record))
    (folder / "runs" / "half_r1").mkdir()
    files = build_report(folder)
    text = files.html.read_text()
    assert len(files.numbers.used) == 16
    assert "a server died" in text
    assert "not used: made with other settings or programs" in text
    assert "half_r1" in text


def test_a_cell_with_too_few_runs_stops_the_report(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sweep, tmp_path / "tiny")
    for repetition in (1, 2):
        shutil.rmtree(folder / "runs" / f"tiny-C4-proxy-r{repetition}")
    with pytest.raises(ReportError, match="clients 4, path proxy has 1 valid runs"):
        build_report(folder)
    assert not (folder / "report.html").exists()


def test_a_folder_without_a_sweep_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no sweep here"):
        build_report(tmp_path)


@pytest.mark.parametrize("text", ["TODO", "TBD", "{{ x }}", "nan", "None", "lorem ipsum", "± inf", "???"])
def test_a_placeholder_stops_the_report(page: str, text: str) -> None:
    require_complete(page)
    with pytest.raises(ReportError, match="placeholder"):
        require_complete(page.replace('<h2 id="design">', f"<p>{text}</p><h2>"))


def test_anything_from_outside_stops_the_report(page: str) -> None:
    with pytest.raises(ReportError, match="from outside"):
        require_complete(page.replace("</body>", '<img src="x.png"></body>'))


def test_a_page_above_the_limit_stops_the_report(page: str) -> None:
    with pytest.raises(ReportError, match="bytes, more than"):
        require_complete(page + " " * BYTES_MAX)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "7"])
def test_a_missing_number_stops_the_report(value: object) -> None:
    with pytest.raises(ReportError, match="number is missing"):
        units.number(value, 1)  # type: ignore[arg-type]


def test_every_figure_has_text_its_method_and_its_data(page: str) -> None:
    figures = re.findall(r'<figure id="fig-([^"]+)">(.*?)</figure>', page, re.DOTALL)
    assert {"load-throughput", "load-response", "load-percentiles", "stages", "cpu-time"} <= {
        name for name, _ in figures
    }
    for name, drawn in figures:
        caption = re.search(r"<figcaption><b>Figure \d+\. [^<]+</b> ([^<]{40,})", drawn)
        assert caption is not None, name
        assert "runs" in caption[1], name
        assert len(re.findall(r"<text\b", drawn)) >= 6, name
        assert drawn.count('href="data:text/csv;') == 1, name
        assert "<image" not in drawn


def test_runs_of_a_sweep_stand_behind_their_means(page: str) -> None:
    figure = re.search(r'<figure id="fig-load-throughput">(.*?)</figure>', page, re.DOTALL)
    assert figure is not None
    dots = re.findall(r'<path class="r c\d" d="([^"]*)"', figure[1])
    # Three blocks at three numbers of clients, on both paths.
    blocks = [[len(re.findall(r"-?[\d.]+", block)) // 2 for block in path.split("M")[1:]] for path in dots]
    assert blocks == [[3, 3, 3], [3, 3, 3]]
    # Their values stand in the data of the figure; the mark has the mean and its interval.
    assert re.search(r": [\d,.]+ \([\d,.]+ to [\d,.]+\)</title>", figure[1])


def test_the_page_is_dark_where_the_reader_is(page: str) -> None:
    dark = re.search(r"prefers-color-scheme: dark\) \{ :root \{(.*?)\}", page, re.DOTALL)
    assert dark is not None
    assert {"--paper", "--ink", "--c0", "--s0"} <= set(re.findall(r"--\w+", dark[1]))
    assert not re.search(r'(?:fill|stroke|color)="#', page)


def test_one_thread_is_no_threads(page: str) -> None:
    assert "cores of 1 thread)" in page
    assert not re.search(r"\b1 (threads|clients|runs|servers|cells)\b", page)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    write_sweep(folder, World(run_spread=0.06), text=(STUDIES / "demo.toml").read_text())
    return folder


def test_the_page_of_the_demo_is_small(demo: Path) -> None:
    assert len(build_report(demo).html.read_bytes()) <= 150_000


def test_the_answer_has_at_most_three_sentences(demo: Path, analysis: Analysis, page: str) -> None:
    for found in (analysis, load_analysis(demo)[0]):
        sentences = answer_sentences(found)
        assert len(sentences) == 3
        # None of them is several in one.
        assert all(len(re.findall(r"[.!?](?=\s+[A-Z]|$)", one)) == 1 for one in sentences), sentences
    reported = re.search(r'<div class="summary" id="answer"><p><b>Answer\.</b> (.*?)</p>', page, re.DOTALL)
    assert reported is not None
    assert " ".join(answer_sentences(analysis)) == unescape(reported[1])


def test_the_essence_fits_80_columns(analysis: Analysis) -> None:
    with io.StringIO() as screen:
        Console(width=80, file=screen).print(essence_table(analysis))
        lines = screen.getvalue().splitlines()
    rows = [line for line in lines if re.match(r"\s+(\d+ +)?(direct|proxy)", line)]
    assert len(rows) == 6
    assert all("…" not in line for line in lines)
    assert all(re.search(r"\[.*\]", row) for row in rows if "proxy" in row)


def test_without_a_difference_none_is_claimed(tmp_path: Path) -> None:
    same = World(service_ns=dict.fromkeys(RequestPath, 400_000.0), run_spread=0.05)
    write_sweep(tmp_path / "tiny", same)
    analysis = load_analysis(tmp_path / "tiny")[0]
    for place, response in ((-1, Response.THROUGHPUT), (0, Response.MEAN_RESPONSE_TIME)):
        assert not analysis.comparisons[place].effects[response].shown
    assert answer(analysis).count("no difference shown") == 2
    assert " ".join(limit_sentences(analysis)).count("probably would have been shown") == 2


def test_verifying_finds_what_was_tampered_with_in_page_and_twin(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sweep, tmp_path / "tiny")
    files = build_report(folder)
    sound = CliRunner().invoke(app, ["verify", str(files.html)])
    assert sound.exit_code == 0, sound.output
    assert re.search(r"[1-9],\d\d\d numbers computed again, 0 differences", sound.output)
    twin = json.loads(files.json.read_text())
    twin["points"][0]["throughput_rps"]["mean"] *= 1.001
    files.json.write_text(json.dumps(twin))
    page = files.html.read_text()
    changed = re.sub(r"<td>(\d,\d\d\d) ", r"<td>9,\g<1> ", page, count=1)
    assert changed != page
    files.html.write_text(changed)
    found = CliRunner().invoke(app, ["verify", str(files.json)])
    assert found.exit_code == 3
    assert "differs: /points/0/throughput_rps/mean" in found.output
    assert "differs: report.html: in cells" in found.output


def test_verifying_what_is_no_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"schema": "weir.load/1"}')
    with pytest.raises(
        RecordError, match=r"no twin of a report \(weir.report/1\)\. Give one made by `weir-lab report`"
    ):
        verify_sweep(tmp_path / "report.html")
    with pytest.raises(RecordError, match="cannot be read"):
        verify_sweep(tmp_path / "absent" / "report.html")
