"""What the proxy costs, where a study compares direct access with the way through a proxy at the same clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.numbers.analysis import RESPONSE_NAMES
from weir_lab.report.numbers.findings import judge_predictions
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.theory.units import count_text, number, signed_percent

if TYPE_CHECKING:
    from weir_lab.report.numbers.analysis import Analysis
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.linear import Change

__all__ = ["build"]


def build(analysis: Analysis, servers: int) -> list[Block]:
    """Changes from direct to proxy with their p-values, and what was predicted; ``servers`` is how many both paths have."""
    judged = _predictions(analysis)
    note = (
        "Path direct: the load generator's connections are spread in turn over the same "
        f"{count_text(servers, 'memcached server')} that the proxy uses, and each server holds all keys. So both paths have the same "
        "number of servers; only the proxy is added. With fewer clients than servers, some servers stay idle on the direct path."
    )
    return [_changes(analysis), *([judged] if judged else []), Text(note, note=True)]


def _changes(analysis: Analysis) -> Table:
    responses = [one for one in RESPONSE_NAMES if any(one in made.effects for made in analysis.comparisons)]
    heads = [part for one in responses for part in (f"{RESPONSE_NAMES[one].capitalize()} (%)", "p")]
    rows: list[tuple[Entry, ...]] = []
    for made in analysis.comparisons:
        reported: list[Entry] = []
        for one in responses:
            change = made.effects.get(one)
            reported += ["too few requests", "–"] if change is None else [_change(change), _p(change.p)]
        runs = max(change.n for change in made.effects.values())
        rows.append((Value(made.clients), Value(runs), *reported))
    return Table(
        "changes",
        "Change from direct to proxy in percent of direct: −50 is half as much, +100 twice as much. From the linear model of all runs "
        f"(cell + block on logarithms). The 95 % intervals of a column hold together for all {len(analysis.comparisons)} levels of "
        "clients, and p says the same as its interval.",
        ("Clients", "Runs", *heads),
        tuple(rows),
    )


def _change(change: Change) -> Value:
    return Value(change.percent, change.low, change.high, 1, signed=True)


def _p(value: float) -> Entry:
    return "< 0.0001" if value < 0.0001 else Value(value, digits=4)


def _predictions(analysis: Analysis) -> Table | None:
    rows: list[tuple[Entry, ...]] = []
    for judged in judge_predictions(analysis):
        made, seen = judged.prediction, judged.observed
        rows.append(
            (
                RESPONSE_NAMES[made.response], Value(made.clients),
                f"{signed_percent(made.change_percent_min)} to {signed_percent(made.change_percent_max)}",
                f"{signed_percent(seen.percent)} ({number(seen.low, 1)} to {number(seen.high, 1)})", judged.verdict,
            )
        )  # fmt: skip
    if not rows:
        return None
    return Table(
        "predictions",
        "Predictions written into the study before it ran. Held: the whole interval lies in the predicted range; refuted: all of it "
        "outside; undecided: otherwise.",
        ("Response", "Clients", "Predicted change (%)", "Observed change (%)", "Verdict"),
        tuple(rows),
    )
