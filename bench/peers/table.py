"""From raw runs to the table: medians over rounds, and ratios of runs that were made one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .cells import CELLS, Cell
from .subjects import BESIDE, NEAR
from .targets import ITSELF, Key, verdicts

Record = dict[str, Any]

# A ratio needs both: the one above the line, the one below it.
RATIOS = [
    *(("weir", peer) for peer in ("nutcracker", "haproxy", "memcached-proxy", "earlier", "direct")),
    (NEAR, "direct"),
    (NEAR, "weir"),
    *((f"weir{BESIDE}", peer) for peer in ("direct", "weir", f"nutcracker{BESIDE}")),
    (f"{NEAR}{BESIDE}", "direct"),
]


@dataclass(frozen=True)
class Measure:
    """One number of a run: its heading with unit, how to read it from the record, and how to print it."""

    heading: str
    read: Callable[[Record, Cell], float | None]
    digits: int


def proxy_cpu_us(record: Record, _cell: Cell) -> float | None:
    per_request_ns = record["cpu"]["per_request_ns"].get("proxy")
    return None if per_request_ns is None else per_request_ns / 1e3


def servers_cpu_us(record: Record, _cell: Cell) -> float | None:
    return float(record["cpu"]["per_request_ns"]["servers"]) / 1e3


def both_cpu_us(record: Record, _cell: Cell) -> float | None:
    """Proxy and servers: CPU time that a proxy saves by making the servers spend it is not saved."""
    per_request_ns = record["cpu"]["per_request_ns"]
    return float(per_request_ns.get("proxy", 0.0) + per_request_ns["servers"]) / 1e3


def kernel_percent(role: str) -> Callable[[Record, Cell], float | None]:
    """How much of a role's CPU time the kernel took; None in runs that did not count it."""

    def read(record: Record, _cell: Cell) -> float | None:
        share = record["cpu"].get("kernel_share", {}).get(role)
        return None if share is None else 100.0 * share

    return read


def proxy_rss_mib(record: Record, _cell: Cell) -> float | None:
    rss = record.get("proxy_rss_bytes")
    return None if rss is None else rss / 2**20


def throughput_krps(record: Record, _cell: Cell) -> float | None:
    return float(record["load"]["throughput_rps"]) / 1e3


def keys_per_message(record: Record, _cell: Cell) -> float | None:
    return record.get("keys_per_message")


def response_time_us(percentile: str) -> Callable[[Record, Cell], float | None]:
    def read(record: Record, cell: Cell) -> float | None:
        value = record["load"]["operations"][cell.read_operation]["response_time"][f"{percentile}_ns"]
        return None if value is None else value / 1e3

    return read


MEASURES = {
    "proxy_cpu": Measure("proxy CPU, µs per request", proxy_cpu_us, 2),
    "throughput": Measure("throughput, 1000 requests/s", throughput_krps, 1),
    "p50": Measure("read p50, µs", response_time_us("p50"), 0),
    "p99": Measure("read p99, µs", response_time_us("p99"), 0),
    "servers_cpu": Measure("memcached CPU, µs per request", servers_cpu_us, 2),
    "both_cpu": Measure("both CPU, µs per request", both_cpu_us, 2),
    "keys_per_message": Measure("keys per message", keys_per_message, 1),
    "rss": Measure("proxy RSS, MiB", proxy_rss_mib, 1),
}


def load_cpu_us(record: Record, _cell: Cell) -> float | None:
    per_request_ns = record["cpu"]["per_request_ns"].get("load")
    return None if per_request_ns is None else per_request_ns / 1e3


def share_of_core(*costs: Callable[[Record, Cell], float | None]) -> Callable[[Record, Cell], float | None]:
    """Of one core, in percent, by throughput and CPU time per request."""

    def read(record: Record, cell: Cell) -> float | None:
        found = [cost(record, cell) for cost in costs]
        known = [cost for cost in found if cost is not None]
        return None if len(known) < len(found) else 1e-4 * sum(known) * float(record["load"]["throughput_rps"])

    return read


SPLIT = [
    Measure("proxy CPU, µs per request", proxy_cpu_us, 2),
    Measure("kernel's part, %", kernel_percent("proxy"), 0),
    Measure("memcached CPU, µs per request", servers_cpu_us, 2),
    Measure("kernel's part, %", kernel_percent("servers"), 0),
]
BUSY = [
    Measure("core of the proxy, %", share_of_core(proxy_cpu_us), 0),
    Measure("core of servers and load, %", share_of_core(servers_cpu_us, load_cpu_us), 0),
    Measure("of which memcached, µs per request", servers_cpu_us, 2),
    Measure("load, µs per request", load_cpu_us, 2),
]


def render(records: Sequence[Record]) -> str:
    """The Markdown tables: one of medians per cell and subject, one of ratios per cell."""
    counted = [record for record in records if not record["problems"]]
    cells = cells_of(records)
    subjects = list(dict.fromkeys(record["subject"] for record in records))
    lines = [
        "Medians over the counted rounds (how many: n). CPU time is the kernel's, of all threads of the proxy, over",
        "the load's measured phase, divided by the requests completed in it. A multi-key get is one request.",
        "",
        *median_table(counted, records, cells, subjects),
    ]
    for above, below in (pair for pair in RATIOS if set(pair) <= set(subjects)):
        lines += [
            "",
            f"{above} / {below}, each ratio taken between the two runs of one round: median (smallest to largest).",
            f"Below 1 {above} uses or takes less; for throughput, above 1 {above} carries more.",
            "",
            *ratio_table(counted, cells, above, below),
        ]
    lines += busy_lines(counted, cells, subjects)
    lines += kernel_lines(counted, cells, subjects)
    rows = verdicts(all_ratios(counted, cells))
    if rows:
        lines += ["", "Targets, and whether they are met:", "", *markdown(TARGET_HEADINGS, rows, words=5)]
    return "\n".join([*lines, "", *left_out(records), ""])


def cells_of(records: Sequence[Record]) -> list[Cell]:
    """What was run, in the order of the list of all cells."""
    return [cell for cell in CELLS.values() if any(record["cell"] == cell.name for record in records)]


TARGET_HEADINGS = ["load", "ratio", "target", "median (smallest to largest)", ""]


def all_ratios(counted: Sequence[Record], cells: Sequence[Cell]) -> dict[Key, Sequence[float]]:
    """The ratios of every round, by cell, measure, subject and peer; and keys per message, which have no peer."""
    found: dict[Key, Sequence[float]] = {}
    for cell in cells:
        for subject, peer in RATIOS:
            pairs = paired(counted, cell, subject, peer)
            for name, measure in MEASURES.items():
                found[cell.name, name, subject, peer] = known(ratio(one, other, cell, measure) for one, other in pairs)
        shares = known(proxy_to_servers(one, other, cell) for one, other in paired(counted, cell, "weir", "direct"))
        found[cell.name, "proxy_cpu_to_servers", "weir", "direct"] = shares
        runs = (record for record in counted if (record["cell"], record["subject"]) == (cell.name, "weir"))
        found[cell.name, "keys_per_message", "weir", ITSELF] = known(keys_per_message(run, cell) for run in runs)
    return found


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def proxy_to_servers(weir: Record, direct: Record, cell: Cell) -> float | None:
    """The proxy's CPU per request over that of memcached under the same load without a proxy."""
    proxy, memcached = proxy_cpu_us(weir, cell), servers_cpu_us(direct, cell)
    return None if proxy is None or not memcached else proxy / memcached


def median_table(
    counted: Sequence[Record], records: Sequence[Record], cells: Sequence[Cell], subjects: Sequence[str]
) -> list[str]:
    rows = []
    for cell in cells:
        for subject in subjects:
            made = [record for record in records if (record["cell"], record["subject"]) == (cell.name, subject)]
            runs = [record for record in counted if (record["cell"], record["subject"]) == (cell.name, subject)]
            if made:
                values = [number(measured(runs, cell, measure), measure.digits) for measure in MEASURES.values()]
                rows.append([cell.describe(), subject, str(len(runs)), *values])
    return markdown(["load", "subject", "n", *(measure.heading for measure in MEASURES.values())], rows, words=2)


def busy_lines(counted: Sequence[Record], cells: Sequence[Cell], subjects: Sequence[str]) -> list[str]:
    """What bounds the throughput where the proxy has a core of its own: which core had no time left, who took it."""
    rows = []
    for cell in (cell for cell in cells if cell.own_core):
        for subject in subjects:
            runs = [record for record in counted if (record["cell"], record["subject"]) == (cell.name, subject)]
            if runs:
                rows.append([cell.describe(), subject, *(number(measured(runs, cell, it), it.digits) for it in BUSY)])
    if not rows:
        return []
    return [
        "",
        "Shares of cores: throughput x CPU time per request. Where the core of servers and load has no time",
        "left, a faster proxy changes nothing but what these two pay per request.",
        "",
        *markdown(["load", "subject", *(it.heading for it in BUSY)], rows, words=2),
    ]


def kernel_lines(counted: Sequence[Record], cells: Sequence[Cell], subjects: Sequence[str]) -> list[str]:
    """How much of the CPU time the kernel took, and what of it no proxy saves: `floor`."""
    rows = []
    for cell in cells:
        for subject in ("weir", f"weir{BESIDE}", NEAR, f"{NEAR}{BESIDE}", "haproxy", "direct"):
            runs = [record for record in counted if (record["cell"], record["subject"]) == (cell.name, subject)]
            found = [measured(runs, cell, it) for it in SPLIT]
            if subject in subjects and found[-1] is not None:
                floor = least(runs, cell) if subject == "direct" else None
                values = (number(value, it.digits) for value, it in zip(found, SPLIT, strict=True))
                rows.append([cell.describe(), subject, *values, number(floor, 2)])
    if not rows:
        return []
    headings = ["load", "subject", *(it.heading for it in SPLIT), "least of both CPU / direct"]
    return [
        "",
        "How much of the CPU time the kernel took, by clock ticks. A proxy takes what clients send and sends what they",
        "are answered, as memcached does where they ask it directly, by calls to the same kernel. So the kernel's part",
        "of `direct` is about the least that a proxy and its servers can take together, before the proxy reads a",
        "request and a server looks a key up. Where memcached sends each reply of a pipeline by a call of its own",
        "(the distribution's, at depth), a proxy can save calls, and there is no such bound. Where the proxy has a",
        "core of its own, the other processes have less of the machine than in `direct`, and none is given.",
        "",
        *markdown(headings, rows, words=2),
    ]


def least(runs: Sequence[Record], cell: Cell) -> float | None:
    """The kernel's part of direct access: what a proxy with as many calls for its clients has to take at least. None
    where the servers make more calls for their clients than a proxy needs."""
    if cell.own_core or (cell.depth > 1 and not cell.newest):
        return None
    percent = measured(runs, cell, Measure("", kernel_percent("servers"), 0))
    return None if percent is None else percent / 100.0


def measured(runs: Sequence[Record], cell: Cell, measure: Measure) -> float | None:
    values = [value for run in runs if (value := measure.read(run, cell)) is not None]
    return median(values) if values else None


def ratio_table(counted: Sequence[Record], cells: Sequence[Cell], above: str, below: str) -> list[str]:
    names = ["proxy_cpu", "both_cpu", "throughput", "p50", "p99"]
    rows = []
    for cell in cells:
        pairs = paired(counted, cell, above, below)
        if not pairs:
            continue
        ratios = [ratio_text([ratio(one, other, cell, MEASURES[name]) for one, other in pairs]) for name in names]
        rows.append([cell.describe(), str(len(pairs)), *ratios])
    return markdown(["load", "n", *(MEASURES[name].heading.split(",")[0] for name in names)], rows, words=1)


def paired(counted: Sequence[Record], cell: Cell, above: str, below: str) -> list[tuple[Record, Record]]:
    """The runs of one round with both subjects counted."""
    by_key = {(record["subject"], record["round"]): record for record in counted if record["cell"] == cell.name}
    rounds = sorted(number for subject, number in by_key if subject == above and (below, number) in by_key)
    return [(by_key[above, number], by_key[below, number]) for number in rounds]


def ratio(above: Record, below: Record, cell: Cell, measure: Measure) -> float | None:
    numerator, denominator = measure.read(above, cell), measure.read(below, cell)
    return None if numerator is None or not denominator else numerator / denominator


def ratio_text(ratios: Sequence[float | None]) -> str:
    known = sorted(value for value in ratios if value is not None)
    return f"{median(known):.2f} ({known[0]:.2f} to {known[-1]:.2f})" if known else "-"


def left_out(records: Sequence[Record]) -> list[str]:
    """Every run that does not count, with the reason."""
    bad = [record for record in records if record["problems"]]
    if not bad:
        return [f"All {len(records)} runs count."]
    lines = [f"{len(records) - len(bad)} of {len(records)} runs count. Left out:", ""]
    return lines + [
        f"- {record['cell']}, round {record['round']}, {record['subject']}: {'; '.join(record['problems'])}"
        for record in bad
    ]


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> list[str]:
    """A table whose first `words` columns are text and whose others are numbers."""
    align = ["---"] * words + ["---:"] * (len(headings) - words)
    return ["| " + " | ".join(row) + " |" for row in (headings, align, *rows)]
