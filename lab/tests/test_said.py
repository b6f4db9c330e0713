"""Sentences of reports that two readers marked down: each says what its numbers carry, and no more."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weir_lab.design import RequestPath, Settings, load_study, parse_study
from weir_lab.report.common import design_rows
from weir_lab.report.numbers.maxima import more_text
from weir_lab.report.numbers.readings import CellReadings
from weir_lab.report.numbers.stations import Usage
from weir_lab.report.page.blocks import Finding, Table, Text, Value
from weir_lab.report.sections import clients, multigets
from weir_lab.report.sections.claims import asked, rules
from weir_lab.report.sections.claims.asked import Asked, Compared, _either_way_text, _spread_text
from weir_lab.report.sections.claims.confirming import Weighed, _links_text
from weir_lab.report.sections.claims.contrasts import AtMaximum, Pair, by_own_runs, level_against_one, within_percent
from weir_lab.report.sections.claims.family import _level
from weir_lab.report.sections.claims.limits.why import _sign
from weir_lab.report.sections.claims.rules import _own_text
from weir_lab.report.sections.clients import _first
from weir_lab.report.sections.comparisons.beside import _hops
from weir_lab.report.sections.comparisons.queued import queue_grows
from weir_lab.report.sections.models import networks
from weir_lab.report.sections.models.open_stations import loads_of
from weir_lab.report.sets.assembling import _design, _link_notes, _met_busy, _testbed_notes, _testbeds
from weir_lab.report.sets.machines import scale_texts
from weir_lab.report.sets.results import again_blocks, drift_limits, in_part_text
from weir_lab.theory.linear import Estimate, Within, judge_all
from weir_lab.theory.stats import Interval

DATA = Path(__file__).parent / "data" / "whole"


def a_cell(clients: int, *, waiting: float = 0.0, set_s: float | None = None, rate: float = 1000.0) -> Any:
    run = SimpleNamespace(
        throughput=rate,
        stages_s=lambda: {"queue": waiting / rate},
        operation_s=lambda name: set_s if name == "set" else None,
        run=SimpleNamespace(meta=SimpleNamespace(measured_s=None), cpu=SimpleNamespace(cores=2)),
    )
    settings = SimpleNamespace(clients=clients, population=clients, servers=3, multiget_keys=9)
    found: Any = SimpleNamespace(runs=(run,), settings=settings)
    found.of = lambda value: [one for one in [value(run)] if one is not None]
    return found


def series(*cells: Any) -> Any:
    return SimpleNamespace(cells=cells)


@pytest.mark.parametrize(
    ("lengths", "grows"),
    [
        pytest.param((0.03, 3.0), False, id="3 of 192 are few, however much they grew"),
        pytest.param((0.03, 150.0), True, id="most of 192"),
        pytest.param((5.0, 9.0), False, id="9 of 192"),
        pytest.param((100.0, 150.0), None, id="many at all levels"),
    ],
)
def test_a_queue_grows_where_many_of_the_requests_wait_in_it(lengths: tuple[float, float], grows: bool | None) -> None:
    assert queue_grows(series(a_cell(6, waiting=lengths[0]), a_cell(192, waiting=lengths[1]))) is grows


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [((6, 24, 48, 192), [6, 192]), ((6, 24, 48, 384, 480), [24, 384]), ((12,), [12])],
)
def test_light_load_is_that_of_s3_only_where_its_heavy_load_is_there_too(
    levels: tuple[int, ...], wanted: list[int]
) -> None:
    """At 24 clients S5's links are full."""
    assert [one.settings.clients for one in loads_of(series(*map(a_cell, levels)))] == wanted


def shares(monkeypatch: pytest.MonkeyPatch, whole: float, split: float, *, servers: int = 3) -> str:
    cells = [a_cell(12, set_s=one) for one in (0.0186, 0.0247)]
    for cell in cells:
        cell.settings.servers = servers
    used = {id(cells[0]): whole, id(cells[1]): split}
    monkeypatch.setattr(multigets, "usages", lambda cell, _: [Usage("server uplinks", used[id(cell)], "")])
    task: Any = SimpleNamespace(
        first=SimpleNamespace(links_built=True, study=SimpleNamespace(topology=SimpleNamespace(built_links=None)))
    )
    return " ".join(multigets._beside_points(task, {"whole": [cells[0]], "sharded": [cells[1]]}))


def test_splitting_says_what_it_does_to_sets_and_to_the_links_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shares(monkeypatch, 0.81, 0.986)
    assert "Beside gets of 9 keys a SET takes 18.6 ms where they are whole and 24.7 ms where they are split." in said
    assert "With 9 keys whole gets use 81 % of the server uplinks, split ones 99 %." in said
    assert "while others may idle; a split one uses several at once." in said
    # Of one server, or of links as full as before, nothing was idle.
    assert "idle" not in shares(monkeypatch, 0.81, 0.986, servers=1)
    assert "idle" not in shares(monkeypatch, 0.95, 0.98)


def test_a_mean_over_pairs_says_how_far_these_lie_apart() -> None:
    """+16 % with a narrow interval was the mean of -1.9, -1.7 and +63 %."""
    pairs = [Pair(a_cell(6, rate=low), a_cell(6, rate=high)) for low, high in ((838, 822), (1666, 1638), (2121, 3458))]
    found = Compared(Estimate(0.0, 1.0, 5.0), pairs, 0)
    said = _spread_text(found, lambda run: run.throughput, 5.0)
    # The means of runs, not the change with the blocks taken out that stands before.
    assert said == "; over these pairs plain means change by −1.91 to +63.0 %, by more than 5 % in 1 of them"
    assert not _spread_text(Compared(found.estimate, pairs[:1], 0), lambda run: run.throughput, 5.0)


@pytest.mark.parametrize(
    ("percent", "error", "said"),
    [
        (-0.15, 0.13, ", less than 0.5 % either way"),
        (-0.23, 1.2, ", less than 5 % either way"),
        (-3.3, 1.5, ""),
        (-0.7, 0.2, ""),
        (0.7, 0.2, ""),
        (0.0, 900.0, ""),
    ],
)
def test_an_open_direction_of_a_small_change_is_said_to_be_small(percent: float, error: float, said: str) -> None:
    """“Cannot tell” alone stood beside −0.15 % (−0.43 to +0.14): no gain that anybody could use is left in that."""
    found = Estimate(math.log1p(percent / 100.0), error / 100.0, 40.0)
    assert _either_way_text(found, 0.05) == said


def test_a_step_that_goes_against_the_whole_is_named_with_its_interval_and_in_the_summary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """“1 to 32 read threads: +209 %, holds” had its last step, −19.3 %, without a word that this one is shown."""
    whole = Compared(Estimate(1.1, 0.01, 50.0), [], 0)
    steps = {(1.0, 16.0): 1.34, (16.0, 32.0): -0.214, (32.0, 64.0): -0.01}
    monkeypatch.setattr(
        asked,
        "compared",
        lambda _claim, _task, _cells, ends, _value: Compared(Estimate(steps[ends], 0.03, 50.0), [], 0),
    )
    claim: Any = SimpleNamespace(args={"factor": "readers"})
    task: Any = None

    def said(levels: list[float]) -> str:
        return asked._steps_text(claim, task, [], levels, lambda run: run.throughput, whole, 0.05)

    text = said([1.0, 16.0, 32.0, 64.0])
    assert text == (
        "; step by step 1 to 16 +282 %, 16 to 32 −19.3 %, 32 to 64 −1.00 %; within it, the other way: 16 to 32 −19.3 % (−24.0 to −14.3)"
    )
    # A step that may be none is not named.
    steps[16.0, 32.0] = -0.05
    assert asked.THE_OTHER_WAY not in said([1.0, 16.0, 32.0])
    findings = [
        Finding("a", "More threads give more.", verdict, f"throughput changes{text}; intervals of 95 %")
        for verdict in ("holds", "cannot tell")
    ]
    assert in_part_text(findings) == (
        " “More threads give more” holds from end to end, but reverses within: 16 to 32 −19.3 % (−24.0 to −14.3)."
    )


def test_a_setting_that_an_earlier_sweep_has_too_stands_beside_it() -> None:
    """Two sweeps of S4 had 15,036 and 15,845 requests/s with 16 readers and 384 clients; one with 396 clients is another setting."""

    def part(
        name: str, clients: int, *rates: float, readers: int = 16, kind: str = "clients", topology: str = "one"
    ) -> Any:
        settings = Settings(engine="split", readers=readers, servers=5, clients=clients, client_machines=3)
        runs = tuple(
            SimpleNamespace(
                throughput=rate,
                slowness_ns=lambda: None,
                run=SimpleNamespace(
                    meta=SimpleNamespace(repetition=place, started_unix_ns=place), folder=Path(name) / "runs" / "x"
                ),
            )
            for place, rate in enumerate(rates)
        )
        named: Any = SimpleNamespace(name="c", settings=settings, levels=(("readers", readers), ("clients", clients)))
        sweep = SimpleNamespace(
            folder=Path(name), study=SimpleNamespace(topology=topology), links_built=True,
            cells=(CellReadings(named, runs),),  # type: ignore[arg-type]
        )  # fmt: skip
        return SimpleNamespace(spec=SimpleNamespace(name=name, kind=kind), sweeps=(sweep,))

    earlier = [
        part("s4-max1", 384, 14_000.0, 16_000.0),
        part("far", 288, 1.0, 2.0),
        part("others", 384, 1.0, 2.0, readers=8),
        part("more-links", 384, 1.0, 2.0, topology="another"),
        part("trace", 384, 1.0, 2.0, kind="trace"),
    ]
    text, table = again_blocks(part("s4-max3", 384, 18_000.0, 21_000.0), earlier)
    assert isinstance(text, Text)
    assert text.points == (
        "1 setting of this section was measured in another sweep of an earlier section, too, at other hours; it had 19,500 "
        "requests/s (2 runs) here, 15,000 requests/s (2 runs) in s4-max1 (+30.0 %).",
    )
    assert isinstance(table, Table)
    assert len(table.rows) == 1
    # The head of the page says it of all sections: changes between two sweeps are no smaller than what hours do.
    assert drift_limits([*earlier, part("s4-max3", 384, 18_000.0, 21_000.0)]) == (
        "1 setting was measured in two sweeps, at other hours, and differs by 30.0 % (15,000 requests/s in s4-max1, 19,500 later): do not "
        "hold a smaller change from one sweep to another against a factor.",
    )
    assert drift_limits(earlier) == drift_limits([*earlier, part("s4-max3", 384, 18_000.0)]) == ()
    # Sweeps that differ by a few percent are more evidence.
    little, _ = again_blocks(part("s4-max3", 384, 15_000.0, 15_800.0), earlier)
    assert isinstance(little, Text)
    assert (text.note, little.note) == (False, True)
    # A setting with a few clients more is another one, and stands by itself; one with many more is none.
    near, table = again_blocks(part("s4-max3", 372, 18_000.0, 21_000.0), earlier)
    assert isinstance(near, Text)
    assert near.text == "Nearly the same settings in other sweeps:"
    assert near.points == (
        "Of sweeps of earlier sections that differ in their clients alone, s4-max1 has the most different throughput: 372 clients "
        "on 3 machines 19,500 requests/s (2 runs) here, 384 clients on 3 machines 15,000 requests/s (2 runs) there (+30.0 %). They "
        "share no blocks: what the machine did at either hour is in it.",
    )
    assert isinstance(table, Table)
    assert len(table.rows) == 1
    assert again_blocks(part("s4-max3", 348, 18_000.0, 21_000.0), earlier) == []
    # An hour of a trace stands beside short runs of its own settings, too.
    for count in (372, 384):
        (near, _) = again_blocks(part("s2-nomw", count, 17_000.0, kind="trace"), earlier)
        assert isinstance(near, Text)
        assert near.points[0].endswith(
            "17,000 requests/s (1 run) here, 384 clients on 3 machines 15,000 requests/s (2 runs) there (+13.3 %). "
            "They share no blocks: what the machine did at either hour is in it."
        )
    several, _ = again_blocks(part("s4-max3", 384, 18_000.0, 21_000.0), [*earlier, part("s4-max2", 384, 15_800.0)])
    assert isinstance(several, Text)
    assert "1 setting of this section was" in several.points[0]
    assert (
        "; the largest difference is that of 16 readers, 384 clients: 19,500 requests/s (2 runs) here"
        in several.points[0]
    )
    assert again_blocks(part("s4-max3", 384, 18_000.0, 21_000.0), earlier[1:]) == []
    # A sweep is not another one because a second section shows it.
    assert again_blocks(earlier[0], earlier[:1]) == []


def a_sweep(speed: float, *notes: str) -> Any:
    return SimpleNamespace(
        links_built=True, testbed=SimpleNamespace(kind="netns", notes=list(notes)), speed=speed, cells=(a_cell(6),),
        folder=SimpleNamespace(name="s5-4"),
    )  # fmt: skip


def test_notes_name_the_sign_in_words_and_a_count_of_attempts_reads_well() -> None:
    """“Of 82 attempts left out 82”, and “-5 % off its link's rate” in a table of notes."""
    sweep = a_sweep(1.0, "client-1 was measured to send -5 % off its link's rate")
    sweep.testbed.delayed_by = sweep.testbed.kept_awake = sweep.testbed.shares_cpu = ""
    notes = _testbed_notes([sweep])
    assert notes == [("note 1", "client-1 was measured to send 5 % below its link's rate")]
    assert _met_busy(82, 82) == "All 82 attempts left out"
    assert _met_busy(96, 95) == "Of 96 attempts left out 95"
    assert _met_busy(1, 1) == "The one attempt left out"
    assert _testbeds([sweep]) == _testbeds([]) == []
    local = a_sweep(1.0)
    local.testbed.kind, local.folder.name = "local", "s2-local"
    assert _testbeds([local, sweep, sweep]) == [("testbeds", "netns, and local for s2-local")]


def test_what_no_plateau_is_shown_of_stands_behind_its_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """“No plateau is shown yet” closed a list whose last series has its plateau.

    Then “whether throughput has stopped growing is not known yet” stood behind a curve that was said to fall.
    """

    def stop(name: str, *, shown: bool) -> Any:
        maximum = SimpleNamespace(
            largest_text=f"largest mean of {name}", course_text=", flat", course="flat", why_not="more runs would tell",
            shown=shown, more_runs=(40, 11),
        )  # fmt: skip
        return SimpleNamespace(
            maximum=maximum, limit=SimpleNamespace(station=""), series=(1,), alone=True, shown=shown, workload="reads",
            rate_text=f"maximum of {name}",
        )  # fmt: skip

    monkeypatch.setattr(clients, "_first", lambda _stop: "from 72 clients on")
    task: Any = SimpleNamespace(spec=SimpleNamespace(title="Most"))
    one, two, three = stop("16", shown=False), stop("32", shown=False), stop("1", shown=True)
    monkeypatch.setattr(clients, "stops_of", lambda _task: [one, two, three])
    assert clients.summary(task) == (
        "Most: reads largest mean of 16, flat; reads largest mean of 32, flat; from how many clients on the most is reached is not "
        "shown yet: more runs would tell; reads maximum of 1 from 72 clients on, flat."
    )
    monkeypatch.setattr(clients, "stops_of", lambda _task: [three, one])
    assert clients.summary(task).endswith(
        "16, flat; from how many clients on the most is reached is not shown yet: more runs would tell."
    )


@pytest.mark.parametrize(
    ("met", "said"),
    [
        (0, " by their means, and none by its interval. Throughput is some"),
        (1, " by their means, and 1 (50 %) by its interval. Throughput is some"),
        (2, " by their means, and 2 (100 %) by their intervals. Throughput is some"),
    ],
)
def test_no_interval_within_both_margins_is_said_without_a_count(
    monkeypatch: pytest.MonkeyPatch, met: int, said: str
) -> None:
    """“The intervals of 0 (0 %) lie within both” stood there."""
    monkeypatch.setattr(networks, "tally_text", lambda _found: "some")
    meetings = [SimpleNamespace(met=place < met, percent=1.0) for place in range(2)]
    held = [SimpleNamespace(x_meeting=one, r_meeting=one) for one in meetings]
    fit: Any = SimpleNamespace(held_out=held, beyond=[], layout=SimpleNamespace(workers=[8], crew="workers"))
    assert said in networks.total([fit])


def test_the_ends_of_an_interval_have_a_sign_where_the_mean_has_one() -> None:
    """“+397.2 (349.2 to 450.4) %” stood beside “−79.9 (−81.8 to −77.7) %”."""
    assert Value(397.2, 349.2, 450.4, 1, signed=True).text == "+397.2 (+349.2 to +450.4)"
    assert Value(1.0, -2.5, 9.5, 1, signed=True).text == "+1.0 (−2.5 to +9.5)"
    assert Value(2.0, digits=1, signed=True, runs=(1.0, 3.0)).text == "+2.0 (+1.0 and +3.0)"
    assert Value(397.2, 349.2, 450.4, 1).text == "397.2 (349.2 to 450.4)"


def test_a_page_says_first_at_which_scale_its_machines_stand() -> None:
    (said,) = scale_texts([a_sweep(0.2), a_sweep(0.2)])
    assert said.startswith("All machines of a run are on one computer, on 2 cores, at 0.2 of the study's speed:")
    assert "delays are 5 times as long" in said
    (said,) = scale_texts([a_sweep(0.2), a_sweep(1.0)])
    assert re.search(
        r" at 0.2 of the study's speed \(those of \S+ at the whole of it\): links have 0.2 of its rates", said
    )
    assert scale_texts([a_sweep(1.0)]) == []
    assert scale_texts([a_sweep(0.2), a_sweep(0.5)]) == []


def test_a_link_off_its_rate_is_said_to_be_above_or_below() -> None:
    notes = (
        "client-2 was measured to send -6 % off its link's rate",
        "proxy-0 was measured to send +7 % off its link's rate",
    )
    assert _link_notes([a_sweep(0.2)]) == ()
    *said, why = _link_notes([a_sweep(0.2, *notes)])
    assert why.startswith("These runs count all the same: ")
    assert said == [
        "In s5-4 client-2 was measured to send 6 % below its link's rate, in a test of the links before the runs.",
        "In s5-4 proxy-0 was measured to send 7 % above its link's rate, in a test of the links before the runs.",
    ]


def test_where_series_stop_at_different_clients_both_ends_are_named() -> None:
    """“From 24 to 48 clients on” could not be read."""

    def at(clients: int) -> Any:
        return SimpleNamespace(shown=True, cell=SimpleNamespace(settings=SimpleNamespace(clients=clients)))

    stop: Any = SimpleNamespace(maxima=(at(48), at(24), at(24)), maximum=SimpleNamespace(lone=False))
    assert _first(stop) == "from 24 clients on at the earliest and from 48 at the latest"
    stop.maxima = (at(24), at(24))
    assert _first(stop) == "from 24 clients on"


def test_how_much_more_would_tell_near_a_limit_is_said_in_times() -> None:
    """“Lies at the limit itself: if that is the true value, no number of runs would tell” could not be read."""
    assert more_text(1001.0, 2) == (
        "what was found lies so near to the limit that it would take more than 1,000 times the runs to tell"
    )
    assert more_text(2.0, 2).startswith("some 4 runs of each level in place of 2 would tell")
    assert more_text(900.0, 2).startswith("some 1,800 runs of each level in place of 2 would tell")


def test_a_confirming_run_says_that_its_links_were_not_as_built() -> None:
    more: Any = SimpleNamespace(changes="workers")
    off = "proxy-0 was measured to send -10 % off its link's rate"
    straight, slow = a_sweep(0.2), a_sweep(0.2, "other", off, off)
    said = "proxy-0 was measured to send 10 % below its link's rate"
    for base, changed, wanted in (
        (straight, straight, ""),
        (straight, slow, f"; before the changed runs {said}"),
        (slow, straight, f"; before the unchanged runs {said}"),
        (slow, slow, ""),
    ):
        task: Any = SimpleNamespace(sweeps=[base])
        assert _links_text(Weighed(more, task, changed), [Pair(base.cells[0], changed.cells[0])]) == wanted


def a_subject(name: str, path: RequestPath, times_ms: dict[int, float]) -> Any:
    cells = [
        SimpleNamespace(settings=SimpleNamespace(clients=clients, path=path), mean_response_s=ms / 1e3, runs=[])
        for clients, ms in times_ms.items()
    ]
    testbed = SimpleNamespace(machines=[SimpleNamespace(name="proxy-0", delay_ms=0.35)])
    return SimpleNamespace(name=name, workload="reads", cells=cells, sweep=SimpleNamespace(testbed=testbed))


def test_what_a_proxy_adds_is_distinguished_from_the_delays_that_were_built() -> None:
    """“A proxy costs half” was 0.70 ms of delays of our own choice, and 0.1 ms of the proxy."""
    direct = a_subject("direct", RequestPath.DIRECT, {1: 0.80, 16: 0.82, 64: 1.20})
    through = a_subject("Weir", RequestPath.PROXY, {1: 1.60, 16: 1.63, 64: 1.95})
    (reported,) = _hops([direct, through])
    assert reported.startswith(
        "Reads, through Weir a request takes 0.80 and 0.81 ms longer than directly with 1 and 16 clients; 0.70 ms of that are the "
    )
    assert "and 0.10 and 0.11 ms the rest" in reported
    # Blocks that have both say how sure that is: 0.80 and 0.84 ms longer, 12.706 x 0.0283 / √2 to each side.
    for subject, times in ((direct, {1: 0.80, 2: 0.82, 3: 0.70}), (through, {1: 1.60, 2: 1.66})):
        subject.cells[0].runs = [
            SimpleNamespace(run=SimpleNamespace(meta=SimpleNamespace(repetition=block)), response_s=ms / 1e3)
            for block, ms in times.items()
        ]
    (reported,) = _hops([direct, through])
    assert "a request takes 0.82 (0.57 to 1.07) and 0.81 ms longer" in reported
    through.sweep.testbed.machines[0].delay_ms = 0.0
    assert _hops([direct, through]) == [], "without delays there is no such part"


def test_no_second_sign_is_missed_of_a_station_that_nobody_named() -> None:
    """“No station is full: … so there is no second sign of it” stood on the page of our own system."""
    alone: Any = SimpleNamespace(line=None)
    assert _sign(alone, "server uplinks").text == "There is no second sign: all cells have the same clients."
    assert "sign" not in _sign(alone, "").text


def test_time_that_stays_or_has_no_room_to_grow_is_no_second_sign() -> None:
    """“Grows 1.0 times, 59 % of it in stage backend”, and 270 % of the growth from 348 to 396 clients."""

    def place(times: dict[int, float]) -> Any:
        return SimpleNamespace(line=a_subject("Weir", RequestPath.PROXY, times), stop=None)

    stays = _sign(place({1: 1.77, 64: 1.82}), "")
    assert stays.text == "From 1 to 64 clients the response time changes by +2.82 % only: hardly anything waits."
    assert stays.more == "64 clients are 64 times as many as 1."
    near = _sign(place({348: 20.0, 396: 21.0}), "proxy CPU quotas")
    assert near.text == "Clients differ too little, 348 to 396, to see which time grows with them."


def test_intervals_are_those_that_decide_where_any_of_several_parts_may() -> None:
    """“+49.0 % (+15.1 to +92.8), within 10 %: cannot tell”: one of three pairs decides by a longer interval than was printed."""

    def within_ten(*changes: float) -> Asked:
        questions = tuple(Within(Estimate(one, 0.1, 30.0), *within_percent(10.0)) for one in changes)
        return Asked(questions, lambda alpha: f"{alpha:g}", 6)

    doubtful = within_ten(0.435, 0.1, 0.0)
    alpha, why = _level(doubtful, 0.0031)
    assert alpha == pytest.approx(0.0031 / 3)
    assert why == ", since any of 3 parts may decide against it"
    # At the level of the sentence the interval lies beyond 10 %, at that which decides it does not.
    worst = doubtful.questions[0]
    assert worst.interval(0.0031)[0] > math.log(1.1) > worst.interval(alpha)[0]
    assert judge_all([doubtful.questions], 0.0031)[0].answer == "cannot tell"
    assert judge_all([within_ten(0.6, 0.1, 0.0).questions], 0.0031)[0].answer == "does not hold"
    # What holds, and what is asked once, is judged at the level of the sentence.
    assert _level(within_ten(0.1, 0.0), 0.0031) == (0.0031, "")
    assert _level(within_ten(0.6), 0.0031) == (0.0031, "")


def test_the_stage_that_decides_is_named_though_another_one_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """“0.00 times (0.00 to 142,422,929) as long as in stage queue” stood beside “does not hold”: stage send was shown to be longer."""
    settings = SimpleNamespace(clients=384)
    cell: Any = SimpleNamespace(
        settings=settings, runs=(1, 2), cell=SimpleNamespace(levels=(("clients", 384),)), mean_throughput=1.0
    )
    maximum = SimpleNamespace(cells=(cell,), cell=cell, shown=True, plateau=None)
    found = {"queue": Estimate(-9.0, 9.0, 30.0), "send": Estimate(-0.31, 0.05, 30.0)}
    monkeypatch.setattr(rules, "STAGES", ("queue", "send", "reply"))
    monkeypatch.setattr(rules, "maximum_of", lambda *_: maximum)
    monkeypatch.setattr(rules, "all_cells", lambda _: [cell])
    monkeypatch.setattr(rules, "cell_words", lambda _: "384 clients")
    monkeypatch.setattr(rules, "by_own_runs", lambda *_: None)
    monkeypatch.setattr(rules, "_stage_ratio", lambda _stage, other, _operation: other)
    monkeypatch.setattr(rules, "level_against_one", lambda _on, _among, other: found[other])
    claim: Any = SimpleNamespace(args={"stage": "reply"}, at={"clients": 384})
    task: Any = SimpleNamespace(margins=SimpleNamespace(maximum=5.0))
    answer = rules._longest_stage(claim, task, [cell])
    assert isinstance(answer, Asked)
    assert answer.evidence(0.05).startswith(
        "with 384 clients a request is 0.733 times (0.662 to 0.812) as long in stage reply as in stage send"
    )
    found["send"] = Estimate(0.31, 0.05, 30.0)
    assert "as long in stage reply as in stage queue, the next" in answer_of(rules._longest_stage(claim, task, [cell]))


def staged(shares: dict[str, float]) -> Any:
    """A cell with six runs whose requests spend their time in the proxy by these shares, up to 1 %."""
    rng = np.random.default_rng(8)
    runs = []
    for place in range(6):
        stages = {name: share * math.exp(rng.normal(0.0, 0.01)) for name, share in shares.items()}
        meta = SimpleNamespace(repetition=place, started_unix_ns=place)
        run = SimpleNamespace(meta=meta, folder=Path("s/runs/x"))
        runs.append(SimpleNamespace(run=run, stages_s=lambda _operation, stages=stages: stages))
    named: Any = SimpleNamespace(name="c", settings=SimpleNamespace(clients=180))
    return CellReadings(named, tuple(runs))  # type: ignore[arg-type]


def test_most_of_the_time_is_more_than_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """“Most of a request's time is spent waiting for memcached (66 %)” held where that stage was 1.37 times as long as the next one."""
    claim: Any = SimpleNamespace(args={"stage": "backend", "share": 0.5}, at={"clients": 180})
    task: Any = SimpleNamespace(margins=SimpleNamespace(maximum=5.0))
    monkeypatch.setattr(rules, "cell_words", lambda _: "180 clients")

    def asked_of(shares: dict[str, float]) -> Asked:
        cell = staged(shares)
        maximum = SimpleNamespace(cells=(cell,), cell=cell, shown=True, plateau=None)
        monkeypatch.setattr(rules, "maximum_of", lambda *_: maximum)
        monkeypatch.setattr(rules, "all_cells", lambda _: [cell])
        found = rules._stage_share(claim, task, [cell])
        assert isinstance(found, Asked)
        return found

    most = asked_of({"queue": 0.42, "backend": 0.578, "reply": 0.002})
    assert judge_all([most.questions], 0.05)[0].answer == "holds"
    assert re.fullmatch(
        r"with 180 clients stage backend takes 5[78]\.\d % \(5\d\.\d to 5\d\.\d\) of the time in the proxy; it holds from 50 % on",
        most.evidence(0.05),
    )
    longest = asked_of({"queue": 0.3, "backend": 0.4, "reply": 0.3})
    assert judge_all([longest.questions], 0.05)[0].answer == "does not hold"
    claim.args["share"] = 0.3
    assert judge_all([asked_of({"queue": 0.3, "backend": 0.4, "reply": 0.3}).questions], 0.05)[0].answer == "holds"


def test_a_level_that_nearly_decides_says_why_its_interval_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """15,165 requests/s (14,880 to 15,456) at 0.4 of the speed were 168 to 805 % of 4,120, and were not shown to differ from 6,880."""
    unknown: Any = SimpleNamespace(shown=False, plateau=None, more_runs=None)
    limit = math.log(1.1)
    near = Within(Estimate(math.log(15_165.0 / 6_880.0), 0.0223, 3.0), -math.inf, limit)
    far = Within(Estimate(-1.0, 0.0223, 3.0), -math.inf, limit)
    question = AtMaximum(unknown, None, levels=(*[far] * 7, near, *[far] * 7))
    alpha = 0.0045
    assert question.level_that_decides(alpha) is None
    assert rules._may_decide(question, alpha) == 7
    monkeypatch.setattr(rules, "cell_words", lambda _: "180 clients, 64 readers")
    monkeypatch.setattr(rules, "level_of", lambda *_: Interval(15_165.0, 14_880.0, 15_456.0, 4, 0.95))
    cell: Any = SimpleNamespace(mean_throughput=15_165.0)
    level, wide = rules._level_texts(cell, question, 7, alpha)
    assert re.fullmatch(
        r"throughput at 180 clients, 64 readers, 15,165 requests/s, is 220\.4 % \(\d+\.\d to \d+\.\d\)", level
    )
    assert wide == (
        "; as one of 15 levels that could decide it has an interval of 99.997 %, with 3 degrees of freedom; its mean alone has 14,880 to "
        "15,456 requests/s at 95 %"
    )
    # What is found below the limit decides nothing, and of what decides nothing more is said.
    assert rules._may_decide(AtMaximum(unknown, None, levels=(far, far)), alpha) is None
    surely = AtMaximum(unknown, None, levels=(Within(Estimate(2.0, 0.01, 40.0), -math.inf, limit), far))
    assert surely.level_that_decides(alpha) == 0
    assert rules._may_decide(surely, alpha) is None
    monkeypatch.setattr(rules, "level_of", lambda *_: Interval(15_165.0, 14_865.0, 15_471.0, 40, 0.95))
    assert rules._level_texts(cell, surely, 0, alpha)[1] == ""


def answer_of(found: Any) -> str:
    """The evidence at 5 %."""
    return str(found.evidence(0.05))


def test_a_ratio_of_stages_says_where_its_error_is_that_of_other_cells() -> None:
    """“1.22 times (0.73 to 2.04)” stood over shares of the same four runs that lie far from each other."""
    rng = np.random.default_rng(5)

    def cell(name: str, spread: float) -> CellReadings:
        runs = []
        for place, one in enumerate(rng.normal(0.0, spread, 6)):
            meta = SimpleNamespace(repetition=place, started_unix_ns=place)
            runs.append(
                SimpleNamespace(run=SimpleNamespace(meta=meta, folder=Path("s/runs/x")), ratio=1.2 * math.exp(one))
            )
        named: Any = SimpleNamespace(name=name)
        return CellReadings(named, tuple(runs))  # type: ignore[arg-type]

    calm, *others = cell("calm", 0.01), *(cell(f"loud-{place}", 0.6) for place in range(6))
    among = [calm, *others]
    value: Any = lambda run: run.ratio  # noqa: E731
    found, own = level_against_one([calm], among, value), by_own_runs([calm], among, value)
    assert found is not None
    assert own is not None
    assert own.standard_error < 0.1 * found.standard_error
    said = _own_text(own, [calm], 0.05)
    assert "the spread of all cells of the section" in said
    assert "by the 6 runs there alone it would be 1." in said
    # Where all cells differ as much from run to run, their runs tell of one error.
    assert by_own_runs([calm], [calm, cell("as-calm", 0.01)], value) is None
    assert not _own_text(None, [calm], 0.05)


def test_a_design_names_what_is_assumed_in_words_and_nothing_of_a_proxy_that_is_not_there() -> None:
    """“Assumed: server_threads, topology.cpu” stood there, and event loops of a proxy in a design without one."""
    direct = parse_study(
        "assumed = ['server_threads', 'warmup_s', 'topology.cpu']\n" + (DATA / "t-direct.toml").read_text()
    )
    rows = dict(design_rows(direct))
    assert rows["assumed, not printed by the study"] == "threads per memcached server, warm-up, CPU quotas"
    assert direct.fixed["proxy_threads"] == 1
    assert "event loops per proxy" not in rows
    pooled = dict(design_rows(parse_study((DATA / "t-full.toml").read_text())))
    assert pooled["network threads per proxy"] == "1"
    assert "event loops per proxy" not in pooled


def test_a_design_has_the_phases_of_the_study_beside_shorter_ones_of_ours() -> None:
    text = (DATA / "t-full.toml").read_text()
    night, whole = parse_study(text, "night"), parse_study(text, None).plan
    rows = dict(design_rows(night, whole))
    assert rows["phases of the study"] == "0 s warm-up, 60 s measured, 0 s cool-down"
    assert "phases of the study" not in dict(design_rows(night))
    assert "phases of the study" not in dict(design_rows(parse_study(text, None), whole))
    # The file's own pace is the quick one, whose warm-up is as short as ours.
    file = Path(__file__).parents[2] / "studies" / "s5-4.toml"
    rows = dict(_design(load_study(file, "night"), file, []))
    assert rows["phases"] == "2 s warm-up, 5 or 10 s measured, 2 s cool-down"
    assert rows["phases of the study"] == "15 s warm-up, 60 s measured, 15 s cool-down"
