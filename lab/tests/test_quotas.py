"""The share of its CPU quota that each tier used: in a run, on the page of a whole study, and after each run of `weir-lab study`."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from rich.console import Console

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.live import Shown
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import load_set
from weir_lab.errors import StudyError
from weir_lab.records import Verdict, read_run
from weir_lab.records.places import TestbedRecord
from weir_lab.records.tables.quotas import above, core_shares, quota_shares, quota_text
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sets import Sources, assemble

if TYPE_CHECKING:
    from weir_lab.design import ScheduledRun
    from weir_lab.report.page.blocks import Report

DATA = Path(__file__).parent / "data" / "whole"
# Of what the synthetic roles use, 0.2, 0.4 and 0.3 CPUs: 80, 95 and 50 %.
QUOTAS = {"client-0": 0.25, "proxy-0": 0.42, "server-0": 0.6}


def made(
    root: Path,
    limiting: str,
    quotas: dict[str, float],
    cores: dict[str, list[int]] | None = None,
    *,
    busier: float = 0.0,
) -> Report:
    """The full system and the baseline of the synthetic study, on machines with quotas, and pinned to cores."""
    given = root / "given"
    given.mkdir(parents=True)
    for file in DATA.iterdir():
        (given / file.name).write_text(file.read_text())
    text = (given / "small.set.toml").read_text()
    (given / "small.set.toml").write_text(text.replace("\n[[sections]]", f"\n[limiting]\n{limiting}\n[[sections]]", 1))
    study_set = take_files(given / "small.set.toml", root / "root")
    others = tuple(file for file in study_set.files if file not in ("t-full.toml", "t-direct.toml"))
    write_whole(root / "root", study_set, Truth(), leave_out=others)
    for file in (root / "root").rglob("run.json"):
        record = json.loads(file.read_text())
        for machine in (record.get("testbed") or {"machines": []})["machines"]:
            machine["cpus"] = quotas.get(machine["name"])
            machine["cores"] = (cores or {}).get(machine["name"].partition("-")[0], [])
        file.write_text(json.dumps(record))
        if busier and (cpu := file.with_name("cpu.json")).exists():
            used = json.loads(cpu.read_text())
            used["roles"]["servers"]["cpu_ns"] += int(busier * used["interval_ns"])
            cpu.write_text(json.dumps(used))
    return assemble(study_set, Sources(root / "root", root / "root" / "studies"), "quick", "netns")


def test_a_tier_above_seventy_percent_that_is_not_to_limit_is_named(tmp_path: Path) -> None:
    report = made(tmp_path, 'all = ["proxy"]', QUOTAS)
    built_in, said = [one for one in report.limits if "quotas" in one]
    assert built_in.startswith(
        "CPU quotas were chosen so that the proxy can limit, as in the study: where it does, that is built in"
    )
    assert said.startswith("Tiers that are not to limit used more than 70 % of their CPU quotas: client ")
    # One decimal: “used more than 70 %: proxy 70 %” was read as a contradiction.
    assert re.search(r": client (79|80)\.\d % at ", said)
    full = next(one for one in report.sections if one.name == "full")
    table = next(one for one in full.blocks if isinstance(one, Table) and one.name == "full-quotas")
    assert {(str(row[1]), str(row[4])) for row in table.rows} == {
        ("client", "ABOVE"), ("proxy", "limits, as in the study"), ("server", "below"),
    }  # fmt: skip
    assert not table.folded
    assert not any("every tier that should not limit" in one for one in report.details)
    run = read_run(next((tmp_path / "root" / "t-full" / "runs").glob("*-r1")))
    shares = quota_shares(run)
    assert shares == pytest.approx({"client": 0.8, "proxy": 0.952, "server": 0.5}, abs=0.01)
    assert above(shares, ["proxy"]) == ["client"]
    assert above(shares, []) == ["client", "proxy"]
    assert quota_text(run, ["proxy"]) == "of their quotas: client 80 % (ABOVE 70 %), proxy 95 % (limits), server 50 %"


def test_a_tier_that_may_limit_and_has_room_is_not_said_to_limit(tmp_path: Path) -> None:
    """“proxy 60 %: limits, as in the study” stood on S1's page."""
    report = made(tmp_path, 'all = ["proxy"]', {**QUOTAS, "proxy-0": 0.8})
    full = next(one for one in report.sections if one.name == "full")
    table = next(one for one in full.blocks if isinstance(one, Table) and one.name == "full-quotas")
    assert ("proxy", "may limit, as in the study; did not") in {(str(row[1]), str(row[4])) for row in table.rows}


def test_where_every_tier_keeps_below_the_page_says_so_and_without_quotas_nothing(tmp_path: Path) -> None:
    report = made(tmp_path / "wide", 'all = ["proxy"]', {**QUOTAS, "client-0": 0.5})
    assert any("every tier that should not limit used at most 70 %" in one for one in report.details)
    assert not any("no finding of its own" in one for one in report.limits)
    # S3 and S5 named workers, and here links limit: quotas were not chosen so that the same limits.
    report = made(tmp_path / "room", "all = []", {**QUOTAS, "client-0": 0.5, "proxy-0": 0.8})
    said = [one for one in report.limits if one.startswith("CPU quotas give every tier room, whatever limited")]
    assert [one.endswith("follows from what was built, and is no finding of its own.") for one in said] == [True]
    (system,) = [one for one in report.sections if one.name == "system"]
    (machines,) = [one for one in system.blocks if isinstance(one, Table) and one.name == "system-machines"]
    assert "only tiers that are to limit can use them up" in machines.caption
    report = made(tmp_path / "none", "all = []", {})
    assert not any("quota" in one for one in report.limits)
    assert not any(isinstance(one, Table) and "quotas" in one.name for part in report.sections for one in part.blocks)


def test_a_limiting_tier_of_a_stranger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"limiting: t-nobody\.toml stands in no section"):
        made(tmp_path, '"t-nobody.toml" = ["proxy"]', {})


@pytest.mark.parametrize("terminal", [False, True])
def test_each_run_says_what_its_tiers_used_and_a_terminal_only_what_is_above(terminal: bool) -> None:
    out = StringIO()
    remarks = iter(["of their quotas: client 41 %", "of their quotas: client 81 % (ABOVE 70 %)"])
    shown = Shown(Console(file=out, force_terminal=terminal, width=200), lambda _: next(remarks))
    run = cast("ScheduledRun", type("Run", (), {"name": "a-run"})())
    for _ in range(2):
        shown.finished(run, Verdict(valid=True, reasons=[], flags=[]), Path())
    assert ("client 41 %" in out.getvalue()) is not terminal
    assert "client 81 % (ABOVE 70 %)" in out.getvalue()


def test_each_study_says_what_limits_it() -> None:
    studies = Path(__file__).parents[2] / "studies"
    found = {name: load_set(studies / f"{name}.set.toml") for name in ("s1", "s2", "s3", "s4", "s5")}
    assert found["s1"].limiting_of("s1-max.toml") == ["proxy"]
    assert found["s1"].limiting_of("s1-control.toml") == ["server"]
    assert found["s2"].limiting_of("s2-base.toml") == ["server"]
    assert found["s2"].limiting_of("s2-trace1.toml") == ["proxy"]
    assert found["s4"].limiting_of("s4-repl.toml") == ["proxy"]
    assert found["s3"].limiting_of("s3-4.toml") == found["s5"].limiting_of("s5-4.toml") == []


def test_processors_with_a_quota_are_as_busy_as_their_quota_and_not_as_their_threads(tmp_path: Path) -> None:
    report = made(tmp_path, "", QUOTAS)
    full = next(one for one in report.sections if one.name == "full")
    table = next(one for one in full.blocks if isinstance(one, Table) and one.name == "full-stations")
    used = {str(row[3]): (row[4], str(row[5])) for row in table.rows}
    assert {"client CPU quotas", "proxy CPU quotas", "memcached CPU quotas"} <= set(used)
    assert not {"memcached threads", "proxy threads", "load generators"} & set(used)
    share, evidence = used["memcached CPU quotas"]
    assert isinstance(share, Value)
    assert share.value == pytest.approx(50.0, abs=1.0)
    assert evidence == "0.30 of the 0.60 CPUs that these machines may use"


def test_a_core_that_several_tiers_share_is_a_station_though_each_is_below_its_quota(tmp_path: Path) -> None:
    """S1's and S4's event engine stopped “where no station is seen to be full”: clients, servers and delays had one core, 98 % busy."""
    report = made(
        tmp_path,
        'all = ["proxy"]',
        dict.fromkeys(QUOTAS, 1.0),
        {"client": [1], "proxy": [1], "server": [1]},
        busier=0.06,
    )
    station = "CPUs of clients, proxies and servers"
    (said,) = [one for one in report.limits if "same cores" in one]
    assert said.startswith(f"The {station} are the same cores: in ")
    assert re.search(r" of \d+ cells they were 90 to 9\d % busy \(t-", said)
    apart = made(tmp_path / "apart", 'all = ["proxy"]', QUOTAS, {"client": [1], "proxy": [0], "server": [1]})
    assert not any("same cores" in one for one in apart.limits)
    runs = [read_run(one.parent) for one in (tmp_path / "apart").rglob("run.json")]
    proxied = next(one for one in runs if one.cpu is not None and "proxy" in one.cpu.roles and one.meta.testbed)
    assert core_shares(proxied) == {("client", "server"): pytest.approx(0.5, abs=0.1)}
    # While a night goes on, each run says it.
    busy = [read_run(one.parent) for one in (tmp_path / "root").rglob("run.json")]
    said_of = [quota_text(one, ["proxy"]) for one in busy if one.cpu is not None and "proxy" in one.cpu.roles]
    assert any(re.search(r"; of the cores of client, proxy and server 9\d % \(FULL\)$", one) for one in said_of)
    assert "cores" not in quota_text(proxied, ["proxy"])
    # Where the delay device is pinned, the testbed says in words.
    record = TestbedRecord(kind="netns", machines=[], delayed_by="weir-delay (SCHED_FIFO 50, on core 1 of those given)")
    assert record.delay_cores == (1,)
    assert TestbedRecord(kind="netns", machines=[], delayed_by="weir-delay").delay_cores == ()
