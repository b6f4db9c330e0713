"""What README says of a comparison, made from its run and from nothing else."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .cells import Cell
from .picture import ratios
from .table import MEASURES, cells_of, markdown, measured, number
from .targets import TARGETS

Record = dict[str, Any]

BEGIN = "<!-- begin: bench/compare-peers --publish {} -->"
END = "<!-- end: bench/compare-peers -->"
PICTURE = "peers.svg"

HEADINGS = [
    "load",
    "requests/s in 1000: Weir", "twemproxy", "HAProxy", "direct",
    "CPU, µs per request: Weir", "twemproxy", "HAProxy",
    "Weir / twemproxy: throughput", "CPU", "p99",
]  # fmt: skip
SUBJECTS = ("weir", "nutcracker", "haproxy", "direct")


def section(run: str, records: Sequence[Record]) -> str:
    """The part of README between its marks."""
    counted = [record for record in records if not record["problems"]]
    cells = cells_of(counted)
    rounds = sorted({len(ratios(counted, cell, "throughput")) for cell in cells})
    said = f"{rounds[0]}" if rounds[0] == rounds[-1] else f"{rounds[0]} to {rounds[-1]}"
    lines = [
        f"![Throughput, CPU and 99th percentile, Weir over twemproxy]({run}/{PICTURE})",
        "",
        *markdown(HEADINGS, [row(counted, cell) for cell in cells], words=1),
        "",
        f"Medians of {said} undisturbed rounds; ratios are taken inside each round (smallest to largest).",
        *losses(counted, cells),
    ]
    return "\n".join([BEGIN.format(run), *lines, END])


def row(counted: Sequence[Record], cell: Cell) -> list[str]:
    cpu, rate = MEASURES["proxy_cpu"], MEASURES["throughput"]

    def middle(subject: str, measure: str) -> str:
        runs = [record for record in counted if (record["cell"], record["subject"]) == (cell.name, subject)]
        what = {"cpu": cpu, "rate": rate}[measure]
        return number(measured(runs, cell, what), 1)

    rates = [middle(subject, "rate") for subject in SUBJECTS]
    costs = [middle(subject, "cpu") for subject in SUBJECTS[:-1]]
    return [
        cell.describe(),
        *rates,
        *costs,
        *(spread(ratios(counted, cell, it)) for it in ("throughput", "proxy_cpu", "p99")),
    ]


def spread(found: Sequence[float]) -> str:
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "-"


# A relay of bytes to one server does less: what it wins is said, too.
PEERS = {"nutcracker": "twemproxy", "haproxy": "HAProxy"}


def losses(counted: Sequence[Record], cells: Sequence[Cell]) -> list[str]:
    """Where a peer is better at the median, and which of our own targets are missed."""
    said = " ".join(lost_to(peer, counted, cells) for peer in PEERS)
    return textwrap.wrap(
        f"{said} Weir was to reach more than parity in places: the run's own table has all {len(TARGETS)} targets, met "
        "and missed.",
        120,
        break_on_hyphens=False,
    )


def lost_to(peer: str, counted: Sequence[Record], cells: Sequence[Cell]) -> str:
    signs = {"throughput": 1, "proxy_cpu": -1, "p99": -1}
    words = {"throughput": "throughput", "proxy_cpu": "CPU per request", "p99": "99th percentile"}
    found = []
    for cell in cells:
        worse = [
            f"{words[name]} {middle:.2f}"
            for name, sign in signs.items()
            if (values := ratios(counted, cell, name, peer)) and sign * ((middle := median(values)) - 1.0) < -0.005
        ]
        if worse:
            found.append(f"{cell.describe()} ({', '.join(worse)})")
    where = f"at the median with {'; '.join(found)}" if found else "nowhere at the median"
    return f"To {PEERS[peer]} Weir loses {where}."


def publish(readme: Path, run: str, records: Sequence[Record]) -> None:
    """Puts the section into the file, in the place of the one that is there."""
    text = readme.read_text()
    found = pattern().search(text)
    if found is None:
        raise ValueError(f"{readme} has no section between {BEGIN.format('RUN')} and {END}")
    readme.write_text(text[: found.start()] + section(run, records) + text[found.end() :])


def pattern() -> re.Pattern[str]:
    """A section of README; its group is the run that it was made from."""
    return re.compile(re.escape(BEGIN).replace(r"\{\}", "(.*?)") + r".*?" + re.escape(END), re.DOTALL)
