"""Whether keys fall on servers as evenly as a perfect hash would let them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc, gammaln

from weir_lab.theory.stats._inputs import finite

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Uniformity",
    "expected_distance_if_uniform",
    "placement_uniformity",
    "same_shares",
    "statistical_distance",
]


@dataclass(frozen=True)
class Uniformity:
    """Pearson's chi-square against the intended shares, with the distance and what a perfect hash would show."""

    chi_square: float
    freedom: int
    p: float
    distance: float
    expected_distance: float
    largest_deviation_percent: float


def placement_uniformity(counts: ArrayLike, shares: ArrayLike | None = None) -> Uniformity:
    """Test keys per server against equal or given shares: sum (o - e)^2 / e with servers - 1 degrees of freedom.

    A small p says that the placement is uneven beyond chance; a p near 1 over many tests says that it is too even to be a hash.

    >>> placement_uniformity([50, 50]).p
    1.0
    """
    observed, share = _counts(counts), _shares(counts, shares)
    keys = float(observed.sum())
    expected = keys * share
    if expected.min() < 5.0:
        raise ValueError("Chi-square needs 5 expected keys per server: count more keys.")
    chi_square = float(((observed - expected) ** 2 / expected).sum())
    freedom = observed.size - 1
    return Uniformity(
        chi_square,
        freedom,
        float(chdtrc(freedom, chi_square)),
        statistical_distance(observed, share),
        expected_distance_if_uniform(int(keys), observed.size, share),
        float(np.abs(observed / expected - 1.0).max() * 100.0),
    )


def same_shares(left: ArrayLike, right: ArrayLike) -> float:
    """P value of two sets of keys having the same shares, whatever these are: chi-square of homogeneity, servers - 1 degrees of freedom.

    With n and m keys the expected counts are in proportion to the sums of both. Reference: Pearson, Biometrika 8 (1911).

    >>> same_shares([300, 700], [600, 1400])
    1.0
    """
    first, second = _counts(left), _counts(right)
    if first.size != second.size:
        raise ValueError(f"Two sets of keys are compared over the same servers, not {first.size} and {second.size}.")
    together = first + second
    # A server that neither set touches says nothing about their difference.
    touched = together > 0
    first, second, together = first[touched], second[touched], together[touched]
    if together.size < 2:
        return 1.0
    n, m = float(first.sum()), float(second.sum())
    chi_square = float(((first * m - second * n) ** 2 / together).sum() / (n * m))
    return float(chdtrc(together.size - 1, chi_square))


def statistical_distance(counts: ArrayLike, shares: ArrayLike | None = None) -> float:
    """Total variation: half the sum of |share found - share intended|; the share of keys that would have to move.

    >>> round(statistical_distance([60, 40]), 3)
    0.1
    """
    observed, share = _counts(counts), _shares(counts, shares)
    return float(np.abs(observed / observed.sum() - share).sum() / 2.0)


def expected_distance_if_uniform(
    keys: int, servers: int, shares: ArrayLike | None = None, *, normal: bool = False
) -> float:
    """Mean statistical distance of a perfect hash: half the sum of E|K/n - p| with K binomial(n, p).

    E|K - np| is De Moivre's 2 (k+1) C(n, k+1) p^(k+1) (1-p)^(n-k), k = floor(np); `normal` takes sqrt(2 n p (1-p) / pi) instead.
    Reference: Diaconis and Zabell, Statistical Science 6 (1991).

    >>> round(expected_distance_if_uniform(100_000, 2), 5)
    0.00126
    """
    if keys < 1 or servers < 2:
        raise ValueError("A distance needs at least 1 key and 2 servers.")
    share = np.full(servers, 1.0 / servers) if shares is None else _shares(np.ones(servers), shares)
    if normal:
        deviations = np.sqrt(2.0 * keys * share * (1.0 - share) / math.pi)
    else:
        k = np.floor(keys * share)
        log_choose = gammaln(keys + 1.0) - gammaln(k + 2.0) - gammaln(keys - k)
        log_tail = (k + 1.0) * np.log(share) + (keys - k) * np.log1p(-share)
        deviations = 2.0 * (k + 1.0) * np.exp(log_choose + log_tail)
    return float(deviations.sum() / keys / 2.0)


def _counts(counts: ArrayLike) -> NDArray[np.float64]:
    observed = finite(counts, "A placement", at_least=2)
    if (observed < 0).any() or observed.sum() <= 0:
        raise ValueError("Keys per server are counts, and there must be some.")
    return observed


def _shares(counts: ArrayLike, shares: ArrayLike | None) -> NDArray[np.float64]:
    size = np.asarray(counts).size
    if shares is None:
        return np.full(size, 1.0 / size)
    share = finite(shares, "Shares", at_least=2)
    if share.size != size or (share <= 0).any() or (share >= 1).any() or not math.isclose(share.sum(), 1.0):
        raise ValueError("Shares are positive, one per server, and add up to 1.")
    return share
