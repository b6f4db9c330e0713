"""What-if questions: other sizes, links, replicas and units; answers with intervals; the command lines that ask."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from weir_lab.cli import app
from weir_lab.cli.models.tier_text import read_tier
from weir_lab.errors import StudyError
from weir_lab.theory.capacity import Tier, plan_capacity, predict_closed, predict_open
from weir_lab.theory.queueing import Kind, Station, fork_join, md1, mm1, solve_closed

PROXY, SERVERS = Tier("proxy", 10e-6, servers=4), Tier("memcached", 5e-6, units=3)


def test_a_tier_in_words() -> None:
    tier = read_tier("memcached:5us+-0.5us:units=3:replicas=3:needed=2:writes=0.1:per_kib=1us", 2048)
    assert tier.service_time_s == pytest.approx(7e-6)
    assert tier.service_error_s == pytest.approx(0.5e-6)
    assert (tier.units, tier.replicas, tier.replicas_needed, tier.writes) == (3, 3, 2, 0.1)
    assert tier.visits_with_copies == pytest.approx(1.2)
    link = read_tier("uplink:@100Mbit", 4096)
    # 4,096 bytes are three packets of 66 bytes of headers each.
    assert link.service_time_s == pytest.approx(8 * (4096 + 3 * 66) / 100e6)
    assert link.service_cv2 == 0.0


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("link:@1Gbit", 0, "needs --value"),
        ("link:@1GB", 100, "is not a rate"),
        ("p:10us:units=1.5", 0, "whole number"),
        ("p:10us:replicas=2:needed=3", 0, "needed <= replicas"),
        ("p:10us+-11us", 0, "error of a time"),
        ("p:10us:servers=2:cv2=0", 0, "one server"),
        ("p:10us", -1, "0 to 1 GiB"),
    ],
)
def test_tiers_that_cannot_be(text: str, value: int, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        read_tier(text, value)


def test_a_link_is_constant_and_a_station_exponential() -> None:
    rate = 20_000.0
    link = predict_open([read_tier("link:@1Gbit", 4096)], rate)
    known = md1(rate, 8 * (4096 + 3 * 66) / 1e9)
    assert link.mean_response_time_s == pytest.approx(known.mean_response_time_s)
    assert link.percentiles_s[99.0] == pytest.approx(known.response_time_quantile_s(0.99), rel=0.02)
    station = predict_open([Tier("s", 1e-5)], 50_000.0)
    assert station.percentiles_s[99.0] == pytest.approx(mm1(50_000.0, 1e5).response_time_quantile_s(0.99), rel=1e-5)


def test_writes_to_all_replicas_take_the_time_of_the_slowest() -> None:
    plan = predict_open([Tier("m", 1.0, units=2, replicas=2, writes=1.0)], 0.5)
    assert plan.mean_response_time_s == pytest.approx(fork_join(0.5, 1.0, 2).mean_s)
    half = predict_open([Tier("m", 1.0, units=2, replicas=2, writes=0.5)], 0.5)
    one = mm1(0.375, 1.0).mean_response_time_s
    assert half.mean_response_time_s == pytest.approx((one + fork_join(0.375, 1.0, 2).mean_s) / 2)
    assert half.utilization[0] == pytest.approx(0.375)


def test_more_of_anything_is_faster_and_more_copies_are_slower() -> None:
    base = [replace(PROXY, units=2), replace(SERVERS, replicas=2, writes=0.2)]
    rate = 300_000.0
    known = predict_open(base, rate).percentiles_s[99.0]
    for better in (replace(base[0], units=3), replace(base[0], servers=8), replace(base[0], service_time_s=8e-6)):
        assert predict_open([better, base[1]], rate).percentiles_s[99.0] < known
    for worse in (replace(base[1], replicas=3), replace(base[1], writes=0.4), replace(base[1], imbalance=1.3)):
        assert predict_open([base[0], worse], rate).percentiles_s[99.0] > known
    assert predict_open([base[0], replace(base[1], needed=1)], rate).percentiles_s[99.0] < known


def test_errors_of_times_become_intervals_of_answers() -> None:
    rate = 50_000.0
    tiers = [Tier("a", 1e-5, service_error_s=1e-6), Tier("b", 4e-6, service_error_s=1e-6)]
    answer = predict_open(tiers, rate).mean
    gaps = []
    for index, tier in enumerate(tiers):
        moved = [*tiers]
        moved[index] = replace(tier, service_time_s=tier.service_time_s + 1e-6, service_error_s=0.0)
        gaps.append(predict_open(moved, rate).mean.value - answer.value)
    assert answer.high - answer.value == pytest.approx(math.hypot(*gaps))
    assert answer.low < answer.value
    exact = predict_open([replace(tier, service_error_s=0.0) for tier in tiers], rate).mean
    assert exact.low == exact.value == exact.high == answer.value
    edge = predict_open([Tier("a", 1e-5, service_error_s=2e-6)], 90_000.0).mean
    assert math.isinf(edge.high)
    closed = predict_closed(tiers, 64)
    # A saturated loop serves what its slowest tier serves, so the interval is that tier's alone.
    assert closed.throughput.low == pytest.approx(1 / 11e-6, rel=0.01)
    assert closed.throughput.high == pytest.approx(1 / 9e-6, rel=0.01)


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 4), st.floats(0.0, 1e-3))
def test_without_copies_a_closed_load_is_the_product_form(clients: int, units: int, servers: int, delay: float) -> None:
    tiers = [Tier("p", 1e-5, servers=servers), Tier("m", 5e-6, units=units)]
    stations = [Station("p", 1e-5, servers=servers), Station("z", delay, kind=Kind.DELAY)]
    stations += [Station(f"m{unit}", 5e-6, 1 / units) for unit in range(units)]
    exact = solve_closed(stations, clients)
    plan = predict_closed(tiers, clients, delay)
    assert plan.throughput.value == pytest.approx(float(exact.throughput_per_s[-1]), rel=1e-9)
    assert plan.response_time.value == pytest.approx(float(exact.response_time_s[-1]), rel=1e-8)
    copied = [tiers[0], replace(tiers[1], replicas=units, writes=0.5)]
    assert predict_closed(copied, clients, delay).throughput.value <= plan.throughput.value * (1 + 1e-9)


def test_one_client_waits_for_the_slowest_of_idle_replicas() -> None:
    plan = predict_closed([Tier("m", 1.0, units=3, replicas=3, writes=1.0)], 1, 2.0)
    assert plan.throughput.value == pytest.approx(1 / (2.0 + 1 + 1 / 2 + 1 / 3), rel=0.03)


def test_thousands_of_machines_on_paper() -> None:
    plan = predict_closed([Tier("proxy", 10e-6, servers=4, units=500), Tier("m", 5e-6, units=2000)], 10_000, 1e-3)
    assert "approximate" in plan.method
    assert plan.throughput.value == pytest.approx(10_000 / (1e-3 + 15e-6), rel=0.01)
    capacity = plan_capacity([Tier("proxy", 10e-6, servers=4), Tier("m", 5e-6, imbalance=1.2)], 1e9, 99.0, 200e-6)
    assert sum(tier.units for tier in capacity.tiers) > 5000
    assert capacity.percentiles_s[99.0] <= 200e-6


def test_the_commands_answer_with_intervals() -> None:
    run = CliRunner().invoke
    tiers = ["--tier", "proxy:10us+-1us:servers=4", "--tier", "memcached:5us:replicas=3:needed=2:writes=0.1"]
    plan = run(app, ["capacity", "--rate", "1e6", "--p99", "2ms", "--value", "512", *tiers, "--tier", "link:@10Gbit"])
    assert plan.exit_code == 0
    assert "units if all times are at their lower ends: proxy 3" in plan.output
    assert " to " in plan.output.splitlines()[4]
    closed = run(
        app, ["predict", *tiers[:2], "--tier", "memcached:5us:units=3:replicas=3:writes=0.1", "--clients", "8"]
    )
    assert closed.exit_code == 0
    assert "parallel writes, approximate" in closed.output
    few = run(app, ["predict", *tiers[:2], "--tier", "memcached:5us:replicas=3:writes=0.1", "--clients", "8"])
    assert few.exit_code == 1
    assert type(few.exception).__name__ == "StudyError"
