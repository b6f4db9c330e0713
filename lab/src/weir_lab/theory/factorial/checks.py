"""Whether the additive model fits, and whether the logarithm is the better scale.

Service time times load is a product: where factors multiply, their effects add on the logarithm. Physical reasoning comes first; the
checks here say what the data show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from weir_lab.theory.factorial.analysis import FactorialAnalysis, analyse_factorial
from weir_lab.theory.linear import spread_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["ModelChoice", "ResidualChecks", "Scale", "check_residuals", "compare_models"]

# Beyond a tenfold range an additive error is hardly the same at both ends (Jain, section 18.8).
_WIDE_RANGE = 10.0
# Sample deviations of 3 runs differ by a factor of 10 now and then by chance alone.
_SPREAD_RATIO = 10.0
_ALPHA = 0.01


class Scale(StrEnum):
    """The scale on which effects add."""

    ADDITIVE = "additive"
    LOGARITHMIC = "logarithmic"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class ResidualChecks:
    """What the residuals say. None where the data cannot tell.

    ``range_ratio`` is y_max / y_min; ``spread_ratio`` the largest over the smallest cell deviation, infinite if one
    is 0. ``spread_p`` is Bartlett's p for equal spread; ``spread_slope`` the slope of log deviation over log mean
    (0: constant, 1: proportional). ``normal_correlation`` is that of the normal quantile plot; ``drift`` is the
    correlation of residuals with run order. ``warnings`` are sentences.
    """

    range_ratio: float | None
    spread_ratio: float | None
    spread_p: float | None
    spread_slope: float | None
    normal_correlation: float | None
    drift: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ModelChoice:
    """The design on both scales, and which one to read; ``logarithmic`` (natural logarithms) is None for data that are not positive."""

    additive: FactorialAnalysis
    logarithmic: FactorialAnalysis | None
    scale: Scale
    reasons: tuple[str, ...]


def check_residuals(analysis: FactorialAnalysis, run_order: ArrayLike | None = None) -> ResidualChecks:
    """Check range, equal spread, normality and drift; ``run_order`` has the shape of the observations."""
    y = analysis.observations
    warnings = []
    range_ratio = float(y.max() / y.min()) if y.min() > 0.0 else None
    if range_ratio is not None and range_ratio > _WIDE_RANGE:
        warnings.append(f"the largest value is {range_ratio:.3g} times the smallest: consider logarithms")
    if analysis.repetitions < 2:
        warnings.append("one run per cell: no error, no intervals, no test of anything")
        return ResidualChecks(range_ratio, None, None, None, None, None, tuple(warnings))
    assert analysis.fit is not None  # there are two runs per cell or more
    spread = spread_of(analysis.fit)
    deviations = np.array([spread.sds[cell] for cell in range(len(analysis.predicted))])
    least, most = float(deviations.min()), float(deviations.max())
    spread_ratio = math.inf if least == 0.0 < most else most / least if least > 0.0 else None
    spread_p = spread.p if most > 0.0 else None
    if spread_p is not None and spread_p < _ALPHA and spread_ratio is not None and spread_ratio > _SPREAD_RATIO:
        warnings.append(
            f"cells differ in spread by a factor of {spread_ratio:.3g} (Bartlett p = {spread_p:.2g}): one error for all does not fit"
        )
    slope = _slope(deviations.tolist(), analysis.predicted.tolist())
    residuals = np.sort(analysis.residuals.ravel())
    places = ndtri((np.arange(1, residuals.size + 1) - 0.375) / (residuals.size + 0.25))
    normal = _correlation(residuals.tolist(), places.tolist())
    # Critical value at 1 %, about 1 - 1.5 / n for 10 to 100 points (Looney and Gulledge 1985).
    if normal is not None and residuals.size >= 10 and normal < 1.0 - 1.5 / residuals.size - 0.02:
        warnings.append(f"residuals are not normal (correlation {normal:.3f} with normal quantiles): look for outliers")
    drift = None
    if run_order is not None:
        order = np.asarray(run_order, dtype=np.float64)
        if order.shape != analysis.residuals.shape:
            raise ValueError("The run order needs the shape of the observations.")
        drift = _correlation(analysis.residuals.ravel().tolist(), order.ravel().tolist())
        if drift is not None and abs(drift) > 2.6 / math.sqrt(order.size):
            warnings.append(
                f"residuals drift with run order (correlation {drift:.2f}): the machine changed during the study"
            )
    return ResidualChecks(range_ratio, spread_ratio, spread_p, slope, normal, drift, tuple(warnings))


def compare_models(
    levels: ArrayLike,
    observations: ArrayLike,
    factors: Sequence[str] = (),
    level: float = 0.95,
    *,
    blocked: bool = False,
    checked: bool = False,
) -> ModelChoice:
    """Fit both scales and say which one the data ask for, and why; ``blocked`` and ``checked`` as `analyse_factorial` has them.

    Logarithmic if the values span more than a factor of 10, or if the spread grows with the level (slope above 0.5
    with unequal spread). Additive if values span less than a factor of 3 and spreads are alike. Otherwise
    undecided, and physics decides.
    """
    y = np.asarray(observations, dtype=np.float64)
    additive = analyse_factorial(levels, y, factors, level, blocked=blocked, checked=checked)
    if y.min() <= 0.0:
        return ModelChoice(additive, None, Scale.ADDITIVE, ("values are not all positive: there is no logarithm",))
    logarithmic = analyse_factorial(levels, np.log(y), factors, level, blocked=blocked, checked=checked)
    checks, on_log = check_residuals(additive), check_residuals(logarithmic)
    ratio = checks.range_ratio or 1.0
    reasons = [f"largest over smallest value: {ratio:.3g}"]
    grows = False
    if checks.spread_p is not None and checks.spread_slope is not None:
        grows = checks.spread_p < _ALPHA and checks.spread_slope > 0.5
        reasons.append(
            f"spread grows as the {checks.spread_slope:.2g}th power of the level (Bartlett p = {checks.spread_p:.2g})"
        )
    if on_log.spread_p is not None and checks.spread_p is not None:
        reasons.append(f"on the logarithm Bartlett p = {on_log.spread_p:.2g}")
    if additive.repetitions > 1:
        reasons.append(
            f"unexplained: {additive.percent_error:.3g} % additive, {logarithmic.percent_error:.3g} % logarithmic"
        )
    if ratio > _WIDE_RANGE or grows:
        scale = Scale.LOGARITHMIC
    elif ratio < 3.0 and (checks.spread_p is None or checks.spread_p >= _ALPHA):
        scale = Scale.ADDITIVE
    else:
        scale = Scale.UNDECIDED
    return ModelChoice(additive, logarithmic, scale, tuple(reasons))


def _slope(deviations: list[float], means: list[float]) -> float | None:
    pairs = [(math.log(m), math.log(d)) for d, m in zip(deviations, means, strict=True) if d > 0.0 and m > 0.0]
    if len(pairs) < 3:
        return None
    x, y = np.array(pairs).T
    spread = float(((x - x.mean()) ** 2).sum())
    return float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 1e-12 else None


def _correlation(left: list[float], right: list[float]) -> float | None:
    x, y = np.array(left) - np.mean(left), np.array(right) - np.mean(right)
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / size if size > 0.0 else None
