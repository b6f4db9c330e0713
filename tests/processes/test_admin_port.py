"""Who asks at the admin port and never reads, never asks, or asks from elsewhere holds up nobody."""

from __future__ import annotations

import http.client
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, Address, Proxy, eventually

MEBIBYTE = 1 << 20

# Far longer than an answer takes on a busy machine, and far shorter than any client may take to ask or to read.
SOON_S = 5


def status(proxy: Proxy, method: str, path: str, **headers: str) -> int:
    """The status of one question; `Host` is what it is given as."""
    asking = http.client.HTTPConnection(*proxy.admin.pair, timeout=SOON_S)
    asking.putrequest(method, path, skip_host=True)
    for name, value in headers.items():
        asking.putheader(name, value)
    asking.endheaders()
    answer = asking.getresponse()
    answer.read()
    asking.close()
    return answer.status


def admin_counts(proxy: Proxy) -> dict[str, int]:
    found: dict[str, int] = proxy.snapshot()["admin"]
    return found


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Lets this process have this many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def deaf(address: Address, question: bytes) -> socket.socket:
    """Asks many times, and never reads an answer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(LIVENESS_S)
    connection.connect(address.pair)
    with suppress(OSError):  # one answer may be all that there is
        connection.sendall(question * 20)
    return connection


@pytest.mark.parametrize("count", [64, 1000])
def test_clients_that_never_read_or_never_ask_do_not_hold_up_health_nor_pages(
    start_proxy: StartProxy, stack: ExitStack, count: int
) -> None:
    proxy = start_proxy("--threads", "1")
    eventually(lambda: status(proxy, "GET", "/readyz", Host="localhost") == 200, "it has connected to a server")
    stack.enter_context(descriptors(4096))
    snapshot = b"GET /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for number in range(count):
        question = snapshot if number % 2 == 0 or count == 64 else b"GET /snap"
        stack.enter_context(deaf(proxy.admin, question))
        if number % 64 == 63:
            assert status(proxy, "GET", "/healthz", Host="localhost") == 200
            assert status(proxy, "GET", "/readyz", Host="localhost") == 200
    # While more pages are made than may be, more are refused; nobody has to wait for those who do not read them.
    eventually(lambda: status(proxy, "GET", "/metrics", Host="localhost") == 200, "pages are served, too")
    found = admin_counts(proxy)
    assert found["connections"] <= 64
    assert found["buffered_bytes"] <= 32 * MEBIBYTE


def test_unread_answers_are_counted_and_bounded(start_proxy: StartProxy, stack: ExitStack) -> None:
    # Nobody is there; they make the page long, so that the kernels between us do not take all of it.
    nowhere = [Address(f"127.0.1.{number}", 1) for number in range(1, 251)]
    proxy = start_proxy("--threads", "1", in_front_of=nowhere)
    metrics = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unread = [stack.enter_context(deaf(proxy.admin, metrics)) for _ in range(16)]
    eventually(lambda: admin_counts(proxy)["buffered_bytes"] > MEBIBYTE, "answers are held")
    found = admin_counts(proxy)
    assert found["buffered_bytes"] <= 32 * MEBIBYTE
    assert found["connections"] > 1
    for connection in unread:
        connection.close()
    eventually(lambda: admin_counts(proxy)["buffered_bytes"] == 0, "nothing is kept for those who have gone")


def test_a_page_of_another_site_cannot_reload_nor_read(start_proxy: StartProxy) -> None:
    proxy = start_proxy("--admin-host", "cache.example.org")
    own = str(proxy.admin)
    for path in ("/metrics", "/snapshot", "/config", "/healthz"):
        assert status(proxy, "GET", path, Host=own) == 200
        assert status(proxy, "GET", path, Host=own, Origin=f"http://{own}") == 200
        for origin in ("http://evil.example", "null"):
            assert status(proxy, "GET", path, Host=own, Origin=origin) == 403
    for origin in ("http://evil.example", "null"):
        assert status(proxy, "POST", "/reload", Host=own, Origin=origin) == 403
    # This proxy has nothing to read again, and says so.
    assert status(proxy, "POST", "/reload", Host=own) == 422
    assert admin_counts(proxy)["strangers"] == 10


def test_a_name_that_was_made_to_point_here_is_refused(start_proxy: StartProxy) -> None:
    proxy = start_proxy("--admin-host", "cache.example.org")
    eventually(lambda: status(proxy, "GET", "/readyz", Host="localhost") == 200, "it has connected to a server")
    for host in ("evil.example", f"evil.example:{proxy.admin.port}"):
        for path in ("/snapshot", "/config", "/windows", "/where?key=a"):
            assert status(proxy, "GET", path, Host=host) == 403
        assert status(proxy, "POST", "/reload", Host=host) == 403
        # What scrapers and probes ask they ask by whatever name they know.
        for path in ("/metrics", "/healthz", "/readyz"):
            assert status(proxy, "GET", path, Host=host) == 200
    for host in ("cache.example.org", "localhost", "weir:80", f"127.0.0.1:{proxy.admin.port}"):
        assert status(proxy, "GET", "/config", Host=host) == 200


def test_a_connection_brings_one_question(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy()
    wire = connect(proxy.admin)
    wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said, closed = wire.until(b"never")
    assert said.endswith(b"ok\n")
    assert b"connection: close" in said.lower()
    assert closed
