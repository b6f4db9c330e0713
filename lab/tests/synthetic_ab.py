"""Simulated comparisons: series of pieces under a disturber, and lives that are made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir_lab.bench.turns.comparing import Budget, Looking, Outcome, Rule
from weir_lab.theory.stats.stopping import Pair

PAIRS = 12


@dataclass(frozen=True)
class Machine:
    """What disturbs: log speed of pieces is an AR(1) series with bursts of a neighbour, and the sides of a life differ by chance."""

    correlation: float = 0.6
    sd: float = 0.06
    burst_share: float = 0.3
    """Share of pieces during bursts, which last 10 pieces on average and take 30 % of the speed."""
    life_sd: float = 0.01
    """Of the difference of the two sides of a life: memory layout and the like."""
    drift: float = 0.2
    """Slow change of the speed over the whole comparison."""
    yardstick: float = 0.0
    """How much of the AR(1) part the yardstick sees, 0 to 1."""

    def series(self, random: np.random.Generator, pieces: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log speed of consecutive pieces, and the part of it that the yardstick sees."""
        steps = random.normal(0.0, self.sd * math.sqrt(1.0 - self.correlation**2), pieces)
        slow = np.empty(pieces)
        slow[0] = random.normal(0.0, self.sd)
        for at in range(1, pieces):
            slow[at] = self.correlation * slow[at - 1] + steps[at]
        bursting = np.empty(pieces, dtype=bool)
        bursting[0] = random.random() < self.burst_share
        ends, begins = 0.1, 0.1 * self.burst_share / (1.0 - self.burst_share)
        draws = random.random(pieces)
        for at in range(1, pieces):
            bursting[at] = draws[at] >= ends if bursting[at - 1] else draws[at] < begins
        drift = self.drift * np.sin(np.linspace(0.0, 2.0 * math.pi, pieces) + random.uniform(0.0, 6.3))
        return slow + np.where(bursting, math.log(0.7), 0.0) + drift, self.yardstick * slow


def lives_of(
    random: np.random.Generator, machine: Machine, lives: int, effect: float = 0.0, pairs: int = PAIRS
) -> list[list[Pair]]:
    """Consecutive lives; B's pieces are `effect` (a log) slower."""
    speed, seen = machine.series(random, 2 * pairs * lives)
    found, at = [], 0
    for _ in range(lives):
        side = random.normal(0.0, machine.life_sd)
        life = []
        for _ in range(pairs):
            b = at + int(random.random() < 0.5)
            a = 2 * at + 1 - b
            noise = random.normal(0.0, 0.01, 2)
            ratio = speed[b] - speed[a] - effect + side + noise[0]
            life.append(Pair(ratio, seen[b] - seen[a] + 0.2 * noise[1]))
            at += 2
        found.append(life)
    return found


def ended(lives: list[list[Pair]], rule: Rule) -> Outcome:
    """How a comparison with these lives ends."""
    looking, budget = Looking(rule), Budget(lives=len(lives))
    for number, life in enumerate(lives, start=1):
        if looking.after(life, budget.used(0.0, number)):
            break
    return looking.outcome()
