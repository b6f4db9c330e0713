"""What S1, S2 and S4 asked of single times: in the proxy, their deviation, which part changes, and what was printed over readers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from test_printed_beside import SPLIT as PRINTED
from test_printed_beside import sweeps
from weir_lab.design.whole.sets import Hypothesis, PublishedSource, load_set
from weir_lab.report.common import Point, Task, own_levels, series_of
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.sections import clients, replication, smaller
from weir_lab.report.sections.claims.family import Held, judge_set
from weir_lab.report.sections.comparisons import queued
from weir_lab.report.sections.comparisons.drawn import printed_lines
from weir_lab.report.sections.replication import ends

if TYPE_CHECKING:
    from weir_lab.design.whole.sets import SectionSpec
    from weir_lab.report.numbers.readings import SweepReadings

DATA = Path(__file__).parent / "data" / "whole"
STUDIES = Path(__file__).parents[2] / "studies"
# More levels than the other tests ask for: quartiles and deviations are drawn over them.
SPLIT = (
    PRINTED.replace("readers = [8, 32]", "readers = [16, 32]")
    .replace("clients = [180, 288]", "clients = [6, 30, 180, 384]")
    .replace("repetitions = 2", "repetitions = 3")
)


def sweep_of(root: Path, name: str, text: str = "") -> SweepReadings:
    """One sweep of the small study, and nothing else of it."""
    return sweeps(root, name, text=text)[name]


def spec(name: str, **changed: object) -> SectionSpec:
    found = next(one for one in load_set(DATA / "small.set.toml").sections if one.name == name)
    return found.model_copy(update=changed)


def named(blocks: list[Any], name: str) -> Any:
    return next((one for one in blocks if isinstance(one, Table | Figure) and one.name == name), None)


def number_of(entry: object) -> float:
    assert isinstance(entry, Value)
    return entry.value


def test_percentiles_of_the_time_in_the_proxy_are_drawn_where_a_study_drew_them_and_say_what_lasts(
    tmp_path: Path,
) -> None:
    """S1 chose its best point by percentiles of its middleware; the page had those of the clients, and no choice."""
    sweep = sweep_of(tmp_path, "t-full", SPLIT)
    plain = clients.build(Task(spec("full"), (sweep,), (), "S4"))
    assert named(plain, "full-percentiles-proxy") is None
    assert named(plain, "full-sustained") is None
    blocks = clients.build(Task(spec("full", redraws={"percentiles-proxy": "Figure 3"}), (sweep,), (), "S1"))
    drawn = named(blocks, "full-percentiles-proxy")
    assert drawn.redraws == "Figure 3"
    assert {panel.title for panel in drawn.panels} == {"reads, 16 readers", "reads, 32 readers"}
    at_clients = named(blocks, "full-percentiles")
    for inside, outside in zip(drawn.panels, at_clients.panels, strict=True):
        for one, other in zip(inside.lines, outside.lines, strict=True):
            # The proxy sees all but 0.2 ms of each request.
            assert [mark.y for mark in one.marks] == pytest.approx([mark.y - 0.2 for mark in other.marks], abs=0.05)
    table = named(blocks, "full-sustained")
    rows = {(row[0], row[1]): row for row in table.rows}
    ours = "by the rule, our choice"
    assert set(rows) == {(ours, "16 readers"), ("by the rule", "32 readers"), ("S1's choice", "32 readers")}
    assert number_of(rows["S1's choice", "32 readers"][2]) == 180
    assert all(number_of(row[5]) <= 1.5 and number_of(row[7]) <= 1.5 for row in table.rows if row[0] != "S1's choice")
    assert isinstance(blocks[0], Text)
    said = next(one for one in blocks[0].points if one.startswith("The most that lasts by S1's rule"))
    assert "S1 chose 180 clients with 32 readers, by eye: there ours has " in said
    fewest = Value(number_of(rows[ours, "16 readers"][2]), digits=0).text
    assert f"; our choice is {fewest} clients with 16 readers, " in said
    for row in table.rows:
        assert f"{cast('Value', row[3]).text} requests/s" in said


def test_the_deviation_of_single_requests_is_drawn_where_a_study_drew_it(tmp_path: Path) -> None:
    """S2's Figure 3 has it at every level of clients; the page had a box in its place."""
    sweep = sweep_of(tmp_path, "t-direct")
    assert named(clients.build(Task(spec("baseline"), (sweep,), (), "S2")), "baseline-deviation") is None
    task = Task(spec("baseline", redraws={"deviation": "Figure 3"}), (sweep,), (), "S2")
    drawn = named(clients.build(task), "baseline-deviation")
    spreads = next(panel for panel in drawn.panels if panel.title == "reads: standard deviation")
    for mark in spreads.lines[0].marks:
        cell = next(
            one for one in sweep.cells if (one.settings.clients, one.settings.write_ratio) == (int(mark.x), 0.0)
        )
        found = [times.standard_deviation() for run in cell.runs if (times := run.times) is not None]
        assert mark.y == pytest.approx(sum(one for one in found if one is not None) / len(found) / 1e6, rel=0.01)
    means = next(panel for panel in drawn.panels if panel.title == "reads: mean")
    assert {line.kind for line in means.lines} == {"band", "line"}


def test_sections_on_replicas_and_writes_say_which_part_of_a_request_changes(tmp_path: Path) -> None:
    """S1 and S4 explain slower SETs by the stage that grows; the page had a figure of stages, and no sentence."""
    blocks = replication.build_replication(Task(spec("replication"), (sweep_of(tmp_path / "a", "t-repl"),), (), "S1"))
    table = named(blocks, "replication-parts")
    rows = {(row[0], row[1], row[2]): row for row in table.rows}
    steps = {"3 servers, R = 1 to 3", "5 servers, R = 1 to 5", "R = 1, 3 to 5 servers"}
    assert {step for step, *_ in rows} == steps
    assert isinstance(blocks[0], Text)
    said = next(one for one in blocks[0].points if "parts of a request's time" in one)
    # A SET of the truth takes half as long again with each further copy, and the wait for servers is bounded: the queue has the rest.
    grown = rows["5 servers, R = 1 to 5", "SET", "in stage queue"]
    assert grown[-1] == "yes"
    assert number_of(grown[5]) > 0.0
    assert number_of(grown[5]) == pytest.approx(number_of(grown[3]) * number_of(grown[4]) / 100.0)
    assert f"in stage queue {cast('Value', grown[5]).text} ms" in said
    assert "a SET, 5 servers, R = 1 to 5: " in said
    # What is outside is 0.2 ms everywhere.
    assert all(abs(number_of(row[5])) < 0.005 for (_, _, part), row in rows.items() if part == "outside of the proxy")
    assert "outside of the proxy" not in said
    written = replication.build_writes(Task(spec("writes"), (sweep_of(tmp_path / "b", "t-writes"),), (), "S1"))
    assert {row[0] for row in named(written, "writes-parts").rows} == {
        "S = 3, R = 1, 1 to 10 % writes",
        "S = 3, R = 3, 1 to 10 % writes",
    }


def test_changes_that_are_shown_come_first_and_all_of_them_stand_behind() -> None:
    """Six points had three changes each, with their intervals, and most of these were not shown."""

    def effect(servers: int, copies: int, percent: float, q: float) -> ends.Effect:
        settings = SimpleNamespace(servers=servers, replicas=copies)
        cell: Any = SimpleNamespace(settings=settings, runs=())
        change: Any = SimpleNamespace(percent=percent, low=percent - 3.0, high=percent + 3.0, level=0.95)
        return ends.Effect(f"S = {servers}, R = {copies}", cell, cell, "throughput", change, q)

    def said(*found: ends.Effect) -> Point:
        (point,) = ends.response_points(found, "over copies")
        return point

    three, five, seven = effect(3, 1, -1.0, 0.4), effect(5, 1, -4.0, 0.06), effect(7, 1, -8.0, 0.01)
    assert said(three, five, seven) == Point(
        "Throughput, over copies: −8.00 % (7 servers); no difference is shown with 3 and 5 servers.",
        "One by one: 3 servers −1.00 % (−4.00 to +2.00), no difference shown; 5 servers −4.00 % (−7.00 to −1.00), for it alone; among all "
        "comparisons of the page not shown; 7 servers −8.00 % (−11.0 to −5.00).",
    )
    assert said(three).lead == "Throughput, over copies: no difference is shown with 3 servers."
    pairs = [effect(servers, copies, -float(servers + copies), 0.01) for servers in (3, 5) for copies in (1, 3)]
    assert said(*pairs).lead == "Throughput, over copies: −8.00 to −4.00 % in all 4 settings."
    assert said(*pairs[:2], three._replace(label="S = 3, R = 2")).lead == (
        "Throughput, over copies: −4.00 % (S = 3, R = 1) and −6.00 % (S = 3, R = 3); no difference is shown in the other one."
    )
    unknown = [one._replace(q=0.5) for one in pairs]
    assert said(*unknown).lead == "Throughput, over copies: no difference is shown in any of 4 settings."


def test_that_no_part_is_shown_to_change_is_said() -> None:
    step: Any = queued.Step("3 servers, R = 1 to 3", None, None)  # type: ignore[arg-type]
    change: Any = SimpleNamespace(percent=3.0, low=-4.0, high=11.0)
    part = queued.Part(step, "get", "in stage queue", 2.0, change, 0.4)
    none = "No part of a request's time, in the proxy or outside of it, is shown to change by 1 % of that time or more."
    assert queued.parts_points([part]) == [Point(none)]
    # What takes next to nothing of the time is left to the table.
    small = part._replace(name="in the other stages", first_ms=0.01, q=0.001)
    assert queued.parts_points([part, small]) == [Point(none)]
    assert queued.parts_points([part._replace(q=0.001), small]) == [
        Point(
            "Of the parts of a request's time these are shown to change: a GET, 3 servers, R = 1 to 3: in stage queue +0.0600 ms."
        )
    ]
    assert queued.parts_points([]) == []
    # Of many a page opens with the largest of each operation.
    many = [
        part._replace(step=step._replace(words=words), operation=operation, first_ms=time, q=0.001)
        for words, operation, time in (("S = 3", "get", 2.0), ("S = 5", "get", 4.0), ("S = 7", "set", 6.0))
    ]
    (said,) = queued.parts_points(many)
    assert said.lead == (
        "Largest changes shown in a part of a request's time: a GET, S = 5, in stage queue +0.120 ms; a SET, S = 7, in stage "
        "queue +0.180 ms."
    )
    assert said.rest.startswith(
        "Of the parts of a request's time these are shown to change: a GET, S = 3: in stage queue +0.0600 ms; "
    )


def test_times_in_the_proxy_over_replicas_are_drawn_where_a_study_drew_them(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "t-repl")
    assert (
        named(replication.build_replication(Task(spec("replication"), (sweep,))), "replication-response-proxy") is None
    )
    task = Task(spec("replication", redraws={"response-proxy": "Figure 7"}), (sweep,))
    blocks = replication.build_replication(task)
    inside, outside = (named(blocks, f"replication-{name}") for name in ("response-proxy", "response"))
    assert inside.redraws == "Figure 7"
    for one, other in zip(inside.panels, outside.panels, strict=True):
        assert one.title == other.title
        pairs = [(line, next(at for at in other.lines if at.name == line.name)) for line in one.lines]
        for line, at in pairs:
            assert [mark.y for mark in line.marks] == pytest.approx([mark.y - 0.2 for mark in at.marks], abs=0.05)


def test_times_in_the_proxy_over_servers_and_writes_are_drawn_where_a_study_drew_them(tmp_path: Path) -> None:
    """S1's Figures 10, 11 and 14 show its middleware; the page had the clients' times alone, and a box."""
    sweep = sweep_of(tmp_path / "a", "t-repl")
    wanted = ("scalability-proxy", "response-proxy", "relative-proxy")
    blocks = replication.build_replication(Task(spec("replication"), (sweep,)))
    assert named(blocks, "replication-scalability-proxy") is None
    blocks = replication.build_replication(
        Task(spec("replication", redraws={"scalability-proxy": "Figure 10"}), (sweep,))
    )
    inside, outside = (named(blocks, f"replication-{name}") for name in ("scalability-proxy", "scalability"))
    assert inside.redraws == "Figure 10"
    assert "over servers" in inside.title
    panels = {panel.title: panel for panel in inside.panels}
    compared = 0
    for panel in outside.panels:
        for line in panel.lines:
            if line.name.startswith("ideal"):
                continue
            mean = next(one for one in panels[f"{panel.title}, {line.name}"].lines if one.name.endswith("mean"))
            assert [mark.x for mark in mean.marks] == [mark.x for mark in line.marks]
            assert [mark.y for mark in mean.marks] == pytest.approx([mark.y - 0.2 for mark in line.marks], abs=0.05)
            compared += 1
    assert compared >= 4
    sweep = sweep_of(tmp_path / "b", "t-writes")
    blocks = replication.build_writes(Task(spec("writes"), (sweep,)))
    assert not [name for name in wanted if named(blocks, f"writes-{name}") is not None]
    blocks = replication.build_writes(Task(spec("writes", redraws=dict.fromkeys(wanted[1:], "Figure 11")), (sweep,)))
    inside, get = (named(blocks, f"writes-{name}") for name in ("response-proxy", "response-get"))
    means = {panel.title: line for panel in inside.panels for line in panel.lines if line.name.endswith("mean")}
    for line in get.panels[0].lines:
        shown = means[f"GET, {line.name}"]
        assert [mark.y for mark in shown.marks] == pytest.approx([mark.y - 0.2 for mark in line.marks], abs=0.05)
    relative, at_clients = (named(blocks, f"writes-{name}") for name in ("relative-proxy", "relative"))
    assert [line.name for line in relative.panels[0].lines] == [line.name for line in at_clients.panels[0].lines]
    assert "time in the proxy" in relative.title
    assert relative.panels[0].lines[0].marks[0].y == 1.0


def test_values_that_were_printed_over_read_threads_stand_at_their_own_number(tmp_path: Path) -> None:
    """S4 printed 9,691/s with 12 threads and 9,881/s with 16; the figure had the first alone, “where our mean is largest”."""
    text = re.sub(r"readers = .*", "readers = [12, 16, 20]", SPLIT).replace(
        "clients = [6, 30, 180, 384]", "clients = [384]"
    )
    sweep = sweep_of(tmp_path, "t-full", text)
    source = PublishedSource(table="s4_quoted", where={"experiment": "max_throughput_run2", "quantity": "throughput"})
    task = Task(spec("full", published=[source]), (sweep,), (), "S4")
    (line,) = printed_lines(task, series_of(task, "readers"))
    assert [one.x for one in line.marks] == [12.0, 16.0]
    assert [one.y for one in line.marks] == pytest.approx([9691 * sweep.speed, 9881 * sweep.speed])
    assert all(one.note.endswith(f"at its {one.x:g} readers") for one in line.marks)


def test_the_median_of_dispatch_stands_beside_its_mean(tmp_path: Path) -> None:
    """6 µs on average stood on a page whose other sections have 1 µs: a few requests are held up."""
    sweep = sweep_of(tmp_path, "t-micro")
    text, table, *_ = smaller.build_micro(Task(spec("micro"), (sweep,), (), "S4"))
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    medians = [number_of(row[table.columns.index("Median (µs)")]) for row in table.rows]
    assert text.text.endswith(f"; half of the requests take {Value(max(medians)).text} µs or less.")
    for median, row in zip(medians, table.rows, strict=True):
        assert 0.5 * number_of(row[1]) < median < number_of(row[1])


def test_a_design_names_the_levels_that_its_study_did_not_have(tmp_path: Path) -> None:
    """“design of the study: S1-max” stood over 4, 9 and 18 clients, which S1 never had."""
    from weir_lab.design import load_study

    file = STUDIES / "s1-max.toml"
    assert own_levels(load_study(file, "night"), file) == (("clients (connections), of these ours", "4, 9, 18"),)
    assert own_levels(load_study(file, "full"), file) == ()
    assert own_levels(load_study(STUDIES / "s2-base.toml", "night"), STUDIES / "s2-base.toml") == ()
    assert own_levels(load_study(file, "night"), tmp_path / "gone.toml") == ()


def test_a_page_of_two_studies_says_that_their_proxies_have_other_quotas() -> None:
    """S1 has 42,339 requests/s beside 22,958 of S4, of one layout; the sets chose 0.9 and 0.66 of a CPU for the proxy."""
    from weir_lab.report.sets.stories.pair import _speeds
    from weir_lab.report.sets.stories.reading import Part, _proxy_cpus

    rows = [["client", {"value": 2.0}], ["proxy", {"value": 0.45}], ["proxy", {"value": 0.9}], ["proxy", "–"]]
    table = {"columns": ["Tier", "Study: CPUs"], "rows": rows}
    for head in ("Study: CPUs", "Study (assumed): CPUs"):
        named = {"system-machines": {**table, "columns": ["Tier", head]}}
        assert _proxy_cpus(Part("system", "The system", "", "", (), (), {}, named)) == 0.9
    assert _proxy_cpus(None) is None
    row = {
        "columns": ["X (requests/s)", "X at the study's speed (requests/s)"],
        "rows": [[{"value": 4.0}, {"value": 10.0}]],
    }
    part = Part("maximum", "Maximum", "", "", (), (), {}, {"maximum-maxima": row})
    one, other = (
        cast("Any", SimpleNamespace(label=label, parts=(part,), proxy_cpus=cpus))
        for label, cpus in (("S1", 0.9), ("S4", 0.66))
    )
    assert _speeds(one, other).endswith(
        " A proxy may use other CPUs at that speed, 0.9 in S1 and 0.66 in S4: where its quota limits, that is a part of what the two "
        "differ by."
    )
    assert "other CPUs" not in _speeds(one, one)


def test_each_sentence_without_a_rule_has_its_own_reason() -> None:
    """Two sentences of one section ask nothing of the data, and so asked the same: both had the reason of the first."""
    task: Any = SimpleNamespace(spec=SimpleNamespace(name="trace"))
    asked = [
        Hypothesis.model_validate(
            {"name": name, "hypothesis": f"It is {name}.", "from": "study", "why_not": f"no rule asks for {name}"}
        )
        for name in ("warm", "cold")
    ]
    found = judge_set([Held(one, task) for one in asked])
    assert [(one.verdict, one.evidence) for one in found] == [
        ("cannot tell", "no rule asks for warm"),
        ("cannot tell", "no rule asks for cold"),
    ]
