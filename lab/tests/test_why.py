"""What the paragraph of what limits says of runs with a changed station, and of what twice of a station could bring at most."""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any

import pytest

from weir_lab.design import RequestPath
from weir_lab.design.whole.sets import Margins
from weir_lab.records.formats import STAGES
from weir_lab.report.numbers.stations import Usage, bottleneck, core_station
from weir_lab.report.page.blocks import Value
from weir_lab.report.sections.claims.confirming import _also_differs, over_pairs
from weir_lab.report.sections.claims.contrasts import Pair
from weir_lab.report.sections.claims.limits.bound import (
    Sent,
    modelled_short,
    modelled_text,
    sent_by_clients,
    twice_bound,
)
from weir_lab.report.sections.claims.limits.why import (
    _based,
    _in_all,
    _over_plateau,
    _said,
    _shown_by_runs,
    _sign,
    _two_runs,
)
from weir_lab.theory.fitting.devices import Twice
from weir_lab.theory.linear import Estimate

confirming: Any = importlib.import_module("weir_lab.report.sections.claims.confirming")
module = importlib.import_module("weir_lab.report.sections.claims.limits.why")


def cell(throughput: float, clients: int = 384) -> Any:
    found: Any = type("Cell", (), {})()
    found.mean_throughput, found.settings = throughput, SimpleNamespace(clients=clients)
    return found


def changed(verdict: str, base: Any, other: Any) -> Any:
    return SimpleNamespace(
        more=SimpleNamespace(changes="workers", times=2.0),
        estimate=None,
        verdict=verdict,
        evidence="throughput goes from this to that",
        change="+1.0 % (−1.0 to +3.0)",
        changed_text="twice the workers",
        levels_text="",
        basis="",
        pairs=(Pair(base, other),),
    )


def place(plateau: float, *beyond: Any) -> Any:
    return SimpleNamespace(
        plateau=plateau, stop=SimpleNamespace(maxima=(SimpleNamespace(beyond=beyond),)), line=SimpleNamespace()
    )


LINK = Usage("client uplinks", 1.0, "")
WORKERS = Usage("workers", 0.8, "", holds=True)
PROXIES = Usage("proxy uplinks", 0.775, "")


def test_workers_bound_what_twice_of_a_station_before_them_brings() -> None:
    found = twice_bound([LINK, WORKERS, PROXIES], "client uplinks", 3480.0, None)
    assert (
        found.text
        == "With twice the client uplinks throughput is at most about 4,350 requests/s (+25.0 %), where the workers are full."
    )
    assert (found.short, found.by_station) == ("at most +25.0 %, then workers", True)
    assert found.per_s == pytest.approx(4350.0, abs=1.0)


def test_workers_are_the_next_limit_behind_the_clients_links_which_hold_none() -> None:
    """“Next are the proxy uplinks, 77 % used” stood before “at most 4,340, where the workers are full”."""
    proxy, crew = Usage("proxy uplinks", 0.77, "bytes"), Usage("workers", 0.80, "held", holds=True)
    clients = bottleneck([Usage("client uplinks", 1.0, "bytes"), crew, proxy], queue_grows=None)
    assert clients.sentence.endswith("Next are the workers, 80 % used.")
    servers = bottleneck([Usage("server uplinks", 1.0, "bytes"), crew, proxy], queue_grows=None)
    assert servers.sentence.endswith("Next are the proxy uplinks, 77 % used.")
    # Full ones are held by what they wait for, and by nothing before them.
    crew = Usage("workers", 0.95, "held", holds=True)
    assert (
        "the workers are held by them"
        in bottleneck([Usage("server uplinks", 1.0, "b"), crew], queue_grows=None).sentence
    )
    said = bottleneck([Usage("client uplinks", 1.0, "b"), crew], queue_grows=None).sentence
    assert said == "The client uplinks limit: 100 % used (b). Next are the workers, 95 % used."


def test_what_is_full_is_shown_without_its_evidence_and_doubts_are_shown_with_it() -> None:
    """A reader of “Why” had the bytes of a request in every first sentence, before the run that confirms it."""
    link, crew = Usage("server uplinks", 1.0, "bytes"), Usage("workers", 0.95, "held", holds=True)
    machine = Usage("CPUs of this machine", 0.99, "anyone", shared=True)

    def both(*stations: Usage) -> tuple[str, str]:
        found = bottleneck(list(stations), queue_grows=None)
        return found.lead, found.rest

    assert both(link, crew) == (
        "the server uplinks limit, 100 % used.",
        "The server uplinks are used 100 % (bytes); the workers are held by them.",
    )
    assert (
        both(link, machine)[0] == "the server uplinks limit, 100 % used. The CPUs of this machine were 99 % busy, too."
    )
    alike = both(link, Usage("memcached CPU quotas", 0.99, "CPUs"))
    assert alike[0] == "the server uplinks and the memcached CPU quotas limit, 100 % and 99 % used."
    assert alike[1] == "The server uplinks are used 100 % (bytes), the memcached CPU quotas 99 %."
    assert both(crew) == (
        "the workers limit, 95 % used.", "The workers are used 95 % (held), while no link and no processor is full.",
    )  # fmt: skip
    strangers = Usage("CPUs of this machine", 0.95, "anyone", shared=True, others=0.92)
    assert both(strangers)[0].endswith("92 % by other programs: this is not the limit of the system itself.")
    assert both(WORKERS) == (
        "no station is full, the busiest are the workers with 80 %. Where throughput does not grow, what limits is none of them.",
        "The workers are used 80 % ().",
    )
    assert both() == ("nothing in the records tells how busy any station was.", "")


def test_clients_that_wait_for_replies_bound_what_twice_of_a_station_brings() -> None:
    """Six clients whose requests take 7 ms at least were said to send 1,165 a second through a link of twice the rate."""
    link = Usage("server uplinks", 1.0, "")
    settings = SimpleNamespace(
        clients=6, population=6, think_time_s=0.0, client_machines=3, proxies=1, servers=1, path=RequestPath.PROXY
    )
    own: Any = SimpleNamespace(settings=settings, mean_response_s=0.0103, mean_throughput=582.0)
    curve = [own, SimpleNamespace(mean_response_s=0.007, mean_throughput=285.0)]
    here: Any = SimpleNamespace(line=SimpleNamespace(cells=curve), cell=own, sweep=SimpleNamespace(testbed=None))
    found = twice_bound([link], link.station, 582.0, None, sent_by_clients(here, link))
    # A request takes 1.72 ms of the link, and half of that with one that is twice as fast.
    assert (found.short, found.by_station) == ("at most +67.9 % with 6 clients", False)
    assert found.per_s == pytest.approx(6 / (0.007 - 0.5 / 582.0))
    assert found.text == (
        "With twice the server uplinks throughput is at most about 977 requests/s (+67.9 %): 6 clients send no more, as a request takes "
        "about 6.14 ms then."
    )
    # Workers do not get faster by being more.
    crew = Usage("workers", 1.0, "", holds=True)
    assert twice_bound([crew], "workers", 582.0, None, sent_by_clients(here, crew)).per_s == pytest.approx(6 / 0.007)
    # Many clients send more than twice the station carries.
    settings.population = 60
    assert (
        "at most about 1,164 requests/s (+100 %)."
        in twice_bound([link], link.station, 582.0, None, sent_by_clients(here, link)).text
    )
    # The fastest cell says nothing of itself; the delays that were built do. 6 clients were said to send 1,164 a second there, too.
    settings.population = 6
    curve[1].mean_response_s = 0.02
    assert sent_by_clients(here, link) is None
    delays = {"client-0": 1.6, "proxy-0": 1.75, "server-0": 1.9}
    machines = [SimpleNamespace(name=name, delay_ms=delay) for name, delay in delays.items()]
    here.sweep.testbed = SimpleNamespace(machines=machines)
    found = twice_bound([link], link.station, 582.0, None, sent_by_clients(here, link))
    assert found.per_s == pytest.approx(6 / (0.007 + 0.5 / 582.0))
    # A value takes its time on the proxy's link, too, but for a burst: the bound leaves that out, and says so.
    assert found.text.endswith(
        "as a request takes about 7.86 ms then. That is the delays that were built and half of its time at the server uplinks now; "
        "sending over other links is left out."
    )
    # A level that is as near to the plateau has that wait in its time, too.
    curve[1].mean_response_s, curve[1].mean_throughput = 0.0095, 560.0
    built = sent_by_clients(here, link)
    assert built is not None
    assert built.built
    assert built.least_s == pytest.approx(0.007 + 0.5 / 582.0)
    settings.path = RequestPath.DIRECT
    sent = sent_by_clients(here, link)
    assert sent is not None
    assert sent.least_s == pytest.approx(0.0035 + 0.5 / 582.0)
    here.line = None
    assert sent_by_clients(here, link) is None


def test_a_model_above_the_bound_does_not_say_what_is_full_then() -> None:
    """“At most 4,115” stood before a model that said 4,225, and named another station."""
    found = Twice("client uplinks", 48, 3463.0, 0.0139, 4225.0, 0.0114, "proxy uplinks", simulated=True)
    said = modelled_text(found, 4115.0, 3480.0)
    assert said == (
        "The model says 4,225 requests/s then, 2.67 % more than this bound allows, so one of the two is wrong by that much; which "
        "station would be full then is not known."
    )
    # Clients that send no more fill no station.
    assert modelled_text(found, 4115.0, 3480.0, by_station=False).endswith("so one of the two is wrong by that much.")
    assert "proxy uplinks" not in said
    assert "then the proxy uplinks would be the fullest" in modelled_text(found, 4300.0, 3480.0)
    assert modelled_text(found, 3800.0, 3480.0) == modelled_text(None, 3800.0, 3480.0) == ""


def test_a_model_in_which_twice_brings_nothing_names_what_limits_in_it() -> None:
    """“+0.00 %, then proxy CPU quotas” stood beside a measured gain of 7.85 %."""
    found = Twice("readers", 144, 21_000.0, 0.0069, 21_000.0, 0.0069, "proxy CPU quotas")
    assert modelled_short(found) == "nothing by the model, where the proxy CPU quotas limit"
    more = Twice("readers", 144, 21_000.0, 0.0069, 26_000.0, 0.0055, "proxy CPU quotas")
    assert modelled_short(more) == "+23.8 %, then proxy CPU quotas"


def test_cores_that_tiers_share_bound_what_twice_of_a_quota_brings() -> None:
    """The page of S4 had +42.6 % there, by all CPUs of the machine, where one core was 91 % busy."""
    quota = Usage("proxy CPU quotas", 1.0, "")
    core = Usage(core_station(("client", "server", "network")), 0.91, "", shared=True)
    found = twice_bound(
        [quota, core, Usage("CPUs of this machine", 0.7, "", shared=True)], quota.station, 25_233.0, None
    )
    assert found.short == "at most +9.89 %, then CPUs of clients, servers and delay device"
    assert "are full, if a request takes as much CPU time then." in found.text
    limit = bottleneck([quota, core], queue_grows=None)
    assert limit.lead.endswith("The CPUs of clients, servers and delay device were 91 % busy, too.")
    alone = bottleneck([core, Usage("readers", 0.95, "held", holds=True)], queue_grows=None)
    assert alone.station == core.station
    assert "the readers are held by them" in alone.sentence


def test_a_model_that_misses_its_own_cell_by_more_than_the_margin_says_so_beside_its_change() -> None:
    """+9.8 % by a model stood there that was 5.7 % off before anything was changed."""
    found = Twice("client uplinks", 48, 3283.0, 0.0139, 3604.0, 0.0114, "proxy uplinks", simulated=True)
    said = modelled_text(found, 4300.0, 3481.0)
    assert said.endswith("then the proxy uplinks would be the fullest; it misses this cell by −5.69 % itself.")
    # Within the margin of the set nothing is said, and above the bound it is said, too.
    assert "misses" not in modelled_text(found, 4300.0, 3481.0, Margins(prediction_throughput=6.0))
    assert modelled_text(found, 3500.0, 3481.0).endswith(
        "would be full then is not known; it misses this cell by −5.69 % itself."
    )


def test_a_model_that_misses_what_was_measured_tells_nothing_of_twice_a_station() -> None:
    """“+62.2 %, where the CPUs of this machine are full” stood beside a model that said +100 %, over 19 % less than was measured."""
    found = Twice("proxy CPU quotas", 240, 13_214.0, 0.0182, 26_428.0, 0.0091, "proxy CPU quotas")
    assert modelled_text(found, 26_601.0, 16_398.0) == (
        "The model tells nothing of twice the proxy CPU quotas: it has 13,214 requests/s here, −19.4 % against what was measured."
    )


@pytest.mark.parametrize(
    ("left", "used"), [(0.499, "all of the time"), (0.55, "91 % of the time"), (0.62, "81 % of the time")]
)
def test_half_of_a_station_says_how_much_it_was_used(left: float, used: str) -> None:
    """A limit of 40 % less confirms any station that is used more than 83 % of the time."""
    one = changed("confirmed", cell(3045.0), cell(3045.0 * left))
    one.more.times, one.changed_text, one.estimate = 0.5, "half the workers", Estimate(math.log(left), 0.001, 20.0)
    said = _based(one, place(3050.0))
    assert said.endswith(f"loses half with half of it; this change is that of one that was used {used}.")
    one.verdict = "cannot tell"
    assert "was used" not in _based(one, place(3050.0))


def test_where_half_of_a_quota_loses_more_than_half_twice_is_no_bound_and_its_cost_is_said() -> None:
    """“At most +100 %” stood before runs in which half of the quota lost 69 %: a request took 1.6 times the CPU time then."""

    def costs(throughput: float, cpu_us: float) -> Any:
        found = cell(throughput)
        found.of = lambda value: [value(SimpleNamespace(cpu_s=lambda _role: cpu_us / 1e6))]
        return found

    one = changed("confirmed", costs(11_098.0, 32.4), costs(3_414.0, 52.7))
    one.more.changes, one.more.times, one.changed_text = "proxy CPU quotas", 0.5, "half the proxy CPU quotas"
    one.estimate = Estimate(math.log(0.311), 0.05, 20.0)
    assert confirming.lost_more(one)
    said, rest = _said(one, "proxy CPU quotas", place(11_100.0))
    # That more than half is lost is said at once, and why it is on demand.
    assert said.endswith(": confirmed; more than half is lost.")
    assert rest.endswith(
        "here more is lost: a request takes 32.4 µs of the proxies' CPU time, and 52.7 µs with half the quotas."
    )
    quota = Usage("proxy CPU quotas", 1.0, "")
    twice = twice_bound([quota], quota.station, 11_098.0, None, dearer=True).text
    assert twice == (
        "With twice the proxy CPU quotas throughput is about 22,196 requests/s (+100 %) if a request takes as much of them as now. "
        "With half the quotas a request took more CPU time; with twice it may take less."
    )
    links = twice_bound([LINK], LINK.station, 3480.0, None, dearer=True).text
    assert links.endswith("With half of them a request took more of them; with twice it may take less.")
    one.estimate = Estimate(math.log(0.5), 0.05, 20.0)
    assert not confirming.lost_more(one)


def test_where_twice_of_a_full_station_brings_little_the_other_limit_is_named() -> None:
    """“The proxy CPU quotas limit: 99 % used” stood before “with twice at most +6.27 %”."""
    full, other = Usage("client uplinks", 0.99, ""), Usage("proxy uplinks", 0.95, "")
    said = twice_bound([full, other], full.station, 3480.0, None).text
    assert said.endswith(
        "(+5.26 %), where the proxy uplinks are full. The client uplinks and the proxy uplinks are both near full: twice of one alone "
        "brings little."
    )
    said = twice_bound([full, PROXIES], full.station, 3480.0, None).text
    assert said.endswith("where the proxy uplinks are full.")
    sent = Sent(396, 0.108, 396 / 0.108)
    said = twice_bound([full], full.station, 3480.0, None, sent).text
    assert said.endswith(
        "396 clients send no more, as a request takes about 108.00 ms then. They are near that already, as the client uplinks are near "
        "full: twice of one alone brings little."
    )


def test_a_bound_by_a_cpu_quota_says_what_it_rests_on() -> None:
    """“At most +100 %” is none where a request takes less CPU time of a larger quota, as S1's runs with half of it showed."""
    proxies, servers = Usage("proxy CPU quotas", 1.0, ""), Usage("memcached CPU quotas", 0.8, "")
    said = twice_bound([proxies], proxies.station, 9092.0, None).text
    assert said == (
        "With twice the proxy CPU quotas throughput is at most about 18,184 requests/s (+100 %), if a request takes as much CPU time then."
    )
    said = twice_bound([proxies, servers], proxies.station, 9092.0, None).text
    assert said.endswith("where the memcached CPU quotas are full, if a request takes as much CPU time then.")
    said = twice_bound([servers, PROXIES], servers.station, 9092.0, None).text
    assert said.endswith("where the proxy uplinks are full.")


def test_workers_that_the_station_holds_are_let_go_with_it() -> None:
    said = twice_bound([LINK, WORKERS, PROXIES], "proxy uplinks", 3480.0, 3600.0).text
    # The clients' links are full already; no bound lies below what was reached.
    assert (
        said
        == "With twice the proxy uplinks throughput is at most about 3,600 requests/s (+0.0 % over the maximum, 3,600), where the client "
        "uplinks are full."
    )


def test_a_station_that_does_not_limit_is_as_expected_when_more_of_it_changes_nothing() -> None:
    shown, said = _said(changed("not confirmed", cell(3045.0), cell(2977.0)), "proxy uplinks", place(3050.0))
    assert shown == ""
    assert said == (
        "As expected where the proxy uplinks limit, twice the workers change less at 384 clients than they would if they limited: "
        "throughput goes from this to that and changes by +1.0 % (−1.0 to +3.0)."
    )


def test_a_run_that_does_not_confirm_what_limits_or_cannot_tell_is_shown_at_once() -> None:
    """What opens on demand is what is as expected."""
    unchanged = cell(3045.0), cell(2977.0)
    own = _said(changed("not confirmed", *unchanged), "workers", place(3050.0))
    assert own == (
        "With twice the workers, throughput at 384 clients changes by +1.0 % (−1.0 to +3.0): not confirmed.",
        "With twice the workers throughput goes from this to that.",
    )
    another, _ = _said(changed("cannot tell", *unchanged), "proxy uplinks", place(3050.0))
    assert another.startswith(
        "With twice the workers (this is another station than the proxy uplinks), throughput at 384 clients changes"
    )
    assert another.endswith(": cannot tell.")
    hindered = changed("cannot tell", *unchanged)
    hindered.evidence, hindered.change = "the runs were made at different speeds of the machines", ""
    assert _said(hindered, "workers", place(3050.0)) == (
        "Runs with twice the workers at 384 clients: cannot tell; the runs were made at different speeds of the machines.",
        "",
    )


def test_runs_that_decide_nothing_for_want_of_a_second_one_are_said_to_be_there() -> None:
    """“Two runs of each cell are needed” stood there, and not that there are runs."""
    one = changed("no data", cell(3471.0), cell(3479.0))
    one.evidence = "two runs of each cell are needed"
    base, other = one.pairs[0].base, one.pairs[0].other
    base.runs, other.runs = (1, 2, 3), (1,)
    said = "Runs with twice the workers exist, but one of the two cells has a single run, so they decide nothing."
    assert _said(one) == (said, "")
    base.runs = (1,)
    assert "but both cells have a single run, so" in _said(one)[0]
    one.pairs *= 2
    assert "but some of the cells have a single run, so" in _said(one)[0]
    base.runs = other.runs = (1, 2)
    assert (
        _said(one)[0] == "Not confirmed by a run of its own with twice the workers: two runs of each cell are needed."
    )
    assert _two_runs("576 (582 and 569)") == "576 (two runs: 582 and 569)"
    assert _two_runs("582 ± 3") == "582 ± 3"
    assert (over_pairs(1), over_pairs(2)) == ("", "over both settings together ")
    assert over_pairs(3) == "over all 3 settings together "


def at_cell(throughput: float) -> Any:
    found = cell(throughput)
    found.settings.servers = 3
    found.runs = [SimpleNamespace(run=SimpleNamespace(meta=SimpleNamespace(testbed=None)))]
    return found


def test_runs_whose_loop_took_cpu_time_are_named() -> None:
    """“In one of both it took CPU time” left open in which."""

    def at(throughput: float, *, took: bool) -> Any:
        found = cell(throughput)
        testbed = SimpleNamespace(awake_took_time=took)
        found.runs = [SimpleNamespace(run=SimpleNamespace(meta=SimpleNamespace(testbed=testbed)))]
        return found

    one = changed("confirmed", at(3471.0, took=True), at(1740.0, took=False))
    one.estimate = Estimate(math.log(0.5), 0.05, 20.0)
    assert _also_differs([one]) == (
        " Another difference: in the unchanged runs for twice the workers the loop that keeps cores awake took CPU time from the machines; "
        "in the changed ones it did not."
    )
    one = changed("confirmed", at(3471.0, took=False), at(1740.0, took=True))
    one.estimate = Estimate(math.log(0.5), 0.05, 20.0)
    assert " in the changed runs for twice the workers " in _also_differs([one])
    one.pairs[0].base.runs = one.pairs[0].other.runs
    assert _also_differs([one]) == ""


def test_a_station_that_runs_show_to_limit_is_known_though_it_is_not_full() -> None:
    """The table of multi-gets had no limit beside a text that said that the server uplinks do."""
    one = changed("confirmed", cell(315.0), cell(581.0))
    one.more.changes = "client uplinks"
    assert _shown_by_runs([WORKERS, PROXIES, LINK], [one]) is LINK
    one.verdict = "not confirmed"
    assert _shown_by_runs([WORKERS, PROXIES, LINK], [one]) is None


def test_a_table_of_changed_runs_has_no_column_of_limits_where_none_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    one = changed("confirmed", at_cell(315.0), at_cell(581.0))
    one.more.percent, one.estimate = 10.0, Estimate(math.log(1.8), 0.05, 20.0)
    monkeypatch.setattr(confirming, "workload_name", lambda _settings: "reads")
    monkeypatch.setattr(confirming, "level_value", lambda at, *_, **__: Value(at.mean_throughput))
    for limits, there in (({one.pairs[0]: "server uplinks"}, True), ({one.pairs[0]: ""}, False), (None, False)):
        table = confirming.confirming_table("part", [one], limits)
        assert table is not None
        assert ("Limits there" in table.columns) == there
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_how_much_all_cells_use_of_a_station_names_which_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """“With such requests” referred to nothing."""
    cells = [cell(300.0 + one) for one in range(3)]
    monkeypatch.setattr(module, "usages", lambda at, _links: [Usage("server uplinks", at.mean_throughput / 604.0, "")])
    monkeypatch.setattr(module, "workload_name", lambda _settings: "50 % writes")
    here: Any = SimpleNamespace(
        cell=cells[0], cells=cells, stop=None,
        sweep=SimpleNamespace(links_built=False, study=SimpleNamespace(topology=SimpleNamespace(built_links=None))),
    )  # fmt: skip
    assert (
        _in_all(here, "server uplinks")
        == " Over all 3 cells of this section with 50 % writes they are used 50 to 50 %."
    )
    here.stop = SimpleNamespace()
    assert _in_all(here, "server uplinks") == " Over all 3 cells of these series they are used 50 to 50 %."


@pytest.mark.parametrize(
    ("station", "said"),
    [
        ("server uplinks", "60 % of the growth outside of the proxy, which agrees."),
        ("workers", "60 % of the growth outside of the proxy, which does not agree: another place may limit."),
        # Threads of every stage share the quota.
        ("proxy CPU quotas", "60 % of the growth outside of the proxy."),
    ],
)
def test_a_second_sign_agrees_only_where_it_could_disagree(
    monkeypatch: pytest.MonkeyPatch, station: str, said: str
) -> None:
    """“52 % of the growth outside of the proxy, which agrees” stood of a station with which every part would."""
    first, last = cell(300.0, 6), cell(600.0, 96)
    first.mean_response_s, last.mean_response_s, last.runs = 0.01, 0.02, []
    parts = dict.fromkeys(STAGES, 0.0) | {"queue": 0.004, "outside": 0.006}
    monkeypatch.setattr(module, "_growth", lambda *_: parts)
    monkeypatch.setattr(module, "usages", lambda *_: [])
    here: Any = SimpleNamespace(line=SimpleNamespace(cells=[first, last]), stop=None, cell=last)
    assert _sign(here, station).text.endswith(said)


def test_a_change_from_a_level_that_has_fallen_is_held_against_the_plateau_too() -> None:
    fallen = cell(550.0)
    one = changed("confirmed", fallen, cell(1158.0))
    said = _based(one, place(582.0, fallen))
    assert said.endswith(
        "The unchanged level at 384 clients lies 5.5 % below the plateau of 582; against that the change is +99.0 %."
    )
    assert _over_plateau(one, place(582.0, fallen)) == pytest.approx(98.97, abs=0.01)
    steady = changed("confirmed", cell(582.0), cell(1158.0))
    assert "below the plateau" not in _based(steady, place(582.0, fallen))
    assert _over_plateau(steady, place(582.0, fallen)) is None
