"""One linear model for all comparisons of cells: cell + block (+ covariate), errors pooled where spreads agree.

``layout``        labels of runs -> what least squares needs; missing runs, unequal repeats, what cannot be estimated
``fit``           least squares: contrasts of cells, levels, slope of the covariate, residuals, leverage
``checks``        equal spread of cells; likeness of neighbours in time
``simultaneous``  the distribution of the largest |t| of several contrasts
``contrasts``     contrasts judged together: intervals and p values that say the same
``judging``       conclusions: holds, does not hold, cannot tell, with the chance of any wrong one held over a study
``plateau``       the maximum of a curve: the first level shown to reach it, and its value
``logs``          the same for positive responses, on logarithms: changes in percent, levels in their unit
``allocation``    where the next runs tell most: half-widths over what they are to be, incomplete blocks

Start with `LogModel`; for a response with its own scale with `lay_out`, `fit` and `compare`.

The core is our own. Cells are absorbed, so that thousands of cells cost nothing. What the pages need would have to
be written around any general package all the same: levels with random blocks, simultaneous intervals, checks
through the same layout.
"""

from weir_lab.theory.linear.allocation import Aim, Reach, next_block, reaches, runs_to_come
from weir_lab.theory.linear.checks import DEPENDENT_P, UNEQUAL_P, Dependence, Spread, dependence_of, spread_of
from weir_lab.theory.linear.contrasts import Contrast, ErrorFrom, compare
from weir_lab.theory.linear.fit import Estimate, Fit, Slope, fit
from weir_lab.theory.linear.judging import Answer, Conclusion, Counted, Question, Unmeasured, Within, judge_all
from weir_lab.theory.linear.layout import Layout, LayoutError, lay_out
from weir_lab.theory.linear.logs import (
    Change,
    Equivalence,
    LogModel,
    MeasuredRun,
    interval_of,
    positive_interval,
)
from weir_lab.theory.linear.plateau import PLATEAU_SHARE, Plateau, plateau_of
from weir_lab.theory.linear.simultaneous import max_t_p, max_t_quantile

__all__ = [
    "DEPENDENT_P",
    "PLATEAU_SHARE",
    "UNEQUAL_P",
    "Aim",
    "Answer",
    "Change",
    "Conclusion",
    "Contrast",
    "Counted",
    "Dependence",
    "Equivalence",
    "ErrorFrom",
    "Estimate",
    "Fit",
    "Layout",
    "LayoutError",
    "LogModel",
    "MeasuredRun",
    "Plateau",
    "Question",
    "Reach",
    "Slope",
    "Spread",
    "Unmeasured",
    "Within",
    "compare",
    "dependence_of",
    "fit",
    "interval_of",
    "judge_all",
    "lay_out",
    "max_t_p",
    "max_t_quantile",
    "next_block",
    "plateau_of",
    "positive_interval",
    "reaches",
    "runs_to_come",
    "spread_of",
]
