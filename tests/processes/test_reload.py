"""A reload while clients ask: servers come and go, prefixes lead elsewhere, and no request is dropped."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, engine_options
from tests.harness.placement import keys_by_server
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    ConfiguredProxy,
    Memcached,
    Process,
    eventually,
    weir_binary,
)
from tests.harness.wire import Wire

StartConfigured = Callable[..., ConfiguredProxy]


def pool(name: str, servers: Iterable[object], *settings: str) -> str:
    listed = ", ".join(f'"{server}"' for server in servers)
    return "\n".join([f"[pools.{name}]", f"servers = [{listed}]", *settings, ""])


@pytest.fixture
def start_configured(stack: ExitStack, tmp_path: Path, engine: str) -> StartConfigured:
    """Starts a proxy with a configuration file of this text, and waits for it."""

    def start(text: str, *options: str) -> ConfiguredProxy:
        file = tmp_path / "weir.toml"
        file.write_text(text)
        options = engine_options(engine, ("--timeout", f"{LIVENESS_S}s", *options))
        proxy = stack.enter_context(ConfiguredProxy(file, *options))
        proxy.wait_ready(proxy.address)
        proxy.wait_ready(proxy.admin)
        return proxy

    return start


def in_flight(proxy: ConfiguredProxy, server: Memcached) -> int:
    entries = {entry["server"]: entry for entry in proxy.snapshot()["servers"]}
    return int(entries[str(server.address)]["in_flight"]["length"])


def connections(server: Memcached) -> int:
    """Connections that a server has, but for the one that asks."""
    with Wire(server.address) as wire:
        wire.send(b"stats\r\n")
        lines = iter(wire.line, b"END")
        count = next(line for line in list(lines) if line.startswith(b"STAT curr_connections "))
    return int(count.split()[2]) - 1


@pytest.mark.every_engine
@pytest.mark.parametrize("by", ["signal", "admin port"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_server_that_is_removed_answers_first(
    start_configured: StartConfigured, servers: list[Memcached], connect: Connect, threads: int, by: str, engine: str
) -> None:
    addresses = [server.address for server in servers]
    # What listens counts, too.
    alone = connections(servers[0])
    proxy = start_configured(pool("main", addresses), "--threads", str(threads))
    # Of four workers for each thread, one at least stays free; of a split, only two readers of that server are held.
    held = keys_by_server(proxy.address, addresses)[0][: {"event": 12, "pool": 3, "split": 2}[engine]]
    eventually(lambda: connections(servers[0]) > alone, "the proxy is connected")
    wires = [connect(proxy.address) for _ in held]
    servers[0].freeze()
    for key, wire in zip(held, wires, strict=True):
        wire.send(b"get " + key + b"\r\n")
    eventually(lambda: in_flight(proxy, servers[0]) == len(held), "all requests are in flight")
    proxy.file.write_text(pool("main", addresses[1:]))
    if by == "signal":
        proxy.signal(signal.SIGHUP)
        eventually(lambda: proxy.generation() == 2, "the file is read again")
    else:
        assert proxy.reload() == (200, "generation 2: 2 servers, 0 of them new, 1 removed\n")
    # What comes now goes to the others, though those that came before wait.
    with Wire(proxy.address) as other:
        assert other.store(held[0], b"new") == b"STORED"
        assert other.get(held[0]) == [(held[0], b"new")]
    servers[0].thaw()
    for key, wire in zip(held, wires, strict=True):
        assert wire.values() == [(key, key * 2)]
        wire.in_step()
    eventually(lambda: connections(servers[0]) <= alone, "its connections are dropped")
    with Wire(servers[0].address) as direct:
        assert direct.get(held[0]) == [(held[0], held[0] * 2)]


@pytest.mark.every_engine
def test_prefixes_lead_to_pools(start_configured: StartConfigured, servers: list[Memcached], connect: Connect) -> None:
    addresses = [server.address for server in servers]
    users = pool("users", addresses[1:2]) + pool("sessions", addresses[2:])
    routes = '[routes]\n"user:" = "users"\n"user:session:" = "sessions"\n'
    proxy = start_configured('default = "main"\n' + pool("main", addresses[:1]) + users + routes)
    wire = connect(proxy.address)
    keys = [b"a", b"user", b"user:1", b"user:session", b"user:session:1", b"z"]
    for key in keys:
        assert wire.store(key, key) == b"STORED"
    assert wire.get(*keys) == [(key, key) for key in keys]
    with Wire(addresses[0]) as first, Wire(addresses[1]) as second, Wire(addresses[2]) as third:
        assert [key for key, _ in first.get(*keys)] == [b"a", b"user", b"z"]
        assert [key for key, _ in second.get(*keys)] == [b"user:1", b"user:session"]
        assert [key for key, _ in third.get(*keys)] == [b"user:session:1"]
    # The same pools, other prefixes.
    proxy.file.write_text(proxy.file.read_text().replace('"user:"', '"u"'))
    status, said = proxy.reload()
    assert status == 200, said
    assert wire.store(b"user", b"there") == b"STORED"
    with Wire(addresses[1]) as second:
        assert second.get(b"user") == [(b"user", b"there")]
    config = proxy.snapshot()["config"]
    assert config["routes"] == [{"prefix": "u", "pool": "users"}, {"prefix": "user:session:", "pool": "sessions"}]
    assert [entry["pool"] for entry in config["pools"]] == ["main", "sessions", "users"]


def test_a_reload_changes_no_engine(start_configured: StartConfigured, servers: list[Memcached]) -> None:
    text = pool("main", [servers[0].address])
    proxy = start_configured(text)
    proxy.file.write_text('[proxy]\nengine = "pool"\nworkers = 3\n' + text)
    status, said = proxy.reload()
    assert status == 200, said
    assert "engine stays event: pool needs a restart" in said
    assert proxy.snapshot()["config"]["engine"] == "event"


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_pool_keeps_whether_writes_have_an_order(
    start_configured: StartConfigured, servers: list[Memcached], connect: Connect, replicas: int
) -> None:
    addresses = [server.address for server in servers]
    proxy = start_configured(pool("main", addresses, f"replicas = {replicas}"), "--engine", "pool")
    proxy.file.write_text(pool("main", addresses, f"replicas = {3 - replicas}"))
    status, said = proxy.reload()
    assert status == 422
    assert "engine pool cannot change between one replica and several while it serves" in said
    proxy.file.write_text(pool("main", addresses[:2], f"replicas = {replicas}"))
    assert proxy.reload() == (200, "generation 2: 2 servers, 0 of them new, 1 removed\n")
    wire = connect(proxy.address)
    assert wire.store(b"key", b"value") == b"STORED"
    held = []
    for address in addresses:
        with Wire(address) as direct:
            held.append(len(direct.get(b"key")))
    assert sum(held) == replicas


def test_what_needs_a_restart_is_said_and_stays(
    start_configured: StartConfigured, servers: list[Memcached], connect: Connect
) -> None:
    text = pool("main", [servers[0].address])
    proxy = start_configured("[proxy]\nthreads = 1\n" + text)
    proxy.file.write_text("[proxy]\nthreads = 3\nmax_connections = 7\ndrain_timeout = '1s'\n" + text)
    status, said = proxy.reload()
    assert status == 200, said
    assert "threads stays 1: 3 needs a restart" in said
    assert "max-connections stays 10000: 7 needs a restart" in said
    assert "drain-timeout stays 10s: 1s needs a restart" in said
    assert proxy.snapshot()["config"]["threads"] == 1
    connect(proxy.address).in_step()


@pytest.mark.every_engine
def test_what_is_in_force_is_reported_everywhere(
    start_configured: StartConfigured, servers: list[Memcached], connect: Connect
) -> None:
    text = pool("main", [servers[0].address])
    proxy = start_configured(text)
    first = proxy.snapshot()["config"]
    assert (first["generation"], first["reloads_refused"]) == (1, 0)
    proxy.file.write_text("nonsense")
    proxy.signal(signal.SIGHUP)
    eventually(lambda: proxy.snapshot()["config"]["reloads_refused"] == 1, "the reload is refused")
    eventually(lambda: "weir.toml:1: " in proxy.output(), "it is said why")
    proxy.file.write_text(text)
    assert proxy.reload()[0] == 200
    second = proxy.snapshot()["config"]
    assert (second["generation"], second["reloads_refused"]) == (2, 1)
    assert second["loaded_unix_ns"] >= first["loaded_unix_ns"]
    wire = connect(proxy.address)
    wire.send(b"stats settings\r\n")
    settings = dict(line.split(b" ")[1:3] for line in iter(wire.line, b"END"))
    assert (settings[b"generation"], settings[b"reloads_refused"]) == (b"2", b"1")
    assert int(settings[b"loaded"]) == second["loaded_unix_ns"] // 10**9
    assert re.search(r"^weir_config_generation 2$", proxy.http("/metrics"), re.MULTILINE)


def test_without_a_file_there_is_nothing_to_read_again(
    stack: ExitStack, servers: list[Memcached], connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "weir.toml"
    file.write_text(pool("main", [servers[0].address]))
    proxy = stack.enter_context(ConfiguredProxy(file))
    proxy.wait_ready(proxy.admin)
    file.unlink()
    status, said = proxy.reload()
    assert status == 422
    assert "weir.toml: cannot be read" in said
    assert proxy.generation() == 1
    connect(proxy.address).in_step()


@pytest.mark.every_engine
@pytest.mark.parametrize("reloads", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_reloads_under_load_drop_nothing(
    start_configured: StartConfigured,
    servers: list[Memcached],
    stack: ExitStack,
    tmp_path: Path,
    reloads: int,
) -> None:
    more = [stack.enter_context(Memcached()) for _ in range(2)]
    for server in more:
        server.wait_ready(server.address)
    addresses = [server.address for server in servers + more]
    first = configuration(addresses[:3], [], addresses[:3])
    proxy = start_configured(first, "--threads", "2")
    settle(proxy, addresses, first)
    # Threads that were slow to take the table are still connecting.
    eventually(lambda: all(entry["state"] == "up" for entry in proxy.snapshot()["servers"]), "all servers are up")
    eventually(lambda: not asked_by_http(proxy), "the proxy has closed what it was asked on")
    before = (proxy.descriptors(), proxy.threads())

    record = tmp_path / "record.json"
    load = stack.enter_context(Load(proxy.address, record))
    wire = stack.enter_context(Wire(proxy.address))
    eventually(lambda: keys_read(wire) > 1000, "the load runs")
    rng = random.Random(1)
    for number in range(reloads):
        chosen = rng.sample(addresses, rng.randint(1, len(addresses)))
        routes = [prefix for prefix in ("0", "00000000000000", "x") if rng.random() < 0.5]
        proxy.file.write_text(configuration(chosen, routes, rng.sample(addresses, rng.randint(1, 3))))
        read, generation = keys_read(wire), proxy.generation()
        if number % 2 == 0:
            proxy.signal(signal.SIGHUP)
            eventually(lambda: proxy.generation() > generation, "the file is read again")  # noqa: B023
        else:
            status, said = proxy.reload()
            assert status == 200, said
        # Every table is asked by.
        eventually(lambda: keys_read(wire) > read + 20, "requests go on")  # noqa: B023
    load.stop()
    wire.close()
    settle(proxy, addresses, first)

    found, snapshot = json.loads(record.read_text()), proxy.snapshot()
    assert found["errors"] == {}, found["errors"]
    operations = found["operations"].values()
    assert sum(operation["errors"] for operation in operations) == 0
    answered = sum(operation["requests"] for operation in operations)
    print(f"{reloads} reloads, {answered} requests of the load, {snapshot['counters']['servers_left']} servers left")
    assert snapshot["config"]["generation"] == reloads + 9
    assert snapshot["counters"]["requests_failed"] == 0
    assert snapshot["counters"]["server_disconnects"] == 0
    eventually(lambda: (proxy.descriptors(), proxy.threads()) == before, "descriptors and threads are what they were")


def settle(proxy: ConfiguredProxy, addresses: list[Address], first: str) -> None:
    """Leaves the threads that all servers need, which engine split keeps, and no connection that a request needed.

    (Engine split keeps those while the server stays.)
    """
    for servers in (addresses, addresses[3:4], addresses[4:5]):
        proxy.file.write_text(configuration(servers, [], servers))
        assert proxy.reload()[0] == 200
    proxy.file.write_text(first)
    assert proxy.reload()[0] == 200


def asked_by_http(proxy: ConfiguredProxy) -> bool:
    """Whether it still has a descriptor of somebody who has asked its admin port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening, at_admin = "0A", f":{proxy.admin.port:04X}"
    return any(row[1].endswith(at_admin) and row[3] != listening and row[9] != "0" for row in rows)


def configuration(main: list[Address], routes: list[str], other: list[Address]) -> str:
    led = "".join(f'"{prefix}" = "other"\n' for prefix in routes)
    return 'default = "main"\n' + pool("main", main) + pool("other", other) + (f"[routes]\n{led}" if led else "")


def keys_read(wire: Wire) -> int:
    """Keys that clients have asked for so far. A loop that gets no CPU for seconds is busy, and is asked again."""
    found: dict[bytes, bytes] = {}

    def is_reported() -> bool:
        wire.send(b"stats\r\n")
        lines = iter(wire.line, b"END")
        line = next(lines)
        if line == b"SERVER_ERROR stats busy":
            return False
        found.update(dict(stat.split(b" ")[1:3] for stat in (line, *lines)))
        return True

    eventually(is_reported, "the statistics are reported")
    return int(found[b"cmd_get"])


class Load(Process):
    """Verified load until it is stopped."""

    def __init__(self, target: Address, record: Path) -> None:
        command = [str(weir_binary()), "load", "--target", str(target), "--connections", "16", "--depth", "4"]
        command += ["--keys", "500", "--mix", "get=0.5,set=0.3,gets=0.1,delete=0.1", "--multiget", "1-8"]
        command += ["--warmup", "0", "--duration", "24h", "--timeout", f"{LIVENESS_S}s", "--json", str(record)]
        super().__init__(command)

    def stop(self) -> None:
        """It must have been running until now: it ends at the first wrong reply."""
        assert self.running, self.output()
        self.signal(signal.SIGINT)
        status = self.wait()
        assert status == 0, (status, self.output())
