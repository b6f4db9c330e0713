"""The earlier study's sentences, held against our runs: each holds, does not hold, or the data cannot tell, and why.

One rule for all of them: each is judged by the interval of its own contrast, of one factor changed alone, against limits that stand in the
set file. The chance of any wrong one is held over all of a study (`theory.linear.judging`).

``rules``      what each rule asks of the data
``contrasts``  cells that differ in one factor alone; maxima; ratios; traces in parts
``family``     all conclusions of a set judged together. Start with `judge_set`
"""

from weir_lab.report.sections.claims.family import FAMILY_TEXT, Held, judge_set
from weir_lab.report.sections.claims.rules import RULES

__all__ = ["FAMILY_TEXT", "RULES", "Held", "judge_set"]
