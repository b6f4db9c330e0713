"""The audit finds the errors of the studies that were listed before it was written, and none in rows that are right."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import weir_lab
from weir_lab.cli import app
from weir_lab.errors import RecordError
from weir_lab.report.audit import AuditReport, Finding, Severity, audit_tables, printed, read_tables

DATA = Path(weir_lab.__path__[0]) / "report" / "oracles" / "data"
HERE = Path(__file__).parent / "oracles"
FILES = [
    DATA / f"{name}.csv"
    for name in (
        "queueing_published",
        "network_of_queues_published",
        "max_throughput_middleware",
        "max_throughput_full_system",
        "network",
        "s2_overhead",
        "twok_r_observations",
        "twok_r_published_cells",
        "twok_r_published_effects",
    )
]
POPULATIONS = (6, 24, 48, 96, 144, 192, 384)

# id of the error -> what a finding about it has in its line; all words must be there
FOUND_BY = {
    "E02": ("s2_overhead", "quantity=throughput", "-49.38 %"),
    "E03": ("s2_overhead", "quantity=response_time", "+507.22 %"),
    "E04": ("Table 5 / Table 6", "percent of variation B 32.4"),
    "E05": ("Table 7 / Table 8", "effect AC 0.77", "sign is wrong"),
    "E06": ("Table 9", "input service_rate", "measured to serve"),
    "E07": ("Table 9", "worker_threads=32", "predicted utilization 0.98"),
    "E08": ("doubt", "Table 9", "predicted jobs_in_system", "print more digits"),
    "E09": ("Table 9", "worker_threads=8", "observed response_time", "R >= S"),
    "E10": ("Table 9", "observed jobs_in_queue 1.3", "Little"),
    "E11": ("Table 10", "worker_threads=8", "predicted jobs_in_system 83.96"),
    "E12": ("Table 10", "worker_threads=64", "predicted utilization 0.98"),
    "E13": ("Table 10", "worker_threads=16", "no steady state"),
    "E14": ("Table 11", "input service_rate 552", "1/S"),
    "E15": ("Table 12", "worker_threads=16", "predicted utilization 0.92"),
    "E16": ("Table 12", "observed jobs_in_system 2", "Little"),
    "E17": ("Table 14", "clients_per_thread=64", "throughput_server 12260.1"),
    "E18": ("Table 15", "utilization_worker 1.00646", "U <= 1"),
    "E19": ("study=S3 middlewares=1 workload=write measured_at=client", "R = N/X"),
    "E20": ("study=S3 middlewares=2 workload=write measured_at=client", "R = N/X"),
    "E23": ("S5 Table 2", "percent of variation Z 0.05"),
    "E24": ("doubt", "S5 write row 2", "X R 16.499"),
    "E25": ("network.csv", "published_max_ops_s 6250"),
    "E26": ("doubt", "study=S5 middlewares=1 workload=write measured_at=middleware"),
    "E27": ("study=S5 middlewares=2 workload=write measured_at=client", "R = N/X"),
    "E28": ("study=S5", "queue_length 22", "Little"),
    "E29": ("study=S5 worker_threads=64", "throughput_from_mw_response_time 17143", "+25.1 %"),
    "E31": ("input table of section 7", "input service_rate 8278", "measured to serve"),
    "E32": ("input table of section 7", "worker_threads=32", "no steady state"),
    "E33": ("Table 5", "worker_threads=32", "predicted jobs_in_queue 1796.46"),
}
# Errors that stand in prose or rest on rounded quotations: no table carries them.
NOT_FOUND = {
    "E01": "a definition in a sentence",
    "E21": "a difference of two values quoted to two digits: 2,200 and 2,400 both fit what prints like 8.4k and 14.4k",
    "E22": "a formula in a sentence",
    "E30": "ratios in a sentence",
}


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return audit_tables(read_tables(FILES), POPULATIONS)


def must_find() -> list[dict[str, str]]:
    with (HERE / "audit_must_find.csv").open(encoding="utf-8") as text:
        return list(csv.DictReader(text))


def test_every_listed_error_is_accounted_for() -> None:
    assert sorted(FOUND_BY | NOT_FOUND) == [row["id"] for row in must_find()]


@pytest.mark.parametrize("error", sorted(FOUND_BY))
def test_a_listed_error_is_found(report: AuditReport, error: str) -> None:
    lines = [finding.line() for finding in report.findings]
    assert any(all(word in line for word in FOUND_BY[error]) for line in lines)


def checks_that_are_right() -> set[tuple[str, ...]]:
    """(study, location, item words, quantity) of printed numbers that were checked by hand and found right or plausible."""
    with (HERE / "recomputed_checks.csv").open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    right = ("right", "plausible")
    return {
        (row["study"], row["location"], row["item"], row["quantity"])
        for row in rows
        if row["verdict"].startswith(right)
    }


def check_of(finding: Finding) -> tuple[str, ...]:
    """The hand-made check that is about the same number, in that table's words."""
    key = finding.key
    if finding.law == "2^k r":
        return (key["study"], key["location"], f"2^k r {key['workload']} {key['response']}", finding.quantity)
    if "model" in key:
        clients = f" {key['total_clients']} clients" if key["total_clients"] else ""
        words = {
            "observed jobs_in_system": "observed n against Little's law lambda*r"
            if "Little" in finding.law
            else "observed n must not be below observed n_q",
            "observed jobs_in_queue": "observed n_q against Little's law lambda*w",
            "observed response_time": "observed response time against waiting + memcached"
            if "W + S" in finding.law
            else "observed response time must not be below time waiting for memcached",
            "predicted jobs_in_system - jobs_in_queue": "identity n - n_q = busy servers",
            "predicted utilization": "printed utilization against the one its own n_q needs"
            if "n_q" in finding.law
            else "predicted utilization",
            "input service_rate": "service rate against 1/service time" if "1/S" in finding.law else "",
        }
        quantity = words.get(finding.quantity, finding.quantity)
        return (key["study"], key["location"], f"{key['model']}{clients} {key['worker_threads']} workers", quantity)
    return (key.get("study", ""), key.get("location", ""), finding.quantity)


def test_nothing_is_called_broken_that_is_right(report: AuditReport) -> None:
    right = checks_that_are_right()
    wrong = [f.line() for f in report.findings if f.severity is Severity.BROKEN and check_of(f) in right]
    assert wrong == []
    # The words above do reach the hand-made checks: most findings are about numbers that were found wrong there.
    with (HERE / "recomputed_checks.csv").open(encoding="utf-8") as text:
        bad = {
            (r["study"], r["location"], r["item"], r["quantity"])
            for r in csv.DictReader(text)
            if "WRONG" in r["verdict"]
        }
    assert sum(check_of(finding) in bad for finding in report.findings) > 75


def test_correct_tables_are_silent(tmp_path: Path) -> None:
    table = tmp_path / "good.csv"
    table.write_text("run,clients,throughput_ops_s,response_time_ms\na,16,8000,2.00\nb,32,15900,2.01\n")
    assert audit_tables(read_tables([table])).findings == ()


def test_a_broken_row_of_an_own_table_is_found(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("run,clients,throughput_ops_s,response_time_ms\na,16,8000,2.00\nb,32,15900,2.51\n")
    (finding,) = audit_tables(read_tables([table])).findings
    assert finding.quantity == "X R"
    assert "own.csv:3" in finding.where
    assert finding.deviation_percent == pytest.approx(24.7, abs=0.1)
    result = CliRunner().invoke(app, ["audit", str(table)])
    assert result.exit_code == 3
    assert "1 broken laws" in result.output


@pytest.mark.parametrize("content", [b"", b"a,b\n", b"\xff\xfe\x00", b'a,b\n"1,2\n'])
def test_what_is_no_table_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(RecordError, match=r"bad\.csv"):
        read_tables([tmp_path / "bad.csv"])
    with pytest.raises(RecordError, match="none"):
        read_tables([tmp_path / "none.csv"])


@given(st.text(alphabet='0123456789.,-+eE nainf\n"quantity,value;', max_size=200))
def test_no_file_makes_the_audit_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_text("kind,model,worker_threads,quantity,unit,value\n" + text, encoding="utf-8")
    with contextlib.suppress(RecordError):
        audit_tables(read_tables([path]), POPULATIONS)


NUMBERS = st.sampled_from(["0", "-1", "1", "1e200", "1e-200", "99999999", "0.5", "nan", "inf", "", "x", "5400"])


@settings(max_examples=60)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4), st.integers(0, len(FILES) - 1))
def test_absurd_numbers_in_a_known_form_are_survived(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], file: int
) -> None:
    """The first lines of a real table with its numbers replaced."""
    with FILES[file].open(encoding="utf-8") as text:
        lines = list(csv.reader(text))
    head, body = lines[0], lines[1 : 1 + 8 * len(rows)]
    for index, line in enumerate(body):
        numbers = [
            column
            for column, name in enumerate(head)
            if name not in ("study", "quantity", "kind", "model", "term", "unit")
        ]
        for offset, value in enumerate(rows[index % len(rows)]):
            line[numbers[-1 - offset % len(numbers)]] = value
    path = tmp_path_factory.mktemp("absurd") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([head, *body])
    audit_tables(read_tables([path]), POPULATIONS)


@given(st.decimals(-1000, 1000, places=3))
def test_a_number_lies_in_the_range_of_its_rounded_and_cut_forms(number: object) -> None:
    value = float(str(number))
    for text in (f"{value:.2f}", f"{int(value * 100) / 100:.2f}"):
        range_ = printed(text)
        assert range_ is not None
        assert range_.low - 1e-9 <= value <= range_.high + 1e-9


def test_zeros_at_the_end_are_not_significant() -> None:
    assert printed("5400") == printed("5400.")
    half = printed("5400")
    assert half is not None
    assert (half.low, half.high) == (5350.0, 5500.0)
    assert printed("") is None
    assert printed("n/a") is None
    assert printed("nan") is None
