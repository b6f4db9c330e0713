"""Tables as people write them: other headings, think time, open loops, percentiles, shares, intervals; and what was not looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

from synthetic import write_sweep
from test_audit_joint import shown
from weir_lab.cli import app
from weir_lab.records import read_sweep
from weir_lab.records.tables.summary import write_tables
from weir_lab.report.audit import AuditReport, Severity, audit_tables, read_name, read_tables

if TYPE_CHECKING:
    from pathlib import Path


def audited(folder: Path, text: str, populations: tuple[int, ...] = ()) -> AuditReport:
    path = folder / "t.csv"
    path.write_text(text)
    return audit_tables(read_tables([path]), populations)


def lines(report: AuditReport) -> list[str]:
    return [finding.line() for finding in report.findings]


@pytest.mark.parametrize(
    ("heading", "quantity", "scale", "statistic", "about"),
    [
        ("throughput_rps", "throughput", 1.0, "mean", ""),
        ("Throughput (ops/s)", "throughput", 1.0, "mean", ""),
        ("kqps", None, 0, "", ""),
        ("tput_kops_s", "throughput", 1e3, "mean", ""),
        ("latency_ms", "response_time", 1e-3, "mean", ""),
        ("Mean latency [us]", "response_time", 1e-6, "mean", ""),
        ("avg_rt_ms", "response_time", 1e-3, "mean", ""),
        ("mean_response_time_half_width_us", "response_time", 1e-6, "half_width", ""),
        ("get_mean_us", "response_time", 1e-6, "mean", "get"),
        ("get_p99_us", "response_time", 1e-6, "percentile", "get"),
        ("p99.9_us", "response_time", 1e-6, "percentile", ""),
        ("99th percentile latency (ms)", "response_time", 1e-3, "percentile", ""),
        ("think_time_ms", "think_time", 1e-3, "mean", ""),
        ("offered_rps", "offered_rate", 1.0, "mean", ""),
        ("total_clients", "clients", 1.0, "mean", ""),
        ("connections", "clients", 1.0, "mean", ""),
        ("lambda_rps", "arrival_rate", 1.0, "mean", ""),
        ("utilisation_percent", "utilization", 0.01, "mean", ""),
        ("response_time_ops_s", None, 0, "", ""),
        ("value_size_bytes", None, 0, "", ""),
        ("colour", None, 0, "", ""),
        ("busy_workers", None, 0, "", ""),
        ("miss_rate", None, 0, "", ""),
    ],
)
def test_headings_are_understood(heading: str, quantity: str | None, scale: float, statistic: str, about: str) -> None:
    named = read_name(heading)
    if quantity is None:
        assert named is None
        return
    assert named is not None
    assert (named.quantity, named.scale, named.statistic, named.about) == (quantity, scale, statistic, about)


@pytest.mark.parametrize(
    "head",
    [
        "clients,throughput_rps,latency_ms",
        "connections,Throughput (ops/s),Mean response time [ms]",
        "users,qps,avg_rt_ms",
    ],
)
def test_the_interactive_law_is_held_under_any_names(tmp_path: Path, head: str) -> None:
    """Before, only ``throughput_ops_s`` and ``response_time_ms`` were read; all other tables were called sound."""
    assert lines(audited(tmp_path, f"{head}\n16,8000,2.00\n32,15900,2.01\n")) == []
    (found,) = lines(audited(tmp_path, f"{head}\n16,8000,2.00\n32,15900,2.51\n"))
    assert "R = N/X" in found


def test_think_time_and_depth_take_part(tmp_path: Path) -> None:
    head = "clients,think_time_ms,throughput_rps,latency_ms"
    assert lines(audited(tmp_path, f"{head}\n100,10.0,9090,1.00\n")) == []
    (found,) = lines(audited(tmp_path, f"{head}\n100,10.0,9091,2.00\n"))
    assert "R = N/X - Z" in found
    assert lines(audited(tmp_path, "clients,depth,throughput_rps,latency_ms\n10,8,40000,2.00\n")) == []
    assert lines(audited(tmp_path, "clients,depth,throughput_rps,latency_ms\n10,8,21100,2.00\n")) != []


def test_open_loops_have_bounds_and_no_interactive_law(tmp_path: Path) -> None:
    head = "connections,target_rps,throughput_rps,latency_ms"
    assert lines(audited(tmp_path, f"{head}\n64,10010,9990,0.50\n")) == []
    (more,) = lines(audited(tmp_path, f"{head}\n64,10010,12010,0.50\n"))
    assert "more was done than was asked for" in more
    (full,) = lines(audited(tmp_path, f"{head}\n64,10010,9990,9.00\n"))
    assert "X R <= N (open loop)" in full


def test_percentiles_rise(tmp_path: Path) -> None:
    head = "run,p50_us,p90_us,p99_us,p99.9_us,get_p50_us,get_p99_us"
    assert lines(audited(tmp_path, f"{head}\na,100,150,300,900,90,280\nb,100,100,100,100,90,90\n")) == []
    found = lines(audited(tmp_path, f"{head}\na,101,313,307,901,91,83\n"))
    assert len(found) == 2
    assert all("percentiles rise" in line for line in found)
    assert "p99_us 307 (" in found[0]
    (least,) = lines(audited(tmp_path, "min_ms,mean_latency_ms,max_ms\n2.0,1.5,9.0\n"))
    assert "min <= mean" in least


def test_shares_add_up(tmp_path: Path) -> None:
    head = "stage_read_share_percent,stage_queue_share_percent,stage_backend_share_percent"
    assert lines(audited(tmp_path, f"{head}\n10.1,20.2,69.7\n33.3,33.3,33.3\n")) == []
    (found,) = lines(audited(tmp_path, f"{head}\n10.1,20.2,66.7\n"))
    assert "shares add up to 100 %" in found
    # Shares of several wholes add up to something else.
    assert lines(audited(tmp_path, f"{head}\n60,70,80\n")) == []


@pytest.mark.parametrize(
    ("value", "wrong"), [("0.97", False), ("97", False), ("1.2", True), ("104", True), ("1.0", False)]
)
def test_nobody_is_busy_more_than_all_the_time(tmp_path: Path, value: str, wrong: bool) -> None:
    found = lines(audited(tmp_path, f"server,utilization\na,{value}\n"))
    assert bool(found) == wrong


def test_intervals_follow_from_spread_and_runs(tmp_path: Path) -> None:
    head = "throughput_rps,throughput_sd_rps,throughput_half_width_rps,runs"
    # t(4) = 2.776: 2.776 * 101 / sqrt(5) = 125.4
    assert lines(audited(tmp_path, f"{head}\n1000,101,125.4,5\n1000,101,88.5,5\n")) == []
    (error,) = audited(tmp_path, f"{head}\n1000,101,45.2,5\n").findings
    assert error.severity is Severity.DOUBT
    assert "the standard error" in error.message
    (sd,) = audited(tmp_path, f"{head}\n1000,101,101.0,5\n").findings
    assert "the standard deviation" in sd.message
    (wrong,) = audited(tmp_path, f"{head}\n1000,101,31.0,5\n").findings
    assert (wrong.severity, wrong.law) == (Severity.BROKEN, "half-width = t s / √n")
    ends = "latency_ms,latency_low_ms,latency_high_ms"
    assert lines(audited(tmp_path, f"{ends}\n2.0,1.5,2.5\n")) == []
    (outside,) = lines(audited(tmp_path, f"{ends}\n2.0,2.5,3.5\n"))
    assert "an interval holds its mean" in outside


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    """Before: "0 numbers in 2 rows: 0 broken laws", and status 0."""
    report = audited(
        tmp_path, "run,clients,throughput_rps,latency_ms,temperature_c\na,16,8000,2.00,41\nb,32,15900,2.01,42\n"
    )
    assert (report.numbers, report.looked.held) == (8, 6)
    assert report.looked.never == {"t.csv": ("temperature_c",)}
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv")])
    assert result.exit_code == 0
    assert "6 of 8 numbers were held against a law" in result.output
    assert "never used: t.csv: temperature_c" in result.output
    (tmp_path / "n.csv").write_text("city,rain_mm\nZug,4\nBern,5\n")
    nothing = CliRunner().invoke(app, ["audit", str(tmp_path / "n.csv")])
    assert nothing.exit_code == 3
    assert "0 of 2 numbers were held against a law" in nothing.output


def test_the_findings_as_json(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("clients,throughput_rps,latency_ms,colour\n32,15900,2.51,7\n")
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv"), "--json"])
    assert result.exit_code == 3
    reported = json.loads(result.stdout)
    assert (reported["schema"], reported["numbers"], reported["held_against_a_law"]) == ("weir.audit/1", 4, 3)
    assert reported["never_used"] == {"t.csv": ["colour"]}
    (finding,) = reported["findings"]
    assert finding["law"] == "R = N/X"
    assert finding["deviation_percent"] == pytest.approx(24.7, abs=0.1)


def test_our_own_summary_is_understood_and_sound(tmp_path: Path) -> None:
    sweep = tmp_path / "tiny"
    study = write_sweep(sweep)
    write_tables(sweep, study, read_sweep(sweep).executables)
    report = audit_tables(read_tables([sweep / "summary.csv", sweep / "runs.csv"]))
    assert lines(report) == []
    never = report.looked.never["summary.csv"]
    for column in (
        "throughput_rps",
        "mean_response_time_us",
        "clients",
        "throughput_half_width_rps",
        "throughput_sd_rps",
        "p99_us",
    ):
        assert column not in never


@pytest.mark.parametrize("kind", ["closed", "thinking", "open"])
def test_right_loops_raise_no_alarm(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    rows = []
    for _ in range(200):
        clients, response, think = int(rng.integers(1, 500)), 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(-1, 2)
        rate = 1e3 * clients / (response + (think if kind == "thinking" else 0.0))
        if kind == "open":
            rate *= rng.uniform(0.1, 1.0)
        digits = int(rng.integers(2, 6))
        numbers = [rate, rate * rng.uniform(1.0, 1.2), response, think, response * 0.5, response * 2.0, response * 5.0]
        rows.append([str(clients), *(shown(number, digits, rng) for number in numbers)])
    head = ["clients", "throughput_rps", "offered_rps", "latency_ms", "think_time_ms", "p50_ms", "p90_ms", "p99_ms"]
    leave_out = {"closed": ("offered_rps", "think_time_ms"), "thinking": ("offered_rps",), "open": ("think_time_ms",)}[
        kind
    ]
    kept = [place for place, name in enumerate(head) if name not in leave_out]
    text = "\n".join(",".join(row[place] for place in kept) for row in [head, *rows])
    assert lines(audited(tmp_path, text + "\n")) == []
