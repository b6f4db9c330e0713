"""What the studies printed of their models, beside what is right for the inputs that they printed.

Both are read from ``oracles/data``. A printed value that differs from the right one by more than its rounding stands
with it; the list of known errors says why.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weir_lab.report.common import speed_note
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.models.words import shown
from weir_lab.theory.fitting.devices import WORKERS
from weir_lab.theory.units import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Task
    from weir_lab.report.numbers.published import KnownError
    from weir_lab.report.page.blocks import Entry
    from weir_lab.report.sections.models.layouts import LayoutFit, Predicted

__all__ = ["printed_networks", "printed_open"]

# Columns of the tables that were computed again, by the name of the printed quantity.
_RIGHT = {
    "utilization": "rho",
    "jobs_in_system": "mean_jobs_in_system",
    "jobs_in_queue": "mean_jobs_in_queue",
    "response_time": "mean_response_time_s",
    "waiting_time": "mean_waiting_time_s",
    "prob_queueing": "prob_queueing",
}
_TIMES = ("response_time", "waiting_time")
_TO_MS = {"ms": 1.0, "s": 1e3}
# Rates that were printed with two or three digits do not tell what follows from them better than this.
_ROUNDING = 0.03
# Below this nothing is written out, and nothing differs.
_TINY = 1e-4
# Of values that were printed with six digits.
_EXACT = 1e-3

_Key = tuple[str, str, str, str]
# By kind and quantity: value, unit, and what the last digit that was printed is worth.
_Values = dict[tuple[str, str], tuple[float, str, float]]


def printed_open(task: Task) -> Table | None:
    """The printed tables of M/M/1 and M/M/m with what is right for their λ and μ; ``None`` where the study printed none."""
    groups: dict[_Key, _Values] = {}
    for row in read_table("queueing_published"):
        if row["study"] == task.label and row["location"].startswith("Table"):
            key = (row["model"], row["location"], row["total_clients"], row["worker_threads"])
            groups.setdefault(key, {})[row["kind"], row["quantity"]] = (
                float(row["value"]),
                row["unit"],
                _last_digit(row["value"]),
            )
    if not groups:
        return None
    errors = errors_at(task.label, task.spec.errors)
    rows: list[tuple[Entry, ...]] = []
    for key, values in groups.items():
        right = _right(task.label, key)
        marked = _marked(errors, key)
        rows.append(_predicted_row(key, values, right, marked))
        if any(kind == "observed" and quantity in _RIGHT for kind, quantity in values):
            rows.append(_observed_row(key, values))
    return Table(
        f"{task.spec.name}-printed-open",
        f"What {task.label} printed of M/M/1 and M/M/m. Where a printed value is not right for the printed λ and μ, the right one stands "
        "behind it. Known errors: what of the row is printed wrongly; the list of known errors says why. Times in ms.",
        (
            "Where", "Model", "Clients", "Workers per proxy", "", "λ (1/s)", "μ (1/s)", "ρ", "E[n]", "E[nq]", "E[r] (ms)", "E[w] (ms)",
            "P(queue)", "Known errors",
        ),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def printed_networks(task: Task, fits: Sequence[LayoutFit]) -> Table | None:
    """The printed networks of queues, what is right for their numbers, and ours at the same clients and workers; ``None`` without any."""
    exact = [row for row in read_table("recomputed_network_of_queues") if row["study"] == task.label]
    if not exact:
        return None
    printed = {
        (row["location"], row["total_clients"]): float(row["value"])
        for row in read_table("network_of_queues_published")
        if row["study"] == task.label and row["quantity"] == "utilization_worker"
    }
    errors = errors_at(task.label, task.spec.errors)
    rows: list[tuple[Entry, ...]] = []
    for row in exact:
        given = printed.get((row["location"], row["total_clients"]))
        right = float(row["utilization_from_system_throughput"])
        busy = "–" if given is None else _with_right(given, right)
        ours, speed = _ours(fits, row), task.first.speed
        rows.append(
            (
                row["location"], f"{row['middlewares']} × {row['worker_threads_per_middleware']} workers, {row['workload']}s",
                Value(int(row["total_clients"])), Value(float(row["throughput_system_ops_s"]), digits=0),
                Value(float(row["service_time_ms"])), Value(float(row["visit_ratio_one_worker"]), digits=5), busy,
                Value(float(row["capacity_all_workers_ops_s"]), digits=0),
                Value(ours.cell.mean_throughput / speed, digits=0) if ours is not None else "no cell",
                Value(ours.solved.throughput_per_s / speed, digits=0) if ours is not None else "–",
                Value(ours.solved.utilization[WORKERS], digits=3) if ours is not None else "–",
                _marked(errors, ("", row["location"], "", row["worker_threads_per_middleware"])) or "–",
            )
        )  # fmt: skip
    return Table(
        f"{task.spec.name}-printed-networks",
        f"What {task.label} printed of its networks of queues, beside ours at the same clients and workers. Only its workers had a "
        "service time. Where its utilization is not throughput times service time over workers, the right one stands behind it; no "
        f"utilization exceeds 1. The capacity follows from its service time.{speed_note(task.first.speed)}",
        (
            "Where", "Layout", "Clients", "X printed (requests/s)", "S of a worker (ms)", "V of a worker", "Utilization printed",
            "Capacity of all workers (requests/s)", "X measured here", "X predicted here", "Workers' utilization here", "Known errors",
        ),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def _ours(fits: Sequence[LayoutFit], row: dict[str, str]) -> Predicted | None:
    """Our cell with one server and these proxies, workers and clients."""
    proxies, workload = int(row["middlewares"]), f"{row['workload']}s"
    workers = proxies * int(row["worker_threads_per_middleware"])
    for fit in fits:
        if (fit.layout.proxies, fit.layout.workload, fit.layout.servers) == (proxies, workload, 1):
            found = fit.at(workers, int(row["total_clients"]))
            if found is not None:
                return found
    return None


def _with_right(printed: float, right: float) -> Entry:
    """A printed value, with the right one behind it where it is another."""
    return shown(printed) if abs(printed - right) <= _EXACT * right else f"{_text(printed)}; right: {_text(right)}"


def _right(label: str, key: _Key) -> dict[str, str] | None:
    """The row that was computed from the printed λ and μ."""
    model, location, clients, workers = key
    table = "recomputed_mm1" if model == "M/M/1" else "recomputed_mmm"
    for row in read_table(table):
        where = (row["study"], row["location"], row["total_clients"], row["worker_threads"])
        if where == (label, location, clients, workers) and row["input_choice"].startswith("printed"):
            return row
    return None


def _predicted_row(key: _Key, values: _Values, right: dict[str, str] | None, marked: str) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for quantity, column in _RIGHT.items():
        printed = values.get(("predicted", quantity))
        exact = right[column] if right is not None and column in right else ""
        if printed is None:
            found.append("–")
            continue
        value = printed[0] * (_TO_MS[printed[1]] if quantity in _TIMES else 1.0)
        if right is not None and right["stable"] != "true":
            # With these rates the formulas give nothing, whatever was printed; utilization alone is defined.
            found.append(
                f"{_text(value)}; right: {significant(float(exact), 4) if quantity == 'utilization' else 'none'}"
            )
            continue
        known = float(exact) * (1e3 if quantity in _TIMES else 1.0) if exact else None
        agrees = known is None or _agrees(
            quantity, value, known, printed[2] * value / printed[0] if printed[0] else 1.0
        )
        alike = agrees or known is None or _text(value) == _text(known)
        found.append(shown(value) if alike or known is None else f"{_text(value)}; right: {_text(known)}")
    return (*_head(key), "predicted", *_rates(values), *found, marked or "–")


def _agrees(quantity: str, printed: float, right: float, digit: float) -> bool:
    """Whether a printed value is the right one but for rounding, its own and that of the rates it follows from."""
    if max(printed, right) < _TINY or abs(printed - right) <= digit:
        return True
    return quantity != "utilization" and abs(printed - right) <= _ROUNDING * right


def _last_digit(printed: str) -> float:
    """What the last digit is worth.

    >>> _last_digit("0.04"), _last_digit("12"), _last_digit("1.24e-29")
    (0.01, 1.0, 1e-31)
    """
    digits, _, power = printed.lower().partition("e")
    exact = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return float(f"{exact:.6g}")


def _observed_row(key: _Key, values: _Values) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for quantity in _RIGHT:
        printed = values.get(("observed", quantity))
        scale = _TO_MS[printed[1]] if printed is not None and quantity in _TIMES else 1.0
        found.append(shown(printed[0] * scale) if printed is not None else "–")
    return (*_head(key), "observed", "–", "–", *found, "–")


def _head(key: _Key) -> tuple[Entry, ...]:
    model, location, clients, workers = key
    return location, model, Value(int(clients)) if clients else "–", Value(int(workers))


def _rates(values: _Values) -> tuple[Entry, ...]:
    found = (values.get(("input", name)) for name in ("arrival_rate", "service_rate"))
    return tuple(Value(one[0], digits=0) if one is not None else "–" for one in found)


def _text(value: float) -> str:
    return "< 0.0001" if 0.0 < value < _TINY else significant(value)


def _marked(errors: Sequence[KnownError], key: _Key) -> str:
    """What is known to be wrong of a row: errors of its table that name no workers, or its own."""
    _, location, _, workers = key
    found = []
    for one in errors:
        named = re.search(r"workers (\d+)", one.quantity)
        if _holds(one.location, location) and (named is None or named[1] == workers):
            found.append(re.sub(r"^workers \d+[:,]? *", "", one.quantity) or one.printed)
    return "; ".join(dict.fromkeys(found))


def _holds(places: str, table: str) -> bool:
    """Whether ``Tables 9-12`` or ``Tables 5 and 6`` has ``Table 10``.

    >>> _holds("Tables 9-12", "Table 10"), _holds("Tables 5 and 6", "Table 6"), _holds("Table 1", "Table 10")
    (True, True, False)
    """
    if not places.startswith("Table"):
        return False
    numbers = [int(one) for one in re.findall(r"\d+", places)]
    asked = int(re.findall(r"\d+", table)[0])
    return numbers[0] <= asked <= numbers[-1] if "-" in places else asked in numbers
