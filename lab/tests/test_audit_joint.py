"""Planted errors in tables of queues are found with two-digit inputs, and right tables are left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir_lab.report.audit import Finding, Severity, Table, audit_tables, laws_hold, printed, station_exists
from weir_lab.theory.queueing import mm1, mmm

ERRORS = ["R for W", "W for R", "R doubled", "C as a power"]


def shown(value: float, digits: int, rng: np.random.Generator) -> str:
    """This number of significant digits; three in ten numbers are cut, the others rounded."""
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    step = 10.0 ** (exponent - digits + 1)
    steps = math.floor(value / step) if rng.random() < 0.3 else math.floor(value / step + 0.5)
    return f"{steps * step:.{max(0, digits - 1 - exponent)}f}"


def model_row(rng: np.random.Generator, digits: int, error: str = "", given: int = 2) -> dict[str, str]:
    """M/M/m with m from 1 to 16 and a load of .3 to .95; inputs have `given` digits."""
    servers = int(rng.choice([2, 4, 8, 16] if error == "C as a power" else [1, 2, 4, 8, 16]))
    load, rate = rng.uniform(0.3, 0.95), 10.0 ** rng.uniform(1.0, 5.0)
    arrival = load * servers * rate
    station = mmm(arrival, rate, servers) if servers > 1 else mm1(arrival, rate)
    response, waiting = station.mean_response_time_s, station.mean_waiting_time_s
    queueing = load**servers if error == "C as a power" else station.prob_queueing
    if error == "R for W":
        waiting = response
    elif error == "W for R":
        response = waiting
    elif error == "R doubled":
        response *= 2.0
    outputs = {
        "utilization": station.utilization,
        "prob_queueing": queueing,
        "jobs_in_system": station.mean_jobs_in_system,
        "jobs_in_queue": station.mean_jobs_in_queue,
        "response_time": 1e3 * response,
        "waiting_time": 1e3 * waiting,
    }
    inputs = {
        "arrival_rate": shown(arrival, given, rng),
        "service_rate": shown(rate, given, rng),
        "servers_m": str(servers),
    }
    return inputs | {name: shown(value, digits, rng) for name, value in outputs.items()}


UNITS = {"arrival_rate": "rps", "service_rate": "rps", "response_time": "ms", "waiting_time": "ms"}


def wide(row: dict[str, str]) -> Table:
    named = {f"{name}_{UNITS[name]}" if name in UNITS else name: text for name, text in row.items()}
    cells = {"model": f"M/M/{row['servers_m']}", **named}
    return Table("wide.csv", tuple(cells), ((2, cells),))


def long(row: dict[str, str]) -> Table:
    columns = ("model", "servers_m", "kind", "quantity", "unit", "value")
    rows = []
    for line, (name, text) in enumerate(row.items(), start=2):
        if name != "servers_m":
            model = "M/M/1" if row["servers_m"] == "1" else "M/M/m"
            kind, unit = ("input", "1/s") if name.endswith("_rate") else ("predicted", "ms" if name in UNITS else "")
            rows.append((line, dict(zip(columns, (model, row["servers_m"], kind, name, unit, text), strict=True))))
    return Table("long.csv", columns, tuple(rows))


def broken(table: Table) -> list[Finding]:
    return [finding for finding in audit_tables([table]).findings if finding.severity is Severity.BROKEN]


def share_found(form: str, error: str, digits: int, tables: int) -> float:
    rng = np.random.default_rng([len(error), digits, len(form)])
    made = (model_row(rng, digits, error) for _ in range(tables))
    return float(np.mean([bool(broken(wide(row) if form == "wide" else long(row))) for row in made]))


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("form", ["wide", "long"])
def test_planted_errors_are_found_with_two_digits(form: str, error: str) -> None:
    """Before, one number at a time: 70 % (R for W), 81 % (R doubled), 84 % (C as a power) in the long form, none in the wide one."""
    assert share_found(form, error, 2, 60) >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("form", ["wide", "long"])
def test_planted_errors_are_found_in_many_tables(form: str, error: str, digits: int) -> None:
    assert share_found(form, error, digits, 1000) >= 0.9


def right_tables(tables: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    wrong = []
    for index in range(tables):
        row = model_row(rng, int(rng.integers(2, 6)), given=int(rng.integers(2, 6)))
        wrong += [finding.line() for finding in broken(wide(row) if index % 2 else long(row))]
    return wrong


def test_right_tables_of_models_raise_no_alarm() -> None:
    assert right_tables(200, 1) == []


@pytest.mark.long
def test_right_tables_of_models_raise_no_alarm_in_1600() -> None:
    assert right_tables(1600, 2) == []


def test_a_wait_that_is_the_response_time_contradicts_every_rate() -> None:
    """R - W = 0 leaves no time for the service, whatever rate prints as 10000."""
    texts = {"arrival_rate": "8000", "service_rate": "10000", "response_time": "0.00050", "waiting_time": "0.00050"}
    numbers = {name: number for name, text in texts.items() if (number := printed(text)) is not None}
    assert not station_exists(numbers, 1)
    assert not laws_hold(numbers)
    right = printed("0.00040")
    assert right is not None
    assert station_exists(numbers | {"waiting_time": right}, 1)
    assert laws_hold(numbers | {"waiting_time": right})


def test_the_number_that_stands_alone_is_named() -> None:
    texts = {
        "model": "M/M/1", "arrival_rate_rps": "8000", "service_rate_rps": "10000", "utilization": "0.80", "jobs_in_system": "4.0",
        "jobs_in_queue": "3.2", "response_time_ms": "1.0", "waiting_time_ms": "0.40",
    }  # fmt: skip
    (finding,) = broken(Table("t.csv", tuple(texts), ((2, texts),)))
    assert finding.quantity == "response_time"
    assert "without response_time the others agree" in finding.line()


def test_measured_numbers_obey_laws_and_no_model() -> None:
    """Without a model named, a response time far from M/M/1's is no error; one that differs from W + S is."""
    texts = {"arrival_rate_rps": "900", "service_time_ms": "1.0", "waiting_time_ms": "2.0", "response_time_ms": "3.0"}
    texts |= {"jobs_in_queue": "1.8"}
    assert broken(Table("t.csv", tuple(texts), ((2, texts),))) == []
    (finding,) = broken(Table("t.csv", tuple(texts), ((2, texts | {"response_time_ms": "6.0"}),)))
    assert "R = W + S" in finding.law
