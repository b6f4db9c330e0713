"""The table of limits near the top of a page has what the paragraphs below say, and follows them wherever they go."""

from __future__ import annotations

import importlib
import json
import math
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import load_set
from weir_lab.report.common import Task, series_of
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.numbers.stations import Usage
from weir_lab.report.page.arranging import arrange
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.html import _said_once, html_page, markdown_page
from weir_lab.report.sections.claims import Confirmed, explained_of
from weir_lab.report.sections.claims.contrasts import Pair
from weir_lab.report.sections.claims.limits.signs import Sign, in_trace
from weir_lab.report.sections.comparisons.maxima import maxima_table
from weir_lab.report.sets import Sources, assemble
from weir_lab.report.sets.results import limits_table
from weir_lab.report.sets.twin import twin_of, values_compared
from weir_lab.theory.fitting.devices import Twice
from weir_lab.theory.linear import Estimate
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from weir_lab.design.whole.sets import More
    from weir_lab.report.page.blocks import Entry, Report
    from weir_lab.report.sections.claims import Explained

ONE = Path(__file__).parent / "data" / "whole" / "small.set.toml"
SET = ("t-direct.toml", "t-full.toml", "t-repl.toml", "t-trace.toml")
why: Any = importlib.import_module("weir_lab.report.sections.claims.limits.why")
plateaus: Any = importlib.import_module("weir_lab.report.sections.comparisons.plateaus")


def made(root: Path, truth: Truth) -> Report:
    study_set = take_files(ONE, root)
    write_whole(root, study_set, truth, leave_out=tuple(one for one in study_set.files if one not in SET))
    return assemble(study_set, Sources(root, root / "studies"), "quick", "netns")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of the sections with curves, one with the same clients everywhere, and a trace; tests must not change it."""
    return made(tmp_path_factory.mktemp("limits"), Truth())


def text_of(entry: Entry) -> str:
    return entry.text if isinstance(entry, Value) else str(entry)


def rows_of(found: Table | None) -> list[dict[str, str]]:
    assert found is not None
    return [dict(zip(found.columns, map(text_of, row), strict=True)) for row in found.rows]


def agrees(row: dict[str, str], point: str) -> list[str]:
    """What a row says otherwise than the point of the paragraph that it is made of."""
    named, _, name = row["Requests"].partition(", largest mean")
    wanted = {
        "name": named.lower() + name,
        "clients": count_text(int(row["Clients"].replace(",", "")), "client"),
        "rate": f"{row['X (requests/s)']} requests/s".replace(" (", " (two runs: ", " and " in row["X (requests/s)"]),
        "station": f"he {row['Limits']} limit" if "cannot" not in row["Limits"] else row["Limits"].partition(": ")[2],
        "used": f"{row['Used (%)']} %",
        "sign": row["Second sign"].partition(",")[0].partition(" outside")[0].partition(" in stage")[0],
        "grows": re.split(r"(?=in stage|outside)", row["Second sign"].partition(",")[0])[-1],
        "gain": (re.findall(r"[−+][\d,.]+ %", row["Twice of it"]) or [""])[0],
        "then": row["Twice of it"].partition(", then ")[2].replace("the same", "the fullest still"),
        "sent": row["Twice of it"].partition(" with ")[2],
        "change": (re.findall(r"[−+][\d,.]+ %", row["Changed alone"]) or [""])[0],
    }
    if row["Second sign"] == "none":
        # Where no station is full there is nothing to be a second sign of.
        named = (
            "no second sign" if "cannot" not in row["Limits"] and "none" not in row["Limits"] else "no time which grows"
        )
        wanted["sign"] = wanted["grows"] = named
    if row["Second sign"] == "no stamps":
        wanted["sign"] = wanted["grows"] = "no stamp tells"
    if row["Second sign"].endswith(", agrees"):
        wanted["agrees"] = "which agrees"
    return [name for name, text in wanted.items() if text.lower() not in point.lower()]


def points_of(report: Report, title: str) -> tuple[str, ...]:
    part = next(one for one in report.sections if one.title == title)
    return next(one.points for one in part.blocks if isinstance(one, Text) and one.text == "Why:")


def test_each_row_says_what_its_paragraph_says(report: Report) -> None:
    rows = rows_of(report.limiting)
    sections = [*["Baseline"] * 2, *["Full system"] * 2, "Replication", "Trace", "Overhead", *["Side by side"] * 4]
    assert [row["Section"] for row in rows] == sections
    for title in dict.fromkeys(row["Section"] for row in rows):
        own = [row for row in rows if row["Section"] == title]
        for row, point in zip(own, points_of(report, title), strict=False):
            assert agrees(row, point) == [], (row, point)
    stations = {row["Requests"].partition(", largest mean")[0]: row["Limits"] for row in rows}
    assert stations["reads"] == "server uplinks"
    assert stations["writes, 8 workers"] == "workers"


def test_in_another_world_rows_and_paragraphs_are_others_and_agree(report: Report, tmp_path: Path) -> None:
    """Slower workers, and links that carry less of everything: no number of a row may stay behind."""
    other = made(tmp_path, Truth(worker_ms=3.1, alone_ms=3.0, spread=0.011))
    rows, before = rows_of(other.limiting), rows_of(report.limiting)
    for row in rows:
        points = points_of(other, row["Section"])
        assert any(agrees(row, point) == [] for point in points), row
        # What it says is not what the first world's paragraphs say.
        assert all(agrees(row, point) for point in points_of(report, row["Section"])), row
    assert [row["X (requests/s)"] for row in rows] != [row["X (requests/s)"] for row in before]


def full_system(folder: Path) -> Task:
    """The full system alone."""
    if not (folder / "t-full").exists():
        study_set = take_files(ONE, folder)
        others = tuple(one for one in study_set.files if one != "t-full.toml")
        write_whole(folder, study_set, Truth(), leave_out=others)
    spec = next(one for one in load_set(ONE).sections if one.name == "full")
    return Task(spec, (read_cells("t-full.toml", folder / "t-full"),))


def explained(folder: Path) -> list[Explained]:
    return explained_of(full_system(folder), [])


def test_a_row_cannot_differ_from_its_paragraph_in_any_of_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value that both are made of is changed in turn: both follow."""
    link = Usage("proxy uplinks", 0.973, "bytes")
    model = Twice("proxy uplinks", 24, 9_000.0, 0.1, 9_100.0, 0.1, "client uplinks", simulated=True)
    monkeypatch.setattr(why, "usages", lambda *_: [link])
    monkeypatch.setattr(why, "twice_at", lambda *_: None)

    def both() -> list[tuple[dict[str, str], str]]:
        found = explained(tmp_path)
        return list(zip(rows_of(limits_table([("Full system", found)])), [one.text for one in found], strict=True))

    for row, text in both():
        assert agrees(row, text) == []
        assert (row["Used (%)"], row["Twice of it"][:9]) == ("97", "at most +")
    monkeypatch.setattr(why, "usages", lambda *_: [Usage("client uplinks", 0.914, "bytes")])
    for row, text in both():
        assert agrees(row, text) == []
        assert (row["Limits"], row["Used (%)"]) == ("client uplinks", "91")
    # The growth of another part changes the sign of both.
    parts = {"read": 0.0, "dispatch": 0.0, "queue": 0.1, "send": 0.0, "backend": 0.0, "reply": 0.0, "outside": 9.0}
    monkeypatch.setattr(why, "_growth", lambda *_: parts)
    for row, text in both():
        assert agrees(row, text) == []
        assert row["Second sign"].endswith(" % outside of the proxy, agrees")
    # What a model says is in both, or in none: where it is off what was measured, or above the bound.
    monkeypatch.setattr(why, "usages", lambda *_: [link])
    for off, then, shown in ((1.0, 1.5, True), (1.2, 1.5, False), (1.0, 2.1, False), (1.0, 3.0, False)):
        monkeypatch.setattr(
            why,
            "twice_at",
            lambda _sweeps, at, *_, off=off, then=then: SimpleNamespace(
                **{
                    **vars_of(model),
                    "throughput_per_s": off * at.mean_throughput,
                    "throughput_then_per_s": then * at.mean_throughput,
                }
            ),
        )
        monkeypatch.setattr(why, "sent_by_clients", lambda *_: None)
        for row, text in both():
            assert ("then the client uplinks would be the fullest" in text) == shown
            assert row["Twice of it"] == ("+1.00 %, then client uplinks" if shown else "at most +106 %")


def vars_of(model: Twice) -> dict[str, Any]:
    return {
        "station": model.station, "population": model.population, "response_s": model.response_s,
        "response_then_s": model.response_then_s, "fullest_then": model.fullest_then, "simulated": model.simulated,
        "throughput_percent": 1.0, "response_percent": 1.0,
    }  # fmt: skip


def test_where_no_station_is_full_the_row_says_that_it_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "usages", lambda *_: [Usage("CPUs of this machine", 0.86, "busy", shared=True)])
    (row, *_) = rows_of(limits_table([("Full system", explained(tmp_path))]))
    assert (row["Limits"], row["Used (%)"]) == ("cannot tell, the fullest: CPUs of this machine", "86")
    assert row["Changed alone"] == "–"
    monkeypatch.setattr(why, "usages", lambda *_: [])
    (row, *_) = rows_of(limits_table([("Full system", explained(tmp_path))]))
    assert (row["Limits"], row["Used (%)"]) == ("cannot tell", "–")


def test_only_runs_in_which_the_limiting_station_was_changed_stand_in_its_row() -> None:
    def tried(changes: str, times: float, verdict: str, change: float | None, clients: int = 0) -> Confirmed:
        more: More = SimpleNamespace(changes=changes, times=times)  # type: ignore[assignment]
        estimate = None if change is None else Estimate(math.log1p(change / 100.0), 0.01, 9.0)
        there: Any = SimpleNamespace(settings=SimpleNamespace(population=clients))
        pairs = (Pair(there, there),) if clients else ()
        return Confirmed(more, verdict, "", pairs, estimate)

    link = Usage("server uplinks", 1.0, "")
    cell: Any = SimpleNamespace(settings=SimpleNamespace(clients=6, population=6))

    def row(
        *runs: Confirmed,
        inside: str = "",
        limits: bool = True,
        alike: str = "",
        column: str = "Changed alone",
        over: tuple[float, ...] = (),
    ) -> str:
        one: Any = SimpleNamespace(
            name="reads", shown=True, cell=cell, usage=link, limits=limits, sign=Sign("", ""), tried=runs, inside=inside,
            brings="", alike=alike, over_plateau=over or (None,) * len(runs), plateau=None,
        )  # fmt: skip
        results: Any = importlib.import_module("weir_lab.report.sets.results")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(results, "level_value", lambda *_, **__: "582")
            (found,) = rows_of(limits_table([("One proxy", [one])]))
        return found[column]

    confirmed = tried("server uplinks", 2.0, "confirmed", 100.0)
    assert row(confirmed, tried("workers", 2.0, "not confirmed", 0.2)) == "twice: +100 %, confirmed"
    assert row(tried("server uplinks", 0.5, "cannot tell", -63.9)) == "half: −63.9 %, cannot tell"
    assert row(tried("server uplinks", 0.5, "no data", None)) == "half of it: too few runs to tell"
    # Whether a station limits at 6 clients, no change with 128 shows without a word.
    half = tried("server uplinks", 0.5, "confirmed", -54.5, clients=128)
    assert row(half) == "half at 128 clients: −54.5 %, confirmed"
    assert row(tried("server uplinks", 0.5, "confirmed", -54.5, clients=6)) == "half: −54.5 %, confirmed"
    # A level that had fallen below the plateau was lifted by +111 %, and nothing can be by more than +100.
    assert row(tried("server uplinks", 2.0, "confirmed", 111.0, clients=384), over=(98.7,)) == (
        "twice at 384 clients: +98.7 % against the plateau (+111 % against the same clients, who had fallen below it), confirmed"
    )
    assert row(alike="proxy CPU quotas", column="Limits") == "server uplinks, proxy CPU quotas alike"
    assert row(tried("workers", 2.0, "not confirmed", 0.2)) == row() == row(confirmed, limits=False) == "–"
    assert row(inside="twice: +69.6 %, in the section itself") == "twice: +69.6 %, in the section itself"


def test_the_table_stands_behind_the_answer_and_in_place_of_lines_that_said_the_same(report: Report) -> None:
    page, text = html_page(report), markdown_page(report)
    marks = ('id="summary"', '<table id="limits">', 'id="what-limits"', 'id="conclusions"')
    places = [page.index(one) for one in marks]
    assert places == sorted(places)
    assert text.index(report.summary[-1]) < text.index("**What limits, ") < text.index(report.limits[0])
    assert not any("was tried with runs of ours" in line for line in report.summary)
    titles = [line.partition(":")[0] for line in report.details]
    open_ = {row["Section"] for row in rows_of(report.limiting) if "largest mean" in row["Requests"]}
    assert ("Baseline" in open_, "Full system" in open_) == (True, False)
    assert not {"Baseline", "Full system"} & set(titles)
    assert unescape(page).count("What limits, by section. ") == 1
    assert report.limiting is not None
    assert len(report.limiting.caption.split()) <= 48


def test_the_first_table_of_a_section_has_a_row_for_each_plateau_and_every_series_opens_on_demand(
    report: Report,
) -> None:
    """S3's tables had four rows of reads that differed in nothing but a digit, and five lines in a cell."""
    for name in ("baseline", "full"):
        part = next(one for one in report.sections if one.name == name)
        tables = {one.name: one for one in part.blocks if isinstance(one, Table)}
        reached, maxima = tables[f"{name}-reached"], tables[f"{name}-maxima"]
        # Beside what the study printed it stands open; else sentences and the figure have its numbers.
        found = arrange(part)
        assert reached in (found.evidence if "Printed X" in reached.columns else found.more)
        assert maxima in found.more
        assert len(reached.rows) <= len(maxima.rows)
        every = rows_of(maxima)
        limits = {
            (row["Requests"].split(",")[0], row["Limits"])
            for row in rows_of(report.limiting)
            if row["Section"] == part.title
        }
        for row in rows_of(reached):
            (own,) = [
                one for one in every if row["Workload"] == one["Workload"]
                and (row["X (requests/s)"], row["Clients"], row["R there (ms)"]) == (one["X (requests/s)"], one["Clients"], one["R (ms)"])
                and one["Series"] in expanded(row["Series"])
            ]  # fmt: skip
            assert row.get("Printed X", "–") == own["Printed X"]
            assert row.get("Ours against it (%)", "–") == own["Ours against it (%)"]
            if "event" not in row["Series"]:
                assert (row["Workload"], row["Limits"]) in limits, row


def test_series_with_other_printed_values_have_rows_with_their_own_maxima(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4's row of 24 readers had the maximum of 16."""
    task = full_system(tmp_path)
    printed = {one.name: SimpleNamespace(throughput=1000.0 + place) for place, one in enumerate(series_of(task))}
    monkeypatch.setattr(plateaus, "_printed_of", lambda _, series: printed[series.name])
    every = {row["Series"]: row for row in rows_of(plateaus.reached_table(task))}
    assert set(every) == set(printed)
    for row in rows_of(maxima_table(task, series_of(task))):
        assert every[row["Series"]]["X (requests/s)"] == row["X (requests/s)"]
        assert every[row["Series"]]["Clients"] == row["Clients"]
    assert len({row["X (requests/s)"] for row in every.values()}) > 1


def expanded(names: str) -> list[str]:
    """``8, 16 and 64 workers`` as the names of the series."""
    plain = names.removesuffix(", largest mean")
    numbers, noun = re.findall(r"\d+", plain), plain.rpartition(" ")[2]
    return [f"{number} {noun}" for number in numbers] if len(numbers) > 1 else [plain]


def test_a_report_that_had_no_such_table_is_verified_all_the_same(report: Report) -> None:
    twin = json.loads(json.dumps(twin_of(report)))
    assert values_compared(twin, report).differences == ()
    number = next(one for one in twin["limiting"]["rows"][0] if isinstance(one, dict))
    number["value"] += 1.0
    assert any("limiting" in one for one in values_compared(twin, report).differences)
    del twin["limiting"]
    assert values_compared(twin, report).differences == ()


def test_a_trace_says_what_limits_it_and_what_its_time_is_made_of(report: Report) -> None:
    """S1's hour stood there without a word on what limits it."""
    trace = next(one for one in report.sections if one.title == "Trace")
    (point,) = points_of(report, "Trace")
    assert point.startswith("t-trace, 30 clients: the readers limit, ")
    assert "Its clients are always the same, so that no time grows with them. The " in point
    (parts,) = [one for one in trace.blocks if isinstance(one, Table) and one.name == "trace-parts"]
    (row,) = parts.rows
    values = {name: one.value for name, one in zip(parts.columns, row, strict=True) if isinstance(one, Value)}
    assert sum(values.values()) == pytest.approx(2.0 * values["R (ms)"], rel=1e-6)
    longest = max((name for name in values if name != "R (ms)"), key=lambda name: values[name])
    said = re.search(r"The ([\d.]+) ms of a request are ([\d.]+) ms \((\d+) %\) in stage (\w+)", point)
    assert said is not None
    assert float(said[1]) == pytest.approx(values["R (ms)"], abs=0.05)
    assert float(said[2]) == pytest.approx(values[longest], abs=0.005)
    assert float(said[3]) == pytest.approx(100.0 * values[longest] / values["R (ms)"], abs=0.5)
    assert f"{said[4].capitalize()} (ms)" == longest


@pytest.mark.parametrize(
    ("station", "longest", "said", "short"),
    [
        (
            "readers",
            "queue",
            "A request is longest in stage queue, 90 % of its time, which agrees.",
            "in stage queue, agrees",
        ),
        ("readers", "backend", "does not agree: another place may limit.", "in stage backend, does not agree"),
        (
            "proxy CPU quotas",
            "queue",
            "in stage queue, 90 % of its time.",
            "in stage queue, tells nothing: any part could",
        ),
        ("", "outside", "outside of the proxy, 90 % of its time.", "outside of the proxy"),
    ],
)
def test_the_longest_part_of_a_trace_speaks_for_its_station_or_against_it(
    station: str, longest: str, said: str, short: str
) -> None:
    stages = dict.fromkeys(("read", "dispatch", "queue", "send", "backend", "reply"), 0.0)
    if longest in stages:
        stages[longest] = 0.009
    cell: Any = SimpleNamespace(mean_response_s=0.01, runs=[SimpleNamespace(stages_s=lambda: stages)])
    if longest == "outside":
        stages["queue"] = 0.001
    found = in_trace(cell, station, "")
    assert found.text.endswith(said)
    # A trace's clients are always the same: it is a share of the time there, and of no growth.
    assert found.short == f"90 % of its time {short}"
    cell.runs = [SimpleNamespace(stages_s=lambda: None)]
    assert "No stamp tells" in in_trace(cell, station, "").text


def test_what_captions_have_in_common_is_said_once_on_a_page_and_whole_in_markdown(report: Report) -> None:
    """S3's page had 3,700 words of captions that stood above word by word."""
    page, text = html_page(report), markdown_page(report)
    captions = re.findall(r"<(?:fig)?caption>(.*?)</(?:fig)?caption>", page, re.DOTALL)
    parts = [re.split(r"(?<=[.!?]) (?=[A-Z“])", caption) for caption in captions]
    assert not any(first.startswith("<a") for first, *_ in parts)
    # The name of a figure went with a sentence behind it, and all that followed on the page was bold.
    assert all(re.match(r"<b>Figure \d+\. [^<]+\.</b> ", caption) for caption in captions if caption.startswith("<b>"))
    assert page.count("<b>") == page.count("</b>")
    said = [one for _, *others in parts for one in others if len(one.split()) >= 10]
    assert len(said) == len(set(said)) > 20
    targets = re.findall(r'<a href="#([^"]+)">The rest as above\.</a>', page)
    assert targets
    assert all(page.count(f' id="{one}"') == 1 for one in targets)
    # Each figure still ends with the link to its data.
    assert all(caption.rstrip().endswith("</a>") for caption in captions if caption.startswith("<b>Figure"))
    whole = [one.caption for section in report.sections for one in section.blocks if isinstance(one, Table)]
    assert all(one in text for one in whole)


def test_a_figure_keeps_its_name_where_what_follows_is_said_above() -> None:
    """The name ends with its own full stop, and went with the sentence behind it: all that followed on the page was bold."""
    said = "Differences of neighbouring means of all the levels, drawn between the two."
    figures = "".join(
        f'<figure id="fig-{name}"><svg></svg><figcaption><b>Figure {number}. Rate of change.</b> {said} Redraws Figure {number}. '
        f'<a href="{name}.csv">Data (CSV)</a></figcaption></figure>'
        for number, name in enumerate(("a", "b"), start=1)
    )
    first, second = re.findall(r"<figcaption>(.*?)</figcaption>", _said_once(figures))
    assert first == f'<b>Figure 1. Rate of change.</b> {said} Redraws Figure 1. <a href="a.csv">Data (CSV)</a>'
    assert second == (
        '<b>Figure 2. Rate of change.</b> Redraws Figure 2. <a href="#fig-a">The rest as above.</a> <a href="b.csv">Data (CSV)</a>'
    )
