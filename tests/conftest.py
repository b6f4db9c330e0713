"""Fixtures: three memcached, a proxy in front of them, and the two subjects that every client test runs against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy, SocketPath
from tests.harness.wire import Wire

StartProxy = Callable[..., Proxy]
Connect = Callable[[Address | SocketPath], Wire]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`not_yet` expects the failure through the proxy only; memcached itself must pass."""
    for item in items:
        mark = item.get_closest_marker("not_yet")
        if mark is not None and isinstance(item, pytest.Function) and item.callspec.params.get("subject") == "weir":
            item.add_marker(pytest.mark.xfail(reason=mark.kwargs["reason"], strict=True))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends everything a test started, in reverse order, however the test ended."""
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def servers(stack: ExitStack) -> list[Memcached]:
    started = [stack.enter_context(Memcached()) for _ in range(3)]
    for server in started:
        server.wait_ready(server.address)
    return started


@pytest.fixture
def start_proxy(stack: ExitStack, servers: list[Memcached]) -> StartProxy:
    """Starts a proxy in front of the three servers (or the given addresses) with further options, and waits for it."""

    def start(*options: str, in_front_of: list[Address] | None = None) -> Proxy:
        addresses = in_front_of or [server.address for server in servers]
        if "--timeout" not in options:
            # The deadline is a test's own subject or none: a busy machine must not make it strike.
            options += ("--timeout", f"{LIVENESS_S}s")
        proxy = stack.enter_context(Proxy(addresses, *options))
        proxy.wait_ready(proxy.address)
        proxy.wait_ready(proxy.admin)
        return proxy

    return start


@pytest.fixture
def connect(stack: ExitStack) -> Connect:
    return lambda address: stack.enter_context(Wire(address))


@pytest.fixture(params=["direct", "weir"])
def subject(request: pytest.FixtureRequest) -> Address:
    """Where a client connects. `direct` is memcached itself: what holds there must hold through the proxy."""
    if request.param == "direct":
        server: Memcached = request.getfixturevalue("servers")[0]
        return server.address
    proxy: Proxy = request.getfixturevalue("start_proxy")("--allow-flush")
    return proxy.address
