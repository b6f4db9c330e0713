"""Sockets in the file system, on both sides of the proxy."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.harness.processes import (
    LIVENESS_S,
    Address,
    Memcached,
    Process,
    SocketMemcached,
    SocketPath,
    eventually,
    weir_binary,
)
from tests.harness.wire import Wire


class SocketProxy(Process):
    """`weir proxy` behind a socket, without an admin port."""

    def __init__(self, listen: str, servers: list[str], *options: str) -> None:
        self.address = SocketPath(Path(listen.removeprefix("unix:")))
        flags = [part for server in servers for part in ("--server", server)]
        options = ("--timeout", f"{LIVENESS_S}s", *options)
        super().__init__([str(weir_binary()), "proxy", "--listen", listen, *flags, *options])


@pytest.fixture
def socket_servers(stack: ExitStack, tmp_path: Path) -> list[SocketMemcached]:
    started = [stack.enter_context(SocketMemcached(tmp_path / f"m{number}.sock")) for number in range(2)]
    for server in started:
        server.wait_ready(server.address)
    return started


@pytest.mark.every_engine
@pytest.mark.parametrize("form", ["unix:{}", "{}"])
def test_a_public_client_through_sockets(
    socket_servers: list[SocketMemcached],
    servers: list[Memcached],
    stack: ExitStack,
    tmp_path: Path,
    form: str,
    engine: str,
) -> None:
    """Servers of both kinds in one pool; pymemcache takes the path of a socket."""
    names = [form.format(server.address) for server in socket_servers] + [str(servers[0].address)]
    proxy = stack.enter_context(SocketProxy(form.format(tmp_path / "weir.sock"), names, "--engine", engine))
    proxy.wait_ready(proxy.address)
    client = Client(str(proxy.address), timeout=LIVENESS_S)
    keys = [f"key-{number}" for number in range(200)]
    assert client.set_many({key: key * 2 for key in keys}, noreply=False) == []
    assert client.get_many(keys) == {key: (key * 2).encode() for key in keys}
    assert client.incr("absent", 1) is None
    client.quit()
    held = []
    addresses: list[Address | SocketPath] = [server.address for server in socket_servers]
    for address in [*addresses, servers[0].address]:
        with Wire(address) as wire:
            held.append(len(wire.get(*(key.encode() for key in keys))))
    assert sum(held) == len(keys)
    assert all(held), "every server has some keys"


@pytest.mark.parametrize("options", [(), ("--reconnect-after", "7")])
def test_weir_load_speaks_to_a_proxy_at_a_socket(
    socket_servers: list[SocketMemcached], stack: ExitStack, tmp_path: Path, options: tuple[str, ...]
) -> None:
    target = f"unix:{tmp_path / 'weir.sock'}"
    proxy = stack.enter_context(SocketProxy(target, [f"unix:{socket_servers[0].address}"]))
    proxy.wait_ready(proxy.address)
    command = [str(weir_binary()), "load", "--target", target, "--requests", "500", "--warmup", "0s", "--json", "-"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["config"]["targets"] == [target]
    measured = record["phases"]["measured"]
    assert (measured["requests"], measured["failures"], measured["errors"]) == (500, 0, 0)


def test_weir_load_says_what_it_cannot_do_with_a_socket(tmp_path: Path) -> None:
    target = f"unix:{tmp_path / 'nobody.sock'}"
    for options, status, said in (
        ((), 1, "No such file or directory"),
        (("--tls", "--ca", "ca.pem"), 2, "is a socket of this machine, which is spoken to without TLS"),
    ):
        command = [str(weir_binary()), "load", "--target", target, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
        assert done.returncode == status
        assert target in done.stderr
        assert said in done.stderr


@pytest.mark.every_engine
def test_a_dead_server_is_named_and_comes_back(
    socket_servers: list[SocketMemcached], stack: ExitStack, tmp_path: Path, engine: str
) -> None:
    path = tmp_path / "m0.sock"
    listen = f"unix:{tmp_path / 'weir.sock'}"
    proxy = stack.enter_context(SocketProxy(listen, [f"unix:{path}"], "--engine", engine))
    proxy.wait_ready(proxy.address)
    with Wire(proxy.address) as wire:
        assert wire.store(b"key", b"value") == b"STORED"
        socket_servers[0].kill()
        path.unlink()
        reply = wire.ask(b"get key")
        assert reply.startswith(b"SERVER_ERROR ")
        assert reply.endswith(f" unix:{path}".encode())
        again = stack.enter_context(SocketMemcached(path))
        again.wait_ready(again.address)
        eventually(lambda: wire.store(b"key", b"new") == b"STORED", "the server is served again")


@pytest.mark.every_engine
@pytest.mark.parametrize(("options", "mode"), [((), 0o660), (("--listen-mode", "600"), 0o600)])
def test_the_socket_has_its_mode_and_goes_with_the_proxy(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path, options: tuple[str, ...], mode: int, engine: str
) -> None:
    path = tmp_path / "weir.sock"
    proxy = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)], "--engine", engine, *options))
    proxy.wait_ready(proxy.address)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    wire = stack.enter_context(Wire(proxy.address))
    wire.in_step()
    proxy.signal(signal.SIGTERM)
    assert wire.ended()
    assert proxy.wait() == 0, proxy.output()
    assert not path.exists()


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    path = tmp_path / "weir.sock"
    first = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)]))
    first.wait_ready(first.address)
    first.kill()
    assert path.is_socket(), "a killed proxy cannot remove it"
    second = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)]))
    second.wait_ready(second.address)
    third = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)]))
    assert third.wait() == 1
    assert f"cannot listen on unix:{path}" in third.output()
    assert "another process listens there" in third.output()
    with Wire(second.address) as wire:
        wire.in_step()


def test_another_file_is_left_alone(servers: list[Memcached], stack: ExitStack, tmp_path: Path) -> None:
    path = tmp_path / "weir.sock"
    path.write_text("precious")
    proxy = stack.enter_context(SocketProxy(str(path), [str(servers[0].address)]))
    assert proxy.wait() == 1
    assert "another kind of file has this name" in proxy.output()
    assert path.read_text() == "precious"


@pytest.mark.parametrize("listen", ["unix:weir.sock", "unix:", "/" + "p" * 107, "/a b", "/a:1"])
def test_paths_that_are_none_are_named(servers: list[Memcached], stack: ExitStack, listen: str) -> None:
    proxy = stack.enter_context(SocketProxy(listen, [str(servers[0].address)]))
    assert proxy.wait() == 2
    assert "is no path of a socket: give unix:/PATH" in proxy.output()


def test_a_name_with_several_addresses_is_tried_in_turn(stack: ExitStack) -> None:
    """`localhost` is often two: the server listens on one of them only."""
    found = {family for family, *_ in socket.getaddrinfo("localhost", None, proto=socket.IPPROTO_TCP)}
    if len(found) < 2:
        pytest.skip("localhost has one address here")
    server = stack.enter_context(Memcached())
    server.wait_ready(server.address)
    listen = Address.free()
    flags = ["--listen", str(listen), "--server", f"localhost:{server.address.port}", "--timeout", f"{LIVENESS_S}s"]
    proxy = stack.enter_context(Process([str(weir_binary()), "proxy", *flags]))
    proxy.wait_ready(listen)
    with Wire(listen) as wire:
        assert wire.store(b"key", b"value") == b"STORED"


@pytest.mark.parametrize("backlog", [1, 5])
def test_the_kernel_keeps_as_many_connections_as_the_backlog_says(
    socket_servers: list[SocketMemcached], stack: ExitStack, tmp_path: Path, backlog: int
) -> None:
    names = [f"unix:{server.address}" for server in socket_servers]
    listen = f"unix:{tmp_path / 'weir.sock'}"
    proxy = stack.enter_context(SocketProxy(listen, names, "--listen-backlog", str(backlog)))
    proxy.wait_ready(proxy.address)
    # The one that asked whether it is ready is accepted before this one is answered, and waits no more.
    with Wire(proxy.address) as wire:
        assert wire.ask(b"version").startswith(b"VERSION")
    proxy.freeze()
    kept: list[socket.socket] = []
    with suppress(BlockingIOError):
        while len(kept) < 100:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect(str(proxy.address))
            kept.append(client)
    # Linux takes one more than it was asked to.
    assert len(kept) == backlog + 1
    proxy.thaw()
