"""Lives until a verdict: `compare`."""

from __future__ import annotations

import shutil
import statistics
import time
from typing import TYPE_CHECKING

from weir_lab.bench.turns.lives import make_life
from weir_lab.records.comparisons import Looking, append_life, pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from weir_lab.bench.turns.lives import Bench
    from weir_lab.records.comparisons import Budget, LifeRecord, Outcomes, Rule

__all__ = ["compare"]


def compare(
    bench: Bench, rule: Rule, budget: Budget, folder: Path, tell: Callable[[LifeRecord, Outcomes], None]
) -> Outcomes:
    """Make lives until there is a verdict at every level or the budget is used up; `tell` hears of each life."""
    began = time.monotonic()
    lives: list[LifeRecord] = []
    looking = {clients: Looking(rule) for clients in bench.levels}
    while True:
        number = len(lives) + 1
        place = folder / f"life-{number:04}"
        life = make_life(bench, number, place)
        append_life(folder, life)
        shutil.rmtree(place)  # logs of processes that behaved
        lives.append(life)
        seconds, next_s = time.monotonic() - began, statistics.fmean(life.took_s for life in lives)
        # The last life is the one behind which there is no room for another.
        used = budget.used(seconds, number) if budget.allows(seconds + next_s, number + 1) else 1.0
        ended = [one.after(pairs_of(life, rule.metric, clients), used) for clients, one in looking.items()]
        outcomes = {clients: one.outcome(lives) for clients, one in looking.items()}
        tell(life, outcomes)
        if all(ended):
            return outcomes
