"""What changes in each response from the first cell of a group to its last: over copies, or over the share of writes. `ends_of`.

`response_points` open with the changes that are shown, and have all of them, with their intervals, behind that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weir_lab.report.common import Point, brief, stage_bar
from weir_lab.report.numbers.comparing import change_between, throughput_of
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.sections.comparisons.plateaus import names_text
from weir_lab.theory.stats import FALSE_DISCOVERIES, benjamini_hochberg
from weir_lab.theory.units import count_text, signed_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading
    from weir_lab.theory.linear import Change

__all__ = ["Effect", "changes_text", "copies_text", "ends_of", "response_points", "writes_text"]

_ALONE = " among all comparisons of the page; taken alone, {} would have one"
# More changes than these are said by their ends.
_NAMED_MAX = 3
# The response behind which stands in which stage it is longest.
_LONGEST = "SET response time"
_SETTING = "setting"


def _responses() -> list[tuple[str, Callable[[Reading], float | None]]]:
    return [
        ("throughput", throughput_of),
        ("GET response time", lambda run: run.operation_s("get")),
        ("SET response time", lambda run: run.operation_s("set")),
    ]


class Effect(NamedTuple):
    """What changes in a response from the first cell of a group to its last; ``q`` is adjusted for all that are asked for together."""

    label: str
    first: CellReadings
    last: CellReadings
    name: str
    change: Change
    q: float

    @property
    def shown(self) -> bool:
        """Whether it is one of those of which at most 5 % are wrong on average."""
        return self.q <= FALSE_DISCOVERIES


def ends_of(cells: Sequence[CellReadings], groups: Mapping[str, Sequence[CellReadings]]) -> list[Effect]:
    """Every response of every group whose first and last cell have two runs each."""
    found: list[tuple[str, CellReadings, CellReadings, str, Change]] = []
    for label, group in groups.items():
        if len(group) < 2 or min(len(group[0].runs), len(group[-1].runs)) < 2:
            continue
        for name, value in _responses():
            change = change_between(cells, group[0], group[-1], value)
            if change is not None:
                found.append((label, group[0], group[-1], name, change))
    adjusted = benjamini_hochberg([change.p for *_, change in found])
    return [Effect(*one, q) for one, q in zip(found, adjusted, strict=True)]


def _not_shown(one: Effect) -> str:
    """What stands behind a change that is not shown: its own interval may leave out 0 where those of all comparisons do not."""
    if one.shown:
        return ""
    alone = one.change.low > 0.0 or one.change.high < 0.0
    return ", for it alone; among all comparisons of the page not shown" if alone else ", no difference shown"


def changes_text(effects: Sequence[Effect]) -> str:
    """The change of each; that none is shown is said once."""
    if not any(one.shown for one in effects) and len(effects) > 1:
        changes = "; ".join(f"{one.name} {brief(one.change)}" for one in effects)
        alone = [one.name for one in effects if one.change.low > 0.0 or one.change.high < 0.0]
        return f"{changes}; no difference is shown" + (_ALONE.format(listed(alone)) if alone else "")
    return "; ".join(f"{one.name} {brief(one.change)}{_not_shown(one)}" for one in effects)


def copies_text(effects: Sequence[Effect]) -> str:
    """What happens from the first cells to the last where these differ in their copies."""
    ends = [(one.first.settings, one.last.settings) for one in effects]
    full = all(few.replicas == 1 and many.replicas == many.servers for few, many in ends)
    return "from no copies to full replication" if full else "from the fewest copies to the most"


def writes_text(effects: Sequence[Effect]) -> str:
    """The same where they differ in their share of writes."""
    ends = {(one.first.settings.write_ratio, one.last.settings.write_ratio) for one in effects}
    if len(ends) != 1:
        return "from the fewest writes to the most"
    ((few, many),) = ends
    return f"from {100 * few:g} to {100 * many:g} % writes"


def response_points(effects: Sequence[Effect], step: str, *, longest: bool = False) -> list[Point]:
    """Of each response the changes that are shown over a ``step``; behind them all of them, with intervals.

    Where copies differ, behind those of SETs stands in which stage these are ``longest``.
    """
    points = []
    for name in dict.fromkeys(one.name for one in effects):
        own = [one for one in effects if one.name == name]
        changes = "; ".join(f"{_group_text(one, own)} {brief(one.change)}{_not_shown(one)}" for one in own)
        rest = f"One by one: {changes}."
        if longest and name == _LONGEST:
            rest += _all_longest_text(own)
        points.append(Point(f"{name[0].upper()}{name[1:]}, {step}: {_shown_text(own)}.", rest))
    return points


def _shown_text(own: Sequence[Effect]) -> str:
    """``−8.85 % (7 servers); no difference is shown with 3 and 5 servers``; of many changes the ends."""
    alike = _by_servers_alone(own)
    shown, others = [one for one in own if one.shown], [one for one in own if not one.shown]
    named = names_text([_group_text(one, own) for one in others]) if others and alike else ""
    if not shown:
        return f"no difference is shown {f'with {named}' if named else f'in any of {count_text(len(own), _SETTING)}'}"
    if len(shown) > _NAMED_MAX:
        changes = [one.change.percent for one in shown]
        many = f"{len(shown)} of {len(own)}" if others else f"all {len(own)}"
        said = f"{signed_percent(min(changes))} to {signed_percent(max(changes))} % in {many} settings"
    else:
        said = listed([f"{signed_percent(one.change.percent)} % ({_group_text(one, own)})" for one in shown])
    where = f"with {named}" if named else f"in the other {'one' if len(others) == 1 else len(others)}"
    return f"{said}; no difference is shown {where}" if others else said


def _group_text(one: Effect, own: Sequence[Effect]) -> str:
    """What names an effect among others: its servers, where these alone tell them apart."""
    return count_text(one.first.settings.servers, "server") if _by_servers_alone(own) else one.label


def _by_servers_alone(own: Sequence[Effect]) -> bool:
    return len({one.first.settings.servers for one in own}) == len(own)


def _all_longest_text(own: Sequence[Effect]) -> str:
    """The same of all, those with the same stage together."""
    groups: dict[str, list[str]] = {}
    for one in own:
        if found := _longest_text(one):
            groups.setdefault(found, []).append(_group_text(one, own))
    return "".join(f" With {names_text(names)}, {found}." for found, names in groups.items())


def _longest_text(one: Effect) -> str:
    """In which stage of the proxy a SET is longest at both ends of a change; empty without a proxy."""
    stages = [_dominant(cell, "set") for cell in (one.first, one.last)]
    few, many = (cell.settings.replicas for cell in (one.first, one.last))
    if not all(stages):
        return ""
    if stages[0] == stages[1]:
        return f"in the proxy a SET is longest in stage {stages[0]} at both"
    return f"in the proxy a SET is longest in stage {stages[0]} at R = {few}, in stage {stages[1]} at R = {many}"


def _dominant(cell: CellReadings, operation: str) -> str:
    bar = stage_bar("", cell, operation)
    return max(bar.parts, key=lambda part: part[1])[0] if bar is not None else ""
