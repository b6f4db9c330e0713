"""Systems of devices with a crew: against exact models, against a simulation that holds workers, and fitted to what it did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from synthetic_networks import CLIENTS, SYSTEM, measured
from synthetic_networks import WORKERS as LEVELS
from weir_lab.theory.fitting.devices import (
    INSIDE,
    OUTSIDE,
    WORKERS,
    Device,
    Fitted,
    SeenCell,
    System,
    fit_devices,
    half_of,
    twice_of,
    with_capacity,
)
from weir_lab.theory.fitting.simulated import simulate_system, simulate_twice, worst_simulated
from weir_lab.theory.queueing import (
    Crew,
    Kind,
    Station,
    finite_source,
    jobs_in_closed,
    solve_closed,
    solve_with_crew,
    token_bucket,
)

KEYS = [(workers, clients) for workers in LEVELS for clients in CLIENTS]


def seen(key: tuple[int, int]) -> SeenCell:
    workers, clients = key
    found = measured(workers, clients)
    x = found.throughput_per_s.mean
    return SeenCell(clients, x, clients / x, SYSTEM.devices, workers, found.held_s)


def is_kept(key: tuple[int, int]) -> bool:
    return (LEVELS.index(key[0]) + CLIENTS.index(key[1])) % 2 == 0


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit_devices([seen(key) for key in KEYS if is_kept(key)])


@pytest.mark.parametrize(("workers", "clients"), [(1, 1), (3, 2), (3, 20), (8, 200)])
def test_a_crew_that_is_held_for_a_delay_is_a_station_of_as_many_servers(workers: int, clients: int) -> None:
    found = solve_with_crew(
        [Station("z", 0.7, kind=Kind.DELAY)], Crew(workers, (Station("held", 0.2, kind=Kind.DELAY),)), clients
    )
    exact = finite_source(clients, 0.7, 5.0, workers)
    assert found.throughput_per_s == pytest.approx(exact.throughput_per_s, rel=1e-9)
    assert found.queued == pytest.approx(exact.mean_jobs_in_queue, rel=1e-7, abs=1e-12)
    assert found.busy_workers == pytest.approx(exact.throughput_per_s * 0.2, rel=1e-9)
    assert found.held_time_s == pytest.approx(0.2, rel=1e-9)


def test_a_crew_that_never_fills_changes_nothing_and_jobs_add_up() -> None:
    outside = [Station("z", 1.0, kind=Kind.DELAY), Station("front", 0.02)]
    inside = (Station("disk", 0.05), Station("net", 0.1, kind=Kind.DELAY))
    exact = solve_closed([*outside, *inside], 30)
    found = solve_with_crew(outside, Crew(30, inside), 30)
    assert found.throughput_per_s == pytest.approx(float(exact.throughput_per_s[-1]), rel=1e-9)
    for place, name in enumerate(("z", "front", "disk", "net")):
        assert found.jobs[name] == pytest.approx(float(exact.jobs[place][-1]), rel=1e-7)
    few = solve_with_crew(outside, Crew(4, inside), 30)
    assert sum(few.jobs.values()) + few.queued == pytest.approx(30.0, rel=1e-9)
    assert few.jobs["disk"] + few.jobs["net"] == pytest.approx(few.busy_workers, rel=1e-9)
    quick = solve_with_crew(outside, Crew(4, inside), 30, jobs_outside=False)
    assert (quick.throughput_per_s, quick.queued) == (few.throughput_per_s, few.queued)


def test_jobs_at_a_station_are_those_of_the_exact_model() -> None:
    exact = finite_source(12, 0.9, 4.0, 3)
    stations = [Station("s", 0.25, servers=3), Station("z", 0.9, kind=Kind.DELAY)]
    assert jobs_in_closed(stations, 12, "s") == pytest.approx(exact.probabilities, abs=1e-12)
    with pytest.raises(ValueError, match="z is no station with a queue and a demand; there are s"):
        jobs_in_closed(stations, 12, "z")
    with pytest.raises(ValueError, match="at least one worker"):
        Crew(0, (Station("s", 1.0),))


@pytest.mark.parametrize("key", KEYS)
def test_a_held_crew_does_what_the_simulation_does(key: tuple[int, int]) -> None:
    """Norton's station is an approximation where the crew fills: off by less than half a percent beyond the simulation's interval."""
    workers, clients = key
    simulated = measured(workers, clients)
    found = replace(SYSTEM, workers=workers).solve(clients)
    half = simulated.throughput_per_s.half_width
    assert abs(found.throughput_per_s - simulated.throughput_per_s.mean) < half + 0.005 * found.throughput_per_s
    assert found.crew_s == pytest.approx(simulated.queue_s + simulated.held_s, rel=0.08)


def test_the_simulation_is_a_queue_that_is_known_and_constant_times_wait_less() -> None:
    alone = System((Device("link", 0.001),), outside_s=0.004)
    exact = solve_closed([Station("link", 0.001), Station("z", 0.004, kind=Kind.DELAY)], 5)
    found = simulate_system(alone, 5, 30_000, np.random.default_rng(1))
    assert found.throughput_per_s.low < float(exact.throughput_per_s[-1]) < found.throughput_per_s.high
    constant = simulate_system(alone, 5, 30_000, np.random.default_rng(1), ["link"])
    assert constant.response_s < found.response_s
    assert (found.queue_s, found.held_s) == (0.0, 0.0)
    with pytest.raises(ValueError, match="at least 2000 requests"):
        simulate_system(alone, 5, 10, np.random.default_rng(1))


def test_a_fit_to_half_of_the_cells_finds_the_delays_and_predicts_the_others(fitted: Fitted) -> None:
    assert fitted.shows_what_it_saw
    assert fitted.outside_s == pytest.approx(SYSTEM.outside_s, rel=0.1)
    assert fitted.inside_s == pytest.approx(SYSTEM.inside_s, rel=0.1)
    assert fitted.factor == pytest.approx(1.0, abs=0.03)
    for key in KEYS:
        if not is_kept(key):
            truth = seen(key)
            found = fitted.solve(key[1], key[0])
            assert found.throughput_per_s == pytest.approx(truth.throughput_per_s, rel=0.03), key
            assert found.response_s == pytest.approx(truth.response_s, rel=0.03), key
    assert fitted.solve(64, 2).fullest == WORKERS
    assert fitted.solve(64, 8).fullest == "server uplinks"


def test_what_a_link_carries_less_than_it_should_is_found_as_its_factor() -> None:
    short = tuple(
        replace(one, service_s=one.service_s * (0.9 if one.name == "server uplinks" else 1.0)) for one in SYSTEM.devices
    )
    cells = [replace(seen(key), devices=short) for key in KEYS if is_kept(key)]
    found = fit_devices(cells)
    assert found.fitted == "server uplinks"
    assert found.factor == pytest.approx(1.0 / 0.9, rel=0.03)


def test_what_waits_for_a_worker_while_others_are_free_is_no_limit_of_the_workers() -> None:
    """Threads that take 2 ms to wake up make requests slower, and workers no fuller."""
    cells = [
        replace(seen(key), response_s=key[1] / x, throughput_per_s=x)
        for key in KEYS
        if is_kept(key)
        for x in [replace(SYSTEM, outside_s=SYSTEM.outside_s + 0.002, workers=key[0]).solve(key[1]).throughput_per_s]
    ]
    found = fit_devices(cells)
    assert found.outside_s == pytest.approx(SYSTEM.outside_s + 0.002, rel=0.1)
    assert found.inside_s == pytest.approx(SYSTEM.inside_s, rel=0.1)


def test_times_of_processors_that_change_with_the_load_are_taken_from_the_nearest_that_were_seen() -> None:
    def with_cpu(clients: int, seconds: float) -> SeenCell:
        return SeenCell(clients, 100.0, clients / 100.0, (Device("proxy CPU quotas", seconds),))

    found = fit_devices([with_cpu(4, 0.004), with_cpu(16, 0.001)])
    raw = {
        size: found.system(size, None).device("proxy CPU quotas").service_s / found.factor for size in (2, 4, 8, 16, 64)
    }
    assert raw == pytest.approx({2: 0.004, 4: 0.004, 8: 0.002, 16: 0.001, 64: 0.001})


def test_twice_of_a_station_does_what_the_simulated_system_with_it_does(fitted: Fitted) -> None:
    link = twice_of(fitted.system(64, 8), 64, "server uplinks")
    truth = measured(8, 64, 0.5)
    assert link.throughput_then_per_s == pytest.approx(truth.throughput_per_s.mean, rel=0.03)
    assert link.throughput_per_s == pytest.approx(measured(8, 64).throughput_per_s.mean, rel=0.03)
    assert link.throughput_percent > 15.0
    assert link.response_percent < -15.0
    crew = twice_of(fitted.system(64, 2), 64, WORKERS)
    four = simulate_system(replace(SYSTEM, workers=4), 64, 6_000, np.random.default_rng(5))
    assert crew.throughput_then_per_s == pytest.approx(four.throughput_per_s.mean, rel=0.03)
    assert half_of(fitted.system(64, 8), 64, WORKERS).throughput_percent < 0.0
    with pytest.raises(ValueError, match="no workers"):
        twice_of(System((Device("link", 0.1),), 1.0), 3, WORKERS)
    with pytest.raises(ValueError, match="disk is no device of this system; there are client CPU quotas"):
        twice_of(fitted.system(64, 8), 64, "disk")


def test_where_times_are_constant_the_simulation_shows_what_product_form_does_not() -> None:
    link = (Device("link", 0.001),)
    cells = []
    for clients in (7, 9, 11):
        true = simulate_system(System(link, 0.008), clients, 20_000, np.random.default_rng(clients), ["link"])
        cells.append(SeenCell(clients, true.throughput_per_s.mean, true.response_s, link))
    known = Fitted(0.008, 0.0, 0.0, "link", 1.0, 9.0, tuple(cells))
    missed = [cell.throughput_per_s / known.solve(cell.population, None).throughput_per_s - 1.0 for cell in cells]
    assert max(missed) > 0.04
    assert worst_simulated(known, 10_000) < 0.5


def test_twice_of_a_station_by_simulation_does_what_constant_times_do_and_product_form_does_not() -> None:
    """Four workers wait for a link without variation and fill it. Twice the link leaves the workers, each held for its delay."""
    system = System(
        (Device("server uplinks", 0.001, inside=True),),
        outside_s=0.0005,
        inside_s=0.002,
        workers=4,
        built_s=(0.0005, 0.002),
    )
    found = simulate_twice(system, 32, "server uplinks", 20_000)
    assert found.simulated
    assert found.throughput_per_s == pytest.approx(1_000.0, rel=0.01)
    assert found.throughput_then_per_s == pytest.approx(4 / 0.0025, rel=0.01)
    assert found.response_then_s == pytest.approx(32 * 0.0025 / 4, rel=0.01)
    assert found.fullest_then == WORKERS
    by_form = twice_of(system, 32, "server uplinks")
    assert not by_form.simulated
    assert by_form.throughput_per_s < 0.92 * found.throughput_per_s
    more = simulate_twice(system, 32, WORKERS, 20_000)
    assert more.throughput_percent == pytest.approx(0.0, abs=0.5)
    assert more.fullest_then == "server uplinks"


@pytest.mark.parametrize("quota", [0.1, 0.3, 0.5])
def test_a_quota_holds_back_those_that_wait_for_each_other_and_no_lone_request(quota: float) -> None:
    """S4's proxy has 0.46 of a processor. Each request took twice its time in the model, and those of 12 clients were 6 % too slow."""
    away, service = 2e-3, 1e-4
    with_quota = System((Device("cpu", service, quota=quota),), outside_s=away)
    slow = System((Device("cpu", service),), outside_s=away)
    assert with_quota.solve(1).response_s == pytest.approx(away + quota * service, rel=1e-9)
    worst = {"quota": 0.0, "slow": 0.0}
    for clients in (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128):
        # A bucket of some tokens, which hold nobody back before they are used.
        bucket = token_bucket([clients], away + quota * service, service, 2.0, 4)
        for name, system in (("quota", with_quota), ("slow", slow)):
            found = system.solve(clients)
            worst[name] = max(worst[name], abs(found.throughput_per_s / float(bucket.throughput_per_s[0]) - 1.0))
            assert found.throughput_per_s <= (1.0 + 1e-9) / service
            assert sum(found.jobs.values()) == pytest.approx(clients, rel=1e-6)
    assert worst["quota"] < 0.04
    assert worst["slow"] > 0.05


def test_more_than_one_processor_is_as_many_servers_as_the_quota_has_and_no_more() -> None:
    system = System((Device("cpu", 1e-4, quota=1.6),), outside_s=1e-3)
    assert system.solve(1).response_s == pytest.approx(1e-3 + 1.6e-4, rel=1e-9)
    assert system.solve(200).throughput_per_s == pytest.approx(1e4, rel=1e-6)
    twice = with_capacity(system, "cpu", 2.0)
    assert twice.solve(1).response_s == pytest.approx(system.solve(1).response_s, rel=1e-9)
    assert twice.solve(200).throughput_per_s == pytest.approx(2e4, rel=1e-6)


def test_a_fit_with_quotas_finds_the_delay_and_predicts_light_load() -> None:
    truth = System((Device("client", 1e-4, count=3, quota=0.1, own=True), Device("cpu", 5e-5, quota=0.46)), 1.9e-3)
    cells = []
    for clients in (6, 12, 24, 48, 96, 192, 384):
        found = truth.solve(clients)
        cells.append(SeenCell(clients, found.throughput_per_s, found.response_s, truth.devices))
    fitted = fit_devices(cells[::2])
    assert fitted.outside_s == pytest.approx(1.9e-3, rel=0.01)
    for cell in cells[1::2]:
        assert fitted.solve(cell.population, None).throughput_per_s == pytest.approx(cell.throughput_per_s, rel=0.01)
    blind = fit_devices(
        [replace(one, devices=tuple(replace(it, quota=1.0) for it in one.devices)) for one in cells[::2]]
    )
    assert blind.worst_seen > 2.0 * max(fitted.worst_seen, 0.01)


def test_several_devices_take_turns_and_replicas_are_asked_at_once() -> None:
    two = System((Device("proxy CPU quotas", 0.001, count=2),), outside_s=0.01)
    one = System((Device("proxy CPU quotas", 0.001),), outside_s=0.01)
    assert two.solve(200).throughput_per_s == pytest.approx(2.0 * one.solve(200).throughput_per_s, rel=0.01)
    assert two.device("proxy CPU quotas").visit_ratio == 0.5
    assert two.solve(20).jobs["proxy CPU quotas"] + two.solve(20).jobs[OUTSIDE] == pytest.approx(20.0)
    copies = System(
        (Device("memcached CPU quotas", 0.001, 3.0, 3, inside=True, together=True),), 0.01, 0.001, workers=4
    )
    assert copies.solve(100).utilization["memcached CPU quotas"] <= 1.0
    assert set(copies.solve(9).jobs) == {"memcached CPU quotas", OUTSIDE, INSIDE, WORKERS}
    assert copies.device("memcached CPU quotas").capacity_per_s == pytest.approx(1000.0)


def test_a_fit_says_what_it_lacks() -> None:
    cell = SeenCell(4, 100.0, 0.04, SYSTEM.devices)
    with pytest.raises(ValueError, match="at least two populations that have the same devices"):
        fit_devices([cell, cell])
    with pytest.raises(ValueError, match="same devices"):
        fit_devices([cell, replace(cell, population=8, devices=())])
    with pytest.raises(ValueError, match="finite time"):
        Device("link", float("inf"))


def test_a_device_whose_time_is_known_keeps_it_and_delays_are_never_below_those_that_were_built() -> None:
    short = tuple(
        replace(one, service_s=one.service_s * 1.1, known=one.name == "server uplinks") for one in SYSTEM.devices
    )
    cells = [replace(seen(key), devices=short) for key in KEYS if is_kept(key)]
    built = (1.5 * SYSTEM.outside_s, 0.5 * SYSTEM.inside_s)
    found = fit_devices(cells, built)
    assert found.fitted == "server uplinks"
    assert found.factor == 1.0
    assert found.outside_s >= built[0]
    assert found.inside_s >= built[1]
    most = next(one for one in short if one.name == "server uplinks").capacity_per_s
    assert found.solve(500, 8).throughput_per_s <= most * (1.0 + 1e-9)


@pytest.mark.parametrize("burst", [0.0, 0.05])
def test_a_bucket_is_passed_at_once_after_a_pause_and_carries_no_more_than_its_rate(burst: float) -> None:
    link = Device("link", 0.01, burst_s=burst)
    idle = simulate_system(System((link,), 1.0, built_s=(1.0, 0.0)), 1, 2_000, np.random.default_rng(1), ["link"])
    # One client is away for a second: it finds a full bucket, or waits for its own transmission.
    assert idle.response_s == pytest.approx(1.0 if burst else 1.01, abs=1e-6)
    full = simulate_system(System((link,), 1.0, built_s=(1.0, 0.0)), 400, 20_000, np.random.default_rng(1), ["link"])
    assert full.throughput_per_s.mean == pytest.approx(100.0, rel=0.02)


def test_clients_that_have_machines_of_their_own_share_them_out_evenly() -> None:
    """Where each request takes any of three links, some stand empty while others have a queue."""
    links = Device("client uplinks", 0.3, count=3)
    any_one, own = (
        simulate_system(System((replace(links, own=own),), 0.1), 6, 6_000, np.random.default_rng(2), ["client uplinks"])
        for own in (False, True)
    )
    assert own.throughput_per_s.mean > 1.05 * any_one.throughput_per_s.mean
    assert own.throughput_per_s.mean == pytest.approx(10.0, rel=0.03)
