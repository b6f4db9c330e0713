"""The laws as rules on one group of printed numbers. Each yields what it finds and is silent where a quantity is missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from weir_lab.report.audit.printed import Printed, exact, possible_range
from weir_lab.theory.laws import link_bound_rps
from weir_lab.theory.queueing import mm1, mmm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weir_lab.report.audit.tables import Group

__all__ = [
    "GROUP_RULES",
    "Finding",
    "Severity",
    "busy_servers",
    "derived_throughput",
    "finding",
    "link_bound",
    "little_in_the_queue",
    "model_outputs",
    "network_of_queues",
    "observed_jobs",
    "observed_times",
    "overhead",
    "service_rate",
    "steady_state",
]

# Measured quantities of one row come from slightly different sets of requests.
MEASURED = 0.05
# Sums of stages leave out what lies between the stamps.
STAGES = 0.10
# Throughputs of two places in a system.
FLOW = 0.02
# A table with more servers than this is not about servers.
_SERVERS_MAX = 100_000


class Severity(StrEnum):
    """Broken: no number that prints like this obeys the law. Doubt: the printed digits or the rest of the table leave it open.

    Not read: a cell that should be a number and was held against nothing.
    """

    BROKEN = "broken"
    DOUBT = "doubt"
    UNREAD = "not read"


@dataclass(frozen=True)
class Finding:
    """A quantity that breaks a law.

    ``expected`` is the range the law allows; ``deviation_percent`` is from its nearer end, None where that is infinite or 0.
    """

    where: str
    key: dict[str, str]
    quantity: str
    law: str
    severity: Severity
    printed: float
    expected_low: float
    expected_high: float
    message: str

    @property
    def deviation_percent(self) -> float | None:
        """How far outside the allowed range, relative to its nearer end; 0 inside."""
        nearest = min(max(self.printed, self.expected_low), self.expected_high)
        if not math.isfinite(nearest) or nearest == 0.0:
            return None
        return 100.0 * (self.printed / nearest - 1.0)

    def line(self) -> str:
        """One line for a reader."""
        if self.severity is Severity.UNREAD:
            return f"{self.severity.value}: {self.where}: {self.quantity}: {self.message}"
        off = self.deviation_percent
        gap = "" if off is None or off == 0.0 else f" ({off:+.3g} %)"
        return (
            f"{self.severity.value}: {self.where}: {self.quantity} {self.printed:.6g}{gap}: {self.law}: {self.message}"
        )


def finding(
    group: Group,
    quantity: str,
    law: str,
    value: Printed,
    low: float,
    high: float,
    message: str,
    severity: Severity = Severity.BROKEN,
) -> Finding:
    """What is wrong with a printed value of a group: the law says that it lies between `low` and `high`."""
    return Finding(group.where, group.key, quantity, law, severity, value.value, low, high, message)


def _must_meet(
    group: Group, quantity: str, law: str, value: Printed, allowed: tuple[float, float], tolerance: float = 0.0
) -> Iterator[Finding]:
    low, high = allowed
    if not value.meets(low, high, tolerance):
        yield finding(group, quantity, law, value, low, high, f"allowed {low:.6g} to {high:.6g}")


def steady_state(group: Group) -> Iterator[Finding]:
    """λ < m μ: broken where no numbers that print like these obey it, a doubt where those that are printed do not."""
    inputs = _inputs(group)
    if inputs is None:
        return
    arrival, service, servers = inputs
    if arrival.value >= service.value * servers:
        message = (
            f"{servers} x {service.value:g}/s do not serve {arrival.value:g}/s: no steady state with the printed inputs"
        )
        severity = Severity.BROKEN
        if arrival.low < service.high * servers:
            message, severity = message + "; more digits would decide it", Severity.DOUBT
        limit = service.value * servers
        yield finding(group, "input arrival_rate", "λ < m μ", arrival, 0.0, limit, message, severity)


def model_outputs(group: Group) -> Iterator[Finding]:
    """Printed predictions against M/M/1 or M/M/m with any inputs that print like the given ones."""
    inputs = _inputs(group)
    if inputs is None:
        return
    arrival, service, servers = inputs
    for name, output in _OUTPUTS.items():
        value = group.numbers.get(f"predicted {name}")
        if value is None:
            continue

        def model(rate: float, mu: float, name: str = name, output: Callable[..., float] = output) -> float:
            if name == "utilization":  # needs no steady state
                return rate / (mu * servers)
            return output(mmm(rate, mu, servers) if servers > 1 else mm1(rate, mu))

        low, high = possible_range(model, arrival, service)
        law = "M/M/1" if servers == 1 else f"M/M/{servers}"
        yield from _must_meet(group, f"predicted {name}", law, value, (low, high))
        if name == "jobs_in_system" and value.meets(low, high) and high > 1.5 * low:
            message = f"inputs that print like the given ones allow {low:.4g} to {high:.4g}: print more digits"
            yield finding(group, f"predicted {name}", law, value, low, high, message, Severity.DOUBT)


def busy_servers(group: Group) -> Iterator[Finding]:
    """Predicted n - n_q is the number of busy servers, m U <= m; and for M/M/1 the utilization follows from n_q alone."""
    n, queued = group.numbers.get("predicted jobs_in_system"), group.numbers.get("predicted jobs_in_queue")
    load, inputs = group.numbers.get("predicted utilization"), _inputs(group)
    if inputs is None or queued is None:
        return
    arrival, service, servers = inputs
    if n is not None:
        difference = Printed(n.value - queued.value, n.low - queued.high, n.high - queued.low)
        allowed = possible_range(lambda rate, mu: min(rate / mu, float(servers)), arrival, service)
        yield from _must_meet(group, "predicted jobs_in_system - jobs_in_queue", "n - n_q = λ/μ", difference, allowed)
    if load is not None and servers == 1:
        # n_q = U^2 / (1-U)
        allowed = possible_range(lambda q: (math.sqrt(q * q + 4.0 * q) - q) / 2.0, queued)
        yield from _must_meet(group, "predicted utilization", "U follows from n_q", load, allowed)


def service_rate(group: Group) -> Iterator[Finding]:
    """M/M/m: one server's rate is the inverse of the time a request holds it."""
    inputs, held = (
        _inputs(group),
        group.numbers.get("input time_waiting_for_memcached", group.numbers.get("input service_time")),
    )
    if inputs is None or held is None or inputs[2] == 1:
        return
    allowed = possible_range(lambda time: 1.0 / time, held)
    yield from _must_meet(group, "input service_rate", "μ = 1/S", inputs[1], allowed)


def observed_jobs(group: Group) -> Iterator[Finding]:
    """Measured jobs obey Little's law, and n >= n_q."""
    arrival = group.numbers.get("input arrival_rate")
    n, queued = group.numbers.get("observed jobs_in_system"), group.numbers.get("observed jobs_in_queue")
    response, waiting = group.numbers.get("observed response_time"), group.numbers.get("observed waiting_time")
    if n and queued and n.high < queued.low:
        yield finding(group, "observed jobs_in_system", "n >= n_q", n, queued.low, math.inf, f"n_q is {queued.value:g}")
    for jobs, time, name in ((n, response, "jobs_in_system"), (queued, waiting, "jobs_in_queue")):
        if arrival and jobs and time:
            allowed = possible_range(lambda rate, t: rate * t, arrival, time)
            yield from _must_meet(group, f"observed {name}", "Little: N = X R", jobs, allowed, MEASURED)


def observed_times(group: Group) -> Iterator[Finding]:
    """A response time holds the time at the server, and is about the sum of its stages."""
    response, held = group.numbers.get("observed response_time"), group.numbers.get("input time_waiting_for_memcached")
    waiting = group.numbers.get("observed waiting_time")
    if response is None or held is None:
        return
    if response.high < held.low:
        message = f"the wait for the server alone is {held.value:g} s"
        yield finding(group, "observed response_time", "R >= S", response, held.low, math.inf, message)
    if waiting is not None:
        allowed = possible_range(lambda w, s: w + s, waiting, held)
        yield from _must_meet(group, "observed response_time", "R = W + S", response, allowed, STAGES)


def network_of_queues(group: Group) -> Iterator[Finding]:
    """Forced flow and utilization at the stations of a network, from printed visit ratios and service times."""
    numbers = group.numbers
    system = numbers.get("throughput_system")
    for station in ("server", "worker", "parser"):
        x, visits = numbers.get(f"throughput_{station}"), numbers.get(f"visit_ratio_{station}")
        if system and x and visits:
            allowed = possible_range(lambda total, v: total * v, system, visits)
            yield from _must_meet(group, f"throughput_{station}", "X_i = V_i X", x, allowed, FLOW)
        load, service = numbers.get(f"utilization_{station}"), numbers.get(f"service_time_{station}")
        if load and load.low > 1.0:
            yield finding(group, f"utilization_{station}", "U <= 1", load, 0.0, 1.0, "busy more than all the time")
        if load and x and service:
            allowed = possible_range(lambda rate, s: rate * s, x, service)
            yield from _must_meet(group, f"utilization_{station}", "U = X S", load, allowed, 1e-4)


def little_in_the_queue(group: Group) -> Iterator[Finding]:
    """Printed queue length against throughput times time in queue, for the whole or for one of two equal parts."""
    x, wait, length = (group.numbers.get(name) for name in ("throughput_middleware", "time_in_queue", "queue_length"))
    if x is None or wait is None or length is None or min(x.value, wait.value, length.value) <= 0.0:
        return
    low, high = possible_range(lambda rate, time: rate * time, x, wait)
    parts = min(
        (1, 2), key=lambda k: abs(math.log(k) + math.log(length.value) - math.log(x.value) - math.log(wait.value))
    )
    law = "Little: N_q = X W" + ("" if parts == 1 else f" for one of {parts} proxies")
    yield from _must_meet(group, "queue_length", law, length, (low / parts, high / parts), MEASURED)


def derived_throughput(group: Group) -> Iterator[Finding]:
    """A throughput derived from response times against the counted one."""
    counted, derived = group.numbers.get("throughput_middleware"), group.numbers.get("throughput_from_mw_response_time")
    if counted and derived:
        allowed = (counted.low, counted.high)
        yield from _must_meet(
            group, "throughput_from_mw_response_time", "X derived = X counted", derived, allowed, MEASURED
        )


def overhead(group: Group) -> Iterator[Finding]:
    """An overhead is a change, 100 (with/without - 1), not a ratio."""
    before, after = group.numbers.get("baseline"), group.numbers.get("with_middleware")
    change = group.numbers.get("published_overhead_percent")
    if before and after and change and before.low > 0.0:
        low, high = possible_range(lambda a, b: 100.0 * (b / a - 1.0), before, after)
        loss = change.meets(-high, -low)  # a reduction may be printed without its sign
        if not loss and not change.meets(low, high):
            ratio = 100.0 * after.value / before.value
            hint = "; the printed number is the ratio" if abs(ratio - change.value) < 0.01 * abs(ratio) else ""
            message = f"the change is {100.0 * (after.value / before.value - 1.0):+.2f} %{hint}"
            yield finding(group, "published_overhead_percent", "change = with/without - 1", change, low, high, message)


def link_bound(group: Group) -> Iterator[Finding]:
    """Operations per second that a link carries, for the stated message size."""
    rate, size = group.numbers.get("bandwidth_mbit_s"), group.numbers.get("stated_message_bytes")
    most = group.numbers.get("published_max_ops_s")
    if rate and size and most:
        allowed = possible_range(link_bound_rps, rate, exact(size.value))
        yield from _must_meet(group, "published_max_ops_s", "X <= bandwidth / size", most, allowed)


GROUP_RULES = (
    steady_state,
    model_outputs,
    busy_servers,
    service_rate,
    observed_jobs,
    observed_times,
    network_of_queues,
    little_in_the_queue,
    derived_throughput,
    overhead,
    link_bound,
)

_OUTPUTS: dict[str, Callable[..., float]] = {
    "utilization": lambda station: station.utilization,
    "prob_queueing": lambda station: station.prob_queueing,
    "jobs_in_system": lambda station: station.mean_jobs_in_system,
    "jobs_in_queue": lambda station: station.mean_jobs_in_queue,
    "response_time": lambda station: station.mean_response_time_s,
    "waiting_time": lambda station: station.mean_waiting_time_s,
}


def _inputs(group: Group) -> tuple[Printed, Printed, int] | None:
    """λ, one server's μ, and m. Without a printed m, the multiple of the workers that comes nearest to the printed utilization."""
    arrival, service = group.numbers.get("input arrival_rate"), group.numbers.get("input service_rate")
    if arrival is None or service is None or arrival.low <= 0.0 or service.low <= 0.0:
        return None
    if group.key.get("model", "M/M/1") == "M/M/1":
        return arrival, service, 1
    stated = group.count("servers_m")
    if stated:
        return (arrival, service, stated) if stated <= _SERVERS_MAX else None
    workers, load = group.count("worker_threads"), group.numbers.get("predicted utilization")
    if not workers or load is None or load.value <= 0.0:
        return None
    servers = arrival.value / (service.value * load.value)
    if max(servers, workers) > _SERVERS_MAX:
        return None
    return arrival, service, workers * max(1, round(servers / workers))
