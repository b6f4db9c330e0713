"""Checks that hold for every correct measurement, whatever was measured. Pure functions: numbers in, a verdict with its reason out.

``runs``         what one run must satisfy: the interactive law, equal counts at both ends, stages that add up to the nanosecond
``operational``  the operational laws on any numbers, with tolerance and interval: utilization, forced flow, Little, response time, demand
``bounds``       what links and processors allow

They find lost clients, partial windows, hidden think time, requests counted on one side only, and numbers that cannot be.
"""

from weir_lab.theory.laws.bounds import link_bound_rps
from weir_lab.theory.laws.operational import (
    LawCheck,
    LawVerdict,
    forced_flow_law,
    littles_law,
    response_time_law,
    utilization_law,
)
from weir_lab.theory.laws.runs import Check, InteractiveLaw, counts_agree, cycle_law, interactive_law, stages_add_up

__all__ = [
    "Check",
    "InteractiveLaw",
    "LawCheck",
    "LawVerdict",
    "counts_agree",
    "cycle_law",
    "forced_flow_law",
    "interactive_law",
    "link_bound_rps",
    "littles_law",
    "response_time_law",
    "stages_add_up",
    "utilization_law",
]
