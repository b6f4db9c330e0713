"""What cannot be read is said by file and line: digits in groups, units in cells, rows and headings that do not fit, odd texts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from test_audit_rows import audited, lines
from weir_lab.cli import app
from weir_lab.errors import LabError, RecordError, StudyError
from weir_lab.report.audit import Severity, Table, audit_tables, read_tables

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "run,clients,X_rps,R_ms"


@pytest.mark.parametrize("shown", ['"15,900"', "15 900", "15\u2009900", "15\u202f900", "15'900", '"15,900.0"', "15900"])
def test_digits_in_groups_are_a_number(tmp_path: Path, shown: str) -> None:
    """Before, such a cell was a name: the row of the manual's own error was never looked at, and the status was 0."""
    report = audited(tmp_path, f"{HEAD}\na,1,950,1.05\nb,32,{shown},2.51\n")
    (found,) = lines(report)
    assert "R = N/X" in found
    assert (report.numbers, report.looked.held, report.unread) == (6, 6, 0)


def test_a_comma_that_may_be_a_decimal_one_is_not_read(tmp_path: Path) -> None:
    report = audited(tmp_path, 'clients,X_rps,R_us\n32,"15,900",2010\n')
    (found,) = lines(report)
    assert found.startswith("not read: t.csv:2 ")
    assert "'15,900': it may be 15900 or 15.900" in found
    decimal = lines(audited(tmp_path, f'{HEAD}\na,1,"15,900","2,51"\nb,32,1.05,2.01\n'))
    assert any("'2,51': it has a decimal comma: write 2.51" in line for line in decimal)
    assert any("'15,900'" in line for line in decimal)


@pytest.mark.parametrize("shown", ["2.51 ms", "2.51±0.1", "2.4-2.6", "~2.5", "<3", "41 %", "1e999", ".5x"])
def test_a_cell_that_is_no_number_alone_is_said_by_its_line(tmp_path: Path, shown: str) -> None:
    report = audited(tmp_path, f"{HEAD}\na,1,950,1.05\nb,32,15900,{shown}\n")
    (finding,) = report.findings
    assert finding.severity is Severity.UNREAD
    assert finding.line().startswith("not read: t.csv:3 run=b")
    assert f"R_ms: {shown!r}: it is no number alone" in finding.line()
    # It is printed, and nothing was held against it.
    assert (report.numbers, report.looked.held, report.unread, report.broken) == (6, 3, 1, 0)
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv")])
    assert "not read: t.csv:3" in result.output
    assert "3 of 6 numbers were held against a law" in result.output


def test_names_and_dashes_are_no_unread_numbers(tmp_path: Path) -> None:
    text = f"{HEAD},users,host,X note\na,1,950,1.05,n/a,4 cores,\nb,32,15900,2.01,-,8 cores,\nc,2,nan,---,many,x,as before\n"
    assert audited(tmp_path, text).unread == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run,clients,X_rps,R_ms,temp\na,32,15,900,2.51,40\n", r"t\.csv:2: 6 cells under 5 headings.*quotation marks"),
        ("clients,X_rps,R_ms\n1,950,1.05\n32,15900\n", r"t\.csv:3: 2 cells under 3 headings"),
        ("clients,X_rps,R_ms,X_rps,R_ms\n32,15900,2.51,15900,2.01\n", r"t\.csv:1: the heading 'X_rps' comes twice"),
        ("run;clients;X_rps\na;1;2\n", r"t\.csv:1: its cells stand between semicolons"),
        ("run\tclients\na\t1\n", r"t\.csv:1: its cells stand between tabs"),
    ],
)
def test_what_does_not_fit_its_headings_is_refused_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    """Before, cells were shifted, dropped, or the last column of a name won."""
    with pytest.raises(RecordError, match=said):
        audited(tmp_path, text)


def test_what_a_spreadsheet_leaves_behind_a_table_does_no_harm(tmp_path: Path) -> None:
    report = audited(tmp_path, f"{HEAD},,\na,32,15900,2.51,,\n,,,,,\n\nb,16,8000,2.00,,\n")
    assert (report.groups, report.numbers, len(report.findings)) == (2, 6, 1)
    assert lines(audited(tmp_path, f"{HEAD}\nb,16,8000,2.00,,\n")) == []


def test_a_quantity_that_stands_twice_in_a_configuration_is_said(tmp_path: Path) -> None:
    """Before, the last won without a word."""
    rows = "M/M/1,input,arrival_rate,1/s,80\nM/M/1,input,service_rate,1/s,100\n"
    twice = f"model,kind,quantity,unit,value\n{rows}M/M/1,predicted,response_time,ms,50\nM/M/1,predicted,response_time,ms,70\n"
    report = audited(tmp_path, twice)
    (found,) = [line for line in lines(report) if line.startswith("not read")]
    assert found.startswith("not read: t.csv:5 ")
    assert "line 4 prints 50 ms" in found
    assert report.broken == 0
    assert audited(tmp_path, twice.replace(",70", ",50")).unread == 0


def test_files_of_one_name_are_distinguished(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "summary.csv" for folder in "ab"]
    for path, value in zip(paths, ("2.51", "2.01"), strict=True):
        path.parent.mkdir()
        path.write_text(f"{HEAD},colour\nb,32,15900,{value},7\n")
    report = audit_tables(read_tables([*paths, paths[0]]))
    assert report.numbers == 8
    (found,) = lines(report)
    assert f"{paths[0]}:2" in found
    assert report.looked.never == {str(path): ("colour",) for path in paths}


def test_the_index_of_a_data_frame_is_no_column(tmp_path: Path) -> None:
    """Before, IndexError for a heading without a name."""
    text = ",row,rep,x1,value\n0,1,1,-1,10\n1,1,2,-1,12\n2,2,1,1,20\n3,2,2,1,22\n"
    assert audited(tmp_path, text).broken == 0
    cells = {"": "0", "row": "1", "rep": "1", "x1": "-1", "value": "10"}
    assert audit_tables([Table("t.csv", tuple(cells), ((2, cells),))]).broken == 0


@pytest.mark.parametrize(
    "columns", [("row", "mean", "response"), ("term", "effect"), ("row", "rep", "x1", "value"), ("quantity", "value")]
)
def test_rows_without_all_cells_are_survived(columns: tuple[str, ...]) -> None:
    """Before, KeyError; files with such rows are refused, but a caller may have made the table."""
    full = dict.fromkeys(columns, "1")
    rows = tuple((line, {name: "1" for name in columns if name != left}) for line, left in enumerate(columns, start=2))
    audit_tables([Table("t.csv", columns, ((1, full), *rows))])


@pytest.mark.parametrize("count", ["²", "9" * 5000, "٣", "-4", "4.0"])
def test_a_number_of_servers_that_is_none_is_survived(tmp_path: Path, count: str) -> None:
    """Before, ValueError: "²" is a digit to `isdigit` and no number to `int`."""
    head = "model,servers_m,lambda_rps,mu_rps,R_ms,W_ms"
    audited(tmp_path, f"{head}\nM/M/m,{count},80,100,50,40\n")
    audited(tmp_path, f"{head}\nM/M/{count},{count},80,100,50,40\n")
    audited(tmp_path, f"row,mean,rep,x1,value\n{count},10,1,1,10\n1,10,1,-1,10\n")


def test_absurd_numbers_of_clients_are_refused(tmp_path: Path) -> None:
    """Before, OverflowError."""
    with pytest.raises(StudyError, match="--clients"):
        audited(tmp_path, "X_rps,R_ms\n100,1.0\n", (10**400,))
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv"), "--clients", "1" + "0" * 400])
    assert isinstance(result.exception, StudyError)


TEXTS = st.text(alphabet='0123456789.,²٣-+eE naxiMm/%±µ\n"', max_size=60)
COLUMNS = [
    "row",
    "rep",
    "x1",
    "value",
    "mean",
    "term",
    "effect",
    "servers_m",
    "N",
    "c",
    "rate",
    "X_rps",
    "R_ms",
    "model",
    "U",
    "",
]


@given(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6), TEXTS)
def test_no_table_ends_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, head: list[str], body: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_text(f"{','.join(head)}\n{body}", encoding="utf-8")
    with contextlib.suppress(LabError):
        audit_tables(read_tables([path]), (4, 8))
