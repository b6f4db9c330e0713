"""Where it is asked what limits: a cell for each distinct plateau, or for what was changed. Start with `places_of`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.report.common import by_workload, cell_words, series_of, workload_name
from weir_lab.report.numbers.maxima import maximum_of
from weir_lab.report.numbers.stations import CPU_QUOTAS, FULL, is_of_cpus, usages
from weir_lab.report.sections.comparisons.plateaus import stops_of
from weir_lab.theory.units import rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.common import Series, Task
    from weir_lab.report.numbers.maxima import Maximum
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.sections.claims.confirming import Confirmed
    from weir_lab.report.sections.comparisons.plateaus import Stop

__all__ = ["Place", "own_of", "places_of", "words_of"]

# Of what is inside of a proxy, the setting has the name of the station.
_INSIDE = ("workers", "readers")


@dataclass(frozen=True, eq=False)
class Place:
    """A cell at which it is asked what limits, and the ``cells`` that it stands for; ``stop`` where those are series over clients."""

    name: str
    cell: CellReadings
    cells: tuple[CellReadings, ...]
    sweep: SweepReadings
    line: Series | None
    stop: Stop | None = None
    twice: str = ""
    """What the section's own series with twice of what is inside (workers, readers) says; empty where there is none."""
    twice_short: str = ""
    """Its change against this one, for a table."""
    twice_more: str = ""
    """What that series reaches, where ``twice`` has its change alone."""
    trace: bool = False

    @property
    def plateau(self) -> float | None:
        """Throughput of the plateau; None where none is shown."""
        return self.stop.maximum.throughput if self.stop is not None and self.stop.shown else None


def places_of(task: Task, confirmed: Sequence[Confirmed]) -> list[Place]:
    """Of a kind of section in which a station is said to limit."""
    if task.spec.kind in ("clients", "beside"):
        return _stops(task)
    if task.spec.kind == "trace":
        return [
            Place(sweep.study.name, cell, (cell,), sweep, None, trace=True)
            for sweep in task.sweeps
            for cell in sweep.cells
        ]
    groups = by_workload([one for one in series_of(task) if not one.event])
    # Shares of writes are levels there and no workloads of their own: those that were changed, or the last.
    changed = {workload_name(pair.base.settings) for one in confirmed for pair in one.pairs}
    groups = {name: group for name, group in groups.items() if name in (changed or {list(groups)[-1]})}
    found = []
    for workload, group in groups.items():
        cells = [cell for one in group for cell in one.cells]
        pairs = [pair.base for one in confirmed for pair in one.pairs if workload_name(pair.base.settings) == workload]
        cell = pairs[0] if pairs else maximum_of(cells, task.margins.maximum).cell
        line = next((one for one in group if cell in one.cells), None)
        if line is not None:
            curve = line if len({one.settings.clients for one in line.cells}) > 1 else None
            others = words_of(cell)
            found.append(Place(f"{workload}{f', {others}' if others else ''}", cell, tuple(cells), line.sweep, curve))
    return found


def own_of(place: Place, confirmed: Sequence[Confirmed]) -> list[Confirmed]:
    """Those that changed something at a cell that this place stands for."""
    return [one for one in confirmed if any(pair.base in place.cells for pair in one.pairs)]


def words_of(cell: CellReadings) -> str:
    """The levels of a cell, and whether its multi-gets are split."""
    split = [str(cell.settings.multiget)] if cell.settings.multiget_keys > 1 and cell.settings.multiget else []
    return ", ".join([*split, *filter(None, [cell_words(cell, without="write_ratio")])])


def _stops(task: Task) -> list[Place]:
    """A place for each distinct plateau."""
    stops = stops_of(task)
    found = []
    for stop in stops:
        lead = stop.lead
        curve = lead if len({one.settings.clients for one in lead.cells}) > 1 else None
        name = stop.workload if len([one for one in stops if one.workload == stop.workload]) == 1 else ""
        name = name or f"{stop.workload}, {stop.names}"
        cells = tuple(cell for one in stop.series for cell in one.cells)
        found.append(Place(name, stop.maximum.cell, cells, lead.sweep, curve, stop, *_twice_inside(stop, stops)))
    return found


def _twice_inside(stop: Stop, stops: Sequence[Stop]) -> tuple[str, str, str]:
    """``The section's own 16 workers, twice as many, bring …``: another series of the section, and no run of ours; its change; the rest."""
    station, own = stop.limit.station, stop.maximum.cell.settings
    # Cores that several tiers share may be full because of what waits inside, or it because of them.
    inside = [one.station for one in usages(stop.maximum.cell, None) if one.holds and one.share >= FULL]
    setting = next(iter(inside), "") if is_of_cpus(station) and station not in CPU_QUOTAS.values() else station
    if setting not in _INSIDE or getattr(own, setting) is None:
        return "", "", ""
    what = "twice" if setting == station else f"twice the {setting}"
    wanted = 2 * getattr(own, setting)
    left_out = {setting, "clients", "clients_per_thread"}
    alike = own.model_dump(exclude=left_out)
    for other in stops:
        for one, maximum in zip(other.series, other.maxima, strict=True):
            settings = maximum.cell.settings
            if getattr(settings, setting) == wanted and settings.model_dump(exclude=left_out) == alike:
                said, rest = _reached(stop, one, maximum)
                same = _gain_alike(stop, one)
                short = f"{same} % with the same clients" if same else f"{_gain(stop, maximum)} %"
                named = f"The section's own {one.name}, twice as many, {said}."
                return named, f"{what}: {short}, in the section itself", rest
    return "", "", ""


def _gain(stop: Stop, maximum: Maximum) -> str:
    """How far another maximum lies above that of a stop, in percent."""
    return signed_percent(100.0 * (maximum.throughput / stop.maximum.throughput - 1.0))


def _gain_alike(stop: Stop, other: Series) -> str:
    """How far another series lies above the lead of a stop with the same clients, in percent; empty where it has no such level."""
    own = stop.maximum.cell
    alike = next((cell for cell in other.cells if cell.settings.clients == own.settings.clients), None)
    return "" if alike is None else signed_percent(100.0 * (alike.mean_throughput / own.mean_throughput - 1.0))


def _reached(stop: Stop, other: Series, maximum: Maximum) -> tuple[str, str]:
    """``bring +53.0 % with the same clients``, and in a sentence what they have then, and reach with more."""
    gain = _gain(stop, maximum)
    clients = stop.maximum.cell.settings.clients
    alike = next((cell for cell in other.cells if cell.settings.clients == clients), None)
    if alike is None or alike is maximum.cell:
        return f"reach {rate(maximum.throughput)} requests/s ({gain} %)", ""
    return (
        f"bring {_gain_alike(stop, other)} % with the same clients",
        f"The {other.name} have {rate(alike.mean_throughput)} requests/s with the same clients, and reach {rate(maximum.throughput)} with "
        f"{maximum.cell.settings.clients} ({gain} %).",
    )
