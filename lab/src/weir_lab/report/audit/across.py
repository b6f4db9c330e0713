"""Rules that need several groups: the same input printed twice, rates that cannot be, clients against proxy."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from weir_lab.report.audit.printed import printed
from weir_lab.report.audit.rules import MEASURED, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weir_lab.report.audit.printed import Printed
    from weir_lab.report.audit.tables import Group, Table

__all__ = ["audit_across", "other_places"]

# A proxy that measures less than half of its clients' time has not measured where the time goes.
_SEEN_SHARE = 0.5
_SYSTEM = ("study", "worker_threads")


def audit_across(
    groups: Sequence[Group], tables: Sequence[Table], void: frozenset[tuple[str, ...]] = frozenset()
) -> Iterator[Finding]:
    """All rules over several rows or tables; `void` are designs whose raw values are a copy of another's."""
    yield from _repeated_inputs(groups)
    yield from _served_more(groups)
    yield from _client_and_proxy(groups)
    yield from _jobs_of_a_design(tables, void)


def other_places(groups: Sequence[Group]) -> Callable[[Group], list[Group]]:
    """For each configuration, what was measured of it at other places."""
    by: dict[tuple[tuple[str, str], ...], list[Group]] = defaultdict(list)
    for group in groups:
        if "measured_at" in group.key:
            by[_but_place(group)].append(group)

    def others(group: Group) -> list[Group]:
        place = group.key.get("measured_at")
        return [other for other in by.get(_but_place(group), ()) if other.key["measured_at"] != place]

    return others


def _but_place(group: Group) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in group.key.items() if name not in ("measured_at", "miss_rate"))


def _repeated_inputs(groups: Sequence[Group]) -> Iterator[Finding]:
    """A configuration that is printed at several locations has one value of an input in all of them."""
    seen: dict[tuple[tuple[str, str], ...], tuple[Group, Printed]] = {}
    for group in groups:
        # Without a location nobody knows whether two rows are about the same thing.
        if "location" not in group.key:
            continue
        for name in ("input arrival_rate", "input service_rate"):
            value = group.numbers.get(name)
            if value is None:
                continue
            key = tuple(item for item in group.key.items() if item[0] != "location")
            other, first = seen.setdefault((*key, ("", name)), (group, value))
            if not value.meets(first.low, first.high):
                message = f"{other.where} prints {first.value:g}"
                yield Finding(
                    group.where,
                    group.key,
                    name,
                    "one value per input",
                    Severity.BROKEN,
                    value.value,
                    first.low,
                    first.high,
                    message,
                )


def _served_more(groups: Sequence[Group]) -> Iterator[Finding]:
    """The service rate of the whole system is at least every throughput that was measured of it."""
    # Without these columns nobody knows which of them belong to the same system.
    known = [group for group in groups if all(name in group.key for name in _SYSTEM)]
    best: dict[tuple[str, ...], Printed] = {}
    for group in known:
        x = group.numbers.get("throughput_middleware")
        if x is not None:
            best[tuple(group.key[name] for name in _SYSTEM)] = x
    for group in known:
        rate = group.numbers.get("input service_rate")
        x = best.get(tuple(group.key[name] for name in _SYSTEM))
        if rate and x and group.key.get("model") == "M/M/1" and rate.high < x.low * (1.0 - MEASURED):
            message = f"the same system was measured to serve {x.value:g}/s"
            yield Finding(
                group.where,
                group.key,
                "input service_rate",
                "μ >= X",
                Severity.BROKEN,
                rate.value,
                x.low,
                float("inf"),
                message,
            )


def _client_and_proxy(groups: Sequence[Group]) -> Iterator[Finding]:
    """Clients wait at least as long as the proxy takes, and the proxy should see most of their time."""
    pairs: dict[tuple[tuple[str, str], ...], dict[str, Group]] = defaultdict(dict)
    for group in groups:
        if "measured_at" in group.key:
            pairs[_but_place(group)][group.key["measured_at"]] = group
    for pair in pairs.values():
        inner = next((group for place, group in pair.items() if place != "client"), None)
        outer = pair.get("client")
        if inner is None or outer is None:
            continue
        inside, outside = inner.numbers.get("response_time_ms"), outer.numbers.get("response_time_ms")
        if inside and outside and inside.low > outside.high:
            message = f"the client's time is {1e3 * outside.value:.4g} ms"
            yield Finding(
                inner.where,
                inner.key,
                "response_time",
                "R_client >= R_proxy",
                Severity.BROKEN,
                inside.value,
                0.0,
                outside.high,
                message,
            )
        if inside and outside and inside.high < _SEEN_SHARE * outside.low:
            message = f"{1e3 * (outside.value - inside.value):.4g} of the client's {1e3 * outside.value:.4g} ms lie outside of it"
            yield Finding(
                inner.where,
                inner.key,
                "response_time",
                "the proxy sees most of the client's time",
                Severity.DOUBT,
                inside.value,
                _SEEN_SHARE * outside.low,
                outside.high,
                message,
            )


def _jobs_of_a_design(tables: Sequence[Table], void: frozenset[tuple[str, ...]]) -> Iterator[Finding]:
    """X R of a cell, from cell means of both responses: rows of one design far below the others saw another part of the time."""
    cells: dict[tuple[str, str, str], dict[str, tuple[str, int, float]]] = defaultdict(dict)
    for table in tables:
        if not {"mean", "response", "row"} <= set(table.columns):
            continue
        for line, row in table.rows:
            cell = (row.get("study", ""), row.get("workload", ""), row.get("row", ""))
            shown, response = printed(row.get("mean", "")), row.get("response", "")
            if shown is not None and (*cell[:2], response) not in void:
                scale = {"ms": 1e-3, "us": 1e-6}.get(row.get("unit", ""), 1.0)
                cells[cell][response] = (table.name, line, shown.value * scale)
    jobs = {
        key: (own["response_time"], own["throughput"][2] * own["response_time"][2])
        for key, own in cells.items()
        if {"throughput", "response_time"} <= set(own)
    }
    for (study, workload, number), ((name, line, seconds), inside) in jobs.items():
        most = max(other for key, (_, other) in jobs.items() if key[:2] == (study, workload))
        if inside < 0.25 * most:
            message = f"{inside:.4g} jobs in the proxy, where other cells of the design have up to {most:.4g}"
            yield Finding(
                f"{name}:{line} {study} {workload} row {number}",
                {"study": study, "workload": workload, "row": number, "location": "cell means"},
                "X R",
                "a closed loop keeps its jobs",
                Severity.DOUBT,
                inside,
                0.25 * most,
                most,
                message + f" (R = {1e3 * seconds:.4g} ms)",
            )
