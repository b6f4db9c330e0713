"""2^k r designs: effects, allocation of variation, intervals, residual checks, additive against multiplicative model.

``analysis``  `analyse_factorial`: raw observations -> effects with sums of squares and intervals; contrasts and predicted responses
``checks``    `check_residuals` and `compare_models`: does the model fit, and is the logarithm the better scale?

With one run per cell (r = 1) there is no error to compare with: effects are shown without intervals, and nothing is called significant.
Reference for all: Jain, The Art of Computer Systems Performance Analysis, ch. 17-18 and 21.
"""

from weir_lab.theory.factorial.analysis import Effect, ErrorOf, Estimate, FactorialAnalysis, analyse_factorial
from weir_lab.theory.factorial.checks import ModelChoice, ResidualChecks, Scale, check_residuals, compare_models

__all__ = [
    "Effect",
    "ErrorOf",
    "Estimate",
    "FactorialAnalysis",
    "ModelChoice",
    "ResidualChecks",
    "Scale",
    "analyse_factorial",
    "check_residuals",
    "compare_models",
]
