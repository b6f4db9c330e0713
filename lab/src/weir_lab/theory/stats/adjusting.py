"""P values of several tests made side by side: `holm` holds the chance of any wrong one, `benjamini_hochberg` the share of wrong ones.

Conclusions of a study are judged by `theory.linear.judging`. What a page compares beside them is exploratory: of what it calls shown, at
most 5 % is wrong on average, the false discovery rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FALSE_DISCOVERIES", "benjamini_hochberg", "holm"]

FALSE_DISCOVERIES = 0.05
"""The share of wrong ones among exploratory comparisons that are called shown."""


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for the number of comparisons made side by side (Holm 1979).

    >>> holm([0.01, 0.04])
    [0.02, 0.04]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P values adjusted so that calling all below q shown has a false discovery rate of q at most.

    For independent tests, and for those that are positively alike (Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995; Benjamini and
    Yekutieli, Ann. Statist. 29, 2001).

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p_values, kind="stable").tolist()
    adjusted = [1.0] * len(p_values)
    smallest = 1.0
    for rank in range(len(order), 0, -1):
        smallest = min(smallest, len(order) / rank * p_values[order[rank - 1]])
        adjusted[order[rank - 1]] = smallest
    return adjusted
