"""Runs public clients against memcached and against Weir, and fails where memcached passes and Weir does not.

    .venv/bin/python -m tests.clients.matrix            all
    .venv/bin/python -m tests.clients.matrix go dalli   these languages and clients

Fetches the clients from their registries (versions and contents are pinned in tests/clients) into .tools/clients.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field

from .results import FAILED, PASSED, Finding, Results, Unreadable, count, findings, table
from .subjects import MEMCACHED, SUBJECTS, WEIR, Subject, started
from .suites import NAMES, SUITES, Suite
from .workshop import Trouble


@dataclass
class Outcome:
    suite: Suite
    cells: dict[str, str] = field(default_factory=dict)
    """By the subject's name."""
    findings: list[Finding] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    """What fails against memcached itself."""
    trouble: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.trouble) or any(not finding.on_purpose for finding in self.findings)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run public clients against memcached and against Weir.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    wanted = set(parser.parse_args().names) or set(NAMES)
    unknown = wanted - set(NAMES)
    if unknown:
        sys.exit(f"test-clients: no language or client {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    outcomes = [run(suite) for suite in SUITES if wanted & {suite.language, suite.client}]
    return conclude(outcomes)


def run(suite: Suite) -> Outcome:
    outcome = Outcome(suite)
    print(f"== {suite.client} {suite.version()}: {suite.what}", flush=True)
    try:
        suite.prepare()
        memcached = run_against(suite, MEMCACHED, outcome)
        if all(result.outcome != PASSED for result in memcached.values()):
            raise Trouble("nothing passes against memcached itself: these tests would prove nothing")
        outcome.own = [f"{test}: {one.detail}" for test, one in memcached.items() if one.outcome == FAILED]
        for subject in (*WEIR, *suite.secured):
            weir = run_against(suite, subject, outcome)
            outcome.findings += findings(memcached, subject.name, weir, suite.intended)
    except (Trouble, Unreadable) as trouble:
        outcome.trouble = str(trouble)
        print(f"   {trouble}", flush=True)
    return outcome


def run_against(suite: Suite, subject: Subject, outcome: Outcome) -> Results:
    with started(subject) as at:
        results = suite.run(at)
    outcome.cells[subject.name] = count(results)
    print(f"   {subject.name}: {count(results)}", flush=True)
    return results


def conclude(outcomes: list[Outcome]) -> int:
    rows = []
    for outcome in outcomes:
        suite = outcome.suite
        missing = {subject.name: "not run" for subject in (MEMCACHED, *WEIR, *suite.secured)}
        cells = [(missing | outcome.cells).get(subject.name, "cannot") for subject in SUBJECTS]
        rows.append([suite.client, suite.version(), suite.what, *cells])
    head = ["client", "version", "tests", *(subject.name for subject in SUBJECTS)]
    print(f"\npassed/failed/skipped\n{table(head, rows)}\n")
    for outcome in outcomes:
        name = f"{outcome.suite.client}, {outcome.suite.what}"
        for own in outcome.own:
            print(f"memcached's own or the client's: {name}: {own}")
        for reason, number in Counter(finding.on_purpose for finding in outcome.findings).items():
            if reason:
                print(f"on purpose: {name}: {number} through weir: {reason}")
        for finding in outcome.findings:
            if not finding.on_purpose:
                print(f"FAILED through {finding.subject}: {name}: {finding.test}: {finding.detail}")
        if outcome.trouble:
            print(f"NOT RUN: {name}: {outcome.trouble}")
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"\n{len(outcomes) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
