"""Runs public clients against memcached and against Weir, and fails where memcached passes and Weir does not.

    .venv/bin/python -m tests.clients.matrix            all
    .venv/bin/python -m tests.clients.matrix go rust    these languages

Fetches the clients from their registries (versions and contents are pinned in tests/clients) into .tools/clients.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field

from .results import FAILED, PASSED, Finding, Results, Unreadable, count, findings, table
from .subjects import MEMCACHED, SECURED, WEIR, Subject, started
from .suites import LANGUAGES, SUITES, Suite
from .workshop import Trouble


@dataclass
class Outcome:
    suite: Suite
    cells: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    """What fails against memcached itself."""
    trouble: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.trouble) or any(not finding.on_purpose for finding in self.findings)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run public clients against memcached and against Weir.")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(LANGUAGES)}; default: all")
    wanted = parser.parse_args().languages or LANGUAGES
    unknown = set(wanted) - set(LANGUAGES)
    if unknown:
        sys.exit(f"test-clients: no client in {', '.join(sorted(unknown))}; there are {', '.join(LANGUAGES)}")
    outcomes = [run(suite) for suite in SUITES if suite.language in wanted]
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
        for subject in (*WEIR, *([SECURED] if suite.run_secured else [])):
            weir = run_against(suite, subject, outcome)
            outcome.findings += findings(memcached, subject.name, weir, suite.intended)
    except (Trouble, Unreadable) as trouble:
        outcome.trouble = str(trouble)
        print(f"   {trouble}", flush=True)
    return outcome


def run_against(suite: Suite, subject: Subject, outcome: Outcome) -> Results:
    with started(subject) as at:
        if subject.secured and suite.run_secured:
            results = suite.run_secured(at.address, at.environment)
        else:
            results = suite.run(at.address)
    outcome.cells.append(count(results))
    print(f"   {subject.name}: {outcome.cells[-1]}", flush=True)
    return results


def conclude(outcomes: list[Outcome]) -> int:
    subjects = [subject.name for subject in (MEMCACHED, *WEIR, SECURED)]
    rows = []
    for outcome in outcomes:
        wanted = len(subjects) - (outcome.suite.run_secured is None)
        cells = outcome.cells + ["not run"] * (wanted - len(outcome.cells))
        cells += ["cannot"] * (len(subjects) - wanted)
        rows.append([outcome.suite.client, outcome.suite.version(), outcome.suite.what, *cells])
    print(f"\npassed/failed/skipped\n{table(['client', 'version', 'tests', *subjects], rows)}\n")
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
