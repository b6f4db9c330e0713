"""Clients that must log in, what each of them may do, and the proxy's own login to servers: over real sockets."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.conftest import StartProxy
from tests.harness import log
from tests.harness.logins import logged_in, login, write_passwords
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    ConfiguredProxy,
    Memcached,
    eventually,
    weir_binary,
)
from tests.harness.standing import counters, entry
from tests.harness.tls import Authority, TlsAddress, client_context
from tests.harness.wire import Wire

UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated"
FAILURE = b"CLIENT_ERROR authentication failure"

StartConfigured = Callable[..., ConfiguredProxy]


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    return write_passwords(tmp_path / "passwords", "user:password", "reader:password", "other:password")


@pytest.fixture
def start_configured(stack: ExitStack, tmp_path: Path) -> StartConfigured:
    def start(text: str, *options: str) -> ConfiguredProxy:
        file = tmp_path / "weir.toml"
        file.write_text(text)
        proxy = stack.enter_context(ConfiguredProxy(file, "--timeout", f"{LIVENESS_S}s", *options))
        proxy.wait_ready(proxy.address)
        proxy.wait_ready(proxy.admin)
        return proxy

    return start


@pytest.fixture
def start_guarded(stack: ExitStack) -> Callable[[Path, int], list[Memcached]]:
    """Servers that want a login of this file."""

    def start(file: Path, count: int) -> list[Memcached]:
        started = [stack.enter_context(Memcached("-Y", str(file))) for _ in range(count)]
        for server in started:
            server.wait_ready(server.address)
        return started

    return start


def items(wire: Wire) -> dict[bytes, bytes]:
    """All that a server holds, whatever its key."""
    wire.send(b"lru_crawler metadump all\r\n")
    lines = list(iter(lambda: _metadump_line(wire), b"END"))
    keys = [match[1] for line in lines if (match := re.match(rb"key=(\S+)", line))]
    return {key: value for key in keys for _, value in wire.get(key)}


def _metadump_line(wire: Wire) -> bytes:
    """A line of metadump ends with a line feed alone, but for the last one."""
    line = b""
    while not line.endswith(b"\n"):
        line += wire.exactly(1)
    return line.rstrip()


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pymemcache_logs_in(start_proxy: StartProxy, passwords: Path) -> None:
    proxy = start_proxy("--auth-file", str(passwords))
    client = Client(proxy.address.pair, timeout=LIVENESS_S, no_delay=True)
    assert client.set("any", "user password", noreply=False)
    assert client.set("key", b"value", noreply=False)
    assert client.get_many(["key", "any"]) == {"key": b"value"}
    client.close()
    assert counters(proxy)["logins"] == 1


class Session:
    """One connection, and what it has read."""

    def __init__(self, address: Address, kind: str, rng: random.Random) -> None:
        self.kind, self._rng = kind, rng
        self._socket = address.connect(LIVENESS_S)
        self.is_logged_in = False
        self.read = b""
        self._owed = 0

    def step(self) -> None:
        """Sends something, in pieces, and reads what answers it."""
        request, lines = self._request()
        place = self._rng.randrange(len(request) + 1)
        for piece in (request[:place], request[place:]):
            self._socket.sendall(piece)
        wanted = self.read.count(b"\n") + lines
        while self.read.count(b"\n") < wanted:
            data = self._socket.recv(1 << 16)
            assert data, self.read
            self.read += data

    def close(self) -> None:
        self._socket.close()

    def _request(self) -> tuple[bytes, int]:
        key = self._rng.choice([b"k1", b"k2", b"k3"])
        if self.kind == "stranger":
            return self._rng.choice(
                [
                    (b"get %b\r\n" % key, 1),
                    (b"mg %b v\r\n" % key, 1),
                    (b"gets k1 k2 k3\r\n", 1),
                    (b"delete %b\r\n" % key, 1),
                    (b"add %b 0 0 8\r\nstranger\r\n" % key, 2),
                    (login(b"user", b"stranger", key), 1),
                    (login(b"stranger", b"password", key), 1),
                    (b"stats\r\n", 1),
                ]
            )
        if not self.is_logged_in:
            self.is_logged_in = True
            return login(b"user", b"password", key), 1
        if self._rng.random() < 0.5:
            return b"set %b 0 0 6\r\nsecret\r\n" % key, 1
        # A value, or none.
        return b"mg %b\r\n" % key, 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_client_that_never_logged_in_reads_nothing_in_any_order_of_logins_of_others(
    start_proxy: StartProxy, servers: list[Memcached], passwords: Path, replicas: int
) -> None:
    proxy = start_proxy("--threads", "2", "--replicas", str(replicas), "--auth-file", str(passwords))
    rng = random.Random(replicas)
    sessions: list[Session] = []
    strangers = []
    for _ in range(2000):
        if len(sessions) < 12 or rng.random() < 0.05:
            if len(sessions) == 12:
                sessions.pop(rng.randrange(12)).close()
            session = Session(proxy.address, rng.choice(["stranger", "user"]), rng)
            sessions.append(session)
            strangers += [session] if session.kind == "stranger" else []
        rng.choice(sessions).step()
    for session in sessions:
        session.close()
    lines = [line for stranger in strangers for line in stranger.read.split(b"\r\n")[:-1]]
    assert set(lines) == {UNAUTHENTICATED, FAILURE}
    with logged_in(proxy.address) as wire:
        assert dict(wire.get(b"k1", b"k2", b"k3")) == dict.fromkeys((b"k1", b"k2", b"k3"), b"secret")
    for server in servers:
        with Wire(server.address) as direct:
            assert set(items(direct).values()) <= {b"secret"}
    now = counters(proxy)
    assert now["requests_refused_unauthenticated"] + now["logins_failed"] == len(lines)


def test_who_does_not_log_in_in_time_is_disconnected(start_proxy: StartProxy, passwords: Path) -> None:
    proxy = start_proxy("--auth-file", str(passwords), "--auth-timeout", "300ms")
    with Wire(proxy.address) as silent, Wire(proxy.address) as tries, logged_in(proxy.address) as user:
        tries.send(login(b"user", b"wrong"))
        assert tries.line() == FAILURE
        assert silent.ended()
        assert tries.ended()
        assert user.store(b"key", b"value") == b"STORED"
        # As memcached counts them.
        user.send(b"stats\r\n")
        assert {b"STAT auth_cmds 2", b"STAT auth_errors 1"} <= set(iter(user.line, b"END"))
    # Whoever looked whether the proxy is there was one, too.
    assert counters(proxy)["sessions_closed_login"] >= 2


def test_a_flood_before_a_login_is_cut_short_and_nobody_else_waits(start_proxy: StartProxy, passwords: Path) -> None:
    proxy = start_proxy("--threads", "1", "--auth-file", str(passwords))
    with logged_in(proxy.address) as user, Wire(proxy.address) as flood:
        before = counters(proxy)["sessions_closed_login"]
        flood.try_send(b"get a\r\n" * 200_000)
        said, is_closed = flood.until(b"never comes")
        assert is_closed
        assert set(said.split(b"\r\n")[:-1]) <= {UNAUTHENTICATED}
        assert user.store(b"key", b"value") == b"STORED"
        assert counters(proxy)["sessions_closed_login"] == before + 1


# ── what each may do ─────────────────────────────────────────────────────────────────────────────────────────────────

TWO_POOLS = """
default = "main"
[proxy]
auth_file = "{passwords}"
[pools.main]
servers = ["{main}"]
[pools.other]
servers = ["{other}"]
[routes]
"o:" = "other"
"""

RIGHTS = """
[[users]]
name = "reader"
read_only = true
[[users]]
name = "other"
pools = ["other"]
"""


def test_users_may_do_what_the_file_says(
    start_configured: StartConfigured, servers: list[Memcached], passwords: Path, tmp_path: Path
) -> None:
    text = TWO_POOLS.format(passwords=passwords, main=servers[0].address, other=servers[1].address)
    proxy = start_configured(text + RIGHTS, "--threads", "2")
    with (
        logged_in(proxy.address) as user,
        logged_in(proxy.address, b"reader") as reader,
        logged_in(proxy.address, b"other") as other,
    ):
        assert user.store(b"a", b"1") == b"STORED"
        assert user.store(b"o:a", b"2") == b"STORED"
        assert reader.get(b"a", b"o:a") == [(b"a", b"1"), (b"o:a", b"2")]
        assert reader.store(b"a", b"3") == b"CLIENT_ERROR write not allowed"
        assert other.get(b"o:a") == [(b"o:a", b"2")]
        assert other.store(b"o:a", b"4") == b"STORED"
        for command in (b"get a", b"get o:a a", b"delete a", b"mg a v", b"flush_all", b"stats hot"):
            expected = b"flush_all" if command == b"flush_all" else b"pool"
            assert other.ask(command) == b"CLIENT_ERROR %b not allowed" % expected
        now = counters(proxy)
        assert (now["requests_refused_read_only"], now["requests_refused_pool"]) == (1, 5)
        # From now on, and for those who are there.
        proxy.file.write_text(text + RIGHTS.replace("read_only = true", 'pools = ["main"]'))
        status, said = proxy.reload()
        assert (status, said[-21:]) == (200, "; 3 users may log in\n"), said
        assert reader.store(b"a", b"5") == b"STORED"
        assert reader.ask(b"get o:a") == b"CLIENT_ERROR pool not allowed"
        # One of them is taken away.
        write_passwords(passwords, "user:password", "reader:password")
        proxy.file.write_text(text)
        assert proxy.reload()[0] == 200
        assert other.ended()
        assert user.get(b"a") == [(b"a", b"5")]
        assert counters(proxy)["sessions_closed_revoked"] == 1
        # Logins for all, or for nobody: that is another proxy.
        proxy.file.write_text(text.replace("auth_file", "# auth_file"))
        status, said = proxy.reload()
        assert status == 422, said
        assert "auth-file" in said, said
        assert said.endswith("restart the proxy\n"), said


def test_a_certificate_stands_for_a_password(
    start_configured: StartConfigured, servers: list[Memcached], passwords: Path, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("proxy")
    tls = (
        f'tls_cert = "{certificate.chain}"\ntls_key = "{certificate.key}"\ntls_client_ca = "{authority.file}"\n'
        f'auth_file = "{passwords}"\n'
    )
    users = '[[users]]\nname = "{}"\ncertificate = "{}"\nread_only = {}\n'
    text = f'[proxy]\n{tls}[pools.main]\nservers = ["{servers[0].address}"]\n'
    text += users.format("app", "app.example", "false") + users.format("common", "its common name", "true")
    text += users.format("uri", "spiffe://example/app", "false")
    proxy = start_configured(text)
    known = {
        "dns": authority.issue("dns", "DNS:x.example,DNS:app.example"),
        "its common name": authority.issue("its common name", "DNS:y.example"),
        "uri": authority.issue("uri", "URI:spiffe://example/app"),
    }
    for name, shown in known.items():
        context = client_context(authority, shown)
        session = None
        for resumed in (False, True):
            connection = TlsAddress(proxy.address, context, session).connect(LIVENESS_S)
            with connection:
                connection.sendall(b"set a 0 0 1\r\nx\r\n")
                expected = b"CLIENT_ERROR write not allowed\r\n" if "common" in name else b"STORED\r\n"
                assert connection.recv(100) == expected, name
                assert connection.session_reused == resumed
                session = connection.session
    assert counters(proxy)["logins_by_certificate"] == 6
    context = client_context(authority, known["dns"])
    client = Client(("localhost", proxy.address.port), tls_context=context, timeout=LIVENESS_S, no_delay=True)
    assert client.set("key", b"value", noreply=False)
    assert client.get("key") == b"value"
    client.close()
    # A good certificate that is nobody's: with a password.
    for names in ("DNS:z.example", "DNS:*.example", "DNS:APP.example.", "DNS:app.example.z"):
        shown = authority.issue("stranger", names)
        with Wire(TlsAddress(proxy.address, client_context(authority, shown))) as wire:
            assert wire.ask(b"get a") == UNAUTHENTICATED, names
            wire.send(login(b"user", b"password"))
            assert wire.line() == b"STORED"
            assert wire.get(b"a") == [(b"a", b"x")]


def test_what_cannot_be_is_refused_at_the_start(servers: list[Memcached], passwords: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("user:password\nXyzzy\n")
    for options, said in (
        (("--engine", "pool", "--auth-file", str(passwords)), "--auth-file belongs to --engine event"),
        (("--engine", "split", "--server-auth-file", str(passwords)), "--server-auth-file belongs to --engine event"),
        (("--auth-file", str(bad)), f"--auth-file {bad}:2: there is no colon"),
        (("--server-auth-file", str(tmp_path / "none")), "it cannot be read"),
    ):
        command = [str(weir_binary()), "proxy", "--server", str(servers[0].address), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
        assert done.returncode == 2, (options, done.stderr)
        assert said in done.stderr, (options, done.stderr)
        assert "Xyzzy" not in done.stderr


# ── a reload ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_file_is_read_again_while_clients_come_and_ask(
    start_configured: StartConfigured, servers: list[Memcached], passwords: Path
) -> None:
    listed = ", ".join(f'"{server.address}"' for server in servers)
    text = f'[proxy]\nauth_file = "{passwords}"\n[pools.main]\nservers = [{listed}]\n'
    proxy = start_configured(text, "--threads", "2", *log.OPTIONS)
    failures: list[object] = []
    done = threading.Event()
    rounds = [0] * 3

    def comes_and_asks(number: int) -> None:
        try:
            with logged_in(proxy.address) as stays:
                while not done.is_set():
                    rounds[number] += 1
                    key = b"key-%d" % number
                    assert stays.store(key, b"value") == b"STORED"
                    with logged_in(proxy.address) as comes:
                        assert comes.get(key) == [(key, b"value")]
                    with Wire(proxy.address) as stranger:
                        assert stranger.ask(b"get " + key) == UNAUTHENTICATED
        except (AssertionError, OSError) as failure:
            failures.append(failure)

    def clients_go_on(enough: int) -> None:
        eventually(lambda: sum(rounds) >= enough or bool(failures), "clients go on")

    threads = [threading.Thread(target=comes_and_asks, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(12):
        before = sum(rounds)
        # `user` keeps his password beside another one; the file in between is none.
        write_passwords(passwords, "user:password", f"user:other-{number}")
        assert proxy.reload()[0] == 200
        with logged_in(proxy.address, b"user", b"other-%d" % number):
            pass
        passwords.write_text("user:password\nXyzzy\n")
        status, said = proxy.reload()
        assert status == 422, said
        assert said.startswith(f"{proxy.file}:2: --auth-file {passwords}:2: there is no colon"), said
        assert "Xyzzy" not in said, said
        with logged_in(proxy.address, b"user", b"other-%d" % number):
            pass
        clients_go_on(before + 6)
    done.set()
    for thread in threads:
        thread.join(LIVENESS_S)
    assert failures == []
    now = counters(proxy)
    assert (now["logins_failed"], now["sessions_closed_revoked"]) == (0, 0)
    assert "Xyzzy" not in proxy.output()


# ── the proxy's own login ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("replicas", [1, 2])
def test_servers_that_want_a_login_get_it_on_every_connection(
    start_proxy: StartProxy,
    start_guarded: Callable[[Path, int], list[Memcached]],
    servers: list[Memcached],
    passwords: Path,
    replicas: int,
) -> None:
    guarded = start_guarded(passwords, 2)
    # One that wants none is among them, and does not get it.
    addresses = [server.address for server in (*guarded, servers[0])]
    options = ("--threads", "2", "--replicas", str(replicas), "--server-auth-file", str(passwords))
    proxy = start_proxy(*options, in_front_of=addresses)
    large = b"x" * 600_000
    with Wire(proxy.address) as wire:
        for number in range(60):
            assert wire.store(b"key-%d" % number, b"value") == b"STORED"
            if number < 6:
                assert wire.store(b"large-%d" % number, large) == b"STORED"
        keys = [b"key-%d" % number for number in range(60)]
        assert wire.get(*keys) == [(key, b"value") for key in keys]
        assert dict(wire.get(b"large-0", b"large-5")) == {b"large-0": large, b"large-5": large}
    now = counters(proxy)
    # Two loops, two servers; with one copy also connections for large values.
    assert now["server_logins"] >= 4
    assert now["server_logins_wanted"] == now["server_logins_refused"] == 0
    for server in guarded:
        with logged_in(server.address) as direct:
            held = items(direct)
            assert held
            assert b"weir-login" not in held
    with Wire(servers[0].address) as direct:
        held = items(direct)
        assert held
        assert b"weir-login" not in held
        assert b"password" not in b"".join(held.values())
    # A connection that is made anew logs in again.
    guarded[0].kill()
    again = Memcached("-Y", str(passwords), address=guarded[0].address)
    with again:
        again.wait_ready(again.address)
        eventually(lambda: bool(entry(proxy, again.address)["state"] == "up"), "it is used again")
        eventually(lambda: counters(proxy)["server_logins"] > now["server_logins"], "it was logged in to again")


def test_a_server_that_refuses_the_login_is_down_until_the_right_one_is_read(
    start_configured: StartConfigured, start_guarded: Callable[[Path, int], list[Memcached]], tmp_path: Path
) -> None:
    theirs = write_passwords(tmp_path / "theirs", "weir:right")
    ours = write_passwords(tmp_path / "ours", "weir:Xyzzy")
    (guarded,) = start_guarded(theirs, 1)
    text = f'[proxy]\nserver_auth_file = "{ours}"\n[pools.main]\nservers = ["{guarded.address}"]\n'
    proxy = start_configured(text, "--threads", "2", *log.OPTIONS)
    line = log.wait_reported(proxy, "server_down", guarded.address)
    assert line["why"] == "login_refused"
    assert "--server-auth-file" in line["message"]
    with Wire(proxy.address) as wire:
        assert wire.ask(b"get a") == b"SERVER_ERROR unauthenticated %b" % str(guarded.address).encode()
        eventually(lambda: counters(proxy)["server_logins_refused"] >= 4, "both loops have tried it twice")
        assert len(log.reported(proxy, "server_down")) == 1, "it is reported once"
        write_passwords(ours, "weir:right")
        assert proxy.reload()[0] == 200
        log.wait_reported(proxy, "server_up", guarded.address)
        assert wire.store(b"a", b"1") == b"STORED"
    assert "Xyzzy" not in proxy.output()


def test_each_pool_logs_in_to_its_servers_with_its_own_password(
    start_configured: StartConfigured, start_guarded: Callable[[Path, int], list[Memcached]], tmp_path: Path
) -> None:
    """A server hears of the login of its own pool alone, also when it takes none of them."""
    files = {name: write_passwords(tmp_path / name, f"weir:{name}-Xyzzy") for name in ("red", "blue", "green")}
    (red,), (blue,), (green,) = (start_guarded(file, 1) for file in files.values())
    curious = Echo()
    text = (
        f'default = "red"\n[proxy]\nserver_auth_file = "{files["red"]}"\n[pools.red]\nservers = ["{red.address}"]\n'
        f'[pools.blue]\nserver_auth_file = "{files["blue"]}"\nservers = ["{blue.address}", '
        f'{{ server = "{green.address}", server_auth_file = "{files["green"]}" }}, "{curious.address}"]\n'
        '[routes]\n"b-" = "blue"\n'
    )
    try:
        proxy = start_configured(text, "--threads", "2", *log.OPTIONS)
        log.wait_reported(proxy, "server_down", curious.address)
        assert b"blue-Xyzzy" in curious.heard
        assert not any(word in curious.heard for word in (b"red-Xyzzy", b"green-Xyzzy"))
        with Wire(proxy.address) as wire:
            for number in range(30):
                assert wire.store(b"key-%d" % number, b"value") == b"STORED"
                wire.store(b"b-%d" % number, b"value")
        for name, server in (("red", red), ("blue", blue), ("green", green)):
            with logged_in(server.address, b"weir", f"{name}-Xyzzy".encode()) as direct:
                held = items(direct)
                assert held
                assert all(key.startswith(b"key-" if name == "red" else b"b-") for key in held)
        # A reload reads what a pool says, too.
        write_passwords(files["blue"], "weir:wrong-Xyzzy")
        before = curious.heard
        assert proxy.reload()[0] == 200
        eventually(lambda: b"wrong-Xyzzy" in curious.heard[len(before) :], "it is tried again with what was read")
        assert "Xyzzy" not in proxy.output()
    finally:
        curious.close()


# ── the password ─────────────────────────────────────────────────────────────────────────────────────────────────────

CORE = "XyzzyPassWord77"


class Echo:
    """Says that it wants a login, and then repeats what it gets."""

    def __init__(self) -> None:
        self.address = Address.free()
        self.heard = b""
        self._listener = socket.create_server(self.address.pair)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(1000)
                connection.sendall(UNAUTHENTICATED + b"\r\n")
                while heard := connection.recv(1000):
                    self.heard += heard
                    connection.sendall(b"400 Bad Request: " + heard)
            except OSError:
                return


def _mistakes(address: Address, password: bytes) -> list[bytes]:
    """What clients read that make mistakes with a password in them."""
    found = []
    for sent in (
        login(b"odd", password + b"x"),
        login(password, b"odd"),
        b"set k 0 0 %d\r\nodd %bXX" % (len(password) + 4, password),
        b"set k 0 0 3\r\nodd %b\r\n" % password,
        b"set k 0 0 %d\r\n%b\r\n" % (len(password), password),
        b"get %b\r\n" % password,
        b"%b\r\n" % password,
        b"set k 0 0 5000\r\n" + password.ljust(5000) + b"\r\n",
    ):
        with Wire(address) as wire:
            wire.send(sent)
            found.append(wire.line())
    return found


def test_a_password_is_nowhere(
    stack: ExitStack,
    start_configured: StartConfigured,
    start_guarded: Callable[[Path, int], list[Memcached]],
    servers: list[Memcached],
    tmp_path: Path,
) -> None:
    password = f"%s{{0}}~{CORE}:<&>'\"\\n$".encode()
    file = tmp_path / "odd"
    file.write_bytes(b"odd:" + password + b"\n")
    (guarded,) = start_guarded(file, 1)
    echo = Echo()
    stack.callback(echo.close)
    trace, windows = tmp_path / "trace.csv", tmp_path / "windows.jsonl"
    addresses = [guarded.address, servers[0].address, echo.address]
    listed = ", ".join(f'"{address}"' for address in addresses)
    text = (
        f'[proxy]\nauth_file = "{file}"\nserver_auth_file = "{file}"\ntrace = "{trace}"\ntrace_sample = 1.0\n'
        f'windows = "{windows}"\nshow_keys = true\nlog_level = "info"\n[pools.main]\nservers = [{listed}]\n'
        '[[users]]\nname = "odd"\n'
    )
    proxy = start_configured(text, "--threads", "2", *log.OPTIONS)
    seen = {}
    log.wait_reported(proxy, "server_down", echo.address)
    assert CORE.encode() in echo.heard, "it was sent to who had asked for it"
    with logged_in(proxy.address, b"odd", password) as wire:
        for number in range(300):
            wire.send(b"set key-%d 0 0 1\r\nx\r\n" % number)
            wire.line()
        seen["mistakes"] = b"\n".join(_mistakes(proxy.address, password))
        for topic in (b"", b" proxy", b" servers", b" settings", b" hot"):
            wire.send(b"stats" + topic + b"\r\n")
            seen[f"stats{topic.decode()}"] = b"\n".join(iter(wire.line, b"END"))
        # Bad files with the password in them.
        good = file.read_bytes()
        for bad in (password + b"\n", good + good, good + b":" + password + b"\n", good + b"a b:" + password + b"\n"):
            file.write_bytes(bad.replace(b":", b"") if bad == password + b"\n" else bad)
            status, said = proxy.reload()
            assert status != 200, said
            seen[f"reload {len(seen)}"] = said.encode()
            checked = subprocess.run(
                [str(weir_binary()), "check", str(proxy.file)], capture_output=True, timeout=LIVENESS_S, check=False
            )
            assert checked.returncode == 2
            seen[f"check {len(seen)}"] = checked.stdout + checked.stderr
        file.write_bytes(good)
        status, said = proxy.reload()
        assert status == 200
        seen["reload"] = said.encode()
    for page in ("/metrics", "/snapshot", "/windows", "/config", "/hot", "/where?key=key-1", "/healthz", "/ready"):
        seen[page] = proxy.http(page).encode()
    seen["/proc"] = Path(f"/proc/{proxy.pid}/cmdline").read_bytes() + Path(f"/proc/{proxy.pid}/environ").read_bytes()
    with logged_in(guarded.address, b"odd", password) as direct:
        held = items(direct)
        assert held
        seen["guarded items"] = repr(held).encode()
    with Wire(servers[0].address) as direct:
        held = items(direct)
        assert held
        seen["items"] = repr(held).encode()
    proxy.signal(signal.SIGTERM)
    assert proxy.wait() == 0
    seen["log"] = proxy.output().encode()
    seen["trace"], seen["windows"] = trace.read_bytes(), windows.read_bytes()
    assert all(seen.values())
    assert len(seen["trace"].splitlines()) > 300
    assert b'"key":"key-' in seen["/hot"], "keys are shown"
    assert {line["event"] for line in log.lines(proxy)} >= {"reload_refused", "reloaded", "server_down"}
    for where, text_seen in seen.items():
        assert CORE.lower().encode() not in text_seen.lower(), where
        assert CORE.encode().hex().encode() not in text_seen, where
        # As a list of numbers, as a debugging aid would have it.
        assert json.dumps(list(CORE.encode()))[1:-1].encode() not in text_seen, where
