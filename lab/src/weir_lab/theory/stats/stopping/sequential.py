"""Looking at data again and again while one error rate holds for all looks together: `SequentialPlan` and `repeated_interval`.

Group-sequential: at each look a t interval on the mean of independent values is taken, so wide that all intervals of all looks together
hold the true mean with the probability ``1 - error``. Whoever stops at any of them, for any reason, is wrong in at most that share.
How much of the error each look may spend is said by the share of the budget that is used by then (of the time, or of the values), which
must not depend on the values.

References: Lan and DeMets, Biometrika 70 (1983), error spending. Lan and DeMets, Statistics in Medicine 8 (1989),
spending by time while the correlation of looks goes by the number of values. Kim and DeMets, Biometrika 74 (1987),
the power family. Armitage, McPherson and Rowe, J. R. Statist. Soc. A 132 (1969), the recursion; Jennison and
Turnbull, J. R. Statist. Soc. B 51 (1989), repeated confidence intervals, and their book (2000), section 4.4, the
step from the normal to Student's distribution, which is an approximation: what it costs stands in docs/measure/ab.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit

from weir_lab.theory.stats._inputs import runs_of
from weir_lab.theory.stats.intervals import Interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Look", "SequentialPlan", "boundaries", "repeated_interval"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(256)
# With Student's quantiles in the normal bounds' place, looks from the fifth value on spend together up to a tenth
# more than they should. That is .0275 of .025 in 200,000 simulated comparisons of at most 20 values, .0268 of at
# most 100. So a tenth less is given out.
_GIVEN_OUT = 0.9
# Beyond this number of standard deviations nothing is left to be integrated, and no look spends less than this
# much.
_FARTHEST = 9.0
_LEAST_SPENT = 1e-12


@dataclass(frozen=True)
class Look:
    """A look after ``n`` values, when the share ``used`` of the budget is gone."""

    n: int
    used: float


@dataclass(frozen=True)
class SequentialPlan:
    """Error of all looks together, and how it is spent: ``error * used ** power``.

    With power 1 an obvious difference ends the comparison at its first look, and the last look is little wider than
    one that is the only one. 3 is near O'Brien and Fleming's boundary, which spends nearly all at the end.
    """

    error: float = 0.025
    power: float = 1.0
    first: int = 5
    """Values at the first look: fewer say too little of their spread."""
    growth: float = 1.25
    """Each look has this many times the values of the one before it."""

    def __post_init__(self) -> None:
        if not 0.0 < self.error < 0.5 or self.power <= 0.0 or self.first < 5 or self.growth < 1.0:
            raise ValueError(
                "A sequential plan needs an error in (0, 0.5), a positive power, 5 values at the first look, growth >= 1."
            )

    def next_n(self, n: int) -> int:
        """Values at the look after one with `n`; 0 for none yet.

        >>> SequentialPlan().next_n(0), SequentialPlan().next_n(5), SequentialPlan().next_n(40)
        (5, 7, 50)
        """
        return self.first if n < self.first else max(n + 1, math.ceil(n * self.growth))

    def spent(self, used: float) -> float:
        """Error that may be spent by then: a tenth is kept back for the step from the normal to Student's distribution."""
        return float(_GIVEN_OUT * self.error * min(1.0, max(0.0, used)) ** self.power)


def repeated_interval(values: ArrayLike, looks: tuple[Look, ...], plan: SequentialPlan) -> Interval:
    """Interval at the last of `looks`, which is the one at these values; the earlier ones are those that were taken before.

    Assumed: independent values, roughly normal or symmetric with heavy tails (then it is too wide rather than too narrow).

    >>> plan = SequentialPlan(error=0.05)
    >>> one_look = repeated_interval([1.0, 2.0, 3.0, 4.0, 5.0], (Look(5, 1.0),), plan)
    >>> round(one_look.half_width, 3)  # Student's of 95.5 %
    2.037
    """
    data = runs_of(values)
    if not looks or looks[-1].n != data.size:
        raise ValueError(f"The last look is not at these {data.size} values.")
    quantile = _students(boundaries(looks, plan)[-1], data.size - 1)
    mean, half = float(data.mean()), quantile * float(data.std(ddof=1)) / math.sqrt(data.size)
    return Interval(mean, mean - half, mean + half, int(data.size), 1.0 - plan.error)


def boundaries(looks: tuple[Look, ...], plan: SequentialPlan) -> tuple[float, ...]:
    """Standard normal boundary of each look: the mean leaves it on either side with the probability that is spent there.

    >>> [round(bound, 3) for bound in boundaries((Look(10, 0.5), Look(20, 1.0)), SequentialPlan(error=0.05))]
    [2.282, 2.17]
    """
    counts = [look.n for look in looks]
    used = [look.used for look in looks]
    if any(later <= earlier for earlier, later in itertools.pairwise(counts)) or counts[0] < 1:
        raise ValueError("Each look needs more values than the one before it.")
    if any(later < earlier for earlier, later in itertools.pairwise(used)):
        raise ValueError("What is used of a budget does not come back.")
    return _boundaries(tuple(counts), tuple(plan.spent(share) for share in used))


@lru_cache(maxsize=4096)
def _boundaries(counts: tuple[int, ...], spent: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(bound for bound, _ in _walk(counts, spent))


@lru_cache(maxsize=4096)
def _walk(counts: tuple[int, ...], spent: tuple[float, ...]) -> tuple[tuple[float, NDArray[np.float64]], ...]:
    """Bound of each look, with the density of the sum of the values on the nodes inside of it, for walks that never left.

    A walk of standard normal steps stands at S after n of them; it leaves at a look where S, or -S, is at least bound * sqrt(n).
    """
    if len(counts) == 1:
        bound = min(_FARTHEST, -float(ndtri(max(spent[0], _LEAST_SPENT) / 2.0)))
        scaled = bound * _NODES
        return ((bound, np.exp(-0.5 * scaled**2) / math.sqrt(2.0 * math.pi * counts[0])),)
    before = _walk(counts[:-1], spent[:-1])
    bound, density = before[-1]
    reach = bound * math.sqrt(counts[-2])
    sums, mass = reach * _NODES, reach * _WEIGHTS * density
    step, root = math.sqrt(counts[-1] - counts[-2]), math.sqrt(counts[-1])
    wanted = max(spent[-1] - spent[-2], _LEAST_SPENT)

    def leaves(candidate: float) -> float:
        edge = candidate * root
        return float(mass @ (ndtr((sums - edge) / step) + ndtr((-sums - edge) / step)))

    found = _FARTHEST if leaves(_FARTHEST) >= wanted else float(brentq(lambda at: leaves(at) - wanted, 0.0, _FARTHEST))
    apart = (found * root * _NODES[:, None] - sums[None, :]) / step
    kernel = np.exp(-0.5 * apart**2) / (step * math.sqrt(2.0 * math.pi))
    return (*before, (found, kernel @ mass))


def _students(bound: float, freedom: int) -> float:
    """Quantile of Student's distribution with the same tail as the normal one's bound."""
    return -float(stdtrit(freedom, ndtr(-bound)))
