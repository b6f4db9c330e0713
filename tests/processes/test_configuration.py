"""Configurations: a wrong file is refused with its line and a reason, by `weir check` and by a reload.

And who comes before whom: flags, environment, file, defaults."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import log
from tests.harness.processes import LIVENESS_S, Address, ConfiguredProxy, Memcached, Process, SocketPath, weir_binary
from tests.harness.wire import Wire

GOOD = """\
default = "main"

[proxy]
threads = 1
drain_timeout = "5s"
max_connections = 1000
client_buffer = "8m"
allow_flush = false

[pools.main]
servers = [
  "127.0.0.1:20001:1 red",
  "127.0.0.1:20002:2 blue",
  "127.0.0.1:20003 green",
]
placement = "twemproxy/ketama"
hash = "fnv1a_64"
hash_tag = "{}"
replicas = 2
timeout = "400ms"

[pools.users]
servers = ["localhost:20004", "unix:/run/memcached.sock:3"]
placement = "ring"
timeout = "400ms"

[routes]
"user:" = "users"
"user:old:" = "main"
"""

# What is exchanged in the good file, for what, the line that is at fault, and words of the reason that name the mend.
SLIPS: list[tuple[str, str, int, str]] = [
    # Keys that are none.
    ("default =", "defualt =", 1, "unknown field `defualt`, expected one of `pools`"),
    ("threads =", "thread =", 4, "unknown field `thread`, expected one of `listen`"),
    ("drain_timeout =", "drain-timeout =", 5, "unknown field `drain-timeout`, expected one of"),
    ("max_connections =", "maxconns =", 6, "unknown field `maxconns`, expected one of"),
    ("client_buffer =", "buffer =", 7, "unknown field `buffer`, expected one of"),
    ("allow_flush =", "flush =", 8, "unknown field `flush`, expected one of"),
    ("servers = [\n", "server = [\n", 11, "unknown field `server`, expected one of `servers`"),
    ('placement = "t', 'placements = "t', 16, "unknown field `placements`, expected one of"),
    ("hash = ", "hsh = ", 17, "unknown field `hsh`, expected one of"),
    ("hash_tag =", "hashtag =", 18, "unknown field `hashtag`, expected one of"),
    ("replicas =", "replica =", 19, "unknown field `replica`, expected one of"),
    ("[routes]", "[route]", 27, "unknown field `route`, expected one of `pools`"),
    ("[proxy]", "[proxies]", 3, "unknown field `proxies`, expected one of `pools`"),
    # Types that are others.
    ('default = "main"', "default = 1", 1, "invalid type: integer `1`, expected a string"),
    ('default = "main"', 'default = ["main"]', 1, "invalid type: sequence, expected a string"),
    ("threads = 1", 'threads = "1"', 4, 'expected a whole number, found "1"'),
    ("threads = 1", "threads = -1", 4, "expected a whole number, found -1"),
    ("threads = 1", "threads = 1.5", 4, "expected a whole number, found 1.5"),
    ('drain_timeout = "5s"', "drain_timeout = 5", 5, "expected a time with its unit (us, ms, s, m, h), in quotes"),
    ("max_connections = 1000", 'max_connections = "1k"', 6, 'expected a whole number, found "1k"'),
    (
        'client_buffer = "8m"',
        "client_buffer = 8",
        7,
        "expected a size with its unit (b, k, m, g), in quotes",
    ),
    ("allow_flush = false", 'allow_flush = "no"', 8, 'expected true or false, found "no"'),
    ("allow_flush = false", "allow_flush = 0", 8, "expected true or false, found 0"),
    ("replicas = 2", 'replicas = "2"', 19, 'expected a whole number, found "2"'),
    ("replicas = 2", "replicas = true", 19, "expected a whole number, found true"),
    ("replicas = 2", "replicas = -2", 19, "expected a whole number, found -2"),
    ('timeout = "400ms"', "timeout = 400", 20, "expected a time with its unit (us, ms, s, m, h), in quotes"),
    ('"127.0.0.1:20003 green"', "20003", 14, "invalid type: integer `20003`, expected a string"),
    ('"127.0.0.1:20003 green"', '["127.0.0.1:20003"]', 14, "invalid type: sequence, expected a string"),
    ('["localhost:20004", "unix:/run/memcached.sock:3"]', '"localhost:20004"', 23, "expected a sequence"),
    ('"user:" = "users"', '"user:" = 1', 28, "invalid type: integer `1`, expected a string"),
    ('"user:" = "users"', '"user:" = ["users"]', 28, "invalid type: sequence, expected a string"),
    # What is missing.
    ('default = "main"\n', "\n", 28, 'write default = "NAME" at the top: main, users'),
    ('servers = ["localhost:20004", "unix:/run/memcached.sock:3"]\n', "\n", 22, "missing field `servers`"),
    ('["localhost:20004", "unix:/run/memcached.sock:3"]', "[]", 23, "the pool has no servers: give at least one"),
    # What is there twice.
    ("threads = 1\n", "threads = 1\nthreads = 2\n", 5, "duplicate key"),
    ("replicas = 2\n", "replicas = 2\nreplicas = 2\n", 20, "duplicate key"),
    ("[pools.users]", "[pools.main]", 22, "duplicate key"),
    ('"user:old:" =', '"user:" =', 29, "duplicate key"),
    ("20002:2 blue", "20001:2 blue", 13, "server blue is in the pool twice: remove one"),
    ("20002:2 blue", "20002:2 red", 13, "server red is in the pool twice: remove one, or give them different names"),
    ("20002:2 blue", "20001:1 red", 13, "server red is in the pool twice"),
    (
        "localhost:20004",
        "localhost:20004 red",
        23,
        "server name red stands for 127.0.0.1:20001 and for localhost:20004",
    ),
    ("[proxy]\n", '[proxy]\ntimeout = "1s"\n', 21, "timeout is set in [proxy] already: remove one"),
    # Names of nothing.
    ('default = "main"', 'default = "mine"', 1, 'default pool "mine" is not there: there are main, users'),
    ('default = "main"', 'default = ""', 1, 'default pool "" is not there: there are main, users'),
    ('"user:" = "users"', '"user:" = "user"', 28, 'leads to pool "user", which is not there: there are main, users'),
    ('"user:old:" = "main"', '"user:old:" = ""', 29, 'leads to pool "", which is not there: there are main, users'),
    ("twemproxy/ketama", "ketamas", 16, 'unknown placement "ketamas": use one of modulo, ring'),
    ("twemproxy/ketama", "Twemproxy/Ketama", 16, "use one of modulo, ring"),
    ("twemproxy/ketama", "", 16, 'unknown placement "": use one of'),
    ("fnv1a_64", "sha1", 17, 'unknown hash "sha1"'),
    ("fnv1a_64", "", 17, 'unknown hash ""'),
    ("fnv1a_64", "murmur3", 17, "placement twemproxy/ketama knows no hash murmur3: use fnv1a_64"),
    ("twemproxy/ketama", "mcrouter/Ch3", 17, "it has one of its own; leave the hash out"),
    # Prefixes that no key has.
    ('"user:"', '""', 28, "is no prefix of a key: write 1 to 250 bytes"),
    ('"user:"', '"user :"', 28, "without spaces and control characters"),
    ('"user:"', '"user\\n"', 28, "without spaces and control characters"),
    ('"user:"', '"user\\u007f"', 28, "without spaces and control characters"),
    ('"user:"', '"' + "u" * 251 + '"', 28, "is no prefix of a key: write 1 to 250 bytes"),
    # Servers that are none.
    ("127.0.0.1:20003 green", "127.0.0.1", 14, "has no port: write host:port"),
    ("127.0.0.1:20003 green", "", 14, "has no port: write host:port"),
    ("127.0.0.1:20003 green", "127.0.0.1:", 14, "has no valid port: write host:port with a port from 1 to 65535"),
    ("127.0.0.1:20003 green", "127.0.0.1:0", 14, "with a port from 1 to 65535"),
    ("127.0.0.1:20003 green", "127.0.0.1:65536", 14, "with a port from 1 to 65535"),
    ("127.0.0.1:20003 green", "127.0.0.1:http", 14, "with a port from 1 to 65535"),
    ("127.0.0.1:20003 green", ":20003", 14, "has no valid host: write host:port without spaces"),
    ("127.0.0.1:20003 green", "a/b:20003", 14, "has no valid host"),
    ("127.0.0.1:20003 green", "h" * 256 + ":20003", 14, "the host at most 255 bytes long"),
    ("127.0.0.1:20003 green", "::1:20003", 14, "has no valid IPv6 address: write [address]:port"),
    ("127.0.0.1:20003 green", "[::1:20003", 14, "write [address]:port"),
    ("127.0.0.1:20003 green", "[host]:20003", 14, "write [address]:port"),
    ("127.0.0.1:20003 green", "127.0.0.1:20003 ", 14, "has no valid name: write host:port name"),
    ("127.0.0.1:20003 green", "127.0.0.1:20003 a b", 14, "without spaces or commas"),
    ("127.0.0.1:20003 green", "127.0.0.1:20003 a,b", 14, "without spaces or commas"),
    ("127.0.0.1:20003 green", "127.0.0.1:20003 " + "n" * 256, 14, "the name at most 255 bytes long"),
    ("unix:/run/memcached.sock:3", "unix:", 23, "has no valid path: write unix:/path"),
    ("unix:/run/memcached.sock:3", "unix:run/memcached.sock", 23, "has no valid path: write unix:/path"),
    ("unix:/run/memcached.sock:3", "unix:/run/" + "m" * 110, 23, "at most 107 bytes long"),
    # Weights that are none.
    ("20002:2 blue", "20002:0 blue", 13, 'weight "0" is no number above 0'),
    ("20002:2 blue", "20002:-2 blue", 13, "is no number above 0 with at most nine digits"),
    ("20002:2 blue", "20002:two blue", 13, "is no number above 0"),
    ("20002:2 blue", "20002: blue", 13, "is no number above 0"),
    ("20002:2 blue", "20002:1234567890 blue", 13, "at most nine digits before and after the point"),
    ("20002:2 blue", "20002:0.5 blue", 13, "takes whole weights only"),
    ("sock:3", "sock:9000", 23, "divide all by the same number"),
    ("sock:3", "sock:x", 23, "is no number above 0"),
    # Numbers and times out of range.
    ("replicas = 2", "replicas = 0", 19, "0 replicas are impossible with 3 servers: choose 1 to 3"),
    ("replicas = 2", "replicas = 4", 19, "4 replicas are impossible with 3 servers: choose 1 to 3"),
    (
        'timeout = "400ms"',
        'timeout = "0s"',
        20,
        "timeout: 0s is too little: every request would fail; give at least 1us",
    ),
    ('timeout = "400ms"', 'timeout = "fast"', 20, "timeout: "),
    ('timeout = "400ms"', 'timeout = "-1s"', 20, "timeout: "),
    (
        'timeout = "400ms"',
        'timeout = "1s"',
        25,
        "differ in timeout: give them the same, or write it in [proxy]",
    ),
    ('drain_timeout = "5s"', 'drain_timeout = "5 years"', 5, "drain_timeout: "),
    ('client_buffer = "8m"', 'client_buffer = "8t"', 7, 'client_buffer: the unit "t" is none of b, k, m, g'),
    (
        'client_buffer = "8m"',
        'client_buffer = "8"',
        7,
        "client_buffer: 8 has no unit: write 8b for bytes, 8k, 8m or 8g",
    ),
    ('drain_timeout = "5s"', 'drain_timeout = "5"', 5, "drain_timeout: 5 has no unit: write 5us, 5ms, 5s, 5m or 5h"),
    ('timeout = "400ms"', 'timeout = "400"', 20, "timeout: 400 has no unit: write 400us, 400ms, 400s, 400m or 400h"),
    ('client_buffer = "8m"', 'client_buffer = ""', 7, "a size is a number and a unit, such as 64k or 1m"),
    ("threads = 1", 'listen_mode = "999"', 4, "is no mode: give three octal digits, such as 660"),
    ("threads = 1", 'listen = "nowhere"', 4, "is no address: write host:port or unix:/path"),
    ("threads = 1", 'engine = "fork"', 4, 'engine: "fork" is none of event, pool, split'),
    ("threads = 1", 'admin = "21280"', 4, "is no address: write host:port"),
    ("threads = 1", 'resolve_every = "often"', 4, "resolve_every: "),
    ('hash_tag = "{}"', 'hash_tag = "{"', 18, 'hash tag "{" is no pair'),
    ('hash_tag = "{}"', 'hash_tag = "{}}"', 18, "is no pair"),
    ("replicas = 2", 'salt = "pepper"', 19, "placement twemproxy/ketama knows no salt: remove it"),
    # What is no TOML.
    ('"127.0.0.1:20001:1 red",', '"127.0.0.1:20001:1 red"', 13, ""),
    ('"127.0.0.1:20002:2 blue",', '"127.0.0.1:20002:2 blue,', 14, "missing comma"),
    ("threads = 1", "threads: 1", 4, ""),
    ("threads = 1", "threads =", 4, ""),
    ("[pools.users]", "[pools.users", 22, ""),
    ("[pools.users]", "pools.users]", 22, ""),
    ("[pools.users]", "[pools.]", 22, ""),
    ('"ring"', "ring", 24, ""),
    ("allow_flush = false", "allow_flush = maybe", 8, ""),
]

# A file that was cut while it was written: after this number of its lines, in the middle of the next.
CUTS = [
    (GOOD.index(mark) + len(mark), line)
    for mark, line in [
        ('default = "ma', 1),
        ("[pro", 3),
        ("threads", 4),
        ('drain_timeout = "5', 5),
        ("allow_flush = fal", 8),
        ("[pools.ma", 10),
        ("servers = [\n", 11),
        ('"127.0.0.1:20002:2', 13),
        ('placement = "twem', 16),
        ("replicas =", 19),
        ("[pools.users]\n", 22),
        ('"user:" =', 28),
    ]
]


def files() -> dict[str, tuple[str, int | None, str]]:
    """Each wrong file by a name: its text, the line at fault if one is, and what the reason says."""
    slips: dict[str, tuple[str, int | None, str]] = {
        f"{number:03} {wrong[:40]!r}": (GOOD.replace(right, wrong, 1), line, says)
        for number, (right, wrong, line, says) in enumerate(SLIPS)
    }
    cuts: dict[str, tuple[str, int | None, str]] = {
        f"cut after {GOOD[:end][-20:]!r}": (GOOD[:end], line, "") for end, line in CUTS
    }
    others: dict[str, tuple[str, int | None, str]] = {
        "empty": ("", 1, "missing field `pools`"),
        "no pool": ("[pools]\n", None, "there is no pool: write [pools.NAME] and its servers"),
        "binary": ("\0\1\2", 1, ""),
        "another proxy's": ("alpha:\n  listen: 127.0.0.1:22121\n", 1, ""),
    }
    return {**slips, **cuts, **others}


def check(file: Path, *flags: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(weir_binary()), "check", str(file), *flags],
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_good_file_is_good(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    status, said = check(file)
    assert status == 0, said
    assert '"user:": to pool users\n' in said
    assert len(files()) >= 100
    assert all(text != GOOD for text, _, _ in files().values()), "each slip changes the file"


def test_wrong_files_are_refused_with_line_and_reason(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    file = tmp_path / "weir.toml"
    file.write_text(f'[pools.main]\nservers = ["{servers[0].address}"]\n')
    proxy = stack.enter_context(ConfiguredProxy(file, "--timeout", f"{LIVENESS_S}s"))
    proxy.wait_ready(proxy.address)
    proxy.wait_ready(proxy.admin)
    wrong = []
    with Wire(proxy.address) as wire:
        for name, (text, line, says) in files().items():
            file.write_text(text)
            status, said = check(file)
            where = f"{file}" if line is None else f"{file}:{line}"
            expected = rf"weir: {re.escape(where)}: .*{re.escape(says)}"
            if status != 2 or re.match(expected, said, re.DOTALL) is None:
                wrong.append(f"{name}: status {status}, line {line} and {says!r} expected: {said}")
            reloaded = proxy.reload()
            if (reloaded[0], f"weir: {reloaded[1]}") != (422, said):
                wrong.append(f"{name}: a reload says {reloaded}, check says {said!r}")
            # The old table still serves, and this client was not disturbed.
            assert wire.store(b"key", name.encode()) == b"STORED", name
    assert not wrong, "\n".join(wrong)
    config = proxy.snapshot()["config"]
    assert (config["generation"], config["reloads_refused"]) == (1, len(files()))
    with Wire(servers[0].address) as direct:
        assert direct.get(b"key") == [(b"key", name.encode())]


# Settings and pools, each good or not by itself or with others; what `proxy` says of each must be what `check` says.
# Every setting by itself is tried in crates/weir/src/check.rs.
TWO_POOLS = '[pools.a]\nservers = ["127.0.0.1:20001"]\n[pools.b]\nservers = ["127.0.0.1:20002"]\n'
ONE_POOL = '[pools.a]\nservers = ["127.0.0.1:20001", "127.0.0.1:20002"]\n'
AGREED: dict[str, tuple[bool, str]] = {
    "one pool": (True, ONE_POOL),
    "two pools without a default": (False, TWO_POOLS),
    "two pools with a default": (True, 'default = "b"\n' + TWO_POOLS),
    "two pools and routes without a default": (False, TWO_POOLS + '[routes]\n"u" = "b"\n'),
    "two pools and routes": (True, 'default = "a"\n' + TWO_POOLS + '[routes]\n"u" = "b"\n'),
    "no threads": (False, "[proxy]\nthreads = 0\n" + ONE_POOL),
    "workers of another engine": (False, "[proxy]\nworkers = 3\n" + ONE_POOL),
    "workers": (True, '[proxy]\nengine = "pool"\nworkers = 3\n' + ONE_POOL),
    "repairs and flushes": (False, '[proxy]\nread_repair = "on"\nallow_flush = true\n' + ONE_POOL),
    "whole multi-gets of one replica": (False, '[proxy]\nmultiget = "whole"\n' + ONE_POOL),
    "whole multi-gets": (True, '[proxy]\nmultiget = "whole"\n' + ONE_POOL + "replicas = 2\n"),
    # No name server is asked for a label of 64 letters.
    "a name without an address": (True, f'[pools.a]\nservers = ["127.0.0.1:20001", "{"x" * 64}:20002"]\n'),
}


@pytest.mark.parametrize("name", AGREED)
def test_check_and_proxy_agree(stack: ExitStack, tmp_path: Path, name: str) -> None:
    """Two pools without a default passed `check`, and the proxy refused them; so did no threads."""
    good, text = AGREED[name]
    file = tmp_path / "weir.toml"
    file.write_text(text)
    status, said = check(file)
    assert status == (0 if good else 2), said
    listen = Address.free()
    proxy = stack.enter_context(Process([str(weir_binary()), "proxy", "--config", str(file), "--listen", str(listen)]))
    if good:
        proxy.wait_ready(listen)
    else:
        assert proxy.wait() == 2
        assert proxy.output() == said


def test_check_of_a_pool_and_of_names(tmp_path: Path) -> None:
    file = tmp_path / "weir.toml"
    file.write_text(TWO_POOLS)
    assert check(file, "--pool", "b")[0] == 0
    file.write_text(AGREED["a name without an address"][1])
    status, said = check(file)
    assert status == 0
    assert re.search("weir: warning: .*: server x{64}:20002 cannot be resolved: ", said), said
    status, said = check(file, "--resolve")
    assert status == 2
    assert re.match("weir: .*: server x{64}:20002 cannot be resolved: ", said), said


def test_pools_that_are_not_served_are_named(stack: ExitStack, tmp_path: Path) -> None:
    """With a default, `check` printed both pools, and the proxy served one of them without a word."""
    file = tmp_path / "weir.toml"
    file.write_text('default = "b"\n' + TWO_POOLS)
    assert "a: not served: no route, no default and no [[listen]] leads there\n" in check(file)[1]
    proxy = stack.enter_context(ConfiguredProxy(file, *log.OPTIONS))
    proxy.wait_ready(proxy.address)
    line = log.wait_reported(proxy, "pools_not_served")
    assert (line["level"], line["pools"]) == ("warn", "a")
    assert line["message"].startswith("not served: a (no route, no default and no [[listen]] leads there; ")
    # A reload names what it leaves out; with a route nothing is left out.
    file.write_text('default = "b"\n' + TWO_POOLS + TWO_POOLS.replace("s.a", "s.c").split("[pools.b]", 1)[0])
    assert proxy.reload()[0] == 200
    assert log.reported(proxy, "pools_not_served")[-1]["pools"] == "a, c"
    file.write_text('default = "b"\n' + TWO_POOLS + '[routes]\n"u" = "a"\n')
    assert proxy.reload()[0] == 200
    assert len(log.reported(proxy, "pools_not_served")) == 2
    # Whoever asks for a pool knows of the others: no warning.
    file.write_text(TWO_POOLS)
    assert "b: not served: no route leads there, and --pool is a\n" in check(file, "--pool", "a")[1]
    chosen = stack.enter_context(ConfiguredProxy(file, "--pool", "a", *log.OPTIONS))
    chosen.wait_ready(chosen.address)
    line = log.wait_reported(chosen, "pools_not_served")
    assert (line["level"], line["pools"]) == ("info", "b")


NUTCRACKER = """\
alpha:
  listen: /tmp/alpha.sock 0600
  client_connections: 12
  timeout: 400
  servers: ["127.0.0.1:20001:1"]
beta:
  listen: 127.0.0.1:22122
  servers: ["127.0.0.1:20002:1"]
"""


def test_a_converted_file_from_standard_input_is_good(stack: ExitStack, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(weir_binary()), "convert", "nutcracker", "-"],
        input=NUTCRACKER,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=True,
    )
    file, path = tmp_path / "weir.toml", tmp_path / "alpha.sock"
    file.write_text(done.stdout.replace("/tmp/alpha.sock", str(path)))
    status, summary = check(file)
    assert (status, f"{path}: to pool alpha\n127.0.0.1:22122: to pool beta\n" in summary) == (0, True)
    # One of them alone is served at its own place.
    assert check(file, "--pool", "beta")[0] == 0
    proxy = stack.enter_context(Process([str(weir_binary()), "proxy", "--config", str(file), "--pool", "alpha"]))
    proxy.wait_ready(SocketPath(path))
    assert path.stat().st_mode & 0o777 == 0o600
    with Wire(SocketPath(path)) as wire:
        wire.send(b"stats settings\r\n")
        reported = dict(line.decode().split(" ", 2)[1:] for line in iter(wire.line, b"END"))
    assert (reported["servers"], reported["timeout_ms"]) == ("1", "400")


def documented() -> dict[str, str]:
    """What the page says of each setting, by its name in the file."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text()
    rows = (line.split(" | ") for line in page.splitlines() if line.startswith("| `--"))
    names = ((re.match("`([a-z_]+)`", row[1]), row[-1]) for row in rows)
    return {name[1]: text for name, text in names if name is not None and name[1] not in ("servers", "default")}


def test_every_setting_is_reported_by_its_name(stack: ExitStack, tmp_path: Path) -> None:
    """`/config` had no settings of the log, and 14 others were not there; `stats settings` had 8."""
    file = tmp_path / "weir.toml"
    file.write_text('[pools.main]\nservers = ["127.0.0.1:20001"]\n')
    proxy = stack.enter_context(ConfiguredProxy(file))
    proxy.wait_ready(proxy.address)
    proxy.wait_ready(proxy.admin)
    config = proxy.reported("/config")
    with Wire(proxy.address) as wire:
        wire.send(b"stats settings\r\n")
        reported = dict(line.decode().split(" ", 2)[1:] for line in iter(wire.line, b"END"))
    page = documented()
    assert len(page) >= 53
    of_pool = {name: value for name, value in config["pools"][0].items() if name not in ("pool", "servers")}
    assert {**config["settings"], **of_pool}.keys() - {"batch_always"} == page.keys()
    assert page.keys() <= reported.keys()
    for name, text in page.items():
        default = re.search(r"\[default: (.*)\]", text)
        if default is not None and name != "listen":
            value = {**config["settings"], **of_pool}[name]
            assert str(value).lower() == default[1], name
            assert reported[name] == default[1], name
    assert (config["settings"]["max_value"], reported["max_value"]) == (None, "unset")
    assert (config["settings"]["listen"], reported["listen"]) == (str(proxy.address),) * 2


class Layered(Process):
    """A proxy with variables of the environment."""

    def __init__(self, environment: dict[str, str], *flags: str) -> None:
        self.address, self.admin = Address.free(), Address.free()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        variables = {"WEIR_LISTEN": str(self.address), "WEIR_ADMIN": str(self.admin), **environment}
        command = ["env", "-i", *(f"{name}={value}" for name, value in {**kept, **variables}.items())]
        super().__init__([*command, str(weir_binary()), "proxy", *flags])


def settings(stack: ExitStack, environment: dict[str, str], *flags: str) -> dict[str, str]:
    """What is in force under these variables and flags."""
    proxy = stack.enter_context(Layered(environment, *flags))
    proxy.wait_ready(proxy.address)
    with Wire(proxy.address) as wire:
        wire.send(b"stats settings\r\n")
        return dict(line.decode().split(" ", 2)[1:] for line in iter(wire.line, b"END"))


def test_flags_come_before_environment_before_file_before_defaults(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "weir.toml"
    file.write_text(
        "[proxy]\nthreads = 2\nmax_connections = 22\nallow_flush = true\n"
        '[pools.main]\nservers = ["127.0.0.1:20001", "127.0.0.1:20002"]\ntimeout = "2222ms"\n'
    )
    by_file = settings(stack, {"WEIR_CONFIG": str(file)})
    names = ("num_threads", "maxconns", "timeout_ms", "flush_enabled", "servers")
    assert [by_file[name] for name in names] == ["2", "22", "2222", "yes", "2"]
    variables = {"WEIR_THREADS": "3", "WEIR_TIMEOUT": "3333ms", "WEIR_ALLOW_FLUSH": "no"}
    by_variable = settings(stack, variables, "--config", str(file))
    assert [by_variable[name] for name in names] == ["3", "22", "3333", "no", "2"]
    flags = ("--threads", "4", "--max-connections", "44", "--allow-flush", "--config", str(file))
    by_flag = settings(stack, variables, *flags)
    assert [by_flag[name] for name in names] == ["4", "44", "3333", "yes", "2"]
    by_default = settings(stack, {"WEIR_SERVER": "127.0.0.1:20001,127.0.0.1:20002:2 red,127.0.0.1:20003"})
    assert [by_default[name] for name in names[1:]] == ["10000", "500", "no", "3"]
    # As many event loops as the proxy may use cores.
    assert int(by_default["num_threads"]) == len(os.sched_getaffinity(0))


def test_servers_of_flags_come_before_a_file_of_the_environment(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "weir.toml"
    file.write_text('[pools.main]\nservers = ["127.0.0.1:20001", "127.0.0.1:20002"]\n')
    by_flag = settings(stack, {"WEIR_CONFIG": str(file)}, "--server", "127.0.0.1:20003")
    assert by_flag["servers"] == "1"
    by_file = settings(stack, {"WEIR_SERVER": "127.0.0.1:20003", "WEIR_REPLICAS": "1"}, "--config", str(file))
    assert by_file["servers"] == "2"


@pytest.mark.parametrize(
    ("environment", "flags", "says"),
    [
        ({}, ("--server", "127.0.0.1:20001", "--timeout", "400"), "400 has no unit: write 400us, 400ms, 400s, 400m or"),
        (
            {"WEIR_IDLE_TIMEOUT": "30"},
            ("--server", "127.0.0.1:20001"),
            "30 has no unit: write 30us, 30ms, 30s, 30m or 30h",
        ),
        (
            {"WEIR_CLIENT_BUFFER": "64"},
            ("--server", "127.0.0.1:20001"),
            "64 has no unit: write 64b for bytes, 64k, 64m",
        ),
        ({"WEIR_THREADS": "many"}, ("--server", "127.0.0.1:20001"), "many"),
        ({"WEIR_ALLOW_FLUSH": "perhaps"}, ("--server", "127.0.0.1:20001"), "perhaps"),
        ({}, ("--config", "a.toml", "--server", "127.0.0.1:20001"), "--config and --server cannot both be given"),
        ({}, ("--config", "a.toml", "--hash-tag", "{}"), "--config and --hash-tag cannot both be given"),
        ({"WEIR_CONFIG": "a.toml", "WEIR_SERVER": "a:1"}, (), "WEIR_CONFIG and WEIR_SERVER cannot both be given"),
        ({"WEIR_CONFIG": "a.toml"}, ("--replicas", "1"), "give --server for each, or --config FILE"),
        ({"WEIR_CONFIG": "/nonexistent/a.toml"}, (), "/nonexistent/a.toml: cannot be read"),
        ({}, ("--server", "a:1", "--pool", "main"), "--pool names a pool of a file: give --config FILE"),
        ({"WEIR_SERVER": "a"}, (), 'server "a" has no port'),
        ({"WEIR_WORKERS": "2"}, ("--server", "a:1"), "--workers belongs to --engine pool, and the engine is event"),
        ({"WEIR_ENGINE": "pool"}, ("--server", "a:1", "--threads", "2"), "--threads belongs to --engine event"),
    ],
)
def test_contradictions_are_named(
    stack: ExitStack, environment: dict[str, str], flags: tuple[str, ...], says: str
) -> None:
    proxy = stack.enter_context(Layered(environment, *flags))
    assert proxy.wait() == 2
    assert says in proxy.output(), proxy.output()
