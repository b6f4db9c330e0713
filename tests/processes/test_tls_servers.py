"""TLS between the proxy and its servers, which are memcached with TLS, and between both and `weir load`."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness import log
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    ConfiguredProxy,
    Memcached,
    Proxy,
    eventually,
    weir_binary,
)
from tests.harness.standing import counters, entry
from tests.harness.tls import Authority, Certificate, TlsAddress, client_context
from tests.harness.wire import Wire

StartMemcached = Callable[..., Memcached]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def certificate(authority: Authority) -> Certificate:
    """For 127.0.0.1 and localhost."""
    return authority.issue("server")


@pytest.fixture
def start_memcached(stack: ExitStack) -> StartMemcached:
    """Starts a memcached that speaks TLS with this certificate, and perhaps demands one of that authority."""

    def start(certificate: Certificate, demands: Authority | None = None) -> Memcached:
        options = [f"ssl_chain_cert={certificate.chain}", f"ssl_key={certificate.key}"]
        if demands is not None:
            options += ["ssl_verify_mode=2", f"ssl_ca_cert={demands.file}"]
        server = stack.enter_context(Memcached("-Z", "-o", ",".join(options)))
        server.wait_ready(server.address)
        return server

    return start


def speaking(authority: Authority, *more: str) -> tuple[str, ...]:
    return ("--server-tls", "--server-ca", str(authority.file), *more)


def test_plain_clients_before_servers_with_tls(
    start_proxy: StartProxy,
    start_memcached: StartMemcached,
    authority: Authority,
    certificate: Certificate,
    connect: Connect,
) -> None:
    started = [start_memcached(certificate) for _ in range(2)]
    proxy = start_proxy(*speaking(authority), "--threads", "2", in_front_of=[it.address for it in started])
    wire = connect(proxy.address)
    value = bytes(range(256)) * 3600
    for index in range(20):
        wire.store(b"key-%d" % index, b"%d" % index)
        wire.store(b"large-%d" % index, value)
    assert dict(wire.get(*(b"key-%d" % index for index in range(20)))) == {
        b"key-%d" % index: b"%d" % index for index in range(20)
    }
    for index in range(20):
        assert dict(wire.get(b"large-%d" % index)) == {b"large-%d" % index: value}
    assert counters(proxy)["requests_failed"] == 0


# Around what one record holds, and one read of memcached (16 KiB), and far from it.
SIZES = (100, 1_000, 9_000, 16_300, 16_384, 16_450, 20_000, 32_768, 50_000, 65_536, 100_000, 262_144, 1_000_000)


def test_no_request_is_left_unread_behind_a_large_value(
    start_proxy: StartProxy,
    start_memcached: StartMemcached,
    authority: Authority,
    certificate: Certificate,
    connect: Connect,
) -> None:
    """memcached before 1.6.39 leaves a request unread that came in one record with the end of a value."""
    server = start_memcached(certificate)
    proxy = start_proxy(*speaking(authority), "--threads", "1", in_front_of=[server.address])
    wires = [connect(proxy.address) for _ in range(3)]
    rng = random.Random(1)
    wires[0].store(b"small", b"value")
    for _ in range(25):
        sent = []
        for number, wire in enumerate(wires):
            sizes = [max(1, size + rng.randrange(-200, 200)) for size in rng.sample(SIZES, rng.randrange(1, 6))]
            values = {b"large-%d-%d" % (number, place): rng.randbytes(size) for place, size in enumerate(sizes)}
            gets = [rng.randrange(4) for _ in sizes]
            pieces = [
                b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value) + b"get small\r\n" * get_count
                for (key, value), get_count in zip(values.items(), gets, strict=True)
            ]
            wire.send(b"".join(pieces))
            sent.append((wire, values, gets))
        for wire, values, gets in sent:
            for get_count in gets:
                assert wire.line() == b"STORED"
                assert [wire.values() for _ in range(get_count)] == [[(b"small", b"value")]] * get_count
            for key, value in values.items():
                assert dict(wire.get(key)) == {key: value}
    assert counters(proxy)["requests_failed"] == 0


def test_tls_on_both_sides(
    start_proxy: StartProxy, start_memcached: StartMemcached, authority: Authority, certificate: Certificate
) -> None:
    server = start_memcached(certificate)
    ours = ("--tls-cert", str(certificate.chain), "--tls-key", str(certificate.key))
    proxy = start_proxy(*speaking(authority), *ours, in_front_of=[server.address])
    with Wire(TlsAddress(proxy.address, client_context(authority))) as wire:
        wire.store(b"key", b"value")
        assert dict(wire.get(b"key")) == {b"key": b"value"}


def test_a_server_demands_a_certificate(
    start_proxy: StartProxy,
    start_memcached: StartMemcached,
    authority: Authority,
    certificate: Certificate,
    connect: Connect,
) -> None:
    server = start_memcached(certificate, authority)
    shown = authority.issue("shown")
    flags = ("--server-cert", str(shown.chain), "--server-key", str(shown.key))
    proxy = start_proxy(*speaking(authority), *flags, in_front_of=[server.address])
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    without = start_proxy(*speaking(authority), *log.OPTIONS, in_front_of=[server.address])
    wire = connect(without.address)
    wire.send(b"get key\r\n")
    assert wire.line().startswith(b"SERVER_ERROR ")
    eventually(lambda: entry(without, server.address)["state"] == "down", "it cannot be used")


@pytest.mark.parametrize("what", ["stranger", "name", "plain"])
def test_a_server_that_cannot_be_verified_is_down_and_the_log_says_why(
    start_proxy: StartProxy,
    start_memcached: StartMemcached,
    authority: Authority,
    servers: list[Memcached],
    tmp_path: Path,
    connect: Connect,
    what: str,
) -> None:
    if what == "stranger":
        server, why = start_memcached(Authority(tmp_path, "stranger").issue("strange")), "no authority of --server-ca"
    elif what == "name":
        server, why = start_memcached(authority.issue("other", "DNS:cache.test")), "does not have its name"
    else:
        server, why = servers[0], "it speaks no TLS"
    proxy = start_proxy(*speaking(authority), *log.OPTIONS, in_front_of=[server.address])
    wire = connect(proxy.address)
    wire.send(b"get key\r\n")
    assert wire.line().startswith(b"SERVER_ERROR ")

    def is_said() -> bool:
        downs = log.reported(proxy, "server_down", server.address)
        return any(line["why"] == "tls" and why in line["reason"] for line in downs)

    eventually(is_said, f"the log says {why}")
    assert counters(proxy)["tls_servers_failed"] > 0
    assert why in entry(proxy, server.address)["last_trouble"]
    wire.send(b"stats servers\r\n")
    listed = b"\n".join(iter(wire.line, b"END")).decode()
    assert f"STAT {server.address}:no_tls " in listed
    assert why in listed
    if what == "name":
        named = start_proxy(*speaking(authority), "--server-name", "cache.test", in_front_of=[server.address])
        connect(named.address).store(b"key", b"value")


# ── some with TLS, others without ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def configured(stack: ExitStack, tmp_path: Path) -> Callable[[str], ConfiguredProxy]:
    """Starts a proxy with this file."""

    def start(text: str) -> ConfiguredProxy:
        file = tmp_path / "weir.toml"
        file.write_text(text)
        proxy = stack.enter_context(ConfiguredProxy(file, "--timeout", f"{LIVENESS_S}s", "--threads", "2"))
        proxy.wait_ready(proxy.address)
        proxy.wait_ready(proxy.admin)
        return proxy

    return start


def test_a_pool_with_tls_beside_one_without_and_both_in_one(
    configured: Callable[[str], ConfiguredProxy],
    start_memcached: StartMemcached,
    servers: list[Memcached],
    authority: Authority,
    certificate: Certificate,
    connect: Connect,
    tmp_path: Path,
) -> None:
    plain, other = servers[0], servers[1]
    secure = start_memcached(certificate)
    # This one belongs to another authority, wants a certificate, and has no name of its host.
    strange = Authority(tmp_path, "strange")
    demanding = start_memcached(strange.issue("inner", "DNS:cache.test"), strange)
    shown = strange.issue("shown")
    proxy = configured(f"""
default = "plain"
[proxy]
server_ca = "{authority.file}"
[pools.plain]
servers = ["{plain.address}"]
[pools.secure]
servers = ["{secure.address}"]
server_tls = true
[pools.both]
servers = ["{other.address}", {{ server = "{demanding.address}", server_tls = true, server_ca = "{strange.file}",
  server_name = "cache.test", server_cert = "{shown.chain}", server_key = "{shown.key}" }}]
[routes]
"secure:" = "secure"
"both:" = "both"
""")
    wire = connect(proxy.address)
    keys = [b"%b%d" % (prefix, number) for prefix in (b"", b"secure:", b"both:") for number in range(40)]
    for key in keys:
        assert wire.store(key, b"value of " + key) == b"STORED"
    assert dict(wire.get(*keys)) == {key: b"value of " + key for key in keys}
    assert counters(proxy)["tls_servers_failed"] == 0


def test_a_reload_changes_what_a_server_is_spoken_to_in_and_costs_the_others_nothing(
    configured: Callable[[str], ConfiguredProxy],
    start_memcached: StartMemcached,
    servers: list[Memcached],
    authority: Authority,
    certificate: Certificate,
    connect: Connect,
) -> None:
    secure, plain = start_memcached(certificate), servers[0]

    def text(said: str) -> str:
        return f"""
default = "plain"
[pools.plain]
servers = ["{plain.address}"]
[pools.other]
servers = ["{secure.address}"]
{said}
[routes]
"other:" = "other"
"""

    with_tls = f'server_tls = true\nserver_ca = "{authority.file}"'
    proxy = configured(text(with_tls))
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    wire.store(b"other:key", b"value")
    for _ in range(5):
        proxy.file.write_text(text(""))
        status, said = proxy.reload()
        assert status == 200, said
        # It speaks TLS only, so nothing but TLS gets an answer from it.
        eventually(lambda: entry(proxy, secure.address)["state"] == "down", "it is spoken to in clear")
        assert dict(wire.get(b"key")) == {b"key": b"value"}
        proxy.file.write_text(text(with_tls))
        status, said = proxy.reload()
        assert status == 200, said
        eventually(lambda: entry(proxy, secure.address)["state"] == "up", "it is spoken to in TLS")
        assert dict(wire.get(b"key", b"other:key")) == {b"key": b"value", b"other:key": b"value"}
    # A file that cannot be used changes nothing.
    proxy.file.write_text(text('server_tls = true\nserver_ca = "/nowhere/ca.crt"'))
    status, said = proxy.reload()
    assert status != 200
    assert "/nowhere/ca.crt" in said
    assert dict(wire.get(b"other:key")) == {b"other:key": b"value"}
    assert counters(proxy)["requests_failed"] == 0


@pytest.fixture
def silent() -> Iterator[Address]:
    """A server that takes connections and says nothing, which is what a handshake waits for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    accepted.append(listener.accept()[0])
            except OSError:
                return

        thread = threading.Thread(target=accept)
        thread.start()
        yield Address(*listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(LIVENESS_S)
        for connection in accepted:
            connection.close()


def test_the_time_to_connect_holds_for_the_handshake(
    start_proxy: StartProxy, authority: Authority, silent: Address, connect: Connect
) -> None:
    proxy = start_proxy(*speaking(authority), "--connect-timeout", "100ms", in_front_of=[silent])
    wire = connect(proxy.address)
    wire.send(b"get key\r\n")
    assert wire.line().startswith(b"SERVER_ERROR ")
    eventually(lambda: entry(proxy, silent)["state"] == "down", "it is given up")


def loaded(target: Address, *flags: str) -> dict[str, object]:
    """The record of a short run of `weir load` in which all went well."""
    command = [str(weir_binary()), "load", "--target", str(target), "--json", "-", "--requests", "3000", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    record: dict[str, object] = json.loads(done.stdout)
    return record


def test_weir_load_speaks_tls(
    start_proxy: StartProxy,
    start_memcached: StartMemcached,
    servers: list[Memcached],
    authority: Authority,
    certificate: Certificate,
) -> None:
    # Small values: what comes behind a large one may be left unread by memcached before 1.6.39 (docs/operate/tls.md).
    server = start_memcached(certificate)
    loaded(server.address, "--tls", "--ca", str(authority.file), "--tls-name", "localhost")
    proxy: Proxy = start_proxy(
        "--tls-cert", str(certificate.both), "--tls-client-ca", str(authority.file),
        in_front_of=[server.address for server in servers],
    )  # fmt: skip
    shown = authority.issue("load")
    flags = ("--tls", "--ca", str(authority.file), "--cert", str(shown.both), "--depth", "10")
    loaded(proxy.address, *flags)
    # What comes is read while what is written waits.
    loaded(proxy.address, *flags, "--value-size", "100000", "--writes", "0.5", "--keys", "200")
    before = counters(proxy)["tls_handshakes"]
    loaded(proxy.address, *flags, "--reconnect-after", "100")
    assert counters(proxy)["tls_handshakes"] > before + 16, "connections are made anew"


def test_weir_load_says_why_it_cannot(
    start_memcached: StartMemcached, authority: Authority, certificate: Certificate, tmp_path: Path
) -> None:
    server = start_memcached(certificate)
    stranger = Authority(tmp_path, "stranger")
    for flags, why in (
        (("--ca", str(stranger.file)), "UnknownIssuer"),
        (("--ca", str(authority.file), "--tls-name", "cache.test"), "not valid for name"),
        (("--ca", str(tmp_path / "missing.pem")), "missing.pem"),
    ):
        command = [str(weir_binary()), "load", "--target", str(server.address), "--tls", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert why in done.stderr
