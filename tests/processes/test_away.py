"""Servers of replicated keys that die, freeze, or have no room, under load that finds every outdated value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.load import CheckedLoad, assert_right
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.standing import entry, goes_on, is_asked, is_read

pytestmark = pytest.mark.every_engine

REPLICATED = ("--threads", "2", "--replicas", "2", "--read", "spread")
# The proxy's own default; a frozen server must be found out.
DEADLINE = ("--timeout", "500ms")


def test_killed_server_comes_back_empty_and_is_read_again(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, tmp_path: Path
) -> None:
    proxy = start_proxy(*REPLICATED, *DEADLINE)
    with CheckedLoad(proxy.address, tmp_path / "load.json") as load:
        goes_on(proxy)
        servers[0].kill()
        eventually(lambda: entry(proxy, servers[0].address)["state"] == "down", "the server is found dead")
        goes_on(proxy)
        with Memcached(address=servers[0].address) as restarted:
            eventually(lambda: is_read(proxy, servers[0].address), "the server is back")
            is_asked(proxy, servers[0].address)
            goes_on(proxy)
            assert_right(load.stop())
            assert restarted.running
    connect(proxy.address).in_step()


@pytest.mark.parametrize("trials", [2, pytest.param(200, marks=pytest.mark.long)])
def test_frozen_server_shows_no_old_value(
    start_proxy: StartProxy, servers: list[Memcached], trials: int, tmp_path: Path
) -> None:
    """It carries out the writes that lay in its sockets after its thaw, when the keys have newer values elsewhere."""
    proxy = start_proxy(*REPLICATED, *DEADLINE)
    with CheckedLoad(proxy.address, tmp_path / "load.json") as load:
        for trial in range(trials):
            server = servers[trial % len(servers)]
            goes_on(proxy)
            server.freeze()
            eventually(lambda it=server.address: entry(proxy, it)["unread"] is not None, "it lacks writes")  # type: ignore[misc]
            goes_on(proxy)
            server.thaw()
            eventually(lambda it=server.address: is_read(proxy, it), "it is read again")  # type: ignore[misc]
        record = load.stop()
    assert_right(record)
    assert any(text.startswith("SERVER_ERROR timeout") for text in record["errors"]), record["errors"]


def test_full_servers_that_refuse_writes_show_no_old_value(start_proxy: StartProxy, tmp_path: Path) -> None:
    """`memcached -M` answers a write with an error, and forgets what it had; its replica may have room."""
    with Memcached("-M", "-m", "2") as small, Memcached("-M", "-m", "4") as larger, Memcached() as roomy:
        full = [small, larger, roomy]
        for server in full:
            server.wait_ready(server.address)
        proxy = start_proxy(*REPLICATED, *DEADLINE, in_front_of=[server.address for server in full])
        options = ("--value-size", "100-8000", "--no-prefill")
        with CheckedLoad(proxy.address, tmp_path / "load.json", *options) as load:
            eventually(lambda: refusals(proxy) > 100, "writes are refused")
            goes_on(proxy, 10_000)
            record = load.stop()
    assert_right(record)
    # Both replicas of a key may be made to forget something at the same moment: then neither is read.
    assert "SERVER_ERROR out of memory storing object" in record["errors"], record["errors"]


def refusals(proxy: Proxy) -> int:
    return sum(int(operation["errors"]) for operation in proxy.snapshot()["operations"].values())
