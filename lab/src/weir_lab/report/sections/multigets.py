"""Multi-gets: how they grow with their keys, and sharded against whole: mean, tails and keys a second, from which size splitting pays."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
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
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import operation_s
from weir_lab.report.numbers.stations import usages
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Figure, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.units import count_text

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
# How gets of a mode are sent, in sentences.
_WHEN = {"sharded": "when split", "whole": "when whole"}


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
    split, *tails = _sentences(modes)
    said = [
        [f"{split[0].upper()}{split[1:]}", *tails],
        _growth_points(modes, task.margins.maximum),
        _beside_points(task, modes),
    ]
    # Of each the first sentence stands open.
    points, leads = tuple(" ".join(one) for one in said if one), tuple(one[0] for one in said if one)
    return [Text("What the data say:", points, leads=leads), *with_tables([*tables, *figures])]


def summary(task: Task) -> str:
    """From which size splitting pays."""
    return f"{task.spec.title}: {_sentences(_modes(task))[0]}"


def reading_s(run: Reading) -> float | None:
    """Mean response time of the gets: multi-gets, or single ones where each get has one key."""
    found = run.operation_s("multiget")
    return found if found is not None else run.operation_s("get")


def _keys_of(run: Reading) -> float:
    """Keys asked for per second."""
    return run.keys_per_s


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
        ("keys", "Keys asked for (keys/s)", _keys_of),
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
    return figure(task, "gets", "Percentiles of the response time of gets over their keys", panels, text)


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


_OF_GETS = " of gets"
# What splitting may change beside the mean response time. A closed system ties rate and mean; tails and keys a second are their own.
_BESIDE: dict[str, Callable[[Reading], float | None]] = {
    "keys per second": _keys_of,
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


@dataclass(frozen=True, eq=False)
class _Size:
    """A size of gets as the table has it. ``times``: the mean response time over that of the fewest keys.

    ``each`` is what each further key adds to it in ms, from the size ``since`` on. Its ends are those of both intervals.
    """

    keys: int
    time: Value
    rate: Value
    times: Value | None = None
    each: Value | None = None
    since: int = 0


def _sizes_of(cells: Sequence[CellReadings]) -> list[_Size]:
    """The sizes of a mode, ascending; none where a size has several cells, since these differ in more than their keys."""
    found: list[_Size] = []
    if len({cell.settings.multiget_keys for cell in cells}) < len(cells):
        return found
    for cell in cells:
        keys = cell.settings.multiget_keys
        time, rate = level_value(cell, reading_s, 1e3), level_value(cell, _keys_of, digits=0)
        if not isinstance(time, Value) or not isinstance(rate, Value):
            continue
        if not found:
            found.append(_Size(keys, time, rate))
            continue
        before, times = found[-1], Value(time.value / found[0].time.value)
        found.append(_Size(keys, time, rate, times, _each(before.time, time, keys - before.keys), before.keys))
    return found


def _each(before: Value, after: Value, keys: int) -> Value:
    """What each of some further keys adds; without ends where one of both levels has none."""
    middle = (after.value - before.value) / keys
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return Value(middle)
    return Value(middle, (after.low - before.high) / keys, (after.high - before.low) / keys)


def _growth_points(modes: dict[str, list[CellReadings]], margin: float) -> list[str]:
    """How the mean response time of gets grows with their keys, from which size on faster, and how keys per second go."""
    grown = {
        _WHEN[mode]: sizes for mode, cells in modes.items() if mode in _WHEN and len(sizes := _sizes_of(cells)) > 1
    }
    return [*_times_texts(grown), *_faster_texts(grown), *_rates_texts(grown, margin)]


def _times_texts(grown: dict[str, list[_Size]]) -> list[str]:
    """From the fewest keys to the most, in one sentence for all modes that have the same ends."""
    by_ends: dict[tuple[int, int], list[str]] = {}
    for when, sizes in grown.items():
        first, last = sizes[0], sizes[-1]
        if last.times is not None:
            text = f"from {_middle(first.time)} to {_middle(last.time)} ms {when} ({last.times.text} times)"
            by_ends.setdefault((first.keys, last.keys), []).append(text)
    verb = "grows" if all(sizes[-1].time.value > sizes[0].time.value for sizes in grown.values()) else "goes"
    return [
        f"From {few} to {count_text(many, 'key')} the mean response time of gets {verb} {' and '.join(texts)}."
        for (few, many), texts in by_ends.items()
    ]


def _faster_texts(grown: dict[str, list[_Size]]) -> list[str]:
    """The first size from which on a further key is shown to add more than one before it did."""
    by_step: dict[tuple[int, int], list[str]] = {}
    for when, sizes in grown.items():
        found = next(((one, two) for one, two in itertools.pairwise(sizes[1:]) if _is_faster(one, two)), None)
        if found is not None and found[0].each is not None and found[1].each is not None:
            text = f"{_middle(found[1].each)} ms {when} ({_middle(found[0].each)} before)"
            by_step.setdefault((found[1].since, found[1].keys), []).append(text)
    return [
        f"This time grows faster from {few} keys on: from there to {many} keys each further key adds {' and '.join(texts)}."
        for (few, many), texts in by_step.items()
    ]


def _is_faster(before: _Size, after: _Size) -> bool:
    """Whether the ends of both say that each further key adds more than before."""
    if before.each is None or after.each is None or before.each.high is None or after.each.low is None:
        return False
    return after.each.low > before.each.high


def _rates_texts(grown: dict[str, list[_Size]], margin: float) -> list[str]:
    """Keys per second at the fewest keys and at the most, and the size from which on larger ones change them by less than a margin."""
    if not grown:
        return []
    parts, flat = [], []
    for when, sizes in grown.items():
        first, last = sizes[0], sizes[-1]
        settled = next(one for place, one in enumerate(sizes) if _is_flat(sizes[place:], margin))
        if settled not in (first, last):
            flat.append(when)
        already = f", with {settled.keys} keys already {_middle(settled.rate)}" if when in flat else ""
        parts.append(f"from {_middle(first.rate)} to {_middle(last.rate)} {when}{already}")
    larger = "Larger" if len(flat) == len(grown) else f"{' and '.join(flat).capitalize()} larger"
    more = f" {larger} gets change this by less than {margin:g} %." if flat else ""
    return [f"Keys per second go {'; '.join(parts)}.{more}"]


def _is_flat(sizes: Sequence[_Size], margin: float) -> bool:
    """Whether keys per second of all later sizes lie near those of the first."""
    first = sizes[0].rate.value
    return all(abs(one.rate.value - first) < margin / 100.0 * first for one in sizes[1:])


def _middle(value: Value) -> str:
    """A value as its table has it, without the interval."""
    return value.text.partition(" ")[0]


def _sentences(modes: dict[str, list[CellReadings]]) -> list[str]:
    """What splitting does to the mean response time, and at the largest size to keys a second; then to tails."""
    pairs = _pairs(modes)
    if not pairs:
        return ["Only one mode is there, so nothing can be said about splitting."]
    keys, mean = pairs[-1]
    found = {name: dict(changes).get(keys) for name, changes in _changes_beside(modes).items()}
    known = {name: _by_text(change) for name, change in found.items() if change is not None}
    parts = [f"by {_percent(mean).text} %", *(f"{name} {by}" for name, by in known.items() if _OF_GETS not in name)]
    tails = [f"{name.removesuffix(_OF_GETS)} {by}" for name, by in known.items() if _OF_GETS in name]
    said = f"{_pays_text(pairs)}; with {count_text(keys, 'key')} the mean response time of gets changes {', '.join(parts)}."
    return [said, *([f"Tails of the same gets: {listed(tails)}."] if tails else [])]


def _beside_points(task: Task, modes: dict[str, list[CellReadings]]) -> list[str]:
    """What SETs take beside gets of the largest size, whole and split, and how much of the servers' links these use, where built."""
    both = _both(modes)
    if not both:
        return []
    keys, *cells = both[-1]
    return [one for one in (*_of_links(task, keys, cells), _of_sets(keys, cells)) if one]


def _of_links(task: Task, keys: int, cells: Sequence[CellReadings]) -> list[str]:
    """How much of the servers' links whole and split gets use, and why these use more; empty where no links were built."""
    whole, split = (_link_share(task, cell) for cell in cells)
    if whole is None or split is None:
        return []
    why = (
        "A whole get waits for the link of one server while others may idle; a split one uses several at once."
        if split - whole > _IDLE_SHARE and cells[0].settings.servers > 1
        else ""
    )
    used = [Value(100.0 * one, digits=0).text for one in (whole, split)]
    return [
        f"With {count_text(keys, 'key')} whole gets use {used[0]} % of the {_SERVER_LINKS}, split ones {used[1]} %.",
        why,
    ]


def _link_share(task: Task, cell: CellReadings) -> float | None:
    """How much of the servers' links a cell uses; ``None`` where no links were built."""
    if not task.first.links_built:
        return None
    links = task.first.study.topology.built_links
    return next((one.share for one in usages(cell, links) if one.station == _SERVER_LINKS), None)


def _of_sets(keys: int, cells: Sequence[CellReadings]) -> str:
    """What SETs take beside whole and split gets, which they share links with."""
    times = [level_value(cell, operation_s("set"), 1e3) for cell in cells]
    whole, split = (_middle(one) if isinstance(one, Value) else "" for one in times)
    if not whole or not split:
        return ""
    return f"Beside gets of {count_text(keys, 'key')} a SET takes {whole} ms where they are whole and {split} ms where they are split."


def _sets_text(modes: dict[str, list[CellReadings]]) -> str:
    """Beside gets X counts SETs, too."""
    ratios = {cell.settings.write_ratio for cells in modes.values() for cell in cells}
    if len(ratios) != 1 or ratios == {0.0}:
        return ""
    return f" {100.0 * ratios.pop():g} % of X are SETs of one key."


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
    shares = {cell: _link_share(task, cell) for cells in modes.values() for cell in cells}
    linked = any(one is not None for one in shares.values())
    for mode, cells in modes.items():
        sizes = {one.keys: one for one in _sizes_of(cells)}
        for cell in cells:
            share, size = shares[cell], sizes.get(cell.settings.multiget_keys)
            used: Entry = "–" if share is None else Value(100.0 * share, digits=0)
            rows.append(
                (
                    mode,
                    Value(cell.settings.multiget_keys),
                    level_value(cell, reading_s, 1e3),
                    (size.times if size is not None else None) or "–",
                    (size.each if size is not None else None) or "–",
                    level_value(cell, throughput_of, digits=0),
                    level_value(cell, _keys_of, digits=0),
                    level_value(cell, operation_s("set"), 1e3) if cell.of(operation_s("set")) else "–",
                    *((used,) if linked else ()),
                    Value(len(cell.runs)),
                )
            )
    return Table(
        f"{task.spec.name}-comparison",
        f"Exploratory: gets over their keys, 95 % intervals over runs.{_sets_text(modes)} Each further key: added to the size before, from "
        f"the ends of both intervals (wider than 95 %).{loops_text([*task.sweeps, *task.beside])}",
        (
            "Mode",
            "Keys",
            "Gets (ms)",
            "Over the fewest keys (times)",
            "Each further key (ms)",
            "X (requests/s)",
            "Keys (keys/s)",
            "SETs (ms)",
            *((f"{_SERVER_LINKS.capitalize()} used (%)",) if linked else ()),
            "Runs",
        ),
        tuple(rows),
    )


def _percent(change: Change) -> Value:
    """As sentences and tables have it."""
    return Value(change.percent, change.low, change.high, 1, signed=True)


def _changes(task: Task, modes: dict[str, list[CellReadings]]) -> Table | None:
    """Every response at every size, from whole to sharded."""
    found = {name: dict(changes) for name, changes in {"mean of gets": _pairs(modes), **_changes_beside(modes)}.items()}
    sizes = sorted({keys for changes in found.values() for keys in changes})
    if not sizes:
        return None
    return Table(
        f"{task.spec.name}-changes",
        "Exploratory: what splitting changes, from whole to sharded at the same size, from the linear model of all cells. Intervals of "
        "95 % hold together for all sizes of one response. No difference is shown where 0 lies in the interval.",
        ("Keys", *(f"{name} (%)" for name in found)),
        tuple((Value(keys), *(_entry(one.get(keys)) for one in found.values())) for keys in sizes),
    )


def _entry(change: Change | None) -> Entry:
    return "–" if change is None else _percent(change)


# Quantities of the printed table: what of ours stands beside it, with its unit, and the power of the speed that brings it to the study's.
_QUOTED: dict[str, tuple[Callable[[Reading], float | None], float, int]] = {
    "hits": (_keys_of, 1.0, -1),
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
