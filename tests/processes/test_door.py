"""The first bytes of a connection: clients of other protocols get an error at once, and nobody else notices."""

from __future__ import annotations

import http.client
import ssl

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, eventually
from tests.harness.standing import counters

pytestmark = pytest.mark.every_engine

ALERT = b"\x15\x03\x03\x00\x02\x02\x0a"
BROWSER = b"GET / HTTP/1.1\r\n"


def client_hello() -> bytes:
    """What this machine's TLS library says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="cache.test").do_handshake()
    return outgoing.read()


def test_a_tls_client_fails_at_once(start_proxy: StartProxy) -> None:
    proxy = start_proxy()
    with proxy.address.connect(LIVENESS_S) as raw:
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLError, match=r"(?i)unexpected[ _]message"):
            context.wrap_socket(raw, server_hostname="cache.test")
    assert counters(proxy)["sessions_refused_tls"] == 1


def test_an_http_client_reads_why(start_proxy: StartProxy) -> None:
    proxy = start_proxy()
    for method in ("GET", "POST", "OPTIONS"):
        asking = http.client.HTTPConnection(*proxy.address.pair, timeout=LIVENESS_S)
        asking.request(method, "/", body=b"set a 0 0 1\r\nx\r\n" if method == "POST" else None)
        answer = asking.getresponse()
        assert (answer.status, answer.getheader("Connection")) == (400, "close")
        assert b"memcached" in answer.read()
        asking.close()
    assert counters(proxy)["sessions_refused_http"] == 3


def test_it_is_reported_wherever_the_first_bytes_are_cut(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    neighbour = connect(proxy.address)
    assert neighbour.store(b"key", b"value") == b"STORED"
    hello = client_hello()
    assert hello[0] == 0x16
    # The first bytes decide; behind them it makes no difference where the others are cut.
    for first, answer in ((hello, ALERT), (BROWSER, b"HTTP/1.1 400 Bad Request\r\n")):
        for cut in range(1, min(len(first), 20)):
            stranger = connect(proxy.address)
            stranger.send(first[:cut])
            assert neighbour.get(b"key") == [(b"key", b"value")]
            stranger.try_send(first[cut:])
            said, closed = stranger.until(b"never")
            assert said.startswith(answer)
            assert closed
    neighbour.in_step()


def test_only_first_bytes_are_judged(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    wire.in_step()
    assert wire.ask(b"\x16\x03\x01") == b"ERROR"
    value = BROWSER + ALERT + b"\x16\x03\x01"
    assert wire.store(b"key", value) == b"STORED"
    assert wire.get(b"key") == [(b"key", value)]
    # memcached says nothing to a line of HTTP, and ends the connection.
    wire.send(BROWSER)
    assert wire.ended()
    for text in (b"GET key", b"get key HTTP", b"HTTP/1.1"):
        other = connect(proxy.address)
        other.send(text + b"\r\nget key\r\n")
        said, _ = other.until(b"END\r\n")
        assert not said.startswith(b"HTTP"), text
    eventually(lambda: counters(proxy)["sessions_refused_http"] == 0, "none of it counts as a client of HTTP")
