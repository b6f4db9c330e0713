"""A pool for each place where clients connect, `[[listen]] pool`: one process in place of a nutcracker with many."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.logins import logged_in, write_passwords
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    Memcached,
    Process,
    SocketPath,
    eventually,
    program,
    weir_binary,
)
from tests.harness.wire import Wire
from tests.processes.test_listeners import PlacesProxy
from tests.processes.test_metrics import OF_PLACES, complaints, documented


class OwnPools(PlacesProxy):
    """`weir proxy` that takes all that pools say from its file."""

    def __init__(self, file: Path) -> None:
        self.file, self.admin = file, Address.free()
        Process.__init__(self, [str(weir_binary()), "proxy", "--config", str(file), "--admin", str(self.admin)])


def places(pools: Mapping[str, Address | SocketPath]) -> str:
    """A place for each pool."""
    rows = (f'[[listen]]\naddress = "{address}"\npool = "{name}"\n' for name, address in pools.items())
    return "".join(rows)


def pool(name: str, servers: Sequence[Memcached], *settings: str) -> str:
    listed = ", ".join(f'"{server.address}:1 s{number}"' for number, server in enumerate(servers))
    return "\n".join([f"[pools.{name}]", f"servers = [{listed}]", f'timeout = "{LIVENESS_S}s"', *settings, ""])


def start(stack: ExitStack, file: Path, text: str) -> OwnPools:
    file.write_text(text)
    proxy = stack.enter_context(OwnPools(file))
    proxy.wait_ready(proxy.admin)
    # It answers when clients can connect.
    assert proxy.reported("/config")
    return proxy


def held(server: Memcached, *keys: bytes) -> dict[bytes, bytes]:
    with Wire(server.address) as wire:
        return dict(wire.get(*keys))


def test_the_same_key_is_another_item_at_the_place_of_another_pool(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    """Servers of the pools have the same names, and one of them is the same server."""
    red, blue, routes = Address.free(), SocketPath(tmp_path / "blue.sock"), Address.free()
    text = f'default = "main"\n[[listen]]\naddress = "{routes}"\n' + places({"red": red, "blue": blue})
    text += pool("main", servers[2:]) + pool("red", servers[:1]) + pool("blue", servers[1:2])
    text += pool("users", servers[2:]) + '[routes]\n"u:" = "users"\n[proxy]\nallow_flush = true\nthreads = 4\n'
    proxy = start(stack, tmp_path / "weir.toml", text)
    keys = [b"a", b"u:1", *(b"key:%d" % number for number in range(20))]
    with Wire(red) as at_red, Wire(blue) as at_blue, Wire(routes) as by_routes:
        for wire, value in ((at_red, b"red"), (at_blue, b"blue"), (by_routes, b"routes")):
            for key in keys:
                assert wire.store(key, value) == b"STORED"
        for wire, value in ((at_red, b"red"), (at_blue, b"blue"), (by_routes, b"routes")):
            assert wire.get(*keys) == [(key, value) for key in keys]
        for server, value in zip(servers, (b"red", b"blue", b"routes"), strict=True):
            assert held(server, *keys) == dict.fromkeys(keys, value)
        # Of one client only its own pool is emptied, and a write reaches no other.
        assert at_red.ask(b"delete a") == b"DELETED"
        assert at_blue.ask(b"incr a 1").startswith(b"CLIENT_ERROR cannot increment")
        assert at_blue.ask(b"flush_all") == b"OK"
        assert at_blue.get(*keys) == []
        assert at_red.get(*keys) == [(key, b"red") for key in keys[1:]]
        assert by_routes.get(*keys) == [(key, b"routes") for key in keys]
        # Of the two pools one name is two keys. One of 64 requests is looked at.
        for wire, count in ((at_red, 1000), (at_blue, 4000)):
            wire.send(b"get hot\r\n" * count)
            assert [wire.values() for _ in range(count)] == [[]] * count

    page = proxy.http("/metrics")
    assert complaints(page) == ""
    of_places = {name for name in documented() if OF_PLACES.fullmatch(name)}
    families = re.findall(r"^# TYPE (\w+)", page, re.MULTILINE)
    assert of_places == {name for name in families if OF_PLACES.fullmatch(name)}
    found = dict(re.findall(r'^weir_pool_requests_total{pool="(.*)"} (\d+)$', page, re.MULTILINE))
    assert {name: int(count) >= len(keys) for name, count in found.items()} == {"red": True, "blue": True}
    assert f'weir_listener_sessions_accepted_total{{listener="{red}",pool="red"}} 1\n' in page
    assert f'weir_listener_sessions_accepted_total{{listener="{routes}"}} 1\n' in page
    assert 'weir_server_up{server="blue/s0"} 1\n' in page
    config = json.loads(proxy.http("/config"))
    assert [place["pool"] for place in config["listeners"]] == [None, "red", "blue"]
    assert {it["pool"]: it["servers"] for it in config["pools"]} == {
        "main": ["s0"],
        "users": ["s0"],
        "red": ["red/s0"],
        "blue": ["blue/s0"],
    }
    assert config["threads"] == 6, "four loops, shared out among three"
    assert json.loads(proxy.http("/ready"))["pools_down"] == []
    for query, expected in (("", ("users", ["s0"])), ("&pool=red", ("red", ["red/s0"]))):
        where = json.loads(proxy.http(f"/where?key=u:1{query}"))
        assert (where["pool"], where["servers"]) == expected
    with pytest.raises(urllib.error.HTTPError) as refused:
        proxy.http("/where?key=a&pool=users")
    with refused.value as answer:
        assert answer.read() == b'no [[listen]] has pool "users"; there are: red, blue\n'
    hottest = json.loads(proxy.http("/hot"))["keys"][:2]
    assert [(it["pool"], it["servers"]) for it in hottest] == [("blue", ["blue/s0"]), ("red", ["red/s0"])]
    assert hottest[0]["hash"] == hottest[1]["hash"]


def statistics(wire: Wire, topic: str = "") -> dict[str, str]:
    wire.send(f"stats {topic}".strip().encode() + b"\r\n")
    lines = (line.decode().split(" ", 2) for line in iter(wire.line, b"END"))
    return {name: value for _, name, value in lines}


def servers_named(wire: Wire) -> set[str]:
    return {name.rpartition(":")[0] for name in statistics(wire, "servers")}


def test_stats_at_a_place_are_of_its_pool_and_clients_are_counted_by_place_and_pool(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    red, red_too, blue, routes = Address.free(), SocketPath(tmp_path / "red.sock"), Address.free(), Address.free()
    text = f'default = "main"\n[[listen]]\naddress = "{routes}"\n' + places({"red": red, "blue": blue})
    text += places({"red": red_too}) + pool("main", servers[2:]) + pool("red", servers[:1])
    text += pool("blue", servers[:2], 'on_failure = "degrade"').replace(f"{LIVENESS_S}s", "7s")
    text += "[proxy]\nthreads = 6\nhot_keys = 8\nmax_connections = 4\n"
    proxy = start(stack, tmp_path / "weir.toml", text)
    with Wire(red) as at_red, Wire(red_too) as at_socket, Wire(blue) as at_blue, Wire(routes) as by_routes:
        for key in (b"a", b"b", b"c"):
            assert at_red.store(key, b"value") == b"STORED"
        assert at_socket.get(b"a") == [(b"a", b"value")]
        at_blue.send(b"get nothing\r\n" * 2000)
        assert [at_blue.values() for _ in range(2000)] == [[]] * 2000
        assert by_routes.store(b"a", b"value") == b"STORED"

        # Four clients are here, and no more may be.
        with Wire(blue) as fifth:
            assert fifth.line() == b"ERROR Too many open connections"

        def counted(wire: Wire) -> tuple[str, ...]:
            found = statistics(wire)
            names = ("curr_connections", "total_connections", "rejected_connections", "cmd_set", "cmd_get", "threads")
            return tuple(found[name] for name in names)

        assert counted(at_red) == counted(at_socket) == ("2", "2", "0", "3", "1", "2")
        eventually(lambda: counted(at_blue) == ("1", "1", "1", "0", "2000", "2"), "the fifth client came to blue")
        assert counted(by_routes) == ("1", "1", "0", "1", "0", "2")
        process = {statistics(wire)["pid"] for wire in (at_red, at_blue, by_routes)}
        assert process == {str(proxy.pid)}

        assert servers_named(at_red) == {"red/s0"}
        assert servers_named(at_blue) == {"blue/s0", "blue/s1"}
        assert servers_named(by_routes) == {"s0"}
        of_red, of_blue, of_routes = (statistics(wire, "settings") for wire in (at_red, at_blue, by_routes))
        ports = {"red": of_red["tcpport"], "blue": of_blue["tcpport"], "routes": of_routes["tcpport"]}
        assert ports == {"red": str(red.port), "blue": str(blue.port), "routes": str(routes.port)}
        assert of_red["domain_socket"] == str(tmp_path / "red.sock")
        assert "domain_socket" not in of_blue
        assert (of_red["listen"], of_red["servers"], of_blue["servers"]) == (str(red), "1", "2")
        assert (of_red["on_failure"], of_blue["on_failure"]) == ("strict", "degrade")
        assert (of_red["timeout_ms"], of_blue["timeout"]) == (f"{LIVENESS_S * 1000:.0f}", "7s")
        assert of_red["max_connections"] == of_blue["max_connections"] == "4"
        assert statistics(at_red, "proxy")["sessions_accepted"] == "2"
        # One of 64 requests is looked at, so red's may have been or not.
        for wire, pools in ((at_blue, {"blue"}), (at_red, {"red"})):
            hot = statistics(wire, "hot")
            found_pools = {value for name, value in hot.items() if name.endswith(":pool")}
            assert found_pools <= pools
        assert statistics(at_blue, "hot")["1:pool"] == "blue"

        # What one pool's clients set to nothing the others still count.
        assert at_red.ask(b"stats reset") == b"RESET"
        assert (statistics(at_socket)["cmd_set"], statistics(by_routes)["cmd_set"]) == ("0", "1")

        page = proxy.http("/metrics")
        at = {
            f'listener="{red}",pool="red"': 1,
            f'listener="unix:{red_too}",pool="red"': 1,
            f'listener="{blue}",pool="blue"': 1,
            f'listener="{routes}"': 1,
        }
        found = dict(re.findall(r"^weir_listener_sessions{(.*)} (\d+)$", page, re.MULTILINE))
        assert {labels: int(count) for labels, count in found.items()} == at
        found = dict(re.findall(r'^weir_pool_sessions{pool="(.*)"} (\d+)$', page, re.MULTILINE))
        assert found == {"red": "2", "blue": "1"}
        assert f'weir_listener_sessions_refused_total{{listener="{blue}",pool="blue"}} 1\n' in page
        assert "weir_sessions 4\n" in page
        assert "weir_sessions_refused_total 1\n" in page
        snapshot = json.loads(proxy.http("/snapshot"))
        assert {it["pool"]: it["sessions"] for it in snapshot["pools"]} == {"red": 2, "blue": 1}
        assert [(it["pool"], it["sessions"]) for it in snapshot["listeners"]] == [
            (None, 1),
            ("red", 1),
            ("blue", 1),
            ("red", 1),
        ]


def test_what_a_pool_says_holds_for_its_clients_and_a_reload_changes_it(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    strict, lenient = Address.free(), Address.free()
    text = places({"strict": strict, "lenient": lenient})
    good = text + pool("strict", servers[:1]) + pool("lenient", servers[:2], 'on_failure = "degrade"', "replicas = 2")
    proxy = start(stack, tmp_path / "weir.toml", good)
    with Wire(strict) as at_strict, Wire(lenient) as at_lenient:
        for wire in (at_strict, at_lenient):
            assert wire.store(b"key", b"value") == b"STORED"
        assert held(servers[1], b"key") == {b"key": b"value"}, "two copies in one pool, and one in the other"

        moved = good.replace(pool("strict", servers[:1]), pool("strict", servers[2:]))
        proxy.file.write_text(moved)
        status, summary = proxy.reload()
        assert (status, summary) == (200, "generation 2: 3 servers, 1 of them new, 1 removed\n")
        assert at_strict.get(b"key") == []
        assert at_lenient.get(b"key") == [(b"key", b"value")]
        assert at_strict.store(b"key", b"moved") == b"STORED"
        assert held(servers[2], b"key") == {b"key": b"moved"}

        proxy.file.write_text(moved.replace('pool = "lenient"', 'pool = "strict"'))
        status, reason = proxy.reload()
        assert status == 422
        assert reason.startswith("[[listen]] has no place any more for pool lenient")
        more = moved + pool("more", servers[:1]) + places({"more": Address.free()})
        proxy.file.write_text(more)
        status, summary = proxy.reload()
        assert status == 200
        assert "listeners stay as they are" in summary
        assert at_lenient.get(b"key") == [(b"key", b"value")]

        servers[0].kill()
        servers[1].kill()
        eventually(lambda: at_lenient.get(b"key") == [], "a miss where the pool degrades")
        # The other pool has lost nothing.
        assert at_strict.get(b"key") == [(b"key", b"moved")]


def test_a_user_who_may_not_use_the_pool_of_a_place_is_refused_there(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    red, blue = Address.free(), Address.free()
    passwords = write_passwords(tmp_path / "passwords", "user:password")
    text = places({"red": red, "blue": blue}) + pool("red", servers[:1]) + pool("blue", servers[:1])
    text += f'[proxy]\nauth_file = "{passwords}"\nallow_flush = true\n[[users]]\nname = "user"\npools = ["red"]\n'
    start(stack, tmp_path / "weir.toml", text)
    with logged_in(red) as mine, logged_in(blue) as others:
        assert mine.store(b"key", b"value") == b"STORED"
        for request in (b"get key", b"delete key", b"mg key v", b"flush_all"):
            assert others.ask(request) == b"CLIENT_ERROR pool not allowed"
        assert mine.get(b"key") == [(b"key", b"value")]


def test_engines_with_workers_refuse_pools_of_places(servers: list[Memcached], tmp_path: Path) -> None:
    file = tmp_path / "weir.toml"
    file.write_text(places({"red": Address.free()}) + pool("red", servers[:1]))
    for command in ("check", "proxy"):
        for engine in ("pool", "split"):
            text = file.read_text().partition("[proxy]")[0] + f'[proxy]\nengine = "{engine}"\n'
            file.write_text(text)
            words = [str(weir_binary()), command, *(["--config"] if command == "proxy" else []), str(file)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
            assert done.returncode == 2
            assert "[[listen]] with a pool belongs to --engine event" in done.stderr


POOLS = 24
KEYS = [b"user:%d" % number for number in range(100)]
HASHES = ["fnv1a_64", "md5", "crc32a", "murmur", "jenkins", "one_at_a_time"]


class Nutcracker(Process):
    """nutcracker with many pools over the same few servers, one of them behind a socket."""

    def __init__(self, folder: Path, servers: Sequence[Memcached]) -> None:
        self.file = folder / "nutcracker.yml"
        self.places: dict[str, Address | SocketPath] = {f"pool-{number:02}": Address.free() for number in range(POOLS)}
        self.places["pool-07"] = SocketPath(folder / "seven.sock")
        text = ""
        for number, (name, place) in enumerate(self.places.items()):
            mode = " 0600" if isinstance(place, SocketPath) else ""
            text += f"{name}:\n  listen: {str(place).removeprefix('unix:')}{mode}\n"
            text += f"  hash: {HASHES[number % len(HASHES)]}\n  distribution: {['ketama', 'modula'][number % 2]}\n"
            text += f"  timeout: {20_001 + number}\n  servers:\n"
            # Each pool has its own two of the three, under names that all of them use.
            for rank in range(2):
                server = servers[(number + rank) % len(servers)]
                text += f"   - {server.address}:{1 + number % 3} s{rank}\n"
        self.file.write_text(text)
        statistics = Address.free()
        options = ["-c", str(self.file), "-a", statistics.host, "-s", str(statistics.port)]
        super().__init__([program("nutcracker"), *options])


def test_one_process_takes_the_place_of_a_nutcracker_with_24_pools(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    """Each key that was set through nutcracker's port N is read through Weir's port N, and the reverse."""
    try:
        program("nutcracker")
    except FileNotFoundError:
        pytest.skip("nutcracker is not installed: `make bench` installs it")
    nutcracker = stack.enter_context(Nutcracker(tmp_path, servers))
    for place in nutcracker.places.values():
        nutcracker.wait_ready(place)
    command = [str(weir_binary()), "convert", "nutcracker", str(nutcracker.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text, mine = done.stdout, dict[str, Address | SocketPath]()
    for name, place in nutcracker.places.items():
        mine[name] = SocketPath(tmp_path / "mine.sock") if isinstance(place, SocketPath) else Address.free()
        old, new = (str(it).removeprefix("unix:") for it in (place, mine[name]))
        assert text.count(f'"{old}"') == 1
        text = text.replace(f'"{old}"', f'"{new}"')
    file = tmp_path / "weir.toml"
    file.write_text(text)
    checked = subprocess.run(
        [str(weir_binary()), "check", str(file)], capture_output=True, text=True, timeout=LIVENESS_S, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{mine['pool-03']}: to pool pool-03\n" in checked.stdout
    proxy = start(stack, file, text)
    assert proxy.threads() >= POOLS

    for name, place in mine.items():
        with Wire(nutcracker.places[name]) as old_way, Wire(place) as new_way:
            # Another pool may have written these keys there: its values have another name.
            for key in KEYS[:50]:
                assert old_way.store(key, name.encode()) == b"STORED"
            for key in KEYS[50:]:
                assert new_way.store(key, name.encode()) == b"STORED"
            expected = [(key, name.encode()) for key in KEYS]
            assert [new_way.get(key)[0] for key in KEYS] == expected
            assert [old_way.get(key)[0] for key in KEYS] == expected
            assert new_way.get(*KEYS) == expected

    config = json.loads(proxy.http("/config"))
    assert {it["pool"]: it["timeout"] for it in config["pools"]} == {
        name: f"{20_001 + number}ms" for number, name in enumerate(nutcracker.places)
    }
    page = proxy.http("/metrics")
    requests = dict(re.findall(r'^weir_pool_requests_total{pool="(.*)"} (\d+)$', page, re.MULTILINE))
    assert requests == dict.fromkeys(nutcracker.places, "151"), "50 writes, 100 gets and one of all"
    for name in ("pool-00", "pool-13"):
        command = [str(weir_binary()), "where", "--config", str(file), "--pool", name]
        printed = subprocess.run(
            [*command, *(key.decode() for key in KEYS)], capture_output=True, text=True, timeout=LIVENESS_S, check=True
        )
        asked = (f"/where?key={urllib.parse.quote(key.decode())}&pool={name}" for key in KEYS[:5])
        said = [json.loads(proxy.http(path))["servers"] for path in asked]
        assert [line.split(" ") for line in printed.stdout.splitlines()[:5]] == said
        assert {line.split("/")[0] for line in printed.stdout.splitlines()} == {name}
