"""TLS between clients and the proxy. The clients are Python's ssl, which is OpenSSL, and pymemcache."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest
from pymemcache.client.base import Client

from tests.conftest import StartProxy
from tests.harness import log
from tests.harness.processes import (
    LIVENESS_S,
    ConfiguredProxy,
    Memcached,
    Process,
    eventually,
    weir_binary,
)
from tests.harness.standing import counters
from tests.harness.tls import Authority, Certificate, TlsAddress, client_context, hello, read_to_end
from tests.harness.wire import Wire
from tests.processes.test_bounds import resident_bytes


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def certificate(authority: Authority) -> Certificate:
    return authority.issue("proxy")


def options(certificate: Certificate) -> tuple[str, ...]:
    return ("--tls-cert", str(certificate.chain), "--tls-key", str(certificate.key))


def asked(address: TlsAddress) -> bytes:
    """Its version. With TLS 1.3 a client learns here that it is refused: its part of the handshake is done."""
    with Wire(address) as wire:
        wire.send(b"version\r\n")
        return wire.line()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_speaks_tls(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, version: ssl.TLSVersion
) -> None:
    proxy = start_proxy("--threads", "2", *options(certificate))
    context = client_context(authority)
    context.minimum_version = context.maximum_version = version
    with Wire(TlsAddress(proxy.address, context)) as wire:
        value = os.urandom(900_000)
        wire.store(b"large", value)
        assert dict(wire.get(b"large")) == {b"large": value}
        wire.send(b"".join(b"set key-%d 0 0 3 noreply\r\n%03d\r\n" % (index, index) for index in range(500)))
        wire.send(b"".join(b"get key-%d\r\n" % index for index in range(500)))
        for index in range(500):
            assert wire.line() == b"VALUE key-%d 0 3" % index
            assert wire.line() == b"%03d" % index
            assert wire.line() == b"END"
    assert counters(proxy)["tls_handshakes"] == 1
    assert counters(proxy)["tls_handshakes_resumed"] == 0


def test_pymemcache_speaks_tls_and_both_halves_may_be_in_one_file(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate
) -> None:
    proxy = start_proxy("--tls-cert", str(certificate.both))
    client = Client(
        ("localhost", proxy.address.port), tls_context=client_context(authority), timeout=LIVENESS_S, no_delay=True
    )
    assert client.set("key", b"value", noreply=False)
    assert client.get_many(["key", "other"]) == {"key": b"value"}
    client.close()


def test_who_does_not_speak_tls_reads_that(start_proxy: StartProxy, certificate: Certificate) -> None:
    proxy = start_proxy(*options(certificate))
    before = counters(proxy)
    for said in (b"version\r\n", b"set a 0 0 1\r\na\r\n", b"\x80\x0b" + bytes(22)):
        with proxy.address.connect(LIVENESS_S) as plain:
            plain.sendall(said)
            assert read_to_end(plain) == b"ERROR this port speaks TLS\r\n"
    now = counters(proxy)
    assert now["sessions_refused_plain"] - before["sessions_refused_plain"] == 3
    # Whoever waited for the port has connected and said nothing, which may be counted late.
    assert now["tls_handshakes_failed"] - before["tls_handshakes_failed"] <= 1
    assert now["requests"] == 0


def test_a_client_shows_its_certificate_where_that_is_demanded(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, tmp_path: Path
) -> None:
    proxy = start_proxy(*options(certificate), "--tls-client-ca", str(authority.file))
    with Wire(TlsAddress(proxy.address, client_context(authority, authority.issue("client")))) as wire:
        wire.store(b"key", b"value")
    stranger = Authority(tmp_path, "stranger").issue("strange")
    for shown, failed in ((None, 1), (stranger, 2)):
        with pytest.raises((ssl.SSLError, ConnectionResetError)) as refused:
            asked(TlsAddress(proxy.address, client_context(authority, shown)))
        assert "ALERT" in str(refused.value).upper().replace("_", " ")
        assert counters(proxy)["tls_handshakes_failed_certificate"] == failed
    assert counters(proxy)["requests"] == 1


def test_a_client_that_does_not_trust_the_proxy_is_counted(
    start_proxy: StartProxy, certificate: Certificate, tmp_path: Path
) -> None:
    proxy = start_proxy(*options(certificate))
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsAddress(proxy.address, client_context(Authority(tmp_path, "another"))).connect(LIVENESS_S)
    eventually(lambda: counters(proxy)["tls_handshakes_failed_alert"] == 1, "the alert is counted")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_at_any_loop(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, version: ssl.TLSVersion
) -> None:
    proxy = start_proxy("--threads", "2", *options(certificate))
    context = client_context(authority)
    context.minimum_version = context.maximum_version = version
    session = None
    for round_number in range(4):
        connection = TlsAddress(proxy.address, context, session).connect(LIVENESS_S)
        with connection:
            connection.sendall(b"mn\r\n")
            # Tickets of TLS 1.3 come with the first bytes that are read.
            assert connection.recv(100) == b"MN\r\n"
            assert connection.session_reused == (round_number > 0)
            session = connection.session
    now = counters(proxy)
    assert (now["tls_handshakes"], now["tls_handshakes_resumed"]) == (4, 3)


def test_an_end_is_said_by_the_proxy_and_missed_from_a_client(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate
) -> None:
    proxy = start_proxy(*options(certificate))
    address = TlsAddress(proxy.address, client_context(authority))
    with address.connect(LIVENESS_S) as quits:
        quits.sendall(b"version\r\nquit\r\n")
        assert quits.recv(100).startswith(b"VERSION")
        assert quits.recv(100) == b"", "an end without close_notify is an error here"
    eventually(lambda: counters(proxy)["sessions_closed"] >= 1, "it has left")
    cut = counters(proxy)["tls_cut"]
    with address.connect(LIVENESS_S) as leaves:
        leaves.sendall(b"version\r\n")
        assert leaves.recv(100).startswith(b"VERSION")
    eventually(lambda: counters(proxy)["tls_cut"] == cut + 1, "it left without a word")


def test_what_was_taken_is_answered_before_a_stop(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, servers: list[Memcached]
) -> None:
    proxy = start_proxy(*options(certificate))
    with TlsAddress(proxy.address, client_context(authority)).connect(LIVENESS_S) as connection:
        connection.sendall(b"mn\r\n")
        assert connection.recv(100) == b"MN\r\n"
        for server in servers:
            server.freeze()
        connection.sendall(b"get a b c d e f g h\r\n")
        eventually(lambda: proxy.snapshot()["counters"]["requests"] == 2, "it was read")
        proxy.signal(signal.SIGTERM)
        for server in servers:
            server.thaw()
        assert connection.recv(100) == b"END\r\n"
        assert connection.recv(100) == b""
    assert proxy.wait() == 0


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_slow_handshakes_keep_nobody_waiting(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, stack: ExitStack
) -> None:
    proxy = start_proxy(*options(certificate), "--threads", "1")
    context = client_context(authority)
    first = hello(context)
    served = stack.enter_context(Wire(TlsAddress(proxy.address, context)))
    served.store(b"key", b"value")
    slow = [stack.enter_context(proxy.address.connect(LIVENESS_S)) for _ in range(1000)]
    for place in range(20):
        for connection in slow:
            connection.sendall(first[place : place + 1])
        assert dict(served.get(b"key")) == {b"key": b"value"}
        with Wire(TlsAddress(proxy.address, context)) as new:
            assert dict(new.get(b"key")) == {b"key": b"value"}
    now = counters(proxy)
    assert (now["tls_handshakes"], now["tls_handshakes_refused"], now["requests_failed"]) == (21, 0, 0)


def test_a_turn_takes_a_few_steps_of_handshakes(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, stack: ExitStack
) -> None:
    proxy = start_proxy(*options(certificate), "--threads", "1")
    context = client_context(authority)
    before = counters(proxy)["sessions_accepted"]
    raw = [stack.enter_context(proxy.address.connect(LIVENESS_S)) for _ in range(50)]
    eventually(lambda: counters(proxy)["sessions_accepted"] >= before + 50, "all are connected")
    proxy.freeze()
    for connection in raw:
        connection.sendall(hello(context))
    proxy.thaw()
    for connection in raw:
        # The proxy's answer, a record of a handshake.
        assert connection.recv(1) == b"\x16"
    # All were ready at once, and no turn takes more than four.
    assert counters(proxy)["tls_handshakes_put_off"] >= 40


def test_handshakes_are_bounded_in_number_and_in_time(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, stack: ExitStack
) -> None:
    proxy = start_proxy(*options(certificate), "--tls-handshakes", "4", *log.OPTIONS)
    context = client_context(authority)
    for _ in range(3):
        with Wire(TlsAddress(proxy.address, context)) as wire:
            wire.get(b"key")
    before = counters(proxy)["sessions_accepted"]
    for _ in range(2):
        stack.enter_context(proxy.address.connect(LIVENESS_S))
    eventually(lambda: counters(proxy)["sessions_accepted"] >= before + 2, "two are under way")
    with proxy.address.connect(LIVENESS_S) as third:
        assert read_to_end(third) == b""
    eventually(lambda: counters(proxy)["tls_handshakes_refused"] == 1, "it is counted")
    assert log.wait_reported(proxy, "clients_refused")["no_handshake"] == 1
    # One address alone could keep all others out with handshakes that it left open.
    other = stack.enter_context(socket.create_connection(proxy.address.pair, LIVENESS_S, ("127.0.0.2", 0)))
    stack.enter_context(context.wrap_socket(other, server_hostname="localhost")).sendall(b"mn\r\n")
    assert counters(proxy)["tls_handshakes_refused"] == 1


def test_a_handshake_that_takes_too_long_is_ended(start_proxy: StartProxy, certificate: Certificate) -> None:
    proxy = start_proxy(*options(certificate), "--tls-handshake-timeout", "100ms")
    before = counters(proxy)["tls_handshakes_timed_out"]
    with proxy.address.connect(LIVENESS_S) as slow:
        slow.sendall(b"\x16")
        assert read_to_end(slow) == b""
    assert counters(proxy)["tls_handshakes_timed_out"] == before + 1


def test_a_client_that_reads_nothing_is_closed_however_much_it_says(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, stack: ExitStack
) -> None:
    proxy = start_proxy(*options(certificate), "--threads", "1", "--client-timeout", "1s")
    context = client_context(authority)
    with Wire(TlsAddress(proxy.address, context)) as wire:
        wire.store(b"large", bytes(900_000))
    plain = stack.enter_context(socket.socket())
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(proxy.address.pair)
    deaf = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
    deaf.sendall(b"get large\r\n" * 8)
    for _ in range(20):
        time.sleep(0.3)
        if counters(proxy)["sessions_closed_unread"] == 1:
            break
        with suppress(OSError):
            deaf.sendall(b"g")
    assert counters(proxy)["sessions_closed_unread"] == 1


def test_an_idle_client_takes_little_memory(
    start_proxy: StartProxy, authority: Authority, certificate: Certificate, stack: ExitStack
) -> None:
    """docs/operate/tls.md has what it is with 10,000 of them (`bench/tls-idle`); nobody may cost more than 20 KiB."""
    proxy = start_proxy(*options(certificate), "--threads", "1")
    address = TlsAddress(proxy.address, client_context(authority))

    def come(count: int) -> None:
        for _ in range(count):
            assert stack.enter_context(Wire(address)).get(b"key") == []

    # The first make what all share.
    come(50)
    before = resident_bytes(proxy)
    come(400)
    eventually(lambda: resident_bytes(proxy) - before <= 400 * (20 << 10), "400 clients take 8 MiB at most")
    assert counters(proxy)["sessions_accepted"] >= 450


# ── certificates that are read again ──────────────────────────────────────────────────────────────────────────────────


class Asking:
    """A client that reads one key over one connection all the time, and others that connect anew for each."""

    def __init__(self, address: TlsAddress, anew: bool) -> None:
        self.answered, self.wrong = 0, ""
        self._address, self._anew, self._stop = address, anew, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LIVENESS_S)

    def goes_on(self) -> None:
        """Returns when it has read the key once more, or something was wrong."""
        have = self.answered
        eventually(lambda: bool(self.wrong) or self.answered > have, "it goes on")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with Wire(self._address) as wire:
                    while not self._stop.is_set():
                        assert dict(wire.get(b"key")) == {b"key": b"value"}
                        self.answered += 1
                        if self._anew:
                            break
        except (AssertionError, OSError) as error:
            self.wrong = repr(error)


@pytest.fixture
def configured(stack: ExitStack, tmp_path: Path, servers: list[Memcached], certificate: Certificate) -> ConfiguredProxy:
    file = tmp_path / "weir.toml"
    listed = ", ".join(f'"{server.address}"' for server in servers)
    lines = ("[proxy]", f'tls_cert = "{certificate.chain}"', f'tls_key = "{certificate.key}"')
    file.write_text("\n".join([*lines, "[pools.main]", f"servers = [{listed}]", ""]))
    proxy = stack.enter_context(ConfiguredProxy(file, "--timeout", f"{LIVENESS_S}s", "--threads", "2"))
    proxy.wait_ready(proxy.address)
    proxy.wait_ready(proxy.admin)
    return proxy


def shown(address: TlsAddress) -> int:
    """The serial number of the certificate that a new connection is shown."""
    with address.connect(LIVENESS_S) as connection:
        described = connection.getpeercert()
    assert described is not None
    return int(str(described["serialNumber"]), 16)


def replace(certificate: Certificate, new: Certificate) -> None:
    new.chain.replace(certificate.chain)
    new.key.replace(certificate.key)


def test_certificates_are_reloaded_without_an_error(
    configured: ConfiguredProxy, authority: Authority, certificate: Certificate
) -> None:
    address = TlsAddress(configured.address, client_context(authority))
    with Wire(address) as wire:
        wire.store(b"key", b"value")
    with Asking(address, anew=False) as stays, Asking(address, anew=True) as comes:
        for _ in range(50):
            new = authority.issue("new")
            serial = new.serial()
            replace(certificate, new)
            status, said = configured.reload()
            assert (status, "certificate" in said) == (200, True), said
            assert shown(address) == serial
            stays.goes_on()
            comes.goes_on()
    assert (stays.wrong, comes.wrong) == ("", "")
    assert counters(configured)["tls_handshakes_failed"] <= 1, "but for who looked whether the port is open"


def test_a_wrong_file_is_refused_and_the_old_one_stays(
    configured: ConfiguredProxy, authority: Authority, certificate: Certificate
) -> None:
    address = TlsAddress(configured.address, client_context(authority))
    serial = certificate.serial()
    kept = certificate.chain.read_text()
    for content, why in (("", "no certificate"), (authority.issue("new").chain.read_text(), "another certificate")):
        certificate.chain.write_text(content)
        status, said = configured.reload()
        assert status != 200
        assert why in said
        assert shown(address) == serial
    certificate.chain.write_text(kept)
    text = configured.file.read_text()
    configured.file.write_text("\n".join(line for line in text.splitlines() if "tls_" not in line))
    status, said = configured.reload()
    assert status != 200
    assert "restart" in said
    assert shown(address) == serial


# ── what is refused at the start, and what is shown ───────────────────────────────────────────────────────────────────


def refused(*flags: str) -> str:
    command = [str(weir_binary()), "proxy", "--server", "127.0.0.1:11211", "--listen", "127.0.0.1:0", *flags]
    with Process(command) as process:
        assert process.wait() == 2, process.output()
        return process.output()


def test_what_does_not_go_together_is_refused_at_the_start(certificate: Certificate, tmp_path: Path) -> None:
    for engine in ("pool", "split"):
        said = refused("--engine", engine, *options(certificate))
        assert "--tls-cert belongs to --engine event" in said
    assert "--tls-key means nothing without --tls-cert" in refused("--tls-key", str(certificate.key))
    assert "cannot be read" in refused("--tls-cert", str(tmp_path / "missing.pem"))


def test_no_key_is_shown_anywhere(start_proxy: StartProxy, authority: Authority, certificate: Certificate) -> None:
    proxy = start_proxy(*options(certificate))
    secret = [line for line in certificate.key.read_text().splitlines() if "---" not in line]
    with Wire(TlsAddress(proxy.address, client_context(authority))) as wire:
        wire.send(b"stats settings\r\n")
        listed = b"\n".join(iter(wire.line, b"END")).decode()
    assert str(certificate.key) in listed
    for text in (listed, proxy.http("/config"), proxy.http("/snapshot"), proxy.output()):
        assert not any(line in text for line in secret)
