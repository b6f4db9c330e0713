"""The 34 designs of the earlier studies, held against the table of what those studies printed."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path

import pytest

from weir_lab.bench.planning import doubts, estimate, plan_lines, shape_of
from weir_lab.bench.programs.subjects import Abilities, refusals
from weir_lab.cli.studies import next_step
from weir_lab.design import Engine, Kind, Study, cells_of, load_study, parse_study
from weir_lab.design.whole.sets import load_set
from weir_lab.report.sections.comparisons.maxima import but_clients

STUDIES = Path(__file__).parents[2] / "studies"
TABLE = Path(__file__).parent / "oracles" / "experiments.csv"
ROWS = {row["id"]: row for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())}
COLUMNS = {
    "servers": "servers",
    "total_clients": "clients",
    "keys_per_get": "multiget_keys",
    "value_bytes": "value_size_bytes",
}
ALL_FLAGS = frozenset({"--engine", "--workers", "--readers", "--crew", "--replicas", "--multiget", "--placement"})


def study_of(row_id: str) -> Study:
    """The study as it is written: the levels and lengths of the earlier one."""
    text = (STUDIES / f"{row_id.lower()}.toml").read_text(encoding="utf-8")
    assert '\npace = "quick"\n' in text
    return parse_study(text.replace('\npace = "quick"\n', "\n"))


def numbers(text: str) -> list[float]:
    """``1 36 72``, or ``4..128 step 4``."""
    steps = re.fullmatch(r"(\d+)\.\.(\d+) step (\d+)", text)
    if steps:
        first, last, step = map(int, steps.groups())
        return [float(value) for value in range(first, last + 1, step)]
    return [float(word) for word in text.split() if re.fullmatch(r"[0-9.]+", word)]


def levels(study: Study, name: str) -> list[float]:
    return sorted({float(getattr(cell.settings, name)) for cell in cells_of(study)})


@pytest.mark.parametrize("file", sorted(STUDIES.glob("*.toml")), ids=lambda file: str(file.stem))
def test_every_study_of_a_crew_lets_all_of_it_serve(file: Path) -> None:
    """With adaptive crews 64 workers had 8 to 13 at work: the factor was not the number of workers."""
    if file.name.endswith(".set.toml"):
        return
    for pace in (None, "night"):
        for cell in cells_of(load_study(file, pace)):
            threaded = cell.settings.engine in (Engine.POOL, Engine.SPLIT) and cell.settings.path.value == "proxy"
            assert not threaded or cell.settings.crew == "fixed", cell.name


def loaded_over_links(name: str) -> list[Study]:
    """Designs of one study that load machines with links, at the pace night; what placing a key costs is a matter of this machine."""
    found = load_set(STUDIES / f"{name}.set.toml")
    files = [file for file in found.designs if file not in found.without_network]
    studies = [load_study(STUDIES / file, "night") for file in files]
    return [study for study in studies if study.kind in (Kind.LOAD, Kind.TRACE)]


@pytest.mark.parametrize("name", ["s1", "s2", "s3", "s4", "s5"])
def test_all_designs_of_a_study_have_the_same_machines_and_these_fit_two_cores(name: str) -> None:
    studies = loaded_over_links(name)
    machines = {study.topology.model_dump_json() for study in studies}
    assert len(machines) == 1, "one speed, one kind of machine"
    topology = studies[0].topology
    assert topology.speed < 1.0
    for study in studies:
        topology.require_room(shape_of(cells_of(study)), 2)
        assert all(topology.cpus(machine) for machine in shape_of(cells_of(study)).machines)
        assert "topology.cpu" in study.assumed
        assert ("topology.links" in study.assumed) == (name != "s5"), "only S5 measured links"


@pytest.mark.parametrize("name", ["s1", "s2", "s3", "s4", "s5"])
def test_a_confirming_run_changes_the_named_station_alone_and_all_of_them_fit_into_half_an_hour(name: str) -> None:
    found = load_set(STUDIES / f"{name}.set.toml")
    usual = loaded_over_links(name)[0].topology.model_dump()
    seconds = 0.0
    for file in found.confirming:
        study = load_study(STUDIES / file, "night")
        changes = {one.changes: one for section in found.sections for one in section.more if one.file == file}
        assert len(changes) == 1, "one station"
        ((station, more),) = changes.items()
        tier, _, what = station.partition(" ")
        where = {
            "uplinks": ("links", f"{tier}_mbit_s"),
            "CPU quotas": ("cpu", {"memcached": "server"}.get(tier, tier)),
        }.get(what)
        assert (where is None) == (more.setting == station)
        wanted = {name: dict(part) if isinstance(part, dict) else part for name, part in usual.items()}
        if where is not None:
            wanted[where[0]][where[1]] *= more.times
        assert study.topology.model_dump() == wanted
        study.topology.require_room(shape_of(cells_of(study)), 2)
        assert study.source == "Weir"
        assert len(cells_of(study)) <= 4
        plan = study.plan.night
        assert plan is not None
        seconds += estimate(study).seconds_min * (plan.headline_runs + 1)
    # Four runs of each cell: half an hour for all five studies, of which S1, S2 and S4 need less than a fifth each.
    assert 0.0 < seconds <= (560.0 if name in ("s3", "s5") else 320.0)


@pytest.mark.parametrize("name", ["s3", "s5"])
def test_fewer_clients_stand_beside_the_fewest_of_every_curve_of_reads(name: str) -> None:
    found = load_set(STUDIES / f"{name}.set.toml")
    for spec in [one for one in found.sections if one.fewer]:
        (file,), curve = spec.fewer, load_study(STUDIES / spec.files[0], "night")
        added = load_study(STUDIES / file, "night")
        assert (added.source, added.topology.model_dump()) == ("Weir", curve.topology.model_dump())
        fewest = int(min(levels(curve, "clients")))
        reads = [cell.settings for cell in cells_of(curve) if cell.settings.write_ratio == 0.0]
        series = {json.dumps(but_clients(one)): one for one in reads if one.clients == fewest}
        assert len(series) == (1 if curve.fixed["path"] == "direct" else 4)
        for wanted in series:
            beside = [one.settings for one in cells_of(added) if json.dumps(but_clients(one.settings)) == wanted]
            assert fewest in [one.clients for one in beside]
            # Within a factor of four.
            assert any(fewest / 4 <= one.clients < fewest for one in beside)
        assert estimate(added).seconds_min <= 300.0
    assert set(found.files) - set(found.planned("quick")) == {f"{name}-fewer-clients.toml"}
    assert found.planned("night") == found.files


@pytest.mark.parametrize("name", ["s1-trace", "s1-control", "s2-trace1", "s2-nomw"])
def test_a_trace_of_a_night_is_an_hour_and_is_tried_once(name: str) -> None:
    plan = load_study(STUDIES / f"{name}.toml", "night").plan
    assert (plan.measured_s, plan.window_s, plan.repetitions, plan.attempts) == (3600.0, 1, 1, 1)


@pytest.mark.parametrize("name", ["s1-max", "s4-max1"])
def test_a_night_measures_on_both_sides_of_the_knee(name: str) -> None:
    study = load_study(STUDIES / f"{name}.toml", "night")
    written = study_of(name.upper()[:2] + name[2:])
    clients = sorted(levels(study, "clients"))
    assert set(levels(written, "clients")) < set(clients)
    # The proxy's CPUs answer some 10,000 to 20,000/s, and a request without waiting takes 1.4 ms.
    assert clients[0] < 0.5 * 10_000 * 1.4e-3 < 2.0 * 20_000 * 1.4e-3 < clients[-1]
    small = [one for one in clients if one <= 72]
    assert all(after <= 4 * before for before, after in itertools.pairwise(small))


@pytest.mark.parametrize("row_id", ROWS)
def test_a_design_has_the_levels_that_were_printed(row_id: str) -> None:
    row, study = ROWS[row_id], study_of(row_id)
    assert study.source == row_id
    for column, name in COLUMNS.items():
        if row[column] and name not in study.assumed:
            assert levels(study, name) == sorted(set(numbers(row[column]))), column
    if row["thread_levels"]:
        threads = "workers" if row["thread_scope"] == "per middleware" else "readers"
        assert levels(study, threads) == numbers(row["thread_levels"])
    if row["middlewares"] and "proxies" not in study.assumed:
        expected = numbers(row["middlewares"])
        assert (levels(study, "proxies") if expected != [0.0] else [0.0]) == expected
        assert {cell.settings.path.value for cell in cells_of(study)} == (
            {"direct"} if expected == [0.0] else {"proxy"}
        )
    if row["write_percent"] and not row["multiget"].endswith("sharded") and "write_ratio" not in study.assumed:
        assert levels(study, "write_ratio") == [value / 100 for value in numbers(row["write_percent"])]


@pytest.mark.parametrize("row_id", ROWS)
def test_a_design_has_the_replicas_that_were_printed(row_id: str) -> None:
    row = ROWS[row_id]
    if not row["replication"]:
        return
    for cell in cells_of(study_of(row_id)):
        servers = cell.settings.servers
        allowed = {"1": 1, "3": 3, "ceil(S/2)": -(-servers // 2), "S": servers, "all": servers}
        assert cell.settings.replicas in {allowed[word] for word in row["replication"].split()}


@pytest.mark.parametrize("row_id", ROWS)
def test_a_design_has_the_lengths_and_repetitions_that_were_printed(row_id: str) -> None:
    row, study = ROWS[row_id], study_of(row_id)
    plan = study.plan
    if row["duration_s"] and study.kind is not Kind.HASH:
        assert plan.warmup_s + plan.measured_s + plan.cooldown_s == float(row["duration_s"])
        assert (plan.warmup_s, plan.cooldown_s) == (float(row["warmup_s"] or 0), float(row["cooldown_s"] or 0))
    if row["repetitions"] and row["repetitions"] != "1+" and "repetitions" not in study.assumed:
        assert plan.repetitions == int(row["repetitions"])
    assert (plan.stop is not None) == ("interval" in row["stop_rule"] or "first run" in row["stop_rule"])


@pytest.mark.parametrize("pace", ["quick", "standard", "full"])
@pytest.mark.parametrize("row_id", ROWS)
def test_a_plan_can_be_made_at_every_pace(row_id: str, pace: str) -> None:
    study = load_study(STUDIES / f"{row_id.lower()}.toml", pace)
    plan, effort = study.plan, estimate(study)
    lines = plan_lines(study, [])
    assert any(line.startswith(f"cells ({effort.cells}):") for line in lines)
    assert not any("evict" in doubt for doubt in doubts(study))
    assert all(len(levels) <= 4 for levels in study.factors.values()) or pace != "quick"
    alone = study.kind in (Kind.TRACE, Kind.LINKS)
    if pace == "quick":
        assert plan.measured_s <= (60 if alone else 5)
        assert plan.stop is None
        assert plan.repetitions == (1 if alone else 3) or study.kind is Kind.HASH
    elif study.kind.runs_load and not alone:
        assert plan.repetitions == (10 if study.headline and pace == "full" else 5)
        assert plan.stop is not None
    if pace == "full":
        assert plan.measured_s == study_of(row_id).plan.measured_s


def test_there_is_a_study_for_every_design_and_each_says_which() -> None:
    files = [file for file in sorted(STUDIES.glob("s[1-5]-*.toml")) if not re.search("-(more|fewer)-", file.name)]
    sources = [load_study(file).source for file in files]
    # What is ours says so.
    assert sorted(map(str, sources)) == sorted([*ROWS, "Weir", "Weir"])
    assert len(ROWS) == 34


def test_an_engine_that_a_binary_does_not_have_is_refused_and_one_that_it_has_is_not() -> None:
    study = study_of("S3-3.1")
    settings = [cell.settings for cell in cells_of(study)]
    without = Abilities(ALL_FLAGS, frozenset({Engine.EVENT}))
    assert refusals(study, settings, without) == [
        "this weir has no engine pool: build one that has (weir proxy --help lists them)"
    ]
    assert refusals(study, settings, Abilities(ALL_FLAGS, frozenset(Engine))) == []
    few = Abilities(ALL_FLAGS - {"--placement"}, frozenset(Engine))
    assert refusals(study, settings, few) == [
        "this weir has no --placement, which placement asks for: build one that has"
    ]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("s2-hash", "weir-lab extend runs/x N"),
        ("s5-iperf", "weir-lab links FOLDER --study runs/x/study.toml"),
        ("s5-2.1", "weir-lab report runs/x"),
    ],
)
def test_what_can_be_done_next_is_something_that_the_kind_of_study_has(name: str, named: str) -> None:
    study = load_study(STUDIES / f"{name}.toml", "quick")
    said = next_step(study, Path("runs/x"))
    assert named in said
    assert "runs/x/summary.csv" in said
    assert "weir-lab report runs/x" in said
    with_page = next_step(study, Path("runs/x"), paged=True)
    assert "runs/x/summary.csv" in with_page
    assert "weir-lab report" not in with_page


@pytest.mark.parametrize("name", ["predict-link", "predict-workers"])
def test_a_study_for_a_held_out_prediction_reaches_both_sides_of_its_knee(name: str) -> None:
    study = load_study(STUDIES / f"{name}.toml", "standard")
    settings = [cell.settings for cell in cells_of(study)]
    # At most as fast as the link, or as a pool that needs 20 µs of its 0.4 CPUs per request: less than any was seen to need.
    fastest = 101e6 / 8 / 4096 if name == "predict-link" else 0.4 / 20e-6
    knee = fastest * (settings[0].think_time_s + 1e-3)
    clients = [one.clients for one in settings]
    assert min(clients) < 0.25 * knee
    assert max(clients) > 2.0 * knee
    assert len(clients) >= 8
    assert not doubts(study)
