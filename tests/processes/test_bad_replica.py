"""One of three servers of replicated keys misbehaves for a while, under load that finds every outdated value."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.faulty import FaultyServer, Misbehaviour
from tests.harness.load import CheckedLoad, assert_right
from tests.harness.processes import Memcached, Proxy, eventually
from tests.harness.standing import counters, goes_on, is_asked, is_read

pytestmark = pytest.mark.every_engine

REPLICATED = ("--threads", "2", "--replicas", "2", "--read", "spread")
# Why a request that needs such a server may fail.
REASON = {
    Misbehaviour.ANSWERS_GARBAGE: "protocol",
    Misbehaviour.ANSWERS_HALF: "closed",
    Misbehaviour.ACCEPTS_AND_CLOSES: "closed",
    Misbehaviour.DRIPS: "timeout",
}


def writes_missed(proxy: Proxy) -> int:
    """How many requests failed, or left a server out that was known to be down."""
    found = counters(proxy)
    return found["requests_failed"] + found["copies_skipped"]


@pytest.mark.parametrize("misbehaviour", REASON, ids=lambda it: it.name.lower())
def test_server_that_turns_bad_and_good_again_shows_no_old_value(
    start_proxy: StartProxy,
    servers: list[Memcached],
    connect: Connect,
    stack: ExitStack,
    misbehaviour: Misbehaviour,
    tmp_path: Path,
) -> None:
    """Its memcached holds what it held before, and carries out what the proxy takes for failed."""
    bad = stack.enter_context(FaultyServer(servers[0].address))
    addresses = [bad.address, servers[1].address, servers[2].address]
    # A good server on a busy machine keeps four seconds; one that drips must be found out.
    deadline = "1s" if misbehaviour is Misbehaviour.DRIPS else "4s"
    options = (*REPLICATED, "--timeout", deadline, "--quarantine", "200ms")
    proxy = start_proxy(*options, in_front_of=addresses)
    # Under pool and split the deadlines of a pipeline at the server that drips run one after the other.
    with CheckedLoad(proxy.address, tmp_path / "load.json", "--timeout", "30s") as load:
        for _ in range(2):
            goes_on(proxy)
            before, missed = bad.misdeeds, writes_missed(proxy)
            bad.turn_bad(misbehaviour)
            eventually(lambda before=before: bad.misdeeds > before + 1, "it misbehaves")  # type: ignore[misc]
            # Reads go to others. That a write needs it may take a while, if nothing was under way when it turned bad.
            eventually(lambda missed=missed: writes_missed(proxy) > missed, "a write needs it")  # type: ignore[misc]
            goes_on(proxy, 100)
            bad.turn_good()
            eventually(lambda: is_read(proxy, bad.address), "it is read again")
            is_asked(proxy, bad.address)
        goes_on(proxy)
        record = load.stop()
    assert_right(record)
    # Many connections that end at once may leave no room for the next, and one that always ends is marked down.
    expected = {f"SERVER_ERROR {reason} {bad.address}" for reason in (REASON[misbehaviour], "connect", "down", "stale")}
    if misbehaviour is Misbehaviour.DRIPS:
        # Who waits behind a late request may be late as well, and so may a good server be that gets no processor for so
        # long. Then a key may have no server that may be read.
        # And where it gets none for a quarter of a second, a connection that drips looks dead beside one that answers.
        reasons = {"timeout", "stale", "down"} | ({"closed"} if counters(proxy)["server_connections_dead"] else set())
        expected = {text for text in record["errors"] if text.split()[1] in reasons}
    assert record["errors"].keys() <= expected, record["errors"]
    assert counters(proxy)["requests_failed"] == sum(record["errors"].values()), record["errors"]
    connect(proxy.address).in_step()
