"""How far the largest of several t statistics reaches: `max_t_quantile` and `max_t_p`.

Several contrasts are judged together by the distribution of max |T| over them, T multivariate t with the
correlations that the design gives (Hothorn, Bretz, Westfall, "Simultaneous inference in general parametric models",
Biometrical Journal 50, 2008). It is exact for any set of contrasts: it gives Tukey's quantile for all pairs,
Dunnett's for all against one, and Šidák's for independent ones; Bonferroni's and Scheffé's are longer. The integral
is taken along rays. For a direction u on the sphere of the d dimensions that the contrasts span, max |T| = r · max
|L u| / s, and r² / (d s²) is F with d and ν degrees of freedom. Only directions are drawn, from a fixed seed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtr, stdtr, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["max_t_p", "max_t_quantile"]

_SEED = 20_261_122
# The quantile of 28 pairs of 8 cells then has a standard error of 0.1 % of itself.
_DIRECTIONS = 32_768
# The integrand is smooth in the reach of a direction, so that the means of this number of equal groups stand for
# all of them.
_GROUPS = 512
_STEPS = 60


def max_t_quantile(correlation: NDArray[np.float64], freedom: float, level: float = 0.95) -> float:
    """The number that max |T| stays below with probability ``level``.

    >>> round(max_t_quantile(np.eye(1), 10.0), 3)
    2.228
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"A confidence level lies between 0 and 1, not {level}.")
    if _single(correlation):
        return float(stdtrit(freedom, 0.5 + level / 2.0))
    return _quantile(correlation.tobytes(), correlation.shape[0], freedom, level)


# All responses of a design ask for the same.
@lru_cache(maxsize=256)
def _quantile(correlation: bytes, size: int, freedom: float, level: float) -> float:
    reach, dimensions = _reach(correlation, size)
    low = float(stdtrit(freedom, 0.5 + level / 2.0))
    high = float(stdtrit(freedom, 1.0 - (1.0 - level) / (2.0 * size))) * (1.0 + 1e-9)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if _below(middle, reach, dimensions, freedom) < level:
            low = middle
        else:
            high = middle
        if high - low < 1e-9 * high:
            break
    return 0.5 * (low + high)


def max_t_p(t: float, correlation: NDArray[np.float64], freedom: float) -> float:
    """Chance that max |T| is at least ``|t|`` where no contrast has an effect: the adjusted p value."""
    single = 2.0 * float(stdtr(freedom, -abs(t)))
    if _single(correlation):
        return single
    size = correlation.shape[0]
    reach, dimensions = _reach(correlation.tobytes(), size)
    above = 1.0 - _below(abs(t), reach, dimensions, freedom)
    # Far out the difference from 1 has no digits left; the bounds have.
    return float(min(max(above, single), min(1.0, size * single)))


def _single(correlation: NDArray[np.float64]) -> bool:
    """Whether all contrasts are one, up to sign."""
    return bool((np.abs(correlation) > 1.0 - 1e-12).all())


def _below(q: float, reach: NDArray[np.float64], dimensions: int, freedom: float) -> float:
    return float(np.mean(fdtr(dimensions, freedom, q * q / (dimensions * reach * reach))))


@lru_cache(maxsize=256)
def _reach(correlation: bytes, size: int) -> tuple[NDArray[np.float64], int]:
    """Largest |L u| of each direction u, and the number of dimensions."""
    values, vectors = np.linalg.eigh(np.frombuffer(correlation).reshape(size, size))
    kept = values > 1e-10 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    dimensions = int(kept.sum())
    drawn = np.random.default_rng(_SEED).standard_normal((_DIRECTIONS, dimensions))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    reach = np.sort(np.abs(drawn @ root.T).max(axis=1))
    return reach.reshape(_GROUPS, -1).mean(axis=1), dimensions
