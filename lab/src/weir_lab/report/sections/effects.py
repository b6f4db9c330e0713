"""2^k r designs: effects with intervals, allocation of variation, residuals, beside what the study printed and what is right of it.

Sums of squares are those of `theory.factorial`: 2^k r q² of a term, what blocks have in common, and the rest. Every cell of a design has
the same number of runs, so a term's is the same whichever terms come before it, and they add up to that around the mean (`adds_up`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri, stdtr

from weir_lab.report.common import Task, cell_words, figure, level_words, with_tables
from weir_lab.report.numbers.sweeps import PROXY_TIME, RESPONSE_TIME, TwoLevelDesign, two_level_designs
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Figure, Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.report.sections.comparisons.corners import Corners, corner_blocks
from weir_lab.theory.factorial import ErrorOf
from weir_lab.theory.linear import Estimate
from weir_lab.theory.stats import FALSE_DISCOVERIES, benjamini_hochberg
from weir_lab.theory.units import number, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from weir_lab.design import Level
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.theory.factorial import Effect, FactorialAnalysis

__all__ = [
    "Unequal",
    "adds_up",
    "build",
    "conclusions",
    "designs_of",
    "estimates_of",
    "from_cell_means",
    "outlying",
    "summary",
    "unequal_spread",
]

# With this probability one run or more is called an outlier where all are alike.
_OUTLIER_LEVEL = 0.05
# An effect with less of the variation matters to nobody, however surely it is there.
_NEGLIGIBLE_PERCENT = 1.0
# A sentence names no more shares. A table shows those of all terms, up to three factors, and of more factors the interactions together.
_NAMED_MAX, _TERMS_MAX = 3, 7
_TOGETHER = "interactions"
# What follows from unequal spreads, by what intervals of effects rest on.
_NOISE = {
    ErrorOf.POOLED: "effects share the noise of the widest cells",
    ErrorOf.BLOCKS: "each effect has the error of its own values block by block",
    ErrorOf.CELLS: "each effect has the error of its cells' own spreads, with fewer degrees of freedom",
}
# From here on sentences say a time in ms.
_MS_IN_US = 1000.0
# Spreads are called unequal at this level, and from this ratio of standard deviations on.
_SPREAD_LEVEL, _SPREAD_MIN = 0.01, 3.0

# A total of this size or more is shown in millions, and all sums beside it with the digits that give it this many behind its first.
_SQUARES_MAX, _SQUARES_DIGITS = 1e7, 5
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# S3 and S5 analysed what their middlewares saw, as the raw values that they printed show: shares are held against those of the same time.
_ELSEWHERE = {
    RESPONSE_TIME: " The study took its response times in the middlewares; ours are the clients', which in a closed loop follow from "
    "throughput. So shares of the two need not agree.",
    PROXY_TIME: " By the stamps of the proxies, which is where the study took its response times.",
}

# Names in the printed tables -> settings.
_FACTORS = {"memcached servers": "servers", "middlewares": "proxies", "worker threads per middleware": "workers"}


def build(task: Task) -> list[Block]:
    """The shares of all workloads and responses, then the cells, and for each response the table of effects and its residuals."""
    shown = _discoveries(task.first)
    found = designs_of(task.first)
    blocks: list[Block] = [
        Text(f"{workload.capitalize()}: no 2^k r table, because {reason}.")
        for workload, designs, reason in found
        if not designs
    ]
    designed = [(workload, designs) for workload, designs, _ in found if designs]
    if not designed:
        return blocks
    said = _shares_text(designed)
    blocks += [
        Text(f"{said[0].upper()}{said[1:]}."),
        _shares(task, designed, shown),
        *corner_blocks(
            task, [Corners(workload, _cells_of(task.first, workload), designs[0]) for workload, designs in designed]
        ),
        Text("Residuals", _residual_texts(designed), folded=True),
        # How to read the tables of effects is said once, directly before the first of them.
        Text(_reading_text([one for _, designs in designed for one in designs]), note=True),
    ]
    for workload, designs in designed:
        for design in designs:
            blocks.append(_table(task, workload, design, designs, shown))
            residuals = _residuals(task, workload, design)
            if residuals is not None:
                blocks += with_tables([residuals])
            blocks += _outliers(task, workload, design)
            blocks.append(_cells(task, workload, design))
    return blocks


def summary(task: Task) -> str:
    """The largest shares of the variation of throughput, for each workload."""
    designed = [(workload, designs) for workload, designs, _ in designs_of(task.first) if designs]
    return f"{task.spec.title}: {_shares_text(designed) if designed else 'no table could be made'}."


def _discoveries(sweep: SweepReadings) -> set[tuple[str, str, str]]:
    """Workload, response and term of each effect that is shown, with a false discovery rate of 5 % over all tables of the sweep."""
    names, p_values = [], []
    for workload, designs, _ in designs_of(sweep):
        for design in designs:
            for term, effect in estimates_of(design.read).items():
                names.append((workload, design.response, term))
                p_values.append(_p_of(effect))
    adjusted = benjamini_hochberg(p_values)
    return {name for name, q in zip(names, adjusted, strict=True) if q <= FALSE_DISCOVERIES}


def estimates_of(read: FactorialAnalysis) -> dict[str, Estimate]:
    """Each term's effect with its error; empty with one run per cell."""
    found = {}
    for effect in read.effects:
        interval = effect.interval
        if interval is not None and effect.term != "I":
            found[effect.term] = Estimate(effect.effect, interval.standard_error, interval.freedom)
    return found


def _p_of(effect: Estimate) -> float:
    """Of no effect, two-sided; effects without error are exact."""
    if effect.standard_error == 0.0:
        return float(effect.value == 0.0)
    return 2.0 * float(stdtr(effect.freedom, -abs(effect.value) / effect.standard_error))


def designs_of(sweep: SweepReadings) -> list[tuple[str, list[TwoLevelDesign], str]]:
    """One entry per level of what the study analyses apart, such as reads and writes."""
    apart = sweep.study.apart
    groups: dict[tuple[Level, ...], list[str]] = {}
    for cell in sweep.cells:
        groups.setdefault(tuple(cell.level(name) for name in apart), []).append(cell.cell.name)
    found = []
    for levels, names in groups.items():
        observations = sweep.observations(lambda cell, names=names: cell.cell.name in names)  # type: ignore[misc]
        designs, reason = two_level_designs(observations)
        found.append((_workload(dict(zip(apart, levels, strict=True))), designs, reason))
    return found


def _cells_of(sweep: SweepReadings, workload: str) -> list[CellReadings]:
    """The cells of one workload."""
    apart = sweep.study.apart
    return [cell for cell in sweep.cells if _workload({name: cell.level(name) for name in apart}) == workload]


def _workload(levels: dict[str, Level]) -> str:
    if "write_ratio" in levels:
        return {0.0: "reads", 1.0: "writes"}.get(
            float(levels["write_ratio"]), f"{100 * float(levels['write_ratio']):g} % writes"
        )
    return ", ".join(f"{name} {level}" for name, level in levels.items()) or "all requests"


def _terms(design: TwoLevelDesign) -> list[Effect]:
    return sorted(
        (one for one in design.read.effects if one.percent_of_variation is not None),
        key=lambda one: -(one.percent_of_variation or 0.0),
    )


def _name(design: TwoLevelDesign) -> str:
    """The response, and the scale on which its effects are read where that is not its own."""
    return f"{design.response}{', on logarithms' if design.on_logarithms else ''}"


def _shares_text(designed: Sequence[tuple[str, Sequence[TwoLevelDesign]]]) -> str:
    """``shares of the variation of throughput: servers 99.3 % (reads); proxies 47.8 %, servers 26.6 % (writes)``.

    Which of them is the largest is not said: that an effect is not 0 does not show it. A verdict does, where a sentence asks for it.
    """
    parts = []
    for workload, (design, *_) in designed:
        terms = _terms(design)[:_NAMED_MAX]
        large = [one for one in terms if (one.percent_of_variation or 0.0) >= _NEGLIGIBLE_PERCENT] or terms[:1]
        named = ", ".join(f"{design.name_of(one.term)} {number(one.percent_of_variation or 0.0, 1)} %" for one in large)
        parts.append(f"{named} ({workload}{', on logarithms' if design.on_logarithms else ''})")
    return f"shares of the variation of {designed[0][1][0].response}: {'; '.join(parts)}"


def _shares(
    task: Task, designed: Sequence[tuple[str, Sequence[TwoLevelDesign]]], shown: set[tuple[str, str, str]]
) -> Table:
    """All workloads and responses in one table: what each term explains."""
    every = [(workload, design, _percents(design)) for workload, designs in designed for design in designs]
    names = list(dict.fromkeys(name for _, _, percents in every for name in percents))
    rows: list[tuple[Entry, ...]] = []
    for workload, design, percents in every:
        weak = [
            design.name_of(one.term) for one in _terms(design) if (workload, design.response, one.term) not in shown
        ]
        rows.append(
            (
                workload,
                _name(design),
                *(Value(percents[name], digits=1) if name in percents else "–" for name in names),
                Value(design.read.percent_error, digits=2),
                ", ".join(weak) or "none",
            )
        )
    blocked = any(design.read.ss_blocks is not None for _, design, _ in every)
    return Table(
        f"{task.spec.name}-shares",
        "Shares of the variation in % that factors and interactions (×) explain. Error: explained by none"
        f"{'; missing to 100: common to blocks of runs' if blocked else ''}. Not significant: not shown to differ from 0 (false "
        f"discovery rate {100 * FALSE_DISCOVERIES:g} %).",
        ("Requests", "Response", *names, "Error", "Not significant"),
        tuple(rows),
    )


def _percents(design: TwoLevelDesign) -> dict[str, float]:
    """By name the share of each term, in the order of the factors; of many factors that of each, and of all interactions together."""
    terms = [one for one in design.read.effects if one.percent_of_variation is not None]
    whole = len(terms) <= _TERMS_MAX
    found = {design.name_of(one.term): one.percent_of_variation or 0.0 for one in terms if whole or len(one.term) == 1}
    if whole:
        return found
    return found | {_TOGETHER: math.fsum(one.percent_of_variation or 0.0 for one in terms if len(one.term) > 1)}


def _residual_texts(designed: Sequence[tuple[str, Sequence[TwoLevelDesign]]]) -> tuple[str, ...]:
    """Of each workload and response what is wrong with the residuals, and why it is read on logarithms where it is."""
    return tuple(
        f"{workload.capitalize()}, {_name(design)}: {_residual_text(design)}."
        + (f" Why logarithms: {'; '.join(design.choice.reasons)}." if design.on_logarithms else "")
        for workload, designs in designed
        for design in designs
    )


def _residual_text(design: TwoLevelDesign) -> str:
    unequal = unequal_spread(design.read)
    # Of both checks of the spread one is said; this one names the cells.
    warnings = [
        one for one in design.checks.warnings if unequal is None or not one.startswith("cells differ in spread")
    ]
    warnings += [_unequal_text(design, unequal)] if unequal is not None else []
    return "; ".join(warnings) or "the residuals show no fault"


def _letters(task: Task, design: TwoLevelDesign) -> dict[str, str]:
    """Our terms in the letters of the printed table: S5 names proxies X, servers Y and workers Z."""
    printed = {
        _FACTORS[row["factor"]]: row["letter"]
        for row in read_table("twok_r_factors")
        if row["study"] == task.label and row["factor"] in _FACTORS
    }
    order = list(printed.values())
    ours = {factor.letter: printed.get(factor.name, "") for factor in design.factors}
    found = {"I": "I"}
    for effect in design.read.effects:
        if effect.term != "I":
            letters = sorted(
                (ours[letter] for letter in effect.term), key=lambda one: order.index(one) if one in order else 9
            )
            found[effect.term] = "".join(letters)
    return found


def _printed(
    task: Task, workload: str, design: TwoLevelDesign, designs: Sequence[TwoLevelDesign]
) -> dict[str, tuple[float, float]]:
    """Percent of variation by term: as printed, and recomputed from the printed raw values.

    Printed shares of response times stand beside those of the proxies' times where these are there, and beside the clients' else.
    """
    in_proxies = any(one.response == PROXY_TIME for one in designs)
    if design.response == RESPONSE_TIME and in_proxies:
        return {}
    response = "response_time" if design.response in _ELSEWHERE else "throughput"
    key = ("read" if workload == "reads" else "write", response)
    tables = []
    for name, column in (
        ("twok_r_published_effects", "percent_of_sst"),
        ("recomputed_twok_r_effects", "percent_of_sst"),
    ):
        tables.append(
            {
                row["term"]: float(row[column])
                for row in read_table(name)
                if row["study"] == task.label
                and "repeats" not in row.get("note", "")
                and (row["workload"], row["response"].replace(" ", "_")) == key
                and row[column]
            }
        )
    # Where the study printed no raw data of its own, nothing can be held against its shares.
    return {term: (share, tables[1].get(term, share)) for term, share in tables[0].items()}


def _table(
    task: Task,
    workload: str,
    design: TwoLevelDesign,
    designs: Sequence[TwoLevelDesign],
    shown: set[tuple[str, str, str]],
) -> Table:
    additive, logs = design.choice.additive, design.choice.logarithmic
    letters, printed = _letters(task, design), _printed(task, workload, design, designs)
    squares, on_logs = _Squares.of(additive), _Squares.of(logs) if logs is not None else None
    rows: list[tuple[Entry, ...]] = []
    for place, effect in enumerate(additive.effects):
        interval = effect.interval
        other = logs.effects[place] if logs is not None else None
        share = printed.get(letters.get(effect.term, ""))
        wrong = share is not None and abs(share[0] - share[1]) > 0.06 * max(1.0, abs(share[1]))
        rows.append(
            (
                effect.term,
                design.name_of(effect.term),
                Value(effect.effect, interval.low if interval else None, interval.high if interval else None),
                *squares.entries(effect),
                ("yes" if (workload, design.response, effect.term) in shown else "no") if effect.term != "I" else "–",
                *(on_logs.entries(other) if on_logs and other else ("–", "–")),
                Value(share[0], digits=2) if share else "–",
                f"printed wrongly: {number(share[1], 2)}" if wrong and share else "",
            )
        )
    rest = squares.rest(additive)
    others = on_logs.rest(logs) if on_logs and logs is not None else {}
    rows += [("", name, "–", *two, "–", *others.get(name, ("–", "–")), "–", "") for name, two in rest.items()]
    factors = "; ".join(
        f"{one.letter} = {one.name.replace('_', ' ')} {one.low} to {one.high}" for one in design.factors
    )
    return Table(
        f"{task.spec.name}-{workload}-{design.response}".replace(" ", "-").replace("%", "percent"),
        f"{workload.capitalize()}, {design.response} ({design.unit}): 2^k r with {additive.repetitions} repetitions, {factors}. "
        f"{_blocks_text(design)}. Read: {design.choice.scale}."
        + (_ELSEWHERE.get(design.response, "") if printed else ""),
        (
            "Term",
            "Factors",
            f"Effect ({design.unit})",
            squares.heading(design.unit),
            "Share (%)",
            "Significant",
            "SS on logs",
            "Share on logs (%)",
            "Printed share (%)",
            "Known error",
        ),
        tuple(rows),
    )


@dataclass(frozen=True)
class _Squares:
    """How one fit's sums of squares are shown, so that a reader can add them up: all over 10^``power``, with the same ``digits``."""

    power: int
    digits: int

    @classmethod
    def of(cls, fit: FactorialAnalysis) -> _Squares:
        """By the total."""
        if fit.sst <= 0.0:
            return cls(0, 0)
        power = 6 * max(0, math.floor(math.log10(fit.sst / _SQUARES_MAX) / 6) + 1)
        return cls(power, max(0, _SQUARES_DIGITS - math.floor(math.log10(fit.sst) - power)))

    def heading(self, unit: str) -> str:
        """``SS (10⁶ (requests/s)²)``."""
        times = f"10{str(self.power).translate(_RAISED)} " if self.power else ""
        return f"SS ({times}{f'({unit})' if '/' in unit else unit}²)"

    def entries(self, effect: Effect) -> tuple[Entry, Entry]:
        """Sum and share of a term; the mean is no part of the variation."""
        share = effect.percent_of_variation
        return ("–", "–") if share is None else self._two(effect.sum_of_squares, share)

    def rest(self, fit: FactorialAnalysis) -> dict[str, tuple[Entry, Entry]]:
        """Of blocks where they are no error, of the error, and of all."""
        found = {} if fit.ss_blocks is None else {"blocks": self._two(fit.ss_blocks, fit.percent_blocks or 0.0)}
        found["error"] = self._two(fit.sse, fit.percent_error)
        return found | {"total": self._two(fit.sst, 100.0 if fit.sst > 0.0 else 0.0)}

    def _two(self, squares: float, share: float) -> tuple[Entry, Entry]:
        return Value(squares / 10.0**self.power, digits=self.digits), Value(share, digits=2)


def adds_up(fit: FactorialAnalysis) -> bool:
    """Whether the sums of squares of terms, blocks and error are a partition of that of the raw values around their mean."""
    parts = [one.sum_of_squares for one in fit.effects if one.term != "I"]
    around = float(((fit.observations - fit.observations.mean()) ** 2).sum())
    return math.isclose(
        math.fsum([*parts, fit.ss_blocks or 0.0, fit.sse]), around, rel_tol=1e-9, abs_tol=1e-12 * fit.ssy
    )


def _reading_text(designs: Sequence[TwoLevelDesign]) -> str:
    """What the columns of the tables of effects are."""
    fits = [fit for one in designs for fit in (one.choice.additive, one.choice.logarithmic) if fit is not None]
    kinds = (
        "In a table every cell has the same number of runs, so sequential and partial sums of squares are the same. "
    )
    kinds += (
        "They add up to the total: a partition of it. "
        if all(adds_up(fit) for fit in fits)
        else "They do not add up to the total in every table. "
    )
    return (
        "How to read the tables of effects. Effect q: half of the change from −1 to +1, with a 95 % interval for it alone. SS, sums of "
        "squares: of a term q² times the number of runs; of blocks what the runs of each have in common; of the error (SSE) what is left; "
        f"in total (SST) that of all runs around their mean. {kinds}Share: SS over SST, the part of the variation (importance). On logs: "
        "the same of the model in which factors multiply. Significant, exploratory: an effect on the scale that is read, with a false "
        f"discovery rate of {100 * FALSE_DISCOVERIES:g} % over all tables of the section. Shares of the variation: a term that is not "
        f"called not significant is shown to differ from 0, and below {_NEGLIGIBLE_PERCENT:g} % it matters little all the same. Which "
        "share is the largest, a verdict says where a sentence asks for it."
    )


def _blocks_text(design: TwoLevelDesign) -> str:
    if design.whole:
        return "Blocks are not in the error"
    return "Its runs are from blocks that not all cells have; what blocks differ by is in the error"


def _cells(task: Task, workload: str, design: TwoLevelDesign) -> Table:
    fit = design.choice.additive
    names = [factor.words for factor in design.factors]
    rows: list[tuple[Entry, ...]] = []
    corners = _corners(design)
    for index, corner in enumerate(corners):
        values = fit.observations[index].tolist()
        rows.append(
            (*(str(level) for level in corner), *(Value(value) for value in values), Value(float(np.mean(values))))
        )
    return Table(
        f"{task.spec.name}-{workload}-{design.response}-runs".replace(" ", "-").replace("%", "percent"),
        f"Raw values of {design.response} ({design.unit}), {workload}",
        (*names, *(f"Run {place + 1}" for place in range(fit.repetitions)), "Mean"),
        tuple(rows),
        folded=True,
    )


def _corners(design: TwoLevelDesign) -> list[tuple[Level, ...]]:
    return list(itertools.product(*((factor.low, factor.high) for factor in design.factors)))


def _residuals(task: Task, workload: str, design: TwoLevelDesign) -> Figure | None:
    fit = design.read
    residuals = from_cell_means(fit).ravel()
    predicted = np.repeat(fit.predicted, fit.repetitions)
    places = ndtri((np.arange(1, residuals.size + 1) - 0.375) / (residuals.size + 0.25))
    # Among these runs, by when they began: those of another cell lie between them.
    order = np.argsort(np.argsort(np.array(design.run_order).ravel())) + 1
    unit = "logarithm" if design.on_logarithms else design.unit
    ordered = np.sort(residuals)
    spread = float(residuals.std())
    line = Line(
        "normal errors", tuple(Mark(float(x), spread * float(x)) for x in (places[0], places[-1])), LOOKS[1], "plain"
    )

    def points(x: Sequence[float], y: Sequence[float]) -> Line:
        return Line("one run", tuple(Mark(float(a), float(b)) for a, b in zip(x, y, strict=True)), LOOKS[0], "points")

    axis = Axis(f"Residual ({unit})")
    panels = [
        Panel("over predicted", Axis(f"Predicted ({unit})"), axis, (points(predicted.tolist(), residuals.tolist()),)),
        Panel(
            "over normal quantiles", Axis("Normal quantile"), axis, (line, points(places.tolist(), ordered.tolist()))
        ),
        Panel(
            "over the order of runs",
            Axis("Place in the order of these runs"),
            axis,
            (points(order.tolist(), residuals.tolist()),),
        ),
    ]
    text = (
        f"{residuals.size} runs, {fit.repetitions} in each of {len(fit.predicted)} "
        "cells; observed less the mean of the cell, blocks not taken out. The first should "
        "have the same spread everywhere, the second lie on the line, the third show no trend."
    )
    return figure(
        task,
        f"residuals-{workload}-{design.response}".replace(" ", "-").replace("%", "percent"),
        f"Residuals: {workload}, {design.response}",
        panels,
        text,
    )


def from_cell_means(fit: FactorialAnalysis) -> NDArray[np.float64]:
    """Observed less the mean of the cell, one row per cell.

    Residuals with blocks taken out are no such thing: one odd run of a cell moves its block, and with it the residuals of all other cells.
    """
    found: NDArray[np.float64] = fit.observations - fit.observations.mean(axis=1, keepdims=True)
    return found


class Unequal(NamedTuple):
    """Cells, by their place, with the narrowest and the widest spread, their standard deviations, and Bartlett's p."""

    narrowest: int
    widest: int
    sds: tuple[float, float]
    p: float


def unequal_spread(fit: FactorialAnalysis) -> Unequal | None:
    """Where runs of some cells are further apart than of others by more than chance; ``None`` otherwise, and with one run per cell.

    Bartlett's test on the runs around the means of their cells (Jain, section 18.8 looks at the same picture by eye). Reported from a
    factor of three on: below it one interval for all does little harm.
    """
    cells, runs = fit.observations.shape
    if runs < 2 or cells < 2:
        return None
    # A cell whose runs are all the same to the last digit has the rounding of its mean as its spread.
    variances = np.maximum(fit.observations.var(axis=1, ddof=1), (1e-9 * np.abs(fit.predicted).max()) ** 2)
    if variances.min() <= 0.0:
        return None
    freedom = runs - 1
    statistic = freedom * (cells * math.log(float(variances.mean())) - float(np.log(variances).sum()))
    p = float(chdtrc(cells - 1, statistic / (1.0 + (cells + 1) / (3.0 * cells * freedom))))
    low, high = int(variances.argmin()), int(variances.argmax())
    sds = math.sqrt(float(variances[low])), math.sqrt(float(variances[high]))
    return Unequal(low, high, sds, p) if p < _SPREAD_LEVEL and sds[1] > _SPREAD_MIN * sds[0] else None


def _size(design: TwoLevelDesign, value: float, least: float = 0.0) -> str:
    """A difference on the scale that is read, with its unit and three significant digits; times of 1 ms and more in ms."""
    if not design.on_logarithms and design.unit == "µs" and abs(value) >= _MS_IN_US:
        return f"{significant(value / _MS_IN_US)} ms"
    size = f"below {least:g}" if abs(value) < least else significant(value)
    return f"{size} {'on the logarithm' if design.on_logarithms else design.unit}"


def _unequal_text(design: TwoLevelDesign, found: Unequal) -> str:
    """Which cells have which spread."""
    cells = _corners(design)

    def at(place: int, sd: float) -> str:
        levels = ", ".join(
            level_words(factor.name, level) for factor, level in zip(design.factors, cells[place], strict=True)
        )
        # Runs that are all the same differ by rounding.
        return f"{_size(design, sd, least=0.001)} at {levels}"

    return (
        f"the spread is unequal (standard deviation {at(found.narrowest, found.sds[0])}, {at(found.widest, found.sds[1])}; "
        f"Bartlett p {'< 0.001' if found.p < 0.001 else f'= {found.p:.3f}'}), so {_NOISE[design.read.error_of]}"
    )


# Runs of a cell whose deviations from its mean are each other's opposite.
_MIRRORED = 2


def outlying(fit: FactorialAnalysis) -> list[tuple[int, int]]:
    """Cell and repetition of each run that lies further from the mean of its cell than chance explains, for all runs together at 5 %.

    Residuals are externally studentized: each is held against the error of the others, t with one degree of freedom less, with
    Bonferroni over the runs. Reference: Cook and Weisberg, Residuals and Influence in Regression (1982), section 2.2.2.
    """
    freedom, repetitions = fit.freedom, fit.repetitions
    squares = float((fit.residuals**2).sum())
    if freedom < 2 or squares <= 0.0:
        return []
    leverage = 1.0 / repetitions if fit.fit is None else fit.fit.layout.leverage.reshape(fit.residuals.shape)
    left = 1.0 - np.asarray(leverage)
    own = fit.residuals**2 / (squares * left / freedom)
    with np.errstate(divide="ignore"):
        outside = np.sqrt(own * (freedom - 1) / np.maximum(0.0, freedom - own))
    p_values = 2.0 * stdtr(freedom - 1, -outside) * own.size
    return [(int(cell), int(run)) for cell, run in np.argwhere(p_values <= _OUTLIER_LEVEL)]


def _outliers(task: Task, workload: str, design: TwoLevelDesign) -> list[Block]:
    """Which runs those are, how far from the mean of their cell, as the figure has it, and what was flagged of them."""
    cells, corners = _cells_of(task.first, workload), _corners(design)
    away = from_cell_means(design.read)
    parts: dict[tuple[int, int], str] = {}
    for corner, place in outlying(design.read):
        levels = {factor.name: level for factor, level in zip(design.factors, corners[corner], strict=True)}
        readings, run = next(
            (cell, run)
            for cell in cells
            if all(cell.level(name) == level for name, level in levels.items())
            for run in cell.runs
            if run.run.meta.repetition == design.blocks[corner][place]
        )
        flags = "; ".join(run.run.meta.verdict.flags) or "no flag"
        off = float(away[corner, place])
        if design.read.repetitions > _MIRRORED:
            text = f"{'+' if off > 0.0 else ''}{_size(design, off)} from that mean; {flags}"
            parts[corner, place] = f"run {place + 1} (r{run.run.meta.repetition}) at {cell_words(readings)} ({text})"
        else:
            flags = (
                "; ".join(dict.fromkeys(flag for one in readings.runs for flag in one.run.meta.verdict.flags))
                or "no flag"
            )
            text = f"{_size(design, abs(off))} above and below that mean, so that nobody knows which; {flags}"
            parts[corner, 0] = f"both runs at {cell_words(readings)} ({text})"
    head = f"{workload.capitalize()}, {design.response}: "
    if not parts:
        return [Text(f"{head}no run is shown to be further from the mean of its cell than chance explains.", note=True)]
    return [
        Text(
            f"{head}further from the mean of their cells than chance explains are {', '.join(parts.values())}. Distances are those of the "
            "figure of residuals; what blocks have in common is taken out before they are tested.",
            note=True,
        )
    ]


def conclusions(task: Task) -> dict[str, str]:
    """What varies each response most, and which effects are significant."""
    found, shown = {}, _discoveries(task.first)
    for workload, designs, _ in designs_of(task.first):
        for design in designs:
            terms = _terms(design)
            found[f"most variation of {design.response}, {workload}"] = design.name_of(terms[0].term)
            significant = sorted(
                design.name_of(one.term) for one in terms if (workload, design.response, one.term) in shown
            )
            found[f"significant for {design.response}, {workload}"] = ", ".join(significant) or "nothing"
    return found
