"""When to stop measuring, and what may be said then.

``rule``        how many runs of a cell: the stop rule, the two-stage plan, sample sizes
``sequential``  looks again and again with one error rate for all of them
"""

from weir_lab.theory.stats.stopping.rule import (
    Decision,
    StopRule,
    running_half_widths,
    runs_for_precision,
    sample_size,
)
from weir_lab.theory.stats.stopping.sequential import Look, SequentialPlan, boundaries, repeated_interval

__all__ = [
    "Decision",
    "Look",
    "SequentialPlan",
    "StopRule",
    "boundaries",
    "repeated_interval",
    "running_half_widths",
    "runs_for_precision",
    "sample_size",
]
