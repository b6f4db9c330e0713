"""Times of the models at their largest sizes, printed: ``.venv/bin/python lab/bench/models.py``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from weir_lab.theory.capacity import Tier, plan_capacity
from weir_lab.theory.queueing import Kind, Station, approximate_closed, finite_source, mmm, solve_closed

if TYPE_CHECKING:
    from collections.abc import Callable

NETWORK = [
    Station("delay", 0.01, kind=Kind.DELAY),
    Station("loop", 1e-5),
    Station("workers", 0.002, servers=100),
    Station("links", 1.9e-5),
]
CASES: dict[str, Callable[[], object]] = {
    "M/M/m, 5,000 servers": lambda: mmm(4990.0, 1.0, 5000),
    "finite source, 10,000 clients, 5,000 servers": lambda: finite_source(10_000, 1.0, 1.0, 5000),
    "closed network, N = 10,000, one station of 100 servers": lambda: solve_closed(NETWORK, 10_000),
    "closed network, N = 10,000, three stations of 100 servers": lambda: solve_closed(
        [*NETWORK, Station("b", 0.001, servers=100), Station("c", 0.0015, servers=100)], 10_000
    ),
    "closed network, N = 10,000, one station of 10,000 servers": lambda: solve_closed(
        [Station("delay", 1.0, kind=Kind.DELAY), Station("workers", 0.5, servers=10_000)], 10_000
    ),
    "closed network, N = 100,000, one station of 100 servers": lambda: solve_closed(NETWORK, 100_000),
    "approximation, N = 100,000": lambda: approximate_closed(NETWORK, 100_000),
    "capacity plan, two tiers, 1e6/s": lambda: plan_capacity([Tier("a", 10e-6), Tier("b", 20e-6)], 1e6, 99.0, 200e-6),
}


def main() -> None:
    """Best of three, in milliseconds."""
    for name, case in CASES.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            case()
            times.append(time.perf_counter() - start)
        print(f"{1e3 * min(times):9.2f} ms  {name}")


if __name__ == "__main__":
    main()
