"""The maximum of cells by one rule: loud levels at the far end, levels with one run, the bracket of the knee, and phrases of series."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from weir_lab.report.numbers.maxima import maximum_of, with_fewer
from weir_lab.report.numbers.published import Printed
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Bound, Limit
from weir_lab.report.page.blocks import Value
from weir_lab.report.sections.claims.contrasts import AtMaximum
from weir_lab.report.sections.clients import _ours_text
from weir_lab.report.sections.comparisons import plateaus
from weir_lab.report.sections.comparisons.maxima import _further, _shown, against_printed
from weir_lab.report.sections.comparisons.plateaus import ends_text, names_text, stops_of
from weir_lab.report.sets.results import _by_section, _Found
from weir_lab.theory.linear import Estimate, Within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.report.numbers.maxima import Maximum

MARGIN = 5.0


def cells_of(throughputs: Mapping[int, Sequence[float]]) -> list[CellReadings]:
    """A cell for each number of clients, with a run of each block."""
    found = []
    for clients, rates in throughputs.items():
        settings = SimpleNamespace(clients=clients, population=clients)
        cell = cast("Any", SimpleNamespace(name=f"C{clients}", settings=settings))
        found.append(CellReadings(cell, tuple(a_run(one, block) for block, one in enumerate(rates))))
    return found


def a_run(throughput: float, block: int) -> Any:
    meta = SimpleNamespace(repetition=block, started_unix_ns=block)
    run = SimpleNamespace(meta=meta, folder=Path("sweep") / "runs" / "one")
    return SimpleNamespace(run=run, throughput=throughput, slowness_ns=lambda: None)


def found_of(throughputs: Mapping[int, Sequence[float]]) -> Maximum:
    return maximum_of(cells_of(throughputs), MARGIN)


FLAT = {
    6: [301.0, 299.0, 300.0, 300.5, 300.2],
    24: [582.0, 582.3, 582.1, 582.0, 582.2],
    96: [582.1, 582.0, 582.2, 582.1, 582.0],
    192: [582.2, 581.9, 582.1, 582.0, 582.1],
}


def test_a_loud_level_at_the_far_end_hides_no_plateau_and_is_said_to_fall() -> None:
    found = found_of({**FLAT, 384: [600.0, 470.0, 560.0, 610.0, 520.0]})
    assert found.shown
    assert found.text.startswith("582 requests/s")
    assert found.cell.settings.clients == 24
    assert found.knee_text == "between N = 6 and N = 24"
    assert found.fall_text == "at 384 clients the mean is 5.2 % lower"
    # Which levels the mean is over: 6 clients may have as much by their mean.
    assert _shown(found).startswith(f"shown, mean of {len(found.cells)} levels (24 to ")
    two: Any = SimpleNamespace(shown=True, cells=found.cells[:2], fall_text="", single_text="")
    assert re.fullmatch(r"shown, mean of 2 levels \(24 and \d+ clients\)", _shown(two))
    two.cells = found.cells[:1]
    assert _shown(two) == "shown, mean of 1 level"
    # 570 +- 55 may lie above 582: nothing is shown of it.
    assert found.text.endswith("from 24 clients on, of the levels up to 192")
    assert found_of(FLAT).text.endswith("from 24 clients on")


def test_a_loud_level_that_has_the_largest_mean_is_not_left_out() -> None:
    """There the curve may go on growing, which no other level tells."""
    found = found_of({**FLAT, 384: [690.0, 505.0, 660.0, 720.0, 530.0]})
    assert not found.shown
    assert found.cell.settings.clients == 384
    assert found.knee_text == f"cannot tell: {found.why_not}"


def test_a_largest_mean_before_the_end_of_a_curve_is_flat_or_falls_behind_it_and_is_none_yet_at_the_end() -> None:
    """“No maximum yet” stood behind curves that are flat from a fifth of their levels on, and behind one that loses 40 %."""
    loud = [0.8, 1.0, 1.2, 0.9, 1.1, 1.0]
    rates = {6: 300.0, 24: 560.0, 96: 590.0, 192: 580.0, 384: 575.0}

    def curve(last: float) -> Maximum:
        # Each level has its loud runs in other blocks.
        factors = [[*loud[place:], *loud[:place]] for place in range(len(rates))]
        ends = {**rates, 384: last}
        return found_of({at: [one * ends[at] for one in own] for at, own in zip(ends, factors, strict=True)})

    flat = curve(575.0)
    assert not flat.shown
    assert flat.course == "flat from 24 clients on within what can be seen"
    assert (
        ", flat from 24 clients on within what can be seen, and from how many clients on the most is reached is not shown yet: "
        in flat.text
    )
    falls = curve(287.0)
    assert not falls.shown
    assert falls.course == "falling after that (lower at 384 clients)"
    # A level of one run says nothing, and at the end of a curve nothing stands behind the largest mean.
    ends = found_of({6: [300.0, 500.0, 400.0], 24: [300.0, 500.0, 400.0], 96: [700.0, 400.0, 500.0], 192: [300.0]})
    assert not ends.shown
    assert (ends.course, ends.yet_text) == ("", "no maximum yet")


def test_a_level_that_falls_because_its_runs_begin_slowly_says_so() -> None:
    """Reads of S3 were 5.5 % lower with 384 clients, “why is not known”, and in their last seconds were as many as with 24."""
    for late, why in (
        (
            581.9,
            "the runs there were not steady at once: in their second half throughput is that of the plateau, but for 0.5 %",
        ),
        (560.0, "why is not known"),
        (None, "why is not known"),
    ):
        cells = cells_of({**FLAT, 384: [600.0, 470.0, 560.0, 610.0, 520.0]})
        for run in cells[-1].runs:
            cast("Any", run).late_throughput = late
        found = maximum_of(cells, MARGIN)
        assert found.fall_text == "at 384 clients the mean is 5.2 % lower"
        assert found.fall_why == why
    assert found_of(FLAT).fall_why == "why is not known"


def test_a_series_that_a_slow_machine_leaves_as_it_is_is_judged_by_its_own_runs() -> None:
    """Fifteen levels of one reader were within 3 % of each other, and blocks in which 64 readers were half as fast hid that."""
    rng = np.random.default_rng(8)
    quiet = cells_of({clients: [*rates, *rates] for clients, rates in FLAT.items()})
    machine = rng.uniform(0.5, 1.5, 10)
    loud = cells_of({clients: (9_000.0 * machine * rng.uniform(0.9, 1.1, 10)).tolist() for clients in (7, 25, 97, 193)})
    for cell in quiet:
        object.__setattr__(cell, "among", (*quiet, *loud))
    found = maximum_of(quiet, MARGIN)
    assert found.text.startswith("582 requests/s (58")
    assert found.knee_text == "between N = 6 and N = 24"
    # Too few runs of its own: the others' have to do.
    few = cells_of({clients: rates[:2] for clients, rates in FLAT.items()})
    for cell in few:
        object.__setattr__(cell, "among", (*few, *loud))
    assert not maximum_of(few, MARGIN).shown


ON_A_PLATEAU = {6: [582.0, 582.3, 582.1], 24: [582.1, 582.0, 582.2], 96: [582.2, 581.9, 582.1]}


def test_a_knee_at_the_fewest_clients_is_bracketed_by_fewer_in_runs_of_their_own() -> None:
    """Reads of two studies were at the link with their fewest clients, six, and fifteen curves had no lower side."""
    found = found_of(ON_A_PLATEAU)
    assert found.knee_text == "at or below N = 6: no fewer clients are shown to lie below it"
    # Their machine was a fifth slower: two clients are held against six of the same blocks.
    two, six = cells_of({2: [190.0, 191.0, 190.5], 6: [465.0, 466.0, 465.5]})
    assert with_fewer(found, six, [two], MARGIN).knee_text == "between N = 2 and N = 6"
    # Of two levels below the last is named; a level that is not shown to lie below is none.
    two, four, six = cells_of({2: [190.0, 191.0, 190.5], 4: [380.0, 381.0, 380.5], 6: [465.0, 466.0, 465.5]})
    assert with_fewer(found, six, [two, four], MARGIN).knee_text == "between N = 4 and N = 6"
    two, four, six = cells_of({2: [190.0, 191.0, 190.5], 4: [430.0, 455.0, 440.0], 6: [465.0, 466.0, 465.5]})
    assert with_fewer(found, six, [two, four], MARGIN).knee_text == "between N = 2 and N = 6"


def test_fewer_clients_that_reach_the_plateau_too_move_its_beginning() -> None:
    """Three clients without a proxy had all of what six had, so that neither side of the bracket was near the knee."""
    found = found_of(ON_A_PLATEAU)
    one, two, six = cells_of({1: [281.0, 281.5, 281.2], 2: [562.0, 562.4, 562.2], 6: [582.0, 582.1, 582.2]})
    assert with_fewer(found, six, [one, two], MARGIN).knee_text == "between N = 1 and N = 2"
    assert (
        with_fewer(found, six, [two], MARGIN).knee_text
        == "at or below N = 2: no fewer clients are shown to lie below it"
    )
    assert with_fewer(found, six, [one, two], MARGIN).text == found.text
    # 95 % itself is on no side: the bracket is as wide as what is shown.
    one, two, six = cells_of({1: [281.0, 281.5, 281.2], 2: [540.0, 560.0, 552.9], 6: [582.0, 582.1, 582.2]})
    assert with_fewer(found, six, [one, two], MARGIN).knee_text == "between N = 1 and N = 6"


def test_a_knee_before_the_first_level_of_a_maximum_says_which_clients_reach_it() -> None:
    """“From 24 clients on” stood beside “stops growing between N = 1 and N = 3”, which are not levels of that curve."""
    found = found_of(ON_A_PLATEAU)
    one, two, six = cells_of({1: [281.0, 281.5, 281.2], 2: [562.0, 562.4, 562.2], 6: [582.0, 582.1, 582.2]})
    moved = with_fewer(found, six, [one, two], MARGIN)
    assert _ours_text([moved, moved]) == " (levels of ours with fewer clients: 2 reach what 6 do)"
    two, six = cells_of({2: [190.0, 191.0, 190.5], 6: [465.0, 466.0, 465.5]})
    bracketed = with_fewer(found, six, [two], MARGIN)
    for mixed in ([bracketed], [moved, bracketed]):
        assert _ours_text(mixed) == " (levels of ours with fewer clients)"
    assert _ours_text([found]) == ""


def test_fewer_clients_change_no_bracket_that_the_curve_has_and_one_run_of_them_says_nothing() -> None:
    two, six = cells_of({2: [190.0, 191.0, 190.5], 6: [582.0, 582.1, 582.2]})
    known = found_of(FLAT)
    assert with_fewer(known, six, [two], MARGIN) is known
    open_ = found_of({6: [300.0, 560.0, 420.0], 24: [580.0, 300.0, 420.0], 96: [500.0, 400.0, 300.0]})
    assert not open_.shown
    assert with_fewer(open_, six, [two], MARGIN) is open_
    found = found_of(ON_A_PLATEAU)
    two, six = cells_of({2: [190.0], 6: [582.0, 582.1, 582.2]})
    assert with_fewer(found, six, [two], MARGIN).below is None
    two, six = cells_of({2: [190.0, 191.0], 6: [582.0]})
    assert with_fewer(found, six, [two], MARGIN) is found


def test_a_level_with_one_run_is_not_judged_and_takes_back_a_plateau_that_it_lies_above() -> None:
    found = found_of({**FLAT, 288: [580.0], 384: [581.0]})
    assert found.shown
    assert found.single_text == "2 levels have one run"
    above = found_of({**FLAT, 384: [640.0]})
    assert not above.shown
    assert above.why_not == "1 run at 384 clients lies above, and more runs there would tell"
    assert not found_of({6: [300.0], 24: [582.0, 582.1], 96: [582.0]}).shown


def test_a_curve_that_ends_while_it_rises_has_no_maximum() -> None:
    """Our own study stopped at 64 clients, where a proxy's throughput still grew with them, and the page said that it stops there."""
    rising = {clients: [9.0 * clients + one for one in (0.1, 0.2, 0.3)] for clients in (1, 4, 16, 64)}
    found = found_of(rising)
    assert not found.shown
    assert found.rising
    assert found.cell.settings.clients == 64
    assert "only the most clients that were measured are shown to reach it" in found.why_not
    flat = found_of(rising | {256: [577.0, 576.0, 578.0]})
    assert flat.shown
    assert flat.cell.settings.clients == 64
    # Cells that differ in something else than clients have no such end.
    alike = [cell for rates in ([9.0, 9.1, 9.2], [19.0, 19.1, 19.2]) for cell in cells_of({64: rates})]
    cast("Any", alike[1].cell).name = "another"
    found = maximum_of(alike, MARGIN)
    assert found.shown
    assert found.text.endswith(" at 64 clients")
    assert found.knee_text == "cannot tell: all cells have N = 64"


def test_of_the_levels_that_are_judged_none_is_called_the_maximum_that_does_not_reach_it() -> None:
    """24 clients are just short of 95 % of 96; the far end is loud and falls, so that it is left out in most studies."""
    truth = {6: 0.5, 24: 0.9499, 96: 1.0, 192: 1.0, 384: 0.95}
    rng, draws, wrong, shown = np.random.default_rng(3), 200, 0, 0
    for _ in range(draws):
        spread = {384: 0.1}
        found = found_of(
            {
                clients: [500.0 * share * float(np.exp(rng.normal(0.0, spread.get(clients, 0.004)))) for _ in range(5)]
                for clients, share in truth.items()
            }
        )
        wrong += any(cell.settings.clients == 24 for cell in found.cells)
        shown += found.shown
    # 5 %, but for what chance adds (three standard errors).
    assert wrong / draws <= 0.05 + 3.0 * (0.05 * 0.95 / draws) ** 0.5
    assert shown / draws > 0.7


def test_names_of_series_have_what_they_share_once() -> None:
    assert names_text(["8 workers", "16 workers"]) == "8 and 16 workers"
    assert names_text(["direct"]) == "direct"
    assert names_text(["direct", "8 workers"]) == "direct and 8 workers"
    assert names_text([f"{count} workers, R = 3" for count in range(9)]) == "9 series"
    assert ends_text(581.6, 582.4) == "582"
    assert ends_text(3459.0, 3472.0) == "3,459–3,472"


def test_where_one_station_limits_everything_throughputs_are_reported_by_section() -> None:
    """Fourteen curves of one proxy that is full were reported as four groups of 5 % each, with their sections mixed."""

    def found(title: str, low: float, high: float, *, shown: bool) -> _Found:
        limit = Limit("proxy CPU quotas", "")
        return _Found(title, cast("Any", SimpleNamespace(ends=(low, high), shown=shown, limit=limit)), 0.95)

    reported = _by_section(
        [
            found("Coarse", 15254.0, 15254.0, shown=False),
            found("Fine", 17686.0, 17686.0, shown=True),
            found("Coarse", 19940.0, 19940.0, shown=True),
        ]
    )
    assert reported == (
        "reach 15,254–19,940 requests/s, all where the proxy CPU quotas limit (15,254–19,940 in “Coarse”, some of them largest means; "
        "17,686 in “Fine”)"
    )


RISING = {1: [9.0, 9.02, 8.98], 4: [36.0, 36.1, 35.9], 16: [144.0, 143.6, 144.4], 64: [576.0, 574.0, 578.0]}


def test_without_a_maximum_nothing_is_decided_but_that_it_is_no_less() -> None:
    """A curve that was still rising was once said to stay below a link, by the level at which it ended."""
    for maximum in (found_of(RISING), found_of({**FLAT, 384: [640.0]})):
        assert not maximum.shown
        below = AtMaximum(maximum, Within(Estimate(-0.5, 0.01, 20.0), -math.inf, -0.1))
        assert (below.p_holds, below.p_fails, below.times_more(0.05)) == (1.0, 1.0, math.inf)
        longest = AtMaximum(maximum, Within(Estimate(0.5, 0.01, 20.0), 0.0))
        assert (longest.p_holds, longest.p_fails) == (1.0, 1.0)
        more, less = (
            AtMaximum(maximum, Within(Estimate(value, 0.01, 20.0), 0.0), at_least=True) for value in (0.5, -0.5)
        )
        assert more.p_holds < 0.01
        assert less.p_fails == 1.0
    shown = AtMaximum(found_of(FLAT), Within(Estimate(-0.5, 0.01, 20.0), -math.inf, -0.1))
    assert shown.p_holds < 0.01


def test_one_level_above_a_limit_decides_whether_a_plateau_is_shown_or_not() -> None:
    """Levels at 99.9 % of a link stood beside “cannot tell whether it reaches 90 %”, because a loud level hid the plateau."""
    rising, level = found_of(RISING), Within(Estimate(0.5, 0.01, 20.0), 0.0)
    far = Within(Estimate(-2.0, 0.01, 20.0), 0.0)
    least = AtMaximum(rising, None, at_least=True, levels=(far, level))
    assert least.p_holds < 0.01
    assert (least.p_fails, least.level_that_decides(0.05)) == (1.0, 1)
    most = AtMaximum(rising, None, levels=(Within(Estimate(0.5, 0.01, 20.0), -math.inf, 0.0),))
    assert most.p_fails < 0.01
    assert (most.p_holds, most.level_that_decides(0.05)) == (1.0, 0)
    # A tenth of the error is theirs, shared by all of them.
    weak = Within(Estimate(0.025, 0.01, 20.0), 0.0)
    assert weak.p_holds < 0.05
    assert AtMaximum(rising, None, at_least=True, levels=(weak,)).level_that_decides(0.05) is None
    two = (
        AtMaximum(rising, None, at_least=True, levels=(level, far)),
        AtMaximum(rising, None, at_least=True, levels=(level,)),
    )
    assert two[0].p_holds == pytest.approx(2.0 * two[1].p_holds)
    # Above the upper limit of two a level decides, too; below the lower one it tells nothing.
    high, low = (Within(Estimate(value, 0.01, 20.0), -math.inf, 0.1) for value in (0.5, -0.5))
    assert AtMaximum(rising, None, levels=(high, low)).p_fails < 0.01
    assert AtMaximum(rising, None, levels=(low,)).p_fails == 1.0
    # A plateau that is shown says it by itself.
    shown = AtMaximum(found_of(FLAT), level, at_least=True, levels=(level,))
    assert shown.level_that_decides(0.05) is None


def test_how_many_runs_would_tell_goes_by_what_is_asked_of_the_plateau_too() -> None:
    """Four runs in place of three were once said to do, though the plateau itself was far less sure than a family of conclusions asks."""
    found = found_of({8: [90.0, 97.0, 93.0], 32: [98.0, 103.0, 101.0], 64: [99.0, 104.0, 100.0]})
    assert found.shown
    assert found.plateau is not None
    surely = AtMaximum(found, Within(Estimate(1.0, 0.001, 20.0), 0.0))
    strict = found.plateau.p / 10.0
    assert surely.times_more(found.plateau.p) == 1.0
    assert surely.times_more(strict) > 1.5
    assert surely.doubt(0.05) == ""
    assert "that these levels reach the plateau has p = " in surely.doubt(strict)


def test_ours_stands_against_a_printed_value_only_where_the_same_link_is_full() -> None:
    link, printed = Bound("server uplinks", 600.0), Printed((), 560.0, None, "somewhere")
    against = against_printed(found_of(FLAT), 1.0, printed, link)
    assert isinstance(against, Value)
    assert round(against.value, 1) == 3.9
    slow = against_printed(found_of(FLAT), 0.5, replace(printed, throughput=1120.0), link)
    assert isinstance(slow, Value)
    assert slow.value == pytest.approx(against.value)
    # +127 % compared our full link with one of which the study used 41 %.
    assert against_printed(found_of(FLAT), 1.0, replace(printed, throughput=500.0), link) == "its link was not full"
    assert against_printed(found_of(FLAT), 1.0, printed, Bound("server uplinks", 900.0)) == "no link is full"
    assert against_printed(found_of(FLAT), 1.0, None, link) == "–"


def test_a_second_printed_value_stands_below_what_was_measured_and_does_not_repeat_it() -> None:
    one = cast("Any", SimpleNamespace(workload="reads", name="16 readers"))
    row = _further(one, 216, Printed((), 500.0, None, "648 clients"), "no link is full", 0.4)
    assert row[3:] == ("as above", "", "", "", Value(500.0, digits=0), "no link is full", "648 clients", "", "", "")


def test_series_that_stop_alike_at_other_stations_are_other_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of S4 said that its readers limit with 8 and with 32 of them; with 32 it was the quota of the proxy."""
    found = {
        "8": (21_286.0, "readers"),
        "16": (24_620.0, "quota"),
        "24": (24_100.0, "quota"),
        "32": (21_114.0, "quota"),
    }
    series = [SimpleNamespace(name=name, event=False) for name in found]
    monkeypatch.setattr(plateaus, "series_of", lambda *_: series)
    monkeypatch.setattr(plateaus, "by_workload", lambda group: {"reads": group})
    monkeypatch.setattr(
        plateaus, "maximum_over", lambda _, one: SimpleNamespace(throughput=found[one[0].name][0], name=one[0].name)
    )
    monkeypatch.setattr(plateaus, "_limit", lambda one, _: SimpleNamespace(station=found[one.name][1]))
    task = cast("Any", SimpleNamespace(margins=SimpleNamespace(maximum=MARGIN)))
    stops = stops_of(task)
    assert [[one.name for one in stop.series] for stop in stops] == [["16", "24"], ["8"], ["32"]]
    assert not any(stop.alone for stop in stops)
