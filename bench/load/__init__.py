"""Benchmarks of `weir load` itself: what `bench/load-freeze` and `bench/compare-load` share."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.peers import machine
from tests.harness.processes import ROOT

Record = dict[str, Any]


def new_folder(wanted: Path | None, name: str) -> Path:
    """A folder for the results that is not there yet: a dated run is never written over."""
    base = wanted or ROOT / "bench" / "runs" / f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}-{name}"
    for number in range(1, 100):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder
    sys.exit(f"{name}: {base} and 98 more exist; remove some or choose another with --output")


def publish(folder: Path, weir: Path, table: str, how: str) -> None:
    """Writes what a reader of the run needs beside the raw data: the table, the command, the machine."""
    facts = machine.facts(weir)
    (folder / "machine.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    listed = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    command = shlex.join([".venv/bin/python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    text = f"""# {folder.name}

`{command}`, finished {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC.

{table}
{how}

| machine | |
|---|---|
{listed}
"""
    (folder / "README.md").write_text(text)


def rows(header: list[str], cells: Iterable[list[str]]) -> str:
    """A Markdown table whose columns but the first are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join("| " + " | ".join(row) + " |\n" for row in [header, rule, *cells])


def milliseconds(nanos: float | None) -> str:
    return "-" if nanos is None else f"{nanos / 1e6:.4g}"
