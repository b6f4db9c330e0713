"""Our own tables are right: depth, think time, open loops, shares of the machine, and rows of other generators break no law."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from synthetic import STUDY_TEXT, write_sweep
from test_audit_rows import audited, lines
from weir_lab.records import read_sweep
from weir_lab.records.tables.summary import csv_text, write_tables
from weir_lab.report.audit import AuditReport, audit_tables, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN = STUDY_TEXT[: STUDY_TEXT.index("[[predictions]]")]


def audit_of(
    sweep: Path, text: str, changed: Callable[[dict[str, Any], dict[str, Any]], None] | None = None
) -> AuditReport:
    """Both tables of a synthetic sweep, whose records of the load are changed first; all runs count."""
    study = write_sweep(sweep, text=text)
    for file in sweep.glob("runs/*/load.json"):
        load, run = json.loads(file.read_text()), json.loads((file.parent / "run.json").read_text())
        if changed is not None:
            changed(load, run["settings"])
        run["verdict"] = {"valid": True, "reasons": [], "flags": []}
        file.write_text(json.dumps(load))
        (file.parent / "run.json").write_text(json.dumps(run))
    write_tables(sweep, study, read_sweep(sweep).executables)
    return audit_tables(read_tables([sweep / "summary.csv", sweep / "runs.csv"]))


def thinking(load: dict[str, Any], settings: dict[str, Any]) -> None:
    think_s = settings["think_time_ms"] / 1e3
    load["throughput_rps"] = 1.0 / (1.0 / load["throughput_rps"] + think_s / settings["clients"])


def offered(load: dict[str, Any], settings: dict[str, Any]) -> None:
    rate = settings["rate"]
    # Times begin when a request is due, so more may wait than there are connections.
    load["throughput_rps"] = 0.9 * rate
    load["scheduled"] = {"arrivals": 100, "offered_rate_rps": rate, "unsent": 0, "late": 0}


def test_a_fixed_depth_is_no_broken_law(tmp_path: Path) -> None:
    """Before, 16 clients with 4 requests each were "N = 16 clients need R = …" in every row."""
    report = audit_of(tmp_path / "tiny", PLAIN.replace("depth = 1", "depth = 4"))
    assert lines(report) == []
    assert "depth" not in report.looked.never["summary.csv"]
    assert "throughput_rps" not in report.looked.never["summary.csv"]


def test_a_fixed_think_time_is_no_broken_law(tmp_path: Path) -> None:
    report = audit_of(tmp_path / "tiny", PLAIN.replace("depth = 1", "depth = 1\nthink_time_ms = 5.0"), thinking)
    assert lines(report) == []
    assert "think_time_ms" not in report.looked.never["summary.csv"]


@pytest.mark.parametrize("fixed", [True, False])
def test_an_open_loop_is_no_closed_one(tmp_path: Path, *, fixed: bool) -> None:
    """Before, the factor `rate` was read as the throughput, and held against the law of a closed loop."""
    text = PLAIN.replace("depth = 1", "depth = 1\nrate = 5000" if fixed else "depth = 1\nclients = 16")
    text = text if fixed else text.replace("clients = [1, 4, 16]", "rate = [5000, 200000]")
    report = audit_of(tmp_path / "tiny", text, offered)
    assert lines(report) == []
    assert "throughput_rps" not in report.looked.never["summary.csv"]
    assert "throughput_rps" not in report.looked.never["runs.csv"]
    summary = (tmp_path / "tiny" / "summary.csv").read_text()
    assert "offered_rate_rps" in summary.splitlines()[0].split(",")


def test_a_summary_says_how_the_system_was_loaded(tmp_path: Path) -> None:
    audit_of(tmp_path / "tiny", PLAIN.replace("depth = 1", "depth = 4"))
    (table,) = read_tables([tmp_path / "tiny" / "summary.csv"])
    assert {row["depth"] for _, row in table.rows} == {"4"}
    assert {row["think_time_ms"] for _, row in table.rows} == {""}
    assert "offered_rate_rps" not in table.columns


def test_a_wrong_number_in_a_summary_is_still_found(tmp_path: Path) -> None:
    audit_of(tmp_path / "tiny", PLAIN.replace("depth = 1", "depth = 4"))
    path = tmp_path / "tiny" / "summary.csv"
    (table,) = read_tables([path])
    rows = [dict(row) for _, row in table.rows]
    rows[0]["mean_response_time_us"] = str(1.3 * float(rows[0]["mean_response_time_us"]))
    path.write_text(csv_text(rows))
    assert any("R = N/X" in line for line in lines(audit_tables(read_tables([path]))))


OLD = "cell,clients,throughput_rps,mean_response_time_us,law_deviation_percent"


@pytest.mark.parametrize(
    ("row", "law"),
    [
        ("a,16,32012,2001,0.012", ""),  # depth 4
        ("a,16,2012,2011,0.012", ""),  # they think
        ("a,16,5000,200,", ""),  # an open loop
        ("a,16,10012,2011,0.012", "X (R + Z) = N D"),  # a quarter of a request
        ("a,16,8000,2000,9.5", "X (R + Z) = N D"),  # it says so itself
    ],
)
def test_tables_without_their_settings_are_held_against_what_they_say(tmp_path: Path, row: str, law: str) -> None:
    """runs.csv, and summaries of an older weir-lab."""
    found = lines(audited(tmp_path, f"{OLD}\n{row}\n"))
    assert len(found) == bool(law)
    assert all(law in line for line in found)


def test_a_rate_beside_a_throughput_was_offered(tmp_path: Path) -> None:
    head = "clients,rate,throughput_rps,latency_ms"
    assert lines(audited(tmp_path, f"{head}\n16,5000,4990,0.20\n")) == []
    (more,) = lines(audited(tmp_path, f"{head}\n16,5000,6990,0.20\n"))
    assert "more was done than was asked for" in more
    (alone,) = lines(audited(tmp_path, "clients,rate,latency_ms\n16,5000,0.20\n"))
    assert "R = N/X" in alone


def test_shares_of_a_machine_are_no_parts_of_a_whole(tmp_path: Path) -> None:
    """Before, 62.1 % for others and 33.4 % for the kernel had to add up to 100 %."""
    assert lines(audited(tmp_path, "run,other_cpu_share_percent,kernel_cpu_share_percent\na,62.1,33.4\n")) == []
    # Nor are shares that come near it in one row of three.
    apart = "run,get_share_percent,idle_share_percent\na,62.1,33.4\nb,20.5,15.0\nc,80.1,77.0\n"
    assert lines(audited(tmp_path, apart)) == []
    (found,) = lines(
        audited(tmp_path, "run,get_share_percent,set_share_percent\na,62.1,37.9\nb,62.1,33.4\nc,50.0,50.0\n")
    )
    assert "shares add up to 100 %" in found


def test_imported_operations_are_parts_of_a_loop(tmp_path: Path) -> None:
    """The gets of a mixed run keep a part of the connections busy, so N = X R holds for all operations together alone."""
    head = "run,generator,operation,clients,throughput_rps,mean_response_time_us\n"
    rows = "r,memtier,set,8,2012,400.1\nr,memtier,get,8,18012,399.1\nr,memtier,all,8,20024,399.2\n"
    assert lines(audited(tmp_path, head + rows)) == []
    (found,) = lines(audited(tmp_path, head + rows.replace("18012,399.1", "18012,600.1")))
    assert "X R <= N (one operation)" in found
