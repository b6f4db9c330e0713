"""When to stop measuring, and what may be said then.

``rule``        how many runs of a cell: the stop rule, the two-stage plan, sample sizes
``sequential``  looks again and again with one error rate for all of them
``verdicts``    faster, slower, the same, or cannot tell: from lives of short pairs
"""

from weir_lab.theory.stats.stopping.rule import (
    Decision,
    StopRule,
    running_half_widths,
    runs_for_precision,
    sample_size,
)
from weir_lab.theory.stats.stopping.sequential import Look, SequentialPlan, boundaries, repeated_interval
from weir_lab.theory.stats.stopping.verdicts import (
    Direction,
    Judgement,
    Pair,
    Verdict,
    judge,
    life_values,
    slope_on_slowness,
)

__all__ = [
    "Decision",
    "Direction",
    "Judgement",
    "Look",
    "Pair",
    "SequentialPlan",
    "StopRule",
    "Verdict",
    "boundaries",
    "judge",
    "life_values",
    "repeated_interval",
    "running_half_widths",
    "runs_for_precision",
    "sample_size",
    "slope_on_slowness",
]
