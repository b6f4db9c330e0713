"""Two systems in turn, on one page: `comparison_report`."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.errors import RecordError
from weir_lab.records.comparisons import (
    METRIC_WORDS,
    Metric,
    answer_lines,
    has_value,
    limit_lines,
    lives_text,
    pairs_of,
    value_of,
)
from weir_lab.report.page.blocks import Figure, Report, Section, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.stats.stopping import (
    Look,
    SequentialPlan,
    life_values,
    repeated_interval,
    slope_on_slowness,
)
from weir_lab.theory.units import count_text, signed_percent, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.records.comparisons import ComparisonRecord, LevelRecord, LifeRecord
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.stats.stopping import Pair

__all__ = ["comparison_report"]

# Unit of a metric on the page, and what its records are multiplied by.
_UNITS = {Metric.THROUGHPUT: ("requests/s", 1.0)}
_MICROSECONDS = ("µs", 1e-3)
# Margins are not drawn where changes are this many times as large.
_FAR = 10.0


def comparison_report(record: ComparisonRecord, lives: Sequence[LifeRecord]) -> Report:
    """The page's content: the answer, every life, every look, all metrics side by side, pieces as they came."""
    metric = Metric(record.metric)
    percent = f"{100.0 * (1.0 - record.error):g} %"
    margin = f"{significant(record.same_within_percent)} %"
    blocks: list[Block] = []
    if len(record.levels) > 1:
        blocks += _levels_figures(record, lives, metric, percent)
    for level in record.levels:
        pairs = [pairs_of(life, metric, level.clients) for life in lives]
        blocks.append(_change_figure(record, level, lives, pairs, percent))
    blocks.append(_pieces_figure(lives, metric, record.levels[-1].clients))
    blocks += [_metrics_table(record, level, lives, percent) for level in record.levels]
    blocks.append(Text(_about_yardstick(record, lives, metric), note=True))
    section = Section(
        name="change",
        title=f"Change of the {METRIC_WORDS[metric]} from A to B",
        question=f"Is B faster or slower than A, by {METRIC_WORDS[metric]}?",
        hypothesis=f"B is as fast as A: the change lies within {margin}. A verdict is wrong in at most {100.0 * record.error:g} of 100 "
        "comparisons, however often it was looked.",
        design=_design(record),
        blocks=tuple(blocks),
    )
    summary = tuple(answer_lines(record))
    counted = len(summary) < len(record.levels)
    return Report(
        name="comparison",
        title="A against B",
        about=f"A is {record.sides['A'].asked}; B is {record.sides['B'].asked}. Both were alive at once before the same memcached "
        f"servers and were loaded in turn, {1000.0 * record.piece_s:g} ms each, in random order.",
        pace=f"{lives_text(len(lives))} of {record.pairs} pairs in {significant(record.took_s)} s",
        testbed="local",
        summary=summary,
        sections=(section,),
        under=f"{lives_text(len(lives)).capitalize()} of {record.pairs} pairs in {significant(record.took_s)} s, testbed local,",
        facts=_facts(record),
        sweeps={},
        limits=tuple(limit_lines(record)),
        details=tuple(level.sentence for level in record.levels) if counted else (),
        intervals=f"Intervals hold at every look together in {percent} of comparisons; one process life is one value.",
    )


def _levels_figures(record: ComparisonRecord, lives: Sequence[LifeRecord], metric: Metric, percent: str) -> list[Block]:
    """Both sides over the number of clients, and the change."""
    unit, scale = _UNITS.get(metric, _MICROSECONDS)
    clients = tuple(float(level.clients) for level in record.levels)
    across = Axis("clients", log=min(clients) < max(clients) / 8.0, ticks=clients)
    lines: list[Line] = []
    for place, side in enumerate(("A", "B")):
        middle = [
            Mark(float(level.clients), scale * _median(lives, side, metric, level.clients)) for level in record.levels
        ]
        dots = [
            Mark(float(level.clients), scale * _median([life], side, metric, level.clients), note=f"life {life.number}")
            for level in record.levels
            for life in lives
        ]
        lines.append(Line(side, tuple(middle), LOOKS[place]))
        lines.append(Line(f"{side}, a life", tuple(dots), LOOKS[place], "points"))
    sides = Panel("Both sides", across, Axis(f"{METRIC_WORDS[metric]} ({unit})"), tuple(lines))
    figures = [sides]
    looked = [(level, level.looks[-1]) for level in record.levels if level.looks]
    if looked:
        ends = {"change": "change_percent", "lower end": "low_percent", "upper end": "high_percent"}
        figures.append(
            Panel(
                "Change",
                across,
                Axis("change from A to B (%)"),
                tuple(
                    Line(
                        name,
                        tuple(Mark(float(level.clients), float(getattr(look, value))) for level, look in looked),
                        LOOKS[2],
                        "line" if name == "change" else "dotted",
                    )
                    for name, value in ends.items()
                ),
            )
        )
    method = (
        f"Filled: the median piece of all lives; hollow: of each life. Dotted: the {percent} interval of the change."
    )
    return [Figure("levels", "A and B by the number of clients", method, tuple(figures))]


def _change_figure(
    record: ComparisonRecord, level: LevelRecord, lives: Sequence[LifeRecord], pairs: list[list[Pair]], percent: str
) -> Figure:
    values = 100.0 * np.expm1(life_values(pairs))
    margin = record.same_within_percent
    margins = tuple(
        Line("margins", (Mark(1.0, end),), LOOKS[7], "level") for end in (margin, -100.0 * margin / (100.0 + margin))
    )
    if abs(float(np.median(values))) > _FAR * margin:
        margins = ()  # they would only be a line at 0
    points = tuple(
        Mark(float(life.number), float(value), note=f"{life.first} started first")
        for life, value in zip(lives, values, strict=True)
    )
    by_life = Panel(
        "Each life",
        Axis("process life"),
        Axis("change from A to B (%)"),
        (Line("a life", points, LOOKS[0], "points"), *margins),
    )
    several = len(record.levels) > 1
    name = f"lives-{level.clients}" if several else "lives"
    at = f", {count_text(level.clients, 'client')}" if several else ""
    if not level.looks:
        return Figure(name, f"Change in each life{at}", _method(record, drawn=bool(margins)), (by_life,))
    looks = {
        "change": [look.change_percent for look in level.looks],
        "lower end": [look.low_percent for look in level.looks],
        "upper end": [look.high_percent for look in level.looks],
    }
    lines = tuple(
        Line(
            label,
            tuple(Mark(float(look.lives), end) for look, end in zip(level.looks, ends, strict=True)),
            LOOKS[1],
            "line" if label == "change" else "dotted",
        )
        for label, ends in looks.items()
    )
    by_look = Panel("Each look", Axis("process lives so far"), Axis("change from A to B (%)"), (*lines, *margins))
    method = f"{_method(record, drawn=bool(margins))} Dotted: the {percent} interval at each look."
    return Figure(name, f"Change in each life and at each look{at}", method, (by_life, by_look))


def _pieces_figure(lives: Sequence[LifeRecord], metric: Metric, clients: int) -> Figure:
    unit, scale = _UNITS.get(metric, _MICROSECONDS)
    panels = []
    for title, life in {"The first life": lives[0], "The last life": lives[-1]}.items():
        lines = []
        for place, side in enumerate(("A", "B")):
            marks = tuple(
                Mark(piece.begun_ns / 1e9, scale * value_of(piece, metric), note=f"pair {piece.pair}")
                for piece in life.pieces
                if piece.side == side and piece.clients == clients and has_value(piece, metric)
            )
            lines.append(Line(side, marks, LOOKS[place], "points"))
        panels.append(
            Panel(title, Axis("time since its start (s)"), Axis(f"{METRIC_WORDS[metric]} ({unit})"), tuple(lines))
        )
    method = (
        f"Each mark is a piece of load of {count_text(clients, 'client')} on one side. The first pair of a life is its warm-up and "
        "does not count."
    )
    return Figure("pieces", "Pieces in turn", method, tuple(panels[: len(lives)]))


def _metrics_table(record: ComparisonRecord, level: LevelRecord, lives: Sequence[LifeRecord], percent: str) -> Table:
    plan, looks = SequentialPlan(error=record.error), tuple(Look(one.lives, one.used) for one in level.looks)
    rows: list[tuple[Entry, ...]] = []
    for metric in Metric:
        try:
            values = life_values([pairs_of(life, metric, level.clients) for life in lives])
            sides = [_median(lives, side, metric, level.clients) for side in ("A", "B")]
        except RecordError:
            continue  # no proxy, or too few requests for a percentile
        unit, scale = _UNITS.get(metric, _MICROSECONDS)
        change: Entry = "no look yet"
        if looks and looks[-1].n == len(values):
            interval = repeated_interval(values, looks, plan)
            low, mid, high = (100.0 * math.expm1(end) for end in (interval.low, interval.mean, interval.high))
            change = Value(mid, low, high, digits=2, signed=True)
        shown = [Value(scale * side, digits=0 if scale == 1.0 else 2) for side in sides]
        rows.append((f"{METRIC_WORDS[metric]} ({unit})", *shown, change))
    return Table(
        f"metrics-{level.clients}",
        f"{count_text(level.clients, 'client')}: the median piece of each side, and the change in percent with its {percent} interval. The "
        f"verdict is on the {METRIC_WORDS[Metric(record.metric)]}; the others tell why, each with the error rate of its own interval.",
        ("metric", "A", "B", "change (%)"),
        tuple(rows),
    )


def _median(lives: Sequence[LifeRecord], side: str, metric: Metric, clients: int) -> float:
    found = [
        value_of(piece, metric)
        for life in lives
        for piece in life.pieces
        if piece.side == side and piece.clients == clients and piece.pair > 0 and has_value(piece, metric)
    ]
    if not found:
        raise RecordError(f"{side} answered nothing with {count_text(clients, 'client')}. Look what stands still.")
    return statistics.median(found)


def _design(record: ComparisonRecord) -> tuple[tuple[str, str], ...]:
    limits = [f"{significant(record.budget_s)} s"] if record.budget_s is not None else []
    limits += [lives_text(record.lives_max)] if record.lives_max is not None else []
    cores = "; ".join(f"{role} {', '.join(map(str, cores))}" for role, cores in record.cores.items() if cores)
    return (
        ("budget", " or ".join(limits)),
        (
            "life",
            f"{record.pairs} pairs of pieces of {1000.0 * record.piece_s:g} ms, each behind {1000.0 * record.warmup_s:g} ms of warm-up",
        ),
        ("load", " ".join(record.load)),
        ("memcached servers", str(record.servers)),
        ("cores", cores or "not pinned"),
        ("seed", str(record.seed)),
    )


def _facts(record: ComparisonRecord) -> tuple[tuple[str, str], ...]:
    found = [(name.replace("_", " "), str(value)) for name, value in record.machine.items()]
    for name, side in record.sides.items():
        found.append((name, " ".join(side.argv) or side.asked))
        found += [(f"SHA-256 of {program}", digest) for program, digest in side.programs.items()]
    return tuple(dict(found).items())


def _about_yardstick(record: ComparisonRecord, lives: Sequence[LifeRecord], metric: Metric) -> str:
    slopes = [slope_on_slowness([pairs_of(life, metric, level.clients) for life in lives]) for level in record.levels]
    if not any(slopes):
        return "The yardstick (a fixed piece of work, timed between pieces) explained nothing, and is not used."
    by = " and ".join(f"{signed_percent(slope)} %" for slope in slopes if slope)
    return (
        "The yardstick (a fixed piece of work, timed between pieces) is taken out: where it takes 1 % longer, a piece's value changes by "
        f"{by}."
    )


def _method(record: ComparisonRecord, *, drawn: bool) -> str:
    levels = f" Level lines: the margins of {significant(record.same_within_percent)} %." if drawn else ""
    return f"A life's value is the mean of its {record.pairs} pairs' log ratios without the fifth (one at least) at either end.{levels}"
