"""Gets that the proxy answers with values that it keeps, in front of real servers (`--near-cache`)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.load import assert_right
from tests.harness.processes import Memcached, Process, Proxy, eventually, weir_binary
from tests.harness.standing import counters
from tests.harness.wire import Wire
from tests.processes.test_joined_gets import cmd_gets

ON = ("--near-cache", "64", "--near-cache-age", "60s")
"""So that no value is too old on a busy machine."""


def test_a_hot_key_is_asked_for_until_it_is_kept(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*ON, "--threads", "1", in_front_of=[servers[0].address])
    client, direct = connect(proxy.address), connect(servers[0].address)
    assert client.store(b"hot", b"value") == b"STORED"
    before = cmd_gets(servers[:1], connect)
    for _ in range(100):
        assert client.get(b"hot") == [(b"hot", b"value")]
    assert cmd_gets(servers[:1], connect) - before == 3
    assert counters(proxy)["near_hits"] == 97
    # Past the proxy: it cannot know.
    assert direct.store(b"hot", b"another") == b"STORED"
    assert client.get(b"hot") == [(b"hot", b"value")]
    assert client.store(b"hot", b"new") == b"STORED"
    assert client.get(b"hot") == [(b"hot", b"new")]


def test_what_another_writes_is_read_when_the_value_is_too_old(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy("--near-cache", "64", "--near-cache-age", "50ms", in_front_of=[servers[0].address])
    client, direct = connect(proxy.address), connect(servers[0].address)
    assert direct.store(b"hot", b"old") == b"STORED"
    for _ in range(10):
        client.get(b"hot")
    assert direct.store(b"hot", b"new") == b"STORED"
    time.sleep(0.1)
    assert client.get(b"hot") == [(b"hot", b"new")]


def test_no_value_outlives_its_item(start_proxy: StartProxy, servers: list[Memcached], connect: Connect) -> None:
    proxy = start_proxy(*ON, "--threads", "1", in_front_of=[servers[0].address])
    client, direct = connect(proxy.address), connect(servers[0].address)
    assert client.ask(b"set hot 0 3 5\r\nvalue") == b"STORED"
    while direct.get(b"hot"):
        for _ in range(10):
            client.get(b"hot")
        time.sleep(0.01)
    assert client.get(b"hot") == [], "its server has nothing any more"
    assert counters(proxy)["near_hits"] > 0


def test_what_another_writes_is_read_at_once_where_servers_are_asked(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*ON, "--near-cache-check", "on", "--threads", "1", in_front_of=[servers[0].address])
    client, direct = connect(proxy.address), connect(servers[0].address)
    for version in range(100):
        value = b"%04d" % version * 1000
        assert direct.store(b"hot", value) == b"STORED"
        for _ in range(3):
            assert client.get(b"hot") == [(b"hot", value)]
    assert direct.ask(b"delete hot") == b"DELETED"
    assert client.get(b"hot") == []
    found = counters(proxy)
    assert (found["near_hits"], found["near_asked"], found["near_outdated"]) == (0, 299, 100)
    # memcached before 1.6.40 sends a value that has not changed, too.
    assert found["near_same"] in (0, 198)


def test_who_is_to_fetch_a_stale_item_is_still_a_client(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*ON, "--threads", "1", in_front_of=[servers[0].address])
    client, direct = connect(proxy.address), connect(servers[0].address)
    assert client.store(b"hot", b"value") == b"STORED"
    assert direct.ask(b"md hot I") == b"HD"
    for _ in range(10):
        assert client.get(b"hot") == [(b"hot", b"value")]
    assert counters(proxy)["near_asked"] == 1
    assert sorted(client.ask(b"mg hot").split()) == [b"HD", b"W", b"X"]


def test_a_server_that_comes_back_empty_is_believed(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(*ON, "--threads", "1", in_front_of=[servers[0].address])
    client = connect(proxy.address)
    assert client.store(b"hot", b"value") == b"STORED"
    for _ in range(10):
        assert client.get(b"hot") == [(b"hot", b"value")]
    servers[0].kill()
    eventually(lambda: fails(client), "the value is forgotten with its server")


def fails(wire: Wire) -> bool:
    line = wire.ask(b"get hot")
    if line.startswith(b"VALUE"):
        assert wire.exactly(12) == b"value\r\nEND\r\n"
        return False
    return line.startswith(b"SERVER_ERROR")


@pytest.mark.parametrize("others", [(), ("--ask-once", "on", "--fill-wait", "20ms")])
def test_nobody_reads_anything_older_than_what_was_acknowledged(
    start_proxy: StartProxy, connect: Connect, others: tuple[str, ...]
) -> None:
    proxy = start_proxy(*ON, "--threads", "2", *others)
    acknowledged, stale, done = 0, list[tuple[int, int]](), threading.Event()
    writer = connect(proxy.address)
    assert writer.store(b"hot", b"0") == b"STORED"

    def read(wire: Wire) -> None:
        while not done.is_set():
            least = acknowledged
            wire.send(b"get hot\r\n" * 10)
            for _ in range(10):
                ((_, value),) = wire.values()
                if int(value) < least:
                    stale.append((int(value), least))

    readers = [threading.Thread(target=read, args=(connect(proxy.address),)) for _ in range(8)]
    for reader in readers:
        reader.start()
    try:
        for version in range(1, 800):
            assert writer.store(b"hot", b"%d" % version) == b"STORED"
            acknowledged = version
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert stale == []
    found = counters(proxy)
    assert found["near_hits"] > 0
    assert found["near_outdated"] > 0


@pytest.mark.parametrize("engine", ["pool", "split"])
def test_engines_with_one_request_at_a_time_refuse_it(engine: str) -> None:
    command = [str(weir_binary()), "proxy", "--server", "127.0.0.1:11211", "--engine", engine, "--near-cache", "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert f"--near-cache belongs to --engine event, and the engine is {engine}" in done.stderr


READS = int(os.environ.get("WEIR_READS", "10000000"))
"""Requests of each run of the long test, nearly all of them gets."""

NEWEST = os.environ.get("MEMCACHED_NEW") or None


@pytest.mark.long
@pytest.mark.parametrize("promise", ["owner", "validated"])
def test_no_read_is_outdated_while_servers_die_and_stall(stack: ExitStack, tmp_path: Path, promise: str) -> None:
    """Of `owner`, one proxy is between all clients and the servers. Of `validated`, half of the clients have another,
    and no server stalls for longer than a write may take: what is applied after its time is up, no other proxy knows.
    Values are as long as those that are worth a question."""
    servers = [stack.enter_context(Memcached(binary=NEWEST)) for _ in range(3)]
    options = ["--near-cache", "256", "--threads", "4"]
    if promise == "validated":
        options = ["--near-cache", "256", "--near-cache-check", "on", "--threads", "2", "--timeout", "5s"]
    count, size = (1, 128) if promise == "owner" else (2, 1100)
    for server in servers:
        server.wait_ready(server.address)
    proxies = [stack.enter_context(Proxy([it.address for it in servers], *options)) for _ in range(count)]
    for proxy in proxies:
        proxy.wait_ready(proxy.address)
    record = tmp_path / "load.json"
    command = [str(weir_binary()), "load", *(word for proxy in proxies for word in ("--target", str(proxy.address)))]
    command += ["--one-writer", "--writes", "0.02", "--keys", "400", "--popularity", "zipf:0.99", "--timeout", "20s"]
    command += ["--connections", "64", "--depth", "8", "--threads", "4", "--value-size", str(size)]
    command += ["--requests", str(READS), "--json", str(record)]
    load = stack.enter_context(Process(command))
    chance, troubles = random.Random(promise), 0
    while load.running:
        time.sleep(chance.uniform(0.5, 1.5))
        place = chance.randrange(len(servers))
        if chance.random() < 0.3:
            servers[place].kill()
            servers[place] = stack.enter_context(Memcached(address=servers[place].address, binary=NEWEST))
            servers[place].wait_ready(servers[place].address)
        else:
            servers[place].freeze()
            # Behind a write whose time is up, 500 ms, nothing of its key is kept for a minute.
            time.sleep(0.8 if promise == "validated" or chance.random() < 0.05 else chance.uniform(0.05, 0.3))
            servers[place].thaw()
        troubles += 1
    assert load.wait() == 0, load.output()
    read = json.loads(record.read_text())
    assert_right(read)
    assert read["phases"]["measured"]["requests"] == READS
    found = [counters(proxy) for proxy in proxies]
    near = {name: sum(it[name] for it in found) for name in found[0] if name.startswith("near")}
    print(f"{promise}: {READS} requests, {troubles} servers killed or stopped, {near}, {read['phases']['measured']}")
    assert troubles > 0
    # memcached before 1.6.40 sends a value that has not changed, too.
    assert near["near_hits" if promise == "owner" else "near_same" if NEWEST else "near_outdated"] > READS // 100
