"""The log: one line for each change of state, whichever and how many threads see it."""

from __future__ import annotations

import http
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy, engine_options
from tests.harness import log
from tests.harness.faulty import FaultyServer, Misbehaviour
from tests.harness.placement import keys_by_server
from tests.harness.processes import Address, ConfiguredProxy, Memcached, Proxy, eventually
from tests.harness.standing import counters, is_read
from tests.harness.wire import Wire


def pool(servers: list[Address]) -> str:
    return f"[pools.main]\nservers = {[str(server) for server in servers]}\n"


def ask_until_reported(wires: list[Wire], requests: list[bytes], proxy: Proxy, event: str, server: Address) -> None:
    """All wires ask at once, again and again, until the log has a line."""

    is_over = threading.Event()

    def ask(wire: Wire) -> None:
        while not is_over.is_set():
            for request in requests:
                wire.ask(request)

    asking = [threading.Thread(target=ask, args=(wire,)) for wire in wires]
    for thread in asking:
        thread.start()
    try:
        log.wait_reported(proxy, event, server)
    finally:
        is_over.set()
        for thread in asking:
            thread.join()


@pytest.mark.every_engine
def test_each_change_of_state_is_one_line(
    stack: ExitStack, servers: list[Memcached], connect: Connect, engine: str, tmp_path: Path
) -> None:
    """Nothing was said when a server died, froze or spoke nonsense; an operator learned it from clients."""
    faulty = stack.enter_context(FaultyServer(servers[2].address))
    killed, frozen, garbled = servers[0].address, servers[1].address, faulty.address
    file = tmp_path / "weir.toml"
    file.write_text(pool([killed, frozen, garbled]))
    options = engine_options(engine, ("--threads", "2", "--timeout", "2s", *log.OPTIONS))
    proxy = stack.enter_context(ConfiguredProxy(file, *options))
    proxy.wait_ready(proxy.address)
    log.wait_reported(proxy, "listening")
    for server in (killed, frozen, garbled):
        eventually(lambda server=server: is_read(proxy, server), "it is connected")  # type: ignore[misc]
    keys = keys_by_server(proxy.address, [server.address for server in servers])
    wires = [connect(proxy.address) for _ in range(6)]

    servers[0].kill()
    assert log.wait_reported(proxy, "server_down", killed)["why"] in ("unreachable", "closes")
    stack.enter_context(Memcached(address=killed))
    log.wait_reported(proxy, "server_up", killed)

    servers[1].freeze()
    ask_until_reported(wires, [b"get " + keys[1][0]], proxy, "server_marked_down", frozen)
    servers[1].thaw()
    log.wait_reported(proxy, "server_up", frozen)

    faulty.turn_bad(Misbehaviour.ANSWERS_GARBAGE)
    ask_until_reported(wires, [b"get " + keys[2][0]], proxy, "server_down", garbled)
    assert log.reported(proxy, "server_down", garbled)[0]["why"] == "garbage"
    faulty.turn_good()
    log.wait_reported(proxy, "server_up", garbled)

    file.write_text("nonsense")
    proxy.signal(signal.SIGHUP)
    assert "weir.toml:1" in log.wait_reported(proxy, "reload_refused")["reason"]
    file.write_text(pool([killed, frozen]))
    proxy.signal(signal.SIGHUP)
    assert log.wait_reported(proxy, "reloaded")["generation"] == 2
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()

    lines = log.count(proxy)
    # Every thread has connections of its own. The first that is replaced is reported at once, the others at the end.
    assert lines.pop(("connection_replaced", str(garbled))) in (1, 2), proxy.output()
    # On a busy machine one of them may be taken for dead: the server went on, and answered on another one long before.
    assert lines.pop(("connection_replaced", str(frozen)), 0) <= 2, proxy.output()
    assert lines == {
        ("listening", ""): 1,
        ("server_down", str(killed)): 1,
        ("server_up", str(killed)): 1,
        ("server_marked_down", str(frozen)): 1,
        ("server_up", str(frozen)): 1,
        ("server_down", str(garbled)): 1,
        ("server_up", str(garbled)): 1,
        ("reload_refused", ""): 1,
        ("reloaded", ""): 1,
        ("stopping", ""): 1,
        ("draining", ""): 1,
        ("stopped", ""): 1,
    }, proxy.output()
    for line in log.lines(proxy):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in ("error", "warn", "info")
        assert line["message"]


@pytest.mark.every_engine
@pytest.mark.parametrize("journal_keys", [1000, 1])
def test_a_copy_that_misses_writes_is_stale_and_fresh_again(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, stack: ExitStack, journal_keys: int
) -> None:
    options = ("--threads", "2", "--replicas", "2", "--journal-keys", str(journal_keys), *log.OPTIONS)
    proxy = start_proxy(*options, in_front_of=[server.address for server in servers[:2]])
    address = servers[1].address
    eventually(lambda: is_read(proxy, address), "it is connected")
    wires = [connect(proxy.address) for _ in range(4)]
    servers[1].kill()
    log.wait_reported(proxy, "server_down", address)
    for number in range(40):
        # While not every thread knows that it is down a write may fail.
        wires[number % 4].store(b"key:%d" % number, b"value")
    log.wait_reported(proxy, "server_stale", address)
    stack.enter_context(Memcached(address=address))
    log.wait_reported(proxy, "server_fresh", address)
    eventually(lambda: is_read(proxy, address), "it is read")
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()
    wanted = ["server_down", "server_up", "server_stale", "server_fresh"]
    if journal_keys == 1:
        wanted += ["server_flush_wanted", "server_flushed"]
    lines = {event: number for (event, server), number in log.count(proxy).items() if server}
    assert lines == dict.fromkeys(wanted, 1), proxy.output()


def test_text_is_one_line_each_and_can_be_less(start_proxy: StartProxy, servers: list[Memcached]) -> None:
    proxies = [start_proxy(), start_proxy("--log-level", "warn")]
    for proxy in proxies:
        eventually(lambda proxy=proxy: is_read(proxy, servers[0].address), "it is connected")  # type: ignore[misc]
    servers[0].kill()
    for proxy in proxies:
        eventually(lambda proxy=proxy: "is down" in proxy.output(), "it is said")  # type: ignore[misc]
        proxy.signal(signal.SIGTERM)
        assert proxy.wait() == 0
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    all_lines, warnings = (proxy.output().splitlines() for proxy in proxies)
    assert all(re.match(rf"{stamp} (warn |info ) \S", line) for line in all_lines), all_lines
    assert len(all_lines) == 5, all_lines
    assert len(warnings) == 1, warnings
    # A connection may be made at the last moment, and closed.
    why = "(cannot be connected to|closes its connections)"
    assert re.fullmatch(rf"{stamp} warn  server {servers[0].address} is down: it {why}", warnings[0]), warnings


def test_a_flapping_server_does_not_fill_the_log(start_proxy: StartProxy, connect: Connect, stack: ExitStack) -> None:
    """A server that greets as memcached does and then says nonsense goes up and down without end."""
    address = Address.free()
    listener = stack.enter_context(socket.create_server(address.pair))

    def serve_one(connection: socket.socket) -> None:
        # The proxy ends the connection, perhaps before it has read all.
        with suppress(OSError), connection, connection.makefile("rb") as asked:
            for line in asked:
                said = b"VERSION 1\r\n" if line == b"version\r\n" else b"\x1b[31m nonsense\r\n"
                connection.sendall(b"END\r\n" if line.startswith(b"stats") else said)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    stack.callback(listener.shutdown, socket.SHUT_RDWR)
    proxy = start_proxy("--threads", "1", *log.OPTIONS, in_front_of=[address])
    wire = connect(proxy.address)

    def is_enough() -> bool:
        wire.ask(b"get key")
        return counters(proxy)["server_violations"] >= 6

    eventually(is_enough, "it has said nonsense six times")
    violations = counters(proxy)["server_violations"]
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0
    replaced = log.reported(proxy, "connection_replaced", address)
    assert sum(1 + line.get("more", 0) for line in replaced) == violations, "all are counted"
    # The first one, and the last one with the number of the others.
    assert len(replaced) == 2, proxy.output()
    assert len(log.reported(proxy, "server_down", address)) <= 10
    assert "\x1b" not in proxy.output()


def status(proxy: Proxy, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{proxy.admin}{path}") as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


@pytest.mark.every_engine
def test_a_proxy_whose_servers_are_all_down_is_not_ready(
    start_proxy: StartProxy, servers: list[Memcached], stack: ExitStack
) -> None:
    """It said that it was ready, and a balancer sent it clients that got nothing but errors."""
    proxy = start_proxy(in_front_of=[servers[0].address, servers[1].address])
    ready, unready = http.HTTPStatus.OK, http.HTTPStatus.SERVICE_UNAVAILABLE
    eventually(lambda: status(proxy, "/readyz") == ready, "it has connected")
    servers[0].kill()
    eventually(lambda: "is down" in proxy.output(), "that is known")
    assert status(proxy, "/readyz") == ready, "there is another one"
    servers[1].kill()
    eventually(lambda: status(proxy, "/readyz") == unready, "no pool can serve")
    assert status(proxy, "/healthz") == ready, "a restart would not help"
    stack.enter_context(Memcached(address=servers[1].address))
    eventually(lambda: status(proxy, "/readyz") == ready, "one is back")


@pytest.mark.every_engine
def test_a_proxy_that_is_asked_to_stop_is_not_ready_and_serves_for_a_while(
    start_proxy: StartProxy, connect: Connect
) -> None:
    """It refused clients at once that a balancer went on sending, which had not asked again yet."""
    proxy = start_proxy("--drain-delay", "3s", *log.OPTIONS)
    eventually(lambda: status(proxy, "/readyz") == http.HTTPStatus.OK, "it has connected")
    old = connect(proxy.address)
    old.in_step()
    began = time.monotonic()
    proxy.signal(signal.SIGTERM)
    eventually(lambda: status(proxy, "/readyz") == http.HTTPStatus.SERVICE_UNAVAILABLE, "a balancer can see it")
    new = connect(proxy.address)
    assert new.store(b"key", b"value") == b"STORED"
    old.in_step()
    assert not log.reported(proxy, "draining")
    assert proxy.wait() == 0
    assert time.monotonic() - began >= 2.9
    assert new.ended()
    assert [line["event"] for line in log.lines(proxy)][-3:] == ["stopping", "draining", "stopped"]


@pytest.mark.every_engine
def test_statistics_that_are_refused_are_counted(start_proxy: StartProxy, connect: Connect, engine: str) -> None:
    """A client that got `SERVER_ERROR stats busy` stood in no number."""
    proxy = start_proxy("--threads", "1")
    # A pool answers one after the other.
    each, wires = 20 if engine == "pool" else 100, [connect(proxy.address) for _ in range(40)]
    for wire in wires:
        wire.send(b"stats settings\r\n" * each + b"mn\r\n")
    refused = 0
    for wire in wires:
        for line in iter(wire.line, b"MN"):
            refused += line == b"SERVER_ERROR stats busy"
    print(f"{refused} of {len(wires) * each} refused")
    assert counters(proxy)["stats_refused"] == refused


def test_a_second_signal_ends_a_proxy_that_waits(start_proxy: StartProxy) -> None:
    proxy = start_proxy("--drain-delay", "1h", *log.OPTIONS)
    proxy.signal(signal.SIGTERM)
    log.wait_reported(proxy, "stopping")
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 1
