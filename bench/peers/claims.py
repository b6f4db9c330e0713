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
from .table import MEASURES, all_ratios, cells_of, markdown, measured, number
from .targets import verdicts

Record = dict[str, Any]

BEGIN = "<!-- begin: bench/compare-peers --publish {} -->"
END = "<!-- end: bench/compare-peers -->"
# Every load for the run's own page, and the few of README.
PICTURE, PICTURE_SHORT = "peers.svg", "peers-short.svg"
# README's width.
COLUMNS = 100

# What a reader of README sees: the usual load, two in which batching decides, and one that Weir does not win.
SHOWN = ("c64", "c64-d10", "c64-k9", "own-c8")
SHOWN_MAX = len(SHOWN)

HEADINGS = ["load", "1000/s: Weir", "twemproxy", "HAProxy", "direct", "µs: Weir", "twemproxy", "HAProxy"]
SUBJECTS = ("weir", "nutcracker", "haproxy", "direct")


def section(run: str, records: Sequence[Record]) -> str:
    """The part of README between its marks."""
    counted = [record for record in records if not record["problems"]]
    cells = cells_of(counted)
    shown = shown_of(cells)
    runs = [runs_of(counted, cell, subject) for cell in shown for subject in SUBJECTS]
    rounds = sorted({len(found) for found in runs if found})
    said = f"{rounds[0]}" if rounds[0] == rounds[-1] else f"{rounds[0]} to {rounds[-1]}"
    explained = (
        "In thousands of requests per second, then in µs of the proxy's CPU time per request: medians of "
        f"{said} undisturbed rounds. The chart has every round's ratios to twemproxy."
    )
    lines = [
        f"![Weir over twemproxy, in four loads]({run}/{PICTURE_SHORT})",
        "",
        *markdown(HEADINGS, [row(counted, cell) for cell in shown], words=1),
        "",
        *filled(explained),
        "",
        *filled(f"{losses(counted, cells)} Details: [the run]({run}/README.md)."),
    ]
    return "\n".join([BEGIN.format(run), *lines, END])


def shown_of(cells: Sequence[Cell]) -> list[Cell]:
    """The loads of README; of a run that has none of them, its first."""
    return [cell for cell in cells if cell.name in SHOWN] or list(cells[:SHOWN_MAX])


def in_short(counted: Sequence[Record]) -> list[Record]:
    """The runs of README's loads, for its picture."""
    shown = {cell.name for cell in shown_of(cells_of(counted))}
    return [record for record in counted if record["cell"] in shown]


def filled(paragraph: str) -> list[str]:
    return textwrap.wrap(paragraph, COLUMNS, break_on_hyphens=False, break_long_words=False)


def runs_of(counted: Sequence[Record], cell: Cell, subject: str) -> list[Record]:
    return [record for record in counted if (record["cell"], record["subject"]) == (cell.name, subject)]


def row(counted: Sequence[Record], cell: Cell) -> list[str]:
    def middle(subject: str, measure: str) -> str:
        return number(measured(runs_of(counted, cell, subject), cell, MEASURES[measure]), 1)

    rates = [middle(subject, "throughput") for subject in SUBJECTS]
    costs = [middle(subject, "proxy_cpu") for subject in SUBJECTS[:-1]]
    return [cell.describe(), *rates, *costs]


# For each measure of the picture: whether more or less is better, and its name in a sentence.
JUDGED = {"throughput": (1, "throughput"), "proxy_cpu": (-1, "CPU per request"), "p99": (-1, "99th percentile")}
# A relay of bytes to one server does less: what it wins is said, too.
PEERS = {"nutcracker": "twemproxy", "haproxy": "HAProxy"}
# Ratios that print as 1.00 are no loss.
LOST_FROM = 0.005


def losses(counted: Sequence[Record], cells: Sequence[Cell]) -> str:
    """In how many loads a peer is better at the median, where most, and how many of our own targets are met."""
    lost = " and ".join(f"to {name} in {lost_to(counted, cells, peer)}" for peer, name in PEERS.items())
    said = [
        f"Of the run's {len(cells)} loads Weir loses {lost}: by throughput, CPU time or 99th percentile, "
        "at the median.",
        *(it for peer in PEERS if (it := worst(counted, cells, peer))),
    ]
    if paired_with_direct := [middle for cell in cells if (middle := rate_beside_direct(counted, cell)) is not None]:
        better = sum(middle < 1.0 - LOST_FROM for middle in paired_with_direct)
        said.append(f"Without a proxy, throughput is higher in {better or 'none'} of {len(paired_with_direct)} loads.")
    if targets := verdicts(all_ratios(counted, cells)):
        met = sum(target[-1] == "met" for target in targets)
        said.append(f"Weir meets {met} of the {len(targets)} targets that its authors set.")
    return " ".join(said)


def lost_to(counted: Sequence[Record], cells: Sequence[Cell], peer: str) -> str:
    return str(sum(bool(worse(counted, cell, peer)) for cell in cells) or "none")


def worse(counted: Sequence[Record], cell: Cell, peer: str) -> dict[str, float]:
    """Medians of the measures in which the peer is better, by the measure's name in a sentence."""
    medians = {name: median(values) for name in JUDGED if (values := ratios(counted, cell, name, peer))}
    return {
        JUDGED[name][1]: middle for name, middle in medians.items() if JUDGED[name][0] * (middle - 1.0) < -LOST_FROM
    }


def worst(counted: Sequence[Record], cells: Sequence[Cell], peer: str) -> str:
    """The load in which Weir is behind by the largest factor."""
    lost = {cell: found for cell in cells if (found := worse(counted, cell, peer))}
    if not lost:
        return ""
    cell = max(lost, key=lambda it: max(max(middle, 1.0 / middle) for middle in lost[it].values()))
    numbers = " and its ".join(f"{name} is {middle:.2f} times {PEERS[peer]}'s" for name, middle in lost[cell].items())
    return f"Worst load against {PEERS[peer]}: {cell.describe()}. Weir's {numbers}."


def rate_beside_direct(counted: Sequence[Record], cell: Cell) -> float | None:
    found = ratios(counted, cell, "throughput", "direct")
    return median(found) if found else None


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
