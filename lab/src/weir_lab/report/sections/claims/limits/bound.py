"""What throughput is at most with twice a station, and what a fitted network says of it. Start with `twice_bound`.

*Twice of it* is a bound by operational analysis. With twice the capacity C_i, throughput is at most min(2 C_i, C_j) over the other
stations j. Each has C_j = X / U_j (Denning and Buzen, Computing Surveys 10, 1978). And it is at most N / R, with R the least response
time of the curve as it would be then. Where a network is fitted to the layout of the cell, what that predicts stands beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath
from weir_lab.design.whole.sets import DEFAULT_MARGINS
from weir_lab.report.numbers.stations import BEFORE_PROXY, CPU_QUOTAS, FULL, is_of_cpus
from weir_lab.report.sections.models.twice import misses, sentence
from weir_lab.theory.units import count_text, number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Margins
    from weir_lab.report.numbers.stations import Usage
    from weir_lab.report.sections.claims.limits.places import Place
    from weir_lab.theory.fitting.devices import Twice

__all__ = ["Bound", "Sent", "model_agrees", "modelled_short", "modelled_text", "sent_by_clients", "twice_bound"]

# A model may lie above the bound by what both are uncertain by; up to here they say the same.
_OVER, _SAME = 1.1, 1.005
# One that is off by more than this in what was measured tells nothing of what was not.
_OFF = 0.1
# A model in which twice of a station brings less than this, in percent, has another one that limits.
_NOTHING = 0.05
# Twice of a full station that brings less than this stands beside another limit that is as near.
_LITTLE = 1.1
# A request takes less of a CPU quota where there is more of it (S1 with half of the proxy's): a bound by its use rests on that it does not.
_AS_NOW = ", if a request takes as much CPU time then"


@dataclass(frozen=True)
class Sent:
    """What the clients of a cell send at most, because no request is answered sooner than in ``least_s``; per second.

    ``built``: by what was built alone, without the time that other links, CPUs and workers take of a request.
    """

    clients: int
    least_s: float
    per_s: float
    built: bool = False


def sent_by_clients(place: Place, usage: Usage) -> Sent | None:
    """By the shortest mean response time of the curve, less half of what a request takes of a station that gets twice as fast.

    Where the cell has that time itself, or the station is as full where it is shortest, so that requests wait there, too, it is that of the
    delays that were built in, and half of what the station takes. Sending over other links is not in it, since a burst passes them at once
    after a pause. None without a curve; and, where the delays are to tell, without delays.
    """
    if place.line is None:
        return None
    settings, fastest = place.cell.settings, min(place.line.cells, key=lambda cell: cell.mean_response_s)
    tier = usage.station.split()[0]
    devices = {"client": settings.client_machines, "proxy": settings.proxies, "server": settings.servers}.get(tier, 1)
    waiting = fastest is place.cell or fastest.mean_throughput >= FULL * place.cell.mean_throughput
    taken_s = 0.0 if usage.holds else devices * min(usage.share, 1.0) / place.cell.mean_throughput
    if waiting:
        delays_s = _delays_s(place)
        least_s = delays_s + taken_s / 2.0 if delays_s else 0.0
    else:
        least_s = fastest.mean_response_s - taken_s / 2.0
    if least_s <= 0.0:
        return None
    per_s = settings.population / (least_s + settings.think_time_s)
    return Sent(settings.clients, least_s, per_s, built=waiting)


def _delays_s(place: Place) -> float:
    """How long a request and its reply are on their way at least: what each machine receives was delayed by so much; 0 if not at all."""
    machines = place.sweep.testbed.machines if place.sweep.testbed is not None else []
    delays: dict[str, float] = {}
    for one in machines:
        tier, delay_s = one.name.partition("-")[0], (one.delay_ms or 0.0) / 1e3
        delays[tier] = min(delays.get(tier, delay_s), delay_s)
    way = {"client": 1, "server": 1, "proxy": 2 * (place.cell.settings.path is RequestPath.PROXY)}
    return sum(count * delays.get(tier, 0.0) for tier, count in way.items())


@dataclass(frozen=True)
class Bound:
    """What throughput is at most with twice a station, and who limits then; ``text`` says it.

    ``gain`` is against the plateau where one is shown, as in the text: a signed percentage. ``then`` is the station that would be full,
    empty where none is known. ``clients`` bound it where they send no more; else it is None. Not ``firm``: a request may take less of the
    station then, so that it is no bound.
    """

    text: str
    per_s: float
    gain: str
    then: str = ""
    clients: int | None = None
    firm: bool = True

    @property
    def by_station(self) -> bool:
        """Whether another station bounds, which would be full then."""
        return bool(self.then)

    @property
    def short(self) -> str:
        """For a table: ``at most +14.4 %, then client uplinks``."""
        if not self.firm:
            return f"about {self.gain}"
        sent = f" with {count_text(self.clients, 'client')}" if self.clients is not None else ""
        return f"at most {self.gain}{sent}{f', then {self.then}' if self.then else ''}"


def twice_bound(
    stations: Sequence[Usage],
    station: str,
    throughput: float,
    plateau: float | None,
    sent: Sent | None = None,
    *,
    dearer: bool = False,
) -> Bound:
    """The bound of throughput with twice this station, and who limits then; the gain is against the plateau where one is shown.

    Clients that wait for replies send no more than one request each in the least time that one takes then.

    Where half of the station was shown to lose more than half, a request takes less of it where there is more: then this is no bound.

    A model that leaves out what limits then may say more than this bound, which is not to be had.

    What waits inside for others (workers, readers) is held by a station behind it, and is let go with it: it bounds nothing then. A station
    before the proxy holds none of them, so that they bound like any other.
    """
    own = next(one for one in stations if one.station == station)
    others = [
        one
        for one in stations
        if one.station != station and one.share > 0.0 and (not one.holds or station in BEFORE_PROXY)
    ]
    bounds = {one.station: throughput / min(one.share, 1.0) for one in others}
    doubled = 2.0 * throughput / max(0.5, min(own.share, 1.0))
    nearest = min(bounds, key=lambda name: bounds[name], default="")
    limited = nearest != "" and bounds[nearest] < doubled
    # More of a station takes nothing away: what the plateau shows can be had.
    bound = max(bounds[nearest] if limited else doubled, plateau or 0.0)
    few = sent if sent is not None and max(throughput, plateau or 0.0) <= sent.per_s < bound else None
    bound = few.per_s if few is not None else bound
    gain = f"{signed_percent(100.0 * (bound / (plateau or throughput) - 1.0))} %"
    base = f" over the maximum, {rate(plateau)}" if plateau and rate(plateau) != rate(throughput) else ""
    if dearer and not limited and few is None:
        quota = station in CPU_QUOTAS.values()
        half, more = ("half the quotas", "CPU time") if quota else ("half of them", "of them")
        text = (
            f"With twice the {station} throughput is about {rate(bound)} requests/s ({gain}{base}) if a request takes as much of them as "
            f"now. With {half} a request took more {more}; with twice it may take less."
        )
        return Bound(text, math.inf, gain, firm=False)
    reported = f"With twice the {station} throughput is at most about {rate(bound)} requests/s ({gain}{base})"
    near = own.share >= FULL and bound < _LITTLE * (plateau or throughput)
    if few is not None:
        both = (
            f" They are near that already, as the {station} are near full: twice of one alone brings little."
            if near
            else ""
        )
        text = (
            f"{reported}: {count_text(few.clients, 'client')} send no more, as a request takes about {number(1e3 * few.least_s, 2)} ms "
            f"then.{_left_out(own) if few.built else ''}{both}"
        )
        return Bound(text, bound, gain, clients=few.clients)
    full = f", where the {nearest} are full" if limited else ""
    as_now = _AS_NOW if is_of_cpus(nearest if limited else station) else ""
    both = (
        f" The {station} and the {nearest} are both near full: twice of one alone brings little."
        if near and limited
        else ""
    )
    return Bound(f"{reported}{full}{as_now}.{both}", bound, gain, nearest if limited else "")


def _left_out(own: Usage) -> str:
    """What a least time is made of that was not measured, and what is not in it."""
    half = "" if own.holds else f" and half of its time at the {own.station} now"
    return f" That is the delays that were built{half}; sending over other links is left out."


def modelled_text(
    found: Twice | None, bound: float, measured: float, margins: Margins = DEFAULT_MARGINS, *, by_station: bool = True
) -> str:
    """What the model says of twice the station; nothing where it is far above what can be had, and how that is where it is a little.

    ``by_station``: the bound is that of another station, which would be full then.

    Where the model is far off what was measured, that alone is said: a change of what it says tells nothing of this system.
    """
    if found is None:
        return ""
    off = found.throughput_per_s / measured - 1.0
    if abs(off) > _OFF:
        return (
            f"The model tells nothing of twice the {found.station}: it has {rate(found.throughput_per_s)} requests/s here, "
            f"{signed_percent(100.0 * off)} % against what was measured."
        )
    if found.throughput_then_per_s > _OVER * bound:
        return ""
    if not model_agrees(found, bound, measured):
        above = signed_percent(100.0 * (found.throughput_then_per_s / bound - 1.0)).removeprefix("+")
        unknown = "; which station would be full then is not known" if by_station else ""
        return (
            f"The model says {rate(found.throughput_then_per_s)} requests/s then, {above} % more than this bound allows, so one of the two "
            f"is wrong by that much{unknown}{misses(found, measured, margins)}."
        )
    return sentence(found, misses(found, measured, margins))


def modelled_short(found: Twice) -> str:
    """What a model says that twice of a station brings, for a table: ``+24.8 %, then proxy uplinks``."""
    if abs(found.throughput_percent) < _NOTHING:
        return f"nothing by the model, where the {found.fullest_then} limit"
    then = "the same" if found.fullest_then == found.station else found.fullest_then
    return f"{signed_percent(found.throughput_percent)} %, then {then}"


def model_agrees(found: Twice, bound: float, measured: float) -> bool:
    """Whether a model has what was measured, and no more than the bound allows, so that it is said what would be full then."""
    near = abs(found.throughput_per_s / measured - 1.0) <= _OFF
    return near and found.throughput_then_per_s <= _SAME * bound
