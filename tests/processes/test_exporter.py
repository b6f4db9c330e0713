"""What memcached_exporter and others who read the statistics of a memcached ask Weir: they can read the answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import Memcached
from tests.harness.wire import Wire

# What memcached_exporter 0.16 sends with each scrape, all on one connection.
SCRAPE = (b"stats", b"stats slabs", b"stats items", b"stats settings")

# It takes a scrape for failed where these are missing, or no numbers.
NEEDED = (b"cmd_set", b"cas_misses", b"cas_hits", b"cas_badval")

# What it makes numbers of, where they are there.
COUNTED = tuple(
    f"{operation}_{what}".encode()
    for operation in ("get", "delete", "incr", "decr", "cas", "touch")
    for what in ("hits", "misses")
)


def statistics(wire: Wire, command: bytes) -> dict[bytes, bytes]:
    """Reads an answer as the exporter does: lines of three words up to `END`, and no error."""
    wire.send(command + b"\r\n")
    found = {}
    while (line := wire.line()) != b"END":
        word, name, value = line.split(b" ", 2)
        assert word == b"STAT", line
        found[name] = value
    return found


@pytest.mark.every_engine
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_exporter_reads_the_statistics_of_a_proxy(start_proxy: StartProxy, connect: Connect, replicas: int) -> None:
    proxy = start_proxy("--replicas", str(replicas), "--threads", "2")
    wire, exporter = connect(proxy.address), connect(proxy.address)
    for command, answer in (
        (b"set a 0 0 1\r\n1", b"STORED"),
        (b"set b 0 0 1\r\n1", b"STORED"),
        (b"incr a 1", b"2"),
        (b"incr absent 1", b"NOT_FOUND"),
        (b"decr a 1", b"1"),
        (b"touch a 0", b"TOUCHED"),
        (b"touch absent 0", b"NOT_FOUND"),
        (b"touch gone 0", b"NOT_FOUND"),
        (b"delete b", b"DELETED"),
        (b"delete absent", b"NOT_FOUND"),
        (b"md absent", b"NF"),
    ):
        wire.send(command + b"\r\n")
        assert wire.line() == answer, command
    wire.send(b"gets a\r\n")
    token = wire.line().split(b" ")[4]
    assert (wire.line(), wire.line()) == (b"1", b"END")
    for number, answer in ((token, b"STORED"), (token, b"EXISTS")):
        wire.send(b"cas a 0 0 1 %s\r\n1\r\n" % number)
        assert wire.line() == answer
    for command in SCRAPE:
        answer_lines = statistics(exporter, command)
        if command == b"stats":
            found = {name: int(answer_lines[name]) for name in (*NEEDED, *COUNTED)}
            assert answer_lines[b"version"]
        if command == b"stats settings":
            assert int(answer_lines[b"maxconns"]) > 0
    assert found == {
        b"cmd_set": 4,
        b"cas_badval": 1,
        b"get_hits": 1,
        b"get_misses": 0,
        b"delete_hits": 1,
        b"delete_misses": 2,
        b"incr_hits": 1,
        b"incr_misses": 1,
        b"decr_hits": 1,
        b"decr_misses": 0,
        b"cas_hits": 1,
        b"cas_misses": 0,
        b"touch_hits": 1,
        b"touch_misses": 2,
    }
    assert statistics(exporter, b"stats slabs") == {b"active_slabs": b"0", b"total_malloced": b"0"}
    assert statistics(exporter, b"stats items") == {}


def test_what_client_libraries_ask_in_their_tests_is_answered(start_proxy: StartProxy, connect: Connect) -> None:
    wire = connect(start_proxy().address)
    for command in (b"stats conns", b"stats sizes", b"stats extstore", b"stats detail dump"):
        statistics(wire, command)
    assert statistics(wire, b"stats settings items")[b"verbosity"] == b"0"
    for command in (b"stats detail on", b"stats detail off", b"verbosity 1"):
        wire.send(command + b"\r\n")
        assert wire.line() == b"OK", command
    wire.send(b"stats reset\r\n")
    assert wire.line() == b"RESET"
    assert statistics(wire, b"stats")[b"delete_misses"] == b"0"
    wire.in_step()


@pytest.mark.every_engine
def test_commands_to_whole_servers_reach_each_of_them_where_they_are_allowed(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect
) -> None:
    def limits() -> list[int]:
        return [int(statistics(connect(server.address), b"stats settings")[b"maxbytes"]) >> 20 for server in servers]

    refusing = connect(start_proxy().address)
    refusing.send(b"cache_memlimit 100\r\ncache_memlimit 100 noreply\r\nlru_crawler metadump all\r\n")
    assert refusing.line() == b"CLIENT_ERROR cache_memlimit not allowed"
    assert refusing.line() == b"CLIENT_ERROR lru_crawler not allowed"
    assert limits() == [64, 64, 64]
    wire = connect(start_proxy("--allow-server-commands").address)
    wire.send(b"cache_memlimit 100\r\n")
    assert wire.line() == b"OK"
    assert limits() == [100, 100, 100]
    wire.send(b"cache_memlimit 1\r\ncache_memlimit 80 noreply\r\nslabs automove 0\r\nlru_crawler metadump all\r\n")
    assert wire.line() == b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
    assert wire.line() == b"OK"
    assert wire.line() == b"CLIENT_ERROR lru_crawler not allowed"
    assert limits() == [80, 80, 80]
    wire.in_step()


def test_many_who_ask_at_once_are_all_answered_with_what_they_have_done(
    start_proxy: StartProxy, connect: Connect
) -> None:
    """One report answers all who wait for it. It is made after the last has asked, so it counts what was answered."""
    proxy = start_proxy("--threads", "2")
    wires = [connect(proxy.address) for _ in range(60)]
    for round_ in range(1, 4):
        for wire in wires:
            wire.send(b"get a\r\n")
            assert wire.line() == b"END"
        for wire in wires:
            wire.send(b"stats\r\n")
        for wire in wires:
            found = {}
            while (line := wire.line()) != b"END":
                _, name, value = line.split(b" ", 2)
                found[name] = value
            assert int(found[b"cmd_get"]) == 60 * round_


def documented(heading: str) -> set[str]:
    """Fields that a section of docs/reference/stats.md has rows for."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "stats.md").read_text()
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_stats_has_a_row_on_its_page_and_no_other(start_proxy: StartProxy, connect: Connect) -> None:
    proxy = start_proxy("--show-keys")
    wire = connect(proxy.address)
    for _ in range(400):
        wire.send(b"get a\r\n")
        assert wire.line() == b"END"
    names = {
        topic: [name.decode() for name in statistics(wire, b"stats" + topic)]
        for topic in (b"", b" settings", b" servers", b" hot")
    }
    assert set(names[b""]) == documented("stats")
    # A unix socket has no place here.
    own = documented("stats settings") - {"domain_socket"}
    assert set(names[b" settings"][: len(own)]) == own
    assert {name.rsplit(":", 1)[1] for name in names[b" servers"]} == documented("stats servers") - {"no_tls"}
    hot = {name for name in names[b" hot"] if ":" not in name or name.startswith("1:")}
    assert hot == documented("stats hot")
