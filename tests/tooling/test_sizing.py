"""docs/operate/sizing.md says what its run and `weir-lab capacity` say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operate/sizing.md").read_text()

# The rows of the table by their cells in the comparison.
ROWS = {
    "c8": "8 connections, one request each",
    "c64": "64 connections, one request each",
    "c384": "384 connections, one request each",
    "c64-d10": "64 connections, 10 requests each",
    "c64-k9": "64 connections, gets of 9 keys",
    "c64-v4096": "64 connections, values of 4 KiB",
}


def interval(values: list[float]) -> str:
    half = stats.t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.1f} ± {half:.1f}"


def test_the_costs_are_those_of_the_run() -> None:
    run = re.search(r"bench/runs/[\w-]+", PAGE)
    assert run is not None
    records = [json.loads(line) for line in (ROOT / run[0] / "runs.jsonl").read_text().splitlines()]
    for cell, said in ROWS.items():
        counted = [it for it in records if (it["cell"], it["subject"], it["problems"]) == (cell, "weir", [])]
        costs = [interval([it["cpu"]["per_request_ns"][role] / 1e3 for it in counted]) for role in ("proxy", "servers")]
        assert f"| {said} | {costs[0]} | {costs[1]} |" in PAGE


def test_the_answer_is_that_of_the_command() -> None:
    found = re.search(r"^\$ weir-lab (.+)\n((?:.*\n)*?)…$", PAGE, re.MULTILINE)
    assert found is not None
    command = [str(Path(sys.executable).with_name("weir-lab")), *shlex.split(found[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(found[2])
