"""Stability over time: throughput, response time and its spread per window, with drift, spread, the interactive law, and spikes.

And what of the machine throughput goes with, second by second.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.records.formats import STAGES
from weir_lab.records.windows import Window, windows_of_run
from weir_lab.report.common import Task, figure, with_tables
from weir_lab.report.numbers.comparing import outside_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.stats import change_along, coincidences, find_spikes, mser5, spike_reach, together
from weir_lab.theory.stats.spikes import FACTOR, LEAST, REACH
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.stats import Spike, Together

__all__ = [
    "CANNOT_TELL",
    "DRIFTS",
    "PARTS",
    "STABLE",
    "STABLE_PERCENT",
    "WARMUP_MAX",
    "Spikes",
    "Steadiness",
    "build",
    "conclusions",
    "goes_with",
    "spikes_of",
    "steadiness",
    "summary",
]

STABLE, DRIFTS, CANNOT_TELL = "stable", "drifts", "cannot tell"
STABLE_PERCENT = 5.0
"""The largest change over a trace that is called none: the studies' own rule for the precision of a mean."""

WARMUP_MAX = 0.1
"""The largest share of a trace that counts as its warm-up. Where MSER-5 would cut more, it sees a drift, and nothing is cut."""

PARTS = 30
"""Into how many a trace is cut for its change and the law: enough to see whether neighbours are alike, each much longer than a request."""

# More windows than this are merged for the drawing; the numbers are those of all.
_DRAWN = 240
# The shortest series that MSER-5 takes.
_MSER_LEAST = 50
# Parts whose means spread by this many times what windows without memory would give are no chance.
_WANDERS = 2.0
# What a spike is held against, and from when on that is called unusual. Steal and other processes are shares of all cores' time, a quota is
# the share of the second for which it held a machine, and slow cores took so much longer for the yardstick.
_CAUSES = {"steal": 0.02, "other processes": 0.05, "quota": 0.05, "slow cores": 0.15}
_CAUSE_WORDS = {
    "steal": "the time that the virtual machine was not given",
    "other processes": "the time of other processes",
    "quota": "the time for which a CPU quota held its machine",
    "slow cores": "how long the yardstick's work took",
}

# Correlations with the machine's seconds: shifts by a minute or more are chance. What explains a quarter of the variance, and correlates
# twice as much as at any of these shifts, is said to go with throughput.
_SHIFT_S = 60
_EXPLAINS = 0.25
_TIMES_CHANCE = 2.0


@dataclass(frozen=True)
class Steadiness:
    """A run over time: its windows, their coefficient of variation, its drift, and the law.

    ``drift_percent`` is the change along a straight line through the means of its parts, from the first to the last, with its 95 %
    interval (`change_along`: parts that are alike count as fewer) of so much ``freedom``. ``lag1``: how neighbouring parts correlate.
    """

    windows: tuple[Window, ...]
    cv_percent: float
    drift_percent: float
    low_percent: float
    high_percent: float
    lag1: float
    law_percent: float
    freedom: float = 1.0
    cut: int = 0
    """Windows at the start that are warm-up (`WARMUP_MAX`): drawn, and left out of spread and drift."""
    part_s: float = 0.0
    """How long its parts are."""
    lowest_percent: float = 0.0
    highest_percent: float = 0.0
    """The means of its parts, against that of all: the smallest and the largest."""
    parts_cv_percent: float = 0.0
    """How the means of its parts spread."""
    by_chance_percent: float = 0.0
    """How they would spread if windows did not depend on each other."""

    @property
    def wanders(self) -> bool:
        """Whether the means of parts spread by far more than those of windows without memory."""
        wide = self.highest_percent - self.lowest_percent > STABLE_PERCENT
        return wide and self.parts_cv_percent > _WANDERS * self.by_chance_percent

    @property
    def off_text(self) -> str:
        """How far the means of its parts are off: ``−17 to +16``."""
        ends = (self.lowest_percent, self.highest_percent)
        return " to ".join(Value(one, digits=0, signed=True).text for one in ends)

    @property
    def wandering_text(self) -> str:
        """``means of 120 s lie −17 to +16 % off its mean; they spread by 8.1 %, and would by 2.4 % if …``."""
        return (
            f"means of {self.part_s:g} s lie {self.off_text} % off its mean; they spread by {number(self.parts_cv_percent, 1)} %, and "
            f"would by {number(self.by_chance_percent, 1)} % if windows did not depend on each other"
        )

    def verdict(self, margin_percent: float = STABLE_PERCENT) -> str:
        """`STABLE` where the interval lies within the margin, `DRIFTS` where it lies outside, `CANNOT_TELL` otherwise."""
        if -margin_percent <= self.low_percent and self.high_percent <= margin_percent:
            return STABLE
        return DRIFTS if self.low_percent > margin_percent or self.high_percent < -margin_percent else CANNOT_TELL


@dataclass(frozen=True)
class Spikes:
    """Spikes of a run by rule (`find_spikes`), and what else was unusual then, a list of causes for each.

    They come in bursts: ``bursts`` counts those as one that are less than `REACH` windows apart.
    """

    sizes: tuple[float, ...]
    causes: tuple[tuple[str, ...], ...]
    per_hour: float
    watched: bool
    """Whether the machine was looked at second by second."""
    bursts: int
    reach: float = LEAST
    """From how far off the local median on a window is one, as a share of that."""

    def with_cause(self, name: str) -> int:
        """Spikes in which this was unusual."""
        return sum(name in causes for causes in self.causes)

    @property
    def kinds_text(self) -> str:
        """``2 up and 3 down; unusual in that second or beside it: quota in 4, other processes in 2, and nothing in 1``."""
        if not self.sizes:
            return "none"
        up = sum(size > 0.0 for size in self.sizes)
        ways = listed([f"{count} {way}" for count, way in ((up, "up"), (len(self.sizes) - up, "down")) if count])
        if not self.watched:
            return ways
        counted = {name: count for name in _CAUSES if (count := self.with_cause(name))}
        if not counted:
            return f"{ways}; nothing that was recorded was unusual in that second or beside it"
        parts = [f"{name} in {count}" for name, count in sorted(counted.items(), key=lambda one: -one[1])]
        rest = f", and nothing in {self.open}" if self.open else ""
        return f"{ways}; unusual in that second or beside it: {', '.join(parts)}{rest}"

    @property
    def open(self) -> int:
        """Spikes in which nothing that was recorded was unusual."""
        return sum(not causes for causes in self.causes)


def build(task: Task) -> list[Block]:
    """A figure per file and width of windows: throughput, mean and standard deviation over time. A table of spikes."""
    figures: list[Block | None] = []
    rows: list[tuple[Entry, ...]] = []
    spikes: list[tuple[Entry, ...]] = []
    alike_rows: list[tuple[Entry, ...]] = []
    points: list[tuple[str, str]] = []
    for sweep, cell, width_s in _drawn(task):
        found = steadiness(cell.runs[0], width_s)
        if found is None:
            continue
        run, name = cell.runs[0], _name(sweep, width_s)
        figures.append(_figure(task, sweep, found, width_s))
        rows.append(
                (
                    name, Value(len(found.windows)), Value(found.cut), Value(run.throughput, digits=0), Value(1e3 * run.response_s),
                    _deviation(run), _over_mean(run), Value(found.cv_percent, digits=1), Value(found.drift_percent, digits=2, signed=True),
                    _end(found.low_percent), _end(found.high_percent),
                    Value(found.lag1, digits=2), Value(found.law_percent, digits=2, signed=True), found.verdict(),
                )
            )  # fmt: skip
        points.append(_point(name, found, run, again=width_s != sweep.study.plan.window_s))
        seen = spikes_of(run, found)
        if seen is not None:
            spikes.append(_spike_row(name, seen))
            points.append(_spike_point(name, seen))
        alike = goes_with(run, found) if width_s == 1 else {}
        if alike:
            alike_rows.append((name, *(_alike_entry(alike, cause) for cause in _CAUSES)))
            points += _alike_point(name, alike, _held_most(run))
    if not rows:
        return [Text("No run is long enough for windows.")]
    table = Table(
        f"{task.spec.name}-steadiness",
        "Spread: coefficient of variation of throughput between windows. Drift: its change from the beginning to the end, with the 95 % "
        f"interval; stable where that lies within ±{STABLE_PERCENT:g} %, drifts where it lies outside.{_again_text(task)}",
        (
            "Trace",
            "Windows",
            "Warm-up",
            "X (requests/s)",
            "R (ms)",
            "SD of requests (ms)",
            "SD over R",
            "Spread (%)",
            "Drift (%)",
            "from",
            "to",
            "Lag 1",
            "Law (%)",
            "Verdict",
        ),
        tuple(rows),
    )
    tables = [table, *([_spike_table(task, spikes)] if spikes else [])]
    if alike_rows:
        tables.append(_together_table(task, alike_rows))
    tables += _parts_tables(task)
    said = Text("What the data say:", tuple(one for one, _ in points), leads=tuple(lead for _, lead in points))
    # The note stands behind the table that it explains.
    return [said, table, _READING, *with_tables([*tables[1:], *figures])]


_READING = Text(
    "How to read the table of traces. SD: standard deviation of the response times of single requests; over R, as a multiple of their "
    f"mean. Drift: change along a straight line through the means of {PARTS} parts (fewer of a short trace), from the first to the last. "
    "Lag 1: correlation of neighbouring parts, which count as fewer where they are alike. Law: deviation from the interactive law. "
    f"Warm-up: windows at the start that MSER-5 cuts before, at most {100 * WARMUP_MAX:g} % of a trace; where it would cut more, "
    "nothing is cut.",
    note=True,
)


def _parts_tables(task: Task) -> list[Table]:
    """What a request's time is made of in each trace through a proxy, of which the paragraph of what limits speaks."""
    rows: list[tuple[Entry, ...]] = []
    for sweep in task.sweeps:
        for cell in sweep.cells:
            run = cell.runs[0]
            stages, outside = run.stages_s(), outside_of(run)
            if stages is not None and outside is not None:
                times = (run.response_s, *(stages[stage] for stage in STAGES), outside)
                rows.append((sweep.study.name, *(Value(1e3 * one, digits=2) for one in times)))
    if not rows:
        return []
    return [
        Table(
            f"{task.spec.name}-parts",
            "What the mean response time of a trace is made of: the stages of the proxy, and what is outside of it.",
            ("Trace", "R (ms)", *(f"{stage.capitalize()} (ms)" for stage in STAGES), "Outside (ms)"),
            tuple(rows),
        )
    ]


def _again_text(task: Task) -> str:
    """That a run stands in windows of another width, too."""
    again = {
        sweep.study.name: f"{_name(sweep, width_s)} is the run of {sweep.study.name} in windows of {width_s} s"
        for sweep, _, width_s in _drawn(task)
        if width_s != sweep.study.plan.window_s
    }
    return f" {'; '.join(again.values())}." if again else ""


_SAID = {STABLE: "is stable", DRIFTS: "is not stable", CANNOT_TELL: "may be stable or not"}


def summary(task: Task) -> str:
    """Which traces are stable."""
    verdicts = []
    for sweep in task.sweeps:
        for cell in sweep.cells:
            found = steadiness(cell.runs[0], _widths(task, sweep)[0])
            if found is not None:
                spread = f"spread {number(found.cv_percent, 1)} %"
                if found.wanders:
                    spread += f", means of {found.part_s:g} s {found.off_text} % off the mean"
                verdicts.append(f"{sweep.study.name} {_SAID[found.verdict()]} ({spread})")
    return f"{task.spec.title}: {'; '.join(verdicts) or 'no run is long enough'}."


def steadiness(run: Reading, width_s: int) -> Steadiness | None:
    """How a run went over time; ``None`` with fewer than six windows."""
    windows = windows_of_run(run.run.folder, run.load, width_s)
    if len(windows) < 6:
        return None
    every = np.array([window.throughput_rps for window in windows])
    cut = _warmup(every)
    rates = every[cut:]
    count = min(PARTS, len(rates) // 2)
    length = len(rates) // count
    parts = 100.0 * rates[: count * length].reshape(count, length).mean(axis=1) / rates.mean()
    drift = change_along(parts)
    spread = 100.0 * float(rates.std(ddof=1) / rates.mean())
    ends = (drift.value - drift.half_width(), drift.value + drift.half_width())
    law = 100.0 * run.law_deviation
    return Steadiness(
        tuple(windows),
        spread,
        drift.value,
        *ends,
        drift.lag1,
        law,
        drift.freedom,
        cut,
        part_s=length * width_s,
        lowest_percent=float(parts.min()) - 100.0,
        highest_percent=float(parts.max()) - 100.0,
        parts_cv_percent=float(parts.std(ddof=1)),
        by_chance_percent=spread / math.sqrt(length),
    )


def _warmup(rates: NDArray[np.float64]) -> int:
    """Windows to leave out at the start, by MSER-5; none in a trace too short for it."""
    if rates.size < _MSER_LEAST:
        return 0
    found = mser5(rates)
    return found.delete if found.stationary and found.delete <= WARMUP_MAX * rates.size else 0


def spikes_of(run: Reading, found: Steadiness) -> Spikes | None:
    """Spikes of its throughput; ``None`` where it is too short for a local median."""
    windows = found.windows
    if len(windows) < _DRAWN:
        return None
    spikes = find_spikes([window.throughput_rps for window in windows])
    columns = _causes(run, windows)
    hours = sum(window.length_s for window in windows) / 3600.0
    return Spikes(
        tuple(spike.size for spike in spikes),
        tuple(map(tuple, coincidences(spikes, columns, _CAUSES))),
        len(spikes) / hours,
        bool(columns),
        _bursts(spikes),
        spike_reach([window.throughput_rps for window in windows]),
    )


def _bursts(spikes: Sequence[Spike]) -> int:
    """Spikes, but those that begin less than `REACH` windows after the end of another."""
    apart = [second.first - first.first - first.count for first, second in itertools.pairwise(spikes)]
    return sum(one >= REACH for one in apart) + 1 if spikes else 0


def _causes(run: Reading, windows: Sequence[Window]) -> dict[str, list[float]]:
    """What the machine did in the second in which the middle of each window lies, by the clock of both."""
    seconds = run.run.seconds
    if seconds is None or not seconds.length_us:
        return {}
    ahead_s = (run.load.measured.start_unix_ns - seconds.start_unix_ns) / 1e9
    # The lab begins to look a little after the load is measured: of two seconds the one that has more of the window.
    middles = [ahead_s + window.start_s + window.length_s / 2.0 for window in windows]
    places = np.clip(np.searchsorted(seconds.starts_s, middles, side="right") - 1, 0, len(seconds.length_us) - 1)
    length = np.maximum(1.0, np.array(seconds.length_us, dtype=float))
    whole = length * seconds.cores
    pieces = np.array(seconds.piece_ns, dtype=float)
    usual = float(np.median(pieces[pieces > 0.0])) if np.any(pieces > 0.0) else 1.0
    columns = {
        "steal": np.array(seconds.steal_us) / whole,
        "other processes": np.array(seconds.others_us) / whole,
        "slow cores": np.where(pieces > 0.0, pieces / usual - 1.0, 0.0),
    }
    if seconds.stalled_us:
        columns["quota"] = np.max(np.array(list(seconds.stalled_us.values()), dtype=float), axis=0) / length
    return {name: column[places].tolist() for name, column in columns.items()}


def _spike_row(name: str, seen: Spikes) -> tuple[Entry, ...]:
    worst = 100.0 * max(seen.sizes, key=abs, default=0.0)
    middle = 100.0 * float(np.median(np.abs(seen.sizes))) if seen.sizes else 0.0
    counts = [Value(seen.with_cause(cause)) if seen.watched else "not known" for cause in _CAUSES]
    return (
        name,
        Value(len(seen.sizes)),
        Value(seen.bursts),
        Value(seen.per_hour, digits=1),
        Value(100.0 * seen.reach, digits=0),
        Value(middle, digits=0),
        Value(worst, digits=0, signed=True),
        *counts,
        Value(seen.open) if seen.watched else "not known",
    )


def _spike_table(task: Task, rows: Sequence[tuple[Entry, ...]]) -> Table:
    return Table(
        f"{task.spec.name}-spikes",
        f"Spikes: neighbouring windows whose throughput is further from the median of the minute around them than {FACTOR:g} robust "
        f"standard deviations and {100 * LEAST:g} % (from: how far that is here). Then in how many of them something of the machine "
        "was unusual in that second, the one before or the one behind: larger than in 99 % of the seconds without a spike. By chance that "
        f"is so in some 3 % for each cause, 1 % for each of three seconds. Spikes less than {REACH} windows apart are one burst.",
        (
            "Trace",
            "Spikes",
            "Bursts",
            "Spikes per hour",
            "From (%)",
            "Median size (%)",
            "Largest (%)",
            *(f"With {cause}" for cause in _CAUSES),
            "Left open",
        ),
        tuple(rows),
    )


def _spike_point(name: str, seen: Spikes) -> tuple[str, str]:
    """How many there are, with what was unusual then, and how much of it a page shows."""
    if not seen.sizes:
        return (f"{name} has no spike.",) * 2
    lead = f"{name} has {count_text(len(seen.sizes), 'spike')}, {number(seen.per_hour, 1)} an hour."
    return f"{lead} By kind: {seen.kinds_text}.", lead


def goes_with(run: Reading, found: Steadiness) -> dict[str, Together | None]:
    """Throughput of windows of a second against each thing of the machine in the same second; ``None`` for what never changed.

    Warm-up is left out, and so is what was not recorded.
    """
    windows = found.windows[found.cut :]
    rates = [window.throughput_rps for window in windows]
    return {name: together(rates, column, _SHIFT_S) for name, column in _causes(run, windows).items()}


def _goes(one: Together) -> bool:
    return one.explained >= _EXPLAINS and abs(one.correlation) >= _TIMES_CHANCE * abs(one.shifted)


def _alike_entry(alike: Mapping[str, Together | None], cause: str) -> Entry:
    if cause not in alike:
        return "not recorded"
    found = alike[cause]
    return _alike_text(found) if found is not None else "never changed"


def _alike_text(one: Together) -> str:
    """The correlation, and behind it that by chance: ``−0.99 (+0.12)``."""
    values = (Value(value, digits=2, signed=True).text for value in (one.correlation, one.shifted))
    return "{} ({})".format(*values)


def _held_most(run: Reading) -> str:
    """The machine that its CPU quota held for more than half of all such time; empty where there is none."""
    stalled = run.run.seconds.stalled_us if run.run.seconds is not None else {}
    held = {machine: sum(column) for machine, column in stalled.items()}
    return next((machine for machine, us in held.items() if 2 * us > sum(held.values())), "")


def _alike_point(name: str, alike: Mapping[str, Together | None], held: str = "") -> list[tuple[str, str]]:
    """What explains most of it, if anything does, and how much of it a page shows; ``held`` is the machine that its quota held most."""
    going = {cause: one for cause, one in alike.items() if one is not None and _goes(one)}
    if not going:
        return []
    ordered = sorted(going.items(), key=lambda pair: -pair[1].explained)
    mostly = {"quota": f" (mostly {held})"} if held else {}
    causes = listed([f"{_CAUSE_WORDS[cause]}{mostly.get(cause, '')}" for cause, _ in ordered])
    lead = f"Second by second, throughput of {name} goes with {causes}."
    behind = (
        f"The correlation is {listed([_alike_text(one) for _, one in ordered])}; in parentheses the one furthest from 0 at shifts of a "
        "minute or more, which is chance."
    )
    return [(f"{lead} {behind}", lead)]


def _together_table(task: Task, rows: Sequence[tuple[Entry, ...]]) -> Table:
    return Table(
        f"{task.spec.name}-together",
        "What throughput goes with, second by second: its correlation with what the machine did in the same second, from −1 to +1, "
        f"and in parentheses the one furthest from 0 when seconds are shifted by {_SHIFT_S} s or more, which is chance. The quota is that "
        "which held its machine longest. It does not say which is the cause.",
        ("Trace", *_CAUSES),
        tuple(rows),
    )


def _widths(task: Task, sweep: SweepReadings) -> list[int]:
    """Widths of windows, in seconds: those of the section, else the study's own."""
    return task.spec.windows_s or [sweep.study.plan.window_s]


def _drawn(task: Task) -> Iterator[tuple[SweepReadings, CellReadings, int]]:
    for sweep in (*task.sweeps, *task.beside):
        for width_s in _widths(task, sweep):
            yield from ((sweep, cell, width_s) for cell in sweep.cells)


def _name(sweep: SweepReadings, width_s: int) -> str:
    """Of a trace; its width is named where it is not the study's own."""
    return sweep.study.name + (f"-{width_s}s" if width_s != sweep.study.plan.window_s else "")


def _deviation(run: Reading) -> Entry:
    """The standard deviation of the response times of all requests, of all generators together."""
    found = run.times.standard_deviation() if run.times is not None else None
    return Value(found / 1e6) if found is not None else "–"


def _over_mean(run: Reading) -> Entry:
    """That deviation over the mean of the same requests."""
    found = run.times.standard_deviation() if run.times is not None else None
    return Value(found / 1e9 / run.response_s, digits=2) if found is not None else "–"


def _end(percent: float) -> Entry:
    """An end of the interval of a change; none is known where parts are too much alike."""
    return Value(percent, digits=2, signed=True) if math.isfinite(percent) else "–"


def _point(name: str, found: Steadiness, run: Reading, *, again: bool = False) -> tuple[str, str]:
    """What is said of a trace, and how much of it a page shows: of windows of another width, ``again``, the verdict alone."""
    change = Value(found.drift_percent, digits=2, signed=True).text
    ends = [
        Value(one, digits=2, signed=True).text for one in (found.low_percent, found.high_percent) if math.isfinite(one)
    ]
    interval = f"({' to '.join(ends)})" if ends else "(its parts are too much alike for an interval)"
    verdict = f"{name} {_SAID[found.verdict()]} within {STABLE_PERCENT:g} %:"
    lead = f"{verdict} from its beginning to its end throughput changes by {change} % {interval}."
    wanders = f" It wanders: {found.wandering_text}." if found.wanders else ""
    ratio = _over_mean(run)
    deviates = (
        f" The standard deviation of its requests is {ratio.text} times their mean." if isinstance(ratio, Value) else ""
    )
    whole = (
        f"{lead} Windows spread by {number(found.cv_percent, 1)} %.{wanders} The response time is "
        f"{Value(found.law_percent, digits=2, signed=True).text} % off N / X.{deviates}"
    )
    return whole, verdict if again else lead


def _figure(task: Task, sweep: SweepReadings, found: Steadiness, width_s: int) -> Figure | None:
    windows = found.windows
    step = -(-len(windows) // _DRAWN)
    groups = [windows[index : index + step] for index in range(0, len(windows), step)]
    rate = tuple(_merged(group, [one.throughput_rps for one in group]) for group in groups)
    rates = [Line("throughput", rate, LOOKS[0], "plain")]
    timed = [(group, [one.mean_ns / 1e6 for one in group if one.mean_ns is not None]) for group in groups]
    mean = tuple(_merged(group, values) for group, values in timed if values)
    lines = [Line("mean response time", mean, LOOKS[1], "plain")]
    if step > 1:
        rates.insert(0, Line("from the smallest window to the largest", rate, LOOKS[0], "band"))
        lines.insert(0, Line("from the smallest window to the largest", mean, LOOKS[1], "band"))
    spread = tuple(
        Mark(one.start_s, one.mean_ns / 1e6, max(0.0, one.mean_ns - one.sd_ns) / 1e6, (one.mean_ns + one.sd_ns) / 1e6)
        for one in windows
        if one.mean_ns is not None and one.sd_ns is not None
    )
    if spread and step > 1:
        inside = [(group, [one.sd_ns / 1e6 for one in group if one.sd_ns is not None]) for group in groups]
        marks = tuple(_merged(group, values) for group, values in inside if values)
        lines.append(Line("standard deviation inside a window", marks, LOOKS[2], "plain"))
    if spread and step == 1:
        lines.insert(0, Line("mean ± one standard deviation inside the window", spread, LOOKS[1], "band"))
    panels = [
        Panel("throughput", Axis("Time (s)"), Axis("Throughput (requests/s)"), tuple(rates)),
        Panel("response time", Axis("Time (s)"), Axis("Response time (ms)"), tuple(lines)),
    ]
    text = (
        f"One run, windows of {width_s} s"
        + (f", each point the mean of {step}, the band their smallest and largest" if step > 1 else "")
        + "; windows of one run are correlated, so they have no intervals."
        + (_whose_deviation(sweep.cells[0].runs[0].settings.generators) if spread else "")
    )
    name = _name(sweep, width_s).removeprefix(f"{task.label.lower()}-")
    title = sweep.study.title.replace(f"windows of {sweep.study.plan.window_s} s", f"windows of {width_s} s")
    return figure(task, name, title, panels, text, [sweep])


def _whose_deviation(generators: int) -> str:
    if generators == 1:
        return " The deviation inside a window is that of all requests."
    return (
        " The deviation inside a window is that of the requests of the first of "
        f"{count_text(generators, 'load generator')}: of the others records keep none."
    )


def _merged(group: Sequence[Window], values: Sequence[float]) -> Mark:
    """The mean of neighbouring windows, and their extremes: a spike of one window stays to be seen."""
    return Mark(group[0].start_s, sum(values) / len(values), min(values), max(values))


def conclusions(task: Task) -> dict[str, str]:
    """Stable or not, per trace."""
    return {
        f"trace {sweep.study.name}": found.verdict()
        for sweep in task.sweeps
        for cell in sweep.cells
        if (found := steadiness(cell.runs[0], _widths(task, sweep)[0])) is not None
    }
