"""Where series over clients have their maxima and knees: tables beside links and what the study printed."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.report.common import OF_PROXIES, level_value, speed_note
from weir_lab.report.numbers.comparing import cell_key, loops_text, model_of, response_of, throughput_of
from weir_lab.report.numbers.maxima import Maximum, maximum_of, with_fewer
from weir_lab.report.numbers.stations import FULL, tightest_of
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.comparisons.drawn import printed_of
from weir_lab.theory.fitting.knee import Curve, Knee, find_knee
from weir_lab.theory.linear import LayoutError, Within
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Settings
    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.published import Printed
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.numbers.stations import Bound
    from weir_lab.report.page.blocks import Entry

__all__ = ["against_printed", "but_clients", "fewer_table", "knee_of", "knees_table", "maxima_table", "maximum_over"]

# What a level of clients is made of.
_OF_CLIENTS = {"clients", "clients_per_thread", "client_machines", "client_threads"}


def maximum_over(task: Task, lines: Sequence[Series]) -> Maximum:
    """The maximum over all cells of some series; of one alone with the bracket that levels of fewer clients give it."""
    found = maximum_of([cell for one in lines for cell in one.cells], task.margins.maximum)
    beside = _fewer_of(task, found.cell) if task.fewer and len(lines) == 1 else None
    return with_fewer(found, *beside, task.margins.maximum) if beside is not None else found


def _fewer_of(task: Task, level: CellReadings) -> tuple[CellReadings, list[CellReadings]] | None:
    """In the sweeps with fewer clients the cell with the settings of a level, and those that have fewer clients and all else alike."""
    wanted = but_clients(level.settings)
    for sweep in task.fewer:
        alike = [cell for cell in sweep.cells if but_clients(cell.settings) == wanted]
        first = next((cell for cell in alike if cell.settings.clients == level.settings.clients), None)
        if first is not None:
            return first, [cell for cell in alike if cell.settings.clients < first.settings.clients]
    return None


def but_clients(settings: Settings) -> dict[str, object]:
    """What else a cell is: direct access has nothing of a proxy."""
    left_out = _OF_CLIENTS | (OF_PROXIES if settings.path is RequestPath.DIRECT else set())
    return {name: value for name, value in settings.model_dump(mode="json").items() if name not in left_out}


def fewer_table(task: Task, lines: Sequence[Series]) -> Table | None:
    """What levels of fewer clients than the study's reach of its first on the plateau; ``None`` where a section has none."""
    rows: list[tuple[Entry, ...]] = []
    for one in lines:
        # What the bracket is held against; where the curve has a bracket of its own, the fewest that both have.
        places = (maximum_over(task, [one]).cell, *one.cells)
        found = next((beside for cell in places if (beside := _fewer_of(task, cell)) is not None), None)
        if found is None:
            continue
        first, fewer = found
        model = model_of(first.among or (first,), throughput_of)
        for cell in sorted([*fewer, first], key=lambda cell: cell.settings.clients):
            share: Entry = "100" if cell is first else "–"
            if model is not None and cell is not first and min(len(cell.runs), len(first.runs)) > 1:
                try:
                    estimate = model.contrast({cell_key(cell): 1.0, cell_key(first): -1.0})
                    ends = (estimate.value, *Within(estimate).interval(0.05))
                    middle, low, high = (100.0 * math.exp(min(end, 700.0)) for end in ends)
                    share = Value(middle, low, high, 1)
                except LayoutError:
                    pass
            x = level_value(cell, throughput_of, digits=0)
            rows.append((one.workload, one.name, Value(cell.settings.clients), x, share, Value(len(cell.runs))))
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-fewer",
        "Fewer clients than the study measured: a sweep of ours, which has the first level on the study's plateau, too (or its fewest "
        "clients, where the knee has a bracket without these runs). What a level reaches of that one, with blocks taken out, has its 95 % "
        "interval alone. The bracket of the knee ends at the fewest that are shown to reach it but for "
        f"{task.margins.maximum:g} %, with all between, and begins at the last that is shown to lie below."
        f"{loops_text([*task.fewer, *dict.fromkeys(one.sweep for one in lines)])}",
        ("Workload", "Series", "Clients", "X (requests/s)", "Of X with the most of these (%)", "Runs"),
        tuple(rows),
        folded=True,
    )


def _fewer_text(task: Task) -> str:
    """Whether levels are in the brackets that the study did not have."""
    if not task.spec.fewer:
        return ""
    if not task.fewer:
        return f" {' and '.join(task.spec.fewer)}, with fewer clients, has no runs here."
    return " Levels below the fewest of the study are ours; they have a table of their own."


def maxima_table(task: Task, lines: Sequence[Series]) -> Table:
    """The maximum of each series beside its tightest link and what the study printed."""
    rows: list[tuple[Entry, ...]] = []
    speed = task.first.speed
    for one in lines:
        maximum = maximum_over(task, [one])
        cell = maximum.cell
        bound = tightest_of(cell, one.sweep.study.topology.built_links) if one.sweep.links_built else None
        fitting = [found for found in printed_of(task) if not one.event and found.fits(cell)]
        printed: list[Printed | None] = [*fitting] or [None]
        for place, found in enumerate(printed):
            if place:
                # What was measured stands once; further printed values of the same settings stand below it.
                rows.append(
                    _further(one, cell.settings.clients, found, against_printed(maximum, speed, found, bound), speed)
                )
                continue
            rows.append(
                (
                    one.workload,
                    one.name,
                    Value(cell.settings.clients),
                    Value.of(maximum.value, 0) if maximum.value else level_value(cell, throughput_of, digits=0),
                    level_value(cell, response_of, 1e3),
                    bound.text if bound else "no links here",
                    Value(100 * maximum.throughput / bound.requests_per_s, digits=1) if bound else "–",
                    Value(found.throughput, digits=0) if found else "–",
                    against_printed(maximum, speed, found, bound),
                    found.where if found else "–",
                    _shown(maximum),
                    *(
                        (Value(maximum.throughput / speed, digits=0), Value(1e3 * cell.mean_response_s * speed))
                        if speed != 1.0
                        else ()
                    ),
                )
            )
    note = (
        f"The testbed gives each machine the study's link{f' times {speed:g}' if speed != 1.0 else ''}: ours stands against the printed "
        "value where a link is full, and not where processors limit, which are others here."
        if task.first.links_built
        else "Set-ups differ: no link is limited here, so printed values stand beside ours without a comparison."
    )
    return Table(
        f"{task.spec.name}-maxima",
        f"Maximum throughput: the mean of all levels on the plateau, those shown to be less than {task.margins.maximum:g} % below the "
        "highest, with its 95 % interval; clients are the fewest on it. Levels with one run are not judged, and a series with enough runs "
        "is judged by its own alone. Where levels at the far end fall off, the plateau is that of the others, and the fall is named. Where "
        "the data cannot tell, the largest mean stands here, which is too large by chance. In the table of what is reached series of one "
        "limit that differ by less than the margin share the row of the one with the fewest clients. "
        f"{note}{speed_note(speed)}{loops_text(dict.fromkeys(one.sweep for one in lines))}",
        (
            "Workload",
            "Series",
            "Clients",
            "X (requests/s)",
            "R (ms)",
            "Tightest link",
            "X of it (%)",
            "Printed X",
            "Ours against it (%)",
            "Printed as",
            "Maximum",
            *(("X at the study's speed (requests/s)", "R at the study's speed (ms)") if speed != 1.0 else ()),
        ),
        tuple(rows),
        folded=True,
    )


def _further(one: Series, clients: int, found: Printed | None, against: Entry, speed: float) -> tuple[Entry, ...]:
    ours: tuple[Entry, ...] = (one.workload, one.name, Value(clients), "as above", "", "", "")
    printed: tuple[Entry, ...] = (Value(found.throughput, digits=0), against, found.where) if found else ("–", "–", "–")
    return (*ours, *printed, "", *(("", "") if speed != 1.0 else ()))


def against_printed(maximum: Maximum, speed: float, printed: Printed | None, link: Bound | None) -> Entry:
    """Ours at the study's speed against what was printed, where the same thing limits: a link that is full in both."""
    if printed is None or link is None:
        return "–"
    if maximum.throughput < FULL * link.requests_per_s:
        return "no link is full"
    if printed.throughput < FULL * link.requests_per_s / speed:
        return "its link was not full"
    return Value(100 * (maximum.throughput / speed / printed.throughput - 1), digits=1, signed=True)


def _shown(maximum: Maximum) -> str:
    if not maximum.shown:
        return "; ".join([f"cannot tell: {maximum.why_not}", *filter(None, [maximum.course, maximum.single_text])])
    beside = [one for one in (maximum.fall_text, maximum.single_text) if one]
    return "; ".join([f"shown, mean of {count_text(len(maximum.cells), 'level')}{_levels_text(maximum)}", *beside])


def _levels_text(maximum: Maximum) -> str:
    """`` (24 and 96 clients)``, `` (24 to 384 clients)``: over which levels a maximum is the mean; empty of one level."""
    clients = sorted({cell.settings.clients for cell in maximum.cells})
    if len(clients) < 2:
        return ""
    return f" ({clients[0]} {'and' if len(clients) == 2 else 'to'} {clients[-1]} clients)"


@functools.lru_cache(maxsize=256)
def knee_of(series: Series) -> Knee | None:
    """Where throughput stops growing, by all rules; ``None`` with fewer than four levels of two runs each."""
    cells = [cell for cell in series.cells if len(cell.runs) >= 2]
    populations = tuple(cell.settings.population for cell in cells)
    if len(cells) < 4 or len(set(populations)) != len(cells):
        return None
    tails = [cell.percentile_s(99.0) for cell in cells]
    curve = Curve(
        populations,
        tuple(tuple(cell.throughputs) for cell in cells),
        tuple(tuple(cell.of(lambda run: run.response_s)) for cell in cells),
        tuple(tuple(tail) for tail in tails) if all(tails) else None,
    )
    return find_knee(curve)


def knees_table(task: Task, lines: Sequence[Series]) -> Table | None:
    """Where each series stops growing, by every rule; ``None`` where none has enough levels."""
    rows: list[tuple[Entry, ...]] = []
    rules: dict[str, str] = {}
    for one in lines:
        knee = knee_of(one)
        if knee is None:
            continue
        bracket = maximum_over(task, [one]).knee_text
        rows.append((one.workload, one.name, "bracket by the data", bracket))
        for estimate in knee.estimates:
            name = estimate.name.replace("_", " ")
            rules[name] = estimate.rule.replace("the percentile", "p99")
            found: Entry = "no answer"
            if estimate.population is not None:
                found = Value(estimate.population, estimate.low, estimate.high, 1)
            rows.append((one.workload, one.name, name, found))
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-knees",
        "Saturation and knee by several rules, in clients, with 95 % intervals over runs where a rule has one that holds. "
        "Quote the bracket; the other rules answer other questions, and are for comparison with papers that use them. "
        "The bracket is what the runs can tell, by the levels of the table of maxima: the last that is shown to lie below the plateau but "
        f"for {task.margins.maximum:g} %, and the first that is shown to reach it."
        f"{_fewer_text(task)} The rules: {'; '.join(f'{name}, {rule}' for name, rule in rules.items())}.",
        ("Workload", "Series", "Estimator", "N"),
        tuple(rows),
        folded=len(rows) > 10,
    )
