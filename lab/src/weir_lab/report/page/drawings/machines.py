"""A system under load as a drawing: machines, the links between them, and where in the proxy the stamps of a request lie.

::

    3 client machines
      │ 1 first_byte .. 5 forwarded, down through the proxy's stations       ▲ 7 answered
    2 proxies: network thread, queue, workers                               │
      │                                                                      │ 6 received
    3 memcached servers ─────────────────────────────────────────────────────┘

Narrow, so that a phone shows it at the size of its text. Start with `System`; `system_of` and `draw_system` make the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from weir_lab.records.formats import STAGES
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.units import number

__all__ = ["STAMPS", "Station", "System", "Tier", "draw_system", "system_of"]

STAMPS = ("first_byte", "created", "enqueued", "dequeued", "forwarded", "received", "answered")
"""In the order in which a request passes them; between each two lies one of `STAGES`."""

_WIDTH = 360.0
_MARGIN = 8.0
# Where requests go down, and replies up.
_DOWN, _UP = 40.0, 326.0
_INSIDE_LEFT, _INSIDE_RIGHT = 18.0, 306.0
# Where replies come from the servers.
_BACK = 284.0
_ROW, _GAP = 16.0, 22.0
# Rows of a station: a stamp, the stage between, and a stamp.
_STATION = 3 * _ROW + 12.0
_LINKS = 58.0
_CIRCLE = 7.5


@dataclass(frozen=True)
class Tier:
    """Machines of one kind: how many, what one sends at most (Mbit/s), how long what it receives is on its way (ms).

    ``texts`` are lines below the name.
    """

    name: str
    machines: int
    texts: tuple[str, ...] = ()
    mbit_s: float | None = None
    delay_ms: float | None = None

    @property
    def rate_text(self) -> str:
        """``3 × 40.2 Mbit/s``."""
        if self.mbit_s is None:
            return "no limit of rate"
        return f"{self.machines} × {_short(self.mbit_s)} Mbit/s"

    @property
    def delay_text(self) -> str:
        """``1.75 ms on the way``: to a machine of this tier."""
        return "no delay" if self.delay_ms is None else f"{_short(self.delay_ms)} ms on the way"


@dataclass(frozen=True)
class Station:
    """A part of the proxy that a request passes."""

    name: str


@dataclass(frozen=True)
class System(Panel):
    """A panel that is drawn as machines; its line has how many of each kind. Without ``proxies`` clients ask servers directly.

    ``stations`` are three: what reads a request, what it waits in, and what asks the servers and answers.
    """

    clients: Tier = Tier("", 0)
    servers: Tier = Tier("", 0)
    proxies: Tier | None = None
    stations: tuple[Station, ...] = ()

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """From the clients to the servers."""
        return (self.clients, self.servers) if self.proxies is None else (self.clients, self.proxies, self.servers)

    @property
    def sentence(self) -> str:
        """The drawing in words: for those who cannot see it, and for text pages."""
        parts = [f"{tier.name}, {tier.rate_text}, {tier.delay_text} to each" for tier in self.tiers]
        asked = "; they ask ".join(parts)
        if not self.stations:
            return f"{asked}."
        names = " → ".join(station.name for station in self.stations)
        return f"{asked}. In a proxy a request passes {names}; its stamps are {', '.join(STAMPS)}."


def system_of(
    title: str, clients: Tier, proxies: Tier | None, servers: Tier, stations: tuple[str, str, str] | None
) -> System:
    """The panel of a system; a proxy has its three stations, and without one there are none."""
    if (proxies is None) != (stations is None):
        raise ValueError(f"{title}: a proxy has three stations, and without a proxy there are none.")
    tiers = [tier for tier in (clients, proxies, servers) if tier is not None]
    marks = tuple(
        Mark(float(place), float(tier.machines), note=", ".join((tier.rate_text, tier.delay_text, *tier.texts)))
        for place, tier in enumerate(tiers)
    )
    return System(
        title,
        Axis("Tier", names=tuple(tier.name for tier in tiers)),
        Axis("Machines"),
        (Line("as built", marks, LOOKS[0]),),
        clients=clients,
        servers=servers,
        proxies=proxies,
        stations=tuple(Station(name) for name in stations or ()),
    )


def draw_system(system: System) -> str:
    """The system as an SVG element; a screen reader says its `sentence`."""
    parts = [f'<text class="t" x="{_MARGIN:g}" y="15">{escape(system.title)}</text>']
    y = 24.0 + _tier(parts, system.clients, 24.0)
    if system.proxies is None:
        _links(parts, system.clients, system.servers, y, _UP)
        y += _LINKS
    else:
        _links(parts, system.clients, system.proxies, y, _UP)
        y = _proxy(parts, system.proxies, [station.name for station in system.stations], y + _LINKS)
        _links(parts, system.proxies, system.servers, y, _BACK)
        parts.append(_soft(_DOWN + 13.0, y + 50.0, STAGES[4], "start"))
        y += _LINKS
    height = y + _tier(parts, system.servers, y) + _MARGIN
    return (
        f'<svg class="chart" role="img" aria-label="{escape(system.sentence, quote=True)}" viewBox="0 0 {_WIDTH:g} {height:g}">'
        f"{''.join(parts)}</svg>"
    )


def _tier(parts: list[str], tier: Tier, y: float) -> float:
    """A box of machines at its full width; its height."""
    high = 24.0 + 14.0 * len(tier.texts)
    parts.append(_box(_MARGIN, y, _WIDTH - 2 * _MARGIN, high))
    parts += _named(tier, _MARGIN + 8.0, y)
    return high


def _named(tier: Tier, x: float, y: float) -> list[str]:
    name = f'<text class="t" x="{x:g}" y="{y + 16:g}">{escape(tier.name)}</text>'
    lines = [
        f'<text x="{x:g}" y="{y + 30 + 14 * place:g}">{escape(text)}</text>' for place, text in enumerate(tier.texts)
    ]
    return [name, *lines]


def _links(parts: list[str], above: Tier, below: Tier, y: float, up: float) -> None:
    """Both directions between two tiers: what the machines of one send together, and how long it takes to those of the other."""
    end = y + _LINKS
    parts.append(f'<path class="a" d="M{_DOWN:g} {y:g}V{end - 1:g}m-3 -5l3 5l3 -5"/>')
    parts.append(f'<path class="a" d="M{up:g} {end:g}V{y + 1:g}m-3 5l3 -5l3 5"/>')
    for x, tier, to, anchor in ((_DOWN + 8, above, below, "start"), (up - 8, below, above, "end")):
        first = y + (20.0 if anchor == "start" else 33.0)
        parts.append(_plain(x, first, tier.rate_text, anchor))
        parts.append(_soft(x, first + 13.0, to.delay_text, anchor))


def _proxy(parts: list[str], tier: Tier, stations: list[str], y: float) -> float:
    """A frame with the three stations and the seven stamps; where it ends."""
    top = y + 30.0 + 14.0 * len(tier.texts)
    first, second, third = (top + place * (_STATION + _GAP) for place in range(3))
    bottom = third + _STATION + 10.0
    parts.append(_box(_MARGIN, y, _WIDTH - 2 * _MARGIN, bottom - y, frame=True))
    parts += _named(tier, _DOWN + 13.0, y)
    # Names stand where no stamp does.
    places = ((_INSIDE_RIGHT - 8.0, "end"), (_INSIDE_RIGHT - 8.0, "end"), (_DOWN + 13.0, "start"))
    for name, begin, (x, anchor) in zip(stations, (first, second, third), places, strict=True):
        parts.append(_box(_INSIDE_LEFT, begin, _INSIDE_RIGHT - _INSIDE_LEFT, _STATION))
        parts.append(f'<text class="t" x="{x:g}" y="{begin + 16:g}" text-anchor="{anchor}">{escape(name)}</text>')
    # A queue is drawn as what waits in it.
    strokes = "".join(f"M{230 + 9 * place:g} {second + 26:g}v22" for place in range(6))
    parts.append(f'<path class="a" d="M222 {second + 26:g}h58m-58 22h58{strokes}"/>')
    forwarded = third + 46.0
    parts.append(f'<path class="a" d="M{_DOWN:g} {y:g}V{bottom:g}"/>')
    parts.append(f'<path class="a" d="M{_BACK:g} {bottom:g}V{third + 14:g}H{_UP:g}V{y:g}"/>')
    rows = (first + 14.0, first + 46.0, second + 14.0, second + 46.0, forwarded)
    for place, at in enumerate(rows):
        parts.append(_stamp(_DOWN, at, place, "start"))
    between = (
        first + 30.0,
        first + _STATION + _GAP / 2,
        second + 30.0,
        second + _STATION + _GAP / 2,
    )
    for stage, at in zip(STAGES, between, strict=False):
        parts.append(_soft(_DOWN + 13.0, at + 4.0, stage, "start"))
    parts += [_stamp(_BACK, third + 46.0, 5, "end"), _stamp(_BACK, third + 14.0, 6, "end")]
    parts.append(_soft(_BACK - 13.0, third + 34.0, STAGES[5], "end"))
    return bottom


def _stamp(x: float, y: float, place: int, anchor: str) -> str:
    """The number of a stamp on the line of a request, and its name beside it."""
    beside = x + 13.0 if anchor == "start" else x - 13.0
    return (
        f'<circle class="f c0" cx="{x:g}" cy="{y:g}" r="{_CIRCLE:g}"/><text class="w" x="{x:g}" y="{y + 3.8:g}">{place + 1}</text>'
        f'<text x="{beside:g}" y="{y + 4:g}" text-anchor="{anchor}">{STAMPS[place]}</text>'
    )


def _box(x: float, y: float, width: float, height: float, *, frame: bool = False) -> str:
    style = "g" if frame else "a"
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def _plain(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _soft(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="x" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(value: float) -> str:
    """At most three digits behind the point, and none for nothing."""
    return number(value, 3).rstrip("0").rstrip(".")
