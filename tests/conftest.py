"""Fixtures: three memcached, a proxy in front of them, and the two subjects that every client test runs against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness import log
from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy, SocketPath
from tests.harness.service import Service
from tests.harness.wire import Wire

StartProxy = Callable[..., Proxy]
StartService = Callable[..., Service]
Connect = Callable[[Address | SocketPath], Wire]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`not_yet` expects the failure through the proxy only; memcached itself must pass."""
    for item in items:
        mark = item.get_closest_marker("not_yet")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        if item.callspec.params.get("subject", "direct") != "direct":
            item.add_marker(pytest.mark.xfail(reason=mark.kwargs["reason"], strict=True))


ENGINES = ("event", "pool", "split")

# What stands for `--threads N` there, and how many of it for each event loop.
THREADS_OF = {"pool": ("--workers", 4), "split": ("--readers", 2)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked `every_engine` runs once with each way of serving."""
    if "engine" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_engine"):
        metafunc.parametrize("engine", ENGINES)


@pytest.fixture
def engine() -> str:
    """How the proxy serves; tests that are not marked `every_engine` are about the default."""
    return "event"


def engine_options(engine: str, options: tuple[str, ...]) -> tuple[str, ...]:
    """Where a test asks for event loops, a pool gets four workers, a split two readers of each server, for each."""
    if engine == "event":
        return options
    options = ("--engine", engine, *options)
    if "--threads" not in options:
        return options
    place = options.index("--threads")
    flag, times = THREADS_OF[engine]
    return (*options[:place], flag, str(times * int(options[place + 1])), *options[place + 2 :])


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
def start_proxy(stack: ExitStack, servers: list[Memcached], engine: str) -> StartProxy:
    """Starts a proxy in front of the three servers (or the given addresses) with further options, and waits for it."""

    def start(
        *options: str, in_front_of: list[Address] | None = None, descriptors: tuple[int, int] | None = None
    ) -> Proxy:
        addresses = in_front_of or [server.address for server in servers]
        if "--timeout" not in options:
            # The deadline is a test's own subject or none: a busy machine must not make it strike.
            options += ("--timeout", f"{LIVENESS_S}s")
        proxy = stack.enter_context(Proxy(addresses, *engine_options(engine, options), descriptors=descriptors))
        proxy.wait_ready(proxy.address)
        proxy.wait_ready(proxy.admin)
        return proxy

    return start


@pytest.fixture
def start_service(stack: ExitStack, servers: list[Memcached], engine: str) -> StartService:
    """Starts a proxy in front of the three servers as a service manager does; the keywords are those of `Service`."""

    def start(*options: str, **keywords: Any) -> Service:
        flags = [part for server in servers for part in ("--server", str(server.address))]
        given = engine_options(engine, ("--timeout", f"{LIVENESS_S}s", *log.OPTIONS, *options))
        return stack.enter_context(Service(*flags, *given, **keywords))

    return start


@pytest.fixture
def connect(stack: ExitStack) -> Connect:
    return lambda address: stack.enter_context(Wire(address))


@pytest.fixture(params=["direct", "weir", "weir-pool", "weir-split"])
def subject(request: pytest.FixtureRequest) -> Address:
    """Where a client connects. `direct` is memcached itself: what holds there must hold through the proxy."""
    if request.param == "direct":
        server: Memcached = request.getfixturevalue("servers")[0]
        return server.address
    _, _, engine = request.param.partition("-")
    options = ("--engine", engine) if engine else ()
    proxy: Proxy = request.getfixturevalue("start_proxy")("--allow-flush", *options)
    return proxy.address
