"""Sentences held against our runs: each holds, does not hold, or the data cannot tell, and why.

They are the earlier study's conclusions and expectations, and ours. One rule for all of them: each is judged by the interval of its own
contrast, of one factor changed alone, against limits that stand in the set file. The chance of any wrong one is held over all of a study
(`theory.linear.judging`).

``asked``       what a rule gives, and what rules have in common
``rules``       what each rule asks of the data
``shapes``      rules of what was expected: stages, bends, one factor against another
``stopping``    what a verdict is about where series stop at different places
``contrasts``   cells that differ in one factor alone; maxima; ratios; traces in parts
``family``      all sentences of a set judged together. Start with `judge_set`
``expected``    curves that were expected, drawn into the section's figures
``confirming``  runs in which one station alone was changed
``limits``      what limits a section, by two signs of it and by such runs
"""

from weir_lab.report.sections.claims.confirming import Confirmed, Weighed, confirm_set, verdicts_of
from weir_lab.report.sections.claims.expected import with_expected
from weir_lab.report.sections.claims.family import FAMILY_TEXT, RULES, Held, judge_set
from weir_lab.report.sections.claims.limits import Explained, explained_of, what_limits, why

__all__ = [
    "FAMILY_TEXT",
    "RULES",
    "Confirmed",
    "Explained",
    "Held",
    "Weighed",
    "confirm_set",
    "explained_of",
    "judge_set",
    "verdicts_of",
    "what_limits",
    "why",
    "with_expected",
]
