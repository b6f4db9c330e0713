from __future__ import annotations

import csv
from importlib import resources

import pytest

from synthetic import STUDY_TEXT
from weir_lab.bench.links import TRIALS
from weir_lab.design import FaultsError, parse_study
from weir_lab.design.topology import Cpus, Links, Shape, Topology, tier_of
from weir_lab.errors import StudyError


def table(name: str) -> list[dict[str, str]]:
    text = resources.files("weir_lab.report").joinpath(f"oracles/data/{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_the_default_links_are_those_that_were_measured() -> None:
    links = Links()
    tiers = {"client": "client", "middleware": "proxy", "server": "server"}
    round_trips: dict[frozenset[str], list[float]] = {}
    for row in table("network"):
        sender, receiver = tiers[row["from"]], tiers[row["to"]]
        assert getattr(links, f"{sender}_mbit_s") == float(row["bandwidth_mbit_s"])
        round_trips.setdefault(frozenset({sender, receiver}), []).append(float(row["min_latency_ms"]))
    for pair, measured in round_trips.items():
        one, other = pair
        there_and_back = getattr(links, f"{one}_delay_ms") + getattr(links, f"{other}_delay_ms")
        # Each pair was measured in both directions, and the two differ by up to 0.2 ms.
        assert there_and_back == pytest.approx(sum(measured) / 2, abs=0.005)


def test_bounds_are_those_of_the_reference_data() -> None:
    rows = {
        (row["workload"], row["client_machines"], row["servers"]): float(row["bound_ops_s"])
        for row in table("recomputed_bandwidth_bounds")
        if row["study"] == "S5" and row["middlewares"] == "0"
    }
    reads, one, three = (trial.bound_rps(Topology()) for trial in TRIALS)
    assert reads == pytest.approx(rows["read", "3", "1"], rel=1e-9)
    assert one == pytest.approx(rows["write", "1", "2"], rel=1e-9)
    assert three == pytest.approx(rows["write", "3", "1"], rel=1e-9)


def test_a_core_for_the_delay_device_makes_other_runs_and_none_makes_no_old_run_stale() -> None:
    def built(text: str) -> dict[str, object]:
        return parse_study(STUDY_TEXT + text).topology.as_built()

    pinned = built("\n[topology]\ncores = { proxy = [0], network = [1] }\n")
    assert pinned["cores"] == {"client": [], "proxy": [0], "server": [], "network": [1]}
    assert built("\n[topology]\ncores = { proxy = [0] }\n")["cores"] == {"client": [], "proxy": [0], "server": []}


def test_a_study_names_links_quotas_and_cores_or_takes_the_defaults() -> None:
    assert parse_study(STUDY_TEXT).topology == Topology()
    text = (
        STUDY_TEXT + "\n[topology]\nlinks = { server_mbit_s = 50 }\ncpu = { client = 0.5 }\ncores = { proxy = [1] }\n"
    )
    topology = parse_study(text).topology
    assert (topology.mbit_s("server-2"), topology.mbit_s("client-0")) == (50.0, 201.0)
    assert (topology.cpus("client-0"), topology.cpus("server-0")) == (0.5, None)
    assert (topology.cores_of("proxy-0"), topology.cores_of("client-0")) == ((1,), ())
    assert topology.delay_ms("proxy-0") == 0.35
    with pytest.raises(FaultsError, match=r"unknown key server_mbit: did you mean server_mbit_s\?"):
        parse_study(STUDY_TEXT + "\n[topology.links]\nserver_mbit = 50\n")


def test_cores_that_are_kept_awake_are_other_machines() -> None:
    """And a study that does not ask for it stays what it was before there was such a key."""
    asleep, awake = Topology(speed=0.2), Topology(speed=0.2, awake=True)
    assert "awake" not in asleep.as_built()
    assert awake.as_built() == {**asleep.as_built(), "awake": True}


def test_quotas_that_nobody_could_keep_are_refused() -> None:
    topology = Topology(cpu=Cpus(client=0.2, proxy=0.2, server=0.2))
    topology.require_room(Shape(clients=3, proxies=2, servers=4), cpus=2)
    with pytest.raises(StudyError, match=r"4 client, 2 proxy and 4 server machines ask for 2 CPUs together.*are 1\.8"):
        topology.require_room(Shape(clients=4, proxies=2, servers=4), cpus=2)
    Topology().require_room(Shape(clients=100, proxies=100, servers=100), cpus=1)


def test_shapes_hold_each_other() -> None:
    assert Shape(1, 0, 3).or_larger(Shape(2, 1, 1)) == Shape(2, 1, 3)
    assert Shape(1, 1, 2).machines == ["client-0", "proxy-0", "server-0", "server-1"]
    assert {tier_of(name) for name in Shape(1, 1, 1).machines} == {"client", "proxy", "server"}
    for name in ("switch", "client", "client-", "router-0"):
        with pytest.raises(ValueError, match="not the name of a machine"):
            tier_of(name)


def test_a_slower_study_has_slower_links_smaller_quotas_and_longer_delays() -> None:
    text = STUDY_TEXT + "\n[topology]\nspeed = 0.1\ncpu = { client = 2.0, server = 1.0 }\n"
    topology = parse_study(text).topology
    assert topology.mbit_s("server-0") == pytest.approx(10.1)
    assert topology.delay_ms("proxy-0") == pytest.approx(3.5)
    assert topology.cpus("client-1") == pytest.approx(0.2)
    assert topology.cpus("proxy-0") is None
    built = topology.built_links
    assert (built.server_mbit_s, built.client_delay_ms) == pytest.approx((10.1, 3.2))
    # Machines that are too large for this one at the study's speed fit at a tenth.
    topology.require_room(Shape(clients=3, proxies=1, servers=5), cpus=2)
    with pytest.raises(StudyError, match=r"ask for 11 CPUs together.*a smaller topology\.speed"):
        Topology(cpu=topology.cpu).require_room(Shape(clients=3, proxies=1, servers=5), cpus=2)
    with pytest.raises(FaultsError, match=r"at most 1 is wanted, not 1\.1"):
        parse_study(STUDY_TEXT + "\n[topology]\nspeed = 1.1\n")


def test_runs_at_full_speed_are_those_of_before_there_was_a_speed() -> None:
    assert "speed" not in Topology().as_built()
    assert Topology(speed=0.5).as_built()["speed"] == 0.5
    assert Topology().built_links == Topology().links
