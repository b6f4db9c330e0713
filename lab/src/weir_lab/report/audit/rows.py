"""Rules on one row whose headings were understood (`names`): loops, percentiles, shares, intervals, and all numbers of a queue together.

``loops``        closed with think time and depth: N = X (R + Z); open: no more done than offered, no more in flight than connections
``percentiles``  rise; a mean lies between the least and the largest
``busy``         U <= 1, and U = X S / m where all are there
``intervals``    a half-width is t s / √n for some usual level, and holds its mean
``whole``        shares of one whole add up to 100 %
``queue``        one station that prints like all numbers of the row (`joint`)
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from scipy.special import ndtri, stdtrit

from weir_lab.report.audit.joint import culprits, laws_hold, station_exists
from weir_lab.report.audit.printed import Printed, exact, possible_range, whole_number
from weir_lab.report.audit.rules import MEASURED, Finding, Severity, finding
from weir_lab.report.audit.tables import WHOLE_NEAR
from weir_lab.theory.units import duration_text, significant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weir_lab.report.audit.tables import Cell, Group

__all__ = ["MODEL", "ROW_RULES", "busy", "intervals", "loops", "percentiles", "queue", "whole"]

_LEVELS = (0.90, 0.95, 0.99)
# A model is one where somebody says so; measured numbers obey laws alone.
MODEL = re.compile(r"M/M/(\d+|m|c)?", re.IGNORECASE)
_PREDICTED = ("", "predicted", "input", "model")
_QUEUE = (
    "arrival_rate", "service_rate", "service_time", "utilization", "prob_queueing", "jobs_in_system", "jobs_in_queue", "response_time",
    "waiting_time",
)  # fmt: skip
_JOINT_MIN = 3
_SERVERS_MAX = 10_000
# How far a row of our own tables is off the interactive law with the settings that it was made with.
_OWN_DEVIATION = "law_deviation_percent"
# The use of a CPU is often that of all cores together, so 350 % is no error.
_SEVERAL = re.compile(r"(^|_)(cpus?|cores?|threads?|process|processes)(_|$)")


def loops(group: Group, populations: tuple[int, ...] = ()) -> Iterator[Finding]:
    """The interactive law for a closed loop, two bounds for an open one."""
    x, r = _mean(group, "throughput"), _mean(group, "response_time")
    offered = _mean(group, "offered_rate")
    if offered is not None and x is not None and x.low > offered.high * (1.0 + MEASURED):
        yield finding(
            group, "throughput", "X <= offered rate", x, 0.0, offered.high, "more was done than was asked for"
        )
    if x is None or r is None or min(x.value, r.value) <= 0.0 or group.key.get("measured_at", "client") != "client":
        return
    clients, depth = _mean(group, "clients"), _mean(group, "depth") or exact(1.0)
    low, high = possible_range(lambda rate, time: rate * time, x, r)
    jobs = Printed(x.value * r.value, low, high)
    if offered is not None:
        # Our own times begin when a request is due, so requests that wait for a connection are among the jobs.
        if not group.own and clients is not None and jobs.low > clients.high * depth.high * (1.0 + MEASURED):
            most = clients.high * depth.high
            message = f"{significant(jobs.value)} requests would be in flight on {significant(most)} places"
            yield finding(group, "X R", "X R <= N (open loop)", jobs, 0.0, most, message)
        return
    if clients is None:
        if not populations:
            return
        clients = exact(float(min(populations, key=lambda n: abs(math.log(x.value) + math.log(r.value) - math.log(n)))))
    if group.own and not group.settings_printed:
        yield from _own_loop(group, jobs, clients)
        return
    if group.own and _OWN_DEVIATION not in group.numbers:
        return  # an open loop
    if _is_of_one_operation(group):
        most = clients.high * depth.high
        if jobs.low > most * (1.0 + MEASURED):
            message = f"{significant(jobs.value)} requests would be in flight on {significant(most)} places"
            yield finding(group, "X R", "X R <= N (one operation)", jobs, 0.0, most, message)
        return
    think = _mean(group, "think_time") or exact(0.0)
    low, high = possible_range(lambda rate, time, z: rate * (time + z), x, r, think)
    cycle = Printed(x.value * (r.value + think.value), low, high)
    n = Printed(clients.value * depth.value, clients.low * depth.low, clients.high * depth.high)
    if not cycle.meets(n.low, n.high, MEASURED):
        needed = n.value / x.value - think.value
        if think.value == 0.0:
            message = f"N = {n.value:g} clients need R = {1e3 * n.value / x.value:.4g} ms"
            yield finding(group, "X R", "R = N/X", cycle, n.low, n.high, message)
        else:
            need = f"need R = {duration_text(needed)}" if needed > 0.0 else "cannot think so long at this throughput"
            message = f"N = {n.value:g} clients that think for {duration_text(think.value)} {need}"
            yield finding(group, "X (R + Z)", "R = N/X - Z", cycle, n.low, n.high, message)


def _own_loop(group: Group, jobs: Printed, clients: Printed) -> Iterator[Finding]:
    """A row of the laboratory's tables without its depth and think time: it prints how far it is off the law with them.

    X (R + Z) = N D (1 + deviation). Clients that think have one request at a time, so X R is at most N, or D times N.
    """
    deviation = group.numbers.get(_OWN_DEVIATION)
    if deviation is None:  # an open loop, or a row without runs
        return
    if not deviation.meets(-100.0 * MEASURED, 100.0 * MEASURED):
        most = 100.0 * MEASURED
        message = "the row itself says that it misses the law"
        yield finding(group, _OWN_DEVIATION, "X (R + Z) = N D", deviation, -most, most, message)
        return
    most, least = clients.high * (1.0 + deviation.high / 100.0), clients.low * (1.0 + deviation.low / 100.0)
    if least <= 0.0:
        return
    low, high = jobs.low / most * (1.0 - MEASURED), jobs.high / least * (1.0 + MEASURED)
    if low > 1.0 and math.floor(high) < math.ceil(low):
        each = jobs.value / clients.value
        n = clients.value * round(each)
        message = f"{significant(each)} requests per connection, which is no depth"
        yield finding(group, "X R", "X (R + Z) = N D", jobs, n, n, message)


def percentiles(group: Group) -> Iterator[Finding]:
    """The share of requests below a time grows with the time."""
    by_about: dict[str, list[Cell]] = {}
    for cell in group.cells:
        if cell.name.statistic == "percentile" and cell.name.quantity == "response_time":
            by_about.setdefault(cell.name.about, []).append(cell)
    for about, found in by_about.items():
        ordered = sorted(found, key=lambda cell: cell.name.percent or 0.0)
        for before, after in itertools.pairwise(ordered):
            if before.name.percent != after.name.percent and before.number.low > after.number.high * (1.0 + 1e-12):
                message = f"{before.column} prints {duration_text(before.number.value)}"
                yield _of_cell(group, after, "percentiles rise", before.number.low, math.inf, message)
        means = (cell for cell in group.cells if _is(cell, "response_time") and cell.name.about == about)
        mean = next(means, None)
        least, most = ordered[0], ordered[-1]
        if mean is None:
            continue
        if least.name.percent == 0.0 and mean.number.high < least.number.low:
            yield _of_cell(group, mean, "min <= mean", least.number.low, math.inf, "the least is larger")
        if most.name.percent == 100.0 and mean.number.low > most.number.high:
            yield _of_cell(group, mean, "mean <= max", 0.0, most.number.high, "the largest is smaller")


def busy(group: Group) -> Iterator[Finding]:
    """No server is busy more than all the time."""
    for cell in group.cells:
        if not _is(cell, "utilization") or _SEVERAL.search(cell.name.about):
            continue
        load = _as_share(cell)
        if load.low > 1.0:
            yield finding(group, cell.column, "U <= 1", load, 0.0, 1.0, "busy more than all the time")
    x, s, m = _mean(group, "throughput"), _mean(group, "service_time"), _mean(group, "servers")
    own = next((cell for cell in group.cells if _is(cell, "utilization") and cell.name.about == ""), None)
    if x is not None and s is not None and own is not None and m is not None and m.low >= 1.0:
        allowed = possible_range(lambda rate, time: rate * time / m.value, x, s)
        load = _as_share(own)
        if not load.meets(*allowed, MEASURED):
            message = f"X S / m is {significant(allowed[0])} to {significant(allowed[1])}"
            yield finding(group, own.column, "U = X S / m", load, *allowed, message)


def intervals(group: Group) -> Iterator[Finding]:
    """A printed interval against the standard deviation and the number of runs that stand beside it."""
    runs = _mean(group, "runs")
    by: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in group.cells:
        if cell.name.statistic in ("mean", "sd", "half_width", "low", "high"):
            by.setdefault((cell.name.quantity, cell.name.about), {}).setdefault(cell.name.statistic, cell)
    for found in by.values():
        mean, sd = found.get("mean"), found.get("sd")
        low, high = found.get("low"), found.get("high")
        half = found["half_width"].number if "half_width" in found else None
        column = found["half_width"].column if "half_width" in found else ""
        if low is not None and high is not None:
            if mean is not None and (mean.number.high < low.number.low or mean.number.low > high.number.high):
                message = f"{low.column} to {high.column} leave it out"
                yield _of_cell(group, mean, "an interval holds its mean", low.number.low, high.number.high, message)
            if half is None:
                ends = low.number, high.number
                half = Printed(
                    (ends[1].value - ends[0].value) / 2.0,
                    (ends[1].low - ends[0].high) / 2.0,
                    (ends[1].high - ends[0].low) / 2.0,
                )
                column = high.column
        if half is None or sd is None or runs is None or runs.value < 2 or sd.number.high <= 0.0:
            continue
        n = runs.value
        usual = [float(stdtrit(n - 1.0, 0.5 + level / 2.0)) for level in _LEVELS]
        usual += [float(ndtri(0.5 + level / 2.0)) for level in _LEVELS]
        error = sd.number.scaled(1.0 / math.sqrt(n))
        if any(half.meets(error.low * factor, error.high * factor, 0.01) for factor in usual):
            continue
        own = half.scaled(1.0 / _scale(sd))
        expected = error.low * usual[1] / _scale(sd), error.high * usual[1] / _scale(sd)
        reported = f"sd and n = {n:g} give {significant(error.value * usual[1] / _scale(sd))} (95 %, t)"
        for what, factor in (("the standard error", 1.0), ("the standard deviation", math.sqrt(n))):
            if half.meets(error.low * factor, error.high * factor, 0.01):
                reported = f"it is {what}; {reported}"
                yield finding(group, column, "half-width = t s / √n", own, *expected, reported, Severity.DOUBT)
                break
        else:
            yield finding(group, column, "half-width = t s / √n", own, *expected, reported)


def whole(group: Group) -> Iterator[Finding]:
    """Shares in one row: columns ``share_…`` or ``…_share`` in percent, two at least."""
    if len(group.shares) < 2:
        return
    low, high = sum(one.low for one in group.shares), sum(one.high for one in group.shares)
    total = Printed(sum(one.value for one in group.shares), low, high)
    if abs(total.value - 100.0) <= WHOLE_NEAR and not total.meets(100.0, 100.0):
        yield finding(
            group,
            "sum of shares",
            "shares add up to 100 %",
            total,
            100.0,
            100.0,
            f"they add up to {significant(total.value)} %",
        )


def queue(group: Group) -> Iterator[Finding]:
    """All numbers of a station at once: a model's where the row names one, the laws' where it does not."""
    numbers = _of_queue(group)
    if len(numbers) < _JOINT_MIN or any(value.low < 0.0 and value.value < 0.0 for value in numbers.values()):
        return
    model, servers = _model(group)
    if model and servers is None:
        return
    if model and servers is not None:
        if station_exists(numbers, servers):
            return
        law, tolerance = ("M/M/1" if servers == 1 else f"M/M/{servers}"), 0.0
    else:
        tolerance = MEASURED
        if servers is None:  # without the number of servers nothing is known of how busy they are
            numbers = {name: value for name, value in numbers.items() if name not in ("utilization", "jobs_in_system")}
        if len(numbers) < _JOINT_MIN or laws_hold(numbers, servers or 1, tolerance):
            return
        law = "R = W + S, N = λR, N_q = λW"
    alone = culprits(numbers, servers or 1, model=model, tolerance=tolerance)
    name = next((one for one in alone if one not in ("arrival_rate", "service_rate")), next(iter(numbers)))
    together = ", ".join(f"{one} {numbers[one].value:.4g}" for one in numbers)
    hint = f"; without {' or without '.join(alone)} the others agree" if alone else ""
    message = f"no values that print like these obey it together ({together}){hint}"
    yield finding(group, name, law, numbers[name], numbers[name].value, numbers[name].value, message)


ROW_RULES = (percentiles, busy, intervals, whole, queue)


def _is_of_one_operation(group: Group) -> bool:
    """Whether a row of `weir-lab import` is about a part of the requests, beside a row about all of them."""
    operation = group.key.get("operation", "")
    return "generator" in group.key and operation not in ("", "all")


def _of_queue(group: Group) -> dict[str, Printed]:
    found: dict[str, Printed] = {}
    for cell in group.cells:
        name = cell.name
        if name.statistic == "mean" and name.quantity in _QUEUE and name.about in _PREDICTED:
            found.setdefault(
                name.quantity, _as_share(cell) if name.quantity in ("utilization", "prob_queueing") else cell.number
            )
    service = found.pop("service_time", None)
    if service is not None and "service_rate" not in found and service.low > 0.0:
        found["service_rate"] = Printed(1.0 / service.value, 1.0 / service.high, 1.0 / service.low)
    return found


def _model(group: Group) -> tuple[bool, int | None]:
    """Whether the row belongs to a model, and its servers as far as they are printed."""
    named = next((match for text in group.key.values() if (match := MODEL.fullmatch(text.strip()))), None)
    printed_servers = _mean(group, "servers")
    stated = round(printed_servers.value) if printed_servers is not None and printed_servers.value >= 1.0 else None
    if stated is None:
        stated = group.count("servers_m", "servers")
    if named is not None and (own := whole_number(named[1] or "")) is not None:
        stated = own
    if stated is not None and not 1 <= stated <= _SERVERS_MAX:
        stated = None
    return named is not None, stated


def _mean(group: Group, quantity: str) -> Printed | None:
    """The plain number of a quantity: about all requests."""
    return next((cell.number for cell in group.cells if _is(cell, quantity) and cell.name.about == ""), None)


def _is(cell: Cell, quantity: str) -> bool:
    return cell.name.quantity == quantity and cell.name.statistic == "mean"


def _as_share(cell: Cell) -> Printed:
    """Numbers above 1.5 without a unit are taken for percent."""
    return cell.number.scaled(0.01) if cell.name.scale == 1.0 and cell.number.value > 1.5 else cell.number


def _scale(cell: Cell) -> float:
    return cell.name.scale


def _of_cell(group: Group, cell: Cell, law: str, low: float, high: float, message: str) -> Finding:
    """About one column, in its own unit."""
    back = 1.0 / cell.name.scale
    return finding(group, cell.column, law, cell.number.scaled(back), low * back, high * back, message)
