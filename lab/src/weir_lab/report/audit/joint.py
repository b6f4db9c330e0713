"""All printed numbers of one queue together: is there one station that prints like this? `station_exists`, `laws_hold`. Pure.

A law that is held against one number at a time lets two-digit inputs excuse nearly everything. Together they excuse less: λ and μ have
to be the same for all numbers of a row.

*A model* (M/M/1, M/M/m) has two unknowns, the load ρ and the rate μ. Numbers without a unit (U, C, N, N_q) depend on ρ alone and rise
with it; times are such a function over μ. So loads are split in halves, and a half is thrown away where no μ is left between the bounds
that its two ends give. What is left is smaller than any printed digit, or nothing: then no station prints like this. Bounds are outer
bounds, so that rounding never makes a right row wrong.

*Laws* hold without a model: R = W + S, N = λR, N_q = λW, U = λS/m. Ranges of the printed numbers are narrowed by each law until nothing
moves (interval propagation); an empty range is a contradiction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.theory.queueing import erlang_c

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weir_lab.report.audit.printed import Printed

__all__ = ["culprits", "laws_hold", "station_exists"]

_FREE = ("utilization", "prob_queueing", "jobs_in_system", "jobs_in_queue")
_TIMES = ("response_time", "waiting_time")
# Loads are split until they agree to this: far below a printed digit, and so few steps that a table of thousands of rows takes seconds.
_SPLITS_MAX = 4000
_WIDTH = 1e-5
_SLACK = 1e-9
_ROUNDS = 60


def station_exists(numbers: Mapping[str, Printed], servers: int) -> bool:
    """Whether some M/M/m station prints like these numbers: arrival_rate, service_rate, utilization, prob_queueing, jobs and times.

    ``service_rate`` is one server's.
    """
    low, high = 1e-9, 1.0 - 1e-9
    waiting = [(low, high)]
    splits = 0
    while waiting and splits < _SPLITS_MAX:
        left, right = waiting.pop()
        splits += 1
        if not _may_hold(numbers, servers, left, right):
            continue
        if right - left <= _WIDTH * min(left, 1.0 - right):
            return True
        # Near saturation everything moves with what is left of the server, at light load with the load.
        middle = math.sqrt(left * right) if right < 0.1 else 1.0 - math.sqrt((1.0 - left) * (1.0 - right))
        waiting += [(left, middle), (middle, right)]
    # Too many splits decide nothing, and nothing is claimed then.
    return bool(waiting)


def laws_hold(numbers: Mapping[str, Printed], servers: int = 1, tolerance: float = 0.0) -> bool:
    """Whether some values that print like these obey all operational laws of a station at once.

    ``service_rate`` or ``service_time`` are one server's; ``tolerance`` is what measured numbers may miss a law by.
    """
    box: dict[str, tuple[float, float]] = dict.fromkeys(("x", "r", "w", "s", "n", "q", "u"), (0.0, math.inf))
    short = {
        "arrival_rate": "x", "throughput": "x", "response_time": "r", "waiting_time": "w", "service_time": "s",
        "jobs_in_system": "n", "jobs_in_queue": "q", "utilization": "u",
    }  # fmt: skip
    for name, value in numbers.items():
        if name in short:
            _narrow(box, short[name], value.low * (1.0 - tolerance), value.high * (1.0 + tolerance))
        elif name == "service_rate" and value.low > 0.0:
            _narrow(box, "s", (1.0 - tolerance) / value.high, (1.0 + tolerance) / value.low)
    for _ in range(_ROUNDS):
        before = dict(box)
        (r0, r1), (w0, w1), (s0, s1) = (box[name] for name in "rws")
        _narrow(box, "r", w0 + s0, w1 + s1)
        _narrow(box, "w", r0 - s1, r1 - s0)
        _narrow(box, "s", r0 - w1, r1 - w0)
        for total, rate, time in (("n", "x", "r"), ("q", "x", "w")):
            _product(box, total, rate, time, 1.0)
        _product(box, "u", "x", "s", float(servers))
        (n0, n1), (q0, q1) = box["n"], box["q"]
        # n - n_q are the busy servers, m U.
        _narrow(box, "u", (n0 - q1) / servers, (n1 - q0) / servers)
        (u0, u1) = box["u"]
        _narrow(box, "n", q0 + servers * u0, q1 + servers * u1)
        _narrow(box, "q", n0 - servers * u1, n1 - servers * u0)
        if any(low > high * (1.0 + _SLACK) + 1e-15 for low, high in box.values()):
            return False
        if box == before:
            return True
    return True


def culprits(numbers: Mapping[str, Printed], servers: int, *, model: bool, tolerance: float = 0.0) -> list[str]:
    """Numbers that stand alone against all others: without one of them the rest is possible."""

    def possible(kept: Mapping[str, Printed]) -> bool:
        return station_exists(kept, servers) if model else laws_hold(kept, servers, tolerance)

    return [name for name in numbers if possible({other: value for other, value in numbers.items() if other != name})]


def _may_hold(numbers: Mapping[str, Printed], servers: int, left: float, right: float) -> bool:
    """Whether a load between these two may give all numbers; True if in doubt."""
    ends = _shape(left, servers), _shape(right, servers)
    for name in _FREE:
        value = numbers.get(name)
        if value is not None and (
            ends[1][name] < value.low * (1.0 - _SLACK) or ends[0][name] > value.high * (1.0 + _SLACK)
        ):
            return False
    # Bounds of the rate: a time of the station of rate 1, over the rate, lies between its printed ends.
    low, high = 0.0, math.inf
    for name in _TIMES:
        value = numbers.get(name)
        if value is not None:
            low = max(low, ends[0][name] / value.high if value.high > 0.0 else math.inf)
            high = min(high, ends[1][name] / value.low if value.low > 0.0 else math.inf)
    service, arrival = numbers.get("service_rate"), numbers.get("arrival_rate")
    if service is not None:
        low, high = max(low, service.low), min(high, service.high)
    if arrival is not None:
        low, high = max(low, arrival.low / (servers * right)), min(high, arrival.high / (servers * left))
    return low <= high * (1.0 + _SLACK)


def _shape(load: float, servers: int) -> dict[str, float]:
    """A station of rate 1 at a load: all its numbers, which rise with the load."""
    delayed = load if servers == 1 else erlang_c(servers, load * servers)
    queued = delayed * load / (1.0 - load)
    wait = delayed / (servers * (1.0 - load))
    return {
        "utilization": load,
        "prob_queueing": delayed,
        "jobs_in_system": queued + servers * load,
        "jobs_in_queue": queued,
        "response_time": wait + 1.0,
        "waiting_time": wait,
    }


def _narrow(box: dict[str, tuple[float, float]], name: str, low: float, high: float) -> None:
    known = box[name]
    box[name] = (
        max(known[0], low) if not math.isnan(low) else known[0],
        min(known[1], high) if not math.isnan(high) else known[1],
    )


def _product(box: dict[str, tuple[float, float]], total: str, rate: str, time: str, parts: float) -> None:
    """Total = rate * time / parts, in all three directions; all are at least 0."""
    (t0, t1), (x0, x1), (r0, r1) = box[total], box[rate], box[time]
    _narrow(box, total, x0 * r0 / parts, x1 * r1 / parts)
    _narrow(box, rate, t0 * parts / r1 if r1 > 0.0 else 0.0, t1 * parts / r0 if r0 > 0.0 else math.inf)
    _narrow(box, time, t0 * parts / x1 if x1 > 0.0 else 0.0, t1 * parts / x0 if x0 > 0.0 else math.inf)
