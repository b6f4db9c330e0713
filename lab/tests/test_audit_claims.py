"""What the audit claimed of right tables: inputs of other rows, letters of several meanings, percent, ranges, and what was held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from test_audit_rows import audited, lines
from weir_lab.errors import RecordError
from weir_lab.report.audit import Severity

if TYPE_CHECKING:
    from pathlib import Path

LONG = "run,model,kind,quantity,unit,value"


def test_configurations_of_a_long_table_have_inputs_of_their_own(tmp_path: Path) -> None:
    """Before, every second row was called broken: "one value per input" was held across configurations."""
    rows = [
        f"{run},M/M/1,input,{name}_rate,1/s,{rate}"
        for run, arrival in (("a", 123), ("b", 345))
        for name, rate in (("arrival", arrival), ("service", 456))
    ]
    assert lines(audited(tmp_path, "\n".join([LONG, *rows]) + "\n")) == []


def test_an_input_that_two_locations_print_differently_is_still_found(tmp_path: Path) -> None:
    rows = [f"a,Table {table},M/M/1,input,arrival_rate,1/s,{rate}" for table, rate in ((1, 123), (2, 345))]
    (found,) = lines(audited(tmp_path, "\n".join(["run,location,model,kind,quantity,unit,value", *rows]) + "\n"))
    assert "one value per input" in found
    assert "Table 1" in found
    assert "prints 123" in found


def test_a_throughput_of_another_system_is_no_bound(tmp_path: Path) -> None:
    rows = [
        "a,,,throughput_middleware,1/s,900",
        "b,M/M/1,input,arrival_rate,1/s,100",
        "b,M/M/1,input,service_rate,1/s,456",
    ]
    assert lines(audited(tmp_path, "\n".join([LONG, *rows]) + "\n")) == []


@pytest.mark.parametrize(
    ("unit", "time"),
    [
        ("µs", "40000"),
        ("μs", "40000"),
        ("us", "40000"),
        ("usec", "40000"),
        ("milliseconds", "40"),
        ("ms", "40"),
        ("s", "0.040"),
        ("", "0.040"),
    ],
)
def test_units_of_long_tables_are_those_of_wide_ones(tmp_path: Path, unit: str, time: str) -> None:
    """Before, a unit that was not us, ms, s or ns counted as 1: 2,010 µs were 2,010 s, and every law was broken."""
    rows = ["a,M/M/1,input,arrival_rate,1/ms,0.100", "a,M/M/1,input,service_rate,kops/s,0.125"]
    rows += [
        f"a,M/M/1,predicted,response_time,{unit},{time}",
        "a,M/M/1,predicted,utilization,%,80.0",
        "a,M/M/1,observed,jobs_in_system,jobs,4.0",
    ]
    rows += [f"a,M/M/1,observed,response_time,{unit},{time}"]
    assert lines(audited(tmp_path, "\n".join([LONG, *rows]) + "\n")) == []


@pytest.mark.parametrize(
    ("quantity", "unit"),
    [
        ("response_time", "min"),
        ("response_time", "1/s"),
        ("arrival_rate", "ms"),
        ("latency", "jiffies"),
        ("jobs_in_queue", "ms"),
    ],
)
def test_a_unit_that_nobody_knows_is_an_error_by_line(tmp_path: Path, quantity: str, unit: str) -> None:
    with pytest.raises(RecordError, match=rf"t\.csv:3: the unit '{unit}' is none of {quantity}"):
        audited(tmp_path, f"{LONG}\na,M/M/1,input,service_rate,1/s,456\na,M/M/1,observed,{quantity},{unit},5\n")


def test_units_of_what_no_law_is_about_are_free(tmp_path: Path) -> None:
    assert (
        lines(audited(tmp_path, f"{LONG}\na,M/M/1,observed,temperature,°C,5\na,M/M/1,observed,hits,keys/min,5\n")) == []
    )


def test_the_letter_of_the_population_is_not_the_number_of_runs(tmp_path: Path) -> None:
    """Before, N = 32 clients beside a half-width of 5 runs was "half-width = t s / √n broken"."""
    assert lines(audited(tmp_path, "N,X_rps,X_sd_rps,X_half_width_rps\n32,1000,101,125.4\n")) == []
    assert lines(audited(tmp_path, "N,runs,X_rps,X_sd_rps,X_half_width_rps\n32,5,1000,101,125.4\n")) == []
    (closed,) = lines(audited(tmp_path, "N,X_rps,R_ms\n32,15900,2.51\n"))
    assert "R = N/X" in closed
    # Beside clients it counts runs, as n does everywhere.
    for head in ("clients,N", "clients,n"):
        assert lines(audited(tmp_path, f"{head},X_rps,X_sd_rps,X_half_width_rps\n32,5,1000,101,125.4\n")) == []
        (wrong,) = lines(audited(tmp_path, f"{head},X_rps,X_sd_rps,X_half_width_rps\n32,5,1000,101,31.0\n"))
        assert "half-width" in wrong


def test_c_counts_the_servers_of_a_station(tmp_path: Path) -> None:
    """Before, c = 4 of M/M/c was a probability of queueing of 4 %."""
    # M/M/4 with a load of 0.5: C = 0.1739.
    head = "model,c,lambda_rps,mu_rps,utilization,waiting_time_ms"
    for model in ("M/M/4", "M/M/c"):
        assert lines(audited(tmp_path, f"{head}\n{model},4,200,100,0.500,0.870\n")) == []
        assert lines(audited(tmp_path, f"{head}\n{model},4,200,100,0.500,5.870\n")) != []
    probability = "model,servers_m,C,lambda_rps,mu_rps,waiting_time_ms"
    assert lines(audited(tmp_path, f"{probability}\nM/M/m,4,0.174,200,100,0.870\n")) == []
    assert lines(audited(tmp_path, f"{probability}\nM/M/m,4,0.574,200,100,0.870\n")) != []


def test_several_cores_are_busy_more_than_one(tmp_path: Path) -> None:
    assert lines(audited(tmp_path, "host,cpu_util_percent\na,350\n")) == []
    (found,) = lines(audited(tmp_path, "host,disk_util_percent\na,350\n"))
    assert "U <= 1" in found


def test_percent_is_a_matter_of_the_column(tmp_path: Path) -> None:
    """Before, 1.3 at light load was 130 %, because 80 alone was taken for percent."""
    assert lines(audited(tmp_path, "clients,utilization\n1,0.8\n2,1.3\n64,80\n")) == []
    (found,) = lines(audited(tmp_path, "clients,utilization\n1,0.8\n64,1.3\n"))
    assert "U <= 1" in found


def test_a_station_without_rest_is_broken_only_beyond_its_digits(tmp_path: Path) -> None:
    head = "model,kind,quantity,unit,value\nM/M/1,input,service_rate,1/s,1.0\n"
    (doubt,) = audited(tmp_path, f"{head}M/M/1,input,arrival_rate,1/s,1.0\n").findings
    assert (doubt.severity, doubt.law) == (Severity.DOUBT, "λ < m μ")
    (certain,) = audited(tmp_path, f"{head}M/M/1,input,arrival_rate,1/s,1.3\n").findings
    assert certain.severity is Severity.BROKEN


def test_what_was_held_is_tried_for_each_kind_of_row(tmp_path: Path) -> None:
    """Before, three rows of a known model spoke for all rows of an unknown one, and three rows of a proxy for all clients."""
    head = "model,servers_m,lambda_rps,mu_rps,R_ms"
    known, unknown = "M/M/1,1,80.0,100,50.0\n", "another,1,80.0,100,77.0\n"
    assert audited(tmp_path, head + "\n" + 3 * known).looked.held == 9
    # Without a model nothing is known of how busy the server is, so the arrivals are held against nothing.
    assert audited(tmp_path, head + "\n" + 3 * known + 9 * unknown).looked.held == 9 + 18
    places = "measured_at,clients,X_rps,R_ms\n" + 3 * "proxy,32,15900,1.01\n" + 9 * "client,32,15900,2.01\n"
    report = audited(tmp_path, places)
    assert (report.numbers, report.looked.held) == (36, 27)


def test_the_share_of_a_proxy_is_held_against_its_client(tmp_path: Path) -> None:
    text = "measured_at,throughput_ops_s,response_time_ms\nproxy,15900,1.61\nclient,15900,2.01\n"
    report = audited(tmp_path, text)
    assert lines(report) == []
    assert report.looked.held == 2
