"""What weir is held to beside its peers, and whether a run shows it.

Each target is a ratio of two runs of one round; the median over the rounds counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from .cells import CELLS
from .subjects import NEAR

Record = dict[str, Any]

# The peer of a target that is no ratio.
ITSELF = ""


@dataclass(frozen=True)
class Target:
    """A bound on weir's measure over a peer's in one cell."""

    cell: str
    measure: str
    bound: float
    kind: Literal["at least", "at most"]
    peer: str = "nutcracker"
    subject: str = "weir"

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.kind == "at least" else ratio <= self.bound


def own_core() -> Iterator[Target]:
    """Proxy on its own core."""
    bounds = {
        "own-c8": (1.0, 0.90, 1.0),
        "own-c64": (1.15, 0.75, 0.9),
        "own-c384": (1.25, 0.68, 0.75),
        "own-c64-d10": (1.35, 0.55, 0.75),
        "own-c64-d10-v4096": (1.15, 0.70, 0.9),
    }
    for cell, (throughput, cpu, p99) in bounds.items():
        yield Target(cell, "throughput", throughput, "at least")
        yield Target(cell, "proxy_cpu", cpu, "at most")
        yield Target(cell, "p99", p99, "at most")
    yield Target("own-c64-k9", "throughput", 1.2, "at least")
    yield Target("own-c64-k9", "proxy_cpu", 0.75, "at most")
    yield Target("own-c64-zipf", "throughput", 1.4, "at least")
    yield Target("own-c64-zipf", "p99", 0.9, "at most")
    for peer, throughput, cpu in (("nutcracker", 1.7, 0.45), ("memcached-proxy", 1.3, 0.65)):
        yield Target("new-own-c64-d10", "throughput", throughput, "at least", peer)
        yield Target("new-own-c64-d10", "proxy_cpu", cpu, "at most", peer)
    for peer in ("nutcracker", "haproxy"):
        yield Target("new-own-c64-k9", "throughput", 1.2, "at least", peer)
        yield Target("new-own-c64-k9", "proxy_cpu", 0.70, "at most", peer)
        yield Target("new-own-c64-k9", "p99", 1.0, "at most", peer)


def shared_cores() -> Iterator[Target]:
    """All on the same cores. Direct access has no proxy: weir's CPU is held against memcached's own."""
    for cell, direct, throughput in (("c64", 1.05, 1.15), ("c384", 1.05, 1.25), ("c64-d10", 0.35, 1.6)):
        yield Target(cell, "proxy_cpu_to_servers", direct, "at most", peer="direct")
        yield Target(cell, "throughput", throughput, "at least")
        yield Target(cell, "both_cpu", 1.0, "at most")
    yield Target("c1", "p50", 1.05, "at most")
    yield Target("c1", "proxy_cpu", 1.05, "at most")


def whole() -> Iterator[Target]:
    """CPU time of proxy and servers together, over that of the servers which clients ask directly."""
    bounds = {
        "c64": (1.10, 1.15),
        "c384": (0.85, 0.85),
        "c64-d10": (0.45, 0.40),
        "new-c64": (1.10, 1.15),
        "new-c384": (0.85, 0.85),
        "new-c64-d10": (1.10, 1.10),
    }
    for cell, (uniform, zipf) in bounds.items():
        yield Target(cell, "both_cpu", uniform, "at most", "direct")
        yield Target(f"{cell}-zipf", "both_cpu", zipf, "at most", "direct")
    yield Target("c64-k9", "both_cpu", 1.3, "at most", "direct")
    near = {"c64-zipf": 1.0, "new-c64-zipf": 1.0, "c384-zipf": 0.75, "new-c384-zipf": 0.75, "new-c64-d10-zipf": 1.0}
    for cell, bound in near.items():
        yield Target(cell, "both_cpu", bound, "at most", "direct", NEAR)


def joined() -> Iterator[Target]:
    """Keys in each message of gets; not a ratio."""
    for cell, bound in {"c64-d10": 20, "c64-d10-zipf": 20, "c384": 12, "c384-zipf": 12}.items():
        yield Target(cell, "keys_per_message", bound, "at least", ITSELF)


TARGETS = [*own_core(), *shared_cores(), *whole(), *joined()]

Key = tuple[str, str, str, str]
"""Of a ratio: cell, measure, subject and peer."""


def verdicts(ratios: dict[Key, Sequence[float]]) -> list[list[str]]:
    """Rows of a table. `ratios`: one per round."""
    rows = []
    for target in TARGETS:
        found = ratios.get((target.cell, target.measure, target.subject, target.peer))
        if not found:
            continue
        middle = median(found)
        # With one connection runs differ by more than the bound: it must lie within what was seen.
        value = min(found) if target.cell == "c1" else middle
        rows.append(
            [
                CELLS[target.cell].describe(),
                f"{target.measure.replace('_', ' ')}, {target.subject}{f' / {target.peer}' if target.peer else ''}",
                f"{target.kind} {target.bound:g}",
                f"{middle:.2f} ({min(found):.2f} to {max(found):.2f})",
                "met" if target.is_met(value) else "**missed**",
            ]
        )
    return rows
