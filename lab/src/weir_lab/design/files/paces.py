"""Paces: one study, run in minutes, in hours, or as the earlier study ran it.

==========  ==================================================  ==================  =====================================
pace        repetitions                                         levels per factor   phases
==========  ==================================================  ==================  =====================================
none        as written                                          as written          as written
quick       3, fixed (1 for traces and links)                   at most 4           5 s measured, traces 60 s
standard    stop rule from 5 on                                 as written          at most 20 s measured, traces 600 s
full        stop rule from 5 on, from 10 on for a headline      as written          as written
night       1, then where they tell most (`Plan.night`)         as written          5 s measured, 10 s for a headline
==========  ==================================================  ==================  =====================================

A ``[paces.NAME]`` of the file takes precedence over each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weir_lab.design.study import Kind, Night, PacePlan, Plan, Stop, Study

if TYPE_CHECKING:
    from weir_lab.design.settings import Level

__all__ = ["at_pace"]

_QUICK_LEVELS = 4
_QUICK_REPETITIONS = 3
_STANDARD_REPETITIONS = 5
# Ten for numbers that will be quoted: coverage of the stop rule rises from 94 to about 95 % (docs/measure/method.md).
_HEADLINE_REPETITIONS = 10
_MEASURED_S = {"quick": 5.0, "standard": 20.0, "night": 5.0}
_TRACE_S = {"quick": 60.0, "standard": 600.0}
_WARMUP_S = {"quick": 2.0, "standard": 5.0, "night": 2.0}
# Invalid, and tried again: another process took more than the gate allows, or the machine was slower or faster than it usually is.
_YARDSTICK_OFF_MAX = 0.15


def at_pace(study: Study) -> Study:
    """The study with the levels and the plan of its pace; itself where it names none."""
    if study.pace is None:
        return study
    changes = study.paces.get(study.pace, PacePlan())
    factors = study.factors
    if study.pace == "quick" and study.design == "full":
        factors = {name: _spread(levels) for name, levels in factors.items()}
    factors = {name: changes.factors.get(name, levels) for name, levels in factors.items()}
    update: dict[str, object] = {"factors": factors, "plan": _plan(study, changes)}
    if study.pace == "night":
        off = study.gates.yardstick_off_max or _YARDSTICK_OFF_MAX
        update["gates"] = study.gates.model_copy(update={"busy_machine": "invalid", "yardstick_off_max": off})
    return study.model_copy(update=update)


def _plan(study: Study, changes: PacePlan) -> Plan:
    pace, plan = str(study.pace), study.plan
    alone = study.kind in (Kind.TRACE, Kind.LINKS)
    longest = (_TRACE_S if study.kind is Kind.TRACE else _MEASURED_S).get(pace, plan.measured_s)
    rule: dict[str, float] = {
        "repetitions": 1 if alone else _repetitions(study),
        "measured_s": min(plan.measured_s, longest),
        "warmup_s": min(plan.warmup_s, _WARMUP_S.get(pace, plan.warmup_s)),
        "cooldown_s": min(plan.cooldown_s, _WARMUP_S.get(pace, plan.cooldown_s)),
    }
    rule["window_s"] = max(1, min(plan.window_s, int(rule["measured_s"])))
    written = changes.model_dump(exclude={"factors"}, exclude_none=True)
    if pace == "night" and study.kind is Kind.TRACE:
        rule["attempts"] = 1  # whether an hour that failed is made again is the reader's to say
    stops = pace not in ("quick", "night") and not alone and study.kind is not Kind.HASH
    stop = (plan.stop or Stop()) if stops else None
    night = None
    if pace == "night" and not alone and study.kind is not Kind.HASH:
        given = plan.night or Night()
        night = given.model_copy(
            update={"headline_s": max(min(plan.measured_s, given.headline_s), _measured_s(rule, written))}
        )
    return plan.model_copy(update={**rule, **written, "stop": stop, "night": night})


def _measured_s(rule: dict[str, float], written: dict[str, float]) -> float:
    return written.get("measured_s", rule["measured_s"])


def _repetitions(study: Study) -> int:
    if study.kind is Kind.HASH:
        return study.plan.repetitions
    if study.pace == "quick":
        return _QUICK_REPETITIONS
    if study.pace == "night":
        return 1
    return _HEADLINE_REPETITIONS if study.pace == "full" and study.headline else _STANDARD_REPETITIONS


def _spread(levels: list[Level]) -> list[Level]:
    """At most four of them, the first and the last among them, the others as evenly between as can be."""
    if len(levels) <= _QUICK_LEVELS:
        return levels
    places = np.linspace(0, len(levels) - 1, _QUICK_LEVELS).round().astype(int)
    return [levels[place] for place in places.tolist()]
