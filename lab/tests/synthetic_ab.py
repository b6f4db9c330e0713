"""Simulated comparisons: series of pieces under a disturber, and lives that are made of them."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir_lab.records.comparisons import Budget, Looking, Outcome, Rule
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


@dataclass(frozen=True)
class Recorded:
    """Pieces of A against A on a machine with a neighbour in bursts, by lab/bench/ab.py (docs/measure/ab.md says where)."""

    first: NDArray[np.float64]
    """Log throughput of the first piece of each pair, lives by pairs."""
    second: NDArray[np.float64]
    first_is_a: NDArray[np.bool_]
    log_slowness: NDArray[np.float64]

    @classmethod
    def read(cls, file: Path) -> Recorded:
        rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
        lives = max(int(row["life"]) for row in rows)

        def column(name: str) -> NDArray[np.float64]:
            return np.array([float(row[name]) for row in rows]).reshape(lives, -1)

        sides = np.array([row["first_is"] == "A" for row in rows]).reshape(lives, -1)
        return cls(column("first_log_rate"), column("second_log_rate"), sides, column("log_slowness"))

    def lives(self, random: np.random.Generator, count: int, effect: float, *, dealt_anew: bool) -> list[list[Pair]]:
        """Consecutive lives from a random one on; B is `effect` (a log) slower.

        Which side is called A is drawn anew for each pair, or for each life as a whole: then what the two processes of a life had of
        their own stays.
        """
        total, pairs = self.first.shape
        at = (random.integers(total) + np.arange(count)) % total
        exchanged = random.random((count, 1)) < 0.5
        first_is_a = random.random((count, pairs)) < 0.5 if dealt_anew else self.first_is_a[at] ^ exchanged
        turned = np.where(first_is_a, 1.0, -1.0)
        ratios = turned * (self.second[at] - self.first[at]) - effect
        # The record has the yardstick of B over A, as they were then.
        slowness = np.where(first_is_a == self.first_is_a[at], 1.0, -1.0) * self.log_slowness[at]
        return [
            [Pair(float(ratio), float(slow)) for ratio, slow in zip(life, slows, strict=True)]
            for life, slows in zip(ratios, slowness, strict=True)
        ]

    def correlation(self) -> float:
        """Of neighbouring pieces within lives."""
        pieces = np.stack([self.first, self.second], axis=2).reshape(self.first.shape[0], -1)
        inside = pieces - pieces.mean(axis=1, keepdims=True)
        return float((inside[:, 1:] * inside[:, :-1]).mean() / (inside**2).mean())
