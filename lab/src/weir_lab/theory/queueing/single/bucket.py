"""One station behind a token bucket, with finitely many clients: links shaped by tokens, and shares of a CPU.

::

    N clients, each away for Z ──▶ │ queue │──▶ a token each; the bucket gains one every S seconds and holds up to B
             ▲──────────────────────────────────────┘

While there are tokens nobody waits, however fast requests come; only who finds the bucket empty queues. So a link or a processor behind a
bucket does nothing to the response time until its bucket runs dry, and then everything, which no station with a service time can show.
Without a bucket (B = 0) it is one server that takes S per request: M/M/1 or M/E_k/1 with N clients, exact.

The state is the number of tokens that are missing and owed, in k phases each (k = 1: tokens come as a Poisson stream, c² = 1; large k:
evenly, c² = 1/k). Every cut between two states is crossed upwards as often as downwards, which gives the probabilities one after the
other, from positive terms alone. Reference for the method of phases and for cuts: Kleinrock, Queueing Systems I, ch. 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["BucketSolution", "token_bucket"]

POPULATION_MAX = 10_000
BURST_MAX = 10_000.0
PHASES_MAX = 64
# Far below the largest double; a sum of this many such numbers still has room.
_LARGE = 1e200


@dataclass(frozen=True, eq=False)
class BucketSolution:
    """For each population: requests per second, and seconds that a request waits for its token (for B = 0: its service, too)."""

    population: NDArray[np.int64]
    throughput_per_s: NDArray[np.float64]
    residence_time_s: NDArray[np.float64]


def token_bucket(
    populations: Sequence[int],
    away_s: float | NDArray[np.float64],
    token_s: float | NDArray[np.float64],
    burst: float = 0.0,
    phases: int = 1,
) -> BucketSolution:
    """N clients, each away for an exponential time, share a bucket that gains a token every `token_s` and holds `burst` of them.

    Both times may be one per population. A burst that is no whole number of phases lies between two that are, and so does the answer
    (linear).

    >>> solution = token_bucket([1, 2], away_s=1.0, token_s=1.0)
    >>> [round(float(x), 6) for x in solution.throughput_per_s]
    [0.5, 0.8]
    """
    _check(populations, away_s, token_s, burst, phases)
    sizes = np.asarray(populations, dtype=np.int64)
    away, token = np.broadcast_to(away_s, sizes.shape), np.broadcast_to(token_s, sizes.shape)
    below = math.floor(burst * phases)
    share = burst * phases - below
    x, waiting = _solve(sizes, away, token, below, phases)
    if share > 0.0:
        next_x, next_waiting = _solve(sizes, away, token, below + 1, phases)
        x, waiting = (1.0 - share) * x + share * next_x, (1.0 - share) * waiting + share * next_waiting
    return BucketSolution(sizes, x, waiting / x)


def _solve(
    sizes: NDArray[np.int64], away_s: NDArray[np.float64], token_s: NDArray[np.float64], free: int, phases: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Throughput and mean number waiting; `free` phases may be missing before anybody waits."""
    solved = [
        _solve_one(size, away, token / phases, free, phases)
        for size, away, token in zip(sizes.tolist(), away_s.tolist(), token_s.tolist(), strict=True)
    ]
    return np.array([x for x, _ in solved]), np.array([waiting for _, waiting in solved])


def _solve_one(size: int, away_s: float, phase_s: float, free: int, phases: int) -> tuple[float, float]:
    """One population. State by state with plain numbers: arrays of a few of them cost more than all of the arithmetic."""
    missing = np.arange(free + size * phases + 1)
    queued = np.maximum(0, -((free - missing) // phases))  # ceil((missing - free) / phases)
    rates = ((size - queued) / away_s).tolist()
    weights, flows = [1.0], [rates[0]]
    for rate in rates[1:]:
        # Arrivals that cross the cut below a state come from the `phases` states before it.
        weight = sum(flows[-phases:]) * phase_s
        if weight > _LARGE:
            weights, flows = [one / weight for one in weights], [one / weight for one in flows]
            weight = 1.0
        weights.append(weight)
        flows.append(weight * rate)
    known = np.array(weights)
    return float(np.sum(flows) / known.sum()), float((known * queued).sum() / known.sum())


def _check(
    populations: Sequence[int],
    away_s: float | NDArray[np.float64],
    token_s: float | NDArray[np.float64],
    burst: float,
    phases: int,
) -> None:
    if not populations or not all(1 <= size <= POPULATION_MAX for size in populations):
        raise ValueError(f"Populations are from 1 to {POPULATION_MAX}.")
    times = np.concatenate([np.ravel(away_s), np.ravel(token_s)])
    if not ((times > 0.0) & np.isfinite(times)).all():
        raise ValueError("Time away and time per token are positive and finite.")
    if not (0.0 <= burst <= BURST_MAX and 1 <= phases <= PHASES_MAX):
        raise ValueError(f"A bucket holds 0 to {BURST_MAX:g} tokens, of 1 to {PHASES_MAX} phases each.")
