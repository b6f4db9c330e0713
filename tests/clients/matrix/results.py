"""What the tests of one client said, and what that says about Weir."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

CATALOGUE = (
    "set and get", "absent key", "flags", "multi-get", "add", "replace", "append and prepend", "cas", "incr and decr",
    "incr of text", "touch", "get and touch", "expired at once", "delete", "noreply", "empty value",
    "values like the protocol", "large value", "value too large", "longest key", "key too long", "version", "stats",
    "concurrency", "flush",
)  # fmt: skip
"""Every program of flows runs these, or says why it cannot."""


@dataclass(frozen=True)
class Result:
    outcome: str
    detail: str = ""


Results = Mapping[str, Result]


@dataclass(frozen=True)
class Finding:
    """A test that memcached passes and Weir does not."""

    test: str
    subject: str
    detail: str
    on_purpose: str = ""
    """The reason, where the test asks for what Weir refuses on purpose."""


class Unreadable(Exception):  # noqa: N818 (says what the output is)
    """The output of a client's tests is not what its kind of output is."""


def from_lines(output: str, more: Sequence[str] = ()) -> Results:
    """Of a program of flows: `passed NAME`, `failed NAME: why` or `skipped NAME: why` for each of the catalogue, and
    for more that only this client can do."""
    results = {}
    for line in output.splitlines():
        found = re.fullmatch(r"(passed|failed|skipped) ([a-z -]+)(?:: (.*))?", line)
        if found is None:
            raise Unreadable(f"not a line about a flow: {line!r}")
        results[found[2]] = Result(found[1], found[3] or "")
    if set(results) != {*CATALOGUE, *more}:
        raise Unreadable(f"missing or unheard of: {', '.join(sorted({*CATALOGUE, *more} ^ set(results)))}")
    return results


def from_junit(document: str) -> Results:
    """Of pytest, in the form that many tools read."""
    results = {}
    for case in ElementTree.fromstring(document).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        troubles = [child for child in case if child.tag in ("failure", "error")]
        if troubles:
            results[name] = Result(FAILED, str(troubles[0].get("message")).split("\n")[0])
        elif any(child.tag == "skipped" for child in case):
            results[name] = Result(SKIPPED)
        else:
            results[name] = Result(PASSED)
    return results


def from_go(output: str) -> Results:
    """Of a Go test binary with `-test.v`, which prints what a test says before the line with its outcome."""
    words = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
    results = {}
    said: list[str] = []
    for line in output.splitlines():
        found = re.match(r" *--- (PASS|FAIL|SKIP): (\S+) ", line)
        if found is not None:
            results[found[2]] = Result(words[found[1]], " ".join(said))
        if found is not None or line.startswith("=== "):
            said = []
        else:
            said.append(line.strip())
    return results


def findings(memcached: Results, subject: str, weir: Results, intended: Mapping[str, str]) -> list[Finding]:
    """What memcached passes and Weir does not. What fails against memcached too is the client's or memcached's own.

    `intended`: patterns of `SUBJECT: TEST: what Weir says`, each with the reason for which it says so.
    """
    found = []
    for test, result in memcached.items():
        through = weir.get(test, Result("not run"))
        if result.outcome == PASSED and through.outcome != PASSED:
            what = f"{subject}: {test}: {through.detail}"
            reasons = [reason for pattern, reason in intended.items() if re.search(pattern, what)]
            found.append(Finding(test, subject, f"{through.outcome}: {through.detail}", "".join(reasons[:1])))
    return found


def count(results: Results) -> str:
    outcomes = [result.outcome for result in results.values()]
    return "/".join(str(outcomes.count(outcome)) for outcome in (PASSED, FAILED, SKIPPED))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    return "\n".join(line.rstrip() for line in lines)
