"""What a figure of a page offers: every run behind its mean, boxes that hide series, and its data as a file."""

from __future__ import annotations

import csv
import itertools
import re
from dataclasses import replace
from html import unescape
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

import pytest

from weir_lab.report.common import mark_of
from weir_lab.report.page.blocks import Block, Figure, Finding, Report, Section, Text
from weir_lab.report.page.charts import (
    COLOURS,
    DASHES,
    LOOKS,
    Axis,
    Bar,
    Line,
    Look,
    Mark,
    Panel,
    _log_ticks,
    draw,
    legend_of,
    shared_reaches,
)
from weir_lab.report.page.data import data_files, figure_csv
from weir_lab.report.page.data import data_of as data_behind
from weir_lab.report.page.html import figure_html, html_page
from weir_lab.report.page.shapes import whisker

RUNS = ((1, 10.0), (2, 14.0), (4, 12.0))


def mark(x: float, runs: tuple[tuple[int, float], ...] = RUNS) -> Mark:
    found = mark_of(x, runs)
    assert found is not None
    return found


def lines(kind: str = "line") -> tuple[Line, ...]:
    return tuple(
        Line(name, (mark(1.0), mark(4.0), mark(16.0)), look, kind)
        for name, look in zip(("direct", "through, the <proxy>"), LOOKS, strict=False)
    )


def figure(*panels: Panel) -> Figure:
    return Figure("top", "Throughput", "n = 3.", panels or (Panel("reads", Axis("Clients"), Axis("X"), lines()),))


def data_of(html: str) -> list[list[str]]:
    links = re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)"', html)
    assert len(links) == 1
    return list(csv.reader(unquote(unescape(links[0])).splitlines()))


def lines_of(path: str) -> list[list[tuple[float, float]]]:
    """The places of a path of straight lines, each line apart."""
    found = []
    for part in path.split("M")[1:]:
        numbers = [float(one) for one in re.findall(r"-?(?:\d+(?:\.\d+)?|\.\d+)", part)]
        x, y = 0.0, 0.0
        places = []
        for across, down in zip(numbers[::2], numbers[1::2], strict=True):
            x, y = x + across, y + down
            places.append((x, y))
        found.append(places)
    return found


def runs_of(drawn: str) -> list[list[list[tuple[float, float]]]]:
    """Of each series the places of its runs, block by block."""
    return [lines_of(path) for path in re.findall(r'<path class="r c\d" d="([^"]*)"', drawn)]


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0, 5.0, 250.0])
@pytest.mark.parametrize("bins", [4, 14, 16, 17, 30])
def test_edges_of_bins_are_named_in_equal_steps_that_do_not_touch(bins: int, step: float) -> None:
    edges = [f"{round(step * (place + 1), 3):,g}" for place in range(bins)]
    bars = tuple(Bar(edge, (("share", 1.0),)) for edge in edges)
    drawn = draw(Panel("", Axis("Time up to (ms)"), Axis("Share (%)"), bars=bars, parts={"share": LOOKS[0]}), "bins")
    (names,) = re.findall(r'<g class="nx"[^>]*>(.*?)</g>', drawn)
    placed = [(float(x), name) for x, name in re.findall(r'<text x="([\d.]+)">([^<]+)</text>', names)]
    assert len(placed) >= min(bins, 3)
    for (x, name), (other, after) in itertools.pairwise(placed):
        assert other - x >= 6.4 * (len(name) + len(after)) / 2
    apart = {edges.index(after) - edges.index(name) for (_, name), (_, after) in itertools.pairwise(placed)}
    assert len(apart) == 1
    (every,) = apart
    assert edges.index(placed[0][1]) == every - 1, "the first that is named is a step from 0, too"


def test_every_run_stands_behind_its_mean_in_the_order_of_blocks() -> None:
    series = runs_of(draw(Panel("reads", Axis("Clients", log=True), Axis("X"), lines()), "reads"))
    assert [[len(block) for block in blocks] for blocks in series] == [[3, 3, 3], [3, 3, 3]]
    for three in zip(*series[0], strict=True):
        xs, ys = zip(*three, strict=True)
        assert xs[0] < xs[1] < xs[2]
        assert ys[1] < ys[2] < ys[0]  # upwards on the page is less


def test_runs_of_a_block_are_dots_that_can_be_joined() -> None:
    page = html_page(report_of(figure()))
    assert ".r { fill: none; stroke-width: 0;" in page
    assert "figure:has(.kj:checked) .r { stroke-width: 1; }" in page
    dots = re.findall(r"\.r\.(\w+) \{ marker: url\(#([^)]+)\); \}", page)
    assert {colour for colour, _ in dots} == set(COLOURS)
    assert all(page.count(f'<marker id="{dot}"') == 1 for _, dot in dots)


def test_a_block_with_one_run_has_its_dot() -> None:
    some = Line("some", (mark(1.0, ((1, 10.0), (2, 14.0))), mark(2.0, ((1, 11.0), (3, 12.0)))), LOOKS[0])
    drawn = draw(Panel("reads", Axis("Clients"), Axis("X"), (some,)), "reads")
    assert [[len(block) for block in blocks] for blocks in runs_of(drawn)] == [[2]]
    (alone,) = re.findall(r'<path class="o c0" d="([^"]*)"', drawn)
    assert alone.count("h0") == 2


def test_heights_of_single_runs_are_whole_units_and_their_means_are_not() -> None:
    """With tenths the page of one study was above its limit of 1 MB: a fifth of what dots take said less than a dot shows."""
    drawn = draw(Panel("reads", Axis("Clients", log=True), Axis("X"), lines()), "reads")
    for series in runs_of(drawn):
        assert all(y == round(y) for block in series for _, y in block)
    means = re.findall(r'<path class="l [^"]*" d="([^"]*)"', drawn)
    assert any("." in path for path in means)


def test_a_mean_shows_its_runs() -> None:
    drawn = draw(Panel("reads", Axis("Clients"), Axis("X (requests/s)"), lines()), "reads")
    assert re.search(r"<title>direct, clients 1: 12 \([^)]*\)</title>", drawn), "runs stand in the data"
    whole = Line("whole", (mark(1.0, ((1, 10.0), (2, 14.0))),), LOOKS[0])
    assert "2 runs: 10, 14</title>" in draw(Panel("reads", Axis("Clients"), Axis("X"), (whole,)), "reads")


def test_runs_far_from_their_mean_are_inside_the_axes() -> None:
    far = Line("far", (mark(1.0, ((1, 1.0), (2, 900.0))), mark(2.0)), LOOKS[0])
    for log in (False, True):
        drawn = draw(Panel("reads", Axis("Clients"), Axis("X", log=log), (far,)), "reads", 360.0, 250.0)
        (blocks,) = runs_of(drawn)
        assert all(20.0 <= y <= 210.0 for block in blocks for _, y in block)


@pytest.mark.parametrize("dash", DASHES)
def test_every_dash_is_one_of_the_page(dash: str) -> None:
    page = html_page(report_of(figure()))
    line = Line("one", (mark(1.0), mark(2.0)), Look("c0", "o", dash))
    drawn = draw(Panel("reads", Axis("Clients"), Axis("X"), (line,)), "reads")
    found = re.search(r'<path class="l c0(?: (d\d))?"', drawn)
    assert found is not None
    assert not dash or f".{found[1]} {{ stroke-dasharray: {dash}; }}" in page
    with pytest.raises(ValueError, match="no dash"):
        Look("c0", "o", "1 1 1")


def test_a_mark_takes_few_bytes() -> None:
    """A page of a whole study has some two thousand of them, and is to stay below 1 MB."""

    def size(marks: int) -> int:
        many = tuple(Mark(1e3 * x, 1e5 / (1 + x), 0.9e5 / (1 + x), 1.1e5 / (1 + x)) for x in range(marks))
        drawn = draw(Panel("reads", Axis("Clients"), Axis("X"), (Line("a", many, LOOKS[0]),)), "reads")
        return len(re.sub(r"<title>.*?</title>", "<title></title>", drawn))

    assert (size(100) - size(50)) / 50 < 110


def report_of(*blocks: Block, findings: tuple[Finding, ...] = (), missing: str = "") -> Report:
    section = Section("s", "S", "q", "h", blocks=blocks, findings=findings, missing=missing)
    return Report("r", "R", "about", "quick", "local", ("x",), (section,), (), {})


def test_claims_of_our_own_are_not_said_to_be_an_earlier_studys() -> None:
    """“Conclusions of the study” stood on the page of our own study, which repeats none."""
    finding = Finding("a", "It holds.", "holds", "it does")
    page = html_page(report_of(figure(), findings=(finding,)))
    assert '<h2 id="conclusions">Conclusions of the study on our data</h2>' in page
    own = html_page(replace(report_of(figure(), findings=(finding,)), of_earlier=False))
    assert '<h2 id="conclusions">Claims fixed before the data</h2>' in own
    assert "the study" not in own[own.index('id="conclusions"') : own.index("</table>", own.index('id="conclusions"'))]


def test_a_figure_names_its_runs_where_its_section_names_others() -> None:
    note = Text("Runs: a: 3 runs, 1 flagged; b: 2 runs.", note=True)
    same, fewer = (
        replace(figure(), name=name, runs=runs)
        for name, runs in (("same", ("a: 3 runs", "b: 2 runs")), ("fewer", ("a: 3 runs",)))
    )
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html_page(report_of(note, same, fewer)))
    assert ["Runs: " in caption for caption in captions] == [False, True]
    assert "Runs: a: 3 runs." in captions[1]


def test_a_reason_that_stands_above_is_not_said_again() -> None:
    reason, missing = "the interval reaches from here to there and so nothing can be said", "a.toml has no valid runs"
    findings = (
        Finding("one", "Reads grow.", "cannot tell", reason),
        Finding("two", "Writes grow.", "cannot tell", reason),
        Finding("three", "All grow.", "no data", missing),
    )
    page = html_page(report_of(figure(), findings=findings, missing=missing))
    assert page.count(reason) == 1
    assert "The same as for “Reads grow.”" in page
    assert page.count(missing) == 1
    assert "<td>See above.</td>" in page


def test_a_logarithmic_axis_says_so_and_its_data_keep_the_plain_label() -> None:
    panel = Panel("reads", Axis("Clients", log=True), Axis("Time (ms)", log=True), lines())
    drawn = draw(panel, "reads")
    assert re.findall(r">([^<]*logarithmic)<", drawn) == ["Clients, logarithmic", "Time (ms), logarithmic"]
    assert "logarithmic" not in figure_csv(figure(panel))
    assert "logarithmic" not in draw(Panel("reads", Axis("Clients"), Axis("Time (ms)"), lines()), "reads")


def test_an_interval_that_a_logarithmic_axis_cuts_has_no_end_there() -> None:
    """Two intervals of S1 ended at the axis with a stroke, at 2.47 and not at 2.22."""

    def drawn(low: float) -> str:
        marks = (Mark(1.0, 3.5, 3.4, 3.6), Mark(2.0, 8.1, low, 29.5))
        return draw(
            Panel("reads", Axis("Clients"), Axis("Time (ms)", log=True), (Line("one", marks, LOOKS[0]),)), "reads"
        )

    for low, ends in ((2.2, 2), (0.001, 1)):
        assert len(re.findall(r"h6m-3 0v", drawn(low))) == 2
        assert len(re.findall(r"v[\d.]+m-3 0h6", drawn(low))) == ends


def scaled(title: str, times: float, label: str = "Time (ms)", *, log: bool = False) -> Panel:
    marks = (Mark(1.0, 2.0 * times), Mark(4.0, 10.0 * times))
    return Panel(title, Axis("Clients"), Axis(label, log=log), (Line("one", marks, LOOKS[0]),))


@pytest.mark.parametrize(
    ("panels", "shared"),
    [
        ([scaled("3 servers", 1.0), scaled("7 servers", 2.0)], True),
        ([scaled("reads", 1.0), scaled("writes", 20.0)], False),
        ([scaled("time", 1.0), scaled("rate", 1.0, "Rate (1/s)")], False),
        ([scaled("8 workers", 1.0, log=True), scaled("64 workers", 1.5, log=True)], True),
        ([scaled("8 workers", 1.0, log=True), scaled("64 workers", 100.0, log=True)], False),
        ([scaled("alone", 1.0)], False),
    ],
)
def test_panels_share_their_y_axis_where_none_is_squashed(panels: list[Panel], *, shared: bool) -> None:
    reaches = shared_reaches(panels)
    assert len(set(reaches)) == 1
    assert (reaches[0] is not None) is shared
    html = figure_html(figure(*panels), 1)
    names = [re.search(r'<g class="ny"[^>]*>(.*?)</g>', svg) for svg in html.split('<svg class="chart"')[1:]]
    ticks = [tuple(re.findall(r">([^<]+)<", found[1])) for found in names if found]
    assert len(ticks) == len(panels)
    if shared:
        assert len(set(ticks)) == 1
        assert float(ticks[0][-1]) >= 15.0 or panels[0].y.log


def test_panels_that_begin_alike_share_where_all_cannot() -> None:
    panels = [
        scaled(title, times) for title, times in (("GET, 3", 1.0), ("GET, 7", 1.2), ("SET, 3", 5.0), ("SET, 7", 9.0))
    ]
    get, same_get, set_, same_set = shared_reaches(panels)
    assert get == same_get == (0.0, 12.5)
    assert set_ == same_set
    assert set_ is not None
    assert set_[1] >= 90.0


def test_a_caption_says_that_y_axes_differ_where_panels_of_one_quantity_have_their_own() -> None:
    said = "The panels' y axes differ."
    alike, apart = [scaled("3", 1.0), scaled("7", 2.0)], [scaled("3", 1.0), scaled("7", 20.0)]
    grouped = [*(scaled(f"GET, {one}", 1.0) for one in (3, 7)), *(scaled(f"SET, {one}", 9.0) for one in (3, 7))]
    others = [scaled("time", 1.0), scaled("rate", 50.0, "Rate (1/s)")]
    for panels, wanted in ((alike, False), (apart, True), (grouped, True), (others, False), (alike[:1], False)):
        assert (said in figure_html(figure(*panels), 1)) is wanted


def test_every_entry_of_the_legend_hides_its_series() -> None:
    bars = Panel(
        "stages",
        Axis(""),
        Axis("Time"),
        bars=(Bar("4", (("queue", 1.0), ("send", 2.0))),),
        parts={"queue": LOOKS[2], "send": LOOKS[3]},
    )
    dotted = Panel("law", Axis("Clients"), Axis("X"), (*lines(), *lines("dotted")))
    html = figure_html(figure(dotted, bars), 1)
    boxes = re.findall(r'<label><input type="checkbox" class="k(\d+)" checked>.*?</svg>(.*?)</label>', html)
    names = ["direct", "through, the &lt;proxy&gt;"]
    assert [name for _, name in boxes] == [*names, *names, "queue", "send"]
    drawn = re.findall(r'class="(?:f c\d )?y(\d+(?: y\d+)?)"', html)
    # A dotted line goes with the line of its look, and has an entry of its own.
    assert sorted(drawn) == ["0", "0 y2", "1", "1 y3", "4", "5"]
    page = html_page(report_of(figure()))
    hidden = re.findall(r"figure:has\(\.k(\d+):not\(:checked\)\) \.y(\d+)", page)
    assert {number for number, _ in boxes} <= {one for one, other in hidden if one == other}
    assert "<script" not in page


def test_dotted_lines_of_one_name_are_one_entry_of_the_legend_in_no_colour_of_a_series() -> None:
    """N / R was drawn beside every series, and a caption some figures above said what dotted lines are."""
    law = tuple(replace(line, name="N / R", kind="dotted") for line in lines())
    panel = Panel("reads", Axis("Clients"), Axis("X"), (*lines(), *law))
    legend = legend_of([panel, panel])
    assert list(legend) == [("direct", "line"), ("through, the <proxy>", "line"), ("N / R", "dotted")]
    assert legend["N / R", "dotted"].colour not in {look.colour for look in LOOKS}
    assert re.findall(r'class="(y\d+ y\d+)"', draw(panel, "reads")) == ["y0 y2", "y1 y2"]
    alone = Panel("reads", Axis("Clients"), Axis("X"), (lines()[0], law[0]))
    assert legend_of([alone])["N / R", "dotted"] == LOOKS[0]
    assert re.findall(r"</svg>([^<]*)</label>", figure_html(figure(alone), 1)) == ["direct", "N / R"]
    # So are bands: the legend had a blue one, and those of SET are red.
    bands = [Panel("", Axis("R"), Axis("Time"), (replace(line, name="25 to 75 %", kind="band"),)) for line in lines()]
    assert legend_of(bands) == {("25 to 75 %", "band"): legend["N / R", "dotted"]}


def test_a_legend_has_the_stages_that_can_be_seen_and_no_other() -> None:
    """The legend had seven stages, and bars had two colours: dispatch takes a microsecond of 600 ms."""
    parts = {name: LOOKS[place] for place, name in enumerate(("read", "queue", "backend"))}

    def panel(*values: float) -> Panel:
        bars = (Bar("8 workers", tuple(zip(parts, values, strict=True))), Bar("none", (("read", 0.0),)))
        return Panel("stages", Axis(""), Axis("Time (ms)"), bars=bars, parts=parts)

    def named(*panels: Panel) -> list[str]:
        return re.findall(r"</svg>([^<]*)</label>", figure_html(figure(*panels), 1))

    assert named(panel(0.001, 90.0, 510.0)) == ["queue", "backend"]
    assert named(panel(0.001, 90.0, 510.0), panel(2.0, 3.0, 4.0)) == ["read", "queue", "backend"]
    assert named(panel(0.0, 0.0, 510.0)) == ["backend"], "one that is left of several is named, too"
    lone = Panel("", Axis("Time"), Axis("Share (%)"), bars=(Bar("1", (("share", 1.0),)),), parts={"share": LOOKS[0]})
    assert named(lone) == []


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("blocks", [2, 5, 12])
def test_dots_of_single_runs_stand_inside_of_the_axes(blocks: int, *, log: bool) -> None:
    """At the fewest clients half of them stood left of the axis, among its numbers."""
    runs = tuple((place, 10.0 + place) for place in range(blocks))
    panel = Panel(
        "reads", Axis("Clients", log=log), Axis("X"), (Line("a", (mark(6, runs), mark(384, runs)), LOOKS[0]),)
    )
    for width in (360.0, 720.0):
        drawn = draw(panel, "reads", width)
        (left,) = re.findall(r'<path class="a" d="M([\d.]+) ', drawn)
        xs = [x for block in runs_of(drawn)[0] for x, _ in block]
        assert float(left) + 2.0 <= min(xs) < max(xs) <= width - 14.0 - 2.0


def test_the_data_of_a_figure_is_in_the_page() -> None:
    rows = data_of(figure_html(figure(), 1))
    assert rows[0] == ["panel", "series", "x: Clients", "y: X", "low", "high", "block 1", "block 2", "block 4"]
    assert len(rows) == 1 + 2 * 3
    own = next(row for row in rows if row[1] == "through, the <proxy>" and row[2] == "4")
    mean = mark(4.0)
    assert float(own[3]) == pytest.approx(mean.y)
    assert (float(own[4]), float(own[5])) == pytest.approx((mean.low, mean.high), rel=1e-6)
    assert [float(value) for value in own[6:]] == [value for _, value in RUNS]


def test_the_data_of_a_figure_can_lie_beside_the_page(tmp_path: Path) -> None:
    report = report_of(figure())
    page, files = html_page(report, "r-data"), data_files(report)
    assert "data:text/csv" not in page
    assert (
        re.findall(r'<a class="data" href="([^"]*)"', page)
        == [f"r-data/{name}" for name in files]
        == ["r-data/top.csv"]
    )
    (tmp_path / "r-data").mkdir()
    (tmp_path / "r-data" / "top.csv").write_text(files["top.csv"])
    assert data_behind(page, tmp_path) == data_behind(html_page(report), tmp_path) == figure_csv(figure())


def test_data_of_panels_with_different_axes_says_which() -> None:
    other = Panel("times", Axis("Clients"), Axis("R (ms)"), lines())
    text = figure_csv(figure(Panel("reads", Axis("Clients"), Axis("X"), lines()), other))
    assert text.splitlines()[0] == "panel,series,x: Clients,y,low,high,block 1,block 2,block 4"
    assert text.count("times [R (ms)]") == 2 * 3


def test_a_block_without_a_run_leaves_its_column_empty() -> None:
    some = Line("some", (mark(1.0), mark(2.0, RUNS[:2])), LOOKS[0])
    rows = list(csv.reader(figure_csv(figure(Panel("reads", Axis("Clients"), Axis("X"), (some,)))).splitlines()))
    assert [row[-1] for row in rows] == ["block 4", "12", ""]


def test_a_cloud_of_points_is_one_mark_and_its_data_are_behind_the_link() -> None:
    bare = Line("one run", tuple(Mark(float(x), float(x * x)) for x in range(1, 13)), LOOKS[0], "points")
    reported = Line("median", (Mark(1.0, 5.0, note="median of all runs"), Mark(2.0, 6.0, note="")), LOOKS[1], "points")
    panel = Panel("residuals", Axis("Predicted"), Axis("Residual"), (bare, reported))
    drawn = draw(panel, "residuals")
    clouds = re.findall(r'<path class="m hollow c0" d="([^"]*)"', drawn)
    assert [path.count("M") for path in clouds] == [12]
    assert drawn.count("<title>") == 2  # what has something to tell tells it
    assert len(figure_csv(figure(panel)).splitlines()) == 1 + 12 + 2


STYLE = resources.files("weir_lab.report.page").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
REM_MM = 16.0 / 96.0 * 25.4


def media(query: str) -> str:
    """What the page's style says for one medium: the blocks of this query, with those in them."""
    found = []
    for begin in re.finditer(re.escape(query) + r" \{", STYLE):
        depth, at = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(STYLE[at], 0)
            at += 1
        found.append(STYLE[begin.end() : at - 1])
    assert found
    return "\n".join(found)


def test_two_figures_of_four_panels_fit_on_a_printed_page() -> None:
    """A figure stays with its caption: where only one and a half fit, half of each page is empty."""
    style = media("@media print")
    (width,) = (
        float(one) for one in re.findall(r"\.panels:not\(\.wide, \.three, \.slim\) \{ max-width: (\d+)mm", style)
    )
    (above, below) = (float(one) for one in re.findall(r"figure \{ margin: ([\d.]+)rem 0 ([\d.]+)rem", style)[0])
    (edge,) = (float(one) for one in re.findall(r"@page \{ size: A4; margin: (\d+)mm", STYLE))
    drawn = draw(Panel("reads", Axis("Clients"), Axis("X"), lines()), "reads")
    across, high = (float(one) for one in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
    assert across / high == pytest.approx(360 / 250)
    panels = 2 * (width - REM_MM) / 2 * high / across + 0.5 * REM_MM
    line = 9.5 * 25.4 / 72 * 1.5
    words = 0.85 * line + 3 * 0.88 * line + 0.5 * REM_MM
    assert 2 * (panels + words + (above + below) * REM_MM) <= 297 - 2 * edge
    # Five panels or more would not fit on what is left of a page, and five drawings of networks on none: those break between panels.
    assert "figure:has(.panels > :nth-child(5)) { break-inside: auto; } .panels > * { break-inside: avoid; }" in style


def test_on_a_phone_a_legend_stands_before_the_panels_that_it_explains() -> None:
    style = media("@media screen and (max-width: 700px)")
    assert "figure { display: flex; flex-direction: column;" in style
    assert ".legend { order: -1; padding-left: 0;" in style


def test_an_interval_that_its_mark_hides_is_not_drawn() -> None:
    """A page of S3 grew above 1 MB, and 825 of its 1,467 intervals were lower than a unit."""
    assert whisker(10.0, 20.0, 25.5) == "M7 20h6m-3 0v5.5m-3 0h6"
    assert whisker(10.0, 20.0, 25.5, ends_below=False) == "M7 20h6m-3 0v5.5"
    assert whisker(10.0, 20.0, 21.0) != ""
    assert whisker(10.0, 20.0, 20.9) == ""


def test_a_logarithmic_axis_of_less_than_a_decade_has_ticks_to_read_a_value_by() -> None:
    """The CPU time of a request, 17 to 42 µs, had a single tick at 20."""
    assert _log_ticks(17.0, 42.0) == [20.0, 30.0, 40.0]
    assert _log_ticks(1.0, 90.0) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    # Of 1.4 to 750 ms 250, 500 and 750 had a tick, and nothing below.
    assert _log_ticks(1.4, 750.0) == [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
    assert _log_ticks(1.0, 9000.0) == [1.0, 10.0, 100.0, 1000.0]
