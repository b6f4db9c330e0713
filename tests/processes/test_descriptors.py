"""Descriptors of the process: enough for servers and the admin port, and an answer to every client."""

from __future__ import annotations

import os
import re
import resource
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, ConfiguredProxy, Memcached, Proxy, eventually
from tests.harness.standing import counters
from tests.harness.wire import Wire

REFUSED = b"ERROR Too many open connections"

# Attempts to connect to a server that has come back are 1 s apart at most. The rest is for a busy machine.
SERVED_AGAIN_S = 6.0


@pytest.fixture
def many(stack: ExitStack) -> Memcached:
    server = stack.enter_context(Memcached("-c", "4096"))
    server.wait_ready(server.address)
    return server


def limit_of(proxy: Proxy) -> tuple[int, int]:
    text = Path(f"/proc/{proxy.pid}/limits").read_text()
    found = re.search(r"^Max open files +(\d+) +(\d+)", text, re.MULTILINE)
    assert found is not None, text
    return int(found[1]), int(found[2])


def open_descriptors(proxy: Proxy) -> int:
    return len(os.listdir(f"/proc/{proxy.pid}/fd"))


def is_let_in(client: Wire) -> bool:
    """Whether a client is served; who is not gets an error in memcached's words, and nothing more."""
    # Who was refused may have been closed before this is sent.
    client.try_send(b"version\r\n")
    line = client.line()
    if line.startswith(b"VERSION "):
        return True
    assert line == REFUSED, line
    assert client.until(b"nothing more") == (b"", True)
    return False


class Health:
    """Asks /healthz all the time, until the end."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.asked = 0
        self.longest_s = 0.0
        self.failure: Exception | None = None

    def __enter__(self) -> Health:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * LIVENESS_S)

    def assert_alive(self) -> None:
        asked = self.asked
        eventually(lambda: self.asked > asked or self.failure is not None, "/healthz is answered")
        assert self.failure is None, self.failure

    def _ask(self) -> None:
        while not self._stop.wait(0.02):
            began = time.monotonic()
            try:
                assert self._proxy.http("/healthz") == "ok\n"
            except Exception as error:  # whatever it is, the test tells it
                self.failure = error
                return
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.asked += 1


def is_served(client: Wire, key: bytes) -> bool:
    """Whether a write reaches its server; a server that is down is said to be."""
    line = client.store(key, b"x")
    assert line == b"STORED" or line.startswith(
        (b"SERVER_ERROR down", b"SERVER_ERROR connect", b"SERVER_ERROR closed")
    ), line
    return line == b"STORED"


def served_again_after_s(client: Wire, key: bytes) -> float:
    began = time.monotonic()
    eventually(lambda: is_served(client, key), "the server that came back is used")
    return time.monotonic() - began


@pytest.mark.every_engine
def test_the_soft_limit_is_raised_to_the_hard_one(start_proxy: StartProxy, many: Memcached, stack: ExitStack) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[many.address], descriptors=(128, 2048))
    assert limit_of(proxy) == (2048, 2048)
    clients = [stack.enter_context(Wire(proxy.address)) for _ in range(200)]
    assert all(is_let_in(client) for client in clients)


@pytest.mark.every_engine
def test_a_number_of_clients_that_does_not_fit_is_lowered_and_said(
    start_proxy: StartProxy, many: Memcached, stack: ExitStack
) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[many.address], descriptors=(256, 256))
    most = proxy.snapshot()["config"]["sessions_max"]
    assert 50 <= most < 256
    eventually(lambda: f"--max-connections is lowered from 10000 to {most}" in proxy.output(), "it is said")
    eventually(lambda: proxy.snapshot()["sessions"] == 0, "nobody is connected, nor has just left")
    clients = [stack.enter_context(Wire(proxy.address)) for _ in range(400)]
    let_in = [client for client in clients if is_let_in(client)]
    assert len(let_in) == most
    assert open_descriptors(proxy) < 256
    assert counters(proxy)["sessions_refused"] == 400 - most
    eventually(lambda: "clients were refused" in proxy.output(), "the refusals are reported")
    lines = [line for line in proxy.output().splitlines() if "refused" in line]
    assert len(lines) <= 10, "at most one line in a second or so"
    assert let_in[0].store(b"a", b"1") == b"STORED"


@pytest.mark.every_engine
def test_a_server_comes_back_and_new_clients_are_answered_behind_idle_clients_that_hold_all_descriptors(
    start_proxy: StartProxy, many: Memcached, stack: ExitStack, engine: str
) -> None:
    proxy = start_proxy("--threads", "2", in_front_of=[many.address], descriptors=(256, 256))
    worker = stack.enter_context(Wire(proxy.address))
    assert worker.store(b"a", b"1") == b"STORED"
    health = stack.enter_context(Health(proxy))
    for _ in range(400):
        # Nothing is ever said on them.
        stack.enter_context(proxy.address.connect(LIVENESS_S))
    eventually(lambda: counters(proxy)["sessions_refused"] > 0, "there are more clients than can be")
    many.kill()
    eventually(lambda: not is_served(worker, b"a"), "the server is missed")
    assert not is_let_in(stack.enter_context(Wire(proxy.address)))
    anew = stack.enter_context(Memcached("-c", "4096", address=many.address))
    anew.wait_ready(anew.address)
    assert served_again_after_s(worker, b"a") < SERVED_AGAIN_S
    assert not is_let_in(stack.enter_context(Wire(proxy.address)))
    health.assert_alive()


@pytest.mark.every_engine
def test_a_process_that_runs_out_answers_clients_and_keeps_descriptors_for_servers(
    start_proxy: StartProxy, many: Memcached, stack: ExitStack
) -> None:
    """Whoever takes the descriptors: here the limit is lowered below what is open."""
    proxy = start_proxy("--threads", "2", in_front_of=[many.address])
    worker = stack.enter_context(Wire(proxy.address))
    idle = [stack.enter_context(Wire(proxy.address)) for _ in range(100)]
    assert all(is_let_in(client) for client in [worker, *idle])
    # Every worker's.
    for number in range(40):
        assert worker.store(b"a%d" % number, b"1") == b"STORED"
    hard = limit_of(proxy)[1]
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (open_descriptors(proxy) - 50, hard))
    health = stack.enter_context(Health(proxy))
    assert not any(is_let_in(stack.enter_context(Wire(proxy.address))) for _ in range(20))
    many.kill()
    eventually(lambda: not is_served(worker, b"a"), "the server is missed")
    assert not is_let_in(stack.enter_context(Wire(proxy.address)))
    anew = stack.enter_context(Memcached("-c", "4096", address=many.address))
    anew.wait_ready(anew.address)
    assert served_again_after_s(worker, b"a") < SERVED_AGAIN_S
    assert not is_let_in(stack.enter_context(Wire(proxy.address)))
    health.assert_alive()
    found = counters(proxy)
    assert found["sessions_refused"] >= 22
    eventually(lambda: "clients were refused" in proxy.output(), "the refusals are reported")
    # Whoever leaves makes room for others, once the limit allows it.
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (hard, hard))
    eventually(lambda: is_let_in(stack.enter_context(Wire(proxy.address))), "clients are let in again")


def test_a_process_without_descriptors_waits_for_clients_without_turning(
    start_proxy: StartProxy, many: Memcached, stack: ExitStack
) -> None:
    proxy = start_proxy("--threads", "1", in_front_of=[many.address])
    hard = limit_of(proxy)[1]
    # Not even a spare one can be used.
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (3, hard))
    waiting = [stack.enter_context(proxy.address.connect(LIVENESS_S)) for _ in range(5)]
    before = cpu_ticks(proxy)
    time.sleep(1)
    used = cpu_ticks(proxy) - before
    assert used < 40, f"{used} of 100 ticks of a second were used"
    resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (hard, hard))
    for connection in waiting:
        connection.sendall(b"version\r\n")
        assert connection.recv(100).startswith((b"VERSION ", REFUSED))


def test_what_a_proxy_needs_itself_is_open_before_a_client_can_connect(many: Memcached, stack: ExitStack) -> None:
    """The admin thread opened its own after the ports were open: without descriptors it ended, and so did the proxy."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for _ in range(50):
        proxy = stack.enter_context(Proxy([many.address], "--threads", "1"))
        with socket.socket() as client:
            # As soon as can be: the moment is short.
            while client.connect_ex(proxy.address.pair) != 0:
                assert proxy.running, proxy.output()
            resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        time.sleep(0.02)
        resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, limits)
        assert proxy.http("/healthz") == "ok\n", proxy.output()
        proxy.kill()


def cpu_ticks(proxy: Proxy) -> int:
    """User and system time; a tick is 10 ms."""
    fields = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.every_engine
def test_max_connections_holds_for_the_process(
    start_proxy: StartProxy, many: Memcached, stack: ExitStack, connect: Connect
) -> None:
    proxy = start_proxy("--threads", "4", "--max-connections", "10", in_front_of=[many.address])
    for _ in range(3):
        eventually(lambda: proxy.snapshot()["sessions"] == 0, "nobody is connected, nor has just left")
        # Those that leave are not of all loops alike.
        clients = [stack.enter_context(Wire(proxy.address)) for _ in range(13)]
        let_in = [client for client in clients if is_let_in(client)]
        assert len(let_in) == 10
        for client in let_in[::4]:
            client.close()
        eventually(lambda: proxy.snapshot()["sessions"] == 7, "three have left")
        more = [stack.enter_context(Wire(proxy.address)) for _ in range(5)]
        more_let_in = [client for client in more if is_let_in(client)]
        assert len(more_let_in) == 3
        for client in let_in + more_let_in:
            client.close()
    assert counters(proxy)["sessions_refused"] == 15
    asked = connect(proxy.address)
    asked.send(b"stats\r\n")
    stats = dict(line.split()[1:3] for line in iter(asked.line, b"END"))
    assert (stats[b"max_connections"], stats[b"rejected_connections"]) == (b"10", b"15")


def test_servers_that_come_by_a_reload_have_descriptors(stack: ExitStack, many: Memcached, tmp_path: Path) -> None:
    def write(file: Path, count: int) -> None:
        servers = [f"{many.address}"] + [f"127.0.0.1:{number + 1}" for number in range(count - 1)]
        file.write_text(f"[pools.main]\nservers = {servers}\n")

    file = tmp_path / "weir.toml"
    write(file, 1)
    proxy = stack.enter_context(ConfiguredProxy(file, "--threads", "2", descriptors=(256, 256)))
    proxy.wait_ready(proxy.admin)
    most = proxy.reported("/config")["sessions_max"]
    write(file, 20)
    assert proxy.reload()[0] == 200
    fewer = proxy.reported("/config")["sessions_max"]
    assert 0 < fewer < most
    eventually(lambda: f"is lowered from 10000 to {fewer}:" in proxy.output(), "it is said")
    write(file, 1)
    assert proxy.reload()[0] == 200
    assert proxy.reported("/config")["sessions_max"] == most
