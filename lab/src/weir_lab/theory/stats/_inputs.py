"""Input checks that all of the package shares: refuse early, say what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit  # Student's t; scipy.stats takes a second to load

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["checked_level", "finite", "runs_of", "standard_error", "t_quantile"]


def finite(values: ArrayLike, what: str, at_least: int = 1) -> NDArray[np.float64]:
    """A one-dimensional array of finite numbers."""
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size < at_least:
        raise ValueError(f"{what} needs at least {at_least} values in one dimension, not shape {data.shape}.")
    if not np.isfinite(data).all():
        raise ValueError(f"{what} needs finite numbers.")
    return data


def runs_of(values: ArrayLike) -> NDArray[np.float64]:
    """Run means: at least two, because one run says nothing about its own spread."""
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size < 2:
        raise ValueError(f"An interval needs at least 2 runs, not {data.size}.")
    if not np.isfinite(data).all():
        raise ValueError("An interval needs finite numbers.")
    return data


def checked_level(level: float) -> float:
    """A confidence level as a share."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"A confidence level lies between 0 and 1, not {level}.")
    return level


def t_quantile(level: float, freedom: float) -> float:
    """Two-sided quantile: |t| stays below it with probability `level`."""
    return float(stdtrit(freedom, 0.5 + checked_level(level) / 2.0))


def standard_error(data: NDArray[np.float64]) -> float:
    """Standard deviation of the mean, s / sqrt(n) with s of n - 1."""
    return float(data.std(ddof=1) / np.sqrt(data.size))
