"""Starting and stopping: a stop drops no request in flight, a wrong command line says what is wrong."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy, engine_options
from tests.harness.placement import keys_by_server
from tests.harness.processes import LIVENESS_S, Address, Memcached, Process, Proxy, eventually, program, weir_binary
from tests.harness.wire import Wire


def wait_until_taken(proxy: Proxy, server: Memcached, count: int) -> None:
    """Returns once the proxy has `count` unanswered requests: sent to the server, or waiting for a worker."""

    def taken() -> int:
        snapshot = proxy.snapshot()
        entries = {entry["server"]: entry for entry in snapshot["servers"]}
        in_flight: int = entries[str(server.address)]["in_flight"]["length"]
        queued: int = (snapshot["queue"] or {"length": 0})["length"]
        return in_flight + queued

    eventually(lambda: taken() >= count, f"{count} requests taken for {server.address}")


@pytest.mark.every_engine
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("threads", [1, 2])
def test_stop_drops_no_request_in_flight(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, threads: int, number: signal.Signals
) -> None:
    proxy = start_proxy("--threads", str(threads), "--timeout", "60s")
    held = keys_by_server(proxy.address, [server.address for server in servers])[0][:12]
    wires = [connect(proxy.address) for _ in held]
    servers[0].freeze()
    for key, wire in zip(held, wires, strict=True):
        wire.send(b"get " + key + b"\r\n")
    wait_until_taken(proxy, servers[0], len(held))
    proxy.signal(number)
    eventually(lambda: not proxy.address.accepts(), "a stopping proxy refuses new clients")
    servers[0].thaw()
    for key, wire in zip(held, wires, strict=True):
        assert wire.values() == [(key, key * 2)]
        assert wire.ended()
    assert proxy.wait() == 0, proxy.output()


@pytest.mark.every_engine
def test_stop_with_idle_clients(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wires = [connect(proxy.address) for _ in range(10)]
    for wire in wires:
        wire.in_step()
    proxy.signal(signal.SIGTERM)
    assert all(wire.ended() for wire in wires)
    assert proxy.wait() == 0, proxy.output()


@pytest.mark.every_engine
def test_stop_does_not_wait_for_a_client_that_does_not_read(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--drain-timeout", "200ms")
    wire = connect(proxy.address)
    assert wire.store(b"key", bytes(500_000)) == b"STORED"
    wire.send(b"get key\r\n" * 100)
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0, proxy.output()


def refusal(*arguments: str) -> tuple[int, str]:
    """Runs a `weir` that must end by itself, and gives its exit status and what it said."""
    done = subprocess.run(
        [str(weir_binary()), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    assert "panicked" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--server"),
        (("--server", "nowhere"), "nowhere"),
        (("--server", "127.0.0.1:99999"), "127.0.0.1:99999"),
        (("--server", "127.0.0.1:20001", "--replicas", "2"), "replicas"),
        (("--server", "127.0.0.1:20001", "--replicas", "0"), "replicas"),
        (("--server", "127.0.0.1:20001", "--threads", "0"), "threads"),
        (("--server", "127.0.0.1:20001", "--timeout", "0ms"), "timeout"),
        (("--server", "127.0.0.1:20001", "--timeout", "soon"), "soon"),
        (("--server", "127.0.0.1:20001", "--server", "127.0.0.1:20001"), "127.0.0.1:20001"),
        (("--server", "127.0.0.1:20001", "--no-such-flag"), "--no-such-flag"),
        # What would serve nobody.
        (("--server", "127.0.0.1:20001", "--max-connections", "0"), "no client could connect; give at least 1"),
        (("--server", "127.0.0.1:20001", "--max-value", "0"), "clients could store nothing"),
        (("--server", "127.0.0.1:20001", "--client-buffer", "0"), "'--client-buffer <BYTES>': 0 is too little"),
        (("--server", "127.0.0.1:20001", "--server-buffer", "1k"), "'--server-buffer <BYTES>': 1k is too little"),
        (("--server", "127.0.0.1:20001", "--buffer-limit", "0"), "'--buffer-limit <BYTES>': 0 is too little"),
        (("--server", "127.0.0.1:20001", "--connect-timeout", "0s"), "no server could be connected to"),
        (
            ("--server", "127.0.0.1:20001", "--engine", "pool", "--workers", "0"),
            "'--workers <W>': 0 is out of range: give 1 to 1024",
        ),
        (
            ("--server", "127.0.0.1:20001", "--engine", "split", "--readers", "0"),
            "'--readers <T>': 0 is out of range: give 1 to 256",
        ),
        (("--server", "127.0.0.1:20001", "--engine", "pool", "--queue", "0"), "every request would be refused"),
    ],
)
def test_wrong_command_line_is_named(arguments: tuple[str, ...], named: str) -> None:
    status, said = refusal("proxy", "--listen", str(Address.free()), *arguments)
    assert status == 2, said
    assert named in said


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
def test_port_in_use_is_named(stack: ExitStack, flag: str) -> None:
    taken = Address.free()
    stack.enter_context(socket.create_server(taken.pair))
    other = {"--listen": "--admin", "--admin": "--listen"}[flag]
    status, said = refusal("proxy", flag, str(taken), other, str(Address.free()), "--server", "127.0.0.1:20001")
    assert status not in (0, 2)
    assert str(taken) in said
    assert "end the process that uses it, or give another address" in said


def test_what_cannot_be_listened_on_is_reported_with_its_own_mend(tmp_path: Path) -> None:
    """Every reason was followed by "is another process using it?"."""
    (tmp_path / "file").write_text("precious")
    for address, mend in [
        # TEST-NET-1 is no machine's.
        (f"192.0.2.1:{Address.free().port}", "this machine has no such address: "),
        (f"unix:{tmp_path}/missing/weir.sock", "the folder is not there: "),
        (f"unix:{tmp_path}/file/weir.sock", "what should be a folder is a file: "),
        (f"unix:{tmp_path}/file", "another kind of file has this name; remove it, or give another path"),
    ]:
        status, said = refusal("proxy", "--listen", address, "--server", "127.0.0.1:20001")
        assert status == 1
        (line,) = [line for line in said.splitlines() if "cannot listen on" in line]
        assert f"cannot listen on {address} (clients): " in line
        assert mend in line
        assert "process" not in line


def hosts_of_their_own(hosts: Path, command: list[str]) -> list[str]:
    """A command that finds these lines in /etc/hosts."""
    return [
        program("unshare"),
        "--mount",
        "sh",
        "-c",
        f'mount --bind "{hosts}" /etc/hosts && exec "$@"',
        "sh",
        *command,
    ]


def test_a_server_whose_name_is_unknown_at_the_start_is_down_until_it_is_known(
    servers: list[Memcached], stack: ExitStack, connect: Connect, tmp_path: Path
) -> None:
    """The proxy did not start, so one name that was gone took all servers along."""
    # No name server is asked for a label of 64 letters.
    name, hosts, listen = "x" * 64, tmp_path / "hosts", Address.free()
    hosts.write_text("127.0.0.1 localhost\n")
    if subprocess.run(hosts_of_their_own(hosts, ["true"]), capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file over /etc/hosts")
    known, unknown = servers[0].address, f"{name}:{servers[1].address.port}"
    flags = ["--listen", str(listen), "--server", str(known), "--server", unknown, "--placement", "modulo"]
    command = hosts_of_their_own(hosts, [str(weir_binary()), "proxy", *flags])
    proxy = stack.enter_context(Process(command))
    proxy.wait_ready(listen)
    wire = connect(listen)
    replies = {key: wire.store(key, b"value") for key in (b"key%d" % number for number in range(20))}
    down = {key for key, reply in replies.items() if reply.endswith(unknown.encode())}
    assert 0 < len(down) < len(replies)
    assert all(replies[key].startswith(b"SERVER_ERROR ") for key in down)
    assert all(reply == b"STORED" for key, reply in replies.items() if key not in down)
    hosts.write_text(f"127.0.0.1 localhost {name}\n")
    eventually(lambda: all(wire.store(key, b"value") == b"STORED" for key in down), "the name is known")
    with Wire(servers[1].address) as direct:
        assert {key for key, _ in direct.get(*replies)} == down, "keys stay where they belong"
    said = proxy.output()
    assert said.count(f"server {unknown} cannot be resolved: ") == 1, said
    assert f"the name of server {unknown} has an address now" in said


def test_a_proxy_that_would_be_its_own_server_is_refused() -> None:
    address = str(Address.free())
    status, said = refusal("proxy", "--listen", address, "--server", address)
    assert status == 2, said
    assert "the proxy would ask itself" in said


def test_too_few_descriptors_for_one_client_are_named(servers: list[Memcached], stack: ExitStack) -> None:
    addresses = [server.address for server in servers]
    proxy = stack.enter_context(Proxy(addresses, "--threads", "16", descriptors=(128, 128)))
    assert proxy.wait() == 1
    assert "the process may have 128 descriptors" in proxy.output()
    assert "LimitNOFILE" in proxy.output()


def test_the_version_is_the_same_everywhere_and_has_the_commit(start_proxy: StartProxy) -> None:
    done = subprocess.run([str(weir_binary()), "--version"], capture_output=True, text=True, check=True)
    version = re.fullmatch(r"weir (\S+) \((\w+(?:\+changes)?)\)\n", done.stdout)
    assert version, done.stdout
    number, commit = version.groups()
    proxy = start_proxy()
    info = next(line for line in proxy.http("/metrics").splitlines() if line.startswith("weir_info{"))
    assert f'version="{number}",commit="{commit}"' in info
    snapshot = proxy.snapshot()
    assert (snapshot["weir_version"], snapshot["weir_commit"]) == (number, commit)


@pytest.mark.every_engine
def test_servers_are_connected_to_before_anybody_asks(servers: list[Memcached], connect: Connect, engine: str) -> None:
    """An event loop waited for its first event before it connected, for as long as a connection may take to be made."""
    watchers = [connect(server.address) for server in servers]

    def connections(watcher: Wire) -> int:
        watcher.send(b"stats\r\n")
        lines = [line.split(b" ") for line in iter(watcher.line, b"END")]
        return next(int(line[2]) for line in lines if line[1] == b"total_connections")

    before = [connections(watcher) for watcher in watchers]
    options = engine_options(engine, ("--connect-timeout", "1h"))
    with Proxy([server.address for server in servers], *options):
        eventually(
            lambda: all(connections(watcher) > old for watcher, old in zip(watchers, before, strict=True)),
            "each server has a connection of a proxy that nobody has talked to",
        )


def test_a_port_that_the_kernel_chose_is_reported(stack: ExitStack, servers: list[Memcached]) -> None:
    command = [str(weir_binary()), "proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    proxy = stack.enter_context(Process([*command, "--server", str(servers[0].address)]))
    eventually(lambda: proxy.output().endswith("\n"), "it is ready")
    listen, admin = (int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", proxy.output()))
    assert listen != 0
    assert admin != 0
    with socket.create_connection(("127.0.0.1", listen), LIVENESS_S) as client:
        client.sendall(b"version\r\n")
        assert client.recv(100).startswith(b"VERSION ")
    with socket.create_connection(("127.0.0.1", admin), LIVENESS_S) as client:
        client.sendall(b"GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert b'"listen":"127.0.0.1:%d"' % listen in answer
    assert b'"admin":"127.0.0.1:%d"' % admin in answer
