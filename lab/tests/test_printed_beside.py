"""What the studies printed stands beside ours, at their speed; links, network threads and sockets are as the records have them."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from synthetic import histogram_of
from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import Built, Claim, Lack, load_set
from weir_lab.errors import StudyError
from weir_lab.report.common import Task, binned, unit_of
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import SweepReadings, read_cells
from weir_lab.report.numbers.stations import bounds_of, usages
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Section, Table, Text, Value
from weir_lab.report.page.html import _lack, html_page, markdown_page
from weir_lab.report.printed_times import distribution_at, distributions_beside, stages_beside
from weir_lab.report.sections import effects, multigets, placement
from weir_lab.report.sections.claims import why
from weir_lab.report.sections.claims.family import Held, judge_set
from weir_lab.report.sections.effects import from_cell_means, outlying, unequal_spread
from weir_lab.report.sets import Sources, assemble
from weir_lab.theory.factorial import analyse_factorial

if TYPE_CHECKING:
    from weir_lab.theory.factorial import FactorialAnalysis

DATA = Path(__file__).parent / "data" / "whole"
SPLIT = """
schema = "weir.study/1"
name = "t-full"
title = "Settings that two studies printed"
question = "Where does the time go?"
hypothesis = "It goes where it went."
kind = "load"
[topology]
speed = 0.5
[fixed]
path = "proxy"
engine = "split"
servers = 5
client_machines = 3
keys = 1000
write_ratio = 0.0
[factors]
readers = [8, 32]
clients = [180, 288]
[plan]
repetitions = 2
warmup_s = 0.0
measured_s = 60.0
"""


def sweeps(root: Path, *names: str, text: str = "", truth: Truth | None = None) -> dict[str, SweepReadings]:
    """The named sweeps of the small study, and nothing else of it."""
    study_set = take_files(DATA / "small.set.toml", root)
    if text:
        (root / "studies" / "t-full.toml").write_text(text)
    left_out = tuple(set(study_set.files) - {f"{name}.toml" for name in names})
    write_whole(root, study_set, truth or Truth(), leave_out=left_out)
    return {name: read_cells(f"{name}.toml", root / name) for name in names}


def spec(name: str) -> object:
    return next(one for one in load_set(DATA / "small.set.toml").sections if one.name == name)


def numbers(entries: tuple[object, ...]) -> list[float]:
    return [one.value for one in entries if isinstance(one, Value)]


def test_stages_and_distributions_that_s1_and_s4_printed_stand_beside_ours(tmp_path: Path) -> None:
    sweep = sweeps(tmp_path, "t-full", text=SPLIT)["t-full"]
    stages = stages_beside(Task(spec("full"), (sweep,), (), "S1"), sweep.cells)  # type: ignore[arg-type]
    assert stages is not None
    rows = {row[0]: row for row in stages.rows}
    assert [row[0] for row in stages.rows] == ["dispatch", "queue", "send", "backend", "reply"]
    assert numbers(rows["backend"][2:3]) == [2.85]
    assert sum(numbers(tuple(row[3] for row in stages.rows))) == pytest.approx(100.0)
    assert sum(numbers(tuple(row[5] for row in stages.rows))) == pytest.approx(100.0, abs=0.5)
    cell = next(one for one in sweep.cells if (one.settings.readers, one.settings.clients) == (32, 180))
    ours = [found["queue"] for run in cell.runs if (found := run.stages_s("get")) is not None]
    assert numbers(rows["queue"][4:5])[0] == pytest.approx(1e3 * sweep.speed * sum(ours) / len(ours))
    assert "180 clients, 32 read threads, 5 servers" in stages.caption
    table = distributions_beside(Task(spec("full"), (sweep,), (), "S4"), sweep.cells)  # type: ignore[arg-type]
    assert table is not None
    # S4 printed 96 clients on each of three machines with both.
    assert {tuple(numbers(row[:5])) for row in table.rows} == {(5, 1, 0, 8, 288), (5, 1, 0, 32, 288)}
    few = [row for row in table.rows if numbers(row)[3] == 8.0]
    printed, own = ([numbers(row)[place] for row in few] for place in (6, 7))
    assert printed[:2] == [4.80, 23.31]
    assert own == sorted(own)
    times = next(one for one in sweep.cells if (one.settings.readers, one.settings.clients) == (8, 288)).merged(
        lambda run: run.times
    )
    assert times is not None
    half_ms = (times.percentile(50.0) or 0) / 1e6 * sweep.speed
    bounds = [numbers(row)[5] for row in few]
    assert all((share >= 49.0) == (bound >= half_ms) for bound, share in zip(bounds, own, strict=True))
    # The largest of noisy means is a cell that chance chose; S1 chose one itself.
    rising: Any = SimpleNamespace(shown=False, cell=sweep.cells[0])
    assert distribution_at(Task(spec("full"), (sweep,), (), "S1"), rising) == (cell, "S1's choice")  # type: ignore[arg-type]
    assert distribution_at(Task(spec("full"), (sweep,), (), "S4"), rising) == (sweep.cells[0], "the largest mean")  # type: ignore[arg-type]
    flat: Any = SimpleNamespace(shown=True, cell=sweep.cells[0])
    assert distribution_at(Task(spec("full"), (sweep,), (), "S1"), flat) == (sweep.cells[0], "the maximum")  # type: ignore[arg-type]
    assert stages_beside(Task(spec("full"), (sweep,), (), "S4"), sweep.cells) is None  # type: ignore[arg-type]
    assert distributions_beside(Task(spec("full"), (sweep,), (), "S1"), sweep.cells) is None  # type: ignore[arg-type]


def test_what_splitting_does_to_keys_and_tails_stands_beside_the_mean_and_beside_the_study(tmp_path: Path) -> None:
    found = sweeps(tmp_path, "t-sharded", "t-whole")
    section = next(one for one in load_set(DATA / "small.set.toml").sections if one.kind == "multigets")
    task = Task(section, tuple(found.values()), (), "S3")
    blocks = multigets.build(task)
    tables = {one.name: one for one in blocks if isinstance(one, Table)}
    changes = tables[f"{section.name}-changes"]
    assert changes.columns[1:] == ("mean of gets (%)", "keys per second (%)", "p90 of gets (%)", "p99 of gets (%)")
    at_most = max(changes.rows, key=lambda row: numbers(row)[0])
    # The truth makes whole gets dearer by the key: keys per second rise where the times fall.
    assert numbers(at_most)[2] > 0 > numbers(at_most)[4]
    assert isinstance(blocks[0], Text)
    for one in at_most[1:]:
        assert isinstance(one, Value)
        assert one.text in " ".join(blocks[0].points)
    # What splitting changes comes first; of both only the first sentence stands open.
    assert blocks[0].points[0].startswith(("Splitting", "The mean", "No difference"))
    assert "p90 of gets" not in blocks[0].leads[0]
    grows = blocks[0].points[1]
    assert grows.startswith(blocks[0].leads[1])
    assert "the mean response time of gets " in grows
    entries = [one for row in tables[f"{section.name}-comparison"].rows for one in row]
    levels = {one.text.partition(" ")[0] for one in entries if isinstance(one, Value)}
    assert set(re.findall(r"[\d.,]+(?= to | ms| times)", grows)) <= levels
    quoted = {(row[0], numbers(row)[0], row[2]): row for row in tables[f"{section.name}-quoted"].rows}
    assert numbers(quoted["sharded", 9.0, "hits (keys/s)"])[1] == 17500.0
    # What no link carries stood beside ours without a word, above a table that says so.
    known = section.model_copy(update={"errors": ["5.2.1", "5.4.1", "5.1"]})
    (table,) = [
        one
        for one in multigets.build(Task(known, tuple(found.values()), (), "S3"))
        if isinstance(one, Table) and one.name == f"{section.name}-quoted"
    ]
    flagged = {(row[0], numbers(row)[0]): str(row[5]) for row in table.rows if "more than links carry" in str(row[5])}
    assert set(flagged) <= {("sharded", 6.0), ("sharded", 9.0), ("whole", 9.0)}
    assert flagged["sharded", 9.0] == (
        "approx.; cannot be: more than links carry (5.2.1 among what was printed wrongly); right is at most 9.2k keys/s; half of them: "
        "7.2k and 8.75k"
    )


def leave_one_run(folder: Path, **levels: object) -> None:
    """Of the cells with these levels the first run alone is left."""
    for run in sorted((folder / "runs").iterdir()):
        meta = json.loads((run / "run.json").read_text())
        if meta["repetition"] > 1 and all(meta["levels"][name] == level for name, level in levels.items()):
            shutil.rmtree(run)


def answered(root: Path, section: str, rule: str, *names: str, **args: str | float) -> tuple[str, str]:
    """Verdict and evidence of one claim over these sweeps."""
    claim = Claim(name="x", claim="What the rule says.", rule=rule, at={}, args=args)
    found = tuple(read_cells(f"{name}.toml", root / name) for name in names)
    (answer,) = judge_set([Held(claim, Task(spec(section), found, (), ""))])  # type: ignore[arg-type]
    return answer.verdict, answer.evidence


def test_splitting_does_not_pay_at_every_size_where_one_of_them_has_a_single_run(tmp_path: Path) -> None:
    """A claim on sizes from three on rested on three and six alone, and said nothing of nine."""
    sweeps(tmp_path, "t-sharded", "t-whole")
    assert answered(tmp_path, "multigets", "sharding_pays", "t-sharded", "t-whole", keys=3)[0] == "holds"
    leave_one_run(tmp_path / "t-whole", multiget_keys=9)
    verdict, evidence = answered(tmp_path, "multigets", "sharding_pays", "t-sharded", "t-whole", keys=3)
    assert verdict == "cannot tell"
    assert "; nothing is known at 9 keys, where two runs are needed" in evidence
    assert "runs of each level" not in evidence


def test_what_is_the_same_at_some_levels_is_not_the_same_at_all(tmp_path: Path) -> None:
    sweeps(tmp_path, "t-full")
    same: dict[str, str | float] = {"factor": "clients", "low": 24, "response": "throughput", "percent": 99.0}
    assert answered(tmp_path, "full", "same_with", "t-full", **same)[0] == "holds"
    levels = {one.settings.clients for one in read_cells("t-full.toml", tmp_path / "t-full").cells}
    leave_one_run(tmp_path / "t-full", clients=max(levels))
    verdict, evidence = answered(tmp_path, "full", "same_with", "t-full", **same)
    assert verdict == "cannot tell"
    assert f"; nothing is known at {max(levels)}, where two runs are needed" in evidence


def test_printed_shares_of_response_times_stand_beside_those_of_the_place_that_the_study_measured(
    tmp_path: Path,
) -> None:
    """S5 took its response times in its middlewares, and its 47 % of the workers stood beside shares of the clients' times."""
    sweep = sweeps(tmp_path, "t-2k")["t-2k"]
    tables = {
        one.name: one
        for one in effects.build(Task(spec("effects"), (sweep,), (), "S5"))  # type: ignore[arg-type]
        if isinstance(one, Table)
    }
    place = tables["effects-writes-mean-response-time"].columns.index("Printed share (%)")
    printed = {
        response: [numbers(row[place : place + 1]) for row in tables[f"effects-writes-{response}"].rows]
        for response in ("throughput", "mean-response-time", "mean-time-in-the-proxies")
    }
    assert not any(printed["mean-response-time"])
    assert any(printed["throughput"])
    assert [47.4] in [[round(one, 1) for one in row] for row in printed["mean-time-in-the-proxies"]]
    assert "where the study took its response times" in tables["effects-writes-mean-time-in-the-proxies"].caption
    raw = tables["effects-writes-mean-time-in-the-proxies-runs"].rows[0]
    cell = next(
        one
        for one in sweep.cells
        if all(
            one.level(name) == level
            for name, level in {"write_ratio": 1.0, "servers": 1, "proxies": 1, "workers": 8}.items()
        )
    )
    assert numbers(raw)[:2] == pytest.approx([1e6 * (run.residence_s or 0.0) for run in cell.runs])


def test_keys_of_each_server_stand_beside_those_that_s3_counted(tmp_path: Path) -> None:
    text = (DATA / "t-hash.toml").read_text()
    ten = re.sub(r"servers = \[[^\]]*\]", "servers = [10]", text)
    assert ten != text
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    (tmp_path / "studies" / "t-hash.toml").write_text(ten)
    write_whole(tmp_path, study_set, Truth(), leave_out=tuple(set(study_set.files) - {"t-hash.toml"}))
    sweep = read_cells("t-hash.toml", tmp_path / "t-hash")
    section = next(one for one in study_set.sections if one.kind == "hash")
    tables = [one for one in placement.build(Task(section, (sweep,), (), "S3")) if isinstance(one, Table)]
    counts = next(one for one in tables if one.name == f"{section.name}-counts")
    assert [numbers(row)[0] for row in counts.rows] == list(range(1, 11))
    assert numbers(counts.rows[0])[3:] == pytest.approx([100047.0, 0.047], abs=5e-3)
    whole = sum(numbers(row)[1] for row in counts.rows)
    assert whole == sum(run.meta.settings.keys for run in sweep.unloaded)
    assert sum(numbers(row)[2] for row in counts.rows) == pytest.approx(0.0, abs=1e-9)


def test_links_count_by_the_wire_and_network_threads_and_sockets_by_their_records(tmp_path: Path) -> None:
    sweep = sweeps(tmp_path, "t-full")["t-full"]
    links = sweep.study.topology.built_links
    cell = sweep.cells[0]
    rate = cell.mean_throughput
    before = {one.station: one for one in usages(cell, links)}
    assert before["client uplinks"].share == pytest.approx(rate * 4096 * 8 / (3 * 201e6))
    assert "network threads" not in before
    for folder in (tmp_path / "t-full" / "runs").iterdir():
        if not (folder / "cpu.json").exists():
            continue
        cpu, load = (json.loads((folder / f"{name}.json").read_text()) for name in ("cpu", "load"))
        requests = load["operations"]["set"]["requests"]
        cpu["machines"] = {f"client-{place}": {"sent_bytes": 1500 * requests} for place in range(3)}
        thread = {"threads": 2, "cpu_ns": int(1.9 * cpu["interval_ns"]), "waited_ns": 0, "busiest_ns": 0}
        cpu["threads"] = {"proxy": {"weir-network": thread}}
        cpu["kernel_wait"] = {"count": 10, "sum_ns": 500_000}
        (folder / "cpu.json").write_text(json.dumps(cpu))
    again = read_cells("t-full.toml", tmp_path / "t-full")
    found = {one.station: one for one in usages(again.cells[0], links)}
    assert found["client uplinks"].share == pytest.approx(rate * 3 * 1500 * 8 / (3 * 201e6), rel=1e-3)
    assert found["client uplinks"].evidence == "4,500 bytes on the wire for each request"
    # What the links can carry goes by the same bytes, so that a full link has reached its bound.
    bounds = {one.tier: one for one in bounds_of(again.cells[0], links)}
    assert bounds["client uplinks"].requests_per_s == pytest.approx(3 * 201e6 / 8 / 4500, rel=1e-3)
    assert bounds["client uplinks"].text == "client uplinks, 4,500 bytes on the wire for each request"
    assert bounds["proxy uplinks"].wire_bytes is None
    assert bounds["proxy uplinks"].text == "proxy uplinks, by payload"
    assert found["client uplinks"].share == pytest.approx(rate / bounds["client uplinks"].requests_per_s, rel=1e-3)
    assert found["proxy uplinks"].evidence.endswith("by payload")
    assert found["network threads"].share == pytest.approx(0.95, abs=1e-3)
    said = why(Task(spec("full"), (again,)), [])  # type: ignore[arg-type]
    assert said is not None
    # The synthetic proxy sees all but 0.2 ms of a request.
    assert "Of the 0.20 ms outside of the proxy, 0.05 ms are those in which bytes lie in its sockets" in said.points[0]
    assert "let run" not in said.points[0]
    # An idle thread that reads late is not explained by its work: it waits for a processor.
    for path in (tmp_path / "t-full" / "runs").glob("*/cpu.json"):
        cpu = json.loads(path.read_text())
        used = {"cpu_ns": int(0.1 * cpu["interval_ns"]), "waited_ns": int(1.7 * cpu["interval_ns"])}
        cpu["threads"]["proxy"]["weir-network"] |= used
        path.write_text(json.dumps(cpu))
    said = why(Task(spec("full"), (read_cells("t-full.toml", tmp_path / "t-full"),)), [])  # type: ignore[arg-type]
    assert said is not None
    assert "That thread was busy 5 % of the time, and for 85 % of it was ready and not let run" in said.points[0]


def counted_on_the_wire(folder: Path, sent: dict[str, int]) -> None:
    """Every run of a sweep as if each request had put these bytes on the wire at each machine."""
    for run in (folder / "runs").iterdir():
        if (run / "cpu.json").exists():
            cpu, load = (json.loads((run / f"{name}.json").read_text()) for name in ("cpu", "load"))
            requests = sum(one["requests"] for one in load["operations"].values())
            cpu["machines"] = {machine: {"sent_bytes": size * requests} for machine, size in sent.items()}
            (run / "cpu.json").write_text(json.dumps(cpu))


def test_of_two_limits_a_level_above_the_upper_one_decides_where_no_maximum_is_shown(tmp_path: Path) -> None:
    """“332 % of the printed one, and the maximum is no less” stood beside “cannot tell whether it reaches that within 10 %”."""
    sweep = sweeps(tmp_path, "t-direct", truth=Truth(links=False))["t-direct"]

    def answer(value: float) -> tuple[str, str]:
        args: dict[str, str | float] = {"value": value, "percent": 10.0, "links": False}
        claim = Claim(name="x", claim="What clients reach.", rule="reaches", at={"write_ratio": 0.0}, args=args)
        (found,) = judge_set([Held(claim, Task(spec("baseline"), (sweep,), (), ""))])  # type: ignore[arg-type]
        return found.verdict, found.evidence

    verdict, evidence = answer(1_000.0)
    assert verdict == "does not hold", evidence
    assert (
        "the maximum is no less; it holds within 90 to 110 %, and this one level above the upper limit decides"
        in evidence
    )
    # It may lie anywhere above the largest level.
    assert answer(1e6)[0] == answer(sweep.cells[-1].mean_throughput)[0] == "cannot tell"


def test_claims_compare_with_what_links_carry_by_the_bytes_that_were_counted(tmp_path: Path) -> None:
    """The synthetic link is full at 96 % of its bound by payload: what else goes over the wire is headers."""
    sweeps(tmp_path, "t-direct")
    link = 101e6 / 8

    def answer(rule: str, **args: str | float) -> tuple[str, str]:
        claim = Claim(name="x", claim="What links carry.", rule=rule, at={"write_ratio": 0.0}, args=args)
        task = Task(spec("baseline"), (read_cells("t-direct.toml", tmp_path / "t-direct"),), (), "")  # type: ignore[arg-type]
        (found,) = judge_set([Held(claim, task)])
        return found.verdict, found.evidence

    verdict, evidence = answer("limited_by", station="server uplinks", share=0.98)
    assert verdict == "does not hold"
    assert "of what the server uplinks carry; it holds from 98 % on; that is 3,082 requests/s, by payload" in evidence
    assert answer("not_reaches", share=0.98)[0] == "holds"
    whole = round(4096 / 0.96)
    counted_on_the_wire(tmp_path / "t-direct", {"server-0": whole, **{f"client-{place}": 20 for place in range(3)}})
    verdict, evidence = answer("limited_by", station="server uplinks", share=0.98)
    assert verdict == "holds", evidence
    # An expectation has reckoned by payload: its number stands beside the one that decides.
    counted = f"{whole:,} bytes on the wire for each request, which decides; by payload alone 3,082"
    assert f"; that is {link / whole:,.0f} requests/s, {counted}" in evidence
    assert answer("not_reaches", share=0.98)[0] == "does not hold"
    # Requests that are larger than their replies fill the clients' links first: which link is the tightest goes by what was counted, too.
    counted_on_the_wire(tmp_path / "t-direct", {"server-0": 400, **{f"client-{place}": 8_000 for place in range(3)}})
    verdict, evidence = answer("limited_by", station="server uplinks", share=0.98)
    assert (verdict, evidence) == (
        "does not hold",
        "the tightest links are the client uplinks (24,000 bytes on the wire for each request), whatever is reached",
    )


def test_bins_have_round_edges_in_a_unit_without_leading_zeros() -> None:
    times = histogram_of(np.array([1_000 * (value + 1) for value in range(380)], dtype=np.int64))
    bars = binned(times, 371_000.0, 30, "queue", unit_of(371_000.0))
    assert [bar.label for bar in bars[:3]] == ["20", "40", "60"]
    assert len(bars) == 19
    assert sum(share for bar in bars for _, share in bar.parts) == pytest.approx(100.0, abs=0.5)
    assert unit_of(2e6) == "ms"


@pytest.mark.parametrize("repetitions", [2, 3])
def test_of_two_runs_that_lie_apart_nobody_says_which_is_the_outlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repetitions: int
) -> None:
    """“Further than chance explains are block 1 (+15.675) and block 4 (−15.675)” was said of one cell with two runs."""
    sweep = sweeps(tmp_path, "t-2k")["t-2k"]
    workload, (design, *_), _ = next(iter(effects.designs_of(sweep)))
    assert design.read.repetitions == 2
    monkeypatch.setattr(effects, "outlying", lambda _: [(3, 0), (3, 1)])
    monkeypatch.setattr(effects, "_MIRRORED", 2 if repetitions == 2 else 1)
    (found,) = effects._outliers(Task(spec("effects"), (sweep,), (), "S5"), workload, design)  # type: ignore[arg-type]
    assert isinstance(found, Text)
    assert found.text.count("both runs at ") == (1 if repetitions == 2 else 0)
    assert ("nobody knows which; no flag" in found.text) == (repetitions == 2)
    # The distance is that of the figure of residuals, and not that with blocks taken out.
    away = effects._size(design, abs(float(from_cell_means(design.read)[3, 0])))
    assert (f"({away} above and below that mean, " in found.text) == (repetitions == 2)
    assert (f"{away} from that mean; " in found.text) == (repetitions == 3)
    assert ("run 1 (r1) at " in found.text) == ("run 2 (r2) at " in found.text) == (repetitions == 3)


def test_outliers_of_a_design_are_seldom_named_where_there_are_none_and_always_where_one_is_far_off() -> None:
    rng = np.random.default_rng(11)
    values = rng.standard_normal((500, 8, 3))

    levels = [[1 if place >> bit & 1 else -1 for bit in range(3)] for place in range(8)]

    def fit(observed: np.ndarray) -> FactorialAnalysis:
        return analyse_factorial(levels, observed, blocked=True)

    alarms = sum(bool(outlying(fit(one))) for one in values)
    # 5 % at most by Bonferroni: more than 41 of 500 would come in one of 1,000 tries.
    assert 3 <= alarms <= 41
    values[:, 5, 1] += 12.0
    assert all((5, 1) in outlying(fit(one)) for one in values[:50])
    assert outlying(fit(np.zeros((8, 3)))) == []


def test_values_per_second_that_no_link_of_the_study_carries_are_among_its_errors() -> None:
    """Of each multi-get that S3 printed: 4096 B for each key, from three servers. One of them sent no more than its link takes."""
    (link,) = {float(row["bandwidth_mbit_s"]) for row in read_table("network") if row["from"] == "server"}
    (alone,) = (
        float(row["throughput_ops_s"])
        for row in read_table("max_throughput_baseline")
        if row["study"] == "S3" and row["configuration"] == "one memcached server" and row["workload"] == "read"
    )
    places = {"sharded": "5.2.1", "non-sharded": "5.4.1"}
    found = {
        (row["mode"], int(row["keys"])): float(row["value"])
        for row in read_table("multiget_quoted")
        if row["study"] == "S3" and row["quantity"] == "hits"
    }
    said = {
        (mode, int(keys))
        for mode, place in places.items()
        for error in errors_at("S3", [place])
        if error.quantity.startswith(f"hits, {mode}, ") and "Mbit/s" in error.explanation
        for keys in re.findall(r"\d+", error.quantity)
    }
    per_server = {which: keys * 4096 * 8 / 3 / 1e6 for which, keys in found.items()}
    assert said == {which for which, mbit_s in per_server.items() if mbit_s > link}
    assert said == {("sharded", 6), ("sharded", 9), ("non-sharded", 9)}
    assert max(per_server.values()) == pytest.approx(191.1, abs=0.1)
    assert alone * 4096 * 8 / 1e6 < link
    # With memtier's ratio of one SET to that many keys every second request is a SET: half of what was printed fits.
    assert all(mbit_s / 2 < link for mbit_s in per_server.values())


def test_what_a_page_lacks_stands_in_a_box_and_known_errors_are_led_to(tmp_path: Path) -> None:
    study_set = take_files(DATA / "small.set.toml", tmp_path)
    absent = tuple(set(study_set.files) - {"t-direct.toml"})
    write_whole(tmp_path, study_set, Truth(), leave_out=absent)
    lack = Lack(item="Hottest functions", why="no run was made with a profile, which would slow it")
    sections = [
        one.model_copy(update={"lacks": [lack]}) if one.name == "baseline" else one for one in study_set.sections
    ]
    built = Built(part="Queue", study="without a bound", here="10,000 requests at most")
    changed = study_set.model_copy(update={"sections": sections, "lacks": [lack], "built": [built]})
    report = assemble(changed, Sources(tmp_path, tmp_path / "studies"), "quick", "netns")
    page, text = unescape(html_page(report)), markdown_page(report)
    for name in ("system", "baseline"):
        box = re.search(rf'<div class="missing" id="{name}-lacks">(.*?)</div>', page, re.DOTALL)
        assert box is not None
        assert lack.text in box[1]
    assert page.count('class="missing" id=') == 2
    # A long reason opens on demand, and is printed: on paper sentences ended at their colon.
    assert _lack("Hottest functions: a profile slows runs") == "Hottest functions: a profile slows runs"
    said = _lack(f"Hottest functions: {'a profile slows runs, ' * 9}too")
    assert said.startswith('Hottest functions: <details class="rest kept"><summary>more</summary>a profile slows')
    assert "details.rest.kept::details-content { display: inline; }" in page
    assert text.count(f"- {lack.text}") == 2
    assert "| Queue | without a bound | 10,000 requests at most |" in text
    assert '<table id="system-built">' in page
    led = re.search(r'id="printed-wrongly">(.*?)</p>', page, re.DOTALL)
    assert led is not None
    rows = next(
        one for part in report.sections for one in part.blocks if getattr(one, "name", "") == "baseline-known-errors"
    )
    assert isinstance(rows, Table)
    near = "a table near the end of this page"
    assert led[1] == (
        f'Printed wrongly in the study, with what is right: <a href="#known-errors">{near}</a> ({len(rows.rows)}).'
    )
    assert f"Printed wrongly in the study, with what is right: {near} ({len(rows.rows)})." in text
    # Behind all sections and before the words, and not in the section that it is about.
    marks = ('<h2 id="baseline">', '<h2 id="known-errors">', '<table id="page-known-errors">', '<h2 id="terms">')
    places = [page.index(one) for one in marks]
    assert places == sorted(places)
    assert "baseline-known-errors" not in page
    assert '<a href="#known-errors">Printed wrongly in the study</a>' in page
    assert (
        text.index("## Baseline") < text.index("## Printed wrongly in the study") < text.index("## Words and letters")
    )
    assert text.count("| Section | Where | What | Printed | Right | Why |") == 1
    assert "| Where | What | Printed | Right | Why |" not in text.replace("| Section | Where", "")
    assert isinstance(report.sections[0], Section)
    assert report.sections[0].name == "system"
    bad = (
        (DATA / "small.set.toml")
        .read_text()
        .replace(
            '[[sections]]\nname = "full"',
            '[[sections.lacks]]\nitem = "Hottest functions"\nwhy = ""\n[[sections]]\nname = "full"',
        )
    )
    (tmp_path / "studies" / "small.set.toml").write_text(bad)
    with pytest.raises(StudyError, match="why"):
        load_set(tmp_path / "studies" / "small.set.toml")


def test_a_spread_that_grows_with_the_level_is_named_and_one_of_chance_is_not() -> None:
    rng = np.random.default_rng(5)
    levels = np.array(list(itertools.product((-1, 1), repeat=2)))
    means = np.array([580.0, 582.0, 1550.0, 1700.0])[:, None]
    noise = rng.standard_normal((4, 4))
    alike = analyse_factorial(levels, means + noise)
    assert unequal_spread(alike) is None
    found = unequal_spread(analyse_factorial(levels, means + noise * np.array([1.0, 1.0, 4.0, 40.0])[:, None]))
    assert found is not None
    assert found.widest == 3
    assert found.p < 0.01
    assert found.sds[1] > 3 * found.sds[0]
    false = sum(
        unequal_spread(analyse_factorial(levels, means + rng.standard_normal((4, 4)))) is not None for _ in range(200)
    )
    # 1 % by the test: more than 8 of 200 would come in one of 3,000 tries.
    assert false <= 8
    # Runs that are the same to the last digit are no reason for an alarm, and no error.
    assert unequal_spread(analyse_factorial(levels, np.repeat(means, 3, axis=1))) is None


def test_residuals_are_drawn_around_the_mean_of_the_cell_alone() -> None:
    levels = np.array(list(itertools.product((-1, 1), repeat=2)))
    values = np.repeat(np.array([[10.0], [20.0], [30.0], [40.0]]), 3, axis=1)
    values[3, 0] += 3.0
    fit = analyse_factorial(levels, values, blocked=True)
    drawn = from_cell_means(fit)
    # With blocks taken out the odd run of one cell moves the runs of all others.
    assert float(np.abs(fit.residuals[:3]).max()) > 0.1
    assert float(np.abs(drawn[:3]).max()) == 0.0
    assert drawn[3].tolist() == pytest.approx([2.0, -1.0, -1.0])
