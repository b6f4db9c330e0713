"""Gunther's universal scalability law: X(N) = γ N / (1 + α (N-1) + β N (N-1)).

γ is the throughput of one client, α the share of work that is serial (contention), β the cost of keeping every pair consistent
(coherency). A curve fit, not a mechanism: it describes, and predicts only between the measured points. Reference: Gunther, Guerrilla
Capacity Planning, ch. 4-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Parameter", "ScalabilityFit", "fit_scalability", "scalability_peak"]

# Gauss-Newton steps; points on a straight line leave alpha and beta nearly free, and the search would wander.
_STEPS_MAX = 200


@dataclass(frozen=True)
class Parameter:
    """An estimate with its interval.

    ``at_bound``: the constraint holds it at 0, so there is no standard error and the interval is one-sided.
    """

    value: float
    standard_error: float | None
    low: float
    high: float
    at_bound: bool = False


@dataclass(frozen=True)
class ScalabilityFit:
    """A fitted law. ``gamma`` in requests per second, ``residual_sd`` too; α and β have no unit."""

    gamma: Parameter
    alpha: Parameter
    beta: Parameter
    residual_sd: float
    freedom: int
    level: float

    def throughput(self, population: ArrayLike) -> NDArray[np.float64]:
        """X(N) of the fitted curve."""
        return _curve(np.asarray(population, dtype=np.float64), self.gamma.value, self.alpha.value, self.beta.value)

    @property
    def peak(self) -> float | None:
        """Population of the highest throughput, sqrt((1-α)/β); None where the curve rises for ever or only falls."""
        return _peak(self.alpha.value, self.beta.value)

    @property
    def peak_throughput(self) -> float | None:
        """Throughput at the peak."""
        return None if self.peak is None else float(self.throughput(self.peak))

    @property
    def limit(self) -> float | None:
        """γ/α: what the throughput would tend to without coherency cost; None without contention."""
        return None if self.alpha.value == 0.0 else self.gamma.value / self.alpha.value


def fit_scalability(population: ArrayLike, throughput: ArrayLike, level: float = 0.95) -> ScalabilityFit:
    """Least squares on X with γ > 0, α >= 0, β >= 0; t intervals with n - p degrees of freedom.

    Standard errors come from the Jacobian at the solution, over the parameters that are not held at a bound. A parameter at its bound gets
    a one-sided interval from the profile of the residual sum of squares: up to where it exceeds the minimum by t^2/(n-p). Points should be
    run means: more points of one run do not make more information.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    >>> round(fit_scalability(n, 10 * n / (1 + 0.1 * (n - 1))).alpha.value, 9)
    0.1
    """
    n, x = _points(population, throughput)
    if not 0.0 < level < 1.0:
        raise ValueError(f"A confidence level lies between 0 and 1, not {level}.")
    solution = _best(n, x, {})
    free = [index for index in range(3) if index == 0 or solution[index] > 0.0]
    residual = x - _curve(n, *solution)
    freedom = n.size - len(free)
    square = float(residual @ residual)
    quantile = float(stdtrit(freedom, 0.5 + level / 2.0))
    jacobian = _jacobian(n, *solution)[:, free]
    # Columns differ by orders of magnitude: scale them before inverting.
    scale = np.linalg.norm(jacobian, axis=0)
    covariance = np.linalg.inv((jacobian / scale).T @ (jacobian / scale)) / np.outer(scale, scale)
    errors = dict(zip(free, np.sqrt(np.diag(covariance) * square / freedom).tolist(), strict=True))
    parameters = []
    for index in range(3):
        value = float(solution[index])
        if index in errors:
            reach = quantile * errors[index]
            parameters.append(Parameter(value, errors[index], value - reach, value + reach))
        else:
            one_sided = float(stdtrit(freedom, level))
            high = _profile_limit(n, x, index, square * (1.0 + one_sided**2 / freedom))
            parameters.append(Parameter(0.0, None, 0.0, high, at_bound=True))
    gamma, alpha, beta = parameters
    return ScalabilityFit(gamma, alpha, beta, math.sqrt(square / freedom), freedom, level)


def scalability_peak(population: ArrayLike, throughput: ArrayLike) -> float | None:
    """Only the peak of the fitted law, without the intervals, which cost many fits: for resampling.

    >>> n = np.array([1.0, 4.0, 16.0, 64.0])
    >>> round(scalability_peak(n, n / (1 + 0.1 * (n - 1) + 0.001 * n * (n - 1))) or 0.0, 6)
    30.0
    """
    _, alpha, beta = _best(*_points(population, throughput), {}).tolist()
    return _peak(alpha, beta)


def _peak(alpha: float, beta: float) -> float | None:
    return None if beta == 0.0 or alpha >= 1.0 else math.sqrt((1.0 - alpha) / beta)


def _points(population: ArrayLike, throughput: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n, x = np.asarray(population, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    if n.ndim != 1 or n.shape != x.shape or np.unique(n).size < 4:
        raise ValueError("The scalability law has 3 parameters: fit it to at least 4 different populations.")
    if not (np.isfinite(n).all() and np.isfinite(x).all()) or n.min() <= 0.0 or x.min() <= 0.0:
        raise ValueError("Populations and throughputs are positive and finite.")
    return n, x


def _curve(n: NDArray[np.float64], gamma: float, alpha: float, beta: float) -> NDArray[np.float64]:
    curve: NDArray[np.float64] = gamma * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0))
    return curve


def _jacobian(n: NDArray[np.float64], gamma: float, alpha: float, beta: float) -> NDArray[np.float64]:
    below = 1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0)
    by_alpha = -gamma * n * (n - 1.0) / below**2
    return np.column_stack([n / below, by_alpha, by_alpha * n])


def _best(n: NDArray[np.float64], x: NDArray[np.float64], held: dict[int, float]) -> NDArray[np.float64]:
    """Constrained least squares: the best of all ways to put free parameters of {α, β} at 0, in units of order 1."""
    from scipy.optimize import least_squares  # slow to load, and most commands do not need it

    top, rate = float(n.max()), float((x / n).max())
    units = np.array([rate, 1.0 / top, 1.0 / top**2])
    start = np.array([1.0, 0.5, 0.1])
    best: tuple[float, NDArray[np.float64]] | None = None
    choices = [{**held}, {1: 0.0, **held}, {2: 0.0, **held}, {1: 0.0, 2: 0.0, **held}]
    for fixed in choices:
        free = [index for index in range(3) if index not in fixed]

        full = partial(_expanded, fixed=fixed, free=free, units=units)
        fit = least_squares(
            partial(_scaled_residual, n=n, x=x, full=full),
            start[free],
            jac=partial(_scaled_jacobian, n=n, full=full, free=free, units=units),
            method="lm",
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=_STEPS_MAX,
        )
        values = np.array(full(fit.x))
        if values[0] > 0.0 and min(values[1:]) >= 0.0 and (best is None or fit.cost < best[0] * (1.0 - 1e-12)):
            best = (float(fit.cost), values)
            if fixed == held:
                break  # inside the constraints: no parameter needs to be held
    if best is None:
        raise ValueError(
            "The scalability law does not fit these points: the throughput falls faster than it can describe."
        )
    return best[1]


def _expanded(
    values: NDArray[np.float64], *, fixed: dict[int, float], free: list[int], units: NDArray[np.float64]
) -> list[float]:
    """All three parameters from the free ones, which are in units of order 1."""
    out = [fixed.get(index, 0.0) for index in range(3)]
    for index, value in zip(free, values.tolist(), strict=True):
        out[index] = value * float(units[index])
    return out


def _scaled_residual(
    values: NDArray[np.float64],
    n: NDArray[np.float64],
    x: NDArray[np.float64],
    full: Callable[[NDArray[np.float64]], list[float]],
) -> NDArray[np.float64]:
    return _curve(n, *full(values)) - x


def _scaled_jacobian(
    values: NDArray[np.float64],
    n: NDArray[np.float64],
    full: Callable[[NDArray[np.float64]], list[float]],
    free: list[int],
    units: NDArray[np.float64],
) -> NDArray[np.float64]:
    columns: NDArray[np.float64] = _jacobian(n, *full(values))[:, free] * units[free]
    return columns


def _profile_limit(n: NDArray[np.float64], x: NDArray[np.float64], index: int, square_max: float) -> float:
    """Largest value of a parameter whose best fit stays below a residual sum of squares."""

    def square(value: float) -> float:
        residual = x - _curve(n, *_best(n, x, {index: value}))
        return float(residual @ residual)

    low, high = 0.0, 0.1 / float(n.max()) ** index
    while square(high) < square_max and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if square(middle) < square_max else (low, middle)
    return high
