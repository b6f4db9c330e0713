"""Networks of queues of each layout: fitted to half of the cells by rule, and held against the other half.

::

              clients  6   24   48   96   192   384
    8 workers          f    ?    f    ?    f     ?       f: the fit sees it
    16 workers         ?    f    ?    f    ?     f       ?: held out, and predicted

Cells of one layout (a number of proxies and of servers, one workload) make one network, whatever the numbers of clients
and workers. With the split engine a read holds one of the readers as a request holds a worker, and each number of
readers is a layout: what a request costs the proxy changes with them. The fit sees every second cell of the table of
clients and workers, the one with the fewest of both among them; no cell is chosen for what it shows. What the fit sees
and what it is held against are brought to the same blocks and yardstick, because their runs lie in different hours.
Start with `layouts_of` and `fits_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.design import Engine, RequestPath
from weir_lab.report.common import OF_PROXIES, level_name, workload_name
from weir_lab.report.numbers.comparing import AT_ONE_SPEED, response_of, throughput_of
from weir_lab.report.sections.models.counted import SHARED, built_delays, devices_of
from weir_lab.report.sections.models.open_stations import held_s, workers_of
from weir_lab.report.sections.models.words import no_miss
from weir_lab.theory.fitting.devices import WORKERS, SeenCell, fit_devices, twice_of
from weir_lab.theory.fitting.meeting import Verdict, meeting_of
from weir_lab.theory.fitting.simulated import simulate_fitted, simulate_twice, solved_by, worst_simulated
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.numbers.comparing import Levels
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.theory.fitting.devices import Device, Fitted, Solved, Twice
    from weir_lab.theory.fitting.meeting import Meeting

__all__ = ["MEASURED", "Layout", "LayoutFit", "Predicted", "fits_of", "layouts_of"]

MEASURED = "measured"
"""What a line of cells is called where it is the only one of its panel."""

# Factors along which cells of one layout differ; all others part layouts.
_ALONG = {
    "clients",
    "clients_per_thread",
    "client_machines",
    "client_threads",
    "instances",
    "write_ratio",
    "workers",
    "path",
    "subject",
}
# What holds a request while it waits for servers, by engine, as `numbers.stations` names it.
_CREWS = {Engine.POOL: "workers", Engine.SPLIT: "readers"}
_WITHOUT = "no proxy"
_POPULATIONS_MIN = 2
# Of its error where product form fails, what a simulation may have at most to predict in its place.
_BETTER = 0.5
# Requests of a simulation: throughput is known to about 1 %.
_SIMULATED = 6_000
# A device that takes this much more of a request than in the cells that were seen is looked at as the reason of a miss.
_OTHER = 0.05


@dataclass(frozen=True, eq=False)
class Layout:
    """Cells through one kind of proxies and servers with one workload; ``cells`` by workers of all proxies (0: none) and population.

    ``crew`` is what the pages call those workers; ``proxies`` is 0 where clients ask the servers themselves.
    """

    sweep: SweepReadings
    name: str
    workload: str
    proxies: int
    servers: int
    cells: dict[tuple[int, int], CellReadings]
    crew: str = WORKERS

    def named(self, station: str) -> str:
        """A station of the network by the name that pages have for it."""
        return self.crew if station == WORKERS else station

    @property
    def workers(self) -> list[int]:
        """Numbers of workers of all proxies together, ascending; a single 0 where requests hold none."""
        return sorted({workers for workers, _ in self.cells})

    def line_name(self, workers: int) -> str:
        """What a line of cells is called where the layout's name stands already."""
        return level_name(self.crew, workers // self.proxies) if workers and self.crew == WORKERS else MEASURED

    def line(self, workers: int) -> list[CellReadings]:
        """The cells with this many workers, by population."""
        return [self.cells[key] for key in sorted(self.cells) if key[0] == workers]

    def is_seen(self, key: tuple[int, int]) -> bool:
        """Whether the fit sees a cell: every second of the table, from the fewest workers and clients on."""
        populations = sorted({population for _, population in self.cells})
        return (self.workers.index(key[0]) + populations.index(key[1])) % 2 == 0


@dataclass(frozen=True, eq=False)
class Predicted:
    """One cell: what the network says of it, and how that is met; ``reason`` of a miss was tested by another prediction.

    ``counted`` is what a request took of each device in this very cell, ``workers_busy`` the share of the workers' time by the stamps.
    """

    cell: CellReadings
    workers: int
    seen: bool
    solved: Solved
    x_meeting: Meeting
    r_meeting: Meeting
    reason: str
    counted: tuple[Device, ...] = ()
    workers_busy: float | None = None


@dataclass(frozen=True, eq=False)
class LayoutFit:
    """A layout with its network and what it predicts; without one ``problem`` says why. ``notes`` are what could not be counted."""

    layout: Layout
    fitted: Fitted | None
    predictions: tuple[Predicted, ...]
    notes: tuple[str, ...]
    problem: str = ""
    simulated: bool = False
    """Predictions come from the simulation with constant times: product form does not show what it saw, and that halves its error."""

    @property
    def held_out(self) -> list[Predicted]:
        """What the fit did not see."""
        return [one for one in self.predictions if not one.seen]

    @property
    def beyond(self) -> list[Predicted]:
        """What was held out at the end of all levels: with more clients than any cell that the fit saw."""
        most = max((one.cell.settings.population for one in self.predictions if one.seen), default=0)
        return [one for one in self.held_out if one.cell.settings.population > most]

    def at(self, workers: int, population: int) -> Predicted | None:
        """The prediction of a cell, if it is there."""
        return next(
            (one for one in self.predictions if (one.workers, one.cell.settings.population) == (workers, population)),
            None,
        )

    def twice(self, predicted: Predicted, station: str) -> Twice | None:
        """What twice of a station would do in a cell, by what predicts that cell; ``None`` where no network tells."""
        # Other users of this machine's CPUs, such as the delay device, are no stations, and would be full sooner.
        if self.fitted is None or station == SHARED or station not in predicted.solved.utilization:
            return None
        population = predicted.cell.settings.population
        system = self.fitted.system(population, predicted.workers or None)
        found = (
            simulate_twice(system, population, station, _SIMULATED)
            if self.simulated
            else twice_of(system, population, station)
        )
        named = self.layout.named
        return replace(found, station=named(found.station), fullest_then=named(found.fullest_then))


def layouts_of(sweeps: Sequence[SweepReadings]) -> list[Layout]:
    """The layouts whose requests go through a proxy that tells its stages, or to the servers themselves."""
    found: dict[tuple[int, str, str], tuple[SweepReadings, dict[tuple[int, int], CellReadings]]] = {}
    for place, sweep in enumerate(sweeps):
        for cell in sweep.cells:
            settings = cell.settings
            direct = settings.path is RequestPath.DIRECT
            if settings.is_open or (cell.runs[0].proxy is None and not direct):
                continue
            parting = [name for name in sweep.varied if name not in _ALONG and not (direct and name in OF_PROXIES)]
            others = [_WITHOUT] if direct else []
            others += [level_name(name, cell.level(name)) for name in parting]
            key = (place, workload_name(settings), ", ".join(others))
            found.setdefault(key, (sweep, {}))[1].setdefault((_crew(cell) or 0, settings.population), cell)
    return [_layout(sweep, key[1], key[2], cells) for key, (sweep, cells) in found.items()]


def _layout(sweep: SweepReadings, workload: str, others: str, cells: dict[tuple[int, int], CellReadings]) -> Layout:
    settings = next(iter(cells.values())).settings
    direct = settings.path is RequestPath.DIRECT
    between = _WITHOUT if direct else level_name("proxies", settings.proxies)
    machines = f"{between}, {count_text(settings.servers, 'server')}"
    known = [one for one in others.split(", ") if one and one not in machines]
    name = ", ".join([machines, workload, *known])
    proxies = 0 if direct else settings.proxies
    return Layout(sweep, name, workload, proxies, settings.servers, cells, _CREWS.get(settings.engine, WORKERS))


def _crew(cell: CellReadings) -> int | None:
    """Workers or readers of all proxies, each of which holds one request at a time; writes of the split engine hold none."""
    settings = cell.settings
    if settings.path is RequestPath.DIRECT or (settings.engine is Engine.SPLIT and settings.write_ratio > 0.0):
        return None
    return workers_of(cell)


# The answer, its sentence and the page ask for the same fits.
@lru_cache(maxsize=8)
def fits_of(
    sweeps: tuple[SweepReadings, ...], margins: Margins, levels: Levels = AT_ONE_SPEED
) -> tuple[LayoutFit, ...]:
    """Every layout with its network; none is left out, a layout that has too little says so.

    ``levels`` are those that the fit sees and that it is held against.
    """
    return tuple(_fit(layout, margins, levels) for layout in layouts_of(sweeps))


def _fit(layout: Layout, margins: Margins, levels: Levels) -> LayoutFit:
    seen, notes = {}, dict[str, None]()
    for key, cell in layout.cells.items():
        seen[key], missing = _seen_cell(cell, key[0], layout.sweep, levels)
        notes.update(dict.fromkeys(missing))
    seen, lacking = _alike(seen)
    notes.update(dict.fromkeys(lacking))
    kept = {key: cell for key, cell in seen.items() if layout.is_seen(key)}
    if len({population for _, population in kept}) < _POPULATIONS_MIN or len(kept) == len(seen):
        problem = f"{count_text(len(seen), 'cell')} are too few to fit a network to half of them: measure at least 3 numbers of clients"
        return LayoutFit(layout, None, (), tuple(notes), problem)
    if any(cell.workers is not None and cell.held_s is None for cell in kept.values()):
        notes["the proxies' stamps are missing in some cells: how long a worker is held is not fitted there"] = None
    try:
        path = next(iter(layout.cells.values())).settings.path
        fitted = fit_devices(list(kept.values()), built_delays(layout.sweep.testbed, path))
    except ValueError as error:
        return LayoutFit(layout, None, (), tuple(notes), f"no network could be fitted: {error}")
    simulated = not fitted.shows_what_it_saw and worst_simulated(fitted, _SIMULATED) < _BETTER * fitted.worst_seen
    held = _Held(margins, levels)
    predictions = tuple(_predicted(fitted, layout, key, seen[key], held, simulated) for key in sorted(layout.cells))
    return LayoutFit(layout, fitted, predictions, tuple(notes), "", simulated)


def _alike(
    seen: dict[tuple[int, int], SeenCell],
) -> tuple[dict[tuple[int, int], SeenCell], list[str]]:
    """The same cells with the devices that all of them have, and what had to be left out."""
    sets = [{device.name for device in cell.devices} for cell in seen.values()]
    common, known = set.intersection(*sets), dict.fromkeys(one.name for cell in seen.values() for one in cell.devices)
    same = {
        key: replace(cell, devices=tuple(one for one in cell.devices if one.name in common))
        for key, cell in seen.items()
    }
    return same, [
        f"not every cell has counts of the {name}, so it is no station" for name in known if name not in common
    ]


def _seen_cell(
    cell: CellReadings, workers: int, sweep: SweepReadings, levels: Levels
) -> tuple[SeenCell, tuple[str, ...]]:
    devices, missing = devices_of(cell, sweep, levels)
    x, r = (levels.mean(cell, value) for value in (throughput_of, response_of))
    assert x is not None  # every run has both
    assert r is not None
    held = levels.mean(cell, held_s) if workers else None
    return SeenCell(cell.settings.population, x, r, devices, workers or None, held), missing


class _Held(NamedTuple):
    """What predictions are held against: means and intervals at the speed at which the fit saw its cells, and how far off they may be."""

    margins: Margins
    levels: Levels

    def meetings(self, cell: CellReadings, seen: SeenCell, solved: Solved) -> tuple[Meeting, Meeting]:
        x, r = self.levels.level(cell, throughput_of), self.levels.level(cell, response_of)
        return (
            meeting_of(x, solved.throughput_per_s, self.margins.prediction_throughput, seen.throughput_per_s),
            meeting_of(r, solved.response_s, self.margins.prediction_response, seen.response_s),
        )


def _predicted(
    fitted: Fitted, layout: Layout, key: tuple[int, int], seen: SeenCell, held: _Held, simulated: bool
) -> Predicted:
    cell = layout.cells[key]
    solved = fitted.solve(seen.population, seen.workers)
    if simulated:
        solved = _with_constant_times(fitted, seen, solved)
    meetings = held.meetings(cell, seen, solved)
    is_seen = layout.is_seen(key)
    reason = "" if is_seen else _reason(fitted, seen, layout, key, solved, meetings, held)
    used = cell.of(lambda run: None if (time := held_s(run)) is None else run.throughput * time)
    busy = sum(used) / len(used) / key[0] if used and key[0] else None
    return Predicted(cell, key[0], is_seen, solved, *meetings, reason, seen.devices, busy)


def _reason(
    fitted: Fitted,
    seen: SeenCell,
    layout: Layout,
    key: tuple[int, int],
    solved: Solved,
    meetings: tuple[Meeting, Meeting],
    held: _Held,
) -> str:
    """Of a miss, the device that took more or less of a request than elsewhere, if the prediction with it is met."""
    if not any(one.verdict is Verdict.MISSED for one in meetings):
        return "; ".join(dict.fromkeys(text for text in map(no_miss, meetings) if text))
    cell = layout.cells[key]
    expected = {one.name: one for one in fitted.system(seen.population, seen.workers).devices}
    own = fitted.with_counts(seen)
    off = [
        (abs(math.log(one.demand_s / expected[one.name].demand_s)), one)
        for one in own.devices
        if one.demand_s > 0.0 and expected[one.name].demand_s > 0.0
    ]
    again = own.solve(seen.population)
    off = [one for one in off if one[0] > _OTHER]
    if off and not any(one.verdict is Verdict.MISSED for one in held.meetings(cell, seen, again)):
        device = max(off, key=lambda one: one[0] * again.utilization.get(one[1].name, 0.0))[1]
        more = 100.0 * (device.demand_s / expected[device.name].demand_s - 1.0)
        return (
            f"a request took {number(abs(more), 0)} % {'more' if more > 0 else 'less'} of the {device.name} here than in the cells that "
            "the fit saw; with what it took here the prediction is not missed"
        )
    steady = _with_constant_times(fitted, seen, solved)
    if not any(one.verdict is Verdict.MISSED for one in held.meetings(cell, seen, steady)):
        return (
            "exponential times, which product form needs, are not those of links and CPUs: simulated event by event with constant ones the "
            "prediction is not missed"
        )
    why = (
        f"neither what was counted here nor constant times explain it (fullest station: {layout.named(solved.fullest)})"
    )
    if solved.throughput_per_s > seen.throughput_per_s:
        return f"too fast, and {why}: something waits that is no station here"
    return f"too slow, and {why}: requests cost less here than where the fit saw them"


def _with_constant_times(fitted: Fitted, seen: SeenCell, solved: Solved) -> Solved:
    """The same system event by event, where every visit to a device takes its mean."""
    found = simulate_fitted(fitted, seen.population, seen.workers, _SIMULATED)
    return solved_by(found, solved, seen.workers)
