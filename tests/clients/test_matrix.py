"""`make test-clients` reads what clients say, and fails where memcached passes and Weir does not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.harness.processes import ROOT

from .matrix.results import (
    CATALOGUE,
    FAILED,
    PASSED,
    SKIPPED,
    Finding,
    Result,
    Unreadable,
    count,
    findings,
    from_go,
    from_junit,
    from_lines,
    table,
)
from .matrix.subjects import CERTIFICATE, PASSWORD, TLS_PASSWORD
from .matrix.suites import SUITES, verify
from .matrix.workshop import SOURCES, Trouble, call

PLAIN = {"a": Result(PASSED), "b": Result(FAILED, "own"), "c": Result(SKIPPED)}


def test_what_memcached_passes_weir_must_pass() -> None:
    assert findings(PLAIN, "weir", PLAIN, {}) == []
    assert findings(PLAIN, "weir", PLAIN | {"a": Result(FAILED, "late")}, {}) == [Finding("a", "weir", "failed: late")]
    assert findings(PLAIN, "weir", PLAIN | {"a": Result(SKIPPED)}, {}) == [Finding("a", "weir", "skipped: ")]
    assert findings(PLAIN, "weir", {}, {}) == [Finding("a", "weir", "not run: ")]
    assert findings(PLAIN, "weir", PLAIN | {"b": Result(PASSED)}, {}) == []


def test_a_difference_on_purpose_has_its_reason() -> None:
    weir = PLAIN | {"a": Result(FAILED, "b'flush_all not allowed'")}
    [found] = findings(PLAIN, "weir", weir, {"flush_all not allowed": "it empties every cache"})
    assert found.on_purpose == "it empties every cache"
    for pattern in ("stats", "weir, R = 2: a: .*flush_all", "weir: b: .*flush_all"):
        [other] = findings(PLAIN, "weir", weir, {pattern: "it is said of another test"})
        assert not other.on_purpose
    [same] = findings(PLAIN, "weir", weir, {"weir: a: .*flush_all": "it empties every cache"})
    assert same.on_purpose


def test_flows_say_a_word_about_each() -> None:
    lines = [f"passed {name}" for name in CATALOGUE]
    assert from_lines("\n".join(lines)) == dict.fromkeys(CATALOGUE, Result(PASSED))
    lines[3:5] = [f"failed {CATALOGUE[3]}: why: this", f"skipped {CATALOGUE[4]}: no such call"]
    found = from_lines("\n".join(lines))
    assert found[CATALOGUE[3]] == Result(FAILED, "why: this")
    assert found[CATALOGUE[4]] == Result(SKIPPED, "no such call")
    assert count(found) == f"{len(CATALOGUE) - 2}/1/1"
    for wrong in (lines[1:], [*lines, "passed unheard of"], [*lines, "Segmentation fault"]):
        with pytest.raises(Unreadable):
            from_lines("\n".join(wrong))


def test_junit_is_read() -> None:
    document = """<testsuites><testsuite>
        <testcase classname="m" name="good"/>
        <testcase classname="m" name="bad"><failure message="no&#10;more">long</failure></testcase>
        <testcase classname="m" name="broken"><error message="gone"/></testcase>
        <testcase classname="m" name="left"><skipped/></testcase>
    </testsuite></testsuites>"""
    assert from_junit(document) == {
        "m::good": Result(PASSED),
        "m::bad": Result(FAILED, "no"),
        "m::broken": Result(FAILED, "gone"),
        "m::left": Result(SKIPPED),
    }


def test_go_is_read() -> None:
    output = """=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    b_test.go:9: get:
        miss
--- FAIL: TestB (0.01s)
=== RUN   TestC
--- SKIP: TestC (0.00s)
FAIL
"""
    assert from_go(output) == {
        "TestA": Result(PASSED),
        "TestB": Result(FAILED, "b_test.go:9: get: miss"),
        "TestC": Result(SKIPPED),
    }


def test_tables_line_up() -> None:
    assert table(["a", "long head"], [["longer", "x"], ["y", "z"]]) == "a       long head\nlonger  x\ny       z"


def test_a_program_that_fails_or_hangs_is_reported() -> None:
    with pytest.raises(Trouble, match="exit status 3"):
        call(["sh", "-c", "echo why; exit 3"])
    with pytest.raises(Trouble, match="still running"):
        call(["tail", "-f", "/dev/null"], limit_s=0.1)
    with pytest.raises(Trouble, match="is not on PATH"):
        call(["no-such-program"])


def test_every_client_is_pinned() -> None:
    for suite in SUITES:
        assert suite.version()
        assert (SOURCES / suite.lock).is_file()


def test_what_is_not_the_listed_archive_is_refused(tmp_path: Path) -> None:
    archive, sums = tmp_path / "client.gem", tmp_path / "archives.sha256"
    archive.write_bytes(b"as published")
    sums.write_text(f"{hashlib.sha256(b'as published').hexdigest()}  client.gem\n")
    verify(archive, sums)
    archive.write_bytes(b"as changed")
    with pytest.raises(Trouble, match=r"client\.gem is not what"):
        verify(archive, sums)


def test_the_page_says_what_each_client_can() -> None:
    page = (ROOT / "docs" / "operate" / "clients.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    said = {row[0]: row[3:] for row in rows}
    for suite in SUITES:
        if suite.what == "flows":
            tls = {TLS_PASSWORD, CERTIFICATE} & {*suite.secured}
            can = (PASSWORD in suite.secured, tls, CERTIFICATE in suite.secured)
            assert said[suite.client] == ["yes" if one else "no" for one in can], suite.client
