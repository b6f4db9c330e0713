"""Whether a station limits, by runs in which that station alone was changed: `confirm_set`.

A changed cell is held against the section's cell with the same settings. One night and one kind of machine made both, but in two
sweeps, so that no block has both: the interval takes in how much runs differ in general. All of a set are judged together (Holm), apart
from the conclusions of the study, for these runs are ours.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import RequestPath, Role
from weir_lab.report.common import OF_PROXIES, cell_words, level_value, workload_name
from weir_lab.report.numbers.comparing import throughput_of
from weir_lab.report.numbers.maxima import listed, more_text
from weir_lab.report.numbers.stations import CPU_QUOTAS, links_off
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.claims.asked import CANNOT_TELL, NO_DATA, all_cells, change_text, fewest
from weir_lab.report.sections.claims.contrasts import Pair, ratio_over
from weir_lab.theory.linear import Answer, Estimate, Within, judge_all
from weir_lab.theory.units import count_text, number, rate, signed_percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.design import Settings
    from weir_lab.design.whole.sets import More
    from weir_lab.report.common import Task
    from weir_lab.report.numbers.readings import SweepReadings
    from weir_lab.report.page.blocks import Entry

__all__ = [
    "CONFIRMED",
    "NOT_CONFIRMED",
    "Confirmed",
    "Weighed",
    "confirm_set",
    "confirming_table",
    "lost_more",
    "over_pairs",
    "pairs_of",
    "single_text",
    "used_before",
    "verdicts_of",
]

CONFIRMED, NOT_CONFIRMED = "confirmed", "not confirmed"
_VERDICTS = {Answer.HOLDS: CONFIRMED, Answer.DOES_NOT_HOLD: NOT_CONFIRMED, Answer.CANNOT_TELL: CANNOT_TELL}
# What a verdict says of the station that was changed.
_LIMITS = {CONFIRMED: "yes", NOT_CONFIRMED: "no"}
# How the name of their table ends.
_NAME = "-confirming"
# The column of the station that limits the unchanged cell.
_THERE, _NONE = "Limits there", "–"
# A station of which half was tried, and from where on its use is called all of the time.
_HALF, _ALL = 0.5, 0.995
# That more than half is lost is said at this level, one-sided.
_ALPHA = 0.025
_TIERS = {"proxy CPU quotas": "proxy", "memcached CPU quotas": "server", "client CPU quotas": "client"}


@dataclass(frozen=True)
class Weighed:
    """A change of one station, with the section that it is held against and the runs with the change; None without any."""

    more: More
    task: Task | None
    sweep: SweepReadings | None


@dataclass(frozen=True, eq=False)
class Confirmed:
    """What came of it: ``confirmed``, ``not confirmed``, ``cannot tell`` or ``no data``, and why.

    ``evidence`` is from where throughput goes to where, or why nothing is known; ``change`` is that in percent with its interval, and
    ``basis`` the limit that decides, with the runs behind it. ``pairs`` are unchanged and changed cells.
    """

    more: More
    verdict: str
    evidence: str
    pairs: tuple[Pair, ...] = ()
    estimate: Estimate | None = None
    """The change of throughput on logarithms; None where it is not known."""
    basis: str = ""
    change: str = ""

    @property
    def changed_text(self) -> str:
        """``twice the server uplinks``, ``half the proxy CPU quotas``."""
        return f"{self._times_text} the {self.more.changes}"

    def short_beside(self, clients: int, over_plateau: float | None = None) -> str:
        """``half: −50.0 %, confirmed``, for a table that names the station; with its clients where a row has others.

        ``over_plateau``: the change in percent against the plateau, where the unchanged level lies below it.
        """
        if self.estimate is None:
            return f"{self._times_text} of it: {'too few runs to tell' if self.verdict == NO_DATA else self.verdict}"
        own = sorted({pair.base.settings.population for pair in self.pairs})
        at = (
            f" at {' to '.join(str(one) for one in dict.fromkeys((own[0], own[-1])))} clients"
            if own and clients not in own
            else ""
        )
        if over_plateau is not None:
            return (
                f"{self._times_text}{at}: {signed_percent(over_plateau)} % against the plateau ({_middle(self.estimate)} % against the "
                f"same clients, who had fallen below it), {self.verdict}"
            )
        return f"{self._times_text}{at}: {_middle(self.estimate)} %, {self.verdict}"

    @property
    def _times_text(self) -> str:
        return {2.0: "twice", 0.5: "half"}.get(self.more.times, f"{self.more.times:g} times")

    @property
    def levels_text(self) -> str:
        """`` (64 to 128)``: from which levels to which a setting was changed; a section has others that stop elsewhere."""
        setting = self.more.setting
        ends = [(pair.base.level(setting), pair.other.level(setting)) for pair in self.pairs] if setting else []
        steps = [f"{base} to {other}" for base, other in dict.fromkeys(ends)]
        return f" ({', '.join(steps)})" if steps else ""


@dataclass(frozen=True)
class _Asked:
    pairs: tuple[Pair, ...]
    estimate: Estimate
    question: Within


def confirm_set(changes: Sequence[Weighed]) -> list[Confirmed]:
    """A verdict for each, in their order."""
    asked = [_ask(one) for one in changes]
    tested = [one for one in asked if isinstance(one, _Asked)]
    answers = iter(judge_all([(one.question,) for one in tested]))
    found = []
    for change, one in zip(changes, asked, strict=True):
        if isinstance(one, Confirmed):
            found.append(one)
            continue
        answer = next(answers)
        cells = [cell for pair in one.pairs for cell in (pair.base, pair.other)]
        rates = [sum(cell.mean_throughput for cell in side) / len(one.pairs) for side in (cells[::2], cells[1::2])]
        evidence = f"{over_pairs(len(one.pairs))}throughput goes from {rate(rates[0])} to {rate(rates[1])} requests/s"
        shown = change_text(one.estimate, answer.alpha)
        basis = (
            f"it limits from {signed_percent(change.more.percent)} % on, by an interval of {100.0 * (1.0 - answer.alpha):.4g} %, with "
            f"{fewest(cells)} runs or more of each"
        )
        if answer.answer is Answer.CANNOT_TELL:
            basis += f"; {more_text(answer.times_more, fewest(cells))}"
        basis += _links_text(change, one.pairs)
        found.append(Confirmed(change.more, _VERDICTS[answer.answer], evidence, one.pairs, one.estimate, basis, shown))
    return found


def verdicts_of(confirmed: Sequence[Confirmed]) -> dict[str, str]:
    """Each verdict by what was changed; where a section has the same change twice, with the cell at which it was made."""
    counted = Counter(one.changed_text for one in confirmed)
    found: dict[str, str] = {}
    for one in confirmed:
        at = f" ({cell_words(one.pairs[0].base)})" if counted[one.changed_text] > 1 and one.pairs else ""
        found[one.changed_text + at] = one.verdict
    return found


def over_pairs(count: int) -> str:
    """That a change is that of several pairs, where it stands beside the numbers of one of them."""
    return "" if count < 2 else f"over {'both settings' if count == 2 else f'all {count} settings'} together "


def _links_text(change: Weighed, pairs: Sequence[Pair]) -> str:
    """Links that were not as they were built in one of the two sweeps: the change is that of these, too."""
    if change.sweep is None:
        return ""
    changed, base = (
        set(links_off(change.sweep)),
        set(links_off(_with_bases(change.task, pairs)) if change.task is not None else ()),
    )
    return "".join(
        f"; before the {name} runs {' and '.join(sorted(own - other))}"
        for name, own, other in (("changed", changed, base), ("unchanged", base, changed))
        if own - other
    )


def confirming_table(
    name: str, confirmed: Sequence[Confirmed], limits: Mapping[Pair, str] | None = None
) -> Table | None:
    """Unchanged against changed, of the section with this name; None where nothing could be held against another.

    ``limits`` are the stations that limit unchanged cells; they have no column where none is known.
    """
    rows: list[tuple[Entry, ...]] = []
    known = any((limits or {}).get(pair) for one in confirmed if one.estimate is not None for pair in one.pairs)
    for one in confirmed:
        if one.estimate is None:
            continue
        for pair in one.pairs:
            settings = pair.base.settings
            rows.append(
                (
                    f"{one.changed_text}{one.levels_text}",
                    f"{workload_name(settings)}, {count_text(settings.clients, 'client')}, {count_text(settings.servers, 'server')}",
                    *([(limits or {}).get(pair) or _NONE] if known else []),
                    level_value(pair.base, throughput_of, digits=0),
                    level_value(pair.other, throughput_of, digits=0),
                    f"{len(pair.base.runs)}, {len(pair.other.runs)}",
                    _percent(one.estimate),
                    Value(one.more.percent, digits=0, signed=True),
                    _LIMITS.get(one.verdict, one.verdict),
                )
            )
    if not rows:
        return None
    return Table(
        f"{name}{_NAME}",
        "Confirming runs. In each one station alone was changed, against the section's run with the same settings. The change is the mean "
        "of all pairs with that station changed, with its 95 % interval alone; the chance that any verdict of such runs of the study is "
        f"wrong is at most 5 %.{_also_differs(confirmed)}",
        (
            "Changed",
            "At",
            *([_THERE] if known else []),
            "X unchanged (requests/s)",
            "X changed (requests/s)",
            "Runs (unchanged, changed)",
            "Change (%)",
            "Least change if it limits (%)",
            "It limits",
        ),
        tuple(rows),
    )


def _also_differs(confirmed: Sequence[Confirmed]) -> str:
    """What was not the same beside the station, where the testbed knows: its loop that keeps cores awake took time from one of the two."""
    found: dict[str, list[str]] = {}
    for one in confirmed:
        # Without an estimate it has no row.
        for pair in one.pairs if one.estimate is not None else ():
            places = [cell.runs[0].run.meta.testbed for cell in (pair.base, pair.other)]
            took = [place.awake_took_time for place in places if place is not None]
            if len(set(took)) > 1:
                found.setdefault("unchanged" if took[0] else "changed", []).append(one.changed_text)
    return "".join(
        f" Another difference: in the {which} runs for {listed(list(dict.fromkeys(names)))} the loop that keeps cores awake took CPU time "
        f"from the machines; in the {'changed' if which == 'unchanged' else 'unchanged'} ones it did not."
        for which, names in found.items()
    )


def single_text(one: Confirmed) -> str:
    """``one of the two cells has a single run``; empty where all that are held against each other have more."""
    single = [len(cell.runs) < 2 for pair in one.pairs for cell in (pair.base, pair.other)]
    if not any(single):
        return ""
    if len(one.pairs) > 1:
        return "some of the cells have a single run"
    return "both cells have a single run" if all(single) else "one of the two cells has a single run"


def used_before(one: Confirmed) -> str:
    """How much a station was used of which half limits: a drop of 40 % is that of one which was used 83 % of the time."""
    if one.verdict != CONFIRMED or one.more.times != _HALF or one.estimate is None:
        return ""
    share = 1.0 / (2.0 * math.exp(one.estimate.value))
    if lost_more(one):
        why = _dearer_text(one) or ", so a request takes more of it then, or another one slows down, too."
        return f"A station that is used all of the time loses half with half of it; here more is lost{why}"
    used = "all of the time" if share >= _ALL else f"{100.0 * share:.0f} % of the time"
    return f"A station that is used all of the time loses half with half of it; this change is that of one that was used {used}."


def lost_more(one: Confirmed) -> bool:
    """Whether runs with half of a station show that more than half is lost, by the 95 % interval of that change alone."""
    if one.verdict != CONFIRMED or one.more.times != _HALF or one.estimate is None:
        return False
    return Within(one.estimate, -math.inf, math.log(_HALF)).p_holds <= _ALPHA


def _dearer_text(one: Confirmed) -> str:
    """What a request takes of the proxies' CPU time before and with half of their quotas; empty for other stations."""
    if one.more.changes != CPU_QUOTAS["proxy"]:
        return ""
    cells = ([pair.base for pair in one.pairs], [pair.other for pair in one.pairs])
    spent = [[at for cell in side for at in cell.of(lambda run: run.cpu_s(Role.PROXY))] for side in cells]
    if not all(spent):
        return ""
    before, after = (number(1e6 * sum(found) / len(found), 1) for found in spent)
    return f": a request takes {before} µs of the proxies' CPU time, and {after} µs with half the quotas."


def _middle(found: Estimate) -> str:
    """A change in percent, as evidence has it."""
    return signed_percent(100.0 * math.expm1(min(found.value, 700.0)))


def _percent(found: Estimate) -> Value:
    low, high = Within(found).interval(0.05)
    middle, first, last = (100.0 * math.expm1(min(one, 700.0)) for one in (found.value, low, high))
    return Value(middle, first, last, 1, signed=True)


def _ask(change: Weighed) -> _Asked | Confirmed:
    more, task, sweep = change.more, change.task, change.sweep
    if task is None or sweep is None:
        missing = f"{more.file} has no valid runs here" if sweep is None else "the section has no runs"
        return Confirmed(more, NO_DATA, missing)
    pairs = pairs_of(more, task, sweep)
    if not pairs:
        return Confirmed(more, NO_DATA, "no cell of the section has the settings of a changed one")
    hindered = _hindered(more, _with_bases(task, pairs), sweep)
    if hindered:
        return Confirmed(more, CANNOT_TELL, hindered, pairs)
    try:
        found = ratio_over(pairs, [*all_cells(task), *sweep.cells], throughput_of)
    except ValueError as error:
        return Confirmed(more, NO_DATA, f"what is there is too thin: {error}", pairs)
    if found is None:
        return Confirmed(more, NO_DATA, "two runs of each cell are needed", pairs)
    limit = math.log1p(more.percent / 100.0)
    return _Asked(pairs, found, Within(found, limit) if more.percent > 0.0 else Within(found, -math.inf, limit))


def pairs_of(more: More, task: Task, sweep: SweepReadings) -> tuple[Pair, ...]:
    """Unchanged and changed cells. Of a setting that is changed, the unchanged one has the changed level over ``times``."""
    found = []
    for cell in sweep.cells:
        if any(getattr(cell.settings, name) != level for name, level in more.at.items()):
            continue
        wanted = _alike(cell.settings, more, changed=True)
        base = next((one for one in all_cells(task) if _alike(one.settings, more, changed=False) == wanted), None)
        if base is not None:
            found.append(Pair(base, cell))
    return tuple(found)


def _alike(settings: Settings, more: More, *, changed: bool) -> dict[str, object]:
    """The settings that decide. Direct access has none of a proxy, and a get of one key is never split."""
    left_out = OF_PROXIES if settings.path is RequestPath.DIRECT else set()
    if settings.multiget_keys == 1:
        left_out = left_out | {"multiget"}
    found = {name: value for name, value in settings.model_dump(mode="json").items() if name not in left_out}
    if more.setting and changed and found.get(more.setting) is not None:
        found[more.setting] = round(float(str(found[more.setting])) / more.times)
    return found


def _with_bases(task: Task, pairs: Sequence[Pair]) -> SweepReadings:
    """The sweep of the section that has the unchanged cells: a section may have others, without a proxy."""
    return next(one for one in task.sweeps if pairs[0].base in one.cells)


def _hindered(more: More, base: SweepReadings, sweep: SweepReadings) -> str:
    """Why the change cannot be distinguished from others; empty where it can."""
    if base.speed != sweep.speed:
        return "the runs were made at different speeds of the machines"
    if more.changes.endswith("uplinks") and not (base.links_built and sweep.links_built):
        return "these runs were made without limited links; make them on netns"
    tier = _TIERS.get(more.changes)
    if tier is not None and not all(_has_quota(one, tier) for one in (base, sweep)):
        return "these runs were made without CPU quotas; make them on netns"
    return ""


def _has_quota(sweep: SweepReadings, tier: str) -> bool:
    machines = sweep.testbed.machines if sweep.testbed is not None else []
    return any(machine.cpus for machine in machines if machine.name.startswith(f"{tier}-"))
