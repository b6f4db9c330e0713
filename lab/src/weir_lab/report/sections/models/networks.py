"""What the page says of the networks of queues: predictions beside measurements, stations, and what was held out.

Stations and predictions come from `layouts`. The drawing is in `drawn`, what twice of a station would do in `twice`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design.whole.sets import DEFAULT_MARGINS
from weir_lab.report.common import BOUND, figure, mark, method
from weir_lab.report.numbers.comparing import AS_MEASURED, AT_ONE_SPEED, loops_text, response_of, throughput_of
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Look, Mark, Panel
from weir_lab.report.sections.models.layouts import MEASURED
from weir_lab.report.sections.models.open_stations import HEAVY_CLIENTS, LIGHT_CLIENTS
from weir_lab.report.sections.models.words import off, rule_text, shown
from weir_lab.theory.fitting.devices import INSIDE, OUTSIDE, WORKERS
from weir_lab.theory.fitting.meeting import Verdict, tally_text
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.comparing import Levels
    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.report.page.blocks import Entry, Figure
    from weir_lab.report.sections.models.layouts import Layout, LayoutFit, Predicted
    from weir_lab.theory.fitting.devices import Device, Fitted, Solved
    from weir_lab.theory.fitting.meeting import Meeting

__all__ = [
    "STUDIED_WORKERS",
    "crew_title",
    "crew_value",
    "errors_figure",
    "heavy_of",
    "hypothesis_text",
    "layouts_table",
    "light_of",
    "mark_text",
    "notes",
    "outcome",
    "simulation_text",
    "stations_table",
    "table_of_cells",
    "throughput_figure",
    "total",
    "unfitted_text",
    "what_cannot_tell",
]

STUDIED_WORKERS = 32
"""Workers per proxy for which S3 printed its networks; without them the most are taken."""
# Of the cells that were held out this share has to be met, in percent: the mark that the project set itself.
_MARK = 80
# The line of a model beside measured marks of the same colour.
_DASHED = "6 3"


def light_of(fit: LayoutFit) -> Predicted | None:
    """The cell with few clients at which stations are shown: 24 where 384 are there, too, with 32 workers per proxy."""
    return _at(fit, LIGHT_CLIENTS, -1)


def heavy_of(fit: LayoutFit) -> Predicted | None:
    """The cell with many clients at which stations are shown: 384 where 24 are there, too, with 32 workers per proxy."""
    return _at(fit, HEAVY_CLIENTS, 0)


def _at(fit: LayoutFit, population: int, end: int) -> Predicted | None:
    if fit.fitted is None:
        return None
    wanted = STUDIED_WORKERS * fit.layout.proxies
    workers = wanted if wanted in fit.layout.workers else fit.layout.workers[-1]
    line = [one.settings.population for one in fit.layout.line(workers)]
    both = {LIGHT_CLIENTS, HEAVY_CLIENTS} <= set(line)
    chosen = population if both else line[0 if end else -1]
    return fit.at(workers, chosen)


def notes(fits: Sequence[LayoutFit]) -> list[Text]:
    """What could not be counted or fitted, said once."""
    found: dict[str, list[str]] = {}
    for fit in fits:
        for one in (*fit.notes, *([fit.problem] if fit.problem else [])):
            found.setdefault(one, []).append(fit.layout.name)
    if not found:
        return []
    points = tuple(f"{what} ({'; '.join(dict.fromkeys(where))})" for what, where in found.items())
    return [Text("What the networks of queues do not have:", points, note=True)]


def hypothesis_text(
    fits: Sequence[LayoutFit], margins: Margins = DEFAULT_MARGINS, as_measured: Sequence[LayoutFit] = ()
) -> str:
    """Whether the networks predict as well as they were expected to, by the cells that were held out; empty where none was.

    ``as_measured`` are the same fits without one speed of the machine.

    They do where the share that has to be met is met, and do not where too many are missed. Else it is not shown that they do.
    """
    held = _held(fits)
    if not held:
        return ""
    found = _verdicts(held)
    both, unknown = found.count(Verdict.MET), found.count(Verdict.CANNOT_TELL)
    not_met = "not shown to be met" if _reaches(both + unknown, len(held)) else "not met"
    verdict = "met" if _reaches(both, len(held)) else not_met
    rest = [f"{count} {one}" for one in (Verdict.MISSED, Verdict.CANNOT_TELL) if (count := found.count(one))]
    raw = _held(as_measured)
    at = " at one speed of the machine" if raw else ""
    measured = f"; as measured {_share_text(sum(map(_both, raw)), len(raw))}" if raw else ""
    return (
        f"“Throughput within {margins.prediction_throughput:g} %, and response time within {margins.prediction_response:g} %” is {verdict} "
        f"by the networks of queues{at}: of {count_text(len(held), 'cell')} held out "
        f"{', '.join([f'{_share_text(both, len(held))} met both', *rest])}{measured}."
    )


def mark_text() -> str:
    """From which share of the cells on that is called met."""
    return f"The mark that the project set itself is {_MARK} %."


def _verdicts(held: Sequence[Predicted]) -> list[Verdict]:
    """Of each cell for both limits together: missed where one of them is, and met where both are."""
    return [
        Verdict.MISSED
        if Verdict.MISSED in (one.x_meeting.verdict, one.r_meeting.verdict)
        else Verdict.MET
        if _both(one)
        else Verdict.CANNOT_TELL
        for one in held
    ]


def _reaches(count: int, of: int) -> bool:
    """Whether so large a part of the cells is enough."""
    return 100 * count >= _MARK * of


def outcome(
    fits: Sequence[LayoutFit], as_measured: Sequence[LayoutFit] = (), margins: Margins = DEFAULT_MARGINS
) -> str:
    """What was fitted, what was held out, and how that was met over all layouts, in a sentence; empty where none has a network.

    ``as_measured`` are the same fits without one speed of the machine.
    """
    held = _held(fits)
    if not held:
        return ""
    both = sum(map(_both, held))
    near = sum(
        abs(one.x_meeting.percent) <= margins.prediction_throughput
        and abs(one.r_meeting.percent) <= margins.prediction_response
        for one in held
    )
    levels, kind = _fitted_to(fits)
    layouts = count_text(sum(bool(fit.held_out) for fit in fits), "layout")
    return (
        f"Networks of queues, fitted to every second level of {levels}, predict the levels between ({kind}): of "
        f"{count_text(len(held), 'cell')} held out in {layouts} {_lie(near)} within {margins.prediction_throughput:g} % of throughput and "
        f"{margins.prediction_response:g} % of response time by {_by_its(near, 'mean')}, and "
        f"{_share_text(both, len(held))} by {_by_its(both, 'interval')}{_raw(as_measured)}."
    )


def _fitted_to(fits: Sequence[LayoutFit]) -> tuple[str, str]:
    """Of what every second level was fitted, ``clients and workers``, and what predicting the others is: ``interpolation``."""
    beyond = sum(len(fit.beyond) for fit in fits)
    kind = f"interpolation, but for {count_text(beyond, 'cell')} with the most clients" if beyond else "interpolation"
    crews = dict.fromkeys(fit.layout.crew for fit in fits if fit.held_out and len(fit.layout.workers) > 1)
    return " and ".join(["clients", *crews]), kind


def total(fits: Sequence[LayoutFit], as_measured: Sequence[LayoutFit] = (), margins: Margins = DEFAULT_MARGINS) -> str:
    """The outcome, with how throughput and response time were met each; empty where no layout has a network."""
    held = _held(fits)
    if not held:
        return ""
    at = "At one speed throughput" if _held(as_measured) else "Throughput"
    return (
        f"{outcome(fits, as_measured, margins)} {at} is {tally_text([one.x_meeting for one in held])}; response time "
        f"{tally_text([one.r_meeting for one in held])}."
    )


def _raw(fits: Sequence[LayoutFit]) -> str:
    """How many intervals are inside where nothing is brought to one speed of the machine; empty without such fits."""
    held = _held(fits)
    if not held:
        return ""
    return f", at one speed of the machine; {_share_text(sum(map(_both, held)), len(held))} with runs as measured, in the fit, too"


def _held(fits: Sequence[LayoutFit]) -> list[Predicted]:
    return [one for fit in fits for one in fit.held_out]


def _both(one: Predicted) -> bool:
    return one.x_meeting.met and one.r_meeting.met


def _share_text(count: int, of: int) -> str:
    """``7 (25 %)``, or ``none``."""
    return f"{count} ({number(100.0 * count / of, 0)} %)" if count else "none"


def _lie(count: int) -> str:
    return f"{count or 'none'} {'lie' if count > 1 else 'lies'}"


def _by_its(count: int, noun: str) -> str:
    """``their means``, or of a single cell, or none, ``its mean``."""
    return f"their {noun}s" if count > 1 else f"its {noun}"


def what_cannot_tell(fits: Sequence[LayoutFit], margins: Margins = DEFAULT_MARGINS) -> str:
    """How many held-out cells cannot tell for want of a second run, or of narrow enough intervals; empty where all can."""
    held = _held(fits)
    single = sum(len(one.cell.runs) < 2 for one in held)
    alone = (
        f"Of the cells that were held out {single} {'has' if single == 1 else 'have'} a single run, which has no interval and cannot tell."
        if single
        else ""
    )
    return " ".join(one for one in (alone, _too_wide(held, margins.prediction_throughput)) if one)


def _too_wide(held: Sequence[Predicted], percent: float) -> str:
    """How many cells no prediction could be shown to meet, because their intervals are wider than the tolerance; empty where none is."""
    most = (100.0 + percent) / (100.0 - percent)
    ends = [(one.x_meeting.low, one.x_meeting.high) for one in held if len(one.cell.runs) > 1]
    wide = sum(low is not None and high is not None and 100.0 + high > most * (100.0 + low) for low, high in ends)
    if not wide:
        return ""
    which = f"In {wide} of the {count_text(len(held), 'cell')} held out no prediction could be shown to be met"
    return (
        f"{which}: the interval of the throughput is wider than ±{percent:g} %. That tells about the runs, and not about the "
        "model."
    )


def unfitted_text(fit: LayoutFit) -> str:
    """Why the table of layouts has no row of this one; empty where it has."""
    return "" if fit.held_out else f"{fit.layout.name}: {fit.problem or 'no cell was held out'}."


def layouts_table(task: Task, fits: Sequence[LayoutFit], as_measured: Sequence[LayoutFit] = ()) -> Table | None:
    """A row for each layout: how its held-out cells were met, how far off predictions were, and what predicts.

    ``as_measured`` are the same fits without one speed of the machine. ``None`` where no cell was held out.
    """
    shown_fits = [fit for fit in fits if fit.held_out]
    if not shown_fits:
        return None
    raw = {fit.layout.name: fit.held_out for fit in as_measured}
    rows = [
        (
            fit.layout.name,
            *_outcome_entries([fit], raw.get(fit.layout.name, [])),
            "simulation" if fit.simulated else "product form",
            "yes" if fit.fitted is not None and fit.fitted.shows_what_it_saw else "no",
        )
        for fit in shown_fits
    ]
    if len(rows) > 1:
        rows.append(("all", *_outcome_entries(shown_fits, _held(as_measured)), "–", "–"))
    (levels, kind), margins = _fitted_to(fits), task.margins
    return Table(
        f"{task.spec.name}-layouts",
        f"Networks of queues, fitted to every second level of {levels}, against the levels between ({kind}), at one speed of the "
        f"machine. Met: the whole interval of measured over predicted lies within ±{margins.prediction_throughput:g} % (throughput, X) or "
        f"±{margins.prediction_response:g} % (response time, R).",
        (
            "Layout", "Cells fitted", "Held out", "Both met", "Both met as measured", "X met", "X, mean error (%)", "R met",
            "R, mean error (%)", "Predicts", "Product form shows what it saw",
        ),
        tuple(rows),
    )  # fmt: skip


def _outcome_entries(fits: Sequence[LayoutFit], raw: Sequence[Predicted]) -> tuple[Entry, ...]:
    held = _held(fits)
    x, r = [one.x_meeting for one in held], [one.r_meeting for one in held]
    return (
        Value(sum(len(fit.predictions) for fit in fits) - len(held)), Value(len(held)), _counts(_verdicts(held)),
        Value(sum(map(_both, raw))) if raw else "–",
        _counts([one.verdict for one in x]), _mean_error(x), _counts([one.verdict for one in r]), _mean_error(r),
    )  # fmt: skip


def _mean_error(meetings: Sequence[Meeting]) -> Value:
    return Value(sum(abs(one.percent) for one in meetings) / len(meetings), digits=1)


def _counts(verdicts: Sequence[Verdict]) -> Entry:
    """``10; 1 missed, 1 cannot tell``, or the number alone where all are met."""
    rest = [f"{count} {one}" for one in (Verdict.MISSED, Verdict.CANNOT_TELL) if (count := verdicts.count(one))]
    met = verdicts.count(Verdict.MET)
    return f"{met}; {', '.join(rest)}" if rest else Value(met)


def simulation_text(fits: Sequence[LayoutFit]) -> tuple[str, str]:
    """In how many layouts product form fails and a simulation predicts, and behind that what it is; both empty where it fails nowhere."""
    shown_fits = [fit for fit in fits if fit.fitted is not None]
    failing = [fit for fit in shown_fits if fit.fitted is not None and not fit.fitted.shows_what_it_saw]
    if not failing:
        return "", ""
    simulated = sum(fit.simulated for fit in failing)
    by = (
        "there a simulation event by event predicts"
        if simulated == len(failing)
        else f"a simulation event by event predicts in {simulated} of them"
        if simulated
        else "no simulation has less than half of its error there, so product form predicts all the same"
    )
    return (
        f"In {len(failing)} of {count_text(len(shown_fits), 'layout')} product form misses cells that it was fitted to; {by}.",
        "A simulation predicts where it has less than half of the error of product form on the cells that were fitted. In it times are "
        "constant, links let a burst pass after a pause, delays are always the same, and clients stay at their machine.",
    )


def table_of_cells(task: Task, fits: Sequence[LayoutFit]) -> Table | None:
    """Every cell: measured, predicted, error, and how that is met where it was held out; ``None`` without a fitted network."""
    rows: list[tuple[Entry, ...]] = []
    for fit in fits:
        for one in fit.predictions:
            settings, solved = one.cell.settings, one.solved
            rows.append(
                (
                    fit.layout.name, crew_value(fit.layout, one.workers), Value(settings.population), "seen" if one.seen else "held out",
                    _as_measured(one.cell, throughput_of, digits=0), _here(one.cell, throughput_of, digits=0),
                    Value(solved.throughput_per_s, digits=0), off(one.x_meeting), "–" if one.seen else str(one.x_meeting.verdict),
                    _as_measured(one.cell, response_of, 1e3), _here(one.cell, response_of, 1e3),
                    Value(1e3 * solved.response_s), off(one.r_meeting), "–" if one.seen else str(one.r_meeting.verdict),
                    _fullest(fit, solved), one.reason,
                )
            )  # fmt: skip
    if not rows:
        return None
    return Table(
        f"{task.spec.name}-predicted",
        "Networks of queues, predicted against measured. The fit saw every second cell of the table of clients and workers, and the cell "
        "with the fewest of both; the others were held out, and they alone count. Runs of different cells were made in different hours. So "
        "what the fit sees and what it is held against are brought to one speed of the machine: the mean block and the mean yardstick of "
        f"all runs of the sweep. {rule_text(task)} The mark that the project set itself: {_MARK} % of the cells held out meet both.",
        (
            "Layout", crew_title(fits), "N", "", "X measured (requests/s)", "X at one speed", "X predicted",
            "X measured over predicted (%)", "X", "R measured (ms)", "R at one speed (ms)", "R predicted (ms)",
            "R measured over predicted (%)", "R", "Fullest station", "Reason",
        ),
        tuple(rows),
    )  # fmt: skip


def _here(
    cell: CellReadings, value: Callable[[Reading], float | None], scale: float = 1.0, digits: int | None = None
) -> Entry:
    """A level at one speed of the machine."""
    found = AT_ONE_SPEED.level(cell, value)
    if found is not None:
        return Value.of(found.scaled(scale), digits)
    return _mean_value(AT_ONE_SPEED, cell, value, scale, digits)


def _mark(cell: CellReadings) -> Mark | None:
    """Throughput at one speed of the machine, which is what the fit saw; where runs do not tell that, as they were."""
    found = AT_ONE_SPEED.level(cell, throughput_of)
    if found is None:
        return mark(cell, cell.settings.population, throughput_of)
    return Mark(float(cell.settings.population), found.mean, found.low, found.high, count_text(len(cell.runs), "run"))


def _as_measured(
    cell: CellReadings, value: Callable[[Reading], float | None], scale: float = 1.0, digits: int | None = None
) -> Entry:
    """The mean of the runs as they were."""
    return _mean_value(AS_MEASURED, cell, value, scale, digits)


def _mean_value(
    levels: Levels, cell: CellReadings, value: Callable[[Reading], float | None], scale: float, digits: int | None
) -> Entry:
    mean = levels.mean(cell, value)
    return Value(mean * scale, digits=digits) if mean is not None else "–"


def _fullest(fit: LayoutFit, solved: Solved) -> str:
    share = solved.utilization.get(solved.fullest, 0.0)
    return f"{fit.layout.named(solved.fullest)}, {number(100 * share, 0)} %" if solved.fullest else "–"


def crew_title(fits: Sequence[LayoutFit]) -> str:
    """The title of the column of what holds requests in a proxy."""
    crews = dict.fromkeys(fit.layout.crew for fit in fits if fit.layout.workers != [0])
    return f"{' or '.join(crews or [WORKERS]).capitalize()} per proxy"


def crew_value(layout: Layout, workers: int) -> Entry:
    """How many of them each proxy has, where ``workers`` are in all proxies; a dash where there are none."""
    return Value(workers // layout.proxies) if workers else "–"


def stations_table(task: Task, fits: Sequence[LayoutFit]) -> Table | None:
    """The fitted stations at light and heavy load: visits, demand, utilization by the model and as counted, requests there."""
    rows: list[tuple[Entry, ...]] = []
    for fit in fits:
        shown_cells = [one for one in (light_of(fit), heavy_of(fit)) if one is not None]
        for one in dict.fromkeys(shown_cells):
            if fit.fitted is not None:
                rows += _station_rows(fit, fit.fitted, one)
    if not rows:
        return None
    loops = loops_text(dict.fromkeys(fit.layout.sweep for fit in fits))
    return Table(
        f"{task.spec.name}-stations",
        f"Stations of the fitted networks at light and heavy load ({LIGHT_CLIENTS} and {HEAVY_CLIENTS} clients, or the fewest and the "
        f"most; {STUDIED_WORKERS} workers per proxy, or the most). V: visits of a request to one of the devices; D = V S. Counted: the "
        "throughput that was measured times what a request took in this very cell. Delays are those that were built and what "
        "was fitted on top; links whose bytes were counted keep bytes over rate. Of servers that are asked all at "
        "once each is visited, and the time of one counts. Requests there are those of product form: where a simulation predicts the "
        f"cell, they need not add up to N.{f' Each layout is fitted and checked on one sweep.{loops}' if loops else ''}",
        (
            "Layout", "N", "Station", "Devices", "Servers each", "V", "S (ms)", "D (ms)", "Utilization predicted (%)",
            "Utilization counted (%)", "Requests there",
        ),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def _station_rows(fit: LayoutFit, fitted: Fitted, one: Predicted) -> list[tuple[Entry, ...]]:
    population, solved = one.cell.settings.population, one.solved
    system = fitted.system(population, one.workers or None)
    counted = {device.name: device for device in one.counted}
    head = (fit.layout.name, Value(population))
    rows: list[tuple[Entry, ...]] = [
        (
            *head, device.name, Value(device.count), Value(device.servers), Value(device.visit_ratio, digits=3),
            shown(1e3 * device.service_s), shown(1e3 * device.demand_s), _share(solved.utilization.get(device.name)),
            _counted(counted.get(device.name), one), shown(solved.jobs.get(device.name, 0.0)),
        )
        for device in system.devices
        if device.demand_s > 0.0
    ]  # fmt: skip
    if one.workers:
        held = solved.utilization[WORKERS] * one.workers / solved.throughput_per_s
        rows.append(
            (
                *head, fit.layout.crew, Value(fit.layout.proxies), Value(one.workers // fit.layout.proxies),
                Value(1.0 / fit.layout.proxies, digits=3), shown(1e3 * held), shown(1e3 * held / fit.layout.proxies),
                _share(solved.utilization[WORKERS]), _share(one.workers_busy), shown(solved.jobs[WORKERS]),
            )
        )  # fmt: skip
    delays = [(OUTSIDE, system.outside_s), (INSIDE, system.inside_s)] if one.workers else [(OUTSIDE, system.outside_s)]
    rows += [
        (
            *head, name, "–", "delay", Value(1.0, digits=3), shown(1e3 * delay), shown(1e3 * delay), "–", "–",
            shown(solved.throughput_per_s * delay),
        )
        for name, delay in delays
    ]  # fmt: skip
    return rows


def _share(value: float | None) -> Entry:
    return "–" if value is None else Value(100.0 * value, digits=1)


def _counted(device: Device | None, one: Predicted) -> Entry:
    rate = AT_ONE_SPEED.mean(one.cell, throughput_of)
    return _share(rate / device.capacity_per_s) if device is not None and rate is not None else "–"


def throughput_figure(task: Task, fits: Sequence[LayoutFit]) -> Figure | None:
    """Throughput over clients, a panel for each layout: what was measured, and the fitted network as a line. R is N / X, and not drawn."""
    fitted = [fit for fit in fits if fit.fitted is not None]
    if not fitted:
        return None
    panels = [_panel(fit) for fit in fitted]
    cells = [one.cell for fit in fitted for one in fit.predictions]
    text = (
        "Marks: measured, at one speed of the machine like the fit. Lines: the fitted networks of queues (dashed where a panel has a "
        f"single series), which saw every second cell of clients and workers. {method(cells)}"
    )
    return figure(task, "networks-throughput", "Networks of queues against measured: throughput", panels, text)


def errors_figure(task: Task, fits: Sequence[LayoutFit]) -> Figure | None:
    """How far each cell that was held out is off its prediction, a series for each layout; ``None`` where none was held out.

    Where lines lie on the marks, as they should, the other figures do not show by how much they miss.
    """
    shown = [fit for fit in fits if fit.held_out]
    if not shown:
        return None
    margins, cells = task.margins, [one.cell for fit in shown for one in fit.held_out]
    panels = []
    for title, percent, of in (
        ("throughput", margins.prediction_throughput, lambda one: one.x_meeting),
        ("response time", margins.prediction_response, lambda one: one.r_meeting),
    ):
        lines = [_errors(fit, place, of) for place, fit in enumerate(shown)]
        ticks = tuple(sorted({mark.x for line in lines for mark in line.marks}))
        ends = [Line(f"±{percent:g} %", (Mark(ticks[0], end),), BOUND, "level") for end in (percent, -percent)]
        axis = Axis("Clients (connections)", log=len(ticks) > 2, ticks=ticks)
        panels.append(Panel(title, axis, Axis("Off its prediction (%)"), (*lines, *ends)))
    text = (
        "Marks: cells that were held out, at one speed of the machine, with 95 % intervals where there are several runs. Dashed: limits "
        f"for the whole interval. {method(cells)}"
    )
    return figure(task, "errors", "Networks of queues: how far off predictions are", panels, text)


def _errors(fit: LayoutFit, place: int, of: Callable[[Predicted], Meeting]) -> Line:
    marks = tuple(
        Mark(float(one.cell.settings.population), met.percent, met.low, met.high, fit.layout.line_name(one.workers))
        for one in fit.held_out
        for met in (of(one),)
    )
    return Line(fit.layout.name, marks, LOOKS[place % len(LOOKS)], "points")


def _panel(fit: LayoutFit) -> Panel:
    lines: list[Line] = []
    ticks: set[float] = set()
    for place, workers in enumerate(fit.layout.workers):
        cells = fit.layout.line(workers)
        look = LOOKS[place % len(LOOKS)]
        name = fit.layout.line_name(workers)
        dash = _DASHED if len(fit.layout.workers) == 1 else look.dash
        marks = [found for cell in cells if (found := _mark(cell)) is not None]
        # What was measured is not joined: its line would lie on that of the model.
        lines.append(Line(name, tuple(marks), look, "points"))
        predicted = [one for one in fit.predictions if one.workers == workers]
        lines.append(
            Line(
                "network of queues" if name == MEASURED else f"{name}, network of queues",
                tuple(Mark(float(one.cell.settings.population), one.solved.throughput_per_s) for one in predicted),
                Look(look.colour, "", dash),
                "plain",
            )
        )
        ticks |= {float(cell.settings.population) for cell in cells}
    axis = Axis("Clients (connections)", log=len(ticks) > 2, ticks=tuple(sorted(ticks)))
    return Panel(fit.layout.name, axis, Axis("Throughput (requests/s)"), tuple(lines))
