"""What an answer about a system that is not built rests on, in sentences: `assumptions`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.theory.units import percent_text, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.theory.capacity.tiers import Tier

__all__ = ["assumptions"]


def assumptions(tiers: Sequence[Tier], *, closed: bool) -> list[str]:
    """What an answer rests on, a sentence each, in the order in which it usually fails."""
    said = ["No pauses, failures, timeouts or retries; the time outside the tiers is constant."]
    if closed:
        said.append("Each client has one request in flight and sends the next after the reply and the delay.")
    else:
        said.append("Arrivals are independent of each other (Poisson): bursts wait longer.")
    for tier in tiers:
        said.append(f"{tier.name}: {_service_assumed(tier)}{_spread_assumed(tier)}.")
    copied = [tier.name for tier in tiers if tier.writes > 0.0 and tier.replicas > 1]
    if copied:
        said.append(f"{' and '.join(copied)}: copies of a write are served independently of each other.")
    if not closed:
        said.append("Times at several tiers are independent, and every request meets the busiest unit of each.")
    return said


def _service_assumed(tier: Tier) -> str:
    if tier.service_cv2 == 0.0:
        return "constant service times"
    if tier.service_cv2 == 1.0:
        return "exponential service times"
    shape = "gamma distributed service times" if tier.service_cv2 < 1.0 else "service times of unknown shape"
    return f"{shape} with cv² = {significant(tier.service_cv2)}"


def _spread_assumed(tier: Tier) -> str:
    if tier.hottest > 0.0:
        hot = f"one key gets {percent_text(tier.hottest)} of the requests"
        rest = (
            "the others are even"
            if tier.imbalance == 1.0
            else f"of the others a unit gets up to {tier.imbalance:g} times the mean"
        )
        return f", {hot}, {rest}"
    if tier.units == 1:
        return ""
    if tier.imbalance > 1.0:
        return f", the busiest unit gets {tier.imbalance:g} times the mean"
    return ", all units get the same load: no key is hot (hottest=), and placement is even (imbalance=)"
