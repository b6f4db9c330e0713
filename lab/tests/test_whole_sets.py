"""The sets of the five studies and our own: complete against the printed tables, and able to be planned at every pace."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from synthetic_whole import Truth, write_whole
from synthetic_whole import testbed as a_testbed
from weir_lab.bench.sweep.run import Wanted
from weir_lab.bench.sweep.sets import Part, part_of, parts_named, plan_parts, take_files
from weir_lab.bench.testbeds import TestbedKind
from weir_lab.cli import app
from weir_lab.design import Kind, Settings, cells_of, content_sha256, load_study, parse_study, schedule
from weir_lab.design.topology import Links
from weir_lab.design.whole.sets import (
    Built,
    Claim,
    ExpectedCurve,
    Hypothesis,
    Lack,
    More,
    OwnStop,
    Ruled,
    SectionSpec,
    StudySet,
    known_sets,
    load_set,
)
from weir_lab.design.whole.variants import with_event_engine
from weir_lab.errors import StudyError
from weir_lab.report.common import marked_as_in
from weir_lab.report.numbers.published import TIMES_OVER_CLIENTS, printed_maxima
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Usage, bottleneck, link_bounds
from weir_lab.report.numbers.sweeps import TwoLevelFactor
from weir_lab.report.oracles import read_table
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel, draw
from weir_lab.report.sections.claims import RULES, confirming, rules
from weir_lab.report.sections.claims.asked import levels_of, response_of
from weir_lab.report.sections.claims.contrasts import ends_over, pairs_over

DATA = Path(__file__).parent / "data" / "whole"
STUDIES = Path(__file__).parents[2] / "studies"
SETS = ["s1", "s2", "s3", "s4", "s5"]
DESIGNS = list(csv.DictReader((Path(__file__).parent / "oracles" / "experiments.csv").read_text().splitlines()))
# What each figure of the studies shows, read from their captions and texts. Those of S4 have no numbers.
CAPTIONS = list(csv.DictReader((Path(__file__).parent / "oracles" / "figures.csv").read_text().splitlines()))
# Which of our figures can show what; what nobody can redraw (drawings, other experiments) is `none`.
SHOWN_BY = {
    "throughput": {"throughput"},
    "both": {"throughput", "response"},
    "response": {
        *("response", "response-get", "response-set", "scalability", "percentiles", "percentiles-get"),
        *("response-proxy", "scalability-proxy", "deviation"),
    },
    "percentiles": {"percentiles", "percentiles-proxy", "gets"},
    "proxy": {"proxy"},
    "queue-service": {"queue-service"},
    "queue-length": {"queue-length"},
    "stages": {"stages"},
    "stage-histograms": {"stage-histograms"},
    "histograms": {"histograms"},
    "slope": {"slope"},
    "sides": {"sides"},
    "relative": {"relative", "relative-proxy"},
    "scalability": {"scalability", "scalability-proxy"},
    "trace": {"trace", "trace1", "trace1-10s", "local", "nomw"},
    "split": {"throughput", "gets", "stages"},
    "diagram": {"diagram"},
}


# Rules that take a `response`.
OF_RESPONSES = {"slower_with", "faster_with", "same_with", "change_within", "stronger_with", "dips_at"}


@pytest.mark.parametrize("name", SETS)
def test_a_set_has_every_design_of_its_study_with_its_engine(name: str) -> None:
    study_set = load_set(STUDIES / f"{name}.set.toml")
    wanted = {row["id"].lower() + ".toml" for row in DESIGNS if row["study"] == name.upper()}
    # The same hour in windows of 10 s is looked at, not run again.
    again = {"s2-trace10.toml"} if any(section.windows_s == [1, 10] for section in study_set.sections) else set()
    # What the study did not have is ours, and has no conclusion of the study.
    ours = {file for file in study_set.designs if load_study(STUDIES / file).source == "Weir"}
    assert ours == {"s1": {"s1-control.toml"}, "s2": {"s2-price.toml"}}.get(name, set())
    assert not any(section.claims for section in study_set.sections if ours & set(section.files))
    assert set(study_set.designs) - ours | again == wanted
    assert study_set.published == name.upper()
    for file in study_set.designs:
        study = load_study(STUDIES / file)
        if study.kind.runs_load and (study.fixed | study.factors)["path"] in ("proxy", ["direct", "proxy"]):
            assert study.fixed["engine"] == study_set.engine == {"s3": "pool", "s5": "pool"}.get(name, "split")
    assert sum(section.beside for section in study_set.sections) == 1


def test_no_hour_of_a_night_goes_to_a_trace_of_another_engine() -> None:
    study_set = load_set(STUDIES / "s2.set.toml")
    assert study_set.engines_beside("s2-trace1.toml", "quick")
    assert not study_set.engines_beside("s2-trace1.toml", "night")
    assert load_set(STUDIES / "s1.set.toml").engines_beside("s1-max.toml", "night")


def numbers_in(text: str) -> set[int]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+) to (\d+)", text):
        found |= set(range(int(first), int(last) + 1))
    return found | {int(number) for number in re.findall(r"\d+", text)}


@pytest.mark.parametrize("name", ["s1", "s2", "s3", "s5"])
def test_every_figure_of_a_study_is_redrawn_where_it_shows_the_same(name: str) -> None:
    """S5's figures of the proxy and of the clients were exchanged, and S3's of reads and writes taken for throughput and time."""
    captions = {int(row["figure"]): row for row in CAPTIONS if row["study"] == name.upper()}
    found: set[tuple[int, str]] = set()
    for section in load_set(STUDIES / f"{name}.set.toml").sections:
        for ours, text in section.redraws.items():
            for number in numbers_in(text):
                row = captions[number]
                assert row["section"] == section.name, f"Figure {number} is of {row['section']}"
                assert ours in SHOWN_BY[row["shows"]], f"Figure {number} shows {row['shows']}, and {ours} does not"
                found.add((number, ours))
    assert {number for number, _ in found} == {number for number, row in captions.items() if row["shows"] != "none"}
    both = {number for number, row in captions.items() if row["shows"] == "both"}
    assert {(number, ours) for number in both for ours in ("throughput", "response")} <= found


@pytest.mark.parametrize("name", SETS)
def test_every_known_error_of_a_study_stands_in_a_section(name: str) -> None:
    study_set = load_set(STUDIES / f"{name}.set.toml")
    named = {place for section in study_set.sections for place in section.errors}
    assert named == {row["location"] for row in read_table("known_errors") if row["study"] == name.upper()}


@pytest.mark.parametrize(
    ("name", "assumed"),
    [
        # S5 prints 15 s for each of these parts, and none for its multi-gets; S3 prints 10 s in all, and not how they are split.
        *[(f"s5-{part}", False) for part in ("2.1", "2.2", "3.1", "3.2", "4", "6")],
        *[(part, True) for part in ("s5-5.1", "s5-5.2", "s3-5.2", "s3-5.4", "s3-4")],
    ],
)
def test_what_a_study_prints_is_not_marked_as_assumed(name: str, assumed: bool) -> None:
    """Warm-up and cool-down of S5 were, and the share of SETs among multi-gets, which both print as 1 to the number of keys."""
    marked = set(load_study(STUDIES / f"{name}.toml").assumed)
    assert {"warmup_s", "cooldown_s"} & marked == ({"warmup_s", "cooldown_s"} if assumed else set())
    assert "write_ratio" not in marked


def test_a_page_takes_what_is_assumed_from_the_study_file_of_today(tmp_path: Path) -> None:
    """Records keep the file as it was at the run, and their copy is not edited."""
    kept = load_study(STUDIES / "s5-4.toml")
    old = kept.model_copy(update={"assumed": ["warmup_s"]})
    assert marked_as_in(old, STUDIES / "s5-4.toml").assumed == kept.assumed
    assert marked_as_in(old, tmp_path / "none.toml") is old
    run = schedule(kept)[0]
    assert content_sha256(old, run, {}) == content_sha256(kept, run, {})


@pytest.mark.parametrize("name", ["s3", "s5"])
def test_no_conclusion_is_credited_to_a_study_that_did_not_draw_it(name: str) -> None:
    """Neither looked at the proxies' links, and S5 compared no sizes of multi-gets: such sentences are ours."""
    sections = {section.name: section for section in load_set(STUDIES / f"{name}.set.toml").sections}
    assert all("proxies' links" not in one.claim for one in sections["full-system"].claims)
    ours = {one.name: one for one in sections["full-system"].hypotheses if one.from_ == "ours"}
    limit = ours[f"{name}-h-full-limit"]
    assert limit.rule == "not_reaches"
    assert limit.study_found
    pays = [one.name for one in sections["multigets"].claims if one.rule == "sharding_pays"]
    assert pays == {"s3": ["s3-sharding"], "s5": []}[name]


@pytest.mark.parametrize("name", known_sets(STUDIES))
def test_claims_have_rules_and_settings_and_printed_tables_can_be_read(name: str) -> None:
    study_set = load_set(STUDIES / f"{name}.set.toml")
    claims: list[Ruled] = [claim for section in study_set.sections for claim in section.claims]
    assert claims
    claims += [one for section in study_set.sections for one in section.hypotheses if not one.why_not]
    assert len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.rule in RULES
        if claim.rule in OF_RESPONSES:
            response_of(claim)
        assert set(claim.at) <= set(Settings.model_fields)
    for section in study_set.sections:
        for source in section.published:
            printed = printed_maxima(study_set.published, source)
            assert bool(printed) == (source.table != TIMES_OVER_CLIENTS)
            # A table without notes gave "432 clients, None".
            assert not any("None" in one.where for one in printed)


def planned(files: list[str]) -> list[CellReadings]:
    """The cells that a night makes, each with one run of which only its folder is known."""
    found = []
    for file in files:
        run: Any = SimpleNamespace(run=SimpleNamespace(folder=Path(file) / "runs" / "one"))
        found += [CellReadings(cell, (run,)) for cell in cells_of(load_study(STUDIES / file, "night"))]
    return found


@pytest.mark.parametrize("name", known_sets(STUDIES))
def test_what_is_asked_can_be_answered_by_the_cells_that_a_night_makes(name: str) -> None:
    for section in load_set(STUDIES / f"{name}.set.toml").sections:
        every = planned(section.files)
        asked: list[Ruled] = [*section.claims, *(one for one in section.hypotheses if one.rule)]
        for one in asked:
            cells = [
                cell
                for cell in every
                if all(getattr(cell.settings, setting) == level for setting, level in one.at.items())
            ]
            assert cells, one.name
            if one.rule == "stronger_with":
                assert ends_over(cells, str(one.args["factor"]), str(one.args["by"])), one.name
            elif "from" in one.args:
                assert pairs_over(cells, str(one.args["factor"]), one.args["from"], one.args["to"]), one.name
            elif "factor" in one.args:
                levels = levels_of(one, cells)
                assert len(levels) > 1, one.name
                for end in ("low", "high"):
                    assert one.args.get(end, levels[0]) in levels, one.name
                assert pairs_over(cells, str(one.args["factor"]), levels[0], levels[-1]), one.name
                assert one.rule != "dips_at" or one.args["at_level"] in levels[1:-1], one.name
            elif one.rule == "saturates_at":
                clients = {cell.settings.clients for cell in cells}
                low, high = float(one.args["low"]), float(one.args["high"])
                assert any(level < low for level in clients), one.name
                assert any(low <= level <= high for level in clients), one.name
        for more in section.more:
            changed: Any = SimpleNamespace(cells=planned([more.file]))
            task: Any = SimpleNamespace(sweeps=[SimpleNamespace(cells=every)])
            assert confirming.pairs_of(more, task, changed), (section.name, more.changes)
            assert set(more.at) <= set(Settings.model_fields)
        drawn = {curve.figure for one in section.hypotheses for curve in one.expected}
        assert drawn <= set(section.redraws), "an expected curve belongs to a figure of the study"


def test_a_file_without_a_network_that_no_section_has_is_a_fault(tmp_path: Path) -> None:
    text = (STUDIES / "s2.set.toml").read_text()
    (tmp_path / "s2.set.toml").write_text(text.replace('without_network = ["s2-local', 'without_network = ["s2-locale'))
    with pytest.raises(StudyError, match=r"s2-locale\.toml stands in no section"):
        load_set(tmp_path / "s2.set.toml")


@pytest.mark.parametrize("pace", ["quick", "standard"])
@pytest.mark.parametrize("name", known_sets(STUDIES))
def test_parts_are_whole_sweeps_and_together_everything(name: str, pace: str, tmp_path: Path) -> None:
    study_set = take_files(STUDIES / f"{name}.set.toml", tmp_path)
    parts = plan_parts(study_set, tmp_path, pace)
    assert [part.file for part in parts if not part.event] == study_set.planned(pace)
    shares: list[list[Part]] = []
    number = 1
    while sum(len(share) for share in shares) < len(parts):
        shares.append(part_of(parts, number, 1200.0))
        number += 1
    assert [part for share in shares for part in share] == parts
    assert all(len(share) == 1 or sum(part.seconds for part in share) <= 1200.0 for share in shares)
    with pytest.raises(StudyError, match="parts 1 to"):
        part_of(parts, number, 1200.0)
    alone = {part.file for part in parts if part.wanted(Wanted(testbed=TestbedKind.NETNS)).testbed is TestbedKind.LOCAL}
    assert alone == ({"s2-local.toml"} if name == "s2" else set())
    events = [part for part in parts if part.event]
    assert (len(events) == 0) == (study_set.engine == "event")


def test_sweeps_are_taken_by_their_names_and_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    parts = plan_parts(take_files(STUDIES / "s3.set.toml", tmp_path), tmp_path, "quick")
    assert [part.name for part in parts_named(parts, "s3-4-event, s3-2.1")] == ["s3-2.1", "s3-4-event"]
    with pytest.raises(StudyError, match=r"there is no s3-9 here\. There are: s3-2\.1, s3-2\.2, "):
        parts_named(parts, "s3-2.1,s3-9")


def test_a_list_writes_nothing_and_says_what_is_left(tmp_path: Path) -> None:
    """The list copied the study files into the folder, and did not say what was there."""
    root = tmp_path / "root"
    asked = ["study", "small", "--list", "--studies", str(DATA), "--out", str(root)]
    before = CliRunner().invoke(app, asked)
    assert before.exit_code == 0, before.output
    assert not root.exists()
    lines = before.output.splitlines()
    assert all(re.search(r"  0 of \d+ runs? made$", line) for line in lines[:-1])
    assert re.fullmatch(r"in all (.+) or more, of which about \1 are left", lines[-1])
    write_whole(root, take_files(DATA / "small.set.toml", root), Truth())
    kept = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    after = CliRunner().invoke(app, asked).output.splitlines()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == kept
    made = [re.search(r"(\d+) of (\d+) runs? made$", line) for line in after[:-1]]
    assert any(found and int(found[1]) == int(found[2]) > 0 for found in made)
    assert after[-1] != lines[-1]


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(STUDIES.glob("s[1-5]-*.toml")) if not re.search("-(more|fewer)-", file.name)],
    ids=lambda file: str(file.stem),
)
def test_the_sibling_with_the_event_engine_is_a_sound_study(file: Path) -> None:
    text = file.read_text()
    sibling = with_event_engine(text)
    original = load_study(file)
    if original.kind in (Kind.HASH, Kind.LINKS) or original.fixed.get("path") == "direct":
        assert sibling is None
        return
    assert sibling is not None
    study = parse_study(sibling, "quick")
    assert study.name == f"{original.name}-event"
    assert study.fixed["engine"] == "event"
    assert study.plan.seed == original.plan.seed
    assert not {"workers", "readers"} & (study.fixed.keys() | study.factors.keys())
    assert with_event_engine(sibling) is None


@pytest.mark.parametrize(
    "row", read_table("recomputed_bandwidth_bounds"), ids=lambda row: "-".join(list(row.values())[:5])
)
def test_link_bounds_are_those_that_were_recomputed(row: dict[str, str]) -> None:
    servers, proxies = int(row["servers"]), int(row["middlewares"])
    settings = Settings(
        path="proxy" if proxies else "direct", clients=12, depth=1, keys=1, value_size_bytes=4096,
        write_ratio=1.0 if row["workload"] == "write" else 0.0, client_threads=1, proxy_threads=1, servers=servers, server_threads=1,
        server_memory_mib=64, client_machines=int(row["client_machines"]), proxies=max(1, proxies),
        replicas=servers if proxies else 1,
    )  # fmt: skip
    found = {bound.tier: bound.requests_per_s for bound in link_bounds(settings, Links())}
    for column, tier in (("client_uplinks_ops_s", "client uplinks"), ("middleware_uplinks_ops_s", "proxy uplinks")):
        if row[column]:
            assert found[tier] == pytest.approx(float(row[column]), rel=1e-9)
    assert min(found.values()) == pytest.approx(float(row["bound_ops_s"]), rel=1e-9)
    assert a_testbed(settings).machines


def test_a_full_link_explains_full_workers_and_not_the_other_way_round() -> None:
    link, workers = Usage("server uplinks", 0.95, "payload"), Usage("workers", 0.99, "held", holds=True)
    both = bottleneck([workers, link], queue_grows=True)
    assert both.station == "server uplinks"
    assert "the workers are held by them" in both.sentence
    assert bottleneck([workers], queue_grows=None).station == "workers"
    quota = Usage("memcached CPU quotas", link.share + 0.004, "CPU time")
    alike = bottleneck([quota, link, workers], queue_grows=None)
    assert (alike.station, alike.alike) == ("memcached CPU quotas", "server uplinks")
    assert alike.named == "memcached CPU quotas and the server uplinks"
    assert alike.sentence.startswith(f"The {alike.named} limit: ")
    assert "Next are" not in alike.sentence
    fuller = bottleneck([Usage("memcached CPU quotas", link.share + 0.03, "CPU time"), link], queue_grows=None)
    assert (fuller.alike, fuller.named) == ("", "memcached CPU quotas")
    # What strangers use, too, is named only where nothing of the system's own is full.
    machine = Usage("CPUs of this machine", 0.99, "anyone", shared=True)
    assert bottleneck([machine, link], queue_grows=None).station == "server uplinks"
    assert "CPUs of this machine were 99 % busy, too" in bottleneck([machine, link], queue_grows=None).sentence
    assert bottleneck([machine, workers], queue_grows=None).station == "CPUs of this machine"
    strangers = Usage("CPUs of this machine", 0.95, "anyone", shared=True, others=0.92)
    assert bottleneck([strangers], queue_grows=None).sentence == (
        "The CPUs of this machine limit: 95 % used, 92 % by other programs: this is not the limit of the system itself."
    )
    assert bottleneck([Usage("workers", 0.4, "held", holds=True)], queue_grows=False).station == ""


def test_a_chart_tells_each_value_and_keeps_its_ticks_apart() -> None:
    marks = tuple(Mark(float(x), 10.0 * x, 9.0 * x, 11.0 * x, "3 runs") for x in (1, 2, 4, 100, 101, 102))
    panel = Panel(
        "a < b",
        Axis("Clients (connections)", ticks=tuple(mark.x for mark in marks)),
        Axis("Rate (requests/s)"),
        (Line("line", marks, LOOKS[0]),),
    )
    drawn = draw(panel, "a chart")
    assert "<title>line, clients 100: 1,000 (900 to 1,100), 3 runs</title>" in drawn
    assert "a &lt; b" in drawn
    below = re.search(r'<g class="nx"[^>]*>(.*?)</g>', drawn)
    assert below is not None
    shown = re.findall(r'<text x="([0-9.]+)">([0-9,]+)<', below[1])
    places = [float(x) for x, _ in shown]
    assert len(places) < len(marks)
    assert all(right - left > 15.0 for left, right in itertools.pairwise(places))
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(Panel("empty", Axis("x"), Axis("y")), "empty")


def test_every_key_of_a_set_is_documented_and_no_other() -> None:
    page = (STUDIES.parent / "docs" / "measure" / "whole-studies.md").read_text()
    keys_of_a_set, _, conclusions = page.partition("## What the page decides by rule")
    rows = [row.split(" | ")[0] for row in keys_of_a_set.splitlines() if row.startswith("| `")]
    documented = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}
    models = (StudySet, SectionSpec, Claim, Hypothesis, ExpectedCurve, More, Lack, Built, OwnStop)
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert documented == keys - {"sections", "claims", "hypotheses", "more", "lacks", "built"}
    rows = [row.split(" | ")[0] for row in conclusions.splitlines() if row.startswith("| `")]
    assert {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)} == set(RULES)


def test_all_quick_studies_are_planned_to_fit_into_an_hour_and_a_half(tmp_path: Path) -> None:
    seconds = 0.0
    for name in known_sets(STUDIES):
        parts = plan_parts(take_files(STUDIES / f"{name}.set.toml", tmp_path / name), tmp_path / name, "quick")
        seconds += sum(part.seconds for part in parts)
        assert max(part.seconds for part in parts) < 20 * 60.0
    # What plans count beside the phases is more than most runs take; three minutes are left for reports and retries.
    assert seconds < 87 * 60.0


def test_names_of_ticks_differ_and_do_not_touch_the_label_of_their_axis() -> None:
    marks = tuple(Mark(float(x), 1e-5 * x) for x in range(1, 6))
    small = draw(Panel("slopes", Axis("clients"), Axis("dR/dN"), (Line("one", marks, LOOKS[0]),)), "slopes")
    marks = tuple(Mark(float(x), 1e6 * x) for x in range(1, 6))
    large = draw(Panel("rates", Axis("clients"), Axis("rate"), (Line("one", marks, LOOKS[0]),)), "rates")
    for picture in (small, large):
        found = re.search(r'<g class="ny" transform="translate\(([0-9.]+) [0-9.]+\)">(.*?)</g>', picture)
        assert found is not None
        names = re.findall(r">([^<]+)</text>", found[2])
        assert len(set(names)) == len(names) > 3
        # A digit is about 6 wide, and the label's line ends at 20.
        assert all(float(found[1]) - 6.0 * len(name) > 20.0 for name in names)


@pytest.mark.parametrize(("term", "letters"), [("proxies", "A"), ("servers x proxies", "AB"), ("workers", "")])
def test_the_x_of_proxies_is_no_sign_between_two_factors(term: str, letters: str) -> None:
    factors = (TwoLevelFactor("A", "proxies", 1, 2, ()), TwoLevelFactor("B", "servers", 1, 3, ()))
    claim: Any = SimpleNamespace(args={"term": term})
    design: Any = SimpleNamespace(factors=factors)
    assert rules._term(claim, design) == letters
