"""Multi-gets: sharded against whole over the number of keys: mean, tails and keys a second, with the size from which splitting pays."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from weir_lab.report.common import (
    EVENT,
    STAGE_LOOKS,
    Task,
    binned,
    figure,
    level_value,
    mark,
    method,
    speed_note,
    stage_bar,
    unit_of,
    with_tables,
)
from weir_lab.report.numbers.comparing import changes_between, loops_text, throughput_of
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import operation_s
from weir_lab.report.numbers.stations import usages
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Figure, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.histogram import Histogram
    from weir_lab.theory.linear import Change

__all__ = ["both_modes", "build", "conclusions", "pays_from", "reading_s", "summary"]

_PERCENTS = (25.0, 50.0, 75.0, 90.0, 99.0)
_HISTOGRAM_KEYS = 6
_BINS = 30
_SERVER_LINKS = "server uplinks"
# Links of servers that are used so much more by split gets were idle before.
_IDLE_SHARE = 0.05


def build(task: Task) -> list[Block]:
    """Everything over the number of keys, by mode."""
    modes = _modes(task)
    figures: list[Block | None] = [
        _throughput(task, modes),
        _percentiles(task, modes),
        _composition(task, modes),
        _histograms(task, modes),
    ]
    tables = [_comparison(task, modes), _changes(task, modes), _printed(task, modes)]
    return [Text(f"The data say: {_sentence(modes)}{_links_text(task, modes)}"), *with_tables([*tables, *figures])]


def summary(task: Task) -> str:
    """From which size splitting pays."""
    return f"{task.spec.title}: {_sentence(_modes(task))}"


def reading_s(run: Reading) -> float | None:
    """Mean response time of the gets: multi-gets, or single ones where each get has one key."""
    found = run.operation_s("multiget")
    return found if found is not None else run.operation_s("get")


def _times(run: Reading) -> Histogram | None:
    return run.operation_times("multiget") or run.operation_times("get")


def _modes(task: Task) -> dict[str, list[CellReadings]]:
    found: dict[str, list[CellReadings]] = {}
    for sweep in (*task.sweeps, *task.beside):
        for cell in sweep.cells:
            mode = str(cell.settings.multiget or "sharded") + (", event engine" if sweep in task.beside else "")
            found.setdefault(mode, []).append(cell)
    return {mode: sorted(cells, key=lambda cell: cell.settings.multiget_keys) for mode, cells in found.items()}


def _axis(modes: dict[str, list[CellReadings]]) -> Axis:
    return Axis(
        "Keys per get",
        ticks=tuple(sorted({float(cell.settings.multiget_keys) for cells in modes.values() for cell in cells})),
    )


def _throughput(task: Task, modes: dict[str, list[CellReadings]]) -> Figure | None:
    panels = []
    for title, axis, value in (
        ("requests", "Throughput (requests/s)", throughput_of),
        ("keys", "Keys asked for (keys/s)", lambda run: run.keys_per_s),
    ):
        lines = []
        for place, (mode, cells) in enumerate(modes.items()):
            marks = [mark(cell, cell.settings.multiget_keys, value) for cell in cells]
            lines.append(Line(mode, tuple(one for one in marks if one), EVENT if "event" in mode else LOOKS[place]))
        panels.append(Panel(title, _axis(modes), Axis(axis), tuple(lines)))
    cells = [cell for group in modes.values() for cell in group]
    return figure(task, "throughput", "Throughput over keys per get", panels, method(cells))


def _percentiles(task: Task, modes: dict[str, list[CellReadings]]) -> Figure | None:
    panels = []
    for mode, cells in modes.items():
        lines = []
        for place, percent in enumerate(_PERCENTS):
            marks = []
            for cell in cells:
                found = [times.percentile(percent) for run in cell.runs if (times := _times(run)) is not None]
                known = [value / 1e6 for value in found if value is not None]
                if known and len(known) == len(found):
                    value = over(known)
                    marks.append(Mark(cell.settings.multiget_keys, value.value, value.low, value.high))
            if marks:
                lines.append(Line(f"{percent:g} %", tuple(marks), LOOKS[place + 1]))
        mean = [mark(cell, cell.settings.multiget_keys, reading_s, 1e3) for cell in cells]
        lines.append(Line("mean", tuple(one for one in mean if one), LOOKS[0]))
        panels.append(Panel(mode, _axis({mode: cells}), Axis("Response time of gets (ms)"), tuple(lines)))
    cells = [cell for group in modes.values() for cell in group]
    text = method(cells, "percentiles of each run's histogram of gets, mean and 95 % interval over runs")
    return figure(task, "percentiles", "Percentiles of the response time of gets over their keys", panels, text)


def _composition(task: Task, modes: dict[str, list[CellReadings]]) -> Figure | None:
    panels = []
    for mode, cells in modes.items():
        bars = []
        for cell in cells:
            operation = "multiget" if cell.settings.multiget_keys > 1 else "get"
            bar = stage_bar(str(cell.settings.multiget_keys), cell, operation)
            if bar is not None:
                bars.append(bar)
        panels.append(Panel(mode, Axis("Keys per get"), Axis("Mean time (ms)"), bars=tuple(bars), parts=STAGE_LOOKS))
    # One y axis for all, so that bars of whole and of split gets can be compared.
    top = max((sum(value for _, value in bar.parts) for panel in panels for bar in panel.bars), default=0.0)
    panels = [replace(panel, y=replace(panel.y, top=top)) for panel in panels]
    return figure(
        task, "stages", "Stages of gets over their keys", panels, "Means over runs of each stage in the proxy, per get."
    )


def _histograms(task: Task, modes: dict[str, list[CellReadings]]) -> Figure | None:
    """Client and proxy, for six keys: the same bins on both sides, so that they can be laid over each other."""
    panels = []
    for mode, cells in modes.items():
        cell = next((one for one in cells if one.settings.multiget_keys == _HISTOGRAM_KEYS), None)
        if cell is None or "event" in mode:
            continue
        client = cell.merged(_times)
        proxy = cell.merged(_in_proxy)
        top = client.percentile(99.0) if client is not None else None
        if top is None:
            continue
        unit = unit_of(top)
        for name, times, look in (("at the clients", client, "c0"), ("in the proxy", proxy, "c1")):
            if times is not None and times.total:
                panels.append(
                    Panel(
                        f"{mode}, {_HISTOGRAM_KEYS} keys, {name}",
                        Axis(f"Time up to ({unit})"),
                        Axis("Share (%)"),
                        bars=tuple(binned(times, top, _BINS, name, unit)),
                        parts={name: LOOKS[int(look[1])]},
                    )
                )
    text = f"{_BINS} bins at most, of equal and round width, up to the 99th percentile at the clients, all runs. Gets alone, on both sides."
    return figure(task, "histograms", f"Distribution for {_HISTOGRAM_KEYS} keys, at clients and proxy", panels, text)


def _in_proxy(run: Reading) -> Histogram | None:
    """Of the same requests as `_times`: with SETs among them, a shift between both sides would not be that of the network alone."""
    return run.proxy_times_of("multiget") or run.proxy_times_of("get")


def _tail_s(percent: float) -> Callable[[Reading], float | None]:
    """A percentile of the gets' response times."""

    def of(run: Reading) -> float | None:
        times = _times(run)
        found = times.percentile(percent) if times is not None else None
        return None if found is None else found / 1e9

    return of


# What splitting may change beside the mean response time. A closed system ties rate and mean; tails and keys a second are their own.
_BESIDE: dict[str, Callable[[Reading], float | None]] = {
    "keys per second": lambda run: run.keys_per_s,
    "p90 of gets": _tail_s(90.0),
    "p99 of gets": _tail_s(99.0),
}


def _changes_beside(modes: dict[str, list[CellReadings]]) -> dict[str, list[tuple[int, Change]]]:
    """The same for everything beside the mean."""
    pairs = [(whole, split) for _, whole, split in _both(modes)]
    cells = [cell for group in modes.values() for cell in group]
    return {
        name: [
            (cell.settings.multiget_keys, change)
            for (_, cell), change in zip(pairs, changes_between(cells, pairs, value), strict=True)
            if change is not None
        ]
        for name, value in _BESIDE.items()
    }


def _pairs(modes: dict[str, list[CellReadings]]) -> list[tuple[int, Change]]:
    """Keys, and the change of the response time from whole to sharded; intervals hold together for all sizes."""
    pairs = [(whole, split) for _, whole, split in _both(modes)]
    changes = changes_between([cell for cells in modes.values() for cell in cells], pairs, reading_s)
    return [
        (cell.settings.multiget_keys, change)
        for (_, cell), change in zip(pairs, changes, strict=True)
        if change is not None
    ]


def _both(modes: dict[str, list[CellReadings]]) -> list[tuple[int, CellReadings, CellReadings]]:
    """Keys, and the cells that ask for this number of them whole and split."""
    whole = {cell.settings.multiget_keys: cell for cell in modes.get("whole", [])}
    return [
        (keys, whole[keys], cell) for cell in modes.get("sharded", []) if (keys := cell.settings.multiget_keys) in whole
    ]


def both_modes(task: Task) -> list[tuple[int, CellReadings, CellReadings]]:
    """Keys, and the cells that ask for this number of them whole and split."""
    return _both(_modes(task))


def _pays(pairs: list[tuple[int, Change]]) -> int | None:
    """The size from which on splitting is shown to be faster at every larger size."""
    pays = None
    for keys, change in reversed(pairs):
        if keys <= 1 or change.high >= 0.0:
            break
        pays = keys
    return pays


def pays_from(task: Task) -> tuple[int | None, bool]:
    """The size from which on splitting is faster at every larger size, and whether there was anything to compare."""
    pairs = _pairs(_modes(task))
    return _pays(pairs), bool(pairs)


def _sentence(modes: dict[str, list[CellReadings]]) -> str:
    """What splitting does to the mean response time, and at the largest size to keys a second and tails."""
    pairs = _pairs(modes)
    if not pairs:
        return "Only one mode is there, so nothing can be said about splitting."
    keys, mean = pairs[-1]
    beside = [(name, dict(found).get(keys)) for name, found in _changes_beside(modes).items()]
    parts = [f"by {_percent(mean).text} %"]
    parts += [f"{name} {_by_text(change)}" for name, change in beside if change is not None]
    return f"{_pays_text(pairs)}; with {count_text(keys, 'key')} the mean response time of gets changes {', '.join(parts)}."


def _links_text(task: Task, modes: dict[str, list[CellReadings]]) -> str:
    """What SETs take beside gets of the largest size, whole and split, and how much of the servers' links these use, where built."""
    both = _both(modes)
    if not both:
        return ""
    keys, *cells = both[-1]
    found = _of_sets(keys, cells)
    if not task.first.links_built:
        return found
    links = task.first.study.topology.built_links
    shares = [next((one.share for one in usages(cell, links) if one.station == _SERVER_LINKS), None) for cell in cells]
    whole, split = shares
    if whole is None or split is None:
        return found
    why = (
        " A whole get waits for the link of one server while others may idle; a split one uses several at once."
        if split - whole > _IDLE_SHARE and cells[0].settings.servers > 1
        else ""
    )
    return (
        f"{found} With {count_text(keys, 'key')} whole gets use {100.0 * whole:.0f} % of the {_SERVER_LINKS}, split ones "
        f"{100.0 * split:.0f} %.{why}"
    )


def _of_sets(keys: int, cells: Sequence[CellReadings]) -> str:
    """What SETs take beside whole and split gets, which they share links with."""
    times = [cell.of(operation_s("set")) for cell in cells]
    if not all(times):
        return ""
    whole, split = (number(1e3 * sum(one) / len(one), 1) for one in times)
    return f" Beside gets of {count_text(keys, 'key')} a SET takes {whole} ms where they are whole and {split} ms where they are split."


def _sets_text(modes: dict[str, list[CellReadings]]) -> str:
    """What else there is beside gets: X counts it, too."""
    ratios = {cell.settings.write_ratio for cells in modes.values() for cell in cells}
    if len(ratios) != 1 or ratios == {0.0}:
        return ""
    return f" Of the requests that X counts {100.0 * ratios.pop():g} % are SETs of one key."


def _by_text(change: Change) -> str:
    return f"by {_percent(change).text} %{'' if change.shown else ' (no difference shown)'}"


def _pays_text(pairs: list[tuple[int, Change]]) -> str:
    """What the mean response time says."""
    pays, (largest, change) = _pays(pairs), pairs[-1]
    if pays is not None:
        return f"splitting a multi-get over the servers pays from {pays} keys on"
    if change.low > 0.0:
        return f"splitting costs time at the largest size, {largest} keys"
    faster = [keys for keys, one in pairs if keys > 1 and one.high < 0.0]
    if not faster:
        return f"no difference in the mean response time is shown at any size up to {largest} keys"
    rest = [keys for keys, one in pairs if keys > 1 and one.high >= 0.0]
    return (
        f"the mean response time is shown to be shorter with splitting at {_sizes(faster)} keys; at {_sizes(rest)} keys that is not "
        "shown"
    )


def _sizes(keys: Sequence[int]) -> str:
    """``3``, ``6 and 9``, ``3, 6 and 9``."""
    *most, last = [str(one) for one in keys]
    return f"{', '.join(most)} and {last}" if most else last


def _comparison(task: Task, modes: dict[str, list[CellReadings]]) -> Table:
    rows: list[tuple[Entry, ...]] = []
    pairs = dict(_pairs(modes))
    for mode, cells in modes.items():
        for cell in cells:
            keys = cell.settings.multiget_keys
            compared = pairs.get(keys) if mode == "sharded" else None
            rows.append(
                (
                    mode,
                    Value(keys),
                    level_value(cell, reading_s, 1e3),
                    level_value(cell, throughput_of, digits=0),
                    level_value(cell, lambda run: run.keys_per_s, digits=0),
                    level_value(cell, operation_s("set"), 1e3) if cell.of(operation_s("set")) else "–",
                    _percent(compared) if compared else "–",
                    ("yes" if compared.shown else "no difference shown") if compared else "–",
                    Value(len(cell.runs)),
                )
            )
    return Table(
        f"{task.spec.name}-comparison",
        f"Exploratory: gets over their keys, by mode, with 95 % intervals over runs.{_sets_text(modes)} Change: of the mean response time "
        "from whole to sharded at the same size, from the linear model of all cells, with 95 % intervals that hold together for all sizes; "
        f"shown: without 0.{loops_text([*task.sweeps, *task.beside])}",
        ("Mode", "Keys", "Gets (ms)", "X (requests/s)", "Keys (keys/s)", "SETs (ms)", "Change (%)", "Shown", "Runs"),
        tuple(rows),
    )


def _percent(change: Change) -> Value:
    """As sentences and tables have it."""
    return Value(change.percent, change.low, change.high, 1, signed=True)


def _changes(task: Task, modes: dict[str, list[CellReadings]]) -> Table | None:
    """Every response at every size, from whole to sharded."""
    rows: list[tuple[Entry, ...]] = [
        (
            Value(keys),
            name,
            _percent(change),
            "yes" if change.shown else "no difference shown",
        )
        for name, found in {"mean of gets": _pairs(modes), **_changes_beside(modes)}.items()
        for keys, change in found
    ]
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-changes",
        "Exploratory: what splitting changes, from whole to sharded at the same size, from the linear model of all cells. Intervals of "
        "95 % hold together for all sizes of one response; shown: without 0.",
        ("Keys", "Response", "Change (%)", "Shown"),
        tuple(sorted(rows, key=lambda row: row[0].value if isinstance(row[0], Value) else 0.0)),
    )


# Quantities of the printed table: what of ours stands beside it, with its unit, and the power of the speed that brings it to the study's.
_QUOTED: dict[str, tuple[Callable[[Reading], float | None], float, int]] = {
    "hits": (lambda run: run.keys_per_s, 1.0, -1),
    "throughput": (throughput_of, 1.0, -1),
    "response_time_mean": (reading_s, 1e3, 1),
}
_MODES = {"sharded": "sharded", "non-sharded": "whole"}


def _printed(task: Task, modes: dict[str, list[CellReadings]]) -> Table | None:
    """What the study quoted of its figures, beside ours at the study's speed; ``None`` where it quoted nothing of what was run."""
    rows: list[tuple[Entry, ...]] = []
    for row in read_table("multiget_quoted"):
        known = _QUOTED.get(row["quantity"])
        mode = _MODES.get(row["mode"], "")
        cell = next((one for one in modes.get(mode, []) if str(one.settings.multiget_keys) == row["keys"]), None)
        if row["study"] != task.label or known is None or cell is None:
            continue
        value, scale, power = known
        rows.append(
            (
                mode,
                Value(cell.settings.multiget_keys),
                f"{row['quantity'].replace('_', ' ')} ({row['unit']})",
                Value(float(row["value"])),
                level_value(cell, value, scale * task.first.speed**power),
                "; ".join(filter(None, [row["note"], _beyond_links(task, row)])) or "–",
            )
        )
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-quoted",
        f"What the study says of its figures, with ours at the study's speed beside it.{speed_note(task.first.speed)}",
        ("Mode", "Keys", "Quantity", "Study", "Ours", "Note on the study's"),
        tuple(rows),
        folded=True,
    )


def _beyond_links(task: Task, row: dict[str, str]) -> str:
    """Of a printed number that no link of the study carries, that it is known to be wrong, and what is right; empty of others."""
    return next(
        (
            f"cannot be: more than links carry ({one.location} among what was printed wrongly); right is {one.right}"
            for one in errors_at(task.label, task.spec.errors)
            if one.quantity.startswith(f"{row['quantity']}, {row['mode']}, ")
            and row["keys"] in re.findall(r"\d+", one.quantity)
            and "Mbit/s" in one.explanation
        ),
        "",
    )


def conclusions(task: Task) -> dict[str, str]:
    """From which size splitting pays."""
    pays, known = pays_from(task)
    return {"splitting pays from": f"{pays} keys" if pays is not None else "no size"} if known else {}
