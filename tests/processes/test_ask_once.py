"""Gets that wait for the reply to an earlier one, in front of real servers (`--ask-once on`)."""

from __future__ import annotations

import subprocess
import threading

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached, eventually, weir_binary
from tests.harness.standing import counters
from tests.harness.wire import Wire
from tests.processes.test_joined_gets import cmd_gets

CLIENTS = 60


@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_herd_asks_its_server_once(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, setting: str
) -> None:
    proxy = start_proxy("--ask-once", setting, "--threads", "1", in_front_of=[servers[0].address])
    wires = [connect(proxy.address) for _ in range(CLIENTS)]
    assert wires[0].store(b"hot", b"value") == b"STORED"
    before = cmd_gets(servers[:1], connect)
    servers[0].freeze()
    wires[0].send(b"get hot\r\n")
    eventually(lambda: proxy.snapshot()["servers"][0]["in_flight"]["length"] == 1, "the first get is with the server")
    for wire in wires[1:]:
        wire.send(b"get hot\r\n")
    asked = 1 if setting == "on" else CLIENTS
    eventually(lambda: counters(proxy)["requests"] == CLIENTS + 1, "all gets have come")
    assert counters(proxy)["gets_coalesced"] == CLIENTS - asked
    servers[0].thaw()
    for wire in wires:
        assert wire.values() == [(b"hot", b"value")]
    # Without the setting, those that came together are one message, which asks for the key once.
    found = cmd_gets(servers[:1], connect) - before
    assert found == 1 if setting == "on" else found > 1
    assert counters(proxy)["gets_coalesced_again"] == 0


def test_those_who_wait_outlive_the_server_of_the_first(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    proxy = start_proxy(
        *("--ask-once", "on", "--threads", "1", "--replicas", "2"),
        in_front_of=[server.address for server in servers[:2]],
    )
    wires = [connect(proxy.address) for _ in range(CLIENTS)]
    assert wires[0].store(b"hot", b"value") == b"STORED"
    names = proxy.reported("/where?key=hot")["servers"]
    first = next(server for server in servers if str(server.address) == names[0])
    first.freeze()
    wires[0].send(b"get hot\r\n")
    # What comes in the same turn shares its message, and nothing waits.
    eventually(lambda: any(it["in_flight"]["length"] for it in proxy.snapshot()["servers"]), "the first one was sent")
    for wire in wires[1:]:
        wire.send(b"get hot\r\n")
    eventually(lambda: counters(proxy)["gets_coalesced"] > 0, "some wait")
    first.kill()
    for wire in wires:
        assert wire.values() == [(b"hot", b"value")], "the other replica has it"


def test_nobody_reads_anything_older_than_what_was_acknowledged(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--ask-once", "on", "--threads", "2")
    acknowledged, stale, done = 0, list[tuple[int, int]](), threading.Event()
    writer = connect(proxy.address)
    assert writer.store(b"hot", b"0") == b"STORED"

    def read(wire: Wire) -> None:
        while not done.is_set():
            least = acknowledged
            wire.send(b"get hot\r\n")
            ((_, value),) = wire.values()
            if int(value) < least:
                stale.append((int(value), least))

    readers = [threading.Thread(target=read, args=(connect(proxy.address),)) for _ in range(16)]
    for reader in readers:
        reader.start()
    try:
        for version in range(1, 1_500):
            assert writer.store(b"hot", b"%d" % version) == b"STORED"
            acknowledged = version
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert stale == []
    assert counters(proxy)["gets_coalesced"] > 0, "some have waited"


@pytest.mark.parametrize("engine", ["pool", "split"])
def test_engines_with_one_request_at_a_time_refuse_it(engine: str) -> None:
    command = [str(weir_binary()), "proxy", "--server", "127.0.0.1:11211", "--engine", engine, "--ask-once", "on"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert f"--ask-once belongs to --engine event, and the engine is {engine}" in done.stderr
