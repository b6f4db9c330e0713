"""Words that all predictions share: the rule by which they are met, how far off they are, what would tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.report.page.blocks import Value
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from weir_lab.report.common import Task
    from weir_lab.report.page.blocks import Entry
    from weir_lab.theory.fitting.meeting import Meeting

__all__ = ["no_miss", "off", "over_text", "rule_text", "shown"]

# More than this nobody measures.
_TIMES_MAX = 1000.0
# From here on a ratio is written as one.
_PERCENT_MAX = 900.0
# What is smaller is not written out.
_SMALLEST = 1e-4


def rule_text(task: Task) -> str:
    """When a prediction of this section is met, missed, or neither."""
    margins = task.margins
    return (
        f"A prediction is met where the 95 % interval of observed over predicted lies within ±{margins.prediction_throughput:g} % "
        f"(throughput, X) or ±{margins.prediction_response:g} % (response time, R), missed where it lies outside. Where the data cannot "
        "tell, it does not count as met."
    )


def off(met: Meeting) -> Entry:
    """Observed over predicted less 1, in percent, with its interval; many times as much in words, because nobody reads such percents."""
    if met.percent >= _PERCENT_MAX:
        return over_text(met)
    return Value(met.percent, met.low, met.high, 1, signed=True)


def over_text(met: Meeting) -> str:
    """How observed is to predicted: ``12 % above``, ``3.0 % below``, or ``24 times``, where percents would have four digits."""
    if met.percent >= _PERCENT_MAX:
        return f"{number(1.0 + met.percent / 100.0, 0)} times"
    return (
        f"{number(abs(met.percent), 0 if abs(met.percent) >= 10 else 1)} % {'above' if met.percent >= 0.0 else 'below'}"
    )


def no_miss(met: Meeting) -> str:
    """Of a prediction that is not missed: what keeps it from being met; empty where it is."""
    if met.met:
        return ""
    if met.low is None:
        return "a single run has no interval"
    if met.times_more > _TIMES_MAX:
        return "what was found lies at the margin itself"
    return f"some {math.ceil(met.times_more)} times the runs would tell"


def shown(value: float) -> Entry:
    """A number that may be too small to be written out."""
    return "< 0.0001" if 0.0 < value < _SMALLEST else Value(value)
