"""What `bench/tls` makes of its runs: medians, the ratios of each round, and whether weir is where it is to be.

A comparison has two subjects, `weir` and `other`. A ratio is that of their two runs of one round, and only rounds count
in which both runs do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.load import rows

from .targets import Target

Record = dict[str, Any]

# What stands beside weir.
OTHERS = {"servers": "TLS to memcached", "clients": "TLS to HAProxy", "stunnel": "TLS to stunnel"}

THROUGHPUT = "requests/s"
PROXY_CPU = "CPU of the proxy, us per request"
SERVERS_CPU = "CPU of memcached, us per request"

TARGETS = [
    Target("servers", THROUGHPUT, 1.5, "at least", OTHERS["servers"]),
    Target("servers", SERVERS_CPU, 0.5, "at most", OTHERS["servers"]),
    Target("clients", THROUGHPUT, 1.3, "at least", OTHERS["clients"]),
    Target("clients", PROXY_CPU, 1.0, "at most", OTHERS["clients"]),
]


def throughput(record: Record) -> float:
    measured = record["load"]["phases"]["measured"]
    return float(measured["requests"] / measured["duration_ns"] * 1e9)


def cpu_us(record: Record, role: str) -> float | None:
    found = record["cpu"]["per_request_ns"].get(role)
    return None if found is None else float(found) / 1e3


def proxy_cores(record: Record) -> float | None:
    """1: its core had no time left."""
    found = record["cpu"]["proxy_cores"]
    return None if found is None else float(found)


MEASURES: dict[str, Callable[[Record], float | None]] = {
    THROUGHPUT: throughput,
    PROXY_CPU: lambda record: cpu_us(record, "proxy"),
    "share of the proxy's core that was busy": proxy_cores,
    SERVERS_CPU: lambda record: cpu_us(record, "servers"),
    "CPU of the load, us per request": lambda record: cpu_us(record, "load"),
}


def pairs(records: Sequence[Record], comparison: str) -> list[tuple[Record, Record]]:
    """Weir and the other, of each round that counts."""
    found: dict[int, dict[str, Record]] = {}
    for record in records:
        if record["comparison"] == comparison and not record["problems"]:
            found.setdefault(record["round"], {})[record["subject"]] = record
    return [(pair["weir"], pair["other"]) for pair in found.values() if len(pair) == 2]


def ratios(records: Sequence[Record], comparison: str, measure: str) -> list[float]:
    """Of each round that counts; nothing where one of the two has no such measure."""
    read = MEASURES[measure]
    both = [(read(ours), read(theirs)) for ours, theirs in pairs(records, comparison)]
    return [our / their for our, their in both if our and their]


def table(records: Sequence[Record]) -> str:
    """Medians over the rounds that count; a ratio is the median of the rounds' ratios, with the least and the most."""
    lines = []
    for name, other in OTHERS.items():
        made = pairs(records, name)
        for what, read in MEASURES.items() if made else ():
            ours, theirs = ([read(pair[place]) for pair in made] for place in (0, 1))
            cells = [middle(ours), middle(theirs), said(ratios(records, name, what)), str(len(made))]
            lines.append([f"{name}: Weir beside {other}, {what}", *cells])
    return rows(["", "Weir", "other", "ratio", "rounds"], lines)


def verdicts(records: Sequence[Record], comparisons: Sequence[str], rounds: int) -> tuple[str, bool]:
    """A table of what Weir is held to, and whether all of it was seen, in as many rounds as were wanted."""
    lines, are_met = [], True
    for target in TARGETS:
        if target.cell not in comparisons:
            continue
        found = ratios(records, target.cell, target.measure)
        if len(found) < rounds:
            verdict = f"**open**: {len(found)} of {rounds} rounds count"
        else:
            verdict = "met" if target.is_met(median(found)) else "**missed**"
        are_met = are_met and verdict == "met"
        ratio = f"{target.cell}: {target.measure}, Weir / {target.peer}"
        lines.append([ratio, f"{target.kind} {target.bound:g}", said(found), verdict])
    return rows(["ratio", "wanted", "seen", ""], lines), are_met


def said(found: Sequence[float]) -> str:
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "-"


def middle(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.4g}" if known else "-"
