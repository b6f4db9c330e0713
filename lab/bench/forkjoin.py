"""Errors of the fork-join answers against simulation, as the table of docs/measure/queueing.md: run lab/bench/forkjoin.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.capacity import Tier, predict_closed, predict_open
from weir_lab.theory.capacity.simulation import simulate_closed, simulate_fork_join
from weir_lab.theory.queueing import fork_join, replicated_write_response_time
from weir_lab.theory.stats import mean_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20161118
REQUESTS = 1_000_000
BATCHES = 20
LOADS = (0.3, 0.5, 0.7, 0.9)


def main() -> None:
    """Print every table; about two minutes."""
    rng = np.random.default_rng(SEED)
    print(
        f"seed {SEED}, {REQUESTS:,} requests per row; errors in percent of the simulated mean, +- 99 % interval of the simulation"
    )
    print("\n| replicas R | needed k | ρ | mean: error | ± | p99 of a write: error | ± |")
    print("|---|---|---|---|---|---|---|")
    for servers in (2, 3, 5, 10, 32):
        for load in LOADS:
            parts = simulate_fork_join(load, 1.0, servers, REQUESTS, rng)
            for needed in sorted({servers, servers // 2 + 1, 1}, reverse=True):
                if servers > 5 and needed < servers:
                    continue
                print(row(servers, needed, load, parts[:, needed - 1]))
    print("\n| closed, R of 3 units, all writes | clients | Z / S | X: error | ± |")
    print("|---|---|---|---|---|")
    for replicas in (2, 3):
        for clients, delay in ((4, 2.0), (16, 2.0), (16, 20.0), (64, 20.0)):
            tiers = [Tier("m", 1.0, units=3, replicas=replicas, writes=1.0)]
            simulated = simulate_closed(tiers, clients, delay, REQUESTS // 10, rng).throughput_per_s
            error = 100.0 * (predict_closed(tiers, clients, delay).throughput.value / simulated.mean - 1.0)
            print(
                f"| {replicas} | {clients} | {delay:g} | {error:+.1f} | {100 * simulated.half_width / simulated.mean:.1f} |"
            )


def row(servers: int, needed: int, load: float, times: NDArray[np.float64]) -> str:
    """One line: the predicted mean and p99 against the simulated ones."""
    batches = times[: times.size // BATCHES * BATCHES].reshape(BATCHES, -1)
    mean = mean_interval(batches.mean(axis=1), 0.99)
    p99 = mean_interval(np.quantile(batches, 0.99, axis=1), 0.99)
    answer = (
        fork_join(load, 1.0, servers)
        if needed == servers
        else replicated_write_response_time(load, 1.0, servers, needed)
    )
    tier = Tier("m", 1.0, units=servers, replicas=servers, needed=needed, writes=1.0)
    quantile = predict_open([tier], load, percentiles=(99.0,)).percentiles_s[99.0]
    return (
        f"| {servers} | {needed} | {load} | {100 * (answer.mean_s / mean.mean - 1):+.1f} | {100 * mean.half_width / mean.mean:.1f} "
        f"| {100 * (quantile / p99.mean - 1):+.1f} | {100 * p99.half_width / p99.mean:.1f} |"
    )


if __name__ == "__main__":
    main()
