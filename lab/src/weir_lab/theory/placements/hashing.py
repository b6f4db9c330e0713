"""How evenly placements spread keys: chi-square, distance, and a verdict by Holm over all placements and pools. Pure.

A placement that is *even* gives each server its share (its weight over all weights), so chi-square against the shares tells whether its
hash is one. A ring gives each server the arcs behind its *points*: the shares differ by the luck of some hundred points, whatever the
keys. For it the question is another: do these keys fall as keys without any order would? Independent random keys show the ring's own
shares, and chi-square compares both. Its distance from equal shares is a figure to know, not a fault to report.

Start with `judge_placements`. `generate_keys` gives keys in the forms that studies used; `placing` asks where they fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.errors import StudyError
from weir_lab.theory.stats import Uniformity, holm, placement_uniformity, same_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "KEYS_MAX",
    "KeyForm",
    "PlacementCheck",
    "PlacementCounts",
    "PlacementRule",
    "Spread",
    "generate_keys",
    "judge_placements",
]

KEYS_MAX = 10_000_000
_ALPHA = 0.05
# "More even than chance" is a remark, not a fault: it must be hard to come by.
_ALPHA_TOO_EVEN = 0.001
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", dtype=np.uint8)


class KeyForm(StrEnum):
    """Forms of keys that studies and load generators used."""

    RANDOM = "random"
    """16 random letters and digits, as S2 tested its hash with."""
    MEMTIER = "memtier"
    """``memtier-1``, ``memtier-2``, ...: memtier_benchmark's, in S3 and S5."""
    NUMBERED = "numbered"
    """``user:0``, ``user:1``, ...: an application's."""


class Spread(StrEnum):
    """What the counts say about a placement."""

    EVEN = "even"
    """No departure from the shares is shown."""
    UNEVEN = "uneven"
    """It should be even and is not."""
    IN_SEQUENCE = "more even than chance"
    """Neighbouring keys fall on servers in turn: even, but not as a hash of independent keys would be."""
    BY_POINTS = "uneven by design"
    """A ring's own shares; these keys follow them."""
    KEYS_CLUSTER = "keys cluster"
    """A ring on which these keys fall otherwise than random ones: the hash keeps some order of the keys."""


@dataclass(frozen=True)
class PlacementRule:
    """A placement that the binary knows, and whether it gives servers points on a ring."""

    name: str
    by_points: bool


@dataclass(frozen=True)
class PlacementCounts:
    """Keys per server, in the order of the servers; ``reference`` the same for random keys, asked for rings only.

    ``requests`` are the servers' shares of the requests where keys are not equally popular.
    """

    rule: PlacementRule
    keys: tuple[int, ...]
    reference: tuple[int, ...] | None
    requests: tuple[float, ...] | None = None


@dataclass(frozen=True)
class PlacementCheck:
    """A placement over a number of servers, with its verdict.

    ``uniformity`` compares with the intended shares. ``p`` is that of the question asked (the shares, or for rings whether keys fall as
    random ones do), ``p_holm`` adjusted for all checks made together. ``ring_distance`` is how far the ring's own shares, as random keys
    show them, are from the intended ones. ``busiest_share`` is the largest share of the requests that a server gets, ``imbalance`` the
    largest over what its weight asks for; both are None where keys have no popularity of their own.
    """

    rule: PlacementRule
    servers: int
    keys: int
    uniformity: Uniformity
    ring_distance: float | None
    p: float
    p_holm: float
    spread: Spread
    reason: str
    busiest_share: float | None = None
    imbalance: float | None = None


def judge_placements(
    counts: Sequence[PlacementCounts], shares: Sequence[float] | None = None, alpha: float = _ALPHA
) -> list[PlacementCheck]:
    """Verdicts on all placements together, at the error rate `alpha` for the whole family (Holm).

    ``shares`` are the intended ones if servers have weights, which all counts must then be about. That keys are spread *more* evenly than
    chance is judged by the other tail of chi-square, adjusted in the same way.

    >>> rule = PlacementRule("jump", by_points=False)
    >>> judge_placements([PlacementCounts(rule, (5010, 4990), None)])[0].spread.value
    'even'
    """
    fits = [placement_uniformity(one.keys, shares) for one in counts]
    p_values = [
        same_shares(one.keys, one.reference) if one.reference is not None else fit.p
        for one, fit in zip(counts, fits, strict=True)
    ]
    adjusted = holm(p_values)
    too_even = holm([1.0 if one.reference is not None else 1.0 - fit.p for one, fit in zip(counts, fits, strict=True)])
    checks = []
    for one, fit, p, p_holm, p_even in zip(counts, fits, p_values, adjusted, too_even, strict=True):
        ring = None if one.reference is None else placement_uniformity(one.reference, shares)
        spread, reason = _verdict(fit, ring, p_holm, p_even, alpha)
        distance = None if ring is None else ring.distance
        load = _loads(one, shares)
        checks.append(
            PlacementCheck(one.rule, len(one.keys), sum(one.keys), fit, distance, p, p_holm, spread, reason, *load)
        )
    return checks


def _loads(counts: PlacementCounts, shares: Sequence[float] | None) -> tuple[float | None, float | None]:
    """Largest share of the requests, and largest share over the intended one."""
    if counts.requests is None:
        return None, None
    intended = shares or [1.0 / len(counts.requests)] * len(counts.requests)
    return max(counts.requests), max(share / meant for share, meant in zip(counts.requests, intended, strict=True))


def _verdict(
    fit: Uniformity, ring: Uniformity | None, p_holm: float, p_even: float, alpha: float
) -> tuple[Spread, str]:
    off = f"a server is {fit.largest_deviation_percent:.1f} % off its share"
    if ring is not None and p_holm < alpha:
        return (
            Spread.KEYS_CLUSTER,
            f"{off}; {ring.largest_deviation_percent:.1f} % with random keys: the hash keeps some order of these keys",
        )
    if ring is not None:
        return Spread.BY_POINTS, f"{off}, from the points on the ring: random keys show the same shares"
    if p_holm < alpha:
        return Spread.UNEVEN, f"{off}: the hash or the rule does not spread these keys"
    if p_even < _ALPHA_TOO_EVEN:
        return Spread.IN_SEQUENCE, "neighbouring keys fall on the servers in turn"
    return Spread.EVEN, "no departure from the shares is shown"


def generate_keys(form: KeyForm, count: int, rng: np.random.Generator, size: int = 16) -> list[bytes]:
    """Distinct keys of a form; random ones have ``size`` characters.

    >>> generate_keys(KeyForm.MEMTIER, 2, np.random.default_rng(1))
    [b'memtier-1', b'memtier-2']
    """
    if not 1 <= count <= KEYS_MAX:
        raise StudyError(f"A placement is judged by 1 to {KEYS_MAX:,} keys, not {count:,}.")
    if form is KeyForm.MEMTIER:
        return [b"memtier-%d" % number for number in range(1, count + 1)]
    if form is KeyForm.NUMBERED:
        return [b"user:%d" % number for number in range(count)]
    # Of 16 characters there are 62^16: two equal ones among ten million have a chance of 1e-15.
    return [row.tobytes() for row in _LETTERS[rng.integers(0, _LETTERS.size, (count, size))]]
