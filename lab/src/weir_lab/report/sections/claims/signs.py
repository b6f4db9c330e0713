"""What speaks for a station beside its use: in which part of its time a request waits. `Explained` has both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.maxima import listed
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.numbers.stations import Usage
    from weir_lab.report.sections.claims.confirming import Confirmed

__all__ = [
    "Explained",
    "Sign",
    "agreement",
    "in_trace",
    "part_name",
]

# Where time grows when a station is full: stages of the proxy, or outside of it.
_GROWS = {
    "client uplinks": {"outside"},
    "proxy uplinks": {"backend", "send", "reply", "outside"},
    "server uplinks": {"backend", "outside"},
    "memcached threads": {"backend", "outside"},
    "memcached CPU quotas": {"backend", "outside"},
    "workers": {"queue"},
    "readers": {"queue"},
    "proxy threads": {"read", "dispatch", "queue", "outside"},
    "proxy CPU quotas": set(STAGES) | {"outside"},
    "network threads": {"read", "dispatch", "outside"},
    "load generators": {"outside"},
    "client CPU quotas": {"outside"},
}
_PARTS = {*STAGES, "outside"}
_AGREES = ", agrees"
# Of a time, parts that are smaller than this share of it are not named.
_LITTLE = 0.05


@dataclass(frozen=True)
class Sign:
    """A second sign of what limits, independent of how much a station is used: as a sentence, and ``short`` for a table."""

    text: str
    short: str


@dataclass(frozen=True, eq=False)
class Explained:
    """What is said of a place: ``text`` for the paragraph, and the values of which it is made, for the table of limits.

    ``usage`` is that of the station that limits, or of the fullest one where none is shown to (``limits`` is false then). ``tried`` are
    runs in which one station alone was changed, ``inside`` is what a series of the section itself says, and ``then`` the station that a
    fitted model has fullest with twice of this one.
    """

    name: str
    cell: CellReadings
    usage: Usage | None
    limits: bool
    sign: Sign
    tried: tuple[Confirmed, ...]
    inside: str
    then: str
    shown: bool
    text: str


def agreement(station: str, most: str, held: str) -> tuple[str, str]:
    """Whether the part in which most of the time is speaks for the station: behind a sentence, and in a table.

    ``held`` are full workers or readers inside, if there are: they wait for what limits, and requests for them. Empty where no station is
    known, and in the sentence where every part may grow, so that none speaks for the station or against it.
    """
    expected = _GROWS.get(station, set())
    if held and most == "queue" and "backend" in expected:
        return f", which agrees with that: the {held} wait for the {station}, and requests for the {held}", _AGREES
    if not expected:
        return "", ""
    if expected >= _PARTS:
        return "", ", any part could"
    if most in expected:
        return ", which agrees with that", _AGREES
    return ", which does not agree: another place may limit", ", does not agree"


def part_name(part: str) -> str:
    """``in stage queue``, ``outside of the proxy``."""
    return "outside of the proxy" if part == "outside" else f"in stage {part}"


def in_trace(cell: CellReadings, station: str, held: str) -> Sign:
    """Of a trace, whose clients are always the same: what a request's time is made of, the longest part first."""
    known = [stages for run in cell.runs if (stages := run.stages_s()) is not None]
    if not known:
        return Sign(
            "Its clients are always the same, and no stamp tells where a request's time is spent, on the way or in the server.",
            "no stamps",
        )
    total = cell.mean_response_s
    inside = {stage: sum(one[stage] for one in known) / len(known) for stage in STAGES}
    parts = {**inside, "outside": max(0.0, total - sum(inside.values()))}
    order = sorted((one for one in parts if parts[one] >= _LITTLE * total), key=lambda one: -parts[one])
    most = order[0]
    said = [f"{number(1e3 * parts[one], 2)} ms ({100.0 * parts[one] / total:.0f} %) {part_name(one)}" for one in order]
    agrees, short = agreement(station, most, held)
    return Sign(
        f"Its clients are always the same, so that no time grows with them. The {number(1e3 * total, 1)} ms of a request are "
        f"{listed(said)}. Most is {part_name(most)}{agrees}.",
        f"{100.0 * parts[most] / total:.0f} % {part_name(most)}{short}",
    )
