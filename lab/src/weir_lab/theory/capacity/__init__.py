"""What if: systems that are not built yet; and how much one that runs can bear.

``tiers``        throughput and response times of a chain of tiers, and how many units of each a load needs
``assumptions``  what such an answer rests on, in sentences
``simulation``   the same chains and networks, event by event: the check that formulas are put to
``searching``    the largest rate at which a goal is met, from runs that meet it or do not

Start with `predict_open` and `plan_capacity`.
"""

from weir_lab.theory.capacity.tiers import (
    Answer,
    ClosedPlan,
    Plan,
    Tier,
    TierResponse,
    plan_capacity,
    predict_closed,
    predict_open,
)

__all__ = [
    "Answer",
    "ClosedPlan",
    "Plan",
    "Tier",
    "TierResponse",
    "plan_capacity",
    "predict_closed",
    "predict_open",
]
