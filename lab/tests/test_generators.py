"""How clients are shared out to generators, what other generators print, and what other proxies count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.bench.programs.generators import (
    generator_refusals,
    memcaslap_argv,
    prefill_argv,
    shares_of,
    weir_load_argv,
)
from weir_lab.bench.programs.subjects import Abilities, ProxyPlace, proxy_command, proxy_files, proxy_records
from weir_lab.design import Plan, Settings
from weir_lab.errors import RecordError
from weir_lab.records.formats.foreign import GeneratorEntry, load_of_memcaslap
from weir_lab.records.formats.peers import merge_peers, read_nutcracker

PLAN = Plan(repetitions=3, order="randomised-blocks", seed=1, warmup_s=2.0, measured_s=5.0, attempts=1, cooldown_s=1.0)
WEIR = Path("/weir")
PRINTED = Path(__file__).parent / "data" / "memaslap-with-statistics.txt"


def settings(**changes: Any) -> Settings:
    base: dict[str, Any] = {
        "path": "proxy", "clients": 12, "depth": 1, "keys": 100, "value_size_bytes": 128, "write_ratio": 0.1,
        "client_threads": 1, "proxy_threads": 1, "servers": 3, "server_threads": 1, "server_memory_mib": 64,
    }  # fmt: skip
    return Settings.model_validate(base | changes)


@given(
    machines=st.integers(1, 5),
    instances=st.integers(1, 4),
    more=st.integers(0, 50),
    targets=st.integers(1, 4),
    threads=st.integers(1, 4),
)
def test_clients_are_shared_out_whole_and_evenly(
    machines: int, instances: int, more: int, targets: int, threads: int
) -> None:
    clients = machines * instances + more
    names = [f"10.0.0.{number}:1" for number in range(targets)]
    cell = settings(clients=clients, client_machines=machines, instances=instances, client_threads=threads)
    shares = shares_of(cell, names, seed=7)
    assert sum(share.connections for share in shares) == clients
    assert max(share.connections for share in shares) - min(share.connections for share in shares) <= 1
    assert Counter(share.machine for share in shares) == {f"client-{number}": instances for number in range(machines)}
    assert all(1 <= share.threads <= share.connections for share in shares)
    assert len({share.name for share in shares}) == len({share.seed for share in shares}) == len(shares)
    # Connections go to a generator's targets in turn; over all generators no target gets two more than another.
    asked = Counter(share.targets[index % targets] for share in shares for index in range(share.connections))
    assert max(asked.values()) - min(asked.get(name, 0) for name in names) <= 1


def test_one_generator_sends_what_it_always_sent() -> None:
    (share,) = shares_of(settings(), ["10.0.0.1:1"], seed=7)
    assert (share.name, share.machine, share.seed, share.connections) == ("load", "client-0", 7, 12)
    argv = weir_load_argv(WEIR, settings(), PLAN, share, prefilled=False, start_at=None)
    assert argv[:4] == ["/weir", "load", "--target", "10.0.0.1:1"]
    assert "--start-at" not in argv
    assert "--no-prefill" not in argv
    together = weir_load_argv(WEIR, settings(), PLAN, share, prefilled=True, start_at=1.5)
    assert together[-3:] == ["--no-prefill", "--start-at", "1.500000"]
    assert prefill_argv(WEIR, settings(), "10.0.0.1:1", 7)[-2:] == ["--writes", "0"]


def test_memcaslap_runs_through_warm_up_and_cool_down() -> None:
    (share,) = shares_of(settings(generator="memcaslap"), ["10.0.0.1:1"], seed=7)
    argv = memcaslap_argv(PLAN, share, "c")
    assert argv[argv.index("--time") + 1] == "8s"
    assert argv[argv.index("--concurrency") + 1] == "12"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": "direct"}, "asks one target, and there are 3"),
        ({"proxies": 2}, "asks one target, and there are 2"),
        ({"client_threads": 5}, "shares its connections out evenly"),
        ({"client_machines": 5}, "shares its connections out evenly"),
    ],
)
def test_what_memcaslap_cannot_do_is_refused(changes: dict[str, Any], words: str) -> None:
    (refusal,) = generator_refusals(settings(generator="memcaslap", **changes))
    assert words in refusal
    assert generator_refusals(settings(**changes)) == []


def entry() -> GeneratorEntry:
    return GeneratorEntry(
        name="load", generator="memcaslap", machine="client-0", connections=4, threads=1, targets=["a:1"],
        begun_unix_ns=1_000_000_000_000, cpu_ns=5,
    )  # fmt: skip


def blocks(counts: list[tuple[int, int]], misses: int = 0) -> str:
    """What memcaslap prints for these counts and means in µs, one window each."""
    lines = ["servers: a:1", "threads count: 1", "concurrency: 4", "run time: 3s", "windows size: 1k"]
    for count, mean_us in counts:
        lines += ["\x1b[1;1H\x1b[2J", "Total Statistics"]
        lines += [f"Period   1        {count}   {count}   1.0   0   1   9   {mean_us}   1.00   1.00"]
    total = sum(count for count, _ in counts)
    lines += [f"cmd_get: {total}", "cmd_set: 0", f"get_misses: {misses}"]
    return "\n".join([*lines, f"Run time: {len(counts)}.0s Ops: {total} TPS: 1 Net_rate: 1.0M/s", ""])


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5)), min_size=3, max_size=8), st.integers(0, 2))
def test_the_windows_behind_the_warm_up_are_what_was_measured(counts: list[tuple[int, int]], warmup: int) -> None:
    measured = len(counts) - warmup - 1  # the last is cool-down
    if measured < 1 or sum(count for count, _ in counts) == 0:
        return
    load = load_of_memcaslap(blocks(counts), entry(), float(warmup), float(measured), "text")
    kept = counts[warmup : warmup + measured]
    assert load.requests == load.measured.requests == sum(count for count, _ in kept)
    assert load.throughput_rps == pytest.approx(load.requests / measured)
    assert load.response_time_sum_ns == sum(1000 * count * mean for count, mean in kept)
    assert load.requests_of_all_phases == sum(count for count, _ in counts)
    assert load.response_times() is None
    assert (load.config.connections, load.cpu.user_ns, len(load.windows)) == (4, 5, measured)


def test_a_real_output_is_read_and_one_that_ended_early_is_refused() -> None:
    text = PRINTED.read_text()
    load = load_of_memcaslap(text, entry(), 0.0, 1.0, "text")
    assert load.generator == "memcaslap"
    assert load.requests > 0
    with pytest.raises(RecordError, match="windows of 1 s, and 0 of warm-up and 60 measured"):
        load_of_memcaslap(text, entry(), 0.0, 60.0, "text")


def test_misses_and_faults_of_memcaslap_reach_the_record() -> None:
    load = load_of_memcaslap(blocks([(10, 5), (10, 5)], misses=3), entry(), 0.0, 2.0, "text")
    assert load.measured.misses == 3
    assert load.failures.first == ["3 misses"]


def nutcracker(**changes: int) -> str:
    server = {"server_err": 0, "server_timedout": 0, "requests": 10, "responses": 9, "in_queue": 0}
    pool = {"client_err": 0, "forward_error": 0, "server_ejects": 0, "fragments": 4}
    server |= {name: value for name, value in changes.items() if name in server}
    pool |= {name: value for name, value in changes.items() if name in pool}
    return json.dumps({"service": "nutcracker", "uptime": 3, "studied": {**pool, "10.0.0.1:1": server, "b": server}})


def test_nutcracker_counts_are_summed_over_servers_and_proxies() -> None:
    counts = read_nutcracker(nutcracker(server_timedout=1), "here")
    assert (counts.requests, counts.responses, counts.fragments) == (20, 18, 4)
    assert counts.troubles == {"server_timedout": 2}
    both = merge_peers([counts, read_nutcracker(nutcracker(), "here")])
    assert (both.requests, both.troubles) == (40, {"server_timedout": 2})


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"a": {"b": {}}}', nutcracker().replace("requests", "x")])
def test_statistics_that_are_none_are_named(text: str) -> None:
    with pytest.raises(RecordError, match=r"here: (not )?nutcracker's statistics"):
        read_nutcracker(text, "here")


def test_a_proxy_writes_what_its_binary_can_write() -> None:
    able = frozenset({"--windows", "--trace", "--admin"})
    assert proxy_records(Abilities(able, frozenset()), "w", "t") == ["--windows", "w", "--trace", "t"]
    assert proxy_records(Abilities(able - {"--trace"}, frozenset()), "w", "t") == ["--windows", "w"]
    assert proxy_records(Abilities(frozenset(), frozenset()), "w", "t") == []


def test_nutcracker_is_configured_from_the_cell() -> None:
    place = ProxyPlace("10.0.0.9:21", "10.0.0.9:22", ("10.0.0.1:1", "10.0.0.2:1"))
    cell = settings(subject="nutcracker", placement="twemproxy/modula")
    text = proxy_files(cell, None, place, {"conf": "/f.conf"})["conf"]
    assert "listen: 10.0.0.9:21" in text
    assert "distribution: modula" in text
    assert [line.strip() for line in text.splitlines()[-2:]] == ["- 10.0.0.1:1:1", "- 10.0.0.2:1:1"]
    argv = proxy_command(WEIR, cell, None, place, {"conf": "/f.conf"})
    assert argv[:3] == ["nutcracker", "-c", "/f.conf"]
    assert argv[argv.index("-a") + 1 : argv.index("-a") + 4] == ["10.0.0.9", "-s", "22"]


def test_proxies_wait_for_a_server_as_long_as_the_generator() -> None:
    """With 500 ms, a machine that stalls for a moment ended requests, and a run with errors does not count."""
    place = ProxyPlace("10.0.0.9:21", "10.0.0.9:22", ("10.0.0.1:1",))
    argv = proxy_command(WEIR, settings(), None, place, {})
    assert argv[argv.index("--timeout") + 1] == "5000ms"
    assert "timeout: 5000\n" in proxy_files(settings(subject="nutcracker"), None, place, {})["conf"]
